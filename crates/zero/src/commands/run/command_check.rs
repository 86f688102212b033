//! Finds mistakes in a slash command before it is sent, so that a script sees a usage error.

use zero_runtime::DialectName;
use zero_runtime::tool_backend::ToolBackend;
use zero_session::{direct_model, slash_commands};

use crate::exit::UsageError;

/// Fails if the prompt is a slash command that does not exist, or that is not written as it has to be.
/// `is_direct` means that the session has no model.
pub(super) async fn check_command(
    prompt: &str,
    backend: &dyn ToolBackend,
    is_direct: bool,
) -> Result<(), UsageError> {
    let Some(after) = prompt.strip_prefix('/') else { return Ok(()) };
    if let Some(wrong) = direct_model::find_usage_error(prompt) {
        return Err(UsageError(wrong));
    }
    let word = after.split_whitespace().next().unwrap_or_default();
    // What cannot be listed now is judged by the session.
    let Ok(user) = backend.list_commands().await else { return Ok(()) };
    match slash_commands::parse(prompt, &user, is_direct) {
        Some(Ok(_)) => return Ok(()),
        Some(Err(wrong)) => return Err(UsageError(wrong)),
        None if !is_direct
            || word.eq_ignore_ascii_case("help")
            || direct_model::is_shorthand(word) =>
        {
            return Ok(());
        }
        None => {}
    }
    // Without a model, any other word is the name of a tool.
    for dialect in DialectName::ALL {
        let Ok(catalog) = backend.load_catalog(dialect).await else { return Ok(()) };
        if catalog.tools.iter().any(|tool| tool.name.eq_ignore_ascii_case(word)) {
            return Ok(());
        }
    }
    Err(UsageError(format!("there is no command or tool `{word}`; `/help` lists them")))
}
