//! The HTTP client: what it never does, whatever a provider says.

use std::error::Error;
use std::sync::{Arc, OnceLock};

use crate::model::failure::shortened;
use crate::model::http::HttpLimits;
use crate::model::{ModelError, ModelErrorKind};

/// Lines of a head.
const HEADERS_MAX: usize = 100;
/// Connections to a host that are kept for the next request.
const IDLE_CONNECTIONS_MAX: usize = 4;
/// The HTTP client of several models, made when the first of them is asked.
#[derive(Clone, Default)]
pub(crate) struct SharedClient(Arc<OnceLock<Result<reqwest::Client, ModelError>>>);

impl SharedClient {
    pub(super) fn get(&self, limits: &HttpLimits) -> Result<reqwest::Client, ModelError> {
        self.0.get_or_init(|| client(limits)).clone()
    }
}

fn client(limits: &HttpLimits) -> Result<reqwest::Client, ModelError> {
    // The client brings no cryptography of its own. Whoever came first is fine.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder()
        .user_agent(concat!("zero/", env!("CARGO_PKG_VERSION")))
        .no_proxy()
        .referer(false)
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .http1_only()
        .http1_max_headers(HEADERS_MAX)
        .connect_timeout(limits.connect_time)
        .pool_max_idle_per_host(IDLE_CONNECTIONS_MAX)
        .build()
        .map_err(|error| {
            let message = format!("no HTTP client could be made: {}", innermost(&error));
            ModelError::new(ModelErrorKind::InvalidRequest, message)
        })
}

/// Why the HTTP client failed. Its own words name the address, and are not used.
pub(super) fn innermost(error: &reqwest::Error) -> String {
    const DEPTH_MAX: usize = 16;
    let chain = std::iter::successors(error.source(), |error| (*error).source());
    let why = chain.take(DEPTH_MAX).last().map(ToString::to_string);
    why.and_then(|why| shortened(&why)).unwrap_or_else(|| "no reason is known".to_owned())
}
