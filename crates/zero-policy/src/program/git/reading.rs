//! Commands of git that only look.

use super::super::{Access, Nature, Run, Study, after, from, word};
use super::line::Line;
use super::talking;
use crate::shell::Arg;

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
pub(super) fn study(name: &str, args: &[Arg]) -> Option<Study> {
    Some(match name {
        "status" | "log" | "show" | "diff" | "blame" | "annotate" | "shortlog" | "describe"
        | "rev-parse" | "rev-list" | "ls-files" | "ls-tree" | "cat-file" | "for-each-ref"
        | "merge-base" | "name-rev" | "count-objects" | "check-ignore" | "check-attr"
        | "diff-tree" | "diff-files" | "diff-index" | "show-ref" | "show-branch" | "cherry"
        | "range-diff" | "whatchanged" | "check-mailmap" | "check-ref-format" | "verify-pack"
        | "patch-id" | "stripspace" => shows(name, args),
        "version" => Study::read_only(),
        "help" => help(args),
        "fsck" => {
            let line = Line::read(args, "", &[]);
            if line.has("", &["lost-found"]) || line.open {
                return None;
            } else {
                Study::read_only()
            }
        }
        "grep" => grep(args),
        "archive" => archive(args),
        "reflog" => match args.first() {
            None => Study::read_only(),
            Some(first) => match first.as_known() {
                Some("show" | "list" | "exists") => shows(name, from(args, 1)),
                Some("expire" | "delete" | "drop") | None => return None,
                Some(_) => shows(name, args),
            },
        },
        "remote" => match word(args.first()) {
            "" if args.is_empty() => Study::read_only(),
            "-v" | "--verbose" if args.len() == 1 => Study::read_only(),
            "get-url" => Study::read_only(),
            _ => return None,
        },
        "branch" => lists(args, BRANCH)?,
        "tag" => lists(args, TAG)?,
        "stash" => match word(args.first()) {
            "list" | "show" => shows(name, from(args, 1)),
            _ => return None,
        },
        "config" => config(args)?,
        "worktree" if word(args.first()) == "list" => Study::read_only(),
        "submodule" if word(args.first()) == "status" => Study::read_only(),
        "notes" if matches!(word(args.first()), "list" | "show") => shows(name, from(args, 1)),
        "symbolic-ref" => {
            let line = Line::read(args, "m", &[]);
            if line.words().len() > 1 || line.has("dm", &["delete"]) || line.open {
                return None;
            }
            Study::read_only()
        }
        "ls-remote" => ls_remote(args)?,
        "bundle" if matches!(word(args.first()), "verify" | "list-heads") => {
            let line = Line::read(from(args, 1), "", &[]);
            let files: Vec<Arg> = line.words().into_iter().take(1).collect();
            Study::read_only().touches_all(Access::Read, &files)
        }
        _ => return None,
    })
}

/// Commands that show commits, differences or files.
fn shows(name: &str, args: &[Arg]) -> Study {
    let letters = match name {
        "log" | "show" | "whatchanged" | "reflog" | "stash" => "nSGLO",
        "diff" | "diff-tree" | "diff-files" | "diff-index" => "SGO",
        "blame" | "annotate" => "LS",
        "ls-files" => "xX",
        _ => "",
    };
    let line = Line::read(args, letters, VALUES);
    let mut study = Study::read_only();
    if line.has("", &["ext-diff", "textconv", "filters"]) {
        study = Study::program().caution("it runs programs that the repository's settings name");
    }
    for file in line.values("", &["output"]) {
        study = written(study, &file);
    }
    if line.has("", &["output"]) && line.values("", &["output"]).is_empty() {
        study = Study::program().caution("it writes to a file");
    }
    let order = if letters.contains('O') { "O" } else { "" };
    let list = match name {
        "ls-files" => "X",
        "blame" | "annotate" => "S",
        _ => order,
    };
    for file in line.values(list, &["exclude-from", "contents", "ignore-revs-file", "order-file"]) {
        study = study.touches(Access::Read, &file);
    }
    if letters.contains('L') {
        // `-L 1,5:file` shows lines of a file.
        for range in line.values("L", &[]) {
            if let Some((before, _)) = range.certain_start().rsplit_once(':')
                && let Some(path) = after(&range, &format!("{before}:"))
            {
                study = study.touches(Access::Read, &path);
            }
        }
    }
    if line.open {
        study.nature = Nature::Program;
        study = study.caution("an argument may be an option that writes or runs something");
    }
    for operand in &line.operands {
        if let Some(path) = object_path(operand).or_else(|| pathspec(operand)) {
            study = study.touches(Access::Read, &path);
        }
    }
    for path in &line.paths {
        if let Some(path) = pathspec(path) {
            study = study.touches(Access::Read, &path);
        }
    }
    study
}

/// A command that writes its output to a file is no longer one that only looks.
fn written(mut study: Study, file: &Arg) -> Study {
    if study.nature == Nature::ReadOnly {
        study.nature = Nature::Files;
    }
    study.touches(Access::Write, file)
}

/// The path in `REV:path`, which names a file of a commit.
fn object_path(operand: &Arg) -> Option<Arg> {
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
pub(super) fn pathspec(arg: &Arg) -> Option<Arg> {
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
fn pattern(path: Arg) -> Arg {
    match path {
        Arg::Known(text) if text.contains(['*', '?', '[']) => Arg::Pattern(text),
        other => other,
    }
}

fn help(args: &[Arg]) -> Study {
    let line = Line::read(args, "", &[]);
    if line.has("wi", &["web", "info"]) || line.open {
        Study::program()
    } else {
        Study::read_only()
    }
}

fn grep(args: &[Arg]) -> Study {
    // The order of the tables is that of git: letters with a value, without `-O`, whose value is
    // only ever attached.
    let (opens, plain): (Vec<&Arg>, Vec<&Arg>) = args.iter().partition(|arg| {
        arg.certain_start().starts_with("-O") && !arg.certain_start().starts_with("--")
    });
    let plain: Vec<Arg> = plain.into_iter().cloned().collect();
    let line = Line::read(
        &plain,
        "efABCmP",
        &["max-depth", "max-count", "threads", "context", "after-context", "before-context"],
    );
    let mut study = Study::read_only();
    let pagers: Vec<Arg> = opens
        .iter()
        .filter_map(|arg| after(arg, "-O"))
        .chain(line.values("", &["open-files-in-pager"]))
        .collect();
    if !opens.is_empty() || line.has("O", &["open-files-in-pager"]) {
        study = pagers
            .iter()
            .filter(|pager| **pager != Arg::known(""))
            .fold(Study::program(), |study, pager| study.runs(Run::script(pager)))
            .caution("it opens what it finds in another program");
    }
    if line.has("", &["textconv"]) {
        study = Study::program().caution("it runs programs that the repository's settings name");
    }
    for file in line.values("f", &[]) {
        study = study.touches(Access::Read, &file);
    }
    if line.open {
        study.nature = Nature::Program;
        study = study.caution("an argument may be an option that runs something");
    }
    let with_pattern = usize::from(!line.has("ef", &[]));
    let mut paths: Vec<Arg> = line.operands.iter().skip(with_pattern).cloned().collect();
    paths.extend(line.paths.iter().cloned());
    if paths.is_empty() {
        paths.push(Arg::known("."));
    }
    for path in paths.iter().filter_map(pathspec) {
        study = study.touches_beneath(Access::Read, &path);
    }
    study
}

fn archive(args: &[Arg]) -> Study {
    let line = Line::read(
        args,
        "o",
        &["output", "remote", "exec", "format", "prefix", "add-file", "mtime"],
    );
    let mut study = Study::read_only();
    for file in line.values("o", &["output"]) {
        study = written(study, &file);
    }
    for file in line.values("", &["add-file"]) {
        study = study.touches(Access::Read, &file);
    }
    for path in line.words().iter().skip(1).filter_map(pathspec) {
        study = study.touches_beneath(Access::Read, &path);
    }
    if line.has("", &["remote", "exec"]) || line.open {
        study.nature = Nature::Program;
    }
    study = talking::transport(study, &line, &["exec"]);
    for remote in line.values("", &["remote"]) {
        study = talking::reaches(study, &remote);
    }
    study.caution_if(line.open, "an argument may be an option that writes or runs something")
}

/// What makes a command list instead of change.
struct Listing {
    /// Letters and names that are fine where it lists.
    letters: &'static str,
    names: &'static [&'static str],
    /// Letters and names that make it list, so that words are what to look for.
    listing_letters: &'static str,
    listing_names: &'static [&'static str],
}

const BRANCH: Listing = Listing {
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

const TAG: Listing = Listing {
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

fn lists(args: &[Arg], listing: Listing) -> Option<Study> {
    let line = Line::read(args, "", &["sort", "format", "points-at"]);
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
    (fine && lists).then(Study::read_only)
}

fn config(args: &[Arg]) -> Option<Study> {
    let line =
        Line::read(args, "f", &["file", "blob", "type", "default", "comment", "value", "url"]);
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
    reads.then(|| Study::read_only().touches_all(Access::Read, &files))
}

/// Asks another machine, so only a literal address can be judged without a rule.
fn ls_remote(args: &[Arg]) -> Option<Study> {
    let line = Line::read(args, "o", &["upload-pack", "exec", "sort", "server-option"]);
    let words = line.words();
    let address = words.first()?;
    let runs = line.has("", &["upload-pack", "exec"]);
    if line.open || runs || !talking::is_address(address) {
        return None;
    }
    let study = talking::reaches(Study::read_only(), address);
    study.runs.is_empty().then_some(study)
}
