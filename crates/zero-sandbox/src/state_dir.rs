//! zero's own folder: audit log, journal, oversized results. Private to its owner.

mod folder_removal;

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::append_file::AppendFile;

/// A link in the folder would have zero read or write somewhere else; none is followed.
pub(crate) const NO_LINK: i32 = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();

/// A folder of zero's own state, made with mode 0700, whose files are made with mode 0600.
#[derive(Clone, Debug)]
pub struct StateDir {
    path: PathBuf,
}

#[expect(clippy::disallowed_methods, reason = "zero's own files, never a path someone else named")]
impl StateDir {
    /// Takes `path` as the folder; it is made when first needed.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A folder within this one.
    #[must_use]
    pub fn child(&self, name: &str) -> Self {
        debug_assert!(!name.contains('/') && name != "..", "a child is one component");
        Self { path: self.path.join(name) }
    }

    /// Makes the folder and those above it.
    pub fn create(&self) -> io::Result<()> {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.path)
    }

    /// Opens a file of lines for adding to it, making it and the folder when needed.
    pub fn open_append(&self, name: &str) -> io::Result<AppendFile> {
        let mut options = OpenOptions::new();
        options.read(true).append(true).create(true).mode(0o600).custom_flags(NO_LINK);
        Ok(AppendFile::new(self.open_to_write(name, &options)?))
    }

    /// Makes a file that must not exist yet.
    pub fn create_new(&self, name: &str) -> io::Result<File> {
        self.open_to_write(name, OpenOptions::new().write(true).create_new(true).mode(0o600))
    }

    /// Opens a file for locking, making it when needed.
    pub fn lock_file(&self, name: &str) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600).custom_flags(NO_LINK);
        self.open_to_write(name, &options)
    }

    /// Opens a file that may have to be made, and the folder with it. As a rule the folder is there.
    pub(crate) fn open_to_write(&self, name: &str, options: &OpenOptions) -> io::Result<File> {
        let path = self.path.join(name);
        match options.open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.create()?;
                options.open(&path)
            }
            opened => opened,
        }
    }

    /// 32 bytes that nobody else knows; `None` where none were made yet.
    pub fn read_secret(&self, name: &str) -> io::Result<Option<[u8; 32]>> {
        let mut secret = [0; 32];
        let read = self.open(name).and_then(|mut file| file.read_exact(&mut secret));
        match read {
            Ok(()) => Ok(Some(secret)),
            // A crash may have left a part of it, which was never used.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::UnexpectedEof
                ) =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// The same, made when they are first needed.
    pub fn read_or_create_secret(&self, name: &str) -> io::Result<[u8; 32]> {
        if let Some(secret) = self.read_secret(name)? {
            return Ok(secret);
        }
        let one_at_a_time = self.lock_file(&format!("{name}.lock"))?;
        one_at_a_time.lock()?;
        if let Some(secret) = self.read_secret(name)? {
            return Ok(secret);
        }
        let mut secret = [0; 32];
        File::open("/dev/urandom")?.read_exact(&mut secret)?;
        self.remove(name)?;
        let mut file = self.create_new(name)?;
        file.write_all(&secret)?;
        file.sync_all()?;
        Ok(secret)
    }

    /// Opens a file for reading.
    pub fn open(&self, name: &str) -> io::Result<File> {
        OpenOptions::new().read(true).custom_flags(NO_LINK).open(self.path.join(name))
    }

    /// Gives a file another name, replacing what had it.
    pub fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        std::fs::rename(self.path.join(from), self.path.join(to))
    }

    /// Removes a file; one that is already gone is no error.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        match std::fs::remove_file(self.path.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Removes the folder with all it holds; one that is already gone is no error.
    pub fn remove_all(&self) -> io::Result<()> {
        match std::fs::remove_dir_all(&self.path) {
            // Folders that nobody may write to, or deeper ones than there are handles.
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                folder_removal::remove(&self.path)
            }
            _ => Ok(()),
        }
    }

    /// Makes what was created or renamed here survive a power cut.
    pub fn sync(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }

    /// Names of what the folder holds, sorted; empty when there is no folder.
    pub fn list_names(&self) -> io::Result<Vec<String>> {
        let listing = match std::fs::read_dir(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            listing => listing?,
        };
        let mut names = Vec::new();
        for entry in listing {
            names.extend(entry?.file_name().into_string());
        }
        names.sort();
        Ok(names)
    }

    /// Size of a file in here, in bytes.
    pub fn size(&self, name: &str) -> io::Result<u64> {
        Ok(std::fs::symlink_metadata(self.path.join(name))?.len())
    }

    /// How long ago a file or folder in here was last changed.
    pub fn age(&self, name: &str) -> io::Result<std::time::Duration> {
        let modified = std::fs::symlink_metadata(self.path.join(name))?.modified()?;
        Ok(modified.elapsed().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests set up real files")]
    use super::*;

    #[test]
    fn secret_is_created_once_per_folder() {
        let temp = tempfile::tempdir().unwrap();
        let [one, other] = ["one", "other"].map(|name| StateDir::new(temp.path().join(name)));
        assert_eq!(one.read_secret("key").unwrap(), None);
        assert!(!one.path().exists(), "a look makes nothing");
        let secret = one.read_or_create_secret("key").unwrap();
        assert_eq!(one.read_secret("key").unwrap(), Some(secret));
        assert_eq!(one.read_or_create_secret("key").unwrap(), secret);
        assert_ne!(other.read_or_create_secret("key").unwrap(), secret);
        std::fs::write(one.path().join("key"), b"cut").unwrap();
        assert_eq!(one.read_secret("key").unwrap(), None);
        assert_ne!(one.read_or_create_secret("key").unwrap(), secret);
    }

    #[test]
    fn link_in_state_dir_is_not_followed() {
        let temp = tempfile::tempdir().unwrap();
        let dir = StateDir::new(temp.path().join("state"));
        dir.create().unwrap();
        let victim = temp.path().join("victim");
        std::os::unix::fs::symlink(&victim, dir.path().join("link")).unwrap();
        assert!(dir.open_append("link").is_err());
        assert!(dir.lock_file("link").is_err());
        assert!(crate::locked_line::LockedLine::open(&dir, "link").is_err());
        assert!(!victim.exists(), "nothing was made through the link");
        std::fs::write(&victim, "theirs").unwrap();
        assert!(dir.open("link").is_err());
        assert!(crate::locked_line::LockedLine::open_existing(&dir, "link").is_err());
    }
}
