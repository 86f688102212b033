//! Files as the user sees them: the editor's text if the file is open there, otherwise the text on
//! disk.
//!
//! This is the only place that asks an editor. It asks only about authorized workspace files, by
//! canonical path, that are UTF-8 text of bounded size. An editor opens files by name, so the path
//! is checked for changes before and after. Each answer has a time limit, and an editor that did
//! not answer is not asked for a while, so every call ends.

use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use zero_core::{Effect, ErrorReason, ErrorType, ToolError};
use zero_sandbox::journal::ExternalWriter;
use zero_sandbox::{
    FileChange, FileFacts, FileSnapshot, FinalLinkMode, ResolvedPath, WriteOutcome,
};

use crate::call_context::CallContext;
use crate::editor::{Editor, EditorWriteOutcome};
use crate::seen_files::SeenFiles;

/// Largest file that an editor is asked about, in bytes.
pub const BUFFER_BYTES_MAX: usize = 8_000_000;
/// How long an editor may take to return its text.
const READ_MAX: Duration = Duration::from_secs(10);
/// How long an editor may take to write, including formatting.
const WRITE_MAX: Duration = Duration::from_secs(10);
/// How long an editor that did not answer is not asked.
const SILENCE_PAUSE: Duration = Duration::from_secs(60);
/// The byte order mark of some UTF-8 files; editors do not return it.
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// The editor of a session.
pub(crate) struct EditorBuffers {
    editor: Arc<dyn Editor>,
    /// When it may be asked again, after it did not answer.
    silent_until: Mutex<Option<Instant>>,
}

impl EditorBuffers {
    pub(crate) fn new(editor: Arc<dyn Editor>) -> Self {
        Self { editor, silent_until: Mutex::default() }
    }

    fn is_responsive(&self) -> bool {
        let until = self.silent_until.lock().unwrap_or_else(PoisonError::into_inner);
        until.is_none_or(|until| Instant::now() >= until)
    }

    fn mark_silent(&self) {
        tracing::debug!("the editor did not answer and is not asked for a while");
        let mut until = self.silent_until.lock().unwrap_or_else(PoisonError::into_inner);
        *until = Some(Instant::now() + SILENCE_PAUSE);
    }
}

/// The editor's version of a file.
#[derive(Clone, Debug)]
pub(crate) struct EditorBuffer {
    /// The bytes as they would be on disk.
    bytes: Vec<u8>,
    endings: LineEndings,
}

/// The line endings in the editor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LineEndings {
    /// The same as on disk.
    AsOnDisk,
    /// LF, although the file has CRLF on disk: the editor adds CR when it saves.
    Bare,
}

/// How new bytes are written to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WriteTarget {
    Disk,
    Editor(LineEndings),
}

/// A file before and after a change, whether or not an editor has saved it.
#[derive(Debug)]
pub struct TextChange {
    /// The text before the change, as the user saw it.
    pub before: FileSnapshot,
    /// The text after the change, on disk or in an editor that has not saved it.
    pub bytes: Vec<u8>,
    /// Facts about the file on disk; `None` if it does not exist.
    pub facts: Option<FileFacts>,
    /// How the change was written.
    pub landed: WriteOutcome,
}

impl TextChange {
    /// Records in the session that it has seen the file in this state.
    pub fn record_seen(&self, path: &Path, seen: &SeenFiles) {
        match (self.facts, &self.landed) {
            (None, _) => {}
            (Some(facts), WriteOutcome::Pending) => seen.record_unsaved(path, facts, &self.bytes),
            (Some(facts), _) => seen.record(path, facts, Some(&self.bytes)),
        }
    }
}

impl CallContext {
    /// Whether a file may have other text than on disk.
    pub fn has_editor(&self) -> bool {
        self.buffers().is_some()
    }

    /// The editor's whole text of a file, if it differs from the disk. Blocks; call it from
    /// [`CallContext::run_blocking`].
    pub fn unsaved_bytes(&self, path: &Path, on_disk: &[u8]) -> Option<Vec<u8>> {
        let buffer = self.read_buffer(path, on_disk)?;
        (buffer.bytes != on_disk).then_some(buffer.bytes)
    }

    /// The state of a path as the user sees it. Blocks, except in a preview.
    pub fn snapshot(&self, file: &ResolvedPath) -> Result<FileSnapshot, ToolError> {
        let on_disk = self.journal().read(file)?;
        Ok(self.visible_snapshot(file.path(), on_disk).0)
    }

    /// Changes the text of a file, through the editor if there is one. `decide` gets the text that
    /// the user sees and returns the new one, with a value for the caller. Blocks.
    ///
    /// The text on disk is in the journal before anything changes. If the editor does not take the
    /// change in time, the file is written to disk; if it refuses, the change fails.
    pub fn change_text<T>(
        &self,
        file: &ResolvedPath,
        decide: impl FnOnce(&FileSnapshot) -> Result<(Vec<u8>, T), ToolError>,
    ) -> Result<(TextChange, T), ToolError> {
        let target = Cell::new(WriteTarget::Disk);
        let decided = RefCell::new(None);
        let write = |bytes: &[u8]| self.write_through_editor(target.get(), file, bytes);
        let applied = self.journal().change_with_writer(
            self.can_ask_editor(file.path()).then_some(&write as ExternalWriter<'_>),
            file,
            &self.change_note(),
            || self.check_cancelled(),
            |on_disk| {
                self.refuse_unsaved_new(file, on_disk)?;
                let (before, found) = self.visible_snapshot(file.path(), on_disk.clone());
                target.set(found);
                let (bytes, made) = decide(&before)?;
                decided.replace(Some((before, bytes.clone(), made)));
                Ok(FileChange::Replace(bytes))
            },
        )?;
        let (before, requested, made) = decided.into_inner().ok_or_else(|| {
            let path = file.display_path();
            let what = format!("`{path}` was not changed; read it and try again");
            ToolError::failed(ErrorReason::Io, what)
        })?;
        let bytes = match &applied.landed {
            WriteOutcome::AsRequested => requested,
            WriteOutcome::Altered(bytes) => bytes.clone(),
            WriteOutcome::Pending => {
                let buffer = self.read_buffer(file.path(), &requested);
                buffer.map_or(requested, |buffer| buffer.bytes)
            }
        };
        let change = TextChange { before, bytes, facts: applied.after, landed: applied.landed };
        Ok((change, made))
    }

    /// Asks the editor for the files whose changes the user is about to see, because the preview
    /// itself cannot wait. Only after the call was authorized and not denied.
    pub(crate) async fn prefetch_buffers(&self, effects: &[Effect]) {
        if !self.has_editor() {
            return;
        }
        let written = effects.iter().filter_map(|effect| match effect {
            Effect::Write(target) => Some(target.canonical().to_owned()),
            _ => None,
        });
        let paths: Vec<PathBuf> = written.collect();
        let buffer = |cx: &Self, path: PathBuf| {
            let file = cx.workspace().resolve_path(&path, FinalLinkMode::Keep).ok()?;
            let Ok(FileSnapshot::File { bytes, .. }) = cx.journal().read(&file) else {
                return None;
            };
            Some((path.clone(), cx.read_buffer(&path, &bytes)?))
        };
        let found = self.run_blocking(move |cx| {
            Ok(paths.into_iter().filter_map(|path| buffer(cx, path)).collect())
        });
        let _ = self.prefetched_buffers().set(found.await.unwrap_or_default());
    }

    /// Whether the editor may be asked about a canonical path.
    fn can_ask_editor(&self, path: &Path) -> bool {
        self.buffers().is_some_and(|buffers| buffers.is_responsive())
            && self.workspace().roots().any(|root| path.starts_with(root))
            && self.may_read(path, path)
    }

    /// The editor's version of a file.
    fn read_buffer(&self, path: &Path, on_disk: &[u8]) -> Option<EditorBuffer> {
        if let Some(foreseen) = self.prefetched_buffers().get() {
            return foreseen.get(path).cloned();
        }
        if !is_plain_text(on_disk) || !self.can_ask_editor(path) {
            return None;
        }
        let text = self.ask_editor(path)?;
        let is_bare = is_all_crlf(on_disk) && text.contains('\n') && !text.contains('\r');
        let (text, endings) = match is_bare {
            true => (text.replace('\n', "\r\n"), LineEndings::Bare),
            false => (text, LineEndings::AsOnDisk),
        };
        let bytes = text.into_bytes();
        // A saved text that differs from the disk: a command changed the file, and the editor has
        // not reloaded it.
        let is_outdated = bytes != on_disk
            && self.seen_files().is_some_and(|seen| seen.was_seen_on_disk(path, &bytes));
        (is_plain_text(&bytes) && !is_outdated).then_some(EditorBuffer { bytes, endings })
    }

    /// The state of a path as the user sees it, and how it is changed.
    fn visible_snapshot(&self, path: &Path, on_disk: FileSnapshot) -> (FileSnapshot, WriteTarget) {
        match on_disk {
            FileSnapshot::File { bytes, facts, attributes } => match self.read_buffer(path, &bytes)
            {
                Some(EditorBuffer { bytes, endings }) => {
                    (FileSnapshot::File { bytes, facts, attributes }, WriteTarget::Editor(endings))
                }
                None => {
                    let is_text = is_plain_text(&bytes);
                    let way = if is_text {
                        WriteTarget::Editor(LineEndings::AsOnDisk)
                    } else {
                        WriteTarget::Disk
                    };
                    (FileSnapshot::File { bytes, facts, attributes }, way)
                }
            },
            FileSnapshot::Absent => {
                (FileSnapshot::Absent, WriteTarget::Editor(LineEndings::AsOnDisk))
            }
            link @ FileSnapshot::Symlink { .. } => (link, WriteTarget::Disk),
        }
    }

    /// Refuses to create a file for which the editor has text that was never saved: the model has
    /// not read it.
    fn refuse_unsaved_new(
        &self,
        file: &ResolvedPath,
        on_disk: &FileSnapshot,
    ) -> Result<(), ToolError> {
        let is_new = *on_disk == FileSnapshot::Absent && self.can_ask_editor(file.path());
        if !is_new || self.ask_editor(file.path()).is_none_or(|text| text.is_empty()) {
            return Ok(());
        }
        let shown = file.display_path();
        let message = format!(
            "`{shown}` is open in the editor with text that was never saved; ask the user to save it, and read it before you change it"
        );
        Err(ToolError::invalid(ErrorReason::StaleFile, message).with_detail("file", shown))
    }

    /// Whether a canonical path still resolves to itself. An editor opens it by name and without a
    /// sandbox: a folder that became a link would lead it elsewhere.
    fn is_path_unchanged(&self, path: &Path) -> bool {
        let found = self.workspace().resolve_path(path, FinalLinkMode::Follow);
        found.is_ok_and(|found| found.path() == path)
    }

    /// The editor's text, if it answers in time and before the call is stopped, and if the path did
    /// not change meanwhile.
    fn ask_editor(&self, path: &Path) -> Option<String> {
        let buffers = self.buffers()?;
        let runtime = tokio::runtime::Handle::try_current().ok()?;
        if !self.is_path_unchanged(path) {
            return None;
        }
        let text = runtime.block_on(async {
            tokio::select! {
                biased;
                answer = tokio::time::timeout(READ_MAX, buffers.editor.read(path)) => {
                    answer.unwrap_or_else(|_| {
                        buffers.mark_silent();
                        None
                    })
                }
                () = self.cancelled() => None,
            }
        });
        text.filter(|_| self.is_path_unchanged(path))
    }

    /// Writes through the editor. Returns true if the editor reports success.
    fn write_through_editor(
        &self,
        way: WriteTarget,
        file: &ResolvedPath,
        bytes: &[u8],
    ) -> Result<bool, ToolError> {
        let path = file.path();
        let (WriteTarget::Editor(endings), Some(buffers)) = (way, self.buffers()) else {
            return Ok(false);
        };
        if !is_plain_text(bytes) || !buffers.is_responsive() || !self.is_path_unchanged(path) {
            return Ok(false);
        }
        let (Ok(text), Ok(runtime)) =
            (std::str::from_utf8(bytes), tokio::runtime::Handle::try_current())
        else {
            return Ok(false);
        };
        let text = match endings {
            LineEndings::AsOnDisk => text.to_owned(),
            LineEndings::Bare => text.replace("\r\n", "\n"),
        };
        // From here on the write cannot be undone: a call that is stopped now still reports the
        // result.
        let writing =
            async { tokio::time::timeout(WRITE_MAX, buffers.editor.write(path, &text)).await };
        let written = runtime.block_on(writing).unwrap_or_else(|_| {
            buffers.mark_silent();
            EditorWriteOutcome::NotHandled
        });
        match written {
            // If the path changed, the editor wrote another file; then zero writes the intended one
            // to disk.
            EditorWriteOutcome::Written => Ok(self.is_path_unchanged(path)),
            EditorWriteOutcome::NotHandled => Ok(false),
            EditorWriteOutcome::Refused(why) => {
                Err(editor_refusal_error(file.display_path(), &why))
            }
        }
    }
}

fn editor_refusal_error(shown: &str, why: &str) -> ToolError {
    let message = format!(
        "the editor refused to write `{shown}`: {why}; the file is unchanged. Do not write it another way: ask the user, who can allow it in the editor"
    );
    ToolError::new(ErrorType::PermissionDenied, ErrorReason::Rejected, message)
        .with_detail("file", shown)
}

/// Whether these bytes are the same text in an editor and on disk.
fn is_plain_text(bytes: &[u8]) -> bool {
    bytes.len() <= BUFFER_BYTES_MAX
        && !bytes.starts_with(BYTE_ORDER_MARK)
        && !bytes.contains(&0)
        && std::str::from_utf8(bytes).is_ok()
}

/// Whether every line ends with CRLF.
fn is_all_crlf(bytes: &[u8]) -> bool {
    let mut ends = 0;
    let mut previous = 0;
    for byte in bytes {
        match (previous, *byte) {
            (b'\r', b'\n') => ends += 1,
            (_, b'\n') => return false,
            _ => {}
        }
        previous = *byte;
    }
    ends > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn editor_is_asked_about_plain_text_only() {
        for (bytes, expected) in [
            (&b""[..], true),
            ("plain é".as_bytes(), true),
            (b"\xEF\xBB\xBFmarked", false),
            (b"caf\xE9", false),
            (b"a\0b", false),
            (&vec![b'a'; BUFFER_BYTES_MAX + 1], false),
        ] {
            assert_eq!(is_plain_text(bytes), expected, "{:?}", bytes.get(..8));
        }
    }

    #[test]
    fn crlf_detection_considers_every_line() {
        for (bytes, expected) in
            [(&b"a\r\nb\r\n"[..], true), (b"a\r\nb", true), (b"a\r\nb\n", false), (b"a", false)]
        {
            assert_eq!(is_all_crlf(bytes), expected, "{bytes:?}");
        }
    }
}
