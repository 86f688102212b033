//! A build without web tools.

use std::sync::Arc;

use zero_runtime::{AnyTool, MissingTool};

const ADVICE: &str = "this build has no web tools; build zero with `--features web`";

/// The tools that are missing.
pub(crate) const MISSING: &[MissingTool] = &[
    MissingTool { name: "WebFetch", advice: ADVICE },
    MissingTool { name: "WebSearch", advice: ADVICE },
    MissingTool { name: "WebRequest", advice: ADVICE },
];

pub(crate) fn tools() -> Vec<Arc<dyn AnyTool>> {
    Vec::new()
}
