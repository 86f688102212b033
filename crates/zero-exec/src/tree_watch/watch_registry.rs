//! Which paths the running commands may not create, in this process and in others.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use zero_sandbox::StateDir;

use super::known_repository::KnownRepository;
use crate::profile::folder_scanner::FolderScanner;
use crate::watch_lease::{QuarantineList, WatchFolder, WatchLease};

/// Most quarantined paths remembered while other commands run.
const QUARANTINED_MAX: usize = 10_000;

/// The paths that running commands may not create, with the number of commands that watch each.
///
/// A command that starts while another runs may find a file that the other created, which looks as
/// if it had always been there. Once that file is quarantined, the later command must not create it
/// again.
#[derive(Debug, Default)]
pub(crate) struct WatchRegistry {
    /// Keyed by bytes: comparing paths by component takes longer than inspecting the file.
    missing: Mutex<HashMap<OsString, usize>>,
    quarantined: Mutex<QuarantinedPaths>,
    /// Where other processes find the watches of this one.
    folder: Mutex<Option<Arc<WatchFolder>>>,
    /// Repositories in folders of dependencies that were checked.
    pub(super) dependencies: Mutex<BTreeMap<PathBuf, KnownRepository>>,
    pub(crate) scanner: FolderScanner,
}

/// Paths quarantined further down, where the missing names cannot be listed in advance.
#[derive(Debug, Default)]
struct QuarantinedPaths {
    running: usize,
    paths: Vec<PathBuf>,
    /// Whether some paths are missing from the list.
    is_full: bool,
}

/// The state at the start of a command.
#[derive(Debug)]
pub(crate) struct WatchStart {
    watch_registry: Arc<WatchRegistry>,
    pub(super) at: SystemTime,
    /// The number of paths quarantined before the start.
    quarantined_before: usize,
    /// The folder by which watches of other processes know of this one.
    pub(super) lease: Option<WatchLease>,
    /// What commands of other processes may not create.
    pub(super) others: HashSet<OsString>,
}

impl WatchRegistry {
    /// Begins a watch that other processes know of.
    pub(crate) fn begin_lease(&self, state: &Path) -> io::Result<WatchLease> {
        let mut folder = self.folder.lock().unwrap_or_else(PoisonError::into_inner);
        // The user may have removed zero's state meanwhile.
        folder.take_if(|folder| !folder.is_intact());
        let folder = match folder.as_ref() {
            Some(folder) => folder,
            None => {
                let new = WatchFolder::acquire(&StateDir::new(state.to_owned()))?;
                folder.insert(Arc::new(new))
            }
        };
        WatchLease::begin(folder)
    }

    /// Call it before inspecting any file. Without a `lease`, other processes do not know of the
    /// watch.
    pub(crate) fn start(self: &Arc<Self>, lease: Option<WatchLease>) -> io::Result<WatchStart> {
        let others = lease.as_ref().map(WatchLease::read_others).transpose()?;
        let mut quarantined = self.quarantined.lock().unwrap_or_else(PoisonError::into_inner);
        quarantined.running += 1;
        Ok(WatchStart {
            watch_registry: Arc::clone(self),
            at: SystemTime::now(),
            quarantined_before: quarantined.paths.len(),
            lease,
            others: others.unwrap_or_default().paths,
        })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, HashMap<OsString, usize>> {
        self.missing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WatchStart {
    fn lock_quarantined(&self) -> MutexGuard<'_, QuarantinedPaths> {
        self.watch_registry.quarantined.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The paths quarantined since the start.
    pub(super) fn quarantined_since(&self) -> QuarantineList {
        let mut list = self.lease.as_ref().map(WatchLease::list_quarantined).unwrap_or_default();
        let own = self.lock_quarantined();
        list.paths.extend(own.paths.iter().skip(self.quarantined_before).cloned());
        list.is_full |= own.is_full;
        list
    }

    /// Remembers a path that was quarantined. Fails if other processes cannot be told.
    pub(super) fn record_quarantined(&self, path: &Path) -> io::Result<()> {
        let reported = self.lease.as_ref().map(|lease| lease.report_quarantined(path));
        let mut quarantined = self.lock_quarantined();
        match quarantined.paths.len() < QUARANTINED_MAX {
            true => quarantined.paths.push(path.to_owned()),
            false => quarantined.is_full = true,
        }
        reported.unwrap_or(Ok(()))
    }

    /// Adds what commands of other processes that were started meanwhile may not create.
    pub(super) fn read_others(&mut self) -> io::Result<()> {
        if let Some(lease) = &self.lease {
            self.others.extend(lease.read_others()?.paths);
        }
        Ok(())
    }
}

impl Drop for WatchStart {
    fn drop(&mut self) {
        let mut quarantined = self.lock_quarantined();
        quarantined.running = quarantined.running.saturating_sub(1);
        if quarantined.running == 0 {
            quarantined.paths.clear();
            quarantined.is_full = false;
        }
    }
}
