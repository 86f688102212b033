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
pub struct RegisteredTool {
    /// The implementation, shared by all calls of the tool.
    pub tool: Arc<dyn AnyTool>,
    /// Who brought it: `builtin`, or the name of a server or command.
    pub source: String,
    /// Its input schema, with the checker.
    pub input: InputSchema,
    /// Whether it stands in lists. It can be called either way.
    pub shown: ToolVisibility,
}

/// Whether a tool stands in lists. A model pays for every schema it is shown, so that of many
/// tools some wait until somebody looks for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ToolVisibility {
    /// It does.
    #[default]
    Always,
    /// Only once it was looked for: see [`ToolRegistry::reveal`].
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
    /// Names whose tool is another than before, or is shown now.
    pub changed: Vec<ToolName>,
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
pub struct ToolRegistry {
    tools: RwLock<ToolTable>,
    changes: broadcast::Sender<RegistryChange>,
}

/// What a step changed.
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
    /// Adds tools of a source, all or none: a name that is taken, or comes twice, refuses them all.
    pub fn add(&self, source: &str, tools: Vec<Arc<dyn AnyTool>>) -> Result<(), DuplicateTools> {
        let mut state = self.tools.write().unwrap_or_else(PoisonError::into_inner);
        let mut taken = Vec::new();
        let mut added: BTreeMap<ToolName, Arc<RegisteredTool>> = BTreeMap::new();
        for tool in tools {
            let name = tool.spec().name.clone();
            let holder = state.by_name.get(&name).map(|holder| holder.source.clone());
            let input = InputSchema::new(tool.spec().input_schema.clone());
            let shown = ToolVisibility::Always;
            let registered =
                Arc::new(RegisteredTool { tool, source: source.to_owned(), input, shown });
            let twice = added.insert(name.clone(), registered).map(|_| source.to_owned());
            taken.extend(holder.or(twice).map(|by| (name, by)));
        }
        if !taken.is_empty() {
            return Err(DuplicateTools { source_name: source.to_owned(), taken });
        }
        let names = added.keys().cloned().collect();
        state.by_name.append(&mut added);
        self.announce(&mut state, source, RegistryDiff { added: names, ..RegistryDiff::default() });
        Ok(())
    }

    /// Puts these in the place of everything a source brought so far, in one step. A name that
    /// another source has is left to it, and so is the second of two that are the same: the tools
    /// that found no place are given back. Those that did not change stay as they were.
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
                // What somebody found stays found.
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

    /// Shows tools from now on that waited to be looked for.
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

    /// The tool of that canonical name.
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

    /// Counts the changes so far.
    pub fn version(&self) -> u64 {
        self.tools.read().unwrap_or_else(PoisonError::into_inner).version
    }

    /// Tells of every change from now on. A listener that lags is told so and lists again.
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
        // Nobody listening is fine.
        let _ = self.changes.send(change);
    }
}
