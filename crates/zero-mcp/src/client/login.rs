//! [`login`] and [`logout`] at a server with OAuth.
//!
//! The user logs in with their browser: zero shows a URL, and the browser is redirected to a port
//! of this machine. If the browser runs elsewhere, the user pastes the URL that it was redirected
//! to. The SDK discovers the authorization server and validates the response. zero opens no
//! browser, and all requests pass the network guard.

mod callback;
mod error;
mod login_http_client;
mod logout;
pub(crate) mod renewal;

use std::time::Duration;

use rmcp::transport::auth::{
    AuthError, AuthorizationManager, AuthorizationMetadata, CredentialStore,
    InMemoryCredentialStore, OAuthClientConfig,
};
use tokio::time::timeout;
use url::Url;
use zero_runtime::tool::BoxFuture;
use zero_runtime::web::{NetworkGuard, RedirectPolicy};

pub use self::error::LoginError;
pub use self::logout::{LogoutOutcome, RevocationOutcome, logout};

use self::callback::{AuthorizationResponse, CallbackListener};
use self::login_http_client::LoginHttpClient;
use super::credentials::{LoginLocation, LoginRecord, LoginStore};
use crate::server_definition::{HttpEndpoint, ServerAlias};

/// Time limit for the user.
pub const LOGIN_TIME: Duration = Duration::from_secs(5 * 60);
/// Maximum length of the URL that is shown to the user.
const URL_CHARS_MAX: usize = 8 * 1024;

/// Communicates with the user during a login.
pub trait LoginUi: Send + Sync {
    /// Shows the URL to open in a browser.
    fn show_url(&self, url: &str);

    /// Returns the URL that the browser was redirected to, if the user pastes it. It may wait
    /// forever; `None` means that nothing can be pasted.
    fn read_pasted_url(&self) -> BoxFuture<'_, Option<String>>;
}

/// A login to perform.
#[derive(Clone, Copy)]
pub struct LoginRequest<'a> {
    /// Name of the server in settings.
    pub alias: &'a ServerAlias,
    /// URL and login settings of the server.
    pub endpoint: &'a HttpEndpoint,
    /// Decides which hosts may be reached.
    pub guard: &'a NetworkGuard,
    /// Stores the login.
    pub credentials: &'a dyn LoginStore,
    /// URL of a document that describes zero as an OAuth client, if there is one.
    pub client_metadata_url: Option<&'a Url>,
    /// Time limit for the user.
    pub time: Duration,
}

/// A completed login.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoginOutcome {
    /// The authorization server that issued it.
    pub issuer: String,
    /// The granted scopes.
    pub scopes: Vec<String>,
    /// Where it is stored.
    pub location: LoginLocation,
}

/// Logs in at a server and stores the login.
pub async fn login(
    request: LoginRequest<'_>,
    ui: &dyn LoginUi,
) -> Result<LoginOutcome, LoginError> {
    let LoginRequest { endpoint, credentials, .. } = request;
    if endpoint.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization")) {
        return Err(LoginError::HeaderConfigured);
    }
    let resource = LoginRecord::resource_from_url(&endpoint.url);
    // A login that cannot be read is replaced.
    let before = credentials.load(&resource).await.ok().flatten();
    let mut attempt = LoginAttempt::begin(request, before).await?;
    let url = attempt.authorize().await?;
    ui.show_url(&url);
    let waited = timeout(request.time, attempt.wait_for_answer(ui)).await;
    let answer = match waited {
        Ok(answer) => answer?,
        Err(_) => {
            attempt.forget_registration().await;
            return Err(LoginError::TimedOut { after: request.time });
        }
    };
    let record = match attempt.redeem(answer).await {
        Ok(record) => record,
        Err(error) => {
            attempt.forget_registration().await;
            return Err(error);
        }
    };
    let _lock = credentials.lock(&resource).await?;
    let (issuer, scopes) = (record.issuer.clone(), record.scopes().to_vec());
    let location = credentials.save(record).await?;
    Ok(LoginOutcome { issuer, scopes, location })
}

/// A login in progress.
struct LoginAttempt<'a> {
    request: LoginRequest<'a>,
    manager: AuthorizationManager,
    metadata: AuthorizationMetadata,
    store: InMemoryCredentialStore,
    callback: CallbackListener,
    before: Option<LoginRecord>,
    client: Option<ClientRegistration>,
    /// The `state` parameter that the response must repeat.
    state: String,
}

/// The OAuth client that zero uses.
struct ClientRegistration {
    config: OAuthClientConfig,
    /// Whether it was registered dynamically, rather than configured in settings.
    is_registered: bool,
    /// Whether it was registered at an earlier login.
    is_reused: bool,
}

impl<'a> LoginAttempt<'a> {
    async fn begin(
        request: LoginRequest<'a>,
        before: Option<LoginRecord>,
    ) -> Result<Self, LoginError> {
        let LoginRequest { endpoint, guard, .. } = request;
        let web = LoginHttpClient::new(&endpoint.url, guard)?;
        let challenge = fetch_challenge(&web, &endpoint.url).await?;
        let mut manager = login_http_client::new_manager(&endpoint.url, guard)
            .await
            .map_err(LoginError::Discovery)?;
        let found = manager
            .resolve_metadata_from_challenge(challenge.header.as_deref())
            .await
            .map_err(|error| LoginError::Discovery(renewal::describe_error(&error)))?;
        if !found.source.is_discovered() && !challenge.is_refusal {
            return Err(LoginError::NotRequired);
        }
        let metadata = found.metadata;
        manager.set_metadata(metadata.clone());
        let store = InMemoryCredentialStore::new();
        manager.set_credential_store(store.clone());
        let earlier = before.as_ref().and_then(|record| Url::parse(&record.redirect_uri).ok());
        let earlier = earlier.and_then(|url| url.port());
        let callback = CallbackListener::bind(endpoint.login.callback_port, earlier).await?;
        let (client, state) = (None, String::new());
        Ok(Self { request, manager, metadata, store, callback, before, client, state })
    }

    /// Returns the URL at which the user logs in.
    async fn authorize(&mut self) -> Result<String, LoginError> {
        self.check_authorization_endpoint()?;
        let scopes = self.requested_scopes().await;
        let scopes: Vec<&str> = scopes.iter().map(String::as_str).collect();
        let client = self.choose_client(&scopes).await?;
        self.client = Some(client);
        let url = self.manager.get_authorization_url(&scopes).await;
        let url = url.map_err(|error| LoginError::refused(&error))?;
        let parsed = Url::parse(&url).map_err(|_| LoginError::BadAuthorizationUrl)?;
        let state = parsed.query_pairs().find(|(key, _)| key == "state");
        self.state = state.map(|(_, state)| state.into_owned()).unwrap_or_default();
        if self.state.is_empty() || url.len() > URL_CHARS_MAX {
            return Err(LoginError::BadAuthorizationUrl);
        }
        Ok(url)
    }

    /// Checks that the browser is sent to a web page, with `https` unless the server itself uses
    /// `http`.
    fn check_authorization_endpoint(&self) -> Result<(), LoginError> {
        let url = Url::parse(&self.metadata.authorization_endpoint)
            .map_err(|_| LoginError::BadAuthorizationUrl)?;
        let is_plain = self.request.endpoint.url.scheme() == "http";
        match url.scheme() {
            "https" => Ok(()),
            "http" if is_plain => Ok(()),
            _ => Err(LoginError::BadAuthorizationUrl),
        }
    }

    /// Returns the scopes to request: those from settings, or else those that the server names, and
    /// those that it has required since.
    async fn requested_scopes(&self) -> Vec<String> {
        let named = &self.request.endpoint.login.scopes;
        let mut scopes = match named.is_empty() {
            true => self.manager.select_initial_scopes(&[]).await,
            false => named.clone(),
        };
        if let Some(before) = &self.before
            && !before.scopes_wanted.is_empty()
        {
            let more = before.scopes().iter().chain(&before.scopes_wanted);
            let more: Vec<String> = more.filter(|scope| !scopes.contains(scope)).cloned().collect();
            scopes.extend(more);
        }
        scopes
    }

    async fn choose_client(&mut self, scopes: &[&str]) -> Result<ClientRegistration, LoginError> {
        let redirect_uri = self.callback.redirect_uri();
        let settings = &self.request.endpoint.login;
        let can_describe = self
            .metadata
            .additional_fields
            .get("client_id_metadata_document_supported")
            .and_then(serde_json::Value::as_bool)
            .unwrap_or(false);
        let is_same = |record: &&LoginRecord| {
            record.is_registered
                && record.redirect_uri == redirect_uri
                && record.stored.issuer == self.metadata.issuer
        };
        let (config, is_registered, is_reused) = if let Some(id) = &settings.client_id {
            let config = OAuthClientConfig::new(id, &redirect_uri);
            let config = match &settings.client_secret {
                Some(secret) => config.with_client_secret(secret),
                None => config,
            };
            (config, false, false)
        } else if let Some(url) = self.request.client_metadata_url.filter(|_| can_describe) {
            (OAuthClientConfig::new(url.as_str(), &redirect_uri), false, false)
        } else if let Some(record) = self.before.as_ref().filter(is_same) {
            (record.oauth_client(), true, true)
        } else if self.metadata.registration_endpoint.is_some() {
            let registered = self.manager.register_client("zero", &redirect_uri, scopes).await;
            let config = registered.map_err(|error| LoginError::Registration {
                why: renewal::describe_error(&error),
                redirect_uri: redirect_uri.clone(),
            })?;
            (config, true, false)
        } else {
            return Err(LoginError::NoClient { redirect_uri });
        };
        let configured = self.manager.configure_client(config.clone());
        configured.map_err(|error| LoginError::refused(&error))?;
        Ok(ClientRegistration { config, is_registered, is_reused })
    }

    /// Waits for the browser's redirect, or for the URL that the user pastes.
    async fn wait_for_answer(&self, ui: &dyn LoginUi) -> Result<AuthorizationResponse, LoginError> {
        let pasted = async {
            match ui.read_pasted_url().await {
                Some(url) => url,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            answer = self.callback.wait(&self.state) => answer,
            url = pasted => AuthorizationResponse::parse(&url, &self.state),
        }
    }

    /// Exchanges the response for a login.
    async fn redeem(&self, answer: AuthorizationResponse) -> Result<LoginRecord, LoginError> {
        let AuthorizationResponse { code, issuer } = answer;
        let exchange =
            self.manager.exchange_code_for_token_with_issuer(&code, &self.state, issuer.as_deref());
        exchange.await.map_err(|error| match error {
            AuthError::AuthorizationServerMismatch { .. }
            | AuthError::AuthorizationServerMissingIssuer { .. } => LoginError::IssuerMismatch,
            error => LoginError::refused(&error),
        })?;
        let stored = self.store.load().await.map_err(|error| LoginError::refused(&error))?;
        let (Some(stored), Some(client)) = (stored, &self.client) else {
            return Err(LoginError::Refused("no token was returned".to_owned()));
        };
        // An issuer without a name is identified by its token endpoint.
        let issuer = self.metadata.issuer.clone();
        Ok(LoginRecord {
            resource: LoginRecord::resource_from_url(&self.request.endpoint.url),
            issuer: issuer.unwrap_or_else(|| self.metadata.token_endpoint.clone()),
            client_secret: client.config.client_secret.clone(),
            redirect_uri: client.config.redirect_uri.clone(),
            is_registered: client.is_registered,
            scopes_wanted: Vec::new(),
            stored,
        })
    }

    /// Discards a client registration of an earlier login, which may have expired. The next login
    /// registers a new client.
    async fn forget_registration(&self) {
        let is_reused = self.client.as_ref().is_some_and(|client| client.is_reused);
        if is_reused && let Some(mut record) = self.before.clone() {
            record.is_registered = false;
            let credentials = self.request.credentials;
            if let Ok(_lock) = credentials.lock(&record.resource).await {
                let _ = credentials.save(record).await;
            }
        }
    }
}

/// A server's response to a request without a login.
struct LoginChallenge {
    header: Option<String>,
    is_refusal: bool,
}

/// Sends a request without a login to learn how to log in. Some servers allow `initialize` without
/// a login, so the request without a handshake is tried first.
async fn fetch_challenge(web: &LoginHttpClient, url: &Url) -> Result<LoginChallenge, LoginError> {
    let ours = serde_json::json!({"name": "zero", "version": env!("CARGO_PKG_VERSION")});
    let alone = serde_json::json!({
        "jsonrpc": "2.0",
        "id": 0,
        "method": "server/discover",
        "params": {"_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": ours,
        }},
    });
    let challenge = probe_challenge(web, url, "2026-07-28", &alone).await?;
    if challenge.is_refusal {
        return Ok(challenge);
    }
    let handshake = serde_json::json!({
        "jsonrpc": "2.0",
        "id": 0,
        "method": "initialize",
        "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": ours},
    });
    probe_challenge(web, url, "2025-11-25", &handshake).await
}

async fn probe_challenge(
    web: &LoginHttpClient,
    url: &Url,
    version: &str,
    message: &serde_json::Value,
) -> Result<LoginChallenge, LoginError> {
    const HEADER_BYTES_MAX: usize = 8 * 1024;
    let method = message["method"].as_str().unwrap_or_default();
    let question = http::Request::post(url.as_str())
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", version)
        .header("mcp-method", method)
        .body(message.to_string().into_bytes())
        .map_err(|_| LoginError::BadAuthorizationUrl)?;
    let head = web.fetch_head(question, RedirectPolicy::SameOrigin).await?;
    let header = head.headers.get("www-authenticate").and_then(|header| header.to_str().ok());
    let header = header.filter(|header| header.len() <= HEADER_BYTES_MAX).map(str::to_owned);
    let is_refusal = head.status == http::StatusCode::UNAUTHORIZED;
    Ok(LoginChallenge { header: header.filter(|_| is_refusal), is_refusal })
}

#[cfg(test)]
mod tests;
