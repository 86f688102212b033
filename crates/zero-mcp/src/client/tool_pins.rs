//! [`ToolPins`]: the tool definitions that the user has approved, by hash.
//!
//! A server can change what it says about a tool at any time, and a tool that was harmless may ask
//! for more tomorrow. The first call that is allowed therefore pins the definition. If the
//! definition changes, the user is asked again, whatever the rules allow. Pins belong to one server
//! under one alias. Another program or URL has its own pins. Another folder or token does not,
//! otherwise a malicious server would only have to wait for such a change.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::json;
use zero_sandbox::expiry::{self, ExpiryMode, ExpiryReport, ExpiryRules, StoredItem};
use zero_sandbox::journal::sha256;
use zero_sandbox::{ConfigFile, ConfigFileError, StateDir, config_file};

use super::identity::ServerIdentity;
use super::tool_listing::{McpToolDefinition, TOOLS_MAX};
use crate::server_definition::{ServerAlias, ServerTransport};

/// Maximum size of the file of hashes, in bytes.
const FILE_BYTES_MAX: u64 = 1024 * 1024;
/// Maximum number of pins of one server, including tools that it no longer lists. Beyond it, every
/// new tool counts as changed.
const PINS_MAX: usize = 4 * TOOLS_MAX;
/// Maximum size of a definition that is stored beside its hash, in bytes of JSON.
const DEFINITION_BYTES_MAX: usize = 64 * 1024;
/// Maximum size of all stored definitions of one server, in bytes.
const DEFINITIONS_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Locked while a file changes.
const LOCK: &str = "pins.lock";
/// Where the pins are, in the folder for MCP servers, two files for each server.
const PINS: &str = "pins";
const HASHES_SUFFIX: &str = ".json";
const SEEN_SUFFIX: &str = ".seen.json";
/// How often the use of pins is noted.
const USE_NOTE_INTERVAL: Duration = Duration::from_secs(24 * 60 * 60);

/// The pins of one server.
#[derive(Clone, Debug)]
pub(crate) struct ToolPins {
    state: StateDir,
    /// Name of the file of hashes.
    name: String,
    /// The hashes, which decide.
    file: ConfigFile,
    /// The definitions, which are used only to show changes. A stored definition counts only if it
    /// has the pinned hash, so a damaged or missing file makes the view worse and nothing else.
    seen: ConfigFile,
}

/// How a definition compares with its pin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PinState {
    /// It has not been approved yet.
    New,
    /// It is the approved one.
    Same,
    /// It differs from the approved one, or the pins cannot be read.
    Changed,
}

/// The pins at one moment, if they could be read.
pub(crate) struct PinSnapshot(Option<PinFile>);

impl PinSnapshot {
    /// Compares the definition of a tool with its pin. If the pins could not be read, it counts as
    /// changed.
    pub(crate) fn pin_state(&self, tool: &str, hash: &str) -> PinState {
        let Some(pinned) = &self.0 else { return PinState::Changed };
        match pinned.tools.get(&hash_key(tool)) {
            None if pinned.tools.len() < PINS_MAX => PinState::New,
            Some(pin) if pin == hash => PinState::Same,
            _ => PinState::Changed,
        }
    }
}

/// Content of the file of hashes.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PinFile {
    /// Hash of each definition, by the hash of the server's name for the tool.
    tools: BTreeMap<String, String>,
}

/// Why pins could not be read or written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PinError {
    #[error("`{path}` is damaged: {error}; remove it and allow the tools of this server again")]
    Damaged { path: String, error: String },
    #[error("cannot use `{path}`: {error}")]
    File { path: String, error: ConfigFileError },
}

impl ToolPins {
    /// Opens the pins of a server under this alias. They do not depend on its folder or secrets.
    pub(crate) fn new(state: &StateDir, alias: &ServerAlias, transport: &ServerTransport) -> Self {
        let state = state.child(PINS);
        let key =
            json!([alias.as_str(), ServerIdentity::from_target(transport).as_str()]).to_string();
        let mut name = sha256(key.as_bytes());
        name.truncate(32);
        let seen = ConfigFile::Own(state.path().join(format!("{name}{SEEN_SUFFIX}")));
        let name = format!("{name}{HASHES_SUFFIX}");
        let file = ConfigFile::Own(state.path().join(&name));
        Self { state, name, file, seen }
    }

    /// Compares the definition of a tool with its pin, and notes that the pins are in use.
    pub(crate) fn pin_state(&self, tool: &str, hash: &str) -> PinState {
        let pin_state = self.snapshot().pin_state(tool, hash);
        if pin_state == PinState::Same {
            self.note_use();
        }
        pin_state
    }

    /// Renews the age of the file, at most once a day: pins expire by their last use.
    fn note_use(&self) {
        let is_due = self.state.age(&self.name).is_ok_and(|age| age > USE_NOTE_INTERVAL);
        if is_due && let Err(error) = self.state.touch(&self.name) {
            tracing::debug!(%error, "the use of approved tool definitions is not noted");
        }
    }

    /// Returns all current pins.
    pub(crate) fn snapshot(&self) -> PinSnapshot {
        let known = self.load().inspect_err(|error| {
            tracing::warn!(%error, "cannot read the approved tool definitions of a server");
        });
        PinSnapshot(known.ok())
    }

    /// Returns the problem with the pins, for the user.
    pub(crate) fn load_error(&self) -> Option<String> {
        self.load().err().map(|error| error.to_string())
    }

    /// Pins these definitions. A damaged file is never replaced, because that would lose the pins
    /// of other tools.
    pub(crate) fn pin<'a>(
        &self,
        tools: impl IntoIterator<Item = &'a McpToolDefinition>,
    ) -> Result<(), PinError> {
        let _lock = config_file::lock(&self.state, LOCK).map_err(|error| self.file_error(error))?;
        let mut pinned = self.load()?;
        let mut seen = self.stored_definitions();
        for tool in tools {
            let key = hash_key(&tool.name);
            if pinned.tools.len() < PINS_MAX || pinned.tools.contains_key(&key) {
                pinned.tools.insert(key.clone(), tool.hash());
                seen.insert(key, tool.clone());
            }
        }
        let bytes = serde_json::to_vec(&pinned).unwrap_or_default();
        self.file.write(&bytes).map_err(|error| self.file_error(error))?;
        if let Err(error) = self.seen.write(&encode_bounded(seen)) {
            tracing::warn!(%error, "cannot store a tool definition for display");
        }
        Ok(())
    }

    /// Returns the pinned definition of a tool, if it is stored.
    pub(crate) fn approved_definition(&self, tool: &str) -> Option<McpToolDefinition> {
        let hash = self.load().ok()?.tools.remove(&hash_key(tool))?;
        self.stored_definitions().remove(&hash_key(tool)).filter(|stored_definition| {
            stored_definition.name == tool && stored_definition.hash() == hash
        })
    }

    /// Returns the stored definitions, if they can be read.
    fn stored_definitions(&self) -> BTreeMap<String, McpToolDefinition> {
        let bytes = self.seen.read(2 * DEFINITIONS_BYTES_MAX as u64).ok().flatten();
        bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
    }

    fn load(&self) -> Result<PinFile, PinError> {
        match self.file.read(FILE_BYTES_MAX) {
            Ok(None) => Ok(PinFile::default()),
            Ok(Some(bytes)) => serde_json::from_slice(&bytes).map_err(|error| PinError::Damaged {
                path: self.display_path(),
                error: error.to_string(),
            }),
            Err(error) => Err(self.file_error(error)),
        }
    }

    fn file_error(&self, error: ConfigFileError) -> PinError {
        PinError::File { path: self.display_path(), error }
    }

    fn display_path(&self) -> String {
        self.file.path().display().to_string()
    }
}

/// Removes the pins of servers that were not used for longer than the rules keep them. Their tools
/// count as new then, as if the server was never used.
pub(super) fn expire(
    state: &StateDir,
    rules: &ExpiryRules,
    mode: ExpiryMode,
) -> io::Result<ExpiryReport> {
    let folder = state.child(PINS);
    let names = folder.list_names()?;
    let stem = |name: &String| {
        let is_seen = name.ends_with(SEEN_SUFFIX);
        name.strip_suffix(HASHES_SUFFIX).filter(|_| !is_seen).map(str::to_owned)
    };
    let item = |server: String| {
        let [hashes, seen] = [HASHES_SUFFIX, SEEN_SUFFIX].map(|suffix| format!("{server}{suffix}"));
        let bytes = folder.size(&hashes).ok()?.saturating_add(folder.size(&seen).unwrap_or(0));
        let age = folder.age(&hashes).ok()?;
        Some(StoredItem {
            key: (hashes, seen),
            age,
            bytes,
            share: String::new(),
            is_useless: false,
            is_in_use: false,
        })
    };
    let items: Vec<_> = names.iter().filter_map(stem).filter_map(item).collect();
    let _lock = match items.is_empty() {
        true => None,
        false => Some(config_file::lock(&folder, LOCK).map_err(io::Error::other)?),
    };
    Ok(expiry::expire(items, rules, mode, |(hashes, seen)| {
        folder.remove(hashes)?;
        folder.remove(seen)
    }))
}

/// A server's name for a tool may be any text; its hash is short and safe.
fn hash_key(tool: &str) -> String {
    let mut hash = sha256(tool.as_bytes());
    hash.truncate(32);
    hash
}

/// Encodes as many definitions as may be stored.
fn encode_bounded(definitions: BTreeMap<String, McpToolDefinition>) -> Vec<u8> {
    let mut left = DEFINITIONS_BYTES_MAX;
    let mut stored_pins = BTreeMap::new();
    for (key, definition) in definitions {
        let value = serde_json::to_value(definition).unwrap_or_default();
        let size = value.to_string().len();
        if size <= DEFINITION_BYTES_MAX.min(left) {
            left -= size;
            stored_pins.insert(key, value);
        }
    }
    serde_json::to_vec(&stored_pins).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server_definition::{HttpEndpoint, LoginSettings, ServerLaunch};

    fn tool(name: &str, description: &str) -> McpToolDefinition {
        let value = json!({"name": name, "description": description, "input_schema": {}});
        serde_json::from_value(value).unwrap()
    }

    fn open_pins(state: &StateDir, alias: &str, url: &str) -> ToolPins {
        let endpoint = HttpEndpoint {
            url: url::Url::parse(url).unwrap(),
            headers: vec![],
            login: LoginSettings::default(),
        };
        ToolPins::new(state, &ServerAlias::new(alias).unwrap(), &ServerTransport::Http(endpoint))
    }

    #[test]
    fn pin_belongs_to_one_server_and_name() {
        let temp = tempfile::tempdir().unwrap();
        let state = StateDir::new(temp.path());
        let ours = open_pins(&state, "a", "https://a.b/");
        let (one, two) = (tool("t", "1"), tool("t", "2"));
        assert_eq!(ours.pin_state("t", &one.hash()), PinState::New);
        ours.pin([&one]).unwrap();
        for (pins, tool, hash, expected) in [
            (open_pins(&state, "a", "https://a.b/"), "t", one.hash(), PinState::Same),
            (open_pins(&state, "a", "https://a.b/"), "t", two.hash(), PinState::Changed),
            (open_pins(&state, "a", "https://a.b/"), "u", one.hash(), PinState::New),
            (open_pins(&state, "b", "https://a.b/"), "t", two.hash(), PinState::New),
            (open_pins(&state, "a", "https://a.b/x"), "t", two.hash(), PinState::New),
        ] {
            assert_eq!(pins.pin_state(tool, &hash), expected, "{tool} {hash}");
        }
        ours.pin([&two]).unwrap();
        assert_eq!(ours.pin_state("t", &two.hash()), PinState::Same);
        assert_eq!(ours.pin_state("t", &one.hash()), PinState::Changed);
    }

    #[test]
    fn other_folder_or_token_keeps_server_identity() {
        #[track_caller]
        fn check(first: ServerTransport, second: ServerTransport, expected: PinState) {
            let temp = tempfile::tempdir().unwrap();
            let state = StateDir::new(temp.path());
            let alias = ServerAlias::new("a").unwrap();
            ToolPins::new(&state, &alias, &first).pin([&tool("t", "1")]).unwrap();
            let later = ToolPins::new(&state, &alias, &second);
            assert_eq!(later.pin_state("t", &tool("t", "2").hash()), expected, "{second:?}");
        }
        let launch = |argument: &str, token: &str, folder: &str| {
            ServerTransport::Command(ServerLaunch {
                command: "npx".to_owned(),
                args: vec![argument.to_owned()],
                variables: vec![("TOKEN".to_owned(), token.to_owned())],
                folder: folder.into(),
                network: vec![],
                writable: vec![],
            })
        };
        let endpoint = |url: &str, token: &str| {
            ServerTransport::Http(HttpEndpoint {
                url: url::Url::parse(url).unwrap(),
                headers: vec![("X-Token".to_owned(), token.to_owned())],
                login: LoginSettings::default(),
            })
        };
        let first = launch("x", "1", "/w");
        check(first.clone(), launch("x", "1", "/w"), PinState::Changed);
        check(first.clone(), launch("x", "1", "/elsewhere"), PinState::Changed);
        check(first.clone(), launch("x", "2", "/w"), PinState::Changed);
        check(first.clone(), launch("y", "1", "/w"), PinState::New);
        let first = endpoint("https://a.b/", "1");
        check(first.clone(), endpoint("https://a.b/", "2"), PinState::Changed);
        check(first, endpoint("https://a.c/", "1"), PinState::New);
    }

    #[test]
    fn approved_definition_is_stored_only_for_display() {
        let temp = tempfile::tempdir().unwrap();
        let pins = open_pins(&StateDir::new(temp.path()), "a", "https://a.b/");
        assert_eq!(pins.approved_definition("t"), None);
        let huge = tool("huge", &"x".repeat(DEFINITION_BYTES_MAX));
        pins.pin([&tool("t", "1"), &tool("u", "1"), &huge]).unwrap();
        assert_eq!(pins.approved_definition("t"), Some(tool("t", "1")));
        assert_eq!((pins.approved_definition("v"), pins.approved_definition("huge")), (None, None));
        assert_eq!(pins.pin_state("huge", &huge.hash()), PinState::Same);
        // A stored definition that does not have the pinned hash is ignored.
        let forged =
            BTreeMap::from([(hash_key("t"), tool("t", "2")), (hash_key("u"), tool("u", "1"))]);
        pins.seen.write(&encode_bounded(forged)).unwrap();
        assert_eq!(
            (pins.approved_definition("t"), pins.approved_definition("u")),
            (None, Some(tool("u", "1")))
        );
        pins.seen.write(b"{").unwrap();
        assert_eq!(pins.approved_definition("u"), None);
        assert_eq!(pins.pin_state("u", &tool("u", "1").hash()), PinState::Same);
        // With any number of definitions, the file stays small enough to be read.
        let many: Vec<_> = (0..100).map(|n| tool(&n.to_string(), &"x".repeat(60_000))).collect();
        pins.pin(&many).unwrap();
        assert!(pins.seen.read(2 * DEFINITIONS_BYTES_MAX as u64).is_ok());
        let kept =
            many.iter().filter(|tool| pins.approved_definition(&tool.name).is_some()).count();
        assert!((50..100).contains(&kept), "{kept}");
    }

    #[test]
    fn unused_pins_expire_and_use_renews_them() {
        const DAY: Duration = Duration::from_secs(24 * 60 * 60);
        let temp = tempfile::tempdir().unwrap();
        let state = StateDir::new(temp.path());
        let definition = tool("t", "1");
        let open = |alias: &str| open_pins(&state, alias, "https://a.b/");
        for alias in ["used", "unused"] {
            let pins = open(alias);
            pins.pin([&definition]).unwrap();
            let file = std::fs::File::options().write(true).open(pins.file.path()).unwrap();
            file.set_modified(std::time::SystemTime::now() - DAY * 100).unwrap();
        }
        let rules = ExpiryRules { age_max: Some(DAY * 90), bytes_max: None };
        let dry = expire(&state, &rules, ExpiryMode::DryRun).unwrap();
        assert_eq!((dry.removed.count, dry.remaining.count), (2, 0));
        assert_eq!(open("used").pin_state("t", &tool("t", "2").hash()), PinState::Changed);
        let dry = expire(&state, &rules, ExpiryMode::DryRun).unwrap();
        assert_eq!(dry.removed.count, 2, "a changed tool is no use");
        assert_eq!(open("used").pin_state("t", &definition.hash()), PinState::Same);
        let done = expire(&state, &rules, ExpiryMode::Remove).unwrap();
        assert_eq!((done.removed.count, done.remaining.count), (1, 1));
        assert_eq!(open("used").pin_state("t", &definition.hash()), PinState::Same);
        assert_eq!(open("unused").pin_state("t", &definition.hash()), PinState::New);
        assert_eq!(open("unused").approved_definition("t"), None);
    }

    #[test]
    fn damaged_pins_ask_for_every_tool_and_are_kept() {
        for text in ["", "{", "[]", r#"{"tools": {}, "all": true}"#] {
            let temp = tempfile::tempdir().unwrap();
            let pins = open_pins(&StateDir::new(temp.path()), "a", "https://a.b/");
            pins.file.write(text.as_bytes()).unwrap();
            assert_eq!(pins.pin_state("t", "1"), PinState::Changed, "{text}");
            assert!(pins.pin([&tool("t", "1")]).unwrap_err().to_string().contains("is damaged"));
            assert!(pins.load_error().unwrap().contains("remove it"));
            assert_eq!(pins.pin_state("t", "1"), PinState::Changed, "{text}");
        }
    }
}
