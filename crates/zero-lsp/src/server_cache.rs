//! The folders that are kept for what servers make of projects, one for each server, project and
//! what was denied to it.
//!
//! No other program reads them, and none is shared: what a server was made to write in one project
//! does not reach another, and what it made of a file does not reach one that may not read the file.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use zero_sandbox::StateDir;
use zero_sandbox::journal::sha256;

/// How long a folder is kept that nobody uses.
const UNUSED_MAX: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// Folders that are looked at for that.
const SWEPT_MAX: usize = 1_000;
/// What is made and removed so that the folder's own time tells when it was used last.
const MARKER: &str = ".used";

/// Makes the folder of a server for a project of which it is denied `denied`, and takes away
/// those that nobody used for long. Without one a server works too, though it may begin anew each
/// time. Blocks.
pub(crate) fn prepare(
    caches: &StateDir,
    server: &str,
    root: &Path,
    denied: &[PathBuf],
) -> Option<StateDir> {
    sweep_unused(caches);
    let mut of_what = root.as_os_str().as_bytes().to_vec();
    for path in denied {
        of_what.push(0);
        of_what.extend(path.as_os_str().as_bytes());
    }
    let of_what: String = sha256(&of_what).chars().take(16).collect();
    let folder = caches.child(&format!("{server}-{of_what}"));
    let made = folder.create().and_then(|()| {
        folder.remove(MARKER)?;
        folder.create_new(MARKER)?;
        folder.remove(MARKER)
    });
    match made {
        Ok(()) => Some(folder),
        Err(error) => {
            tracing::warn!(%error, server, "a language server gets no folder of its own");
            None
        }
    }
}

fn sweep_unused(caches: &StateDir) {
    for name in caches.list_names().unwrap_or_default().iter().take(SWEPT_MAX) {
        let is_unused = caches.age(name).is_ok_and(|age| age > UNUSED_MAX);
        if is_unused && let Err(error) = caches.child(name).remove_all() {
            tracing::debug!(%error, name, "an old folder of a language server stays");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cache_folder_differs_per_server_and_project() {
        let temp = tempfile::tempdir().unwrap();
        let caches = StateDir::new(temp.path().join("lsp"));
        let of = |server, root: &str, denied: &[&str]| {
            let denied: Vec<PathBuf> = denied.iter().map(PathBuf::from).collect();
            prepare(&caches, server, Path::new(root), &denied).unwrap().path().to_owned()
        };
        let first = of("clangd", "/a", &[]);
        assert_eq!(first, of("clangd", "/a", &[]));
        assert!(zero_sandbox::path_survey::exists(&first));
        let others = [
            of("clangd", "/b", &[]),
            of("gopls", "/a", &[]),
            of("clangd", "/a", &["/a/x"]),
            of("clangd", "/a", &["/a/y"]),
            of("clangd", "/a", &["/a/x", "/a/y"]),
            of("clangd", "/a", &["/a/x/a/y"]),
        ];
        let mut different: Vec<PathBuf> = others.into_iter().chain([first]).collect();
        different.sort();
        different.dedup();
        assert_eq!(different.len(), 7);
    }
}
