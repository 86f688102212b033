//! Hooks of settings: whose run, once what was looked at, and those of the document.

#![expect(clippy::disallowed_methods, reason = "tests use real files directly")]

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::config::{PROJECT_FILE, USER_FILE, write_file};
use crate::test_program::TestProgram;

const READ: [&str; 4] = ["tools", "call", "Read", r#"{"file_path": "a.txt"}"#];

fn hook_setting(name: &str) -> String {
    format!(r#"{{"hooks": {{"PreToolUse": [{{"command": ".zero/hooks/{name}"}}]}}}}"#)
}

fn write_script(zero: &TestProgram, path: &str, text: &str) {
    write_file(zero, path, text);
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(zero.folder().join(path), mode).unwrap();
}

/// A folder with a file, and a script that says no.
fn make_project() -> TestProgram {
    let zero = TestProgram::outside_tmp();
    write_file(&zero, "a.txt", "alpha\n");
    write_script(&zero, ".zero/hooks/no", "#!/bin/sh\necho not today >&2\nexit 2\n");
    zero
}

#[test]
fn project_hook_runs_once_trusted_and_unchanged() {
    let zero = make_project();
    write_file(&zero, PROJECT_FILE, hook_setting("no"));
    let seen = zero.run(&READ);
    assert!(seen.starts_with("exit 0") && seen.contains("alpha"), "{seen}");
    assert!(seen.contains("1 setting of this folder is not active"), "{seen}");
    insta::assert_snapshot!(zero.run(&["trust"]), @r"
    exit 3
    The settings in [FOLDER] need trust for:
      run before calls: .zero/hooks/no, with the current content of [FOLDER]/.zero/hooks/no  ([FOLDER]/.zero/settings.json:1)
    Trusting a folder also lets language servers start in it. They may execute build scripts and plugins, in a read-only sandbox without network access.
    --- stderr
    error: cannot ask without a terminal; review the list, then pass `--yes`
    ");
    zero.stdout(&["trust", "--yes"]);
    let seen = zero.run(&READ);
    assert!(
        seen.starts_with("exit 3") && seen.contains("denied by hook `.zero/hooks/no`"),
        "{seen}"
    );
    assert!(
        seen.contains("/.zero/settings.json:1): not today") && !seen.contains("alpha"),
        "{seen}"
    );
    // Another word in it, and it is not the one that was trusted.
    write_file(&zero, PROJECT_FILE, hook_setting("no --really"));
    let seen = zero.run(&READ);
    assert!(seen.starts_with("exit 0") && seen.contains("changed since you trusted"), "{seen}");
    write_file(&zero, PROJECT_FILE, hook_setting("no"));
    assert!(zero.run(&READ).starts_with("exit 3"));
    // One whose script does something else fails: nobody gets rid of a hook by writing to a file.
    write_script(&zero, ".zero/hooks/no", "#!/bin/sh\nexit 0\n");
    let seen = zero.run(&READ);
    assert!(
        seen.starts_with("exit 3") && seen.contains("changed since this hook was approved"),
        "{seen}"
    );
    assert!(seen.contains("1 hook of this folder fails"), "{seen}");
    assert!(zero.run(&["doctor"]).contains("these hooks fail"));
    assert!(zero.run(&["trust"]).contains("1 new, marked +"));
    zero.stdout(&["trust", "--yes"]);
    assert!(zero.run(&READ).starts_with("exit 0"));
}

#[test]
fn workspace_file_does_not_shadow_hook_program() {
    let zero = make_project();
    write_file(
        &zero,
        PROJECT_FILE,
        hook_setting("no").replace(".zero/hooks/no", "sh .zero/hooks/no"),
    );
    zero.stdout(&["trust", "--yes"]);
    write_script(&zero, "sh", "#!/bin/sh\nexit 0\n");
    let seen = zero.run(&READ);
    assert!(seen.starts_with("exit 3") && seen.contains("not today"), "{seen}");
}

#[test]
fn unreviewed_hook_script_does_not_run() {
    let zero = make_project();
    write_file(
        &zero,
        "own.json",
        hook_setting("no").replace(".zero/hooks/no", "sh .zero/hooks/no"),
    );
    let seen = zero.run(&[&READ[..], &["--settings", "own.json"]].concat());
    assert!(seen.starts_with("exit 3") && seen.contains("not today"), "it was: {seen}");
    write_file(&zero, "other/check", "exit 0\n");
    let other = zero.folder().join("other/check");
    let text = hook_setting("no").replace(".zero/hooks/no", &format!("sh {}", other.display()));
    write_file(&zero, "inner/own.json", text);
    write_file(&zero, "inner/a.txt", "alpha\n");
    let folders = ["--workspace", "inner", "--workspace", "other", "--settings", "inner/own.json"];
    let seen = zero.run(&[&READ[..], &folders].concat());
    assert!(seen.starts_with("exit 3") && seen.contains("was not part of the approval"), "{seen}");
}

#[test]
fn unusable_hooks_are_reported() {
    let zero = make_project();
    let script = zero.folder().join("home/.config/zero/hooks/no");
    write_script(&zero, "home/.config/zero/hooks/no", "#!/bin/sh\nexit 0\n");
    write_file(
        &zero,
        USER_FILE,
        json!({"hooks": {"PreToolUse": [{"command": script}]}}).to_string(),
    );
    let seen = zero.run(&["doctor"]);
    assert!(seen.contains("is in one of zero's own folders, which the sandbox hides"), "{seen}");
    assert!(zero.run(&READ).starts_with("exit 3"), "{seen}");
    let plan = json!({
        "permissions": {"mode": "plan"},
        "hooks": {"PreToolUse": [{"command": "/bin/true", "access": "write"}]},
    });
    write_file(&zero, USER_FILE, plan.to_string());
    let seen = zero.run(&["doctor"]);
    assert!(seen.contains("may write files, which plan mode does not permit"), "{seen}");
    let own = zero.folder().join("home/.config/zero");
    write_file(&zero, USER_FILE, r#"{"hooks": {"PreToolUse": [{"command": "/bin/true"}]}}"#);
    let seen = zero.command(&["doctor"]).current_dir(own).output().unwrap();
    let seen = String::from_utf8_lossy(&seen.stdout).into_owned();
    assert!(seen.contains("this is one of zero's own folders"), "{seen}");
}

#[test]
fn user_hooks_run_everywhere_and_are_listed() {
    let zero = make_project();
    let script = zero.folder().join(".zero/hooks/no");
    let no = script.to_str().unwrap();
    let own = hook_setting("no").replace(".zero/hooks/no", no);
    write_file(&zero, USER_FILE, own.replace("}]", ", \"match\": [\"Bash\", \"LS\"]}]"));
    assert!(zero.run(&READ).starts_with("exit 0"), "it is not for Read");
    let seen = zero.run(&["tools", "call", "LS", "{}"]);
    assert!(seen.starts_with("exit 3") && seen.contains("not today"), "{seen}");
    let rows = zero.stdout(&["audit", "tail", "--json"]);
    let row: Value = serde_json::from_str(rows.lines().last().unwrap()).unwrap();
    assert_eq!(row["hooks"][0]["said"], "deny");
    let page = zero.stdout(&["audit", "show", row["call"].as_str().unwrap()]);
    assert!(page.contains(&format!("PreToolUse {no} (~/.config/zero/settings.json:1): deny, ")));
    let seen = zero.run(&["policy", "explain", "ls"]);
    // As the program says it to people here, with the folder of this test left out.
    let shown = "[FOLDER]/.zero/hooks/no";
    let told = format!("hook `{shown}` (~/.config/zero/settings.json:1) may still deny it");
    assert!(seen.contains(&told), "{seen}");
    let seen = zero.run(&["doctor"]);
    assert!(seen.contains(&format!("run before calls: {shown} (~/.config")), "{seen}");
    std::fs::remove_file(&script).unwrap();
    let seen = zero.run(&["doctor"]);
    assert!(seen.contains(&format!("there is no executable program `{shown}`")), "{seen}");
    let seen = zero.run(&["tools", "call", "LS", "{}"]);
    assert!(seen.starts_with("exit 3") && seen.contains("it failed: "), "{seen}");
    let own = ["config", "get", "hooks.PreToolUse"];
    let told = format!(r#"{{"command":"{no}","match":["Bash","LS"]}}"#);
    assert!(zero.stdout(&own).contains(&told));
}

#[test]
fn meaningless_hook_is_settings_error() {
    let zero = make_project();
    let hooks = vec![json!({"command": "true"}); 17];
    let many = json!({"hooks": {"PreToolUse": hooks}}).to_string();
    for (text, part) in [
        (r#"{"hooks": {"Stop": []}}"#, "unknown key `hooks.Stop`"),
        (
            r#"{"hooks": {"PreToolUse": [{"matcher": "Bash", "command": "x"}]}}"#,
            "did you mean `match`?",
        ),
        (
            r#"{"hooks": {"PreToolUse": [{"match": "Bash"}]}}"#,
            "`hooks.PreToolUse.0.command` is missing",
        ),
        (r#"{"hooks": {"PreToolUse": [{"match": "Bsh", "command": "x"}]}}"#, "Bash"),
        (r#"{"hooks": {"PreToolUse": [{"command": "a && b"}]}}"#, "is not a single command"),
        (r#"{"hooks": {"PreToolUse": [{"command": "a", "timeoutMs": 60001}]}}"#, "60000"),
        (
            r#"{"hooks": {"PostToolUse": [{"command": "a", "onFailure": "ask"}]}}"#,
            "applies only to hooks before a call",
        ),
        (r#"{"hooks": {"PreToolUse": [{"command": "a", "access": "all"}]}}"#, "access"),
        (&many, "16"),
    ] {
        write_file(&zero, USER_FILE, text);
        let seen = zero.run(&READ);
        assert!(seen.starts_with("exit 2") && seen.contains(part), "{text}: {seen}");
        assert!(!seen.contains("alpha"), "{seen}");
    }
}

/// An example, which must be in the document word for word.
fn read_example(name: &str) -> String {
    let repository: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = std::fs::read_to_string(repository.join("examples/hooks").join(name)).unwrap();
    let document = std::fs::read_to_string(repository.join("docs/how-to/hooks.md")).unwrap();
    assert!(document.contains(&format!("\n{text}```\n")), "the document shows another {name}");
    text
}

#[test]
fn documented_hooks_work_as_described() {
    let zero = TestProgram::outside_tmp();
    write_file(&zero, PROJECT_FILE, read_example("settings.json"));
    for name in ["no-push", "no-scripts", "format"] {
        write_script(&zero, &format!(".zero/hooks/{name}"), &read_example(name));
    }
    // Stands in for the one that would fetch packages.
    write_script(&zero, "bin/npm", "#!/bin/sh\necho npm got \"$@\"\n");
    zero.stdout(&["trust", "--yes"]);
    let call = |tool: &str, input: Value| {
        let path = format!("{}:/usr/bin:/bin", zero.folder().join("bin").display());
        let mut command = zero.command(&["tools", "call", tool, &input.to_string(), "--yes"]);
        let output = command.env("PATH", path).output().unwrap();
        let text =
            String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        (output.status.code().unwrap(), text.into_owned())
    };
    let (code, seen) = call("Bash", json!({"command": "git -C . push origin main"}));
    assert_eq!(code, 3, "{seen}");
    assert!(seen.contains("pushing is for people"), "{seen}");
    let (code, seen) = call("Bash", json!({"command": "npm install left-pad"}));
    assert_eq!(code, 0, "{seen}");
    assert!(seen.contains("npm got install left-pad --ignore-scripts\n"), "{seen}");
    assert!(seen.contains("rewrote the input of this call"), "{seen}");
    let (code, seen) = call("Write", json!({"file_path": "a.json", "content": "{\"a\":1}"}));
    assert_eq!(code, 0, "{seen}");
    assert!(seen.contains("a.json was formatted"), "{seen}");
    let text = std::fs::read_to_string(zero.folder().join("a.json")).unwrap();
    assert_eq!(text, "{\n  \"a\": 1\n}\n");
    let (code, seen) = call("Bash", json!({"command": "echo fine"}));
    assert_eq!(code, 0, "{seen}");
    assert!(seen.contains("fine") && !seen.contains("hook"), "{seen}");
}

#[test]
fn relative_user_hook_runs_no_untrusted_script() {
    let zero = make_project();
    write_file(&zero, USER_FILE, hook_setting("no"));
    let seen = zero.run(&READ);
    assert!(seen.starts_with("exit 3") && seen.contains("it failed: "), "{seen}");
    assert!(!seen.contains("not today"), "the script of the folder ran: {seen}");
}
