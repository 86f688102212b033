//! Small tools for the tests of this crate, so that commands are tested without the real ones.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use zero_core::{
    Category, Content, Display, Effects, Kind, Risk, TimeoutClass, ToolError, ToolName, ToolResult,
    ToolSpec,
};
use zero_runtime::tool::{AnyPlan, BoxFuture};
use zero_runtime::{AnyTool, CallContext, Description};
use zero_sandbox::Workspace;

// Commands are started by this program under another name.
zero_sandbox::look_at_name_before_main!();

/// `Echo` says what it is told, `Smash` has to be asked about, `Sleep` takes its time.
pub(crate) fn tools() -> Vec<Arc<dyn AnyTool>> {
    let text = json!({"text": {"type": "string", "description": "What to say"}});
    vec![
        tool("Echo", Kind::Read, Risk::Low, text, &["text"]),
        tool("Sleep", Kind::Read, Risk::Low, json!({}), &[]),
        tool("Smash", Kind::Edit, Risk::Medium, json!({}), &[]),
    ]
}

fn tool(
    name: &str,
    kind: Kind,
    risk: Risk,
    properties: Value,
    required: &[&str],
) -> Arc<dyn AnyTool> {
    Arc::new(Small {
        spec: ToolSpec {
            name: ToolName::new(name).unwrap(),
            display_name: format!("The {name} tool"),
            description: "Does one thing. And does it well.".to_owned(),
            input_schema: json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false}),
            output_schema: json!({"type": "object"}),
            category: Category::File,
            kind,
            risk,
            timeout_class: TimeoutClass::File,
            idempotent: true,
            fallback: None,
        },
    })
}

struct Small {
    spec: ToolSpec,
}

struct SmallPlan {
    name: ToolName,
    input: Value,
}

impl AnyTool for Small {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn plan(&self, input: Value, _workspace: &Workspace) -> Result<Box<dyn AnyPlan>, ToolError> {
        Ok(Box::new(SmallPlan { name: self.spec.name.clone(), input }))
    }
}

impl AnyPlan for SmallPlan {
    fn describe(&self) -> Description {
        Description { title: self.name.to_string(), locations: Vec::new() }
    }

    fn effects(&self) -> Effects {
        Vec::new()
    }

    fn preview(&self, _cx: &CallContext) -> Option<Display> {
        None
    }

    fn run(&self, _cx: CallContext) -> BoxFuture<'static, Result<ToolResult, ToolError>> {
        let nap =
            if self.name.as_str() == "Sleep" { Duration::from_secs(60) } else { Duration::ZERO };
        let text = self.input.get("text").and_then(Value::as_str).unwrap_or("smashed").to_owned();
        let structured = self.input.clone();
        Box::pin(async move {
            tokio::time::sleep(nap).await;
            let display = Display::markdown(text.clone());
            Ok(ToolResult {
                content: vec![Content::Text(text)],
                display,
                structured,
                locations: Vec::new(),
            })
        })
    }
}
