//! What the official conformance suite wants a client to do, over our own stack.
//!
//! The suite starts this once per scenario, with the address of a server of its own as the only
//! argument, and watches what arrives there. Nearly all scenarios are served by one and the same
//! behaviour: connect, log in if told to, list everything, use everything. So there is one, and
//! the scenario says only what differs. The person who logs in and fills in forms is played here.
#![expect(
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "a fixture of the interop suite, not part of the product"
)]
#![expect(deprecated, reason = "the suite also asks for what the protocol is about to remove")]

mod person;
mod reach;
mod visit;

use std::process::ExitCode;
use std::time::Duration;

use rmcp::model::JsonObject;
use serde::Deserialize;

use crate::reach::Reach;

/// The suite gives up on a client after 30 s, and then says less about why.
const TIME_MAX: Duration = Duration::from_secs(25);
/// How often a person is willing to log in at one server.
const LOGINS_MAX: usize = 3;

/// What the suite says beside the address.
#[derive(Default, Deserialize)]
struct Context {
    #[serde(default, rename = "toolCalls")]
    calls: Vec<Call>,
    client_id: Option<String>,
    client_secret: Option<String>,
}

/// A call that the suite wants.
#[derive(Deserialize)]
struct Call {
    name: String,
    arguments: Option<JsonObject>,
}

/// Why a visit ended early.
enum Stop {
    /// The server wants somebody to log in; this is its challenge.
    LoginWanted(String),
    /// Anything else.
    Failed(String),
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let ended = tokio::time::timeout(TIME_MAX, run()).await;
    match ended.unwrap_or_else(|_| Err(format!("not done after {} s", TIME_MAX.as_secs()))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("{reason}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), String> {
    let url = std::env::args().nth(1).ok_or("the address of a server is missing")?;
    let scenario = std::env::var("MCP_CONFORMANCE_SCENARIO").unwrap_or_default();
    let context = match std::env::var("MCP_CONFORMANCE_CONTEXT") {
        Ok(text) => serde_json::from_str(&text).map_err(|error| format!("context: {error}"))?,
        Err(_) => Context::default(),
    };
    let mut reach = Reach::new(&url, &context)?;
    for _ in 0..LOGINS_MAX {
        match visit::visit(&reach, &scenario, &context).await {
            Ok(()) => return Ok(()),
            Err(Stop::LoginWanted(challenge)) => reach.login(&challenge).await?,
            Err(Stop::Failed(reason)) => return Err(reason),
        }
    }
    match visit::visit(&reach, &scenario, &context).await {
        Ok(()) => Ok(()),
        Err(Stop::LoginWanted(_)) => Err(format!("still no access after {LOGINS_MAX} logins")),
        Err(Stop::Failed(reason)) => Err(reason),
    }
}
