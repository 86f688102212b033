//! Audit rows of services: one per service, when it has ended or did not start.

use std::sync::Arc;
use std::time::Instant;

use jiff::Timestamp;
use serde_json::json;
use zero_core::{ByteSize, CallId, CommandExecution, ToolError};
use zero_exec::services::{ServiceRecord, ServiceRequest, ServiceSupervisor};
use zero_policy::Verdict;
use zero_sandbox::running_command::{CommandExit, ExitCause};
use zero_sandbox::{StateDir, Workspace};

use crate::audit::{self, AuditLog, AuditRow, AuditService};
use crate::call_id::new_call_id;
use crate::configured_command::{decide_configured_command, denial_error};
use crate::metrics::CallStatus;
use crate::policy::{Policy, PolicyDecision};
use crate::redaction;

/// The `tool` of such a row. No tool has this name.
const SERVICE: &str = "service";

/// Applies the command rules to services, and records them in the audit log.
#[derive(Clone)]
pub(crate) struct ServiceAuditor {
    audit: Arc<AuditLog>,
    policy: Arc<dyn Policy>,
    workspace: Workspace,
}

impl ServiceAuditor {
    pub(crate) fn new(state: &StateDir, policy: Arc<dyn Policy>, workspace: Workspace) -> Self {
        Self { audit: Arc::new(AuditLog::new(state)), policy, workspace }
    }
}

impl ServiceSupervisor for ServiceAuditor {
    fn open_record(&self, request: &ServiceRequest) -> Result<Box<dyn ServiceRecord>, ToolError> {
        self.audit
            .ensure_writable(Timestamp::now())
            .map_err(|error| audit::unwritable_log_error(&error))?;
        Ok(Box::new(ServiceRow::new(self.clone(), request)))
    }
}

/// The row of one service.
struct ServiceRow {
    auditor: ServiceAuditor,
    call: CallId,
    started_at: Instant,
    row: AuditRow,
}

impl ServiceRow {
    /// Begins a row. Values of variables are not recorded, and arguments are redacted.
    fn new(auditor: ServiceAuditor, request: &ServiceRequest) -> Self {
        let call = new_call_id();
        let row = AuditRow {
            title: Some(request.name.clone()),
            input: json!({"command": redaction::redact_and_shorten(&request.words.join(" "))}),
            service: Some(AuditService::default()),
            ..AuditRow::new(Timestamp::now(), &call, &auditor.workspace, SERVICE)
        };
        Self { auditor, call, started_at: Instant::now(), row }
    }

    /// Records the decision. Its setting counts as approval.
    fn record_decision(&mut self, decision: &PolicyDecision) {
        let noted = self.row.record_decision(decision);
        if decision.verdict == Verdict::Ask {
            noted.answered = Some("settings: allow".to_owned());
        }
    }

    fn write(mut self, status: CallStatus) {
        status.as_str().clone_into(&mut self.row.status);
        self.row.duration_us =
            u64::try_from(self.started_at.elapsed().as_micros()).unwrap_or(u64::MAX);
        if let Err(error) = self.auditor.audit.write(&self.row) {
            tracing::error!(%error, "cannot write an audit row");
        }
    }
}

impl ServiceRecord for ServiceRow {
    fn call(&self) -> &CallId {
        &self.call
    }

    fn authorize(&mut self, name: &str, execution: &CommandExecution) -> Result<(), ToolError> {
        let ServiceAuditor { policy, workspace, .. } = &self.auditor;
        let decision = decide_configured_command(&**policy, workspace, execution, None)?;
        self.record_decision(&decision);
        match decision.verdict {
            Verdict::Deny => Err(denial_error(&format!("start `{name}`"), &decision)),
            Verdict::Allow | Verdict::Ask => Ok(()),
        }
    }

    fn write_failure(mut self: Box<Self>, error: &ToolError) {
        self.row.record_error(error);
        self.write(CallStatus::from_error(error));
    }

    /// A service that was asked to end has status `ok`, whatever its exit status.
    fn write_end(mut self: Box<Self>, exit: &CommandExit, is_requested: bool) {
        let CommandExit { exit_code, signal, .. } = *exit;
        self.row.service = Some(AuditService { exit_code, signal });
        let trouble = if is_requested { None } else { describe_failure(exit) };
        let status = if trouble.is_some() { CallStatus::Error } else { CallStatus::Ok };
        self.row.message = trouble;
        self.write(status);
    }
}

/// Why a service that ended by itself failed.
fn describe_failure(exit: &CommandExit) -> Option<String> {
    match exit.why {
        ExitCause::Finished => match (exit.exit_code, exit.signal) {
            (Some(0), _) => None,
            (Some(code), _) => Some(format!("it exited with code {code}")),
            (None, Some(signal)) => Some(format!("it was killed by signal {signal}")),
            (None, None) => Some("its exit status is unknown".to_owned()),
        },
        ExitCause::MemoryLimit { limit, used } => {
            let (used, limit) = (ByteSize::bytes(used), ByteSize::bytes(limit));
            Some(format!("it used {used} of memory, more than the limit of {limit}"))
        }
        ExitCause::ProcessLimit { limit, used } => {
            Some(format!("it had {used} processes, more than the limit of {limit}"))
        }
        _ => Some("it was killed".to_owned()),
    }
}
