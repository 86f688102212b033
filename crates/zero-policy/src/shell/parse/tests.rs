//! Tests for the tree of each construct, and for what is not parsed.
//!
//! A tree is written like the script it came from, with a form for each kind of node: quoted text
//! in `'…'`, parameters as `${name words}`, in double quotes `"${…}"`, substitutions as `$( … )`.

mod ast_dump;
mod parser_limits;

use super::parse;

#[track_caller]
fn check(source: &str, expected: &str) {
    let parsed = parse(source);
    assert_eq!(parsed.error, None, "{source}");
    assert_eq!(ast_dump::dump_list(&parsed.list), expected, "{source}");
}

/// Checks the parsed part of a script with an error, and the error.
#[track_caller]
fn check_error(source: &str, expected: &str, error: &str) {
    let parsed = parse(source);
    assert_eq!(ast_dump::dump_list(&parsed.list), expected, "{source}");
    assert_eq!(parsed.error.map(|error| error.message).as_deref(), Some(error), "{source}");
}

/// Checks that parsing the script gives an error.
#[track_caller]
fn check_refused(source: &str) {
    let parsed = parse(source);
    assert!(parsed.error.is_some(), "{source}: {}", ast_dump::dump_list(&parsed.list));
}

#[test]
fn lists_and_pipelines_parse() {
    check("", "");
    check(" \n # nothing\n", "");
    check("a; b", "a ; b");
    check("a && b || c", "a && b || c");
    check("a & b", "a & ; b");
    check("a && b & c", "a & && b & ; c");
    check("a | b |& c", "a | b | c");
    check("a |\n\n b &&\n c", "a | b && c");
    check("a\nb\n\nc\n", "a ; b ; c");
    check("! a", "a");
    check("! ! time -p a | b", "a | b");
    check("time -- a; time; !", "a ;  ; ");
    check("a | time b", "a | time b");
    check("time -f x", "-f x");
    check("a # b; c\nd#e", "a ; d#e");
    check("a;#b\nc&#d", "a ; c &");
    check("a\\\n b\\\nc", "a bc");
    check("a &\\\n& i\\\nf b; then c; fi", "a && if b then c fi");
}

#[test]
fn compound_commands_parse() {
    check("(a; b)", "(a ; b)");
    check("( (a) )", "((a))");
    check("{ a; b; }", "{a ; b}");
    check("{ { a; } }", "{{a}}");
    check("{a,b} }", "{a,b} }");
    check("if a; then b; elif c; then d; else e; fi", "if a then b elif c then d else e fi");
    check("if (a) then (b) fi", "if (a) then (b) fi");
    check("while a; do b; done | c", "while a do b done | c");
    check("until a\ndo b\ndone", "while a do b done");
    check("for x in a $b 'c d'; do e; done", "for x in a ${b} 'c d' do e done");
    check("for x do a; done", "for x do a done");
    check("for x\ndo a; done", "for x do a done");
    check("for x; do a; done", "for x do a done");
    check("for x in; do a; done", "for x in do a done");
    check("for x in do done; { a; }", "for x in do done do a done");
    check("select x in a b; do c; done", "for x in a b do c done");
    check("for ((i=0; i<$n; i++)); do a; done", "for ((i=0; i<\"${n}\"; i++)) do a done");
    check("for ((;;)) { a; }", "for ((;;)) do a done");
    check(
        "case $x in a|b) c;; (d) e;& f) ;;& *) g; esac",
        "case ${x} in a|b) c;; d) e;; f) ;; *) g;; esac",
    );
    check("case x in esac", "case x in esac");
    check("case x in\n\n a)\n b\n ;;\n esac", "case x in a) b;; esac");
    check("case x in (esac|esac) a; esac", "case x in esac|esac) a;; esac");
    check("f() { a; }", "f() {a}");
    check("f ( )\n(a) >x", "f() (a) >x");
    check("function f { a; }; function g() (b)", "f() {a} ; g() (b)");
    check("function f (a)", "f() (a)");
    check("coproc a b", "coproc a b");
    check("coproc NAME { a; }", "coproc {a}");
    check_refused("coproc a fi");
    check("coproc (a)", "coproc (a)");
    check("((x = $(a) > 2)) && b", "((x = \"$(a)\" > 2)) && b");
    check("((a) ; b)", "((a) ; b)");
    check("echo if then }; echo [[ a", "echo if then } ; echo [[ a");
    check("'if' a; \\if b; x=1 if", "'if' a ; 'i'f b ; x=1 if");
    check(">x if", "if >x");
    check_refused("if a; then b");
    check_refused("if; then b; fi");
    check_refused("{ a }");
    check_refused("()");
    check_refused("a )");
    check_refused("a ;; b");
    check_refused("a && ; b");
    check_refused("a & ; b");
    check_refused("; a");
    check_refused("| a");
    check_refused("a | ! b");
    check_refused("then");
    check_refused("f() a");
    check_refused("a b()");
    check_refused("for 'x' in a; do b; done");
    check_refused("for ((a;b)); do c; done");
    check_refused("case x in a) b;; ");
    check_refused("!(a)");
    check_refused("a @(b)");
    check_refused("a@() { b; }");
}

#[test]
fn conditional_commands_parse() {
    check("[[ a ]]", "[[ a ]]");
    check("[[ ! -f $x && ( a == b* || c ) ]] && d", "[[ -f ${x} a == b* c ]] && d");
    check("[[ a =~ ^(b|c d)$ ]]", "[[ a =~ ^(b|c d)$ ]]");
    check("[[ $a == @(b|\"c\")* ]]", "[[ ${a} == @(b|'c')* ]]");
    check("[[ a < b || $(c) > d ]]", "[[ a < b $(c) > d ]]");
    check("[[ -n a\n&&\nb -eq 1 ]] >x", "[[ -n a b -eq 1 ]] >x");
    check("[[ a = <(b) ]]", "[[ a = <(b) ]]");
    check("[[ a =~ (b <(c)) ]]", "[[ a =~ (b <(c)) ]]");
    check("[[ a == @(b|<(c)) ]]", "[[ a == @(b|<(c)) ]]");
    check_refused("[[ a");
    check_refused("[[ a b ]]");
    check_refused("[[ a ]] b");
    check_refused("[[ ( a ]]");
    check_refused("[[ 'a[$(b)]' -eq 1 ]]");
    check_refused("[[ -v 'a[$(b)]' ]]");
    check_refused("[[ a =~ (b$(case c in c) d;; esac)) ]]");
}

#[test]
fn quotes_parse() {
    check("'a b' \"c d\" e\\ f", "'a b' 'c d' e' 'f");
    check("'' \"\" a''b", "'' '' a''b");
    check(r#""\$a \`b\` \" \\ \c""#, r#"'$a `b` " \ \c'"#);
    check("\"a\\\nb\" 'a\\\nb'", "'ab' 'a\\\nb'");
    check("$'a\\x20b' $\"c\"", "'a b' 'c'");
    check("\"$'a'\"", "'$'a''");
    check_refused("a\\");
    check_refused("a <<E\nb\\");
    check("a\r", "a\r");
    check("é\\é 'é'", "é'é' 'é'");
    check("a$ $ \"$\" $/", "a$ $ '$' $/");
    check_refused("'a");
    check_refused("\"a");
    check_refused("$'a");
    check_refused("$'\\xff'");
}

#[test]
fn parameter_expansions_parse() {
    check("$a ${b} \"$c\"", "${a} ${b} \"${c}\"");
    check(
        "$1 $12 ${12} $@ $* $# $? $- $$ $!",
        "${1} ${1}2 ${12} ${@} ${*} ${#} ${?} ${-} ${$} ${!}",
    );
    check("$a.b $_x-", "${a}.b ${_x}-");
    check("$a\\\nb", "${ab}");
    check(
        "${#} ${#a} ${#a[@]} ${#@} ${##x} ${#:-x}",
        "${#} ${a length} ${a length @} ${@ length} ${# change x} ${# default x}",
    );
    check("${!a} ${!a@} ${!a[@]} ${!}", "${a indirect} ${a indirect} ${a indirect @} ${!}");
    check(
        "${a:-b c} ${a-b} ${a:=b} ${a?b} ${a:+b}",
        "${a default b c} ${a default b} ${a assign b} ${a error b} ${a alternative b}",
    );
    check(
        "${a#b} ${a##*/} ${a%.*} ${a%%b}",
        "${a change b} ${a change */} ${a change .*} ${a change b}",
    );
    check(
        "${a/b/c} ${a//b} ${a/#b/} ${a//\\//_}",
        "${a change b c} ${a change b} ${a change #b } ${a change '/' _}",
    );
    check(
        "${a:1:2} ${a: -1} ${a^} ${a^^[b]} ${a,,}",
        "${a substring 1:2} ${a substring  -1} ${a change } ${a change [b]} ${a change }",
    );
    check("${a@Q} ${a[@]} ${a[i]:-b}", "${a indirect} ${a plain @} ${a default i b}");
    check("${a:-$(b)} \"${a:-`b`}\"", "${a default $(b)} \"${a default \"$(b)\"}\"");
    check("${a:-${b:-'}'}}", "${a default ${b default '}'}}");
    check("\"${a:-\"b c\"}\" \"${a:-'b'}\"", "\"${a default 'b c'}\" \"${a default ''b''}\"");
    check("\"${a//$'\\n'/ }\" \"${a#'$b'}\"", "\"${a change '\n'  }\" \"${a change '$b'}\"");
    check("${a:-<(b)}", "${a default <(b)}");
    check_refused("${a");
    check_refused("${a b}");
    check_refused("${}");
    check_refused("${ a; }");
    check_refused("\"${a:-'$(b)'}\"");
    check_refused("\"${a:-$'\\x24(b)'}\"");
    check_refused("${a['$(b)']}");
    check_refused("${a[}]}");
}

#[test]
fn substitutions_parse() {
    check("a $(b; c) \"$(d)\"", "a $(b ; c) \"$(d)\"");
    check("$(case a in b) c;; esac)", "$(case a in b) c;; esac)");
    check("$(a # )\n) $(a ')' \")\")", "$(a) $(a ')' ')')");
    check("$(< a) $()", "$( <a) $()");
    check("\"$(a \"$(b \"c\")\")\"", "\"$(a \"$(b 'c')\")\"");
    check("`a \\`b\\` \\$c \\\\d` \"`e \\\"f\\\"`\"", "$(a $(b) ${c} 'd') \"$(e 'f')\"");
    check("`a 'b\\\nc'`", "$(a 'bc')");
    check("a <(b) >(c) d=<(e)", "a <(b) <(c) d=<(e)");
    check("a<(b)", "a<(b)");
    check("$((1 + $a * ${b:-2})) $[3]", "$((1 + \"${a}\" * \"${b default '2'}\")) $((3))");
    check("$((a) ; (b)) $( (c) )", "$((a) ; (b)) $((c))");
    check("$((a)) $((  (1)  ))", "$((a)) $((  (1)  ))");
    check("\"$(( $(b) ))\"", "$(( \"$(b)\" ))");
    check_refused("$(a");
    check_refused("$((1)");
    check_refused("`a");
    check_refused("$(( '$(b)' ))");
    check_refused("$(( a[\\$(b)] ))");
    check_refused("$((case a in a) b;; esac) ; c )");
    check_refused("$(( ${a:-)} ))");
    check_refused("$(( 1 + $(case a in a) b;; esac) ))");
    check_refused("$(( 1 + `case a in a) b;; esac` ))");
    check_refused("$(( 1 + $(a # \"\n) ))");
}

#[test]
fn assignments_parse() {
    check("a=b c= d", "a=b c= d");
    check("a+=b a[1 + 2]=$(c) d", "a+=b a[1 + 2]=$(c) d");
    check("a=(b 'c d' $(e) [f g]=h\n # i\n j)", "a=(b 'c d' $(e) [f g]=h j)");
    check("a+=() b", "a+=() b");
    check("a b=c", "a b=c");
    check(">x a=b c", "a=b c >x");
    check("a[b c] d", "a[b c] d");
    check("declare -a x=($(a) b) y=c", "declare -a x=($(a) b) y=c");
    check("export A=b", "export A=b");
    check("a-b=c 1=2 'a'=b a\\=b =c", "a-b=c 1=2 'a'=b a'='b =c");
    check("a=~/b:\"$c\"", "a=~/b:\"${c}\"");
    check_refused("a=(b");
    check_refused("a=(b;c)");
    check_refused("a=(b)c");
    check_refused("a[1]=(b)");
    check_refused("echo a=(b)");
    check_refused("declare >x a=(b)");
    check_refused("eval a=(b)");
    check_refused("a['$(b)']=c");
}

#[test]
fn redirections_parse() {
    check("a <b >c >>d >|e <>f", "a <b >c >d >e <>f");
    check("a 2>b 2>&1 >&2 <&3- >&- b", "a b >b &1 &2 &3- &-");
    check("a &>b &>>c >&d >&$e", "a >b >c >d >${e}");
    check("a {fd}>b", "a {fd}>b");
    check("a 2 >b 2\\\n>c 99999999999>d", "a 2 99999999999 >b >c >d");
    check(">&-b", "b &-");
    check("a <<<'b c' <<<$(d)", "a <<<'b c' <<<$(d)");
    check("{ a; } >b 2>&1; if a; then b; fi <c", "{a} >b &1 ; if a then b fi <c");
    check("> a", " >a");
    check("a 2<(b)", "a 2<(b)");
    check("a >$(b) c", "a c >$(b)");
    check_refused("a >");
    check_refused("a > #b");
    check_refused("a > 2>b");
    check_refused("a >\nb");
    check_refused("{a[$(b)]}>c");
}

#[test]
fn here_documents_parse() {
    check("a <<E\nb $c\nE\nd", "a <<{'b '\"${c}\"'\n'} ; d");
    check("a <<'E'\nb $c\\\nE\nd", "a <<{'b $c\\\n'} ; d");
    check("a <<\"E F\"\nb\nE F", "a <<{'b\n'}");
    check("a <<\\E\n$b\nE", "a <<{'$b\n'}");
    check("a <<-E\n\tb\n\t\tE\nd", "a <<{'b\n'} ; d");
    check("a <<E <<F | c\nb\nE\nd\nF\ne", "a <<{'b\n'} <<{'d\n'} | c ; e");
    check("a <<E; if b\nc\nE\nthen d; fi", "a <<{'c\n'} ; if b then d fi");
    check("$(a <<E\n)\nE\n)", "$(a <<{')\n'})");
    check("$(a <<E\nb\nE)", "$(a <<{'b\n'})");
    check("a <<E $(b\nc)\nd\nE", "a $(b ; c) <<{'d\n'}");
    check("a <<E \"b\nc\"\nd\nE", "a 'b\nc' <<{'d\n'}");
    check("a <<E\nb\\\nE\nE", "a <<{'bE\n'}");
    check(
        "a <<E\n\\$b \\`c\\` \\\\ \\d $(e) `f` $((1)) \"'g\nE",
        "a <<{'$b `c` \\ \\d '\"$(e)\"' '\"$(f)\"' '$((1))' \"'g\n'}",
    );
    check("a <<E\nb", "a <<{'b\n'}");
    check("a <<E", "a <<{}");
    check("a <<$b\n$c\n$b", "a <<{\"${c}\"'\n'}");
    check("a <<E\n$(b <<F\nc\nF\n)\nE", "a <<{\"$(b <<{'c\n'})\"'\n'}");
    check("a <<''\nb\n\nc", "a <<{'b\n'} ; c");
    check_refused("$(a <<E)\nb\nE");
    check_refused("$(a <<E\nEb )\nE\n)");
    check_refused("a <<");
    check_refused("a <<$(b)\nc");
}

#[test]
fn commands_before_syntax_error_are_kept() {
    check_error("a\nb )", "a ; b", "unexpected `)`");
    check_error("a; b | 'c", "a ; b | 'c'", "a `'` is not closed");
    check_error(
        "a; if b; then c $(d",
        "a ; if b then c $(d) fi",
        "expected `)` at the end of a substitution",
    );
    check_error("a `b\n)`; c", "a $(b) ; c", "unexpected `)`");
    check_error(
        "a <<E\n$(b\nE\nc",
        "a <<{\"$(b)\"} ; c",
        "expected `)` at the end of a substitution",
    );
    check_error("a\0b", "a", "a NUL byte");
    check_error("a >", "a", "expected a word after a redirection");
}

#[test]
fn spans_are_byte_ranges_of_source() {
    let source = "é 'ü' | $(ö \\\n é) `ä`";
    let parsed = parse(source);
    let commands = &parsed.list.items[0].pipeline.commands;
    assert_eq!(&source[commands[0].span.start..commands[0].span.end], "é 'ü' ");
    assert_eq!(
        ast_dump::word_sources(&parsed.list, source),
        ["é", "'ü'", "$(ö \\\n é)", "ö", "é", "`ä`", "`ä`"]
    );
}
