//! Notes that persist between sessions, each a Markdown file.
//!
//! Project notes are in `.zero/memory` of the workspace, where they can be shared and only the note
//! tool can write, since `.zero` is protected. The user's notes are beside their settings, which no
//! tool can open. Files may come with a checkout, so they are treated as untrusted: regular files
//! with valid names, no links, bounded size and number. The user can edit them with any program.

mod note;
mod note_seal;

use std::io::Read as _;
use std::path::{Path, PathBuf};

use zero_core::text_shortening::incomplete_char_len;
use zero_core::{ByteSize, ErrorReason, ErrorType, NoteChange, PathZone, TargetPath, ToolError};
use zero_sandbox::{
    ChangeOrigin, FileChange, FileSnapshot, FileType, FinalLinkMode, FolderHandle, Journal,
    ResolvedPath, StateDir, Workspace,
};

pub use self::note::{InvalidNoteName, NAME_CHARS_MAX, Note, NoteName, NoteProvenance};
use self::note_seal::NoteSeal;
use crate::name_suggestions::suggest_names;

/// Most notes of one scope.
pub const NOTES_MAX: usize = 200;
/// Longest text of a note, in bytes.
pub const TEXT_BYTES_MAX: usize = 8 * 1024;
/// Most bytes of a file that are read.
const FILE_BYTES_MAX: usize = TEXT_BYTES_MAX + 2 * 1024;
/// Most entries of the folder that are read.
const ENTRIES_MAX: usize = 2_000;
const PROJECT_FOLDER: &str = ".zero/memory";
const OWN_FOLDER: &str = "memory";
const EXTENSION: &str = ".md";

/// The owner of notes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NoteScope {
    /// The workspace.
    Project,
    /// The user, in all workspaces.
    User,
}

impl NoteScope {
    /// Both scopes, the more specific first.
    pub const ALL: [Self; 2] = [Self::Project, Self::User];

    /// The word in files and inputs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Project => "project",
            Self::User => "user",
        }
    }

    /// The change of a note as policy sees it, from a workspace at `root`.
    pub fn note_change(self, name: &NoteName, forgets: bool, root: &Path) -> NoteChange {
        let file = (self == Self::Project).then(|| {
            let written = format!("{PROJECT_FOLDER}/{}", file_name(name));
            let path = root.join(&written);
            TargetPath::new(written, path, PathZone::Workspace)
        });
        NoteChange { scope: self.as_str().to_owned(), name: name.to_string(), forgets, file }
    }
}

/// The locations of notes. A host shares one among its tools.
#[derive(Clone, Debug)]
pub struct NoteStoreSet {
    own: Option<PathBuf>,
    state: StateDir,
}

impl NoteStoreSet {
    /// The user's notes are in the folder `own` of their settings, if there is one; earlier
    /// versions of notes are in `state`.
    pub fn new(own: Option<PathBuf>, state: StateDir) -> Self {
        Self { own, state }
    }

    /// The notes of a scope, from a workspace; `None` if there is no folder for them yet.
    pub fn open_store(
        &self,
        scope: NoteScope,
        workspace: &Workspace,
    ) -> Result<Option<NoteStore>, ToolError> {
        let root = match (scope, &self.own) {
            (NoteScope::Project, _) => workspace.cwd(),
            (NoteScope::User, Some(own)) => own,
            (NoteScope::User, None) => return Ok(None),
        };
        match self.open_at(scope, root) {
            Err(error) if error.error_type == ErrorType::NotFound => Ok(None),
            opened => opened.map(Some),
        }
    }

    /// Like `open_store`, but creates the folder of the user's settings if necessary.
    pub fn open_or_create_store(
        &self,
        scope: NoteScope,
        workspace: &Workspace,
    ) -> Result<NoteStore, ToolError> {
        match (scope, &self.own) {
            (NoteScope::Project, _) => self.open_at(scope, workspace.cwd()),
            (NoteScope::User, Some(own)) => {
                StateDir::new(own).create().map_err(|error| {
                    let message = format!("could not create your settings folder: {error}");
                    ToolError::failed(ErrorReason::Io, message)
                })?;
                self.open_at(scope, own)
            }
            (NoteScope::User, None) => {
                let message = "there is no folder for your own notes; use scope `project`";
                Err(ToolError::not_found(ErrorReason::Io, message))
            }
        }
    }

    /// All notes of one scope or of both, the project's first, and the number of omitted ones.
    /// Calls `may_read` for each file. If one scope cannot be read, the other is still listed,
    /// unless the failing one was requested.
    pub fn list_notes(
        &self,
        scope: Option<NoteScope>,
        workspace: &Workspace,
        may_read: &dyn Fn(NoteScope, &Path) -> bool,
    ) -> Result<(Vec<Note>, usize), ToolError> {
        let (mut notes, mut more) = (Vec::new(), 0);
        for one in NoteScope::ALL.into_iter().filter(|one| scope.is_none_or(|scope| scope == *one))
        {
            let found = self.open_store(one, workspace).and_then(|note_store| match note_store {
                Some(store) => store.list_notes(&|path| may_read(one, path)),
                None => Ok((Vec::new(), 0)),
            });
            match found {
                Ok((found, left)) => {
                    notes.extend(found);
                    more += left;
                }
                Err(error) if scope.is_some() => return Err(error),
                Err(error) => tracing::warn!(scope = one.as_str(), %error, "cannot read notes"),
            }
        }
        Ok((notes, more))
    }

    /// The note with this name, the project's first. `list_hint` tells the reader of the error how to
    /// list the names.
    pub fn find(
        &self,
        scope: Option<NoteScope>,
        name: &NoteName,
        workspace: &Workspace,
        may_read: &dyn Fn(NoteScope, &Path) -> bool,
        list_hint: &str,
    ) -> Result<Note, ToolError> {
        let (notes, _) = self.list_notes(scope, workspace, may_read)?;
        let names = notes.iter().map(|note| note.name.as_str());
        let similar = suggest_names(name.as_str(), names, 1).pop();
        notes.into_iter().find(|note| note.name == *name).ok_or_else(|| {
            let hint = match similar {
                Some(similar) => format!("did you mean `{similar}`?"),
                None => list_hint.to_owned(),
            };
            let message = format!("there is no note `{name}`; {hint}");
            ToolError::not_found(ErrorReason::NoMatch, message)
        })
    }

    fn open_at(&self, scope: NoteScope, root: &Path) -> Result<NoteStore, ToolError> {
        let workspace = Workspace::open(&[root.to_owned()], None)?;
        let folder = match scope {
            NoteScope::Project => PROJECT_FOLDER,
            NoteScope::User => OWN_FOLDER,
        };
        let bytes_max = ByteSize::bytes(FILE_BYTES_MAX as u64);
        let journal = Journal::new(&self.state, workspace.clone(), bytes_max);
        Ok(NoteStore { scope, workspace, folder, journal, state: self.state.clone() })
    }
}

/// The notes of one scope.
#[derive(Debug)]
pub struct NoteStore {
    scope: NoteScope,
    workspace: Workspace,
    folder: &'static str,
    journal: Journal,
    state: StateDir,
}

impl NoteStore {
    /// All readable notes by name, and the number of omitted ones. Calls `may_read` with the path
    /// of each file.
    pub fn list_notes(
        &self,
        may_read: &dyn Fn(&Path) -> bool,
    ) -> Result<(Vec<Note>, usize), ToolError> {
        let Some(folder) = self.open_folder()? else { return Ok((Vec::new(), 0)) };
        let mut names: Vec<NoteName> = Vec::new();
        for entry in folder.entries()?.into_iter().take(ENTRIES_MAX) {
            let name = entry.name.to_str().and_then(|name| name.strip_suffix(EXTENSION));
            names.extend(name.and_then(|name| NoteName::new(name).ok()));
        }
        names.sort();
        let more = names.len().saturating_sub(NOTES_MAX);
        let seal = NoteSeal::load(&self.state, &self.folder_path());
        let readable = |name: NoteName| {
            let path = folder.path().join(file_name(&name));
            let note = may_read(&path).then(|| self.read_note(&folder, name, seal.as_ref()))?;
            note.ok().flatten()
        };
        Ok((names.into_iter().take(NOTES_MAX).filter_map(readable).collect(), more))
    }

    /// Stores a note and replaces one of the same name. Returns whether there was one.
    pub fn put(
        &self,
        note: &Note,
        signed: &ChangeOrigin,
        still_wanted: impl Fn() -> Result<(), ToolError>,
    ) -> Result<bool, ToolError> {
        let located = self.locate(&note.name)?;
        let is_new = located.facts()?.is_none();
        if is_new && self.list_notes(&|_| true)?.0.len() >= NOTES_MAX {
            let message = format!("the limit of {NOTES_MAX} notes is reached; forget some first");
            return Err(ToolError::failed(ErrorReason::ResourceExhausted, message));
        }
        let seal = NoteSeal::load_or_create(&self.state, &self.folder_path()).map_err(|error| {
            let message = format!("could not store the origin of the note: {error}");
            ToolError::failed(ErrorReason::Io, message)
        })?;
        let bytes = note.to_file_text(&seal).into_bytes();
        let applied =
            self.journal.change(&located, signed, still_wanted, |before| match before {
                FileSnapshot::Symlink { .. } => Err(link_error(located.display_path())),
                FileSnapshot::Absent | FileSnapshot::File { .. } => Ok(FileChange::Replace(bytes)),
            })?;
        Ok(applied.before != FileSnapshot::Absent)
    }

    /// Removes a note. Returns whether there was one.
    pub fn forget(
        &self,
        name: &NoteName,
        signed: &ChangeOrigin,
        still_wanted: impl Fn() -> Result<(), ToolError>,
    ) -> Result<bool, ToolError> {
        let located = self.locate(name)?;
        if located.facts()?.is_none() {
            return Ok(false);
        }
        self.journal.change(&located, signed, still_wanted, |_| Ok(FileChange::Remove))?;
        Ok(true)
    }

    /// The path of a note.
    pub fn note_path(&self, name: &NoteName) -> PathBuf {
        self.folder_path().join(file_name(name))
    }

    fn folder_path(&self) -> PathBuf {
        self.workspace.cwd().join(self.folder)
    }

    /// The path of a note; fails if a link on the way leads elsewhere.
    fn locate(&self, name: &NoteName) -> Result<ResolvedPath, ToolError> {
        let path = self.note_path(name);
        let located = self.workspace.resolve_path(&path, FinalLinkMode::Keep)?;
        match located.path() == path {
            true => Ok(located),
            false => Err(link_error(&path.display().to_string())),
        }
    }

    fn open_folder(&self) -> Result<Option<FolderHandle>, ToolError> {
        let path = self.folder_path();
        let located = self.workspace.resolve_path(&path, FinalLinkMode::Keep)?;
        if located.path() != path {
            return Err(link_error(&path.display().to_string()));
        }
        match located.facts()? {
            None => Ok(None),
            Some(facts) if facts.file_type == FileType::Symlink => {
                Err(link_error(&path.display().to_string()))
            }
            Some(_) => located.open_folder().map(Some),
        }
    }

    fn read_note(
        &self,
        folder: &FolderHandle,
        name: NoteName,
        seal: Option<&NoteSeal>,
    ) -> Result<Option<Note>, ToolError> {
        let file_name = file_name(&name);
        let Some(file) = folder.open_beneath(Path::new(&file_name)) else { return Ok(None) };
        let mut bytes = Vec::new();
        let read = file.take(FILE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes);
        read.map_err(|error| {
            let message = format!("could not read the note `{name}`: {error}");
            ToolError::failed(ErrorReason::Io, message)
        })?;
        let is_cut = bytes.len() > FILE_BYTES_MAX;
        bytes.truncate(FILE_BYTES_MAX);
        if is_cut {
            bytes.truncate(bytes.len() - incomplete_char_len(&bytes));
        }
        let mut text = String::from_utf8_lossy(&bytes).into_owned();
        if is_cut {
            text.push_str(&format!("\n[truncated after {FILE_BYTES_MAX} bytes]"));
        }
        Ok(Some(Note::parse(self.scope, name, &text, seal)))
    }
}

fn file_name(name: &NoteName) -> String {
    format!("{name}{EXTENSION}")
}

fn link_error(shown: &str) -> ToolError {
    let message = format!(
        "`{shown}` is a link or inside one; notes must be in regular folders and files: remove the link"
    );
    ToolError::invalid(ErrorReason::BadPath, message).with_detail("file", shown)
}

#[cfg(test)]
mod tests;
