//! Audit record of an undo, which changes files like a tool call does.

use std::time::Instant;

use jiff::Timestamp;
use serde_json::json;
use zero_core::{ErrorReason, ToolError};
use zero_runtime::audit::{AuditDecision, AuditEffect, AuditLog, AuditRow, unwritable_log_error};
use zero_runtime::metrics::CallStatus;
use zero_runtime::redaction::redact_and_shorten;
use zero_runtime::tool_host::new_call_id;
use zero_sandbox::{JournalEntry, StateDir, Workspace};

/// Audit record of one undo, written when the undo ends.
pub(in crate::commands) struct UndoRecord {
    audit: AuditLog,
    started_at: Instant,
    row: AuditRow,
}

impl UndoRecord {
    /// Starts a record. Fails if the log is not writable, so that no change goes unrecorded.
    pub(in crate::commands) fn new(
        state: &StateDir,
        workspace: &Workspace,
        entry: &JournalEntry,
    ) -> Result<Self, ToolError> {
        let (audit, time) = (AuditLog::new(state), Timestamp::now());
        audit.ensure_writable(time).map_err(|error| unwritable_log_error(&error))?;
        Ok(Self { audit, started_at: Instant::now(), row: make_row(time, workspace, entry) })
    }

    /// Records who answered the question whether to overwrite later changes, and the answer.
    pub(super) fn record_answer(&mut self, who: &str, agreed: bool) {
        let word = if agreed { "allow once" } else { "reject" };
        self.row.decision = Some(AuditDecision {
            verdict: "ask".to_owned(),
            reason: "the undo overwrites later changes".to_owned(),
            answered: Some(format!("{who}: {word}")),
            ..AuditDecision::default()
        });
    }

    /// Writes the record. `error` is the reason if the undo failed.
    pub(in crate::commands) fn finish(mut self, error: Option<&ToolError>) {
        let row = &mut self.row;
        row.duration_us = u64::try_from(self.started_at.elapsed().as_micros()).unwrap_or(u64::MAX);
        if let Some(error) = error {
            let refused = error.reason() == Some(ErrorReason::StaleFile);
            let status = if refused { CallStatus::Denied } else { CallStatus::Error };
            status.as_str().clone_into(&mut row.status);
            row.record_error(error);
        }
        if let Err(error) = self.audit.write(&self.row) {
            tracing::error!(%error, "could not write an audit record");
        }
    }
}

fn make_row(time: Timestamp, workspace: &Workspace, entry: &JournalEntry) -> AuditRow {
    // Undoing the creation of a file deletes it.
    let kind = if entry.action == "create" { "delete" } else { "write" };
    let target = workspace.cwd().join(&entry.path).display().to_string();
    AuditRow {
        title: Some(redact_and_shorten(&format!("Undo change {} of `{}`", entry.id, entry.path))),
        input: json!({"id": entry.id}),
        effects: vec![AuditEffect {
            kind: kind.to_owned(),
            target: redact_and_shorten(&target),
            ..AuditEffect::default()
        }],
        ..AuditRow::new(time, &new_call_id(), workspace, "undo")
    }
}
