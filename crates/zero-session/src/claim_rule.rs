//! Who gets a session. Every store asks this in the transaction that has locked the session.

use crate::store::ClaimEpoch;

/// What a store knows of a session that a process wants.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoredClaim<'a> {
    /// The process that has it; empty if that gave it up.
    pub(crate) holder: Option<&'a str>,
    pub(crate) epoch: ClaimEpoch,
    pub(crate) has_unfinished_runs: bool,
}

/// What a store does about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClaimDecision {
    /// The process has it already.
    Keep,
    /// The process gets it under the next number.
    Replace,
    /// The same, unless the holder is alive.
    ReplaceIfDead,
    /// It stays with its holder.
    Refuse,
}

impl StoredClaim<'_> {
    /// Decides for a process; `dead` is the number of a claim whose process is said to have died, or of its
    /// own claim, if nothing that it sent under that number may be stored any more.
    pub(crate) fn decide(&self, node: &str, dead: Option<ClaimEpoch>) -> ClaimDecision {
        match self.holder {
            // It gives up what it wrote under that number and was not told about.
            Some(holder) if holder == node && dead == Some(self.epoch) => ClaimDecision::Replace,
            Some(holder) if holder == node => ClaimDecision::Keep,
            Some(_) if !self.has_unfinished_runs => ClaimDecision::Replace,
            Some(_) if dead == Some(self.epoch) => ClaimDecision::ReplaceIfDead,
            Some(_) => ClaimDecision::Refuse,
            None => ClaimDecision::Replace,
        }
    }
}
