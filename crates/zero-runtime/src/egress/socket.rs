//! Where the proxy listens: a socket that nobody but its owner can reach.

use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use zero_sandbox::StateDir;

/// Longest path of a socket, in bytes, on every system zero runs on that allows so much.
const PATH_BYTES_MAX: usize = if cfg!(target_os = "macos") { 103 } else { 107 };
/// Where a short folder is made when the state's own path is too long.
const SHORT_PARENT: &str = "/tmp";
/// Sockets of processes that died that are looked at each time.
const STALE_LOOKED_AT_MAX: usize = 64;
/// A younger socket may not be listened to yet.
const STALE_AGE_MIN: Duration = Duration::from_secs(60);

/// The file of a socket; it goes when this is dropped.
#[derive(Debug)]
pub(super) struct SocketFile {
    folder: StateDir,
    name: String,
    path: PathBuf,
    /// Whether the folder is its own, and goes with it.
    owns_folder: bool,
}

impl SocketFile {
    /// Listens in a folder of zero's state, or in a short one where that path is too long.
    pub(super) fn bind(state: &StateDir) -> io::Result<(Self, UnixListener)> {
        let name = format!("{:016x}.sock", fastrand::u64(..));
        let folder = state.child("egress");
        let fits = folder.path().join(&name).as_os_str().len() <= PATH_BYTES_MAX;
        let file = if fits {
            folder.create()?;
            // It may have been there before, with other permissions.
            std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o700))?;
            remove_stale(&folder);
            Self { path: folder.path().join(&name), folder, name, owns_folder: false }
        } else {
            let folder = short_folder()?;
            Self { path: folder.path().join(&name), folder, name, owns_folder: true }
        };
        let listener = UnixListener::bind(&file.path)?;
        listener.set_nonblocking(true)?;
        Ok((file, listener))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let removed = match self.owns_folder {
            true => self.folder.remove_all(),
            false => self.folder.remove(&self.name),
        };
        if let Err(error) = removed {
            tracing::warn!(%error, "the socket of the proxy could not be removed");
        }
    }
}

/// A new folder with a short path, which nobody else can have made or can enter.
fn short_folder() -> io::Result<StateDir> {
    let path = Path::new(SHORT_PARENT).join(format!("zero-{:016x}", fastrand::u64(..)));
    // One that is there already is an error, so it is ours alone.
    std::fs::DirBuilder::new().mode(0o700).create(&path)?;
    Ok(StateDir::new(path))
}

/// Removes sockets that processes left behind that were killed.
fn remove_stale(folder: &StateDir) {
    let names = folder.names().unwrap_or_default();
    let sockets = names.iter().filter(|name| name.ends_with(".sock"));
    for name in sockets.take(STALE_LOOKED_AT_MAX) {
        let is_old = folder.age(name).is_ok_and(|age| age >= STALE_AGE_MIN);
        let nobody_listens = || {
            let connected = UnixStream::connect(folder.path().join(name));
            connected.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
        };
        if is_old && nobody_listens() {
            // The next start tries again.
            let _ = folder.remove(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn the_socket_is_private_and_goes_with_its_owner() {
        let temp = tempfile::tempdir().unwrap();
        for (folder, is_short) in [("s".to_owned(), true), ("x".repeat(120), false)] {
            let state = StateDir::new(temp.path().join(folder));
            let (file, _listener) = SocketFile::bind(&state).unwrap();
            let path = file.path().to_owned();
            assert!(path.as_os_str().len() <= PATH_BYTES_MAX, "{path:?}");
            assert_eq!(path.starts_with(state.path()), is_short, "{path:?}");
            assert_eq!(mode(path.parent().unwrap()), 0o700);
            UnixStream::connect(&path).unwrap();
            drop(file);
            assert!(!path.exists());
            assert_eq!(path.parent().unwrap().exists(), is_short, "a folder of its own goes too");
        }
    }

    #[test]
    fn two_sockets_stand_side_by_side() {
        let temp = tempfile::tempdir().unwrap();
        let state = StateDir::new(temp.path());
        let (first, _one) = SocketFile::bind(&state).unwrap();
        let (second, _two) = SocketFile::bind(&state).unwrap();
        assert_ne!(first.path(), second.path());
        UnixStream::connect(first.path()).unwrap();
    }
}
