//! One example call of each tool, under each of its names.
//!
//! `zero tools show` prints these calls, and the tool reference and the conformance check run them,
//! so that the documented examples work. They use a few files of their own, and those that need the
//! network connect only to a web server in the same folder.

use zero_runtime::DialectName::{self, Acp, Canonical, Opencode, Qwen};

/// An example call of a tool, and what it needs.
#[derive(Clone, Copy, Debug)]
pub struct ToolExample {
    /// The canonical name of the tool.
    pub tool: &'static str,
    /// The call under each name: dialect, name in it, input.
    pub calls: &'static [(DialectName, &'static str, &'static str)],
    /// The files it uses, by their names in [`FILES`].
    pub files: &'static [&'static str],
    /// What else it needs.
    pub needs: Option<ExampleRequirement>,
    /// A background command that must be started before it in the same session.
    pub earlier: Option<BackgroundJobSetup>,
}

/// A call of Bash that starts a background job.
#[derive(Clone, Copy, Debug)]
pub struct BackgroundJobSetup {
    /// The input of the Bash call.
    pub input: &'static str,
    /// When the example can be run.
    pub then: JobReadiness,
}

/// When an example that is about a job can be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobReadiness {
    /// As soon as the job is running.
    WhenStarted,
    /// Once the job has ended by itself.
    WhenEnded,
}

impl ToolExample {
    /// Returns the input under the canonical name.
    pub fn canonical_input(&self) -> Option<&'static str> {
        self.input_for(Canonical, self.tool)
    }

    /// Returns the input under a name of a dialect. A tool that keeps its canonical name keeps its
    /// input.
    pub fn input_for(&self, dialect: DialectName, name: &str) -> Option<&'static str> {
        let is_meant = |(of, called, _): &&(DialectName, &str, &str)| {
            *called == name && (*of == dialect || name == self.tool)
        };
        self.calls.iter().find(is_meant).map(|(_, _, input)| *input)
    }
}

/// What an example needs besides its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExampleRequirement {
    /// A web server in the folder, at [`WEB_URL`].
    WebServer,
    /// A language server for the file.
    LanguageServer,
    /// A user who answers.
    User,
    /// A session that continues after a call.
    Session,
}

/// Host and port of the web server of the examples.
pub const WEB_URL: &str = "127.0.0.1:8080";

/// Settings file that allows access to that server, since loopback is not reachable by default.
pub const SETTINGS: &str = "local.json";

const SKILL_FILE: &str = ".agents/skills/shop/SKILL.md";

/// The files that examples use. No line of them contains a `'`, so that a shell command can write
/// them.
pub const FILES: &[(&str, &str)] = &[
    ("notes.txt", "buy milk\n"),
    ("shop.c", "int price(int count) { return 3 * count; }\nint main(void) { return price(2); }\n"),
    ("page.html", "<title>Shop</title><h1>Milk</h1><p>Oat milk costs 3, until noon.</p>\n"),
    (
        "search",
        r#"{"results": [{"title": "Shop", "url": "https://shop.example/", "content": "Oat milk costs 3."}]}
"#,
    ),
    (SKILL_FILE, "---\ndescription: How to shop\n---\nBuy milk first.\n"),
    (
        SETTINGS,
        r#"{"permissions": {"allow": ["WebFetch(domain:127.0.0.1)", "WebSearch"]}, "web": {"search": [{"engine": "searxng", "baseUrl": "http://127.0.0.1:8080/"}]}}
"#,
    ),
];

/// Returns the example of a built-in tool, by its canonical name.
pub fn find_example(tool: &str) -> Option<&'static ToolExample> {
    EXAMPLES.iter().find(|example| example.tool == tool)
}

const fn simple_example(
    tool: &'static str,
    files: &'static [&'static str],
    calls: &'static [(DialectName, &'static str, &'static str)],
) -> ToolExample {
    ToolExample { tool, calls, files, needs: None, earlier: None }
}

const NOTES: &[&str] = &["notes.txt"];
const CODE: &[&str] = &["shop.c"];
const QUESTION: &str = r#"{"questions": [{"question": "Which milk?", "header": "Milk", "options": [{"label": "Oat", "description": "Of oats"}, {"label": "Soy", "description": "Of beans"}]}]}"#;
const FETCH: &str =
    r#"{"url": "http://127.0.0.1:8080/page.html", "prompt": "what oat milk costs"}"#;
const SEARCH: &str = r#"{"query": "price of oat milk"}"#;
const REQUEST: &str = r#"{"url": "http://127.0.0.1:8080/notes.txt", "method": "GET"}"#;

/// The examples, in the order of the tools.
pub const EXAMPLES: &[ToolExample] = &[
    simple_example(
        "Read",
        NOTES,
        &[
            (Canonical, "Read", r#"{"file_path": "notes.txt"}"#),
            (Acp, "read_file", r#"{"path": "notes.txt"}"#),
            (Qwen, "read_file", r#"{"absolute_path": "notes.txt"}"#),
            (Opencode, "read", r#"{"path": "notes.txt"}"#),
        ],
    ),
    simple_example(
        "ReadMany",
        NOTES,
        &[
            (Canonical, "ReadMany", r#"{"paths": ["*.txt"]}"#),
            (Qwen, "read_many_files", r#"{"paths": ["*.txt"]}"#),
        ],
    ),
    simple_example(
        "Write",
        NOTES,
        &[
            (Canonical, "Write", r#"{"file_path": "notes.txt", "content": "buy bread\n"}"#),
            (Acp, "write_file", r#"{"path": "notes.txt", "content": "buy bread\n"}"#),
            (Qwen, "write_file", r#"{"file_path": "notes.txt", "content": "buy bread\n"}"#),
            (Opencode, "write", r#"{"path": "notes.txt", "content": "buy bread\n"}"#),
        ],
    ),
    simple_example(
        "Edit",
        NOTES,
        &[
            (
                Canonical,
                "Edit",
                r#"{"file_path": "notes.txt", "old_string": "milk", "new_string": "oat milk"}"#,
            ),
            (
                Acp,
                "edit_file",
                r#"{"path": "notes.txt", "edits": [{"type": "replace", "oldText": "milk", "newText": "oat milk"}]}"#,
            ),
            (
                Qwen,
                "edit",
                r#"{"file_path": "notes.txt", "old_string": "milk", "new_string": "oat milk"}"#,
            ),
            (
                Opencode,
                "edit",
                r#"{"path": "notes.txt", "oldString": "milk", "newString": "oat milk"}"#,
            ),
        ],
    ),
    simple_example(
        "Delete",
        NOTES,
        &[
            (Canonical, "Delete", r#"{"file_path": "notes.txt"}"#),
            (Acp, "delete_file", r#"{"path": "notes.txt"}"#),
        ],
    ),
    simple_example(
        "LS",
        NOTES,
        &[
            (Canonical, "LS", r#"{"path": ".", "ignore": ["*.json"]}"#),
            (Acp, "list_directory", r#"{"path": "."}"#),
            (Qwen, "list_directory", r#"{"path": "."}"#),
            (Opencode, "list", r#"{"path": "."}"#),
        ],
    ),
    simple_example(
        "Glob",
        NOTES,
        &[
            (Canonical, "Glob", r#"{"pattern": "**/*.txt"}"#),
            (Qwen, "glob", r#"{"pattern": "**/*.txt"}"#),
            (Opencode, "glob", r#"{"pattern": "**/*.txt"}"#),
        ],
    ),
    simple_example(
        "Grep",
        NOTES,
        &[
            (
                Canonical,
                "Grep",
                r#"{"pattern": "milk", "glob": "*.txt", "output_mode": "content"}"#,
            ),
            (Acp, "search_files", r#"{"query": "milk", "includePattern": "*.txt"}"#),
            (Qwen, "grep_search", r#"{"pattern": "milk", "glob": "*.txt"}"#),
            (Opencode, "grep", r#"{"pattern": "milk", "include": "*.txt"}"#),
        ],
    ),
    simple_example(
        "Bash",
        NOTES,
        &[
            (Canonical, "Bash", r#"{"command": "wc -l notes.txt"}"#),
            (Acp, "run_command", r#"{"command": "wc", "args": ["-l", "notes.txt"]}"#),
            (Qwen, "run_shell_command", r#"{"command": "wc -l notes.txt"}"#),
            (Opencode, "bash", r#"{"command": "wc -l notes.txt"}"#),
            (Opencode, "run", r#"{"command": "wc", "args": ["-l", "notes.txt"]}"#),
        ],
    ),
    ToolExample {
        needs: Some(ExampleRequirement::Session),
        earlier: Some(BackgroundJobSetup {
            input: r#"{"command": "echo mixed; exit 3", "run_in_background": true}"#,
            then: JobReadiness::WhenEnded,
        }),
        ..simple_example("BashOutput", &[], &[(Canonical, "BashOutput", r#"{"job_id": "job_1"}"#)])
    },
    ToolExample {
        needs: Some(ExampleRequirement::Session),
        earlier: Some(BackgroundJobSetup {
            input: r#"{"command": "sleep 600", "run_in_background": true}"#,
            then: JobReadiness::WhenStarted,
        }),
        ..simple_example("BashKill", &[], &[(Canonical, "BashKill", r#"{"job_id": "job_1"}"#)])
    },
    ToolExample {
        needs: Some(ExampleRequirement::LanguageServer),
        ..simple_example(
            "LSP",
            CODE,
            &[
                (
                    Canonical,
                    "LSP",
                    r#"{"operation": "goToDefinition", "filePath": "shop.c", "line": 2, "character": 25}"#,
                ),
                (Opencode, "lsp-diagnostics", r#"{"path": "shop.c"}"#),
                (Opencode, "lsp-hover", r#"{"path": "shop.c", "line": 2, "character": 25}"#),
            ],
        )
    },
    ToolExample {
        needs: Some(ExampleRequirement::WebServer),
        ..simple_example(
            "WebFetch",
            &["page.html", SETTINGS],
            &[
                (Canonical, "WebFetch", FETCH),
                (Qwen, "web_fetch", FETCH),
                (Opencode, "webfetch", FETCH),
            ],
        )
    },
    ToolExample {
        needs: Some(ExampleRequirement::WebServer),
        ..simple_example(
            "WebSearch",
            &["search", SETTINGS],
            &[
                (Canonical, "WebSearch", SEARCH),
                (Acp, "web_search", SEARCH),
                (Qwen, "web_search", SEARCH),
                (Opencode, "websearch", SEARCH),
            ],
        )
    },
    ToolExample {
        needs: Some(ExampleRequirement::WebServer),
        ..simple_example(
            "WebRequest",
            &["notes.txt", SETTINGS],
            &[(Canonical, "WebRequest", REQUEST), (Acp, "web_request", REQUEST)],
        )
    },
    simple_example(
        "TodoWrite",
        &[],
        &[
            (
                Canonical,
                "TodoWrite",
                r#"{"todos": [{"content": "Buy milk", "status": "in_progress", "activeForm": "Buying milk"}]}"#,
            ),
            (
                Qwen,
                "todo_write",
                r#"{"todos": [{"id": "1", "content": "Buy milk", "status": "in_progress"}]}"#,
            ),
            (Opencode, "todo", r#"{"todos": [{"content": "Buy milk", "status": "in_progress"}]}"#),
        ],
    ),
    simple_example(
        "Plan",
        &[],
        &[
            (Canonical, "Plan", r#"{"plan": [{"step": "Buy milk", "status": "pending"}]}"#),
            (Opencode, "plan", r#"{"plan": [{"step": "Buy milk", "status": "pending"}]}"#),
        ],
    ),
    simple_example(
        "Memory",
        &[],
        &[
            (
                Canonical,
                "Memory",
                r#"{"action": "save", "name": "milk", "text": "Oat milk is preferred."}"#,
            ),
            (Qwen, "save_memory", r#"{"fact": "Oat milk is preferred."}"#),
        ],
    ),
    simple_example(
        "Skill",
        &[SKILL_FILE],
        &[
            (Canonical, "Skill", r#"{"skill": "shop"}"#),
            (Qwen, "skill", r#"{"skill": "shop"}"#),
            (Opencode, "skill", r#"{"name": "shop"}"#),
        ],
    ),
    ToolExample {
        needs: Some(ExampleRequirement::User),
        ..simple_example(
            "AskUserQuestion",
            &[],
            &[
                (Canonical, "AskUserQuestion", QUESTION),
                (Qwen, "ask_user_question", QUESTION),
                (Opencode, "question", QUESTION),
            ],
        )
    },
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;
    use zero_runtime::dialect::BUILTIN;
    use zero_runtime::{Dialect, ToolRegistry};

    use super::*;

    #[test]
    fn every_tool_name_has_a_valid_example() {
        let registry = ToolRegistry::default();
        registry.add(BUILTIN, crate::builtin_tools()).unwrap();
        let mut called = BTreeSet::new();
        for name in DialectName::ALL {
            let dialect = Dialect::new(name);
            for offered in dialect.list_tools(&registry) {
                let tool = offered.registered.tool.spec().name.as_str();
                let example = find_example(tool).unwrap_or_else(|| panic!("{tool} has no example"));
                let input = example.input_for(name, &offered.name);
                let input = input.unwrap_or_else(|| panic!("{name} has no call of {tool}"));
                let value: Value = serde_json::from_str(input).unwrap();
                let fits = dialect.to_canonical(&offered.name, &offered.registered, value);
                assert!(fits.is_ok(), "{name} {}: {fits:?}", offered.name);
                called.insert(input);
            }
        }
        let missing = crate::missing_tools();
        let is_built = |example: &&ToolExample| !missing.iter().any(|it| it.name == example.tool);
        let built: Vec<&ToolExample> = EXAMPLES.iter().filter(is_built).collect();
        let written = built.iter().flat_map(|example| example.calls);
        for (dialect, name, input) in written {
            assert!(called.contains(input), "{dialect} has no tool {name}");
        }
        let order: Vec<String> =
            crate::builtin_tools().iter().map(|tool| tool.spec().name.to_string()).collect();
        let examples: Vec<&str> = built.iter().map(|example| example.tool).collect();
        assert_eq!(examples, order);
    }

    #[test]
    fn example_files_can_be_written_by_shell() {
        let known: Vec<&str> = FILES.iter().map(|(name, _)| *name).collect();
        for (name, text) in FILES {
            assert!(!text.contains('\'') && text.ends_with('\n'), "{name}");
        }
        for example in EXAMPLES {
            assert!(example.files.iter().all(|file| known.contains(file)), "{}", example.tool);
            let inputs = example.calls.iter().map(|(_, _, input)| *input);
            assert!(inputs.into_iter().all(|input| !input.contains('\'')), "{}", example.tool);
        }
    }
}
