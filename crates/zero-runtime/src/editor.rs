//! The buffers of an editor: text that a person sees and may not have saved.
//!
//! A session may bring one. Files of the workspace are then read and written through it, so that an
//! agent sees what the person sees, and they see what it does. It is asked only about what was
//! judged before, and what it does not have is read from disk.

use std::path::Path;

use crate::tool::BoxFuture;

/// Reads and writes text through an editor.
pub trait Editor: Send + Sync {
    /// The text of a file as the editor has it, unsaved changes included. `None` when it does not
    /// have the file, cannot say, or takes too long.
    fn read<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, Option<String>>;

    /// Writes a file through the editor, which may change it on the way.
    fn write<'a>(&'a self, path: &'a Path, text: &'a str) -> BoxFuture<'a, EditorWriteOutcome>;
}

/// What became of a text that an editor was given to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EditorWriteOutcome {
    /// It took it.
    Written,
    /// It cannot, or has nothing to do with the file: nothing was written, and the file on disk is.
    NotHandled,
    /// It could, and will not, or its person will not: nothing was written, and nothing is. Why, in
    /// its words.
    Refused(String),
}
