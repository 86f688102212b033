//! zero itself. Called from within a session it could change what the session may do, or call a
//! tool that nobody judges as part of it, so only what looks is left alone.

use super::{Access, Study, from, word};
use crate::shell::Arg;

const CHANGES: &str = "changes what zero allows";
const CALLS: &str = "calls a tool of zero's outside of this session";

pub(super) fn study(name: &str, args: &[Arg]) -> Option<Study> {
    // `zero-0.1.2` and `zero-x86_64` are the same.
    let is_version = |rest: &str| {
        rest.starts_with("-x86_64")
            || rest.starts_with("-aarch64")
            || rest
                .strip_prefix("-v")
                .or_else(|| rest.strip_prefix('-'))
                .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    let rest = name.strip_prefix("zero")?;
    (rest.is_empty() || is_version(rest)).then(|| zero(args))
}

fn zero(args: &[Arg]) -> Study {
    let Some(first) = args.first() else { return Study::read_only() };
    let rest = from(args, 1);
    let looks = |study: Study| read(study, rest);
    let asks_help = matches!(args.last().and_then(Arg::as_known), Some("--help" | "-h"));
    let plain = |arg: &Arg| arg.as_known().is_some_and(|text| text != "--");
    if asks_help && args.iter().all(plain) {
        return Study::read_only();
    }
    match (word(Some(first)), word(rest.first())) {
        ("--version" | "-V" | "--help" | "-h" | "help" | "man" | "completions", _) => {
            Study::read_only()
        }
        ("stats" | "doctor", _) => looks(Study::read_only()),
        ("audit", "tail" | "show" | "verify") => looks(Study::read_only()),
        ("config", "get" | "list" | "path" | "schema") => looks(Study::read_only()),
        ("tools", "list" | "show") => looks(Study::read_only()),
        ("memory", "list" | "show" | "search") => looks(Study::read_only()),
        ("policy", "check" | "explain" | "simulate") => looks(Study::read_only()),
        ("policy", "test") => {
            let files = from(rest, 1).iter().filter(|arg| !arg.certain_start().starts_with('-'));
            looks(files.fold(Study::read_only(), |study, file| study.touches(Access::Read, file)))
        }
        ("trust", _) if rest.len() == 1 && word(rest.first()) == "--list" => Study::read_only(),
        ("tools", _) => Study::program().critical(CALLS),
        // `conformance` and what a later version may bring are like any program.
        ("audit" | "policy", _) if rest.first().is_none_or(|arg| arg.as_known().is_some()) => {
            Study::program()
        }
        (known, _) if first.as_known().is_some() && !acts(known) => Study::program(),
        _ => Study::program().critical(CHANGES),
    }
}

/// Whether a word is a command that acts, or the beginning of one.
fn acts(word: &str) -> bool {
    const ACTING: &[&str] =
        &["trust", "config", "tools", "undo", "memory", "mcp", "run", "sessions", "gateway", "acp"];
    ACTING.iter().any(|command| command.starts_with(word))
}

/// Adds the files and folders that options name.
fn read(study: Study, args: &[Arg]) -> Study {
    const FILES: &[&str] = &["--settings", "--workspace", "--batch"];
    let mut study = study;
    for (at, arg) in args.iter().enumerate() {
        let attached = FILES.iter().find_map(|name| super::after(arg, &format!("{name}=")));
        let apart =
            arg.as_known().filter(|name| FILES.contains(name)).and_then(|_| args.get(at + 1));
        if let Some(file) = attached.as_ref().or(apart) {
            study = study.touches(Access::Read, file);
        }
    }
    study
}

#[cfg(test)]
mod tests {
    use super::super::shown::check;

    #[test]
    fn what_looks_is_told_from_what_changes() {
        check("zero", "read-only");
        check("zero policy check Bash ls", "read-only");
        check("zero policy test f", "read-only read(f)");
        check("zero config get mode", "read-only");
        check("zero trust --list", "read-only");
        check("zero trust", "program critical");
        check("zero config set mode auto", "program critical");
        check("zero config $X", "program critical");
        check("zero $X", "program critical");
        check("zero tools call Bash", "program critical");
        check("zero undo", "program critical");
        check("zero memory list", "read-only");
        check("zero memory add x", "program critical");
        check("zero mcp approve x", "program critical");
        check("zero run --yes x", "program critical");
        check("zero sessions delete x", "program critical");
        check("./zero trust", "program critical");
        check("zero-0.1.0 undo", "program critical");
        check("zero strange", "program");
        check("zerofree x", "program");
    }
}
