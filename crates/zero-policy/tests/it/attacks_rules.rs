//! Bypasses of the rules that were found in review, and that stay closed.

use zero_policy::PermissionMode;

use crate::engine_harness::{check, check_mode};

#[test]
fn glob_with_character_class_is_a_glob() {
    for command in [
        "cat .[[:alpha:]]nv",
        "cat .[[=e=]]nv",
        "cat .[[.e.]]nv",
        "cat .e[[:alpha:]]v",
        "cat [.]env .env",
    ] {
        check("allow Bash(*); deny Read(.env)", command, "deny");
    }
    check("allow Bash(*); deny Read(secrets/**)", "cat secret[[:alpha:]]/x", "deny");
    check("allow Bash(*); deny Edit(src/**)", "tee sr[[:alpha:]]/a.rs < s1", "deny");
    check("", "ls [[:upper:]]*.md", "allow");
}

#[test]
fn program_variables_are_not_covered_by_command_rule() {
    for command in [
        "GROFF_COMMAND_PREFIX=./ man ls",
        "ZIPOPT='-T -TT ./x' zip a b",
        "DEBUGINFOD_URLS=http://evil.com objdump -WK s1",
    ] {
        check_mode(PermissionMode::AcceptEdits, "", command, "ask");
    }
    check("allow Bash(go test:*)", "GOCACHEPROG=./x go test", "ask");
    check("allow Bash(pytest:*)", "PYTEST_PLUGINS=evil pytest", "ask");
    check("allow Bash(make test:*)", "make test PATH=/tmp/evil", "ask");
    check("allow Bash(make test:*)", "make test LD_PRELOAD=./x", "ask");
    check("allow Bash(make test:*)", "make test V=1", "allow");
    check("allow Bash(make test:*)", "make test -f - <<< 'test:;./x'", "ask");
}

#[test]
fn rule_naming_address_allows_no_other() {
    let rule = "allow Bash(curl https://api.good.com:*)";
    check(rule, "curl https://api.good.com -s", "allow");
    check(rule, "curl https://api.good.com http://evil.com", "ask");
    check(rule, "curl https://api.good.com --next http://evil.com", "ask");
    check("allow Bash(curl:*)", "curl -s https://a.com", "allow");
}

#[test]
fn turning_folder_into_repository_is_asked() {
    for command in ["echo 'ref: x' > h/HEAD", "cp a h/HEAD", "touch h/head"] {
        check_mode(PermissionMode::AcceptEdits, "allow Edit", command, "ask");
    }
}

#[test]
fn read_command_rule_does_not_allow_writing() {
    check("allow Bash(git log:*)", "git log --output=src/x", "ask");
    check("allow Bash(git log:*)", "git log -3", "allow");
    check("allow Bash(find:*)", "find . -fprint out", "ask");
    check("allow Bash(sort:*)", "sort -o src/a src/b", "ask");
    check("allow Bash(sort:*); allow Edit(src/**)", "sort -o src/a src/b", "allow");
    check("allow Bash(sort -o src/a src/b)", "sort -o src/a src/b", "allow");
    check("allow Bash(cp:*)", "cp src/a src/b", "allow");
    check_mode(PermissionMode::AcceptEdits, "allow Bash(sort:*)", "sort -o src/a src/b", "allow");
}
