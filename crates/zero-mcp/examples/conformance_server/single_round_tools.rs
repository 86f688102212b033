//! The tools that need only one request.

use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, ContentBlock,
    InputRequests, InputRequiredResult, LoggingLevel, LoggingMessageNotificationParam,
    ProgressNotificationParam,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use serde_json::{Value, json};

use crate::{ConformanceServer, client_requests, multi_round_tools, resources};

/// Delay between two notifications of one call, so that they arrive separately.
const PAUSE: Duration = Duration::from_millis(50);

/// Answers a call.
pub(crate) async fn call(
    fixture: &ConformanceServer,
    request: CallToolRequestParams,
    cx: RequestContext<RoleServer>,
) -> Result<CallToolResponse, ErrorData> {
    let arguments = request.arguments.unwrap_or_default();
    let text_of = |name: &str| arguments.get(name).and_then(Value::as_str);
    let result = match request.name.as_ref() {
        "test_simple_text" => text_result("This is a simple text response for testing."),
        "test_image_content" => CallToolResult::success(vec![image_block()]),
        "test_audio_content" => CallToolResult::success(vec![ContentBlock::Audio(
            rmcp::model::AudioContent::new(resources::WAV_BASE64, "audio/wav"),
        )]),
        "test_embedded_resource" => {
            CallToolResult::success(vec![ContentBlock::resource(resources::text_contents(
                "test://embedded-resource",
                "text/plain",
                "An embedded resource.",
            ))])
        }
        "test_multiple_content_types" => CallToolResult::success(vec![
            ContentBlock::text("Multiple content types test:"),
            image_block(),
            ContentBlock::resource(resources::text_contents(
                "test://mixed-content-resource",
                "application/json",
                r#"{"test":"data","value":123}"#,
            )),
        ]),
        "test_error_handling" => CallToolResult::error(vec![ContentBlock::text(
            "This tool intentionally returns an error for testing",
        )]),
        "test_reconnection" => {
            tokio::time::sleep(2 * PAUSE).await;
            text_result("Reconnection test completed")
        }
        "json_schema_2020_12_tool" => text_result(text_of("name").unwrap_or("no name")),
        "test_custom_header" => match text_of("value") {
            Some(value) => text_result(value),
            None => CallToolResult::error(vec![ContentBlock::text("`value` must be a string")]),
        },
        "test_tool_with_logging" => log_thrice(&cx).await?,
        "test_logging_tool" => log_if_enabled(&cx).await?,
        "test_tool_with_progress" => report_progress_thrice(&cx).await?,
        "test_sampling" => {
            client_requests::request_sampling(&cx, text_of("prompt").unwrap_or("Hello")).await
        }
        "test_elicitation" => {
            client_requests::request_elicitation(
                &cx,
                text_of("message").unwrap_or("Who are you?"),
                client_requests::user_fields(),
            )
            .await?
        }
        "test_elicitation_sep1034_defaults" => {
            client_requests::request_elicitation(
                &cx,
                "Change what is not right",
                client_requests::default_fields(),
            )
            .await?
        }
        "test_elicitation_sep1330_enums" => {
            client_requests::request_elicitation(&cx, "Choose", client_requests::choice_fields())
                .await?
        }
        "test_trigger_tool_change" => {
            for listener in fixture.listeners() {
                // A subscriber that is gone does not matter.
                let _ = listener.notify_tool_list_changed().await;
            }
            text_result("Listeners were told")
        }
        "test_trigger_prompt_change" => {
            for listener in fixture.listeners() {
                let _ = listener.notify_prompt_list_changed().await;
            }
            text_result("Listeners were told")
        }
        "test_missing_capability" => {
            if cx.meta.client_capabilities().is_none_or(|can| can.sampling.is_none()) {
                return Err(ErrorData::missing_required_client_capability(
                    ClientCapabilities::builder().enable_sampling().build(),
                ));
            }
            text_result("The client can sample")
        }
        "test_streaming_elicitation" => {
            let wanted = InputRequests::from([(
                "streaming_elicitation".to_owned(),
                multi_round_tools::elicitation_request("Provide a value", "value", "string")?,
            )]);
            return Ok(InputRequiredResult::from_input_requests(wanted).into());
        }
        unknown => {
            return Err(ErrorData::invalid_params(format!("unknown tool `{unknown}`"), None));
        }
    };
    Ok(result.into())
}

/// A result that is one text.
pub(crate) fn text_result(text: impl Into<String>) -> CallToolResult {
    CallToolResult::success(vec![ContentBlock::text(text)])
}

fn image_block() -> ContentBlock {
    ContentBlock::image(resources::PNG_BASE64, "image/png")
}

async fn log_thrice(cx: &RequestContext<RoleServer>) -> Result<CallToolResult, ErrorData> {
    for message in ["Tool execution started", "Tool processing data", "Tool execution completed"] {
        log(cx, LoggingLevel::Info, message).await?;
        tokio::time::sleep(PAUSE).await;
    }
    Ok(text_result("Logging test completed"))
}

async fn log_if_enabled(cx: &RequestContext<RoleServer>) -> Result<CallToolResult, ErrorData> {
    if let Some(level) = cx.meta.log_level() {
        log(cx, level, "The call asked for this").await?;
    }
    Ok(text_result("Done"))
}

async fn log(
    cx: &RequestContext<RoleServer>,
    level: LoggingLevel,
    message: &str,
) -> Result<(), ErrorData> {
    let entry =
        LoggingMessageNotificationParam::new(level, json!(message)).with_logger("conformance");
    cx.peer.notify_logging_message(entry).await.map_err(connection_lost_error)
}

async fn report_progress_thrice(
    cx: &RequestContext<RoleServer>,
) -> Result<CallToolResult, ErrorData> {
    let token = cx.meta.get_progress_token();
    for done in [0.0, 50.0, 100.0] {
        if let Some(token) = &token {
            let progress = ProgressNotificationParam::new(token.clone(), done)
                .with_total(100.0)
                .with_message(format!("{done} of 100"));
            cx.peer.notify_progress(progress).await.map_err(connection_lost_error)?;
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(text_result("Progress test completed"))
}

fn connection_lost_error(error: rmcp::ServiceError) -> ErrorData {
    ErrorData::internal_error(format!("the client could not be told: {error}"), None)
}
