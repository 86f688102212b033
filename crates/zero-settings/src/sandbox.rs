//! Settings for commands (`sandbox`, `bash`): hosts, variables, writable and hidden paths.

use std::path::{Path, PathBuf};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::Value;
use zero_core::schema_violation::join_pointer;
use zero_core::text_shortening::shorten_end;
use zero_policy::HostPattern;
use zero_sandbox::SandboxProperty;

/// A host name that has no effect here: each session has its own loopback.
pub const LOCALHOST: &str = "localhost";

/// Which hosts, variables and files commands may use. Lists of several files are joined.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SandboxSettings {
    /// Hosts that commands may connect to, such as `example.com`, `*.example.org` or
    /// `example.com:8443`. Hosts that rules for `WebFetch` allow are added. `localhost` has no effect:
    /// each session has its own loopback.
    network: Vec<String>,
    /// Additional environment variables for commands: `NPM_TOKEN`, or `MY_*` for all that do not
    /// look like secrets.
    environment: Vec<String>,
    /// Additional folders that commands may change, such as `~/.cache/pip`.
    writable: Vec<String>,
    /// Files and folders of the home folder that commands may read, such as `~/lib`. By default they
    /// see only what builds need. Only your own settings can open them.
    readable: Vec<String>,
    /// Additional files and folders that commands may not read, such as `~/notes`.
    masked: Vec<String>,
    /// Sandbox properties that commands may run without if this machine cannot enforce them; `zero
    /// doctor` lists them.
    #[schemars(schema_with = "weaker_schema")]
    weaker: Vec<String>,
    /// Whether you can be asked to run a command outside the sandbox that failed because of it: `ask`,
    /// or `never`. Settings of a project can only forbid it.
    #[schemars(schema_with = "outside_schema")]
    outside: Option<String>,
}

/// Settings of the Bash tool.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BashSettings {
    /// What happens to a foreground command that exceeds its timeout: `kill` ends it, `job`
    /// continues it in the background.
    #[serde(rename = "on-timeout")]
    #[schemars(schema_with = "on_timeout_schema")]
    on_timeout: Option<String>,
}

fn weaker_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "array", "items": {"type": "string", "enum": SandboxProperty::ALL.map(SandboxProperty::as_str)}})
}

fn outside_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "enum": ["ask", OUTSIDE_NEVER]})
}

fn on_timeout_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "enum": ["kill", "job"]})
}

/// Whether commands may run outside the sandbox, after a question.
pub(crate) const OUTSIDE_KEY: &str = "sandbox.outside";
/// The value that forbids it.
pub(crate) const OUTSIDE_NEVER: &str = "never";

/// The lists of this section.
pub const LISTS: [&str; 6] = [
    "sandbox.network",
    "sandbox.environment",
    "sandbox.writable",
    "sandbox.readable",
    "sandbox.masked",
    "sandbox.weaker",
];

/// Checks a text of a list; the error says what is wrong with it.
pub(crate) type TextCheck = fn(&str) -> Result<(), String>;

/// Invalid texts, by JSON pointer.
pub fn find_wrong_texts(value: &Value) -> Vec<(String, String)> {
    let checks: [(&str, TextCheck); 5] = [
        ("/sandbox/network", check_host),
        ("/sandbox/environment", check_variable),
        ("/sandbox/writable", check_writable),
        ("/sandbox/readable", check_readable),
        ("/sandbox/masked", check_masked),
    ];
    let mut wrong = Vec::new();
    for (list, check) in checks {
        wrong.extend(find_wrong_items(value, list, check));
    }
    wrong
}

/// The invalid texts of the list at a JSON pointer.
pub(crate) fn find_wrong_items(
    value: &Value,
    list: &str,
    check: TextCheck,
) -> Vec<(String, String)> {
    let items = value.pointer(list).and_then(Value::as_array).into_iter().flatten();
    let mut wrong = Vec::new();
    for (index, item) in items.enumerate() {
        let Some(text) = item.as_str() else { continue };
        if let Err(what) = check(text) {
            let shown = shorten_end(text, 80);
            wrong.push((join_pointer(list, &index.to_string()), format!("`{shown}` {what}")));
        }
    }
    wrong
}

pub(crate) fn check_host(text: &str) -> Result<(), String> {
    HostPattern::parse(text).map(drop).map_err(|_| {
        "names no host; write one such as `example.com`, `*.example.org` or `example.com:8443`, \
         without scheme and path"
            .to_owned()
    })
}

fn check_variable(text: &str) -> Result<(), String> {
    let name = text.strip_suffix('*').unwrap_or(text);
    let is_name = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if is_name && !text.is_empty() && !name.starts_with(|c: char| c.is_ascii_digit()) {
        return Ok(());
    }
    Err("is not a variable; write one such as `NPM_TOKEN`, or `MY_*` for several".to_owned())
}

pub(crate) fn check_writable(text: &str) -> Result<(), String> {
    match PathSetting::parse(text)? {
        PathSetting::Workspace(_) => {
            Err("is in the workspace, which commands may change anyway; write an absolute path or \
             one with `~/`"
                .to_owned())
        }
        PathSetting::Absolute(path) if path == Path::new("/") => {
            Err("is the whole machine; name a folder that contains only files created by commands"
                .to_owned())
        }
        PathSetting::Home(path) if path.as_os_str().is_empty() => Err(
            "is your whole home folder; name a folder that contains only files created by commands"
                .to_owned(),
        ),
        PathSetting::Absolute(_) | PathSetting::Home(_) => Ok(()),
    }
}

fn check_readable(text: &str) -> Result<(), String> {
    match PathSetting::parse(text)? {
        PathSetting::Workspace(_) => {
            Err("is in the workspace, which commands may read anyway; write an absolute path or \
             one with `~/`"
                .to_owned())
        }
        PathSetting::Absolute(_) | PathSetting::Home(_) => Ok(()),
    }
}

fn check_masked(text: &str) -> Result<(), String> {
    match PathSetting::parse(text)? {
        PathSetting::Absolute(path) if path == Path::new("/") => {
            Err("is the whole machine, so no command could run; name the files to hide".to_owned())
        }
        PathSetting::Workspace(path) if path.as_os_str().is_empty() => {
            Err("is the whole workspace, so no command could run; name the files to hide"
                .to_owned())
        }
        _ => Ok(()),
    }
}

/// A path as a user writes it, before the folders are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathSetting {
    /// `/x`.
    Absolute(PathBuf),
    /// `~/x`, without the `~`.
    Home(PathBuf),
    /// `x`.
    Workspace(PathBuf),
}

impl PathSetting {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (rest, from): (&str, fn(PathBuf) -> Self) = match text {
            "~" => ("", Self::Home),
            _ if text.starts_with('/') => (text, Self::Absolute),
            _ => match text.strip_prefix("~/") {
                Some(rest) => (rest, Self::Home),
                None => (text, Self::Workspace),
            },
        };
        let path = Path::new(rest);
        let leaves = path.components().any(|part| part == std::path::Component::ParentDir);
        if leaves || text.is_empty() || text.starts_with('~') && rest == text {
            return Err(
                "is not a full path; start it with `/` or `~/` and do not use `..`".to_owned()
            );
        }
        if text.contains(['*', '?', '\0']) {
            return Err("is a pattern; name one file or folder".to_owned());
        }
        // `./x` and `x/.` are `x`.
        Ok(from(path.components().filter(|part| part.as_os_str() != ".").collect()))
    }

    /// Resolves the path; `None` if it starts at the home folder and that is unknown.
    pub(crate) fn resolve(&self, home: Option<&Path>, root: &Path) -> Option<PathBuf> {
        match self {
            Self::Absolute(path) => Some(path.clone()),
            Self::Home(path) => Some(home?.join(path)),
            Self::Workspace(path) => Some(root.join(path)),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(list: &str, text: &str, expected: Option<&str>) {
        let wrong = find_wrong_texts(&json!({"sandbox": {list: ["x.y", text]}}));
        let seen = wrong.iter().find(|(pointer, _)| pointer.ends_with("/1"));
        let seen = seen.map(|(_, what)| what.split(';').next().unwrap());
        assert_eq!(seen, expected, "{list} {text}");
    }

    #[test]
    fn hosts_use_rule_syntax() {
        for fine in [
            "example.com",
            "*.example.org",
            "localhost",
            "*",
            "10.0.0.1",
            "a.*.com",
            "example.com:8443",
            "*.example.org:22",
            "[::1]:8080",
            "127.0.0.1:8080",
        ] {
            check("network", fine, None);
        }
        for bad in ["https://example.com", "example.com/x", "a b", "", "example.com:", "a.b:0"] {
            let what = format!("`{bad}` names no host");
            check("network", bad, Some(&what));
        }
    }

    #[test]
    fn variables_are_names_or_prefixes() {
        for fine in ["NPM_TOKEN", "MY_*", "_x", "*"] {
            check("environment", fine, None);
        }
        for bad in ["", "A=B", "*_KEY", "1A", "a-b", "A**"] {
            let what = format!("`{bad}` is not a variable");
            check("environment", bad, Some(&what));
        }
    }

    #[test]
    fn writable_folders_must_be_full_paths() {
        for fine in ["~/.cache/pip", "/var/cache/x"] {
            check("writable", fine, None);
            check("masked", fine, None);
        }
        check("masked", "secrets/a", None);
        check("masked", "~", None);
        check("writable", "/", Some("`/` is the whole machine"));
        check("writable", "/.", Some("`/.` is the whole machine"));
        check("writable", "~", Some("`~` is your whole home folder"));
        check("writable", "~/", Some("`~/` is your whole home folder"));
        let inside = "`build` is in the workspace, which commands may change anyway";
        check("writable", "build", Some(inside));
        for list in ["writable", "masked"] {
            check(list, "/a/../b", Some("`/a/../b` is not a full path"));
            check(list, "~you/x", Some("`~you/x` is not a full path"));
            check(list, "", Some("`` is not a full path"));
            check(list, "/a/*", Some("`/a/*` is a pattern"));
        }
        check("readable", "~/lib", None);
        check("readable", "~", None);
        check("readable", "lib", Some("`lib` is in the workspace, which commands may read anyway"));
        check("masked", "/", Some("`/` is the whole machine, so no command could run"));
        check("masked", ".", Some("`.` is the whole workspace, so no command could run"));
    }
}
