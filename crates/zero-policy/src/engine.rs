//! The policy engine: effects in, a decision with its reasons out.
//!
//! For each effect of a call the order is deny > ask > allow > mode and risk; the strictest verdict
//! on any effect is the verdict on the call. Rules, mode and folders are fixed at construction. A
//! request has the effects, and facts about the machine come from [`Machine`].

mod commands;
mod connect_request;
mod expanded_words;
mod files;
mod grant_offers;
mod hosts;
mod operands;
mod protected_links;
mod recursive_access;
mod secret_file_scope;
mod sent_files;
mod sent_names;
mod tool_resources;
mod verdict_tree;

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use zero_core::event::EffectOrigin;
use zero_core::{
    CLIENT_TERMINAL, CLIENT_TOOL_SOURCE, CommandExecution, CommandLimitChange, CommandLine, Effect,
    RiskLevel, TargetPath, ToolArguments, ToolDefinitionState, ToolName,
};

pub use self::connect_request::{
    ConnectDeniedError, ConnectPermission, ConnectRequest, UserApproval,
};
use self::recursive_access::ContentsFinding;
pub use self::verdict_tree::{VerdictNode, VerdictTree};
use crate::command_access::{ChangeScope, CommandAccess, SentFile, SentName};
use crate::decision::{EffectDecision, GrantScope, PolicyDecision, Verdict};
use crate::host::HostName;
use crate::host::HostPattern;
use crate::machine::Machine;
use crate::permission_mode::PermissionMode;
use crate::program::resolve_setting_changes;
use crate::program::{FileAccess, GitSettingChange};
use crate::protected_paths::{self, ProtectedPaths};
use crate::rule::{PolicyRule, RuleOwner, RuleSource};
use crate::rule_set::{PathViews, PatternRoots, RuleSet};
use crate::secret_file_set::SecretFileSet;
use crate::shell::analysis::ScriptAnalysis;
use crate::shell::{ShellArg, VariableEffect};

/// The tool whose rules cover file changes.
const EDIT_TOOL: &str = "Edit";
/// The tool that runs commands.
const COMMAND_TOOL: &str = "Bash";
/// How deep beneath a protected path deny and ask rules are searched for.
const INNER_DEPTH_MAX: usize = 4;
/// A file name that no rule contains; it represents any file of a folder.
const ANY_NAME: &str = "\u{1}";

/// Rules, mode and folders: everything that is the same for all calls.
#[derive(Debug)]
pub struct PolicyEngine {
    rules: RuleSet,
    mode: PermissionMode,
    places: PatternRoots,
    protected: ProtectedPaths,
    network: CommandHosts,
    masked_files: SecretFileSet,
    is_confined: bool,
    /// Whether any rule lets commands change a protected path. Cached, because it is rare, and each
    /// command checks dozens of paths.
    opens_protected: bool,
}

/// Configuration of an engine.
#[derive(Clone, Debug, Default)]
pub struct PolicyEngineConfig {
    /// The rules of all settings files.
    pub rules: Vec<PolicyRule>,
    /// The mode of calls whose session has no mode of its own.
    pub mode: PermissionMode,
    /// Canonical paths of the workspace folders; relative paths start in the first.
    pub roots: Vec<PathBuf>,
    /// The folder for `~`.
    pub home: Option<PathBuf>,
    /// Folder of the user's zero settings.
    pub config_dir: Option<PathBuf>,
    /// Folder of zero's own state.
    pub state_dir: Option<PathBuf>,
    /// Files with zero's secrets, by all of their names: no rule opens them.
    pub secret_files: Vec<PathBuf>,
    /// Hosts that commands can reach in addition to those that rules allow.
    pub network: CommandHosts,
    /// The files of the workspace whose values are masked in results.
    pub masked_files: SecretFileSet,
    /// Whether tools may change no file outside the workspace, whatever rules and answers say. The
    /// sandbox confines commands in the same way.
    pub is_confined: bool,
}

/// Hosts that settings open to commands in addition to rules. None by default.
#[derive(Clone, Debug, Default)]
pub struct CommandHosts {
    /// Hosts listed for commands.
    pub listed: Vec<HostPattern>,
    /// Whether the loopback of commands is a network that only commands of the same session share.
    /// The sandbox must enforce this: otherwise services of this machine are reachable.
    pub own_loopback: bool,
}

/// A call to decide on.
#[derive(Clone, Copy)]
pub struct DecisionRequest<'a> {
    /// The tool by its canonical name.
    pub tool: &'a str,
    /// The tool's risk without its arguments.
    pub risk: RiskLevel,
    /// The effects of the call.
    pub effects: &'a [Effect],
    /// The arguments of a tool that is not zero's own; `None` if they are not known.
    pub arguments: Option<&'a ToolArguments>,
    /// The grants of the session.
    pub grants: &'a [GrantScope],
    /// The mode of its session, if it differs from the engine's.
    pub mode: Option<PermissionMode>,
    /// Facts about the machine.
    pub machine: &'a dyn Machine,
}

impl PolicyEngine {
    /// Creates an engine from its configuration.
    pub fn new(config: PolicyEngineConfig) -> Self {
        let PolicyEngineConfig {
            mut rules,
            mode,
            roots,
            home,
            config_dir,
            state_dir,
            secret_files,
            network,
            masked_files,
            is_confined,
        } = config;
        // A lookup returns the first rule that matches. Some effects need an exact rule of the
        // user, so those rules come first: the result must not depend on the order of the settings.
        rules.sort_by_key(|rule| !is_exact_person_allow(rule));
        let protected = ProtectedPaths::new(
            &roots,
            home.as_deref(),
            config_dir.as_deref(),
            state_dir.as_deref(),
        )
        .with_secret_files(&secret_files);
        let places = PatternRoots { roots, home };
        let opens_protected = rules.iter().any(opens_protected);
        let rules = RuleSet::new(rules, places.clone());
        Self { rules, mode, places, protected, network, masked_files, is_confined, opens_protected }
    }

    /// The same engine with allow rules of `owner` besides its own; `None` if one is not a rule.
    pub fn with_allow_rules(&self, rules: &[GrantScope], owner: RuleOwner) -> Option<Self> {
        let source = RuleSource { name: "settings".to_owned(), line: None, owner };
        let more = rules
            .iter()
            .map(|grant| PolicyRule::parse(&grant.rule, Verdict::Allow, source.clone()).ok());
        let more = more.collect::<Option<Vec<_>>>()?;
        let mut rules: Vec<PolicyRule> = self.rules.iter().cloned().chain(more).collect();
        rules.sort_by_key(|rule| !is_exact_person_allow(rule));
        Some(Self {
            mode: self.mode,
            places: self.places.clone(),
            protected: self.protected.clone(),
            network: self.network.clone(),
            masked_files: self.masked_files.clone(),
            is_confined: self.is_confined,
            opens_protected: rules.iter().any(opens_protected),
            rules: RuleSet::new(rules, self.places.clone()),
        })
    }

    /// The rules of the engine.
    pub fn rules(&self) -> &RuleSet {
        &self.rules
    }

    /// The mode of calls whose session has no mode of its own.
    pub fn mode(&self) -> PermissionMode {
        self.mode
    }

    /// Decides on a call.
    pub fn decide(&self, request: DecisionRequest<'_>) -> PolicyDecision {
        let machine = request.machine;
        add_private_paths(self.evaluate(request).into_decision(), machine)
    }

    /// Decides on a call and returns each command line as a tree with its verdicts.
    pub fn explain(&self, request: DecisionRequest<'_>) -> (PolicyDecision, Vec<VerdictTree>) {
        let machine = request.machine;
        let judgement = self.evaluate(request);
        let trees = judgement.build_trees();
        (add_private_paths(judgement.into_decision(), machine), trees)
    }

    /// Whether a file found by a search may be read without a question of its own: no rule denies
    /// it or asks about it, it is not a secret that no rule opens, and it is not one of zero's own
    /// files.
    pub fn may_read(&self, tool: &str, written: &Path, canonical: &Path) -> bool {
        // Called for each file of a tree; for nearly all of them both paths are equal.
        let written = match written == canonical {
            true => canonical.to_owned(),
            false => crate::path::normalize_lexically(&self.places.primary_root().join(written)),
        };
        let views = PathViews { written, canonical: canonical.to_owned() };
        let allowed =
            || self.rules.find_path_rule(Verdict::Allow, tool, FileAccess::Read, &views).is_some();
        let names = [&views.canonical, &views.written];
        let is_closed = names.into_iter().any(|path| {
            protected_paths::closed_reason(path, &self.protected).is_some()
                || protected_paths::is_process_memory(path)
        });
        !is_closed
            && !self.rules.is_path_guarded(tool, FileAccess::Read, &views)
            && (protected_paths::sensitive_reason(&views.canonical, &self.protected).is_none()
                || allowed())
    }

    /// Whether a rule or one of these grants allows commands to read a file, given by its canonical
    /// path.
    pub fn allows_read(&self, canonical: &Path, grants: &[GrantScope]) -> bool {
        let views = PathViews { written: canonical.to_owned(), canonical: canonical.to_owned() };
        let rule = self.rules.find_strictest_path_rule(COMMAND_TOOL, FileAccess::Read, &views);
        match rule.map(|rule| rule.verdict) {
            Some(verdict) => verdict == Verdict::Allow,
            None => self
                .build_file_grant(FileAccess::Read, &views)
                .is_some_and(|grant| grants.contains(&grant)),
        }
    }

    /// Whether some file of the workspace may not be read without a question of its own.
    pub fn filters_reads(&self) -> bool {
        self.has_read_guards() || self.places.roots.iter().any(|root| self.contains_own_files(root))
    }

    /// Whether a folder, given by its canonical path, contains files of zero's own.
    pub fn contains_own_files(&self, folder: &Path) -> bool {
        protected_paths::overlaps_closed(folder, &self.protected)
    }

    /// The same without zero's own files: rules guard files, or the user's secrets are in the
    /// workspace.
    pub fn has_read_guards(&self) -> bool {
        let holds_home = |root: &PathBuf| self.places.holds_home(root);
        self.rules.guards_paths() || self.places.roots.iter().any(holds_home)
    }

    /// Whether commands may change a protected path, because a rule of the user allows it by its
    /// name and no rule denies it or asks about it. No rule opens zero's own settings and state or
    /// the contents of `.git`.
    pub fn may_change(&self, canonical: &Path) -> bool {
        if !self.opens_protected || protected_paths::is_own_file(canonical, &self.protected) {
            return false;
        }
        let Some(text) = canonical.to_str().filter(|text| !text.contains(['*', '?', '[', '\\']))
        else {
            return false;
        };
        // A rule for `.vscode/**` covers the contents, a rule for `.npmrc` the file itself.
        let allowed = |path: PathBuf| {
            let views = PathViews { written: path.clone(), canonical: path };
            self.rules
                .find_strictest_path_rule(EDIT_TOOL, FileAccess::Write, &views)
                .is_some_and(opens_protected)
        };
        // The path and its contents, down to the depth at which settings occur.
        let guarded = || {
            let depths = 0..=INNER_DEPTH_MAX;
            depths.map(|depth| format!("{text}{}", "/*".repeat(depth))).any(|pattern| {
                [Verdict::Deny, Verdict::Ask].into_iter().any(|verdict| {
                    self.rules.find_rule_for_glob(verdict, FileAccess::Write, &pattern).is_some()
                })
            })
        };
        (allowed(canonical.to_owned()) || allowed(canonical.join(ANY_NAME))) && !guarded()
    }

    /// Whether a rule denies commands to change a file, given as found and by its canonical path.
    pub fn denies_change(&self, written: &Path, canonical: &Path) -> bool {
        let views = PathViews { written: written.to_owned(), canonical: canonical.to_owned() };
        [FileAccess::Write, FileAccess::Delete].into_iter().any(|access| {
            self.rules.find_path_rule(Verdict::Deny, COMMAND_TOOL, access, &views).is_some()
        })
    }

    /// Number of rules that deny changing files.
    pub fn count_change_guards(&self) -> usize {
        let denies = |rule: &&PolicyRule| rule.verdict == Verdict::Deny && rule.restricts_changes();
        self.rules.iter().filter(denies).count()
    }

    /// Folders outside the workspace with files that a deny rule protects from reading: the part of
    /// each rule's path before its first wildcard, absolute or below the home folder.
    pub fn denied_read_roots(&self) -> Vec<PathBuf> {
        let deny = self.rules.iter().filter(|rule| rule.verdict == Verdict::Deny);
        deny.filter_map(|rule| rule.path_start(self.places.home.as_deref())).collect()
    }

    /// The files and folders outside the workspace that rules allow to read, with all that is in
    /// them: those of rules without wildcards, such as `Read(~/notes/**)`, and `/` for `Read`.
    pub fn allowed_read_roots(&self) -> Vec<PathBuf> {
        let allow = self.rules.iter().filter(|rule| rule.verdict == Verdict::Allow);
        allow.filter_map(|rule| rule.allowed_read_root(self.places.home.as_deref())).collect()
    }

    /// Number of rules that deny reading files or ask about it.
    pub fn count_read_guards(&self) -> usize {
        self.rules
            .iter()
            .filter(|rule| rule.verdict != Verdict::Allow && rule.restricts_reads())
            .count()
    }

    fn evaluate(&self, request: DecisionRequest<'_>) -> CallAssessment {
        let case = RequestEvaluator { engine: self, request, contents: RefCell::default() };
        let mut judged = Vec::new();
        let mut analyses = Vec::new();
        for effect in request.effects {
            case.evaluate_effect(effect, &mut judged, &mut analyses);
        }
        case.evaluate_tool(&mut judged);
        // The tool's own risk is the minimum; for a command only its effects count.
        let base = if analyses.is_empty() { request.risk } else { RiskLevel::Low };
        judged.iter_mut().for_each(|judged| case.apply_grant(judged));
        if case.mode() == PermissionMode::Plan {
            judged.iter_mut().for_each(EffectAssessment::restrict_to_reads);
        }
        for judged in judged.iter_mut().filter(|judged| judged.kind == "read") {
            let secret = judged.reads.iter().filter(|path| self.masked_files.contains(path));
            judged.secret_reads = secret.cloned().collect();
        }
        let guards_secret_files =
            case.mode() != PermissionMode::Auto && !self.masked_files.is_empty();
        let expanded = expanded_words::list_expanded_words(request.effects, &analyses);
        CallAssessment { judged, analyses, expanded, base, guards_secret_files }
    }
}

/// Whether a rule of the user lets commands change a protected path that it names.
fn opens_protected(rule: &PolicyRule) -> bool {
    rule.verdict == Verdict::Allow && rule.source.owner == RuleOwner::User && rule.names_protected()
}

/// Whether a call runs a command in a terminal of the editor.
fn is_client_terminal(server: &str, tool: &str) -> bool {
    server == CLIENT_TOOL_SOURCE && tool == CLIENT_TERMINAL
}

/// Whether it is an exact allow rule of the user, the strongest permission there is.
fn is_exact_person_allow(rule: &PolicyRule) -> bool {
    rule.verdict == Verdict::Allow && rule.is_exact() && rule.source.owner == RuleOwner::User
}

/// The evaluation of one request.
struct RequestEvaluator<'a> {
    engine: &'a PolicyEngine,
    request: DecisionRequest<'a>,
    /// What was found in folders: a line may name the same one many times.
    contents: RefCell<HashMap<(FileAccess, PathViews), ContentsFinding<'a>>>,
}

impl<'a> RequestEvaluator<'a> {
    fn evaluate_effect(
        &self,
        effect: &Effect,
        judged: &mut Vec<EffectAssessment>,
        analyses: &mut Vec<ScriptAnalysis>,
    ) {
        match effect {
            Effect::Read(path) => self.evaluate_tool_file(FileAccess::Read, path, judged),
            Effect::Write(path) => self.evaluate_tool_file(FileAccess::Write, path, judged),
            Effect::Delete(path) => self.evaluate_tool_file(FileAccess::Delete, path, judged),
            Effect::Exec(execution) => self.evaluate_execution(execution, judged, analyses),
            Effect::Net(host) => judged.push(self.evaluate_host(host, None)),
            Effect::Mcp { server, tool, definition } => {
                judged.push(self.evaluate_mcp_call(server, tool, *definition));
            }
            Effect::Note(note) => judged.push(self.evaluate_note(note)),
            Effect::Endpoint(host) => judged.push(self.evaluate_endpoint(host)),
            Effect::Ask | Effect::State(_) => {
                let reason = "it stays within zero".to_owned();
                judged.push(EffectAssessment::new(
                    effect.kind(),
                    effect.target(),
                    Verdict::Allow,
                    reason,
                ));
            }
        }
    }

    fn evaluate_tool_file(
        &self,
        access: FileAccess,
        path: &TargetPath,
        judged: &mut Vec<EffectAssessment>,
    ) {
        let folder = self.folder();
        let written =
            crate::path::normalize_lexically(&folder.join(self.expand_tilde(path.written())));
        let views = PathViews { written, canonical: path.canonical().to_owned() };
        judged.push(self.evaluate_named_file(access, &views, path.zone()));
    }

    fn evaluate_execution(
        &self,
        execution: &CommandExecution,
        judged: &mut Vec<EffectAssessment>,
        analyses: &mut Vec<ScriptAnalysis>,
    ) {
        let folder = execution.folder.as_ref().map_or(self.folder(), TargetPath::canonical);
        let home = self.engine.places.home.as_deref();
        let mut analysis = match &execution.command {
            CommandLine::Shell(text) => self.analyze_line(text, folder),
            CommandLine::Program(argv) => crate::shell::analyse_program(argv, folder, home),
        };
        let line = match &execution.command {
            CommandLine::Shell(text) => Some(text.trim()),
            CommandLine::Program(_) => None,
        };
        let tree = analyses.len();
        let first = judged.len();
        if self.evaluate_variables(execution, judged) {
            analysis.distrust_environment();
        }
        self.evaluate_analysis(&analysis, line, judged);
        if execution.variables.is_empty() {
            let changes = line.map(|line| analysis.find_git_settings(line)).unwrap_or_default();
            let machine = self.request.machine;
            analysis.git_settings = resolve_setting_changes(changes, machine, folder);
            judged.extend(self.describe_git_settings(&analysis.git_settings, folder));
        }
        if execution.write_access {
            let reason = "it asks for write access to the workspace";
            judged.push(self.evaluate_access_request(
                execution,
                &analysis,
                reason,
                ChangeScope::Unknown,
            ));
        }
        if execution.network_access {
            let reason = "it asks for the network of commands";
            judged.push(self.evaluate_access_request(
                execution,
                &analysis,
                reason,
                ChangeScope::UnknownHosts,
            ));
        }
        if execution.outside_sandbox {
            let reason = "it asks to run outside the sandbox, where nothing confines it; no rule or mode can allow that".to_owned();
            judged.push(EffectAssessment {
                changes: ChangeScope::Unknown,
                ..EffectAssessment::new("exec", execution.to_string(), Verdict::Ask, reason)
                    .with_risk(RiskLevel::Critical)
            });
        }
        for judged in judged.iter_mut().skip(first) {
            judged.tree = Some(tree);
        }
        analyses.push(analysis);
    }

    /// Questions that show each change of a setting of git, with its present value.
    fn describe_git_settings(
        &self,
        changes: &[GitSettingChange],
        folder: &Path,
    ) -> Vec<EffectAssessment> {
        let describe = |change: &GitSettingChange| {
            let now = match self.request.machine.git_setting(folder, &change.name).as_deref() {
                Some([]) => "not set now".to_owned(),
                Some([value]) => format!("now `{value}`"),
                // The command may fail, and no answer makes zero choose among the values.
                Some(values) => format!(
                    "now {} values, and zero changes no setting with several: run the command yourself",
                    values.len()
                ),
                None => "its value is not known".to_owned(),
            };
            // The same file as that of the change itself, so that both are one row of a question.
            let folder = self.request.machine.canonicalize(folder);
            let target = folder.map_or_else(
                || ".git/config".to_owned(),
                |folder| folder.join(".git/config").display().to_string(),
            );
            EffectAssessment {
                changes: ChangeScope::OtherEffects,
                ..EffectAssessment::new(
                    "write",
                    target,
                    Verdict::Ask,
                    format!("it {change} ({now})"),
                )
                .with_risk(RiskLevel::High)
            }
        };
        changes.iter().map(describe).collect()
    }

    /// Analyzes a command line. One that only reads cannot remove the folders that it enters, so
    /// `cd` into an existing one does not fail: `cd a; ls; cd ..` comes back.
    fn analyze_line(&self, text: &str, folder: &Path) -> ScriptAnalysis {
        let home = self.engine.places.home.as_deref();
        let temp = self.request.machine.private_temp();
        let analysis = crate::shell::analyze_command_line(text, folder, home, temp);
        if !analysis.only_reads() || !analysis.has_several_folders() {
            return analysis;
        }
        let is_folder = |folder: &Path| {
            let canonical = self.request.machine.command_path(folder, FileAccess::Read);
            canonical.is_some_and(|canonical| self.request.machine.is_folder(&canonical))
        };
        crate::shell::analyze_reading_script(text, folder, home, temp, &is_folder)
    }

    /// Evaluates the request of a command for more access than its analysis says: as that of a
    /// program that is not known.
    fn evaluate_access_request(
        &self,
        execution: &CommandExecution,
        analysis: &ScriptAnalysis,
        request: &str,
        changes: ChangeScope,
    ) -> EffectAssessment {
        let (verdict, reason) = if self.mode() == PermissionMode::Auto {
            (Verdict::Allow, "mode `auto` allows commands in the sandbox")
        } else if self.has_rule_for_each_command(analysis) {
            (Verdict::Allow, "rules allow each of its commands")
        } else {
            (Verdict::Ask, request)
        };
        EffectAssessment {
            changes,
            ..EffectAssessment::new("exec", execution.to_string(), verdict, reason.to_owned())
                .with_risk(RiskLevel::High)
        }
    }

    /// Evaluates variables that are set for a command. Returns whether the effect of one is not
    /// known.
    fn evaluate_variables(
        &self,
        execution: &CommandExecution,
        judged: &mut Vec<EffectAssessment>,
    ) -> bool {
        let mut has_unknown = false;
        for (name, value) in &execution.variables {
            let effect = VariableEffect::new(name, Some(&ShellArg::known(value)));
            has_unknown |= effect == VariableEffect::Unknown;
            if effect == VariableEffect::Steers {
                let reason = format!("setting `{name}` can change what runs");
                let target = format!("{name}=…");
                judged.push(EffectAssessment {
                    changes: ChangeScope::Unknown,
                    ..EffectAssessment::new("exec", target, Verdict::Ask, reason)
                        .with_risk(RiskLevel::High)
                });
            }
        }
        has_unknown
    }

    /// Evaluates rules for the tool by its name, for tools whose effects no rule can name.
    fn evaluate_tool(&self, judged: &mut Vec<EffectAssessment>) {
        let tool = self.request.tool;
        let rules = &self.engine.rules;
        for verdict in [Verdict::Deny, Verdict::Ask] {
            if let Some(rule) = rules.find_tool_rule(verdict, tool, self.request.arguments) {
                judged.push(EffectAssessment::from_rule("tool", tool.to_owned(), verdict, rule));
                return;
            }
        }
        if !self.request.effects.is_empty() {
            return;
        }
        judged.push(self.evaluate_by_tool("tool", tool.to_owned()));
    }

    fn evaluate_mcp_call(
        &self,
        server: &str,
        tool: &str,
        definition: ToolDefinitionState,
    ) -> EffectAssessment {
        let target = format!("{server}/{tool}");
        // If the server's tool name is not a valid name here, rules may use either form.
        let name = self.request.tool.strip_prefix(server).and_then(|rest| rest.strip_prefix("__"));
        let arguments = self.request.arguments;
        let lookup = |rules: &'a RuleSet, verdict| {
            let find = |tool| rules.find_external_rule(verdict, server, tool, arguments);
            find(tool).or_else(|| find(name?))
        };
        let judged = match self.find_strictest_rule(lookup) {
            Some((verdict @ (Verdict::Deny | Verdict::Ask), rule)) => {
                EffectAssessment::from_rule("mcp", target, verdict, rule)
            }
            _ if is_client_terminal(server, tool) => {
                let reason = "the command runs in a terminal of the editor, outside the sandbox; no rule can allow that without a question".to_owned();
                EffectAssessment::new("mcp", target, Verdict::Ask, reason)
            }
            // The approval was for another definition of the tool.
            _ if definition == ToolDefinitionState::Changed => {
                let reason = format!(
                    "the definition of `{tool}` of MCP server `{server}` changed since you approved it; review it with `zero mcp approve {server}`"
                );
                EffectAssessment::new("mcp", target, Verdict::Ask, reason)
            }
            Some((verdict, rule)) => EffectAssessment::from_rule("mcp", target, verdict, rule),
            None => {
                let reason = match server {
                    CLIENT_TOOL_SOURCE => format!("no rule allows `{tool}` of the editor"),
                    _ => format!("no rule allows `{tool}` of MCP server `{server}`"),
                };
                // The server's tool name can be anything, such as `*`, which would mean more as a
                // rule.
                let name = ToolName::from_namespaced(server, tool).ok();
                let rule = name.map(|name| name.as_str().to_owned());
                let grant = rule.map(|rule| GrantScope { rule, folder: None, program: None });
                EffectAssessment {
                    grant,
                    ..EffectAssessment::new("mcp", target, Verdict::Ask, reason)
                }
            }
        };
        let risk = match is_client_terminal(server, tool) {
            true => RiskLevel::Critical,
            false => RiskLevel::High,
        };
        EffectAssessment { risk, changes: ChangeScope::Unknown, ..judged }
    }

    /// The strictest matching rule.
    fn find_strictest_rule(
        &self,
        lookup: impl Fn(&'a RuleSet, Verdict) -> Option<&'a PolicyRule>,
    ) -> Option<(Verdict, &'a PolicyRule)> {
        let strictest_first = Verdict::ALL.into_iter().rev();
        let rules = &self.engine.rules;
        strictest_first
            .filter_map(|verdict| lookup(rules, verdict).map(|rule| (verdict, rule)))
            .next()
    }

    /// Applies a grant of the session to a question.
    fn apply_grant(&self, judged: &mut EffectAssessment) {
        if judged.verdict != Verdict::Ask {
            return;
        }
        if let Some(grant) = judged.grant.take_if(|grant| self.is_granted(grant)) {
            judged.verdict = Verdict::Allow;
            judged.reason = format!("you allowed `{grant}` for this session");
            judged.rule = Some(grant.rule);
            judged.source = Some("grant".to_owned());
        }
    }

    /// The mode that applies if no rule decides.
    fn mode(&self) -> PermissionMode {
        self.request.mode.unwrap_or(self.engine.mode)
    }

    /// The folder that relative paths start in.
    fn folder(&self) -> &'a Path {
        self.engine.places.primary_root()
    }

    fn expand_tilde(&self, written: &str) -> PathBuf {
        let below = written.strip_prefix("~/").or((written == "~").then_some(""));
        match (below, &self.engine.places.home) {
            (Some(below), Some(home)) => home.join(below),
            _ => PathBuf::from(written),
        }
    }
}

/// One effect of a call with its verdict.
#[derive(Clone, Debug)]
struct EffectAssessment {
    kind: &'static str,
    target: String,
    verdict: Verdict,
    reason: String,
    rule: Option<String>,
    source: Option<String>,
    /// Limits that the deciding rule raises.
    limits: CommandLimitChange,
    risk: RiskLevel,
    /// The grant that would answer the question; `None` if no grant may.
    grant: Option<GrantScope>,
    /// What names the object.
    origin: EffectOrigin,
    /// What it changes.
    changes: ChangeScope,
    /// The paths of the file that it reads, as written and as resolved, if it is that of a command.
    reads: Vec<PathBuf>,
    /// The same of a file that only the commands of the session have.
    private_reads: Vec<PathBuf>,
    /// The paths that its arguments may name, if it may send the files there.
    operands: Vec<PathBuf>,
    /// The secret files among those that it reads.
    secret_reads: Vec<PathBuf>,
    /// Whether it is a command that may send files which its words name.
    may_send: bool,
    /// The secret files that its arguments name, if it can reach a host.
    secret_operands: Vec<PathBuf>,
    /// The names of secret files in its words, if it can reach a host.
    sent_names: BTreeSet<SentName>,
    /// Its command line and the node within it.
    tree: Option<usize>,
    node: Option<usize>,
}

impl EffectAssessment {
    fn new(kind: &'static str, target: String, verdict: Verdict, reason: String) -> Self {
        Self {
            kind,
            target,
            verdict,
            reason,
            rule: None,
            source: None,
            limits: CommandLimitChange::default(),
            risk: RiskLevel::Low,
            grant: None,
            origin: EffectOrigin::Call,
            changes: ChangeScope::Nothing,
            reads: Vec::new(),
            private_reads: Vec::new(),
            operands: Vec::new(),
            secret_reads: Vec::new(),
            may_send: false,
            secret_operands: Vec::new(),
            sent_names: BTreeSet::new(),
            tree: None,
            node: None,
        }
    }

    fn with_risk(self, risk: RiskLevel) -> Self {
        Self { risk, ..self }
    }

    /// Denies every change and execution, for plan mode.
    fn restrict_to_reads(&mut self) {
        if self.changes != ChangeScope::Nothing && self.verdict != Verdict::Deny {
            self.verdict = Verdict::Deny;
            self.reason = "plan mode does not allow changes or commands".to_owned();
            self.rule = None;
            self.source = Some("mode plan".to_owned());
        }
    }

    fn into_effect_decision(self) -> EffectDecision {
        EffectDecision {
            kind: self.kind,
            target: self.target,
            decision: self.verdict,
            rule: self.rule,
            source: self.source.or_else(|| Some("default".to_owned())),
            reason: self.reason,
            origin: self.origin,
        }
    }

    /// The reason, with the object of the effect unless that is the whole call.
    fn explain(&self) -> String {
        let about = |verb: &str| format!("{verb} `{}`: {}", self.target, self.reason);
        match self.kind {
            "read" => about("reading"),
            "write" => about("changing"),
            "delete" => about("removing"),
            // The line as a whole is uncertain: no command in it is known that could be named.
            "exec" if self.target == self.reason => self.reason.clone(),
            "exec" => about("running"),
            "net" => about("connecting to"),
            _ => self.reason.clone(),
        }
    }

    fn from_rule(kind: &'static str, target: String, verdict: Verdict, rule: &PolicyRule) -> Self {
        let reason = match verdict {
            Verdict::Allow => format!("rule `{}` allows it", rule.text),
            Verdict::Ask => format!("rule `{}` requires approval", rule.text),
            Verdict::Deny => format!("rule `{}` denies it", rule.text),
        };
        Self {
            rule: Some(rule.text.clone()),
            source: Some(rule.source.to_string()),
            limits: rule.limits.clone(),
            ..Self::new(kind, target, verdict, reason)
        }
    }
}

/// All assessments of a call.
struct CallAssessment {
    judged: Vec<EffectAssessment>,
    analyses: Vec<ScriptAnalysis>,
    /// The words of commands that the shell makes of others.
    expanded: BTreeSet<String>,
    /// The minimum risk, whatever the effects are.
    base: RiskLevel,
    /// Whether zero asks before a command reads a secret file of the workspace.
    guards_secret_files: bool,
}

/// Adds where files that commands may send are on the machine: those in their temporary folder have
/// other paths there.
fn add_private_paths(mut decision: PolicyDecision, machine: &dyn Machine) -> PolicyDecision {
    if let Some(access) = &mut decision.access {
        let to_host = |file: &SentFile| {
            let path = machine.host_path(&file.path)?;
            Some(SentFile { path, recursive: file.recursive })
        };
        let private: Vec<SentFile> = access.sent.iter().filter_map(to_host).collect();
        access.sent.extend(private);
    }
    decision
}

impl CallAssessment {
    /// The limits raised by the rules that decided about commands; the maximum of each.
    fn limits(&self) -> CommandLimitChange {
        let mut limits = CommandLimitChange::default();
        self.judged.iter().for_each(|judged| limits.merge_larger(&judged.limits));
        limits
    }

    /// The access that the commands of the call need, if it runs any.
    fn command_access(&self, verdict: Verdict) -> Option<CommandAccess> {
        if self.analyses.is_empty() {
            return None;
        }
        let unparsed = self.analyses.iter().any(|analysis| analysis.unparsed.is_some());
        let of_commands = self.judged.iter().filter(|judged| judged.tree.is_some());
        let changes = of_commands.map(|judged| &judged.changes);
        let changes = changes.chain(unparsed.then_some(&ChangeScope::Unknown));
        let reads = self.judged.iter().flat_map(|judged| judged.reads.iter().cloned()).collect();
        let git_settings = match self.analyses.as_slice() {
            [only] => only.git_settings.clone(),
            _ => Vec::new(),
        };
        let secret_files = self.secret_file_scope(verdict);
        let is_asked = |judged: &&EffectAssessment| judged.verdict == Verdict::Ask;
        let registries =
            self.judged.iter().filter(|judged| !judged.origin.is_call()).filter(is_asked);
        let registries = registries.filter_map(|judged| HostName::from_host(&judged.target).ok());
        let repositories = self.judged.iter().filter_map(|judged| match &judged.changes {
            ChangeScope::Repository(path) => Some(path.clone()),
            _ => None,
        });
        Some(CommandAccess {
            git_settings,
            repositories: repositories.collect(),
            secret_files,
            registries: registries.collect(),
            sent: self.sent_files(),
            sent_names: SentName::collect(
                self.judged.iter().flat_map(|it| it.sent_names.iter().cloned()),
            ),
            expanded: self.expanded.clone(),
            ..CommandAccess::new(reads, changes)
        })
    }

    fn into_decision(self) -> PolicyDecision {
        let risk = self.judged.iter().map(|judged| judged.risk).fold(self.base, RiskLevel::max);
        let verdict =
            self.judged.iter().map(|judged| judged.verdict).max().unwrap_or(Verdict::Allow);
        // The strictest assessment gives the reason; of several, one decided by a rule, or the first
        // with the highest risk.
        let strictest = || self.judged.iter().filter(|judged| judged.verdict == verdict);
        let decisive =
            strictest().find(|judged| judged.rule.is_some()).filter(|_| verdict != Verdict::Ask);
        // Of equal elements, the last is the maximum.
        let riskiest = || strictest().rev().max_by_key(|judged| judged.risk);
        let decisive = decisive.or_else(riskiest);
        let grants = if verdict == Verdict::Ask {
            grant_offers::collect_grants(&self.judged)
        } else {
            Vec::new()
        };
        PolicyDecision {
            verdict,
            reason: decisive
                .map_or_else(|| "it has no effects".to_owned(), |judged| judged.explain()),
            rule: decisive.and_then(|judged| judged.rule.clone()),
            source: decisive.and_then(|judged| judged.source.clone()),
            risk,
            grants,
            limits: self.limits(),
            access: self.command_access(verdict),
            effects: self.judged.into_iter().map(EffectAssessment::into_effect_decision).collect(),
        }
    }
}
