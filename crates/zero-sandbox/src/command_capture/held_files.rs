//! [`HeldFiles`]: files that a program opened for writing and may still have open when the record of
//! its changes continues in another set.
//!
//! The kernel reports that a file is opened, and not what is written to it afterwards.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::captured_call::read_proc_link;

/// Most files and processes that are remembered. Those beyond that count for the set in which they were
/// opened.
const PATHS_MAX: usize = 1_000;
const PROCESSES_MAX: usize = 1_000;
/// Most descriptors of a process that are looked at.
const DESCRIPTORS_MAX: usize = 4_096;

/// Files that may still be open for writing.
#[derive(Debug, Default)]
pub(super) struct HeldFiles {
    paths: HashSet<PathBuf>,
    threads: HashSet<u32>,
    processes: HashSet<u32>,
}

impl HeldFiles {
    /// Notes that a thread opens a file for writing.
    pub(super) fn add(&mut self, thread: u32, path: &Path) {
        if self.paths.len() < PATHS_MAX && !self.paths.contains(path) {
            self.paths.insert(path.to_owned());
        }
        if self.threads.len() < PROCESSES_MAX
            && self.threads.insert(thread)
            && let Some(process) = read_process(thread)
        {
            self.processes.insert(process);
        }
    }

    /// The files that are open for writing now.
    pub(super) fn list_open(&mut self) -> Vec<PathBuf> {
        if self.paths.is_empty() {
            return Vec::new();
        }
        let mut open = HashSet::new();
        self.processes.retain(|process| collect_open(*process, &self.paths, &mut open).is_some());
        self.threads.retain(|thread| read_process(*thread).is_some());
        self.paths.clone_from(&open);
        open.into_iter().collect()
    }
}

/// The process of a thread.
fn read_process(thread: u32) -> Option<u32> {
    let status = read_proc_file(&format!("/proc/{thread}/status"))?;
    status.lines().find_map(|line| line.strip_prefix("Tgid:")?.trim().parse().ok())
}

/// `None` if the process is gone.
fn collect_open(process: u32, paths: &HashSet<PathBuf>, open: &mut HashSet<PathBuf>) -> Option<()> {
    let folder = format!("/proc/{process}/fd");
    #[expect(clippy::disallowed_methods, reason = "a file of the kernel")]
    let entries = std::fs::read_dir(&folder).ok()?;
    for entry in entries.flatten().take(DESCRIPTORS_MAX) {
        let number = entry.file_name();
        let number = number.to_string_lossy();
        if let Some(path) = read_proc_link(&format!("{folder}/{number}"))
            && paths.contains(&path)
            && is_open_for_writing(process, &number)
        {
            open.insert(path);
        }
    }
    Some(())
}

fn is_open_for_writing(process: u32, number: &str) -> bool {
    let facts = read_proc_file(&format!("/proc/{process}/fdinfo/{number}"));
    let flags = facts.as_deref().and_then(|facts| {
        facts
            .lines()
            .find_map(|line| u32::from_str_radix(line.strip_prefix("flags:")?.trim(), 8).ok())
    });
    flags
        .is_none_or(|flags| flags & libc::O_ACCMODE.unsigned_abs() != libc::O_RDONLY.unsigned_abs())
}

#[expect(clippy::disallowed_methods, reason = "a file of the kernel")]
fn read_proc_file(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok()
}
