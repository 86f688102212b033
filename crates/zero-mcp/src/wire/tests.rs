//! Tests with hostile peers, one behaviour per row, on streams in memory.

use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, ClientRequest, ErrorCode, JsonRpcMessage, RequestId, ServerResult,
};
use rmcp::service::{RoleClient, RoleServer, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport as _;
use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream,
};

use super::{
    ConnectionDiagnostics, ConnectionRole, DisconnectCause, LineTransport, McpMessageLimits,
};

/// Time limit for every step, generous enough for a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A connection whose other end the test controls.
struct TransportFixture<R: ConnectionRole> {
    lines: LineTransport<R>,
    there: DuplexStream,
}

fn new_fixture<R: ConnectionRole>(limits: McpMessageLimits) -> TransportFixture<R> {
    let (here, there) = tokio::io::duplex(64 << 10);
    let (input, output) = tokio::io::split(here);
    TransportFixture {
        lines: LineTransport::new(input, output, limits, ConnectionDiagnostics::default()),
        there,
    }
}

/// Lists tools (id 1), calls one (id 2) and pings (id 3), then receives what the server sends, and
/// renders what the SDK gets: the id and the kind of each message.
async fn deliver(server_says: &[u8]) -> (Vec<String>, ConnectionDiagnostics) {
    let mut fixture = new_fixture::<RoleClient>(McpMessageLimits {
        line_bytes_max: 1 << 20,
        ..McpMessageLimits::default()
    });
    for (id, request) in [
        (1, json!({"method": "tools/list"})),
        (2, json!({"method": "tools/call", "params": {"name": "t"}})),
        (3, json!({"method": "ping"})),
    ] {
        fixture.lines.send(request_message(id, request)).await.unwrap();
    }
    let bytes = server_says.to_vec();
    let (mut unread, mut writing) = tokio::io::split(fixture.there);
    let server = tokio::spawn(async move {
        writing.write_all(&bytes).await.unwrap();
        writing.shutdown().await.unwrap();
    });
    let mut shown = Vec::new();
    let receiving = async {
        while let Some(message) = fixture.lines.receive().await {
            shown.push(describe_message(&message));
        }
    };
    tokio::time::timeout(PATIENCE, receiving).await.expect("it hangs");
    server.await.unwrap();
    assert_eq!(fixture.lines.close_cause(), Some(DisconnectCause::ByPeer));
    let _ = unread.read(&mut [0; 16]).await;
    (shown, fixture.lines.diagnostics().clone())
}

fn request_message(id: i64, request: Value) -> TxJsonRpcMessage<RoleClient> {
    let request: ClientRequest = serde_json::from_value(request).unwrap();
    JsonRpcMessage::request(request, RequestId::Number(id))
}

fn describe_message(message: &RxJsonRpcMessage<RoleClient>) -> String {
    match message {
        JsonRpcMessage::Response(response) => {
            let what = match &response.result {
                ServerResult::ListToolsResult(list) => {
                    let names: Vec<&str> = list.tools.iter().map(|tool| &*tool.name).collect();
                    format!("tools {}", names.join(" "))
                }
                ServerResult::CallToolResult(result) => {
                    let texts: Vec<&str> =
                        result.content.iter().filter_map(|c| Some(&*c.as_text()?.text)).collect();
                    format!("call {}", texts.join(" "))
                }
                ServerResult::EmptyResult(_) => "empty".into(),
                other => format!("{other:?}"),
            };
            format!("{}: {what}", response.id)
        }
        JsonRpcMessage::Error(error) => {
            let id = error.id.as_ref().map_or("-".into(), ToString::to_string);
            format!("{id}: error {}", error.error.message)
        }
        JsonRpcMessage::Request(request) => format!("{}? {:?}", request.id, request.request),
        JsonRpcMessage::Notification(_) => "notification".into(),
    }
}

/// Checks what the SDK gets for what the server sends.
async fn check(server_says: impl AsRef<[u8]>, expected: &[&str]) -> ConnectionDiagnostics {
    let says = server_says.as_ref();
    let (shown, troubles) = deliver(says).await;
    let head = String::from_utf8_lossy(says.get(..300).unwrap_or(says)).into_owned();
    assert_eq!(shown, expected, "{head}");
    troubles
}

const PONG: &str = r#"{"jsonrpc":"2.0","id":3,"result":{}}"#;
const CALLED: &str =
    r#"{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"hi"}]}}"#;

#[tokio::test]
async fn valid_messages_are_delivered() {
    check(format!("{PONG}\n{CALLED}\n"), &["3: empty", "2: call hi"]).await;
    check(format!("{PONG}\r\n\r\n\u{feff}{CALLED}\r\n"), &["3: empty", "2: call hi"]).await;
    check(format!("{PONG}\n{CALLED}"), &["3: empty", "2: call hi"]).await;
    check(PONG.replace("3", r#""3""#), &["3: empty"]).await;
}

/// An answer to the call, with this raw result.
fn call_answer(result: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":2,"result":{result}}}"#)
}

/// An answer to the list request, with these raw tools.
fn list_answer(tools: &[&str]) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"tools":[{}]}}}}"#, tools.join(","))
}

const GOOD: &str = r#"{"name":"good","inputSchema":{"type":"object"}}"#;

#[tokio::test]
async fn noise_is_skipped_and_counted() {
    let noise = "starting...\n{\"level\":\"info\",\"id\":2}\n[]\n[1,2]\n42\n\"x\"\nnull\n{}\n{\"jsonrpc\":\"1.0\",\"id\":9}\n";
    let troubles = check(format!("{noise}{PONG}\n"), &["3: empty"]).await;
    assert_eq!(troubles.report().noise, 9);
    assert_eq!(troubles.report().noise_samples[0], "starting...");
}

#[tokio::test]
async fn unusable_answer_becomes_error_for_waiter() {
    let refused = |why: &str| format!("2: error the answer was refused: {why}");
    let deep = "[".repeat(5000) + &"]".repeat(5000);
    let many = format!("[{}1]", "1,".repeat(300_000));
    let long = "x".repeat(3 << 20);
    for (says, why) in [
        (r#"{"jsonrpc":"2.0","id":2,"result":{"content":[}"#.into(), "it is not valid JSON"),
        (r#"{"jsonrpc":"2.0","id":2,"result":{"content":["#.into(), "it is not valid JSON"),
        (r#"{"id":2,"result":{"content":[]}}"#.into(), "it does not say that it is JSON-RPC 2.0"),
        (r#"{"jsonrpc":"2.0","id":2}"#.into(), "it has neither a result nor an error"),
        (
            r#"{"jsonrpc":"2.0","id":2,"result":{},"error":{"code":1,"message":"x"}}"#.into(),
            "it has both a result and an error",
        ),
        (call_answer("7"), "its result is not an object"),
        (
            call_answer(r#"{"resultType":"odd","content":[]}"#),
            "its `resultType` is \"odd\", which is unknown",
        ),
        (format!("[{CALLED}]"), "it is part of a batch; send one message per line"),
        (
            call_answer(&format!(r#"{{"content":[{{"type":"text","text":"{long}"}}]}}"#)),
            "it is longer than 1048576 bytes",
        ),
        (
            format!(r#"{{"jsonrpc":"2.0","result":{{"x":"{long}"}},"id":2}}"#),
            "it is longer than 1048576 bytes",
        ),
    ] {
        check(format!("{says}\n{PONG}\n"), &[&refused(why), "3: empty"]).await;
    }
    // The answer to a ping is parsed as a whole, so it is refused as a whole.
    for (inside, why) in [
        (deep, "it nests 5001 levels deep, more than 127"),
        (many, "it has more than 200000 values"),
    ] {
        let says = format!(r#"{{"jsonrpc":"2.0","id":3,"result":{{"a":{inside}}}}}"#);
        let refused = format!("3: error the answer was refused: {why}");
        check(format!("{says}\n{CALLED}\n"), &[&refused, "2: call hi"]).await;
    }
}

#[tokio::test]
async fn endless_line_fails_before_it_ends() {
    let mut fixture = new_fixture::<RoleClient>(McpMessageLimits {
        line_bytes_max: 1 << 20,
        ..McpMessageLimits::default()
    });
    fixture.lines.send(request_message(2, json!({"method": "ping"}))).await.unwrap();
    let (_unread, mut writing) = tokio::io::split(fixture.there);
    let server = tokio::spawn(async move {
        let head = br#"{"jsonrpc":"2.0","id":2,"result":{"a":""#;
        writing.write_all(head).await.unwrap();
        while writing.write_all(&[b'x'; 4096]).await.is_ok() {}
    });
    let received = tokio::time::timeout(PATIENCE, fixture.lines.receive()).await.unwrap();
    assert_eq!(
        describe_message(&received.unwrap()),
        "2: error the answer was refused: it is longer than 1048576 bytes"
    );
    drop(fixture.lines);
    tokio::time::timeout(PATIENCE, server).await.unwrap().unwrap();
}

#[tokio::test]
async fn errors_are_read_in_any_form() {
    for (error, expected) in [
        (r#"{"code":-32601,"message":"no"}"#, "2: error no"),
        (r#"{"code":"E1","message":"no"}"#, "2: error no"),
        (r#"{"message":"no"}"#, "2: error no"),
        (r#""no""#, "2: error no"),
        (r#"{"code":1}"#, "2: error an invalid error: {\"code\":1}"),
    ] {
        check(format!(r#"{{"jsonrpc":"2.0","id":2,"error":{error}}}"#), &[expected]).await;
        check(format!(r#"{{"jsonrpc":"2.0","id":2,"result":null,"error":{error}}}"#), &[expected])
            .await;
    }
    let nameless = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"what"}}"#;
    check(nameless, &["-: error what"]).await;
}

#[tokio::test]
async fn invalid_text_is_repaired() {
    let lone = CALLED.replace("hi", "a\\ud800b");
    check(lone, &["2: call a\u{fffd}b"]).await;
    let mut invalid = CALLED.replace("hi", "a?b").into_bytes();
    let at = invalid.windows(3).position(|window| window == b"a?b").unwrap();
    invalid[at + 1] = 0xff;
    let troubles = check(invalid, &["2: call a\u{fffd}b"]).await;
    assert_eq!(troubles.report().mended, 1);
}

#[tokio::test]
async fn answers_count_once_and_only_if_requested() {
    let null = r#"{"jsonrpc":"2.0","id":null,"result":{}}"#;
    let unknown = r#"{"jsonrpc":"2.0","id":99,"result":{}}"#;
    let says = format!("{null}\n{unknown}\n{PONG}\n{PONG}\n{PONG}\n{CALLED}\n");
    let report = check(says, &["3: empty", "2: call hi"]).await.report();
    assert_eq!((report.unasked_answers, report.refused), (3, 1));
}

#[tokio::test]
async fn malformed_tool_does_not_affect_others() {
    let deep = format!(
        r#"{{"name":"deep","inputSchema":{{"type":"object","x":{}1{}}}}}"#,
        "[".repeat(2000),
        "]".repeat(2000)
    );
    let many = format!(r#"{{"name":"many","inputSchema":{{"enum":[{}1]}}}}"#, "1,".repeat(250_000));
    for (tool, name, reason) in [
        (r#"{"name":"bad"}"#, "bad", "its input schema is missing"),
        (r#"{"name":"bad","inputSchema":null}"#, "bad", "its input schema is missing"),
        (r#"{"name":"bad","inputSchema":[]}"#, "bad", "its input schema is not an object"),
        (
            r#"{"name":"bad","inputSchema":{"type":"string"}}"#,
            "bad",
            "its input schema does not describe an object",
        ),
        (r#"{"inputSchema":{}}"#, "(number 1)", "its name is missing"),
        (r#"{"name":" ","inputSchema":{}}"#, "(number 1)", "its name is empty"),
        (r#"{"name":7,"inputSchema":{}}"#, "(number 1)", "its name is not a string"),
        (
            r#"{"name":"a\u0007","inputSchema":{}}"#,
            "a\\u{7}",
            "its name contains invisible characters",
        ),
        ("null", "(number 1)", "it is not an object"),
        (
            r#"{"name":"bad","inputSchema":{"minimum":1e999}}"#,
            "bad",
            "it is not valid JSON: number out of range at line 1 column 44",
        ),
        (&deep, "deep", "it nests 2002 levels deep, more than 127"),
        (&many, "many", "it has more than 200000 values"),
    ] {
        let troubles = check(list_answer(&[tool, GOOD]), &["1: tools good"]).await;
        let quarantined = troubles.report().quarantined;
        let shown: Vec<(&str, &str)> =
            quarantined.iter().map(|one| (&*one.tool, &*one.reason)).collect();
        assert_eq!(shown, [(name, reason)]);
    }
    let troubles = check(list_answer(&[GOOD, GOOD]), &["1: tools good"]).await;
    assert_eq!(troubles.report().quarantined[0].reason, "another tool has the same name");
}

#[tokio::test]
async fn optional_tool_fields_are_dropped_if_invalid() {
    for extra in [
        r#""title":7"#,
        r#""title":null"#,
        r#""description":["a"]"#,
        r#""outputSchema":true"#,
        r#""outputSchema":null"#,
        r#""annotations":"x""#,
        r#""annotations":{"readOnlyHint":"yes","title":{}}"#,
        r#""icons":{}"#,
        r#""icons":[{"src":1}]"#,
        r#""_meta":7"#,
        r#""execution":{"taskSupport":"optional"}"#,
    ] {
        let tool = format!(r#"{{"name":"odd","inputSchema":{{}},{extra}}}"#);
        let troubles = check(list_answer(&[&tool, GOOD]), &["1: tools odd good"]).await;
        assert!(troubles.report().quarantined.is_empty());
    }
}

#[tokio::test]
async fn malformed_block_does_not_affect_others() {
    let left_out = "2: call a [a block of the server's answer was left out: ";
    for (block, expected) in [
        (r#"{"type":"video","data":"x"}"#, format!("{left_out}its kind `video` is unknown] b")),
        ("7", format!("{left_out}it is `7`] b")),
        (r#"{"text":"x"}"#, format!("{left_out}it does not say what kind it is] b")),
        (r#""plain""#, "2: call a plain b".into()),
        (r#"{"type":"text"}"#, "2: call a  b".into()),
        (r#"{"type":"text","text":{"x":1}}"#, "2: call a {\"x\":1} b".into()),
        (r#"{"type":"text","text":"t","annotations":7,"_meta":[]}"#, "2: call a t b".into()),
        (r#"{"type":"text","text":"t","annotations":{"audience":["nobody"]}}"#, "2: call a t b".into()),
        (
            r#"{"type":"image","data":"x"}"#,
            "2: call a [a `image` block of the server's answer was left out: missing field `mimeType`] b".into(),
        ),
        (r#"{"type":"resource_link","uri":"a:b","size":-1}"#, "2: call a b".into()),
    ] {
        let result = format!(
            r#"{{"content":[{{"type":"text","text":"a"}},{block},{{"type":"text","text":"b"}}]}}"#
        );
        check(call_answer(&result), &[&expected]).await;
    }
}

#[tokio::test]
async fn call_results_are_repaired() {
    for (result, expected) in [
        ("{}", "2: call "),
        (r#"{"content":null}"#, "2: call "),
        (r#"{"content":"plain"}"#, "2: call plain"),
        (r#"{"content":{"type":"text","text":"one"}}"#, "2: call one"),
        (r#"{"isError":"true","content":[{"type":"text","text":"x"}]}"#, "2: call x"),
        (r#"{"_meta":7,"content":[{"type":"text","text":"x"}]}"#, "2: call x"),
        (r#"{"resultType":null,"content":[{"type":"text","text":"x"}]}"#, "2: call x"),
    ] {
        check(call_answer(result), &[expected]).await;
    }
}

#[tokio::test]
async fn notification_flood_is_counted() {
    let flood =
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n".repeat(100_000);
    let (shown, troubles) = deliver(format!("{flood}{PONG}\n").as_bytes()).await;
    assert_eq!(shown.len(), 100_001);
    assert_eq!(shown.last().unwrap(), "3: empty");
    assert_eq!(troubles.report().notifications, 100_000);
}

#[tokio::test]
async fn noise_before_first_answer_does_not_block() {
    // The server writes a megabyte before it reads, and this side writes much before it reads.
    let mut fixture = new_fixture::<RoleClient>(McpMessageLimits::default());
    let (mut reading, mut writing) = tokio::io::split(fixture.there);
    let server = tokio::spawn(async move {
        for _ in 0..20_000 {
            writing.write_all(b"{\"level\":\"info\",\"message\":\"hello there\"}\n").await.unwrap();
        }
        let mut read = vec![0; 200_000];
        reading.read_exact(&mut read).await.unwrap();
        writing.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n").await.unwrap();
        writing
    });
    let long = "x".repeat(300_000);
    let request = json!({"method": "tools/call", "params": {"name": long}});
    fixture.lines.send(request_message(1, request)).await.unwrap();
    let received = tokio::time::timeout(PATIENCE, fixture.lines.receive()).await.unwrap();
    assert_eq!(describe_message(&received.unwrap()), "1: call ");
    assert_eq!(fixture.lines.diagnostics().report().noise, 20_000);
    drop(server.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn peer_that_never_reads_is_disconnected() {
    let mut fixture = new_fixture::<RoleClient>(McpMessageLimits::default());
    let long = "x".repeat(300_000);
    let request = json!({"method": "tools/call", "params": {"name": long}});
    fixture.lines.send(request_message(1, request)).await.unwrap();
    assert!(fixture.lines.receive().await.is_none());
    let after = Duration::from_secs(6);
    assert_eq!(fixture.lines.close_cause(), Some(DisconnectCause::WriteTimedOut { after }));
    let error =
        fixture.lines.send(request_message(2, json!({"method": "ping"}))).await.unwrap_err();
    assert!(error.to_string().contains("did not read"), "{error}");
}

#[tokio::test]
async fn messages_sent_byte_by_byte_arrive() {
    let mut fixture = new_fixture::<RoleServer>(McpMessageLimits::default());
    let (_unread, mut writing) = tokio::io::split(fixture.there);
    tokio::spawn(async move {
        for byte in b"{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"ping\"}\r\n" {
            writing.write_all(&[*byte]).await.unwrap();
            tokio::task::yield_now().await;
        }
        writing.shutdown().await.unwrap();
    });
    let eof = fixture.lines.eof();
    let message = fixture.lines.receive().await.unwrap();
    assert!(
        matches!(message, JsonRpcMessage::Request(request) if request.id == RequestId::String("a".into()))
    );
    assert!(fixture.lines.receive().await.is_none());
    assert!(eof.is_cancelled());
}

/// Checks what zero's server replies to a client without the SDK.
async fn check_server(client_says: &str, handed_on: usize, answered: &[(&str, i32)]) {
    let mut fixture = new_fixture::<RoleServer>(McpMessageLimits {
        requests_max: 2,
        ..McpMessageLimits::default()
    });
    let (mut reading, mut writing) = tokio::io::split(fixture.there);
    writing.write_all(client_says.as_bytes()).await.unwrap();
    writing.shutdown().await.unwrap();
    let mut count = 0;
    while fixture.lines.receive().await.is_some() {
        count += 1;
    }
    fixture.lines.close().await.unwrap();
    drop(fixture.lines);
    let mut answers = String::new();
    reading.read_to_string(&mut answers).await.unwrap();
    let answers: Vec<Value> = answers.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let shown: Vec<(String, i32)> = answers
        .iter()
        .map(|answer| {
            let code = i32::try_from(answer["error"]["code"].as_i64().unwrap()).unwrap();
            (answer["id"].to_string(), code)
        })
        .collect();
    let expected: Vec<(String, i32)> =
        answered.iter().map(|(id, code)| ((*id).to_owned(), *code)).collect();
    assert_eq!((count, shown), (handed_on, expected), "{client_says}");
}

#[tokio::test]
async fn client_mistakes_are_answered_with_errors() {
    let invalid = ErrorCode::INVALID_REQUEST.0;
    let ping = |id: &str| format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"ping\"}}");
    check_server(&ping("1"), 1, &[]).await;
    check_server("hello\n{}\n[]\n", 0, &[]).await;
    for no_id in ["null", "1.5", "{}"] {
        check_server(&ping(no_id), 0, &[("null", invalid)]).await;
    }
    check_server(&format!("{}\n{}\n", ping("1"), ping("1")), 1, &[]).await;
    let three = format!("{}\n{}\n{}\n", ping("1"), ping("2"), ping("3"));
    check_server(&three, 2, &[("3", ErrorCode::INTERNAL_ERROR.0)]).await;
    let batch = format!("[{},{}]", ping("1"), ping("\"b\""));
    check_server(&batch, 0, &[("1", invalid), ("\"b\"", invalid)]).await;
    check_server("{\"jsonrpc\":\"2.0\",\"id\":4,\"method\":\"ping\",", 0, &[("4", invalid)]).await;
    let no_name = "{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"tools/call\",\"params\":{}}";
    check_server(no_name, 0, &[("5", ErrorCode::INVALID_PARAMS.0)]).await;
    let deep = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":6,\"method\":\"tools/call\",\"params\":{{\"name\":\"t\",\"arguments\":{{\"a\":{}1{}}}}}}}",
        "[".repeat(500),
        "]".repeat(500)
    );
    check_server(&deep, 0, &[("6", invalid)]).await;
}

#[tokio::test]
async fn reading_client_gets_every_refusal() {
    const MANY: usize = 3_000;
    let mut fixture = new_fixture::<RoleServer>(McpMessageLimits {
        requests_max: 1,
        ..McpMessageLimits::default()
    });
    let (reading, mut writing) = tokio::io::split(fixture.there);
    let says = "{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"ping\"}\n".repeat(MANY);
    let talking = tokio::spawn(async move {
        writing.write_all(says.as_bytes()).await.unwrap();
        writing.shutdown().await.unwrap();
    });
    let answers = tokio::spawn(async move {
        let mut lines = BufReader::new(reading).lines();
        let mut count = 0;
        while lines.next_line().await.unwrap().is_some() {
            count += 1;
        }
        count
    });
    // Like the SDK, drop a pending read now and then.
    loop {
        tokio::select! {
            biased;
            message = fixture.lines.receive() => {
                assert!(message.is_none());
                break;
            }
            () = tokio::task::yield_now() => {}
        }
    }
    fixture.lines.close().await.unwrap();
    drop(fixture.lines);
    talking.await.unwrap();
    assert_eq!(answers.await.unwrap(), MANY);
}

#[tokio::test]
async fn cancelled_request_frees_its_slot() {
    let mut fixture = new_fixture::<RoleServer>(McpMessageLimits {
        requests_max: 1,
        ..McpMessageLimits::default()
    });
    let says = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n\
        {\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":1}}\n\
        {\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\"}\n";
    fixture.there.write_all(says.as_bytes()).await.unwrap();
    for expected in ["request", "notification", "request"] {
        let kind = match fixture.lines.receive().await.unwrap() {
            JsonRpcMessage::Request(_) => "request",
            JsonRpcMessage::Notification(_) => "notification",
            _ => "other",
        };
        assert_eq!(kind, expected);
    }
}

#[tokio::test]
async fn fast_parsed_call_equals_sdk_parsed_call() {
    let says = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"progressToken":7},"name":"t","arguments":{"a":1}}}"#;
    let slow: RxJsonRpcMessage<RoleServer> = serde_json::from_str(says).unwrap();
    let mut fixture = new_fixture::<RoleServer>(McpMessageLimits::default());
    fixture.there.write_all(format!("{says}\n").as_bytes()).await.unwrap();
    let quick = fixture.lines.receive().await.unwrap();
    let (JsonRpcMessage::Request(slow), JsonRpcMessage::Request(quick)) = (slow, quick) else {
        panic!("not a request")
    };
    assert_eq!(format!("{:?}", quick.request), format!("{:?}", slow.request));
    let (slow, quick) = (serde_json::to_value(slow), serde_json::to_value(quick));
    assert_eq!(quick.unwrap(), slow.unwrap());
}

#[tokio::test]
async fn client_gets_every_answer_of_a_burst() {
    const CALLS: usize = 100;
    let fixture = new_fixture::<RoleClient>(McpMessageLimits::default());
    let (reading, mut writing) = tokio::io::split(fixture.there);
    let server = tokio::spawn(async move {
        let mut lines = BufReader::new(reading).lines();
        let mut answers = String::new();
        let (mut calls, mut pings) = (0, 0);
        while let Some(line) = lines.next_line().await.unwrap() {
            let message: Value = serde_json::from_str(&line).unwrap();
            let id = &message["id"];
            let result = match message["method"].as_str() {
                Some("initialize") => json!({
                    "protocolVersion": "2025-11-25", "capabilities": {},
                    "serverInfo": {"name": "test", "version": "1"},
                }),
                Some("tools/call") => json!({"content": []}),
                Some(_) => continue,
                None => {
                    pings += 1;
                    if pings == CALLS { return } else { continue }
                }
            };
            answers += &format!("{}\n", json!({"jsonrpc": "2.0", "id": id, "result": result}));
            if message["method"] == "tools/call" {
                let ping = json!({"jsonrpc": "2.0", "id": calls, "method": "ping"});
                answers += &format!("{ping}\n");
                calls += 1;
            }
            if calls == 0 || calls == CALLS {
                writing.write_all(std::mem::take(&mut answers).as_bytes()).await.unwrap();
            }
        }
        panic!("only {pings} pings were answered");
    });
    let client = rmcp::ServiceExt::serve((), fixture.lines).await.unwrap();
    let calls = (0..CALLS).map(|_| client.call_tool(CallToolRequestParams::new("t")));
    let answers = futures_util::future::join_all(calls);
    let answers = tokio::time::timeout(PATIENCE, answers).await.expect("one is lost");
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    tokio::time::timeout(PATIENCE, server).await.expect("a ping is lost").unwrap();
}
