//! Output that is kept instead of being written, so that its reader can show it elsewhere.

use std::sync::{Arc, Mutex, PoisonError};

/// Most bytes that are kept. The rest is left out.
const CAPTURED_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Stands where output was left out.
const CUT_NOTE: &str = "\n[the rest is left out]\n";

/// What was written to a stream. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct CapturedOutput(Arc<Mutex<CapturedText>>);

#[derive(Debug, Default)]
struct CapturedText {
    text: String,
    is_full: bool,
}

impl CapturedOutput {
    /// What was written so far.
    pub fn text(&self) -> String {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).text.clone()
    }

    pub(crate) fn push(&self, text: &str) {
        let mut captured = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if captured.is_full {
            return;
        }
        if captured.text.len() + text.len() > CAPTURED_BYTES_MAX {
            captured.is_full = true;
            captured.text.push_str(CUT_NOTE);
            return;
        }
        captured.text.push_str(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_bounded() {
        let captured = CapturedOutput::default();
        captured.push("one\n");
        captured.push(&"x".repeat(CAPTURED_BYTES_MAX));
        captured.push("two\n");
        assert_eq!(captured.text(), format!("one\n{CUT_NOTE}"));
    }
}
