//! Configured MCP servers of a workspace, for the `zero mcp` commands.

use std::path::PathBuf;

use zero_mcp::client::McpServerSet;
use zero_mcp::server_definition::McpServerDefinition;
use zero_sandbox::Workspace;
use zero_settings::WorkspaceSettings;

use super::download_hosts::DownloadQuestions;
use crate::AppContext;
use crate::exit::UsageError;
use crate::host_setup::small_runtime;
use crate::settings_adapter::mcp_servers::{ConfiguredMcpServers, configured_servers};

/// Configured MCP servers of a workspace, with its settings.
pub(super) struct WorkspaceServers {
    pub(super) workspace: Workspace,
    pub(super) settings: WorkspaceSettings,
    pub(super) servers: ConfiguredMcpServers,
}

impl WorkspaceServers {
    /// Reads the settings of a folder.
    pub(super) fn load(app: &AppContext, folder: Option<&PathBuf>) -> anyhow::Result<Self> {
        let folder = folder.map(std::slice::from_ref).unwrap_or_default();
        let workspace = app.config.open_workspace(folder)?;
        let settings = app.load_settings(&workspace, &[])?;
        if let Some(note) = settings.trust_note() {
            app.terminal.print_note(&note);
        }
        let servers = configured_servers(&settings, &app.config, workspace.cwd());
        Ok(Self { workspace, settings, servers })
    }

    /// Starts the MCP client for `work` and stops the servers afterwards. On a terminal, it asks about
    /// the hosts from which servers download themselves.
    pub(super) fn run_with_servers<T>(
        self,
        app: &AppContext,
        work: impl AsyncFnOnce(&McpServerSet) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let Self { workspace, settings, servers } = self;
        let host = app.idle_host(workspace.clone(), &settings)?;
        let mut questions = DownloadQuestions::open(app, &workspace, &servers.definitions);
        let mut services = host.services();
        if let Some(questions) = &questions {
            services = services.with_download_approver(questions.approver());
        }
        let outside = app.external_tools_started_by(services, &host, &settings, servers, None);
        let runtime = small_runtime()?;
        let done = runtime.block_on(async {
            let done = match &mut questions {
                Some(questions) => tokio::select! {
                    done = work(&outside.servers) => done,
                    never = questions.answer_all(app) => match never {},
                },
                None => work(&outside.servers).await,
            };
            outside.stop().await;
            done
        });
        runtime.shutdown_background();
        done
    }

    /// Finds a server that can be used; the error explains why one cannot.
    pub(super) fn find_server(&self, alias: &str) -> Result<&McpServerDefinition, UsageError> {
        let mut usable = self.servers.definitions.iter();
        if let Some(found) = usable.find(|server| server.alias.as_str() == alias) {
            return Ok(found);
        }
        let ConfiguredMcpServers { problems, turned_off, denied, .. } = &self.servers;
        let mut unused = problems.iter().chain(turned_off).chain(denied);
        if let Some(one) = unused.find(|one| one.alias == alias) {
            let what = format!("server `{alias}` cannot be used ({}): {}", one.written_at, one.why);
            return Err(UsageError(what));
        }
        let names: Vec<&str> =
            self.servers.definitions.iter().map(|server| server.alias.as_str()).collect();
        let set_aside = format!("mcpServers.{alias}");
        if self.settings.inactive_entries().any(|entry| entry.key == set_aside) {
            return Err(UsageError(format!(
                "server `{alias}` is not active until the folder is trusted; see `zero trust`"
            )));
        }
        Err(UsageError(
            match zero_runtime::name_suggestions::suggest_names(alias, names.clone(), 1).pop() {
                Some(nearest) => format!("there is no server `{alias}`; did you mean `{nearest}`?"),
                None if names.is_empty() => format!(
                    "there is no server `{alias}`, because none is configured; add it with `zero config set mcpServers.{alias}.command PROGRAM`"
                ),
                None => {
                    format!("there is no server `{alias}`; the servers are {}", names.join(", "))
                }
            },
        ))
    }
}
