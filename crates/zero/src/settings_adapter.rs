//! Converts the settings that `zero_settings` parsed into the types of the crates that they configure,
//! and their errors into exit codes.

pub(crate) mod acp;
pub(crate) mod mcp_servers;
pub(crate) mod models;
pub(crate) mod network;
pub(crate) mod web;

use zero_settings::{SettingsError, TrustError};

use crate::exit::UsageError;

/// Whether an error is caused by a settings file or the command line, so that a retry does not help.
pub(crate) fn is_about_settings(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| cause.is::<SettingsError>() || cause.is::<UsageError>())
}

impl From<SettingsError> for UsageError {
    fn from(error: SettingsError) -> Self {
        Self(error.to_string())
    }
}

impl From<TrustError> for UsageError {
    fn from(error: TrustError) -> Self {
        Self(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use zero_settings::{SettingsLayer, SettingsLayerKind};

    pub(super) fn parse_layers(files: &[(SettingsLayerKind, &str)]) -> Vec<SettingsLayer> {
        let parse = |(kind, text): &(SettingsLayerKind, &str)| {
            SettingsLayer::parse(*kind, kind.as_str().to_owned(), text.as_bytes()).unwrap()
        };
        files.iter().map(parse).collect()
    }
}
