//! A table of names, indexed by the first component of each.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::OnceLock;

/// Names grouped by the reason for their entry.
type NameRows = &'static [(&'static str, &'static [&'static str])];

/// A table of names; one may have several components, such as `.github/workflows`.
pub(super) struct NameTable {
    rows: NameRows,
    by_first: OnceLock<HashMap<String, Vec<NameEntry>>>,
}

/// A protected name and the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProtectedName {
    /// One or more components, as usually written: `.github/workflows`.
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
        Self { rows, by_first: OnceLock::new() }
    }

    /// The reason of an entry that the names start with.
    pub(super) fn find_at_start(&self, names: &[Cow<'_, str>]) -> Option<&'static str> {
        let (first, names) = names.split_first()?;
        let fits = |entry: &&NameEntry| {
            entry.rest.len() <= names.len() && entry.rest.iter().zip(names).all(|(a, b)| a == b)
        };
        self.entries(first).iter().find(fits).map(|entry| entry.why)
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
        self.by_first.get_or_init(|| self.build_index()).get(first).map_or(&[], Vec::as_slice)
    }

    /// Every name as usually written, with its reason.
    pub(super) fn names(&self) -> impl Iterator<Item = ProtectedName> {
        let named = |(why, names): &(&'static str, &'static [&'static str])| {
            let why = *why;
            names.iter().map(move |name| ProtectedName { name, why })
        };
        self.rows.iter().flat_map(named)
    }

    fn build_index(&self) -> HashMap<String, Vec<NameEntry>> {
        let mut by_first: HashMap<String, Vec<NameEntry>> = HashMap::new();
        for ProtectedName { name, why } in self.names() {
            let mut parts = name.split('/').map(str::to_ascii_lowercase);
            let first = parts.next().unwrap_or_default();
            by_first.entry(first).or_default().push(NameEntry { rest: parts.collect(), why });
        }
        by_first
    }
}
