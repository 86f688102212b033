//! Tests of which hosts a rule matches.

use super::*;

#[track_caller]
fn check(text: &str, tool: &str, host: &str, expected: bool) {
    let parsed = HostName::parse(host).unwrap_or_else(|error| panic!("{host}: {error}"));
    for verdict in Verdict::ALL {
        let rules = build_rules(verdict, &[text]);
        let found = rules.find_host_rule(verdict, tool, &parsed);
        assert_eq!(found.is_some(), expected, "{verdict} {text} on {tool} {host}");
    }
}

#[test]
fn domain_labels_are_compared_whole() {
    for (domain, host, expected) in [
        ("x.com", "x.com", true),
        ("x.com", "X.COM.", true),
        ("X.com.", "x.com", true),
        ("x.com", "a.x.com", false),
        ("x.com", "ax.com", false),
        ("x.com", "x.com.evil.org", false),
        ("x.com", "https://x.com@evil.com/", false),
        ("*.x.com", "a.x.com", true),
        ("*.x.com", "a.b.x.com", true),
        ("*.x.com", "x.com", false),
        ("*.x.com", "ax.com", false),
        ("a.*.com", "a.b.com", true),
        ("a.*.com", "a.b.c.com", false),
        ("a.*.com", "a.com", false),
        ("*.*.com", "a.b.com", true),
        ("*.*.com", "a.b.c.com", true),
        ("*.*.com", "b.com", false),
        ("x.*", "x.org", true),
        ("x.*", "x.co.uk", false),
        ("*", "anything.org", true),
        ("*", "127.0.0.1", true),
        ("127.0.0.1", "2130706433", true),
        ("0x7f.1", "127.0.0.1", true),
        ("127.0.0.1", "127.0.0.2", false),
        ("[::1]", "http://[0:0::1]:80/", true),
        ("*.0.0.1", "127.0.0.1", false),
        ("bücher.de", "xn--bcher-kva.de", true),
        ("*.bücher.de", "www.BÜCHER.de", true),
    ] {
        check(&format!("WebFetch(domain:{domain})"), "Bash", host, expected);
    }
}

#[test]
fn fetch_rule_covers_every_network_tool() {
    for tool in ["WebFetch", "WebSearch", "WebRequest", "Bash", "Plan"] {
        check("WebFetch(domain:x.com)", tool, "x.com", true);
        check("WebFetch", tool, "x.com", true);
        check("*", tool, "x.com", true);
        check("WebSearch(domain:x.com)", tool, "x.com", tool == "WebSearch");
        check("WebRequest(domain:x.com)", tool, "x.com", tool == "WebRequest");
        check("WebRequest", tool, "x.com", tool == "WebRequest");
        check("Bash", tool, "x.com", false);
    }
}
