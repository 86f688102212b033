//! Commands of git that only look.

use super::super::{CommandAnalysis, CommandClass, FileAccess, NestedExecution, after, from, word};
use super::git_arguments::GitArguments;
use super::remote_commands;
use crate::shell::ShellArg;

/// Options that always take a value, of the commands that show commits and differences. Those that
/// take one only behind `=` are not here: the word after `--tags` is a commit or a file.
const VALUES: &[&str] = &[
    "output",
    "max-count",
    "skip",
    "since",
    "after",
    "until",
    "before",
    "author",
    "committer",
    "grep",
    "exclude",
    "exclude-from",
    "exclude-per-directory",
    "contents",
    "ignore-rev",
    "ignore-revs-file",
    "sort",
];

/// `None` when the command is not known to only look.
pub(super) fn study(name: &str, args: &[ShellArg]) -> Option<CommandAnalysis> {
    Some(match name {
        "status" | "log" | "show" | "diff" | "blame" | "annotate" | "shortlog" | "describe"
        | "rev-parse" | "rev-list" | "ls-files" | "ls-tree" | "cat-file" | "for-each-ref"
        | "merge-base" | "name-rev" | "count-objects" | "check-ignore" | "check-attr"
        | "diff-tree" | "diff-files" | "diff-index" | "show-ref" | "show-branch" | "cherry"
        | "range-diff" | "whatchanged" | "check-mailmap" | "check-ref-format" | "verify-pack"
        | "patch-id" | "stripspace" => shows(name, args),
        "version" => CommandAnalysis::read_only(),
        "help" => help(args),
        "fsck" => {
            let line = GitArguments::read(args, "", &[]);
            if line.has("", &["lost-found"]) || line.open {
                return None;
            } else {
                CommandAnalysis::read_only()
            }
        }
        "grep" => grep(args),
        "archive" => archive(args),
        "reflog" => match args.first() {
            None => CommandAnalysis::read_only(),
            Some(first) => match first.as_known() {
                Some("show" | "list" | "exists") => shows(name, from(args, 1)),
                Some("expire" | "delete" | "drop") | None => return None,
                Some(_) => shows(name, args),
            },
        },
        "remote" => match word(args.first()) {
            "" if args.is_empty() => CommandAnalysis::read_only(),
            "-v" | "--verbose" if args.len() == 1 => CommandAnalysis::read_only(),
            "get-url" => CommandAnalysis::read_only(),
            _ => return None,
        },
        "branch" => lists(args, BRANCH)?,
        "tag" => lists(args, TAG)?,
        "stash" => match word(args.first()) {
            "list" | "show" => shows(name, from(args, 1)),
            _ => return None,
        },
        "config" => config(args)?,
        "worktree" if word(args.first()) == "list" => CommandAnalysis::read_only(),
        "submodule" if word(args.first()) == "status" => CommandAnalysis::read_only(),
        "notes" if matches!(word(args.first()), "list" | "show") => shows(name, from(args, 1)),
        "symbolic-ref" => {
            let line = GitArguments::read(args, "m", &[]);
            if line.words().len() > 1 || line.has("dm", &["delete"]) || line.open {
                return None;
            }
            CommandAnalysis::read_only()
        }
        "ls-remote" => ls_remote(args)?,
        "bundle" if matches!(word(args.first()), "verify" | "list-heads") => {
            let line = GitArguments::read(from(args, 1), "", &[]);
            let files: Vec<ShellArg> = line.words().into_iter().take(1).collect();
            CommandAnalysis::read_only().touches_all(FileAccess::Read, &files)
        }
        _ => return None,
    })
}

/// Commands that show commits, differences or files.
fn shows(name: &str, args: &[ShellArg]) -> CommandAnalysis {
    let letters = match name {
        "log" | "show" | "whatchanged" | "reflog" | "stash" => "nSGLO",
        "diff" | "diff-tree" | "diff-files" | "diff-index" => "SGO",
        "blame" | "annotate" => "LS",
        "ls-files" => "xX",
        _ => "",
    };
    let line = GitArguments::read(args, letters, VALUES);
    let mut study = CommandAnalysis::read_only();
    if line.has("", &["ext-diff", "textconv", "filters"]) {
        study = CommandAnalysis::program()
            .caution("it runs programs that the repository's settings name");
    }
    for file in line.values("", &["output"]) {
        study = written(study, &file);
    }
    if line.has("", &["output"]) && line.values("", &["output"]).is_empty() {
        study = CommandAnalysis::program().caution("it writes to a file");
    }
    let order = if letters.contains('O') { "O" } else { "" };
    let list = match name {
        "ls-files" => "X",
        "blame" | "annotate" => "S",
        _ => order,
    };
    for file in line.values(list, &["exclude-from", "contents", "ignore-revs-file", "order-file"]) {
        study = study.touches(FileAccess::Read, &file);
    }
    if letters.contains('L') {
        // `-L 1,5:file` shows lines of a file.
        for range in line.values("L", &[]) {
            if let Some((before, _)) = range.certain_start().rsplit_once(':')
                && let Some(path) = after(&range, &format!("{before}:"))
            {
                study = study.touches(FileAccess::Read, &path);
            }
        }
    }
    if line.open {
        study.nature = CommandClass::Program;
        study = study.caution("an argument may be an option that writes or runs something");
    }
    for operand in &line.operands {
        if let Some(path) = object_path(operand).or_else(|| pathspec(operand)) {
            study = study.touches(FileAccess::Read, &path);
        }
    }
    for path in &line.paths {
        if let Some(path) = pathspec(path) {
            study = study.touches(FileAccess::Read, &path);
        }
    }
    study
}

/// A command that writes its output to a file is no longer one that only looks.
fn written(mut study: CommandAnalysis, file: &ShellArg) -> CommandAnalysis {
    if study.nature == CommandClass::ReadOnly {
        study.nature = CommandClass::Files;
    }
    study.touches(FileAccess::Write, file)
}

/// The path in `REV:path`, which names a file of a commit.
fn object_path(operand: &ShellArg) -> Option<ShellArg> {
    let start = operand.certain_start();
    let (rev, path) = start.split_once(':')?;
    // `:/text` looks for a message, `:(magic)` begins a pathspec.
    if rev.is_empty() && path.starts_with(['/', '(', '!', '^']) {
        return None;
    }
    let mut prefix = format!("{rev}:");
    // `:2:path` is the path in a stage of the index.
    if rev.is_empty() && path.get(1..2) == Some(":") {
        prefix.push_str(path.get(..2)?);
    }
    after(operand, &prefix).map(pattern)
}

/// The path that a pathspec means; `None` for one that leaves paths out.
pub(super) fn pathspec(arg: &ShellArg) -> Option<ShellArg> {
    let start = arg.certain_start();
    if !start.starts_with(':') {
        return Some(pattern(arg.clone()));
    }
    if start.starts_with(":!") || start.starts_with(":^") || start.starts_with(":(exclude") {
        return None;
    }
    if start.starts_with(":/") {
        return after(arg, ":/").map(pattern);
    }
    let magic = start.find(')').and_then(|end| start.get(..=end));
    magic.and_then(|magic| after(arg, magic)).map(pattern).or_else(|| Some(arg.clone()))
}

/// git expands `*` and its like by itself, even where the shell did not.
fn pattern(path: ShellArg) -> ShellArg {
    match path {
        ShellArg::Known(text) if text.contains(['*', '?', '[']) => ShellArg::Pattern(text),
        other => other,
    }
}

fn help(args: &[ShellArg]) -> CommandAnalysis {
    let line = GitArguments::read(args, "", &[]);
    if line.has("wi", &["web", "info"]) || line.open {
        CommandAnalysis::program()
    } else {
        CommandAnalysis::read_only()
    }
}

fn grep(args: &[ShellArg]) -> CommandAnalysis {
    // The order of the tables is that of git: letters with a value, without `-O`, whose value is
    // only ever attached.
    let (opens, plain): (Vec<&ShellArg>, Vec<&ShellArg>) = args.iter().partition(|arg| {
        arg.certain_start().starts_with("-O") && !arg.certain_start().starts_with("--")
    });
    let plain: Vec<ShellArg> = plain.into_iter().cloned().collect();
    let line = GitArguments::read(
        &plain,
        "efABCmP",
        &["max-depth", "max-count", "threads", "context", "after-context", "before-context"],
    );
    let mut study = CommandAnalysis::read_only();
    let pagers: Vec<ShellArg> = opens
        .iter()
        .filter_map(|arg| after(arg, "-O"))
        .chain(line.values("", &["open-files-in-pager"]))
        .collect();
    if !opens.is_empty() || line.has("O", &["open-files-in-pager"]) {
        study = pagers
            .iter()
            .filter(|pager| **pager != ShellArg::known(""))
            .fold(CommandAnalysis::program(), |study, pager| {
                study.runs(NestedExecution::script(pager))
            })
            .caution("it opens what it finds in another program");
    }
    if line.has("", &["textconv"]) {
        study = CommandAnalysis::program()
            .caution("it runs programs that the repository's settings name");
    }
    for file in line.values("f", &[]) {
        study = study.touches(FileAccess::Read, &file);
    }
    if line.open {
        study.nature = CommandClass::Program;
        study = study.caution("an argument may be an option that runs something");
    }
    let with_pattern = usize::from(!line.has("ef", &[]));
    let mut paths: Vec<ShellArg> = line.operands.iter().skip(with_pattern).cloned().collect();
    paths.extend(line.paths.iter().cloned());
    if paths.is_empty() {
        paths.push(ShellArg::known("."));
    }
    for path in paths.iter().filter_map(pathspec) {
        study = study.touches_beneath(FileAccess::Read, &path);
    }
    study
}

fn archive(args: &[ShellArg]) -> CommandAnalysis {
    let line = GitArguments::read(
        args,
        "o",
        &["output", "remote", "exec", "format", "prefix", "add-file", "mtime"],
    );
    let mut study = CommandAnalysis::read_only();
    for file in line.values("o", &["output"]) {
        study = written(study, &file);
    }
    for file in line.values("", &["add-file"]) {
        study = study.touches(FileAccess::Read, &file);
    }
    for path in line.words().iter().skip(1).filter_map(pathspec) {
        study = study.touches_beneath(FileAccess::Read, &path);
    }
    if line.has("", &["remote", "exec"]) || line.open {
        study.nature = CommandClass::Program;
    }
    study = remote_commands::transport(study, &line, &["exec"]);
    for remote in line.values("", &["remote"]) {
        study = remote_commands::reaches(study, &remote);
    }
    study.caution_if(line.open, "an argument may be an option that writes or runs something")
}

/// What makes a command list instead of change.
struct ListingOptions {
    /// Letters and names that are fine where it lists.
    letters: &'static str,
    names: &'static [&'static str],
    /// Letters and names that make it list, so that words are what to look for.
    listing_letters: &'static str,
    listing_names: &'static [&'static str],
}

const BRANCH: ListingOptions = ListingOptions {
    letters: "arvqli",
    names: &[
        "all",
        "remotes",
        "verbose",
        "quiet",
        "list",
        "show-current",
        "contains",
        "no-contains",
        "merged",
        "no-merged",
        "points-at",
        "sort",
        "format",
        "color",
        "no-color",
        "column",
        "no-column",
        "abbrev",
        "no-abbrev",
        "ignore-case",
        "omit-empty",
    ],
    listing_letters: "l",
    listing_names: &["list", "contains", "no-contains", "merged", "no-merged", "points-at"],
};

const TAG: ListingOptions = ListingOptions {
    letters: "lin0123456789",
    names: &[
        "list",
        "contains",
        "no-contains",
        "merged",
        "no-merged",
        "points-at",
        "sort",
        "format",
        "color",
        "no-color",
        "column",
        "no-column",
        "ignore-case",
        "omit-empty",
    ],
    listing_letters: "ln",
    listing_names: &["list", "contains", "no-contains", "merged", "no-merged", "points-at"],
};

fn lists(args: &[ShellArg], listing: ListingOptions) -> Option<CommandAnalysis> {
    let line = GitArguments::read(args, "", &["sort", "format", "points-at"]);
    let fine = line.only(listing.letters, listing.names) && !line.open;
    let lists = line.words().is_empty()
        || line.has(listing.listing_letters, &[])
        || listing.listing_names.iter().any(|name| {
            args.iter().any(|arg| {
                let text = word(Some(arg));
                text.strip_prefix("--").map(|long| long.split('=').next().unwrap_or(long))
                    == Some(*name)
            })
        });
    (fine && lists).then(CommandAnalysis::read_only)
}

fn config(args: &[ShellArg]) -> Option<CommandAnalysis> {
    let line = GitArguments::read(
        args,
        "f",
        &["file", "blob", "type", "default", "comment", "value", "url"],
    );
    let fine = line.only(
        "lzf",
        &[
            "get",
            "get-all",
            "get-regexp",
            "get-urlmatch",
            "get-color",
            "get-colorbool",
            "list",
            "global",
            "system",
            "local",
            "worktree",
            "file",
            "blob",
            "type",
            "bool",
            "int",
            "bool-or-int",
            "path",
            "null",
            "name-only",
            "show-origin",
            "show-scope",
            "default",
            "includes",
            "no-includes",
            "all",
            "regexp",
            "show-names",
            "expiry-date",
            "fixed-value",
        ],
    );
    if !fine || line.open {
        return None;
    }
    let asks = line.has("l", &[])
        || args.iter().any(|arg| {
            let text = word(Some(arg));
            matches!(
                text,
                "--list"
                    | "--get"
                    | "--get-all"
                    | "--get-regexp"
                    | "--get-urlmatch"
                    | "--get-color"
                    | "--get-colorbool"
            )
        });
    let words = line.words();
    let reads = match (word(words.first()), words.len()) {
        ("get" | "list", _) => true,
        // A lone key is asked for.
        ("edit" | "set" | "unset" | "remove-section" | "rename-section", _) => false,
        (_, 0 | 1) => true,
        _ => asks,
    };
    let files = line.values("f", &["file"]);
    reads.then(|| CommandAnalysis::read_only().touches_all(FileAccess::Read, &files))
}

/// Asks another machine, so only a literal address can be judged without a rule.
fn ls_remote(args: &[ShellArg]) -> Option<CommandAnalysis> {
    let line = GitArguments::read(args, "o", &["upload-pack", "exec", "sort", "server-option"]);
    let words = line.words();
    let address = words.first()?;
    let runs = line.has("", &["upload-pack", "exec"]);
    if line.open || runs || !remote_commands::is_address(address) {
        return None;
    }
    let study = remote_commands::reaches(CommandAnalysis::read_only(), address);
    study.runs.is_empty().then_some(study)
}
