//! Studies as short texts, so that tests are tables.
//!
//! A command line is split at spaces, `_` inside a word stands for a space, and a word with `$` is
//! known only up to it; one with `*` is a pattern. The study reads
//! `nature read(a) write(b) delete(c/**) host(h) runs[argv] script[text] … critical caution`.

use super::{Access, Nature, Run, Study, Touch, study};
use crate::shell::Arg;

#[track_caller]
pub(super) fn check(line: &str, expected: &str) {
    let argv: Vec<Arg> = line.split_whitespace().map(argument).collect();
    assert_eq!(text(&study(&argv)), expected, "{line}");
}

/// Checks that a command line is critical, whatever else it is.
#[track_caller]
pub(super) fn check_critical(line: &str) {
    let argv: Vec<Arg> = line.split_whitespace().map(argument).collect();
    assert!(study(&argv).critical.is_some(), "{line}");
}

pub(super) fn argument(written: &str) -> Arg {
    let spaced = written.replace('_', " ");
    match spaced.split_once('$') {
        Some((start, _)) => {
            Arg::Unknown { starts_with: start.to_owned(), written: written.to_owned() }
        }
        None if spaced.contains('*') => Arg::Pattern(spaced),
        None => Arg::Known(spaced),
    }
}

pub(super) fn text(study: &Study) -> String {
    let mut parts = vec![
        match study.nature {
            Nature::ReadOnly => "read-only",
            Nature::Files => "files",
            Nature::Wrapper => "wrapper",
            Nature::Program => "program",
        }
        .to_owned(),
    ];
    for Touch { access, path, recursive } in &study.touches {
        let access = match access {
            Access::Read => "read",
            Access::Write => "write",
            Access::Delete => "delete",
        };
        parts.push(format!("{access}({path}{})", if *recursive { "/**" } else { "" }));
    }
    parts.extend(study.hosts.iter().map(|host| format!("host({host})")));
    parts.extend(study.folder.iter().map(|folder| format!("in({folder})")));
    parts.extend(study.runs.iter().map(run));
    parts.extend(study.critical.map(|_| "critical".to_owned()));
    parts.extend(study.caution.as_ref().map(|_| "caution".to_owned()));
    parts.join(" ")
}

fn run(run: &Run) -> String {
    match run {
        Run::Command { argv, variables, folder, more_arguments } => {
            let mut words: Vec<String> = Vec::new();
            words.extend(folder.iter().map(|folder| format!("{folder}:")));
            words.extend(variables.iter().map(|(name, value)| format!("{name}={value}")));
            words.extend(argv.iter().map(Arg::to_string));
            words.extend(more_arguments.then(|| "...".to_owned()));
            format!("runs[{}]", words.join(" "))
        }
        Run::Script { text: Arg::Known(text), .. } => format!("script[{text}]"),
        Run::Script { text, .. } => format!("script?[{text}]"),
        Run::ScriptFromInput => "script-from-input".to_owned(),
        Run::Unknown(_) => "unknown".to_owned(),
    }
}
