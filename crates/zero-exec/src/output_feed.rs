//! Live output of a running command for clients: complete at a readable pace, the newest part of
//! faster output.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use zero_core::text_shortening::incomplete_char_len;
use zero_sandbox::output_collector::OutputStream;

/// Time between two updates.
pub(super) const PAUSE: Duration = Duration::from_millis(50);
/// Most bytes of one update.
const BYTES_MAX: usize = 64 * 1024;
/// Replaces omitted output.
const OMISSION_MARK: &str = "[…]\n";

/// Output that was not reported yet. The reader thread adds to it; the waiting caller takes it
/// every [`PAUSE`].
#[derive(Clone, Debug, Default)]
pub(super) struct OutputFeed {
    pending: Arc<Mutex<PendingOutput>>,
}

#[derive(Debug, Default)]
struct PendingOutput {
    text: String,
    /// An incomplete character of each stream.
    partial: [Vec<u8>; 2],
    is_cut: bool,
}

/// Whether more output can follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FeedRemainder {
    MayCome,
    Never,
}

impl OutputFeed {
    /// Adds output.
    pub(super) fn add(&self, stream: OutputStream, bytes: &[u8]) {
        let newest = bytes.get(bytes.len().saturating_sub(BYTES_MAX)..).unwrap_or_default();
        let mut pending = self.lock();
        let PendingOutput { text, partial, is_cut } = &mut *pending;
        let [of_output, of_errors] = partial;
        let partial = match stream {
            OutputStream::Stdout => of_output,
            OutputStream::Stderr => of_errors,
        };
        if newest.len() < bytes.len() {
            partial.clear();
            *is_cut = true;
        }
        partial.extend_from_slice(newest);
        let rest = partial.split_off(partial.len() - incomplete_char_len(partial));
        text.push_str(&String::from_utf8_lossy(partial));
        *partial = rest;
        let surplus = text.len().saturating_sub(BYTES_MAX);
        if surplus > 0 {
            text.drain(..text.ceil_char_boundary(surplus));
            *is_cut = true;
        }
    }

    /// The output since the last call, if any.
    pub(super) fn take(&self, rest: FeedRemainder) -> Option<String> {
        let mut pending = self.lock();
        if rest == FeedRemainder::Never {
            for partial in std::mem::take(&mut pending.partial) {
                pending.text.push_str(&String::from_utf8_lossy(&partial));
            }
        }
        if pending.text.is_empty() {
            return None;
        }
        let text = std::mem::take(&mut pending.text);
        Some(if std::mem::take(&mut pending.is_cut) {
            format!("{OMISSION_MARK}{text}")
        } else {
            text
        })
    }

    fn lock(&self) -> MutexGuard<'_, PendingOutput> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
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
        let shown = printed.take(FeedRemainder::MayCome).unwrap();
        assert!(shown.starts_with(OMISSION_MARK) && shown.ends_with("é\nlast"));
        assert!(shown.len() <= BYTES_MAX + OMISSION_MARK.len());
        printed.add(OutputStream::Stdout, b"next");
        assert_eq!(printed.take(FeedRemainder::MayCome).as_deref(), Some("next"));
    }
}
