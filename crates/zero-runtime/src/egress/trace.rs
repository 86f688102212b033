//! The row that a connection leaves in the audit log.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use jiff::Timestamp;
use serde_json::json;
use zero_core::CallId;
use zero_policy::{Permit, Refusal, Verdict};

use super::Shared;
use super::failure::Failure;
use super::relay::{End, Traffic};
use super::request::{Protocol, Wanted};
use crate::audit::{AuditConnection, AuditDecision, AuditEffect, AuditRow};
use crate::host::new_call_id;
use crate::metrics::Status;
use crate::redact;

/// What the tool of such a row is called. No tool has this name.
const CONNECTION: &str = "connection";

/// The record of one connection: collected on the way, written at its end.
pub(super) struct Trace {
    began: Instant,
    row: AuditRow,
    connection: AuditConnection,
    pub(super) call: Option<CallId>,
}

impl Trace {
    pub(super) fn begin(shared: &Shared) -> Self {
        let call = shared.only_call();
        let row = AuditRow {
            session: shared.config.session.as_ref().map(ToString::to_string),
            ..AuditRow::begin(
                Timestamp::now(),
                &new_call_id(),
                &shared.config.workspace,
                CONNECTION,
            )
        };
        let of_call = call.as_ref().map(ToString::to_string);
        let connection = AuditConnection { of_call, ..AuditConnection::default() };
        Self { began: Instant::now(), row, connection, call }
    }

    pub(super) fn wanted(&mut self, wanted: &Wanted) {
        let Wanted { host, port } = wanted;
        // A name can be made to carry a secret out.
        let host = redact::short_text(&host.to_string());
        self.row.title = Some(format!("{host}:{port}"));
        self.row.input = json!({"host": host, "port": port});
    }

    pub(super) fn permitted(&mut self, permit: Permit) {
        self.decided(AuditDecision {
            verdict: Verdict::Allow.word().to_owned(),
            reason: format!("`{}` allows it", permit.rule),
            rule: Some(permit.rule),
            source: Some(permit.source),
            ..AuditDecision::default()
        });
    }

    pub(super) fn connected(&mut self, address: SocketAddr) {
        self.connection.address = Some(address.ip().to_string());
    }

    pub(super) fn failed(&mut self, failure: &Failure) {
        let refused = match failure {
            Failure::Refused(Refusal::Rule { rule, place, verdict }) => {
                Some((Some(rule.clone()), Some(place.clone()), *verdict))
            }
            Failure::Refused(_) => Some((None, None, Verdict::Deny)),
            _ => None,
        };
        if let Some((rule, source, verdict)) = refused {
            self.decided(AuditDecision {
                verdict: verdict.word().to_owned(),
                reason: failure.to_string(),
                rule,
                source,
                ..AuditDecision::default()
            });
        }
        self.status(failure.status(), Some(failure.to_string()));
    }

    pub(super) fn ended(&mut self, end: Option<End>) {
        match end {
            Some(End::Closed) => {}
            Some(End::Broken(kind)) => {
                self.status(Status::Ok, Some(format!("one end broke off: {kind}")));
            }
            Some(End::Idle) => {
                self.status(Status::Timeout, Some("nothing was said for too long".to_owned()));
            }
            Some(End::NotOneRequest) => {
                let what = "the body is malformed, or a second request followed";
                self.status(Status::Error, Some(what.to_owned()));
            }
            Some(End::OtherName(said)) => self.status(Status::Denied, Some(said)),
            None => self.status(Status::Cancelled, Some("the session ended".to_owned())),
        }
    }

    /// Writes the record.
    pub(super) async fn end(mut self, shared: &Arc<Shared>, protocol: Protocol, traffic: &Traffic) {
        self.row.duration_us = u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX);
        protocol.word().clone_into(&mut self.connection.protocol);
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

    fn decided(&mut self, decision: AuditDecision) {
        self.row.effects = vec![AuditEffect {
            kind: "net".to_owned(),
            target: self.row.title.clone().unwrap_or_default(),
            decision: Some(decision.verdict.clone()),
            rule: decision.rule.clone(),
        }];
        self.row.decision = Some(decision);
    }

    fn status(&mut self, status: Status, message: Option<String>) {
        status.word().clone_into(&mut self.row.status);
        self.row.message = message;
    }
}
