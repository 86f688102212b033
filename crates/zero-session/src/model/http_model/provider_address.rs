//! Validates the address and the configured headers of a model before anything is sent.

use http::{HeaderMap, HeaderName, HeaderValue};
use url::Url;
use zero_core::loopback_host::is_loopback_host;

use crate::model::model_config::ModelConfig;
use crate::model::request_secrets::is_secret_header;
use crate::model::{ModelError, ModelErrorKind};

/// Headers that the client sets itself.
const RESERVED_HEADERS: &[&str] = &[
    "accept",
    "accept-encoding",
    "connection",
    "content-length",
    "content-type",
    "host",
    "te",
    "transfer-encoding",
    "upgrade",
];

/// The base URL of a model.
pub(super) fn base_url(config: &ModelConfig) -> Result<Url, ModelError> {
    let refuse = |why: &str| {
        let message = format!(
            "the base URL of `{}` {why}; write it like https://api.openai.com/v1",
            config.name
        );
        ModelError::new(ModelErrorKind::InvalidRequest, message)
    };
    // The error does not repeat the address, since it may contain a password.
    let url = Url::parse(config.base_url.trim())
        .map_err(|error| refuse(&format!("cannot be read ({error})")))?;
    match url.scheme() {
        "http" | "https" if url.host().is_none() => Err(refuse("has no host")),
        "http" | "https" if !url.username().is_empty() || url.password().is_some() => {
            Err(refuse("holds a name or a password, which belong into the model's key"))
        }
        "http" | "https" => Ok(url),
        _ => Err(refuse("is neither https nor http")),
    }
}

/// The headers that the settings configure for a model.
pub(super) fn configured_headers(config: &ModelConfig) -> Result<HeaderMap, ModelError> {
    let mut headers = HeaderMap::new();
    for (name, value) in &config.headers {
        let refuse = |why: &str| {
            let message = format!("the header `{name}` of `{}` {why}", config.name);
            ModelError::new(ModelErrorKind::InvalidRequest, message)
        };
        if RESERVED_HEADERS.contains(&name.to_ascii_lowercase().as_str()) {
            return Err(refuse("cannot be set; take it out of settings"));
        }
        let header = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| refuse("has a name that no header can have"))?;
        let mut value = HeaderValue::from_str(value)
            .map_err(|_| refuse("has a value that no header can have"))?;
        value.set_sensitive(is_secret_header(header.as_str()));
        headers.insert(header, value);
    }
    Ok(headers)
}

/// Whether the address is on this machine.
pub(super) fn is_loopback(url: &Url) -> bool {
    let is_below = |host: &str| host.trim_end_matches('.').ends_with(".localhost");
    url.host_str().is_some_and(|host| is_loopback_host(host) || is_below(host))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_local_hosts_are_loopback() {
        #[track_caller]
        fn check(url: &str, expected: bool) {
            assert_eq!(is_loopback(&Url::parse(url).unwrap()), expected, "{url}");
        }
        check("http://127.0.0.1:1/v1", true);
        check("http://127.9.9.9", true);
        check("http://[::1]:1", true);
        check("http://[::ffff:127.0.0.1]", true);
        check("http://localhost:11434", true);
        check("http://LOCALHOST.", true);
        check("http://a.localhost", true);
        check("http://0.0.0.0", false);
        check("http://10.0.0.1", false);
        check("http://localhost.example.com", false);
        check("http://127.0.0.1.example.com", false);
    }
}
