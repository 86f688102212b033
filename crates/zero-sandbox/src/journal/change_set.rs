//! [`ChangeSet`]: everything that one command changed in a workspace, on disk.
//!
//! Set `N` is the folder `N.set` beside the numbered files of single changes. While the command
//! runs it contains `log`, one line of JSON per path, written before the command may touch the
//! path, and the images of files:
//!
//! - `K.inode` is a further hard link to a file: deleting or replacing the file costs no copy, and
//!   restoring it gives the same inode back, with its other links.
//! - `K.bytes` is a copy of its contents, made before the file is first opened for writing.
//! - `K.tree` is a file or a whole folder that an undo moved here.
//!
//! When the command has ended, `end` replaces the log: one line with the summary, one line per path
//! that differs, and the state of each path at that time. A set without `end` whose log no process
//! locks was left by a crash, and is finished by the next process. `undone` marks a set whose
//! images were used.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, BufWriter, Read as _, Seek as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use zero_core::ByteSize;
use zero_core::text_shortening::one_line;

use super::path_state::PathState;
use super::portable_path::PortablePath;
use crate::state_dir::StateDir;

pub(super) const LOG: &str = "log";
pub(super) const END: &str = "end";
const END_DRAFT: &str = "end.draft";
pub(super) const UNDONE: &str = "undone";

/// Most lines of a set that are read.
const LINES_MAX: usize = 4_000_000;
/// Longest line: a path in JSON, as numbers, twice.
const LINE_BYTES_MAX: u64 = 256 * 1024;
/// Most losses that are named, and the longest path of them.
pub(super) const LOSSES_MAX: usize = 20;
const PATH_CHARS_MAX: usize = 300;

/// How much is kept to undo commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetLimits {
    /// Most bytes on disk for all commands in a workspace.
    pub bytes_max: ByteSize,
    /// How long the changes of a command are kept.
    pub age_max: Option<Duration>,
}

impl SetLimits {
    /// No limits.
    pub const NONE: Self = Self { bytes_max: ByteSize::bytes(u64::MAX), age_max: None };
}

/// What made the changes of a set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetOrigin {
    /// The tool that ran the command.
    pub tool: String,
    /// The ID of the call.
    pub call: String,
    /// The ID by which the session knows the call; absent in sets of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller: Option<String>,
    /// The command as it is shown, without secrets.
    pub command: String,
    /// The number of the set that this one undoes.
    pub undoes: Option<u64>,
    /// Whether it ran beside the user, who may have changed the same files meanwhile: a background job,
    /// or a server between its calls.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_beside: bool,
}

/// The first line of a log.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct SetHeader {
    pub(super) time: String,
    pub(super) origin: SetOrigin,
    /// Tells later processes whether the command runs; absent in sets of earlier versions, and of undos.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) guard: Option<String>,
}

/// The state of a path before the command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "was", rename_all = "snake_case")]
pub(super) enum BeforeState {
    Absent,
    /// A file, pipe, socket or device with an image.
    File {
        image: u64,
        state: PathState,
        /// The inode, to find out whether the file is still the same.
        inode: (u64, u64),
    },
    Symlink {
        target: PortablePath,
    },
    Folder {
        mode: u32,
        /// Whether everything that was in it has a line: then anything else is new.
        is_complete: bool,
    },
    /// Moved here as a whole.
    Stored {
        image: u64,
        mode: u32,
        /// A digest of what was in it; `None` if not everything could be read.
        #[serde(default)]
        digest: Option<String>,
    },
}

/// A line of a log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum LogLine {
    /// The state of a path before it was touched. A file without a path was reached through a name
    /// that the command made.
    Before { path: Option<PortablePath>, before: BeforeState },
    /// Everything in this folder has a line now.
    Complete { path: PortablePath },
    /// A change that cannot be undone, and why.
    Loss { text: String },
    /// The command continues beside the user.
    Beside,
}

/// The totals of a set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetSummary {
    /// Files, links and folders that the command made.
    pub created: u64,
    /// Those that it changed.
    pub changed: u64,
    /// Those that it removed.
    pub removed: u64,
    /// Bytes in files that it made, changed or removed.
    pub bytes: u64,
    /// Bytes on disk that are held for the undo.
    pub held_bytes: u64,
    /// Whether zero died while the command ran.
    pub is_interrupted: bool,
    /// What cannot be undone, and why.
    pub losses: Vec<String>,
    /// Why the set is removed with the next one, if so.
    #[serde(skip)]
    pub excess: Option<String>,
}

impl SetSummary {
    /// Number of files, links and folders that differ.
    pub fn files(&self) -> u64 {
        self.created + self.changed + self.removed
    }

    /// The totals in a few words.
    pub fn describe(&self) -> String {
        let parts =
            [(self.created, "created"), (self.changed, "changed"), (self.removed, "removed")];
        let parts = parts.iter().filter(|(count, _)| *count > 0);
        let parts: Vec<String> = parts.map(|(count, what)| format!("{count} {what}")).collect();
        format!("{} ({})", parts.join(", "), ByteSize::bytes(self.bytes))
    }
}

/// The first line of `end`.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct EndHeader {
    header: SetHeader,
    summary: SetSummary,
}

/// A path that differs, or one below a new folder.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct SetItem {
    /// `None` for a file that was reached through a name that the command made.
    pub(super) path: Option<PortablePath>,
    /// `None` below a folder that the command made.
    pub(super) before: Option<BeforeState>,
    /// The state when the command had ended.
    pub(super) after: PathState,
    /// Where the file was when the command had ended, if the command moved it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) moved_to: Option<PortablePath>,
    /// For the index of a git repository, a digest of what it staged when the command had ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) staged: Option<String>,
}

impl SetItem {
    /// Whether the path differs. A folder that does not is stored because its mode keeps its owner from
    /// changing what is in it.
    pub(super) fn is_change(&self) -> bool {
        !matches!(
            (&self.before, &self.after),
            (Some(BeforeState::Folder { mode, .. }), PathState::Folder { mode: now }) if mode == now
        )
    }
}

/// A set that is complete.
#[derive(Debug)]
pub(super) struct ChangeSet {
    pub(super) header: SetHeader,
    pub(super) summary: SetSummary,
    pub(super) items: Vec<SetItem>,
}

impl ChangeSet {
    pub(super) fn read(dir: &StateDir) -> io::Result<Self> {
        let mut lines = JsonLineReader::new(dir.open(END)?);
        let EndHeader { header, summary } = lines.next()?.ok_or(io::ErrorKind::UnexpectedEof)?;
        let mut items = Vec::new();
        while let Some(item) = lines.next()? {
            items.push(item);
        }
        Ok(Self { header, summary, items })
    }

    /// Reads only the first line.
    pub(super) fn read_summary(dir: &StateDir) -> io::Result<(SetHeader, SetSummary)> {
        let mut lines = JsonLineReader::new(dir.open(END)?);
        let EndHeader { header, summary } = lines.next()?.ok_or(io::ErrorKind::UnexpectedEof)?;
        Ok((header, summary))
    }

    /// Stores the set, in one step.
    pub(super) fn write(&self, dir: &StateDir) -> io::Result<()> {
        dir.remove(END_DRAFT)?;
        let mut file = BufWriter::new(dir.create_new(END_DRAFT)?);
        let end = EndHeader { header: self.header.clone(), summary: self.summary.clone() };
        write_line(&mut file, &end)?;
        for item in &self.items {
            write_line(&mut file, item)?;
        }
        drop(file.into_inner().map_err(io::IntoInnerError::into_error)?);
        dir.rename(END_DRAFT, END)?;
        dir.remove(LOG)
    }

    /// The items that have a path, with their state before.
    pub(super) fn paths(&self) -> impl Iterator<Item = (PathBuf, &SetItem)> {
        self.items.iter().filter_map(|item| Some((item.path.as_ref()?.to_path(), item)))
    }
}

/// Reads the log of a set that was left by a crash. A line that is cut off was not acted on.
pub(super) fn read_log(dir: &StateDir) -> io::Result<(SetHeader, Vec<LogLine>)> {
    let mut lines = JsonLineReader::new(dir.open(LOG)?);
    let header = lines.next()?.ok_or(io::ErrorKind::UnexpectedEof)?;
    let mut log = Vec::new();
    while let Ok(Some(line)) = lines.next() {
        log.push(line);
    }
    Ok((header, log))
}

/// Lets `log` be continued behind its last complete line.
pub(super) fn continue_log(dir: &StateDir, mut log: &File) -> io::Result<()> {
    let mut bytes = Vec::new();
    dir.open(LOG)?.read_to_end(&mut bytes)?;
    let complete = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    log.set_len(complete as u64)?;
    log.seek(io::SeekFrom::End(0)).map(drop)
}

pub(super) fn write_line(file: &mut impl io::Write, line: &impl Serialize) -> io::Result<()> {
    let mut text = serde_json::to_vec(line)?;
    text.push(b'\n');
    file.write_all(&text)
}

/// The name of a file of an image.
pub(super) fn image_name(image: u64, kind: &str) -> String {
    format!("{image}.{kind}")
}

/// Reads lines of JSON, with bounds.
struct JsonLineReader {
    file: BufReader<File>,
    line: Vec<u8>,
    count: usize,
}

impl JsonLineReader {
    fn new(file: File) -> Self {
        Self { file: BufReader::new(file), line: Vec::new(), count: 0 }
    }

    fn next<T: serde::de::DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        self.line.clear();
        self.count += 1;
        (&mut self.file).take(LINE_BYTES_MAX).read_until(b'\n', &mut self.line)?;
        if self.line.is_empty() {
            return Ok(None);
        }
        if self.count > LINES_MAX || !self.line.ends_with(b"\n") {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok(Some(serde_json::from_slice(&self.line)?))
    }
}

/// A path that cannot be undone, and why. That of a very deep folder would be thousands of
/// characters, so it is shortened.
pub(super) fn describe_loss(path: &Path, error: &dyn std::fmt::Display) -> String {
    format!("`{}`: {error}", one_line(&path.to_string_lossy(), PATH_CHARS_MAX))
}

/// The path as it is stored.
pub(super) fn portable(path: &Path) -> PortablePath {
    path.into()
}
