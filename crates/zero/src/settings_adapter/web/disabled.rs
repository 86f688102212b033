//! A build without web tools. A call of WebSearch and `zero doctor` report that.

use std::sync::Arc;

use zero_runtime::AnyTool;
use zero_settings::WorkspaceSettings;

use crate::environment::EnvironmentConfig;

pub(crate) fn search_tool(
    _settings: &WorkspaceSettings,
    _config: &EnvironmentConfig,
) -> Option<Arc<dyn AnyTool>> {
    None
}
