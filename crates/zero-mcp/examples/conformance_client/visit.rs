//! One connection: list everything, use everything, leave.

use std::error::Error;

use rmcp::RoleClient;
use rmcp::model::{
    CallToolRequestParams, GetPromptRequestParams, JsonObject, ReadResourceRequestParams, Tool,
};
use rmcp::service::{RunningService, ServiceError};
use rmcp::transport::streamable_http_client::{AuthRequiredError, InsufficientScopeError};
use serde_json::Value;

use crate::person::{Person, arguments};
use crate::reach::Reach;
use crate::{Context, Stop};

/// Tools that are called at most.
const CALLS_MAX: usize = 64;

/// Connects and does what the scenario is about.
pub(crate) async fn visit(reach: &Reach, scenario: &str, context: &Context) -> Result<(), Stop> {
    let client = reach.connect().await?;
    let used = use_everything(&client, scenario, context).await;
    let left = client.cancel().await;
    used?;
    left.map(drop).map_err(|error| Stop::Failed(format!("did not end well: {error}")))
}

async fn use_everything(
    client: &RunningService<RoleClient, Person>,
    scenario: &str,
    context: &Context,
) -> Result<(), Stop> {
    let tools = client.list_tools(None).await.map_err(stopped)?.tools;
    for (name, arguments) in calls(scenario, context, &tools).into_iter().take(CALLS_MAX) {
        let call = CallToolRequestParams::new(name).with_arguments(arguments);
        client.call_tool(call).await.map_err(stopped)?;
    }
    let offered = client.peer_info().map(|info| info.capabilities.clone()).unwrap_or_default();
    if offered.resources.is_some() {
        for resource in client.list_resources(None).await.map_err(stopped)?.resources {
            let read = ReadResourceRequestParams::new(resource.uri.clone());
            client.read_resource(read).await.map_err(stopped)?;
        }
    }
    if offered.prompts.is_some() {
        for prompt in client.list_prompts(None).await.map_err(stopped)?.prompts {
            client.get_prompt(GetPromptRequestParams::new(prompt.name)).await.map_err(stopped)?;
        }
    }
    Ok(())
}

/// The calls of a scenario: those that the suite names, else every tool once.
fn calls(scenario: &str, context: &Context, tools: &[Tool]) -> Vec<(String, JsonObject)> {
    if !context.calls.is_empty() {
        let named = context.calls.iter();
        return named
            .map(|call| (call.name.clone(), call.arguments.clone().unwrap_or_default()))
            .collect();
    }
    let all = tools.iter().map(|tool| {
        let arguments = match scenario {
            "json-schema-2020-12-preservation" => seen_schema(tools),
            _ => arguments(&tool.input_schema),
        };
        (tool.name.to_string(), arguments)
    });
    all.collect()
}

/// What the server's tools look like from here, for the one that wants to know.
fn seen_schema(tools: &[Tool]) -> JsonObject {
    let schema = tools.first().map(|tool| Value::Object((*tool.input_schema).clone()));
    JsonObject::from_iter([("schema".to_owned(), schema.unwrap_or_default())])
}

/// Why a request came to nothing.
fn stopped(error: ServiceError) -> Stop {
    let mut cause: Option<&(dyn Error + 'static)> = match &error {
        ServiceError::TransportSend(error) => Some(error.error.as_ref()),
        _ => None,
    };
    while let Some(current) = cause {
        if let Some(wanted) = current.downcast_ref::<AuthRequiredError>() {
            return Stop::LoginWanted(wanted.www_authenticate_header.clone());
        }
        if let Some(wanted) = current.downcast_ref::<InsufficientScopeError>() {
            return Stop::LoginWanted(wanted.www_authenticate_header.clone());
        }
        cause = current.source();
    }
    Stop::Failed(error.to_string())
}
