//! Worktrees of sub-agents: each is a repository of its own, outside the tree of its parent.
//!
//! A worktree that shares a `.git` folder with its parent would have to write there: objects, its
//! index, its references. So a sub-agent gets a repository with the last commits of its parent's, whose
//! references, settings and objects are all its own. The sandbox then confines it as it confines every
//! workspace, and the parent's repository is not even visible. When the sub-agent has ended, zero takes
//! over its commits: one sandboxed git reads them from the worktree into a pack, another one checks the
//! pack and adds it to the parent's repository under a new branch. Neither is given a setting that the
//! sub-agent could have written.
//!
//! zero's record of a worktree is in its state folder, so that the next process can finish the work
//! of a killed one.

mod worktree_error;
mod worktree_git;
mod worktree_record;

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use zero_sandbox::{AcceptedWeakness, FolderHandle, SandboxProperty, StateDir, path_survey};

pub use self::worktree_error::WorktreeError;
use self::worktree_git::{PackFile, ParentRepository, WorktreeGit};
use self::worktree_record::WorktreeRecord;
use crate::session_commands;

/// Folder in zero's state with what is known of worktrees.
const RECORDS: &str = "worktrees";
/// The file whose lock the process of a worktree holds.
const LOCK: &str = "lock";
/// The folder that zero's own git has as `/tmp`.
const TMP: &str = "tmp";
/// The objects that a sub-agent made, on their way to its parent's repository.
const PACK: &str = "changes.pack";
/// Most worktrees at the same time, with those that are kept.
const WORKTREES_MAX: usize = 64;
/// Most references and repositories that a report names.
const NAMED_MAX: usize = 20;
/// How long a worktree is kept that contains more than its branch.
const KEPT_AGE_MAX: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// How long a process may take from the lock of a worktree to its record.
const BEGIN_TIME_MAX: Duration = Duration::from_secs(60 * 60);
/// Files of a git folder that name other folders, set other settings, or are locks of a killed git.
const REMOVED_FILES: &[&str] =
    &["config", "config.worktree", "commondir", "index.lock", "HEAD.lock", "shallow.lock"];
/// Folders of a git folder that must be where they seem to be.
const REAL_FOLDERS: &[&str] = &["objects", OBJECTS_INFO, "objects/pack", "refs", "refs/heads"];
/// The folder with pointers to other stores of objects.
const OBJECTS_INFO: &str = "objects/info";
/// Sandbox properties without which nothing confines a sub-agent to its worktree.
const NEEDED: &[SandboxProperty] = &[
    SandboxProperty::Writes,
    SandboxProperty::Attributes,
    SandboxProperty::Protected,
    SandboxProperty::Masked,
];

/// The worktrees of this machine's sub-agents.
#[derive(Clone, Debug)]
pub struct WorktreeStore {
    /// The folder in which they are: not in zero's state, which no command can use.
    pub folder: PathBuf,
    /// zero's state.
    pub state: StateDir,
    /// The user's home folder, which zero's own git does not see.
    pub home: Option<PathBuf>,
    /// Where git is searched: in no folder that a project chooses.
    pub search_path: String,
    /// Sandbox properties that may be missing.
    pub weaknesses: Vec<AcceptedWeakness>,
}

/// What a sub-agent changed in its worktree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorktreeReport {
    /// The branch of the parent's repository that has the changes.
    pub branch: String,
    /// The commit from which it started.
    pub base: String,
    /// Number of changed files.
    pub files: usize,
    /// The changes as a unified diff, cut if it is long.
    pub diff: String,
    /// Whether the diff is cut.
    pub is_cut: bool,
    /// What is not in the branch, and where it is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// The worktree of one sub-agent. If it is dropped without being closed, the next process finds it.
#[derive(Debug)]
pub struct SubagentWorktree {
    store: WorktreeStore,
    record: WorktreeRecord,
    /// Held while the process lives.
    lease: Option<File>,
}

impl Drop for SubagentWorktree {
    fn drop(&mut self) {
        // Without a close, commands may still work in it: no other process takes it over before this
        // one has ended, and they with it.
        if self.canonical_tree().is_some_and(|tree| session_commands::is_in_use(&tree)) {
            std::mem::forget(self.lease.take());
        }
    }
}

impl WorktreeStore {
    /// The weaknesses of a sandbox that still confines a sub-agent to its worktree.
    pub fn retain_bearable(weaknesses: &mut Vec<AcceptedWeakness>) {
        weaknesses.retain(|weakness| !NEEDED.contains(weakness));
    }

    /// Makes a worktree from the commit that is checked out in `folder`. `id` is that of the sub-agent's
    /// session, `name` its name.
    pub fn open(
        &self,
        id: &str,
        name: &str,
        folder: &Path,
    ) -> Result<SubagentWorktree, WorktreeError> {
        let known = self.records().list_names().map_err(WorktreeError::state)?;
        if known.len() >= WORKTREES_MAX {
            return Err(WorktreeError::TooMany { most: WORKTREES_MAX });
        }
        let record = self.record_folder(id)?;
        let lease = record.lock_file(LOCK).map_err(WorktreeError::state)?;
        // A process that looks for leftovers may hold the lock for a moment.
        lease.lock().map_err(WorktreeError::state)?;
        let made = self.make(id, name, folder);
        let made =
            made.map(|record| SubagentWorktree { store: self.clone(), record, lease: Some(lease) });
        made.inspect_err(|_| self.remove(id))
    }

    fn make(&self, id: &str, name: &str, folder: &Path) -> Result<WorktreeRecord, WorktreeError> {
        let git = self.git(id)?;
        let parent = git.find_repository(folder)?;
        self.check_separate(&parent)?;
        let base = git.find_commit(&parent)?;
        let branch = branch_name(id, name);
        git.check_branch(&parent, &branch)?;
        let area = self.area(id);
        area.create().map_err(WorktreeError::state)?;
        let tree = area.path().join(parent.folder_name());
        let mut settings = git.init(&parent, area.path(), &tree, &base)?;
        settings.push_str(&git.identity_settings(&parent));
        write_settings(&open_git_folder(&tree)?, &settings)?;
        let base = git.fetch(&parent, &tree, &branch)?;
        let within = folder.strip_prefix(&parent.folder).unwrap_or(Path::new("")).to_owned();
        let record = WorktreeRecord {
            name: name.to_owned(),
            cwd: tree.join(&within),
            notes: list_omissions(&tree),
            tree,
            parent,
            branch,
            base,
            settings,
            is_kept: false,
            is_done: false,
            is_waiting: false,
        };
        if !is_within(&record.tree, &within) {
            return Err(WorktreeError::NotCommitted { folder: folder.to_owned() });
        }
        record.write(&self.record_folder(id)?)?;
        Ok(record)
    }

    /// Refuses a repository that contains the worktrees: what closes the one would close the others.
    fn check_separate(&self, parent: &ParentRepository) -> Result<(), WorktreeError> {
        let folder = path_survey::canonicalize(&self.folder).unwrap_or_else(|| self.folder.clone());
        let contains = |outer: &PathBuf| folder.starts_with(outer) || outer.starts_with(&folder);
        match [&parent.folder, &parent.common].into_iter().any(contains) {
            true => Err(WorktreeError::NotSeparate { folder }),
            false => Ok(()),
        }
    }

    /// The sub-agents whose worktrees exist, by the ids of their sessions.
    pub fn list(&self) -> io::Result<Vec<String>> {
        self.records().list_names()
    }

    /// Takes over the worktree of a sub-agent whose process has ended without closing it; `None` if its
    /// process lives, or nothing is left of it.
    pub fn take_over(&self, id: &str) -> Result<Option<SubagentWorktree>, WorktreeError> {
        let folder = self.record_folder(id)?;
        let Some(lease) = folder.existing_lock_file(LOCK).map_err(WorktreeError::state)? else {
            return Ok(None);
        };
        if lease.try_lock().is_err() {
            return Ok(None);
        }
        match WorktreeRecord::read(&folder)? {
            Some(record) => {
                Ok(Some(SubagentWorktree { store: self.clone(), record, lease: Some(lease) }))
            }
            // Its process is about to begin, or was killed before the sub-agent began.
            None => {
                if folder.age(LOCK).is_ok_and(|age| age > BEGIN_TIME_MAX) {
                    self.remove(id);
                }
                Ok(None)
            }
        }
    }

    fn git(&self, id: &str) -> Result<WorktreeGit, WorktreeError> {
        let tmp = self.record_folder(id)?.child(TMP);
        tmp.create().map_err(WorktreeError::state)?;
        Ok(WorktreeGit::new(self, tmp.path()))
    }

    fn records(&self) -> StateDir {
        self.state.child(RECORDS)
    }

    fn record_folder(&self, id: &str) -> Result<StateDir, WorktreeError> {
        let is_name = !id.is_empty()
            && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
        match is_name {
            true => Ok(self.records().child(id)),
            false => Err(WorktreeError::BadId { id: id.to_owned() }),
        }
    }

    /// The folder of a worktree, which contains only that.
    fn area(&self, id: &str) -> StateDir {
        StateDir::new(&self.folder).child(id)
    }

    fn remove(&self, id: &str) {
        let Ok(record) = self.record_folder(id) else { return };
        // The record last, so that the next process knows what is left.
        if let Err(error) = self.area(id).remove_all().and_then(|()| record.remove_all()) {
            tracing::warn!(worktree = id, %error, "a worktree could not be removed");
        }
    }
}

impl SubagentWorktree {
    /// The folder that corresponds to that of the parent's session.
    pub fn cwd(&self) -> &Path {
        &self.record.cwd
    }

    /// The branch that gets its changes.
    pub fn branch(&self) -> &str {
        &self.record.branch
    }

    /// The folders of the parent's repository, which the sub-agent must not see.
    pub fn parent_folders(&self) -> Vec<PathBuf> {
        let ParentRepository { folder, git, common, .. } = &self.record.parent;
        let mut folders = vec![folder.clone()];
        for other in [git, common] {
            if !folders.iter().any(|known| other.starts_with(known)) {
                folders.push(other.clone());
            }
        }
        folders
    }

    /// Whether it is kept for what is not in its branch, and how long it still is.
    pub fn kept_for(&self) -> Option<Duration> {
        self.record.is_kept.then(|| self.time_left()).flatten()
    }

    /// Whether its sub-agent waits for an answer, and how long it is kept for that.
    pub fn waits_for(&self) -> Option<Duration> {
        self.record.is_waiting.then(|| self.time_left()).flatten()
    }

    fn time_left(&self) -> Option<Duration> {
        let age = self.folder().ok()?.age(worktree_record::FILE).ok()?;
        Some(KEPT_AGE_MAX.saturating_sub(age))
    }

    /// Notes whether its sub-agent waits for an answer. While it does, the next process leaves the worktree as it
    /// is, so that the sub-agent can go on there.
    pub fn set_waiting(&mut self, is_waiting: bool) -> Result<(), WorktreeError> {
        self.record.is_waiting = is_waiting;
        self.record.write(&self.folder()?)
    }

    /// Removes it with everything that is not in its branch.
    pub fn discard(self) {
        self.store.remove(self.id());
    }

    /// Commits what is not committed, adds a branch with the changes to the parent's repository, and
    /// removes the worktree. It is kept if that fails, or if it contains more than the branch. Programs
    /// that still run in it are ended. Returns nothing if nothing was changed, or if a process that was
    /// killed has done all but the removal.
    pub fn close(mut self) -> Result<Option<WorktreeReport>, WorktreeError> {
        let id = self.id().to_owned();
        if self.record.is_done {
            self.store.remove(&id);
            return Ok(None);
        }
        let folder = self.record.tree.clone();
        let kept = |error| WorktreeError::Kept { folder, source: Box::new(error) };
        // Jobs that a process could hold would change the worktree while it is committed.
        if self.canonical_tree().is_some_and(|tree| !session_commands::end_sessions_in(&tree)) {
            return Err(kept(WorktreeError::Busy));
        }
        let (report, is_kept) = self.store_changes(&id).map_err(kept)?;
        (self.record.is_kept, self.record.is_done) = (is_kept, !is_kept);
        self.record.is_waiting = false;
        // The record first: the remains of a worktree that is being removed are not its changes.
        self.record.write(&self.folder()?)?;
        if !is_kept {
            self.store.remove(&id);
        }
        Ok(report)
    }

    fn store_changes(&self, id: &str) -> Result<(Option<WorktreeReport>, bool), WorktreeError> {
        let WorktreeRecord { tree, parent, branch, base, settings, .. } = &self.record;
        make_harmless(tree, settings)?;
        let git = self.store.git(id)?;
        let staged = git.stage(tree);
        let tip = git.commit(tree, base, &self.record.name)?;
        let refs = git.list_other_refs(tree, &tip)?;
        let mut notes = self.record.notes.clone();
        let kept_in = |what: String| format!("{what}, only in {}", tree.display());
        if let Err(error) = &staged {
            notes.push(kept_in(format!("files that cannot be committed ({error})")));
        }
        if !refs.is_empty() {
            notes.push(kept_in(format!("other references: {}", refs.join(", "))));
        }
        let (gitlinks, is_whole) = git.list_gitlinks(tree)?;
        let filled = list_filled(tree, &gitlinks);
        if !filled.is_empty() {
            notes.push(kept_in(format!("files in submodules: {}", filled.join(", "))));
        }
        if !is_whole {
            notes.push(kept_in("more files than zero can check for submodules".to_owned()));
        }
        let mut is_kept = staged.is_err() || !refs.is_empty() || !filled.is_empty() || !is_whole;
        if tip == *base {
            let report = is_kept.then(|| self.report(0, (String::new(), false), notes));
            return Ok((report, is_kept));
        }
        let folder = self.folder()?;
        let pack = PackFile { folder: &folder, name: PACK };
        git.write_pack(tree, base, &tip, &pack)?;
        git.add_pack(parent, &pack)?;
        let changes = git.list_changes(parent, base, &tip)?;
        if !changes.nested.is_empty() {
            notes.push(kept_in(format!("repositories in it: {}", changes.nested.join(", "))));
        }
        if changes.is_cut {
            // The files that were not looked at may be repositories.
            notes.push(kept_in("more changed files than are counted here".to_owned()));
        }
        notes.extend(describe_settings(&changes.settings));
        is_kept |= !changes.nested.is_empty() || changes.is_cut;
        let diff = git.diff(parent, base, &tip)?;
        git.create_branch(parent, branch, &tip)?;
        folder.remove(PACK).map_err(WorktreeError::state)?;
        Ok((Some(self.report(changes.files, diff, notes)), is_kept))
    }

    fn report(&self, files: usize, diff: (String, bool), notes: Vec<String>) -> WorktreeReport {
        let (branch, base) = (self.record.branch.clone(), self.record.base.clone());
        WorktreeReport { branch, base, files, diff: diff.0, is_cut: diff.1, notes }
    }

    /// Its folder as sessions name it; `None` if it does not exist.
    fn canonical_tree(&self) -> Option<PathBuf> {
        path_survey::canonicalize(&self.record.tree)
    }

    /// The name of its folders, which is the id of the sub-agent's session.
    fn id(&self) -> &str {
        let name = self.record.tree.parent().and_then(Path::file_name);
        name.and_then(|name| name.to_str()).unwrap_or_default()
    }

    fn folder(&self) -> Result<StateDir, WorktreeError> {
        self.store.record_folder(self.id())
    }
}

/// The folders of submodules that are not empty any more, as they are at the start; the first ones.
fn list_filled(tree: &Path, gitlinks: &[PathBuf]) -> Vec<String> {
    let Ok(folder) = FolderHandle::open_own(tree) else { return Vec::new() };
    let is_filled = |path: &&PathBuf| match folder.folder_beneath(path) {
        Ok(found) => found.entries().map_or(true, |entries| !entries.is_empty()),
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    };
    let filled = gitlinks.iter().filter(is_filled).take(NAMED_MAX);
    filled.map(|path| path.display().to_string()).collect()
}

/// Whether a folder of a worktree is one of its own: a link would move the sub-agent elsewhere.
fn is_within(tree: &Path, within: &Path) -> bool {
    let (Some(area), Some(name)) = (tree.parent(), tree.file_name()) else { return false };
    let area = FolderHandle::open_own(area);
    area.and_then(|area| area.folder_beneath(&Path::new(name).join(within))).is_ok()
}

/// The branch of a sub-agent.
fn branch_name(id: &str, name: &str) -> String {
    const DIGITS: usize = 8;
    let name = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' });
    let start = id.len().saturating_sub(DIGITS);
    format!("zero/{}-{}", name.collect::<String>().trim_matches('-'), id.get(start..).unwrap_or(id))
}

/// What a branch contains that runs code once it is checked out. In a working folder, commands
/// cannot create it; in a branch, only the reader of the report can stop it.
fn describe_settings(settings: &[(String, &'static str)]) -> Option<String> {
    let named: Vec<String> =
        settings.iter().take(NAMED_MAX).map(|(path, why)| format!("`{path}` ({why})")).collect();
    let more = settings.len().saturating_sub(named.len());
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    (!named.is_empty()).then(|| {
        let named = named.join(", ");
        format!("the branch changes files that can run code: {named}{more}; inspect them before you check it out or merge it")
    })
}

/// What of a repository a worktree does not have.
fn list_omissions(tree: &Path) -> Vec<String> {
    let mut notes = Vec::new();
    if path_survey::exists(&tree.join(".gitmodules")) {
        notes.push("submodules were empty in the worktree".to_owned());
    }
    let attributes = path_survey::read_small_file(&tree.join(".gitattributes"), 1 << 20);
    let attributes = attributes.unwrap_or_default();
    if String::from_utf8_lossy(&attributes).contains("filter=") {
        notes.push("filters of git, such as LFS, did not run in the worktree".to_owned());
    }
    notes
}

/// Takes everything out of a repository that could make git read, write or run something else. Every
/// folder is opened once and without links: a path could lead elsewhere the next time.
fn make_harmless(tree: &Path, settings: &str) -> Result<(), WorktreeError> {
    let git = open_git_folder(tree)?;
    let mut objects_info = None;
    for name in REAL_FOLDERS {
        match git.folder_beneath(Path::new(name)) {
            Ok(folder) if *name == OBJECTS_INFO => objects_info = Some(folder),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(_) => return Err(WorktreeError::Damaged),
        }
    }
    for name in REMOVED_FILES {
        git.remove_file(name).map_err(WorktreeError::state)?;
    }
    if let Some(folder) = objects_info {
        folder.remove_file("alternates").map_err(WorktreeError::state)?;
    }
    write_settings(&git, settings)
}

/// The git folder of a worktree, if it is where zero made it.
fn open_git_folder(tree: &Path) -> Result<FolderHandle, WorktreeError> {
    let (area, name) = (tree.parent(), tree.file_name());
    let (Some(area), Some(name)) = (area, name) else { return Err(WorktreeError::Damaged) };
    let area = FolderHandle::open_own(area).map_err(WorktreeError::state)?;
    area.folder_beneath(&Path::new(name).join(".git")).map_err(|_| WorktreeError::Damaged)
}

fn write_settings(git: &FolderHandle, settings: &str) -> Result<(), WorktreeError> {
    let write = || {
        git.remove_file("config")?;
        git.create_file("config")?.write_all(settings.as_bytes())
    };
    write().map_err(WorktreeError::state)
}

fn read_settings(tree: &Path) -> Result<String, WorktreeError> {
    let mut text = String::new();
    let file = StateDir::new(tree.join(".git")).open("config");
    file.and_then(|mut file| file.read_to_string(&mut text)).map_err(WorktreeError::state)?;
    Ok(text)
}

#[cfg(test)]
mod tests;
