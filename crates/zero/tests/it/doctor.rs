//! `zero doctor`: its findings, and that broken parts do not prevent the other checks.

#![expect(clippy::disallowed_methods, reason = "tests use real files directly")]

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

/// What says how this machine confines, what is installed and what this build lacks, which differs
/// from machine to machine.
const MACHINE_CHECKS: [&str; 4] = ["build", "sandbox", "limits", "lsp"];

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
    ok      settings ~/.config/zero/settings.json: not found (user)
    ok      settings [FOLDER]/.zero/settings.json: not found (project)
    ok      settings [FOLDER]/.zero/settings.local.json: not found (local)
    ok      trust    this folder is not trusted; its settings do not need trust
    ok      rules    no rules; zero asks before it changes anything
    ok      mode     ask (default)
    ok      secrets  no secret files and no secret variables found
    warning models   no model is configured
                     run `zero login`, or `zero models` to see the model servers on this machine
    ok      gateway  reachable only from this machine; named tokens: 0
    ok      editor   `zero acp` uses a gateway in its own process
    ok      undo     0 commands in this folder can be undone, with 0 B of 2 GB (`undo.bytes`)
    ok      network  commands reach no host without permission; each session has its own loopback
    ok      audit    the log is writable
    ok      audit    the log has no rows yet
    ok      state    only you can access ~/.local/state/zero
    ok      sessions no sessions yet
    ok      PATH     2 folders, all outside the workspace
    ok      git      no hooks or configured programs that git would run

    no errors, 1 warning
    ");
    assert_eq!(output.status.code(), Some(0));
    let all = machine.join("\n");
    for name in ["kernel: Linux", "user namespaces:", "container:", "bubblewrap:", "landlock:"] {
        assert!(all.contains(name), "{name} is missing:\n{all}");
    }
    assert!(all.contains("`true` ran in the sandbox in "), "{all}");
    assert!(all.contains("limits   profile fair: command-memory "), "{all}");
    assert!(all.contains("%, command-processes 512, "), "{all}");
}

#[cfg(feature = "lsp")]
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
    assert!(found[1].starts_with("ok language server `gopls` is disabled ("), "{found:?}");
    assert_eq!(found[2], format!("ok language servers: clangd ({})", program.display()));
    assert_eq!(found[3], "ok none starts in this folder until you trust it with `zero trust`");
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

#[cfg(feature = "lsp")]
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
    let told = format!(
        "warning {shown} is only a placeholder for `rust-analyzer`, which is not installed"
    );
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
    assert!(found[0].starts_with("warning commands can connect to every host"), "{found:?}");
    let (_, found) = run_doctor(&zero, "limits", SYSTEM_PATH);
    assert!(found.iter().any(|line| line.contains("command-memory 2 GB")), "{found:?}");
    let (_, found) = run_doctor(&zero, "sandbox", SYSTEM_PATH);
    let unneeded = "warning `sandbox.weaker` lists `network`, which is enforced on this machine";
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
    ok [FOLDER]/.zero/settings.local.json: not found (local)
    ");
    assert_eq!(run_doctor(&zero, "audit", SYSTEM_PATH).1.len(), 2);
}

#[test]
fn narrow_rules_are_listed_with_location() {
    let zero = TestProgram::new();
    write_file(
        &zero,
        USER_FILE,
        "{\"permissions\": {\"deny\": [\n\"Read(/etc/passwd)\",\n\"Bash(rm)\", \"Read(//etc/hosts)\"]}}",
    );
    let found = run_doctor(&zero, "rules", SYSTEM_PATH).1.join("\n");
    for expected in [
        "settings.json:2: deny rule `Read(/etc/passwd)`: `/` is the workspace, which has no `/etc`; did you mean `Read(//etc/passwd)`?",
        "settings.json:3: deny rule `Bash(rm)`: it matches `rm` only without further arguments; write `Bash(rm:*)` to match it with any",
    ] {
        assert!(found.contains(expected), "{found}");
    }
    assert!(!found.contains("hosts"), "{found}");
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
    warning this folder is not trusted: its settings can only make zero stricter
    warning [FOLDER]/.zero/settings.json:2: `permissions.allow Bash(npm ci)` does not apply
    ");
    insta::assert_snapshot!(run_doctor(&zero, "mode", SYSTEM_PATH).1.join("\n"), @"
    warning auto (~/.config/zero/settings.json:3): zero runs many calls without asking
    ");
    zero.stdout(&["trust", "--yes"]);
    assert!(
        run_doctor(&zero, "trust", SYSTEM_PATH).1[0]
            .starts_with("ok this folder has been trusted since 2")
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
    error PATH has the relative entry `bin`: files in the current folder can replace programs; zero's commands do not use it
    error PATH has an empty entry, which means the current folder: files in the current folder can replace programs; zero's commands do not use it
    warning PATH has `[FOLDER]/bin`, a folder in the workspace: zero asks before it runs programs from there
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
        (0, vec!["warning the repository configures programs that git would run, so zero asks before it runs git: core.fsmonitor, hooks/pre-commit".to_owned()])
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
    assert_eq!(found, ["error ~/.local/state/zero has mode 755: other users can access it"]);
    std::fs::set_permissions(&state, std::fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!(run_doctor(&zero, "state", SYSTEM_PATH).0, 0);
    let day = std::fs::read_dir(state.join("audit")).unwrap().map(|entry| entry.unwrap().path());
    let day = day.into_iter().find(|path| path.extension().is_some_and(|end| end == "jsonl"));
    let day = day.unwrap();
    let rows = std::fs::read_to_string(&day).unwrap().replace("a.txt", "b.txt");
    std::fs::write(&day, rows).unwrap();
    let (code, found) = run_doctor(&zero, "audit", SYSTEM_PATH);
    assert_eq!(code, 1);
    assert!(found[1].starts_with("error the newest day is not intact: 2"), "{found:?}");
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
    let well = "ok ~/.local/state/zero/sessions.sqlite is readable; size ";
    assert!(found.len() == 1 && found[0].starts_with(well), "{found:?}");
    make_world_readable(&zero, STORE_FILE);
    let (code, found) = run_doctor(&zero, "sessions", SYSTEM_PATH);
    assert_eq!(code, 1);
    let open = "error ~/.local/state/zero/sessions.sqlite has mode 644: other users can read your sessions";
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
fn damaged_session_is_named_and_others_can_be_used() {
    const STORE_FILE: &str = "home/.local/state/zero/sessions.sqlite";
    let zero = TestProgram::new();
    for name in ["one", "two"] {
        zero.stdout(&["run", "--session", name, &format!("/help {name}{name}{name}")]);
    }
    let path = zero.folder().join(STORE_FILE);
    let mut bytes = std::fs::read(&path).unwrap();
    let marked = b"/help oneoneone";
    let spots: Vec<usize> =
        (0..bytes.len()).filter(|at| bytes[*at..].starts_with(marked)).collect();
    assert!(!spots.is_empty());
    for at in spots {
        // Ends the JSON string too early.
        bytes[at] = b'"';
    }
    std::fs::write(&path, bytes).unwrap();
    let (code, found) = run_doctor(&zero, "sessions", SYSTEM_PATH);
    assert_eq!(code, 1);
    assert!(found[0].starts_with("error session `agent:main:one` is damaged: "), "{found:?}");
    assert_eq!(found.len(), 1, "{found:?}");
    let listed = zero.stdout(&["sessions", "list"]);
    assert!(listed.contains("one") && listed.contains("two"), "{listed}");
    let shown = zero.stdout(&["sessions", "show", "one"]);
    assert!(shown.contains("an entry is damaged"), "{shown}");
    assert!(!zero.stdout(&["sessions", "show", "two"]).contains("damaged"));
    zero.stdout(&["run", "--session", "two", "/help"]);
}

/// Makes the settings of a session unreadable.
pub(crate) fn damage_settings(zero: &TestProgram, session: &str) {
    let path = zero.folder().join("home/.local/state/zero/sessions.sqlite");
    let mut bytes = std::fs::read(&path).unwrap();
    let find = |bytes: &[u8], from: usize, text: &[u8]| {
        (from..bytes.len()).find(|at| bytes[*at..].starts_with(text)).unwrap()
    };
    // The key, and the key for searches after it, begin the row.
    let keys = format!("agent:main:{session}").repeat(2);
    let row = find(&bytes, 0, keys.as_bytes());
    let settings = find(&bytes, row, br#"{"at":"#);
    bytes[settings] = b'x';
    std::fs::write(&path, bytes).unwrap();
}

#[test]
fn session_with_unreadable_settings_is_named_and_deleted() {
    let zero = TestProgram::new();
    for name in ["one", "two"] {
        zero.stdout(&["run", "--session", name, "/help"]);
    }
    damage_settings(&zero, "one");
    let (code, found) = run_doctor(&zero, "sessions", SYSTEM_PATH);
    assert_eq!((code, found.len()), (1, 1), "{found:?}");
    let expected =
        "error session `agent:main:one` is damaged: its settings cannot be read; the other";
    assert!(found[0].starts_with(expected), "{found:?}");
    zero.stdout(&["sessions", "delete", "one", "--yes"]);
    assert_eq!(run_doctor(&zero, "sessions", SYSTEM_PATH).0, 0);
    assert!(zero.stdout(&["sessions", "list"]).contains("agent:main:two"));
}

#[test]
fn session_with_unreadable_key_is_deleted_by_its_row() {
    const STORE_FILE: &str = "home/.local/state/zero/sessions.sqlite";
    let zero = TestProgram::new();
    for name in ["one", "two"] {
        zero.stdout(&["run", "--session", name, "/help"]);
    }
    let path = zero.folder().join(STORE_FILE);
    let mut bytes = std::fs::read(&path).unwrap();
    // The row has the key and the key for searches; an index has the key too.
    let marked = b"agent:main:one";
    let spots: Vec<usize> =
        (0..bytes.len()).filter(|at| bytes[*at..].starts_with(marked)).collect();
    assert!(spots.len() >= 3, "{spots:?}");
    for at in spots {
        bytes[at + marked.len() - 1] = 0xff;
    }
    std::fs::write(&path, bytes).unwrap();
    let listed = zero.run(&["sessions", "list"]);
    assert!(listed.contains("agent:main:two"), "{listed}");
    assert!(listed.contains("`zero sessions delete --id 1`"), "{listed}");
    let (code, found) = run_doctor(&zero, "sessions", SYSTEM_PATH);
    assert_eq!((code, found.len()), (1, 1), "{found:?}");
    assert!(found[0].contains("is damaged: its name cannot be read"), "{found:?}");
    let seen = zero.run(&["prune", "--days", "1"]);
    assert!(seen.starts_with("exit 0") && seen.contains("2 sessions are kept"), "{seen}");
    assert!(seen.contains("`zero sessions delete --id 1`"), "{seen}");
    for row in ["2", "9"] {
        let seen = zero.run(&["sessions", "delete", "--id", row, "--yes"]);
        assert!(seen.starts_with("exit 2") && seen.contains("no damaged session"), "{seen}");
    }
    zero.stdout(&["sessions", "delete", "--id", "1", "--yes"]);
    assert_eq!(run_doctor(&zero, "sessions", SYSTEM_PATH).0, 0);
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
    warning `a` has no key: the environment variable `NO_SUCH_KEY` is not set; set it to the key
    ok 2 configured; default `b`; keys missing: 1
    ");
    write_file(
        &zero,
        USER_FILE,
        r#"{"model": "nix", "models": {"a": {"model": "m", "api": "chat"}}}"#,
    );
    let (code, found) = run_doctor(&zero, "models", SYSTEM_PATH);
    assert_eq!(code, 1);
    assert!(
        found[0].starts_with("error the default model cannot be used: there is no model `nix`")
    );
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
    error `gateway.bind` is 0.0.0.0, but no token or password is set
    error `gateway.bind` is 0.0.0.0, but no certificate is set
    error ~/.local/state/zero/gateway.token has mode 644: other users can read the token
    ");
    insta::assert_snapshot!(run_doctor(&zero, "remote", SYSTEM_PATH).1.join("\n"), @"
    error `gateway.remote.url` connects to another machine without TLS, which zero refuses
    error ~/.config/zero/settings.json has mode 644 and contains a token: other users can read it
    ");
    write_file(
        &zero,
        USER_FILE,
        r#"{"gateway": {"tokens": {"ci": {"secret": {"file": "~/none"}, "scopes": ["read"]}}}}"#,
    );
    insta::assert_snapshot!(run_doctor(&zero, "gateway", SYSTEM_PATH).1.join("\n"), @"
    error could not find the token `ci`: the key file `~/none` does not exist
    error ~/.local/state/zero/gateway.token has mode 644: other users can read the token
    ");
}

#[test]
fn doctor_runs_without_home() {
    let zero = TestProgram::new();
    let output = zero.command(&["doctor"]).env_remove("HOME").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("set HOME or XDG_STATE_HOME"), "{text}");
    assert!(text.contains(".zero/settings.json: not found"), "{text}");
}
