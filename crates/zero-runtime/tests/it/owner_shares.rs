//! Owners on one host: what one does leaves room for the others.

use std::sync::Arc;

use serde_json::json;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use zero_core::{ErrorReason, HostLimits, SessionId, ToolError};
use zero_runtime::{ToolHostSession, ToolHostSessionConfig, erase};

use crate::fixture::{HostFixture, PuppetTool};

struct OwnersFixture {
    host: Arc<HostFixture>,
    stop: CancellationToken,
}

impl OwnersFixture {
    fn new(limits: HostLimits) -> Self {
        let tools = vec![erase(PuppetTool::<'p'>::new())];
        let host = Arc::new(HostFixture::with_limits(limits, None, tools));
        Self { host, stop: CancellationToken::new() }
    }

    fn open(&self, owner: &str, number: usize) -> Arc<ToolHostSession> {
        let id = SessionId::new(format!("{owner}{number}")).unwrap();
        let config = ToolHostSessionConfig {
            owner: Some(owner.to_owned()),
            ..ToolHostSessionConfig::default()
        };
        Arc::new(self.host.host.open_session_with(id, config).unwrap())
    }

    async fn call(&self, session: &ToolHostSession, act: &str) -> Result<(), ToolError> {
        let call = HostFixture::tool_call("Puppet", json!({"act": act}));
        let HostFixture { host, dialect, .. } = &*self.host;
        host.call(session, dialect, call, &self.stop).await.outcome.map(drop)
    }

    /// Starts calls of an owner that do not end, in sessions of eight, until no more begin.
    async fn fill(self: &Arc<Self>, owner: &str, calls: usize, running: usize) -> JoinSet<()> {
        let before = self.host.host.queue_depth();
        let mut blocked = JoinSet::new();
        for number in 0..calls.div_ceil(8) {
            let session = self.open(owner, number);
            for _ in 0..8 {
                let (fixture, session) = (Arc::clone(self), Arc::clone(&session));
                blocked.spawn(async move {
                    fixture.call(&session, "hang").await.unwrap_err();
                });
            }
        }
        let waiting = || self.host.host.queue_depth() - before;
        while self.host.host.in_flight() < running || waiting() + running < calls {
            tokio::task::yield_now().await;
        }
        blocked
    }
}

#[tokio::test]
async fn blocked_calls_of_one_owner_do_not_delay_another() {
    let fixture = Arc::new(OwnersFixture::new(HostLimits::default()));
    // Three quarters of 32 and the owner's own slot.
    let first = fixture.fill("a", 40, 25).await;
    assert_eq!(fixture.host.host.in_flight(), 25);
    fixture.call(&fixture.open("b", 0), "work").await.unwrap();
    // Also if all slots are taken, by several owners.
    let second = fixture.fill("c", 40, 25 + 9).await;
    assert_eq!(fixture.host.host.in_flight(), 34);
    fixture.call(&fixture.open("b", 1), "work").await.unwrap();
    assert_eq!(fixture.host.host.in_flight(), 34, "the others are still blocked");
    fixture.stop.cancel();
    first.join_all().await;
    second.join_all().await;
    assert_eq!((fixture.host.host.in_flight(), fixture.host.host.queue_depth()), (0, 0));
}

#[tokio::test]
async fn queue_is_shared_between_owners() {
    let limits = HostLimits { queue_calls_max: 4, host_calls_max: 1, ..HostLimits::default() };
    let fixture = Arc::new(OwnersFixture::new(limits));
    // One slot of the host, the owner's own, and three places in the queue.
    let session = fixture.open("a", 0);
    let mut blocked = JoinSet::new();
    for waiting in 0..5_usize {
        let (fixture, session) = (Arc::clone(&fixture), Arc::clone(&session));
        let host = Arc::clone(&fixture.host);
        blocked.spawn(async move {
            fixture.call(&session, "hang").await.unwrap_err();
        });
        while host.host.in_flight() + host.host.queue_depth() <= waiting {
            tokio::task::yield_now().await;
        }
    }
    let refused = fixture.call(&session, "work").await.unwrap_err();
    assert_eq!(refused.reason(), Some(ErrorReason::QueueFull));
    fixture.call(&fixture.open("b", 0), "work").await.unwrap();
    // Another owner takes the last place. A call that need not wait runs all the same.
    let other = fixture.open("c", 0);
    for count in 6..=7_usize {
        let (fixture, session) = (Arc::clone(&fixture), Arc::clone(&other));
        let host = Arc::clone(&fixture.host);
        blocked.spawn(async move {
            fixture.call(&session, "hang").await.unwrap_err();
        });
        while host.host.in_flight() + host.host.queue_depth() < count {
            tokio::task::yield_now().await;
        }
    }
    assert_eq!(fixture.host.host.queue_depth(), 4);
    fixture.call(&fixture.open("b", 1), "work").await.unwrap();
    fixture.stop.cancel();
    blocked.join_all().await;
}

#[tokio::test]
async fn failing_tool_is_paused_for_its_owner_only() {
    let limits = HostLimits { breaker_failures_max: 2, attempts_max: 1, ..HostLimits::default() };
    let fixture = OwnersFixture::new(limits);
    let session = fixture.open("a", 0);
    for _ in 0..2 {
        let failed = fixture.call(&session, "fail").await.unwrap_err();
        assert_eq!(failed.reason(), Some(ErrorReason::Io));
    }
    for session in [session, fixture.open("a", 1)] {
        let paused = fixture.call(&session, "work").await.unwrap_err();
        assert_eq!(paused.reason(), Some(ErrorReason::CircuitOpen));
    }
    fixture.call(&fixture.open("b", 0), "work").await.unwrap();
}
