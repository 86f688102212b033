//! OTLP collector: validates its URL and headers, and posts data to it.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use reqwest::Client;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use url::Url;
use zero_core::ExtraRootCertificates;
use zero_core::error_chain::root_cause;
use zero_core::loopback_host::is_loopback_host;
use zero_runtime::web::client_builder;
use zero_settings::gateway::TelemetrySettings;

use crate::exit::UsageError;

/// Time limit of one request.
const POST_TIMEOUT: Duration = Duration::from_secs(4);
/// Time between two warnings about failed requests.
const WARNING_INTERVAL: Duration = Duration::from_secs(60);
/// Largest number of headers.
const HEADERS_MAX: usize = 32;

/// A collector that accepts OTLP over HTTP. Its `Debug` output has no credentials.
pub(crate) struct OtlpCollector {
    client: Client,
    base: Url,
    headers: HeaderMap,
    complained: Mutex<Option<Instant>>,
}

impl OtlpCollector {
    /// Collector from settings; fails if its URL or headers are invalid.
    pub(crate) fn new(
        setting: &TelemetrySettings,
        roots: &ExtraRootCertificates,
    ) -> Result<Self, UsageError> {
        let (base, headers) = validate_setting(setting)
            .map_err(|why| UsageError(format!("invalid `gateway.telemetry`: {why}")))?;
        let unmade =
            |error: reqwest::Error| UsageError(format!("could not create an HTTP client: {error}"));
        let client = client_builder(roots)
            .map_err(unmade)?
            .timeout(POST_TIMEOUT)
            .pool_max_idle_per_host(1)
            .build()
            .map_err(unmade)?;
        Ok(Self { client, base, headers, complained: Mutex::default() })
    }

    /// Posts a protobuf body. On failure the data is dropped and a rate-limited warning is logged.
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
        // Only the status of the answer matters.
        match request.send().await {
            Ok(answer) if answer.status().is_success() => {}
            Ok(answer) => {
                self.warn_unreachable(&format!("HTTP status {}", answer.status().as_u16()))
            }
            Err(error) if error.is_timeout() => self.warn_unreachable("request timed out"),
            Err(error) => self.warn_unreachable(&innermost_message(&error)),
        }
    }

    fn warn_unreachable(&self, why: &str) {
        if !self.is_warning_due(Instant::now()) {
            return;
        }
        let collector = self.base.origin().ascii_serialization();
        tracing::warn!(%collector, why, "could not send telemetry; dropped it");
    }
}

impl OtlpCollector {
    /// Whether a warning is due; if so, the interval restarts at `now`.
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

/// Innermost error message. The outer ones contain the URL and are not used.
fn innermost_message(error: &reqwest::Error) -> String {
    root_cause(error).unwrap_or_else(|| "unknown reason".to_owned())
}

/// The reason why the setting cannot be used.
pub(crate) fn check_setting(setting: &TelemetrySettings) -> Result<(), String> {
    validate_setting(setting).map(drop)
}

/// URL and headers of a setting, or the reason why they are invalid. Messages contain no values.
fn validate_setting(setting: &TelemetrySettings) -> Result<(Url, HeaderMap), String> {
    let like = "use one such as `https://collector.example:4318`";
    let url = Url::parse(&setting.endpoint).map_err(|_| format!("its URL is invalid; {like}"))?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err(format!("its URL is not http or https; {like}"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("its URL contains credentials; put them into `headers`".to_owned());
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(format!("its URL has a query or fragment; {like}"));
    }
    if setting.headers.len() > HEADERS_MAX {
        return Err(format!("it has more than {HEADERS_MAX} headers"));
    }
    if url.scheme() == "http"
        && !setting.headers.is_empty()
        && !url.host_str().is_some_and(is_loopback_host)
    {
        return Err(
            "its headers would be sent to another machine without TLS; use `https`, or remove them"
                .to_owned(),
        );
    }
    let mut headers = HeaderMap::new();
    for (name, value) in &setting.headers {
        let shown = name.escape_debug();
        let name: HeaderName =
            name.parse().map_err(|_| format!("`{shown}` is not a valid header name"))?;
        let value = HeaderValue::from_str(value);
        let mut value = value.map_err(|_| format!("the value of header `{shown}` is invalid"))?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Ok((url, headers))
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
        let outcome = checked.unwrap_or_else(|why| why);
        assert!(outcome.starts_with(expected), "{endpoint}: {outcome}");
        assert!(!outcome.contains("s3cret"), "{outcome}");
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
        check_endpoint(
            "http://c.example:4318",
            key,
            "its headers would be sent to another machine",
        );
        check_endpoint("http://10.0.0.1:4318", key, "its headers would be sent to another machine");
        check_endpoint("http://localhost.example", key, "its headers would be sent to another");
        check_endpoint("https://me:s3cret@c.example", None, "its URL contains credentials");
        check_endpoint("https://c.example/?key=s3cret", None, "its URL has a query or fragment");
        check_endpoint("grpc://c.example", None, "its URL is not http or https");
        check_endpoint("c.example", None, "its URL is invalid");
        check_endpoint(
            "https://c.example",
            Some(("a b", "s3cret")),
            "`a b` is not a valid header name",
        );
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
