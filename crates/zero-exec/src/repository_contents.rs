//! Settings that a command put into a repository without writing them to a file.
//!
//! A command may change the index and the branches of a repository, so that commits work. With
//! `git update-index --cacheinfo`, `git commit-tree` or `git fast-import` it can store a file such as
//! `.envrc` there that never lies in the working folder. The user's next checkout writes it, the next
//! push publishes it. So after a command, the entries that it added to the index and to branches are
//! compared with the names of such settings.
//!
//! The findings are reported, and nothing is undone. An entry that is removed from the index would
//! be removed from the branch by the next commit, and a branch that is put back loses the commits
//! that the command was asked for.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use zero_core::text_shortening::excerpt;
use zero_sandbox::path_survey::{self, ChangeStamp};

use crate::confined_git::ConfinedGit;
use crate::git_facts::{self, ConcealedFiles, GitRefs, IndexSummary, StagedFile};
use crate::profile::folder_scanner::{IndexedRepository, describe_setting};

/// Most names of a repository that are inspected after a command.
const INSPECTED_MAX: usize = 64;
/// Most commits that were there before and are given to git for comparison. Without the others, more
/// counts as new.
const KNOWN_TIPS_MAX: usize = 1_000;
/// Most findings that are reported.
const REPORTED_MAX: usize = 20;
/// Names that lead nowhere by themselves: they say where other repositories are.
const REMOTE_NAMES: &str = "refs/remotes/";
/// Digits of a commit in a message.
const SHORT_DIGITS: usize = 12;

/// The file in a git folder that lists files which `git status` does not show.
const EXCLUDE: &str = "info/exclude";
/// Most bytes of it that are compared.
const EXCLUDE_BYTES_MAX: u64 = 256 * 1024;
/// The setting that makes git leave files out of the working folder.
const SPARSE_SETTING: &str = "core.sparsecheckout";
/// Most files named in one warning.
const CONCEALED_SHOWN_MAX: usize = 5;
/// Longest path in such a warning, in characters.
const PATH_CHARS_MAX: usize = 200;

/// What the repositories of a workspace hold.
#[derive(Debug, Default)]
pub(crate) struct RepositoryContents(BTreeMap<PathBuf, RepositoryState>);

#[derive(Debug)]
struct RepositoryState {
    /// The working folder.
    folder: PathBuf,
    index: Arc<IndexSummary>,
    refs: GitRefs,
    exclude: ExcludeFile,
}

/// The list of files that `git status` does not show, which is in no commit.
#[derive(Debug, PartialEq, Eq)]
struct ExcludeFile {
    content: Option<Vec<u8>>,
    /// Of a file that is too large to compare.
    stamp: Option<ChangeStamp>,
}

impl ExcludeFile {
    fn read(git: &Path) -> Self {
        let path = git.join(EXCLUDE);
        let content = path_survey::read_small_file(&path, EXCLUDE_BYTES_MAX);
        let stamp = content.is_none().then(|| path_survey::read_stamp(&path)).flatten();
        Self { content, stamp }
    }
}

/// A setting in a repository.
struct StoredSetting<'a> {
    git: &'a Path,
    folder: &'a Path,
    path: PathBuf,
    object: String,
    why: &'static str,
    /// The index, or a name and its commit.
    place: StoredPlace,
}

#[derive(PartialEq, Eq)]
enum StoredPlace {
    Index,
    Commit { name: String, commit: String },
}

impl RepositoryContents {
    /// Reads the names of the repositories that were found.
    pub(crate) fn read(found: &[IndexedRepository]) -> Self {
        let state = |found: &IndexedRepository| {
            let IndexedRepository { folder, git, index } = found;
            let (folder, refs) = (folder.clone(), GitRefs::read(git));
            let (index, exclude) = (Arc::clone(index), ExcludeFile::read(git));
            (git.clone(), RepositoryState { folder, index, refs, exclude })
        };
        Self(found.iter().map(state).collect())
    }

    /// The settings that were added since `before`, as warnings. `is_open` tells which settings
    /// commands may create; those at paths in `quarantined` are reported already.
    pub(crate) fn warnings_since(
        &self,
        before: &Self,
        git: &ConfinedGit,
        is_open: impl Fn(&Path) -> bool,
        quarantined: &BTreeSet<PathBuf>,
    ) -> Vec<String> {
        let mut warnings = Vec::new();
        let mut settings = Vec::new();
        for (path, state) in &self.0 {
            // A new repository brings what its origin has.
            let Some(known) = before.0.get(path) else { continue };
            settings.extend(state.find_staged(path, known));
            warnings.extend(state.concealment_warning(path, known));
            if state.exclude != known.exclude {
                warnings.push(format!(
                    "`{}` was changed, so `git status` may not show new files; inspect it",
                    path.join(EXCLUDE).display()
                ));
            }
            warnings.extend(state.find_committed(path, known, git, &mut settings));
        }
        settings.retain(|setting| {
            let written = setting.folder.join(&setting.path);
            !is_open(&written) && !quarantined.iter().any(|path| written.starts_with(path))
        });
        retain_unlike_files(git, &mut settings);
        let more = settings.len().saturating_sub(REPORTED_MAX);
        warnings.extend(settings.iter().take(REPORTED_MAX).map(StoredSetting::to_warning));
        if more > 0 {
            warnings.push(format!("{more} more such files are in the index or on branches"));
        }
        warnings
    }
}

/// The files that were concealed since `known` was read, and how many they are at least.
fn find_concealed<'a>(
    now: &'a ConcealedFiles,
    known: &'a ConcealedFiles,
) -> (Vec<&'a PathBuf>, usize) {
    // Of two lists that were cut off, the difference says nothing.
    let is_complete = now.is_complete() && known.is_complete();
    let new: Vec<&PathBuf> = now.paths.difference(&known.paths).filter(|_| is_complete).collect();
    let added = now.count.saturating_sub(known.count).max(new.len());
    (new, added)
}

/// Whether a repository leaves files out of its working folder. No command can change this setting.
fn is_sparse(git: &Path) -> bool {
    let common = git_facts::find_common_folder(git);
    let files = [common.join("config"), git.join("config.worktree")];
    let values = files.iter().flat_map(|file| git_facts::read_git_values(file, SPARSE_SETTING));
    values.last().is_some_and(|value| {
        matches!(value.to_ascii_lowercase().as_str(), "true" | "yes" | "on" | "1")
    })
}

impl RepositoryState {
    /// The warning about files whose changes git was told not to show.
    fn concealment_warning(&self, git: &Path, before: &Self) -> Option<String> {
        let (now, known) = (&self.index, &before.index);
        let (mut new, mut added) = find_concealed(&now.assumed_unchanged, &known.assumed_unchanged);
        let (skipped, skipped_count) = find_concealed(&now.skipped, &known.skipped);
        match is_sparse(git) {
            false => {
                added += skipped_count;
                new.extend(skipped);
            }
            // Git itself leaves files out of a sparse checkout. One that is there nevertheless may
            // have changes.
            true => {
                let is_there = |path: &&PathBuf| path_survey::exists(&self.folder.join(path));
                let there: Vec<&PathBuf> = skipped.into_iter().filter(is_there).collect();
                added += there.len();
                new.extend(there);
            }
        }
        if added == 0 {
            return None;
        }
        let shown = new.iter().take(CONCEALED_SHOWN_MAX);
        let mut shown: Vec<String> = shown
            .map(|path| format!("`{}`", excerpt(&path.display().to_string(), PATH_CHARS_MAX)))
            .collect();
        let more = added - shown.len();
        if more > 0 {
            shown.push(format!("{more} more files"));
        }
        Some(format!(
            "`git status` in `{}` no longer shows changes of {} (`assume-unchanged` or `skip-worktree`); `git ls-files -v` lists these files",
            excerpt(&git.display().to_string(), PATH_CHARS_MAX),
            shown.join(", ")
        ))
    }

    /// The settings in the index that were not there before, or have another content.
    fn find_staged<'a>(
        &'a self,
        git: &'a Path,
        before: &'a Self,
    ) -> impl Iterator<Item = StoredSetting<'a>> {
        let is_new = |file: &&StagedFile| !before.index.settings.contains(*file);
        self.index.settings.iter().filter(is_new).filter_map(move |file| {
            let (path, object) = (file.path.clone(), file.object.clone());
            let why = describe_setting(&path)?;
            let place = StoredPlace::Index;
            Some(StoredSetting { git, folder: &self.folder, path, object, why, place })
        })
    }

    /// Adds the settings on branches that were not there before. Returns warnings about what could
    /// not be inspected.
    fn find_committed<'a>(
        &'a self,
        git: &'a Path,
        before: &Self,
        confined: &ConfinedGit,
        settings: &mut Vec<StoredSetting<'a>>,
    ) -> Vec<String> {
        let shown = git.display();
        let mut warnings = Vec::new();
        if self.refs.may_hide_change_since(&before.refs) {
            warnings.push(format!(
                "the branches of `{shown}` cannot all be read, so files that run code may have been added to them; inspect them before you check one out or push"
            ));
        }
        let changed: Vec<(&str, &str)> = self
            .refs
            .changed_since(&before.refs)
            .filter(|(name, _)| !name.starts_with(REMOTE_NAMES))
            .collect();
        if let Some((name, _)) = changed.iter().find(|(name, _)| name.starts_with("refs/replace/"))
        {
            warnings.push(format!(
                "the command made git use another object instead of one in `{shown}` (`{name}`); inspect it, or remove it with `git replace -d`"
            ));
        }
        if changed.len() > INSPECTED_MAX {
            warnings.push(format!(
                "{} names of `{shown}` were changed, too many to inspect all of them for files that run code; inspect them before you check one out or push",
                changed.len()
            ));
        }
        let known: BTreeSet<&str> =
            before.refs.tips.values().map(String::as_str).take(KNOWN_TIPS_MAX).collect();
        for (name, commit) in changed.iter().take(INSPECTED_MAX) {
            // Commits to which another name pointed are not new.
            if known.contains(commit) {
                continue;
            }
            let base = before.refs.tips.get(*name).or(before.refs.head.as_ref());
            let base = base.map(String::as_str);
            let Some(files) = confined.list_added_files(git, base, commit) else {
                warnings.push(format!(
                    "`{name}` of `{shown}` could not be inspected for files that run code; inspect commit {} before you check it out or push it",
                    shorten(commit)
                ));
                continue;
            };
            let files: Vec<(StagedFile, &'static str)> = files
                .into_iter()
                .filter(|file| !before.index.settings.contains(file))
                .filter_map(|file| describe_setting(&file.path).map(|why| (file, why)))
                .collect();
            if files.is_empty() || confined.is_in_history(git, commit, &known) {
                continue;
            }
            for (StagedFile { path, object }, why) in files {
                let place =
                    StoredPlace::Commit { name: (*name).to_owned(), commit: (*commit).to_owned() };
                // Reported once, with the branch.
                settings.retain(|other| {
                    other.place != StoredPlace::Index
                        || (other.git, &other.path, &other.object) != (git, &path, &object)
                });
                settings.push(StoredSetting {
                    git,
                    folder: &self.folder,
                    path,
                    object,
                    why,
                    place,
                });
            }
        }
        warnings
    }
}

impl StoredSetting<'_> {
    fn to_warning(&self) -> String {
        let (folder, path, why) = (self.folder.display(), self.path.display(), self.why);
        match &self.place {
            StoredPlace::Index => format!(
                "the command put `{path}` into the index of `{folder}`: it is {why}, which commands may not create, and the file in the folder is another one or none; inspect it with `git show :{path}`, or remove it from the index with `git rm --cached {path}`"
            ),
            StoredPlace::Commit { name, commit } => {
                let commit = shorten(commit);
                format!(
                    "the command put `{path}` on `{name}` of `{folder}` (commit {commit}): it is {why}, which commands may not create, and the file in the folder is another one or none; inspect it with `git show {commit}:{path}` before you check it out or push it"
                )
            }
        }
    }
}

/// Removes the settings that are the same as the file in the working folder: commands cannot have
/// written that file.
fn retain_unlike_files(confined: &ConfinedGit, settings: &mut Vec<StoredSetting<'_>>) {
    let folders: BTreeSet<(PathBuf, PathBuf)> = settings
        .iter()
        .map(|setting| (setting.git.to_owned(), setting.folder.to_owned()))
        .collect();
    for (git, folder) in folders {
        let is_here = |setting: &StoredSetting<'_>| setting.git == git && setting.folder == folder;
        let here = settings.iter().filter(|setting| is_here(setting));
        let paths: Vec<PathBuf> = here.map(|setting| setting.path.clone()).collect();
        let objects = confined.hash_files(&git, &folder, &paths);
        settings.retain(|setting| {
            !is_here(setting) || objects.get(&setting.path) != Some(&setting.object)
        });
    }
}

fn shorten(object: &str) -> &str {
    object.get(..SHORT_DIGITS).unwrap_or(object)
}
