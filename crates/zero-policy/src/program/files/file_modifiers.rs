//! Programs that only change files, with every file they change.
//!
//! Whether a destination is a file or an existing folder is not known without the disk. So both are
//! added: the destination itself, and the file with the source's name inside it.

use crate::program::command_analysis::CommandAnalysis;
use crate::program::options::{OptionTable, ParsedArguments, options, strip_start};
use crate::shell::ShellArg;

use super::analysis_builder::{
    AccessDepth, CommandAnalysisBuilder, join_path, last_component, may_hide_option,
    path_starting_with,
};
use super::program_table::{OperandRole, ProgramRow, READER_ROW};

/// Analyzes a program that changes files.
pub(super) fn analyze(name: &str, args: &[ShellArg]) -> Option<CommandAnalysis> {
    match name {
        "cp" | "gcp" => Some(analyze_copy(args)),
        "mv" | "gmv" => Some(analyze_move(args)),
        "ln" => Some(analyze_link(args)),
        "install" | "ginstall" => Some(analyze_install(args)),
        "chmod" | "chown" | "chgrp" => Some(analyze_permissions(name, args)),
        "dd" => Some(analyze_dd(args)),
        "mktemp" => Some(analyze_mktemp(args)),
        "patch" => Some(analyze_patch(args)),
        "split" => Some(analyze_split(args)),
        "csplit" => Some(analyze_csplit(args)),
        _ => ProgramRow::find(ROWS, name).map(|row| row.analyze(args)),
    }
}

static ROWS: &[ProgramRow] = &[
    ProgramRow { names: &["tee", "sponge", "ptee"], operands: OperandRole::Write, ..READER_ROW },
    ProgramRow {
        names: &["mkdir", "mkfifo"],
        table: options!("m: mode:"),
        operands: OperandRole::Write,
        ..READER_ROW
    },
    ProgramRow {
        names: &["touch"],
        table: options!("r,reference:read -dtA: date: time:"),
        operands: OperandRole::Write,
        ..READER_ROW
    },
    ProgramRow {
        names: &["truncate"],
        table: options!("r,reference:read s: size:"),
        operands: OperandRole::Write,
        ..READER_ROW
    },
    ProgramRow {
        names: &["dos2unix", "unix2dos", "mac2unix", "unix2mac"],
        operands: OperandRole::Write,
        ..READER_ROW
    },
];

/// The destination of a copy, a move or a link.
struct CopyDestination {
    /// The files that are copied, moved or linked.
    sources: Vec<ShellArg>,
    /// The destination file or folder.
    path: ShellArg,
    /// What is known about the destination.
    kind: DestinationKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum DestinationKind {
    Folder,
    File,
    Either,
}

impl CopyDestination {
    /// Sources and destination as `cp`, `mv`, `ln` and `install` take them.
    fn from_options(options: &ParsedArguments<'_>) -> Option<Self> {
        let mut sources = options.operands.clone();
        if let Some(folder) = options.values(&["t", "target-directory"]).last() {
            return Some(Self { sources, path: folder.clone(), kind: DestinationKind::Folder });
        }
        let path = sources.pop()?;
        let is_folder = |path: &str| matches!(path.rsplit('/').next(), Some("." | ".."));
        let kind = if options.has(&["T", "no-target-directory"]) {
            DestinationKind::File
        } else if path.as_known().is_some_and(is_folder) || sources.len() > 1 {
            DestinationKind::Folder
        } else {
            DestinationKind::Either
        };
        Some(Self { sources, path, kind })
    }

    /// Adds everything that may be written, with the given depth.
    fn record_writes(
        &self,
        options: &ParsedArguments<'_>,
        depth: AccessDepth,
        notes: &mut CommandAnalysisBuilder,
    ) {
        let mut written = Vec::new();
        let itself = if self.kind == DestinationKind::Folder { AccessDepth::Itself } else { depth };
        // `src/` must be an existing folder, and the change is inside it.
        let is_file = !self.path.as_known().is_some_and(|path| path.ends_with('/'));
        if is_file || self.kind == DestinationKind::File || depth == AccessDepth::Beneath {
            notes.record_write(&self.path, itself);
            written.push(self.path.clone());
        }
        let whole_path = options.has(&["parents"]);
        for source in self.sources.iter().filter(|_| self.kind != DestinationKind::File) {
            let name = match source.as_known() {
                Some(path) if whole_path => Some(path.trim_start_matches('/')),
                _ => last_component(source),
            };
            match name.and_then(|name| join_path(&self.path, name)) {
                Some(inside) => {
                    notes.record_write(&inside, depth);
                    written.push(inside);
                }
                // Without a known name it may be any file of the folder.
                None => notes.record_write(&self.path, AccessDepth::Beneath),
            }
        }
        // The previous file is kept under another name.
        for suffix in options.values(&["S", "suffix"]) {
            for path in &written {
                match (path.as_known(), suffix.as_known()) {
                    (Some(path), Some(suffix)) => {
                        notes.record_write(
                            &ShellArg::known(format!("{path}{suffix}")),
                            AccessDepth::Itself,
                        );
                    }
                    _ => notes.record_write(
                        &path_starting_with(path.known_prefix()),
                        AccessDepth::Itself,
                    ),
                }
            }
        }
    }
}

const COPY: OptionTable = options!(
    "-tS: target-directory: suffix: no-preserve: sparse: archive attributes-only backup recursive \
     parents link symbolic-link no-target-directory preserve reflink remove-destination \
     strip-trailing-slashes"
);

fn analyze_copy(args: &[ShellArg]) -> CommandAnalysis {
    let options = COPY.parse(args);
    let mut notes = CommandAnalysisBuilder::default();
    let deep = options.has(&["r", "R", "a", "recursive", "archive"]);
    let depth = if deep { AccessDepth::Beneath } else { AccessDepth::Itself };
    if let Some(destination) = CopyDestination::from_options(&options) {
        for source in &destination.sources {
            notes.record_read(source, depth);
            if options.has(&["l", "link", "s", "symbolic-link"]) {
                notes.record_write(source, depth);
            }
        }
        destination.record_writes(&options, depth, &mut notes);
    }
    notes.build_complete()
}

/// The source may be a folder, and then everything beneath it moves too.
fn analyze_move(args: &[ShellArg]) -> CommandAnalysis {
    let options = COPY.parse(args);
    let mut notes = CommandAnalysisBuilder::default();
    if let Some(destination) = CopyDestination::from_options(&options) {
        for source in &destination.sources {
            notes.record_read(source, AccessDepth::Beneath);
            notes.record_delete(source, AccessDepth::Beneath);
        }
        destination.record_writes(&options, AccessDepth::Beneath, &mut notes);
    }
    notes.build_complete()
}

/// A link is another name for its target: its creator can read and change the target by that name.
/// The target of a symlink is relative to the folder of the link.
fn analyze_link(args: &[ShellArg]) -> CommandAnalysis {
    const LINK: OptionTable = options!(
        "-tS: target-directory: suffix: symbolic relative no-target-directory no-dereference \
         backup"
    );
    let mut options = LINK.parse(args);
    // `ln target` creates a link of that name in the working folder.
    if options.operands.len() == 1 && !options.has(&["t", "target-directory"]) {
        options.operands.push(ShellArg::known("."));
    }
    let mut notes = CommandAnalysisBuilder::default();
    let Some(destination) = CopyDestination::from_options(&options) else {
        return notes.build_complete();
    };
    let counts_from_link = options.has(&["s", "symbolic"]) && !options.has(&["r", "relative"]);
    for target in &destination.sources {
        let mut candidates = vec![target.clone()];
        if counts_from_link && let Some(target) = target.as_known().filter(|t| !t.starts_with('/'))
        {
            candidates.extend(join_path(&destination.path, target));
            let parent = destination.path.as_known().and_then(|path| path.rsplit_once('/'));
            candidates
                .extend(parent.map(|(parent, _)| ShellArg::known(format!("{parent}/{target}"))));
        }
        for target in &candidates {
            notes.record_read(target, AccessDepth::Beneath);
            notes.record_write(target, AccessDepth::Beneath);
        }
    }
    // If the destination is a folder, now or later, its contents become those of the link's target.
    destination.record_writes(&options, AccessDepth::Beneath, &mut notes);
    notes.build_complete()
}

fn analyze_install(args: &[ShellArg]) -> CommandAnalysis {
    const INSTALL: OptionTable = options!(
        "-tSmogBf: target-directory: suffix: mode: owner: group: strip-program: directory strip \
         no-target-directory backup compare"
    );
    let options = INSTALL.parse(args);
    let mut notes = CommandAnalysisBuilder::default();
    options.values(&["strip-program"]).for_each(|program| notes.record_command(program));
    if options.has(&["d", "directory"]) {
        notes.record_writes(options.operands.iter());
    } else if let Some(destination) = CopyDestination::from_options(&options) {
        notes.record_reads(&destination.sources);
        destination.record_writes(&options, AccessDepth::Itself, &mut notes);
    }
    notes.record_hidden_option(args, &options);
    notes.build_complete()
}

fn analyze_permissions(name: &str, args: &[ShellArg]) -> CommandAnalysis {
    const PERMISSIONS: OptionTable =
        options!("reference: from: recursive dereference no-dereference no-preserve-root");
    let options = PERMISSIONS.parse(args);
    let mut notes = CommandAnalysisBuilder::default();
    let deep = options.has(&["R", "recursive"]);
    let depth = if deep { AccessDepth::Beneath } else { AccessDepth::Itself };
    notes.record_reads(options.values(&["reference"]));
    // `chmod -x file`: the mode looks like an option.
    let mode_as_option = name == "chmod"
        && options.has(&[
            "r", "w", "x", "X", "s", "t", "u", "g", "o", "a", "0", "1", "2", "3", "4", "5", "6",
            "7",
        ]);
    let skip = usize::from(!mode_as_option && !options.has(&["reference"]));
    for file in options.operands.iter().skip(skip) {
        notes.record_write(file, depth);
    }
    if deep {
        notes.record_critical("changes permissions recursively");
    }
    notes.record_hidden_option(args, &options);
    if name == "chmod" { notes.build_complete() } else { notes.build_incomplete() }
}

fn analyze_dd(args: &[ShellArg]) -> CommandAnalysis {
    let mut notes = CommandAnalysisBuilder::default();
    for arg in args {
        let start = arg.known_prefix();
        if start.starts_with("if=") {
            notes.record_read(&strip_start(arg, "if=".len()), AccessDepth::Itself);
        } else if start.starts_with("of=") {
            notes.record_write(&strip_start(arg, "of=".len()), AccessDepth::Itself);
            notes.record_critical("writes with dd");
        } else if !start.contains('=') && arg.as_known().is_none() {
            notes.record_caution(
                "an argument that is not known yet may name the file that is written",
            );
        }
    }
    notes.build_complete()
}

/// Creates a new file and never changes an existing one. Without a template, or with `-t`, that is
/// in the temporary folder, outside the workspace.
fn analyze_mktemp(args: &[ShellArg]) -> CommandAnalysis {
    const MKTEMP: OptionTable = options!("p: suffix: directory dry-run quiet tmpdir");
    let options = MKTEMP.parse(args);
    let mut notes = CommandAnalysisBuilder::default();
    if options.has(&["u", "dry-run"]) && !may_hide_option(args, &options) {
        return notes.build_complete();
    }
    let folder = options.values(&["p", "tmpdir"]).last();
    let apart = options.has(&["t", "tmpdir"]) && folder.is_none() || options.operands.is_empty();
    match folder {
        Some(folder) => notes.record_write(folder, AccessDepth::Itself),
        None if apart => notes.record_write(&ShellArg::known("/tmp"), AccessDepth::Itself),
        None => {}
    }
    notes.record_writes(options.operands.iter().filter(|_| folder.is_some() || !apart));
    notes.build_complete()
}

/// The changed files are named in the patch.
fn analyze_patch(args: &[ShellArg]) -> CommandAnalysis {
    const PATCH: OptionTable = options!(
        "-pidorBDFgVYzx: strip: input: directory: output: reject-file: prefix: ifdef: fuzz: get: \
         version-control: basename-prefix: suffix: quoting-style: ed dry-run"
    );
    let options = PATCH.parse(args);
    let mut notes = CommandAnalysisBuilder::default();
    notes.record_reads(options.values(&["i", "input"]));
    notes.record_outputs(options.values(&["o", "output", "r", "reject-file"]));
    let folder_arg = ShellArg::known(".");
    let folder = options.values(&["d", "directory"]).last();
    let mut operands = options.operands.iter();
    let named = operands.next();
    if !options.has(&["dry-run"]) && (named.is_none() || folder.is_some()) {
        notes.record_write(folder.unwrap_or(&folder_arg), AccessDepth::Beneath);
    }
    notes.record_writes(named);
    notes.record_reads(operands);
    if options.has(&["e", "ed"]) {
        notes.record_unknown_run("an ed script can run commands");
    }
    notes.build_incomplete()
}

fn analyze_split(args: &[ShellArg]) -> CommandAnalysis {
    const SPLIT: OptionTable = options!(
        "-abClnt: suffix-length: bytes: line-bytes: lines: number: separator: filter: \
         additional-suffix: elide-empty-files numeric-suffixes hex-suffixes verbose"
    );
    let options = SPLIT.parse(args);
    let mut notes = CommandAnalysisBuilder::default();
    options.values(&["filter"]).for_each(|filter| notes.record_script(filter));
    notes.record_reads(options.operands.first());
    let prefixes = options.operands.get(1..).unwrap_or_default();
    prefixes.iter().for_each(|prefix| {
        notes.record_write(&path_starting_with(prefix.known_prefix()), AccessDepth::Itself);
    });
    if prefixes.is_empty() {
        notes.record_write(&path_starting_with("x"), AccessDepth::Itself);
    }
    notes.record_hidden_option(args, &options);
    notes.build_complete()
}

fn analyze_csplit(args: &[ShellArg]) -> CommandAnalysis {
    const CSPLIT: OptionTable = options!(
        "-bfn: suffix-format: prefix: digits: keep-files suppress-matched elide-empty-files quiet \
         silent"
    );
    let options = CSPLIT.parse(args);
    let mut notes = CommandAnalysisBuilder::default();
    notes.record_reads(options.operands.first());
    let prefix = options.values(&["f", "prefix"]).last().map_or("xx", ShellArg::known_prefix);
    notes.record_write(&path_starting_with(prefix), AccessDepth::Itself);
    notes.build_complete()
}

#[cfg(test)]
mod tests;
