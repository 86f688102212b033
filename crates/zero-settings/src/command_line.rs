//! Splits a command line in settings into the arguments of one program.
//!
//! No shell interprets the line. Syntax that needs one (a pipe, a variable, a redirection) is an
//! error at its location, instead of a program that gets a `|` as an argument.

use zero_policy::shell::ast::{ShellCommandKind, ShellWord, WordPart};
use zero_policy::shell::parse;

/// The program and its arguments.
pub fn split_words(line: &str) -> Result<Vec<String>, String> {
    let parsed = parse(line);
    if let Some(error) = parsed.error {
        return Err(format!("is not a valid command: {error}"));
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
        return Err(
            "has a redirection, but no shell interprets it; remove it, or use a script".to_owned()
        );
    }
    if !simple.assignments.is_empty() {
        return Err(
            "sets a variable, but no shell interprets it; use a script, or `mcpServers` with `env`"
                .to_owned(),
        );
    }
    let words: Result<Vec<String>, String> = simple.words.iter().map(literal_word).collect();
    let words = words?;
    match words.first() {
        None => Err(not_single_command_error(line)),
        Some(program) if program.is_empty() => {
            Err("has no program: its first word is empty".to_owned())
        }
        Some(_) => Ok(words),
    }
}

fn not_single_command_error(line: &str) -> String {
    let what = if line.trim().is_empty() { "is empty" } else { "is not a single command" };
    format!("{what}; write one program with its arguments, or use a script")
}

/// The text of a word without expansions.
fn literal_word(word: &ShellWord) -> Result<String, String> {
    let mut plain = String::new();
    for part in &word.parts {
        match part {
            WordPart::Text { text, quoted } => {
                if plain.is_empty() && !quoted && text.starts_with('~') {
                    return Err(format!(
                        "has `{text}`, but no shell interprets it; write an absolute path"
                    ));
                }
                plain.push_str(text);
            }
            WordPart::Parameter(parameter) => {
                return Err(format!(
                    "has the variable `{}`, but no shell interprets it; write its value, or put the word in single quotes",
                    parameter.name
                ));
            }
            WordPart::Command { .. } | WordPart::Process { .. } | WordPart::Arithmetic(_) => {
                return Err(
                    "has a substitution such as `$(…)`, but no shell interprets it; use a script"
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
            check(line, Err("is not a single command"));
        }
        check("", Err("is empty"));
        check("  ", Err("is empty"));
        check("'' a", Err("has no program"));
        check("a > b", Err("has a redirection"));
        check("A=b c", Err("sets a variable"));
        check("a $HOME", Err("the variable `HOME`"));
        check("a \"${X:-y}\"", Err("the variable `X`"));
        check("a $(b)", Err("has a substitution such as `$(…)`"));
        check("a `b`", Err("has a substitution such as `$(…)`"));
        check("a <(b)", Err("has a substitution such as `$(…)`"));
        check("~/bin/a", Err("write an absolute path"));
        check("a 'b", Err("is not a valid command"));
    }
}
