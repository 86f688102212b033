//! Files that decide what runs later, or that hold secrets.
//!
//! A change to one of the first kind can wait for the next prompt, commit or build and then run
//! with all rights of the person; so no rule that was not written for it makes it writable without
//! asking. A look at one of the second kind can leak what no sandbox gets back. Judged by name, so
//! that a file need not exist, and generously: a name that some disk takes for a protected one is
//! one.
//!
//! zero's own settings, state and secrets are both, and more: nothing opens them, so that nobody who
//! talks to zero gets hold of what zero itself knows.

mod name_table;
mod protected_names;

use std::borrow::Cow;
use std::path::{Component, Path, PathBuf};

pub use self::name_table::ProtectedName;

use crate::word_list::words;
use protected_names::{ANYWHERE, FROM_ROOT, IN_GIT, SECRETS, SECRETS_OF_HOME};

/// Where the files lie whose protection depends on the place, by their folded names.
#[derive(Clone, Debug, Default)]
pub struct ProtectedPaths {
    roots: Vec<Vec<String>>,
    home: Option<Vec<String>>,
    config_dir: Option<Vec<String>>,
    state_dir: Option<Vec<String>>,
    secret_files: Vec<Vec<String>>,
}

impl ProtectedPaths {
    /// The folders of the workspace, the home folder, and where the person's settings and zero's
    /// own state lie.
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

    /// The same, where zero keeps secrets in these files.
    pub fn with_secret_files(mut self, files: &[PathBuf]) -> Self {
        // A path without a name would be the whole machine.
        self.secret_files = files
            .iter()
            .map(|file| owned_folded_names(file))
            .filter(|names| !names.is_empty())
            .collect();
        self
    }

    /// What nothing opens, each with what it is.
    fn closed_entries(&self) -> impl Iterator<Item = (&[String], &'static str)> {
        let own = [&self.config_dir, &self.state_dir].into_iter().flatten();
        let own = own.map(|folder| (folder.as_slice(), OWN_FILES));
        own.chain(self.secret_files.iter().map(|file| (file.as_slice(), SECRET_FILE)))
    }
}

const OWN_FILES: &str = "zero's own settings and state";
/// What is said of a process.
pub const PROCESS_MEMORY: &str = "the memory or environment of a process";
const SECRET_FILE: &str = "a file with zero's secrets";
const SECRET_FOLDER: &str = "a folder with files that can run code";

/// What a file is that no tool and no command reads, changes or removes, whatever anybody says.
pub fn closed_reason(path: &Path, places: &ProtectedPaths) -> Option<&'static str> {
    let names = folded_names(path);
    places.closed_entries().find(|(own, _)| lies_in(&names, own)).map(|(_, what)| what)
}

/// What a folder is that cannot go without a secret of zero's own.
pub fn secret_folder_reason(path: &Path, places: &ProtectedPaths) -> Option<&'static str> {
    let names = folded_names(path);
    let inside = places.secret_files.iter().any(|file| contains_folder(&names, file));
    inside.then_some("a folder with zero's secrets")
}

/// Whether something that nothing opens lies in a folder, or the folder in it.
pub fn overlaps_closed(folder: &Path, places: &ProtectedPaths) -> bool {
    let names = folded_names(folder);
    places.closed_entries().any(|(own, _)| contains_folder(&names, own) || lies_in(&names, own))
}

/// Whether it is the memory or the environment of a process, as the kernel shows them: zero's own
/// would be among them.
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

/// Which secret a file holds, when a rule for a command alone must not expose it.
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
    SECRETS.find_within(&names).or_else(in_home)
}

/// What must not be changed in a folder that somebody works in, from that folder on. It is the same
/// list by which [`protected_reason`] judges.
pub fn settings_names() -> impl Iterator<Item = ProtectedName> {
    ANYWHERE.names()
}

/// What must not be changed in a repository's own folder, from that folder on.
pub fn git_names() -> impl Iterator<Item = ProtectedName> {
    IN_GIT.names()
}

/// What holds secrets, from the home folder on, or from the machine's root where it belongs to the
/// system. It is the same list by which [`sensitive_reason`] judges.
pub fn secret_names() -> impl Iterator<Item = ProtectedName> {
    SECRETS.names().chain(SECRETS_OF_HOME.names())
}

/// Whether a path is zero's own: its settings and state, which no rule opens.
pub fn is_own_file(path: &Path, places: &ProtectedPaths) -> bool {
    let names = folded_names(path);
    places.closed_entries().any(|(own, _)| lies_in(&names, own) || contains_folder(&names, own))
        || names.iter().any(|name| name == ".zero")
}

/// Whether the names of a rule, as far as they have no wildcard, name something that is protected:
/// then the rule was written for it.
pub(crate) fn names_protected<'a>(names: impl Iterator<Item = &'a str>) -> bool {
    let names: Vec<Cow<'_, str>> = names.map(|name| Cow::Owned(fold_name(name))).collect();
    ANYWHERE.find_within(&names).is_some()
}

/// A folder cannot be replaced without what lies in it.
fn holds_protected(names: &[Cow<'_, str>], places: &ProtectedPaths) -> bool {
    let inside = [&places.config_dir, &places.state_dir].into_iter().flatten().chain(&places.roots);
    let above = |folder: &[String]| folder.len() > names.len() && contains_folder(names, folder);
    places.home.as_deref().is_some_and(|home| contains_folder(names, home))
        || inside.into_iter().any(|folder| above(folder))
}

/// Whether a folder is among those that a path leads through, or is the path.
fn lies_in(names: &[Cow<'_, str>], folder: &[String]) -> bool {
    names.len() >= folder.len() && names.iter().zip(folder).all(|(name, own)| name == own)
}

/// Whether a folder is the path or lies in it.
fn contains_folder(names: &[Cow<'_, str>], folder: &[String]) -> bool {
    names.len() <= folder.len() && names.iter().zip(folder).all(|(name, own)| name == own)
}

/// What of a repository makes git run something, or makes it another repository.
fn git_internal_reason(names: &[Cow<'_, str>]) -> Option<&'static str> {
    names.iter().enumerate().filter(|(_, name)| is_git_folder(name)).find_map(|(at, _)| {
        let inside = names.get(at + 1..).unwrap_or_default();
        match inside.first().map(Cow::as_ref) {
            None => Some("the repository itself"),
            Some("modules" | "worktrees") => nested_git_reason(inside),
            Some(_) => IN_GIT.find_at_start(inside),
        }
    })
}

/// `modules/NAME/hooks` and the like. A name may have several parts, so what is known to be
/// harmless is let through instead.
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
    // `git~1` is the short name that Windows gives to `.git`.
    matches!(name, ".git" | "git~1")
}

/// The names of a path as the most careless file system compares them.
fn folded_names(path: &Path) -> Vec<Cow<'_, str>> {
    let fold_any = |component| match component {
        Component::Normal(name) => Some(match name.to_str() {
            Some(name) if is_folded(name) => Cow::Borrowed(name),
            Some(name) => Cow::Owned(fold_name(name)),
            None => Cow::Owned(fold_name(&name.to_string_lossy())),
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

/// Whether folding certainly changes nothing, as with nearly every name.
fn is_folded(name: &str) -> bool {
    let stays = |byte: u8| byte.is_ascii() && !byte.is_ascii_uppercase() && byte != b':';
    name.bytes().all(stays) && !name.ends_with(['.', ' '])
}

fn fold_name(name: &str) -> String {
    let name = name.split("::$").next().filter(|name| !name.is_empty()).unwrap_or(name);
    let trimmed = name.trim_end_matches(['.', ' ']);
    let name = if trimmed.is_empty() { name } else { trimmed };
    name.chars()
        .filter(|letter| !is_ignored(*letter))
        .flat_map(char::to_lowercase)
        // Some disks fold the long s too.
        .map(|letter| if letter == 'ſ' { 's' } else { letter })
        .collect()
}

/// Characters that some file systems drop when they compare names.
fn is_ignored(letter: char) -> bool {
    matches!(letter, '\u{ad}' | '\u{34f}' | '\u{180e}' | '\u{200b}'..='\u{200f}'
        | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}')
}

#[cfg(test)]
mod tests;
