//! What links in protected paths lead to, and programs that settings name.
//!
//! A mount makes a protected folder read-only, but not the files that links in it point at: a hook
//! `.git/hooks/pre-commit -> ../../scripts/pre-commit.sh` runs a file elsewhere in the workspace. So
//! the targets are protected as well, and the links on the way to them. Programs that settings name
//! are protected in the same way.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use zero_sandbox::path_survey::{self, ChangeStamp, FolderListing, LinkTracer, PathReachability};

use super::forbidden_path::{ForbiddenPath, UNHELD_ENTRIES_MAX};
use super::protection_limit::ProtectionLimit;

/// Most entries of protected folders that are inspected. Commands cannot add any.
const ENTRIES_MAX: usize = 100_000;
/// Most targets that are made read-only: a sandbox with many hundred mounts takes seconds to build.
const HELD_MAX: usize = 200;
/// Most searches whose results are remembered: two for each workspace.
const SEARCHES_MAX: usize = 16;
/// The description of a target or link.
const TARGET: &str = "a path to which a link in a protected folder leads";

/// What to search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LinkQuery {
    /// Protected paths, whose links are followed.
    pub(super) protected: Vec<PathBuf>,
    /// Further paths that are protected if they are in a writable folder, with descriptions.
    pub(super) named: Vec<(PathBuf, &'static str)>,
    /// The writable folders: nothing else is protected.
    pub(super) bases: Vec<PathBuf>,
    /// Folders that commands have to change. A folder that contains one is not protected: then nothing
    /// could be changed.
    pub(super) open: BTreeSet<PathBuf>,
}

/// What links in protected paths lead to, by mechanism.
#[derive(Debug, Default)]
pub(super) struct LinkTargets {
    /// Existing targets, which must not change.
    pub(super) held_paths: Vec<PathBuf>,
    /// Missing targets, which must not be created, and links, which must not be replaced.
    pub(super) watched: Vec<ForbiddenPath>,
    /// Targets beyond the mount limit, with a stamp that shows later changes.
    pub(super) unmounted: Vec<(PathBuf, Option<ChangeStamp>)>,
    /// For each of these paths, the protected path that leads to it, and the description.
    pub(super) sources: BTreeMap<PathBuf, (PathBuf, &'static str)>,
}

/// The results of the last searches.
#[derive(Debug, Default)]
pub(super) struct LinkTargetCache {
    searches: Vec<LinkSearchRecord>,
}

/// The result of a search, and the folders on the way to everything that it inspected. As long as these
/// do not change, every name in them means the same.
#[derive(Debug)]
struct LinkSearchRecord {
    query: LinkQuery,
    folders: Vec<(PathBuf, Option<ChangeStamp>)>,
    found: Arc<LinkTargets>,
}

impl LinkTargetCache {
    /// Finds what links in protected paths lead to, as far as it is in the writable folders. Fails if
    /// there are too many entries to inspect: then no command may change files.
    pub(super) fn find(&mut self, query: LinkQuery) -> Result<Arc<LinkTargets>, ProtectionLimit> {
        let known = self.searches.iter().position(|search| search.query == query);
        if let Some(at) = known {
            let search = self.searches.swap_remove(at);
            let is_same = |(folder, stamp): &(PathBuf, Option<ChangeStamp>)| {
                path_survey::read_stamp(folder) == *stamp
            };
            if search.folders.iter().all(is_same) {
                let found = Arc::clone(&search.found);
                self.searches.push(search);
                return Ok(found);
            }
        }
        let started = SystemTime::now();
        let (found, folders) = find_link_targets(&query)?;
        let found = Arc::new(found);
        let stamped = |folder: PathBuf| {
            let stamp = path_survey::read_stamp(&folder);
            (folder, stamp)
        };
        let folders: Vec<_> = folders.into_iter().map(stamped).collect();
        // A folder that may have changed during the search has another meaning than was found.
        let is_settled =
            folders.iter().all(|(_, stamp)| stamp.is_none_or(|it| !it.is_changed_since(started)));
        // The stamps of these targets are those of now.
        if is_settled && found.unmounted.is_empty() {
            if self.searches.len() >= SEARCHES_MAX {
                self.searches.remove(0);
            }
            self.searches.push(LinkSearchRecord { query, folders, found: Arc::clone(&found) });
        }
        Ok(found)
    }
}

/// The targets, and the folders on the way to everything that was inspected.
fn find_link_targets(
    query: &LinkQuery,
) -> Result<(LinkTargets, BTreeSet<PathBuf>), ProtectionLimit> {
    let LinkQuery { protected, named, bases, open } = query;
    let mut search = LinkTargetSearch {
        protected: BTreeSet::new(),
        bases,
        open,
        pending: protected.iter().map(|path| (path.clone(), TARGET)).collect(),
        visited: BTreeSet::new(),
        watched: HashSet::new(),
        folders: BTreeSet::new(),
        entries_left: ENTRIES_MAX,
        tracer: LinkTracer::default(),
        found: LinkTargets::default(),
    };
    for path in protected {
        let real = search.tracer.canonicalize(path);
        search.protected.extend(real);
    }
    search.pending.extend(named.iter().cloned());
    while let Some((path, why)) = search.pending.pop() {
        search.inspect(&path, why)?;
    }
    search.found.held_paths.sort();
    Ok((search.found, search.folders))
}

struct LinkTargetSearch<'a> {
    /// What is read-only already, or becomes so.
    protected: BTreeSet<PathBuf>,
    bases: &'a [PathBuf],
    /// Folders that commands have to change.
    open: &'a BTreeSet<PathBuf>,
    /// Paths that are still to be inspected, with descriptions.
    pending: Vec<(PathBuf, &'static str)>,
    /// Real paths that were inspected.
    visited: BTreeSet<PathBuf>,
    /// Paths that are watched already.
    watched: HashSet<PathBuf>,
    /// The folders on the way to what was inspected.
    folders: BTreeSet<PathBuf>,
    entries_left: usize,
    tracer: LinkTracer,
    found: LinkTargets,
}

impl LinkTargetSearch<'_> {
    fn inspect(&mut self, path: &Path, why: &'static str) -> Result<(), ProtectionLimit> {
        let trace = self.tracer.trace(path);
        let way = trace.links.iter().chain(&trace.target).map(PathBuf::as_path);
        for step in std::iter::once(path).chain(way) {
            add_folders(&mut self.folders, step.parent());
        }
        for link in &trace.links {
            if !self.is_protected(link) {
                self.watch(link, path, why);
            }
        }
        // No program can follow a loop of links either, and the contents of a closed folder are
        // protected with that folder.
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
            self.protect(&real, path, why);
        }
        if !self.visited.insert(real.clone()) {
            return Ok(());
        }
        match path_survey::list_folder(&real, self.entries_left) {
            FolderListing::Names(entries) => {
                add_folders(&mut self.folders, Some(&real));
                self.entries_left -= entries.len();
                let inner = entries.into_iter().filter(|entry| entry.is_folder || entry.is_link);
                self.pending.extend(inner.map(|entry| (real.join(entry.name), TARGET)));
                Ok(())
            }
            FolderListing::TooMany => Err(too_many_entries(&real)),
            FolderListing::Closed => {
                add_folders(&mut self.folders, Some(&real));
                Ok(())
            }
            FolderListing::NoFolder => Ok(()),
        }
    }

    fn is_protected(&self, path: &Path) -> bool {
        path.ancestors().any(|above| self.protected.contains(above))
    }

    fn protect(&mut self, real: &Path, from: &Path, why: &'static str) {
        if !self.bases.iter().any(|base| real.starts_with(base)) {
            return;
        }
        if path_survey::check_reachability(real) == PathReachability::Missing {
            return self.watch(real, from, why);
        }
        let stamp = match self.found.held_paths.len() < HELD_MAX {
            true => None,
            false => path_survey::read_tree_stamp(real, UNHELD_ENTRIES_MAX),
        };
        match stamp {
            Some(_) => self.found.unmounted.push((real.to_owned(), stamp)),
            None => self.found.held_paths.push(real.to_owned()),
        }
        self.found.sources.insert(real.to_owned(), (from.to_owned(), why));
        self.protected.insert(real.to_owned());
    }

    fn watch(&mut self, path: &Path, from: &Path, why: &'static str) {
        let inside = self.bases.iter().find_map(|base| Some((base, path.strip_prefix(base).ok()?)));
        if let Some((base, relative)) = inside
            && self.watched.insert(path.to_owned())
        {
            let (folder, relative) = (base.clone(), relative.to_owned());
            self.found.watched.push(ForbiddenPath { folder, relative, why });
            self.found.sources.insert(path.to_owned(), (from.to_owned(), why));
        }
    }
}

/// Adds a folder and all folders above it.
fn add_folders(folders: &mut BTreeSet<PathBuf>, folder: Option<&Path>) {
    for above in folder.into_iter().flat_map(Path::ancestors) {
        if folders.contains(above) {
            return;
        }
        folders.insert(above.to_owned());
    }
}

fn too_many_entries(folder: &Path) -> ProtectionLimit {
    ProtectionLimit {
        reason: format!(
            "`{}` is protected, and protected folders here have more than {ENTRIES_MAX} entries, too many to look for links that lead to unprotected files",
            folder.display()
        ),
        advice: "remove files from it, or work in a smaller folder",
    }
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
            find_link_targets(&self.query()).unwrap().0
        }

        fn query(&self) -> LinkQuery {
            LinkQuery {
                protected: vec![self.path("w/.git/hooks")],
                named: Vec::new(),
                bases: vec![self.path("w")],
                open: BTreeSet::from([self.path("w/.git")]),
            }
        }

        /// Checks which paths of the workspace become read-only, and which are watched.
        #[track_caller]
        fn check(&self, link: (&str, &str), held: &[&str], watched: &[&str]) {
            let at = self.path("w/.git/hooks").join(link.0);
            symlink(link.1, &at).unwrap();
            let found = self.find();
            let expected: Vec<PathBuf> = held.iter().map(|name| self.path(name)).collect();
            assert_eq!(found.held_paths, expected, "{link:?}");
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
        assert_eq!((found.held_paths.len(), found.unmounted.len()), (HELD_MAX, 1));
    }

    /// Repeats a search until its result is remembered: change times are coarse.
    fn find_remembered(cache: &mut LinkTargetCache, query: &LinkQuery) -> Arc<LinkTargets> {
        for _ in 0..10_000 {
            let found = cache.find(query.clone()).unwrap();
            if Arc::ptr_eq(&found, &cache.find(query.clone()).unwrap()) {
                return found;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        panic!("the result is never remembered");
    }

    #[test]
    fn unchanged_folders_are_not_searched_again() {
        let fixture = LinkFixture::new();
        let mut cache = LinkTargetCache::default();
        symlink("../../scripts/a.sh", fixture.path("w/.git/hooks/x")).unwrap();
        let query = fixture.query();
        let first = find_remembered(&mut cache, &query);
        assert_eq!(first.held_paths, [fixture.path("w/scripts/a.sh")]);
        // The contents of a file do not matter.
        fs::write(fixture.path("w/scripts/a.sh"), "more").unwrap();
        assert!(Arc::ptr_eq(&first, &cache.find(query.clone()).unwrap()));
        // A link in a folder that was searched, and one on the way to a target.
        symlink("../../../real/b.sh", fixture.path("w/.git/hooks/deep/y")).unwrap();
        let second = find_remembered(&mut cache, &query);
        assert_eq!(
            second.held_paths,
            ["w/real/b.sh", "w/scripts/a.sh"].map(|name| fixture.path(name))
        );
        fs::rename(fixture.path("w/scripts"), fixture.path("w/moved")).unwrap();
        symlink("moved", fixture.path("w/scripts")).unwrap();
        let third = cache.find(query).unwrap();
        assert_eq!(
            third.held_paths,
            ["w/moved/a.sh", "w/real/b.sh"].map(|name| fixture.path(name))
        );
        assert_eq!(third.watched.len(), 1, "the link on the way");
    }
}
