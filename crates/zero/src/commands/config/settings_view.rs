//! Looking at settings.

use serde_json::{Value, json};
use zero_sandbox::ConfigFile;

use super::{file_of, workspace};
use crate::AppContext;
use crate::cli::config::{ConfigGetArgs, ConfigListArgs, ConfigPathArgs};
use crate::exit::{ExitOutcome, UsageError};
use crate::settings::document::FILE_BYTES_MAX;
use crate::settings::{
    SettingsEntry, SettingsEntryState, SettingsError, SettingsLayer, SettingsLayerKind,
    WorkspaceSettings, settings_schema, value_of,
};
use crate::terminal::{FAINT, NOTABLE, TableCell, TextTable};

pub(super) fn path(app: &AppContext, args: &ConfigPathArgs) -> anyhow::Result<ExitOutcome> {
    let workspace = workspace(app, args.workspace.as_ref())?;
    let mut table = TextTable::new(["SETTINGS", "FILE", ""]);
    let mut rows = Vec::new();
    for kind in [SettingsLayerKind::User, SettingsLayerKind::Project, SettingsLayerKind::Local] {
        let file = file_of(app, &workspace, kind)?;
        let path = file.path().display().to_string();
        let state = state_of(&file);
        rows.push(json!({"layer": kind, "path": path, "exists": state.is_none()}));
        table.row([
            kind.word().into(),
            path.into(),
            TableCell::styled(state.unwrap_or_default(), FAINT),
        ]);
    }
    let out = &app.terminal.out;
    if args.json {
        out.write_pretty(&rows)?
    } else {
        out.write(&table.render(out))?
    }
    Ok(ExitOutcome::Ok)
}

/// Why there is no file to read; `None` when there is one.
fn state_of(file: &ConfigFile) -> Option<String> {
    match file.read(FILE_BYTES_MAX) {
        Ok(Some(_)) => None,
        Ok(None) => Some("(not there)".to_owned()),
        Err(error) => Some(format!("({error})")),
    }
}

pub(super) fn list(app: &AppContext, args: &ConfigListArgs) -> anyhow::Result<ExitOutcome> {
    let workspace = workspace(app, args.workspace.as_ref())?;
    let settings = app.settings(&workspace, &args.settings)?;
    let out = &app.terminal.out;
    let entries: Vec<SettingsEntry> =
        settings.entries().iter().map(SettingsEntry::masked).collect();
    if args.json {
        out.write_pretty(&entries)?;
        return Ok(ExitOutcome::Ok);
    }
    if entries.is_empty() {
        app.terminal.note("nothing is set; `zero config path` shows where settings go");
        return Ok(ExitOutcome::Ok);
    }
    let mut table = TextTable::new(["SETTING", "VALUE", "SOURCE", ""]);
    for entry in &entries {
        let style = if entry.state == SettingsEntryState::SetAside { NOTABLE } else { FAINT };
        table.row([
            entry.key.as_str().into(),
            plain(&entry.value).into(),
            entry.place().into(),
            TableCell::styled(remark(entry.state), style),
        ]);
    }
    out.write(&table.render(out))?;
    if let Some(note) = settings.note() {
        app.terminal.note(&note);
    }
    Ok(ExitOutcome::Ok)
}

fn remark(state: SettingsEntryState) -> &'static str {
    match state {
        SettingsEntryState::Active => "",
        SettingsEntryState::Overridden => "overridden",
        SettingsEntryState::SetAside => "not active until trusted",
        SettingsEntryState::NotUsed => "not used by this version",
        SettingsEntryState::OnlyYours => "counts only in your own settings",
    }
}

pub(super) fn get(app: &AppContext, args: &ConfigGetArgs) -> anyhow::Result<ExitOutcome> {
    refuse_unknown(&args.key)?;
    let workspace = args.layer.workspace(app)?;
    let missing = |place: &str| {
        app.terminal.error(&format!("`{}` is not set{place}", args.key));
        Ok(ExitOutcome::Error)
    };
    match args.layer.kind() {
        None => {
            let settings: WorkspaceSettings = app.settings(&workspace, &[])?;
            let entries: Vec<SettingsEntry> =
                settings.entries().iter().map(SettingsEntry::masked).collect();
            match value_of(entries.iter().filter(|entry| entry.counts()), &args.key) {
                Some((value, sources)) => print(app, args, &value, &sources),
                None => missing(""),
            }
        }
        Some(kind) => {
            let file = file_of(app, &workspace, kind)?;
            let layer = SettingsLayer::read(kind, &file, app.config.home())
                .map_err(|problems| UsageError::from(SettingsError { problems }))?;
            let entries = layer.map(|layer| layer.entries()).unwrap_or_default();
            let entries: Vec<SettingsEntry> = entries.iter().map(SettingsEntry::masked).collect();
            match value_of(entries.iter(), &args.key) {
                Some((value, sources)) => print(app, args, &value, &sources),
                None => missing(&format!(" in `{}`", file.path().display())),
            }
        }
    }
}

/// A mistyped key is not one that is merely unset.
fn refuse_unknown(key: &str) -> Result<(), UsageError> {
    let known = settings_schema::known_keys();
    let is_known = known.iter().any(|known| {
        let is_above = |outer: &str, inner: &str| {
            inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        is_above(key, known.key) || (known.is_open && is_above(known.key, key))
    });
    if is_known {
        return Ok(());
    }
    let names = known.iter().map(|known| known.key);
    Err(UsageError(match zero_runtime::name_suggestions::nearest(key, names.clone(), 1).pop() {
        Some(nearest) => format!("there is no setting `{key}`; did you mean `{nearest}`?"),
        None => format!(
            "there is no setting `{key}`; there are {}",
            names.collect::<Vec<_>>().join(", ")
        ),
    }))
}

fn print(
    app: &AppContext,
    args: &ConfigGetArgs,
    value: &Value,
    sources: &[&SettingsEntry],
) -> anyhow::Result<ExitOutcome> {
    let out = &app.terminal.out;
    if !args.json {
        let text = match value {
            Value::Array(items) => items.iter().map(|item| plain(item) + "\n").collect(),
            other => plain(other) + "\n",
        };
        out.write(&out.foreign(&text))?;
        return Ok(ExitOutcome::Ok);
    }
    let place = |entry: &&SettingsEntry| json!({"source": entry.file, "line": entry.line, "layer": entry.layer});
    let mut answer = json!({"key": args.key, "value": value});
    match sources {
        [only] => {
            answer["source"] = json!(only.file);
            answer["line"] = json!(only.line);
        }
        several => answer["sources"] = several.iter().map(place).collect(),
    }
    out.write_pretty(&answer)?;
    Ok(ExitOutcome::Ok)
}

/// A value as a person writes it: texts without quotes.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
