//! Everyday programs: which files they read and change, whom they talk to, what else they run.
//!
//! Most are rows of a table ([`table`]); those with a language of their own or with unusual
//! arguments have a function. The aim is twofold: a command that only looks needs no rule, and an
//! option that writes or runs something is never taken for a harmless one.

mod archives;
mod awk;
mod changers;
mod dev_tools;
mod network;
mod notes;
mod openers;
mod readers;
mod sed;
mod table;

#[cfg(test)]
mod check;

use crate::shell::Arg;

use super::Study;

/// Studies the arguments of the program `name`; `None` when it is none of those known here.
pub(super) fn study(name: &str, args: &[Arg]) -> Option<Study> {
    readers::study(name, args)
        .or_else(|| changers::study(name, args))
        .or_else(|| sed::study(name, args))
        .or_else(|| awk::study(name, args))
        .or_else(|| archives::study(name, args))
        .or_else(|| network::study(name, args))
        .or_else(|| openers::study(name, args))
        .or_else(|| dev_tools::study(name, args))
}
