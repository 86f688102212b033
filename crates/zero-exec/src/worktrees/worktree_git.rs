//! The runs of git that make a worktree and take over its changes, each in a sandbox that writes to
//! one of the two repositories at most.

use std::ffi::{OsStr, OsString};
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use zero_core::text_shortening::excerpt;
use zero_sandbox::{NetworkAccess, ProcessLimits, SandboxProfile, StateDir, path_survey};

use super::{NAMED_MAX, WorktreeError, WorktreeStore, read_settings};
use crate::neutral_git::{ExcessOutput, GitInput, GitOutput, GitRun, NeutralGit};
use crate::profile::folder_scanner::describe_setting;

/// How long one run of git may take.
const TIME_MAX: Duration = Duration::from_secs(180);
/// How many commits of the history a worktree has.
const DEPTH: &str = "--depth=50";
/// Most bytes that are read from git.
const OUTPUT_BYTES_MAX: usize = 8 << 20;
/// Most bytes of the list of an index.
const INDEX_BYTES_MAX: usize = 128 << 20;
/// Most bytes of a diff.
const DIFF_BYTES_MAX: usize = 32 << 10;
/// Largest pack with the changes of a sub-agent, in bytes.
const PACK_BYTES_MAX: usize = 1 << 30;
/// Where the number of objects is in a pack.
const PACK_COUNT: std::ops::Range<usize> = 8..12;
/// Most stores of objects that a repository borrows from.
const ALTERNATES_MAX: usize = 8;
/// The mode of a repository in a repository.
const GITLINK: &str = "160000";
/// The mode of a file that does not exist any more.
const REMOVED: &str = "000000";
/// Longest path in a note, in characters.
const PATH_CHARS_MAX: usize = 200;
/// The author of commits if the user has not told git who they are.
const ANONYMOUS: [&str; 4] = ["-c", "user.name=zero", "-c", "user.email=zero@localhost"];
/// The files of the home folder that tell git who the user is.
const IDENTITY_FILES: [&str; 2] = [".gitconfig", ".config/git/config"];

/// The repository of a parent session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ParentRepository {
    /// Its working folder.
    pub(super) folder: PathBuf,
    /// The git folder of this working folder.
    pub(super) git: PathBuf,
    /// The folder with its objects and references.
    pub(super) common: PathBuf,
}

impl ParentRepository {
    /// The name of its working folder.
    pub(super) fn folder_name(&self) -> &OsStr {
        let name = self.folder.file_name().filter(|name| *name != ".git");
        name.unwrap_or(OsStr::new("worktree"))
    }

    /// Its objects, and those that it borrows.
    fn object_folders(&self) -> Vec<PathBuf> {
        let objects = self.common.join("objects");
        let listed = path_survey::read_small_file(&objects.join("info/alternates"), 1 << 16);
        let listed = listed.unwrap_or_default();
        let others = listed.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        others.take(ALTERNATES_MAX).map(|line| objects.join(OsStr::from_bytes(line))).collect()
    }
}

/// The objects of a sub-agent in a file.
pub(super) struct PackFile<'a> {
    pub(super) folder: &'a StateDir,
    pub(super) name: &'a str,
}

/// What a sub-agent changed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ChangeList {
    /// Number of files.
    pub(super) files: usize,
    /// Whether there are more files than were looked at.
    pub(super) is_cut: bool,
    /// Repositories inside its own that it made or changed, of which a commit has only a name.
    pub(super) nested: Vec<String>,
    /// New and changed files that run code later, and what they are.
    pub(super) settings: Vec<(String, &'static str)>,
}

/// zero's own git, for worktrees.
pub(super) struct WorktreeGit {
    /// Reads nothing of the home folder and of zero's state, and writes nothing.
    profile: SandboxProfile,
    search_path: String,
    home: Option<PathBuf>,
}

impl WorktreeGit {
    pub(super) fn new(store: &WorktreeStore, tmp: &Path) -> Self {
        let mut weaknesses = store.weaknesses.clone();
        WorktreeStore::retain_bearable(&mut weaknesses);
        let masked = store.home.iter().map(PathBuf::as_path).chain([store.state.path()]);
        let masked = masked.filter_map(path_survey::canonicalize);
        let masked = masked.filter(|path| path.parent().is_some());
        Self {
            profile: SandboxProfile {
                writable: Vec::new(),
                changeable: Vec::new(),
                protected: Vec::new(),
                protected_files: Vec::new(),
                masked: masked.collect(),
                readable: Vec::new(),
                network: NetworkAccess::Nothing,
                limits: ProcessLimits::default(),
                tmp: tmp.to_owned(),
                weaknesses,
            },
            search_path: store.search_path.clone(),
            home: store.home.clone(),
        }
    }

    /// A git that reads and writes these folders, and nothing else of the home folder.
    fn with_access(&self, readable: Vec<PathBuf>, writable: Vec<PathBuf>) -> NeutralGit {
        let profile = SandboxProfile { readable, writable, ..self.profile.clone() };
        NeutralGit { profile, search_path: self.search_path.clone() }
    }

    fn for_parent(&self, parent: &ParentRepository) -> NeutralGit {
        let ParentRepository { folder, git, common } = parent;
        let own = [folder.clone(), git.clone(), common.clone()];
        self.with_access(own.into_iter().chain(parent.object_folders()).collect(), Vec::new())
    }

    /// Runs git in the repository of a parent, which it cannot change.
    fn ask_parent(
        &self,
        parent: &ParentRepository,
        args: &[&str],
    ) -> Result<String, WorktreeError> {
        let run = repository_run(&parent.common, (&parent.git, &parent.folder), args);
        Ok(to_line(self.for_parent(parent).run(run)?.bytes))
    }

    /// Runs git in a worktree.
    fn run_in(&self, tree: &Path, args: &[&str]) -> Result<Vec<u8>, WorktreeError> {
        let git = self.with_access(Vec::new(), vec![tree.to_owned()]);
        let own = tree.join(".git");
        Ok(git.run(repository_run(tree, (&own, tree), args))?.bytes)
    }

    /// The repository whose working folder contains a folder.
    pub(super) fn find_repository(&self, folder: &Path) -> Result<ParentRepository, WorktreeError> {
        let none = |why: &str| WorktreeError::NoRepository {
            folder: folder.to_owned(),
            why: why.to_owned(),
        };
        // Every folder above may contain it.
        let above = folder.ancestors().filter(|above| path_survey::exists(&above.join(".git")));
        let above: Vec<PathBuf> = above.map(Path::to_owned).collect();
        let Some(top) = above.first() else { return Err(none("no folder above has a `.git`")) };
        let common = crate::git_facts::RepositoryLocation::find(top);
        let places = common.map(|found| found.git_folders).unwrap_or_default();
        let readable = [vec![top.clone()], places].concat();
        let args = ["rev-parse", "--path-format=absolute"];
        let args = [&args[..], &["--show-toplevel", "--git-dir", "--git-common-dir"]].concat();
        let run =
            GitRun { folder: top, repository: None, ..repository_run(top, (top, top), &args) };
        let found = self.with_access(readable, Vec::new()).run(run);
        let found = found.map_err(|error| none(&error.to_string()))?.bytes;
        let lines: Vec<PathBuf> = found
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
            .filter_map(|line| path_survey::canonicalize(Path::new(OsStr::from_bytes(line))))
            .collect();
        let [folder, git, common] = &lines[..] else { return Err(none("its path is not usable")) };
        let (folder, git, common) = (folder.clone(), git.clone(), common.clone());
        if path_survey::exists(&common.join("reftable")) {
            return Err(WorktreeError::Reftable { folder });
        }
        Ok(ParentRepository { folder, git, common })
    }

    /// The commit that is checked out.
    pub(super) fn find_commit(&self, parent: &ParentRepository) -> Result<String, WorktreeError> {
        let commit = self.ask_parent(parent, &["rev-parse", "--verify", "HEAD^{commit}"]);
        commit.map_err(|_| WorktreeError::NoCommit { folder: parent.folder.clone() })
    }

    /// Refuses a branch that exists, or whose name a branch `zero` makes impossible.
    pub(super) fn check_branch(
        &self,
        parent: &ParentRepository,
        branch: &str,
    ) -> Result<(), WorktreeError> {
        for taken in ["zero", branch] {
            if self.find_branch(parent, taken).is_some() {
                return Err(WorktreeError::BranchExists { branch: taken.to_owned() });
            }
        }
        Ok(())
    }

    fn find_branch(&self, parent: &ParentRepository, branch: &str) -> Option<String> {
        let name = format!("refs/heads/{branch}");
        self.ask_parent(parent, &["rev-parse", "--verify", "--quiet", &name]).ok()
    }

    /// Makes an empty repository, and returns its settings.
    pub(super) fn init(
        &self,
        parent: &ParentRepository,
        area: &Path,
        tree: &Path,
        base: &str,
    ) -> Result<String, WorktreeError> {
        let format = match base.len() {
            64 => "--object-format=sha256",
            _ => "--object-format=sha1",
        };
        let args = ["init", "--quiet", "--template=", "--initial-branch=zero-start", format];
        let mut args: Vec<OsString> = args.iter().map(OsString::from).collect();
        args.push(tree.into());
        let run = GitRun { repository: None, args, ..repository_run(area, (area, area), &[]) };
        self.with_access(vec![parent.common.clone()], vec![area.to_owned()]).run(run)?;
        read_settings(tree)
    }

    /// The settings that tell git who the user is, as far as they have told it.
    pub(super) fn identity_settings(&self, parent: &ParentRepository) -> String {
        let mut text = String::new();
        for name in ["name", "email"] {
            if let Some(value) = self.find_identity(parent, &format!("user.{name}")) {
                let value = value.replace('\\', "\\\\").replace('"', "\\\"");
                text.push_str(&format!("[user]\n\t{name} = \"{value}\"\n"));
            }
        }
        text
    }

    fn find_identity(&self, parent: &ParentRepository, name: &str) -> Option<String> {
        if let Ok(value) = self.ask_parent(parent, &["config", "--get", name]) {
            return Some(value);
        }
        IDENTITY_FILES.iter().find_map(|file| {
            let file = path_survey::canonicalize(&self.home.as_ref()?.join(file))?;
            let text = file.to_str()?;
            let args = ["config", "--file", text, "--get", name];
            let folder = Path::new("/");
            let run =
                GitRun { repository: None, ..repository_run(folder, (folder, folder), &args) };
            let found = self.with_access(vec![file.clone()], Vec::new()).run(run);
            found.ok().map(|found| to_line(found.bytes))
        })
    }

    /// Gets the last commits of the parent's repository, and checks out the newest on a branch.
    /// Returns that commit.
    pub(super) fn fetch(
        &self,
        parent: &ParentRepository,
        tree: &Path,
        branch: &str,
    ) -> Result<String, WorktreeError> {
        let name = format!("refs/heads/{branch}");
        let git = NeutralGit {
            profile: SandboxProfile {
                writable: vec![tree.to_owned()],
                ..self.for_parent(parent).profile
            },
            search_path: self.search_path.clone(),
        };
        let args = ["-c", "protocol.allow=never", "-c", "protocol.file.allow=always", "fetch"];
        let args = [&args[..], &["--quiet", DEPTH, "--no-tags", "--no-write-fetch-head"]].concat();
        let args = [&args[..], &["--no-recurse-submodules", "--no-auto-maintenance"]].concat();
        let mut args: Vec<OsString> = args.iter().map(OsString::from).collect();
        args.push(parent.folder.clone().into());
        args.push(format!("HEAD:{name}").into());
        let own = tree.join(".git");
        git.run(GitRun { args, ..repository_run(&parent.folder, (&own, tree), &[]) })?;
        self.run_in(tree, &["symbolic-ref", "HEAD", &name])?;
        self.run_in(tree, &["reset", "--quiet", "--hard"])?;
        Ok(to_line(self.run_in(tree, &["rev-parse", "--verify", "HEAD"])?))
    }

    /// Adds what is not committed to the index. An error leaves out some files only.
    pub(super) fn stage(&self, tree: &Path) -> Result<(), WorktreeError> {
        self.run_in(tree, &["add", "--all", "--ignore-errors"]).map(drop)
    }

    /// Commits what is staged, and returns the newest commit.
    pub(super) fn commit(
        &self,
        tree: &Path,
        base: &str,
        name: &str,
    ) -> Result<String, WorktreeError> {
        let head = self.run_in(tree, &["rev-parse", "--verify", "--quiet", "HEAD^{commit}"]);
        // Without a commit, what it has is compared with that from which it started.
        let head = head.map_or_else(|_| base.to_owned(), to_line);
        let files = to_line(self.run_in(tree, &["write-tree"])?);
        let committed = self.run_in(tree, &["rev-parse", &format!("{head}^{{tree}}")])?;
        if to_line(committed) == files {
            return Ok(head);
        }
        let message = format!("Changes of the sub-agent {name}");
        let args = ["commit-tree", "-p", &head, "-m", &message, &files];
        // The settings of the repository come before these, if they say who the user is.
        let commit = self.run_in(tree, &args);
        let commit = commit.or_else(|_| self.run_in(tree, &[&ANONYMOUS[..], &args].concat()))?;
        let commit = to_line(commit);
        // If this is repeated, HEAD is at this commit, and no second one is made.
        let args =
            ["-c", "core.logAllRefUpdates=false", "update-ref", "--no-deref", "HEAD", &commit];
        self.run_in(tree, &args)?;
        Ok(commit)
    }

    /// The repositories in a worktree of which its index has only a name, and whether all of the
    /// index was looked at.
    pub(super) fn list_gitlinks(&self, tree: &Path) -> Result<(Vec<PathBuf>, bool), WorktreeError> {
        let own = tree.join(".git");
        let run = GitRun {
            output_bytes_max: INDEX_BYTES_MAX,
            excess: ExcessOutput::Cut,
            ..repository_run(tree, (&own, tree), &["ls-files", "--stage", "-z"])
        };
        let output = self.with_access(Vec::new(), vec![tree.to_owned()]).run(run)?;
        Ok((parse_gitlinks(&output.bytes), !output.is_cut))
    }

    /// References that are not part of the history of a commit.
    pub(super) fn list_other_refs(
        &self,
        tree: &Path,
        tip: &str,
    ) -> Result<Vec<String>, WorktreeError> {
        let (count, not) = (format!("--count={NAMED_MAX}"), format!("--no-merged={tip}"));
        let refs = self.run_in(tree, &["for-each-ref", &count, &not, "--format=%(refname)"])?;
        Ok(String::from_utf8_lossy(&refs).lines().map(str::to_owned).collect())
    }

    /// The files in which two commits of a parent's repository differ. The worktree's own repository
    /// can contain anything under the name of an object.
    pub(super) fn list_changes(
        &self,
        parent: &ParentRepository,
        base: &str,
        tip: &str,
    ) -> Result<ChangeList, WorktreeError> {
        let args = ["-z", "--raw", "--no-renames", "--no-abbrev"];
        let output = self.compare(parent, (base, tip), &args, OUTPUT_BYTES_MAX)?;
        Ok(ChangeList { is_cut: output.is_cut, ..parse_changes(&output.bytes) })
    }

    /// The difference of two commits of a parent's repository, and whether it is cut.
    pub(super) fn diff(
        &self,
        parent: &ParentRepository,
        base: &str,
        tip: &str,
    ) -> Result<(String, bool), WorktreeError> {
        let args = ["-p", "--no-ext-diff", "--no-textconv", "--no-color", "-M"];
        let output = self.compare(parent, (base, tip), &args, DIFF_BYTES_MAX)?;
        Ok((String::from_utf8_lossy(&output.bytes).into_owned(), output.is_cut))
    }

    /// Compares two commits of a parent's repository, which git cannot change. Attributes are those
    /// of the parent's folder: a commit's own could hide it.
    fn compare(
        &self,
        parent: &ParentRepository,
        (base, tip): (&str, &str),
        options: &[&str],
        output_bytes_max: usize,
    ) -> Result<GitOutput, WorktreeError> {
        let args = [&["diff-tree", "-r", "--ignore-submodules=none"], options, &[base, tip]];
        let run = GitRun {
            output_bytes_max,
            excess: ExcessOutput::Cut,
            ..repository_run(&parent.folder, (&parent.git, &parent.folder), &args.concat())
        };
        Ok(self.for_parent(parent).run(run)?)
    }

    /// Writes the objects that a commit has and its base does not have into a file.
    pub(super) fn write_pack(
        &self,
        tree: &Path,
        base: &str,
        tip: &str,
        pack: &PackFile<'_>,
    ) -> Result<(), WorktreeError> {
        pack.folder.remove(pack.name).map_err(WorktreeError::State)?;
        let mut file = pack.folder.create_new(pack.name).map_err(WorktreeError::State)?;
        let own = tree.join(".git");
        let input = format!("{tip}\n^{base}\n");
        let run = GitRun {
            input: GitInput::Bytes(input.as_bytes()),
            output_bytes_max: PACK_BYTES_MAX,
            ..repository_run(tree, (&own, tree), &["pack-objects", "--revs", "--stdout", "-q"])
        };
        self.with_access(Vec::new(), vec![tree.to_owned()]).run_into(run, &mut file)?;
        Ok(())
    }

    /// Checks the objects of a pack, and adds them to a repository.
    pub(super) fn add_pack(
        &self,
        parent: &ParentRepository,
        pack: &PackFile<'_>,
    ) -> Result<(), WorktreeError> {
        let open = || pack.folder.open(pack.name).map_err(WorktreeError::State);
        let mut header = [0; PACK_COUNT.end];
        open()?.read_exact(&mut header).map_err(WorktreeError::State)?;
        if header.get(PACK_COUNT).is_some_and(|count| count == [0; 4]) {
            return Ok(());
        }
        let args = ["index-pack", "--stdin", "--strict"];
        let run = GitRun {
            input: GitInput::File(open()?),
            ..repository_run(&parent.common, (&parent.common, &parent.folder), &args)
        };
        self.for_parent_change(parent).run(run)?;
        Ok(())
    }

    /// Creates a branch that must not exist yet, unless it has this commit already.
    pub(super) fn create_branch(
        &self,
        parent: &ParentRepository,
        branch: &str,
        tip: &str,
    ) -> Result<(), WorktreeError> {
        if self.find_branch(parent, branch).is_some_and(|found| found == tip) {
            return Ok(());
        }
        let (name, none) = (format!("refs/heads/{branch}"), "0".repeat(tip.len()));
        let args = ["-c", "core.logAllRefUpdates=false", "update-ref", &name, tip, &none];
        let run = repository_run(&parent.common, (&parent.common, &parent.folder), &args);
        self.for_parent_change(parent).run(run)?;
        Ok(())
    }

    /// A git that adds objects and branches to a repository.
    fn for_parent_change(&self, parent: &ParentRepository) -> NeutralGit {
        let writable = ["objects", "refs/heads"].map(|name| parent.common.join(name)).to_vec();
        let mut git = self.for_parent(parent);
        git.profile.writable = writable;
        git
    }
}

/// A run of git in a repository, with the usual bounds.
fn repository_run<'a>(
    folder: &'a Path,
    repository: (&'a Path, &'a Path),
    args: &[&str],
) -> GitRun<'a> {
    GitRun {
        folder,
        repository: Some(repository),
        args: args.iter().map(OsString::from).collect(),
        input: GitInput::Bytes(&[]),
        time_max: TIME_MAX,
        output_bytes_max: OUTPUT_BYTES_MAX,
        excess: ExcessOutput::Fail,
    }
}

fn to_line(bytes: Vec<u8>) -> String {
    String::from_utf8_lossy(&bytes).trim_end_matches('\n').to_owned()
}

/// The files of `git diff-tree -r -z --raw`.
fn parse_changes(output: &[u8]) -> ChangeList {
    let mut changes = ChangeList::default();
    let mut fields = output.split(|byte| *byte == 0);
    while let Some(header) = fields.next().filter(|header| !header.is_empty()) {
        let Some(path) = fields.next() else { break };
        changes.files += 1;
        let header = String::from_utf8_lossy(header);
        let mut modes = header.trim_start_matches(':').split(' ');
        let (_, after) = (modes.next(), modes.next());
        if after == Some(GITLINK) && changes.nested.len() < NAMED_MAX {
            changes.nested.push(String::from_utf8_lossy(path).into_owned());
        }
        let setting = describe_setting(Path::new(OsStr::from_bytes(path)));
        if let Some(why) = setting.filter(|_| after != Some(REMOVED)) {
            changes.settings.push((excerpt(&String::from_utf8_lossy(path), PATH_CHARS_MAX), why));
        }
    }
    changes
}

/// The repositories in `git ls-files --stage -z`.
fn parse_gitlinks(output: &[u8]) -> Vec<PathBuf> {
    let entries = output.split(|byte| *byte == 0);
    let entries = entries.filter(|entry| entry.starts_with(GITLINK.as_bytes()));
    let paths = entries.filter_map(|entry| entry.splitn(2, |byte| *byte == b'\t').nth(1));
    paths.map(|path| PathBuf::from(OsStr::from_bytes(path))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gitlinks_are_found_in_an_index() {
        let output = b"100644 00 0\t160000 a\x00160000 11 0\tlib/a\tb\0";
        assert_eq!(parse_gitlinks(output), [PathBuf::from("lib/a\tb")]);
        assert_eq!(parse_gitlinks(b""), [] as [PathBuf; 0]);
    }

    #[test]
    fn changes_name_repositories_that_are_new_or_changed() {
        let output = b":000000 160000 00 11 A\0lib\0:160000 160000 11 22 M\0sub\0:100644 100755 1 2 M\0a b\0";
        let nested = vec!["lib".to_owned(), "sub".to_owned()];
        let expected = ChangeList { files: 3, nested, ..ChangeList::default() };
        assert_eq!(parse_changes(output), expected);
        assert_eq!(parse_changes(b""), ChangeList::default());
    }

    #[test]
    fn changes_name_files_that_run_code_later() {
        let output = b":000000 100644 00 11 A\0a/.envrc\0:100644 000000 11 00 D\0.npmrc\0:100644 100644 1 2 M\0.github/workflows/ci.yml\0:000000 100644 00 11 A\0src/a.rs\0";
        let changes = parse_changes(output);
        let paths: Vec<&str> = changes.settings.iter().map(|(path, _)| path.as_str()).collect();
        assert_eq!(paths, ["a/.envrc", ".github/workflows/ci.yml"]);
        assert_eq!(changes.settings[1].1, "a CI configuration");
    }
}
