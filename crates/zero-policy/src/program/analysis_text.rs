//! Analyses as short texts, so that tests can be tables.
//!
//! A command line is split at spaces. `_` inside a word stands for a space, a word with `$` is
//! known only up to it, and one with `*` is a pattern. The analysis is written as `nature read(a)
//! write(b) delete(c/**) host(h) runs[argv] script[text] … critical caution`.

use super::{CommandAnalysis, CommandClass, FileAccess, FileTouch, NestedExecution, analyze};
use crate::shell::ShellArg;

#[track_caller]
pub(super) fn check(line: &str, expected: &str) {
    let argv: Vec<ShellArg> = line.split_whitespace().map(parse_argument).collect();
    assert_eq!(render_analysis(&analyze(&argv)), expected, "{line}");
}

/// Checks that a command line is critical.
#[track_caller]
pub(super) fn check_critical(line: &str) {
    let argv: Vec<ShellArg> = line.split_whitespace().map(parse_argument).collect();
    assert!(analyze(&argv).critical.is_some(), "{line}");
}

pub(super) fn parse_argument(written: &str) -> ShellArg {
    let spaced = written.replace('_', " ");
    match spaced.split_once('$') {
        Some((start, _)) => {
            ShellArg::Unknown { starts_with: start.to_owned(), written: written.to_owned() }
        }
        None if spaced.contains('*') => ShellArg::Pattern(spaced),
        None => ShellArg::Known(spaced),
    }
}

pub(super) fn render_analysis(analysis: &CommandAnalysis) -> String {
    let mut parts = vec![
        match analysis.class {
            CommandClass::ReadOnly => "read-only",
            CommandClass::Files => "files",
            CommandClass::Wrapper => "wrapper",
            CommandClass::Opaque => "program",
        }
        .to_owned(),
    ];
    for FileTouch { access, path, recursive } in &analysis.touches {
        let access = match access {
            FileAccess::Read => "read",
            FileAccess::Write => "write",
            FileAccess::Delete => "delete",
        };
        parts.push(format!("{access}({path}{})", if *recursive { "/**" } else { "" }));
    }
    parts.extend(analysis.hosts.iter().map(|host| format!("host({host})")));
    parts.extend(analysis.folder.iter().map(|folder| format!("in({folder})")));
    parts.extend(analysis.runs.iter().map(render_run));
    parts.extend(analysis.critical.map(|_| "critical".to_owned()));
    parts.extend(analysis.caution.as_ref().map(|_| "caution".to_owned()));
    parts.join(" ")
}

fn render_run(run: &NestedExecution) -> String {
    match run {
        NestedExecution::Command { argv, variables, folder, more_arguments } => {
            let mut words: Vec<String> = Vec::new();
            words.extend(folder.iter().map(|folder| format!("{folder}:")));
            words.extend(variables.iter().map(|(name, value)| format!("{name}={value}")));
            words.extend(argv.iter().map(ShellArg::to_string));
            words.extend(more_arguments.then(|| "...".to_owned()));
            format!("runs[{}]", words.join(" "))
        }
        NestedExecution::Script { text: ShellArg::Known(text), .. } => format!("script[{text}]"),
        NestedExecution::Script { text, .. } => format!("script?[{text}]"),
        NestedExecution::ScriptFromInput => "script-from-input".to_owned(),
        NestedExecution::Unknown(_) => "unknown".to_owned(),
    }
}
