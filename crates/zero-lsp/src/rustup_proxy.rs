//! Detection of rustup's proxy programs. rustup installs a `rust-analyzer` in `PATH` that only
//! forwards to the component, whether or not the component is installed.

use std::path::Path;
use std::time::Duration;

use zero_exec::services::ServiceLauncher;

use crate::server_definition::{LanguageServerDefinition, ProgramSearchPath};
use crate::server_process::LanguageServerProcess;

/// The servers for which rustup installs a proxy.
const PROXIED_SERVERS: &[&str] = &["rust-analyzer"];
/// Messages of a proxy whose component is not installed.
const PROXY_MESSAGES: &[&str] = &[
    "Unknown binary '",
    "is not installed for the toolchain",
    "rustup could not choose a version of",
    "error: could not create home directory",
];
/// How long the program may take to print its version.
const VERSION_WAIT_MAX: Duration = Duration::from_secs(10);

/// Returns whether the program found for a server may be a proxy.
pub fn may_be_rustup_proxy(server: &LanguageServerDefinition) -> bool {
    // A command from settings is run as written.
    server.written_at.is_none() && PROXIED_SERVERS.contains(&server.name.as_str())
}

/// Returns whether the output of a failed program is that of a proxy without its component.
pub(crate) fn is_rustup_message(server: &LanguageServerDefinition, output: &str) -> bool {
    may_be_rustup_proxy(server) && PROXY_MESSAGES.iter().any(|words| output.contains(words))
}

/// Returns whether the program that would be started is a proxy whose component is not installed.
/// The program is run with the sandbox of the server; since files of the folder may decide what it
/// runs, the folder must be trusted. If the check fails, the program is taken for the server.
pub async fn is_rustup_proxy(
    services: &ServiceLauncher,
    server: &LanguageServerDefinition,
    search_path: &ProgramSearchPath<'_>,
    folder: &Path,
) -> bool {
    let Some(program) = server.find_command(search_path).and_then(|words| words.into_iter().next())
    else {
        return false;
    };
    let words = vec![program, "--version".to_owned()];
    let started = LanguageServerProcess::start(
        services,
        server,
        words,
        folder,
        None,
        search_path.path_variable(),
    )
    .await;
    let Ok((process, _pipes)) = started else { return false };
    process.wait_for_exit(VERSION_WAIT_MAX).await
        && is_rustup_message(server, &process.describe_failure("").await)
}
