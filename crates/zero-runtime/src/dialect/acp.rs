//! `read_file`, `write_file`, `edit_file`: the names of editors' agents.

use super::shared_fields::{COMMAND_ARGS, COMMAND_TIME, MATCHING_LINES, WEB_QUERY};
use super::tool_mapping::FieldShape::{Count, Edits, Text, TextMap};
use super::tool_mapping::{ToolMapping, always, line, optional, required, says};

const PATH: &str = "Path to the file relative to workspace root";

pub(super) const LINES: &[ToolMapping] = &[
    line(
        "read_file",
        "Read",
        "Read the contents of a file from the workspace",
        &[
            required("path", "file_path", Text, PATH),
            optional("line", "offset", Count, "Line to start from, counted from 1"),
            optional("limit", "limit", Count, "Most lines to read"),
        ],
    ),
    says(
        "File written successfully",
        line(
            "write_file",
            "Write",
            "Create a file or replace its whole content",
            &[
                required("path", "file_path", Text, PATH),
                required("content", "content", Text, "The whole new content of the file"),
            ],
        ),
    ),
    line(
        "list_directory",
        "LS",
        "List the files and folders in a folder; folders end in a slash",
        &[required("path", "path", Text, "Path to the folder relative to workspace root")],
    ),
    always(
        MATCHING_LINES,
        line(
            "search_files",
            "Grep",
            "Search file contents with a regular expression; returns path:line: text for each match",
            &[
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
        ),
    ),
    line(
        "edit_file",
        "Edit",
        "Edit a file with one or more replacements or insertions; either all of them are made or none",
        &[
            required("path", "file_path", Text, PATH),
            required("edits", "edits", Edits, "The edits, made in this order"),
        ],
    ),
    line("delete_file", "Delete", "Delete a file", &[required("path", "file_path", Text, PATH)]),
    line(
        "run_command",
        "Bash",
        "Run a command in the workspace and return what it writes and its exit code",
        &[
            required(
                "command",
                "command",
                Text,
                "The command: a line for a shell, or with args a program",
            ),
            COMMAND_ARGS,
            optional("cwd", "cwd", Text, "Folder to run it in, relative to workspace root"),
            optional("env", "env", TextMap, "Environment variables to set for it"),
            optional("timeout", "timeout", Count, COMMAND_TIME),
        ],
    ),
    line(
        "web_search",
        "WebSearch",
        "Search the web; returns titles, addresses and a few words of each result, which strangers wrote",
        &[WEB_QUERY],
    ),
    line(
        "web_request",
        "WebRequest",
        "Make one HTTP request with a method, headers and a body; returns status, headers and body of the answer. The person sees all of it before it is sent",
        &[
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
    ),
];
