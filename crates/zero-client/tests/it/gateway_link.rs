//! Tests for a connection that is lost and restored, and for unreachable gateways.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio::time::timeout;
use zero_client::{GatewayLink, GatewayLinkError, GatewayUpdate};
use zero_core::event::{EventKind, RunOutcome};
use zero_session::PermissionMode;

use crate::tcp_proxy::TcpProxy;
use crate::test_gateway::{
    PATIENCE, RecordingToolBackend, TcpDialer, TestGateway, check_numbers, collect_until, is_end,
    is_text, joined_text, next_update, open_request, open_session, run_end, send_request,
};

const ANY_ADDRESS: &str = "127.0.0.1:0";

async fn link_through_proxy(fixture: &TestGateway) -> (TcpProxy, Arc<TcpDialer>, GatewayLink) {
    let proxy = TcpProxy::start(fixture.listen(ANY_ADDRESS.parse().unwrap()).await).await;
    let dial = TcpDialer::new(proxy.address);
    let link = GatewayLink::new(dial.clone());
    (proxy, dial, link)
}

#[tokio::test]
async fn disconnect_mid_run_only_delays_updates() {
    let fixture = TestGateway::start(&["One @wait two @wait three look:a", "four"]).await;
    let (proxy, _, link) = link_through_proxy(&fixture).await;
    let (handle, mut heard) = open_session(&link, "acp:1").await;
    let backend = Arc::new(RecordingToolBackend::default());
    handle.host_tools("a test", backend.clone(), PermissionMode::Ask).await.unwrap();
    handle.send(send_request("run-1", "count")).await.unwrap();
    let (mut entries, _) = collect_until(&mut heard, is_text).await;
    proxy.stop().await;
    assert_eq!(next_update(&mut heard).await, GatewayUpdate::Disconnected);
    // The run continues while nobody is connected.
    fixture.release_model(1);
    proxy.restart().await;
    let (missed, others) =
        collect_until(&mut heard, |news| *news == GatewayUpdate::Reconnected).await;
    assert_eq!(others, [GatewayUpdate::Reconnected]);
    entries.extend(missed);
    fixture.release_model(1);
    let (rest, others) = collect_until(&mut heard, is_end).await;
    assert!(others.is_empty(), "{others:?}");
    entries.extend(rest);
    check_numbers(&entries);
    assert_eq!(
        (joined_text(&entries).as_str(), run_end(&entries)),
        ("One two three four ", RunOutcome::Completed)
    );
    assert_eq!(backend.calls.lock().unwrap().len(), 1, "the tools were attached again");
}

#[tokio::test]
async fn repeated_disconnects_lose_nothing() {
    let words = (0..40).map(|n| format!("{n} @wait")).collect::<Vec<_>>().join(" ");
    let fixture = TestGateway::start(&[&words]).await;
    let (proxy, _, link) = link_through_proxy(&fixture).await;
    let (handle, mut heard) = open_session(&link, "acp:1").await;
    handle.send(send_request("run-1", "count")).await.unwrap();
    let mut entries = Vec::new();
    for round in 0..40 {
        let (more, _) = collect_until(&mut heard, is_text).await;
        entries.extend(more);
        fixture.release_model(1);
        if round % 8 == 3 {
            proxy.drop_connections();
        }
    }
    let (more, _) = collect_until(&mut heard, is_end).await;
    entries.extend(more);
    check_numbers(&entries);
    let expected: String = (0..40).map(|n| format!("{n} ")).collect();
    assert_eq!(joined_text(&entries), expected);
}

#[tokio::test]
async fn request_in_flight_is_retried_after_reconnect() {
    let fixture = TestGateway::start(&["Hello"]).await;
    let (proxy, _, link) = link_through_proxy(&fixture).await;
    let (handle, mut heard) = open_session(&link, "acp:1").await;
    // The loss is not detected yet.
    proxy.drop_connections();
    timeout(PATIENCE, handle.send(send_request("run-1", "hi"))).await.unwrap().unwrap();
    let (entries, _) = collect_until(&mut heard, is_end).await;
    assert_eq!(joined_text(&entries), "Hello ");
    let prompts = entries.iter().filter(|event| matches!(event.kind, EventKind::Prompt { .. }));
    assert_eq!(prompts.count(), 1);
}

#[tokio::test]
async fn absent_gateway_fails_at_once_and_is_found_later() {
    let fixture = TestGateway::start(&["Hello"]).await;
    let (proxy, dial, link) = link_through_proxy(&fixture).await;
    proxy.stop().await;
    let began = Instant::now();
    // Concurrent requests share one dial.
    let asked = (0..20).map(|_| link.open(open_request("acp:1")));
    for refused in futures_util::future::join_all(asked).await {
        let error = refused.err().unwrap();
        assert!(matches!(error, GatewayLinkError::Unreachable { is_passing: true, .. }), "{error}");
        assert!(error.to_string().contains("start it with `zero gateway`"), "{error}");
    }
    assert!(began.elapsed() < PATIENCE);
    assert_eq!(dial.dials.load(Ordering::Relaxed), 1);
    proxy.restart().await;
    let opened = async {
        loop {
            match link.open(open_request("acp:1")).await {
                Ok(opened) => return opened,
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    };
    let (handle, mut heard) = timeout(PATIENCE, opened).await.unwrap();
    assert_eq!(dial.dials.load(Ordering::Relaxed), 2, "it waits between dials");
    handle.send(send_request("run-1", "hi")).await.unwrap();
    assert_eq!(joined_text(&collect_until(&mut heard, is_end).await.0), "Hello ");
}

#[tokio::test]
async fn request_while_disconnected_fails_with_reason() {
    let fixture = TestGateway::start(&[]).await;
    let (proxy, _, link) = link_through_proxy(&fixture).await;
    let (handle, mut heard) = open_session(&link, "acp:1").await;
    proxy.stop().await;
    assert_eq!(next_update(&mut heard).await, GatewayUpdate::Disconnected);
    let error = timeout(PATIENCE, handle.choices()).await.unwrap().unwrap_err();
    assert!(matches!(error, GatewayLinkError::Unreachable { is_passing: true, .. }), "{error}");
    proxy.restart().await;
    assert_eq!(next_update(&mut heard).await, GatewayUpdate::Reconnected);
    handle.choices().await.unwrap();
    assert_eq!(proxy.connection_count(), 1, "one connection for all");
}

#[tokio::test]
async fn wrong_token_is_reported_without_long_retry() {
    let fixture = TestGateway::start(&[]).await;
    let address = fixture.listen(ANY_ADDRESS.parse().unwrap()).await;
    let token = "a-wrong-token-0123456789";
    let dial = Arc::new(TcpDialer { address, token, dials: 0.into() });
    let error = GatewayLink::new(dial).open(open_request("acp:1")).await.err().unwrap();
    assert!(error.to_string().contains("token"), "{error}");
    assert!(!error.to_string().contains("a-wrong"), "{error}");
    assert!(!error.is_transient());
}

#[tokio::test]
async fn restarted_gateway_reports_run_outcome() {
    let fixture = TestGateway::start(&["Working @wait"]).await;
    let address = fixture.listen(ANY_ADDRESS.parse().unwrap()).await;
    let link = GatewayLink::new(TcpDialer::new(address));
    let (handle, mut heard) = open_session(&link, "acp:1").await;
    handle.send(send_request("run-1", "work")).await.unwrap();
    let (mut entries, _) = collect_until(&mut heard, is_text).await;
    fixture.gateway.shut_down(Duration::ZERO).await;
    let folder = Arc::clone(&fixture.folder);
    drop(fixture);
    let fixture = TestGateway::with_folder(folder, &["Again"]).await;
    fixture.listen(address).await;
    let (more, _) = collect_until(&mut heard, |news| *news == GatewayUpdate::Reconnected).await;
    entries.extend(more);
    check_numbers(&entries);
    assert_eq!(run_end(&entries), RunOutcome::Aborted { by: "shutdown".to_owned() });
    handle.send(send_request("run-2", "again")).await.unwrap();
    assert_eq!(joined_text(&collect_until(&mut heard, is_end).await.0), "Again ");
}

#[tokio::test]
async fn gateway_that_stays_away_is_lost_and_can_return() {
    let fixture = TestGateway::start(&["Hello"]).await;
    let (proxy, dial, _) = link_through_proxy(&fixture).await;
    let link = GatewayLink::with_reconnect_max(dial, Duration::from_secs(1));
    let (handle, mut heard) = open_session(&link, "acp:1").await;
    proxy.stop().await;
    assert_eq!(next_update(&mut heard).await, GatewayUpdate::Disconnected);
    let GatewayUpdate::Lost(error) = next_update(&mut heard).await else { panic!("not gone") };
    assert!(error.is_transient(), "{error}");
    proxy.restart().await;
    let sent = async {
        while handle.send(send_request("run-1", "hi")).await.is_err() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(PATIENCE, sent).await.unwrap();
    let (entries, others) = collect_until(&mut heard, is_end).await;
    assert_eq!(joined_text(&entries), "Hello ");
    if others.is_empty() {
        // Missed entries come first, and may include the end of the run.
        assert_eq!(next_update(&mut heard).await, GatewayUpdate::Reconnected);
    } else {
        assert_eq!(others, [GatewayUpdate::Reconnected]);
    }
}

/// Waits until a session is told that another host has its tools.
async fn wait_until_displaced(heard: &mut zero_client::SessionUpdates, by: &str) {
    let (_, others) =
        collect_until(heard, |news| matches!(news, GatewayUpdate::Displaced { .. })).await;
    assert_eq!(others.last(), Some(&GatewayUpdate::Displaced { host: by.to_owned() }));
}

#[tokio::test]
async fn displaced_host_is_notified_and_does_not_retake() {
    let fixture = TestGateway::start(&["look:a", "Seen", "look:b", "Seen", "look:c", "Seen"]).await;
    let (proxy, _, link) = link_through_proxy(&fixture).await;
    let (one, mut heard) = open_session(&link, "acp:1").await;
    let (left, right) =
        (Arc::new(RecordingToolBackend::default()), Arc::new(RecordingToolBackend::default()));
    one.host_tools("left", left.clone(), PermissionMode::Ask).await.unwrap();
    let other_link = fixture.link();
    let (other, mut other_heard) = open_session(&other_link, "acp:1").await;
    other.host_tools("right", right.clone(), PermissionMode::Ask).await.unwrap();
    wait_until_displaced(&mut heard, "right").await;
    one.send(send_request("run-1", "look")).await.unwrap();
    collect_until(&mut heard, is_end).await;
    // A reconnect does not take it back either.
    proxy.drop_connections();
    let (_, others) = collect_until(&mut heard, |news| *news == GatewayUpdate::Reconnected).await;
    assert_eq!(others, [GatewayUpdate::Disconnected, GatewayUpdate::Reconnected]);
    one.send(send_request("run-2", "look")).await.unwrap();
    collect_until(&mut heard, is_end).await;
    let calls = |backend: &RecordingToolBackend| backend.calls.lock().unwrap().len();
    assert_eq!((calls(&left), calls(&right)), (0, 2));
    // An explicit request does.
    one.host_tools("left", left.clone(), PermissionMode::Ask).await.unwrap();
    wait_until_displaced(&mut other_heard, "left").await;
    one.send(send_request("run-3", "look")).await.unwrap();
    collect_until(&mut heard, is_end).await;
    assert_eq!((calls(&left), calls(&right)), (1, 2));
}

#[tokio::test]
async fn displacement_while_disconnected_is_reported_on_return() {
    let fixture = TestGateway::start(&["look:a", "Seen"]).await;
    let (proxy, _, link) = link_through_proxy(&fixture).await;
    let (one, mut heard) = open_session(&link, "acp:1").await;
    let (left, right) =
        (Arc::new(RecordingToolBackend::default()), Arc::new(RecordingToolBackend::default()));
    one.host_tools("left", left.clone(), PermissionMode::Ask).await.unwrap();
    proxy.stop().await;
    assert_eq!(next_update(&mut heard).await, GatewayUpdate::Disconnected);
    let other_link = fixture.link();
    let (other, _other_heard) = open_session(&other_link, "acp:1").await;
    other.host_tools("right", right.clone(), PermissionMode::Ask).await.unwrap();
    proxy.restart().await;
    wait_until_displaced(&mut heard, "right").await;
    one.send(send_request("run-1", "look")).await.unwrap();
    collect_until(&mut heard, is_end).await;
    assert_eq!(left.calls.lock().unwrap().len(), 0);
    assert_eq!(right.calls.lock().unwrap().len(), 1);
}

/// The gateway may still consider a lost connection open.
#[tokio::test]
async fn reattach_replaces_own_stale_connection() {
    let fixture = TestGateway::start(&["look:a", "Seen"]).await;
    let ghost_link = fixture.link();
    let (ghost, mut ghost_heard) = open_session(&ghost_link, "acp:1").await;
    let (proxy, _, link) = link_through_proxy(&fixture).await;
    let (one, mut heard) = open_session(&link, "acp:1").await;
    let backend = Arc::new(RecordingToolBackend::default());
    one.host_tools("the same", backend.clone(), PermissionMode::Ask).await.unwrap();
    proxy.stop().await;
    assert_eq!(next_update(&mut heard).await, GatewayUpdate::Disconnected);
    let of_ghost = Arc::new(RecordingToolBackend::default());
    ghost.host_tools("the same", of_ghost.clone(), PermissionMode::Ask).await.unwrap();
    proxy.restart().await;
    collect_until(&mut heard, |news| *news == GatewayUpdate::Reconnected).await;
    wait_until_displaced(&mut ghost_heard, "the same").await;
    one.send(send_request("run-1", "look")).await.unwrap();
    let (_, others) = collect_until(&mut heard, is_end).await;
    assert!(others.is_empty(), "{others:?}");
    assert_eq!(backend.calls.lock().unwrap().len(), 1);
    assert_eq!(of_ghost.calls.lock().unwrap().len(), 0);
}
