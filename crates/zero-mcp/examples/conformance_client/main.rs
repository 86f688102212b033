//! The client for the official MCP conformance suite, built on zero's own client.
//!
//! The suite starts this once per scenario, with the address of its own server as the only
//! argument, and checks what arrives there. Here that server belongs to a host, as if it were
//! configured in settings: its tools are listed, registered and called like all tools. Nearly all
//! scenarios need the same behaviour: connect, log in if required, call every tool once. A
//! simulated user allows calls, logs in and fills in forms.
#![expect(
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "a fixture of the interop suite, not part of the product"
)]

mod conformance_host;
mod headless_browser;
mod simulated_user;

use std::process::ExitCode;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::conformance_host::ConformanceHost;

/// The suite gives up on a client after 30 s, and then reports less.
const TIME_MAX: Duration = Duration::from_secs(25);
/// Maximum number of logins at one server.
const LOGINS_MAX: usize = 3;
/// Maximum number of tools to call.
const CALLS_MAX: usize = 64;

/// The suite's parameters besides the address.
#[derive(Default, Deserialize)]
struct ScenarioContext {
    #[serde(default, rename = "toolCalls")]
    calls: Vec<ScenarioCall>,
    client_id: Option<String>,
    client_secret: Option<String>,
}

/// A call that the suite requires.
#[derive(Deserialize)]
struct ScenarioCall {
    name: String,
    arguments: Option<Map<String, Value>>,
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
        Err(_) => ScenarioContext::default(),
    };
    let world = ConformanceHost::new(&url, &context)?;
    let mut visited = run_scenario(&world, &scenario, &context).await;
    for _ in 0..LOGINS_MAX {
        match &visited {
            Err(reason) if wants_login(reason) => world.login().await?,
            _ => break,
        }
        visited = run_scenario(&world, &scenario, &context).await;
    }
    world.servers.stop().await;
    visited
}

/// Connects, and calls the tools of the scenario.
async fn run_scenario(
    world: &ConformanceHost,
    scenario: &str,
    context: &ScenarioContext,
) -> Result<(), String> {
    world.connect().await?;
    let calls: Vec<(String, Map<String, Value>)> = if context.calls.is_empty() {
        let tools = world.tools();
        let seen = tools.first().map(|(_, schema)| schema.clone()).unwrap_or_default();
        let arguments = |schema: &Value| match scenario {
            // This scenario expects the schema as the client sees it.
            "json-schema-2020-12-preservation" => {
                Map::from_iter([("schema".to_owned(), seen.clone())])
            }
            _ => simulated_user::build_arguments(schema),
        };
        tools.iter().map(|(name, schema)| (name.clone(), arguments(schema))).collect()
    } else {
        let named = context.calls.iter();
        let arguments = |call: &ScenarioCall| call.arguments.clone().unwrap_or_default();
        named.map(|call| (world.tool_name(&call.name), arguments(call))).collect()
    };
    for (name, arguments) in calls.into_iter().take(CALLS_MAX) {
        world.call(&name, arguments).await?;
    }
    Ok(())
}

/// Whether an error says that a login would help.
fn wants_login(reason: &str) -> bool {
    reason.contains("run `zero mcp login")
}
