//! Other names of hidden files.
//!
//! A mount hides one name of a file. A file with several hard links can be read by each of them, so
//! those in the workspace are hidden as well.
//!
//! The journal of changes is hidden, too, and has hard links of its own to files of the workspace:
//! to those that a running command changes, and to those that were replaced or removed. Such a link
//! makes nothing of the workspace secret.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use zero_sandbox::path_survey::{self, HardLinks};

/// Most names that are visited in a hidden folder of the workspace. No command can make a link to a
/// file that it does not see, so what is beyond would have been linked by the user.
const HIDDEN_NAMES_MAX: usize = 1_000;
/// Most names that are visited in the workspace. If there are more, a file with several names counts
/// as exposed. Files with several names are rare, so most commands visit none.
const NAMES_MAX: usize = 100_000;

/// Other names of hidden files.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct OtherNames {
    /// Those in the workspace.
    pub(super) found: Vec<PathBuf>,
    /// A hidden file with a name that was not found, by which commands may read it.
    pub(super) missed: Option<PathBuf>,
}

/// Finds other names of the files at and in `masked`, in the folders `roots`. `journals` is the
/// canonical folder of the journals, which commands do not see.
pub(super) fn find_other_names(
    masked: &[PathBuf],
    roots: &[PathBuf],
    journals: &Path,
) -> OtherNames {
    let is_searched = |path: &PathBuf| roots.iter().any(|root| path.starts_with(root));
    let (inside, outside): (Vec<&PathBuf>, Vec<&PathBuf>) =
        masked.iter().partition(|path| is_searched(path));
    let mut search = HardLinkSearch { linked: BTreeMap::new(), left: 0 };
    for path in &outside {
        search.add_file(path);
    }
    let is_journals = |folder: &Path| {
        folder.file_name() == journals.file_name()
            && path_survey::canonicalize(folder).as_deref() == Some(journals)
    };
    for path in inside {
        search.add_file(path);
        search.left = HIDDEN_NAMES_MAX;
        search.walk(path, is_journals, HardLinkSearch::add_file);
    }
    if search.linked.is_empty() {
        return OtherNames::default();
    }
    search.left = NAMES_MAX;
    let mut found = Vec::new();
    let is_masked = |path: &Path| masked.iter().any(|masked| path.starts_with(masked));
    let is_masked_folder = |folder: &Path| masked.iter().any(|masked| masked == folder);
    for root in roots {
        search.walk(root, is_masked_folder, |search, file| {
            if !is_masked(file) && search.count_name(file) {
                found.push(file.to_owned());
            }
        });
    }
    found.sort();
    found.dedup();
    if search.has_missing_names() {
        search.left = NAMES_MAX;
        search.walk(
            journals,
            |_| false,
            |search, file| {
                search.count_name(file);
            },
        );
    }
    let missed = search.linked.into_values().find(|linked| linked.names_left > 0);
    OtherNames { found, missed: missed.map(|linked| linked.path) }
}

/// A hidden file with several names.
struct LinkedFile {
    path: PathBuf,
    /// The names that were not found yet.
    names_left: u64,
}

struct HardLinkSearch {
    linked: BTreeMap<(u64, u64), LinkedFile>,
    left: usize,
}

impl HardLinkSearch {
    /// Adds a hidden file, if it has another name.
    fn add_file(&mut self, path: &Path) {
        let Some(HardLinks { identity, names }) = path_survey::read_hard_links(path) else {
            return;
        };
        if names > 1 {
            let new = LinkedFile { path: path.to_owned(), names_left: names };
            let linked = self.linked.entry(identity).or_insert(new);
            linked.names_left = linked.names_left.saturating_sub(1);
        }
    }

    /// Whether a file is a hidden one by another name.
    fn count_name(&mut self, path: &Path) -> bool {
        let links = path_survey::read_hard_links(path).filter(|links| links.names > 1);
        let Some(linked) = links.and_then(|links| self.linked.get_mut(&links.identity)) else {
            return false;
        };
        linked.names_left = linked.names_left.saturating_sub(1);
        true
    }

    fn has_missing_names(&self) -> bool {
        self.linked.values().any(|linked| linked.names_left > 0)
    }

    /// Calls `visit` for each file in a folder, but not in folders that are skipped. A folder that
    /// cannot be listed is passed over: a name in it stays missing.
    fn walk(
        &mut self,
        folder: &Path,
        is_skipped: impl Fn(&Path) -> bool,
        mut visit: impl FnMut(&mut Self, &Path),
    ) {
        let mut open = vec![folder.to_owned()];
        while let Some(folder) = open.pop() {
            if is_skipped(&folder) {
                continue;
            }
            let (mut files, mut names) = (Vec::new(), 0);
            path_survey::scan_folder(&folder, self.left, |name, is_folder| {
                names += 1;
                match is_folder {
                    true => open.push(folder.join(name)),
                    false => files.push(folder.join(name)),
                }
            });
            self.left = self.left.saturating_sub(names);
            files.iter().for_each(|file| visit(self, file));
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests set up real files")]
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn other_names_in_workspace_are_found() {
        let temp = tempfile::tempdir().unwrap();
        let at = |name: &str| temp.path().join(name);
        for name in ["work/deep", "work/secrets", "home"] {
            std::fs::create_dir_all(at(name)).unwrap();
        }
        for name in ["work/.env", "work/plain", "work/secrets/a", "home/.netrc", "home/single"] {
            std::fs::write(at(name), name).unwrap();
        }
        let masked = ["work/.env", "work/secrets", "home/.netrc", "home/single"].map(at);
        let find = || find_other_names(&masked, &[at("work")], &at("home/journal"));
        assert_eq!(find(), OtherNames::default());
        for (of, name) in [
            ("work/.env", "work/deep/copy"),
            ("work/secrets/a", "work/b"),
            ("work/secrets/a", "work/secrets/c"),
            ("home/.netrc", "work/netrc"),
            ("work/plain", "work/deep/plain"),
        ] {
            std::fs::hard_link(at(of), at(name)).unwrap();
        }
        // A folder that cannot be listed does not end the search, and neither do many hidden files.
        std::fs::create_dir_all(at("work/aa")).unwrap();
        std::fs::set_permissions(at("work/aa"), PermissionsExt::from_mode(0o000)).unwrap();
        for number in 0..HIDDEN_NAMES_MAX {
            std::fs::write(at(&format!("work/secrets/{number}")), "").unwrap();
        }
        let mut found = ["work/deep/copy", "work/b", "work/netrc"].map(at).to_vec();
        found.sort();
        assert_eq!(find(), OtherNames { found: found.clone(), missed: None });
        // One that is nowhere in the workspace.
        std::fs::hard_link(at("work/.env"), at("home/elsewhere")).unwrap();
        assert_eq!(find(), OtherNames { found, missed: Some(at("work/.env")) });
    }
    #[test]
    fn file_with_link_in_journal_is_not_hidden() {
        let temp = tempfile::tempdir().unwrap();
        let folder = temp.path().canonicalize().unwrap();
        let at = |name: &str| folder.join(name);
        for name in ["work/state/journal/key/1.set", "work/state/other/journal"] {
            std::fs::create_dir_all(at(name)).unwrap();
        }
        for name in ["work/log.txt", "work/.env", "work/state/secret", "work/state/other/journal/a"]
        {
            std::fs::write(at(name), name).unwrap();
        }
        for (of, name) in [
            ("work/log.txt", "work/state/journal/key/1.set/0.inode"),
            ("work/.env", "work/state/journal/key/1.set/1.inode"),
        ] {
            std::fs::hard_link(at(of), at(name)).unwrap();
        }
        let masked = ["work/.env", "work/state"].map(at);
        let find = || find_other_names(&masked, &[at("work")], &at("work/state/journal"));
        assert_eq!(find(), OtherNames::default());
        // The other files in zero's folder are hidden under all of their names.
        for (of, name) in [
            ("work/state/secret", "work/copy"),
            ("work/state/other/journal/a", "work/a"),
            ("work/.env", "work/env"),
        ] {
            std::fs::hard_link(at(of), at(name)).unwrap();
        }
        let found = ["work/a", "work/copy", "work/env"].map(at).to_vec();
        assert_eq!(find(), OtherNames { found, missed: None });
    }
}
