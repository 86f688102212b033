//! Looking at settings.

use serde_json::{Value, json};
use zero_core::HostLimits;
use zero_sandbox::{ConfigFile, machine_resources};
use zero_settings::default_values::default_value;
use zero_settings::document::FILE_BYTES_MAX;
use zero_settings::{
    SettingsEntry, SettingsEntryState, SettingsError, SettingsLayer, SettingsLayerKind,
    WorkspaceSettings, collect_value, settings_schema,
};

use super::open_workspace_folder;
use crate::AppContext;
use crate::cli::config::{ConfigGetArgs, ConfigListArgs, ConfigPathArgs};
use crate::exit::{ExitOutcome, UsageError};
use crate::settings_file_edit::settings_file;
use crate::terminal::{FAINT, NOTABLE, TableCell, TextTable, escape_line};

pub(super) fn print_paths(app: &AppContext, args: &ConfigPathArgs) -> anyhow::Result<ExitOutcome> {
    let workspace = open_workspace_folder(app, args.workspace.as_ref())?;
    let mut table = TextTable::new(["SETTINGS", "FILE", ""]);
    let mut rows = Vec::new();
    for kind in [SettingsLayerKind::User, SettingsLayerKind::Project, SettingsLayerKind::Local] {
        let file = settings_file(app, &workspace, kind)?;
        let path = file.path().display().to_string();
        let state = describe_state(&file);
        rows.push(json!({"layer": kind, "path": path, "exists": state.is_none()}));
        table.add_row([
            kind.as_str().into(),
            path.into(),
            TableCell::styled(state.unwrap_or_default(), FAINT),
        ]);
    }
    let out = &app.terminal.out;
    if args.json {
        out.write_pretty_json(&rows)?
    } else {
        out.write(&table.render(out))?
    }
    Ok(ExitOutcome::Ok)
}

/// Why there is no file to read; `None` when there is one.
fn describe_state(file: &ConfigFile) -> Option<String> {
    match file.read(FILE_BYTES_MAX) {
        Ok(Some(_)) => None,
        Ok(None) => Some("(not there)".to_owned()),
        Err(error) => Some(format!("({error})")),
    }
}

pub(super) fn print_list(app: &AppContext, args: &ConfigListArgs) -> anyhow::Result<ExitOutcome> {
    let workspace = open_workspace_folder(app, args.workspace.as_ref())?;
    let settings = app.load_settings(&workspace, &args.settings)?;
    let out = &app.terminal.out;
    let is_asked =
        |key: &str| args.key.as_deref().is_none_or(|requested| is_at_or_below(key, requested));
    let mut entries: Vec<SettingsEntry> =
        settings.entries().iter().map(SettingsEntry::to_masked).collect();
    let mut defaults = Vec::new();
    if args.defaults {
        let mut limits = HostLimits::for_machine(machine_resources::read());
        settings.apply_limits(&mut limits);
        defaults = unset_keys(&entries, &limits);
    }
    entries.retain(|entry| is_asked(&entry.key));
    defaults.retain(|(key, _)| is_asked(key));
    if args.json {
        let defaults = defaults
            .iter()
            .map(|(key, value)| json!({"key": key, "value": value, "state": "default"}));
        let rows = entries.iter().map(|entry| json!(entry)).chain(defaults);
        out.write_pretty_json(&rows.collect::<Vec<_>>())?;
        return Ok(ExitOutcome::Ok);
    }
    if let Some(key) = args.key.as_ref().filter(|_| entries.is_empty() && defaults.is_empty()) {
        app.terminal.print_note(&format!("`{}` is not set", escape_line(key)));
        return Ok(ExitOutcome::Ok);
    }
    if entries.is_empty() && defaults.is_empty() {
        app.terminal.print_note(
            "nothing is set; `zero config list --defaults` shows all settings, and `zero config path` where they go",
        );
        return Ok(ExitOutcome::Ok);
    }
    let mut table = TextTable::new(["SETTING", "VALUE", "SOURCE", ""]);
    for entry in &entries {
        let style = if entry.state == SettingsEntryState::SetAside { NOTABLE } else { FAINT };
        table.add_row([
            entry.key.as_str().into(),
            to_plain_text(&entry.value).into(),
            entry.location().into(),
            TableCell::styled(state_remark(entry.state), style),
        ]);
    }
    for (key, value) in &defaults {
        let value = value.as_deref().unwrap_or("(not set)");
        table.add_row([
            (*key).into(),
            TableCell::styled(value, FAINT),
            TableCell::styled("default", FAINT),
            "".into(),
        ]);
    }
    out.write(&table.render(out))?;
    if let Some(note) = settings.trust_note() {
        app.terminal.print_note(&note);
    }
    Ok(ExitOutcome::Ok)
}

/// Whether a setting is another one, or a part of it.
fn is_at_or_below(key: &str, requested: &str) -> bool {
    key.strip_prefix(requested).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

/// The keys that no entry sets, with the values that apply: their defaults.
fn unset_keys(
    entries: &[SettingsEntry],
    limits: &HostLimits,
) -> Vec<(&'static str, Option<String>)> {
    let is_set = |key: &str| {
        entries
            .iter()
            .filter(|entry| entry.is_effective())
            .any(|entry| is_at_or_below(&entry.key, key))
    };
    let unset = settings_schema::known_keys().into_iter().filter(|known| !is_set(known.key));
    unset.map(|known| (known.key, default_value(known.key, limits))).collect()
}

fn state_remark(state: SettingsEntryState) -> &'static str {
    match state {
        SettingsEntryState::Active => "",
        SettingsEntryState::Overridden => "overridden",
        SettingsEntryState::SetAside => "not active until trusted",
        SettingsEntryState::NotUsed => "not used by this version",
        SettingsEntryState::OnlyYours => "counts only in your own settings",
    }
}

pub(super) fn print_value(app: &AppContext, args: &ConfigGetArgs) -> anyhow::Result<ExitOutcome> {
    check_known_key(&args.key)?;
    let workspace = args.layer.open_workspace(app)?;
    let missing = |place: &str| {
        app.terminal.print_error(&format!("`{}` is not set{place}", args.key));
        Ok(ExitOutcome::Error)
    };
    match args.layer.layer_kind() {
        None => {
            let settings: WorkspaceSettings = app.load_settings(&workspace, &[])?;
            let entries: Vec<SettingsEntry> =
                settings.entries().iter().map(SettingsEntry::to_masked).collect();
            match collect_value(entries.iter().filter(|entry| entry.is_effective()), &args.key) {
                Some((value, sources)) => write_value(app, args, &value, &sources),
                None => missing(""),
            }
        }
        Some(kind) => {
            let file = settings_file(app, &workspace, kind)?;
            let layer = SettingsLayer::read(kind, &file, app.config.home())
                .map_err(|problems| UsageError::from(SettingsError::Invalid(problems)))?;
            let entries = layer.iter().flat_map(SettingsLayer::entries);
            let entries: Vec<SettingsEntry> = entries.map(SettingsEntry::to_masked).collect();
            match collect_value(entries.iter(), &args.key) {
                Some((value, sources)) => write_value(app, args, &value, &sources),
                None => missing(&format!(" in `{}`", file.path().display())),
            }
        }
    }
}

/// Most similar keys that an error names.
const SUGGESTIONS_MAX: usize = 3;

/// A mistyped key is not one that is merely unset.
fn check_known_key(key: &str) -> Result<(), UsageError> {
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
    let nearest = zero_runtime::name_suggestions::suggest_names(key, names, SUGGESTIONS_MAX);
    let nearest: Vec<String> = nearest.iter().map(|name| format!("`{name}`")).collect();
    let hint = match nearest.is_empty() {
        true => String::new(),
        false => format!("did you mean {}? ", nearest.join(", ")),
    };
    Err(UsageError(format!(
        "there is no setting `{key}`; {hint}`zero config list --defaults` lists all"
    )))
}

fn write_value(
    app: &AppContext,
    args: &ConfigGetArgs,
    value: &Value,
    sources: &[&SettingsEntry],
) -> anyhow::Result<ExitOutcome> {
    let out = &app.terminal.out;
    if !args.json {
        let text = match value {
            Value::Array(items) => items.iter().map(|item| to_plain_text(item) + "\n").collect(),
            other => to_plain_text(other) + "\n",
        };
        out.write(&out.escape_foreign(&text))?;
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
    out.write_pretty_json(&answer)?;
    Ok(ExitOutcome::Ok)
}

/// A value as the user writes it: strings without quotes.
fn to_plain_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
