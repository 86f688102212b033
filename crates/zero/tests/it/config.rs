//! Settings as a person and a hostile checkout meet them.

#![expect(clippy::disallowed_methods, reason = "tests use real files directly")]

use std::collections::BTreeSet;
use std::os::unix::fs::{PermissionsExt, symlink};

use serde_json::Value;

use crate::test_program::TestProgram;

/// Writes a settings file of the workspace, or of the person when it starts with `home/`.
pub(crate) fn write_file(zero: &TestProgram, path: &str, text: impl AsRef<[u8]>) {
    let path = zero.folder().join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

pub(crate) const USER_FILE: &str = "home/.config/zero/settings.json";
pub(crate) const PROJECT_FILE: &str = ".zero/settings.json";
pub(crate) const LOCAL_FILE: &str = ".zero/settings.local.json";

#[test]
fn adding_narrow_rule_prints_note() {
    let zero = TestProgram::new();
    let answer = zero.run(&["config", "add", "permissions.deny", "Read(/etc/passwd)"]);
    assert!(answer.contains("did you mean `Read(//etc/passwd)`?"), "{answer}");
    let answer = zero.run(&["config", "add", "permissions.ask", "Bash(rm)"]);
    assert!(answer.contains("write `Bash(rm:*)`"), "{answer}");
    let answer = zero.run(&["config", "add", "permissions.deny", "Bash(rm:*)"]);
    assert!(!answer.contains("note"), "{answer}");
}

#[test]
fn unknown_key_is_answered_in_one_line() {
    let zero = TestProgram::new();
    let seen = zero.run(&["config", "get", "nope"]);
    let expected = "there is no setting `nope`; `zero config list --defaults` lists all";
    assert!(seen.starts_with("exit 2") && seen.contains(expected), "{seen}");
    let seen = zero.run(&["config", "get", "permission.mode"]);
    assert!(seen.contains("did you mean `permissions.mode`"), "{seen}");
    let listed: Value =
        serde_json::from_str(&zero.stdout(&["config", "list", "--defaults", "--json"])).unwrap();
    let keys: Vec<&str> =
        listed.as_array().unwrap().iter().filter_map(|row| row["key"].as_str()).collect();
    let unique: BTreeSet<&str> = keys.iter().copied().collect();
    assert_eq!(keys.len(), unique.len(), "{keys:?}");
}

#[test]
fn unknown_model_is_noted_when_it_is_set() {
    let zero = TestProgram::new();
    let seen = zero.run(&["config", "set", "model", "nope"]);
    assert!(seen.starts_with("exit 0") && seen.contains("there is no model `nope`"), "{seen}");
    let seen = zero.run(&["doctor"]);
    assert!(seen.contains("there is no model `nope`"), "{seen}");
}

#[test]
fn invalid_value_below_an_open_key_lists_all_values() {
    let zero = TestProgram::new();
    write_file(&zero, USER_FILE, r#"{"models": {"x": {"api": "chatt"}}}"#);
    let seen = zero.run(&["config", "list"]);
    let seen = seen.split_whitespace().collect::<Vec<_>>().join(" ");
    for value in ["chat", "responses", "anthropic", "gemini"] {
        assert!(seen.contains(&format!("\"{value}\"")), "{seen}");
    }
    assert!(!seen.contains("candidates"), "{seen}");
}

#[test]
fn key_is_read_from_stdin_and_never_shown() {
    let zero = TestProgram::new();
    // There is no keyring in these surroundings.
    let seen = zero.run_with_input(&["config", "set-key", "openai"], "sk-secret\n");
    assert!(seen.starts_with("exit 1") && seen.contains("store the key in a file"), "{seen}");
    assert!(!seen.contains("sk-secret"), "{seen}");
    let seen = zero.run(&["config", "unset-key", "openai"]);
    assert!(seen.starts_with("exit 1") && seen.contains("the desktop's keyring"), "{seen}");
    for (name, key, holds) in
        [("openai", "", "it is empty"), ("sk secret", "x", "invalid key name")]
    {
        let seen = zero.run_with_input(&["config", "set-key", name], key);
        assert!(seen.starts_with("exit 2") && seen.contains(holds), "{seen}");
        assert!(!seen.contains("sk secret"), "{seen}");
    }
    let model = r#"{"models": {"m": {"api": "chat", "model": "m", "baseUrl": "http://127.0.0.1:1/v1", "apiKey": {"keyring": "openai"}}}}"#;
    write_file(&zero, USER_FILE, model);
    let seen = zero.run(&["run", "hi"]);
    assert!(seen.starts_with("exit 1") && seen.contains("the keyring of the desktop"), "{seen}");
}

#[test]
fn value_can_be_set_shown_and_unset() {
    let zero = TestProgram::new();
    let file = zero.folder().join(USER_FILE);
    insta::assert_snapshot!(zero.run(&["config", "set", "permissions.mode", "plan"]), @"
    exit 0
    set `permissions.mode` in ~/.config/zero/settings.json
    ");
    insta::assert_snapshot!(zero.run(&["config", "set", "permissions.mode", "plan"]), @"
    exit 0
    `permissions.mode` already has this value in ~/.config/zero/settings.json
    ");
    zero.stdout(&["config", "add", "permissions.allow", "Bash(git status:*)"]);
    insta::assert_snapshot!(zero.run(&["config", "add", "permissions.allow", "Bash(git status:*)"]), @"
    exit 0
    `permissions.allow` already contains this value in ~/.config/zero/settings.json
    ");
    zero.stdout(&["config", "set", "limits.file-timeout", "5s", "--local"]);
    zero.stdout(&["config", "set", "limits.session-calls", "4", "--project"]);
    insta::assert_snapshot!(std::fs::read_to_string(&file).unwrap(), @r#"
    {
      "permissions": {
        "mode": "plan",
        "allow": [
          "Bash(git status:*)"
        ]
      }
    }
    "#);
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    insta::assert_snapshot!(zero.run(&["config", "list"]), @"
    exit 0
    SETTING               VALUE               SOURCE
    permissions.mode      plan                ~/.config/zero/settings.json:3
    permissions.allow     Bash(git status:*)  ~/.config/zero/settings.json:5
    limits.session-calls  4                   [FOLDER]/.zero/settings.json:3
    limits.file-timeout   5s                  [FOLDER]/.zero/settings.local.json:3
    ");
    insta::assert_snapshot!(zero.run(&["config", "path"]), @"
    exit 0
    SETTINGS  FILE
    user      [FOLDER]/home/.config/zero/settings.json
    project   [FOLDER]/.zero/settings.json
    local     [FOLDER]/.zero/settings.local.json
    ");
    insta::assert_snapshot!(zero.run(&["config", "get", "permissions.mode"]), @"
    exit 0
    plan
    ");
    insta::assert_snapshot!(zero.run(&["config", "get", "permissions.mode", "--json"]), @r#"
    exit 0
    {
      "key": "permissions.mode",
      "value": "plan",
      "source": "~/.config/zero/settings.json",
      "line": 3
    }
    "#);
    insta::assert_snapshot!(zero.run(&["config", "get", "permissions.mode", "--local"]), @"
    exit 1
    --- stderr
    error: `permissions.mode` is not set in `[FOLDER]/.zero/settings.local.json`
    ");
    insta::assert_snapshot!(zero.run(&["config", "get", "limits"]), @r#"
    exit 0
    {"session-calls":4,"file-timeout":"5s"}
    "#);
    insta::assert_snapshot!(zero.run(&["config", "unset", "permissions.mode"]), @"
    exit 0
    unset `permissions.mode` in ~/.config/zero/settings.json
    ");
    insta::assert_snapshot!(zero.run(&["config", "unset", "permissions.mode"]), @"
    exit 0
    `permissions.mode` is not set in ~/.config/zero/settings.json
    ");
    insta::assert_snapshot!(zero.run(&["config", "get", "permissions.mode"]), @"
    exit 1
    --- stderr
    error: `permissions.mode` is not set
    ");
    zero.stdout(&["config", "remove", "permissions.allow", "Bash(git status:*)"]);
    insta::assert_snapshot!(std::fs::read_to_string(&file).unwrap(), @r#"
    {
      "permissions": {
        "allow": []
      }
    }
    "#);
}

#[test]
fn breaking_change_is_not_written() {
    let zero = TestProgram::new();
    let text = "{\r\n  // mine\r\n  \"permissions\": { \"mode\": \"ask\" },\r\n}\r\n";
    write_file(&zero, USER_FILE, text);
    for args in [
        &["set", "permissions.mode", "yolo"][..],
        &["set", "permisions.mode", "ask"],
        &["set", "limits.file-timeout", "0s"],
        &["set", "limits.speed", "1"],
        &["set", "permissions", "3"],
        &["set", "permissions.mode.x", "3"],
        &["set", "permissions..mode", "ask"],
        &["add", "permissions.mode", "ask"],
        &["add", "permissions.allow", "Bash(git"],
        &["add", "permissions.allow", ""],
        &["set", "permissions.allow", "Read"],
    ] {
        let seen = zero.run(&[&["config"], args].concat());
        assert!(seen.starts_with("exit 2\n--- stderr\nerror: "), "{args:?}: {seen}");
        assert_eq!(
            std::fs::read_to_string(zero.folder().join(USER_FILE)).unwrap(),
            text,
            "{args:?}"
        );
    }
    insta::assert_snapshot!(zero.run(&["config", "set", "permissions.mode", "yolo"]), @r#"
    exit 2
    --- stderr
    error: the settings have an error:
      ~/.config/zero/settings.json:3:20: `permissions.mode` is "yolo"; write one of "ask", "accept-edits", "plan", "auto"
    nothing was written
    "#);
    insta::assert_snapshot!(zero.run(&["config", "get", "permissions.mod"]), @"
    exit 2
    --- stderr
    error: there is no setting `permissions.mod`; did you mean `permissions.mode`, `permissions.deny`, `permissions.allow`? `zero config list --defaults` lists all
    ");
    zero.stdout(&["config", "set", "permissions.mode", "plan"]);
    let new = std::fs::read_to_string(zero.folder().join(USER_FILE)).unwrap();
    assert_eq!(new, text.replace("\"ask\"", "\"plan\""), "nothing else has moved");
}

#[test]
fn every_file_error_is_reported_and_nothing_runs() {
    let zero = TestProgram::new();
    write_file(
        &zero,
        USER_FILE,
        "{\n  \"permisions\": {},\n  \"limits\": {\"file-timeout\": \"soon\"}\n}",
    );
    write_file(&zero, PROJECT_FILE, "{\"permissions\": {\"deny\": [\"Bash\"],\n\"deny\": []}}");
    let call = &["tools", "call", "LS", "{}"];
    insta::assert_snapshot!(zero.run(call), @"
    exit 2
    --- stderr
    error: the settings have 3 errors:
      ~/.config/zero/settings.json:2:3: unknown key `permisions`; did you mean `permissions`?
      ~/.config/zero/settings.json:3:14: limit `file-timeout`: `soon` is not a time such as `250 ms`, `30 s` or `2 m`
      [FOLDER]/.zero/settings.json:2:1: `deny` is a duplicate of line 1; merge the two
    ");
    for args in [&["config", "list"][..], &["config", "get", "permissions.mode"]] {
        assert!(zero.run(args).starts_with("exit 2"), "{args:?}");
    }
    let json = zero.run(&[&call[..], &["--json"]].concat());
    assert!(json.starts_with("exit 2\n{\"ok\":false"), "{json}");
}

#[test]
fn hostile_key_is_escaped_in_errors() {
    let zero = TestProgram::new();
    write_file(&zero, PROJECT_FILE, r#"{"x\nerror: all is well\u001b[2J": 1}"#);
    let seen = zero.run(&["config", "list"]);
    assert!(seen.contains(r"unknown key `x\nerror: all is well\u{1b}[2J`"), "{seen}");
}

#[test]
fn hostile_files_are_refused() {
    let deep = format!("{{\"hooks\": {}{}}}", "[".repeat(50_000), "]".repeat(50_000));
    let large = format!("{{}}{}", " ".repeat(1_000_000));
    for (text, expected) in [
        (deep.as_bytes(), "flatten it"),
        (large.as_bytes(), "is larger than 1 MB"),
        (b"{\"permissions\": {\"allow\": [\"\xFF\"]}}", "is not UTF-8"),
        (b"[]", "settings must be an object"),
        (b"", "the file is empty"),
        (b"{\"hooks\": {}, \"\\u0068ooks\": {}}", "is a duplicate of line"),
    ] {
        for path in [USER_FILE, PROJECT_FILE, LOCAL_FILE] {
            let zero = TestProgram::new();
            write_file(&zero, path, text);
            let seen = zero.run(&["tools", "call", "LS", "{}"]);
            assert!(seen.starts_with("exit 2") && seen.contains(expected), "{path}: {seen}");
        }
    }
}

#[test]
fn bom_and_comments_are_accepted() {
    let zero = TestProgram::new();
    write_file(&zero, USER_FILE, "\u{FEFF}// hi\r\n{\"limits\": {\"file-timeout\": \"7s\",},}\r\n");
    assert_eq!(zero.stdout(&["config", "get", "limits.file-timeout"]), "7s\n");
}

#[test]
fn checkout_cannot_redirect_its_settings() {
    let zero = TestProgram::new();
    write_file(&zero, "outside/secret.json", "{\"permissions\": {\"mode\": \"plan\"}}");
    std::fs::create_dir(zero.folder().join("work")).unwrap();
    std::fs::create_dir(zero.folder().join("work/.zero")).unwrap();
    let settings = zero.folder().join("work/.zero/settings.json");
    let list = || zero.run(&["config", "list", "--workspace", "work"]);
    let set = || {
        zero.run(&["config", "set", "permissions.mode", "ask", "--project", "--workspace", "work"])
    };
    symlink("../../outside/secret.json", &settings).unwrap();
    insta::assert_snapshot!(list(), @"
    exit 2
    --- stderr
    error: the settings have an error:
      [FOLDER]/work/.zero/settings.json: is a link, and zero does not follow links in a workspace; replace it with the file itself
    ");
    assert!(set().starts_with("exit 2"), "{}", set());
    std::fs::remove_file(&settings).unwrap();
    let made = zero.external_command("mkfifo").arg(&settings).status().unwrap();
    assert!(made.success());
    insta::assert_snapshot!(list(), @"
    exit 2
    --- stderr
    error: the settings have an error:
      [FOLDER]/work/.zero/settings.json: is not a regular file; remove it or replace it with a file
    ");
    std::fs::remove_dir_all(zero.folder().join("work/.zero")).unwrap();
    symlink("../outside", zero.folder().join("work/.zero")).unwrap();
    insta::assert_snapshot!(list(), @"
    exit 2
    --- stderr
    error: the settings have 2 errors:
      [FOLDER]/work/.zero/settings.json: its folder is a link or a file; replace it with a folder
      [FOLDER]/work/.zero/settings.local.json: its folder is a link or a file; replace it with a folder
    ");
    assert!(set().starts_with("exit 2"), "{}", set());
    let secret = std::fs::read_to_string(zero.folder().join("outside/secret.json")).unwrap();
    assert_eq!(secret, "{\"permissions\": {\"mode\": \"plan\"}}");
}

#[test]
fn linked_dotfiles_stay_links() {
    let zero = TestProgram::new();
    write_file(&zero, "home/dotfiles/zero.json", "{ /* mine */ }\n");
    std::fs::create_dir_all(zero.folder().join("home/.config/zero")).unwrap();
    symlink("../../dotfiles/zero.json", zero.folder().join(USER_FILE)).unwrap();
    zero.stdout(&["config", "set", "permissions.mode", "ask"]);
    assert!(std::fs::symlink_metadata(zero.folder().join(USER_FILE)).unwrap().is_symlink());
    let text = std::fs::read_to_string(zero.folder().join("home/dotfiles/zero.json")).unwrap();
    assert!(text.contains("/* mine */") && text.contains("\"mode\": \"ask\""), "{text}");
}

#[test]
fn flag_limits_override_settings_limits() {
    let zero = TestProgram::new();
    std::fs::write(zero.folder().join("a.txt"), "x".repeat(100)).unwrap();
    write_file(&zero, USER_FILE, "{\"limits\": {\"file-size\": \"10b\"}}");
    let write = &[
        "tools",
        "call",
        "Write",
        r#"{"file_path": "b", "content": "more than ten bytes"}"#,
        "--yes",
    ];
    let seen = zero.run(write);
    assert!(seen.starts_with("exit 1") && seen.contains("10 B"), "{seen}");
    let seen = zero.run(&[&write[..], &["--limit", "file-size=1kb"]].concat());
    assert!(seen.starts_with("exit 0"), "{seen}");
    std::fs::write(zero.folder().join("mine.json"), "{}").unwrap();
    let seen = zero.run(&[&write[..], &["--settings", "mine.json"]].concat());
    assert!(!seen.contains("10 B"), "{seen}");
    let seen = zero.run(&[&write[..], &["--settings", "none.json"]].concat());
    assert!(seen.starts_with("exit 2") && seen.contains("none.json: does not exist"), "{seen}");
}

#[test]
fn relative_xdg_and_dotenv_do_not_move_settings() {
    let zero = TestProgram::new();
    write_file(&zero, USER_FILE, "{\"permissions\": {\"mode\": \"plan\"}}");
    write_file(&zero, "other/zero/settings.json", "{\"permissions\": {\"mode\": \"auto\"}}");
    write_file(&zero, ".env", "XDG_CONFIG_HOME=other\nHOME=other\n");
    let get = &["config", "get", "permissions.mode"];
    let output = zero.command(get).env("XDG_CONFIG_HOME", "other").output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "plan\n", "a relative folder is no folder");
    let output = zero.command(get).env("XDG_CONFIG_HOME", zero.folder().join("other")).output();
    assert_eq!(String::from_utf8_lossy(&output.unwrap().stdout), "auto\n");
}

#[test]
fn schema_is_valid_and_names_every_key() {
    let schema: Value =
        serde_json::from_str(&TestProgram::new().stdout(&["config", "schema"])).unwrap();
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    for key in [
        "permissions",
        "limits",
        "mcpServers",
        "mcp",
        "tools",
        "hooks",
        "sandbox",
        "bash",
        "$schema",
    ] {
        let about = schema["properties"][key]["description"].as_str();
        assert!(about.is_some_and(|about| !about.is_empty()), "{key} is not described");
    }
}

#[test]
fn concurrent_changes_both_persist() {
    let zero = TestProgram::new();
    let children: Vec<_> = (0..8)
        .map(|n| {
            let rule = format!("Bash(tool-{n}:*)");
            zero.command(&["config", "add", "permissions.allow", &rule])
                .stdout(std::process::Stdio::null())
                .spawn()
                .unwrap()
        })
        .collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    assert_eq!(zero.stdout(&["config", "get", "permissions.allow"]).lines().count(), 8);
}

#[test]
fn last_value_of_object_that_may_not_be_empty_is_unset() {
    let zero = TestProgram::new();
    zero.stdout(&["config", "set", "budgets.run.tokens", "5"]);
    zero.stdout(&["config", "set", "agents.small", r#"{"mode": "plan"}"#]);
    zero.stdout(&["config", "unset", "budgets.run.tokens"]);
    // An agent without settings is still an agent.
    zero.stdout(&["config", "unset", "agents.small.mode"]);
    assert!(zero.run(&["config", "get", "budgets.run"]).starts_with("exit 1"));
    assert_eq!(zero.stdout(&["config", "get", "agents.small"]).trim(), "{}");
}

#[test]
fn unset_settings_are_listed_with_defaults() {
    let zero = TestProgram::new();
    zero.stdout(&["config", "set", "permissions.mode", "plan"]);
    let text = zero.stdout(&["config", "list", "--defaults"]);
    let row_of = |text: &str, key: &str| {
        let line = text.lines().find(|line| line.split_whitespace().next() == Some(key));
        let line = line.unwrap_or_else(|| panic!("{key}: {text}"));
        line.split_whitespace().skip(1).collect::<Vec<_>>().join(" ")
    };
    let row = |key: &str| row_of(&text, key);
    assert!(row("permissions.mode").starts_with("plan ~/.config/zero/settings.json:"), "{text}");
    assert_eq!(row("limits.file-timeout"), "30s default");
    assert_eq!(row("secrets.mask"), "true default");
    // The profile decides about the limits of commands that nobody set.
    assert_eq!(row("limits.command-file"), "20 GB default");
    let strict = TestProgram::new();
    strict.stdout(&["config", "set", "limits.profile", "strict"]);
    let strict = strict.stdout(&["config", "list", "--defaults"]);
    assert_eq!(row_of(&strict, "limits.command-file"), "100 MB default");
    assert_eq!(row("permissions.deny"), "[] default");
    assert_eq!(row("gateway.port"), "18789 default");
    assert_eq!(row("network.extraCa"), "(not set) default");
    let rows: serde_json::Value =
        serde_json::from_str(&zero.stdout(&["config", "list", "--defaults", "--json"])).unwrap();
    let rows = rows.as_array().unwrap();
    let set = rows.iter().filter(|row| row["key"] == "permissions.mode");
    assert_eq!(set.map(|row| &row["value"]).collect::<Vec<_>>(), [&serde_json::json!("plan")]);
    assert!(rows.iter().any(|row| row["key"] == "agent" && row["state"] == "default"));
    assert!(zero.run(&["config", "list"]).lines().count() < 6);
}

#[test]
fn edited_settings_are_checked_before_they_are_saved() {
    let zero = TestProgram::new();
    let without = zero.run(&["config", "edit"]);
    assert!(without.starts_with("exit 2\n") && without.contains("an editor needs a terminal"));
    let edit = |script: &str| {
        let mut command = zero.command(&["config", "edit"]);
        command.env("EDITOR", script).env("PATH", "/usr/bin:/bin").env("NO_COLOR", "1");
        crate::terminal_process::TerminalProcess::start(command).wait_for_exit()
    };
    let file = zero.folder().join(USER_FILE);
    let (code, seen) = edit("true");
    assert_eq!((code, file.exists()), (0, false), "{seen}");
    let write = |text: &str| format!("f() {{ printf '%s' '{text}' > \"$1\"; }}; f");
    let (code, seen) = edit(&write(r#"{"permissions": {"mode": "plan"}}"#));
    assert!(code == 0 && seen.contains("saved ~/.config/zero/settings.json"), "{seen}");
    let saved = std::fs::read_to_string(&file).unwrap();
    for wrong in [r#"{"permissions": {"mode": "plam"}}"#, "{", r#"{"nonsense": 1}"#] {
        let (code, seen) = edit(&write(wrong));
        assert_eq!(code, 2, "{seen}");
        assert!(seen.contains("nothing changed; your text is in"), "{seen}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), saved);
    }
    let (code, seen) = edit("false");
    assert!(code == 1 && seen.contains("nothing changed"), "{seen}");
}
