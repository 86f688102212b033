//! The folders of this machine in which an owner may let sessions work.
//!
//! Tools ask before they leave the folder of a session, but within it they read without a question.
//! So a user who may choose that folder freely may read this machine. The limit is checked when a
//! folder is chosen, to report it at once, and again whenever a local backend is used, since
//! folders and links change.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use zero_sandbox::path_survey;

/// Folders that an error names; more are only counted.
const NAMED_MAX: usize = 5;

/// Where on this machine a user may let sessions work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FolderAccess {
    /// Anywhere: it is their machine.
    Anywhere,
    /// In these folders and beneath them, links settled.
    Folders(Arc<[PathBuf]>),
}

/// Nowhere: access to a folder has to be given explicitly.
impl Default for FolderAccess {
    fn default() -> Self {
        Self::Folders(Arc::default())
    }
}

impl FolderAccess {
    /// Whether a folder may be worked in, by its path without links.
    pub fn check_folder(&self, real: &Path) -> Result<(), FolderAccessError> {
        match self {
            Self::Anywhere => Ok(()),
            Self::Folders(folders) if folders.iter().any(|folder| real.starts_with(folder)) => {
                Ok(())
            }
            Self::Folders(folders) => Err(FolderAccessError::new(real, folders)),
        }
    }

    /// The same for a path as it is written: its present target decides.
    pub fn check_unresolved(&self, absolute: &Path) -> Result<(), FolderAccessError> {
        match (self, path_survey::canonicalize(absolute)) {
            (Self::Anywhere, _) => Ok(()),
            (Self::Folders(folders), None) => Err(FolderAccessError::new(absolute, folders)),
            (Self::Folders(folders), Some(real)) => {
                self.check_folder(&real).map_err(|_| FolderAccessError::new(absolute, folders))
            }
        }
    }
}

/// A folder that a user may not work in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the gateway does not run tools in the folder `{folder}` for you; {instead} `gateway.folders` in its settings"
)]
pub struct FolderAccessError {
    /// The refused folder, with special characters escaped for display.
    pub folder: String,
    instead: String,
}

impl FolderAccessError {
    fn new(folder: &Path, allowed: &[PathBuf]) -> Self {
        let shown = |path: &Path| path.display().to_string().escape_debug().to_string();
        let names = allowed.iter().take(NAMED_MAX).map(|folder| format!("`{}`", shown(folder)));
        let mut names: Vec<String> = names.collect();
        if allowed.len() > NAMED_MAX {
            names.push(format!("{} more", allowed.len() - NAMED_MAX));
        }
        let instead = match names.is_empty() {
            true => "the folders where it does are listed under".to_owned(),
            false => format!("work in {}, or have it added to", names.join(", ")),
        };
        Self { folder: shown(folder), instead }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests set up real folders")]
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn folder_check_resolves_links() {
        let temp = tempfile::tempdir().unwrap();
        let base = temp.path().canonicalize().unwrap();
        std::fs::create_dir_all(base.join("mine/deep")).unwrap();
        std::fs::create_dir_all(base.join("mine2")).unwrap();
        symlink("/", base.join("mine/out")).unwrap();
        symlink(&base, base.join("mine/up")).unwrap();
        symlink("mine/deep", base.join("in")).unwrap();
        symlink("loop", base.join("mine/loop")).unwrap();
        symlink("../../mine2", base.join("mine/deep/away")).unwrap();
        let access = FolderAccess::Folders([base.join("mine")].into());
        for (path, expected) in [
            ("mine", true),
            ("mine/deep", true),
            ("mine/.", true),
            ("mine/deep/..", true),
            ("in", true),
            ("in/..", true),
            ("mine/not/yet", true),
            ("mine/up/mine", true),
            ("", false),
            ("mine2", false),
            ("mine/..", false),
            ("mine/deep/../..", false),
            ("mine/../mine2", false),
            ("mine/out", false),
            ("mine/out/etc", false),
            ("mine/up", false),
            ("mine/not/../../mine2", false),
            ("mine/deep/away/x", false),
            ("mine/loop", false),
            ("nowhere", false),
            ("MINE", false),
        ] {
            let found = access.check_unresolved(&base.join(path));
            assert_eq!(found.is_ok(), expected, "{path}: {found:?}");
            assert_eq!(FolderAccess::Anywhere.check_unresolved(&base.join(path)), Ok(()));
        }
        assert!(access.check_unresolved(Path::new("/")).is_err());
        assert!(FolderAccess::default().check_unresolved(&base.join("mine")).is_err());
    }

    #[test]
    fn error_names_folder_and_setting() {
        #[track_caller]
        fn check(allowed: &[&str], expected: &str) {
            let folders = allowed.iter().map(PathBuf::from).collect();
            let error = FolderAccess::Folders(folders).check_folder(Path::new("/etc")).unwrap_err();
            assert_eq!(error.to_string(), expected);
        }
        check(
            &["/a", "/b"],
            "the gateway does not run tools in the folder `/etc` for you; work in `/a`, `/b`, or have it added to `gateway.folders` in its settings",
        );
        check(
            &[],
            "the gateway does not run tools in the folder `/etc` for you; the folders where it does are listed under `gateway.folders` in its settings",
        );
        let many: Vec<String> = (1..=7).map(|number| format!("/{number}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        check(
            &many,
            "the gateway does not run tools in the folder `/etc` for you; work in `/1`, `/2`, `/3`, `/4`, `/5`, 2 more, or have it added to `gateway.folders` in its settings",
        );
    }
}
