//! Changing a settings file: one value, checked as a whole before a byte is written.

use serde_json::Value;
use zero_sandbox::Workspace;
use zero_settings::SettingsLayerKind;
use zero_settings::edit::ValueEdit;
use zero_settings::sandbox::LOCALHOST;

use crate::AppContext;
use crate::cli::SettingsLayerArgs;
use crate::cli::config::{ConfigAddArgs, ConfigRemoveArgs, ConfigSetArgs, ConfigUnsetArgs};
use crate::exit::{ExitOutcome, UsageError};
use crate::settings_file_edit::{EditableSettingsFile, SettingsEditOutcome};
use crate::terminal::escape_line;

pub(super) fn set_value(app: &AppContext, args: &ConfigSetArgs) -> anyhow::Result<ExitOutcome> {
    let edits = parse_candidates(&args.value).into_iter().map(ValueEdit::Set).collect();
    let change = SettingsChange::new(app, &args.layer, &args.key)?;
    let outcome = change.apply(edits, ["set", "already has this value"])?;
    if args.key == "model" {
        let settings = app.load_settings(&change.workspace, &[])?;
        if let Some(error) = app.chosen_model_error(&settings) {
            app.terminal.print_note(&error.to_string());
        }
    }
    Ok(outcome)
}

pub(super) fn unset_value(app: &AppContext, args: &ConfigUnsetArgs) -> anyhow::Result<ExitOutcome> {
    SettingsChange::new(app, &args.layer, &args.key)?
        .apply(vec![ValueEdit::Unset], ["unset", "is not set"])
}

pub(super) fn add_item(app: &AppContext, args: &ConfigAddArgs) -> anyhow::Result<ExitOutcome> {
    let edits = parse_candidates(&args.value).into_iter().map(ValueEdit::Add).collect();
    let change = SettingsChange::new(app, &args.layer, &args.key)?;
    let outcome = change.apply(edits, ["added to", "already contains this value"])?;
    if matches!(args.key.as_str(), "permissions.deny" | "permissions.ask") {
        change.print_narrow_rule(&args.value)?;
    }
    if args.key == "sandbox.network" && args.value.trim() == LOCALHOST {
        let note = "`localhost` has no effect: each session has its own loopback, and commands never reach this machine";
        app.terminal.print_note(note);
    }
    Ok(outcome)
}

pub(super) fn remove_item(
    app: &AppContext,
    args: &ConfigRemoveArgs,
) -> anyhow::Result<ExitOutcome> {
    let edits = parse_candidates(&args.value).into_iter().map(ValueEdit::Remove).collect();
    SettingsChange::new(app, &args.layer, &args.key)?
        .apply(edits, ["removed from", "does not contain this value"])
}

/// Sets a value in the user's own settings, and reports it.
pub(in crate::commands) fn set_user_value(
    app: &AppContext,
    key: &str,
    value: Value,
) -> anyhow::Result<ExitOutcome> {
    set_value_in(app, &user_layer(), key, value)
}

/// Removes a value from the user's own settings, and reports it.
pub(in crate::commands) fn unset_user_value(
    app: &AppContext,
    key: &str,
) -> anyhow::Result<ExitOutcome> {
    unset_value_in(app, &user_layer(), key)
}

/// Sets a value in one file, and reports it.
pub(in crate::commands) fn set_value_in(
    app: &AppContext,
    layer: &SettingsLayerArgs,
    key: &str,
    value: Value,
) -> anyhow::Result<ExitOutcome> {
    SettingsChange::new(app, layer, key)?
        .apply(vec![ValueEdit::Set(value)], ["set", "already has this value"])
}

/// Removes a value from one file, and reports it.
pub(in crate::commands) fn unset_value_in(
    app: &AppContext,
    layer: &SettingsLayerArgs,
    key: &str,
) -> anyhow::Result<ExitOutcome> {
    SettingsChange::new(app, layer, key)?.apply(vec![ValueEdit::Unset], ["unset", "is not set"])
}

/// Whether one file has a value.
pub(in crate::commands) fn has_value(
    app: &AppContext,
    layer: &SettingsLayerArgs,
    key: &str,
) -> Result<bool, UsageError> {
    let change = SettingsChange::new(app, layer, key)?;
    change.open_file()?.has_value(key)
}

fn user_layer() -> SettingsLayerArgs {
    SettingsLayerArgs { user: true, project: false, local: false, workspace: None }
}

/// Returns the possible values of an argument: as JSON if it is JSON, then as plain text.
fn parse_candidates(text: &str) -> Vec<Value> {
    let json = serde_json::from_str(text).ok();
    json.into_iter().chain([Value::String(text.to_owned())]).collect()
}

/// A change to one settings file.
pub(super) struct SettingsChange<'a> {
    app: &'a AppContext,
    key: &'a str,
    kind: SettingsLayerKind,
    workspace: Workspace,
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
        Ok(Self { app, key, kind, workspace })
    }

    /// A change of the file as a whole.
    pub(super) fn for_file(
        app: &'a AppContext,
        layer: &SettingsLayerArgs,
    ) -> Result<Self, UsageError> {
        Self::new(app, layer, "settings")
    }

    /// The file that changes.
    pub(super) fn open_file(&self) -> Result<EditableSettingsFile<'_>, UsageError> {
        EditableSettingsFile::new(self.app, &self.workspace, self.kind)
    }

    /// Tries the edits in order and writes the first one that gives a valid file. `words` describe the
    /// change, and the state if there was nothing to change.
    fn apply(&self, edits: Vec<ValueEdit>, words: [&str; 2]) -> anyhow::Result<ExitOutcome> {
        let target = self.open_file()?;
        let [done, idle] = words;
        let out = &self.app.terminal.out;
        let (key, file) = (escape_line(self.key), escape_line(&target.shown));
        match target.apply_first_valid(self.key, &edits)? {
            SettingsEditOutcome::Changed => {
                out.write(&format!("{done} `{key}` in {file}\n"))?;
                self.print_trust_note()?;
            }
            SettingsEditOutcome::Unchanged => out.write(&format!("`{key}` {idle} in {file}\n"))?,
        }
        Ok(ExitOutcome::Ok)
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
    pub(super) fn print_trust_note(&self) -> anyhow::Result<()> {
        if self.kind.is_in_workspace()
            && let Some(note) = self.app.load_settings(&self.workspace, &[])?.trust_note()
        {
            self.app.terminal.print_note(&note);
        }
        Ok(())
    }
}
