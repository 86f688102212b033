//! Tests of what rules match, by kind: commands, paths, hosts.

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::cpu_time;
use crate::rule::{RuleOwner, RuleSource};

mod command_rules;
mod host_rules;
mod path_rules;

fn parse_rule(text: &str, verdict: Verdict) -> PolicyRule {
    let source = RuleSource { name: "test".into(), line: None, owner: RuleOwner::User };
    PolicyRule::parse(text, verdict, source).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn build_rules(verdict: Verdict, texts: &[&str]) -> RuleSet {
    let places =
        PatternRoots { roots: vec!["/w".into(), "/v".into()], home: Some("/home/me".into()) };
    RuleSet::new(texts.iter().map(|text| parse_rule(text, verdict)).collect(), places)
}

/// Words of a command; `$x` is unknown, `*` and `?` make a pattern, `_` in a word is a space.
fn parse_words(line: &str) -> Vec<ShellArg> {
    let word = |word: &str| match word.split_once('$') {
        Some((start, _)) => {
            ShellArg::Unknown { starts_with: start.to_owned(), written: word.to_owned() }
        }
        None if word.contains(['*', '?']) => ShellArg::Pattern(word.to_owned()),
        None => ShellArg::known(word.replace('_', " ")),
    };
    line.split_whitespace().map(word).collect()
}

fn find_command<'a>(rules: &'a RuleSet, verdict: Verdict, line: &str) -> Option<&'a PolicyRule> {
    rules
        .find_command_rule(verdict, &CommandWords { program_path: None, words: &parse_words(line) })
}

fn build_views(path: &str) -> PathViews {
    PathViews { written: path.into(), canonical: path.into() }
}

#[track_caller]
fn check_tool(text: &str, tool: &str, expected: bool) {
    for verdict in Verdict::ALL {
        let rules = build_rules(verdict, &[text]);
        assert_eq!(
            rules.find_tool_rule(verdict, tool, None).is_some(),
            expected,
            "{verdict} {text} on {tool}"
        );
    }
}

#[test]
fn bare_tool_rule_covers_calls_of_that_tool() {
    check_tool("Read", "Read", true);
    check_tool("read_file", "Read", true);
    check_tool("Read", "Grep", false);
    check_tool("*", "Grep", true);
    check_tool("*", "github__issue", true);
    check_tool("Read(x)", "Read", false);
    check_tool("TodoWrite", "TodoWrite", true);
}

#[test]
fn mcp_rule_matches_with_and_without_prefix() {
    for name in ["github__issue", "mcp__github__issue"] {
        check_tool("github__issue", name, true);
        check_tool("mcp__github__issue", name, true);
        check_tool("github__*", name, true);
        check_tool("mcp__github", name, true);
        check_tool("mcp__github__*", name, true);
        check_tool("mcp__*", name, true);
        check_tool("github__other", name, false);
        check_tool("git__*", name, false);
        check_tool("githu__b__issue", name, false);
    }
    check_tool("mcp__*", "Read", false);
    let rules = build_rules(Verdict::Deny, &["a__b__c", "x__*"]);
    assert!(rules.find_external_rule(Verdict::Deny, "a", "b__c", None).is_some());
    assert!(rules.find_external_rule(Verdict::Deny, "x", "anything", None).is_some());
    assert!(rules.find_external_rule(Verdict::Deny, "x__y", "anything", None).is_none());
    assert!(rules.find_external_rule(Verdict::Allow, "a", "b__c", None).is_none());
}

#[test]
fn lookup_returns_first_rule_in_order() {
    let texts = ["Bash(ls)", "Bash(git *x*)", "Bash(git push:*)", "Bash(git:*)", "Bash", "*"];
    for verdict in Verdict::ALL {
        let forward = build_rules(verdict, &texts);
        let found = |line| find_command(&forward, verdict, line).map(|rule| rule.text.as_str());
        assert_eq!(found("git push"), Some("Bash(git push:*)"));
        assert_eq!(found("git push x"), Some("Bash(git *x*)"));
        assert_eq!(found("git pull"), Some("Bash(git:*)"));
        assert_eq!(found("ls"), Some("Bash(ls)"));
        assert_eq!(found("ls -l"), Some("Bash"));
        let backward: Vec<&str> = texts.into_iter().rev().collect();
        let backward = build_rules(verdict, &backward);
        assert_eq!(find_command(&backward, verdict, "git push").unwrap().text, "*");
    }
}

#[test]
fn rule_set_lists_rules_in_order() {
    let rules = build_rules(Verdict::Allow, &["Bash(ls:*)", "Bash(sh:*)", "*"]);
    let listed: Vec<(&str, bool)> =
        rules.iter().map(|rule| (rule.text.as_str(), rule.overbroad_reason().is_some())).collect();
    assert_eq!(listed, [("Bash(ls:*)", false), ("Bash(sh:*)", true), ("*", true)]);
}

#[test]
fn lookup_time_is_independent_of_rule_count() {
    const MANY: usize = 10_000;
    const KINDS: usize = 9;
    let start = cpu_time::thread_cpu_time();
    for verdict in [Verdict::Allow, Verdict::Deny] {
        let text = |n: usize| match n % KINDS {
            0 => format!("Bash(git sub{n}:*)"),
            1 => format!("Bash(git push --option{n}x:*)"),
            2 => format!("Bash(* needle{n} *)"),
            3 => format!("Bash(git push origin branch{n})"),
            4 => format!("Read(dir{n}/*.rs)"),
            5 => format!("Read(*.ext{n})"),
            6 => format!("Read(a*b{n}c?)"),
            7 => format!("Edit(/a/b{n}/**)"),
            _ => format!("WebFetch(domain:*.host{n}.com)"),
        };
        let texts: Vec<String> = (0..MANY).map(text).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let rules = build_rules(verdict, &texts);
        for n in 0..MANY {
            let line = format!("git sub{n} --verbose origin needle{} x", n + 1);
            let expected = n % KINDS == 0 || ((n + 1) % KINDS == 2 && n + 1 < MANY);
            assert_eq!(find_command(&rules, verdict, &line).is_some(), expected, "{line}");
            let line = format!("git push --option{n}x --other x{n}");
            let found = find_command(&rules, verdict, &line);
            assert_eq!(found.is_some_and(|rule| rule.text == text(n)), n % KINDS == 1, "{line}");
            let path = build_views(&format!("/w/a/b{n}/x.ext{n}"));
            let found = rules.find_path_rule(verdict, "Read", FileAccess::Read, &path);
            assert_eq!(found.is_some(), n % KINDS == 5, "{path:?}");
        }
    }
    // A linear scan would need some hundred million comparisons.
    let took = cpu_time::thread_cpu_time() - start;
    assert!(took < Duration::from_secs(15), "{took:?}");
}

const SOME_RULES: &[&str] = &[
    "Bash(git push:*)",
    "Bash(git push --force)",
    "Bash(rm -rf:*)",
    "Bash(* secret*)",
    "Bash(git *)",
    "Read(.env)",
    "Edit(src/**)",
    "Read(//etc/**)",
    "WebFetch(domain:*.x.com)",
    "WebFetch(domain:x.com)",
    "Delete(*.log)",
    "Bash",
];

proptest! {
    #[test]
    fn another_deny_rule_never_takes_one_away(
        chosen in proptest::collection::vec(0..SOME_RULES.len(), 0..6),
        added in 0..SOME_RULES.len(),
        line in "(git|rm|/tmp/rm|cat)( (push|-f|--force|-C|-r|\\$x|secret|origin)){0,5}",
        path in "(/w|/v|/etc|/x)(/(src|.env|a.log|b)){0,4}",
        host in "((a|b)\\.){0,2}(x|y)\\.com",
    ) {
        let few: Vec<&str> = chosen.iter().map(|n| SOME_RULES[*n]).collect();
        let more: Vec<&str> = few.iter().copied().chain([SOME_RULES[added]]).collect();
        let (few, more) = (build_rules(Verdict::Deny, &few), build_rules(Verdict::Deny, &more));
        let deny = Verdict::Deny;
        let weaker = |few: Option<&PolicyRule>, more: Option<&PolicyRule>| few.is_some() && few != more;
        prop_assert!(!weaker(find_command(&few, deny, &line), find_command(&more, deny, &line)));
        for access in [FileAccess::Read, FileAccess::Write, FileAccess::Delete] {
            let path = build_views(&path);
            let (few, more) =
                (few.find_path_rule(deny, "Bash", access, &path), more.find_path_rule(deny, "Bash", access, &path));
            prop_assert!(!weaker(few, more));
        }
        let host = HostName::parse(&host).unwrap();
        prop_assert!(!weaker(few.find_host_rule(deny, "Bash", &host), more.find_host_rule(deny, "Bash", &host)));
    }

    #[test]
    fn what_a_path_rule_allows_it_would_deny_elsewhere(
        text in "(Read|Edit|Delete|Grep)\\((|~/|/|//|\\./|\\*\\*/)(a|w|\\*|\\?|b\\*)(/(a|b|\\*\\*|\\*)){0,3}/?\\)",
        path in "(/w|/v|/home/me|)(/(a|b|w|bc)){0,4}",
        tool in "(Read|Edit|Grep|Bash)",
    ) {
        for access in [FileAccess::Read, FileAccess::Write, FileAccess::Delete] {
            let find = |verdict| {
                build_rules(verdict, &[&text]).find_path_rule(verdict, &tool, access, &build_views(&path)).is_some()
            };
            prop_assert!(find(Verdict::Deny) || !find(Verdict::Allow), "{} on {}", text, path);
        }
    }

    #[test]
    fn what_a_rule_allows_the_same_rule_would_deny(
        text in "Bash\\((git|rm|a\\*)( (push|-f|--force|\\*x|b)){0,3}(:\\*)?\\)",
        line in "(git|/usr/bin/git|rm|ab)( (push|-f|--force|-C|xx|\\$x|b)){0,5}",
    ) {
        let allowed = find_command(&build_rules(Verdict::Allow, &[&text]), Verdict::Allow, &line).is_some();
        let denied = find_command(&build_rules(Verdict::Deny, &[&text]), Verdict::Deny, &line).is_some();
        prop_assert!(denied || !allowed, "{} on {}", text, line);
    }
}

#[test]
fn all_matching_rules_raise_limits() {
    let raising = |text: &str, verdict, memory: &str| {
        let mut limits = CommandLimitChange::default();
        limits.set(zero_core::CommandLimit::Memory, memory).unwrap();
        parse_rule(text, verdict).with_limits(limits)
    };
    let rules = RuleSet::new(
        vec![
            parse_rule("Bash(make:*)", Verdict::Allow),
            raising("Bash(make all)", Verdict::Allow, "2GB"),
            raising("Bash(make a*)", Verdict::Allow, "1GB"),
            raising("Bash(make deploy:*)", Verdict::Ask, "3GB"),
            raising("Bash", Verdict::Ask, "600MB"),
        ],
        PatternRoots::default(),
    );
    let check = |verdict, line: &str, expected: &str| {
        let limits = rules.raised_limits(verdict, &CommandWords::new(&parse_words(line)));
        let shown: Vec<String> = limits.format_values().map(|(_, value)| value).collect();
        assert_eq!(shown.join(" "), expected, "{verdict} {line}");
    };
    check(Verdict::Allow, "make all", "2 GB");
    check(Verdict::Allow, "make any", "1 GB");
    check(Verdict::Allow, "make deploy", "");
    check(Verdict::Ask, "make deploy now", "3 GB");
    check(Verdict::Ask, "make all", "600 MB");
}
