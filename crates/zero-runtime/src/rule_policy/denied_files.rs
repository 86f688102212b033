//! Finds the files that rules deny, so that they can be hidden from commands or made read-only.
//!
//! A folder that cannot be listed cannot be searched. Its mode is no protection: the owner, and so
//! a command of the owner, can change it. So it is hidden as a whole.

use std::path::{Path, PathBuf};

use zero_sandbox::path_survey::{self, FolderListing, PathReachability};

/// Most names visited in total.
const LOOKED_MAX: usize = 200_000;
/// Most names visited in one folder.
const FOLDER_MAX: usize = 50_000;

/// Folders of the kernel: they hold no user files, and a search in them would not end.
const KERNEL_FOLDERS: &[&str] = &["/proc", "/sys", "/dev"];

/// Whether a path may be accessed, given as found and as resolved.
pub(super) type FilePredicate<'a> = dyn Fn(&Path, &Path) -> bool + 'a;

/// Every path at or beneath `starts` that `is_allowed` denies, links by what they lead to, and every
/// folder that cannot be searched. `None` if there are more than `most`, or too many names to visit.
pub(super) fn find(
    starts: Vec<PathBuf>,
    most: usize,
    is_allowed: &FilePredicate<'_>,
) -> Option<Vec<PathBuf>> {
    let DeniedPaths { paths, link_targets, is_complete, .. } = search(starts, most, is_allowed);
    let mut found = [paths, link_targets].concat();
    found.sort();
    found.dedup();
    (is_complete && found.len() <= most).then_some(found)
}

/// Like [`find`], with links apart, and with what was found before the search gave up.
pub(super) fn search(
    starts: Vec<PathBuf>,
    most: usize,
    is_allowed: &FilePredicate<'_>,
) -> DeniedPaths {
    let found = DeniedPaths { is_complete: true, ..DeniedPaths::default() };
    let mut search = DeniedFileSearch { found, open: Vec::new(), looked: 0, most, is_allowed };
    for start in starts {
        search.add_start(start);
    }
    while let Some(folder) = search.open.pop() {
        if search.search_folder(&folder).is_err() {
            search.found.is_complete = false;
            break;
        }
    }
    search.found
}

/// The result of a search.
#[derive(Default)]
pub(super) struct DeniedPaths {
    /// Files and folders that are no links.
    pub(super) paths: Vec<PathBuf>,
    /// Links that are denied by their own names.
    pub(super) links: Vec<PathBuf>,
    /// What links lead to.
    pub(super) link_targets: Vec<PathBuf>,
    /// Whether everything was searched.
    pub(super) is_complete: bool,
}

struct DeniedFileSearch<'a> {
    found: DeniedPaths,
    open: Vec<SearchFolder>,
    looked: usize,
    most: usize,
    is_allowed: &'a FilePredicate<'a>,
}

/// A folder to search. An entry that is not a link resolves to the same name in the resolved
/// folder, so links are not followed again for every file.
struct SearchFolder {
    path: PathBuf,
    denotes: PathBuf,
}

struct TooManyFiles;

impl DeniedFileSearch<'_> {
    fn add_start(&mut self, path: PathBuf) {
        let denotes = path_survey::canonicalize(&path).unwrap_or_else(|| path.clone());
        match path_survey::check_reachability(&path) {
            PathReachability::Missing => {}
            PathReachability::Closed(folder) => self.add_closed_folder(folder),
            PathReachability::Open if !(self.is_allowed)(&path, &denotes) => {
                self.found.paths.push(path);
            }
            PathReachability::Open => self.open.push(SearchFolder { path, denotes }),
        }
    }

    fn search_folder(&mut self, folder: &SearchFolder) -> Result<(), TooManyFiles> {
        let names = match path_survey::list_folder(&folder.path, FOLDER_MAX) {
            FolderListing::Names(names) => names,
            FolderListing::TooMany => return Err(TooManyFiles),
            FolderListing::NoFolder => return Ok(()),
            FolderListing::Closed => {
                self.add_closed_folder(folder.path.clone());
                return Ok(());
            }
        };
        self.looked += names.len();
        if self.looked > LOOKED_MAX {
            return Err(TooManyFiles);
        }
        // One buffer for all entries: most are checked and dropped.
        let (mut path, mut denotes) = (folder.path.clone(), folder.denotes.clone());
        for name in names {
            path.push(&name.name);
            denotes.push(&name.name);
            if name.is_link {
                self.check_link(&path);
            } else if !(self.is_allowed)(&path, &denotes) {
                self.found.paths.push(path.clone());
            } else if name.is_folder && !is_kernel_folder(&path) {
                self.open.push(SearchFolder { path: path.clone(), denotes: denotes.clone() });
            }
            path.pop();
            denotes.pop();
            if self.found.paths.len() + self.found.links.len() > self.most {
                return Err(TooManyFiles);
            }
        }
        Ok(())
    }

    /// The target of a link is what must be hidden.
    fn check_link(&mut self, path: &Path) {
        match path_survey::canonicalize(path) {
            Some(denotes) if (self.is_allowed)(path, &denotes) => {}
            Some(denotes) => {
                // A link with another name may lead there; only what it leads to is denied.
                if !(self.is_allowed)(path, path) {
                    self.found.links.push(path.to_owned());
                }
                self.found.link_targets.push(denotes);
            }
            // A link loop, or a link through an inaccessible folder: hide what it would lead to.
            None if (self.is_allowed)(path, path) => {}
            None => {
                if let PathReachability::Closed(folder) =
                    path_survey::check_reachability(&path.join("."))
                {
                    self.add_closed_folder(folder);
                }
            }
        }
    }

    fn add_closed_folder(&mut self, folder: PathBuf) {
        if path_survey::can_open(&folder) {
            self.found.paths.push(folder);
        }
    }
}

fn is_kernel_folder(folder: &Path) -> bool {
    KERNEL_FOLDERS.iter().any(|kernels| folder == Path::new(kernels))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests set up real files")]
    use super::*;

    #[test]
    fn denied_files_are_found_at_any_location() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        for file in ["w/.env", "w/a/b/.env", "w/keys/x", "w/keys/y", "w/plain", "home/key"] {
            std::fs::create_dir_all(root.join(file).parent().unwrap()).unwrap();
            std::fs::write(root.join(file), "").unwrap();
        }
        std::os::unix::fs::symlink("../home/key", root.join("w/.env.link")).unwrap();
        let is_allowed = |path: &Path, _: &Path| {
            let name = path.file_name().unwrap().to_str().unwrap();
            !(name.starts_with(".env") || name == "keys")
        };
        let at = |names: &[&str]| Some(names.iter().map(|n| root.join(n)).collect::<Vec<_>>());
        let found = find(vec![root.join("w"), root.join("none")], 10, &is_allowed);
        assert_eq!(found, at(&["home/key", "w/.env", "w/a/b/.env", "w/keys"]));
        assert_eq!(find(vec![root.join("w")], 3, &is_allowed), None);
        assert_eq!(find(vec![root.join("w/keys")], 3, &is_allowed), at(&["w/keys"]));
        assert_eq!(find(vec![root.join("home")], 3, &is_allowed), at(&[]));
    }
}
