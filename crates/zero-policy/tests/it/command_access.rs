//! What the sandbox of a command opens, and how often the machine is searched for a decision.

use std::cell::Cell;
use std::path::{Path, PathBuf};

use zero_core::{CommandExecution, Effect, RiskLevel};
use zero_policy::{
    CommandAccess, DecisionRequest, EmptyMachine, FileSearchOutcome, HostName, Machine,
    NetworkScope, PermissionMode, TargetProtection, Verdict, WriteScope,
};

use crate::engine_harness::{build_engine, decide_command, decide_effects};

fn access(command: &str) -> CommandAccess {
    decide_command(&build_engine("", PermissionMode::Ask), command).access.unwrap()
}

#[track_caller]
fn check(command: &str, writes: &[&str], network: NetworkScope) {
    let writes = match writes {
        [] => WriteScope::Nothing,
        paths => WriteScope::Paths(paths.iter().map(PathBuf::from).collect()),
    };
    let CommandAccess { writes: found, network: reached, .. } = access(command);
    assert_eq!((found, reached), (writes, network), "{command}");
}

/// A repository on branch `topic`, with the remote `origin` and the branch `fix/it`.
struct BranchMachine;

impl Machine for BranchMachine {
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

    fn git_setting(&self, _folder: &Path, name: &str) -> Option<Vec<String>> {
        Some((name == "remote.origin.url").then(|| "https://h/p".to_owned()).into_iter().collect())
    }

    fn git_branch(&self, _folder: &Path) -> Option<String> {
        Some("topic".to_owned())
    }

    fn has_git_branch(&self, _folder: &Path, name: &str) -> bool {
        name == "fix/it"
    }

    fn find_file(&self, folder: &Path, accepts: &dyn Fn(&Path) -> bool) -> FileSearchOutcome {
        EmptyMachine.find_file(folder, accepts)
    }

    fn target_protection(
        &self,
        roots: &[PathBuf],
        home: Option<&Path>,
        canonical: &Path,
    ) -> TargetProtection {
        EmptyMachine.target_protection(roots, home, canonical)
    }
}

#[test]
fn followed_branch_is_that_of_repository() {
    let changes = |command: &str| {
        let decision = build_engine("", PermissionMode::Ask).decide(DecisionRequest {
            tool: "Bash",
            risk: RiskLevel::High,
            effects: &[Effect::Exec(CommandExecution::from_shell(command))],
            arguments: None,
            grants: &[],
            mode: None,
            machine: &BranchMachine,
        });
        let changes = decision.access.unwrap().git_settings;
        let values: Vec<_> = changes.into_iter().filter_map(|change| change.value).collect();
        values.join(" ")
    };
    assert_eq!(changes("git branch -u origin/main"), "origin refs/heads/main");
    assert_eq!(changes("git push -u origin HEAD"), "origin refs/heads/topic");
    assert_eq!(changes("git branch -u fix/it y"), ". refs/heads/fix/it");
    assert_eq!(changes("git branch -u main y"), ". refs/heads/main");
    // Git refuses it, so there is nothing to ask about.
    assert_eq!(changes("git branch -u upstream/main y"), "");
    assert_eq!(access("git branch -u origin/main").git_settings, []);
}

#[test]
fn only_plain_git_commands_change_settings() {
    let changes = |command: &str| access(command).git_settings.len();
    assert_eq!(changes("git config user.name X"), 1);
    assert_eq!(changes("git remote add o https://h/p"), 2);
    assert_eq!(changes("git push -u origin main"), 2);
    // Several on a line, and commands that only read.
    assert_eq!(changes("git config user.name X && git config user.email a@b"), 2);
    assert_eq!(changes("git config user.name X; git config pull.rebase true\ngit status"), 2);
    assert_eq!(changes("git remote add o https://h/p && git remote -v"), 2);
    assert_eq!(changes("git remote add o https://h/p && git push -u o main"), 4);
    for command in [
        "git config user.name X; ls",
        "git config user.name X && git config core.pager evil",
        "git config user.name X && git commit -m x",
        "git config user.name X || git config user.email a@b",
        "git config user.name X & git config user.email a@b",
        "git config user.name X && ! git config user.email a@b",
        "git config user.name X && A=1 git config user.email a@b",
        "git config user.name X && git -C sub log",
        "{ git config user.name X; }",
        "if git config user.name X; then git status; fi",
        "git status && git log",
        "ls | git config user.name X",
        "git config user.name X > out",
        "git config user.name $X",
        "git config user.name $(evil)",
        "A=1 git config user.name X",
        "GIT_DIR=x git config user.name X",
        "env git config user.name X",
        "git -C sub config user.name X",
        "git -c core.pager=evil config user.name X",
        "git --git-dir=x config user.name X",
        "./git config user.name X",
        "(git config user.name X)",
        "git push -uf origin main",
        "git push -u --force origin main",
    ] {
        assert_eq!(changes(command), 0, "{command}");
    }
    // The question lists the file once.
    let decision = decide_command(&build_engine("", PermissionMode::Ask), "git config user.name X");
    let writes = decision.effects.iter().filter(|effect| effect.kind == "write");
    let mut targets: Vec<&str> = writes.map(|effect| effect.target.as_str()).collect();
    targets.dedup();
    assert!(matches!(targets[..], [one] if one.ends_with("/.git/config")), "{targets:?}");
    // No rule or mode makes such a change unasked.
    for mode in [PermissionMode::Ask, PermissionMode::AcceptEdits, PermissionMode::Auto] {
        let engine = build_engine("allow Bash(*); allow Edit(.git/config); allow Edit", mode);
        for command in ["git config user.name X", "git remote add o https://h/p"] {
            assert_eq!(decide_command(&engine, command).verdict.as_str(), "ask", "{command}");
        }
    }
}

#[test]
fn known_command_gets_what_its_line_names() {
    for command in ["ls", "cat a | grep b", "cd src && git status", "x=1", "_zero_note=a", "true"] {
        check(command, &[], NetworkScope::Nothing);
    }
    check("touch a src/b", &["/w/a", "/w/src/b"], NetworkScope::Nothing);
    check("cd src && cp a b", &["/w/src/b", "/w/src/b/a"], NetworkScope::Nothing);
    check("ls > out", &["/w/out"], NetworkScope::Nothing);
    check("rm -rf build", &["/w/build"], NetworkScope::Nothing);
    let hosts = |names: &[&str]| {
        NetworkScope::Hosts(names.iter().map(|name| HostName::from_host(name).unwrap()).collect())
    };
    check("curl https://x.org", &[], hosts(&["x.org"]));
    check("curl -o page https://x.org", &["/w/page"], hosts(&["x.org"]));
    check("curl -s x.org | wc; wget -qO- https://y.org/a", &[], hosts(&["x.org", "y.org"]));
}

#[test]
fn unknown_command_gets_the_workspace() {
    for command in [
        "make",
        "ls; ./script",
        "touch \"$(cat list)\"",
        "cp a \"$X\"",
        "eval \"$X\"",
        "ls $(make)",
        "echo 'unclosed",
        "LD_PRELOAD=./x.so ls",
        "ls | sh",
        "find . -exec make \\;",
    ] {
        let expected = CommandAccess { reads: access(command).reads, ..CommandAccess::default() };
        assert_eq!(access(command), expected, "{command}");
    }
}

#[test]
fn write_access_is_judged_as_unknown_program() {
    let decide = |rules: &str, mode| {
        let execution =
            CommandExecution { write_access: true, ..CommandExecution::from_shell("ls | wc") };
        let effects = [Effect::Exec(execution)];
        let (tool, risk) = ("Bash", RiskLevel::High);
        let world = &EmptyMachine;
        let request = DecisionRequest {
            tool,
            risk,
            effects: &effects,
            arguments: None,
            grants: &[],
            mode: None,
            machine: world,
        };
        let decision = build_engine(rules, mode).decide(request);
        let access = decision.access.unwrap();
        let (writes, network) = (access.writes, access.network);
        assert_eq!((writes, network), (WriteScope::Workspace, NetworkScope::Allowed));
        decision.verdict
    };
    assert_eq!(decide("", PermissionMode::Ask), Verdict::Ask);
    assert_eq!(decide("allow Bash(ls:*)", PermissionMode::Ask), Verdict::Ask);
    assert_eq!(decide("allow Bash(ls:*); allow Bash(wc:*)", PermissionMode::Ask), Verdict::Allow);
    assert_eq!(decide("", PermissionMode::AcceptEdits), Verdict::Ask);
    assert_eq!(decide("", PermissionMode::Auto), Verdict::Allow);
    assert_eq!(decide("allow Bash(ls:*); allow Bash(wc:*)", PermissionMode::Plan), Verdict::Deny);
}

#[test]
fn network_access_is_judged_as_unknown_program() {
    let decide = |rules: &str, mode| {
        let execution =
            CommandExecution { network_access: true, ..CommandExecution::from_shell("ls | wc") };
        let decision = decide_effects(
            &build_engine(rules, mode),
            "Bash",
            RiskLevel::High,
            &[Effect::Exec(execution)],
        );
        let access = decision.access.unwrap();
        let scopes = (access.writes, access.network);
        assert_eq!(scopes, (WriteScope::Nothing, NetworkScope::Allowed));
        decision.verdict
    };
    assert_eq!(decide("", PermissionMode::Ask), Verdict::Ask);
    assert_eq!(decide("allow Bash(ls:*); allow Bash(wc:*)", PermissionMode::Ask), Verdict::Allow);
    assert_eq!(decide("", PermissionMode::Auto), Verdict::Allow);
    assert_eq!(decide("allow Bash(ls:*); allow Bash(wc:*)", PermissionMode::Plan), Verdict::Deny);
}

#[test]
fn no_rule_or_mode_allows_a_command_outside_the_sandbox() {
    let decide = |rules: &str, mode| {
        let execution =
            CommandExecution { outside_sandbox: true, ..CommandExecution::from_shell("ls") };
        let effects = [Effect::Exec(execution)];
        let decision =
            decide_effects(&build_engine(rules, mode), "Bash", RiskLevel::High, &effects);
        assert_eq!(decision.risk, RiskLevel::Critical);
        decision.verdict
    };
    for mode in [PermissionMode::Ask, PermissionMode::AcceptEdits, PermissionMode::Auto] {
        assert_eq!(decide("", mode), Verdict::Ask);
        assert_eq!(decide("allow Bash; allow Bash(ls:*)", mode), Verdict::Ask);
        assert_eq!(decide("deny Bash(ls:*)", mode), Verdict::Deny);
    }
    assert_eq!(decide("allow Bash", PermissionMode::Plan), Verdict::Deny);
}

/// Counts searches.
#[derive(Default)]
struct CountingMachine {
    searches: Cell<usize>,
}

impl Machine for CountingMachine {
    fn canonicalize(&self, absolute: &Path) -> Option<PathBuf> {
        EmptyMachine.canonicalize(absolute)
    }

    fn expand_glob(&self, _: &str, _: usize) -> Option<Vec<PathBuf>> {
        Some(Vec::new())
    }

    fn git_helpers(&self, _: &Path) -> Vec<String> {
        Vec::new()
    }

    fn find_program(&self, _: &str, _: &Path) -> Option<PathBuf> {
        None
    }

    fn find_file(&self, _: &Path, _: &dyn Fn(&Path) -> bool) -> FileSearchOutcome {
        self.searches.set(self.searches.get() + 1);
        FileSearchOutcome::NotFound
    }

    fn target_protection(&self, _: &[PathBuf], _: Option<&Path>, _: &Path) -> TargetProtection {
        TargetProtection::Unprotected
    }
}

#[test]
fn folder_is_searched_once_for_a_decision() {
    let engine = build_engine("deny Read(.env)", PermissionMode::Ask);
    let machine = CountingMachine::default();
    let line = ["grep -r x ."; 60].join("; ");
    let effects = [Effect::Exec(CommandExecution::from_shell(line))];
    let (tool, risk) = ("Bash", RiskLevel::High);
    let decision = engine.decide(DecisionRequest {
        tool,
        risk,
        effects: &effects,
        arguments: None,
        grants: &[],
        mode: None,
        machine: &machine,
    });
    assert_eq!((decision.verdict, machine.searches.get()), (Verdict::Allow, 1));
}
