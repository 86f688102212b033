//! What zero says of a command or setting that needs a feature that it was built without.

use crate::config::{USER_FILE, write_file};
use crate::doctor::{SYSTEM_PATH, run_doctor};
use crate::test_program::TestProgram;

#[cfg(not(feature = "telemetry"))]
#[test]
fn telemetry_setting_is_refused() {
    let zero = TestProgram::new();
    let endpoint = "http://127.0.0.1:4318";
    write_file(
        &zero,
        USER_FILE,
        format!(r#"{{"gateway": {{"telemetry": {{"endpoint": "{endpoint}"}}}}}}"#),
    );
    let advice = "invalid `gateway.telemetry`: this build has no telemetry; build zero with `--features telemetry`, or remove the setting";
    let seen = zero.run(&["gateway", "--port", "0"]);
    assert!(seen.starts_with("exit 2\n") && seen.contains(advice), "{seen}");
    let (code, found) = run_doctor(&zero, "gateway", SYSTEM_PATH);
    assert_eq!((code, found), (1, vec![format!("error {advice}")]));
}

#[cfg(not(feature = "cluster"))]
#[test]
fn shared_store_is_refused() {
    let zero = TestProgram::new();
    let seen = zero.run(&["gateway", "--port", "0", "--store", "postgres://zero@127.0.0.1:1/zero"]);
    let advice = "this build has no Postgres; build zero with `--features cluster`";
    assert!(seen.starts_with("exit 1\n") && seen.contains(advice), "{seen}");
}

#[cfg(not(feature = "keyring"))]
#[test]
fn keyring_is_not_supported() {
    let zero = TestProgram::new();
    let advice = "which is not supported by this build; build zero with `--features keyring`, or ";
    let seen = zero.run_with_input(&["config", "set-key", "openai"], "sk-secret\n");
    let told = advice.replacen("which", "the desktop's keyring", 1);
    assert!(seen.starts_with("exit 1\n") && seen.contains(&told), "{seen}");
    let model = r#"{"models": {"m": {"api": "chat", "model": "m", "baseUrl": "http://127.0.0.1:1/v1", "apiKey": {"keyring": "openai"}}}}"#;
    write_file(&zero, USER_FILE, model);
    let seen = zero.run(&["run", "hi"]);
    assert!(seen.starts_with("exit 1\n") && seen.contains(advice), "{seen}");
}

/// A tool that is missing, under a name of a dialect, and a setting of it.
#[cfg(not(all(feature = "lsp", feature = "web")))]
#[track_caller]
fn check_missing_tool(call: (&str, &str, &str), settings: &str, setting: &str, advice: &str) {
    let (tool, dialect, name) = call;
    let zero = TestProgram::new();
    for (tool, dialect) in [(tool, "canonical"), (name, dialect)] {
        let seen = zero.run(&["tools", "call", tool, "{}", "--dialect", dialect]);
        let told = format!("there is no tool `{tool}`; {advice}");
        assert!(seen.starts_with("exit 1\n") && seen.contains(&told), "{seen}");
        let seen = zero.run(&["tools", "show", tool]);
        let told = format!("there is no tool `{tool}` in any dialect; {advice}");
        assert!(seen.starts_with("exit 2\n") && seen.contains(&told), "{seen}");
    }
    let list = zero.stdout(&["tools", "list", "--dialect", dialect]);
    assert!(!list.contains(name), "{list}");
    let find = |status: &str| {
        let (_, found) = run_doctor(&zero, "build", SYSTEM_PATH);
        let is_it = |line: &&String| line.starts_with(status) && line.ends_with(advice);
        found.iter().filter(is_it).count()
    };
    assert_eq!((find("ok "), find("error ")), (1, 0));
    write_file(&zero, USER_FILE, settings);
    assert_eq!((find("ok "), find("error ")), (0, 1));
    let output = zero.run(&["doctor"]);
    assert!(output.contains(&format!("or remove `{setting}`, which has no effect")), "{output}");
}

#[cfg(not(feature = "lsp"))]
#[test]
fn language_servers_are_missing() {
    check_missing_tool(
        ("LSP", "opencode", "lsp-hover"),
        r#"{"lspServers": {"mine": {"command": "x", "extensions": {"x": "x"}}}}"#,
        "lspServers",
        "this build has no language servers; build zero with `--features lsp`",
    );
}

#[cfg(not(feature = "web"))]
#[test]
fn web_tools_are_missing() {
    check_missing_tool(
        ("WebSearch", "qwen", "web_search"),
        r#"{"web": {"search": [{"engine": "searxng", "baseUrl": "http://127.0.0.1:8888"}]}}"#,
        "web.search",
        "this build has no web tools; build zero with `--features web`",
    );
}
