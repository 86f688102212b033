//! Connections to hosts that nobody judged, which the proxy holds until the user has answered.

use std::io::Write as _;
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tokio::sync::watch;
use zero_exec::egress::{
    AttributionGuard, ConnectionAnswer, ConnectionApprover, ConnectionQuestion, HeldConnections,
};
use zero_policy::{ConnectDeniedError, HostName, NetworkScope};
use zero_runtime::tool_host::new_call_id;

use crate::egress_fixture::{
    EchoServer, ProxyFixture, ProxySetup, TEST_TIMEOUT, read_exactly, read_to_end,
};

const GRANTED: &[u8] = b"HTTP/1.1 200 Connection established\r\n\r\n";

/// A user who gives the same answer to every question, once it is decided.
struct TestUser {
    questions: Mutex<Vec<ConnectionQuestion>>,
    answer: watch::Sender<Option<bool>>,
}

impl TestUser {
    fn new(answer: Option<bool>) -> Arc<Self> {
        Arc::new(Self { questions: Mutex::default(), answer: watch::Sender::new(answer) })
    }

    /// The targets of all questions so far.
    fn asked(&self) -> Vec<String> {
        let questions = self.questions.lock().unwrap();
        questions.iter().map(|it| format!("{}:{}", it.target.host, it.target.port)).collect()
    }

    /// Lets a call ask this user.
    fn attend(self: &Arc<Self>, fixture: &ProxyFixture, scope: NetworkScope) -> AttributionGuard {
        let connections = HeldConnections::new(Arc::clone(self) as Arc<dyn ConnectionApprover>);
        fixture.egress().attribute(new_call_id(), &[], scope, Some(Arc::new(connections)))
    }
}

impl ConnectionApprover for TestUser {
    fn is_open(&self) -> bool {
        true
    }

    fn ask(&self, question: ConnectionQuestion) -> BoxFuture<'static, ConnectionAnswer> {
        self.questions.lock().unwrap().push(question);
        let mut answer = self.answer.subscribe();
        async move {
            let allowed = answer.wait_for(Option::is_some).await.is_ok_and(|it| *it == Some(true));
            let rejected = Err(ConnectDeniedError::Rejected { message: None });
            ConnectionAnswer {
                decision: if allowed { Ok(()) } else { rejected },
                answer_source: Some(format!("test: {allowed}")),
                grants: Vec::new(),
            }
        }
        .boxed()
    }
}

/// A proxy without rules at which these names resolve to the test server.
fn proxy(answers: &[(&'static str, &'static str)]) -> ProxyFixture {
    ProxySetup { answers: answers.to_vec(), ..ProxySetup::default() }.start()
}

fn send_connect(fixture: &ProxyFixture, target: &str) -> TcpStream {
    let mut stream = fixture.connect();
    stream.write_all(format!("CONNECT {target} HTTP/1.1\r\n\r\n").as_bytes()).unwrap();
    stream
}

#[track_caller]
fn wait_until(what: &str, mut happened: impl FnMut() -> bool) {
    let until = Instant::now() + TEST_TIMEOUT;
    while !happened() {
        assert!(Instant::now() < until, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn connections_to_one_host_wait_for_one_answer() {
    let echo = EchoServer::default();
    let port = echo.serve();
    let mut fixture = proxy(&[("a.test", "127.0.0.1")]);
    let user = TestUser::new(None);
    let call = user.attend(&fixture, NetworkScope::Allowed);
    // Bounded: the 33rd and later ones do not wait.
    let target = format!("a.test:{port}");
    let mut streams: Vec<TcpStream> = (0..40).map(|_| send_connect(&fixture, &target)).collect();
    wait_until("it was not asked", || user.asked().len() == 1);
    let at_once = |stream: &TcpStream| {
        stream.set_nonblocking(true).unwrap();
        let has_reply = stream.peek(&mut [0]).is_ok();
        stream.set_nonblocking(false).unwrap();
        has_reply
    };
    wait_until("not 8 of 40 were refused", || {
        streams.iter().filter(|stream| at_once(stream)).count() == 8
    });
    assert_eq!((fixture.lookups(), echo.total.load(Ordering::SeqCst)), (0, 0), "before the answer");
    streams.retain(|stream| !at_once(stream));
    user.answer.send_replace(Some(true));
    for mut stream in streams {
        assert_eq!(read_exactly(&mut stream, GRANTED.len()), GRANTED);
    }
    // Later ones do not ask, and do not wait.
    assert_eq!(read_exactly(&mut send_connect(&fixture, &target), GRANTED.len()), GRANTED);
    assert_eq!(user.asked(), [target.as_str()]);
    drop(call);
    let after = fixture.tunnel_to(&target);
    assert!(after.contains("no rule allows this host"), "{after}");
    let rows = fixture.end();
    let answered = |answer: Option<&str>| {
        rows.iter()
            .filter_map(|row| row.decision.as_ref())
            .filter(|decision| decision.answered.as_deref() == answer)
            .count()
    };
    assert_eq!((rows.len(), answered(Some("test: true")), answered(None)), (42, 32, 10));
}

#[test]
fn questions_of_call_are_bounded() {
    for (answer, most) in [(false, 3), (true, 16)] {
        let mut fixture = proxy(&[]);
        let user = TestUser::new(Some(answer));
        let call = user.attend(&fixture, NetworkScope::Allowed);
        for batch in 0..50 {
            let streams: Vec<TcpStream> = (0..20)
                .map(|number| send_connect(&fixture, &format!("h{batch}-{number}.test:443")))
                .collect();
            for mut stream in streams {
                let reply = read_to_end(&mut stream);
                assert!(reply.starts_with("HTTP/1.1 403") || answer, "{reply}");
            }
        }
        assert_eq!(user.asked().len(), most, "{answer}");
        drop(call);
        assert_eq!(fixture.end().len(), 1_000);
    }
}

#[test]
fn addresses_are_checked_after_answer() {
    let echo = EchoServer::default();
    let port = echo.serve();
    // The first answer is that of the first lookup, which is the only one.
    let mut fixture = proxy(&[
        ("rebound.test", "127.0.0.1"),
        ("rebound.test", "10.0.0.1"),
        ("metadata.test", "169.254.169.254"),
        ("private.test", "10.0.0.1"),
        ("both.test", "127.0.0.1 10.0.0.1"),
    ]);
    let user = TestUser::new(Some(true));
    let _call = user.attend(&fixture, NetworkScope::Allowed);
    let mut stream = send_connect(&fixture, &format!("rebound.test:{port}"));
    assert_eq!(read_exactly(&mut stream, GRANTED.len()), GRANTED);
    assert_eq!(fixture.lookups(), 1);
    let rebound = fixture.tunnel_to(&format!("rebound.test:{port}"));
    assert!(rebound.contains("it resolves to 10.0.0.1, a private network"), "{rebound}");
    for (host, reason) in [
        ("metadata.test", "it resolves to 169.254.169.254, a cloud metadata service"),
        ("private.test", "it resolves to 10.0.0.1, a private network"),
        ("both.test", "and also to public ones"),
    ] {
        let reply = fixture.tunnel_to(&format!("{host}:{port}"));
        assert!(reply.contains(reason), "{reply}");
    }
    assert_eq!(user.asked().len(), 4);
    assert_eq!(echo.total.load(Ordering::SeqCst), 1);
    drop(stream);
    let rows = fixture.end();
    let row =
        |host: &str| rows.iter().find(|row| row.title.as_ref().unwrap().starts_with(host)).unwrap();
    let denied = row("metadata.test").decision.as_ref().unwrap();
    assert_eq!((&*denied.verdict, denied.answered.as_deref()), ("deny", Some("test: true")));
}

#[test]
fn host_that_yes_would_not_open_is_not_asked_about() {
    let rules = ["deny WebFetch(domain:*.denied.test)", "deny WebFetch(domain:93.184.216.34)"];
    let rules = rules.map(str::to_owned).to_vec();
    let mut fixture = ProxySetup { rules, strict: true, ..ProxySetup::default() }.start();
    let user = TestUser::new(Some(true));
    let _call = user.attend(&fixture, NetworkScope::Allowed);
    for target in [
        "a.denied.test:443",
        "localhost:80",
        "metadata.google.internal:80",
        "127.0.0.1:80",
        "[::1]:80",
        "[::ffff:127.0.0.1]:80",
        "0x7f000001:80",
        "10.0.0.1:443",
        "169.254.169.254:80",
        "93.184.216.34:443",
    ] {
        let reply = fixture.tunnel_to(target);
        assert!(reply.starts_with("HTTP/1.1 403"), "{target}: {reply}");
    }
    assert_eq!(user.asked(), [""; 0]);
    assert_eq!(fixture.end().len(), 10);
}

#[test]
fn question_names_host_as_rules_compare_it() {
    let port = EchoServer::default().serve();
    let fixture = proxy(&[("xn--bcher-kva.test", "127.0.0.1")]);
    let user = TestUser::new(Some(true));
    let _call = user.attend(&fixture, NetworkScope::Allowed);
    // Neither control characters, nor letters that look like others, nor a second line.
    for odd in
        ["a\u{202e}b.test", "a\tb.test", "ｇithub.test", "a..test", "a%2eb.test", "a\u{0}b.test"]
    {
        let reply = fixture.tunnel_to(&format!("{odd}:{port}"));
        assert!(reply.starts_with("HTTP/1.1 400"), "{odd:?}: {reply}");
    }
    for same in ["bücher.test", "BÜCHER.test.", "xn--bcher-kva.TEST"] {
        let mut stream = send_connect(&fixture, &format!("{same}:{port}"));
        assert_eq!(read_exactly(&mut stream, GRANTED.len()), GRANTED, "{same}");
    }
    // An address in any spelling is one host.
    for same in ["127.0.0.1", "0x7f.1", "[::ffff:127.0.0.1]"] {
        let mut stream = send_connect(&fixture, &format!("{same}:{port}"));
        assert_eq!(read_exactly(&mut stream, GRANTED.len()), GRANTED, "{same}");
    }
    let expected = [format!("xn--bcher-kva.test:{port}"), format!("127.0.0.1:{port}")];
    assert_eq!(user.asked(), expected);
}

#[test]
fn answer_covers_web_ports_or_one_other_port() {
    let mut fixture = proxy(&[]);
    let user = TestUser::new(Some(true));
    let scope = NetworkScope::Hosts([HostName::from_host("named.test").unwrap()].into());
    let _call = user.attend(&fixture, scope);
    for target in
        ["named.test:443", "named.test:80", "named.test:22", "named.test:23", "b.test:443"]
    {
        fixture.tunnel_to(target);
        fixture.tunnel_to(target);
    }
    let asked = ["named.test:443", "named.test:22", "named.test:23", "b.test:443"];
    assert_eq!(user.asked(), asked);
    let is_grantable: Vec<bool> =
        user.questions.lock().unwrap().iter().map(|question| question.is_grantable).collect();
    // A grant opens no other port, and no host that the line does not name.
    assert_eq!(is_grantable, [true, false, false, false]);
    fixture.end();
}

#[test]
fn client_that_gives_up_ends_its_wait_and_not_the_question() {
    let port = EchoServer::default().serve();
    let mut fixture = proxy(&[("a.test", "127.0.0.1")]);
    let user = TestUser::new(None);
    let call = user.attend(&fixture, NetworkScope::Allowed);
    let other = fixture.egress().attribute(new_call_id(), &[], NetworkScope::Allowed, None);
    let target = format!("a.test:{port}");
    drop(send_connect(&fixture, &target));
    wait_until("it was not asked", || user.asked().len() == 1);
    assert_eq!(user.questions.lock().unwrap()[0].other_calls, 1);
    let mut retry = send_connect(&fixture, &target);
    user.answer.send_replace(Some(true));
    assert_eq!(read_exactly(&mut retry, GRANTED.len()), GRANTED);
    retry.shutdown(Shutdown::Write).unwrap();
    assert_eq!(read_to_end(&mut retry), " bye");
    assert_eq!(user.asked().len(), 1);
    drop((call, other));
    let rows = fixture.end();
    let mut statuses: Vec<&str> = rows.iter().map(|row| &*row.status).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, ["cancelled", "ok"]);
}
