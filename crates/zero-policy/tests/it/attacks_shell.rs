//! Command lines written to bypass the shell analysis, with the required verdicts.
//!
//! Each group makes the engine assume something wrong about the shell: a function that is not
//! called, a variable with another value, a folder that was left. The behaviour of bash was
//! verified with bash.

use std::fmt::Write;
use std::time::Duration;

use zero_policy::PermissionMode;
use zero_policy::PolicyEngine;

use crate::cpu_time;
use crate::engine_harness::{build_engine, decide_command};

/// Everything is allowed except what is denied.
const DENIES: &str = "allow Bash(*); allow Edit; allow Write; allow Read; deny Bash(rm:*); \
    deny Bash(git push:*); deny Bash(curl:*); deny Read(.env); deny Read(secrets/**); \
    deny Read(s2); deny Edit(src/**); deny Write(.env); deny WebFetch(domain:evil.com); \
    deny Bash(npm publish:*)";
const CHANGES: &str = "allow Bash(*); allow Edit; allow Write; allow Delete";

fn engine_with_denies() -> PolicyEngine {
    build_engine(DENIES, PermissionMode::Auto)
}

fn engine_without_rules() -> PolicyEngine {
    build_engine("", PermissionMode::Ask)
}

fn engine_accepting_edits() -> PolicyEngine {
    build_engine("", PermissionMode::AcceptEdits)
}

fn engine_in_auto_mode() -> PolicyEngine {
    build_engine(CHANGES, PermissionMode::Auto)
}

fn engine_in_plan_mode() -> PolicyEngine {
    build_engine("allow Bash(*); allow Edit; allow Write", PermissionMode::Plan)
}

/// Checks all rows before it fails, so that one run shows every mismatch.
#[track_caller]
fn check_table(engine: &PolicyEngine, expected: &[&str], commands: &[&str]) {
    let mut wrong = String::new();
    for command in commands {
        let decision = decide_command(engine, command);
        let verdict = decision.verdict.as_str();
        if !expected.contains(&verdict) {
            writeln!(wrong, "\n`{command}`: {verdict}: {}", decision.reason).unwrap();
        }
    }
    assert!(wrong.is_empty(), "expected {expected:?}{wrong}");
}

#[track_caller]
fn check_denied(engine: &PolicyEngine, commands: &[&str]) {
    check_table(engine, &["deny"], commands);
}

/// Asked or denied: nothing uncertain is allowed.
#[track_caller]
fn check_stopped(engine: &PolicyEngine, commands: &[&str]) {
    check_table(engine, &["ask", "deny"], commands);
}

#[track_caller]
fn check_allowed(engine: &PolicyEngine, commands: &[&str]) {
    check_table(engine, &["allow"], commands);
}

#[test]
fn function_does_not_hide_program_of_same_name() {
    check_stopped(
        &engine_without_rules(),
        &[
            "sh(){ :; }; command sh -c ./x",
            "sh(){ :; }; command -p sh -c ./x",
            "sh(){ :; }; command -- sh -c ./x",
            "sh(){ :; }; exec sh -c ./x",
            "sh(){ :; }; env sh -c ./x",
            "sh(){ :; }; unset -f sh; sh -c ./x",
            "sh(){ :; }; unset sh; sh -c ./x",
            "sh(){ :; }; unset -- sh; sh -c ./x",
            "sh(){ :; }; f=sh; unset $f; sh -c ./x",
            "sh(){ unset -f sh; }; sh; sh -c ./x",
            "npm() { :; }; bash -c 'npm install evil'",
            "npm() { :; }; (unset -f npm; npm install evil)",
            "npm() { :; }; xargs npm install evil",
            "npm() { :; }; \"np\"'m' install evil; unset -f npm; npm i x",
            "set -o posix; command eval 'sh(){ :; }'; sh -c ./x",
            "if false; then sh() { :; }; fi; sh -c ./x",
            "false && sh() { :; }; sh -c ./x",
            "(sh() { :; }); sh -c ./x",
            "sh() { :; } | cat; sh -c ./x",
            "x=$(sh() { :; }); sh -c ./x",
            "sh() { :; } & sh -c ./x",
            "git() { :; }; export -f git; bash -c 'git commit'",
        ],
    );
    check_denied(
        &engine_with_denies(),
        &[
            "rm(){ :; }; command rm -rf victim",
            "rm(){ :; }; rm -rf victim",
            "rm(){ :; }; unset -f rm; rm -rf victim",
            "env(){ :; }; bash -c 'env rm -rf x'",
            "eval() { :; }; builtin eval 'rm -rf x'",
            "eval() { :; }; command eval 'rm -rf x'",
            "eval() { :; }; unset -f eval; eval 'rm -rf x'",
            "cd() { :; }; builtin cd secrets && cat x",
            "cd() { :; }; command cd secrets && cat x",
            "git() { :; }; command git push --force",
            "command() { :; }; unset -f command; command rm x",
            "curl() { :; }; curl x",
            "cat() { :; }; cat .env",
        ],
    );
    check_stopped(&engine_with_denies(), &["cd() { :; }; builtin cd secrets; cat x"]);
    check_stopped(
        &engine_in_auto_mode(),
        &["rm(){ :; }; command rm -rf victim", "git(){ :; }; command git push --force"],
    );
    check_stopped(&engine_in_plan_mode(), &["rm(){ :; }; command rm -rf victim"]);
    check_allowed(
        &engine_without_rules(),
        &[
            "f() { ls; }; f",
            "log() { echo \"$@\"; }; log a b; log c",
            "f() { local n=$1; cat \"src/a\"; }; f 1",
        ],
    );
}

#[test]
fn declared_array_cannot_hide_commands() {
    let lines = [
        "declare -a x='($(git push))'",
        "local -A x='([k]=`git push`)'",
        "x=(1); declare x='($(git push))'",
        "read y < f.txt; declare -a x=$y",
        "y=$(cat f.txt); declare -a \"x=$y\"",
    ];
    check_stopped(&engine_without_rules(), &lines);
    check_stopped(&engine_in_plan_mode(), &lines);
    let denied = build_engine("deny Bash(git push:*)", PermissionMode::Auto);
    check_denied(&denied, &lines[..3]);
    // A calculation makes the array.
    let lines = [
        "read v < f; let 'x[0]=1'; typeset x=\"$v\"",
        "read v < f; let \"x\"\"[0]=1\"; typeset x=\"$v\"",
        "read v < f; n=x; let \"${n}[0]=1\"; typeset x=\"$v\"",
        "read v < f; let $'x\\x5b0]=1'; typeset x=\"$v\"",
        "read v < f; builtin let 'x[0]=1'; typeset x=\"$v\"",
        "read v e < f; let \"$e\"; typeset x=\"$v\"",
        "read v < f; (( x\"[\"0]=1 )); typeset x=\"$v\"",
        "read v < f; echo $((x\"[\"0]=1)); typeset x=\"$v\"",
        "read v < f; [[ x\"[\"0]=1 -eq 1 ]]; typeset x=\"$v\"",
        "read v < f; for ((x\"[\"0]=1;0;)); do :; done; typeset x=\"$v\"",
    ];
    check_stopped(&engine_without_rules(), &lines);
}

#[test]
fn arithmetic_may_run_commands() {
    let lines = [
        "read z <<< 'a[$(./x)]'; echo $((z))",
        "set -- 'a[$(./x)]'; echo $(($1))",
        "for z in 'a[$(./x)]'; do echo $((z)); done",
        "z='a[$'; z+='(./x)]'; echo $((z))",
        "z=('a[$(./x)]'); echo $((z))",
        "z=$(cat f); echo $((z))",
        "read z <f; [[ z -eq 1 ]]",
        "read z <f; [[ 1 -eq z ]]",
        "read z <f; [[ $z -eq 1 ]]",
        "read z <f; (( z ))",
        "read z <f; echo ${PATH:z}",
        "read z <f; echo ${PATH:1:z}",
        "read z <f; echo ${a[z]}",
        "read z <f; echo ${#a[z]}",
        "read z <f; echo ${a[z]:-1}",
        "read z <f; a[z]=1",
        "read z <f; a=([z]=1)",
        "read z <f; declare -i y=$z",
        "read z <f; declare -i y=z",
        "read z <f; declare -i y; y=z",
        "read z <f; let y=z",
        "read z <f; let z",
        "read z <f; [[ -v $z ]]",
        "read z <f; [[ -v a[z] ]]",
        "read z <f; test -v \"$z\"",
        "read z <f; [ -v \"$z\" ]",
        "read z <f; unset \"$z\"",
        "read z <f; printf -v \"$z\" x",
        "read z <f; for ((i=z;i<3;i++)); do ls; done",
        "read z <f; echo $[z]",
        "[[ $1 -eq 1 ]]",
        "while read n; do s=$((s+n)); done <f",
        ": ${z:='a[$(./x)]'}; echo $((z))",
        ": ${z='a[$(./x)]'}; (( z ))",
        "mapfile z <f; (( z ))",
        "getopts 'a:' z -a 'b[$(./x)]'; (( OPTARG ))",
        "printf -v z '%s%s' 'a[$' '(./x)]'; (( z ))",
        "export z='a[$(./x)]'; (( z ))",
        "z=$1; (( z ))",
        "y=z; read z <f; (( y ))",
        "IFS=+; (( $# + $1 ))",
        "select z in a; do (( z )); done",
        "(( $(cat f) ))",
        "echo $(( `cat f` ))",
        "echo $((REPLY))",
        "read <f; echo $((REPLY))",
        "echo $(( ${z:-'a[$(./x)]'} ))",
        "set -- 'a[$(./x)]'; (( ${@} ))",
    ];
    check_stopped(&engine_without_rules(), &lines);
    check_stopped(&engine_in_auto_mode(), &lines);
    check_stopped(&engine_in_plan_mode(), &lines);
    check_stopped(&engine_in_auto_mode(), &["read z <<< 'a[$(rm -rf /)]'; echo $((z))"]);
    check_allowed(
        &engine_without_rules(),
        &[
            "i=0; while ((i < 5)); do echo $i; ((i++)); done",
            "n=3; echo $((n * 2))",
            "for i in 1 2 3; do echo $((i + 1)); done",
            "n=$(wc -l < a.txt); (( n > 3 )) && echo long",
        ],
    );
}

#[test]
fn variable_is_known_only_without_other_setters() {
    check_stopped(
        &engine_without_rules(),
        &[
            "c=echo; read -ac <<< ./x; \"$c\"",
            "c=echo; read -rac <<< ./x; \"$c\"",
            "c=echo; read -a c <<< ./x; \"$c\"",
            "c=echo; read c <<< ./x; \"$c\"",
            "_=echo; : ./x; \"$_\" hi",
            "OPTARG=echo; getopts a: o -a ./x; \"$OPTARG\"",
            "o=echo; getopts a o -a; \"$o\"",
            "MAPFILE=echo; mapfile -t <<< ./x; \"$MAPFILE\"",
            "c=echo; mapfile -t c <<< ./x; \"$c\"",
            "c=echo; shopt -s lastpipe; echo ./x | read c; \"$c\"",
            "c=echo; set +m; shopt -s lastpipe; echo ./x | { read c; }; \"$c\"",
            "readonly c=./x; declare c=echo; \"$c\"",
            "readonly c=./x; c=echo; \"$c\"",
            "declare -r c=./x; c=echo; \"$c\"",
            "typeset -r c=./x; export c=echo; \"$c\"",
            "c=echo; trap 'c=./x' DEBUG; \"$c\" hi",
            "c=echo; trap 'c=./x' ERR; false; \"$c\" hi",
            "c=echo; trap 'c=./x' USR1; kill -USR1 $$; \"$c\" hi",
            "a=echo; a=./x eval '\"$a\" y'",
            "c=echo; command -- eval c=./x; \"$c\"",
            "c=echo; command -p eval c=./x; \"$c\"",
            "c=echo; builtin -- eval c=./x; \"$c\"",
            "c=echo; builtin eval c=./x; \"$c\"",
            "c=echo; command -p export c=./x; \"$c\"",
            "c=echo; command -- export c=./x; \"$c\"",
            "c=echo; command -p read c <<< ./x; \"$c\"",
            "c=echo; builtin -- read c <<< ./x; \"$c\"",
            "c=echo; builtin command builtin read c <<< ./x; \"$c\"",
            "c=echo; printf -v c ./x; \"$c\"",
            "c=echo; printf -vc ./x; \"$c\"",
            "c=echo; declare -n r=c; r=./x; \"$c\"",
            "declare -n c=d; c=echo; d=./x; \"$c\"",
            "c=echo; r=-n; declare $r q=c; q=./x; \"$c\"",
            "c=echo; : ${c:=x}; unset c; : ${c:=./x}; \"$c\"",
            "c=; : ${c:=./x}; \"$c\"",
            "c=echo; unset c; c+=./x; \"$c\"",
            "c=echo; . ./f; \"$c\"",
            "c=echo; f() { c=./x; }; f; \"$c\"",
            "c=echo; f() { read c; }; f <<< ./x; \"$c\"",
            "c=echo; set -- c=./x; export \"$@\"; \"$c\"",
            "c=echo; export $x; \"$c\"",
            "c=echo; declare \"$x\"; \"$c\"",
            "c=echo; for c in echo ./x; do :; done; \"$c\"",
            "c=echo; select c in ./x; do break; done; \"$c\"",
            "c=echo; coproc c { :; }; \"$c\"",
            "c=echo; wait -p c; \"$c\"",
            "c=echo; declare -A m; declare \"c=./x\"; \"$c\"",
            "c=(./x); \"$c\"",
            "c[0]=./x; \"$c\"",
            "c=echo; c[0]=./x; \"$c\"",
            "c=echo; c=([0]=./x); \"$c\"",
            "c=echo; c+=' '; \"$c\"",
            "c=echo; enable -n read; read c; \"$c\"",
            "c=echo; alias q='c=./x'; \"$c\"",
            "c=echo; let 'c=1'; \"$c\"",
            "BASH_ARGV0=echo; \"$BASH_ARGV0\"",
            "SECONDS=echo; \"$SECONDS\"",
            "RANDOM=echo; \"$RANDOM\"",
            "LINENO=echo; \"$LINENO\"",
            "OPTIND=echo; \"$OPTIND\"",
            "REPLY=echo; read <<< ./x; \"$REPLY\"",
            "c=echo; while read c; do :; done < f; \"$c\"",
            "c=echo; for i in 1 2; do \"$c\"; read c < f; done",
            "c=echo; until \"$c\"; do read c < f; done",
            "c=echo; exec {c}>f; \"$c\"",
            "c=echo; $q c=./x; \"$c\"",
            "c=echo; \"$q\" c; \"$c\"",
            "local c=./x; c=echo; readonly d; f() { local c; \"$c\"; }; f",
        ],
    );
    check_denied(
        &engine_with_denies(),
        &[
            "c=echo; c=rm eval '$c y'",
            "a=docs; a=secrets eval 'cat $a/x'",
            "x=docs/a; command -- eval x=.env; cat $x",
            "x=docs/a; eval x=.env; cat $x",
        ],
    );
    check_stopped(
        &engine_with_denies(),
        &[
            "x=docs/a; read -ax <<< .env; cat $x",
            "_=docs/a; : .env; cat $_",
            "x=1; [[ x=2 -eq 2 ]]; cat s$x",
            "x=1; a[x=2]=1; cat s$x",
            "x=1; echo ${PATH:x=2:1}; cat s$x",
            "x=1; echo ${a[x=2]}; cat s$x",
            "x=1; let y=x=2; cat s$x",
            "x=1; declare -i y=x=2; cat s$x",
            "x=1; z=([x=2]=1); cat s$x",
            "x=1; [[ -v z[x=2] ]]; cat s$x",
            "x=1; test -v 'z[x=2]'; cat s$x",
            "x=1; unset 'z[x=2]'; cat s$x",
            "x=1; printf -v 'z[x=2]' a; cat s$x",
            "x=1; read 'z[x=2]' < f; cat s$x",
            "x=1; declare 'z[x=2]=1'; cat s$x",
            "x=1; export y=$((x=2)); cat s$x",
            "x=1; : $((x=2)); cat s$x",
            "x=1; ((x++)); cat s$x",
            "x=1; : <<< $((x=2)); cat s$x",
            "x=1; ls > f$((x=2)); cat s$x",
            "x=1; for i in a b; do cat s$x; : $((x++)); done",
            "x=1; for i in a b; do cat s$x; [[ x=2 -eq 2 ]]; done",
            "x=1; for i in a b; do cat s$x; a[x=2]=1; done",
            "x=1; for i in a b; do cat s$x; declare -i y=x=2; done",
            "x=1; for i in a b; do cat s$x; : ${PATH:x=2}; done",
            "x=1; while ls; do cat s$x; let x=2; done",
            "y=1; x=1; case $((x=2)) in *) cat s$x;; esac",
            "declare -i y=1+1; cat s$y",
            "declare -i y; y=1+1; cat s$y",
            "declare -l f=SECRETS/X; cat $f",
            "declare -l f; f=SECRETS/X; cat $f",
            "typeset -u f; f=a; cat $f",
            "declare -c f; f=a; cat $f",
            "local -i y; y=1+1; cat s$y",
            "export -n y; declare +x -i y=1+1; cat s$y",
        ],
    );
    check_denied(
        &engine_with_denies(),
        &["x=.env; cat $x", "export x=.env; cat $x", "x=s; x=${x}2; cat $x"],
    );
    check_allowed(
        &engine_without_rules(),
        &[
            "x=src; cat $x/a.rs",
            "export D=src; cat \"$D/a.rs\"",
            "f=a; for i in 1 2; do cat $f$i; done",
        ],
    );
}

#[test]
fn folder_is_known_only_from_plain_cd() {
    check_denied(
        &engine_with_denies(),
        &[
            "command -p cd secrets && cat x",
            "builtin -- cd secrets && cat x",
            "command -- cd secrets && cat x",
            "builtin command cd secrets && cat x",
            "cd secrets && cat x",
            "cd -- secrets && cat x",
            "cd secrets; cat x",
            "command -p cd secrets; cat x",
            "builtin -- cd secrets; cat x",
            "command -- cd secrets; cat x",
            "cd -LP secrets; cat secrets/x",
            "cd $x; cat .env",
        ],
    );
    check_stopped(
        &engine_with_denies(),
        &[
            "cd -LP secrets; cat x",
            "cd -Pe secrets; cat x",
            "cd -P secrets; cat x",
            "cd -L secrets; cat x",
            "cd -@ secrets; cat x",
            "shopt -s cdable_vars; d=secrets; cd d; cat x",
            "CDPATH=secrets cd sub; cat x",
            "CDPATH=secrets; cd sub; cat x",
            "export CDPATH=secrets; cd sub; cat x",
            "cd -P link/..; cat x",
            "cd link/..; cat x",
            "set -P; cd link/..; cat x",
            "set -o physical; cd link; cd ..; cat x",
            "set -P; cd ./link/..; cat x",
            "cd -P ./link/.. && cat x",
            "cd ./link/../.. && cat x",
            "cd /w/link/.. && cat x",
            "env -C link/.. cat x",
            "env --chdir=link/.. cat x",
            "f(){ ls; cat x; }; ls(){ cd secrets; }; f",
            "f() { g; cat x; }; g() { cd secrets; }; f",
            "trap 'cd secrets' DEBUG; cat x",
            "x=cd; $x secrets; cat x",
            "\"$x\" secrets; cat x",
            "pushd secrets; cat x",
            "pushd secrets; pushd docs; popd; cat x",
            "cd docs; cd -; cat x",
            "cd ~-; cat x",
            "cd secrets docs; cat x",
            "alias q='cd secrets'; cat x",
            "shopt -s autocd; secrets; cat x",
            "f() { cd secrets; }; f; cat x",
            "f() { eval cd secrets; }; f; cat x",
            "f() { command cd secrets; }; f; cat x",
            "f() { $1 secrets; }; f cd; cat x",
            "f() { g; }; g() { cd secrets; }; f; cat x",
            "for i in 1 2; do cat x; cd secrets; done",
            "for i in 1 2; do cat x; command -p cd secrets; done",
            "for i in 1 2; do cat x; f; done; f() { cd secrets; }",
            "while cat x; do eval 'cd secrets'; done",
        ],
    );
    check_stopped(
        &engine_without_rules(),
        &[
            "command -p cd ~/.ssh; cat id_rsa",
            "cd -LP ..; cat home/.ssh/id_rsa",
            "cd ..; cat home/.ssh/id_rsa",
            "env -C outlink/.. cat home/.ssh/id_rsa",
            "f(){ ls; cat x; }; ls(){ cd ~/.ssh; }; f",
            "cd() { builtin cd ~/.ssh; }; cd src; cat id_rsa",
        ],
    );
    check_stopped(
        &engine_accepting_edits(),
        &[
            "cd -LP .git/hooks; echo x > pre-commit",
            "command -p cd .git; echo x > config",
            "cd .git && echo x > config",
        ],
    );
    check_allowed(
        &engine_without_rules(),
        &["cd src && cat a.rs", "cd src && ls && cd /w && cat a", "(cd src && ls); cat a"],
    );
}

#[test]
fn tilde_after_equals_sign_may_be_home() {
    check_stopped(
        &engine_without_rules(),
        &[
            "export x=~/.ssh/id_rsa; cat $x",
            "declare x=~/.ssh/id_rsa; cat $x",
            "x=~/.ssh/id_rsa; cat $x",
            "x=a:~/.ssh/id_rsa; cat ${x#a:}",
            "dd if=~/.ssh/id_rsa status=none",
            "dd if=~/.ssh/id_rsa",
            "grep --file=~/.ssh/id_rsa x",
            "cat ~/.ssh/id_rsa",
            "cat ~root/.ssh/id_rsa",
            "cat ~-/x",
        ],
    );
    let denies_home = build_engine(
        "allow Bash(*); allow Read; deny Read(~/.ssh/**); deny Read(~x)",
        PermissionMode::Auto,
    );
    check_stopped(
        &denies_home,
        &[
            "export x=~/.ssh/id_rsa; cat $x",
            "dd if=~/.ssh/id_rsa",
            "grep --file=~/.ssh/id_rsa x",
            "x=~/.ssh/id_rsa; cat $x",
            "x=~/.ssh; cat $x/id_rsa",
        ],
    );
    check_denied(&engine_with_denies(), &["cat ~+/.env", "cat ~+/secrets/x"]);
}

#[test]
fn output_beyond_file_names_is_stopped() {
    check_stopped(
        &engine_without_rules(),
        &[
            "git log -1 --name-only --format=tformat:$HOME-path/.ssh/id_rsa | head -1 | xargs cat",
            "git log -1 --name-only --format=tformat:/etc/x | head -1 | xargs cat",
            "git diff --name-only --src-prefix=/etc | xargs cat",
            "find docs -fprintf /dev/stdout '/etc/.ssh/id_rsa\\n' | xargs cat",
            "find docs -fprint0 /dev/stdout | xargs cat",
            "find docs -fls /dev/stdout | xargs cat",
            "find docs -printf '/etc/passwd\\n' | xargs cat",
            "find docs -exec echo /etc/passwd \\; | xargs cat",
            "find docs -ls | xargs cat",
            "fd --format /etc/passwd | xargs cat",
            "git ls-files --format=/etc/passwd | xargs cat",
            "git ls-files | grep -o /etc | xargs cat",
            "git ls-files | tail -c 5 | xargs cat",
            "git ls-files | sed s,^,/etc/, | xargs cat",
            "git ls-files | xargs -I{} cat /etc/{}",
            "ls | awk '{print \"/etc/passwd\"}' | xargs cat",
            "find . -name 'a b' | xargs sh -c 'cat $0'",
            "find() { echo /etc/passwd; }; find . | xargs cat",
            "find . <<< a | cat <<< /etc/passwd | xargs cat",
            "find . | { cat; echo /etc/passwd; } | xargs cat",
            "git -c alias.ls-files='!echo /etc/passwd' ls-files | xargs cat",
            "git ls-files | sort - /etc/passwd | xargs cat",
            "ls /etc | xargs cat",
            "rg --files --path-separator=/etc | xargs cat",
            "rg -l --no-filename -r /etc/passwd x | xargs cat",
        ],
    );
    check_stopped(
        &engine_with_denies(),
        &[
            "echo x | grep -l --label=.env x - docs/a | xargs cat",
            "echo x | grep -l --labe=.env x - docs/a | xargs cat",
            "fd --format .env | xargs cat",
            "git ls-files --format=.env | xargs cat",
            "git ls-files | grep -o .env | xargs cat",
            "git ls-files | tail -c 5 | xargs cat",
        ],
    );
}

#[test]
fn shell_options_changing_globs_are_stopped() {
    check_stopped(
        &engine_with_denies(),
        &[
            "shopt -s dotglob; cat ?env",
            "shopt -s dotglob; cat [.]env",
            "shopt -s dotglob; cat *",
            "bash -O dotglob -c 'cat ?env'",
            "bash -O extglob -c 'cat @(.env)'",
            "shopt -s nocaseglob; cat SECRETS/[X]",
            "shopt -s globstar; cat **/x",
            "shopt -s extglob; cat @(.env)",
            "shopt -s failglob dotglob; cat ?env",
            "shopt -so posix; ls",
            "shopt -s $x; ls",
            "set -o noglob; cat *",
            "set -f; cat *",
            "x=dotglob; shopt -s $x; cat ?env",
            "command shopt -s dotglob; cat ?env",
            "builtin -- shopt -s dotglob; cat ?env",
            "BASHOPTS=dotglob bash -c 'cat ?env'",
            "GLOBIGNORE=x; cat ?env",
        ],
    );
}

#[test]
fn vanishing_or_literal_words_are_evaluated() {
    check_denied(
        &engine_with_denies(),
        &[
            "\"$@\" rm -rf x",
            "$x $y rm z",
            "$x \"$@\" $(true) rm z",
            "\"${a[@]}\" rm z",
            "cat ~+/.env",
            "set -- .env; cat $1",
            "set -- a .env; cat \"$2\"",
            "set -- rm x; \"$@\"",
            "set -- rm x; $@",
            "set -- rm; $1 x",
            "a=(.env); cat $a",
            "a=(b .env); cat ${a[1]}",
            "c=(rm -rf y); \"${c[@]}\"",
            "cat $(echo .env)",
            "`echo rm` x",
            "bash -c '$0 y' rm",
            "bash -c '\"$@\"' x rm y",
            "xargs cat <<< .env",
            "echo .env | xargs cat",
        ],
    );
}

#[test]
fn every_line_is_evaluated_in_bounded_time() {
    let many = |piece: &str, count: usize| piece.repeat(count);
    let tree = |levels: usize| {
        let level = |at: usize| format!("v{at}='eval \"$v{0}\"; eval \"$v{0}\"';", at - 1);
        let levels_text: String = (1..levels).map(level).collect();
        format!("v0='ls; ls';{levels_text}eval \"$v{}\"", levels - 1)
    };
    let named = |count: usize, piece: &dyn Fn(usize) -> String| -> String {
        (0..count).map(piece).collect()
    };
    let lines = [
        ("doubling", "a=x;".to_owned() + &many("a=$a$a;", 40)),
        ("doubling, run", "a='x ';".to_owned() + &many("a=\"$a$a\";", 26) + "$a"),
        ("doubling, eval", "a='ls;';".to_owned() + &many("a=\"$a$a\";", 18) + "eval \"$a\""),
        (
            "doubling in loops",
            "a=x; for i in 1 2 3 4 5 6 7 8; do for j in 1 2 3 4 5 6 7 8; do a=$a$a; done; done"
                .to_owned(),
        ),
        ("tree of eval", tree(18)),
        ("larger tree of eval", tree(40)),
        ("open braces", "echo ".to_owned() + &many(&(many("{", 2000) + "a,b} "), 200)),
        ("nested braces", "echo ".to_owned() + &many("{a,", 2000) + &many("}", 2000)),
        ("many braces", "echo ".to_owned() + &many("{a,b}{c,d}{e,f}{a,b}{a,b}{a,b} ", 2000)),
        ("redirections", "cat ".to_owned() + &many("<a ", 20_000)),
        ("env", many("env ", 100_000) + "ls"),
        ("assignments", named(20_000, &|at| format!("x{}=1||", at % 250)) + "ls"),
        ("different assignments", named(20_000, &|at| format!("x{at}=1||")) + "ls"),
        ("guesses", named(250, &|at| format!("x{at}=1;")) + &many("read a[1]; ls $x1;", 3_000)),
        ("calls", named(250, &|at| format!("x{at}=1;")) + "f() { :; };" + &many("f;", 5_000)),
        ("commands", many("cat a;", 20_000)),
        ("globs", "echo ".to_owned() + &named(20_000, &|at| format!("a{at}/* "))),
        ("exports", many("export A=b; cat a;", 10_000)),
        ("pipes", many("cat|", 20_000) + "cat"),
        ("tee", "printf x".to_owned() + &many(" | tee a", 5_000)),
        ("find", "find . ".to_owned() + &many("-exec cat {} \\; ", 5_000)),
        ("xargs", many("xargs ", 140) + "ls <<< 'a b'"),
        ("xargs of xargs", "echo a b | ".to_owned() + &many("xargs ", 20) + "ls"),
        ("loops", many("for i in 1 2 3 4 5 6 7 8; do ", 8) + "ls;" + &many(" done;", 8)),
        ("copies", "cp ".to_owned() + &named(20_000, &|at| format!("a{at} ")) + "docs"),
        ("moves", "mv ".to_owned() + &named(20_000, &|at| format!("a{at} ")) + "docs"),
        ("removals", "rm ".to_owned() + &named(20_000, &|at| format!("a{at} "))),
        ("cd", named(5_000, &|at| format!("cd a{at} || ")) + "ls"),
        ("defaults", "ls ".to_owned() + &many("${a:-", 100) + &many("}", 100)),
        ("substitutions", "ls ".to_owned() + &many("$(echo ", 100) + &many(")", 100)),
        ("arguments", "set -- ".to_owned() + &many("a ", 500) + ";" + &many("ls $@ $@ $@;", 1_000)),
    ];
    let engine = engine_with_denies();
    let mut slow = String::new();
    for (name, line) in lines {
        let start = cpu_time::thread_cpu_time();
        decide_command(&engine, &line);
        let took = cpu_time::thread_cpu_time() - start;
        println!("{name}: {took:?}");
        // For a debug build on a slow machine; a release build needs a small part of it.
        if took > Duration::from_secs(10) {
            writeln!(slow, "\n{name}: {took:?}").unwrap();
        }
    }
    assert!(slow.is_empty(), "{slow}");
}
