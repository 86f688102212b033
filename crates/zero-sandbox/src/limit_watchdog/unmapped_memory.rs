//! Measures memory that a process tree holds without having it mapped: files in memory, open or in
//! its own `/dev`.
//!
//! No process counts it as its own. Each file is counted once, however many processes have it open,
//! and a folder in memory that only the tree can see is counted as a whole.
//!
//! Not detected: System V segments that no process has attached, partially mapped files without an
//! open descriptor, descriptors in transit between processes, and the descriptors of processes that
//! hide them from their own user.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, FileType, StatxFlags};

use crate::kernel_file;
use crate::process_tree::ProcessInfo;

/// Where a command's own files in memory are, relative to its root.
const FOLDERS: [&str; 2] = ["dev", "dev/shm"];
/// Most descriptors that are inspected, of all processes.
const HANDLES_MAX: usize = 100_000;
/// Magic numbers of file systems in memory: tmpfs and hugetlbfs.
const IN_MEMORY: [u32; 2] = [0x0102_1994, 0x9584_58f6];

/// A file system, by its major and minor device number.
type DeviceNumber = (u32, u32);

/// Files in memory that a process tree holds.
#[derive(Debug, Default)]
pub(super) struct UnmappedMemory {
    /// File systems that are counted as a whole.
    folders: BTreeMap<DeviceNumber, u64>,
    /// Files that are counted one by one. Zero if not in memory.
    files: BTreeMap<(DeviceNumber, u64), u64>,
}

impl UnmappedMemory {
    /// Measures the descriptors and folders of a tree.
    pub(super) fn measure(tree: &[ProcessInfo]) -> Self {
        let mut unmapped = Self::default();
        let hosts: BTreeSet<DeviceNumber> = FOLDERS
            .iter()
            .filter_map(|name| Some(stat_file(&format!("/{name}"))?.device))
            .collect();
        let mut handles = 0;
        for process in tree.iter().filter(|process| !process.is_zombie()) {
            if unmapped.folders.is_empty() {
                unmapped.add_folders(process.pid, &hosts);
            }
            let folder = format!("/proc/{}/fd", process.pid);
            for name in kernel_file::list_names(Path::new(&folder)).unwrap_or_default() {
                handles += 1;
                if handles > HANDLES_MAX {
                    return unmapped;
                }
                unmapped.add_handle(&format!("{folder}/{name}"));
            }
        }
        unmapped
    }

    /// The total size.
    pub(super) fn bytes(&self) -> u64 {
        self.folders.values().chain(self.files.values()).sum()
    }

    /// How much of it a process has mapped, which it counts itself.
    pub(super) fn mapped_bytes(&self, pid: i32) -> u64 {
        let maps = kernel_file::read(Path::new(&format!("/proc/{pid}/smaps"))).unwrap_or_default();
        self.parse_mapped_bytes(&maps)
    }

    fn parse_mapped_bytes(&self, maps: &str) -> u64 {
        let (mut is_held, mut share, mut sum) = (false, 0_u64, 0_u64);
        for line in maps.lines() {
            let mut words = line.split_ascii_whitespace();
            let Some(first) = words.next() else { continue };
            let mut kilobytes = || words.next()?.parse::<u64>().ok();
            match first {
                "Pss:" if is_held => share = kilobytes().unwrap_or_default(),
                // Copied pages belong to the process, not to the file.
                "Anonymous:" if is_held => {
                    sum += share.saturating_sub(kilobytes().unwrap_or_default());
                }
                first if !first.ends_with(':') => {
                    is_held = self.is_counted_mapping(line).unwrap_or(false)
                }
                _ => {}
            }
        }
        sum.saturating_mul(1024)
    }

    /// Whether a mapping, given by its first line, is of a file that is counted here.
    fn is_counted_mapping(&self, line: &str) -> Option<bool> {
        let mut words = line.split_ascii_whitespace().skip(3);
        let (major, minor) = words.next()?.split_once(':')?;
        let device = (u32::from_str_radix(major, 16).ok()?, u32::from_str_radix(minor, 16).ok()?);
        let inode = words.next()?.parse().ok()?;
        let is_counted = self.files.get(&(device, inode)).is_some_and(|bytes| *bytes > 0);
        Some(is_counted || self.folders.contains_key(&device))
    }

    fn add_folders(&mut self, pid: i32, hosts: &BTreeSet<DeviceNumber>) {
        for name in FOLDERS {
            let path = format!("/proc/{pid}/root/{name}");
            let Some(found) = stat_file(&path).filter(|found| !hosts.contains(&found.device))
            else {
                continue;
            };
            if let Some(bytes) = tmpfs_used_bytes(&path) {
                self.folders.insert(found.device, bytes);
            }
        }
    }

    fn add_handle(&mut self, path: &str) {
        let Some(found) = stat_file(path) else { return };
        // A file with a name does not belong to the tree alone.
        if !found.is_nameless_file || self.folders.contains_key(&found.device) {
            return;
        }
        let bytes = || tmpfs_used_bytes(path).map_or(0, |_| found.bytes);
        self.files.entry((found.device, found.inode)).or_insert_with(bytes);
    }
}

struct MemoryFile {
    device: DeviceNumber,
    inode: u64,
    bytes: u64,
    is_nameless_file: bool,
}

/// Reads the facts of a file without querying a server that may not answer.
fn stat_file(path: &str) -> Option<MemoryFile> {
    let facts =
        rustix::fs::statx(CWD, path, AtFlags::STATX_DONT_SYNC, StatxFlags::BASIC_STATS).ok()?;
    Some(MemoryFile {
        device: (facts.stx_dev_major, facts.stx_dev_minor),
        inode: facts.stx_ino,
        bytes: facts.stx_blocks.saturating_mul(512),
        is_nameless_file: facts.stx_nlink == 0
            && FileType::from_raw_mode(facts.stx_mode.into()).is_file(),
    })
}

/// The bytes used in a file system in memory; `None` for any other.
fn tmpfs_used_bytes(path: &str) -> Option<u64> {
    let facts = rustix::fs::statfs(path).ok()?;
    // The width of these fields depends on the processor.
    let kind = u32::try_from(facts.f_type).ok()?;
    let block = u64::try_from(facts.f_bsize).ok()?;
    let blocks = facts.f_blocks.saturating_sub(facts.f_bfree);
    IN_MEMORY.contains(&kind).then(|| blocks.saturating_mul(block))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_file_counts_once() {
        let own = ProcessInfo::read(rustix::process::getpid().as_raw_nonzero().get()).unwrap();
        let before = UnmappedMemory::measure(std::slice::from_ref(&own)).bytes();
        let file = rustix::fs::memfd_create("held", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        let again = rustix::io::dup(&file).unwrap();
        assert_eq!(rustix::io::write(&file, &vec![1; 1 << 20]).unwrap(), 1 << 20);
        let both = [own.clone(), own.clone()];
        assert_eq!(UnmappedMemory::measure(&both).bytes() - before, 1 << 20);
        drop((file, again));
        assert_eq!(UnmappedMemory::measure(&[own]).bytes(), before);
    }

    #[test]
    fn mapped_bytes_differ_from_unmapped() {
        let held = UnmappedMemory {
            folders: BTreeMap::from([((0, 0x2a), 7)]),
            files: BTreeMap::from([(((0, 1), 5), 4096), (((8, 1), 6), 0)]),
        };
        let mapping = |device: &str, inode: u32, share: u32, copied: u32| {
            format!(
                "7f00-7f01 rw-s 00000000 {device} {inode}   /memfd:x y: (deleted)\n\
                 Size:  99 kB\nRss:  99 kB\nPss:  {share} kB\nPss_Dirty: 3 kB\n\
                 Anonymous:  {copied} kB\nVmFlags: rd wr sh\n"
            )
        };
        for (maps, expected) in [
            (mapping("00:01", 5, 10, 0), 10),
            (mapping("00:01", 5, 10, 4), 6),
            (mapping("00:01", 5, 10, 40), 0),
            (mapping("00:01", 4, 10, 0), 0),
            (mapping("00:2a", 4, 10, 0), 10),
            (mapping("08:01", 6, 10, 0), 0),
            (mapping("00:01", 5, 1, 0) + &mapping("00:02", 5, 9, 0), 1),
            ("nonsense\n\n: :\n".to_owned(), 0),
        ] {
            assert_eq!(held.parse_mapped_bytes(&maps), expected * 1024, "{maps}");
        }
    }
}
