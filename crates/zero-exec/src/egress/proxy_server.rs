//! Accepts connections and handles each one: read, authorize, resolve, connect, relay, record.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;
use zero_policy::{ConnectDeniedError, ConnectPermission, HostName, UserApproval};

use super::ProxyState;
use super::client_connection::ClientConnection;
use super::connection_trace::ConnectionTrace;
use super::proxy_error::ProxyError;
use super::proxy_request::{self, ConnectTarget, ForwardMode, ProxyRequest};
use super::refusals::{FailedHost, RefusedHost};
use super::relay::{RelayEnd, TrafficCounters, UpstreamTransfer, relay};
use super::{HELPER_THREADS_MAX, address_pinning};

/// Pause after `accept` failed, for example because no file descriptor is free.
const ACCEPT_RETRY_PAUSE: Duration = Duration::from_millis(100);
/// How long input of a refused client is drained so that it can read the reply.
const REFUSED_CLIENT_LINGER: Duration = Duration::from_secs(10);

/// Serves until the proxy ends, then waits up to `shutdown_max` until all connections are recorded.
pub(super) async fn serve(shared: &Arc<ProxyState>, listener: TcpListener, shutdown_max: Duration) {
    let slots = Arc::new(Semaphore::new(shared.config.limits.connections_max));
    // Half of the threads stay free for audit rows.
    let lookups = Arc::new(Semaphore::new(HELPER_THREADS_MAX / 2));
    let mut connections = JoinSet::new();
    let take_all = async {
        // Without a free slot, further connections wait in the accept queue.
        while let Ok(slot) = slots.clone().acquire_owned().await {
            match listener.accept().await {
                Ok((stream, _)) => {
                    // Failure only makes small messages slower.
                    let _ = stream.set_nodelay(true);
                    let (shared, lookups) = (shared.clone(), lookups.clone());
                    connections.spawn(async move {
                        handle_connection(&shared, &lookups, stream).await;
                        drop(slot);
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection to the proxy");
                    tokio::time::sleep(ACCEPT_RETRY_PAUSE).await;
                }
            }
            while connections.try_join_next().is_some() {}
        }
    };
    tokio::select! {
        () = take_all => {}
        () = shared.ended_token.cancelled() => {}
    }
    drop(listener);
    let all_ended = async { while connections.join_next().await.is_some() {} };
    if timeout(shutdown_max, all_ended).await.is_err() {
        tracing::warn!("not all proxy connections were recorded in time");
    }
}

/// Handles one connection, from its first byte to its audit row.
async fn handle_connection(shared: &Arc<ProxyState>, lookups: &Arc<Semaphore>, stream: TcpStream) {
    let mut client = ClientConnection::new(stream);
    let mut trace = ConnectionTrace::new(shared);
    let traffic = TrafficCounters::new();
    let mut target = None;
    let established = {
        let establish = establish(shared, lookups, &mut client, &mut trace, &mut target);
        tokio::select! {
            established = establish => established,
            () = shared.ended_token.cancelled() => Err(ProxyError::ProxyEnded),
        }
    };
    let protocol = client.protocol;
    match established {
        Ok((onward, host)) => {
            let greets = target.as_ref().map(|target| target.host.clone());
            let relay = relay_traffic(shared, client, (onward, greets), host, &traffic);
            let end = tokio::select! {
                end = relay => Some(end),
                () = shared.ended_token.cancelled() => None,
            };
            match end {
                Some(RelayEnd::ServerNameMismatch(reason)) => {
                    let refusal = ConnectDeniedError::OtherName { named_host_clause: reason };
                    record_refusal(shared, target.as_ref(), &refusal, &trace);
                    trace.record_failure(&ProxyError::Refused(refusal));
                }
                end => trace.record_end(end),
            }
        }
        // A connection without any traffic is not recorded.
        Err(ProxyError::ClientGone) if client.unread().is_empty() && target.is_none() => return,
        Err(failure) => {
            if let ProxyError::Refused(refusal) = &failure {
                record_refusal(shared, target.as_ref(), refusal, &trace);
            }
            if let (Some(failure), Some(target)) = (failure.host_failure(), &target) {
                let ConnectTarget { host, port } = target.clone();
                let call = trace.call().cloned();
                shared.refusals.add_failure(FailedHost { host, port, failure, call });
            }
            trace.record_failure(&failure);
            let reply = failure.to_reply(protocol, target.as_ref());
            let closing = client.close_with(&reply, shared.config.limits.head_bytes_max);
            tokio::select! {
                _ = timeout(REFUSED_CLIENT_LINGER, closing) => {}
                () = shared.ended_token.cancelled() => {}
            }
        }
    }
    trace.write(shared, protocol, &traffic).await;
}

/// Stores a refused connection for the result of its call.
fn record_refusal(
    shared: &ProxyState,
    target: Option<&ConnectTarget>,
    refusal: &ConnectDeniedError,
    trace: &ConnectionTrace,
) {
    let Some(ConnectTarget { host, port }) = target else { return };
    let (host, port, refusal) = (host.clone(), *port, refusal.clone());
    shared.refusals.add(RefusedHost { host, port, refusal, call: trace.call().cloned() });
}

/// Reads the request, has it authorized, and connects.
async fn establish(
    shared: &Arc<ProxyState>,
    lookups: &Arc<Semaphore>,
    client: &mut ClientConnection<TcpStream>,
    trace: &mut ConnectionTrace,
    request_target: &mut Option<ConnectTarget>,
) -> Result<(ForwardMode, TcpStream), ProxyError> {
    let config = &shared.config;
    let limits = config.limits;
    let read = timeout(limits.head_time, proxy_request::read(client, limits.head_bytes_max));
    let ProxyRequest { target, onward } = read.await.unwrap_or(Err(ProxyError::HeadTimeout))?;
    trace.record_target(&target);
    let target = request_target.insert(target);
    let permit = authorize(shared, client, trace, target).await?;
    trace.record_permit(permit);
    // Nothing is connected or looked up that could not be recorded.
    let log = Arc::clone(&config.log);
    let ready = tokio::task::spawn_blocking(move || log.ensure_writable()).await;
    if !matches!(ready, Ok(Ok(()))) {
        return Err(ProxyError::LogUnavailable);
    }
    let addresses = address_pinning::pin(config, lookups, target).await?;
    let (host, address) = address_pinning::connect(&addresses, limits.connect_time).await?;
    trace.record_address(address);
    Ok((onward, host))
}

/// Has a connection authorized, if necessary by the user while it waits.
async fn authorize(
    shared: &ProxyState,
    client: &ClientConnection<TcpStream>,
    trace: &mut ConnectionTrace,
    target: &ConnectTarget,
) -> Result<ConnectPermission, ProxyError> {
    let refusal = match shared.judge(target, shared.approval(target)) {
        Ok(permit) => return Ok(permit),
        Err(refusal) => refusal,
    };
    if refusal.can_be_approved()
        && let Some(refusal) = shared.known_refusal(target)
    {
        return Err(ProxyError::Refused(refusal));
    }
    let Some((connections, question)) = shared.question(target, &refusal) else {
        return Err(ProxyError::Refused(refusal));
    };
    let answer = tokio::select! {
        // The question first: a client that gives up at once may try again.
        biased;
        answer = connections.wait_for_answer(question) => answer,
        () = client.wait_until_closed() => return Err(ProxyError::ClientGone),
    };
    trace.record_answer(&answer);
    answer.decision.map_err(ProxyError::Refused)?;
    // The rules still hold.
    shared.judge(target, UserApproval::Given).map_err(ProxyError::Refused)
}

/// Relays bytes between the client and the host.
async fn relay_traffic(
    shared: &ProxyState,
    mut client: ClientConnection<TcpStream>,
    (onward, greets): (ForwardMode, Option<HostName>),
    mut host: TcpStream,
    traffic: &TrafficCounters,
) -> RelayEnd {
    let idle = shared.config.limits.idle_time;
    let granted = client.protocol.success_reply();
    if client.send(granted).await.is_err() {
        return RelayEnd::Broken(std::io::ErrorKind::BrokenPipe);
    }
    let (greets, body) = match onward {
        ForwardMode::Tunnel => (greets, None),
        ForwardMode::Message { head, body } => {
            match timeout(idle, host.write_all(&head)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => return RelayEnd::Broken(error.kind()),
                Err(_) => return RelayEnd::Idle,
            }
            traffic.record_sent_head(head.len());
            (None, Some(body))
        }
    };
    let (stream, early) = client.into_parts();
    relay(stream, host, UpstreamTransfer { early, body, greets }, traffic, idle).await
}
