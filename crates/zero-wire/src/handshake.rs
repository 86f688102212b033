//! How a connection begins: challenge, `connect`, `hello-ok`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::frame::StateVersion;
use crate::methods;

/// The newest protocol that is spoken.
pub const PROTOCOL: u32 = 4;
/// The oldest.
pub const PROTOCOL_MIN: u32 = 3;

methods! {
    /// Begins. It comes first, once, and needs no scope: it is what gives them.
    Connect "connect" Read ConnectParams => HelloOk;
}

/// Payload of `connect.challenge`, the first event of every connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConnectChallenge {
    /// What a device signs.
    pub nonce: String,
    /// When, in milliseconds since 1970.
    pub ts: i64,
}

/// Parameters of `connect`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ConnectParams {
    /// Oldest protocol the client speaks.
    #[schemars(range(min = 1))]
    pub min_protocol: u32,
    /// Newest.
    #[schemars(range(min = 1))]
    pub max_protocol: u32,
    /// Who connects.
    pub client: ClientInfo,
    /// What the client can do: `tool-events`, `exec-approvals`, and of zero's own `zero-events`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000))]
    pub caps: Vec<String>,
    /// Commands of a node; not used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1000))]
    pub commands: Option<Vec<String>>,
    /// What a node can do on its screen; not used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub computer_use: Option<Value>,
    /// What a worker can run; not used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_runs: Option<Value>,
    /// Permissions of a node; not used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permissions: Option<BTreeMap<String, bool>>,
    /// `PATH` of a node; not used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_env: Option<String>,
    /// `operator`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub role: Option<String>,
    /// Scopes it would like. It gets those of its token, of these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1000))]
    pub scopes: Option<Vec<String>>,
    /// The device, with its signature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<DeviceProof>,
    /// The credentials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<ConnectAuth>,
    /// Language.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub locale: Option<String>,
    /// Program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_agent: Option<String>,
}

/// Who connects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClientInfo {
    /// One of a closed list.
    pub id: ClientId,
    /// Name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub display_name: Option<String>,
    /// Its version.
    #[schemars(length(min = 1))]
    pub version: String,
    /// The build.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 96))]
    pub build_id: Option<String>,
    /// The system it runs on.
    #[schemars(length(min = 1))]
    pub platform: String,
    /// The kind of machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub device_family: Option<String>,
    /// The model of machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub model_identifier: Option<String>,
    /// Where on Earth.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    pub time_zone: Option<String>,
    /// How it is used.
    pub mode: ClientMode,
    /// Which of several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub instance_id: Option<String>,
}

/// The clients that are known by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the names say all that is known of them")]
pub enum ClientId {
    WebchatUi,
    OpenclawControlUi,
    OpenclawBrowserCopilot,
    OpenclawTui,
    Webchat,
    Cli,
    GatewayClient,
    OpenclawMacos,
    OpenclawLinux,
    OpenclawIos,
    OpenclawWatchos,
    OpenclawAndroid,
    NodeHost,
    OpenclawWorker,
    Test,
    Fingerprint,
    OpenclawProbe,
}

impl ClientId {
    /// The client on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::WebchatUi => "webchat-ui",
            Self::OpenclawControlUi => "openclaw-control-ui",
            Self::OpenclawBrowserCopilot => "openclaw-browser-copilot",
            Self::OpenclawTui => "openclaw-tui",
            Self::Webchat => "webchat",
            Self::Cli => "cli",
            Self::GatewayClient => "gateway-client",
            Self::OpenclawMacos => "openclaw-macos",
            Self::OpenclawLinux => "openclaw-linux",
            Self::OpenclawIos => "openclaw-ios",
            Self::OpenclawWatchos => "openclaw-watchos",
            Self::OpenclawAndroid => "openclaw-android",
            Self::NodeHost => "node-host",
            Self::OpenclawWorker => "openclaw-worker",
            Self::Test => "test",
            Self::Fingerprint => "fingerprint",
            Self::OpenclawProbe => "openclaw-probe",
        }
    }
}

/// How a client is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the names say all that is known of them")]
pub enum ClientMode {
    Webchat,
    Cli,
    Ui,
    Backend,
    Node,
    Worker,
    Probe,
    Test,
}

impl ClientMode {
    /// The mode on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Webchat => "webchat",
            Self::Cli => "cli",
            Self::Ui => "ui",
            Self::Backend => "backend",
            Self::Node => "node",
            Self::Worker => "worker",
            Self::Probe => "probe",
            Self::Test => "test",
        }
    }
}

/// Credentials. They have no `Debug` that shows them.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ConnectAuth {
    /// A token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// A password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<String>,
    /// A token of the device; zero's gateway gives none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_token: Option<String>,
    /// A token for pairing; zero's gateway gives none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bootstrap_token: Option<String>,
    /// Of a program that the family's gateway started; zero's gateway gives none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval_runtime_token: Option<String>,
    /// The same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_runtime_identity_token: Option<String>,
}

impl std::fmt::Debug for ConnectAuth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ConnectAuth(…)")
    }
}

/// A device and its signature over the challenge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeviceProof {
    /// SHA-256 of the public key, in hexadecimal.
    #[schemars(length(min = 1))]
    pub id: String,
    /// The Ed25519 public key, in base64url.
    #[schemars(length(min = 1))]
    pub public_key: String,
    /// The signature, in base64url.
    #[schemars(length(min = 1))]
    pub signature: String,
    /// When it was signed: the time of the challenge.
    #[schemars(range(min = 0))]
    pub signed_at: i64,
    /// What was signed: the nonce of the challenge.
    #[schemars(length(min = 1))]
    pub nonce: String,
}

/// Payload of the answer to `connect`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HelloOk {
    /// `hello-ok`.
    #[serde(rename = "type")]
    pub kind: HelloKind,
    /// The protocol that is spoken from now on.
    pub protocol: u32,
    /// Who answers.
    pub server: GatewayServerInfo,
    /// What it can do.
    pub features: GatewayFeatures,
    /// What it knows of itself.
    pub snapshot: GatewaySnapshot,
    /// What was granted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<HelloAuth>,
    /// Its bounds.
    pub policy: HelloPolicy,
}

/// The word `hello-ok`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum HelloKind {
    /// The only one.
    #[default]
    #[serde(rename = "hello-ok")]
    HelloOk,
}

/// Who answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GatewayServerInfo {
    /// Its version.
    pub version: String,
    /// This connection.
    pub conn_id: String,
}

/// What a gateway can do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GatewayFeatures {
    /// Its methods.
    pub methods: Vec<String>,
    /// Its events.
    pub events: Vec<String>,
    /// What it can do beyond the family's protocol.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<String>,
}

/// What a gateway knows of itself. zero tells no client about others.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GatewaySnapshot {
    /// Who is there: nobody, as far as clients are told.
    pub presence: Vec<Value>,
    /// How it feels.
    pub health: Value,
    /// Versions of both.
    pub state_version: StateVersion,
    /// How long it has been up.
    pub uptime_ms: u64,
    /// What holds for sessions that say nothing else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_defaults: Option<SessionDefaults>,
}

/// What holds for sessions that say nothing else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionDefaults {
    /// The agent of bare keys.
    pub default_agent_id: String,
    /// The name of its main session.
    pub main_key: String,
    /// The key of its main session.
    pub main_session_key: String,
}

/// What was granted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HelloAuth {
    /// `operator`.
    pub role: String,
    /// The scopes of the token.
    pub scopes: Vec<String>,
}

/// Bounds of a gateway.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HelloPolicy {
    /// Most bytes of a message.
    pub max_payload: u64,
    /// Most bytes that wait for a slow reader.
    pub max_buffered_bytes: u64,
    /// Milliseconds between two ticks.
    pub tick_interval_ms: u64,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::method::GatewayMethod as _;

    #[test]
    fn client_id_and_mode_names_match_the_wire() {
        let known = |place: &str| {
            let words = Connect::checker().schema().pointer(place).unwrap().as_array().unwrap();
            words.clone()
        };
        for word in known("/properties/client/properties/id/enum") {
            let id: ClientId = serde_json::from_value(word.clone()).unwrap();
            assert_eq!(json!(id.as_str()), word);
        }
        for word in known("/properties/client/properties/mode/enum") {
            let mode: ClientMode = serde_json::from_value(word.clone()).unwrap();
            assert_eq!(json!(mode.as_str()), word);
        }
    }

    #[test]
    fn debug_output_hides_credentials() {
        let auth = ConnectAuth { token: Some("s3cret".to_owned()), ..Default::default() };
        assert_eq!(format!("{auth:?}"), "ConnectAuth(…)");
    }
}
