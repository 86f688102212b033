//! Rules about paths, in a tree of names.
//!
//! A path is walked once, name by name, through all patterns at the same time. A pattern that is
//! complete on the way covers everything beneath, so that no pattern needs to be tried twice.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::{Component, Path};

use super::PatternRoots;
use super::literal_index::LiteralIndex;
use super::rule_position::{earlier_rule, set_if_empty};
use crate::Verdict;
use crate::program::FileAccess;
use crate::rule::{NameGlob, PatternBase, RulePathPattern, fold_name, literal};

/// Which touches a rule is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum PathRuleCoverage<'a> {
    /// `Read(…)`: every read.
    Reads,
    /// `Edit(…)`, `Write(…)`: every change.
    Changes,
    /// `Delete(…)`: every removal.
    Removals,
    /// `Grep(…)` and others: what that tool does.
    Tool(&'a str),
}

impl<'a> PathRuleCoverage<'a> {
    pub(super) fn for_rule(tool: &'a str) -> Self {
        match tool {
            "Read" => Self::Reads,
            "Edit" | "Write" => Self::Changes,
            "Delete" => Self::Removals,
            tool => Self::Tool(tool),
        }
    }

    /// What covers a touch.
    pub(super) fn for_access(
        verdict: Verdict,
        tool: &'a str,
        access: FileAccess,
    ) -> impl Iterator<Item = Self> + Clone {
        let strict = verdict != Verdict::Allow;
        // What must not be read must not be changed either.
        let reads = (access == FileAccess::Read || strict).then_some(Self::Reads);
        // What must not be changed must not go away either; but who lets a file be changed has not
        // said that it may go.
        let changed = access == FileAccess::Write || access == FileAccess::Delete && strict;
        let changes = changed.then_some(Self::Changes);
        let removals = (access == FileAccess::Delete).then_some(Self::Removals);
        let own = Self::for_rule(tool);
        let own = (matches!(own, Self::Tool(_)) && tool != "Bash").then_some(own);
        [reads, changes, removals, own].into_iter().flatten()
    }

    /// The tools whose bare names cover the same.
    pub(super) fn tools(self) -> impl Iterator<Item = &'a str> {
        let (one, other) = match self {
            Self::Reads => ("Read", None),
            Self::Changes => ("Edit", Some("Write")),
            Self::Removals => ("Delete", None),
            Self::Tool(tool) => (tool, None),
        };
        [Some(one), other].into_iter().flatten()
    }
}

/// The rules with one verdict that have a path.
#[derive(Debug, Default)]
pub(super) struct PathRuleIndex {
    trees: HashMap<PathRuleCoverage<'static>, PathTree>,
}

impl PathRuleIndex {
    pub(super) fn add(
        &mut self,
        coverage: PathRuleCoverage<'static>,
        verdict: Verdict,
        pattern: &RulePathPattern,
        places: &PatternRoots,
        place: usize,
    ) {
        let tree = self.trees.entry(coverage).or_default();
        let mut parts = pattern.parts.clone();
        // To forbid what is in a folder is to forbid the folder; to allow changes in it is not to
        // allow that it goes away. To look at the folder is no more than to look at what is in it.
        let changes = matches!(coverage, PathRuleCoverage::Changes | PathRuleCoverage::Removals);
        if pattern.beneath && verdict == Verdict::Allow && changes {
            parts.push("*".to_owned());
        }
        for start in pattern_starts(pattern.base, verdict, places) {
            tree.add(start.into_iter().chain(parts.iter().cloned()), place);
        }
    }

    pub(super) fn build(&mut self) {
        self.trees.values_mut().for_each(PathTree::build);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.trees.is_empty()
    }

    pub(super) fn find(
        &self,
        coverage: PathRuleCoverage<'_>,
        path: &[Cow<'_, str>],
    ) -> Option<usize> {
        self.trees.get(&coverage)?.find(path)
    }

    pub(super) fn find_named_by_glob<'a>(
        &self,
        coverages: impl Iterator<Item = PathRuleCoverage<'a>>,
        pattern: &str,
    ) -> Option<usize> {
        let pattern = ShellGlob::new(pattern);
        let trees = coverages.filter_map(|coverage| self.trees.get(&coverage));
        trees.filter_map(|tree| tree.find_named_by_glob(&pattern)).min()
    }
}

/// Where a pattern starts, as parts of a path from the root of the machine.
fn pattern_starts(base: PatternBase, verdict: Verdict, places: &PatternRoots) -> Vec<Vec<String>> {
    let roots = || places.roots.iter().filter_map(|root| escape_components(root));
    let any_folder = || vec!["**".to_owned()];
    match (base, verdict) {
        (PatternBase::Machine, _) => vec![Vec::new()],
        (PatternBase::Workspace, _) | (PatternBase::AnyFolderUnlessAllow, Verdict::Allow) => {
            roots().collect()
        }
        (PatternBase::Home, _) => {
            match (places.home.as_deref().and_then(escape_components), verdict) {
                (Some(home), _) => vec![home],
                (None, Verdict::Allow) => Vec::new(),
                // Nobody knows where home is, so it may be anywhere.
                (None, _) => vec![any_folder()],
            }
        }
        (PatternBase::AnyFolder, Verdict::Allow) => {
            roots().map(|root| [root, any_folder()].concat()).collect()
        }
        (PatternBase::AnyFolder | PatternBase::AnyFolderUnlessAllow, _) => vec![any_folder()],
    }
}

/// The names of a path as patterns that mean just them; `None` if one is not text.
fn escape_components(path: &Path) -> Option<Vec<String>> {
    component_names(path).map(|name| name.to_str().map(escape_name)).collect()
}

fn escape_name(name: &str) -> String {
    let mut escaped = String::with_capacity(name.len());
    for letter in name.chars() {
        if matches!(letter, '*' | '?' | '[' | '\\') {
            escaped.push('\\');
        }
        escaped.push(letter);
    }
    escaped
}

/// The names of an absolute path as rules compare them, `.` and `..` taken out.
pub(super) fn comparable_names(path: &Path) -> Vec<Cow<'_, str>> {
    let mut names = Vec::with_capacity(path.as_os_str().len() / 8 + 1);
    for component in path.components() {
        match component {
            Component::Normal(name) => names.push(match name.to_str() {
                Some(name) => fold_name(name),
                None => Cow::Owned(fold_name(&name.to_string_lossy()).into_owned()),
            }),
            Component::ParentDir => {
                names.pop();
            }
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    names
}

fn component_names(path: &Path) -> impl Iterator<Item = &OsStr> {
    path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name),
        _ => None,
    })
}

#[derive(Debug)]
struct PathTree {
    nodes: Vec<PathNode>,
    named: Vec<NamedPattern>,
}

/// A rule that ends with a name, rather than with a wildcard.
#[derive(Debug)]
struct NamedPattern {
    last: String,
    /// All names from the root on, when no wildcard is among them.
    whole: Option<Vec<String>>,
    place: usize,
}

#[derive(Debug, Default)]
struct PathNode {
    names: HashMap<String, usize>,
    /// A part that is `*`.
    any: Option<usize>,
    /// Parts with other wildcards.
    globs: HashMap<String, usize>,
    /// The same, built, with the nodes they lead to.
    built: Vec<(NameGlob, usize)>,
    literals: LiteralIndex,
    /// A part that is `**`: it stays active whatever the name.
    folders: Option<usize>,
    stays: bool,
    rule: Option<usize>,
}

impl Default for PathTree {
    fn default() -> Self {
        Self { nodes: vec![PathNode::default()], named: Vec::new() }
    }
}

impl PathTree {
    fn add(&mut self, parts: impl Iterator<Item = String>, place: usize) {
        let mut at = 0;
        let mut whole = Some(Vec::new());
        let mut last = None;
        for part in parts {
            at = self.child_node(at, &part);
            last = literal(&part);
            whole = whole.zip(last.clone()).map(|(mut whole, name)| {
                whole.push(name);
                whole
            });
        }
        if let Some(node) = self.nodes.get_mut(at) {
            set_if_empty(&mut node.rule, place);
        }
        if let Some(last) = last {
            self.named.push(NamedPattern { last, whole, place });
        }
    }

    fn child_node(&mut self, at: usize, part: &str) -> usize {
        let next = self.nodes.len();
        let Some(node) = self.nodes.get_mut(at) else { return at };
        let stays = part == "**";
        if stays && node.stays {
            return at;
        }
        let child = match literal(part) {
            _ if stays => *node.folders.get_or_insert(next),
            _ if part == "*" => *node.any.get_or_insert(next),
            Some(name) => *node.names.entry(fold_name(&name).into_owned()).or_insert(next),
            None => *node.globs.entry(part.to_owned()).or_insert(next),
        };
        if child == next {
            self.nodes.push(PathNode { stays, ..PathNode::default() });
        }
        child
    }

    fn build(&mut self) {
        for node in &mut self.nodes {
            // Every part was read once when its rule was, so none fails here.
            let built = |(part, child): (&String, &usize)| {
                NameGlob::parse(part).ok().map(|glob| (glob, *child))
            };
            node.built = node.globs.iter().filter_map(built).collect();
            node.literals =
                LiteralIndex::new(node.built.iter().map(|(glob, _)| glob.longest_literal()));
        }
    }

    /// The first rule whose pattern matches the path or a folder it lies in.
    fn find(&self, path: &[Cow<'_, str>]) -> Option<usize> {
        let mut found = None;
        let (mut active, mut next) = (Vec::new(), Vec::new());
        self.enter_node(0, &mut active, &mut found);
        for name in path {
            next.clear();
            for at in &active {
                let Some(node) = self.nodes.get(*at) else { continue };
                if node.stays {
                    self.enter_node(*at, &mut next, &mut found);
                }
                let by_name = node.names.get(name.as_ref()).copied();
                for child in by_name.into_iter().chain(node.any) {
                    self.enter_node(child, &mut next, &mut found);
                }
                let globs = node.literals.candidates(name).filter_map(|glob| node.built.get(glob));
                for (_, child) in globs.filter(|(glob, _)| glob.matches(name)) {
                    self.enter_node(*child, &mut next, &mut found);
                }
            }
            if next.is_empty() {
                break;
            }
            // Two ways may lead to the same place.
            next.sort_unstable();
            next.dedup();
            std::mem::swap(&mut active, &mut next);
        }
        found
    }

    fn enter_node(&self, at: usize, active: &mut Vec<usize>, found: &mut Option<usize>) {
        let Some(node) = self.nodes.get(at) else { return };
        active.push(at);
        *found = earlier_rule(*found, node.rule);
        // At most one step: a `**` has no `**` of its own.
        if let Some(folders) = node.folders {
            active.push(folders);
            *found = earlier_rule(*found, self.nodes.get(folders).and_then(|node| node.rule));
        }
    }

    fn find_named_by_glob(&self, pattern: &ShellGlob) -> Option<usize> {
        let fits = |named: &&NamedPattern| match &named.whole {
            Some(whole) => pattern.may_match_path(whole),
            None => pattern.may_match_name(&named.last),
        };
        self.named.iter().filter(fits).map(|named| named.place).min()
    }
}

/// A pattern in a command, such as `/w/.e*`, by its parts.
struct ShellGlob(Vec<ShellGlobPart>);

enum ShellGlobPart {
    Name(String),
    Glob { glob: NameGlob, hidden: bool },
}

impl ShellGlob {
    fn new(pattern: &str) -> Self {
        let part = |part: &str| match (literal(part), NameGlob::parse(part)) {
            (None, Ok(glob)) => {
                // A wildcard does not stand for the dot of a hidden name.
                let hidden = !part.starts_with(['*', '?', '[']);
                ShellGlobPart::Glob { glob, hidden }
            }
            (Some(name), _) => ShellGlobPart::Name(name),
            (None, Err(_)) => ShellGlobPart::Name(part.to_owned()),
        };
        Self(pattern.split('/').filter(|part| !part.is_empty()).map(part).collect())
    }

    /// Whether it may name this path or something beneath it.
    fn may_match_path(&self, path: &[String]) -> bool {
        path.len() <= self.0.len()
            && self.0.iter().zip(path).all(|(part, name)| part.matches_name(name))
    }

    /// Whether one of its wildcards may stand for this name.
    fn may_match_name(&self, name: &str) -> bool {
        let mut globs = self.0.iter().filter(|part| matches!(part, ShellGlobPart::Glob { .. }));
        globs.any(|part| part.matches_name(name))
    }
}

impl ShellGlobPart {
    fn matches_name(&self, name: &str) -> bool {
        match self {
            Self::Name(own) => fold_name(own) == fold_name(name),
            Self::Glob { glob, hidden } => {
                (*hidden || !name.starts_with('.')) && glob.matches(&fold_name(name))
            }
        }
    }
}
