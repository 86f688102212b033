//! Finds what rules deny to be read, so that it can be hidden from commands.

use std::path::{Path, PathBuf};

use zero_sandbox::survey;

use crate::policy::DeniedFiles;

/// Names that are looked at in all.
const LOOKED_MAX: usize = 200_000;
/// Names in one folder that are looked at.
const FOLDER_MAX: usize = 50_000;

/// Folders that are the kernel's: no person keeps files there, and looking comes to no end.
const KERNELS: &[&str] = &["/proc", "/sys", "/dev"];

/// Everything at or beneath `starts` that `may_read` refuses. What cannot be listed cannot be judged
/// and is not searched; a command of the same person cannot list it either.
pub(super) fn find(
    starts: Vec<PathBuf>,
    most: usize,
    may_read: &dyn Fn(&Path) -> bool,
) -> DeniedFiles {
    let mut found = Vec::new();
    let mut looked = 0;
    let mut open: Vec<PathBuf> = Vec::new();
    for start in starts {
        match survey::exists(&start) && !may_read(&start) {
            true => found.push(start),
            false => open.push(start),
        }
    }
    while let Some(folder) = open.pop() {
        let Some(seen) = survey::names(&folder, FOLDER_MAX) else {
            if survey::kind(&folder) == Some(zero_sandbox::FileType::Directory)
                && survey::can_list(&folder)
            {
                return DeniedFiles::TooMany;
            }
            continue;
        };
        for seen in seen {
            looked += 1;
            if looked > LOOKED_MAX || found.len() > most {
                return DeniedFiles::TooMany;
            }
            match (may_read(&seen.path), seen.is_link) {
                // What a link stands for is what has to be hidden.
                (false, true) => found.extend(survey::canonical(&seen.path)),
                (false, false) => found.push(seen.path),
                (true, _) if seen.is_folder && !is_kernels(&seen.path) => open.push(seen.path),
                (true, _) => {}
            }
        }
    }
    found.sort();
    found.dedup();
    if found.len() > most { DeniedFiles::TooMany } else { DeniedFiles::All(found) }
}

fn is_kernels(folder: &Path) -> bool {
    KERNELS.iter().any(|kernels| folder == Path::new(kernels))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests set up real files")]
    use super::*;

    #[test]
    fn what_is_denied_is_found_wherever_it_lies() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        for file in ["w/.env", "w/a/b/.env", "w/keys/x", "w/keys/y", "w/plain", "home/key"] {
            std::fs::create_dir_all(root.join(file).parent().unwrap()).unwrap();
            std::fs::write(root.join(file), "").unwrap();
        }
        std::os::unix::fs::symlink("../home/key", root.join("w/.env.link")).unwrap();
        let may_read = |path: &Path| {
            let name = path.file_name().unwrap().to_str().unwrap();
            !(name.starts_with(".env") || name == "keys")
        };
        let at = |names: &[&str]| DeniedFiles::All(names.iter().map(|n| root.join(n)).collect());
        let found = find(vec![root.join("w"), root.join("none")], 10, &may_read);
        assert_eq!(found, at(&["home/key", "w/.env", "w/a/b/.env", "w/keys"]));
        assert_eq!(find(vec![root.join("w")], 3, &may_read), DeniedFiles::TooMany);
        assert_eq!(find(vec![root.join("w/keys")], 3, &may_read), at(&["w/keys"]));
        assert_eq!(find(vec![root.join("home")], 3, &may_read), at(&[]));
    }
}
