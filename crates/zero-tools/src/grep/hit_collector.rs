//! Collects the first hits in path order, in whatever order the threads find them
//! ([`HitCollector`]).
//!
//! Threads finish files in any order, but the result must not depend on it. So the collector keeps
//! the files that sort first and together fill the result, and drops a file once those before it
//! fill the result without it. From then on a file that sorts later is only counted, and
//! [`HitCollector::can_accept`] says so before it is searched.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes that a line costs in addition to its text, for the path and separators.
const LINE_OVERHEAD_BYTES: usize = 64;

/// Why a line is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HitLineRole {
    /// The line matched.
    Match,
    /// Context before a match.
    Before,
    /// Context after a match.
    After,
}

/// A line to show, or all lines of a match over several lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HitLine {
    /// Number of the first line, counted from 1.
    pub(super) number: u64,
    /// The text without the last line ending.
    pub(super) text: String,
    /// Why the line is shown.
    pub(super) role: HitLineRole,
}

/// The hits in one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FileHits {
    /// The lines to show.
    pub(super) lines: Vec<HitLine>,
    /// Number of matches in the file, shown or not.
    pub(super) matches: u64,
}

/// Sort key of a file: the index of its search root, then its path below it.
pub(super) type FileOrderKey<'a> = (usize, &'a Path);

/// The capacity of a result.
#[derive(Clone, Copy, Debug)]
pub(super) struct GrepBudget {
    /// Matching lines, or files if one line stands for a file.
    pub(super) entries: u64,
    /// Bytes of text.
    pub(super) bytes: usize,
}

/// The used part of a [`GrepBudget`].
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct GrepBudgetUsage {
    entries: u64,
    bytes: usize,
}

impl GrepBudgetUsage {
    /// Returns whether the result is full.
    pub(super) fn exhausts(self, budget: GrepBudget) -> bool {
        self.entries >= budget.entries || self.bytes >= budget.bytes
    }

    /// Counts a line of the file at `path`.
    pub(super) fn add(&mut self, path: &Path, line: &HitLine) {
        self.entries += u64::from(line.role == HitLineRole::Match);
        self.bytes += path.as_os_str().len() + line.text.len() + LINE_OVERHEAD_BYTES;
    }

    fn for_lines(path: &Path, lines: &[HitLine]) -> Self {
        let mut budget_usage = Self::default();
        lines.iter().for_each(|line| budget_usage.add(path, line));
        budget_usage
    }

    fn plus(self, other: Self) -> Self {
        Self { entries: self.entries + other.entries, bytes: self.bytes + other.bytes }
    }

    fn minus(self, other: Self) -> Self {
        Self { entries: self.entries - other.entries, bytes: self.bytes - other.bytes }
    }
}

/// Collects the first hits in path order.
pub(super) struct HitCollector {
    budget: GrepBudget,
    full: AtomicBool,
    files: Mutex<CollectedFiles>,
}

#[derive(Default)]
struct CollectedFiles {
    by_place: BTreeMap<(usize, PathBuf), (GrepBudgetUsage, FileHits)>,
    budget_usage: GrepBudgetUsage,
}

impl HitCollector {
    pub(super) fn new(budget: GrepBudget) -> Self {
        Self { budget, full: AtomicBool::new(false), files: Mutex::default() }
    }

    /// Returns the capacity of the whole result; no single file needs more.
    pub(super) fn budget(&self) -> GrepBudget {
        self.budget
    }

    /// Returns false if no hit of the file at `place` can be part of the result.
    pub(super) fn can_accept(&self, place: FileOrderKey<'_>) -> bool {
        if !self.full.load(Ordering::Relaxed) {
            return true;
        }
        let files = self.lock();
        files.by_place.last_key_value().is_none_or(|((base, path), _)| place < (*base, path))
    }

    /// Stores the hits of a file unless the files before it fill the result.
    pub(super) fn add(&self, place: FileOrderKey<'_>, hits: FileHits) {
        if !self.can_accept(place) {
            return;
        }
        let (base, path) = place;
        let size = GrepBudgetUsage::for_lines(path, &hits.lines);
        let mut files = self.lock();
        files.budget_usage = files.budget_usage.plus(size);
        files.by_place.insert((base, path.to_owned()), (size, hits));
        while let Some((_, (last, _))) = files.by_place.last_key_value() {
            let without = files.budget_usage.minus(*last);
            if !without.exhausts(self.budget) {
                break;
            }
            files.by_place.pop_last();
            files.budget_usage = without;
        }
        self.full.store(files.budget_usage.exhausts(self.budget), Ordering::Relaxed);
    }

    /// Returns the stored hits in order. The last file may exceed the capacity.
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
