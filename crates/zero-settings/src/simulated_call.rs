//! Derives the effects of a call from its tool name and input, without the tool.
//!
//! `zero policy` evaluates calls that are never run, for files that may not exist and tools that this
//! build may not have. Only the parts of the input that rules can match are read: paths, commands and
//! hosts. A test compares the result with the effects that the real tools declare.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use url::Url;
use zero_core::text_shortening::excerpt;
use zero_core::{
    CommandExecution, CommandLine, Effect, Effects, PathZone, RiskLevel, TargetPath,
    ToolDefinitionState,
};
use zero_policy::{DecisionRequest, GrantScope, Machine};
use zero_runtime::DialectName;
use zero_runtime::notes::{NoteName, NoteScope};
use zero_sandbox::FinalLinkMode;

/// Prefix of tools that a project's command provides. A test compares it with the prefix in
/// zero-tools.
const PREFIX: &str = "cmd";

/// A call as the policy engine evaluates it.
#[derive(Clone, Debug)]
pub struct SimulatedCall {
    /// The tool by its canonical name, or a remote one by `alias__tool`.
    pub tool: String,
    /// Its risk before the input is inspected.
    pub risk: RiskLevel,
    /// The effects it would have.
    pub effects: Effects,
}

/// The context in which a call would be made.
pub struct SimulationContext<'a> {
    /// Canonical folders of the workspace; relative paths start in the first.
    pub roots: &'a [PathBuf],
    /// The home folder, which replaces `~`.
    pub home: Option<&'a Path>,
    /// Facts about the machine.
    pub machine: &'a dyn Machine,
}

/// How a tool uses its input.
#[derive(Clone, Copy)]
enum InputRole {
    Read,
    /// Reads a folder; the workspace by default.
    ReadFolder,
    /// Reads a list of files and patterns.
    ReadMany,
    Write,
    /// Reads and writes a file.
    Edit,
    Delete,
    Command,
    Url,
    State(&'static str),
    /// Reads the output of a job, and may write to its stdin, which may be a shell.
    Job,
    Ask,
    /// Reads or changes notes; file rules do not apply.
    Memory,
    /// Has no input that rules can match.
    Nothing,
}

/// A canonical tool and its names on other platforms.
struct KnownTool {
    tool: &'static str,
    risk: RiskLevel,
    used: InputRole,
    names: &'static [(&'static str, &'static [DialectName])],
}

const ACP: &[DialectName] = &[DialectName::Acp];
const QWEN: &[DialectName] = &[DialectName::Qwen];
const OPENCODE: &[DialectName] = &[DialectName::Opencode];
const ACP_QWEN: &[DialectName] = &[DialectName::Acp, DialectName::Qwen];
const QWEN_OPENCODE: &[DialectName] = &[DialectName::Qwen, DialectName::Opencode];

const KNOWN_TOOLS: &[KnownTool] = &[
    KnownTool {
        tool: "Read",
        risk: RiskLevel::Low,
        used: InputRole::Read,
        names: &[("read_file", ACP_QWEN), ("read", OPENCODE)],
    },
    KnownTool {
        tool: "ReadMany",
        risk: RiskLevel::Low,
        used: InputRole::ReadMany,
        names: &[("read_many_files", QWEN)],
    },
    KnownTool {
        tool: "Write",
        risk: RiskLevel::Medium,
        used: InputRole::Write,
        names: &[("write_file", ACP_QWEN), ("write", OPENCODE)],
    },
    KnownTool {
        tool: "Edit",
        risk: RiskLevel::Medium,
        used: InputRole::Edit,
        names: &[("edit_file", ACP), ("edit", QWEN_OPENCODE)],
    },
    KnownTool {
        tool: "Delete",
        risk: RiskLevel::Critical,
        used: InputRole::Delete,
        names: &[("delete_file", ACP)],
    },
    KnownTool {
        tool: "LS",
        risk: RiskLevel::Low,
        used: InputRole::ReadFolder,
        names: &[("list_directory", ACP_QWEN), ("list", OPENCODE)],
    },
    KnownTool {
        tool: "Glob",
        risk: RiskLevel::Low,
        used: InputRole::ReadFolder,
        names: &[("glob", QWEN_OPENCODE)],
    },
    KnownTool {
        tool: "Grep",
        risk: RiskLevel::Low,
        used: InputRole::ReadFolder,
        names: &[("search_files", ACP), ("grep_search", QWEN), ("grep", OPENCODE)],
    },
    KnownTool {
        tool: "Bash",
        risk: RiskLevel::High,
        used: InputRole::Command,
        names: &[
            ("run_command", ACP),
            ("run_shell_command", QWEN),
            ("bash", OPENCODE),
            ("run", OPENCODE),
        ],
    },
    KnownTool { tool: "BashOutput", risk: RiskLevel::Low, used: InputRole::Job, names: &[] },
    KnownTool {
        tool: "BashKill",
        risk: RiskLevel::Medium,
        used: InputRole::State("a job"),
        names: &[],
    },
    KnownTool {
        tool: "LSP",
        risk: RiskLevel::Low,
        used: InputRole::Read,
        names: &[("lsp-diagnostics", OPENCODE), ("lsp-hover", OPENCODE)],
    },
    KnownTool {
        tool: "TodoWrite",
        risk: RiskLevel::Low,
        used: InputRole::State("the task list"),
        names: &[("todo_write", QWEN), ("todo", OPENCODE)],
    },
    KnownTool {
        tool: "Plan",
        risk: RiskLevel::Low,
        used: InputRole::State("the plan"),
        names: &[("plan", OPENCODE)],
    },
    KnownTool {
        tool: "Memory",
        risk: RiskLevel::Medium,
        used: InputRole::Memory,
        names: &[("save_memory", QWEN)],
    },
    KnownTool {
        tool: "WebFetch",
        risk: RiskLevel::Medium,
        used: InputRole::Url,
        names: &[("web_fetch", QWEN), ("webfetch", OPENCODE)],
    },
    KnownTool {
        tool: "WebSearch",
        risk: RiskLevel::Medium,
        used: InputRole::Nothing,
        names: &[("web_search", ACP_QWEN), ("websearch", OPENCODE)],
    },
    KnownTool {
        tool: "WebRequest",
        risk: RiskLevel::High,
        used: InputRole::Url,
        names: &[("web_request", ACP)],
    },
    KnownTool {
        tool: "AskUserQuestion",
        risk: RiskLevel::Low,
        used: InputRole::Ask,
        names: &[("ask_user_question", QWEN), ("question", OPENCODE)],
    },
];

/// Names of path fields on all platforms.
const PATH_FIELDS: &[&str] = &["file_path", "path", "filePath", "absolute_path", "filepath"];
/// Names of the working folder field of commands.
const FOLDER_FIELDS: &[&str] = &["cwd", "directory", "workdir", "working_directory", "dir"];
const COMMAND_FIELDS: &[&str] = &["command", "cmd"];
const URL_FIELDS: &[&str] = &["url", "uri"];
/// Field with text for the stdin of a job.
const STDIN_FIELD: &str = "stdin";
const PATHS_FIELDS: &[&str] = &["paths", "include", "files"];

impl SimulatedCall {
    /// The effects of calling `tool` with `input`. The error says what is wrong with the call.
    pub fn new(
        tool: &str,
        input: &Value,
        dialect: Option<DialectName>,
        place: &SimulationContext<'_>,
    ) -> Result<Self, String> {
        let Value::Object(fields) = input else {
            return Err("the input must be a JSON object".to_owned());
        };
        if let Some(line) = find_known_tool(tool, dialect)? {
            let effects = place.resolve_effects(line, fields)?;
            return Ok(Self { tool: line.tool.to_owned(), risk: line.risk, effects });
        }
        let remote = tool.strip_prefix("mcp__").unwrap_or(tool);
        match remote.split_once("__") {
            Some((PREFIX, _)) => Err(format!(
                "the command of `{remote}` is not known; run `zero tools refresh` to discover command tools"
            )),
            Some((server, name)) if !server.is_empty() && !name.is_empty() => {
                let effect = Effect::Mcp {
                    server: server.to_owned(),
                    tool: name.to_owned(),
                    definition: ToolDefinitionState::Steady,
                };
                Ok(Self { tool: remote.to_owned(), risk: RiskLevel::High, effects: vec![effect] })
            }
            _ => Err(unknown_tool_message(tool)),
        }
    }

    /// A call of which only the effects are known.
    pub fn from_effects(tool: &str, effects: Effects) -> Self {
        let line = KNOWN_TOOLS.iter().find(|line| line.tool == tool);
        Self {
            tool: tool.to_owned(),
            risk: line.map_or(RiskLevel::High, |line| line.risk),
            effects,
        }
    }

    /// The request for the policy engine.
    pub fn to_request<'a>(
        &'a self,
        grants: &'a [GrantScope],
        machine: &'a dyn Machine,
    ) -> DecisionRequest<'a> {
        let Self { tool, risk, effects } = self;
        DecisionRequest { tool, risk: *risk, effects, grants, mode: None, world: machine }
    }
}

/// The fields of an input that policy may match, whatever the tool.
pub fn relevant_fields(input: &Value) -> impl Iterator<Item = &Value> {
    let lists = [PATH_FIELDS, FOLDER_FIELDS, COMMAND_FIELDS, URL_FIELDS, PATHS_FIELDS];
    let names = lists.into_iter().flatten().copied().chain(["args", "env", "edits", STDIN_FIELD]);
    names.filter_map(|name| input.get(name))
}

/// Finds a tool by its name in one dialect, or in any.
fn find_known_tool(
    name: &str,
    dialect: Option<DialectName>,
) -> Result<Option<&'static KnownTool>, String> {
    if let Some(line) = KNOWN_TOOLS.iter().find(|line| line.tool == name) {
        return Ok(Some(line));
    }
    let named = KNOWN_TOOLS.iter().find_map(|line| {
        line.names.iter().find(|(theirs, _)| *theirs == name).map(|(_, of)| (line, *of))
    });
    match (named, dialect) {
        (Some((_, of)), Some(dialect)) if !of.contains(&dialect) => {
            let of: Vec<&str> = of.iter().map(|dialect| dialect.as_str()).collect();
            Err(format!(
                "`{name}` is not a tool of dialect `{dialect}`, but of {}",
                of.join(" and ")
            ))
        }
        (named, _) => Ok(named.map(|(line, _)| line)),
    }
}

fn unknown_tool_message(tool: &str) -> String {
    let shown = excerpt(tool, 80);
    let names = KNOWN_TOOLS.iter().flat_map(|line| {
        std::iter::once(line.tool).chain(line.names.iter().map(|(name, _)| *name))
    });
    let near = zero_runtime::name_suggestions::suggest_names(tool, names, 3);
    let hint = match &near[..] {
        [] => "write tools of MCP servers as `alias__tool`".to_owned(),
        near => format!("did you mean {}?", near.join(", ")),
    };
    format!("there is no tool `{shown}`; {hint}")
}

impl SimulationContext<'_> {
    fn resolve_effects(
        &self,
        line: &KnownTool,
        fields: &Map<String, Value>,
    ) -> Result<Effects, String> {
        Ok(match line.used {
            InputRole::Read => {
                self.resolve_paths(line, fields)?.into_iter().map(Effect::Read).collect()
            }
            InputRole::ReadFolder => match single_text(fields, PATH_FIELDS)? {
                None => vec![Effect::Read(self.resolve_target(".", FinalLinkMode::Follow)?)],
                Some(_) => {
                    self.resolve_paths(line, fields)?.into_iter().map(Effect::Read).collect()
                }
            },
            InputRole::ReadMany => self.read_many_effects(fields)?,
            InputRole::Write => {
                self.resolve_paths(line, fields)?.into_iter().map(Effect::Write).collect()
            }
            InputRole::Edit => {
                let paths = self.resolve_paths(line, fields)?;
                let both = |path: TargetPath| [Effect::Read(path.clone()), Effect::Write(path)];
                paths.into_iter().flat_map(both).collect()
            }
            InputRole::Delete => {
                self.resolve_paths(line, fields)?.into_iter().map(Effect::Delete).collect()
            }
            InputRole::Command => vec![Effect::Exec(self.resolve_execution(fields)?)],
            InputRole::Url => {
                let url =
                    single_text(fields, URL_FIELDS)?.ok_or_else(|| missing_field_message("url"))?;
                // Rules match only the host, so an example may be just a host name.
                let host = Url::parse(&url).ok().and_then(|url| Some(url.host_str()?.to_owned()));
                vec![Effect::Net(host.unwrap_or(url))]
            }
            InputRole::State(what) => vec![Effect::State(what.to_owned())],
            InputRole::Job => {
                let text = single_text(fields, &[STDIN_FIELD])?;
                let reader = || CommandExecution {
                    command: CommandLine::Program(vec!["sh".to_owned(), "-s".to_owned()]),
                    folder: None,
                    variables: Vec::new(),
                };
                let sent = text
                    .into_iter()
                    .flat_map(|text| [CommandExecution::from_shell(text), reader()]);
                let sent = sent.map(Effect::Exec);
                std::iter::once(Effect::State("a job".to_owned())).chain(sent).collect()
            }
            InputRole::Ask => vec![Effect::Ask],
            InputRole::Memory => match single_text(fields, &["action"])?.as_deref() {
                Some("list" | "read" | "search") => {
                    vec![Effect::State("what is recalled".to_owned())]
                }
                action => self.note_effects(action == Some("forget"), fields)?,
            },
            InputRole::Nothing => Vec::new(),
        })
    }

    /// What saving or forgetting a note does; fails if its name is missing or invalid.
    fn note_effects(&self, forgets: bool, fields: &Map<String, Value>) -> Result<Effects, String> {
        let name = match single_text(fields, &["name"])? {
            Some(name) => NoteName::new(&name).map_err(|error| error.to_string())?,
            None if forgets => return Err(missing_field_message("name")),
            None => {
                NoteName::from_text(&single_text(fields, &["text", "fact"])?.unwrap_or_default())
            }
        };
        let scopes = match single_text(fields, &["scope"])?.as_deref() {
            Some("user" | "global") => &[NoteScope::User][..],
            None if forgets => &NoteScope::ALL,
            _ => &[NoteScope::Project],
        };
        let root = self.roots.first().map_or(Path::new("/"), PathBuf::as_path);
        Ok(scopes
            .iter()
            .map(|scope| Effect::Note(scope.note_change(&name, forgets, root)))
            .collect())
    }

    fn resolve_paths(
        &self,
        line: &KnownTool,
        fields: &Map<String, Value>,
    ) -> Result<Vec<TargetPath>, String> {
        let mut written: Vec<String> = single_text(fields, PATH_FIELDS)?.into_iter().collect();
        // Each of several edits in one call may name a file.
        if let Some(Value::Array(edits)) = fields.get("edits") {
            for edit in edits.iter().filter_map(Value::as_object) {
                written.extend(single_text(edit, PATH_FIELDS)?);
            }
        }
        if written.is_empty() {
            let name = if line.tool == "LSP" { "filePath" } else { "file_path" };
            return Err(missing_field_message(name));
        }
        let last = if line.tool == "Delete" { FinalLinkMode::Keep } else { FinalLinkMode::Follow };
        written.iter().map(|written| self.resolve_target(written, last)).collect()
    }

    /// Effects of reading files and patterns.
    fn read_many_effects(&self, fields: &Map<String, Value>) -> Result<Effects, String> {
        let mut written = Vec::new();
        for name in PATHS_FIELDS {
            match fields.get(*name) {
                None => {}
                Some(Value::Array(items)) => {
                    for item in items {
                        let text = item
                            .as_str()
                            .ok_or_else(|| wrong_field_message(name, "a list of strings"))?;
                        written.push(text.to_owned());
                    }
                }
                Some(_) => return Err(wrong_field_message(name, "a list of strings")),
            }
        }
        if written.is_empty() {
            return Err(missing_field_message("paths"));
        }
        let mut effects = Effects::new();
        for written in &written {
            let effect = Effect::Read(self.resolve_pattern(written)?);
            if !effects.contains(&effect) {
                effects.push(effect);
            }
        }
        Ok(effects)
    }

    /// Resolves a pattern to the root it is in, or to a file with exactly that name. The tool rejects
    /// patterns that leave the workspace; here they resolve to the folder they start in.
    fn resolve_pattern(&self, written: &str) -> Result<TargetPath, String> {
        let Some(special) = written.find(['*', '?', '[', '{']) else {
            return self.resolve_target(written, FinalLinkMode::Follow);
        };
        if let Ok(target) = self.resolve_target(written, FinalLinkMode::Follow)
            && self.path_exists(target.canonical())
        {
            return Ok(target);
        }
        let has_dots = written.split('/').any(|part| part == "..");
        let root = match written.as_bytes().first() {
            _ if has_dots => None,
            Some(b'~') => None,
            Some(b'/') => {
                let holds = |root: &&PathBuf| Path::new(written).starts_with(root);
                self.roots.iter().filter(holds).max_by_key(|root| root.as_os_str().len())
            }
            _ => self.roots.first(),
        };
        if let Some(root) = root {
            return self.resolve_target(&root.to_string_lossy(), FinalLinkMode::Follow);
        }
        let start = match written.get(..special).and_then(|start| start.rfind('/')) {
            Some(0) => "/",
            Some(end) => written.get(..end).unwrap_or("/"),
            None => ".",
        };
        self.resolve_target(start, FinalLinkMode::Follow)
    }

    fn path_exists(&self, path: &Path) -> bool {
        let Some(path) = path.to_str() else { return false };
        let mut pattern = String::with_capacity(path.len());
        for letter in path.chars() {
            if matches!(letter, '*' | '?' | '[' | ']' | '\\') {
                pattern.push('\\');
            }
            pattern.push(letter);
        }
        self.machine.expand_glob(&pattern, 1).is_some_and(|found| !found.is_empty())
    }

    fn resolve_execution(&self, fields: &Map<String, Value>) -> Result<CommandExecution, String> {
        let Some(command) = single_text(fields, COMMAND_FIELDS)? else {
            return Err(missing_field_message("command"));
        };
        let command = match fields.get("args") {
            None | Some(Value::Null) => CommandLine::Shell(command),
            Some(Value::Array(args)) => {
                let mut argv = vec![command];
                for arg in args {
                    let arg = arg
                        .as_str()
                        .ok_or_else(|| wrong_field_message("args", "a list of strings"))?;
                    argv.push(arg.to_owned());
                }
                CommandLine::Program(argv)
            }
            Some(_) => return Err(wrong_field_message("args", "a list of strings")),
        };
        let folder = single_text(fields, FOLDER_FIELDS)?;
        let folder =
            folder.map(|folder| self.resolve_target(&folder, FinalLinkMode::Follow)).transpose()?;
        let variables = match fields.get("env") {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Object(env)) => {
                let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                env.iter().map(|(name, value)| (name.clone(), text(value))).collect()
            }
            Some(_) => return Err(wrong_field_message("env", "an object with string values")),
        };
        Ok(CommandExecution { command, folder, variables })
    }

    fn resolve_target(&self, written: &str, last: FinalLinkMode) -> Result<TargetPath, String> {
        if written.is_empty() {
            return Err("the path is empty; pass a file or folder".to_owned());
        }
        if written.contains('\0') {
            return Err("the path contains a NUL character".to_owned());
        }
        let cwd = self.roots.first().map_or(Path::new("/"), PathBuf::as_path);
        let below_home = written.strip_prefix("~/").or((written == "~").then_some(""));
        let raw = match (below_home, self.home) {
            (Some(below), Some(home)) => home.join(below),
            _ => cwd.join(written),
        };
        let canonical = match (last, raw.parent(), raw.file_name()) {
            (FinalLinkMode::Keep, Some(folder), Some(name)) => {
                self.machine.canonicalize(folder).map(|folder| folder.join(name))
            }
            _ => self.machine.canonicalize(&raw),
        };
        let canonical = canonical.ok_or_else(|| format!("could not resolve `{written}`: it has a symlink loop, or a special link of the kernel"))?;
        let inside = self.roots.iter().any(|root| canonical.starts_with(root));
        let whereabouts = if inside { PathZone::Workspace } else { PathZone::Outside };
        Ok(TargetPath::new(written, canonical, whereabouts))
    }
}

/// Value of the one field of these that is present. Two different values are an error.
fn single_text(fields: &Map<String, Value>, names: &[&str]) -> Result<Option<String>, String> {
    let mut found: Option<(&str, &String)> = None;
    for name in names {
        match (fields.get(*name), found) {
            (None | Some(Value::Null), _) => {}
            (Some(Value::String(text)), Some((other, earlier))) if text != earlier => {
                return Err(format!(
                    "`{other}` and `{name}` of the input differ; keep one of them"
                ));
            }
            (Some(Value::String(text)), _) => found = Some((name, text)),
            (Some(_), _) => return Err(wrong_field_message(name, "a string")),
        }
    }
    Ok(found.map(|(_, text)| text.clone()))
}

fn missing_field_message(field: &str) -> String {
    format!("the input has no `{field}`")
}

fn wrong_field_message(field: &str, wanted: &str) -> String {
    format!("`{field}` of the input must be {wanted}")
}

#[cfg(test)]
mod tests;
