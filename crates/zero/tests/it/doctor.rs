//! What `zero doctor` finds, and that nothing keeps it from looking.

#![expect(clippy::disallowed_methods, reason = "tests stand outside zero and look at its files")]

use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use crate::config::{PROJECT_FILE, USER_FILE, write_file};
use crate::test_program::TestProgram;

/// What it says of one thing, as `status message`, and the exit code.
pub(crate) fn run_doctor(zero: &TestProgram, check: &str, path: &str) -> (i32, Vec<String>) {
    let output = zero.command(&["doctor", "--json"]).env("PATH", path).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let code = output.status.code().unwrap();
    assert_eq!(report["ok"], code == 0);
    let folder = zero.folder().canonicalize().unwrap().display().to_string();
    let findings = report["checks"].as_array().unwrap().iter();
    let meant = findings.filter(|finding| finding["check"] == check);
    let shown = meant.map(|finding| {
        let is_well = finding["status"] == "ok";
        assert_eq!(is_well, finding.get("fix").is_none(), "what is not well has a fix: {finding}");
        let text = |name: &str| finding[name].as_str().unwrap().replace(&folder, "[FOLDER]");
        format!("{} {}", text("status"), text("message"))
    });
    (code, shown.collect())
}

pub(crate) const SYSTEM_PATH: &str = "/usr/bin:/bin";

/// What says how this machine confines and what is installed, which differs from machine to machine.
const MACHINE_CHECKS: [&str; 3] = ["sandbox", "limits", "lsp"];

#[test]
fn healthy_setup_is_reported_ok() {
    let zero = TestProgram::new();
    let output = zero.command(&["doctor"]).env("PATH", SYSTEM_PATH).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let folder = zero.folder().canonicalize().unwrap().display().to_string();
    let is_of_machine = |line: &&str| {
        line.split_whitespace().nth(1).is_some_and(|check| MACHINE_CHECKS.contains(&check))
    };
    let (machine, rest): (Vec<&str>, Vec<&str>) = text.lines().partition(is_of_machine);
    insta::assert_snapshot!(rest.join("\n").replace(&folder, "[FOLDER]"), @"
    ok      settings ~/.config/zero/settings.json: not there (user)
    ok      settings [FOLDER]/.zero/settings.json: not there (project)
    ok      settings [FOLDER]/.zero/settings.local.json: not there (local)
    ok      trust    this folder is not trusted; its settings ask for nothing that needs it
    ok      rules    there are none; what changes something is asked about
    ok      mode     ask (the usual one)
    ok      models   no model is attached; set OPENAI_API_KEY, ANTHROPIC_API_KEY or GEMINI_API_KEY, or OLLAMA_HOST for models on this machine, or describe one under `models` in settings; ZERO_MODEL chooses among several
    ok      gateway  only this machine can reach it; named tokens: 0
    ok      editor   `zero acp`, which editors start, uses a gateway in its own process
    ok      network  commands reach nobody
    ok      audit    the log can be written
    ok      audit    it has no rows yet
    ok      state    ~/.local/state/zero is yours alone
    ok      sessions there are none yet
    ok      PATH     2 folders, all outside the workspace
    ok      git      nothing here that git would run of its own

    all is well
    ");
    assert_eq!(output.status.code(), Some(0));
    let all = machine.join("\n");
    for name in ["kernel: Linux", "user namespaces:", "container:", "bubblewrap:", "landlock:"] {
        assert!(all.contains(name), "{name} is missing:\n{all}");
    }
    assert!(all.contains("`true` ran confined in "), "{all}");
    assert!(all.contains("command-memory 500 MB, command-cpu 50%, command-processes 512"), "{all}");
}

#[test]
fn language_servers_are_listed_with_install_hints() {
    let zero = TestProgram::new();
    let bin = tempfile::tempdir().unwrap();
    let bin = bin.path().canonicalize().unwrap();
    let path = bin.to_str().unwrap();
    let (_, found) = run_doctor(&zero, "lsp", path);
    assert_eq!(found[0], "ok no language server is installed; LSP needs one");
    assert!(found[1].contains("rust-analyzer: `rustup component add rust-analyzer`"), "{found:?}");
    let program = bin.join("clangd-19");
    std::fs::write(&program, "").unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    write_file(
        &zero,
        USER_FILE,
        r#"{"lspServers": {"gopls": {"disabled": true}, "mine": {"command": "no-such", "extensions": {"x": "x"}}}}"#,
    );
    let (_, found) = run_doctor(&zero, "lsp", path);
    assert!(found[0].starts_with("warning language server `mine` ("), "{found:?}");
    assert!(found[1].starts_with("ok language server `gopls` is turned off ("), "{found:?}");
    assert_eq!(found[2], format!("ok language servers: clangd ({})", program.display()));
    assert_eq!(found[3], "ok none starts in this folder until you trust it: `zero trust`");
    assert!(!found[4].contains("gopls") && found[4].contains("typescript"), "{found:?}");
    // What a project sets counts once its folder is trusted.
    let project = r#"{"lspServers": {"theirs": {"command": "no-such", "extensions": {"y": "y"}}}}"#;
    write_file(&zero, PROJECT_FILE, project);
    let (_, found) = run_doctor(&zero, "lsp", path);
    assert!(!found.join("\n").contains("theirs"), "{found:?}");
    zero.stdout(&["trust", "--yes"]);
    let found = run_doctor(&zero, "lsp", path).1.join("\n");
    assert!(found.contains("theirs") && !found.contains("until you trust it"), "{found}");
}

#[test]
fn language_server_stand_in_is_reported() {
    let zero = TestProgram::new();
    // Not in `/tmp`, of which whatever is confined has its own.
    let bin = tempfile::tempdir_in("/var/tmp").unwrap();
    let program = bin.path().canonicalize().unwrap().join("rust-analyzer");
    let says = |script: &str| {
        std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        run_doctor(&zero, "lsp", &format!("{}:{SYSTEM_PATH}", program.parent().unwrap().display()))
            .1
    };
    let shown = program.display();
    let told =
        format!("warning {shown} only stands in for `rust-analyzer`, which is not installed");
    for words in [
        "error: Unknown binary '\\''rust-analyzer'\\'' in official toolchain '\\''stable'\\''.",
        "error: '\\''rust-analyzer'\\'' is not installed for the toolchain '\\''stable'\\''.",
    ] {
        let found = says(&format!("echo '{words}' >&2; exit 1"));
        assert!(found.contains(&told), "{found:?}");
        assert!(!found.join("\n").contains(&format!("rust-analyzer ({shown})")), "{found:?}");
    }
    for script in ["echo rust-analyzer 1.90.0", "echo no idea >&2; exit 1"] {
        let found = says(script);
        assert!(!found.contains(&told), "{found:?}");
        assert!(found.join("\n").contains(&format!("rust-analyzer ({shown})")), "{found:?}");
    }
}

#[test]
fn command_settings_are_reported() {
    let zero = TestProgram::new();
    write_file(
        &zero,
        USER_FILE,
        r#"{"sandbox": {"network": ["*"], "weaker": ["network"]}, "limits": {"Bash": {"command-memory": "2GB"}}}"#,
    );
    let (_, found) = run_doctor(&zero, "network", SYSTEM_PATH);
    assert!(found[0].starts_with("warning commands may reach every host"), "{found:?}");
    let (_, found) = run_doctor(&zero, "limits", SYSTEM_PATH);
    assert!(found.iter().any(|line| line.contains("command-memory 2 GB")), "{found:?}");
    let (_, found) = run_doctor(&zero, "sandbox", SYSTEM_PATH);
    let unneeded = "warning `sandbox.weaker` has `network`, which holds here";
    assert!(found.iter().any(|line| line == unneeded), "{found:?}");
}

#[test]
fn broken_settings_are_reported_and_other_checks_run() {
    let zero = TestProgram::new();
    write_file(&zero, USER_FILE, "{\n\"permissions\": {\"deny\": [\"Bsh\"]}}");
    write_file(&zero, PROJECT_FILE, "{");
    let (code, found) = run_doctor(&zero, "settings", SYSTEM_PATH);
    assert_eq!(code, 1);
    insta::assert_snapshot!(found.join("\n"), @"
    error ~/.config/zero/settings.json:2:26: rule `Bsh`: there is no tool `Bsh`; did you mean `Bash`?
    error [FOLDER]/.zero/settings.json:1:1: unterminated object; close it with `}`
    ok [FOLDER]/.zero/settings.local.json: not there (local)
    ");
    assert_eq!(run_doctor(&zero, "audit", SYSTEM_PATH).1.len(), 2);
}

#[test]
fn risky_and_inactive_entries_are_listed_with_location() {
    let zero = TestProgram::new();
    write_file(
        &zero,
        USER_FILE,
        "{\"permissions\": {\"allow\": [\n\"Bash(python3:*)\",\n\"Read\"], \"mode\": \"auto\"}}",
    );
    write_file(&zero, PROJECT_FILE, "{\"permissions\": {\n\"allow\": [\"Bash(npm ci)\"]}}");
    assert_eq!(
        run_doctor(&zero, "rules", SYSTEM_PATH),
        (0, vec!["warning ~/.config/zero/settings.json:2: allow rule `Bash(python3:*)`: `python3` runs whatever its arguments say, so it allows every command".to_owned()])
    );
    insta::assert_snapshot!(run_doctor(&zero, "trust", SYSTEM_PATH).1.join("\n"), @"
    warning this folder is not trusted: its settings can only tighten
    warning [FOLDER]/.zero/settings.json:2: `permissions.allow Bash(npm ci)` does not count
    ");
    insta::assert_snapshot!(run_doctor(&zero, "mode", SYSTEM_PATH).1.join("\n"), @"
    warning auto (~/.config/zero/settings.json:3): much runs without a question
    ");
    zero.stdout(&["trust", "--yes"]);
    assert!(
        run_doctor(&zero, "trust", SYSTEM_PATH).1[0]
            .starts_with("ok this folder is trusted since 2")
    );
}

#[test]
fn workspace_writable_path_folders_are_named() {
    let zero = TestProgram::new();
    let bin = zero.folder().join("bin");
    std::fs::create_dir(&bin).unwrap();
    let bin = bin.canonicalize().unwrap();
    let path = format!("{}:/usr/bin:bin:", bin.display());
    let (code, found) = run_doctor(&zero, "PATH", &path);
    assert_eq!(code, 1);
    insta::assert_snapshot!(found.join("\n"), @"
    error it has `bin`, which is another folder in each place: a file there can pass for any program
    error it has an empty entry, which means the current folder: a file there can pass for any program
    warning it has `[FOLDER]/bin`, a folder of the workspace: programs there are asked about
    ");
}

#[test]
fn git_programs_of_repository_are_named() {
    let zero = TestProgram::new();
    write_file(&zero, ".git/config", "[core]\n\tfsmonitor = ./watch\n");
    write_file(&zero, ".git/hooks/pre-commit", "#!/bin/sh\n");
    let hook = zero.folder().join(".git/hooks/pre-commit");
    std::fs::set_permissions(hook, std::fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(
        run_doctor(&zero, "git", SYSTEM_PATH),
        (0, vec!["warning the repository brings what git would run, so git is asked about: core.fsmonitor, hooks/pre-commit".to_owned()])
    );
}

#[test]
fn exposed_or_changed_state_is_error() {
    let zero = TestProgram::new();
    write_file(&zero, "a.txt", "x");
    zero.stdout(&["tools", "call", "Read", r#"{"file_path":"a.txt"}"#]);
    let state = zero.folder().join("home/.local/state/zero");
    std::fs::set_permissions(&state, std::fs::Permissions::from_mode(0o755)).unwrap();
    let (code, found) = run_doctor(&zero, "state", SYSTEM_PATH);
    assert_eq!(code, 1);
    assert_eq!(found, ["error ~/.local/state/zero has mode 755: others can look into it"]);
    std::fs::set_permissions(&state, std::fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!(run_doctor(&zero, "state", SYSTEM_PATH).0, 0);
    let day = std::fs::read_dir(state.join("audit")).unwrap().map(|entry| entry.unwrap().path());
    let day = day.into_iter().find(|path| path.extension().is_some_and(|end| end == "jsonl"));
    let day = day.unwrap();
    let rows = std::fs::read_to_string(&day).unwrap().replace("a.txt", "b.txt");
    std::fs::write(&day, rows).unwrap();
    let (code, found) = run_doctor(&zero, "audit", SYSTEM_PATH);
    assert_eq!(code, 1);
    assert!(found[1].starts_with("error its newest day is not intact: 2"), "{found:?}");
}

/// Makes a file readable by everybody.
fn make_world_readable(zero: &TestProgram, file: &str) {
    let file = zero.folder().join(file);
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o644)).unwrap();
}

#[test]
fn exposed_or_unreadable_sessions_are_error() {
    const STORE_FILE: &str = "home/.local/state/zero/sessions.sqlite";
    let zero = TestProgram::new();
    zero.stdout(&["run", "/help"]);
    let (code, found) = run_doctor(&zero, "sessions", SYSTEM_PATH);
    assert_eq!(code, 0);
    let well = "ok ~/.local/state/zero/sessions.sqlite can be opened; it has ";
    assert!(found.len() == 1 && found[0].starts_with(well), "{found:?}");
    make_world_readable(&zero, STORE_FILE);
    let (code, found) = run_doctor(&zero, "sessions", SYSTEM_PATH);
    assert_eq!(code, 1);
    let open =
        "error ~/.local/state/zero/sessions.sqlite has mode 644: others can read what was said";
    assert_eq!(found[0], open);
    let state = zero.folder().join("home/.local/state/zero");
    for name in ["sessions.sqlite-wal", "sessions.sqlite-shm"] {
        let _ = std::fs::remove_file(state.join(name));
    }
    write_file(&zero, STORE_FILE, "this is no database, however long somebody looks at it");
    let (code, found) = run_doctor(&zero, "sessions", SYSTEM_PATH);
    assert_eq!(code, 1);
    let last = found.last().unwrap();
    assert!(last.starts_with("error ") && last.contains("sessions.sqlite"), "{found:?}");
}

#[test]
fn models_are_counted_and_missing_keys_named() {
    let zero = TestProgram::new();
    write_file(
        &zero,
        USER_FILE,
        r#"{"models": {
            "a": {"model": "m", "api": "chat", "apiKey": {"env": "NO_SUCH_KEY"}},
            "b": {"model": "m", "api": "chat", "apiKey": {"file": "~/key"}}
        }, "model": "b"}"#,
    );
    write_file(&zero, "home/key", "k3y-that-is-secret");
    let (code, found) = run_doctor(&zero, "models", SYSTEM_PATH);
    assert_eq!(code, 0);
    insta::assert_snapshot!(found.join("\n"), @"
    warning `a` has no key: the key is looked for in `NO_SUCH_KEY`, which is not set; set it
    ok 2 known; the usual one is `b`; keys missing: 1
    ");
    write_file(
        &zero,
        USER_FILE,
        r#"{"model": "nix", "models": {"a": {"model": "m", "api": "chat"}}}"#,
    );
    let (code, found) = run_doctor(&zero, "models", SYSTEM_PATH);
    assert_eq!(code, 1);
    assert!(found[0].starts_with("error the usual one cannot be used: there is no model `nix`"));
}

#[test]
fn gateway_settings_are_checked() {
    let zero = TestProgram::new();
    write_file(
        &zero,
        USER_FILE,
        r#"{"gateway": {"bind": "0.0.0.0", "remote": {"url": "ws://192.0.2.1:18789", "token": "t0ken-0123456789abcdef"}}}"#,
    );
    make_world_readable(&zero, USER_FILE);
    write_file(&zero, "home/.local/state/zero/gateway.token", "0123456789abcdef0123456789abcdef");
    make_world_readable(&zero, "home/.local/state/zero/gateway.token");
    let state = zero.folder().join("home/.local/state/zero");
    std::fs::set_permissions(state, std::fs::Permissions::from_mode(0o700)).unwrap();
    let (code, found) = run_doctor(&zero, "gateway", SYSTEM_PATH);
    assert_eq!(code, 1);
    insta::assert_snapshot!(found.join("\n"), @"
    error `gateway.bind` is 0.0.0.0, and nobody needs a token or password
    error `gateway.bind` is 0.0.0.0, and there is no certificate
    error ~/.local/state/zero/gateway.token has mode 644: others can read the token
    ");
    insta::assert_snapshot!(run_doctor(&zero, "remote", SYSTEM_PATH).1.join("\n"), @"
    error `gateway.remote.url` is another machine, in clear, which is refused
    error ~/.config/zero/settings.json has mode 644 and holds a token: others can read it
    ");
    write_file(
        &zero,
        USER_FILE,
        r#"{"gateway": {"tokens": {"ci": {"secret": {"file": "~/none"}, "scopes": ["read"]}}, "telemetry": {"endpoint": "nix"}}}"#,
    );
    insta::assert_snapshot!(run_doctor(&zero, "gateway", SYSTEM_PATH).1.join("\n"), @"
    error the token of `ci` is not found: the key is looked for in `~/none`, which is not there
    error `gateway.telemetry` cannot be used: it has no address; write one like `https://collector.example:4318`
    error ~/.local/state/zero/gateway.token has mode 644: others can read the token
    ");
}

#[test]
fn doctor_runs_without_home() {
    let zero = TestProgram::new();
    let output = zero.command(&["doctor"]).env_remove("HOME").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("set HOME or XDG_STATE_HOME"), "{text}");
    assert!(text.contains(".zero/settings.json: not there"), "{text}");
}
