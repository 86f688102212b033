//! Where settings come from: one file each, and who wrote it.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::Value;
use zero_policy::{PermissionMode, PolicyRule};
use zero_runtime::HookFile;
use zero_sandbox::{ConfigFile, ConfigFileError};

use crate::document::{FILE_BYTES_MAX, SettingsDocument, join_pointer};
use crate::hooks::ParsedHook;
pub use crate::layer_kind::SettingsLayerKind;
use crate::parsed_setting::{ParsedSetting, SettingFailure, SettingSource};
use crate::problem::SettingsProblem;
use crate::rule_entry::RuleParser;
use crate::{mask, mcp_servers, settings_schema};

/// One settings file that exists and is sound.
#[derive(Debug)]
pub struct SettingsLayer {
    /// Whose file it is.
    pub kind: SettingsLayerKind,
    /// The file as it is shown to people, with `~` for their home.
    pub shown: String,
    entries: Vec<SettingsEntry>,
}

impl SettingsLayer {
    /// Reads a file; `None` when there is none.
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

    /// Takes what a file holds.
    pub fn parse(
        kind: SettingsLayerKind,
        shown: String,
        bytes: &[u8],
    ) -> Result<Self, Vec<SettingsProblem>> {
        Self::parse_with(kind, shown, bytes, &mut PolicyRule::parse)
    }

    /// The same with another parser of rules.
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

    /// Everything it says, one entry for each rule, limit, server and hook.
    pub fn entries(&self) -> &[SettingsEntry] {
        &self.entries
    }
}

/// One thing that a settings file says, before anybody looked at what it means.
struct UnparsedEntry<'a> {
    key: String,
    pointer: String,
    value: &'a Value,
    /// Whether it is one of a list.
    is_item: bool,
}

/// What a file says, one entry for each rule, limit, server and hook.
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
                            if matches!(section.as_str(), "permissions" | "sandbox" | "hooks") =>
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

/// One thing that a settings file says, with where it stands.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SettingsEntry {
    /// Dotted, such as `permissions.mode`; the items of a list share it.
    pub key: String,
    /// As it is written.
    pub value: Value,
    /// What the value means.
    #[serde(skip)]
    pub parsed: ParsedSetting,
    #[serde(rename = "source")]
    /// The file as it is shown to people, with `~` for their home.
    pub file: String,
    /// The line in `file` where it begins, from 1.
    pub line: u32,
    /// Whose file it is.
    pub layer: SettingsLayerKind,
    /// Whether it counts.
    pub state: SettingsEntryState,
    /// The files of the workspace that a hook names, as they were when the settings were read.
    #[serde(skip)]
    pub files: Vec<HookFile>,
}

impl SettingsEntry {
    /// Whether it is what holds, used or not.
    pub fn is_effective(&self) -> bool {
        matches!(self.state, SettingsEntryState::Active | SettingsEntryState::NotUsed)
    }

    /// The mode that it names.
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

    /// The same without what may be a secret, to be shown where nobody asked for that.
    pub fn to_masked(&self) -> Self {
        match mask::mask(&self.key, &self.value) {
            Cow::Owned(value) => Self { value, parsed: ParsedSetting::Plain, ..self.clone() },
            Cow::Borrowed(_) => self.clone(),
        }
    }

    /// Where it stands, for a person.
    pub fn location(&self) -> String {
        format!("{}:{}", self.file, self.line)
    }
}

/// Whether an entry has a say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SettingsEntryState {
    /// It counts.
    Active,
    /// A later file says otherwise.
    Overridden,
    /// It will not count until the folder is trusted.
    SetAside,
    /// This version does nothing with it.
    NotUsed,
    /// It counts in the person's own file only.
    OnlyYours,
}

/// Where the settings files are.
pub fn workspace_file(root: &Path, kind: SettingsLayerKind) -> ConfigFile {
    let name = match kind {
        SettingsLayerKind::Local => ".zero/settings.local.json",
        _ => ".zero/settings.json",
    };
    ConfigFile::Beneath { root: root.to_owned(), relative: PathBuf::from(name) }
}

/// A path with `~` for the person's home.
pub fn display_path(path: &Path, home: Option<&Path>) -> String {
    match home.and_then(|home| path.strip_prefix(home).ok()) {
        Some(below) => format!("~/{}", below.display()),
        None => path.display().to_string(),
    }
}

/// Why a file could not be read, with what to do.
pub fn describe_read_error(error: &ConfigFileError) -> String {
    match error {
        ConfigFileError::Link => {
            "is a link, and links in a workspace are not followed; put the file itself there"
                .to_owned()
        }
        ConfigFileError::Dangling => {
            "is a link that leads nowhere, or lies behind one; bring back what it leads to, or remove the link"
                .to_owned()
        }
        ConfigFileError::NoFolder => {
            "what should be its folder is a link or a file; make it a folder".to_owned()
        }
        ConfigFileError::NotAFile => {
            "is not an ordinary file; remove it or put a file there".to_owned()
        }
        ConfigFileError::TooLarge { bytes_max } => {
            format!(
                "is larger than {} MB; settings are small, look at what is in it",
                bytes_max / 1_000_000
            )
        }
        ConfigFileError::Locked => "another zero is changing it; try again".to_owned(),
        ConfigFileError::System(error) => {
            format!(
                "could not be reached: {error}; check the owner and mode of the file and its folder"
            )
        }
    }
}
