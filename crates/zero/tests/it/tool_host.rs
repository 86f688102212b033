//! A tool host obeys its own person, whatever its gateway says.

use serde_json::json;
use zero_wire::zero_sessions::ZeroSessionsOpen;

use crate::config::{USER_FILE, write_file};
use crate::gateway_process::{GatewayProcess, connect};
use crate::model_server::ModelServer;
use crate::test_program::TestProgram;

/// Mode of the person at the tool host, mode that the gateway wants, and whether a file is made
/// without asking; nobody is there to be asked.
const CASES: [(&str, &str, bool); 10] = [
    ("ask", "auto", false),
    ("ask", "accept-edits", false),
    ("ask", "plan", false),
    ("plan", "auto", false),
    ("plan", "accept-edits", false),
    ("plan", "ask", false),
    ("accept-edits", "plan", false),
    ("accept-edits", "ask", false),
    // What is not within one's own mode changes nothing of it.
    ("accept-edits", "auto", true),
    ("accept-edits", "accept-edits", true),
];

#[test]
#[expect(clippy::disallowed_methods, reason = "tests use real files directly")]
fn gateway_cannot_make_tool_host_ask_less() {
    let (zero, model) = (TestProgram::new(), ModelServer::start());
    write_file(&zero, USER_FILE, model.settings_json(json!({})));
    let gateway = GatewayProcess::start(&zero);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for (own, wanted, is_made) in CASES {
        write_file(&zero, USER_FILE, model.settings_json(json!({"permissions": {"mode": own}})));
        let key = format!("agent:main:{own}-{wanted}");
        // What the gateway wants is in the terms by which the tool host is greeted.
        runtime.block_on(async {
            let (client, _events) = connect(zero.folder(), &gateway.url, &[]).await;
            let open = serde_json::from_value(json!({"sessionKey": key, "mode": wanted})).unwrap();
            let open = client.request::<ZeroSessionsOpen>(open).await.unwrap();
            assert_eq!(open.mode.as_deref(), Some(wanted));
            client.close().await;
        });
        let seen = zero.run(&["run", "--session", &key, "--url", &gateway.url, "[write]"]);
        let made = zero.folder().join("made.txt");
        assert_eq!(made.exists(), is_made, "{wanted} where {own} holds: {seen}");
        let exit = if is_made { "exit 0" } else { "exit 3" };
        assert!(seen.starts_with(exit), "{wanted} where {own} holds: {seen}");
        if is_made {
            std::fs::remove_file(made).unwrap();
        }
    }
}
