//! Read-only programs: for files, text, and the machine's state.
//!
//! Many of them can do more with certain options, which this file covers: `sort -o`, `rg --pre`,
//! `man -P`, the second operand of `uniq`.

mod reader_table;

use crate::program::command_analysis::{CommandAnalysis, CommandClass};
use crate::program::options::{OptionTable, options, strip_start};
use crate::shell::ShellArg;

use super::analysis_builder::{
    AccessDepth, CommandAnalysisBuilder, MAY_BE_OPTION, join_path, last_component,
};
use super::program_table::{ProgramRow, READER_ROW};
use reader_table::ROWS;

/// Analyzes a read-only program.
pub(super) fn analyze(name: &str, args: &[ShellArg]) -> Option<CommandAnalysis> {
    match name {
        "less" | "zless" => Some(analyze_pager(&LESS, args)),
        "more" | "most" | "pg" | "zmore" => Some(analyze_pager(&READER_ROW, args)),
        "tree" => Some(analyze_tree(args)),
        "xmllint" => Some(analyze_xmllint(ProgramRow::find(ROWS, name)?.analyze(args), args)),
        "strings" | "nm" | "objdump" | "readelf" | "size" | "addr2line" | "c++filt" => {
            Some(add_option_files(ProgramRow::find(ROWS, name)?.analyze(args), args))
        }
        "bat" | "batcat" => Some(analyze_bat(args)),
        "date" => Some(analyze_date(args)),
        "diff" => Some(analyze_diff(args)),
        "jq" => Some(analyze_jq(args)),
        "yq" => Some(analyze_yq(args)),
        "man" => Some(analyze_man(args)),
        "xxd" => Some(analyze_xxd(args)),
        _ => ProgramRow::find(ROWS, name).map(|row| row.analyze(args)),
    }
}

static LESS: ProgramRow = ProgramRow {
    table: options!(
        "o,O,log-file,LOG-FILE:write T,tag-file:read!option-file t,tag:!option-file \
         k,lesskey-file,lesskey-src,lesskey-content:!keys cmd:!pager-commands -bhjpPxyzD: \
         pattern: prompt: window: shift: tabs: jump-target:"
    ),
    ..READER_ROW
};

/// `less` and similar: `+` passes commands to them, and they can write a log.
fn analyze_pager(row: &ProgramRow, args: &[ShellArg]) -> CommandAnalysis {
    let is_command = |arg: &&ShellArg| arg.known_prefix().starts_with('+');
    let harmless = |arg: &ShellArg| {
        let known = arg.as_known().map(|text| text.trim_start_matches('+'));
        known.is_some_and(|text| {
            matches!(text, "F" | "G") || text.bytes().all(|byte| byte.is_ascii_digit())
        })
    };
    let files: Vec<ShellArg> = args.iter().filter(|arg| !is_command(arg)).cloned().collect();
    let mut notes = CommandAnalysisBuilder::default();
    notes.merge(row.analyze(&files));
    if !args.iter().filter(is_command).all(harmless) {
        notes.record_unknown_run("the pager is given commands");
    }
    notes.build_complete()
}

/// `tree` takes the values of an option cluster from the following arguments: `-oa out` writes
/// `out`.
fn analyze_tree(args: &[ShellArg]) -> CommandAnalysis {
    let mut notes = CommandAnalysisBuilder::default();
    let mut folders = Vec::new();
    let mut all_said = true;
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        match arg.as_known().and_then(|text| text.strip_prefix('-')) {
            Some("-") => folders.extend(rest.by_ref()),
            Some(long) if long.starts_with('-') => {
                // Its long options cannot be abbreviated, and a future one may set the output.
                all_said &= !long.starts_with("-o");
            }
            Some(cluster) => {
                for letter in cluster.chars() {
                    match letter {
                        'o' => {
                            // Some versions take an attached value, so that is added as well.
                            let attached = cluster.split_once('o').map_or("", |(_, rest)| rest);
                            let attached = Some(attached).filter(|file| !file.is_empty());
                            notes.record_writes(attached.map(ShellArg::known).iter());
                            notes.record_writes(rest.next());
                        }
                        'L' | 'P' | 'I' | 'H' | 'T' => drop(rest.next()),
                        // It runs itself again in folders, with `-o 00Tree.html`.
                        'R' => all_said = false,
                        _ => {}
                    }
                }
            }
            None => folders.push(arg),
        }
        if arg.as_known().is_none() && arg.may_be_option() {
            notes.record_caution(MAY_BE_OPTION);
        }
    }
    folders.iter().for_each(|folder| notes.record_read(folder, AccessDepth::Beneath));
    if folders.is_empty() {
        notes.record_read(&ShellArg::known("."), AccessDepth::Beneath);
    }
    notes.record_split_reads(args);
    if all_said { notes.build_complete() } else { notes.build_incomplete() }
}

/// `xmllint` fetches a document given by a URL.
fn analyze_xmllint(analysis: CommandAnalysis, args: &[ShellArg]) -> CommandAnalysis {
    let mut notes = CommandAnalysisBuilder::default();
    let addresses = args.iter().filter(|arg| arg.known_prefix().contains("://"));
    addresses.for_each(|address| notes.record_host(address));
    if args.iter().all(|arg| !arg.known_prefix().contains("://")) {
        return analysis;
    }
    notes.merge(analysis);
    notes.build_incomplete()
}

/// `@file` reads options from that file.
fn add_option_files(analysis: CommandAnalysis, args: &[ShellArg]) -> CommandAnalysis {
    let mut notes = CommandAnalysisBuilder::default();
    for arg in args.iter().filter(|arg| arg.known_prefix().starts_with('@')) {
        notes.record_read(&strip_start(arg, "@".len()), AccessDepth::Itself);
        notes.record_caution("a file gives it options");
    }
    notes.merge(analysis);
    notes.build_complete()
}

fn analyze_bat(args: &[ShellArg]) -> CommandAnalysis {
    static BAT: ProgramRow = ProgramRow {
        table: options!(
            "pager:script -lrmH: language: line-range: map-syntax: highlight-line: theme: style: \
             tabs: wrap: terminal-width: color: italic-text: decorations: paging: file-name: \
             ignored-suffix: generate-config-file!more"
        ),
        ..READER_ROW
    };
    let analysis = BAT.analyze(args);
    // `bat cache` writes themes and syntaxes to a folder of its own.
    if args.iter().any(|arg| arg.as_known() == Some("cache")) {
        return CommandAnalysis { class: CommandClass::Opaque, ..analysis };
    }
    analysis
}

/// Prints the time; with a time as operand, or with `-s`, sets it.
fn analyze_date(args: &[ShellArg]) -> CommandAnalysis {
    const DATE: OptionTable =
        options!("-dfrsvz: date: file: reference: set: debug iso-8601 rfc-3339 rfc-email utc");
    // The format of `-I` is attached to it, and is not an option cluster.
    let is_format = |arg: &&ShellArg| arg.known_prefix().starts_with("-I");
    let args: Vec<ShellArg> = args.iter().filter(|arg| !is_format(arg)).cloned().collect();
    let options = DATE.parse(&args);
    let mut notes = CommandAnalysisBuilder::default();
    notes.record_reads(options.values(&["f", "file", "r", "reference"]));
    let sets = options.has(&["s", "set"])
        || options.operands.iter().any(|operand| !operand.known_prefix().starts_with('+'));
    if sets && !options.has(&["j"]) { notes.build_incomplete() } else { notes.build_complete() }
}

/// Compares files; if one is a folder, with the file of the same name in it.
fn analyze_diff(args: &[ShellArg]) -> CommandAnalysis {
    const DIFF: OptionTable = options!(
        "-CUFILSWxXD: context: unified: show-function-line: ignore-matching-lines: label: width: \
         starting-file: exclude: exclude-from: from-file: to-file: ifdef: tabsize: horizon-lines: \
         line-format: color: palette: recursive report-identical-files"
    );
    let options = DIFF.parse(args);
    let depth =
        if options.has(&["r", "recursive"]) { AccessDepth::Beneath } else { AccessDepth::Itself };
    let mut notes = CommandAnalysisBuilder::default();
    notes.record_reads(options.values(&["X", "exclude-from"]));
    let named: Vec<&ShellArg> =
        options.values(&["from-file", "to-file"]).chain(&options.operands).collect();
    for file in &named {
        notes.record_read(file, depth);
    }
    notes.record_split_reads(args);
    for folder in &named {
        let others = named.iter().filter(|other| *other != folder);
        for inside in others.filter_map(|other| join_path(folder, last_component(other)?)) {
            notes.record_read(&inside, depth);
        }
    }
    notes.build_complete()
}

/// `jq` takes two values after some options, and files only after its filter.
fn analyze_jq(args: &[ShellArg]) -> CommandAnalysis {
    let mut notes = CommandAnalysisBuilder::default();
    let mut operands = Vec::new();
    let (mut from_file, mut no_files, mut options_end) = (false, false, false);
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        let text = arg.as_known().unwrap_or_default();
        if options_end || !text.starts_with('-') || text == "-" {
            operands.push((arg, no_files));
            continue;
        }
        match text {
            "--" => options_end = true,
            "--arg" | "--argjson" => drop((rest.next(), rest.next())),
            "--rawfile" | "--slurpfile" | "--argfile" => {
                if let (_, Some(file)) = (rest.next(), rest.next()) {
                    notes.record_read(file, AccessDepth::Itself);
                }
            }
            "--indent" => drop(rest.next()),
            "--args" | "--jsonargs" => no_files = true,
            "--library-path" | "-L" => {
                if let Some(folder) = rest.next() {
                    notes.record_read(folder, AccessDepth::Beneath);
                }
            }
            "--from-file" => from_file = true,
            _ if text.starts_with("-L") => {
                let folder = text.trim_start_matches("-L").trim_start_matches('=');
                notes.record_read(&ShellArg::known(folder), AccessDepth::Beneath);
            }
            _ if !text.starts_with("--") && text.contains('f') => from_file = true,
            _ => {}
        }
    }
    let filter = if from_file { None } else { operands.first().map(|(filter, _)| *filter) };
    if let Some(text) = filter.and_then(ShellArg::as_known)
        && ["import", "include"].iter().any(|word| text.contains(word))
    {
        notes.record_caution("the filter reads other files");
    }
    let files = operands.iter().skip(usize::from(!from_file));
    for (file, _) in files.filter(|(_, no_file)| !no_file) {
        notes.record_read(file, AccessDepth::Itself);
    }
    notes.record_split_reads(args);
    notes.build_complete()
}

/// `yq` reads its first operand as a file if that exists, so all operands count as files.
fn analyze_yq(args: &[ShellArg]) -> CommandAnalysis {
    static YQ: ProgramRow = ProgramRow {
        table: options!(
            "from-file:read i,inplace,in-place!write-operands s,f!more \
             split-exp,split-exp-file:!more -poI: expression: input-format: output-format: indent:"
        ),
        ..READER_ROW
    };
    let analysis = YQ.analyze(args);
    let reaches_out = |text: &str| ["system", "load"].iter().any(|word| text.contains(word));
    if args.iter().any(|arg| reaches_out(&arg.to_string())) {
        return CommandAnalysis { class: CommandClass::Opaque, ..analysis };
    }
    analysis
}

fn analyze_man(args: &[ShellArg]) -> CommandAnalysis {
    const MAN: OptionTable = options!(
        "-CPMmSseLRErp: config-file: pager: manpath: systems: sections: extension: locale: recode: \
         encoding: prompt: preprocessor: html gxditview troff-device local-file ditroff troff"
    );
    let options = MAN.parse(args);
    let mut notes = CommandAnalysisBuilder::default();
    options.values(&["P", "pager"]).for_each(|pager| notes.record_script(pager));
    if options.has(&["H", "html", "X", "gxditview"]) {
        notes.record_unknown_run("the page is shown with another program");
    }
    for file in options.values(&["C", "config-file"]) {
        notes.record_read(file, AccessDepth::Itself);
        notes.record_caution("a configuration file can name programs");
    }
    if options.has(&["r", "prompt", "M", "manpath", "p", "preprocessor"]) {
        notes.record_caution("an option reaches the programs that show the page");
    }
    let local = options.has(&["l", "local-file"]);
    for operand in &options.operands {
        if local || operand.to_string().contains('/') {
            notes.record_read(operand, AccessDepth::Itself);
            notes.record_caution("a page of its own can include any file");
        }
    }
    notes.record_hidden_option(args, &options);
    notes.build_complete()
}

/// `xxd` has no option clusters: `-ps` is one option, and `-s` another one with a value.
fn analyze_xxd(args: &[ShellArg]) -> CommandAnalysis {
    let mut notes = CommandAnalysisBuilder::default();
    let mut files = Vec::new();
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        match arg.as_known() {
            Some("--") => files.extend(rest.by_ref()),
            Some("-c" | "-g" | "-l" | "-o" | "-s" | "-n" | "-R") => drop(rest.next()),
            Some(option) if option.starts_with('-') && option != "-" => {}
            Some(_) => files.push(arg),
            None => {
                notes.record_caution(MAY_BE_OPTION);
                files.push(arg);
            }
        }
    }
    let mut files = files.into_iter();
    notes.record_reads(files.by_ref().take(1));
    notes.record_outputs(files);
    notes.record_split_reads(args);
    notes.build_complete()
}

#[cfg(test)]
mod tests;
