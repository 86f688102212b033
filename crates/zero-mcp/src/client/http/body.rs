//! Bodies of answers, read only as far as they may be long.

use std::time::Duration;

use futures_util::StreamExt;
use tokio::time::{Instant, timeout_at};

use super::failure::{HttpError, of_reqwest};
use super::guard::shown_origin;

/// How much of a body is read, and for how long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BodyLimits {
    /// Most bytes.
    pub(crate) bytes_max: usize,
    /// How long it may be without a byte.
    pub(crate) idle: Duration,
    /// How long all of it may take.
    pub(crate) whole: Duration,
}

/// Reads a body to its end. What the head says of its length is not believed.
pub(crate) async fn read(
    response: reqwest::Response,
    limits: BodyLimits,
) -> Result<Vec<u8>, HttpError> {
    match read_start(response, limits).await? {
        (body, Rest::Ended) => Ok(body),
        (_, Rest::More) => {
            Err(HttpError::TooLarge { what: "the server's answer", bytes_max: limits.bytes_max })
        }
    }
}

/// Whether a body goes on after what was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    /// It does not.
    Ended,
    /// It does, and was left.
    More,
}

/// Reads as much of a body as is allowed.
pub(crate) async fn read_start(
    response: reqwest::Response,
    limits: BodyLimits,
) -> Result<(Vec<u8>, Rest), HttpError> {
    let origin = shown_origin(response.url());
    let end = Instant::now() + limits.whole;
    let mut stream = response.bytes_stream();
    let mut body = Vec::new();
    loop {
        let patience = end.min(Instant::now() + limits.idle);
        let chunk = match timeout_at(patience, stream.next()).await {
            Ok(None) => return Ok((body, Rest::Ended)),
            Ok(Some(Ok(chunk))) => chunk,
            Ok(Some(Err(error))) => return Err(of_reqwest(&origin, &error, limits.idle)),
            Err(_) if patience == end => {
                return Err(HttpError::TimedOut {
                    what: "the whole of the server's answer",
                    after: limits.whole,
                });
            }
            Err(_) => {
                let what = "the rest of the server's answer";
                return Err(HttpError::TimedOut { what, after: limits.idle });
            }
        };
        let room = limits.bytes_max - body.len();
        body.extend_from_slice(chunk.get(..room.min(chunk.len())).unwrap_or_default());
        if chunk.len() > room {
            return Ok((body, Rest::More));
        }
    }
}
