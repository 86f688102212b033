//! The cache folders of servers: one for each combination of server, project and denied paths.
//!
//! They are not shared and no other program reads them. So what a server writes in one project does
//! not reach another, and what it derived from a file does not reach a server that may not read the
//! file.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use zero_sandbox::StateDir;
use zero_sandbox::journal::sha256;

/// How long an unused folder is kept.
const UNUSED_MAX: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// Most folders that are examined in one cleanup.
const SWEPT_MAX: usize = 1_000;
/// A file created and removed again, so that the modification time of the folder shows when it was
/// last used.
const MARKER: &str = ".used";

/// Creates the cache folder of a server for a project with these denied paths, and removes folders
/// unused for long. Returns `None` on failure; the server works without a cache, but has to index
/// again each time. Blocks on file access.
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
            tracing::warn!(%error, server, "a language server runs without a cache folder");
            None
        }
    }
}

fn sweep_unused(caches: &StateDir) {
    for name in caches.list_names().unwrap_or_default().iter().take(SWEPT_MAX) {
        let is_unused = caches.age(name).is_ok_and(|age| age > UNUSED_MAX);
        if is_unused && let Err(error) = caches.child(name).remove_all() {
            tracing::debug!(%error, name, "an old cache folder of a language server could not be removed");
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
