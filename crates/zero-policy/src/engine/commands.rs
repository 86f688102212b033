//! Evaluates the nodes of a command line.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use zero_core::event::EffectOrigin;
use zero_core::{CommandLimitChange, RiskLevel};

use super::files::{CandidateCompleteness, CoveringRule, closed_message};
use super::{EffectAssessment, RequestEvaluator};
use crate::command_access::ChangeScope;
use crate::decision::Verdict;
use crate::host::HostName;
use crate::machine::FileSearchOutcome;
use crate::permission_mode::PermissionMode;
use crate::program::{
    CommandClass, FileAccess, FileTouch, find_push_remote, is_in_system_folder, package_managers,
    reads_by_default,
};
use crate::rule::{PolicyRule, RuleOwner, escape_glob};
use crate::rule_set::{CommandWords, PathViews, RuleSet};
use crate::shell::ShellArg;
use crate::shell::analysis::{
    AnalysisNode, AnalysisNodeKind, CommandInvocation, FileUse, ScriptAnalysis, Uncertainty,
    UncertaintyKind, WorkingFolders,
};

/// Words of an unparsable text that are compared with deny rules, from each position.
const LOOSE_WORDS_MAX: usize = 16;

impl<'a> RequestEvaluator<'a> {
    /// Evaluates every node. `line` is the whole text, if a shell runs it.
    pub(super) fn evaluate_analysis(
        &self,
        analysis: &ScriptAnalysis,
        line: Option<&str>,
        judged: &mut Vec<EffectAssessment>,
    ) {
        // A rule of the user for exactly this line covers all of it.
        let whole = line.and_then(|line| self.engine.rules.find_whole_line_rule(line));
        let whole = whole.map(|rule| CoveringRule { rule, exact: true, changes: true });
        let mut covers: Vec<Option<CoveringRule<'a>>> = Vec::with_capacity(analysis.nodes.len());
        let is_alone = is_single_command(analysis);
        for (at, node) in analysis.nodes.iter().enumerate() {
            let first = judged.len();
            let above = node.parent.and_then(|parent| covers.get(parent).copied().flatten());
            let mut cover = None;
            match &node.kind {
                AnalysisNodeKind::Structure => {}
                AnalysisNodeKind::Command(invocation) => {
                    let (mut verdict, rule) = self.evaluate_command(invocation, &node.label, whole);
                    // A mode alone allows no more than what every command may read.
                    if verdict.verdict == Verdict::Ask || rule.is_some() {
                        verdict.reads = self.list_program_paths(invocation);
                    }
                    verdict.operands = self.list_sent_operands(invocation);
                    if self.may_send_words(invocation) {
                        verdict.may_send = true;
                        verdict.secret_operands = self.list_secret_operands(invocation);
                        verdict.sent_names = self.list_sent_names(invocation);
                    }
                    let is_asked = verdict.verdict == Verdict::Ask;
                    judged.push(verdict);
                    if is_asked {
                        judged.extend(self.evaluate_registries(invocation));
                    }
                    judged.extend(self.evaluate_push(invocation, is_alone));
                    self.evaluate_environment(invocation, &node.label, judged);
                    if rule.is_none() {
                        judged.extend(self.evaluate_toolchain(invocation, &node.label));
                    }
                    judged.extend(self.evaluate_operands(invocation, &node.label, rule));
                    cover = rule;
                }
                AnalysisNodeKind::File(file) => {
                    let sources = || recursive_read_sources(analysis, node.parent);
                    self.evaluate_file_use(file, above.or(whole), &sources, judged);
                }
                AnalysisNodeKind::Host(host) => {
                    let cover = above.or(whole).map(|cover| cover.rule);
                    judged.push(self.evaluate_command_host(host, cover));
                }
                AnalysisNodeKind::Uncertainty(doubt) => {
                    let about = node.parent.and_then(|parent| analysis.nodes.get(parent));
                    let target = about.map(|node| node.label.as_str());
                    judged.push(self.evaluate_uncertainty(doubt, target, whole));
                }
            }
            for judged in judged.iter_mut().skip(first) {
                judged.node = Some(at);
            }
            covers.push(cover);
        }
        if let Some(text) = &analysis.unparsed {
            judged.extend(self.evaluate_unparsed_text(text));
        }
    }

    /// The hosts from which a package manager would download, for a question that is asked anyway: an
    /// approval of the command opens them. A host that is denied is left out, because the command may
    /// need no network; the proxy refuses it.
    fn evaluate_registries(&self, invocation: &CommandInvocation) -> Vec<EffectAssessment> {
        let Some(download) = package_managers::find_download(&invocation.argv) else {
            return Vec::new();
        };
        let by_variables = invocation.registries.iter();
        let by_variables = by_variables.filter(|(manager, _)| *manager == download.manager);
        let named = download.registries.iter().chain(by_variables.map(|(_, address)| address));
        let named = named.filter_map(|text| HostName::parse(text).ok());
        let named: BTreeSet<HostName> = named.collect();
        let mut hosts: BTreeSet<HostName> = named.clone();
        if let WorkingFolders::OneOf(folders) = &invocation.folders {
            let machine = self.request.machine;
            let found =
                folders.iter().flat_map(|folder| machine.registry_hosts(download.manager, folder));
            hosts.extend(found);
        }
        let judged = hosts.iter().map(|host| EffectAssessment {
            origin: match named.contains(host) {
                true => EffectOrigin::Call,
                false => EffectOrigin::Configuration,
            },
            // The command itself may change anything.
            changes: ChangeScope::OtherEffects,
            ..self.evaluate_host(&host.to_string(), None)
        });
        judged.filter(|judged| judged.verdict != Verdict::Deny).collect()
    }

    /// The repository outside the workspace to which git pushes. Commands cannot change it, so that a
    /// rule for the command alone is not enough. It is opened for all commands of the call, so that a
    /// push that is not alone needs a rule for the repository.
    fn evaluate_push(
        &self,
        invocation: &CommandInvocation,
        is_alone: bool,
    ) -> Vec<EffectAssessment> {
        let (Some(remote), WorkingFolders::OneOf(folders)) =
            (find_push_remote(&invocation.argv), &invocation.folders)
        else {
            return Vec::new();
        };
        let found = folders.iter().filter_map(|folder| {
            let path = self.request.machine.push_repository(folder, remote)?;
            let is_inside = self.engine.places.roots.iter().any(|root| path.starts_with(root));
            (!is_inside).then_some(path)
        });
        let judge = |path: PathBuf| {
            let views = PathViews { written: path.clone(), canonical: path.clone() };
            let find = |verdict: Verdict| {
                let rules = &self.engine.rules;
                rules.find_path_rule(verdict, self.request.tool, FileAccess::Write, &views)
            };
            let target = path.to_string_lossy().into_owned();
            let changes = ChangeScope::Repository(path.clone());
            let new = |verdict: Verdict, reason: &str| {
                EffectAssessment::new("write", target.clone(), verdict, reason.to_owned())
            };
            let rule = [Verdict::Deny, Verdict::Ask, Verdict::Allow].into_iter().find_map(find);
            let judged = match (self.closed_reason(FileAccess::Write, &views), rule) {
                (Some(what), _) => new(Verdict::Deny, &closed_message(what)),
                (None, Some(rule)) if is_alone || rule.verdict != Verdict::Ask => {
                    EffectAssessment::from_rule("write", target.clone(), rule.verdict, rule)
                }
                (None, None) if is_alone => new(
                    Verdict::Ask,
                    "git writes to this repository outside the workspace; to allow it always, add it to `sandbox.writable`",
                ),
                (None, _) => new(
                    Verdict::Deny,
                    "git writes to this repository outside the workspace, and so could the other commands of the line; run `git push` as the only command of a call",
                ),
            };
            EffectAssessment { changes, ..judged.with_risk(RiskLevel::High) }
        };
        found.collect::<BTreeSet<PathBuf>>().into_iter().map(judge).collect()
    }

    /// The paths of the program of a command that names it by its path.
    fn list_program_paths(&self, invocation: &CommandInvocation) -> Vec<PathBuf> {
        let is_path = |program: &&ShellArg| program.as_known().is_some_and(|it| it.contains('/'));
        let Some(program) = invocation.argv.first().filter(is_path) else { return Vec::new() };
        let found = self.resolve_candidates(FileAccess::Read, program, &invocation.folders);
        found.files.into_iter().flat_map(|views| [views.written, views.canonical]).collect()
    }

    /// Whether an allow rule covers each command.
    pub(super) fn has_rule_for_each_command(&self, analysis: &ScriptAnalysis) -> bool {
        let mut commands = analysis.nodes.iter().filter_map(|node| match &node.kind {
            AnalysisNodeKind::Command(invocation) => Some(invocation),
            _ => None,
        });
        let rules = &self.engine.rules;
        commands.all(|invocation| {
            let words = CommandWords::new(&invocation.argv);
            rules.find_command_rule(Verdict::Allow, &words).is_some()
        })
    }

    /// Evaluates a command, and returns the rule that covers its file accesses.
    fn evaluate_command(
        &self,
        invocation: &CommandInvocation,
        label: &str,
        whole: Option<CoveringRule<'a>>,
    ) -> (EffectAssessment, Option<CoveringRule<'a>>) {
        let CommandInvocation { argv, analysis, folders, .. } = invocation;
        let words = CommandWords::new(argv);
        let new = |verdict, reason: String| {
            EffectAssessment::new("exec", label.to_owned(), verdict, reason)
                .with_command_risk(invocation)
        };
        let by = |verdict, rule: &PolicyRule| {
            let judged = EffectAssessment::from_rule("exec", label.to_owned(), verdict, rule);
            judged
                .with_command_risk(invocation)
                .with_raised_limits(self.engine.rules.raised_limits(verdict, &words))
        };
        let ruled = self.find_strictest_rule(|rules: &'a RuleSet, verdict| {
            rules.find_command_rule(verdict, &words)
        });
        if let Some((verdict @ (Verdict::Deny | Verdict::Ask), rule)) = ruled {
            return (by(verdict, rule), None);
        }
        let exact = self.engine.rules.find_exact_command_rule(&words);
        let exact = exact.map(|rule| CoveringRule { rule, exact: true, changes: true });
        let exact = exact.or(whole);
        if self.accepts_edits(invocation) {
            let reason = format!("mode `{}` accepts edits", self.mode());
            return (new(Verdict::Allow, reason).with_risk(RiskLevel::Medium), None);
        }
        if self.removes_private_temp(invocation) {
            let reason = "it removes temporary files of the session".to_owned();
            let judged = EffectAssessment::new("exec", label.to_owned(), Verdict::Allow, reason);
            let changes = ChangeScope::OtherEffects;
            return (EffectAssessment { changes, ..judged.with_risk(RiskLevel::Medium) }, None);
        }
        if let Some(why) = analysis.critical {
            let users_own =
                exact.filter(|cover| cover.rule.source.owner == RuleOwner::User && !is_rm(argv));
            return match users_own {
                Some(cover) => (by(Verdict::Allow, cover.rule), Some(cover)),
                None => (new(Verdict::Ask, format!("it {why}; zero asks every time")), None),
            };
        }
        let changes = !reads_by_default(argv, analysis.class);
        let allowed = ruled.map(|(_, rule)| CoveringRule { rule, exact: false, changes });
        if let Some(cover) = exact.or(allowed) {
            let stays = analysis.class != CommandClass::Opaque
                || cover.exact
                || self.runs_inside_workspace(folders);
            if stays {
                return (by(Verdict::Allow, cover.rule), Some(cover));
            }
            let reason = format!(
                "rule `{}` allows it in the workspace, but it would run {}",
                cover.rule.text,
                describe_folders(folders)
            );
            return (new(Verdict::Ask, reason), None);
        }
        let judged = match analysis.class {
            CommandClass::ReadOnly => new(Verdict::Allow, "it only reads".to_owned()),
            CommandClass::Files => {
                new(Verdict::Allow, "depends on the files and hosts it uses".to_owned())
            }
            CommandClass::Wrapper => {
                new(Verdict::Allow, "depends on the command it runs".to_owned())
            }
            CommandClass::Opaque
                if self.mode() == PermissionMode::Auto && self.runs_inside_workspace(folders) =>
            {
                new(Verdict::Allow, "mode `auto` allows commands in the sandbox".to_owned())
            }
            CommandClass::Opaque => EffectAssessment {
                grant: self.build_command_grant(invocation),
                ..new(Verdict::Ask, "no rule allows it".to_owned())
            },
        };
        (judged, None)
    }

    /// Whether this is an `rm` of nothing but files in the private temporary folder.
    fn removes_private_temp(&self, invocation: &CommandInvocation) -> bool {
        let CommandInvocation { argv, analysis, folders, .. } = invocation;
        let is_private = |touch: &FileTouch| {
            let found = self.resolve_candidates(touch.access, &touch.path, folders);
            let is_private = |path: &Path| self.request.machine.is_private_temp(path, touch.access);
            matches!(found.certain, CandidateCompleteness::Complete)
                && found.files.iter().all(|views| is_private(&views.canonical))
        };
        // Not a program of the same name elsewhere, such as one that the session has just written.
        let is_system_rm = argv
            .first()
            .and_then(ShellArg::as_known)
            .is_some_and(|program| is_rm(argv) && is_in_system_folder(program));
        is_system_rm
            && analysis.class != CommandClass::Opaque
            && argv.iter().all(|arg| arg.as_known().is_some())
            && analysis.caution.is_none()
            && analysis.folder.is_none()
            && !invocation.more_arguments
            && !analysis.touches.is_empty()
            && analysis.touches.iter().all(is_private)
    }

    /// Whether the mode covers a command that overwrites single files which its arguments name. The
    /// verdicts on these files are added to it.
    fn accepts_edits(&self, invocation: &CommandInvocation) -> bool {
        let CommandInvocation { analysis, folders, .. } = invocation;
        let is_single = |path: &Path| {
            // A folder has entries; a file, or one that was removed, has none.
            self.request.machine.find_file(path, &|_: &Path| true) == FileSearchOutcome::NotFound
        };
        analysis.edits_named_files
            && analysis.caution.is_none()
            && analysis.folder.is_none()
            && !invocation.more_arguments
            && matches!(self.mode(), PermissionMode::AcceptEdits | PermissionMode::Auto)
            && self.runs_inside_workspace(folders)
            && analysis.touches.iter().all(|touch| {
                let found = self.resolve_candidates(touch.access, &touch.path, folders);
                matches!(found.certain, CandidateCompleteness::Complete)
                    && found.files.iter().all(|views| is_single(&views.canonical))
            })
    }

    /// A question about a read-only use of `cargo` and `rustc`, if the workspace names the folder of
    /// the program that runs. Rustup may also download the toolchain that a file names, but a
    /// command that was judged to read has no network.
    fn evaluate_toolchain(
        &self,
        invocation: &CommandInvocation,
        label: &str,
    ) -> Option<EffectAssessment> {
        let program = invocation.argv.first().and_then(ShellArg::as_known)?;
        let is_rust = matches!(program.rsplit('/').next(), Some("cargo" | "rustc"));
        if !is_rust || invocation.analysis.class == CommandClass::Opaque {
            return None;
        }
        let reason = match &invocation.folders {
            WorkingFolders::Unknown => {
                "the toolchain that runs is only known at run time".to_owned()
            }
            WorkingFolders::OneOf(folders) => {
                let canonical = |folder: &PathBuf| {
                    self.resolve_working_folder(folder).unwrap_or_else(|| folder.clone())
                };
                let mut folders = folders.iter().map(canonical);
                let file = folders.find_map(|folder| self.find_toolchain_file(&folder))?;
                format!("`{}` names the program that runs", file.display())
            }
        };
        let verdict = EffectAssessment::new("exec", label.to_owned(), Verdict::Ask, reason);
        Some(EffectAssessment {
            changes: ChangeScope::Unknown,
            ..verdict.with_risk(RiskLevel::High)
        })
    }

    /// A file of the workspace that tells rustup to run a program in `folder` that the user did not
    /// install. A folder that cannot be looked at counts as one with such a file.
    fn find_toolchain_file(&self, folder: &Path) -> Option<PathBuf> {
        const NAMES: [&str; 2] = ["rust-toolchain", "rust-toolchain.toml"];
        folder.ancestors().take_while(|folder| self.is_inside(folder)).find_map(|folder| {
            let Some(written) = folder.to_str() else { return Some(folder.to_owned()) };
            NAMES.iter().find_map(|name| {
                let pattern = format!("{}/{name}", escape_glob(written));
                match self.request.machine.expand_glob(&pattern, 1) {
                    Some(found) => found
                        .into_iter()
                        .find(|file| self.request.machine.names_toolchain_folder(file)),
                    None => Some(folder.join(name)),
                }
            })
        })
    }

    /// Evaluates the environment of a command: helpers configured in a repository, and programs of
    /// the workspace that have the name of a known one.
    fn evaluate_environment(
        &self,
        invocation: &CommandInvocation,
        label: &str,
        judged: &mut Vec<EffectAssessment>,
    ) {
        let Some(program) = invocation.argv.first().and_then(ShellArg::as_known) else { return };
        let known = invocation.analysis.class != CommandClass::Opaque;
        let mut doubt = |reason: String| {
            let verdict = EffectAssessment::new("exec", label.to_owned(), Verdict::Ask, reason);
            judged.push(EffectAssessment {
                changes: ChangeScope::Unknown,
                ..verdict.with_risk(RiskLevel::High)
            });
        };
        let git = program.rsplit('/').next() == Some("git");
        let WorkingFolders::OneOf(folders) = &invocation.folders else {
            if git {
                doubt("the repository that git uses is only known at run time".to_owned());
            }
            return;
        };
        for folder in folders {
            // Git follows symlinks.
            let folder = &self.resolve_working_folder(folder).unwrap_or_else(|| folder.clone());
            if git {
                let helpers = self.request.machine.git_helpers(folder);
                let runs = helpers.iter().find(|name| {
                    !known || !name.starts_with("hooks/") || *name == "hooks/post-index-change"
                });
                if let Some(helper) = runs {
                    doubt(format!("git would run the program in the repository's `{helper}`"));
                } else if !self.is_inside(folder) {
                    doubt(format!(
                        "the repository in `{}` is outside the workspace",
                        folder.display()
                    ));
                }
            }
            if known
                && !program.contains('/')
                && let Some(found) = self.request.machine.find_program(program, folder)
                && self.is_inside(&found)
            {
                doubt(format!("`{program}` is a file in the workspace: `{}`", found.display()));
            }
        }
    }

    /// The folder that a command enters. A command that may write has its own temporary folder, in which
    /// a link of the machine does not exist.
    pub(super) fn resolve_working_folder(&self, folder: &Path) -> Option<PathBuf> {
        self.request.machine.command_path(folder, FileAccess::Write)
    }

    fn runs_inside_workspace(&self, folders: &WorkingFolders) -> bool {
        match folders {
            WorkingFolders::OneOf(folders) => folders.iter().all(|folder| {
                let canonical = self.resolve_working_folder(folder);
                canonical.is_some_and(|folder| self.is_inside(&folder))
            }),
            WorkingFolders::Unknown => false,
        }
    }

    fn evaluate_uncertainty(
        &self,
        doubt: &Uncertainty,
        target: Option<&str>,
        whole: Option<CoveringRule<'a>>,
    ) -> EffectAssessment {
        let (verdict, reason) = match (doubt.kind, whole) {
            (UncertaintyKind::Altered, Some(cover)) => {
                let target = target.unwrap_or(&doubt.reason).to_owned();
                let judged =
                    EffectAssessment::from_rule("exec", target, Verdict::Allow, cover.rule);
                return EffectAssessment {
                    changes: ChangeScope::Unknown,
                    ..judged.with_risk(RiskLevel::High)
                };
            }
            (UncertaintyKind::Unbounded, _) => {
                (Verdict::Deny, format!("{}; it cannot be allowed", doubt.reason))
            }
            _ => (Verdict::Ask, doubt.reason.clone()),
        };
        let target = target.unwrap_or(&reason).to_owned();
        let judged = EffectAssessment::new("exec", target, verdict, reason);
        EffectAssessment { changes: ChangeScope::Unknown, ..judged.with_risk(RiskLevel::High) }
    }

    /// An unparsable text can still run in part, so anything in it that looks like a denied command
    /// is denied.
    fn evaluate_unparsed_text(&self, text: &str) -> Option<EffectAssessment> {
        let words: Vec<ShellArg> = text
            .split(|char: char| char.is_whitespace() || ";|&()<>`\"'{}$=".contains(char))
            .filter(|word| !word.is_empty())
            .map(|word| ShellArg::Known(word.replace('\\', "")))
            .collect();
        let rules = &self.engine.rules;
        for at in 0..words.len() {
            let candidate = &words[at..words.len().min(at + LOOSE_WORDS_MAX)];
            let rule = rules
                .find_command_rule(Verdict::Deny, &CommandWords::new(candidate))
                .or_else(|| self.find_denied_path(words.get(at)?.as_known()?));
            if let Some(rule) = rule {
                let target =
                    candidate.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
                let judged = EffectAssessment::from_rule("exec", target, Verdict::Deny, rule);
                return Some(judged.with_risk(RiskLevel::High));
            }
        }
        None
    }

    fn find_denied_path(&self, word: &str) -> Option<&'a PolicyRule> {
        let written = crate::path::normalize_lexically(&self.folder().join(word));
        let canonical = self.request.machine.canonicalize(&written)?;
        let views = PathViews { written, canonical };
        self.engine.rules.find_path_rule(Verdict::Deny, self.request.tool, FileAccess::Read, &views)
    }
}

impl EffectAssessment {
    /// Adds the limits that other matching rules raise.
    fn with_raised_limits(mut self, limits: CommandLimitChange) -> Self {
        self.limits.merge_larger(&limits);
        self
    }

    fn with_command_risk(self, invocation: &CommandInvocation) -> Self {
        let analysis = &invocation.analysis;
        let risk = match analysis.class {
            _ if analysis.critical.is_some() => RiskLevel::Critical,
            CommandClass::ReadOnly | CommandClass::Files | CommandClass::Wrapper => RiskLevel::Low,
            CommandClass::Opaque => RiskLevel::High,
        };
        let changes = match analysis.class {
            CommandClass::Opaque => ChangeScope::Unknown,
            _ if analysis.critical.is_some() => ChangeScope::OtherEffects,
            _ => ChangeScope::Nothing,
        };
        Self { changes, ..self.with_risk(risk) }
    }
}

/// Paths that a command reads recursively, and so may copy elsewhere.
fn recursive_read_sources(analysis: &ScriptAnalysis, command: Option<usize>) -> Vec<&FileUse> {
    let Some(command) = command else { return Vec::new() };
    let touched = analysis.nodes.iter().skip(command + 1);
    touched
        .take_while(|node| node.parent == Some(command))
        .filter_map(|node| match &node.kind {
            AnalysisNodeKind::File(file) => Some(file),
            _ => None,
        })
        .filter(|file| file.access == FileAccess::Read && file.recursive)
        .collect()
}

/// Whether a line runs one command and nothing else.
fn is_single_command(analysis: &ScriptAnalysis) -> bool {
    let is_command = |node: &&AnalysisNode| matches!(node.kind, AnalysisNodeKind::Command(_));
    analysis.unparsed.is_none() && analysis.nodes.iter().filter(is_command).count() == 1
}

/// Whether this is an `rm` in a critical form, which no rule can allow.
fn is_rm(argv: &[ShellArg]) -> bool {
    let program = argv.first().and_then(ShellArg::as_known).unwrap_or_default();
    program.rsplit('/').next() == Some("rm")
}

fn describe_folders(folders: &WorkingFolders) -> String {
    match folders {
        WorkingFolders::OneOf(folders) => {
            let shown: Vec<String> =
                folders.iter().map(|path| path.display().to_string()).collect();
            format!("in `{}`", shown.join("` or `"))
        }
        WorkingFolders::Unknown => "in an unknown folder".to_owned(),
    }
}
