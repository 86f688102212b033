//! A limit as a settings file holds it.

use std::collections::BTreeMap;

use schemars::{Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::{Value, json};
use zero_core::host_limits::InvalidLimitError;
use zero_core::{CommandLimit, CommandLimitChange, LimitProfile};

/// A limit: a string with a unit, or a plain number.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum LimitSetting {
    /// With a unit.
    Text(String),
    /// Without one.
    Number(u64),
}

impl LimitSetting {
    /// As [`HostLimits::set`](zero_core::HostLimits::set) takes it.
    pub fn to_text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Number(number) => number.to_string(),
        }
    }
}

/// The command limits in an object; the error names the invalid one.
pub(crate) fn parse_command_limits(
    limits: &BTreeMap<String, LimitSetting>,
) -> Result<CommandLimitChange, (&str, InvalidLimitError)> {
    let mut change = CommandLimitChange::default();
    for (name, value) in limits {
        let set = match CommandLimit::from_name(name) {
            Some(limit) => change.set(limit, &value.to_text()),
            None => Err(InvalidLimitError::UnknownName { name: name.clone() }),
        };
        set.map_err(|error| (name.as_str(), error))?;
    }
    Ok(change)
}

pub(crate) fn command_limits_schema(_: &mut SchemaGenerator) -> Schema {
    let limits = CommandLimit::ALL.map(|limit| (limit.name().to_owned(), limit_schema()));
    let properties: serde_json::Map<String, Value> = limits.into_iter().collect();
    json_schema!({"type": "object", "properties": properties, "additionalProperties": false})
}

pub(crate) fn profile_schema() -> Value {
    json!({"type": "string", "enum": LimitProfile::ALL.map(LimitProfile::name)})
}

pub(crate) fn limit_schema() -> Value {
    json!({"anyOf": [{"type": "string"}, {"type": "integer", "minimum": 1}]})
}
