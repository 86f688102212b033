//! Keeps what the user typed: sent prompts, and the text that was not sent yet.

use std::fs::{File, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::path::Path;

use zero_sandbox::StateDir;

/// Folder in the state folder.
const FOLDER: &str = "chat";
const HISTORY: &str = "history.jsonl";
/// Prompts that are kept.
const PROMPTS_MAX: usize = 1_000;
/// Longest prompt that is kept, in bytes.
const PROMPT_BYTES_MAX: usize = 64 * 1024;
/// Most bytes of the history.
const HISTORY_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Most bytes that are read of a file.
const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Chats of one folder that have a draft each. Further ones keep none.
const DRAFTS_MAX: usize = 16;

/// The files of typed text.
pub(super) struct TypedTextStore {
    folder: StateDir,
    /// File of the draft: each folder has its own, and each of several chats in it.
    draft: Option<LockedDraft>,
}

/// The draft of this chat, which no other one uses as long as it runs.
struct LockedDraft {
    name: String,
    _lock: File,
}

impl TypedTextStore {
    pub(super) fn new(state: &StateDir, cwd: &Path) -> Self {
        use std::hash::{DefaultHasher, Hash as _, Hasher as _};
        let mut hasher = DefaultHasher::new();
        cwd.hash(&mut hasher);
        let folder = state.child(FOLDER);
        let draft = match lock_draft(&folder, &format!("draft-{:016x}", hasher.finish())) {
            Ok(draft) => draft,
            Err(error) => {
                tracing::warn!(%error, "this chat keeps no draft");
                None
            }
        };
        Self { folder, draft }
    }

    /// Sent prompts, oldest first. A damaged line is left out.
    pub(super) fn read_history(&self) -> Vec<String> {
        self.read(HISTORY).map(|text| parse_history(&text)).unwrap_or_default()
    }

    pub(super) fn add_prompt(&self, prompt: &str) -> io::Result<()> {
        if prompt.len() > PROMPT_BYTES_MAX {
            return Ok(());
        }
        self.folder.create()?;
        let lock = self.folder.lock_file("lock")?;
        lock.lock()?;
        let mut prompts = match self.read(HISTORY) {
            Ok(text) => parse_history(&text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error),
        };
        if prompts.last().map(String::as_str) == Some(prompt) {
            return Ok(());
        }
        prompts.push(prompt.to_owned());
        // The newest ones, as far as they fit.
        let mut left = HISTORY_BYTES_MAX;
        let mut lines = Vec::new();
        for prompt in prompts.iter().rev().take(PROMPTS_MAX) {
            let line = serde_json::to_string(prompt)? + "\n";
            if line.len() > left {
                break;
            }
            left -= line.len();
            lines.push(line);
        }
        lines.reverse();
        self.replace(HISTORY, &lines.concat())
    }

    pub(super) fn read_draft(&self) -> Option<String> {
        let draft = self.draft.as_ref()?;
        self.read(&draft.name).ok().filter(|text| !text.is_empty())
    }

    pub(super) fn write_draft(&self, text: &str) -> io::Result<()> {
        let Some(LockedDraft { name, .. }) = &self.draft else { return Ok(()) };
        if text.is_empty() {
            return match self.folder.remove(name) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            };
        }
        self.folder.create()?;
        self.replace(name, text)
    }

    fn read(&self, name: &str) -> io::Result<String> {
        let mut bytes = Vec::new();
        self.folder.open(name)?.take(FILE_BYTES_MAX).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Replaces a file as a whole, so that a crash leaves the old text or the new one.
    fn replace(&self, name: &str, text: &str) -> io::Result<()> {
        let new = format!("{name}.{:016x}", fastrand::u64(..));
        let mut file = self.folder.create_new(&new)?;
        let written = file.write_all(text.as_bytes());
        match written.and_then(|()| self.folder.rename(&new, name)) {
            Ok(()) => Ok(()),
            Err(error) => {
                let _ = self.folder.remove(&new);
                Err(error)
            }
        }
    }
}

/// The first draft that no other chat uses; one with a text, which a chat left behind, before others.
fn lock_draft(folder: &StateDir, name: &str) -> io::Result<Option<LockedDraft>> {
    folder.create()?;
    let mut free: Option<LockedDraft> = None;
    for number in 0..DRAFTS_MAX {
        let name = if number == 0 { name.to_owned() } else { format!("{name}.{number}") };
        let lock = folder.lock_file(&format!("{name}.lock"))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => continue,
            Err(TryLockError::Error(error)) => return Err(error),
        }
        let has_text = folder.open(&name).is_ok();
        let draft = LockedDraft { name, _lock: lock };
        if has_text {
            return Ok(Some(draft));
        }
        // Who takes a second draft has found the first one in use, so there is none after a free one
        // without a text but those of chats that ended at the same time.
        if free.is_some() {
            break;
        }
        free = Some(draft);
    }
    Ok(free)
}

fn parse_history(text: &str) -> Vec<String> {
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typed_text_comes_back() {
        let temp = tempfile::tempdir().unwrap();
        let state = StateDir::new(temp.path().join("state"));
        let store = TypedTextStore::new(&state, Path::new("/a"));
        assert!(store.read_history().is_empty() && store.read_draft().is_none());
        store.write_draft("").unwrap();
        for prompt in ["one", "two\nlines", "two\nlines"] {
            store.add_prompt(prompt).unwrap();
        }
        assert_eq!(store.read_history(), ["one", "two\nlines"]);
        store.write_draft("half a prom").unwrap();
        assert_eq!(store.read_draft().as_deref(), Some("half a prom"));
        assert_eq!(TypedTextStore::new(&state, Path::new("/b")).read_draft(), None);
        store.write_draft("").unwrap();
        assert_eq!(store.read_draft(), None);
    }

    #[test]
    fn chats_of_one_folder_have_drafts_of_their_own() {
        let temp = tempfile::tempdir().unwrap();
        let state = StateDir::new(temp.path().join("state"));
        let open = || TypedTextStore::new(&state, Path::new("/a"));
        let (first, second) = (open(), open());
        first.write_draft("one").unwrap();
        second.write_draft("two").unwrap();
        assert_eq!(open().read_draft(), None);
        drop(second);
        assert_eq!(open().read_draft().as_deref(), Some("two"));
        drop(first);
        assert_eq!(open().read_draft().as_deref(), Some("one"));
    }

    #[test]
    fn history_is_bounded() {
        let temp = tempfile::tempdir().unwrap();
        let store = TypedTextStore::new(&StateDir::new(temp.path().join("state")), Path::new("/a"));
        let many: Vec<String> =
            (0..PROMPTS_MAX).map(|at| serde_json::to_string(&at.to_string()).unwrap()).collect();
        store.folder.create().unwrap();
        store.replace(HISTORY, &(many.join("\n") + "\nbroken\n")).unwrap();
        store.add_prompt("last").unwrap();
        store.add_prompt(&"x".repeat(PROMPT_BYTES_MAX + 1)).unwrap();
        let kept = store.read_history();
        assert_eq!((kept.len(), kept[0].as_str()), (PROMPTS_MAX, "1"));
        assert_eq!(kept.last().unwrap(), "last");
    }
}
