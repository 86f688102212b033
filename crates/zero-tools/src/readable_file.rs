//! Opens a file and determines its content ([`ReadableFile`]): text, media that models accept, or
//! other binary data.
//!
//! The content decides, never the name. A file is opened once: detection, reading and the facts
//! that the session records all use the same handle.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use zero_core::{ByteSize, ErrorReason, ToolError};
use zero_runtime::CallContext;
use zero_sandbox::{FileFacts, FileType, file_error};

use crate::paging::{TextPage, TextPageError, TextPageRequest, read_page};
use crate::text_encoding::{SAMPLE_BYTES_MAX, TextEncoding};

/// Files up to this size are read completely, so that a session can record exactly what was seen.
const WHOLE_BYTES_MAX: u64 = 8_000_000;
/// Bytes reserved in a result for what surrounds a media file.
const RESULT_OVERHEAD_BYTES: u64 = 4_096;
/// Signatures that text cannot start with. Other signatures (`BM`, `GIF`, `ID3`) are words that a
/// text may start with, and are used only for content that is not text.
const UNAMBIGUOUS_SIGNATURES: &[(&[u8], MediaFormat)] = &[
    (b"\x89PNG\r\n\x1A\n", MediaFormat::new(MediaKind::Image, "image/png")),
    (b"\xFF\xD8\xFF", MediaFormat::new(MediaKind::Image, "image/jpeg")),
    (b"%PDF-", MediaFormat::new(MediaKind::Document, "application/pdf")),
];

/// An open file with its beginning.
pub(crate) struct ReadableFile {
    shown: String,
    file: File,
    facts: FileFacts,
    /// The beginning, or all bytes if `is_whole`.
    head: Vec<u8>,
    is_whole: bool,
}

/// The content of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileContentKind {
    /// Text in this encoding.
    Text(TextEncoding),
    /// Media that models accept.
    Media(MediaFormat),
    /// Anything else, with its media type if known.
    Binary(Option<&'static str>),
}

/// A media format that models accept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MediaFormat {
    pub(crate) kind: MediaKind,
    pub(crate) mime: &'static str,
}

/// How media is passed to a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MediaKind {
    Image,
    Audio,
    Document,
}

impl MediaFormat {
    const fn new(kind: MediaKind, mime: &'static str) -> Self {
        Self { kind, mime }
    }

    /// Returns the format for a media type, or `None` if models do not accept it.
    fn from_mime(mime: &str) -> Option<Self> {
        Some(match mime {
            "image/png" => Self::new(MediaKind::Image, "image/png"),
            "image/jpeg" => Self::new(MediaKind::Image, "image/jpeg"),
            "image/gif" => Self::new(MediaKind::Image, "image/gif"),
            "image/webp" => Self::new(MediaKind::Image, "image/webp"),
            "image/bmp" => Self::new(MediaKind::Image, "image/bmp"),
            "audio/mpeg" => Self::new(MediaKind::Audio, "audio/mpeg"),
            "audio/x-wav" => Self::new(MediaKind::Audio, "audio/wav"),
            "audio/ogg" | "audio/opus" => Self::new(MediaKind::Audio, "audio/ogg"),
            "audio/x-flac" => Self::new(MediaKind::Audio, "audio/flac"),
            "application/pdf" => Self::new(MediaKind::Document, "application/pdf"),
            _ => return None,
        })
    }
}

/// Returns the media type of an image that models accept, by its first bytes.
pub fn image_media_type(bytes: &[u8]) -> Option<&'static str> {
    let sample = bytes.get(..bytes.len().min(SAMPLE_BYTES_MAX)).unwrap_or_default();
    let media = infer::get(sample).and_then(|found| MediaFormat::from_mime(found.mime_type()))?;
    (media.kind == MediaKind::Image).then_some(media.mime)
}

/// Largest media content that fits in a result as base64, in bytes.
pub(crate) fn media_bytes_max(cx: &CallContext) -> u64 {
    cx.limits().result_bytes_max.get().saturating_sub(RESULT_OVERHEAD_BYTES) / 4 * 3
}

/// A media file, encoded for the wire.
pub(crate) struct EncodedMedia {
    /// The content in base64, or the largest size that fits in a result.
    pub(crate) data: Result<String, ByteSize>,
    /// Size of the file, in bytes.
    pub(crate) bytes: u64,
}

impl ReadableFile {
    /// Takes an open file and reads its beginning.
    pub(crate) fn new(mut file: File, shown: &str) -> Result<Self, ToolError> {
        let fail = |error| file_error::from_io("read", shown, &error);
        // Recorded before reading, so that a change during the read makes the recorded state stale.
        let facts = FileFacts::from_file(&file).map_err(fail)?;
        if facts.file_type != FileType::File {
            let message = format!("`{shown}` is not an ordinary file");
            return Err(
                ToolError::invalid(ErrorReason::SpecialFile, message).with_detail("file", shown)
            );
        }
        let head_max =
            if facts.size <= WHOLE_BYTES_MAX { WHOLE_BYTES_MAX } else { SAMPLE_BYTES_MAX as u64 };
        let expected = usize::try_from(facts.size.min(head_max)).unwrap_or(0);
        let mut head = Vec::with_capacity(expected.saturating_add(1));
        let length = file.by_ref().take(head_max).read_to_end(&mut head).map_err(fail)?;
        let is_whole = (length as u64) < head_max;
        Ok(Self { shown: shown.to_owned(), file, facts, head, is_whole })
    }

    pub(crate) fn content_kind(&self) -> FileContentKind {
        let certain = UNAMBIGUOUS_SIGNATURES.iter().find(|(sign, _)| self.head.starts_with(sign));
        if let Some((_, media)) = certain {
            return FileContentKind::Media(*media);
        }
        let sample = &self.head[..self.head.len().min(SAMPLE_BYTES_MAX)];
        if let Some(encoding) =
            TextEncoding::detect(sample, self.is_whole && sample.len() == self.head.len())
        {
            return FileContentKind::Text(encoding);
        }
        let mime = infer::get(sample).map(|found| found.mime_type());
        mime.and_then(MediaFormat::from_mime)
            .map_or(FileContentKind::Binary(mime), FileContentKind::Media)
    }

    /// Returns one page of text, from the user's editor if it has the file open. The session
    /// records that `path` was read.
    pub(crate) fn read_page(
        mut self,
        path: &Path,
        encoding: TextEncoding,
        request: TextPageRequest,
        cx: &CallContext,
    ) -> Result<TextPage, ToolError> {
        let unsaved = self.is_whole.then(|| cx.unsaved_bytes(path, &self.head)).flatten();
        let is_unsaved = unsaved.is_some();
        self.head = unsaved.unwrap_or(self.head);
        let body = self.head.strip_prefix(encoding.byte_order_mark()).unwrap_or(&self.head);
        let source = body.chain(&self.file);
        let mut page = read_page(source, encoding, request, || cx.is_cancelled()).map_err(
            |error| match error {
                TextPageError::Stopped => ToolError::cancelled(),
                TextPageError::Read(error) => file_error::from_io("read", &self.shown, &error),
            },
        )?;
        page.is_unsaved = is_unsaved;
        let saw_all = page.lines == page.total_lines && page.cut_lines == 0;
        // An editor's text can change without the file, so only the bytes identify it.
        let is_known = self.is_whole && (saw_all || cx.has_editor());
        match cx.seen_files() {
            Some(seen) if is_unsaved => seen.record_unsaved(path, self.facts, &self.head),
            _ => self.record_read(path, is_known.then_some(&self.head), cx),
        }
        Ok(page)
    }

    /// Returns the whole file, encoded. The session records that `path` was read.
    pub(crate) fn encode(
        mut self,
        path: &Path,
        cx: &CallContext,
    ) -> Result<EncodedMedia, ToolError> {
        let bytes_max = media_bytes_max(cx);
        if self.facts.size <= bytes_max && !self.is_whole {
            let rest = bytes_max.saturating_sub(self.head.len() as u64) + 1;
            (&self.file)
                .take(rest)
                .read_to_end(&mut self.head)
                .map_err(|error| file_error::from_io("read", &self.shown, &error))?;
        }
        let bytes = self.facts.size.max(self.head.len() as u64);
        if bytes > bytes_max {
            return Ok(EncodedMedia { data: Err(ByteSize::bytes(bytes_max)), bytes });
        }
        self.record_read(path, Some(&self.head), cx);
        Ok(EncodedMedia { data: Ok(BASE64.encode(&self.head)), bytes })
    }

    fn record_read(&self, path: &Path, bytes: Option<&Vec<u8>>, cx: &CallContext) {
        if let Some(seen) = cx.seen_files() {
            seen.record(path, self.facts, bytes.map(Vec::as_slice));
        }
    }
}

/// Returns the error for a file that is neither text nor media.
pub(crate) fn binary_file_error(shown: &str, mime: Option<&str>) -> ToolError {
    let what = mime.map_or_else(|| "a binary file".to_owned(), |mime| format!("binary ({mime})"));
    let message = format!(
        "`{shown}` is {what}, not text; examine it with a command such as `file`, `strings` or `xxd`"
    );
    let error = ToolError::invalid(ErrorReason::Binary, message).with_detail("file", shown);
    match mime {
        Some(mime) => error.with_detail("mime", mime),
        None => error,
    }
}
