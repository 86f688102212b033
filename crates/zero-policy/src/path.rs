//! Lexical path operations, without access to the disk.

use std::path::{Component, Path, PathBuf};

/// An absolute path without `.` and `..`; symlinks are not resolved.
pub fn normalize_lexically(absolute: &Path) -> PathBuf {
    let mut normalized = PathBuf::from("/");
    for component in absolute.components() {
        match component {
            Component::Normal(name) => normalized.push(name),
            Component::ParentDir => {
                normalized.pop();
            }
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    normalized
}
