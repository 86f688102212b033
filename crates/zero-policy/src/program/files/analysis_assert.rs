//! Test helper for the tables: compares the analysis of a command line with a text.

use crate::program::command_analysis::{CommandClass, FileAccess, NestedExecution};
use crate::shell::ShellArg;

/// Analyzes a line and compares the result with a text such as `files: read in, write out`.
///
/// Words are split at spaces and may be in single quotes; a word with `$` is unknown, one with `*`
/// is a pattern. `a/**` is everything beneath `a`; `not known` is a program without an analysis.
#[track_caller]
pub(super) fn check(line: &str, expected: &str) {
    let words = split_words(line);
    let (program, args) = words.split_first().unwrap();
    let shown = super::analyze(program.as_known().unwrap(), args).map(|analysis| {
        let mut shown = Vec::new();
        for touch in &analysis.touches {
            let verb = match touch.access {
                FileAccess::Read => "read",
                FileAccess::Write => "write",
                FileAccess::Delete => "delete",
            };
            let beneath = if touch.recursive { "/**" } else { "" };
            shown.push(format!("{verb} {}{beneath}", touch.path));
        }
        shown.extend(analysis.hosts.iter().map(|host| format!("host {host}")));
        shown.extend(analysis.runs.iter().map(|run| match run {
            NestedExecution::Command { argv, .. } => {
                let argv: Vec<String> = argv.iter().map(ToString::to_string).collect();
                format!("runs {}", argv.join(" "))
            }
            NestedExecution::Script { text, .. } => format!("script {text}"),
            NestedExecution::ScriptFromInput => "script from input".to_owned(),
            NestedExecution::Unknown(_) => "runs something".to_owned(),
        }));
        shown.extend(analysis.critical.map(|why| format!("critical: {why}")));
        shown.extend(analysis.caution.map(|_| "caution".to_owned()));
        let class = match analysis.class {
            CommandClass::ReadOnly => "looks",
            CommandClass::Files => "files",
            CommandClass::Wrapper => "wrapper",
            CommandClass::Opaque => "program",
        };
        if shown.is_empty() { class.to_owned() } else { format!("{class}: {}", shown.join(", ")) }
    });
    assert_eq!(shown.as_deref().unwrap_or("not known"), expected, "{line}");
}

fn split_words(line: &str) -> Vec<ShellArg> {
    let mut words = Vec::new();
    let mut word = String::new();
    let (mut started, mut quoted, mut special) = (false, false, None);
    for character in line.chars().chain([' ']) {
        match character {
            '\'' => {
                quoted = !quoted;
                started = true;
            }
            ' ' if !quoted => {
                if started {
                    let written = std::mem::take(&mut word);
                    words.push(match special.take() {
                        None => ShellArg::Known(written),
                        Some('*') => ShellArg::Pattern(written),
                        Some(_) => {
                            let starts_with = written.split('$').next().unwrap().to_owned();
                            ShellArg::Unknown { starts_with, written }
                        }
                    });
                }
                started = false;
            }
            character => {
                if !quoted && matches!(character, '$' | '*') {
                    special = Some(character);
                }
                word.push(character);
                started = true;
            }
        }
    }
    words
}
