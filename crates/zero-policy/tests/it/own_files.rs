//! Tests of zero's own files: settings, state and secrets. No rule opens them.

use std::path::{Path, PathBuf};

use zero_core::{CommandExecution, Effect, PathZone, RiskLevel, TargetPath};
use zero_policy::rule::RuleOwner;
use zero_policy::{
    DecisionRequest, EmptyMachine, GrantScope, PermissionMode, PolicyEngine, PolicyEngineConfig,
};

use crate::engine_harness::{build_config, decide_command, decide_file};

/// Rules that allow everything that can be allowed.
const EVERYTHING: &str = "allow Read(//**); allow Edit(//**); allow Read; allow Edit; allow Write; allow Delete; allow Bash(*)";
const SECRETS: [&str; 2] = ["/w/keys/adm.tok", "/srv/Token"];

/// An engine with these workspace folders.
fn build_engine(rules: &str, roots: &[&str]) -> PolicyEngine {
    PolicyEngine::new(PolicyEngineConfig {
        roots: roots.iter().map(PathBuf::from).collect(),
        secret_files: SECRETS.map(PathBuf::from).to_vec(),
        ..build_config(rules, PermissionMode::Auto, RuleOwner::User)
    })
}

#[test]
fn own_files_are_closed_to_every_tool() {
    for roots in
        [&["/w"][..], &["/"], &["/w/keys"], &["/srv"], &["/home/me"], &["/home/me/.config"]]
    {
        let engine = build_engine(EVERYTHING, roots);
        for path in [
            "/w/keys/adm.tok",
            "/w/keys/ADM.TOK",
            "/w/keys/../keys/adm.tok",
            "/srv/token",
            "/home/me/.config/zero/settings.json",
            "/home/me/.config/zero",
            "/home/me/.local/state/zero/gateway.token",
            "/home/me/.local/state/zero/sessions.sqlite",
        ] {
            for tool in ["Read", "Grep", "LS", "ReadMany", "Write", "Edit", "Delete"] {
                let decision = decide_file(&engine, tool, path);
                let shown = format!("{tool} {path} in {roots:?}: {}", decision.reason);
                assert_eq!(decision.verdict.as_str(), "deny", "{shown}");
                assert!(shown.contains("no rule or approval allows access"), "{shown}");
            }
            let canonical = zero_policy::path::normalize_lexically(Path::new(path));
            assert!(!engine.may_read("Grep", Path::new(path), &canonical), "{path}");
            assert!(!engine.may_change(&canonical), "{path}");
        }
        assert!(decide_file(&engine, "Read", "/w/keys/other").verdict.as_str() == "allow");
        assert!(engine.filters_reads());
    }
}

#[test]
fn link_to_own_files_is_closed() {
    let engine = build_engine(EVERYTHING, &["/w"]);
    let target = TargetPath::new("notes.txt", "/w/keys/adm.tok".into(), PathZone::Workspace);
    let named = TargetPath::new("keys/adm.tok", "/w/other".into(), PathZone::Workspace);
    for path in [target, named] {
        let decision = engine.decide(DecisionRequest {
            tool: "Read",
            risk: RiskLevel::Low,
            effects: &[Effect::Read(path)],
            arguments: None,
            grants: &[],
            mode: None,
            machine: &EmptyMachine,
        });
        assert_eq!(decision.verdict.as_str(), "deny", "{}", decision.reason);
    }
    assert!(!engine.may_read("Grep", Path::new("notes.txt"), Path::new("/w/keys/adm.tok")));
}

#[test]
fn command_or_grant_cannot_open_own_files() {
    let engine = build_engine(EVERYTHING, &["/w"]);
    for command in [
        "cat keys/adm.tok",
        "cat /w/keys/adm.tok",
        "cp keys/adm.tok x",
        "base64 < keys/adm.tok",
        "echo x > keys/adm.tok",
        "rm keys/adm.tok",
        "mv keys/adm.tok x",
        "mv keys k2",
        "rm -r keys",
        "grep -f /srv/Token x",
        "cat ~/.config/zero/settings.json",
        "sqlite3 ~/.local/state/zero/sessions.sqlite .dump < ~/.local/state/zero/sessions.sqlite",
    ] {
        let decision = decide_command(&engine, command);
        assert_eq!(decision.verdict.as_str(), "deny", "{command}: {}", decision.reason);
    }
    let grants =
        [GrantScope { rule: "Read(//w/keys/adm.tok)".to_owned(), folder: None, program: None }];
    let decision = engine.decide(DecisionRequest {
        tool: "Bash",
        risk: RiskLevel::High,
        effects: &[Effect::Exec(CommandExecution::from_shell("cat keys/adm.tok"))],
        arguments: None,
        grants: &grants,
        mode: None,
        machine: &EmptyMachine,
    });
    assert_eq!(decision.verdict.as_str(), "deny", "{}", decision.reason);
    assert!(decision.grants.is_empty());
}

#[test]
fn process_memory_is_not_readable() {
    for roots in [&["/w"][..], &["/"]] {
        let engine = build_engine(EVERYTHING, roots);
        for path in ["/proc/self/environ", "/proc/1/environ", "/proc/1/task/1/mem"] {
            assert_eq!(decide_file(&engine, "Read", path).verdict.as_str(), "deny", "{path}");
            assert!(!engine.may_read("Grep", Path::new(path), Path::new(path)), "{path}");
        }
        assert_eq!(decide_file(&engine, "Read", "/proc/cpuinfo").verdict.as_str(), "allow");
    }
}

#[test]
fn workspace_without_own_files_skips_filtering() {
    let engine = build_engine("", &["/work"]);
    assert!(!engine.filters_reads() && !engine.has_read_guards());
    for (folder, expected) in [("/w/keys", true), ("/", true), ("/home", true), ("/work/x", false)]
    {
        assert_eq!(engine.contains_own_files(Path::new(folder)), expected, "{folder}");
    }
    let beside = self::build_engine("", &["/w"]);
    assert!(beside.filters_reads() && !beside.has_read_guards());
}
