//! Commands of git that change something or connect to a host.

use super::config_effect::GitConfigEffect;
use super::read_commands::parse_pathspec;
use super::remote_commands::{
    add_push, add_templates, analyze_clone, analyze_remote, analyze_submodule, analyze_svn,
    analyze_transfer,
};
use super::setting_changes;
use crate::program::arguments::{args_from, known_text, unknown_arg};
use crate::program::command_analysis::{CommandAnalysis, FileAccess, NestedExecution};
use crate::program::options::{ParsedArguments, ValueUse, options};
use crate::shell::ShellArg;
use crate::word_list::words;

/// The known effects of a command that needs a rule.
pub(super) fn analyze(name: &str, args: &[ShellArg]) -> CommandAnalysis {
    match name {
        "clone" => analyze_clone(args),
        "push" => analyze_transfer(name, args).with_git_settings(setting_changes::from_push(args)),
        "fetch" | "pull" | "ls-remote" | "fetch-pack" => analyze_transfer(name, args),
        "send-pack" | "http-push" => add_push(analyze_transfer(name, args), args),
        "subtree" | "lfs" if known_text(args.first()) == "push" => {
            add_push(CommandAnalysis::opaque(), args_from(args, 1))
        }
        "svn" => analyze_svn(args),
        "remote" => analyze_remote(args).with_git_settings(setting_changes::from_remote(args)),
        "submodule" => analyze_submodule(args),
        "reset" => analyze_reset(args),
        "checkout" => analyze_checkout(args),
        "switch" => {
            let line =
                options!("-cC: create: force-create: orphan: conflict: force discard-changes")
                    .git()
                    .parse(args);
            let forced = line.has(&["f", "force", "discard-changes"]);
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
        "branch" => analyze_branch(args).with_git_settings(setting_changes::from_branch(args)),
        "tag" => {
            let line =
                options!("-mFu: message: file: local-user: cleanup: delete").git().parse(args);
            let CommandAnalysis { publishes_reads, touches, .. } = with_message(&line);
            let analysis = mark_critical_if(line.has(&["d", "delete"]), &line, "removes a tag");
            CommandAnalysis { publishes_reads, touches, ..analysis }
        }
        "rm" => analyze_rm(args),
        "mv" => {
            let words = options!("").git().parse(args).operands;
            let (target, sources) = words
                .split_last()
                .map_or((None, &[] as &[ShellArg]), |(last, rest)| (Some(last), rest));
            let analysis =
                sources.iter().fold(CommandAnalysis::opaque(), |command_analysis, source| {
                    command_analysis.with_recursive_touch(FileAccess::Delete, source)
                });
            target.into_iter().fold(analysis, |study, target| {
                study.with_recursive_touch(FileAccess::Write, target)
            })
        }
        "reflog" => match args.first().map(ShellArg::as_known) {
            Some(Some("expire" | "delete" | "drop")) => {
                CommandAnalysis::opaque().mark_critical("removes the record of former states")
            }
            _ => caution_unknown_words(CommandAnalysis::opaque(), args),
        },
        "gc" => {
            let line = options!("prune").git().parse(args);
            mark_critical_if(line.has(&["prune"]), &line, "removes objects that could be recovered")
        }
        "prune" | "filter-repo" => {
            CommandAnalysis::opaque().mark_critical("removes history for good")
        }
        "filter-branch" => analyze_filter_branch(args),
        "update-ref" => {
            let line = options!("m: stdin delete").git().parse(args);
            mark_critical_if(line.has(&["d", "stdin", "delete"]), &line, "removes a reference")
        }
        "worktree" => analyze_worktree(args),
        "rebase" => {
            let line = options!("-xsXC: exec: onto: strategy: strategy-option: whitespace:")
                .git()
                .parse(args);
            add_scripts(CommandAnalysis::opaque(), &line.all_values(&["x", "exec"]))
                .with_caution_if(line.uncertain, "an argument may be `--exec`")
        }
        "bisect" => match known_text(args.first()) {
            "run" => CommandAnalysis::opaque().with_command(args_from(args, 1)),
            "visualize" | "view" | "replay" => {
                CommandAnalysis::opaque().with_caution("it runs what it is given")
            }
            _ => caution_unknown_words(CommandAnalysis::opaque(), args),
        },
        "difftool" | "mergetool" => {
            let line = options!("-xt: extcmd: tool:").git().parse(args);
            add_scripts(CommandAnalysis::opaque(), &line.all_values(&["x", "extcmd"]))
                .with_caution("it runs a tool that the settings name")
        }
        "config" => analyze_config(args).with_git_settings(setting_changes::from_config(args)),
        "hook" => CommandAnalysis::opaque().with_run(NestedExecution::Unknown("it runs a hook")),
        "init" => {
            let line = options!(
                "b: template: separate-git-dir: initial-branch: object-format: ref-format:"
            )
            .git()
            .parse(args);
            let written: Vec<ShellArg> = line
                .operands
                .iter()
                .cloned()
                .chain(line.all_values(&["separate-git-dir"]))
                .collect();
            add_templates(CommandAnalysis::opaque(), &line)
                .with_touches(FileAccess::Write, &written)
        }
        "format-patch" => {
            let line = options!("-onv: output-directory: output: signature-file: cover-letter:")
                .git()
                .parse(args);
            add_written_folders(
                CommandAnalysis::opaque(),
                &line.all_values(&["o", "output-directory", "output"]),
            )
        }
        "bundle" => match known_text(args.first()) {
            "create" => {
                let line = options!("").git().parse(args_from(args, 1));
                let file: Vec<ShellArg> = line.operands.into_iter().take(1).collect();
                CommandAnalysis::opaque().with_touches(FileAccess::Write, &file)
            }
            _ => CommandAnalysis::opaque(),
        },
        "checkout-index" => {
            let line = options!("prefix: stage: force").git().parse(args);
            mark_critical_if(line.has(&["f", "force"]), &line, "overwrites files")
                .with_touches(FileAccess::Write, &line.all_values(&["prefix"]))
                .with_touches(FileAccess::Write, &line.operands)
        }
        "merge-file" => {
            let line = options!("L: marker-size: diff-algorithm: stdout").git().parse(args);
            let kept = line.keeps(&["p", "stdout"]) && !line.uncertain;
            let written = if kept { 0 } else { 1 };
            CommandAnalysis::opaque()
                .with_touches(FileAccess::Read, &line.operands)
                .with_touches(FileAccess::Write, line.operands.get(..written).unwrap_or_default())
        }
        "merge-index" => {
            let line = options!("").git().until_operand().parse(args);
            let program = line.operands.into_iter().take(1).collect();
            CommandAnalysis::opaque().with_run(NestedExecution::from_argv_and_more(program))
        }
        "fast-export" | "mailsplit" | "mailinfo" | "interpret-trailers" | "index-pack"
        | "pack-objects" | "bugreport" | "diagnose" | "hash-object" => analyze_files(name, args),
        "read-tree" => {
            let line = options!("prefix: index-output: reset").git().parse(args);
            mark_critical_if(
                line.has(&["u", "reset"]),
                &line,
                "throws away changes that are not committed",
            )
            .with_touches(FileAccess::Write, &line.all_values(&["index-output"]))
        }
        "apply" | "am" => {
            let line = options!(
                "-pC: directory: exclude: include: build-fake-ancestor: whitespace: patch-format: \
                 check stat numstat summary apply"
            )
            .git()
            .parse(args);
            let study = CommandAnalysis::opaque()
                .with_touches(FileAccess::Read, &line.operands)
                .with_touches(FileAccess::Write, &line.all_values(&["build-fake-ancestor"]));
            // The changed files are named in the patch.
            let looks = ["check", "stat", "numstat", "summary"];
            let folders = line.all_values(&["directory"]);
            match folders.as_slice() {
                _ if name == "apply" && line.keeps(&looks) && !line.has(&["apply"]) => study,
                [] => study.with_recursive_touch(FileAccess::Write, &ShellArg::known(".")),
                folders => add_written_folders(study, folders),
            }
        }
        "commit" | "merge" => {
            let line = options!("-mFCct: message: file: template: reuse-message: author: date:")
                .git()
                .parse(args);
            with_message(&line).with_touches(FileAccess::Read, &line.all_values(&["t", "template"]))
        }
        "notes" => {
            let line = options!("-mFCc: message: file: reuse-message: reedit-message: ref:");
            with_message(&line.git().parse(args))
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
            .with_caution("it is not a git command and may be an alias that runs anything"),
    }
}

/// A message that everybody gets who gets the repository: from a file, or made when it runs.
fn with_message(line: &ParsedArguments<'_>) -> CommandAnalysis {
    let is_unknown = |text: &ShellArg| text.as_known().is_none();
    let is_made = line.values(&["m", "message"]).any(is_unknown);
    let publishes_reads = is_made || line.has(&["F", "file"]);
    CommandAnalysis { publishes_reads, ..CommandAnalysis::opaque() }
        .with_touches(FileAccess::Read, &line.all_values(&["F", "file"]))
}

/// Whether git has a command of this name, so that `git-name` is one too.
pub(super) fn is_git_command(name: &str) -> bool {
    let others = CommandAnalysis::opaque()
        .with_caution("it is not a git command and may be an alias that runs anything");
    analyze(name, &[]) != others
}

fn is_known(name: &str) -> bool {
    KNOWN_COMMANDS.contains(&name)
        || name.starts_with("diff-")
        || super::read_commands::analyze(name, &[]).is_some()
}

/// Known commands without further effects to list.
const KNOWN_COMMANDS: &[&str] = words!(
    "add cherry-pick revert sparse-checkout rerere replace repack commit-tree commit-graph \
     write-tree mktag mktree update-index update-server-info pack-refs \
     unpack-objects multi-pack-index prune-packed symbolic-ref verify-commit verify-tag \
     var fsck merge-tree request-pull range-diff show-index stage fmt-merge-msg column p4 \
     lfs backfill refs subtree flow cherry get-tar-commit-id unpack-file http-fetch"
);

pub(super) fn mark_critical_if(
    holds: bool,
    line: &ParsedArguments<'_>,
    why: &'static str,
) -> CommandAnalysis {
    let analysis = if holds {
        CommandAnalysis::opaque().mark_critical(why)
    } else {
        CommandAnalysis::opaque()
    };
    analysis
        .with_caution_if(line.uncertain, "an argument may be an option that throws something away")
}

pub(super) fn add_scripts(analysis: CommandAnalysis, texts: &[ShellArg]) -> CommandAnalysis {
    analysis.with_scripts(texts)
}

pub(super) fn add_written_folders(
    analysis: CommandAnalysis,
    folders: &[ShellArg],
) -> CommandAnalysis {
    folders.iter().fold(analysis, |command_analysis, folder| {
        command_analysis.with_recursive_touch(FileAccess::Write, folder)
    })
}

/// Adds a caution if a word that determines the effect is unknown.
pub(super) fn caution_unknown_words(
    analysis: CommandAnalysis,
    words: &[ShellArg],
) -> CommandAnalysis {
    let open = words.iter().any(|arg| arg.as_known().is_none() && arg.may_be_option());
    analysis.with_caution_if(open, "an argument that is not known may decide what it does")
}

fn analyze_reset(args: &[ShellArg]) -> CommandAnalysis {
    let line = options!("pathspec-from-file: hard merge").git().parse(args);
    mark_critical_if(
        line.has(&["hard", "merge"]),
        &line,
        "throws away changes that are not committed",
    )
}

fn analyze_checkout(args: &[ShellArg]) -> CommandAnalysis {
    let line =
        options!("-bB: orphan: conflict: pathspec-from-file: track detach force ours theirs")
            .git()
            .parse(args);
    let makes_branch = line.keeps(&["b", "B", "t", "orphan", "track", "detach"]);
    let (operands, paths) = line.split_at_separator();
    let mut paths: Vec<ShellArg> = paths.to_vec();
    match operands {
        _ if makes_branch => {}
        [_, more @ ..] if !more.is_empty() => {
            // The first may be a commit or a path; the others are paths.
            paths.extend_from_slice(operands);
        }
        [only] if looks_like_path(only) => paths.push(only.clone()),
        _ => {}
    }
    let discards =
        !paths.is_empty() || line.has(&["f", "force", "ours", "theirs", "pathspec-from-file"]);
    let open = operands.iter().any(|arg| arg.as_known().is_none() && arg.may_be_option());
    let analysis = mark_critical_if(discards, &line, "overwrites changes that are not committed");
    add_written_folders(analysis, &paths.iter().filter_map(parse_pathspec).collect::<Vec<_>>())
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
    let line =
        options!("s: source: conflict: pathspec-from-file: staged worktree").git().parse(args);
    let staged_only = line.keeps(&["S", "staged"]) && !line.has(&["W", "worktree"]);
    let analysis =
        mark_critical_if(!staged_only, &line, "overwrites changes that are not committed");
    if staged_only {
        return analysis;
    }
    let edits_named_files = !line.operands.is_empty() && args.iter().all(is_plain_restore_arg);
    let written: Vec<ShellArg> = line.operands.iter().filter_map(parse_pathspec).collect();
    CommandAnalysis { edits_named_files, ..add_written_folders(analysis, &written) }
}

/// Whether an argument of `git restore` is a plain path or an option that restores nothing besides
/// the named paths.
fn is_plain_restore_arg(arg: &ShellArg) -> bool {
    let Some(text) = arg.as_known() else { return false };
    match text.strip_prefix('-') {
        Some(_) => {
            words!("-- -q --quiet -S --staged -W --worktree -SW --source=HEAD").contains(&text)
        }
        // Neither a pathspec with magic or globs nor a folder by its name.
        None => {
            let last = text.rsplit('/').next().unwrap_or_default();
            !matches!(last, "" | "." | "..")
                && !text.starts_with(':')
                && !text.contains(['*', '?', '[', '\\'])
        }
    }
}

fn analyze_clean(args: &[ShellArg]) -> CommandAnalysis {
    let line = options!("e: exclude: dry-run force").git().parse(args);
    if line.keeps(&["n", "dry-run"]) && !line.uncertain {
        return CommandAnalysis::opaque();
    }
    let mut folders = line.operands.clone();
    if folders.is_empty() {
        folders.push(ShellArg::known("."));
    }
    let analysis = mark_critical_if(
        line.has(&["f", "force"]) || line.uncertain,
        &line,
        "removes files that git does not know",
    );
    folders.iter().fold(analysis, |analysis, folder| {
        analysis.with_recursive_touch(FileAccess::Delete, folder)
    })
}

fn analyze_branch(args: &[ShellArg]) -> CommandAnalysis {
    let line =
        options!("u: set-upstream-to: sort: format: points-at: force delete").git().parse(args);
    let forced = line.has(&["f", "force"]);
    let removes = line.has(&["d", "delete"]) && forced;
    mark_critical_if(line.has(&["D"]) || removes, &line, "removes a branch with what is only on it")
}

fn analyze_rm(args: &[ShellArg]) -> CommandAnalysis {
    let line = options!("pathspec-from-file: cached force").git().parse(args);
    if line.keeps(&["cached"]) && !line.uncertain {
        return CommandAnalysis::opaque();
    }
    let recursive = line.has(&["r"]);
    let analysis = mark_critical_if(
        recursive || line.has(&["f", "force"]),
        &line,
        "removes files recursively or by force",
    );
    line.operands.iter().filter_map(parse_pathspec).fold(analysis, |command_analysis, path| {
        if recursive {
            command_analysis.with_recursive_touch(FileAccess::Delete, &path)
        } else {
            command_analysis.with_touch(FileAccess::Delete, &path)
        }
    })
}

fn analyze_filter_branch(args: &[ShellArg]) -> CommandAnalysis {
    let line = options!(
        "d: \
         setup,env-filter,tree-filter,index-filter,parent-filter,msg-filter,commit-filter:script \
         tag-name-filter:script subdirectory-filter:"
    );
    let line = line.git().parse(args);
    let texts: Vec<ShellArg> = line.used_values(ValueUse::Script).cloned().collect();
    add_scripts(CommandAnalysis::opaque(), &texts).mark_critical("rewrites history")
}

/// Commands that write files with names from their arguments.
fn analyze_files(name: &str, args: &[ShellArg]) -> CommandAnalysis {
    let line = options!(
        "o: d: f: b: s: output-directory: export-marks: import-marks: import-marks-if-exists: \
         anonymize-map: suffix: mode: trailer: where: if-exists: if-missing: index-version: \
         max-pack-size: path: in-place"
    )
    .git()
    .parse(args);
    let written = match name {
        "mailinfo" => line.operands.as_slice(),
        "interpret-trailers" if line.has(&["in-place"]) => line.operands.as_slice(),
        _ => &[],
    };
    let read = match name {
        "fast-export" | "pack-objects" | "mailinfo" => &[],
        _ => line.operands.as_slice(),
    };
    let mut analysis = CommandAnalysis::opaque()
        .with_touches(FileAccess::Read, read)
        .with_touches(FileAccess::Read, &line.all_values(&["import-marks", "anonymize-map"]))
        .with_touches(FileAccess::Write, written)
        .with_touches(FileAccess::Write, &line.all_values(&["export-marks"]));
    if name == "pack-objects" {
        // It appends a checksum to the name.
        for base in &line.operands {
            let files = unknown_arg(base.known_prefix(), format!("{base}…"));
            analysis = analysis.with_touch(FileAccess::Write, &files);
        }
    }
    add_written_folders(analysis, &line.all_values(&["o", "output-directory"]))
        .with_caution_if(line.uncertain, "an argument may be an option that writes a file")
}

fn analyze_worktree(args: &[ShellArg]) -> CommandAnalysis {
    let line = options!("-bB: reason: expire: force").git().parse(args_from(args, 1));
    let words = &line.operands;
    match known_text(args.first()) {
        "add" => add_written_folders(CommandAnalysis::opaque(), words.get(..1).unwrap_or_default()),
        "remove" => {
            let analysis = mark_critical_if(
                line.has(&["f", "force"]),
                &line,
                "removes a worktree with its changes",
            );
            words.iter().take(1).fold(analysis, |command_analysis, path| {
                command_analysis.with_recursive_touch(FileAccess::Delete, path)
            })
        }
        "move" => add_written_folders(CommandAnalysis::opaque(), words),
        _ => caution_unknown_words(CommandAnalysis::opaque(), args),
    }
}

fn analyze_config(args: &[ShellArg]) -> CommandAnalysis {
    let line = options!(
        "f: file: blob: type: default: comment: value: global system edit unset unset-all \
         remove-section"
    )
    .git()
    .parse(args);
    let words = match known_text(line.operands.first()) {
        "set" => args_from(&line.operands, 1),
        _ => line.operands.as_slice(),
    };
    let mut targets = line.all_values(&["f", "file"]);
    targets.extend(line.has(&["global"]).then(|| ShellArg::known("~/.gitconfig")));
    targets.extend(line.has(&["system"]).then(|| ShellArg::known("/etc/gitconfig")));
    if !line.keeps(&["f", "file", "global", "system"]) {
        targets.push(ShellArg::known(".git/config"));
    }
    let mut analysis = CommandAnalysis::opaque().with_touches(FileAccess::Write, &targets);
    if line.has(&["e", "edit"]) || line.uncertain || known_text(words.first()) == "edit" {
        return analysis.with_caution("what it sets is not known");
    }
    if line.keeps(&["unset", "unset-all", "remove-section"]) || known_text(words.first()) == "unset"
    {
        return analysis;
    }
    if let Some(key) = words.first()
        && let GitConfigEffect::Runs(text) = GitConfigEffect::new(key, words.get(1))
    {
        analysis.runs.extend(text.map(|text| NestedExecution::from_script(&text)));
        analysis = analysis.with_caution("it sets something that may run a command");
    }
    analysis
}
