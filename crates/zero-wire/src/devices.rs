//! zero's own methods for paired devices, `zero.devices.…`.
//!
//! A device, such as a browser, has an Ed25519 key that does not leave it. It is paired by a one-time
//! code, which it sends as `auth.bootstrapToken`, or by an approval. `hello-ok` then has a token that
//! works only with a proof of that key.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::approvals::Acknowledgement;
use crate::methods;

methods! {
    /// Lists paired devices and those that ask to be paired.
    ZeroDevicesList "zero.devices.list" Admin DevicesListParams => DevicesListResult;
    /// Creates a one-time code that pairs a device.
    ZeroDevicesInvite "zero.devices.invite" Admin DeviceInviteParams => DeviceInviteResult;
    /// Pairs a device that asks for it.
    ZeroDevicesApprove "zero.devices.approve" Admin DeviceApproveParams => PairedDeviceInfo;
    /// Rejects the request of a device to be paired.
    ZeroDevicesReject "zero.devices.reject" Admin DeviceRejectParams => Acknowledgement;
    /// Changes the scopes of a device and closes its connections, so that it connects with them.
    ZeroDevicesScope "zero.devices.scope" Admin DeviceScopeParams => PairedDeviceInfo;
    /// Revokes the token of a device and closes its connections.
    ZeroDevicesRevoke "zero.devices.revoke" Admin DeviceRevokeParams => DeviceRevokeResult;
}

/// Parameters of `zero.devices.list`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DevicesListParams {}

/// Paired devices and requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DevicesListResult {
    /// Paired devices, oldest first.
    pub devices: Vec<PairedDeviceInfo>,
    /// Devices that ask to be paired, oldest first.
    pub requests: Vec<PairingRequestInfo>,
    /// Tokens and passwords of the settings, by name.
    #[serde(default)]
    pub tokens: Vec<TokenInfo>,
}

/// A token or password that the gateway was started with; without the secret. It ends when it is
/// removed from the settings and the gateway is restarted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TokenInfo {
    /// Its name.
    pub name: String,
    /// `token`, `password`, or `none` if clients need neither.
    pub kind: String,
    /// Its scopes.
    pub scopes: Vec<String>,
    /// Owner whose sessions it uses.
    pub owner: String,
}

/// One browser or program that was paired, with the rights of its token; without the token.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PairedDeviceInfo {
    /// SHA-256 of its public key, in hexadecimal.
    pub id: String,
    /// Name that the device gave itself when it was paired.
    pub name: String,
    /// The scopes of its token.
    pub scopes: Vec<String>,
    /// Owner whose sessions it uses.
    pub owner: String,
    /// When it was paired, in milliseconds since 1970.
    pub paired_at_ms: i64,
    /// When it connected last, in milliseconds since 1970.
    pub seen_at_ms: i64,
    /// Number of its open connections.
    pub connections: u64,
    /// Whether the request came from this device.
    pub is_this: bool,
}

/// A device that asks to be paired.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PairingRequestInfo {
    /// Id of the request.
    pub id: String,
    /// Name that the device gives itself. It proves nothing.
    pub name: String,
    /// Short text that the device shows, too: the user compares both.
    pub words: String,
    /// Address that the request came from.
    pub address: String,
    /// When it was asked, in milliseconds since 1970.
    pub asked_at_ms: i64,
    /// When the request expires, in milliseconds since 1970.
    pub expires_at_ms: i64,
}

/// Parameters of `zero.devices.invite`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeviceInviteParams {
    /// Scopes of the token that the device gets, such as `operator.read`; those of the client have
    /// to cover them.
    #[schemars(length(min = 1, max = 5))]
    pub scopes: Vec<String>,
    /// Address of the console as the client knows it, for the QR code. The gateway's own public address
    /// replaces it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    pub page: Option<String>,
}

/// A one-time code.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeviceInviteResult {
    /// The code, which a user types.
    pub code: String,
    /// When it expires, in milliseconds since 1970.
    pub expires_at_ms: i64,
    /// The address by which browsers reach the console, if the gateway was told one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// QR code of the address, without the code: the rows of its modules, `1` if dark. Empty if there is no
    /// address, or if it is too long.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub qr_rows: Vec<String>,
}

impl std::fmt::Debug for DeviceInviteResult {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("DeviceInviteResult(…)")
    }
}

/// Parameters of `zero.devices.approve`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeviceApproveParams {
    /// Id of the request.
    #[schemars(length(min = 1, max = 128))]
    pub id: String,
    /// Scopes of the token that the device gets.
    #[schemars(length(min = 1, max = 5))]
    pub scopes: Vec<String>,
}

/// Parameters of `zero.devices.reject`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeviceRejectParams {
    /// Id of the request.
    #[schemars(length(min = 1, max = 128))]
    pub id: String,
}

/// Parameters of `zero.devices.scope`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeviceScopeParams {
    /// Id of the device.
    #[schemars(length(min = 1, max = 128))]
    pub id: String,
    /// Scopes that its token has from now on.
    #[schemars(length(min = 1, max = 5))]
    pub scopes: Vec<String>,
}

/// Parameters of `zero.devices.revoke`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeviceRevokeParams {
    /// Id of the device.
    #[schemars(length(min = 1, max = 128))]
    pub id: String,
}

/// Result of `zero.devices.revoke`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeviceRevokeResult {
    /// Whether there was such a device.
    pub revoked: bool,
    /// How many of its connections were closed.
    pub closed: u64,
}
