//! `tar`: its modes in every spelling, and the options that run something.

use crate::program::command_analysis::CommandAnalysis;
use crate::program::options::{OptionTable, ParsedArguments, ValueUse, options};
use crate::shell::ShellArg;

use super::super::analysis_builder::{AccessDepth, CommandAnalysisBuilder, join_path};

const TAR: OptionTable = options!(
    "to-command:script!redirect I,use-compress-program,F,info-script:script \
     new-volume-script,rsh-command,rmt-command:script O,to-stdout!redirect -xcruAd!mode t!show \
     extract,get,create,append,update,concatenate,catenate,diff,compare,delete!mode \
     list,test-label!show g,listed-incremental:!more incremental,remove-files,unlink-first!more \
     recursive-unlink,one-top-level!more -vzjJZapkhmsw -bCfHKLNTVX: file: directory: files-from: \
     exclude: exclude-from: exclude-tag: checkpoint-action: transform: xform: strip-components: \
     owner: group: mode: mtime: format: newer: after-date: newer-mtime: starting-file: suffix: \
     tape-length: blocking-factor: record-size: label: index-file: volno-file: level: \
     quoting-style: warning: sort: add-file: pax-option: owner-map: group-map: absolute-names \
     checkpoint force-local verbatim-files-from verbose gzip gunzip ungzip bzip2 xz zstd compress \
     uncompress auto-compress wildcards anchored no-anchored ignore-case"
);

/// Analyzes `tar`.
pub(super) fn analyze(args: &[ShellArg]) -> CommandAnalysis {
    let args = expand_old_style(args);
    let options = TAR.parse(&args);
    let mut notes = CommandAnalysisBuilder::default();
    record_runs(&options, &mut notes);
    for file in options.values(&["T", "files-from"]) {
        notes.record_listed_reads(file);
        notes.record_caution("a file gives it names and options");
    }
    notes.record_reads(options.values(&["X", "exclude-from"]));
    notes.record_writes(options.values(&["g", "listed-incremental", "index-file", "volno-file"]));
    if options.has(&["P", "absolute-names"]) {
        notes.record_caution("files may land outside the folder");
    }
    let Some(mode) = TarMode::from_options(&options) else { return notes.build_incomplete() };
    let remote = record_archive(mode, &options, &mut notes);
    record_members(mode, &args, &options, &mut notes);
    notes.record_hidden_option(&args, &options);
    if remote || TarMode::all(&options).count() > 1 {
        return notes.build_incomplete();
    }
    notes.build_complete()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum TarMode {
    List,
    Compare,
    Extract,
    Create,
    /// Adds to an archive or removes from it.
    Change,
}

impl TarMode {
    /// The mode that changes most, if there are several.
    fn from_options(options: &ParsedArguments<'_>) -> Option<Self> {
        Self::all(options).next()
    }

    fn all(options: &ParsedArguments<'_>) -> impl Iterator<Item = Self> {
        let modes: [(&[&str], Self); 5] = [
            (&["x", "extract", "get"], Self::Extract),
            (&["c", "create"], Self::Create),
            (
                &["r", "append", "u", "update", "A", "concatenate", "catenate", "delete"],
                Self::Change,
            ),
            (&["d", "diff", "compare"], Self::Compare),
            (&["t", "list", "test-label"], Self::List),
        ];
        modes.into_iter().filter(|(names, _)| options.has(names)).map(|(_, mode)| mode)
    }
}

/// `tar xfC a.tar dir` as `tar -x -f a.tar -C dir`.
fn expand_old_style(args: &[ShellArg]) -> Vec<ShellArg> {
    let Some((ShellArg::Known(letters), rest)) = args.split_first() else { return args.to_vec() };
    if letters.starts_with('-') || letters.is_empty() {
        return args.to_vec();
    }
    let mut rest = rest.iter().cloned();
    let mut modern = Vec::new();
    for letter in letters.chars() {
        modern.push(ShellArg::known(format!("-{letter}")));
        if TAR.takes_value(letter.encode_utf8(&mut [0; 4])) {
            modern.extend(rest.next());
        }
    }
    modern.extend(rest);
    modern
}

fn record_runs(options: &ParsedArguments<'_>, notes: &mut CommandAnalysisBuilder) {
    options.used_values(ValueUse::Script).for_each(|command| notes.record_script(command));
    for action in options.values(&["checkpoint-action"]) {
        match action.as_known() {
            Some(action) => {
                if let Some(command) = action.strip_prefix("exec=") {
                    notes.record_script(&ShellArg::known(command));
                }
            }
            None => notes.record_unknown_run("the action at a checkpoint may be a command"),
        }
    }
}

/// Adds the archive itself. Returns `true` if it is on another machine.
fn record_archive(
    mode: TarMode,
    options: &ParsedArguments<'_>,
    notes: &mut CommandAnalysisBuilder,
) -> bool {
    let mut remote = false;
    for archive in options.values(&["f", "file"]) {
        let host = archive.known_prefix().split('/').next().unwrap_or_default();
        if host.contains(':') && !options.has(&["force-local"]) {
            notes.record_host(archive);
            remote = true;
        }
        match mode {
            TarMode::Create => notes.record_write_unless_stdout(archive),
            TarMode::Change => {
                notes.record_read(archive, AccessDepth::Itself);
                notes.record_write_unless_stdout(archive);
            }
            TarMode::List | TarMode::Compare | TarMode::Extract => {
                notes.record_read(archive, AccessDepth::Itself)
            }
        }
    }
    remote
}

fn record_members(
    mode: TarMode,
    args: &[ShellArg],
    options: &ParsedArguments<'_>,
    notes: &mut CommandAnalysisBuilder,
) {
    let folders = target_folders(options);
    let folder_arg = ShellArg::known(".");
    match mode {
        TarMode::List => {}
        TarMode::Extract => {
            if !options.only_shows() {
                if folders.is_empty() {
                    notes.record_write(&folder_arg, AccessDepth::Beneath);
                }
                folders.iter().for_each(|folder| notes.record_write(folder, AccessDepth::Beneath));
                record_named_members(args, options, &folders, notes);
            }
        }
        TarMode::Compare | TarMode::Create | TarMode::Change => {
            let added: Vec<&ShellArg> =
                options.operands.iter().chain(options.values(&["add-file"])).collect();
            for operand in added {
                for file in possible_paths(operand, args, &folders) {
                    notes.record_read(&file, AccessDepth::Beneath);
                    if options.has(&["remove-files"]) {
                        notes.record_delete(&file, AccessDepth::Beneath);
                    }
                }
            }
        }
    }
}

/// Adds the named members, which are written under their names without the components that
/// `--strip-components` removes.
fn record_named_members(
    args: &[ShellArg],
    options: &ParsedArguments<'_>,
    folders: &[ShellArg],
    notes: &mut CommandAnalysisBuilder,
) {
    let strips = options.values(&["strip-components"]).last();
    let strips =
        strips.and_then(ShellArg::as_known).and_then(|count| count.parse().ok()).unwrap_or(0);
    for member in &options.operands {
        let Some(name) = member.as_known() else { continue };
        let kept: Vec<&str> = name.split('/').skip(strips).collect();
        let stripped = ShellArg::Known(kept.join("/"));
        for file in possible_paths(&stripped, args, folders) {
            notes.record_write(&file, AccessDepth::Beneath);
        }
    }
}

/// The folders that `-C` changes to, each relative to the one before.
fn target_folders(options: &ParsedArguments<'_>) -> Vec<ShellArg> {
    let mut folders: Vec<ShellArg> = Vec::new();
    for folder in options.values(&["C", "directory"]) {
        let text = folder.as_known().filter(|text| !text.starts_with('/'));
        let counted = folders.last().and_then(|last| join_path(last, text?));
        folders.push(counted.unwrap_or_else(|| folder.clone()));
    }
    folders
}

/// The files that an operand may mean: relative to every folder before it.
fn possible_paths(operand: &ShellArg, args: &[ShellArg], folders: &[ShellArg]) -> Vec<ShellArg> {
    let Some(name) = operand.as_known() else {
        return folders.iter().chain([operand]).cloned().collect();
    };
    if name.starts_with('/') {
        return vec![operand.clone()];
    }
    let mut files: Vec<ShellArg> = folders
        .iter()
        .map(|folder| join_path(folder, name).unwrap_or_else(|| folder.clone()))
        .collect();
    // An operand before the first `-C` is relative to the working folder.
    let is_folder = |arg: &ShellArg| {
        let start = arg.known_prefix();
        start.starts_with("-C") || start.starts_with("--di")
    };
    let first_folder = args.iter().position(is_folder);
    let first_seen = args.iter().position(|arg| arg == operand);
    if first_folder.is_none() || first_seen < first_folder {
        files.push(operand.clone());
    }
    files
}

#[cfg(test)]
mod tests {
    use crate::program::files::analysis_assert::check;

    #[test]
    fn tar_modes_are_found_in_every_spelling() {
        check("tar tf a.tar", "looks: read a.tar");
        check("tar -tvzf a.tar", "looks: read a.tar");
        check("tar --list --file=a.tar", "looks: read a.tar");
        check("tar xf a.tar", "files: read a.tar, write ./**");
        check("tar xfC a.tar d", "files: read a.tar, write d/**");
        check("tar -xzf a.tar -C d m", "files: read a.tar, write d/**, write d/m/**");
        check("tar xf a m/n", "files: read a, write ./**, write m/n/**");
        check("tar xf a --strip-components=1 m/n", "files: read a, write ./**, write n/**");
        check("tar --extr --file a.tar --dir=d", "files: read a.tar, write d/**");
        check(
            "tar --extr --fil=a.tar --dir=d",
            "files: read a.tar, read what a.tar names, write d/**, caution",
        );
        check("tar -xOf a.tar", "looks: read a.tar");
        check("tar czf a.tar d e", "files: write a.tar, read d/**, read e/**");
        check("tar -c d", "looks: read d/**");
        check("tar cf - d", "looks: read d/**");
        check("tar cf a.tar -C /etc passwd", "files: write a.tar, read /etc/passwd/**");
        check("tar -cf a.tar x -C d y", "files: write a.tar, read d/x/**, read x/**, read d/y/**");
        check("tar cf a.tar --remove-f d", "files: write a.tar, read d/**, delete d/**");
        check("tar rf a.tar d", "files: read a.tar, write a.tar, read d/**");
        check("tar --version", "program");
        check("tar -xzOf a.tar m", "looks: read a.tar");
        check("tar xOf a --backup", "files: read a, write ./**");
        check("tar tf a -x", "program: read a, write ./**");
        check("tar -tf a --cre d", "program: write a, read d/**");
    }

    #[test]
    fn tar_options_that_run_commands_are_found() {
        check("tar xf a --to-command=./x", "looks: read a, script ./x");
        check("tar xf a --to-comm ./x", "looks: read a, script ./x");
        check(
            "tar cf a d --checkpoint=1 --checkpoint-act=exec=id",
            "files: write a, read d/**, script id",
        );
        check("tar cf a d --checkpoint-action=dot", "files: write a, read d/**");
        check("tar -I 'sh x' -xf a", "files: read a, write ./**, script sh x");
        check("tar xf a --use=./x", "files: read a, write ./**, script ./x");
        check("tar xfF a ./x", "files: read a, write ./**, script ./x");
        check("tar xf a --rsh-c=./x", "files: read a, write ./**, script ./x");
        check("tar tf a --rmt=./x", "looks: read a, script ./x");
        check("tar tf h:a", "program: read h:a, host h:a");
        check("tar xPf a", "files: read a, write ./**, caution");
        check("tar cf a -T names", "files: read names, read what names names, write a, caution");
        check("tar cf a *", "files: write a, read */**, caution");
        check("tar xf a $x", "files: read a, write ./**, caution");
        check("tar tf a --index-f=out", "files: write out, read a");
    }
}
