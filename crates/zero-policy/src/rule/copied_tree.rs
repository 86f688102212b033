//! Rules for a copy of a workspace: paths that are denied in the one are denied in the other.
//!
//! Patterns without a base on the machine follow the workspace by themselves. Those that begin at the
//! root or in the home folder name the original only, and get a twin that is relative to the copy.

use std::collections::BTreeSet;
use std::path::{Component, Path};

use super::name_glob::{NameGlob, escape_glob, fold_case};
use super::path_pattern::{PatternBase, RulePathPattern};
use super::rule_target::{RulePattern, RuleTarget};
use super::{PolicyRule, RuleOwner, RuleSource};
use crate::decision::Verdict;

/// The name for any number of folders.
const ANY_FOLDERS: &str = "**";

impl PolicyRule {
    /// Denies reading a path, given as an absolute one, and everything in it; `None` if its name is
    /// not UTF-8 text.
    pub fn deny_reading(path: &Path, source: &str) -> Option<Self> {
        let parts = path_names(path)?.into_iter().map(escape_glob).collect();
        let pattern =
            RulePathPattern { base: PatternBase::Machine, parts, beneath: false, folder: false };
        Some(Self {
            text: format!("Read(/{})", path.display()),
            verdict: Verdict::Deny,
            source: RuleSource { name: source.to_owned(), line: None, owner: RuleOwner::User },
            limits: Default::default(),
            target: RuleTarget::Tool { tool: "Read", pattern: Some(RulePattern::Path(pattern)) },
        })
    }

    /// The rules that say about a copy of the folder `original` what this one says about the folder
    /// itself. None if this one names no path on the machine, does not concern the folder, or allows
    /// something. `None` if the name of the folder is not UTF-8 text.
    pub fn for_copy_of(&self, original: &Path, home: Option<&Path>) -> Option<Vec<Self>> {
        let RuleTarget::Tool { tool, pattern: Some(RulePattern::Path(pattern)) } = &self.target
        else {
            return Some(Vec::new());
        };
        let base = match (pattern.base, home) {
            (PatternBase::Machine, _) => Vec::new(),
            (PatternBase::Home, Some(home)) => {
                path_names(home)?.into_iter().map(escape_glob).collect()
            }
            _ => return Some(Vec::new()),
        };
        if self.verdict == Verdict::Allow {
            return Some(Vec::new());
        }
        let parts = [base, pattern.parts.clone()].concat();
        let rests = match_folder(&parts, &path_names(original)?);
        let copies = rests.into_iter().map(|at| {
            let rest = parts.get(at..).unwrap_or_default().to_vec();
            let beneath = pattern.beneath || rest.is_empty();
            let pattern =
                RulePathPattern { base: PatternBase::Workspace, parts: rest, beneath, ..*pattern };
            let target = RuleTarget::Tool { tool, pattern: Some(RulePattern::Path(pattern)) };
            Self { target, ..self.clone() }
        });
        Some(copies.collect())
    }
}

/// The positions in a pattern at which it goes on inside a folder that its start matches. The end of
/// the pattern if it matches the folder itself, or one above.
fn match_folder(parts: &[String], folder: &[&str]) -> BTreeSet<usize> {
    let mut at = skip_any_folders(parts, [0].into());
    for name in folder {
        let mut next = BTreeSet::new();
        for position in at {
            match parts.get(position) {
                None => drop(next.insert(position)),
                Some(part) if part == ANY_FOLDERS => drop(next.insert(position)),
                Some(part) => {
                    let glob = NameGlob::parse(part);
                    if glob.is_ok_and(|glob| glob.matches(&fold_case(name))) {
                        next.insert(position + 1);
                    }
                }
            }
        }
        at = skip_any_folders(parts, next);
    }
    at
}

/// Adds the positions after those of `**`, which may stand for no folder.
fn skip_any_folders(parts: &[String], mut at: BTreeSet<usize>) -> BTreeSet<usize> {
    for (position, part) in parts.iter().enumerate() {
        if part == ANY_FOLDERS && at.contains(&position) {
            at.insert(position + 1);
        }
    }
    at
}

/// The names of an absolute path; `None` if one is not UTF-8 text.
fn path_names(path: &Path) -> Option<Vec<&str>> {
    let names = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_str()),
        _ => None,
    });
    names.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{DecisionRequest, PolicyEngine, PolicyEngineConfig};
    use crate::machine::EmptyMachine;
    use zero_core::{Effect, PathZone, RiskLevel, TargetPath};

    fn rule(text: &str, verdict: Verdict) -> PolicyRule {
        let source = RuleSource { name: "test".to_owned(), line: None, owner: RuleOwner::User };
        PolicyRule::parse(text, verdict, source).unwrap()
    }

    /// Whether a rule about `/home/me/project` denies reading `path` in its copy `/copy`.
    #[track_caller]
    fn check(text: &str, path: &str, is_denied: bool) {
        let (original, home) = (Path::new("/home/me/project"), Path::new("/home/me"));
        let rules = rule(text, Verdict::Deny).for_copy_of(original, Some(home)).unwrap();
        let engine = PolicyEngine::new(PolicyEngineConfig {
            rules,
            roots: vec!["/copy".into()],
            home: Some(home.to_owned()),
            ..PolicyEngineConfig::default()
        });
        let path = Path::new("/copy").join(path);
        let target = TargetPath::new(path.display().to_string(), path, PathZone::Workspace);
        let decision = engine.decide(DecisionRequest {
            tool: "Read",
            risk: RiskLevel::Low,
            effects: &[Effect::Read(target)],
            arguments: None,
            grants: &[],
            mode: None,
            machine: &EmptyMachine,
        });
        assert_eq!(decision.verdict == Verdict::Deny, is_denied, "{text}: {decision:?}");
    }

    #[test]
    fn rule_about_folder_applies_to_its_copy() {
        check("Read(//home/me/project/secret/**)", "secret/key", true);
        check("Read(//home/me/project/secret/**)", "other/key", false);
        check("Read(~/project/*.pem)", "a.pem", true);
        check("Read(~/project/*.pem)", "sub/a.pem", false);
        check("Read(~/*/keys)", "keys/a", true);
        check("Read(//home/**/keys/*)", "a/keys/b", true);
        check("Read(//home/**/keys/*)", "a/b", false);
        check("Read(~/**)", "anything", true);
        check("Read(//home/me)", "anything", true);
        check("Read(~/other/**)", "anything", false);
    }

    #[test]
    fn allow_rules_and_relative_rules_have_no_copy() {
        let original = Path::new("/home/me/project");
        for (text, verdict) in [
            ("Read(//home/me/project/**)", Verdict::Allow),
            ("Read(secret/**)", Verdict::Deny),
            ("Bash(rm:*)", Verdict::Deny),
            ("Read(~/project/x)", Verdict::Deny),
        ] {
            assert_eq!(rule(text, verdict).for_copy_of(original, None), Some(Vec::new()), "{text}");
        }
    }

    #[test]
    fn closed_path_is_closed_whatever_its_name() {
        let path = Path::new("/a (b)/c*d");
        let closed = PolicyRule::deny_reading(path, "worktree").unwrap();
        let engine = PolicyEngine::new(PolicyEngineConfig {
            rules: vec![closed],
            roots: vec!["/copy".into()],
            ..PolicyEngineConfig::default()
        });
        for (path, expected) in
            [("/a (b)/c*d/x", false), ("/a (b)/c*d", false), ("/a (b)/cxd", true)]
        {
            let path = Path::new(path);
            assert_eq!(engine.may_read("Bash", path, path), expected, "{}", path.display());
        }
    }
}
