//! What the files of a repository say: its settings, helpers, index, branches and place.
//!
//! They are read as git reads them, without running git, with bounded lookups of names and files.

mod git_config;
mod git_config_edit;
mod git_helpers;
mod git_index;
mod git_location;
mod git_refs;
mod linked_git_folder;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) use self::git_config::GitSetting;
pub(crate) use self::git_config_edit::{apply_changes, diff_settings};
pub(crate) use self::git_helpers::{
    ConfigChain, ConfigError, ConfigSummary, HelperUse, HelperValue,
};
pub(crate) use self::git_index::{ConcealedFiles, IndexSummary, StagedFile};
pub(crate) use self::git_location::{
    PointerTarget, RepositoryLocation, find_common_folder, may_be_git_folder, read_pointer,
};
pub(crate) use self::git_refs::GitRefs;
pub(crate) use self::linked_git_folder::find_linked_folder;

/// What git would run when used in a folder: names of settings and hooks.
pub(crate) fn find_git_helpers(folder: &Path) -> Vec<String> {
    git_helpers::find_helpers(folder)
}

/// The programs that a repository's configuration and hooks run, by its git folder.
pub(crate) fn list_git_helpers(git: &Path) -> Vec<String> {
    git_helpers::find_repository_helpers(git)
}

/// The programs that a file with settings of git runs; the file itself if it cannot be read.
pub(crate) fn list_git_config_helpers(config: &Path) -> Vec<String> {
    git_helpers::find_config_helpers(config)
}

/// The settings in a file that make git run something; the file itself if it cannot be read.
pub(crate) fn list_helper_settings(config: &Path) -> BTreeSet<GitSetting> {
    git_helpers::find_helper_settings(config)
}

/// Whether a setting makes git run something.
pub(crate) fn is_helper_setting(name: &str, value: &str) -> bool {
    git_helpers::is_helper_setting(name, value)
}

/// The values of a setting of the repository that contains `folder`; `None` if they are not known.
pub(crate) fn read_setting(folder: &Path, name: &str) -> Option<Vec<String>> {
    git_helpers::read_setting(&find_only_git_folder(folder)?.join("config"), name)
}

/// The branch that is checked out in the repository that contains `folder`.
pub(crate) fn read_current_branch(folder: &Path) -> Option<String> {
    git_refs::read_current_branch(&find_only_git_folder(folder)?)
}

/// Whether the repository that contains `folder` has a branch of this name.
pub(crate) fn has_branch(folder: &Path, name: &str) -> bool {
    let git = find_only_git_folder(folder);
    git.is_some_and(|git| GitRefs::read(&git).tips.contains_key(&format!("refs/heads/{name}")))
}

/// The git folder of the repository that contains `folder`, if there is exactly one.
fn find_only_git_folder(folder: &Path) -> Option<PathBuf> {
    let git = folder.ancestors().find_map(RepositoryLocation::find)?;
    let [git] = git.git_folders.as_slice() else { return None };
    Some(git.clone())
}

/// What matters in a file with settings of git. A missing file has no settings.
pub(crate) fn read_git_config(config: &Path) -> Result<ConfigSummary, ConfigError> {
    git_helpers::read_config(config)
}

/// Reads a file with settings of git and those that it includes, each by `read`.
pub(crate) fn read_git_config_chain(
    config: &Path,
    home: Option<&Path>,
    read: impl FnMut(&Path) -> Result<Arc<ConfigSummary>, ConfigError>,
) -> ConfigChain {
    git_helpers::read_config_chain(config, home, read)
}

/// The values of a setting in a file with settings of git.
pub(crate) fn read_git_values(config: &Path, name: &str) -> Vec<String> {
    git_helpers::read_values(config, name)
}

/// The last value of a setting in a text with settings of git; `None` if the text is malformed.
pub(crate) fn read_git_text(content: &[u8], name: &str) -> Option<Option<String>> {
    let settings = git_config::parse_settings(&String::from_utf8_lossy(content))?;
    Some(settings.into_iter().rev().find(|setting| setting.name == name).map(|found| found.value))
}

/// What matters in the index of a git folder; `None` if the index cannot be read. `is_setting` tells
/// which files count as settings.
pub(crate) fn read_git_index(
    git: &Path,
    is_setting: &dyn Fn(&Path) -> bool,
) -> Option<IndexSummary> {
    git_index::read_index(git, is_setting)
}
