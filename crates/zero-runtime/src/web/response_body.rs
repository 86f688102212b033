//! Reads response bodies up to a limit.

use std::io::{self, Write};
use std::time::Duration;

use flate2::write::MultiGzDecoder;
use futures_util::StreamExt;
use http::header::CONTENT_ENCODING;
use tokio::time::{Instant, timeout_at};

use super::network_guard::format_origin;
use super::web_error::{WebError, from_reqwest_error, shorten_untrusted};

/// Limits for reading a body.
#[derive(Clone, Copy, Debug)]
pub struct BodyLimits {
    /// Most bytes.
    pub bytes_max: usize,
    /// Longest time without a byte.
    pub idle: Duration,
    /// Longest total time.
    pub whole: Duration,
}

impl BodyLimits {
    fn too_large_error(&self) -> WebError {
        WebError::TooLarge { what: "the server's answer", bytes_max: self.bytes_max }
    }
}

/// Reads a body to its end. Does not trust the declared length.
pub async fn read(response: reqwest::Response, limits: BodyLimits) -> Result<Vec<u8>, WebError> {
    match read_start(response, limits).await? {
        (body, BodyRemainder::Ended) => Ok(body),
        (_, BodyRemainder::More) => Err(limits.too_large_error()),
    }
}

/// Whether a body continues after the part that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyRemainder {
    /// It ended.
    Ended,
    /// It continues, and the rest was not read.
    More,
}

/// Reads a body up to the limit.
pub async fn read_start(
    response: reqwest::Response,
    limits: BodyLimits,
) -> Result<(Vec<u8>, BodyRemainder), WebError> {
    let mut body = Vec::new();
    let rest = for_each_chunk(response, limits, |chunk| {
        let room = limits.bytes_max.saturating_sub(body.len());
        body.extend_from_slice(chunk.get(..room.min(chunk.len())).unwrap_or_default());
        Ok(if chunk.len() > room { BodyRemainder::More } else { BodyRemainder::Ended })
    })
    .await?;
    Ok((body, rest))
}

/// Reads a body to its end and decompresses it. The limit applies to the decompressed size: a few
/// bytes can expand to more than all memory.
pub(super) async fn read_decoded(
    response: reqwest::Response,
    limits: BodyLimits,
) -> Result<Vec<u8>, WebError> {
    let mut packings = response.headers().get_all(CONTENT_ENCODING).iter();
    let packing = packings.next().map(|packing| packing.as_bytes().to_ascii_lowercase());
    match (packing.as_deref().map(<[u8]>::trim_ascii), packings.next()) {
        (None | Some(b"" | b"identity"), None) => read(response, limits).await,
        (Some(b"gzip" | b"x-gzip"), None) => read_gunzipped(response, limits).await,
        (packing, _) => {
            let packing = packing.and_then(shorten_untrusted).unwrap_or_default();
            let why = format!("it is encoded as `{packing}`, which was not requested");
            Err(WebError::Unusable { why })
        }
    }
}

async fn read_gunzipped(
    response: reqwest::Response,
    limits: BodyLimits,
) -> Result<Vec<u8>, WebError> {
    let broken = || WebError::Unusable { why: "it is not valid gzip".to_owned() };
    let bounded = BoundedBody { body: Vec::new(), bytes_max: limits.bytes_max };
    let mut decoder = MultiGzDecoder::new(bounded);
    let mut packed_bytes = 0_usize;
    let rest = for_each_chunk(response, limits, |chunk| {
        packed_bytes = packed_bytes.saturating_add(chunk.len());
        match decoder.write_all(chunk) {
            _ if packed_bytes > limits.bytes_max => Ok(BodyRemainder::More),
            Ok(()) => Ok(BodyRemainder::Ended),
            Err(error) if error.kind() == io::ErrorKind::StorageFull => Ok(BodyRemainder::More),
            Err(_) => Err(broken()),
        }
    })
    .await?;
    if rest == BodyRemainder::More {
        return Err(limits.too_large_error());
    }
    match decoder.finish() {
        Ok(bounded) => Ok(bounded.body),
        Err(error) if error.kind() == io::ErrorKind::StorageFull => Err(limits.too_large_error()),
        Err(_) => Err(broken()),
    }
}

/// Collects bytes up to a limit.
struct BoundedBody {
    body: Vec<u8>,
    bytes_max: usize,
}

impl Write for BoundedBody {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() > self.bytes_max.saturating_sub(self.body.len()) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.body.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Passes each chunk of a body to `take` as it arrives, until `take` stops or the body ends.
async fn for_each_chunk(
    response: reqwest::Response,
    limits: BodyLimits,
    mut take: impl FnMut(&[u8]) -> Result<BodyRemainder, WebError>,
) -> Result<BodyRemainder, WebError> {
    let origin = format_origin(response.url());
    let end = Instant::now() + limits.whole;
    let mut stream = response.bytes_stream();
    loop {
        let deadline = end.min(Instant::now() + limits.idle);
        let chunk = match timeout_at(deadline, stream.next()).await {
            Ok(None) => return Ok(BodyRemainder::Ended),
            Ok(Some(Ok(chunk))) => chunk,
            Ok(Some(Err(error))) => return Err(from_reqwest_error(&origin, &error, limits.idle)),
            Err(_) if deadline == end => {
                let what = "the whole of the server's answer";
                return Err(WebError::TimedOut { what, after: limits.whole });
            }
            Err(_) => {
                let what = "the rest of the server's answer";
                return Err(WebError::TimedOut { what, after: limits.idle });
            }
        };
        if take(&chunk)? == BodyRemainder::More {
            return Ok(BodyRemainder::More);
        }
    }
}
