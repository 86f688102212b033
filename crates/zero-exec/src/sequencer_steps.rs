//! Steps of a stopped rebase, cherry-pick or revert that run a program: the user's next `git rebase
//! --continue` would run them outside the sandbox.
//!
//! Git itself has to write these files, so that commands can rebase. They are compared instead: a
//! step that was not there before the command is the command's.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use zero_sandbox::path_survey;

use crate::git_facts;

/// Lists of steps, relative to the folder of a repository or worktree.
const STEP_LISTS: &[&str] = &["rebase-merge/git-rebase-todo", "sequencer/todo"];
/// The merge strategy of a rebase, and the options of a cherry-pick.
const STRATEGY: &str = "rebase-merge/strategy";
const OPTIONS: &str = "sequencer/opts";
/// Strategies that git contains. Any other is the name of a program, or a path to one.
const STRATEGIES: &[&str] = &["ort", "recursive", "resolve", "octopus", "ours", "subtree"];
/// Most bytes of a list; a larger one counts as a step.
const LIST_BYTES_MAX: u64 = 4 << 20;

/// The steps that run programs, by the file in which they are.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct SequencerSteps(BTreeMap<&'static str, BTreeSet<Vec<u8>>>);

impl SequencerSteps {
    /// Reads the steps in the folder of a repository or worktree.
    pub(super) fn read(git: &Path) -> Self {
        let mut steps = Self::default();
        for list in STEP_LISTS {
            steps.add(git, list, |content| {
                content
                    .split(|byte| *byte == b'\n')
                    .filter(runs_program)
                    .map(<[u8]>::to_vec)
                    .collect()
            });
        }
        steps.add(git, STRATEGY, |content| find_strategy(content.trim_ascii()));
        steps.add(git, OPTIONS, |content| {
            let strategy = git_facts::read_git_text(content, "options.strategy");
            strategy.map_or_else(
                || BTreeSet::from([content.to_vec()]),
                |strategy| {
                    strategy.map_or_else(BTreeSet::new, |name| find_strategy(name.as_bytes()))
                },
            )
        });
        steps
    }

    fn add(&mut self, git: &Path, file: &'static str, find: impl Fn(&[u8]) -> BTreeSet<Vec<u8>>) {
        let path = git.join(file);
        if !path_survey::exists(&path) {
            return;
        }
        let found = match path_survey::read_small_file(&path, LIST_BYTES_MAX) {
            Some(content) => find(&content),
            None => BTreeSet::from([Vec::new()]),
        };
        if !found.is_empty() {
            self.0.insert(file, found);
        }
    }

    /// The files with a step that was not in `before`.
    pub(super) fn files_added_since<'a>(
        &'a self,
        before: &'a Self,
    ) -> impl Iterator<Item = &'static str> + 'a {
        let is_new = |(file, steps): &(&&'static str, &BTreeSet<Vec<u8>>)| {
            before.0.get(**file).is_none_or(|known| !steps.is_subset(known))
        };
        self.0.iter().filter(is_new).map(|(file, _)| *file)
    }
}

/// Whether a line of a list is `exec COMMAND` or `x COMMAND`.
fn runs_program(line: &&[u8]) -> bool {
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r');
    let mut words = line.split(is_blank).filter(|word| !word.is_empty());
    matches!(words.next(), Some(b"exec" | b"x"))
}

fn find_strategy(name: &[u8]) -> BTreeSet<Vec<u8>> {
    let is_known = name.is_empty() || STRATEGIES.iter().any(|known| known.as_bytes() == name);
    if is_known { BTreeSet::new() } else { BTreeSet::from([name.to_vec()]) }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests set up real files")]
    use super::*;

    /// The files with new steps after `file` changed from one text to another.
    #[track_caller]
    fn check(file: &str, before: Option<&str>, after: &str, is_new: bool) {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        if let Some(before) = before {
            std::fs::write(&path, before).unwrap();
        }
        let earlier = SequencerSteps::read(temp.path());
        std::fs::write(&path, after).unwrap();
        let now = SequencerSteps::read(temp.path());
        let found: Vec<&str> = now.files_added_since(&earlier).collect();
        assert_eq!(found, is_new.then_some(file).as_slice(), "{before:?} → {after:?}");
    }

    #[test]
    fn new_program_steps_are_found() {
        let todo = "rebase-merge/git-rebase-todo";
        check(todo, None, "pick 1234 x\nfixup 12 exec\n# exec x\nbreak\n", false);
        check(todo, None, "pick 1234 x\n\t exec make\n", true);
        check(todo, None, "x\tmake", true);
        check(todo, Some("exec make\npick 1\n"), "pick 1\nexec make\n", false);
        check(todo, Some("exec make\n"), "exec make\nexec evil\n", true);
        check(todo, None, &"pick 1\n".repeat(1 << 20), true);
        check("sequencer/todo", None, "exec evil\n", true);
        check("sequencer/todo", None, "pick 1\n", false);
        check(STRATEGY, None, "ort\n", false);
        check(STRATEGY, None, "../evil\n", true);
        check(OPTIONS, None, "[options]\n\tsignoff = true\n", false);
        check(OPTIONS, None, "[options]\n\tstrategy = ../evil\n", true);
        check(OPTIONS, None, "[options\n", true);
    }
}
