//! Parses the command line: a prompt needs no command, and a mistyped command is not a prompt.

use std::error::Error as _;
use std::ffi::OsString;
use std::num::{IntErrorKind, ParseIntError};

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, FromArgMatches};
use zero_core::shell_quoting::quote_shell_word;
use zero_runtime::name_suggestions::{find_nearest, is_mistyped, suggest_names};

use crate::cli::{Cli, command};

/// Words that other programs have as commands. Who types one of them means a command, and no
/// request to a model.
const USUAL_COMMANDS: &[&str] = &[
    "agent",
    "auth",
    "exec",
    "install",
    "setup",
    "settings",
    "start",
    "status",
    "stop",
    "uninstall",
    "update",
    "upgrade",
    "version",
];
/// Most commands that an error suggests.
const SUGGESTIONS_MAX: usize = 4;

/// Makes `zero "fix the tests"` and `zero -c "go on"` mean `zero run`.
///
/// The first argument decides. It is a prompt if it has a blank, begins with `/` or `@`, is `-` (read
/// stdin), or is one word that is neither a command nor looks like one. An option that only `run` has
/// is one of `run`, and one that only `chat` has is one of `chat`.
fn complete(cli: &Command, mut args: Vec<OsString>) -> Vec<OsString> {
    let first = args.get(1).and_then(|first| first.to_str());
    let intended = first.and_then(|first| match first.strip_prefix('-') {
        Some("" | "-") => Some("run"),
        Some(option)
            if is_own_option(cli, "chat", option) && !is_own_option(cli, "run", option) =>
        {
            Some("chat")
        }
        Some(option) => is_run_option(cli, option).then_some("run"),
        None => is_prompt_text(cli, first, args.len() > 2).then_some("run"),
    });
    if let Some(command) = intended {
        args.insert(1, command.into());
    }
    args
}

/// Whether a command line sends a prompt.
pub(crate) fn is_prompt(args: &[OsString]) -> bool {
    let completed = complete(&command(), args.to_vec());
    completed.get(1).is_some_and(|first| first == "run")
}

/// Whether a command has a long option, without its first hyphen.
fn is_own_option(cli: &Command, command: &str, option: &str) -> bool {
    let Some(long) = option.strip_prefix('-') else { return false };
    let long = long.split('=').next().unwrap_or_default();
    let command = cli.find_subcommand(command);
    command.is_some_and(|it| it.get_arguments().any(|known| known.get_long() == Some(long)))
}

/// Whether an option, without its first hyphen, is meant for `run`.
fn is_run_option(cli: &Command, option: &str) -> bool {
    let Some(run) = cli.find_subcommand("run") else { return false };
    let Some(long) = option.strip_prefix('-') else {
        return option.chars().next().is_some_and(|short| {
            run.get_arguments().any(|known| known.get_short() == Some(short))
        });
    };
    let long = long.split('=').next().unwrap_or_default();
    // Both have them.
    let own = ["help", "version"];
    let is_of_run = run.get_arguments().any(|known| known.get_long() == Some(long));
    // The parser of `run` suggests the nearest option.
    !own.contains(&long) && (is_of_run || suggest_names(long, own, 1).is_empty())
}

/// Whether an argument that is not an option is a prompt. Of several words without quotes, only the
/// first would be one, so that they are an error.
fn is_prompt_text(cli: &Command, text: &str, has_more: bool) -> bool {
    if text.trim().contains(char::is_whitespace) || text.starts_with(['/', '@']) {
        return true;
    }
    let word = text.trim();
    let is_followed = has_more && !word.is_empty();
    !word.is_empty() && !is_followed && suggest_commands(cli, word).is_empty() && !is_usual(word)
}

fn is_usual(word: &str) -> bool {
    USUAL_COMMANDS.contains(&word.to_lowercase().as_str())
}

/// The commands that a word may mean: those with a similar name, and those of groups with this name,
/// such as `sessions list` for `list`.
fn suggest_commands(cli: &Command, word: &str) -> Vec<String> {
    let commands = || cli.get_subcommands().filter(|command| !command.is_hide_set());
    let names = commands().map(Command::get_name);
    let similar = names.filter(|name| is_mistyped(word, name)).map(str::to_owned);
    let nested = commands().flat_map(|group| {
        let inner = group.get_subcommands().filter(|inner| inner.get_name() == word);
        inner.map(|inner| format!("{} {}", group.get_name(), inner.get_name()))
    });
    similar.chain(nested).take(SUGGESTIONS_MAX).collect()
}

/// Parses a command line; its first word is the program's name.
pub(crate) fn parse(args: Vec<OsString>) -> Result<Cli, clap::Error> {
    let mut cli = command();
    let completed = complete(&cli, args.clone());
    let mut parsed = cli.try_get_matches_from_mut(&completed);
    // `zero -c` without a prompt is a chat.
    if completed != args
        && parsed.as_ref().is_err_and(|error| error.kind() == ErrorKind::MissingRequiredArgument)
    {
        let mut chat = args;
        chat.insert(1, "chat".into());
        if let Ok(matches) = cli.try_get_matches_from_mut(&chat) {
            parsed = Ok(matches);
        }
    }
    let args = &completed[..];
    let matches = parsed.map_err(|error| match error.kind() {
        ErrorKind::InvalidSubcommand => with_prompt_advice(error, args),
        ErrorKind::UnknownArgument => with_nearest_option(error, args),
        ErrorKind::ValueValidation => with_expected_number(error),
        _ => error,
    })?;
    Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut cli))
}

/// Makes an error about a number that is none say what is expected: the parser's own says "invalid
/// digit found in string".
fn with_expected_number(error: clap::Error) -> clap::Error {
    let expected = match error.source().and_then(|cause| cause.downcast_ref::<ParseIntError>()) {
        Some(cause) if matches!(cause.kind(), IntErrorKind::PosOverflow) => {
            "the number is too large"
        }
        Some(_) => "expected a whole number, such as 3",
        None => return error,
    };
    let context = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.as_str(),
        _ => "",
    };
    let (option, value) = (context(ContextKind::InvalidArg), context(ContextKind::InvalidValue));
    let message = format!(
        "invalid value '{value}' for '{option}': {expected}\n\nFor more information, try '--help'.\n"
    );
    clap::Error::raw(ErrorKind::ValueValidation, message)
}

/// Adds to an error about an unknown command how to send the words as a prompt.
fn with_prompt_advice(mut error: clap::Error, args: &[OsString]) -> clap::Error {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else {
        return error;
    };
    let words: Vec<&str> = args.iter().skip(1).filter_map(|word| word.to_str()).collect();
    if words.first() != Some(&word.as_str()) {
        return error;
    }
    let mut tips = Vec::new();
    let similar = suggest_commands(&command(), word);
    if !similar.is_empty() {
        let similar: Vec<String> = similar.iter().map(|name| format!("'zero {name}'")).collect();
        tips.push(format!("did you mean {}?", similar.join(", ")));
    }
    if !words.iter().any(|word| word.starts_with('-')) {
        let prompt = words.join(" ");
        tips.push(format!("to send it as a prompt: zero run {}", quote_shell_word(&prompt)));
    }
    let tips = tips.into_iter().map(StyledStr::from).collect();
    error.remove(ContextKind::SuggestedSubcommand);
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
    error
}

/// Makes an error about a mistyped option suggest the nearest one: the parser prefers `--mode` to
/// `--model` for `--modle`.
fn with_nearest_option(mut error: clap::Error, args: &[OsString]) -> clap::Error {
    let mut chosen = command();
    for word in args.iter().skip(1).filter_map(|word| word.to_str()) {
        let Some(inner) = chosen.find_subcommand(word) else { break };
        chosen = inner.clone();
    }
    let Some(ContextValue::String(option)) = error.get(ContextKind::InvalidArg) else {
        return error;
    };
    if chosen.get_name() == "run" && !option.starts_with('-') {
        let tip = StyledStr::from("quote a prompt of several words: zero \"fix the tests\"");
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip]));
        return error;
    }
    let Some(name) = option.strip_prefix("--") else { return error };
    let options = chosen.get_arguments().filter_map(|known| known.get_long());
    let Some(nearest) = find_nearest(name, options) else { return error };
    let nearest = format!("--{nearest}");
    error.insert(ContextKind::SuggestedArg, ContextValue::String(nearest));
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(args: &[&str], expected: &[&str]) {
        let args = ["zero"].iter().chain(args).map(OsString::from).collect();
        let expected: Vec<OsString> = ["zero"].iter().chain(expected).map(OsString::from).collect();
        assert_eq!(complete(&command(), args), expected);
    }

    #[track_caller]
    fn check_prompt(args: &[&str]) {
        let expected: Vec<&str> = ["run"].iter().chain(args).copied().collect();
        check(args, &expected);
    }

    #[track_caller]
    fn check_unchanged(args: &[&str]) {
        check(args, args);
    }

    #[test]
    fn number_error_says_what_is_expected() {
        for (args, expected) in [
            (
                &["sessions", "rewind", "s", "--to", "x"][..],
                "invalid value 'x' for '--to <PROMPT>': expected a whole number, such as 3",
            ),
            (&["audit", "tail", "-n", "x"], "expected a whole number, such as 3"),
            (
                &["ports", "forward", "abc"],
                "invalid value 'abc' for '<PORT>': expected a whole number",
            ),
            (&["prune", "--days", "x"], "expected a whole number, such as 3"),
            (&["prune", "--days", "99999999999999999999"], "the number is too large"),
            (&["prune", "--days", "0"], "0 is not in 1.."),
            (
                &["run", "--budget", "-1", "hi"],
                "`-1` is not an amount of dollars greater than zero, such as `0.50`",
            ),
            (&["run", "--budget", "0", "hi"], "`0` is not an amount of dollars greater than zero"),
            (&["run", "--mode", "x", "hi"], "[possible values: ask, accept-edits, plan, auto]"),
        ] {
            let args = ["zero"].iter().chain(args).map(OsString::from).collect();
            let error = parse(args).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn prompt_needs_no_command() {
        check_prompt(&["fix the tests"]);
        check_prompt(&["fix the tests", "-c"]);
        check_prompt(&["--", "fix"]);
        check_prompt(&["hello"]);
        check_prompt(&["/help"]);
        check_prompt(&["@README.md"]);
        check_prompt(&["-"]);
        check_prompt(&["-c", "go on"]);
        check_prompt(&["--continue"]);
        check_prompt(&["--resume", "go on"]);
        check_prompt(&["--resume=bug-42", "go on"]);
        check_prompt(&["--model", "a", "go on"]);
        check_prompt(&["--session", "bug-42", "go on"]);
        check_prompt(&["--modle", "a", "go on"]);
    }

    #[test]
    fn options_of_chats_begin_a_chat() {
        for args in [&["--fullscreen"][..], &["--plain", "-c"], &["--vim", "fix the tests"]] {
            let args: Vec<OsString> = ["zero"].iter().chain(args).map(OsString::from).collect();
            let cli = parse(args.clone()).unwrap();
            assert!(matches!(cli.command, Some(crate::cli::CliCommand::Chat(_))), "{args:?}");
        }
    }

    #[test]
    fn command_or_a_word_like_one_is_not_a_prompt() {
        for args in [
            &["sessions", "list"][..],
            &["sesions"],
            &["rnu"],
            &["list"],
            &["status"],
            &["help"],
            &["--help"],
            &["-h"],
            &["-V"],
            &["--verson"],
            &[" run "],
            &["fix", "the", "tests"],
            &[""],
            &[],
        ] {
            check_unchanged(args);
        }
    }

    fn error_text(args: &[&str]) -> String {
        let args: Vec<OsString> = ["zero"].iter().chain(args).map(OsString::from).collect();
        parse(args).unwrap_err().to_string()
    }

    #[test]
    fn unknown_word_is_explained() {
        for (args, expected) in [
            (
                &["rnu"][..],
                &["did you mean 'zero run'?", "to send it as a prompt: zero run rnu"][..],
            ),
            (&["list"], &["did you mean 'zero sessions list', 'zero questions list'"]),
            (&["status"], &["to send it as a prompt: zero run status"]),
            (&["fix", "the", "tests"], &["to send it as a prompt: zero run 'fix the tests'"]),
            (&["--modle", "a", "go"], &["'--model'"]),
            (&["run", "--modle", "a", "go"], &["'--model'"]),
            (&["run", "go", "--sesion", "a"], &["'--session'"]),
            (&["tools", "list", "--dialekt", "acp"], &["'--dialect'"]),
            (&["tools", "lst"], &["'list'"]),
            (&["run", "fix", "the", "tests"], &["quote a prompt of several words"]),
        ] {
            let text = error_text(args);
            for part in expected {
                assert!(text.contains(part), "{args:?}: {text}");
            }
        }
        assert!(!error_text(&["tools", "lst"]).contains("as a prompt"));
    }
}
