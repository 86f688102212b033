//! A build without language servers: there is no tool, and a change is never checked.

use std::sync::Arc;

use zero_lsp::LanguageServersConfig;
use zero_runtime::{AnyTool, CallContext, MissingTool, TextChange, ToolBound, ToolHost, ToolReply};
use zero_sandbox::ResolvedPath;

/// The tools that are missing.
pub(crate) const MISSING: &[MissingTool] = &[MissingTool {
    name: "LSP",
    advice: "this build has no language servers; build zero with `--features lsp`",
}];

pub(crate) fn tools() -> Vec<Arc<dyn AnyTool>> {
    Vec::new()
}

/// Does nothing: no tool would use the servers.
pub fn add_language_servers(_host: &ToolHost, _config: LanguageServersConfig) {}

/// A change to check, of which there is none.
#[derive(Debug)]
pub(crate) enum ChangedText {}

impl ChangedText {
    pub(crate) fn from_change(_file: &ResolvedPath, _changed: &TextChange) -> Option<Self> {
        None
    }
}

pub(crate) fn diagnostics_bounds() -> [ToolBound; 0] {
    []
}

pub(crate) async fn append_new_diagnostics<O>(
    reply: ToolReply<O>,
    _changed: Option<ChangedText>,
    _cx: &CallContext,
) -> ToolReply<O> {
    reply
}
