//! Runs git to read a repository that a command may have changed.
//!
//! Git runs in a sandbox that changes nothing and has no network, and for a short time.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use zero_sandbox::{FileType, NetworkAccess, SandboxProfile, path_survey};

use crate::git_facts::{self, StagedFile};
use crate::neutral_git::{ExcessOutput, GitInput, GitRun, NeutralGit};

/// How long git may take.
const TIME_MAX: Duration = Duration::from_secs(10);
/// Most bytes that are read from git.
const OUTPUT_BYTES_MAX: usize = 4 << 20;
/// The object of an empty tree, by the length of object names.
const EMPTY_TREES: [&str; 2] = [
    "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
    "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321",
];

/// Git in a sandbox that reads what the command could read.
#[derive(Debug, Default)]
pub(crate) struct ConfinedGit {
    /// Absent if the command could change no repository.
    git: Option<NeutralGit>,
}

impl ConfinedGit {
    /// A git for repositories that a command with this profile may have changed.
    pub(crate) fn new(profile: &SandboxProfile, search_path: String) -> Self {
        let profile = SandboxProfile {
            writable: Vec::new(),
            protected: Vec::new(),
            protected_files: Vec::new(),
            network: NetworkAccess::Nothing,
            ..profile.clone()
        };
        Self { git: Some(NeutralGit { profile, search_path }) }
    }

    /// The files that `commit` has and `base` does not have in the same form; `None` if git does not
    /// tell.
    pub(crate) fn list_added_files(
        &self,
        git: &Path,
        base: Option<&str>,
        commit: &str,
    ) -> Option<Vec<StagedFile>> {
        let empty = EMPTY_TREES.into_iter().find(|tree| tree.len() == commit.len())?;
        let base = base.map_or_else(|| empty.to_owned(), |base| format!("{base}^{{tree}}"));
        let tree = format!("{commit}^{{tree}}");
        let args = ["diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev"];
        let args = [&args[..], &["--diff-filter=AMT", &base, &tree]].concat();
        parse_raw_diff(&self.run(git, None, &args, &[])?)
    }

    /// Whether a commit is part of the history of these, as far as git tells.
    pub(crate) fn is_in_history(&self, git: &Path, commit: &str, known: &BTreeSet<&str>) -> bool {
        let not: String = known.iter().map(|tip| format!("^{tip}\n")).collect();
        let input = format!("{commit}\n{not}");
        let args = ["rev-list", "--max-count=1", "--ignore-missing", "--stdin"];
        let new = self.run(git, None, &args, input.as_bytes());
        new.is_some_and(|new| new.is_empty())
    }

    /// The objects that git would make of these files of a working folder, for those that exist.
    pub(crate) fn hash_files(
        &self,
        git: &Path,
        folder: &Path,
        paths: &[PathBuf],
    ) -> BTreeMap<PathBuf, String> {
        let is_plain = |path: &&PathBuf| {
            let full = folder.join(path);
            path_survey::file_type(&full) == Some(FileType::File)
                && !path_survey::is_link(&full)
                && !path.as_os_str().as_bytes().contains(&b'\n')
        };
        let paths: Vec<&PathBuf> = paths.iter().filter(is_plain).collect();
        if paths.is_empty() {
            return BTreeMap::new();
        }
        let mut input = Vec::new();
        for path in &paths {
            input.extend_from_slice(path.as_os_str().as_bytes());
            input.push(b'\n');
        }
        let output = self.run(git, Some(folder), &["hash-object", "--stdin-paths"], &input);
        let output = String::from_utf8(output.unwrap_or_default()).unwrap_or_default();
        paths.into_iter().cloned().zip(output.lines().map(str::to_owned)).collect()
    }

    /// Runs git, in a working folder if its command needs one, and returns its output; `None` if it
    /// fails or says too much.
    fn run(
        &self,
        git: &Path,
        work_tree: Option<&Path>,
        args: &[&str],
        input: &[u8],
    ) -> Option<Vec<u8>> {
        let start = GitRun::find_start(git, &git_facts::find_common_folder(git));
        let output = self.git.as_ref()?.run(GitRun {
            folder: work_tree.unwrap_or(&start),
            repository: Some((git, work_tree.unwrap_or(Path::new("/")))),
            args: args.iter().map(OsString::from).collect(),
            input: GitInput::Bytes(input),
            time_max: TIME_MAX,
            output_bytes_max: OUTPUT_BYTES_MAX,
            excess: ExcessOutput::Fail,
        });
        output.ok().map(|output| output.bytes)
    }
}

/// The files of `git diff-tree -r -z --raw`; `None` if the output is not of that form.
fn parse_raw_diff(output: &[u8]) -> Option<Vec<StagedFile>> {
    let mut files = Vec::new();
    let mut fields = output.split(|byte| *byte == 0);
    while let Some(header) = fields.next().filter(|header| !header.is_empty()) {
        let header = std::str::from_utf8(header).ok()?.strip_prefix(':')?;
        let object = header.split(' ').nth(3)?.to_owned();
        let path = PathBuf::from(OsStr::from_bytes(fields.next()?));
        files.push(StagedFile { path, object });
    }
    Some(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raw_diff_lists_files_and_objects() {
        let line = b":000000 100644 0000 1234 A\0a b\0:100644 100755 5678 9abc M\0.envrc\0";
        let files = parse_raw_diff(line).unwrap();
        let seen: Vec<(&str, &str)> =
            files.iter().map(|file| (file.path.to_str().unwrap(), &*file.object)).collect();
        assert_eq!(seen, [("a b", "1234"), (".envrc", "9abc")]);
        assert_eq!(parse_raw_diff(b"").unwrap(), []);
        for broken in [&b"100644 A\0a\0"[..], b":1 2 3\0a\0", b":0 1 2 3 A"] {
            assert_eq!(parse_raw_diff(broken), None, "{broken:?}");
        }
    }
}
