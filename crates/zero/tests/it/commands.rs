//! What the program does from the outside: exit codes, streams, formats.

#![expect(clippy::disallowed_methods, reason = "tests use real files directly")]

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::process::Stdio;

use serde_json::Value;

use crate::test_program::TestProgram;

#[test]
fn usage_error_exits_with_two_and_names_fix() {
    let zero = TestProgram::new();
    insta::assert_snapshot!(zero.run(&["tools", "call", "Read", r#"{"file_path": }"#]), @r#"
    exit 2
    --- stderr
    error: the input is not valid JSON: expected value at line 1, column 15
      | {"file_path": }
      |               ^
    quote it for your shell, such as '{"file_path": "README.md"}'
    "#);
    insta::assert_snapshot!(zero.run(&["tools", "list", "--dialect", "quen"]), @"
    exit 2
    --- stderr
    error: invalid value 'quen' for '--dialect <DIALECT>'
      [possible values: canonical, acp, qwen, opencode]

      tip: a similar value exists: 'qwen'

    For more information, try '--help'.
    ");
    insta::assert_snapshot!(zero.run(&["tools", "call", "Read", "{}", "--workspace", "nowhere"]), @"
    exit 2
    --- stderr
    error: workspace folder `[FOLDER]/nowhere` does not exist; create it or name another
    ");
    insta::assert_snapshot!(zero.run(&["tools", "call", "Read", "{}", "--limit", "speed=9"]), @"
    exit 2
    --- stderr
    error: invalid value 'speed=9' for '--limit <NAME=VALUE>': there is no limit `speed`; the limits are file-timeout, search-timeout, command-timeout, mcp-timeout, connection-question-timeout, model-output, result, file-size, session-calls, host-calls, queue-calls, profile, command-memory, command-cpu, command-processes, command-open-files, command-file, command-disk, command-disk-rate

    For more information, try '--help'.
    ");
    insta::assert_snapshot!(zero.run(&["stats", "--since", "yesterday"]), @"
    exit 2
    --- stderr
    error: invalid value 'yesterday' for '--since <TIME>': `yesterday` is not a time such as `12h` or `30d`

    For more information, try '--help'.
    ");
    insta::assert_snapshot!(zero.run(&["undo", "abc"]), @"
    exit 2
    --- stderr
    error: invalid value 'abc' for '[ID]': `abc` is not a change number; run `zero undo --list` to see them

    For more information, try '--help'.
    ");
    insta::assert_snapshot!(zero.run(&["man", "tools", "cal"]), @"
    exit 2
    --- stderr
    error: there is no command `cal`; the commands are list, show, call, serve, refresh, conformance
    ");
}

#[test]
fn json_input_may_come_from_stdin() {
    let zero = TestProgram::new();
    let seen = zero.run_with_input(&["tools", "call", "NoSuchTool", "-", "--json"], r#"{"a": 1}"#);
    assert!(
        seen.starts_with(
            "exit 1\n{\"ok\":false,\"error\":{\"tool\":\"NoSuchTool\",\"error_type\":\"not_found\""
        ),
        "{seen}"
    );
    let seen = zero.run_with_input(&["tools", "call", "NoSuchTool", "-"], "");
    assert!(seen.starts_with("exit 2\n--- stderr\nerror: the input is empty"), "{seen}");
}

/// Writes `a.txt` with the input on stdin, on a terminal where somebody types `typed` when they are
/// asked.
fn write_at_terminal(zero: &TestProgram, typed: &str) -> String {
    let input = r#"{"file_path": "a.txt", "content": "new"}"#;
    std::fs::write(zero.folder().join("input.json"), input).unwrap();
    let mut terminal = zero
        .external_command("script")
        .args(["-qefc", "\"$ZERO\" tools call Write - < input.json", "/dev/null"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("`script` is needed to test terminals; install the package util-linux");
    let mut screen = terminal.stdout.take().unwrap();
    let (mut seen, mut bytes) = (Vec::new(), [0; 1024]);
    while !String::from_utf8_lossy(&seen).contains("Allow?") {
        let count = screen.read(&mut bytes).unwrap();
        assert_ne!(count, 0, "no question: {}", String::from_utf8_lossy(&seen));
        seen.extend_from_slice(&bytes[..count]);
    }
    // Open until the end: its end would be a key, too.
    let mut keyboard = terminal.stdin.take().unwrap();
    keyboard.write_all(typed.as_bytes()).unwrap();
    screen.read_to_end(&mut seen).unwrap();
    terminal.wait().unwrap();
    String::from_utf8_lossy(&seen).into_owned()
}

#[test]
fn prompt_uses_tty_when_stdin_holds_input() {
    for (typed, left) in [("y", Some("new")), ("n", None)] {
        let zero = TestProgram::new();
        let seen = write_at_terminal(&zero, typed);
        assert!(seen.contains("Allow?"), "{seen}");
        let written = std::fs::read_to_string(zero.folder().join("a.txt")).ok();
        assert_eq!(written.as_deref(), left, "{seen}");
    }
}

#[test]
fn denial_without_tty_says_stdin_is_used() {
    let zero = TestProgram::new();
    let input = r#"{"file_path": "a.txt", "content": "new"}"#;
    let seen = zero.run_with_input(&["tools", "call", "Write", "-"], input);
    assert!(seen.starts_with("exit 3") && seen.contains("stdin is used for the input"), "{seen}");
}

#[test]
fn unwritable_state_folder_is_not_tool_error() {
    let zero = TestProgram::new();
    let mut call = zero.command(&["tools", "call", "LS", "{}"]);
    let output = call.env("XDG_STATE_HOME", "/proc/nope").output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("set XDG_STATE_HOME to a writable folder"), "{text}");
}

#[test]
fn missing_home_names_variable_to_set() {
    let zero = TestProgram::new();
    let output = zero.command(&["stats"]).env_remove("HOME").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("set HOME or XDG_STATE_HOME"));
}

#[test]
fn every_list_format_is_json() {
    let zero = TestProgram::new();
    for format in ["json", "openai", "anthropic", "gemini", "mcp"] {
        for dialect in ["canonical", "acp", "qwen", "opencode"] {
            let text = zero.stdout(&["tools", "list", "--format", format, "--dialect", dialect]);
            let value: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(value.is_object(), format == "mcp", "{text}");
        }
    }
}

#[cfg(all(feature = "lsp", feature = "web"))]
#[test]
fn tool_list_order_is_same_in_every_dialect() {
    let zero = TestProgram::new();
    let names = |dialect: &str| -> Vec<String> {
        let text = zero.stdout(&["tools", "list", "--json", "--dialect", dialect]);
        let tools: Vec<Value> = serde_json::from_str(&text).unwrap();
        tools.iter().map(|tool| tool["canonicalName"].as_str().unwrap().to_owned()).collect()
    };
    let order = names("canonical");
    let files = ["Read", "ReadMany", "Write", "Edit", "Delete", "LS", "Glob", "Grep"];
    let others = [
        "Bash",
        "BashOutput",
        "BashKill",
        "LSP",
        "WebFetch",
        "WebSearch",
        "WebRequest",
        "TodoWrite",
        "Plan",
        "Memory",
        "Skill",
        "AskUserQuestion",
    ];
    assert_eq!(order, [&files[..], &others].concat());
    for dialect in ["acp", "qwen", "opencode"] {
        let mut names = names(dialect);
        // A tool may have two names.
        names.dedup();
        let expected: Vec<_> = order.iter().filter(|name| names.contains(name)).cloned().collect();
        assert_eq!(names, expected, "{dialect}");
    }
}

#[test]
fn empty_state_is_reported() {
    let zero = TestProgram::new();
    insta::assert_snapshot!(zero.run(&["stats"]), @"
    exit 0
    no calls in this time span; use a longer one with `--since 30d`, or make a call with `zero tools call`
    ");
    insta::assert_snapshot!(zero.run(&["undo"]), @"
    exit 1
    --- stderr
    error: nothing to undo: no tool or command changed a file in `[FOLDER]`; pass `--workspace DIR` for another folder
    ");
    insta::assert_snapshot!(zero.run(&["undo", "--list"]), @"
    exit 0
    no changes recorded for `[FOLDER]`
    ");
    insta::assert_snapshot!(zero.run(&["audit", "tail"]), @"
    exit 0
    --- stderr
    note: no calls recorded yet; make one with `zero tools call`
    ");
    insta::assert_snapshot!(zero.run(&["undo", "--list", "--json"]), @"
    exit 0
    []
    ");
    insta::assert_snapshot!(zero.run(&["audit", "tail", "--json"]), @"exit 0");
    let mut left = std::fs::read_dir(zero.folder().join("home")).unwrap();
    assert!(left.next().is_none(), "looking leaves nothing behind");
}

#[test]
fn every_call_leaves_countable_audit_row() {
    let zero = TestProgram::new();
    zero.run(&["tools", "call", "NoSuchTool", "{}"]);
    let row: Value = serde_json::from_str(&zero.stdout(&["audit", "tail", "--json"])).unwrap();
    assert_eq!((&row["tool"], &row["status"]), (&"NoSuchTool".into(), &"error".into()));
    let line = zero.stdout(&["audit", "tail", "-n", "1"]);
    assert!(line.contains("error      NoSuchTool  there is no tool `NoSuchTool`"), "{line}");
    let stats: Value = serde_json::from_str(&zero.stdout(&["stats", "--json"])).unwrap();
    let tool = &stats["tools"]["(unknown)"];
    assert_eq!((&tool["calls"], &tool["errors"]["not_found"]), (&1.into(), &1.into()), "{stats}");
    assert!(zero.stdout(&["stats"]).contains("not_found 1"));
    let audit = zero.folder().join("home/.local/state/zero/audit");
    let mut files = std::fs::read_dir(audit).unwrap().map(|entry| entry.unwrap().path());
    let day = files.find(|path| path.extension().is_some_and(|end| end == "jsonl")).unwrap();
    let mut log = std::fs::OpenOptions::new().append(true).open(day).unwrap();
    log.write_all(b"not json\n").unwrap();
    for args in [&["stats"][..], &["audit", "tail"]] {
        let seen = zero.run(args);
        assert!(seen.ends_with("note: skipped 1 damaged line of the audit log\n"), "{seen}");
    }
    assert!(zero.stdout(&["stats", "--json"]).contains("\"damaged_lines\": 1"));
}

#[test]
fn stats_show_errors_resources_and_sessions() {
    let zero = TestProgram::new();
    zero.run(&["tools", "call", "Bash", r#"{"command": "echo hi > a"}"#, "--yes"]);
    zero.run(&["tools", "call", "Read", r#"{"file_path": "missing"}"#]);
    zero.run(&["run", "--session", "look", "/read a"]);
    let stats: Value = serde_json::from_str(&zero.stdout(&["stats", "--json"])).unwrap();
    let (bash, read) = (&stats["tools"]["Bash"], &stats["tools"]["Read"]);
    assert_eq!(bash["usage"]["commands"], 1, "{stats}");
    assert!(bash["usage"]["cpu_us"].as_u64().unwrap() > 0, "{stats}");
    assert!(bash["usage"]["memory_bytes"].as_u64().unwrap() > 0, "{stats}");
    assert_eq!((&bash["failures"], &bash["recovery_rate"]), (&0.into(), &Value::Null), "{stats}");
    assert_eq!(
        (&read["calls"], &read["failures"], &read["recovered"]),
        (&2.into(), &1.into(), &0.into())
    );
    assert_eq!(
        (&read["severities"]["low"], &read["user_errors"]),
        (&1.into(), &0.into()),
        "{stats}"
    );
    let sessions = stats["sessions"].as_object().unwrap();
    let [(_, session)] = &sessions.iter().collect::<Vec<_>>()[..] else { panic!("{stats}") };
    assert_eq!((&session["calls"], &session["tools"]["Read"]), (&1.into(), &1.into()), "{stats}");
    let text = zero.stdout(&["stats"]);
    for heading in ["TOOL ", "ERRORS OF ", "RESOURCES OF ", "SESSION "] {
        assert!(text.lines().any(|line| line.starts_with(heading)), "{heading}: {text}");
    }
    assert!(text.contains("\nlook "), "a session has its name, not its id: {text}");
}

#[test]
fn stats_group_errors_by_cause() {
    let zero = TestProgram::new();
    let settings = zero.folder().join("home/.config/zero");
    std::fs::create_dir_all(&settings).unwrap();
    let rules = r#"{"permissions": {"deny": ["Read(.env)"]}}"#;
    std::fs::write(settings.join("settings.json"), rules).unwrap();
    for file in ["missing", "gone", ".env", ".env", ".env"] {
        let input = serde_json::json!({"file_path": file}).to_string();
        zero.run(&["tools", "call", "Read", &input]);
    }
    zero.run(&["tools", "call", "Glob", r#"{"pattern": 3}"#]);
    let stats: Value = serde_json::from_str(&zero.stdout(&["stats", "--json"])).unwrap();
    let patterns = stats["failure_patterns"].as_array().unwrap();
    let shown = |pattern: &Value| {
        let words = ["tool", "error_type", "rule"].map(|key| pattern[key].as_str().unwrap_or("-"));
        format!("{} {} {}", words.join(" "), pattern["calls"], pattern["sessions"])
    };
    let expected = [
        "Read permission_denied Read(.env) 3 1",
        "Read not_found - 2 1",
        "Glob invalid_input - 1 1",
    ];
    assert_eq!(patterns.iter().map(shown).collect::<Vec<_>>(), expected, "{stats}");
    assert!(patterns[1]["message"].as_str().unwrap().contains("gone"), "the last one: {stats}");
    let text = zero.stdout(&["stats"]);
    let table: Vec<&str> =
        text.lines().skip_while(|line| !line.starts_with("REPEATED ERROR ")).collect();
    assert!(table[1].starts_with("Read(.env) ") && table[1].contains(" Read "), "{text}");
    assert!(table[2].contains("gone"), "{text}");
    assert!(table.get(3).is_none_or(|line| line.is_empty()), "once is not repeated: {text}");
}

#[test]
fn failed_command_of_call_is_seen_by_scripts() {
    let zero = TestProgram::new();
    for (command, exit, code) in [("true", 0, 0), ("exit 3", 1, 3)] {
        let input = serde_json::json!({"command": command}).to_string();
        let args = ["tools", "call", "Bash", &input, "--yes", "--json"];
        let output = zero.command(&args).output().unwrap();
        assert_eq!(output.status.code(), Some(exit), "{command}");
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(answer["ok"], true);
        assert_eq!(answer["result"]["structured"]["exit_code"], code);
        let text = zero.run(&["tools", "call", "Bash", &input, "--yes"]);
        assert!(text.starts_with(&format!("exit {exit}\n")), "{text}");
    }
}

#[test]
fn output_before_timeout_is_shown() {
    let zero = TestProgram::new();
    let input = r#"{"command": "echo before; sleep 60", "timeout": 1500}"#;
    insta::assert_snapshot!(zero.run(&["tools", "call", "Bash", input, "--yes"]), @"
    exit 1
    before
    --- stderr
    error: timed out after 1500 ms; pass a larger `timeout` (up to 600000 ms) or use `run_in_background`
    ");
}

#[test]
fn unknown_command_suggests_nearest() {
    let zero = TestProgram::new();
    for (args, nearest) in [
        (&["tols"][..], "'zero tools'"),
        (&["modles"], "'zero models'"),
        (&["mcp", "stauts"], "'status'"),
        (&["config", "lst"], "'list'"),
    ] {
        let text = zero.run(args);
        assert!(text.starts_with("exit 2\n") && text.contains(nearest), "{text}");
    }
}

#[test]
fn end_of_call_is_logged_as_tool_used() {
    let zero = TestProgram::new();
    for (input, success) in [(r#"{"pattern": "*"}"#, true), (r#"{"pattern": 3}"#, false)] {
        let mut command = zero.command(&["tools", "call", "Glob", input]);
        let output = command.env("ZERO_LOG", "zero_runtime=info").output().unwrap();
        let log = String::from_utf8(output.stderr).unwrap();
        let log = strip_colors(&log);
        let line = log
            .lines()
            .find(|line| line.contains(" tool_used "))
            .unwrap_or_else(|| panic!("{log}"));
        assert!(line.contains(" tool=\"Glob\" duration_ms="), "{line}");
        assert!(line.contains(&format!(" success={success} ")), "{line}");
    }
}

fn strip_colors(text: &str) -> String {
    zero_core::ansi_filter::strip(text.as_bytes())
}

#[test]
fn non_utf8_file_name_keeps_result() {
    let zero = TestProgram::new();
    let name = OsStr::from_bytes(b"x\xfe.txt");
    std::fs::write(zero.folder().join(name), "hit\n").unwrap();
    let input = r#"{"pattern": "hit", "output_mode": "content"}"#;
    let text = zero.stdout(&["tools", "call", "Grep", input, "--json"]);
    let answer: Value = serde_json::from_str(&text).unwrap();
    let path = answer["result"]["locations"][0]["path"].as_str().unwrap();
    assert!(path.ends_with("x\u{FFFD}.txt"), "{text}");
}

#[test]
fn log_names_call_and_tool() {
    let zero = TestProgram::new();
    let mut command = zero.command(&["tools", "call", "LS", "{}"]);
    let output = command.env("ZERO_LOG", "info").output().unwrap();
    let log = String::from_utf8(output.stderr).unwrap();
    for part in ["INFO tool_call{", "call_id=call_", "tool=\"LS\"", "tool_used tool=\"LS\""] {
        assert!(log.contains(part), "{part} is not in {log}");
    }
}

#[test]
fn tail_follow_shows_new_calls() {
    let zero = TestProgram::new();
    let mut tail = zero
        .command(&["audit", "tail", "--follow", "--json"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    zero.run(&["tools", "call", "First", "{}"]);
    zero.run(&["tools", "call", "Second", "{}"]);
    let lines = BufReader::new(tail.stdout.take().unwrap()).lines().take(2);
    let tools: Vec<Value> = lines
        .map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap()["tool"].clone())
        .collect();
    tail.kill().unwrap();
    tail.wait().unwrap();
    assert_eq!(tools, ["First", "Second"]);
}

#[test]
fn closed_pipe_is_not_an_error() {
    let zero = TestProgram::new();
    for args in [
        &["tools", "list", "--format", "json"][..],
        &["man"],
        &["completions", "bash"],
        &["--help"],
    ] {
        let mut child =
            zero.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let mut text = String::new();
        child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
        assert_eq!((child.wait().unwrap().code(), text.as_str()), (Some(0), ""), "{args:?}");
    }
}

#[test]
fn completions_and_man_pages_are_generated() {
    let zero = TestProgram::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(zero.stdout(&["completions", shell]).contains("conformance"), "{shell}");
    }
    let title =
        concat!(".TH zero 1 \" \" \"zero ", env!("CARGO_PKG_VERSION"), "\" \"zero manual\"\n");
    assert!(zero.stdout(&["man"]).contains(title), "{}", zero.stdout(&["man"]));
    assert!(zero.stdout(&["man", "tools", "call"]).contains("zero\\-tools\\-call"));
    assert!(zero.stdout(&["--version"]).starts_with("zero 0."));
}

#[test]
fn command_does_not_see_secret_variables() {
    let zero = TestProgram::new();
    let input = r#"{"command": "env; cat /proc/$PPID/environ 2>/dev/null; exit 0"}"#;
    let mut command = zero.command(&["tools", "call", "Bash", input, "--yes"]);
    let command = command.env("OPENAI_API_KEY", "s3cret").env("SSH_AUTH_SOCK", "/s3cret");
    let output = command.env("PATH", "/usr/bin:/bin").output().unwrap();
    let seen = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && seen.contains("TERM=dumb"), "{seen}");
    assert!(!seen.contains("s3cret"), "{seen}");
}

#[test]
fn change_needs_approval_and_can_be_undone() {
    let zero = TestProgram::new();
    let write = ["tools", "call", "Write", r#"{"file_path": "a.txt", "content": "one\n"}"#];
    let denied = zero.run(&write);
    assert!(denied.starts_with("exit 3\n--- stderr\nerror: Write `a.txt`: denied"), "{denied}");
    assert!(!zero.folder().join("a.txt").exists());
    zero.stdout(&[&write[..], &["--yes"]].concat());
    insta::assert_snapshot!(zero.run(&["tools", "call", "read_file", r#"{"path": "a.txt"}"#, "--dialect", "acp"]), @"
    exit 0
    one
    ");
    insta::assert_snapshot!(zero.run(&["undo"]), @"
    exit 0
    removed `a.txt`, which Write had created (change 1)
    ");
    assert!(!zero.folder().join("a.txt").exists());
}
