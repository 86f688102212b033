//! Walks the files below a folder with several threads ([`FileWalk`]).
//!
//! It skips what `rg` skips: files excluded by `.gitignore`, `.ignore` and similar files, in this
//! folder and those above, hidden files, links, and always `.git`. In addition it skips entries
//! that the policy denies to be read. The walk goes by name, so a concurrent rename may show it
//! other names. A visitor opens files through the [`FolderHandle`], where no rename or link can
//! lead it outside.

pub(crate) mod denied_entries;
pub(crate) mod ignore_files;
pub(crate) mod search_roots;

use std::ffi::OsStr;
use std::num::NonZero;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use ignore::types::Types;
use ignore::{DirEntry, WalkBuilder, WalkState};
use zero_core::{CallProgress, ToolError};
use zero_runtime::CallContext;
use zero_sandbox::FolderHandle;

use crate::path_glob_set::PathGlobSet;
use denied_entries::{DeniedEntries, ReadFilter};
use ignore_files::SkippedFolders;

/// Most threads of one walk. More would only wait for each other.
const THREADS_MAX: usize = 12;

/// Entries that a thread visits between two checks for cancellation.
const ENTRIES_PER_CANCEL_CHECK: u64 = 32;
/// Entries that a thread visits between two progress reports.
const ENTRIES_PER_PROGRESS: u64 = 10_000;

/// Processes the files that one thread of a walk finds.
pub(crate) trait FileVisitor: Send {
    /// Called for each regular file, with its path below the base.
    fn visit_file(&mut self, relative: &Path);
}

/// Decides by the path below the base whether to enter a folder or visit a file.
pub(crate) type WalkEntryFilter = Box<dyn Fn(&Path, WalkEntryKind) -> bool + Send + Sync>;

/// The kind of entry that a [`WalkEntryFilter`] decides about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WalkEntryKind {
    /// A folder.
    Folder,
    /// Anything else.
    File,
}

/// The options of a walk.
#[derive(Default)]
pub(crate) struct FileWalk {
    /// Whether to include hidden entries.
    pub(crate) hidden: bool,
    /// Only files of these types.
    pub(crate) types: Option<Types>,
    /// Largest number of components below the base.
    pub(crate) depth_max: Option<usize>,
    /// Filter for folders and files.
    pub(crate) enter: Option<WalkEntryFilter>,
    /// A folder below the base to skip, because it is walked separately.
    pub(crate) without: Option<PathBuf>,
}

/// The result of a walk.
pub(crate) struct WalkResult<V> {
    /// The visitors, with what they collected.
    pub(crate) visitors: Vec<V>,
    /// Folders that were not entered because of unreadable ignore files.
    pub(crate) left_out: SkippedFolders,
    /// Entries that may not be read.
    pub(crate) denied: DeniedEntries,
}

impl FileWalk {
    /// Creates a walk of only those folders that can contain a match.
    pub(crate) fn for_pattern(pattern: &PathGlobSet) -> Self {
        let common = pattern.common_folder();
        Self {
            hidden: pattern.matches_hidden(),
            depth_max: pattern.depth_max(),
            enter: (!common.as_os_str().is_empty()).then(|| {
                Box::new(move |path: &Path, entry| {
                    entry == WalkEntryKind::File
                        || path.starts_with(&common)
                        || common.starts_with(path)
                }) as _
            }),
            ..Self::default()
        }
    }

    /// Passes each file below `base`, which the caller wrote as `written`, to one of several
    /// visitors, and returns the visitors.
    pub(crate) fn run<V: FileVisitor>(
        self,
        base: &FolderHandle,
        written: &str,
        cx: &CallContext,
        visitor: impl Fn() -> V,
    ) -> Result<WalkResult<V>, ToolError> {
        if let Some(file) = ignore_files::find_unreadable_from(base) {
            let mut left_out = SkippedFolders::default();
            left_out.add(base.path().join(file));
            return Ok(WalkResult { visitors: vec![], left_out, denied: DeniedEntries::default() });
        }
        let below = BasePrefix::new(base.path());
        let left_out = Arc::new(Mutex::new(SkippedFolders::default()));
        let reads = ReadFilter::new(written, base.path(), cx).map(Arc::new);
        let walk = self.builder(base, Arc::clone(&left_out), reads.clone());
        let finished = Mutex::new(Vec::new());
        walk.build_parallel().run(|| {
            let mut hand = VisitorReturnGuard { visitor: Some(visitor()), finished: &finished };
            let mut visited = 0_u64;
            Box::new(move |entry| {
                visited += 1;
                // The check takes a lock that all threads share.
                if visited.is_multiple_of(ENTRIES_PER_CANCEL_CHECK) && cx.is_cancelled() {
                    return WalkState::Quit;
                }
                if visited.is_multiple_of(ENTRIES_PER_PROGRESS) {
                    let message = format!("still searching, more than {visited} entries so far");
                    cx.report_progress(CallProgress::new(message));
                }
                // An entry that cannot be examined is skipped, like one that does not exist.
                let Ok(entry) = entry else { return WalkState::Continue };
                if entry.file_type().is_some_and(|kind| kind.is_file())
                    && let Some(visitor) = &mut hand.visitor
                {
                    visitor.visit_file(below.strip(entry.path()));
                }
                WalkState::Continue
            })
        });
        cx.check_cancelled()?;
        let left_out =
            std::mem::take(&mut *left_out.lock().unwrap_or_else(PoisonError::into_inner));
        let visitors = finished.into_inner().unwrap_or_else(PoisonError::into_inner);
        let denied = reads.map_or_else(DeniedEntries::default, |reads| reads.take_denied());
        Ok(WalkResult { visitors, left_out, denied })
    }

    /// Configures the walker of the `ignore` crate. Folders that it does not enter are recorded in
    /// `left_out`, and entries that may not be read in `reads`.
    fn builder(
        self,
        base: &FolderHandle,
        left_out: Arc<Mutex<SkippedFolders>>,
        reads: Option<Arc<ReadFilter>>,
    ) -> WalkBuilder {
        let mut walk = WalkBuilder::new(base.path());
        walk.threads(thread_count()).hidden(!self.hidden).max_depth(self.depth_max);
        // In a repository, ignore files of an enclosing repository do not apply. Outside of
        // repositories, a `.gitignore` applies anyway.
        walk.require_git(base.path().ancestors().any(|folder| folder.join(".git").exists()));
        if let Some(types) = &self.types {
            walk.types(types.clone());
        }
        let below = BasePrefix::new(base.path());
        let base = base.clone();
        walk.filter_entry(move |entry| {
            let (path, kind) = (below.strip(entry.path()), entry_kind(entry));
            if !self.is_included(path, entry, kind, reads.as_deref()) {
                return false;
            }
            // The crate reads a folder's ignore files as soon as it enters it.
            let unreadable = match kind {
                WalkEntryKind::File => None,
                WalkEntryKind::Folder => ignore_files::find_unreadable_in(&base, path),
            };
            let Some(file) = unreadable else { return true };
            left_out.lock().unwrap_or_else(PoisonError::into_inner).add(base.path().join(file));
            false
        });
        walk
    }

    /// Returns whether an entry below the base is included. Not called for the base itself.
    fn is_included(
        &self,
        path: &Path,
        entry: &DirEntry,
        kind: WalkEntryKind,
        reads: Option<&ReadFilter>,
    ) -> bool {
        // Links and devices are never visited, so they need no check.
        let is_visited = entry.file_type().is_some_and(|kind| kind.is_file() || kind.is_dir());
        // Entries of a folder at the greatest depth are too deep.
        let is_too_deep = kind == WalkEntryKind::Folder && self.depth_max == Some(entry.depth());
        entry.file_name() != ".git"
            && !is_too_deep
            && self.without.as_deref() != Some(path)
            // No link is followed, so every path below a canonical base is canonical.
            && reads.is_none_or(|reads| !is_visited || reads.allows(path, entry.path(), kind))
            && self.enter.as_ref().is_none_or(|enter| enter(path, kind))
    }
}

/// Returns a thread's visitor when the thread is done.
struct VisitorReturnGuard<'a, V> {
    visitor: Option<V>,
    finished: &'a Mutex<Vec<V>>,
}

impl<V> Drop for VisitorReturnGuard<'_, V> {
    fn drop(&mut self) {
        self.finished.lock().unwrap_or_else(PoisonError::into_inner).extend(self.visitor.take());
    }
}

/// Removes the base from paths below it. All of them start with it, so nothing is compared.
#[derive(Clone, Copy)]
struct BasePrefix {
    prefix_bytes: usize,
}

impl BasePrefix {
    fn new(base: &Path) -> Self {
        let base = base.as_os_str().as_bytes();
        Self { prefix_bytes: base.len() + usize::from(!base.ends_with(b"/")) }
    }

    fn strip(self, path: &Path) -> &Path {
        let bytes = path.as_os_str().as_bytes();
        Path::new(OsStr::from_bytes(bytes.get(self.prefix_bytes..).unwrap_or_default()))
    }
}

fn entry_kind(entry: &DirEntry) -> WalkEntryKind {
    match entry.file_type() {
        Some(kind) if kind.is_dir() => WalkEntryKind::Folder,
        _ => WalkEntryKind::File,
    }
}

fn thread_count() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get).min(THREADS_MAX)
}
