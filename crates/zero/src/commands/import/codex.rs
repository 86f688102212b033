//! Codex: `config.toml`, rules files, prompts and agents.

use serde_json::{Value, json};
use zero_policy::{PermissionMode, Verdict};

use super::import_plan::ImportPlan;
use super::prompt_import::AgentParts;
use super::server_import::{ServerNames, ServerParts};
use super::source_files::{SourceFiles, parse_toml};
use super::starlark_rules::{StarlarkCall, StarlarkValue, parse_calls};
use super::{list_field, pairs_field, text_field};
use crate::exit::UsageError;

/// Most rules that the alternatives of one rule make.
const ALTERNATIVES_MAX: usize = 256;
/// Keys of the configuration that are handled.
const KNOWN_KEYS: [&str; 4] =
    ["approval_policy", "sandbox_mode", "sandbox_workspace_write", "mcp_servers"];

pub(super) fn read(sources: &SourceFiles<'_>, plan: &mut ImportPlan) -> Result<(), UsageError> {
    let folder = match sources.is_project() {
        true => sources.path(".codex"),
        false => sources.own_folder("CODEX_HOME", ".codex"),
    };
    if let Some((shown, config)) = sources.read_toml(&folder.join("config.toml"))? {
        add_config(plan, &shown, &config);
    }
    for file in sources.read_folder(&folder.join("rules"), ".rules")? {
        let calls = parse_calls(&file.text).map_err(|line| {
            UsageError(format!(
                "{}:{line} has more than calls of `prefix_rule` with literal arguments, which zero cannot read; nothing was imported. \
                 Move the file away to import the rest, and rewrite its rules by hand",
                file.shown
            ))
        })?;
        for call in &calls {
            add_call(plan, &file.shown, call)?;
        }
    }
    // `$1` to `$9` and `$ARGUMENTS` mean the same in zero.
    plan.add_markdown_commands(&sources.read_folder(&folder.join("prompts"), ".md")?, &[]);
    for file in sources.read_folder(&folder.join("agents"), ".toml")? {
        let agent = parse_toml(&file.shown, &file.text)?;
        add_agent(plan, &file.shown, &file.name, &agent);
    }
    Ok(())
}

fn add_config(plan: &mut ImportPlan, shown: &str, config: &Value) {
    let mut names = ServerNames::new();
    let servers = config.get("mcp_servers").and_then(Value::as_object).into_iter().flatten();
    for (name, server) in servers {
        plan.add_server(shown, name, server_parts(server), &mut names);
        add_approvals(plan, shown, name, server, &names);
    }
    let sandbox = text_field(config, "sandbox_mode");
    match sandbox {
        Some("read-only") => {
            plan.set_mode(&format!("{shown} sandbox_mode read-only"), PermissionMode::Plan);
        }
        Some("workspace-write") => plan.leave(
            &format!("{shown} sandbox_mode workspace-write"),
            "that is what zero's sandbox always does",
        ),
        Some(mode) => plan.leave(
            &format!("{shown} sandbox_mode {mode}"),
            "zero runs no command without a sandbox, except after a question",
        ),
        None => {}
    }
    if let Some(policy) = text_field(config, "approval_policy") {
        let what = format!("{shown} approval_policy {policy}");
        match policy {
            "untrusted" | "on-request" if sandbox != Some("read-only") => {
                plan.set_mode(&what, PermissionMode::Ask);
            }
            "untrusted" | "on-request" => plan.leave(&what, "the mode `plan` is stricter"),
            _ => plan.leave(
                &what,
                "zero asks unless a rule or a mode allows; see `zero help permissions`",
            ),
        }
    }
    let write = config.get("sandbox_workspace_write").cloned().unwrap_or_default();
    for folder in list_field(&write, "writable_roots") {
        plan.add_item(
            &format!("{shown} writable_roots {folder}"),
            &["sandbox", "writable"],
            json!(folder),
        );
    }
    if write.get("network_access") == Some(&json!(true)) {
        plan.leave(
            &format!("{shown} network_access"),
            "zero opens hosts one by one: `zero config add sandbox.network HOST`",
        );
    }
    for (key, value) in config.as_object().into_iter().flatten() {
        if KNOWN_KEYS.contains(&key.as_str()) {
            continue;
        }
        let what = format!("{shown} {key}");
        let why = match key.as_str() {
            "model" | "model_provider" | "model_providers" | "model_reasoning_effort" => {
                "set up a model with `zero login`"
            }
            "profiles" => "zero has no profiles; use `--settings FILE`",
            "projects" => "trust folders with `zero trust`",
            "hooks" | "notify" => {
                "rewrite it by hand; see `zero help hooks` and `zero help questions`"
            }
            "permissions" | "default_permissions" => {
                "write its restrictions as rules; see `zero help permissions`"
            }
            _ => "zero has no such setting",
        };
        let restricts = ["hooks", "permissions", "default_permissions"].contains(&key.as_str());
        match restricts && !value.is_null() {
            true => plan.not_enforced(&what, why),
            false => plan.leave(&what, why),
        }
    }
}

fn server_parts(server: &Value) -> ServerParts {
    let mut env = pairs_field(server, "env");
    let passed = server.get("env_vars").and_then(Value::as_array).into_iter().flatten();
    for variable in passed {
        let name = variable.as_str().or_else(|| text_field(variable, "name"));
        env.extend(name.map(|name| (name.to_owned(), format!("${{{name}}}"))));
    }
    let mut headers = pairs_field(server, "http_headers");
    for (header, variable) in pairs_field(server, "env_http_headers") {
        headers.push((header, format!("${{{variable}}}")));
    }
    if let Some(variable) = text_field(server, "bearer_token_env_var") {
        headers.push(("Authorization".to_owned(), format!("Bearer ${{{variable}}}")));
    }
    let seconds = |key: &str| {
        let seconds = server.get(key).and_then(Value::as_f64).filter(|time| *time > 0.0);
        // Beyond a day, a timeout is none.
        seconds.map(|time| (time.min(86_400.0) * 1000.0).round())
    };
    let millis = |seconds: Option<f64>| seconds.and_then(|time| format!("{time:.0}").parse().ok());
    let include = server.get("enabled_tools").map(|_| list_field(server, "enabled_tools"));
    ServerParts {
        command: text_field(server, "command").map(str::to_owned),
        args: list_field(server, "args"),
        env,
        cwd: text_field(server, "cwd").map(str::to_owned),
        url: text_field(server, "url").map(str::to_owned),
        headers,
        timeout_ms: millis(seconds("tool_timeout_sec")),
        startup_ms: millis(seconds("startup_timeout_sec"))
            .or_else(|| server.get("startup_timeout_ms").and_then(Value::as_u64)),
        include,
        exclude: list_field(server, "disabled_tools"),
        disabled: server.get("enabled") == Some(&json!(false)),
        is_sse: false,
        ignored: ["bearer_token", "oauth", "oauth_resource", "scopes", "required"]
            .into_iter()
            .filter(|key| server.get(key).is_some())
            .collect(),
    }
}

/// Approvals of the tools of a server. zero asks about each by default.
fn add_approvals(
    plan: &mut ImportPlan,
    shown: &str,
    name: &str,
    server: &Value,
    names: &ServerNames,
) {
    let Some(alias) = names.get(name) else { return };
    let tools = server.get("tools").and_then(Value::as_object).into_iter().flatten();
    let modes = tools
        .filter_map(|(tool, config)| Some((tool.as_str(), text_field(config, "approval_mode")?)));
    let default = text_field(server, "default_tools_approval_mode").map(|mode| ("*", mode));
    let modes: Vec<(&str, &str)> = default.into_iter().chain(modes).collect();
    for (tool, mode) in modes {
        let what = format!("{shown} MCP tool `{name}` {tool} {mode}");
        match (mode, tool) {
            ("prompt", tool) => {
                plan.add_rule(Verdict::Ask, &what, &format!("{alias}__{tool}"), None)
            }
            ("approve", tool) if !tool.contains('*') => {
                plan.add_rule(Verdict::Allow, &what, &format!("{alias}__{tool}"), None);
            }
            _ => {
                plan.leave(&what, "zero asks about the tools of a server unless a rule allows them")
            }
        }
    }
}

fn add_call(plan: &mut ImportPlan, shown: &str, call: &StarlarkCall) -> Result<(), UsageError> {
    let argument =
        |name: &str| call.arguments.iter().find(|(known, _)| known == name).map(|(_, value)| value);
    let text = |name: &str| match argument(name) {
        Some(StarlarkValue::Text(text)) => Some(text.as_str()),
        _ => None,
    };
    let at = format!("{shown}:{}", call.line);
    if call.function != "prefix_rule" {
        let what = format!("{at} {}", call.function);
        match call.function.as_str() {
            "host_executable" => plan.leave(&what, "zero itself knows where programs are"),
            _ => plan.not_enforced(&what, "zero does not know this function"),
        }
        return Ok(());
    }
    let verdict = match text("decision").unwrap_or("allow") {
        "allow" => Verdict::Allow,
        "prompt" => Verdict::Ask,
        "forbidden" => Verdict::Deny,
        other => {
            return Err(UsageError(format!(
                "{at} has the unknown decision `{other}`; nothing was imported"
            )));
        }
    };
    let prefixes = argument("pattern").and_then(expand_pattern).ok_or_else(|| {
        UsageError(format!("{at} has a pattern that zero cannot read; nothing was imported"))
    })?;
    for words in prefixes {
        let what = format!("{at} {} {}", text("decision").unwrap_or("allow"), words.join(" "));
        let plain: Vec<&String> = words.iter().take_while(|word| is_plain_word(word)).collect();
        let is_whole = plain.len() == words.len();
        let prefix = plain.iter().map(|word| word.as_str()).collect::<Vec<_>>().join(" ");
        let rule = if plain.is_empty() { "Bash".to_owned() } else { format!("Bash({prefix}:*)") };
        match (is_whole, verdict) {
            (true, _) => plan.add_rule(verdict, &what, &rule, text("justification")),
            (false, Verdict::Allow) => {
                plan.leave(&what, "it has words that a rule of zero cannot have");
            }
            (false, _) => plan.add_stricter_rule(verdict, &what, &rule),
        }
    }
    Ok(())
}

/// The prefixes that a pattern with alternatives stands for.
fn expand_pattern(pattern: &StarlarkValue) -> Option<Vec<Vec<String>>> {
    let StarlarkValue::List(items) = pattern else { return None };
    let mut prefixes = vec![Vec::new()];
    for item in items {
        let words: Vec<&String> = match item {
            StarlarkValue::Text(word) => vec![word],
            StarlarkValue::List(words) => words
                .iter()
                .map(|word| match word {
                    StarlarkValue::Text(word) => Some(word),
                    StarlarkValue::List(_) => None,
                })
                .collect::<Option<_>>()?,
        };
        let longer = prefixes.iter().flat_map(|prefix| {
            words.iter().map(move |word| [prefix.as_slice(), &[(*word).clone()]].concat())
        });
        prefixes = longer.take(ALTERNATIVES_MAX + 1).collect();
        if prefixes.len() > ALTERNATIVES_MAX {
            return None;
        }
    }
    (!items.is_empty() && !prefixes.is_empty()).then_some(prefixes)
}

/// Whether a word means itself in a rule.
fn is_plain_word(word: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-/=@+,%:".contains(c);
    !word.is_empty() && word.chars().all(plain) && !word.ends_with(':')
}

fn add_agent(plan: &mut ImportPlan, shown: &str, file_name: &str, agent: &Value) {
    let known = ["name", "description", "developer_instructions", "sandbox_mode"];
    let fields = agent.as_object().into_iter().flatten();
    let ignored: Vec<&str> =
        fields.map(|(key, _)| key.as_str()).filter(|key| !known.contains(key)).collect();
    plan.add_agent(
        shown,
        &AgentParts {
            name: text_field(agent, "name").unwrap_or(file_name),
            description: text_field(agent, "description"),
            tools: None,
            is_plan: text_field(agent, "sandbox_mode") == Some("read-only"),
            prompt: text_field(agent, "developer_instructions").unwrap_or_default(),
            ignored,
        },
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(rules: &str, expected: &[&str]) {
        let mut plan = ImportPlan::default();
        for call in parse_calls(rules).unwrap() {
            add_call(&mut plan, "r", &call).unwrap();
        }
        let found: Vec<&str> = plan.lines.iter().map(|line| line.detail.as_str()).collect();
        assert_eq!(found, expected, "{rules}");
    }

    #[test]
    fn prefix_rule_becomes_rules_of_zero() {
        check(r#"prefix_rule(pattern = ["git", "status"])"#, &["allow Bash(git status:*)"]);
        check(
            r#"prefix_rule(pattern = ["git", ["push", "fetch"]], decision = "prompt")"#,
            &["ask Bash(git push:*)", "ask Bash(git fetch:*)"],
        );
        check(
            r#"prefix_rule(pattern = ["rm", "*"], decision = "forbidden")"#,
            &["deny Bash(rm:*)"],
        );
        check(r#"prefix_rule(pattern = ["$(x)"], decision = "forbidden")"#, &["deny Bash"]);
        check(
            r#"prefix_rule(pattern = ["sh", "-c", "a b"])"#,
            &["it has words that a rule of zero cannot have"],
        );
    }

    #[test]
    fn unreadable_rule_stops_the_import() {
        for rules in [
            r#"prefix_rule(pattern = "rm", decision = "forbidden")"#,
            r#"prefix_rule(pattern = ["rm"], decision = "never")"#,
            r#"prefix_rule(pattern = [["a", ["b"]]], decision = "forbidden")"#,
            r#"prefix_rule(pattern = [], decision = "forbidden")"#,
        ] {
            let call = &parse_calls(rules).unwrap()[0];
            assert!(add_call(&mut ImportPlan::default(), "r", call).is_err(), "{rules}");
        }
    }

    #[test]
    fn server_gets_its_variables_by_name() {
        let server = json!({"url": "https://x.org/mcp", "bearer_token_env_var": "X_TOKEN", "startup_timeout_sec": 20.5, "enabled": false});
        let parts = server_parts(&server);
        assert_eq!(parts.headers, [("Authorization".to_owned(), "Bearer ${X_TOKEN}".to_owned())]);
        assert_eq!((parts.startup_ms, parts.disabled), (Some(20_500), true));
        let server = json!({"command": "x", "env_vars": ["A", {"name": "B"}]});
        let names: Vec<String> =
            server_parts(&server).env.into_iter().map(|(_, value)| value).collect();
        assert_eq!(names, ["${A}", "${B}"]);
    }
}
