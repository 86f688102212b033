//! The row that a connection leaves in the audit log.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use jiff::Timestamp;
use serde_json::json;
use zero_core::CallId;
use zero_policy::{ConnectDeniedError, ConnectPermission, Verdict};

use super::ProxyState;
use super::proxy_error::ProxyError;
use super::proxy_request::{ClientProtocol, ConnectTarget};
use super::relay::{RelayEnd, TrafficCounters};
use crate::audit::{AuditConnection, AuditDecision, AuditEffect, AuditRow};
use crate::metrics::CallStatus;
use crate::redaction;
use crate::tool_host::new_call_id;

/// What the tool of such a row is called. No tool has this name.
const CONNECTION: &str = "connection";

/// The record of one connection: collected on the way, written at its end.
pub(super) struct ConnectionRecord {
    began: Instant,
    row: AuditRow,
    connection: AuditConnection,
    pub(super) call: Option<CallId>,
}

impl ConnectionRecord {
    pub(super) fn new(shared: &ProxyState) -> Self {
        let call = shared.only_call();
        let row = AuditRow {
            session: shared.config.session.as_ref().map(ToString::to_string),
            ..AuditRow::new(Timestamp::now(), &new_call_id(), &shared.config.workspace, CONNECTION)
        };
        let of_call = call.as_ref().map(ToString::to_string);
        let connection = AuditConnection { of_call, ..AuditConnection::default() };
        Self { began: Instant::now(), row, connection, call }
    }

    pub(super) fn record_target(&mut self, wanted: &ConnectTarget) {
        let ConnectTarget { host, port } = wanted;
        // A name can be made to carry a secret out.
        let host = redaction::redact_and_shorten(&host.to_string());
        self.row.title = Some(format!("{host}:{port}"));
        self.row.input = json!({"host": host, "port": port});
    }

    pub(super) fn record_permit(&mut self, permit: ConnectPermission) {
        self.set_decision(AuditDecision {
            verdict: Verdict::Allow.as_str().to_owned(),
            reason: format!("`{}` allows it", permit.rule),
            rule: Some(permit.rule),
            source: Some(permit.source),
            ..AuditDecision::default()
        });
    }

    pub(super) fn record_address(&mut self, address: SocketAddr) {
        self.connection.address = Some(address.ip().to_string());
    }

    pub(super) fn record_failure(&mut self, failure: &ProxyError) {
        let refused = match failure {
            ProxyError::Refused(ConnectDeniedError::Rule { rule, place, verdict }) => {
                Some((Some(rule.clone()), Some(place.clone()), *verdict))
            }
            ProxyError::Refused(_) => Some((None, None, Verdict::Deny)),
            _ => None,
        };
        if let Some((rule, source, verdict)) = refused {
            self.set_decision(AuditDecision {
                verdict: verdict.as_str().to_owned(),
                reason: failure.to_string(),
                rule,
                source,
                ..AuditDecision::default()
            });
        }
        self.set_status(failure.status(), Some(failure.to_string()));
    }

    pub(super) fn record_end(&mut self, end: Option<RelayEnd>) {
        match end {
            Some(RelayEnd::Closed) => {}
            Some(RelayEnd::Broken(kind)) => {
                self.set_status(CallStatus::Ok, Some(format!("one end broke off: {kind}")));
            }
            Some(RelayEnd::Idle) => {
                self.set_status(
                    CallStatus::Timeout,
                    Some("nothing was said for too long".to_owned()),
                );
            }
            Some(RelayEnd::NotOneRequest) => {
                let what = "the body is malformed, or a second request followed";
                self.set_status(CallStatus::Error, Some(what.to_owned()));
            }
            Some(RelayEnd::ServerNameMismatch(said)) => {
                self.set_status(CallStatus::Denied, Some(said))
            }
            None => self.set_status(CallStatus::Cancelled, Some("the session ended".to_owned())),
        }
    }

    /// Writes the record.
    pub(super) async fn write(
        mut self,
        shared: &Arc<ProxyState>,
        protocol: ClientProtocol,
        traffic: &TrafficCounters,
    ) {
        self.row.duration_us = u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX);
        protocol.as_str().clone_into(&mut self.connection.protocol);
        self.connection.sent_bytes = traffic.sent();
        self.connection.received_bytes = traffic.received();
        self.row.connection = Some(self.connection);
        let shared = shared.clone();
        let write = move || shared.audit.write(&self.row);
        match tokio::task::spawn_blocking(write).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!(%error, "an audit row could not be written"),
            Err(error) => tracing::error!(%error, "an audit row was not written"),
        }
    }

    fn set_decision(&mut self, decision: AuditDecision) {
        self.row.effects = vec![AuditEffect {
            kind: "net".to_owned(),
            target: self.row.title.clone().unwrap_or_default(),
            decision: Some(decision.verdict.clone()),
            rule: decision.rule.clone(),
        }];
        self.row.decision = Some(decision);
    }

    fn set_status(&mut self, status: CallStatus, message: Option<String>) {
        status.as_str().clone_into(&mut self.row.status);
        self.row.message = message;
    }
}
