//! Settings for secret values (`secrets`): whether they are masked, and which files contain them.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use zero_policy::SecretFileSet;

use crate::sandbox;

/// The key that turns masking off.
pub const MASK_KEY: &str = "secrets.mask";
/// The list of further files with secrets. Every settings file can extend it.
pub const FILES_KEY: &str = "secrets.files";
/// The list of files without secrets.
pub const EXCEPT_KEY: &str = "secrets.except";
/// The key that keeps values from being stored.
pub const REMEMBER_KEY: &str = "secrets.remember";
/// The lists of this section.
pub const LISTS: [&str; 2] = [FILES_KEY, EXCEPT_KEY];

/// How zero keeps the values of secrets from models and records.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SecretsSettings {
    /// Whether zero replaces the values of secret files and variables in everything that tools
    /// return, and asks before a tool reads such a file. On by default. Only your own settings can
    /// turn it off, never a project's.
    mask: Option<bool>,
    /// Names of further files that contain secrets, such as `*.vault` or `config/prod.yml`.
    files: Vec<String>,
    /// Names of files that contain no secrets although they have a usual name of such files, such
    /// as `.env.test`. Only your own settings apply here, never a project's.
    except: Vec<String>,
    /// Whether zero keeps the values of secret files in its state folder for 30 days, so that later
    /// runs replace them, too. On by default. Only your own settings can turn it off.
    remember: Option<bool>,
}

/// Invalid names, by JSON pointer.
pub(crate) fn find_wrong_texts(value: &Value) -> Vec<(String, String)> {
    let lists = ["/secrets/files", "/secrets/except"];
    lists.into_iter().flat_map(|list| sandbox::find_wrong_items(value, list, check_name)).collect()
}

fn check_name(text: &str) -> Result<(), String> {
    SecretFileSet::check_pattern(text).map_err(|what| {
        format!("is not a file name, because {what}; write one such as `.env.local` or `*.pem`")
    })
}
