//! Read-only commands of git.

use super::remote_commands;
use crate::program::arguments::{args_from, known_text, strip_arg_prefix, unknown_arg};
use crate::program::command_analysis::{
    CommandAnalysis, CommandClass, FileAccess, NestedExecution,
};
use crate::program::options::options;
use crate::shell::ShellArg;
use crate::word_list::words;

/// `None` if the command is not known to be read-only.
pub(super) fn analyze(name: &str, args: &[ShellArg]) -> Option<CommandAnalysis> {
    Some(match name {
        "status" | "log" | "show" | "diff" | "blame" | "annotate" | "shortlog" | "describe"
        | "rev-parse" | "rev-list" | "ls-files" | "ls-tree" | "cat-file" | "for-each-ref"
        | "merge-base" | "name-rev" | "count-objects" | "check-ignore" | "check-attr"
        | "diff-tree" | "diff-files" | "diff-index" | "show-ref" | "show-branch" | "cherry"
        | "range-diff" | "whatchanged" | "check-mailmap" | "check-ref-format" | "verify-pack"
        | "patch-id" | "stripspace" => analyze_show(name, args),
        "version" => CommandAnalysis::read_only(),
        "help" => analyze_help(args),
        "fsck" => {
            let line = options!("lost-found").git().parse(args);
            if line.has(&["lost-found"]) || line.uncertain {
                return None;
            } else {
                CommandAnalysis::read_only()
            }
        }
        "grep" => analyze_grep(args),
        "archive" => analyze_archive(args),
        "reflog" => match args.first() {
            None => CommandAnalysis::read_only(),
            Some(first) => match first.as_known() {
                Some("show" | "list" | "exists") => analyze_show(name, args_from(args, 1)),
                Some("expire" | "delete" | "drop") | None => return None,
                Some(_) => analyze_show(name, args),
            },
        },
        "remote" => match known_text(args.first()) {
            "" if args.is_empty() => CommandAnalysis::read_only(),
            "-v" | "--verbose" if args.len() == 1 => CommandAnalysis::read_only(),
            "get-url" => CommandAnalysis::read_only(),
            _ => return None,
        },
        "branch" => analyze_listing(args, BRANCH)?,
        "tag" => analyze_listing(args, TAG)?,
        "stash" => match known_text(args.first()) {
            "list" | "show" => analyze_show(name, args_from(args, 1)),
            _ => return None,
        },
        "config" => analyze_config(args)?,
        "worktree" if known_text(args.first()) == "list" => CommandAnalysis::read_only(),
        "submodule" if known_text(args.first()) == "status" => CommandAnalysis::read_only(),
        "notes" if matches!(known_text(args.first()), "list" | "show") => {
            analyze_show(name, args_from(args, 1))
        }
        "symbolic-ref" => {
            let line = options!("m: delete").git().parse(args);
            if line.operands.len() > 1 || line.has(&["d", "m", "delete"]) || line.uncertain {
                return None;
            }
            CommandAnalysis::read_only()
        }
        "ls-remote" => analyze_ls_remote(args)?,
        "bundle" if matches!(known_text(args.first()), "verify" | "list-heads") => {
            let line = options!("").git().parse(args_from(args, 1));
            let files: Vec<ShellArg> = line.operands.into_iter().take(1).collect();
            CommandAnalysis::read_only().with_touches(FileAccess::Read, &files)
        }
        _ => return None,
    })
}

/// Commands that show commits, differences or files.
fn analyze_show(name: &str, args: &[ShellArg]) -> CommandAnalysis {
    // Options that take only an attached value (`=`) have no mark: the word after `--tags` is a
    // commit or a file.
    macro_rules! show_options {
        ($letters:literal) => {
            options!(concat!(
                $letters,
                "output: max-count: skip: since: after: until: before: author: committer: grep: \
                 exclude: exclude-from: exclude-per-directory: contents: ignore-rev: \
                 ignore-revs-file: sort: ext-diff textconv filters order-file stdin batch \
                 batch-command"
            ))
        };
    }
    let table = match name {
        "log" | "show" | "whatchanged" | "reflog" | "stash" => show_options!("-nSGLO: "),
        "diff" | "diff-tree" | "diff-files" | "diff-index" => show_options!("-SGO: "),
        "blame" | "annotate" => show_options!("-LS: "),
        "ls-files" => show_options!("-xX: "),
        _ => show_options!(""),
    };
    let line = table.git().parse(args);
    let mut analysis = CommandAnalysis::read_only();
    if line.has(&["ext-diff", "textconv", "filters"]) {
        analysis = CommandAnalysis::opaque()
            .with_caution("it runs programs that the repository's settings name");
    }
    for file in line.all_values(&["output"]) {
        analysis = add_output_file(analysis, &file);
    }
    if line.has(&["output"]) && line.values(&["output"]).next().is_none() {
        analysis = CommandAnalysis::opaque().with_caution("it writes to a file");
    }
    let list = match name {
        "ls-files" => "X",
        "blame" | "annotate" => "S",
        _ => "O",
    };
    let lists = [list, "exclude-from", "contents", "ignore-revs-file", "order-file"];
    for file in line.all_values(&lists) {
        analysis = analysis.with_touch(FileAccess::Read, &file);
    }
    // It shows the objects that its input names.
    if line.has(&["stdin", "batch", "batch-command"]) && !name.starts_with("check-") {
        analysis = analysis.with_touch(FileAccess::Read, &unknown_arg("", "what - names"));
    }
    // `-L 1,5:file` shows lines of a file.
    for range in line.values(&["L"]) {
        if let Some((before, _)) = range.known_prefix().rsplit_once(':')
            && let Some(path) = strip_arg_prefix(range, &format!("{before}:"))
        {
            analysis = analysis.with_touch(FileAccess::Read, &path);
        }
    }
    if line.uncertain {
        analysis.class = CommandClass::Opaque;
        analysis =
            analysis.with_caution("an argument may be an option that writes or runs something");
    }
    let (operands, paths) = line.split_at_separator();
    for operand in operands {
        if let Some(path) = parse_object_path(operand).or_else(|| parse_pathspec(operand)) {
            analysis = analysis.with_touch(FileAccess::Read, &path);
        }
    }
    for path in paths.iter().filter_map(parse_pathspec) {
        analysis = analysis.with_touch(FileAccess::Read, &path);
    }
    analysis
}

/// A command that writes its output to a file is not read-only.
fn add_output_file(mut analysis: CommandAnalysis, file: &ShellArg) -> CommandAnalysis {
    if analysis.class == CommandClass::ReadOnly {
        analysis.class = CommandClass::Files;
    }
    analysis.with_touch(FileAccess::Write, file)
}

/// The path in `REV:path`, which names a file of a commit.
fn parse_object_path(operand: &ShellArg) -> Option<ShellArg> {
    let start = operand.known_prefix();
    let (rev, path) = start.split_once(':')?;
    // `:/text` searches commit messages, `:(magic)` begins a pathspec.
    if rev.is_empty() && path.starts_with(['/', '(', '!', '^']) {
        return None;
    }
    let mut prefix = format!("{rev}:");
    // `:2:path` is the path in a stage of the index.
    if rev.is_empty() && path.get(1..2) == Some(":") {
        prefix.push_str(path.get(..2)?);
    }
    strip_arg_prefix(operand, &prefix).map(as_pattern)
}

/// The path of a pathspec; `None` for one that excludes paths.
pub(super) fn parse_pathspec(arg: &ShellArg) -> Option<ShellArg> {
    let start = arg.known_prefix();
    if !start.starts_with(':') {
        return Some(as_pattern(arg.clone()));
    }
    if start.starts_with(":!") || start.starts_with(":^") || start.starts_with(":(exclude") {
        return None;
    }
    if start.starts_with(":/") {
        return strip_arg_prefix(arg, ":/").map(as_pattern);
    }
    let magic = start.find(')').and_then(|end| start.get(..=end));
    magic
        .and_then(|magic| strip_arg_prefix(arg, magic))
        .map(as_pattern)
        .or_else(|| Some(arg.clone()))
}

/// git expands `*` and other globs itself, even if the shell did not.
fn as_pattern(path: ShellArg) -> ShellArg {
    match path {
        ShellArg::Known(text) if text.contains(['*', '?', '[']) => ShellArg::Pattern(text),
        other => other,
    }
}

fn analyze_help(args: &[ShellArg]) -> CommandAnalysis {
    let line = options!("web info").git().parse(args);
    if line.has(&["w", "i", "web", "info"]) || line.uncertain {
        CommandAnalysis::opaque()
    } else {
        CommandAnalysis::read_only()
    }
}

fn analyze_grep(args: &[ShellArg]) -> CommandAnalysis {
    // The order of the tables is that of git: letters with a value, without `-O`, whose value is
    // always attached.
    let (opens, plain): (Vec<&ShellArg>, Vec<&ShellArg>) = args.iter().partition(|arg| {
        arg.known_prefix().starts_with("-O") && !arg.known_prefix().starts_with("--")
    });
    let plain: Vec<ShellArg> = plain.into_iter().cloned().collect();
    let line = options!(
        "-efABCmP: max-depth: max-count: threads: context: after-context: before-context: \
         open-files-in-pager textconv"
    )
    .git()
    .parse(&plain);
    let mut analysis = CommandAnalysis::read_only();
    let pagers: Vec<ShellArg> = opens
        .iter()
        .filter_map(|arg| strip_arg_prefix(arg, "-O"))
        .chain(line.all_values(&["open-files-in-pager"]))
        .collect();
    if !opens.is_empty() || line.has(&["O", "open-files-in-pager"]) {
        analysis = pagers
            .iter()
            .filter(|pager| **pager != ShellArg::known(""))
            .fold(CommandAnalysis::opaque(), |command_analysis, pager| {
                command_analysis.with_run(NestedExecution::from_script(pager))
            })
            .with_caution("it opens what it finds in another program");
    }
    if line.has(&["textconv"]) {
        analysis = CommandAnalysis::opaque()
            .with_caution("it runs programs that the repository's settings name");
    }
    for file in line.all_values(&["f"]) {
        analysis = analysis.with_touch(FileAccess::Read, &file);
    }
    if line.uncertain {
        analysis.class = CommandClass::Opaque;
        analysis = analysis.with_caution("an argument may be an option that runs something");
    }
    let with_pattern = usize::from(!line.has(&["e", "f"]));
    let (operands, paths) = line.split_at_separator();
    let mut paths: Vec<ShellArg> =
        operands.iter().skip(with_pattern).chain(paths).cloned().collect();
    if paths.is_empty() {
        paths.push(ShellArg::known("."));
    }
    for path in paths.iter().filter_map(parse_pathspec) {
        analysis = analysis.with_recursive_touch(FileAccess::Read, &path);
    }
    analysis
}

fn analyze_archive(args: &[ShellArg]) -> CommandAnalysis {
    let line =
        options!("o: output: remote: exec: format: prefix: add-file: mtime:").git().parse(args);
    let mut analysis = CommandAnalysis::read_only();
    for file in line.all_values(&["o", "output"]) {
        analysis = add_output_file(analysis, &file);
    }
    for file in line.all_values(&["add-file"]) {
        analysis = analysis.with_touch(FileAccess::Read, &file);
    }
    for path in line.operands.iter().skip(1).filter_map(parse_pathspec) {
        analysis = analysis.with_recursive_touch(FileAccess::Read, &path);
    }
    if line.has(&["remote", "exec"]) || line.uncertain {
        analysis.class = CommandClass::Opaque;
    }
    analysis = remote_commands::add_transport_programs(analysis, &line, &["exec"]);
    for remote in line.all_values(&["remote"]) {
        analysis = remote_commands::add_address(analysis, &remote);
    }
    analysis.with_caution_if(
        line.uncertain,
        "an argument may be an option that writes or runs something",
    )
}

/// Options that make a command list instead of change.
struct ListingOptions {
    /// Letters and names that are allowed when listing.
    letters: &'static str,
    names: &'static [&'static str],
    /// Letters and names that make it list, so that operands are search patterns.
    listing_letters: &'static [&'static str],
    listing_names: &'static [&'static str],
}

const BRANCH: ListingOptions = ListingOptions {
    letters: "arvqli",
    names: words!(
        "all remotes verbose quiet list show-current contains no-contains merged no-merged \
         points-at sort format color no-color column no-column abbrev no-abbrev ignore-case \
         omit-empty"
    ),
    listing_letters: &["l"],
    listing_names: &["list", "contains", "no-contains", "merged", "no-merged", "points-at"],
};

const TAG: ListingOptions = ListingOptions {
    letters: "lin0123456789",
    names: words!(
        "list contains no-contains merged no-merged points-at sort format color no-color column \
         no-column ignore-case omit-empty"
    ),
    listing_letters: &["l", "n"],
    listing_names: &["list", "contains", "no-contains", "merged", "no-merged", "points-at"],
};

fn analyze_listing(args: &[ShellArg], listing: ListingOptions) -> Option<CommandAnalysis> {
    let line = options!("sort: format: points-at:").git().parse(args);
    let fine = line.has_only(listing.letters, listing.names) && !line.uncertain;
    let lists = line.operands.is_empty()
        || line.has(listing.listing_letters)
        || listing.listing_names.iter().any(|name| {
            args.iter().any(|arg| {
                let text = known_text(Some(arg));
                text.strip_prefix("--").map(|long| long.split('=').next().unwrap_or(long))
                    == Some(*name)
            })
        });
    (fine && lists).then(CommandAnalysis::read_only)
}

fn analyze_config(args: &[ShellArg]) -> Option<CommandAnalysis> {
    let line = options!("f: file: blob: type: default: comment: value: url:").git().parse(args);
    let fine = line.has_only(
        "lzf",
        words!(
            "get get-all get-regexp get-urlmatch get-color get-colorbool list global system local \
             worktree file blob type bool int bool-or-int path null name-only show-origin \
             show-scope default includes no-includes all regexp show-names expiry-date fixed-value"
        ),
    );
    if !fine || line.uncertain {
        return None;
    }
    let asks = line.has(&["l"])
        || args.iter().any(|arg| {
            let text = known_text(Some(arg));
            words!("--list --get --get-all --get-regexp --get-urlmatch --get-color --get-colorbool")
                .contains(&text)
        });
    let words = &line.operands;
    let reads = match (known_text(words.first()), words.len()) {
        ("get" | "list", _) => true,
        // A single key is read.
        ("edit" | "set" | "unset" | "remove-section" | "rename-section", _) => false,
        (_, 0 | 1) => true,
        _ => asks,
    };
    let files = line.all_values(&["f", "file"]);
    reads.then(|| CommandAnalysis::read_only().with_touches(FileAccess::Read, &files))
}

/// Queries another machine, so only a literal address can be judged without a rule.
fn analyze_ls_remote(args: &[ShellArg]) -> Option<CommandAnalysis> {
    let line = options!("o: upload-pack: exec: sort: server-option:").git().parse(args);
    let words = &line.operands;
    let address = words.first()?;
    let runs = line.has(&["upload-pack", "exec"]);
    if line.uncertain || runs || !remote_commands::is_address(address) {
        return None;
    }
    let analysis = remote_commands::add_address(CommandAnalysis::read_only(), address);
    analysis.runs.is_empty().then_some(analysis)
}
