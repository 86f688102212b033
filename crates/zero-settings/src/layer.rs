//! The settings files, one layer each.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::Value;
use zero_core::schema_violation::join_pointer;
use zero_policy::{PermissionMode, PolicyRule};
use zero_runtime::HookFile;
use zero_sandbox::{ConfigFile, ConfigFileError};

use crate::document::{FILE_BYTES_MAX, SettingsDocument};
use crate::hooks::ParsedHook;
pub use crate::layer_kind::SettingsLayerKind;
use crate::parsed_setting::{ParsedSetting, SettingFailure, SettingSource};
use crate::problem::SettingsProblem;
use crate::rule_entry::RuleParser;
use crate::{budgets, mask, mcp_servers, settings_schema};

/// One settings file that exists and is valid.
#[derive(Debug)]
pub struct SettingsLayer {
    /// The owner of the file.
    pub kind: SettingsLayerKind,
    /// The file name for messages, with `~` for the home folder.
    pub shown: String,
    entries: Vec<SettingsEntry>,
}

impl SettingsLayer {
    /// Reads a file; `None` if it does not exist.
    pub fn read(
        kind: SettingsLayerKind,
        file: &ConfigFile,
        home: Option<&Path>,
    ) -> Result<Option<Self>, Vec<SettingsProblem>> {
        let shown = display_path(&file.path(), home);
        match file.read(FILE_BYTES_MAX) {
            Ok(None) => Ok(None),
            Ok(Some(bytes)) => Self::parse(kind, shown, &bytes).map(Some),
            Err(error) => Err(vec![SettingsProblem {
                file: shown,
                place: None,
                what: describe_read_error(&error),
            }]),
        }
    }

    /// Parses the contents of a file.
    pub fn parse(
        kind: SettingsLayerKind,
        shown: String,
        bytes: &[u8],
    ) -> Result<Self, Vec<SettingsProblem>> {
        Self::parse_with(kind, shown, bytes, &mut PolicyRule::parse)
    }

    /// Parses the contents of a file with another rule parser.
    pub(crate) fn parse_with(
        kind: SettingsLayerKind,
        shown: String,
        bytes: &[u8],
        parse_rule: &mut RuleParser<'_>,
    ) -> Result<Self, Vec<SettingsProblem>> {
        let document = SettingsDocument::parse(&shown, bytes)?;
        let mut found = settings_schema::find_problems(document.value());
        let (mut entries, mut unusable) = (Vec::new(), Vec::new());
        for UnparsedEntry { key, pointer, value, is_item } in split_entries(document.value()) {
            let line = document.location(&pointer).line;
            let at = SettingSource { file: &shown, line, layer: kind };
            // A user who writes a budget relies on it.
            if kind.is_in_workspace() && budgets::KEYS.contains(&key.as_str()) {
                let what = format!(
                    "`{key}` limits nothing here, because budgets count only in your own settings; move it there, or remove it"
                );
                found.push((pointer, what));
                continue;
            }
            match ParsedSetting::parse(&key, is_item, value, &at, parse_rule) {
                Ok(parsed) => entries.push(SettingsEntry {
                    key,
                    value: value.clone(),
                    parsed,
                    file: shown.clone(),
                    line,
                    layer: kind,
                    state: SettingsEntryState::Active,
                    files: Vec::new(),
                }),
                Err(SettingFailure::Wrong { below, what }) => {
                    found.push((pointer + &below, what));
                }
                Err(SettingFailure::Unusable(what)) => unusable.push((pointer, what)),
            }
        }
        if found.is_empty() {
            found = unusable;
        }
        match found.is_empty() {
            true => Ok(Self { kind, shown, entries }),
            false => Err(settings_schema::to_problems(&shown, &document, found)),
        }
    }

    /// The entries of the file, one per rule, limit, server and hook.
    pub fn entries(&self) -> &[SettingsEntry] {
        &self.entries
    }
}

/// One entry of a settings file before it is parsed.
struct UnparsedEntry<'a> {
    key: String,
    pointer: String,
    value: &'a Value,
    /// Whether it is an item of a list.
    is_item: bool,
}

/// Splits a file into entries, one per rule, limit, server and hook.
fn split_entries(file: &Value) -> Vec<UnparsedEntry<'_>> {
    let mut entries = Vec::new();
    let top = file.as_object().into_iter().flatten();
    for (section, value) in top.filter(|(section, _)| *section != "$schema") {
        let pointer = join_pointer("", section);
        match value {
            Value::Object(fields) => {
                for (name, field) in fields {
                    let pointer = join_pointer(&pointer, name);
                    let key = format!("{section}.{name}");
                    match field {
                        Value::Array(items)
                            if matches!(
                                section.as_str(),
                                "permissions" | "sandbox" | "secrets" | "hooks"
                            ) =>
                        {
                            push_items(&mut entries, &key, &pointer, items);
                        }
                        Value::Object(limits) if section == "limits" => {
                            for (name, value) in limits {
                                let pointer = join_pointer(&pointer, name);
                                let key = format!("{key}.{name}");
                                entries.push(UnparsedEntry { key, pointer, value, is_item: false });
                            }
                        }
                        value => {
                            entries.push(UnparsedEntry { key, pointer, value, is_item: false })
                        }
                    }
                }
            }
            Value::Array(servers) if section == "mcpServers" => {
                for (index, value) in servers.iter().enumerate() {
                    let pointer = join_pointer(&pointer, &index.to_string());
                    let alias = mcp_servers::server_id(value).unwrap_or_default();
                    let key = format!("{section}.{alias}");
                    entries.push(UnparsedEntry { key, pointer, value, is_item: true });
                }
            }
            Value::Array(items) => push_items(&mut entries, section, &pointer, items),
            value => {
                let key = section.clone();
                entries.push(UnparsedEntry { key, pointer, value, is_item: false });
            }
        }
    }
    entries
}

fn push_items<'a>(
    entries: &mut Vec<UnparsedEntry<'a>>,
    key: &str,
    pointer: &str,
    items: &'a [Value],
) {
    for (index, value) in items.iter().enumerate() {
        let pointer = join_pointer(pointer, &index.to_string());
        entries.push(UnparsedEntry { key: key.to_owned(), pointer, value, is_item: true });
    }
}

/// One entry of a settings file, with its location.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SettingsEntry {
    /// The dotted key, such as `permissions.mode`; the items of a list share it.
    pub key: String,
    /// The value as written.
    pub value: Value,
    /// The parsed value.
    #[serde(skip)]
    pub parsed: ParsedSetting,
    #[serde(rename = "source")]
    /// The file name for messages, with `~` for the home folder.
    pub file: String,
    /// The line in `file` where the entry begins, from 1.
    pub line: u32,
    /// The owner of the file.
    pub layer: SettingsLayerKind,
    /// Whether the entry applies.
    pub state: SettingsEntryState,
    /// The workspace files that a hook uses, as they were when the settings were read.
    #[serde(skip)]
    pub files: Vec<HookFile>,
}

impl SettingsEntry {
    /// Whether the entry is in effect, including keys that this version does not use.
    pub fn is_effective(&self) -> bool {
        matches!(self.state, SettingsEntryState::Active | SettingsEntryState::NotUsed)
    }

    /// The permission mode that it sets.
    pub(crate) fn mode(&self) -> Option<PermissionMode> {
        match &self.parsed {
            ParsedSetting::Mode(mode) => Some(*mode),
            _ => None,
        }
    }

    /// The hook that it is.
    pub(crate) fn hook(&self) -> Option<&ParsedHook> {
        match &self.parsed {
            ParsedSetting::Hook(hook) => Some(hook),
            _ => None,
        }
    }

    /// A copy without values that may be secrets, for display.
    pub fn to_masked(&self) -> Self {
        match mask::mask(&self.key, &self.value) {
            Cow::Owned(value) => Self { value, parsed: ParsedSetting::Plain, ..self.clone() },
            Cow::Borrowed(_) => self.clone(),
        }
    }

    /// Why an entry of a project's file that only the user can set does nothing, and what to do.
    pub fn describe_misplaced(&self) -> String {
        format!(
            "`{}` ({}) has no effect: only your own settings can set it; move it there (`zero config path` names the file) or remove it",
            self.key,
            self.location()
        )
    }

    /// File and line, for messages.
    pub fn location(&self) -> String {
        format!("{}:{}", self.file, self.line)
    }
}

/// Whether an entry applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SettingsEntryState {
    /// It applies.
    Active,
    /// A later file overrides it.
    Overridden,
    /// It does not apply until the folder is trusted.
    SetAside,
    /// This version does not use it.
    NotUsed,
    /// It applies only in the user's own file.
    OnlyYours,
}

/// The path of a settings file in a workspace.
pub fn workspace_file(root: &Path, kind: SettingsLayerKind) -> ConfigFile {
    let name = match kind {
        SettingsLayerKind::Local => ".zero/settings.local.json",
        _ => ".zero/settings.json",
    };
    ConfigFile::Beneath { root: root.to_owned(), relative: PathBuf::from(name) }
}

/// A path with `~` for the user's home folder.
pub fn display_path(path: &Path, home: Option<&Path>) -> String {
    match home.and_then(|home| path.strip_prefix(home).ok()) {
        Some(below) => format!("~/{}", below.display()),
        None => path.display().to_string(),
    }
}

/// Describes why a file could not be read, with the fix.
pub fn describe_read_error(error: &ConfigFileError) -> String {
    match error {
        ConfigFileError::Link => {
            "is a link, and zero does not follow links in a workspace; replace it with the file itself"
                .to_owned()
        }
        ConfigFileError::Dangling => {
            "is a dangling link, or is inside one; restore its target, or remove the link"
                .to_owned()
        }
        ConfigFileError::NoFolder => {
            "its folder is a link or a file; replace it with a folder".to_owned()
        }
        ConfigFileError::NotAFile => {
            "is not a regular file; remove it or replace it with a file".to_owned()
        }
        ConfigFileError::TooLarge { bytes_max } => {
            format!(
                "is larger than {} MB, which is too large for settings; check its contents",
                bytes_max / 1_000_000
            )
        }
        ConfigFileError::Locked => "another zero process is changing it; try again".to_owned(),
        ConfigFileError::System(error) => {
            format!(
                "could not be opened: {error}; check the owner and mode of the file and its folder"
            )
        }
    }
}
