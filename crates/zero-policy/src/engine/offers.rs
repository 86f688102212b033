//! What "for this session" would grant: exactly what was shown, never more.

use std::path::Path;

use super::{Case, Judged};
use crate::decision::{Grant, Verdict};
use crate::program::{Access, Nature};
use crate::rules::PathViews;
use crate::shell::Arg;
use crate::shell::analysis::{Folders, Invocation};

/// Questions that one answer may settle; with more, each is asked by itself.
const GRANTS_MAX: usize = 5;

/// The grants that would have silenced every question, or none if one cannot be silenced.
pub(super) fn grants(judged: &[Judged]) -> Vec<Grant> {
    let mut grants: Vec<Grant> = Vec::new();
    for judged in judged.iter().filter(|judged| judged.verdict == Verdict::Ask) {
        match &judged.grant {
            Some(grant) if grants.contains(grant) => {}
            Some(grant) if grants.len() < GRANTS_MAX => grants.push(grant.clone()),
            _ => return Vec::new(),
        }
    }
    grants
}

impl Case<'_> {
    /// The grant for a file.
    pub(super) fn file_grant(&self, access: Access, views: &PathViews) -> Option<Grant> {
        let tool = match access {
            Access::Read => "Read",
            Access::Write => "Edit",
            Access::Delete => "Delete",
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
        plain.then_some(Grant { rule, folder: None, program: None })
    }

    /// The grant for a command: its program and subcommand with any arguments, where the program
    /// does not run whatever it is told; otherwise exactly this command.
    pub(super) fn command_grant(&self, invocation: &Invocation) -> Option<Grant> {
        let Folders::OneOf(folders) = &invocation.folders else { return None };
        let [folder] = &folders[..] else { return None };
        let program = invocation.argv.first()?.as_known()?;
        let name = program.rsplit('/').next()?;
        let words: Vec<&str> = invocation.argv.iter().map_while(Arg::as_known).collect();
        let pattern = if runs_anything(name, invocation) {
            let whole = words.len() == invocation.argv.len() && !invocation.more_arguments;
            if !whole {
                return None;
            }
            quoted(&words)?
        } else {
            let count = subcommand_words(name, &words);
            format!("{}:*", quoted(words.get(..count)?)?)
        };
        let found = self.request.world.program(program, folder);
        let program = found.as_deref().and_then(Path::to_str).map(str::to_owned);
        let folder = Some(folder.to_str()?.to_owned());
        Some(Grant { rule: format!("Bash({pattern})"), folder, program })
    }

    /// Whether a grant that matched a command was given for this folder and this program.
    pub(super) fn still_holds(&self, grant: &Grant, invocation: &Invocation) -> bool {
        let Folders::OneOf(folders) = &invocation.folders else { return false };
        let [folder] = &folders[..] else { return false };
        let same_folder =
            grant.folder.as_ref().is_none_or(|granted| folder.as_path() == Path::new(granted));
        let name = invocation.argv.first().and_then(Arg::as_known).unwrap_or_default();
        let program = self.request.world.program(name, folder);
        let same_program = grant
            .program
            .as_ref()
            .is_none_or(|granted| program.as_deref() == Some(Path::new(granted)));
        same_folder && same_program
    }
}

/// Words of a rule: those that need quotes cannot stand in one.
fn quoted(words: &[&str]) -> Option<String> {
    let plain = |word: &&str| {
        !word.is_empty()
            && !word.contains(['*', '(', ')', '\'', '"', '\\', '`', '$'])
            && !word.ends_with(':')
            && !word.chars().any(|char| char.is_whitespace() || char.is_control())
    };
    let all = !words.is_empty() && words.iter().all(plain);
    all.then(|| words.join(" "))
}

/// Programs that run what their arguments say: a wildcard after their name would allow anything.
fn runs_anything(name: &str, invocation: &Invocation) -> bool {
    let study = &invocation.study;
    study.nature == Nature::Wrapper
        || crate::rule::runs_anything(name)
        || name.contains('/')
        || matches!(
            name,
            "rm" | "dd" | "chmod" | "chown" | "kill" | "make" | "ssh" | "curl" | "wget"
        )
}

/// How many words name what a program is told to do: `git push`, `npm run build`.
fn subcommand_words(name: &str, words: &[&str]) -> usize {
    let is_word = |at: usize| words.get(at).is_some_and(|word| !word.starts_with('-'));
    let runs_script = matches!(words.get(1), Some(&("run" | "exec" | "compose" | "tool")));
    match name {
        "git" | "npm" | "pnpm" | "yarn" | "bun" | "cargo" | "go" | "docker" | "podman"
        | "kubectl" | "pip" | "pip3" | "uv" | "poetry" | "pdm" | "hatch" | "gh" | "glab"
        | "terraform" | "tofu" | "rustup" | "brew" | "apt" | "apt-get" | "dnf" | "systemctl"
        | "dotnet" | "mvn" | "gradle" | "gradlew" | "mvnw" | "just" | "task" | "rake" | "mix"
        | "stack" | "cabal" | "flutter" | "dart" | "deno" | "aws" | "gcloud" | "az" | "helm"
        | "composer" | "bundle" | "gem" | "swift" | "zig" | "bazel" | "nx" | "turbo" | "lerna"
        | "ng" | "rails" | "django-admin" | "conda" | "mamba" | "nix"
            if is_word(1) =>
        {
            if runs_script && is_word(2) {
                3
            } else {
                2
            }
        }
        _ => 1,
    }
}
