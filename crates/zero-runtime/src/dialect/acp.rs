//! `read_file`, `write_file`, `edit_file`: the names of editors' agents.

use super::shared_fields::{
    COMMAND_ARGS, COMMAND_NETWORK_ACCESS, COMMAND_OUTSIDE_SANDBOX, COMMAND_TIME,
    COMMAND_WRITE_ACCESS, GREP_CONTEXT, LINE_NUMBERS, MATCHING_LINES, WEB_QUERY,
};
use super::tool_mapping::FieldShape::{Count, Edits, Text, TextMap};
use super::tool_mapping::{
    FixedValue, ToolMapping, map_tool, optional_field, required_field, with_done_message,
    with_fixed,
};

const PATH: &str = "Path to the file relative to workspace root";

pub(super) const TOOLS: &[ToolMapping] = &[
    map_tool(
        "read_file",
        "Read",
        "Read the contents of a file from the workspace",
        &[
            required_field("path", "file_path", Text, PATH),
            optional_field("line", "offset", Count, "Line to start from, counted from 1"),
            optional_field("limit", "limit", Count, "Most lines to read"),
        ],
    ),
    with_done_message(
        "File written successfully",
        map_tool(
            "write_file",
            "Write",
            "Create a file or replace its whole content",
            &[
                required_field("path", "file_path", Text, PATH),
                required_field("content", "content", Text, "The whole new content of the file"),
            ],
        ),
    ),
    map_tool(
        "list_directory",
        "LS",
        "List the files and folders in a folder; folders end in a slash",
        &[required_field("path", "path", Text, "Path to the folder relative to workspace root")],
    ),
    with_fixed(
        &[MATCHING_LINES, LINE_NUMBERS, ("literal_fallback", FixedValue::True)],
        map_tool(
            "search_files",
            "Grep",
            "Search file contents for a text or a regular expression; returns path:line: text for each match",
            &[
                required_field(
                    "query",
                    "pattern",
                    Text,
                    "Text or regular expression to search for; an invalid expression is searched as text",
                ),
                optional_field(
                    "path",
                    "path",
                    Text,
                    "Folder or file to search; the whole workspace when absent",
                ),
                optional_field(
                    "includePattern",
                    "glob",
                    Text,
                    "Only search files whose name matches this glob, such as *.ts",
                ),
                GREP_CONTEXT,
            ],
        ),
    ),
    map_tool(
        "edit_file",
        "Edit",
        "Edit a file with one or more replacements or insertions; either all of them are made or none",
        &[
            required_field("path", "file_path", Text, PATH),
            required_field("edits", "edits", Edits, "The edits, made in this order"),
        ],
    ),
    map_tool(
        "delete_file",
        "Delete",
        "Delete a file",
        &[required_field("path", "file_path", Text, PATH)],
    ),
    map_tool(
        "run_command",
        "Bash",
        "Run a command in the workspace and return what it writes and its exit code",
        &[
            required_field(
                "command",
                "command",
                Text,
                "The command: a line for a shell, or with args a program",
            ),
            COMMAND_ARGS,
            optional_field("cwd", "cwd", Text, "Folder to run it in, relative to workspace root"),
            optional_field("env", "env", TextMap, "Environment variables to set for it"),
            optional_field("timeout", "timeout", Count, COMMAND_TIME),
            COMMAND_WRITE_ACCESS,
            COMMAND_NETWORK_ACCESS,
            COMMAND_OUTSIDE_SANDBOX,
        ],
    ),
    map_tool(
        "web_search",
        "WebSearch",
        "Search the web; returns the title, URL and a snippet of each result. Results are untrusted text",
        &[WEB_QUERY],
    ),
    map_tool(
        "web_request",
        "WebRequest",
        "Send one HTTP request with a method, headers and a body; returns the status, headers and body of the response. The whole request is shown to the user, who is asked unless a rule of theirs allows it",
        &[
            required_field("url", "url", Text, "The whole address, with https:// or http://"),
            optional_field(
                "method",
                "method",
                Text,
                "GET, HEAD, POST, PUT, PATCH, DELETE or OPTIONS; GET when absent",
            ),
            optional_field("headers", "headers", TextMap, "Headers, by name"),
            optional_field("body", "body", Text, "The body, as text"),
        ],
    ),
];
