//! Explains commands that failed because they tried to change more than they may.
//!
//! The kernel refuses such a change as if the file system were read-only, or as if the file were
//! busy if it is protected by a mount of its own.

use std::path::{Path, PathBuf};

use zero_core::text_shortening::excerpt;
use zero_policy::WriteScope;
use zero_sandbox::path_survey;

use crate::profile::folder_scanner::describe_setting;

/// What the C library says about EROFS, in lower case.
const MESSAGE: &str = "read-only file system";
/// What it says about EXDEV: a link between two folders that are writable one by one.
const LINK_MESSAGE: &str = "invalid cross-device link";
/// What it says about EBUSY.
const BUSY_MESSAGE: &str = "device or resource busy";
/// The messages that [`explain`] explains.
pub(crate) const MESSAGES: &[&str] = &[MESSAGE, LINK_MESSAGE, "erofs"];
/// Longest path in a note, in characters.
const PATH_CHARS_MAX: usize = 200;

/// What git says about a repository in a folder that it cannot write to, in lower case. It names neither the
/// reason nor the repository.
const PUSH_MESSAGE: &str = "unable to create temporary object directory";

/// Where a command runs.
#[derive(Clone, Debug, Default)]
pub(crate) struct CommandLocation {
    /// The folders of the workspace, and those that settings open in addition.
    pub(crate) roots: Vec<PathBuf>,
    /// The folder in which it starts.
    pub(crate) folder: PathBuf,
}

/// Explains a message about a file that the command may not change.
pub(crate) fn explain(
    writes: &WriteScope,
    location: &CommandLocation,
    line: &str,
) -> Option<String> {
    let path = find_path(line, MESSAGE);
    let is_link = line.to_lowercase().contains(LINK_MESSAGE);
    let advice = path.filter(|_| !is_link).and_then(|path| location.advise(Path::new(path)));
    let tried = match path {
        _ if is_link => "tried to link files of two folders".to_owned(),
        Some(path) => format!("tried to write `{}`", excerpt(path, PATH_CHARS_MAX)),
        None => "tried to write".to_owned(),
    };
    if let Some(advice) = advice {
        return Some(format!("{tried}; {advice}"));
    }
    let judged = match writes {
        WriteScope::Nothing => "judged as read-only",
        WriteScope::Paths(_) => "judged to change only the files that the command line names",
        // Nothing is known of a path that is not in the message.
        WriteScope::Workspace => return None,
    };
    Some(format!("{judged}, {tried}; request it with write access (`\"write_access\": true`)"))
}

/// Explains a message about a file that is busy: one that is protected, or a folder with such a
/// file.
pub(crate) fn explain_busy(location: &CommandLocation, line: &str) -> Option<String> {
    let path = find_path(line, BUSY_MESSAGE)?;
    let shown = excerpt(path, PATH_CHARS_MAX);
    if let Some(advice) = location.advise(Path::new(path)) {
        return Some(format!("tried to change `{shown}`; {advice}"));
    }
    if Path::new(path).ends_with(".git/config") {
        return Some(format!(
            "tried to change `{shown}`; commands cannot change it, because it decides what git runs: use Edit, which asks for approval"
        ));
    }
    location.is_inside(Path::new(path)).then(|| {
        format!(
            "`{shown}` is protected, or a folder that contains a protected file: commands can neither replace, rename nor remove it; change what is beside it, or ask the user to do it"
        )
    })
}

/// Explains a push to a repository on this machine that the command may not change. Git names the
/// repository in a line of its own: `To ../origin.git`.
pub(crate) fn explain_push<'a>(
    location: &CommandLocation,
    lines: impl Iterator<Item = &'a str> + Clone,
) -> Option<String> {
    lines.clone().find(|line| line.to_lowercase().contains(PUSH_MESSAGE))?;
    let repository = lines.filter_map(|line| line.strip_prefix("To ")).find_map(|address| {
        let path = address.strip_prefix("file://").unwrap_or(address).trim_end();
        location.is_outside(Path::new(path)).then_some(path)
    })?;
    Some(format!(
        "tried to push to `{}`; commands cannot write outside the workspace: ask the user to add the folder to `sandbox.writable`",
        excerpt(repository, PATH_CHARS_MAX)
    ))
}

impl CommandLocation {
    /// Whether a path is neither in the workspace nor in a folder that settings open.
    fn is_outside(&self, path: &Path) -> bool {
        let path = path_survey::canonicalize(&self.folder.join(path));
        !self.roots.is_empty()
            && path.is_some_and(|path| !self.roots.iter().any(|root| path.starts_with(root)))
    }

    /// Whether a path is in the workspace, or in a folder that settings open.
    fn is_inside(&self, path: &Path) -> bool {
        let path = path_survey::canonicalize(&self.folder.join(path));
        path.is_some_and(|path| self.roots.iter().any(|root| path.starts_with(root)))
    }

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

/// The path that an error is about: in quotes, or before its message.
fn find_path<'a>(line: &'a str, message: &str) -> Option<&'a str> {
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
        let at = line.to_lowercase().find(message)?;
        let before = line.get(..at)?.trim_end().strip_suffix(':')?;
        let last = before.rsplit(": ").next().unwrap_or(before).trim();
        // Git writes `could not write config file .git/config`.
        Some(last.strip_prefix("could not write config file ").unwrap_or(last))
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
    fn push_to_repository_outside_is_explained() {
        let temp = tempfile::tempdir().unwrap();
        let outside = temp.path().canonicalize().unwrap();
        let root = outside.join("project");
        let location = CommandLocation { roots: vec![root.clone()], folder: root.clone() };
        let explain = |remote: &str, message: &str| {
            let text = format!("error: {message}\nTo {remote}\n ! [remote rejected] main -> main");
            explain_push(&location, text.lines())
        };
        let unwritable = "remote unpack failed: unable to create temporary object directory";
        for remote in
            ["../origin.git".to_owned(), format!("file://{}/origin.git", outside.display())]
        {
            let note = explain(&remote, unwritable).unwrap();
            assert!(note.starts_with("tried to push to `") && note.contains("`sandbox.writable`"));
            assert_eq!(explain(&remote, "failed to push some refs"), None, "another cause");
        }
        assert_eq!(explain("hub/demo.git", unwritable), None, "a folder of the workspace");
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
            assert_eq!(find_path(line, MESSAGE), expected, "{line}");
        }
    }
}
