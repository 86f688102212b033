//! What links in protected paths lead to, and programs that settings name.
//!
//! A mount makes a protected folder read-only, but not the files that links in it point at: a hook
//! `.git/hooks/pre-commit -> ../../scripts/pre-commit.sh` runs a file elsewhere in the workspace. So
//! the targets are protected as well, and the links on the way to them. Programs that settings name
//! are protected in the same way.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use zero_core::{ErrorReason, ErrorType, ToolError};
use zero_sandbox::path_survey::{self, ChangeStamp, FolderListing, PathReachability};

use super::git_repositories::ForbiddenPath;
use super::protected_settings::UNHELD_ENTRIES_MAX;

/// Most entries of protected folders that are inspected. Commands cannot add any.
const ENTRIES_MAX: usize = 100_000;
/// Most targets that are made read-only: a sandbox with many hundred mounts takes seconds to build.
const HELD_MAX: usize = 200;
/// The description of a target or link.
const TARGET: &str = "a path to which a link in a protected folder leads";

/// What links in protected paths lead to, by mechanism.
#[derive(Debug, Default)]
pub(super) struct LinkTargets {
    /// Existing targets, which must not change.
    pub(super) held: Vec<PathBuf>,
    /// Missing targets, which must not be created, and links, which must not be replaced.
    pub(super) watched: Vec<ForbiddenPath>,
    /// Targets beyond the mount limit, with a stamp that shows later changes.
    pub(super) unheld: Vec<(PathBuf, Option<ChangeStamp>)>,
}

/// Finds what links in these protected paths and `named` files lead to, as far as it is in the writable folders
/// `bases`. A folder that contains one of the folders `open` is not protected: then nothing could be
/// changed. Fails if there are too many entries to inspect: then no command may change files.
pub(super) fn find_link_targets(
    protected: &[PathBuf],
    named: &[(PathBuf, &'static str)],
    bases: &[PathBuf],
    open: &BTreeSet<PathBuf>,
) -> Result<LinkTargets, ToolError> {
    let mut search = LinkSearch {
        protected: protected.iter().filter_map(|path| path_survey::canonicalize(path)).collect(),
        bases,
        open,
        pending: protected.iter().map(|path| (path.clone(), TARGET)).collect(),
        visited: BTreeSet::new(),
        entries_left: ENTRIES_MAX,
        found: LinkTargets::default(),
    };
    search.pending.extend(named.iter().cloned());
    while let Some((path, why)) = search.pending.pop() {
        search.inspect(&path, why)?;
    }
    search.found.held.sort();
    Ok(search.found)
}

struct LinkSearch<'a> {
    /// What is read-only already, or becomes so.
    protected: BTreeSet<PathBuf>,
    bases: &'a [PathBuf],
    /// Folders that commands have to change.
    open: &'a BTreeSet<PathBuf>,
    /// Paths that are still to be inspected, with descriptions.
    pending: Vec<(PathBuf, &'static str)>,
    /// Real paths that were inspected.
    visited: BTreeSet<PathBuf>,
    entries_left: usize,
    found: LinkTargets,
}

impl LinkSearch<'_> {
    fn inspect(&mut self, path: &Path, why: &'static str) -> Result<(), ToolError> {
        let trace = path_survey::trace_links(path);
        for link in &trace.links {
            if !self.is_protected(link) {
                self.watch(link, why);
            }
        }
        // Nobody can follow a loop of links either, and what is in a closed folder is protected with
        // that folder.
        let Some(real) = trace.target else { return Ok(()) };
        if !self.is_protected(&real) {
            let contains = |inner: &PathBuf| inner.starts_with(&real);
            let leads_up = !trace.links.is_empty() && path.starts_with(&real);
            if leads_up || self.bases.iter().chain(self.open).any(contains) {
                return Ok(());
            }
            // Commands cannot change what is outside, however much that is.
            if !self.bases.iter().any(|base| real.starts_with(base)) {
                return Ok(());
            }
            self.protect(&real, why);
        }
        if !self.visited.insert(real.clone()) {
            return Ok(());
        }
        match path_survey::list_folder(&real, self.entries_left) {
            FolderListing::Names(entries) => {
                self.entries_left -= entries.len();
                let inner = entries.into_iter().filter(|entry| entry.is_folder || entry.is_link);
                self.pending.extend(inner.map(|entry| (real.join(entry.name), TARGET)));
                Ok(())
            }
            FolderListing::TooMany => Err(too_many_error(&real)),
            FolderListing::NoFolder | FolderListing::Closed => Ok(()),
        }
    }

    fn is_protected(&self, path: &Path) -> bool {
        path.ancestors().any(|above| self.protected.contains(above))
    }

    fn protect(&mut self, real: &Path, why: &'static str) {
        if !self.bases.iter().any(|base| real.starts_with(base)) {
            return;
        }
        if path_survey::check_reachability(real) == PathReachability::Missing {
            return self.watch(real, why);
        }
        let stamp = match self.found.held.len() < HELD_MAX {
            true => None,
            false => path_survey::read_tree_stamp(real, UNHELD_ENTRIES_MAX),
        };
        match stamp {
            Some(_) => self.found.unheld.push((real.to_owned(), stamp)),
            None => self.found.held.push(real.to_owned()),
        }
        self.protected.insert(real.to_owned());
    }

    fn watch(&mut self, path: &Path, why: &'static str) {
        let inside = self.bases.iter().find_map(|base| Some((base, path.strip_prefix(base).ok()?)));
        if let Some((base, relative)) = inside {
            let (folder, relative) = (base.clone(), relative.to_owned());
            let new = ForbiddenPath { folder, relative, why };
            if !self.found.watched.contains(&new) {
                self.found.watched.push(new);
            }
        }
    }
}

fn too_many_error(folder: &Path) -> ToolError {
    let message = format!(
        "no command can change files here: `{}` is protected, and protected folders here have more than {ENTRIES_MAX} entries, too many to look for links that lead to unprotected files; remove files from it, or work in a smaller folder",
        folder.display()
    );
    ToolError::new(ErrorType::PermissionDenied, ErrorReason::AccessDenied, message)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests set up real files")]
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    struct LinkFixture {
        temp: tempfile::TempDir,
    }

    impl LinkFixture {
        fn new() -> Self {
            let temp = tempfile::tempdir().unwrap();
            for folder in ["w/.git/hooks/deep", "w/scripts", "w/real", "outside"] {
                fs::create_dir_all(temp.path().join(folder)).unwrap();
            }
            for file in ["w/scripts/a.sh", "w/real/b.sh", "outside/c.sh"] {
                fs::write(temp.path().join(file), "").unwrap();
            }
            Self { temp }
        }

        fn path(&self, name: &str) -> PathBuf {
            self.temp.path().canonicalize().unwrap().join(name)
        }

        fn find(&self) -> LinkTargets {
            let open = BTreeSet::from([self.path("w/.git")]);
            let hooks = [self.path("w/.git/hooks")];
            find_link_targets(&hooks, &[], &[self.path("w")], &open).unwrap()
        }

        /// Checks which paths of the workspace become read-only, and which are watched.
        #[track_caller]
        fn check(&self, link: (&str, &str), held: &[&str], watched: &[&str]) {
            let at = self.path("w/.git/hooks").join(link.0);
            symlink(link.1, &at).unwrap();
            let found = self.find();
            let expected: Vec<PathBuf> = held.iter().map(|name| self.path(name)).collect();
            assert_eq!(found.held, expected, "{link:?}");
            let found: Vec<PathBuf> =
                found.watched.iter().map(|path| path.folder.join(&path.relative)).collect();
            let expected: Vec<PathBuf> = watched.iter().map(|name| self.path(name)).collect();
            assert_eq!(found, expected, "{link:?}");
            fs::remove_file(at).unwrap();
        }
    }

    #[test]
    fn targets_of_links_in_protected_folder_are_held() {
        let fixture = LinkFixture::new();
        fixture.check(("pre-commit", "../../scripts/a.sh"), &["w/scripts/a.sh"], &[]);
        fixture.check(("deep/x", "../../../scripts/a.sh"), &["w/scripts/a.sh"], &[]);
        let absolute = fixture.path("w/scripts");
        fixture.check(("x", absolute.to_str().unwrap()), &["w/scripts"], &[]);
        fixture.check(("x", "../../scripts/none.sh"), &[], &["w/scripts/none.sh"]);
        fixture.check(("x", "../../../outside/c.sh"), &[], &[]);
        // A large folder outside is not searched.
        fixture.check(("x", "/usr"), &[], &[]);
        // What is read-only already, what contains it, and a loop.
        fixture.check(("x", "deep"), &[], &[]);
        fixture.check(("x", "../.."), &[], &[]);
        fixture.check(("x", "x"), &[], &[]);
    }

    #[test]
    fn links_on_the_way_are_watched() {
        let fixture = LinkFixture::new();
        symlink("../real/b.sh", fixture.path("w/scripts/b.sh")).unwrap();
        fixture.check(("x", "../../scripts/b.sh"), &["w/real/b.sh"], &["w/scripts/b.sh"]);
        symlink("scripts", fixture.path("w/tools")).unwrap();
        let watched = ["w/tools", "w/scripts/b.sh"];
        fixture.check(("x", "../../tools/b.sh"), &["w/real/b.sh"], &watched);
        // In a target that is a folder.
        let held = ["w/real/b.sh", "w/scripts"];
        fixture.check(("x", "../../scripts"), &held, &[]);
    }

    #[test]
    fn excess_targets_are_only_checked_afterwards() {
        let fixture = LinkFixture::new();
        for number in 0..=HELD_MAX {
            let file = fixture.path(&format!("w/scripts/{number}"));
            fs::write(&file, "").unwrap();
            symlink(&file, fixture.path(&format!("w/.git/hooks/{number}"))).unwrap();
        }
        let found = fixture.find();
        assert_eq!((found.held.len(), found.unheld.len()), (HELD_MAX, 1));
    }
}
