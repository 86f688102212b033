//! Files that determine what runs later, and files that contain secrets.
//!
//! A change to a file of the first kind can take effect at the next prompt, commit or build, with
//! all permissions of the user; so only a rule written for it makes it writable without asking.
//! Reading a file of the second kind can leak secrets that no sandbox gets back. Files are judged
//! by name, so they need not exist, and broadly: a name that some file system treats as a protected
//! one is protected.
//!
//! zero's own settings, state and secrets are both, and stricter: no rule opens them, so that no
//! tool or command can read zero's own secrets.

mod credential_paths;
mod name_table;
mod protected_names;

use std::borrow::Cow;
use std::path::{Component, Path, PathBuf};

pub use self::credential_paths::{
    CredentialLocation, CredentialPath, CredentialScope, CredentialVariable,
};
pub use self::name_table::ProtectedName;

use crate::word_list::words;
use protected_names::{
    ANYWHERE, FROM_ROOT, IN_GIT, IN_GIT_FOR_TOOLS, SECRETS, SECRETS_OF_HOME, SECRETS_OF_SYSTEM,
};

/// The folders that protection depends on, by their folded names.
#[derive(Clone, Debug, Default)]
pub struct ProtectedPaths {
    roots: Vec<Vec<String>>,
    home: Option<Vec<String>>,
    config_dir: Option<Vec<String>>,
    state_dir: Option<Vec<String>>,
    secret_files: Vec<Vec<String>>,
}

impl ProtectedPaths {
    /// Takes the workspace folders, the home folder, and the folders of the user's settings and of
    /// zero's own state.
    pub fn new(
        roots: &[PathBuf],
        home: Option<&Path>,
        config_dir: Option<&Path>,
        state_dir: Option<&Path>,
    ) -> Self {
        Self {
            roots: roots.iter().map(|root| owned_folded_names(root)).collect(),
            home: home.map(owned_folded_names),
            config_dir: config_dir.map(owned_folded_names),
            state_dir: state_dir.map(owned_folded_names),
            secret_files: Vec::new(),
        }
    }

    /// Adds files with zero's secrets.
    pub fn with_secret_files(mut self, files: &[PathBuf]) -> Self {
        // A path without a name would be the root folder.
        self.secret_files = files
            .iter()
            .map(|file| owned_folded_names(file))
            .filter(|names| !names.is_empty())
            .collect();
        self
    }

    /// The paths that no rule opens, each with its description.
    fn closed_entries(&self) -> impl Iterator<Item = (&[String], &'static str)> {
        let own = [&self.config_dir, &self.state_dir].into_iter().flatten();
        let own = own.map(|folder| (folder.as_slice(), OWN_FILES));
        own.chain(self.secret_files.iter().map(|file| (file.as_slice(), SECRET_FILE)))
    }
}

const OWN_FILES: &str = "zero's own settings and state";
/// Description of process memory and environment.
pub const PROCESS_MEMORY: &str = "the memory or environment of a process";
const SECRET_FILE: &str = "a file with zero's secrets";
const SECRET_FOLDER: &str = "a folder with files that can run code";

/// Why no tool and no command may access a file, whatever rules and approvals say.
pub fn closed_reason(path: &Path, places: &ProtectedPaths) -> Option<&'static str> {
    let names = folded_names(path);
    places.closed_entries().find(|(own, _)| lies_in(&names, own)).map(|(_, what)| what)
}

/// Why a folder cannot be removed: it contains a secret of zero's own.
pub fn secret_folder_reason(path: &Path, places: &ProtectedPaths) -> Option<&'static str> {
    let names = folded_names(path);
    let inside = places.secret_files.iter().any(|file| contains_folder(&names, file));
    inside.then_some("a folder with zero's secrets")
}

/// Whether a folder contains a path that no rule opens, or is inside one.
pub fn overlaps_closed(folder: &Path, places: &ProtectedPaths) -> bool {
    let names = folded_names(folder);
    places.closed_entries().any(|(own, _)| contains_folder(&names, own) || lies_in(&names, own))
}

/// Whether a path is the memory or environment of a process in `/proc`: zero's own would be among
/// them.
pub fn is_process_memory(path: &Path) -> bool {
    let names = folded_names(path);
    let shows = |last: &Cow<'_, str>| matches!(last.as_ref(), "environ" | "mem");
    names.first().is_some_and(|first| first == "proc") && names.last().is_some_and(shows)
}

/// Why a file must not be changed without asking, whatever the rules say.
pub fn protected_reason(path: &Path, places: &ProtectedPaths) -> Option<&'static str> {
    let names = folded_names(path);
    let own = [&places.config_dir, &places.state_dir];
    if own.into_iter().flatten().any(|folder| lies_in(&names, folder)) {
        return Some(OWN_FILES);
    }
    if holds_protected(&names, places) {
        return Some(SECRET_FOLDER);
    }
    git_internal_reason(&names)
        .or_else(|| FROM_ROOT.find_at_start(&names))
        .or_else(|| ANYWHERE.find_within(&names))
        .or_else(|| ANYWHERE.is_parent_of_entry(&names).then_some(SECRET_FOLDER))
}

/// The file or folder with settings that a path is, or is in.
pub fn find_settings(path: &Path) -> Option<&Path> {
    let is_setting = |path: &&Path| ANYWHERE.find_within(&folded_names(path)).is_some();
    path.ancestors().filter(is_setting).last()
}

/// Which secret a file contains, so that a rule for a command alone must not expose it.
pub fn sensitive_reason(path: &Path, places: &ProtectedPaths) -> Option<&'static str> {
    let names = folded_names(path);
    if places.state_dir.iter().any(|folder| lies_in(&names, folder)) {
        return Some("zero's own state");
    }
    if is_process_memory(path) {
        return Some(PROCESS_MEMORY);
    }
    let in_home = || {
        let home = places.home.as_deref()?;
        SECRETS_OF_HOME.find_at_start(names.get(home.len()..).filter(|_| lies_in(&names, home))?)
    };
    SECRETS.find_within(&names).or_else(|| SECRETS_OF_SYSTEM.find_at_start(&names)).or_else(in_home)
}

/// Names that must not be changed in a working folder, relative to it. [`protected_reason`] uses
/// the same list.
pub fn settings_names() -> impl Iterator<Item = ProtectedName> {
    ANYWHERE.names()
}

/// Ends of names that must not be changed in a working folder, such as `.code-workspace`.
pub fn settings_endings() -> impl Iterator<Item = ProtectedName> {
    ANYWHERE.endings()
}

/// Names that must not be changed in the folder of a repository, relative to it.
pub fn git_names() -> impl Iterator<Item = ProtectedName> {
    IN_GIT.names()
}

/// Every known place with credentials. [`sensitive_reason`] uses the same table.
pub fn credential_paths() -> &'static [CredentialPath] {
    credential_paths::CREDENTIAL_PATHS
}

/// The variables that move credentials elsewhere.
pub fn credential_variables() -> &'static [CredentialVariable] {
    credential_paths::CREDENTIAL_VARIABLES
}

/// Whether a path is one of zero's own: its settings and state, which no rule opens.
pub fn is_own_file(path: &Path, places: &ProtectedPaths) -> bool {
    let names = folded_names(path);
    places.closed_entries().any(|(own, _)| lies_in(&names, own) || contains_folder(&names, own))
        || names.iter().any(|name| name == ".zero")
}

/// Whether the names of a rule without wildcards include a protected name: then the rule was
/// written for it.
pub(crate) fn names_protected<'a>(names: impl Iterator<Item = &'a str>) -> bool {
    let names: Vec<Cow<'_, str>> = names.map(|name| Cow::Owned(fold_file_name(name))).collect();
    ANYWHERE.find_within(&names).is_some()
}

/// A folder cannot be replaced without its contents.
fn holds_protected(names: &[Cow<'_, str>], places: &ProtectedPaths) -> bool {
    let inside = [&places.config_dir, &places.state_dir].into_iter().flatten().chain(&places.roots);
    let above = |folder: &[String]| folder.len() > names.len() && contains_folder(names, folder);
    places.home.as_deref().is_some_and(|home| contains_folder(names, home))
        || inside.into_iter().any(|folder| above(folder))
}

/// Whether the path is `folder` or inside it.
fn lies_in(names: &[Cow<'_, str>], folder: &[String]) -> bool {
    names.len() >= folder.len() && names.iter().zip(folder).all(|(name, own)| name == own)
}

/// Whether `folder` is the path or inside it.
fn contains_folder(names: &[Cow<'_, str>], folder: &[String]) -> bool {
    names.len() <= folder.len() && names.iter().zip(folder).all(|(name, own)| name == own)
}

/// Parts of a repository that make git run something, or that make it another repository.
fn git_internal_reason(names: &[Cow<'_, str>]) -> Option<&'static str> {
    names.iter().enumerate().filter(|(_, name)| is_git_folder(name)).find_map(|(at, _)| {
        let inside = names.get(at + 1..).unwrap_or_default();
        match inside.first().map(Cow::as_ref) {
            None => Some("the repository itself"),
            Some("modules" | "worktrees") => nested_git_reason(inside),
            Some(_) => {
                IN_GIT.find_at_start(inside).or_else(|| IN_GIT_FOR_TOOLS.find_at_start(inside))
            }
        }
    })
}

/// `modules/NAME/hooks` and similar. A name may have several components, so known harmless paths
/// are allowed instead.
fn nested_git_reason(inside: &[Cow<'_, str>]) -> Option<&'static str> {
    const HARMLESS: &[&str] = words!(
        "commit_editmsg fetch_head head index logs objects orig_head packed-refs refs merge_head \
         merge_msg description index.lock"
    );
    let names = inside.get(1..).unwrap_or_default();
    let runs = (0..names.len()).find_map(|at| IN_GIT.find_at_start(names.get(at..)?));
    let harmless = names.iter().skip(1).any(|name| HARMLESS.contains(&name.as_ref()));
    runs.or_else(|| (!harmless).then_some("a nested repository"))
}

fn is_git_folder(name: &str) -> bool {
    // `git~1` is the short name of `.git` on Windows.
    matches!(name, ".git" | "git~1")
}

/// The components of a path as the least strict file system compares them.
fn folded_names(path: &Path) -> Vec<Cow<'_, str>> {
    let fold_any = |component| match component {
        Component::Normal(name) => Some(match name.to_str() {
            Some(name) if is_folded(name) => Cow::Borrowed(name),
            Some(name) => Cow::Owned(fold_file_name(name)),
            None => Cow::Owned(fold_file_name(&name.to_string_lossy())),
        }),
        _ => None,
    };
    let mut names = Vec::with_capacity(path.as_os_str().len() / 8 + 1);
    names.extend(path.components().filter_map(fold_any));
    names
}

fn owned_folded_names(path: &Path) -> Vec<String> {
    folded_names(path).into_iter().map(Cow::into_owned).collect()
}

/// Whether folding certainly changes nothing, as for nearly every name.
fn is_folded(name: &str) -> bool {
    let stays = |byte: u8| byte.is_ascii() && !byte.is_ascii_uppercase() && byte != b':';
    name.bytes().all(stays) && !name.ends_with(['.', ' '])
}

fn fold_file_name(name: &str) -> String {
    let name = name.split("::$").next().filter(|name| !name.is_empty()).unwrap_or(name);
    let trimmed = name.trim_end_matches(['.', ' ']);
    let name = if trimmed.is_empty() { name } else { trimmed };
    name.chars()
        .filter(|character| !is_ignored(*character))
        .flat_map(char::to_lowercase)
        // Some file systems fold the long s too.
        .map(|character| if character == 'ſ' { 's' } else { character })
        .collect()
}

/// Characters that some file systems ignore when they compare names.
fn is_ignored(character: char) -> bool {
    matches!(character, '\u{ad}' | '\u{34f}' | '\u{180e}' | '\u{200b}'..='\u{200f}'
        | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}')
}

#[cfg(test)]
mod tests;
