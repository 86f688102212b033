//! One request to use a tool.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{CallId, SessionId};

/// One request to use a tool, as it arrived: nothing in it has been checked yet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolCall {
    /// Names this call in every record of it.
    pub id: CallId,
    /// The session that asked, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// The tool's name in the caller's dialect.
    pub tool: String,
    /// The arguments in the caller's dialect.
    pub input: Value,
    /// A shorter deadline than the tool's own, if the caller wants one; milliseconds in JSON.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        rename = "timeout_ms",
        with = "millis"
    )]
    #[schemars(with = "Option<u64>")]
    pub timeout: Option<Duration>,
}

/// A duration as whole milliseconds.
mod millis {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(
        time: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        time.map(|time| time.as_millis()).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<u64>::deserialize(deserializer)?.map(Duration::from_millis))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn tool_call_survives_json() {
        let call = ToolCall {
            id: CallId::from_bits(1),
            session: SessionId::new("s").ok(),
            tool: "Bash".to_owned(),
            input: json!({"command": "true"}),
            timeout: Some(Duration::from_secs(2)),
        };
        let written = serde_json::to_value(&call).unwrap();
        assert_eq!(written["timeout_ms"], 2000);
        assert_eq!(serde_json::from_value::<ToolCall>(written).unwrap(), call);
    }
}
