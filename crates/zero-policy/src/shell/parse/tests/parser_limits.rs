//! Hostile scripts: deep, long, unfinished. Each is parsed on a small stack and within a time
//! limit.

use std::thread;
use std::time::Duration;

use crate::cpu_time;
use crate::shell::parse;

/// The default stack size of a thread; the parser may run on one.
const STACK_BYTES: usize = 2 << 20;

/// Enough for a slow machine and a debug build; quadratic behaviour takes minutes.
const TIME_MAX: Duration = Duration::from_secs(20);

/// Parses `source` and returns the error message, if any.
#[track_caller]
fn parse_in_thread(source: String) -> Option<String> {
    let shown: String = source.chars().take(40).collect();
    let thread = thread::Builder::new().stack_size(STACK_BYTES);
    let parsed = thread.spawn(move || (parse(&source).error, cpu_time::thread_cpu_time()));
    let (parsed, took) = parsed.unwrap().join().unwrap();
    assert!(took < TIME_MAX, "{shown}: {took:?}");
    parsed.map(|error| error.message)
}

#[test]
fn deep_nesting_is_an_error() {
    let openings = [
        "(",
        "( ",
        "$(",
        "\"$(",
        "${a:-",
        "\"${a:-",
        "{ ",
        "((",
        "( (",
        "$((",
        "$(( ",
        "[[ (",
        "if ",
        "while ",
        "a=( ",
        "a=($(",
        "`",
        "<(",
        "case a in a) ",
        "f() { ",
        "function f { ",
        "coproc { ",
        "$[",
        "a[",
        "${a[",
        "a[$((",
        "if a; then ",
        "for a in b; do ",
        "! ",
        "time ",
        "coproc ",
        "((a) ; ",
        "$((a) ; ",
        "\"",
        "'",
        "${#a[",
        "${a/",
        "${!a[",
        "for ((",
        "[[ ! ",
        "[[ a =~ (",
        "[[ a == @(",
        "a <<E $(",
        "a <<E\n$(",
        "\\",
        "$",
        "a=",
        "{a}",
        "{a[",
        "case ",
        "$'",
        "declare a=(",
        "a && ",
        "a | ",
        "a |& ",
        "\\\n",
        "<<a ",
        "<<a\n",
        "<<- a",
        "<<",
        "< <(",
        "((1)+",
        "$((1)+",
    ];
    for opening in openings {
        parse_in_thread(opening.repeat(100_000));
        let closing = opening.repeat(50_000) + &")".repeat(50_000);
        parse_in_thread(closing);
    }
    for opening in ["( ", "$(", "${a:-", "{ ", "if ", "a=($(", "a[$(("] {
        let error = parse_in_thread(opening.repeat(100_000));
        assert_eq!(error.as_deref(), Some("nested too deeply"), "{opening}");
    }
    let error = parse_in_thread(format!("[[ {}", "( ".repeat(100_000)));
    assert_eq!(error.as_deref(), Some("nested too deeply"));
}

#[test]
fn ordinary_nesting_is_accepted() {
    let nest = |open: &str, close: &str| format!("{}a{}", open.repeat(40), close.repeat(40));
    assert_eq!(parse_in_thread(nest("( ", ")")), None);
    assert_eq!(parse_in_thread(nest("$(", ")")), None);
    assert_eq!(parse_in_thread(nest("\"${a:-", "}\"")), None);
    assert_eq!(parse_in_thread(nest("if a; then ", "; fi")), None);
}

#[test]
fn ambiguous_parentheses_do_not_multiply_work() {
    for (open, close) in
        [("((", ") )"), ("$((", ") )"), ("$(( $(a <<E\n", "\nE\n) ) )"), ("$((`", "`) )")]
    {
        let nested = format!("{}a{}", open.repeat(60), close.repeat(60));
        parse_in_thread(nested);
        parse_in_thread(format!("{open}a{close};").repeat(20_000));
    }
}

#[test]
fn nested_backticks_parse_within_limits() {
    let mut script = "a".to_owned();
    for _ in 0..16 {
        let escaped = script.replace('\\', "\\\\").replace('`', "\\`");
        script = format!("`{escaped}`");
    }
    assert_eq!(parse_in_thread(script), None);
    parse_in_thread("\\`".repeat(100_000));
    parse_in_thread("`\\".repeat(100_000));
    parse_in_thread("\"`".repeat(100_000));
}

#[test]
fn long_scripts_parse_in_time() {
    assert_eq!(parse_in_thread("a".repeat(1 << 20)), None);
    assert_eq!(parse_in_thread("a ".repeat(1 << 19)), None);
    assert_eq!(parse_in_thread("é".repeat(1 << 19)), None);
    assert_eq!(parse_in_thread(format!("'{}'", "a".repeat(1 << 20))), None);
    assert_eq!(parse_in_thread("echo \"$a\" | b > c\n".repeat(10_000)), None);
    assert_eq!(parse_in_thread("a <<E\n$b\nE\n".repeat(10_000)), None);
    assert_eq!(
        parse_in_thread(format!("a {}\n{}", "<<E ".repeat(10_000), "b\nE\n".repeat(10_000))),
        None
    );
    assert_eq!(parse_in_thread("a=(b) ".repeat(20_000)), None);
    assert_eq!(parse_in_thread("$((1))".repeat(50_000)), None);
    assert_eq!(parse_in_thread("\\\n".repeat(200_000)), None);
}

#[test]
fn error_position_is_a_char_boundary() {
    for source in ["<<${9ÀÀ(?Î<Ë&", "${À", "$((À", "a=(À", "\"À", "${xÀ}", "<<À(", "[[ À ("]
    {
        let parsed = parse(source);
        let at = parsed.error.map_or(0, |error| error.at);
        assert!(source.is_char_boundary(at), "{source}: {at}");
    }
}
