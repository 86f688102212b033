//! Lexical path operations, without access to the disk.

use std::path::{Component, Path, PathBuf};

/// An absolute path without `.` and `..`; symlinks are not resolved.
pub fn normalize_lexically(absolute: &Path) -> PathBuf {
    let mut settled = PathBuf::from("/");
    for component in absolute.components() {
        match component {
            Component::Normal(name) => settled.push(name),
            Component::ParentDir => {
                settled.pop();
            }
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    settled
}
