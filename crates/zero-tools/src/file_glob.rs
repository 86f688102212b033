//! A glob that stands for files of the workspace, where a tool takes file names.
//!
//! It means what it means to Glob: it is matched against the path below the workspace root, `*`
//! does not cross `/`, and it never brings back what `.gitignore` leaves out, links, `.git`, or
//! hidden files it does not name.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use zero_core::{ErrorReason, ToolError};
use zero_runtime::CallContext;
use zero_sandbox::FolderHandle;
use zero_sandbox::{FinalLinkMode, ResolvedPath, Workspace};

use crate::path_glob_set::PathGlobSet;
use crate::walk::denied_entries::DeniedEntries;
use crate::walk::{FileVisitor, FileWalk};

/// A glob over the files beneath a workspace root.
#[derive(Debug)]
pub(crate) struct FileGlob {
    written: String,
    root: ResolvedPath,
    pattern: PathGlobSet,
}

/// The files a glob stands for.
#[derive(Debug)]
pub(crate) struct GlobMatches {
    /// The root they lie in, held open.
    pub(crate) folder: FolderHandle,
    /// Paths below it, sorted; the first of them.
    pub(crate) paths: BTreeSet<PathBuf>,
    /// How many there are in all.
    pub(crate) count: u64,
    /// What was not looked at, in words.
    pub(crate) left_out: Option<String>,
    /// What may not be read.
    pub(crate) denied: DeniedEntries,
}

impl FileGlob {
    /// Whether a name can only be meant as a glob, unless a file has that very name.
    pub(crate) fn is_glob(name: &str) -> bool {
        name.contains(['*', '?', '[', '{'])
    }

    /// Settles which root a glob is about and compiles it.
    pub(crate) fn new(written: &str, workspace: &Workspace) -> Result<Self, ToolError> {
        let (root, below) = split_root(written, workspace).ok_or_else(|| {
            let message =
                format!("`{written}` does not lie in the workspace; name its files one by one");
            ToolError::invalid(ErrorReason::BadPattern, message).with_detail("pattern", written)
        })?;
        let pattern = PathGlobSet::from_path_glob(&below)?;
        let root = workspace.resolve(&root.to_string_lossy(), FinalLinkMode::Follow)?;
        Ok(Self { written: written.to_owned(), root, pattern })
    }

    /// The glob as the caller wrote it.
    pub(crate) fn pattern(&self) -> &str {
        &self.written
    }

    /// The folder it looks in.
    pub(crate) fn root(&self) -> &ResolvedPath {
        &self.root
    }

    /// Looks for its files and keeps the first `max` of them.
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

/// One thread's share of the search: the first files that match, and how many there were.
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

/// The root a glob is about, and the rest of it.
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
        let outside = "does not lie in the workspace; name its files one by one";
        check(&host, "/etc/*.conf", &format!("`/etc/*.conf` {outside}"));
        check(&host, "~/*.conf", &format!("`~/*.conf` {outside}"));
        for glob in ["a/../../*", "src/{a"] {
            let error = FileGlob::new(glob, host.workspace()).unwrap_err();
            assert_eq!(error.reason(), Some(ErrorReason::BadPattern), "{glob}");
        }
    }
}
