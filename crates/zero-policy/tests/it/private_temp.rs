//! Tests of commands that use the private temporary folder of their session.

use std::path::{Path, PathBuf};

use zero_core::{CommandExecution, Effect, PathZone, RiskLevel, TargetPath};
use zero_policy::program::FileAccess;
use zero_policy::{
    DecisionRequest, EmptyMachine, FileSearchOutcome, Machine, PermissionMode, PolicyDecision,
    TargetProtection, Verdict, WriteScope,
};

use crate::engine_harness::build_engine;

/// Commands have `/tmp` of their own. The machine's has `/tmp/host.log` besides, and `/tmp/out` in the
/// private one is a link to `/etc`.
struct SandboxedMachine;

impl Machine for SandboxedMachine {
    fn canonicalize(&self, absolute: &Path) -> Option<PathBuf> {
        EmptyMachine.canonicalize(absolute)
    }

    fn command_path(&self, absolute: &Path, _access: FileAccess) -> Option<PathBuf> {
        let path = self.canonicalize(absolute)?;
        Some(match path.strip_prefix("/tmp/out") {
            Ok(below) => Path::new("/etc").join(below),
            Err(_) => path,
        })
    }

    fn is_private_temp(&self, canonical: &Path, access: FileAccess) -> bool {
        let is_shown = access == FileAccess::Read && canonical == Path::new("/tmp/host.log");
        canonical.starts_with("/tmp") && !is_shown
    }

    fn host_path(&self, path: &Path) -> Option<PathBuf> {
        Some(Path::new("/state/tmp").join(path.strip_prefix("/tmp").ok()?))
    }

    fn private_temp(&self) -> Option<&Path> {
        Some(Path::new("/tmp"))
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
        let held = Path::new("/tmp/d/key");
        match held.starts_with(folder) && wanted(held) {
            true => FileSearchOutcome::Found(held.to_owned()),
            false => FileSearchOutcome::NotFound,
        }
    }

    fn target_protection(&self, _: &[PathBuf], _: Option<&Path>, _: &Path) -> TargetProtection {
        TargetProtection::Unprotected
    }
}

fn decide(rules: &str, mode: PermissionMode, tool: &str, effect: Effect) -> PolicyDecision {
    build_engine(rules, mode).decide(DecisionRequest {
        tool,
        risk: RiskLevel::High,
        effects: &[effect],
        arguments: None,
        grants: &[],
        mode: None,
        machine: &SandboxedMachine,
    })
}

#[track_caller]
fn check(rules: &str, command: &str, expected: Verdict) {
    let effect = Effect::Exec(CommandExecution::from_shell(command));
    let decision = decide(rules, PermissionMode::Ask, "Bash", effect);
    assert_eq!(decision.verdict, expected, "{command} under {rules:?}: {}", decision.reason);
}

#[test]
fn private_temporary_file_needs_no_question() {
    for command in [
        "echo a > /tmp/a",
        "ls /tmp",
        "cat /tmp/a",
        "rm -rf /tmp/build",
        "mkdir -p /tmp/build/x && cp src/a.rs /tmp/build/x/",
        "mktemp -d",
        "mktemp /tmp/x.XXXX",
        "cd /tmp && ls",
        "sort src/a > $TMPDIR/sorted",
        "diff \"$TMPDIR\"/a \"${TMPDIR}/b\"",
        "grep -rn x /tmp/build",
        "echo a | tee /tmp/../tmp/a",
        "cat /tmp/*.log",
        "/bin/rm -r /tmp/build",
    ] {
        check("", command, Verdict::Allow);
    }
}

#[test]
fn path_that_leaves_temporary_folder_is_asked_about() {
    for command in [
        "echo a > /tmp/../etc/a",
        "cat /tmp/out/passwd",
        "echo a > /tmp/out/a",
        "echo a > $TMPDIR/../etc/a",
        "TMPDIR=/etc; echo a > $TMPDIR/a",
        "cat /tmp/host.log",
        // It may print nothing, so that another path is meant.
        "d=$(mktemp -d); rm -rf \"$d/src\"",
        "rm -rf \"$(mktemp -d >/dev/null)$PWD/src\"",
        "d=$(mktemp -d); cat $d/../../etc/passwd",
        "mktemp() { echo /etc/a; }; f=$(mktemp); echo a > $f",
        "f=$(TMPDIR=/etc mktemp); echo a > $f",
        "f=$(mktemp -p /etc); echo a > $f",
        "f=$(mktemp src/a.XXXX); echo a > $f",
        "f=$(mktemp; echo /etc/a); echo a > $f",
        "TMPDIR=/etc; f=$(mktemp); echo a > $f",
        "cat /var/tmp/a",
        "cat /tmp/*/../../etc/passwd",
        "/tmp/a",
        "sh /tmp/a",
        "/tmp/rm /tmp/a",
        "./rm -rf /tmp/a",
        "src/rm /tmp/a",
        "cd /tmp && ./rm a",
        "cp src/a.rs /tmp/.envrc",
    ] {
        check("", command, Verdict::Ask);
    }
}

#[test]
fn rule_for_temporary_file_holds() {
    for (rules, command) in [
        ("deny Read(//tmp/key)", "cat /tmp/key"),
        ("deny Read(//tmp/**)", "cat /tmp/a"),
        ("deny Edit(//tmp/**)", "echo a > /tmp/a"),
        ("deny Read(//tmp/**)", "cat $TMPDIR/a"),
    ] {
        check(rules, command, Verdict::Deny);
    }
    check("ask Edit(//tmp/**)", "echo a > /tmp/a", Verdict::Ask);
    check("deny Read(//tmp/d/key)", "cp -r /tmp/d src/x", Verdict::Ask);
    check("deny Edit(//tmp/d/key)", "rm -r /tmp/d", Verdict::Ask);
}

#[test]
fn temporary_file_needs_no_access_to_the_machine() {
    let effect = Effect::Exec(CommandExecution::from_shell("cat /tmp/a > /tmp/b"));
    let access = decide("", PermissionMode::Ask, "Bash", effect).access.unwrap();
    assert!(access.reads.is_empty(), "{:?}", access.reads);
    assert_eq!(access.writes, WriteScope::Nothing);
}

#[test]
fn sent_temporary_file_is_searched_where_it_is() {
    let command = "curl -d @/tmp/a https://a.example.com";
    let effect = Effect::Exec(CommandExecution::from_shell(command));
    let access = decide("", PermissionMode::Ask, "Bash", effect).access.unwrap();
    let sent: Vec<&Path> = access.sent.iter().map(|file| file.path.as_path()).collect();
    assert_eq!(sent, [Path::new("/state/tmp/a"), Path::new("/tmp/a")]);
}

#[test]
fn plan_mode_changes_no_temporary_file() {
    let run = |command| Effect::Exec(CommandExecution::from_shell(command));
    let decide = |command| decide("", PermissionMode::Plan, "Bash", run(command)).verdict;
    assert_eq!(decide("echo a > /tmp/a"), Verdict::Deny);
    assert_eq!(decide("cat /tmp/a"), Verdict::Allow);
}

#[test]
fn tool_reaches_the_temporary_folder_of_the_machine() {
    let path = TargetPath::new("/tmp/a", "/tmp/a".into(), PathZone::Outside);
    for (tool, effect) in [("Read", Effect::Read(path.clone())), ("Write", Effect::Write(path))] {
        let decision = decide("", PermissionMode::Ask, tool, effect);
        assert_eq!(decision.verdict, Verdict::Ask, "{tool}");
    }
}
