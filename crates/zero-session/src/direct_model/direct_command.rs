//! Parses commands for the agent without a model into a tool and its arguments.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};
use zero_core::text_shortening::excerpt;
use zero_runtime::name_suggestions::suggest_names;

use super::ATTACH_MODEL_HINT;
use crate::model::ModelToolDefinition;
use crate::word_split;

/// Result of parsing a command.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum DirectAction {
    /// Reply with this text.
    Reply(String),
    /// Call this tool.
    Call {
        /// Name of the tool.
        name: String,
        /// Its arguments.
        input: Value,
    },
}

/// A shorthand for a tool call.
pub(super) struct ToolShorthand {
    /// The word after the slash.
    pub(super) word: &'static str,
    /// Canonical name of the tool that the word calls.
    tool: &'static str,
    /// Syntax, shown in the help.
    usage: &'static str,
    /// Description, shown in the help.
    about: &'static str,
    /// Converts the text after the word into the tool's arguments; `None` if the syntax is wrong.
    input: fn(&str) -> Result<Option<Value>, String>,
}

/// All shorthands.
pub(super) const SHORTHANDS: &[ToolShorthand] = &[
    ToolShorthand {
        word: "read",
        tool: "Read",
        usage: "/read FILE [FROM-TO|:LINE]",
        about: "shows a file",
        input: parse_read_input,
    },
    ToolShorthand {
        word: "grep",
        tool: "Grep",
        usage: "/grep PATTERN [PATH]",
        about: "finds lines",
        input: |rest| {
            field_and_path("pattern", rest).map(|input| {
                let mut input = input?;
                let fields = input.as_object_mut()?;
                fields.insert("output_mode".to_owned(), json!("content"));
                fields.insert("-n".to_owned(), json!(true));
                Some(input)
            })
        },
    },
    ToolShorthand {
        word: "glob",
        tool: "Glob",
        usage: "/glob PATTERN [PATH]",
        about: "finds files",
        input: |rest| field_and_path("pattern", rest),
    },
    ToolShorthand {
        word: "ls",
        tool: "LS",
        usage: "/ls [PATH]",
        about: "lists a folder",
        input: |rest| {
            Ok(match &split_words(rest)?[..] {
                [] => Some(json!({})),
                [path] => Some(json!({"path": path})),
                _ => None,
            })
        },
    },
    ToolShorthand {
        word: "bash",
        tool: "Bash",
        usage: "/bash COMMAND",
        about: "runs a command; the rest of the line is passed unchanged",
        input: |rest| Ok((!rest.is_empty()).then(|| json!({"command": rest}))),
    },
];

/// Parses a line into an action with these tools.
pub(super) fn parse(text: &str, tools: &[ModelToolDefinition]) -> DirectAction {
    let Some((word, rest)) = split_command(text) else {
        return DirectAction::Reply(no_model_message());
    };
    if word.eq_ignore_ascii_case("help") {
        return DirectAction::Reply(help_text(tools));
    }
    match find_shorthand(word, rest) {
        (Some(shorthand), None) => parse_shorthand(shorthand, rest, tools),
        (_, json) => parse_tool_call(word, rest, json, tools),
    }
}

fn parse_shorthand(
    shorthand: &ToolShorthand,
    rest: &str,
    tools: &[ModelToolDefinition],
) -> DirectAction {
    let Some(tool) = tools.iter().find(|tool| tool.name == shorthand.tool) else {
        return DirectAction::Reply(format!(
            "`/{}` needs the tool `{}`, which this agent does not have; `/help` lists all commands",
            shorthand.word, shorthand.tool
        ));
    };
    match read_arguments(shorthand, rest) {
        Ok(input) => DirectAction::Call { name: tool.name.clone(), input },
        Err(wrong) => DirectAction::Reply(wrong),
    }
}

/// The input of the tool, or how to write the shorthand.
fn read_arguments(shorthand: &ToolShorthand, rest: &str) -> Result<Value, String> {
    match (shorthand.input)(rest) {
        Ok(Some(input)) => Ok(input),
        Ok(None) => Err(format!("write `{}`", shorthand.usage)),
        Err(why) => Err(format!("{why}; write `{}`", shorthand.usage)),
    }
}

/// What is wrong with the arguments of a shorthand; `None` for any other text.
pub(super) fn find_usage_error(text: &str) -> Option<String> {
    let (word, rest) = split_command(text)?;
    match find_shorthand(word, rest) {
        (Some(shorthand), None) => read_arguments(shorthand, rest).err(),
        _ => None,
    }
}

/// The word after the slash, and what follows it.
fn split_command(text: &str) -> Option<(&str, &str)> {
    let after = text.trim().strip_prefix('/')?;
    let (word, rest) = after.split_once(char::is_whitespace).unwrap_or((after, ""));
    Some((word, rest.trim()))
}

/// The shorthand of this word, and its arguments if they are JSON.
fn find_shorthand(word: &str, rest: &str) -> (Option<&'static ToolShorthand>, Option<Value>) {
    let folded = word.to_ascii_lowercase();
    let shorthand = SHORTHANDS.iter().find(|shorthand| shorthand.word == folded);
    // A shell command may begin with a brace; `/Bash` with the tool's own name always takes JSON.
    (shorthand, parse_object(rest).filter(|_| word != "bash"))
}

/// A call of any tool by its own name, with its arguments as JSON.
fn parse_tool_call(
    word: &str,
    rest: &str,
    json: Option<Value>,
    tools: &[ModelToolDefinition],
) -> DirectAction {
    let exact = tools.iter().find(|tool| tool.name == word);
    let found = exact.or_else(|| tools.iter().find(|tool| tool.name.eq_ignore_ascii_case(word)));
    let Some(tool) = found else {
        let similar = suggest_names(word, tools.iter().map(|tool| tool.name.as_str()), 3);
        let similar = match &similar[..] {
            [] => String::new(),
            similar => format!(" did you mean {}?", similar.join(", ")),
        };
        let shown = excerpt(word, 64);
        return DirectAction::Reply(format!(
            "there is no command or tool `{shown}`;{similar} `/help` lists them"
        ));
    };
    let input = json.or_else(|| rest.is_empty().then(|| Value::Object(Map::new())));
    match input {
        Some(input) => DirectAction::Call { name: tool.name.clone(), input },
        None => {
            let usage = tool_usage(tool);
            DirectAction::Reply(format!(
                "`{}` takes its arguments as a JSON object: `{usage}`",
                tool.name
            ))
        }
    }
}

fn parse_object(text: &str) -> Option<Value> {
    if !text.starts_with('{') {
        return None;
    }
    serde_json::from_str(text).ok().filter(Value::is_object)
}

fn split_words(rest: &str) -> Result<Vec<String>, String> {
    word_split::split(rest).map_err(|error| error.to_string())
}

/// A required value, optionally followed by a path.
fn field_and_path(field: &str, rest: &str) -> Result<Option<Value>, String> {
    Ok(match &split_words(rest)?[..] {
        [one] => Some(json!({field: one})),
        [one, path] => Some(json!({field: one, "path": path})),
        _ => None,
    })
}

fn parse_read_input(rest: &str) -> Result<Option<Value>, String> {
    let words = split_words(rest)?;
    let (path, lines) = match &words[..] {
        [path] => match path.rsplit_once(':') {
            Some((path, lines)) if !path.is_empty() && is_line_range(lines) => (path, Some(lines)),
            _ => (path.as_str(), None),
        },
        [path, lines] => (path.as_str(), Some(lines.strip_prefix(':').unwrap_or(lines))),
        _ => return Ok(None),
    };
    let mut input = json!({"file_path": path});
    if let Some(lines) = lines {
        let (from, to) =
            parse_line_range(lines).ok_or_else(|| format!("`{lines}` is not a line range"))?;
        input["offset"] = json!(from);
        if let Some(to) = to {
            input["limit"] = json!(to - from + 1);
        }
    }
    Ok(Some(input))
}

fn is_line_range(text: &str) -> bool {
    parse_line_range(text).is_some()
}

/// Parses `12`, `12-` or `12-20` into the first and last line.
fn parse_line_range(text: &str) -> Option<(u64, Option<u64>)> {
    let number = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        digits.then(|| text.parse::<u64>().ok()).flatten().filter(|number| *number > 0)
    };
    match text.split_once('-') {
        None => Some((number(text)?, None)),
        Some((from, "")) => Some((number(from)?, None)),
        Some((from, to)) => {
            let (from, to) = (number(from)?, number(to)?);
            (from <= to).then_some((from, Some(to)))
        }
    }
}

/// Answer to a prompt that is not a command.
pub(super) fn no_model_message() -> String {
    format!(
        "This session has no model. `/model` lists the models and selects one; {ATTACH_MODEL_HINT}.\n\n\
         Tools work without a model: `/read README.md`, `/grep TODO src`, `/bash ls -l`. `/help` lists \
         all commands."
    )
}

fn help_text(tools: &[ModelToolDefinition]) -> String {
    let mut text = String::from("This session has no model. You can call tools directly:\n");
    let has = |name: &str| tools.iter().any(|tool| tool.name == name);
    // Writing to a String cannot fail.
    for shorthand in SHORTHANDS.iter().filter(|shorthand| has(shorthand.tool)) {
        let _ = writeln!(text, "- `{}`: {}", shorthand.usage, shorthand.about);
    }
    let short = |name: &str| SHORTHANDS.iter().any(|shorthand| shorthand.tool == name);
    let mut others = tools.iter().filter(|tool| !short(&tool.name)).peekable();
    if others.peek().is_some() {
        text.push_str("\nAny tool, with its arguments as JSON:\n");
    }
    for tool in others {
        let about: String = tool.description.lines().next().unwrap_or_default().to_owned();
        let _ = writeln!(text, "- `{}`: {about}", tool_usage(tool));
    }
    text.push_str("\nAnd `/status`, `/mode [ask|accept-edits|plan|auto]` and `/model [name]`.\n");
    let _ = write!(text, "\nOther prompts need a model; {ATTACH_MODEL_HINT}.");
    text
}

/// `/Write {"file_path": …, "content": …}`
fn tool_usage(tool: &ModelToolDefinition) -> String {
    let required = tool.input_schema.get("required").and_then(Value::as_array);
    let fields = required.into_iter().flatten().filter_map(Value::as_str);
    let fields: Vec<String> = fields.map(|field| format!("\"{field}\": …")).collect();
    format!("/{} {{{}}}", tool.name, fields.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tools() -> Vec<ModelToolDefinition> {
        let tool = |name: &str, required: &[&str]| ModelToolDefinition {
            name: name.to_owned(),
            description: format!("What {name} does.\nAnd more."),
            input_schema: json!({"type": "object", "required": required}),
        };
        vec![
            tool("Read", &["file_path"]),
            tool("Grep", &["pattern"]),
            tool("Glob", &["pattern"]),
            tool("LS", &[]),
            tool("Bash", &["command"]),
            tool("Write", &["file_path", "content"]),
            tool("git__log", &[]),
        ]
    }

    #[track_caller]
    fn check_call(line: &str, name: &str, input: Value) {
        assert_eq!(
            parse(line, &tools()),
            DirectAction::Call { name: name.to_owned(), input },
            "{line}"
        );
    }

    #[track_caller]
    fn check_reply(line: &str, expected: &str) {
        match parse(line, &tools()) {
            DirectAction::Reply(text) => assert!(text.contains(expected), "{line}: {text}"),
            wish => panic!("{line}: {wish:?}"),
        }
    }

    #[test]
    fn shorthand_line_becomes_call() {
        check_call("/read README.md", "Read", json!({"file_path": "README.md"}));
        check_call(
            "/read 'a b' 10-20",
            "Read",
            json!({"file_path": "a b", "offset": 10, "limit": 11}),
        );
        check_call("/read a 10-", "Read", json!({"file_path": "a", "offset": 10}));
        check_call("/read a :7", "Read", json!({"file_path": "a", "offset": 7}));
        check_call("/read src/a.rs:7", "Read", json!({"file_path": "src/a.rs", "offset": 7}));
        check_call("/read C:x", "Read", json!({"file_path": "C:x"}));
        check_call("/READ a", "Read", json!({"file_path": "a"}));
        let grep = json!({"pattern": "TODO", "path": "src", "output_mode": "content", "-n": true});
        check_call("/grep TODO src", "Grep", grep);
        check_call("/glob '**/*.rs'", "Glob", json!({"pattern": "**/*.rs"}));
        check_call("/ls", "LS", json!({}));
        check_call("/ls src", "LS", json!({"path": "src"}));
    }

    #[test]
    fn bash_command_is_passed_verbatim() {
        check_call("/bash cargo test", "Bash", json!({"command": "cargo test"}));
        let quoted = "echo 'it''s' \"$HOME\" \\ {a,b} # x\nls";
        check_call(&format!("/bash {quoted}"), "Bash", json!({"command": quoted}));
        check_call(
            "/bash {\"command\": \"x\"}",
            "Bash",
            json!({"command": "{\"command\": \"x\"}"}),
        );
        check_call("/Bash {\"command\": \"x\"}", "Bash", json!({"command": "x"}));
        check_call("/Bash { ls; }", "Bash", json!({"command": "{ ls; }"}));
    }

    #[test]
    fn any_tool_is_callable_by_name() {
        let input = json!({"file_path": "a", "content": "b"});
        check_call(&format!("/Write {input}"), "Write", input.clone());
        check_call(&format!("/write {input}"), "Write", input);
        check_call("/git__log", "git__log", json!({}));
        check_call("/read {\"file_path\": \"a\"}", "Read", json!({"file_path": "a"}));
    }

    #[test]
    fn wrong_line_explains_fix() {
        check_reply("/read", "write `/read FILE [FROM-TO|:LINE]`");
        check_reply("/read a b c", "write `/read FILE");
        check_reply("/read a 20-10", "`20-10` is not a line range; write `/read FILE");
        check_reply("/read a 0", "`0` is not a line range");
        check_reply("/read 'a", "a quote is opened and never closed; write `/read FILE");
        check_reply("/grep", "write `/grep PATTERN [PATH]`");
        check_reply("/bash", "write `/bash COMMAND`");
        check_reply("/bash   ", "write `/bash COMMAND`");
        check_reply("/write a b", r#"as a JSON object: `/Write {"file_path": …, "content": …}`"#);
        check_reply("/write {\"a\": ", "as a JSON object");
        check_reply("/Wirte {}", "there is no command or tool `Wirte`; did you mean Write?");
        check_reply("/\u{1b}[31m", "there is no command or tool `\\u{1b}[31m`");
        let read_only: Vec<ModelToolDefinition> = tools().into_iter().take(1).collect();
        let DirectAction::Reply(text) = parse("/bash ls", &read_only) else { panic!() };
        assert!(text.contains("needs the tool `Bash`, which this agent does not have"), "{text}");
    }

    #[test]
    fn plain_text_explains_how_to_attach_model() {
        for words in ["hello", "", "fix the bug, please", "read README.md"] {
            check_reply(words, "This session has no model");
            check_reply(words, "`/model` lists the models");
            check_reply(words, "ANTHROPIC_API_KEY");
            check_reply(words, "`/help`");
        }
    }

    #[test]
    fn help_lists_shorthands_and_tools() {
        let DirectAction::Reply(text) = parse("/help", &tools()) else { panic!() };
        insta::assert_snapshot!(text, @r###"
        This session has no model. You can call tools directly:
        - `/read FILE [FROM-TO|:LINE]`: shows a file
        - `/grep PATTERN [PATH]`: finds lines
        - `/glob PATTERN [PATH]`: finds files
        - `/ls [PATH]`: lists a folder
        - `/bash COMMAND`: runs a command; the rest of the line is passed unchanged

        Any tool, with its arguments as JSON:
        - `/Write {"file_path": …, "content": …}`: What Write does.
        - `/git__log {}`: What git__log does.

        And `/status`, `/mode [ask|accept-edits|plan|auto]` and `/model [name]`.

        Other prompts need a model; to set one up, run `zero login`, or set OPENAI_API_KEY, ANTHROPIC_API_KEY, GEMINI_API_KEY or OLLAMA_HOST, and start again.
        "###);
    }
}
