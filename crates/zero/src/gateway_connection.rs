//! Connects commands to a gateway: a remote one, or one in this process. Both use the same protocol, so
//! each command has one implementation.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use zero_client::GatewayLocality;
use zero_client::url_dialer::{UrlDialer, with_client_capabilities};
use zero_gateway::{AuthConfig, Gateway, Principal};
use zero_sandbox::ConfigFile;
use zero_session::notification::{Notifier, flush_all};
use zero_session::store::Store;
use zero_settings::WorkspaceSettings;
use zero_settings::gateway::RemoteGatewaySetting;
use zero_wire::client::{
    ConnectOptions, FingerprintParseError, GatewayClient, GatewayCredentials, GatewayEvents,
    GatewayTarget, GatewayUrl, GatewayUrlError,
};
use zero_wire::method::TokenScope;
use zero_wire::zero_sessions::CAP_EVENTS;

use zero_runtime::session_results::ResultLifetime;

use crate::AppContext;
use crate::cli::RemoteGatewayArgs;
use crate::device_key::DeviceKeyFile;
use crate::exit::UsageError;
use crate::secret;
use crate::session_store::StoreChoice;
use crate::settings_adapter::network::extra_roots;
use crate::terminal::Terminal;
use crate::token_holder::LOCAL_OWNER;

/// Grace period for active runs when the program exits.
pub(crate) const SHUTDOWN_GRACE: Duration = Duration::from_secs(2);
/// File of the token that `zero gateway` makes, in zero's own folder.
pub(crate) const TOKEN_FILE: &str = "gateway.token";

/// A connection to a gateway.
pub(crate) struct CliGatewayConnection {
    pub(crate) client: GatewayClient,
    pub(crate) events: GatewayEvents,
    /// The gateway in this process, if the connection is local.
    embedded: Option<Gateway>,
    notifiers: Vec<Arc<dyn Notifier>>,
    terminal: Terminal,
}

/// Address and credentials of a remote gateway.
struct RemoteGatewayTarget {
    url: GatewayUrl,
    credentials: GatewayCredentials,
    fingerprint: Option<String>,
    allow_plaintext: bool,
}

impl AppContext {
    /// Connects to the named gateway, or to one in this process.
    pub(crate) async fn connect(
        &self,
        args: &RemoteGatewayArgs,
        settings: &WorkspaceSettings,
        settings_files: &[PathBuf],
        cwd: &Path,
    ) -> anyhow::Result<CliGatewayConnection> {
        let options = |auth| ConnectOptions {
            caps: vec![CAP_EVENTS.to_owned()],
            auth,
            ..ConnectOptions::default()
        };
        if let Some(remote) = self.resolve_remote(args, settings)? {
            let options = self.remote_options(&remote, settings, options)?;
            let _ = self.gateway_locality.set(GatewayLocality::Remote);
            let (client, events) =
                GatewayClient::connect(GatewayTarget::Url(remote.url), options).await?;
            return Ok(CliGatewayConnection {
                client,
                events,
                embedded: None,
                notifiers: Vec::new(),
                terminal: self.terminal.clone(),
            });
        }
        let gateway = self
            .gateway_config(
                settings,
                settings_files,
                cwd.to_owned(),
                AuthConfig::deny_all(),
                StoreChoice::File,
            )
            .await?;
        let gateway = Gateway::new(gateway);
        let _ = self.gateway_locality.set(GatewayLocality::InProcess);
        let (near, far) = zero_wire::pipe::pipe();
        gateway.attach_pipe(far, local_principal());
        let target = GatewayTarget::Pipe(near);
        let connected =
            GatewayClient::connect(target, options(GatewayCredentials::default())).await;
        let (client, events) = connected.context("could not start the gateway in this process")?;
        let notifiers = self.notifiers.get().cloned().unwrap_or_default();
        let terminal = self.terminal.clone();
        Ok(CliGatewayConnection { client, events, embedded: Some(gateway), notifiers, terminal })
    }

    /// Dialer for the remote gateway, if one is named.
    pub(crate) fn remote_dialer(
        &self,
        args: &RemoteGatewayArgs,
        settings: &WorkspaceSettings,
    ) -> anyhow::Result<Option<UrlDialer>> {
        let Some(remote) = self.resolve_remote(args, settings)? else { return Ok(None) };
        let options =
            self.remote_options(&remote, settings, |auth| self.editor_connect_options(auth))?;
        let device = DeviceKeyFile::new(self.config.state_dir()?);
        Ok(Some(UrlDialer::new(remote.url, options).with_device(Arc::new(device))))
    }

    /// Connect options for a remote gateway.
    fn remote_options(
        &self,
        remote: &RemoteGatewayTarget,
        settings: &WorkspaceSettings,
        base: impl FnOnce(GatewayCredentials) -> ConnectOptions,
    ) -> anyhow::Result<ConnectOptions> {
        let pin = remote.fingerprint.as_ref().map(|pin| pin.parse()).transpose();
        Ok(ConnectOptions {
            allow_plaintext: remote.allow_plaintext,
            tls_fingerprint: pin
                .map_err(|error: FingerprintParseError| UsageError(error.to_string()))?,
            extra_roots: extra_roots(settings, &self.config)?,
            ..base(remote.credentials.clone())
        })
    }

    /// Connect options for an editor bridge.
    pub(crate) fn editor_connect_options(&self, auth: GatewayCredentials) -> ConnectOptions {
        with_client_capabilities(ConnectOptions { auth, ..ConnectOptions::default() })
    }

    /// The named remote gateway. Credentials in settings are sent only to the URL in settings.
    fn resolve_remote(
        &self,
        args: &RemoteGatewayArgs,
        settings: &WorkspaceSettings,
    ) -> anyhow::Result<Option<RemoteGatewayTarget>> {
        let configured = settings.gateway().remote.unwrap_or_default();
        let named = RemoteGatewaySetting {
            url: args.url.clone(),
            token: args.token.clone(),
            token_file: args.token_file.as_ref().map(|file| file.display().to_string()),
            password_file: args.password_file.as_ref().map(|file| file.display().to_string()),
            tls_fingerprint: args.tls_fingerprint.clone(),
            allow_plaintext: args.allow_plaintext,
        };
        let (url, from) = match (&args.url, &configured.url) {
            (Some(url), _) => (parse_url(url, "--url")?, named),
            (None, Some(url)) => {
                let password = args.password.as_deref();
                (parse_url(url, "gateway.remote.url")?, with_fallback(named, password, configured))
            }
            (None, None) => {
                return args.unused_flag_error().map_or(Ok(None), |error| Err(error.into()));
            }
        };
        if args.token.is_some() || args.password.is_some() {
            self.terminal.print_note("other users can see command-line arguments; pass secrets with `--token-file` or `--password-file`");
        }
        let token = match (&from.token, &from.token_file) {
            (Some(token), _) => Some(token.clone()),
            (None, Some(file)) => Some(secret::read_file(self, file, "token")?),
            (None, None) => None,
        };
        let password = match (&args.password, &from.password_file) {
            (Some(password), _) => Some(password.clone()),
            (None, Some(file)) => Some(secret::read_file(self, file, "password")?),
            (None, None) => None,
        };
        let credentials = match (token, password) {
            (Some(token), _) => GatewayCredentials::token(token),
            (None, Some(password)) => GatewayCredentials::password(password),
            (None, None) => self.own_credentials(&url),
        };
        Ok(Some(RemoteGatewayTarget {
            url,
            credentials,
            fingerprint: from.tls_fingerprint,
            allow_plaintext: from.allow_plaintext,
        }))
    }

    /// Token of the gateway on this machine, if the URL is on loopback.
    fn own_credentials(&self, url: &GatewayUrl) -> GatewayCredentials {
        let file = self.config.state_dir().ok().filter(|_| url.is_loopback());
        let file = file.map(|state| ConfigFile::Own(state.path().join(TOKEN_FILE)));
        let token = file.and_then(|file| file.read(secret::FILE_BYTES_MAX).ok().flatten());
        let token = token.and_then(|bytes| String::from_utf8(bytes).ok());
        token.map_or_else(GatewayCredentials::default, |token| {
            GatewayCredentials::token(token.trim().to_owned())
        })
    }
}

/// Parses a URL. The error does not repeat it, since it may contain a secret.
fn parse_url(written: &str, at: &str) -> Result<GatewayUrl, UsageError> {
    written.parse().map_err(|error: GatewayUrlError| UsageError(format!("`{at}`: {error}")))
}

impl CliGatewayConnection {
    /// How long the oversized results of its sessions exist on this machine: a gateway elsewhere
    /// cannot tell when it deletes a session.
    pub(crate) fn result_lifetime(&self) -> ResultLifetime {
        match self.embedded {
            Some(_) => ResultLifetime::Session,
            None => ResultLifetime::Process,
        }
    }

    /// Where the gateway runs.
    pub(crate) fn locality(&self) -> GatewayLocality {
        match self.embedded {
            Some(_) => GatewayLocality::InProcess,
            None => GatewayLocality::Remote,
        }
    }

    /// The sessions of this machine, if the connection is local. Records of a remote gateway do not
    /// prove decisions of the local user.
    pub(crate) fn local_store(&self) -> Option<Arc<dyn Store>> {
        self.embedded.as_ref().map(Gateway::store)
    }

    /// Parks runs of a gateway in this process as soon as they only wait for the user. The future ends when each
    /// has been parked or has ended, at once if the gateway is elsewhere.
    pub(crate) fn park_runs(&self) -> impl Future<Output = ()> + use<> {
        let gateway = self.embedded.clone();
        async move {
            if let Some(gateway) = gateway {
                gateway.park_runs().await;
            }
        }
    }

    /// Closes the connection; a gateway in this process gets a grace period.
    pub(crate) async fn close(self) {
        self.close_within(SHUTDOWN_GRACE).await;
    }

    /// Like [`Self::close`], with a grace period for runs that are parked first.
    pub(crate) async fn close_within(self, grace: Duration) {
        self.client.close().await;
        if let Some(gateway) = self.embedded {
            gateway.shut_down(grace).await;
        }
        for failure in flush_all(&self.notifiers).await {
            self.terminal.print_note(&failure.to_string());
        }
    }

    /// Whether the gateway is in this process.
    pub(crate) fn is_local(&self) -> bool {
        self.embedded.is_some()
    }
}

impl RemoteGatewayArgs {
    /// Error for credential flags without a gateway URL. A user who forgets the URL must not end up on
    /// a different gateway.
    fn unused_flag_error(&self) -> Option<UsageError> {
        let given = [
            ("--token", self.token.is_some()),
            ("--token-file", self.token_file.is_some()),
            ("--password", self.password.is_some()),
            ("--password-file", self.password_file.is_some()),
            ("--tls-fingerprint", self.tls_fingerprint.is_some()),
            ("--allow-plaintext", self.allow_plaintext),
        ];
        let (flag, _) = given.into_iter().find(|(_, is_given)| *is_given)?;
        Some(UsageError(format!(
            "`{flag}` needs a remote gateway; pass its address with `--url`, or set `gateway.remote.url`"
        )))
    }
}

/// Completes the fields of `named` with those of `other`. A credential on the command line, such as
/// this password, replaces those of the settings, whatever their kind.
fn with_fallback(
    named: RemoteGatewaySetting,
    password: Option<&str>,
    other: RemoteGatewaySetting,
) -> RemoteGatewaySetting {
    let has_secret = password.is_some()
        || [&named.token, &named.token_file, &named.password_file].iter().any(|it| it.is_some());
    RemoteGatewaySetting {
        url: named.url.or(other.url),
        token: named.token.or(other.token.filter(|_| !has_secret)),
        token_file: named.token_file.or(other.token_file.filter(|_| !has_secret)),
        password_file: named.password_file.or(other.password_file.filter(|_| !has_secret)),
        tls_fingerprint: named.tls_fingerprint.or(other.tls_fingerprint),
        allow_plaintext: named.allow_plaintext || other.allow_plaintext,
    }
}

/// Principal of local commands: their sessions have the same owner for every front end.
pub(crate) fn local_principal() -> Principal {
    admin_principal(LOCAL_OWNER)
}

/// Principal with all scopes and access to all folders.
pub(crate) fn admin_principal(name: &str) -> Principal {
    Principal::new(name, vec![TokenScope::Admin])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credential_flag_replaces_credentials_of_settings() {
        let text = |text: &str| Some(text.to_owned());
        let configured = || RemoteGatewaySetting {
            url: text("wss://g"),
            token: text("old"),
            token_file: text("old-file"),
            password_file: text("old-password"),
            ..RemoteGatewaySetting::default()
        };
        let none = RemoteGatewaySetting::default;
        let secrets = |used: RemoteGatewaySetting| {
            [used.token, used.token_file, used.password_file].map(Option::unwrap_or_default)
        };
        let kept = with_fallback(none(), None, configured());
        assert_eq!(secrets(kept), ["old", "old-file", "old-password"]);
        let by_password = with_fallback(none(), Some("new"), configured());
        assert_eq!(by_password.url, text("wss://g"));
        assert_eq!(secrets(by_password), ["", "", ""]);
        let named = RemoteGatewaySetting { password_file: text("new"), ..none() };
        assert_eq!(secrets(with_fallback(named, None, configured())), ["", "", "new"]);
        let named = RemoteGatewaySetting { token: text("new"), ..none() };
        assert_eq!(secrets(with_fallback(named, None, configured())), ["new", "", ""]);
        let named = RemoteGatewaySetting { token_file: text("new"), ..none() };
        assert_eq!(secrets(with_fallback(named, None, configured())), ["", "new", ""]);
    }
}
