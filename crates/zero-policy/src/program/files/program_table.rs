//! Programs as rows of a table: which operands are files, and which options do something.

use crate::program::CommandAnalysis;
use crate::program::options::{OptionGrammar, ParsedArguments};
use crate::shell::ShellArg;

use super::analysis_builder::{
    AccessDepth, CommandAnalysisBuilder, MAY_BE_OPTION, may_hide_option,
};

/// One or several programs that take their arguments alike.
pub(super) struct ProgramRow {
    /// Their names.
    pub(super) names: &'static [&'static str],
    /// Short options that take a value.
    pub(super) short_values: &'static str,
    /// Long options that take a value as the next argument too.
    pub(super) long_values: &'static [&'static str],
    /// Other long options that matter here.
    pub(super) long_flags: &'static [&'static str],
    /// Whether long options are written with one dash.
    pub(super) single_dash_long: bool,
    /// What the operands are.
    pub(super) operands: OperandRole,
    /// How many operands come before the first file, such as the pattern of `grep`.
    pub(super) skip: usize,
    /// Options that say what those operands would: with one of them no operand is skipped.
    pub(super) skip_unless: &'static str,
    /// Options that make it go beneath folders; `*` when it always does.
    pub(super) beneath: &'static str,
    /// When it looks at the current folder if no file is named.
    pub(super) here: CurrentFolderUse,
    /// What options do, those that do anything: names separated by spaces.
    pub(super) options: &'static [(&'static str, OptionEffect)],
}

/// What the operands of a program are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OperandRole {
    /// No files.
    Nothing,
    /// Files that are read.
    Read,
    /// A file that is read, then one that is written.
    ReadThenWrite,
    /// Files that are written.
    Write,
    /// With an operand it does more than look.
    Refused,
}

/// When the current folder is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CurrentFolderUse {
    Never,
    IfBeneath,
    Always,
}

/// What an option does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OptionEffect {
    /// Its value is a file that is read.
    Reads,
    /// Its value is a file, or `-`, that names the files which are read.
    Lists,
    /// Its value is a file that is written; `-` is standard output.
    Writes,
    /// Its value is a program, which gets arguments of its own.
    Command,
    /// Its value is a text for a shell.
    Script,
    /// It runs something nobody can say.
    Runs(&'static str),
    /// It is too much for a rule that goes by the name.
    Caution(&'static str),
    /// With it the program does more than is said here.
    More,
    /// The operands are written rather than read.
    WritesOperands,
    /// The operands are no files.
    NoFiles,
}

/// The row that others start from: reads its operands, and no option does anything.
pub(super) const READER_ROW: ProgramRow = ProgramRow {
    names: &[],
    short_values: "",
    long_values: &[],
    long_flags: &[],
    single_dash_long: false,
    operands: OperandRole::Read,
    skip: 0,
    skip_unless: "",
    beneath: "",
    here: CurrentFolderUse::Never,
    options: &[],
};

impl ProgramRow {
    /// The row of a program.
    pub(super) fn find<'a>(rows: &'a [Self], name: &str) -> Option<&'a Self> {
        rows.iter().find(|row| row.names.contains(&name))
    }

    /// What a command line of one of these programs does.
    pub(super) fn analyze(&self, args: &[ShellArg]) -> CommandAnalysis {
        let options = self.parse_arguments(args);
        let given = |names: &str| names.split_whitespace().any(|name| options.has(&[name]));
        let mut notes = CommandAnalysisBuilder::default();
        let mut operands = self.operands;
        let mut all_said = true;
        for (names, does) in self.options {
            if !given(names) {
                continue;
            }
            match does {
                OptionEffect::Runs(why) => notes.record_unknown_run(why),
                OptionEffect::Caution(why) => notes.record_caution(why),
                OptionEffect::More => all_said = false,
                OptionEffect::WritesOperands => operands = OperandRole::Write,
                OptionEffect::NoFiles => operands = OperandRole::Nothing,
                OptionEffect::Reads
                | OptionEffect::Lists
                | OptionEffect::Writes
                | OptionEffect::Command
                | OptionEffect::Script => {}
            }
            let names: Vec<&str> = names.split_whitespace().collect();
            for value in options.values(&names) {
                match does {
                    OptionEffect::Reads => notes.record_read(value, AccessDepth::Itself),
                    OptionEffect::Lists => notes.record_listed_reads(value),
                    OptionEffect::Writes => notes.record_write_unless_stdout(value),
                    OptionEffect::Command => notes.record_command(value),
                    OptionEffect::Script => notes.record_script(value),
                    _ => {}
                }
            }
        }
        let depth = if self.beneath == "*" || given(self.beneath) {
            AccessDepth::Beneath
        } else {
            AccessDepth::Itself
        };
        let skip = if given(self.skip_unless) { 0 } else { self.skip };
        let files = options.operands.get(skip..).unwrap_or_default();
        all_said &= self.record_operands(operands, files, depth, &mut notes);
        if !matches!(operands, OperandRole::Nothing | OperandRole::Refused) {
            let named = |arg: &&ShellArg| !files.contains(arg);
            let others: Vec<ShellArg> = args.iter().filter(named).cloned().collect();
            notes.record_split_reads(&others);
        }
        if self.is_dangerous() && may_hide_option(args, &options) {
            notes.record_caution(MAY_BE_OPTION);
        }
        if all_said { notes.build_complete() } else { notes.build_incomplete() }
    }

    fn parse_arguments(&self, args: &[ShellArg]) -> ParsedArguments {
        let grammar = OptionGrammar {
            short_values: self.short_values,
            long_values: self.long_values,
            long_flags: self.long_flags,
            stops_at_operand: false,
            single_dash_long: self.single_dash_long,
        };
        ParsedArguments::parse(args, &grammar)
    }

    /// Notes what is done to the operands. `false` when that makes it do more than is said.
    fn record_operands(
        &self,
        operands: OperandRole,
        files: &[ShellArg],
        depth: AccessDepth,
        notes: &mut CommandAnalysisBuilder,
    ) -> bool {
        match operands {
            OperandRole::Nothing => {}
            OperandRole::Refused => return files.is_empty(),
            OperandRole::Write => files.iter().for_each(|file| notes.record_write(file, depth)),
            OperandRole::Read => files.iter().for_each(|file| notes.record_read(file, depth)),
            OperandRole::ReadThenWrite => {
                let mut files = files.iter();
                files.by_ref().take(1).for_each(|file| notes.record_read(file, depth));
                files.for_each(|file| notes.record_write_unless_stdout(file));
            }
        }
        let here = match self.here {
            CurrentFolderUse::Never => false,
            CurrentFolderUse::IfBeneath => depth == AccessDepth::Beneath,
            CurrentFolderUse::Always => true,
        };
        if here && files.is_empty() && operands == OperandRole::Read {
            notes.record_read(&ShellArg::known("."), depth);
        }
        true
    }

    /// Whether an option or operand of these programs can write or run something, while they
    /// otherwise only look.
    fn is_dangerous(&self) -> bool {
        matches!(self.operands, OperandRole::ReadThenWrite | OperandRole::Refused)
            || self.options.iter().any(|(_, does)| {
                !matches!(does, OptionEffect::Reads | OptionEffect::Lists | OptionEffect::NoFiles)
            })
    }
}
