//! Audit rows for ports of a sandbox that the user forwards to this machine.

use std::io;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;
use zero_core::CallId;
use zero_sandbox::{StateDir, Workspace};

use super::{AuditDecision, AuditForward, AuditLog, AuditRow};
use crate::call_id::new_call_id;
use crate::metrics::CallStatus;
use crate::redaction;

/// The `tool` of such a row. No tool has this name.
const FORWARD: &str = "forward";

/// A port of a job that is to be forwarded.
#[derive(Clone, Debug)]
pub struct PortForwardTarget {
    /// The job that listens on the port.
    pub job_id: String,
    /// The session of the job; `None` for a single call.
    pub session: Option<String>,
    /// The workspace of the job.
    pub workspace: String,
    /// The port in the sandbox.
    pub port: u16,
    /// The port on this machine's loopback device.
    pub host_port: u16,
}

/// Records one forwarded port in the audit log.
pub struct PortForwardAuditLog {
    audit: AuditLog,
    call: CallId,
    workspace: Workspace,
    target: PortForwardTarget,
}

impl PortForwardAuditLog {
    /// The log of one forwarded port.
    pub fn new(state: &StateDir, workspace: Workspace, target: PortForwardTarget) -> Self {
        Self { audit: AuditLog::new(state), call: new_call_id(), workspace, target }
    }

    /// Records that forwarding was refused, by the user or because no user could be asked.
    pub fn write_refusal(&self, answer: &str) -> io::Result<()> {
        let status = CallStatus::Denied.as_str().to_owned();
        self.audit.write(&AuditRow { status, ..self.build_row("", answer) })
    }

    /// Records that forwarding begins. Nothing may be forwarded if this fails.
    pub fn write_begin(&self, answer: &str) -> io::Result<()> {
        self.audit.write(&self.build_row("", answer))
    }

    /// Records that forwarding has ended, and what passed.
    pub fn write_end(
        &self,
        answer: &str,
        traffic: AuditForward,
        duration: Duration,
    ) -> io::Result<()> {
        self.audit.write(&AuditRow {
            forward: Some(traffic),
            duration_us: u64::try_from(duration.as_micros()).unwrap_or(u64::MAX),
            ..self.build_row("end of ", answer)
        })
    }

    fn build_row(&self, prefix: &str, answer: &str) -> AuditRow {
        let PortForwardTarget { job_id, session, workspace, port, host_port } = &self.target;
        let decision = AuditDecision {
            verdict: "ask".to_owned(),
            reason: "opens a port of a sandbox to this machine".to_owned(),
            risk: Some("high".to_owned()),
            answered: Some(answer.to_owned()),
            ..AuditDecision::default()
        };
        AuditRow {
            session: session.clone(),
            workspace: redaction::redact_and_shorten(workspace),
            title: Some(format!(
                "{prefix}forward 127.0.0.1:{host_port} to port {port} of {job_id}"
            )),
            input: json!({"job_id": job_id, "port": port, "host_port": host_port}),
            decision: Some(decision),
            forward: Some(AuditForward::default()),
            ..AuditRow::new(Timestamp::now(), &self.call, &self.workspace, FORWARD)
        }
    }
}
