//! The handshake, and the ways in which it fails.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use zero_wire::client::{
    ConnectOptions, GatewayClient, GatewayClientError, GatewayCredentials, GatewayTarget,
};
use zero_wire::device::{ChallengeContext, DeviceKey, verify};
use zero_wire::handshake::{Connect, ConnectParams};
use zero_wire::{ErrorCode, parse_params};

use crate::test_gateway::{
    NONCE, TIME, TestGateway, connect_options, hello_payload, serve, serve_embedded, url_target,
};

async fn connect_error(target: GatewayTarget, options: ConnectOptions) -> GatewayClientError {
    GatewayClient::connect(target, options).await.map(|_| ()).unwrap_err()
}

#[tokio::test]
async fn client_identifies_itself_and_receives_grants() {
    let options = ConnectOptions {
        auth: GatewayCredentials::token("t"),
        caps: vec!["tool-events".to_owned()],
        scopes: vec!["operator.read".to_owned()],
        ..connect_options()
    };
    for (target, gateway) in [
        serve(|mut peer| async move { (peer.accept_handshake().await, peer) }).await,
        serve_embedded(|mut peer| async move { (peer.accept_handshake().await, peer) }),
    ] {
        let (client, events) = GatewayClient::connect(target, options.clone()).await.unwrap();
        let (connect, _peer) = gateway.await.unwrap();
        assert_eq!(
            connect,
            json!({
                "minProtocol": 3, "maxProtocol": 4,
                "client": {"id": "cli", "displayName": "Test", "version": "1", "platform": "Linux",
                    "deviceFamily": "Linux", "mode": "cli"},
                "caps": ["tool-events"], "role": "operator", "scopes": ["operator.read"],
                "auth": {"token": "t"},
            })
        );
        assert!(parse_params::<Connect>(Some(connect)).is_ok(), "a gateway accepts it");
        assert_eq!(client.hello().auth.as_ref().unwrap().scopes, ["operator.admin"]);
        assert!(client.has_capability("zero.replay") && !client.has_capability("zero.tools"));
        assert_eq!(events.close_reason(), None);
    }
}

#[tokio::test]
async fn default_options_are_accepted_by_gateway() {
    let (target, gateway) =
        serve_embedded(|mut peer| async move { (peer.accept_handshake().await, peer) });
    let _client = GatewayClient::connect(target, ConnectOptions::default()).await.unwrap();
    let (connect, _peer) = gateway.await.unwrap();
    let connect = parse_params::<Connect>(Some(connect)).unwrap();
    assert_eq!((connect.auth, connect.device, connect.scopes), (None, None, None));
}

#[tokio::test]
async fn device_proves_itself() {
    let (key, _) = DeviceKey::generate().unwrap();
    let options = ConnectOptions {
        auth: GatewayCredentials::password("p"),
        device: Some(Arc::new(key)),
        ..connect_options()
    };
    let (target, gateway) =
        serve(|mut peer| async move { (peer.accept_handshake().await, peer) }).await;
    let _client = GatewayClient::connect(target, options).await.unwrap();
    let (connect, _peer) = gateway.await.unwrap();
    let connect: ConnectParams = parse_params::<Connect>(Some(connect)).unwrap();
    let context = ChallengeContext::from_client(&connect.client, "operator", &[], "")
        .with_challenge(NONCE, TIME);
    let proof = connect.device.unwrap();
    assert_eq!(verify(&proof, &context, 4), Ok(()));
    assert!(verify(&proof, &context.with_challenge("another", TIME), 4).is_err());
}

#[tokio::test]
async fn refusal_says_why_and_never_repeats_a_secret() {
    let options = ConnectOptions {
        auth: GatewayCredentials::Token("s3cret".to_owned()),
        ..connect_options()
    };
    let script = |mut peer: TestGateway| async move {
        peer.send_challenge().await;
        let connect = peer.recv().await.unwrap();
        let details = json!({"code": "AUTH_TOKEN_MISMATCH", "echo": connect["params"]["auth"]});
        let message = "unauthorized: s3cret is wrong";
        let error = json!({"code": "INVALID_REQUEST", "message": message, "details": details});
        peer.refuse(&connect, error).await;
        peer.recv().await.unwrap_err()
    };
    for (target, gateway) in [serve(script).await, serve_embedded(script)] {
        let error = connect_error(target, options.clone()).await;
        let GatewayClientError::Refused { error: shape } = &error else { panic!("{error:?}") };
        assert_eq!(shape.code, ErrorCode::InvalidRequest);
        assert!(!format!("{error} {error:?}").contains("s3cret"), "{error:?}");
        assert!(error.to_string().starts_with("the gateway refused: unauthorized: … is wrong"));
        assert_eq!(gateway.await.unwrap().code, 1000, "the gateway receives a close");
    }
}

#[tokio::test]
async fn close_instead_of_hello_keeps_its_code() {
    for (code, hint) in [(1008, "check the credentials"), (1012, "restarting"), (1013, "not ready")]
    {
        let script = move |mut peer: TestGateway| async move {
            peer.send_challenge().await;
            peer.recv().await.unwrap();
            peer.close(code, "because").await;
        };
        for (target, _gateway) in [serve(script).await, serve_embedded(script)] {
            let error = connect_error(target, connect_options()).await;
            assert_eq!(error, GatewayClientError::Closed { code, reason: "because".to_owned() });
            assert!(error.to_string().contains(hint), "{error}");
        }
    }
}

async fn check_protocol_error(frames: Vec<Value>, expected: &str) {
    let script = |mut peer: TestGateway| async move {
        for frame in frames {
            if frame == "wait" {
                peer.recv().await.unwrap();
            } else {
                peer.send(frame).await;
            }
        }
        peer.recv().await
    };
    let (target, gateway) = serve_embedded(script);
    let error = connect_error(target, connect_options()).await;
    assert!(matches!(error, GatewayClientError::Protocol { .. }), "{error:?}");
    assert!(error.to_string().starts_with(expected), "{error}\nwanted {expected}");
    assert_eq!(gateway.await.unwrap().unwrap_err().code, 1002);
}

#[tokio::test]
async fn invalid_hello_is_refused() {
    let challenge =
        json!({"type": "event", "event": "connect.challenge", "payload": {"nonce": "n", "ts": 1}});
    let answer = |payload: Value| json!({"type": "res", "id": "0", "ok": true, "payload": payload});
    let tick = json!({"type": "event", "event": "tick", "payload": {"ts": 1}});
    check_protocol_error(vec![tick], "the first frame is not a challenge").await;
    let empty =
        json!({"type": "event", "event": "connect.challenge", "payload": {"nonce": "", "ts": 1}});
    check_protocol_error(vec![empty], "the challenge has an empty nonce").await;
    let bare = json!({"type": "event", "event": "connect.challenge"});
    check_protocol_error(vec![bare], "the challenge has no nonce").await;
    let mut old = hello_payload(json!({}));
    old["protocol"] = json!(2);
    check_protocol_error(
        vec![challenge.clone(), json!("wait"), answer(old)],
        "the gateway chose protocol 2, but this client supports 3 to 4",
    )
    .await;
    check_protocol_error(
        vec![challenge.clone(), json!("wait"), answer(json!({"type": "hello-no"}))],
        "invalid answer to `connect`",
    )
    .await;
    let other = json!({"type": "res", "id": "7", "ok": true});
    check_protocol_error(vec![challenge, json!("wait"), other], "unexpected answer to `connect`")
        .await;
}

#[tokio::test(start_paused = true)]
async fn silent_gateway_times_out() {
    let (target, gateway) = serve_embedded(|mut peer| async move { peer.recv().await });
    let error = connect_error(target, connect_options()).await;
    let after = Duration::from_secs(20);
    assert_eq!(error, GatewayClientError::Timeout { what: "connecting to the gateway", after });
    assert!(gateway.await.unwrap().is_err(), "the gateway sees that the client is gone");
}

#[tokio::test]
async fn port_that_never_answers_times_out() {
    // Nothing accepts: the kernel completes the connection, and no answer arrives.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    for scheme in ["ws", "wss"] {
        let options = ConnectOptions { timeout: Duration::from_millis(200), ..connect_options() };
        let error = connect_error(url_target(&format!("{scheme}://{address}")), options).await;
        assert!(matches!(error, GatewayClientError::Timeout { .. }), "{error:?}");
    }
}

#[tokio::test]
async fn gateway_that_never_stops_sending_times_out() {
    let script = |mut peer: TestGateway| async move {
        peer.send_challenge().await;
        peer.recv().await.unwrap();
        for seq in 1..1000 {
            let event = json!({"type": "event", "event": "health", "seq": seq});
            let TestGateway::Pipe(pipe, _) = &peer else { panic!() };
            if pipe.send(event.to_string()).await.is_err() {
                return;
            }
        }
    };
    let error = connect_error(serve_embedded(script).0, connect_options()).await;
    assert!(error.to_string().starts_with("`connect` was not answered"), "{error}");
}

#[tokio::test]
async fn plaintext_to_other_machine_is_refused() {
    for host in ["192.0.2.1", "gateway.example", "[2001:db8::1]", "0.0.0.0", "localhost.example"] {
        let error = connect_error(url_target(&format!("ws://{host}:1")), connect_options()).await;
        assert_eq!(error, GatewayClientError::Plaintext { host: host.to_owned() });
    }
}

#[tokio::test]
async fn missing_listener_is_reported() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = format!("ws://{}/", listener.local_addr().unwrap());
    drop(listener);
    let error = connect_error(url_target(&at), connect_options()).await;
    assert!(
        matches!(&error, GatewayClientError::Unreachable { at: found, .. } if *found == at),
        "{error:?}"
    );
    assert!(error.to_string().contains("start it with `zero gateway`"), "{error}");
}

#[tokio::test]
async fn web_server_is_not_accepted_as_gateway() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut head = [0; 1024];
        let length = stream.read(&mut head).await.unwrap();
        stream.write_all(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n").await.unwrap();
        String::from_utf8_lossy(&head[..length]).into_owned()
    });
    let error = connect_error(url_target(&format!("ws://{address}")), connect_options()).await;
    assert!(
        error.to_string().contains("answered HTTP 403 Forbidden instead of a WebSocket"),
        "{error}"
    );
    let head = server.await.unwrap();
    assert!(head.starts_with("GET / HTTP/1.1\r\n"), "{head}");
    assert!(!head.to_lowercase().contains("origin:"), "{head}");
}
