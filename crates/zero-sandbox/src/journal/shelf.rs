//! Where records and earlier states lie: numbered files in zero's own folder.
//!
//! A change `N` is `N.json` (the record), `N.before` (the bytes that stood there), `N.undone` once
//! it was taken back, and `N.pending` while it is under way. `N.pending` is made first, which
//! claims the number, and removed last; what is still there after a crash shows where to clean up.

use std::io::{self, Read, Write};
use std::time::Duration;

use zero_core::{ByteSize, Reason, ToolError};

use super::record::{Record, sha256};
use crate::file_error;
use crate::locked_line::LockedLine;
use crate::state_dir::StateDir;

/// Changes kept per workspace.
const ENTRIES_MAX: usize = 1_000;
/// Bytes of earlier states kept per workspace.
const KEPT_BYTES_MAX: ByteSize = ByteSize::megabytes(500);
/// Changes, and bytes of earlier states, from one look at all there is to the next: it costs more the
/// more there is.
const TIDY_CLAIMS: usize = 32;
const TIDY_BYTES: ByteSize = ByteSize::megabytes(50);
/// Age at which a number that was claimed without a record is taken to be left over.
const CLAIM_AGE_MAX: Duration = Duration::from_secs(60);

/// Where records and earlier states lie.
#[derive(Clone, Debug)]
pub(super) struct Shelf {
    dir: StateDir,
}

impl Shelf {
    pub(super) fn new(dir: StateDir) -> Self {
        Self { dir }
    }

    /// Numbers of the recorded changes, oldest first.
    pub(super) fn ids(&self) -> Result<Vec<u64>, ToolError> {
        self.numbers(".json").map_err(|error| self.failed("list", &error))
    }

    /// Takes the next free number for a change of so many bytes, and drops what is too old or too much
    /// now and then. One process at a time: a number must not be taken between another's claim and
    /// its record.
    pub(super) fn claim(&self, before_bytes: u64) -> Result<u64, ToolError> {
        self.try_claim(before_bytes).map_err(|error| match error.kind() {
            io::ErrorKind::TimedOut => {
                ToolError::failed(Reason::Busy, "the journal is in use by somebody else; try again")
            }
            _ => self.failed("write", &error),
        })
    }

    fn try_claim(&self, before_bytes: u64) -> io::Result<u64> {
        let lock = LockedLine::open(&self.dir, "lock")?;
        let held = lock.lock()?;
        let line = held.read()?.unwrap_or_default();
        let count = match Count::read(&line).filter(|count| self.is_free(count.last + 1)) {
            Some(count) if count.is_small_with(before_bytes) => count,
            // Not known, or time to look at all there is.
            _ => Count { last: self.tidy()?, claims: 0, bytes: 0 },
        };
        let count = Count {
            last: count.last + 1,
            claims: count.claims + 1,
            bytes: count.bytes.saturating_add(before_bytes),
        };
        self.dir.create_new(&format!("{}.pending", count.last))?;
        held.write(count.line().as_bytes())?;
        Ok(count.last)
    }

    /// Whether nothing has this number. What is counted may be older than what was recorded, after a
    /// power cut.
    fn is_free(&self, id: u64) -> bool {
        [".pending", ".json"].iter().all(|suffix| self.dir.age(&format!("{id}{suffix}")).is_err())
    }

    /// Drops what is too old or too much, with room for what comes until the next look, and gives
    /// the highest number there is.
    fn tidy(&self) -> io::Result<u64> {
        // In this order: a change that settles in between has its record by the second look.
        let claimed = self.numbers(".pending")?;
        let ids = self.numbers(".json")?;
        let mut kept_bytes = 0;
        for (age, id) in ids.iter().rev().enumerate() {
            kept_bytes += self.dir.size(&format!("{id}.before")).unwrap_or(0);
            if age >= ENTRIES_MAX - TIDY_CLAIMS
                || kept_bytes > KEPT_BYTES_MAX.get() - TIDY_BYTES.get()
            {
                self.forget(*id);
            }
        }
        Ok(ids.last().max(claimed.last()).copied().unwrap_or(0))
    }

    /// Puts a record and the bytes that stood there safely on disk.
    pub(super) fn keep(&self, record: &Record, before: Option<&[u8]>) -> Result<(), ToolError> {
        self.try_keep(record, before).map_err(|error| {
            self.forget(record.id);
            self.failed("write", &error)
        })
    }

    fn try_keep(&self, record: &Record, before: Option<&[u8]>) -> io::Result<()> {
        let id = record.id;
        if let Some(bytes) = before {
            let mut blob = self.dir.create_new(&format!("{id}.before"))?;
            blob.write_all(bytes)?;
            blob.sync_all()?;
        }
        self.write_record(record)
    }

    fn write_record(&self, record: &Record) -> io::Result<()> {
        let id = record.id;
        let mut json = self.dir.create_new(&format!("{id}.tmp"))?;
        json.write_all(&serde_json::to_vec(record)?)?;
        json.sync_all()?;
        self.dir.rename(&format!("{id}.tmp"), &format!("{id}.json"))?;
        self.dir.sync()
    }

    /// Corrects a record of a change under way.
    pub(super) fn amend(&self, record: &Record) {
        // If this fails, it says what was meant, and whoever undoes it is told that something else
        // stands there.
        let _ = self.write_record(record);
    }

    /// The change is complete: nothing is left to clean up after a crash.
    pub(super) fn settle(&self, id: u64) {
        // If this fails, recovery finds nothing to remove; the change itself is safe.
        let _ = self.dir.remove(&format!("{id}.pending"));
    }

    /// Leaves no trace of a change.
    pub(super) fn forget(&self, id: u64) {
        for suffix in ["json", "tmp", "before", "undone", "pending"] {
            let _ = self.dir.remove(&format!("{id}.{suffix}"));
        }
    }

    /// Numbers claimed by changes that have not settled.
    pub(super) fn pending(&self) -> Result<Vec<u64>, ToolError> {
        self.numbers(".pending").map_err(|error| self.failed("list", &error))
    }

    /// Whether a change has not settled.
    pub(super) fn is_pending(&self, id: u64) -> bool {
        self.dir.age(&format!("{id}.pending")).is_ok()
    }

    /// Whether a number without a record was claimed long ago.
    pub(super) fn is_left_over(&self, id: u64) -> bool {
        self.dir.age(&format!("{id}.pending")).is_ok_and(|age| age > CLAIM_AGE_MAX)
    }

    /// One record.
    pub(super) fn record(&self, id: u64) -> Result<Record, ToolError> {
        let mut text = String::new();
        let file = self.dir.open(&format!("{id}.json"));
        match file.and_then(|mut file| file.read_to_string(&mut text)) {
            Ok(_) => serde_json::from_str(&text).map_err(|error| {
                ToolError::failed(
                    Reason::Io,
                    format!("change {id} in the journal is damaged: {error}"),
                )
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let message = format!("there is no change {id} in the journal");
                Err(ToolError::not_found(Reason::Io, message).with("id", id))
            }
            Err(error) => Err(self.failed("read", &error)),
        }
    }

    /// The bytes that stood there before change `id`, checked.
    pub(super) fn before(&self, id: u64, expected: &str) -> Result<Vec<u8>, ToolError> {
        let mut bytes = Vec::new();
        let file = self.dir.open(&format!("{id}.before"));
        file.and_then(|mut file| file.read_to_end(&mut bytes))
            .map_err(|error| self.failed("read", &error))?;
        if sha256(&bytes) != expected {
            let message =
                format!("what the journal kept for change {id} is damaged; nothing was restored");
            return Err(ToolError::failed(Reason::Io, message));
        }
        Ok(bytes)
    }

    pub(super) fn is_undone(&self, id: u64) -> bool {
        self.dir.age(&format!("{id}.undone")).is_ok()
    }

    /// Remembers that a change was undone, so that the next undo goes one further back. Undoing an
    /// undo brings the first change back to life.
    pub(super) fn mark_undone(&self, record: &Record) -> Result<(), ToolError> {
        let failed = |error: io::Error| self.failed("write", &error);
        if let Some(revived) = record.undoes {
            self.dir.remove(&format!("{revived}.undone")).map_err(failed)?;
        }
        match self.dir.create_new(&format!("{}.undone", record.id)) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(failed(error)),
            _ => Ok(()),
        }
    }

    fn numbers(&self, suffix: &str) -> io::Result<Vec<u64>> {
        let names = self.dir.names()?;
        let mut ids: Vec<u64> =
            names.iter().filter_map(|name| name.strip_suffix(suffix)?.parse().ok()).collect();
        ids.sort_unstable();
        Ok(ids)
    }

    fn failed(&self, verb: &str, source: &io::Error) -> ToolError {
        let path = self.dir.path().display().to_string();
        file_error::from_io(&format!("{verb} the journal in"), &path, source)
    }
}

/// What is kept in the file of the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Count {
    /// The number that was claimed last.
    last: u64,
    /// Claims since all was looked at, and what they keep.
    claims: usize,
    bytes: u64,
}

impl Count {
    /// Nothing for a line that is none, such as that of an older zero.
    fn read(line: &[u8]) -> Option<Self> {
        let line = std::str::from_utf8(line).ok()?.strip_suffix('\n')?;
        let mut words = line.split(' ');
        let mut next = || words.next()?.parse::<u64>().ok();
        let (last, claims, bytes) = (next()?, next()?, next()?);
        // The highest number there is has none after it.
        let is_last = last == u64::MAX || words.next().is_some();
        (!is_last).then_some(Self { last, claims: usize::try_from(claims).ok()?, bytes })
    }

    /// As a line that is always of the same length.
    fn line(self) -> String {
        format!("{:020} {:020} {:020}\n", self.last, self.claims, self.bytes)
    }

    fn is_small_with(self, before_bytes: u64) -> bool {
        self.claims < TIDY_CLAIMS && self.bytes.saturating_add(before_bytes) <= TIDY_BYTES.get()
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests set up real files")]
    use super::*;

    fn shelf() -> (tempfile::TempDir, Shelf) {
        let temp = tempfile::tempdir().unwrap();
        let shelf = Shelf::new(StateDir::new(temp.path().join("journal")));
        (temp, shelf)
    }

    /// A change that has settled, with so many bytes of an earlier state on disk.
    fn settled(shelf: &Shelf, bytes: u64) -> u64 {
        let id = shelf.claim(bytes).unwrap();
        shelf.dir.create_new(&format!("{id}.json")).unwrap();
        shelf.dir.create_new(&format!("{id}.before")).unwrap().set_len(bytes).unwrap();
        shelf.settle(id);
        id
    }

    #[test]
    fn a_line_is_read_as_it_was_written_and_nothing_else_is() {
        let count = Count { last: 7, claims: 3, bytes: 1_000 };
        assert_eq!(Count::read(count.line().as_bytes()), Some(count));
        for line in ["", "7 3 1000", "7 3\n", "7 3 1 0\n", "-1 0 0\n", "18446744073709551615 0 0\n"]
        {
            assert_eq!(Count::read(line.as_bytes()), None, "{line}");
        }
    }

    #[test]
    fn numbers_go_up_whatever_the_count_says() {
        let (_temp, shelf) = shelf();
        assert_eq!([settled(&shelf, 1), settled(&shelf, 1)], [1, 2]);
        let lock = shelf.dir.path().join("lock");
        // Lost, of an older zero, and older than what was recorded.
        for (line, expected) in [(String::new(), 3), ("x".to_owned(), 4)] {
            std::fs::write(&lock, line).unwrap();
            assert_eq!(settled(&shelf, 1), expected);
        }
        std::fs::write(&lock, Count { last: 1, claims: 1, bytes: 1 }.line()).unwrap();
        assert_eq!(settled(&shelf, 1), 5);
        // One that is under way counts, too.
        assert_eq!(shelf.claim(1).unwrap(), 6);
        std::fs::remove_file(&lock).unwrap();
        assert_eq!(settled(&shelf, 1), 7);
    }

    #[test]
    fn never_more_is_kept_than_there_is_room_for() {
        let (_temp, shelf) = shelf();
        for _ in 0..ENTRIES_MAX + 3 * TIDY_CLAIMS {
            settled(&shelf, 1);
            assert!(shelf.ids().unwrap().len() <= ENTRIES_MAX);
        }
        assert!(shelf.ids().unwrap().len() >= ENTRIES_MAX - TIDY_CLAIMS);
    }

    #[test]
    fn never_more_bytes_are_kept_than_there_is_room_for() {
        let (_temp, shelf) = shelf();
        let each = ByteSize::megabytes(30).get();
        for _ in 0..40 {
            settled(&shelf, each);
            let kept = shelf.ids().unwrap().len() as u64 * each;
            assert!(kept <= KEPT_BYTES_MAX.get(), "{kept}");
        }
        assert!(shelf.ids().unwrap().len() > 10);
    }
}
