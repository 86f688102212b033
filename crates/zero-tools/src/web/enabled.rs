//! The list of web tools.

use std::sync::Arc;

use zero_runtime::{AnyTool, MissingTool, erase};

use crate::web_fetch::WebFetchTool;
use crate::web_request::WebRequestTool;
use crate::web_search::WebSearchTool;

/// No tool is missing.
pub(crate) const MISSING: &[MissingTool] = &[];

pub(crate) fn tools() -> Vec<Arc<dyn AnyTool>> {
    vec![erase(WebFetchTool::default()), erase(WebSearchTool::default()), erase(WebRequestTool)]
}
