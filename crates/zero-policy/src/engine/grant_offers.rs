//! What "for this session" would grant: exactly what was shown, never more.
//!
//! A grant covers a later call when that call would offer the same grant, so nothing but what is
//! offered here can ever be granted: no wildcard is read generously, no folder opens what lies
//! beneath it, and another folder or program of the same name makes another grant.

use super::{EffectAssessment, RequestEvaluator};
use crate::decision::{GrantScope, Verdict};
use crate::program::{CommandClass, FileAccess};
use crate::rule_set::PathViews;
use crate::shell::ShellArg;
use crate::shell::analysis::{CommandInvocation, WorkingFolders};

/// Questions that one answer may settle; with more, each is asked by itself.
const GRANTS_MAX: usize = 5;

/// The grants that would have silenced every question, or none if one cannot be silenced.
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

impl RequestEvaluator<'_> {
    /// Whether this was granted for the session.
    pub(super) fn is_granted(&self, offer: &GrantScope) -> bool {
        self.request.grants.contains(offer)
    }

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
        let root = self.engine.places.roots.first();
        let path = views.canonical.to_str()?;
        let pattern = match root.and_then(|root| views.canonical.strip_prefix(root).ok()) {
            Some(below) => format!("/{}", below.to_str()?),
            None => format!("/{path}"),
        };
        // A name with characters that mean something in a pattern cannot be granted exactly.
        let plain = !pattern.contains(['*', '?', '[', ']', '{', '}', '(', ')', '\\', '!'])
            && !pattern.chars().any(char::is_control)
            && pattern.trim() == pattern;
        let rule = format!("{tool}({pattern})");
        plain.then_some(GrantScope { rule, folder: None, program: None })
    }

    /// The grant for a command: its program and subcommand with any arguments, where that is one
    /// act; otherwise exactly this command. Bound to the folder and to the program found there.
    pub(super) fn build_command_grant(&self, invocation: &CommandInvocation) -> Option<GrantScope> {
        let WorkingFolders::OneOf(folders) = &invocation.folders else { return None };
        let [folder] = &folders[..] else { return None };
        let program = invocation.argv.first()?.as_known()?;
        let words: Vec<&str> = invocation.argv.iter().map_while(ShellArg::as_known).collect();
        let pattern = match find_subcommand(&words) {
            Some(act) if invocation.study.nature == CommandClass::Opaque => {
                format!("{}:*", join_unquoted(act)?)
            }
            _ if words.len() == invocation.argv.len() => join_unquoted(&words)?,
            _ => return None,
        };
        let folder = self.request.world.canonicalize(folder)?;
        let found = self.request.world.find_program(program, &folder);
        let program = match found {
            Some(found) => Some(found.to_str()?.to_owned()),
            None => None,
        };
        let folder = Some(folder.to_str()?.to_owned());
        Some(GrantScope { rule: format!("Bash({pattern})"), folder, program })
    }
}

/// Words as they stand in a rule; those that need quotes cannot stand there.
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

/// The words that name one act whatever follows them: `git push`, `npm run build`.
///
/// Only where what follows cannot make it another act: not `make a`, which may go on to make `b`,
/// and not `npm install`, after which any package may be named.
fn find_subcommand<'w, 's>(words: &'w [&'s str]) -> Option<&'w [&'s str]> {
    let is_word = |word: &str| {
        word.starts_with(|c: char| c.is_ascii_alphabetic())
            && word.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_:.".contains(&b))
    };
    let count = match words {
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
            "build" | "b" | "check" | "c" | "clippy" | "doc" | "fmt" | "nextest" | "test" | "t",
            ..,
        ] => 2,
        ["go", "build" | "fmt" | "mod" | "test" | "vet", ..] => 2,
        ["dotnet", "build" | "format" | "restore" | "test", ..] => 2,
        _ => return None,
    };
    words.get(..count)
}
