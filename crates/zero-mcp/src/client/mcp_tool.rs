//! [`McpTool`], a tool of a server as a tool of the host, with the same policy, limits and audit
//! log as every other.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::time::Instant;
use zero_core::{
    Effect, Effects, ErrorReason, ResultDisplay, RiskLevel, TimeoutClass, ToolArguments,
    ToolCategory, ToolDefinitionState, ToolError, ToolKind, ToolName, ToolResult, ToolSpec,
};
use zero_exec::services::CallRecording;
use zero_runtime::schema::InputSchema;
use zero_runtime::tool::{AnyPlan, AnyTool, BoxFuture};
use zero_runtime::{CallContext, CallDescription, Elicitor, ToolNotes};
use zero_sandbox::Workspace;

use super::call_results;
use super::client_handler::CallerContext;
use super::error::ServerUnavailableError;
use super::managed_server::ManagedServer;
use super::sanitize;
use super::tool_call::{McpCallError, McpCallRequest};
use super::tool_changes;
use super::tool_listing::{self, McpToolDefinition};
use super::tool_pins::{PinState, ToolPins};
use crate::server_definition::McpServerDefinition;

/// What all tools of one server in one host share.
pub(crate) struct ToolOrigin {
    pub(crate) definition: McpServerDefinition,
    pub(crate) server: Arc<ManagedServer>,
    pub(crate) pins: ToolPins,
    pub(crate) elicitor: Option<Arc<dyn Elicitor>>,
}

/// A tool of a server.
pub(crate) struct McpTool {
    spec: ToolSpec,
    pinned: Arc<PinnedTool>,
}

/// The tool as its server defines it.
struct PinnedTool {
    origin: Arc<ToolOrigin>,
    definition: McpToolDefinition,
    hash: String,
    output: Option<InputSchema>,
}

impl McpTool {
    pub(crate) fn new(
        origin: Arc<ToolOrigin>,
        name: ToolName,
        definition: McpToolDefinition,
    ) -> Self {
        let title = definition.title.as_deref().unwrap_or(&definition.name);
        let spec = ToolSpec {
            name,
            display_name: sanitize::to_line(title),
            description: definition.model_description(),
            input_schema: definition.input_schema.clone(),
            output_schema: definition.output_schema.clone().unwrap_or_else(|| json!({})),
            category: ToolCategory::External,
            kind: ToolKind::Other,
            // The tool's own claims are not trusted, so it may do anything.
            risk: RiskLevel::High,
            timeout_class: TimeoutClass::Mcp,
            // A claim to be idempotent is not trusted either: no call is made twice.
            idempotent: false,
            fallback: None,
        };
        let hash = definition.hash();
        let output = definition.output_schema.clone().map(InputSchema::new);
        Self { spec, pinned: Arc::new(PinnedTool { origin, definition, hash, output }) }
    }

    /// Returns the server's name for it.
    pub(crate) fn remote_name(&self) -> &str {
        &self.pinned.definition.name
    }

    pub(crate) fn definition(&self) -> &McpToolDefinition {
        &self.pinned.definition
    }

    pub(crate) fn hash(&self) -> &str {
        &self.pinned.hash
    }

    /// Estimates the tokens that its schema costs in a model request.
    pub(crate) fn token_cost(&self) -> usize {
        let spec = &self.spec;
        tool_listing::estimate_tokens(spec.name.as_str(), &spec.description, &spec.input_schema)
    }
}

impl AnyTool for McpTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn notes(&self) -> ToolNotes {
        ToolNotes::new(
            "whatever its server does with the call; the server's own claims are not trusted",
        )
    }

    fn plan(&self, input: Value, _workspace: &Workspace) -> Result<Box<dyn AnyPlan>, ToolError> {
        let Value::Object(arguments) = input else {
            return Err(ToolError::invalid(
                ErrorReason::SchemaViolation,
                "the input is not an object",
            ));
        };
        let pinned = Arc::clone(&self.pinned);
        let pin_state = pinned.origin.pins.pin_state(&pinned.definition.name, &pinned.hash);
        Ok(Box::new(McpToolPlan { pinned, arguments: ToolArguments::new(arguments), pin_state }))
    }

    fn claims(&self) -> Vec<String> {
        self.pinned.definition.claims.labels().into_iter().map(str::to_owned).collect()
    }
}

/// A call of such a tool, as the policy judges it.
struct McpToolPlan {
    pinned: Arc<PinnedTool>,
    arguments: ToolArguments,
    pin_state: PinState,
}

impl AnyPlan for McpToolPlan {
    fn describe(&self) -> CallDescription {
        let alias = &self.pinned.origin.definition.alias;
        let tool = sanitize::to_quoted_line(&self.pinned.definition.name);
        CallDescription {
            title: format!("Use {tool} of MCP server `{alias}`"),
            locations: Vec::new(),
        }
    }

    fn effects(&self) -> Effects {
        let definition = match self.pin_state {
            PinState::New | PinState::Same => ToolDefinitionState::Steady,
            PinState::Changed => ToolDefinitionState::Changed,
        };
        vec![Effect::Mcp {
            server: self.pinned.origin.definition.alias.to_string(),
            tool: self.pinned.definition.name.clone(),
            definition,
        }]
    }

    fn arguments(&self) -> Option<&ToolArguments> {
        Some(&self.arguments)
    }

    fn deadline(&self) -> Option<Duration> {
        Some(self.pinned.origin.definition.call_timeout_max)
    }

    fn preview(&self, _cx: &CallContext) -> Option<ResultDisplay> {
        let mut text = String::new();
        // The changes come first, so that long arguments cannot push them out of a shortened view.
        if self.pin_state == PinState::Changed {
            let pinned = &self.pinned;
            let before = pinned.origin.pins.approved_definition(&pinned.definition.name);
            let changes = tool_changes::render_changes(before.as_ref(), &pinned.definition);
            let changes = sanitize::to_code_block(changes.trim_end(), "");
            text.push_str(&format!(
                "The server has changed the definition of this tool since it was allowed:\n{changes}\n\nThe arguments of this call:\n"
            ));
        }
        let arguments = serde_json::to_string_pretty(self.arguments.as_map()).unwrap_or_default();
        text.push_str(&sanitize::to_code_block(&arguments, "json"));
        let claims = self.pinned.definition.claims.to_text();
        if !claims.is_empty() {
            text.push_str(&format!("\n\nThe server claims: {claims}"));
        }
        Some(ResultDisplay::markdown(text))
    }

    fn run(&self, cx: CallContext) -> BoxFuture<'static, Result<ToolResult, ToolError>> {
        let (own, arguments) = (Arc::clone(&self.pinned), self.arguments.clone());
        let pin_state = self.pin_state;
        Box::pin(async move { own.run(arguments.as_map(), pin_state, &cx).await })
    }
}

impl PinnedTool {
    async fn run(
        &self,
        arguments: &Map<String, Value>,
        pin_state: PinState,
        cx: &CallContext,
    ) -> Result<ToolResult, ToolError> {
        let since = Instant::now();
        let ToolOrigin { definition, server, elicitor, .. } = &*self.origin;
        let alias = &definition.alias;
        let tool = self.definition.name.as_str();
        let caller = CallerContext {
            alias: alias.clone(),
            call: Some(cx.call().clone()),
            elicitor: elicitor.clone(),
        };
        let own_timeout = definition.tool_timeouts.get(tool).copied().or(definition.call_timeout);
        let total_max = definition.call_timeout_max;
        let order = McpCallRequest {
            caller: &caller,
            tool,
            arguments,
            // A configured maximum also limits the default.
            silence_max: own_timeout.unwrap_or(cx.limits().mcp_timeout).min(total_max),
            total_max,
            since,
            written_at: &definition.written_at,
            secrets: &server.secrets,
        };
        let mut is_second = false;
        loop {
            let ready = async {
                let connection = server.open_connection().await?;
                server.refresh_listing(&connection).await?;
                Ok::<_, ServerUnavailableError>(connection)
            };
            let connection = tokio::select! {
                () = cx.cancelled() => return Err(ToolError::cancelled()),
                connection = ready => {
                    connection.map_err(|error| error.to_tool_error(alias.as_str()))?
                }
            };
            self.check_unchanged()?;
            if pin_state != PinState::Same && !is_second {
                self.pin(cx).await?;
            }
            let recording = connection.monitor.record_call(cx.change_note());
            let answered = connection.call(&order, cx).await;
            finish_recording(recording, cx).await;
            match answered {
                Ok(answer) => {
                    server.report_answered();
                    return call_results::to_tool_result(alias, answer, self.output.as_ref());
                }
                // Nothing was sent, so the call cannot have run.
                Err(McpCallError::NeverSent) if !is_second => {
                    server.report_disconnected(&connection).await;
                    is_second = true;
                }
                Err(McpCallError::NeverSent) => {
                    let why = server.secrets.redact_error(connection.end_reason().await);
                    return Err(why.to_tool_error(alias.as_str()));
                }
                Err(McpCallError::Failed(error)) => {
                    match error.reason() {
                        Some(ErrorReason::RemoteFailure) => server.report_answered(),
                        Some(ErrorReason::Deadline) => server.report_unanswered(&connection).await,
                        _ if !connection.is_open() => server.report_disconnected(&connection).await,
                        _ => {}
                    }
                    return Err(error);
                }
            }
        }
    }

    /// Checks that the server, which may have been started for this call, still offers the tool
    /// with the definition that was judged.
    fn check_unchanged(&self) -> Result<(), ToolError> {
        let alias = &self.origin.definition.alias;
        let name = sanitize::to_quoted_line(&self.definition.name);
        let listing = self.origin.server.listing();
        match listing.as_ref().and_then(|listing| listing.tools.get(&self.definition.name)) {
            // The same as to compare hashes, but cheaper, because schemas can be long.
            Some(now) if *now == self.definition => Ok(()),
            Some(_) => Err(ToolError::failed(
                ErrorReason::ServerUnavailable,
                format!(
                    "MCP server `{alias}` has changed the definition of {name} since the call was checked; nothing was called; review the tool, then try again"
                ),
            )),
            None => Err(ToolError::not_found(
                ErrorReason::UnknownTool,
                format!("MCP server `{alias}` no longer offers {name}; nothing was called"),
            )),
        }
    }

    /// Pins the definition, because a call under it was allowed.
    async fn pin(&self, cx: &CallContext) -> Result<(), ToolError> {
        let (pins, definition) = (self.origin.pins.clone(), self.definition.clone());
        cx.run_blocking(move |_| {
            // Without a pin the user is asked again next time; this call is allowed nevertheless.
            if let Err(error) = pins.pin([&definition]) {
                tracing::warn!(%error, "cannot store an approved tool definition");
            }
            Ok(())
        })
        .await
    }
}
/// Stores what the server changed during a call, and notes what of it cannot be undone.
async fn finish_recording(recording: Option<CallRecording>, cx: &CallContext) {
    let Some(recording) = recording else { return };
    let notes = cx.run_blocking(move |_| Ok(recording.finish())).await;
    cx.record_notes(&notes.unwrap_or_default());
}
