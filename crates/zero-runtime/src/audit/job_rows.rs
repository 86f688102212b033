//! Audit rows for the ends of jobs. The call that started a job has a row of its own.

use jiff::Timestamp;
use serde_json::json;
use zero_core::SessionId;
use zero_exec::jobs::{EndedJob, JobLog};
use zero_sandbox::running_command::{CommandExit, ExitCause};
use zero_sandbox::{StateDir, Workspace};

use super::{AuditJob, AuditLog, AuditRow};
use crate::call_id::new_call_id;
use crate::metrics::CallStatus;
use crate::redaction;

/// The `tool` of such a row. No tool has this name.
const JOB: &str = "job";

/// Records the ends of jobs in the audit log.
pub(crate) struct JobAuditLog {
    audit: AuditLog,
    workspace: Workspace,
    session: Option<SessionId>,
    parent: Option<SessionId>,
}

impl JobAuditLog {
    /// A log for the jobs of a workspace, and of a session if they belong to one.
    pub(crate) fn new(state: &StateDir, workspace: Workspace, session: Option<SessionId>) -> Self {
        Self { audit: AuditLog::new(state), workspace, session, parent: None }
    }

    /// The session is one of a sub-agent.
    pub(crate) fn with_parent(self, parent: Option<SessionId>) -> Self {
        Self { parent, ..self }
    }

    fn build_row(&self, end: &EndedJob<'_>) -> AuditRow {
        let status = job_status(end.exit);
        AuditRow {
            session: self.session.as_ref().map(ToString::to_string),
            parent: self.parent.as_ref().map(ToString::to_string),
            title: Some(format!("end of {}", end.id)),
            input: json!({"job_id": end.id, "command": redaction::redact_and_shorten(end.command)}),
            status: status.as_str().to_owned(),
            duration_us: u64::try_from(end.run_time.as_micros()).unwrap_or(u64::MAX),
            job: Some(AuditJob {
                of_call: end.call.to_string(),
                exit_code: end.exit.and_then(|exit| exit.exit_code),
                signal: end.exit.and_then(|exit| exit.signal),
            }),
            ..AuditRow::new(Timestamp::now(), &new_call_id(), &self.workspace, JOB)
        }
    }
}

impl JobLog for JobAuditLog {
    fn write_end(&self, end: &EndedJob<'_>) {
        if let Err(error) = self.audit.write(&self.build_row(end)) {
            tracing::error!(%error, "cannot write an audit row");
        }
    }
}

fn job_status(exit: Option<&CommandExit>) -> CallStatus {
    match exit.map(|exit| (exit.why, exit.exit_code)) {
        Some((ExitCause::Finished, Some(0))) => CallStatus::Ok,
        Some((ExitCause::Killed, _)) => CallStatus::Cancelled,
        Some((ExitCause::TimedOut, _)) => CallStatus::Timeout,
        Some(_) | None => CallStatus::Error,
    }
}
