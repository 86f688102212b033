//! Tests for parsing rules, and for the errors of invalid ones.

use super::*;

fn test_source() -> RuleSource {
    RuleSource {
        name: "~/.config/zero/settings.json".into(),
        line: Some(12),
        owner: RuleOwner::User,
    }
}

fn parse_allow(text: &str) -> Result<PolicyRule, RuleError> {
    PolicyRule::parse(text, Verdict::Allow, test_source())
}

#[track_caller]
fn parse_rule(text: &str) -> PolicyRule {
    parse_allow(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[track_caller]
fn check_error(text: &str, expected: &str) {
    match parse_allow(text) {
        Ok(rule) => panic!("{text} was read as {:?}", rule.target),
        Err(error) => assert!(error.to_string().contains(expected), "{text}: {error}"),
    }
}

#[track_caller]
fn check_same(text: &str, same_as: &str) {
    assert_eq!(parse_rule(text).target, parse_rule(same_as).target, "{text} and {same_as}");
}

#[test]
fn malformed_rule_error_suggests_correction() {
    check_error("", "write a tool such as");
    check_error("   ", "write a tool such as");
    check_error("Bash(git", "do not match");
    check_error("Bash git)", "do not match");
    check_error("Bash(git))", "do not match");
    check_error("Bash((git)", "do not match");
    check_error("Bash(git) x", "continues after `)`");
    check_error("Read(a)(b)", "continues after `)`");
    check_error("Bash()", "has no pattern");
    check_error("Bash( )", "has no pattern");
    check_error("Read()", "has no pattern");
    check_error("Bash(:*)", "has no pattern");
    check_error("Bash(git:* push)", "not at the end");
    check_error("Bash(git :* push:*)", "not at the end");
    check_error("Bsh(git)", "did you mean `Bash`?");
    check_error("WebFech", "did you mean `WebFetch`?");
    check_error("read_fil", "did you mean `Read`?");
    check_error("Qqqqqq", "there is no tool `Qqqqqq`; `zero tools list` lists them");
    check_error(
        "Task",
        "sub-agents are not subject to rules, only their calls are; `\"subagents\"",
    );
    check_error("Task(reviewer)", "sub-agents are not subject to rules");
    check_error("(x)", "there is no tool ``");
    check_error("Read(domain:x.com)", "`WebFetch(domain:x.com)`");
    check_error("Bash(domain:x.com)", "`WebFetch(domain:x.com)`");
    check_error("WebFetch(https://x.com)", "`WebFetch(domain:example.com)`");
    check_error("WebFetch(domain:)", "names no host");
    check_error("WebFetch(domain:https://x.com)", "names no host");
    check_error("WebFetch(domain:x.com/a)", "names no host");
    check_error("WebFetch(domain:x.com:80)", "names no host");
    check_error("WebFetch(domain:x*.com)", "names no host");
    check_error("WebFetch(domain:a..com)", "names no host");
    check_error("Read(!x)", "starts with `!`");
    check_error("Read(a/../b)", "`..`");
    check_error("Read(~/..)", "`..`");
    check_error("Read(a\u{7}b)", "U+0007");
    check_error("Bash(git\npush)", "U+000A");
    check_error("Bash(git\u{200b})", "U+200B");
    check_error("Read([)", "not a valid pattern");
    check_error("Read(a/[z-a])", "not a valid pattern");
    check_error("Read(a\\)", "do not match");
    check_error("Read(src:*)", "`src/**`");
    check_error("Bash(cd x && make)", "a rule for each");
    check_error("Bash(cd x; make)", "a rule for each");
    check_error("Bash(a | b:*)", "a rule for each");
    check_error("Bash(ls 2>&1)", "a rule for each");
    check_error("Bash(ls > x)", "a rule for each");
    check_error("TodoWrite(x)", "takes no pattern");
    check_error("github__issue(x)", "`x` names no argument; write `argument:pattern`");
    check_error("github__issue(a:b, c)", "`c` names no argument");
    check_error("github__issue(a:b,)", "`` names no argument");
    check_error("github__issue()", "`github__issue()` has no pattern");
    check_error("github__issue(a:)", "`a:` has no pattern; write `a:*`");
    check_error("github__issue(a: ,b:x)", "`a:` has no pattern");
    check_error("github__issue(:x)", "`` is not the name of an argument");
    check_error("github__issue(a b:x)", "`a b` is not the name of an argument");
    check_error("github__issue(a*:x)", "`a*` is not the name of an argument");
    check_error("github__issue(a..b:x)", "`a..b` is not the name of an argument");
    check_error("github__issue(.a:x)", "`.a` is not the name of an argument");
    check_error("github__issue(a:x,a:y)", "`a` is listed twice");
    check_error("github__issue(user_id:x,userId:y)", "`userId` is listed twice");
    check_error("github__issue(a:b\\)", "do not match");
    check_error("github__issue(a:b) x", "continues after `)`");
    check_error("*(a:b)", "there is no tool `*`");
    check_error("github__(x)", "names no MCP tool");
    check_error("github__", "names no MCP tool");
    check_error("mcp__", "names no MCP tool");
    check_error("git*__x", "names no MCP tool");
    check_error("github__get_*", "names no MCP tool");
    check_error(&format!("Bash({})", "x".repeat(5000)), "longer than");
}

#[test]
fn tool_names_of_other_platforms_are_accepted() {
    for (other, tool) in [
        ("read_file", "Read"),
        ("read", "Read"),
        ("read_many_files", "ReadMany"),
        ("write_file", "Write"),
        ("write", "Write"),
        ("edit_file", "Edit"),
        ("edit", "Edit"),
        ("MultiEdit", "Edit"),
        ("NotebookEdit", "Edit"),
        ("delete_file", "Delete"),
        ("list", "LS"),
        ("list_directory", "LS"),
        ("glob", "Glob"),
        ("grep", "Grep"),
        ("grep_search", "Grep"),
        ("search_files", "Grep"),
        ("run_command", "Bash"),
        ("run_shell_command", "Bash"),
        ("bash", "Bash"),
        ("run", "Bash"),
        ("web_fetch", "WebFetch"),
        ("webfetch", "WebFetch"),
        ("web_search", "WebSearch"),
        ("websearch", "WebSearch"),
        ("web_request", "WebRequest"),
        ("todo_write", "TodoWrite"),
        ("todo", "TodoWrite"),
        ("plan", "Plan"),
        ("save_memory", "Memory"),
        ("ask_user_question", "AskUserQuestion"),
        ("question", "AskUserQuestion"),
        ("lsp-diagnostics", "LSP"),
        ("lsp-hover", "LSP"),
        ("BashOutput", "BashOutput"),
        ("BashKill", "BashKill"),
    ] {
        assert_eq!(canonical_tool(other), Some(tool), "{other}");
        check_same(other, tool);
    }
    assert_eq!(canonical_tool("reed"), None);
}

#[test]
fn rule_spellings_parse_to_same_target() {
    check_same("Bash(*)", "Bash");
    check_same("*(*)", "*");
    check_same("TodoWrite(*)", "TodoWrite");
    check_same(" Bash(git status) ", "Bash(git status)");
    check_same("Bash(git status *)", "Bash(git status:*)");
    check_same("Bash('git' \"status\")", "Bash(git status)");
    check_same("Bash(git  status)", "Bash(git status)");
    check_same("mcp__github__issue", "github__issue");
    check_same("mcp__github", "github__*");
    check_same("mcp__github__*", "github__*");
    check_same("WebFetch(domain:GitHub.com.)", "WebFetch(domain:github.com)");
    check_same("WebFetch(domain:bücher.de)", "WebFetch(domain:xn--bcher-kva.de)");
    check_same("WebFetch(domain:127.1)", "WebFetch(domain:[::ffff:127.0.0.1])");
    check_same("WebFetch(domain:::1)", "WebFetch(domain:[::1])");
    check_same("Read(./a)", "Read(/a)");
    check_same("Read(a/**/**)", "Read(a/**)");
    parse_rule("Bash(echo \\(x)");
    parse_rule("Bash(echo (x))");
    parse_rule("Bash(echo \"it's)");
    parse_rule("Bash(find . -exec ls {} \\;)");
    parse_rule("Bash(echo '>')");
    parse_rule("Read(\\{a,b})");
    parse_rule("Read({a}, b)");
    parse_rule("Read(a[{]b)");
}

#[test]
fn rule_source_displays_as_file_and_line() {
    assert_eq!(test_source().to_string(), "~/.config/zero/settings.json:12");
    let flag = RuleSource { name: "--allow".into(), line: None, owner: RuleOwner::User };
    assert_eq!(flag.to_string(), "--allow");
    assert_eq!(parse_rule(" Bash(git:*) ").to_string(), "Bash(git:*)");
}

#[test]
fn only_pattern_without_wildcard_is_exact() {
    for exact in [
        "Bash(git status)",
        "Bash(find . -name '*.rs')",
        "Bash(echo \\*)",
        "Read(.env)",
        "Read(/a/b)",
        "Read(\\[a])",
        "WebFetch(domain:x.com)",
        "WebFetch(domain:127.0.0.1)",
    ] {
        assert!(parse_rule(exact).is_exact(), "{exact}");
    }
    for loose in [
        "*",
        "Bash",
        "Bash(git status:*)",
        "Bash(git status *)",
        "Bash(git*)",
        "Read",
        "Read(*.env)",
        "Read(a/**)",
        "Read(a/)",
        "Read(a?)",
        "Read([ab])",
        "WebFetch(domain:*.x.com)",
        "WebFetch(domain:*)",
        "github__issue",
    ] {
        assert!(!parse_rule(loose).is_exact(), "{loose}");
    }
}

#[test]
fn overbroad_rules_report_reason() {
    for dangerous in [
        "*",
        "Bash",
        "Bash(*)",
        "Bash(bash:*)",
        "Bash(sh *)",
        "Bash(zsh*)",
        "Bash(python:*)",
        "Bash(python3:*)",
        "Bash(python3.12 *)",
        "Bash(python* x)",
        "Bash(/usr/bin/env:*)",
        "Bash(node:*)",
        "Bash(sudo:*)",
        "Bash(xargs:*)",
        "Bash(find:*)",
        "Bash(ssh:*)",
        "Bash(docker:*)",
        "Bash(npx:*)",
        "Bash(eval:*)",
        "Bash(timeout:*)",
        "Bash(bash -c:*)",
        "Bash(* --help)",
        "Bash(py*)",
        "Bash(python -c *x)",
        "Bash(sh *x)",
        "Bash(sudo -u* x)",
        "Bash(*x)",
        "Write",
        "Edit",
        "Edit(**)",
        "Write(//**)",
        "Read(//**)",
        "mcp__*",
        "WebFetch",
        "WebFetch(domain:*)",
    ] {
        assert!(parse_rule(dangerous).overbroad_reason().is_some(), "{dangerous}");
    }
    for fine in [
        "Bash(git:*)",
        "Bash(make:*)",
        "Bash(curl:*)",
        "Bash(cargo test:*)",
        "Bash(python script.py:*)",
        "Bash(bash ./build.sh)",
        "Bash(docker ps:*)",
        "Bash(docker ps*)",
        "Bash(python script*)",
        "Bash(git*)",
        "Bash(./scripts/*)",
        "Read",
        "Read(**)",
        "Edit(src/**)",
        "Write(/**)",
        "github__*",
        "WebFetch(domain:*.github.com)",
        "WebSearch",
    ] {
        assert_eq!(parse_rule(fine).overbroad_reason(), None, "{fine}");
    }
    let deny = PolicyRule::parse("*", Verdict::Deny, test_source()).unwrap();
    assert_eq!(deny.overbroad_reason(), None);
}

#[test]
fn rule_outside_workspace_reports_path_start() {
    #[track_caller]
    fn check(text: &str, expected: Option<&str>) {
        let start = parse_rule(text).path_start(Some(Path::new("/home/me")));
        assert_eq!(start.as_deref(), expected.map(Path::new), "{text}");
    }
    check("Read(//etc/secret)", Some("/etc/secret"));
    check("Read(//etc/*/key)", Some("/etc"));
    check("Read(//**)", Some("/"));
    check("Read(~/.notes/**)", Some("/home/me/.notes"));
    check("Grep(~/x)", Some("/home/me/x"));
    check("Read(.env)", None);
    check("Read(/src/x)", None);
    check("Edit(//etc/**)", None);
    check("Bash(cat:*)", None);
}

#[test]
fn narrow_deny_and_ask_rules_are_detected() {
    let check = |verdict, text: &str, expected: Option<&str>| {
        let rule = PolicyRule::parse(text, verdict, test_source()).unwrap();
        let is_elsewhere = |path: &Path| path == Path::new("/etc");
        assert_eq!(rule.narrow_reason(&is_elsewhere).as_deref(), expected, "{text}");
    };
    let deny = |text: &str, expected| check(Verdict::Deny, text, expected);
    let path = "`/` is the workspace, which has no `/etc`; did you mean `Read(//etc/passwd)`?";
    deny("Read(/etc/passwd)", Some(path));
    check(Verdict::Ask, "Read(/etc/passwd)", Some(path));
    let command = "it matches `rm` only without further arguments; write `Bash(rm:*)` to match it \
                   with any";
    deny("Bash(rm)", Some(command));
    check(Verdict::Allow, "Bash(rm)", None);
    check(Verdict::Allow, "Read(/etc/passwd)", None);
    for text in [
        "Read(//etc/passwd)",
        "Read(/src/**)",
        "Read(/*/passwd)",
        "Read(.env)",
        "Read(etc/passwd)",
        "Bash(rm:*)",
        "Bash(git push --force)",
        "Bash",
        "WebFetch(domain:a.com)",
    ] {
        deny(text, None);
    }
}
