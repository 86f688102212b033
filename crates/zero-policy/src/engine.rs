//! The judge: effects in, a decision with its reasons out.
//!
//! deny > ask > allow > mode and risk, for each thing a call would do; the strictest verdict on any
//! of them is the verdict on the call. Rules, mode and places are given once; a request brings the
//! effects; what must be known of the machine comes through [`Machine`].

mod commands;
mod connect_request;
mod files;
mod grant_offers;
mod hosts;
mod operands;
mod recursive_access;
mod tool_resources;
mod verdict_tree;

use std::path::{Path, PathBuf};

use zero_core::{
    CommandExecution, CommandLimitChange, CommandLine, Effect, RiskLevel, TargetPath,
    ToolDefinitionState, ToolName,
};

pub use self::connect_request::{ConnectDeniedError, ConnectPermission, ConnectRequest};
pub use self::verdict_tree::{VerdictNode, VerdictTree};
use crate::decision::{EffectDecision, GrantScope, PolicyDecision, Verdict};
use crate::host::HostPattern;
use crate::machine::Machine;
use crate::permission_mode::PermissionMode;
use crate::program::FileAccess;
use crate::protected_paths::{self, ProtectedPaths};
use crate::rule::{PolicyRule, RuleOwner};
use crate::rule_set::{PathViews, PatternRoots, RuleSet};
use crate::shell::analysis::ScriptAnalysis;

/// The tool whose rules are about changing files.
const EDIT_TOOL: &str = "Edit";
/// How deep beneath a protected path rules are looked for that deny changing it.
const INNER_DEPTH_MAX: usize = 4;
/// A name that nobody writes a rule for: it stands for whatever may lie in a folder.
const ANY_NAME: &str = "\u{1}";

/// Rules, mode and places: all that stays the same from call to call.
#[derive(Debug)]
pub struct PolicyEngine {
    rules: RuleSet,
    mode: PermissionMode,
    places: PatternRoots,
    protected: ProtectedPaths,
    network: CommandHosts,
    /// Whether a rule lets commands change something that is protected. Hardly ever, and commands ask
    /// about dozens of paths.
    opens_protected: bool,
}

/// What an engine is made of.
#[derive(Clone, Debug, Default)]
pub struct PolicyEngineConfig {
    /// The rules of all settings.
    pub rules: Vec<PolicyRule>,
    /// The mode of calls whose session has none of its own.
    pub mode: PermissionMode,
    /// Canonical paths of the workspace's folders; relative paths start in the first.
    pub roots: Vec<PathBuf>,
    /// What `~` means.
    pub home: Option<PathBuf>,
    /// Folder of the person's settings for zero.
    pub config_dir: Option<PathBuf>,
    /// Folder of zero's own state.
    pub state_dir: Option<PathBuf>,
    /// Files in which zero keeps secrets, by each of their names: nothing opens them.
    pub secret_files: Vec<PathBuf>,
    /// Whom commands reach, beside what rules say.
    pub network: CommandHosts,
}

/// Whom commands reach by what settings say, beside rules. Nobody, unless they say so.
#[derive(Clone, Debug, Default)]
pub struct CommandHosts {
    /// Hosts that are listed for them.
    pub listed: Vec<HostPattern>,
    /// Whether loopback, for them, is a network that only commands of the same session are on. It
    /// must be enforced where they run: this machine listens on the other one.
    pub own_loopback: bool,
}

/// A call to be judged.
#[derive(Clone, Copy)]
pub struct DecisionRequest<'a> {
    /// The tool by its canonical name.
    pub tool: &'a str,
    /// The tool's risk before its arguments are looked at.
    pub risk: RiskLevel,
    /// What it would do.
    pub effects: &'a [Effect],
    /// What a person has allowed for the session.
    pub grants: &'a [GrantScope],
    /// The mode of its session, where that is another than the engine's.
    pub mode: Option<PermissionMode>,
    /// The machine.
    pub world: &'a dyn Machine,
}

impl PolicyEngine {
    /// An engine with these rules.
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
        } = config;
        // A lookup finds the first rule that matches. Some things only a person's rule for exactly
        // them may allow, so those come first: what is allowed must not depend on the order.
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
        Self { rules, mode, places, protected, network, opens_protected }
    }

    /// The rules of the session, by which calls are judged.
    pub fn rules(&self) -> &RuleSet {
        &self.rules
    }

    /// The mode of calls whose session has none of its own.
    pub fn mode(&self) -> PermissionMode {
        self.mode
    }

    /// Judges a call.
    pub fn decide(&self, request: DecisionRequest<'_>) -> PolicyDecision {
        self.evaluate(request).into_decision()
    }

    /// Judges a call and shows the way there: each command line as a tree with its verdicts.
    pub fn explain(&self, request: DecisionRequest<'_>) -> (PolicyDecision, Vec<VerdictTree>) {
        let judgement = self.evaluate(request);
        let trees = judgement.build_trees();
        (judgement.into_decision(), trees)
    }

    /// Whether a file that a search comes across may be read without a question of its own: unless
    /// a rule denies it or says to ask about it, it holds a secret that no rule opens, or it is
    /// zero's own.
    pub fn may_read(&self, tool: &str, written: &Path, canonical: &Path) -> bool {
        // Asked of each file of a tree, nearly all of which are what they are called.
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

    /// Whether something in the workspace may not be read without a question of its own.
    pub fn filters_reads(&self) -> bool {
        self.has_read_guards() || self.places.roots.iter().any(|root| self.contains_own_files(root))
    }

    /// Whether something that is zero's own lies in a folder, by its canonical path.
    pub fn contains_own_files(&self, folder: &Path) -> bool {
        protected_paths::overlaps_closed(folder, &self.protected)
    }

    /// The same, without what is zero's own: rules guard it, or the person's secrets lie there.
    pub fn has_read_guards(&self) -> bool {
        let holds_home = |root: &PathBuf| self.places.holds_home(root);
        self.rules.guards_paths() || self.places.roots.iter().any(holds_home)
    }

    /// Whether commands may change a protected path, because the person wrote a rule for it: one
    /// that allows it by its name, with none that denies it or says to ask. zero's own settings and
    /// state and what is in `.git` no rule opens.
    pub fn may_change(&self, canonical: &Path) -> bool {
        if !self.opens_protected || protected_paths::is_own_file(canonical, &self.protected) {
            return false;
        }
        let Some(text) = canonical.to_str().filter(|text| !text.contains(['*', '?', '[', '\\']))
        else {
            return false;
        };
        // A rule for `.vscode/**` is about what lies beneath, one for `.npmrc` about the file.
        let allowed = |path: PathBuf| {
            let views = PathViews { written: path.clone(), canonical: path };
            self.rules
                .find_strictest_path_rule(EDIT_TOOL, FileAccess::Write, &views)
                .is_some_and(opens_protected)
        };
        // The path and whatever lies in it, as deep as settings lie.
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

    /// Where files may lie, outside the workspace, that a rule denies to be read: from the machine's
    /// root or the home folder on, as far as the rule names folders without a wildcard.
    pub fn denied_read_roots(&self) -> Vec<PathBuf> {
        let deny = self.rules.iter().filter(|rule| rule.verdict == Verdict::Deny);
        deny.filter_map(|rule| rule.path_start(self.places.home.as_deref())).collect()
    }

    /// How many rules deny files to be read, or say to ask about some.
    pub fn count_read_guards(&self) -> usize {
        self.rules
            .iter()
            .filter(|rule| rule.verdict != Verdict::Allow && rule.restricts_reads())
            .count()
    }

    fn evaluate(&self, request: DecisionRequest<'_>) -> CallAssessment {
        let case = RequestEvaluator { engine: self, request };
        let mut judged = Vec::new();
        let mut analyses = Vec::new();
        for effect in request.effects {
            case.evaluate_effect(effect, &mut judged, &mut analyses);
        }
        case.evaluate_tool(&mut judged);
        // Where no effect raises it, the tool's own risk stands; a command's risk is its effects'.
        let base = if analyses.is_empty() { request.risk } else { RiskLevel::Low };
        judged.iter_mut().for_each(|judged| case.apply_grant(judged));
        if case.mode() == PermissionMode::Plan {
            judged.iter_mut().for_each(EffectAssessment::restrict_to_reads);
        }
        CallAssessment { judged, analyses, base }
    }
}

/// Whether a rule lets commands change what it names, though it decides what runs later.
fn opens_protected(rule: &PolicyRule) -> bool {
    rule.verdict == Verdict::Allow && rule.source.owner == RuleOwner::User && rule.names_protected()
}

/// Whether nothing that can be allowed at all needs more than this rule.
fn is_exact_person_allow(rule: &PolicyRule) -> bool {
    rule.verdict == Verdict::Allow && rule.is_exact() && rule.source.owner == RuleOwner::User
}

/// One request on its way.
struct RequestEvaluator<'a> {
    engine: &'a PolicyEngine,
    request: DecisionRequest<'a>,
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
        let analysis = match &execution.command {
            CommandLine::Shell(text) => crate::shell::analyse(text, folder, home),
            CommandLine::Program(argv) => crate::shell::analyse_program(argv, folder, home),
        };
        let line = match &execution.command {
            CommandLine::Shell(text) => Some(text.trim()),
            CommandLine::Program(_) => None,
        };
        let tree = analyses.len();
        let first = judged.len();
        self.evaluate_variables(execution, judged);
        self.evaluate_analysis(&analysis, line, judged);
        for judged in judged.iter_mut().skip(first) {
            judged.tree = Some(tree);
        }
        analyses.push(analysis);
    }

    /// Variables set for a command from outside.
    fn evaluate_variables(&self, execution: &CommandExecution, judged: &mut Vec<EffectAssessment>) {
        for (name, _) in &execution.variables {
            if crate::shell::changes_what_runs(name) {
                let reason = format!("setting `{name}` can change what runs");
                let target = format!("{name}=…");
                judged.push(
                    EffectAssessment::new("exec", target, Verdict::Ask, reason)
                        .with_risk(RiskLevel::High),
                );
            }
        }
    }

    /// Rules about the tool by its name, for tools whose effects no rule can name.
    fn evaluate_tool(&self, judged: &mut Vec<EffectAssessment>) {
        let tool = self.request.tool;
        let rules = &self.engine.rules;
        for verdict in [Verdict::Deny, Verdict::Ask] {
            if let Some(rule) = rules.find_tool_rule(verdict, tool) {
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
        // Where a server's own name cannot be one here, rules may be about either.
        let name = self.request.tool.strip_prefix(server).and_then(|rest| rest.strip_prefix("__"));
        let lookup = |rules: &'a RuleSet, verdict| {
            let by_name = || rules.find_mcp_rule(verdict, server, name?);
            rules.find_mcp_rule(verdict, server, tool).or_else(by_name)
        };
        let judged = match self.find_strictest_rule(lookup) {
            Some((verdict @ (Verdict::Deny | Verdict::Ask), rule)) => {
                EffectAssessment::from_rule("mcp", target, verdict, rule)
            }
            // What was allowed is a tool that said something else of itself.
            _ if definition == ToolDefinitionState::Changed => {
                let reason = format!(
                    "the definition of `{tool}` of MCP server `{server}` changed since you approved it; review it with `zero mcp approve {server}`"
                );
                EffectAssessment::new("mcp", target, Verdict::Ask, reason)
            }
            Some((verdict, rule)) => EffectAssessment::from_rule("mcp", target, verdict, rule),
            None => {
                let reason = format!("no rule allows `{tool}` of MCP server `{server}`");
                // Its own name may be anything, such as `*`, which as a rule would mean more.
                let name = ToolName::from_namespaced(server, tool).ok();
                let rule = name.map(|name| name.as_str().to_owned());
                let grant = rule.map(|rule| GrantScope { rule, folder: None, program: None });
                EffectAssessment {
                    grant,
                    ..EffectAssessment::new("mcp", target, Verdict::Ask, reason)
                }
            }
        };
        EffectAssessment { risk: RiskLevel::High, changes: true, ..judged }
    }

    /// What the rules say, the strictest first.
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

    /// Answers a question that a person has answered for the session.
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

    /// How much may be done without asking, where no rule says otherwise.
    fn mode(&self) -> PermissionMode {
        self.request.mode.unwrap_or(self.engine.mode)
    }

    /// The folder relative paths start in.
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

/// One thing a call would do, and what was decided about it.
#[derive(Clone, Debug)]
struct EffectAssessment {
    kind: &'static str,
    target: String,
    verdict: Verdict,
    reason: String,
    rule: Option<String>,
    source: Option<String>,
    /// Limits that the rule which decided raises.
    limits: CommandLimitChange,
    risk: RiskLevel,
    /// What would silence the question; `None` when nothing may.
    grant: Option<GrantScope>,
    /// Whether it does more than look.
    changes: bool,
    /// Where it belongs: which command line, which node of it.
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
            changes: false,
            tree: None,
            node: None,
        }
    }

    fn with_risk(self, risk: RiskLevel) -> Self {
        Self { risk, ..self }
    }

    /// In plan mode nothing is changed or run, whatever allows it.
    fn restrict_to_reads(&mut self) {
        if self.changes && self.verdict != Verdict::Deny {
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
        }
    }

    /// The reason, with what it is about where that is not the whole call.
    fn explain(&self) -> String {
        let about = |verb: &str| format!("{verb} `{}`: {}", self.target, self.reason);
        match self.kind {
            "read" => about("reading"),
            "write" => about("changing"),
            "delete" => about("removing"),
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

/// Everything that was decided about a call.
struct CallAssessment {
    judged: Vec<EffectAssessment>,
    analyses: Vec<ScriptAnalysis>,
    /// The least risk, whatever the effects are.
    base: RiskLevel,
}

impl CallAssessment {
    /// What the rules that decided about commands raise, of each limit the most.
    fn limits(&self) -> CommandLimitChange {
        let mut limits = CommandLimitChange::default();
        self.judged.iter().for_each(|judged| limits.merge_larger(&judged.limits));
        limits
    }

    fn into_decision(self) -> PolicyDecision {
        let risk = self.judged.iter().map(|judged| judged.risk).fold(self.base, RiskLevel::max);
        let verdict =
            self.judged.iter().map(|judged| judged.verdict).max().unwrap_or(Verdict::Allow);
        // The first of the strictest explains the verdict, one that a rule decided before others.
        let strictest = || self.judged.iter().filter(|judged| judged.verdict == verdict);
        let decisive =
            strictest().find(|judged| judged.rule.is_some()).filter(|_| verdict != Verdict::Ask);
        let decisive = decisive.or_else(|| strictest().next());
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
            effects: self.judged.into_iter().map(EffectAssessment::into_effect_decision).collect(),
        }
    }
}
