//! `zero mcp` on the command line.

#![expect(clippy::disallowed_methods, reason = "tests use real files directly")]

use serde_json::Value;

use crate::config::{PROJECT_FILE, USER_FILE, write_file};
use crate::test_program::TestProgram;

#[test]
fn every_mcp_command_help_has_example() {
    let zero = TestProgram::new();
    for words in [
        &["mcp"][..],
        &["mcp", "status"],
        &["mcp", "reconnect"],
        &["mcp", "approve"],
        &["mcp", "login"],
        &["mcp", "logout"],
        &["mcp", "install"],
        &["tools", "refresh"],
    ] {
        let help = zero.stdout(&[words, &["--help"]].concat());
        assert!(help.contains("Example"), "{words:?}: {help}");
        let page = zero.stdout(&[&["man"], words].concat());
        assert!(page.contains("zero"), "{words:?}: {page}");
    }
    let script = zero.stdout(&["completions", "bash"]);
    assert!(
        script.contains("zero__subcmd__mcp__subcmd__install")
            || script.contains("zero__mcp__install")
    );
}

/// Where each client keeps its servers: the person's file, the project's, and the section.
const CLIENTS: [(&str, &str, &str, &str); 4] = [
    ("claude", "home/.claude.json", ".mcp.json", "mcpServers"),
    ("cursor", "home/.cursor/mcp.json", ".cursor/mcp.json", "mcpServers"),
    ("zed", "home/.config/zed/settings.json", ".zed/settings.json", "context_servers"),
    ("vscode", "home/.config/Code/User/mcp.json", ".vscode/mcp.json", "servers"),
];

#[test]
fn install_writes_file_or_entry_per_client() {
    for (client, own, project, section) in CLIENTS {
        for (file, flags) in [(own, &[][..]), (project, &["--project"])] {
            let zero = TestProgram::new();
            let args = [&["mcp", "install", client], flags].concat();
            let printed = zero.stdout(&args);
            assert!(printed.contains(section) && printed.contains("\"mcp\""), "{printed}");
            assert!(!zero.folder().join(file).exists(), "printing writes nothing");

            let write_args = [&args[..], &["--write"]].concat();
            assert!(zero.stdout(&write_args).starts_with("wrote `zero`"), "{client}");
            let text = std::fs::read_to_string(zero.folder().join(file)).unwrap();
            let read: Value = serde_json::from_str(&text).unwrap();
            let entry = &read[section]["zero"];
            assert!(std::path::Path::new(entry["command"].as_str().unwrap()).is_file());
            assert_eq!(entry["args"], serde_json::json!(["mcp"]), "{client}");
            assert!(zero.stdout(&write_args).contains("` is already in "), "{client}");
            assert_eq!(std::fs::read_to_string(zero.folder().join(file)).unwrap(), text);

            let old = format!(
                "// mine\n{{\n  \"{section}\": {{\n    \"git\": {{\"command\": \"g\"}}, // keep\n  }},\n}}\n"
            );
            write_file(&zero, file, &old);
            zero.stdout(&write_args);
            let new = std::fs::read_to_string(zero.folder().join(file)).unwrap();
            assert!(
                new.contains("// mine") && new.contains("\"git\": {\"command\": \"g\"}, // keep"),
                "{new}"
            );
            assert!(new.contains("\"zero\""), "{new}");

            let other = format!("{{\"{section}\": {{\"zero\": {{\"url\": \"https://x.org\"}}}}}}");
            write_file(&zero, file, &other);
            let seen = zero.run(&write_args);
            assert!(seen.starts_with("exit 2") && seen.contains("remove that entry"), "{seen}");
            assert_eq!(std::fs::read_to_string(zero.folder().join(file)).unwrap(), other);

            write_file(&zero, file, "{ broken");
            let seen = zero.run(&write_args);
            assert!(seen.starts_with("exit 2") && seen.contains("nothing was written"), "{seen}");
            assert_eq!(std::fs::read_to_string(zero.folder().join(file)).unwrap(), "{ broken");
        }
    }
}

#[test]
fn install_honors_requested_options() {
    let zero = TestProgram::new();
    let printed = zero.stdout(&[
        "mcp",
        "install",
        "zed",
        "--name",
        "hands",
        "--dialect",
        "acp",
        "--workspace",
        ".",
    ]);
    let folder = zero.folder().canonicalize().unwrap().display().to_string();
    let read: Value = serde_json::from_str(&printed).unwrap();
    let entry = &read["context_servers"]["hands"];
    assert_eq!(
        entry["args"],
        serde_json::json!(["mcp", "--dialect", "acp", "--workspace", folder])
    );
    assert_eq!(entry["source"], "custom");
    let seen = zero.run(&["mcp", "install", "zed", "--name", "a b"]);
    assert!(seen.starts_with("exit 2") && seen.contains("cannot name a server"), "{seen}");
}

#[test]
fn install_does_not_follow_checkout_link() {
    let zero = TestProgram::new();
    write_file(&zero, "home/secret.json", "{}");
    std::os::unix::fs::symlink("home/secret.json", zero.folder().join(".mcp.json")).unwrap();
    let seen = zero.run(&["mcp", "install", "claude", "--project", "--write"]);
    assert!(seen.starts_with("exit 2") && seen.contains("is a link"), "{seen}");
    assert_eq!(std::fs::read_to_string(zero.folder().join("home/secret.json")).unwrap(), "{}");
}

#[test]
fn status_reads_settings_without_starting_servers() {
    let zero = TestProgram::new();
    write_file(
        &zero,
        USER_FILE,
        r#"{"mcpServers": {
"docs": {"url": "https://docs.example.com/mcp?key=s3cret"},
"git": {"command": "sh", "args": ["-c", "touch started"]},
"old": {"command": "sh", "disabled": true},
"unset": {"command": "${NOT_SET_ANYWHERE}"}}}"#,
    );
    write_file(&zero, PROJECT_FILE, r#"{"mcpServers": {"theirs": {"command": "x"}}}"#);
    insta::assert_snapshot!(zero.run(&["mcp", "status", "--offline"]), @"
    exit 1
    SERVER  STATE       TRANSPORT                     SOURCE
    docs    configured  https://docs.example.com/mcp  ~/.config/zero/settings.json:2
    git     configured  sh -c touch started           ~/.config/zero/settings.json:3
    old     disabled                                  ~/.config/zero/settings.json:4
    unset   invalid                                   ~/.config/zero/settings.json:5
    --- stderr
    note: 1 setting of this folder is not active; see `zero trust`
    note: server `unset`: `command`: the variable `NOT_SET_ANYWHERE` is not set; set it before you start zero, or write `${NOT_SET_ANYWHERE:-default}`
    ");
    assert!(!zero.folder().join("started").exists());
    let json = zero.run(&["mcp", "status", "git", "--offline", "--json"]);
    assert!(
        json.starts_with("exit 0") && json.contains("\"set_up\"") && !json.contains("docs"),
        "{json}"
    );
    for (alias, expected) in
        [("gti", "did you mean `git`?"), ("theirs", "not active until the folder is trusted")]
    {
        let seen = zero.run(&["mcp", "status", alias, "--offline"]);
        assert!(seen.starts_with("exit 2") && seen.contains(expected), "{seen}");
    }
    for (command, alias, expected) in [
        ("login", "git", "is a command"),
        ("logout", "git", "is a command"),
        ("approve", "unset", "cannot be used"),
        ("reconnect", "old", "disabled"),
    ] {
        let seen = zero.run(&["mcp", command, alias]);
        assert!(seen.starts_with("exit 2") && seen.contains(expected), "{seen}");
    }
}

#[test]
fn http_serving_is_local_unless_allowed() {
    let zero = TestProgram::new();
    write_file(&zero, "token", "short\n");
    for (args, expected) in [
        (&["mcp", "--http", "0.0.0.0:0"][..], "is reachable from other machines"),
        (&["mcp", "--http", "127.0.0.1:0", "--token-file", "token"], "contains no valid token"),
        (
            &["mcp", "--http", "127.0.0.1:0", "--token-file", "token"],
            "other users can read the token",
        ),
        (&["mcp", "--http", "127.0.0.1:0", "--token-file", "none"], "does not exist"),
        (&["mcp", "--http", "127.0.0.1:0", "--allow-host", "x:1"], "omit the port"),
        (&["mcp", "--allow-remote"], "--http"),
        (&["mcp", "--http", "127.0.0.1:0", "--allow-origin", "x"], "is not an origin"),
        (&["mcp", "--http", "here"], "--http"),
        (&["mcp", "--yes", "status"], "status"),
    ] {
        let seen = zero.run(args);
        assert!(seen.starts_with("exit 2") && seen.contains(expected), "{args:?}: {seen}");
    }
}

#[test]
fn refresh_needs_discovery_command() {
    let zero = TestProgram::new();
    let seen = zero.run(&["tools", "refresh"]);
    assert!(seen.starts_with("exit 2") && seen.contains("tools.toolDiscoveryCommand"), "{seen}");
}

#[test]
fn stdio_client_lists_and_calls_tools() {
    let zero = TestProgram::new();
    write_file(&zero, "hello.txt", "hi there\n");
    let input = [
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#,
        r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"Read","arguments":{"file_path":"hello.txt"}}}"#,
    ];
    let seen = zero.run_with_input(&["mcp"], &(input.join("\n") + "\n"));
    assert!(seen.starts_with("exit 0"), "{seen}");
    let answers: Vec<Value> =
        seen.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let answer = |id: u64| answers.iter().find(|answer| answer["id"] == id).unwrap();
    assert_eq!(answer(1)["result"]["protocolVersion"], "2025-11-25", "{seen}");
    let tools = answer(2)["result"]["tools"].as_array().unwrap();
    assert!(tools.iter().any(|tool| tool["name"] == "Read"), "{seen}");
    assert!(answer(3).to_string().contains("hi there"), "{seen}");
}

#[test]
fn failing_server_is_reported_and_blocks_nothing() {
    let zero = TestProgram::new();
    write_file(&zero, USER_FILE, r#"{"mcpServers": {"gone": {"command": "no-such-program"}}}"#);
    write_file(&zero, "hello.txt", "hi there\n");
    let seen = zero.run(&["mcp", "status"]);
    assert!(
        seen.starts_with("exit 1") && seen.contains("gone") && seen.contains("failed"),
        "{seen}"
    );
    let seen = zero.run(&["mcp", "reconnect", "gone"]);
    assert!(seen.starts_with("exit 1") && seen.contains("server `gone`"), "{seen}");
    let seen = zero.run(&["tools", "call", "gone__x", "{}"]);
    assert!(seen.starts_with("exit 1") && seen.contains("MCP server `gone`"), "{seen}");
    assert!(
        zero.run(&["tools", "call", "Read", r#"{"file_path": "hello.txt"}"#]).contains("hi there")
    );
}
