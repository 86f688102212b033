//! The LSP tool, and the problems that Edit and Write report, if zero is built with the feature
//! `lsp`.

#[cfg(not(feature = "lsp"))]
mod disabled;
#[cfg(feature = "lsp")]
mod enabled;

#[cfg(not(feature = "lsp"))]
use self::disabled as support;
#[cfg(feature = "lsp")]
use self::enabled as support;
#[cfg(feature = "lsp")]
pub use self::enabled::{LspArgs, LspItem, LspOperation, LspOutput, LspPlan, LspTool};
pub use self::support::add_language_servers;
pub(crate) use self::support::{
    ChangedText, MISSING, append_new_diagnostics, diagnostics_bounds, tools,
};
