//! What a line says that is written for no model: which tool, with which arguments.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};
use zero_runtime::name_suggestions::nearest;

use super::HOW_TO_ATTACH;
use crate::model::ModelToolDefinition;
use crate::word_split;

/// What is to be done.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum DirectAction {
    /// Say this.
    Say(String),
    /// Call this tool.
    Call {
        /// The tool.
        name: String,
        /// Its arguments.
        input: Value,
    },
}

/// A short way to call a tool.
pub(super) struct ToolShorthand {
    /// The word after the slash.
    pub(super) word: &'static str,
    /// The tool.
    tool: &'static str,
    /// How it is written.
    usage: &'static str,
    /// What it does.
    about: &'static str,
    /// The tool's arguments for what follows the word; `None` when that is not how it is written.
    input: fn(&str) -> Result<Option<Value>, String>,
}

/// All of them.
pub(super) const SHORTHANDS: &[ToolShorthand] = &[
    ToolShorthand {
        word: "read",
        tool: "Read",
        usage: "/read FILE [FROM-TO|:LINE]",
        about: "shows a file",
        input: read_input,
    },
    ToolShorthand {
        word: "grep",
        tool: "Grep",
        usage: "/grep PATTERN [PATH]",
        about: "finds lines",
        input: |rest| {
            one_or_two("pattern", rest).map(|input| {
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
        input: |rest| one_or_two("pattern", rest),
    },
    ToolShorthand {
        word: "ls",
        tool: "LS",
        usage: "/ls [PATH]",
        about: "lists a folder",
        input: |rest| {
            Ok(match &split(rest)?[..] {
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
        about: "runs a command; the rest of the line is taken as it is",
        input: |rest| Ok((!rest.is_empty()).then(|| json!({"command": rest}))),
    },
];

/// What a line says to do with these tools.
pub(super) fn read(text: &str, tools: &[ModelToolDefinition]) -> DirectAction {
    let text = text.trim();
    let Some(after) = text.strip_prefix('/') else { return DirectAction::Say(no_model()) };
    let (word, rest) = after.split_once(char::is_whitespace).unwrap_or((after, ""));
    let rest = rest.trim();
    if word.eq_ignore_ascii_case("help") {
        return DirectAction::Say(help(tools));
    }
    let folded = word.to_ascii_lowercase();
    let shorthand = SHORTHANDS.iter().find(|shorthand| shorthand.word == folded);
    // A command may begin with a brace; by the tool's own name it is JSON all the same.
    let json = object(rest).filter(|_| word != "bash");
    match (shorthand, json) {
        (Some(shorthand), None) => short(shorthand, rest, tools),
        (_, json) => by_name(word, rest, json, tools),
    }
}

fn short(shorthand: &ToolShorthand, rest: &str, tools: &[ModelToolDefinition]) -> DirectAction {
    let Some(tool) = tools.iter().find(|tool| tool.name == shorthand.tool) else {
        return DirectAction::Say(format!(
            "`/{}` needs the tool `{}`, which this agent does not have; `/help` lists what there is",
            shorthand.word, shorthand.tool
        ));
    };
    match (shorthand.input)(rest) {
        Ok(Some(input)) => DirectAction::Call { name: tool.name.clone(), input },
        Ok(None) => DirectAction::Say(format!("write `{}`", shorthand.usage)),
        Err(why) => DirectAction::Say(format!("{why}; write `{}`", shorthand.usage)),
    }
}

/// Any tool by its own name, with its arguments as JSON.
fn by_name(
    word: &str,
    rest: &str,
    json: Option<Value>,
    tools: &[ModelToolDefinition],
) -> DirectAction {
    let exact = tools.iter().find(|tool| tool.name == word);
    let found = exact.or_else(|| tools.iter().find(|tool| tool.name.eq_ignore_ascii_case(word)));
    let Some(tool) = found else {
        let near = nearest(word, tools.iter().map(|tool| tool.name.as_str()), 3);
        let near = match &near[..] {
            [] => String::new(),
            near => format!(" did you mean {}?", near.join(", ")),
        };
        let shown: String = word.chars().take(64).flat_map(char::escape_debug).collect();
        return DirectAction::Say(format!(
            "there is no command or tool `{shown}`;{near} `/help` lists them"
        ));
    };
    let input = json.or_else(|| rest.is_empty().then(|| Value::Object(Map::new())));
    match input {
        Some(input) => DirectAction::Call { name: tool.name.clone(), input },
        None => {
            let usage = usage(tool);
            DirectAction::Say(format!(
                "`{}` takes its arguments as a JSON object: `{usage}`",
                tool.name
            ))
        }
    }
}

fn object(text: &str) -> Option<Value> {
    if !text.starts_with('{') {
        return None;
    }
    serde_json::from_str(text).ok().filter(Value::is_object)
}

fn split(rest: &str) -> Result<Vec<String>, String> {
    word_split::split(rest).map_err(|error| error.to_string())
}

/// Something, and perhaps where.
fn one_or_two(field: &str, rest: &str) -> Result<Option<Value>, String> {
    Ok(match &split(rest)?[..] {
        [one] => Some(json!({field: one})),
        [one, path] => Some(json!({field: one, "path": path})),
        _ => None,
    })
}

fn read_input(rest: &str) -> Result<Option<Value>, String> {
    let words = split(rest)?;
    let (path, lines) = match &words[..] {
        [path] => match path.rsplit_once(':') {
            Some((path, lines)) if !path.is_empty() && is_lines(lines) => (path, Some(lines)),
            _ => (path.as_str(), None),
        },
        [path, lines] => (path.as_str(), Some(lines.strip_prefix(':').unwrap_or(lines))),
        _ => return Ok(None),
    };
    let mut input = json!({"file_path": path});
    if let Some(lines) = lines {
        let (from, to) = lines_of(lines).ok_or_else(|| format!("`{lines}` names no lines"))?;
        input["offset"] = json!(from);
        if let Some(to) = to {
            input["limit"] = json!(to - from + 1);
        }
    }
    Ok(Some(input))
}

fn is_lines(text: &str) -> bool {
    lines_of(text).is_some()
}

/// `12`, `12-` or `12-20`: from which line, and up to which.
fn lines_of(text: &str) -> Option<(u64, Option<u64>)> {
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

/// What it says to plain words.
pub(super) fn no_model() -> String {
    format!(
        "No model answers in this session, so nobody here understands plain words; `/model` lists \
         those there are and chooses one; {HOW_TO_ATTACH}.\n\n\
         Without one, tools can be used directly: `/read README.md`, `/grep TODO src`, `/bash ls -l`. \
         `/help` lists what there is."
    )
}

fn help(tools: &[ModelToolDefinition]) -> String {
    let mut text = String::from("No model answers here; tools can be used directly:\n");
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
        let _ = writeln!(text, "- `{}`: {about}", usage(tool));
    }
    text.push_str("\nAnd `/status`, `/mode [ask|accept-edits|plan|auto]` and `/model [name]`.\n");
    let _ = write!(text, "\nA model understands plain words; {HOW_TO_ATTACH}.");
    text
}

/// `/Write {"file_path": …, "content": …}`
fn usage(tool: &ModelToolDefinition) -> String {
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
    fn calls(line: &str, name: &str, input: Value) {
        assert_eq!(
            read(line, &tools()),
            DirectAction::Call { name: name.to_owned(), input },
            "{line}"
        );
    }

    #[track_caller]
    fn says(line: &str, expected: &str) {
        match read(line, &tools()) {
            DirectAction::Say(text) => assert!(text.contains(expected), "{line}: {text}"),
            wish => panic!("{line}: {wish:?}"),
        }
    }

    #[test]
    fn a_short_line_is_a_call() {
        calls("/read README.md", "Read", json!({"file_path": "README.md"}));
        calls("/read 'a b' 10-20", "Read", json!({"file_path": "a b", "offset": 10, "limit": 11}));
        calls("/read a 10-", "Read", json!({"file_path": "a", "offset": 10}));
        calls("/read a :7", "Read", json!({"file_path": "a", "offset": 7}));
        calls("/read src/a.rs:7", "Read", json!({"file_path": "src/a.rs", "offset": 7}));
        calls("/read C:x", "Read", json!({"file_path": "C:x"}));
        calls("/READ a", "Read", json!({"file_path": "a"}));
        let grep = json!({"pattern": "TODO", "path": "src", "output_mode": "content", "-n": true});
        calls("/grep TODO src", "Grep", grep);
        calls("/glob '**/*.rs'", "Glob", json!({"pattern": "**/*.rs"}));
        calls("/ls", "LS", json!({}));
        calls("/ls src", "LS", json!({"path": "src"}));
    }

    #[test]
    fn a_command_is_taken_as_it_is() {
        calls("/bash cargo test", "Bash", json!({"command": "cargo test"}));
        let quoted = "echo 'it''s' \"$HOME\" \\ {a,b} # x\nls";
        calls(&format!("/bash {quoted}"), "Bash", json!({"command": quoted}));
        calls("/bash {\"command\": \"x\"}", "Bash", json!({"command": "{\"command\": \"x\"}"}));
        calls("/Bash {\"command\": \"x\"}", "Bash", json!({"command": "x"}));
        calls("/Bash { ls; }", "Bash", json!({"command": "{ ls; }"}));
    }

    #[test]
    fn any_tool_is_called_by_its_name() {
        let input = json!({"file_path": "a", "content": "b"});
        calls(&format!("/Write {input}"), "Write", input.clone());
        calls(&format!("/write {input}"), "Write", input);
        calls("/git__log", "git__log", json!({}));
        calls("/read {\"file_path\": \"a\"}", "Read", json!({"file_path": "a"}));
    }

    #[test]
    fn a_wrong_line_says_what_to_do() {
        says("/read", "write `/read FILE [FROM-TO|:LINE]`");
        says("/read a b c", "write `/read FILE");
        says("/read a 20-10", "`20-10` names no lines; write `/read FILE");
        says("/read a 0", "`0` names no lines");
        says("/read 'a", "a quote is opened and never closed; write `/read FILE");
        says("/grep", "write `/grep PATTERN [PATH]`");
        says("/bash", "write `/bash COMMAND`");
        says("/bash   ", "write `/bash COMMAND`");
        says("/write a b", r#"as a JSON object: `/Write {"file_path": …, "content": …}`"#);
        says("/write {\"a\": ", "as a JSON object");
        says("/Wirte {}", "there is no command or tool `Wirte`; did you mean Write?");
        says("/\u{1b}[31m", "there is no command or tool `\\u{1b}[31m`");
        let read_only: Vec<ModelToolDefinition> = tools().into_iter().take(1).collect();
        let DirectAction::Say(text) = read("/bash ls", &read_only) else { panic!() };
        assert!(text.contains("needs the tool `Bash`, which this agent does not have"), "{text}");
    }

    #[test]
    fn plain_words_are_told_how_to_attach_a_model() {
        for words in ["hello", "", "fix the bug, please", "read README.md"] {
            says(words, "No model answers in this session");
            says(words, "`/model` lists those there are");
            says(words, "ANTHROPIC_API_KEY");
            says(words, "`/help`");
        }
    }

    #[test]
    fn help_shows_what_there_is() {
        let DirectAction::Say(text) = read("/help", &tools()) else { panic!() };
        insta::assert_snapshot!(text, @r###"
        No model answers here; tools can be used directly:
        - `/read FILE [FROM-TO|:LINE]`: shows a file
        - `/grep PATTERN [PATH]`: finds lines
        - `/glob PATTERN [PATH]`: finds files
        - `/ls [PATH]`: lists a folder
        - `/bash COMMAND`: runs a command; the rest of the line is taken as it is

        Any tool, with its arguments as JSON:
        - `/Write {"file_path": …, "content": …}`: What Write does.
        - `/git__log {}`: What git__log does.

        And `/status`, `/mode [ask|accept-edits|plan|auto]` and `/model [name]`.

        A model understands plain words; to attach one, set OPENAI_API_KEY, ANTHROPIC_API_KEY, GEMINI_API_KEY or OLLAMA_HOST, or name one under `models` in the settings, and start again.
        "###);
    }
}
