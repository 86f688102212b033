//! [`WatchReport`]: what was found after a command, for the model and the user.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::profile::CONFIGURED;

/// Files that a program may create, although it may not, before it is killed while it runs.
const RUNNING_MAX: usize = 20;
/// Most files and warnings reported per command; further files are only counted.
const REPORTED_MAX: usize = 100;
/// The description of a file that a rule denies.
pub(super) const DENIED_CHANGE: &str = "a path that a deny rule names";

/// The findings after a command.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchReport {
    /// The quarantined files.
    pub quarantined: Vec<QuarantinedFile>,
    /// Warnings for the user.
    pub warnings: Vec<String>,
}

impl WatchReport {
    /// The report of a check that failed: nothing is known about the files.
    pub(crate) fn new_unfinished() -> Self {
        let warning = "what the command left in the workspace could not be checked for files that run code, because of an internal error; inspect it before you continue";
        Self { quarantined: Vec::new(), warnings: vec![warning.to_owned()] }
    }

    /// Adds the findings of a later check. Each check reports again the files that cannot be
    /// quarantined.
    pub(crate) fn merge(&mut self, later: Self) {
        self.quarantined.extend(later.quarantined);
        self.quarantined.truncate(REPORTED_MAX);
        for warning in later.warnings {
            if !self.warnings.contains(&warning) && self.warnings.len() < REPORTED_MAX {
                self.warnings.push(warning);
            }
        }
    }

    /// Names the first files only, and counts the others.
    pub(super) fn bound(&mut self) {
        let more = self.quarantined.len().saturating_sub(REPORTED_MAX);
        if more > 0 {
            self.quarantined.truncate(REPORTED_MAX);
            self.warnings.push(format!("{more} more such files were moved to quarantine"));
        }
    }

    /// Whether so many files were found while the program runs that it is killed: files that it
    /// creates again and again would fill the disk with quarantined copies, past its limits.
    pub(crate) fn is_full(&self) -> bool {
        self.quarantined.len() >= RUNNING_MAX
    }

    /// The findings as sentences; `creators` names those who may not create such files.
    pub fn notes(&self, creators: &str) -> Vec<String> {
        let taken = self.quarantined.iter().map(|quarantined| {
            let (path, kept_at) = (quarantined.path.display(), quarantined.kept_at.display());
            format!(
                "`{path}` was moved to quarantine: it is {}, which {creators} may not create; it is now in `{kept_at}`",
                quarantined.why
            )
        });
        taken.chain(self.warnings.iter().cloned()).collect()
    }
}

/// A forbidden file that a command created.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuarantinedFile {
    /// Where it was.
    pub path: PathBuf,
    /// Its path in quarantine.
    pub kept_at: PathBuf,
    /// What it is, such as "a hook, which git runs".
    pub why: String,
    /// Whether a rule of the user can let commands create it.
    pub opens_by_rule: bool,
}

impl QuarantinedFile {
    /// Whether a rule of the user denies every change of it, by any tool.
    pub fn is_denied_by_rule(&self) -> bool {
        self.why == DENIED_CHANGE
    }

    /// Whether only a setting of the host closes it, and that to commands alone.
    pub fn is_closed_by_setting(&self) -> bool {
        self.why == CONFIGURED
    }
}
