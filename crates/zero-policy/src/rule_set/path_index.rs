//! Index of rules for paths, as a tree of names.
//!
//! A path is walked once, name by name, through all patterns at the same time. A pattern that is
//! complete along the way covers everything beneath, so no pattern is tried twice.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::{Component, Path};

use super::PatternRoots;
use super::literal_index::LiteralIndex;
use super::rule_position::{earlier_rule, set_if_empty};
use crate::Verdict;
use crate::program::FileAccess;
use crate::rule::{NameGlob, PatternBase, RulePathPattern, escape_glob, fold_case, literal};

/// The accesses that a rule covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum PathRuleCoverage<'a> {
    /// `Read(…)`: every read.
    Reads,
    /// `Edit(…)`, `Write(…)`: every change.
    Changes,
    /// `Delete(…)`: every removal.
    Removals,
    /// `Grep(…)` and others: accesses of that tool.
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

    /// The coverages that include an access.
    pub(super) fn for_access(
        verdict: Verdict,
        tool: &'a str,
        access: FileAccess,
    ) -> impl Iterator<Item = Self> + Clone {
        let strict = verdict != Verdict::Allow;
        // A deny or ask rule for reads also covers changes.
        let reads = (access == FileAccess::Read || strict).then_some(Self::Reads);
        // A deny or ask rule for changes also covers removal; an allow rule for changes does not.
        let changed = access == FileAccess::Write || access == FileAccess::Delete && strict;
        let changes = changed.then_some(Self::Changes);
        let removals = (access == FileAccess::Delete).then_some(Self::Removals);
        let own = Self::for_rule(tool);
        let own = (matches!(own, Self::Tool(_)) && tool != "Bash").then_some(own);
        [reads, changes, removals, own].into_iter().flatten()
    }

    /// The tools whose bare names cover the same accesses.
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

/// The path rules with one verdict.
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
        folders: &PatternRoots,
        position: usize,
    ) {
        let tree = self.trees.entry(coverage).or_default();
        let mut parts = pattern.parts.clone();
        // Denying the contents of a folder denies the folder; allowing changes of the contents does
        // not allow removing it. Listing the folder is no more than reading its contents.
        let changes = matches!(coverage, PathRuleCoverage::Changes | PathRuleCoverage::Removals);
        if pattern.beneath && verdict == Verdict::Allow && changes {
            parts.push("*".to_owned());
        }
        for start in pattern_starts(pattern.base, verdict, folders) {
            tree.add(start.into_iter().chain(parts.iter().cloned()), position);
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

    /// The first rule that protects a name to which a glob in a command may expand.
    pub(super) fn find_rule_for_glob<'a>(
        &self,
        coverages: impl Iterator<Item = PathRuleCoverage<'a>>,
        pattern: &str,
    ) -> Option<usize> {
        let pattern = ShellGlob::new(pattern);
        let trees = coverages.filter_map(|coverage| self.trees.get(&coverage));
        trees.filter_map(|tree| tree.find_rule_for_glob(&pattern)).min()
    }
}

/// The base of a pattern, as components from the root.
fn pattern_starts(base: PatternBase, verdict: Verdict, folders: &PatternRoots) -> Vec<Vec<String>> {
    let roots = || folders.roots.iter().filter_map(|root| escape_components(root));
    let any_folder = || vec!["**".to_owned()];
    match (base, verdict) {
        (PatternBase::Machine, _) => vec![Vec::new()],
        (PatternBase::Workspace, _) | (PatternBase::AnyFolderUnlessAllow, Verdict::Allow) => {
            roots().collect()
        }
        (PatternBase::Home, _) => {
            match (folders.home.as_deref().and_then(escape_components), verdict) {
                (Some(home), _) => vec![home],
                (None, Verdict::Allow) => Vec::new(),
                // Without a known home folder, it may be any folder.
                (None, _) => vec![any_folder()],
            }
        }
        (PatternBase::AnyFolder, Verdict::Allow) => {
            roots().map(|root| [root, any_folder()].concat()).collect()
        }
        (PatternBase::AnyFolder | PatternBase::AnyFolderUnlessAllow, _) => vec![any_folder()],
    }
}

/// The names of a path as globs that match exactly them; `None` if one is not UTF-8.
fn escape_components(path: &Path) -> Option<Vec<String>> {
    component_names(path).map(|name| name.to_str().map(escape_glob)).collect()
}

/// The names of an absolute path in comparable form, without `.` and `..`.
pub(super) fn comparable_names(path: &Path) -> Vec<Cow<'_, str>> {
    let mut names = Vec::with_capacity(path.as_os_str().len() / 8 + 1);
    for component in path.components() {
        match component {
            Component::Normal(name) => names.push(match name.to_str() {
                Some(name) => fold_case(name),
                None => Cow::Owned(fold_case(&name.to_string_lossy()).into_owned()),
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

/// Patterns with a common beginning share their nodes.
#[derive(Debug)]
struct PathTree {
    nodes: Vec<PathNode>,
    named: Vec<LiteralEndPattern>,
}

/// A rule that ends with a name, not with a wildcard.
#[derive(Debug)]
struct LiteralEndPattern {
    last: String,
    /// All names from the root, if none is a wildcard.
    whole: Option<Vec<String>>,
    position: usize,
}

/// What patterns may have after the components that lead here.
#[derive(Debug, Default)]
struct PathNode {
    /// The children for names without wildcards.
    literal_children: HashMap<String, usize>,
    /// The child for the component `*`.
    star_child: Option<usize>,
    /// The children for other globs.
    globs: HashMap<String, usize>,
    /// The same with compiled globs.
    compiled_globs: Vec<(NameGlob, usize)>,
    literals: LiteralIndex,
    /// The child for the component `**`, which is_recursive active for every name.
    recursive_child: Option<usize>,
    /// Whether it is the node of a `**`, which matches any number of names.
    is_recursive: bool,
    rule: Option<usize>,
}

impl Default for PathTree {
    fn default() -> Self {
        Self { nodes: vec![PathNode::default()], named: Vec::new() }
    }
}

impl PathTree {
    fn add(&mut self, parts: impl Iterator<Item = String>, position: usize) {
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
            set_if_empty(&mut node.rule, position);
        }
        if let Some(last) = last {
            self.named.push(LiteralEndPattern { last, whole, position });
        }
    }

    fn child_node(&mut self, at: usize, part: &str) -> usize {
        let next = self.nodes.len();
        let Some(node) = self.nodes.get_mut(at) else { return at };
        let is_recursive = part == "**";
        if is_recursive && node.is_recursive {
            return at;
        }
        let child = match literal(part) {
            _ if is_recursive => *node.recursive_child.get_or_insert(next),
            _ if part == "*" => *node.star_child.get_or_insert(next),
            Some(name) => {
                *node.literal_children.entry(fold_case(&name).into_owned()).or_insert(next)
            }
            None => *node.globs.entry(part.to_owned()).or_insert(next),
        };
        if child == next {
            self.nodes.push(PathNode { is_recursive, ..PathNode::default() });
        }
        child
    }

    fn build(&mut self) {
        for node in &mut self.nodes {
            // Every glob was parsed with its rule, so none fails here.
            let compiled = |(part, child): (&String, &usize)| {
                NameGlob::parse(part).ok().map(|glob| (glob, *child))
            };
            node.compiled_globs = node.globs.iter().filter_map(compiled).collect();
            node.literals = LiteralIndex::new(
                node.compiled_globs.iter().map(|(glob, _)| glob.longest_literal()),
            );
        }
    }

    /// The first rule whose pattern matches the path or a parent folder.
    fn find(&self, path: &[Cow<'_, str>]) -> Option<usize> {
        let mut found = None;
        let (mut active, mut next) = (Vec::new(), Vec::new());
        self.enter_node(0, &mut active, &mut found);
        for name in path {
            next.clear();
            for at in &active {
                let Some(node) = self.nodes.get(*at) else { continue };
                if node.is_recursive {
                    self.enter_node(*at, &mut next, &mut found);
                }
                let by_name = node.literal_children.get(name.as_ref()).copied();
                for child in by_name.into_iter().chain(node.star_child) {
                    self.enter_node(child, &mut next, &mut found);
                }
                let globs =
                    node.literals.candidates(name).filter_map(|glob| node.compiled_globs.get(glob));
                for (_, child) in globs.filter(|(glob, _)| glob.matches(name)) {
                    self.enter_node(*child, &mut next, &mut found);
                }
            }
            if next.is_empty() {
                break;
            }
            // Two paths may lead to the same node.
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
        // At most one step: a `**` has no `**` child.
        if let Some(child) = node.recursive_child {
            active.push(child);
            *found = earlier_rule(*found, self.nodes.get(child).and_then(|node| node.rule));
        }
    }

    fn find_rule_for_glob(&self, pattern: &ShellGlob) -> Option<usize> {
        let fits = |named: &&LiteralEndPattern| match &named.whole {
            Some(whole) => pattern.may_match_path(whole),
            None => pattern.may_match_name(&named.last),
        };
        self.named.iter().filter(fits).map(|named| named.position).min()
    }
}

/// A glob in a command, such as `/w/.e*`, by components.
struct ShellGlob(Vec<ShellGlobPart>);

/// One component of a glob.
enum ShellGlobPart {
    Name(String),
    Glob {
        glob: NameGlob,
        /// Whether it may match names that begin with a dot.
        matches_hidden: bool,
    },
}

impl ShellGlob {
    fn new(pattern: &str) -> Self {
        let part = |part: &str| match (literal(part), NameGlob::parse(part)) {
            (None, Ok(glob)) => {
                // A leading wildcard does not match the dot of a hidden name.
                let matches_hidden = !part.starts_with(['*', '?', '[']);
                ShellGlobPart::Glob { glob, matches_hidden }
            }
            (Some(name), _) => ShellGlobPart::Name(name),
            (None, Err(_)) => ShellGlobPart::Name(part.to_owned()),
        };
        Self(pattern.split('/').filter(|part| !part.is_empty()).map(part).collect())
    }

    /// Whether it may match this path or something beneath it.
    fn may_match_path(&self, path: &[String]) -> bool {
        path.len() <= self.0.len()
            && self.0.iter().zip(path).all(|(part, name)| part.matches_name(name))
    }

    /// Whether one of its components may match this name.
    fn may_match_name(&self, name: &str) -> bool {
        let mut globs = self.0.iter().filter(|part| matches!(part, ShellGlobPart::Glob { .. }));
        globs.any(|part| part.matches_name(name))
    }
}

impl ShellGlobPart {
    fn matches_name(&self, name: &str) -> bool {
        match self {
            Self::Name(own) => fold_case(own) == fold_case(name),
            Self::Glob { glob, matches_hidden } => {
                (*matches_hidden || !name.starts_with('.')) && glob.matches(&fold_case(name))
            }
        }
    }
}
