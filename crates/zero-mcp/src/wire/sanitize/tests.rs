//! Random answers: the waiting request always gets an answer or an error, and nothing panics.

use proptest::prelude::*;
use rmcp::model::{ClientRequest, JsonRpcMessage, RequestId, ServerResult};
use rmcp::service::RoleClient;
use serde_json::{Value, json};

use crate::wire::{ConnectionDiagnostics, McpMessageLimits, MessageIntake};

/// Keys and texts of the protocol, so that random answers resemble real ones.
const WORDS: [&str; 24] = [
    "content",
    "type",
    "text",
    "image",
    "data",
    "mimeType",
    "isError",
    "structuredContent",
    "_meta",
    "annotations",
    "audience",
    "tools",
    "name",
    "inputSchema",
    "object",
    "title",
    "nextCursor",
    "resultType",
    "complete",
    "resource",
    "resource_link",
    "uri",
    "blob",
    "icons",
];

fn arbitrary_value() -> impl Strategy<Value = Value> {
    let word = prop::sample::select(&WORDS[..]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        word.clone().prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 64, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((word.clone(), inner), 0..6).prop_map(|members| {
                Value::Object(members.into_iter().map(|(k, v)| (k.to_owned(), v)).collect())
            }),
        ]
    })
}

/// Sends a request, receives an answer, and checks that the request was answered.
fn check(method: &str, answer: &mut [u8]) -> Result<(), TestCaseError> {
    let intake = MessageIntake::<RoleClient>::new(
        McpMessageLimits::default(),
        ConnectionDiagnostics::default(),
    );
    let request: ClientRequest =
        serde_json::from_value(json!({"method": method, "params": {"name": "t"}})).unwrap();
    intake.record_sent(&JsonRpcMessage::request(request, RequestId::Number(1)));
    let taken = intake.receive(answer);
    prop_assert_eq!(taken.messages.len(), 1);
    match (&taken.messages[0], method) {
        (JsonRpcMessage::Error(error), _) => {
            prop_assert_eq!(error.id.as_ref(), Some(&RequestId::Number(1)));
        }
        (JsonRpcMessage::Response(response), "tools/list") => {
            prop_assert!(matches!(response.result, ServerResult::ListToolsResult(_)));
        }
        (JsonRpcMessage::Response(response), _) => {
            prop_assert!(matches!(
                response.result,
                ServerResult::CallToolResult(_)
                    | ServerResult::InputRequiredResult(_)
                    | ServerResult::CreateTaskResult(_)
            ));
        }
        other => prop_assert!(false, "{:?}", other),
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn any_result_is_answered(result in arbitrary_value(), tools in arbitrary_value(), content in arbitrary_value()) {
        for (method, result) in [
            ("tools/call", &result),
            ("tools/list", &result),
            ("tools/list", &json!({"tools": tools})),
            ("tools/list", &json!({"tools": [tools]})),
            ("tools/call", &json!({"content": content})),
            ("tools/call", &json!({"content": [content], "isError": tools})),
        ] {
            let answer = json!({"jsonrpc": "2.0", "id": 1, "result": result}).to_string();
            check(method, &mut answer.into_bytes())?;
        }
    }

    #[test]
    fn random_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..64), result in arbitrary_value()) {
        let intake = MessageIntake::<RoleClient>::new(McpMessageLimits::default(), ConnectionDiagnostics::default());
        intake.receive(&mut bytes.clone());
        intake.receive_head(&bytes);
        intake.receive_tail(&bytes);
        // The same bytes in the middle of a valid answer.
        let mut answer = json!({"jsonrpc": "2.0", "id": 1, "result": result}).to_string().into_bytes();
        let at = answer.len() - bytes.len().min(answer.len() - 25);
        answer.splice(at.., bytes);
        intake.receive(&mut answer);
    }
}
