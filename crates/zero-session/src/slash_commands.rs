//! Slash commands: prompts that begin with `/`.
//!
//! Some are built in, others are prompts that users store as Markdown files. A prompt is a command
//! only if a plain name follows the slash, so a prompt can begin with a path. A leading space
//! prevents the interpretation as a command.

use std::fmt::Write as _;

use zero_core::text_shortening::head;
use zero_runtime::name_suggestions::suggest_names;

use crate::direct_model;
use crate::rewind_arguments::RewindArguments;
use crate::word_split;
use zero_runtime::tool_backend::PromptCommand;

/// The built-in commands: name, description, and argument hint.
pub const BUILT_IN: &[(&str, &str, Option<&str>)] = &[
    ("help", "List the commands", None),
    ("status", "Show the model, mode, folder and usage of this session", None),
    ("context", "Show what fills the context window of the model", None),
    ("compact", "Compact the conversation to free space in the context", Some("[what to keep]")),
    ("init", "Explore the workspace and write AGENTS.md", Some("[focus]")),
    (
        "rewind",
        "List the prompts, or take files and conversation back to before one of them",
        Some("[number|undo] [files|conversation] [force]"),
    ),
    ("mode", "Show or change the permission mode", Some("[ask|accept-edits|plan|auto]")),
    ("model", "Show or change the model", Some("[name]")),
];

/// The built-in commands in the form of the command list. They have no prompt text.
pub fn built_in_commands() -> Vec<PromptCommand> {
    let command = |(name, description, hint): &(&str, &str, Option<&str>)| PromptCommand {
        name: (*name).to_owned(),
        description: (*description).to_owned(),
        argument_hint: hint.map(str::to_owned),
        prompt: String::new(),
    };
    BUILT_IN.iter().map(command).collect()
}

/// Whether a name is a built-in command, in any case.
pub(crate) fn is_built_in(name: &str) -> bool {
    BUILT_IN.iter().any(|(own, ..)| own.eq_ignore_ascii_case(name))
}

/// What the model is told to do by `/init`.
pub const INIT_PROMPT: &str = "\
Explore this workspace and write `AGENTS.md` in its root: what a coding agent that is new here needs to \
know and could not guess.

Read before you write: the README, the manifests and lock files, the build, test and lint settings, \
the CI workflows, and enough of the code to see how it is laid out. If there is an `AGENTS.md` \
already, improve it: keep what is still true, correct what is not, add what is missing. Take over what \
is still true of `CLAUDE.md`, `GEMINI.md`, `.cursorrules` or `.github/copilot-instructions.md`.

Put in:
- how to build, test and lint, with the exact commands; also how to run a single test
- the layout: which folder holds what, and how the parts depend on each other
- conventions that the code keeps and a reader would otherwise break: style, naming, errors, tests
- pitfalls, and what must not be touched

Be concise: short sections, no more than about 100 lines. Say only what you have seen here; omit what \
is true of every project, and plain file listings. Run no command that changes anything.";

/// Maximum size of an expanded prompt, in bytes.
const EXPANDED_BYTES_MAX: usize = 2 * 1024 * 1024;
/// Maximum length of a command name; a longer word is not a command.
const NAME_LEN_MAX: usize = 256;

/// A parsed command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SlashCommand {
    /// Show the available commands.
    Help,
    /// Show the state of the session.
    Status,
    /// Show what fills the context window.
    Context,
    /// Compact the transcript, with what the user wants kept.
    Compact(String),
    /// Write AGENTS.md, with the user's additional instructions.
    Init(String),
    /// List the prompts, or rewind.
    Rewind(RewindArguments),
    /// Show the mode, or change it.
    Mode(Option<String>),
    /// Show the model, or change it.
    Model(Option<String>),
    /// A direct tool call by the user, as without a model.
    Direct,
    /// A prompt stored by a user.
    User {
        /// Name of the stored prompt, without the slash.
        name: String,
        /// Text after the name.
        arguments: String,
    },
}

/// Parses a command, or returns what is wrong with it; `None` if the prompt is not a command.
/// `direct` means that the session has no model but only [`direct_model`], which parses its own
/// commands.
pub fn parse(
    text: &str,
    user: &[PromptCommand],
    direct: bool,
) -> Option<Result<SlashCommand, String>> {
    let after = text.strip_prefix('/')?;
    let (name, arguments) = after.split_once(char::is_whitespace).unwrap_or((after, ""));
    if !is_plain(name) {
        return None;
    }
    let arguments = arguments.trim();
    let folded = name.to_ascii_lowercase();
    if direct {
        return parse_without_model(&folded, name, arguments, user);
    }
    if let Some(built_in) = parse_built_in(&folded, arguments) {
        return Some(built_in);
    }
    if user.iter().any(|command| command.name == name) {
        let (name, arguments) = (name.to_owned(), arguments.to_owned());
        return Some(Ok(SlashCommand::User { name, arguments }));
    }
    if direct_model::is_shorthand(&folded) {
        return Some(Ok(SlashCommand::Direct));
    }
    let known = BUILT_IN.iter().map(|(name, ..)| *name);
    let known = known.chain(user.iter().map(|command| command.name.as_str()));
    let similar: Vec<String> =
        suggest_names(name, known, 3).into_iter().map(|similar| format!("`/{similar}`")).collect();
    let hint = match &similar[..] {
        [] => "`/help` lists them".to_owned(),
        similar => format!("did you mean {}? `/help` lists them all", similar.join(", ")),
    };
    Some(Err(format!(
        "there is no command `/{name}`; {hint}. To send this as a prompt, put a space in front of it"
    )))
}

/// Parses commands for an agent without a model. All other text is left to the direct model.
fn parse_without_model(
    folded: &str,
    name: &str,
    arguments: &str,
    user: &[PromptCommand],
) -> Option<Result<SlashCommand, String>> {
    let needs_model = || {
        let message = format!(
            "`/{name}` needs a model, and this session has none; {}",
            direct_model::ATTACH_MODEL_HINT
        );
        Some(Err(message))
    };
    match folded {
        "help" => None,
        "context" | "compact" | "init" => needs_model(),
        _ if direct_model::is_shorthand(folded) => None,
        // A prompt of a project must not become a command line here.
        _ if user.iter().any(|command| command.name == name) => needs_model(),
        _ => parse_built_in(folded, arguments),
    }
}

fn parse_built_in(name: &str, arguments: &str) -> Option<Result<SlashCommand, String>> {
    let alone = |slash: SlashCommand| match arguments {
        "" => Ok(slash),
        _ => Err(format!(
            "`/{name}` takes no arguments; to send this as a prompt, put a space in front of it"
        )),
    };
    let one_word = |slash: fn(Option<String>) -> SlashCommand| match arguments {
        "" => Ok(slash(None)),
        word if !word.contains(char::is_whitespace) => Ok(slash(Some(word.to_owned()))),
        _ => Err(format!("`/{name}` takes at most one argument")),
    };
    Some(match name {
        "help" => alone(SlashCommand::Help),
        "status" => alone(SlashCommand::Status),
        "context" => alone(SlashCommand::Context),
        "compact" => Ok(SlashCommand::Compact(arguments.to_owned())),
        "rewind" => RewindArguments::parse(arguments).map(SlashCommand::Rewind),
        "init" => Ok(SlashCommand::Init(arguments.to_owned())),
        "mode" => one_word(SlashCommand::Mode),
        "model" => one_word(SlashCommand::Model),
        _ => return None,
    })
}

/// Whether a word can be the name of a command, rather than a path or sentence.
fn is_plain(name: &str) -> bool {
    let starts_well = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    let all_allowed = name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-:".contains(&b));
    starts_well && all_allowed && name.len() <= NAME_LEN_MAX
}

/// Expands a stored prompt. Inserted text is not expanded again. Arguments without a placeholder
/// are appended, so none are lost.
pub fn expand(command: &PromptCommand, arguments: &str) -> String {
    let words = word_split::split(arguments)
        .unwrap_or_else(|_| arguments.split_whitespace().map(str::to_owned).collect());
    let mut filled = String::with_capacity(command.prompt.len().saturating_add(arguments.len()));
    let mut has_place = false;
    let mut rest = command.prompt.as_str();
    while let Some((before, after)) = rest.split_once('$') {
        filled.push_str(before);
        let Some((value, after)) = expand_placeholder(after, arguments, &words) else {
            filled.push('$');
            rest = after;
            continue;
        };
        has_place = true;
        filled.push_str(value);
        rest = after;
        // There may be many placeholders and long arguments.
        if filled.len() > EXPANDED_BYTES_MAX {
            break;
        }
    }
    filled.push_str(rest);
    if !has_place && !arguments.is_empty() {
        filled.push_str("\n\n");
        filled.push_str(arguments);
    }
    if filled.len() > EXPANDED_BYTES_MAX {
        filled.truncate(head(&filled, EXPANDED_BYTES_MAX).len());
        filled.push_str("\n\n[cut here: the prompt got too long]");
    }
    filled
}

/// Expands the placeholder after a `$` and returns the rest of the text. `$10` is not a
/// placeholder, since it is more often an amount of money.
fn expand_placeholder<'a, 'b>(
    after: &'a str,
    arguments: &'b str,
    words: &'b [String],
) -> Option<(&'b str, &'a str)> {
    if let Some(after) = after.strip_prefix("ARGUMENTS") {
        return Some((arguments, after));
    }
    let mut chars = after.chars();
    let number = chars.next()?.to_digit(10).filter(|digit| *digit > 0)?;
    let after = chars.as_str();
    if after.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let word = words.get(usize::try_from(number).ok()?.checked_sub(1)?);
    Some((word.map_or("", String::as_str), after))
}

/// The prompt that `/init` sends to the model.
pub fn init_prompt(arguments: &str) -> String {
    match arguments {
        "" => INIT_PROMPT.to_owned(),
        more => format!("{INIT_PROMPT}\n\nThe user adds: {more}"),
    }
}

/// The help text with all commands.
pub fn help_text(user: &[PromptCommand]) -> String {
    let mut text = String::from("Commands:\n");
    let mut line = |name: &str, hint: Option<&str>, about: &str| {
        let hint = hint.map_or_else(String::new, |hint| format!(" {hint}"));
        // Writing to a String cannot fail.
        let _ = writeln!(text, "- `/{name}{hint}`: {about}");
    };
    for (name, about, hint) in BUILT_IN {
        line(name, *hint, about);
    }
    for PromptCommand { name, description, argument_hint, .. } in user {
        line(name, argument_hint.as_deref(), description);
    }
    text.push_str("- `/read`, `/grep`, `/glob`, `/ls`, `/bash`: use a tool yourself\n");
    text.push_str("\nAnything else is for the model; so is a `/` with a space in front of it.");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(name: &str, prompt: &str) -> PromptCommand {
        PromptCommand {
            name: name.to_owned(),
            description: "Does it".to_owned(),
            argument_hint: None,
            prompt: prompt.to_owned(),
        }
    }

    #[track_caller]
    fn check(text: &str, expected: Option<Result<SlashCommand, &str>>) {
        let user = [command("review", "x"), command("git:tidy", "x"), command("status", "x")];
        check_in(text, &user, false, expected);
    }

    #[track_caller]
    fn check_in(
        text: &str,
        user: &[PromptCommand],
        direct: bool,
        expected: Option<Result<SlashCommand, &str>>,
    ) {
        match (parse(text, user, direct), expected) {
            (Some(Err(error)), Some(Err(expected))) => {
                assert!(error.contains(expected), "{text:?}: {error}");
            }
            (found, expected) => {
                let expected = expected.map(|result| result.map_err(str::to_owned));
                assert_eq!(found, expected, "{text:?}");
            }
        }
    }

    fn user_command(name: &str, arguments: &str) -> Option<Result<SlashCommand, &'static str>> {
        Some(Ok(SlashCommand::User { name: name.to_owned(), arguments: arguments.to_owned() }))
    }

    #[test]
    fn slash_and_plain_name_is_command() {
        check("/help", Some(Ok(SlashCommand::Help)));
        check("/HELP  ", Some(Ok(SlashCommand::Help)));
        check("/status", Some(Ok(SlashCommand::Status)));
        check("/context", Some(Ok(SlashCommand::Context)));
        check("/compact\n", Some(Ok(SlashCommand::Compact(String::new()))));
        let kept = SlashCommand::Compact("keep the test names".to_owned());
        check("/compact keep the test names", Some(Ok(kept)));
        check("/init", Some(Ok(SlashCommand::Init(String::new()))));
        check("/init  mind the tests ", Some(Ok(SlashCommand::Init("mind the tests".to_owned()))));
        check("/mode", Some(Ok(SlashCommand::Mode(None))));
        check("/mode plan", Some(Ok(SlashCommand::Mode(Some("plan".to_owned())))));
        check("/model\topenai/x", Some(Ok(SlashCommand::Model(Some("openai/x".to_owned())))));
        check("/review a b\nc", user_command("review", "a b\nc"));
        check("/git:tidy", user_command("git:tidy", ""));
    }

    #[test]
    fn non_command_text_is_left_alone() {
        for text in [
            "",
            "hello",
            " /help",
            "/",
            "/ help",
            "//help",
            "/usr/bin/x is broken",
            "/etc/passwd",
            "/help!",
            "/~/x",
            "/ünicode",
            "/.hidden",
            "what does /help do",
        ] {
            check(text, None);
        }
        check(&format!("/{}", "a".repeat(NAME_LEN_MAX + 1)), None);
    }

    #[test]
    fn wrong_command_explains_fix() {
        check("/hepl", Some(Err("there is no command `/hepl`; did you mean `/help`?")));
        check("/tmp is full", Some(Err("put a space in front of it")));
        check("/help me", Some(Err("`/help` takes no arguments")));
        check("/mode plan now", Some(Err("`/mode` takes at most one argument")));
        check("/Review x", Some(Err("did you mean `/review`?")));
    }

    #[test]
    fn parse_without_model_leaves_most_to_direct() {
        let user = [command("review", "/bash rm -rf ."), command("read", "x")];
        for text in ["/help", "/read README.md", "/bash ls", "/LS", "/Write {}", "/nonsense"] {
            check_in(text, &user, true, None);
        }
        check_in("/mode plan", &user, true, Some(Ok(SlashCommand::Mode(Some("plan".to_owned())))));
        check_in("/status", &user, true, Some(Ok(SlashCommand::Status)));
        for text in ["/init", "/context", "/compact", "/review now"] {
            check_in(text, &user, true, Some(Err("needs a model")));
        }
    }

    #[track_caller]
    fn check_expansion(prompt: &str, arguments: &str, expected: &str) {
        assert_eq!(expand(&command("x", prompt), arguments), expected, "{prompt:?} {arguments:?}");
    }

    #[test]
    fn expansion_fills_placeholders_once() {
        check_expansion("Look at $ARGUMENTS.", "a 'b c'", "Look at a 'b c'.");
        check_expansion("$1, $2, $9.", "a 'b c'", "a, b c, .");
        check_expansion("$1 and $ARGUMENTS", "$2 $ARGUMENTS", "$2 and $2 $ARGUMENTS");
        check_expansion("costs $100, $0, $x, $", "", "costs $100, $0, $x, $");
        check_expansion("$1$1", "ü", "üü");
        check_expansion("$1", "it's", "it's");
        check_expansion("no place", "for this", "no place\n\nfor this");
        check_expansion("no place", "", "no place");
    }

    #[test]
    fn expansion_size_is_bounded() {
        let long = "ü".repeat(100_000);
        let filled = expand(&command("x", &"$ARGUMENTS".repeat(5_000)), &long);
        assert!(filled.len() < EXPANDED_BYTES_MAX + 100, "{}", filled.len());
        assert!(filled.ends_with("[cut here: the prompt got too long]"));
    }

    #[test]
    fn help_lists_every_command() {
        let text = help_text(&[command("review", "x")]);
        for (name, ..) in BUILT_IN {
            assert!(text.contains(&format!("`/{name}")), "{text}");
        }
        assert!(text.contains("- `/review`: Does it"), "{text}");
        assert!(text.contains("- `/model [name]`: Show"), "{text}");
        assert!(init_prompt("mind x").ends_with("The user adds: mind x"));
    }
}
