//! `read_file`, `write_file`, `edit_file`: the names of editors' agents.

use super::table::Shape::{Count, Edits, Text, TextMap, Texts};
use super::table::{Fixed, Line, optional, required};

const PATH: &str = "Path to the file relative to workspace root";

pub(super) const LINES: &[Line] = &[
    Line {
        name: "read_file",
        canonical: "Read",
        about: "Read the contents of a file from the workspace",
        fields: &[
            required("path", "file_path", Text, PATH),
            optional("line", "offset", Count, "Line to start from, counted from 1"),
            optional("limit", "limit", Count, "Most lines to read"),
        ],
        fixed: &[],
        done: None,
    },
    Line {
        name: "write_file",
        canonical: "Write",
        about: "Create a file or replace its whole content",
        fields: &[
            required("path", "file_path", Text, PATH),
            required("content", "content", Text, "The whole new content of the file"),
        ],
        fixed: &[],
        done: Some("File written successfully"),
    },
    Line {
        name: "list_directory",
        canonical: "LS",
        about: "List the files and folders in a folder; folders end in a slash",
        fields: &[required("path", "path", Text, "Path to the folder relative to workspace root")],
        fixed: &[],
        done: None,
    },
    Line {
        name: "search_files",
        canonical: "Grep",
        about: "Search file contents with a regular expression; returns path:line: text for each match",
        fields: &[
            required("query", "pattern", Text, "Regular expression to search for"),
            optional(
                "path",
                "path",
                Text,
                "Folder or file to search; the whole workspace when absent",
            ),
            optional(
                "includePattern",
                "glob",
                Text,
                "Only search files whose name matches this glob, such as *.ts",
            ),
        ],
        fixed: &[("output_mode", Fixed::Text("content")), ("-n", Fixed::Yes)],
        done: None,
    },
    Line {
        name: "edit_file",
        canonical: "Edit",
        about: "Edit a file with one or more replacements or insertions; either all of them are made or none",
        fields: &[
            required("path", "file_path", Text, PATH),
            required("edits", "edits", Edits, "The edits, made in this order"),
        ],
        fixed: &[],
        done: None,
    },
    Line {
        name: "delete_file",
        canonical: "Delete",
        about: "Delete a file",
        fields: &[required("path", "file_path", Text, PATH)],
        fixed: &[],
        done: None,
    },
    Line {
        name: "run_command",
        canonical: "Bash",
        about: "Run a command in the workspace and return what it writes and its exit code",
        fields: &[
            required(
                "command",
                "command",
                Text,
                "The command: a line for a shell, or with args a program",
            ),
            optional("args", "args", Texts, "Arguments of the program; no shell looks at them"),
            optional("cwd", "cwd", Text, "Folder to run it in, relative to workspace root"),
            optional("env", "env", TextMap, "Environment variables to set for it"),
            optional("timeout", "timeout", Count, "Milliseconds it may take, at most 600000"),
        ],
        fixed: &[],
        done: None,
    },
    Line {
        name: "web_search",
        canonical: "WebSearch",
        about: "Search the web; returns titles, addresses and a few words of each result, which strangers wrote",
        fields: &[required("query", "query", Text, "What to search for")],
        fixed: &[],
        done: None,
    },
    Line {
        name: "web_request",
        canonical: "WebRequest",
        about: "Make one HTTP request with a method, headers and a body; returns status, headers and body of the answer. The person sees all of it before it is sent",
        fields: &[
            required("url", "url", Text, "The whole address, with https:// or http://"),
            optional(
                "method",
                "method",
                Text,
                "GET, HEAD, POST, PUT, PATCH, DELETE or OPTIONS; GET when absent",
            ),
            optional("headers", "headers", TextMap, "Headers, by name"),
            optional("body", "body", Text, "The body, as text"),
        ],
        fixed: &[],
        done: None,
    },
];
