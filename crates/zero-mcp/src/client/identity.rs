//! [`ServerIdentity`]: a hash of how a server is started or reached. Servers with the same identity
//! are the same server.
//!
//! Variables and headers may contain secrets. They are part of the identity, so that a server with
//! another token is another server, but only a hash of everything is stored or compared.

use std::fmt;

use serde_json::{Value, json};
use zero_sandbox::journal::sha256;

use crate::server_definition::ServerTransport;

/// Hash of how a server is started or reached. Safe as a file name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ServerIdentity(String);

impl ServerIdentity {
    /// Hashes all of a transport. The order of variables and headers does not matter.
    pub(crate) fn from_transport(transport: &ServerTransport) -> Self {
        let facts = match transport {
            ServerTransport::Command(launch) => json!([
                "command",
                launch.command,
                launch.args,
                sorted_pairs(&launch.variables),
                launch.folder.as_os_str().as_encoded_bytes(),
                launch.network.iter().map(|host| format!("{host:?}")).collect::<Vec<_>>(),
                launch
                    .writable
                    .iter()
                    .map(|path| path.as_os_str().as_encoded_bytes())
                    .collect::<Vec<_>>(),
            ]),
            ServerTransport::Http(endpoint) => json!([
                "http",
                endpoint.url.as_str(),
                sorted_pairs(&endpoint.headers),
                endpoint.login.client_id,
            ]),
        };
        Self::from_facts(&facts)
    }

    /// Hashes only what a server is, not where it runs or its secrets: its program and arguments,
    /// or its URL.
    pub(crate) fn from_target(transport: &ServerTransport) -> Self {
        Self::from_facts(&match transport {
            ServerTransport::Command(launch) => json!(["command", launch.command, launch.args]),
            ServerTransport::Http(endpoint) => json!(["http", endpoint.url.as_str()]),
        })
    }

    /// Returns an identity for users who must not share the server with others.
    pub(crate) fn scoped_to(&self, by: &Value) -> Self {
        Self::from_facts(&json!([self.0, by]))
    }

    fn from_facts(facts: &Value) -> Self {
        let mut hash = sha256(facts.to_string().as_bytes());
        hash.truncate(32);
        Self(hash)
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ServerIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn sorted_pairs(pairs: &[(String, String)]) -> Vec<&(String, String)> {
    let mut pairs: Vec<_> = pairs.iter().collect();
    pairs.sort();
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server_definition::ServerLaunch;

    fn launch_identity(change: impl FnOnce(&mut ServerLaunch)) -> ServerIdentity {
        let mut launch = ServerLaunch {
            command: "npx".into(),
            args: vec!["a".into()],
            variables: vec![("A".into(), "1".into()), ("B".into(), "2".into())],
            folder: "/w".into(),
            network: vec![],
            writable: vec![],
        };
        change(&mut launch);
        ServerIdentity::from_transport(&ServerTransport::Command(launch))
    }

    #[track_caller]
    fn check(change: impl FnOnce(&mut ServerLaunch), is_same: bool) {
        assert_eq!(launch_identity(change) == launch_identity(|_| {}), is_same);
    }

    #[test]
    fn every_launch_setting_changes_identity() {
        check(|_| {}, true);
        check(|launch| launch.variables.reverse(), true);
        check(|launch| launch.command = "npm".into(), false);
        check(|launch| launch.args.push("b".into()), false);
        check(|launch| launch.args = vec![], false);
        check(|launch| launch.variables[0].1 = "secret".into(), false);
        check(|launch| launch.folder = "/w2".into(), false);
        check(|launch| launch.writable.push("/data".into()), false);
    }

    #[test]
    fn identity_contains_no_secret() {
        let identity = launch_identity(|launch| launch.variables[0].1 = "hunter2".into());
        assert!(!identity.as_str().contains("hunter2"));
        assert!(identity.as_str().bytes().all(|b| b.is_ascii_hexdigit()));
    }
}
