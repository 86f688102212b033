//! Notes about a change that went through an editor, which may have reformatted the text or not
//! saved it.

use zero_runtime::TextChange;
use zero_sandbox::WriteOutcome;

use crate::diff::file_diff;

/// Returns a note about how the result differs from the request, to be appended to a sentence.
/// `requested_text` is the text that was to be written; [`TextChange::bytes`] is the text that the file has
/// now.
pub(crate) fn editor_change_note(
    changed: &TextChange,
    requested_text: &str,
    shown: &str,
) -> Option<String> {
    let now = String::from_utf8_lossy(&changed.bytes);
    let difference = || file_diff(shown, Some(requested_text), Some(&now)).unified;
    match &changed.landed {
        WriteOutcome::AsRequested => None,
        WriteOutcome::Altered(_) => {
            Some(format!("; the editor changed it on saving:\n{}", difference()))
        }
        WriteOutcome::Pending if now == requested_text => Some(
            "; the editor has not saved it yet: on disk, and for commands, the file is unchanged"
                .to_owned(),
        ),
        WriteOutcome::Pending => Some(format!(
            "; the editor has not saved it yet: on disk, and for commands, the file is unchanged; the editor changed it:\n{}",
            difference()
        )),
    }
}
