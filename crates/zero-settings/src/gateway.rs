//! The gateway that is run here, and the one that is used elsewhere, as settings name them.

use std::collections::BTreeMap;
use std::net::IpAddr;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::document::join_pointer;
use crate::models::SecretSetting;
use crate::sandbox;

/// The keys below `gateway.remote` that can be set one by one.
pub const REMOTE_KEYS: [&str; 6] = [
    "gateway.remote.url",
    "gateway.remote.token",
    "gateway.remote.tokenFile",
    "gateway.remote.passwordFile",
    "gateway.remote.tlsFingerprint",
    "gateway.remote.allowPlaintext",
];
/// The other keys of the gateway.
pub const KEYS: [&str; 12] = [
    "gateway.port",
    "gateway.bind",
    "gateway.allowedOrigins",
    "gateway.allowedHosts",
    "gateway.tokens",
    "gateway.folders",
    "gateway.passwordFile",
    "gateway.tls",
    "gateway.allowPlaintext",
    "gateway.telemetry",
    "gateway.maxSessions",
    "gateway.maxSessionBytes",
];

/// A gateway. Only your own settings count here, never a project's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub struct GatewaySettings {
    /// The port that `zero gateway` listens on.
    pub port: Option<u16>,
    /// The address that it listens on; `127.0.0.1` when absent.
    pub bind: Option<IpAddr>,
    /// Pages that may connect, such as `https://console.example.org`, beside those of no page.
    pub allowed_origins: Vec<String>,
    /// Names that it may be called by, beside those of this machine.
    pub allowed_hosts: Vec<String>,
    /// Tokens, by the name of who has it.
    pub tokens: BTreeMap<String, GatewayTokenSetting>,
    /// Folders in which clients may let sessions work with the tools of this machine, those who may
    /// do everything excepted; the one it was started in when absent.
    pub folders: Option<Vec<String>>,
    /// A file that holds a password, which may do everything.
    pub password_file: Option<String>,
    /// The certificate, for connections that cannot be read on the way.
    pub tls: Option<TlsSetting>,
    /// Whether other machines may connect without TLS.
    pub allow_plaintext: bool,
    /// Where figures and traces are sent.
    pub telemetry: Option<TelemetrySettings>,
    /// Sessions that one owner may have; ten thousand when absent.
    #[schemars(range(min = 1))]
    pub max_sessions: Option<u64>,
    /// Bytes that a session may take before it takes no more prompts; 1 GiB when absent.
    #[schemars(range(min = 1))]
    pub max_session_bytes: Option<u64>,
    /// The gateway elsewhere that zero uses instead of its own.
    pub remote: Option<RemoteGatewaySetting>,
}

/// A token, and what it may be used for.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GatewayTokenSetting {
    /// Where it is found.
    pub secret: SecretSetting,
    /// What it may be used for.
    pub scopes: Vec<TokenScopeSetting>,
    /// Folders in which its holder may let sessions work, in place of `gateway.folders`.
    #[serde(default)]
    pub folders: Option<Vec<String>>,
    /// Whose sessions it is used for, by the name of their token, or `this machine` or `password`;
    /// for its own when absent.
    #[serde(default)]
    pub owner: Option<String>,
}

/// What a token may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TokenScopeSetting {
    /// To look.
    Read,
    /// To talk; includes looking.
    Write,
    /// To answer whether calls may run.
    Approvals,
    /// To answer other questions.
    Questions,
    /// Everything.
    Admin,
}

/// A certificate and its key, in PEM.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TlsSetting {
    /// File of the certificate, with those that vouch for it.
    pub certificate: String,
    /// File of its key.
    pub key: String,
}

/// Where figures and traces are sent.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TelemetrySettings {
    /// An OpenTelemetry collector that takes OTLP over HTTP, such as `http://127.0.0.1:4318`.
    pub endpoint: String,
    /// Headers sent with each request.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
}

/// The gateway elsewhere that zero uses instead of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub struct RemoteGatewaySetting {
    /// Its address, such as `wss://gateway-host:18789`.
    pub url: Option<String>,
    /// The token. Better in a file of its own: `tokenFile`.
    pub token: Option<String>,
    /// A file that holds the token.
    pub token_file: Option<String>,
    /// A file that holds the password.
    pub password_file: Option<String>,
    /// SHA-256 of its certificate; no other is then accepted.
    pub tls_fingerprint: Option<String>,
    /// Whether to talk to another machine without TLS.
    pub allow_plaintext: bool,
}

/// Texts that name no folder, and folders that would limit nothing, by their JSON pointer.
pub(crate) fn find_wrong_texts(value: &Value) -> Vec<(String, String)> {
    let mut wrong = sandbox::find_wrong_items(value, "/gateway/folders", check_folder);
    let tokens = value.pointer("/gateway/tokens").and_then(Value::as_object);
    for (name, token) in tokens.into_iter().flatten() {
        let list = join_pointer(&join_pointer("/gateway/tokens", name), "folders");
        let scopes = token.get("scopes").and_then(Value::as_array).into_iter().flatten();
        if token.get("folders").is_some() && scopes.into_iter().any(|scope| scope == "admin") {
            let what = format!(
                "token `{name}` may do everything, so that `folders` would limit nothing; leave out either"
            );
            wrong.push((list, what));
            continue;
        }
        wrong.extend(sandbox::find_wrong_items(value, &list, check_folder));
    }
    wrong
}

fn check_folder(text: &str) -> Result<(), String> {
    if text.starts_with('/') || text.starts_with("~/") || text == "~" {
        return Ok(());
    }
    Err("is no path that is clear; write it whole, from `/` or `~/` on".to_owned())
}

impl GatewaySettings {
    /// The same with the one field that another names. All fields are named, so that a new one
    /// cannot be forgotten here.
    pub(crate) fn with_field(self, field: Self) -> Self {
        let Self {
            port,
            bind,
            allowed_origins,
            allowed_hosts,
            tokens,
            folders,
            password_file,
            tls,
            allow_plaintext,
            telemetry,
            max_sessions,
            max_session_bytes,
            remote,
        } = field;
        let list = |later: Vec<String>, own| if later.is_empty() { own } else { later };
        Self {
            port: port.or(self.port),
            bind: bind.or(self.bind),
            allowed_origins: list(allowed_origins, self.allowed_origins),
            allowed_hosts: list(allowed_hosts, self.allowed_hosts),
            tokens: if tokens.is_empty() { self.tokens } else { tokens },
            folders: folders.or(self.folders),
            password_file: password_file.or(self.password_file),
            tls: tls.or(self.tls),
            allow_plaintext: allow_plaintext || self.allow_plaintext,
            telemetry: telemetry.or(self.telemetry),
            max_sessions: max_sessions.or(self.max_sessions),
            max_session_bytes: max_session_bytes.or(self.max_session_bytes),
            remote: remote.or(self.remote),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::trust::TrustState;
    use crate::workspace_settings::tests::parse_layers;
    use crate::{SettingsLayerKind, WorkspaceSettings};

    const TEXT: &str = r#"{"gateway": {"port": 1, "tokens": {"ci": {"secret": {"file": "t"}, "scopes": ["read"]}},
        "remote": {"url": "wss://h:18789", "token": "x"}}}"#;

    #[test]
    fn gateway_settings_count_only_in_user_file() {
        let trusted = || TrustState::assumed();
        let own =
            WorkspaceSettings::merge(&parse_layers(&[(SettingsLayerKind::User, TEXT)]), trusted())
                .gateway();
        assert_eq!(own.port, Some(1));
        assert_eq!(own.tokens["ci"].scopes, [TokenScopeSetting::Read]);
        let remote = own.remote.unwrap();
        assert_eq!(remote.url.as_deref(), Some("wss://h:18789"));
        for standing in [trusted(), TrustState::Never] {
            let project = WorkspaceSettings::merge(
                &parse_layers(&[(SettingsLayerKind::Project, TEXT)]),
                standing,
            );
            let gateway = project.gateway();
            assert!(
                gateway.port.is_none() && gateway.remote.is_none() && gateway.tokens.is_empty()
            );
        }
    }

    #[test]
    fn gateway_folders_must_be_absolute_and_not_for_admin() {
        #[track_caller]
        fn check(gateway: Value, expected: &[(&str, &str)]) {
            let wrong = find_wrong_texts(&json!({ "gateway": gateway }));
            let wrong: Vec<(&str, &str)> = wrong
                .iter()
                .map(|(at, what)| (at.as_str(), what.split(';').next().unwrap()))
                .collect();
            assert_eq!(wrong, expected);
        }
        let token = |scope: &str, folder: &str| json!({"tokens": {"ci": {"scopes": [scope], "folders": [folder]}}});
        check(json!({"folders": ["/srv/a", "~/b", "~", "/"]}), &[]);
        check(
            json!({"folders": ["/a", "b"]}),
            &[("/gateway/folders/1", "`b` is no path that is clear")],
        );
        check(token("write", "/srv"), &[]);
        check(
            token("write", ".."),
            &[("/gateway/tokens/ci/folders/0", "`..` is no path that is clear")],
        );
        let nothing = "token `ci` may do everything, so that `folders` would limit nothing";
        check(token("admin", "/srv"), &[("/gateway/tokens/ci/folders", nothing)]);
    }
}
