//! Restricts search results to certain domains ([`SearchDomainFilter`]).

use url::{Host, Url};
use zero_core::{ErrorReason, ToolError, sanitize};

/// Most domains in one list.
pub(super) const DOMAINS_MAX: usize = 64;

/// The allowed and the blocked domains of a search.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SearchDomainFilter {
    /// Allowed domains; all if empty.
    pub(super) allowed: Vec<String>,
    /// Blocked domains.
    pub(super) blocked: Vec<String>,
}

impl SearchDomainFilter {
    /// Parses both lists.
    pub(super) fn parse(
        allowed: Option<Vec<String>>,
        blocked: Option<Vec<String>>,
    ) -> Result<Self, ToolError> {
        Ok(Self {
            allowed: parse_domains("allowed_domains", allowed.unwrap_or_default())?,
            blocked: parse_domains("blocked_domains", blocked.unwrap_or_default())?,
        })
    }

    /// Returns whether a result may be shown: an http or https URL on an allowed domain.
    pub(super) fn allows(&self, url: &str) -> bool {
        let Ok(url) = Url::parse(url) else { return false };
        let Some(host) = url.host_str().filter(|_| matches!(url.scheme(), "http" | "https")) else {
            return false;
        };
        let host = host.trim_end_matches('.');
        let is_in = |list: &[String]| list.iter().any(|domain| is_subdomain(host, domain));
        (self.allowed.is_empty() || is_in(&self.allowed)) && !is_in(&self.blocked)
    }

    /// Returns the lists as search operators, for engines that do not accept lists.
    pub(super) fn site_operators(&self) -> String {
        let allowed: Vec<String> =
            self.allowed.iter().map(|domain| format!("site:{domain}")).collect();
        let blocked = self.blocked.iter().map(|domain| format!(" -site:{domain}"));
        let allowed = match allowed.as_slice() {
            [] => String::new(),
            [one] => format!(" {one}"),
            several => format!(" ({})", several.join(" OR ")),
        };
        allowed + &blocked.collect::<String>()
    }
}

fn is_subdomain(host: &str, domain: &str) -> bool {
    host == domain || host.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'))
}

/// Normalizes domains: `https://Go.dev/`, `*.go.dev` and `go.dev.` all become `go.dev`.
fn parse_domains(field: &str, written: Vec<String>) -> Result<Vec<String>, ToolError> {
    if written.len() > DOMAINS_MAX {
        let message = format!("`{field}` has more than {DOMAINS_MAX} domains");
        return Err(ToolError::invalid(ErrorReason::TooLarge, message));
    }
    let domain = |written: &String| {
        let wrong = || {
            let message = format!(
                "`{field}` contains {}, which is not a domain; write one such as `go.dev`",
                sanitize::to_quoted_line(written)
            );
            ToolError::invalid(ErrorReason::SchemaViolation, message)
        };
        let text = written.trim();
        let text = text.split_once("://").map_or(text, |(_, rest)| rest);
        let text = text.split('/').next().unwrap_or(text);
        let text = text.strip_prefix("*.").unwrap_or(text).trim_end_matches('.');
        let host = Host::parse(text).map_err(|_| wrong())?;
        let host = host.to_string();
        let fits = host.contains('.') && !host.contains(['*', '(', ')', '"', ':']);
        if fits { Ok(host) } else { Err(wrong()) }
    };
    written.iter().map(domain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_lists(allowed: &[&str], blocked: &[&str]) -> Result<SearchDomainFilter, ToolError> {
        let owned = |list: &[&str]| Some(list.iter().map(|d| d.to_string()).collect());
        SearchDomainFilter::parse(owned(allowed), owned(blocked))
    }

    #[track_caller]
    fn check(allowed: &[&str], blocked: &[&str], url: &str, expected: bool) {
        assert_eq!(parse_lists(allowed, blocked).unwrap().allows(url), expected, "{url}");
    }

    #[test]
    fn domain_matches_itself_and_subdomains() {
        check(&[], &[], "https://a.com/x", true);
        check(&["go.dev"], &[], "https://go.dev/x", true);
        check(&["go.dev"], &[], "https://pkg.go.dev/x", true);
        check(&["*.Go.dev."], &[], "http://GO.dev./x", true);
        check(&["https://go.dev/doc"], &[], "https://go.dev/", true);
        check(&["go.dev"], &[], "https://notgo.dev/", false);
        check(&["go.dev"], &[], "https://go.dev.evil.com/", false);
        check(&["go.dev"], &["pkg.go.dev"], "https://pkg.go.dev/", false);
        check(&[], &["a.com"], "https://x.a.com/", false);
        check(&[], &["a.com"], "https://b.com/?u=a.com", true);
        check(&["bücher.example"], &[], "https://xn--bcher-kva.example/", true);
        check(&[], &[], "javascript:alert(1)", false);
        check(&[], &[], "nonsense", false);
    }

    #[test]
    fn invalid_domain_is_rejected() {
        for wrong in ["", "localhost", "a b.com", "site:(x).com", "*", "a.com OR b.com"] {
            let error = parse_lists(&[wrong], &[]).unwrap_err();
            assert!(error.message.contains("not a domain"), "{wrong}: {error}");
        }
        assert_eq!(
            parse_lists(&["a.com", "b.com"], &["c.com"]).unwrap().site_operators(),
            " (site:a.com OR site:b.com) -site:c.com"
        );
    }
}
