//! How connections end, and what waiting requests and event readers get.

use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, interval};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};
use zero_wire::chat::{Health, HealthParams};
use zero_wire::client::GatewayClientError;
use zero_wire::frame::PAYLOAD_BYTES_MAX;

use crate::test_gateway::{TestGateway, connect, serve, serve_embedded};

/// What the gateway does after a request. Then it waits for the client's reaction.
enum GatewayAction {
    Text(&'static str),
    Giant,
    InvalidUtf8,
    Close(u16, &'static str),
    Vanish,
}

async fn perform_action(mut peer: TestGateway, action: GatewayAction) -> Option<u16> {
    peer.accept_handshake().await;
    peer.recv().await.unwrap();
    match action {
        GatewayAction::Text(text) => peer.send_text(text).await,
        GatewayAction::Giant => {
            // The client closes in the middle, so sending may fail.
            let TestGateway::Socket(socket) = &mut peer else { panic!() };
            let text = Message::text("x".repeat(PAYLOAD_BYTES_MAX + 1));
            let _ = futures_util::SinkExt::send(socket.as_mut(), text).await;
            return None;
        }
        GatewayAction::InvalidUtf8 => {
            let frame = Frame::message(vec![0xff, 0xfe], OpCode::Data(Data::Text), true);
            peer.send_raw(Message::Frame(frame)).await;
        }
        GatewayAction::Close(code, reason) => {
            peer.close(code, reason).await;
            return None;
        }
        GatewayAction::Vanish => return None,
    }
    Some(peer.recv().await.unwrap_err().code)
}

async fn check(
    target: zero_wire::client::GatewayTarget,
    gateway: tokio::task::JoinHandle<Option<u16>>,
    code: u16,
    text: &str,
) {
    let (client, mut events) = connect(target).await;
    let error = client.request::<Health>(HealthParams::default()).await.unwrap_err();
    let GatewayClientError::Closed { code: found, reason } = &error else { panic!("{error:?}") };
    assert_eq!(*found, code, "{error}");
    assert!(reason.contains(text), "{error}\nwanted {text}");
    assert_eq!(events.next().await, None);
    assert_eq!(events.close_reason().unwrap().code, code);
    let again = client.request::<Health>(HealthParams::default()).await.unwrap_err();
    assert_eq!(again, error, "later requests fail with the same error");
    if let Some(received) = gateway.await.unwrap() {
        assert_eq!(received, code, "the gateway receives the close code");
    }
}

#[tokio::test]
async fn protocol_violation_closes_connection() {
    for (text, reason) in [
        ("hello", "not JSON"),
        ("{}", "must have required property 'type'"),
        (r#"{"type":"res","id":"1"}"#, "invalid response frame: must have required property 'ok'"),
        (r#"{"type":"event","event":"x","more":1}"#, "unexpected property 'more'"),
        (r#"{"type":"req","id":"1","method":"health"}"#, "unexpected request from the gateway"),
    ] {
        let (target, gateway) =
            serve(move |peer| perform_action(peer, GatewayAction::Text(text))).await;
        check(target, gateway, 1002, reason).await;
        let (target, gateway) =
            serve_embedded(move |peer| perform_action(peer, GatewayAction::Text(text)));
        check(target, gateway, 1002, reason).await;
    }
    let (target, gateway) = serve(|peer| perform_action(peer, GatewayAction::InvalidUtf8)).await;
    check(target, gateway, 1007, "not UTF-8").await;
    let (target, gateway) = serve(|peer| perform_action(peer, GatewayAction::Giant)).await;
    check(target, gateway, 1009, "too long").await;
}

#[tokio::test]
async fn waiting_requests_learn_close_reason() {
    for (code, reason) in
        [(1008, "slow consumer"), (1012, "service restart"), (1013, ""), (4001, "own")]
    {
        let (target, gateway) =
            serve(move |peer| perform_action(peer, GatewayAction::Close(code, reason))).await;
        check(target, gateway, code, reason).await;
        let (target, gateway) =
            serve_embedded(move |peer| perform_action(peer, GatewayAction::Close(code, reason)));
        check(target, gateway, code, reason).await;
    }
    let (target, gateway) = serve(|peer| perform_action(peer, GatewayAction::Vanish)).await;
    check(target, gateway, 1006, "connection lost").await;
    let (target, gateway) = serve_embedded(|peer| perform_action(peer, GatewayAction::Vanish));
    check(target, gateway, 1006, "connection lost").await;
}

#[tokio::test(start_paused = true)]
async fn silence_of_two_ticks_closes_connection() {
    let script = |mut peer: TestGateway| async move {
        peer.accept_handshake_with_policy(json!({"tickIntervalMs": 1000})).await;
        peer.recv().await.unwrap_err()
    };
    let (target, gateway) = serve_embedded(script);
    let (_client, mut events) = connect(target).await;
    let start = Instant::now();
    assert_eq!(events.next().await, None);
    assert_eq!(start.elapsed().as_secs(), 2);
    assert_eq!(events.close_reason().unwrap().to_string(), "4000 tick timeout");
    assert_eq!(gateway.await.unwrap().to_string(), "4000 tick timeout");
}

#[tokio::test(start_paused = true)]
async fn ticks_keep_connection_alive() {
    let script = |mut peer: TestGateway| async move {
        peer.accept_handshake_with_policy(json!({"tickIntervalMs": 1000})).await;
        let mut ticks = interval(Duration::from_millis(1900));
        for seq in 1..=100 {
            ticks.tick().await;
            peer.send_event("tick", seq, json!({"ts": seq})).await;
        }
        peer.send_event("chat", 101, json!("still here")).await;
        peer.recv().await
    };
    let (target, _gateway) = serve_embedded(script);
    let (_client, mut events) = connect(target).await;
    assert_eq!(events.next().await.unwrap().payload, Some(json!("still here")));
}

#[tokio::test(start_paused = true)]
async fn time_without_reader_does_not_count_as_silence() {
    let script = |mut peer: TestGateway| async move {
        peer.accept_handshake_with_policy(json!({"tickIntervalMs": 1000})).await;
        let TestGateway::Pipe(pipe, mut incoming) = peer else { panic!() };
        for seq in 1_u64..=3000 {
            pipe.send(json!({"type": "event", "event": "chat", "seq": seq}).to_string())
                .await
                .unwrap();
        }
        incoming.recv().await
    };
    let (target, _gateway) = serve_embedded(script);
    let (_client, mut events) = connect(target).await;
    tokio::time::sleep(Duration::from_secs(3600)).await;
    for seq in 1..=3000 {
        assert_eq!(events.next().await.unwrap().seq, Some(seq));
    }
}

#[tokio::test]
async fn pings_and_bytes_keep_alive_and_pings_are_answered() {
    let script = |mut peer: TestGateway| async move {
        peer.accept_handshake().await;
        peer.send_raw(Message::Ping("are you there".into())).await;
        peer.send_raw(Message::binary(vec![0, 1, 2])).await;
        let TestGateway::Socket(socket) = &mut peer else { panic!() };
        let pong = futures_util::StreamExt::next(socket.as_mut()).await.unwrap().unwrap();
        peer.send_event("chat", 1, json!("x")).await;
        (pong, peer.recv().await)
    };
    let (target, gateway) = serve(script).await;
    let (client, mut events) = connect(target).await;
    assert!(events.next().await.is_some());
    client.close().await;
    let (pong, end) = gateway.await.unwrap();
    assert_eq!(pong, Message::Pong("are you there".into()));
    assert_eq!(end.unwrap_err().code, 1000);
}

#[tokio::test]
async fn connection_ends_with_its_last_client() {
    let script = |mut peer: TestGateway| async move {
        peer.accept_handshake().await;
        peer.recv().await
    };
    for (target, gateway) in [serve(script).await, serve_embedded(script)] {
        let (client, mut events) = connect(target).await;
        let other = client.clone();
        drop(client);
        assert_eq!(events.close_reason(), None);
        drop(other);
        assert_eq!(gateway.await.unwrap().unwrap_err().code, 1000);
        assert_eq!(events.next().await, None);
        assert_eq!(events.close_reason().unwrap().code, 1000);
    }
}

#[tokio::test]
async fn close_waits_for_end_and_is_idempotent() {
    let script = |mut peer: TestGateway| async move {
        peer.accept_handshake().await;
        // A gateway that reads nothing: the close must end nevertheless.
        peer
    };
    let (target, gateway) = serve(script).await;
    let (client, _events) = connect(target).await;
    let _unread = gateway.await.unwrap();
    let closing = async { tokio::join!(client.close(), client.close()) };
    tokio::time::timeout(Duration::from_secs(60), closing).await.unwrap();
    let error = client.request::<Health>(HealthParams::default()).await.unwrap_err();
    assert_eq!(error, GatewayClientError::Closed { code: 1000, reason: String::new() });
}
