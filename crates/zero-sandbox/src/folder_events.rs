//! Names that appear in folders, and files that are written there, as the kernel reports them.
//!
//! The kernel reports a name within microseconds, but it can only watch single folders, and each of
//! them costs about a kilobyte. So the number of folders is bounded, and a caller that must not miss
//! a file also looks for it from time to time.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::event::{EventfdFlags, PollFd, PollFlags};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;

use crate::path_survey;

/// Most folders that are watched.
const FOLDERS_MAX: usize = 16_384;
/// The share of the user's watches that zero takes: editors and build tools need them as well.
const SHARE: usize = 4;
/// Where the kernel says how many folders a user can watch.
const USER_MAX_FILE: &str = "/proc/sys/fs/inotify/max_user_watches";
/// Longest number in it.
const USER_MAX_BYTES: u64 = 32;
/// The size of the buffer for events.
const BUFFER_BYTES: usize = 16 << 10;
/// Most events that are returned at once.
const EVENTS_MAX: usize = 4_096;

/// A name that appeared in a folder, or a file that was written there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FolderEvent {
    /// The folder.
    pub folder: PathBuf,
    /// The name in it.
    pub name: OsString,
    /// Whether it is a folder.
    pub is_folder: bool,
}

/// What was reported.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FolderEvents {
    /// The events.
    pub events: Vec<FolderEvent>,
    /// Whether the kernel left out others.
    pub is_incomplete: bool,
}

/// Folders that the kernel watches.
#[derive(Debug)]
pub struct WatchedFolders {
    inotify: OwnedFd,
    waker: FolderWaker,
    folders: HashMap<i32, PathBuf>,
    folders_max: usize,
}

/// Ends a wait for events from another thread.
#[derive(Clone, Debug)]
pub struct FolderWaker(Arc<OwnedFd>);

impl FolderWaker {
    /// Ends the present wait, or the next one.
    pub fn wake(&self) {
        // Fails only if it was woken before.
        let _ = rustix::io::write(&*self.0, &1_u64.to_ne_bytes());
    }
}

impl WatchedFolders {
    /// No folder yet.
    pub fn new() -> io::Result<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let waker = FolderWaker(Arc::new(rustix::event::eventfd(0, flags)?));
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        let user_max = path_survey::read_small_file(Path::new(USER_MAX_FILE), USER_MAX_BYTES)
            .and_then(|text| String::from_utf8(text).ok()?.trim().parse::<usize>().ok());
        let folders_max = user_max.map_or(FOLDERS_MAX, |most| FOLDERS_MAX.min(most / SHARE));
        Ok(Self { inotify, waker, folders: HashMap::new(), folders_max })
    }

    /// The handle that ends a wait.
    pub fn waker(&self) -> FolderWaker {
        self.waker.clone()
    }

    /// Whether no further folder can be watched.
    pub fn is_full(&self) -> bool {
        self.folders.len() >= self.folders_max
    }

    /// Watches a folder, but not the folders in it. Files that are created in it from now on are
    /// reported. A folder that was renamed is reported under this path from now on. Returns whether it
    /// is watched.
    pub fn add(&mut self, folder: &Path) -> bool {
        if self.is_full() {
            return false;
        }
        let flags = WatchFlags::CREATE
            | WatchFlags::MOVED_TO
            | WatchFlags::MODIFY
            | WatchFlags::CLOSE_WRITE
            | WatchFlags::ONLYDIR
            | WatchFlags::DONT_FOLLOW;
        match inotify::add_watch(&self.inotify, folder, flags) {
            Ok(watch) => {
                self.folders.insert(watch, folder.to_owned());
                true
            }
            Err(Errno::NOSPC) => {
                // Other programs of the user need watches, too.
                self.folders_max = self.folders.len();
                false
            }
            Err(_) => false,
        }
    }

    /// Keeps only the folders that fit.
    pub fn retain(&mut self, mut fits: impl FnMut(&Path) -> bool) {
        let inotify = &self.inotify;
        self.folders.retain(|watch, folder| {
            let stays = fits(folder);
            if !stays {
                // Fails only if the folder is gone.
                let _ = inotify::remove_watch(inotify, *watch);
            }
            stays
        });
    }

    /// Waits until something is reported or the wait is ended.
    pub fn wait(&mut self) -> io::Result<FolderEvents> {
        let mut fds =
            [PollFd::new(&self.inotify, PollFlags::IN), PollFd::new(&*self.waker.0, PollFlags::IN)];
        match rustix::event::poll(&mut fds, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        // Only resets it.
        let _ = rustix::io::read(&*self.waker.0, &mut [0; 8]);
        self.read_events()
    }

    fn read_events(&mut self) -> io::Result<FolderEvents> {
        let mut found = FolderEvents::default();
        let mut buffer = [MaybeUninit::uninit(); BUFFER_BYTES];
        let mut reader = inotify::Reader::new(&self.inotify, &mut buffer);
        // The kernel does not report again the events that were read.
        while found.events.len() < EVENTS_MAX || !reader.is_buffer_empty() {
            let event = match reader.next() {
                Ok(event) => event,
                Err(Errno::WOULDBLOCK) => break,
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            };
            let flags = event.events();
            if flags.contains(ReadFlags::QUEUE_OVERFLOW) {
                found.is_incomplete = true;
            }
            if flags.contains(ReadFlags::IGNORED) {
                self.folders.remove(&event.wd());
                continue;
            }
            let folder = self.folders.get(&event.wd());
            if let (Some(folder), Some(name)) = (folder, event.file_name()) {
                found.events.push(FolderEvent {
                    folder: folder.clone(),
                    name: OsStr::from_bytes(name.to_bytes()).to_owned(),
                    is_folder: flags.contains(ReadFlags::ISDIR),
                });
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests set up real files")]
    use super::*;
    use std::fs;

    fn names(found: &FolderEvents) -> Vec<(&str, bool)> {
        let mut names: Vec<(&str, bool)> = found
            .events
            .iter()
            .filter_map(|event| Some((event.name.to_str()?, event.is_folder)))
            .collect();
        names.dedup();
        names
    }

    #[test]
    fn names_that_appear_and_files_that_are_written_are_reported() {
        let temp = tempfile::tempdir().unwrap();
        let (root, outside) = (temp.path().join("root"), temp.path().join("outside"));
        fs::create_dir_all(root.join("inner")).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(root.join("old"), "").unwrap();
        let mut folders = WatchedFolders::new().unwrap();
        assert!(folders.add(&root));
        fs::write(root.join("new"), "").unwrap();
        fs::create_dir(root.join("folder")).unwrap();
        fs::write(root.join("old"), "x").unwrap();
        fs::write(root.join("inner/unseen"), "").unwrap();
        fs::write(outside.join("moved"), "").unwrap();
        fs::rename(outside.join("moved"), root.join("moved")).unwrap();
        let found = folders.wait().unwrap();
        assert!(!found.is_incomplete && found.events.iter().all(|event| event.folder == root));
        let expected = [("new", false), ("folder", true), ("old", false), ("moved", false)];
        assert_eq!(names(&found), expected);
    }

    #[test]
    fn more_events_than_are_returned_at_once_are_all_returned() {
        let temp = tempfile::tempdir().unwrap();
        let mut folders = WatchedFolders::new().unwrap();
        assert!(folders.add(temp.path()));
        let count = EVENTS_MAX + 500;
        // Two events each, of a size that leaves a part of a buffer when enough are read.
        let name = |number: usize| temp.path().join(format!("{number:020}"));
        (0..count).for_each(|number| fs::write(name(number), "").unwrap());
        let (mut seen, mut calls) = (std::collections::BTreeSet::new(), 0);
        loop {
            folders.waker().wake();
            let found = folders.wait().unwrap();
            assert!(!found.is_incomplete);
            if found.events.is_empty() {
                break;
            }
            seen.extend(found.events.into_iter().map(|event| event.name));
            calls += 1;
        }
        assert!(seen.len() == count && calls > 1, "{} names in {calls} calls", seen.len());
    }

    #[test]
    fn folder_that_was_renamed_is_reported_under_its_new_path() {
        let temp = tempfile::tempdir().unwrap();
        let (old, new) = (temp.path().join("old"), temp.path().join("new"));
        fs::create_dir(&old).unwrap();
        let mut folders = WatchedFolders::new().unwrap();
        assert!(folders.add(&old));
        fs::rename(&old, &new).unwrap();
        assert!(folders.add(&new));
        fs::write(new.join("file"), "").unwrap();
        assert_eq!(folders.wait().unwrap().events[0].folder, new);
        assert_eq!(folders.folders.len(), 1);
    }

    #[test]
    fn wait_ends_when_woken_and_without_folders() {
        let mut folders = WatchedFolders::new().unwrap();
        folders.waker().wake();
        assert_eq!(folders.wait().unwrap(), FolderEvents::default());
    }

    #[test]
    fn links_files_and_folders_beyond_the_limit_are_not_watched() {
        let temp = tempfile::tempdir().unwrap();
        for name in ["a", "b"] {
            fs::create_dir(temp.path().join(name)).unwrap();
        }
        std::os::unix::fs::symlink("a", temp.path().join("link")).unwrap();
        fs::write(temp.path().join("file"), "").unwrap();
        let mut folders = WatchedFolders::new().unwrap();
        folders.folders_max = 1;
        for (name, expected) in [("link", false), ("file", false), ("a", true), ("b", false)] {
            assert_eq!(folders.add(&temp.path().join(name)), expected, "{name}");
        }
        folders.retain(|_| false);
        assert!(folders.add(&temp.path().join("b")));
        fs::write(temp.path().join("a/x"), "").unwrap();
        fs::write(temp.path().join("b/y"), "").unwrap();
        let mut found = folders.wait().unwrap();
        while found.events.is_empty() {
            found = folders.wait().unwrap();
        }
        assert_eq!(names(&found), [("y", false)]);
    }
}
