//! A host with one configured server, and its user.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use url::Url;
use zero_core::{SessionId, ToolCall};
use zero_mcp::client::credentials::{CredentialVault, LoginStore, SecretStore, SecretStoreError};
use zero_mcp::client::http::NetworkGuard;
use zero_mcp::client::login::{LOGIN_TIME, LoginRequest, login};
use zero_mcp::client::{
    McpServerSet, McpServerSetConfig, RemoteServerAccess, SCHEMA_TOKENS_MAX, ServerPhase,
    ServerPool,
};
use zero_mcp::server_definition::{
    CALL_TIMEOUT_MAX, HttpEndpoint, LoginSettings, McpServerDefinition, STARTUP_TIMEOUT,
    ServerAlias, ServerTransport,
};
use zero_policy::rule::RuleOwner;
use zero_policy::{PolicyEngine, PolicyEngineConfig, PolicyRule, RuleSource, Verdict};
use zero_runtime::tool_host::new_call_id;
use zero_runtime::{
    Dialect, DialectName, ResolverConfig, RulePolicy, ToolHost, ToolHostConfig, ToolHostSession,
};
use zero_sandbox::{StateDir, Workspace};

use crate::ScenarioContext;
use crate::headless_browser::HeadlessBrowser;
use crate::simulated_user::SimulatedUser;

/// Alias of the server.
const ALIAS: &str = "suite";
/// URL of the document that describes zero as an OAuth client.
const CLIENT_DOCUMENT: &str = "https://conformance-test.local/client-metadata.json";

/// A host that uses the suite's server.
pub(crate) struct ConformanceHost {
    pub(crate) servers: Arc<McpServerSet>,
    host: ToolHost,
    session: ToolHostSession,
    alias: ServerAlias,
    endpoint: HttpEndpoint,
    guard: NetworkGuard,
    credentials: Arc<dyn LoginStore>,
    _place: TempDir,
}

impl ConformanceHost {
    pub(crate) fn new(url: &str, context: &ScenarioContext) -> Result<Self, String> {
        let place = tempfile::tempdir().map_err(|error| error.to_string())?;
        let state = StateDir::new(place.path().join("state"));
        let workspace = Workspace::open(&[place.path().to_owned()], None);
        let workspace = workspace.map_err(|error| error.to_string())?;
        let person = Arc::new(SimulatedUser);
        let host = ToolHost::new(ToolHostConfig {
            approver: Some(person.clone()),
            ..ToolHostConfig::new(workspace, state.clone())
        });
        let alias = ServerAlias::new(ALIAS).map_err(|error| error.to_string())?;
        let endpoint = HttpEndpoint {
            url: Url::parse(url).map_err(|error| error.to_string())?,
            headers: Vec::new(),
            login: LoginSettings {
                client_id: context.client_id.clone(),
                client_secret: context.client_secret.clone(),
                ..LoginSettings::default()
            },
        };
        let guard = NetworkGuard::new(Arc::new(build_policy()?), ResolverConfig::default());
        let credentials: Arc<dyn LoginStore> =
            Arc::new(CredentialVault::new(&state, Arc::new(NoKeyring)));
        let servers = McpServerSet::new(McpServerSetConfig {
            services: host.services(),
            registry: Arc::clone(host.registry()),
            state,
            definitions: vec![server_definition(&alias, &endpoint)],
            schema_tokens_max: SCHEMA_TOKENS_MAX,
            elicitor: Some(person),
            web: RemoteServerAccess { guard: guard.clone(), credentials: Arc::clone(&credentials) },
            pool: Arc::<ServerPool>::default(),
            confined_by: String::new(),
        });
        let id = SessionId::new("suite").map_err(|error| error.to_string())?;
        let session = host.open_session(id).map_err(|error| error.to_string())?;
        Ok(Self { servers, host, session, alias, endpoint, guard, credentials, _place: place })
    }

    /// Connects again.
    pub(crate) async fn connect(&self) -> Result<(), String> {
        let status = self.servers.reconnect(ALIAS).await.map_err(|error| error.to_string())?;
        match (status.state, status.last_error) {
            (ServerPhase::Ready, _) => Ok(()),
            (_, Some(error)) => Err(error.to_string()),
            (state, None) => Err(format!("the server is {}", state.as_str())),
        }
    }

    /// Returns the host's name and the schema of each of the server's tools.
    pub(crate) fn tools(&self) -> Vec<(String, Value)> {
        let all = self.host.registry().list();
        let specs = all.iter().map(|registered| registered.tool.spec());
        let theirs = specs.filter(|spec| spec.name.as_str().starts_with(&self.tool_name("")));
        theirs.map(|spec| (spec.name.to_string(), spec.input_schema.clone())).collect()
    }

    /// Returns the host's name for a tool of the server.
    pub(crate) fn tool_name(&self, tool: &str) -> String {
        format!("{ALIAS}__{tool}")
    }

    /// Calls a tool. Null arguments are left out, because they match no type.
    pub(crate) async fn call(
        &self,
        tool: &str,
        mut arguments: Map<String, Value>,
    ) -> Result<(), String> {
        arguments.retain(|_, value| !value.is_null());
        let call = ToolCall {
            id: new_call_id(),
            session: None,
            tool: tool.to_owned(),
            input: Value::Object(arguments),
            timeout: None,
        };
        let dialect = Dialect::new(DialectName::Canonical);
        let report = self.host.call(&self.session, &dialect, call, &CancellationToken::new()).await;
        report.outcome.map(drop).map_err(|error| error.message)
    }

    /// Logs in, as `zero mcp login` does.
    pub(crate) async fn login(&self) -> Result<(), String> {
        let document = Url::parse(CLIENT_DOCUMENT).map_err(|error| error.to_string())?;
        let request = LoginRequest {
            alias: &self.alias,
            endpoint: &self.endpoint,
            guard: &self.guard,
            credentials: self.credentials.as_ref(),
            client_metadata_url: Some(&document),
            time: LOGIN_TIME,
        };
        let logged_in = login(request, &HeadlessBrowser::new()?).await;
        logged_in.map(drop).map_err(|error| error.to_string())
    }
}

/// The suite's authorization servers are on other ports of this machine. The address of an MCP
/// server allows only its own port, so there is a rule, as a user would write it.
fn build_policy() -> Result<RulePolicy, String> {
    let source = RuleSource { name: "fixture".to_owned(), line: None, owner: RuleOwner::User };
    let rule = PolicyRule::parse("WebFetch(domain:localhost)", Verdict::Allow, source);
    let rules = vec![rule.map_err(|error| error.to_string())?];
    Ok(RulePolicy::new(
        PolicyEngine::new(PolicyEngineConfig { rules, ..PolicyEngineConfig::default() }),
        Vec::new(),
    ))
}

fn server_definition(alias: &ServerAlias, endpoint: &HttpEndpoint) -> McpServerDefinition {
    McpServerDefinition {
        alias: alias.clone(),
        transport: ServerTransport::Http(endpoint.clone()),
        startup_timeout: STARTUP_TIMEOUT,
        call_timeout: None,
        call_timeout_max: CALL_TIMEOUT_MAX,
        tool_timeouts: BTreeMap::new(),
        tools_allowed: None,
        tools_denied: Vec::new(),
        written_at: "the conformance suite".to_owned(),
    }
}

/// There is no desktop; logins are stored in a file.
struct NoKeyring;

impl SecretStore for NoKeyring {
    fn get(&self, _: &str) -> Result<Option<String>, SecretStoreError> {
        Err(SecretStoreError("there is none".to_owned()))
    }

    fn set(&self, _: &str, _: &str) -> Result<(), SecretStoreError> {
        Err(SecretStoreError("there is none".to_owned()))
    }

    fn remove(&self, _: &str) -> Result<(), SecretStoreError> {
        Err(SecretStoreError("there is none".to_owned()))
    }
}
