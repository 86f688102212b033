//! The one HTTP client of a server: everything that is sent for it passes its gate.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::LOCATION;
use http::{HeaderMap, Method, StatusCode};
use tokio::time::timeout;
use url::Url;

use super::HttpLimits;
use super::failure::{HttpError, of_reqwest};
use super::guard::{Gate, GateResolver, is_same_origin, shown_origin};

/// Redirects that are followed, one after the other.
const REDIRECTS_MAX: usize = 3;
/// Lines of a head.
const HEADERS_MAX: usize = 100;
/// Connections that are kept for the next request.
const IDLE_CONNECTIONS_MAX: usize = 2;

/// An HTTP client that goes through a gate.
pub(crate) struct GuardedClient {
    client: reqwest::Client,
    gate: Arc<Gate>,
    limits: HttpLimits,
}

/// A request that is to be sent.
#[derive(Clone)]
pub(crate) struct Outgoing {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) redirects: Redirects,
    /// How long the head of the answer may take.
    pub(crate) head_time: Duration,
}

/// What becomes of an answer that sends elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Redirects {
    /// The request is sent again, as it is and within the same origin.
    SameOrigin,
    /// The answer is given back as any other.
    Return,
}

impl GuardedClient {
    /// A client for what passes this gate.
    pub(crate) fn new(gate: Gate, limits: HttpLimits) -> Result<Self, HttpError> {
        // The SDK's dependencies bring no cryptography of their own. Whoever came first is fine.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let gate = Arc::new(gate);
        let client = reqwest::Client::builder()
            .user_agent(concat!("zero/", env!("CARGO_PKG_VERSION")))
            .no_proxy()
            .referer(false)
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .http1_only()
            .http1_max_headers(HEADERS_MAX)
            .connect_timeout(limits.connect_time)
            .pool_max_idle_per_host(IDLE_CONNECTIONS_MAX)
            .dns_resolver(GateResolver(gate.clone()))
            .build()
            .map_err(|error| {
                HttpError::Settings(format!("no HTTP client could be made: {error}"))
            })?;
        Ok(Self { client, gate, limits })
    }

    /// Sends a request, and waits for the head of the answer.
    pub(crate) async fn send(&self, outgoing: Outgoing) -> Result<reqwest::Response, HttpError> {
        let mut url = outgoing.url.clone();
        for _ in 0..=REDIRECTS_MAX {
            let response = self.send_once(&outgoing, url.clone()).await?;
            let status = response.status();
            if !status.is_redirection() || outgoing.redirects == Redirects::Return {
                return Ok(response);
            }
            let location = response.headers().get(LOCATION).and_then(|to| to.to_str().ok());
            let Some(next) = location.and_then(|to| url.join(to).ok()) else { return Ok(response) };
            // The others would turn a request into one without its message.
            let keeps_request =
                matches!(status, StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT);
            if !keeps_request || !is_same_origin(&url, &next) {
                return Err(HttpError::Redirect { to: shown_origin(&next) });
            }
            url = next;
        }
        Err(HttpError::Unusable { why: "it redirects in a circle".to_owned() })
    }

    async fn send_once(
        &self,
        outgoing: &Outgoing,
        url: Url,
    ) -> Result<reqwest::Response, HttpError> {
        self.gate.admit(&url)?;
        let origin = shown_origin(&url);
        let mut request = reqwest::Request::new(outgoing.method.clone(), url);
        *request.headers_mut() = outgoing.headers.clone();
        if !outgoing.body.is_empty() {
            *request.body_mut() = Some(outgoing.body.clone().into());
        }
        match timeout(outgoing.head_time, self.client.execute(request)).await {
            Err(_) => Err(HttpError::TimedOut { what: "an answer", after: outgoing.head_time }),
            Ok(Err(error)) => Err(of_reqwest(&origin, &error, self.limits.connect_time)),
            Ok(Ok(response)) => Ok(response),
        }
    }
}
