//! Changes a settings file. The result is checked as a whole before a byte is written.

use std::borrow::Cow;

use zero_core::sanitize::escape_line;
use zero_exec::check_creation;
use zero_sandbox::{ConfigFile, ConfigFileError, StateDir, Workspace, config_file};
use zero_settings::document::FILE_BYTES_MAX;
use zero_settings::edit::{self, ValueEdit};
use zero_settings::layer::{describe_read_error, display_path, workspace_file};
use zero_settings::{
    SettingsError, SettingsLayer, SettingsLayerKind, SettingsProblem, WorkspaceSettings,
};

use crate::AppContext;
use crate::exit::UsageError;

/// Name of the lock that is held while a settings file changes.
const LOCK: &str = "settings.lock";
/// Initial text of a new settings file.
const NEW_FILE_TEXT: &str = "{}\n";

/// A settings file whose values can be changed.
pub(crate) struct EditableSettingsFile<'a> {
    app: &'a AppContext,
    pub(crate) kind: SettingsLayerKind,
    pub(crate) workspace: &'a Workspace,
    file: ConfigFile,
    /// The file as shown to the user.
    pub(crate) shown: String,
}

/// Whether an edit changed the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SettingsEditOutcome {
    /// The file was written.
    Changed,
    /// It already had the value.
    Unchanged,
}

impl<'a> EditableSettingsFile<'a> {
    /// The file of a layer for this workspace.
    pub(crate) fn new(
        app: &'a AppContext,
        workspace: &'a Workspace,
        kind: SettingsLayerKind,
    ) -> Result<Self, UsageError> {
        let file = settings_file(app, workspace, kind)?;
        let shown = display_path(&file.path(), app.config.home());
        Ok(Self { app, kind, workspace, file, shown })
    }

    /// The text of the file, also if it is not valid; that of a new file if there is none.
    pub(crate) fn read_text(&self) -> Result<String, UsageError> {
        let bytes = self.file.read(FILE_BYTES_MAX).map_err(|error| self.to_usage_error(&error))?;
        let Some(bytes) = bytes else { return Ok(NEW_FILE_TEXT.to_owned()) };
        String::from_utf8(bytes)
            .map_err(|_| UsageError(format!("{} is not valid UTF-8 text", self.shown)))
    }

    /// The text of the file; `None` if there is none.
    pub(crate) fn read_existing(&self) -> Result<Option<String>, UsageError> {
        let bytes = self.file.read(FILE_BYTES_MAX).map_err(|error| self.to_usage_error(&error))?;
        bytes.map(|_| self.read_text()).transpose()
    }

    /// Whether the file sets a key.
    pub(crate) fn has_value(&self, key: &str) -> Result<bool, UsageError> {
        let key: Vec<&str> = key.split('.').collect();
        let unset = edit::apply(&self.read_text()?, &key, &ValueEdit::Unset);
        unset.map(|without| without.is_some()).map_err(|error| UsageError(error.to_string()))
    }

    /// Replaces the text, if the new one is valid and the file is still the one that was read.
    pub(crate) fn replace_text(&self, before: &str, text: &str) -> Result<(), UsageError> {
        let state = self.app.config.state_dir()?;
        let _lock = config_file::lock(&state, LOCK).map_err(|error| self.to_usage_error(&error))?;
        if self.read_text()? != before {
            return Err(UsageError(format!("{} was changed in the meantime", self.shown)));
        }
        self.check_result(text.as_bytes())?;
        self.check_creation(&state)?;
        self.file.write(text.as_bytes()).map_err(|error| self.to_usage_error(&error))
    }

    /// Fails unless a draft of the text would be valid settings. An error that `before` has, too, is one of
    /// the file; any other is one of the draft, which has no lines that the user could look up.
    pub(crate) fn check_draft(&self, before: &str, draft: &str) -> Result<(), UsageError> {
        let problems = match self.check_settings(draft.as_bytes()) {
            Err(SettingsError::Invalid(problems)) => problems,
            checked => return checked.map_err(UsageError::from),
        };
        let known = match self.check_settings(before.as_bytes()) {
            Err(SettingsError::Invalid(problems)) => problems,
            _ => Vec::new(),
        };
        let is_new = |problem: &&SettingsProblem| known.iter().all(|old| old.what != problem.what);
        let new: Vec<Cow<'_, str>> =
            problems.iter().filter(is_new).map(|problem| escape_line(&problem.what)).collect();
        Err(match new.as_slice() {
            [] => UsageError::from(SettingsError::Invalid(problems)),
            [one] => UsageError(format!("the draft has an error: {one}")),
            more => UsageError(format!("the draft has {} errors: {}", more.len(), more.join("; "))),
        })
    }

    /// Tries the edits of a key in order and writes the first one that gives a valid file.
    pub(crate) fn apply_first_valid(
        &self,
        key: &str,
        edits: &[ValueEdit],
    ) -> Result<SettingsEditOutcome, UsageError> {
        self.change(|old| self.first_valid_edit(old, key, edits))
    }

    /// Applies all edits of a key, or none.
    pub(crate) fn apply_all(
        &self,
        key: &str,
        edits: &[ValueEdit],
    ) -> Result<SettingsEditOutcome, UsageError> {
        self.change(|old| {
            let mut text = None;
            for edit in edits {
                let current = text.as_deref().unwrap_or(old);
                if let Some(new) =
                    self.first_valid_edit(current, key, std::slice::from_ref(edit))?
                {
                    text = Some(new);
                }
            }
            Ok(text)
        })
    }

    /// Writes the text that `edit` makes of the current one, if it changes it.
    fn change(
        &self,
        edit: impl FnOnce(&str) -> Result<Option<String>, UsageError>,
    ) -> Result<SettingsEditOutcome, UsageError> {
        let state = self.app.config.state_dir()?;
        let _lock = config_file::lock(&state, LOCK).map_err(|error| self.to_usage_error(&error))?;
        let old = self.file.read(FILE_BYTES_MAX).map_err(|error| self.to_usage_error(&error))?;
        let old = match old {
            Some(bytes) => {
                self.parse_layer(&bytes).map_err(UsageError::from)?;
                String::from_utf8(bytes).unwrap_or_default()
            }
            None => NEW_FILE_TEXT.to_owned(),
        };
        let Some(new) = edit(&old)? else { return Ok(SettingsEditOutcome::Unchanged) };
        self.check_creation(&state)?;
        self.file.write(new.as_bytes()).map_err(|error| self.to_usage_error(&error))?;
        Ok(SettingsEditOutcome::Changed)
    }

    /// Fails if the file would be taken for that of a command that runs.
    fn check_creation(&self, state: &StateDir) -> Result<(), UsageError> {
        check_creation(state, &self.file.path()).map_err(|error| UsageError(error.message))
    }

    /// The text after the first edit that gives a sound file; `None` when there is nothing to do.
    fn first_valid_edit(
        &self,
        old: &str,
        key: &str,
        edits: &[ValueEdit],
    ) -> Result<Option<String>, UsageError> {
        let mut failure = None;
        let mut is_unchanged = false;
        for edit in edits {
            let key: Vec<&str> = key.split('.').collect();
            match self.checked_edit(old, &key, edit) {
                Ok(Some(new)) => return Ok(Some(new)),
                Ok(None) => is_unchanged = true,
                Err(error) => {
                    // An object that may not be empty goes with its last value.
                    if let (ValueEdit::Unset, Some((_, above))) = (edit, key.split_last())
                        && edit::is_only_value(old, &key)
                        && let Ok(Some(new)) = self.checked_edit(old, above, edit)
                    {
                        return Ok(Some(new));
                    }
                    // The plain text is tried last; the errors of JSON values say more.
                    failure = failure.or(Some(error));
                }
            }
        }
        match failure {
            Some(error) if !is_unchanged => {
                let UsageError(message) = error;
                Err(UsageError(format!("{message}\nnothing was written")))
            }
            _ => Ok(None),
        }
    }

    /// The text after an edit, if that gives a sound file; `None` when there is nothing to do.
    fn checked_edit(
        &self,
        old: &str,
        key: &[&str],
        edit: &ValueEdit,
    ) -> Result<Option<String>, UsageError> {
        let new = edit::apply(old, key, edit).map_err(|error| UsageError(error.to_string()))?;
        if let Some(new) = &new {
            self.check_result(new.as_bytes())?;
        }
        Ok(new)
    }

    /// Whether a file could be used, its rules' examples included: it must not stop every command.
    pub(crate) fn check_result(&self, bytes: &[u8]) -> Result<(), UsageError> {
        self.check_settings(bytes).map_err(UsageError::from)
    }

    fn check_settings(&self, bytes: &[u8]) -> Result<(), SettingsError> {
        let (config, root) = (&self.app.config, self.workspace.cwd());
        WorkspaceSettings::check_layer(self.parse_layer(bytes)?, &config.user_paths(), root)
    }

    fn parse_layer(&self, bytes: &[u8]) -> Result<SettingsLayer, SettingsError> {
        let checked = if bytes.len() as u64 > FILE_BYTES_MAX {
            let what =
                describe_read_error(&ConfigFileError::TooLarge { bytes_max: FILE_BYTES_MAX });
            Err(vec![SettingsProblem { file: self.shown.clone(), place: None, what }])
        } else {
            SettingsLayer::parse(self.kind, self.shown.clone(), bytes)
        };
        checked.map_err(SettingsError::Invalid)
    }

    fn to_usage_error(&self, error: &ConfigFileError) -> UsageError {
        UsageError(format!("{} {}", self.shown, describe_read_error(error)))
    }
}

/// Settings file of a layer for this workspace.
pub(crate) fn settings_file(
    app: &AppContext,
    workspace: &Workspace,
    kind: SettingsLayerKind,
) -> Result<ConfigFile, UsageError> {
    if kind.is_in_workspace() {
        return Ok(workspace_file(workspace.cwd(), kind));
    }
    app.config.settings_file().map(ConfigFile::Own)
}
