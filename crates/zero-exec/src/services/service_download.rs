//! Services that download themselves when they start, by `npx` or `uvx`.
//!
//! Like a command that downloads packages, such a service reaches its registry only if somebody allowed
//! exactly that. Nobody can be asked when a service starts, so one whose registry is closed is refused
//! at once, with the hosts: it would otherwise try for a minute and say less.

use std::path::Path;

use zero_core::{ErrorReason, ErrorType, ToolError};
use zero_policy::{HostName, PackageDownload};

use super::service_request::ServiceRequest;
use crate::launcher::LaunchAccess;
use crate::local_machine::package_registries;

/// Parts of the names of variables that name a registry, in lower case.
const REGISTRY_VARIABLES: &[&str] = &["npm_config_registry", "_index", "index_url"];

/// The hosts from which a service downloads itself: those that its options, its variables and the
/// configuration name, or else the default ones of its package manager. None if it does not.
pub(super) fn list_hosts(
    request: &ServiceRequest,
    folder: &Path,
    home: Option<&Path>,
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
        hosts = package_registries::find_hosts(download.manager, folder, home);
    }
    if hosts.is_empty() {
        let defaults = download.manager.default_hosts().iter();
        hosts.extend(defaults.filter_map(|host| HostName::from_host(host).ok()));
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
            let hosts = list_hosts(&request, home.path(), Some(home.path()));
            let hosts: Vec<String> = hosts.iter().map(ToString::to_string).collect();
            assert_eq!(hosts, expected, "{line}");
        };
        check("npx -y some-server", &[], &["registry.npmjs.org"]);
        check("/usr/bin/uvx some-server --flag", &[], &["pypi.org", "files.pythonhosted.org"]);
        check("uv tool run some-server", &[], &["pypi.org", "files.pythonhosted.org"]);
        check("npx --registry https://a.test/npm some-server", &[], &["a.test"]);
        check("npx x", &[("NPM_CONFIG_REGISTRY", "https://b.test")], &["b.test"]);
        check("uvx x", &[("UV_DEFAULT_INDEX", "https://b.test/simple")], &["b.test"]);
        for other in
            ["npx --no-install x", "uvx --offline x", "node server.js", "npm start", "uv run x"]
        {
            check(other, &[], &[]);
        }
        std::fs::write(home.path().join(".npmrc"), "registry=https://c.test/\n").unwrap();
        check("npx -y some-server", &[], &["c.test"]);
    }
}
