//! Recognizes commands that failed because they were judged to change less than they tried to.
//!
//! The kernel refuses such a change as if the file system were read-only, and a model would search
//! for the cause in the wrong place. A command whose output has that message gets a note that says
//! what to do.

use std::path::{Path, PathBuf};

use zero_core::ansi_filter;
use zero_core::text_shortening::excerpt;
use zero_policy::WriteScope;
use zero_sandbox::output_collector::CollectedOutput;
use zero_sandbox::path_survey;

use crate::profile::folder_scanner::describe_setting;

/// What the C library says about EROFS, in lower case.
const MESSAGE: &str = "read-only file system";
/// What it says about EXDEV: a link between two folders that are writable one by one.
const LINK_MESSAGE: &str = "invalid cross-device link";
/// Longest path in a note, in characters.
const PATH_CHARS_MAX: usize = 200;

/// Where a command runs.
#[derive(Clone, Debug, Default)]
pub(crate) struct CommandLocation {
    /// The folders of the workspace, and those that settings open in addition.
    pub(crate) roots: Vec<PathBuf>,
    /// The folder in which it starts.
    pub(crate) folder: PathBuf,
}

/// The note for a command that tried to change more than it may.
pub(crate) fn refused_write_note(
    output: &CollectedOutput,
    writes: &WriteScope,
    location: &CommandLocation,
) -> Option<String> {
    let judged = match writes {
        WriteScope::Nothing => "judged as read-only",
        WriteScope::Paths(_) => "judged to change only the files that the command line names",
        WriteScope::Workspace => return None,
    };
    let runs = output.mixed.head().chain(output.mixed.tail());
    let text = ansi_filter::strip_pieces(runs.map(|run| run.bytes));
    let find_line = |message: &str| text.lines().find(|line| line.to_lowercase().contains(message));
    let tried = match (find_line(MESSAGE), find_line(LINK_MESSAGE)) {
        (Some(line), _) => match find_path(line) {
            Some(path) => {
                let tried = format!("tried to write `{}`", excerpt(path, PATH_CHARS_MAX));
                if let Some(advice) = location.advise(Path::new(path)) {
                    return Some(format!("{tried}; {advice}"));
                }
                tried
            }
            None => "tried to write".to_owned(),
        },
        (None, Some(_)) => "tried to link files of two folders".to_owned(),
        (None, None) => return None,
    };
    Some(format!("{judged}, {tried}; request it with write access (`\"write_access\": true`)"))
}

impl CommandLocation {
    /// What to do instead, for a path that no command can write to.
    fn advise(&self, path: &Path) -> Option<String> {
        let path = path_survey::canonicalize(&self.folder.join(path))?;
        if self.roots.is_empty() {
            return None;
        }
        let Some(below) = self.roots.iter().find_map(|root| path.strip_prefix(root).ok()) else {
            let advice = "commands cannot write outside the workspace: use Write, or ask the user to add the folder to `sandbox.writable`";
            return Some(advice.to_owned());
        };
        describe_setting(below).map(|why| {
            format!(
                "commands cannot change it, because it is {why}: use Write or Edit, which ask the user"
            )
        })
    }
}

/// The path that an error message is about: in quotes, or before the message.
fn find_path(line: &str) -> Option<&str> {
    let quoted = ['\'', '"', '`', '‘', '“'].into_iter().find_map(|open| {
        let close = match open {
            '‘' => '’',
            '“' => '”',
            same => same,
        };
        let (_, rest) = line.split_once(open)?;
        rest.split_once(close).map(|(path, _)| path)
    });
    let before = || {
        let at = line.to_lowercase().find(MESSAGE)?;
        let before = line.get(..at)?.trim_end().strip_suffix(':')?;
        Some(before.rsplit(": ").next().unwrap_or(before).trim())
    };
    quoted.or_else(before).filter(|path| !path.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_depends_on_the_place() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        let location = CommandLocation { roots: vec![root.clone()], folder: root.clone() };
        let advise = |path: &Path| location.advise(path).unwrap_or_default();
        assert_eq!(advise(Path::new("src/new")), "");
        assert_eq!(advise(&root.join("new")), "");
        for path in ["/outside/o2.txt", "../o2.txt"] {
            let advice = advise(Path::new(path));
            assert!(
                advice.contains("outside the workspace") && advice.contains("`sandbox.writable`")
            );
        }
        for path in [".envrc", "sub/.vscode/tasks.json"] {
            assert!(advise(Path::new(path)).contains("use Write or Edit"), "{path}");
        }
        assert_eq!(CommandLocation::default().advise(Path::new("/x")), None);
    }

    #[test]
    fn path_is_found_in_messages_of_programs() {
        for (line, expected) in [
            ("touch: cannot touch 'a b': Read-only file system", Some("a b")),
            ("touch: cannot touch ‘a’: Read-only file system", Some("a")),
            ("bash: line 1: src/x: Read-only file system", Some("src/x")),
            ("xz: a.xz: Read-only file system", Some("a.xz")),
            ("OSError: [Errno 30] Read-only file system: 'out/x'", Some("out/x")),
            ("Error: EROFS: read-only file system, open '/w/x'", Some("/w/x")),
            ("Read-only file system", None),
        ] {
            assert_eq!(find_path(line), expected, "{line}");
        }
    }
}
