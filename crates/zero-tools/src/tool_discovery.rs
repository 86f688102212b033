//! Tools that a command of the project brings: one command lists them, another runs them.
//!
//! The first prints function declarations, as JSON. It runs beside calls, confined, when somebody
//! asks for it ([`ToolDiscovery::refresh`]); what it said last is kept, so that the tools are there at
//! once the next time ([`ToolDiscovery::known_tools`]) and stay when it fails. The second gets the name of a
//! tool as its last word and the arguments as JSON on its input; each run of it is a call like any
//! other, judged as the command that it is.
//!
//! Nothing that a command declares is trusted: a tool is called `cmd__NAME`, so that it takes
//! nobody's place, and one that makes no sense is set aside with the reason.
//!
//! Not here: which commands these are, and whether the workspace that names them is trusted.

mod declaration_store;
mod depth_limited_json;
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

/// The first part of the names of these tools, which no server can have for its own.
pub const PREFIX: &str = "cmd";
/// What brings them, in the registry.
pub const SOURCE: &str = "command";
/// How long the command that lists them may take.
pub const LIST_TIMEOUT: Duration = Duration::from_secs(30);

/// The commands that bring tools, and where they run.
#[derive(Clone)]
pub struct ToolDiscoveryConfig {
    /// The words of the command that lists the tools.
    pub list: Vec<String>,
    /// The words of the command that runs one; its name follows as the last word.
    pub call: Vec<String>,
    /// Where both run: a folder of the workspace, and usually its first.
    pub folder: PathBuf,
    /// How long the command that lists may take, usually [`LIST_TIMEOUT`].
    pub list_timeout: Duration,
    /// zero's own folder; what was listed last is kept in it.
    pub state: StateDir,
    /// Starts the command that lists.
    pub services: ServiceLauncher,
}

/// The tools that a command of the project brings.
pub struct ToolDiscovery {
    list: Vec<String>,
    call: Arc<[String]>,
    folder: PathBuf,
    list_timeout: Duration,
    store: DeclarationStore,
    services: ServiceLauncher,
}

/// What a refresh came to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DiscoveryReport {
    /// The tools there are now.
    pub tools: Vec<ToolName>,
    /// Those that were not there before.
    pub added: Vec<ToolName>,
    /// Those that say something else about themselves than before.
    pub changed: Vec<ToolName>,
    /// Those that are no longer there.
    pub removed: Vec<ToolName>,
    /// What was declared and is no tool, and why.
    pub quarantined: Vec<RejectedDeclaration>,
    /// What else is to be known, such as hosts that the command was refused.
    pub notes: Vec<String>,
}

impl ToolDiscovery {
    /// Starts nothing.
    pub fn new(config: ToolDiscoveryConfig) -> Self {
        let ToolDiscoveryConfig { list, call, folder, list_timeout, state, services } = config;
        let store = DeclarationStore::new(&state, &folder, &list);
        Self { list, call: call.into(), folder, list_timeout, store, services }
    }

    /// Whether the command ever listed its tools here. If it did not, somebody should
    /// [refresh](Discovery::refresh).
    pub fn has_run(&self) -> bool {
        self.store.load().is_some()
    }

    /// The tools as they were listed last. Starts nothing.
    pub fn known_tools(&self) -> Vec<Arc<dyn AnyTool>> {
        self.build_tools(&self.store.load().unwrap_or_default())
    }

    /// Registers the tools as they were listed last. Starts nothing.
    pub fn register_known(&self, registry: &ToolRegistry) {
        register_tools(registry, self.known_tools());
    }

    /// Has the command list its tools, and puts them in the place of those it listed before. When
    /// it fails, those stay.
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

    /// What the command lists now, and what is to be known of its run.
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
        // Schemas from elsewhere may take their time.
        let read = tokio::task::spawn_blocking(move || match parse_declarations(&survey.stdout) {
            Ok((declared, quarantined)) => Ok((declared, quarantined, survey.notes)),
            Err(why) => Err(survey.unreadable_error(&list, why)),
        });
        let lost = |_| ToolDiscoveryError::Failed {
            command: self.list.join(" "),
            how: "what it printed could not be looked at".to_owned(),
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

/// Names are checked to be apart when they are parsed, and nobody else's begin with [`PREFIX`], so
/// that every tool finds its place.
fn register_tools(registry: &ToolRegistry, tools: Vec<Arc<dyn AnyTool>>) {
    let tools = tools.into_iter().map(|tool| (tool, ToolVisibility::Always)).collect();
    for homeless in registry.replace(SOURCE, tools) {
        tracing::warn!(tool = %homeless.spec().name, "the name of a discovered tool is taken");
    }
}
