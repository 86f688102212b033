//! Keep-alive for all connections on one timer: `tick` events for clients, pings for the network.

use std::sync::{Arc, Weak};

use tokio::time::{Instant, MissedTickBehavior, interval_at};
use zero_runtime::clock::now_ms;
use zero_wire::{close, events};

use crate::gateway_inner::GatewayInner;

/// Sends ticks and pings until the gateway stops or is dropped.
pub(crate) async fn run_heartbeat(gateway: Weak<GatewayInner>) {
    let Some(there) = gateway.upgrade() else { return };
    let (tick, ping) = (there.limits.tick_interval, there.limits.ping_interval);
    let stopped = there.stopped.clone();
    drop(there);
    let every = |period| {
        let mut beats = interval_at(Instant::now() + period, period);
        beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        beats
    };
    let (mut ticks, mut pings) = (every(tick), every(ping));
    loop {
        let pinging = tokio::select! {
            () = stopped.cancelled() => return,
            _ = ticks.tick() => false,
            _ = pings.tick() => true,
        };
        let Some(gateway) = gateway.upgrade() else { return };
        if pinging { ping_connections(&gateway) } else { send_ticks(&gateway) }
    }
}

fn send_ticks(gateway: &GatewayInner) {
    let now = events::TickEvent { ts: now_ms() };
    let Ok(payload) = serde_json::to_string(&now) else { return };
    let payload: Arc<str> = payload.into();
    for outbox in gateway.send_queues() {
        outbox.send_raw_event(events::TICK, &payload);
    }
}

/// Closes connections that have not answered the previous ping, and pings the others.
fn ping_connections(gateway: &GatewayInner) {
    for outbox in gateway.send_queues() {
        if !outbox.ping() {
            outbox.abort(close::POLICY, "ping timeout");
        }
    }
}
