//! The tools on a bench, shared by everybody who holds it.
//!
//! They are told to the model with every request, and are the longest part of most; so what has to be
//! made of them is made once for as long as they stay the same.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use super::BenchTool;
use crate::model::ToolDefinition;

/// Tools, in the order in which a model is told of them. Cheap to clone.
#[derive(Clone, Default)]
pub struct Toolbox(Arc<Inner>);

#[derive(Default)]
struct Inner {
    tools: Vec<BenchTool>,
    definitions: OnceLock<Arc<[ToolDefinition]>>,
    weight: OnceLock<u64>,
}

impl Toolbox {
    /// As a model is told of them. The same each time, so that it can be seen that they did not change.
    pub(crate) fn definitions(&self) -> Arc<[ToolDefinition]> {
        let made = || self.iter().map(definition).collect();
        Arc::clone(self.0.definitions.get_or_init(made))
    }

    /// What they weigh, by whatever measure: it is taken once.
    pub(crate) fn weight(&self, of: impl Fn(&BenchTool) -> u64) -> u64 {
        *self.0.weight.get_or_init(|| self.iter().map(of).fold(0, u64::saturating_add))
    }
}

fn definition(tool: &BenchTool) -> ToolDefinition {
    ToolDefinition {
        name: tool.name.clone(),
        description: tool.description.clone(),
        input_schema: tool.input_schema.clone(),
    }
}

impl Deref for Toolbox {
    type Target = [BenchTool];

    fn deref(&self) -> &[BenchTool] {
        &self.0.tools
    }
}

impl From<Vec<BenchTool>> for Toolbox {
    fn from(tools: Vec<BenchTool>) -> Self {
        Self(Arc::new(Inner { tools, ..Inner::default() }))
    }
}

impl FromIterator<BenchTool> for Toolbox {
    fn from_iter<I: IntoIterator<Item = BenchTool>>(tools: I) -> Self {
        Vec::from_iter(tools).into()
    }
}

impl PartialEq for Toolbox {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || **self == **other
    }
}

impl fmt::Debug for Toolbox {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_list().entries(self.iter()).finish()
    }
}
