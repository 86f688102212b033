//! Applies policy to commands from settings: services and hooks. The user wrote or trusted these
//! settings, so no approval is needed; a rule that denies the command still applies.

use serde_json::Value;
use zero_core::{
    CommandExecution, Effect, ErrorReason, RiskLevel, TimeoutClass, ToolCategory, ToolError,
    ToolKind, ToolName, ToolSpec,
};
use zero_policy::PermissionMode;
use zero_sandbox::Workspace;

use crate::policy::{self, Policy, PolicyDecision, PolicyRequest};

/// The tool whose rules apply to commands.
const COMMAND_TOOL: &str = "Bash";

/// Applies the rules for commands to a command from settings. Only a denial has an effect, because
/// the settings count as approval. Without a mode, that of the settings applies.
pub(crate) fn decide_configured_command(
    policy: &dyn Policy,
    workspace: &Workspace,
    execution: &CommandExecution,
    mode: Option<PermissionMode>,
) -> Result<PolicyDecision, ToolError> {
    Ok(policy.decide(PolicyRequest {
        spec: &command_spec()?,
        effects: &[Effect::Exec(execution.clone())],
        arguments: None,
        workspace,
        grants: &[],
        mode,
        commands: None,
        temp: None,
    }))
}

/// The error of a command that a rule denies.
pub(crate) fn denial_error(what: &str, decision: &PolicyDecision) -> ToolError {
    let why = match (&decision.rule, &decision.source) {
        (Some(rule), Some(source)) => {
            format!("denied by rule `{rule}`; to allow it, remove or narrow that rule in {source}")
        }
        (Some(rule), None) => format!("denied by rule `{rule}`"),
        (None, _) => format!("denied, {}", decision.reason),
    };
    policy::denial_error(decision, ErrorReason::Denied, format!("{what}: {why}"), None)
}

/// The tool spec for which command rules are looked up.
fn command_spec() -> Result<ToolSpec, ToolError> {
    let name = ToolName::new(COMMAND_TOOL)
        .map_err(|error| ToolError::failed(ErrorReason::Panic, error.to_string()))?;
    Ok(ToolSpec {
        name,
        display_name: COMMAND_TOOL.to_owned(),
        description: String::new(),
        input_schema: Value::Bool(true),
        output_schema: Value::Bool(true),
        category: ToolCategory::Development,
        kind: ToolKind::Execute,
        risk: RiskLevel::High,
        timeout_class: TimeoutClass::Command,
        idempotent: false,
        fallback: None,
    })
}
