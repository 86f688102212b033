//! opencode: `opencode.json`, commands and agents.
//!
//! In its permissions, the last matching pattern wins; in zero, a deny rule always does. A pattern that
//! denies is therefore taken over even if a later one allows a part of it again.

use serde_json::{Value, json};
use zero_core::FrontMatter;
use zero_policy::Verdict;
use zero_policy::rule::canonical_tool;

use super::import_plan::ImportPlan;
use super::prompt_import::{AgentParts, CommandParts};
use super::server_import::{ServerNames, ServerParts};
use super::source_files::{FolderFile, SourceFiles};
use super::{list_field, pairs_field, text_field};
use crate::exit::UsageError;

/// `!`, followed by a command in backquotes, inserts its output; `@` inserts files.
const INSERTIONS: &[&str] = &["!`"];
/// Tools that an agent has unless its permissions deny them.
const AGENT_TOOLS: [&str; 13] = [
    "Read",
    "ReadMany",
    "LS",
    "Glob",
    "Grep",
    "LSP",
    "Edit",
    "Write",
    "Delete",
    "Bash",
    "WebFetch",
    "WebSearch",
    "TodoWrite",
];

pub(super) fn read(sources: &SourceFiles<'_>, plan: &mut ImportPlan) -> Result<(), UsageError> {
    let (configs, folder) = match sources.is_project() {
        true => (
            ["opencode.json", "opencode.jsonc"].map(|name| sources.path(name)),
            sources.path(".opencode"),
        ),
        false => {
            let folder = sources.config_path("opencode");
            (["opencode.json", "opencode.jsonc"].map(|name| folder.join(name)), folder)
        }
    };
    for path in configs {
        if let Some((shown, config)) = sources.read_json(&path)? {
            add_config(plan, &shown, &config);
        }
    }
    if sources.is_project() {
        for name in ["opencode.json", "opencode.jsonc"] {
            if let Some((shown, config)) = sources.read_json(&folder.join(name))? {
                add_config(plan, &shown, &config);
            }
        }
    }
    for name in ["command", "commands"] {
        plan.add_markdown_commands(&sources.read_folder(&folder.join(name), ".md")?, INSERTIONS);
    }
    for name in ["agent", "agents"] {
        for file in sources.read_folder(&folder.join(name), ".md")? {
            add_agent_file(plan, &file);
        }
    }
    Ok(())
}

fn add_config(plan: &mut ImportPlan, shown: &str, config: &Value) {
    let mut names = ServerNames::new();
    for (name, server) in config.get("mcp").and_then(Value::as_object).into_iter().flatten() {
        plan.add_server(shown, name, server_parts(server), &mut names);
    }
    add_permissions(plan, shown, config.get("permission").unwrap_or(&Value::Null), &names);
    for (tool, is_on) in config.get("tools").and_then(Value::as_object).into_iter().flatten() {
        if is_on == &json!(false) {
            add_entry(plan, shown, tool, "*", Verdict::Deny, &names);
        }
    }
    for (name, command) in config.get("command").and_then(Value::as_object).into_iter().flatten() {
        let ignored = ["agent", "model", "subtask"];
        let ignored = ignored.into_iter().filter(|key| command.get(key).is_some()).collect();
        plan.add_command(
            shown,
            &CommandParts {
                name,
                description: text_field(command, "description"),
                argument_hint: None,
                prompt: text_field(command, "template").unwrap_or_default(),
                insertions: INSERTIONS,
                ignored,
            },
        );
    }
    for (name, agent) in config.get("agent").and_then(Value::as_object).into_iter().flatten() {
        add_agent(plan, shown, name, agent, text_field(agent, "prompt").unwrap_or_default());
    }
    let known = ["mcp", "permission", "tools", "command", "agent", "$schema"];
    let fields = config.as_object().into_iter().flatten();
    for (key, _) in fields.filter(|(key, _)| !known.contains(&key.as_str())) {
        let why = match key.as_str() {
            "model" | "small_model" | "provider" | "disabled_providers" | "enabled_providers" => {
                "set up a model with `zero login`"
            }
            "instructions" => "zero reads AGENTS.md; name the files there",
            "plugin" => "zero has hooks and tools from commands; see `zero help hooks`",
            "formatter" => "a hook can format files after each change; see `zero help hooks`",
            "lsp" => "zero has `lspServers`",
            _ => "zero has no such setting",
        };
        match key.as_str() {
            "plugin" => plan.not_enforced(&format!("{shown} {key}"), why),
            _ => plan.leave(&format!("{shown} {key}"), why),
        }
    }
}

fn server_parts(server: &Value) -> ServerParts {
    let mut command = list_field(server, "command").into_iter();
    let program = command.next();
    let variables = |pairs: Vec<(String, String)>| -> Vec<(String, String)> {
        pairs.into_iter().map(|(name, value)| (name, env_variables(&value))).collect()
    };
    ServerParts {
        command: program.map(|program| env_variables(&program)),
        args: command.map(|word| env_variables(&word)).collect(),
        env: variables(pairs_field(server, "environment")),
        cwd: text_field(server, "cwd").map(str::to_owned),
        url: text_field(server, "url").map(env_variables),
        headers: variables(pairs_field(server, "headers")),
        startup_ms: server.get("timeout").and_then(Value::as_u64),
        disabled: server.get("enabled") == Some(&json!(false)),
        ignored: ["oauth"].into_iter().filter(|key| server.get(key).is_some()).collect(),
        ..ServerParts::default()
    }
}

/// Writes `{env:NAME}` as zero does.
fn env_variables(text: &str) -> String {
    text.replace("{env:", "${")
}

/// Adds the permissions: one action for everything, or an action or patterns for each tool.
fn add_permissions(plan: &mut ImportPlan, shown: &str, permission: &Value, names: &ServerNames) {
    if let Some(verdict) = permission.as_str().and_then(verdict_of) {
        return add_entry(plan, shown, "*", "*", verdict, names);
    }
    let entries = permission_entries(permission);
    for (at, (tool, pattern, verdict)) in entries.iter().enumerate() {
        // A rule that asks about everything is not taken over, so the rules that it overrides are
        // not either.
        let is_overridden = entries[at..].iter().any(|(later, pattern, verdict)| {
            (later == tool || *later == "*") && *pattern == "*" && *verdict == Verdict::Ask
        });
        match verdict {
            Verdict::Allow if is_overridden => {
                let what = format!("{shown} {tool} {pattern} allow");
                plan.leave(&what, "a later entry asks about all of it");
            }
            _ => add_entry(plan, shown, tool, pattern, *verdict, names),
        }
    }
}

/// The tools, patterns and actions of permissions, in their order.
fn permission_entries(permission: &Value) -> Vec<(&str, &str, Verdict)> {
    let mut entries = Vec::new();
    for (tool, value) in permission.as_object().into_iter().flatten() {
        let whole =
            value.as_str().and_then(verdict_of).map(|verdict| (tool.as_str(), "*", verdict));
        entries.extend(whole);
        let patterns = value.as_object().into_iter().flatten();
        entries.extend(patterns.filter_map(|(pattern, action)| {
            Some((tool.as_str(), pattern.as_str(), action.as_str().and_then(verdict_of)?))
        }));
    }
    entries
}

fn verdict_of(action: &str) -> Option<Verdict> {
    match action {
        "allow" => Some(Verdict::Allow),
        "ask" => Some(Verdict::Ask),
        "deny" => Some(Verdict::Deny),
        _ => None,
    }
}

fn add_entry(
    plan: &mut ImportPlan,
    shown: &str,
    tool: &str,
    pattern: &str,
    verdict: Verdict,
    names: &ServerNames,
) {
    let action = match verdict {
        Verdict::Allow => "allow",
        Verdict::Ask => "ask",
        Verdict::Deny => "deny",
    };
    let what = format!("{shown} {tool} {pattern} {action}");
    let is_any = pattern == "*";
    match tool {
        "*" if verdict == Verdict::Deny => return plan.add_rule(verdict, &what, "*", None),
        "*" => {
            let why =
                "zero decides by risk and by its mode: see `zero config set permissions.mode`";
            return plan.leave(&what, why);
        }
        "doom_loop" => return plan.leave(&what, "zero stops loops itself"),
        "external_directory" => {
            let why =
                "zero asks about files outside the workspace; write rules for `Read` and `Edit`";
            return match verdict {
                Verdict::Deny if is_any => plan.not_enforced(&what, why),
                Verdict::Deny => {
                    plan.add_rule(verdict, &what, &format!("Read({})", deny_path(pattern)), None)
                }
                _ => plan.leave(&what, why),
            };
        }
        "task" | "skill" if is_any && verdict == Verdict::Deny && tool == "task" => {
            let why = "`zero config set subagents.maxDepth 0` turns sub-agents off";
            return plan.not_enforced(&what, why);
        }
        _ => {}
    }
    let Some(name) = canonical_tool(tool) else {
        return plan.add_external_rules(verdict, &what, tool, !is_any, names);
    };
    if is_any {
        return match (name, verdict) {
            ("Bash" | "Edit" | "WebFetch", Verdict::Ask) => {
                plan.leave(
                    &what,
                    "zero asks by default, and a rule to ask would override every rule that allows",
                );
            }
            ("WebFetch", Verdict::Allow) => {
                plan.leave(&what, "in zero it would also let every command reach every host");
            }
            _ => plan.add_rule(verdict, &what, name, None),
        };
    }
    match (name, verdict) {
        ("Bash", _) => add_command_rule(plan, &what, pattern, verdict),
        ("Read" | "Edit" | "LS", Verdict::Allow) => match allow_path(pattern) {
            Some(path) => plan.add_rule(verdict, &what, &format!("{name}({path})"), None),
            None => plan.leave(&what, "its pattern has another meaning in zero"),
        },
        ("Read" | "Edit" | "LS", _) => {
            let path = deny_path(pattern);
            let rule = if path == "*" { name.to_owned() } else { format!("{name}({path})") };
            match path == pattern {
                true => plan.add_rule(verdict, &what, &rule, None),
                false => plan.add_stricter_rule(verdict, &what, &rule),
            }
        }
        ("WebFetch", _) => {
            let host = pattern.split("://").nth(1).and_then(|rest| rest.strip_suffix("/*"));
            let host = host.filter(|host| !host.contains(['/', '*', '?', ':', '@']));
            match (host, verdict) {
                (Some(host), _) => {
                    plan.add_rule(verdict, &what, &format!("WebFetch(domain:{host})"), None);
                }
                (None, Verdict::Allow) => plan.leave(&what, "zero's rules are about whole hosts"),
                (None, _) => plan.add_stricter_rule(verdict, &what, "WebFetch"),
            }
        }
        (_, Verdict::Allow) => {
            plan.leave(&what, "zero's rules for this tool have no such patterns")
        }
        _ => plan.add_stricter_rule(verdict, &what, name),
    }
}

fn add_command_rule(plan: &mut ImportPlan, what: &str, pattern: &str, verdict: Verdict) {
    // There, a colon before the last `*` is a letter like any other: `npm run test:*`.
    let is_clear =
        !pattern.contains(['?', '\\', '"', '\'', '(', ')', '$', '`']) && !pattern.ends_with(":*");
    match (is_clear && !pattern.starts_with('*'), verdict) {
        (true, _) => plan.add_rule(verdict, what, &format!("Bash({pattern})"), None),
        (false, Verdict::Allow) => {
            plan.leave(what, "its pattern has characters that mean something else in zero")
        }
        (false, _) => {
            let special = |c: char| !(c.is_ascii_alphanumeric() || " ._-/=@+,%:".contains(c));
            let plain = pattern.split(special).next().unwrap_or_default();
            // The last word may be cut within.
            let prefix = plain.rsplit_once(' ').map_or("", |(prefix, _)| prefix.trim());
            let rule =
                if prefix.is_empty() { "Bash".to_owned() } else { format!("Bash({prefix}:*)") };
            plan.add_stricter_rule(verdict, what, &rule);
        }
    }
}

/// A path of zero's that matches at least what the pattern matches. There, `*` matches `/` too.
fn deny_path(pattern: &str) -> String {
    let pattern = pattern.replace("$HOME", "~");
    let wild = |part: &str| part.contains(['*', '?', '[', '{', '\\']);
    if !pattern.contains('/') {
        return pattern.replace('?', "*");
    }
    let base = if pattern.starts_with('/') { "/" } else { "" };
    let parts: Vec<&str> = pattern.split('/').collect();
    let plain: Vec<&str> = parts.iter().copied().take_while(|part| !wild(part)).collect();
    match (plain.len() == parts.len(), plain.iter().all(|part| part.is_empty())) {
        (true, _) => format!("{base}{pattern}"),
        (false, true) if base.is_empty() => "*".to_owned(),
        (false, _) => format!("{base}{}/**", plain.join("/")),
    }
}

/// A path of zero's that matches at most what the pattern matches.
fn allow_path(pattern: &str) -> Option<String> {
    let pattern = pattern.replace("$HOME", "~");
    let is_clear = !pattern.contains(['?', '[', '{', '\\', '(', ')']);
    is_clear.then(|| match () {
        () if pattern.starts_with('/') => format!("/{pattern}"),
        // Without a slash, a name in zero is that of a file in any folder.
        () if !pattern.contains('/') && !pattern.starts_with('*') => format!("./{pattern}"),
        () => pattern,
    })
}

fn add_agent_file(plan: &mut ImportPlan, file: &FolderFile) {
    match FrontMatter::parse(&file.text) {
        Err(error) => plan.leave(&file.shown, &error.to_string()),
        Ok((fields, prompt)) => {
            let mut agent = json!({});
            for key in fields.keys() {
                // Nested fields, such as permissions, cannot be read as text. Their effect is unknown, so
                // they get a value that neither allows nor denies anything.
                let text = fields.text(key).ok().flatten();
                agent[key] = text.map_or(json!({"nested": null}), |text| json!(text));
            }
            add_agent(plan, &file.shown, &file.name, &agent, prompt);
        }
    }
}

fn add_agent(plan: &mut ImportPlan, shown: &str, name: &str, agent: &Value, prompt: &str) {
    let what = format!("{shown} agent `{name}`");
    let mut denied = Vec::new();
    let tools = agent.get("tools").and_then(Value::as_object).into_iter().flatten();
    for (tool, is_on) in tools {
        match (is_on, canonical_tool(tool)) {
            (Value::Bool(true), _) => {}
            (Value::Bool(false), Some(tool)) => denied.push(tool),
            _ => {
                return plan.leave(
                    &what,
                    "zero cannot express which tools it may use; rewrite it by hand",
                );
            }
        }
    }
    let permissions = match agent.get("permission") {
        None => None,
        Some(Value::Object(permissions)) => Some(permissions),
        Some(_) => {
            return plan.leave(&what, "zero cannot express its permissions; rewrite it by hand");
        }
    };
    for (tool, action) in permissions.into_iter().flatten() {
        match (action.as_str(), canonical_tool(tool)) {
            (Some("allow" | "ask"), _) => {}
            (Some("deny"), Some(tool)) => denied.push(tool),
            _ => {
                return plan
                    .leave(&what, "zero cannot express its permissions; rewrite it by hand");
            }
        }
    }
    if denied.contains(&"Edit") {
        denied.extend(["Write", "Delete"]);
    }
    let tools = (!denied.is_empty()).then(|| {
        let left = AGENT_TOOLS.iter().filter(|tool| !denied.contains(tool));
        left.map(|tool| (*tool).to_owned()).collect()
    });
    let known = ["description", "tools", "permission", "prompt", "name"];
    let fields = agent.as_object().into_iter().flatten();
    let ignored = fields.map(|(key, _)| key.as_str()).filter(|key| !known.contains(key)).collect();
    let description = text_field(agent, "description");
    plan.add_agent(
        shown,
        &AgentParts { name, description, tools, is_plan: false, prompt, ignored },
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(permission: Value, expected: &[&str]) {
        let mut plan = ImportPlan::default();
        let names = ServerNames::from([("docs".to_owned(), "docs".to_owned())]);
        add_permissions(&mut plan, "f", &permission, &names);
        let rules = plan.edits.iter().map(|edit| plan.lines[edit.line].detail.as_str());
        assert_eq!(rules.collect::<Vec<_>>(), expected, "{permission}");
    }

    #[test]
    fn permission_becomes_rules_of_zero() {
        check(
            json!({"bash": {"*": "ask", "git *": "allow", "git push*": "deny"}}),
            &["allow Bash(git *)", "deny Bash(git push*)"],
        );
        check(json!({"bash": "deny"}), &["deny Bash"]);
        check(json!({"bash": {"*": "deny", "ls": "allow"}}), &["deny Bash", "allow Bash(ls)"]);
        check(
            json!({"bash": {"rm ?": "deny", "*sudo*": "deny", "x ?": "allow"}}),
            &["deny Bash(rm:*)", "deny Bash"],
        );
        check(
            json!({"bash": {"npm run x:*": "deny", "npm run y:*": "allow"}}),
            &["deny Bash(npm run:*)"],
        );
        check(json!({"bash": {"git *": "allow", "*": "ask"}}), &[]);
        check(json!({"bash": {"ls": "allow"}, "edit": "allow", "*": "ask"}), &[]);
        check(json!("allow"), &[]);
        check(json!("deny"), &["deny *"]);
        check(
            json!({"edit": "deny", "webfetch": "allow", "websearch": "deny"}),
            &["deny Edit", "deny WebSearch"],
        );
        check(
            json!({"read": {"*.env": "deny", "secrets/*": "deny", "*/x": "deny", "src/*": "allow"}}),
            &["deny Read(*.env)", "deny Read(secrets/**)", "deny Read", "allow Read(src/*)"],
        );
        check(
            json!({"edit": {"notes": "allow", "*.md": "allow", "/tmp/x": "allow"}}),
            &["allow Edit(./notes)", "allow Edit(*.md)", "allow Edit(//tmp/x)"],
        );
        check(
            json!({"read": {"/etc/x": "deny", "~/a/*": "deny", "$HOME/b": "deny"}}),
            &["deny Read(//etc/x)", "deny Read(~/a/**)", "deny Read(~/b)"],
        );
        check(
            json!({"webfetch": {"https://x.org/*": "deny", "https://x.org/a": "deny"}}),
            &["deny WebFetch(domain:x.org)", "deny WebFetch"],
        );
        check(
            json!({"docs_*": "deny", "docs_get": "allow", "other_get": "deny"}),
            &["deny docs__*", "allow docs__get"],
        );
    }

    #[test]
    fn agent_file_with_nested_restrictions_is_left_out() {
        for (fields, is_taken) in [
            ("description: x", true),
            ("tools:\n  bash: false", false),
            ("permission:\n  edit: deny", false),
        ] {
            let text = format!("---\n{fields}\n---\nprompt\n");
            let file = FolderFile { name: "a".to_owned(), shown: "a.md".to_owned(), text };
            let mut plan = ImportPlan::default();
            add_agent_file(&mut plan, &file);
            assert_eq!(plan.prompts.len() == 1, is_taken, "{fields}");
        }
    }

    #[test]
    fn agent_with_restrictions_zero_cannot_express_is_left_out() {
        for (agent, tools) in [
            (
                json!({"prompt": "p", "tools": {"bash": false}}),
                Some(
                    "\"Read, ReadMany, LS, Glob, Grep, LSP, Edit, Write, Delete, WebFetch, WebSearch, TodoWrite\"",
                ),
            ),
            (
                json!({"prompt": "p", "permission": {"edit": "deny", "bash": "deny", "webfetch": "deny"}}),
                Some("\"Read, ReadMany, LS, Glob, Grep, LSP, WebSearch, TodoWrite\""),
            ),
            (json!({"prompt": "p", "permission": {"bash": {"git *": "allow"}}}), None),
            (json!({"prompt": "p", "tools": {"docs_*": false}}), None),
        ] {
            let mut plan = ImportPlan::default();
            add_agent(&mut plan, "f", "a", &agent, "p");
            let text = plan.prompts.first().map(|prompt| prompt.text.as_str());
            match (text, tools) {
                (Some(text), Some(tools)) => assert!(text.contains(tools), "{text}"),
                (text, tools) => assert_eq!(text, tools, "{agent}"),
            }
        }
    }
}
