//! What is remembered from one session to the next: notes, each a Markdown file.
//!
//! Those of a project lie in `.zero/memory` of the workspace, where they can be shared and no tool
//! but the one for notes writes, since `.zero` is protected. Those of the person lie beside their
//! settings, which no tool opens at all. Files may come with a checkout, so they are read as what
//! others wrote: ordinary files under names of our own form, no link at any step, of bounded size
//! and number. A person edits them with whatever they like.

mod note;
mod note_seal;

use std::io::Read as _;
use std::path::{Path, PathBuf};

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
/// Most entries of the folder that are looked at.
const ENTRIES_MAX: usize = 2_000;
const PROJECT_FOLDER: &str = ".zero/memory";
const OWN_FOLDER: &str = "memory";
const EXTENSION: &str = ".md";

/// Whose notes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NoteScope {
    /// Those of the workspace.
    Project,
    /// Those of the person, for all their work.
    User,
}

impl NoteScope {
    /// Both, the nearest first.
    pub const ALL: [Self; 2] = [Self::Project, Self::User];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Project => "project",
            Self::User => "user",
        }
    }

    /// What becomes of a note of it, for whoever judges it, seen from a workspace at `root`.
    pub fn note_change(self, name: &NoteName, forgets: bool, root: &Path) -> NoteChange {
        let file = (self == Self::Project).then(|| {
            let written = format!("{PROJECT_FOLDER}/{}", file_name(name));
            let path = root.join(&written);
            TargetPath::new(written, path, PathZone::Workspace)
        });
        NoteChange { scope: self.as_str().to_owned(), name: name.to_string(), forgets, file }
    }
}

/// Where notes are kept. A host keeps one for its tools.
#[derive(Clone, Debug)]
pub struct NoteStoreSet {
    own: Option<PathBuf>,
    state: StateDir,
}

impl NoteStoreSet {
    /// The person's notes lie in the folder `own` of their settings, if there is one; how notes were
    /// before they changed lies in `state`.
    pub fn new(own: Option<PathBuf>, state: StateDir) -> Self {
        Self { own, state }
    }

    /// The notes of a scope, seen from a workspace; `None` where there is no folder for them yet.
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

    /// The same, where the folder of the person's settings is made if there is none.
    pub fn open_or_create_store(
        &self,
        scope: NoteScope,
        workspace: &Workspace,
    ) -> Result<NoteStore, ToolError> {
        match (scope, &self.own) {
            (NoteScope::Project, _) => self.open_at(scope, workspace.cwd()),
            (NoteScope::User, Some(own)) => {
                StateDir::new(own).create().map_err(|error| {
                    let message = format!("the folder of your settings cannot be made: {error}");
                    ToolError::failed(ErrorReason::Io, message)
                })?;
                self.open_at(scope, own)
            }
            (NoteScope::User, None) => {
                let message = "there is no folder for notes of the person; use scope `project`";
                Err(ToolError::not_found(ErrorReason::Io, message))
            }
        }
    }

    /// All notes of one scope or of both, those of the project first, and how many more there are.
    /// `may_read` is asked about each file. Where one scope cannot be read the other still is, unless
    /// it was asked for.
    pub fn list_notes(
        &self,
        scope: Option<NoteScope>,
        workspace: &Workspace,
        may_read: &dyn Fn(NoteScope, &Path) -> bool,
    ) -> Result<(Vec<Note>, usize), ToolError> {
        let (mut notes, mut more) = (Vec::new(), 0);
        for one in NoteScope::ALL.into_iter().filter(|one| scope.is_none_or(|scope| scope == *one))
        {
            let found = self.open_store(one, workspace).and_then(|shelf| match shelf {
                Some(shelf) => shelf.list_notes(&|path| may_read(one, path)),
                None => Ok((Vec::new(), 0)),
            });
            match found {
                Ok((found, left)) => {
                    notes.extend(found);
                    more += left;
                }
                Err(error) if scope.is_some() => return Err(error),
                Err(error) => tracing::warn!(scope = one.as_str(), %error, "notes cannot be read"),
            }
        }
        Ok((notes, more))
    }

    /// The note of a name, that of the project first.
    pub fn find(
        &self,
        scope: Option<NoteScope>,
        name: &NoteName,
        workspace: &Workspace,
        may_read: &dyn Fn(NoteScope, &Path) -> bool,
    ) -> Result<Note, ToolError> {
        let (notes, _) = self.list_notes(scope, workspace, may_read)?;
        let names = notes.iter().map(|note| note.name.as_str());
        let near = suggest_names(name.as_str(), names, 1).pop();
        notes.into_iter().find(|note| note.name == *name).ok_or_else(|| {
            let hint = match near {
                Some(near) => format!("did you mean `{near}`?"),
                None => "list them to see which there are".to_owned(),
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
    /// All notes that may be read, by name, and how many more there are. `may_read` is asked about
    /// each file by its path.
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

    /// Keeps a note, in the place of one of the same name. Says whether there was one.
    pub fn put(
        &self,
        note: &Note,
        signed: &ChangeOrigin,
        still_wanted: impl Fn() -> Result<(), ToolError>,
    ) -> Result<bool, ToolError> {
        let located = self.locate(&note.name)?;
        let is_new = located.facts()?.is_none();
        if is_new && self.list_notes(&|_| true)?.0.len() >= NOTES_MAX {
            let message = format!("there are {NOTES_MAX} notes already; forget some of them first");
            return Err(ToolError::failed(ErrorReason::ResourceExhausted, message));
        }
        let seal = NoteSeal::load_or_create(&self.state, &self.folder_path()).map_err(|error| {
            let message = format!("where the note comes from cannot be kept: {error}");
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

    /// Takes a note away. Says whether there was one.
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

    /// Where a note lies.
    pub fn note_path(&self, name: &NoteName) -> PathBuf {
        self.folder_path().join(file_name(name))
    }

    fn folder_path(&self) -> PathBuf {
        self.workspace.cwd().join(self.folder)
    }

    /// Where a note would lie, provided that no link on the way leads elsewhere.
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
            let message = format!("the note `{name}` cannot be read: {error}");
            ToolError::failed(ErrorReason::Io, message)
        })?;
        let is_cut = bytes.len() > FILE_BYTES_MAX;
        bytes.truncate(FILE_BYTES_MAX);
        let mut text = String::from_utf8_lossy(&bytes).into_owned();
        if is_cut {
            text.push_str(&format!("\n[cut here: only the first {FILE_BYTES_MAX} bytes are read]"));
        }
        Ok(Some(Note::parse(self.scope, name, &text, seal)))
    }
}

fn file_name(name: &NoteName) -> String {
    format!("{name}{EXTENSION}")
}

fn link_error(shown: &str) -> ToolError {
    let message = format!(
        "`{shown}` is a link or lies behind one; notes are kept in ordinary folders and files only: remove the link"
    );
    ToolError::invalid(ErrorReason::BadPath, message).with_detail("file", shown)
}

#[cfg(test)]
mod tests;
