//! Access to an editor's buffers, whose text may not be saved.
//!
//! A session may have an editor. Workspace files are then read and written through it, so that the
//! agent and the user see the same text. The editor is only asked about authorized files; a file
//! that it does not have open is read from disk.

use std::path::Path;

use crate::tool::BoxFuture;

/// Reads and writes text through an editor.
pub trait Editor: Send + Sync {
    /// The editor's text of a file, including unsaved changes. `None` if the file is not open, or
    /// the editor cannot answer in time.
    fn read<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, Option<String>>;

    /// Writes a file through the editor, which may modify the text.
    fn write<'a>(&'a self, path: &'a Path, text: &'a str) -> BoxFuture<'a, EditorWriteOutcome>;
}

/// The result of a write through an editor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EditorWriteOutcome {
    /// The editor took the text.
    Written,
    /// The editor does not handle the file; nothing was written, and zero writes it to disk.
    NotHandled,
    /// The editor or its user refused; nothing was written, and zero does not write it either. The
    /// editor's reason.
    Refused(String),
}
