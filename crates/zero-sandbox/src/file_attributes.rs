//! The attributes of a file besides its contents: mode, owner, extended attributes.

use std::os::fd::AsFd;

use rustix::fs::{Gid, Mode, Stat, Uid, XattrFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

/// Largest extended attribute that is copied, as in the kernel.
const XATTR_BYTES_MAX: usize = 64 * 1024;

/// Permission bits and owner of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileAttributes {
    /// Permission bits, including set-ID and sticky bits.
    pub mode: u32,
    /// User ID of the owner.
    pub uid: u32,
    /// Group ID.
    pub gid: u32,
}

impl FileAttributes {
    /// Takes the attributes from a stat.
    pub fn from_stat(stat: &Stat) -> Self {
        Self { mode: stat.st_mode & 0o7777, uid: stat.st_uid, gid: stat.st_gid }
    }

    /// Applies the attributes to a new file. The owner comes first, because changing it clears the
    /// set-ID bits. If the user may not change the owner, that is not an error, but the file loses
    /// its set-ID bits, so that it does not run as another user than before.
    pub fn apply(self, file: impl AsFd) -> Result<(), Errno> {
        let stat = rustix::fs::fstat(&file)?;
        let (uid, gid) = (Uid::from_raw(self.uid), Gid::from_raw(self.gid));
        let mut mode = self.mode;
        if (stat.st_uid, stat.st_gid) != (self.uid, self.gid) {
            match rustix::fs::fchown(&file, Some(uid), Some(gid)) {
                Ok(()) => {}
                Err(Errno::PERM) => {
                    mode &= 0o1777;
                    let _ = rustix::fs::fchown(&file, None, Some(gid));
                }
                Err(errno) => return Err(errno),
            }
        }
        rustix::fs::fchmod(&file, Mode::from_raw_mode(mode))
    }
}

/// Copies extended attributes (access lists, labels, capabilities) as far as the system permits.
#[cfg(target_os = "linux")]
pub fn copy_xattrs(from: impl AsFd, to: impl AsFd) {
    // Most files have none, and need no buffers.
    if !rustix::fs::flistxattr_query(&from).is_ok_and(|length| length > 0) {
        return;
    }
    let mut names = vec![0_u8; XATTR_BYTES_MAX];
    let Ok(length) = rustix::fs::flistxattr(&from, &mut names[..]) else { return };
    let mut value = vec![0_u8; XATTR_BYTES_MAX];
    for name in names[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        if let Ok(length) = rustix::fs::fgetxattr(&from, name, &mut value[..]) {
            // A label that the kernel sets itself may be refused, which is fine.
            let _ = rustix::fs::fsetxattr(&to, name, &value[..length], XattrFlags::empty());
        }
    }
}

/// Does nothing: extended attributes are copied on Linux only.
#[cfg(not(target_os = "linux"))]
pub fn copy_xattrs(_from: impl AsFd, _to: impl AsFd) {}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn extended_attributes_are_copied() {
        let folder = tempfile::tempdir().unwrap();
        let open = |name: &str| File::create_new(folder.path().join(name)).unwrap();
        let (from, to) = (open("from"), open("to"));
        let mut value = [0_u8; 64];
        copy_xattrs(&from, &to);
        assert_eq!(rustix::fs::flistxattr_query(&to), Ok(0));
        for (name, written) in [("user.first", "one"), ("user.second", "")] {
            rustix::fs::fsetxattr(&from, name, written.as_bytes(), XattrFlags::CREATE)
                .expect("a file system with extended attributes");
        }
        copy_xattrs(&from, &to);
        let length = rustix::fs::fgetxattr(&to, "user.first", &mut value[..]).unwrap();
        assert_eq!(&value[..length], b"one");
        assert_eq!(rustix::fs::fgetxattr(&to, "user.second", &mut value[..]), Ok(0));
    }
}
