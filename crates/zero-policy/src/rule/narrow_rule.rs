//! Detects deny and ask rules that match less than they seem to.

use std::path::{Path, PathBuf};

use super::command_pattern::CommandPattern;
use super::path_pattern::{self, PatternBase, RulePathPattern};
use super::rule_target::{RulePattern, RuleTarget};

/// Most words of a command that is probably meant with any arguments: `rm`, `git push`.
const ACTION_WORDS_MAX: usize = 2;

/// Why a deny or ask rule matches less than it seems to. `is_elsewhere` returns whether a path
/// exists on the machine, but not in the workspace.
pub(super) fn narrow_reason(
    text: &str,
    target: &RuleTarget,
    is_elsewhere: &dyn Fn(&Path) -> bool,
) -> Option<String> {
    let RuleTarget::Tool { tool, pattern: Some(pattern) } = target else { return None };
    match pattern {
        RulePattern::Command(CommandPattern::Exact(words)) => {
            let is_plain = |word: &String| word.starts_with(|char: char| char.is_alphanumeric());
            let is_action = words.len() <= ACTION_WORDS_MAX && words.iter().all(is_plain);
            let command = words.join(" ");
            is_action.then(|| {
                format!(
                    "it matches `{command}` only without further arguments; write \
                     `{tool}({command}:*)` to match it with any"
                )
            })
        }
        RulePattern::Path(path) => {
            let (start, pattern) = text.split_once("(/")?;
            let folder = first_folder(path)?;
            is_elsewhere(&folder).then(|| {
                let folder = folder.display();
                format!(
                    "`/` is the workspace, which has no `{folder}`; did you mean \
                     `{start}(//{pattern}`?"
                )
            })
        }
        RulePattern::Command(_) | RulePattern::Domain(_) => None,
    }
}

/// The first component of a path in the workspace, as a path of the machine; `None` if it is not
/// one name.
fn first_folder(path: &RulePathPattern) -> Option<PathBuf> {
    let first = path.parts.first().filter(|_| path.base == PatternBase::Workspace)?;
    path_pattern::literal(first).map(|name| Path::new("/").join(name))
}
