//! The tools of one host, from sources that come and go.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use tokio::sync::broadcast;
use zero_core::ToolName;

use crate::schema::InputSchema;
use crate::tool::AnyTool;

/// Changes a slow listener may lag behind before it has to list everything again.
const CHANGES_KEPT: usize = 64;

/// A tool with where it came from.
pub struct Registered {
    /// The tool.
    pub tool: Arc<dyn AnyTool>,
    /// Who brought it: `builtin`, or the name of a server or command.
    pub source: String,
    /// Its input schema, with the checker.
    pub input: InputSchema,
}

/// What changed, told to everyone who listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegistryChange {
    /// Counts the changes of this registry.
    pub version: u64,
    /// The source whose tools changed.
    pub source: String,
    /// Names that appeared.
    pub added: Vec<ToolName>,
    /// Names that vanished.
    pub removed: Vec<ToolName>,
}

/// Names that are already taken; nothing was registered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{source_name}` cannot bring {}: the name is taken", .taken.iter().map(|(tool, by)| format!("`{tool}` (of `{by}`)")).collect::<Vec<_>>().join(", "))]
pub struct DuplicateTools {
    source_name: String,
    /// Each name with the source that has it.
    pub taken: Vec<(ToolName, String)>,
}

/// The tools of one host. Cheap to share; a call keeps the tool it resolved even if it vanishes.
pub struct Registry {
    tools: RwLock<Tools>,
    changes: broadcast::Sender<RegistryChange>,
}

#[derive(Default)]
struct Tools {
    version: u64,
    by_name: BTreeMap<ToolName, Arc<Registered>>,
}

impl Default for Registry {
    fn default() -> Self {
        Self { tools: RwLock::default(), changes: broadcast::channel(CHANGES_KEPT).0 }
    }
}

impl Registry {
    /// Adds tools of a source, all or none: a name that is taken, or comes twice, refuses them all.
    pub fn add(&self, source: &str, tools: Vec<Arc<dyn AnyTool>>) -> Result<(), DuplicateTools> {
        let mut state = self.tools.write().unwrap_or_else(PoisonError::into_inner);
        let mut taken = Vec::new();
        let mut added: BTreeMap<ToolName, Arc<Registered>> = BTreeMap::new();
        for tool in tools {
            let name = tool.spec().name.clone();
            let holder = state.by_name.get(&name).map(|holder| holder.source.clone());
            let input = InputSchema::new(tool.spec().input_schema.clone());
            let registered = Arc::new(Registered { tool, source: source.to_owned(), input });
            let twice = added.insert(name.clone(), registered).map(|_| source.to_owned());
            taken.extend(holder.or(twice).map(|by| (name, by)));
        }
        if !taken.is_empty() {
            return Err(DuplicateTools { source_name: source.to_owned(), taken });
        }
        let names = added.keys().cloned().collect();
        state.by_name.append(&mut added);
        self.announce(&mut state, source, names, Vec::new());
        Ok(())
    }

    /// Removes everything a source brought.
    pub fn remove_source(&self, source: &str) {
        let mut state = self.tools.write().unwrap_or_else(PoisonError::into_inner);
        let mut removed = Vec::new();
        state.by_name.retain(|name, tool| {
            let stays = tool.source != source;
            if !stays {
                removed.push(name.clone());
            }
            stays
        });
        self.announce(&mut state, source, Vec::new(), removed);
    }

    /// Removes one tool.
    pub fn remove(&self, name: &str) {
        let mut state = self.tools.write().unwrap_or_else(PoisonError::into_inner);
        if let Some((name, tool)) = state.by_name.remove_entry(name) {
            self.announce(&mut state, &tool.source, Vec::new(), vec![name]);
        }
    }

    /// The tool of that canonical name.
    pub fn get(&self, name: &str) -> Option<Arc<Registered>> {
        self.tools.read().unwrap_or_else(PoisonError::into_inner).by_name.get(name).cloned()
    }

    /// All tools, by name.
    pub fn list(&self) -> Vec<Arc<Registered>> {
        self.tools
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .by_name
            .values()
            .cloned()
            .collect()
    }

    /// Counts the changes so far.
    pub fn version(&self) -> u64 {
        self.tools.read().unwrap_or_else(PoisonError::into_inner).version
    }

    /// Tells of every change from now on. A listener that lags is told so and lists again.
    pub fn changes(&self) -> broadcast::Receiver<RegistryChange> {
        self.changes.subscribe()
    }

    fn announce(
        &self,
        state: &mut Tools,
        source: &str,
        added: Vec<ToolName>,
        removed: Vec<ToolName>,
    ) {
        if added.is_empty() && removed.is_empty() {
            return;
        }
        state.version += 1;
        let change =
            RegistryChange { version: state.version, source: source.to_owned(), added, removed };
        // Nobody listening is fine.
        let _ = self.changes.send(change);
    }
}
