//! `zero mcp add` and `zero mcp remove`: the MCP servers in a settings file.

use serde_json::{Map, Value, json};
use zero_mcp::server_definition::{McpServerDefinition, ServerAlias};
use zero_sandbox::path_survey;

use super::download_hosts::{ask_about_downloads, find_closed_downloads};
use super::workspace_servers::WorkspaceServers;
use crate::AppContext;
use crate::cli::{McpAddArgs, McpRemoveArgs};
use crate::commands::config::settings_change::{has_value, set_value_in, unset_value_in};
use crate::exit::{ExitOutcome, UsageError};
use crate::terminal::escape_line;

pub(super) fn add(app: &AppContext, args: &McpAddArgs) -> anyhow::Result<ExitOutcome> {
    let key = server_key(&args.name)?;
    if has_value(app, &args.layer, &key)? {
        return Err(UsageError(format!(
            "there is a server `{}` already; remove it with `zero mcp remove {}`, or choose another name",
            args.name, args.name
        ))
        .into());
    }
    let server = match (&args.url, args.command.split_first()) {
        (Some(url), _) => {
            check_url(url)?;
            json!({ "url": url })
        }
        (None, Some((program, arguments))) => {
            let mut server = json!({ "command": program });
            if !arguments.is_empty() {
                server["args"] = json!(arguments);
            }
            let env = read_env(args)?;
            if !env.is_empty() {
                server["env"] = Value::Object(env);
            }
            server
        }
        (None, None) => {
            let what = "pass a URL, or `--` and the command that starts the server";
            return Err(UsageError(what.to_owned()).into());
        }
    };
    set_value_in(app, &args.layer, &key, server)?;
    // The server is added already; its status tells the same.
    if let Err(error) = review_download(app, args) {
        tracing::debug!(%error, "the registry of a new server was not asked about");
    }
    if let Some(word) = find_word_of_this_folder(app, args)? {
        app.terminal.print_note(&format!(
            "a server in your own settings starts in your home folder, so `{}` is not the one here; pass its full path, or add the server with --project or --local",
            escape_line(word)
        ));
    }
    app.terminal
        .print_note(&format!("`zero mcp status {}` connects to it and lists its tools", args.name));
    Ok(ExitOutcome::Ok)
}

/// The first word of the command that names a file of the current folder, which the server will not find
/// there.
fn find_word_of_this_folder<'a>(
    app: &AppContext,
    args: &'a McpAddArgs,
) -> anyhow::Result<Option<&'a str>> {
    if args.layer.project || args.layer.local {
        return Ok(None);
    }
    let workspace = app.config.open_workspace(&[])?;
    // Its program is searched in `PATH` unless it is a path.
    let is_program = |at: usize, word: &str| at == 0 && !word.contains('/');
    let mut words = args.command.iter().map(String::as_str).enumerate();
    let word = words.find(|(at, word)| {
        let is_relative = !word.is_empty() && !word.starts_with(['/', '-', '~']);
        is_relative
            && !is_program(*at, word)
            && path_survey::read_identity(&workspace.cwd().join(word)).is_some()
    });
    Ok(word.map(|(_, word)| word))
}

/// If the new server downloads itself, asks whether it may reach its registry, or says how to allow it.
fn review_download(app: &AppContext, args: &McpAddArgs) -> anyhow::Result<()> {
    let known = WorkspaceServers::load(app, args.layer.workspace.as_ref())?;
    let WorkspaceServers { workspace, settings, servers } = &known;
    if app.terminal.answer_source().is_some() {
        ask_about_downloads(app, workspace, settings)?;
        return Ok(());
    }
    let added = servers.definitions.iter().filter(|one| one.alias.as_str() == args.name);
    let added: Vec<McpServerDefinition> = added.cloned().collect();
    for closed in find_closed_downloads(app, workspace, settings, &added)? {
        app.terminal.print_note(&closed.remedy());
    }
    Ok(())
}

pub(super) fn remove(app: &AppContext, args: &McpRemoveArgs) -> anyhow::Result<ExitOutcome> {
    let key = server_key(&args.name)?;
    if !has_value(app, &args.layer, &key)? {
        app.terminal.print_error(&format!(
            "the file has no server `{}`; `zero mcp status --offline` lists the servers, and --project and --local choose another file",
            args.name
        ));
        return Ok(ExitOutcome::Error);
    }
    unset_value_in(app, &args.layer, &key)
}

fn server_key(name: &str) -> Result<String, UsageError> {
    let alias = ServerAlias::new(name).map_err(|error| UsageError(error.to_string()))?;
    Ok(format!("mcpServers.{alias}"))
}

/// An address that settings accept. Credentials in it would be printed and logged.
fn check_url(url: &str) -> Result<(), UsageError> {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    let host = rest.and_then(|rest| rest.split(['/', '?', '#']).next()).unwrap_or_default();
    match host {
        "" => Err(UsageError(format!(
            "`{url}` is not a URL such as `https://example.com/mcp`; to add a command, put `--` before it"
        ))),
        host if host.contains('@') => Err(UsageError(
            "the URL contains credentials; leave them out, and use `zero mcp login` or `headers` in settings"
                .to_owned(),
        )),
        _ => Ok(()),
    }
}

fn read_env(args: &McpAddArgs) -> Result<Map<String, Value>, UsageError> {
    let check = |name: &str| {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.chars().all(is_plain);
        match is_name {
            true => Ok(name.to_owned()),
            // The value may be a secret, so it is not repeated.
            false => Err(UsageError(
                "a variable has a name of letters, digits and `_`, as in `--env NAME=VALUE` and `--env-from NAME`"
                    .to_owned(),
            )),
        }
    };
    let mut env = Map::new();
    for written in &args.env {
        let (name, value) = written.split_once('=').unwrap_or((written, ""));
        if !written.contains('=') {
            check("")?;
        }
        env.insert(check(name)?, json!(value));
    }
    for name in &args.env_from {
        env.insert(check(name)?, json!(format!("${{{name}}}")));
    }
    Ok(env)
}
