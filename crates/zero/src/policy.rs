//! Builds policy engines from settings, for hosts and for the `zero policy` commands.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use zero_core::{CommandLimits, Effects, HostLimits, ToolName};
use zero_exec::{CommandSettings, HostCommands, LocalMachine};
use zero_policy::engine::VerdictTree;
use zero_policy::{
    CommandHosts, GrantScope, PermissionMode, PolicyDecision, PolicyEngine, PolicyEngineConfig,
    PolicyRule, SecretFileSet,
};
use zero_runtime::simulated_call::{CallSimulator, SimulatedCall};
use zero_runtime::{
    DialectName, HookSettings, Policy, RulePolicy, SecretMaskConfig, WorkspaceSecrets,
};
use zero_sandbox::{StateDir, Workspace, machine_resources};
use zero_settings::TrustStore;
use zero_settings::WorkspaceSettings;
use zero_settings::user_paths::canonical_folder;
use zero_tools::tool_discovery;

use crate::AppContext;
use crate::cli::PolicyContextArgs;
use crate::exit::UsageError;
use crate::settings_adapter::mcp_servers;

/// The temporary folder of a session that does not exist, below the state folder.
const UNUSED_TEMP: &str = "tmp/none";

/// Folders and machine facts that the policy evaluates calls with.
#[derive(Clone, Debug, Default)]
pub(crate) struct PolicyContext {
    /// Canonical folders of the workspace.
    pub(crate) roots: Vec<PathBuf>,
    /// Home folder, which `~` stands for.
    pub(crate) home: Option<PathBuf>,
    /// Folder of the user's settings for zero.
    pub(crate) config_dir: Option<PathBuf>,
    /// State folder of zero.
    pub(crate) state_dir: Option<PathBuf>,
    /// Files that contain zero's secrets.
    pub(crate) secret_files: Vec<PathBuf>,
    /// Absolute entries of `PATH`.
    pub(crate) search_path: Vec<PathBuf>,
    /// Hosts that commands may connect to, from the settings.
    pub(crate) network: CommandHosts,
    /// Files of the workspace whose values are masked.
    pub(crate) masked_files: SecretFileSet,
    /// Whether tools may change no file outside the workspace.
    pub(crate) is_confined: bool,
}

impl PolicyContext {
    /// Creates an engine with these rules.
    pub(crate) fn build_engine(
        &self,
        rules: Vec<PolicyRule>,
        mode: PermissionMode,
    ) -> PolicyEngine {
        PolicyEngine::new(PolicyEngineConfig {
            rules,
            mode,
            roots: self.roots.clone(),
            home: self.home.clone(),
            config_dir: self.config_dir.clone(),
            state_dir: self.state_dir.clone(),
            secret_files: self.secret_files.clone(),
            network: self.network.clone(),
            masked_files: self.masked_files.clone(),
            is_confined: self.is_confined,
        })
    }
}

/// Policy engine for calls that are evaluated but not run.
pub(crate) struct PolicyEvaluator {
    engine: PolicyEngine,
    context: PolicyContext,
    workspace: Workspace,
    /// The tools, which declare the effects of their calls.
    simulator: Arc<CallSimulator>,
    hooks: HookSettings,
    /// Limits of calls, before rules raise them.
    limits: HostLimits,
    /// Scans the workspace once for all calls that are evaluated. Runs nothing.
    commands: HostCommands,
    /// The secrets that a real call would know.
    secrets: WorkspaceSecrets,
}

impl PolicyEvaluator {
    /// Fails if the path of a workspace folder cannot be resolved; the folder may be missing.
    pub(crate) fn new(
        rules: Vec<PolicyRule>,
        mode: PermissionMode,
        context: PolicyContext,
        simulator: Arc<CallSimulator>,
    ) -> Result<Self, UsageError> {
        let workspace = Workspace::for_planning(&context.roots, context.home.clone())
            .map_err(|error| UsageError(error.message))?;
        let engine = context.build_engine(rules, mode);
        let (hooks, limits) = (HookSettings::default(), HostLimits::default());
        let state = StateDir::new(context.state_dir.clone().unwrap_or_default());
        let commands = HostCommands::new(CommandSettings::default(), &state);
        let secrets = WorkspaceSecrets::for_simulation(&SecretMaskConfig::default(), Vec::new());
        Ok(Self { engine, context, workspace, simulator, hooks, limits, commands, secrets })
    }

    /// The decision on a call with this input, with what its secrets add: the same as that of a session.
    pub(crate) fn judge_secrets(
        &self,
        decision: PolicyDecision,
        input: &Value,
        subject: &SimulatedCall,
    ) -> PolicyDecision {
        self.secrets.judge_simulation(decision, input, &subject.effects)
    }

    /// The same, with what settings open for commands and pass on to them.
    pub(crate) fn with_command_settings(self, settings: CommandSettings) -> Self {
        let state = StateDir::new(self.context.state_dir.clone().unwrap_or_default());
        Self { commands: HostCommands::new(settings, &state), ..self }
    }

    /// Descriptions of the hooks that run before calls of a tool.
    pub(crate) fn hooks_before(&self, tool: &str) -> Vec<String> {
        let hooks = self.hooks.before.iter().filter(|hook| hook.is_for(tool));
        hooks.map(ToString::to_string).collect()
    }

    /// Limits of the commands of a tool, with those that a decision raises.
    pub(crate) fn command_limits(
        &self,
        tool: &ToolName,
        decision: &PolicyDecision,
    ) -> CommandLimits {
        self.limits.command_limits_for(tool).with_raised(&decision.limits)
    }

    /// Folders and machine facts.
    pub(crate) fn context(&self) -> &PolicyContext {
        &self.context
    }

    /// Resolves a call to its effects.
    pub(crate) fn resolve_call(
        &self,
        tool: &str,
        input: &Value,
        dialect: Option<DialectName>,
    ) -> Result<SimulatedCall, String> {
        let name = tool.strip_prefix("mcp__").filter(|name| self.has_tool(name)).unwrap_or(tool);
        if let Some((tool_discovery::PREFIX, _)) = name.split_once("__")
            && !self.has_tool(name)
        {
            return Err(format!(
                "the command of `{name}` is not known; run `zero tools refresh` to discover command tools"
            ));
        }
        let call = self.simulator.simulate(name, input, dialect, &self.workspace);
        call.map_err(|error| error.message)
    }

    /// A call of which only the effects are known.
    pub(crate) fn call_from_effects(&self, tool: &str, effects: Effects) -> SimulatedCall {
        self.simulator.from_effects(tool, effects)
    }

    /// Whether the decision about a tool may depend on its arguments.
    pub(crate) fn limits_arguments(&self, tool: &str) -> bool {
        self.engine.rules().limits_arguments(tool)
    }

    fn has_tool(&self, name: &str) -> bool {
        self.simulator.registry().get(name).is_some()
    }

    /// Evaluates a call.
    pub(crate) fn evaluate(
        &self,
        subject: &SimulatedCall,
        grants: &[GrantScope],
    ) -> PolicyDecision {
        self.engine.decide(subject.to_request(grants, &self.machine()))
    }

    /// Evaluates a call and returns its command as a tree of verdicts.
    pub(crate) fn explain(&self, subject: &SimulatedCall) -> (PolicyDecision, Vec<VerdictTree>) {
        self.engine.explain(subject.to_request(&[], &self.machine()))
    }

    /// The machine as a new session sees it: nothing is in its temporary folder yet.
    fn machine(&self) -> LocalMachine<'_> {
        let temp = self.context.state_dir.as_ref().map(|state| state.join(UNUSED_TEMP));
        LocalMachine::new(&self.context.search_path)
            .with_commands(Some(&self.commands))
            .with_temp(temp.as_deref(), self.context.roots.iter().map(PathBuf::as_path))
    }
}

impl AppContext {
    /// Evaluator with the settings of a folder, or with the given files instead.
    pub(crate) fn policy_evaluator(
        &self,
        place: &PolicyContextArgs,
        mode: Option<PermissionMode>,
    ) -> anyhow::Result<PolicyEvaluator> {
        let context = self.policy_context(place.workspace.as_deref(), place.home.as_deref())?;
        let settings = match &place.settings[..] {
            [] => {
                let config = self.config.with_home(context.home.clone(), place.home.is_some());
                let trust = TrustStore::load(&config.state_dir()?).map_err(UsageError::from)?;
                let root = context.roots.first().map_or(Path::new("/"), PathBuf::as_path);
                WorkspaceSettings::load(&config.user_paths(), root, &trust)
                    .map_err(UsageError::from)?
            }
            files => self.load_settings_files(files)?,
        };
        if let Some(note) = settings.trust_note() {
            self.terminal.print_note(&note);
        }
        let mode = mode.unwrap_or_else(|| settings.mode());
        let context = PolicyContext {
            network: settings.command_hosts(),
            masked_files: settings.masked_files(),
            secret_files: self.secret_files(&settings),
            ..context
        };
        let simulator = self.call_simulator(&context, &settings)?;
        let root = context.roots.first().cloned().unwrap_or_else(|| PathBuf::from("/"));
        let evaluator = PolicyEvaluator::new(settings.policy_rules(), mode, context, simulator)?;
        let evaluator = evaluator.with_command_settings(self.command_settings(&settings, &root));
        let mut limits = HostLimits::for_machine(machine_resources::read());
        settings.apply_limits(&mut limits);
        let secrets = self.secret_mask_config(&settings);
        let roots = evaluator.context.roots.clone();
        Ok(PolicyEvaluator {
            hooks: settings.hooks(self.config.home()),
            limits,
            secrets: WorkspaceSecrets::for_simulation(&secrets, roots),
            ..evaluator
        })
    }

    /// Simulator with the tools that are known in a folder. Starts nothing.
    fn call_simulator(
        &self,
        context: &PolicyContext,
        settings: &WorkspaceSettings,
    ) -> anyhow::Result<Arc<CallSimulator>> {
        let Some(root) = context.roots.first() else { return self.builtin_simulator() };
        let servers = mcp_servers::configured_servers(settings, &self.config, root);
        if servers.definitions.is_empty() && settings.tool_commands().is_none() {
            return self.builtin_simulator();
        }
        let workspace = Workspace::open(&context.roots, context.home.clone())
            .map_err(|error| UsageError(error.message))?;
        let host = self.idle_host(workspace, settings)?;
        self.external_tools_from(&host, settings, servers, None).register_known();
        Ok(Arc::new(CallSimulator::new(Arc::clone(host.registry()))))
    }

    /// Simulator with the built-in tools.
    pub(crate) fn builtin_simulator(&self) -> anyhow::Result<Arc<CallSimulator>> {
        Ok(Arc::new(CallSimulator::new(Arc::new(self.builtin_registry()?))))
    }

    /// Policy of a host that works in these folders.
    pub(crate) fn build_policy(
        &self,
        workspace: &Workspace,
        settings: &WorkspaceSettings,
        mode: Option<PermissionMode>,
    ) -> anyhow::Result<Arc<dyn Policy>> {
        let context = self.host_policy_context(workspace, settings)?;
        let mode = mode.unwrap_or_else(|| settings.mode());
        let engine = context.build_engine(settings.policy_rules(), mode);
        Ok(Arc::new(RulePolicy::new(engine, context.search_path)))
    }

    /// Policy of a host whose tools change no file outside these folders, with these rules.
    pub(crate) fn build_confined_policy(
        &self,
        workspace: &Workspace,
        settings: &WorkspaceSettings,
        rules: Vec<PolicyRule>,
    ) -> anyhow::Result<Arc<dyn Policy>> {
        let context = self.host_policy_context(workspace, settings)?;
        let context = PolicyContext { is_confined: true, ..context };
        let engine = context.build_engine(rules, settings.mode());
        Ok(Arc::new(RulePolicy::new(engine, context.search_path)))
    }

    fn host_policy_context(
        &self,
        workspace: &Workspace,
        settings: &WorkspaceSettings,
    ) -> anyhow::Result<PolicyContext> {
        Ok(PolicyContext {
            roots: workspace.roots().map(Path::to_owned).collect(),
            network: settings.command_hosts(),
            masked_files: settings.masked_files(),
            secret_files: self.secret_files(settings),
            ..self.policy_context(None, None)?
        })
    }

    /// Context for calls in these folders.
    pub(crate) fn policy_context(
        &self,
        workspace: Option<&Path>,
        home: Option<&Path>,
    ) -> anyhow::Result<PolicyContext> {
        let cwd = self.config.cwd()?;
        let config = self.config.with_home(home.map(|home| cwd.join(home)), home.is_some());
        let settle = |path: &Path| canonical_folder(cwd, path);
        Ok(PolicyContext {
            roots: vec![settle(workspace.unwrap_or(Path::new(".")))],
            home: config.home().map(settle),
            config_dir: config.settings_file().ok().and_then(|file| file.parent().map(settle)),
            state_dir: config.state_dir().ok().map(|state| settle(state.path())),
            secret_files: Vec::new(),
            search_path: self.config.search_path().to_vec(),
            network: CommandHosts::default(),
            masked_files: SecretFileSet::default(),
            is_confined: false,
        })
    }
}

/// A decision as JSON, with stable field names.
pub(crate) fn to_json(decision: &PolicyDecision) -> Value {
    let grants: Vec<&str> = decision.grants.iter().map(|grant| grant.rule.as_str()).collect();
    let mut answer = json!({
        "decision": decision.verdict.as_str(),
        "reason": decision.reason,
        "matched_rule": decision.rule,
        "source": decision.source,
        "risk": decision.risk.as_str(),
        "effects": decision.effects,
        "grants": grants,
    });
    if !decision.limits.is_empty() {
        answer["limits"] = json!(decision.limits);
    }
    answer
}
