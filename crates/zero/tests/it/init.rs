//! `zero init` in projects of several kinds.
#![expect(clippy::disallowed_methods, reason = "the tests set up projects")]

use std::path::Path;

use serde_json::Value;

use crate::terminal_process::TerminalProcess;
use crate::test_program::TestProgram;

fn write(folder: &Path, files: &[(&str, &str)]) {
    for (path, text) in files {
        let path = folder.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
}

#[test]
fn init_proposes_settings_and_writes_them_once() {
    let zero = TestProgram::new();
    write(
        zero.folder(),
        &[
            ("app/package.json", r#"{"scripts": {"test": "node --test", "deploy": "x"}}"#),
            (
                "app/.npmrc",
                "registry=https://packages.example.com/npm/\n//packages.example.com/:_authToken=sekret",
            ),
            ("app/.env", "API_KEY=sekret"),
            ("app/.mcp.json", "{}"),
        ],
    );
    let refused = zero.run(&["init", "app"]);
    assert!(refused.starts_with("exit 3\n") && refused.contains("pass `--yes`"), "{refused}");
    assert!(!refused.contains("sekret"), "{refused}");
    let dry = zero.run(&["init", "app", "--dry-run"]);
    assert!(dry.starts_with("exit 0\n") && dry.contains("nothing written"), "{dry}");
    assert!(dry.contains("to take it over: zero import claude --project"), "{dry}");
    assert!(!zero.folder().join("app/.zero").exists());

    zero.stdout(&["init", "app", "--yes"]);
    let settings = std::fs::read_to_string(zero.folder().join("app/.zero/settings.json")).unwrap();
    for expected in [
        "Bash(npm test:*)",
        "Bash(npm run test:*)",
        "Bash(npm publish:*)",
        "Read(.env)",
        "packages.example.com",
    ] {
        assert!(settings.contains(expected), "{settings}");
    }
    assert!(!settings.contains("sekret") && !settings.contains("deploy"), "{settings}");
    let agents = std::fs::read_to_string(zero.folder().join("app/AGENTS.md")).unwrap();
    assert!(agents.starts_with("# app\n") && agents.contains("`npm test`"), "{agents}");

    // The rules are valid, and apply after trust.
    zero.stdout(&["trust", "app", "--yes"]);
    let explained =
        zero.stdout(&["policy", "explain", "--workspace", "app", "npm test -- --watch"]);
    assert!(explained.starts_with("allow"), "{explained}");

    std::fs::write(zero.folder().join("app/AGENTS.md"), "mine").unwrap();
    let again = zero.run(&["init", "app", "--yes"]);
    assert!(again.starts_with("exit 0\n") && again.contains("nothing to write"), "{again}");
    assert_eq!(std::fs::read_to_string(zero.folder().join("app/AGENTS.md")).unwrap(), "mine");
    assert_eq!(
        std::fs::read_to_string(zero.folder().join("app/.zero/settings.json")).unwrap(),
        settings
    );
}

#[test]
fn init_json_shows_files_and_writes_with_yes() {
    let zero = TestProgram::new();
    write(zero.folder(), &[("app/go.mod", "module x\n"), ("app/CLAUDE.md", "Be brief.")]);
    let shown: Value = serde_json::from_str(&zero.stdout(&["init", "app", "--json"])).unwrap();
    assert_eq!(shown["written"], false);
    assert_eq!(shown["project"]["languages"], serde_json::json!(["Go"]));
    assert_eq!(shown["kept"], serde_json::json!(["CLAUDE.md"]));
    assert_eq!(shown["files"].as_array().unwrap().len(), 1, "{shown}");
    assert!(!zero.folder().join("app/.zero").exists());
    let written: Value =
        serde_json::from_str(&zero.stdout(&["init", "app", "--json", "--yes"])).unwrap();
    assert_eq!(written["written"], true);
    assert!(zero.folder().join("app/.zero/settings.json").exists());
    assert!(!zero.folder().join("app/AGENTS.md").exists());
}

#[test]
fn init_refuses_home_folder_and_links() {
    let zero = TestProgram::new();
    let refused = zero.run(&["init", "home", "--yes"]);
    assert!(
        refused.starts_with("exit 2\n") && refused.contains("not the folder of a project"),
        "{refused}"
    );
    // A link of a checkout leads nowhere that zero would write to.
    write(zero.folder(), &[("app/go.mod", "module x\n"), ("out/keep", "")]);
    std::os::unix::fs::symlink("../out", zero.folder().join("app/.zero")).unwrap();
    let refused = zero.run(&["init", "app", "--yes"]);
    assert!(!refused.starts_with("exit 0\n"), "{refused}");
    assert!(!zero.folder().join("out/settings.json").exists());
    assert!(!zero.folder().join("app/AGENTS.md").exists());
}

#[test]
fn init_asks_on_a_terminal() {
    let zero = TestProgram::new();
    write(zero.folder(), &[("app/go.mod", "module x\n")]);
    for (key, is_written) in [("n\r", false), ("y\r", true)] {
        let mut terminal = TerminalProcess::start(zero.command(&["init", "app"]));
        terminal.wait_for_text("Write this?");
        terminal.type_keys(key);
        let (code, seen) = terminal.wait_for_exit();
        assert_eq!(code, if is_written { 0 } else { 3 }, "{seen}");
        assert_eq!(zero.folder().join("app/.zero/settings.json").exists(), is_written);
    }
}
