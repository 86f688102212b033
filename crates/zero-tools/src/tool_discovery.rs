//! Tools that a command of the project provides ([`ToolDiscovery`]): one command lists them,
//! another one runs them.
//!
//! The list command prints function declarations as JSON. It runs in the sandbox, outside of calls,
//! when [`ToolDiscovery::refresh`] is called. Its last output is stored, so that the tools are
//! available at once the next time ([`ToolDiscovery::known_tools`]) and stay available when it
//! fails. The call command gets the name of a tool as its last argument and the arguments of the
//! call as JSON on stdin. Each run of it is a call like any other, and the policy checks it as a
//! command.
//!
//! Declarations are untrusted. A tool is named `cmd__NAME`, so that it cannot replace another tool,
//! and an invalid declaration is rejected with the reason.
//!
//! The commands come from settings; whether the workspace that sets them is trusted is checked
//! before they get here.

mod declaration_store;
mod discovered_tool;
mod gemini_schema;
mod list_command;
mod tool_command_report;
mod tool_declaration;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use zero_core::{ToolName, ToolSpec};
use zero_runtime::{AnyTool, ServiceLauncher, ToolRegistry, ToolVisibility};
use zero_sandbox::StateDir;

use declaration_store::DeclarationStore;
pub use discovered_tool::DiscoveredTool;
pub use list_command::ToolDiscoveryError;
pub use tool_declaration::{
    CommandToolDeclaration, RejectedDeclaration, ToolListError, parse_declarations,
};

/// Prefix of the names of these tools, which MCP servers cannot use.
pub const PREFIX: &str = "cmd";
/// The source of these tools in the registry.
pub const SOURCE: &str = "command";
/// How long the list command may take by default.
pub const LIST_TIMEOUT: Duration = Duration::from_secs(30);

/// The commands that provide tools, and where they run.
#[derive(Clone)]
pub struct ToolDiscoveryConfig {
    /// Program and arguments of the list command.
    pub list: Vec<String>,
    /// Program and arguments of the call command. The name of the tool is appended.
    pub call: Vec<String>,
    /// The folder in which both run: a folder of the workspace, usually the first.
    pub folder: PathBuf,
    /// How long the list command may take, usually [`LIST_TIMEOUT`].
    pub list_timeout: Duration,
    /// zero's state folder, in which the last list is stored.
    pub state: StateDir,
    /// Starts the list command.
    pub services: ServiceLauncher,
}

/// The tools that a command of the project provides.
pub struct ToolDiscovery {
    list: Vec<String>,
    call: Arc<[String]>,
    folder: PathBuf,
    list_timeout: Duration,
    store: DeclarationStore,
    services: ServiceLauncher,
}

/// The result of a refresh.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DiscoveryReport {
    /// All tools after the refresh.
    pub tools: Vec<ToolName>,
    /// Tools that were added.
    pub added: Vec<ToolName>,
    /// Tools whose declaration changed.
    pub changed: Vec<ToolName>,
    /// Tools that were removed.
    pub removed: Vec<ToolName>,
    /// Declarations that were rejected, with the reason.
    pub quarantined: Vec<RejectedDeclaration>,
    /// Further notes, such as hosts that were refused to the command.
    pub notes: Vec<String>,
}

impl ToolDiscovery {
    /// Creates the discovery without starting a command.
    pub fn new(config: ToolDiscoveryConfig) -> Self {
        let ToolDiscoveryConfig { list, call, folder, list_timeout, state, services } = config;
        let store = DeclarationStore::new(&state, &folder, &list);
        Self { list, call: call.into(), folder, list_timeout, store, services }
    }

    /// Returns whether the command has ever listed its tools here. If not, [`Self::refresh`] should
    /// be called.
    pub fn has_run(&self) -> bool {
        self.store.load().is_some()
    }

    /// Returns the tools of the stored list. Starts nothing.
    pub fn known_tools(&self) -> Vec<Arc<dyn AnyTool>> {
        self.build_tools(&self.store.load().unwrap_or_default())
    }

    /// Registers the tools of the stored list. Starts nothing.
    pub fn register_known(&self, registry: &ToolRegistry) {
        register_tools(registry, self.known_tools());
    }

    /// Runs the list command and replaces the registered tools with those that it lists. If it
    /// fails, the earlier tools stay.
    pub async fn refresh(
        &self,
        registry: &ToolRegistry,
    ) -> Result<DiscoveryReport, ToolDiscoveryError> {
        let (declared, quarantined, notes) = self.list_tools().await?;
        let (before, tools) = (specs_by_name(&self.known_tools()), self.build_tools(&declared));
        let after = specs_by_name(&tools);
        self.store.save(&declared).map_err(ToolDiscoveryError::Store)?;
        register_tools(registry, tools);
        let mut refreshed = DiscoveryReport { quarantined, notes, ..DiscoveryReport::default() };
        for (name, spec) in &after {
            match before.get(name) {
                None => refreshed.added.push(name.clone()),
                Some(earlier) if earlier != spec => refreshed.changed.push(name.clone()),
                Some(_) => {}
            }
        }
        let is_gone = |name: &ToolName| !after.contains_key(name);
        refreshed.removed = before.into_keys().filter(is_gone).collect();
        refreshed.tools = after.into_keys().collect();
        Ok(refreshed)
    }

    /// Returns what the command lists now, and notes about the run.
    async fn list_tools(
        &self,
    ) -> Result<
        (Vec<CommandToolDeclaration>, Vec<RejectedDeclaration>, Vec<String>),
        ToolDiscoveryError,
    > {
        let survey = list_command::run_list_command(
            &self.services,
            &self.list,
            &self.folder,
            self.list_timeout,
        )
        .await?;
        let list = self.list.clone();
        // Checking untrusted schemas may take long.
        let read = tokio::task::spawn_blocking(move || match parse_declarations(&survey.stdout) {
            Ok((declared, quarantined)) => Ok((declared, quarantined, survey.notes)),
            Err(why) => Err(survey.unreadable_error(&list, why)),
        });
        let lost = |_| ToolDiscoveryError::Failed {
            command: self.list.join(" "),
            how: "its output could not be parsed".to_owned(),
            stderr: String::new(),
        };
        read.await.map_err(lost)?
    }

    fn build_tools(&self, declared: &[CommandToolDeclaration]) -> Vec<Arc<dyn AnyTool>> {
        let tool = |declared: &CommandToolDeclaration| -> Arc<dyn AnyTool> {
            Arc::new(DiscoveredTool::new(declared, &self.call, &self.folder))
        };
        declared.iter().map(tool).collect()
    }
}

fn specs_by_name(tools: &[Arc<dyn AnyTool>]) -> BTreeMap<ToolName, ToolSpec> {
    tools.iter().map(|tool| (tool.spec().name.clone(), tool.spec().clone())).collect()
}

/// Registers the tools. Names were checked to be unique when parsed, and no other tool has a name
/// with [`PREFIX`], so that each can be registered.
fn register_tools(registry: &ToolRegistry, tools: Vec<Arc<dyn AnyTool>>) {
    let tools = tools.into_iter().map(|tool| (tool, ToolVisibility::Always)).collect();
    for rejected in registry.replace(SOURCE, tools) {
        tracing::warn!(tool = %rejected.spec().name, "the name of a discovered tool is already in use");
    }
}
