//! MCP servers of other programs, in the words of zero's settings.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use zero_mcp::server_definition::ServerAlias;
use zero_policy::Verdict;
use zero_runtime::redaction::{redact_text, redact_value};

use super::import_plan::ImportPlan;

/// Names of servers in zero, by their names in the other program.
pub(super) type ServerNames = BTreeMap<String, String>;

/// What another program says about a server.
#[derive(Debug, Default)]
pub(super) struct ServerParts {
    pub(super) command: Option<String>,
    pub(super) args: Vec<String>,
    pub(super) env: Vec<(String, String)>,
    pub(super) cwd: Option<String>,
    pub(super) url: Option<String>,
    pub(super) headers: Vec<(String, String)>,
    pub(super) timeout_ms: Option<u64>,
    pub(super) startup_ms: Option<u64>,
    /// The only tools to use.
    pub(super) include: Option<Vec<String>>,
    pub(super) exclude: Vec<String>,
    pub(super) disabled: bool,
    /// Whether it needs the deprecated transport.
    pub(super) is_sse: bool,
    /// Keys that have no counterpart.
    pub(super) ignored: Vec<&'static str>,
}

impl ImportPlan {
    /// Adds a server, and notes its name.
    pub(super) fn add_server(
        &mut self,
        source: &str,
        name: &str,
        parts: ServerParts,
        names: &mut ServerNames,
    ) {
        let what = format!("{source} MCP server `{name}`");
        let Some(alias) = alias_for(name) else {
            return self.leave(&what, "zero cannot make a name of it; add it with `zero mcp add`");
        };
        // Rules of the one would otherwise apply to the other.
        if names.iter().any(|(other, taken)| other != name && *taken == alias) {
            let why = format!("another server is `{alias}` in zero; add it with `zero mcp add`");
            return self.leave(&what, &why);
        }
        names.insert(name.to_owned(), alias.clone());
        match server_json(&parts) {
            Err(why) => self.leave(&what, &why),
            Ok((server, mut notes)) => {
                if alias != name {
                    notes.insert(0, format!("as `{alias}`"));
                }
                if !parts.ignored.is_empty() {
                    notes.push(format!("without {}", parts.ignored.join(", ")));
                }
                if parts.url.is_none() {
                    notes.push("in the sandbox; `network` gives it hosts".to_owned());
                }
                self.set_value(&what, &["mcpServers", &alias], server, notes.join("; "));
            }
        }
    }

    /// Adds the rules for a tool of a server, which the other program calls `server_tool`. `is_partial` says
    /// that the entry concerns some calls of the tool only.
    pub(super) fn add_external_rules(
        &mut self,
        verdict: Verdict,
        what: &str,
        tool: &str,
        is_partial: bool,
        names: &ServerNames,
    ) {
        let rules = external_rules(tool, verdict, names);
        match verdict {
            Verdict::Deny if rules.is_empty() => {
                let why = "zero has no such tool; if a server has it, deny it as `SERVER__TOOL`";
                return self.not_enforced(what, why);
            }
            Verdict::Allow if is_partial => {
                return self.leave(what, "zero's rules for this tool have no such patterns");
            }
            _ if rules.is_empty() => return self.leave(what, "zero has no such tool"),
            _ => {}
        }
        for rule in rules {
            match rule.is_exact && !is_partial {
                true => self.add_rule(verdict, what, &rule.text, None),
                false => self.add_stricter_rule(verdict, what, &rule.text),
            }
        }
    }
}

/// A rule for tools of a server.
#[derive(Debug, PartialEq, Eq)]
struct ExternalRule {
    text: String,
    /// Whether the name in the other program means all that the rule matches.
    is_exact: bool,
}

/// The rules for `server_tool`. The name does not say where that of the server ends: restrictions apply to
/// every server that may be meant, and permissions only if there is exactly one.
fn external_rules(tool: &str, verdict: Verdict, names: &ServerNames) -> Vec<ExternalRule> {
    let is_allow = verdict == Verdict::Allow;
    let (plain, pattern) = tool.split_at(tool.find(['*', '?']).unwrap_or(tool.len()));
    let mut rules = Vec::new();
    for (name, alias) in names {
        let server = format!("{}_", joined_name(name));
        let all = |is_exact| Some(ExternalRule { text: format!("{alias}__*"), is_exact });
        rules.extend(match plain.strip_prefix(&server) {
            Some(tool) if pattern.is_empty() && !tool.is_empty() => {
                Some(ExternalRule { text: format!("{alias}__{tool}"), is_exact: true })
            }
            _ if pattern == "*" && !plain.is_empty() && server.starts_with(plain) => all(true),
            _ if is_allow => None,
            Some(_) => all(false),
            None if !pattern.is_empty() && server.starts_with(plain) => all(false),
            None if pattern.is_empty() && server.trim_end_matches('_') == plain => all(false),
            None => None,
        });
    }
    if is_allow && pattern.is_empty() && rules.len() > 1 {
        rules.clear();
    }
    rules
}

/// The name of a server as it is in the names of its tools in other programs.
pub(super) fn joined_name(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "_-".contains(c) { c } else { '_' };
    name.chars().map(plain).collect()
}

/// A valid name that resembles the given one.
fn alias_for(name: &str) -> Option<String> {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "_-".contains(c) { c } else { '-' };
    let mut alias: String = name.chars().map(plain).take(ServerAlias::LEN_MAX).collect();
    while alias.contains("__") {
        alias = alias.replace("__", "_");
    }
    let alias = alias.trim_start_matches(|c: char| !c.is_ascii_alphabetic());
    let alias = alias.trim_end_matches(['_', '-']);
    ServerAlias::new(alias).ok().map(|alias| alias.to_string())
}

fn server_json(parts: &ServerParts) -> Result<(Value, Vec<String>), String> {
    if parts.is_sse {
        return Err("it uses the deprecated transport `sse`; use its `http` address".to_owned());
    }
    let mut server = Map::new();
    let mut variables = Vec::new();
    match (&parts.command, &parts.url) {
        (Some(command), None) => {
            let words = [std::slice::from_ref(command), &parts.args].concat();
            if words.iter().any(|word| has_secret(word))
                || redact_text(&words.join(" ")) != words.join(" ")
            {
                return Err("its arguments look like a secret; pass it in `env` instead".to_owned());
            }
            server.insert("command".to_owned(), json!(command));
            if !parts.args.is_empty() {
                server.insert("args".to_owned(), json!(parts.args));
            }
            let mut env = Map::new();
            for (name, value) in &parts.env {
                let is_plain = !is_secret_value(name, value);
                let value = if is_plain { value.clone() } else { format!("${{{name}}}") };
                if !is_plain {
                    variables.push(name.clone());
                }
                env.insert(name.clone(), json!(value));
            }
            if !env.is_empty() {
                server.insert("env".to_owned(), Value::Object(env));
            }
            if let Some(cwd) = &parts.cwd {
                server.insert("cwd".to_owned(), json!(cwd));
            }
        }
        (None, Some(url)) => {
            let authority = url.split("://").nth(1).unwrap_or_default().split('/').next();
            if authority.is_some_and(|host| host.contains('@')) || has_secret(url) {
                return Err("its address contains credentials; use `zero mcp login` or `headers`"
                    .to_owned());
            }
            server.insert("url".to_owned(), json!(url));
            let mut headers = Map::new();
            for (name, value) in &parts.headers {
                let is_plain = !is_secret_header(name, value);
                let variable = variable_name(name);
                let value = if is_plain { value.clone() } else { format!("${{{variable}}}") };
                if !is_plain {
                    variables.push(variable);
                }
                headers.insert(name.clone(), json!(value));
            }
            if !headers.is_empty() {
                server.insert("headers".to_owned(), Value::Object(headers));
            }
        }
        _ => return Err("it has neither a command nor an address, or both".to_owned()),
    }
    if let Some(timeout) = parts.timeout_ms {
        server.insert("timeout".to_owned(), json!(timeout));
    }
    if let Some(timeout) = parts.startup_ms {
        server.insert("startupTimeout".to_owned(), json!(timeout));
    }
    if let Some(tools) = &parts.include {
        server.insert("includeTools".to_owned(), json!(tools));
    }
    if !parts.exclude.is_empty() {
        server.insert("excludeTools".to_owned(), json!(parts.exclude));
    }
    if parts.disabled {
        server.insert("disabled".to_owned(), json!(true));
    }
    let notes = variables.iter().map(|name| {
        format!("its secret is not copied: set the variable {name} before you start zero")
    });
    Ok((Value::Object(server), notes.collect()))
}

/// Whether a text contains something that looks like a secret.
pub(super) fn has_secret(text: &str) -> bool {
    redact_text(text) != text
}

/// Whether the value of a variable may be a secret. One that only refers to other variables is none.
fn is_secret_value(name: &str, value: &str) -> bool {
    if value.is_empty() || is_reference(value) {
        return false;
    }
    let pair = json!({ name: value });
    let has_password = value.split("://").nth(1).is_some_and(|rest| rest.contains('@'));
    redact_value(&pair) != pair || has_secret(value) || has_password
}

fn is_secret_header(name: &str, value: &str) -> bool {
    let headers = json!({"headers": { name: value }});
    !is_reference(value) && redact_value(&headers) != headers
}

/// Whether a text is one variable, perhaps after a word such as `Bearer`.
fn is_reference(text: &str) -> bool {
    let reference = text.rsplit(' ').next().unwrap_or_default();
    let inner = reference.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
    let is_name = |name: &str| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    let before = text.strip_suffix(reference).unwrap_or_default();
    inner.is_some_and(is_name) && before.chars().all(|c| c.is_ascii_alphabetic() || c == ' ')
}

/// The name of a variable for the value of a header.
fn variable_name(header: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    header.chars().map(plain).collect()
}

/// Writes the variables of a text as zero does, `$NAME` as `${NAME}`.
pub(super) fn brace_variables(text: &str) -> String {
    let mut braced = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        let (before, after) = rest.split_at(at);
        braced.push_str(before);
        let name_len = after[1..].find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
        let name = &after[1..][..name_len.unwrap_or(after.len() - 1)];
        let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        match is_name {
            true => braced.push_str(&format!("${{{name}}}")),
            false => braced.push_str(&format!("${name}")),
        }
        rest = &after[1 + name.len()..];
    }
    braced + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(parts: ServerParts, expected: Result<Value, &str>) {
        let found = server_json(&parts);
        match (found, expected) {
            (Ok((server, _)), Ok(expected)) => assert_eq!(server, expected),
            (Err(why), Err(expected)) => assert!(why.contains(expected), "{why}"),
            (found, expected) => panic!("{found:?} instead of {expected:?}"),
        }
    }

    fn started(env: &[(&str, &str)], args: &[&str]) -> ServerParts {
        let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let args = args.iter().map(|arg| (*arg).to_owned()).collect();
        ServerParts {
            command: Some("mcp".to_owned()),
            args,
            env: env.collect(),
            ..ServerParts::default()
        }
    }

    #[test]
    fn secret_values_are_not_copied() {
        let env = [("GITHUB_TOKEN", "abcdef1234567890"), ("LEVEL", "debug"), ("KEY", "${MY_KEY}")];
        let expected = json!({"command": "mcp", "env": {"GITHUB_TOKEN": "${GITHUB_TOKEN}", "LEVEL": "debug", "KEY": "${MY_KEY}"}});
        check(started(&env, &[]), Ok(expected));
        check(
            started(&[("DB", "postgres://me:pw@db/x")], &[]),
            Ok(json!({"command": "mcp", "env": {"DB": "${DB}"}})),
        );
        check(started(&[], &["--api-key=sk-ant-REDACTED"]), Err("look like a secret"));
        let remote = |url: &str, headers: &[(&str, &str)]| ServerParts {
            url: Some(url.to_owned()),
            headers: headers
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
            ..ServerParts::default()
        };
        check(remote("https://me:pw@x.org/mcp", &[]), Err("credentials"));
        check(
            remote(
                "https://x.org/mcp",
                &[
                    ("Authorization", "Bearer abc"),
                    ("X-Key", "Bearer ${K}"),
                    ("Accept", "text/plain"),
                ],
            ),
            Ok(
                json!({"url": "https://x.org/mcp", "headers": {"Authorization": "${AUTHORIZATION}", "X-Key": "Bearer ${K}", "Accept": "text/plain"}}),
            ),
        );
    }

    #[test]
    fn tool_name_means_every_server_it_may_belong_to() {
        use Verdict::{Allow, Deny};
        let names = ["a", "a_b", "doc", "docs", "my.server"];
        let names: ServerNames =
            names.map(|name| (name.to_owned(), alias_for(name).unwrap())).into();
        let check = |verdict, tool: &str, expected: &[&str]| {
            let rules = external_rules(tool, verdict, &names);
            let rules: Vec<&str> = rules.iter().map(|rule| rule.text.as_str()).collect();
            assert_eq!(rules, expected, "{verdict:?} {tool}");
        };
        check(Deny, "docs_get", &["docs__get"]);
        check(Allow, "docs_get", &["docs__get"]);
        check(Deny, "a_b_get", &["a__b_get", "a_b__get"]);
        check(Allow, "a_b_get", &[]);
        check(Deny, "docs_g*", &["docs__*"]);
        check(Allow, "docs_g*", &[]);
        check(Allow, "docs_*", &["docs__*"]);
        check(Deny, "doc*", &["doc__*", "docs__*"]);
        check(Deny, "doc", &["doc__*"]);
        check(Allow, "doc", &[]);
        check(Allow, "my_server_get", &["my-server__get"]);
        check(Deny, "other_get", &[]);
        check(Allow, "*", &[]);
    }

    #[test]
    fn servers_with_one_alias_are_not_mixed_up() {
        let (mut plan, mut names) = (ImportPlan::default(), ServerNames::new());
        for name in ["a-b", "a.b"] {
            plan.add_server("f", name, started(&[], &[]), &mut names);
        }
        assert_eq!(plan.edits.len(), 1);
        assert_eq!(names.keys().collect::<Vec<_>>(), ["a-b"]);
    }

    #[test]
    fn alias_resembles_name() {
        for (name, alias) in [
            ("github", Some("github")),
            ("my server.x", Some("my-server-x")),
            ("a__b_", Some("a_b")),
            ("1password", Some("password")),
            ("mcp", None),
            ("__", None),
        ] {
            assert_eq!(alias_for(name).as_deref(), alias, "{name}");
        }
    }

    #[test]
    fn variables_get_braces() {
        for (text, expected) in [
            ("$A", "${A}"),
            ("x$A_1/y", "x${A_1}/y"),
            ("${A}", "${A}"),
            ("$5 $", "$5 $"),
            ("é$Bé", "é${B}é"),
        ] {
            assert_eq!(brace_variables(text), expected);
        }
    }
}
