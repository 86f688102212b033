//! A glob over files of the workspace, for tools that accept file names ([`FileGlob`]).
//!
//! It has the same meaning as in Glob: it is matched against the path below the workspace root, `*`
//! does not cross `/`, and it never includes files that `.gitignore` excludes, links, `.git`, or
//! hidden files that it does not name.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use zero_core::{ErrorReason, ToolError};
use zero_runtime::CallContext;
use zero_sandbox::FolderHandle;
use zero_sandbox::{FinalLinkMode, ResolvedPath, Workspace};

use crate::path_glob_set::PathGlobSet;
use crate::walk::denied_entries::DeniedEntries;
use crate::walk::{FileVisitor, FileWalk};

/// A glob over the files below a workspace root.
#[derive(Debug)]
pub(crate) struct FileGlob {
    written: String,
    root: ResolvedPath,
    pattern: PathGlobSet,
}

/// The files that match a glob.
#[derive(Debug)]
pub(crate) struct GlobMatches {
    /// Handle of the root that contains them.
    pub(crate) folder: FolderHandle,
    /// The first matching paths below the root, sorted.
    pub(crate) paths: BTreeSet<PathBuf>,
    /// Number of all matching files.
    pub(crate) count: u64,
    /// Description of the folders that were not searched.
    pub(crate) left_out: Option<String>,
    /// The entries that may not be read.
    pub(crate) denied: DeniedEntries,
}

impl FileGlob {
    /// Returns whether a name looks like a glob. A file may still have that name.
    pub(crate) fn is_glob(name: &str) -> bool {
        name.contains(['*', '?', '[', '{'])
    }

    /// Determines the root of a glob and compiles it.
    pub(crate) fn new(written: &str, workspace: &Workspace) -> Result<Self, ToolError> {
        let (root, below) = split_root(written, workspace).ok_or_else(|| {
            let message = format!("`{written}` is not in the workspace; name its files one by one");
            ToolError::invalid(ErrorReason::BadPattern, message).with_detail("pattern", written)
        })?;
        let pattern = PathGlobSet::from_path_glob(&below)?;
        let root = workspace.resolve(&root.to_string_lossy(), FinalLinkMode::Follow)?;
        Ok(Self { written: written.to_owned(), root, pattern })
    }

    /// Returns the glob as the caller wrote it.
    pub(crate) fn pattern(&self) -> &str {
        &self.written
    }

    /// Returns the folder that is searched.
    pub(crate) fn root(&self) -> &ResolvedPath {
        &self.root
    }

    /// Searches the files and returns the first `max` of them.
    pub(crate) fn find(&self, max: usize, cx: &CallContext) -> Result<GlobMatches, ToolError> {
        let folder = self.root.open_folder()?;
        let written = self.root.target().written();
        let walked = FileWalk::for_pattern(&self.pattern).run(&folder, written, cx, || {
            FileGlobVisitor { pattern: &self.pattern, max, count: 0, paths: BTreeSet::new() }
        })?;
        let left_out = walked.left_out.note(cx.workspace());
        let denied = walked.denied;
        let mut found = GlobMatches { folder, paths: BTreeSet::new(), count: 0, left_out, denied };
        for mut share in walked.visitors {
            found.count += share.count;
            found.paths.append(&mut share.paths);
        }
        while found.paths.len() > max {
            found.paths.pop_last();
        }
        Ok(found)
    }
}

/// One thread's part of the search: the first matching files, and the number of matches.
struct FileGlobVisitor<'a> {
    pattern: &'a PathGlobSet,
    max: usize,
    count: u64,
    paths: BTreeSet<PathBuf>,
}

impl FileVisitor for FileGlobVisitor<'_> {
    fn visit_file(&mut self, relative: &Path) {
        if !self.pattern.is_match(relative) {
            return;
        }
        self.count += 1;
        self.paths.insert(relative.to_owned());
        if self.paths.len() > self.max {
            self.paths.pop_last();
        }
    }
}

/// Returns the root that a glob is below, and the rest of the glob.
fn split_root<'a>(written: &str, workspace: &'a Workspace) -> Option<(&'a Path, String)> {
    if written.starts_with('~') {
        return None;
    }
    if !written.starts_with('/') {
        return Some((workspace.cwd(), written.to_owned()));
    }
    let below = |root: &'a Path| Some((root, Path::new(written).strip_prefix(root).ok()?));
    let (root, below) =
        workspace.roots().filter_map(below).max_by_key(|(root, _)| root.as_os_str().len())?;
    Some((root, below.to_str()?.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_host::TestHost;

    #[test]
    fn glob_outside_workspace_or_with_dots_is_refused() {
        let host = TestHost::new();
        #[track_caller]
        fn check(host: &TestHost, glob: &str, expected: &str) {
            let error = FileGlob::new(glob, host.workspace()).unwrap_err();
            assert_eq!(
                (error.reason(), &*error.message),
                (Some(ErrorReason::BadPattern), expected)
            );
        }
        let outside = "is not in the workspace; name its files one by one";
        check(&host, "/etc/*.conf", &format!("`/etc/*.conf` {outside}"));
        check(&host, "~/*.conf", &format!("`~/*.conf` {outside}"));
        for glob in ["a/../../*", "src/{a"] {
            let error = FileGlob::new(glob, host.workspace()).unwrap_err();
            assert_eq!(error.reason(), Some(ErrorReason::BadPattern), "{glob}");
        }
    }
}
