//! [`UsageDimension`]: what the rows of a usage report stand for.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a row of a usage report stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum UsageDimension {
    /// A day, in the time zone of the machine.
    #[default]
    Day,
    /// A session.
    Session,
    /// A model.
    Model,
    /// An agent.
    Agent,
    /// An owner of sessions.
    Owner,
}

impl UsageDimension {
    /// The name on the wire and on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Session => "session",
            Self::Model => "model",
            Self::Agent => "agent",
            Self::Owner => "owner",
        }
    }
}
