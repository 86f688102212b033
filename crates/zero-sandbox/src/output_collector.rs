//! Collects the output of a command: all of it is read, a limited part is kept.
//!
//! The beginning and the end of each stream are kept, and those of both streams in the order they
//! came, because users look for the first error and the last line. The rest is counted, and written
//! to a file if there is one. Memory use does not depend on the size of the output.

mod head_tail;

use std::borrow::Cow;
use std::fmt;
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use zero_core::{SecretMask, SecretStream};

use crate::running_command::{CommandExit, KillReason, RunningCommand};
pub use head_tail::{HeadTail, InterleavedOutput, OutputStream, StreamSegment};

/// Bytes per read.
const READ_BYTES: usize = 256 * 1024;
/// Bytes that are read after the grace period: as much as a pipe can hold, which the command may
/// have written before a busy machine could read it. Anything after that is not the command's.
const LATE_BYTES_MAX: usize = 1 << 20;

/// Most bytes of a line that wait for its end.
const LINE_BYTES_MAX: usize = 4096;

/// Asked after each piece of output that was read, before it is shown. If it returns a text, that
/// piece and all that follows are dropped, and the text is shown instead.
pub type OutputGate = Box<dyn FnMut() -> Option<String> + Send>;

/// How much output of a command is kept, and where all of it goes.
pub struct OutputCollector {
    /// Bytes to keep from the beginning of each stream, and of both together.
    pub head_bytes: usize,
    /// Bytes to keep from the end of each stream, and of both together.
    pub tail_bytes: usize,
    /// Receives the whole output, up to a size.
    pub spill: Option<OutputSpill>,
    /// How long to wait for more output after the command has ended.
    pub drain_grace: Duration,
    /// Secret values that are replaced before anything else sees the output.
    pub secrets: Arc<SecretMask>,
    /// Whether output may be shown; always if absent.
    pub gate: Option<OutputGate>,
}

impl Default for OutputCollector {
    fn default() -> Self {
        Self {
            head_bytes: 64 * 1024,
            tail_bytes: 64 * 1024,
            spill: None,
            drain_grace: Duration::from_millis(300),
            secrets: Arc::default(),
            gate: None,
        }
    }
}

/// A file for the whole output.
pub struct OutputSpill {
    /// Where the output is written, both streams in the order they came.
    pub file: Box<dyn Write + Send>,
    /// Most bytes to write.
    pub bytes_max: u64,
}

impl fmt::Debug for OutputSpill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spill").field("bytes_max", &self.bytes_max).finish_non_exhaustive()
    }
}

/// A part of the output, as soon as it was read.
#[derive(Clone, Copy, Debug)]
pub struct OutputProgress<'a> {
    /// The stream it was written to.
    pub stream: OutputStream,
    /// The bytes of this part.
    pub bytes: &'a [u8],
    /// Bytes of both streams so far, including these.
    pub total_bytes: u64,
}

/// The output of a command.
#[derive(Debug)]
pub struct CollectedOutput {
    /// The kept part of standard output.
    pub stdout: HeadTail,
    /// The kept part of error output.
    pub stderr: HeadTail,
    /// The kept part of both, in the order it came.
    pub mixed: InterleavedOutput,
    /// Bytes written to the file.
    pub spilled_bytes: u64,
    /// Why the file is incomplete, if writing failed.
    pub spill_error: Option<io::Error>,
}

impl OutputCollector {
    /// Reads the output of a command until it has ended, and returns how it ended.
    ///
    /// `progress` is called with all output, and can have the command killed. Reading stops when
    /// both streams are closed, or after [`Self::drain_grace`] if a process that is not part of the
    /// command holds them open.
    pub fn collect(
        self,
        running: &mut RunningCommand,
        mut progress: impl FnMut(OutputProgress<'_>) -> ControlFlow<KillReason>,
    ) -> io::Result<(CollectedOutput, CommandExit)> {
        let Self { head_bytes, tail_bytes, mut spill, drain_grace, secrets, mut gate } = self;
        let mut streams = [
            (OutputStream::Stdout, running.stdout.take()),
            (OutputStream::Stderr, running.stderr.take()),
        ];
        let mut filters = [OutputFilter::new(Arc::clone(&secrets)), OutputFilter::new(secrets)];
        let mut collected = CollectedOutput {
            stdout: HeadTail::new(head_bytes, tail_bytes),
            stderr: HeadTail::new(head_bytes, tail_bytes),
            mixed: InterleavedOutput::new(head_bytes, tail_bytes),
            spilled_bytes: 0,
            spill_error: None,
        };
        let mut buffer = vec![0; READ_BYTES];
        let mut end: Option<(CommandExit, Instant)> = None;
        let mut is_killed = false;
        let mut late_bytes = 0;
        let mut is_withheld = false;
        let mut deliver = |collected: &mut CollectedOutput, stream: OutputStream, bytes: &[u8]| {
            collected.add(stream, bytes, &mut spill);
            let total_bytes = collected.mixed.total_bytes();
            progress(OutputProgress { stream, bytes, total_bytes })
        };
        loop {
            let is_open = streams.iter().any(|(_, fd)| fd.is_some());
            let is_late = end.as_ref().is_some_and(|(_, until)| Instant::now() >= *until);
            if let Some((ended, _)) = &end
                && (!is_open || late_bytes >= LATE_BYTES_MAX)
            {
                deliver_held(&streams, &mut filters, |stream, bytes| {
                    let _ = deliver(&mut collected, stream, bytes);
                });
                return Ok((collected, ended.clone()));
            }
            let ready =
                wait_readable(&streams, end.is_none().then(|| running.exit_fd()), end.as_ref())?;
            // Output that the command wrote before its end is readable already, however late we
            // read it.
            if let Some((ended, _)) = &end
                && is_late
                && !ready.streams.contains(&true)
            {
                deliver_held(&streams, &mut filters, |stream, bytes| {
                    let _ = deliver(&mut collected, stream, bytes);
                });
                return Ok((collected, ended.clone()));
            }
            let open = streams.iter_mut().zip(&mut filters).zip(ready.streams);
            for (((stream, fd), filter), is_ready) in open {
                let Some(open) = fd.as_ref().filter(|_| is_ready) else { continue };
                let Some(bytes) = read_available(open, &mut buffer)? else {
                    *fd = None;
                    continue;
                };
                late_bytes += if is_late { bytes.len() } else { 0 };
                // The output goes on being read, so that the command does not wait for a reader.
                if is_withheld {
                    continue;
                }
                let notice = gate.as_mut().and_then(|gate| gate());
                is_withheld = notice.is_some();
                let shown = match notice {
                    Some(notice) => Cow::Owned(format!("{notice}\n").into_bytes()),
                    None => filter.push(bytes),
                };
                if let ControlFlow::Break(reason) = deliver(&mut collected, *stream, &shown)
                    && !is_killed
                {
                    running.kill(reason);
                    is_killed = true;
                }
            }
            if end.is_none() && ready.ended {
                end = running.try_wait().map(|exit| (exit, Instant::now() + drain_grace));
            }
        }
    }
}

/// One of the two streams of a command, without secret values.
struct OutputFilter {
    stream: SecretStream,
    /// The beginning of a line whose end is held back.
    line: Vec<u8>,
}

impl OutputFilter {
    fn new(secrets: Arc<SecretMask>) -> Self {
        Self { stream: SecretStream::new(secrets), line: Vec::new() }
    }

    /// Takes a piece, and returns what can be shown. The end of a piece may be held back because a value
    /// may begin with it. Then the beginning of its line is held back, too: the other stream may write
    /// meanwhile, and would be shown in the middle of the line.
    fn push<'a>(&mut self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        let clean = self.stream.push(bytes);
        if self.line.is_empty() && !self.stream.is_holding() {
            return clean;
        }
        let mut text = std::mem::take(&mut self.line);
        text.extend_from_slice(&clean);
        if self.stream.is_holding() {
            let line = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
            if text.len() - line <= LINE_BYTES_MAX {
                self.line = text.split_off(line);
            }
        }
        Cow::Owned(text)
    }

    /// The rest, when nothing more arrives.
    fn finish(&mut self) -> Vec<u8> {
        let mut rest = std::mem::take(&mut self.line);
        rest.extend(self.stream.finish());
        rest
    }
}

/// Delivers what was held back because it may be the beginning of a secret value.
fn deliver_held(
    streams: &[(OutputStream, Option<OwnedFd>); 2],
    filters: &mut [OutputFilter; 2],
    mut deliver: impl FnMut(OutputStream, &[u8]),
) {
    for ((stream, _), filter) in streams.iter().zip(filters) {
        let pending_bytes = filter.finish();
        if !pending_bytes.is_empty() {
            deliver(*stream, &pending_bytes);
        }
    }
}

impl CollectedOutput {
    fn add(&mut self, stream: OutputStream, bytes: &[u8], spill: &mut Option<OutputSpill>) {
        match stream {
            OutputStream::Stdout => self.stdout.push(bytes),
            OutputStream::Stderr => self.stderr.push(bytes),
        }
        self.mixed.push(stream, bytes);
        let Some(OutputSpill { file, bytes_max }) = spill else { return };
        let room =
            usize::try_from(bytes_max.saturating_sub(self.spilled_bytes)).unwrap_or(usize::MAX);
        let part = bytes.get(..room).unwrap_or(bytes);
        match file.write_all(part) {
            Ok(()) => self.spilled_bytes += part.len() as u64,
            Err(error) => {
                // A full disk does not end the command.
                self.spill_error = Some(error);
                *spill = None;
            }
        }
    }
}

/// Which descriptors are ready.
struct PollReadiness {
    streams: [bool; 2],
    ended: bool,
}

/// Waits until something can be read, the command has ended, or the grace period is over.
fn wait_readable(
    streams: &[(OutputStream, Option<OwnedFd>); 2],
    ended_fd: Option<BorrowedFd<'_>>,
    end: Option<&(CommandExit, Instant)>,
) -> io::Result<PollReadiness> {
    let left = end.map(|(_, until)| until.saturating_duration_since(Instant::now()));
    let timeout = left.and_then(|left| Timespec::try_from(left).ok());
    let [stdout, stderr] = streams.each_ref().map(|(_, fd)| fd.as_ref().map(|fd| fd.as_fd()));
    let sources = [stdout, stderr, ended_fd];
    let mut fds: Vec<PollFd<'_>> =
        sources.iter().flatten().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
    match rustix::event::poll(&mut fds, timeout.as_ref()) {
        Ok(_) => {}
        Err(rustix::io::Errno::INTR) => {
            return Ok(PollReadiness { streams: [false; 2], ended: false });
        }
        Err(errno) => return Err(errno.into()),
    }
    let mut polled = fds.iter();
    let [stdout, stderr, ended] = sources
        .map(|source| source.is_some() && polled.next().is_some_and(|fd| !fd.revents().is_empty()));
    Ok(PollReadiness { streams: [stdout, stderr], ended })
}

/// Reads what is available; `None` if the stream is closed.
fn read_available<'a>(from: &OwnedFd, buffer: &'a mut [u8]) -> io::Result<Option<&'a [u8]>> {
    match rustix::io::read(from, &mut *buffer) {
        // A terminal returns this error when its programs have ended.
        Ok(0) | Err(rustix::io::Errno::IO) => Ok(None),
        Ok(count) => Ok(buffer.get(..count)),
        Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => Ok(Some(&[])),
        Err(errno) => Err(errno.into()),
    }
}
