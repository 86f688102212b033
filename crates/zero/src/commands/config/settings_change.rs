//! Changing a settings file: one value, checked as a whole before a byte is written.

use serde_json::Value;
use zero_sandbox::{ConfigFile, ConfigFileError, Workspace, config_file};

use super::file_of;
use crate::AppContext;
use crate::cli::SettingsLayerArgs;
use crate::cli::config::{ConfigItemArgs, ConfigSetArgs, ConfigUnsetArgs};
use crate::exit::{ExitOutcome, UsageError};
use crate::settings::document::FILE_BYTES_MAX;
use crate::settings::edit::{self, ValueEdit};
use crate::settings::layer::{shown, unreadable};
use crate::settings::{
    SettingsError, SettingsLayer, SettingsLayerKind, SettingsProblem, WorkspaceSettings,
};
use crate::terminal::escape_line;

/// What is locked while a settings file changes.
const LOCK: &str = "settings.lock";
/// A file that is yet to be made.
const NEW_FILE: &str = "{}\n";

pub(super) fn set(app: &AppContext, args: &ConfigSetArgs) -> anyhow::Result<ExitOutcome> {
    let edits = readings(&args.value).into_iter().map(ValueEdit::Set).collect();
    SettingsChange::begin(app, &args.layer, &args.key)?.run(edits, ["set", "is that already"])
}

pub(super) fn unset(app: &AppContext, args: &ConfigUnsetArgs) -> anyhow::Result<ExitOutcome> {
    SettingsChange::begin(app, &args.layer, &args.key)?
        .run(vec![ValueEdit::Unset], ["unset", "is not set"])
}

pub(super) fn add(app: &AppContext, args: &ConfigItemArgs) -> anyhow::Result<ExitOutcome> {
    let edits = readings(&args.value).into_iter().map(ValueEdit::Add).collect();
    SettingsChange::begin(app, &args.layer, &args.key)?
        .run(edits, ["added to", "holds that already"])
}

pub(super) fn remove(app: &AppContext, args: &ConfigItemArgs) -> anyhow::Result<ExitOutcome> {
    let edits = readings(&args.value).into_iter().map(ValueEdit::Remove).collect();
    SettingsChange::begin(app, &args.layer, &args.key)?
        .run(edits, ["removed from", "does not hold that"])
}

/// What a value on the command line may mean: JSON if it is JSON, and the text itself.
fn readings(text: &str) -> Vec<Value> {
    let json = serde_json::from_str(text).ok();
    json.into_iter().chain([Value::String(text.to_owned())]).collect()
}

/// One change of one file.
struct SettingsChange<'a> {
    app: &'a AppContext,
    key: &'a str,
    kind: SettingsLayerKind,
    workspace: Workspace,
    file: ConfigFile,
    shown: String,
}

impl<'a> SettingsChange<'a> {
    fn begin(
        app: &'a AppContext,
        layer: &SettingsLayerArgs,
        key: &'a str,
    ) -> Result<Self, UsageError> {
        if key.split('.').any(str::is_empty) {
            return Err(UsageError(format!(
                "`{key}` is no key; write one such as `permissions.mode`"
            )));
        }
        let workspace = layer.workspace(app)?;
        let kind = layer.kind().unwrap_or(SettingsLayerKind::User);
        let file = file_of(app, &workspace, kind)?;
        let shown = shown(&file.path(), app.config.home());
        Ok(Self { app, key, kind, workspace, file, shown })
    }

    /// Tries the edits in turn and writes the first that gives a sound file. `words` say what was
    /// done, and what holds when there was nothing to do.
    fn run(&self, edits: Vec<ValueEdit>, words: [&str; 2]) -> anyhow::Result<ExitOutcome> {
        let state = self.app.config.state()?;
        let _lock = config_file::lock(&state, LOCK).map_err(|error| self.failed(&error))?;
        let old = self.file.read(FILE_BYTES_MAX).map_err(|error| self.failed(&error))?;
        let old = match old {
            Some(bytes) => {
                self.parse(&bytes)?;
                String::from_utf8(bytes).unwrap_or_default()
            }
            None => NEW_FILE.to_owned(),
        };
        let [done, idle] = words;
        let out = &self.app.terminal.out;
        let (key, file) = (escape_line(self.key), escape_line(&self.shown));
        match self.first_sound(&old, &edits)? {
            Some(new) => {
                self.file.write(new.as_bytes()).map_err(|error| self.failed(&error))?;
                out.write(&format!("{done} `{key}` in {file}\n"))?;
                self.note_on_trust()?;
            }
            None => out.write(&format!("`{key}` {idle} in {file}\n"))?,
        }
        Ok(ExitOutcome::Ok)
    }

    /// The text after the first edit that gives a sound file; `None` when there is nothing to do.
    fn first_sound(&self, old: &str, edits: &[ValueEdit]) -> Result<Option<String>, UsageError> {
        let mut failure = None;
        let mut idle = false;
        for edit in edits {
            let key: Vec<&str> = self.key.split('.').collect();
            let tried = edit::apply(old, &key, edit).map_err(|error| UsageError(error.to_string()));
            let checked = tried.and_then(|new| match new {
                Some(new) => self.try_out(new.as_bytes()).map(|()| Some(new)),
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
    fn try_out(&self, bytes: &[u8]) -> Result<(), UsageError> {
        let (config, root) = (&self.app.config, self.workspace.cwd());
        WorkspaceSettings::try_layer(self.parse(bytes)?, config, root).map_err(UsageError::from)
    }

    fn parse(&self, bytes: &[u8]) -> Result<SettingsLayer, UsageError> {
        let checked = if bytes.len() as u64 > FILE_BYTES_MAX {
            let what = unreadable(&ConfigFileError::TooLarge { bytes_max: FILE_BYTES_MAX });
            Err(vec![SettingsProblem { file: self.shown.clone(), place: None, what }])
        } else {
            SettingsLayer::parse(self.kind, self.shown.clone(), bytes)
        };
        checked.map_err(|problems| UsageError::from(SettingsError { problems }))
    }

    fn failed(&self, error: &ConfigFileError) -> UsageError {
        UsageError(format!("{} {}", self.shown, unreadable(error)))
    }

    /// Who loosens a workspace's settings should know that they do not count yet.
    fn note_on_trust(&self) -> anyhow::Result<()> {
        if self.kind.is_of_workspace()
            && let Some(note) = self.app.settings(&self.workspace, &[])?.note()
        {
            self.app.terminal.note(&note);
        }
        Ok(())
    }
}
