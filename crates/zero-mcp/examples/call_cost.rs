//! Measures the cost of a tool call within the process and through the MCP client, in nanoseconds.
//!
//! Prints one line of JSON with medians: `inside_ns`, `LS` of an empty folder within this process,
//! to be subtracted from the cost of the same call through `zero mcp`; and `through_client_ns`, a
//! call of a tool of another server that answers at once, through the whole pipeline. The arguments
//! are an empty folder, a server program that lists a tool `work` when its argument is `good`, and
//! the number of calls. `cargo xtask bench` runs it.
#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a measurement, not part of the product"
)]

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use zero_core::{SessionId, ToolCall, ToolError};
use zero_mcp::client::credentials::{CredentialVault, DesktopKeyring};
use zero_mcp::client::http::NetworkGuard;
use zero_mcp::client::{
    McpServerSet, McpServerSetConfig, RemoteServerAccess, SCHEMA_TOKENS_MAX, ServerPool,
};
use zero_mcp::server_definition::{
    CALL_TIMEOUT_MAX, McpServerDefinition, STARTUP_TIMEOUT, ServerAlias, ServerLaunch,
    ServerTransport,
};
use zero_runtime::tool::BoxFuture;
use zero_runtime::tool_host::new_call_id;
use zero_runtime::{
    ApprovalAnswer, ApprovalQuestion, Approver, Dialect, DialectName, ToolHost, ToolHostConfig,
    ToolHostSession,
};
use zero_sandbox::{StateDir, Workspace};

const WARM_UP_CALLS: usize = 200;

fn main() -> Result<(), Box<dyn Error>> {
    zero_sandbox::helper_process::dispatch_helper();
    let mut args = std::env::args().skip(1);
    let mut next = || args.next().ok_or("name a folder, a server and a number of calls");
    let (folder, server, calls) = (PathBuf::from(next()?), next()?, next()?.parse()?);
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(measure(&folder, server, calls))
}

async fn measure(folder: &Path, server: String, calls: usize) -> Result<(), Box<dyn Error>> {
    let place = BenchmarkHost::new(folder)?;
    let inside = place.measure_median("LS", json!({"path": "."}), calls).await?;
    let servers = place.build_servers(server)?;
    servers.wait_until_ready("other").await.map_err(|error| error.to_string())?;
    let through_client = place.measure_median("other__work", json!({}), calls).await?;
    servers.stop().await;
    println!(
        "{}",
        json!({"inside_ns": inside.as_nanos() as u64, "through_client_ns": through_client.as_nanos() as u64})
    );
    Ok(())
}

struct BenchmarkHost {
    work: PathBuf,
    host: Arc<ToolHost>,
    session: ToolHostSession,
    dialect: Dialect,
}

impl BenchmarkHost {
    fn new(folder: &Path) -> Result<Self, Box<dyn Error>> {
        let work = folder.join("work");
        std::fs::create_dir_all(&work)?;
        let workspace = Workspace::open(std::slice::from_ref(&work), None)?;
        let mut config = ToolHostConfig::new(workspace, StateDir::new(folder.join("state")));
        config.approver = Some(Arc::new(AllowAllApprover));
        let host = Arc::new(ToolHost::new(config));
        host.registry().add("builtin", zero_tools::builtin_tools())?;
        let session = host.open_session(SessionId::from_bits(1))?;
        Ok(Self { work, host, session, dialect: Dialect::new(DialectName::Canonical) })
    }

    fn build_servers(&self, server: String) -> Result<Arc<McpServerSet>, Box<dyn Error>> {
        let host = &self.host;
        let definition = McpServerDefinition {
            alias: ServerAlias::new("other")?,
            transport: ServerTransport::Command(ServerLaunch {
                command: server,
                args: vec!["good".to_owned()],
                variables: Vec::new(),
                folder: self.work.clone(),
                network: Vec::new(),
                writable: Vec::new(),
            }),
            startup_timeout: STARTUP_TIMEOUT,
            call_timeout: None,
            call_timeout_max: CALL_TIMEOUT_MAX,
            tool_timeouts: Default::default(),
            tools_allowed: None,
            tools_denied: Vec::new(),
            written_at: "here".to_owned(),
        };
        Ok(McpServerSet::new(McpServerSetConfig {
            services: host.services(),
            web: RemoteServerAccess {
                guard: NetworkGuard::new(Arc::clone(host.policy()), host.resolver_config().clone()),
                credentials: Arc::new(CredentialVault::new(
                    host.state(),
                    Arc::new(DesktopKeyring::LOGINS),
                )),
            },
            registry: Arc::clone(host.registry()),
            state: host.state().clone(),
            definitions: vec![definition],
            schema_tokens_max: SCHEMA_TOKENS_MAX,
            elicitor: None,
            pool: Arc::new(ServerPool::default()),
            confined_by: String::new(),
        }))
    }

    /// Returns the median duration of many calls.
    async fn measure_median(
        &self,
        tool: &str,
        input: Value,
        calls: usize,
    ) -> Result<Duration, ToolError> {
        let mut durations = Vec::with_capacity(calls);
        for call in 0..WARM_UP_CALLS + calls {
            let took = self.time_call(tool, input.clone()).await?;
            if call >= WARM_UP_CALLS {
                durations.push(took);
            }
        }
        durations.sort_unstable();
        Ok(durations.get(durations.len() / 2).copied().unwrap_or_default())
    }

    async fn time_call(&self, tool: &str, input: Value) -> Result<Duration, ToolError> {
        let (id, session) = (new_call_id(), self.session.id().cloned());
        let call = ToolCall { id, session, tool: tool.to_owned(), input, timeout: None };
        let start = Instant::now();
        let report =
            self.host.call(&self.session, &self.dialect, call, &CancellationToken::new()).await;
        let took = start.elapsed();
        report.outcome.map(|_| took)
    }
}

/// Allows everything, because the user's time is not measured.
struct AllowAllApprover;

impl Approver for AllowAllApprover {
    fn name(&self) -> &str {
        "a measurement"
    }

    fn ask<'a>(&'a self, _: &'a ApprovalQuestion) -> BoxFuture<'a, ApprovalAnswer> {
        Box::pin(std::future::ready(ApprovalAnswer::AllowOnce))
    }
}
