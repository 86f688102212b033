//! Small tools for the tests of this crate, so that commands are tested without the real ones.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use zero_core::{
    Effects, ResultDisplay, RiskLevel, TimeoutClass, ToolCategory, ToolError, ToolKind, ToolName,
    ToolResult, ToolResultPart, ToolSpec,
};
use zero_runtime::tool::{AnyPlan, BoxFuture};
use zero_runtime::{AnyTool, CallContext, CallDescription};
use zero_sandbox::Workspace;

// The test binary acts as the helper process that starts commands.
zero_sandbox::dispatch_helper_before_main!();

/// `Echo` returns its input, `Smash` needs approval, `Sleep` runs for a minute.
pub(crate) fn small_tools() -> Vec<Arc<dyn AnyTool>> {
    let text = json!({"text": {"type": "string", "description": "What to say"}});
    vec![
        make_tool("Echo", ToolKind::Read, RiskLevel::Low, text, &["text"]),
        make_tool("Sleep", ToolKind::Read, RiskLevel::Low, json!({}), &[]),
        make_tool("Smash", ToolKind::Edit, RiskLevel::Medium, json!({}), &[]),
    ]
}

fn make_tool(
    name: &str,
    kind: ToolKind,
    risk: RiskLevel,
    properties: Value,
    required: &[&str],
) -> Arc<dyn AnyTool> {
    Arc::new(SmallTool {
        spec: ToolSpec {
            name: ToolName::new(name).unwrap(),
            display_name: format!("The {name} tool"),
            description: "Does one thing. And does it well.".to_owned(),
            input_schema: json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false}),
            output_schema: json!({"type": "object"}),
            category: ToolCategory::File,
            kind,
            risk,
            timeout_class: TimeoutClass::File,
            idempotent: true,
            fallback: None,
        },
    })
}

struct SmallTool {
    spec: ToolSpec,
}

struct SmallToolPlan {
    name: ToolName,
    input: Value,
}

impl AnyTool for SmallTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn plan(&self, input: Value, _workspace: &Workspace) -> Result<Box<dyn AnyPlan>, ToolError> {
        Ok(Box::new(SmallToolPlan { name: self.spec.name.clone(), input }))
    }
}

impl AnyPlan for SmallToolPlan {
    fn describe(&self) -> CallDescription {
        CallDescription { title: self.name.to_string(), locations: Vec::new() }
    }

    fn effects(&self) -> Effects {
        Vec::new()
    }

    fn preview(&self, _cx: &CallContext) -> Option<ResultDisplay> {
        None
    }

    fn run(&self, _cx: CallContext) -> BoxFuture<'static, Result<ToolResult, ToolError>> {
        let nap =
            if self.name.as_str() == "Sleep" { Duration::from_secs(60) } else { Duration::ZERO };
        let text = self.input.get("text").and_then(Value::as_str).unwrap_or("smashed").to_owned();
        let structured = self.input.clone();
        Box::pin(async move {
            tokio::time::sleep(nap).await;
            let display = ResultDisplay::markdown(text.clone());
            Ok(ToolResult {
                content: vec![ToolResultPart::Text(text)],
                display,
                structured,
                locations: Vec::new(),
                metadata: zero_core::ResultMetadata::default(),
            })
        })
    }
}
