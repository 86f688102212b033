//! Agents: which model answers, with which tools, in which words.

use std::collections::BTreeMap;

use zero_policy::PermissionMode;
use zero_runtime::DialectName;

use crate::model::ThinkingEffort;

/// The agent that needs no model: it runs the commands it is given.
pub const DIRECT: &str = "direct";
/// The agent of bare keys, where settings name no other.
pub const MAIN: &str = "main";

/// A configured agent; absent fields fall back to defaults.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AgentProfile {
    /// Its name in keys.
    pub id: String,
    /// Its model, by name; the default model when absent.
    pub model: Option<String>,
    /// The names and shapes of its tools; those of the model's family when absent.
    pub dialect: Option<DialectName>,
    /// Its system prompt, in place of zero's own.
    pub system_prompt: Option<String>,
    /// The tools it may use, by canonical name; `*` at the end stands for anything. All when absent.
    pub tools: Option<Vec<String>>,
    /// How much it may do without asking; that of the settings when absent.
    pub mode: Option<PermissionMode>,
    /// How much its model should think.
    pub thinking: ThinkingEffort,
    /// How often a run may ask the model.
    pub turns_max: Option<u32>,
}

/// The agents there are.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentRegistry {
    default: String,
    by_id: BTreeMap<String, AgentProfile>,
}

impl AgentRegistry {
    /// These agents, `main` and `direct`. `default` is the agent of bare keys.
    pub fn new(agents: Vec<AgentProfile>, default: Option<String>) -> Self {
        let named = |id: &str| AgentProfile { id: id.to_owned(), ..AgentProfile::default() };
        let built_in =
            [named(MAIN), AgentProfile { model: Some(DIRECT.to_owned()), ..named(DIRECT) }];
        let by_id = built_in.into_iter().chain(agents).map(|agent| (agent.id.clone(), agent));
        Self { default: default.unwrap_or_else(|| MAIN.to_owned()), by_id: by_id.collect() }
    }

    /// The agent of bare keys.
    pub fn default_id(&self) -> &str {
        &self.default
    }

    /// The agent of that name.
    pub fn get(&self, id: &str) -> Option<&AgentProfile> {
        self.by_id.get(id)
    }

    /// All of them, by name.
    pub fn list(&self) -> impl Iterator<Item = &AgentProfile> {
        self.by_id.values()
    }
}
