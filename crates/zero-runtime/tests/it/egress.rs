//! What the proxy of confined commands relays and refuses.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use proptest::prelude::*;
use zero_exec::egress::{
    ConnectTarget, ConnectionAuthorizer, EgressConfig, EgressLimits, EgressProxy,
};
use zero_policy::{ConnectDeniedError, ConnectPermission, HostName, NetworkScope, UserApproval};
use zero_runtime::audit::verification::VerifyOptions;
use zero_runtime::audit::{AuditLog, ConnectionAuditLog};
use zero_runtime::tool_host::new_call_id;
use zero_sandbox::Workspace;

use crate::egress_fixture::{
    EchoServer, HelloServer, ProxyFixture, ProxySetup, TEST_TIMEOUT, read_exactly, read_to_end,
};

/// A SOCKS5 greeting and a request to connect to a name.
fn socks_name(host: &str, port: u16) -> Vec<u8> {
    let mut bytes = vec![5, 1, 0, 5, 1, 0, 3, host.len() as u8];
    bytes.extend_from_slice(host.as_bytes());
    bytes.extend_from_slice(&port.to_be_bytes());
    bytes
}

fn socks_address(kind: u8, address: &[u8], port: u16) -> Vec<u8> {
    let mut bytes = vec![5, 1, 0, 5, 1, 0, kind];
    bytes.extend_from_slice(address);
    bytes.extend_from_slice(&port.to_be_bytes());
    bytes
}

/// The code of a SOCKS5 reply.
#[track_caller]
fn socks_code(fixture: &ProxyFixture, request: &[u8]) -> u8 {
    let mut stream = fixture.connect();
    stream.write_all(request).unwrap();
    assert_eq!(read_exactly(&mut stream, 2), [5, 0], "the greeting");
    let reply = read_exactly(&mut stream, 10);
    assert_eq!((reply[0], &reply[2..]), (5, &[0, 1, 0, 0, 0, 0, 0, 0][..]));
    reply[1]
}

/// Both sides send, the client closes its half, and still receives the rest of the response.
#[track_caller]
fn check_tunnel(fixture: &ProxyFixture, request: &[u8], granted: &[u8]) {
    let mut stream = fixture.connect();
    stream.write_all(request).unwrap();
    // Bytes sent before the reply must not be lost.
    stream.write_all(b"early ").unwrap();
    assert_eq!(read_exactly(&mut stream, granted.len()), granted);
    assert_eq!(read_exactly(&mut stream, 6), b"early ");
    stream.write_all(b"late").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(read_to_end(&mut stream), "late bye");
}

const SOCKS_GRANTED: &[u8] = &[5, 0, 5, 0, 0, 1, 0, 0, 0, 0, 0, 0];
const CONNECT_GRANTED: &[u8] = b"HTTP/1.1 200 Connection established\r\n\r\n";

#[test]
fn every_way_to_name_allowed_host_reaches_it() {
    let port = EchoServer::default().serve();
    let mut setup = ProxySetup::with_hosts(&["a.test"], port);
    setup.network.push(format!("127.0.0.1:{port}"));
    let mut fixture = setup.start();
    check_tunnel(&fixture, &socks_name("A.test.", port), SOCKS_GRANTED);
    check_tunnel(&fixture, &socks_name("127.0.0.1", port), SOCKS_GRANTED);
    check_tunnel(&fixture, &socks_address(1, &[127, 0, 0, 1], port), SOCKS_GRANTED);
    check_tunnel(
        &fixture,
        format!("CONNECT a.test:{port} HTTP/1.1\r\nHost: other.test\r\n\r\n").as_bytes(),
        CONNECT_GRANTED,
    );
    let rows = fixture.end();
    assert_eq!(rows.len(), 4);
    let row = &rows[0];
    let connection = row.connection.as_ref().unwrap();
    assert_eq!((row.tool.as_str(), row.status.as_str()), ("connection", "ok"));
    assert_eq!(row.title.as_deref(), Some(format!("a.test:{port}").as_str()));
    assert_eq!(connection.address.as_deref(), Some("127.0.0.1"));
    assert_eq!((connection.sent_bytes, connection.received_bytes), (10, 14));
    assert_eq!(connection.protocol, "socks5");
    let decision = row.decision.as_ref().unwrap();
    assert_eq!(
        (decision.verdict.as_str(), decision.source.as_deref()),
        ("allow", Some("sandbox.network"))
    );
}

#[test]
fn ipv6_literals_are_reached_where_named() {
    let port = EchoServer::default().serve_at("::1");
    let fixture =
        ProxySetup { network: vec![format!("[::1]:{port}")], ..ProxySetup::default() }.start();
    let mut address = [0; 16];
    address[15] = 1;
    check_tunnel(&fixture, &socks_address(4, &address, port), SOCKS_GRANTED);
    check_tunnel(&fixture, &socks_name("::1", port), SOCKS_GRANTED);
    check_tunnel(
        &fixture,
        format!("CONNECT [0:0::1]:{port} HTTP/1.1\r\n\r\n").as_bytes(),
        CONNECT_GRANTED,
    );
    address[15] = 2;
    assert_eq!(socks_code(&fixture, &socks_address(4, &address, port)), 2);
}

#[test]
fn plain_request_goes_to_its_host_alone() {
    let hello = HelloServer::default();
    let port = hello.serve();
    let fixture = ProxySetup::with_hosts(&["a.test"], port).start();
    let answer = fixture.send_request(format!(
        "POST http://a.test:{port}/x?secret=1 HTTP/1.1\r\nHost: evil.test\r\n\
         Proxy-Authorization: Basic eDp5\r\nContent-Length: 4\r\n\r\nbody"
    ));
    assert!(answer.ends_with("hello"), "{answer}");
    assert_eq!(
        hello.request_text(),
        format!(
            "POST /x?secret=1 HTTP/1.1\r\nHost: a.test:{port}\r\nContent-Length: 4\r\n\
             Connection: close\r\n\r\nbody"
        )
    );
}

#[test]
fn second_request_on_connection_is_dropped() {
    for (how, body) in [
        ("", ""),
        ("Content-Length: 4\r\n", "body"),
        ("Transfer-Encoding: chunked\r\n", "4\r\nbody\r\n0\r\n\r\n"),
    ] {
        for apart in [false, true] {
            let hello = HelloServer::default();
            let port = hello.serve();
            let fixture = ProxySetup::with_hosts(&["a.test"], port).start();
            let mut stream = fixture.connect();
            let first = format!("POST http://a.test:{port}/ HTTP/1.1\r\n{how}\r\n{body}");
            let second = "GET http://a.test/second HTTP/1.1\r\nHost: evil.test\r\n\r\n";
            if apart {
                stream.write_all(first.as_bytes()).unwrap();
                let mut begin = [0; 12];
                stream.read_exact(&mut begin).unwrap();
                // The proxy may have closed the connection already, which is fine as well.
                let _ = stream.write_all(second.as_bytes());
            } else {
                stream.write_all((first + second).as_bytes()).unwrap();
            }
            read_to_end(&mut stream);
            assert!(
                !hello.request_text().contains("second"),
                "{how:?} {apart}: {}",
                hello.request_text()
            );
            assert!(
                !hello.request_text().contains("evil"),
                "{how:?} {apart}: {}",
                hello.request_text()
            );
        }
    }
}

#[test]
fn allowed_host_without_address_is_a_failure_and_no_refusal() {
    let port = EchoServer::default().serve();
    let mut setup = ProxySetup::with_hosts(&["a.test"], port);
    setup.rules = vec!["allow WebFetch(domain:*.test)".to_owned()];
    let fixture = setup.start();
    let mark = fixture.egress().refusal_cursor();
    let answer = fixture.tunnel_to("gone.test:443");
    assert!(answer.starts_with("HTTP/1.1 502 Bad Gateway\r\n"), "{answer}");
    let since = fixture.egress().refusals_since(mark, &new_call_id());
    assert_eq!((since.count, since.notes()), (0, Vec::new()));
    let expected =
        "connection: gone.test:443 is allowed, but zero's proxy could not resolve its address";
    assert_eq!(since.failure_notes(), [expected]);
}

#[test]
fn refused_client_gets_reason_and_remedy() {
    let port = EchoServer::default().serve();
    let mut setup = ProxySetup::with_hosts(&["a.test"], port);
    setup.rules = [
        "allow WebFetch(domain:*.test)",
        "deny WebFetch(domain:denied.test)",
        "ask WebFetch(domain:asked.test)",
    ]
    .map(str::to_owned)
    .to_vec();
    let mut fixture = setup.start();
    let mark = fixture.egress().refusal_cursor();
    for (target, expected) in [
        (
            "b.other:443",
            "b.other port 443: no rule allows this host\nto allow it: zero config add permissions.allow 'WebFetch(domain:b.other)'",
        ),
        (
            "denied.test:443",
            "denied.test port 443: rule `WebFetch(domain:denied.test)` denies it\nthe rule is in test",
        ),
        ("asked.test:443", "rule `WebFetch(domain:asked.test)` requires approval"),
        ("b.test:22", "not port 22\nto allow it: zero config add sandbox.network 'b.test:22'"),
        ("127.0.0.1:80", "no rule allows this host"),
    ] {
        let answer = fixture.tunnel_to(target);
        assert!(answer.starts_with("HTTP/1.1 403 Forbidden\r\n"), "{target}: {answer}");
        assert!(answer.contains(expected), "{target}: {answer}");
    }
    let answer = fixture.send_request("GET http://b.other/path?token=s3cret HTTP/1.1\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
    assert!(!answer.contains("s3cret"), "{answer}");
    assert_eq!(socks_code(&fixture, &socks_name("denied.test", port)), 2);
    assert_eq!(fixture.lookups(), 0, "what is refused is not even looked up");

    let since = fixture.egress().refusals_since(mark, &new_call_id());
    let hosts: Vec<String> =
        since.hosts.iter().map(|host| format!("{}:{}", host.host, host.port)).collect();
    assert_eq!(since.count, 7);
    assert_eq!(hosts[..2], ["b.other:443", "denied.test:443"]);
    let rows = fixture.end();
    assert!(!rows.is_empty());
    assert!(rows.iter().all(|row| row.status == "denied" && row.connection.is_some()));
    let text = serde_json::to_string(&rows).unwrap();
    assert!(!text.contains("s3cret") && !text.contains("path"), "{text}");
    let denied = rows.iter().find(|row| row.title.as_deref() == Some("denied.test:443")).unwrap();
    let decision = denied.decision.as_ref().unwrap();
    assert_eq!(decision.rule.as_deref(), Some("WebFetch(domain:denied.test)"));
}

#[test]
fn no_spelling_of_this_machine_is_allowed() {
    let echo = EchoServer::default();
    let port = echo.serve();
    let setup = ProxySetup {
        rules: vec!["allow WebFetch".to_owned()],
        network: ["*", "localhost", "127.0.0.1", "a.test"]
            .iter()
            .flat_map(|host| [(*host).to_owned(), format!("{host}:{port}")])
            .collect(),
        answers: vec![("localhost", "127.0.0.1"), ("a.test", "127.0.0.1")],
        strict: true,
        ..ProxySetup::default()
    };
    let fixture = setup.start();
    for host in [
        "127.0.0.1",
        "127.1",
        "0x7f.1",
        "0177.0.0.1",
        "2130706433",
        "localhost",
        "localhost.",
        "LOCALHOST",
        "x.localhost",
        "[::ffff:127.0.0.1]",
        "[::1]",
        "[::]",
        "0.0.0.0",
        "0",
        "a.test",
        "[::127.0.0.1]",
        "[64:ff9b::127.0.0.1]",
        "169.254.169.254",
        "metadata.google.internal",
    ] {
        let answer = fixture.tunnel_to(&format!("{host}:{port}"));
        assert!(answer.starts_with("HTTP/1.1 403 "), "{host}: {answer}");
        let name = host.trim_matches(['[', ']']);
        assert_eq!(socks_code(&fixture, &socks_name(name, port)), 2, "{host}");
    }
    for host in ["127.0.0.1%25lo", "[fe80::1%25lo]", "127.0.0.1:80@a.test", "1.2.3.4.5", "%31"] {
        let answer = fixture.tunnel_to(&format!("{host}:{port}"));
        assert!(answer.starts_with("HTTP/1.1 400 "), "{host}: {answer}");
    }
    assert_eq!(echo.total.load(Ordering::SeqCst), 0, "no connection was made");
}

#[test]
fn this_machine_is_reached_only_by_exact_rule() {
    let port = EchoServer::default().serve();
    let setup = ProxySetup {
        rules: vec!["allow WebFetch(domain:127.0.0.1)".to_owned()],
        network: vec![format!("127.0.0.1:{port}"), format!("a.test:{port}")],
        answers: vec![("a.test", "127.0.0.2")],
        strict: true,
        ..ProxySetup::default()
    };
    let fixture = setup.start();
    check_tunnel(
        &fixture,
        format!("CONNECT 127.1:{port} HTTP/1.1\r\n\r\n").as_bytes(),
        CONNECT_GRANTED,
    );
    let answer = fixture.tunnel_to(&format!("a.test:{port}"));
    let reason = "it resolves to 127.0.0.2, this machine\nto allow it in your own settings: zero config add permissions.allow 'WebFetch(domain:127.0.0.2)'";
    assert!(answer.contains(reason), "{answer}");
}

#[test]
fn name_is_resolved_once_and_every_address_counts() {
    let port = EchoServer::default().serve();
    let names = ["good.test", "rebind.test", "mixed.test", "inside.test", "none.test", "many.test"];
    let many: &'static str = Box::leak("127.0.0.1 ".repeat(65).into_boxed_str());
    let mut setup = ProxySetup::with_hosts(&["good.test"], port);
    setup.network = names.iter().map(|name| format!("{name}:{port}")).collect();
    setup.network.push(format!("unknown.test:{port}"));
    setup.answers.extend([
        ("rebind.test", "127.0.0.1"),
        ("rebind.test", "10.0.0.1"),
        ("mixed.test", "127.0.0.1 10.0.0.1"),
        ("inside.test", "169.254.169.254"),
        ("none.test", ""),
        ("many.test", many),
    ]);
    let fixture = setup.start();
    let request = |name: &str| format!("CONNECT {name}:{port} HTTP/1.1\r\n\r\n").into_bytes();
    check_tunnel(&fixture, &request("rebind.test"), CONNECT_GRANTED);
    assert_eq!(fixture.lookups(), 1, "a second answer was never asked for");
    for (name, expected) in [
        ("rebind.test", "HTTP/1.1 403 "),
        ("mixed.test", "HTTP/1.1 403 "),
        ("inside.test", "HTTP/1.1 403 "),
        ("none.test", "HTTP/1.1 502 "),
        ("many.test", "HTTP/1.1 502 "),
        ("unknown.test", "HTTP/1.1 502 "),
    ] {
        let answer = fixture.tunnel_to(&format!("{name}:{port}"));
        assert!(answer.starts_with(expected), "{name}: {answer}");
    }
    assert_eq!(socks_code(&fixture, &socks_name("mixed.test", port)), 2);
    assert_eq!(socks_code(&fixture, &socks_name("unknown.test", port)), 4);
    check_tunnel(&fixture, &request("good.test"), CONNECT_GRANTED);
}

#[test]
fn address_rule_applies_to_every_name() {
    let port = EchoServer::default().serve();
    let mut setup = ProxySetup::with_hosts(&["a.test"], port);
    setup.rules = vec!["deny WebFetch(domain:127.0.0.1)".to_owned()];
    let answer = setup.start().tunnel_to(&format!("a.test:{port}"));
    assert!(answer.contains("rule `WebFetch(domain:127.0.0.1)` denies it"), "{answer}");
}

#[test]
fn unresponsive_host_is_not_a_refusal() {
    // A port that was free a moment ago.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut fixture = ProxySetup::with_hosts(&["a.test"], port).start();
    let mark = fixture.egress().refusal_cursor();
    let answer = fixture.tunnel_to(&format!("a.test:{port}"));
    assert!(answer.starts_with("HTTP/1.1 502 Bad Gateway\r\n"), "{answer}");
    assert_eq!(socks_code(&fixture, &socks_name("a.test", port)), 5);
    assert_eq!(fixture.egress().refusals_since(mark, &new_call_id()).count, 0);
    let rows = fixture.end();
    assert!(!rows.is_empty() && rows.iter().all(|row| row.status == "error"), "{rows:?}");
}

#[test]
fn unsupported_socks_requests_get_socks_errors() {
    let fixture = ProxySetup::default().start();
    for command in [2, 3, 0, 9] {
        let request = [5, 1, 0, 5, command, 0, 1, 127, 0, 0, 1, 0, 80];
        assert_eq!(socks_code(&fixture, &request), 7, "{command}");
    }
    assert_eq!(socks_code(&fixture, &[5, 1, 0, 5, 1, 0, 2, 0, 0, 0, 0, 0]), 8);
    assert_eq!(socks_code(&fixture, &[5, 1, 0, 5, 1, 1, 1, 0, 0, 0, 0, 0, 80]), 1);
    assert_eq!(socks_code(&fixture, &[5, 2, 2, 0, 5, 1, 0, 3, 1, 0xff, 0, 80]), 1);
    let mut stream = fixture.connect();
    stream.write_all(&[5, 1, 2]).unwrap();
    assert_eq!(read_exactly(&mut stream, 2), [5, 0xff], "a password is not to be had");
    let mut stream = fixture.connect();
    stream.write_all(&[4, 1, 0, 80, 127, 0, 0, 1, 0]).unwrap();
    assert_eq!(read_exactly(&mut stream, 8), [0, 0x5b, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn slow_or_oversized_client_is_disconnected() {
    let port = EchoServer::default().serve();
    let limits = EgressLimits { head_time: Duration::from_millis(700), ..EgressLimits::default() };
    let mut hasty = ProxySetup { limits, ..ProxySetup::with_hosts(&["a.test"], port) }.start();
    // A byte now and then does not extend the time limit.
    let began = Instant::now();
    let mut slow = hasty.connect();
    let mut trickle = slow.try_clone().unwrap();
    let writer = std::thread::spawn(move || {
        for byte in b"GET http://a.test/ HTTP/1.1\r\nX: 1".iter().cycle().take(2_000) {
            if trickle.write_all(&[*byte]).is_err() {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    });
    assert!(read_to_end(&mut slow).starts_with("HTTP/1.1 408 "), "slow");
    assert!(began.elapsed() < TEST_TIMEOUT);
    drop(slow);
    writer.join().unwrap();
    let rows = hasty.end();
    assert_eq!(rows.iter().filter(|row| row.status == "timeout").count(), 1, "{rows:?}");
    let fixture = ProxySetup::with_hosts(&["a.test"], port).start();
    for giant in ["a".repeat(100_000), format!("GET http://a.test/{}", "a".repeat(100_000))] {
        let mut stream = fixture.connect();
        // The proxy disconnects it before all of it is sent.
        let _ = stream.write_all(giant.as_bytes());
        let answer = read_to_end(&mut stream);
        assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
    }
    drop(fixture);
    let limits = EgressLimits { idle_time: Duration::from_millis(700), ..EgressLimits::default() };
    let mut fixture = ProxySetup { limits, ..ProxySetup::with_hosts(&["a.test"], port) }.start();
    // That traffic postpones the end is tested where the clock can be paused.
    let mut idle = fixture.connect();
    idle.write_all(&socks_name("a.test", port)).unwrap();
    read_exactly(&mut idle, 12);
    assert_eq!(read_to_end(&mut idle), "", "an idle connection is closed");
    let rows = fixture.end();
    assert_eq!(rows.iter().filter(|row| row.status == "timeout").count(), 1, "{rows:?}");
}

#[test]
fn malformed_requests_are_answered_and_not_forwarded() {
    let echo = EchoServer::default();
    let port = echo.serve();
    let fixture = ProxySetup::with_hosts(&["a.test"], port).start();
    let to = format!("http://a.test:{port}/");
    for request in [
        format!("POST {to} HTTP/1.1\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n"),
        format!("GET {to} HTTP/1.1\n\n"),
        format!("GET {to} HTTP/1.1\r\nX: 1\r\n y\r\n\r\n"),
        format!("GET {to} HTTP/1.1\r\nHost: a.test\r\nHost: b.test\r\n\r\n"),
        "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n".to_owned(),
        "\u{16}\u{3}\u{1}".to_owned(),
        "\r\nGET / HTTP/1.1\r\n\r\n".to_owned(),
    ] {
        let answer = fixture.send_request(&request);
        assert!(answer.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{request:?}: {answer}");
    }
    assert_eq!(echo.total.load(Ordering::SeqCst), 0);
}

#[test]
fn connections_are_bounded_and_all_served() {
    let echo = EchoServer::default();
    let port = echo.serve();
    let limits = EgressLimits { connections_max: 64, ..EgressLimits::default() };
    let fixture = ProxySetup { limits, ..ProxySetup::with_hosts(&["a.test"], port) }.start();
    std::thread::scope(|scope| {
        for _ in 0..300 {
            let fixture = &fixture;
            scope.spawn(move || {
                let mut stream = fixture.connect();
                stream.write_all(&socks_name("a.test", port)).unwrap();
                read_exactly(&mut stream, 12);
                stream.write_all(b"x").unwrap();
                read_exactly(&mut stream, 1);
                stream.shutdown(Shutdown::Write).unwrap();
                assert_eq!(read_to_end(&mut stream), " bye");
            });
        }
    });
    assert_eq!(echo.total.load(Ordering::SeqCst), 300);
    // The server decrements its count before it closes a connection, so none is counted twice.
    assert!(echo.most.load(Ordering::SeqCst) <= 64, "{:?}", echo.most);
}

#[test]
fn proxy_end_closes_its_connections() {
    let port = EchoServer::default().serve();
    let mut fixture = ProxySetup::with_hosts(&["a.test"], port).start();
    let mut tunnel = fixture.connect();
    tunnel.write_all(&socks_name("a.test", port)).unwrap();
    read_exactly(&mut tunnel, 12);
    let mut half = fixture.connect();
    half.write_all(b"CONNECT a.te").unwrap();
    let mut silent = fixture.connect();
    let began = Instant::now();
    let rows = fixture.end();
    assert!(began.elapsed() < TEST_TIMEOUT, "{:?}", began.elapsed());
    assert_eq!(read_to_end(&mut tunnel), "");
    read_to_end(&mut half);
    read_to_end(&mut silent);
    assert!(std::net::TcpStream::connect(("127.0.0.1", fixture.port)).is_err());
    assert!(rows.iter().any(|row| {
        row.status == "cancelled" && row.title.as_deref() == Some(&format!("a.test:{port}"))
    }));
    let verified = AuditLog::new(&fixture.state).verify(&VerifyOptions::default(), |_| {}).unwrap();
    assert!(verified.findings.is_empty(), "{:?}", verified.findings);
}

#[test]
fn connection_is_attributed_to_only_call() {
    let mut fixture = ProxySetup::default().start();
    let (first, second) = (new_call_id(), new_call_id());
    fixture.tunnel_to("none.test:443");
    let one = fixture.egress().attribute(first.clone(), &[], NetworkScope::Allowed, None);
    fixture.tunnel_to("one.test:443");
    let two = fixture.egress().attribute(second, &[], NetworkScope::Allowed, None);
    fixture.tunnel_to("two.test:443");
    drop(two);
    fixture.tunnel_to("again.test:443");
    drop(one);
    let rows = fixture.end();
    // A row is written when a connection has ended on both sides.
    let call_of = |host: &str| {
        let row = rows.iter().find(|row| row.title.as_deref() == Some(&format!("{host}.test:443")));
        row.unwrap().connection.as_ref().unwrap().of_call.clone()
    };
    let first = Some(first.to_string());
    let calls = ["none", "one", "two", "again"].map(call_of);
    assert_eq!(calls, [None, first.clone(), None, first]);
}

#[test]
fn host_allowed_for_call_is_open_while_call_lives() {
    let setup = ProxySetup {
        rules: vec!["ask WebFetch".to_owned(), "deny WebFetch(domain:denied.test)".to_owned()],
        answers: vec![("a.test", "127.0.0.1")],
        ..ProxySetup::default()
    };
    let mut fixture = setup.start();
    let call = new_call_id();
    let judged = ["a.test", "denied.test"].map(|host| HostName::from_host(host).unwrap());
    let open = fixture.egress().attribute(call.clone(), &judged, NetworkScope::Allowed, None);
    // Whether or not the host answers: it was resolved and tried.
    fixture.tunnel_to("a.test:80");
    assert_eq!(fixture.lookups(), 1);
    for closed in ["b.test:80", "denied.test:80", "a.test:22"] {
        let answer = fixture.tunnel_to(closed);
        assert!(answer.starts_with("HTTP/1.1 403 "), "{closed}: {answer}");
    }
    drop(open);
    let answer = fixture.tunnel_to("a.test:80");
    assert!(answer.contains("requires approval"), "{answer}");
    assert_eq!(fixture.lookups(), 1);
    let rows = fixture.end();
    let row = rows.iter().find(|row| row.status != "denied").unwrap();
    let decision = row.decision.as_ref().unwrap();
    assert_eq!((&*decision.verdict, decision.source.as_deref()), ("allow", Some("call")));
    assert_eq!(row.connection.as_ref().unwrap().of_call, Some(call.to_string()));
}

#[test]
fn calls_with_known_hosts_reach_no_others() {
    let setup = ProxySetup {
        rules: vec!["allow WebFetch".to_owned()],
        answers: vec![("a.test", "127.0.0.1"), ("b.test", "127.0.0.1"), ("c.test", "127.0.0.1")],
        ..ProxySetup::default()
    };
    let mut fixture = setup.start();
    let hosts = |names: &[&str]| -> Vec<HostName> {
        names.iter().map(|name| HostName::from_host(name).unwrap()).collect()
    };
    let limited = |names: &[&str]| {
        let (call, hosts) = (new_call_id(), hosts(names));
        let scope = NetworkScope::Hosts(hosts.iter().cloned().collect());
        fixture.egress().attribute(call, &hosts, scope, None)
    };
    let check = |target: &str, is_open: bool| {
        let answer = fixture.tunnel_to(&format!("{target}:80"));
        let refused = "the command line does not name this host\nname it there, or request network access (`\"network_access\": true`)";
        assert_eq!(answer.contains(refused), !is_open, "{target}: {answer}");
    };
    let first = limited(&["a.test"]);
    check("a.test", true);
    check("b.test", false);
    let second = limited(&["b.test"]);
    check("b.test", true);
    check("c.test", false);
    drop(first);
    check("a.test", false);
    let unknown = fixture.egress().attribute(new_call_id(), &[], NetworkScope::Allowed, None);
    check("c.test", true);
    drop(unknown);
    check("c.test", false);
    drop(second);
    fixture.end();
}

/// A TLS `ClientHello` that names a host.
fn client_hello(host: &str) -> Vec<u8> {
    let long = |bytes: &[u8]| [&(bytes.len() as u16).to_be_bytes(), bytes].concat();
    let name = long(&[&[0][..], &long(host.as_bytes())].concat());
    let extensions = long(&[&[0, 0][..], &long(&name)].concat());
    let body = [&[3, 3][..], &[7; 32], &[0, 0, 2, 0x13, 1, 1, 0], &extensions].concat();
    let message = [&[1, 0][..], &long(&body)].concat();
    [&[22, 3, 1][..], &long(&message)].concat()
}

#[test]
fn tunnel_cannot_greet_other_host() {
    let echo = EchoServer::default();
    let port = echo.serve();
    let mut fixture = ProxySetup::with_hosts(&["a.test"], port).start();
    let mark = fixture.egress().refusal_cursor();
    let connect = format!("CONNECT a.test:{port} HTTP/1.1\r\n\r\n");
    for apart in [1, 9, 1000] {
        let mut stream = fixture.connect();
        stream.write_all(connect.as_bytes()).unwrap();
        read_exactly(&mut stream, CONNECT_GRANTED.len());
        for part in client_hello("a.test").chunks(apart) {
            stream.write_all(part).unwrap();
        }
        let length = client_hello("a.test").len();
        assert_eq!(read_exactly(&mut stream, length), client_hello("a.test"));

        let mut stream = fixture.connect();
        stream.write_all(&socks_name("a.test", port)).unwrap();
        read_exactly(&mut stream, SOCKS_GRANTED.len());
        for part in client_hello("other.test").chunks(apart) {
            stream.write_all(part).unwrap();
        }
        let received = read_to_end(&mut stream);
        assert!(received.is_empty() || received == " bye", "{received:?}");
    }
    let since = fixture.egress().refusals_since(mark, &new_call_id());
    let reason = "its TLS greeting names another host, `other.test`";
    assert_eq!(since.notes(), [format!("network: a.test:{port} was refused: {reason}")]);
    let rows = fixture.end();
    let denied: Vec<_> = rows.iter().filter(|row| row.status == "denied").collect();
    assert_eq!(denied.len(), 3, "{rows:?}");
    for row in denied {
        assert_eq!(row.message.as_deref(), Some(reason));
        assert_eq!(row.decision.as_ref().unwrap().verdict, "deny");
        assert_eq!(row.connection.as_ref().unwrap().sent_bytes, 0);
    }
}

#[test]
fn unwritable_audit_log_refuses_connection() {
    let echo = EchoServer::default();
    let port = echo.serve();
    let fixture = ProxySetup::with_hosts(&["a.test"], port).start();
    // A folder cannot be created at the path of a file.
    std::fs::create_dir_all(fixture.state.path()).unwrap();
    std::fs::write(fixture.state.path().join("audit"), "in the way").unwrap();
    let answer = fixture.tunnel_to(&format!("a.test:{port}"));
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    assert_eq!(fixture.lookups(), 0);
    assert_eq!(echo.total.load(Ordering::SeqCst), 0);
}

/// Refuses every connection and records the requests.
#[derive(Default)]
struct RefusingAuthorizer {
    asked: Mutex<Vec<String>>,
}

impl ConnectionAuthorizer for RefusingAuthorizer {
    fn authorize_host(
        &self,
        target: &ConnectTarget,
        _judged: &[HostName],
        _approval: UserApproval,
    ) -> Result<ConnectPermission, ConnectDeniedError> {
        let ConnectTarget { host, port } = target;
        self.asked.lock().unwrap().push(format!("{host}:{port}"));
        Err(ConnectDeniedError::NoRule)
    }

    fn authorize_address(
        &self,
        _address: std::net::IpAddr,
        _inside: Option<&'static str>,
    ) -> Result<(), ConnectDeniedError> {
        Err(ConnectDeniedError::NoRule)
    }
}

/// Bytes that resemble requests.
fn near_requests() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..40),
        prop_oneof![
            Just(&b"CONNECT "[..]),
            Just(&b"GET "[..]),
            Just(&b"http://"[..]),
            Just(&b"a.test:80"[..]),
            Just(&b"[::1]:443"[..]),
            Just(&b" HTTP/1.1\r\n"[..]),
            Just(&b"\r\n\r\n"[..]),
            Just(&b"\r\n"[..]),
            Just(&b"Content-Length: 3\r\n"[..]),
            Just(&b"Transfer-Encoding: chunked\r\n"[..]),
            Just(&[5, 1, 0][..]),
            Just(&[5, 1, 0, 3, 6][..]),
            Just(&[5, 1, 0, 1, 127, 0, 0, 1, 0, 80][..]),
            Just(&[4, 1][..]),
        ]
        .prop_map(<[u8]>::to_vec),
    ];
    let pieces = proptest::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat());
    let whole = prop_oneof![
        Just(b"CONNECT a.test:443 HTTP/1.1\r\nHost: b.test\r\n\r\n".to_vec()),
        Just(b"POST http://a.test/ HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc".to_vec()),
        Just(socks_name("a.test", 443)),
        Just(socks_address(1, &[127, 0, 0, 1], 80)),
    ];
    // A complete request, cut somewhere, with something inserted.
    let damaged = (whole.clone(), any::<prop::sample::Index>(), pieces.clone()).prop_map(
        |(whole, at, middle)| {
            let (begin, end) = whole.split_at(at.index(whole.len()));
            [begin, &middle, end].concat()
        },
    );
    prop_oneof![pieces, whole, damaged]
}

#[test]
fn arbitrary_bytes_reach_no_host_unauthorized() {
    let temp = tempfile::tempdir().unwrap();
    let state = zero_sandbox::StateDir::new(temp.path().join("state"));
    let workspace = Workspace::open(&[temp.path().to_owned()], None).unwrap();
    let log = Arc::new(ConnectionAuditLog::new(&state, workspace, None));
    let authorizer = Arc::new(RefusingAuthorizer::default());
    let resolver = Arc::new(crate::egress_fixture::TableResolver::default());
    let mut config = EgressConfig::new(log, authorizer.clone());
    config.internet.resolver = resolver.clone();
    let (listener, port) = crate::egress_fixture::bind_port();
    let _egress = EgressProxy::start(config, listener).unwrap();
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(400)
    });
    runner
        .run(&near_requests(), |bytes| {
            let before = authorizer.asked.lock().unwrap().len();
            let mut stream = crate::egress_fixture::connect(port);
            let _ = stream.write_all(&bytes);
            let _ = stream.shutdown(Shutdown::Write);
            let answer = read_to_end(&mut stream);
            let asked = authorizer.asked.lock().unwrap().len() - before;
            prop_assert!(asked <= 1, "one connection, one host");
            let granted = answer.contains(" 200 ") || answer.starts_with("\u{5}\0\u{5}\0");
            prop_assert!(!granted, "{:?}", answer);
            let refused =
                answer.contains("403 Forbidden") || answer.starts_with("\u{5}\0\u{5}\u{2}");
            prop_assert_eq!(asked == 1, refused, "{:?} for {:?}", answer, bytes);
            Ok(())
        })
        .unwrap();
    assert!(resolver.lookups.lock().unwrap().is_empty());
    assert!(!authorizer.asked.lock().unwrap().is_empty(), "some of it was a request");
}
