//! `zero sessions`.

#![expect(clippy::disallowed_methods, reason = "tests use real files directly")]

use serde_json::{Value, json};
use zero_sandbox::StateDir;
use zero_sandbox::folder_lease::FolderLease;
use zero_wire::chat::{AgentWait, AgentWaitStatus, ChatSend};
use zero_wire::client::{GatewayClient, GatewayClientError};
use zero_wire::zero_sessions::{
    ApprovalsListParams, ApprovalsResolveParams, ZeroApprovalsList, ZeroApprovalsResolve,
};

use crate::config::{USER_FILE, write_file};
use crate::doctor::damage_settings;
use crate::gateway_process::{GatewayProcess, TIMEOUT, connect};
use crate::model_server::ModelServer;
use crate::test_program::TestProgram;

#[test]
fn session_can_be_listed_shown_exported_reset_and_deleted() {
    let (zero, model) = (TestProgram::new(), ModelServer::start());
    write_file(&zero, USER_FILE, model.settings_json(json!({})));
    let seen = zero.run(&["sessions", "list"]);
    assert!(seen.starts_with("exit 0\n--- stderr") && seen.contains("zero run"), "{seen}");
    zero.stdout(&["run", "--session", "bug-42", "hi"]);
    assert!(zero.stdout(&["sessions", "list"]).contains("agent:main:bug-42"));
    let listed: Value =
        serde_json::from_str(&zero.stdout(&["sessions", "list", "--json"])).unwrap();
    assert_eq!(listed[0]["key"], "agent:main:bug-42");
    for name in ["bug-42", "agent:main:bug-42"] {
        let shown = zero.stdout(&["sessions", "show", name]);
        assert!(shown.contains("> hi") && shown.contains("Hello from the model."), "{shown}");
    }
    let shown = zero.stdout(&["sessions", "show", "bug-42", "--context"]);
    assert!(shown.contains("counted by the provider") && shown.contains("\nFree "), "{shown}");
    assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
    let json: Value =
        serde_json::from_str(&zero.stdout(&["sessions", "show", "bug-42", "--context", "--json"]))
            .unwrap();
    let kinds: Vec<&str> =
        json["parts"].as_array().unwrap().iter().filter_map(|part| part["kind"].as_str()).collect();
    assert_eq!(kinds, ["system_prompt", "tools", "user", "assistant"], "{json}");
    let told = zero.stdout(&["run", "--session", "bug-42", "/context"]);
    assert!(told.contains("Tools: built in") && told.contains("Messages: user (1)"), "{told}");
    let lines = zero.stdout(&["sessions", "export", "bug-42", "--format", "jsonl"]);
    let seqs =
        lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["seq"].clone());
    assert!(seqs.eq((1..=lines.lines().count()).map(Value::from)), "{lines}");
    zero.stdout(&["sessions", "export", "bug-42", "-o", "out.md"]);
    let written = std::fs::read_to_string(zero.folder().join("out.md")).unwrap();
    assert!(written.contains("Hello from the model."), "{written}");
    let seen = zero.run(&["sessions", "export", "bug-42", "-o", "out.md"]);
    assert!(seen.starts_with("exit 2") && seen.contains("already exists"), "{seen}");
    std::os::unix::fs::symlink("nowhere.md", zero.folder().join("link.md")).unwrap();
    let seen = zero.run(&["sessions", "export", "bug-42", "-o", "link.md"]);
    assert!(seen.starts_with("exit 2") && seen.contains("already exists"), "{seen}");
    assert!(!zero.folder().join("nowhere.md").exists());
    let seen = zero.run(&["sessions", "export", "bug-42", "-o", "/proc/out.md"]);
    assert!(seen.starts_with("exit 1") && seen.contains("a writable folder"), "{seen}");
    zero.stdout(&["sessions", "reset", "bug-42"]);
    zero.stdout(&["run", "--session", "bug-42", "anew"]);
    let request = model.requests().pop().unwrap().to_string();
    assert!(!request.contains("\"hi\"") && request.contains("anew"), "{request}");
    assert!(zero.stdout(&["sessions", "show", "bug-42"]).contains("> hi"), "what was shown stays");
    let seen = zero.run(&["sessions", "delete", "bug-42"]);
    assert!(seen.starts_with("exit 2") && seen.contains("--yes"), "{seen}");
    zero.stdout(&["sessions", "delete", "bug-42", "--yes"]);
    for what in ["show", "export", "reset", "delete"] {
        let seen = zero.run(&["sessions", what, "bug-42"]);
        assert!(seen.starts_with("exit 2") && seen.contains("no session"), "{what}: {seen}");
    }
}

#[test]
fn name_in_other_case_is_another_session_and_is_named() {
    let zero = TestProgram::new();
    zero.stdout(&["run", "--session", "bug-42", "/help"]);
    let hint = "there is `agent:main:bug-42`: upper and lower case letters differ";
    for args in [
        ["sessions", "show", "Bug-42"],
        ["sessions", "export", "agent:main:BUG-42"],
        ["run", "--resume=Bug-42", "/help"],
    ] {
        let seen = zero.run(&args);
        assert!(seen.starts_with("exit 2") && seen.contains(hint), "{args:?}: {seen}");
    }
    let seen = zero.run(&["sessions", "show", "ug-42"]);
    assert!(seen.starts_with("exit 2") && !seen.contains("upper and lower"), "{seen}");
    let seen = zero.run(&["run", "--session", "Bug-42", "/help"]);
    assert!(
        seen.contains("`Bug-42` is a new session; there is also `agent:main:bug-42`"),
        "{seen}"
    );
    let seen = zero.run(&["run", "--session", "Bug-42", "/help"]);
    assert!(seen.starts_with("exit 0") && !seen.contains("is a new session"), "{seen}");
    let listed = zero.stdout(&["sessions", "list"]);
    assert!(
        listed.contains("agent:main:bug-42") && listed.contains("agent:main:Bug-42"),
        "{listed}"
    );
}

#[test]
fn session_can_be_forked() {
    let (zero, model) = (TestProgram::new(), ModelServer::start());
    write_file(&zero, USER_FILE, model.settings_json(json!({})));
    zero.stdout(&["run", "--session", "bug-42", "first words"]);
    let seen = zero.stdout(&["sessions", "fork", "bug-42", "other-way"]);
    assert!(seen.contains("zero run --session agent:main:other-way"), "{seen}");
    zero.stdout(&["run", "--session", "other-way", "second words"]);
    let request = model.requests().pop().unwrap().to_string();
    assert!(request.contains("first words") && request.contains("second words"), "{request}");
    assert!(!zero.stdout(&["sessions", "show", "bug-42"]).contains("second words"));
    let forked: Value =
        serde_json::from_str(&zero.stdout(&["sessions", "fork", "bug-42", "--json"])).unwrap();
    let key = forked["sessionKey"].as_str().unwrap();
    assert!(key.starts_with("agent:main:bug-42-"), "{forked}");
    assert_eq!(forked["title"], "first words (fork)");
    let seen = zero.run(&["sessions", "fork", "bug-42", "other-way"]);
    assert!(seen.starts_with("exit ") && !seen.starts_with("exit 0"), "{seen}");
    assert!(seen.contains("there is a session `agent:main:other-way` already"), "{seen}");
    let seen = zero.run(&["sessions", "fork", "nobody"]);
    assert!(seen.starts_with("exit 2") && seen.contains("no session"), "{seen}");
}

#[test]
fn refused_request_leaves_no_session() {
    let (zero, model) = (TestProgram::new(), ModelServer::start());
    write_file(&zero, USER_FILE, model.settings_json(json!({})));
    let refused = zero.run(&["run", "--session", "s", "--model", "nope", "hi"]);
    assert!(refused.starts_with("exit 2"), "{refused}");
    let gateway = GatewayProcess::start(&zero);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (client, _events) = connect(zero.folder(), &gateway.url, &[]).await;
        let sent = |key: &str, more: Value| {
            let mut send = json!({"sessionKey": key, "message": "hi", "idempotencyKey": "r"});
            send.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            client.request::<ChatSend>(serde_json::from_value(send).unwrap())
        };
        let long = "x".repeat(3 * 1024 * 1024);
        for (key, more) in [
            ("agent:nobody:a", json!({})),
            ("b", json!({"sessionId": "sess_gone"})),
            ("c", json!({"message": long})),
        ] {
            let error = sent(key, more).await.unwrap_err();
            assert!(matches!(error, GatewayClientError::Refused { .. }), "{key}: {error}");
        }
    });
    assert_eq!(zero.stdout(&["sessions", "list", "--json"]).trim(), "[]");
}

/// Waits until a call of a run waits for approval; returns the id of the approval.
async fn wait_for_approval(client: &GatewayClient, run: &str) -> String {
    let until = std::time::Instant::now() + TIMEOUT;
    loop {
        let listed = client.request::<ZeroApprovalsList>(ApprovalsListParams::default()).await;
        let pending = listed.unwrap().approvals;
        if let Some(asked) = pending.into_iter().find(|asked| asked.run_id.as_deref() == Some(run))
        {
            return asked.request.id;
        }
        let wait = json!({"runId": run, "timeoutMs": 20});
        let wait =
            client.request::<AgentWait>(serde_json::from_value(wait).unwrap()).await.unwrap();
        assert_eq!(wait.status, AgentWaitStatus::Timeout, "{run} ended without a question");
        assert!(std::time::Instant::now() < until, "{run} does not ask");
    }
}

#[test]
fn grant_at_gateway_is_listed_and_revoked_by_any_process() {
    let (zero, model) = (TestProgram::outside_tmp(), ModelServer::start());
    write_file(&zero, USER_FILE, model.settings_json(json!({})));
    let gateway = GatewayProcess::start(&zero);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (client, _events) = runtime.block_on(connect(zero.folder(), &gateway.url, &[]));
    let script =
        format!("script:\ncall Bash {}\nturn\nsay Well.", json!({"command": "touch made.txt"}));
    let send = |run: &str| {
        let send = json!({"sessionKey": "s", "message": script, "idempotencyKey": run});
        let send = client.request::<ChatSend>(serde_json::from_value(send).unwrap());
        runtime.block_on(send).unwrap();
    };
    let answer = |run: &str, answer: &str| {
        let id = runtime.block_on(wait_for_approval(&client, run));
        let answer = ApprovalsResolveParams { id, answer: answer.to_owned() };
        runtime.block_on(client.request::<ZeroApprovalsResolve>(answer)).unwrap();
    };
    let end = |run: &str| {
        let wait = json!({"runId": run, "timeoutMs": TIMEOUT.as_millis() as u64});
        let wait = client.request::<AgentWait>(serde_json::from_value(wait).unwrap());
        let ended = runtime.block_on(wait).unwrap();
        assert_eq!(ended.status, AgentWaitStatus::Ok, "{ended:?}");
    };
    let grants = |more: &[&str]| zero.stdout(&[&["sessions", "grants", "s"], more].concat());
    let revoke = ["--revoke", "Edit(/made.txt)"];
    send("granted");
    answer("granted", "allow_always");
    end("granted");
    send("not-asked");
    end("not-asked");
    // In the store that both processes use, and through the gateway.
    let url = ["--url", gateway.url.as_str()];
    for (number, revoke) in [revoke.to_vec(), [revoke, url].concat()].iter().enumerate() {
        let listed = grants(&[]);
        assert!(listed.contains("Edit(/made.txt)"), "{listed}");
        assert_eq!(grants(revoke), "revoked 1 grant\n");
        assert_eq!(grants(&["--json"]).trim(), "{\n  \"grants\": []\n}");
        let run = format!("asked-again-{number}");
        send(&run);
        answer(&run, "allow_always");
        end(&run);
    }
}

#[test]
fn settings_limit_sessions_per_owner() {
    let (zero, model) = (TestProgram::new(), ModelServer::start());
    write_file(&zero, USER_FILE, model.settings_json(json!({"gateway": {"maxSessions": 1}})));
    zero.stdout(&["run", "--session", "one", "hi"]);
    zero.stdout(&["run", "--session", "one", "hi"]);
    let seen = zero.run(&["run", "--session", "two", "hi"]);
    assert!(seen.starts_with("exit 2") && seen.contains("`zero sessions delete`"), "{seen}");
    write_file(&zero, USER_FILE, model.settings_json(json!({"gateway": {"maxSessionBytes": 100}})));
    let seen = zero.run(&["run", "--session", "one", "hi"]);
    let how = "`zero sessions delete agent:main:one`";
    assert!(seen.starts_with("exit 2") && seen.contains(how), "{seen}");
    zero.stdout(&["sessions", "delete", "one", "--yes"]);
    zero.stdout(&["run", "--session", "two", "hi"]);
}

#[test]
fn damaged_session_that_is_served_does_not_stop_prune() {
    let zero = TestProgram::new();
    for name in ["one", "two"] {
        zero.stdout(&["run", "--session", name, "/help"]);
    }
    let listed: Value =
        serde_json::from_str(&zero.stdout(&["sessions", "list", "--json"])).unwrap();
    let of = |session: &&Value| session["key"] == "agent:main:one";
    let id = listed.as_array().unwrap().iter().find(of).unwrap()["sessionId"].as_str().unwrap();
    damage_settings(&zero, "one");
    // As a process that has it open.
    let state = StateDir::new(zero.folder().join("home/.local/state/zero"));
    let _lease = FolderLease::acquire(&state, "served-sessions", &format!("{id}.other")).unwrap();
    let audit = state.path().join("audit");
    let old = audit.join("2020-01-01.jsonl");
    std::fs::create_dir_all(&audit).unwrap();
    // The newest is kept.
    for path in [&old, &audit.join("2020-01-02.jsonl")] {
        std::fs::write(path, "").unwrap();
    }
    write_file(&zero, USER_FILE, r#"{"retention": {"auditDays": 30, "journalDays": 30}}"#);
    let seen = zero.run(&["prune", "--days", "1"]);
    assert!(seen.starts_with("exit 1"), "{seen}");
    assert!(seen.contains("removed 1 days of the audit log") && !old.exists(), "{seen}");
    assert!(seen.contains("2 sessions are kept"), "{seen}");
    let named = format!(
        "recorded changes cannot be pruned: a process of zero has the damaged session `{id}` open"
    );
    assert!(seen.contains(&named), "{seen}");
}

#[test]
fn prune_says_what_it_removes() {
    let zero = TestProgram::new();
    zero.run(&["run", "--session", "kept", "/help"]);
    let seen = zero.run(&["prune"]);
    assert!(seen.starts_with("exit 0") && seen.contains("removed 0 sessions, 0 B"), "{seen}");
    assert!(seen.contains("no rule says which sessions are old; pass --days"), "{seen}");
    assert!(seen.contains("1 sessions are kept"), "{seen}");
    let seen = zero.run(&["prune", "--days", "1", "--dry-run", "--json"]);
    let report: Value = serde_json::from_str(seen.split_once('\n').unwrap().1).unwrap();
    assert_eq!(report["dryRun"], true);
    assert_eq!((&report["removed"], &report["bytes"]), (&json!([]), &json!(0)), "it is not old");
    assert_eq!(report["store"]["sessions"], 1);
    // Other data has rules of its own.
    let audit = zero.folder().join("home/.local/state/zero/audit");
    let old = audit.join("2020-01-01.jsonl");
    std::fs::create_dir_all(&audit).unwrap();
    for path in [&old, &audit.join("2020-01-02.jsonl")] {
        std::fs::write(path, "").unwrap();
    }
    write_file(&zero, USER_FILE, r#"{"retention": {"auditDays": 30, "auditBytes": 1}}"#);
    let seen = zero.run(&["prune", "--dry-run"]);
    assert!(seen.contains("would remove 1 days of the audit log, 0 B; 1 are kept, 0 B"), "{seen}");
    assert!(old.exists());
    let seen = zero.run(&["prune", "--json"]);
    let report: Value = serde_json::from_str(seen.split_once('\n').unwrap().1).unwrap();
    assert_eq!(report["data"][0]["kind"], "audit");
    assert_eq!((&report["data"][0]["removed"], old.exists()), (&json!(1), false), "{report}");
    let seen = zero.run(&["doctor"]);
    assert!(seen.contains("(`retention.auditBytes`)"), "{seen}");
    // Rewriting the file would hold up a gateway.
    let gateway = GatewayProcess::start(&zero);
    let seen = zero.run(&["prune", "--compact"]);
    assert!(seen.starts_with("exit 2") && seen.contains("stop it first"), "{seen}");
    drop(gateway);
    let seen = zero.run(&["prune", "--compact"]);
    assert!(seen.starts_with("exit 0") && seen.contains("1 sessions are kept"), "{seen}");
}

#[cfg(feature = "cluster")]
#[test]
fn sessions_are_migrated_to_database_and_back() {
    use crate::postgres_server::{PASSWORD, PostgresServer};

    let (zero, model) = (TestProgram::new(), ModelServer::start());
    write_file(&zero, USER_FILE, model.settings_json(json!({})));
    for key in ["one", "two"] {
        zero.stdout(&["run", "--session", key, "hi"]);
    }
    let server = PostgresServer::start();
    let password = format!(":{}@", PASSWORD);
    let database = server.url("zero", "postgres").replace(&password, "@");
    let migrate = |from: &str, to: &str, more: &[&str]| {
        let mut args = vec!["sessions", "migrate", "--from", from, "--to", to];
        args.extend(more);
        zero.run(&args)
    };
    let seen = migrate("sqlite", &database, &["--dry-run"]);
    assert!(seen.contains("would copy 2 sessions and the usage of 2 runs"), "{seen}");
    let gateway = GatewayProcess::start(&zero);
    let seen = migrate("sqlite", &database, &[]);
    assert!(seen.starts_with("exit 2") && seen.contains("another gateway has"), "{seen}");
    drop(gateway);
    let seen = migrate("sqlite", &database, &[]);
    assert!(seen.starts_with("exit 0") && seen.contains("copied 2 sessions ("), "{seen}");
    let seen = migrate(&database, "sqlite:back.sqlite", &[]);
    assert!(seen.starts_with("exit 0") && seen.contains("copied 2 sessions ("), "{seen}");
    let seen = migrate("sqlite", &database, &["--json"]);
    assert!(seen.contains("\"copied\": 0") && seen.contains("\"present\": 2"), "{seen}");
    for (from, to, expected) in [
        ("sqlite", "sqlite:x", "one of --from and --to is `sqlite`"),
        ("sqlite:none", database.as_str(), "there are no sessions in"),
        ("mysql://secret@x", "sqlite", "--from and --to take `sqlite`"),
        ("sqlite", "postgres://zero:secret@x/zero", "must not contain the password"),
    ] {
        let seen = migrate(from, to, &[]);
        assert!(seen.starts_with("exit 2") && seen.contains(expected), "{seen}");
        assert!(!seen.contains("secret"), "{seen}");
    }
}
