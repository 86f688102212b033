//! Evaluates reading, changing and removing files.

use std::path::{Path, PathBuf};

use zero_core::{Effect, PathZone, RiskLevel};

use super::{EffectAssessment, RequestEvaluator};
use crate::command_access::ChangeScope;
use crate::decision::Verdict;
use crate::permission_mode::PermissionMode;
use crate::program::FileAccess;
use crate::protected_paths::{self, ProtectedPaths};
use crate::rule::{PolicyRule, RuleOwner, escape_glob};
use crate::rule_set::PathViews;
use crate::shell::ShellArg;
use crate::shell::analysis::{FileUse, WorkingFolders};

/// Most files that one pattern may match; with more, it is treated as unknown.
const PATTERN_FILES_MAX: usize = 200;

/// Reason for a file of the workspace with secrets.
const CONTAINS_SECRETS: &str = "it contains secrets";

/// A rule that allows a command and thereby the files that it accesses.
#[derive(Clone, Copy)]
pub(super) struct CoveringRule<'a> {
    /// The rule that allows the command.
    pub(super) rule: &'a PolicyRule,
    /// Whether it names exactly this command, without a wildcard.
    pub(super) exact: bool,
    /// Whether it covers changes as well.
    pub(super) changes: bool,
}

impl FileAccess {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Delete => "delete",
        }
    }
}

impl<'a> RequestEvaluator<'a> {
    /// Evaluates a file that a tool names.
    pub(super) fn evaluate_named_file(
        &self,
        access: FileAccess,
        views: &PathViews,
        whereabouts: PathZone,
    ) -> EffectAssessment {
        let destroys = access == FileAccess::Delete && self.request.risk == RiskLevel::Critical;
        let critical = destroys.then_some("it removes a file");
        if access == FileAccess::Read && whereabouts == PathZone::Spill {
            let reason = "it is a result of this session".to_owned();
            return EffectAssessment::new(
                "read",
                display_path(&views.canonical),
                Verdict::Allow,
                reason,
            );
        }
        if protected_paths::is_process_memory(&views.canonical) {
            let reason = closed_message(protected_paths::PROCESS_MEMORY);
            return EffectAssessment::new(
                access.as_str(),
                display_path(&views.canonical),
                Verdict::Deny,
                reason,
            )
            .with_access_risk(access);
        }
        if self.engine.is_confined
            && access != FileAccess::Read
            && !self.is_inside(&views.canonical)
        {
            let reason = "it is outside the worktree of the sub-agent".to_owned();
            let target = display_path(&views.canonical);
            return EffectAssessment::new(access.as_str(), target, Verdict::Deny, reason)
                .with_access_risk(access);
        }
        self.evaluate_file(access, views, self.find_edit_rule(access, views), critical)
    }

    /// The rule that allows changing a file with a tool that reads it first; it allows the read as
    /// well.
    fn find_edit_rule(&self, access: FileAccess, views: &PathViews) -> Option<CoveringRule<'a>> {
        let is_edit = access == FileAccess::Read && self.is_edited(views);
        let (tool, rules) = (self.request.tool, &self.engine.rules);
        let rule = rules
            .find_path_rule(Verdict::Allow, tool, FileAccess::Write, views)
            .filter(|_| is_edit)?;
        Some(CoveringRule { rule, exact: false, changes: false })
    }

    /// Whether the call changes a file by a tool of zero's own, which shows no more than the change.
    fn is_edited(&self, views: &PathViews) -> bool {
        let changes = |effect: &Effect| matches!(effect, Effect::Write(path) if path.canonical() == views.canonical);
        self.request.effects.iter().any(changes)
    }

    /// Whether a file of the workspace contains secrets that its reader need not see.
    fn has_masked_values(&self, views: &PathViews) -> bool {
        let files = &self.engine.masked_files;
        (files.contains(&views.canonical) || files.contains(&views.written))
            && !self.is_edited(views)
    }

    /// Evaluates a file that a command accesses: one verdict for each possible file. `sources`
    /// returns what the same command reads recursively.
    pub(super) fn evaluate_file_use<'u>(
        &self,
        file: &FileUse,
        cover: Option<CoveringRule<'a>>,
        sources: &dyn Fn() -> Vec<&'u FileUse>,
        judged: &mut Vec<EffectAssessment>,
    ) {
        let FileUse { access, path, folders, recursive, redirected } = file;
        if path.as_known().is_some_and(|path| is_harmless(path, *redirected)) {
            return;
        }
        let cover = cover.filter(|cover| !redirected || cover.exact);
        let PathCandidates { files, certain } = self.resolve_candidates(*access, path, folders);
        for views in &files {
            let private = self.evaluate_private_temp(*access, views);
            let is_private = private.is_some();
            let mut verdict =
                private.unwrap_or_else(|| self.evaluate_file(*access, views, cover, None));
            match access {
                // Nothing has to be opened for it: every command may change its temporary files.
                _ if is_private => {}
                FileAccess::Read => {
                    verdict.reads = vec![views.written.clone(), views.canonical.clone()];
                }
                FileAccess::Write | FileAccess::Delete => {
                    verdict.changes = ChangeScope::Files(self.list_changed_paths(views));
                }
            }
            if *recursive {
                // The contents were not shown, so they cannot be granted. If the folder is asked
                // about already, they need no check.
                verdict.grant = None;
                if verdict.verdict == Verdict::Allow {
                    self.evaluate_contents(*access, views, sources, &mut verdict);
                }
            }
            judged.push(verdict);
        }
        if let CandidateCompleteness::Incomplete(rule) = certain {
            judged.push(
                match rule {
                    Some(rule) => EffectAssessment::from_rule(
                        access.as_str(),
                        path.to_string(),
                        rule.verdict,
                        rule,
                    ),
                    None => {
                        let reason = "the file is only known at run time".to_owned();
                        EffectAssessment::new(
                            access.as_str(),
                            path.to_string(),
                            Verdict::Ask,
                            reason,
                        )
                    }
                }
                .with_access_risk(*access),
            );
        }
    }

    /// Allows a command to access its private temporary files. What a rule says about the file, and
    /// what is protected by its name, is evaluated as elsewhere.
    fn evaluate_private_temp(
        &self,
        access: FileAccess,
        views: &PathViews,
    ) -> Option<EffectAssessment> {
        if !self.request.machine.is_private_temp(&views.canonical, access) {
            return None;
        }
        let tool = self.request.tool;
        let is_ruled = self.engine.rules.find_strictest_path_rule(tool, access, views).is_some();
        let special = match access {
            FileAccess::Read => protected_paths::sensitive_reason,
            FileAccess::Write | FileAccess::Delete => protected_paths::protected_reason,
        };
        let is_special = self.closed_reason(access, views).is_some()
            || self.check_both_views(views, special).is_some();
        if is_ruled || is_special {
            return None;
        }
        let reason = "it is in the private temporary folder of the session".to_owned();
        let target = display_path(&views.canonical);
        let judged = EffectAssessment::new(access.as_str(), target, Verdict::Allow, reason);
        let changes = match access {
            FileAccess::Read => ChangeScope::Nothing,
            FileAccess::Write | FileAccess::Delete => ChangeScope::OtherEffects,
        };
        let private_reads = match access {
            FileAccess::Read => vec![views.canonical.clone()],
            FileAccess::Write | FileAccess::Delete => Vec::new(),
        };
        Some(EffectAssessment { changes, private_reads, ..judged })
    }

    /// The paths at which a file may be changed, or made and removed: its canonical path, and that of
    /// the link that the written path may be.
    fn list_changed_paths(&self, views: &PathViews) -> Vec<PathBuf> {
        let PathViews { written, canonical } = views;
        let folder = written.parent().and_then(|folder| self.request.machine.canonicalize(folder));
        let link = folder.zip(written.file_name()).map(|(folder, name)| folder.join(name));
        let link = link.filter(|link| link != canonical);
        std::iter::once(canonical.clone()).chain(link).collect()
    }

    /// Evaluates one file.
    fn evaluate_file(
        &self,
        access: FileAccess,
        views: &PathViews,
        cover: Option<CoveringRule<'a>>,
        critical: Option<&'static str>,
    ) -> EffectAssessment {
        let tool = self.request.tool;
        let (word, target) = (access.as_str(), display_path(&views.canonical));
        let new =
            |verdict, reason: String| EffectAssessment::new(word, target.clone(), verdict, reason);
        if let Some(what) = self.closed_reason(access, views) {
            let reason = closed_message(what);
            return new(Verdict::Deny, reason).with_access_risk(access).with_risk(RiskLevel::High);
        }
        let ruled = self.engine.rules.find_strictest_path_rule(tool, access, views);
        let ruled = ruled.map(|rule| (rule.verdict, rule));
        if let Some((verdict @ (Verdict::Deny | Verdict::Ask), rule)) = ruled {
            return EffectAssessment::from_rule(word, target, verdict, rule)
                .with_access_risk(access);
        }
        let inside = self.is_inside(&views.canonical);
        if access != FileAccess::Read {
            if let Some(why) = self.check_both_views(views, protected_paths::protected_reason) {
                let reason = format!("protected: {why}; always asks, no rule can allow it");
                return new(Verdict::Ask, reason)
                    .with_access_risk(access)
                    .with_risk(RiskLevel::High);
            }
            if inside && let Some(why) = self.find_protected_link(&views.canonical) {
                let reason = format!("protected: {why}; always asks, no rule can allow it");
                return new(Verdict::Ask, reason)
                    .with_access_risk(access)
                    .with_risk(RiskLevel::High);
            }
            if is_device(&views.canonical) {
                return new(Verdict::Ask, "it is a device".to_owned())
                    .with_access_risk(access)
                    .with_risk(RiskLevel::Critical);
            }
        }
        if let Some(why) = critical {
            let exact =
                ruled.filter(|(_, rule)| rule.is_exact() && rule.source.owner == RuleOwner::User);
            return match exact {
                Some((verdict, rule)) => EffectAssessment::from_rule(word, target, verdict, rule),
                None => new(Verdict::Ask, format!("{why}; zero asks every time")),
            }
            .with_access_risk(access)
            .with_risk(RiskLevel::Critical);
        }
        if let Some((verdict, rule)) = ruled {
            return EffectAssessment::from_rule(word, target, verdict, rule)
                .with_access_risk(access);
        }
        let secret = match access {
            FileAccess::Read => self.check_both_views(views, protected_paths::sensitive_reason),
            FileAccess::Write | FileAccess::Delete => None,
        };
        if let Some(CoveringRule { rule, exact, changes }) = cover
            && (exact || secret.is_none() && (inside && changes || access == FileAccess::Read))
        {
            return EffectAssessment::from_rule(word, target, Verdict::Allow, rule)
                .with_access_risk(access);
        }
        let mode = self.mode();
        let (verdict, reason) = match (access, inside) {
            (FileAccess::Read, _) if secret.is_some() => {
                (Verdict::Ask, format!("it contains {}", secret.unwrap_or_default()))
            }
            (FileAccess::Read, true) if self.has_masked_values(views) => match mode {
                PermissionMode::Auto => {
                    (Verdict::Allow, format!("{CONTAINS_SECRETS}, which zero masks"))
                }
                _ => (Verdict::Ask, format!("{CONTAINS_SECRETS}; zero shows their names only")),
            },
            (FileAccess::Read, true) => (Verdict::Allow, "it is in the workspace".to_owned()),
            (FileAccess::Read, false) => (Verdict::Ask, "it is outside the workspace".to_owned()),
            (FileAccess::Write, true) if mode.accepts_edits() => {
                (Verdict::Allow, format!("mode `{mode}` allows changes in the workspace"))
            }
            (FileAccess::Delete, true) if mode == PermissionMode::Auto => {
                (Verdict::Allow, format!("mode `{mode}` allows changes in the workspace"))
            }
            (FileAccess::Write, true) => (Verdict::Ask, "no rule allows changing it".to_owned()),
            (FileAccess::Delete, true) => (Verdict::Ask, "no rule allows removing it".to_owned()),
            (FileAccess::Write | FileAccess::Delete, false) => {
                (Verdict::Ask, "it is outside the workspace".to_owned())
            }
        };
        let grant = (verdict == Verdict::Ask)
            .then(|| self.engine.build_file_grant(access, views))
            .flatten();
        EffectAssessment { grant, ..new(verdict, reason) }
            .with_access_risk(access)
            .raise_risk_outside(inside)
    }

    /// Why no rule opens a file. A folder cannot be removed without its contents.
    pub(super) fn closed_reason(
        &self,
        access: FileAccess,
        views: &PathViews,
    ) -> Option<&'static str> {
        let goes_along = || self.check_both_views(views, protected_paths::secret_folder_reason);
        let holds = || (access == FileAccess::Delete).then(goes_along).flatten();
        self.check_both_views(views, protected_paths::closed_reason).or_else(holds)
    }

    /// Applies a check to the canonical path and to the written path.
    pub(super) fn check_both_views(
        &self,
        views: &PathViews,
        special: fn(&Path, &ProtectedPaths) -> Option<&'static str>,
    ) -> Option<&'static str> {
        let PathViews { written, canonical } = views;
        let places = &self.engine.protected;
        let by_name = || (written != canonical).then(|| special(written, places)).flatten();
        special(canonical, places).or_else(by_name)
    }

    pub(super) fn is_inside(&self, canonical: &Path) -> bool {
        self.engine.places.roots.iter().any(|root| canonical.starts_with(root))
    }

    /// The files that an argument can mean.
    pub(super) fn resolve_candidates(
        &self,
        access: FileAccess,
        path: &ShellArg,
        folders: &WorkingFolders,
    ) -> PathCandidates<'a> {
        let WorkingFolders::OneOf(folders) = folders else {
            // The working folder is unknown; a rule that denies the path in the workspace decides.
            let absolute = path.as_known().is_some_and(|path| path.starts_with('/'));
            if absolute {
                return self.resolve_candidates(
                    access,
                    path,
                    &WorkingFolders::OneOf(vec![PathBuf::from("/")]),
                );
            }
            let roots = self.engine.places.roots.clone();
            let PathCandidates { files, certain } =
                self.resolve_candidates(access, path, &WorkingFolders::OneOf(roots));
            let mut meaning = PathCandidates { files: Vec::new(), certain };
            let denied = files.iter().find_map(|views| self.find_deny_rule(access, views));
            meaning.mark_incomplete(denied);
            return meaning;
        };
        let mut meaning =
            PathCandidates { files: Vec::new(), certain: CandidateCompleteness::Complete };
        for folder in folders {
            match path {
                ShellArg::Known(path) => {
                    self.add_candidate(access, &folder.join(path), &mut meaning)
                }
                ShellArg::Pattern(pattern) => {
                    self.add_pattern_candidates(access, folder, pattern, &mut meaning)
                }
                ShellArg::Unknown { starts_with, .. } => {
                    let rule = starts_with
                        .rfind('/')
                        .map(|end| folder.join(&starts_with[..end]))
                        .and_then(|parent| self.resolve_views(access, &parent))
                        .and_then(|views| self.find_deny_rule(access, &views));
                    meaning.mark_incomplete(rule);
                }
            }
        }
        meaning
    }

    fn add_pattern_candidates(
        &self,
        access: FileAccess,
        folder: &Path,
        pattern: &str,
        meaning: &mut PathCandidates<'a>,
    ) {
        let absolute = match (pattern.strip_prefix('/'), folder.to_str()) {
            (Some(_), _) => pattern.to_owned(),
            (None, Some(folder)) => format!("{}/{pattern}", escape_glob(folder)),
            (None, None) => return meaning.mark_incomplete(None),
        };
        let absolute = widen_char_classes(&absolute);
        for verdict in [Verdict::Deny, Verdict::Ask] {
            if let Some(rule) = self.engine.rules.find_rule_for_glob(verdict, access, &absolute) {
                meaning.mark_incomplete(Some(rule));
                break;
            }
        }
        // Everything before the first special character is certain.
        let certain = absolute.find(['*', '?', '[', '\\']).unwrap_or(absolute.len());
        let parent = absolute[..certain].rfind('/').map_or("/", |end| &absolute[..=end]);
        if absolute[certain..].split('/').any(|part| part == "..") {
            return meaning.mark_incomplete(None);
        }
        match self.request.machine.expand_glob(&absolute, PATTERN_FILES_MAX) {
            Some(files) => files.iter().for_each(|file| self.add_candidate(access, file, meaning)),
            None => meaning.mark_incomplete(None),
        }
        let Some(folder) = self.resolve_views(access, Path::new(parent)) else {
            return meaning.mark_incomplete(None);
        };
        if access == FileAccess::Read
            || self.check_both_views(&folder, protected_paths::protected_reason).is_some()
        {
            return meaning.files.push(folder);
        }
        // The pattern may match files that are created later. A rule that allows changing files of
        // that name covers them, without the folder.
        let names = &absolute[parent.len()..];
        let PathViews { written, canonical } = folder;
        let (written, canonical) = (written.join(names), canonical.join(names));
        meaning.files.push(PathViews { written, canonical });
    }

    fn add_candidate(&self, access: FileAccess, raw: &Path, meaning: &mut PathCandidates<'a>) {
        match self.resolve_views(access, raw) {
            Some(views) => meaning.files.push(views),
            None => meaning.mark_incomplete(None),
        }
    }

    fn resolve_views(&self, access: FileAccess, raw: &Path) -> Option<PathViews> {
        let canonical = self.request.machine.command_path(raw, access)?;
        Some(PathViews { written: crate::path::normalize_lexically(raw), canonical })
    }

    fn find_deny_rule(&self, access: FileAccess, views: &PathViews) -> Option<&'a PolicyRule> {
        self.engine.rules.find_path_rule(Verdict::Deny, self.request.tool, access, views)
    }
}

/// The files that an argument can mean.
pub(super) struct PathCandidates<'a> {
    pub(super) files: Vec<PathViews>,
    pub(super) certain: CandidateCompleteness<'a>,
}

/// Whether the candidates are complete.
pub(super) enum CandidateCompleteness<'a> {
    Complete,
    /// Other files may be meant; a rule may decide about them already.
    Incomplete(Option<&'a PolicyRule>),
}

impl<'a> PathCandidates<'a> {
    /// Marks the candidates as incomplete; the strictest rule about the other files decides.
    fn mark_incomplete(&mut self, rule: Option<&'a PolicyRule>) {
        let known = match self.certain {
            CandidateCompleteness::Complete => None,
            CandidateCompleteness::Incomplete(rule) => rule,
        };
        let strictest = known.into_iter().chain(rule).rev().max_by_key(|rule| rule.verdict);
        self.certain = CandidateCompleteness::Incomplete(strictest);
    }
}

impl EffectAssessment {
    /// Sets the risk of an access.
    fn with_access_risk(self, access: FileAccess) -> Self {
        let risk = match access {
            FileAccess::Read => RiskLevel::Low,
            FileAccess::Write => RiskLevel::Medium,
            FileAccess::Delete => RiskLevel::High,
        };
        let changes = match access {
            FileAccess::Read => ChangeScope::Nothing,
            // Until the file is known.
            FileAccess::Write | FileAccess::Delete => ChangeScope::Unknown,
        };
        Self { changes, risk: self.risk.max(risk), ..self }
    }

    fn raise_risk_outside(self, inside: bool) -> Self {
        let risk = match (inside, self.changes != ChangeScope::Nothing) {
            (true, _) => self.risk,
            (false, false) => self.risk.max(RiskLevel::Medium),
            (false, true) => self.risk.max(RiskLevel::High),
        };
        Self { risk, ..self }
    }
}

/// Whether a path is a harmless device such as `/dev/null`, or `-` for a stream.
fn is_harmless(path: &str, redirected: bool) -> bool {
    let device = path.strip_prefix("/dev/").is_some_and(|device| {
        matches!(
            device,
            "null" | "zero" | "full" | "random" | "urandom" | "stdin" | "stdout" | "stderr" | "tty"
        ) || device
            .strip_prefix("fd/")
            .is_some_and(|fd| !fd.is_empty() && fd.bytes().all(|byte| byte.is_ascii_digit()))
    });
    device || path == "-" && !redirected
}

/// Reason for a file that no rule, mode or approval makes accessible.
pub(super) fn closed_message(what: &str) -> String {
    format!("protected: {what}; no rule or approval allows access")
}

fn is_device(canonical: &Path) -> bool {
    canonical.starts_with("/dev") && !canonical.starts_with("/dev/shm")
}

fn display_path(path: &Path) -> String {
    path.display().to_string()
}

/// Replaces a name with a character class such as `[[:alpha:]]` by one that matches every name with
/// the same prefix: more than the shell would match, so nothing is missed.
fn widen_char_classes(pattern: &str) -> String {
    let simple = |part: &str| {
        let has_class = ["[:", "[=", "[."].iter().any(|class| part.contains(class));
        match part.find('[').filter(|_| has_class) {
            Some(at) => format!("{}*", &part[..at]),
            None => part.to_owned(),
        }
    };
    pattern.split('/').map(simple).collect::<Vec<_>>().join("/")
}
