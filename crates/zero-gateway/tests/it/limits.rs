//! Behaviour at each limit.

use std::time::Duration;

use futures_util::SinkExt;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_tungstenite::tungstenite::Message;

use crate::raw_gateway::{ADMIN, PATIENCE, RawArrival, RawGateway, connect_params};

const MIB: usize = 1024 * 1024;

/// A `connect` frame of the given size.
fn connect_frame(bytes: usize) -> String {
    let frame =
        json!({"type": "req", "id": "c", "method": "connect", "params": connect_params(ADMIN)});
    let mut text = frame.to_string();
    text.push_str(&" ".repeat(bytes - text.len()));
    text
}

#[tokio::test]
async fn unauthenticated_message_limit_is_64_kib() {
    let rig = RawGateway::start().await;
    let mut client = rig.client().await;
    client.send_text(connect_frame(64 * 1024)).await;
    assert_eq!(client.next_frame().await["payload"]["type"], "hello-ok");
    for bytes in [64 * 1024 + 1, MIB] {
        let mut client = rig.client().await;
        // Fails, because the gateway stops reading in the middle of the message.
        let _ = client.websocket.send(Message::text(connect_frame(bytes))).await;
        let closed = client.wait_closed().await;
        assert_eq!(closed, (1009, "a message has at most 65536 bytes here".to_owned()));
    }
}

#[tokio::test]
async fn fragmented_message_cannot_exceed_limit() {
    use tokio_tungstenite::tungstenite::protocol::frame::Frame;
    use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};
    let rig = RawGateway::start().await;
    let mut client = rig.client().await;
    let part = " ".repeat(40 * 1024);
    for kind in [Data::Text, Data::Continue] {
        let frame = Frame::message(part.clone().into_bytes(), OpCode::Data(kind), false);
        let _ = client.websocket.send(Message::Frame(frame)).await;
    }
    assert_eq!(client.wait_closed().await.0, 1009);
}

#[tokio::test]
async fn authenticated_message_limit_is_25_mib() {
    let rig = RawGateway::start().await;
    let mut client = rig.connected_client(ADMIN).await;
    let mut text =
        json!({"type": "req", "id": "big", "method": "health", "params": {}}).to_string();
    text.push_str(&" ".repeat(25 * MIB - text.len()));
    client.send_text(text.clone()).await;
    assert_eq!(client.next_frame().await["id"], "big");
    text.push(' ');
    let _ = client.websocket.send(Message::text(text)).await;
    assert_eq!(client.wait_closed().await.0, 1009);
}

#[tokio::test]
async fn messages_sent_with_connect_wait_for_answer() {
    let rig = RawGateway::start().await;
    let mut client = rig.client().await;
    client.send_request("c", "connect", connect_params(ADMIN)).await;
    let padding = " ".repeat(200 * 1024);
    client
        .send_text(format!(r#"{{"type":"req","id":"h","method":"health","params":{{}}}}{padding}"#))
        .await;
    assert_eq!(client.next_frame().await["id"], "c");
    assert_eq!(client.next_frame().await["id"], "h");
}

#[tokio::test]
async fn silent_client_times_out() {
    let short = Duration::from_millis(100);
    let rig = RawGateway::with_config(|config| config.limits.handshake_time = short).await;
    let mut silent = rig.client().await;
    let (code, reason) = silent.wait_closed().await;
    assert_eq!((code, reason.starts_with("handshake timeout")), (1008, true), "{reason}");
    // Pings do not extend the time limit.
    let mut pinging = rig.client().await;
    let pinging = async {
        loop {
            let _ = pinging.websocket.send(Message::Ping("x".into())).await;
            let soon = tokio::time::timeout(Duration::from_millis(20), pinging.wait_closed()).await;
            if let Ok((code, _)) = soon {
                break code;
            }
        }
    };
    let closed = tokio::time::timeout(PATIENCE, pinging).await.expect("pings extend the time");
    assert!([1008, 1006].contains(&closed), "{closed}");
    // A client that sends no request at all.
    let rig = RawGateway::with_config(|config| config.limits.head_time = short).await;
    let mut answer = Vec::new();
    let mut mute = rig.tcp().await;
    tokio::time::timeout(PATIENCE, mute.read_to_end(&mut answer)).await.unwrap().unwrap();
    // A request head that never ends.
    let mut slow = rig.tcp().await;
    slow.write_all(b"GET / HTTP/1.1\r\nHost: loc").await.unwrap();
    tokio::time::timeout(PATIENCE, slow.read_to_end(&mut answer)).await.unwrap().unwrap();
}

#[tokio::test]
async fn request_head_is_limited() {
    let rig = RawGateway::start().await;
    let head = format!("GET / HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n", "x".repeat(100_000));
    let (status, _) = rig.http(&head).await;
    assert!([0, 400, 431].contains(&status), "{status}");
}

#[tokio::test]
async fn slow_reader_is_disconnected_without_blocking_others() {
    let rig = RawGateway::with_config(|config| {
        config.limits.buffered_bytes_max = MIB;
    })
    .await;
    let mut slow = rig.connected_client(ADMIN).await;
    let mut other = rig.connected_client(ADMIN).await;
    // Each response is as long as the id of its request, and the client reads none.
    let id = "x".repeat(200_000);
    let flood = async {
        for _ in 0..1000 {
            let frame = json!({"type": "req", "id": id, "method": "health", "params": {}});
            if slow.websocket.send(Message::text(frame.to_string())).await.is_err() {
                return;
            }
        }
        panic!("200 MB were taken");
    };
    let others = async {
        loop {
            other.check_health().await;
        }
    };
    tokio::select! {
        () = flood => {}
        () = others => {}
        () = tokio::time::sleep(PATIENCE) => panic!("never cut off"),
    }
    other.check_health().await;
}

#[tokio::test]
async fn late_reader_learns_close_reason() {
    let rig = RawGateway::with_config(|config| {
        config.limits.buffered_messages_max = 16;
        config.limits.close_grace = PATIENCE;
    })
    .await;
    let mut slow = rig.connected_client(ADMIN).await;
    let id = "x".repeat(500_000);
    for _ in 0..60 {
        let frame = json!({"type": "req", "id": id, "method": "health", "params": {}});
        if slow.websocket.send(Message::text(frame.to_string())).await.is_err() {
            break;
        }
    }
    assert_eq!(slow.wait_closed().await, (1008, "slow consumer".to_owned()));
}

#[tokio::test]
async fn connection_count_is_limited() {
    let rig = RawGateway::with_config(|config| config.limits.connections_max = 2).await;
    let mut first = rig.connected_client(ADMIN).await;
    let second = rig.connected_client(ADMIN).await;
    let upgrade = "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                   Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    let (status, answer) = rig.http(upgrade).await;
    assert_eq!(status, 503);
    assert!(answer.to_lowercase().contains("retry-after"), "{answer}");
    first.check_health().await;
    drop(second);
    // The slot is free as soon as the gateway has noticed the disconnect.
    let freed = async { while rig.http(upgrade).await.0 == 503 {} };
    tokio::time::timeout(PATIENCE, freed).await.unwrap();
}

/// A gateway that never gives up on a client by itself.
async fn patient_gateway(unauthenticated_max: usize) -> RawGateway {
    RawGateway::with_config(|config| {
        config.limits.unauthenticated_max = unauthenticated_max;
        config.limits.head_time = 100 * PATIENCE;
        config.limits.handshake_time = 100 * PATIENCE;
    })
    .await
}

#[tokio::test]
async fn half_open_connections_do_not_delay_others() {
    let rig = patient_gateway(512).await;
    let mut half_open = Vec::new();
    for number in 0..600 {
        let mut stream = rig.tcp().await;
        if number % 2 == 0 {
            stream.write_all(b"GET / HTTP/1.1\r\nHost: loc").await.unwrap();
        }
        half_open.push(stream);
    }
    rig.connected_client(ADMIN).await.check_health().await;
    // Until here, no client has closed its connection.
    drop(half_open);
}

#[tokio::test]
async fn silent_websocket_makes_room() {
    let rig = patient_gateway(2).await;
    let mut idlers = [rig.client().await, rig.client().await];
    rig.connected_client(ADMIN).await.check_health().await;
    let closed = idlers[0].wait_closed().await;
    let reason = "there are too many unauthenticated connections".to_owned();
    assert_eq!(closed, (1013, reason));
}

#[tokio::test]
async fn burst_of_clients_waits_and_none_is_lost() {
    let rig = RawGateway::with_config(|config| {
        config.limits.unauthenticated_max = 2;
        config.limits.silent_grace = PATIENCE;
        config.limits.handshake_grace = PATIENCE;
    })
    .await;
    let many = (0..40).map(|_| async { rig.connected_client(ADMIN).await.check_health().await });
    futures_util::future::join_all(many).await;
}

#[tokio::test]
async fn authenticated_connection_frees_accept_permit() {
    let rig = RawGateway::with_config(|config| config.limits.unauthenticated_max = 1).await;
    let mut greeted = Vec::new();
    for _ in 0..5 {
        greeted.push(rig.connected_client(ADMIN).await);
    }
    for client in &mut greeted {
        client.check_health().await;
    }
}

#[tokio::test]
async fn ping_flood_blocks_nothing() {
    let rig = RawGateway::start().await;
    let mut client = rig.connected_client(ADMIN).await;
    // Nobody reads the pongs; if the gateway waited for them, this would hang.
    for _ in 0..50_000 {
        client.websocket.feed(Message::Ping(vec![b'x'; 100].into())).await.unwrap();
    }
    client.websocket.flush().await.unwrap();
    client.check_health().await;
}

#[tokio::test]
async fn websocket_protocol_violation_is_reported() {
    let rig = RawGateway::start().await;
    let mut stream = rig.tcp().await;
    let upgrade = "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                   Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    // An unmasked frame directly after the request.
    stream.write_all(upgrade.as_bytes()).await.unwrap();
    stream.write_all(b"\x81\x02{}").await.unwrap();
    let mut answer = Vec::new();
    tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer)).await.unwrap().unwrap();
    let close =
        answer.windows(4).any(|bytes| bytes[0] == 0x88 && bytes[2..] == 1002_u16.to_be_bytes());
    assert!(close, "{}", String::from_utf8_lossy(&answer));
}

#[tokio::test]
async fn connection_events_are_numbered_from_one() {
    let rig =
        RawGateway::with_config(|config| config.limits.tick_interval = Duration::from_millis(20))
            .await;
    let mut client = rig.connected_client(ADMIN).await;
    for expected in 1..=3 {
        let RawArrival::Frame(tick) = client.next_arrival().await else { panic!("closed") };
        assert_eq!((tick["event"].as_str(), tick["seq"].as_u64()), (Some("tick"), Some(expected)));
        assert!(tick["payload"]["ts"].is_i64());
    }
    let mut later = rig.connected_client(ADMIN).await;
    assert_eq!(later.next_frame().await["seq"], 1);
}

#[tokio::test]
async fn excess_concurrent_requests_are_refused_with_answer() {
    let rig = RawGateway::with_config(|config| config.limits.requests_max = 0).await;
    let mut client = rig.connected_client(ADMIN).await;
    let refused = client.call_method("h", "health", json!({})).await;
    assert_eq!(refused["error"]["code"], "UNAVAILABLE");
    assert_eq!(refused["error"]["retryable"], true);
    assert_eq!(refused["error"]["retryAfterMs"], 1000);
}
