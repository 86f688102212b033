//! Programs that have the name of a server and only stand in for it: rustup puts one for
//! rust-analyzer into every `PATH`, whether or not that is installed.

use std::path::Path;
use std::time::Duration;

use zero_runtime::services::ServiceLauncher;

use crate::server_definition::{LanguageServerDefinition, ProgramSearchPath};
use crate::server_process::LanguageServerProcess;

/// The servers for which there is such a program.
const PROXIED_SERVERS: &[&str] = &["rust-analyzer"];
/// What it says when it is started without what it stands for.
const PROXY_MESSAGES: &[&str] = &[
    "Unknown binary '",
    "is not installed for the toolchain",
    "rustup could not choose a version of",
    "error: could not create home directory",
];
/// How long it may take to say its version.
const VERSION_WAIT_MAX: Duration = Duration::from_secs(10);

/// Whether there may be such a program for a server.
pub fn may_be_rustup_proxy(server: &LanguageServerDefinition) -> bool {
    // A command that settings name is what they say it is.
    server.written_at.is_none() && PROXIED_SERVERS.contains(&server.name.as_str())
}

/// Whether a program that failed said that it only stands in for a server.
pub(crate) fn is_rustup_message(server: &LanguageServerDefinition, said: &str) -> bool {
    may_be_rustup_proxy(server) && PROXY_MESSAGES.iter().any(|words| said.contains(words))
}

/// Whether the program that would run only stands in for a server which is not installed. It is run
/// to see, confined as the server would be, in a folder whose files may decide what it runs: one that
/// is trusted. Where that cannot be seen, it is taken for the server.
pub async fn is_rustup_proxy(
    services: &ServiceLauncher,
    server: &LanguageServerDefinition,
    place: &ProgramSearchPath<'_>,
    folder: &Path,
) -> bool {
    let Some(program) = server.find_command(place).and_then(|words| words.into_iter().next())
    else {
        return false;
    };
    let words = vec![program, "--version".to_owned()];
    let begun =
        LanguageServerProcess::start(services, server, words, folder, None, place.path_variable())
            .await;
    let Ok((process, _pipes)) = begun else { return false };
    process.wait_for_exit(VERSION_WAIT_MAX).await
        && is_rustup_message(server, &process.describe_failure("").await)
}
