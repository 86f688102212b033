//! `zero tools conformance`: all levels and names, and what it says where a part is missing.

#![expect(clippy::disallowed_methods, reason = "tests use real files directly")]

use serde_json::Value;

use crate::test_program::TestProgram;

/// JSON report of `zero tools conformance`, with this `PATH`.
fn run_conformance(zero: &TestProgram, path: &str, args: &[&str]) -> (i32, Value) {
    let mut command = zero.command(&[&["tools", "conformance", "--json"], args].concat());
    let output = command.env("PATH", path).output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    let report = serde_json::from_str(&stdout).unwrap_or_else(|_| panic!("{output:?}"));
    (output.status.code().unwrap(), report)
}

/// Each check that did not pass, as `tool: check: result: detail`.
fn failed_checks(report: &Value) -> Vec<String> {
    let checks = report["checks"].as_array().unwrap().iter();
    let others = checks.filter(|check| check["result"] != "pass");
    others
        .map(|check| {
            let word = |name: &str| check[name].as_str().unwrap_or_default().to_owned();
            format!("{}: {}: {}: {}", word("tool"), word("check"), word("result"), word("detail"))
        })
        .collect()
}

#[test]
fn every_level_and_name_conforms_offline() {
    let zero = TestProgram::new();
    let (code, report) = run_conformance(&zero, "/usr/bin:/bin", &["--dialects"]);
    assert_eq!(
        (code, failed_checks(&report)),
        (0, Vec::new()),
        "`cargo xtask test` installs clangd"
    );
    assert_eq!((&report["ok"], &report["needs"]), (&true.into(), &serde_json::json!([])));
    let checks = report["checks"].as_array().unwrap();
    let tools = |with_level: bool| -> std::collections::BTreeSet<&str> {
        let of = checks.iter().filter(|check| check["level"].is_number() == with_level);
        of.map(|check| check["tool"].as_str().unwrap()).collect()
    };
    assert_eq!((tools(true).len(), tools(false).len()), (11, 20));
    let names: Vec<&str> = checks
        .iter()
        .filter(|check| check["level"].is_null())
        .map(|check| check["check"].as_str().unwrap())
        .collect();
    for name in [
        "canonical: ReadMany",
        "acp: run_command",
        "acp: web_request",
        "qwen: todo_write",
        "qwen: save_memory",
        "qwen: BashOutput",
        "qwen: BashKill",
        "qwen: ask_user_question",
        "opencode: lsp-diagnostics",
        "opencode: lsp-hover",
        "opencode: webfetch",
        "opencode: websearch",
        "opencode: todo",
        "opencode: plan",
        "opencode: question",
    ] {
        assert!(names.contains(&name), "{name} is not in {names:?}");
    }
}

/// Where no language server is, that is said: nothing is passed that was not tried.
#[test]
fn conformance_reports_missing_language_server() {
    // Commands have a `/tmp` of their own, and would not find these programs there.
    let zero = TestProgram::outside_tmp();
    let programs = zero.folder().join("programs");
    std::fs::create_dir(&programs).unwrap();
    for program in ["bwrap", "bash", "sh", "wc", "echo", "sleep"] {
        let found = ["/usr/bin", "/bin"].map(|folder| std::path::Path::new(folder).join(program));
        let found = found.into_iter().find(|path| path.exists()).unwrap();
        std::os::unix::fs::symlink(found, programs.join(program)).unwrap();
    }
    let path = programs.to_str().unwrap();
    let (code, report) = run_conformance(&zero, path, &["--level", "2"]);
    let needs = "needs a language server: install one that `zero doctor` lists";
    assert_eq!(
        (code, failed_checks(&report)),
        (0, vec![format!("LSP: a server answers: needs: {needs}")])
    );
    assert_eq!(report["needs"][0]["tool"], "LSP");
    // One that is there and is of no use is told with what it says.
    let broken = programs.join("clangd");
    std::fs::write(&broken, "#!/bin/sh\nexit 1\n").unwrap();
    std::fs::set_permissions(&broken, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let (code, report) = run_conformance(&zero, path, &["--level", "2"]);
    let told = failed_checks(&report).concat();
    assert!(code == 0 && told.contains(&format!("{needs}; `clangd`")), "{code} {told}");
    let mut command = zero.command(&["tools", "conformance", "--level", "2"]);
    let output = command.env("PATH", path).output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    let expected = "level 1: conforms\nlevel 2: conforms; not run, because no language server is installed: LSP\n";
    assert!(stdout.ends_with(expected), "{stdout}");
}
