//! Tests of which files a rule matches.

use super::*;

const BOTH_VERDICTS: [Verdict; 2] = [Verdict::Ask, Verdict::Deny];

#[track_caller]
fn check_as(verdict: Verdict, pattern: &str, path: &str, expected: bool) {
    let rules = build_rules(verdict, &[&format!("Read({pattern})")]);
    let found = rules.find_path_rule(verdict, "Bash", FileAccess::Read, &build_views(path));
    assert_eq!(found.is_some(), expected, "{verdict} {pattern} on {path}");
}

/// Checks a pattern for every verdict.
#[track_caller]
fn check(pattern: &str, path: &str, expected: bool) {
    Verdict::ALL.into_iter().for_each(|verdict| check_as(verdict, pattern, path, expected));
}

/// Checks a path outside the workspace that only deny and ask rules match.
#[track_caller]
fn check_outside(pattern: &str, path: &str) {
    check_as(Verdict::Allow, pattern, path, false);
    BOTH_VERDICTS.into_iter().for_each(|verdict| check_as(verdict, pattern, path, true));
}

#[test]
fn path_patterns_follow_gitignore() {
    check("~/x", "/home/me/x", true);
    check("~/x", "/home/me/x/y/z", true);
    check("~/x", "/home/me/xy", false);
    check("~/x", "/w/x", false);
    check("~", "/home/me/a", true);
    check("//etc/hosts", "/etc/hosts", true);
    check("//etc/hosts", "/w/etc/hosts", false);
    check("//etc/**", "/etc/a/b", true);
    check("//", "/anything", true);
    check("/x", "/w/x", true);
    check("/x", "/v/x", true);
    check("/x", "/w/a/x", false);
    check("/x", "/x", false);
    check("./x", "/w/x", true);
    check("./x", "/w/a/x", false);
    check(".", "/w/a/x", true);
    check(".", "/u/a", false);
    check("a/b", "/w/a/b", true);
    check("a/b", "/w/a/b/c", true);
    check("a/b", "/w/x/a/b", false);
    check("a/b", "/u/a/b", false);
    check(".env", "/w/.env", true);
    check(".env", "/w/a/b/.env", true);
    check(".env", "/w/.env.local", false);
    check(".env", "/w/a.env", false);
    check("dir/", "/w/dir", true);
    check("dir/", "/w/a/dir/x", true);
    check("a/dir/", "/w/a/dir/x", true);
    check("**/x", "/w/x", true);
    check("**/x", "/w/a/b/x/c", true);
    check("a/**/b", "/w/a/b", true);
    check("a/**/b", "/w/a/x/y/b", true);
    check("a/**/b", "/w/a/x", false);
    check("**", "/w/a", true);
    check("**/*", "/w/a", true);
    check("*.rs", "/w/a/b.rs", true);
    check("*.rs", "/w/b.rsx", false);
    check("a/*", "/w/a/b", true);
    check("a/*", "/w/a", false);
    check("a/*/c", "/w/a/b/c", true);
    check("a/*/c", "/w/a/b/b/c", false);
    check("?.rs", "/w/a.rs", true);
    check("?.rs", "/w/ab.rs", false);
    check("[a-c].rs", "/w/b.rs", true);
    check("[!a-c].rs", "/w/b.rs", false);
    check("[!a-c].rs", "/w/d.rs", true);
    check("\\{a,b}", "/w/{a,b}", true);
    check("\\{a,b}", "/w/a", false);
    check("\\*", "/w/*", true);
    check("\\*", "/w/a", false);
    check("a b/c", "/w/a b/c", true);
    check("/*", "/w/a", true);
}

#[test]
fn deny_at_any_depth_applies_outside_workspace() {
    check_outside(".env", "/u/.env");
    check_outside("*.pem", "/home/me/a.pem");
    check_outside("**/x", "/u/x");
    check_outside("**", "/u/x");
    check_outside("dir/**", "/u/dir/x");
    check_outside("dir/**", "/w/a/dir/x");
    check("dir/**", "/w/dir/x", true);
    check("dir/**", "/w/dir", true);
    check("dir/**", "/w/dirx/a", false);
}

#[track_caller]
fn check_cover(rule: &str, verdict: Verdict, tool: &str, access: FileAccess, expected: bool) {
    let rules = build_rules(verdict, &[rule]);
    let found = rules.find_path_rule(verdict, tool, access, &build_views("/w/src/x"));
    assert_eq!(found.is_some(), expected, "{verdict} {rule} on {access:?} of {tool}");
}

#[test]
fn path_rule_covers_effects_of_every_tool() {
    use FileAccess::{Delete, Read, Write};
    for pattern in ["", "(src/**)", "(x)"] {
        let check = |tool: &str, verdict, by: &str, access, expected| {
            check_cover(&format!("{tool}{pattern}"), verdict, by, access, expected);
        };
        for by in ["Read", "Bash", "Grep", "Edit"] {
            for verdict in Verdict::ALL {
                let forbids = verdict != Verdict::Allow;
                check("Read", verdict, by, Read, true);
                check("Read", verdict, by, Write, forbids);
                check("Read", verdict, by, Delete, forbids);
                for tool in ["Edit", "Write"] {
                    check(tool, verdict, by, Read, false);
                    check(tool, verdict, by, Write, true);
                    check(tool, verdict, by, Delete, forbids);
                }
                check("Delete", verdict, by, Delete, true);
                check("Delete", verdict, by, Write, false);
                check("Delete", verdict, by, Read, false);
                for tool in ["Grep", "Glob", "LS", "ReadMany", "LSP", "Memory"] {
                    check(tool, verdict, by, Read, tool == by);
                }
            }
        }
        check("Memory", Verdict::Allow, "Memory", Write, true);
    }
    for verdict in Verdict::ALL {
        check_cover("*", verdict, "Bash", Write, true);
        check_cover("Bash", verdict, "Bash", Write, false);
        check_cover("Bash", verdict, "Bash", Read, false);
    }
}

#[test]
fn allow_for_contents_does_not_cover_removal_of_folder() {
    let rules = build_rules(Verdict::Allow, &["Delete(src/**)"]);
    let find =
        |path| rules.find_path_rule(Verdict::Allow, "Bash", FileAccess::Delete, &build_views(path));
    assert!(find("/w/src").is_none());
    assert!(find("/w/src/a").is_some());
    assert!(find("/w/src/../a").is_none());
    assert!(find("/w/a/../src/a").is_some());
}

#[test]
fn link_is_matched_by_path_and_target() {
    let link = PathViews { written: "/w/src/link".into(), canonical: "/w/secret/x".into() };
    for (pattern, forbids, allows) in
        [("src/**", true, false), ("secret/**", true, false), ("/**", true, true)]
    {
        let text = format!("Read({pattern})");
        for verdict in Verdict::ALL {
            let rules = build_rules(verdict, &[&text]);
            let expected = if verdict == Verdict::Allow { allows } else { forbids };
            let found = rules.find_path_rule(verdict, "Read", FileAccess::Read, &link);
            assert_eq!(found.is_some(), expected, "{verdict} {pattern}");
        }
    }
    let both = build_rules(Verdict::Allow, &["Read(src/**)", "Read(secret/**)"]);
    assert!(both.find_path_rule(Verdict::Allow, "Read", FileAccess::Read, &link).is_some());
}

#[test]
fn home_rule_without_home_denies_all_and_allows_none() {
    for (verdict, expected) in [(Verdict::Deny, true), (Verdict::Allow, false)] {
        let places = PatternRoots { roots: vec!["/w".into()], home: None };
        let rules = RuleSet::new(vec![parse_rule("Read(~/.ssh)", verdict)], places);
        let found = rules.find_path_rule(
            verdict,
            "Read",
            FileAccess::Read,
            &build_views("/home/me/.ssh/id"),
        );
        assert_eq!(found.is_some(), expected, "{verdict}");
    }
}

#[test]
fn root_with_wildcard_characters_matches_itself() {
    let places = PatternRoots { roots: vec!["/w[ab]*{c}".into()], home: None };
    let rules = RuleSet::new(vec![parse_rule("Read(x)", Verdict::Allow)], places);
    let find =
        |path| rules.find_path_rule(Verdict::Allow, "Read", FileAccess::Read, &build_views(path));
    assert!(find("/w[ab]*{c}/x").is_some());
    assert!(find("/wazc/x").is_none());
}

#[track_caller]
fn check_glob(rule: &str, pattern: &str, expected: bool) {
    for verdict in BOTH_VERDICTS {
        let rules = build_rules(verdict, &[&format!("Read({rule})")]);
        let found = rules.find_rule_for_glob(verdict, FileAccess::Read, pattern);
        assert_eq!(found.is_some(), expected, "{verdict} {rule} on {pattern}");
    }
}

#[test]
fn command_glob_may_name_denied_file() {
    check_glob(".env", "/w/.e*", true);
    check_glob(".env", "/w/.en?", true);
    check_glob(".env", "/w/.[e]nv", true);
    check_glob(".env", "/w/*", false);
    check_glob(".env", "/w/?env", false);
    check_glob(".env", "/w/.f*", false);
    check_glob("secrets", "/w/sec*/key", true);
    check_glob("secrets/**", "/w/s*", true);
    check_glob("//etc/passwd", "/w/p*", false);
    check_glob("//etc/passwd", "/etc/p*", true);
    check_glob("//etc/passwd", "/e*/passwd", true);
    check_glob("//etc", "/e*/passwd", true);
    check_glob("//etc/passwd/x", "/e*/passwd", false);
    check_glob("~/.ssh", "/home/*/.ssh", true);
    check_glob("~/.ssh", "/home/me/*", false);
    check_glob("*.pem", "/w/a*", false);
    check_glob("a", "/w/[", false);
}
