//! The grants offered as "for this session": exactly what was shown, never more.
//!
//! A grant covers a later call if that call would offer the same grant, so only offered grants
//! exist: wildcards are not widened, a folder does not include its contents, and another folder or
//! another program of the same name needs another grant.

use super::{EffectAssessment, PolicyEngine, RequestEvaluator};
use crate::decision::{GrantScope, Verdict};
use crate::program::{CommandClass, FileAccess};
use crate::rule::overbroad_rule::reads_program_from_input;
use crate::rule_set::PathViews;
use crate::shell::ShellArg;
use crate::shell::analysis::{CommandInvocation, WorkingFolders};
use crate::word_list::words;

/// Most questions that one answer settles; with more, each is asked separately.
const GRANTS_MAX: usize = 5;

/// The grants that would answer every question; empty if one question cannot be granted.
pub(super) fn collect_grants(judged: &[EffectAssessment]) -> Vec<GrantScope> {
    let mut grants: Vec<GrantScope> = Vec::new();
    for judged in judged.iter().filter(|judged| judged.verdict == Verdict::Ask) {
        match &judged.grant {
            Some(grant) if grants.contains(grant) => {}
            Some(grant) if grants.len() < GRANTS_MAX => grants.push(grant.clone()),
            _ => return Vec::new(),
        }
    }
    grants
}

impl PolicyEngine {
    /// The grant for a file.
    pub(super) fn build_file_grant(
        &self,
        access: FileAccess,
        views: &PathViews,
    ) -> Option<GrantScope> {
        let tool = match access {
            FileAccess::Read => "Read",
            FileAccess::Write => "Edit",
            FileAccess::Delete => "Delete",
        };
        let root = self.places.roots.first();
        let path = views.canonical.to_str()?;
        let pattern = match root.and_then(|root| views.canonical.strip_prefix(root).ok()) {
            Some(below) => format!("/{}", below.to_str()?),
            None => format!("/{path}"),
        };
        // A name with glob characters cannot be granted exactly.
        let plain = !pattern.contains(['*', '?', '[', ']', '{', '}', '(', ')', '\\', '!'])
            && !pattern.chars().any(char::is_control)
            && pattern.trim() == pattern;
        let rule = format!("{tool}({pattern})");
        plain.then_some(GrantScope { rule, folder: None, program: None })
    }
}

impl RequestEvaluator<'_> {
    /// Whether the session has this grant.
    pub(super) fn is_granted(&self, offer: &GrantScope) -> bool {
        self.request.grants.contains(offer)
    }

    /// The grant for a command: program and subcommand with any arguments if that is one action,
    /// otherwise exactly this command. It is bound to the folder and to the program file.
    pub(super) fn build_command_grant(&self, invocation: &CommandInvocation) -> Option<GrantScope> {
        let WorkingFolders::OneOf(folders) = &invocation.folders else { return None };
        let [folder] = &folders[..] else { return None };
        let program = invocation.argv.first()?.as_known()?;
        let words: Vec<&str> = invocation.argv.iter().map_while(ShellArg::as_known).collect();
        if reads_program_from_input(&words) {
            // The same words run something else with another input.
            return None;
        }
        let pattern = match find_subcommand(&words) {
            Some(act) if invocation.analysis.class == CommandClass::Opaque => {
                format!("{}:*", join_unquoted(act)?)
            }
            _ if words.len() == invocation.argv.len() => join_unquoted(&words)?,
            _ => return None,
        };
        let folder = self.resolve_working_folder(folder)?;
        let found = self.request.machine.find_program(program, &folder);
        let program = match found {
            Some(found) => Some(found.to_str()?.to_owned()),
            None => None,
        };
        let folder = Some(folder.to_str()?.to_owned());
        Some(GrantScope { rule: format!("Bash({pattern})"), folder, program })
    }
}

/// Joins words for a rule; `None` if one needs quotes, which rules do not support.
fn join_unquoted(words: &[&str]) -> Option<String> {
    let plain = |word: &&str| {
        !word.is_empty()
            && !word.contains(['*', '(', ')', '\'', '"', '\\', '`', '$'])
            && !word.ends_with(':')
            && !word.chars().any(|char| char.is_whitespace() || char.is_control())
    };
    let all = !words.is_empty() && words.iter().all(plain);
    all.then(|| words.join(" "))
}

/// Programs that check or test a project and do nothing else, whatever their arguments are: none of
/// these contains code itself. They run the project's code, so it does not matter which of it. A project has its own ones in `.venv/bin`
/// or `node_modules/.bin`.
const PROJECT_CHECKERS: &[&str] = words!(
    "pytest py.test mypy pyright flake8 jest vitest mocha eslint tsc stylelint \
     markdownlint rspec rubocop phpunit"
);

/// The words that name one action, whatever follows them: `git push`, `npm run build`.
///
/// Only if later arguments cannot turn it into another action: not `make a`, which can be continued
/// with `b`, and not `npm install`, which accepts any package.
fn find_subcommand<'w, 's>(words: &'w [&'s str]) -> Option<&'w [&'s str]> {
    let is_word = |word: &str| {
        word.starts_with(|c: char| c.is_ascii_alphabetic())
            && word.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_:.".contains(&b))
    };
    let base = words.first().and_then(|program| program.rsplit('/').next())?;
    let count = match words {
        _ if PROJECT_CHECKERS.contains(&base) => 1,
        [_, "check" | "format", ..] if base == "ruff" => 2,
        ["npm" | "pnpm" | "yarn", "run" | "run-script", script, ..] => {
            is_word(script).then_some(3)?
        }
        ["npm" | "pnpm" | "yarn", "test" | "t" | "start" | "build" | "lint", ..] => 2,
        [
            "git",
            "add" | "branch" | "checkout" | "cherry-pick" | "commit" | "fetch" | "merge" | "mv"
            | "pull" | "push" | "rebase" | "restore" | "revert" | "stash" | "switch" | "tag",
            ..,
        ] => 2,
        [
            "cargo",
            "bench" | "build" | "b" | "check" | "c" | "clippy" | "doc" | "fmt" | "nextest" | "run"
            | "r" | "test" | "t",
            ..,
        ] => 2,
        ["go", "build" | "fmt" | "mod" | "test" | "vet", ..] => 2,
        ["dotnet", "build" | "format" | "restore" | "test", ..] => 2,
        _ => return None,
    };
    words.get(..count)
}

#[cfg(test)]
mod tests {
    use super::find_subcommand;

    #[test]
    fn grant_names_action_of_command() {
        let rows = [
            ("npm run build --watch", Some("npm run build")),
            ("npm install x", None),
            ("cargo run -- a", Some("cargo run")),
            ("cargo install x", None),
            ("pytest -q tests", Some("pytest")),
            (".venv/bin/pytest -x", Some(".venv/bin/pytest")),
            (".venv/bin/ruff check --fix", Some(".venv/bin/ruff check")),
            (".venv/bin/ruff server", None),
            // Their options contain code.
            ("pylint x.py", None),
            ("ctest --test-dir build", None),
            (".venv/bin/pip install x", None),
            (".venv/bin/python -c x", None),
            ("./pytest/run x", None),
            ("make test", None),
        ];
        for (line, action) in rows {
            let words: Vec<&str> = line.split(' ').collect();
            let found = find_subcommand(&words).map(|found| found.join(" "));
            assert_eq!(found.as_deref(), action, "{line}");
        }
    }
}
