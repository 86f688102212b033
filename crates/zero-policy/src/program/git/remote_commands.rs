//! Commands of git that talk to another repository, on this machine or elsewhere.

use super::super::{CommandAnalysis, FileAccess, NestedExecution, after, from, word};
use super::config_effect::GitConfigEffect;
use super::git_arguments::GitArguments;
use super::write_commands::{critical_if, open_words, scripts, written};
use crate::shell::ShellArg;

/// Whether a word is an address and not the name of a remote.
pub(super) fn is_address(arg: &ShellArg) -> bool {
    let start = arg.certain_start();
    let head = start.split('/').next().unwrap_or_default();
    head.contains(':') || head.contains('@')
}

/// Adds an address: a host, a folder of this machine, or (`ext::`) a command.
pub(super) fn reaches(study: CommandAnalysis, address: &ShellArg) -> CommandAnalysis {
    if let Some(text) = after(address, "ext::") {
        return study.runs(NestedExecution::script(&text)).caution("`ext::` runs a command");
    }
    let start = address.certain_start();
    if let Some(path) = after(address, "file://") {
        return study.touches_beneath(FileAccess::Read, &path);
    }
    if start.contains("::") && !start.contains("://") {
        return study.reaches(address).caution("its address names a helper to run");
    }
    if is_address(address) {
        return study.reaches(address);
    }
    if start.starts_with(['/', '.', '~']) {
        return study.touches_beneath(FileAccess::Read, address);
    }
    study
}

/// Programs that are named for the other end, which for an address on this machine run here.
pub(super) fn transport(
    study: CommandAnalysis,
    line: &GitArguments,
    names: &[&str],
) -> CommandAnalysis {
    let texts = line.values("", names);
    let study = scripts(study, &texts);
    study.caution_if(line.has("", names), "an option names the program at the other end")
}

pub(super) fn templates(mut study: CommandAnalysis, line: &GitArguments) -> CommandAnalysis {
    for template in line.values("", &["template"]) {
        study = study
            .touches_beneath(FileAccess::Read, &template)
            .caution("a template may bring hooks that run later");
    }
    study
}

pub(super) fn clone(args: &[ShellArg]) -> CommandAnalysis {
    let line = GitArguments::read(
        args,
        "obucj",
        &[
            "origin",
            "branch",
            "upload-pack",
            "config",
            "template",
            "reference",
            "reference-if-able",
            "separate-git-dir",
            "depth",
            "shallow-since",
            "shallow-exclude",
            "jobs",
            "server-option",
            "filter",
            "bundle-uri",
            "revision",
            "ref-format",
        ],
    );
    let mut study = templates(CommandAnalysis::program(), &line);
    study = transport(study, &line, &["upload-pack"]);
    study = scripts(study, &line.values("u", &[]))
        .caution_if(line.has("u", &[]), "an option names the program at the other end");
    for setting in line.values("c", &["config"]) {
        if let GitConfigEffect::Runs(text) = GitConfigEffect::of(&setting) {
            study.runs.extend(text.map(|text| NestedExecution::script(&text)));
            study = study.caution("it sets something that may run a command");
        }
    }
    let words = line.words();
    for address in words.iter().take(1) {
        study = if is_address(address) {
            reaches(study, address)
        } else {
            study.touches_beneath(FileAccess::Read, address)
        };
    }
    for uri in line.values("", &["bundle-uri"]) {
        study = reaches(study, &uri);
    }
    match from(&words, 1) {
        [] => {
            let folder = words.first().map(cloned_folder);
            study = written(study, folder.as_slice());
        }
        folders => study = written(study, folders),
    }
    study = written(study, &line.values("", &["separate-git-dir"]));
    study.caution_if(line.open, "an argument may be an option that runs something")
}

/// The folder git makes for a repository when none is named.
fn cloned_folder(address: &ShellArg) -> ShellArg {
    let Some(address) = address.as_known() else { return address.clone() };
    let path = address.trim_end_matches('/').trim_end_matches(".git").trim_end_matches('/');
    let name = path.rsplit(['/', ':']).next().unwrap_or(path);
    ShellArg::known(if name.is_empty() { "." } else { name })
}

pub(super) fn talks(name: &str, args: &[ShellArg]) -> CommandAnalysis {
    let letters = match name {
        "push" => "o",
        "pull" => "osXj",
        _ => "oj",
    };
    let line = GitArguments::read(
        args,
        letters,
        &[
            "upload-pack",
            "receive-pack",
            "exec",
            "repo",
            "push-option",
            "server-option",
            "depth",
            "deepen",
            "shallow-since",
            "shallow-exclude",
            "jobs",
            "refmap",
            "strategy",
            "strategy-option",
            "filter",
            "negotiation-tip",
            "sort",
        ],
    );
    let mut study =
        transport(CommandAnalysis::program(), &line, &["upload-pack", "receive-pack", "exec"]);
    let words = line.words();
    for address in words.iter().take(1).chain(&line.values("", &["repo"])) {
        study = reaches(study, address);
    }
    if name == "push" {
        let forced = line.has(
            "fd",
            &["force", "force-with-lease", "force-if-includes", "mirror", "delete", "prune"],
        );
        let refs = words.iter().any(|word| word.certain_start().starts_with([':', '+']));
        if forced || refs {
            study = study.critical("overwrites or removes what others may have pushed");
        }
        study = open_words(study, &words);
    }
    study.caution_if(line.open, "an argument may be an option that overwrites or runs something")
}

pub(super) fn remote(args: &[ShellArg]) -> CommandAnalysis {
    let line = GitArguments::read(from(args, 1), "tm", &[]);
    match word(args.first()) {
        "add" | "set-url" => line.words().iter().skip(1).fold(CommandAnalysis::program(), reaches),
        _ => open_words(CommandAnalysis::program(), args),
    }
}

pub(super) fn submodule(args: &[ShellArg]) -> CommandAnalysis {
    let at = args.iter().position(|arg| !word(Some(arg)).starts_with('-')).unwrap_or(args.len());
    let rest = from(args, at + 1);
    match args.get(at).map(ShellArg::as_known) {
        Some(Some("foreach")) => {
            let flags = rest.iter().take_while(|arg| word(Some(arg)).starts_with('-')).count();
            CommandAnalysis::program().runs(NestedExecution::script_of(from(rest, flags)))
        }
        Some(Some("add")) => {
            let line = GitArguments::read(
                rest,
                "b",
                &["branch", "name", "reference", "depth", "ref-format"],
            );
            let words = line.words();
            let study = words.iter().take(1).fold(CommandAnalysis::program(), reaches);
            written(study, from(&words, 1))
        }
        Some(Some("deinit")) => {
            let line = GitArguments::read(rest, "", &[]);
            critical_if(line.has("f", &["force"]), &line, "removes a submodule with its changes")
        }
        _ => open_words(CommandAnalysis::program(), args),
    }
}

/// Adds that a command pushes, under the name that rules know it by.
pub(super) fn pushes(study: CommandAnalysis, args: &[ShellArg]) -> CommandAnalysis {
    let mut argv = vec![ShellArg::known("git"), ShellArg::known("push")];
    argv.extend_from_slice(args);
    study.runs_argv(&argv)
}

/// `git svn` asks a program for the names of authors.
pub(super) fn svn(args: &[ShellArg]) -> CommandAnalysis {
    let line = GitArguments::read(args, "A", &["authors-prog", "authors-file"]);
    let study = scripts(CommandAnalysis::program(), &line.values("", &["authors-prog"]));
    study
        .caution_if(line.has("", &["authors-prog"]), "an option names a program to run")
        .caution_if(line.open, "an argument may be an option that runs something")
        .touches_all(FileAccess::Read, &line.values("A", &["authors-file"]))
}
