//! Gemini CLI: `settings.json`, policies, commands and agents.
//!
//! In its policies, the rule with the highest priority wins; in zero, a deny rule always does.

use serde_json::{Value, json};
use zero_policy::rule::canonical_tool;
use zero_policy::{PermissionMode, Verdict};

use super::import_plan::ImportPlan;
use super::prompt_import::CommandParts;
use super::server_import::{ServerNames, ServerParts, brace_variables};
use super::source_files::{SourceFiles, parse_toml};
use super::{list_field, pairs_field, text_field};
use crate::exit::UsageError;

/// `!{…}` inserts the output of a command, `@{…}` a file.
const INSERTIONS: &[&str] = &["!{", "@{"];
/// Tools that an allowlist (`tools.core`) excludes unless it names them.
const CORE_TOOLS: [(&str, &str); 10] = [
    ("read_file", "Read"),
    ("read_many_files", "ReadMany"),
    ("list_directory", "LS"),
    ("glob", "Glob"),
    ("grep_search", "Grep"),
    ("replace", "Edit"),
    ("write_file", "Write"),
    ("run_shell_command", "Bash"),
    ("web_fetch", "WebFetch"),
    ("google_web_search", "WebSearch"),
];
/// Conditions of a rule that zero's rules cannot have.
const CONDITIONS: [&str; 5] =
    ["argsPattern", "modes", "interactive", "subagent", "toolAnnotations"];

pub(super) fn read(sources: &SourceFiles<'_>, plan: &mut ImportPlan) -> Result<(), UsageError> {
    let folder = sources.path(".gemini");
    let mut names = ServerNames::new();
    if let Some((shown, settings)) = sources.read_json(&folder.join("settings.json"))? {
        add_settings(plan, &shown, &settings, &mut names);
    }
    let mut rules = Vec::new();
    for file in sources.read_folder(&folder.join("policies"), ".toml")? {
        let policy = parse_toml(&file.shown, &file.text)?;
        let found = policy.get("rule").and_then(Value::as_array).into_iter().flatten();
        rules.extend(found.map(|rule| (file.shown.clone(), rule.clone())));
    }
    let asks = rules.iter().filter(|(_, rule)| asks_about_all(rule));
    let asks = asks.map(|(_, rule)| priority(rule)).max();
    for (shown, rule) in &rules {
        match asks {
            Some(asks)
                if asks >= priority(rule) && text_field(rule, "decision") == Some("allow") =>
            {
                plan.leave(
                    &format!("{shown} allow"),
                    "a rule of the same or a higher priority asks about every tool",
                );
            }
            _ => add_policy_rule(plan, shown, rule, &names)?,
        }
    }
    for file in sources.read_folder(&folder.join("commands"), ".toml")? {
        let command = parse_toml(&file.shown, &file.text)?;
        let prompt = text_field(&command, "prompt").unwrap_or_default();
        plan.add_command(
            &file.shown,
            &CommandParts {
                name: &file.name,
                description: text_field(&command, "description"),
                argument_hint: None,
                prompt: &prompt.replace("{{args}}", "$ARGUMENTS"),
                insertions: INSERTIONS,
                ignored: Vec::new(),
            },
        );
    }
    plan.add_markdown_agents(&sources.read_folder(&folder.join("agents"), ".md")?);
    Ok(())
}

/// A setting under its present name, or that of older versions.
fn setting<'a>(settings: &'a Value, pointer: &str, old: &str) -> Option<&'a Value> {
    settings.pointer(pointer).or_else(|| settings.get(old))
}

fn add_settings(plan: &mut ImportPlan, shown: &str, settings: &Value, names: &mut ServerNames) {
    let texts = |pointer: &str, old: &str| -> Vec<String> {
        let items = setting(settings, pointer, old).and_then(Value::as_array).into_iter().flatten();
        items.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let allowed = texts("/mcp/allowed", "allowMCPServers");
    let excluded = texts("/mcp/excluded", "excludeMCPServers");
    for (name, server) in
        settings.get("mcpServers").and_then(Value::as_object).into_iter().flatten()
    {
        let mut parts = server_parts(server);
        parts.disabled =
            excluded.contains(name) || (!allowed.is_empty() && !allowed.contains(name));
        plan.add_server(shown, name, parts, names);
    }
    if let Some(command) =
        setting(settings, "/mcp/serverCommand", "mcpServerCommand").and_then(Value::as_str)
    {
        let what = format!("{shown} mcp.serverCommand");
        plan.set_value(
            &what,
            &["mcp", "mcpServerCommand"],
            json!(command),
            "mcp.mcpServerCommand".to_owned(),
        );
    }
    for (pointer, old, key) in [
        ("/tools/discoveryCommand", "toolDiscoveryCommand", "toolDiscoveryCommand"),
        ("/tools/callCommand", "toolCallCommand", "toolCallCommand"),
    ] {
        if let Some(command) = setting(settings, pointer, old).and_then(Value::as_str) {
            plan.set_value(
                &format!("{shown} {old}"),
                &["tools", key],
                json!(command),
                format!("tools.{key}"),
            );
        }
    }
    for (list, pointer, old, verdict) in [
        ("tools.allowed", "/tools/allowed", "allowedTools", Verdict::Allow),
        ("tools.exclude", "/tools/exclude", "excludeTools", Verdict::Deny),
    ] {
        for entry in texts(pointer, old) {
            add_tool_entry(plan, &format!("{shown} {list} {entry}"), &entry, verdict, names);
        }
    }
    let core = texts("/tools/core", "coreTools");
    if setting(settings, "/tools/core", "coreTools").is_some() {
        add_core_tools(plan, shown, &core);
    }
    let mode = settings.pointer("/general/defaultApprovalMode").and_then(Value::as_str);
    let mode = mode.or_else(|| settings.pointer("/tools/approvalMode").and_then(Value::as_str));
    if let Some(mode) = mode {
        let what = format!("{shown} approval mode {mode}");
        match mode {
            "default" => plan.set_mode(&what, PermissionMode::Ask),
            "auto_edit" => plan.set_mode(&what, PermissionMode::AcceptEdits),
            "plan" => plan.set_mode(&what, PermissionMode::Plan),
            _ => plan.leave(&what, "zero has no such mode; see `zero help permissions`"),
        }
    }
    let known = [
        "mcpServers",
        "mcp",
        "tools",
        "general",
        "coreTools",
        "allowedTools",
        "excludeTools",
        "allowMCPServers",
        "excludeMCPServers",
        "mcpServerCommand",
        "toolDiscoveryCommand",
        "toolCallCommand",
        "$schema",
    ];
    for (key, _) in settings.as_object().into_iter().flatten() {
        if known.contains(&key.as_str()) {
            continue;
        }
        let what = format!("{shown} {key}");
        match key.as_str() {
            "hooks" => plan.not_enforced(
                &what,
                "rewrite them by hand: zero's hooks get different input, see `zero help hooks`",
            ),
            "security" => plan.leave(&what, "trust folders with `zero trust`"),
            "context" => plan.leave(&what, "zero reads AGENTS.md, CLAUDE.md and GEMINI.md"),
            "model" => plan.leave(&what, "set up a model with `zero login`"),
            _ => plan.leave(&what, "zero has no such setting"),
        }
    }
}

fn server_parts(server: &Value) -> ServerParts {
    let variables = |pairs: Vec<(String, String)>| -> Vec<(String, String)> {
        pairs.into_iter().map(|(name, value)| (name, brace_variables(&value))).collect()
    };
    let http = text_field(server, "httpUrl");
    let is_http = matches!(text_field(server, "type"), Some("http" | "streamable-http"));
    let url = text_field(server, "url");
    let include = server.get("includeTools").map(|_| list_field(server, "includeTools"));
    ServerParts {
        command: text_field(server, "command").map(str::to_owned),
        args: list_field(server, "args").iter().map(|arg| brace_variables(arg)).collect(),
        env: variables(pairs_field(server, "env")),
        cwd: text_field(server, "cwd").map(str::to_owned),
        url: http.or(url).map(str::to_owned),
        headers: variables(pairs_field(server, "headers")),
        timeout_ms: server.get("timeout").and_then(Value::as_u64),
        include,
        exclude: list_field(server, "excludeTools"),
        // There, `url` alone is the deprecated transport.
        is_sse: http.is_none() && url.is_some() && !is_http,
        ignored: ["trust", "oauth", "authProviderType", "targetAudience"]
            .into_iter()
            .filter(|key| server.get(key).is_some())
            .collect(),
        ..ServerParts::default()
    }
}

/// Adds an entry such as `run_shell_command(git status)`, `read_file` or `server__tool`.
fn add_tool_entry(
    plan: &mut ImportPlan,
    what: &str,
    entry: &str,
    verdict: Verdict,
    names: &ServerNames,
) {
    let (tool, argument) = match entry.split_once('(') {
        Some((tool, rest)) => (tool.trim(), Some(rest.trim_end_matches(')').trim())),
        None => (entry.trim(), None),
    };
    match (tool_name(tool), argument) {
        (Some("Bash"), Some(prefix)) => add_prefix(plan, what, prefix, verdict),
        (Some("WebFetch"), _) if verdict == Verdict::Allow => {
            plan.leave(what, "in zero it would also let every command reach every host");
        }
        (Some(name), None) => plan.add_rule(verdict, what, name, None),
        (Some(name), Some(_)) if verdict != Verdict::Allow => {
            plan.add_stricter_rule(verdict, what, name)
        }
        (Some(_), Some(_)) => plan.leave(what, "zero's rules for this tool have no such patterns"),
        (None, _) if tool == "mcp_*" => plan.add_rule(verdict, what, "mcp__*", None),
        (None, argument) => {
            // `mcp_server_tool`, or `server__tool` in older versions.
            let bare = tool.strip_prefix("mcp_").unwrap_or(tool).replacen("__", "_", 1);
            plan.add_external_rules(verdict, what, &bare, argument.is_some(), names);
        }
    }
}

/// zero's name of a tool, which may be called by its class: `ShellTool`.
fn tool_name(tool: &str) -> Option<&'static str> {
    match tool {
        "replace" | "EditTool" => Some("Edit"),
        "ShellTool" => Some("Bash"),
        tool => canonical_tool(tool).or_else(|| canonical_tool(tool.strip_suffix("Tool")?)),
    }
}

/// Adds a rule for commands with a prefix. There, the prefix may end within a word.
fn add_prefix(plan: &mut ImportPlan, what: &str, prefix: &str, verdict: Verdict) {
    let plain = |c: char| c.is_ascii_alphanumeric() || " ._-/=@+,%:".contains(c);
    let (is_plain, prefix) = (prefix.chars().all(plain), prefix.trim());
    match (is_plain && !prefix.is_empty() && !prefix.ends_with(':'), verdict) {
        (true, _) => plan.add_rule(verdict, what, &format!("Bash({prefix}:*)"), None),
        (false, Verdict::Allow) => {
            plan.leave(what, "its words have characters that mean something else in zero")
        }
        (false, _) => {
            let known = prefix.split(|c| !plain(c)).next().unwrap_or_default();
            let known = known.rsplit_once(' ').map_or("", |(known, _)| known.trim());
            let rule =
                if known.is_empty() { "Bash".to_owned() } else { format!("Bash({known}:*)") };
            plan.add_stricter_rule(verdict, what, &rule);
        }
    }
}

/// Denies the tools that an allowlist does not name.
fn add_core_tools(plan: &mut ImportPlan, shown: &str, core: &[String]) {
    let name = |entry: &String| entry.split('(').next().unwrap_or_default().trim().to_owned();
    for (tool, zero) in CORE_TOOLS {
        let mut entries =
            core.iter().filter(|entry| tool_name(&name(entry)) == Some(zero)).peekable();
        let what = format!("{shown} tools.core without {tool}");
        if entries.peek().is_none() {
            plan.add_rule(Verdict::Deny, &what, zero, None);
        } else if entries.all(|entry| entry.contains('(')) {
            let what = format!("{shown} tools.core with a part of {tool}");
            plan.add_stricter_rule(Verdict::Deny, &what, zero);
        }
    }
}

/// Whether a rule of a policy asks about every tool. Such a rule is not taken over, so those that it
/// overrides are not either.
fn asks_about_all(rule: &Value) -> bool {
    let is_for_all = match rule.get("toolName") {
        Some(Value::String(tool)) => tool == "*",
        Some(_) => list_field(rule, "toolName").iter().any(|tool| tool == "*"),
        None => {
            ["mcpName", "commandPrefix", "commandRegex"].iter().all(|key| rule.get(key).is_none())
        }
    };
    text_field(rule, "decision") == Some("ask_user") && is_for_all
}

fn priority(rule: &Value) -> i64 {
    rule.get("priority").and_then(Value::as_i64).unwrap_or_default()
}

/// Adds a rule of a policy file.
fn add_policy_rule(
    plan: &mut ImportPlan,
    shown: &str,
    rule: &Value,
    names: &ServerNames,
) -> Result<(), UsageError> {
    let decision = text_field(rule, "decision").unwrap_or_default();
    let verdict = match decision {
        "allow" => Verdict::Allow,
        "ask_user" => Verdict::Ask,
        "deny" => Verdict::Deny,
        other => {
            return Err(UsageError(format!(
                "{shown} has a rule with the unknown decision `{other}`; nothing was imported"
            )));
        }
    };
    let texts = |key: &str| match rule.get(key) {
        Some(Value::String(text)) => vec![text.clone()],
        _ => list_field(rule, key),
    };
    let condition = CONDITIONS.iter().find(|key| rule.get(key).is_some());
    let (prefixes, regexes) = (texts("commandPrefix"), texts("commandRegex"));
    let tools = texts("toolName");
    let what = |subject: &str| format!("{shown} {decision} {subject}");
    if let (Some(condition), Verdict::Allow) = (condition, verdict) {
        let why = format!("zero's rules cannot depend on `{condition}`");
        plan.leave(&what(&[tools, prefixes].concat().join(", ")), &why);
        return Ok(());
    }
    for prefix in &prefixes {
        add_prefix(plan, &what(prefix), prefix, verdict);
    }
    for regex in &regexes {
        match verdict {
            Verdict::Allow => plan.leave(&what(regex), "zero's rules have no regular expressions"),
            _ => {
                let special = |c: char| !(c.is_ascii_alphanumeric() || " -/_".contains(c));
                let plain = regex.split(special).next().unwrap_or_default();
                // An expression without anything special matches the beginning of a word, too.
                let prefix = plain.rsplit_once(' ').map_or("", |(prefix, _)| prefix.trim());
                let has_choice = regex.contains('|') && !regex.contains('(');
                let rule = match prefix.is_empty() || has_choice {
                    true => "Bash".to_owned(),
                    false => format!("Bash({prefix}:*)"),
                };
                plan.add_stricter_rule(verdict, &what(regex), &rule);
            }
        }
    }
    if !prefixes.is_empty() || !regexes.is_empty() {
        return Ok(());
    }
    if let Some(server) = text_field(rule, "mcpName") {
        let alias = names.get(server).map_or(server, String::as_str);
        let server_rule = |tool: &str| match (alias, tool) {
            ("*", _) => "mcp__*".to_owned(),
            (alias, tool) if tool.contains('*') => format!("{alias}__*"),
            (alias, tool) => format!("{alias}__{tool}"),
        };
        let tools = if tools.is_empty() { vec!["*".to_owned()] } else { tools };
        for tool in tools {
            let what = what(&format!("{server} {tool}"));
            let is_part = tool != "*" && (alias == "*" || tool.contains('*'));
            match (is_part, verdict) {
                (false, _) => plan.add_rule(verdict, &what, &server_rule(&tool), None),
                (true, Verdict::Allow) => {
                    plan.leave(&what, "zero's rules for servers have no such patterns");
                }
                (true, _) => plan.add_stricter_rule(verdict, &what, &server_rule(&tool)),
            }
        }
        return Ok(());
    }
    if tools.is_empty() {
        plan.not_enforced(&what("(no tool)"), "the rule names no tool");
    }
    for tool in tools {
        match (tool.as_str(), verdict) {
            ("*", Verdict::Deny) => plan.add_rule(verdict, &what("*"), "*", None),
            ("*", _) => plan.leave(&what("*"), "zero decides by risk and by its mode"),
            (name, _) => add_tool_entry(plan, &what(name), name, verdict, names),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn details(plan: &ImportPlan) -> Vec<&str> {
        plan.edits.iter().map(|edit| plan.lines[edit.line].detail.as_str()).collect()
    }

    #[track_caller]
    fn check_settings(settings: Value, expected: &[&str]) {
        let mut plan = ImportPlan::default();
        add_settings(&mut plan, "s", &settings, &mut ServerNames::new());
        assert_eq!(details(&plan), expected, "{settings}");
    }

    #[track_caller]
    fn check_policy(rule: &str, expected: &[&str]) {
        let mut plan = ImportPlan::default();
        let rule = parse_toml("p", rule).unwrap();
        let names = ServerNames::from([("docs".to_owned(), "docs".to_owned())]);
        add_policy_rule(&mut plan, "p", &rule, &names).unwrap();
        assert_eq!(details(&plan), expected, "{rule}");
    }

    #[test]
    fn tool_lists_become_rules_of_zero() {
        check_settings(
            json!({"tools": {"allowed": ["run_shell_command(git status)", "ShellTool(npm test)", "read_file", "web_fetch"], "exclude": ["run_shell_command(rm -rf)", "write_file"]}}),
            &[
                "allow Bash(git status:*)",
                "allow Bash(npm test:*)",
                "allow Read",
                "deny Bash(rm -rf:*)",
                "deny Write",
            ],
        );
        check_settings(
            json!({"coreTools": ["ReadFileTool", "run_shell_command(git)", "glob", "grep_search", "read_many_files", "list_directory", "replace", "write_file", "web_fetch"]}),
            &["deny Bash", "deny WebSearch"],
        );
        check_settings(
            json!({"general": {"defaultApprovalMode": "auto_edit"}}),
            &["mode accept-edits"],
        );
        check_settings(json!({"general": {"defaultApprovalMode": "yolo"}}), &[]);
    }

    #[test]
    fn policy_rule_never_gets_weaker() {
        check_policy(
            "decision = \"deny\"\ncommandPrefix = [\"rm -rf\", \"sudo\"]",
            &["deny Bash(rm -rf:*)", "deny Bash(sudo:*)"],
        );
        check_policy(
            "decision = \"deny\"\ncommandRegex = \"git (push|commit)\"",
            &["deny Bash(git:*)"],
        );
        check_policy("decision = \"deny\"\ncommandRegex = \"a b|c\"", &["deny Bash"]);
        check_policy("decision = \"allow\"\ncommandRegex = \"git .*\"", &[]);
        check_policy(
            "decision = \"deny\"\ntoolName = \"write_file\"\nargsPattern = \"x\"",
            &["deny Write"],
        );
        check_policy("decision = \"allow\"\ntoolName = \"write_file\"\nmodes = [\"yolo\"]", &[]);
        check_policy("decision = \"ask_user\"\nmcpName = \"docs\"", &["ask docs__*"]);
        check_policy("decision = \"deny\"\ntoolName = \"mcp_docs_get\"", &["deny docs__get"]);
        check_policy("decision = \"deny\"\ntoolName = \"docs__get\"", &["deny docs__get"]);
        check_policy("decision = \"allow\"\ntoolName = \"docs__g*\"", &[]);
        check_policy("decision = \"allow\"\nmcpName = \"docs\"\ntoolName = \"g*\"", &[]);
        check_policy("decision = \"allow\"\nmcpName = \"*\"\ntoolName = \"get\"", &[]);
        check_policy("decision = \"deny\"\nmcpName = \"*\"\ntoolName = \"get\"", &["deny mcp__*"]);
        check_policy("decision = \"deny\"\ntoolName = \"*\"", &["deny *"]);
    }

    #[test]
    fn rule_that_asks_about_all_is_recognised() {
        let check = |rule: &str, expected: bool| {
            assert_eq!(asks_about_all(&parse_toml("p", rule).unwrap()), expected, "{rule}");
        };
        check("decision = \"ask_user\"\ntoolName = \"*\"", true);
        check("decision = \"ask_user\"\ntoolName = [\"x\", \"*\"]", true);
        check("decision = \"ask_user\"", true);
        check("decision = \"ask_user\"\nmcpName = \"docs\"", false);
        check("decision = \"allow\"\ntoolName = \"*\"", false);
        assert_eq!(priority(&json!({"priority": 7})), 7);
    }

    #[test]
    fn server_with_old_transport_is_recognised() {
        assert!(server_parts(&json!({"url": "https://x.org/sse"})).is_sse);
        assert!(!server_parts(&json!({"httpUrl": "https://x.org/mcp"})).is_sse);
        let parts = server_parts(&json!({"command": "x", "env": {"A": "$A"}}));
        assert_eq!(parts.env, [("A".to_owned(), "${A}".to_owned())]);
    }
}
