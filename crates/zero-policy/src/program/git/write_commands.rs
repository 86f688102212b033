//! Commands of git that change something or talk to somebody.

use super::super::{CommandAnalysis, FileAccess, NestedExecution, from, word};
use super::config_effect::GitConfigEffect;
use super::git_arguments::GitArguments;
use super::read_commands::pathspec;
use super::remote_commands::{clone, pushes, remote, submodule, svn, talks, templates};
use crate::shell::ShellArg;

/// What is known of a command that needs a rule.
pub(super) fn study(name: &str, args: &[ShellArg]) -> CommandAnalysis {
    match name {
        "clone" => clone(args),
        "fetch" | "pull" | "push" | "ls-remote" | "fetch-pack" => talks(name, args),
        "send-pack" | "http-push" => pushes(talks(name, args), args),
        "subtree" | "lfs" if word(args.first()) == "push" => {
            pushes(CommandAnalysis::program(), from(args, 1))
        }
        "svn" => svn(args),
        "remote" => remote(args),
        "submodule" => submodule(args),
        "reset" => reset(args),
        "checkout" => checkout(args),
        "switch" => {
            let line =
                GitArguments::read(args, "cC", &["create", "force-create", "orphan", "conflict"]);
            let forced = line.has("f", &["force", "discard-changes"]);
            critical_if(forced, &line, "throws away changes that are not committed")
        }
        "restore" => restore(args),
        "clean" => clean(args),
        "stash" => match args.first().map(ShellArg::as_known) {
            Some(Some("drop" | "clear")) => {
                CommandAnalysis::program().critical("throws away stashed changes")
            }
            Some(None) => open_words(CommandAnalysis::program(), from(args, 0)),
            _ => CommandAnalysis::program(),
        },
        "branch" => branch(args),
        "tag" => {
            let line =
                GitArguments::read(args, "mFu", &["message", "file", "local-user", "cleanup"]);
            critical_if(line.has("d", &["delete"]), &line, "removes a tag")
                .touches_all(FileAccess::Read, &line.values("F", &["file"]))
        }
        "rm" => remove(args),
        "mv" => {
            let words = GitArguments::read(args, "", &[]).words();
            let (target, sources) = words
                .split_last()
                .map_or((None, &[] as &[ShellArg]), |(last, rest)| (Some(last), rest));
            let study = sources.iter().fold(CommandAnalysis::program(), |study, source| {
                study.touches_beneath(FileAccess::Delete, source)
            });
            target
                .into_iter()
                .fold(study, |study, target| study.touches_beneath(FileAccess::Write, target))
        }
        "reflog" => match args.first().map(ShellArg::as_known) {
            Some(Some("expire" | "delete" | "drop")) => {
                CommandAnalysis::program().critical("removes the record of former states")
            }
            _ => open_words(CommandAnalysis::program(), args),
        },
        "gc" => {
            let line = GitArguments::read(args, "", &[]);
            critical_if(line.has("", &["prune"]), &line, "removes objects that could be recovered")
        }
        "prune" | "filter-repo" => CommandAnalysis::program().critical("removes history for good"),
        "filter-branch" => filter_branch(args),
        "update-ref" => {
            let line = GitArguments::read(args, "m", &[]);
            critical_if(line.has("d", &["stdin", "delete"]), &line, "removes a reference")
        }
        "worktree" => worktree(args),
        "rebase" => {
            let line = GitArguments::read(
                args,
                "xsXC",
                &["exec", "onto", "strategy", "strategy-option", "whitespace"],
            );
            scripts(CommandAnalysis::program(), &line.values("x", &["exec"]))
                .caution_if(line.open, "an argument may be `--exec`")
        }
        "bisect" => match word(args.first()) {
            "run" => CommandAnalysis::program().runs_argv(from(args, 1)),
            "visualize" | "view" | "replay" => {
                CommandAnalysis::program().caution("it runs what it is given")
            }
            _ => open_words(CommandAnalysis::program(), args),
        },
        "difftool" | "mergetool" => {
            let line = GitArguments::read(args, "xt", &["extcmd", "tool"]);
            scripts(CommandAnalysis::program(), &line.values("x", &["extcmd"]))
                .caution("it runs a tool that the settings name")
        }
        "config" => config(args),
        "hook" => CommandAnalysis::program().runs(NestedExecution::Unknown("it runs a hook")),
        "init" => {
            let line = GitArguments::read(
                args,
                "b",
                &["template", "separate-git-dir", "initial-branch", "object-format", "ref-format"],
            );
            let written: Vec<ShellArg> =
                line.words().into_iter().chain(line.values("", &["separate-git-dir"])).collect();
            templates(CommandAnalysis::program(), &line).touches_all(FileAccess::Write, &written)
        }
        "format-patch" => {
            let line = GitArguments::read(
                args,
                "onv",
                &["output-directory", "output", "signature-file", "cover-letter"],
            );
            written(CommandAnalysis::program(), &line.values("o", &["output-directory", "output"]))
        }
        "bundle" => match word(args.first()) {
            "create" => {
                let line = GitArguments::read(from(args, 1), "", &[]);
                let file: Vec<ShellArg> = line.words().into_iter().take(1).collect();
                CommandAnalysis::program().touches_all(FileAccess::Write, &file)
            }
            _ => CommandAnalysis::program(),
        },
        "checkout-index" => {
            let line = GitArguments::read(args, "", &["prefix", "stage"]);
            critical_if(line.has("f", &["force"]), &line, "overwrites files")
                .touches_all(FileAccess::Write, &line.values("", &["prefix"]))
        }
        "read-tree" => {
            let line = GitArguments::read(args, "", &["prefix", "index-output"]);
            critical_if(
                line.has("u", &["reset"]),
                &line,
                "throws away changes that are not committed",
            )
            .touches_all(FileAccess::Write, &line.values("", &["index-output"]))
        }
        "apply" | "am" => {
            let line = GitArguments::read(
                args,
                "pC",
                &[
                    "directory",
                    "exclude",
                    "include",
                    "build-fake-ancestor",
                    "whitespace",
                    "patch-format",
                ],
            );
            let study = CommandAnalysis::program()
                .touches_all(FileAccess::Read, &line.words())
                .touches_all(FileAccess::Write, &line.values("", &["build-fake-ancestor"]));
            // What a patch changes stands in the patch.
            let looks = ["check", "stat", "numstat", "summary"];
            let folders = line.values("", &["directory"]);
            match folders.as_slice() {
                _ if name == "apply" && line.has("", &looks) && !line.has("", &["apply"]) => study,
                [] => study.touches_beneath(FileAccess::Write, &ShellArg::known(".")),
                folders => written(study, folders),
            }
        }
        "commit" | "merge" => {
            let line = GitArguments::read(
                args,
                "mFCct",
                &["message", "file", "template", "reuse-message", "author", "date"],
            );
            CommandAnalysis::program()
                .touches_all(FileAccess::Read, &line.values("Ft", &["file", "template"]))
        }
        "credential" => CommandAnalysis::program().caution("it gives out credentials"),
        "for-each-repo" => {
            let at = args.iter().position(|arg| arg.as_known() == Some("--"));
            let mut argv = vec![ShellArg::known("git")];
            argv.extend_from_slice(at.map_or(args, |at| from(args, at + 1)));
            CommandAnalysis::program()
                .runs_argv(&argv)
                .caution("it runs in every repository it knows")
        }
        "send-email" | "instaweb" | "daemon" | "gui" | "gitk" | "citool" | "web--browse"
        | "shell" | "remote-ext" | "remote-fd" | "cvsserver" | "fast-import" | "imap-send"
        | "upload-pack" | "receive-pack" | "upload-archive" | "maintenance" | "scalar" => {
            CommandAnalysis::program().caution("it runs programs or serves others")
        }
        name if is_known(name) => CommandAnalysis::program(),
        _ => CommandAnalysis::program()
            .caution("it is no command of git's own and may be an alias that runs anything"),
    }
}

/// Whether git has a command of this name, so that `git-name` is one too.
pub(super) fn is_own(name: &str) -> bool {
    let others = CommandAnalysis::program()
        .caution("it is no command of git's own and may be an alias that runs anything");
    study(name, &[]) != others
}

fn is_known(name: &str) -> bool {
    KNOWN.contains(&name)
        || name.starts_with("diff-")
        || super::read_commands::study(name, &[]).is_some()
}

/// Commands that are known and of which there is nothing more to say.
const KNOWN: &[&str] = &[
    "add",
    "cherry-pick",
    "revert",
    "notes",
    "sparse-checkout",
    "rerere",
    "replace",
    "repack",
    "commit-tree",
    "commit-graph",
    "write-tree",
    "hash-object",
    "mktag",
    "mktree",
    "update-index",
    "update-server-info",
    "pack-refs",
    "pack-objects",
    "unpack-objects",
    "index-pack",
    "multi-pack-index",
    "prune-packed",
    "symbolic-ref",
    "verify-commit",
    "verify-tag",
    "var",
    "fsck",
    "merge-tree",
    "merge-file",
    "merge-index",
    "interpret-trailers",
    "request-pull",
    "range-diff",
    "show-index",
    "stage",
    "mailinfo",
    "mailsplit",
    "fmt-merge-msg",
    "fast-export",
    "bugreport",
    "diagnose",
    "column",
    "p4",
    "lfs",
    "backfill",
    "refs",
    "subtree",
    "flow",
    "cherry",
    "get-tar-commit-id",
    "unpack-file",
    "http-fetch",
];

pub(super) fn critical_if(holds: bool, line: &GitArguments, why: &'static str) -> CommandAnalysis {
    let study =
        if holds { CommandAnalysis::program().critical(why) } else { CommandAnalysis::program() };
    study.caution_if(line.open, "an argument may be an option that throws something away")
}

pub(super) fn scripts(study: CommandAnalysis, texts: &[ShellArg]) -> CommandAnalysis {
    texts.iter().fold(study, |study, text| study.runs(NestedExecution::script(text)))
}

pub(super) fn written(study: CommandAnalysis, folders: &[ShellArg]) -> CommandAnalysis {
    folders.iter().fold(study, |study, folder| study.touches_beneath(FileAccess::Write, folder))
}

/// Says so when a word that decides what happens is not known.
pub(super) fn open_words(study: CommandAnalysis, words: &[ShellArg]) -> CommandAnalysis {
    let open = words.iter().any(|arg| arg.as_known().is_none() && arg.may_be_option());
    study.caution_if(open, "an argument that is not known may decide what it does")
}

fn reset(args: &[ShellArg]) -> CommandAnalysis {
    let line = GitArguments::read(args, "", &["pathspec-from-file"]);
    critical_if(
        line.has("", &["hard", "merge"]),
        &line,
        "throws away changes that are not committed",
    )
}

fn checkout(args: &[ShellArg]) -> CommandAnalysis {
    let line = GitArguments::read(args, "bB", &["orphan", "conflict", "pathspec-from-file"]);
    let makes_branch = line.has("bBt", &["orphan", "track", "detach"]);
    let mut paths: Vec<ShellArg> = line.paths.clone();
    match line.operands.as_slice() {
        _ if makes_branch => {}
        [_, more @ ..] if !more.is_empty() => {
            // The first may be a commit or a path; the others are paths.
            paths.extend(line.operands.iter().cloned());
        }
        [only] if looks_like_path(only) => paths.push(only.clone()),
        _ => {}
    }
    let discards =
        !paths.is_empty() || line.has("f", &["force", "ours", "theirs", "pathspec-from-file"]);
    let open = line.operands.iter().any(|arg| arg.as_known().is_none() && arg.may_be_option());
    let study = critical_if(discards, &line, "overwrites changes that are not committed");
    written(study, &paths.iter().filter_map(pathspec).collect::<Vec<_>>())
        .caution_if(open, "an argument may be a file whose changes are lost")
}

/// Whether a word is more likely a file than a branch: `.`, `./x`, `src/`, `a.rs`, `*.rs`.
fn looks_like_path(arg: &ShellArg) -> bool {
    let start = arg.certain_start();
    let last = start.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    let extension = last.rsplit_once('.').map(|(_, extension)| extension);
    matches!(arg, ShellArg::Pattern(_))
        || start.starts_with(['.', '/', ':'])
        || start.ends_with('/')
        || start.contains('*')
        || extension.is_some_and(|text| text.starts_with(|c: char| c.is_ascii_alphabetic()))
}

fn restore(args: &[ShellArg]) -> CommandAnalysis {
    let line = GitArguments::read(args, "s", &["source", "conflict", "pathspec-from-file"]);
    let staged_only = line.has("S", &["staged"]) && !line.has("W", &["worktree"]);
    let study = critical_if(!staged_only, &line, "overwrites changes that are not committed");
    if staged_only {
        return study;
    }
    written(study, &line.words().iter().filter_map(pathspec).collect::<Vec<_>>())
}

fn clean(args: &[ShellArg]) -> CommandAnalysis {
    let line = GitArguments::read(args, "e", &["exclude"]);
    if line.has("n", &["dry-run"]) && !line.open {
        return CommandAnalysis::program();
    }
    let mut folders = line.words();
    if folders.is_empty() {
        folders.push(ShellArg::known("."));
    }
    let study = critical_if(
        line.has("f", &["force"]) || line.open,
        &line,
        "removes files that git does not know",
    );
    folders.iter().fold(study, |study, folder| study.touches_beneath(FileAccess::Delete, folder))
}

fn branch(args: &[ShellArg]) -> CommandAnalysis {
    let line = GitArguments::read(args, "u", &["set-upstream-to", "sort", "format", "points-at"]);
    let forced = line.has("f", &["force"]);
    let removes = line.has("d", &["delete"]) && forced;
    critical_if(line.has("D", &[]) || removes, &line, "removes a branch with what is only on it")
}

fn remove(args: &[ShellArg]) -> CommandAnalysis {
    let line = GitArguments::read(args, "", &["pathspec-from-file"]);
    if line.has("", &["cached"]) && !line.open {
        return CommandAnalysis::program();
    }
    let recursive = line.has("r", &[]);
    let study = critical_if(
        recursive || line.has("f", &["force"]),
        &line,
        "removes files recursively or by force",
    );
    line.words().iter().filter_map(pathspec).fold(study, |study, path| {
        if recursive {
            study.touches_beneath(FileAccess::Delete, &path)
        } else {
            study.touches(FileAccess::Delete, &path)
        }
    })
}

fn filter_branch(args: &[ShellArg]) -> CommandAnalysis {
    let filters = [
        "setup",
        "env-filter",
        "tree-filter",
        "index-filter",
        "parent-filter",
        "msg-filter",
        "commit-filter",
        "tag-name-filter",
        "subdirectory-filter",
    ];
    let line = GitArguments::read(args, "d", &filters);
    let texts = line.values("", filters.get(..8).unwrap_or_default());
    scripts(CommandAnalysis::program(), &texts).critical("rewrites history")
}

fn worktree(args: &[ShellArg]) -> CommandAnalysis {
    let line = GitArguments::read(from(args, 1), "bB", &["reason", "expire"]);
    let words = line.words();
    match word(args.first()) {
        "add" => written(CommandAnalysis::program(), words.get(..1).unwrap_or_default()),
        "remove" => {
            let study = critical_if(
                line.has("f", &["force"]),
                &line,
                "removes a worktree with its changes",
            );
            words
                .iter()
                .take(1)
                .fold(study, |study, path| study.touches_beneath(FileAccess::Delete, path))
        }
        "move" => written(CommandAnalysis::program(), &words),
        _ => open_words(CommandAnalysis::program(), args),
    }
}

fn config(args: &[ShellArg]) -> CommandAnalysis {
    let line =
        GitArguments::read(args, "f", &["file", "blob", "type", "default", "comment", "value"]);
    let words = line.words();
    let words = match word(words.first()) {
        "set" => from(&words, 1),
        _ => words.as_slice(),
    };
    let files = line.values("f", &["file"]);
    let target = match files.first() {
        Some(file) => file.clone(),
        None if line.has("", &["global"]) => ShellArg::known("~/.gitconfig"),
        None if line.has("", &["system"]) => ShellArg::known("/etc/gitconfig"),
        None => ShellArg::known(".git/config"),
    };
    let mut study = CommandAnalysis::program().touches(FileAccess::Write, &target);
    if line.has("e", &["edit"]) || line.open || word(words.first()) == "edit" {
        return study.caution("what it sets is not known");
    }
    if line.has("", &["unset", "unset-all", "remove-section"]) || word(words.first()) == "unset" {
        return study;
    }
    if let Some(key) = words.first()
        && let GitConfigEffect::Runs(text) = GitConfigEffect::new(key, words.get(1))
    {
        study.runs.extend(text.map(|text| NestedExecution::script(&text)));
        study = study.caution("it sets something that may run a command");
    }
    study
}
