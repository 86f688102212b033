//! Files that contain zero's secrets: tokens, passwords, keys.
//!
//! A session must not be able to read zero's own secrets. Every tool host therefore gets the list of
//! these files: the policy denies them to all tools, and the sandbox hides them from commands. The
//! settings and state folders of zero are always protected and are not listed here.

use std::path::{Path, PathBuf};

use zero_exec::TimeoutAction;
use zero_runtime::CommandSettings;
use zero_sandbox::journal::SetLimits;
use zero_sandbox::{FileType, path_survey};
use zero_settings::models::SecretSetting;
use zero_settings::{SettingsLayerKind, WorkspaceSettings};

use crate::AppContext;
use crate::environment::EnvironmentConfig;

/// The sections of settings that name files with secrets.
const SECRET_SECTIONS: [&str; 3] = ["gateway.", "models.", "web."];

impl AppContext {
    /// Adds secret files that the command line names.
    pub(crate) fn with_secret_files<'a>(
        &self,
        files: impl IntoIterator<Item = &'a PathBuf>,
    ) -> Self {
        let resolve = |file: &PathBuf| match file.to_str() {
            Some(written) => self.config.resolve_file(written),
            None => self.config.cwd().ok().map(|cwd| cwd.join(file)),
        };
        let files: Vec<PathBuf> = files.into_iter().filter_map(resolve).collect();
        Self { config: self.config.clone().with_secret_files(files), ..self.clone() }
    }

    /// Records everything that commands change, so that it can be discarded.
    pub(crate) fn for_dry_run(&self) -> Self {
        Self { config: self.config.clone().for_dry_run(), ..self.clone() }
    }

    /// All secret files, with symlinks and their targets: those from the command line, those named
    /// in the settings in use, and those in the user's own settings even if other settings are used.
    pub(crate) fn secret_files(&self, settings: &WorkspaceSettings) -> Vec<PathBuf> {
        let own = settings.user_sections(&SECRET_SECTIONS).or_else(|| {
            let file = self.config.settings_file().ok()?;
            WorkspaceSettings::load_files_unchecked(&self.config.user_paths(), &[file]).ok()
        });
        let mut files = self.config.secret_files().to_vec();
        files.extend(own_secret_files(settings, &self.config));
        for settings in [Some(settings), own.as_ref()].into_iter().flatten() {
            files.extend(named_secret_files(settings, &self.config));
        }
        let real: Vec<PathBuf> =
            files.iter().filter_map(|file| path_survey::canonicalize(file)).collect();
        files.extend(real);
        // Hiding a folder would break commands. The code that reads the file reports the mistake.
        files.retain(|file| path_survey::file_type(file) != Some(FileType::Directory));
        files.sort();
        files.dedup();
        files
    }

    /// Sandbox settings for commands in the workspace whose first folder is `root`.
    pub(crate) fn command_settings(
        &self,
        settings: &WorkspaceSettings,
        root: &Path,
    ) -> CommandSettings {
        let mut commands = settings.command_settings(
            self.config.command_settings(),
            &self.config.user_paths(),
            root,
        );
        commands.masked.extend(self.secret_files(settings));
        if self.config.is_dry_run() {
            commands.undo.commands = true;
            commands.undo.is_required = true;
            // What does not fit could not be discarded.
            commands.undo.limits = SetLimits::NONE;
            // A job would go on after the changes were discarded.
            commands.on_timeout = TimeoutAction::Kill;
        }
        commands
    }
}

/// The files with secrets that settings name.
pub(crate) fn named_secret_files(
    settings: &WorkspaceSettings,
    config: &EnvironmentConfig,
) -> Vec<PathBuf> {
    let gateway = settings.gateway();
    let remote = gateway.remote.unwrap_or_default();
    let file_of = |secret: &SecretSetting| match secret {
        SecretSetting::File(file) => Some(file.clone()),
        SecretSetting::Env(_) | SecretSetting::Keyring(_) => None,
    };
    let tokens = gateway.tokens.values().filter_map(|token| file_of(&token.secret));
    let shared = [&gateway.store_password, &gateway.bus_secret];
    let tokens = tokens.chain(shared.into_iter().flatten().filter_map(file_of));
    let named = [gateway.password_file, remote.token_file, remote.password_file];
    let named = named.into_iter().flatten().chain(gateway.tls.map(|tls| tls.key));
    let keys = settings.model_keys().filter_map(file_of);
    let search_keys = settings.search_keys().filter_map(file_of);
    let written = tokens.chain(named).chain(keys).chain(search_keys);
    written.filter_map(|file| config.resolve_file(&file)).collect()
}

/// The files of settings that may hold secrets themselves, where the command line named
/// them: they lie anywhere.
fn own_secret_files(settings: &WorkspaceSettings, config: &EnvironmentConfig) -> Vec<PathBuf> {
    let may_hold = |key: &str| {
        ["gateway.", "mcpServers.", "models."].iter().any(|section| key.starts_with(section))
    };
    let named = settings.entries().iter().filter(|entry| entry.layer == SettingsLayerKind::Flag);
    let named = named.filter(|entry| may_hold(&entry.key));
    named.filter_map(|entry| config.resolve_file(&entry.file)).collect()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests set up real files")]
    use std::os::unix::fs::symlink;
    use std::sync::{Arc, LazyLock};

    use super::*;
    use crate::terminal::Terminal;

    const OWN_SETTINGS: &str = r#"{
        "models": {"m": {"api": "chat", "model": "m", "apiKey": {"file": "~/model.key"}},
            "n": {"api": "chat", "model": "n", "apiKey": {"env": "K"}}},
        "web": {"search": [{"engine": "brave", "apiKey": {"file": "~/brave.key"}}]},
        "gateway": {
            "tokens": {"ci": {"secret": {"file": "/etc/zero/ci.token"}, "scopes": ["write"]}},
            "passwordFile": "password",
            "tls": {"certificate": "cert.pem", "key": "key.pem"},
            "remote": {"url": "wss://h:1", "tokenFile": "~/remote.token", "passwordFile": "~/remote.password"}}
    }"#;

    fn test_app(folder: &Path) -> AppContext {
        AppContext {
            config: EnvironmentConfig::for_test(folder),
            terminal: Terminal::for_test(),
            tools: Arc::new(LazyLock::new(Vec::new)),
            notifiers: Arc::default(),
            console: Arc::default(),
            gateway_locality: Arc::default(),
        }
    }

    #[test]
    fn secret_files_include_settings_and_command_line() {
        let temp = tempfile::tempdir().unwrap();
        let folder = temp.path().canonicalize().unwrap();
        std::fs::create_dir_all(folder.join("home/.config/zero")).unwrap();
        std::fs::write(folder.join("home/.config/zero/settings.json"), OWN_SETTINGS).unwrap();
        std::fs::write(folder.join("home/real.key"), "k").unwrap();
        symlink("real.key", folder.join("home/model.key")).unwrap();
        let remote = r#"{"gateway": {"remote": {"url": "ws://h:1", "token": "x"}}}"#;
        std::fs::write(folder.join("team.json"), remote).unwrap();
        let app = test_app(&folder).with_secret_files(&[PathBuf::from("adm.token")]);
        let other = app.load_settings_files(&["team.json".into()]).unwrap();
        let expected = [
            "adm.token",
            "home/brave.key",
            "home/model.key",
            "home/real.key",
            "home/remote.password",
            "home/remote.token",
            "key.pem",
            "password",
            "team.json",
        ];
        let mut expected: Vec<PathBuf> = expected.iter().map(|name| folder.join(name)).collect();
        expected.push("/etc/zero/ci.token".into());
        expected.sort();
        assert_eq!(app.secret_files(&other), expected);
        let masked = app.command_settings(&other, &folder).masked;
        assert!(expected.iter().all(|file| masked.contains(file)), "{masked:?}");
    }

    #[test]
    fn rules_alone_make_no_secret_file() {
        let temp = tempfile::tempdir().unwrap();
        let folder = temp.path().canonicalize().unwrap();
        std::fs::write(folder.join("rules.json"), r#"{"permissions": {"mode": "plan"}}"#).unwrap();
        let app = test_app(&folder);
        let settings = app.load_settings_files(&["rules.json".into()]).unwrap();
        assert_eq!(app.secret_files(&settings), Vec::<PathBuf>::new());
    }
}
