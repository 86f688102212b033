//! Reads the index of a git repository, to tell a refresh from a change.
//!
//! `git status` writes the times and inodes of the files that it saw into the index. That is
//! not a change by a user: two indexes are equal if they stage the same contents.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{Mode, OFlags};

use super::content_digest::sha256;

/// Largest index that is compared.
const BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Bytes of an entry before its mode: times, device and inode.
const MODE_AT: usize = 24;
/// Where its object is named, after owner and size, and where the flags follow.
const OBJECT_AT: usize = 40;
const FLAGS_AT: usize = 60;
const NAME_AT: usize = 62;
const IS_EXTENDED: u16 = 0x4000;
/// Bytes of the checksum at the end.
const CHECKSUM_BYTES: usize = 20;

/// Whether a path is that of an index.
pub(super) fn is_index(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == "index")
        && path.components().any(|part| part.as_os_str() == ".git")
}

/// A digest of what the index in an open folder stages; `None` if it is not one that can be read.
pub(super) fn read_digest(folder: impl AsFd, name: impl rustix::path::Arg) -> Option<String> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = File::from(rustix::fs::openat(folder, name, flags, Mode::empty()).ok()?);
    let mut bytes = Vec::new();
    file.take(BYTES_MAX + 1).read_to_end(&mut bytes).ok()?;
    if bytes.len() as u64 > BYTES_MAX { None } else { digest(&bytes) }
}

fn digest(bytes: &[u8]) -> Option<String> {
    let number = |at: usize| {
        let bytes = bytes.get(at..at + 4)?;
        Some(u32::from_be_bytes(bytes.try_into().ok()?))
    };
    let version = number(4)?;
    if !bytes.starts_with(b"DIRC") || !(2..=4).contains(&version) {
        return None;
    }
    let (mut at, mut name, mut staged) = (12, Vec::new(), Vec::new());
    for _ in 0..number(8)? {
        let entry = bytes.get(at..)?;
        let flags = u16::from_be_bytes(entry.get(FLAGS_AT..NAME_AT)?.try_into().ok()?);
        let name_at = if flags & IS_EXTENDED == 0 { NAME_AT } else { NAME_AT + 2 };
        let mut from = name_at;
        if version == 4 {
            let (removed, len) = read_varint(entry.get(from..)?)?;
            name.truncate(name.len().checked_sub(removed)?);
            from += len;
        } else {
            name.clear();
        }
        let len = entry.get(from..)?.iter().position(|byte| *byte == 0)?;
        name.extend_from_slice(entry.get(from..from + len)?);
        staged.extend_from_slice(entry.get(MODE_AT..MODE_AT + 4)?);
        staged.extend_from_slice(entry.get(OBJECT_AT..name_at)?);
        staged.extend_from_slice(&name);
        staged.push(0);
        // Up to version 3, an entry ends with 1 to 8 zeros, at a multiple of 8 bytes.
        at += match version {
            4 => from + len + 1,
            _ => (from + len + 8) / 8 * 8,
        };
    }
    // An index with longer object names ends elsewhere.
    let has_end = bytes.len().checked_sub(CHECKSUM_BYTES).is_some_and(|end| at <= end);
    has_end.then(|| sha256(&staged))
}

/// A number as version 4 has it, and its length in bytes.
fn read_varint(bytes: &[u8]) -> Option<(usize, usize)> {
    let mut value = usize::from(bytes.first()? & 0x7f);
    let mut len = 1;
    while bytes.get(len - 1)? & 0x80 != 0 {
        let byte = bytes.get(len)?;
        value = value.checked_add(1)?.checked_mul(128)?.checked_add(usize::from(byte & 0x7f))?;
        len += 1;
    }
    Some((value, len))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An index of version 2 with these names, objects and times.
    fn make_index(entries: &[(&str, u8, u8)]) -> Vec<u8> {
        let mut bytes = b"DIRC\0\0\0\x02".to_vec();
        bytes.extend(u32::try_from(entries.len()).unwrap().to_be_bytes());
        for (name, object, time) in entries {
            let start = bytes.len();
            bytes.extend([*time; MODE_AT]);
            bytes.extend([0, 0, 0x81, 0xa4]);
            bytes.extend([*time; 12]);
            bytes.extend([*object; 20]);
            bytes.extend(u16::try_from(name.len()).unwrap().to_be_bytes());
            bytes.extend(name.as_bytes());
            let len = bytes.len() - start;
            bytes.resize(start + (len + 8) / 8 * 8, 0);
        }
        bytes.extend([9; CHECKSUM_BYTES]);
        bytes
    }

    #[test]
    fn refreshed_index_is_equal_and_staged_change_differs() {
        let index = digest(&make_index(&[("a", 1, 1), ("src/long-name.rs", 2, 1)])).unwrap();
        let refreshed = make_index(&[("a", 1, 7), ("src/long-name.rs", 2, 8)]);
        assert_eq!(digest(&refreshed).as_ref(), Some(&index));
        for staged in [
            make_index(&[("a", 3, 1), ("src/long-name.rs", 2, 1)]),
            make_index(&[("a", 1, 1)]),
            make_index(&[("b", 1, 1), ("src/long-name.rs", 2, 1)]),
        ] {
            assert_ne!(digest(&staged).as_ref(), Some(&index));
        }
    }

    #[test]
    fn other_file_is_not_an_index() {
        let index = make_index(&[("a", 1, 1)]);
        assert!(digest(&index).is_some());
        for len in 0..index.len() - 1 {
            let _ = digest(&index[..len]);
        }
        assert_eq!(digest(b"DIRC\0\0\0\x02\xff\xff\xff\xff"), None);
        assert_eq!(digest(&index[..index.len() - CHECKSUM_BYTES]), None);
        assert_eq!(digest(b"text"), None);
    }

    #[test]
    fn index_outside_git_folder_is_ignored() {
        for (path, expected) in [
            ("/w/.git/index", true),
            ("/w/.git/worktrees/x/index", true),
            ("/w/index", false),
            ("/w/.git/HEAD", false),
        ] {
            assert_eq!(is_index(Path::new(path)), expected, "{path}");
        }
    }
}
