//! Translates calls of a gateway's own tools into ledger types.

use serde::Deserialize as _;
use serde_json::{Value, json};
use zero_core::event::{ResultContent, ToolCallStatus};
use zero_core::text_shortening::one_line;
use zero_core::{FileLocation, ResultDisplay, ToolError, ToolKind, ToolOutcome};

/// Longest title, in characters.
const TITLE_LEN_MAX: usize = 200;
/// Longest argument in a title, in characters.
const ARGUMENT_LEN_MAX: usize = 100;
/// Limits of the search for paths in arguments: depth and number of values.
const DEPTH_MAX: usize = 4;
const VALUES_MAX: usize = 100;
/// Arguments that describe a call best.
const SUMMARY_ARGUMENTS: [&str; 9] =
    ["command", "cmd", "file_path", "filePath", "path", "pattern", "query", "url", "description"];
/// Arguments that name files.
const PATH_ARGUMENTS: [&str; 9] = [
    "path",
    "file_path",
    "filePath",
    "file",
    "filename",
    "notebook_path",
    "directory",
    "cwd",
    "target",
];

/// The title of a call, in one line.
pub(crate) fn call_title(name: &str, args: &Value) -> String {
    let shown = |value: &Value| {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        one_line(&text, ARGUMENT_LEN_MAX)
    };
    let fields = args.as_object();
    let translator = SUMMARY_ARGUMENTS.iter().find_map(|key| fields?.get(*key)?.as_str());
    let about = match (translator, fields) {
        (Some(text), _) => one_line(text, TITLE_LEN_MAX),
        (None, Some(fields)) => {
            let all: Vec<String> = fields
                .iter()
                .take(8)
                .map(|(key, value)| format!("{key}: {}", shown(value)))
                .collect();
            all.join(", ")
        }
        (None, None) => String::new(),
    };
    match about.is_empty() {
        true => one_line(name, TITLE_LEN_MAX),
        false => one_line(&format!("{name}: {about}"), TITLE_LEN_MAX),
    }
}

/// The kind of a tool, by its name.
pub(crate) fn tool_kind(name: &str) -> ToolKind {
    let name = name.to_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| name.contains(word));
    match () {
        () if has(&["fetch", "http", "web", "browser"]) => ToolKind::Fetch,
        () if has(&["search", "find", "grep", "glob"]) => ToolKind::Search,
        () if has(&["delete", "remove"]) => ToolKind::Delete,
        () if has(&["move", "rename"]) => ToolKind::Move,
        () if has(&["write", "edit", "patch"]) => ToolKind::Edit,
        () if has(&["read", "view", "list"]) || name == "ls" => ToolKind::Read,
        () if has(&["exec", "run", "bash", "shell", "process", "terminal"]) => ToolKind::Execute,
        () if has(&["think", "plan", "todo"]) => ToolKind::Think,
        () => ToolKind::Other,
    }
}

/// Parses a tool kind.
pub(crate) fn parse_kind(word: &str) -> Option<ToolKind> {
    serde_json::from_value(Value::String(word.to_owned())).ok()
}

/// The files that arguments name. Only absolute paths: the base of relative ones is not known here.
pub(crate) fn argument_locations(args: &Value) -> Vec<FileLocation> {
    let mut locations: Vec<FileLocation> = Vec::new();
    let mut waiting = vec![(args, 0)];
    let mut seen = 0;
    while let Some((value, depth)) = waiting.pop() {
        seen += 1;
        if depth > DEPTH_MAX || seen > VALUES_MAX {
            continue;
        }
        match value {
            Value::Object(fields) => {
                let line = fields.get("line").or_else(|| fields.get("offset"));
                let line = line.and_then(Value::as_u64).filter(|line| *line > 0);
                for (key, value) in fields {
                    match value.as_str() {
                        Some(path)
                            if PATH_ARGUMENTS.contains(&key.as_str()) && path.starts_with('/') =>
                        {
                            let location = FileLocation { path: path.into(), line };
                            if !locations.contains(&location) {
                                locations.push(location);
                            }
                        }
                        _ => waiting.push((value, depth + 1)),
                    }
                }
            }
            Value::Array(values) => waiting.extend(values.iter().map(|value| (value, depth + 1))),
            _ => {}
        }
    }
    locations
}

/// The locations that a result names.
pub(crate) fn result_locations(details: &Value) -> Vec<FileLocation> {
    let named = details.get("locations").cloned().unwrap_or_default();
    serde_json::from_value(named).unwrap_or_default()
}

/// The outcome of a call: complete if the gateway sends zero's format, otherwise built from what it
/// shows.
pub(crate) fn parse_outcome(status: ToolCallStatus, result: &Value) -> ToolOutcome {
    let details = result.get("details").unwrap_or(&Value::Null);
    let error = details.get("error").and_then(|error| ToolError::deserialize(error).ok());
    if let Some(error) = error.filter(|_| status != ToolCallStatus::Completed) {
        return error.into();
    }
    let (content, display) = (parse_content(result), parse_display(details));
    let mut outcome =
        ToolOutcome::from_content(status, content, display, result_locations(details));
    let structured = details.get("structured");
    let exit_code = details.get("exitCode").or_else(|| structured?.get("exit_code"));
    let exit_code = exit_code.and_then(Value::as_i64);
    match &mut outcome {
        ToolOutcome::Result(result) => {
            let exit_code = || Some(json!({"exit_code": exit_code?}));
            result.structured = structured.cloned().or_else(exit_code).unwrap_or_default();
        }
        ToolOutcome::Error(ToolError { details, .. }) => {
            details.extend(exit_code.map(|code| ("exit_code".to_owned(), code.into())));
            details.extend(structured.map(|value| ("structured".to_owned(), value.clone())));
        }
    }
    outcome
}

/// The content of a tool result.
pub(crate) fn parse_content(result: &Value) -> Vec<ResultContent> {
    let blocks = match result {
        Value::String(text) => return vec![ResultContent::Text { text: text.clone() }],
        Value::Object(fields) => fields.get("content"),
        _ => None,
    };
    match blocks {
        Some(Value::String(text)) => vec![ResultContent::Text { text: text.clone() }],
        Some(Value::Array(blocks)) => blocks.iter().filter_map(parse_block).collect(),
        _ => Vec::new(),
    }
}

fn parse_block(block: &Value) -> Option<ResultContent> {
    let text = |key: &str| block.get(key).and_then(Value::as_str).map(str::to_owned);
    match (text("text"), text("data"), text("mimeType")) {
        (Some(text), _, _) => Some(ResultContent::Text { text }),
        (None, Some(data), Some(mime)) => Some(ResultContent::Image { mime, data }),
        _ => None,
    }
}

/// The progress message of a partial result.
pub(crate) fn parse_progress(partial: &Value) -> Option<String> {
    let text = |content| match content {
        ResultContent::Text { text } => Some(text),
        ResultContent::Image { .. } => None,
    };
    let all: Vec<String> = parse_content(partial).into_iter().filter_map(text).collect();
    Some(all.join("\n")).filter(|text| !text.is_empty())
}

/// The display form of a result, if the gateway sends one.
pub(crate) fn parse_display(details: &Value) -> Option<ResultDisplay> {
    let text = details.get("markdown").and_then(Value::as_str)?;
    Some(ResultDisplay::Markdown { text: text.to_owned() })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(name: &str, args: Value, title: &str, kind: ToolKind, locations: &[&str]) {
        assert_eq!(super::call_title(name, &args), title);
        assert_eq!(super::tool_kind(name), kind, "{name}");
        let found: Vec<String> = super::argument_locations(&args)
            .into_iter()
            .map(|location| location.path.display().to_string())
            .collect();
        assert_eq!(found, locations, "{name}");
    }

    #[test]
    fn call_title_uses_name_and_arguments() {
        let command = json!({"command": "ls\n -l", "workdir": "/w"});
        check("exec", command, "exec: ls -l", ToolKind::Execute, &[]);
        check(
            "Read",
            json!({"file_path": "/w/a.rs"}),
            "Read: /w/a.rs",
            ToolKind::Read,
            &["/w/a.rs"],
        );
        check("write", json!({"path": "a.rs", "content": "x"}), "write: a.rs", ToolKind::Edit, &[]);
        check("web_search", json!({"query": "x"}), "web_search: x", ToolKind::Fetch, &[]);
        check(
            "memory",
            json!({"n": 1, "ids": [2]}),
            "memory: n: 1, ids: [2]",
            ToolKind::Other,
            &[],
        );
        check("sessions", Value::Null, "sessions", ToolKind::Other, &[]);
        let nested = json!({"edits": [{"path": "/a"}, {"path": "/b"}, {"path": "/a"}]});
        let mut found = super::argument_locations(&nested);
        found.sort_by(|a, b| a.path.cmp(&b.path));
        assert_eq!(found.len(), 2);
        assert_eq!(
            super::call_title("x", &json!({"command": "y".repeat(500)})).chars().count(),
            201
        );
    }

    #[test]
    fn failed_call_keeps_exit_code_and_locations() {
        let result = json!({"content": "no", "details": {
            "exitCode": 2, "structured": {"a": 1}, "locations": [{"path": "/a"}],
        }});
        let outcome = parse_outcome(ToolCallStatus::Failed, &result);
        let details = &outcome.error().unwrap().details;
        assert_eq!((&details["exit_code"], &details["structured"]), (&json!(2), &json!({"a": 1})));
        assert_eq!(*outcome.locations(), [FileLocation { path: "/a".into(), line: None }]);
    }

    #[test]
    fn location_search_is_bounded_in_depth_and_width() {
        let mut deep = json!({"path": "/deep"});
        for _ in 0..50 {
            deep = json!({"in": deep});
        }
        assert!(argument_locations(&deep).is_empty());
        let wide: Vec<Value> = (0..10_000).map(|n| json!({"path": format!("/{n}")})).collect();
        assert!(argument_locations(&json!(wide)).len() <= VALUES_MAX);
    }
}
