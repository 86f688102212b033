//! Runs a command line in a shell, and records the folder in which the shell ended.
//!
//! The shell first sets an exit trap that writes its folder to a private file, then evaluates the
//! line. The line sees nothing of that: no argument, no changed exit code, no output, and errors
//! show its own line numbers. A line that sets its own trap, replaces the shell or is killed just
//! leaves no file. The trap can do nothing that the line could not do itself: it runs in the same
//! sandbox, which opens what was judged.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use zero_sandbox::{FileType, StateDir, Workspace, path_survey};

/// The script of the shell; its first argument is the name of the file, the others are the line.
///
/// The trap names the file itself, because the line could change a variable; it is not set if the
/// name of the folder would need quotes. It first disables what the line turned on, such as
/// tracing. The leading blank keeps a line that begins with `-` from being an option.
const WRAPPER: &str = r#"case $TMPDIR in *[!A-Za-z0-9/._-]*) ;; *) trap -- "{ set +x; } 2>/dev/null; command pwd -P >|$TMPDIR/$1 2>/dev/null" EXIT;; esac; shift; _zero_line=; for _zero_part; do _zero_line=$_zero_line$_zero_part; done; set --; unset _zero_part; eval " $_zero_line""#;
/// Folders of the system's own programs.
const SYSTEM_FOLDERS: &[&str] = &["/usr/bin", "/bin", "/run/current-system/sw/bin"];
/// The shell of a system without bash.
const POSIX_SHELL: &str = "/bin/sh";
/// Bytes of the line per argument; the kernel's limit is 128 KiB.
const PART_BYTES_MAX: usize = 100_000;
/// Most bytes of the file: the longest path.
const NOTE_BYTES_MAX: u64 = 4_096;

/// The program with its arguments, and the file to which it writes its last folder.
pub(super) fn wrap(
    line: &str,
    tmp: &StateDir,
    workspace: &Workspace,
    environment: &[(OsString, OsString)],
) -> (OsString, Vec<OsString>, LastFolderFile) {
    let (shell, name) = match find_bash(workspace, environment) {
        Some(bash) => (bash.into_os_string(), "bash"),
        None => (OsString::from(POSIX_SHELL), "sh"),
    };
    let note = LastFolderFile::new(tmp);
    let args = ["-c", WRAPPER, name, &note.name].into_iter().chain(split_line(line));
    (shell, args.map(OsString::from).collect(), note)
}

/// Splits a line into parts that fit into one argument each.
fn split_line(mut line: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    while line.len() > PART_BYTES_MAX {
        let (part, rest) = line.split_at(line.floor_char_boundary(PART_BYTES_MAX));
        parts.push(part);
        line = rest;
    }
    parts.push(line);
    parts
}

/// The bash of the system, or else the first on `PATH` that is not in the workspace: a project must
/// not choose the shell that its commands are judged for.
fn find_bash(workspace: &Workspace, environment: &[(OsString, OsString)]) -> Option<PathBuf> {
    let path = environment.iter().find(|(name, _)| name == "PATH");
    let folders = path.into_iter().flat_map(|(_, path)| std::env::split_paths(path));
    let outside = folders.filter(|folder| {
        let real = path_survey::canonicalize(&folder.join("bash"));
        let is_inside = |path: &Path| workspace.roots().any(|root| path.starts_with(root));
        folder.is_absolute() && real.is_some_and(|real| !is_inside(folder) && !is_inside(&real))
    });
    let system = SYSTEM_FOLDERS.iter().map(PathBuf::from);
    system
        .chain(outside)
        .map(|folder| folder.join("bash"))
        .find(|bash| path_survey::is_program(bash))
}

/// The file to which a shell writes its last folder.
#[derive(Debug)]
pub(super) struct LastFolderFile {
    tmp: Option<StateDir>,
    name: String,
}

impl LastFolderFile {
    fn new(tmp: &StateDir) -> Self {
        Self { tmp: Some(tmp.clone()), name: format!(".folder-{:016x}", fastrand::u64(..)) }
    }

    /// For a program that writes none.
    pub(super) fn none() -> Self {
        Self { tmp: None, name: String::new() }
    }

    /// Removes the file and returns the folder in it, if it is one. Nothing else can result from
    /// it, whatever the command wrote to the file.
    pub(super) fn take_folder(&self) -> Option<PathBuf> {
        let tmp = self.tmp.as_ref()?;
        let noted = path_survey::read_small_file(&tmp.path().join(&self.name), NOTE_BYTES_MAX);
        let _ = tmp.remove(&self.name);
        let mut noted = noted?;
        noted.pop_if(|last| *last == b'\n');
        let folder = PathBuf::from(OsString::from_vec(noted));
        let folder = folder.is_absolute().then(|| path_survey::canonicalize(&folder)).flatten()?;
        (path_survey::file_type(&folder) == Some(FileType::Directory)).then_some(folder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, lengths: &[usize]) {
        let parts = split_line(line);
        assert_eq!(parts.concat(), line);
        assert_eq!(parts.iter().map(|part| part.len()).collect::<Vec<_>>(), lengths);
    }

    #[test]
    fn line_is_split_between_characters() {
        check("", &[0]);
        check("ls", &[2]);
        check(&"x".repeat(PART_BYTES_MAX), &[PART_BYTES_MAX]);
        check(&"x".repeat(PART_BYTES_MAX + 1), &[PART_BYTES_MAX, 1]);
        check(&"€".repeat(PART_BYTES_MAX / 3 + 1), &[PART_BYTES_MAX - 1, 3]);
    }
}
