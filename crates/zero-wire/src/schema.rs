//! The tables of all methods and events, and the JSON Schema of the whole protocol, generated from
//! the types.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use crate::error::ErrorPayload;
use crate::frame::GatewayFrame;
use crate::handshake::{ConnectChallenge, PROTOCOL, PROTOCOL_MIN};
use crate::method::MethodInfo;
use crate::{
    approvals, chat, devices, events, handshake, machine, nodes, sessions, tools, usage,
    zero_sessions,
};

/// Returns every method: first `connect`, then those of OpenClaw, then zero's own.
pub fn methods() -> impl Iterator<Item = &'static MethodInfo> {
    let tables = [
        handshake::METHODS,
        chat::METHODS,
        sessions::METHODS,
        approvals::METHODS,
        zero_sessions::METHODS,
        usage::METHODS,
        devices::METHODS,
        machine::METHODS,
        nodes::METHODS,
        tools::METHODS,
    ];
    tables.into_iter().flatten()
}

/// An event as a row of a table.
#[derive(Clone, Copy, Debug)]
pub struct EventInfo {
    /// Name on the wire.
    pub name: &'static str,
    payload: fn(&mut SchemaGenerator) -> Schema,
}

impl EventInfo {
    const fn for_payload<T: JsonSchema>(name: &'static str) -> Self {
        Self { name, payload: |generator| generator.subschema_for::<T>() }
    }
}

const EVENTS: &[EventInfo] = &[
    EventInfo::for_payload::<ConnectChallenge>(events::CONNECT_CHALLENGE),
    EventInfo::for_payload::<events::TickEvent>(events::TICK),
    EventInfo::for_payload::<events::ChatEvent>(events::CHAT),
    EventInfo::for_payload::<events::AgentEvent>(events::AGENT),
    EventInfo::for_payload::<events::ApprovalRequestedEvent>(events::APPROVAL_REQUESTED),
    EventInfo::for_payload::<events::ApprovalResolvedEvent>(events::APPROVAL_RESOLVED),
    EventInfo::for_payload::<events::ShutdownEvent>(events::SHUTDOWN),
    EventInfo::for_payload::<zero_sessions::SessionEvent>(zero_sessions::SESSION_EVENT),
    EventInfo::for_payload::<zero_sessions::RunUnrecorded>(zero_sessions::RUN_UNRECORDED),
    EventInfo::for_payload::<tools::ToolsUseEvent>(tools::TOOLS_USE),
    EventInfo::for_payload::<tools::ToolsCancelEvent>(tools::TOOLS_CANCEL),
    EventInfo::for_payload::<tools::ToolsTerms>(tools::TOOLS_TERMS),
    EventInfo::for_payload::<tools::ToolsDisplacedEvent>(tools::TOOLS_DISPLACED),
];

/// Returns every event.
pub fn events() -> impl Iterator<Item = &'static EventInfo> {
    EVENTS.iter()
}

/// Returns the JSON Schema of the protocol. Its root describes a frame; `methods` has the scope,
/// parameters and result of each method, `events` the payload of each event.
pub fn protocol_schema() -> Value {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    let frame = generator.subschema_for::<GatewayFrame>();
    let error = generator.subschema_for::<ErrorPayload>();
    let methods: Map<String, Value> = methods()
        .map(|method| {
            let params = (method.params)(&mut generator);
            let result = (method.result)(&mut generator);
            let row = json!({"scope": method.scope.as_str(), "params": params, "result": result});
            (method.name.to_owned(), row)
        })
        .collect();
    let events: Map<String, Value> = events()
        .map(|event| (event.name.to_owned(), json!({"payload": (event.payload)(&mut generator)})))
        .collect();
    let mut definitions = generator.take_definitions(true);
    definitions.sort_keys();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "zero gateway protocol",
        "description": "Each text message of the WebSocket is one JSON object, a frame. `methods` \
            has the schemas of the params of each request and of the payload of its response, \
            `events` has the schema of the payload of each event.",
        "x-protocol": {"min": PROTOCOL_MIN, "max": PROTOCOL},
        "allOf": [frame],
        "error": error,
        "methods": methods,
        "events": events,
        "$defs": definitions,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::LazyLock;

    use jsonschema::Validator;

    use super::*;

    static FRAMES: LazyLock<Validator> =
        LazyLock::new(|| jsonschema::draft202012::new(&protocol_schema()).unwrap());

    #[test]
    fn protocol_schema_is_valid_and_unchanged() {
        let schema = protocol_schema();
        assert!(jsonschema::draft202012::meta::is_valid(&schema));
        insta::assert_snapshot!(serde_json::to_string_pretty(&schema).unwrap());
    }

    #[test]
    fn method_and_event_names_are_unique_and_ordered() {
        let names: Vec<&str> =
            methods().map(|method| method.name).chain(events().map(|event| event.name)).collect();
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len(), "{names:?}");
        assert_eq!(names.first(), Some(&"connect"));
        for needed in [
            "chat.send",
            "chat.abort",
            "chat.history",
            "agent.wait",
            "sessions.list",
            "sessions.resolve",
            "sessions.get",
            "sessions.reset",
            "sessions.patch",
            "sessions.delete",
            "sessions.preview",
            "exec.approval.get",
            "exec.approval.resolve",
            "health",
            "tools/attach",
            "tools/result",
            "zero.sessions.open",
        ] {
            assert!(names.contains(&needed), "{needed}");
        }
    }

    #[test]
    fn params_schemas_reject_unknown_fields() {
        let schema = protocol_schema();
        for method in methods() {
            let params = schema["methods"][method.name]["params"]["$ref"].as_str().unwrap();
            let params = schema.pointer(params.strip_prefix('#').unwrap()).unwrap();
            assert_eq!(params["additionalProperties"], json!(false), "{}", method.name);
        }
    }

    #[track_caller]
    fn check(frame: Value, is_frame: bool) {
        assert_eq!(FRAMES.is_valid(&frame), is_frame, "{frame}");
        assert_eq!(crate::frame::parse(&frame.to_string()).is_ok(), is_frame, "{frame}");
    }

    #[test]
    fn frame_schema_agrees_with_parser() {
        check(json!({"type": "req", "id": "1", "method": "health"}), true);
        check(json!({"type": "req", "id": "1", "method": "health", "params": {"a": [1]}}), true);
        check(json!({"type": "req", "id": "", "method": "health"}), false);
        check(json!({"type": "req", "id": "1"}), false);
        check(json!({"type": "req", "id": "1", "method": "health", "x": 1}), false);
        check(json!({"type": "res", "id": "1", "ok": true, "payload": null}), true);
        check(
            json!({"type": "res", "id": "1", "ok": false, "error": {"code": "X", "message": "m"}}),
            true,
        );
        check(json!({"type": "res", "id": "1", "ok": false, "error": {"code": "X"}}), false);
        check(json!({"type": "event", "event": "tick", "seq": 1}), true);
        check(json!({"type": "event", "event": "tick", "seq": -1}), false);
        check(json!({"type": "event"}), false);
        check(json!({"type": "hello"}), false);
    }
}
