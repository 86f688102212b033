//! The Read tool: returns one page of a text file, or a whole image, audio or PDF file.

use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use zero_core::{
    Effect, Effects, ErrorReason, FileLocation, ResultDisplay, RiskLevel, TimeoutClass,
    ToolCategory, ToolError, ToolKind, ToolResultPart,
};
use zero_runtime::{CallContext, CallDescription, Tool, ToolBound, ToolInfo, ToolNotes, ToolReply};
use zero_sandbox::{FinalLinkMode, ResolvedPath, Workspace};

use crate::file_page::{number_page_lines, page_note, remaining_lines, to_model_content};
use crate::file_path::locate_file;
use crate::paging::{LINE_CHARS_MAX, LINES_DEFAULT, TextPageRequest};
use crate::path_not_found;
use crate::readable_file::{
    FileContentKind, MediaFormat, MediaKind, ReadableFile, binary_file_error,
};
use crate::text_encoding::TextEncoding;

/// Reads a file. Text comes with line numbers, up to 2,000 lines at a time; when a file is longer,
/// the result says with which `offset` to continue. Very long lines are cut. Images, audio and PDF
/// files are returned as such; any text encoding is supported. To read several files at once use
/// ReadMany, to list a folder use LS.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReadArgs {
    /// The file: a path relative to the workspace root, or an absolute one.
    file_path: String,
    /// Line to start from, counted from 1. The first line when absent.
    #[schemars(range(min = 1))]
    offset: Option<u64>,
    /// Most lines to read. 2,000 when absent.
    #[schemars(range(min = 1))]
    limit: Option<u64>,
}

/// The lines that were read.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ReadOutput {
    /// The lines, each with its number in six columns and a tab.
    pub content: String,
    /// Number of lines of the whole file.
    pub total_lines: u64,
    /// True if the content of a media file was left out because of its size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub truncated: Option<bool>,
}

/// A validated call: the file and the requested lines.
#[derive(Debug)]
pub struct ReadPlan {
    file: ResolvedPath,
    offset: Option<u64>,
    limit: Option<u64>,
}

impl ReadPlan {
    fn first_line(&self) -> u64 {
        self.offset.unwrap_or(1)
    }

    fn location(&self) -> FileLocation {
        FileLocation { path: self.file.path().to_owned(), line: self.offset }
    }

    /// Returns a text such as ` (lines 10-14)` if only some lines are requested.
    fn describe_range(&self) -> String {
        match (self.offset, self.limit) {
            (None, None) => String::new(),
            (_, None) => format!(" (from line {})", self.first_line()),
            (_, Some(1)) => format!(" (line {})", self.first_line()),
            (_, Some(limit)) => {
                let last = self.first_line().saturating_add(limit - 1);
                format!(" (lines {}-{last})", self.first_line())
            }
        }
    }
}

/// Reads one file.
pub struct ReadTool;

impl Tool for ReadTool {
    type Args = ReadArgs;
    type Output = ReadOutput;
    type Plan = ReadPlan;
    const NAME: &'static str = "Read";

    fn info(&self) -> ToolInfo {
        ToolInfo {
            display_name: "Read file",
            category: ToolCategory::File,
            kind: ToolKind::Read,
            risk: RiskLevel::Low,
            timeout_class: TimeoutClass::File,
            idempotent: true,
            fallback: None,
        }
    }

    fn notes(&self) -> ToolNotes {
        ToolNotes::new("reads one file").with_bounds([
            ToolBound::lines("a call, unless `limit` is set", LINES_DEFAULT as usize),
            ToolBound::characters("a shown line", LINE_CHARS_MAX),
        ])
    }

    fn plan(&self, args: ReadArgs, workspace: &Workspace) -> Result<ReadPlan, ToolError> {
        let file = locate_file(&args.file_path, workspace, FinalLinkMode::Follow)?;
        // The schema demands at least 1; a caller that bypasses it gets the first line.
        let at_least_one = |number: Option<u64>| number.map(|number| number.max(1));
        Ok(ReadPlan { file, offset: at_least_one(args.offset), limit: at_least_one(args.limit) })
    }

    fn describe(&self, plan: &ReadPlan) -> CallDescription {
        CallDescription {
            title: format!("Read `{}`{}", plan.file.display_path(), plan.describe_range()),
            locations: vec![plan.location()],
        }
    }

    fn effects(&self, plan: &ReadPlan) -> Effects {
        vec![Effect::Read(plan.file.target().clone())]
    }

    async fn run(
        &self,
        plan: Arc<ReadPlan>,
        cx: CallContext,
    ) -> Result<ToolReply<ReadOutput>, ToolError> {
        cx.run_blocking(move |cx| {
            let document = ReadableFile::new(
                path_not_found::open_file(&plan.file, cx)?,
                plan.file.display_path(),
            )?;
            match document.content_kind() {
                FileContentKind::Text(encoding) => read_text(document, encoding, &plan, cx),
                FileContentKind::Media(media) => read_media(document, media, &plan, cx),
                FileContentKind::Binary(mime) => {
                    Err(binary_file_error(plan.file.display_path(), mime))
                }
            }
        })
        .await
    }
}

fn read_text(
    document: ReadableFile,
    encoding: TextEncoding,
    plan: &ReadPlan,
    cx: &CallContext,
) -> Result<ToolReply<ReadOutput>, ToolError> {
    let first = plan.first_line();
    let request = TextPageRequest {
        first,
        lines_max: plan.limit.unwrap_or(LINES_DEFAULT),
        bytes_max: cx.limits().model_output_bytes_max.as_usize(),
    };
    let page = document.read_page(plan.file.path(), encoding, request, cx)?;
    if first > page.total_lines.max(1) {
        return Err(past_end_error(plan, page.total_lines));
    }
    // A caller that sets a limit knows that there may be more lines.
    let is_cut = page.is_full || plan.limit.is_none();
    let rest = remaining_lines(&page, first).filter(|_| is_cut);
    let note = page_note(&page, encoding);
    let shown = plan.file.display_path();
    let summary = match page.lines {
        0 => format!("`{shown}` is empty"),
        1 if page.total_lines == 1 => format!("Read the one line of `{shown}`"),
        lines if lines == page.total_lines => format!("Read all {lines} lines of `{shown}`"),
        lines => {
            format!("Read lines {first}-{} of {} of `{shown}`", first + lines - 1, page.total_lines)
        }
    };
    Ok(ToolReply {
        output: ReadOutput {
            content: number_page_lines(&page, first),
            total_lines: page.total_lines,
            truncated: None,
        },
        content: vec![to_model_content(page, first, rest, note)],
        display: ResultDisplay::markdown(summary),
        locations: vec![plan.location()],
    })
}

fn past_end_error(plan: &ReadPlan, total_lines: u64) -> ToolError {
    let shown = plan.file.display_path();
    let lines = match total_lines {
        0 => "is empty".to_owned(),
        1 => "has 1 line".to_owned(),
        lines => format!("has {lines} lines"),
    };
    let message = format!("`{shown}` {lines}; line {} is past its end", plan.first_line());
    ToolError::invalid(ErrorReason::OutOfRange, message)
        .with_detail("file", shown)
        .with_detail("total_lines", total_lines)
}

fn read_media(
    document: ReadableFile,
    media: MediaFormat,
    plan: &ReadPlan,
    cx: &CallContext,
) -> Result<ToolReply<ReadOutput>, ToolError> {
    let encoded = document.encode(plan.file.path(), cx)?;
    let mime = media.mime.to_owned();
    let label = format!("[{mime}, {} bytes]", encoded.bytes);
    let truncated = encoded.data.is_err().then_some(true);
    let content = match (media.kind, encoded.data) {
        (_, Err(most)) => ToolResultPart::Text(format!(
            "{label}\n({} is left out: more than the {most} that fit in a result; make it smaller first)",
            plan.file.display_path()
        )),
        (MediaKind::Image, Ok(data)) => ToolResultPart::Image { mime, data },
        (MediaKind::Audio, Ok(data)) => ToolResultPart::Audio { mime, data },
        (MediaKind::Document, Ok(data)) => {
            ToolResultPart::Resource { uri: file_uri(plan.file.path()), mime, data }
        }
    };
    Ok(ToolReply {
        content: vec![content],
        display: ResultDisplay::markdown(format!("Read `{}` {label}", plan.file.display_path())),
        output: ReadOutput { content: label, total_lines: 0, truncated },
        locations: vec![plan.location()],
    })
}

fn file_uri(path: &Path) -> String {
    let mut uri = String::from("file://");
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'/' | b'-' | b'_' | b'.' | b'~' => uri.push(char::from(*byte)),
            byte if byte.is_ascii_alphanumeric() => uri.push(char::from(*byte)),
            // Writing to a `String` cannot fail.
            byte => _ = write!(uri, "%{byte:02X}"),
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_host::TestHost;
    use serde_json::{Value, json};
    use std::os::unix::net::UnixListener;
    use std::time::{Duration, Instant, SystemTime};
    use zero_core::ErrorType;
    use zero_runtime::seen_files::FileFreshness;

    /// Checks what the model gets for a file with these bytes.
    #[track_caller]
    fn check(bytes: &[u8], mut input: Value, expected: &str) {
        let host = TestHost::new();
        host.write_file("f", bytes);
        input["file_path"] = json!("f");
        assert_eq!(host.text("Read", input), expected, "{bytes:?}");
    }

    #[track_caller]
    fn check_error(host: &TestHost, input: Value, reason: ErrorReason, message: &str) {
        let error = host.err("Read", input);
        assert_eq!((error.reason(), &*error.message), (Some(reason), message));
    }

    #[test]
    fn structured_output_has_numbered_lines_and_total() {
        let host = TestHost::new().with_files(&[("a.go", "func main() {\n\t// Hello\n}\n")]);
        let result = host.ok("Read", json!({"file_path": "a.go"}));
        assert_eq!(
            result.structured,
            json!({"content": "     1\tfunc main() {\n     2\t\t// Hello\n     3\t}", "total_lines": 3})
        );
        let result = host.ok("Read", json!({"file_path": "a.go", "offset": 2, "limit": 1}));
        assert_eq!(result.structured, json!({"content": "     2\t\t// Hello", "total_lines": 3}));
        assert_eq!(result.locations[0].line, Some(2));
        let absolute = host.path("a.go").canonicalize().unwrap();
        assert_eq!(result.locations[0].path, absolute);
        let same = host.ok("Read", json!({"file_path": absolute, "offset": 2, "limit": 1}));
        assert_eq!(same.structured, result.structured);
    }

    #[test]
    fn page_names_the_next_offset() {
        let long: String = (1..=2_500).map(|n| format!("{n}\n")).collect();
        let host = TestHost::new().with_files(&[("f", &long)]);
        let text = host.text("Read", json!({"file_path": "f"}));
        assert!(text.ends_with("\n2000 (lines 1-2000 of 2500)"));
        let text = host.text("Read", json!({"file_path": "f", "offset": 2_001}));
        assert!(text.starts_with("2001: 2001\n") && text.ends_with("\n2500"), "{text}");
        assert_eq!(host.text("Read", json!({"file_path": "f", "limit": 2})), "1: 1\n2");
    }

    #[test]
    fn page_fits_model_output_limit() {
        let host = TestHost::new().with_model_output_max(100);
        host.write_file("f", "0123456789\n".repeat(20).as_bytes());
        let text = host.text("Read", json!({"file_path": "f", "limit": 10}));
        assert!(text.ends_with("(lines 1-5 of 20)"), "{text}");
    }

    #[test]
    fn unusual_encoding_is_noted() {
        check(b"", json!({}), "(the file is empty)");
        check(b"\n", json!({}), "1: ");
        check(b"a\r\nb\r\n", json!({}), "1: a\nb");
        check(
            b"\xEF\xBB\xBFmarked",
            json!({}),
            "1: marked (encoding: UTF-8 with a byte order mark)",
        );
        check(
            b"\xFF\xFEa\0\n\0b\0",
            json!({}),
            "1: a\nb (encoding: UTF-16LE with a byte order mark)",
        );
        check(b"\xFE\xFF\0a", json!({}), "1: a (encoding: UTF-16BE with a byte order mark)");
        check(b"h\0e\0l\0l\0o\0\n\0", json!({}), "1: hello (encoding: UTF-16LE)");
        check(b"\0h\0e\0l\0l\0o\0\n", json!({}), "1: hello (encoding: UTF-16BE)");
        check(
            b"caf\xE9 cr\xE8me\nbr\xFBl\xE9e\n",
            json!({"offset": 2}),
            "2: brûlée (encoding: windows-1252)",
        );
        check(
            "ééééééééé"
                .as_bytes()
                .iter()
                .chain(b"\n\xFF\xFF")
                .copied()
                .collect::<Vec<_>>()
                .as_slice(),
            json!({}),
            "1: ééééééééé\n\u{fffd}\u{fffd} (2 bytes that are not UTF-8 shown as \u{fffd})",
        );
        check(
            b"<svg xmlns=\"http://www.w3.org/2000/svg\"/>",
            json!({}),
            "1: <svg xmlns=\"http://www.w3.org/2000/svg\"/>",
        );
        check(b"BM is how a bitmap begins", json!({}), "1: BM is how a bitmap begins");
        check(b"const MAGIC: &str = \"%PDF-\";", json!({}), "1: const MAGIC: &str = \"%PDF-\";");
    }

    #[test]
    fn offset_past_end_reports_line_count() {
        let host = TestHost::new().with_files(&[("f", "a\nb\n"), ("one", "a"), ("empty", "")]);
        let at = |file: &str, offset: u64| json!({"file_path": file, "offset": offset});
        let out = ErrorReason::OutOfRange;
        check_error(&host, at("f", 3), out, "`f` has 2 lines; line 3 is past its end");
        check_error(&host, at("one", 9), out, "`one` has 1 line; line 9 is past its end");
        check_error(&host, at("empty", 2), out, "`empty` is empty; line 2 is past its end");
        assert_eq!(host.text("Read", at("empty", 1)), "(the file is empty)");
        assert_eq!(host.text("Read", at("f", 2)), "2: b");
    }

    #[test]
    fn media_files_return_their_media_type() {
        #[track_caller]
        fn check(name: &str, bytes: &[u8], mime: &str) {
            let host = TestHost::new();
            host.write_file(name, bytes);
            let result = host.ok("Read", json!({"file_path": name}));
            let found = match &result.content[0] {
                ToolResultPart::Image { mime, .. } => format!("image {mime}"),
                ToolResultPart::Audio { mime, .. } => format!("audio {mime}"),
                ToolResultPart::Resource { mime, uri, .. } => {
                    format!("{} {mime}", uri.rsplit('/').next().unwrap())
                }
                other => panic!("{other:?}"),
            };
            assert_eq!(found, mime);
            let label = format!("[{}, {} bytes]", mime.split(' ').nth(1).unwrap(), bytes.len());
            assert_eq!(result.structured, json!({"content": label, "total_lines": 0}));
        }
        check("a.txt", b"\x89PNG\r\n\x1A\n tiny", "image image/png");
        check("a", b"\xFF\xD8\xFF\xE0\0\x10JFIF\0", "image image/jpeg");
        check("a", b"GIF89a\x01\0\x01\0\0\0\0;", "image image/gif");
        check("a", b"RIFF\x10\0\0\0WEBPVP8 \0\0\0\0", "image image/webp");
        check("a", b"BM\x1A\0\0\0\0\0\0\0\x1A\0\0\0", "image image/bmp");
        check("a b.dat", b"%PDF-1.7\n%\xE2\xE3\xCF\xD3\n", "a%20b.dat application/pdf");
        check("a", b"ID3\x04\0\0\0\0\0\0\0\0", "audio audio/mpeg");
        check("a", b"RIFF\x24\0\0\0WAVEfmt \x10\0\0\0", "audio audio/wav");
        check("a", b"OggS\0\x02\0\0\0\0\0\0\0\0\0\0", "audio audio/ogg");
        check("a", b"fLaC\0\0\0\x22\0\0\0\0", "audio audio/flac");
    }

    #[test]
    fn oversized_media_is_replaced_by_note() {
        let host = TestHost::new().with_result_max(10_000);
        let png = |size: usize| [b"\x89PNG\r\n\x1A\n".to_vec(), vec![0; size - 8]].concat();
        host.write_file("fits.png", &png(4_428));
        host.ok("Read", json!({"file_path": "fits.png"}));
        host.write_file("large.png", &png(4_500));
        let result = host.ok("Read", json!({"file_path": "large.png"}));
        let note = "[image/png, 4500 bytes]\n(large.png is left out: more than the 4.4 KB that fit in a result; make it smaller first)";
        assert_eq!(result.content, [ToolResultPart::Text(note.into())]);
        assert_eq!(
            result.structured,
            json!({"content": "[image/png, 4500 bytes]", "total_lines": 0, "truncated": true})
        );
    }

    #[test]
    fn other_binaries_are_refused_by_content() {
        let host = TestHost::new();
        host.write_file("a.txt", b"PK\x03\x04\x14\0\0\0\x08\0");
        host.write_file("b.txt", b"a\0\x01\x02");
        check_error(
            &host,
            json!({"file_path": "a.txt"}),
            ErrorReason::Binary,
            "`a.txt` is binary (application/zip), not text; examine it with a command such as `file`, `strings` or `xxd`",
        );
        check_error(
            &host,
            json!({"file_path": "b.txt"}),
            ErrorReason::Binary,
            "`b.txt` is a binary file, not text; examine it with a command such as `file`, `strings` or `xxd`",
        );
    }

    #[test]
    fn non_file_is_refused_at_once() {
        let host = TestHost::new().with_files(&[("dir/a", "")]);
        #[expect(clippy::disallowed_methods, reason = "no other way to create a pipe")]
        let made = std::process::Command::new("mkfifo").arg(host.path("pipe")).status().unwrap();
        assert!(made.success());
        let _socket = UnixListener::bind(host.path("socket")).unwrap();
        let started = Instant::now();
        for (path, reason) in [
            ("pipe", ErrorReason::SpecialFile),
            ("socket", ErrorReason::SpecialFile),
            // Outside the workspace nothing is disclosed before the user was asked.
            ("/proc/self/environ", ErrorReason::NoApprover),
            ("/proc/self/fd/0", ErrorReason::NoApprover),
            ("dir", ErrorReason::IsDirectory),
            (".", ErrorReason::IsDirectory),
            ("dir/", ErrorReason::IsDirectory),
            ("dir/a/", ErrorReason::IsDirectory),
            ("dir/a/.", ErrorReason::IsDirectory),
            ("none/", ErrorReason::IsDirectory),
        ] {
            let error = host.err("Read", json!({"file_path": path}));
            assert_eq!(error.reason(), Some(reason), "{path}: {error}");
        }
        assert!(started.elapsed() < Duration::from_secs(60));
    }

    #[tokio::test]
    async fn cancelled_call_reads_nothing() {
        let host = TestHost::new().with_files(&[("a", "1")]);
        let stop = tokio_util::sync::CancellationToken::new();
        stop.cancel();
        let report = host.call_until("Read", json!({"file_path": "a"}), &stop).await;
        assert_eq!(report.outcome.unwrap_err().reason(), Some(ErrorReason::Cancelled));
    }

    #[test]
    fn missing_file_suggests_nearest_names() {
        let host = TestHost::new().with_files(&[("src/main.rs", "")]);
        let error = host.err("Read", json!({"file_path": "src/mian.rs"}));
        assert_eq!(error.error_type, ErrorType::NotFound);
        assert_eq!(error.details["nearest"], json!(["src/main.rs"]));
    }

    #[test]
    fn title_names_the_lines() {
        #[track_caller]
        fn check(args: Value, expected: &str) {
            let host = TestHost::new();
            let args: ReadArgs = serde_json::from_value(args).unwrap();
            let plan = ReadTool.plan(args, host.workspace()).unwrap();
            assert_eq!(ReadTool.describe(&plan).title, expected);
        }
        check(json!({"file_path": "src/a.rs"}), "Read `src/a.rs`");
        check(json!({"file_path": "a", "offset": 10, "limit": 5}), "Read `a` (lines 10-14)");
        check(json!({"file_path": "a", "limit": 5}), "Read `a` (lines 1-5)");
        check(json!({"file_path": "a", "offset": 10}), "Read `a` (from line 10)");
        check(json!({"file_path": "a", "offset": 3, "limit": 1}), "Read `a` (line 3)");
    }

    #[test]
    fn session_records_what_was_read() {
        let host = TestHost::with_session().with_files(&[("whole", "a\nb\n"), ("part", "a\nb\n")]);
        host.ok("Read", json!({"file_path": "whole"}));
        host.ok("Read", json!({"file_path": "part", "limit": 1}));
        let freshness = |name: &str| {
            let located = host.workspace().resolve(name, FinalLinkMode::Follow).unwrap();
            let now = host.snapshot(&located);
            host.session().seen_files().unwrap().freshness(located.path(), &now)
        };
        assert_eq!(
            (freshness("whole"), freshness("part")),
            (FileFreshness::Fresh, FileFreshness::Fresh)
        );
        // The same bytes written again: known to be equal only if all of them were seen.
        for name in ["whole", "part"] {
            host.write_file(name, b"a\nb\n");
            let file = std::fs::File::options().write(true).open(host.path(name)).unwrap();
            file.set_modified(SystemTime::now() + Duration::from_secs(60)).unwrap();
        }
        assert_eq!(
            (freshness("whole"), freshness("part")),
            (FileFreshness::Fresh, FileFreshness::Stale)
        );
        assert_eq!(TestHost::new().session().seen_files().map(|_| ()), None);
    }

    #[test]
    fn page_deep_in_huge_file_is_read() {
        let host = TestHost::new();
        let block: String = (0..5_000).map(|n| format!("{:>99}\n", n)).collect();
        host.write_file("huge", block.repeat(100).as_bytes());
        let started = Instant::now();
        let result = host.ok("Read", json!({"file_path": "huge", "offset": 250_001, "limit": 2}));
        assert_eq!(result.structured["total_lines"], 500_000);
        let content = result.structured["content"].as_str().unwrap();
        assert!(content.starts_with("250001\t") && content.ends_with("    1"), "{content}");
        assert!(started.elapsed() < Duration::from_secs(60), "{:?}", started.elapsed());
    }

    #[test]
    fn endless_line_is_truncated() {
        let host = TestHost::new();
        host.write_file("endless", &vec![b'x'; 20_000_000]);
        let text = host.text("Read", json!({"file_path": "endless"}));
        assert!(text.ends_with("xx… (19998000 more characters)"), "{}", text.len());
        assert!(text.len() < 3_000);
    }
}
