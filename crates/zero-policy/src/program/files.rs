//! Everyday programs: which files they read and change, whom they talk to, what else they run.
//!
//! Most are rows of a table ([`program_table`]); those with a language of their own or with unusual
//! arguments have a function. The aim is twofold: a command that only looks needs no rule, and an
//! option that writes or runs something is never taken for a harmless one.

mod analysis_builder;
mod archives;
mod awk;
mod dev_tools;
mod file_modifiers;
mod network;
mod program_table;
mod readers;
mod sed;
mod toolchain;

#[cfg(test)]
mod analysis_assert;

use crate::shell::ShellArg;

use crate::program::command_analysis::CommandAnalysis;

/// Studies the arguments of the program `name`; `None` when it is none of those known here.
pub(super) fn analyze(name: &str, args: &[ShellArg]) -> Option<CommandAnalysis> {
    readers::analyze(name, args)
        .or_else(|| file_modifiers::analyze(name, args))
        .or_else(|| sed::analyze(name, args))
        .or_else(|| awk::analyze(name, args))
        .or_else(|| archives::analyze(name, args))
        .or_else(|| network::analyze(name, args))
        .or_else(|| toolchain::analyze(name, args))
        .or_else(|| dev_tools::analyze(name, args))
}
