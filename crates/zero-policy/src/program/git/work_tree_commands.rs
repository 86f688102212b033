//! Commands of git that change the files of a work tree, most of which can lose changes.

use super::read_commands::parse_pathspec;
use super::unknown_arguments::{caution_unknown_words, mark_critical_if};
use crate::program::arguments::args_from;
use crate::program::command_analysis::{CommandAnalysis, FileAccess};
use crate::program::options::options;
use crate::shell::ShellArg;
use crate::word_list::words;

pub(super) fn analyze_reset(args: &[ShellArg]) -> CommandAnalysis {
    let line = options!("pathspec-from-file: hard merge").git().parse(args);
    mark_critical_if(
        line.has(&["hard", "merge"]),
        &line,
        "throws away changes that are not committed",
    )
}

pub(super) fn analyze_checkout(args: &[ShellArg]) -> CommandAnalysis {
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
    let paths: Vec<ShellArg> = paths.iter().filter_map(parse_pathspec).collect();
    analysis
        .with_recursive_touches(FileAccess::Write, &paths)
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

pub(super) fn analyze_switch(args: &[ShellArg]) -> CommandAnalysis {
    let line = options!("-cC: create: force-create: orphan: conflict: force discard-changes")
        .git()
        .parse(args);
    let forced = line.has(&["f", "force", "discard-changes"]);
    mark_critical_if(forced, &line, "throws away changes that are not committed")
}

pub(super) fn analyze_restore(args: &[ShellArg]) -> CommandAnalysis {
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
    let analysis = analysis.with_recursive_touches(FileAccess::Write, &written);
    CommandAnalysis { edits_named_files, ..analysis }
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

pub(super) fn analyze_clean(args: &[ShellArg]) -> CommandAnalysis {
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
    analysis.with_recursive_touches(FileAccess::Delete, &folders)
}

pub(super) fn analyze_stash(args: &[ShellArg]) -> CommandAnalysis {
    match args.first().map(ShellArg::as_known) {
        Some(Some("drop" | "clear")) => {
            CommandAnalysis::opaque().mark_critical("throws away stashed changes")
        }
        Some(None) => caution_unknown_words(CommandAnalysis::opaque(), args_from(args, 0)),
        _ => CommandAnalysis::opaque(),
    }
}

pub(super) fn analyze_rm(args: &[ShellArg]) -> CommandAnalysis {
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

pub(super) fn analyze_mv(args: &[ShellArg]) -> CommandAnalysis {
    let line = options!("").git().parse(args);
    let Some((target, sources)) = line.operands.split_last() else {
        return CommandAnalysis::opaque();
    };
    CommandAnalysis::opaque()
        .with_recursive_touches(FileAccess::Delete, sources)
        .with_recursive_touch(FileAccess::Write, target)
}

pub(super) fn analyze_checkout_index(args: &[ShellArg]) -> CommandAnalysis {
    let line = options!("prefix: stage: force").git().parse(args);
    mark_critical_if(line.has(&["f", "force"]), &line, "overwrites files")
        .with_touches(FileAccess::Write, &line.all_values(&["prefix"]))
        .with_touches(FileAccess::Write, &line.operands)
}

pub(super) fn analyze_merge_file(args: &[ShellArg]) -> CommandAnalysis {
    let line = options!("L: marker-size: diff-algorithm: stdout").git().parse(args);
    let prints_only = line.keeps(&["p", "stdout"]) && !line.uncertain;
    let written = if prints_only { 0 } else { 1 };
    CommandAnalysis::opaque()
        .with_touches(FileAccess::Read, &line.operands)
        .with_touches(FileAccess::Write, line.operands.get(..written).unwrap_or_default())
}

pub(super) fn analyze_read_tree(args: &[ShellArg]) -> CommandAnalysis {
    let line = options!("prefix: index-output: reset").git().parse(args);
    mark_critical_if(line.has(&["u", "reset"]), &line, "throws away changes that are not committed")
        .with_touches(FileAccess::Write, &line.all_values(&["index-output"]))
}
