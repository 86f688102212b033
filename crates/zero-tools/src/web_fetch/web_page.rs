//! Converts an HTTP response to readable text ([`WebPage`]).

use std::io;
use std::panic::AssertUnwindSafe;

use http::HeaderValue;
use http::header::CONTENT_TYPE;
use url::Url;
use zero_core::text_shortening::head;
use zero_core::{ErrorReason, ToolError};
use zero_runtime::web::WebResponse;

use super::{TEXT_BYTES_MAX, charset, html, pdf};
use crate::readable_file;
use crate::text_encoding::TextEncoding;
use crate::untrusted_text;

/// Note for a page that was not read completely.
const TRUNCATED_NOTE: &str = "the page is very long; its end was left out";
/// Largest JSON that is reformatted, in bytes.
const JSON_BYTES_MAX: usize = 1024 * 1024;
/// Bytes that are used to detect the format of a response without content type.
const SNIFFED_BYTES: usize = 1024;

/// A page as readable text.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct WebPage {
    /// Final URL, after redirects.
    pub(super) url: String,
    /// Title, if it has one.
    pub(super) title: Option<String>,
    /// Media type, such as `text/html`.
    pub(super) content_type: String,
    /// The text: Markdown if the page was HTML.
    pub(super) text: String,
    /// A note about the page.
    pub(super) note: Option<String>,
}

impl WebPage {
    /// Sets an unprocessed text, cut to the size limit and without invisible and control
    /// characters.
    fn with_text(self, text: &str) -> Self {
        let kept = head(text, TEXT_BYTES_MAX);
        let note = (kept.len() < text.len()).then(|| TRUNCATED_NOTE.to_owned());
        Self { text: untrusted_text::strip_hidden(kept), note, ..self }
    }
}

/// The format of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PageFormat {
    Html,
    Json,
    Pdf,
    Text,
    Binary,
}

/// The media type of a response that is an image which models accept: by its bytes, unless the server
/// says that it is something else.
pub(super) fn image_type(fetched: &WebResponse) -> Option<&'static str> {
    let declared = fetched.headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    let declared = String::from_utf8_lossy(declared).trim().to_ascii_lowercase();
    let can_be_image = ["image/", "application/octet-stream", "binary/octet-stream"];
    let is_declared = declared.is_empty() || can_be_image.iter().any(|it| declared.starts_with(it));
    is_declared.then(|| readable_file::image_media_type(&fetched.body)).flatten()
}

/// Reads a response. A panic of a parser becomes an error.
pub(super) fn read_response(fetched: &WebResponse) -> Result<WebPage, ToolError> {
    let read = std::panic::catch_unwind(AssertUnwindSafe(|| read_by_format(fetched)));
    read.unwrap_or_else(|_| {
        tracing::error!("reading a page panicked");
        Err(unreadable_error("parsing it failed; fetch another page"))
    })
}

fn read_by_format(fetched: &WebResponse) -> Result<WebPage, ToolError> {
    let content_type = fetched.headers.get(CONTENT_TYPE);
    let content_type = content_type.map(|value| String::from_utf8_lossy(value.as_bytes()));
    let content_type = content_type.unwrap_or_default();
    let (essence, parameters) = content_type.split_once(';').unwrap_or((&content_type, ""));
    let essence = essence.trim().to_ascii_lowercase();
    let kind = detect_format(&essence, &fetched.url, &fetched.body);
    let page = WebPage {
        url: fetched.url.to_string(),
        content_type: display_type(&essence, kind),
        ..WebPage::default()
    };
    let text = || charset::decode(&fetched.body, charset_parameter(parameters));
    match kind {
        PageFormat::Html => {
            let article = html::read_article(&text(), &fetched.url);
            let note = article.cut.then(|| TRUNCATED_NOTE.to_owned());
            Ok(WebPage { title: article.title, text: article.markdown, note, ..page })
        }
        PageFormat::Json => Ok(page.with_text(&pretty_print_json(text().into_owned()))),
        PageFormat::Text => Ok(page.with_text(&text())),
        PageFormat::Pdf => {
            let pdf = pdf::read_text(&fetched.body)
                .map_err(|error| unreadable_error(&format!("it is a PDF, and {error}")))?;
            let pages = crate::text_format::pluralize(pdf.pages as u64, "page", "pages");
            let page = page.with_text(&pdf.text);
            let is_cut = pdf.cut || page.note.is_some();
            let cut = if is_cut { "; some of its text was left out" } else { "" };
            Ok(WebPage { note: Some(format!("a PDF of {pages}{cut}")), ..page })
        }
        PageFormat::Binary => Err(unreadable_error(&format!(
            "it is `{}`, not text; fetch HTML, text, JSON or PDF",
            page.content_type
        ))),
    }
}

fn unreadable_error(why: &str) -> ToolError {
    ToolError::failed(ErrorReason::Binary, format!("the page cannot be read: {why}"))
}

/// Detects the format by the content type, or without one by the beginning of the body.
fn detect_format(essence: &str, url: &Url, body: &[u8]) -> PageFormat {
    if body.starts_with(b"%PDF-") {
        return PageFormat::Pdf;
    }
    match essence {
        "text/html" | "application/xhtml+xml" => PageFormat::Html,
        "application/pdf" | "application/x-pdf" => PageFormat::Pdf,
        "application/json" | "text/json" => PageFormat::Json,
        _ if essence.ends_with("+json") => PageFormat::Json,
        "application/xml"
        | "application/javascript"
        | "application/x-javascript"
        | "application/yaml"
        | "application/x-yaml"
        | "application/toml"
        | "application/x-sh"
        | "application/x-ndjson"
        | "application/sql"
        | "application/graphql" => PageFormat::Text,
        _ if essence.starts_with("text/") || essence.ends_with("+xml") => PageFormat::Text,
        "" | "application/octet-stream" | "binary/octet-stream" => sniff_format(url, body),
        _ => PageFormat::Binary,
    }
}

fn sniff_format(url: &Url, body: &[u8]) -> PageFormat {
    let start = body.get(..body.len().min(SNIFFED_BYTES)).unwrap_or_default();
    let start = start.trim_ascii_start().to_ascii_lowercase();
    let begins = |with: &[u8]| start.starts_with(with);
    if begins(b"<!doctype html") || begins(b"<html") {
        return PageFormat::Html;
    }
    match TextEncoding::detect_in_file(body) {
        None if !body.is_empty() => PageFormat::Binary,
        _ if url.path().ends_with(".json") => PageFormat::Json,
        _ => PageFormat::Text,
    }
}

fn display_type(essence: &str, kind: PageFormat) -> String {
    match (essence, kind) {
        (_, PageFormat::Pdf) => "application/pdf".to_owned(),
        ("", PageFormat::Html) => "text/html".to_owned(),
        ("", _) => "an unknown type".to_owned(),
        (essence, _) => zero_core::sanitize::to_line(essence),
    }
}

/// Returns the `charset` parameter of a content type.
fn charset_parameter(parameters: &str) -> Option<&str> {
    let mut parameters = parameters.split(';').filter_map(|parameter| parameter.split_once('='));
    let found = parameters.find(|(name, _)| name.trim().eq_ignore_ascii_case("charset"));
    found.map(|(_, value)| value.trim().trim_matches(['"', '\'']))
}

/// Reformats JSON with one value per line. Invalid JSON, and JSON that would get too long, stays
/// unchanged.
fn pretty_print_json(text: String) -> String {
    if text.len() > JSON_BYTES_MAX || text.lines().nth(1).is_some() {
        return text;
    }
    let Ok(value) = serde_json::from_str::<serde_json::Value>(&text) else { return text };
    // Deeply nested values grow by their indentation.
    let mut pretty = BoundedBuffer(Vec::new());
    match serde_json::to_writer_pretty(&mut pretty, &value) {
        Ok(()) => String::from_utf8(pretty.0).unwrap_or(text),
        Err(_) => text,
    }
}

/// A buffer limited to the most text that is read from a page.
struct BoundedBuffer(Vec<u8>);

impl io::Write for BoundedBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > TEXT_BYTES_MAX {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.0.extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{HeaderMap, StatusCode};

    fn response(content_type: &'static str, body: &[u8]) -> WebResponse {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        let url = Url::parse("https://a.test/x").unwrap();
        WebResponse { url, status: StatusCode::OK, headers, body: body.to_vec(), redirect: None }
    }

    #[track_caller]
    fn check(content_type: &'static str, body: &[u8], expected: Result<&str, &str>) {
        let read = read_response(&response(content_type, body)).map(|page| page.text);
        match (read, expected) {
            (Ok(text), Ok(expected)) => assert_eq!(text, expected, "{content_type}"),
            (Err(error), Err(why)) => assert!(error.message.contains(why), "{error}"),
            (read, _) => panic!("{content_type}: {read:?}"),
        }
    }

    #[test]
    fn each_format_is_read_by_its_type() {
        check("text/html; charset=utf-8", b"<h1>A</h1>b", Ok("# A\n\nb"));
        check("text/html;Charset=\"iso-8859-1\"", b"\xe9", Ok("é"));
        check("", b"  <!DOCTYPE HTML><p>x", Ok("x"));
        check("application/octet-stream", b"plain\n", Ok("plain\n"));
        check("application/json", b"{\"a\":[1]}", Ok("{\n  \"a\": [\n    1\n  ]\n}"));
        check("application/problem+json", b"no json", Ok("no json"));
        check("text/plain", b"a\r\nb", Ok("a\nb"));
        check("image/svg+xml", b"<svg/>", Ok("<svg/>"));
        check("image/png", b"\x89PNG", Err("`image/png`, not text"));
        check("", b"\x7fELF\0\0\0", Err("not text"));
        check("application/pdf", b"%PDF-1.4 nothing", Err("a PDF, and it has no pages"));
        check("text/html", b"%PDF-1.4 nothing", Err("a PDF, and it has no pages"));
    }

    #[test]
    fn image_needs_its_signature_and_no_other_type() {
        let png = b"\x89PNG\r\n\x1A\n tiny";
        for (content_type, body, expected) in [
            ("image/png", &png[..], Some("image/png")),
            ("image/jpeg", png, Some("image/png")),
            ("", png, Some("image/png")),
            ("application/octet-stream", png, Some("image/png")),
            ("text/html", png, None),
            ("image/png", b"<svg/>", None),
            ("image/svg+xml", b"<svg/>", None),
            ("image/png", b"", None),
        ] {
            assert_eq!(image_type(&response(content_type, body)), expected, "{content_type}");
        }
    }

    #[test]
    fn every_format_yields_plain_text() {
        let words = "a\u{1b}[2J\u{202e}b\u{200b}\u{e0041}c\td\u{7}\r\n";
        for content_type in
            ["text/markdown", "text/plain", "application/json", "application/xml", "text/html"]
        {
            let page = read_response(&response(content_type, words.as_bytes())).unwrap();
            let expected = if content_type == "text/html" { "a[2Jbc d" } else { "a[2Jbc\td\n" };
            assert_eq!(page.text, expected, "{content_type}");
        }
    }

    #[test]
    fn every_format_is_bounded() {
        let long = "word ".repeat(1 << 20);
        let deep = format!("{}{}{}", "[".repeat(100), "0,".repeat(400_000), "0");
        let deep = format!("{deep}{}", "]".repeat(100));
        for (content_type, body) in [
            ("text/plain", long.as_str()),
            ("text/markdown", &long),
            ("application/json", &format!("[\"{long}\"]")),
            ("application/json", &deep),
            ("application/xml", &long),
            ("text/html", &long),
        ] {
            let page = read_response(&response(content_type, body.as_bytes())).unwrap();
            let length = page.text.len();
            assert!(length <= TEXT_BYTES_MAX + 100, "{content_type}: {length}");
            assert_eq!(page.note.is_some(), body.len() > TEXT_BYTES_MAX, "{content_type}");
        }
    }
}
