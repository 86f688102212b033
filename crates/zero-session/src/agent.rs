//! Agents: named configurations of model, tools and system prompt.

use std::collections::BTreeMap;

use zero_policy::PermissionMode;
use zero_runtime::DialectName;
use zero_runtime::tool_backend::InstructionFile;

use crate::model::ThinkingEffort;

/// The agent without a model: it runs the commands it receives.
pub const DIRECT: &str = "direct";
/// The default agent for keys that name none, unless the settings choose another.
pub const MAIN: &str = "main";

/// A configured agent; absent fields fall back to defaults.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AgentProfile {
    /// Name of the agent in session keys.
    pub id: String,
    /// Name of the model; `None` selects the default model.
    pub model: Option<String>,
    /// Tool names and schemas; `None` selects the dialect of the model's family.
    pub dialect: Option<DialectName>,
    /// System prompt that replaces zero's own.
    pub system_prompt: Option<String>,
    /// What a file of the project says about a sub-agent's work. It is quoted below the system prompt.
    pub role: Option<InstructionFile>,
    /// Canonical names of the tools it may use; a trailing `*` matches any suffix. `None` allows
    /// all tools.
    pub tools: Option<Vec<String>>,
    /// Permission mode; `None` uses the mode of the settings.
    pub mode: Option<PermissionMode>,
    /// Thinking effort of the model.
    pub thinking: ThinkingEffort,
    /// Maximum number of model requests per run.
    pub turns_max: Option<u32>,
    /// Names of the models that stand in for its model; `None` uses those of the model.
    pub fallback: Option<Vec<String>>,
}

/// The configured agents.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentRegistry {
    default: String,
    by_id: BTreeMap<String, AgentProfile>,
}

impl AgentRegistry {
    /// Creates a registry of these agents plus `main` and `direct`. `default` is the agent for keys
    /// that name none.
    pub fn new(agents: Vec<AgentProfile>, default: Option<String>) -> Self {
        let named = |id: &str| AgentProfile { id: id.to_owned(), ..AgentProfile::default() };
        let built_in =
            [named(MAIN), AgentProfile { model: Some(DIRECT.to_owned()), ..named(DIRECT) }];
        let by_id = built_in.into_iter().chain(agents).map(|agent| (agent.id.clone(), agent));
        Self { default: default.unwrap_or_else(|| MAIN.to_owned()), by_id: by_id.collect() }
    }

    /// Name of the agent for keys that name none.
    pub fn default_id(&self) -> &str {
        &self.default
    }

    /// Returns the agent with that name.
    pub fn get(&self, id: &str) -> Option<&AgentProfile> {
        self.by_id.get(id)
    }

    /// All agents, sorted by name.
    pub fn list(&self) -> impl Iterator<Item = &AgentProfile> {
        self.by_id.values()
    }
}
