//! Where telemetry goes: one address, checked before anything is sent there.

use std::error::Error;
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use reqwest::Client;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use url::{Host, Url};
use zero_core::ExtraRootCertificates;
use zero_settings::gateway::TelemetrySettings;

use crate::exit::UsageError;

/// How long one request may take.
const POST_TIMEOUT: Duration = Duration::from_secs(4);
/// Time between two complaints.
const WARNING_INTERVAL: Duration = Duration::from_secs(60);
/// Most headers that can be set.
const HEADERS_MAX: usize = 32;

/// A collector that takes OTLP over HTTP. It has no credentials to show when it is printed.
pub(crate) struct OtlpCollector {
    client: Client,
    base: Url,
    headers: HeaderMap,
    complained: Mutex<Option<Instant>>,
}

impl OtlpCollector {
    /// The collector of a setting, if telemetry may be sent there.
    pub(crate) fn new(
        setting: &TelemetrySettings,
        roots: &ExtraRootCertificates,
    ) -> Result<Self, UsageError> {
        let (base, headers) = validate_setting(setting)
            .map_err(|why| UsageError(format!("`gateway.telemetry` cannot be used: {why}")))?;
        // The client brings no cryptography of its own. Whoever came first is fine.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let unmade =
            |error: reqwest::Error| UsageError(format!("no HTTP client could be made: {error}"));
        let roots = roots.iter().map(reqwest::Certificate::from_der);
        let roots = roots.collect::<Result<Vec<_>, _>>().map_err(unmade)?;
        let client = Client::builder()
            .tls_certs_merge(roots)
            .user_agent(concat!("zero/", env!("CARGO_PKG_VERSION")))
            .no_proxy()
            .referer(false)
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .http1_only()
            .timeout(POST_TIMEOUT)
            .pool_max_idle_per_host(1)
            .build()
            .map_err(unmade)?;
        Ok(Self { client, base, headers, complained: Mutex::default() })
    }

    /// Sends a body of protocol buffers. What cannot be sent is dropped, and said now and then.
    pub(super) async fn post(&self, path: &str, body: Vec<u8>) {
        let mut url = self.base.clone();
        let base = url.path().trim_end_matches('/').to_owned();
        url.set_path(&format!("{base}/{path}"));
        let request = self
            .client
            .post(url)
            .headers(self.headers.clone())
            .header(CONTENT_TYPE, "application/x-protobuf")
            .body(body);
        // Nobody needs what it says beyond that.
        match request.send().await {
            Ok(answer) if answer.status().is_success() => {}
            Ok(answer) => {
                self.warn_unreachable(&format!("it answered {}", answer.status().as_u16()))
            }
            Err(error) if error.is_timeout() => self.warn_unreachable("it took too long"),
            Err(error) => self.warn_unreachable(&innermost_message(&error)),
        }
    }

    fn warn_unreachable(&self, why: &str) {
        if !self.is_warning_due(Instant::now()) {
            return;
        }
        let collector = self.base.origin().ascii_serialization();
        tracing::warn!(%collector, why, "telemetry could not be sent and was dropped");
    }
}

impl OtlpCollector {
    /// Whether the last complaint is long ago; the next one counts from `now`.
    fn is_warning_due(&self, now: Instant) -> bool {
        let mut complained = self.complained.lock().unwrap_or_else(PoisonError::into_inner);
        let may = complained
            .is_none_or(|before| now.saturating_duration_since(before) >= WARNING_INTERVAL);
        if may {
            *complained = Some(now);
        }
        may
    }
}

impl fmt::Debug for OtlpCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Collector").finish_non_exhaustive()
    }
}

/// Why the HTTP client failed. Its own words name the address, and are not used.
fn innermost_message(error: &reqwest::Error) -> String {
    const DEPTH_MAX: usize = 16;
    let chain = std::iter::successors(error.source(), |error| (*error).source());
    let why = chain.take(DEPTH_MAX).last().map(ToString::to_string);
    why.unwrap_or_else(|| "no reason is known".to_owned())
}

/// The address and the headers of a setting, or why they are not to be used. Values are never told.
pub(crate) fn validate_setting(setting: &TelemetrySettings) -> Result<(Url, HeaderMap), String> {
    let like = "write one like `https://collector.example:4318`";
    let url = Url::parse(&setting.endpoint).map_err(|_| format!("it has no address; {like}"))?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err(format!("its address is not one of the web; {like}"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("its address holds a name or password; put that into `headers`".to_owned());
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(format!("its address has something behind the path; {like}"));
    }
    if setting.headers.len() > HEADERS_MAX {
        return Err(format!("it has more than {HEADERS_MAX} headers"));
    }
    if url.scheme() == "http" && !setting.headers.is_empty() && !is_loopback(&url) {
        return Err(
            "its headers would go to another machine in clear; use `https`, or leave them out"
                .to_owned(),
        );
    }
    let mut headers = HeaderMap::new();
    for (name, value) in &setting.headers {
        let shown = name.escape_debug();
        let name: HeaderName =
            name.parse().map_err(|_| format!("`{shown}` is no name of a header"))?;
        let value = HeaderValue::from_str(value);
        let mut value = value.map_err(|_| format!("the value of header `{shown}` is none"))?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Ok((url, headers))
}

/// Whether it is on this machine.
fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => Ipv4Addr::is_loopback(&address),
        Some(Host::Ipv6(address)) => Ipv6Addr::to_canonical(&address).is_loopback(),
        Some(Host::Domain(name)) => name.trim_end_matches('.') == "localhost",
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_endpoint(endpoint: &str, header: Option<(&str, &str)>, expected: &str) {
        let header = header.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let setting = TelemetrySettings {
            endpoint: endpoint.to_owned(),
            headers: header.into_iter().collect(),
        };
        let checked = validate_setting(&setting).map(|(url, _)| url.to_string());
        let said = checked.unwrap_or_else(|why| why);
        assert!(said.starts_with(expected), "{endpoint}: {said}");
        assert!(!said.contains("s3cret"), "{said}");
    }

    #[test]
    fn endpoint_setting_is_validated() {
        let key = Some(("x-key", "s3cret"));
        check_endpoint("http://127.0.0.1:4318", None, "http://127.0.0.1:4318/");
        check_endpoint("http://127.0.0.1:4318/otlp/", key, "http://127.0.0.1:4318/otlp/");
        check_endpoint("http://localhost:4318", key, "http://localhost:4318/");
        check_endpoint("http://[::1]:4318", key, "http://[::1]:4318/");
        check_endpoint("https://c.example", key, "https://c.example/");
        check_endpoint("http://c.example:4318", None, "http://c.example:4318/");
        check_endpoint("http://c.example:4318", key, "its headers would go to another machine");
        check_endpoint("http://10.0.0.1:4318", key, "its headers would go to another machine");
        check_endpoint("http://localhost.example", key, "its headers would go to another");
        check_endpoint("https://me:s3cret@c.example", None, "its address holds a name or password");
        check_endpoint("https://c.example/?key=s3cret", None, "its address has something behind");
        check_endpoint("grpc://c.example", None, "its address is not one of the web");
        check_endpoint("c.example", None, "it has no address");
        check_endpoint("https://c.example", Some(("a b", "s3cret")), "`a b` is no name");
        check_endpoint("https://c.example", Some(("a", "s3cret\n")), "the value of header `a`");
    }

    #[test]
    fn unreachable_collector_warns_once_a_minute() {
        let endpoint = "http://127.0.0.1:4318".to_owned();
        let setting = TelemetrySettings { endpoint, headers: Default::default() };
        let collector = OtlpCollector::new(&setting, &ExtraRootCertificates::default()).unwrap();
        let began = Instant::now();
        let may = [0, 1, 59, 60, 61, 119, 120]
            .map(|second| collector.is_warning_due(began + Duration::from_secs(second)));
        assert_eq!(may, [true, false, false, true, false, false, true]);
    }

    #[test]
    fn collector_debug_hides_headers() {
        let headers = [("x-key".to_owned(), "s3cret".to_owned())].into();
        let endpoint = "https://c.example".to_owned();
        let collector = OtlpCollector::new(
            &TelemetrySettings { endpoint, headers },
            &ExtraRootCertificates::default(),
        )
        .unwrap();
        assert_eq!(format!("{collector:?}"), "Collector { .. }");
    }
}
