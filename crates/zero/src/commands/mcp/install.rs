//! `zero mcp install`: prints or writes the configuration that makes another program use zero's tools.
//!
//! The file belongs to another program. zero changes only its own entry. It does not change a file
//! that it cannot parse, or an entry of the same name with other content.

use std::path::Path;

use anyhow::Context;
use serde_json::{Map, Value, json};
use zero_runtime::DialectName;
use zero_sandbox::{ConfigFile, ConfigFileError, Workspace, config_file};
use zero_settings::document::SettingsDocument;
use zero_settings::edit::{self, ValueEdit};
use zero_settings::layer::{describe_read_error, display_path};

use crate::AppContext;
use crate::cli::{McpClientProgram, McpInstallArgs};
use crate::exit::{ExitOutcome, UsageError};
use crate::terminal::escape_line;

/// Largest file that zero changes, in bytes. Some programs keep their history in the same file.
const FILE_BYTES_MAX: u64 = 32_000_000;
/// How long Goose waits for a call, in seconds: longer than the longest command.
const GOOSE_TIMEOUT_SECONDS: u64 = 900;
/// Lock file held while the file changes.
const LOCK: &str = "install.lock";

/// How a client writes its settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClientSyntax {
    /// JSON, perhaps with comments; edited in place.
    Json,
    /// TOML; a table is appended.
    Toml,
    /// YAML; only created.
    Yaml,
}

/// Where a client keeps its servers.
struct ClientFormat {
    syntax: ClientSyntax,
    /// Key of the list of servers.
    section: &'static str,
    /// The user's file, below the home folder or below `~/.config`.
    own: OwnClientFile,
    /// The file of a project, if the client has one.
    project: Option<&'static str>,
}

enum OwnClientFile {
    InHome(&'static str),
    InConfig(&'static str),
}

fn client_format(client: McpClientProgram) -> ClientFormat {
    use ClientSyntax::{Json, Toml, Yaml};
    use OwnClientFile::{InConfig, InHome};
    let (syntax, section, own, project) = match client {
        McpClientProgram::Claude => (Json, "mcpServers", InHome(".claude.json"), ".mcp.json"),
        McpClientProgram::Codex => {
            (Toml, "mcp_servers", InHome(".codex/config.toml"), ".codex/config.toml")
        }
        McpClientProgram::Cursor => {
            (Json, "mcpServers", InHome(".cursor/mcp.json"), ".cursor/mcp.json")
        }
        McpClientProgram::Gemini => {
            (Json, "mcpServers", InHome(".gemini/settings.json"), ".gemini/settings.json")
        }
        McpClientProgram::Goose => (Yaml, "extensions", InConfig("goose/config.yaml"), ""),
        McpClientProgram::Jetbrains => {
            (Json, "mcpServers", InHome(".junie/mcp/mcp.json"), ".junie/mcp/mcp.json")
        }
        McpClientProgram::Opencode => {
            (Json, "mcp", InConfig("opencode/opencode.json"), "opencode.json")
        }
        McpClientProgram::Qwen => {
            (Json, "mcpServers", InHome(".qwen/settings.json"), ".qwen/settings.json")
        }
        McpClientProgram::Vscode => {
            (Json, "servers", InConfig("Code/User/mcp.json"), ".vscode/mcp.json")
        }
        McpClientProgram::Windsurf => {
            (Json, "mcpServers", InHome(".codeium/windsurf/mcp_config.json"), "")
        }
        McpClientProgram::Zed => {
            (Json, "context_servers", InConfig("zed/settings.json"), ".zed/settings.json")
        }
    };
    ClientFormat { syntax, section, own, project: Some(project).filter(|path| !path.is_empty()) }
}

pub(super) fn run(app: &AppContext, args: &McpInstallArgs) -> anyhow::Result<ExitOutcome> {
    let workspace = app.config.open_workspace(args.workspace.as_slice())?;
    let format = client_format(args.client);
    let file = client_config_file(app, args, &format, &workspace)?;
    let entry = server_entry(app, args, &workspace)?;
    let path = display_path(&file.path(), app.config.home());
    if args.write {
        return write_entry(app, args, &format, &file, &path, &entry);
    }
    app.terminal.print_note(&format!("add this to {path}, or pass `--write`"));
    match format.syntax {
        ClientSyntax::Json => {
            let whole = json!({ format.section: { &args.name: entry } });
            app.terminal.out.write_pretty_json(&whole)?;
        }
        ClientSyntax::Toml => app.terminal.out.write(&toml_table(&format, &args.name, &entry))?,
        ClientSyntax::Yaml => app.terminal.out.write(&yaml_text(&format, &args.name, &entry))?,
    }
    Ok(ExitOutcome::Ok)
}

/// Configuration file of the client, for the user or for the project.
fn client_config_file(
    app: &AppContext,
    args: &McpInstallArgs,
    format: &ClientFormat,
    workspace: &Workspace,
) -> Result<ConfigFile, UsageError> {
    if args.project {
        let Some(relative) = format.project else {
            return Err(UsageError(
                "this program has no servers of a project; leave out `--project`".to_owned(),
            ));
        };
        let root = workspace.cwd().to_owned();
        return Ok(ConfigFile::Beneath { root, relative: relative.into() });
    }
    let no_home =
        || UsageError("cannot locate your settings; set HOME to an absolute path".to_owned());
    Ok(ConfigFile::Own(match format.own {
        OwnClientFile::InHome(path) => app.config.home().ok_or_else(no_home)?.join(path),
        OwnClientFile::InConfig(path) => app.config.config_home().ok_or_else(no_home)?.join(path),
    }))
}

/// Entry that makes the client start zero.
fn server_entry(
    app: &AppContext,
    args: &McpInstallArgs,
    workspace: &Workspace,
) -> anyhow::Result<Value> {
    let program = app.config.program().filter(|program| program.is_file());
    let program = program.and_then(Path::to_str).context(
        "cannot locate the zero program, or its path is not UTF-8; start zero by its full path",
    )?;
    let mut words = vec!["mcp".to_owned()];
    if args.dialect != DialectName::Canonical {
        words.extend(["--dialect".to_owned(), args.dialect.as_str().to_owned()]);
    }
    if args.workspace.is_some() {
        let folder = workspace.cwd().to_str().ok_or_else(|| {
            UsageError("the path of the workspace is not UTF-8; rename the folder".to_owned())
        })?;
        words.extend(["--workspace".to_owned(), folder.to_owned()]);
    }
    let mut entry = Map::new();
    match args.client {
        McpClientProgram::Claude | McpClientProgram::Vscode => {
            entry.insert("type".to_owned(), json!("stdio"));
        }
        McpClientProgram::Zed => {
            entry.insert("source".to_owned(), json!("custom"));
        }
        McpClientProgram::Goose => {
            entry.insert("type".to_owned(), json!("stdio"));
            entry.insert("name".to_owned(), json!(args.name));
            entry.insert("enabled".to_owned(), json!(true));
            entry.insert("timeout".to_owned(), json!(GOOSE_TIMEOUT_SECONDS));
        }
        McpClientProgram::Opencode => {
            entry.insert("type".to_owned(), json!("local"));
            words.insert(0, program.to_owned());
            entry.insert("command".to_owned(), json!(words));
            return Ok(Value::Object(entry));
        }
        McpClientProgram::Codex
        | McpClientProgram::Cursor
        | McpClientProgram::Gemini
        | McpClientProgram::Jetbrains
        | McpClientProgram::Qwen
        | McpClientProgram::Windsurf => {}
    }
    let command = if args.client == McpClientProgram::Goose { "cmd" } else { "command" };
    entry.insert(command.to_owned(), json!(program));
    entry.insert("args".to_owned(), json!(words));
    Ok(Value::Object(entry))
}

/// A table of a TOML file. A text is written the same way in JSON and TOML.
fn toml_table(format: &ClientFormat, name: &str, entry: &Value) -> String {
    let mut text = format!("[{}.{name}]\n", format.section);
    for (key, value) in entry.as_object().into_iter().flatten() {
        text += &format!("{key} = {value}\n");
    }
    text
}

/// A YAML file with one server. JSON values are YAML.
fn yaml_text(format: &ClientFormat, name: &str, entry: &Value) -> String {
    let mut text = format!("{}:\n  {name}:\n", format.section);
    for (key, value) in entry.as_object().into_iter().flatten() {
        text += &format!("    {key}: {value}\n");
    }
    text
}

fn write_entry(
    app: &AppContext,
    args: &McpInstallArgs,
    format: &ClientFormat,
    file: &ConfigFile,
    path: &str,
    entry: &Value,
) -> anyhow::Result<ExitOutcome> {
    let failed =
        |error: ConfigFileError| UsageError(format!("{path} {}", describe_read_error(&error)));
    let state = app.config.state_dir()?;
    let _lock = config_file::lock(&state, LOCK).map_err(failed)?;
    let old = file.read(FILE_BYTES_MAX).map_err(failed)?.unwrap_or_default();
    let new = match format.syntax {
        ClientSyntax::Json => edit_file_text(path, &old, format.section, &args.name, entry)?,
        ClientSyntax::Toml => append_toml_table(path, &old, format, &args.name, entry)?,
        ClientSyntax::Yaml if old.iter().all(u8::is_ascii_whitespace) => {
            Some(yaml_text(format, &args.name, entry))
        }
        ClientSyntax::Yaml => {
            return Err(UsageError(format!(
                "zero does not change YAML files, so nothing was written; add to {path} what `zero mcp install` prints without `--write`"
            ))
            .into());
        }
    };
    let (name, path) = (escape_line(&args.name), escape_line(path));
    let done = match new {
        Some(new) => {
            file.write(new.as_bytes()).map_err(failed)?;
            format!("wrote `{name}` to {path}; restart the program or reload its settings\n")
        }
        None => format!("`{name}` is already in {path}\n"),
    };
    app.terminal.out.write(&done)?;
    Ok(ExitOutcome::Ok)
}

/// New text of a TOML file with the table at its end; `None` if it already has this entry.
fn append_toml_table(
    path: &str,
    old: &[u8],
    format: &ClientFormat,
    name: &str,
    entry: &Value,
) -> Result<Option<String>, UsageError> {
    let not_read = || UsageError(format!("could not parse {path} as TOML, so nothing was written"));
    let parse = |text: &str| toml::from_str::<Value>(text).map_err(|_| not_read());
    let old = std::str::from_utf8(old).map_err(|_| not_read())?;
    let find = |document: &Value| document.get(format.section)?.get(name).cloned();
    if let Some(there) = find(&parse(old)?) {
        let is_same = is_own_entry(&there, entry) && there.get("command") == entry.get("command");
        return if is_same { Ok(None) } else { Err(different_entry(path, name)) };
    }
    let gap = if old.is_empty() || old.ends_with('\n') { "" } else { "\n" };
    let blank = if old.is_empty() { "" } else { "\n" };
    let new = format!("{old}{gap}{blank}{}", toml_table(format, name, entry));
    match find(&parse(&new)?) {
        Some(there) if there == *entry => Ok(Some(new)),
        _ => Err(not_read()),
    }
}

fn different_entry(path: &str, name: &str) -> UsageError {
    UsageError(format!(
        "{path} has a different entry `{name}`, so nothing was written; choose another name with `--name`, or remove that entry"
    ))
}

/// New text of the file with the entry; `None` if it already has this entry.
fn edit_file_text(
    path: &str,
    old: &[u8],
    section: &str,
    name: &str,
    entry: &Value,
) -> Result<Option<String>, UsageError> {
    let is_empty = old.iter().all(u8::is_ascii_whitespace);
    let old = if is_empty { b"{}\n" } else { old };
    let document = SettingsDocument::parse(path, old).map_err(|problems| {
        let first = problems.first().map(ToString::to_string).unwrap_or_default();
        UsageError(format!("could not parse the file, so nothing was written: {first}"))
    })?;
    let there = document.value().get(section).and_then(|servers| servers.get(name));
    if there.is_some_and(|there| !is_own_entry(there, entry)) {
        return Err(different_entry(path, name));
    }
    let mut text = String::from_utf8_lossy(old).into_owned();
    let mut changed = false;
    // In an existing entry, change only zero's own fields and keep those of the user.
    let edits: Vec<(Vec<&str>, &Value)> = match (there, entry) {
        (Some(Value::Object(_)), Value::Object(fields)) => {
            let fields = fields.iter();
            fields.map(|(key, value)| (vec![section, name, key.as_str()], value)).collect()
        }
        _ => vec![(vec![section, name], entry)],
    };
    for (key, value) in edits {
        let new = edit::apply(&text, &key, &ValueEdit::Set(value.clone())).map_err(|error| {
            UsageError(format!("could not change {path}, so nothing was written: {error}"))
        })?;
        if let Some(new) = new {
            (text, changed) = (new, true);
        }
    }
    Ok(changed.then_some(text))
}

/// Whether an entry equals the new one, apart from the path of the program, which an update may
/// change. Different arguments are the user's choice and may change what is permitted.
fn is_own_entry(there: &Value, entry: &Value) -> bool {
    let Value::Object(fields) = there else { return false };
    let is_same = |key: &str| fields.get(key) == entry.get(key);
    let is_kind = |key: &str| !fields.contains_key(key) || is_same(key);
    let is_remote = ["url", "httpUrl", "serverUrl"].iter().any(|key| fields.contains_key(*key));
    let program = fields.get("command").and_then(program_name);
    let is_program = program.is_some() && program == program_name(&entry["command"]);
    // opencode has the arguments in the list with the program.
    let words = |command: Option<&Value>| {
        let words = command.and_then(Value::as_array)?;
        Some(words.iter().skip(1).cloned().collect::<Vec<_>>())
    };
    let is_list = words(fields.get("command")) == words(entry.get("command"));
    is_program && is_list && is_same("args") && is_kind("type") && is_kind("source") && !is_remote
}

/// File name of the program of a command.
fn program_name(command: &Value) -> Option<&str> {
    let first = command.as_array().and_then(|words| words.first()).unwrap_or(command);
    first.as_str()?.rsplit('/').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn make_entry() -> Value {
        json!({"type": "stdio", "command": "/usr/bin/zero", "args": ["mcp"]})
    }

    #[track_caller]
    fn check(old: &str, expected: Result<Option<&str>, &str>) {
        let new = edit_file_text("f", old.as_bytes(), "mcpServers", "zero", &make_entry());
        match (new, expected) {
            (Ok(new), Ok(expected)) => {
                assert_eq!(new.as_deref(), expected, "{old}");
                if let Some(new) = new {
                    let again =
                        edit_file_text("f", new.as_bytes(), "mcpServers", "zero", &make_entry());
                    assert_eq!(again, Ok(None), "a second run changes nothing");
                }
            }
            (Err(UsageError(error)), Err(expected)) => {
                assert!(
                    error.contains(expected) && error.contains("nothing was written"),
                    "{error}"
                );
            }
            (new, _) => panic!("{old}: {new:?}"),
        }
    }

    #[test]
    fn install_adds_entry_and_keeps_existing_content() {
        let alone = "{\n  \"mcpServers\": {\n    \"zero\": {\n      \"type\": \"stdio\",\n      \"command\": \"/usr/bin/zero\",\n      \"args\": [\"mcp\"]\n    }\n  }\n}\n";
        let new = edit_file_text("f", b"", "mcpServers", "zero", &make_entry()).unwrap().unwrap();
        assert_eq!(
            serde_json::from_str::<Value>(&new).unwrap(),
            serde_json::from_str::<Value>(alone).unwrap()
        );
        let old = "// mine\n{\n  \"mcpServers\": {\n    \"git\": { \"command\": \"git-mcp\" }, // keep\n  },\n  \"theme\": 1,\n}\n";
        let new = edit_file_text("f", old.as_bytes(), "mcpServers", "zero", &make_entry())
            .unwrap()
            .unwrap();
        for kept in
            ["// mine\n", "\"git\": { \"command\": \"git-mcp\" }", "// keep", "\"theme\": 1,"]
        {
            assert!(new.contains(kept), "{kept} is gone:\n{new}");
        }
        let read = SettingsDocument::parse("f", new.as_bytes()).unwrap();
        assert_eq!(read.value()["mcpServers"]["zero"], make_entry());
    }

    #[test]
    fn install_keeps_user_additions_in_own_entry() {
        let moved = r#"{"mcpServers": {"zero": {"type": "stdio", "command": "/old/zero", "args": ["mcp"], "env": {"A": "b"}}}}"#;
        check(moved, Ok(Some(&moved.replace("/old/zero", "/usr/bin/zero"))));
    }

    #[test]
    fn install_leaves_uncertain_entry_unchanged() {
        check("{\"mcpServers\": {", Err("f:1:"));
        check("[]", Err("settings must be an object"));
        check("{\"a\": 1, \"a\": 2}", Err("is a duplicate of line"));
        check("{\"mcpServers\": []}", Err("`mcpServers` is not an object"));
        for there in [
            r#"{"command": "/opt/other", "args": ["mcp"]}"#,
            r#"{"url": "https://x.org/mcp"}"#,
            r#"{"type": "http", "url": "https://x.org/mcp"}"#,
            r#"{"command": "/usr/bin/zero", "args": ["mcp"], "url": "https://x.org/mcp"}"#,
            r#"{"type": "http", "command": "/usr/bin/zero", "args": ["mcp"]}"#,
            r#"{"command": "/usr/bin/zero"}"#,
            r#"{"command": "/usr/bin/zero", "args": ["mcp", "--yes", "--mode", "plan"]}"#,
            r#"{"command": "/usr/bin/zero", "args": ["tools"]}"#,
            r#"{"command": {"path": "/usr/bin/zero", "args": ["mcp"]}}"#,
            "null",
            "\"zero\"",
        ] {
            let old = format!(r#"{{"mcpServers": {{"zero": {there}}}}}"#);
            check(&old, Err("choose another name with `--name`, or remove that entry"));
        }
    }

    #[test]
    fn install_knows_forms_of_other_programs() {
        let entry = json!({"type": "local", "command": ["/usr/bin/zero", "mcp"]});
        let new = edit_file_text("f", b"{}", "mcp", "zero", &entry).unwrap().unwrap();
        assert_eq!(edit_file_text("f", new.as_bytes(), "mcp", "zero", &entry), Ok(None));
        let moved = r#"{"mcp": {"zero": {"type": "local", "command": ["/old/zero", "mcp"], "enabled": false}}}"#;
        let new = edit_file_text("f", moved.as_bytes(), "mcp", "zero", &entry).unwrap().unwrap();
        assert_eq!(new, moved.replace("/old/zero", "/usr/bin/zero"));
        let other = r#"{"mcp": {"zero": {"type": "local", "command": ["/old/zero", "run"]}}}"#;
        assert!(edit_file_text("f", other.as_bytes(), "mcp", "zero", &entry).is_err());

        let format = client_format(McpClientProgram::Codex);
        let entry = json!({"command": "/usr/bin/zero", "args": ["mcp"]});
        let append = |old: &str| append_toml_table("f", old.as_bytes(), &format, "zero", &entry);
        let new = append("# mine\nmodel = \"x\"").unwrap().unwrap();
        assert_eq!(
            new,
            "# mine\nmodel = \"x\"\n\n[mcp_servers.zero]\ncommand = \"/usr/bin/zero\"\nargs = [\"mcp\"]\n"
        );
        assert_eq!(append(&new), Ok(None));
        assert!(append(&new.replace("\"mcp\"]", "\"run\"]")).is_err());
        assert!(append("not toml").is_err());
        let format = client_format(McpClientProgram::Goose);
        let yaml = yaml_text(&format, "zero", &json!({"type": "stdio", "cmd": "/usr/bin/zero"}));
        assert_eq!(yaml, "extensions:\n  zero:\n    type: \"stdio\"\n    cmd: \"/usr/bin/zero\"\n");
    }

    #[test]
    fn install_skips_identical_entry() {
        let same = r#"{"mcpServers": {"zero": {"type": "stdio", "command": "/usr/bin/zero", "args": ["mcp"], "env": {"A": "b"}}}}"#;
        check(same, Ok(None));
    }
}
