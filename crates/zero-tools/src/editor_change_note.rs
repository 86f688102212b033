//! What is to be said of a change that an editor made: it may have formatted the text, or not saved
//! it.

use zero_runtime::TextChange;
use zero_sandbox::WriteOutcome;

use crate::diff::file_diff;

/// What became of a text besides what was asked for, to be added to a sentence. `asked` is the text
/// that should have been written; what stands there instead is [`TextChange::bytes`].
pub(crate) fn editor_change_note(changed: &TextChange, asked: &str, shown: &str) -> Option<String> {
    let now = String::from_utf8_lossy(&changed.bytes);
    let difference = || file_diff(shown, Some(asked), Some(&now)).unified;
    match &changed.landed {
        WriteOutcome::AsRequested => None,
        WriteOutcome::Altered(_) => {
            Some(format!("; the editor changed it on saving:\n{}", difference()))
        }
        WriteOutcome::Pending if now == asked => Some(
            "; the editor has it and has not saved it yet: on disk, and for commands, the file is as before"
                .to_owned(),
        ),
        WriteOutcome::Pending => Some(format!(
            "; the editor has not saved it yet: on disk, and for commands, the file is as before; the editor changed it:\n{}",
            difference()
        )),
    }
}
