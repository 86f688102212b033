//! A login from the first refusal to the logout, with a small issuer on this machine.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use rmcp::model::CallToolRequestParams;
use rmcp::{ClientLifecycleMode, ClientServiceExt};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use zero_runtime::{ResolverConfig, RiskPolicy, ToolHost, ToolHostConfig};
use zero_sandbox::{StateDir, Workspace};

use super::*;
use crate::client::credentials::{CredentialVault, SecretStore, SecretStoreError};
use crate::client::http::tests::test_servers::{
    RawServer, RecordedRequest, default_reply, json_reply, status_reply,
};
use crate::client::http::{connect, find_http_error};
use crate::client::{McpServerSet, McpServerSetConfig, McpServerStatus, RemoteServerAccess};
use crate::server_definition::{LoginSettings, McpServerDefinition, ServerTransport};
use crate::wire::ConnectionDiagnostics;

/// Behaviour of the issuer.
#[derive(Default)]
struct FakeIssuer {
    origin: String,
    /// Lifetime of tokens, in seconds.
    expires_in: Option<u64>,
    registers: bool,
    tokens_given: usize,
    registered: usize,
    revoked: Vec<String>,
    /// Number of discovery requests.
    searched: usize,
    /// Issues no tokens for now.
    is_ill: bool,
    /// The only valid refresh token, and the only valid access token.
    refresh: String,
    access: String,
    /// The scope that a call needs.
    scope_needed: Option<&'static str>,
    /// How a handshake without a token is answered.
    handshake: HandshakePolicy,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum HandshakePolicy {
    #[default]
    WantsLogin,
    Open,
    Unknown,
}

impl FakeIssuer {
    fn answer(&mut self, request: &RecordedRequest) -> Vec<u8> {
        let path = request.path().split('?').next().unwrap_or_default().to_owned();
        self.searched += usize::from(path == "/.well-known/oauth-protected-resource/mcp");
        let origin = &self.origin;
        match path.as_str() {
            "/mcp" => self.answer_mcp(request),
            "/token" if self.is_ill => status_reply("503 Service Unavailable", ""),
            "/.well-known/oauth-protected-resource/mcp" => json_reply(&json!({
                "resource": format!("{origin}/mcp"),
                "authorization_servers": [origin],
            })),
            "/.well-known/oauth-authorization-server" => {
                let mut metadata = json!({
                    "issuer": origin,
                    "authorization_endpoint": format!("{origin}/authorize"),
                    "token_endpoint": format!("{origin}/token"),
                    "revocation_endpoint": format!("{origin}/revoke"),
                    "response_types_supported": ["code"],
                    "code_challenge_methods_supported": ["S256"],
                    "authorization_response_iss_parameter_supported": true,
                });
                if self.registers {
                    metadata["registration_endpoint"] = format!("{origin}/register").into();
                }
                json_reply(&metadata)
            }
            "/register" => {
                self.registered += 1;
                json_reply(&json!({
                    "client_id": format!("client-{}", self.registered),
                    "redirect_uris": request.json()["redirect_uris"],
                }))
            }
            "/token" => self.answer_token(request),
            "/revoke" => {
                self.revoked.extend(parse_form(request).remove("token"));
                status_reply("200 OK", "")
            }
            _ => status_reply("404 Not Found", ""),
        }
    }

    fn answer_mcp(&self, request: &RecordedRequest) -> Vec<u8> {
        let origin = &self.origin;
        let bearer = format!("Bearer {}", self.access);
        match (request.method().as_str(), self.handshake) {
            ("initialize", HandshakePolicy::Open) => return default_reply(request),
            ("initialize", HandshakePolicy::Unknown) => return status_reply("400 Bad Request", ""),
            _ => {}
        }
        if self.access.is_empty() || request.header("authorization") != Some(bearer) {
            return status_reply(
                "401 Unauthorized",
                &format!(
                    "WWW-Authenticate: Bearer resource_metadata=\"{origin}/.well-known/\
                     oauth-protected-resource/mcp\", scope=\"read\"\r\n"
                ),
            );
        }
        match self.scope_needed {
            Some(scope) if request.method() == "tools/call" => status_reply(
                "403 Forbidden",
                &format!(
                    "WWW-Authenticate: Bearer error=\"insufficient_scope\", scope=\"{scope}\"\r\n"
                ),
            ),
            _ => default_reply(request),
        }
    }

    fn answer_token(&mut self, request: &RecordedRequest) -> Vec<u8> {
        let form = parse_form(request);
        let given = |name: &str| form.get(name).map(String::as_str).unwrap_or_default();
        assert_eq!(given("resource"), format!("{}/mcp", self.origin));
        let is_good = match given("grant_type") {
            "authorization_code" => given("code") == "c0de" && given("code_verifier").len() > 42,
            "refresh_token" => !self.refresh.is_empty() && given("refresh_token") == self.refresh,
            _ => false,
        };
        if !is_good {
            // A repeated refresh token ends the login.
            self.refresh.clear();
            self.access.clear();
            let body = json!({"error": "invalid_grant"}).to_string();
            let head = "HTTP/1.1 400 x\r\nContent-Type: application/json\r\nConnection: close\r\n";
            return format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()).into_bytes();
        }
        self.tokens_given += 1;
        self.access = format!("hush-access-{}", self.tokens_given);
        self.refresh = format!("hush-refresh-{}", self.tokens_given);
        let mut body = json!({
            "access_token": self.access,
            "refresh_token": self.refresh,
            "token_type": "Bearer",
        });
        if let Some(expires_in) = self.expires_in {
            body["expires_in"] = expires_in.into();
        }
        json_reply(&body)
    }
}

fn parse_form(request: &RecordedRequest) -> HashMap<String, String> {
    url::form_urlencoded::parse(&request.body).into_owned().collect()
}

/// A system without a keyring.
struct UnavailableKeyring;

impl SecretStore for UnavailableKeyring {
    fn get(&self, _name: &str) -> Result<Option<String>, SecretStoreError> {
        Err(SecretStoreError("is not available".to_owned()))
    }
    fn set(&self, _name: &str, _secret: &str) -> Result<(), SecretStoreError> {
        Err(SecretStoreError("is not available".to_owned()))
    }
    fn remove(&self, _name: &str) -> Result<(), SecretStoreError> {
        Err(SecretStoreError("is not available".to_owned()))
    }
}

/// What the user's browser does.
#[derive(Clone, Copy)]
enum BrowserBehavior {
    Honest,
    /// The user pastes the URL.
    Pasted,
    OtherState,
    OtherIssuer,
    NoIssuer,
    Denied,
    /// Another program sends a request first.
    AfterStrangers,
}

struct FakeUser {
    browser: BrowserBehavior,
    origin: String,
    shown: watch::Sender<Option<String>>,
}

impl FakeUser {
    /// The URL that the browser is redirected to.
    fn redirect_target(&self, url: &str) -> String {
        let url = Url::parse(url).unwrap();
        let asked: HashMap<String, String> = url.query_pairs().into_owned().collect();
        assert_eq!(asked["code_challenge_method"], "S256");
        assert_eq!(asked["response_type"], "code");
        assert_eq!(asked["resource"], format!("{}/mcp", self.origin));
        assert!(asked["scope"].split(' ').any(|scope| scope == "read"), "{asked:?}");
        let mut back = Url::parse(&asked["redirect_uri"]).unwrap();
        let (state, issuer) = (asked["state"].as_str(), self.origin.as_str());
        let answer: &[(&str, &str)] = match self.browser {
            BrowserBehavior::OtherState => {
                &[("code", "c0de"), ("state", "made-up"), ("iss", issuer)]
            }
            BrowserBehavior::OtherIssuer => {
                &[("code", "c0de"), ("state", state), ("iss", "https://evil.example")]
            }
            BrowserBehavior::NoIssuer => &[("code", "c0de"), ("state", state)],
            BrowserBehavior::Denied => {
                &[("error", "access_denied"), ("state", state), ("iss", issuer)]
            }
            _ => &[("code", "c0de"), ("state", state), ("iss", issuer)],
        };
        back.query_pairs_mut().extend_pairs(answer);
        back.into()
    }
}

async fn visit(url: String) -> String {
    let url = Url::parse(&url).unwrap();
    let mut stream = TcpStream::connect(("127.0.0.1", url.port().unwrap())).await.unwrap();
    let target = &url[url::Position::BeforePath..];
    let request = format!("GET {target} HTTP/1.1\r\nHost: x\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut page = String::new();
    let _ = stream.read_to_string(&mut page).await;
    page
}

impl LoginUi for FakeUser {
    fn show_url(&self, url: &str) {
        let back = self.redirect_target(url);
        self.shown.send_replace(Some(back.clone()));
        match self.browser {
            BrowserBehavior::Pasted => {}
            BrowserBehavior::AfterStrangers => {
                tokio::spawn(async move {
                    let origin = Url::parse(&back).unwrap().origin().ascii_serialization();
                    // Unused connections, as browsers open them.
                    let port = Url::parse(&back).unwrap().port().unwrap();
                    let _left = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
                    for stray in ["/favicon.ico", "/callback", "/callback?code=x&state=made-up"] {
                        let page = visit(format!("{origin}{stray}")).await;
                        assert!(page.starts_with("HTTP/1.1 4"), "{page}");
                    }
                    assert!(visit(back).await.starts_with("HTTP/1.1 200"));
                });
            }
            _ => drop(tokio::spawn(visit(back))),
        }
    }

    fn read_pasted_url(&self) -> BoxFuture<'_, Option<String>> {
        Box::pin(async move {
            if !matches!(self.browser, BrowserBehavior::Pasted) {
                return None;
            }
            let mut shown = self.shown.subscribe();
            shown.wait_for(Option::is_some).await.ok()?.clone()
        })
    }
}

/// A server, its issuer, and the store of logins.
struct LoginFixture {
    issuer: Arc<Mutex<FakeIssuer>>,
    endpoint: HttpEndpoint,
    vault: CredentialVault,
    guard: NetworkGuard,
    alias: ServerAlias,
    folder: tempfile::TempDir,
}

impl LoginFixture {
    async fn new(issuer: FakeIssuer) -> Self {
        let issuer = Arc::new(Mutex::new(issuer));
        let served = issuer.clone();
        let server = RawServer::start(move |request: RecordedRequest, mut stream: TcpStream| {
            let reply = served.lock().unwrap().answer(&request);
            async move {
                let _ = stream.write_all(&reply).await;
            }
        })
        .await;
        issuer.lock().unwrap().origin = server.url.origin().ascii_serialization();
        let folder = tempfile::tempdir().unwrap();
        let vault =
            CredentialVault::new(&StateDir::new(folder.path()), Arc::new(UnavailableKeyring));
        let login = LoginSettings::default();
        let endpoint = HttpEndpoint { url: server.url.clone(), headers: Vec::new(), login };
        let guard = NetworkGuard::new(Arc::new(RiskPolicy), ResolverConfig::default());
        Self { issuer, endpoint, vault, guard, alias: ServerAlias::new("test").unwrap(), folder }
    }

    async fn log_in(&self, browser: BrowserBehavior) -> Result<LoginOutcome, LoginError> {
        let person = FakeUser {
            browser,
            origin: self.issuer.lock().unwrap().origin.clone(),
            shown: watch::Sender::new(None),
        };
        let request = LoginRequest {
            alias: &self.alias,
            endpoint: &self.endpoint,
            guard: &self.guard,
            credentials: &self.vault,
            client_metadata_url: None,
            // One does not return, so the time limit is short.
            time: match browser {
                BrowserBehavior::OtherState => Duration::from_secs(3),
                _ => Duration::from_secs(60),
            },
        };
        login(request, &person).await
    }

    /// Changes the login as it is stored.
    async fn change_login(&self, change: impl FnOnce(&mut LoginRecord)) {
        let resource = LoginRecord::resource_from_url(&self.endpoint.url);
        let mut record = self.vault.load(&resource).await.unwrap().unwrap();
        change(&mut record);
        self.vault.save(record).await.unwrap();
    }

    /// Lets the token be so old that it is renewed before it is used.
    async fn expire_token(&self) {
        self.change_login(|record| record.stored.token_received_at = Some(0)).await;
    }

    /// Returns the outcome of a call on a new connection.
    async fn call(&self) -> String {
        let vault = Arc::new(self.vault.clone());
        let troubles = ConnectionDiagnostics::default();
        let transport = connect(&self.alias, &self.endpoint, &self.guard, vault, troubles).unwrap();
        let mode = ClientLifecycleMode::Initialize;
        let client = match ().serve_with_lifecycle(transport, mode).await {
            Ok(client) => client,
            Err(error) => return find_http_error(&error).unwrap().to_string(),
        };
        match client.call_tool(CallToolRequestParams::new("echo")).await {
            Ok(_) => "done".to_owned(),
            Err(error) => find_http_error(&error).unwrap().to_string(),
        }
    }

    /// Returns the status of the server after a host tried to use it.
    async fn status(&self) -> McpServerStatus {
        let state = StateDir::new(self.folder.path().join("state"));
        let workspace = Workspace::open(&[self.folder.path().to_owned()], None).unwrap();
        let host = ToolHost::new(ToolHostConfig::new(workspace, state.clone()));
        let definition = McpServerDefinition {
            transport: ServerTransport::Http(self.endpoint.clone()),
            ..crate::client::test_support::fake_definition("test")
        };
        let credentials = Arc::new(self.vault.clone());
        let servers = McpServerSet::new(McpServerSetConfig {
            services: host.services(),
            registry: Arc::clone(host.registry()),
            state,
            definitions: vec![definition],
            schema_tokens_max: crate::client::SCHEMA_TOKENS_MAX,
            elicitor: None,
            web: RemoteServerAccess { guard: self.guard.clone(), credentials },
            pool: Arc::default(),
            confined_by: String::new(),
        });
        servers.reconnect("test").await.unwrap()
    }

    fn tokens_given(&self) -> usize {
        self.issuer.lock().unwrap().tokens_given
    }
}

fn registering_issuer() -> FakeIssuer {
    FakeIssuer { registers: true, ..FakeIssuer::default() }
}

#[tokio::test]
async fn login_is_created_used_and_revoked() {
    for browser in
        [BrowserBehavior::Honest, BrowserBehavior::Pasted, BrowserBehavior::AfterStrangers]
    {
        let world = LoginFixture::new(registering_issuer()).await;
        assert!(world.call().await.contains("zero mcp login test"));
        let made = world.log_in(browser).await.unwrap();
        assert_eq!(made.issuer, world.issuer.lock().unwrap().origin);
        assert_eq!((made.location, made.scopes), (LoginLocation::File, vec!["read".to_owned()]));
        assert_eq!(world.call().await, "done");
        assert_eq!(world.tokens_given(), 1);
        let logged_out = logout(&world.endpoint, &world.guard, &world.vault).await.unwrap();
        assert_eq!(logged_out, LogoutOutcome::Forgotten(RevocationOutcome::Revoked));
        let revoked = world.issuer.lock().unwrap().revoked.clone();
        assert_eq!(revoked, ["hush-refresh-1", "hush-access-1"]);
        assert!(world.call().await.contains("zero mcp login test"));
        let again = logout(&world.endpoint, &world.guard, &world.vault).await.unwrap();
        assert_eq!(again, LogoutOutcome::NotLoggedIn);
    }
}

#[tokio::test]
async fn server_with_open_handshake_is_still_asked_for_login_terms() {
    let world =
        LoginFixture::new(FakeIssuer { handshake: HandshakePolicy::Open, ..registering_issuer() })
            .await;
    assert_eq!(world.log_in(BrowserBehavior::Honest).await.unwrap().scopes, ["read"]);
}

#[tokio::test]
async fn needed_login_is_reported_whatever_legacy_probe_returns() {
    for handshake in [HandshakePolicy::WantsLogin, HandshakePolicy::Open, HandshakePolicy::Unknown]
    {
        let world = LoginFixture::new(FakeIssuer { handshake, ..registering_issuer() }).await;
        let status = world.status().await;
        let error = status.last_error.unwrap().message;
        assert!(error.contains("run `zero mcp login test`"), "{error}");
    }
}

#[tokio::test]
async fn response_of_other_login_or_issuer_is_refused() {
    for (browser, expected) in [
        (BrowserBehavior::OtherState, "no login within"),
        (BrowserBehavior::OtherIssuer, "not from the expected issuer"),
        (BrowserBehavior::NoIssuer, "not from the expected issuer"),
        (BrowserBehavior::Denied, "refused: access_denied"),
    ] {
        let world = LoginFixture::new(registering_issuer()).await;
        let error = world.log_in(browser).await.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        assert_eq!(world.tokens_given(), 0, "the code was redeemed: {error}");
    }
}

#[tokio::test]
async fn login_without_client_says_what_to_configure() {
    let mut world = LoginFixture::new(FakeIssuer::default()).await;
    let error = world.log_in(BrowserBehavior::Honest).await.unwrap_err().to_string();
    assert!(error.contains("oauth.clientId") && error.contains("/callback"), "{error}");
    world.endpoint.login.client_id = Some("mine".to_owned());
    world.log_in(BrowserBehavior::Honest).await.unwrap();
    assert_eq!(world.call().await, "done");
    world.endpoint.headers.push(("Authorization".to_owned(), "Bearer x".to_owned()));
    let error = world.log_in(BrowserBehavior::Honest).await.unwrap_err().to_string();
    assert!(error.contains("`Authorization` header"), "{error}");
}

#[tokio::test]
async fn later_login_reuses_registration_and_port() {
    let world = LoginFixture::new(registering_issuer()).await;
    for _ in 0..2 {
        world.log_in(BrowserBehavior::Honest).await.unwrap();
    }
    assert_eq!(world.issuer.lock().unwrap().registered, 1);
}

#[tokio::test]
async fn concurrent_requests_renew_login_once() {
    let issuer = FakeIssuer { expires_in: Some(3600), ..registering_issuer() };
    let world = LoginFixture::new(issuer).await;
    world.log_in(BrowserBehavior::Honest).await.unwrap();
    world.expire_token().await;
    let calls = futures_util::future::join_all((0..4).map(|_| world.call())).await;
    assert_eq!(calls, vec!["done"; 4]);
    assert_eq!(world.tokens_given(), 2);

    // The server refuses a token that has not expired.
    world.issuer.lock().unwrap().access = "another".to_owned();
    assert_eq!(world.call().await, "done");
    assert_eq!(world.tokens_given(), 3);

    // The issuer ends the login.
    world.issuer.lock().unwrap().access = "another".to_owned();
    world.issuer.lock().unwrap().refresh = "another".to_owned();
    let output = world.call().await;
    assert!(output.contains("has expired") && output.contains("zero mcp login test"), "{output}");
    assert!(world.call().await.contains("zero mcp login test"));
}

#[tokio::test]
async fn failed_renewal_is_not_retried_by_every_request() {
    let issuer = FakeIssuer { expires_in: Some(3600), ..registering_issuer() };
    let world = LoginFixture::new(issuer).await;
    world.log_in(BrowserBehavior::Honest).await.unwrap();
    world.expire_token().await;
    let searched = {
        let mut issuer = world.issuer.lock().unwrap();
        issuer.is_ill = true;
        issuer.searched
    };
    // The server still accepts the old token.
    assert_eq!(world.call().await, "done");
    assert_eq!(world.issuer.lock().unwrap().searched, searched + 1);
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "the test damages the file")]
async fn damaged_login_list_does_not_block_use() {
    let world = LoginFixture::new(registering_issuer()).await;
    world.log_in(BrowserBehavior::Honest).await.unwrap();
    let damage = || std::fs::write(world.folder.path().join("mcp/credentials.json"), "{").unwrap();
    damage();
    assert!(world.call().await.contains("zero mcp login test"));
    world.log_in(BrowserBehavior::Honest).await.unwrap();
    assert_eq!(world.call().await, "done");
    damage();
    let left = logout(&world.endpoint, &world.guard, &world.vault).await.unwrap();
    assert_eq!(left, LogoutOutcome::Forgotten(RevocationOutcome::NotOffered));
    let again = logout(&world.endpoint, &world.guard, &world.vault).await.unwrap();
    assert_eq!(again, LogoutOutcome::NotLoggedIn);

    // A server that requires no login.
    damage();
    let url = crate::client::http::tests::test_servers::start_echo(Default::default()).await;
    let world = LoginFixture { endpoint: HttpEndpoint { url, ..world.endpoint.clone() }, ..world };
    assert_eq!(world.call().await, "done");
}

#[tokio::test]
async fn token_is_returned_only_to_its_issuer() {
    let issuer = FakeIssuer { expires_in: Some(3600), ..registering_issuer() };
    let world = LoginFixture::new(issuer).await;
    world.log_in(BrowserBehavior::Honest).await.unwrap();
    let other = Some("https://as.example".to_owned());
    world.change_login(|record| record.stored.issuer = other).await;
    world.expire_token().await;
    world.issuer.lock().unwrap().access.clear();
    assert!(world.call().await.contains("zero mcp login test"));
    assert_eq!(world.tokens_given(), 1);
}

#[tokio::test]
async fn missing_scope_is_requested_once_at_next_login() {
    let world =
        LoginFixture::new(FakeIssuer { scope_needed: Some("write"), ..registering_issuer() }).await;
    world.log_in(BrowserBehavior::Honest).await.unwrap();
    let output = world.call().await;
    assert!(output.contains("lacks the scope `write`; run `zero mcp login test`"), "{output}");
    let made = world.log_in(BrowserBehavior::Honest).await.unwrap();
    assert_eq!(made.scopes, ["read", "write"]);
    let output = world.call().await;
    assert!(output.contains("logging in again does not help"), "{output}");
}

#[tokio::test]
async fn secrets_are_in_private_file_and_in_no_error() {
    use std::os::unix::fs::PermissionsExt;
    let world = LoginFixture::new(registering_issuer()).await;
    world.log_in(BrowserBehavior::Honest).await.unwrap();
    let file = world.folder.path().join("mcp/credentials.json");
    let mode = std::fs::metadata(file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let resource = LoginRecord::resource_from_url(&world.endpoint.url);
    let record = world.vault.load(&resource).await.unwrap().unwrap();
    assert!(!format!("{record:?}").contains("hush"));
}
