//! Whom connections trust, as settings say it.

use schemars::JsonSchema;
use serde::Deserialize;

/// The keys below `network`.
pub const KEYS: [&str; 1] = [EXTRA_CA_KEY];
/// The key of the file of certificates.
pub const EXTRA_CA_KEY: &str = "network.extraCa";

/// How zero itself connects. Only your own settings count here, never a project's.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub struct NetworkSettings {
    /// A file of certificates (PEM) that are trusted besides those of this machine, such as that of
    /// your company; `~` is your home.
    extra_ca: Option<String>,
}
