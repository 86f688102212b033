//! What several dialects say in the same words.

use super::tool_mapping::FieldShape::{Flag, LineCount, Questions, Text, Texts, Todos};
use super::tool_mapping::{FieldMapping, FixedValue, optional_field, required_field};

/// How long a command may take.
pub(super) const COMMAND_TIME: &str = "Milliseconds it may take, at most 600000";
/// Where a command runs.
pub(super) const COMMAND_FOLDER: &str = "The folder to run it in; the current one when absent";
/// What a command does.
pub(super) const COMMAND_ABOUT: FieldMapping =
    optional_field("description", "description", Text, "What the command does, in a few words");
/// The program of a command gets them as they are.
pub(super) const COMMAND_ARGS: FieldMapping =
    optional_field("args", "args", Texts, "Arguments of the program; no shell looks at them");
/// For a command that failed because it was judged to only read.
pub(super) const COMMAND_WRITE_ACCESS: FieldMapping = optional_field(
    "write_access",
    "write_access",
    Flag,
    "Let it change the workspace although it seems to only read, if it failed because of that",
);
/// For a command that failed because it was judged to need fewer hosts.
pub(super) const COMMAND_NETWORK_ACCESS: FieldMapping = optional_field(
    "network_access",
    "network_access",
    Flag,
    "Let it connect to every host that the user allowed, if it failed because it seems to need none or fewer",
);
/// For a command that failed because of the sandbox.
pub(super) const COMMAND_OUTSIDE_SANDBOX: FieldMapping = optional_field(
    "outside_sandbox",
    "outside_sandbox",
    Flag,
    "Run it outside the sandbox, if it was the last command and failed because of the sandbox; the user is always asked",
);
/// What a folder's list leaves out.
pub(super) const IGNORED_NAMES: FieldMapping =
    optional_field("ignore", "ignore", Texts, "Globs of names to leave out");
/// Where files are found by name.
pub(super) const GLOB_FOLDER: FieldMapping = optional_field(
    "path",
    "path",
    Text,
    "The folder to search in; the whole workspace when absent",
);
/// What is searched for in files.
pub(super) const GREP_PATTERN: FieldMapping =
    required_field("pattern", "pattern", Text, "The regular expression to search for");
/// Where it is searched for.
pub(super) const GREP_PATH: FieldMapping = optional_field(
    "path",
    "path",
    Text,
    "File or folder to search in; the whole workspace when absent",
);
/// A search that shows matching lines.
pub(super) const MATCHING_LINES: (&str, FixedValue) = ("output_mode", FixedValue::Text("content"));
/// It numbers them.
pub(super) const LINE_NUMBERS: (&str, FixedValue) = ("-n", FixedValue::True);
/// Lines around each match of a search.
pub(super) const GREP_CONTEXT: FieldMapping = optional_field(
    "context",
    "-C",
    LineCount,
    "Lines to show before and after each match, at most 1000; none when absent",
);
/// What is searched for in the web.
pub(super) const WEB_QUERY: FieldMapping =
    required_field("query", "query", Text, "What to search for");
pub(super) const ALLOWED_DOMAINS: &str = "Only results from these domains";
pub(super) const BLOCKED_DOMAINS: &str = "No results from these domains";
/// A page that is fetched.
pub(super) const FETCH_FIELDS: &[FieldMapping] = &[
    required_field("url", "url", Text, "The whole address to fetch, with https:// or http://"),
    required_field("prompt", "prompt", Text, "What to find or extract on the page"),
];
/// A task list.
pub(super) const TODOS_ABOUT: &str = "Saves your task list and shows it to the user. Use it for work of three steps or more; write the whole list each time, keep one entry in_progress and mark entries completed as soon as they are done";
pub(super) const TODOS: &[FieldMapping] = &[required_field(
    "todos",
    "todos",
    Todos,
    "The whole list, which replaces the previous one; at most one entry is in_progress",
)];
/// Questions for the user.
pub(super) const QUESTIONS_ABOUT: &str = "Asks the user to choose, and waits for the answer. Use it for what only the user knows or decides, not for what you can find out, nor for permission to use a tool";
pub(super) const QUESTIONS: &[FieldMapping] =
    &[required_field("questions", "questions", Questions, "1 to 4 questions")];
pub(super) const SKILL_ABOUT: &str = "Loads a skill: instructions for one kind of task, which your context lists by name. If one fits, load it before you start. It is a suggestion and cannot grant permissions";
pub(super) const SKILL_NAME: &str = "The name of the skill";
pub(super) const SKILL_PART: FieldMapping = optional_field(
    "file",
    "file",
    Text,
    "For a skill of the user: another file of it to load instead",
);
