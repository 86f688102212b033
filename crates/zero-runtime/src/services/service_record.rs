//! The row that a service leaves in the audit log: one, when it has ended or did not start.

use std::time::Instant;

use jiff::Timestamp;
use serde_json::json;
use zero_core::{ByteSize, CallId, ToolError};
use zero_policy::Verdict;
use zero_sandbox::Workspace;
use zero_sandbox::running_command::{CommandExit, ExitCause};

use super::ServiceRequest;
use crate::audit::{AuditLog, AuditRow, AuditService};
use crate::call_id::new_call_id;
use crate::call_record;
use crate::metrics::CallStatus;
use crate::policy::PolicyDecision;
use crate::redaction;

/// What the tool of such a row is called. No tool has this name.
const SERVICE: &str = "service";

/// The record of one service.
pub(super) struct ServiceRecord {
    call: CallId,
    began: Instant,
    row: AuditRow,
}

impl ServiceRecord {
    /// Begins one. What variables hold is nobody's business, and words are cleaned.
    pub(super) fn new(request: &ServiceRequest, workspace: &Workspace) -> Self {
        let call = new_call_id();
        let row = AuditRow {
            title: Some(request.name.clone()),
            input: json!({"command": redaction::redact_and_shorten(&request.words.join(" "))}),
            service: Some(AuditService::default()),
            ..AuditRow::new(Timestamp::now(), &call, workspace, SERVICE)
        };
        Self { call, began: Instant::now(), row }
    }

    /// By what it is known in rows about its connections.
    pub(super) fn call(&self) -> &CallId {
        &self.call
    }

    /// Notes how it was judged. What would have to be asked, settings have answered.
    pub(super) fn record_decision(&mut self, decision: &PolicyDecision) {
        let noted = call_record::record_decision(&mut self.row, decision);
        if decision.verdict == Verdict::Ask {
            noted.answered = Some("settings: allow".to_owned());
        }
    }

    /// Writes that it did not start.
    pub(super) fn write_failure(mut self, audit: &AuditLog, error: &ToolError) {
        self.row.record_error(error);
        self.write(audit, call_record::status_from_error(error));
    }

    /// Writes how it ended. One that was asked to end did well, however it took that.
    pub(super) fn write_end(mut self, audit: &AuditLog, ended: &CommandExit, is_asked: bool) {
        let CommandExit { exit_code, signal, .. } = *ended;
        self.row.service = Some(AuditService { exit_code, signal });
        let trouble = if is_asked { None } else { describe_failure(ended) };
        let status = if trouble.is_some() { CallStatus::Error } else { CallStatus::Ok };
        self.row.message = trouble;
        self.write(audit, status);
    }

    fn write(mut self, audit: &AuditLog, status: CallStatus) {
        status.as_str().clone_into(&mut self.row.status);
        self.row.duration_us = u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX);
        if let Err(error) = audit.write(&self.row) {
            tracing::error!(%error, "an audit row could not be written");
        }
    }
}

/// What went wrong with one that ended by itself.
fn describe_failure(ended: &CommandExit) -> Option<String> {
    match ended.why {
        ExitCause::Finished => match (ended.exit_code, ended.signal) {
            (Some(0), _) => None,
            (Some(code), _) => Some(format!("it ended with code {code}")),
            (None, Some(signal)) => Some(format!("signal {signal} ended it")),
            (None, None) => Some("nobody knows how it ended".to_owned()),
        },
        ExitCause::MemoryLimit { limit, used } => {
            let (used, limit) = (ByteSize::bytes(used), ByteSize::bytes(limit));
            Some(format!("it held {used} of memory, and may hold {limit}"))
        }
        ExitCause::ProcessLimit { limit, used } => {
            Some(format!("it had {used} processes, and may have {limit}"))
        }
        _ => Some("it was killed from outside".to_owned()),
    }
}
