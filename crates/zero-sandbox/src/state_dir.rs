//! [`StateDir`]: a folder of zero's own state, such as the audit log, the journal and oversized
//! results. Private to its owner.

mod folder_removal;

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::append_file::AppendFile;

/// A link in the folder could make zero read or write elsewhere; none is followed.
pub(crate) const NO_LINK: i32 = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();

/// A folder of zero's own state, created with mode 0700. Its files are created with mode 0600.
#[derive(Clone, Debug)]
pub struct StateDir {
    path: PathBuf,
}

#[expect(clippy::disallowed_methods, reason = "zero's own files, never a path someone else named")]
impl StateDir {
    /// Uses `path` as the folder; it is created when first needed.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// The path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A folder within this one. `name` must be a single component.
    #[must_use]
    pub fn child(&self, name: &str) -> Self {
        debug_assert!(!name.contains('/') && name != "..", "a child is one component");
        Self { path: self.path.join(name) }
    }

    /// Creates the folder and those above it.
    pub fn create(&self) -> io::Result<()> {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.path)
    }

    /// Opens a file of lines for appending, and creates it and the folder if needed.
    pub fn open_append(&self, name: &str) -> io::Result<AppendFile> {
        let mut options = OpenOptions::new();
        options.read(true).append(true).create(true).mode(0o600).custom_flags(NO_LINK);
        Ok(AppendFile::new(self.open_to_write(name, &options)?))
    }

    /// Opens an existing file of lines for appending; `None` if there is none.
    pub fn open_existing_append(&self, name: &str) -> io::Result<Option<AppendFile>> {
        let mut options = OpenOptions::new();
        options.read(true).append(true).custom_flags(NO_LINK);
        self.open_existing(name, &options).map(|file| file.map(AppendFile::new))
    }

    /// Opens an existing file for locking; `None` if there is none.
    pub fn existing_lock_file(&self, name: &str) -> io::Result<Option<File>> {
        self.open_existing(name, OpenOptions::new().write(true).custom_flags(NO_LINK))
    }

    fn open_existing(&self, name: &str, options: &OpenOptions) -> io::Result<Option<File>> {
        match options.open(self.path.join(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            opened => opened.map(Some),
        }
    }

    /// Creates a file that must not exist yet.
    pub fn create_new(&self, name: &str) -> io::Result<File> {
        self.open_to_write(name, OpenOptions::new().write(true).create_new(true).mode(0o600))
    }

    /// Opens a file for locking, and creates it if needed.
    pub fn lock_file(&self, name: &str) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600).custom_flags(NO_LINK);
        self.open_to_write(name, &options)
    }

    /// Opens a file that may have to be created, possibly with its folder, which usually exists.
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

    /// Reads a secret of 32 random bytes; `None` if it was not created yet.
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

    /// Reads a secret of 32 random bytes, and creates it if needed.
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

    /// Renames a file, replacing an existing one.
    pub fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        std::fs::rename(self.path.join(from), self.path.join(to))
    }

    /// Makes a link in the folder.
    pub fn link(&self, name: &str, target: &Path) -> io::Result<()> {
        std::os::unix::fs::symlink(target, self.path.join(name))
    }

    /// Removes a file; a missing one is not an error.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        match std::fs::remove_file(self.path.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Removes the folder with everything in it; a missing one is not an error.
    pub fn remove_all(&self) -> io::Result<()> {
        match std::fs::remove_dir_all(&self.path) {
            // Folders without write permission, or nested deeper than the limit of open files.
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                folder_removal::remove(&self.path)
            }
            _ => Ok(()),
        }
    }

    /// Makes created and renamed files survive a power cut.
    pub fn sync(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }

    /// The names in the folder, sorted; empty if the folder does not exist.
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

    /// Size of a file in this folder, in bytes.
    pub fn size(&self, name: &str) -> io::Result<u64> {
        Ok(std::fs::symlink_metadata(self.path.join(name))?.len())
    }

    /// Makes a file count as modified now.
    pub fn touch(&self, name: &str) -> io::Result<()> {
        let mut options = OpenOptions::new();
        let file = options.write(true).custom_flags(NO_LINK).open(self.path.join(name))?;
        file.set_modified(std::time::SystemTime::now())
    }

    /// How long ago a file or folder in this folder was modified.
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
        assert!(!one.path().exists(), "reading creates nothing");
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
        assert!(!victim.exists(), "nothing was created through the link");
        std::fs::write(&victim, "theirs").unwrap();
        assert!(dir.open("link").is_err());
        assert!(crate::locked_line::LockedLine::open_existing(&dir, "link").is_err());
    }
}
