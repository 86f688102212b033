//! The tools of one host, from sources that can change.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use tokio::sync::broadcast;
use zero_core::ToolName;

use crate::schema::InputSchema;
use crate::tool::AnyTool;

/// Changes that a slow subscriber may lag behind before it has to list all tools again.
const CHANGES_KEPT: usize = 64;

/// A tool and its source.
pub struct RegisteredTool {
    /// The implementation, shared by all calls of the tool.
    pub tool: Arc<dyn AnyTool>,
    /// The source: `builtin`, or the name of a server or command.
    pub source: String,
    /// Its input schema, with the validator.
    pub input: InputSchema,
    /// Whether it is listed. It can be called either way.
    pub shown: ToolVisibility,
}

/// Whether a tool is listed. Every listed schema costs tokens, so some of many tools are hidden
/// until the model searches for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ToolVisibility {
    /// It is listed.
    #[default]
    Always,
    /// It is listed once it was found: see [`ToolRegistry::reveal`].
    WhenFound,
}

/// A tool that this build of the program lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MissingTool {
    /// Its canonical name.
    pub name: &'static str,
    /// Why it is missing, and how to get it.
    pub advice: &'static str,
}

/// A change, sent to all subscribers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegistryChange {
    /// The number of the change in this registry.
    pub version: u64,
    /// The source whose tools changed.
    pub source: String,
    /// Added names.
    pub added: Vec<ToolName>,
    /// Removed names.
    pub removed: Vec<ToolName>,
    /// Names whose tool was replaced or is listed now.
    pub changed: Vec<ToolName>,
}

/// Names that are already taken; nothing was registered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{source_name}` cannot register {}: the name is taken", .collisions.iter().map(|(tool, by)| format!("`{tool}` (of `{by}`)")).collect::<Vec<_>>().join(", "))]
pub struct DuplicateTools {
    source_name: String,
    /// Each name with the source that has it.
    pub collisions: Vec<(ToolName, String)>,
}

/// The tools of one host. Cheap to share; a call keeps its tool even if the tool is removed.
pub struct ToolRegistry {
    tools: RwLock<ToolTable>,
    changes: broadcast::Sender<RegistryChange>,
}

/// The result of one change.
#[derive(Default)]
struct RegistryDiff {
    added: Vec<ToolName>,
    removed: Vec<ToolName>,
    changed: Vec<ToolName>,
}

#[derive(Default)]
struct ToolTable {
    version: u64,
    by_name: BTreeMap<ToolName, Arc<RegisteredTool>>,
    missing: Vec<MissingTool>,
}

impl Default for ToolRegistry {
    fn default() -> Self {
        Self { tools: RwLock::default(), changes: broadcast::channel(CHANGES_KEPT).0 }
    }
}

impl ToolRegistry {
    /// Adds tools of a source, all or none: a taken or duplicate name rejects all of them.
    pub fn add(&self, source: &str, tools: Vec<Arc<dyn AnyTool>>) -> Result<(), DuplicateTools> {
        let mut state = self.tools.write().unwrap_or_else(PoisonError::into_inner);
        let mut collisions = Vec::new();
        let mut added: BTreeMap<ToolName, Arc<RegisteredTool>> = BTreeMap::new();
        for tool in tools {
            let name = tool.spec().name.clone();
            let holder = state.by_name.get(&name).map(|holder| holder.source.clone());
            let input = InputSchema::new(tool.spec().input_schema.clone());
            let shown = ToolVisibility::Always;
            let registered =
                Arc::new(RegisteredTool { tool, source: source.to_owned(), input, shown });
            let twice = added.insert(name.clone(), registered).map(|_| source.to_owned());
            collisions.extend(holder.or(twice).map(|by| (name, by)));
        }
        if !collisions.is_empty() {
            return Err(DuplicateTools { source_name: source.to_owned(), collisions });
        }
        let names = added.keys().cloned().collect();
        state.by_name.append(&mut added);
        self.announce(&mut state, source, RegistryDiff { added: names, ..RegistryDiff::default() });
        Ok(())
    }

    /// Replaces all tools of a source in one step. A name that another source has stays with it,
    /// and of two equal names the first wins: the rejected tools are returned. Unchanged tools stay
    /// as they are.
    pub fn replace(
        &self,
        source: &str,
        tools: Vec<(Arc<dyn AnyTool>, ToolVisibility)>,
    ) -> Vec<Arc<dyn AnyTool>> {
        let mut state = self.tools.write().unwrap_or_else(PoisonError::into_inner);
        let mut before: BTreeMap<ToolName, Arc<RegisteredTool>> = BTreeMap::new();
        state.by_name.retain(|name, tool| {
            let stays = tool.source != source;
            if !stays {
                before.insert(name.clone(), Arc::clone(tool));
            }
            stays
        });
        let (mut difference, mut homeless) = (RegistryDiff::default(), Vec::new());
        for (tool, shown) in tools {
            let name = tool.spec().name.clone();
            if state.by_name.contains_key(&name) {
                homeless.push(tool);
                continue;
            }
            let earlier = before.remove(&name);
            let shown = match &earlier {
                // A revealed tool stays revealed.
                Some(earlier) if earlier.shown == ToolVisibility::Always => ToolVisibility::Always,
                _ => shown,
            };
            match earlier {
                None => difference.added.push(name.clone()),
                Some(earlier) if earlier.tool.spec() != tool.spec() || earlier.shown != shown => {
                    difference.changed.push(name.clone());
                }
                Some(_) => {}
            }
            let input = InputSchema::new(tool.spec().input_schema.clone());
            let registered = RegisteredTool { tool, source: source.to_owned(), input, shown };
            state.by_name.insert(name, Arc::new(registered));
        }
        difference.removed = before.into_keys().collect();
        self.announce(&mut state, source, difference);
        homeless
    }

    /// Lists hidden tools from now on.
    pub fn reveal(&self, names: &[ToolName]) {
        let mut state = self.tools.write().unwrap_or_else(PoisonError::into_inner);
        let mut found: BTreeMap<String, Vec<ToolName>> = BTreeMap::new();
        for name in names {
            let Some(place) = state.by_name.get_mut(name) else { continue };
            if place.shown == ToolVisibility::WhenFound {
                let (tool, source) = (Arc::clone(&place.tool), place.source.clone());
                let input = InputSchema::new(tool.spec().input_schema.clone());
                found.entry(source.clone()).or_default().push(name.clone());
                *place =
                    Arc::new(RegisteredTool { tool, source, input, shown: ToolVisibility::Always });
            }
        }
        for (source, changed) in found {
            self.announce(&mut state, &source, RegistryDiff { changed, ..RegistryDiff::default() });
        }
    }

    /// Removes all tools of a source.
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
        self.announce(&mut state, source, RegistryDiff { removed, ..RegistryDiff::default() });
    }

    /// Removes one tool.
    pub fn remove(&self, name: &str) {
        let mut state = self.tools.write().unwrap_or_else(PoisonError::into_inner);
        if let Some((name, tool)) = state.by_name.remove_entry(name) {
            let difference = RegistryDiff { removed: vec![name], ..RegistryDiff::default() };
            self.announce(&mut state, &tool.source, difference);
        }
    }

    /// Remembers tools that this build lacks, so that a call of one can be told why.
    pub fn add_missing(&self, tools: &[MissingTool]) {
        self.tools.write().unwrap_or_else(PoisonError::into_inner).missing.extend(tools);
    }

    /// Why there is no tool of that canonical name in this build, if that is known.
    pub fn missing_advice(&self, name: &str) -> Option<&'static str> {
        let state = self.tools.read().unwrap_or_else(PoisonError::into_inner);
        state.missing.iter().find(|tool| tool.name == name).map(|tool| tool.advice)
    }

    /// The tool with this canonical name.
    pub fn get(&self, name: &str) -> Option<Arc<RegisteredTool>> {
        self.tools.read().unwrap_or_else(PoisonError::into_inner).by_name.get(name).cloned()
    }

    /// All tools, by name.
    pub fn list(&self) -> Vec<Arc<RegisteredTool>> {
        self.tools
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .by_name
            .values()
            .cloned()
            .collect()
    }

    /// The number of changes so far.
    pub fn version(&self) -> u64 {
        self.tools.read().unwrap_or_else(PoisonError::into_inner).version
    }

    /// Subscribes to all changes from now on. A subscriber that lags behind receives an error and
    /// must list the tools again.
    pub fn subscribe(&self) -> broadcast::Receiver<RegistryChange> {
        self.changes.subscribe()
    }

    fn announce(&self, state: &mut ToolTable, source: &str, difference: RegistryDiff) {
        let RegistryDiff { added, removed, changed } = difference;
        if added.is_empty() && removed.is_empty() && changed.is_empty() {
            return;
        }
        state.version += 1;
        let (version, source) = (state.version, source.to_owned());
        let change = RegistryChange { version, source, added, removed, changed };
        // No subscriber is fine.
        let _ = self.changes.send(change);
    }
}
