//! The row that a service leaves in the audit log: one, when it has ended or did not start.

use std::time::Instant;

use jiff::Timestamp;
use serde_json::json;
use zero_core::{ByteSize, CallId, ToolError};
use zero_policy::Verdict;
use zero_sandbox::Workspace;
use zero_sandbox::running::{Ended, Why};

use super::ServiceRequest;
use crate::audit::{Audit, AuditRow, AuditService};
use crate::host::new_call_id;
use crate::ledger;
use crate::metrics::Status;
use crate::policy::Decision;
use crate::redact;

/// What the tool of such a row is called. No tool has this name.
const SERVICE: &str = "service";

/// The record of one service.
pub(super) struct Record {
    call: CallId,
    began: Instant,
    row: AuditRow,
}

impl Record {
    /// Begins one. What variables hold is nobody's business, and words are cleaned.
    pub(super) fn begin(request: &ServiceRequest, workspace: &Workspace) -> Self {
        let call = new_call_id();
        let row = AuditRow {
            title: Some(request.name.clone()),
            input: json!({"command": redact::short_text(&request.words.join(" "))}),
            service: Some(AuditService::default()),
            ..AuditRow::begin(Timestamp::now(), &call, workspace, SERVICE)
        };
        Self { call, began: Instant::now(), row }
    }

    /// By what it is known in rows about its connections.
    pub(super) fn call(&self) -> &CallId {
        &self.call
    }

    /// Notes how it was judged. What would have to be asked, settings have answered.
    pub(super) fn judged(&mut self, decision: &Decision) {
        let noted = ledger::judged(&mut self.row, decision);
        if decision.verdict == Verdict::Ask {
            noted.answered = Some("settings: allow".to_owned());
        }
    }

    /// Writes that it did not start.
    pub(super) fn failed(mut self, audit: &Audit, error: &ToolError) {
        self.row.failed(error);
        self.write(audit, ledger::status_of(error));
    }

    /// Writes how it ended. One that was asked to end did well, however it took that.
    pub(super) fn ended(mut self, audit: &Audit, ended: &Ended, is_asked: bool) {
        let Ended { exit_code, signal, .. } = *ended;
        self.row.service = Some(AuditService { exit_code, signal });
        let trouble = if is_asked { None } else { trouble(ended) };
        let status = if trouble.is_some() { Status::Error } else { Status::Ok };
        self.row.message = trouble;
        self.write(audit, status);
    }

    fn write(mut self, audit: &Audit, status: Status) {
        status.word().clone_into(&mut self.row.status);
        self.row.duration_us = u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX);
        if let Err(error) = audit.write(&self.row) {
            tracing::error!(%error, "an audit row could not be written");
        }
    }
}

/// What went wrong with one that ended by itself.
fn trouble(ended: &Ended) -> Option<String> {
    match ended.why {
        Why::Finished => match (ended.exit_code, ended.signal) {
            (Some(0), _) => None,
            (Some(code), _) => Some(format!("it ended with code {code}")),
            (None, Some(signal)) => Some(format!("signal {signal} ended it")),
            (None, None) => Some("nobody knows how it ended".to_owned()),
        },
        Why::MemoryLimit { limit, used } => {
            let (used, limit) = (ByteSize::bytes(used), ByteSize::bytes(limit));
            Some(format!("it held {used} of memory, and may hold {limit}"))
        }
        Why::ProcessLimit { limit, used } => {
            Some(format!("it had {used} processes, and may have {limit}"))
        }
        _ => Some("it was killed from outside".to_owned()),
    }
}
