//! `awk`: its programs can read and write files and run commands, so they are scanned here.

mod program_text;

use crate::program::command_analysis::CommandAnalysis;
use crate::program::options::{OptionTable, ParsedArguments, options};
use crate::shell::ShellArg;

use super::analysis_builder::{
    AccessDepth, CommandAnalysisBuilder, MAY_BE_OPTION, may_hide_option,
};

/// Analyzes `awk` and its variants.
pub(super) fn analyze(name: &str, args: &[ShellArg]) -> Option<CommandAnalysis> {
    const AWK: OptionTable = options!(
        "-FvfileEW: field-separator: assign: file: include: load: source: exec: pretty-print \
         profile dump-variables debug sandbox lint posix characters-as-bytes traditional csv \
         re-interval"
    )
    .until_operand();
    if !matches!(name, "awk" | "gawk" | "mawk" | "nawk" | "original-awk") {
        return None;
    }
    let options = AWK.parse(args);
    let mut notes = CommandAnalysisBuilder::default();
    let mut has_program = false;
    for text in options.values(&["e", "source"]) {
        has_program = true;
        record_program(text, &mut notes);
    }
    for file in options.values(&["f", "file", "E", "exec"]) {
        has_program = true;
        notes.record_read(file, AccessDepth::Itself);
        notes.record_caution("the program comes from a file");
    }
    if options.has(&["i", "include", "l", "load", "W"]) {
        notes.record_unknown_run("code is loaded from elsewhere");
    }
    let mut operands = options.operands.iter();
    if !has_program && let Some(program) = operands.next() {
        record_program(program, &mut notes);
    }
    notes.record_reads(operands.filter(|operand| !is_assignment(operand)));
    if may_hide_option_early(args, &options) {
        notes.record_caution(MAY_BE_OPTION);
    }
    // These options write a file with a given or generated name.
    let writes = ["o", "pretty-print", "p", "profile", "d", "dump-variables", "D", "debug"];
    Some(if options.has(&writes) { notes.build_incomplete() } else { notes.build_complete() })
}

fn record_program(program: &ShellArg, notes: &mut CommandAnalysisBuilder) {
    match program.as_known() {
        Some(text) => program_text::record_effects(text, notes),
        None => notes.record_caution("the program is not known"),
    }
}

/// Options end at the first operand, so only an argument before it can be one.
fn may_hide_option_early(args: &[ShellArg], options: &ParsedArguments<'_>) -> bool {
    let before = args.len().saturating_sub(options.operands.len());
    may_hide_option(args.get(..before).unwrap_or_default(), options)
}

/// `name=value` sets a variable.
fn is_assignment(operand: &ShellArg) -> bool {
    operand.known_prefix().split_once('=').is_some_and(|(name, _)| {
        name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    })
}

#[cfg(test)]
mod tests {
    use crate::program::files::analysis_assert::check;

    #[test]
    fn awk_printing_program_is_read_only() {
        check("awk '{print $1}' f", "looks: read f");
        check("awk -F: '$3 > 5 {print $1}' f", "looks: read f");
        check("awk -v n=3 'NR==n || /a|b/ {print \"x|y > z\"}' f a=b", "looks: read f");
        check("awk 'BEGIN{x=4/2; y=x/2} {s+=$1/2} END{print s}'", "looks");
        check("awk '/system/ { n++ } # system(x)\nEND { print n }' f", "looks: read f");
        check("awk '{ if ($1 >= 2 && $2 > 3) print; x = a > b }' f", "looks: read f");
        check("awk '{ print $1\n if (a > b) n++ }' f", "looks: read f");
        check("awk '{print ($1+$2)/2, ($3)/4}' f", "looks: read f");
        check("awk '$1 > 2 {print ($1+$2)/2}' f", "looks: read f");
        check("awk '{ getline; print }' f", "looks: read f");
        check("awk '{ gsub(/\\//, \"|\"); print }' f", "looks: read f");
        check("awk '{print > \"/dev/stderr\"}' f", "looks: read f");
    }

    #[test]
    fn awk_program_commands_are_found() {
        check("awk 'BEGIN{system(\"id\")}'", "looks: script id");
        check("awk 'BEGIN { system (x) }'", "looks: runs something");
        check("awk 'BEGIN{system(\"a\" \"b\")}'", "looks: runs something");
        check("awk '{print | \"sh\"}' f", "looks: read f, script sh");
        check("awk '{print $0 |\"sh\" x}' f", "looks: read f, runs something");
        check("awk 'BEGIN{\"id\" | getline x}'", "looks: runs something");
        check("awk 'BEGIN{\"id\" |& getline x}'", "looks: runs something");
        check("awk '@load \"x\"; {print}' f", "looks: read f, runs something");
        check("gawk 'BEGIN{f=\"system\"; @f(\"id\")}'", "looks: runs something");
        check("awk '/\"/ { system(\"id\") } /\"/' f", "looks: read f, script id");
        check("awk '/[/]/ { print \"/ | \" }' f", "looks: read f, runs something");
        check("awk '/[[:space:]]x|y/ { print \"|\" }' f", "looks: read f");
        check("awk '/[]/\"]/ { system(\"id\") } #\"' f", "looks: read f, runs something");
        check("awk '/[[:a:]/\"]/ { system(\"id\") } #\"' f", "looks: read f, runs something");
        check("awk '{ x = getline / system(\"id\") / 2 }' f", "looks: read f, runs something");
        check("awk '{ print $1system(\"id\") }' f", "looks: read f, runs something");
        check("awk '{ x = a.5system(\"id\") }' f", "looks: read f, runs something");
        check("awk '(a) / 2 | x / 3' f", "looks: read f, runs something");
        check("awk '{print \"a | b' f", "looks: read f, runs something");
        check("gawk -e '{print}' -e 'BEGIN{system(\"id\")}' f", "looks: read f, script id");
        check("gawk -i inplace '{print}' f", "looks: read f, runs something");
        check("gawk --incl=x '{print}' f", "looks: read f, runs something");
        check("gawk -o '{print}' f", "program: read f");
        check("awk -f p.awk f", "looks: read p.awk, read f, caution");
        check("awk 'BEGIN{ARGV[1]=\".env\"; ARGC=2} {print}'", "looks: runs something");
    }

    #[test]
    fn awk_program_files_are_recorded() {
        check("awk '{print > \"out\"}' f", "files: write out, read f");
        check("awk '{print $1,\n $2 >> \"out\" }' f", "files: write out, read f");
        check("awk '{printf(\"%s\", $1) > \"out\"; n++}' f", "files: write out, read f");
        check("awk '{print > $1}' f", "files: write …, read f");
        check("awk '{print > \"a\" $1 }' f", "files: write …, read f");
        check("awk 'BEGIN{while ((getline x < \".env\") > 0) print x}'", "looks: read .env");
        check("awk 'BEGIN{getline x < y}'", "looks: read …");
    }

    #[test]
    fn awk_unknown_program_is_not_trusted() {
        check("awk $x f", "looks: read f, caution");
        check("awk -F $x '{print}' f", "looks: read f, caution");
        check("awk '{print}' $x", "looks: read $x");
        check("awk '{print}' -f x", "looks: read -f, read x");
    }
}
