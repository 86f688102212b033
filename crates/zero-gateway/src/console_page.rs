//! The files of the web console, which are part of this program.
//!
//! The page may load nothing from elsewhere, run no inline script and be shown in no frame. The names
//! of its script and style contain their hash, so that a browser keeps them until they change.

use std::io::Write as _;
use std::sync::LazyLock;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG,
    HeaderName, IF_NONE_MATCH, REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use http_body_util::Full;
use sha2::{Digest as _, Sha256};
use zero_core::hexadecimal::to_hex;

use crate::http_endpoint::{HttpReply, with_header};

/// Nothing but the console's own files; images may also be data of the ledger. Text becomes script
/// nowhere: the one trusted type is the address of the service worker.
const CONTENT_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
    img-src 'self' data:; connect-src 'self'; manifest-src 'self'; worker-src 'self'; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
    require-trusted-types-for 'script'; trusted-types zero-worker";

/// The other headers of every reply.
const PROTECTIVE_HEADERS: [(HeaderName, &str); 7] = [
    (CONTENT_SECURITY_POLICY, CONTENT_POLICY),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (X_FRAME_OPTIONS, "DENY"),
    (REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (
        HeaderName::from_static("permissions-policy"),
        "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    ),
];

/// Characters of a hash in a name.
const HASH_CHARS: usize = 16;
/// Browsers keep what has its hash in its name.
const KEEP: &str = "public, max-age=31536000, immutable";
/// Browsers ask whether the rest has changed.
const ASK: &str = "no-cache";

const SCRIPT: &[u8] = include_bytes!("../console/app.js");
const STYLE: &[u8] = include_bytes!("../console/app.css");
const PAGE: &str = include_str!("../console/index.html");
const WORKER: &str = include_str!("../console/worker.js");
const MANIFEST: &[u8] = include_bytes!("../console/manifest.webmanifest");
const ICON: &[u8] = include_bytes!("../console/icon.svg");
const TOUCH_ICON: &[u8] = include_bytes!("../console/icon.png");

/// A file of the console.
struct ConsoleFile {
    path: String,
    kind: &'static str,
    cache: &'static str,
    tag: String,
    plain: Bytes,
    packed: Bytes,
}

static FILES: LazyLock<Vec<ConsoleFile>> = LazyLock::new(|| {
    let script = ConsoleFile::hashed("app", "js", "text/javascript; charset=utf-8", SCRIPT);
    let style = ConsoleFile::hashed("app", "css", "text/css; charset=utf-8", STYLE);
    let named = |text: &str| {
        let text = text.replace("/app.js", &script.path).replace("/app.css", &style.path);
        text.replace("{{version}}", &format!("{}{}", script.tag, style.tag).replace('"', ""))
    };
    let (page, worker) = (named(PAGE), named(WORKER));
    vec![
        ConsoleFile::new("/", "text/html; charset=utf-8", ASK, page.as_bytes()),
        ConsoleFile::new("/worker.js", "text/javascript; charset=utf-8", ASK, worker.as_bytes()),
        ConsoleFile::new("/manifest.webmanifest", "application/manifest+json", ASK, MANIFEST),
        ConsoleFile::new("/icon.svg", "image/svg+xml", ASK, ICON),
        ConsoleFile::new("/icon.png", "image/png", ASK, TOUCH_ICON),
        script,
        style,
    ]
});

impl ConsoleFile {
    fn new(
        path: impl Into<String>,
        kind: &'static str,
        cache: &'static str,
        content: &[u8],
    ) -> Self {
        let tag = format!("\"{}\"", content_hash(content));
        let (plain, packed) = (Bytes::copy_from_slice(content), pack(content));
        Self { path: path.into(), kind, cache, tag, plain, packed }
    }

    fn hashed(name: &str, suffix: &str, kind: &'static str, content: &[u8]) -> Self {
        let path = format!("/{name}-{}.{suffix}", content_hash(content));
        Self::new(path, kind, KEEP, content)
    }

    fn reply(&self, headers: &HeaderMap) -> HttpReply {
        let is_known = headers.get(IF_NONE_MATCH).is_some_and(|tag| tag == self.tag.as_str());
        let takes_packed = headers
            .get(ACCEPT_ENCODING)
            .and_then(|value| value.to_str().ok())
            .is_some_and(|value| value.split(',').any(|one| one.trim() == "gzip"));
        let is_packed = takes_packed && self.packed.len() < self.plain.len();
        let body = match (is_known, is_packed) {
            (true, _) => Bytes::new(),
            (false, true) => self.packed.clone(),
            (false, false) => self.plain.clone(),
        };
        let mut reply = Response::new(Full::new(body));
        let fixed = |text: &'static str| HeaderValue::from_static(text);
        reply = with_header(reply, CONTENT_TYPE, fixed(self.kind));
        reply = with_header(reply, CACHE_CONTROL, fixed(self.cache));
        reply = with_header(reply, VARY, fixed("accept-encoding"));
        if let Ok(tag) = HeaderValue::try_from(&self.tag) {
            reply = with_header(reply, ETAG, tag);
        }
        for (name, value) in PROTECTIVE_HEADERS {
            reply = with_header(reply, name, fixed(value));
        }
        if is_known {
            *reply.status_mut() = StatusCode::NOT_MODIFIED;
        } else if is_packed {
            reply = with_header(reply, CONTENT_ENCODING, fixed("gzip"));
        }
        reply
    }
}

/// The reply with the console's file at a path, if there is one.
pub(crate) fn find_reply(path: &str, headers: &HeaderMap) -> Option<HttpReply> {
    let file = FILES.iter().find(|file| file.path == path)?;
    Some(file.reply(headers))
}

fn content_hash(content: &[u8]) -> String {
    to_hex(&Sha256::digest(content)).chars().take(HASH_CHARS).collect()
}

/// Compresses a file; nothing, if that fails.
fn pack(content: &[u8]) -> Bytes {
    let mut packer = GzEncoder::new(Vec::new(), Compression::best());
    let packed = packer.write_all(content).and_then(|()| packer.finish());
    packed.map_or_else(|_| Bytes::copy_from_slice(content), Bytes::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All files together, as they are sent.
    const PACKED_BYTES_MAX: usize = 100 * 1024;

    fn reply(path: &str, headers: &[(HeaderName, &str)]) -> Option<HttpReply> {
        let headers = headers.iter().map(|(name, value)| (name.clone(), value.parse().unwrap()));
        find_reply(path, &HeaderMap::from_iter(headers))
    }

    fn header<'a>(reply: &'a HttpReply, name: &HeaderName) -> &'a str {
        reply.headers().get(name).map_or("", |value| value.to_str().unwrap())
    }

    #[test]
    fn files_together_are_small() {
        let sent: usize = FILES.iter().map(|file| file.packed.len().min(file.plain.len())).sum();
        assert!(sent <= PACKED_BYTES_MAX, "{sent} bytes");
    }

    #[test]
    fn page_names_script_and_style_by_hash() {
        let page = FILES.first().unwrap();
        let text = std::str::from_utf8(&page.plain).unwrap();
        for file in FILES.iter().filter(|file| file.cache == KEEP) {
            assert!(text.contains(&format!("\"{}\"", file.path)), "{}: {text}", file.path);
            let reply = reply(&file.path, &[]).unwrap();
            assert_eq!(header(&reply, &CACHE_CONTROL), KEEP);
        }
        assert!(!text.contains("{{") && !text.contains("<style") && !text.contains("style="));
        assert!(reply("/app.js", &[]).is_none() && reply("/../app.js", &[]).is_none());
    }

    #[test]
    fn every_reply_is_protected() {
        for file in FILES.iter() {
            for known in ["\"other\"", &file.tag] {
                let reply = reply(&file.path, &[(IF_NONE_MATCH, known)]).unwrap();
                for (name, value) in PROTECTIVE_HEADERS {
                    assert_eq!(header(&reply, &name), value, "{}", file.path);
                }
                let status = if known == file.tag { 304 } else { 200 };
                assert_eq!(reply.status(), status, "{}", file.path);
            }
        }
        assert!(!CONTENT_POLICY.contains("unsafe"), "{CONTENT_POLICY}");
    }

    #[test]
    fn file_is_packed_for_clients_that_unpack() {
        let encoding = |accepts: &str| {
            let reply = reply("/", &[(ACCEPT_ENCODING, accepts)]).unwrap();
            header(&reply, &CONTENT_ENCODING).to_owned()
        };
        assert_eq!(encoding("gzip, deflate, br"), "gzip");
        assert_eq!(encoding("identity"), "");
    }
}
