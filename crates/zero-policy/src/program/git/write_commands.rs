//! Commands of git that change something or talk to somebody.

use super::super::{CommandAnalysis, FileAccess, NestedExecution, args_from, known_text};
use super::config_effect::GitConfigEffect;
use super::git_arguments::GitArguments;
use super::read_commands::parse_pathspec;
use super::remote_commands::{
    add_push, add_templates, analyze_clone, analyze_remote, analyze_submodule, analyze_svn,
    analyze_transfer,
};
use crate::shell::ShellArg;

/// What is known of a command that needs a rule.
pub(super) fn analyze(name: &str, args: &[ShellArg]) -> CommandAnalysis {
    match name {
        "clone" => analyze_clone(args),
        "fetch" | "pull" | "push" | "ls-remote" | "fetch-pack" => analyze_transfer(name, args),
        "send-pack" | "http-push" => add_push(analyze_transfer(name, args), args),
        "subtree" | "lfs" if known_text(args.first()) == "push" => {
            add_push(CommandAnalysis::opaque(), args_from(args, 1))
        }
        "svn" => analyze_svn(args),
        "remote" => analyze_remote(args),
        "submodule" => analyze_submodule(args),
        "reset" => analyze_reset(args),
        "checkout" => analyze_checkout(args),
        "switch" => {
            let line =
                GitArguments::parse(args, "cC", &["create", "force-create", "orphan", "conflict"]);
            let forced = line.has("f", &["force", "discard-changes"]);
            mark_critical_if(forced, &line, "throws away changes that are not committed")
        }
        "restore" => analyze_restore(args),
        "clean" => analyze_clean(args),
        "stash" => match args.first().map(ShellArg::as_known) {
            Some(Some("drop" | "clear")) => {
                CommandAnalysis::opaque().mark_critical("throws away stashed changes")
            }
            Some(None) => caution_unknown_words(CommandAnalysis::opaque(), args_from(args, 0)),
            _ => CommandAnalysis::opaque(),
        },
        "branch" => analyze_branch(args),
        "tag" => {
            let line =
                GitArguments::parse(args, "mFu", &["message", "file", "local-user", "cleanup"]);
            mark_critical_if(line.has("d", &["delete"]), &line, "removes a tag")
                .with_touches(FileAccess::Read, &line.values("F", &["file"]))
        }
        "rm" => analyze_rm(args),
        "mv" => {
            let words = GitArguments::parse(args, "", &[]).all_operands();
            let (target, sources) = words
                .split_last()
                .map_or((None, &[] as &[ShellArg]), |(last, rest)| (Some(last), rest));
            let study = sources.iter().fold(CommandAnalysis::opaque(), |study, source| {
                study.with_recursive_touch(FileAccess::Delete, source)
            });
            target
                .into_iter()
                .fold(study, |study, target| study.with_recursive_touch(FileAccess::Write, target))
        }
        "reflog" => match args.first().map(ShellArg::as_known) {
            Some(Some("expire" | "delete" | "drop")) => {
                CommandAnalysis::opaque().mark_critical("removes the record of former states")
            }
            _ => caution_unknown_words(CommandAnalysis::opaque(), args),
        },
        "gc" => {
            let line = GitArguments::parse(args, "", &[]);
            mark_critical_if(
                line.has("", &["prune"]),
                &line,
                "removes objects that could be recovered",
            )
        }
        "prune" | "filter-repo" => {
            CommandAnalysis::opaque().mark_critical("removes history for good")
        }
        "filter-branch" => analyze_filter_branch(args),
        "update-ref" => {
            let line = GitArguments::parse(args, "m", &[]);
            mark_critical_if(line.has("d", &["stdin", "delete"]), &line, "removes a reference")
        }
        "worktree" => analyze_worktree(args),
        "rebase" => {
            let line = GitArguments::parse(
                args,
                "xsXC",
                &["exec", "onto", "strategy", "strategy-option", "whitespace"],
            );
            add_scripts(CommandAnalysis::opaque(), &line.values("x", &["exec"]))
                .with_caution_if(line.open, "an argument may be `--exec`")
        }
        "bisect" => match known_text(args.first()) {
            "run" => CommandAnalysis::opaque().with_command(args_from(args, 1)),
            "visualize" | "view" | "replay" => {
                CommandAnalysis::opaque().with_caution("it runs what it is given")
            }
            _ => caution_unknown_words(CommandAnalysis::opaque(), args),
        },
        "difftool" | "mergetool" => {
            let line = GitArguments::parse(args, "xt", &["extcmd", "tool"]);
            add_scripts(CommandAnalysis::opaque(), &line.values("x", &["extcmd"]))
                .with_caution("it runs a tool that the settings name")
        }
        "config" => analyze_config(args),
        "hook" => CommandAnalysis::opaque().with_run(NestedExecution::Unknown("it runs a hook")),
        "init" => {
            let line = GitArguments::parse(
                args,
                "b",
                &["template", "separate-git-dir", "initial-branch", "object-format", "ref-format"],
            );
            let written: Vec<ShellArg> = line
                .all_operands()
                .into_iter()
                .chain(line.values("", &["separate-git-dir"]))
                .collect();
            add_templates(CommandAnalysis::opaque(), &line)
                .with_touches(FileAccess::Write, &written)
        }
        "format-patch" => {
            let line = GitArguments::parse(
                args,
                "onv",
                &["output-directory", "output", "signature-file", "cover-letter"],
            );
            add_written_folders(
                CommandAnalysis::opaque(),
                &line.values("o", &["output-directory", "output"]),
            )
        }
        "bundle" => match known_text(args.first()) {
            "create" => {
                let line = GitArguments::parse(args_from(args, 1), "", &[]);
                let file: Vec<ShellArg> = line.all_operands().into_iter().take(1).collect();
                CommandAnalysis::opaque().with_touches(FileAccess::Write, &file)
            }
            _ => CommandAnalysis::opaque(),
        },
        "checkout-index" => {
            let line = GitArguments::parse(args, "", &["prefix", "stage"]);
            mark_critical_if(line.has("f", &["force"]), &line, "overwrites files")
                .with_touches(FileAccess::Write, &line.values("", &["prefix"]))
        }
        "read-tree" => {
            let line = GitArguments::parse(args, "", &["prefix", "index-output"]);
            mark_critical_if(
                line.has("u", &["reset"]),
                &line,
                "throws away changes that are not committed",
            )
            .with_touches(FileAccess::Write, &line.values("", &["index-output"]))
        }
        "apply" | "am" => {
            let line = GitArguments::parse(
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
            let study = CommandAnalysis::opaque()
                .with_touches(FileAccess::Read, &line.all_operands())
                .with_touches(FileAccess::Write, &line.values("", &["build-fake-ancestor"]));
            // What a patch changes stands in the patch.
            let looks = ["check", "stat", "numstat", "summary"];
            let folders = line.values("", &["directory"]);
            match folders.as_slice() {
                _ if name == "apply" && line.has("", &looks) && !line.has("", &["apply"]) => study,
                [] => study.with_recursive_touch(FileAccess::Write, &ShellArg::known(".")),
                folders => add_written_folders(study, folders),
            }
        }
        "commit" | "merge" => {
            let line = GitArguments::parse(
                args,
                "mFCct",
                &["message", "file", "template", "reuse-message", "author", "date"],
            );
            CommandAnalysis::opaque()
                .with_touches(FileAccess::Read, &line.values("Ft", &["file", "template"]))
        }
        "credential" => CommandAnalysis::opaque().with_caution("it gives out credentials"),
        "for-each-repo" => {
            let at = args.iter().position(|arg| arg.as_known() == Some("--"));
            let mut argv = vec![ShellArg::known("git")];
            argv.extend_from_slice(at.map_or(args, |at| args_from(args, at + 1)));
            CommandAnalysis::opaque()
                .with_command(&argv)
                .with_caution("it runs in every repository it knows")
        }
        "send-email" | "instaweb" | "daemon" | "gui" | "gitk" | "citool" | "web--browse"
        | "shell" | "remote-ext" | "remote-fd" | "cvsserver" | "fast-import" | "imap-send"
        | "upload-pack" | "receive-pack" | "upload-archive" | "maintenance" | "scalar" => {
            CommandAnalysis::opaque().with_caution("it runs programs or serves others")
        }
        name if is_known(name) => CommandAnalysis::opaque(),
        _ => CommandAnalysis::opaque()
            .with_caution("it is no command of git's own and may be an alias that runs anything"),
    }
}

/// Whether git has a command of this name, so that `git-name` is one too.
pub(super) fn is_git_command(name: &str) -> bool {
    let others = CommandAnalysis::opaque()
        .with_caution("it is no command of git's own and may be an alias that runs anything");
    analyze(name, &[]) != others
}

fn is_known(name: &str) -> bool {
    KNOWN_COMMANDS.contains(&name)
        || name.starts_with("diff-")
        || super::read_commands::analyze(name, &[]).is_some()
}

/// Commands that are known and of which there is nothing more to say.
const KNOWN_COMMANDS: &[&str] = &[
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

pub(super) fn mark_critical_if(
    holds: bool,
    line: &GitArguments,
    why: &'static str,
) -> CommandAnalysis {
    let study = if holds {
        CommandAnalysis::opaque().mark_critical(why)
    } else {
        CommandAnalysis::opaque()
    };
    study.with_caution_if(line.open, "an argument may be an option that throws something away")
}

pub(super) fn add_scripts(study: CommandAnalysis, texts: &[ShellArg]) -> CommandAnalysis {
    texts.iter().fold(study, |study, text| study.with_run(NestedExecution::from_script(text)))
}

pub(super) fn add_written_folders(study: CommandAnalysis, folders: &[ShellArg]) -> CommandAnalysis {
    folders
        .iter()
        .fold(study, |study, folder| study.with_recursive_touch(FileAccess::Write, folder))
}

/// Says so when a word that decides what happens is not known.
pub(super) fn caution_unknown_words(study: CommandAnalysis, words: &[ShellArg]) -> CommandAnalysis {
    let open = words.iter().any(|arg| arg.as_known().is_none() && arg.may_be_option());
    study.with_caution_if(open, "an argument that is not known may decide what it does")
}

fn analyze_reset(args: &[ShellArg]) -> CommandAnalysis {
    let line = GitArguments::parse(args, "", &["pathspec-from-file"]);
    mark_critical_if(
        line.has("", &["hard", "merge"]),
        &line,
        "throws away changes that are not committed",
    )
}

fn analyze_checkout(args: &[ShellArg]) -> CommandAnalysis {
    let line = GitArguments::parse(args, "bB", &["orphan", "conflict", "pathspec-from-file"]);
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
    let study = mark_critical_if(discards, &line, "overwrites changes that are not committed");
    add_written_folders(study, &paths.iter().filter_map(parse_pathspec).collect::<Vec<_>>())
        .with_caution_if(open, "an argument may be a file whose changes are lost")
}

/// Whether a word is more likely a file than a branch: `.`, `./x`, `src/`, `a.rs`, `*.rs`.
fn looks_like_path(arg: &ShellArg) -> bool {
    let start = arg.known_prefix();
    let last = start.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    let extension = last.rsplit_once('.').map(|(_, extension)| extension);
    matches!(arg, ShellArg::Pattern(_))
        || start.starts_with(['.', '/', ':'])
        || start.ends_with('/')
        || start.contains('*')
        || extension.is_some_and(|text| text.starts_with(|c: char| c.is_ascii_alphabetic()))
}

fn analyze_restore(args: &[ShellArg]) -> CommandAnalysis {
    let line = GitArguments::parse(args, "s", &["source", "conflict", "pathspec-from-file"]);
    let staged_only = line.has("S", &["staged"]) && !line.has("W", &["worktree"]);
    let study = mark_critical_if(!staged_only, &line, "overwrites changes that are not committed");
    if staged_only {
        return study;
    }
    add_written_folders(
        study,
        &line.all_operands().iter().filter_map(parse_pathspec).collect::<Vec<_>>(),
    )
}

fn analyze_clean(args: &[ShellArg]) -> CommandAnalysis {
    let line = GitArguments::parse(args, "e", &["exclude"]);
    if line.has("n", &["dry-run"]) && !line.open {
        return CommandAnalysis::opaque();
    }
    let mut folders = line.all_operands();
    if folders.is_empty() {
        folders.push(ShellArg::known("."));
    }
    let study = mark_critical_if(
        line.has("f", &["force"]) || line.open,
        &line,
        "removes files that git does not know",
    );
    folders
        .iter()
        .fold(study, |study, folder| study.with_recursive_touch(FileAccess::Delete, folder))
}

fn analyze_branch(args: &[ShellArg]) -> CommandAnalysis {
    let line = GitArguments::parse(args, "u", &["set-upstream-to", "sort", "format", "points-at"]);
    let forced = line.has("f", &["force"]);
    let removes = line.has("d", &["delete"]) && forced;
    mark_critical_if(
        line.has("D", &[]) || removes,
        &line,
        "removes a branch with what is only on it",
    )
}

fn analyze_rm(args: &[ShellArg]) -> CommandAnalysis {
    let line = GitArguments::parse(args, "", &["pathspec-from-file"]);
    if line.has("", &["cached"]) && !line.open {
        return CommandAnalysis::opaque();
    }
    let recursive = line.has("r", &[]);
    let study = mark_critical_if(
        recursive || line.has("f", &["force"]),
        &line,
        "removes files recursively or by force",
    );
    line.all_operands().iter().filter_map(parse_pathspec).fold(study, |study, path| {
        if recursive {
            study.with_recursive_touch(FileAccess::Delete, &path)
        } else {
            study.with_touch(FileAccess::Delete, &path)
        }
    })
}

fn analyze_filter_branch(args: &[ShellArg]) -> CommandAnalysis {
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
    let line = GitArguments::parse(args, "d", &filters);
    let texts = line.values("", filters.get(..8).unwrap_or_default());
    add_scripts(CommandAnalysis::opaque(), &texts).mark_critical("rewrites history")
}

fn analyze_worktree(args: &[ShellArg]) -> CommandAnalysis {
    let line = GitArguments::parse(args_from(args, 1), "bB", &["reason", "expire"]);
    let words = line.all_operands();
    match known_text(args.first()) {
        "add" => add_written_folders(CommandAnalysis::opaque(), words.get(..1).unwrap_or_default()),
        "remove" => {
            let study = mark_critical_if(
                line.has("f", &["force"]),
                &line,
                "removes a worktree with its changes",
            );
            words
                .iter()
                .take(1)
                .fold(study, |study, path| study.with_recursive_touch(FileAccess::Delete, path))
        }
        "move" => add_written_folders(CommandAnalysis::opaque(), &words),
        _ => caution_unknown_words(CommandAnalysis::opaque(), args),
    }
}

fn analyze_config(args: &[ShellArg]) -> CommandAnalysis {
    let line =
        GitArguments::parse(args, "f", &["file", "blob", "type", "default", "comment", "value"]);
    let words = line.all_operands();
    let words = match known_text(words.first()) {
        "set" => args_from(&words, 1),
        _ => words.as_slice(),
    };
    let files = line.values("f", &["file"]);
    let target = match files.first() {
        Some(file) => file.clone(),
        None if line.has("", &["global"]) => ShellArg::known("~/.gitconfig"),
        None if line.has("", &["system"]) => ShellArg::known("/etc/gitconfig"),
        None => ShellArg::known(".git/config"),
    };
    let mut study = CommandAnalysis::opaque().with_touch(FileAccess::Write, &target);
    if line.has("e", &["edit"]) || line.open || known_text(words.first()) == "edit" {
        return study.with_caution("what it sets is not known");
    }
    if line.has("", &["unset", "unset-all", "remove-section"])
        || known_text(words.first()) == "unset"
    {
        return study;
    }
    if let Some(key) = words.first()
        && let GitConfigEffect::Runs(text) = GitConfigEffect::new(key, words.get(1))
    {
        study.runs.extend(text.map(|text| NestedExecution::from_script(&text)));
        study = study.with_caution("it sets something that may run a command");
    }
    study
}
