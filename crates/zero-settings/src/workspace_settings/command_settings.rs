//! What settings say of the sandbox of commands.

use std::path::{Path, PathBuf};

use serde_json::Value;
use zero_policy::protected_paths::{
    ProtectedPaths, closed_reason, protected_reason, sensitive_reason,
};
use zero_policy::{CommandHosts, HostPattern, SecretFileSet};
use zero_runtime::{CommandNetwork, CommandSettings, OutsideUse, TimeoutAction};
use zero_sandbox::SandboxProperty;

use super::WorkspaceSettings;
use crate::files;
use crate::sandbox::{self, PathSetting};
use crate::secrets;
use crate::user_paths::canonical_folder;
use crate::{ParsedSetting, SettingsEntry, SettingsLocation, SettingsProblem, UserPaths};

impl WorkspaceSettings {
    /// The settings for the commands of a host, in the workspace whose first folder is `root`.
    /// `commands` has the defaults.
    pub fn command_settings(
        &self,
        mut commands: CommandSettings,
        paths: &UserPaths,
        root: &Path,
    ) -> CommandSettings {
        commands.network = CommandNetwork { hosts: self.listed_hosts() };
        commands.environment_allowed = self.text_values("sandbox.environment");
        commands.writable = self.resolve_paths("sandbox.writable", paths, root);
        commands.readable = self.resolve_paths("sandbox.readable", paths, root);
        commands.masked.extend(self.resolve_paths("sandbox.masked", paths, root));
        commands.weaknesses = self.weaker_properties();
        if let Some(bytes) = self.retention().package_bytes {
            commands.package_cache_bytes_max = bytes;
        }
        commands.undo = self.undo();
        commands.on_timeout = match self.text_values("bash.on-timeout").first().map(String::as_str)
        {
            Some("job") => TimeoutAction::Job,
            _ => TimeoutAction::Kill,
        };
        let outside = self.text_values(sandbox::OUTSIDE_KEY);
        commands.outside = match outside.iter().any(|value| value == sandbox::OUTSIDE_NEVER) {
            true => OutsideUse::Never,
            false => OutsideUse::Ask,
        };
        commands
    }

    /// The listed hosts, without `localhost`, which has no effect.
    fn listed_hosts(&self) -> Vec<HostPattern> {
        let hosts = self.active_entries().filter_map(|entry| match &entry.parsed {
            ParsedSetting::Host(host) => Some(host.clone()),
            _ => None,
        });
        hosts.collect()
    }

    /// The hosts that commands may use by these settings, for policy.
    pub fn command_hosts(&self) -> CommandHosts {
        let listed = self.listed_hosts();
        // If commands may use the machine's network, they also reach its loopback.
        let own_loopback = !self.weaker_properties().contains(&SandboxProperty::Network);
        CommandHosts { listed, own_loopback }
    }

    /// Whether Write and Edit keep the earlier content beside a file.
    pub fn file_backup(&self) -> bool {
        let mut set = self.active_entries().filter(|entry| entry.key == files::BACKUP_KEY);
        set.any(|entry| entry.value == true)
    }

    /// The files whose values are masked; none if masking is turned off.
    pub fn masked_files(&self) -> SecretFileSet {
        let mut off = self.active_entries().filter(|entry| entry.key == secrets::MASK_KEY);
        if off.any(|entry| entry.value == false) {
            return SecretFileSet::default();
        }
        let mut files = SecretFileSet::standard();
        self.text_values(secrets::FILES_KEY).iter().for_each(|name| files.add(name));
        self.text_values(secrets::EXCEPT_KEY).iter().for_each(|name| files.add_exception(name));
        files
    }

    /// Whether secret values are kept for later processes.
    pub fn remembers_secrets(&self) -> bool {
        let mut off = self.active_entries().filter(|entry| entry.key == secrets::REMEMBER_KEY);
        !off.any(|entry| entry.value == false)
    }

    /// Hosts that commands may connect to, as written.
    pub fn network_hosts(&self) -> Vec<String> {
        self.text_values("sandbox.network")
    }

    /// Sandbox properties that commands may run without.
    pub fn weaker_properties(&self) -> Vec<SandboxProperty> {
        let words = self.text_values("sandbox.weaker");
        let is_listed =
            |property: &SandboxProperty| words.iter().any(|word| word == property.as_str());
        SandboxProperty::ALL.into_iter().filter(is_listed).collect()
    }

    /// Listed writable and readable paths that no setting may open, and paths to hide that cannot be resolved.
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
        for entry in self.active_entries().filter(|entry| entry.key == "sandbox.readable") {
            let Some(written) = entry.value.as_str() else { continue };
            if let Err(what) = self.check_readable(written, paths, root) {
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
        let protected = ProtectedPaths::new(&roots, paths.home(), own, paths.state_dir.as_deref());
        let real = canonical_folder(root, &path);
        let why = [&path, &real].into_iter().find_map(|path| {
            protected_reason(path, &protected).or_else(|| sensitive_reason(path, &protected))
        });
        match why {
            Some(why) => Err(format!(
                "`{written}` must not be writable for commands: it is {why}; name a folder that contains only files created by commands"
            )),
            None => Ok(real),
        }
    }

    /// Checks that a setting may open a path to reading; the error says why it stays hidden.
    fn check_readable(&self, written: &str, paths: &UserPaths, root: &Path) -> Result<(), String> {
        let path =
            PathSetting::parse(written).ok().and_then(|path| path.resolve(paths.home(), root));
        let path = path.ok_or_else(|| unknown_home(&Value::from(written)))?;
        let own = paths.settings_file.as_deref().and_then(Path::parent);
        let places = ProtectedPaths::new(&[], paths.home(), own, paths.state_dir.as_deref());
        let real = canonical_folder(root, &path);
        let why = [&path, &real].into_iter().find_map(|path| {
            closed_reason(path, &places).or_else(|| sensitive_reason(path, &places))
        });
        match why {
            Some(why) => Err(format!(
                "`{written}` stays hidden from commands: it contains {why}; name another file or folder"
            )),
            None => Ok(()),
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

impl SettingsEntry {
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
    fn masked_files_are_extended_and_turned_off() {
        let contains = |settings: &str, path: &str| {
            load_settings(settings).masked_files().contains(Path::new(path))
        };
        assert!(contains("{}", "/w/.env"));
        let own = r#"{"secrets": {"files": ["*.vault"], "except": [".env.test"]}}"#;
        assert!(contains(own, "/w/x.vault") && contains(own, "/w/.env"));
        assert!(!contains(own, "/w/.env.test"));
        assert!(load_settings(own).remembers_secrets());
        assert!(!load_settings(r#"{"secrets": {"remember": false}}"#).remembers_secrets());
        assert!(!contains(r#"{"secrets": {"mask": false, "files": ["*.vault"]}}"#, "/w/.env"));
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
            "writable": ["~/.cache/x"], "masked": ["notes"], "weaker": ["host_sockets"], "outside": "never"},
            "bash": {"on-timeout": "job"}}"#;
        let commands = load_settings(text).command_settings(
            CommandSettings::default(),
            &UserPaths::for_home(&folder.join("home")),
            &folder.join("w"),
        );
        let hosts = ["example.com", "a.org:22"].map(|host| HostPattern::parse(host).unwrap());
        assert_eq!(commands.network, CommandNetwork { hosts: hosts.into() });
        assert_eq!(commands.environment_allowed, ["A*"]);
        assert_eq!(commands.writable, [folder.join("home/.cache/x")]);
        assert!(commands.masked.contains(&folder.join("w/notes")), "{:?}", commands.masked);
        assert_eq!(commands.weaknesses, [SandboxProperty::HostSockets]);
        assert_eq!(commands.on_timeout, TimeoutAction::Job);
        assert_eq!(commands.outside, OutsideUse::Never);
        let usual = load_settings("{}").command_settings(
            CommandSettings::default(),
            &UserPaths::for_home(&folder.join("home")),
            &folder,
        );
        assert_eq!(usual.network, CommandNetwork::default());
        assert_eq!(usual.on_timeout, TimeoutAction::Kill);
        assert_eq!(usual.outside, OutsideUse::Ask);
    }
}
