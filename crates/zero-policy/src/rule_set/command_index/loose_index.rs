//! Index of deny and ask rules: the order of options and the folder of the program do not matter.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;

use super::loose_name;
use crate::rule_set::loose_command_line::{
    LooseCommandLine, LooseOperand, LooseOptions, OperandSkip,
};
use crate::rule_set::rule_position::earlier_rule;
use crate::shell::ShellArg;

/// A tree of words that are not options: program, then operands. Options are compared at the end of
/// a rule.
#[derive(Debug)]
pub(super) struct LooseIndex {
    nodes: Vec<LooseNode>,
}

#[derive(Debug, Default)]
struct LooseNode {
    words: HashMap<String, usize>,
    /// The first prefix rule that ends here and has no options.
    plain: Option<usize>,
    prefixes: OptionIndex,
    exact: OptionIndex,
}

/// Rules that differ only in their options, by the first long one.
#[derive(Debug, Default)]
struct OptionIndex {
    by_long: BTreeMap<String, Vec<(LooseOptions, usize)>>,
    without_long: Vec<(LooseOptions, usize)>,
}

/// A position in the tree, and whether every word was needed to reach it.
type TreePosition = (usize, WordUse);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum WordUse {
    AllWords,
    SomeWords,
}

impl Default for LooseIndex {
    fn default() -> Self {
        Self { nodes: vec![LooseNode::default()] }
    }
}

impl LooseIndex {
    pub(super) fn add_exact(&mut self, words: &[String], place: usize) {
        if let Some((node, given)) = self.insert_node(words) {
            node.exact.add(given, place);
        }
    }

    pub(super) fn add_prefix(&mut self, words: &[String], place: usize) {
        match self.insert_node(words) {
            Some((node, given)) if given.is_empty() => {
                node.plain.get_or_insert(place);
            }
            Some((node, given)) => node.prefixes.add(given, place),
            None => {}
        }
    }

    fn insert_node(&mut self, words: &[String]) -> Option<(&mut LooseNode, LooseOptions)> {
        // A rule also matches if variables are set; they are not part of the words.
        let command = words.iter().position(|word| !is_assignment(word))?;
        let (program, arguments) = words.get(command..)?.split_first()?;
        let program = loose_name(program);
        let arguments: Vec<ShellArg> = arguments.iter().map(ShellArg::known).collect();
        let line = LooseCommandLine::parse(&program, &arguments);
        let operands =
            line.operands.into_iter().filter(|operand| operand.skip != OperandSkip::NoWord);
        let mut at = 0;
        for word in [program].into_iter().chain(operands.filter_map(|operand| operand.text)) {
            let next = self.nodes.len();
            at = *self.nodes.get_mut(at)?.words.entry(word).or_insert(next);
            if at == next {
                self.nodes.push(LooseNode::default());
            }
        }
        Some((self.nodes.get_mut(at)?, line.options.into_rule_options()))
    }

    pub(super) fn find(&self, program: &str, arguments: &[ShellArg]) -> Option<usize> {
        let program = loose_name(program);
        let start = *self.nodes.first()?.words.get(&program)?;
        let line = LooseCommandLine::parse(&program, arguments);
        let mut found = None;
        let mut visited = BTreeSet::new();
        let mut active: BTreeSet<TreePosition> = BTreeSet::from([(start, WordUse::AllWords)]);
        self.visit(&active, &line.options, &mut visited, &mut found);
        for operand in &line.operands {
            active = self.step(&active, operand);
            if active.is_empty() {
                return found;
            }
            self.visit(&active, &line.options, &mut visited, &mut found);
        }
        for (at, _) in active.iter().filter(|(_, needed)| *needed == WordUse::AllWords) {
            let Some(node) = self.nodes.get(*at) else { continue };
            found = earlier_rule(found, node.exact.find(&line.options, LooseOptions::has_exactly));
        }
        found
    }

    fn step(
        &self,
        active: &BTreeSet<TreePosition>,
        operand: &LooseOperand,
    ) -> BTreeSet<TreePosition> {
        let mut next = BTreeSet::new();
        for (at, needed) in active {
            let child = |text| self.nodes.get(*at).and_then(|node| node.words.get(text));
            if let Some(child) = operand.text.as_deref().and_then(child) {
                next.insert((*child, *needed));
            }
            match operand.skip {
                OperandSkip::Never => {}
                OperandSkip::NoWord => {
                    next.insert((*at, *needed));
                }
                OperandSkip::IfValue => {
                    next.insert((*at, WordUse::SomeWords));
                }
            }
        }
        next
    }

    /// Compares the prefix rules that end at the current node.
    fn visit(
        &self,
        active: &BTreeSet<TreePosition>,
        options: &LooseOptions,
        visited: &mut BTreeSet<usize>,
        found: &mut Option<usize>,
    ) {
        for (at, _) in active {
            let Some(node) = self.nodes.get(*at).filter(|_| visited.insert(*at)) else { continue };
            let with_options = node.prefixes.find(options, LooseOptions::contains_all);
            *found = earlier_rule(*found, earlier_rule(node.plain, with_options));
        }
    }
}

impl OptionIndex {
    fn add(&mut self, rule: LooseOptions, place: usize) {
        let long = rule.long_names().next().map(str::to_owned);
        match long {
            Some(long) => self.by_long.entry(long).or_default().push((rule, place)),
            None => self.without_long.push((rule, place)),
        }
    }

    /// The first rule whose options match those of a command.
    fn find(
        &self,
        options: &LooseOptions,
        fits: fn(&LooseOptions, &LooseOptions) -> bool,
    ) -> Option<usize> {
        let mut found = find_first_match(&self.without_long, options, fits);
        if self.by_long.is_empty() {
            return found;
        }
        let names: BTreeSet<&str> = options.long_names().collect();
        for name in names {
            // If one name abbreviates the other, it is a prefix of it.
            let longer = self.by_long.range::<str, _>((Bound::Included(name), Bound::Unbounded));
            let longer = longer.take_while(|(rule, _)| rule.starts_with(name));
            let ends = name.char_indices().map(|(end, _)| end);
            let shorter = ends.filter_map(|end| self.by_long.get_key_value(name.get(..end)?));
            for (_, rules) in longer.chain(shorter) {
                found = earlier_rule(found, find_first_match(rules, options, fits));
            }
        }
        found
    }
}

fn find_first_match(
    rules: &[(LooseOptions, usize)],
    options: &LooseOptions,
    fits: fn(&LooseOptions, &LooseOptions) -> bool,
) -> Option<usize> {
    rules.iter().find(|(rule, _)| fits(options, rule)).map(|(_, place)| *place)
}

fn is_assignment(word: &str) -> bool {
    let is_name = |name: &str| {
        name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    };
    word.split_once('=').is_some_and(|(name, _)| is_name(name))
}
