//! The files of the other program: read within bounds, and without following links of a project.

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use serde_json::Value;
use zero_sandbox::{ConfigFile, Workspace, path_survey};
use zero_settings::SettingsLayerKind;
use zero_settings::document::SettingsDocument;
use zero_settings::layer::{describe_read_error, display_path};

use crate::AppContext;
use crate::exit::UsageError;

/// Largest file that is read, in bytes. Some programs keep their history in their settings.
const FILE_BYTES_MAX: u64 = 32_000_000;
/// Most files of one folder, with those of its subfolders.
const FILES_MAX: usize = 100;
/// How deep folders are nested.
const DEPTH_MAX: usize = 3;

/// The files of the user, or those of a project.
pub(super) struct SourceFiles<'a> {
    app: &'a AppContext,
    root: PathBuf,
    pub(super) kind: SettingsLayerKind,
    found: RefCell<Vec<String>>,
    looked_for: RefCell<Vec<String>>,
}

/// A file of a folder.
pub(super) struct FolderFile {
    /// Its path below the folder, without the ending, such as `git/tidy`.
    pub(super) name: String,
    pub(super) shown: String,
    pub(super) text: String,
}

impl<'a> SourceFiles<'a> {
    pub(super) fn new(
        app: &'a AppContext,
        workspace: &Workspace,
        kind: SettingsLayerKind,
    ) -> Result<Self, UsageError> {
        let root = match kind.is_in_workspace() {
            true => workspace.cwd().to_owned(),
            false => {
                let home = app.config.home().ok_or_else(|| {
                    UsageError("cannot locate your settings; set HOME to an absolute path".into())
                })?;
                home.to_owned()
            }
        };
        Ok(Self { app, root, kind, found: RefCell::default(), looked_for: RefCell::default() })
    }

    /// Whether the files are those of a project.
    pub(super) fn is_project(&self) -> bool {
        self.kind.is_in_workspace()
    }

    /// The files that were there.
    pub(super) fn found(&self) -> Vec<String> {
        self.found.borrow().clone()
    }

    /// The files and folders that were looked for.
    pub(super) fn looked_for(&self) -> Vec<String> {
        self.looked_for.borrow().clone()
    }

    /// The path of a program's folder in `~/.config`, relative to the home folder where it is there.
    pub(super) fn config_path(&self, relative: &str) -> PathBuf {
        let config = self.app.config.config_home();
        config.unwrap_or_else(|| self.root.join(".config")).join(relative)
    }

    /// The folder that a variable of the program's names, or the usual one in the home folder.
    pub(super) fn own_folder(&self, variable: &str, usual: &str) -> PathBuf {
        let named = self.app.config.variable(variable).map(PathBuf::from);
        named.filter(|path| path.is_absolute()).unwrap_or_else(|| self.root.join(usual))
    }

    /// A JSON file, comments allowed; `None` if there is none.
    pub(super) fn read_json(&self, path: &Path) -> Result<Option<(String, Value)>, UsageError> {
        let Some((shown, text)) = self.read_text(path)? else { return Ok(None) };
        if text.trim().is_empty() {
            return Ok(Some((shown, Value::Object(serde_json::Map::new()))));
        }
        let document = SettingsDocument::parse(&shown, text.as_bytes()).map_err(|problems| {
            let first = problems.first().map(ToString::to_string).unwrap_or_default();
            UsageError(format!("could not read the file, so nothing was imported: {first}"))
        })?;
        Ok(Some((shown, document.value().clone())))
    }

    /// A TOML file; `None` if there is none.
    pub(super) fn read_toml(&self, path: &Path) -> Result<Option<(String, Value)>, UsageError> {
        let Some((shown, text)) = self.read_text(path)? else { return Ok(None) };
        parse_toml(&shown, &text).map(|value| Some((shown, value)))
    }

    /// A text file; `None` if there is none.
    pub(super) fn read_text(&self, path: &Path) -> Result<Option<(String, String)>, UsageError> {
        let shown = self.show(path);
        self.looked_for.borrow_mut().push(shown.clone());
        let file = match path.strip_prefix(&self.root) {
            Ok(relative) if self.is_project() => {
                ConfigFile::Beneath { root: self.root.clone(), relative: relative.to_owned() }
            }
            _ => ConfigFile::Own(path.to_owned()),
        };
        let bytes = file.read(FILE_BYTES_MAX).map_err(|error| {
            let why = describe_read_error(&error);
            UsageError(format!("{shown} {why}; nothing was imported"))
        })?;
        let Some(bytes) = bytes else { return Ok(None) };
        let text = String::from_utf8(bytes).map_err(|_| {
            UsageError(format!("{shown} is not valid UTF-8 text; nothing was imported"))
        })?;
        self.found.borrow_mut().push(shown.clone());
        Ok(Some((shown, text)))
    }

    /// The files of a folder and its subfolders with an ending, sorted by name.
    pub(super) fn read_folder(
        &self,
        folder: &Path,
        ending: &str,
    ) -> Result<Vec<FolderFile>, UsageError> {
        let mut files = Vec::new();
        let mut folders = vec![(folder.to_owned(), String::new(), 1)];
        while let Some((path, prefix, depth)) = folders.pop() {
            let entries = path_survey::list_sorted(&path, FILES_MAX * DEPTH_MAX);
            for entry in entries.unwrap_or_default() {
                let Some(name) = entry.path.file_name().and_then(|name| name.to_str()) else {
                    continue;
                };
                if entry.is_folder && depth < DEPTH_MAX {
                    folders.push((entry.path.clone(), format!("{prefix}{name}/"), depth + 1));
                }
                let Some(stem) = name.strip_suffix(ending) else { continue };
                if entry.is_folder || (entry.is_link && self.is_project()) {
                    continue;
                }
                if files.len() >= FILES_MAX {
                    return Err(UsageError(format!(
                        "{} has more than {FILES_MAX} files; nothing was imported",
                        self.show(folder)
                    )));
                }
                if let Some((shown, text)) = self.read_text(&entry.path)? {
                    files.push(FolderFile { name: format!("{prefix}{stem}"), shown, text });
                }
            }
        }
        files.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(files)
    }

    /// Whether something is at a path.
    pub(super) fn exists(&self, path: &Path) -> bool {
        path_survey::exists(path)
    }

    /// A path below the home folder or the project.
    pub(super) fn path(&self, relative: &str) -> PathBuf {
        self.root.join(relative)
    }

    fn show(&self, path: &Path) -> String {
        match path.strip_prefix(&self.root) {
            Ok(relative) if self.is_project() => relative.display().to_string(),
            _ => display_path(path, self.app.config.home()),
        }
    }
}

/// Parses a TOML text. The error names the line and shows nothing of it: it may contain a secret.
pub(super) fn parse_toml(shown: &str, text: &str) -> Result<Value, UsageError> {
    toml::from_str(text).map_err(|error: toml::de::Error| {
        let at = error.span().map_or(0, |span| span.start);
        let line = text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1;
        let message = error.message();
        UsageError(format!(
            "could not read the file, so nothing was imported: {shown}:{line}: {message}"
        ))
    })
}
