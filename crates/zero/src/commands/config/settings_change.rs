//! Changing a settings file: one value, checked as a whole before a byte is written.

use serde_json::Value;
use zero_sandbox::{ConfigFile, ConfigFileError, Workspace, config_file};
use zero_settings::document::FILE_BYTES_MAX;
use zero_settings::edit::{self, ValueEdit};
use zero_settings::layer::{describe_read_error, display_path};
use zero_settings::{
    SettingsError, SettingsLayer, SettingsLayerKind, SettingsProblem, WorkspaceSettings,
};

use super::settings_file;
use crate::AppContext;
use crate::cli::SettingsLayerArgs;
use crate::cli::config::{ConfigItemArgs, ConfigSetArgs, ConfigUnsetArgs};
use crate::exit::{ExitOutcome, UsageError};
use crate::terminal::escape_line;

/// Name of the lock that is held while a settings file changes.
const LOCK: &str = "settings.lock";
/// Initial text of a new settings file.
const NEW_FILE_TEXT: &str = "{}\n";

pub(super) fn set_value(app: &AppContext, args: &ConfigSetArgs) -> anyhow::Result<ExitOutcome> {
    let edits = parse_candidates(&args.value).into_iter().map(ValueEdit::Set).collect();
    SettingsChange::new(app, &args.layer, &args.key)?
        .apply(edits, ["set", "already has this value"])
}

pub(super) fn unset_value(app: &AppContext, args: &ConfigUnsetArgs) -> anyhow::Result<ExitOutcome> {
    SettingsChange::new(app, &args.layer, &args.key)?
        .apply(vec![ValueEdit::Unset], ["unset", "is not set"])
}

pub(super) fn add_item(app: &AppContext, args: &ConfigItemArgs) -> anyhow::Result<ExitOutcome> {
    let edits = parse_candidates(&args.value).into_iter().map(ValueEdit::Add).collect();
    let change = SettingsChange::new(app, &args.layer, &args.key)?;
    let outcome = change.apply(edits, ["added to", "already contains this value"])?;
    if matches!(args.key.as_str(), "permissions.deny" | "permissions.ask") {
        change.print_narrow_rule(&args.value)?;
    }
    Ok(outcome)
}

pub(super) fn remove_item(app: &AppContext, args: &ConfigItemArgs) -> anyhow::Result<ExitOutcome> {
    let edits = parse_candidates(&args.value).into_iter().map(ValueEdit::Remove).collect();
    SettingsChange::new(app, &args.layer, &args.key)?
        .apply(edits, ["removed from", "does not contain this value"])
}

/// Returns the possible values of an argument: as JSON if it is JSON, then as plain text.
fn parse_candidates(text: &str) -> Vec<Value> {
    let json = serde_json::from_str(text).ok();
    json.into_iter().chain([Value::String(text.to_owned())]).collect()
}

/// A change to one settings file.
struct SettingsChange<'a> {
    app: &'a AppContext,
    key: &'a str,
    kind: SettingsLayerKind,
    workspace: Workspace,
    file: ConfigFile,
    shown: String,
}

impl<'a> SettingsChange<'a> {
    fn new(
        app: &'a AppContext,
        layer: &SettingsLayerArgs,
        key: &'a str,
    ) -> Result<Self, UsageError> {
        if key.split('.').any(str::is_empty) {
            return Err(UsageError(format!(
                "`{key}` is not a settings key; write one such as `permissions.mode`"
            )));
        }
        let workspace = layer.open_workspace(app)?;
        let kind = layer.layer_kind().unwrap_or(SettingsLayerKind::User);
        let file = settings_file(app, &workspace, kind)?;
        let shown = display_path(&file.path(), app.config.home());
        Ok(Self { app, key, kind, workspace, file, shown })
    }

    /// Tries the edits in order and writes the first one that gives a valid file. `words` describe the
    /// change, and the state if there was nothing to change.
    fn apply(&self, edits: Vec<ValueEdit>, words: [&str; 2]) -> anyhow::Result<ExitOutcome> {
        let state = self.app.config.state_dir()?;
        let _lock = config_file::lock(&state, LOCK).map_err(|error| self.to_usage_error(&error))?;
        let old = self.file.read(FILE_BYTES_MAX).map_err(|error| self.to_usage_error(&error))?;
        let old = match old {
            Some(bytes) => {
                self.parse_layer(&bytes)?;
                String::from_utf8(bytes).unwrap_or_default()
            }
            None => NEW_FILE_TEXT.to_owned(),
        };
        let [done, idle] = words;
        let out = &self.app.terminal.out;
        let (key, file) = (escape_line(self.key), escape_line(&self.shown));
        match self.first_valid_edit(&old, &edits)? {
            Some(new) => {
                self.file.write(new.as_bytes()).map_err(|error| self.to_usage_error(&error))?;
                out.write(&format!("{done} `{key}` in {file}\n"))?;
                self.print_trust_note()?;
            }
            None => out.write(&format!("`{key}` {idle} in {file}\n"))?,
        }
        Ok(ExitOutcome::Ok)
    }

    /// The text after the first edit that gives a sound file; `None` when there is nothing to do.
    fn first_valid_edit(
        &self,
        old: &str,
        edits: &[ValueEdit],
    ) -> Result<Option<String>, UsageError> {
        let mut failure = None;
        let mut idle = false;
        for edit in edits {
            let key: Vec<&str> = self.key.split('.').collect();
            let tried = edit::apply(old, &key, edit).map_err(|error| UsageError(error.to_string()));
            let checked = tried.and_then(|new| match new {
                Some(new) => self.check_result(new.as_bytes()).map(|()| Some(new)),
                None => Ok(None),
            });
            match checked {
                Ok(Some(new)) => return Ok(Some(new)),
                Ok(None) => idle = true,
                // The plain text is tried last; what JSON would be wrong with says more.
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        match failure {
            Some(error) if !idle => {
                let UsageError(message) = error;
                Err(UsageError(format!("{message}\nnothing was written")))
            }
            _ => Ok(None),
        }
    }

    /// Whether a file could be used, its rules' examples included: it must not stop every command.
    fn check_result(&self, bytes: &[u8]) -> Result<(), UsageError> {
        let (config, root) = (&self.app.config, self.workspace.cwd());
        WorkspaceSettings::check_layer(self.parse_layer(bytes)?, &config.user_paths(), root)
            .map_err(UsageError::from)
    }

    fn parse_layer(&self, bytes: &[u8]) -> Result<SettingsLayer, UsageError> {
        let checked = if bytes.len() as u64 > FILE_BYTES_MAX {
            let what =
                describe_read_error(&ConfigFileError::TooLarge { bytes_max: FILE_BYTES_MAX });
            Err(vec![SettingsProblem { file: self.shown.clone(), place: None, what }])
        } else {
            SettingsLayer::parse(self.kind, self.shown.clone(), bytes)
        };
        checked.map_err(|problems| UsageError::from(SettingsError::Invalid(problems)))
    }

    fn to_usage_error(&self, error: &ConfigFileError) -> UsageError {
        UsageError(format!("{} {}", self.shown, describe_read_error(error)))
    }

    /// A rule that was added and matches less than it seems to protects less than its user thinks.
    fn print_narrow_rule(&self, value: &str) -> anyhow::Result<()> {
        let settings = self.app.load_settings(&self.workspace, &[])?;
        for (entry, why) in settings.narrow_rules(self.workspace.cwd()) {
            // The value is the rule, or an object with it.
            if value.contains(&entry.text) {
                self.app.terminal.print_note(&format!("rule `{}`: {why}", entry.text));
            }
        }
        Ok(())
    }

    /// Who loosens a workspace's settings should know that they do not count yet.
    fn print_trust_note(&self) -> anyhow::Result<()> {
        if self.kind.is_in_workspace()
            && let Some(note) = self.app.load_settings(&self.workspace, &[])?.trust_note()
        {
            self.app.terminal.print_note(&note);
        }
        Ok(())
    }
}
