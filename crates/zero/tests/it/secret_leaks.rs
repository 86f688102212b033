//! What nobody may learn from an answer, and what may not go missing without a word.

#![expect(clippy::disallowed_methods, reason = "tests use real files directly")]

use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use crate::config::{PROJECT_FILE, USER_FILE, write_file};
use crate::test_program::TestProgram;

const DENY_SECRETS: &str = r#"{"permissions": {"deny": ["Read(secrets/**)", "Edit(secrets/**)"]}}"#;

fn call_tool(zero: &TestProgram, tool: &str, input: &Value) -> String {
    zero.run(&["tools", "call", tool, &input.to_string()])
}

/// A workspace in `w` with a folder that may not be read, links into and out of it.
fn program_with_secrets() -> TestProgram {
    let zero = TestProgram::new();
    write_file(&zero, USER_FILE, DENY_SECRETS);
    write_file(&zero, "secrets/key.txt", "17-23-42");
    write_file(&zero, "secrets/deep/hidden_name.txt", "x");
    write_file(&zero, "src/a.txt", "the vault combination is 17-23-42");
    let link = |to: &str, at: &str| symlink(to, zero.folder().join(at)).unwrap();
    link("../secrets/deep/hidden_name.txt", "src/innocent");
    link("../src/a.txt", "secrets/pub");
    link("loop", "secrets/loop");
    link("../secrets", "src/way");
    zero
}

#[test]
fn denial_names_written_path_not_link_target() {
    let zero = program_with_secrets();
    let answer = call_tool(&zero, "Read", &json!({"file_path": "src/innocent"}));
    assert!(answer.starts_with("exit 3") && answer.contains("Read `src/innocent`"), "{answer}");
    assert!(!answer.contains("hidden_name"), "{answer}");
    let answer = call_tool(&zero, "Read", &json!({"file_path": "secrets/pub"}));
    assert!(answer.starts_with("exit 3") && !answer.contains("a.txt"), "{answer}");
}

#[test]
fn denied_path_does_not_reveal_existence() {
    let zero = program_with_secrets();
    for (tool, field) in [
        ("Read", "file_path"),
        ("LS", "path"),
        ("Grep", "path"),
        ("Edit", "file_path"),
        ("Write", "file_path"),
        ("Delete", "file_path"),
        ("ReadMany", "paths"),
    ] {
        let answer = |path: &str| {
            let named = if field == "paths" { json!([path]) } else { json!(path) };
            let mut input = json!({ field: named });
            match tool {
                "Grep" => input["pattern"] = json!("x"),
                "Edit" => (input["old_string"], input["new_string"]) = (json!("a"), json!("b")),
                "Write" => input["content"] = json!("x"),
                _ => {}
            }
            call_tool(&zero, tool, &input).replace(path, "PATH")
        };
        for folder in ["secrets", "src/way"] {
            let missing = answer(&format!("{folder}/none/x"));
            assert!(missing.starts_with("exit 3"), "{tool} {missing}");
            for path in ["key.txt/x", "loop", "loop/x", "key.txt"] {
                assert_eq!(answer(&format!("{folder}/{path}")), missing, "{tool} {folder}/{path}");
            }
        }
    }
}

#[test]
fn outside_path_is_revealed_only_after_approval() {
    let zero = TestProgram::new();
    write_file(&zero, "outside/present", "x");
    write_file(&zero, "w/a", "x");
    let outside = |tool: &str, name: &str, more: &[&str]| {
        let input = json!({"file_path": format!("../outside/{name}")}).to_string();
        let args = [&["tools", "call", tool, &input, "--workspace", "w"], more].concat();
        zero.run(&args).replace(name, "NAME")
    };
    for tool in ["Delete", "Read"] {
        let file = outside(tool, "present", &[]);
        assert!(file.starts_with("exit 3"), "{file}");
        for name in ["none", "present/x", "deep/none"] {
            assert_eq!(outside(tool, name, &[]), file, "{tool} {name}");
        }
        let told = outside(tool, "none", &["--yes"]);
        assert!(told.starts_with("exit 1") && told.contains("does not exist"), "{told}");
    }
}

#[test]
fn failed_edit_does_not_log_file_content() {
    let zero = program_with_secrets();
    let input = json!({"file_path": "src/a.txt", "old_string": "the vault combination is 17-23-43", "new_string": "x"});
    let answer = zero.run(&["tools", "call", "Edit", &input.to_string(), "--yes"]);
    assert!(answer.contains("The closest match is"), "{answer}");
    let log = zero.stdout(&["audit", "tail", "--json"]);
    assert!(log.contains("the text to replace is not in"), "{log}");
    assert!(!log.contains("17-23"), "{log}");
}

#[test]
fn missing_home_does_not_skip_rules() {
    let zero = TestProgram::new();
    write_file(&zero, ".env", "secret");
    write_file(&zero, "rules.json", r#"{"permissions": {"deny": ["Read(.env)"]}}"#);
    let env = r#"{"file_path": ".env"}"#;
    let run = |home: Option<&str>, args: &[&str]| {
        let mut command = zero.command(args);
        command.env_remove("HOME").env("XDG_STATE_HOME", zero.folder().join("state"));
        command.envs(home.map(|home| ("HOME", home)));
        let output = command.output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.code().unwrap(), String::from_utf8(text).unwrap())
    };
    for home in [None, Some(""), Some("relative")] {
        for args in [
            &["tools", "call", "Read", env][..],
            &["policy", "check", "Read", env],
            &["policy", "explain", "ls"],
            &["policy", "simulate"],
            &["trust"],
            &["config", "list"],
            &["config", "set", "permissions.mode", "plan"],
        ] {
            let (code, text) = run(home, args);
            assert_eq!(code, 2, "{home:?} {args:?}: {text}");
            assert!(text.contains("set HOME or XDG_CONFIG_HOME to an absolute path"), "{text}");
        }
        let (code, text) = run(home, &["doctor"]);
        assert!(code == 1 && text.contains("cannot locate your settings"), "{text}");
        for (args, expected) in [
            (&["tools", "call", "Read", env, "--settings", "rules.json"][..], 3),
            (&["policy", "check", "Read", env, "--settings", "rules.json"], 20),
        ] {
            assert_eq!(run(home, args).0, expected, "{home:?} {args:?}");
        }
    }
}

#[test]
fn dangling_settings_link_is_error() {
    let zero = TestProgram::new();
    let config = zero.folder().join("home/.config");
    std::fs::create_dir_all(&config).unwrap();
    symlink("unmounted", config.join("zero")).unwrap();
    let answer = call_tool(&zero, "LS", &json!({}));
    assert!(answer.starts_with("exit 2") && answer.contains("dangling link"), "{answer}");
}

#[test]
fn unusable_settings_are_neither_written_nor_trusted() {
    let zero = TestProgram::new();
    let broken = r#"{"rule": "Bash(rm:*)", "match": ["ls"]}"#;
    let answer = zero.run(&["config", "add", "permissions.allow", broken]);
    assert!(answer.starts_with("exit 2") && answer.contains("nothing was written"), "{answer}");
    for name in ["session-calls", "host-calls"] {
        let key = format!("limits.{name}");
        let answer = zero.run(&["config", "set", &key, "18446744073709551615"]);
        assert!(answer.starts_with("exit 2") && answer.contains("from 1 to 1000000"), "{answer}");
        let limit = format!("{name}=18446744073709551615");
        let answer = zero.run(&["tools", "call", "LS", "{}", "--limit", &limit]);
        assert!(answer.starts_with("exit 2") && answer.contains("from 1 to 1000000"), "{answer}");
    }
    assert!(zero.run(&["tools", "call", "LS", "{}"]).starts_with("exit 0"));
    write_file(&zero, PROJECT_FILE, format!(r#"{{"permissions": {{"allow": [{broken}]}}}}"#));
    let answer = zero.run(&["trust", "--yes"]);
    assert!(answer.starts_with("exit 2") && answer.contains("which is listed in"), "{answer}");
    assert!(zero.run(&["tools", "call", "LS", "{}"]).starts_with("exit 0"));
}

#[test]
fn trust_is_revoked_by_recorded_path() {
    let zero = TestProgram::new();
    let answer = zero.run(&["trust", "--revoke"]);
    assert!(answer.starts_with("exit 1"), "{answer}");
    assert!(!zero.folder().join("home/.local").exists(), "nothing was made");
    write_file(&zero, "w/.zero/settings.json", r#"{"permissions": {"allow": ["Edit"]}}"#);
    assert!(zero.run(&["trust", "w", "--json"]).starts_with("exit 3"));
    assert!(zero.run(&["trust", "w", "--json", "--yes"]).starts_with("exit 0"));
    std::fs::rename(zero.folder().join("w"), zero.folder().join("moved")).unwrap();
    symlink("moved", zero.folder().join("w")).unwrap();
    let answer = zero.run(&["trust", "--revoke", "w"]);
    assert_eq!(answer, "exit 0\n[FOLDER]/w is no longer trusted\n");
    write_file(&zero, "w/.zero/settings.json", r#"{"limits": {"session-calls": 1}}"#);
    let answer = zero.run(&["trust", "w"]);
    assert!(
        answer.starts_with("exit 3") && answer.contains("nothing that needs trust"),
        "{answer}"
    );
}

#[test]
fn ambiguous_request_is_refused() {
    let zero = TestProgram::new();
    for (tool, input, expected) in [
        ("Bash", r#"{"cmd": "rm -rf /", "command": "ls"}"#, "unknown field `cmd`"),
        ("Bash", r#"{"command": "ls", "cmd": "ls"}"#, "unknown field `cmd`"),
        ("Bash", r#"{"command": "ls", "cwd": ".", "workdir": "/etc"}"#, "unknown field `workdir`"),
        ("Read", r#"{"file_path": "a", "path": ".env"}"#, "unknown field `path`"),
        ("Read", r#"{"file_path": ".env", "file_path": "a"}"#, "duplicate field `file_path`"),
    ] {
        let answer = zero.run(&["policy", "check", tool, input]);
        assert!(answer.starts_with("exit 2") && answer.contains(expected), "{answer}");
    }
    for (line, expected) in [
        (
            r#"{"tool": "Read", "input": {"file_path": "a"}, "deny": ["Read"]}"#,
            "put rules in `permissions`",
        ),
        (
            r#"{"tool": "Read", "input": {"file_path": "a"}, "settings": "x.json"}"#,
            "put rules in `permissions`",
        ),
        (
            r#"{"tool": "Read", "input": {"file_path": "a"}, "permissions": {"deny": ["Read"], "deny": []}}"#,
            "duplicate field `deny`",
        ),
        (
            r#"{"tool": "Read", "input": {"file_path": "a"}, "permissions": {"deny": [{"rule": "Read", "x": 1}]}}"#,
            "unknown key `permissions.deny.0.x`",
        ),
        (
            r#"{"tool": "Read", "input": {"file_path": "a"}, "permissions": {"mode": null}}"#,
            "`permissions.mode` is null",
        ),
    ] {
        let answer = zero.run_with_input(&["policy", "check", "--batch", "-"], line);
        let answer: Value = serde_json::from_str(answer.trim_start_matches("exit 0\n")).unwrap();
        assert!(answer["error"].as_str().unwrap().contains(expected), "{line}: {answer}");
    }
    assert!(zero.run(&["policy", "check", "--batch", "."]).starts_with("exit 2"));
    let nowhere = ["policy", "check", "Read", r#"{"file_path": "a"}"#, "--workspace", "/nonexist"];
    assert!(zero.run(&nowhere).starts_with("exit 0"));
}
