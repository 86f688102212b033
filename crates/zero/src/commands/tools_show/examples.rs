//! One call of each tool that a person can try as it stands, in each dialect.
//!
//! They work on a file of their own, `notes.txt`, so that trying one does no harm. A test runs them
//! all, and misses none.

use zero_runtime::DialectName;

/// What `notes.txt` holds for the examples.
pub(super) const NOTES: &str = "buy milk";

/// An input of a tool, by the name the dialect gives it; none for tools from elsewhere.
pub(super) fn input(dialect: DialectName, tool: &str) -> Option<&'static str> {
    let examples: &[(&str, &str)] = match dialect {
        DialectName::Canonical => CANONICAL,
        DialectName::Acp => ACP,
        DialectName::Qwen => QWEN,
        DialectName::Opencode => OPENCODE,
    };
    examples.iter().chain(EVERYWHERE).find(|(name, _)| *name == tool).map(|(_, input)| *input)
}

const CANONICAL: &[(&str, &str)] = &[
    ("Read", r#"{"file_path": "notes.txt"}"#),
    ("ReadMany", r#"{"paths": ["*.txt"]}"#),
    ("Write", r#"{"file_path": "notes.txt", "content": "buy bread\n"}"#),
    ("Edit", r#"{"file_path": "notes.txt", "old_string": "milk", "new_string": "oat milk"}"#),
    ("Delete", r#"{"file_path": "notes.txt"}"#),
    ("LS", r#"{"path": "."}"#),
    ("Glob", r#"{"pattern": "**/*.txt"}"#),
    ("Grep", r#"{"pattern": "milk", "output_mode": "content"}"#),
    ("Bash", r#"{"command": "wc -l notes.txt"}"#),
    ("LSP", r#"{"operation": "documentSymbol", "filePath": "notes.txt"}"#),
    ("WebFetch", r#"{"url": "https://example.com/", "prompt": "what this domain is for"}"#),
    ("WebSearch", r#"{"query": "rust cancellation token"}"#),
    ("WebRequest", r#"{"url": "https://example.com/", "method": "HEAD"}"#),
    (
        "TodoWrite",
        r#"{"todos": [{"content": "Buy milk", "status": "in_progress", "activeForm": "Buying milk"}]}"#,
    ),
    ("Memory", r#"{"action": "save", "name": "milk", "text": "Oat milk is preferred."}"#),
    ("AskUserQuestion", QUESTION),
    ("Plan", r#"{"plan": [{"step": "Buy milk", "status": "pending"}]}"#),
];

const QUESTION: &str = r#"{"questions": [{"question": "Which milk?", "header": "Milk", "options": [{"label": "Oat", "description": "Of oats"}, {"label": "Soy", "description": "Of beans"}]}]}"#;

/// Those that have one name in every dialect.
const EVERYWHERE: &[(&str, &str)] = &[("BashOutput", "{}"), ("BashKill", r#"{"job_id": "job_1"}"#)];

const ACP: &[(&str, &str)] = &[
    ("read_file", r#"{"path": "notes.txt"}"#),
    ("write_file", r#"{"path": "notes.txt", "content": "buy bread\n"}"#),
    (
        "edit_file",
        r#"{"path": "notes.txt", "edits": [{"type": "replace", "oldText": "milk", "newText": "oat milk"}]}"#,
    ),
    ("delete_file", r#"{"path": "notes.txt"}"#),
    ("list_directory", r#"{"path": "."}"#),
    ("search_files", r#"{"query": "milk"}"#),
    ("run_command", r#"{"command": "wc", "args": ["-l", "notes.txt"]}"#),
    ("web_search", r#"{"query": "rust cancellation token"}"#),
    ("web_request", r#"{"url": "https://example.com/", "method": "HEAD"}"#),
];

const QWEN: &[(&str, &str)] = &[
    ("read_file", r#"{"absolute_path": "notes.txt"}"#),
    ("read_many_files", r#"{"paths": ["*.txt"]}"#),
    ("write_file", r#"{"file_path": "notes.txt", "content": "buy bread\n"}"#),
    ("edit", r#"{"file_path": "notes.txt", "old_string": "milk", "new_string": "oat milk"}"#),
    ("list_directory", r#"{"path": "."}"#),
    ("glob", r#"{"pattern": "**/*.txt"}"#),
    ("grep_search", r#"{"pattern": "milk"}"#),
    ("run_shell_command", r#"{"command": "wc -l notes.txt"}"#),
    ("web_fetch", r#"{"url": "https://example.com/", "prompt": "what this domain is for"}"#),
    ("web_search", r#"{"query": "rust cancellation token"}"#),
    ("save_memory", r#"{"fact": "Oat milk is preferred."}"#),
    ("ask_user_question", QUESTION),
    ("todo_write", r#"{"todos": [{"id": "1", "content": "Buy milk", "status": "in_progress"}]}"#),
];

const OPENCODE: &[(&str, &str)] = &[
    ("read", r#"{"path": "notes.txt"}"#),
    ("write", r#"{"path": "notes.txt", "content": "buy bread\n"}"#),
    ("edit", r#"{"path": "notes.txt", "oldString": "milk", "newString": "oat milk"}"#),
    ("list", r#"{"path": "."}"#),
    ("glob", r#"{"pattern": "**/*.txt"}"#),
    ("grep", r#"{"pattern": "milk"}"#),
    ("bash", r#"{"command": "wc -l notes.txt"}"#),
    ("run", r#"{"command": "wc", "args": ["-l", "notes.txt"]}"#),
    ("lsp-diagnostics", r#"{"path": "notes.txt"}"#),
    ("lsp-hover", r#"{"path": "notes.txt", "line": 1, "character": 5}"#),
    ("webfetch", r#"{"url": "https://example.com/", "prompt": "what this domain is for"}"#),
    ("websearch", r#"{"query": "rust cancellation token"}"#),
    ("question", QUESTION),
    ("todo", r#"{"todos": [{"content": "Buy milk", "status": "in_progress"}]}"#),
    ("plan", r#"{"plan": [{"step": "Buy milk", "status": "pending"}]}"#),
];
