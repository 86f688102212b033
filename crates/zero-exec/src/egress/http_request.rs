//! Parses HTTP proxy requests: `CONNECT host:port`, and requests for `http://host/…`.
//!
//! A plain request is parsed and rebuilt, so that the server reads exactly what the proxy read: one
//! host, one body, one request per connection. Anything that could be read in two ways is rejected.

use tokio::io::{AsyncRead, AsyncWrite};

use super::client_connection::ClientConnection;
use super::proxy_error::ProxyError;
use super::proxy_request::{self, ClientProtocol, ConnectTarget, ForwardMode, ProxyRequest};
use super::request_body::RequestBodyReader;

/// Most header lines.
const HEADERS_MAX: usize = 128;
/// The port of an `http://` URL without one.
const HTTP_PORT: u16 = 80;

/// Headers that belong to one connection and are not forwarded.
const HOP_BY_HOP: &[&str] =
    &["connection", "keep-alive", "te", "trailer", "upgrade", "http2-settings"];
/// Headers that the proxy writes itself.
const REWRITTEN: &[&str] = &["host", "content-length", "transfer-encoding"];

/// Reads the head of a request.
pub(super) async fn read<S>(
    client: &mut ClientConnection<S>,
    head_max: usize,
) -> Result<ProxyRequest, ProxyError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut seen = 0;
    let end = loop {
        if let Some(end) = find_head_end(client.unread(), seen)? {
            break end;
        }
        seen = client.unread().len();
        client.read_more(head_max).await?;
    };
    let head = client.read_exact(end).await?;
    let (protocol, request) = parse(&head)?;
    client.protocol = protocol;
    Ok(request)
}

/// The end of the head, if it is complete. The first `seen` bytes were scanned before.
fn find_head_end(bytes: &[u8], seen: usize) -> Result<Option<usize>, ProxyError> {
    let lone = ProxyError::Malformed("a line does not end with CR LF");
    for (at, byte) in bytes.iter().enumerate().skip(seen.saturating_sub(1)) {
        let before = at.checked_sub(1).and_then(|before| bytes.get(before));
        match (before, byte) {
            (Some(b'\r'), b'\n') if ends_with_empty_line(bytes.get(..=at)) => {
                return Ok(Some(at + 1));
            }
            (Some(b'\r'), b'\n') => {}
            (_, b'\n') | (Some(b'\r'), _) => return Err(lone),
            (_, 0) => return Err(ProxyError::Malformed("it contains a zero byte")),
            // Some servers treat such a line as a continuation of the previous one, others do not.
            (Some(b'\n'), b' ' | b'\t') => {
                return Err(ProxyError::Malformed("a line starts with a space"));
            }
            _ => {}
        }
    }
    Ok(None)
}

fn ends_with_empty_line(bytes: Option<&[u8]>) -> bool {
    bytes.is_some_and(|bytes| bytes.ends_with(b"\r\n\r\n"))
}

/// Parses a head, including the empty line at its end.
pub(super) fn parse(head: &[u8]) -> Result<(ClientProtocol, ProxyRequest), ProxyError> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut parsed = httparse::Request::new(&mut headers);
    match parsed.parse(head) {
        Ok(httparse::Status::Complete(length)) if length == head.len() => {}
        Err(httparse::Error::TooManyHeaders) => return Err(ProxyError::HeadTooLong),
        _ => return Err(ProxyError::Malformed("it is not an HTTP request")),
    }
    let (Some(method), Some(uri), Some(minor)) = (parsed.method, parsed.path, parsed.version)
    else {
        return Err(ProxyError::Malformed("it is not an HTTP request"));
    };
    let headers = RequestHeaders(parsed.headers);
    let body = headers.body_reader(minor)?;
    if headers.values("host").count() > 1 {
        return Err(ProxyError::Malformed("it names its host more than once"));
    }
    if method == "CONNECT" {
        if !body.is_done() {
            return Err(ProxyError::Malformed("CONNECT has no body"));
        }
        let (host, port) = split_port(uri)?;
        let port = port.ok_or(ProxyError::Malformed("CONNECT needs a port"))?;
        let target = ConnectTarget { host: proxy_request::parse_host(host)?, port };
        return Ok((ClientProtocol::Connect, ProxyRequest { target, onward: ForwardMode::Tunnel }));
    }
    let (target, path) = split_absolute_url(method, uri)?;
    let mut head = format!("{method} {path} HTTP/1.{minor}\r\nHost: {}", target.host);
    if target.port != HTTP_PORT {
        head.push_str(&format!(":{}", target.port));
    }
    head.push_str("\r\n");
    let mut head = head.into_bytes();
    headers.write_forwarded(&mut head);
    head.extend_from_slice(body.header().as_bytes());
    head.extend_from_slice(b"Connection: close\r\n\r\n");
    Ok((ClientProtocol::Http, ProxyRequest { target, onward: ForwardMode::Message { head, body } }))
}

/// Splits `http://host:port/path` into its target and its path.
fn split_absolute_url(method: &str, uri: &str) -> Result<(ConnectTarget, String), ProxyError> {
    let Some((scheme, rest)) = uri.split_once("://") else {
        return Err(ProxyError::Malformed(
            "use `http://host/…` or `CONNECT host:port` with a proxy",
        ));
    };
    if !scheme.eq_ignore_ascii_case("http") {
        return Err(ProxyError::Malformed(
            "only `http://` is forwarded; use CONNECT for other schemes",
        ));
    }
    if uri.contains('#') {
        return Err(ProxyError::Malformed("the URL contains a `#`"));
    }
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    if authority.contains('@') {
        return Err(ProxyError::Malformed("the address contains a user; send a header instead"));
    }
    let (host, port) = split_port(authority)?;
    let target =
        ConnectTarget { host: proxy_request::parse_host(host)?, port: port.unwrap_or(HTTP_PORT) };
    let path = match path {
        "" if method == "OPTIONS" => "*".to_owned(),
        path if path.starts_with('/') => path.to_owned(),
        query => format!("/{query}"),
    };
    Ok((target, path))
}

/// Splits `host:port`. An IPv6 address must be in brackets.
fn split_port(authority: &str) -> Result<(&str, Option<u16>), ProxyError> {
    let wrong = ProxyError::Malformed("the port is not a number from 1 to 65535");
    let is_address = authority.starts_with('[');
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !is_address || host.ends_with(']') => (host, port),
        _ => return Ok((authority, None)),
    };
    if !is_address && host.contains(':') {
        return Err(ProxyError::Malformed("an IPv6 address must be in brackets"));
    }
    let digits = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    match port.parse() {
        Ok(port) if digits && port != 0 => Ok((host, Some(port))),
        _ => Err(wrong),
    }
}

/// The headers of a request.
struct RequestHeaders<'a>(&'a [httparse::Header<'a>]);

impl<'a> RequestHeaders<'a> {
    fn values(&self, name: &'static str) -> impl Iterator<Item = &'a [u8]> {
        let named = self.0.iter().filter(move |header| header.name.eq_ignore_ascii_case(name));
        named.map(|header| header.value)
    }

    /// The framing of the body. Rejects a request that declares it more than once.
    fn body_reader(&self, minor: u8) -> Result<RequestBodyReader, ProxyError> {
        let mut lengths = self.values("content-length");
        let mut codings = self.values("transfer-encoding");
        let (length, coding) = (lengths.next(), codings.next());
        if lengths.next().is_some() || codings.next().is_some() {
            return Err(ProxyError::Malformed("it declares the length of its body twice"));
        }
        match (length, coding) {
            (None, None) => Ok(RequestBodyReader::none()),
            (Some(length), None) => {
                let length = std::str::from_utf8(length).ok().filter(|length| {
                    !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit())
                });
                let length = length.and_then(|length| length.parse().ok());
                length
                    .map(RequestBodyReader::with_length)
                    .ok_or(ProxyError::Malformed("the length of its body is not a number"))
            }
            (None, Some(coding)) if minor == 1 && coding.eq_ignore_ascii_case(b"chunked") => {
                Ok(RequestBodyReader::chunked())
            }
            (None, Some(_)) => Err(ProxyError::Malformed("its transfer encoding is not supported")),
            (Some(_), Some(_)) => {
                Err(ProxyError::Malformed("it declares both a length and a transfer encoding"))
            }
        }
    }

    /// Appends the headers that are forwarded.
    fn write_forwarded(&self, head: &mut Vec<u8>) {
        let named: Vec<String> = self
            .values("connection")
            .flat_map(|value| value.split(|byte| *byte == b','))
            .map(|name| String::from_utf8_lossy(name).trim().to_ascii_lowercase())
            .collect();
        for header in self.0 {
            let name = header.name.to_ascii_lowercase();
            let is_dropped = HOP_BY_HOP.contains(&name.as_str())
                || REWRITTEN.contains(&name.as_str())
                || name.starts_with("proxy-")
                || named.contains(&name);
            if !is_dropped {
                for part in [header.name.as_bytes(), b": ", header.value, b"\r\n"] {
                    head.extend_from_slice(part);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Formats the parsed head: the target, and what is forwarded.
    fn read_head(head: &str) -> String {
        let whole = match find_head_end(head.as_bytes(), 0) {
            Ok(Some(end)) if end == head.len() => parse(head.as_bytes()),
            Ok(_) => return "unfinished".to_owned(),
            Err(failure) => Err(failure),
        };
        match whole {
            Err(failure) => failure.to_string(),
            Ok((_, ProxyRequest { target: ConnectTarget { host, port }, onward })) => {
                match onward {
                    ForwardMode::Tunnel => format!("tunnel {host} {port}"),
                    ForwardMode::Message { head, .. } => {
                        format!("{host} {port} {}", String::from_utf8(head).unwrap())
                    }
                }
            }
        }
    }

    #[track_caller]
    fn check(head: &str, expected: &str) {
        assert_eq!(read_head(head), expected, "{head:?}");
    }

    #[track_caller]
    fn check_bad(head: &str) {
        let outcome = read_head(head);
        assert!(outcome.starts_with("the request is malformed"), "{head:?} gave {outcome:?}");
    }

    #[test]
    fn tunnel_target_is_taken_from_request_line() {
        check("CONNECT a.com:443 HTTP/1.1\r\n\r\n", "tunnel a.com 443");
        check("CONNECT A.COM.:443 HTTP/1.1\r\nHost: evil.com\r\n\r\n", "tunnel a.com 443");
        check("CONNECT [::ffff:127.0.0.1]:80 HTTP/1.1\r\n\r\n", "tunnel 127.0.0.1 80");
        check("CONNECT [2606:4700::1111]:53 HTTP/1.0\r\n\r\n", "tunnel [2606:4700::1111] 53");
        check("CONNECT 0x7f.1:80 HTTP/1.1\r\nContent-Length: 0\r\n\r\n", "tunnel 127.0.0.1 80");
        for target in [
            "a.com",
            "a.com:",
            "a.com:0",
            "a.com:65536",
            "a.com:+1",
            "u@a.com:443",
            "::1:80",
            "[::1]",
            "[::1%25lo]:80",
            "a%2ecom:80",
            "/",
            "*",
            "http://a.com/",
            "a.com:80/x",
            ":80",
            "a..com:80",
            "1.2.3.4.5:80",
        ] {
            check_bad(&format!("CONNECT {target} HTTP/1.1\r\n\r\n"));
        }
        check_bad("CONNECT a.com:443 HTTP/1.1\r\nContent-Length: 5\r\n\r\n");
        check_bad("CONNECT a.com:443 HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n");
    }

    #[test]
    fn plain_request_is_rebuilt() {
        check(
            "GET http://A.com/x?y=1 HTTP/1.1\r\nHost: evil.com\r\nAccept: */*\r\n\
             Proxy-Connection: keep-alive\r\nProxy-Authorization: Basic eDp5\r\n\
             Connection: keep-alive, X-Secret\r\nX-Secret: 1\r\nTE: trailers\r\n\
             Upgrade: h2c\r\n\r\n",
            "a.com 80 GET /x?y=1 HTTP/1.1\r\nHost: a.com\r\nAccept: */*\r\nConnection: close\r\n\r\n",
        );
        check(
            "POST http://a.com:8080?q HTTP/1.1\r\ncontent-length: 7\r\n\r\n",
            "a.com 8080 POST /?q HTTP/1.1\r\nHost: a.com:8080\r\nContent-Length: 7\r\n\
             Connection: close\r\n\r\n",
        );
        check(
            "POST http://[2606:4700::1111] HTTP/1.1\r\nTransfer-Encoding: Chunked\r\n\
             Connection: transfer-encoding, host\r\n\r\n",
            "[2606:4700::1111] 80 POST / HTTP/1.1\r\nHost: [2606:4700::1111]\r\n\
             Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n",
        );
        check(
            "OPTIONS http://a.com HTTP/1.0\r\n\r\n",
            "a.com 80 OPTIONS * HTTP/1.0\r\nHost: a.com\r\nConnection: close\r\n\r\n",
        );
    }

    #[test]
    fn ambiguous_request_is_rejected() {
        let with = |headers: &str| format!("POST http://a.com/ HTTP/1.1\r\n{headers}\r\n\r\n");
        for headers in [
            "Content-Length: 5\r\nTransfer-Encoding: chunked",
            "Content-Length: 5\r\nContent-Length: 5",
            "Content-Length: 5, 5",
            "Content-Length: +5",
            "Content-Length: 0x5",
            "Content-Length: ",
            "Content-Length: 99999999999999999999",
            "Content-Length : 5",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
            "Transfer-Encoding: gzip, chunked",
            "Transfer-Encoding: xchunked",
            "Transfer-Encoding: identity",
            "Host: a.com\r\nHost: b.com",
            "Host: a.com\r\nhost: a.com",
            "X: 1\r\n folded",
            "X: 1\r\n\tfolded",
            " X: 1",
            "X: 1\nY: 2",
            "X: 1\rY: 2",
            "X: a\0b",
            "X\0: a",
            "X Y: a",
            ": a",
            "nothing",
        ] {
            check_bad(&with(headers));
        }
        check_bad("POST http://a.com/ HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n");
        for line in [
            "GET / HTTP/1.1",
            "GET a.com HTTP/1.1",
            "GET //a.com/ HTTP/1.1",
            "GET https://a.com/ HTTP/1.1",
            "GET ftp://a.com/ HTTP/1.1",
            "GET http:///x HTTP/1.1",
            "GET http://u:p@a.com/ HTTP/1.1",
            "GET http://a.com#@b.com/ HTTP/1.1",
            "GET http://a.com\\@b.com/ HTTP/1.1",
            "GET http://a.com:80:90/ HTTP/1.1",
            "GET http://a.com/ HTTP/2.0",
            "GET http://a.com/  HTTP/1.1",
            "GET  http://a.com/ HTTP/1.1",
            "GET http://a.com/ x HTTP/1.1",
            "GET http://a.com/",
        ] {
            check_bad(&format!("{line}\r\n\r\n"));
        }
        check_bad("GET http://a.com/ HTTP/1.1\n\n");
    }

    #[test]
    fn too_many_headers_is_head_too_long() {
        let many = "X: 1\r\n".repeat(HEADERS_MAX + 1);
        check(&format!("GET http://a.com/ HTTP/1.1\r\n{many}\r\n"), "the request head is too long");
    }

    #[test]
    fn head_read_byte_by_byte_parses_the_same() {
        let head = b"GET http://a.com/ HTTP/1.1\r\nX: 1\r\n\r\nrest";
        for first in 0..head.len() {
            let before = find_head_end(&head[..first], 0).unwrap();
            let end = before.or(find_head_end(head, first).unwrap());
            assert_eq!(end, Some(head.len() - 4), "{first}");
        }
    }
}
