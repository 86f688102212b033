//! Judges reading, changing and removing files.

use std::path::{Path, PathBuf};

use zero_core::{Effect, PathZone, RiskLevel};

use super::{EffectAssessment, RequestEvaluator};
use crate::decision::Verdict;
use crate::permission_mode::PermissionMode;
use crate::program::FileAccess;
use crate::protected_paths::{self, ProtectedPaths};
use crate::rule::{PolicyRule, RuleOwner};
use crate::rule_set::PathViews;
use crate::shell::ShellArg;
use crate::shell::analysis::{FileUse, WorkingFolders};

/// Files that one pattern may stand for; with more, it counts as unknown.
const PATTERN_FILES_MAX: usize = 200;

/// Why a rule may allow a file that no rule names.
#[derive(Clone, Copy)]
pub(super) struct CoveringRule<'a> {
    /// The rule that allows the command which touches the file.
    pub(super) rule: &'a PolicyRule,
    /// Whether it names this very command, without a wildcard.
    pub(super) exact: bool,
    /// Whether it is meant for changes too.
    pub(super) changes: bool,
}

impl FileAccess {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Delete => "delete",
        }
    }
}

impl<'a> RequestEvaluator<'a> {
    /// Judges a file that a tool names.
    pub(super) fn file_of_tool(
        &self,
        access: FileAccess,
        views: &PathViews,
        whereabouts: PathZone,
    ) -> EffectAssessment {
        let destroys = access == FileAccess::Delete && self.request.risk == RiskLevel::Critical;
        let critical = destroys.then_some("it removes a file");
        if access == FileAccess::Read && whereabouts == PathZone::Spill {
            let reason = "it is a result of this session".to_owned();
            return EffectAssessment::new("read", shown(&views.canonical), Verdict::Allow, reason);
        }
        if protected_paths::is_process_memory(&views.canonical) {
            let reason = format!("it is {}, which nothing opens", protected_paths::PROCESS_MEMORY);
            return EffectAssessment::new(
                access.word(),
                shown(&views.canonical),
                Verdict::Deny,
                reason,
            )
            .of_access(access);
        }
        self.file(access, views, self.edited(access, views), critical)
    }

    /// Who may change a file with a tool that reads it first may read it for that.
    fn edited(&self, access: FileAccess, views: &PathViews) -> Option<CoveringRule<'a>> {
        let changes = |effect: &Effect| matches!(effect, Effect::Write(path) if path.canonical() == views.canonical);
        let is_edit = access == FileAccess::Read && self.request.effects.iter().any(changes);
        let (tool, rules) = (self.request.tool, &self.engine.rules);
        let rule =
            rules.path(Verdict::Allow, tool, FileAccess::Write, views).filter(|_| is_edit)?;
        Some(CoveringRule { rule, exact: false, changes: false })
    }

    /// Judges a file that a command touches: one verdict for each file it may be. `sources` is what
    /// the same command reads with everything beneath it.
    pub(super) fn file_use<'u>(
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
        let PathCandidates { files, certain } = self.meaning(*access, path, folders);
        for views in &files {
            let mut verdict = self.file(*access, views, cover, None);
            if *recursive {
                // What lies beneath was not shown, so it cannot be granted; and what is asked
                // already needs no second look.
                verdict.grant = None;
                if verdict.verdict == Verdict::Allow {
                    self.beneath(*access, views, sources, &mut verdict);
                }
            }
            judged.push(verdict);
        }
        if let CandidateCompleteness::No(rule) = certain {
            judged.push(
                match rule {
                    Some(rule) => EffectAssessment::by_rule(
                        access.word(),
                        path.to_string(),
                        rule.verdict,
                        rule,
                    ),
                    None => {
                        let reason = "which file it is is only known when it runs".to_owned();
                        EffectAssessment::new(access.word(), path.to_string(), Verdict::Ask, reason)
                    }
                }
                .of_access(*access),
            );
        }
    }

    /// Judges one file.
    fn file(
        &self,
        access: FileAccess,
        views: &PathViews,
        cover: Option<CoveringRule<'a>>,
        critical: Option<&'static str>,
    ) -> EffectAssessment {
        let tool = self.request.tool;
        let (word, target) = (access.word(), shown(&views.canonical));
        let new =
            |verdict, reason: String| EffectAssessment::new(word, target.clone(), verdict, reason);
        if let Some(what) = self.closed(access, views) {
            let reason = format!("it is {what}, which nothing opens");
            return new(Verdict::Deny, reason).of_access(access).at_risk(RiskLevel::High);
        }
        let ruled = self.engine.rules.strictest_path(tool, access, views);
        let ruled = ruled.map(|rule| (rule.verdict, rule));
        if let Some((verdict @ (Verdict::Deny | Verdict::Ask), rule)) = ruled {
            return EffectAssessment::by_rule(word, target, verdict, rule).of_access(access);
        }
        let inside = self.is_inside(&views.canonical);
        if access != FileAccess::Read {
            if let Some(why) = self.of_either(views, protected_paths::protected) {
                let reason = format!("it is {why}, which no rule can open");
                return new(Verdict::Ask, reason).of_access(access).at_risk(RiskLevel::High);
            }
            if is_device(&views.canonical) {
                return new(Verdict::Ask, "it is a device".to_owned())
                    .of_access(access)
                    .at_risk(RiskLevel::Critical);
            }
        }
        if let Some(why) = critical {
            let exact =
                ruled.filter(|(_, rule)| rule.is_exact() && rule.source.owner == RuleOwner::Person);
            return match exact {
                Some((verdict, rule)) => EffectAssessment::by_rule(word, target, verdict, rule),
                None => new(Verdict::Ask, format!("{why}; that is asked every time")),
            }
            .of_access(access)
            .at_risk(RiskLevel::Critical);
        }
        if let Some((verdict, rule)) = ruled {
            return EffectAssessment::by_rule(word, target, verdict, rule).of_access(access);
        }
        let secret = match access {
            FileAccess::Read => self.of_either(views, protected_paths::sensitive),
            FileAccess::Write | FileAccess::Delete => None,
        };
        if let Some(CoveringRule { rule, exact, changes }) = cover
            && (exact || secret.is_none() && (inside && changes || access == FileAccess::Read))
        {
            return EffectAssessment::by_rule(word, target, Verdict::Allow, rule).of_access(access);
        }
        let mode = self.mode();
        let (verdict, reason) = match (access, inside) {
            (FileAccess::Read, _) if secret.is_some() => {
                (Verdict::Ask, format!("it holds {}", secret.unwrap_or_default()))
            }
            (FileAccess::Read, true) => (Verdict::Allow, "it lies in the workspace".to_owned()),
            (FileAccess::Read, false) => (Verdict::Ask, "it lies outside the workspace".to_owned()),
            (FileAccess::Write, true) if mode.accepts_edits() => {
                (Verdict::Allow, format!("mode `{mode}` accepts changes in the workspace"))
            }
            (FileAccess::Delete, true) if mode == PermissionMode::Auto => {
                (Verdict::Allow, format!("mode `{mode}` accepts changes in the workspace"))
            }
            (FileAccess::Write, true) => (Verdict::Ask, "no rule allows changing it".to_owned()),
            (FileAccess::Delete, true) => (Verdict::Ask, "no rule allows removing it".to_owned()),
            (FileAccess::Write | FileAccess::Delete, false) => {
                (Verdict::Ask, "it lies outside the workspace".to_owned())
            }
        };
        let grant = (verdict == Verdict::Ask).then(|| self.file_grant(access, views)).flatten();
        EffectAssessment { grant, ..new(verdict, reason) }.of_access(access).outside_risk(inside)
    }

    /// What a file is that nothing opens. A folder cannot go without what lies in it.
    fn closed(&self, access: FileAccess, views: &PathViews) -> Option<&'static str> {
        let goes_along = || self.of_either(views, protected_paths::holds_secret);
        let holds = || (access == FileAccess::Delete).then(goes_along).flatten();
        self.of_either(views, protected_paths::closed).or_else(holds)
    }

    /// What makes a file special, by where it really is or by how it is called.
    pub(super) fn of_either(
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

    /// The files that an argument may mean.
    pub(super) fn meaning(
        &self,
        access: FileAccess,
        path: &ShellArg,
        folders: &WorkingFolders,
    ) -> PathCandidates<'a> {
        let WorkingFolders::OneOf(folders) = folders else {
            // Nobody knows where it runs; that it is denied in the workspace is reason enough.
            let absolute = path.as_known().is_some_and(|path| path.starts_with('/'));
            if absolute {
                return self.meaning(
                    access,
                    path,
                    &WorkingFolders::OneOf(vec![PathBuf::from("/")]),
                );
            }
            let roots = self.engine.places.roots.clone();
            let PathCandidates { files, certain } =
                self.meaning(access, path, &WorkingFolders::OneOf(roots));
            let mut meaning = PathCandidates { files: Vec::new(), certain };
            let denied = files.iter().find_map(|views| self.denied(access, views));
            meaning.doubt(denied);
            return meaning;
        };
        let mut meaning = PathCandidates { files: Vec::new(), certain: CandidateCompleteness::Yes };
        for folder in folders {
            match path {
                ShellArg::Known(path) => self.add(&folder.join(path), &mut meaning),
                ShellArg::Pattern(pattern) => {
                    self.add_pattern(access, folder, pattern, &mut meaning)
                }
                ShellArg::Unknown { starts_with, .. } => {
                    let rule = starts_with
                        .rfind('/')
                        .map(|end| folder.join(&starts_with[..end]))
                        .and_then(|parent| self.views(&parent))
                        .and_then(|views| self.denied(access, &views));
                    meaning.doubt(rule);
                }
            }
        }
        meaning
    }

    fn add_pattern(
        &self,
        access: FileAccess,
        folder: &Path,
        pattern: &str,
        meaning: &mut PathCandidates<'a>,
    ) {
        let absolute = match (pattern.strip_prefix('/'), folder.to_str()) {
            (Some(_), _) => pattern.to_owned(),
            (None, Some(folder)) => format!("{}/{pattern}", escaped(folder)),
            (None, None) => return meaning.doubt(None),
        };
        let absolute = without_classes(&absolute);
        for verdict in [Verdict::Deny, Verdict::Ask] {
            if let Some(rule) = self.engine.rules.glob_could_name(verdict, access, &absolute) {
                meaning.doubt(Some(rule));
                break;
            }
        }
        // Up to the folder before the first special character everything is certain.
        let certain = absolute.find(['*', '?', '[', '\\']).unwrap_or(absolute.len());
        let parent = absolute[..certain].rfind('/').map_or("/", |end| &absolute[..=end]);
        if absolute[certain..].split('/').any(|part| part == "..") {
            return meaning.doubt(None);
        }
        match self.request.world.expand(&absolute, PATTERN_FILES_MAX) {
            Some(files) => files.iter().for_each(|file| self.add(file, meaning)),
            None => meaning.doubt(None),
        }
        let Some(folder) = self.views(Path::new(parent)) else { return meaning.doubt(None) };
        if access == FileAccess::Read
            || self.of_either(&folder, protected_paths::protected).is_some()
        {
            return meaning.files.push(folder);
        }
        // A file may come to be that the pattern stands for then; a rule that lets files of this
        // name be changed lets that one be changed too, without the folder.
        let names = &absolute[parent.len()..];
        let PathViews { written, canonical } = folder;
        let (written, canonical) = (written.join(names), canonical.join(names));
        meaning.files.push(PathViews { written, canonical });
    }

    fn add(&self, raw: &Path, meaning: &mut PathCandidates<'a>) {
        match self.views(raw) {
            Some(views) => meaning.files.push(views),
            None => meaning.doubt(None),
        }
    }

    fn views(&self, raw: &Path) -> Option<PathViews> {
        let canonical = self.request.world.canonical(raw)?;
        Some(PathViews { written: crate::path::lexical(raw), canonical })
    }

    fn denied(&self, access: FileAccess, views: &PathViews) -> Option<&'a PolicyRule> {
        self.engine.rules.path(Verdict::Deny, self.request.tool, access, views)
    }
}

/// The files that an argument may mean.
pub(super) struct PathCandidates<'a> {
    pub(super) files: Vec<PathViews>,
    pub(super) certain: CandidateCompleteness<'a>,
}

/// Whether those are all of them.
pub(super) enum CandidateCompleteness<'a> {
    Yes,
    /// Others may be meant; a rule may decide about those already.
    No(Option<&'a PolicyRule>),
}

impl<'a> PathCandidates<'a> {
    /// Others may be meant; of the rules about those, the strictest decides.
    fn doubt(&mut self, rule: Option<&'a PolicyRule>) {
        let known = match self.certain {
            CandidateCompleteness::Yes => None,
            CandidateCompleteness::No(rule) => rule,
        };
        let strictest = known.into_iter().chain(rule).rev().max_by_key(|rule| rule.verdict);
        self.certain = CandidateCompleteness::No(strictest);
    }
}

impl EffectAssessment {
    /// The risk of what is done to a file.
    fn of_access(self, access: FileAccess) -> Self {
        let risk = match access {
            FileAccess::Read => RiskLevel::Low,
            FileAccess::Write => RiskLevel::Medium,
            FileAccess::Delete => RiskLevel::High,
        };
        Self { changes: access != FileAccess::Read, risk: self.risk.max(risk), ..self }
    }

    fn outside_risk(self, inside: bool) -> Self {
        let risk = match (inside, self.changes) {
            (true, _) => self.risk,
            (false, false) => self.risk.max(RiskLevel::Medium),
            (false, true) => self.risk.max(RiskLevel::High),
        };
        Self { risk, ..self }
    }
}

/// What is open to everybody and holds nothing: `/dev/null` and its like, and `-` for a stream.
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

fn is_device(canonical: &Path) -> bool {
    canonical.starts_with("/dev") && !canonical.starts_with("/dev/shm")
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

/// A pattern in which a name with `[[:alpha:]]` or its like stands for every name that begins so:
/// more than the shell means by it, so that nothing is missed.
fn without_classes(pattern: &str) -> String {
    let simple = |part: &str| {
        let has_class = ["[:", "[=", "[."].iter().any(|class| part.contains(class));
        match part.find('[').filter(|_| has_class) {
            Some(at) => format!("{}*", &part[..at]),
            None => part.to_owned(),
        }
    };
    pattern.split('/').map(simple).collect::<Vec<_>>().join("/")
}

/// A folder's name with the characters escaped that mean something in a pattern.
fn escaped(folder: &str) -> String {
    let mut escaped = String::with_capacity(folder.len());
    for char in folder.chars() {
        if matches!(char, '*' | '?' | '[' | '\\') {
            escaped.push('\\');
        }
        escaped.push(char);
    }
    escaped
}
