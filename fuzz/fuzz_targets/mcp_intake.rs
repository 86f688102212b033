//! Whatever the other end of an MCP connection writes: no panic, every answer is one to what was
//! asked, and nothing is answered twice.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rmcp::model::{JsonRpcMessage, RequestId};
use rmcp::service::{RoleClient, RoleServer, TxJsonRpcMessage};
use serde_json::{Value, json};
use zero_mcp::wire::{ConnectionDiagnostics, ConnectionRole, McpMessageLimits, MessageIntake};

/// Small enough that made-up messages reach them.
const LIMITS: fn() -> McpMessageLimits = || McpMessageLimits {
    depth_max: 16,
    nodes_max: 500,
    requests_max: 4,
    ..McpMessageLimits::default()
};

fuzz_target!(|data: &[u8]| {
    let client = MessageIntake::<RoleClient>::new(LIMITS(), ConnectionDiagnostics::default());
    let asked = [
        (
            "initialize",
            json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "z", "version": "0"}}),
        ),
        ("tools/list", json!({})),
        ("tools/call", json!({"name": "t"})),
        ("ping", Value::Null),
    ];
    for (id, (method, params)) in asked.into_iter().enumerate() {
        let mut message = json!({"jsonrpc": "2.0", "id": id, "method": method});
        if !params.is_null() {
            message["params"] = params;
        }
        client
            .record_sent(&serde_json::from_value::<TxJsonRpcMessage<RoleClient>>(message).unwrap());
    }
    let mut answered = receive_all(&client, data);
    assert!(answered.iter().all(|id| matches!(id, RequestId::Number(0..4))), "{answered:?}");
    let count = answered.len();
    answered.sort_by_key(|id| id.to_string());
    answered.dedup();
    assert_eq!(answered.len(), count, "something was answered twice");

    let server = MessageIntake::<RoleServer>::new(LIMITS(), ConnectionDiagnostics::default());
    assert_eq!(receive_all(&server, data), [], "nothing was asked");
});

/// Takes all lines in, and gives the ids of answers that got through.
fn receive_all<R: ConnectionRole>(intake: &MessageIntake<R>, data: &[u8]) -> Vec<RequestId> {
    let mut answered = Vec::new();
    for line in data.split(|byte| *byte == b'\n') {
        let whole = intake.receive(&mut line.to_vec());
        let head = intake.receive_head(line);
        let tail = intake.receive_tail(line);
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
