//! Hostile and broken servers.

use std::io::Write as _;
use std::net::TcpStream;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use zero_core::ErrorType;
use zero_runtime::erase;
use zero_tools::web_fetch::{WebFetchLimits, WebFetchTool};

use super::{
    ALLOW_RULE, ResponseScript, ScriptedServer, check_error, fetch_page, replace_tool, web_session,
    write_response,
};

fn gzip_bytes(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test]
async fn hostile_servers_end_within_bounds() {
    // Each row tests one limit; the others are so high that even a busy machine does not reach
    // them.
    let long = WebFetchLimits {
        page_bytes_max: 1024 * 1024,
        connect_time: Duration::from_secs(60),
        head_time: Duration::from_secs(60),
        idle_time: Duration::from_secs(60),
        body_time: Duration::from_secs(60),
        ..WebFetchLimits::default()
    };
    let short = Duration::from_secs(1);
    const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n";
    fn drip_bytes(stream: &mut TcpStream, piece: &[u8], pause: Duration) {
        while stream.write_all(piece).is_ok() {
            std::thread::sleep(pause);
        }
    }
    let rows: Vec<(&str, WebFetchLimits, Box<ResponseScript>, ErrorType, &str)> = vec![
        (
            "silence",
            WebFetchLimits { head_time: short, ..long },
            Box::new(|_, stream| drip_bytes(stream, b"", Duration::from_secs(60))),
            ErrorType::Timeout,
            "an answer did not arrive",
        ),
        (
            "a head without an end",
            long,
            Box::new(|_, stream| {
                let _ = stream.write_all(HEAD);
                drip_bytes(stream, b"X-A: b\r\n", Duration::ZERO)
            }),
            ErrorType::ExecutionFailed,
            "broke",
        ),
        (
            "a body that stops",
            WebFetchLimits { idle_time: short, ..long },
            Box::new(|_, stream| {
                let _ = stream.write_all(HEAD);
                let _ = stream.write_all(b"Content-Length: 9\r\n\r\nx");
                std::thread::sleep(Duration::from_secs(60))
            }),
            ErrorType::Timeout,
            "the rest of",
        ),
        (
            "a slow drip",
            WebFetchLimits { body_time: short, ..long },
            Box::new(|_, stream| {
                let _ = stream.write_all(HEAD);
                let _ = stream.write_all(b"\r\n");
                drip_bytes(stream, b"x", Duration::from_millis(100))
            }),
            ErrorType::Timeout,
            "the whole of",
        ),
        (
            "a body without an end",
            long,
            Box::new(|_, stream| {
                let _ = stream.write_all(HEAD);
                let _ = stream.write_all(b"\r\n");
                drip_bytes(stream, &[b'x'; 65536], Duration::ZERO)
            }),
            ErrorType::ExecutionFailed,
            "larger than 1048576 bytes",
        ),
        (
            "less than it says",
            long,
            Box::new(|_, stream| {
                let _ = stream.write_all(HEAD);
                let _ = stream.write_all(b"Content-Length: 9999\r\n\r\nshort");
            }),
            ErrorType::ExecutionFailed,
            "broke",
        ),
        (
            "a length that is none",
            long,
            Box::new(|_, stream| {
                let _ = stream.write_all(HEAD);
                let _ = stream.write_all(b"Content-Length: -5\r\n\r\nshort");
            }),
            ErrorType::ExecutionFailed,
            "broke",
        ),
        (
            "a bomb",
            long,
            Box::new(|_, stream| {
                write_response(
                    stream,
                    "200 OK",
                    &[("Content-Type", "text/plain"), ("Content-Encoding", "gzip")],
                    &gzip_bytes(&vec![0; 8 * 1024 * 1024]),
                )
            }),
            ErrorType::ExecutionFailed,
            "larger than 1048576 bytes",
        ),
        (
            "half a gzip",
            long,
            Box::new(|_, stream| {
                let packed = gzip_bytes(&[b'x'; 5000]);
                write_response(
                    stream,
                    "200 OK",
                    &[("Content-Encoding", "gzip")],
                    &packed[..packed.len() / 2],
                )
            }),
            ErrorType::ExecutionFailed,
            "not valid gzip",
        ),
        (
            "packed otherwise",
            long,
            Box::new(|_, stream| {
                write_response(stream, "200 OK", &[("Content-Encoding", "br")], b"x")
            }),
            ErrorType::ExecutionFailed,
            "it is encoded as `br`",
        ),
        (
            "packed twice",
            long,
            Box::new(|_, stream| {
                write_response(
                    stream,
                    "200 OK",
                    &[("Content-Encoding", "gzip, gzip")],
                    &gzip_bytes(&gzip_bytes(b"x")),
                )
            }),
            ErrorType::ExecutionFailed,
            "it is encoded as `gzip, gzip`",
        ),
        (
            "no HTTP",
            long,
            Box::new(|_, stream| {
                let _ = stream.write_all(b"SSH-2.0-OpenSSH\r\n");
            }),
            ErrorType::ExecutionFailed,
            "broke",
        ),
        (
            "not found",
            long,
            Box::new(|_, stream| write_response(stream, "404 Not Found", &[], b"no such page")),
            ErrorType::NotFound,
            "HTTP 404 Not Found; untrusted message: `no such page`",
        ),
        (
            "a picture that is none",
            long,
            Box::new(|_, stream| {
                write_response(stream, "200 OK", &[("Content-Type", "image/png")], b"\0\x01")
            }),
            ErrorType::ExecutionFailed,
            "`image/png`, not text",
        ),
        (
            "a hostile PDF",
            long,
            Box::new(|_, stream| {
                write_response(
                    stream,
                    "200 OK",
                    &[("Content-Type", "application/pdf")],
                    &b"%PDF-1.7 1 0 obj [[[[ ".repeat(20_000),
                )
            }),
            ErrorType::ExecutionFailed,
            "a PDF, and",
        ),
    ];
    for (row, limits, script, error_type, why) in rows {
        let (f, _) = web_session(&[ALLOW_RULE]);
        replace_tool(&f.host, erase(WebFetchTool::with_limits(limits)));
        let server = ScriptedServer::start(script);
        let error = fetch_page(&f, &server.url("/"), "x").await.unwrap_err();
        check_error(&error, error_type, why, row);
    }
    let (f, _) = web_session(&[ALLOW_RULE]);
    // A valid compressed body is read.
    let server = ScriptedServer::start(|_, stream| {
        let headers = [("Content-Type", "text/plain"), ("Content-Encoding", "gzip")];
        write_response(stream, "200 OK", &headers, &gzip_bytes(b"packed"));
    });
    assert_eq!(fetch_page(&f, &server.url("/"), "x").await.unwrap(), "packed");
}
