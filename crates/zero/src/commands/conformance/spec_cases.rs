//! The tool specification as data: each tool's parameters, examples and result.
//!
//! `{root}` in an input stands for the temporary workspace. Its files are [`FILES`]; they are restored
//! before every example, so that no example depends on another. A local server with [`PAGES`] replaces
//! the web and also acts as a search engine.

/// One tool of the specification.
pub(super) struct ToolCase {
    pub(super) tool: &'static str,
    /// Lowest level that requires the tool.
    pub(super) level: u8,
    pub(super) parameters: &'static [SpecParameter],
    pub(super) examples: &'static [SpecExample],
    /// Fields of its result; `None` if the specification does not define them.
    pub(super) result: Option<&'static [SpecField]>,
    /// Input that names a missing file.
    pub(super) missing: Option<&'static str>,
    /// What its examples need to run.
    pub(super) answered_by: ExampleResponder,
}

/// What the examples of a tool need to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExampleResponder {
    /// Only the tool.
    Tool,
    /// A web server with [`PAGES`].
    Web,
    /// Any installed language server.
    LanguageServer,
}

/// One parameter of a tool.
pub(super) struct SpecParameter {
    pub(super) name: &'static str,
    pub(super) shape: ValueShape,
    pub(super) required: bool,
}

/// One field of a result.
pub(super) struct SpecField {
    pub(super) name: &'static str,
    pub(super) shape: ValueShape,
}

/// An example of the specification, and the expected fields of its result.
pub(super) struct SpecExample {
    pub(super) input: &'static str,
    /// Fields of the result that the specification defines; `{}` if none. A text between two `…` must be
    /// contained in the field.
    pub(super) holds: &'static str,
}

/// Type of a value.
#[derive(Clone, Copy)]
pub(super) enum ValueShape {
    Text,
    Number,
    Flag,
    Texts,
    /// Objects with exactly these fields.
    Objects(&'static [SpecField]),
    /// List of objects that the specification does not define.
    List,
    /// Object with string values.
    TextMap,
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

const fn required(name: &'static str, shape: ValueShape) -> SpecParameter {
    SpecParameter { name, shape, required: true }
}

const fn optional(name: &'static str, shape: ValueShape) -> SpecParameter {
    SpecParameter { name, shape, required: false }
}

const fn result_field(name: &'static str, shape: ValueShape) -> SpecField {
    SpecField { name, shape }
}

/// The specification, level by level.
pub(super) const CASES: &[ToolCase] = &[
    ToolCase {
        tool: "Read",
        level: 1,
        parameters: &[
            required("file_path", ValueShape::Text),
            optional("offset", ValueShape::Number),
            optional("limit", ValueShape::Number),
        ],
        examples: &[
            SpecExample {
                input: r#"{"file_path": "{root}/path/to/file.go"}"#,
                holds: r#"{"content": "     1\tfunc main() {\n     2\t    fmt.Println(\"Hello\")\n     3\t}", "total_lines": 3}"#,
            },
            SpecExample {
                input: r#"{"file_path": "{root}/path/to/long.go", "offset": 10, "limit": 5}"#,
                holds: r#"{"content": "    10\t10\n    11\t11\n    12\t12\n    13\t13\n    14\t14", "total_lines": 20}"#,
            },
        ],
        result: Some(&[
            result_field("content", ValueShape::Text),
            result_field("total_lines", ValueShape::Number),
        ]),
        missing: Some(r#"{"file_path": "{root}/path/to/nothing.go"}"#),
        answered_by: ExampleResponder::Tool,
    },
    ToolCase {
        tool: "Write",
        level: 1,
        parameters: &[
            required("file_path", ValueShape::Text),
            required("content", ValueShape::Text),
        ],
        examples: &[SpecExample {
            input: r#"{"file_path": "{root}/path/to/new-file.go", "content": "package main\n\nfunc main() {}\n"}"#,
            holds: r#"{"success": true, "bytes_written": 29}"#,
        }],
        result: Some(&[
            result_field("success", ValueShape::Flag),
            result_field("bytes_written", ValueShape::Number),
        ]),
        missing: None,
        answered_by: ExampleResponder::Tool,
    },
    ToolCase {
        tool: "Edit",
        level: 1,
        parameters: &[
            required("file_path", ValueShape::Text),
            required("old_string", ValueShape::Text),
            required("new_string", ValueShape::Text),
            optional("replace_all", ValueShape::Flag),
        ],
        examples: &[SpecExample {
            input: r#"{"file_path": "{root}/path/to/file.go", "old_string": "fmt.Println(\"Hello\")", "new_string": "fmt.Println(\"Hello, World!\")"}"#,
            holds: r#"{"success": true, "replacements": 1}"#,
        }],
        result: Some(&[
            result_field("success", ValueShape::Flag),
            result_field("replacements", ValueShape::Number),
        ]),
        missing: Some(
            r#"{"file_path": "{root}/path/to/nothing.go", "old_string": "a", "new_string": "b"}"#,
        ),
        answered_by: ExampleResponder::Tool,
    },
    ToolCase {
        tool: "Glob",
        level: 1,
        parameters: &[required("pattern", ValueShape::Text), optional("path", ValueShape::Text)],
        examples: &[
            SpecExample { input: r#"{"pattern": "**/*.go"}"#, holds: r#"{"count": 5}"# },
            SpecExample {
                input: r#"{"pattern": "**/*.go", "path": "{root}/search"}"#,
                holds: r#"{"count": 3}"#,
            },
            SpecExample {
                input: r#"{"pattern": "*.md", "path": "{root}/docs"}"#,
                holds: r#"{"count": 1}"#,
            },
        ],
        result: Some(&[
            result_field("files", ValueShape::Texts),
            result_field("count", ValueShape::Number),
        ]),
        missing: Some(r#"{"pattern": "*.md", "path": "{root}/nowhere"}"#),
        answered_by: ExampleResponder::Tool,
    },
    ToolCase {
        tool: "Grep",
        level: 1,
        parameters: &[
            required("pattern", ValueShape::Text),
            optional("path", ValueShape::Text),
            optional("glob", ValueShape::Text),
            optional("output_mode", ValueShape::Text),
            optional("-i", ValueShape::Flag),
            optional("-n", ValueShape::Flag),
            optional("-A", ValueShape::Number),
            optional("-B", ValueShape::Number),
            optional("-C", ValueShape::Number),
        ],
        examples: &[SpecExample {
            input: r#"{"pattern": "func.*Error", "glob": "*.go", "output_mode": "content", "-n": true}"#,
            holds: r#"{"total_matches": 1}"#,
        }],
        result: Some(&[
            result_field(
                "matches",
                ValueShape::Objects(&[
                    result_field("file", ValueShape::Text),
                    result_field("line_number", ValueShape::Number),
                    result_field("content", ValueShape::Text),
                ]),
            ),
            result_field("total_matches", ValueShape::Number),
        ]),
        missing: Some(r#"{"pattern": "x", "path": "{root}/nowhere"}"#),
        answered_by: ExampleResponder::Tool,
    },
    ToolCase {
        tool: "Bash",
        level: 1,
        parameters: &[
            required("command", ValueShape::Text),
            optional("timeout", ValueShape::Number),
            optional("cwd", ValueShape::Text),
            optional("run_in_background", ValueShape::Flag),
        ],
        examples: &[
            SpecExample { input: r#"{"command": "go build ./..."}"#, holds: "{}" },
            SpecExample { input: r#"{"command": "git status"}"#, holds: "{}" },
            SpecExample { input: r#"{"command": "npm install", "timeout": 300000}"#, holds: "{}" },
        ],
        result: Some(&[
            result_field("stdout", ValueShape::Text),
            result_field("stderr", ValueShape::Text),
            result_field("exit_code", ValueShape::Number),
        ]),
        missing: None,
        answered_by: ExampleResponder::Tool,
    },
    ToolCase {
        tool: "AskUserQuestion",
        level: 1,
        parameters: &[required("questions", ValueShape::List)],
        examples: &[SpecExample {
            input: r#"{"questions": [{
                "question": "Which database should we use?",
                "header": "Database",
                "options": [
                    {"label": "PostgreSQL", "description": "Relational, ACID compliant"},
                    {"label": "MongoDB", "description": "Document store, flexible schema"},
                    {"label": "Redis", "description": "In-memory, key-value store"}
                ],
                "multiSelect": false
            }]}"#,
            holds: "{}",
        }],
        result: Some(&[result_field("answers", ValueShape::TextMap)]),
        missing: None,
        answered_by: ExampleResponder::Tool,
    },
    ToolCase {
        tool: "TodoWrite",
        level: 2,
        parameters: &[required("todos", ValueShape::List)],
        examples: &[SpecExample {
            input: r#"{"todos": [
                {"content": "Implement user authentication", "status": "in_progress", "activeForm": "Implementing user authentication"},
                {"content": "Add unit tests", "status": "pending", "activeForm": "Adding unit tests"},
                {"content": "Review security", "status": "pending", "activeForm": "Reviewing security"}
            ]}"#,
            holds: r#"{"success": true}"#,
        }],
        result: Some(&[result_field("success", ValueShape::Flag)]),
        missing: None,
        answered_by: ExampleResponder::Tool,
    },
    ToolCase {
        tool: "LSP",
        level: 2,
        parameters: &[
            required("operation", ValueShape::Text),
            required("filePath", ValueShape::Text),
            required("line", ValueShape::Number),
            required("character", ValueShape::Number),
        ],
        examples: &[SpecExample {
            input: r#"{"operation": "goToDefinition", "filePath": "{root}/path/to/file.go", "line": 2, "character": 10}"#,
            holds: "{}",
        }],
        result: None,
        missing: Some(
            r#"{"operation": "hover", "filePath": "{root}/path/to/nothing.go", "line": 1, "character": 1}"#,
        ),
        answered_by: ExampleResponder::LanguageServer,
    },
    ToolCase {
        tool: "WebFetch",
        level: 3,
        parameters: &[required("url", ValueShape::Text), required("prompt", ValueShape::Text)],
        examples: &[SpecExample {
            input: r#"{"url": "http://127.0.0.1:8080/doc/effective_go", "prompt": "Extract the section about error handling"}"#,
            holds: r#"{"content": "…An error is a value…"}"#,
        }],
        result: Some(&[result_field("content", ValueShape::Text)]),
        missing: None,
        answered_by: ExampleResponder::Web,
    },
    ToolCase {
        tool: "WebSearch",
        level: 3,
        parameters: &[
            required("query", ValueShape::Text),
            optional("allowed_domains", ValueShape::Texts),
            optional("blocked_domains", ValueShape::Texts),
        ],
        examples: &[SpecExample {
            input: r#"{"query": "Go context cancellation best practices 2024", "allowed_domains": ["go.dev", "golang.org"]}"#,
            holds: r#"{"results": [{"title": "Go Concurrency Patterns: Context", "url": "https://go.dev/blog/context", "snippet": "Deadlines and cancellation across goroutines."}]}"#,
        }],
        result: Some(&[result_field(
            "results",
            ValueShape::Objects(&[
                result_field("title", ValueShape::Text),
                result_field("url", ValueShape::Text),
                result_field("snippet", ValueShape::Text),
            ]),
        )]),
        missing: None,
        answered_by: ExampleResponder::Web,
    },
];
