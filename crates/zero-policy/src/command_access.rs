//! What the commands of a call may read, change and reach, as they were judged.
//!
//! The tables of programs are never complete. So the sandbox is built from the judgement: whatever a
//! program tries, it cannot do more than was judged.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::host::HostName;
use crate::program::GitSettingChange;
use crate::rule::NameGlob;

/// What the commands of a call may read, change and reach.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandAccess {
    /// The files and folders that they were judged to read. They may read these even where the
    /// sandbox hides what is around them.
    pub reads: BTreeSet<PathBuf>,
    /// The files that they may change, besides their private temporary files.
    pub writes: WriteScope,
    /// The hosts that they may connect to.
    pub network: NetworkScope,
    /// The settings of the repository that their only command was judged to change. The file stays
    /// read-only for the command; zero makes these changes and no others.
    pub git_settings: Vec<GitSettingChange>,
    /// The secret files of the workspace that they may read.
    pub secret_files: SecretFileScope,
    /// The hosts among those of the call that only files name: a package manager would download from
    /// them. The project may have chosen them, so only an answer of the user opens them.
    pub registries: BTreeSet<HostName>,
    /// The repositories outside the workspace to which they push. Only a rule for them or an answer
    /// of the user opens them.
    pub repositories: BTreeSet<PathBuf>,
    /// The files that they may send to other machines.
    pub sent: BTreeSet<SentFile>,
    /// Names of secret files in the words of commands that may send them.
    pub sent_names: BTreeSet<SentName>,
    /// The words of their commands that variables, braces and the like make, as far as they are known.
    pub expanded: BTreeSet<String>,
}

/// A file that a command may send to another machine.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SentFile {
    /// Its path.
    pub path: PathBuf,
    /// Whether it is a folder, with everything beneath it.
    pub recursive: bool,
}

/// Most names of one call. Each is compared with each known secret file.
const SENT_NAMES_MAX: usize = 1_000;

/// The name of a file, or a pattern for names, in a word of a command that may send the file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SentName {
    name: String,
    /// The names that it stands for, if it is a pattern.
    glob: Option<NameGlob>,
}

impl SentName {
    /// The last part of a written path; `None` if that is no name.
    pub(crate) fn new(path: &str) -> Option<Self> {
        let name = path.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
        if matches!(name, "" | "." | "..") {
            return None;
        }
        let name = name.to_lowercase();
        let glob = Self::is_pattern(&name).then(|| NameGlob::parse(&name).ok()).flatten();
        Some(Self { name, glob })
    }

    /// These names; one that stands for all names if there are too many.
    pub(crate) fn collect(names: impl Iterator<Item = Self>) -> BTreeSet<Self> {
        let mut found = BTreeSet::new();
        for name in names {
            found.insert(name);
            if found.len() > SENT_NAMES_MAX {
                return Self::new("*").into_iter().collect();
            }
        }
        found
    }

    /// Whether programs may take a text for a pattern.
    pub(crate) fn is_pattern(text: &str) -> bool {
        text.contains(['*', '?', '['])
    }

    /// Whether it may mean the file at a path. A pattern that is none is a name.
    pub fn matches(&self, path: &Path) -> bool {
        let Some(name) = path.file_name() else { return false };
        let name = name.to_string_lossy().to_lowercase();
        name == self.name || self.glob.as_ref().is_some_and(|glob| glob.matches(&name))
    }
}

/// The secret files of the workspace that commands may read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SecretFileScope {
    /// Those that a rule allows to read: the user was not asked, and the commands may read more
    /// files than they name.
    Hidden,
    /// Those that a rule allows to read, and those that the commands change: the user was not asked,
    /// and the commands use the files that they name and no others.
    Named,
    /// All of them: a rule, the user or the mode allows the commands.
    #[default]
    All,
}

/// The files that commands may change, besides their private temporary files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum WriteScope {
    /// None: they were judged to read only.
    Nothing,
    /// Those at these paths and beneath them.
    Paths(BTreeSet<PathBuf>),
    /// All that the sandbox opens to commands, because it is not known what they change.
    #[default]
    Workspace,
}

/// The hosts that commands may connect to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum NetworkScope {
    /// None: they were judged to use no network.
    Nothing,
    /// These, which were judged, and no others.
    Hosts(BTreeSet<HostName>),
    /// Those that were judged, and those that rules, grants and settings allow, because it is not
    /// known which hosts they use.
    #[default]
    Allowed,
}

/// What an effect of a call changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ChangeScope {
    /// Nothing: it only reads.
    Nothing,
    /// Nothing by itself; other effects of the call say what changes.
    OtherEffects,
    /// A file, by each path at which it may be made or removed. A name may be a pattern.
    Files(Vec<PathBuf>),
    /// A repository outside the workspace.
    Repository(PathBuf),
    /// What a host keeps.
    Host(HostName),
    /// What hosts keep that are not known.
    UnknownHosts,
    /// Something that is not known.
    Unknown,
}

impl CommandAccess {
    /// The access that a call needs for these reads and changes of its commands.
    pub(crate) fn new<'a>(
        reads: BTreeSet<PathBuf>,
        changes: impl Iterator<Item = &'a ChangeScope>,
    ) -> Self {
        let mut paths = BTreeSet::new();
        let mut hosts = BTreeSet::new();
        let mut has_unknown_hosts = false;
        for change in changes {
            match change {
                ChangeScope::Nothing | ChangeScope::OtherEffects | ChangeScope::Repository(_) => {}
                ChangeScope::Files(files) => paths.extend(files.iter().cloned()),
                ChangeScope::Host(host) => {
                    hosts.insert(host.clone());
                }
                ChangeScope::UnknownHosts => has_unknown_hosts = true,
                ChangeScope::Unknown => return Self { reads, ..Self::default() },
            }
        }
        let writes = match paths.is_empty() {
            true => WriteScope::Nothing,
            false => WriteScope::Paths(paths),
        };
        let network = match (has_unknown_hosts, hosts.is_empty()) {
            (true, _) => NetworkScope::Allowed,
            (false, true) => NetworkScope::Nothing,
            (false, false) => NetworkScope::Hosts(hosts),
        };
        Self { reads, writes, network, ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_sent_names_stand_for_every_file() {
        let collect = |count: usize| {
            SentName::collect((0..count).filter_map(|at| SentName::new(&format!("a{at}"))))
        };
        let means_env =
            |names: BTreeSet<SentName>| names.iter().any(|name| name.matches(Path::new("/w/.env")));
        assert_eq!(collect(SENT_NAMES_MAX).len(), SENT_NAMES_MAX);
        assert!(!means_env(collect(SENT_NAMES_MAX)));
        assert!(means_env(collect(SENT_NAMES_MAX + 1)));
    }

    #[test]
    fn access_is_union_of_changes() {
        let file = |path: &str| ChangeScope::Files(vec![PathBuf::from(path)]);
        let at = |paths: &[&str]| {
            WriteScope::Paths(paths.iter().map(|path| PathBuf::from(*path)).collect())
        };
        let host = |name: &str| ChangeScope::Host(HostName::from_host(name).unwrap());
        let hosts = |names: &[&str]| {
            NetworkScope::Hosts(
                names.iter().map(|name| HostName::from_host(name).unwrap()).collect(),
            )
        };
        for (changes, writes, network) in [
            (vec![], WriteScope::Nothing, NetworkScope::Nothing),
            (vec![ChangeScope::Nothing], WriteScope::Nothing, NetworkScope::Nothing),
            (vec![host("a.com")], WriteScope::Nothing, hosts(&["a.com"])),
            (vec![host("a.com"), host("b.com")], WriteScope::Nothing, hosts(&["a.com", "b.com"])),
            (
                vec![host("a.com"), ChangeScope::UnknownHosts],
                WriteScope::Nothing,
                NetworkScope::Allowed,
            ),
            (
                vec![file("/w/a/b"), file("/w/a/c")],
                at(&["/w/a/b", "/w/a/c"]),
                NetworkScope::Nothing,
            ),
            (
                vec![file("/w/a"), host("a.com"), ChangeScope::OtherEffects],
                at(&["/w/a"]),
                hosts(&["a.com"]),
            ),
            (
                vec![file("/w/a"), ChangeScope::Unknown],
                WriteScope::Workspace,
                NetworkScope::Allowed,
            ),
        ] {
            let reads = BTreeSet::from([PathBuf::from("/notes")]);
            let access = CommandAccess::new(reads.clone(), changes.iter());
            let expected = CommandAccess { reads, writes, network, ..CommandAccess::default() };
            assert_eq!(access, expected, "{changes:?}");
        }
    }
}
