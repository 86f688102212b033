//! Process environment, read once at startup. No other code in zero reads variables.

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use zero_runtime::{CommandSettings, StartedCalls};
use zero_sandbox::StateDir;
use zero_settings::UserPaths;
use zero_terminal::StandardStreams;
use zero_terminal::terminal_kind::TerminalKind;

use crate::exit::UsageError;

/// Snapshot of the process environment.
#[derive(Clone, Debug, Default)]
pub(crate) struct EnvironmentConfig {
    home: Option<PathBuf>,
    xdg_state_home: Option<PathBuf>,
    xdg_config_home: Option<PathBuf>,
    cwd: Option<PathBuf>,
    /// Absolute path of this program.
    program: Option<PathBuf>,
    search_path: Vec<PathBuf>,
    /// Entries of `PATH` that mean another folder in each working directory.
    relative_search_path: Vec<PathBuf>,
    /// Variables set to a relative folder; zero treats them as unset.
    relative_variables: Vec<&'static str>,
    /// All variables that are valid UTF-8; the environment of commands is selected from these.
    environment: Vec<(String, String)>,
    /// Secret files named on the command line, in addition to those in settings.
    secret_files: Vec<PathBuf>,
    /// Draft that is read in place of the user's settings file.
    draft_settings: Option<PathBuf>,
    /// The calls of a dry run. Everything that commands change is recorded, because it may be
    /// discarded.
    dry_run: Option<Arc<StartedCalls>>,
    /// Log filter in the syntax of `tracing`; without it, nothing is logged.
    pub(crate) log: Option<String>,
    /// Properties of the standard streams.
    pub(crate) streams: StandardStreams,
}

impl EnvironmentConfig {
    /// Reads the environment of this process.
    #[expect(clippy::disallowed_methods, reason = "the only function that reads the environment")]
    pub(crate) fn from_env() -> Self {
        let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let dumb = set("TERM").is_some_and(|term| term == "dumb");
        let path = set("PATH").unwrap_or_default();
        let (search_path, relative_search_path) = match path.is_empty() {
            true => (Vec::new(), Vec::new()),
            false => std::env::split_paths(&path).partition(|path| path.is_absolute()),
        };
        let is_relative =
            |name: &&str| set(name).is_some_and(|value| PathBuf::from(value).is_relative());
        let folders = ["HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"];
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set);
        let locale_is_utf8 = locale.map(|locale| is_utf8(&locale.to_string_lossy()));
        Self {
            home: set("HOME").and_then(absolute_path),
            xdg_state_home: set("XDG_STATE_HOME").and_then(absolute_path),
            xdg_config_home: set("XDG_CONFIG_HOME").and_then(absolute_path),
            cwd: std::env::current_dir().ok(),
            program: std::env::current_exe().ok(),
            search_path,
            relative_search_path,
            relative_variables: folders.into_iter().filter(is_relative).collect(),
            environment: std::env::vars_os()
                .filter_map(|(name, value)| {
                    Some((name.into_string().ok()?, value.into_string().ok()?))
                })
                .collect(),
            secret_files: Vec::new(),
            draft_settings: None,
            dry_run: None,
            log: set("ZERO_LOG").map(|filter| filter.to_string_lossy().into_owned()),
            streams: StandardStreams {
                stdin_is_terminal: io::stdin().is_terminal(),
                stdout_is_terminal: io::stdout().is_terminal(),
                stderr_is_terminal: io::stderr().is_terminal(),
                colours: set("NO_COLOR").is_none() && !dumb,
                utf8: locale_is_utf8 == Some(true),
                ascii: locale_is_utf8 == Some(false),
                columns: terminal_size::terminal_size().map(|(width, _)| usize::from(width.0)),
                reflow: TerminalKind::from_env(&|name| {
                    set(name).map(|value| value.to_string_lossy().into_owned())
                })
                .reflow,
            },
        }
    }

    /// Home folder, which `~` stands for.
    pub(crate) fn home(&self) -> Option<&Path> {
        self.home.as_deref()
    }

    /// Current folder, where relative paths on the command line start.
    pub(crate) fn cwd(&self) -> Result<&Path, UsageError> {
        self.cwd.as_deref().ok_or_else(|| {
            UsageError(
                "could not read the current folder; change to an existing folder and try again"
                    .to_owned(),
            )
        })
    }

    /// Path of the user's settings file. Without a home folder this is an error rather than empty
    /// settings, because the missing file might contain deny rules.
    pub(crate) fn settings_file(&self) -> Result<PathBuf, UsageError> {
        let config_home = self.config_home().ok_or_else(|| {
            UsageError(
                "cannot locate your settings; set HOME or XDG_CONFIG_HOME to an absolute path"
                    .to_owned(),
            )
        })?;
        Ok(config_home.join("zero/settings.json"))
    }

    /// Reads a draft in place of the user's settings file, whose place stays protected.
    pub(crate) fn with_draft_settings(self, draft: PathBuf) -> Self {
        Self { draft_settings: Some(draft), ..self }
    }

    /// The file that is read as the user's settings.
    pub(crate) fn draft_or_settings_file(&self) -> Result<PathBuf, UsageError> {
        self.draft_settings.clone().map_or_else(|| self.settings_file(), Ok)
    }

    /// Where settings are looked for.
    pub(crate) fn user_paths(&self) -> UserPaths {
        UserPaths {
            home: self.home.clone(),
            settings_file: self.draft_or_settings_file().ok(),
            state_dir: self.state_dir().ok().map(|state| state.path().to_owned()),
            cwd: self.cwd.clone(),
        }
    }

    /// Folder for user settings of all programs: `XDG_CONFIG_HOME` or `~/.config`.
    pub(crate) fn config_home(&self) -> Option<PathBuf> {
        let usual = || self.home.as_ref().map(|home| home.join(".config"));
        self.xdg_config_home.clone().or_else(usual)
    }

    /// Absolute path of this program.
    pub(crate) fn program(&self) -> Option<&Path> {
        self.program.as_deref()
    }

    /// Replaces the home folder if `named`. The XDG variables are then ignored, so that settings and
    /// state are read from the new home.
    pub(crate) fn with_home(&self, home: Option<PathBuf>, named: bool) -> Self {
        if !named {
            return self.clone();
        }
        Self { home, xdg_config_home: None, xdg_state_home: None, ..self.clone() }
    }

    /// Secret files named on the command line.
    pub(crate) fn secret_files(&self) -> &[PathBuf] {
        &self.secret_files
    }

    /// Records everything that commands change, and which calls are started.
    pub(crate) fn for_dry_run(mut self) -> Self {
        self.dry_run = Some(Arc::default());
        self
    }

    /// Whether everything that commands change must be recorded.
    pub(crate) fn is_dry_run(&self) -> bool {
        self.dry_run.is_some()
    }

    /// The calls of this process, if it is a dry run.
    pub(crate) fn dry_run_calls(&self) -> Option<Arc<StartedCalls>> {
        self.dry_run.clone()
    }

    /// Adds secret files that the command line names.
    pub(crate) fn with_secret_files(mut self, files: impl IntoIterator<Item = PathBuf>) -> Self {
        self.secret_files.extend(files);
        self
    }

    /// Works in another folder; a relative one begins at the current folder.
    pub(crate) fn with_cwd(self, folder: &Path) -> Result<Self, UsageError> {
        let cwd = Some(self.cwd()?.join(folder));
        Ok(Self { cwd, ..self })
    }

    /// Resolves a path from settings or the command line. `None` if it is relative and the current
    /// folder is unknown.
    pub(crate) fn resolve_file(&self, written: &str) -> Option<PathBuf> {
        match (written.strip_prefix("~/"), self.home()) {
            (Some(rest), Some(home)) => Some(home.join(rest)),
            _ => Some(self.cwd.as_ref()?.join(written)),
        }
    }

    /// Base sandbox settings for commands.
    pub(crate) fn command_settings(&self) -> CommandSettings {
        let settings = self.settings_file();
        let own = settings.ok().and_then(|file| file.parent().map(Path::to_owned));
        CommandSettings {
            home: self.home.clone(),
            own: own.into_iter().collect(),
            environment: self.environment.clone(),
            ..CommandSettings::default()
        }
    }

    /// Value of a variable, if it is set and valid UTF-8.
    pub(crate) fn variable(&self, name: &str) -> Option<&str> {
        let set = self.environment.iter().find(|(set, _)| set == name);
        set.map(|(_, value)| value.as_str())
    }

    /// Absolute entries of `PATH`, in order.
    pub(crate) fn search_path(&self) -> &[PathBuf] {
        &self.search_path
    }

    /// Entries of `PATH` that are not looked at, because they mean another folder each time.
    pub(crate) fn relative_search_path(&self) -> &[PathBuf] {
        &self.relative_search_path
    }

    /// Folder variables that zero ignores because their value is relative.
    pub(crate) fn relative_variables(&self) -> &[&'static str] {
        &self.relative_variables
    }

    /// Folder for data that zero can recreate; `None` without `XDG_CACHE_HOME` and `HOME`.
    pub(crate) fn cache_dir(&self) -> Option<StateDir> {
        let named = self.variable("XDG_CACHE_HOME").and_then(|named| absolute_path(named.into()));
        let usual = || self.home.as_ref().map(|home| home.join(".cache"));
        named.or_else(usual).map(|cache| StateDir::new(cache.join("zero")))
    }

    /// Folder for the audit log, the undo journal, sessions and oversized results.
    pub(crate) fn state_dir(&self) -> Result<StateDir, UsageError> {
        let state_home = match (&self.xdg_state_home, &self.home) {
            (Some(state_home), _) => state_home.clone(),
            // zero creates its own folders, but not a home: a mistyped one would seem to work.
            (None, Some(home)) if !home.is_dir() => {
                return Err(UsageError(format!(
                    "your home folder `{}` (HOME) does not exist; create it, or set XDG_STATE_HOME for the state folder",
                    home.display()
                )));
            }
            (None, Some(home)) => home.join(".local/state"),
            (None, None) => {
                return Err(UsageError(
                    "cannot locate the state folder for the audit log and the undo journal; set HOME or XDG_STATE_HOME to an absolute path"
                        .to_owned(),
                ));
            }
        };
        Ok(StateDir::new(state_home.join("zero")))
    }
}

/// Whether a locale such as `C.UTF-8` has letters beyond ASCII.
fn is_utf8(locale: &str) -> bool {
    let locale = locale.to_ascii_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}

/// Treats a relative folder as unset, since it would depend on the working directory.
fn absolute_path(value: OsString) -> Option<PathBuf> {
    Some(PathBuf::from(value)).filter(|path| path.is_absolute())
}

#[cfg(test)]
impl EnvironmentConfig {
    /// Adds a variable.
    pub(crate) fn with_variable(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Environment for tests: all paths are in `folder`, and no stream is a terminal.
    #[expect(clippy::disallowed_methods, reason = "the home of a test is made outside zero")]
    pub(crate) fn for_test(folder: &Path) -> Self {
        let home = folder.join("home");
        // zero does not create a home. It may be there already.
        let _ = std::fs::create_dir(&home);
        Self { home: Some(home), cwd: Some(folder.to_owned()), ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(home: Option<&str>, xdg: Option<&str>, expected: Option<&str>) {
        let path = |text: Option<&str>| text.map(OsString::from).and_then(absolute_path);
        let config = EnvironmentConfig {
            home: path(home),
            xdg_state_home: path(xdg),
            ..EnvironmentConfig::default()
        };
        let state = config.state_dir().ok().map(|state| state.path().to_owned());
        assert_eq!(state.as_deref(), expected.map(Path::new));
    }

    #[test]
    fn state_folder_follows_xdg_rules() {
        // It exists everywhere.
        check(Some("/"), None, Some("/.local/state/zero"));
        check(Some("/"), Some("relative"), Some("/.local/state/zero"));
        check(Some("/missing/home"), None, None);
        check(Some("/missing/home"), Some("/state"), Some("/state/zero"));
        check(None, Some("/state"), Some("/state/zero"));
        check(None, None, None);
    }

    #[test]
    fn locale_decides_utf8_support() {
        for (locale, expected) in
            [("C.UTF-8", true), ("de_DE.utf8", true), ("C", false), ("POSIX", false)]
        {
            assert_eq!(is_utf8(locale), expected, "{locale}");
        }
    }

    #[test]
    fn settings_file_follows_xdg_rules() {
        for (home, xdg, expected) in [
            (Some("/me"), None, Some("/me/.config/zero/settings.json")),
            (Some("/me"), Some("/config"), Some("/config/zero/settings.json")),
            (Some("/me"), Some("relative"), Some("/me/.config/zero/settings.json")),
            (None, None, None),
        ] {
            let path = |text: Option<&str>| text.map(OsString::from).and_then(absolute_path);
            let config = EnvironmentConfig {
                home: path(home),
                xdg_config_home: path(xdg),
                ..EnvironmentConfig::default()
            };
            assert_eq!(config.settings_file().ok().as_deref(), expected.map(Path::new));
        }
    }
}
