//! [`HostConnector`], which connects to the servers of a host: it starts processes in the host's
//! sandbox, or uses HTTP.

use std::sync::Arc;

use zero_exec::services::CallRecording;
use zero_runtime::ServiceLauncher;
use zero_runtime::tool::BoxFuture;
use zero_sandbox::ChangeOrigin;

use super::client_transport::{ClientTransport, ServerChannel, ServerConnector, ServerMonitor};
use super::credentials::LoginStore;
use super::error::ServerUnavailableError;
use super::http::{self, NetworkGuard};
use super::server_process::ServerProcess;
use super::status::QuarantinedTool;
use crate::server_definition::{HttpEndpoint, McpServerDefinition, ServerAlias, ServerTransport};
use crate::wire::{ConnectionDiagnostics, DiagnosticsReport};

/// Network access and logins for servers over HTTP.
#[derive(Clone)]
pub struct RemoteServerAccess {
    /// Decides which hosts may be reached.
    pub guard: NetworkGuard,
    /// Stores logins.
    pub credentials: Arc<dyn LoginStore>,
}

/// Connects to the servers of a host.
pub(crate) struct HostConnector {
    services: ServiceLauncher,
    web: RemoteServerAccess,
}

impl HostConnector {
    pub(crate) fn new(services: ServiceLauncher, web: RemoteServerAccess) -> Self {
        Self { services, web }
    }

    fn connect_http(
        &self,
        alias: &ServerAlias,
        endpoint: &HttpEndpoint,
    ) -> Result<ServerChannel, ServerUnavailableError> {
        let RemoteServerAccess { guard, credentials } = &self.web;
        let diagnostics = ConnectionDiagnostics::default();
        let link =
            http::connect(alias, endpoint, guard, Arc::clone(credentials), diagnostics.clone())
                .map_err(|error| ServerUnavailableError::new(error.to_string()))?;
        Ok(ServerChannel {
            link: ClientTransport::new(link),
            monitor: Arc::new(HttpServerMonitor(diagnostics)),
        })
    }
}

impl ServerConnector for HostConnector {
    fn connect<'a>(
        &'a self,
        definition: &'a McpServerDefinition,
    ) -> BoxFuture<'a, Result<ServerChannel, ServerUnavailableError>> {
        Box::pin(async move {
            match &definition.transport {
                ServerTransport::Command(launch) => {
                    let started = ServerProcess::start(&self.services, launch, &definition.alias);
                    let (process, lines) = started.await?;
                    Ok(ServerChannel {
                        link: ClientTransport::new(lines),
                        monitor: Arc::new(process),
                    })
                }
                ServerTransport::Http(endpoint) => self.connect_http(&definition.alias, endpoint),
            }
        })
    }
}

impl ServerMonitor for ServerProcess {
    fn exit_status(&self) -> Option<(Option<i32>, Option<i32>)> {
        self.exit().map(|exit| (exit.code, exit.signal))
    }

    fn stderr_tail(&self) -> String {
        ServerProcess::stderr_tail(self)
    }

    fn is_drained(&self) -> bool {
        ServerProcess::is_drained(self)
    }

    fn close_cause(&self) -> Option<String> {
        self.diagnostics().close_cause().map(|why| why.to_string())
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = ServerProcess::notes(self);
        notes.extend(describe_diagnostics(&self.diagnostics().report()));
        notes
    }

    fn refusals(&self) -> Vec<String> {
        ServerProcess::refusals(self)
    }

    fn take_malformed_tools(&self) -> Vec<QuarantinedTool> {
        take_malformed_tools(self.diagnostics())
    }

    fn is_outdated(&self) -> BoxFuture<'_, bool> {
        Box::pin(ServerProcess::is_outdated(self))
    }

    fn record_call(&self, call: ChangeOrigin) -> Option<CallRecording> {
        ServerProcess::record_call(self, call)
    }

    fn shut_down(&self) -> BoxFuture<'_, ()> {
        Box::pin(ServerProcess::shut_down(self))
    }
}

/// Monitor of a server over HTTP, of which only the messages are known.
struct HttpServerMonitor(ConnectionDiagnostics);

impl ServerMonitor for HttpServerMonitor {
    fn close_cause(&self) -> Option<String> {
        self.0.close_cause().map(|why| why.to_string())
    }

    fn notes(&self) -> Vec<String> {
        describe_diagnostics(&self.0.report())
    }

    fn take_malformed_tools(&self) -> Vec<QuarantinedTool> {
        take_malformed_tools(&self.0)
    }
}

/// Returns the tools of the last listing that could not be parsed, and forgets them.
pub(crate) fn take_malformed_tools(diagnostics: &ConnectionDiagnostics) -> Vec<QuarantinedTool> {
    let report = diagnostics.report();
    diagnostics.forget_quarantined();
    let unread = report.quarantined.into_iter();
    unread.map(|tool| QuarantinedTool { tool: tool.tool, reason: tool.reason }).collect()
}

/// Describes problems with a server's messages, for the user.
pub(crate) fn describe_diagnostics(report: &DiagnosticsReport) -> Vec<String> {
    let counted = |count: u64, what: &str, samples: &[String]| {
        let sample = samples.first().map(|sample| format!(", such as: {sample}"));
        (count > 0).then(|| format!("{count} {what}{}", sample.unwrap_or_default()))
    };
    [
        counted(report.noise, "lines of its output were not messages", &report.noise_samples),
        counted(report.refused, "of its messages were refused", &report.refused_samples),
        counted(report.mended, "parts of its messages were repaired", &report.mended_samples),
        counted(report.unasked_answers, "of its answers matched no request", &[]),
    ]
    .into_iter()
    .flatten()
    .collect()
}
