//! Takes connections and sees each through: read, judge, pin, connect, pass on, write down.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;
use zero_policy::{HostName, Refusal};

use super::Shared;
use super::client::Client;
use super::failure::Failure;
use super::refusals::RefusedHost;
use super::relay::{End, Outgoing, Traffic, relay};
use super::request::{self, Onward, Request, Wanted};
use super::trace::Trace;
use super::{HELPER_THREADS_MAX, pin};

/// How long nothing is taken after taking failed, as for want of file descriptors.
const TAKE_AGAIN: Duration = Duration::from_millis(100);
/// How long a client that was turned away is listened to, so that it hears why.
const LISTEN_ON: Duration = Duration::from_secs(10);

/// Serves until the proxy ends, and then waits so long for connections to be written down.
pub(super) async fn serve(shared: &Arc<Shared>, listener: TcpListener, farewell: Duration) {
    let places = Arc::new(Semaphore::new(shared.config.limits.connections_max));
    // Half of the threads stay free for audit rows.
    let lookups = Arc::new(Semaphore::new(HELPER_THREADS_MAX / 2));
    let mut connections = JoinSet::new();
    let take_all = async {
        // Whoever finds no place waits to be taken.
        while let Ok(place) = places.clone().acquire_owned().await {
            match listener.accept().await {
                Ok((stream, _)) => {
                    // It only makes small messages slower where it fails.
                    let _ = stream.set_nodelay(true);
                    let (shared, lookups) = (shared.clone(), lookups.clone());
                    connections.spawn(async move {
                        connection(&shared, &lookups, stream).await;
                        drop(place);
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection to the proxy could not be taken");
                    tokio::time::sleep(TAKE_AGAIN).await;
                }
            }
            while connections.try_join_next().is_some() {}
        }
    };
    tokio::select! {
        () = take_all => {}
        () = shared.ended.cancelled() => {}
    }
    drop(listener);
    let all_ended = async { while connections.join_next().await.is_some() {} };
    if timeout(farewell, all_ended).await.is_err() {
        tracing::warn!("connections of the proxy were not written down in time");
    }
}

/// One connection, from its first byte to its row.
async fn connection(shared: &Arc<Shared>, lookups: &Arc<Semaphore>, stream: TcpStream) {
    let mut client = Client::new(stream);
    let mut trace = Trace::begin(shared);
    let traffic = Traffic::new();
    let mut wanted = None;
    let established = {
        let establish = establish(shared, lookups, &mut client, &mut trace, &mut wanted);
        tokio::select! {
            established = establish => established,
            () = shared.ended.cancelled() => Err(Failure::Ended),
        }
    };
    let protocol = client.protocol;
    match established {
        Ok((onward, host)) => {
            let greets = wanted.as_ref().map(|wanted| wanted.host.clone());
            let talk = talk(shared, client, (onward, greets), host, &traffic);
            let end = tokio::select! {
                end = talk => Some(end),
                () = shared.ended.cancelled() => None,
            };
            match end {
                Some(End::OtherName(said)) => {
                    let refusal = Refusal::OtherName { said };
                    refused(shared, wanted.as_ref(), &refusal, &trace);
                    trace.failed(&Failure::Refused(refusal));
                }
                end => trace.ended(end),
            }
        }
        // A connection on which nothing was ever said leaves nothing to write down.
        Err(Failure::Gone) if client.unread().is_empty() && wanted.is_none() => return,
        Err(failure) => {
            if let Failure::Refused(refusal) = &failure {
                refused(shared, wanted.as_ref(), refusal, &trace);
            }
            trace.failed(&failure);
            let reply = failure.reply(protocol, wanted.as_ref());
            let farewell = client.farewell(&reply, shared.config.limits.head_bytes_max);
            tokio::select! {
                _ = timeout(LISTEN_ON, farewell) => {}
                () = shared.ended.cancelled() => {}
            }
        }
    }
    trace.end(shared, protocol, &traffic).await;
}

/// Remembers that a connection was refused, for the result of its call.
fn refused(shared: &Shared, wanted: Option<&Wanted>, refusal: &Refusal, trace: &Trace) {
    let Some(Wanted { host, port }) = wanted else { return };
    let (host, port, refusal) = (host.clone(), *port, refusal.clone());
    shared.refusals.add(RefusedHost { host, port, refusal, call: trace.call.clone() });
}

/// Reads what the client wants, has it judged, and connects.
async fn establish(
    shared: &Arc<Shared>,
    lookups: &Arc<Semaphore>,
    client: &mut Client<TcpStream>,
    trace: &mut Trace,
    asked: &mut Option<Wanted>,
) -> Result<(Onward, TcpStream), Failure> {
    let config = &shared.config;
    let limits = config.limits;
    let read = timeout(limits.head_time, request::read(client, limits.head_bytes_max));
    let Request { wanted, onward } = read.await.unwrap_or(Err(Failure::HeadTime))?;
    trace.wanted(&wanted);
    let wanted = asked.insert(wanted);
    let permit = config.gatekeeper.may_reach(&wanted.host, wanted.port, &shared.judged());
    let permit = permit.map_err(Failure::Refused)?;
    trace.permitted(permit);
    // No connection is made, nor a name looked up, that would leave no trace.
    let audit = shared.clone();
    let ready = tokio::task::spawn_blocking(move || audit.audit.ready(Timestamp::now())).await;
    if !matches!(ready, Ok(Ok(()))) {
        return Err(Failure::NoTrace);
    }
    let addresses = pin::pin(config, lookups, wanted).await?;
    let (host, address) = pin::connect(&addresses, limits.connect_time).await?;
    trace.connected(address);
    Ok((onward, host))
}

/// Passes on what both say.
async fn talk(
    shared: &Shared,
    mut client: Client<TcpStream>,
    (onward, greets): (Onward, Option<HostName>),
    mut host: TcpStream,
    traffic: &Traffic,
) -> End {
    let idle = shared.config.limits.idle_time;
    let granted = client.protocol.granted();
    if client.say(granted).await.is_err() {
        return End::Broken(std::io::ErrorKind::BrokenPipe);
    }
    let (greets, body) = match onward {
        Onward::Tunnel => (greets, None),
        Onward::Message { head, body } => {
            match timeout(idle, host.write_all(&head)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => return End::Broken(error.kind()),
                Err(_) => return End::Idle,
            }
            traffic.sent_head(head.len());
            (None, Some(body))
        }
    };
    let (stream, early) = client.into_parts();
    relay(stream, host, Outgoing { early, body, greets }, traffic, idle).await
}
