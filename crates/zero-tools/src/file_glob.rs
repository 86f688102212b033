//! A glob that stands for files of the workspace, where a tool takes file names.
//!
//! It means what it means to Glob: it is matched against the path below the workspace root, `*`
//! does not cross `/`, and it never brings back what `.gitignore` leaves out, links, `.git`, or
//! hidden files it does not name.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher};
use ignore::{DirEntry, WalkBuilder};
use zero_core::{Reason, ToolError};
use zero_runtime::CallContext;
use zero_sandbox::located::Folder;
use zero_sandbox::{LastLink, Located, Workspace};

/// Longest glob, in bytes.
const GLOB_BYTES_MAX: usize = 4_096;

/// A glob over the files beneath a workspace root.
#[derive(Debug)]
pub(crate) struct FileGlob {
    written: String,
    root: Located,
    /// What is matched against the path below the root.
    below: String,
    matcher: GlobMatcher,
}

/// The files a glob stands for.
#[derive(Debug)]
pub(crate) struct Found {
    /// The root they lie in, held open.
    pub(crate) folder: Folder,
    /// Paths below it, sorted; the first of them.
    pub(crate) paths: BTreeSet<PathBuf>,
    /// How many there are in all.
    pub(crate) count: u64,
}

impl FileGlob {
    /// Whether a name can only be meant as a glob, unless a file has that very name.
    pub(crate) fn looks_like_one(name: &str) -> bool {
        name.contains(['*', '?', '[', '{'])
    }

    /// Settles which root a glob is about and compiles it.
    pub(crate) fn new(written: &str, workspace: &Workspace) -> Result<Self, ToolError> {
        let refuse =
            |why: String| ToolError::invalid(Reason::BadPattern, why).with("pattern", written);
        if written.len() > GLOB_BYTES_MAX {
            return Err(refuse(format!("the glob is longer than {GLOB_BYTES_MAX} bytes")));
        }
        let (root, below) = below_root(written, workspace).ok_or_else(|| {
            refuse(format!("`{written}` does not lie in the workspace; name its files one by one"))
        })?;
        if below.split('/').any(|part| part == "..") {
            return Err(refuse(format!("`{written}` holds `..`; write it without")));
        }
        let glob = GlobBuilder::new(&below).literal_separator(true).build().map_err(|error| {
            refuse(format!(
                "`{written}` is not a glob: {}; write one such as `src/**/*.rs`",
                error.kind()
            ))
        })?;
        let root = workspace.locate(&root.to_string_lossy(), LastLink::Follow)?;
        Ok(Self { written: written.to_owned(), root, below, matcher: glob.compile_matcher() })
    }

    /// The glob as the caller wrote it.
    pub(crate) fn written(&self) -> &str {
        &self.written
    }

    /// The folder it looks in.
    pub(crate) fn root(&self) -> &Located {
        &self.root
    }

    /// Looks for its files and keeps the first `max` of them.
    pub(crate) fn find(&self, max: usize, cx: &CallContext) -> Result<Found, ToolError> {
        let folder = self.root.open_folder()?;
        let mut found = Found { folder, paths: BTreeSet::new(), count: 0 };
        let root = found.folder.path().to_owned();
        for entry in self.walk(&root).build() {
            cx.check_cancelled()?;
            // What cannot be looked at is left out, like what is not there.
            let Ok(entry) = entry else { continue };
            let below = entry.path().strip_prefix(&root).unwrap_or(entry.path());
            if is_file(&entry) && self.matcher.is_match(below) {
                found.count += 1;
                found.paths.insert(below.to_owned());
                if found.paths.len() > max {
                    found.paths.pop_last();
                }
            }
        }
        Ok(found)
    }

    /// A walk of no more than the folders a match can lie in.
    fn walk(&self, root: &Path) -> WalkBuilder {
        let mut walk = WalkBuilder::new(root);
        walk.require_git(false).hidden(!self.names_hidden()).max_depth(self.depth_max());
        let (root, spelled_out) = (root.to_owned(), self.spelled_out());
        walk.filter_entry(move |entry| {
            let below = entry.path().strip_prefix(&root).unwrap_or(entry.path());
            let on_the_way = spelled_out.starts_with(below) || below.starts_with(&spelled_out);
            on_the_way && entry.file_name() != ".git"
        });
        walk
    }

    /// The folders every match lies in, as far as the glob has no wildcard.
    fn spelled_out(&self) -> PathBuf {
        let is_plain = |part: &&str| !part.contains(['*', '?', '[', ']', '{', '}', '\\']);
        let folders = self.below.rsplit_once('/').map_or("", |(folders, _)| folders);
        folders.split('/').take_while(is_plain).collect()
    }

    /// Whether a component of it starts with a dot.
    fn names_hidden(&self) -> bool {
        self.below.split(['/', '{', ',']).any(|part| part.starts_with('.'))
    }

    /// How deep a match can lie, where the glob bounds it.
    fn depth_max(&self) -> Option<usize> {
        let is_bounded = !self.below.contains("**") && !self.below.contains('{');
        is_bounded.then(|| self.below.split('/').count())
    }
}

/// The root a glob is about, and the rest of it.
fn below_root<'a>(written: &str, workspace: &'a Workspace) -> Option<(&'a Path, String)> {
    let relative = |text: &str| text.strip_prefix("./").unwrap_or(text).to_owned();
    if written.starts_with('~') {
        return None;
    }
    if !written.starts_with('/') {
        return Some((workspace.cwd(), relative(written)));
    }
    let below = |root: &'a Path| Some((root, Path::new(written).strip_prefix(root).ok()?));
    let (root, below) =
        workspace.roots().filter_map(below).max_by_key(|(root, _)| root.as_os_str().len())?;
    Some((root, below.to_str()?.to_owned()))
}

fn is_file(entry: &DirEntry) -> bool {
    entry.file_type().is_some_and(|kind| kind.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TestHost;

    #[test]
    fn a_glob_outside_the_workspace_or_with_dots_is_refused() {
        let host = TestHost::new();
        #[track_caller]
        fn check(host: &TestHost, glob: &str, expected: &str) {
            let error = FileGlob::new(glob, host.workspace()).unwrap_err();
            assert_eq!((error.reason(), &*error.message), (Some(Reason::BadPattern), expected));
        }
        let outside = "does not lie in the workspace; name its files one by one";
        check(&host, "/etc/*.conf", &format!("`/etc/*.conf` {outside}"));
        check(&host, "~/*.conf", &format!("`~/*.conf` {outside}"));
        check(&host, "a/../../*", "`a/../../*` holds `..`; write it without");
        check(
            &host,
            "src/{a",
            "`src/{a` is not a glob: unclosed alternate group; missing '}' (maybe escape '{' with '[{]'?); write one such as `src/**/*.rs`",
        );
    }

    #[test]
    fn what_a_glob_rules_out_is_not_walked() {
        let host = TestHost::new();
        for (text, folder, depth, hidden) in [
            ("*.rs", "", Some(1), false),
            ("src/*.rs", "src", Some(2), false),
            ("./src/a/**/*.rs", "src/a", None, false),
            ("src/*/b/c.rs", "src", Some(4), false),
            ("{a,b/c}/x", "", None, false),
            (".github/*.yml", ".github", Some(2), true),
            ("**/.env*", "", None, true),
        ] {
            let glob = FileGlob::new(text, host.workspace()).unwrap();
            let found = (glob.spelled_out(), glob.depth_max(), glob.names_hidden());
            assert_eq!(found, (PathBuf::from(folder), depth, hidden), "{text}");
        }
    }
}
