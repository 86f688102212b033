//! Stores the list of a command's tools between processes ([`DeclarationStore`]).

use std::io::{self, Read as _, Write as _};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};
use serde_json::json;
use zero_core::ToolName;
use zero_sandbox::StateDir;
use zero_sandbox::journal::sha256;

use super::{CommandToolDeclaration, PREFIX};

/// Largest file that is read, in bytes. Files are written below this size, since the output was
/// limited.
const FILE_BYTES_MAX: u64 = 8 * 1024 * 1024;
/// Number of hexadecimal digits that identify a command.
const KEY_DIGITS: usize = 32;

/// The stored tools of one command, run in one folder.
pub(super) struct DeclarationStore {
    dir: StateDir,
    key: String,
}

#[derive(Serialize, Deserialize)]
struct StoredDeclarations<T> {
    tools: T,
}

impl DeclarationStore {
    pub(super) fn new(state: &StateDir, folder: &Path, words: &[String]) -> Self {
        let identity = json!([folder.as_os_str().as_encoded_bytes(), words]).to_string();
        let mut key = sha256(identity.as_bytes());
        key.truncate(KEY_DIGITS);
        Self { dir: state.child("discovered"), key }
    }

    /// Returns the stored tools, or `None` if there are none or they cannot be read.
    pub(super) fn load(&self) -> Option<Vec<CommandToolDeclaration>> {
        let mut text = Vec::new();
        let file = self.dir.open(&self.file_name()).ok()?;
        file.take(FILE_BYTES_MAX).read_to_end(&mut text).ok()?;
        let mut stored_declarations: StoredDeclarations<Vec<CommandToolDeclaration>> =
            serde_json::from_slice(&text).ok()?;
        // The name is derived from the original name again, whatever the file says.
        stored_declarations.tools.retain(|tool| {
            ToolName::from_namespaced(PREFIX, &tool.original).is_ok_and(|name| name == tool.name)
        });
        Some(stored_declarations.tools)
    }

    /// Replaces the stored tools atomically.
    pub(super) fn save(&self, tools: &[CommandToolDeclaration]) -> io::Result<()> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let draft = format!("{}.{}-{count}", self.key, std::process::id());
        self.dir.create()?;
        // A process with the same id may have crashed here.
        self.dir.remove(&draft)?;
        let text = serde_json::to_vec(&StoredDeclarations { tools })?;
        let written = self.dir.create_new(&draft).and_then(|mut file| file.write_all(&text));
        let renamed = written.and_then(|()| self.dir.rename(&draft, &self.file_name()));
        if renamed.is_err() {
            let _ = self.dir.remove(&draft);
        }
        renamed
    }

    fn file_name(&self) -> String {
        format!("{}.json", self.key)
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests read real files")]
    use super::*;

    fn split_words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    fn parse_tools(stdout: &str) -> Vec<CommandToolDeclaration> {
        super::super::parse_declarations(stdout.as_bytes()).unwrap().0
    }

    #[test]
    fn stored_tools_load_for_same_command_only() {
        let temp = tempfile::tempdir().unwrap();
        let state = StateDir::new(temp.path());
        let store = |folder: &str, list: &str| {
            DeclarationStore::new(&state, folder.as_ref(), &split_words(list))
        };
        let one = store("/w", "sh list");
        assert_eq!(one.load(), None);
        let (first, second) = (parse_tools(r#"[{"name": "a.b"}]"#), parse_tools("[]"));
        one.save(&first).unwrap();
        assert_eq!(store("/w", "sh list").load(), Some(first));
        assert_eq!(store("/w", "sh  list").load(), None);
        assert_eq!(store("/v", "sh list").load(), None);
        one.save(&second).unwrap();
        assert_eq!(one.load(), Some(second));
        assert_eq!(state.child("discovered").list_names().unwrap().len(), 1, "no draft is left");
    }

    #[test]
    fn corrupt_store_loads_as_empty() {
        let temp = tempfile::tempdir().unwrap();
        let state = StateDir::new(temp.path());
        let store = DeclarationStore::new(&state, "/w".as_ref(), &split_words("list"));
        store.save(&parse_tools(r#"[{"name": "one"}, {"name": "two"}]"#)).unwrap();
        let path = temp.path().join("discovered").join(store.file_name());
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, text.replace("cmd__one", "Read")).unwrap();
        let left = store.load().unwrap();
        assert_eq!(left.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(), ["cmd__two"]);
        std::fs::write(&path, "{").unwrap();
        assert_eq!(store.load(), None);
    }
}
