//! How the server is reached, and how the person logs in there.

use rmcp::model::ProtocolVersion;
use rmcp::service::RunningService;
use rmcp::transport::auth::{AuthorizationRequest, InMemoryCredentialStore, OAuthState};
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::transport::{AuthClient, AuthorizationManager, StreamableHttpClientTransport};
use rmcp::{ClientLifecycleMode, ClientServiceExt, RoleClient};

use crate::person::Person;
use crate::{Context, Stop};

/// Where the browser would be sent back to; nobody listens there, for there is no browser.
const CALLBACK: &str = "http://127.0.0.1:3000/callback";
/// The document that would describe this client.
const CLIENT_DOCUMENT: &str = "https://conformance-test.local/client-metadata.json";

/// The server, and the right to talk to it.
pub(crate) struct Reach {
    url: String,
    client_id: Option<String>,
    client_secret: Option<String>,
    store: InMemoryCredentialStore,
    http: reqwest::Client,
}

impl Reach {
    pub(crate) fn new(url: &str, context: &Context) -> Result<Self, String> {
        // A second one cannot be installed, and none was before.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(|error| error.to_string())?;
        Ok(Self {
            url: url.to_owned(),
            client_id: context.client_id.clone(),
            client_secret: context.client_secret.clone(),
            store: InMemoryCredentialStore::new(),
            http,
        })
    }

    /// Connects, in whichever era the server lives.
    pub(crate) async fn connect(&self) -> Result<RunningService<RoleClient, Person>, Stop> {
        let mut manager = self.manager().await.map_err(Stop::Failed)?;
        manager.initialize_from_store().await.map_err(|error| Stop::Failed(error.to_string()))?;
        let transport = StreamableHttpClientTransport::with_client(
            AuthClient::new(self.http.clone(), manager),
            StreamableHttpClientTransportConfig::with_uri(self.url.as_str()),
        );
        let lifecycle = ClientLifecycleMode::Auto {
            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
            legacy_version: Some(ProtocolVersion::V_2025_11_25),
        };
        Person.serve_with_lifecycle(transport, lifecycle).await.map_err(|error| {
            match error.auth_challenge() {
                Some(challenge) => Stop::LoginWanted(challenge.to_owned()),
                None => Stop::Failed(error.to_string()),
            }
        })
    }

    /// Logs in, as a person would with a browser.
    pub(crate) async fn login(&mut self, challenge: &str) -> Result<(), String> {
        let mut manager = self.manager().await?;
        manager.initialize_from_store().await.map_err(|error| error.to_string())?;
        let mut login = OAuthState::Unauthorized(manager);
        let mut request = AuthorizationRequest::new(CALLBACK)
            .with_client_name("zero-conformance")
            .with_client_metadata_url(CLIENT_DOCUMENT)
            .with_challenge(challenge);
        if let Some(id) = &self.client_id {
            request = request.with_preregistered_client(id);
        }
        if let Some(secret) = &self.client_secret {
            request = request.with_client_secret(secret);
        }
        login.start_authorization(request).await.map_err(|error| error.to_string())?;
        let page = login.get_authorization_url().await.map_err(|error| error.to_string())?;
        let reply = self.http.get(&page).send().await.map_err(|error| error.to_string())?;
        let sent_to = reply.headers().get("location").and_then(|to| to.to_str().ok());
        let sent_to = sent_to.ok_or("the login page sends nobody back")?;
        login.handle_callback_url(sent_to).await.map_err(|error| error.to_string())
    }

    async fn manager(&self) -> Result<AuthorizationManager, String> {
        let mut manager = AuthorizationManager::new_allowing_private_addresses(self.url.as_str())
            .await
            .map_err(|error| error.to_string())?;
        manager.set_credential_store(self.store.clone());
        Ok(manager)
    }
}
