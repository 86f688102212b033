//! Tests of pushes to repositories of this machine that are outside the workspace.

use std::path::{Path, PathBuf};

use zero_core::{CommandExecution, Effect, RiskLevel};
use zero_policy::{
    DecisionRequest, EmptyMachine, FileSearchOutcome, Machine, PermissionMode, TargetProtection,
    Verdict,
};

use crate::engine_harness::build_engine;

/// Remotes are names of bare repositories: `origin`, and `state` in zero's own folder.
struct RemoteMachine;

impl Machine for RemoteMachine {
    fn canonicalize(&self, absolute: &Path) -> Option<PathBuf> {
        EmptyMachine.canonicalize(absolute)
    }

    fn expand_glob(&self, pattern: &str, most: usize) -> Option<Vec<PathBuf>> {
        EmptyMachine.expand_glob(pattern, most)
    }

    fn git_helpers(&self, folder: &Path) -> Vec<String> {
        EmptyMachine.git_helpers(folder)
    }

    fn find_program(&self, name: &str, folder: &Path) -> Option<PathBuf> {
        EmptyMachine.find_program(name, folder)
    }

    fn find_file(&self, folder: &Path, wanted: &dyn Fn(&Path) -> bool) -> FileSearchOutcome {
        EmptyMachine.find_file(folder, wanted)
    }

    fn target_protection(&self, _: &[PathBuf], _: Option<&Path>, _: &Path) -> TargetProtection {
        TargetProtection::Unprotected
    }

    fn push_repository(&self, _folder: &Path, remote: &str) -> Option<PathBuf> {
        Some(PathBuf::from(match remote {
            "origin" => "/srv/origin.git",
            "state" => "/home/me/.local/state/zero/x.git",
            _ => return None,
        }))
    }
}

#[track_caller]
fn check(rules: &str, command: &str, expected: (Verdict, usize)) {
    let engine = build_engine(rules, PermissionMode::Auto);
    let decision = engine.decide(DecisionRequest {
        tool: "Bash",
        risk: RiskLevel::High,
        effects: &[Effect::Exec(CommandExecution::from_shell(command))],
        arguments: None,
        grants: &[],
        mode: None,
        machine: &RemoteMachine,
    });
    let opened = decision.access.map_or(0, |access| access.repositories.len());
    assert_eq!((decision.verdict, opened), expected, "{command}: {}", decision.reason);
}

#[test]
fn push_into_zeros_own_folder_is_denied_whatever_the_rules() {
    for rules in ["", "allow Bash(git push:*)", "allow Edit(~/.local/state/zero/**)"] {
        check(rules, "git push state main", (Verdict::Deny, 1));
        check(rules, "git push -q state", (Verdict::Deny, 1));
    }
}

#[test]
fn push_beside_other_commands_needs_a_rule_for_the_repository() {
    check("", "git push origin main", (Verdict::Ask, 1));
    for line in [
        "git push origin main; perl -e 'mkdir q(/srv/origin.git/x)'",
        "true && git push",
        "git push | tee log",
        "echo $(git push)",
        "sh -c 'git push'",
    ] {
        check("", line, (Verdict::Deny, 1));
    }
    check("ask Edit(//srv/**)", "true; git push", (Verdict::Deny, 1));
    check("allow Edit(//srv/**)", "true; git push", (Verdict::Allow, 1));
}
