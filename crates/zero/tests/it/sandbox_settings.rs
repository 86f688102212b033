//! What settings say about commands, as a command meets it.

#![expect(clippy::disallowed_methods, reason = "tests use real files directly")]

use serde_json::{Value, json};

use crate::config::{PROJECT_FILE, USER_FILE, write_file};
use crate::test_program::TestProgram;

/// Runs a command with these flags besides; gives the answer.
fn run_bash(zero: &TestProgram, command: &str, flags: &[&str]) -> Value {
    let input = json!({ "command": command }).to_string();
    let args = [&["tools", "call", "Bash", &input, "--json"], flags].concat();
    let mut program = zero.command(&args);
    let own = [("PATH", "/usr/bin:/bin"), ("MY_FLAG", "on"), ("MY_TOKEN", "s3cret")];
    let output = program.envs(own).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[track_caller]
fn stdout_text(answer: &Value) -> &str {
    answer["result"]["structured"]["stdout"].as_str().unwrap_or_else(|| panic!("{answer}"))
}

/// The limit that ended a command.
#[track_caller]
fn exceeded_limit(answer: &Value) -> &str {
    let details = &answer["error"]["details"];
    assert_eq!(details["reason"], "resource_exhausted", "{answer}");
    details["limit"].as_str().unwrap()
}

const HOG_PROGRAM: &str = "held = bytearray(700_000_000)\nprint(len(held))\n";
const RUN_HOG_COMMAND: &str = "python3 hog.py";

/// A program that needs 700 MB, with these settings and the limits of the profile `strict`.
fn program_with_hog(settings: &str) -> TestProgram {
    let mut settings: Value = serde_json::from_str(settings).unwrap();
    settings["limits"]["profile"] = "strict".into();
    let zero = TestProgram::new();
    write_file(&zero, "hog.py", HOG_PROGRAM);
    write_file(&zero, USER_FILE, settings.to_string());
    zero
}

#[test]
fn fair_profile_is_the_default_and_strict_can_be_chosen() {
    let zero = TestProgram::new();
    write_file(&zero, "hog.py", HOG_PROGRAM);
    assert_eq!(stdout_text(&run_bash(&zero, RUN_HOG_COMMAND, &["--yes"])), "700000000\n");
    let strict = run_bash(&zero, RUN_HOG_COMMAND, &["--yes", "--limit", "profile=strict"]);
    assert_eq!(strict["error"]["details"]["allowed"], 500_000_000, "{strict}");
    // A project needs no trust to choose it, and cannot choose the other one.
    write_file(&zero, PROJECT_FILE, r#"{"limits": {"profile": "strict"}}"#);
    assert_eq!(exceeded_limit(&run_bash(&zero, RUN_HOG_COMMAND, &["--yes"])), "command-memory");
    write_file(&zero, PROJECT_FILE, r#"{"limits": {"profile": "fair"}}"#);
    write_file(&zero, USER_FILE, r#"{"limits": {"profile": "strict"}}"#);
    zero.run(&["trust", "--yes"]);
    assert_eq!(exceeded_limit(&run_bash(&zero, RUN_HOG_COMMAND, &["--yes"])), "command-memory");
}

#[test]
fn command_gets_memory_of_matching_rule() {
    let zero = program_with_hog(r#"{"permissions": {"allow": ["Bash(python3 hog.py)"]}}"#);
    let answer = run_bash(&zero, RUN_HOG_COMMAND, &[]);
    assert_eq!(exceeded_limit(&answer), "command-memory");
    let message = answer["error"]["message"].as_str().unwrap();
    assert!(message.contains("`zero config set limits.Bash.command-memory 1GB`"), "{message}");
    assert_eq!(answer["error"]["details"]["allowed"], 500_000_000);

    let rule = r#"{"rule": "Bash(python3 hog.py)", "limits": {"command-memory": "1GB"}}"#;
    let zero = program_with_hog(&format!(r#"{{"permissions": {{"allow": [{rule}]}}}}"#));
    assert_eq!(stdout_text(&run_bash(&zero, RUN_HOG_COMMAND, &[])), "700000000\n");
    let other = run_bash(&zero, "python3 ./hog.py", &["--yes"]);
    assert_eq!(
        exceeded_limit(&other),
        "command-memory",
        "another command keeps to the usual limit"
    );
    let check = zero.run(&["policy", "check", "Bash", r#"{"command": "python3 hog.py"}"#]);
    assert!(check.contains(r#""limits":{"command-memory":"1 GB"}"#), "{check}");
    let explain = zero.run(&["policy", "explain", RUN_HOG_COMMAND]);
    assert!(explain.contains("limit command-memory is raised to 1 GB"), "{explain}");

    let zero = program_with_hog(&format!(r#"{{"permissions": {{"ask": [{rule}]}}}}"#));
    assert_eq!(
        stdout_text(&run_bash(&zero, RUN_HOG_COMMAND, &["--yes"])),
        "700000000\n",
        "a person said yes"
    );
}

#[test]
fn largest_limit_of_matching_rules_counts() {
    let rules = r#"{"permissions": {"allow": ["Bash(python3:*)",
        {"rule": "Bash(python3 hog.py)", "limits": {"command-memory": "1GB", "command-cpu": "10%"}},
        {"rule": "Bash(python3 hog.py:*)", "limits": {"command-memory": "600MB", "command-cpu": "300%"}}]}}"#;
    let zero = program_with_hog(rules);
    let check = zero.run(&["policy", "check", "Bash", r#"{"command": "python3 hog.py"}"#]);
    assert!(
        check.contains(r#""limits":{"command-memory":"1 GB","command-cpu":"300%"}"#),
        "{check}"
    );
    assert_eq!(stdout_text(&run_bash(&zero, RUN_HOG_COMMAND, &[])), "700000000\n");
}

#[test]
fn tool_and_flag_limits_apply() {
    let allow = r#""permissions": {"allow": ["Bash(python3 hog.py)"]}"#;
    let zero = program_with_hog(&format!(
        r#"{{{allow}, "limits": {{"command-memory": "100MB", "Bash": {{"command-memory": "1GB"}}}}}}"#
    ));
    assert_eq!(stdout_text(&run_bash(&zero, RUN_HOG_COMMAND, &[])), "700000000\n");
    for flag in ["command-memory=100mb", "Bash.command-memory=100mb"] {
        let answer = run_bash(&zero, RUN_HOG_COMMAND, &["--limit", flag]);
        assert_eq!(answer["error"]["details"]["allowed"], 100_000_000, "{answer}");
    }
    zero.stdout(&["config", "set", "limits.Bash.command-memory", "200MB"]);
    assert_eq!(zero.stdout(&["config", "get", "limits.Bash.command-memory"]), "200MB\n");
    assert_eq!(exceeded_limit(&run_bash(&zero, RUN_HOG_COMMAND, &[])), "command-memory");
}

#[test]
fn file_size_limit_is_enforced() {
    let zero = TestProgram::new();
    let command = "head -c 3000000 /dev/zero > big; exit $?";
    let answer = run_bash(&zero, command, &["--yes", "--limit", "command-file=1mb"]);
    assert_eq!(exceeded_limit(&answer), "command-file");
    assert_eq!(std::fs::metadata(zero.folder().join("big")).unwrap().len(), 1_000_000);
    let answer = run_bash(&zero, command, &["--yes"]);
    assert_eq!(answer["result"]["structured"]["exit_code"], 0, "{answer}");
}

#[test]
fn untrusted_folder_raises_no_limit() {
    let zero = program_with_hog("{}");
    let rule = r#"{"rule": "Bash(python3 hog.py)", "limits": {"command-memory": "1GB"}}"#;
    write_file(&zero, PROJECT_FILE, format!(r#"{{"permissions": {{"ask": [{rule}]}}}}"#));
    assert_eq!(exceeded_limit(&run_bash(&zero, RUN_HOG_COMMAND, &["--yes"])), "command-memory");
    let asked = zero.run(&["trust"]);
    assert!(asked.contains("Bash(python3 hog.py) with {\"limits\""), "{asked}");
    zero.stdout(&["trust", "--yes"]);
    assert_eq!(stdout_text(&run_bash(&zero, RUN_HOG_COMMAND, &["--yes"])), "700000000\n");
}

#[test]
fn commands_get_configured_variables_and_folders() {
    let zero = TestProgram::new();
    let home = zero.folder().join("home");
    std::fs::create_dir_all(home.join(".cache/pip")).unwrap();
    write_file(&zero, "w/private/a.txt", "private");
    write_file(&zero, "w/notes.txt", "a note");
    write_file(&zero, "w/open.txt", "open");
    let seen = |command: &str| {
        let answer = run_bash(&zero, command, &["--yes", "--workspace", "w"]);
        stdout_text(&answer).to_owned()
    };
    let env = "echo \"$MY_FLAG-$MY_TOKEN\"";
    let touch = "touch ~/.cache/pip/x 2>/dev/null && echo made; touch ~/y 2>/dev/null; true";
    let read = "cat notes.txt private/a.txt open.txt 2>/dev/null; true";
    assert_eq!(seen(env), "-\n");
    assert_eq!(seen(touch), "");
    assert_eq!(seen(read), "a noteprivateopen");
    write_file(
        &zero,
        USER_FILE,
        r#"{"sandbox": {"environment": ["MY_*"], "writable": ["~/.cache/pip"], "masked": ["notes.txt", "./private"]}}"#,
    );
    assert_eq!(seen(env), "on-\n");
    assert_eq!(seen(touch), "made\n");
    assert!(home.join(".cache/pip/x").exists() && !home.join("y").exists());
    assert_eq!(seen(read), "open");
    zero.stdout(&["config", "add", "sandbox.environment", "MY_TOKEN"]);
    assert_eq!(seen(env), "on-s3cret\n");
}

#[test]
fn protected_folders_cannot_be_opened() {
    let zero = TestProgram::new();
    insta::assert_snapshot!(zero.run(&["config", "add", "sandbox.writable", "~/.ssh"]), @"
    exit 2
    --- stderr
    error: the settings have an error:
      ~/.config/zero/settings.json:4:1: `~/.ssh` must not be writable for commands: it is SSH keys and settings; name a folder that contains only files created by commands
    nothing was written
    ");
    insta::assert_snapshot!(zero.run(&["config", "add", "sandbox.writable", "/"]), @"
    exit 2
    --- stderr
    error: the settings have an error:
      ~/.config/zero/settings.json:4:7: `/` is the whole machine; name a folder that contains only files created by commands
    nothing was written
    ");
    insta::assert_snapshot!(zero.run(&["config", "add", "sandbox.weaker", "walls"]), @r#"
    exit 2
    --- stderr
    error: the settings have an error:
      ~/.config/zero/settings.json:4:7: `sandbox.weaker.0` is "walls"; write one of "writes", "attributes", "protected", "masked", "network", "host_sockets", "processes", "private_tmp", "system_calls", "privileges"
    nothing was written
    "#);
    write_file(&zero, USER_FILE, "{\"sandbox\": {\"writable\": [\n\"~/.local/state\"]}}");
    insta::assert_snapshot!(zero.run(&["tools", "call", "LS", "{}"]), @"
    exit 2
    --- stderr
    error: the settings have an error:
      ~/.config/zero/settings.json:2:1: `~/.local/state` must not be writable for commands: it is a folder with files that can run code; name a folder that contains only files created by commands
    ");
}

#[test]
fn host_is_added_with_port() {
    let zero = TestProgram::new();
    for host in ["example.com:8443", "*.example.org"] {
        zero.stdout(&["config", "add", "sandbox.network", host]);
    }
    let local = zero.run(&["config", "add", "sandbox.network", "localhost"]);
    assert!(local.contains("`localhost` has no effect"), "{local}");
    let shown = zero.stdout(&["config", "get", "sandbox.network"]);
    assert!(shown.contains("example.com:8443"), "{shown}");
    insta::assert_snapshot!(zero.run(&["config", "add", "sandbox.network", "https://example.com"]), @"
    exit 2
    --- stderr
    error: the settings have an error:
      ~/.config/zero/settings.json:7:7: `https://example.com` names no host; write one such as `example.com`, `*.example.org` or `example.com:8443`, without scheme and path
    nothing was written
    ");
}

#[test]
fn untrusted_folder_opens_no_host() {
    // A program that is known to only read would have no network.
    let show = r#"python3 -c 'import os; print(int("HTTPS_PROXY" in os.environ))'"#;
    let rule = r#"{"permissions": {"allow": ["WebFetch(domain:example.com)"]}}"#;
    for opens in [rule, r#"{"sandbox": {"network": ["*"]}}"#] {
        let zero = TestProgram::new();
        write_file(&zero, PROJECT_FILE, opens);
        assert_eq!(stdout_text(&run_bash(&zero, show, &["--yes"])), "0\n", "{opens}");
        zero.stdout(&["trust", "--yes"]);
        assert_eq!(stdout_text(&run_bash(&zero, show, &["--yes"])), "1\n", "{opens}");
    }
}
