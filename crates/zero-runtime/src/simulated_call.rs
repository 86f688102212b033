//! Calls that are planned and evaluated, and never run.
//!
//! `zero policy` and the examples of rules evaluate such calls, for files that may not exist. The
//! tool itself tells what its call would do, so that a simulation cannot differ from a real call.

use std::sync::Arc;

use serde_json::{Map, Value};
use zero_core::text_shortening::excerpt;
use zero_core::{
    Effect, Effects, ErrorReason, RiskLevel, ToolArguments, ToolDefinitionState, ToolError,
    ToolName,
};
use zero_policy::{DecisionRequest, GrantScope, Machine};
use zero_sandbox::Workspace;

use crate::dialect::{Dialect, DialectName};
use crate::failed_plan::{PATH_ARGUMENTS, resolve_partial_path};
use crate::name_suggestions::suggest_names;
use crate::registry::{RegisteredTool, ToolRegistry};

/// Stands for a text that the schema requires and an input lacks.
const PLACEHOLDER: &str = "zero-placeholder";

/// A call as the policy engine evaluates it.
#[derive(Clone, Debug)]
pub struct SimulatedCall {
    /// The tool by its canonical name, or a remote one by `alias__tool`.
    pub tool: String,
    /// Its risk before the input is inspected.
    pub risk: RiskLevel,
    /// The effects it would have.
    pub effects: Effects,
    /// The arguments of a tool that is not zero's own; `None` if they are not known.
    pub arguments: Option<ToolArguments>,
}

impl SimulatedCall {
    /// The request for the policy engine.
    pub fn to_request<'a>(
        &'a self,
        grants: &'a [GrantScope],
        machine: &'a dyn Machine,
    ) -> DecisionRequest<'a> {
        let Self { tool, risk, effects, arguments } = self;
        DecisionRequest {
            tool,
            risk: *risk,
            effects,
            arguments: arguments.as_ref(),
            grants,
            mode: None,
            machine,
        }
    }
}

/// Plans calls that are never run, with the tools of a registry.
pub struct CallSimulator {
    registry: Arc<ToolRegistry>,
    dialects: [Dialect; DialectName::ALL.len()],
}

impl CallSimulator {
    /// A simulator for the tools of `registry`.
    pub fn new(registry: Arc<ToolRegistry>) -> Self {
        Self { registry, dialects: DialectName::ALL.map(Dialect::new) }
    }

    /// The tools whose calls it plans.
    pub fn registry(&self) -> &ToolRegistry {
        &self.registry
    }

    /// The effects of calling the tool `name` of a dialect, or of any dialect that has it.
    ///
    /// An input may lack what makes no difference, such as the content of a file.
    pub fn simulate(
        &self,
        name: &str,
        input: &Value,
        dialect: Option<DialectName>,
        workspace: &Workspace,
    ) -> Result<SimulatedCall, ToolError> {
        let Value::Object(fields) = input else {
            let message = "the input must be a JSON object";
            return Err(ToolError::invalid(ErrorReason::SchemaViolation, message));
        };
        let mut first_error = None;
        for current_dialect in self.dialects.iter().filter(|spoken| is_meant(spoken, dialect)) {
            let Some(tool) = current_dialect.resolve(&self.registry, name) else { continue };
            match plan_effects(current_dialect, name, &tool, fields, workspace) {
                Ok((effects, arguments)) => return Ok(simulated_call(&tool, effects, arguments)),
                Err(error) => drop(first_error.get_or_insert(error)),
            }
        }
        match first_error {
            Some(error) => Err(error),
            None => self.simulate_remote(name, fields, dialect),
        }
    }

    /// A call of which only the effects are known.
    pub fn from_effects(&self, tool: &str, effects: Effects) -> SimulatedCall {
        match self.registry.get(tool) {
            Some(found) => simulated_call(&found, effects, None),
            None => SimulatedCall {
                tool: tool.to_owned(),
                risk: RiskLevel::High,
                effects,
                arguments: None,
            },
        }
    }

    /// A call of a server that is not configured here.
    fn simulate_remote(
        &self,
        name: &str,
        fields: &Map<String, Value>,
        dialect: Option<DialectName>,
    ) -> Result<SimulatedCall, ToolError> {
        let remote = name.strip_prefix("mcp__").unwrap_or(name);
        match remote.split_once("__") {
            Some((server, tool)) if !server.is_empty() && !tool.is_empty() => {
                let effect = Effect::Mcp {
                    server: server.to_owned(),
                    tool: tool.to_owned(),
                    definition: ToolDefinitionState::Steady,
                };
                let arguments = Some(ToolArguments::new(fields.clone()));
                Ok(SimulatedCall { arguments, ..self.from_effects(remote, vec![effect]) })
            }
            _ => Err(self.unknown_tool_error(name, dialect)),
        }
    }

    fn unknown_tool_error(&self, name: &str, dialect: Option<DialectName>) -> ToolError {
        let shown = excerpt(name, ToolName::LEN_MAX);
        let others: Vec<&str> = self
            .dialects
            .iter()
            .filter(|current_dialect| current_dialect.resolve(&self.registry, name).is_some())
            .map(|spoken| spoken.name().as_str())
            .collect();
        let advice =
            self.dialects.iter().find_map(|spoken| spoken.missing_advice(&self.registry, name));
        let message = match (dialect, advice) {
            (_, Some(advice)) => format!("there is no tool `{shown}`; {advice}"),
            (Some(dialect), None) if !others.is_empty() => {
                let others = others.join(" and ");
                format!("`{shown}` is not a tool of dialect `{dialect}`, but of {others}")
            }
            _ => {
                let names: Vec<String> =
                    self.dialects.iter().flat_map(|spoken| spoken.names(&self.registry)).collect();
                let hint = match &suggest_names(name, names.iter().map(String::as_str), 3)[..] {
                    [] => "write tools of MCP servers as `alias__tool`".to_owned(),
                    similar => format!("did you mean {}?", similar.join(", ")),
                };
                format!("there is no tool `{shown}`; {hint}")
            }
        };
        ToolError::not_found(ErrorReason::UnknownTool, message)
    }
}

fn is_meant(current_dialect: &Dialect, dialect: Option<DialectName>) -> bool {
    dialect.is_none_or(|dialect| current_dialect.name() == dialect)
}

fn simulated_call(
    tool: &RegisteredTool,
    effects: Effects,
    arguments: Option<ToolArguments>,
) -> SimulatedCall {
    let spec = tool.tool.spec();
    SimulatedCall { tool: spec.name.to_string(), risk: spec.risk, effects, arguments }
}

/// The effects that the tool declares, and the arguments that it passes on.
fn plan_effects(
    dialect: &Dialect,
    name: &str,
    tool: &RegisteredTool,
    fields: &Map<String, Value>,
    workspace: &Workspace,
) -> Result<(Effects, Option<ToolArguments>), ToolError> {
    let plan = |fields: Map<String, Value>| {
        let input = dialect
            .to_canonical(name, tool, Value::Object(fields))
            .map_err(|violations| ToolError::from_violations(&violations))?;
        let plan = tool.tool.plan(input, workspace)?;
        Ok((plan.effects(), plan.arguments().cloned()))
    };
    let error = match plan(fields.clone()) {
        Ok(planned) => return Ok(planned),
        Err(error) => error,
    };
    let completed = complete_input(dialect.input_schema(name, tool), fields);
    if let Ok((effects, arguments)) = plan(completed)
        && !mentions_placeholder(&effects)
    {
        // Rules about arguments evaluate those that the input has.
        let arguments = arguments.map(|_| ToolArguments::new(fields.clone()));
        return Ok((effects, arguments));
    }
    // A session authorizes a call that it cannot plan by its path, too.
    let mut named = PATH_ARGUMENTS.iter().filter_map(|name| fields.get(*name));
    // With two paths it is not known which one would count.
    let written = named.next().filter(|_| named.next().is_none());
    let path = written
        .and_then(Value::as_str)
        .filter(|written| !written.is_empty() && !written.contains('\0'))
        .filter(|_| has_path_argument(&tool.tool.spec().input_schema))
        .and_then(|written| resolve_partial_path(written, workspace));
    path.map(|path| (tool.tool.path_effects(path), None)).ok_or(error)
}

/// The input with a placeholder for each text that is required and missing.
fn complete_input(schema: &Value, fields: &Map<String, Value>) -> Map<String, Value> {
    let mut completed = fields.clone();
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    for name in required.filter_map(Value::as_str) {
        let property = schema.get("properties").and_then(|properties| properties.get(name));
        let is_text = property
            .is_some_and(|property| property.get("type").and_then(Value::as_str) == Some("string"));
        if is_text && !completed.contains_key(name) {
            completed.insert(name.to_owned(), PLACEHOLDER.into());
        }
    }
    completed
}

/// Whether the policy would evaluate a placeholder.
fn mentions_placeholder(effects: &Effects) -> bool {
    effects.iter().any(|effect| format!("{effect:?}").contains(PLACEHOLDER))
}

/// Whether the schema of a tool has a field for a path.
fn has_path_argument(schema: &Value) -> bool {
    let properties = schema.get("properties");
    PATH_ARGUMENTS.iter().any(|name| properties.is_some_and(|known| known.get(name).is_some()))
}
