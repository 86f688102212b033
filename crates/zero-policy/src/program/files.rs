//! Common programs: the files they read and change, the hosts they connect to, the commands they
//! run.
//!
//! Most are rows of a table ([`program_table`]); programs with a language of their own or with
//! unusual arguments have a function. There are two goals: a read-only command needs no rule, and
//! an option that writes or runs something is never missed.

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

/// Analyzes the arguments of the program `name`; `None` if this module does not know it.
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
