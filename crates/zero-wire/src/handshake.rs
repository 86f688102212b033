//! How a connection starts: the gateway sends `connect.challenge`, the client calls `connect`, and
//! the gateway answers with `hello-ok`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::frame::StateVersion;
use crate::methods;

/// The newest protocol version that zero supports.
pub const PROTOCOL: u32 = 4;
/// The oldest protocol version that zero supports.
pub const PROTOCOL_MIN: u32 = 3;

methods! {
    /// Authenticates the client. It is the first request of a connection, is allowed once, and
    /// needs no scope, because it grants the scopes.
    Connect "connect" Read ConnectParams => HelloOk;
}

/// Payload of `connect.challenge`, the first event of every connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConnectChallenge {
    /// Random text that a device signs.
    pub nonce: String,
    /// Time of the challenge, in milliseconds since 1970.
    pub ts: i64,
}

/// Parameters of `connect`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ConnectParams {
    /// Oldest protocol version that the client supports.
    #[schemars(range(min = 1))]
    pub min_protocol: u32,
    /// Newest protocol version that the client supports.
    #[schemars(range(min = 1))]
    pub max_protocol: u32,
    /// The program that connects.
    pub client: ClientInfo,
    /// Capabilities of the client: `tool-events`, `exec-approvals`, and zero's own `zero-events`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000))]
    pub caps: Vec<String>,
    /// Commands of a node; not used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1000))]
    pub commands: Option<Vec<String>>,
    /// Screen capabilities of a node; not used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub computer_use: Option<Value>,
    /// Runs that a worker supports; not used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_runs: Option<Value>,
    /// Permissions of a node; not used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permissions: Option<BTreeMap<String, bool>>,
    /// `PATH` of a node; not used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_env: Option<String>,
    /// Always `operator`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub role: Option<String>,
    /// Scopes that the client requests. It gets those of them that its token has; if absent, all
    /// scopes of its token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1000))]
    pub scopes: Option<Vec<String>>,
    /// Proof of the client's device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<DeviceProof>,
    /// Credentials of the client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<ConnectAuth>,
    /// Language of the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub locale: Option<String>,
    /// User agent of the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_agent: Option<String>,
}

/// The program that connects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClientInfo {
    /// Identifier from a closed list.
    pub id: ClientId,
    /// Name to show to users.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub display_name: Option<String>,
    /// Version of the program.
    #[schemars(length(min = 1))]
    pub version: String,
    /// Identifier of the program's build.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 96))]
    pub build_id: Option<String>,
    /// Operating system.
    #[schemars(length(min = 1))]
    pub platform: String,
    /// Kind of machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub device_family: Option<String>,
    /// Model of the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub model_identifier: Option<String>,
    /// IANA time zone, such as `Europe/Berlin`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    pub time_zone: Option<String>,
    /// How the program is used.
    pub mode: ClientMode,
    /// Distinguishes several instances of the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub instance_id: Option<String>,
}

/// The closed list of client programs that the protocol knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "zero knows only their names")]
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
    /// Returns the name on the wire.
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

/// How a client program is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "zero knows only their names")]
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
    /// Returns the name on the wire.
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

/// Credentials of a client. `Debug` does not show them.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ConnectAuth {
    /// Token of the gateway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// Password of the gateway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<String>,
    /// Token of a paired device. It works only with the `device` that it was issued to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_token: Option<String>,
    /// One-time code that pairs the `device`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bootstrap_token: Option<String>,
    /// Token of a program that an OpenClaw gateway started; zero's gateway issues none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval_runtime_token: Option<String>,
    /// Token of an agent that an OpenClaw gateway started; zero's gateway issues none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_runtime_identity_token: Option<String>,
}

impl std::fmt::Debug for ConnectAuth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ConnectAuth(…)")
    }
}

/// A device's signature over the challenge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeviceProof {
    /// SHA-256 of the raw public key, in hexadecimal.
    #[schemars(length(min = 1))]
    pub id: String,
    /// The raw Ed25519 public key, as base64url.
    #[schemars(length(min = 1))]
    pub public_key: String,
    /// The signature, as base64url.
    #[schemars(length(min = 1))]
    pub signature: String,
    /// When it was signed: the time of the challenge, in milliseconds since 1970.
    #[schemars(range(min = 0))]
    pub signed_at: i64,
    /// The nonce of the challenge.
    #[schemars(length(min = 1))]
    pub nonce: String,
}

/// Result of `connect`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HelloOk {
    /// Always `hello-ok`.
    #[serde(rename = "type")]
    pub kind: HelloKind,
    /// The protocol version of this connection.
    pub protocol: u32,
    /// The gateway.
    pub server: GatewayServerInfo,
    /// What the gateway supports.
    pub features: GatewayFeatures,
    /// State of the gateway.
    pub snapshot: GatewaySnapshot,
    /// What the client was granted; absent in protocol 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<HelloAuth>,
    /// Limits of the gateway.
    pub policy: HelloPolicy,
}

/// The constant `hello-ok`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum HelloKind {
    /// The only value.
    #[default]
    #[serde(rename = "hello-ok")]
    HelloOk,
}

/// The gateway, and this connection to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GatewayServerInfo {
    /// Version of the gateway.
    pub version: String,
    /// Id of this connection.
    pub conn_id: String,
}

/// What a gateway supports.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GatewayFeatures {
    /// Names of its methods.
    pub methods: Vec<String>,
    /// Names of its events.
    pub events: Vec<String>,
    /// Its extensions to the OpenClaw protocol.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<String>,
}

/// State of a gateway. zero reports nothing about other clients.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GatewaySnapshot {
    /// Connected clients; zero always sends an empty list.
    pub presence: Vec<Value>,
    /// Health of the gateway.
    pub health: Value,
    /// Versions of `presence` and `health`.
    pub state_version: StateVersion,
    /// How long the gateway has been running, in milliseconds.
    pub uptime_ms: u64,
    /// Defaults for session keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_defaults: Option<SessionDefaults>,
}

/// Defaults for session keys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionDefaults {
    /// The agent of session keys that contain none.
    pub default_agent_id: String,
    /// Name of that agent's main session.
    pub main_key: String,
    /// Canonical key of that agent's main session.
    pub main_session_key: String,
}

/// What a client was granted.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HelloAuth {
    /// Always `operator`.
    pub role: String,
    /// The granted scopes.
    pub scopes: Vec<String>,
    /// New token of the device, if the device was paired by this connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_token: Option<String>,
    /// When the token was issued, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issued_at_ms: Option<i64>,
}

impl std::fmt::Debug for HelloAuth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HelloAuth").field("scopes", &self.scopes).finish_non_exhaustive()
    }
}

/// Limits of a gateway.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HelloPolicy {
    /// Maximum length of a message, in bytes.
    pub max_payload: u64,
    /// Maximum number of bytes that are queued for a slow reader.
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
        let names_at = |pointer: &str| {
            Connect::checker().schema().pointer(pointer).unwrap().as_array().unwrap().clone()
        };
        for name in names_at("/properties/client/properties/id/enum") {
            let id: ClientId = serde_json::from_value(name.clone()).unwrap();
            assert_eq!(json!(id.as_str()), name);
        }
        for name in names_at("/properties/client/properties/mode/enum") {
            let mode: ClientMode = serde_json::from_value(name.clone()).unwrap();
            assert_eq!(json!(mode.as_str()), name);
        }
    }

    #[test]
    fn debug_output_hides_credentials() {
        let auth = ConnectAuth { token: Some("s3cret".to_owned()), ..Default::default() };
        assert_eq!(format!("{auth:?}"), "ConnectAuth(…)");
    }
}
