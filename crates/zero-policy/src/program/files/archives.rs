//! Archives and compression: packing reads files, unpacking writes them.

mod compressors;
mod tar;

use crate::program::command_analysis::CommandAnalysis;
use crate::program::options::{OptionTable, options};
use crate::shell::ShellArg;

use super::analysis_builder::{
    AccessDepth, CommandAnalysisBuilder, MAY_BE_OPTION, join_path, last_component,
    path_starting_with,
};

/// Analyzes an archiver.
pub(super) fn analyze(name: &str, args: &[ShellArg]) -> Option<CommandAnalysis> {
    match name {
        "tar" | "gtar" | "bsdtar" => Some(tar::analyze(args)),
        "zip" => Some(analyze_zip(args)),
        "unzip" => Some(analyze_unzip(args)),
        "7z" | "7za" | "7zz" | "7zr" => Some(analyze_seven_zip(args)),
        "cpio" => Some(analyze_cpio(args)),
        "ar" => Some(analyze_ar(args)),
        "pax" => Some(analyze_pax(args)),
        _ => compressors::analyze(name, args),
    }
}

fn analyze_zip(args: &[ShellArg]) -> CommandAnalysis {
    let mut notes = CommandAnalysisBuilder::default();
    let mut operands = Vec::new();
    let (mut deep, mut moves, mut shifted) = (false, false, false);
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        let Some(text) = arg.as_known() else {
            if arg.may_be_option() {
                notes.record_caution(MAY_BE_OPTION);
            }
            operands.push(arg);
            continue;
        };
        if text == "--" {
            operands.extend(rest.by_ref());
        } else if let Some(long) = text.strip_prefix("--") {
            let (name, value) =
                long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
            let is = |full: &str| name.len() > 1 && full.starts_with(name);
            let mut value = || value.map(ShellArg::known).or_else(|| rest.next().cloned());
            if is("unzip-command") {
                value().iter().for_each(|command| notes.record_script(command));
            } else if is("output-file") || is("logfile-path") {
                notes.record_outputs(value().iter());
            }
            deep |= is("recurse-paths") || is("recurse-patterns");
            moves |= is("move");
        } else if let Some(cluster) = text.strip_prefix('-').filter(|rest| !rest.is_empty()) {
            // Options of one and two letters; `-TT` and `-lf` take a value.
            if let Some((_, command)) = cluster.split_once("TT") {
                let command = Some(ShellArg::known(command)).filter(|_| !command.is_empty());
                let command = command.or_else(|| rest.next().cloned());
                command.iter().for_each(|command| notes.record_script(command));
            } else if cluster.ends_with("lf") || cluster.ends_with('O') {
                notes.record_outputs(rest.next());
            }
            if cluster.contains('@') {
                notes.record_listed_reads(&ShellArg::known("-"));
            }
            deep |= cluster.contains(['r', 'R']);
            moves |= cluster.contains('m');
            // Its value precedes the archive.
            shifted |=
                operands.is_empty() && cluster.ends_with(['b', 'n', 't', 's', 'P', 'Z', 'x', 'i']);
        } else {
            operands.push(arg);
        }
    }
    let depth = if deep { AccessDepth::Beneath } else { AccessDepth::Itself };
    let archives = if shifted { operands.len() } else { 1 };
    for archive in operands.iter().take(archives) {
        notes.record_write_unless_stdout(archive);
        if let Some(path) = archive.as_known().filter(|path| *path != "-") {
            notes.record_write(&ShellArg::known(format!("{path}.zip")), AccessDepth::Itself);
        }
    }
    for file in operands.iter().skip(1) {
        notes.record_read(file, depth);
        if moves {
            notes.record_delete(file, depth);
        }
    }
    notes.build_complete()
}

fn analyze_unzip(args: &[ShellArg]) -> CommandAnalysis {
    // A `-` after a letter negates it, and `-T` changes the archive.
    const UNZIP: OptionTable = options!("-lvzZt!show -pc!redirect -qonabjLCUVWKXMx12smh -dPOI:");
    let options = UNZIP.parse(args);
    let mut notes = CommandAnalysisBuilder::default();
    notes.record_reads(options.operands.first());
    if options.has(&[":"]) {
        notes.record_caution("files may land outside the folder");
    }
    if !options.only_shows() {
        let folder_arg = ShellArg::known(".");
        let folder = options.values(&["d"]).last().unwrap_or(&folder_arg);
        notes.record_write(folder, AccessDepth::Beneath);
        let flat = options.has(&["j"]);
        record_members(folder, options.operands.iter().skip(1), flat, &mut notes);
    }
    notes.record_hidden_option(args, &options);
    notes.build_complete()
}

/// Adds the named members, which are written under their names; with `flat`, without their folders.
fn record_members<'a>(
    folder: &ShellArg,
    members: impl Iterator<Item = &'a ShellArg>,
    flat: bool,
    notes: &mut CommandAnalysisBuilder,
) {
    for member in members {
        let name = if flat { last_component(member) } else { member.as_known() };
        if let Some(file) = name.and_then(|name| join_path(folder, name)) {
            notes.record_write(&file, AccessDepth::Beneath);
        }
    }
}

fn analyze_seven_zip(args: &[ShellArg]) -> CommandAnalysis {
    let mut notes = CommandAnalysisBuilder::default();
    let mut folder = ShellArg::known(".");
    let (mut operands, mut deletes) = (Vec::new(), false);
    for arg in args {
        let start = arg.known_prefix();
        if let Some(value) = start.strip_prefix("-o") {
            folder = match arg {
                ShellArg::Known(_) => ShellArg::known(value),
                _ => path_starting_with(value),
            };
        } else if start.starts_with('-') {
            deletes |= start.starts_with("-sdel");
            if start.starts_with("-spf") {
                notes.record_caution("files may land outside the folder");
            }
        } else {
            operands.push(arg);
        }
        if arg.as_known().is_none() {
            notes.record_caution(MAY_BE_OPTION);
        }
    }
    let mut operands = operands.into_iter();
    let mode = operands.next().and_then(ShellArg::as_known).unwrap_or_default();
    let archive = operands.next();
    match mode {
        "l" | "t" | "i" => notes.record_reads(archive),
        "h" => {
            for file in archive.into_iter().chain(operands) {
                notes.record_read(file, AccessDepth::Beneath);
            }
        }
        "x" | "e" => {
            notes.record_reads(archive);
            notes.record_write(&folder, AccessDepth::Beneath);
            record_members(&folder, operands, mode == "e", &mut notes);
        }
        "a" | "u" | "d" | "rn" => {
            notes.record_writes(archive);
            for file in operands {
                let list = file.as_known().and_then(|file| file.strip_prefix('@'));
                match list {
                    Some(list) => notes.record_read(&ShellArg::known(list), AccessDepth::Itself),
                    None => notes.record_read(file, AccessDepth::Beneath),
                }
                if list.is_some() {
                    notes.record_caution("the files are named in a file");
                }
                if deletes {
                    notes.record_delete(file, AccessDepth::Beneath);
                }
            }
        }
        _ => return notes.build_incomplete(),
    }
    notes.build_complete()
}

/// `cpio` reads the names of its files from standard input.
fn analyze_cpio(args: &[ShellArg]) -> CommandAnalysis {
    const CPIO: OptionTable = options!(
        "-CDEFHIMOR: block-size: directory: file: format: pattern-file: message: owner: \
         rsh-command: io-size: list extract create pass-through make-directories"
    );
    let options = CPIO.parse(args);
    let mut notes = CommandAnalysisBuilder::default();
    options.values(&["rsh-command"]).for_each(|command| notes.record_script(command));
    notes.record_reads(options.values(&["I", "E", "pattern-file"]));
    notes.record_writes(options.values(&["O"]));
    let creates = options.has(&["o", "create", "p", "pass-through"]);
    for file in options.values(&["F", "file"]) {
        notes.record_read(file, AccessDepth::Itself);
        if creates {
            notes.record_write(file, AccessDepth::Itself);
        }
    }
    if !creates && options.has(&["i", "extract"]) && !options.has(&["t", "list"]) {
        let folder_arg = ShellArg::known(".");
        let folder = options.values(&["D", "directory"]).last().unwrap_or(&folder_arg);
        notes.record_write(folder, AccessDepth::Beneath);
        record_members(folder, options.operands.iter(), false, &mut notes);
    }
    if creates {
        notes.record_listed_reads(&ShellArg::known("-"));
    }
    // It copies the files named on its input to this folder.
    if options.has(&["p", "pass-through"]) {
        options.operands.iter().for_each(|folder| notes.record_write(folder, AccessDepth::Beneath));
    }
    notes.build_incomplete()
}

/// `pax -r` unpacks, `pax -w` packs, both together copy, and neither lists.
fn analyze_pax(args: &[ShellArg]) -> CommandAnalysis {
    const PAX: OptionTable = options!("-bBEfgGopsTUx:");
    let options = PAX.parse(args);
    let mut notes = CommandAnalysisBuilder::default();
    let (unpacks, packs) = (options.has(&["r"]), options.has(&["w"]));
    for archive in options.values(&["f"]) {
        match packs {
            true => notes.record_write(archive, AccessDepth::Itself),
            false => notes.record_read(archive, AccessDepth::Itself),
        }
    }
    let folder_arg = ShellArg::known(".");
    match (unpacks, packs) {
        (true, false) => {
            notes.record_write(&folder_arg, AccessDepth::Beneath);
            record_members(&folder_arg, options.operands.iter(), false, &mut notes);
        }
        (copies, true) => {
            let (target, files) = match options.operands.split_last() {
                Some((target, files)) if copies => (Some(target), files),
                _ => (None, options.operands.as_slice()),
            };
            files.iter().for_each(|file| notes.record_read(file, AccessDepth::Beneath));
            target.into_iter().for_each(|folder| notes.record_write(folder, AccessDepth::Beneath));
            if files.is_empty() {
                notes.record_listed_reads(&ShellArg::known("-"));
            }
        }
        (false, false) => {}
    }
    notes.build_incomplete()
}

fn analyze_ar(args: &[ShellArg]) -> CommandAnalysis {
    let mut notes = CommandAnalysisBuilder::default();
    let plugin = |arg: &ShellArg| arg.known_prefix().starts_with("--p");
    if args.iter().any(plugin) {
        notes.record_unknown_run("a plugin is code that is loaded");
    }
    let known = |arg: &ShellArg| arg.as_known().map(|text| text.trim_start_matches('-').to_owned());
    let mode = args.first().and_then(known).unwrap_or_default();
    let Some(files) = args.get(1..).filter(|files| !files.is_empty()) else {
        return notes.build_incomplete();
    };
    // `M` reads commands, and `@file` reads options.
    let is_plain = mode.get(1..).unwrap_or_default().chars().all(|letter| "voOVP".contains(letter))
        && files.iter().all(|file| !file.known_prefix().starts_with(['-', '@']));
    match mode.chars().next().filter(|_| is_plain) {
        Some('t' | 'p') => notes.record_reads(files.iter().take(1)),
        Some('x') => {
            notes.record_reads(files.iter().take(1));
            let folder_arg = ShellArg::known(".");
            notes.record_write(&folder_arg, AccessDepth::Beneath);
            record_members(&folder_arg, files.iter().skip(1), true, &mut notes);
            record_members(&folder_arg, files.iter().skip(1), false, &mut notes);
        }
        // Some forms take the name of a member before the archive, so any operand may be the
        // archive.
        _ => {
            for file in files {
                notes.record_read(file, AccessDepth::Itself);
                notes.record_write(file, AccessDepth::Itself);
            }
            return notes.build_incomplete();
        }
    }
    notes.build_complete()
}

#[cfg(test)]
mod tests {
    use crate::program::files::analysis_assert::check;

    #[test]
    fn zip_test_command_is_found() {
        check("zip -r a.zip d", "files: write a.zip, write a.zip.zip, read d/**");
        check("zip -T -TT 'sh -c id' a f", "files: write a, write a.zip, read f, script sh -c id");
        check("zip a f -T --unzip-c=./x", "files: write a, write a.zip, read f, script ./x");
        check("zip a f -T --unz ./x", "files: write a, write a.zip, read f, script ./x");
        check("zip a f -qTT./x", "files: write a, write a.zip, read f, script ./x");
        check("zip -m a f", "files: write a, write a.zip, read f, delete f");
        check("zip -qP pw a", "files: write pw, write pw.zip, write a, write a.zip, read a");
        check("zip a f -x b", "files: write a, write a.zip, read f, read b");
    }

    #[test]
    fn unpacked_files_are_recorded_in_target_folder() {
        check("unzip -l a.zip", "looks: read a.zip");
        check("unzip -p a.zip m", "looks: read a.zip");
        check("unzip -Z1 a.zip", "looks: read a.zip");
        check("unzip -tq a.zip", "looks: read a.zip");
        for line in ["unzip -ol-l a.zip", "unzip -ot-t a.zip", "unzip -l -T a.zip"] {
            check(line, "files: read a.zip, write ./**");
        }
        check("unzip -qo a.zip", "files: read a.zip, write ./**");
        check("unzip a.zip -d out", "files: read a.zip, write out/**");
        check("unzip a.zip m/n -d out", "files: read a.zip, write out/**, write out/m/n/**");
        check("unzip -j a m/n", "files: read a, write ./**, write ./n/**");
        check("7z e a m/n -oo", "files: read a, write o/**, write o/n/**");
        check("ar x a m", "files: read a, write ./**, write ./m/**");
        check("cpio -o", "program: read what - names");
        check("cpio -p d", "program: read what - names, write d/**");
        check("pax -r -f a m", "program: read a, write ./**, write ./m/**");
        check("pax -rw a d", "program: read a/**, write d/**");
        check("unzip -: a.zip", "files: read a.zip, write ./**, caution");
        check("7z l a.7z", "looks: read a.7z");
        check("7z h a .env", "looks: read a/**, read .env/**");
        check("7z x a.7z -spf", "files: read a.7z, write ./**, caution");
        check("7z x a.7z -oout", "files: read a.7z, write out/**");
        check("7z a a.7z f @names", "files: write a.7z, read f/**, read names, caution");
        check("cpio -id --rsh-comm=./x -F a", "program: read a, write ./**, script ./x");
        check("ar t a.a", "looks: read a.a");
        check("ar tv a.a", "looks: read a.a");
        check("ar tM a.a", "program: read a.a, write a.a");
        check("ar t @a", "program: read @a, write @a");
        check("ar x a.a", "files: read a.a, write ./**");
        check("ar rcs a.a b.o", "program: read a.a, write a.a, read b.o, write b.o");
    }
}
