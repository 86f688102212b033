//! Tests of the commands found in a script: its programs in order, and `?` for an uncertainty.

use std::path::{Path, PathBuf};
use std::time::Duration;

use zero_policy::shell::analyse;
use zero_policy::shell::analysis::{AnalysisNodeKind, ScriptAnalysis, WorkingFolders};

use crate::cpu_time;
use crate::engine_harness::{HOME, ROOT};

fn analyze(script: &str) -> ScriptAnalysis {
    analyse(script, Path::new(ROOT), Some(Path::new(HOME)))
}

fn has_uncertainty(analysis: &ScriptAnalysis) -> bool {
    analysis.nodes.iter().any(|node| matches!(node.kind, AnalysisNodeKind::Uncertainty(_)))
}

/// Checks the folders that the last command may run in.
#[track_caller]
fn check_folders(script: &str, expected: &[&str]) {
    let analysis = analyze(script);
    let folders = analysis.nodes.iter().rev().find_map(|node| match &node.kind {
        AnalysisNodeKind::Command(invocation) => Some(invocation.folders.clone()),
        _ => None,
    });
    let expected = match expected {
        [] => WorkingFolders::Unknown,
        some => WorkingFolders::OneOf(some.iter().map(PathBuf::from).collect()),
    };
    assert_eq!(folders, Some(expected), "{script}");
}

/// Checks that nothing is uncertain and that exactly these commands are found, in this order.
#[track_caller]
fn check(script: &str, expected: &str) {
    let analysis = analyze(script);
    let commands: Vec<&str> = analysis
        .nodes
        .iter()
        .filter(|node| matches!(node.kind, AnalysisNodeKind::Command(_)))
        .map(|node| node.label.as_str())
        .collect();
    assert_eq!(commands.join("; "), expected, "{script}");
    assert!(!has_uncertainty(&analysis), "{script}: {:#?}", analysis.nodes);
}

#[track_caller]
fn check_uncertain(scripts: &[&str]) {
    for script in scripts {
        assert!(has_uncertainty(&analyze(script)), "{script}");
    }
}

#[track_caller]
fn check_certain(scripts: &[&str]) {
    for script in scripts {
        let analysis = analyze(script);
        assert!(!has_uncertainty(&analysis), "{script}: {:#?}", analysis.nodes);
    }
}

#[test]
fn evaluated_arithmetic_text_may_run_command() {
    check_uncertain(&[
        "x='q['; x+='$(rm a)]'; ((x))",
        "n=$(:); x=\"$n\"'q[$(rm a)]'; ((x))",
        "read x <<< 'q[$(rm a)]'; ((x))",
        "read x <<< 'q[$(rm a)]'; : $((x+1))",
        "read x <<< 'q[$(rm a)]'; [[ $x -gt 0 ]]",
        "read x <<< 'q[$(rm a)]'; [[ x -gt 0 ]]",
        "read x <<< 'q[$(rm a)]'; y=x; ((y))",
        "read x <<< 'q[$(rm a)]'; : ${HOME:x}",
        "read x <<< 'q[$(rm a)]'; w[x]=1",
        "read x <<< 'q[$(rm a)]'; : ${w[x]}",
        "read x <<< 'q[$(rm a)]'; : ${w[x]#a}",
        "read x <<< 'q[$(rm a)]'; let y=x",
        "read x <<< 'q[$(rm a)]'; declare -i y=x",
        "read x <<< 'q[$(rm a)]'; for ((i=x;i<0;)); do :; done",
        "for x in 'q[$(rm a)]'; do ((x)); done",
        "set -- 'q[$(rm a)]'; (($1))",
        "f() { echo $(($1)); }; f 'q[$(rm a)]'",
        "[[ -v 'q[$(rm a)]' ]]",
        "[[ 'q[$(rm a)]' -eq 0 ]]",
        "((PATH=5)); ls",
    ]);
}

#[test]
fn declared_array_value_is_evaluated() {
    for script in [
        "declare -a x='($(rm a))'",
        "typeset -a x='(`rm a`)'",
        "readonly -a x='($(rm a))'",
        "export -a x='(\"$(rm a)\")'",
        "f() { local -a x='($(rm a))'; }; f",
        "declare -ga x='($(rm a))'",
        "declare -A x='([k]=$(rm a))'",
        "declare '-a' x+='($(rm a))'",
        "declare 'x[1]=($(rm a))'",
        "a=-a; declare $a 'x=($(rm a))'",
        "declare -a x; declare x='($(rm a))'",
        "x=(1); declare x='($(rm a))'",
        "command declare -a x='($(rm a))'",
        "builtin declare -a x='($(rm a))'",
        "false && declare() { :; }; declare -a x='($(rm a))'",
    ] {
        let analysis = analyze(script);
        let is_command = |kind| matches!(kind, &AnalysisNodeKind::Command(_));
        let found =
            analysis.nodes.iter().any(|node| node.label == "rm a" && is_command(&node.kind));
        assert!(found, "{script}: {:#?}", analysis.nodes);
    }
    check_uncertain(&[
        "read y < f; declare -a x=$y",
        "y=$(cat f); declare -a \"x=$y\"",
        "y=$(cat f); declare -a x; declare x=$y",
        "y=$(cat f); x=(1); declare \"x=$y\"",
        "y=$(cat f); mapfile -t x < g; typeset x=$y",
        "y=$(cat f); read -rax < g; declare x=$y",
        "y=$(cat f); : ${x[1]:=2}; declare x=$y",
        "for i in 1 2; do y=$(cat f); declare x=$y; x=(1); done",
        "y=$(cat f); declare x[1]=$y",
        "y=$(cat f); declare DIRSTACK=$y",
        "y=$(cat f); export $z x=$y",
        "declare -a x='([a[\\$(rm a)]]=1)'",
        "read y < f; declare -a x=([y]=1)",
        "x='$(rm a)'; : ${x@P}",
        "declare -n r='x[$(rm a)]'; : $r",
    ]);
    check_certain(&[
        "declare -a x=(a '$(rm a)')",
        "declare -a x=($(ls)); echo ok",
        "declare x=a; declare y=$x",
        "f() { local n=$1; local m=$(ls); echo $n; }; f a",
        "export A=$(ls)",
        "list=(a b); f() { local n=$1; echo $n; }; f a",
    ]);
}

#[test]
fn counting_loop_is_certain() {
    check_certain(&[
        "i=0; while [ $i -lt 5 ]; do echo $i; i=$((i+1)); done",
        "i=0; while ((i < 5)); do echo $i; ((i++)); done",
        "for ((i=0; i<5; i++)); do echo $((i * 2)); done",
        "for i in 1 2 3; do echo $((i * 2)); done",
        "for i in {1..20}; do echo $((i * 2)); done",
        "for i in $(seq 1 5); do echo $((i * 2)); done",
        "n=$(ls | wc -l); if ((n > 3)); then echo many; fi",
        "[[ $(wc -l < f) -gt 3 ]] && echo long",
        "n=$(date +%s); echo $((n / 60))",
        "f() { local n=0; ((n++)); echo $n; }; f",
        "let x=1; echo $x",
        "x=abc; echo ${x:1:2} ${x#a} ${#x}",
        "[[ $a == b* ]] && echo yes",
    ]);
}

#[test]
fn assigned_value_may_differ_from_held_value() {
    check_uncertain(&[
        "readonly q=rm\nq=ls\n$q a",
        "f() { readonly q=rm; }; f; q=ls; $q a",
        "for i in 1 2; do q=ls; $q a; declare -r q=rm; done",
        "declare -l q; q=RM; $q a",
        "declare -u q; q=rm; $q a",
        "_=ls; : rm; $_ a",
        "OPTARG=ls; set -- -a rm; getopts a: o; $OPTARG b",
        "x=ls; x=rm eval '$x a'",
        "x=ls; f() { x=rm; }; for i in 1 2; do $x a; f; done",
        "x=; for i in 1 2; do $x rm a; : ${x:=sudo}; done",
        "x=ls; if true; then git() { x=rm; }; fi; git status; $x a",
        "shopt -s lastpipe; x=ls; echo rm | read x; $x a",
        "trap 'x=rm' DEBUG; x=ls; $x a",
        "select x in ls; do $x rm a; break; done",
        "coproc PATH { cat; }; ls",
        "{PATH}>f; ls",
        "PWD=/etc; f() { cat $PWD/x; }",
        "unset HOME; ls ~",
    ]);
    check("x=ls; exec {x}>o; touch b", "exec; touch b");
}

#[test]
fn function_call_is_not_the_program() {
    check("f() { rm a; }; f", "rm a; f");
    check("npm() { :; }; command npm a", ":; command npm a; npm a");
    check("npm() { :; }; bash -c 'npm a'", ":; bash -c npm a; npm a");
    check_uncertain(&["npm() { :; }; unset -f npm; npm a", "npm() { :; }; unset npm; npm a"]);
    check_certain(&["cleanup() { rm a; }; trap cleanup EXIT; ls"]);
}

#[test]
fn words_expand_like_the_shell() {
    check("touch {3..1}", "touch 3 2 1");
    check("[ a ]; [ -f [a] ]", "[ a ]; [ -f [a] ]");
    check("touch {c..a}", "touch c b a");
    check("touch x=~ x=~/a:~/b -x=~/y", "touch x=/home/me x=/home/me/a:/home/me/b -x=~/y");
    check("x=a:~; touch $x", "touch a:/home/me");
    check("eval -- rm a", "eval -- rm a; rm a");
    // More words may follow one that is only known in part, but not within quotes.
    check("touch a$x", "touch a$x ");
    check("touch \"a$x\"", "touch \"a$x\"");
    check("touch a$((1))", "touch a$((1))");
}

#[test]
fn working_folder_is_tracked() {
    check_folders("cd a && rm b", &["/w/a"]);
    check_folders("cd a || rm b", &["/w"]);
    check_folders("cd a; rm b", &["/w/a", "/w"]);
    check_folders("cd a && rm b &", &["/w/a"]);
    check_folders("cd a && ls & rm b", &["/w"]);
    check_folders("! cd a && rm b", &["/w/a", "/w"]);
    check_folders("if ! cd a; then rm b; fi", &["/w/a", "/w"]);
    check_folders("cd -P a && cd .. && rm b", &[]);
    check_folders("f() { cd a; f; rm b; }", &[]);
    check_folders("cd -LP a && rm b", &[]);
    check_folders("cd - && rm b", &[]);
    check_folders("pushd && rm b", &[]);
    check_folders("pushd -n a && rm b", &[]);
    check_folders("trap 'rm b' EXIT; cd a", &[]);
    check_folders("trap 'rm b' EXIT; ls", &["/w"]);
    check_folders("until cd a; do rm b; done", &[]);
    check_folders("(cd a; ls); rm b", &["/w"]);
}

#[test]
fn shell_options_make_rest_uncertain() {
    check_uncertain(&[
        "shopt -s extglob\nls",
        "shopt -s expand_aliases",
        "shopt -s dotglob; ls *",
        "set -o posix",
        "set -k; ls PATH=x",
        "set -P; cd a",
        "set +B; ls {a,b}",
        "set $x; ls",
    ]);
    check_certain(&[
        "set -euo pipefail; ls",
        "set -x; ls",
        "shopt -s failglob; ls *.x",
        "set -- a b",
    ]);
}

#[test]
fn other_shell_dialect_is_uncertain() {
    check_uncertain(&[
        "sh -c '((rm a))'",
        "sh -c '(\\\n(rm a))'",
        "sh -c 'x=ls; declare x=rm; $x a'",
        "sh -c 'cd a &> o; rm b'",
        "sh -c 'rm {a,b}'",
        "sh -c '[[ a < b ]]'",
        "sh <<'E'\n((rm a))\nE\n",
        "watch '((rm a))'",
        "sh -c 'time { x=a; touch $x; }'",
        "sh -c 'touch x=~/a'",
        "sh -c 'x=l; x+=s; $x a'",
    ]);
    check_certain(&[
        "sh -c 'ls $((1 + 2)) && echo \"{a,b}\"'",
        "bash -c 'ls {a,b} && [[ a < b ]]'",
    ]);
}

#[test]
fn long_line_is_walked_in_bounded_time() {
    let many = |piece: &str, count: usize| piece.repeat(count);
    let assignments: String = (0..2000).map(|at| format!("v{at}=$v{}x; ", at / 2)).collect();
    let lines = [
        many("git status; ", 10_000),
        many("cd a && ls b || echo c; ", 5_000),
        many("echo a | ", 10_000) + "cat",
        many("echo a | bash | ", 2_000) + "cat",
        many("x=a$x; ", 2_000),
        many("x=a ls; ", 2_000),
        "x=abc; ".to_owned() + &many("x=$x$x; ", 60) + &many("ls $x$x; ", 2_000),
        assignments,
        many("( ", 40) + "ls" + &many(" )", 40),
        many("f() { ls; }; f; ", 3_000),
        many("for i in 1 2 3 4 5 6 7 8; do ", 12) + "ls; " + &many("done; ", 12),
        many("if ls; then x=a; else x=b; fi; ", 2_000),
    ];
    for line in lines {
        let start = cpu_time::thread_cpu_time();
        let analysis = analyze(&line);
        let took = cpu_time::thread_cpu_time() - start;
        let shown: String = line.chars().take(40).collect();
        // For a debug build on a slow machine; it usually takes a fraction of it.
        assert!(took < Duration::from_secs(20), "{shown}: {took:?}");
        println!("{shown}: {took:?}, {} nodes", analysis.nodes.len());
    }
}

#[test]
fn nested_scripts_do_not_multiply_without_bound() {
    let mut script = "ls\n".to_owned();
    for level in 0..6 {
        let shells = " | bash".repeat(60);
        script = format!("cat <<'E{level}'{shells}\n{script}E{level}\n");
    }
    let start = cpu_time::thread_cpu_time();
    let analysis = analyze(&script);
    assert!(has_uncertainty(&analysis));
    let took = cpu_time::thread_cpu_time() - start;
    assert!(took < Duration::from_secs(20), "{took:?}");
}
