//! Authentication in the sense of the protocol. zero has no accounts: only the API key of the model
//! can be missing, if the model is called from this process. The user enters it in a terminal,
//! where this program asks for it, and it is stored where settings expect it. The editor never sees
//! it.

use std::sync::Arc;

use agent_client_protocol::v1::schema::{
    AuthMethod, AuthMethodAgent, AuthMethodTerminal, AuthenticateRequest, AuthenticateResponse,
    Meta,
};
use agent_client_protocol::{Error, ErrorCode};
use serde_json::{Value, json};

use crate::acp_agent::{AcpAgent, MethodResponse};
use crate::client_features::ClientFeatures;
use crate::config::{ModelKeyError, TerminalLogin};
use crate::rpc_error;

/// Id of the method that uses a terminal of the editor.
const EDITOR_TERMINAL_METHOD: &str = "model-key-terminal";
/// Id of the method that uses any terminal.
const MANUAL_METHOD: &str = "model-key";

/// The authentication methods. Those that need a terminal are offered only to clients that have
/// one.
pub(crate) fn auth_methods(
    login: Option<&TerminalLogin>,
    caps: &ClientFeatures,
) -> Vec<AuthMethod> {
    let Some(login) = login else { return Vec::new() };
    let by_hand = format!(
        "Run `zero acp {}` in a terminal, or see `zero config set-key --help`; then choose this",
        login.asks
    );
    let mut by_hand =
        AuthMethodAgent::new(MANUAL_METHOD, "The model's key is there").description(by_hand);
    if caps.starts_terminals {
        by_hand = by_hand.meta(login.terminal_meta());
    }
    let mut ways = Vec::new();
    if caps.logs_in_at_terminal {
        let by_terminal = AuthMethodTerminal::new(EDITOR_TERMINAL_METHOD, "Give the model's key")
            .description(
                "Asks for it in a terminal, and keeps it in the desktop's keyring".to_owned(),
            )
            .args(vec![login.asks.to_owned()]);
        ways.push(AuthMethod::Terminal(by_terminal));
    }
    ways.push(AuthMethod::Agent(by_hand));
    ways
}

/// Checks whether the key exists now.
pub(crate) async fn authenticate(
    agent: Arc<AcpAgent>,
    params: Value,
) -> Result<MethodResponse, Error> {
    let request: AuthenticateRequest = rpc_error::parse_params("authenticate", params)?;
    let login = agent.config.login.as_ref();
    let known =
        login.filter(|_| matches!(&*request.method_id.0, EDITOR_TERMINAL_METHOD | MANUAL_METHOD));
    let Some(login) = known else {
        let message = "unknown authentication method; `initialize` lists the supported ones";
        return Err(rpc_error::invalid_params(message));
    };
    match login.keys.check().await {
        Ok(()) => MethodResponse::new(AuthenticateResponse::new()),
        Err(ModelKeyError::Missing(message)) => Err(auth_required(&message)),
        Err(ModelKeyError::Settings(message)) => Err(rpc_error::settings_error(&message)),
    }
}

/// The error for a request that needs authentication first.
fn auth_required(message: &str) -> Error {
    let mut error = rpc_error::operation_failed("auth", message, false);
    error.code = ErrorCode::AUTH_REQUIRED;
    error
}

impl TerminalLogin {
    /// The terminal command in the form for clients with the older capability.
    fn terminal_meta(&self) -> Meta {
        let mut args = self.args.clone();
        args.push(self.asks.to_owned());
        let command = self.program.display().to_string();
        let terminal =
            json!({"label": "Give the model's key", "command": command, "args": args, "env": {}});
        Meta::from_iter([("terminal-auth".to_owned(), terminal)])
    }
}
