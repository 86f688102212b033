//! Tests of which texts are hosts and which hosts are equal.

use super::*;

#[track_caller]
fn check(text: &str, expected: &str) {
    match HostName::parse(text) {
        Ok(host) => assert_eq!(host.to_string(), expected, "{text}"),
        Err(error) => panic!("{text}: {error}"),
    }
}

#[track_caller]
fn check_error(text: &str, expected: HostNameError) {
    assert_eq!(HostName::parse(text), Err(expected), "{text}");
}

#[track_caller]
fn check_private(text: &str, expected: bool) {
    let host = HostName::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    assert_eq!(host.private_reason().is_some(), expected, "{text} is {host}");
}

#[test]
fn host_name_parses_every_url_form() {
    check("github.com", "github.com");
    check("GitHub.COM.", "github.com");
    check("github.com:443", "github.com");
    check("github.com/a/b:c", "github.com");
    check("https://github.com/a?b#c", "github.com");
    check("https://github.com:8443/a", "github.com");
    check("https://github.com?q=a@b.com", "github.com");
    check("//cdn.example.org/x", "cdn.example.org");
    check("git@github.com:org/repo.git", "github.com");
    check("github.com:org/repo.git", "github.com");
    check("ssh://git@github.com:22/org/repo", "github.com");
    check("git+ssh://git@github.com/org/repo", "github.com");
    check("me@host", "host");
    check("git@[::1]:repo", "[::1]");
    check("my_host.example", "my_host.example");
}

#[test]
fn user_name_is_not_parsed_as_host() {
    check("https://github.com@evil.com/", "evil.com");
    check("https://github.com:pass@evil.com:80/", "evil.com");
    check("https://github.com%40x@evil.com", "evil.com");
    check_error("https://github.com@evil.com@other.com/", HostNameError::Ambiguous);
    check_error("github.com:x@evil.com", HostNameError::Ambiguous);
    check_error("git@github.com:x@evil.com/repo", HostNameError::Ambiguous);
    check_error("a#@evil.com:x", HostNameError::Ambiguous);
}

#[test]
fn ambiguous_host_is_an_error() {
    check_error("", HostNameError::Missing);
    check_error("https://", HostNameError::Missing);
    check_error("https:///evil.com", HostNameError::Missing);
    check_error("file:///etc/passwd", HostNameError::Missing);
    check_error("https:evil.com", HostNameError::Ambiguous);
    check_error("HTTPS:/evil.com", HostNameError::Ambiguous);
    check_error("ext::evil.com", HostNameError::Ambiguous);
    check_error("./repo", HostNameError::Missing);
    check_error("../repo", HostNameError::Malformed);
    check_error("/srv/repo", HostNameError::Missing);
    check_error("https://github.com\\@evil.com", HostNameError::Character);
    check_error("https://github.com\n.evil.com", HostNameError::Character);
    check_error("https://git hub.com", HostNameError::Character);
    check_error("https://%65vil.com/", HostNameError::Character);
    check_error("https://*.com/", HostNameError::Character);
    check_error("https://a..b/", HostNameError::Malformed);
    check_error("-oProxyCommand=x", HostNameError::Malformed);
    check_error(&"a".repeat(64), HostNameError::Malformed);
    check_error(&"a.".repeat(130), HostNameError::Malformed);
    check_error("https://256.1.1.1/", HostNameError::Address);
    check_error("https://1.2.3.4.5/", HostNameError::Address);
    check_error("https://[::1", HostNameError::Address);
    check_error("https://[::1]x/", HostNameError::Address);
    check_error("http://09.1.1.1/", HostNameError::Address);
}

#[test]
fn international_names_compare_in_punycode() {
    check("https://BÜCHER.example/", "xn--bcher-kva.example");
    check("bücher。example", "xn--bcher-kva.example");
    check("аррӏе.com", "xn--80ak6aa92e.com");
    check_error("\u{212a}elvin.com", HostNameError::LookAlike);
    check_error("ｅvil.com", HostNameError::LookAlike);
    check_error("ℯvil.com", HostNameError::LookAlike);
    check_error("ev\u{ad}il.com", HostNameError::LookAlike);
    check_error("e\u{301}vil.com", HostNameError::LookAlike);
}

#[test]
fn address_spellings_parse_to_same_address() {
    for text in [
        "127.0.0.1",
        "127.1",
        "127.0.1",
        "2130706433",
        "0x7f000001",
        "0x7f.1",
        "0177.0.0.1",
        "017700000001",
        "127.0.0.1.",
        "http://127.1:80/",
        "[::ffff:127.0.0.1]",
        "http://[::ffff:7f00:1]/",
        "::ffff:127.0.0.1",
    ] {
        check(text, "127.0.0.1");
    }
    check("http://[2001:DB8::1]:80/", "[2001:db8::1]");
    check("http://[fe80::1%25eth0]/", "[fe80::1]");
    check_error("4294967296", HostNameError::Address);
    check_error("0x.0.0.1", HostNameError::Address);
    check_error("1.2.65536", HostNameError::Address);
    assert_eq!(HostName::parse("1.2.65535").unwrap().to_string(), "1.2.255.255");
}

#[test]
fn private_hosts_are_distinguished_from_public() {
    for inside in [
        "localhost",
        "LOCALHOST.",
        "a.localhost",
        "metadata.google.internal",
        "http://metadata/",
        "127.0.0.53",
        "0.0.0.0",
        "0",
        "10.1.2.3",
        "172.16.0.1",
        "172.31.255.255",
        "192.168.1.1",
        "169.254.169.254",
        "0xa9fea9fe",
        "100.64.0.1",
        "100.127.0.1",
        "224.0.0.1",
        "255.255.255.255",
        "[::]",
        "[::1]",
        "[fe80::1]",
        "[fc00::1]",
        "[fd12:3456::1]",
        "[ff02::1]",
        "[::ffff:10.0.0.1]",
        "[::10.0.0.1]",
        "[64:ff9b::10.0.0.1]",
        "[64:ff9b:1::1]",
        "[2002:7f00:1::]",
        "[2002:c0a8:101::1]",
        "192.0.2.7",
        "198.51.100.7",
        "203.0.113.7",
        "192.88.99.1",
        "[2001:db8::1]",
        "[3fff::1]",
        "[2001:0:4136:e378:8000:63bf:3fff:fdd2]",
        "[2001:2::1]",
        "[100::1]",
        "[5f00::1]",
        "[fd00:ec2::254]",
    ] {
        check_private(inside, true);
    }
    for outside in [
        "github.com",
        "localhost.evil.com",
        "notlocalhost",
        "printer.local",
        "8.8.8.8",
        "172.32.0.1",
        "172.15.0.1",
        "100.63.0.1",
        "100.128.0.1",
        "192.167.1.1",
        "[2606:4700::1111]",
        "[::ffff:8.8.8.8]",
        "[64:ff9b::8.8.8.8]",
        "[2002:808:808::]",
        "192.0.3.1",
        "203.0.114.1",
        "[2001:4860:4860::8888]",
        "[2a00:1450::1]",
    ] {
        check_private(outside, false);
    }
}
