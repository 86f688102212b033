//! What a folder's settings may do before and after somebody trusts it.

#![expect(clippy::disallowed_methods, reason = "tests use real files directly")]

use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use crate::config::{LOCAL_FILE, PROJECT_FILE, USER_FILE, write_file};
use crate::terminal_process::TerminalProcess;
use crate::test_program::TestProgram;

const SETTINGS_TEXT: &str = r#"{
  "permissions": {
    "allow": ["Bash(npm test:*)"],
    "deny": ["Read(secrets/**)"],
    "mode": "auto"
  },
  "limits": {"file-timeout": "5m", "search-timeout": "1s"},
  "mcpServers": {"git\u001b[2Jhub": {"command": "npx", "args": ["-y", "some server"], "env": {"T": "1"}}},
  "tools": {"toolDiscoveryCommand": "./find-tools"},
  "hooks": {"PreToolUse": [{"command": "./hook"}]},
  "sandbox": {"network": ["*"]}
}
"#;

/// A moment, taken out of what is shown.
fn strip_times(text: &str) -> String {
    let is_day = |word: &str| word.len() == 10 && word.starts_with("20") && word.contains('-');
    let is_time = |word: &str| word.trim_end_matches(':').ends_with('Z') && word.contains(':');
    let line = |line: &str| {
        let words: Vec<&str> = line
            .split(' ')
            .filter(|word| !is_time(word))
            .map(|word| if is_day(word) { "[TIME]" } else { word })
            .collect();
        words.join(" ")
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn untrusted_folder_can_only_tighten() {
    let zero = TestProgram::new();
    write_file(&zero, USER_FILE, "{\"permissions\": {\"mode\": \"accept-edits\"}}");
    write_file(&zero, PROJECT_FILE, SETTINGS_TEXT);
    insta::assert_snapshot!(zero.run(&["config", "list"]), @r#"
    exit 0
    SETTING                     VALUE                                                            SOURCE
    permissions.mode            accept-edits                                                     ~/.config/zero/settings.json:1
    permissions.allow           Bash(npm test:*)                                                 [FOLDER]/.zero/settings.json:3   not active until trusted
    permissions.deny            Read(secrets/**)                                                 [FOLDER]/.zero/settings.json:4
    permissions.mode            auto                                                             [FOLDER]/.zero/settings.json:5   not active until trusted
    limits.file-timeout         5m                                                               [FOLDER]/.zero/settings.json:7   not active until trusted
    limits.search-timeout       1s                                                               [FOLDER]/.zero/settings.json:7
    mcpServers.git\u{1b}[2Jhub  {"command":"npx","args":["-y","some server"],"env":{"T":"***"}}  [FOLDER]/.zero/settings.json:8   not active until trusted
    tools.toolDiscoveryCommand  ./find-tools                                                     [FOLDER]/.zero/settings.json:9   not active until trusted
    hooks.PreToolUse            {"command":"./hook"}                                             [FOLDER]/.zero/settings.json:10  not active until trusted
    sandbox.network             *                                                                [FOLDER]/.zero/settings.json:11  not active until trusted
    --- stderr
    note: 7 settings of this folder are not active; see `zero trust`
    "#);
    assert_eq!(zero.stdout(&["config", "get", "permissions.mode"]), "accept-edits\n");
    assert_eq!(zero.stdout(&["config", "get", "limits.search-timeout"]), "1s\n");
    assert!(zero.run(&["config", "get", "permissions.allow"]).starts_with("exit 1"));
    insta::assert_snapshot!(zero.run(&["trust"]), @r#"
    exit 3
    The settings in [FOLDER] need trust for:
      allow without asking: Bash(npm test:*)  ([FOLDER]/.zero/settings.json:3)
      mode: auto  ([FOLDER]/.zero/settings.json:5)
      limit file-timeout: 5m  ([FOLDER]/.zero/settings.json:7)
      start the MCP server git\u{1b}[2Jhub: npx -y 'some server' with {"env":{"T":"1"}}  ([FOLDER]/.zero/settings.json:8)
      run to discover tools: ./find-tools  ([FOLDER]/.zero/settings.json:9)
      run before calls: ./hook  ([FOLDER]/.zero/settings.json:10)
      let commands connect to: *  ([FOLDER]/.zero/settings.json:11)
    Trusting a folder also lets language servers start in it. They may execute build scripts and plugins, in a read-only sandbox without network access.
    --- stderr
    error: cannot ask without a terminal; review the list, then pass `--yes`
    "#);
    let seen = zero.run(&["trust", "--yes"]);
    assert!(seen.starts_with("exit 0") && seen.contains("trusted [FOLDER]"), "{seen}");
    assert_eq!(zero.stdout(&["config", "get", "permissions.mode"]), "auto\n");
    assert_eq!(zero.stdout(&["config", "get", "permissions.allow"]), "Bash(npm test:*)\n");
    assert_eq!(zero.stdout(&["config", "get", "limits.file-timeout"]), "5m\n");
    let file = zero.folder().join("home/.local/state/zero/trust.json");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let kept = std::fs::read_to_string(&file).unwrap();
    assert!(!kept.contains("npx"), "what was trusted is kept as hashes: {kept}");
}

#[test]
fn trust_ends_when_trusted_settings_change() {
    let zero = TestProgram::new();
    write_file(&zero, PROJECT_FILE, SETTINGS_TEXT);
    zero.stdout(&["trust", "--yes"]);
    let harmless = format!("// a comment\n{}", SETTINGS_TEXT.replace("secrets/**", "other/**"));
    write_file(&zero, PROJECT_FILE, &harmless);
    assert_eq!(zero.stdout(&["config", "get", "permissions.mode"]), "auto\n");
    write_file(&zero, LOCAL_FILE, "{\"permissions\": {\"allow\": [\"Bash\"]}}");
    assert!(zero.run(&["config", "get", "permissions.allow"]).starts_with("exit 1"));
    insta::assert_snapshot!(strip_times(&zero.run(&["trust"])), @r#"
    exit 3
    [FOLDER] changed since you trusted it on [TIME] 1 new, marked +
      allow without asking: Bash(npm test:*)  ([FOLDER]/.zero/settings.json:4)
      mode: auto  ([FOLDER]/.zero/settings.json:6)
      limit file-timeout: 5m  ([FOLDER]/.zero/settings.json:8)
      start the MCP server git\u{1b}[2Jhub: npx -y 'some server' with {"env":{"T":"1"}}  ([FOLDER]/.zero/settings.json:9)
      run to discover tools: ./find-tools  ([FOLDER]/.zero/settings.json:10)
      run before calls: ./hook  ([FOLDER]/.zero/settings.json:11)
      let commands connect to: *  ([FOLDER]/.zero/settings.json:12)
    + allow without asking: Bash  ([FOLDER]/.zero/settings.local.json:1)
    Trusting a folder also lets language servers start in it. They may execute build scripts and plugins, in a read-only sandbox without network access.
    --- stderr
    error: cannot ask without a terminal; review the list, then pass `--yes`
    "#);
    let output = zero.command(&["trust", "--json"]).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    let status: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(status["standing"], "changed");
    assert_eq!(status["new"][0]["value"], "Bash");
    assert_eq!(status["new"][0]["layer"], "local");
    std::fs::remove_file(zero.folder().join(LOCAL_FILE)).unwrap();
    assert_eq!(zero.stdout(&["config", "get", "permissions.mode"]), "auto\n");
    insta::assert_snapshot!(strip_times(&zero.run(&["trust", "--list"])), @"
    exit 0
    SINCE                 FOLDER
    [TIME]  [FOLDER]
    ");
    insta::assert_snapshot!(zero.run(&["trust", "--revoke"]), @"
    exit 0
    [FOLDER] is no longer trusted
    ");
    insta::assert_snapshot!(zero.run(&["trust", "--revoke"]), @"
    exit 1
    --- stderr
    error: [FOLDER] is not trusted; `zero trust --list` lists trusted folders
    ");
    insta::assert_snapshot!(zero.run(&["trust", "--list"]), @"
    exit 0
    --- stderr
    note: no folder is trusted
    ");
}

#[test]
fn subfolder_of_trusted_folder_is_not_trusted() {
    let zero = TestProgram::new();
    write_file(&zero, PROJECT_FILE, SETTINGS_TEXT);
    write_file(&zero, "sub/.zero/settings.json", SETTINGS_TEXT);
    zero.stdout(&["trust", "--yes"]);
    let get = |folder| zero.run(&["config", "get", "permissions.allow", "--workspace", folder]);
    assert!(get(".").starts_with("exit 0"));
    assert!(get("sub").starts_with("exit 1"));
}

#[test]
fn folder_without_requests_can_be_trusted() {
    let zero = TestProgram::new();
    let says_no = r#"{"permissions": {"deny": ["Bash"], "allow": []}, "hooks": {}}"#;
    for settings in ["{}", says_no] {
        write_file(&zero, PROJECT_FILE, settings);
        insta::allow_duplicates! { insta::assert_snapshot!(zero.run(&["trust"]), @"
        exit 3
        The settings in [FOLDER] contain nothing that needs trust
        Trusting a folder also lets language servers start in it. They may execute build scripts and plugins, in a read-only sandbox without network access.
        --- stderr
        error: cannot ask without a terminal; review the list, then pass `--yes`
        ") }
    }
    let seen = zero.run(&["trust", "--yes"]);
    assert!(seen.starts_with("exit 0") && seen.contains("trusted [FOLDER]"), "{seen}");
    let seen = strip_times(&zero.run(&["trust"]));
    assert!(seen.starts_with("exit 0\n[FOLDER] has been trusted since [TIME]"), "{seen}");
    let status: Value = serde_json::from_str(&zero.stdout(&["trust", "--json"])).unwrap();
    assert_eq!(
        (&status["standing"], &status["entries"]),
        (&"trusted".into(), &serde_json::json!([]))
    );
    // Whatever comes later was not seen.
    write_file(&zero, PROJECT_FILE, SETTINGS_TEXT);
    assert!(zero.run(&["trust"]).contains("changed since you trusted it"));
    zero.stdout(&["trust", "--revoke"]);
    write_file(&zero, PROJECT_FILE, "{\"permissions\": {\"allow\": 3}}");
    insta::assert_snapshot!(zero.run(&["trust", "--yes"]), @"
    exit 2
    --- stderr
    error: the settings have an error:
      [FOLDER]/.zero/settings.json:1:18: `permissions.allow` is 3; write an array
    ");
}

#[test]
fn damaged_trust_file_stops_everything() {
    let zero = TestProgram::new();
    write_file(&zero, "home/.local/state/zero/trust.json", "{\"folders\":");
    for args in
        [&["trust"][..], &["trust", "--list"], &["config", "list"], &["tools", "call", "LS", "{}"]]
    {
        let seen = zero.run(args);
        assert!(seen.starts_with("exit 2") && seen.contains("is damaged"), "{args:?}: {seen}");
    }
}

/// Starts `zero trust` on a terminal.
fn start_on_terminal(zero: &TestProgram) -> TerminalProcess {
    let mut command = zero.command(&["trust"]);
    command.env("NO_COLOR", "1");
    TerminalProcess::start(command)
}

#[test]
fn user_sees_list_and_is_asked() {
    for (typed, code, trusted) in [("y\n", 0, true), ("n\n", 3, false), ("\n", 3, false)] {
        let zero = TestProgram::new();
        write_file(&zero, PROJECT_FILE, SETTINGS_TEXT);
        let mut terminal = start_on_terminal(&zero);
        terminal.wait_for_text("[y/N] ");
        terminal.type_keys(typed);
        let (exit, seen) = terminal.wait_for_exit();
        assert!(seen.contains("npx -y 'some server'"), "{seen}");
        assert!(!seen.contains("\u{1b}[2J"), "a name cannot clear the screen: {seen}");
        assert_eq!(exit, code, "{seen}");
        let listed = zero.stdout(&["trust", "--list", "--json"]);
        assert_eq!(listed.contains("folder"), trusted, "{listed}");
    }
}

#[test]
fn line_typed_before_the_question_was_read_does_not_answer_it() {
    let zero = TestProgram::new();
    write_file(&zero, PROJECT_FILE, SETTINGS_TEXT);
    let mut terminal = start_on_terminal(&zero);
    terminal.type_keys("y\n");
    terminal.wait_for_text("[y/N] ");
    terminal.type_keys("n\n");
    let (exit, seen) = terminal.wait_for_exit();
    assert_eq!(exit, 3, "{seen}");
}
