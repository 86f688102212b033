//! Which commands a rule matches.

use super::*;

#[track_caller]
fn check_as(verdict: Verdict, pattern: &str, line: &str, expected: bool) {
    let rules = rules(verdict, &[&format!("Bash({pattern})")]);
    let found = find_command(&rules, verdict, line);
    assert_eq!(found.is_some(), expected, "{verdict} {pattern} on {line}");
}

#[track_caller]
fn allow(pattern: &str, line: &str, expected: bool) {
    check_as(Verdict::Allow, pattern, line, expected);
}

#[track_caller]
fn forbid(pattern: &str, line: &str, expected: bool) {
    check_as(Verdict::Deny, pattern, line, expected);
    check_as(Verdict::Ask, pattern, line, expected);
}

#[track_caller]
fn both(pattern: &str, line: &str, expected: bool) {
    allow(pattern, line, expected);
    forbid(pattern, line, expected);
}

#[test]
fn kinds_of_patterns() {
    both("git status", "git status", true);
    both("git status", "git status -s", false);
    both("git status", "git", false);
    both("git status:*", "git status", true);
    both("git status:*", "git status -s a", true);
    both("git status *", "git status", true);
    both("git status *", "git status a", true);
    both("git status:*", "git statusx", false);
    both("git:*", "git", true);
    both("git:*", "gitk", false);
    both("git*", "gitk", true);
    both("git*", "git push", true);
    both("npm run test*", "npm run test:unit --watch", true);
    both("git * main", "git push origin main", true);
    both("git * main", "git push origin dev", false);
    both("git * main:*", "git push main now", true);
    both("git * main:*", "git push mainly", false);
    both("* --version", "cargo --version", true);
    both("'a b' c", "a_b c", true);
    both("a b c", "a_b c", false);
    both("echo '*'", "echo a", false);
    both("echo it's", "echo it's", true);
    both("echo \"it's *", "echo \"it's me", true);
    both("ls", "cat", false);
}

#[test]
fn an_allow_rule_covers_known_words_only() {
    allow("git $x", "git $x", false);
    allow("git status", "git $x", false);
    allow("git status:*", "git $x", false);
    allow("git status:*", "git status $x", true);
    allow("git status:*", "git status *.rs", true);
    allow("git:*", "$x", false);
    allow("git * main", "git $x main", false);
    allow("git *", "git $x", true);
    allow("git pu*", "git push $x", true);
    allow("git pu*", "git pu$x", true);
    allow("git pu*", "git p$x", false);
    allow("git *x*", "git x $y", true);
    allow("git *x*", "git $y x", false);
    allow("git status", "git  status", true);
    allow("git push:*", "git -C x push", false);
    allow("git push --force", "git --force push", false);
    allow("rm -rf:*", "rm -fr x", false);
    allow("git add * -v", "git add a_-v", false);
    allow("echo a b*", "echo a_b", false);
    allow("GIT:*", "git", false);
    allow("CI=1 npm test", "npm test", false);
}

#[test]
fn an_allow_rule_is_for_the_program_it_names() {
    allow("git:*", "/usr/bin/git push", true);
    allow("git:*", "/bin/git push", true);
    allow("git:*", "/usr/local/bin/git push", true);
    allow("git:*", "./git push", false);
    allow("git:*", "/tmp/git push", false);
    allow("git:*", "/usr/bin/../../tmp/git push", false);
    allow("git:*", "/usr/bin/x/git push", false);
    allow("git *push", "/tmp/git push", false);
    allow("git *push", "/usr/bin/git x push", true);
    allow("/tmp/git:*", "/tmp/git push", true);
    allow("/tmp/git:*", "git push", false);
    allow("./run.sh", "./run.sh", true);
    let rules = rules(Verdict::Allow, &["Bash(git:*)"]);
    for (path, expected) in [("/usr/bin/git", true), ("/tmp/git", false)] {
        let words = CommandWords { program_path: Some(path), words: &words("git push") };
        assert_eq!(rules.command(Verdict::Allow, &words).is_some(), expected, "{path}");
    }
}

#[test]
fn a_deny_rule_is_for_the_program_wherever_it_lies() {
    forbid("rm:*", "/tmp/rm x", true);
    forbid("rm:*", "./rm x", true);
    forbid("rm:*", "RM x", true);
    forbid("/bin/rm:*", "rm x", true);
    forbid("./deploy.sh:*", "scripts/deploy.sh", true);
    forbid("rm *x", "/bin/rm ax", true);
    forbid("*/rm x", "/bin/rm x", true);
    forbid("rm:*", "rmdir x", false);
    forbid("rm:*", "$x y", false);
}

#[test]
fn a_deny_rule_does_not_care_where_options_stand() {
    forbid("git push:*", "git -C dir push", true);
    forbid("git push:*", "git -c a=b push origin", true);
    forbid("git push:*", "git --git-dir=x push", true);
    forbid("git push:*", "git --no-pager push", true);
    forbid("git push:*", "git $flags push", true);
    forbid("git push:*", "git commit push", false);
    forbid("git push:*", "git --git-dir=x log push", false);
    forbid("npm x --abc --def:*", "npm x --d --abcd", true);
    forbid("npm x --abc --def:*", "npm x --def", false);
    forbid("npm x --abc", "npm --ab x", true);
    forbid("npm x --abc", "npm x --abc-d", false);
    forbid("git push:*", "git -C dir status push", false);
    forbid("git push --force:*", "git push origin main --force", true);
    forbid("git push --force:*", "git push origin main --forc", true);
    forbid("git push --force:*", "git push origin -f", true);
    forbid("git push --force:*", "git push origin +main", true);
    forbid("git push --force:*", "git push origin main", false);
    forbid("git push --force:*", "git push --force-with-lease", false);
    forbid("git push -f:*", "git push --force", true);
    forbid("git clean -f:*", "git clean -xdf", true);
    forbid("git clean -f:*", "git clean --force", true);
    forbid("rm -rf:*", "rm -fr x", true);
    forbid("rm -rf:*", "rm -r -f x", true);
    forbid("rm -rf:*", "rm x -rfv", true);
    forbid("rm -rf:*", "rm -R --force x", true);
    forbid("rm -rf:*", "rm --recursive --force x", true);
    forbid("rm -rf:*", "rm --rec --fo x", true);
    forbid("rm -rf:*", "rm -rf$x", true);
    forbid("rm -rf:*", "rm -r x", false);
    forbid("rm -rf:*", "rm -- -rf", false);
    forbid("rm --recursive:*", "rm -r x", true);
    forbid("chmod -R 777:*", "chmod --recursive 777 x", true);
    forbid("chmod -R 777:*", "chmod 777 -R x", true);
    forbid("npm publish --access=public:*", "npm publish --access public", true);
    forbid("npm publish --access public:*", "npm publish --access=public", true);
    forbid("npm publish --access=public:*", "npm publish --access private", false);
    forbid("head -n 5:*", "head -n5 x", true);
    forbid("find . -exec:*", "find . -name x -exec rm", true);
    forbid("find . -exec:*", "find . -name x -executable", false);
    forbid("terraform apply -auto-approve:*", "terraform apply --auto-approve", true);
    forbid("terraform apply -auto-approve:*", "terraform -chdir=x apply -auto-approve=true", true);
    forbid("terraform apply -auto-approve:*", "terraform apply", false);
    forbid("CI=1 npm publish:*", "npm publish", true);
    forbid("CI=1", "npm publish", false);
    forbid("docker run --privileged:*", "docker run -it --privileged img", true);
}

#[test]
fn an_exact_deny_rule_wants_just_its_words() {
    forbid("rm -rf /", "rm -fr /", true);
    forbid("rm -rf /", "rm / -r -f", true);
    forbid("rm -rf /", "rm -r --force -- /", true);
    forbid("rm -rf /", "rm -rfv /", false);
    forbid("rm -rf /", "rm -rf / x", false);
    forbid("rm -rf /", "rm -rf /x", false);
    // A variable may be empty.
    forbid("rm -rf /", "rm -rf $x /", true);
    forbid("rm -rf /", "rm -rf -- / $x", true);
    forbid("rm -rf /", "rm -rf /$x", false);
    forbid("rm -rf /", "rm -rf -$x /", false);
    forbid("git push", "git -C x push", false);
    forbid("git push", "git push --all", false);
    forbid("git -C x push", "git -C x push", true);
    forbid("git -C push", "git -C x push", false);
    forbid("npm publish --tag x", "npm publish --tag=x", true);
}

#[test]
fn a_wildcard_of_a_deny_rule_sees_options_moved() {
    forbid("git push * --force", "git push --force origin main", true);
    forbid("git push*", "git -C dir push", true);
    forbid("git push*", "git --no-pager push x", true);
    forbid("git * --force*", "git push origin --force", true);
    forbid("* secret*", "cat secret.txt", true);
    forbid("* secret*", "cat $x", false);
    forbid("cat *txt", "cat $x a.txt", true);
    forbid("*secret*", "$x secret", true);
    forbid("echo a b*", "echo a_b", true);
}
