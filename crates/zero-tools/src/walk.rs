//! The files beneath a folder that a search looks at, met by several threads at once.
//!
//! What is left out is what `rg` leaves out: what `.gitignore`, `.ignore` and their kin say, here
//! and in the folders above, hidden files, links, and always `.git`; and besides, what a rule denies
//! to be read. The walk goes by name, so it
//! may be shown names that a racing rename put there; what a visitor opens, it opens beneath the
//! [`FolderHandle`]'s handle, where no rename or link can lead it elsewhere.

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
use zero_core::ToolError;
use zero_runtime::CallContext;
use zero_sandbox::FolderHandle;

use crate::path_glob_set::PathGlobSet;
use denied_entries::{DeniedEntries, ReadFilter};
use ignore_files::SkippedFolders;

/// Most threads of one walk; more only wait for each other.
const THREADS_MAX: usize = 12;

/// Entries a thread meets between two looks at whether the call was cancelled.
const ENTRIES_PER_CANCEL_CHECK: u64 = 32;
/// Entries a thread meets between two words on how far it is.
const ENTRIES_PER_PROGRESS: u64 = 10_000;

/// What one thread of a walk does with the files it meets.
pub(crate) trait FileVisitor: Send {
    /// Called for each ordinary file, with its path below the base.
    fn visit_file(&mut self, relative: &Path);
}

/// Decides by its path below the base whether a folder is entered, or a file visited.
pub(crate) type WalkEntryFilter = Box<dyn Fn(&Path, WalkEntryKind) -> bool + Send + Sync>;

/// What [`WalkEntryFilter`] decides about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WalkEntryKind {
    /// A folder.
    Folder,
    /// Anything else.
    File,
}

/// Which files beneath a folder are met.
#[derive(Default)]
pub(crate) struct FileWalk {
    /// Also hidden ones.
    pub(crate) hidden: bool,
    /// Only these types.
    pub(crate) types: Option<Types>,
    /// Only so many components below the base.
    pub(crate) depth_max: Option<usize>,
    /// Only where this agrees.
    pub(crate) enter: Option<WalkEntryFilter>,
    /// Not this folder below the base, for another walk is about it.
    pub(crate) without: Option<PathBuf>,
}

/// What a walk gives back.
pub(crate) struct WalkResult<V> {
    /// The visitors, with what they made of the files.
    pub(crate) visitors: Vec<V>,
    /// The folders that were not entered.
    pub(crate) left_out: SkippedFolders,
    /// What may not be read.
    pub(crate) denied: DeniedEntries,
}

impl FileWalk {
    /// A walk of no more than the folders a match can lie in.
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

    /// Shows each file beneath `base`, which the caller wrote as `written`, to one of several
    /// visitors and hands the visitors back.
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
            let mut met = 0_u64;
            Box::new(move |entry| {
                met += 1;
                // Asking takes a lock that all threads share.
                if met.is_multiple_of(ENTRIES_PER_CANCEL_CHECK) && cx.is_cancelled() {
                    return WalkState::Quit;
                }
                if met.is_multiple_of(ENTRIES_PER_PROGRESS) {
                    cx.report_progress(format!("still searching, more than {met} entries so far"));
                }
                // An entry that cannot be looked at is left out, as one that is not there.
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

    /// The crate's walk; the folders it does not enter are counted in `left_out`, and what may not
    /// be read by `reads`.
    fn builder(
        self,
        base: &FolderHandle,
        left_out: Arc<Mutex<SkippedFolders>>,
        reads: Option<Arc<ReadFilter>>,
    ) -> WalkBuilder {
        let mut walk = WalkBuilder::new(base.path());
        walk.threads(thread_count()).hidden(!self.hidden).max_depth(self.depth_max);
        // Within a repository its borders count: the rules of one around it stay outside. Where there
        // is no repository, a `.gitignore` counts all the same.
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
            // The crate reads a folder's ignore files as soon as it is let in.
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

    /// Whether something below the base is looked at. The base itself is never asked about.
    fn is_included(
        &self,
        path: &Path,
        entry: &DirEntry,
        kind: WalkEntryKind,
        reads: Option<&ReadFilter>,
    ) -> bool {
        // Links and devices are never visited, so there is nothing to leave out.
        let is_visited = entry.file_type().is_some_and(|kind| kind.is_file() || kind.is_dir());
        // What lies in a folder at the greatest depth lies too deep.
        let is_too_deep = kind == WalkEntryKind::Folder && self.depth_max == Some(entry.depth());
        entry.file_name() != ".git"
            && !is_too_deep
            && self.without.as_deref() != Some(path)
            // No link is followed, so below a canonical base every path is canonical.
            && reads.is_none_or(|reads| !is_visited || reads.allows(path, entry.path(), kind))
            && self.enter.as_ref().is_none_or(|enter| enter(path, kind))
    }
}

/// Hands a thread's visitor back when the thread is done with it.
struct VisitorReturnGuard<'a, V> {
    visitor: Option<V>,
    finished: &'a Mutex<Vec<V>>,
}

impl<V> Drop for VisitorReturnGuard<'_, V> {
    fn drop(&mut self) {
        self.finished.lock().unwrap_or_else(PoisonError::into_inner).extend(self.visitor.take());
    }
}

/// Cuts a base off the paths below it; they all start with it, so nothing is compared.
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
