//! What a line that the user sends means: a prompt, a command of the chat, or one of zero.

use zero_runtime::name_suggestions::find_nearest;

/// What to do with a submitted line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ChatInput {
    /// Send it to the session: a prompt, or a slash command that the session knows.
    Prompt(String),
    /// Do something in the chat itself.
    Command(ChatCommand),
    /// Run commands of zero, one after the other, and show their output.
    Programs(Vec<Vec<String>>),
    /// Run a command of zero that asks, on the screen.
    Dialog(Vec<String>),
    /// It cannot be used; the text says why.
    Mistake(String),
}

/// A command of the chat itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ChatCommand {
    Help,
    Keys,
    Leave,
    /// Begin a new session.
    New,
    /// Copy the last answer.
    Copy,
    /// Show or change the model.
    Model(Option<String>),
    /// Show or change the permission mode.
    Mode(Option<String>),
    /// Continue another session.
    Resume(Option<String>),
    /// Continue in a copy of the session.
    Fork,
    /// Show the whole transcript.
    ShowTranscript,
    /// Begin a session with another agent.
    Agent(Option<String>),
    /// Go back to an earlier prompt.
    Rewind,
    /// Turn rendering off, or on again.
    Raw,
    /// Choose colors.
    Theme(Option<String>),
    /// Show the rules and grants that apply.
    Permissions,
    /// Set up a model.
    LogIn,
}

/// A command with its description, for the completion and `/help`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CommandHelp {
    pub(crate) name: &'static str,
    pub(crate) argument: &'static str,
    pub(crate) about: &'static str,
}

const fn help(name: &'static str, argument: &'static str, about: &'static str) -> CommandHelp {
    CommandHelp { name, argument, about }
}

/// The chat's own commands, in the order of `/help`. The session has more.
pub(crate) const COMMANDS: &[CommandHelp] = &[
    help("help", "", "list the commands"),
    help("keys", "", "list the keys"),
    help("model", "[NAME]", "choose the model"),
    help("mode", "[MODE]", "choose the permission mode: ask, accept-edits, plan, auto"),
    help("agents", "[NAME]", "begin a session with another agent"),
    help("new", "", "begin a new session"),
    help("resume", "[KEY]", "continue another session of this folder"),
    help("fork", "", "continue in a copy of this session"),
    help("transcript", "", "show the whole conversation (Ctrl-T)"),
    help("copy", "", "copy the last answer as Markdown"),
    help("raw", "", "show text as it was written, for the mouse to select, or no longer"),
    help("rewind", "[NUMBER]", "go back to before a prompt: files, conversation or both"),
    help("undo", "[NUMBER]", "take back the last change of files, or the one with this number"),
    help("export", "", "print the conversation as Markdown"),
    help("usage", "", "show tokens and cost"),
    help(
        "permissions",
        "[COMMAND]",
        "show mode, rules and grants, or what they decide about a command",
    ),
    help("grants", "[RULE]", "show what you allowed or rejected in this session, or revoke it"),
    help("mcp", "", "show the MCP servers"),
    help("memory", "", "list the notes that agents read"),
    help("skills", "", "list the skills"),
    help("jobs", "", "list the background jobs"),
    help("theme", "[NAME]", "choose colors: auto, light, dark or none"),
    help("login", "", "set up a model"),
    help("exit", "", "leave; `zero -c` continues the session"),
];

/// Reads a submitted line. `is_session_command` says whether the session knows a command.
pub(crate) fn parse(
    text: &str,
    session_key: &str,
    is_session_command: &dyn Fn(&str) -> bool,
) -> ChatInput {
    let trimmed = text.trim();
    // A space in front makes a prompt of what looks like a command.
    if text.starts_with(' ') && trimmed.starts_with('/') {
        return ChatInput::Prompt(text.to_owned());
    }
    if let Some(command) = trimmed.strip_prefix('!') {
        return match command.trim() {
            "" => ChatInput::Mistake("`!` runs a command, such as `!git status`".to_owned()),
            command => ChatInput::Prompt(format!("/bash {command}")),
        };
    }
    // Several lines are Markdown with a heading.
    let is_line = !trimmed.contains('\n');
    if let Some(note) = trimmed.strip_prefix('#').filter(|note| is_line && !note.starts_with('#')) {
        return match note.trim() {
            "" => ChatInput::Mistake("`#` adds a note for agents, such as `#use tabs`".to_owned()),
            note => program(&["memory", "add", "--", note]),
        };
    }
    let Some(after) = trimmed.strip_prefix('/') else { return ChatInput::Prompt(text.to_owned()) };
    let (word, rest) = after.split_once(char::is_whitespace).unwrap_or((after, ""));
    let rest = rest.trim();
    let argument = (!rest.is_empty()).then(|| rest.to_owned());
    let name = match word.to_ascii_lowercase().as_str() {
        "quit" => "exit".to_owned(),
        "clear" => "new".to_owned(),
        "agent" => "agents".to_owned(),
        name => name.to_owned(),
    };
    let takes_none = COMMANDS.iter().any(|it| it.name == name && it.argument.is_empty());
    if takes_none && argument.is_some() {
        return ChatInput::Mistake(format!(
            "`/{name}` takes no argument. To send this as a prompt, put a space in front of it"
        ));
    }
    let command = match name.as_str() {
        "help" => ChatCommand::Help,
        "keys" => ChatCommand::Keys,
        "exit" => ChatCommand::Leave,
        "new" => ChatCommand::New,
        "copy" => ChatCommand::Copy,
        "model" => ChatCommand::Model(argument),
        "mode" => ChatCommand::Mode(argument),
        "resume" => ChatCommand::Resume(argument),
        "fork" => ChatCommand::Fork,
        "transcript" => ChatCommand::ShowTranscript,
        "agents" => ChatCommand::Agent(argument),
        "raw" => ChatCommand::Raw,
        "theme" => ChatCommand::Theme(argument),
        "login" => ChatCommand::LogIn,
        "rewind" if argument.is_none() => ChatCommand::Rewind,
        // The session knows what can follow.
        "rewind" => return ChatInput::Prompt(text.to_owned()),
        "undo" if argument.as_ref().is_some_and(|number| number.parse::<u64>().is_err()) => {
            return ChatInput::Mistake(
                "`/undo` takes the number of a change, such as `/undo 2`; `zero undo --list` lists them"
                    .to_owned(),
            );
        }
        "undo" => {
            let mut args = vec!["undo".to_owned()];
            args.extend(argument);
            return ChatInput::Dialog(args);
        }
        "export" => return program(&["sessions", "export", session_key]),
        "usage" => return program(&["usage"]),
        "permissions" => match &argument {
            Some(call) => return program(&["policy", "explain", "--", call]),
            None => ChatCommand::Permissions,
        },
        "grants" => {
            return match &argument {
                Some(rule) => program(&["sessions", "grants", session_key, "--revoke", rule]),
                None => program(&["sessions", "grants", session_key]),
            };
        }
        "mcp" => return program(&["mcp", "status"]),
        "memory" => return program(&["memory", "list"]),
        "skills" => return program(&["skills"]),
        "jobs" => return program(&["jobs"]),
        _ if is_session_command(word) => return ChatInput::Prompt(text.to_owned()),
        // A path, such as `/etc/hosts`, is no command.
        _ if word.contains('/') => return ChatInput::Prompt(text.to_owned()),
        _ => {
            let hint = match find_nearest(word, COMMANDS.iter().map(|command| command.name)) {
                Some(nearest) => format!("did you mean `/{nearest}`?"),
                None => "`/help` lists them.".to_owned(),
            };
            return ChatInput::Mistake(format!(
                "there is no command `/{word}`; {hint} To send this as a prompt, put a space in front of it"
            ));
        }
    };
    ChatInput::Command(command)
}

fn program(args: &[&str]) -> ChatInput {
    ChatInput::Programs(vec![own_words(args)])
}

/// Arguments of a command of zero.
pub(crate) fn own_words(args: &[&str]) -> Vec<String> {
    args.iter().map(|&arg| arg.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_prompts_or_commands() {
        #[track_caller]
        fn check(text: &str, expected: ChatInput) {
            let known = |word: &str| word == "compact";
            assert_eq!(parse(text, "agent:main:x", &known), expected, "{text}");
        }
        check("fix it", ChatInput::Prompt("fix it".to_owned()));
        check("/compact keep the plan", ChatInput::Prompt("/compact keep the plan".to_owned()));
        check("/etc/hosts is wrong", ChatInput::Prompt("/etc/hosts is wrong".to_owned()));
        check("!ls -l", ChatInput::Prompt("/bash ls -l".to_owned()));
        check("# use tabs\n", program(&["memory", "add", "--", "use tabs"]));
        check("# Title\ntext", ChatInput::Prompt("# Title\ntext".to_owned()));
        check("## Title", ChatInput::Prompt("## Title".to_owned()));
        check("/MODE plan", ChatInput::Command(ChatCommand::Mode(Some("plan".to_owned()))));
        check("/model", ChatInput::Command(ChatCommand::Model(None)));
        check("/permissions", ChatInput::Command(ChatCommand::Permissions));
        check("/permissions rm x", program(&["policy", "explain", "--", "rm x"]));
        check("/export", program(&["sessions", "export", "agent:main:x"]));
        for (typed, hint) in [("/modle", "did you mean `/model`?"), ("/nope", "`/help` lists them")]
        {
            let parsed = parse(typed, "", &|_| false);
            assert!(matches!(&parsed, ChatInput::Mistake(why) if why.contains(hint)), "{parsed:?}");
        }
        for (typed, why) in [
            ("/usage x", "`/usage` takes no argument"),
            ("/HELP me", "`/help` takes no argument"),
            ("/quit now", "`/exit` takes no argument"),
            ("/undo last", "takes the number of a change"),
        ] {
            let parsed = parse(typed, "", &|_| false);
            assert!(matches!(&parsed, ChatInput::Mistake(it) if it.contains(why)), "{parsed:?}");
        }
        check("/undo 2", ChatInput::Dialog(vec!["undo".to_owned(), "2".to_owned()]));
        check(" /nope", ChatInput::Prompt(" /nope".to_owned()));
        assert!(matches!(parse("!", "", &|_| false), ChatInput::Mistake(_)));
    }
}
