//! The first hits in path order, base by base, whatever order the threads find them in.
//!
//! Threads finish files in any order, but an answer must not depend on it. So this keeps, of all
//! files with hits so far, the ones that sort first and fill the answer, and lets go of a file
//! once those before it fill the answer without it. From then on a file that sorts later can only
//! be counted, and [`HitCollector::can_accept`] says so before it is searched.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What a kept line costs beyond its text: names and marks around it.
const LINE_OVERHEAD_BYTES: usize = 64;

/// Why a line is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HitLineRole {
    /// It matched.
    Match,
    /// It stands before a match.
    Before,
    /// It stands after a match.
    After,
}

/// A line to show; for a match over several lines, all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HitLine {
    /// Number of the first line, counted from 1.
    pub(super) number: u64,
    /// The text without the last line's ending.
    pub(super) text: String,
    /// Why it is shown.
    pub(super) role: HitLineRole,
}

/// What was found in one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FileHits {
    /// The lines to show.
    pub(super) lines: Vec<HitLine>,
    /// How often the file matched, whether shown or not.
    pub(super) matches: u64,
}

/// Where a file stands in the answer: which of the bases it lies in, then its path below.
pub(super) type FileOrderKey<'a> = (usize, &'a Path);

/// How much an answer holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct GrepBudget {
    /// Matching lines, or files where one line stands for a file.
    pub(super) entries: u64,
    /// Bytes of text.
    pub(super) bytes: usize,
}

/// How much of an answer is taken.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct GrepBudgetUsage {
    entries: u64,
    bytes: usize,
}

impl GrepBudgetUsage {
    /// True when nothing more belongs into the answer.
    pub(super) fn exhausts(self, room: GrepBudget) -> bool {
        self.entries >= room.entries || self.bytes >= room.bytes
    }

    /// Counts a line of the file at `path`.
    pub(super) fn add(&mut self, path: &Path, line: &HitLine) {
        self.entries += u64::from(line.role == HitLineRole::Match);
        self.bytes += path.as_os_str().len() + line.text.len() + LINE_OVERHEAD_BYTES;
    }

    fn for_lines(path: &Path, lines: &[HitLine]) -> Self {
        let mut taken = Self::default();
        lines.iter().for_each(|line| taken.add(path, line));
        taken
    }

    fn plus(self, other: Self) -> Self {
        Self { entries: self.entries + other.entries, bytes: self.bytes + other.bytes }
    }

    fn minus(self, other: Self) -> Self {
        Self { entries: self.entries - other.entries, bytes: self.bytes - other.bytes }
    }
}

/// The first hits in path order.
pub(super) struct HitCollector {
    room: GrepBudget,
    full: AtomicBool,
    files: Mutex<CollectedFiles>,
}

#[derive(Default)]
struct CollectedFiles {
    by_place: BTreeMap<(usize, PathBuf), (GrepBudgetUsage, FileHits)>,
    taken: GrepBudgetUsage,
}

impl HitCollector {
    pub(super) fn new(room: GrepBudget) -> Self {
        Self { room, full: AtomicBool::new(false), files: Mutex::default() }
    }

    /// How much the whole answer holds; no single file needs more.
    pub(super) fn budget(&self) -> GrepBudget {
        self.room
    }

    /// False once nothing of a file at `place` can be part of the answer.
    pub(super) fn can_accept(&self, place: FileOrderKey<'_>) -> bool {
        if !self.full.load(Ordering::Relaxed) {
            return true;
        }
        let files = self.lock();
        files.by_place.last_key_value().is_none_or(|((base, path), _)| place < (*base, path))
    }

    /// Keeps the hits of a file as long as nothing before it fills the answer.
    pub(super) fn add(&self, place: FileOrderKey<'_>, hits: FileHits) {
        if !self.can_accept(place) {
            return;
        }
        let (base, path) = place;
        let size = GrepBudgetUsage::for_lines(path, &hits.lines);
        let mut files = self.lock();
        files.taken = files.taken.plus(size);
        files.by_place.insert((base, path.to_owned()), (size, hits));
        while let Some((_, (last, _))) = files.by_place.last_key_value() {
            let without = files.taken.minus(*last);
            if !without.exhausts(self.room) {
                break;
            }
            files.by_place.pop_last();
            files.taken = without;
        }
        self.full.store(files.taken.exhausts(self.room), Ordering::Relaxed);
    }

    /// What is kept, in order. The last file may hold more than there is room for.
    pub(super) fn into_files(self) -> impl Iterator<Item = ((usize, PathBuf), FileHits)> {
        let files = self.files.into_inner().unwrap_or_else(PoisonError::into_inner);
        files.by_place.into_iter().map(|(place, (_, hits))| (place, hits))
    }

    fn lock(&self) -> MutexGuard<'_, CollectedFiles> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample_hits(count: u64) -> FileHits {
        let line = |number| HitLine { number, text: "x".to_owned(), role: HitLineRole::Match };
        FileHits { lines: (1..=count).map(line).collect(), matches: count }
    }

    #[track_caller]
    fn check(room: GrepBudget, added: &[(&str, u64)], expected: &[&str]) {
        let kept = HitCollector::new(room);
        for (path, count) in added {
            kept.add((0, Path::new(path)), sample_hits(*count));
        }
        let paths: Vec<PathBuf> = kept.into_files().map(|((_, path), _)| path).collect();
        assert_eq!(paths, expected.iter().map(PathBuf::from).collect::<Vec<_>>(), "{added:?}");
    }

    #[test]
    fn first_files_are_kept_in_any_arrival_order() {
        let room = GrepBudget { entries: 3, bytes: usize::MAX };
        check(room, &[("a", 1), ("b", 1), ("c", 1), ("d", 1)], &["a", "b", "c"]);
        check(room, &[("d", 1), ("c", 1), ("b", 1), ("a", 1)], &["a", "b", "c"]);
        check(room, &[("d", 9), ("a", 2), ("b", 9), ("c", 9)], &["a", "b"]);
        check(room, &[("z", 3), ("a", 3)], &["a"]);
        check(GrepBudget { entries: 9, bytes: 100 }, &[("b", 1), ("c", 1), ("a", 1)], &["a", "b"]);
    }

    #[test]
    fn later_file_is_refused_when_full() {
        let kept = HitCollector::new(GrepBudget { entries: 2, bytes: usize::MAX });
        kept.add((1, Path::new("m")), sample_hits(1));
        assert!(kept.can_accept((1, Path::new("z"))));
        kept.add((1, Path::new("n")), sample_hits(1));
        for (base, path, wanted) in
            [(1, "a", true), (1, "m/x", true), (1, "z", false), (0, "z", true), (2, "a", false)]
        {
            assert_eq!(kept.can_accept((base, Path::new(path))), wanted, "{base} {path}");
        }
    }
}
