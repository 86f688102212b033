//! Checks ignore files before a walk reads them.
//!
//! The `ignore` crate opens `.gitignore` and similar files by name, whatever they are: on a pipe it
//! would block forever, on `/dev/zero` it would read until memory is exhausted. So each folder is
//! checked before the crate enters it. A folder whose ignore file cannot be read is skipped and
//! reported, because the walk could otherwise show the files that the rules exclude.
//!
//! Links are followed, as `rg` does, if they lead to a regular file. Not covered: a file that is
//! swapped between this check and the crate's read; and git's configuration, from which the crate
//! learns where the global rules are, because it is outside of any workspace.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use zero_sandbox::Workspace;
use zero_sandbox::{FileFacts, FolderHandle, OpenedEntry};

use crate::text_format::{pluralize, to_single_line};

/// Largest ignore file that is read, in bytes.
const IGNORE_FILE_BYTES_MAX: u64 = 1_000_000;

/// The folders that a walk did not enter.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct SkippedFolders {
    count: u64,
    /// The first by path of the files that prevented it.
    file: PathBuf,
}

impl SkippedFolders {
    /// Records a folder that was not entered because of `file`.
    pub(super) fn add(&mut self, file: PathBuf) {
        if self.count == 0 || file < self.file {
            self.file = file;
        }
        self.count += 1;
    }

    /// Merges the folders of two walks.
    pub(crate) fn merge(mut self, other: Self) -> Self {
        if other.count > 0 {
            self.add(other.file);
            self.count += other.count - 1;
        }
        self
    }

    /// Returns the note for the reader.
    pub(crate) fn note(&self, workspace: &Workspace) -> Option<String> {
        let folders = pluralize(self.count, "folder", "folders");
        let file = to_single_line(&workspace.display_path(&self.file));
        (self.count > 0).then(|| {
            format!("left out {folders}: `{file}` is not an ordinary file of at most 1 MB")
                + if self.count > 1 { ", and neither are others" } else { "" }
        })
    }
}

/// Returns the ignore file that prevents a walk from starting at `base`: one there, in a folder
/// above it, or the global one.
pub(super) fn find_unreadable_from(base: &FolderHandle) -> Option<PathBuf> {
    base.path().ancestors().find_map(|above| find_unreadable_in(base, above)).or_else(|| {
        ignore::gitignore::gitconfig_excludes_path().filter(|global| is_too_large(base, global))
    })
}

/// The crate reads the global rules only from a regular file, so that `/dev/null` means none; but
/// it reads a file of any size.
fn is_too_large(base: &FolderHandle, global: &Path) -> bool {
    matches!(base.open_named(global), Ok(OpenedEntry::File(file)) if !is_small_enough(&file))
}

/// Returns the ignore file that prevents entering a folder, as an absolute path or one below the
/// base.
pub(super) fn find_unreadable_in(base: &FolderHandle, folder: &Path) -> Option<PathBuf> {
    [".gitignore", ".ignore"]
        .iter()
        .map(|name| folder.join(name))
        .find(|file| open_ignore_file(base, file).is_err())
        .or_else(|| check_git_excludes(base, &folder.join(".git")).err())
}

/// Follows `.git` to the repository's exclude file: `.git` is a folder, or a file that names one,
/// which may name another.
fn check_git_excludes(base: &FolderHandle, git: &Path) -> Result<(), PathBuf> {
    let line = match open_ignore_file(base, git)? {
        OpenedEntry::Nothing => return Ok(()),
        OpenedEntry::Folder => return open_ignore_file(base, &git.join("info/exclude")).map(drop),
        OpenedEntry::File(file) => read_first_line(file),
    };
    let Some(named) = line.strip_prefix("gitdir: ").map(resolve_from_cwd) else {
        return Ok(());
    };
    let OpenedEntry::File(file) = open_ignore_file(base, &named.join("commondir"))? else {
        return Ok(());
    };
    let common = match read_first_line(file) {
        line if line.starts_with('.') => named.join(line),
        line => resolve_from_cwd(&line),
    };
    open_ignore_file(base, &common.join("info/exclude")).map(drop)
}

/// The crate resolves a relative name in `.git` from the working directory of the process; so does
/// this check.
fn resolve_from_cwd(name: &str) -> PathBuf {
    std::path::absolute(".").unwrap_or_default().join(name)
}

/// Opens what the crate may open. The error is the name of a file that it must not open.
fn open_ignore_file(base: &FolderHandle, name: &Path) -> Result<OpenedEntry, PathBuf> {
    match base.open_named(name) {
        Ok(OpenedEntry::File(file)) if !is_small_enough(&file) => Err(name.to_owned()),
        Ok(named) => Ok(named),
        Err(_) => Err(name.to_owned()),
    }
}

fn is_small_enough(file: &File) -> bool {
    FileFacts::from_file(file).is_ok_and(|facts| facts.size <= IGNORE_FILE_BYTES_MAX)
}

/// Returns the first line, or an empty text if the crate would not find one either.
fn read_first_line(file: File) -> String {
    let mut lines = BufReader::new(file.take(IGNORE_FILE_BYTES_MAX)).lines();
    lines.next().and_then(Result::ok).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests create real files")]
    use super::*;
    use crate::test_host::TestHost;
    use serde_json::{Value, json};
    use std::os::unix::fs::symlink;
    use std::process::Command;
    use std::time::Duration;
    use zero_sandbox::FinalLinkMode;

    /// Creates something at a path that must not be read.
    type TrapSetup = fn(&Path);

    const TRAPS: [TrapSetup; 4] = [
        |path| assert!(Command::new("mkfifo").arg(path).status().unwrap().success()),
        |path| symlink("/dev/zero", path).unwrap(),
        |path| symlink("/proc/self/pagemap", path).unwrap(),
        |path| File::create(path).unwrap().set_len(IGNORE_FILE_BYTES_MAX + 1).unwrap(),
    ];

    fn sample_tree() -> TestHost {
        TestHost::new().with_files(&[
            ("a.txt", "hit\n"),
            ("sub/b.txt", "hit\n"),
            ("sub/deep/c.txt", "hit\n"),
            ("worktree/d.txt", "hit\n"),
        ])
    }

    /// Makes a call that must end soon, and returns its structured output and its text.
    #[track_caller]
    fn call_tool(host: &TestHost, tool: &str, input: Value) -> (Value, String) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let call =
            async { tokio::time::timeout(Duration::from_secs(60), host.call(tool, input)).await };
        let report = runtime.block_on(call);
        // A thread that waits on a pipe must not make the test wait, too.
        runtime.shutdown_background();
        let outcome = report.unwrap().outcome.unwrap();
        let text = outcome.rendered.content.iter().filter_map(|piece| piece["text"].as_str());
        (outcome.result.structured, text.collect())
    }

    /// Creates each trap at `place` and searches from `path`.
    #[track_caller]
    fn check(place: &str, path: &str, expected: &[&str]) {
        for (number, trap) in TRAPS.iter().enumerate() {
            let host = sample_tree();
            host.write_file(&format!("{place}.beside"), b"");
            trap(&host.path(place));
            let note = format!("left out 1 folder: `{place}` is not an ordinary file");
            let (output, text) =
                call_tool(&host, "Glob", json!({"pattern": "**/*.txt", "path": path}));
            let mut files: Vec<String> = serde_json::from_value(output["files"].clone()).unwrap();
            files.sort();
            assert_eq!(files, expected, "Glob, trap {number} at {place}");
            assert!(text.contains(&note), "Glob, trap {number} at {place}: {text}");
            for mode in ["files_with_matches", "content"] {
                let (output, text) = call_tool(
                    &host,
                    "Grep",
                    json!({"pattern": "hit", "path": path, "output_mode": mode}),
                );
                assert_eq!(output["total_matches"], expected.len(), "trap {number} at {place}");
                assert!(text.contains(&note), "Grep, trap {number} at {place}: {text}");
            }
        }
    }

    #[test]
    fn folder_with_unreadable_ignore_file_is_skipped_and_named() {
        let without_sub = ["a.txt", "worktree/d.txt"];
        check("sub/.gitignore", ".", &without_sub);
        check("sub/.ignore", ".", &without_sub);
        check("sub/.git/info/exclude", ".", &without_sub);
        check("sub/.git", ".", &without_sub);
        check("sub/deep/.gitignore", ".", &["a.txt", "sub/b.txt", "worktree/d.txt"]);
        check(".gitignore", ".", &[]);
        check(".git/info/exclude", ".", &[]);
        check(".gitignore", "sub/deep", &[]);
        check("sub/.ignore", "sub/deep", &[]);
    }

    #[test]
    fn read_many_glob_reports_skipped_folders() {
        let host = sample_tree();
        TRAPS[0](&host.path("sub/.gitignore"));
        let (output, _) = call_tool(&host, "ReadMany", json!({"paths": ["**/*.txt"]}));
        assert_eq!(
            (&output["count"], &output["skipped"][0]["file_path"]),
            (&json!(2), &json!("**/*.txt"))
        );
        let reason = output["skipped"][0]["reason"].as_str().unwrap();
        assert!(reason.starts_with("left out 1 folder: `sub/.gitignore` is not"), "{reason}");
    }

    #[test]
    fn git_file_is_followed_to_its_repository() {
        for (place, rules) in [("real/commondir", None), ("common/info/exclude", Some("../common"))]
        {
            for trap in TRAPS {
                let host = sample_tree();
                let gitdir = host.path("real");
                host.write_file(
                    "worktree/.git",
                    format!("gitdir: {}\n", gitdir.display()).as_bytes(),
                );
                host.write_file(&format!("{place}.beside"), b"");
                if let Some(common) = rules {
                    host.write_file("real/commondir", format!("{common}\n").as_bytes());
                }
                trap(&host.path(place));
                let (output, text) = call_tool(&host, "Glob", json!({"pattern": "**/*.txt"}));
                assert_eq!(output["count"], 3, "{place}");
                assert!(text.contains("left out 1 folder: "), "{place}: {text}");
                assert!(text.contains(place), "{place}: {text}");
            }
        }
    }

    #[test]
    fn global_excludes_file_is_bounded() {
        let host = sample_tree();
        let base =
            host.workspace().resolve(".", FinalLinkMode::Follow).unwrap().open_folder().unwrap();
        File::create(host.path("large")).unwrap().set_len(IGNORE_FILE_BYTES_MAX + 1).unwrap();
        for (name, expected) in [("large", true), ("a.txt", false), ("/dev/null", false)] {
            assert_eq!(is_too_large(&base, &host.path(name)), expected, "{name}");
        }
    }

    /// Harmless files are treated as `rg` does.
    #[test]
    fn ordinary_ignore_file_applies_through_link() {
        let host = sample_tree();
        host.write_file("rules", b"b.txt\n");
        symlink("../rules", host.path("sub/.gitignore")).unwrap();
        std::fs::create_dir(host.path("sub/deep/.ignore")).unwrap();
        symlink("nowhere", host.path("worktree/.ignore")).unwrap();
        let (output, text) = call_tool(&host, "Glob", json!({"pattern": "**/*.txt"}));
        assert_eq!(output["count"], 3);
        assert!(!text.contains("left out"), "{text}");
    }

    #[test]
    fn excluded_folder_is_not_reported_as_skipped() {
        let host = sample_tree();
        TRAPS[0](&host.path("sub/.gitignore"));
        for pattern in ["*", "worktree/**"] {
            let (output, text) = call_tool(&host, "Glob", json!({"pattern": pattern}));
            assert_eq!(output["count"], 1, "{pattern}");
            assert!(!text.contains("left out"), "{pattern}: {text}");
        }
    }

    #[test]
    fn skip_note_names_first_file_by_path() {
        let host = sample_tree();
        for place in ["worktree/.ignore", "sub/.gitignore"] {
            TRAPS[0](&host.path(place));
        }
        for _ in 0..10 {
            let (_, text) = call_tool(&host, "Glob", json!({"pattern": "**/*.txt"}));
            let note = "(left out 2 folders: `sub/.gitignore` is not an ordinary file of at most \
                        1 MB, and neither are others)";
            assert!(text.ends_with(note), "{text}");
        }
    }
}
