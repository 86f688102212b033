//! The workspace files that a hook's command line names.
//!
//! Approving the words `.zero/hooks/check` says nothing about what that script does, so the
//! approval also covers the files. Each file is identified by its content, and a hook whose files
//! changed does not run.

use std::collections::HashMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use zero_core::PathZone;
use zero_policy::path::normalize_lexically;
use zero_sandbox::journal::sha256;
use zero_sandbox::{FileType, FinalLinkMode, Workspace};

/// Largest file that is identified, in bytes. A larger one counts as changed.
const FILE_BYTES_MAX: u64 = 16_000_000;
/// Most bytes of all files read by one reader. Files beyond that count as changed.
const READ_BYTES_MAX: u64 = 64_000_000;
/// Longest file name, in bytes: a longer word, such as a script for `sh -c`, is not a file.
const NAME_BYTES_MAX: usize = 255;
/// Most words of a hook's command line.
pub const HOOK_WORDS_MAX: usize = 256;

/// A workspace path that a hook names, and what was there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookFile {
    path: PathBuf,
    state: HookFileState,
}

/// What was at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
enum HookFileState {
    Nothing,
    /// A file, by its SHA-256.
    File(String),
    /// A link to this path outside of the workspace.
    OutsideLink(PathBuf),
    /// A folder or another non-file.
    Other,
    /// Not known.
    Unknown,
}

impl HookFile {
    /// Where the file is in the workspace, as an absolute path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A text that identifies the content; `None` for a missing path or a folder, which many words
    /// name by chance.
    pub fn identity(&self) -> Option<String> {
        let state = match &self.state {
            HookFileState::Nothing | HookFileState::Other => return None,
            HookFileState::File(hash) => hash.clone(),
            HookFileState::OutsideLink(path) => format!("-> {}", path.display()),
            HookFileState::Unknown => format!("? {:032x}", fastrand::u128(..)),
        };
        Some(format!("{} {state}", self.path.display()))
    }

    /// Makes a hook that uses these files fail, because they are not the trusted ones: their
    /// content counts as unknown. `command` takes their place if there are none any more.
    pub fn distrust(files: &mut Vec<Self>, command: &str) {
        let has_existing = files.iter().any(|file| file.identity().is_some());
        for file in files.iter_mut().filter(|file| !has_existing || file.identity().is_some()) {
            file.state = HookFileState::Unknown;
        }
        if files.is_empty() {
            files.push(Self { path: PathBuf::from(command), state: HookFileState::Unknown });
        }
    }

    /// Whether the content is still the same.
    fn is_unchanged(&self, look: &mut HookFileReader<'_>) -> bool {
        self.state != HookFileState::Unknown && look.file_state(&self.path) == self.state
    }
}

/// Reads the files that hooks name: each once, and at most a bounded number of bytes.
pub struct HookFileReader<'a> {
    workspace: &'a Workspace,
    seen: HashMap<PathBuf, HookFileState>,
    bytes_left: u64,
}

impl<'a> HookFileReader<'a> {
    /// A reader with its full budget.
    pub fn new(workspace: &'a Workspace) -> Self {
        Self { workspace, seen: HashMap::new(), bytes_left: READ_BYTES_MAX }
    }

    /// The paths that a command line names, in their current state. Options are not paths, and a
    /// program without a `/` is searched in `PATH`, not here.
    pub fn read_files(&mut self, words: &[String]) -> Vec<HookFile> {
        let names = |(at, word): &(usize, &String)| {
            !word.starts_with('-') && (*at > 0 || word.contains('/'))
        };
        let words = words.iter().take(HOOK_WORDS_MAX).enumerate().filter(names);
        let paths = words.map(|(_, word)| normalize_lexically(&self.workspace.cwd().join(word)));
        let named: Vec<PathBuf> = paths.filter(|path| self.is_inside(path)).collect();
        named.into_iter().map(|path| HookFile { state: self.file_state(&path), path }).collect()
    }

    /// The first path that a command line names whose content differs from `known`, or that is not
    /// in `known`.
    pub(super) fn find_changed(&mut self, words: &[String], known: &[HookFile]) -> Option<PathBuf> {
        let changed = known.iter().find(|file| !file.is_unchanged(self));
        let is_new = |file: &&HookFile| {
            file.identity().is_some() && known.iter().all(|known| known.path != file.path)
        };
        let path = |file: &HookFile| file.path.clone();
        changed.map(path).or_else(|| self.read_files(words).iter().find(is_new).map(path))
    }

    /// Whether a path is in the workspace, as written or with links resolved.
    fn is_inside(&self, path: &Path) -> bool {
        let leads_inside = || {
            let located = self.workspace.resolve_path(path, FinalLinkMode::Follow);
            located.is_ok_and(|found| found.target().zone() == PathZone::Workspace)
        };
        self.workspace.roots().any(|root| path.starts_with(root)) || leads_inside()
    }

    fn file_state(&mut self, path: &Path) -> HookFileState {
        if let Some(state) = self.seen.get(path) {
            return state.clone();
        }
        let state = self.read_state(path);
        self.seen.insert(path.to_owned(), state.clone());
        state
    }

    fn read_state(&mut self, path: &Path) -> HookFileState {
        if path.iter().any(|name| name.len() > NAME_BYTES_MAX) {
            return HookFileState::Nothing;
        }
        let Ok(located) = self.workspace.resolve_path(path, FinalLinkMode::Follow) else {
            return HookFileState::Unknown;
        };
        if located.target().zone() != PathZone::Workspace {
            return HookFileState::OutsideLink(located.path().to_owned());
        }
        match located.facts().map(|facts| facts.map(|facts| facts.file_type)) {
            Ok(None) => return HookFileState::Nothing,
            Ok(Some(FileType::File)) => {}
            Ok(Some(_)) => return HookFileState::Other,
            Err(_) => return HookFileState::Unknown,
        }
        let bytes_max = FILE_BYTES_MAX.min(self.bytes_left);
        if bytes_max == 0 {
            return HookFileState::Unknown;
        }
        let Ok(file) = located.open_file() else { return HookFileState::Unknown };
        let mut bytes = Vec::new();
        let read = file.take(bytes_max + 1).read_to_end(&mut bytes);
        let count = bytes.len() as u64;
        self.bytes_left = self.bytes_left.saturating_sub(count);
        match read {
            Ok(_) if count <= bytes_max => HookFileState::File(sha256(&bytes)),
            _ => HookFileState::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests set up real files")]

    use super::*;

    #[test]
    fn hook_file_is_identified_by_content() {
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
            HookFileReader::new(&workspace).read_files(&words)
        };
        let identities = |words: &[&str]| {
            look(words).iter().filter_map(HookFile::identity).collect::<Vec<_>>().join(", ")
        };
        let own = |name: &str| format!("{} {}", at(name).display(), sha256(b"one"));
        assert_eq!(identities(&["python3", "-x", "./check", "--of=check"]), own("check"));
        assert_eq!(identities(&["sh", "link"]), own("link"));
        assert!(identities(&["./out"]).contains("/out -> /"), "{}", identities(&["./out"]));
        assert_eq!(identities(&["check"]), "", "a program without a path is not a file");
        assert_eq!(identities(&["/bin/true", "../w2/x", "new", "."]), "");

        let seen = look(&["sh", "check", "new", "link", "out", "."]);
        let changed = || {
            let mut now = HookFileReader::new(&workspace);
            let changed = seen.iter().filter(|file| !file.is_unchanged(&mut now));
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
        assert_ne!(
            identities(&["./large"]),
            identities(&["./large"]),
            "an unknown file never matches"
        );
        assert!(!look(&["./large"])[0].is_unchanged(&mut HookFileReader::new(&workspace)));
        assert_eq!(identities(&["sh", "-c", &"x".repeat(300)]), "", "no file has such a name");
    }

    #[test]
    fn unseen_hook_file_is_reported_through_links() {
        let temp = tempfile::tempdir().unwrap();
        let base = temp.path().canonicalize().unwrap();
        for folder in ["w", "w2"] {
            std::fs::create_dir(base.join(folder)).unwrap();
            std::fs::write(base.join(folder).join("check"), "one").unwrap();
        }
        std::os::unix::fs::symlink("w", base.join("way-in")).unwrap();
        let workspace = Workspace::open(&[base.join("w"), base.join("w2")], None).unwrap();
        for path in ["w/check", "w2/check", "way-in/check"] {
            let path = base.join(path);
            let words = ["sh".to_owned(), path.display().to_string()];
            let strange =
                |known: &[HookFile]| HookFileReader::new(&workspace).find_changed(&words, known);
            assert_eq!(strange(&[]), Some(path.clone()));
            let mut known = HookFileReader::new(&workspace).read_files(&words);
            assert_eq!(strange(&known), None, "{path:?}");
            HookFile::distrust(&mut known, "sh");
            assert_eq!(strange(&known), Some(path));
        }
        let mut none = Vec::new();
        HookFile::distrust(&mut none, "sh");
        let strange = HookFileReader::new(&workspace).find_changed(&["sh".to_owned()], &none);
        assert_eq!(
            strange,
            Some(PathBuf::from("sh")),
            "a hook that no longer names a file fails, too"
        );
    }

    #[test]
    fn reader_reads_each_file_once_within_budget() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        std::fs::write(root.join("a"), "1234").unwrap();
        std::fs::write(root.join("b"), "5678").unwrap();
        let workspace = Workspace::open(std::slice::from_ref(&root), None).unwrap();
        let mut look = HookFileReader { bytes_left: 6, ..HookFileReader::new(&workspace) };
        let words = ["sh", "a", "a", "b"].map(str::to_owned);
        let state: Vec<HookFileState> =
            look.read_files(&words).into_iter().map(|file| file.state).collect();
        let a = HookFileState::File(sha256(b"1234"));
        assert_eq!(state, [a.clone(), a, HookFileState::Unknown]);
    }
}
