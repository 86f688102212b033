//! Looks at the machine for whoever judges: names, kinds and small files, nothing more.
//!
//! A judge must know what a path denotes before anybody opens it. Nothing here follows a pipe or a
//! device, and every answer is bounded.

use std::ffi::OsStr;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, FileType, Mode, OFlags};

use crate::canonical::{self, CanonicalError, LastLink};

/// A name in a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Its full path.
    pub path: PathBuf,
    /// Whether it is a folder; a link to one is not.
    pub is_folder: bool,
    /// Whether it is a link.
    pub is_link: bool,
}

/// What an absolute path denotes, links settled as far as it exists. `None` when that cannot be
/// said: a loop of links, a link of the kernel's, no access.
pub fn canonical(absolute: &Path) -> Option<PathBuf> {
    match canonical::canonicalise(Path::new("/"), absolute, LastLink::Follow) {
        Ok(found) => {
            let mut path = found.existing;
            path.extend(found.missing);
            Some(path)
        }
        Err(CanonicalError::DotsBelowMissing) => Some(without_dots(absolute)),
        Err(_) => None,
    }
}

/// The names in a folder, sorted, at most `most`; `None` when there are more or it cannot be listed.
pub fn names(folder: &Path, most: usize) -> Option<Vec<Seen>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let dir = rustix::fs::open(folder, flags, Mode::empty()).ok()?;
    let mut seen = Vec::new();
    for entry in rustix::fs::Dir::read_from(&dir).ok()? {
        let entry = entry.ok()?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name == "." || name == ".." {
            continue;
        }
        if seen.len() >= most {
            return None;
        }
        let path = folder.join(name);
        let kind = match entry.file_type() {
            // Not every file system says; then it takes a look.
            FileType::Unknown => rustix::fs::statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW)
                .map_or(FileType::Unknown, |stat| FileType::from_raw_mode(stat.st_mode)),
            kind => kind,
        };
        let (is_folder, is_link) = (kind == FileType::Directory, kind == FileType::Symlink);
        seen.push(Seen { path, is_folder, is_link });
    }
    seen.sort_by(|a, b| a.path.cmp(&b.path));
    Some(seen)
}

/// The content of a regular file of at most `bytes_max`; `None` when there is none or it is larger.
pub fn small_file(path: &Path, bytes_max: u64) -> Option<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = rustix::fs::open(path, flags, Mode::empty()).ok()?;
    let stat = rustix::fs::fstat(&file).ok()?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return None;
    }
    let mut content = Vec::new();
    std::fs::File::from(file).take(bytes_max + 1).read_to_end(&mut content).ok()?;
    (content.len() as u64 <= bytes_max).then_some(content)
}

/// Whether the names in a folder may be listed.
pub fn can_list(folder: &Path) -> bool {
    rustix::fs::access(folder, Access::READ_OK | Access::EXEC_OK).is_ok()
}

/// What lies at a path, links followed.
pub fn kind(path: &Path) -> Option<crate::FileType> {
    let stat = rustix::fs::stat(path).ok()?;
    Some(crate::FileFacts::of(&stat).file_type)
}

/// Whether there is such a name, be it a link that leads nowhere.
pub fn exists(path: &Path) -> bool {
    rustix::fs::lstat(path).is_ok()
}

/// Whether a path leads to a file that may be run.
pub fn is_program(path: &Path) -> bool {
    kind(path) == Some(crate::FileType::File) && rustix::fs::access(path, Access::EXEC_OK).is_ok()
}

fn without_dots(absolute: &Path) -> PathBuf {
    let mut settled = PathBuf::from("/");
    for component in absolute.components() {
        match component {
            std::path::Component::Normal(name) => settled.push(name),
            std::path::Component::ParentDir => {
                settled.pop();
            }
            _ => {}
        }
    }
    settled
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests set up real files")]
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn names_kinds_and_small_files_are_seen() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        std::fs::create_dir(root.join("folder")).unwrap();
        std::fs::write(root.join("program"), "#!/bin/sh\n").unwrap();
        symlink("folder", root.join("link")).unwrap();
        let seen = names(&root, 10).unwrap();
        let shown: Vec<(bool, bool)> = seen.iter().map(|s| (s.is_folder, s.is_link)).collect();
        assert_eq!(shown, [(true, false), (false, true), (false, false)]);
        assert_eq!(names(&root, 2), None, "more than asked for");
        assert_eq!(small_file(&root.join("program"), 100).unwrap(), b"#!/bin/sh\n");
        assert_eq!(small_file(&root.join("program"), 3), None);
        assert_eq!(small_file(Path::new("/dev/zero"), 3), None);
        assert!(!is_program(&root.join("program")));
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(root.join("program"), mode).unwrap();
        assert!(is_program(&root.join("program")));
        assert_eq!(canonical(&root.join("link/x")), Some(root.join("folder/x")));
        assert_eq!(canonical(&root.join("none/../x")), Some(root.join("x")));
        assert_eq!(canonical(Path::new("/proc/self/root/etc")), None);
    }
}
