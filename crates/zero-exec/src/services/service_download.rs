//! Services that download themselves when they start, by `npx` or `uvx`.
//!
//! Like a command that downloads packages, such a service reaches its registry only if the user or a rule
//! allowed exactly that. One whose configured registry is closed is refused at once, with the hosts: it
//! would otherwise try for a minute and say less. The default registry of a program is not known here. If
//! nothing is configured, the service starts, and its connections wait until a [`DownloadApprover`] has
//! answered. Where no user can be asked, the proxy refuses them, so that the refusal names the host and
//! the rule.

use std::path::Path;
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use zero_core::{ErrorReason, ErrorType, ToolError};
use zero_policy::{ConnectDeniedError, HostName, PackageDownload};

use super::service_request::ServiceRequest;
use crate::egress::{ConnectionAnswer, ConnectionApprover, ConnectionQuestion, HeldConnections};
use crate::launcher::LaunchAccess;
use crate::local_machine::package_registries;

/// Who answers a [`DownloadApprover`], for the audit log.
const DOWNLOAD_APPROVER: &str = "person";
/// Parts of the names of variables that name a registry, in lower case.
const REGISTRY_VARIABLES: &[&str] = &["npm_config_registry", "_index", "index_url"];

/// Asks whether services that download themselves may reach the hosts that nothing names before they
/// connect.
pub trait DownloadApprover: Send + Sync {
    /// Asks about a host of a service, while its connection waits. `None` if no user can be asked
    /// about this service.
    fn ask(&self, service: &str, host: &HostName) -> BoxFuture<'static, Option<bool>>;
}

/// Asks about the connections of one service. Without an approver, connections to hosts that are not
/// allowed are refused, and noted.
struct ServiceConnectionApprover {
    service: String,
    approver: Option<Arc<dyn DownloadApprover>>,
}

impl ConnectionApprover for ServiceConnectionApprover {
    fn is_open(&self) -> bool {
        self.approver.is_some()
    }

    fn ask(&self, question: ConnectionQuestion) -> BoxFuture<'static, ConnectionAnswer> {
        let ConnectionQuestion { target, refusal, .. } = question;
        // A setting of the server cannot allow what `ask` rules and closed ports cover.
        let question = match (&self.approver, &refusal) {
            (Some(approver), ConnectDeniedError::NoRule) => {
                Some(approver.ask(&self.service, &target.host))
            }
            _ => None,
        };
        async move {
            let answer = match question {
                Some(question) => question.await,
                None => None,
            };
            let answered = |what: &str| Some(format!("{DOWNLOAD_APPROVER}: {what}"));
            match answer {
                None => ConnectionAnswer::unasked(refusal),
                Some(true) => ConnectionAnswer {
                    decision: Ok(()),
                    answer_source: answered("allow always"),
                    grants: Vec::new(),
                },
                Some(false) => ConnectionAnswer {
                    decision: Err(ConnectDeniedError::Rejected { message: None }),
                    answer_source: answered("reject"),
                    grants: Vec::new(),
                },
            }
        }
        .boxed()
    }
}

/// What makes the proxy ask about the registry of a service that downloads itself, or refuse it by name,
/// even if no host is allowed at all.
pub(super) fn hold_connections(
    request: &ServiceRequest,
    approver: Option<&Arc<dyn DownloadApprover>>,
) -> Option<Arc<HeldConnections>> {
    let is_download = request.access == LaunchAccess::AsCommands
        && PackageDownload::from_runner(&request.words).is_some();
    let approver =
        ServiceConnectionApprover { service: request.name.clone(), approver: approver.cloned() };
    is_download.then(|| Arc::new(HeldConnections::new(Arc::new(approver))))
}

/// The hosts from which a service downloads itself, as its options, its variables or else the
/// configuration name them. None if it does not, or if nothing names them.
pub(super) fn list_hosts(
    request: &ServiceRequest,
    folder: &Path,
    home: Option<&Path>,
    environment: &[(String, String)],
) -> Vec<HostName> {
    let download = match request.access {
        LaunchAccess::AsCommands => PackageDownload::from_runner(&request.words),
        LaunchAccess::ReadOnly => None,
    };
    let Some(download) = download else { return Vec::new() };
    let is_registry = |name: &str| {
        let name = name.to_lowercase();
        REGISTRY_VARIABLES.iter().any(|part| name.contains(part))
    };
    let variables = request.variables.iter().filter(|(name, _)| is_registry(name));
    let variables = variables.flat_map(|(_, value)| value.split_whitespace());
    let named = download.registries.iter().map(String::as_str).chain(variables);
    let mut hosts: Vec<HostName> = Vec::new();
    for host in named.filter_map(|address| HostName::parse(address).ok()) {
        if !hosts.contains(&host) {
            hosts.push(host);
        }
    }
    if hosts.is_empty() {
        hosts =
            package_registries::find_hosts(download.manager, folder, home, environment, Vec::new);
    }
    hosts
}

/// The error of a service that downloads itself from hosts that it may not reach.
pub(super) fn refusal_error(request: &ServiceRequest, hosts: &[HostName]) -> ToolError {
    let program = request.words.first().map_or("", String::as_str);
    let list = |before: &str, after: &str| {
        let hosts: Vec<String> =
            hosts.iter().map(|host| format!("{before}{host}{after}")).collect();
        hosts.join(", ")
    };
    let message = format!(
        "`{program}` downloads it from {}, which it may not reach; to allow that, set its `network` to [{}], or allow {} in your settings",
        list("`", "`"),
        list("\"", "\""),
        list("`WebFetch(domain:", ")`")
    );
    ToolError::new(ErrorType::PermissionDenied, ErrorReason::NoApprover, message)
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests create real files")]
mod tests {
    use super::*;

    #[test]
    fn hosts_come_from_options_variables_configuration_and_defaults() {
        let home = tempfile::tempdir().unwrap();
        let check = |line: &str, variables: &[(&str, &str)], expected: &[&str]| {
            let request = ServiceRequest {
                words: line.split(' ').map(str::to_owned).collect(),
                variables: variables
                    .iter()
                    .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                    .collect(),
                ..ServiceRequest::default()
            };
            let hosts = list_hosts(&request, home.path(), Some(home.path()), &[]);
            let hosts: Vec<String> = hosts.iter().map(ToString::to_string).collect();
            assert_eq!(hosts, expected, "{line}");
        };
        check("npx -y some-server", &[], &[]);
        check("/usr/bin/uvx -i https://a.test/simple some-server --flag", &[], &["a.test"]);
        check("uv tool run --index https://a.test/simple some-server", &[], &["a.test"]);
        check("npx --registry https://a.test/npm some-server", &[], &["a.test"]);
        check("npx x", &[("NPM_CONFIG_REGISTRY", "https://b.test")], &["b.test"]);
        check("uvx x", &[("UV_DEFAULT_INDEX", "https://b.test/simple")], &["b.test"]);
        for other in [
            "npx --no-install --registry https://a.test x",
            "uvx --offline -i https://a.test x",
            "node server.js",
            "npm start",
            "uv run x",
        ] {
            check(other, &[], &[]);
        }
        std::fs::write(home.path().join(".npmrc"), "registry=https://c.test/\n").unwrap();
        check("npx -y some-server", &[], &["c.test"]);
    }
}
