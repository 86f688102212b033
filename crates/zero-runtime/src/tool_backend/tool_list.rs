//! The tools of a catalog, shared by all its copies.
//!
//! They are part of every request to the model, and are the longest part of most; so what has to be
//! made of them is made once for as long as they stay the same.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use serde_json::Value;

use super::CatalogEntry;

/// A tool, as requests describe it to a model.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelToolDefinition {
    /// Its name in the agent's dialect.
    pub name: String,
    /// What it does.
    pub description: String,
    /// JSON Schema of its input.
    pub input_schema: Value,
}

/// Tools, in the order of the request to the model. Cheap to clone.
#[derive(Clone, Default)]
pub struct ToolList(Arc<ToolListInner>);

#[derive(Default)]
struct ToolListInner {
    tools: Vec<CatalogEntry>,
    definitions: OnceLock<Arc<[ModelToolDefinition]>>,
    weight: OnceLock<u64>,
    /// The tool that was added last, and the list with it.
    extended: Mutex<Option<(CatalogEntry, ToolList)>>,
}

impl ToolList {
    /// As in a request to a model. The same each time, so that it can be seen that they did not change.
    pub fn definitions(&self) -> Arc<[ModelToolDefinition]> {
        let made = || self.iter().map(to_definition).collect();
        Arc::clone(self.0.definitions.get_or_init(made))
    }

    /// The same tools and one more. The same list each time for the same tool.
    #[must_use]
    pub fn with_tool(&self, tool: CatalogEntry) -> Self {
        let mut extended = self.0.extended.lock().unwrap_or_else(PoisonError::into_inner);
        match &*extended {
            Some((known, list)) if *known == tool => list.clone(),
            _ => {
                let list: Self = self.iter().chain([&tool]).cloned().collect();
                *extended = Some((tool, list.clone()));
                list
            }
        }
    }

    /// What they weigh, by whatever measure: it is taken once.
    pub fn weight(&self, of: impl Fn(&CatalogEntry) -> u64) -> u64 {
        *self.0.weight.get_or_init(|| self.iter().map(of).fold(0, u64::saturating_add))
    }
}

fn to_definition(tool: &CatalogEntry) -> ModelToolDefinition {
    ModelToolDefinition {
        name: tool.name.clone(),
        description: tool.description.clone(),
        input_schema: tool.input_schema.clone(),
    }
}

impl Deref for ToolList {
    type Target = [CatalogEntry];

    fn deref(&self) -> &[CatalogEntry] {
        &self.0.tools
    }
}

impl From<Vec<CatalogEntry>> for ToolList {
    fn from(tools: Vec<CatalogEntry>) -> Self {
        Self(Arc::new(ToolListInner { tools, ..ToolListInner::default() }))
    }
}

impl FromIterator<CatalogEntry> for ToolList {
    fn from_iter<I: IntoIterator<Item = CatalogEntry>>(tools: I) -> Self {
        Vec::from_iter(tools).into()
    }
}

impl PartialEq for ToolList {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || **self == **other
    }
}

impl fmt::Debug for ToolList {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_list().entries(self.iter()).finish()
    }
}
