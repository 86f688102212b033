//! Programs as rows of a table: which operands are files, and which options have effects.

use crate::program::command_analysis::CommandAnalysis;
use crate::program::options::{OptionChange, OptionTable, ValueUse, options};
use crate::shell::ShellArg;

use super::analysis_builder::{
    AccessDepth, CommandAnalysisBuilder, MAY_BE_OPTION, may_hide_option,
};

/// One or several programs with the same arguments.
pub(super) struct ProgramRow {
    /// Their names.
    pub(super) names: &'static [&'static str],
    /// Their options with their effects.
    pub(super) table: OptionTable,
    /// Whether long options have one dash.
    pub(super) single_dash: bool,
    /// The role of the operands.
    pub(super) operands: OperandRole,
    /// How many operands precede the first file, such as the pattern of `grep`.
    pub(super) skip: usize,
    /// Whether it reads folders recursively by default.
    pub(super) beneath: bool,
    /// When it uses the current folder if no file is named.
    pub(super) folder_use: CurrentFolderUse,
}

/// The role of a program's operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OperandRole {
    /// Not files.
    Nothing,
    /// Files that are read.
    Read,
    /// A file that is read, then one that is written.
    ReadThenWrite,
    /// Files that are written.
    Write,
    /// With an operand it does more than read.
    Refused,
}

/// When the current folder is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CurrentFolderUse {
    Never,
    IfBeneath,
    Always,
}

/// The base of other rows: reads its operands, and its options have no effect.
pub(super) const READER_ROW: ProgramRow = ProgramRow {
    names: &[],
    table: options!(""),
    single_dash: false,
    operands: OperandRole::Read,
    skip: 0,
    beneath: false,
    folder_use: CurrentFolderUse::Never,
};

impl ProgramRow {
    /// The row of a program.
    pub(super) fn find<'a>(rows: &'a [Self], name: &str) -> Option<&'a Self> {
        rows.iter().find(|row| row.names.contains(&name))
    }

    /// Analyzes a command line of one of these programs.
    pub(super) fn analyze(&self, args: &[ShellArg]) -> CommandAnalysis {
        let table = if self.single_dash { self.table.single_dash() } else { self.table };
        let options = table.parse(args);
        let mut notes = CommandAnalysisBuilder::default();
        let mut operands = self.operands;
        let (mut beneath, mut skip, mut all_said) = (self.beneath, self.skip, true);
        for (entry, value) in options.by_place() {
            match entry.change {
                OptionChange::Beneath => beneath = true,
                OptionChange::Pattern => skip = 0,
                OptionChange::More => all_said = false,
                OptionChange::WriteOperands => operands = OperandRole::Write,
                OptionChange::NoFiles => operands = OperandRole::Nothing,
                change => notes.record_change(change),
            }
            value.into_iter().for_each(|value| notes.record_value(entry.value_use, value));
        }
        let depth = if beneath { AccessDepth::Beneath } else { AccessDepth::Itself };
        let files = options.operands.get(skip..).unwrap_or_default();
        all_said &= self.record_operands(operands, files, depth, &mut notes);
        if !matches!(operands, OperandRole::Nothing | OperandRole::Refused) {
            let named = |arg: &&ShellArg| !files.contains(arg);
            let others: Vec<ShellArg> = args.iter().filter(named).cloned().collect();
            notes.record_split_reads(&others);
        }
        if may_hide_option(args, &options) && self.is_dangerous() {
            notes.record_caution(MAY_BE_OPTION);
        }
        if all_said { notes.build_complete() } else { notes.build_incomplete() }
    }

    /// Adds the effects on the operands. Returns `false` if the program then does more than the row
    /// says.
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
                notes.record_outputs(files);
            }
        }
        let here = match self.folder_use {
            CurrentFolderUse::Never => false,
            CurrentFolderUse::IfBeneath => depth == AccessDepth::Beneath,
            CurrentFolderUse::Always => true,
        };
        if here && files.is_empty() && operands == OperandRole::Read {
            notes.record_read(&ShellArg::known("."), depth);
        }
        true
    }

    /// Whether an option or operand of these otherwise read-only programs can write or run
    /// something.
    fn is_dangerous(&self) -> bool {
        matches!(self.operands, OperandRole::ReadThenWrite | OperandRole::Refused)
            || self.table.entries().iter().any(|entry| match (entry.value_use, entry.change) {
                (
                    ValueUse::Nothing | ValueUse::Read | ValueUse::Identity | ValueUse::List,
                    change,
                ) => !matches!(
                    change,
                    OptionChange::Nothing
                        | OptionChange::NoFiles
                        | OptionChange::Beneath
                        | OptionChange::Pattern
                ),
                _ => true,
            })
    }
}
