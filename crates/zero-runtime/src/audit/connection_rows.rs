//! Audit rows for connections of confined programs.

use std::io;
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;
use serde_json::json;
use zero_core::SessionId;
use zero_exec::egress::{
    ConnectTarget, ConnectionDecision, ConnectionLog, ConnectionRecord, ConnectionStatus,
};
use zero_sandbox::{StateDir, Workspace};

use super::{AuditConnection, AuditDecision, AuditEffect, AuditLog, AuditRow};
use crate::call_id::new_call_id;
use crate::metrics::CallStatus;
use crate::redaction;

/// The `tool` of such a row. No tool has this name.
const CONNECTION: &str = "connection";

/// Records connections in the audit log.
pub struct ConnectionAuditLog {
    audit: AuditLog,
    workspace: Workspace,
    session: Option<SessionId>,
    parent: Option<SessionId>,
    /// Held while a row is built and written.
    turn: Mutex<()>,
}

impl ConnectionAuditLog {
    /// A log for the connections of a workspace, and of a session if they belong to one.
    pub fn new(state: &StateDir, workspace: Workspace, session: Option<SessionId>) -> Self {
        Self {
            audit: AuditLog::new(state),
            workspace,
            session,
            parent: None,
            turn: Mutex::default(),
        }
    }

    /// The session is one of a sub-agent.
    #[must_use]
    pub fn with_parent(self, parent: Option<SessionId>) -> Self {
        Self { parent, ..self }
    }

    fn build_row(&self, record: ConnectionRecord) -> AuditRow {
        let target = record.target.map(|ConnectTarget { host, port }| {
            // A host name can carry secret data.
            (redaction::redact_and_shorten(&host.to_string()), port)
        });
        let title = target.as_ref().map(|(host, port)| format!("{host}:{port}"));
        let decision = record.decision.map(to_audit_decision);
        let effect = decision.as_ref().map(|decision| AuditEffect {
            kind: "net".to_owned(),
            target: title.clone().unwrap_or_default(),
            decision: Some(decision.verdict.clone()),
            rule: decision.rule.clone(),
        });
        let new = AuditRow::new(record.time, &new_call_id(), &self.workspace, CONNECTION);
        AuditRow {
            session: self.session.as_ref().map(ToString::to_string),
            parent: self.parent.as_ref().map(ToString::to_string),
            title,
            input: target.map_or(new.input, |(host, port)| json!({"host": host, "port": port})),
            effects: effect.into_iter().collect(),
            decision,
            status: call_status(record.status).as_str().to_owned(),
            message: record.message,
            duration_us: u64::try_from(record.duration.as_micros()).unwrap_or(u64::MAX),
            connection: Some(AuditConnection {
                of_call: record.call.as_ref().map(ToString::to_string),
                protocol: record.protocol.to_owned(),
                address: record.address.map(|address| address.to_string()),
                sent_bytes: record.sent_bytes,
                received_bytes: record.received_bytes,
            }),
            ..new
        }
    }
}

impl ConnectionLog for ConnectionAuditLog {
    fn ensure_writable(&self) -> io::Result<()> {
        self.audit.ensure_writable(Timestamp::now())
    }

    fn write(&self, record: ConnectionRecord) -> io::Result<()> {
        // The first row waits until the secret patterns are compiled. Without this lock, the row of
        // a connection that ended later could overtake it.
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        self.audit.write(&self.build_row(record))
    }
}

fn to_audit_decision(decision: ConnectionDecision) -> AuditDecision {
    let ConnectionDecision { verdict, reason, rule, source, answer_source: answered, grants } =
        decision;
    let verdict = verdict.as_str().to_owned();
    AuditDecision { verdict, reason, rule, source, answered, grants, ..AuditDecision::default() }
}

fn call_status(status: ConnectionStatus) -> CallStatus {
    match status {
        ConnectionStatus::Ok => CallStatus::Ok,
        ConnectionStatus::Denied => CallStatus::Denied,
        ConnectionStatus::TimedOut => CallStatus::Timeout,
        ConnectionStatus::Cancelled => CallStatus::Cancelled,
        ConnectionStatus::Failed => CallStatus::Error,
    }
}
