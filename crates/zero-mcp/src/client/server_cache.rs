//! [`ServerCache`]: what is known of servers from earlier runs, so that their tools are available
//! without starting them.
//!
//! There is one small file for each [`ServerIdentity`]. It is a cache only: a call starts the
//! server, lists its tools again, and is sent only if the tool still has the definition that was
//! judged. A file that cannot be read is ignored.

use serde::{Deserialize, Serialize};
use zero_sandbox::{ConfigFile, StateDir};

use super::error::ServerUnavailableError;
use super::identity::ServerIdentity;
use super::tool_listing::ToolListing;

/// Maximum size of a file, in bytes: enough for a listing as JSON.
const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Maximum number of files.
const FILES_MAX: usize = 256;
/// Longest mark of a request to restart.
const MARK_BYTES_MAX: u64 = 64;

/// What is known of one server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct ServerCacheEntry {
    /// Which of the two protocols it uses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) era: Option<ProtocolEra>,
    /// Its last tool listing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) listing: Option<ToolListing>,
    /// Its last failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) last_error: Option<ServerUnavailableError>,
}

/// Which of the two protocols a server uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ProtocolEra {
    /// The older one, with a handshake and sessions.
    Legacy,
    /// The newer one, without a handshake.
    Modern,
}

/// Files with what is known of each server, shared by all zero processes.
#[derive(Clone, Debug)]
pub(crate) struct ServerCache {
    folder: StateDir,
    marks: StateDir,
}

impl ServerCache {
    /// Creates the cache in zero's state directory for MCP.
    pub(crate) fn new(state: &StateDir) -> Self {
        Self { folder: state.child("catalogue"), marks: state.child("reconnect") }
    }

    /// Returns what is known of a server.
    pub(crate) fn load(&self, identity: &ServerIdentity) -> ServerCacheEntry {
        let file = self.cache_file(identity);
        let path = file.path();
        let bytes = match file.read(FILE_BYTES_MAX) {
            Ok(None) => return ServerCacheEntry::default(),
            Ok(Some(bytes)) => bytes,
            Err(error) => {
                tracing::warn!(%error, path = %path.display(), "cannot read the cache of a server");
                return ServerCacheEntry::default();
            }
        };
        serde_json::from_slice(&bytes).unwrap_or_else(|error| {
            tracing::warn!(%error, path = %path.display(), "the cache of a server is damaged");
            ServerCacheEntry::default()
        })
    }

    /// Saves what is known of a server. A failure is only logged.
    pub(crate) fn save(&self, identity: &ServerIdentity, remembered: &ServerCacheEntry) {
        let bytes = serde_json::to_vec(remembered).unwrap_or_default();
        if bytes.len() as u64 > FILE_BYTES_MAX {
            return;
        }
        evict_oldest(&self.folder);
        if let Err(error) = self.cache_file(identity).write(&bytes) {
            tracing::warn!(%error, "cannot write the cache of a server");
        }
    }

    /// Tells every zero process that uses this server to restart it before its next call.
    pub(crate) fn request_restart(&self, identity: &ServerIdentity) {
        evict_oldest(&self.marks);
        let file = ConfigFile::Own(self.marks.path().join(identity.as_str()));
        // A mark that differs from the one before: times of files are too coarse to compare.
        let mark = format!("{:032x}", fastrand::u128(..));
        if let Err(error) = file.write(mark.as_bytes()) {
            tracing::warn!(%error, "cannot request the restart of a server");
        }
    }

    /// The mark of the last request to restart; each request has another one.
    pub(crate) fn restart_mark(&self, identity: &ServerIdentity) -> Option<Vec<u8>> {
        let file = ConfigFile::Own(self.marks.path().join(identity.as_str()));
        file.read(MARK_BYTES_MAX).ok().flatten()
    }

    fn cache_file(&self, identity: &ServerIdentity) -> ConfigFile {
        ConfigFile::Own(self.folder.path().join(format!("{identity}.json")))
    }
}

/// Removes the least recently changed file if there are too many.
fn evict_oldest(folder: &StateDir) {
    let names = folder.list_names().unwrap_or_default();
    if names.len() < FILES_MAX {
        return;
    }
    let oldest = names.iter().max_by_key(|name| folder.age(name).unwrap_or_default());
    if let Some(oldest) = oldest {
        let _ = folder.remove(oldest);
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests set up real files")]
    use super::*;
    use serde_json::json;

    fn identity(n: usize) -> ServerIdentity {
        let url = url::Url::parse(&format!("https://a.b/{n}")).unwrap();
        let login = crate::server_definition::LoginSettings::default();
        ServerIdentity::from_transport(&crate::server_definition::ServerTransport::Http(
            crate::server_definition::HttpEndpoint { url, headers: vec![], login },
        ))
    }

    #[track_caller]
    fn check(written: Option<&str>, expected: Option<ProtocolEra>) {
        let temp = tempfile::tempdir().unwrap();
        let catalogue = ServerCache::new(&StateDir::new(temp.path()));
        if let Some(text) = written {
            catalogue.folder.create().unwrap();
            std::fs::write(catalogue.cache_file(&identity(1)).path(), text).unwrap();
        }
        assert_eq!(catalogue.load(&identity(1)).era, expected, "{written:?}");
    }

    #[test]
    fn damaged_cache_file_counts_as_absent() {
        check(None, None);
        check(Some(r#"{"era": "legacy"}"#), Some(ProtocolEra::Legacy));
        for damaged in ["", "{", "[]", r#"{"era": "stone"}"#, r#"{"listing": {"tools": 3}}"#] {
            check(Some(damaged), None);
        }
    }

    #[test]
    fn saved_entry_loads_back_private_and_bounded() {
        let temp = tempfile::tempdir().unwrap();
        let catalogue = ServerCache::new(&StateDir::new(temp.path()));
        let listing: ToolListing = serde_json::from_value(
            json!({"tools": {"a": {"name": "a", "input_schema": {"type": "object"}}}}),
        )
        .unwrap();
        let kept = ServerCacheEntry {
            era: Some(ProtocolEra::Modern),
            listing: Some(listing),
            last_error: Some(ServerUnavailableError::new("no")),
        };
        catalogue.save(&identity(0), &kept);
        assert_eq!(catalogue.load(&identity(0)), kept);
        let path = catalogue.cache_file(&identity(0)).path();
        let mode = std::os::unix::fs::PermissionsExt::mode(
            &std::fs::metadata(path).unwrap().permissions(),
        );
        assert_eq!(mode & 0o777, 0o600);
        for n in 1..=FILES_MAX + 5 {
            catalogue.save(&identity(n), &ServerCacheEntry::default());
        }
        assert_eq!(catalogue.folder.list_names().unwrap().len(), FILES_MAX);
    }

    #[test]
    fn restart_request_is_seen_by_other_processes() {
        let temp = tempfile::tempdir().unwrap();
        let state = StateDir::new(temp.path());
        let (one, other) = (ServerCache::new(&state), ServerCache::new(&state));
        assert_eq!(other.restart_mark(&identity(1)), None);
        one.request_restart(&identity(1));
        let first = other.restart_mark(&identity(1));
        assert!(first.is_some());
        assert_eq!(other.restart_mark(&identity(1)), first);
        // However soon the next request follows.
        one.request_restart(&identity(1));
        assert_ne!(other.restart_mark(&identity(1)), first);
        assert_eq!(other.restart_mark(&identity(2)), None);
    }
}
