//! What a running command writes, for whoever watches it: all of it that comes at a pace people
//! can follow, and the newest of what comes faster.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use zero_sandbox::output_collector::OutputStream;

use crate::jobs::unread_output::incomplete_char_len;

/// Time between two pieces.
pub(super) const PAUSE: Duration = Duration::from_millis(50);
/// Bytes of one piece.
const BYTES_MAX: usize = 64 * 1024;
/// Stands where something was left out.
const OMISSION_MARK: &str = "[…]\n";

/// What came and was not told yet: whoever reads the command adds to it, whoever waits for its end
/// takes it every [`PAUSE`].
#[derive(Clone, Debug, Default)]
pub(super) struct OutputFeed {
    untold: Arc<Mutex<PendingOutput>>,
}

#[derive(Debug, Default)]
struct PendingOutput {
    text: String,
    /// A character that has come in part, of either stream.
    begun: [Vec<u8>; 2],
    is_cut: bool,
}

/// Whether more can come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FeedRemainder {
    MayCome,
    Never,
}

impl OutputFeed {
    /// Takes what came.
    pub(super) fn add(&self, stream: OutputStream, bytes: &[u8]) {
        let newest = bytes.get(bytes.len().saturating_sub(BYTES_MAX)..).unwrap_or_default();
        let mut untold = self.lock();
        let PendingOutput { text, begun, is_cut } = &mut *untold;
        let [of_output, of_errors] = begun;
        let begun = match stream {
            OutputStream::Stdout => of_output,
            OutputStream::Stderr => of_errors,
        };
        if newest.len() < bytes.len() {
            begun.clear();
            *is_cut = true;
        }
        begun.extend_from_slice(newest);
        let rest = begun.split_off(begun.len() - incomplete_char_len(begun));
        text.push_str(&String::from_utf8_lossy(begun));
        *begun = rest;
        let surplus = text.len().saturating_sub(BYTES_MAX);
        if surplus > 0 {
            text.drain(..text.ceil_char_boundary(surplus));
            *is_cut = true;
        }
    }

    /// What came since this was last asked, if anything did.
    pub(super) fn take(&self, rest: FeedRemainder) -> Option<String> {
        let mut untold = self.lock();
        if rest == FeedRemainder::Never {
            for begun in std::mem::take(&mut untold.begun) {
                untold.text.push_str(&String::from_utf8_lossy(&begun));
            }
        }
        if untold.text.is_empty() {
            return None;
        }
        let text = std::mem::take(&mut untold.text);
        Some(if std::mem::take(&mut untold.is_cut) {
            format!("{OMISSION_MARK}{text}")
        } else {
            text
        })
    }

    fn lock(&self) -> MutexGuard<'_, PendingOutput> {
        self.untold.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn split_character_is_joined() {
        let printed = OutputFeed::default();
        assert_eq!(printed.take(FeedRemainder::MayCome), None);
        printed.add(OutputStream::Stdout, b"a\xc3");
        printed.add(OutputStream::Stderr, b"b");
        assert_eq!(printed.take(FeedRemainder::MayCome).as_deref(), Some("ab"));
        printed.add(OutputStream::Stdout, b"\xa9\xff");
        printed.add(OutputStream::Stderr, b"\xe2\x82");
        assert_eq!(printed.take(FeedRemainder::MayCome).as_deref(), Some("é\u{fffd}"));
        assert_eq!(printed.take(FeedRemainder::Never).as_deref(), Some("\u{fffd}"));
        assert_eq!(printed.take(FeedRemainder::Never), None);
    }

    #[test]
    fn excess_output_keeps_newest() {
        let printed = OutputFeed::default();
        let line = "0123456é\n".as_bytes();
        printed.add(OutputStream::Stdout, &line.repeat(BYTES_MAX));
        printed.add(OutputStream::Stdout, b"last");
        let told = printed.take(FeedRemainder::MayCome).unwrap();
        assert!(told.starts_with(OMISSION_MARK) && told.ends_with("é\nlast"));
        assert!(told.len() <= BYTES_MAX + OMISSION_MARK.len());
        printed.add(OutputStream::Stdout, b"next");
        assert_eq!(printed.take(FeedRemainder::MayCome).as_deref(), Some("next"));
    }
}
