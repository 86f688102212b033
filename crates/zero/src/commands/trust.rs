//! `zero trust`: shows the settings of a folder that need trust, and grants or revokes trust.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Map, Value, json};
use zero_core::shell_quoting::quote_shell_word;
use zero_runtime::HookFile;
use zero_sandbox::{StateDir, Workspace};
use zero_settings::{SettingsEntry, SettingsLayerKind, WorkspaceSettings};
use zero_settings::{TrustState, TrustStore};

use crate::AppContext;
use crate::cli::TrustArgs;
use crate::exit::{ExitOutcome, UsageError};
use crate::settings_adapter::mcp_servers::COMMAND_ALIAS;
use crate::terminal::{
    FAINT, GOOD, NOTABLE, STRONG, TerminalStream, TextTable, escape_line, format_short_time,
};

/// Effect of trust that does not depend on the settings.
const ALWAYS_ENABLED_TEXT: &str = "Trusting a folder also lets language servers start in it. They may execute build scripts and \
     plugins, in a read-only sandbox without network access.\n";

pub(super) fn run(app: &AppContext, args: &TrustArgs) -> anyhow::Result<ExitOutcome> {
    let state = app.config.state_dir()?;
    if args.list {
        return list_folders(app, args, &state);
    }
    if args.revoke {
        return revoke_folder(app, args, &state);
    }
    let workspace = app.config.open_workspace(args.dir.as_slice())?;
    let folder = require_utf8(workspace.cwd())?;
    let store = TrustStore::load(&state).map_err(UsageError::from)?;
    let seen = WorkspaceSettings::entries_needing_trust(&app.config.user_paths(), workspace.cwd())
        .map_err(UsageError::from)?;
    let trust = store.trust_state(workspace.cwd(), &seen);
    let own = own_server_keys(app, &workspace)?;
    let look = TrustReview { app, folder, trust, seen, own };
    if args.json {
        return look.print_json(args, &state, &workspace);
    }
    look.decide(args, &state)
}

/// Trust state of a folder and its settings that need trust.
struct TrustReview<'a> {
    app: &'a AppContext,
    folder: &'a str,
    seen: Vec<SettingsEntry>,
    trust: TrustState,
    /// Keys of the MCP servers in the user's own settings.
    own: Vec<String>,
}

fn own_server_keys(app: &AppContext, workspace: &Workspace) -> anyhow::Result<Vec<String>> {
    let settings = app.load_settings(workspace, &[])?;
    let own = settings.entries().iter().filter(|entry| entry.layer == SettingsLayerKind::User);
    let keys = own.map(|entry| entry.key.clone());
    Ok(keys.filter(|key| key.starts_with("mcpServers.")).collect())
}

impl TrustReview<'_> {
    fn decide(&self, args: &TrustArgs, state: &StateDir) -> anyhow::Result<ExitOutcome> {
        let terminal = &self.app.terminal;
        if let TrustState::Trusted { .. } = self.trust {
            terminal.out.write_prose(&self.render(&terminal.out), 0)?;
            return Ok(ExitOutcome::Ok);
        }
        if args.yes {
            terminal.out.write_prose(&self.render(&terminal.out), 0)?;
            return self.grant_trust(state);
        }
        let Some(answers) = terminal.answer_source() else {
            terminal.out.write_prose(&self.render(&terminal.out), 0)?;
            terminal
                .print_error("cannot ask without a terminal; review the list, then pass `--yes`");
            return Ok(ExitOutcome::Denied);
        };
        // The list goes to the same stream as the question, so that the user sees what they approve.
        terminal.err.write_prose(&self.render(&terminal.err), 0)?;
        if terminal.confirm(&answers, "Trust this folder?") {
            return self.grant_trust(state);
        }
        terminal.out.write("not trusted; nothing changed\n")?;
        Ok(ExitOutcome::Denied)
    }

    /// Trusts exactly the entries that were shown. Later changes to the files are not trusted.
    fn grant_trust(&self, state: &StateDir) -> anyhow::Result<ExitOutcome> {
        TrustStore::add(state, self.folder, &self.seen).map_err(UsageError::from)?;
        let out = &self.app.terminal.out;
        out.write(&format!("{} {}\n", out.paint(GOOD, "trusted"), escape_line(self.folder)))?;
        Ok(ExitOutcome::Ok)
    }

    fn print_json(
        mut self,
        args: &TrustArgs,
        state: &StateDir,
        workspace: &Workspace,
    ) -> anyhow::Result<ExitOutcome> {
        if args.yes && !matches!(self.trust, TrustState::Trusted { .. }) {
            TrustStore::add(state, self.folder, &self.seen).map_err(UsageError::from)?;
            self.trust = TrustStore::load(state)
                .map_err(UsageError::from)?
                .trust_state(workspace.cwd(), &self.seen);
        }
        let (word, since) = match &self.trust {
            TrustState::Trusted { since } => ("trusted", Some(since)),
            TrustState::Never => ("untrusted", None),
            TrustState::Changed { since, .. } => ("changed", Some(since)),
        };
        let entry_json = |entry: &SettingsEntry| json!({"key": entry.key, "value": entry.value, "source": entry.file, "line": entry.line, "layer": entry.layer});
        let entries: Vec<Value> = self.seen.iter().map(entry_json).collect();
        let mut answer = json!({"folder": self.folder, "standing": word, "entries": entries});
        if let Some(since) = since {
            answer["since"] = json!(since);
        }
        if let TrustState::Changed { new, missing_count: gone, .. } = &self.trust {
            answer["new"] = new.iter().map(entry_json).collect();
            answer["gone"] = json!(gone);
        }
        self.app.terminal.out.write_pretty_json(&answer)?;
        let is_as_it_was = matches!(self.trust, TrustState::Trusted { .. });
        Ok(if is_as_it_was { ExitOutcome::Ok } else { ExitOutcome::Denied })
    }

    /// Lists every entry that trust enables. Lines are never truncated: an attacker could hide a
    /// setting beyond the edge of the terminal.
    fn render(&self, stream: &TerminalStream) -> String {
        let folder = escape_line(self.folder);
        let mut text = match &self.trust {
            TrustState::Trusted { since } => {
                let end = if self.seen.is_empty() { "" } else { ":" };
                format!("{folder} has been trusted since {}{end}\n", format_short_time(*since))
            }
            TrustState::Changed { since, new, missing_count: gone, .. } => {
                format!(
                    "{folder} {}\n",
                    describe_changes(&format_short_time(*since), new.len(), *gone)
                )
            }
            TrustState::Never => {
                let requested_line = match self.seen.is_empty() {
                    true => "contain nothing that needs trust",
                    false => "need trust for:",
                };
                format!("{} in {folder} {requested_line}\n", stream.paint(STRONG, "The settings"))
            }
        };
        for entry in &self.seen {
            let is_new =
                matches!(&self.trust, TrustState::Changed { new, .. } if new.contains(entry));
            let mark = if is_new { stream.paint(NOTABLE, "+ ") } else { "  ".into() };
            let instead = match self.own.contains(&entry.key) {
                true => " (replaces yours)",
                false => "",
            };
            let _ = writeln!(
                text,
                "{mark}{}{instead}  {}",
                escape_line(&describe_entry(entry)),
                stream.paint(FAINT, &format!("({}:{})", escape_line(&entry.file), entry.line))
            );
        }
        text + ALWAYS_ENABLED_TEXT
    }
}

fn describe_changes(since: &str, new: usize, missing_count: usize) -> String {
    let summary = match (new, missing_count) {
        (0, gone) => format!("{gone} removed"),
        (new, 0) => format!("{new} new, marked +"),
        (new, gone) => format!("{new} new, marked +, {gone} removed"),
    };
    format!("changed since you trusted it on {since}: {summary}")
}

/// Describes the effect of an entry in one line.
fn describe_entry(entry: &SettingsEntry) -> String {
    let (section, name) = entry.key.split_once('.').unwrap_or((&entry.key, ""));
    let kind = match (section, name) {
        ("permissions", "allow") => "allow without asking:".to_owned(),
        ("permissions", name) => format!("{name}:"),
        ("limits", name) => format!("limit {name}:"),
        ("mcpServers", name) if entry.value.get("command").is_some() => {
            format!("start the MCP server {name}:")
        }
        ("mcpServers", name) => format!("use the MCP server {name}:"),
        ("mcp", "mcpServerCommand") => format!("start the MCP server {COMMAND_ALIAS}:"),
        ("mcp", "toolSchemaBudget") => "tokens for MCP tool definitions:".to_owned(),
        ("tools", "toolDiscoveryCommand") => "run to discover tools:".to_owned(),
        ("tools", "toolCallCommand") => "run to call tools:".to_owned(),
        ("hooks", "PreToolUse") => "run before calls:".to_owned(),
        ("hooks", "PostToolUse") => "run after calls:".to_owned(),
        ("sandbox", "network") => "let commands connect to:".to_owned(),
        ("sandbox", "environment") => "pass commands the variable:".to_owned(),
        ("sandbox", "writable") => "let commands write to:".to_owned(),
        ("sandbox", "readable") => "let commands read:".to_owned(),
        ("sandbox", "weaker") => "run commands even if this is not enforced:".to_owned(),
        ("bash", "on-timeout") => "when a command times out, turn it into a:".to_owned(),
        ("files", "backup") => "keep earlier content beside changed files:".to_owned(),
        (section, name) => format!("{section} {name}:"),
    };
    match section {
        "hooks" => {
            let files: Vec<String> = entry.files.iter().filter_map(describe_file).collect();
            let files = match files.is_empty() {
                true => String::new(),
                false => format!(", with the current content of {}", files.join(" and ")),
            };
            format!("{kind} {}{files}", describe_hook(&entry.value))
        }
        _ => format!("{kind} {}", describe_value(&entry.value)),
    }
}

/// Path of a file that a hook uses, if the file exists.
fn describe_file(file: &HookFile) -> Option<String> {
    file.identity().map(|_| file.path().display().to_string())
}

/// A hook in one line: its command line and its other fields.
fn describe_hook(value: &Value) -> String {
    let mut rest = value.as_object().cloned().unwrap_or_default();
    match rest.shift_remove("command") {
        Some(Value::String(line)) if rest.is_empty() => line,
        Some(Value::String(line)) => format!("{line} with {}", Value::Object(rest)),
        _ => value.to_string(),
    }
}

/// A value in one line: the command line of a server, or the rule, and all other fields.
fn describe_value(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Object(fields) if fields.get("rule").is_some_and(Value::is_string) => {
            let mut rest = fields.clone();
            let rule = rest.shift_remove("rule").unwrap_or_default();
            let rule = rule.as_str().unwrap_or_default().to_owned();
            if rest.is_empty() { rule } else { format!("{rule} with {}", Value::Object(rest)) }
        }
        Value::Object(fields) => {
            let mut rest = fields.clone();
            let mut words: Vec<String> = Vec::new();
            // `command` may be an object with `path` and `args`.
            if let Some(Value::Object(mut parts)) = rest.get("command").cloned()
                && parts.get("path").is_some_and(Value::is_string)
            {
                rest.shift_remove("command");
                words.extend(parts.shift_remove("path").as_ref().map(to_shell_word));
                words.extend(take_args(&mut parts));
                if !parts.is_empty() {
                    rest.shift_insert(0, "command".to_owned(), Value::Object(parts));
                }
            } else if let Some(Value::String(_)) = rest.get("command") {
                words.extend(rest.shift_remove("command").as_ref().map(to_shell_word));
            } else if let Some(Value::String(_)) = rest.get("url") {
                words.extend(rest.shift_remove("url").as_ref().map(to_shell_word));
            } else {
                return value.to_string();
            }
            words.extend(take_args(&mut rest));
            if !rest.is_empty() {
                words.push(format!("with {}", Value::Object(rest)));
            }
            words.join(" ")
        }
        other => other.to_string(),
    }
}

/// Removes and returns `args`, if it is a list.
fn take_args(fields: &mut Map<String, Value>) -> Vec<String> {
    match fields.get("args") {
        Some(Value::Array(args)) => {
            let words = args.iter().map(to_shell_word).collect();
            fields.shift_remove("args");
            words
        }
        _ => Vec::new(),
    }
}

/// One word of a command line, quoted if necessary.
fn to_shell_word(value: &Value) -> String {
    match value {
        Value::String(text) => quote_shell_word(text),
        other => other.to_string(),
    }
}

fn list_folders(
    app: &AppContext,
    args: &TrustArgs,
    state: &StateDir,
) -> anyhow::Result<ExitOutcome> {
    let store = TrustStore::load(state).map_err(UsageError::from)?;
    let out = &app.terminal.out;
    if args.json {
        let folders: Vec<Value> = store
            .folders()
            .map(|(folder, trusted)| json!({"folder": folder, "since": trusted.since}))
            .collect();
        out.write_pretty_json(&folders)?;
        return Ok(ExitOutcome::Ok);
    }
    let mut table = TextTable::new(["SINCE", "FOLDER"]);
    let mut count = 0;
    for (folder, trusted) in store.folders() {
        table.add_row([format_short_time(trusted.since).into(), folder.into()]);
        count += 1;
    }
    match count {
        0 => app.terminal.print_note("no folder is trusted"),
        _ => out.write(&table.render(out))?,
    }
    Ok(ExitOutcome::Ok)
}

fn revoke_folder(
    app: &AppContext,
    args: &TrustArgs,
    state: &StateDir,
) -> anyhow::Result<ExitOutcome> {
    let cwd = app.config.cwd()?;
    let written = args.dir.as_ref().map_or_else(|| cwd.to_owned(), |dir| cwd.join(dir));
    let written = zero_policy::path::normalize_lexically(&written);
    // A folder that was deleted, or replaced by a symlink, can still be removed by its listed path.
    let found = app.config.open_workspace(args.dir.as_slice());
    let resolved = found.as_ref().map_or(written.as_path(), |workspace| workspace.cwd());
    let mut folder = require_utf8(resolved)?;
    let mut was_trusted = TrustStore::revoke(state, folder).map_err(UsageError::from)?;
    if written != resolved
        && TrustStore::revoke(state, require_utf8(&written)?).map_err(UsageError::from)?
    {
        (folder, was_trusted) = (require_utf8(&written)?, true);
    }
    if args.json {
        app.terminal.out.write_json_line(&json!({"folder": folder, "revoked": was_trusted}))?;
        return Ok(if was_trusted { ExitOutcome::Ok } else { ExitOutcome::Error });
    }
    let folder = escape_line(folder);
    if was_trusted {
        app.terminal.out.write(&format!("{folder} is no longer trusted\n"))?;
        return Ok(ExitOutcome::Ok);
    }
    app.terminal.print_error(&format!(
        "{folder} is not trusted; `zero trust --list` lists trusted folders"
    ));
    Ok(ExitOutcome::Error)
}

fn require_utf8(folder: &Path) -> Result<&str, UsageError> {
    folder.to_str().ok_or_else(|| {
        UsageError(format!(
            "cannot trust `{}`: its path is not UTF-8; rename the folder",
            folder.display()
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entry_value_is_shown_in_full() {
        for (value, expected) in [
            (json!("Bash(git:*)"), "Bash(git:*)"),
            (json!({"command": "npx", "args": ["-y", "a b", ""]}), "npx -y 'a b' ''"),
            (
                json!({"command": "sh", "args": ["-c", "x"], "env": {"A": "b"}}),
                r#"sh -c x with {"env":{"A":"b"}}"#,
            ),
            (json!({"command": "a; rm -r ~", "args": "x"}), r#"'a; rm -r ~' with {"args":"x"}"#),
            (json!({"rule": "Read", "why": "w"}), r#"Read with {"why":"w"}"#),
            (json!({"url": "https://x"}), "https://x"),
            (
                json!({"url": "https://x", "headers": {"A": "b"}}),
                r#"https://x with {"headers":{"A":"b"}}"#,
            ),
            (
                json!({"command": {"path": "a", "args": ["b c"], "env": {"K": "v"}}, "args": ["d"], "cwd": "e"}),
                r#"a 'b c' d with {"command":{"env":{"K":"v"}},"cwd":"e"}"#,
            ),
            (json!({"httpUrl": "https://x"}), r#"{"httpUrl":"https://x"}"#),
        ] {
            assert_eq!(describe_value(&value), expected);
        }
    }
}
