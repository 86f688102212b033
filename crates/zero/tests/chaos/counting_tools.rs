//! A tool whose side effects are counted.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use tokio_util::sync::CancellationToken;
use zero_core::{ToolCall, ToolKind, ToolOutcome, ToolResult};
use zero_policy::PermissionMode;
use zero_runtime::DialectName;
use zero_runtime::tool::BoxFuture;
use zero_runtime::tool_backend::{
    CallObserver, CatalogEntry, ToolBackend, ToolBackendError, ToolCatalog,
};

/// Its name.
pub(crate) const TOOL: &str = "Count";

/// Counts each effect by its name.
#[derive(Default)]
pub(crate) struct CountingTools(Mutex<BTreeMap<String, u64>>);

impl CountingTools {
    pub(crate) fn counts(&self) -> BTreeMap<String, u64> {
        self.0.lock().unwrap().clone()
    }
}

impl ToolBackend for CountingTools {
    fn load_catalog(
        &self,
        _dialect: DialectName,
    ) -> BoxFuture<'_, Result<ToolCatalog, ToolBackendError>> {
        let count = CatalogEntry {
            name: TOOL.to_owned(),
            canonical: TOOL.to_owned(),
            display_name: None,
            description: "Counts an effect".to_owned(),
            input_schema: json!({"type": "object"}),
            kind: ToolKind::Execute,
            read_only: false,
            info: None,
        };
        let catalog = ToolCatalog {
            cwd: PathBuf::from("/"),
            tools: vec![count].into(),
            ..ToolCatalog::default()
        };
        Box::pin(async { Ok(catalog) })
    }

    fn call(
        &self,
        call: ToolCall,
        _dialect: DialectName,
        _cancel: CancellationToken,
        watch: Arc<dyn CallObserver>,
    ) -> BoxFuture<'_, ToolOutcome> {
        let effect = call.input["effect"].as_str().unwrap_or_default().to_owned();
        let takes = Duration::from_millis(call.input["ms"].as_u64().unwrap_or(0));
        watch.on_described(format!("Count {effect}"), ToolKind::Execute, Vec::new());
        *self.0.lock().unwrap().entry(effect.clone()).or_default() += 1;
        Box::pin(async move {
            tokio::time::sleep(takes).await;
            ToolResult::text(format!("counted {effect}")).into()
        })
    }

    fn set_mode(
        &self,
        _mode: Option<PermissionMode>,
    ) -> BoxFuture<'_, Result<(), ToolBackendError>> {
        Box::pin(async { Ok(()) })
    }

    fn folder(&self) -> Option<PathBuf> {
        None
    }

    fn location(&self) -> String {
        "a counting client".to_owned()
    }
}
