//! A table of names, indexed by the first component of each.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::OnceLock;

use super::credential_paths::{CREDENTIAL_PATHS, CredentialScope};

/// Names grouped by the reason for their entry.
type NameRows = &'static [(&'static str, &'static [&'static str])];

/// Stands for any start of a name.
const ANY: char = '*';

/// A table of names; one may have several components, such as `.github/workflows`, or be the end of
/// a name, such as `*.code-workspace`.
pub(super) struct NameTable {
    source: NameSource,
    index: OnceLock<ProtectedNameIndex>,
}

enum NameSource {
    Rows(NameRows),
    Credentials(&'static [CredentialScope]),
}

#[derive(Default)]
struct ProtectedNameIndex {
    by_first: HashMap<String, Vec<NameEntry>>,
    endings: Vec<(String, &'static str)>,
}

/// A protected name and the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProtectedName {
    /// One or more components, as usually written: `.github/workflows`; or the end of a name.
    pub name: &'static str,
    /// The reason.
    pub why: &'static str,
}

struct NameEntry {
    /// The components after the first.
    rest: Vec<String>,
    why: &'static str,
}

impl NameTable {
    pub(super) const fn new(rows: NameRows) -> Self {
        Self { source: NameSource::Rows(rows), index: OnceLock::new() }
    }

    /// The places with credentials of these scopes.
    pub(super) const fn of_credentials(scopes: &'static [CredentialScope]) -> Self {
        Self { source: NameSource::Credentials(scopes), index: OnceLock::new() }
    }

    /// The reason of an entry that the names start with.
    pub(super) fn find_at_start(&self, names: &[Cow<'_, str>]) -> Option<&'static str> {
        let (first, names) = names.split_first()?;
        let fits = |entry: &&NameEntry| {
            entry.rest.len() <= names.len() && entry.rest.iter().zip(names).all(|(a, b)| a == b)
        };
        let by_name = self.entries(first).iter().find(fits).map(|entry| entry.why);
        let by_ending = || {
            let endings = &self.index().endings;
            endings.iter().find(|(ending, _)| first.ends_with(ending)).map(|(_, why)| *why)
        };
        by_name.or_else(by_ending)
    }

    /// The reason of an entry anywhere among the names.
    pub(super) fn find_within(&self, names: &[Cow<'_, str>]) -> Option<&'static str> {
        (0..names.len()).find_map(|at| self.find_at_start(names.get(at..)?))
    }

    /// Whether the names end with a parent folder of an entry: `.github` for `.github/workflows`.
    /// Only folders for settings count: most folders called `library` do not contain
    /// `launchagents`.
    pub(super) fn is_parent_of_entry(&self, names: &[Cow<'_, str>]) -> bool {
        names.iter().enumerate().any(|(at, first)| {
            let inner = names.get(at + 1..).unwrap_or_default();
            let beneath = |entry: &NameEntry| {
                entry.rest.len() > inner.len() && entry.rest.iter().zip(inner).all(|(a, b)| a == b)
            };
            (first.starts_with('.') || first == "gradle") && self.entries(first).iter().any(beneath)
        })
    }

    fn entries(&self, first: &str) -> &[NameEntry] {
        self.index().by_first.get(first).map_or(&[], Vec::as_slice)
    }

    fn index(&self) -> &ProtectedNameIndex {
        self.index.get_or_init(|| self.build_index())
    }

    /// Every whole name as usually written, with its reason.
    pub(super) fn names(&self) -> impl Iterator<Item = ProtectedName> {
        self.rows().filter(|row| !row.name.starts_with(ANY))
    }

    /// Every end of a name, with its reason.
    pub(super) fn endings(&self) -> impl Iterator<Item = ProtectedName> {
        let ending = |row: ProtectedName| {
            row.name.strip_prefix(ANY).map(|name| ProtectedName { name, ..row })
        };
        self.rows().filter_map(ending)
    }

    fn rows(&self) -> impl Iterator<Item = ProtectedName> {
        let (rows, scopes): (NameRows, &[CredentialScope]) = match self.source {
            NameSource::Rows(rows) => (rows, &[]),
            NameSource::Credentials(scopes) => (&[], scopes),
        };
        let named = |(why, names): &(&'static str, &'static [&'static str])| {
            let why = *why;
            names.iter().map(move |name| ProtectedName { name, why })
        };
        let credentials = CREDENTIAL_PATHS.iter().filter(|row| scopes.contains(&row.scope));
        let credentials = credentials.map(|row| ProtectedName { name: row.path, why: row.why });
        rows.iter().flat_map(named).chain(credentials)
    }

    fn build_index(&self) -> ProtectedNameIndex {
        let mut index = ProtectedNameIndex::default();
        for ProtectedName { name, why } in self.names() {
            let mut parts = name.split('/').map(str::to_ascii_lowercase);
            let first = parts.next().unwrap_or_default();
            index.by_first.entry(first).or_default().push(NameEntry { rest: parts.collect(), why });
        }
        let endings = self.endings().map(|row| (row.name.to_ascii_lowercase(), row.why));
        index.endings = endings.collect();
        index
    }
}
