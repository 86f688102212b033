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
/// Lock file held while the file changes.
const LOCK: &str = "install.lock";

pub(super) fn run(app: &AppContext, args: &McpInstallArgs) -> anyhow::Result<ExitOutcome> {
    let workspace = app.config.open_workspace(args.workspace.as_slice())?;
    let file = client_config_file(app, args, &workspace)?;
    let entry = server_entry(app, args, &workspace)?;
    let path = display_path(&file.path(), app.config.home());
    if args.write {
        return write_entry(app, args, &file, &path, &entry);
    }
    let section = section_key(args.client);
    app.terminal.print_note(&format!("add this to {path}, or pass `--write`"));
    app.terminal.out.write_pretty_json(&json!({ section: { &args.name: entry } }))?;
    Ok(ExitOutcome::Ok)
}

/// Key of the server list in the client's file.
fn section_key(client: McpClientProgram) -> &'static str {
    match client {
        McpClientProgram::Claude | McpClientProgram::Cursor => "mcpServers",
        McpClientProgram::Zed => "context_servers",
        McpClientProgram::Vscode => "servers",
    }
}

/// Configuration file of the client, for the user or for the project.
fn client_config_file(
    app: &AppContext,
    args: &McpInstallArgs,
    workspace: &Workspace,
) -> Result<ConfigFile, UsageError> {
    if args.project {
        let relative = match args.client {
            McpClientProgram::Claude => ".mcp.json",
            McpClientProgram::Cursor => ".cursor/mcp.json",
            McpClientProgram::Zed => ".zed/settings.json",
            McpClientProgram::Vscode => ".vscode/mcp.json",
        };
        let root = workspace.cwd().to_owned();
        return Ok(ConfigFile::Beneath { root, relative: relative.into() });
    }
    let no_home =
        || UsageError("cannot locate your settings; set HOME to an absolute path".to_owned());
    let home = app.config.home().ok_or_else(no_home)?;
    let config = || app.config.config_home().ok_or_else(no_home);
    Ok(ConfigFile::Own(match args.client {
        McpClientProgram::Claude => home.join(".claude.json"),
        McpClientProgram::Cursor => home.join(".cursor/mcp.json"),
        McpClientProgram::Zed => config()?.join("zed/settings.json"),
        McpClientProgram::Vscode => config()?.join("Code/User/mcp.json"),
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
        McpClientProgram::Cursor => {}
    }
    entry.insert("command".to_owned(), json!(program));
    entry.insert("args".to_owned(), json!(words));
    Ok(Value::Object(entry))
}

fn write_entry(
    app: &AppContext,
    args: &McpInstallArgs,
    file: &ConfigFile,
    path: &str,
    entry: &Value,
) -> anyhow::Result<ExitOutcome> {
    let failed =
        |error: ConfigFileError| UsageError(format!("{path} {}", describe_read_error(&error)));
    let state = app.config.state_dir()?;
    let _lock = config_file::lock(&state, LOCK).map_err(failed)?;
    let old = file.read(FILE_BYTES_MAX).map_err(failed)?.unwrap_or_default();
    let new = edit_file_text(path, &old, section_key(args.client), &args.name, entry)?;
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
        return Err(UsageError(format!(
            "{path} has a different entry `{name}`, so nothing was written; choose another name with `--name`, or remove that entry"
        )));
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
    is_program && is_same("args") && is_kind("type") && is_kind("source") && !is_remote
}

/// File name of a program.
fn program_name(command: &Value) -> Option<&str> {
    command.as_str()?.rsplit('/').next()
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
    fn install_skips_identical_entry() {
        let same = r#"{"mcpServers": {"zero": {"type": "stdio", "command": "/usr/bin/zero", "args": ["mcp"], "env": {"A": "b"}}}}"#;
        check(same, Ok(None));
    }
}
