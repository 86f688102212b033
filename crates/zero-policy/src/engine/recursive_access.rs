//! Evaluates the contents of a folder that is accessed recursively.
//!
//! The folder itself is already allowed. Its contents are not named in the command, so this module
//! searches them for files that a rule guards or that no rule may open.

use std::path::Path;

use super::files::{CandidateCompleteness, PathCandidates};
use super::{EffectAssessment, RequestEvaluator};
use crate::decision::Verdict;
use crate::machine::FileSearchOutcome;
use crate::program::FileAccess;
use crate::protected_paths;
use crate::rule::PolicyRule;
use crate::rule_set::PathViews;
use crate::shell::analysis::FileUse;

/// Reason if a search stopped at its limit.
const TOO_MANY_FILES: &str = "it contains too many files to check for denied ones";

/// A reason to ask about the contents of a folder, and the rule behind it.
pub(super) type ContentsFinding<'a> = Option<(String, Option<&'a PolicyRule>)>;

impl<'a> RequestEvaluator<'a> {
    /// Turns an allowed verdict into a question if the folder contains something that must not be
    /// accessed by accident.
    pub(super) fn evaluate_contents<'u>(
        &self,
        access: FileAccess,
        views: &PathViews,
        sources: &dyn Fn() -> Vec<&'u FileUse>,
        verdict: &mut EffectAssessment,
    ) {
        let finding = match self.explain_contents_risk(access, views, sources) {
            Some(reason) => Some((reason, None)),
            None => self.find_guarded_contents(access, views),
        };
        if let Some((reason, rule)) = finding {
            verdict.verdict = Verdict::Ask;
            verdict.reason = reason;
            verdict.rule = rule.map(|rule| rule.text.clone());
            verdict.source = rule.map(|rule| rule.source.to_string());
        }
    }

    /// Searches a folder for files that a rule guards, once for each decision.
    fn find_guarded_contents(&self, access: FileAccess, views: &PathViews) -> ContentsFinding<'a> {
        if !self.engine.rules.guards_paths() {
            return None;
        }
        let key = (access, views.clone());
        if let Some(known) = self.contents.borrow().get(&key) {
            return known.clone();
        }
        let guard = |path: &Path| self.find_guard_beneath(access, views, path);
        let found = self.request.machine.find_file(&views.canonical, &|path| guard(path).is_some());
        let finding = match found {
            FileSearchOutcome::NotFound => None,
            FileSearchOutcome::Unfinished => Some((TOO_MANY_FILES.to_owned(), None)),
            FileSearchOutcome::Found(found) => {
                let (word, rule) = (access.as_str(), guard(&found));
                let says = match rule.map(|rule| rule.verdict) {
                    Some(Verdict::Ask) => "asks about",
                    _ => "denies",
                };
                Some((format!("it would also {word} files in it that a rule {says}"), rule))
            }
        };
        self.contents.borrow_mut().insert(key, finding.clone());
        finding
    }

    /// The rule that guards a file beneath a folder, by either name of the folder.
    fn find_guard_beneath(
        &self,
        access: FileAccess,
        folder: &PathViews,
        path: &Path,
    ) -> Option<&'a PolicyRule> {
        let written = match path.strip_prefix(&folder.canonical) {
            Ok(below) => folder.written.join(below),
            Err(_) => path.to_owned(),
        };
        let views = PathViews { written, canonical: path.to_owned() };
        self.engine.rules.find_path_guard(self.request.tool, access, &views)
    }

    /// Why the contents need more than a rule for the folder.
    fn explain_contents_risk<'u>(
        &self,
        access: FileAccess,
        views: &PathViews,
        sources: &dyn Fn() -> Vec<&'u FileUse>,
    ) -> Option<String> {
        let (tool, places) = (self.request.tool, &self.engine.places);
        let is_root = || places.roots.contains(&views.canonical);
        match access {
            FileAccess::Read => {
                let by_rule =
                    || self.engine.rules.find_path_rule(Verdict::Allow, tool, access, views);
                let opens = places.holds_home(&views.canonical) && by_rule().is_none();
                opens.then(|| "it contains your keys and credentials".to_owned())
            }
            FileAccess::Delete => is_root().then(|| "it is the workspace itself".to_owned()),
            FileAccess::Write if is_root() => {
                self.explain_copied_sources(&sources(), &views.canonical)
            }
            FileAccess::Write => None,
        }
    }

    /// Which source would become protected in `folder`, or why that is unknown.
    fn explain_copied_sources(&self, sources: &[&FileUse], folder: &Path) -> Option<String> {
        if sources.is_empty() {
            return Some(
                "the copied files are not known and may include settings that run code".to_owned(),
            );
        }
        for source in sources {
            let PathCandidates { files, certain } =
                self.resolve_candidates(FileAccess::Read, &source.path, &source.folders);
            if matches!(certain, CandidateCompleteness::Incomplete(_)) {
                return Some("the copied files are only known at run time".to_owned());
            }
            let found =
                files.iter().map(|file| self.find_protected_after_copy(&file.canonical, folder));
            match found.fold(FileSearchOutcome::NotFound, stricter_outcome) {
                FileSearchOutcome::NotFound => {}
                FileSearchOutcome::Unfinished => return Some(TOO_MANY_FILES.to_owned()),
                FileSearchOutcome::Found(found) => {
                    return Some(format!(
                        "it would copy the protected file `{}`; no rule can allow it",
                        found.display()
                    ));
                }
            }
        }
        None
    }

    /// A file beneath `source` that would be protected once copied to `folder`, with or without the
    /// name of the source.
    fn find_protected_after_copy(&self, source: &Path, folder: &Path) -> FileSearchOutcome {
        let named = source.file_name().map(|name| folder.join(name));
        let lands = |path: &Path| {
            let Ok(below) = path.strip_prefix(source) else { return false };
            let places = [Some(folder), named.as_deref()].into_iter().flatten();
            places.map(|place| place.join(below)).any(|path| {
                protected_paths::protected_reason(&path, &self.engine.protected).is_some()
            })
        };
        match named
            .as_deref()
            .map(|path| protected_paths::protected_reason(path, &self.engine.protected))
        {
            Some(Some(_)) => FileSearchOutcome::Found(source.to_owned()),
            _ => self.request.machine.find_file(source, &lands),
        }
    }
}

fn stricter_outcome(a: FileSearchOutcome, b: FileSearchOutcome) -> FileSearchOutcome {
    match (a, b) {
        (FileSearchOutcome::NotFound, other) | (other, FileSearchOutcome::NotFound) => other,
        (found @ FileSearchOutcome::Found(_), _) | (_, found @ FileSearchOutcome::Found(_)) => {
            found
        }
        (FileSearchOutcome::Unfinished, FileSearchOutcome::Unfinished) => {
            FileSearchOutcome::Unfinished
        }
    }
}
