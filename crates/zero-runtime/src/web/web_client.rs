//! The HTTP client: every request passes a gate.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, LOCATION};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use tokio::time::timeout;
use url::Url;

use zero_core::ExtraRootCertificates;

use super::network_guard::{ConnectionGate, GateResolver, format_origin, is_same_origin};
use super::response_body::{self, BodyLimits};
use super::web_error::{RESPONSE_HEAD, WebError, from_reqwest_error};

/// Most header lines of a response.
const HEADERS_MAX: usize = 100;
/// Most idle connections that are kept for later requests.
const IDLE_CONNECTIONS_MAX: usize = 2;

/// An HTTP client that connects through a gate.
pub struct WebClient {
    client: reqwest::Client,
    gate: Arc<ConnectionGate>,
    connect_time: Duration,
}

/// One HTTP request of zero's own, before its host is judged.
#[derive(Clone)]
pub struct OutgoingRequest {
    /// The HTTP method, kept when a redirect is followed.
    pub method: Method,
    /// The URL.
    pub url: Url,
    /// Its headers, in addition to those that the client sets.
    pub headers: HeaderMap,
    /// The bytes to send; empty for a request without body.
    pub body: Bytes,
    /// How redirects are handled.
    pub redirects: RedirectPolicy,
    /// How long the head of the response may take.
    pub head_time: Duration,
}

/// How redirects are handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedirectPolicy {
    /// The same request is sent again within the same origin; a redirect elsewhere is an error.
    SameOrigin,
    /// The redirect is followed on the same host and without a downgrade to HTTP; a redirect to
    /// another host is returned like any other response. For requests without a body.
    SameHost,
    /// The redirect is returned like any other response.
    Return,
}

impl RedirectPolicy {
    /// Most redirects that are followed.
    pub fn max_redirects(self) -> usize {
        match self {
            Self::SameOrigin => 3,
            Self::SameHost => 10,
            Self::Return => 0,
        }
    }
}

/// A complete response.
#[derive(Clone, Debug)]
pub struct WebResponse {
    /// The final URL.
    pub url: Url,
    /// The HTTP status of the last response; not checked for success.
    pub status: StatusCode,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body, decompressed.
    pub body: Vec<u8>,
    /// The target of a redirect that was not followed.
    pub redirect: Option<Url>,
}

/// The common settings of all HTTP clients of zero: they trust these certificates too, and use no
/// proxy, redirect or retry that zero did not choose.
pub fn client_builder(
    extra_roots: &ExtraRootCertificates,
) -> Result<reqwest::ClientBuilder, reqwest::Error> {
    // The client has no crypto provider of its own. A provider that is already installed is fine.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let roots = extra_roots.iter().map(reqwest::Certificate::from_der);
    Ok(reqwest::Client::builder()
        .tls_certs_merge(roots.collect::<Result<Vec<_>, _>>()?)
        .user_agent(concat!("zero/", env!("CARGO_PKG_VERSION")))
        .no_proxy()
        .referer(false)
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .http1_only())
}

impl WebClient {
    /// A client for connections that pass this gate.
    pub fn new(gate: ConnectionGate, connect_time: Duration) -> Result<Self, WebError> {
        let gate = Arc::new(gate);
        let unmade = |error: reqwest::Error| WebError::Client { why: error.to_string() };
        let client = client_builder(gate.extra_roots())
            .map_err(unmade)?
            .http1_max_headers(HEADERS_MAX)
            .connect_timeout(connect_time)
            .pool_max_idle_per_host(IDLE_CONNECTIONS_MAX)
            .dns_resolver(GateResolver(gate.clone()))
            .build()
            .map_err(unmade)?;
        Ok(Self { client, gate, connect_time })
    }

    /// Sends a request and waits for the head of the response.
    pub async fn send(&self, outgoing: OutgoingRequest) -> Result<reqwest::Response, WebError> {
        let mut url = outgoing.url.clone();
        for _ in 0..=outgoing.redirects.max_redirects() {
            let response = self.send_once(&outgoing, url.clone()).await?;
            let Some(next) = redirect_target(&response) else { return Ok(response) };
            // Other status codes would turn the request into one without its body.
            let keeps_request = matches!(
                response.status(),
                StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT
            );
            url = match outgoing.redirects {
                RedirectPolicy::Return => return Ok(response),
                RedirectPolicy::SameHost if is_same_host(&url, &next) => next,
                RedirectPolicy::SameHost => return Ok(response),
                RedirectPolicy::SameOrigin if keeps_request && is_same_origin(&url, &next) => next,
                RedirectPolicy::SameOrigin => {
                    return Err(WebError::Redirect { to: format_origin(&next) });
                }
            };
        }
        Err(WebError::Unusable { why: "too many redirects".to_owned() })
    }

    /// Sends a request and reads the whole response.
    pub async fn fetch(
        &self,
        mut outgoing: OutgoingRequest,
        limits: BodyLimits,
    ) -> Result<WebResponse, WebError> {
        outgoing.headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
        let response = self.send(outgoing).await?;
        let (url, status) = (response.url().clone(), response.status());
        let (headers, redirect) = (response.headers().clone(), redirect_target(&response));
        let body = response_body::read_decoded(response, limits).await?;
        Ok(WebResponse { url, status, headers, body, redirect })
    }

    async fn send_once(
        &self,
        outgoing: &OutgoingRequest,
        url: Url,
    ) -> Result<reqwest::Response, WebError> {
        self.gate.check_url(&url)?;
        let origin = format_origin(&url);
        let mut request = reqwest::Request::new(outgoing.method.clone(), url);
        *request.headers_mut() = outgoing.headers.clone();
        if !outgoing.body.is_empty() {
            *request.body_mut() = Some(outgoing.body.clone().into());
        }
        match timeout(outgoing.head_time, self.client.execute(request)).await {
            Err(_) => Err(WebError::TimedOut { what: RESPONSE_HEAD, after: outgoing.head_time }),
            Ok(Err(error)) => Err(from_reqwest_error(&origin, &error, self.connect_time)),
            Ok(Ok(response)) => Ok(response),
        }
    }
}

/// The target of a redirect.
fn redirect_target(response: &reqwest::Response) -> Option<Url> {
    if !response.status().is_redirection() {
        return None;
    }
    let location = response.headers().get(LOCATION)?.to_str().ok()?;
    response.url().join(location).ok()
}

/// Whether a redirect stays on the same host and does not downgrade to HTTP.
fn is_same_host(from: &Url, to: &Url) -> bool {
    let is_default = |url: &Url| url.port().is_none();
    from.host() == to.host()
        && match (from.scheme(), to.scheme()) {
            ("http", "http") | ("https", "https") => {
                from.port_or_known_default() == to.port_or_known_default()
            }
            ("http", "https") => is_default(from) && is_default(to),
            _ => false,
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirect_stays_on_host_and_never_downgrades() {
        #[track_caller]
        fn check(from: &str, to: &str, expected: bool) {
            let (from, to) = (Url::parse(from).unwrap(), Url::parse(to).unwrap());
            assert_eq!(is_same_host(&from, &to), expected, "{from} {to}");
        }
        check("https://a.com/x", "https://a.com/y", true);
        check("https://a.com/x", "https://A.COM:443/y", true);
        check("http://a.com/", "https://a.com/", true);
        check("http://a.com:8080/", "http://a.com:8080/x", true);
        check("https://a.com/", "http://a.com/", false);
        check("https://a.com/", "https://www.a.com/", false);
        check("https://a.com/", "https://a.com:8443/", false);
        check("http://a.com:8080/", "https://a.com/", false);
        check("https://a.com/", "ftp://a.com/", false);
    }
}
