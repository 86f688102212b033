//! The caches of package managers.
//!
//! Commands cannot change your own caches: a package that one project puts there would run in
//! another. zero has caches of its own, one folder for each workspace, to which the variables of the
//! package managers point. A cache that no command has used for a month is removed.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::time::Duration;

use zero_sandbox::journal::sha256;
use zero_sandbox::{StateDir, Workspace};

/// Subfolder of the state folder with the caches, one folder per workspace.
const CACHES: &str = "packages";
/// File that is touched when a command uses the cache.
const USED: &str = "used";
/// Folder with the files of the package managers.
const FILES: &str = "files";
/// How long an unused cache is kept.
const UNUSED_AGE_MAX: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// Most caches that are looked at to find unused ones.
const SWEPT_MAX: usize = 1_000;

/// Variables that name the cache of a package manager, and its folder. Go compiles nothing without
/// its build cache; that of modules stays the user's.
const VARIABLES: &[(&str, &str)] = &[
    ("npm_config_cache", "npm"),
    ("PIP_CACHE_DIR", "pip"),
    ("UV_CACHE_DIR", "uv"),
    ("GOCACHE", "go-build"),
];

/// The caches of one workspace.
pub(crate) struct PackageCaches {
    folder: PathBuf,
}

impl PackageCaches {
    /// Makes the caches of a workspace, and removes unused ones once per process.
    pub(crate) fn open(state: &Path, workspace: &Workspace) -> io::Result<Self> {
        static SWEEP: Once = Once::new();
        let caches = StateDir::new(state).child(CACHES);
        let key = sha256(workspace.cwd().as_os_str().as_encoded_bytes());
        let cache = caches.child(key.get(..16).unwrap_or(&key));
        let files = cache.child(FILES);
        files.create()?;
        if cache.touch(USED).is_err() {
            drop(cache.open_append(USED)?);
        }
        SWEEP.call_once(|| remove_unused(&caches, UNUSED_AGE_MAX));
        Ok(Self { folder: files.path().to_owned() })
    }

    /// The folder that commands may change.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The variables that point package managers to their caches.
    pub(crate) fn variables(&self) -> Vec<(OsString, OsString)> {
        let variable = |(name, folder): &(&str, &str)| {
            (OsString::from(name), self.folder.join(folder).into_os_string())
        };
        VARIABLES.iter().map(variable).collect()
    }
}

/// Removes caches that were not used for so long. What fails is tried again by the next process.
fn remove_unused(caches: &StateDir, age_max: Duration) {
    for name in caches.list_names().unwrap_or_default().iter().take(SWEPT_MAX) {
        let cache = caches.child(name);
        if cache.age(USED).is_ok_and(|age| age > age_max)
            && let Err(error) = cache.remove_all()
        {
            tracing::warn!(%error, "an unused package cache could not be removed");
        }
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests create real files")]
mod tests {
    use super::*;

    #[test]
    fn workspaces_have_caches_of_their_own() {
        let temp = tempfile::tempdir().unwrap();
        let state = temp.path().join("state");
        let open = |name: &str| {
            let root = temp.path().join(name);
            std::fs::create_dir_all(&root).unwrap();
            PackageCaches::open(&state, &Workspace::open(&[root], None).unwrap()).unwrap()
        };
        let (one, again, other) = (open("a"), open("a"), open("b"));
        assert_eq!(one.folder(), again.folder());
        assert_ne!(one.folder(), other.folder());
        assert!(one.folder().is_dir() && one.folder().starts_with(&state));
        let npm = one.folder().join("npm").into_os_string();
        assert!(one.variables().contains(&("npm_config_cache".into(), npm)));
        let caches = StateDir::new(&state).child(CACHES);
        remove_unused(&caches, UNUSED_AGE_MAX);
        assert!(one.folder().is_dir(), "it was used just now");
        std::thread::sleep(Duration::from_millis(20));
        remove_unused(&caches, Duration::from_millis(1));
        assert!(!one.folder().exists() && !other.folder().exists());
    }
}
