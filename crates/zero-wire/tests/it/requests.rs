//! Requests and events of an established connection.

use std::time::Duration;

use serde_json::json;
use tokio::time::timeout;
use zero_wire::chat::{
    AgentWait, AgentWaitParams, AgentWaitStatus, ChatSend, ChatSendParams, Health, HealthParams,
};
use zero_wire::client::{EVENTS_MAX, GatewayClientError, IN_FLIGHT_MAX};
use zero_wire::pipe::FRAMES_MAX;
use zero_wire::sessions::{SessionsGet, SessionsGetParams};

use crate::test_gateway::{TestGateway, connect, serve, serve_embedded};

fn wait_params(run: &str) -> AgentWaitParams {
    AgentWaitParams { run_id: run.to_owned(), timeout_ms: None }
}

#[tokio::test]
async fn answers_match_requests_in_any_order() {
    let script = |mut peer: TestGateway| async move {
        peer.accept_handshake().await;
        let mut requests = Vec::new();
        for _ in 0..3 {
            requests.push(peer.recv().await.unwrap());
        }
        for request in requests.iter().rev() {
            assert_eq!(request["method"], "agent.wait");
            let payload = json!({"runId": request["params"]["runId"], "status": "ok"});
            peer.answer(request, payload).await;
        }
        peer.recv().await
    };
    for (target, gateway) in [serve(script).await, serve_embedded(script)] {
        let (client, _events) = connect(target).await;
        let ask = |run: &'static str| client.request::<AgentWait>(wait_params(run));
        let (a, b, c) = tokio::join!(ask("a"), ask("b"), ask("c"));
        for (answer, run) in [(a, "a"), (b, "b"), (c, "c")] {
            let answer = answer.unwrap();
            assert_eq!((answer.run_id.as_str(), answer.status), (run, AgentWaitStatus::Ok));
        }
        client.close().await;
        assert_eq!(gateway.await.unwrap().unwrap_err().code, 1000);
    }
}

#[tokio::test]
async fn refused_request_returns_its_error() {
    let script = |mut peer: TestGateway| async move {
        peer.accept_handshake().await;
        let request = peer.recv().await.unwrap();
        peer.refuse(
            &request,
            json!({"code": "FORBIDDEN", "message": "missing scope: operator.write"}),
        )
        .await;
        let request = peer.recv().await.unwrap();
        peer.answer(&request, json!({"runId": 7})).await;
        peer.recv().await
    };
    let (target, _gateway) = serve_embedded(script);
    let (client, _events) = connect(target).await;
    let error = client.request::<ChatSend>(ChatSendParams::default()).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the gateway refused: missing scope: operator.write; use a token with that scope"
    );
    let error = client.request::<ChatSend>(ChatSendParams::default()).await.unwrap_err();
    assert!(error.to_string().starts_with("invalid answer of `chat.send`"), "{error}");
}

#[tokio::test]
async fn messages_of_other_gateways_are_read() {
    let script = |mut peer: TestGateway| async move {
        peer.accept_handshake().await;
        let request = peer.recv().await.unwrap();
        let messages = json!([
            {"role": "user", "content": "hello"},
            {"role": "assistant", "content": [{"type": "hologram", "x": 1}, {"type": "text", "text": "hi"}],
             "timestamp": 1, "model": "m"},
        ]);
        peer.answer(&request, json!({"messages": messages})).await;
        peer.recv().await
    };
    let (target, _gateway) = serve_embedded(script);
    let (client, _events) = connect(target).await;
    let params = SessionsGetParams { key: "main".to_owned(), ..Default::default() };
    let messages = client.request::<SessionsGet>(params).await.unwrap().messages;
    assert_eq!(
        serde_json::to_value(messages).unwrap(),
        json!([
            {"role": "user", "content": [{"type": "text", "text": "hello"}], "timestamp": 0},
            {"role": "assistant", "content": [{"type": "hologram", "x": 1}, {"type": "text", "text": "hi"}],
             "timestamp": 1},
        ])
    );
}

#[tokio::test]
async fn events_arrive_in_order_without_ticks() {
    let script = |mut peer: TestGateway| async move {
        peer.accept_handshake().await;
        peer.send_event("chat", 1, json!({"n": 1})).await;
        peer.send_event("tick", 2, json!({"ts": 1})).await;
        peer.send_event("hologram", 5, json!({"n": 2})).await;
        peer.send_event("agent", u64::MAX, json!({"n": 3})).await;
        peer.send_event("agent", 1, json!({"n": 4})).await;
        peer.close(1012, "service restart").await;
    };
    for (target, _gateway) in [serve(script).await, serve_embedded(script)] {
        let (_client, mut events) = connect(target).await;
        for (name, n) in [("chat", 1), ("hologram", 2), ("agent", 3), ("agent", 4)] {
            let event = events.next().await.unwrap();
            assert_eq!((event.event.as_str(), event.payload), (name, Some(json!({"n": n}))));
        }
        assert_eq!(events.next().await, None);
        assert_eq!(events.close_reason().unwrap().to_string(), "1012 service restart");
    }
}

#[tokio::test]
async fn slow_reader_blocks_gateway_and_loses_nothing() {
    let all = (EVENTS_MAX + FRAMES_MAX + 500) as u64;
    let script = move |mut peer: TestGateway| async move {
        peer.accept_handshake().await;
        let TestGateway::Pipe(pipe, mut incoming) = peer else { panic!() };
        let mut waited = 0;
        for seq in 1..=all {
            let frame = json!({"type": "event", "event": "chat", "seq": seq}).to_string();
            if pipe.try_send(frame.clone()).is_err() {
                waited += 1;
                pipe.send(frame).await.unwrap();
            }
        }
        let request = incoming.recv().await.unwrap();
        let request: serde_json::Value = serde_json::from_str(&request).unwrap();
        let payload =
            json!({"ok": true, "ts": 1, "uptimeMs": 1, "defaultAgentId": "main", "running": 0});
        let frame = json!({"type": "res", "id": request["id"], "ok": true, "payload": payload});
        pipe.send(frame.to_string()).await.unwrap();
        (waited, incoming.recv().await)
    };
    let (target, gateway) = serve_embedded(script);
    let (client, mut events) = connect(target).await;
    for seq in 1..=all {
        assert_eq!(events.next().await.unwrap().seq, Some(seq));
    }
    assert!(client.request::<Health>(HealthParams::default()).await.unwrap().ok);
    client.close().await;
    let (waited, _) = gateway.await.unwrap();
    assert!(waited > 0, "the gateway never had to wait");
}

#[tokio::test]
async fn answers_arrive_without_event_reader() {
    let script = |mut peer: TestGateway| async move {
        peer.accept_handshake().await;
        let request = peer.recv().await.unwrap();
        for seq in 1..=2 * EVENTS_MAX as u64 {
            peer.send_event("chat", seq, json!(1)).await;
        }
        peer.answer(&request, json!({"runId": "r", "status": "ok"})).await;
        peer.recv().await
    };
    let (target, _gateway) = serve_embedded(script);
    let (client, events) = connect(target).await;
    drop(events);
    assert!(client.request::<AgentWait>(wait_params("r")).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn requests_in_flight_are_bounded() {
    let script = |mut peer: TestGateway| async move {
        peer.accept_handshake_with_policy(json!({"tickIntervalMs": 3_600_000})).await;
        let mut waiting = Vec::new();
        // The paused clock advances only when nothing else can run.
        while let Ok(request) = timeout(Duration::from_secs(60), peer.recv()).await {
            waiting.push(request.unwrap());
        }
        let at_once = waiting.len();
        for answered in 0..IN_FLIGHT_MAX + 50 {
            if answered >= waiting.len() {
                waiting.push(peer.recv().await.unwrap());
            }
            let request = waiting[answered].clone();
            peer.answer(&request, json!({"runId": "r", "status": "ok"})).await;
        }
        (at_once, peer.recv().await)
    };
    let (target, gateway) = serve_embedded(script);
    let (client, _events) = connect(target).await;
    let ask = |_| {
        let client = client.clone();
        tokio::spawn(async move { client.request::<AgentWait>(wait_params("r")).await.map(|_| ()) })
    };
    let asked: Vec<_> = (0..IN_FLIGHT_MAX + 50).map(ask).collect();
    for answer in asked {
        assert_eq!(answer.await.unwrap(), Ok(()));
    }
    client.close().await;
    assert_eq!(gateway.await.unwrap().0, IN_FLIGHT_MAX);
}

#[tokio::test(start_paused = true)]
async fn abandoned_request_does_not_disturb_others() {
    let script = |mut peer: TestGateway| async move {
        peer.accept_handshake_with_policy(json!({"tickIntervalMs": 3_600_000})).await;
        let given_up = peer.recv().await.unwrap();
        let next = peer.recv().await.unwrap();
        assert_ne!(given_up["id"], next["id"]);
        for request in [&given_up, &given_up, &next, &next] {
            peer.answer(request, json!({"runId": request["params"]["runId"], "status": "ok"}))
                .await;
        }
        peer.recv().await
    };
    let (target, _gateway) = serve_embedded(script);
    let (client, _events) = connect(target).await;
    let limit = Duration::from_secs(5);
    let error = client.request_within::<AgentWait>(wait_params("a"), limit).await.unwrap_err();
    assert_eq!(error, GatewayClientError::Timeout { what: "agent.wait", after: limit });
    assert_eq!(client.request::<AgentWait>(wait_params("b")).await.unwrap().run_id, "b");
}

#[tokio::test]
async fn message_over_gateway_limit_is_not_sent() {
    let script = |mut peer: TestGateway| async move {
        peer.accept_handshake_with_policy(json!({"maxPayload": 200})).await;
        peer.recv().await
    };
    let (target, gateway) = serve_embedded(script);
    let (client, _events) = connect(target).await;
    let long = ChatSendParams { message: "x".repeat(200), ..Default::default() };
    let error = client.request::<ChatSend>(long).await.unwrap_err();
    assert!(matches!(error, GatewayClientError::TooLong { bytes_max: 200, .. }), "{error:?}");
    client.close().await;
    assert_eq!(gateway.await.unwrap().unwrap_err().code, 1000);
}
