//! A command line in settings, taken apart into the words of one program.
//!
//! No shell ever sees it: what needs one (a pipe, a variable, a redirection) is an error where it
//! is written, and not a program that is started with a `|` among its arguments.

use zero_policy::shell::ast::{ShellCommandKind, ShellWord, WordPart};
use zero_policy::shell::parse;

/// The program and its arguments.
pub fn split_words(line: &str) -> Result<Vec<String>, String> {
    let parsed = parse(line);
    if let Some(error) = parsed.error {
        return Err(format!("cannot be read as a command: {error}"));
    }
    let [item] = parsed.list.items.as_slice() else { return Err(not_single_command_error(line)) };
    let [command] = item.pipeline.commands.as_slice() else {
        return Err(not_single_command_error(line));
    };
    let ShellCommandKind::Simple(simple) = &command.kind else {
        return Err(not_single_command_error(line));
    };
    if item.background || item.pipeline.negated {
        return Err(not_single_command_error(line));
    }
    if !command.redirects.is_empty() {
        return Err("has a redirection, and no shell looks at it; leave it out, or name a script that does it".to_owned());
    }
    if !simple.assignments.is_empty() {
        return Err("sets a variable, and no shell looks at it; name a script that does it, or use `mcpServers` with `env`".to_owned());
    }
    let words: Result<Vec<String>, String> = simple.words.iter().map(literal_word).collect();
    let words = words?;
    match words.first() {
        None => Err(not_single_command_error(line)),
        Some(program) if program.is_empty() => {
            Err("names no program: its first word is empty".to_owned())
        }
        Some(_) => Ok(words),
    }
}

fn not_single_command_error(line: &str) -> String {
    let what = if line.trim().is_empty() { "is empty" } else { "is not one plain command" };
    format!("{what}; write one program with its arguments, or name a script")
}

/// The text of a word that stands for itself.
fn literal_word(word: &ShellWord) -> Result<String, String> {
    let mut plain = String::new();
    for part in &word.parts {
        match part {
            WordPart::Text { text, quoted } => {
                if plain.is_empty() && !quoted && text.starts_with('~') {
                    return Err(format!(
                        "has `{text}`, and no shell looks at it; write the path from `/` on"
                    ));
                }
                plain.push_str(text);
            }
            WordPart::Parameter(parameter) => {
                return Err(format!(
                    "has the variable `{}`, and no shell looks at it; write its value, or put the word in single quotes",
                    parameter.name
                ));
            }
            WordPart::Command { .. } | WordPart::Process { .. } | WordPart::Arithmetic(_) => {
                return Err(
                    "has `$(…)` or the like, and no shell looks at it; name a script that does it"
                        .to_owned(),
                );
            }
        }
    }
    Ok(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, expected: Result<&[&str], &str>) {
        let words = split_words(line);
        match expected {
            Ok(expected) => assert_eq!(words.unwrap(), expected, "{line}"),
            Err(expected) => {
                let error = words.unwrap_err();
                assert!(error.contains(expected), "{line}: {error}");
            }
        }
    }

    #[test]
    fn words_are_split_like_shell_without_expansion() {
        check("npx -y server", Ok(&["npx", "-y", "server"]));
        check("  a 'b c' \"d e\" f\\ g '' ", Ok(&["a", "b c", "d e", "f g", ""]));
        check("a '$HOME' '~' *.js {x,y} a=b", Ok(&["a", "$HOME", "~", "*.js", "{x,y}", "a=b"]));
        check("/opt/x/run --port=80", Ok(&["/opt/x/run", "--port=80"]));
    }

    #[test]
    fn command_line_needing_shell_is_error() {
        for line in ["a; b", "a | b", "a && b", "a &", "! a", "(a)", "if a; then b; fi", "a\nb"] {
            check(line, Err("is not one plain command"));
        }
        check("", Err("is empty"));
        check("  ", Err("is empty"));
        check("'' a", Err("names no program"));
        check("a > b", Err("has a redirection"));
        check("A=b c", Err("sets a variable"));
        check("a $HOME", Err("the variable `HOME`"));
        check("a \"${X:-y}\"", Err("the variable `X`"));
        check("a $(b)", Err("has `$(…)`"));
        check("a `b`", Err("has `$(…)`"));
        check("a <(b)", Err("has `$(…)`"));
        check("~/bin/a", Err("write the path from `/` on"));
        check("a 'b", Err("cannot be read"));
    }
}
