//! Where settings come from: one file each, and who wrote it.

use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::Value;
use zero_runtime::HookFile;
use zero_sandbox::{ConfigFile, ConfigFileError};

use super::document::{FILE_BYTES_MAX, SettingsDocument, join_pointer};
use super::problem::SettingsProblem;
use super::{mask, mcp_servers, settings_schema};

/// Whose settings they are, weakest first: what stands further down wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum SettingsLayerKind {
    /// The person's own, for all they do.
    User,
    /// The project's, shared by all who work on it.
    Project,
    /// The person's own for this project, kept out of version control.
    Local,
    /// A file named on the command line.
    Flag,
}

impl SettingsLayerKind {
    /// Stable word for JSON and tables.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Project => "project",
            Self::Local => "local",
            Self::Flag => "flag",
        }
    }

    /// Whether the file lies in the workspace, where it may have come with a checkout.
    pub(crate) fn is_in_workspace(self) -> bool {
        matches!(self, Self::Project | Self::Local)
    }
}

/// One settings file that exists and is sound.
#[derive(Debug)]
pub(crate) struct SettingsLayer {
    pub(crate) kind: SettingsLayerKind,
    /// The file as it is shown to people, with `~` for their home.
    pub(crate) shown: String,
    document: SettingsDocument,
}

impl SettingsLayer {
    /// Reads a file; `None` when there is none.
    pub(crate) fn read(
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
    pub(crate) fn parse(
        kind: SettingsLayerKind,
        shown: String,
        bytes: &[u8],
    ) -> Result<Self, Vec<SettingsProblem>> {
        let document = SettingsDocument::parse(&shown, bytes)?;
        settings_schema::check(&shown, &document)?;
        Ok(Self { kind, shown, document })
    }

    /// What the file says.
    pub(crate) fn value(&self) -> &Value {
        self.document.value()
    }

    /// The line of the value at a JSON pointer.
    pub(crate) fn line_of(&self, pointer: &str) -> u32 {
        self.document.location(pointer).line
    }

    /// Everything it says, one entry for each rule, limit, server and hook.
    pub(crate) fn entries(&self) -> Vec<SettingsEntry> {
        let mut entries = Vec::new();
        let top = self.value().as_object().into_iter().flatten();
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
                                    "permissions" | "sandbox" | "hooks"
                                ) =>
                            {
                                self.push_items(&mut entries, &key, &pointer, items);
                            }
                            Value::Object(limits) if section == "limits" => {
                                for (name, limit) in limits {
                                    let pointer = join_pointer(&pointer, name);
                                    entries.push(self.make_entry(
                                        &format!("{key}.{name}"),
                                        &pointer,
                                        limit,
                                    ));
                                }
                            }
                            field => entries.push(self.make_entry(&key, &pointer, field)),
                        }
                    }
                }
                Value::Array(servers) if section == "mcpServers" => {
                    for (index, server) in servers.iter().enumerate() {
                        let pointer = join_pointer(&pointer, &index.to_string());
                        let alias = mcp_servers::server_id(server).unwrap_or_default();
                        entries.push(self.make_entry(
                            &format!("{section}.{alias}"),
                            &pointer,
                            server,
                        ));
                    }
                }
                Value::Array(items) => self.push_items(&mut entries, section, &pointer, items),
                other => entries.push(self.make_entry(section, &pointer, other)),
            }
        }
        entries
    }

    fn push_items(
        &self,
        entries: &mut Vec<SettingsEntry>,
        key: &str,
        pointer: &str,
        items: &[Value],
    ) {
        for (index, item) in items.iter().enumerate() {
            entries.push(self.make_entry(key, &join_pointer(pointer, &index.to_string()), item));
        }
    }

    fn make_entry(&self, key: &str, pointer: &str, value: &Value) -> SettingsEntry {
        SettingsEntry {
            layer: self.kind,
            key: key.to_owned(),
            value: value.clone(),
            file: self.shown.clone(),
            line: self.line_of(pointer),
            state: SettingsEntryState::Active,
            files: Vec::new(),
        }
    }
}

/// One thing that a settings file says, with where it stands.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct SettingsEntry {
    pub(crate) key: String,
    pub(crate) value: Value,
    #[serde(rename = "source")]
    pub(crate) file: String,
    pub(crate) line: u32,
    pub(crate) layer: SettingsLayerKind,
    pub(crate) state: SettingsEntryState,
    /// The files of the workspace that a hook names, as they were when the settings were read.
    #[serde(skip)]
    pub(crate) files: Vec<HookFile>,
}

impl SettingsEntry {
    /// Whether it is what holds, used or not.
    pub(crate) fn is_effective(&self) -> bool {
        matches!(self.state, SettingsEntryState::Active | SettingsEntryState::NotUsed)
    }

    /// The same without what may be a secret, to be shown where nobody asked for that.
    pub(crate) fn to_masked(&self) -> Self {
        let value = mask::mask(&self.key, &self.value).into_owned();
        Self { value, ..self.clone() }
    }

    /// Where it stands, for a person.
    pub(crate) fn location(&self) -> String {
        format!("{}:{}", self.file, self.line)
    }
}

/// Whether an entry has a say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SettingsEntryState {
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
pub(crate) fn workspace_file(root: &Path, kind: SettingsLayerKind) -> ConfigFile {
    let name = match kind {
        SettingsLayerKind::Local => ".zero/settings.local.json",
        _ => ".zero/settings.json",
    };
    ConfigFile::Beneath { root: root.to_owned(), relative: PathBuf::from(name) }
}

/// A path with `~` for the person's home.
pub(crate) fn display_path(path: &Path, home: Option<&Path>) -> String {
    match home.and_then(|home| path.strip_prefix(home).ok()) {
        Some(below) => format!("~/{}", below.display()),
        None => path.display().to_string(),
    }
}

/// Why a file could not be read, with what to do.
pub(crate) fn describe_read_error(error: &ConfigFileError) -> String {
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
