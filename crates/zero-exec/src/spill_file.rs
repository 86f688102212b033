//! A file for the output of one command that is too long for a result.
//!
//! Most commands write little, and their result holds all of it: no file is created for them.

use std::fs::File;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use zero_sandbox::output_collector::OutputSpill;

use crate::spill_folder::SpillFolder;
use crate::spill_quota;

/// Bytes that are buffered before the file is created.
const HELD_BYTES_MAX: usize = 8 * 1024;

/// A file for output that is too long for a result.
pub(super) struct SpillFile {
    folder: Arc<SpillFolder>,
    name: String,
    path: String,
    bytes_max: u64,
    state: Arc<Mutex<SpillState>>,
}

/// Whether the file exists.
enum SpillState {
    /// Not created yet; these bytes belong in it.
    Buffered(Vec<u8>),
    /// Created, with room for so many more bytes.
    Created { file: File, room: u64 },
    /// It could not be created, and why. The command runs anyway.
    Failed(io::ErrorKind, String),
}

impl SpillFile {
    pub(super) fn new(folder: &Arc<SpillFolder>, name: String, bytes_max: u64) -> Self {
        let folder = Arc::clone(folder);
        let path = folder.path().join(&name).display().to_string();
        let state = Arc::new(Mutex::new(SpillState::Buffered(Vec::new())));
        Self { folder, name, path, bytes_max, state }
    }

    /// The writer that fills it.
    pub(super) fn writer(&self) -> OutputSpill {
        let writer = SpillWriter {
            folder: Arc::clone(&self.folder),
            name: self.name.clone(),
            state: Arc::clone(&self.state),
        };
        OutputSpill { file: Box::new(writer), bytes_max: self.bytes_max }
    }

    /// Creates the file with all output so far, and returns its path.
    pub(super) fn create(&self) -> io::Result<String> {
        lock(&self.state).create(&self.folder, &self.name)?;
        Ok(self.path.clone())
    }

    /// Like [`SpillFile::create`], but a failure is only logged.
    pub(super) fn create_if_possible(&self) -> Option<String> {
        let made = self.create();
        made.inspect_err(|error| tracing::warn!(%error, "cannot store the output of a command"))
            .ok()
    }

    /// Keeps the file if output was omitted from the result, and returns its path.
    pub(super) fn finish(self, omitted_bytes: u64) -> io::Result<Option<String>> {
        if omitted_bytes > 0 {
            return self.create().map(Some);
        }
        if matches!(*lock(&self.state), SpillState::Created { .. }) {
            let _ = self.folder.remove(&self.name);
        }
        Ok(None)
    }
}

impl SpillState {
    /// Creates the file if necessary and writes the buffered bytes to it. Returns it and how many
    /// more bytes it may have.
    fn create(&mut self, folder: &SpillFolder, name: &str) -> io::Result<(&mut File, &mut u64)> {
        if let Self::Buffered(held) = self {
            let made = folder.create_bounded(name).and_then(|(mut file, room)| {
                let written = file.write_all(held);
                let room = room.saturating_sub(held.len() as u64);
                // An incomplete file is useless; remove it.
                written.inspect_err(|_| drop(folder.remove(name))).map(|()| (file, room))
            });
            *self = match made {
                Ok((file, room)) => Self::Created { file, room },
                Err(error) => Self::Failed(error.kind(), error.to_string()),
            };
        }
        match self {
            Self::Created { file, room } => Ok((file, room)),
            Self::Failed(kind, why) => Err(io::Error::new(*kind, why.clone())),
            Self::Buffered(_) => Err(io::Error::other("it was not created")),
        }
    }
}

/// Writes to the file, and creates it when enough bytes are buffered.
struct SpillWriter {
    folder: Arc<SpillFolder>,
    name: String,
    state: Arc<Mutex<SpillState>>,
}

impl Write for SpillWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut state = lock(&self.state);
        if let SpillState::Buffered(held) = &mut *state
            && held.len() + bytes.len() <= HELD_BYTES_MAX
        {
            held.extend_from_slice(bytes);
            return Ok(bytes.len());
        }
        let (file, room) = state.create(&self.folder, &self.name)?;
        let fitting = usize::try_from(*room).unwrap_or(usize::MAX).min(bytes.len());
        if fitting == 0 && !bytes.is_empty() {
            return Err(spill_quota::full_error());
        }
        let written = file.write(&bytes[..fitting])?;
        *room = room.saturating_sub(written as u64);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn lock(state: &Mutex<SpillState>) -> MutexGuard<'_, SpillState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "the test looks at real files")]
    use zero_sandbox::StateDir;

    use super::*;

    fn new_spill_file() -> (tempfile::TempDir, SpillFile) {
        let temp = tempfile::tempdir().unwrap();
        let spill = SpillFile {
            folder: SpillFolder::new_permanent(StateDir::new(temp.path().join("spill"))).into(),
            name: "x".to_owned(),
            path: temp.path().join("spill/x").display().to_string(),
            bytes_max: 1 << 20,
            state: Arc::new(Mutex::new(SpillState::Buffered(Vec::new()))),
        };
        (temp, spill)
    }

    #[test]
    fn small_output_creates_no_file_until_requested() {
        let (_temp, spill) = new_spill_file();
        let mut writer = spill.writer().file;
        writer.write_all(b"little").unwrap();
        assert!(!std::path::Path::new(&spill.path).exists());
        let path = spill.create().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"little");
        writer.write_all(b" more").unwrap();
        assert_eq!(spill.finish(1).unwrap(), Some(path.clone()));
        assert_eq!(std::fs::read(&path).unwrap(), b"little more");
    }

    #[test]
    fn large_output_file_is_removed_when_nothing_omitted() {
        let (_temp, spill) = new_spill_file();
        let mut writer = spill.writer().file;
        let piece = vec![b'x'; 3_000];
        for _ in 0..4 {
            writer.write_all(&piece).unwrap();
        }
        assert_eq!(std::fs::read(&spill.path).unwrap().len(), 12_000);
        let path = spill.path.clone();
        assert_eq!(spill.finish(0).unwrap(), None);
        assert!(!std::path::Path::new(&path).exists());
    }

    #[test]
    fn output_beyond_quota_is_not_stored() {
        use crate::spill_quota::SpillQuota;
        let temp = tempfile::tempdir().unwrap();
        let folder = SpillFolder::new_permanent(StateDir::new(temp.path().join("spill")));
        let quota = SpillQuota::default().with_session_bytes(10_000);
        let folder = Arc::new(folder.with_quota(quota));
        let spill = SpillFile::new(&folder, "x".to_owned(), 1 << 20);
        let mut writer = spill.writer().file;
        writer.write_all(&vec![b'x'; 9_000]).unwrap();
        let error = writer.write_all(&vec![b'x'; 9_000]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::QuotaExceeded);
        let path = spill.finish(1).unwrap().unwrap();
        assert_eq!(std::fs::read(path).unwrap().len(), 10_000);
        let next = SpillFile::new(&folder, "y".to_owned(), 1 << 20);
        assert_eq!(next.create().unwrap_err().kind(), io::ErrorKind::QuotaExceeded);
    }

    #[test]
    fn create_failure_returns_same_error_each_time() {
        let (temp, spill) = new_spill_file();
        std::fs::write(temp.path().join("spill"), "in the way").unwrap();
        let mut writer = spill.writer().file;
        writer.write_all(b"little").unwrap();
        assert!(writer.write_all(&vec![b'x'; HELD_BYTES_MAX]).is_err());
        let why = writer.write_all(b"x").unwrap_err().kind();
        assert_eq!(why, io::ErrorKind::NotADirectory);
        assert_eq!(spill.finish(1).unwrap_err().kind(), why);
    }
}
