//! Tests of which commands a rule matches.

use super::*;

#[track_caller]
fn check_as(verdict: Verdict, pattern: &str, line: &str, expected: bool) {
    let rules = build_rules(verdict, &[&format!("Bash({pattern})")]);
    let found = find_command(&rules, verdict, line);
    assert_eq!(found.is_some(), expected, "{verdict} {pattern} on {line}");
}

#[track_caller]
fn check_allow(pattern: &str, line: &str, expected: bool) {
    check_as(Verdict::Allow, pattern, line, expected);
}

#[track_caller]
fn check_forbid(pattern: &str, line: &str, expected: bool) {
    check_as(Verdict::Deny, pattern, line, expected);
    check_as(Verdict::Ask, pattern, line, expected);
}

#[track_caller]
fn check_both(pattern: &str, line: &str, expected: bool) {
    check_allow(pattern, line, expected);
    check_forbid(pattern, line, expected);
}

#[test]
fn command_pattern_kinds_match() {
    check_both("git status", "git status", true);
    check_both("git status", "git status -s", false);
    check_both("git status", "git", false);
    check_both("git status:*", "git status", true);
    check_both("git status:*", "git status -s a", true);
    check_both("git status *", "git status", true);
    check_both("git status *", "git status a", true);
    check_both("git status:*", "git statusx", false);
    check_both("git:*", "git", true);
    check_both("git:*", "gitk", false);
    check_both("git*", "gitk", true);
    check_both("git*", "git push", true);
    check_both("npm run test*", "npm run test:unit --watch", true);
    check_both("git * main", "git push origin main", true);
    check_both("git * main", "git push origin dev", false);
    check_both("git * main:*", "git push main now", true);
    check_both("git * main:*", "git push mainly", false);
    check_both("* --version", "cargo --version", true);
    check_both("'a b' c", "a_b c", true);
    check_both("a b c", "a_b c", false);
    check_both("echo '*'", "echo a", false);
    check_both("echo it's", "echo it's", true);
    check_both("echo \"it's *", "echo \"it's me", true);
    check_both("ls", "cat", false);
}

#[test]
fn allow_rule_covers_known_words_only() {
    check_allow("git $x", "git $x", false);
    check_allow("git status", "git $x", false);
    check_allow("git status:*", "git $x", false);
    check_allow("git status:*", "git status $x", true);
    check_allow("git status:*", "git status *.rs", true);
    check_allow("git:*", "$x", false);
    check_allow("git * main", "git $x main", false);
    check_allow("git *", "git $x", true);
    check_allow("git pu*", "git push $x", true);
    check_allow("git pu*", "git pu$x", true);
    check_allow("git pu*", "git p$x", false);
    check_allow("git *x*", "git x $y", true);
    check_allow("git *x*", "git $y x", false);
    check_allow("git status", "git  status", true);
    check_allow("git push:*", "git -C x push", false);
    check_allow("git push --force", "git --force push", false);
    check_allow("rm -rf:*", "rm -fr x", false);
    check_allow("git add * -v", "git add a_-v", false);
    check_allow("echo a b*", "echo a_b", false);
    check_allow("GIT:*", "git", false);
    check_allow("CI=1 npm test", "npm test", false);
}

#[test]
fn allow_rule_covers_only_named_program_path() {
    check_allow("git:*", "/usr/bin/git push", true);
    check_allow("git:*", "/bin/git push", true);
    check_allow("git:*", "/usr/local/bin/git push", true);
    check_allow("git:*", "./git push", false);
    check_allow("git:*", "/tmp/git push", false);
    check_allow("git:*", "/usr/bin/../../tmp/git push", false);
    check_allow("git:*", "/usr/bin/x/git push", false);
    check_allow("git *push", "/tmp/git push", false);
    check_allow("git *push", "/usr/bin/git x push", true);
    check_allow("/tmp/git:*", "/tmp/git push", true);
    check_allow("/tmp/git:*", "git push", false);
    check_allow("./run.sh", "./run.sh", true);
    let rules = build_rules(Verdict::Allow, &["Bash(git:*)"]);
    for (path, expected) in [("/usr/bin/git", true), ("/tmp/git", false)] {
        let words = CommandWords { program_path: Some(path), words: &parse_words("git push") };
        assert_eq!(rules.find_command_rule(Verdict::Allow, &words).is_some(), expected, "{path}");
    }
}

#[test]
fn deny_rule_covers_program_in_any_folder() {
    check_forbid("rm:*", "/tmp/rm x", true);
    check_forbid("rm:*", "./rm x", true);
    check_forbid("rm:*", "RM x", true);
    check_forbid("/bin/rm:*", "rm x", true);
    check_forbid("./deploy.sh:*", "scripts/deploy.sh", true);
    check_forbid("rm *x", "/bin/rm ax", true);
    check_forbid("*/rm x", "/bin/rm x", true);
    check_forbid("rm:*", "rmdir x", false);
    check_forbid("rm:*", "$x y", false);
}

#[test]
fn deny_rule_ignores_option_order() {
    check_forbid("git push:*", "git -C dir push", true);
    check_forbid("git push:*", "git -c a=b push origin", true);
    check_forbid("git push:*", "git --git-dir=x push", true);
    check_forbid("git push:*", "git --no-pager push", true);
    check_forbid("git push:*", "git $flags push", true);
    check_forbid("git push:*", "git commit push", false);
    check_forbid("git push:*", "git --git-dir=x log push", false);
    check_forbid("npm x --abc --def:*", "npm x --d --abcd", true);
    check_forbid("npm x --abc --def:*", "npm x --def", false);
    check_forbid("npm x --abc", "npm --ab x", true);
    check_forbid("npm x --abc", "npm x --abc-d", false);
    check_forbid("git push:*", "git -C dir status push", false);
    check_forbid("git push --force:*", "git push origin main --force", true);
    check_forbid("git push --force:*", "git push origin main --forc", true);
    check_forbid("git push --force:*", "git push origin -f", true);
    check_forbid("git push --force:*", "git push origin +main", true);
    check_forbid("git push --force:*", "git push origin main", false);
    check_forbid("git push --force:*", "git push --force-with-lease", false);
    check_forbid("git push -f:*", "git push --force", true);
    check_forbid("git clean -f:*", "git clean -xdf", true);
    check_forbid("git clean -f:*", "git clean --force", true);
    check_forbid("rm -rf:*", "rm -fr x", true);
    check_forbid("rm -rf:*", "rm -r -f x", true);
    check_forbid("rm -rf:*", "rm x -rfv", true);
    check_forbid("rm -rf:*", "rm -R --force x", true);
    check_forbid("rm -rf:*", "rm --recursive --force x", true);
    check_forbid("rm -rf:*", "rm --rec --fo x", true);
    check_forbid("rm -rf:*", "rm -rf$x", true);
    check_forbid("rm -rf:*", "rm -r x", false);
    check_forbid("rm -rf:*", "rm -- -rf", false);
    check_forbid("rm --recursive:*", "rm -r x", true);
    check_forbid("chmod -R 777:*", "chmod --recursive 777 x", true);
    check_forbid("chmod -R 777:*", "chmod 777 -R x", true);
    check_forbid("npm publish --access=public:*", "npm publish --access public", true);
    check_forbid("npm publish --access public:*", "npm publish --access=public", true);
    check_forbid("npm publish --access=public:*", "npm publish --access private", false);
    check_forbid("head -n 5:*", "head -n5 x", true);
    check_forbid("find . -exec:*", "find . -name x -exec rm", true);
    check_forbid("find . -exec:*", "find . -name x -executable", false);
    check_forbid("terraform apply -auto-approve:*", "terraform apply --auto-approve", true);
    check_forbid(
        "terraform apply -auto-approve:*",
        "terraform -chdir=x apply -auto-approve=true",
        true,
    );
    check_forbid("terraform apply -auto-approve:*", "terraform apply", false);
    check_forbid("CI=1 npm publish:*", "npm publish", true);
    check_forbid("CI=1", "npm publish", false);
    check_forbid("docker run --privileged:*", "docker run -it --privileged img", true);
}

#[test]
fn exact_deny_rule_matches_only_its_words() {
    check_forbid("rm -rf /", "rm -fr /", true);
    check_forbid("rm -rf /", "rm / -r -f", true);
    check_forbid("rm -rf /", "rm -r --force -- /", true);
    check_forbid("rm -rf /", "rm -rfv /", false);
    check_forbid("rm -rf /", "rm -rf / x", false);
    check_forbid("rm -rf /", "rm -rf /x", false);
    // A variable may be empty.
    check_forbid("rm -rf /", "rm -rf $x /", true);
    check_forbid("rm -rf /", "rm -rf -- / $x", true);
    check_forbid("rm -rf /", "rm -rf /$x", false);
    check_forbid("rm -rf /", "rm -rf -$x /", false);
    check_forbid("git push", "git -C x push", false);
    check_forbid("git push", "git push --all", false);
    check_forbid("git -C x push", "git -C x push", true);
    check_forbid("git -C push", "git -C x push", false);
    check_forbid("npm publish --tag x", "npm publish --tag=x", true);
}

#[test]
fn deny_wildcard_matches_moved_options() {
    check_forbid("git push * --force", "git push --force origin main", true);
    check_forbid("git push*", "git -C dir push", true);
    check_forbid("git push*", "git --no-pager push x", true);
    check_forbid("git * --force*", "git push origin --force", true);
    check_forbid("* secret*", "cat secret.txt", true);
    check_forbid("* secret*", "cat $x", false);
    check_forbid("cat *txt", "cat $x a.txt", true);
    check_forbid("*secret*", "$x secret", true);
    check_forbid("echo a b*", "echo a_b", true);
}
