//! Recognizes commands that failed because they have no network.
//!
//! Programs report a missing network in their own words, often as a failed name lookup, and a model
//! then searches for the cause in the wrong place. A failed command without network access whose
//! output has one of these messages gets a note that says so.

use zero_core::ansi_filter;
use zero_sandbox::output_collector::CollectedOutput;
use zero_sandbox::running_command::CommandExit;

/// The note for a command that failed because it has no network.
pub(crate) const NO_NETWORK_NOTE: &str = "network: commands have no network access; to allow a host: zero config add sandbox.network HOST";
/// The note for a command that failed because it was judged to need no network.
pub(crate) const NOT_JUDGED_NOTE: &str = "network: judged as needing no network; request it with network access (`\"network_access\": true`)";
/// The same if no host is allowed to commands either.
pub(crate) const NOT_JUDGED_OR_ALLOWED_NOTE: &str = "network: judged as needing no network, and no host is allowed to commands; to allow one: zero config add sandbox.network HOST, then request it with network access (`\"network_access\": true`)";

/// Messages of a failed name lookup or connection, in lower case.
const MESSAGES: &[&str] = &[
    "could not resolve",
    "couldn't resolve",
    "unable to resolve host",
    "temporary failure in name resolution",
    "temporary failure resolving",
    "name or service not known",
    "no address associated with hostname",
    "failed to lookup address",
    "no such host",
    "unknownhostexception",
    "getaddrinfo",
    "eai_again",
    "enetunreach",
    "network is unreachable",
    "connect: operation not permitted",
    "socket: operation not permitted",
];

/// Whether a command failed and its output reports a failed lookup or connection.
pub(crate) fn is_network_failure(output: &CollectedOutput, ended: &CommandExit) -> bool {
    let runs = || output.mixed.head().chain(output.mixed.tail());
    ended.exit_code.is_some_and(|code| code != 0)
        && has_failure_message(&ansi_filter::strip_pieces(runs().map(|run| run.bytes)))
}

fn has_failure_message(text: &str) -> bool {
    let text = text.to_lowercase();
    MESSAGES.iter().any(|message| text.contains(message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lookup_and_connection_failures_are_recognized() {
        for text in [
            "curl: (6) Could not resolve host: example.com",
            "npm error code EAI_AGAIN",
            "dial tcp: lookup proxy.golang.org: no such host",
            "fatal: unable to access 'https://a.com/': Could not resolve host: a.com",
            "[Errno -3] Temporary failure in name resolution",
            "bash: connect: Operation not permitted",
        ] {
            assert!(has_failure_message(text), "{text}");
        }
        for text in ["", "error[E0308]: mismatched types", "rm: Operation not permitted"] {
            assert!(!has_failure_message(text), "{text}");
        }
    }
}
