//! Finds every process below one, reads what they use, and sends signals to all of them.
//!
//! A process can leave its group, its session and its parent, but not its reaper: when its parent
//! ends, it becomes a child of the nearest reaper above. So the tree below a reaper contains all
//! processes of a command, whatever they did to hide.
//!
//! Process IDs are reused. Before a process from the tree gets a signal, it is therefore opened by
//! descriptor and its identity is checked again.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal};

use crate::kernel_file;

/// Most processes in one result; others are found in the next round.
const TREE_MAX: usize = 100_000;
/// A leftover process of a command may run this long after the main process has ended.
pub(crate) const LEFTOVER_GRACE: Duration = Duration::from_millis(200);

/// What the kernel reports about a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProcessInfo {
    pub(crate) pid: i32,
    pub(crate) parent: i32,
    pub(crate) group: i32,
    pub(crate) state: char,
    /// Processor time of the process and of the children it waited for, in clock ticks.
    pub(crate) cpu_ticks: u64,
    /// When it was started, in clock ticks since boot. Together with the process ID, this
    /// identifies it.
    pub(crate) started: u64,
    pub(crate) resident_pages: u64,
}

impl ProcessInfo {
    /// Reads the facts of a process, if it exists.
    pub(crate) fn read(pid: i32) -> Option<Self> {
        Self::parse(&kernel_file::read(Path::new(&format!("/proc/{pid}/stat"))).ok()?)
    }

    /// Parses a line of `/proc/<pid>/stat`.
    fn parse(line: &str) -> Option<Self> {
        // The name may contain anything, also parentheses and line ends: the last parenthesis ends
        // it.
        let (before, after) = line.rsplit_once(')')?;
        let pid = before.split_once(' ')?.0.parse().ok()?;
        let fields: Vec<&str> = after.split_whitespace().collect();
        let number = |at: usize| fields.get(at)?.parse::<i64>().ok();
        let count = |at: usize| u64::try_from(number(at)?).ok();
        Some(Self {
            pid,
            parent: i32::try_from(number(1)?).ok()?,
            group: i32::try_from(number(2)?).ok()?,
            state: fields.first()?.chars().next()?,
            cpu_ticks: count(11)? + count(12)? + count(13)? + count(14)?,
            started: count(19)?,
            resident_pages: count(21)?,
        })
    }

    /// Whether it has ended and is not reaped yet.
    pub(crate) fn is_zombie(&self) -> bool {
        matches!(self.state, 'Z' | 'X')
    }

    /// Whether it was stopped by a signal.
    pub(crate) fn is_stopped(&self) -> bool {
        self.state == 'T'
    }
}

/// Every process below `root`, except those in `skipped` and below them. Includes zombies.
pub(crate) fn descendants(root: i32, skipped: &BTreeSet<i32>) -> Vec<ProcessInfo> {
    let children_of = ChildLookup::new();
    let mut seen = BTreeSet::from([root]);
    let mut found = Vec::new();
    let mut waiting = vec![root];
    while let Some(parent) = waiting.pop() {
        for pid in children_of.pids(parent) {
            if found.len() >= TREE_MAX {
                return found;
            }
            if skipped.contains(&pid) || !seen.insert(pid) {
                continue;
            }
            if let Some(process) = ProcessInfo::read(pid) {
                found.push(process);
                waiting.push(pid);
            }
        }
    }
    found
}

/// Sends a signal to processes of a tree and returns how many received it.
///
/// `may_get` selects among those that have not ended.
pub(crate) fn send_signal(
    root: i32,
    tree: &[ProcessInfo],
    signal: Signal,
    mut may_get: impl FnMut(&ProcessInfo) -> bool,
) -> u32 {
    let known: BTreeSet<i32> = tree.iter().map(|process| process.pid).collect();
    let mut count = 0;
    for process in tree {
        if process.is_zombie() || !may_get(process) {
            continue;
        }
        let Some(pid) = Pid::from_raw(process.pid) else { continue };
        let pidfd = rustix::process::pidfd_open(pid, PidfdFlags::empty());
        let is_ours = |now: ProcessInfo| {
            now.started == process.started && (now.parent == root || known.contains(&now.parent))
        };
        if !ProcessInfo::read(process.pid).is_some_and(is_ours) {
            continue;
        }
        let sent = match pidfd {
            Ok(held) => rustix::process::pidfd_send_signal(held, signal),
            // Old kernels have no process descriptors: the check above has to suffice.
            Err(rustix::io::Errno::NOSYS) => rustix::process::kill_process(pid, signal),
            Err(errno) => Err(errno),
        };
        count += u32::from(sent.is_ok());
    }
    count
}

/// Sends a signal to all process groups of a tree, except the caller's.
///
/// The kernel does that in one step for each group, so it also reaches a process that keeps forking
/// and exiting and has another ID whenever it is searched for.
pub(crate) fn send_signal_to_groups(tree: &[ProcessInfo], signal: Signal) {
    let own = rustix::process::getpgrp().as_raw_nonzero().get();
    // Sessions and groups within the tree contain no processes from outside. Processes that are
    // still in a group from outside are in the caller's.
    let groups: BTreeSet<i32> = tree.iter().map(|process| process.group).collect();
    for group in groups.into_iter().filter(|group| *group > 1 && *group != own) {
        if let Some(group) = Pid::from_raw(group) {
            // If it fails, the group is gone.
            let _ = rustix::process::kill_process_group(group, signal);
        }
    }
}

/// How the children of a process are found.
enum ChildLookup {
    /// The kernel lists them.
    KernelList,
    /// The kernel does not list them: the parents of all processes were read once.
    ParentScan(BTreeMap<i32, Vec<i32>>),
}

impl ChildLookup {
    fn new() -> Self {
        if kernel_file::read(Path::new("/proc/thread-self/children")).is_ok() {
            return Self::KernelList;
        }
        let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
        for name in kernel_file::list_names(Path::new("/proc")).unwrap_or_default() {
            if let Some(process) = name.parse().ok().and_then(ProcessInfo::read) {
                children.entry(process.parent).or_default().push(process.pid);
            }
        }
        Self::ParentScan(children)
    }

    fn pids(&self, parent: i32) -> Vec<i32> {
        match self {
            Self::ParentScan(children) => children.get(&parent).cloned().unwrap_or_default(),
            Self::KernelList => {
                let tasks = format!("/proc/{parent}/task");
                let mut pids = Vec::new();
                // Each thread lists the children it forked.
                for task in kernel_file::list_names(Path::new(&tasks)).unwrap_or_default() {
                    let path = format!("{tasks}/{task}/children");
                    let text = kernel_file::read(Path::new(&path)).unwrap_or_default();
                    pids.extend(text.split_whitespace().filter_map(|pid| pid.parse::<i32>().ok()));
                }
                pids
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, expected: Option<(i32, char, i32, u64, u64, u64)>) {
        let seen = ProcessInfo::parse(line).map(|process| {
            let ProcessInfo { pid, state, parent, cpu_ticks, started, resident_pages, .. } =
                process;
            (pid, state, parent, cpu_ticks, started, resident_pages)
        });
        assert_eq!(seen, expected, "{line}");
    }

    #[test]
    fn process_name_cannot_forge_stat_fields() {
        let rest = "S 7 8 9 0 -1 4 1 2 3 4 10 20 30 40 20 0 1 0 555 1000 66 18446744073709551615";
        let expected = Some((42, 'S', 7, 100, 555, 66));
        check(&format!("42 (sh) {rest}"), expected);
        check(&format!("42 (a) Z 1 (b) {rest}"), expected);
        check(&format!("42 (a\n1 (b) {rest}"), expected);
        check("42 (sh) S 7", None);
        check("", None);
    }

    #[test]
    fn children_are_found_with_and_without_kernel_list() {
        let own = i32::try_from(std::process::id()).unwrap();
        #[expect(clippy::disallowed_methods, reason = "a child to find")]
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        assert!(ChildLookup::KernelList.pids(own).contains(&pid));
        let process = ProcessInfo::read(pid).unwrap();
        let searched = ChildLookup::ParentScan(BTreeMap::from([(process.parent, vec![pid])]));
        assert_eq!(searched.pids(own), [pid]);
        assert!(descendants(own, &BTreeSet::new()).iter().any(|process| process.pid == pid));
        assert!(!descendants(own, &BTreeSet::from([pid])).iter().any(|process| process.pid == pid));
        // A later process with the same ID does not get the signal.
        let other = ProcessInfo { started: process.started + 1, ..process.clone() };
        assert_eq!(send_signal(own, &[other], Signal::KILL, |_| true), 0);
        assert_eq!(send_signal(own, &[process], Signal::KILL, |_| true), 1);
        child.wait().unwrap();
    }
}
