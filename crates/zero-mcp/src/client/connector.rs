//! How the servers of a host are reached: by programs that run beside its calls, and by HTTP.

use std::sync::Arc;

use zero_runtime::ServiceLauncher;
use zero_runtime::tool::BoxFuture;

use super::client_transport::{ClientTransport, ServerChannel, ServerConnector, ServerMonitor};
use super::credentials::LoginStore;
use super::error::ServerUnavailableError;
use super::http::{self, NetworkGuard};
use super::server_process::ServerProcess;
use super::status::QuarantinedTool;
use crate::server_definition::{HttpEndpoint, McpServerDefinition, ServerAlias, ServerTransport};
use crate::wire::{ConnectionDiagnostics, DiagnosticsReport};

/// What servers are reached with that run elsewhere.
#[derive(Clone)]
pub struct RemoteServerAccess {
    /// What may be connected to.
    pub guard: NetworkGuard,
    /// Where logins are kept.
    pub credentials: Arc<dyn LoginStore>,
}

/// Reaches the servers of a host.
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
        let troubles = ConnectionDiagnostics::default();
        let link = http::connect(alias, endpoint, guard, Arc::clone(credentials), troubles.clone())
            .map_err(|error| ServerUnavailableError::new(error.to_string()))?;
        Ok(ServerChannel {
            link: ClientTransport::new(link),
            witness: Arc::new(HttpServerMonitor(troubles)),
        })
    }
}

impl ServerConnector for HostConnector {
    fn connect<'a>(
        &'a self,
        definition: &'a McpServerDefinition,
    ) -> BoxFuture<'a, Result<ServerChannel, ServerUnavailableError>> {
        Box::pin(async move {
            match &definition.reach {
                ServerTransport::Command(launch) => {
                    let started = ServerProcess::start(&self.services, launch, &definition.alias);
                    let (process, lines) = started.await?;
                    Ok(ServerChannel {
                        link: ClientTransport::new(lines),
                        witness: Arc::new(process),
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

    fn shut_down(&self) -> BoxFuture<'_, ()> {
        Box::pin(ServerProcess::shut_down(self))
    }
}

/// A server that runs elsewhere: all there is to see of it is what it says.
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

/// The tools of the list that was just asked for which could not be read.
pub(crate) fn take_malformed_tools(troubles: &ConnectionDiagnostics) -> Vec<QuarantinedTool> {
    let report = troubles.report();
    troubles.forget_quarantined();
    let unread = report.quarantined.into_iter();
    unread.map(|tool| QuarantinedTool { tool: tool.tool, reason: tool.reason }).collect()
}

/// What went wrong in what a server said, for a person.
pub(crate) fn describe_diagnostics(report: &DiagnosticsReport) -> Vec<String> {
    let counted = |count: u64, what: &str, samples: &[String]| {
        let sample = samples.first().map(|sample| format!(", such as: {sample}"));
        (count > 0).then(|| format!("{count} {what}{}", sample.unwrap_or_default()))
    };
    [
        counted(report.noise, "lines of its output were no messages", &report.noise_samples),
        counted(report.refused, "of its messages were refused", &report.refused_samples),
        counted(report.mended, "parts of its messages were mended", &report.mended_samples),
        counted(report.unasked_answers, "of its answers were to nothing that was asked", &[]),
    ]
    .into_iter()
    .flatten()
    .collect()
}
