//! Deny and ask rules: whatever the order of options, wherever the program lies.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;

use super::loose_name;
use crate::rules::first;
use crate::rules::options::{CommandLine, Given, Operand, Skip};
use crate::shell::Arg;

/// A tree of words that are no options: program, then operands. Options are compared where a rule
/// ends.
#[derive(Debug)]
pub(super) struct Loose {
    nodes: Vec<Node>,
}

#[derive(Debug, Default)]
struct Node {
    words: HashMap<String, usize>,
    /// The first prefix rule that ends here and has no options.
    plain: Option<usize>,
    prefixes: ByOption,
    exact: ByOption,
}

/// Rules that differ in their options only, by the first long one.
#[derive(Debug, Default)]
struct ByOption {
    by_long: BTreeMap<String, Vec<(Given, usize)>>,
    without_long: Vec<(Given, usize)>,
}

/// Where a command is in the tree, and whether each of its words was needed to get there.
type Place = (usize, Needed);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Needed {
    AllWords,
    SomeWords,
}

impl Default for Loose {
    fn default() -> Self {
        Self { nodes: vec![Node::default()] }
    }
}

impl Loose {
    pub(super) fn add_exact(&mut self, words: &[String], place: usize) {
        if let Some((node, given)) = self.node_of(words) {
            node.exact.add(given, place);
        }
    }

    pub(super) fn add_prefix(&mut self, words: &[String], place: usize) {
        match self.node_of(words) {
            Some((node, given)) if given.is_empty() => {
                node.plain.get_or_insert(place);
            }
            Some((node, given)) => node.prefixes.add(given, place),
            None => {}
        }
    }

    fn node_of(&mut self, words: &[String]) -> Option<(&mut Node, Given)> {
        // What is forbidden with a variable set is forbidden; variables are not among the words.
        let command = words.iter().position(|word| !is_assignment(word))?;
        let (program, arguments) = words.get(command..)?.split_first()?;
        let program = loose_name(program);
        let arguments: Vec<Arg> = arguments.iter().map(Arg::known).collect();
        let line = CommandLine::read(&program, &arguments);
        let operands = line.operands.into_iter().filter(|operand| operand.skip != Skip::NoWord);
        let mut at = 0;
        for word in [program].into_iter().chain(operands.filter_map(|operand| operand.text)) {
            let next = self.nodes.len();
            at = *self.nodes.get_mut(at)?.words.entry(word).or_insert(next);
            if at == next {
                self.nodes.push(Node::default());
            }
        }
        Some((self.nodes.get_mut(at)?, line.given.into_rule()))
    }

    pub(super) fn find(&self, program: &str, arguments: &[Arg]) -> Option<usize> {
        let program = loose_name(program);
        let start = *self.nodes.first()?.words.get(&program)?;
        let line = CommandLine::read(&program, arguments);
        let mut found = None;
        let mut visited = BTreeSet::new();
        let mut active: BTreeSet<Place> = BTreeSet::from([(start, Needed::AllWords)]);
        self.visit(&active, &line.given, &mut visited, &mut found);
        for operand in &line.operands {
            active = self.step(&active, operand);
            if active.is_empty() {
                return found;
            }
            self.visit(&active, &line.given, &mut visited, &mut found);
        }
        for (at, _) in active.iter().filter(|(_, needed)| *needed == Needed::AllWords) {
            let Some(node) = self.nodes.get(*at) else { continue };
            found = first(found, node.exact.find(&line.given, Given::is_just));
        }
        found
    }

    fn step(&self, active: &BTreeSet<Place>, operand: &Operand) -> BTreeSet<Place> {
        let mut next = BTreeSet::new();
        for (at, needed) in active {
            let child = |text| self.nodes.get(*at).and_then(|node| node.words.get(text));
            if let Some(child) = operand.text.as_deref().and_then(child) {
                next.insert((*child, *needed));
            }
            match operand.skip {
                Skip::Never => {}
                Skip::NoWord => {
                    next.insert((*at, *needed));
                }
                Skip::IfValue => {
                    next.insert((*at, Needed::SomeWords));
                }
            }
        }
        next
    }

    /// Compares the prefix rules that end where the command is now.
    fn visit(
        &self,
        active: &BTreeSet<Place>,
        given: &Given,
        visited: &mut BTreeSet<usize>,
        found: &mut Option<usize>,
    ) {
        for (at, _) in active {
            let Some(node) = self.nodes.get(*at).filter(|_| visited.insert(*at)) else { continue };
            let with_options = node.prefixes.find(given, Given::includes);
            *found = first(*found, first(node.plain, with_options));
        }
    }
}

impl ByOption {
    fn add(&mut self, rule: Given, place: usize) {
        let long = rule.long_names().next().map(str::to_owned);
        match long {
            Some(long) => self.by_long.entry(long).or_default().push((rule, place)),
            None => self.without_long.push((rule, place)),
        }
    }

    /// The first rule whose options fit those of a command.
    fn find(&self, given: &Given, fits: fn(&Given, &Given) -> bool) -> Option<usize> {
        let mut found = first_fitting(&self.without_long, given, fits);
        if self.by_long.is_empty() {
            return found;
        }
        let names: BTreeSet<&str> = given.long_names().collect();
        for name in names {
            // One name abbreviates the other, so it is where the other one starts.
            let longer = self.by_long.range::<str, _>((Bound::Included(name), Bound::Unbounded));
            let longer = longer.take_while(|(rule, _)| rule.starts_with(name));
            let ends = name.char_indices().map(|(end, _)| end);
            let shorter = ends.filter_map(|end| self.by_long.get_key_value(name.get(..end)?));
            for (_, rules) in longer.chain(shorter) {
                found = first(found, first_fitting(rules, given, fits));
            }
        }
        found
    }
}

fn first_fitting(
    rules: &[(Given, usize)],
    given: &Given,
    fits: fn(&Given, &Given) -> bool,
) -> Option<usize> {
    rules.iter().find(|(rule, _)| fits(given, rule)).map(|(_, place)| *place)
}

fn is_assignment(word: &str) -> bool {
    let is_name = |name: &str| {
        name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    };
    word.split_once('=').is_some_and(|(name, _)| is_name(name))
}
