//! Asks whether MCP servers that download themselves, by `npx` or `uvx`, may reach their registries.
//!
//! A server starts beside calls, when no user can be asked. So a command at a terminal asks before:
//! approval adds exactly these hosts to `network` of the server in the user's settings. Where nothing
//! names the registry, `zero mcp status` and others that start servers ask when the server connects to
//! it.

use std::convert::Infallible;
use std::sync::Arc;

use serde_json::json;
use tokio::sync::{mpsc, oneshot};
use zero_exec::services::DownloadApprover;
use zero_mcp::client::server_process::service_request;
use zero_mcp::server_definition::{McpServerDefinition, ServerLaunch, ServerTransport};
use zero_policy::{HostName, HostPattern};
use zero_runtime::tool::BoxFuture;
use zero_sandbox::Workspace;
use zero_settings::WorkspaceSettings;

use crate::AppContext;
use crate::cli::SettingsLayerArgs;
use crate::commands::config::settings_change::{has_value, set_user_value};
use crate::settings_adapter::mcp_servers::configured_servers;
use crate::terminal::escape_line;

/// Most questions that wait for the terminal.
const QUESTIONS_MAX: usize = 16;

/// A server that downloads itself from hosts that it may not reach.
pub(super) struct ClosedDownload {
    alias: String,
    launch: ServerLaunch,
    hosts: Vec<HostName>,
}

impl ClosedDownload {
    /// The value that `network` of the server needs, as JSON.
    fn network(&self) -> serde_json::Value {
        let known = self.launch.network.iter().map(ToString::to_string);
        json!(known.chain(self.hosts.iter().map(ToString::to_string)).collect::<Vec<String>>())
    }

    /// The command that lets it reach the hosts.
    pub(super) fn remedy(&self) -> String {
        let Self { alias, launch, .. } = self;
        format!(
            "`{}` downloads `{alias}` from {}, which it may not reach; to allow that: zero config set mcpServers.{alias}.network '{}'",
            launch.command,
            self.list_hosts(),
            self.network()
        )
    }

    fn list_hosts(&self) -> String {
        self.hosts.iter().map(ToString::to_string).collect::<Vec<String>>().join(" and ")
    }

    /// Asks, and adds the hosts after a yes. Returns whether it was one.
    fn ask(&self, app: &AppContext) -> anyhow::Result<bool> {
        let Some(answers) = app.terminal.answer_source() else { return Ok(false) };
        let Self { alias, launch, .. } = self;
        let words = [std::slice::from_ref(&launch.command), &launch.args].concat();
        app.terminal.err.write(&format!(
            "The MCP server `{alias}` downloads itself when it starts\n  run     {}\n  from    {}\n  \
             It runs in the sandbox. Whoever controls the registry decides what runs.\n",
            escape_line(&words.join(" ")),
            self.list_hosts(),
        ))?;
        if !app.terminal.confirm(&answers, "Let it reach this registry from now on?") {
            app.terminal.print_note(&format!("`{alias}` cannot start without it"));
            return Ok(false);
        }
        set_user_value(app, &format!("mcpServers.{alias}.network"), self.network())?;
        Ok(true)
    }
}

/// Questions of servers that download themselves, about the hosts that they connect to meanwhile.
pub(super) struct DownloadQuestions {
    approver: Arc<QueuedDownloadApprover>,
    received: mpsc::Receiver<DownloadQuestion>,
    /// The servers that can be asked about, each with the host of its last question.
    servers: Vec<ClosedDownload>,
}

struct DownloadQuestion {
    service: String,
    host: HostName,
    reply: oneshot::Sender<bool>,
}

/// Passes questions on to the task that has the terminal.
struct QueuedDownloadApprover {
    sender: mpsc::Sender<DownloadQuestion>,
    /// The services that can be asked about.
    services: Vec<String>,
}

impl DownloadApprover for QueuedDownloadApprover {
    fn ask(&self, service: &str, host: &HostName) -> BoxFuture<'static, Option<bool>> {
        let can_ask = self.services.iter().any(|name| name == service);
        let (sender, service, host) = (self.sender.clone(), service.to_owned(), host.clone());
        Box::pin(async move {
            let (reply, answer) = oneshot::channel();
            if !can_ask || sender.send(DownloadQuestion { service, host, reply }).await.is_err() {
                return None;
            }
            answer.await.ok()
        })
    }
}

impl DownloadQuestions {
    /// Questions about the servers of the user's own settings. `None` if there is no terminal.
    pub(super) fn open(
        app: &AppContext,
        workspace: &Workspace,
        definitions: &[McpServerDefinition],
    ) -> Option<Self> {
        app.terminal.answer_source()?;
        let own = definitions.iter().filter_map(|definition| {
            let ServerTransport::Command(launch) = &definition.transport else { return None };
            let alias = definition.alias.to_string();
            let is_own = is_own_server(app, workspace, &alias).unwrap_or(false);
            let name = service_request(launch, &definition.alias).name;
            let server = ClosedDownload { alias, launch: launch.clone(), hosts: Vec::new() };
            (launch.is_download() && is_own).then_some((name, server))
        });
        let (services, servers) = own.unzip();
        let (sender, received) = mpsc::channel(QUESTIONS_MAX);
        let approver = Arc::new(QueuedDownloadApprover { sender, services });
        Some(Self { approver, received, servers })
    }

    pub(super) fn approver(&self) -> Arc<dyn DownloadApprover> {
        Arc::clone(&self.approver) as Arc<dyn DownloadApprover>
    }

    /// Answers questions for as long as it is polled. The servers wait while the user thinks.
    pub(super) async fn answer_all(&mut self, app: &AppContext) -> Infallible {
        loop {
            let Some(DownloadQuestion { service, host, reply }) = self.received.recv().await else {
                // Not before the approver is dropped, which this holds.
                std::future::pending::<()>().await;
                continue;
            };
            let at = self.approver.services.iter().position(|name| *name == service);
            let Some(server) = at.and_then(|at| self.servers.get_mut(at)) else { continue };
            server.hosts = vec![host];
            let is_allowed = server.ask(app).unwrap_or_else(|error| {
                app.terminal.print_error(&format!("could not write the settings: {error:#}"));
                false
            });
            if is_allowed {
                // The next question is about another one.
                let added = server.hosts.iter().map(|host| HostPattern::parse(&host.to_string()));
                server.launch.network.extend(added.filter_map(Result::ok));
            }
            let _ = reply.send(is_allowed);
        }
    }
}

/// The servers among these that download themselves from hosts that they may not reach.
pub(super) fn find_closed_downloads(
    app: &AppContext,
    workspace: &Workspace,
    settings: &WorkspaceSettings,
    definitions: &[McpServerDefinition],
) -> anyhow::Result<Vec<ClosedDownload>> {
    let launches = definitions.iter().filter_map(|definition| match &definition.transport {
        ServerTransport::Command(launch) => Some((definition, launch)),
        ServerTransport::Http(_) => None,
    });
    let runners: Vec<(&McpServerDefinition, &ServerLaunch)> =
        launches.filter(|(_, launch)| launch.is_download()).collect();
    if runners.is_empty() {
        return Ok(Vec::new());
    }
    let services = app.idle_host(workspace.clone(), settings)?.services();
    let closed = runners.into_iter().map(|(definition, launch)| ClosedDownload {
        alias: definition.alias.to_string(),
        launch: launch.clone(),
        hosts: services.list_closed_download_hosts(&service_request(launch, &definition.alias)),
    });
    Ok(closed.filter(|closed| !closed.hosts.is_empty()).collect())
}

/// Asks about the servers of the user's own settings. Returns whether a setting was changed. Without a
/// terminal, nothing is asked, and such a server does not start.
pub(in crate::commands) fn ask_about_downloads(
    app: &AppContext,
    workspace: &Workspace,
    settings: &WorkspaceSettings,
) -> anyhow::Result<bool> {
    if app.terminal.answer_source().is_none() {
        return Ok(false);
    }
    let servers = configured_servers(settings, &app.config, workspace.cwd());
    let mut is_changed = false;
    for closed in find_closed_downloads(app, workspace, settings, &servers.definitions)? {
        if is_own_server(app, workspace, &closed.alias)? {
            is_changed |= closed.ask(app)?;
        }
    }
    Ok(is_changed)
}

/// Whether the user's settings, and no others, have a server of this name.
fn is_own_server(app: &AppContext, workspace: &Workspace, alias: &str) -> anyhow::Result<bool> {
    let key = format!("mcpServers.{alias}");
    let layer = |user: bool, project: bool, local: bool| SettingsLayerArgs {
        user,
        project,
        local,
        workspace: Some(workspace.cwd().to_owned()),
    };
    Ok(has_value(app, &layer(true, false, false), &key)?
        && !has_value(app, &layer(false, true, false), &key)?
        && !has_value(app, &layer(false, false, true), &key)?)
}
