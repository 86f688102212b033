//! `zero mcp`: serves zero's tools over MCP.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use zero_mcp::server::http::PATH;
use zero_mcp::server::{
    McpApprover, McpCallRouter, McpElicitor, McpHttpConfig, McpObserver, McpServiceConfig,
    McpServiceError, NetworkExposure, serve_http, serve_stdio,
};
use zero_runtime::{Approver, ToolHost};
use zero_sandbox::Workspace;
use zero_settings::WorkspaceSettings;

use crate::AppContext;
use crate::approval::AutoApprover;
use crate::cli::McpServeArgs;
use crate::commands::tools_call::signals;
use crate::exit::{ExitOutcome, UsageError};
use crate::host_setup::small_runtime;
use crate::secret;

/// Time limit for the MCP servers that zero uses to exit at the end.
const SHUTDOWN_TIME_MAX: Duration = Duration::from_millis(400);

/// Advice for calls denied because the client cannot ask its user.
const HOW_TO_ALLOW: &str = "use a client that can ask you, or start `zero mcp` with `--yes`";

pub(super) fn run(app: &AppContext, args: &McpServeArgs) -> anyhow::Result<ExitOutcome> {
    let app = &app.with_secret_files(&args.token_file);
    let workspace = app.config.open_workspace(&args.workspace)?;
    let settings = app.load_settings(&workspace, &args.settings)?;
    for line in settings.trust_note().into_iter().chain(settings.warnings()) {
        app.terminal.print_note(&line);
    }
    if args.http.is_none() {
        app.terminal.print_protocol_hint(
            "the Model Context Protocol",
            "`zero mcp install` makes a program use it, `zero mcp --help` lists the other commands",
        );
    }
    let door = args.http.map(|address| McpHttpListener::open(app, args, address)).transpose()?;
    let router = McpCallRouter::new();
    let host = Arc::new(build_host(app, args, workspace, &settings, &router)?);
    let outside = app.external_tools(&host, &settings, Some(McpElicitor::new(Arc::clone(&router))));
    outside.register_known();
    let runtime = small_runtime()?;
    let served = runtime.block_on(async {
        let stop = CancellationToken::new();
        signals::cancel_on_interrupt(&stop);
        outside.start_unknown();
        let mut config = McpServiceConfig::new(Arc::clone(&host), router);
        config.dialect = args.dialect;
        config.order = app.tool_order();
        config.folders = host.workspace().roots().map(Path::to_owned).collect();
        config.stop = stop;
        let served = match door {
            None => serve_stdio(config).await,
            Some(door) => door.serve(app, config).await,
        };
        // Give the MCP servers a moment to exit by themselves; then they are killed.
        let _ = tokio::time::timeout(SHUTDOWN_TIME_MAX, outside.stop()).await;
        served
    });
    // A pending read of stdin must not delay the exit.
    runtime.shutdown_background();
    served.map(|()| ExitOutcome::Ok).context("could not serve the tools over MCP")
}

fn build_host(
    app: &AppContext,
    args: &McpServeArgs,
    workspace: Workspace,
    settings: &WorkspaceSettings,
    router: &Arc<McpCallRouter>,
) -> anyhow::Result<ToolHost> {
    let mut config = app.host_config(workspace, settings, args.mode)?;
    args.set_limits(&mut config.limits);
    config.approver = Some(match args.yes {
        true => Arc::new(AutoApprover { name: "--yes" }) as Arc<dyn Approver>,
        false => McpApprover::new(Arc::clone(router)),
    });
    config.elicitor = Some(McpElicitor::new(Arc::clone(router)));
    config.how_to_allow = HOW_TO_ALLOW.to_owned();
    config.observer = Some(McpObserver::new(Arc::clone(router)));
    app.build_host(config, settings)
}

/// HTTP listener and its access rules.
struct McpHttpListener {
    socket: std::net::TcpListener,
    token: String,
    token_is_fresh: bool,
    reachable: NetworkExposure,
    hosts: Vec<String>,
    origins: Vec<String>,
}

impl McpHttpListener {
    fn open(app: &AppContext, args: &McpServeArgs, address: SocketAddr) -> anyhow::Result<Self> {
        check_address(address, args.allow_remote)?;
        let token = match &args.token_file {
            Some(file) => secret::read_file(app, &file.display().to_string(), "token")?,
            None => secret::generate_token()?,
        };
        let socket = std::net::TcpListener::bind(address).map_err(|error| {
            UsageError(format!("could not listen on `{address}`: {error}; choose another port"))
        })?;
        socket.set_nonblocking(true).context("could not configure the socket")?;
        let reachable = match args.allow_remote {
            true => NetworkExposure::OtherMachines,
            false => NetworkExposure::ThisMachine,
        };
        let (hosts, origins) = (args.allow_host.clone(), args.allow_origin.clone());
        let token_is_fresh = args.token_file.is_none();
        Ok(Self { socket, token, token_is_fresh, reachable, hosts, origins })
    }

    async fn serve(
        self,
        app: &AppContext,
        config: McpServiceConfig,
    ) -> Result<(), McpServiceError> {
        let listener = TcpListener::from_std(self.socket).map_err(McpServiceError::Socket)?;
        let address = listener.local_addr().map_err(McpServiceError::Socket)?;
        app.terminal.print_note(&format!("serving on http://{address}{PATH}"));
        // The token is printed, not passed as an argument, since other users can see arguments.
        if self.token_is_fresh {
            app.terminal
                .print_note(&format!("clients must send `Authorization: Bearer {}`", self.token));
        }
        let mut http = McpHttpConfig::new(listener, self.token);
        http.reachable = self.reachable;
        http.hosts = self.hosts;
        http.origins = self.origins;
        http.stop = config.stop.clone();
        serve_http(config, http).await
    }
}

/// Rejects addresses that other machines can reach, unless `allow_remote` is set.
fn check_address(address: SocketAddr, allow_remote: bool) -> Result<(), UsageError> {
    if allow_remote || address.ip().is_loopback() {
        return Ok(());
    }
    Err(UsageError(format!(
        "`{address}` is reachable from other machines; use 127.0.0.1, or pass `--allow-remote`"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remote_listening_requires_explicit_flag() {
        for (address, allow_remote, fits) in [
            ("127.0.0.1:0", false, true),
            ("[::1]:80", false, true),
            ("0.0.0.0:80", false, false),
            ("192.168.0.1:80", false, false),
            ("0.0.0.0:80", true, true),
        ] {
            let address = address.parse().unwrap();
            assert_eq!(check_address(address, allow_remote).is_ok(), fits, "{address}");
        }
    }
}
