//! Whatever the other end of an MCP connection writes: no panic, every answer is one to what was
//! asked, and nothing is answered twice.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rmcp::model::{JsonRpcMessage, RequestId};
use rmcp::service::{RoleClient, RoleServer, TxJsonRpcMessage};
use serde_json::{Value, json};
use zero_mcp::wire::{Intake, Limits, Role, Troubles};

/// Small enough that made-up messages reach them.
const LIMITS: fn() -> Limits = || Limits { depth_max: 16, nodes_max: 500, requests_max: 4, ..Limits::default() };

fuzz_target!(|data: &[u8]| {
    let client = Intake::<RoleClient>::new(LIMITS(), Troubles::default());
    let asked = [
        ("initialize", json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "z", "version": "0"}})),
        ("tools/list", json!({})),
        ("tools/call", json!({"name": "t"})),
        ("ping", Value::Null),
    ];
    for (id, (method, params)) in asked.into_iter().enumerate() {
        let mut message = json!({"jsonrpc": "2.0", "id": id, "method": method});
        if !params.is_null() {
            message["params"] = params;
        }
        client.sending(&serde_json::from_value::<TxJsonRpcMessage<RoleClient>>(message).unwrap());
    }
    let mut answered = take_all(&client, data);
    assert!(answered.iter().all(|id| matches!(id, RequestId::Number(0..4))), "{answered:?}");
    let count = answered.len();
    answered.sort_by_key(|id| id.to_string());
    answered.dedup();
    assert_eq!(answered.len(), count, "something was answered twice");

    let server = Intake::<RoleServer>::new(LIMITS(), Troubles::default());
    assert_eq!(take_all(&server, data), [], "nothing was asked");
});

/// Takes all lines in, and gives the ids of answers that got through.
fn receive_all<R: Role>(intake: &Intake<R>, data: &[u8]) -> Vec<RequestId> {
    let mut answered = Vec::new();
    for line in data.split(|byte| *byte == b'\n') {
        let whole = intake.take(&mut line.to_vec());
        let head = intake.take_head(line);
        let tail = intake.take_tail(line);
        for message in [whole, head, tail].into_iter().flat_map(|taken| taken.messages) {
            match message {
                JsonRpcMessage::Response(response) => answered.push(response.id),
                JsonRpcMessage::Error(error) => answered.extend(error.id),
                _ => {}
            }
        }
    }
    answered
}
