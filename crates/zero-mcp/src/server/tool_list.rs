//! [`McpToolListCache`], the tool list, built once for each version of the registry.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::model::Tool;
use tokio::sync::{broadcast, watch};
use tokio_util::sync::CancellationToken;
use zero_core::{SecretMask, ToolName};
use zero_runtime::dialect::DialectTool;
use zero_runtime::{Dialect, RegistryChange, ToolRegistry};

use super::mcp_format;

/// How long changes are collected before clients are notified: a new server adds many tools.
const CHANGE_DEBOUNCE: Duration = Duration::from_millis(50);

/// The tool list for one version of the registry.
pub(super) struct McpToolListSnapshot {
    version: u64,
    pub(super) tools: Vec<Tool>,
    indexes: HashMap<String, usize>,
}

impl McpToolListSnapshot {
    /// Returns the tool with this name.
    pub(super) fn get(&self, name: &str) -> Option<&Tool> {
        self.indexes.get(name).and_then(|index| self.tools.get(*index))
    }
}

/// The tool list of a server.
pub(super) struct McpToolListCache {
    registry: Arc<ToolRegistry>,
    dialect: Arc<Dialect>,
    order: Vec<ToolName>,
    latest: Mutex<Option<Arc<McpToolListSnapshot>>>,
    /// The list that clients have, or were told is outdated.
    announced: Mutex<Option<Arc<McpToolListSnapshot>>>,
}

impl McpToolListCache {
    pub(super) fn new(
        registry: Arc<ToolRegistry>,
        dialect: Arc<Dialect>,
        order: Vec<ToolName>,
    ) -> Self {
        Self { registry, dialect, order, latest: Mutex::default(), announced: Mutex::default() }
    }

    /// Returns the current list.
    pub(super) fn snapshot(&self) -> Arc<McpToolListSnapshot> {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        // Read before the list is built: after a change in between, the next call builds it again.
        let version = self.registry.version();
        match &*latest {
            Some(listed) if listed.version == version => Arc::clone(listed),
            _ => {
                let listed = Arc::new(self.build(version));
                self.announced
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .get_or_insert_with(|| Arc::clone(&listed));
                *latest = Some(Arc::clone(&listed));
                listed
            }
        }
    }

    fn build(&self, version: u64) -> McpToolListSnapshot {
        let mut offered = self.dialect.list_tools(&self.registry);
        sort_tools(&mut offered, &self.order);
        let tools: Vec<Tool> = offered.iter().map(mcp_format::to_tool).collect();
        let indexes =
            tools.iter().enumerate().map(|(index, tool)| (tool.name.to_string(), index)).collect();
        McpToolListSnapshot { version, tools, indexes }
    }

    /// Whether clients should be notified of a change. A list that no client has seen has not
    /// changed.
    fn has_unannounced_change(&self) -> bool {
        let announced = self.announced.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(announced) = announced else { return false };
        let now = self.snapshot();
        if announced.tools == now.tools {
            return false;
        }
        *self.announced.lock().unwrap_or_else(PoisonError::into_inner) = Some(now);
        true
    }
}

/// Sorts tools by zero's own order, whatever their names in the dialect; tools from elsewhere
/// follow in their order.
pub fn sort_tools(offered: &mut [DialectTool], order: &[ToolName]) {
    let index = |tool: &DialectTool| {
        let name = &tool.registered.tool.spec().name;
        order.iter().position(|known| known == name).unwrap_or(order.len())
    };
    offered.sort_by_key(index);
}

/// The tools with secret values replaced in all their texts: descriptions come from other servers and
/// from commands of a project. A tool that cannot be shown without a value is left out.
pub(super) fn mask_tools(tools: &[Tool], mask: &SecretMask) -> Vec<Tool> {
    let masked = |tool: &Tool| {
        let written = serde_json::to_value(tool).ok()?;
        let mut clean = written.clone();
        mask.mask_json(&mut clean);
        if clean == written { Some(tool.clone()) } else { serde_json::from_value(clean).ok() }
    };
    match mask.is_empty() {
        true => tools.to_vec(),
        false => tools.iter().filter_map(masked).collect(),
    }
}

/// Increments `announced` whenever clients should list the tools again, until `stop`.
pub(super) async fn watch_changes(
    listing: Arc<McpToolListCache>,
    mut changes: broadcast::Receiver<RegistryChange>,
    announced: watch::Sender<u64>,
    stop: CancellationToken,
) {
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            change = changes.recv() => match change {
                Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => {}
                Err(broadcast::error::RecvError::Closed) => return,
            },
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(CHANGE_DEBOUNCE) => {}
        }
        // The list that is built next contains all changes so far.
        changes = changes.resubscribe();
        if listing.has_unannounced_change() {
            announced.send_modify(|count| *count += 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use zero_core::SecretValue;

    #[test]
    fn secret_values_are_masked_in_every_text_of_a_tool() {
        const TOKEN: &str = "tok_8fJ2kQ9vLxZw3Rt";
        let tool: Tool = serde_json::from_value(json!({
            "name": "x__deploy",
            "description": format!("Deploys with {TOKEN}"),
            "inputSchema": {"type": "object", "properties": {"key": {"default": TOKEN}}},
        }))
        .unwrap();
        let value = SecretValue { name: "API_TOKEN".to_owned(), text: TOKEN.to_owned() };
        let clean = mask_tools(std::slice::from_ref(&tool), &SecretMask::new([value]));
        let shown = serde_json::to_string(&clean).unwrap();
        assert!(!shown.contains("8fJ2") && shown.contains("‹secret API_TOKEN›"), "{shown}");
        let plain = mask_tools(std::slice::from_ref(&tool), &SecretMask::default());
        assert_eq!(plain, [tool]);
    }
}
