//! Finds what rules deny to be read, so that it can be hidden from commands.
//!
//! A folder that cannot be listed cannot be searched. Its mode is no wall, though: whoever owns it
//! can change that, and so can a command of theirs. So it is hidden as a whole.

use std::path::{Path, PathBuf};

use zero_sandbox::path_survey::{self, FolderListing, PathReachability};

/// Names that are looked at in all.
const LOOKED_MAX: usize = 200_000;
/// Names in one folder that are looked at.
const FOLDER_MAX: usize = 50_000;

/// Folders that are the kernel's: no person keeps files there, and looking comes to no end.
const KERNEL_FOLDERS: &[&str] = &["/proc", "/sys", "/dev"];

/// Whether something may be read, by its path as it is found and by what that denotes.
pub(super) type ReadPredicate<'a> = dyn Fn(&Path, &Path) -> bool + 'a;

/// Everything at or beneath `starts` that `may_read` refuses, and every folder of which that cannot
/// be said. `None` when there is more than `most`, or too much to look at.
pub(super) fn find(
    starts: Vec<PathBuf>,
    most: usize,
    may_read: &ReadPredicate<'_>,
) -> Option<Vec<PathBuf>> {
    let mut search =
        DeniedFileSearch { found: Vec::new(), open: Vec::new(), looked: 0, most, may_read };
    for start in starts {
        search.add_start(start);
    }
    while let Some(folder) = search.open.pop() {
        search.search_folder(&folder).ok()?;
    }
    let mut found = search.found;
    found.sort();
    found.dedup();
    (found.len() <= most).then_some(found)
}

struct DeniedFileSearch<'a> {
    found: Vec<PathBuf>,
    open: Vec<SearchFolder>,
    looked: usize,
    most: usize,
    may_read: &'a ReadPredicate<'a>,
}

/// A folder to look into. What lies in it and is no link denotes the same name in what it denotes,
/// so that no way has to be followed again for every file.
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
            PathReachability::Open if !(self.may_read)(&path, &denotes) => self.found.push(path),
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
        // One buffer for all of them: most are judged and forgotten.
        let (mut path, mut denotes) = (folder.path.clone(), folder.denotes.clone());
        for name in names {
            path.push(&name.name);
            denotes.push(&name.name);
            if name.is_link {
                self.check_link(&path);
            } else if !(self.may_read)(&path, &denotes) {
                self.found.push(path.clone());
            } else if name.is_folder && !is_kernel_folder(&path) {
                self.open.push(SearchFolder { path: path.clone(), denotes: denotes.clone() });
            }
            path.pop();
            denotes.pop();
            if self.found.len() > self.most {
                return Err(TooManyFiles);
            }
        }
        Ok(())
    }

    /// What a link stands for is what has to be hidden.
    fn check_link(&mut self, path: &Path) {
        match path_survey::canonicalize(path) {
            Some(denotes) if (self.may_read)(path, &denotes) => {}
            Some(denotes) => self.found.push(denotes),
            // It leads round in circles, or through a folder that is closed: what would be entered
            // behind it says which.
            None if (self.may_read)(path, path) => {}
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
            self.found.push(folder);
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
        let may_read = |path: &Path, _: &Path| {
            let name = path.file_name().unwrap().to_str().unwrap();
            !(name.starts_with(".env") || name == "keys")
        };
        let at = |names: &[&str]| Some(names.iter().map(|n| root.join(n)).collect::<Vec<_>>());
        let found = find(vec![root.join("w"), root.join("none")], 10, &may_read);
        assert_eq!(found, at(&["home/key", "w/.env", "w/a/b/.env", "w/keys"]));
        assert_eq!(find(vec![root.join("w")], 3, &may_read), None);
        assert_eq!(find(vec![root.join("w/keys")], 3, &may_read), at(&["w/keys"]));
        assert_eq!(find(vec![root.join("home")], 3, &may_read), at(&[]));
    }
}
