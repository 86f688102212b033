//! Newline-delimited messages, with limits that the SDK lacks: on the length of a line, and on the
//! messages that wait for a client that does not read.
//!
//! The SDK quotes a line that it cannot parse in its error response. A line that is too long or not
//! JSON is therefore replaced before the SDK sees it: the client gets an error, and no part of the
//! line is repeated.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use agent_client_protocol::Lines;
use futures_util::task::AtomicWaker;
use futures_util::{Sink, Stream, stream};
use serde::de::IgnoredAny;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Notify;
use tokio::time::sleep;
use zero_runtime::line_reader::{LineEvent, LineReader};

/// Longest line, in bytes. A prompt with a few images fits.
pub(crate) const LINE_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Longest wait for the client to read the last messages after it closed its input.
const FINAL_FLUSH_MAX: Duration = Duration::from_secs(1);
/// Updates that may wait to be written. Senders of further ones wait.
const UPDATES_WAITING_MAX: usize = 64;
/// Messages that are read while the client reads nothing.
const UNREAD_MAX: usize = 1_024;
/// If nothing was written for this long, the queue is empty.
const IDLE_AFTER: Duration = Duration::from_millis(20);
/// Prefixes of the messages that are counted, as the SDK writes them: session updates and call
/// progress.
const COUNTED_PREFIXES: [&str; 3] = [
    r#"{"jsonrpc":"2.0","method":"session/update""#,
    r#"{"jsonrpc":"2.0","method":"_zero/tools/progress""#,
    r#"{"jsonrpc":"2.0","method":"tools/progress""#,
];

/// The messages that wait to be written. Clones share the counts.
#[derive(Clone, Default)]
pub(crate) struct WriteBacklog {
    shared: Arc<BacklogState>,
}

#[derive(Default)]
struct BacklogState {
    /// Updates that were sent and not yet written.
    updates: AtomicUsize,
    /// Messages read since the last write.
    received_bytes: AtomicUsize,
    /// Whether a write waits for the client.
    is_stuck: AtomicBool,
    /// Whether the client stopped reading; senders no longer wait then.
    is_gone: AtomicBool,
    written: Notify,
    /// Wakes the pending write.
    writer: AtomicWaker,
}

impl WriteBacklog {
    /// Counts an update; waits while too many are queued.
    pub(crate) async fn admit_update(&self) {
        loop {
            let written = self.shared.written.notified();
            let waiting = self.shared.updates.load(Ordering::Acquire);
            if waiting < UPDATES_WAITING_MAX || self.is_closed() {
                break;
            }
            written.await;
        }
        self.shared.updates.fetch_add(1, Ordering::AcqRel);
    }

    /// Whether the client stopped reading.
    pub(crate) fn is_closed(&self) -> bool {
        self.shared.is_gone.load(Ordering::Acquire)
    }

    /// Marks the output as closed.
    fn mark_closed(&self) {
        self.shared.is_gone.store(true, Ordering::Release);
        self.shared.written.notify_waiters();
        self.shared.writer.wake();
    }

    fn record_write(&self, is_update: bool) {
        let shared = &self.shared;
        if is_update {
            let less = |count: usize| Some(count.saturating_sub(1));
            // A count below zero would wrap and block every sender.
            let _ = shared.updates.fetch_update(Ordering::AcqRel, Ordering::Acquire, less);
        }
        shared.received_bytes.store(0, Ordering::Release);
        shared.is_stuck.store(false, Ordering::Release);
        shared.written.notify_waiters();
    }

    /// Waits while the client sends many messages and reads nothing.
    async fn admit_message(&self) {
        if self.shared.received_bytes.fetch_add(1, Ordering::AcqRel) < UNREAD_MAX {
            return;
        }
        while self.shared.is_stuck.load(Ordering::Acquire) {
            let written = self.shared.written.notified();
            if !self.shared.is_stuck.load(Ordering::Acquire) {
                break;
            }
            tokio::select! {
                () = written => {}
                () = sleep(IDLE_AFTER) => {}
            }
        }
    }
}

/// The transport for the SDK.
pub(crate) fn bounded_lines(
    input: impl AsyncRead + Send + Unpin + 'static,
    output: impl AsyncWrite + Send + Unpin + 'static,
    gauge: WriteBacklog,
) -> Lines<
    impl Sink<String, Error = io::Error> + Send + 'static,
    impl Stream<Item = io::Result<String>> + Send + 'static,
> {
    let reader = LineReader::new(input, LINE_BYTES_MAX);
    let incoming = stream::unfold((reader, gauge.clone()), async |(mut reader, gauge)| {
        gauge.admit_message().await;
        let Some(line) = next_line(&mut reader).await else {
            // The client may be gone and its pipe still open without a reader.
            tokio::spawn(async move {
                sleep(FINAL_FLUSH_MAX).await;
                gauge.mark_closed();
            });
            return None;
        };
        Some((line, (reader, gauge)))
    });
    let outgoing =
        LineSink { output: Box::pin(output), bytes: Vec::new(), at: 0, gauge, is_update: false };
    Lines::new(outgoing, Box::pin(incoming))
}

/// The next line that is not blank; `None` at the end of input.
async fn next_line(reader: &mut LineReader) -> Option<io::Result<String>> {
    loop {
        let line = match reader.next().await {
            Err(error) => return Some(Err(error)),
            Ok(LineEvent::TooLong(_)) => {
                let words =
                    format!("a line of more than {LINE_BYTES_MAX} bytes, which was skipped");
                return Some(Ok(words));
            }
            Ok(LineEvent::TooLongEnd(_)) => continue,
            Ok(LineEvent::End(rest)) if rest.iter().all(u8::is_ascii_whitespace) => return None,
            Ok(LineEvent::End(rest) | LineEvent::Whole(rest)) => rest,
        };
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let text = match String::from_utf8(line) {
            Ok(text) => text,
            Err(_) => return Some(Ok("a line that is not UTF-8".to_owned())),
        };
        return Some(Ok(match serde_json::from_str::<IgnoredAny>(&text) {
            Ok(_) => text,
            Err(error) => format!("a line that is not JSON at column {}", error.column()),
        }));
    }
}

/// Writes lines, one at a time.
struct LineSink<W> {
    output: Pin<Box<W>>,
    bytes: Vec<u8>,
    at: usize,
    gauge: WriteBacklog,
    is_update: bool,
}

impl<W: AsyncWrite> LineSink<W> {
    fn poll_write_out(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.at < self.bytes.len() {
            self.gauge.shared.writer.register(cx.waker());
            if self.gauge.is_closed() {
                return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
            }
            let rest = self.bytes.get(self.at..).unwrap_or_default();
            let written = match self.output.as_mut().poll_write(cx, rest) {
                Poll::Pending => {
                    self.gauge.shared.is_stuck.store(true, Ordering::Release);
                    return Poll::Pending;
                }
                Poll::Ready(Ok(written)) => written,
                Poll::Ready(Err(error)) => {
                    self.gauge.mark_closed();
                    return Poll::Ready(Err(error));
                }
            };
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.at += written;
        }
        ready!(self.output.as_mut().poll_flush(cx))?;
        if !self.bytes.is_empty() {
            self.bytes = Vec::new();
            self.at = 0;
            self.gauge.record_write(self.is_update);
        }
        Poll::Ready(Ok(()))
    }
}

impl<W: AsyncWrite> Sink<String> for LineSink<W> {
    type Error = io::Error;

    fn poll_ready(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_write_out(cx)
    }

    fn start_send(mut self: Pin<&mut Self>, line: String) -> io::Result<()> {
        self.is_update = COUNTED_PREFIXES.iter().any(|update| line.starts_with(update));
        self.bytes = line.into_bytes();
        self.bytes.push(b'\n');
        self.at = 0;
        Ok(())
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_write_out(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_write_out(cx))?;
        self.output.as_mut().poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read_lines(bytes: &'static [u8]) -> Vec<String> {
        let mut reader = LineReader::new(bytes, 32);
        let mut lines = Vec::new();
        while let Some(line) = next_line(&mut reader).await {
            lines.push(line.unwrap());
        }
        lines
    }

    #[tokio::test]
    async fn invalid_line_is_not_quoted() {
        let lines = read_lines(b"{\"a\":1}\n\n  \r\nsecret\n\xff\n{\"b\":2}").await;
        let expected = [
            "{\"a\":1}",
            "a line that is not JSON at column 1",
            "a line that is not UTF-8",
            "{\"b\":2}",
        ];
        assert_eq!(lines, expected);
        let long = read_lines(b"[1,2,3,4,5,6,7,8,9,0,1,2,3,4,5,6,7]\n1\n").await;
        assert!(long[0].starts_with("a line of more than"), "{long:?}");
        assert_eq!(long[1], "1");
    }

    #[tokio::test]
    async fn update_sender_waits_for_slow_client() {
        let gauge = WriteBacklog::default();
        for _ in 0..UPDATES_WAITING_MAX {
            gauge.admit_update().await;
        }
        let waiting = tokio::spawn({
            let gauge = gauge.clone();
            async move { gauge.admit_update().await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        gauge.record_write(false);
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        gauge.record_write(true);
        waiting.await.unwrap();
    }

    #[tokio::test]
    async fn closed_client_does_not_block_others() {
        use futures_util::SinkExt as _;
        let gauge = WriteBacklog::default();
        for _ in 0..UPDATES_WAITING_MAX {
            gauge.admit_update().await;
        }
        // The client reads nothing, and a line does not fit into its pipe.
        let (_unread, output) = tokio::io::duplex(8);
        let mut sink = LineSink {
            output: Box::pin(output),
            bytes: Vec::new(),
            at: 0,
            gauge: gauge.clone(),
            is_update: false,
        };
        let writing = tokio::spawn(async move { sink.send("a long line".to_owned()).await });
        tokio::task::yield_now().await;
        assert!(!writing.is_finished());
        gauge.mark_closed();
        assert_eq!(writing.await.unwrap().unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        gauge.admit_update().await;
    }
}
