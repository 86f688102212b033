//! Recognizes commands that failed because part of the home folder, or a secret file of the
//! workspace, is hidden from them.
//!
//! To a command, a hidden file does not exist, and a model would search for the cause in the wrong
//! place. A failed command whose output reports a missing file and names a path in a hidden folder
//! gets a note with the setting that opens it. Whether something is there is not looked up: the note
//! must not tell.

use std::path::{Component, Path, PathBuf};

use zero_core::text_shortening::excerpt;
use zero_policy::protected_paths::{ProtectedPaths, sensitive_reason};

/// Messages about a file that is missing or closed, in lower case.
const MESSAGES: &[&str] = &[
    "no such file or directory",
    "permission denied",
    "enoent",
    "eacces",
    "cannot find",
    "can't find",
    "could not find",
    "couldn't find",
    "not found",
    "does not exist",
    "doesn't exist",
];
/// Messages about a file that may not be read, in lower case.
const CLOSED_MESSAGES: &[&str] = &["permission denied", "eacces", "permissionerror"];
/// Longest path in a note, in characters.
const PATH_CHARS_MAX: usize = 200;
/// Most words of the output that are inspected.
const WORDS_MAX: usize = 20_000;

/// The part of the home folder, and the secret files of the workspace, that a command does not see.
#[derive(Clone, Debug, Default)]
pub struct HiddenHome {
    /// The folders that are hidden.
    pub(crate) hidden: Vec<PathBuf>,
    /// What is visible in them.
    pub(crate) readable: Vec<PathBuf>,
    /// The folder in which the command starts.
    pub(crate) folder: PathBuf,
    /// A hidden file that the command may see by another name.
    pub(crate) exposed: Option<PathBuf>,
    /// The secret files of the workspace that are hidden.
    pub(crate) secrets: Vec<PathBuf>,
    /// The first folder of the workspace.
    pub(crate) root: PathBuf,
}

impl HiddenHome {
    /// The note about a hidden file that may be visible by another name.
    pub(crate) fn exposed_file_note(&self) -> Option<String> {
        let shown = excerpt(&self.exposed.as_ref()?.display().to_string(), PATH_CHARS_MAX);
        Some(format!(
            "`{shown}` is hidden from commands, but it has another name (a hard link) that zero did not find; a command that sees that name can read it"
        ))
    }

    /// The note for a command that failed, with this output, because it did not see a file.
    pub(crate) fn note_for_text(&self, text: &str) -> Option<String> {
        if self.hidden.is_empty() {
            return None;
        }
        let lower = text.to_lowercase();
        if !MESSAGES.iter().any(|message| lower.contains(message)) {
            return None;
        }
        let words = text.split(is_word_edge).filter(|word| word.contains('/')).take(WORDS_MAX);
        let (home, path) = words.into_iter().find_map(|word| self.find_hidden(word))?;
        // The folder, because what a program misses next is beside it.
        let folder = path.parent().filter(|parent| *parent != home).unwrap_or(&path);
        let shown = match folder.strip_prefix(home) {
            Ok(below) => format!("~/{}", below.display()),
            Err(_) => folder.display().to_string(),
        };
        let shown = excerpt(&shown, PATH_CHARS_MAX);
        Some(format!(
            "`{shown}` is outside the workspace and hidden from commands, whether it exists or not; to let commands read it: zero config add sandbox.readable '{shown}'"
        ))
    }

    /// The note for a command whose output, by `text`, says that it could not read a secret file.
    /// A command may succeed without the file, so this does not depend on its exit code.
    pub(crate) fn secret_file_note(&self, text: impl FnOnce() -> String) -> Option<String> {
        if self.secrets.is_empty() {
            return None;
        }
        let text = text();
        let is_message = |line: &&str| {
            let lower = line.to_lowercase();
            CLOSED_MESSAGES.iter().any(|message| lower.contains(message))
        };
        let words = text.lines().filter(is_message).flat_map(|line| line.split(is_word_edge));
        let mut words =
            words.take(WORDS_MAX).map(|word| Path::new(word.trim_end_matches([':', '.'])));
        let file = words.find_map(|word| {
            let is_meant =
                |file: &&PathBuf| word.file_name().is_some() && file.ends_with(normalize(word));
            self.secrets.iter().find(is_meant)
        })?;
        let below = file.strip_prefix(&self.root).ok();
        let shown = excerpt(&below.unwrap_or(file).display().to_string(), PATH_CHARS_MAX);
        // A rule for a name alone would allow all files with that name.
        let rule = match below {
            Some(below) => format!("Read(/{})", below.display()),
            None => format!("Read(/{})", file.display()),
        };
        Some(format!(
            "secrets: `{shown}` is hidden from this command, because the user was not asked; name the file in the command to be asked, or allow `{}`",
            excerpt(&rule, PATH_CHARS_MAX)
        ))
    }

    /// The hidden path that a word names, which a setting could open, with its home folder.
    fn find_hidden(&self, word: &str) -> Option<(&Path, PathBuf)> {
        let word = word.trim_end_matches([':', '.']);
        let start = word.rfind(":/").map_or(word, |at| word.get(at + 1..).unwrap_or(word));
        let path = match start.strip_prefix("~/") {
            Some(below) => self.hidden.first()?.join(below),
            None => self.folder.join(start),
        };
        let path = normalize(&path);
        let home = self.hidden.iter().find(|home| path.starts_with(home) && path != **home)?;
        let is_visible = self.readable.iter().any(|open| path.starts_with(open));
        let places = ProtectedPaths::new(&[], Some(home), None, None);
        let is_openable = sensitive_reason(&path, &places).is_none();
        (!is_visible && is_openable).then_some((home.as_path(), path))
    }
}

/// Whether a character is beside a path in messages.
fn is_word_edge(letter: char) -> bool {
    letter.is_whitespace() || "'\"`‘’“”()[]<>,;=".contains(letter)
}

fn normalize(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                normal.pop();
            }
            Component::CurDir => {}
            part => normal.push(part),
        }
    }
    normal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_path_is_found_in_messages_of_programs() {
        let sight = HiddenHome {
            hidden: vec!["/home/me".into()],
            readable: vec!["/home/me/.cargo".into(), "/home/me/work".into()],
            folder: "/home/me/work/app".into(),
            exposed: None,
            ..HiddenHome::default()
        };
        for (text, expected) in [
            ("cat: /home/me/notes.txt: No such file or directory", Some("~/notes.txt")),
            (
                "error: failed to read `/home/me/lib/Cargo.toml`\n\nCaused by:\n  No such file or directory (os error 2)",
                Some("~/lib"),
            ),
            ("Error: Cannot find module '../../lib/index.js'", Some("~/lib")),
            ("FileNotFoundError: [Errno 2] No such file or directory: '/home/me/x/y'", Some("~/x")),
            (
                "ls: cannot open directory '/home/me/Documents': Permission denied",
                Some("~/Documents"),
            ),
            ("bash: line 1: ~/tools/run: No such file or directory", Some("~/tools")),
            ("cat: /home/me/work/app/none: No such file or directory", None),
            ("cat: /home/me/.cargo/none: No such file or directory", None),
            ("cat: /home/me/.ssh/id: No such file or directory", None),
            ("cat: /etc/none: No such file or directory", None),
            ("see /home/me/notes.txt", None),
        ] {
            let note = sight.note_for_text(text);
            let setting = expected.map(|path| format!("sandbox.readable '{path}'"));
            match setting {
                Some(setting) => assert!(note.is_some_and(|n| n.ends_with(&setting)), "{text}"),
                None => assert_eq!(note, None, "{text}"),
            }
        }
    }
    #[test]
    fn hidden_secret_file_is_found_in_messages_of_programs() {
        let hidden = HiddenHome {
            secrets: vec!["/w/.env".into(), "/w/app/key.pem".into()],
            root: "/w".into(),
            ..HiddenHome::default()
        };
        for (text, expected) in [
            ("grep: ./.env: Permission denied", Some("Read(/.env)")),
            ("tar: ./app/key.pem: Cannot open: Permission denied", Some("Read(/app/key.pem)")),
            ("PermissionError: [Errno 13] Permission denied: '.env'", Some("Read(/.env)")),
            ("Error: EACCES: permission denied, open '/w/app/key.pem'", Some("Read(/app/key.pem)")),
            ("cat: key.pem: Permission denied", Some("Read(/app/key.pem)")),
            ("grep: ./other: Permission denied", None),
            ("grep: ./x.env: Permission denied", None),
            ("grep: ./: Permission denied", None),
            (".env: No such file or directory", None),
            (".env\nPermission denied", None),
        ] {
            let note = hidden.secret_file_note(|| text.to_owned());
            let rule = expected.map(|rule| format!("or allow `{rule}`"));
            assert_eq!(note.is_some(), rule.is_some(), "{text}: {note:?}");
            assert!(
                rule.is_none_or(|rule| note.is_some_and(|note| note.ends_with(&rule))),
                "{text}"
            );
        }
        let nothing = HiddenHome::default();
        assert_eq!(nothing.secret_file_note(|| ".env: Permission denied".to_owned()), None);
    }
}
