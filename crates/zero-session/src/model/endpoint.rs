//! Request addresses: the base address from settings, with or without an API version.

use url::Url;

use crate::model::{ModelError, ModelErrorKind};

/// Appends `call` to `base` below an API version: the one that `base` ends with if it is one of
/// `versions`, otherwise the first of them.
///
/// Drops the query and fragment of `base`: a key in a query would appear in logs along the way.
pub(crate) fn endpoint(base: &Url, versions: &[&str], call: &[&str]) -> Result<Url, ModelError> {
    let mut url = base.clone();
    url.set_query(None);
    url.set_fragment(None);
    let has_version = url
        .path_segments()
        .and_then(|segments| segments.rev().find(|segment| !segment.is_empty()))
        .is_some_and(|last| versions.contains(&last));
    let mut path = url.path_segments_mut().map_err(|()| {
        ModelError::new(
            ModelErrorKind::InvalidRequest,
            "the model's base URL is not a web address; write one like `https://example.com`",
        )
    })?;
    path.pop_if_empty();
    if !has_version {
        path.extend(versions.first());
    }
    path.extend(call);
    drop(path);
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(base: &str, expected: &str) {
        let base = Url::parse(base).unwrap();
        let url = endpoint(&base, &["v1", "v2"], &["models", "a/b:go"]).unwrap();
        assert_eq!(url.as_str(), expected, "{base}");
    }

    #[test]
    fn missing_version_is_added() {
        check("https://x.test", "https://x.test/v1/models/a%2Fb:go");
        check("https://x.test/", "https://x.test/v1/models/a%2Fb:go");
        check("https://x.test/v1", "https://x.test/v1/models/a%2Fb:go");
        check("https://x.test/v1/", "https://x.test/v1/models/a%2Fb:go");
        check("https://x.test/v2", "https://x.test/v2/models/a%2Fb:go");
        check("https://x.test/proxy/v1", "https://x.test/proxy/v1/models/a%2Fb:go");
        check("https://x.test/v1/proxy/", "https://x.test/v1/proxy/v1/models/a%2Fb:go");
        check("http://127.0.0.1:8080/?key=s#f", "http://127.0.0.1:8080/v1/models/a%2Fb:go");
    }

    #[test]
    fn non_http_base_is_refused() {
        let base = Url::parse("mailto:a@b.test").unwrap();
        let error = endpoint(&base, &["v1"], &["x"]).unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::InvalidRequest);
    }
}
