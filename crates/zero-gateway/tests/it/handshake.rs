//! Successful and failing handshakes.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ring::signature::{Ed25519KeyPair, KeyPair};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio_tungstenite::tungstenite::Message;

use crate::raw_gateway::{ADMIN, PASSWORD, READER, RawGateway, connect_params};

#[tokio::test]
async fn valid_token_receives_hello() {
    let rig = RawGateway::start().await;
    let mut client = rig.client().await;
    assert!(client.challenge.get("seq").is_none());
    assert_eq!(client.challenge["payload"]["nonce"].as_str().unwrap().len(), 36);
    let mut hello = client.connect(connect_params(ADMIN)).await["payload"].take();
    assert_eq!(hello["server"]["connId"].take().as_str().unwrap().len(), 36);
    assert!(hello["snapshot"]["uptimeMs"].take().is_u64());
    let methods = hello["features"]["methods"].take();
    assert_eq!(methods[0], "connect");
    assert!(methods.as_array().unwrap().contains(&json!("health")));
    insta::assert_snapshot!(format!("{hello:#}"), @r#"
    {
      "type": "hello-ok",
      "protocol": 4,
      "server": {
        "version": "1.2.3",
        "connId": null
      },
      "features": {
        "methods": null,
        "events": [
          "connect.challenge",
          "tick",
          "chat",
          "agent",
          "exec.approval.requested",
          "exec.approval.resolved",
          "shutdown",
          "zero.session.event",
          "zero.run.unrecorded",
          "tools/use",
          "tools/cancel",
          "tools/terms",
          "tools/displaced"
        ],
        "capabilities": [
          "zero.sessions",
          "zero.cwd",
          "zero.replay",
          "zero.approvals",
          "zero.questions",
          "zero.tools",
          "zero.devices",
          "zero.machine"
        ]
      },
      "snapshot": {
        "presence": [],
        "health": {},
        "stateVersion": {
          "presence": 0,
          "health": 0
        },
        "uptimeMs": null,
        "sessionDefaults": {
          "defaultAgentId": "main",
          "mainKey": "main",
          "mainSessionKey": "agent:main:main"
        }
      },
      "auth": {
        "role": "operator",
        "scopes": [
          "operator.admin"
        ]
      },
      "policy": {
        "maxPayload": 26214400,
        "maxBufferedBytes": 52428800,
        "tickIntervalMs": 30000
      }
    }
    "#);
    client.check_health().await;
}

/// The result of `connect` with changed parameters: the granted scopes, or the error and close
/// code.
async fn connect_outcome(rig: &RawGateway, change: Value) -> String {
    let mut client = rig.client().await;
    let mut params = connect_params(ADMIN);
    for (name, value) in change.as_object().unwrap() {
        match value {
            Value::Null => drop(params.as_object_mut().unwrap().remove(name)),
            value => params[name] = value.clone(),
        }
    }
    let answer = client.connect(params).await;
    if answer["ok"] == true {
        let hello = &answer["payload"];
        return format!("{} {}", hello["protocol"], hello["auth"]["scopes"]);
    }
    let (error, closed) = (&answer["error"], client.wait_closed().await);
    let word =
        error["details"]["code"].as_str().unwrap_or_else(|| error["message"].as_str().unwrap());
    format!("{} {word}, {}", error["code"].as_str().unwrap(), closed.0)
}

#[tokio::test]
async fn protocol_and_scopes_are_negotiated() {
    let rig = RawGateway::start().await;
    let rows = [
        (json!({}), r#"4 ["operator.admin"]"#),
        (json!({"scopes": null}), r#"4 ["operator.admin"]"#),
        (json!({"scopes": []}), r#"4 ["operator.admin"]"#),
        (json!({"scopes": ["operator.read"]}), r#"4 ["operator.read"]"#),
        (json!({"auth": {"token": READER}}), r#"4 ["operator.read"]"#),
        (json!({"auth": {"password": PASSWORD}}), r#"4 ["operator.write"]"#),
        (json!({"role": null}), r#"4 ["operator.admin"]"#),
        (json!({"minProtocol": 3}), r#"4 ["operator.admin"]"#),
        (json!({"minProtocol": 1, "maxProtocol": 99}), r#"4 ["operator.admin"]"#),
        (json!({"minProtocol": 3, "maxProtocol": 3}), "3 null"),
        (json!({"minProtocol": 5, "maxProtocol": 9}), "INVALID_REQUEST PROTOCOL_MISMATCH, 1002"),
        (json!({"minProtocol": 1, "maxProtocol": 2}), "INVALID_REQUEST PROTOCOL_MISMATCH, 1002"),
        (json!({"minProtocol": 4, "maxProtocol": 3}), "INVALID_REQUEST PROTOCOL_MISMATCH, 1002"),
        (json!({"auth": null}), "INVALID_REQUEST AUTH_TOKEN_MISSING, 1008"),
        (json!({"auth": {"token": "wrong"}}), "INVALID_REQUEST AUTH_TOKEN_MISMATCH, 1008"),
        (json!({"auth": {"password": "wrong"}}), "INVALID_REQUEST AUTH_PASSWORD_MISMATCH, 1008"),
        (
            json!({"role": "node"}),
            "INVALID_REQUEST invalid role: this gateway has no nodes; connect as `operator`, 1008",
        ),
        (
            json!({"x": 1}),
            "INVALID_REQUEST invalid connect params: at root: unexpected property 'x', 1008",
        ),
    ];
    for (change, expected) in rows {
        assert_eq!(connect_outcome(&rig, change.clone()).await, expected, "{change}");
    }
    let zero = json!({"client": {"id": "zero", "version": "1", "platform": "l", "mode": "cli"}});
    let refused = connect_outcome(&rig, zero).await;
    assert!(refused.starts_with("INVALID_REQUEST invalid connect params: "), "{refused}");
}

#[tokio::test]
async fn refusals_carry_details() {
    let rig = RawGateway::start().await;
    let mut client = rig.client().await;
    let answer = client.connect(connect_params("wrong")).await;
    assert_eq!(
        answer["error"]["details"],
        json!({
            "code": "AUTH_TOKEN_MISMATCH",
            "authReason": "token_mismatch",
            "canRetryWithDeviceToken": false,
            "recommendedNextStep": "update_auth_credentials",
        })
    );
    let mut client = rig.client().await;
    let mut params = connect_params(ADMIN);
    params["minProtocol"] = json!(7);
    params["maxProtocol"] = json!(8);
    let answer = client.connect(params).await;
    assert_eq!(
        answer["error"]["details"],
        json!({
            "code": "PROTOCOL_MISMATCH",
            "clientMinProtocol": 7,
            "clientMaxProtocol": 8,
            "expectedProtocol": 4,
            "minimumProbeProtocol": 3,
        })
    );
    assert_eq!(client.wait_closed().await, (1002, "protocol mismatch".to_owned()));
}

#[tokio::test]
async fn first_message_must_be_connect() {
    let rig = RawGateway::start().await;
    let rows = [
        (Message::text("hello"), 1000, ""),
        (Message::text(""), 1000, ""),
        (Message::binary(b"{}".as_slice()), 1000, ""),
        (Message::text("[]"), 1008, "invalid request frame: must be object"),
        (Message::text(r#"{"type":"event","event":"x"}"#), 1008, "invalid request frame"),
        (
            Message::text(r#"{"type":"req","method":"connect"}"#),
            1008,
            "invalid request frame: must have required property 'id'",
        ),
        (
            Message::text(r#"{"type":"req","id":"1","method":"health"}"#),
            1008,
            "invalid handshake: first request must be connect",
        ),
    ];
    for (message, code, reason) in rows {
        let mut client = rig.client().await;
        client.send(message.clone()).await;
        assert_eq!(client.wait_closed().await, (code, reason.to_owned()), "{message}");
    }
    let mut client = rig.client().await;
    let answer = client.call_method("1", "health", json!({})).await;
    assert_eq!(answer["error"]["code"], "INVALID_REQUEST");
}

#[tokio::test]
async fn bad_input_after_handshake_gets_error_answer() {
    let rig = RawGateway::start().await;
    let mut client = rig.connected_client(ADMIN).await;
    client.send_text("not json").await;
    client.send(Message::binary(vec![1, 2, 3])).await;
    let again = client.call_method("2", "connect", connect_params(ADMIN)).await;
    assert_eq!(again["error"]["message"], "connect is only valid as the first request");
    let unknown = client.call_method("3", "no.such", json!({})).await;
    assert_eq!(unknown["error"]["code"], "INVALID_REQUEST");
    assert_eq!(unknown["error"]["message"], "unknown method: no.such");
    client.send_text(r#"{"type":"req","method":"health"}"#).await;
    let nameless = client.next_frame().await;
    assert_eq!(nameless["id"], "invalid");
    let message = "invalid request frame: must have required property 'id'";
    assert_eq!(nameless["error"]["message"], message);
    client.send_text(r#"{"type":"res","id":"9","ok":true}"#).await;
    assert_eq!(client.next_frame().await["id"], "invalid");
    client.check_health().await;
}

/// A device with a fixed key.
pub(crate) struct TestDevice(Ed25519KeyPair);

impl TestDevice {
    pub(crate) fn new(seed: u8) -> Self {
        Self(Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).unwrap())
    }

    pub(crate) fn proof(&self, nonce: &str, ts: i64, token: &str) -> Value {
        let key = self.0.public_key().as_ref();
        let id: String = Sha256::digest(key).iter().map(|byte| format!("{byte:02x}")).collect();
        let text = format!("v3|{id}|cli|cli|operator|operator.admin|{ts}|{token}|{nonce}|linux|");
        let base64 = |bytes: &[u8]| BASE64_URL_SAFE_NO_PAD.encode(bytes);
        json!({
            "id": id,
            "publicKey": base64(key),
            "signature": base64(self.0.sign(text.as_bytes()).as_ref()),
            "signedAt": ts,
            "nonce": nonce,
        })
    }
}

#[tokio::test]
async fn device_proof_is_optional_but_must_be_valid() {
    let rig = RawGateway::start().await;
    let device = TestDevice::new(7);
    let check = async |nonce: Option<&str>, token: &str, expected: &str| {
        let mut client = rig.client().await;
        let challenge = client.challenge["payload"].take();
        let nonce = nonce.unwrap_or(challenge["nonce"].as_str().unwrap());
        let mut params = connect_params(ADMIN);
        params["device"] = device.proof(nonce, challenge["ts"].as_i64().unwrap(), token);
        let answer = client.connect(params).await;
        let outcome = match answer["ok"] == true {
            true => "in".to_owned(),
            false => {
                let details = &answer["error"]["details"];
                let closed = client.wait_closed().await.0;
                format!("{} {} {closed}", details["code"], details["reason"])
            }
        };
        assert_eq!(outcome, expected);
    };
    check(None, ADMIN, "in").await;
    let signature = r#""DEVICE_AUTH_SIGNATURE_INVALID" "device-signature" 1008"#;
    check(None, "another token", signature).await;
    let nonce = r#""DEVICE_AUTH_NONCE_MISMATCH" "device-nonce-mismatch" 1008"#;
    check(Some("a5981a70-f2ef-4293-a34b-457e38e52eb2"), ADMIN, nonce).await;
}

#[tokio::test]
async fn device_without_token_is_refused() {
    let rig = RawGateway::start().await;
    let mut client = rig.client().await;
    let challenge = client.challenge["payload"].take();
    let mut params = connect_params(ADMIN);
    params.as_object_mut().unwrap().remove("auth");
    let (nonce, ts) = (challenge["nonce"].as_str().unwrap(), challenge["ts"].as_i64().unwrap());
    params["device"] = TestDevice::new(7).proof(nonce, ts, "");
    let answer = client.connect(params).await;
    assert_eq!(answer["error"]["details"]["code"], "AUTH_TOKEN_MISSING");
}
