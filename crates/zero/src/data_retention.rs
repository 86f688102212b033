//! Which of zero's own data is no longer kept, besides sessions: one set of rules for each kind.

use std::io;
use std::path::PathBuf;

use jiff::Timestamp;
use zero_core::SessionId;
use zero_mcp::client::expire_pins;
use zero_runtime::audit::AuditLog;
use zero_runtime::session_results;
use zero_sandbox::StateDir;
use zero_sandbox::expiry::{ExpiryMode, ExpiryReport, ExpiryRules};
use zero_sandbox::journal::journal_expiry::{self, JournalExpiryRules};
use zero_session::store::{Store, StoreError};
use zero_settings::WorkspaceSettings;

use crate::session_engine::{days, served_sessions};

/// A kind of data that expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DataKind {
    Audit,
    Journal,
    Results,
    Pins,
}

impl DataKind {
    pub(crate) const ALL: [Self; 4] = [Self::Audit, Self::Journal, Self::Results, Self::Pins];

    /// Stable word, used in JSON.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Audit => "audit",
            Self::Journal => "journal",
            Self::Results => "results",
            Self::Pins => "pins",
        }
    }

    /// What one item is, in the plural.
    pub(crate) fn items(self) -> &'static str {
        match self {
            Self::Audit => "days of the audit log",
            Self::Journal => "recorded changes",
            Self::Results => "stored results",
            Self::Pins => "servers with approved tools",
        }
    }

    /// The setting that limits its size.
    pub(crate) fn bytes_key(self) -> &'static str {
        match self {
            Self::Audit => "retention.auditBytes",
            Self::Journal => "retention.journalBytes",
            Self::Results => "retention.resultBytes",
            Self::Pins => "retention.pinBytes",
        }
    }
}

/// Sessions whose tools a live process serves, and their folders.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SessionsInUse {
    pub(crate) sessions: Vec<SessionId>,
    pub(crate) folders: Vec<PathBuf>,
    /// Damaged ones whose folder cannot be read, and why.
    pub(crate) damaged: Vec<(SessionId, String)>,
}

impl SessionsInUse {
    pub(crate) async fn find(state: &StateDir, store: &dyn Store) -> anyhow::Result<Self> {
        let sessions = served_sessions(state)?;
        let (mut folders, mut damaged) = (Vec::new(), Vec::new());
        for session in &sessions {
            match store.session_by_id(session).await {
                // One damaged session must not stop the others.
                Err(StoreError::Damaged { why, .. }) => damaged.push((session.clone(), why)),
                record => folders.extend(record?.and_then(|record| record.cwd)),
            }
        }
        Ok(Self { sessions, folders, damaged })
    }

    /// Fails if the folder of a session is unknown: any folder could be the one.
    fn check_folders(&self) -> io::Result<()> {
        self.damaged.first().map_or(Ok(()), |(session, why)| {
            Err(io::Error::other(format!(
                "a process of zero has the damaged session `{session}` open, and its folder cannot be read; close it there and try again ({why})"
            )))
        })
    }
}

/// The rules for all kinds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DataRetention {
    audit: ExpiryRules,
    journal: JournalExpiryRules,
    results: ExpiryRules,
    pins: ExpiryRules,
}

impl DataRetention {
    pub(crate) fn from_settings(settings: &WorkspaceSettings) -> Self {
        let named = settings.retention();
        let rules = |age: Option<u32>, bytes_max| ExpiryRules { age_max: age.map(days), bytes_max };
        Self {
            audit: rules(named.audit_days, named.audit_bytes),
            journal: JournalExpiryRules {
                changes: rules(named.journal_days, named.journal_bytes),
                command_age_max: settings.undo().limits.age_max,
                vanished_age_max: named.vanished_journal_days.map(days),
            },
            results: rules(named.result_days, named.result_bytes),
            pins: rules(named.pin_days, named.pin_bytes),
        }
    }

    /// Removes what the rules no longer keep of a kind, except of sessions that are in use.
    pub(crate) fn expire(
        &self,
        kind: DataKind,
        state: &StateDir,
        mode: ExpiryMode,
        in_use: &SessionsInUse,
    ) -> io::Result<ExpiryReport> {
        match kind {
            DataKind::Audit => AuditLog::new(state).expire(&self.audit, Timestamp::now(), mode),
            DataKind::Journal => {
                in_use.check_folders()?;
                journal_expiry::expire(state, &self.journal, mode, &in_use.folders)
            }
            DataKind::Results => {
                session_results::expire(state, &self.results, mode, &in_use.sessions)
            }
            DataKind::Pins => expire_pins(state, &self.pins, mode),
        }
    }

    /// The rules for a kind as a whole.
    pub(crate) fn rules(&self, kind: DataKind) -> &ExpiryRules {
        match kind {
            DataKind::Audit => &self.audit,
            DataKind::Journal => &self.journal.changes,
            DataKind::Results => &self.results,
            DataKind::Pins => &self.pins,
        }
    }
}
