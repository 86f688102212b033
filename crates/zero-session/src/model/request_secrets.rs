//! Redacts the key and secret headers wherever a provider repeats them.

use std::borrow::Cow;

use http::HeaderMap;

use crate::model::model_config::ApiKey;

/// Shown in place of a secret.
const REDACTED: &str = "[hidden]";
/// Shorter values are not secret: users write `none` or `ollama` if no key is needed.
const SECRET_BYTES_MIN: usize = 8;
/// Words in the names of headers that contain secrets.
const SECRET_HEADERS: &[&str] = &["auth", "key", "token", "secret", "cookie", "password"];

/// The secrets of one request.
pub(crate) struct RequestSecrets(Vec<String>);

impl RequestSecrets {
    /// The secrets of a request with this key and these configured headers.
    pub(crate) fn new(key: Option<&ApiKey>, headers: &HeaderMap) -> Self {
        let headers = headers.iter().filter(|(name, _)| is_secret_header(name.as_str()));
        let values = headers.filter_map(|(_, value)| value.to_str().ok());
        // `Bearer abc`: the scheme is not secret; the rest alone is.
        let values = values.map(|value| value.rsplit(' ').next().unwrap_or(value));
        let mut secrets: Vec<String> = key
            .map(ApiKey::reveal)
            .into_iter()
            .chain(values)
            .filter(|secret| secret.len() >= SECRET_BYTES_MIN)
            .map(str::to_owned)
            .collect();
        // Longest first: a secret that is a prefix of another must not leave its rest visible.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        Self(secrets)
    }

    /// The text without the secrets.
    pub(crate) fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.0.iter().fold(Cow::Borrowed(text), |text, secret| {
            match text.contains(secret.as_str()) {
                true => Cow::Owned(text.replace(secret.as_str(), REDACTED)),
                false => text,
            }
        })
    }
}

/// Whether a header with that lower-case name contains a secret.
pub(crate) fn is_secret_header(name: &str) -> bool {
    SECRET_HEADERS.iter().any(|word| name.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_secrets_are_redacted() {
        let mut headers = HeaderMap::new();
        headers.insert("authorization", "Bearer tok-12345678".parse().unwrap());
        headers.insert("x-title", "zero-agent".parse().unwrap());
        let secrets = RequestSecrets::new(Some(&ApiKey::new("sk-abcdefgh\n")), &headers);
        #[track_caller]
        fn check(secrets: &RequestSecrets, text: &str, expected: &str) {
            assert_eq!(secrets.redact(text), expected);
        }
        check(&secrets, "wrong key: sk-abcdefgh, sk-abcdefgh!", "wrong key: [hidden], [hidden]!");
        check(&secrets, "Bearer tok-12345678 of zero-agent", "Bearer [hidden] of zero-agent");
        check(&secrets, "nothing", "nothing");
        let dummy = RequestSecrets::new(Some(&ApiKey::new("ollama")), &HeaderMap::new());
        check(&dummy, "ollama is not running", "ollama is not running");
    }
}
