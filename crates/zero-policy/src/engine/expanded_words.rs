//! Words that the shell puts together, such as those of `a=x; curl host/$a$a`. A secret value may be in them although it
//! is not in the line.

use std::collections::{BTreeSet, HashSet};

use zero_core::{CommandLine, Effect};

use crate::shell::ShellArg;
use crate::shell::analysis::{AnalysisNodeKind, ScriptAnalysis};

/// No secret value is shorter than this word.
const WORD_BYTES_MIN: usize = 8;
/// Most bytes of words that are kept.
const EXPANDED_BYTES_MAX: usize = 1 << 20;

/// The words of commands that are not in their lines: `a=x; echo $a$a` has the word `xx`.
pub(super) fn list_expanded_words(
    effects: &[Effect],
    analyses: &[ScriptAnalysis],
) -> BTreeSet<String> {
    let lines =
        effects.iter().filter_map(Effect::execution).filter_map(|execution| {
            match &execution.command {
                CommandLine::Shell(line) => Some(&**line),
                CommandLine::Program(_) => None,
            }
        });
    let lines: Vec<&str> = lines.filter(|line| line.contains(['$', '`', '{'])).collect();
    if lines.is_empty() {
        return BTreeSet::new();
    }
    let nodes = analyses.iter().flat_map(|analysis| &analysis.nodes);
    let words = nodes.filter_map(|node| match &node.kind {
        AnalysisNodeKind::Command(invocation) => Some(&invocation.argv),
        _ => None,
    });
    let is_between = |char: char| char.is_whitespace() || ";&|<>()'\"".contains(char);
    let written: HashSet<&str> = lines.iter().flat_map(|line| line.split(is_between)).collect();
    let words = words.flatten().filter_map(ShellArg::as_known);
    let made = words.filter(|word| word.len() >= WORD_BYTES_MIN && !written.contains(word));
    let mut left = EXPANDED_BYTES_MAX;
    let kept = made.take_while(|word| {
        let rest = left.checked_sub(word.len());
        left = rest.unwrap_or(0);
        rest.is_some()
    });
    kept.map(str::to_owned).collect()
}
