//! Commands of git that read and write patches, packs and other files outside the repository.

use crate::program::arguments::{args_from, known_text, unknown_arg};
use crate::program::command_analysis::{CommandAnalysis, FileAccess};
use crate::program::options::options;
use crate::shell::ShellArg;

/// `git apply` and `git am`.
pub(super) fn analyze_apply(name: &str, args: &[ShellArg]) -> CommandAnalysis {
    let line = options!(
        "-pC: directory: exclude: include: build-fake-ancestor: whitespace: patch-format: \
         check stat numstat summary apply"
    )
    .git()
    .parse(args);
    let analysis = CommandAnalysis::opaque()
        .with_touches(FileAccess::Read, &line.operands)
        .with_touches(FileAccess::Write, &line.all_values(&["build-fake-ancestor"]));
    // The changed files are named in the patch.
    let is_report = name == "apply"
        && line.keeps(&["check", "stat", "numstat", "summary"])
        && !line.has(&["apply"]);
    let folders = line.all_values(&["directory"]);
    match folders.as_slice() {
        _ if is_report => analysis,
        [] => analysis.with_recursive_touch(FileAccess::Write, &ShellArg::known(".")),
        folders => analysis.with_recursive_touches(FileAccess::Write, folders),
    }
}

pub(super) fn analyze_format_patch(args: &[ShellArg]) -> CommandAnalysis {
    let line =
        options!("-onv: output-directory: output: signature-file: cover-letter:").git().parse(args);
    let folders = line.all_values(&["o", "output-directory", "output"]);
    CommandAnalysis::opaque().with_recursive_touches(FileAccess::Write, &folders)
}

pub(super) fn analyze_bundle(args: &[ShellArg]) -> CommandAnalysis {
    if known_text(args.first()) != "create" {
        return CommandAnalysis::opaque();
    }
    let line = options!("").git().parse(args_from(args, 1));
    let file = line.operands.get(..1).unwrap_or_default();
    CommandAnalysis::opaque().with_touches(FileAccess::Write, file)
}

/// Commands that write files with names from their arguments.
pub(super) fn analyze_files(name: &str, args: &[ShellArg]) -> CommandAnalysis {
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
    analysis
        .with_recursive_touches(FileAccess::Write, &line.all_values(&["o", "output-directory"]))
        .with_caution_if(line.uncertain, "an argument may be an option that writes a file")
}
