//! Runs a line by a shell, and learns in which folder the shell ended.
//!
//! The line is evaluated by a shell that first sets a trap: when it ends, it writes its folder to a
//! private file. The line sees none of that: no argument, no changed exit code, no output, and
//! mistakes in it are told with its own line numbers. A line that sets its own trap, replaces the
//! shell or is killed just leaves no note.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

use zero_sandbox::{FileType, StateDir, path_survey};

/// What the shell is told, with its first argument for the note and the others for the line. The
/// blank keeps a line that begins with `-` from being an option, and what the line turns on, such as
/// a trace of every command, ends before the note is written.
const WRAPPER: &str = r#"_zero_note=$TMPDIR/$1 _zero_line=; shift; for _zero_part; do _zero_line=$_zero_line$_zero_part; done; set --; unset _zero_part; trap '{ set +x; } 2>/dev/null; command pwd -P >|"$_zero_note" 2>/dev/null' EXIT; eval " $_zero_line""#;
/// Bytes of one argument that carries a part of the line: the kernel takes 128 KiB.
const PART_BYTES_MAX: usize = 100_000;
/// Bytes of a note: no path is longer.
const NOTE_BYTES_MAX: u64 = 4_096;

/// The program, its arguments and where it notes its last folder.
pub(super) fn wrap(
    line: &str,
    tmp: &StateDir,
    environment: &mut [(OsString, OsString)],
) -> (OsString, Vec<OsString>, LastFolderFile) {
    let shell = if has_bash(environment) { "bash" } else { "sh" };
    let note = LastFolderFile::new(tmp);
    let args = ["-c", WRAPPER, shell, &note.name].into_iter().chain(split_line(line));
    (shell.into(), args.map(OsString::from).collect(), note)
}

/// A line in parts that fit into an argument each.
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

fn has_bash(environment: &[(OsString, OsString)]) -> bool {
    let path = environment.iter().find(|(name, _)| name == "PATH");
    let folders = path.into_iter().flat_map(|(_, path)| std::env::split_paths(path));
    folders.into_iter().any(|folder| path_survey::is_program(&folder.join("bash")))
}

/// Where a shell notes its last folder.
#[derive(Debug)]
pub(super) struct LastFolderFile {
    tmp: Option<StateDir>,
    name: String,
}

impl LastFolderFile {
    fn new(tmp: &StateDir) -> Self {
        Self { tmp: Some(tmp.clone()), name: format!(".folder-{:016x}", fastrand::u64(..)) }
    }

    /// For a program that notes nothing.
    pub(super) fn none() -> Self {
        Self { tmp: None, name: String::new() }
    }

    /// Takes the note away and says what stood in it, if it is a folder. Whatever the command made
    /// of the file, nothing but the name of a folder comes of it.
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
