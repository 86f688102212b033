//! The URL of a web tool call ([`WebAddress`]).

use url::Url;
use zero_core::{Effect, ErrorReason, ToolError};

/// Longest URL, in bytes.
pub(crate) const BYTES_MAX: usize = 8 * 1024;

/// A parsed URL of a call. The policy checks the host of exactly this URL.
#[derive(Clone, Debug)]
pub(crate) struct WebAddress {
    url: Url,
}

impl WebAddress {
    /// Parses a URL: http or https, with a host, and without credentials.
    pub(crate) fn parse(written: &str) -> Result<Self, ToolError> {
        let wrong = |why: String| ToolError::invalid(ErrorReason::BadPath, format!("`url` {why}"));
        if written.len() > BYTES_MAX {
            return Err(wrong(format!("has more than {BYTES_MAX} bytes")));
        }
        // Parsers of rules and of URLs would disagree on these characters.
        if written.chars().any(|c| c.is_control() || c.is_whitespace() || c == '\\') {
            let why = "contains a space, a control character or a backslash; percent-encode these, such as `%20`";
            return Err(wrong(why.to_owned()));
        }
        let mut url = Url::parse(written).map_err(|error| {
            wrong(format!(
                "is not a URL ({error}); write it in full, such as `https://example.com/page`"
            ))
        })?;
        if !matches!(url.scheme(), "http" | "https") {
            let scheme = url.scheme();
            return Err(wrong(format!(
                "begins with `{scheme}:`; only `https://` and `http://` are supported"
            )));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(wrong("contains a user name or password; remove it".to_owned()));
        }
        if url.host_str().is_none_or(str::is_empty) {
            return Err(wrong("has no host".to_owned()));
        }
        // Servers do not see the fragment.
        url.set_fragment(None);
        Ok(Self { url })
    }

    pub(crate) fn url(&self) -> &Url {
        &self.url
    }

    /// Returns the effect of fetching the URL, for the policy.
    pub(crate) fn fetch_effect(&self) -> Effect {
        Effect::Net(self.url.host_str().unwrap_or_default().to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(written: &str, expected: Result<(&str, &str), &str>) {
        match (WebAddress::parse(written), expected) {
            (Ok(address), Ok((url, host))) => {
                assert_eq!(address.url().as_str(), url);
                assert_eq!(address.fetch_effect(), Effect::Net(host.to_owned()));
            }
            (Err(error), Err(why)) => assert!(error.message.contains(why), "{written}: {error}"),
            (found, _) => panic!("{written}: {found:?}"),
        }
    }

    #[test]
    fn address_is_http_with_one_host() {
        check("https://go.dev/doc#top", Ok(("https://go.dev/doc", "go.dev")));
        check("HTTP://GO.dev", Ok(("http://go.dev/", "go.dev")));
        // Unusual notations are normalized to the same address.
        check("http://0x7f.1/", Ok(("http://127.0.0.1/", "127.0.0.1")));
        check("http://2130706433/", Ok(("http://127.0.0.1/", "127.0.0.1")));
        check("http://[::ffff:127.0.0.1]/", Ok(("http://[::ffff:7f00:1]/", "[::ffff:7f00:1]")));
        check(
            "http://bücher.example/",
            Ok(("http://xn--bcher-kva.example/", "xn--bcher-kva.example")),
        );
        check("go.dev", Err("is not a URL"));
        check("file:///etc/passwd", Err("begins with `file:`"));
        check("data:text/html,x", Err("begins with `data:`"));
        check("https://a@b.com/", Err("user name or password"));
        check("https://a:b@c.com/", Err("user name or password"));
        check("https://a.com\\@b.com/", Err("backslash"));
        check("https://a.com/ b", Err("space"));
        check("https://", Err("is not a URL"));
        check(&format!("https://a.com/{}", "x".repeat(9_000)), Err("more than"));
    }
}
