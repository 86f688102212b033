//! `zero memory edit`: edits a note in the user's editor.
//!
//! The editor gets a private copy of the text, not the note file. Saving goes through the same path as
//! every change of a note, with its limits, journal and provenance. If the text cannot be saved, the
//! copy is kept, so that no work is lost.

use std::io::{Read as _, Write as _};

use anyhow::Context as _;
use zero_core::{ErrorReason, ToolError, sanitize};
use zero_runtime::notes::{Note, NoteName, TEXT_BYTES_MAX};
use zero_sandbox::{StateDir, terminal_program};

use super::{MemoryCommandContext, change_note, is_valid_text, text_bounds_message};
use crate::exit::UsageError;
use crate::terminal::escape_line;

/// Folder for the copies, in the state folder.
const EDIT_FOLDER: &str = "editing";

impl MemoryCommandContext<'_> {
    pub(super) fn edit(&self, name: &NoteName) -> anyhow::Result<()> {
        let editor = self.editor_command(name)?;
        let note = self.find_note(name)?;
        let copy = NoteTempFile::create(&note, &self.app.config.state_dir()?)
            .context("could not create a copy to edit")?;
        let status = terminal_program::edit(&editor, &copy.path())
            .with_context(|| format!("could not start {}", sanitize::to_quoted_line(&editor)))?;
        if !status.success() {
            let message = format!("{} ended with {status}", sanitize::to_quoted_line(&editor));
            // The user may have saved changes before the editor failed.
            if copy.read_text().as_ref() != Ok(&note.text) {
                return Err(copy.into_error_with_copy(&message).into());
            }
            copy.remove();
            let message = format!("{message}; nothing changed");
            return Err(ToolError::failed(ErrorReason::Io, message).into());
        }
        let text = match copy.read_text() {
            Ok(text) => text,
            Err(why) => return Err(copy.into_error_with_copy(&why).into()),
        };
        if text == note.text {
            copy.remove();
            return self.print_change("no change in", &note);
        }
        let provenance = note.provenance.clone().with_user_edit();
        let edited = Note { text, provenance, ..note.clone() };
        if let Err(error) = self.store_edited(&note, &edited) {
            return Err(copy.into_error_with_copy(&error.message).into());
        }
        copy.remove();
        self.print_change("edited", &edited)
    }

    /// Stores the new text, unless the note changed since the editor was started.
    fn store_edited(&self, before: &Note, edited: &Note) -> Result<(), ToolError> {
        let note_store = self.memories.open_or_create_store(edited.scope, &self.workspace)?;
        let still_the_same = || {
            let all = |_, _: &std::path::Path| true;
            let scope = Some(before.scope);
            let now = self.memories.find(scope, &before.name, &self.workspace, &all, "");
            match now {
                Ok(now) if now == *before => Ok(()),
                _ => {
                    let message = format!("the note `{}` was changed in the meantime", before.name);
                    Err(ToolError::failed(ErrorReason::StaleFile, message))
                }
            }
        };
        note_store.put(edited, &change_note(), still_the_same).map(|_| ())
    }

    /// Editor command from `VISUAL` or `EDITOR`. There is no default editor.
    fn editor_command(&self, name: &NoteName) -> Result<String, UsageError> {
        let terminal = &self.app.terminal;
        let instead = format!("replace the note with `zero memory add --name {name} TEXT`");
        if !(terminal.is_stdin_terminal() && terminal.out.is_terminal()) {
            let message = format!("an editor needs a terminal; {instead}");
            return Err(UsageError(message));
        }
        let set = |variable| {
            let value = self.app.config.variable(variable).map(str::trim);
            value.filter(|value| !value.is_empty()).map(str::to_owned)
        };
        set("VISUAL").or_else(|| set("EDITOR")).ok_or_else(|| {
            let how = format!("set VISUAL or EDITOR, as in `EDITOR=nano zero memory edit {name}`");
            UsageError(format!("no editor is set; {how}, or {instead}"))
        })
    }
}

/// Copy of a note's text in a file that only the user can read.
struct NoteTempFile {
    folder: StateDir,
    file: String,
}

impl NoteTempFile {
    fn create(note: &Note, state: &StateDir) -> std::io::Result<Self> {
        let unique = format!("{:016x}", fastrand::u64(..));
        let folder = state.child(EDIT_FOLDER).child(&unique);
        folder.create()?;
        let copy = Self { folder, file: format!("{}.md", note.name) };
        let mut file = copy.folder.create_new(&copy.file)?;
        file.write_all(format!("{}\n", note.text).as_bytes())?;
        Ok(copy)
    }

    fn path(&self) -> std::path::PathBuf {
        self.folder.path().join(&self.file)
    }

    /// Reads the edited text and validates it.
    fn read_text(&self) -> Result<String, String> {
        let unreadable = |error: std::io::Error| format!("could not read the edited text: {error}");
        let file = self.folder.open(&self.file).map_err(unreadable)?;
        let mut bytes = Vec::new();
        let most = TEXT_BYTES_MAX as u64 * 2;
        file.take(most).read_to_end(&mut bytes).map_err(unreadable)?;
        let text = String::from_utf8(bytes)
            .map_err(|_| "the edited text is not valid UTF-8".to_owned())?;
        let text = text.trim().to_owned();
        match is_valid_text(&text) {
            true => Ok(text),
            false if text.is_empty() => Err(format!(
                "{}; to delete a note, run `zero memory forget`",
                text_bounds_message()
            )),
            false => Err(text_bounds_message()),
        }
    }

    fn remove(self) {
        // A leftover copy is harmless.
        let _ = self.folder.remove_all();
    }

    /// Keeps the copy and returns an error with its path.
    fn into_error_with_copy(self, why: &str) -> ToolError {
        let path = self.path().display().to_string();
        let message = format!("{why}; nothing changed, your text is in {}", escape_line(&path));
        ToolError::invalid(ErrorReason::SchemaViolation, message)
    }
}
