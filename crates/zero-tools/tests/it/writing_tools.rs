//! The examples in `docs/how-to/write-tools.md` work exactly as written there.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use zero_tools::tool_discovery::{LIST_TIMEOUT, ToolDiscovery, ToolDiscoveryConfig};

use crate::fixture::{ToolFixture, result_text};

fn repository_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Returns an example, which must occur literally in the document.
fn read_example(name: &str) -> String {
    let text = std::fs::read_to_string(repository_root().join("examples").join(name)).unwrap();
    let document =
        std::fs::read_to_string(repository_root().join("docs/how-to/write-tools.md")).unwrap();
    assert!(document.contains(&format!("\n{text}```\n")), "the document shows another {name}");
    text
}

#[test]
fn guide_rust_code_matches_example() {
    let code = read_example("custom-tool/src/count_words.rs");
    assert!(code.contains("impl Tool for CountWords"));
}

#[tokio::test]
async fn guide_commands_provide_tools() {
    let f = ToolFixture::one_shot();
    f.write_file("tools/list.sh", read_example("command-tools/list.sh"));
    f.write_file("tools/call.py", read_example("command-tools/call.py"));
    let words = |text: &str| text.split(' ').map(str::to_owned).collect();
    let discovery = ToolDiscovery::new(ToolDiscoveryConfig {
        list: words("sh tools/list.sh"),
        call: words("python3 tools/call.py"),
        folder: f.host.workspace().cwd().to_owned(),
        list_timeout: LIST_TIMEOUT,
        state: f.host.state().clone(),
        services: f.host.services(),
    });
    let refreshed = discovery.refresh(f.host.registry()).await.unwrap();
    assert_eq!(refreshed.quarantined, []);
    let outcome = f.call("cmd__count_words", json!({"text": "one two  three"})).await.unwrap();
    assert_eq!(result_text(&outcome), "{\"words\": 3}\n");
    assert_eq!(outcome.result.structured, json!({"words": 3}));
    let today = result_text(&f.call("cmd__today", json!({})).await.unwrap());
    assert!(today.len() == "2026-01-01\n".len() && today.starts_with("20"), "{today}");
    let error = f.call("cmd__count_words", json!({})).await.unwrap_err();
    assert!(error.message.contains("/text"), "{error}");
}

#[test]
fn guide_server_speaks_protocol() {
    read_example("mcp-server/words.py");
    let requests = [
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "id": "two", "method": "tools/list"}),
        json!({"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "count", "arguments": {"text": "a b c"}}}),
        json!({"jsonrpc": "2.0", "id": 4, "method": "server/discover"}),
        json!({"jsonrpc": "2.0", "id": 5, "method": "ping"}),
    ];
    let mut server = Command::new("python3")
        .arg(repository_root().join("examples/mcp-server/words.py"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = server.stdin.take().unwrap();
    for request in &requests {
        writeln!(stdin, "{request}").unwrap();
    }
    drop(stdin);
    let output = server.wait_with_output().unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    let replies: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(replies.len(), 5);
    let ids: Vec<&Value> = replies.iter().map(|reply| &reply["id"]).collect();
    assert_eq!(ids, [&json!(1), &json!("two"), &json!(3), &json!(4), &json!(5)]);
    assert_eq!(replies[0]["result"]["protocolVersion"], "2025-11-25");
    assert_eq!(replies[1]["result"]["tools"][0]["name"], "count");
    assert_eq!(replies[2]["result"]["content"], json!([{"type": "text", "text": "3 words"}]));
    assert_eq!(replies[3]["error"]["code"], -32601);
    assert_eq!(replies[4]["result"], json!({}));
}
