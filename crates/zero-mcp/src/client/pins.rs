//! What a person agreed to when they let a tool of a server run: its definition, by hash.
//!
//! A server can rewrite what it says about a tool at any time, and a tool that was harmless in its
//! own words yesterday may ask for more today. So the definition is pinned by the first call that
//! was allowed to run, and a tool whose definition is another now is asked about again, whatever
//! rules allow it. The pins are of one server as it is launched: another launch starts afresh.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::json;
use zero_sandbox::journal::sha256;
use zero_sandbox::{ConfigFile, ConfigFileError, StateDir, config_file};

use super::identity::Identity;
use super::listing::TOOLS_MAX;
use crate::definition::Alias;

/// Largest file, in bytes.
const FILE_BYTES_MAX: u64 = 1024 * 1024;
/// Most pins of one server: what it lists now, and what it listed before. Beyond that every new
/// tool is asked about.
const PINS_MAX: usize = 4 * TOOLS_MAX;
/// What is locked while a file changes.
const LOCK: &str = "pins.lock";

/// The pins of one server.
#[derive(Clone, Debug)]
pub(crate) struct Pins {
    state: StateDir,
    file: ConfigFile,
}

/// How a definition stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Nobody let it run yet.
    New,
    /// It is what was let run.
    Same,
    /// It is not, or that cannot be told.
    Changed,
}

/// What was pinned at some moment, as far as it could be read.
pub(crate) struct KnownPins(Option<Pinned>);

impl KnownPins {
    /// How the definition of a tool stands. Where the pins could not be read it counts as changed.
    pub(crate) fn standing(&self, tool: &str, hash: &str) -> Standing {
        let Some(pinned) = &self.0 else { return Standing::Changed };
        match pinned.tools.get(&key(tool)) {
            None if pinned.tools.len() < PINS_MAX => Standing::New,
            Some(pin) if pin == hash => Standing::Same,
            _ => Standing::Changed,
        }
    }
}

/// Pins as they are written down.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Pinned {
    /// The hash of a definition, by the hash of the server's own name for the tool.
    tools: BTreeMap<String, String>,
}

/// Why pins could not be read or written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PinError {
    #[error("`{path}` is damaged: {error}; remove it and allow the tools of this server again")]
    Damaged { path: String, error: String },
    #[error("`{path}` could not be used: {error}")]
    File { path: String, error: ConfigFileError },
}

impl Pins {
    /// Those of a server that is launched or reached in this way, under this name.
    pub(crate) fn new(state: &StateDir, alias: &Alias, identity: &Identity) -> Self {
        let state = state.child("pins");
        let key = json!([alias.as_str(), identity.as_str()]).to_string();
        let mut name = sha256(key.as_bytes());
        name.truncate(32);
        let file = ConfigFile::Own(state.path().join(format!("{name}.json")));
        Self { state, file }
    }

    /// How the definition of a tool stands.
    pub(crate) fn standing(&self, tool: &str, hash: &str) -> Standing {
        self.known().standing(tool, hash)
    }

    /// All that is pinned now.
    pub(crate) fn known(&self) -> KnownPins {
        let known = self.load().inspect_err(|error| {
            tracing::warn!(%error, "what was approved of a server is not known");
        });
        KnownPins(known.ok())
    }

    /// What is wrong with the pins, for a person.
    pub(crate) fn fault(&self) -> Option<String> {
        self.load().err().map(|error| error.to_string())
    }

    /// Pins these definitions: names and hashes. A damaged file is never replaced: with it would go
    /// what it knew of other tools.
    pub(crate) fn pin<'a>(
        &self,
        tools: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<(), PinError> {
        let _lock = config_file::lock(&self.state, LOCK).map_err(|error| self.failed(error))?;
        let mut pinned = self.load()?;
        for (tool, hash) in tools {
            if pinned.tools.len() < PINS_MAX || pinned.tools.contains_key(&key(tool)) {
                pinned.tools.insert(key(tool), hash.to_owned());
            }
        }
        let bytes = serde_json::to_vec(&pinned).unwrap_or_default();
        self.file.write(&bytes).map_err(|error| self.failed(error))
    }

    fn load(&self) -> Result<Pinned, PinError> {
        match self.file.read(FILE_BYTES_MAX) {
            Ok(None) => Ok(Pinned::default()),
            Ok(Some(bytes)) => serde_json::from_slice(&bytes).map_err(|error| PinError::Damaged {
                path: self.shown(),
                error: error.to_string(),
            }),
            Err(error) => Err(self.failed(error)),
        }
    }

    fn failed(&self, error: ConfigFileError) -> PinError {
        PinError::File { path: self.shown(), error }
    }

    fn shown(&self) -> String {
        self.file.path().display().to_string()
    }
}

/// A server's own name for a tool may be anything; its hash is short and plain.
fn key(tool: &str) -> String {
    let mut hash = sha256(tool.as_bytes());
    hash.truncate(32);
    hash
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition::{Endpoint, Login, Reach};

    fn pins(state: &StateDir, alias: &str, url: &str) -> Pins {
        let endpoint = Endpoint {
            url: url::Url::parse(url).unwrap(),
            headers: vec![],
            login: Login::default(),
        };
        Pins::new(state, &Alias::new(alias).unwrap(), &Identity::of(&Reach::Http(endpoint)))
    }

    #[test]
    fn a_definition_is_pinned_to_its_server_and_its_name() {
        let temp = tempfile::tempdir().unwrap();
        let state = StateDir::new(temp.path());
        let ours = pins(&state, "a", "https://a.b/");
        assert_eq!(ours.standing("t", "1"), Standing::New);
        ours.pin([("t", "1")]).unwrap();
        for (pins, tool, hash, expected) in [
            (pins(&state, "a", "https://a.b/"), "t", "1", Standing::Same),
            (pins(&state, "a", "https://a.b/"), "t", "2", Standing::Changed),
            (pins(&state, "a", "https://a.b/"), "u", "1", Standing::New),
            (pins(&state, "b", "https://a.b/"), "t", "2", Standing::New),
            (pins(&state, "a", "https://a.b/x"), "t", "2", Standing::New),
        ] {
            assert_eq!(pins.standing(tool, hash), expected, "{tool} {hash}");
        }
        ours.pin([("t", "2")]).unwrap();
        assert_eq!(ours.standing("t", "2"), Standing::Same);
        assert_eq!(ours.standing("t", "1"), Standing::Changed);
    }

    #[test]
    fn damaged_pins_ask_about_everything_and_stay() {
        for text in ["", "{", "[]", r#"{"tools": {}, "all": true}"#] {
            let temp = tempfile::tempdir().unwrap();
            let pins = pins(&StateDir::new(temp.path()), "a", "https://a.b/");
            pins.file.write(text.as_bytes()).unwrap();
            assert_eq!(pins.standing("t", "1"), Standing::Changed, "{text}");
            assert!(pins.pin([("t", "1")]).unwrap_err().to_string().contains("is damaged"));
            assert!(pins.fault().unwrap().contains("remove it"));
            assert_eq!(pins.standing("t", "1"), Standing::Changed, "{text}");
        }
    }
}
