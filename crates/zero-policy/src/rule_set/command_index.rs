//! Index of rules for commands.
//!
//! Allow rules are compared strictly, word by word. Deny and ask rules are compared loosely: the
//! folder of the program, the order of options and abbreviations do not matter.

mod glob_index;
mod loose_index;
mod strict_index;

use super::CommandWords;
use super::rule_position::earlier_rule;
use crate::Verdict;
use crate::rule::CommandPattern;

use glob_index::GlobIndex;
use loose_index::LooseIndex;
use strict_index::StrictIndex;

/// The command rules with one verdict.
#[derive(Debug, Default)]
pub(super) struct CommandRuleIndex {
    words: WordIndex,
    globs: GlobIndex,
}

#[derive(Debug)]
enum WordIndex {
    Strict(StrictIndex),
    Loose(LooseIndex),
}

impl Default for WordIndex {
    fn default() -> Self {
        Self::Loose(LooseIndex::default())
    }
}

impl CommandRuleIndex {
    pub(super) fn new(verdict: Verdict) -> Self {
        let words = match verdict {
            Verdict::Allow => WordIndex::Strict(StrictIndex::default()),
            Verdict::Ask | Verdict::Deny => WordIndex::Loose(LooseIndex::default()),
        };
        Self { words, globs: GlobIndex::default() }
    }

    pub(super) fn add(&mut self, command: &CommandPattern, place: usize) {
        match (command, &mut self.words) {
            (CommandPattern::Exact(words), WordIndex::Strict(rules)) => {
                rules.add_exact(words, place)
            }
            (CommandPattern::Prefix(words), WordIndex::Strict(rules)) => {
                rules.add_prefix(words, place)
            }
            (CommandPattern::Exact(words), WordIndex::Loose(rules)) => {
                rules.add_exact(words, place)
            }
            (CommandPattern::Prefix(words), WordIndex::Loose(rules)) => {
                rules.add_prefix(words, place)
            }
            (CommandPattern::Glob { words, more }, WordIndex::Strict(_)) => {
                self.globs.add(words, *more, glob_index::SpaceHandling::Distinct, place);
            }
            (CommandPattern::Glob { words, more }, WordIndex::Loose(_)) => {
                self.globs.add(words, *more, glob_index::SpaceHandling::Alike, place);
            }
        }
    }

    pub(super) fn build(&mut self) {
        self.globs.build();
    }

    pub(super) fn find(&self, command: &CommandWords<'_>) -> Option<usize> {
        let (program, arguments) = command.words.split_first()?;
        let program = command.program_path.or_else(|| program.as_known());
        match &self.words {
            WordIndex::Strict(rules) => {
                let by_words = rules.find(program, arguments);
                earlier_rule(by_words, self.globs.find_strictly(program, arguments))
            }
            WordIndex::Loose(rules) => {
                let by_words = program.and_then(|program| rules.find(program, arguments));
                earlier_rule(by_words, self.globs.find_loosely(program, arguments))
            }
        }
    }
}

/// The last component of a path.
fn base_name(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

/// The name of a program for loose comparison, without its folder. Folded, because on some file
/// systems `RM` runs `rm`.
fn loose_name(program: &str) -> String {
    base_name(program).to_lowercase()
}

/// The names of a program for strict comparison: as written, and its bare name if it is in a system
/// folder.
fn strict_names(program: &str) -> impl Iterator<Item = &str> {
    let installed = ["/usr/bin/", "/bin/", "/usr/local/bin/"]
        .iter()
        .find_map(|folder| program.strip_prefix(folder))
        .filter(|name| !name.is_empty() && !name.contains('/'));
    [program].into_iter().chain(installed)
}
