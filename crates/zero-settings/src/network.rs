//! Settings for zero's own connections (`network`).

use schemars::JsonSchema;
use serde::Deserialize;

/// The keys below `network`.
pub const KEYS: [&str; 1] = [EXTRA_CA_KEY];
/// The key of the certificate file.
pub const EXTRA_CA_KEY: &str = "network.extraCa";

/// How zero itself connects. Only your own settings apply here, never a project's.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub struct NetworkSettings {
    /// A file with certificates (PEM) to trust in addition to those of this machine, such as your
    /// company's; `~` is your home folder.
    extra_ca: Option<String>,
}
