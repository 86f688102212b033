//! Claude Code: `settings.json`, MCP servers, commands and agents.
//!
//! Its rules have the form of zero's. They differ in the tools that they concern and in where a path
//! starts.

use serde_json::Value;
use zero_policy::{PermissionMode, Verdict};
use zero_settings::SettingsLayerKind;

use super::import_plan::ImportPlan;
use super::server_import::{ServerNames, ServerParts, joined_name};
use super::source_files::SourceFiles;
use super::{list_field, pairs_field, text_field};
use crate::exit::UsageError;

/// Keys of the settings that hold rules and modes. All others have no counterpart here.
const PERMISSION_KEYS: [&str; 4] = ["allow", "ask", "deny", "defaultMode"];

pub(super) fn read(sources: &SourceFiles<'_>, plan: &mut ImportPlan) -> Result<(), UsageError> {
    let folder = match sources.is_project() {
        true => sources.path(".claude"),
        false => sources.own_folder("CLAUDE_CONFIG_DIR", ".claude"),
    };
    let mut names = ServerNames::new();
    // Names of servers are needed for rules.
    let servers = match sources.kind {
        SettingsLayerKind::Project => sources.read_json(&sources.path(".mcp.json"))?,
        SettingsLayerKind::Local => None,
        _ => sources.read_json(&sources.path(".claude.json"))?,
    };
    if let Some((shown, file)) = servers {
        add_servers(plan, &shown, &file, &mut names);
    }
    let name = match sources.kind {
        SettingsLayerKind::Local => "settings.local.json",
        _ => "settings.json",
    };
    if let Some((shown, settings)) = sources.read_json(&folder.join(name))? {
        add_settings(plan, sources, &shown, &settings, &names);
    }
    if sources.kind == SettingsLayerKind::Local {
        return Ok(());
    }
    // `!`, followed by a command in backquotes, inserts its output.
    plan.add_markdown_commands(&sources.read_folder(&folder.join("commands"), ".md")?, &["!`"]);
    match sources.is_project() {
        // zero reads them where they are.
        true if sources.exists(&folder.join("agents")) => {
            plan.leave(".claude/agents", "zero reads these agents where they are");
        }
        true => {}
        false => plan.add_markdown_agents(&sources.read_folder(&folder.join("agents"), ".md")?),
    }
    if sources.exists(&folder.join("skills")) {
        let why = match sources.is_project() {
            true => "zero reads these skills where they are",
            false => "copy those that you want into zero/skills beside zero's settings",
        };
        plan.leave("skills", why);
    }
    Ok(())
}

fn add_servers(plan: &mut ImportPlan, source: &str, file: &Value, names: &mut ServerNames) {
    let servers = file.get("mcpServers").and_then(Value::as_object).into_iter().flatten();
    for (name, server) in servers {
        let kind = text_field(server, "type");
        let parts = ServerParts {
            command: text_field(server, "command").map(str::to_owned),
            args: list_field(server, "args"),
            env: pairs_field(server, "env"),
            url: text_field(server, "url").map(str::to_owned),
            headers: pairs_field(server, "headers"),
            timeout_ms: server.get("timeout").and_then(Value::as_u64),
            is_sse: kind == Some("sse"),
            ignored: ["headersHelper", "oauth"]
                .into_iter()
                .filter(|key| server.get(key).is_some())
                .collect(),
            ..ServerParts::default()
        };
        plan.add_server(source, name, parts, names);
    }
}

fn add_settings(
    plan: &mut ImportPlan,
    sources: &SourceFiles<'_>,
    shown: &str,
    settings: &Value,
    names: &ServerNames,
) {
    let permissions = settings.get("permissions").cloned().unwrap_or_default();
    for (list, verdict) in
        [("allow", Verdict::Allow), ("ask", Verdict::Ask), ("deny", Verdict::Deny)]
    {
        for rule in list_field(&permissions, list) {
            let what = format!("{shown} {list} {rule}");
            add_rule(plan, verdict, &what, &rule, names, sources.is_project());
        }
    }
    if let Some(mode) = text_field(&permissions, "defaultMode") {
        let what = format!("{shown} defaultMode {mode}");
        let same = match mode {
            "default" => Some(PermissionMode::Ask),
            "acceptEdits" => Some(PermissionMode::AcceptEdits),
            "plan" => Some(PermissionMode::Plan),
            _ => None,
        };
        match same {
            Some(mode) => plan.set_mode(&what, mode),
            None => plan.leave(&what, "zero has no such mode; see `zero help permissions`"),
        }
    }
    let fields = permissions.as_object().into_iter().flatten();
    for (key, _) in fields.filter(|(key, _)| !PERMISSION_KEYS.contains(&key.as_str())) {
        let why = match key.as_str() {
            "additionalDirectories" => {
                "pass the folders as --workspace, or to the chat, where you need them"
            }
            _ => "zero has no such setting",
        };
        plan.leave(&format!("{shown} permissions.{key}"), why);
    }
    let fields = settings.as_object().into_iter().flatten();
    for (key, _) in fields.filter(|(key, _)| !["permissions", "$schema"].contains(&key.as_str())) {
        let why = match key.as_str() {
            "hooks" => {
                "rewrite them by hand: zero's hooks get different input, see `zero help hooks`"
            }
            "env" => "variables of commands are `sandbox.environment`, without their values",
            "model" | "availableModels" => "set up a model with `zero login`",
            "sandbox" => "zero's sandbox is always on; its settings are under `sandbox`",
            "disabledMcpjsonServers" => "turn the servers off with `disabled` in `mcpServers`",
            _ => "zero has no such setting",
        };
        let what = format!("{shown} {key}");
        match key.as_str() {
            // What they forbid would be lost.
            "hooks" | "sandbox" | "disabledMcpjsonServers" => plan.not_enforced(&what, why),
            _ => plan.leave(&what, why),
        }
    }
}

fn add_rule(
    plan: &mut ImportPlan,
    verdict: Verdict,
    what: &str,
    rule: &str,
    names: &ServerNames,
    is_project: bool,
) {
    let (tool, pattern) = match rule.split_once('(') {
        Some((tool, rest)) => (tool.trim(), rest.strip_suffix(')')),
        None => (rule.trim(), None),
    };
    if tool == "WebFetch" && pattern.is_none() && verdict == Verdict::Allow {
        let why = "in zero it would also let every command reach every host; allow hosts as `WebFetch(domain:…)`";
        return plan.leave(what, why);
    }
    if tool == "NotebookEdit" {
        return match verdict {
            Verdict::Allow => plan.leave(what, "zero edits notebooks with Edit; allow the files"),
            _ => plan.add_stricter_rule(verdict, what, "Edit(**/*.ipynb)"),
        };
    }
    // A path that starts with `/` is below the folder of the settings there, and below the workspace here.
    if let Some(path) = pattern.filter(|path| path.starts_with('/') && !path.starts_with("//"))
        && tool != "Bash"
        && !is_project
    {
        return match verdict {
            Verdict::Allow => plan.leave(
                what,
                "a path that starts with `/` has another meaning in your own settings",
            ),
            _ => plan.add_stricter_rule(verdict, what, &format!("{tool}(**{path})")),
        };
    }
    if let Some(external) = tool.strip_prefix("mcp__") {
        let (server, name) = external.split_once("__").unwrap_or((external, "*"));
        let called_so = |(name, _): &(&String, &String)| joined_name(name) == server;
        let alias = names.get(server);
        let alias = alias.or_else(|| names.iter().find(called_so).map(|(_, alias)| alias));
        let server = alias.map_or(server, String::as_str);
        let rule = if server == "*" { "mcp__*".to_owned() } else { format!("{server}__{name}") };
        return plan.add_rule(verdict, what, &rule, None);
    }
    plan.add_rule(verdict, what, rule, None);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(verdict: Verdict, rule: &str, is_project: bool, expected: &str) {
        let mut plan = ImportPlan::default();
        let names = ServerNames::from([("my.server".to_owned(), "my-server".to_owned())]);
        add_rule(&mut plan, verdict, "x", rule, &names, is_project);
        assert_eq!(plan.lines[0].detail, expected, "{rule}");
    }

    #[test]
    fn rule_keeps_its_meaning() {
        use Verdict::{Allow, Ask, Deny};
        check(Allow, "Bash(npm run test:*)", false, "allow Bash(npm run test:*)");
        check(Allow, "Bash(npm run *)", false, "allow Bash(npm run *)");
        check(Deny, "Read(./.env)", false, "deny Read(./.env)");
        check(Deny, "Read(/secrets/**)", true, "deny Read(/secrets/**)");
        check(Deny, "Read(/secrets/**)", false, "deny Read(**/secrets/**)");
        check(Allow, "WebFetch(domain:example.com)", false, "allow WebFetch(domain:example.com)");
        check(Ask, "WebSearch", false, "ask WebSearch");
        check(Allow, "mcp__my.server__get", true, "allow my-server__get");
        check(Deny, "mcp__my_server__get", true, "deny my-server__get");
        check(Deny, "mcp__github", true, "deny github__*");
        check(Deny, "NotebookEdit", true, "deny Edit(**/*.ipynb)");
        check(Deny, "Bash(rm -rf / && x)", true, "deny Bash(rm:*)");
    }

    #[test]
    fn allow_that_would_be_wider_is_left_out() {
        let mut plan = ImportPlan::default();
        for rule in
            ["WebFetch", "Edit(/src/**)", "NotebookEdit", "SlashCommand(x)", "Task(explore)"]
        {
            add_rule(&mut plan, Verdict::Allow, "x", rule, &ServerNames::new(), false);
        }
        assert!(plan.edits.is_empty(), "{:?}", plan.edits);
    }
}
