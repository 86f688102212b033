//! Distinguishes the caches that programs keep for themselves from intended changes.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use zero_sandbox::{FileType, FinalLinkMode, Workspace};

/// Folders that tools fill for themselves, and that have no [`CACHE_TAG`].
const CACHE_FOLDERS: [&str; 18] = [
    "__pycache__",
    ".cache",
    ".dart_tool",
    ".gradle",
    ".hypothesis",
    ".mypy_cache",
    ".next",
    ".nox",
    ".nuxt",
    ".nyc_output",
    ".parcel-cache",
    ".pytest_cache",
    ".ruff_cache",
    ".svelte-kit",
    ".tox",
    ".turbo",
    ".zig-cache",
    "zig-cache",
];
/// Files that tools write for themselves.
const CACHE_FILES: [&str; 3] = [".coverage", ".eslintcache", ".phpunit.result.cache"];
/// The file that marks a folder as a cache, such as cargo's `target` (<https://bford.info/cachedir>).
const CACHE_TAG: &str = "CACHEDIR.TAG";

/// Whether all paths are by-products of programs: in a folder that exists and is a cache. A cache that
/// was removed is none of them, since its removal was intended.
pub(super) fn are_by_products(workspace: &Workspace, paths: &[PathBuf]) -> bool {
    let mut caches = HashMap::new();
    !paths.is_empty() && paths.iter().all(|path| is_by_product(workspace, path, &mut caches))
}

fn is_by_product(workspace: &Workspace, path: &Path, caches: &mut HashMap<PathBuf, bool>) -> bool {
    let is_named = |names: &[&str], path: &Path| {
        path.file_name().is_some_and(|name| names.iter().any(|known| name == *known))
    };
    if is_named(&CACHE_FILES, path) {
        return find_type(workspace, path) == Some(FileType::File);
    }
    let inside = path.ancestors().take_while(|above| !workspace.roots().any(|root| root == *above));
    let mut inside = inside.map(Path::to_owned);
    inside.any(|folder| {
        *caches.entry(folder).or_insert_with_key(|folder| {
            find_type(workspace, folder) == Some(FileType::Directory)
                && (is_named(&CACHE_FOLDERS, folder)
                    || find_type(workspace, &folder.join(CACHE_TAG)) == Some(FileType::File))
        })
    })
}

fn find_type(workspace: &Workspace, path: &Path) -> Option<FileType> {
    let target = workspace.resolve(path.to_str()?, FinalLinkMode::Keep).ok()?;
    Some(target.facts().ok()??.file_type)
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the test uses real files directly")]
mod tests {
    use super::*;

    #[test]
    fn caches_that_exist_are_by_products() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        for folder in ["src/__pycache__", ".pytest_cache/v", "target/debug", "node_modules/a"] {
            std::fs::create_dir_all(root.join(folder)).unwrap();
        }
        for file in ["target/CACHEDIR.TAG", ".coverage", "src/a.py"] {
            std::fs::write(root.join(file), "x").unwrap();
        }
        let workspace = Workspace::open(std::slice::from_ref(&root), None).unwrap();
        let check = |paths: &[&str]| {
            let paths: Vec<PathBuf> = paths.iter().map(|path| root.join(path)).collect();
            are_by_products(&workspace, &paths)
        };
        assert!(check(&["src/__pycache__/a.pyc", ".pytest_cache", "target/debug/x", ".coverage"]));
        for visible in ["src/a.py", "node_modules/a", ".mypy_cache", ".env"] {
            assert!(!check(&["target/debug/x", visible]), "{visible}");
        }
        assert!(!check(&[]));
    }
}
