//! Replays recorded conversations between a real OpenClaw bridge and a gateway: the test sends the
//! bridge's half, and the gateway has to answer as recorded.
//!
//! The rig in `tests/interop` makes the recordings. A field that is removed, renamed or changes its
//! type makes these tests fail; the bridge would have noticed too.

use std::collections::HashMap;

use serde_json::Value;
use tokio::net::TcpStream;
use zero_wire::device::{ChallengeContext, DeviceKey};
use zero_wire::handshake::ConnectParams;

use crate::bridge_frames::{FrameLog, parse_recording};
use crate::bridge_gateway::{FOLDER, TOKEN, start_bridge_gateway};
use crate::raw_gateway::{PATIENCE, RawArrival, RawClient};

#[tokio::test]
async fn new_session_and_prompt_match_recording() {
    replay_recording(include_str!("../fixtures/bridge/new_and_prompt.jsonl")).await;
}

#[tokio::test]
async fn tool_calls_match_recording() {
    replay_recording(include_str!("../fixtures/bridge/tool_calls.jsonl")).await;
}

#[tokio::test]
async fn cancelled_prompt_matches_recording() {
    replay_recording(include_str!("../fixtures/bridge/cancel.jsonl")).await;
}

#[tokio::test]
async fn overlapping_prompts_match_recording() {
    replay_recording(include_str!("../fixtures/bridge/overlapping.jsonl")).await;
}

#[tokio::test]
async fn image_prompt_matches_recording() {
    replay_recording(include_str!("../fixtures/bridge/image.jsonl")).await;
}

#[tokio::test]
async fn granted_approval_matches_recording() {
    replay_recording(include_str!("../fixtures/bridge/approval_allow.jsonl")).await;
}

#[tokio::test]
async fn denied_approval_matches_recording() {
    replay_recording(include_str!("../fixtures/bridge/approval_deny.jsonl")).await;
}

#[tokio::test]
async fn session_list_load_and_reset_match_recording() {
    replay_recording(include_str!("../fixtures/bridge/list_load_reset.jsonl")).await;
}

/// Sends the bridge's frames, each after all frames arrived that the bridge had received before it.
async fn replay_recording(text: &str) {
    let recorded = parse_recording(text);
    let rig = start_bridge_gateway(&recorded).await;
    let client = RawClient::from_stream(rig.gateway.tcp().await).await;
    let mut replay = BridgeReplay { client, folder: rig.folder(), heard: FrameLog::default() };
    replay.heard.add(replay.client.challenge.clone());
    let mut expected = FrameLog::default();
    for line in recorded {
        if line.is_from_gateway {
            expected.add(line.frame);
        } else {
            replay.receive(&expected).await;
            let heard = replay.heard.ids().count();
            assert!(heard >= expected.ids().count(), "ids are missing: {heard}");
            let names = expected.ids().zip(replay.heard.ids());
            let names = names.map(|(recorded, ours)| (recorded.to_owned(), ours.to_owned()));
            replay.send(&line.frame, &names.collect()).await;
        }
    }
    replay.receive(&expected).await;
    expected.compare(&replay.heard);
    replay.heard.check_sequence_numbers();
}

struct BridgeReplay {
    client: RawClient<TcpStream>,
    /// The real folder of the session.
    folder: String,
    heard: FrameLog,
}

impl BridgeReplay {
    /// Receives until all expected frames have arrived.
    async fn receive(&mut self, expected: &FrameLog) {
        let hearing = async {
            while !self.heard.contains_all(expected) {
                match self.client.next_arrival().await {
                    RawArrival::Frame(frame) => {
                        let text = frame.to_string().replace(&self.folder, FOLDER);
                        self.heard.add(serde_json::from_str(&text).unwrap());
                    }
                    RawArrival::Closed(code, reason) => panic!("closed {code} {reason:?}"),
                }
            }
        };
        if tokio::time::timeout(PATIENCE, hearing).await.is_err() {
            expected.compare(&self.heard);
            panic!("what the gateway says is another than it was");
        }
    }

    /// Sends a recorded frame with our folder, token and signature, and the ids that our gateway
    /// assigned.
    async fn send(&mut self, frame: &Value, names: &HashMap<String, String>) {
        let mut text = frame.to_string().replace(FOLDER, &self.folder).replace("\"TOKEN\"", TOKEN);
        for (recorded, ours) in names {
            text = text.replace(recorded.as_str(), ours);
        }
        let mut frame: Value = serde_json::from_str(&text).unwrap();
        if frame["method"] == "connect" {
            self.sign_challenge(&mut frame["params"]);
        }
        self.client.send_text(frame.to_string()).await;
    }

    /// Signs our challenge as the bridge signed its own.
    fn sign_challenge(&self, params: &mut Value) {
        let challenge = &self.client.challenge["payload"];
        let read: ConnectParams = serde_json::from_value(params.clone()).unwrap();
        let token = params["auth"]["token"].as_str().unwrap().to_owned();
        let role = params["role"].as_str().unwrap().to_owned();
        let scopes: Vec<String> = serde_json::from_value(params["scopes"].clone()).unwrap();
        let context = ChallengeContext::from_client(&read.client, &role, &scopes, &token)
            .with_challenge(
                challenge["nonce"].as_str().unwrap(),
                challenge["ts"].as_i64().unwrap(),
            );
        let (key, _) = DeviceKey::generate().unwrap();
        let proof = serde_json::to_value(key.prove(&context)).unwrap();
        let fields = |proof: &Value| proof.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        assert_eq!(fields(&params["device"]), fields(&proof), "the bridge proves it otherwise");
        params["device"] = proof;
    }
}
