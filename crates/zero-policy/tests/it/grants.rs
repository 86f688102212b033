//! Tests of the grants offered as "for this session", what they cover, and what the machine adds to
//! a call.

use std::path::{Path, PathBuf};

use zero_core::{CommandExecution, Effect, RiskLevel};
use zero_policy::{
    DecisionRequest, EmptyMachine, FileSearchOutcome, GrantScope, HostName, Machine,
    PackageManager, PermissionMode, PolicyDecision, TargetProtection, Verdict,
};

use crate::engine_harness::build_engine;

/// A machine with programs and symlinks.
#[derive(Clone, Copy, Default)]
struct StubMachine {
    /// Names of programs and their files.
    programs: &'static [(&'static str, &'static str)],
    /// Symlinks and their targets.
    links: &'static [(&'static str, &'static str)],
    /// Helpers that the repository of the workspace configures.
    helpers: &'static [&'static str],
    /// Hosts of registries that the configuration of npm names.
    registries: &'static [&'static str],
}

impl Machine for StubMachine {
    fn canonicalize(&self, absolute: &Path) -> Option<PathBuf> {
        let plain = EmptyMachine.canonicalize(absolute)?;
        let through =
            |(link, to): &(&str, &str)| Some(Path::new(to).join(plain.strip_prefix(link).ok()?));
        Some(
            self.links
                .iter()
                .find_map(through)
                .map_or(plain.clone(), |path| path.components().collect()),
        )
    }

    fn expand_glob(&self, pattern: &str, _most: usize) -> Option<Vec<PathBuf>> {
        let start = pattern.trim_end_matches('*');
        let links = self.links.iter().map(|(link, _)| PathBuf::from(link));
        Some(
            links
                .filter(|link| link.to_str().is_some_and(|link| link.starts_with(start)))
                .collect(),
        )
    }

    fn git_helpers(&self, _folder: &Path) -> Vec<String> {
        self.helpers.iter().map(|name| (*name).to_owned()).collect()
    }

    fn git_setting(&self, _folder: &Path, name: &str) -> Option<Vec<String>> {
        match name {
            "remote.several.url" => Some(vec!["a".to_owned(), "b".to_owned()]),
            "remote.one.url" => Some(vec!["a".to_owned()]),
            "remote.unknown.url" => None,
            _ => Some(Vec::new()),
        }
    }

    fn registry_hosts(&self, manager: PackageManager, _folder: &Path) -> Vec<HostName> {
        let hosts = self.registries.iter().filter(|_| manager == PackageManager::Npm);
        hosts.map(|host| HostName::from_host(host).unwrap()).collect()
    }

    fn find_program(&self, name: &str, _folder: &Path) -> Option<PathBuf> {
        self.programs.iter().find(|(own, _)| *own == name).map(|(_, file)| PathBuf::from(file))
    }

    fn find_file(&self, folder: &Path, wanted: &dyn Fn(&Path) -> bool) -> FileSearchOutcome {
        let links = self.links.iter().map(|(link, _)| PathBuf::from(link));
        let mut beneath = links.filter(|link| link.starts_with(folder));
        beneath
            .find(|link| wanted(link))
            .map_or(FileSearchOutcome::NotFound, FileSearchOutcome::Found)
    }

    fn target_protection(&self, _: &[PathBuf], _: Option<&Path>, _: &Path) -> TargetProtection {
        TargetProtection::Unprotected
    }
}

fn decide_command(
    machine: &StubMachine,
    rules: &str,
    mode: PermissionMode,
    command: &str,
    grants: &[GrantScope],
) -> PolicyDecision {
    let effects = [Effect::Exec(CommandExecution::from_shell(command))];
    let (tool, risk) = ("Bash", RiskLevel::High);
    build_engine(rules, mode).decide(DecisionRequest {
        tool,
        risk,
        effects: &effects,
        arguments: None,
        grants,
        mode: None,
        machine,
    })
}

/// Checks the rules offered for a command, in order.
#[track_caller]
fn check_offers(command: &str, expected: &[&str]) {
    let decision = decide_command(&StubMachine::default(), "", PermissionMode::Ask, command, &[]);
    let offered: Vec<&str> = decision.grants.iter().map(|grant| grant.rule.as_str()).collect();
    assert_eq!(offered, expected, "{command}: {}", decision.reason);
}

/// Accepts the offer for one command and checks the verdict on another.
#[track_caller]
fn check_after_grant(granted: &str, rules: &str, command: &str, expected: &str) {
    let machine = StubMachine::default();
    let grants = decide_command(&machine, "", PermissionMode::Ask, granted, &[]).grants;
    assert!(!grants.is_empty(), "nothing is offered for `{granted}`");
    let decision = decide_command(&machine, rules, PermissionMode::Ask, command, &grants);
    let shown: Vec<&str> = grants.iter().map(|grant| grant.rule.as_str()).collect();
    assert_eq!(
        decision.verdict.as_str(),
        expected,
        "`{command}` with {shown:?}: {}",
        decision.reason
    );
}

#[test]
fn offered_grant_is_not_wider_than_question() {
    check_offers("npm run build", &["Bash(npm run build:*)"]);
    check_offers("npm run build -- --watch", &["Bash(npm run build:*)"]);
    check_offers("npm --prefix a run build", &["Bash(npm --prefix a run build)"]);
    check_offers("npm run --silent build", &["Bash(npm run --silent build)"]);
    check_offers("npm install left-pad", &["Bash(npm install left-pad)"]);
    check_offers("npm test", &["Bash(npm test:*)"]);
    check_offers("git push origin main", &["Bash(git push:*)"]);
    check_offers("git commit -m x", &["Bash(git commit:*)"]);
    check_offers("cargo +nightly build", &["Bash(cargo +nightly build)"]);
    check_offers("cargo build --release", &["Bash(cargo build:*)"]);
    check_offers("make", &["Bash(make)"]);
    check_offers("make all install", &["Bash(make all install)"]);
    check_offers("python3 x.py", &["Bash(python3 x.py)"]);
    check_offers("node x.js y", &["Bash(node x.js y)"]);
    check_offers("./configure --prefix=/x", &["Bash(./configure --prefix=/x)"]);
    check_offers("deploy prod", &["Bash(deploy prod)"]);
    check_offers("npm run build && make", &["Bash(npm run build:*)", "Bash(make)"]);
    check_offers("make; make", &["Bash(make)"]);
    check_offers("sudo make", &["Bash(sudo make)", "Bash(make)"]);
    check_offers(
        "source .venv/bin/activate && make",
        &["Bash(source .venv/bin/activate)", "Bash(make)"],
    );
    check_offers("touch src/a", &["Edit(/src/a)"]);
    check_offers("rm src/a", &["Delete(/src/a)"]);
    check_offers("cat /etc/hosts", &["Read(//etc/hosts)"]);
    check_offers("curl https://a.com/x", &["WebFetch(domain:a.com)"]);
}

#[test]
fn unpredictable_command_offers_no_grant() {
    for command in [
        // Critical, protected, uncertain.
        "rm -rf build",
        "git push --force",
        "touch .git/hooks/pre-commit",
        "touch .zero/settings.json",
        "npm run $X",
        "npm $X",
        "make $X",
        "make \"$(date)\"",
        "$X",
        "cat $X",
        "touch $X",
        "cd $X && make",
        "LD_PRELOAD=x npm test",
        "npm test; rm -rf build",
        "bash -c \"$X\"",
        "eval \"$X\"",
        "echo 'a",
        // What they run is in their input.
        "python3 - <<'E'\nprint(1)\nE",
        "python3 <<'E'\nprint(1)\nE",
        "python3 -u",
        "python3 -W ignore",
        "echo x | python3",
        "cat x | node -",
        "perl /dev/stdin",
        "ruby -w",
        "sqlite3 a.db <<'E'\n.shell ls\nE",
        // A whole folder outside the workspace.
        "grep -r x /etc",
        "find /home/me -name x",
        // Names that are patterns in a rule.
        "touch 'a*'",
        "make 'a b'",
        "deploy 'x*'",
        // Never offered.
        "curl localhost:3000",
        // More questions than one answer may settle.
        "a; b; c; d; e; f",
    ] {
        check_offers(command, &[]);
    }
}

#[test]
fn grant_covers_only_the_same_call() {
    check_after_grant("npm run build", "", "npm run build", "allow");
    check_after_grant("npm run build", "", "npm run build -- --watch", "allow");
    check_after_grant("npm run build", "", "timeout 60 npm run build", "allow");
    check_after_grant("npm run build", "", "npm run deploy", "ask");
    check_after_grant("npm run build", "", "npm install", "ask");
    check_after_grant("npm run build", "", "/tmp/npm run build", "ask");
    check_after_grant("npm run build", "", "cd sub && npm run build", "ask");
    check_after_grant("cd sub && npm run build", "", "cd sub && npm run build", "allow");
    check_after_grant("cd sub && npm run build", "", "npm run build", "ask");
    check_after_grant("npm run build", "", "npm run build && make", "ask");
    check_after_grant("npm run build", "", "LD_PRELOAD=x npm run build", "ask");
    check_after_grant("npm run build", "", "sudo npm run build", "ask");
    check_after_grant("npm run build", "", "npm run build > /etc/x", "ask");
    check_after_grant("make", "", "make all", "ask");
    check_after_grant("make all", "", "make", "ask");
    check_after_grant("python3 x.py", "", "python3 x.py", "allow");
    check_after_grant("python3 x.py", "", "python3 x.py y", "ask");
    check_after_grant("python3 x.py", "", "python3 -c x", "ask");
    check_after_grant("touch src/a", "", "touch src/a", "allow");
    check_after_grant("touch src/a", "", "echo x > src/a", "allow");
    check_after_grant("touch src/a", "", "touch src/b", "ask");
    check_after_grant("touch src/a", "", "touch src/a/b", "ask");
    check_after_grant("touch src/a", "", "rm src/a", "ask");
    check_after_grant("rm src/a", "", "rm src/b", "ask");
    check_after_grant("rm src/a", "", "rm -rf src/a", "ask");
    check_after_grant("ls /etc", "", "ls /etc", "allow");
    check_after_grant("ls /etc", "", "cat /etc/shadow", "ask");
    check_after_grant("ls /home/me", "", "cat /home/me/.ssh/id_rsa", "ask");
    check_after_grant("ls /home/me", "", "grep -r x /home/me", "ask");
    check_after_grant("curl https://a.com", "", "curl https://a.com/y", "allow");
    check_after_grant("curl https://a.com", "", "curl https://b.a.com", "ask");
    check_after_grant("git push", "", "git push --force", "ask");
    check_after_grant("git push", "", "git push origin :main", "ask");
}

#[test]
fn sourced_file_is_granted_by_its_path() {
    let granted = ". ./env.sh && make";
    check_after_grant(granted, "", ". ./env.sh && make", "allow");
    check_after_grant(granted, "", ". ./env.sh; git status", "allow");
    check_after_grant(granted, "", ". ./other.sh && make", "ask");
    check_after_grant(granted, "", ". ./env.sh && cat $FILE", "ask");
    check_after_grant(granted, "deny Bash(make:*)", ". ./env.sh && make", "deny");
    check_offers(". env.sh", &[]);
    check_offers(". $FILE", &[]);
    check_offers("source <(curl https://a.com/x)", &[]);
    let decide = |rules: &str, command: &str| {
        decide_command(&StubMachine::default(), rules, PermissionMode::Ask, command, &[]).verdict
    };
    let rules = "allow Bash(source .venv/bin/activate); allow Bash(pytest:*)";
    assert_eq!(decide(rules, "source .venv/bin/activate && pytest -q"), Verdict::Allow);
    assert_eq!(decide(rules, "source .venv/bin/other && pytest -q"), Verdict::Ask);
    assert_eq!(decide(rules, "source /etc/activate && pytest -q"), Verdict::Ask);
}

#[test]
fn rules_override_grants() {
    check_after_grant("npm run build", "ask Bash(npm:*)", "npm run build", "ask");
    check_after_grant("npm run build", "deny Bash(npm:*)", "npm run build", "deny");
    check_after_grant("touch src/a", "ask Edit(src/**)", "touch src/a", "ask");
    check_after_grant("touch src/a", "deny Edit(src/**)", "touch src/a", "deny");
    check_after_grant(
        "curl https://a.com",
        "deny WebFetch(domain:a.com)",
        "curl https://a.com",
        "deny",
    );
    check_after_grant("curl https://a.com", "ask WebFetch", "curl https://a.com", "ask");
    let grants =
        decide_command(&StubMachine::default(), "", PermissionMode::Ask, "make", &[]).grants;
    let plan = decide_command(&StubMachine::default(), "", PermissionMode::Plan, "make", &grants);
    assert_eq!(plan.verdict.as_str(), "deny");
}

#[test]
fn grant_is_bound_to_folder() {
    let machine = StubMachine::default();
    let here = decide_command(&machine, "", PermissionMode::Ask, "npm test", &[]).grants;
    let there = decide_command(&machine, "", PermissionMode::Ask, "cd sub && npm test", &[]).grants;
    let both = [here, there].concat();
    for command in ["npm test", "cd sub && npm test", "npm test && cd sub && npm test"] {
        let decision = decide_command(&machine, "", PermissionMode::Ask, command, &both);
        assert_eq!(decision.verdict.as_str(), "allow", "{command}: {}", decision.reason);
        assert_eq!(decision.source.as_deref().unwrap_or("grant"), "grant", "{command}");
    }
}

#[test]
fn grant_is_bound_to_program_file() {
    let with =
        |file: &'static [(&str, &str)]| StubMachine { programs: file, ..StubMachine::default() };
    let shown = with(&[("npm", "/usr/bin/npm")]);
    let grants = decide_command(&shown, "", PermissionMode::Ask, "npm test", &[]).grants;
    let verdict = |machine: &StubMachine| {
        decide_command(machine, "", PermissionMode::Ask, "npm test", &grants).verdict.as_str()
    };
    assert_eq!(verdict(&shown), "allow");
    assert_eq!(verdict(&with(&[("npm", "/tmp/npm")])), "ask");
    assert_eq!(verdict(&with(&[])), "ask");
}

#[test]
fn grant_is_bound_to_link_target_folder() {
    const A: StubMachine =
        StubMachine { programs: &[], links: &[("/w/link", "/w/a")], helpers: &[], registries: &[] };
    const B: StubMachine = StubMachine { links: &[("/w/link", "/w/b")], ..A };
    let command = "cd link && make";
    let grants = decide_command(&A, "", PermissionMode::Ask, command, &[]).grants;
    assert_eq!(
        decide_command(&A, "", PermissionMode::Ask, command, &grants).verdict.as_str(),
        "allow"
    );
    assert_eq!(
        decide_command(&B, "", PermissionMode::Ask, command, &grants).verdict.as_str(),
        "ask"
    );
}

/// Checks a verdict on a machine where `/w/link` links to `/w/.env`, and `/w/out` out of the
/// workspace.
#[track_caller]
fn check_with_links(rules: &str, command: &str, expected: &str) {
    const LINKED: StubMachine = StubMachine {
        programs: &[],
        links: &[("/w/link", "/w/.env"), ("/w/out", "/srv/x"), ("/w/src/in", "/w/secrets")],
        helpers: &[],
        registries: &[],
    };
    let decision = decide_command(&LINKED, rules, PermissionMode::Ask, command, &[]);
    assert_eq!(
        decision.verdict.as_str(),
        expected,
        "`{command}` under `{rules}`: {}",
        decision.reason
    );
}

#[test]
fn link_is_evaluated_by_name_and_target() {
    check_with_links("deny Read(.env)", "cat link", "deny");
    check_with_links("deny Read(link)", "cat link", "deny");
    check_with_links("deny Read(.env)", "cat li*", "deny");
    // An ask rule for the name does not hide the target of the symlink.
    check_with_links("deny Read(.env); ask Read(link)", "cat li*", "deny");
    check_with_links("deny Read(.env)", "cp link y", "deny");
    check_with_links("deny Read(secrets/**)", "cat src/in/key", "deny");
    check_with_links("deny Read(secrets/**)", "cd src/in && cat key", "deny");
    check_with_links("deny Read(secrets/**)", "cd $X && cat src/in/key", "deny");
    check_with_links("deny Read(.env)", "cd $X && cat .e*", "deny");
    check_with_links("", "cat out", "ask");
    check_with_links("", "cat link", "allow");
    check_with_links("allow Edit(link)", "touch link", "ask");
    check_with_links("allow Edit(/.env)", "touch link", "ask");
    check_with_links("allow Edit(link); allow Edit(/.env)", "touch link", "allow");
    check_with_links("allow Edit(/**)", "touch out", "ask");
    check_with_links("allow Bash(make:*)", "cd out && make", "ask");
    check_with_links("deny Read(link)", "grep -r x .", "ask");
}

#[test]
fn repository_helpers_are_asked() {
    let helpers = |helpers| StubMachine { helpers, ..StubMachine::default() };
    let verdict = |machine: &StubMachine, command: &str| {
        decide_command(machine, "allow Bash(git:*)", PermissionMode::Ask, command, &[])
            .verdict
            .as_str()
    };
    assert_eq!(verdict(&helpers(&["core.fsmonitor"]), "git status"), "ask");
    assert_eq!(verdict(&helpers(&["hooks/pre-commit"]), "git status"), "allow");
    assert_eq!(verdict(&helpers(&["hooks/pre-commit"]), "git commit -m x"), "ask");
    assert_eq!(verdict(&helpers(&[]), "git status"), "allow");
}

#[test]
fn workspace_program_shadowing_known_name_is_asked() {
    const PLANTED: StubMachine =
        StubMachine { programs: &[("ls", "/w/bin/ls")], links: &[], helpers: &[], registries: &[] };
    assert_eq!(
        decide_command(&PLANTED, "", PermissionMode::Ask, "ls", &[]).verdict.as_str(),
        "ask"
    );
    assert_eq!(
        decide_command(&PLANTED, "", PermissionMode::Ask, "/usr/bin/ls", &[]).verdict.as_str(),
        "allow"
    );
}

/// Checks the verdict on a command, the hosts that it opens and the rules that are offered.
#[track_caller]
fn check_registries(rules: &str, command: &str, expected: (&str, &[&str], &[&str])) {
    let registries = &["b.test", "a.test", "denied.test", "10.0.0.1"];
    let machine = StubMachine { registries, ..StubMachine::default() };
    let decision = decide_command(&machine, rules, PermissionMode::Ask, command, &[]);
    let nets = decision.effects.iter().filter(|effect| effect.kind == "net");
    let hosts: Vec<&str> = nets.map(|effect| effect.target.as_str()).collect();
    let grants: Vec<&str> = decision.grants.iter().map(|grant| grant.rule.as_str()).collect();
    assert_eq!((decision.verdict.as_str(), &hosts[..], &grants[..]), expected, "{command} {rules}");
    // Who is asked learns that the command does not name them.
    let named: Vec<&str> = decision
        .effects
        .iter()
        .filter(|effect| effect.kind == "net" && effect.origin.is_call())
        .map(|effect| effect.target.as_str())
        .collect();
    assert!(named.iter().all(|host| command.contains(host)), "{command}: {named:?}");
    // With these grants the same command runs, and no other host is open.
    let again =
        decide_command(&machine, rules, PermissionMode::Ask, command, &decision.grants.clone());
    assert!(decision.grants.is_empty() || again.verdict.as_str() == "allow", "{command} {rules}");
}

#[test]
fn question_about_package_manager_covers_its_registries() {
    let denied = "deny WebFetch(domain:denied.test)";
    let both = ["Bash(npm ci)", "WebFetch(domain:a.test)", "WebFetch(domain:b.test)"];
    check_registries(denied, "npm ci", ("ask", &["a.test", "b.test"], &both));
    let rules = format!("{denied}; allow WebFetch(domain:a.test)");
    let one = ["Bash(npm ci)", "WebFetch(domain:b.test)"];
    check_registries(&rules, "npm ci", ("ask", &["a.test", "b.test"], &one));
    // Programs that may need no network do not ask about hosts alone.
    check_registries(&format!("{denied}; allow Bash(npm ci:*)"), "npm ci", ("allow", &[], &[]));
    check_registries("deny WebFetch", "npm ci", ("ask", &[], &["Bash(npm ci)"]));
    check_registries(denied, "npm test", ("ask", &[], &["Bash(npm test:*)"]));
}

#[test]
fn question_about_git_setting_shows_its_present_values() {
    for (remote, expected) in [
        ("none", "(not set now)"),
        ("one", "(now `a`)"),
        (
            "several",
            "(now 2 values, and zero changes no setting with several: run the command yourself)",
        ),
        ("unknown", "(its value is not known)"),
    ] {
        let command = format!("git remote set-url {remote} https://host.test/x");
        let machine = StubMachine::default();
        let decision = decide_command(&machine, "", PermissionMode::Ask, &command, &[]);
        let reasons: Vec<&str> =
            decision.effects.iter().map(|effect| effect.reason.as_str()).collect();
        assert!(reasons.iter().any(|reason| reason.ends_with(expected)), "{command}: {reasons:?}");
    }
}
