//! Programs that remove or overwrite files.

use crate::program::arguments::strip_arg_prefix;
use crate::program::command_analysis::{CommandAnalysis, CommandClass, FileAccess};
use crate::program::options::{OptionTable, ParsedOption, options};
use crate::shell::ShellArg;

/// `None` for other programs.
pub(in super::super) fn analyze(name: &str, args: &[ShellArg]) -> Option<CommandAnalysis> {
    Some(match name {
        "rm" => analyze_rm(args),
        "rmdir" => analyze_rmdir(args),
        "unlink" => CommandAnalysis::with_class(CommandClass::Files)
            .with_touches(FileAccess::Delete, &RMDIR.parse(args).operands),
        "shred" | "wipe" | "srm" => analyze_shred(args),
        "dd" => analyze_dd(args)?,
        _ => return None,
    })
}

const RM: OptionTable = options!(
    "-rRfdiIvPWx recursive force dir interactive:: verbose one-file-system no-preserve-root \
     preserve-root:: help version"
)
.strict();

fn analyze_rm(args: &[ShellArg]) -> CommandAnalysis {
    let options = RM.parse(args);
    // The general check for hidden options is too strict here: `*.o` is never an option of rm,
    // whatever the files are called.
    let ended = args.iter().position(|arg| arg.as_known() == Some("--")).unwrap_or(args.len());
    // A long option that matches no single name: rm rejects it, but other versions may have it.
    let is_unlisted =
        |given: &ParsedOption<'_>| given.written.len() > 1 && given.entries().next().is_none();
    let open =
        args.iter().take(ended).any(may_hold_options) || options.parsed.iter().any(is_unlisted);
    let recursive = options.has(&["r", "R", "recursive"]) || open;
    let analysis = options.operands.iter().fold(
        CommandAnalysis::with_class(CommandClass::Files),
        |command_analysis, file| {
            if recursive {
                command_analysis.with_recursive_touch(FileAccess::Delete, file)
            } else {
                command_analysis.with_touch(FileAccess::Delete, file)
            }
        },
    );
    let forced = options.has(&["f", "force"]);
    match (recursive, forced) {
        _ if open => analysis.mark_critical("may remove files recursively"),
        (true, _) => analysis.mark_critical("removes files recursively"),
        (false, true) => analysis.mark_critical("removes files by force"),
        (false, false) => analysis,
    }
}

/// Whether an unknown argument may contain `-r` or `-f`. A glob expands to file names, and one with
/// a dot or slash in its fixed suffix is not an option of rm.
fn may_hold_options(arg: &ShellArg) -> bool {
    match arg {
        ShellArg::Known(_) => false,
        ShellArg::Pattern(pattern) => {
            let end = pattern.rsplit(['*', '?', ']']).next().unwrap_or_default();
            arg.may_be_option() && !end.contains(['.', '/'])
        }
        ShellArg::Unknown { .. } => arg.may_be_option(),
    }
}

const RMDIR: OptionTable =
    options!("-pvf ignore-fail-on-non-empty parents verbose help version").strict();

fn analyze_rmdir(args: &[ShellArg]) -> CommandAnalysis {
    let options = RMDIR.parse(args);
    let analysis = CommandAnalysis::with_class(CommandClass::Files)
        .with_touches(FileAccess::Delete, &options.operands);
    match options.has(&["p", "parents"]) {
        true => options.operands.iter().fold(analysis, |command_analysis, folder| {
            command_analysis.with_touches(FileAccess::Delete, &written_parents(folder))
        }),
        false => analysis,
    }
}

/// The folders that a path names on its way, innermost first. Without the root, which cannot be
/// removed.
fn written_parents(path: &ShellArg) -> Vec<ShellArg> {
    let (text, is_pattern) = match path {
        ShellArg::Known(text) => (text, false),
        ShellArg::Pattern(pattern) => (pattern, true),
        ShellArg::Unknown { .. } => return Vec::new(),
    };
    let mut parents = Vec::new();
    let mut rest = text.trim_end_matches('/');
    while let Some((parent, _)) = rest.rsplit_once('/') {
        rest = parent.trim_end_matches('/');
        if !matches!(rest, "" | ".") {
            parents.push(match is_pattern {
                true => ShellArg::Pattern(rest.to_owned()),
                false => ShellArg::known(rest),
            });
        }
    }
    parents
}

fn analyze_shred(args: &[ShellArg]) -> CommandAnalysis {
    let table = options!(
        "-fuvxzrlmdeiq -ns: force iterations: random-source: size: remove:: verbose exact zero \
         help version"
    )
    .strict();
    let files = table.parse(args).operands;
    files
        .iter()
        .fold(CommandAnalysis::with_class(CommandClass::Files), |analysis, file| {
            analysis.with_recursive_touch(FileAccess::Delete, file)
        })
        .mark_critical("overwrites files so that nothing can bring them back")
}

fn analyze_dd(args: &[ShellArg]) -> Option<CommandAnalysis> {
    let mut analysis = CommandAnalysis::with_class(CommandClass::ReadOnly);
    for arg in args {
        if let Some(file) = strip_arg_prefix(arg, "of=") {
            analysis.class = CommandClass::Files;
            analysis = analysis
                .with_touch(FileAccess::Write, &file)
                .mark_critical("overwrites a file or a disk");
        } else if let Some(file) = strip_arg_prefix(arg, "if=") {
            analysis = analysis.with_touch(FileAccess::Read, &file);
        } else if arg.as_known().is_none() && !arg.known_prefix().contains('=') {
            analysis.class = CommandClass::Opaque;
            analysis = analysis.mark_critical("may overwrite a file or a disk");
        }
    }
    Some(analysis)
}

#[cfg(test)]
mod tests {
    use super::super::super::analysis_text::check;

    #[test]
    fn rm_is_critical_in_every_spelling() {
        for options in
            ["-r", "-R", "-rf", "-fr", "-vfr", "-Rv", "--recursive", "--rec", "--r", "-d -r"]
        {
            check(&format!("rm {options} x"), "files delete(x/**) critical");
        }
        for options in ["-f", "-vf", "--force", "--fo", "-i -f"] {
            check(&format!("rm {options} x"), "files delete(x) critical");
        }
        check("rm x -rf", "files delete(x/**) critical");
        check("rm -- -rf", "files delete(-rf)");
        check("rm a b", "files delete(a) delete(b)");
        check("rm -iv a", "files delete(a)");
    }

    #[test]
    fn unknown_argument_counts_as_option() {
        check("rm $FLAGS x", "files delete($FLAGS/**) delete(x/**) critical");
        check("rm -$X x", "files delete(-$X/**) delete(x/**) critical");
        check("rm -- $X", "files delete($X)");
        check("rm dir/$X", "files delete(dir/$X)");
        check("rm *", "files delete(*/**) critical");
        check("rm *.o", "files delete(*.o)");
        check("rm --strange x", "files delete(x/**) critical");
    }

    #[test]
    fn other_removal_programs_are_critical() {
        check("rmdir a/b", "files delete(a/b)");
        check("rmdir -p a/b/c/ d", "files delete(a/b/c/) delete(d) delete(a/b) delete(a)");
        check("rmdir --parents ./a//b", "files delete(./a//b) delete(./a)");
        check("rmdir -p /a/*/c", "files delete(/a/*/c) delete(/a/*) delete(/a)");
        check("unlink a", "files delete(a)");
        check("shred -u -n 3 a", "files delete(a/**) critical");
        check("dd if=a of=/dev/sda bs=1M", "files read(a) write(/dev/sda) critical");
        check("dd if=a count=1", "read-only read(a)");
        check("dd $X", "program critical");
    }
}
