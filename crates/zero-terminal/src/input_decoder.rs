//! Turns the bytes of a terminal into events.
//!
//! Bytes arrive in pieces that may end anywhere, and a terminal sends more than keys: answers to
//! questions, pastes, sequences that only some terminals know. One machine reads them byte by byte, so
//! the same bytes always give the same events. A sequence that has no meaning here is one
//! [`InputEvent::Unknown`]: none of its letters may answer a question.
//!
//! `key_sequence` interprets complete sequences.

mod background_color;
mod key_sequence;
#[cfg(test)]
mod tests;

use self::background_color::interpret_osc;
use self::key_sequence::{interpret_csi, interpret_ss3};
use crate::input_event::{InputEvent, KeyCode, KeyStroke};

/// Longest sequence that is looked at, in bytes. The rest of a longer one is dropped.
const SEQUENCE_BYTES_MAX: usize = 128;
/// Longest paste, in bytes. The rest of a longer one is dropped.
pub const PASTE_BYTES_MAX: usize = 4 * 1_024 * 1_024;
const PASTE_END: &[u8] = b"\x1b[201~";
/// Calls of [`InputDecoder::finish`] that end a paste: 2 s, as the caller waits 50 ms before each.
const PASTE_PAUSES_MAX: u8 = 40;
/// Calls that end an answer of the terminal. It arrives at once, and keys are dropped until its end.
const STRING_PAUSES_MAX: u8 = 2;

const ESC: u8 = 0x1b;
const CAN: u8 = 0x18;
const SUB: u8 = 0x1a;
const BEL: u8 = 0x07;

/// Turns the bytes of a terminal into [`InputEvent`]s.
#[derive(Debug, Default)]
pub struct InputDecoder {
    state: DecoderState,
    /// Cursor reports that were asked for and have not arrived.
    reports_expected: u8,
    /// Calls of `finish` since the last byte.
    pauses: u8,
}

#[derive(Debug, Default)]
enum DecoderState {
    #[default]
    Ground,
    /// One or two ESC: the second may be a key of its own, or stand for Alt before a sequence.
    Escape { is_double: bool },
    /// A part of a character; `alt` if ESC came before it.
    Utf8 { bytes: Vec<u8>, alt: bool },
    /// After `ESC [` or `ESC O`: the bytes after these two.
    Sequence { kind: SequenceKind, bytes: Vec<u8>, alt: bool },
    /// After `ESC [ M`: so many bytes of a mouse report are to come.
    Mouse { missing: u8 },
    /// An answer that is a text: the byte after ESC that opened it, the first bytes after that, and
    /// whether the last one was ESC.
    TextAnswer { opener: u8, bytes: Vec<u8>, has_escape: bool },
    /// A paste: its text so far, and how many bytes of its end were seen.
    Paste { bytes: Vec<u8>, end_bytes: usize },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SequenceKind {
    Csi,
    Ss3,
}

/// A state in which nothing is open, and whether the byte has to be read again in it.
enum Step {
    Stay(DecoderState),
    /// The byte was not part of the sequence, which ended before it.
    Again,
}

impl InputDecoder {
    /// The terminal was asked where the cursor is. The answer looks like a key (Shift-F3), so it is
    /// taken as an answer only if it was announced.
    pub fn expect_report(&mut self) {
        self.reports_expected = self.reports_expected.saturating_add(1);
    }

    /// Whether more bytes could change the meaning of those so far. If none come for 50 ms, the
    /// caller calls [`Self::finish`].
    pub fn is_pending(&self) -> bool {
        !matches!(self.state, DecoderState::Ground)
    }

    /// Adds bytes; appends the events that they complete.
    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<InputEvent>) {
        self.pauses = 0;
        for &byte in bytes {
            // A byte is read again only after a sequence ended before it, so twice at most.
            for _ in 0..3 {
                let state = std::mem::take(&mut self.state);
                match self.step(state, byte, out) {
                    Step::Stay(state) => {
                        self.state = state;
                        break;
                    }
                    Step::Again => {}
                }
            }
        }
    }

    /// No bytes came for 50 ms: returns the event of those that are open, if they are one. A paste
    /// or a long answer may take several calls.
    pub fn finish(&mut self) -> Option<InputEvent> {
        self.pauses = self.pauses.saturating_add(1);
        match std::mem::take(&mut self.state) {
            DecoderState::Ground => None,
            DecoderState::Escape { is_double } => {
                if is_double {
                    self.state = DecoderState::Escape { is_double: false };
                }
                Some(key(KeyStroke::plain(KeyCode::Escape)))
            }
            DecoderState::Sequence { kind, bytes, .. } if bytes.is_empty() => {
                let opener = match kind {
                    SequenceKind::Csi => '[',
                    SequenceKind::Ss3 => 'O',
                };
                Some(key(KeyStroke::alt(opener)))
            }
            DecoderState::TextAnswer { opener, bytes, has_escape: false } if bytes.is_empty() => {
                Some(key(KeyStroke::alt(char::from(opener))))
            }
            state @ DecoderState::TextAnswer { .. } if self.pauses < STRING_PAUSES_MAX => {
                self.state = state;
                None
            }
            state @ DecoderState::Paste { .. } if self.pauses < PASTE_PAUSES_MAX => {
                self.state = state;
                None
            }
            DecoderState::Paste { bytes, .. } => Some(InputEvent::Paste(pasted_text(&bytes))),
            DecoderState::Utf8 { .. }
            | DecoderState::Sequence { .. }
            | DecoderState::Mouse { .. }
            | DecoderState::TextAnswer { .. } => Some(InputEvent::Unknown),
        }
    }

    fn step(&mut self, state: DecoderState, byte: u8, out: &mut Vec<InputEvent>) -> Step {
        match state {
            DecoderState::Ground => step_ground(byte, false, out),
            DecoderState::Escape { is_double } => step_escape(is_double, byte, out),
            DecoderState::Utf8 { bytes, alt } => step_utf8(bytes, alt, byte, out),
            DecoderState::Sequence { kind, bytes, alt } => {
                self.step_sequence(kind, bytes, alt, byte, out)
            }
            DecoderState::Mouse { missing } => step_mouse(missing, byte, out),
            DecoderState::TextAnswer { opener, bytes, has_escape } => {
                step_text_answer(opener, bytes, has_escape, byte, out)
            }
            DecoderState::Paste { bytes, end_bytes } => step_paste(bytes, end_bytes, byte, out),
        }
    }

    fn step_sequence(
        &mut self,
        kind: SequenceKind,
        mut bytes: Vec<u8>,
        alt: bool,
        byte: u8,
        out: &mut Vec<InputEvent>,
    ) -> Step {
        if !(0x20..0x7f).contains(&byte) {
            // It was cut off: the next bytes belong to something else.
            out.push(InputEvent::Unknown);
            return match byte {
                CAN | SUB => Step::Stay(DecoderState::Ground),
                _ => Step::Again,
            };
        }
        let is_final = match (kind, bytes.as_slice(), byte) {
            // The Linux console sends function keys as `ESC [ [ A`.
            (SequenceKind::Csi, [], b'[') => false,
            // rxvt ends keys with Shift by a sign that is inside of other sequences.
            (SequenceKind::Csi, [b'0'..=b'9'] | [b'0'..=b'9', b'0'..=b'9'], b'$') => true,
            (_, _, byte) => (0x40..=0x7e).contains(&byte),
        };
        if bytes.len() < SEQUENCE_BYTES_MAX {
            bytes.push(byte);
        } else if is_final {
            out.push(InputEvent::Unknown);
            return Step::Stay(DecoderState::Ground);
        }
        if !is_final {
            return Step::Stay(DecoderState::Sequence { kind, bytes, alt });
        }
        match (kind, bytes.as_slice()) {
            (SequenceKind::Csi, b"200~") => {
                return Step::Stay(DecoderState::Paste { bytes: Vec::new(), end_bytes: 0 });
            }
            (SequenceKind::Csi, b"M") => return Step::Stay(DecoderState::Mouse { missing: 3 }),
            (SequenceKind::Csi, sequence) => {
                let events = interpret_csi(sequence, self.reports_expected > 0);
                if events.iter().any(|event| matches!(event, InputEvent::CursorReport { .. })) {
                    self.reports_expected = self.reports_expected.saturating_sub(1);
                }
                out.extend(events.into_iter().map(|event| with_alt(event, alt)));
            }
            (SequenceKind::Ss3, sequence) => out.push(with_alt(interpret_ss3(sequence), alt)),
        }
        Step::Stay(DecoderState::Ground)
    }
}

fn key(stroke: KeyStroke) -> InputEvent {
    InputEvent::Key(stroke)
}

fn with_alt(event: InputEvent, alt: bool) -> InputEvent {
    match event {
        InputEvent::Key(stroke) if alt => InputEvent::Key(KeyStroke { alt, ..stroke }),
        event => event,
    }
}

fn step_ground(byte: u8, alt: bool, out: &mut Vec<InputEvent>) -> Step {
    let stroke = match byte {
        ESC => return Step::Stay(DecoderState::Escape { is_double: false }),
        b'\r' => KeyStroke::plain(KeyCode::Enter),
        b'\t' => KeyStroke::plain(KeyCode::Tab),
        0x7f | 0x08 => KeyStroke::plain(KeyCode::Backspace),
        0 => KeyStroke::ctrl(' '),
        0x01..=0x1a => KeyStroke::ctrl(char::from(byte + b'a' - 1)),
        0x1c..=0x1f => KeyStroke::ctrl(char::from(byte + b'@')),
        0x20..=0x7e => KeyStroke::plain(KeyCode::Char(char::from(byte))),
        0x80..=0xff => return step_utf8(Vec::new(), alt, byte, out),
    };
    out.push(key(KeyStroke { alt, ..stroke }));
    Step::Stay(DecoderState::Ground)
}

fn step_escape(is_double: bool, byte: u8, out: &mut Vec<InputEvent>) -> Step {
    let open = |kind| DecoderState::Sequence { kind, bytes: Vec::new(), alt: is_double };
    match byte {
        b'[' => return Step::Stay(open(SequenceKind::Csi)),
        b'O' => return Step::Stay(open(SequenceKind::Ss3)),
        _ => {}
    }
    // Two ESC that do not open a sequence: the first was a key of its own.
    if is_double {
        out.push(key(KeyStroke::plain(KeyCode::Escape)));
    }
    match byte {
        ESC => Step::Stay(DecoderState::Escape { is_double: true }),
        // OSC, DCS, APC, PM, SOS.
        b']' | b'P' | b'_' | b'^' | b'X' => {
            let bytes = Vec::new();
            Step::Stay(DecoderState::TextAnswer { opener: byte, bytes, has_escape: false })
        }
        _ => step_ground(byte, true, out),
    }
}

fn step_utf8(mut bytes: Vec<u8>, alt: bool, byte: u8, out: &mut Vec<InputEvent>) -> Step {
    let had_bytes = !bytes.is_empty();
    bytes.push(byte);
    let event = match std::str::from_utf8(&bytes) {
        Ok(text) => match text.chars().next() {
            Some(letter) if !letter.is_control() => {
                key(KeyStroke { alt, ..KeyStroke::plain(KeyCode::Char(letter)) })
            }
            _ => InputEvent::Unknown,
        },
        Err(error) if error.error_len().is_none() => {
            return Step::Stay(DecoderState::Utf8 { bytes, alt });
        }
        Err(_) if had_bytes => {
            // The character was cut off before this byte.
            out.push(InputEvent::Unknown);
            return Step::Again;
        }
        Err(_) => InputEvent::Unknown,
    };
    out.push(event);
    Step::Stay(DecoderState::Ground)
}

/// A mouse report of an old kind, which a program before this one may have left switched on.
fn step_mouse(missing: u8, byte: u8, out: &mut Vec<InputEvent>) -> Step {
    if byte < 0x20 {
        out.push(InputEvent::Unknown);
        return Step::Again;
    }
    if missing > 1 {
        return Step::Stay(DecoderState::Mouse { missing: missing - 1 });
    }
    out.push(InputEvent::Unknown);
    Step::Stay(DecoderState::Ground)
}

fn step_text_answer(
    opener: u8,
    mut bytes: Vec<u8>,
    has_escape: bool,
    byte: u8,
    out: &mut Vec<InputEvent>,
) -> Step {
    let mut is_complete = true;
    match byte {
        b'\\' if has_escape => {}
        // It was cut off by another sequence.
        _ if has_escape => {
            out.push(InputEvent::Unknown);
            return step_escape(false, byte, out);
        }
        ESC => {
            let has_escape = true;
            return Step::Stay(DecoderState::TextAnswer { opener, bytes, has_escape });
        }
        BEL => {}
        CAN | SUB => is_complete = false,
        _ => {
            // One byte more than is read: a longer answer means nothing.
            if bytes.len() <= SEQUENCE_BYTES_MAX {
                bytes.push(byte);
            }
            return Step::Stay(DecoderState::TextAnswer { opener, bytes, has_escape: false });
        }
    }
    let is_read = is_complete && opener == b']' && bytes.len() <= SEQUENCE_BYTES_MAX;
    let event = Some(bytes).filter(|_| is_read).and_then(|bytes| interpret_osc(&bytes));
    out.push(event.unwrap_or(InputEvent::Unknown));
    Step::Stay(DecoderState::Ground)
}

fn step_paste(mut bytes: Vec<u8>, end_bytes: usize, byte: u8, out: &mut Vec<InputEvent>) -> Step {
    if PASTE_END.get(end_bytes) == Some(&byte) {
        let end_bytes = end_bytes + 1;
        if end_bytes < PASTE_END.len() {
            return Step::Stay(DecoderState::Paste { bytes, end_bytes });
        }
        out.push(InputEvent::Paste(pasted_text(&bytes)));
        return Step::Stay(DecoderState::Ground);
    }
    // The apparent end is text. ESC is only at its start, so it can start again only here.
    let looked_like_end = PASTE_END.get(..end_bytes).unwrap_or_default();
    let end_bytes = usize::from(byte == ESC);
    for &text in looked_like_end.iter().chain((byte != ESC).then_some(&byte)) {
        if bytes.len() < PASTE_BYTES_MAX {
            bytes.push(text);
        }
    }
    Step::Stay(DecoderState::Paste { bytes, end_bytes })
}

/// The text of a paste, with `\n` as line end. Terminals send `\r`, as for the Enter key.
fn pasted_text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).replace("\r\n", "\n").replace('\r', "\n")
}
