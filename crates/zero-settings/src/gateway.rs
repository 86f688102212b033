//! Settings for the gateway that runs here and for a remote one (`gateway`).

use std::collections::BTreeMap;
use std::net::IpAddr;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use zero_core::schema_violation::join_pointer;

use crate::models::SecretSetting;
use crate::sandbox;

/// The keys below `gateway.remote` that can be set individually.
pub const REMOTE_KEYS: [&str; 6] = [
    "gateway.remote.url",
    "gateway.remote.token",
    "gateway.remote.tokenFile",
    "gateway.remote.passwordFile",
    "gateway.remote.tlsFingerprint",
    "gateway.remote.allowPlaintext",
];
/// The other keys below `gateway`.
pub const KEYS: [&str; 20] = [
    "gateway.port",
    "gateway.bind",
    "gateway.allowedOrigins",
    "gateway.allowedHosts",
    "gateway.publicUrl",
    "gateway.tokens",
    "gateway.folders",
    "gateway.passwordFile",
    "gateway.tls",
    "gateway.allowPlaintext",
    "gateway.telemetry",
    "gateway.maxSessions",
    "gateway.maxSessionBytes",
    "gateway.maxOwnerBytes",
    "gateway.retention",
    "gateway.toolHostTimeoutSeconds",
    "gateway.store",
    "gateway.storePassword",
    "gateway.bus",
    "gateway.busSecret",
];

/// A gateway. Only your own settings apply here, never a project's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub struct GatewaySettings {
    /// The port that `zero gateway` listens on.
    pub port: Option<u16>,
    /// The address that `zero gateway` listens on; `127.0.0.1` when absent.
    pub bind: Option<IpAddr>,
    /// Origins of web pages that may connect, such as `https://console.example.org`, in addition to
    /// clients without an origin.
    pub allowed_origins: Vec<String>,
    /// Host names that clients may use for the gateway, in addition to those of this machine.
    pub allowed_hosts: Vec<String>,
    /// Address by which browsers reach the console of this gateway, such as `https://box.lan:18789`;
    /// notifications link to it. The address that it listens on when absent.
    pub public_url: Option<String>,
    /// Tokens, by the name of their holder.
    pub tokens: BTreeMap<String, GatewayTokenSetting>,
    /// Folders in which sessions of clients may work with this machine's tools; the folder the
    /// gateway was started in when absent. Admin tokens are not restricted.
    pub folders: Option<Vec<String>>,
    /// A file with a password that has admin rights.
    pub password_file: Option<String>,
    /// The TLS certificate.
    pub tls: Option<TlsSetting>,
    /// Whether other machines may connect without TLS.
    pub allow_plaintext: bool,
    /// Where metrics and traces are sent.
    pub telemetry: Option<TelemetrySettings>,
    /// Most sessions per owner; 10,000 when absent.
    #[schemars(range(min = 1))]
    pub max_sessions: Option<u64>,
    /// Most bytes of a session; a larger one accepts no more prompts. 1 GiB when absent.
    #[schemars(range(min = 1))]
    pub max_session_bytes: Option<u64>,
    /// Most bytes of all sessions of an owner, who can send no more prompts then. 64 GiB when absent.
    #[schemars(range(min = 1))]
    pub max_owner_bytes: Option<u64>,
    /// How long a client that hosts the tools of a session may say nothing about a call before the
    /// call ends; 900 when absent.
    #[schemars(range(min = 1, max = 86_400))]
    pub tool_host_timeout_seconds: Option<u64>,
    /// A Postgres database in which gateways share their sessions, such as
    /// `postgres://zero@db.example/zero`, without a password; a file of this machine when absent.
    pub store: Option<String>,
    /// Where the password for `gateway.store` is stored.
    pub store_password: Option<SecretSetting>,
    /// A NATS server over which gateways that share a database reach each other, such as
    /// `nats://zero@bus.example:4222`, without a password; the database itself when absent.
    pub bus: Option<String>,
    /// Where the password, token, NKey seed or `.creds` text for `gateway.bus` is stored.
    pub bus_secret: Option<SecretSetting>,
    /// Which sessions `zero prune` removes; none when absent.
    pub retention: Option<RetentionSettings>,
    /// A remote gateway that zero uses instead of its own.
    pub remote: Option<RemoteGatewaySetting>,
}

/// Which sessions are no longer kept. Sessions with a label are always kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub struct RetentionSettings {
    /// How many days a session is kept after its last activity; for ever when absent.
    #[schemars(range(min = 1))]
    pub session_days: Option<u32>,
    /// Size of all sessions in bytes above which those that were idle longest are removed; any size
    /// when absent.
    #[schemars(range(min = 1))]
    pub store_bytes: Option<u64>,
}

/// A token and its permissions.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GatewayTokenSetting {
    /// Where the secret is stored.
    pub secret: SecretSetting,
    /// The permissions of the token.
    pub scopes: Vec<TokenScopeSetting>,
    /// Folders in which sessions of this token may work, in place of `gateway.folders`.
    #[serde(default)]
    pub folders: Option<Vec<String>>,
    /// The owner whose sessions the token uses: the name of another token, `this machine` or
    /// `password`; its own when absent.
    #[serde(default)]
    pub owner: Option<String>,
}

/// A permission of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TokenScopeSetting {
    /// Read sessions.
    Read,
    /// Send prompts; includes `read`.
    Write,
    /// Answer permission requests.
    Approvals,
    /// Answer other questions of an agent.
    Questions,
    /// All permissions.
    Admin,
}

/// A certificate and its key, in PEM.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TlsSetting {
    /// File with the certificate and its intermediate certificates.
    pub certificate: String,
    /// File with the private key.
    pub key: String,
}

/// Where metrics and traces are sent.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TelemetrySettings {
    /// An OpenTelemetry collector that accepts OTLP over HTTP, such as `http://127.0.0.1:4318`.
    pub endpoint: String,
    /// Headers sent with each request.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
}

/// A remote gateway that zero uses instead of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub struct RemoteGatewaySetting {
    /// Its URL, such as `wss://gateway-host:18789`.
    pub url: Option<String>,
    /// The token. Prefer `tokenFile`, which keeps it out of this file.
    pub token: Option<String>,
    /// A file with the token.
    pub token_file: Option<String>,
    /// A file with the password.
    pub password_file: Option<String>,
    /// SHA-256 of its certificate; no other certificate is accepted then.
    pub tls_fingerprint: Option<String>,
    /// Whether to connect to another machine without TLS.
    pub allow_plaintext: bool,
}

/// Invalid folders, and `folders` that would have no effect, by JSON pointer.
pub(crate) fn find_wrong_texts(value: &Value) -> Vec<(String, String)> {
    let mut wrong = sandbox::find_wrong_items(value, "/gateway/folders", check_folder);
    if let Some(Err(what)) =
        value.pointer("/gateway/store").and_then(Value::as_str).map(check_store)
    {
        wrong.push(("/gateway/store".to_owned(), what.to_owned()));
    }
    if let Some(Err(what)) = value.pointer("/gateway/bus").and_then(Value::as_str).map(check_bus) {
        wrong.push(("/gateway/bus".to_owned(), what.to_owned()));
    }
    let public = value.pointer("/gateway/publicUrl").and_then(Value::as_str);
    if let Some(Err(what)) = public.map(check_public_url) {
        wrong.push(("/gateway/publicUrl".to_owned(), what.to_owned()));
    }
    let tokens = value.pointer("/gateway/tokens").and_then(Value::as_object);
    for (name, token) in tokens.into_iter().flatten() {
        let list = join_pointer(&join_pointer("/gateway/tokens", name), "folders");
        let scopes = token.get("scopes").and_then(Value::as_array).into_iter().flatten();
        if token.get("folders").is_some() && scopes.into_iter().any(|scope| scope == "admin") {
            let what = format!(
                "token `{name}` has admin rights, so `folders` has no effect; remove one of them"
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
    Err("is not a full path; start it with `/` or `~/`".to_owned())
}

/// Checks the address of a shared store. The error repeats nothing of it, since it may contain a
/// password.
pub fn check_store(address: &str) -> Result<(), &'static str> {
    let rest =
        address.strip_prefix("postgres://").or_else(|| address.strip_prefix("postgresql://"));
    let Some(rest) = rest else {
        return Err(
            "is not the address of a Postgres database; write `postgres://user@host:5432/database`",
        );
    };
    let (authority, query) = rest.split_once('?').unwrap_or((rest, ""));
    // A password may contain `/`, although it should not.
    let has_password = authority.rsplit_once('@').is_some_and(|(user, _)| user.contains(':'))
        || query.split('&').any(|pair| pair.starts_with("password="));
    match has_password {
        true => Err(
            "must not contain the password, which others could see; set `gateway.storePassword` to `{\"file\": FILE}`, `{\"env\": VARIABLE}` or `{\"keyring\": NAME}` instead",
        ),
        false => Ok(()),
    }
}

/// Checks the address of a bus. The error repeats nothing of it, since it may contain a password.
pub fn check_bus(address: &str) -> Result<(), &'static str> {
    let rest = address.strip_prefix("nats://").or_else(|| address.strip_prefix("tls://"));
    let Some(rest) = rest else {
        return Err("is not the address of a NATS server; write `nats://user@host:4222`");
    };
    let authority = rest.split_once('?').map_or(rest, |(authority, _)| authority);
    match authority.rsplit_once('@').is_some_and(|(user, _)| user.contains(':')) {
        true => Err(
            "must not contain the password, which others could see; set `gateway.busSecret` to `{\"file\": FILE}`, `{\"env\": VARIABLE}` or `{\"keyring\": NAME}` instead",
        ),
        false => Ok(()),
    }
}

/// Checks the address of the console. The error repeats nothing of it, since it may contain a secret.
fn check_public_url(address: &str) -> Result<(), &'static str> {
    let rest = address.strip_prefix("https://").or_else(|| address.strip_prefix("http://"));
    let Some(authority) = rest.map(|rest| rest.strip_suffix('/').unwrap_or(rest)) else {
        return Err(
            "is not the address of a web page; write `https://HOST` or `https://HOST:PORT`",
        );
    };
    if authority.contains('@') {
        return Err("must not contain a name or password, which notifications would show");
    }
    let is_host = |character: char| {
        character.is_alphanumeric() || matches!(character, '.' | '-' | ':' | '[' | ']')
    };
    match !host_name(authority).is_empty() && authority.chars().all(is_host) {
        true => Ok(()),
        false => Err("must be a host and a port only; write `https://HOST` or `https://HOST:PORT`"),
    }
}

/// The host of `HOST` or `HOST:PORT`.
fn host_name(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    }
}

impl GatewaySettings {
    /// Names of hosts by which clients may call this gateway, in addition to those of this machine.
    pub fn host_names(&self) -> Vec<String> {
        let public = self.public_url.as_deref().and_then(|url| url.split_once("://"));
        let public = public.map(|(_, rest)| host_name(rest.trim_end_matches('/')).to_owned());
        self.allowed_hosts.iter().cloned().chain(public).collect()
    }

    /// Returns these settings with the one field that `field` sets. Names all fields, so that a new
    /// one cannot be forgotten here.
    pub(crate) fn with_field(self, field: Self) -> Self {
        let Self {
            port,
            bind,
            allowed_origins,
            allowed_hosts,
            public_url,
            tokens,
            folders,
            password_file,
            tls,
            allow_plaintext,
            telemetry,
            max_sessions,
            max_session_bytes,
            max_owner_bytes,
            tool_host_timeout_seconds,
            store,
            store_password,
            bus,
            bus_secret,
            retention,
            remote,
        } = field;
        let list = |later: Vec<String>, own| if later.is_empty() { own } else { later };
        Self {
            port: port.or(self.port),
            bind: bind.or(self.bind),
            allowed_origins: list(allowed_origins, self.allowed_origins),
            allowed_hosts: list(allowed_hosts, self.allowed_hosts),
            public_url: public_url.or(self.public_url),
            tokens: if tokens.is_empty() { self.tokens } else { tokens },
            folders: folders.or(self.folders),
            password_file: password_file.or(self.password_file),
            tls: tls.or(self.tls),
            allow_plaintext: allow_plaintext || self.allow_plaintext,
            telemetry: telemetry.or(self.telemetry),
            max_sessions: max_sessions.or(self.max_sessions),
            max_session_bytes: max_session_bytes.or(self.max_session_bytes),
            max_owner_bytes: max_owner_bytes.or(self.max_owner_bytes),
            tool_host_timeout_seconds: tool_host_timeout_seconds.or(self.tool_host_timeout_seconds),
            store: store.or(self.store),
            store_password: store_password.or(self.store_password),
            bus: bus.or(self.bus),
            bus_secret: bus_secret.or(self.bus_secret),
            retention: retention.or(self.retention),
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
        for trust_state in [trusted(), TrustState::Never] {
            let project = WorkspaceSettings::merge(
                &parse_layers(&[(SettingsLayerKind::Project, TEXT)]),
                trust_state,
            );
            let gateway = project.gateway();
            assert!(
                gateway.port.is_none() && gateway.remote.is_none() && gateway.tokens.is_empty()
            );
        }
    }

    #[test]
    fn address_of_a_store_has_no_password() {
        for good in [
            "postgres://zero@db.example/zero",
            "postgresql://db.example:5432/zero?sslmode=verify-full",
            "postgres://zero@[::1]:5432/zero",
        ] {
            assert_eq!(check_store(good), Ok(()), "{good}");
        }
        for (bad, problem) in [
            ("mysql://db/zero", "not the address of a Postgres database"),
            ("postgres://zero:hunter2@db/zero", "must not contain the password"),
            ("postgres://zero:hun/ter@2@db/zero", "must not contain the password"),
            ("postgres://db/zero?user=a&password=hunter2", "must not contain the password"),
        ] {
            let wrong = find_wrong_texts(&json!({"gateway": {"store": bad}}));
            let [(at, what)] = &wrong[..] else { panic!("{bad}: {wrong:?}") };
            assert!(at == "/gateway/store" && what.contains(problem), "{bad}: {what}");
            assert!(!what.contains("hun"), "{what}");
        }
    }

    #[test]
    fn address_of_a_bus_has_no_password() {
        for good in ["nats://zero@bus.example:4222", "tls://a,b:4223", "nats://[::1]?tls=disable"] {
            assert_eq!(check_bus(good), Ok(()), "{good}");
        }
        for (bad, problem) in [
            ("http://bus", "not the address of a NATS server"),
            ("nats://zero:hunter2@bus", "must not contain the password"),
        ] {
            let wrong = find_wrong_texts(&json!({"gateway": {"bus": bad}}));
            let [(at, what)] = &wrong[..] else { panic!("{bad}: {wrong:?}") };
            assert!(at == "/gateway/bus" && what.contains(problem), "{bad}: {what}");
            assert!(!what.contains("hun"), "{what}");
        }
    }

    #[test]
    fn public_address_is_a_host_and_is_allowed() {
        let hosts = |url: &str| {
            let settings = GatewaySettings {
                public_url: Some(url.to_owned()),
                allowed_hosts: vec!["other.lan".to_owned()],
                ..GatewaySettings::default()
            };
            settings.host_names()
        };
        for (good, host) in [
            ("https://box.lan", "box.lan"),
            ("https://box.lan:18789/", "box.lan"),
            ("http://192.168.1.7:18789", "192.168.1.7"),
            ("https://[fd00::1]:1", "[fd00::1]"),
        ] {
            assert_eq!(check_public_url(good), Ok(()), "{good}");
            assert_eq!(hosts(good), ["other.lan", host]);
        }
        for (bad, problem) in [
            ("box.lan:18789", "not the address of a web page"),
            ("wss://box.lan", "not the address of a web page"),
            ("https://", "a host and a port only"),
            ("https://me:hunter2@box.lan", "must not contain a name or password"),
            ("https://box.lan/zero?token=hunter2", "a host and a port only"),
            ("https://box.lan/#hunter2", "a host and a port only"),
        ] {
            let wrong = find_wrong_texts(&json!({"gateway": {"publicUrl": bad}}));
            let [(at, what)] = &wrong[..] else { panic!("{bad}: {wrong:?}") };
            assert!(at == "/gateway/publicUrl" && what.contains(problem), "{bad}: {what}");
            assert!(!what.contains("hunter2"), "{what}");
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
        check(json!({"folders": ["/a", "b"]}), &[("/gateway/folders/1", "`b` is not a full path")]);
        check(token("write", "/srv"), &[]);
        check(token("write", ".."), &[("/gateway/tokens/ci/folders/0", "`..` is not a full path")]);
        let nothing = "token `ci` has admin rights, so `folders` has no effect";
        check(token("admin", "/srv"), &[("/gateway/tokens/ci/folders", nothing)]);
    }
}
