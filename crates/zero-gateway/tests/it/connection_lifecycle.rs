//! Keep-alive, pipes and shutdown.

use std::time::Duration;

use futures_util::StreamExt;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use tokio_tungstenite::tungstenite::Message;
use zero_wire::method::TokenScope;
use zero_wire::pipe::pipe;

use crate::raw_gateway::{ADMIN, PATIENCE, RawGateway, connect_params, principal};

/// Keeps a paused clock where it is until dropped: tokio moves it when all tasks wait, and they wait
/// for the network here.
struct FrozenClock {
    _end: std::sync::mpsc::SyncSender<()>,
}

impl Drop for FrozenClock {
    fn drop(&mut self) {
        tokio::time::resume();
    }
}

impl FrozenClock {
    fn start() -> Self {
        tokio::time::pause();
        let (end, ended) = std::sync::mpsc::sync_channel::<()>(1);
        // The clock does not move while a blocking task runs. This one ends in any case, so that
        // timeouts fire.
        tokio::task::spawn_blocking(move || ended.recv_timeout(PATIENCE));
        Self { _end: end }
    }
}

#[tokio::test]
async fn client_without_pong_is_disconnected() {
    const INTERVAL: Duration = Duration::from_secs(25);
    let rig = RawGateway::with_config(|config| {
        config.limits.ping_interval = INTERVAL;
        config.limits.tick_interval = 100 * INTERVAL;
    })
    .await;
    let mut alive = rig.connected_client(ADMIN).await;
    let mut dead = rig.connected_client(ADMIN).await.websocket.into_inner();
    let clock = FrozenClock::start();
    for _ in 0..3 {
        // Timers are not exact.
        tokio::time::advance(INTERVAL + Duration::from_millis(10)).await;
        let ping = alive.websocket.next().await.unwrap().unwrap();
        assert!(matches!(ping, Message::Ping(_)), "{ping:?}");
        // The pong is sent with the first request, and has arrived before the second.
        alive.check_health().await;
        alive.check_health().await;
    }
    // The gateway waits a moment for the close frame of the other.
    drop(clock);
    let mut unread = Vec::new();
    dead.read_to_end(&mut unread).await.unwrap();
    assert!(unread.starts_with(b"\x89\x00"), "it was pinged first: {unread:?}");
    assert!(unread.ends_with(b"ping timeout"), "{unread:?}");
}

async fn connect_over_pipe(
    params: Value,
) -> (zero_wire::pipe::PipeSender, zero_wire::pipe::PipeReceiver, Value) {
    let rig = RawGateway::start().await;
    let (client, server) = pipe();
    rig.gateway.attach_pipe(server, principal("me", &[TokenScope::Write]));
    let (sender, mut receiver) = client.split();
    let challenge: Value = serde_json::from_str(&receiver.recv().await.unwrap()).unwrap();
    assert_eq!(challenge["event"], "connect.challenge");
    let connect = json!({"type": "req", "id": "c", "method": "connect", "params": params});
    sender.send(connect.to_string()).await.unwrap();
    let answer = serde_json::from_str(&receiver.recv().await.unwrap()).unwrap();
    // The gateway runs for as long as a client is attached.
    tokio::spawn(rig.serving);
    (sender, receiver, answer)
}

#[tokio::test]
async fn pipe_client_needs_no_token_and_keeps_given_scopes() {
    let mut params = connect_params("whatever");
    let (sender, mut receiver, hello) = connect_over_pipe(params.clone()).await;
    assert_eq!(hello["payload"]["auth"]["scopes"], json!(["operator.write"]));
    let health = json!({"type": "req", "id": "h", "method": "health", "params": {}});
    sender.send(health.to_string()).await.unwrap();
    let answer: Value = serde_json::from_str(&receiver.recv().await.unwrap()).unwrap();
    assert_eq!((&answer["id"], &answer["ok"]), (&json!("h"), &json!(true)));
    params["minProtocol"] = json!(9);
    params["maxProtocol"] = json!(9);
    let (_, mut receiver, refused) = connect_over_pipe(params).await;
    assert_eq!(refused["error"]["details"]["code"], "PROTOCOL_MISMATCH");
    assert_eq!(receiver.recv().await.unwrap_err().code, 1002);
}

#[tokio::test]
async fn shutdown_is_announced_and_new_clients_refused() {
    let rig = RawGateway::start().await;
    let mut client = rig.connected_client(ADMIN).await;
    let (embedded, server) = pipe();
    rig.gateway.attach_pipe(server, principal("me", &[TokenScope::Read]));
    let mut stranger = rig.client().await;
    let address = rig.address;
    rig.stop.cancel();
    let told = client.next_frame().await;
    assert_eq!((told["event"].as_str(), told["seq"].as_u64()), (Some("shutdown"), Some(1)));
    assert_eq!(client.wait_closed().await, (1012, "service restart".to_owned()));
    assert_eq!(stranger.wait_closed().await, (1012, "service restart".to_owned()));
    let (_, mut at_embedded) = embedded.split();
    let reason = loop {
        if let Err(reason) = at_embedded.recv().await {
            break reason;
        }
    };
    assert_eq!(reason.code, 1012);
    tokio::time::timeout(PATIENCE, rig.serving).await.unwrap().unwrap();
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn connect_during_shutdown_gets_retry_error() {
    let rig = RawGateway::with_config(|config| config.limits.last_words = PATIENCE).await;
    let mut late = rig.client().await;
    let mut inside = rig.connected_client(ADMIN).await;
    rig.stop.cancel();
    assert_eq!(inside.next_frame().await["event"], "shutdown");
    let answer = late.connect(connect_params(ADMIN)).await;
    assert_eq!(answer["error"]["code"], "UNAVAILABLE");
    assert_eq!(answer["error"]["retryable"], true);
    assert!(answer["error"]["retryAfterMs"].is_u64());
    assert_eq!(late.wait_closed().await.0, 1013);
}

#[tokio::test]
async fn client_that_never_reads_does_not_block_shutdown() {
    let rig =
        RawGateway::with_config(|config| config.limits.close_grace = Duration::from_millis(100))
            .await;
    let mut stuck = rig.connected_client(ADMIN).await;
    let id = "x".repeat(1_000_000);
    for _ in 0..20 {
        stuck.send_request(&id, "health", json!({})).await;
    }
    rig.stop.cancel();
    tokio::time::timeout(PATIENCE, rig.serving).await.unwrap().unwrap();
    drop(stuck);
}
