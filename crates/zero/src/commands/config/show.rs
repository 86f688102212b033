//! Looking at settings.

use serde_json::{Value, json};
use zero_sandbox::ConfigFile;

use super::{file_of, workspace};
use crate::App;
use crate::cli::config::{GetArgs, ListArgs, PathArgs};
use crate::exit::{Exit, UsageError};
use crate::settings::document::FILE_BYTES_MAX;
use crate::settings::{
    Entry, EntryState, Layer, LayerKind, Settings, SettingsError, shape, value_of,
};
use crate::terminal::{Cell, FAINT, NOTABLE, Table};

pub(super) fn path(app: &App, args: &PathArgs) -> anyhow::Result<Exit> {
    let workspace = workspace(app, args.workspace.as_ref())?;
    let mut table = Table::new(["SETTINGS", "FILE", ""]);
    let mut rows = Vec::new();
    for kind in [LayerKind::User, LayerKind::Project, LayerKind::Local] {
        let file = file_of(app, &workspace, kind)?;
        let path = file.path().display().to_string();
        let state = state_of(&file);
        rows.push(json!({"layer": kind, "path": path, "exists": state.is_none()}));
        table.row([
            kind.word().into(),
            path.into(),
            Cell::styled(state.unwrap_or_default(), FAINT),
        ]);
    }
    let out = &app.terminal.out;
    if args.json {
        out.write_pretty(&rows)?
    } else {
        out.write(&table.render(out))?
    }
    Ok(Exit::Ok)
}

/// Why there is no file to read; `None` when there is one.
fn state_of(file: &ConfigFile) -> Option<String> {
    match file.read(FILE_BYTES_MAX) {
        Ok(Some(_)) => None,
        Ok(None) => Some("(not there)".to_owned()),
        Err(error) => Some(format!("({error})")),
    }
}

pub(super) fn list(app: &App, args: &ListArgs) -> anyhow::Result<Exit> {
    let workspace = workspace(app, args.workspace.as_ref())?;
    let settings = app.settings(&workspace, &args.settings)?;
    let out = &app.terminal.out;
    let entries: Vec<Entry> = settings.entries().iter().map(Entry::masked).collect();
    if args.json {
        out.write_pretty(&entries)?;
        return Ok(Exit::Ok);
    }
    if entries.is_empty() {
        app.terminal.note("nothing is set; `zero config path` shows where settings go");
        return Ok(Exit::Ok);
    }
    let mut table = Table::new(["SETTING", "VALUE", "SOURCE", ""]);
    for entry in &entries {
        let style = if entry.state == EntryState::SetAside { NOTABLE } else { FAINT };
        table.row([
            entry.key.as_str().into(),
            plain(&entry.value).into(),
            entry.place().into(),
            Cell::styled(remark(entry.state), style),
        ]);
    }
    out.write(&table.render(out))?;
    if let Some(note) = settings.note() {
        app.terminal.note(&note);
    }
    Ok(Exit::Ok)
}

fn remark(state: EntryState) -> &'static str {
    match state {
        EntryState::Active => "",
        EntryState::Overridden => "overridden",
        EntryState::SetAside => "not active until trusted",
        EntryState::NotUsed => "not used by this version",
        EntryState::OnlyYours => "counts only in your own settings",
    }
}

pub(super) fn get(app: &App, args: &GetArgs) -> anyhow::Result<Exit> {
    refuse_unknown(&args.key)?;
    let workspace = args.layer.workspace(app)?;
    let missing = |place: &str| {
        app.terminal.error(&format!("`{}` is not set{place}", args.key));
        Ok(Exit::Error)
    };
    match args.layer.kind() {
        None => {
            let settings: Settings = app.settings(&workspace, &[])?;
            let entries: Vec<Entry> = settings.entries().iter().map(Entry::masked).collect();
            match value_of(entries.iter().filter(|entry| entry.counts()), &args.key) {
                Some((value, sources)) => print(app, args, &value, &sources),
                None => missing(""),
            }
        }
        Some(kind) => {
            let file = file_of(app, &workspace, kind)?;
            let layer = Layer::read(kind, &file, app.config.home())
                .map_err(|problems| UsageError::from(SettingsError { problems }))?;
            let entries = layer.map(|layer| layer.entries()).unwrap_or_default();
            let entries: Vec<Entry> = entries.iter().map(Entry::masked).collect();
            match value_of(entries.iter(), &args.key) {
                Some((value, sources)) => print(app, args, &value, &sources),
                None => missing(&format!(" in `{}`", file.path().display())),
            }
        }
    }
}

/// A mistyped key is not one that is merely unset.
fn refuse_unknown(key: &str) -> Result<(), UsageError> {
    let known = shape::known_keys();
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
    Err(UsageError(match zero_runtime::nearest::nearest(key, names.clone(), 1).pop() {
        Some(nearest) => format!("there is no setting `{key}`; did you mean `{nearest}`?"),
        None => format!(
            "there is no setting `{key}`; there are {}",
            names.collect::<Vec<_>>().join(", ")
        ),
    }))
}

fn print(app: &App, args: &GetArgs, value: &Value, sources: &[&Entry]) -> anyhow::Result<Exit> {
    let out = &app.terminal.out;
    if !args.json {
        let text = match value {
            Value::Array(items) => items.iter().map(|item| plain(item) + "\n").collect(),
            other => plain(other) + "\n",
        };
        out.write(&out.foreign(&text))?;
        return Ok(Exit::Ok);
    }
    let place =
        |entry: &&Entry| json!({"source": entry.file, "line": entry.line, "layer": entry.layer});
    let mut answer = json!({"key": args.key, "value": value});
    match sources {
        [only] => {
            answer["source"] = json!(only.file);
            answer["line"] = json!(only.line);
        }
        several => answer["sources"] = several.iter().map(place).collect(),
    }
    out.write_pretty(&answer)?;
    Ok(Exit::Ok)
}

/// A value as a person writes it: texts without quotes.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
