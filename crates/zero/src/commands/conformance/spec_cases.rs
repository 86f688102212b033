//! The tool specification as data: each tool's parameters, examples and result.
//!
//! `tool_specification.json` has the tools. `{root}` in an input stands for the temporary workspace. Its
//! files are [`FILES`]; they are restored before every example, so that no example depends on another. A
//! local server with [`PAGES`] replaces the web and also acts as a search engine.

use anyhow::Context;
use serde::Deserialize;
use serde_json::{Map, Value};

/// One tool of the specification.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ToolCase {
    pub(super) tool: String,
    /// Lowest level that requires the tool.
    pub(super) level: u8,
    /// Names and shapes of the parameters; the shape of an optional one ends with `?`.
    parameters: Map<String, Value>,
    pub(super) examples: Vec<SpecExample>,
    /// Names and shapes of the result's fields; `None` if the specification does not define them.
    pub(super) result: Option<Map<String, Value>>,
    /// Input that names a missing file.
    pub(super) missing_file: Option<Value>,
    /// What its examples need to run.
    #[serde(default)]
    pub(super) needs: ExampleNeeds,
}

/// What the examples of a tool need to run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ExampleNeeds {
    /// Only the tool.
    #[default]
    Nothing,
    /// A web server with [`PAGES`].
    Web,
    /// Any installed language server.
    LanguageServer,
}

/// One parameter of a tool.
pub(super) struct SpecParameter<'a> {
    pub(super) name: &'a str,
    pub(super) shape: &'a str,
    pub(super) is_required: bool,
}

/// An example of the specification, and the expected fields of its result.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SpecExample {
    pub(super) input: Value,
    /// Fields of the result that the specification defines. A text between two `…` must be contained
    /// in the field.
    #[serde(default)]
    pub(super) result: Map<String, Value>,
}

impl ToolCase {
    pub(super) fn parameters(&self) -> impl Iterator<Item = SpecParameter<'_>> {
        self.parameters.iter().map(|(name, shape)| {
            let shape = shape.as_str().unwrap_or_default();
            let optional = shape.strip_suffix('?');
            SpecParameter {
                name,
                shape: optional.unwrap_or(shape),
                is_required: optional.is_none(),
            }
        })
    }
}

/// The specification, level by level.
pub(super) fn load_cases() -> anyhow::Result<Vec<ToolCase>> {
    serde_json::from_str(include_str!("tool_specification.json"))
        .context("could not read the tool specification of this build")
}

/// Files of the temporary workspace.
pub(super) const FILES: &[(&str, &str)] = &[
    ("path/to/file.go", "func main() {\n    fmt.Println(\"Hello\")\n}\n"),
    ("path/to/long.go", "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n13\n14\n15\n16\n17\n18\n19\n20\n"),
    ("search/main.go", "package main\n"),
    ("search/pkg/server.go", "package pkg\n\nfunc NewError() error { return nil }\n"),
    ("search/internal/handler.go", "package internal\n"),
    ("search/notes.md", "func of an Error, but not in Go\n"),
    ("docs/intro.md", "# Intro\n"),
    ("docs/deep/more.md", "# More\n"),
];

/// Pages of the local web server: path, media type, text.
pub(super) const PAGES: &[(&str, &str, &str)] = &[
    (
        "/doc/effective_go",
        "text/html",
        "<title>Effective Go</title><nav>Home</nav><main><h1>Effective Go</h1><h2>Errors</h2><p>An error is a value, and is returned.</p></main>\n",
    ),
    (
        "/search",
        "application/json",
        r#"{"results": [{"title": "Elsewhere", "url": "https://example.com/go", "content": "Not of a domain that is allowed."}, {"title": "Go Concurrency Patterns: Context", "url": "https://go.dev/blog/context", "content": "Deadlines and cancellation across goroutines."}]}"#,
    ),
];
