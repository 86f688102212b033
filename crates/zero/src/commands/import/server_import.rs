//! MCP servers of other programs, in the words of zero's settings.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use zero_mcp::server_definition::ServerAlias;
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
fn has_secret(text: &str) -> bool {
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
