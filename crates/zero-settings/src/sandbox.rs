//! Settings for commands (`sandbox`, `bash`): hosts, variables, writable and hidden paths.

use std::path::{Path, PathBuf};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::Value;
use zero_policy::protected_paths::{ProtectedPaths, protected_reason, sensitive_reason};
use zero_policy::{CommandHosts, HostPattern};
use zero_runtime::{CommandNetwork, CommandSettings, TimeoutAction};
use zero_sandbox::SandboxProperty;

use crate::document::join_pointer;
use crate::parsed_setting::ParsedSetting;
use crate::user_paths::canonical_folder;
use crate::{SettingsLocation, SettingsProblem, UserPaths, WorkspaceSettings};

/// The host name that stands for servers of the same session.
pub const LOCALHOST: &str = "localhost";

/// Which hosts, variables and files commands may use. Lists of several files are joined.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SandboxSettings {
    /// Hosts that commands may connect to, such as `example.com`, `*.example.org` or
    /// `example.com:8443`; `localhost` stands for servers that commands of the same session
    /// started. Hosts that rules for `WebFetch` allow are added.
    network: Vec<String>,
    /// Additional environment variables for commands: `NPM_TOKEN`, or `MY_*` for all that do not
    /// look like secrets.
    environment: Vec<String>,
    /// Additional folders that commands may change, such as `~/.cache/pip`.
    writable: Vec<String>,
    /// Additional files and folders that commands may not read, such as `~/notes`.
    masked: Vec<String>,
    /// Sandbox properties that commands may run without if this machine cannot enforce them; `zero
    /// doctor` lists them.
    #[schemars(schema_with = "weaker_schema")]
    weaker: Vec<String>,
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

fn on_timeout_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "enum": ["kill", "job"]})
}

/// The lists of this section.
pub const LISTS: [&str; 5] = [
    "sandbox.network",
    "sandbox.environment",
    "sandbox.writable",
    "sandbox.masked",
    "sandbox.weaker",
];

/// Checks a text of a list; the error says what is wrong with it.
pub(crate) type TextCheck = fn(&str) -> Result<(), String>;

/// Invalid texts, by JSON pointer.
pub fn find_wrong_texts(value: &Value) -> Vec<(String, String)> {
    let checks: [(&str, TextCheck); 4] = [
        ("/sandbox/network", check_host),
        ("/sandbox/environment", check_variable),
        ("/sandbox/writable", check_writable),
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
            let shown: String = text.chars().take(80).collect();
            wrong.push((join_pointer(list, &index.to_string()), format!("`{shown}` {what}")));
        }
    }
    wrong
}

pub(crate) fn check_host(text: &str) -> Result<(), String> {
    HostPattern::parse(text).map(drop).map_err(|_| {
        "names no host; write one such as `example.com`, `*.example.org`, `example.com:8443` or \
         `localhost`, without scheme and path"
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

/// A path in settings.
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
    fn resolve(&self, home: Option<&Path>, root: &Path) -> Option<PathBuf> {
        match self {
            Self::Absolute(path) => Some(path.clone()),
            Self::Home(path) => Some(home?.join(path)),
            Self::Workspace(path) => Some(root.join(path)),
        }
    }
}

impl WorkspaceSettings {
    /// The settings for the commands of a host, in the workspace whose first folder is `root`.
    /// `commands` has the defaults.
    pub fn command_settings(
        &self,
        mut commands: CommandSettings,
        paths: &UserPaths,
        root: &Path,
    ) -> CommandSettings {
        let (localhost, hosts) = self.listed_hosts();
        commands.network = CommandNetwork { localhost, hosts };
        commands.environment_allowed = self.text_values("sandbox.environment");
        commands.writable = self.resolve_paths("sandbox.writable", paths, root);
        commands.masked.extend(self.resolve_paths("sandbox.masked", paths, root));
        commands.weaknesses = self.weaker_properties();
        commands.on_timeout = match self.text_values("bash.on-timeout").first().map(String::as_str)
        {
            Some("job") => TimeoutAction::Job,
            _ => TimeoutAction::Kill,
        };
        commands
    }

    /// Whether `localhost` is listed, and the other listed hosts.
    fn listed_hosts(&self) -> (bool, Vec<HostPattern>) {
        let (mut localhost, mut hosts) = (false, Vec::new());
        for entry in self.active_entries() {
            match &entry.parsed {
                ParsedSetting::Localhost => localhost = true,
                ParsedSetting::Host(host) => hosts.push(host.clone()),
                _ => {}
            }
        }
        (localhost, hosts)
    }

    /// The hosts that commands may use by these settings, for policy.
    pub fn command_hosts(&self) -> CommandHosts {
        let (localhost, listed) = self.listed_hosts();
        // If commands may use the machine's network, they also reach its loopback.
        let is_enforced = !self.weaker_properties().contains(&SandboxProperty::Network);
        CommandHosts { listed, own_loopback: localhost && is_enforced }
    }

    /// Hosts that commands may connect to, as written.
    pub fn network_hosts(&self) -> Vec<String> {
        self.text_values("sandbox.network")
    }

    /// Sandbox properties that commands may run without.
    pub fn weaker_properties(&self) -> Vec<SandboxProperty> {
        let words = self.text_values("sandbox.weaker");
        let meant = |property: &SandboxProperty| words.iter().any(|word| word == property.as_str());
        SandboxProperty::ALL.into_iter().filter(meant).collect()
    }

    /// Listed writable folders that no setting may open, and paths to hide that cannot be resolved.
    /// Errors in the texts themselves were reported before.
    pub(crate) fn find_forbidden_folders(
        &self,
        paths: &UserPaths,
        root: &Path,
    ) -> Vec<SettingsProblem> {
        let mut problems = Vec::new();
        for entry in self.active_entries().filter(|entry| entry.key == "sandbox.writable") {
            let Some(written) = entry.value.as_str() else { continue };
            if let Err(what) = self.resolve_writable(written, paths, root) {
                problems.push(entry.to_problem(what));
            }
        }
        for entry in self.active_entries().filter(|entry| entry.key == "sandbox.masked") {
            let ParsedSetting::Path(path) = &entry.parsed else { continue };
            if path.resolve(paths.home(), root).is_none() {
                problems.push(entry.to_problem(unknown_home(&entry.value)));
            }
        }
        problems
    }

    /// A writable folder with links resolved; the error says why it must stay read-only.
    pub fn resolve_writable(
        &self,
        written: &str,
        paths: &UserPaths,
        root: &Path,
    ) -> Result<PathBuf, String> {
        let path =
            PathSetting::parse(written).ok().and_then(|path| path.resolve(paths.home(), root));
        let path = path.ok_or_else(|| unknown_home(&Value::from(written)))?;
        let own = paths.settings_file.as_deref().and_then(Path::parent);
        let roots = [root.to_owned()];
        let places = ProtectedPaths::new(&roots, paths.home(), own, paths.state_dir.as_deref());
        let real = canonical_folder(root, &path);
        let why = [&path, &real].into_iter().find_map(|path| {
            protected_reason(path, &places).or_else(|| sensitive_reason(path, &places))
        });
        match why {
            Some(why) => Err(format!(
                "`{written}` must not be writable for commands: it is {why}; name a folder that contains only files created by commands"
            )),
            None => Ok(real),
        }
    }

    fn text_values(&self, key: &str) -> Vec<String> {
        let theirs = self.active_entries().filter(|entry| entry.key == key);
        theirs.filter_map(|entry| entry.value.as_str().map(str::to_owned)).collect()
    }

    /// The files and folders of a list, with links resolved.
    fn resolve_paths(&self, key: &str, paths: &UserPaths, root: &Path) -> Vec<PathBuf> {
        let written = self.active_entries().filter(|entry| entry.key == key);
        let resolved = written.filter_map(|entry| match &entry.parsed {
            ParsedSetting::Path(path) => path.resolve(paths.home(), root),
            _ => None,
        });
        resolved.map(|path| canonical_folder(root, &path)).collect()
    }
}

fn unknown_home(written: &Value) -> String {
    let written = written.as_str().unwrap_or_default();
    format!("`{written}`: your home folder is unknown; set HOME")
}

impl crate::SettingsEntry {
    fn to_problem(&self, what: String) -> SettingsProblem {
        let place = Some(SettingsLocation { line: self.line, column: 1 });
        SettingsProblem { file: self.file.clone(), place, what }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::trust::TrustState;
    use crate::{SettingsLayer, SettingsLayerKind};

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
        check("masked", "/", Some("`/` is the whole machine"));
        check("masked", ".", Some("`.` is the whole workspace"));
    }

    fn load_settings(text: &str) -> WorkspaceSettings {
        let layer =
            SettingsLayer::parse(SettingsLayerKind::User, "f".to_owned(), text.as_bytes()).unwrap();
        WorkspaceSettings::merge(&[layer], TrustState::assumed())
    }

    #[test]
    fn secret_and_executable_folders_stay_closed() {
        #[track_caller]
        fn check(folder: &Path, writable: &str, is_fine: bool) {
            let paths = UserPaths::for_home(&folder.join("home"));
            let text = json!({"sandbox": {"writable": [writable]}}).to_string();
            let problems = load_settings(&text).find_forbidden_folders(&paths, &folder.join("w"));
            assert_eq!(problems.is_empty(), is_fine, "{writable}: {problems:?}");
        }
        let temp = tempfile::tempdir().unwrap();
        let folder = temp.path().canonicalize().unwrap();
        for fine in ["~/.cache/pip", "~/.cargo/registry", "/var/tmp/build"] {
            check(&folder, fine, true);
        }
        for bad in ["~/.ssh", "~/.ssh/x", "~/.aws", "~/.config/zero", "~/.config", "~/.local/state"]
        {
            check(&folder, bad, false);
        }
        check(&folder, "/home", folder.join("home").starts_with("/home") ^ true);
        check(&folder, folder.to_str().unwrap(), false);
        check(&folder, "~/.local/state/zero/trust.json", false);
    }

    #[test]
    fn masked_path_below_unknown_home_is_refused() {
        let settings = load_settings(r#"{"sandbox": {"masked": ["/x", "notes", "~/notes"]}}"#);
        let (paths, root) = (UserPaths::default(), Path::new("/w"));
        let problems = settings.find_forbidden_folders(&paths, root);
        let shown: Vec<String> = problems.iter().map(ToString::to_string).collect();
        let expected = "f:1:1: `~/notes`: your home folder is unknown; set HOME";
        assert_eq!(shown, [expected]);
        let paths = UserPaths::for_home(Path::new("/me"));
        assert_eq!(settings.find_forbidden_folders(&paths, root), []);
    }

    #[test]
    fn writable_link_is_checked_by_its_target() {
        let temp = tempfile::tempdir().unwrap();
        let folder = temp.path().canonicalize().unwrap();
        let paths = UserPaths::for_home(&folder.join("home"));
        #[expect(clippy::disallowed_methods, reason = "tests set up real files")]
        std::fs::create_dir_all(folder.join("home/.ssh")).unwrap();
        std::os::unix::fs::symlink(folder.join("home/.ssh"), folder.join("home/cache")).unwrap();
        let text = r#"{"sandbox": {"writable": ["~/cache"]}}"#;
        let problems = load_settings(text).find_forbidden_folders(&paths, &folder.join("w"));
        assert_eq!(problems.len(), 1, "{problems:?}");
    }

    #[test]
    fn command_settings_follow_settings() {
        let temp = tempfile::tempdir().unwrap();
        let folder = temp.path().canonicalize().unwrap();
        let text = r#"{"sandbox": {"network": ["example.com", "a.org:22", "localhost"], "environment": ["A*"],
            "writable": ["~/.cache/x"], "masked": ["notes"], "weaker": ["host_sockets"]},
            "bash": {"on-timeout": "job"}}"#;
        let commands = load_settings(text).command_settings(
            CommandSettings::default(),
            &UserPaths::for_home(&folder.join("home")),
            &folder.join("w"),
        );
        let hosts = ["example.com", "a.org:22"].map(|host| HostPattern::parse(host).unwrap());
        assert_eq!(commands.network, CommandNetwork { hosts: hosts.into(), localhost: true });
        assert_eq!(commands.environment_allowed, ["A*"]);
        assert_eq!(commands.writable, [folder.join("home/.cache/x")]);
        assert!(commands.masked.contains(&folder.join("w/notes")), "{:?}", commands.masked);
        assert_eq!(commands.weaknesses, [SandboxProperty::HostSockets]);
        assert_eq!(commands.on_timeout, TimeoutAction::Job);
        let usual = load_settings("{}").command_settings(
            CommandSettings::default(),
            &UserPaths::for_home(&folder.join("home")),
            &folder,
        );
        assert_eq!(usual.network, CommandNetwork::default());
        assert_eq!(usual.on_timeout, TimeoutAction::Kill);
    }
}
