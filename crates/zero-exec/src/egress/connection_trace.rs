//! Collects the data for a connection's record while the connection is open.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use zero_core::CallId;
use zero_policy::{ConnectDeniedError, ConnectPermission, Verdict};

use super::ProxyState;
use super::connection_log::{ConnectionDecision, ConnectionRecord, ConnectionStatus};
use super::held_connections::ConnectionAnswer;
use super::proxy_error::ProxyError;
use super::proxy_request::{ClientProtocol, ConnectTarget};
use super::relay::{RelayEnd, TrafficCounters};

/// The record of one connection: filled while it is open, written when it ends.
pub(super) struct ConnectionTrace {
    started_at: Instant,
    record: ConnectionRecord,
    /// The answer about the connection, and the grants that it created.
    answer: Option<(String, Vec<String>)>,
}

impl ConnectionTrace {
    pub(super) fn new(shared: &ProxyState) -> Self {
        let record = ConnectionRecord {
            time: Timestamp::now(),
            duration: Duration::ZERO,
            call: shared.only_call(),
            target: None,
            protocol: ClientProtocol::Unknown.as_str(),
            address: None,
            decision: None,
            status: ConnectionStatus::Ok,
            message: None,
            sent_bytes: 0,
            received_bytes: 0,
        };
        Self { started_at: Instant::now(), record, answer: None }
    }

    /// The call that opened the connection, if known.
    pub(super) fn call(&self) -> Option<&CallId> {
        self.record.call.as_ref()
    }

    pub(super) fn record_target(&mut self, target: &ConnectTarget) {
        self.record.target = Some(target.clone());
    }

    /// Records the answer about a connection that waited for it, for the decision that follows.
    pub(super) fn record_answer(&mut self, answer: &ConnectionAnswer) {
        let grants = answer.grants.clone();
        self.answer = answer.answer_source.clone().map(|answered| (answered, grants));
    }

    pub(super) fn record_permit(&mut self, permit: ConnectPermission) {
        let reason = match &self.answer {
            Some(_) => "approved while the command ran".to_owned(),
            None => format!("`{}` allows it", permit.rule),
        };
        self.record_decision(Verdict::Allow, reason, Some(permit.rule), Some(permit.source));
    }

    fn record_decision(
        &mut self,
        verdict: Verdict,
        reason: String,
        rule: Option<String>,
        source: Option<String>,
    ) {
        let (answered, grants) = self.answer.clone().unzip();
        let grants = grants.unwrap_or_default();
        self.record.decision = Some(ConnectionDecision {
            verdict,
            reason,
            rule,
            source,
            answer_source: answered,
            grants,
        });
    }

    pub(super) fn record_address(&mut self, address: SocketAddr) {
        self.record.address = Some(address.ip());
    }

    pub(super) fn record_failure(&mut self, failure: &ProxyError) {
        let refused = match failure {
            ProxyError::Refused(ConnectDeniedError::Rule { rule, place, verdict, .. }) => {
                Some((Some(rule.clone()), Some(place.clone()), *verdict))
            }
            ProxyError::Refused(_) => Some((None, None, Verdict::Deny)),
            _ => None,
        };
        if let Some((rule, source, verdict)) = refused {
            let reason = failure.to_string();
            self.record_decision(verdict, reason, rule, source);
        }
        self.set_status(failure.status(), Some(failure.to_string()));
    }

    pub(super) fn record_end(&mut self, end: Option<RelayEnd>) {
        match end {
            Some(RelayEnd::Closed) => {}
            Some(RelayEnd::Broken(kind)) => {
                self.set_status(
                    ConnectionStatus::Ok,
                    Some(format!("the connection broke: {kind}")),
                );
            }
            Some(RelayEnd::Idle) => {
                self.set_status(ConnectionStatus::TimedOut, Some("idle for too long".to_owned()));
            }
            Some(RelayEnd::NotOneRequest) => {
                let what = "the body is malformed, or a second request followed";
                self.set_status(ConnectionStatus::Failed, Some(what.to_owned()));
            }
            Some(RelayEnd::ServerNameMismatch(reason)) => {
                self.set_status(ConnectionStatus::Denied, Some(reason))
            }
            None => {
                self.set_status(ConnectionStatus::Cancelled, Some("the session ended".to_owned()))
            }
        }
    }

    /// Writes the record.
    pub(super) async fn write(
        self,
        shared: &Arc<ProxyState>,
        protocol: ClientProtocol,
        traffic: &TrafficCounters,
    ) {
        let record = ConnectionRecord {
            duration: self.started_at.elapsed(),
            protocol: protocol.as_str(),
            sent_bytes: traffic.sent(),
            received_bytes: traffic.received(),
            ..self.record
        };
        let log = Arc::clone(&shared.config.log);
        match tokio::task::spawn_blocking(move || log.write(record)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!(%error, "cannot write an audit row"),
            Err(error) => tracing::error!(%error, "cannot write an audit row"),
        }
    }

    fn set_status(&mut self, status: ConnectionStatus, message: Option<String>) {
        self.record.status = status;
        self.record.message = message;
    }
}
