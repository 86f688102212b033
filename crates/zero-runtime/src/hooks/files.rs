//! The files of the workspace that the command line of a hook names.
//!
//! Whoever lets a hook run has looked at these, too: the words `.zero/hooks/check` say nothing of what
//! it does. So each is remembered as it was then, and a hook whose files are others now does not run.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use zero_core::Whereabouts;
use zero_policy::path::lexical;
use zero_sandbox::journal::sha256;
use zero_sandbox::{FileType, LastLink, Workspace};

/// Largest such file, in bytes. A larger one is never known to be what it was.
const FILE_BYTES_MAX: u64 = 16_000_000;
/// Words of a command line that are looked at.
const WORDS_MAX: usize = 256;

/// A place in the workspace that a hook names, and what stood there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookFile {
    path: PathBuf,
    stood: Stood,
}

/// What stood at a place.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Stood {
    Nothing,
    /// A file, by its SHA-256.
    File(String),
    /// A link that leads out of the workspace, to here.
    WayOut(PathBuf),
    /// A folder, or what else is no file.
    Other,
    /// Nobody knows.
    Unknown,
}

impl HookFile {
    /// The places that a command line names, as they are now. Options name none.
    pub fn look(workspace: &Workspace, words: &[String]) -> Vec<Self> {
        let paths = words.iter().take(WORDS_MAX).filter(|word| !word.starts_with('-'));
        let paths = paths.map(|word| lexical(&workspace.cwd().join(word)));
        let is_inside = |path: &PathBuf| workspace.roots().any(|root| path.starts_with(root));
        let named = paths.filter(is_inside);
        named.map(|path| Self { stood: stood(workspace, &path), path }).collect()
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What stands there, in a text that is the same only for the same; `None` where nothing does,
    /// or a folder, which many words name by chance.
    pub fn identity(&self) -> Option<String> {
        let stood = match &self.stood {
            Stood::Nothing | Stood::Other => return None,
            Stood::File(hash) => hash.clone(),
            Stood::WayOut(path) => format!("-> {}", path.display()),
            Stood::Unknown => format!("? {:032x}", fastrand::u128(..)),
        };
        Some(format!("{} {stood}", self.path.display()))
    }

    /// Whether the same stands there now.
    pub(super) fn is_as_it_was(&self, workspace: &Workspace) -> bool {
        self.stood != Stood::Unknown && stood(workspace, &self.path) == self.stood
    }
}

fn stood(workspace: &Workspace, path: &Path) -> Stood {
    let Ok(located) = workspace.locate_path(path, LastLink::Follow) else { return Stood::Unknown };
    if located.target().whereabouts() != Whereabouts::Workspace {
        return Stood::WayOut(located.path().to_owned());
    }
    match located.facts().map(|facts| facts.map(|facts| facts.file_type)) {
        Ok(None) => return Stood::Nothing,
        Ok(Some(FileType::File)) => {}
        Ok(Some(_)) => return Stood::Other,
        Err(_) => return Stood::Unknown,
    }
    let Ok(file) = located.open_file() else { return Stood::Unknown };
    let mut bytes = Vec::new();
    match file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes) {
        Ok(read) if read as u64 <= FILE_BYTES_MAX => Stood::File(sha256(&bytes)),
        _ => Stood::Unknown,
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests set up real files")]

    use super::*;

    #[test]
    fn a_file_that_a_hook_names_is_known_by_what_it_holds() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap().join("w");
        std::fs::create_dir(&root).unwrap();
        let at = |name: &str| root.join(name);
        std::fs::write(at("check"), "one").unwrap();
        std::os::unix::fs::symlink("check", at("link")).unwrap();
        std::os::unix::fs::symlink("/bin/true", at("out")).unwrap();
        let workspace = Workspace::open(std::slice::from_ref(&root), None).unwrap();
        let look = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            HookFile::look(&workspace, &words)
        };
        let told = |words: &[&str]| {
            look(words).iter().filter_map(HookFile::identity).collect::<Vec<_>>().join(", ")
        };
        let own = |name: &str| format!("{} {}", at(name).display(), sha256(b"one"));
        assert_eq!(told(&["python3", "-x", "./check", "--of=check"]), own("check"));
        assert_eq!(told(&["link"]), own("link"));
        assert!(told(&["out"]).contains("/out -> /"), "{}", told(&["out"]));
        assert_eq!(told(&["/bin/true", "../w2/x", "new", "."]), "");

        let seen = look(&["check", "new", "link", "out", "."]);
        let changed = || {
            let changed = seen.iter().filter(|file| !file.is_as_it_was(&workspace));
            let name = |file: &HookFile| file.path().file_name().unwrap().to_owned();
            changed.map(name).collect::<Vec<_>>()
        };
        assert!(changed().is_empty());
        std::fs::write(at("check"), "two").unwrap();
        assert_eq!(changed(), ["check", "link"]);
        std::fs::write(at("check"), "one").unwrap();
        std::fs::write(at("new"), "").unwrap();
        assert_eq!(changed(), ["new"]);
        std::fs::remove_file(at("new")).unwrap();
        std::fs::remove_file(at("out")).unwrap();
        std::os::unix::fs::symlink("/bin/false", at("out")).unwrap();
        assert_eq!(changed(), ["out"]);
        let large = std::fs::File::create(at("large")).unwrap();
        large.set_len(FILE_BYTES_MAX + 1).unwrap();
        assert_ne!(told(&["large"]), told(&["large"]), "nobody knows it again");
        assert!(!look(&["large"])[0].is_as_it_was(&workspace));
    }
}
