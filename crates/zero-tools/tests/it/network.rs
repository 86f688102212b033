//! Network access of the commands of a session.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use zero_exec::egress::HostResolver;
use zero_policy::rule::{PolicyRule, RuleOwner, RuleSource};
use zero_policy::{HostName, HostPattern, PolicyEngine, PolicyEngineConfig, Verdict};
use zero_runtime::audit::AuditRow;
use zero_runtime::audit::verification::VerifyOptions;
use zero_runtime::tool::BoxFuture;
use zero_runtime::{
    ApprovalAnswer, ApprovalQuestion, Approver, CommandNetwork, CommandSettings, ResolverConfig,
    RulePolicy,
};

use crate::fixture::{ToolFixture, command_facts, refuse_connections, result_text};

/// In a program whose effects are not known: one that is known to only read has no network.
const SHOW_NETWORK_NAMESPACE: &str =
    r#"python3 -c 'import os; print(os.readlink("/proc/self/ns/net"))'"#;
/// Fetches a URL from the environment, so that the host is unknown before the command runs.
const FETCH_COMMAND: &str = "curl -sS -m 20 \"$URL\"";

/// Creates a session with these network settings.
fn network_session(network: &[&str]) -> ToolFixture {
    session_with_rules(&[], network)
}

/// The same with rules such as `allow WebFetch(domain:a.test)`. Every name resolves to loopback,
/// which counts as a public address.
pub(crate) fn session_with_rules(rules: &[&str], network: &[&str]) -> ToolFixture {
    session_with_approver(rules, network, Arc::new(HostApprover))
}

/// The same with another approver.
pub(crate) fn session_with_approver(
    rules: &[&str],
    network: &[&str],
    approver: Arc<dyn Approver>,
) -> ToolFixture {
    let rule = |text: &&str| {
        let (verdict, text) = text.split_once(' ').unwrap();
        let verdict = Verdict::ALL.into_iter().find(|known| known.as_str() == verdict).unwrap();
        let source = RuleSource { name: "test".to_owned(), line: None, owner: RuleOwner::User };
        PolicyRule::parse(text, verdict, source).unwrap()
    };
    let rules = rules.iter().map(rule).collect();
    let engine = PolicyEngine::new(PolicyEngineConfig { rules, ..PolicyEngineConfig::default() });
    let hosts = network.iter().map(|host| HostPattern::parse(host).unwrap()).collect();
    let network = CommandNetwork { hosts };
    ToolFixture::session_with_host(|config| {
        config.approver = Some(approver);
        config.policy = Arc::new(RulePolicy::new(engine, Vec::new()));
        config.commands = CommandSettings { network, ..CommandSettings::default() };
        config.internet = ResolverConfig {
            resolver: Arc::new(LoopbackResolver),
            inside: private_except_loopback,
        };
    })
}

/// Allows everything once, and one host for the session.
struct HostApprover;

impl Approver for HostApprover {
    fn name(&self) -> &str {
        "test"
    }

    fn unreachable_hint(&self, question: &ApprovalQuestion) -> Option<String> {
        refuse_connections(question)
    }

    fn ask<'a>(&'a self, question: &'a ApprovalQuestion) -> BoxFuture<'a, ApprovalAnswer> {
        let stands = question.grants.iter().any(|grant| grant.rule.contains("domain:kept.test"));
        let answer = if stands { ApprovalAnswer::AllowSession } else { ApprovalAnswer::AllowOnce };
        Box::pin(std::future::ready(answer))
    }
}

struct LoopbackResolver;

impl HostResolver for LoopbackResolver {
    fn resolve(&self, _: &str) -> std::io::Result<Vec<IpAddr>> {
        Ok(vec![IpAddr::from([127, 0, 0, 1])])
    }
}

fn private_except_loopback(address: IpAddr) -> Option<&'static str> {
    HostName::from_address(address).private_reason().filter(|_| !address.is_loopback())
}

/// An HTTP server on loopback that answers `hello`, and counts connections.
#[derive(Clone, Default)]
pub(crate) struct CountingServer {
    present: Arc<AtomicUsize>,
}

impl CountingServer {
    pub(crate) fn start(&self) -> u16 {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let present = Arc::clone(&self.present);
        std::thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                let present = Arc::clone(&present);
                std::thread::spawn(move || {
                    present.fetch_add(1, Ordering::SeqCst);
                    let mut part = [0; 4096];
                    while let Ok(count @ 1..) = stream.read(&mut part) {
                        if part[..count].ends_with(b"\r\n\r\n") {
                            let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
                            let _ = stream.write_all(answer);
                        }
                    }
                    present.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        port
    }
}

pub(crate) async fn run_bash(f: &ToolFixture, command: &str) -> String {
    result_text(&f.call("Bash", json!({"command": command})).await.unwrap())
}

pub(crate) async fn run_fetch(f: &ToolFixture, url: &str) -> Value {
    let input = json!({"command": FETCH_COMMAND, "env": {"URL": url}});
    command_facts(f.call("Bash", input).await.unwrap())
}

/// Runs a script, whose content is not analyzed before it runs.
pub(crate) async fn run_script(f: &ToolFixture, text: &str) -> String {
    f.write_file("script", text);
    run_bash(f, "bash script").await
}

/// Waits until a condition holds.
pub(crate) async fn wait_until(what: &str, mut happened: impl AsyncFnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    while !happened().await {
        assert!(Instant::now() < until, "{what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Returns the connections in the audit log, by host and port.
pub(crate) fn connection_rows(f: &ToolFixture, target: &str) -> Vec<AuditRow> {
    let mut rows = Vec::new();
    for day in f.host.audit().days().unwrap() {
        f.host.audit().open_day(&day).unwrap().for_each_row(|row| rows.push(row)).unwrap();
    }
    rows.retain(|row| row.tool == "connection" && row.title.as_deref() == Some(target));
    rows
}

#[track_caller]
pub(crate) fn verify_audit_chain(f: &ToolFixture) {
    let verified = f.host.audit().verify(&VerifyOptions::default(), |_| {}).unwrap();
    assert!(verified.findings.is_empty(), "{:?}", verified.findings);
}

#[tokio::test]
async fn only_hosts_in_settings_are_reached() {
    let port = CountingServer::default().start();
    let f = network_session(&[&format!("a.test:{port}")]);
    assert_eq!(run_fetch(&f, &format!("http://a.test:{port}/")).await["stdout"], "hello");
    let tunnel = "curl -sS -m 20 --proxytunnel \"$URL\"";
    let input = json!({"command": tunnel, "env": {"URL": format!("http://a.test:{port}/")}});
    let tunnelled = command_facts(f.call("Bash", input).await.unwrap());
    assert_eq!(tunnelled["stdout"], "hello", "{tunnelled}");

    let refused = run_fetch(&f, "http://b.test/secret").await;
    let note = "network: b.test:80 was refused: no rule allows this host; to allow it: zero config add permissions.allow 'WebFetch(domain:b.test)'";
    assert_eq!(refused["notes"], json!([note]), "{refused}");
    let answer = refused["stdout"].as_str().unwrap();
    assert!(answer.starts_with("zero: no connection to b.test port 80"), "{answer}");
    let text = run_script(&f, "for n in 1 2 3; do curl -s c$n.test c$n.test; done; true").await;
    assert_eq!(text.matches("(network: c2.test:80 was refused").count(), 1, "{text}");
    let quiet = command_facts(f.call("Bash", json!({"command": "true"})).await.unwrap());
    assert_eq!(quiet.get("notes"), None, "what was refused before is not told again");
    let past = "curl -sS -m 5 --noproxy '*' http://192.0.2.1/ 2>/dev/null || echo no";
    let past = run_script(&f, past).await;
    assert_eq!(past, "no\n");

    f.open_session().end();
    let rows = connection_rows(&f, "b.test:80");
    assert_eq!(rows.len(), 1);
    assert_eq!((&*rows[0].status, rows[0].session.as_deref()), ("denied", Some("test")));
    assert!(rows[0].connection.as_ref().unwrap().of_call.is_some());
    let rows = connection_rows(&f, &format!("a.test:{port}"));
    assert!(rows.len() == 2 && rows.iter().all(|row| row.status == "ok"), "{rows:?}");
    verify_audit_chain(&f);
}

#[tokio::test]
async fn proxy_variables_are_set_when_hosts_are_allowed() {
    let variables = "env | grep -i proxy | sort";
    let expected = [
        "ALL_PROXY=socks5h://127.0.0.1:3128",
        "HTTPS_PROXY=http://127.0.0.1:3128",
        "HTTP_PROXY=http://127.0.0.1:3128",
        "NODE_USE_ENV_PROXY=1",
        "NO_PROXY=localhost,127.0.0.1,::1",
        "all_proxy=socks5h://127.0.0.1:3128",
        "http_proxy=http://127.0.0.1:3128",
        "https_proxy=http://127.0.0.1:3128",
        "no_proxy=localhost,127.0.0.1,::1",
    ];
    for f in
        [network_session(&["a.test"]), session_with_rules(&["allow WebFetch(domain:a.test)"], &[])]
    {
        assert_eq!(run_script(&f, variables).await.lines().collect::<Vec<_>>(), expected);
        assert_eq!(run_bash(&f, variables).await, "(no output)", "it is known to only read");
    }
    let f = network_session(&[]);
    assert_eq!(run_bash(&f, variables).await, "(no output)");
}

#[tokio::test]
async fn network_is_closed_by_default() {
    // The session's own loopback, on which nothing listens, and no way out of it.
    let connect = "exec 3<>/dev/tcp/127.0.0.1/9";
    for rules in [&[][..], &["deny WebFetch(domain:a.test)", "ask WebFetch", "allow Bash(ls)"]] {
        let f = session_with_rules(rules, &[]);
        let answer = run_script(&f, connect).await;
        assert!(answer.contains("Connection refused"), "{answer}");
        let answer = run_script(&f, "exec 3<>/dev/tcp/192.0.2.1/9").await;
        assert!(answer.contains("Network is unreachable"), "{answer}");
        let answer = run_fetch(&f, "http://a.test/").await;
        assert_ne!(answer["exit_code"], 0);
        let note = "network: commands have no network access; to allow a.test: zero config add sandbox.network a.test";
        assert_eq!(answer["notes"], json!([note]), "{answer}");
        let answer = run_bash(&f, "echo mismatched types; exit 1").await;
        assert!(!answer.contains("network:"), "{answer}");
    }
}

/// An HTTP server on loopback that redirects every request.
fn start_redirecting_server(location: impl Fn(u16) -> String + Send + 'static) -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let location = location(port);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut part = [0; 4096];
            let _ = stream.read(&mut part);
            let answer = format!(
                "HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            );
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    port
}

#[tokio::test]
async fn command_reaches_only_hosts_that_its_line_names() {
    let port = start_redirecting_server(|port| format!("http://b.test:{port}/next"));
    let f = network_session(&[&format!("*.test:{port}")]);
    let fetch = |more: &str| format!("curl -sSL --max-redirs 1 -m 20 http://a.test:{port}/{more}");
    let answer = command_facts(f.call("Bash", json!({"command": fetch("")})).await.unwrap());
    let note = format!(
        "network: b.test:{port} was refused: the command line does not name this host; name it there, or request network access (`\"network_access\": true`)"
    );
    assert_eq!(answer["notes"], json!([note]), "{answer}");
    for input in [
        json!({"command": fetch(""), "network_access": true}),
        json!({"command": fetch(&format!(" http://b.test:{port}/"))}),
    ] {
        let answer = command_facts(f.call("Bash", input).await.unwrap());
        assert_eq!(answer.get("notes"), None, "{answer}");
        assert!(answer["stderr"].as_str().unwrap().contains("redirects followed"), "{answer}");
    }
    f.open_session().end();
    let rows = connection_rows(&f, &format!("b.test:{port}"));
    let denied = rows.iter().filter(|row| row.status == "denied").count();
    assert_eq!((denied, rows.len() > 1), (1, true), "{rows:?}");
}

#[tokio::test]
async fn deny_rule_beats_settings() {
    let port = CountingServer::default().start();
    let rules = ["deny WebFetch(domain:b.test)", "ask WebFetch(domain:c.test)"];
    let f = session_with_rules(&rules, &[&format!("*.test:{port}")]);
    assert_eq!(run_fetch(&f, &format!("http://a.test:{port}/")).await["stdout"], "hello");
    for (host, reason) in [("b", "denies it"), ("c", "requires approval")] {
        let refused = run_fetch(&f, &format!("http://{host}.test:{port}/")).await;
        assert_ne!(refused["stdout"], "hello");
        let note = refused["notes"][0].as_str().unwrap();
        let begin = format!("network: {host}.test:{port} was refused: rule `WebFetch(domain:");
        assert!(note.starts_with(&begin) && note.contains(reason), "{note}");
    }
}

#[tokio::test]
async fn host_allowed_once_is_open_for_that_call() {
    let f = network_session(&[]);
    // The user is asked, and allows it once. The connection fails, which only an allowed command
    // can observe.
    let once = "curl -sS -m 20 http://once.test/; curl -sS -m 20 \"$URL\"; true";
    let input = json!({"command": once, "env": {"URL": "http://other.test/"}});
    let outcome = command_facts(f.call("Bash", input).await.unwrap());
    let notes = outcome["notes"].as_array().unwrap();
    assert_eq!(notes.len(), 1, "{outcome}");
    assert!(notes[0].as_str().unwrap().contains("other.test:80"), "{outcome}");
    let later = run_fetch(&f, "http://once.test/").await;
    assert!(later["stderr"].as_str().unwrap().contains("Could not resolve"), "{later}");
    f.open_session().end();
    let rows = connection_rows(&f, "once.test:80");
    assert_eq!(rows.len(), 1);
    let decision = rows[0].decision.as_ref().unwrap();
    assert_eq!((&*decision.verdict, decision.source.as_deref()), ("allow", Some("call")));
    assert_ne!(rows[0].status, "denied");
    verify_audit_chain(&f);
}

#[tokio::test]
async fn host_allowed_for_session_is_open_until_revoked() {
    let f = network_session(&[]);
    run_bash(&f, "curl -sS -m 20 http://kept.test/").await;
    let later = run_fetch(&f, "http://kept.test/").await;
    assert!(later["stdout"].as_str().unwrap().contains("could not connect"), "{later}");
    assert_eq!(later.get("notes"), None);
    assert!(f.open_session().revoke_all() > 0);
    let closed = run_fetch(&f, "http://kept.test/").await;
    assert!(closed["stderr"].as_str().unwrap().contains("Could not resolve"), "{closed}");
    f.open_session().end();
    let rows = connection_rows(&f, "kept.test:80");
    let sources = rows.iter().map(|row| row.decision.as_ref().unwrap().source.clone().unwrap());
    assert_eq!(sources.collect::<Vec<_>>(), ["grant", "grant"]);
}

#[tokio::test]
async fn job_reports_refusals_and_keeps_allowed_hosts() {
    let f = network_session(&[]);
    f.write_file("script", "for host in once other; do curl -s -m 20 $host.test; done; read line");
    let line = "curl -s -m 20 http://once.test/; read line; bash script";
    let start = json!({"command": line, "run_in_background": true});
    f.call("Bash", start).await.unwrap();
    f.call("BashOutput", json!({"job_id": "job_1", "stdin": "go\n"})).await.unwrap();
    let mut notes = Value::Null;
    wait_until("the job is refused", async || {
        let read = f.call("BashOutput", json!({"job_id": "job_1"})).await.unwrap();
        notes = read.result.structured["jobs"][0]["notes"].clone();
        notes.is_array()
    })
    .await;
    assert_eq!(notes.as_array().unwrap().len(), 1, "{notes}");
    assert!(notes[0].as_str().unwrap().contains("network: other.test:80"), "{notes}");
    f.call("BashKill", json!({"job_id": "job_1"})).await.unwrap();
    f.open_session().end();
    let rows = connection_rows(&f, "once.test:80");
    assert!(rows.len() == 2 && rows.iter().all(|row| row.status != "denied"), "{rows:?}");
}

#[tokio::test]
async fn error_reports_refused_hosts() {
    let f = network_session(&["a.test"]);
    f.write_file("script", "curl -s b.test; sleep 600");
    // A busy machine may need more time to get that far.
    let mut noted = String::new();
    for timeout in [3_000, 15_000, 60_000] {
        let input = json!({"command": "bash script", "timeout": timeout});
        let error = f.call("Bash", input).await.unwrap_err();
        noted = error.details["notes"][0].as_str().unwrap_or_default().to_owned();
        if !noted.is_empty() {
            break;
        }
    }
    assert!(noted.starts_with("network: b.test:80 was refused"), "{noted:?}");
}

#[tokio::test]
async fn session_commands_share_one_network() {
    let (one, other) = (network_session(&[]), network_session(&["a.test"]));
    let network = run_bash(&one, SHOW_NETWORK_NAMESPACE).await;
    assert!(network.starts_with("net:["), "{network}");
    assert_eq!(run_bash(&one, SHOW_NETWORK_NAMESPACE).await, network);
    assert_ne!(run_bash(&other, SHOW_NETWORK_NAMESPACE).await, network);
    // A host that is allowed once does not create another network.
    let once = format!("curl -s -m 20 http://once.test/ >/dev/null; {SHOW_NETWORK_NAMESPACE}");
    assert_eq!(run_bash(&one, &once).await, network);
    let host = std::fs::read_link("/proc/self/ns/net").unwrap();
    assert_ne!(host.to_str().unwrap(), network.trim());
}

#[tokio::test]
async fn server_is_reachable_from_next_command() {
    let f = network_session(&[]);
    f.write_file("page", "hello");
    let server = json!({"command": "exec python3 -m http.server 8123", "run_in_background": true});
    f.call("Bash", server).await.unwrap();
    let url = "http://localhost:8123/page";
    wait_until("the server answers", async || run_fetch(&f, url).await["stdout"] == "hello").await;
    let answer = run_fetch(&network_session(&[]), url).await;
    assert_eq!(answer["exit_code"], 7, "another session has no such server: {answer}");
}

#[tokio::test]
async fn server_is_reachable_within_its_command() {
    let line = "python3 -m http.server 8124 >log 2>&1 & server=$!; \
                curl -s --retry 50 --retry-delay 1 --retry-connrefused http://127.0.0.1:8124/page; kill $server";
    // In a session, and in a call without one.
    for f in [network_session(&[]), ToolFixture::one_shot()] {
        f.write_file("page", "hello");
        assert_eq!(run_script(&f, line).await, "hello");
    }
}

#[tokio::test]
async fn session_network_is_removed_at_end() {
    let server = CountingServer::default();
    let port = server.start();
    let f = network_session(&[&format!("a.test:{port}")]);
    // A connection that is never closed.
    let hold = format!(
        "exec 3<>/dev/tcp/127.0.0.1/3128; printf 'CONNECT a.test:{port} HTTP/1.1\\r\\n\\r\\n' >&3; cat <&3"
    );
    f.write_file("hold", hold);
    let start = json!({"command": "bash hold", "run_in_background": true});
    f.call("Bash", start).await.unwrap();
    wait_until("it is connected", async || server.present.load(Ordering::SeqCst) == 1).await;
    let proxies = || {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
        let names = tasks.map(|task| std::fs::read_to_string(task.path().join("comm")));
        names.flatten().filter(|name| name.starts_with("zero-egress")).count()
    };
    assert!(proxies() > 0);
    f.open_session().end();
    wait_until("the connection ends", async || server.present.load(Ordering::SeqCst) == 0).await;
    wait_until("the proxy ends", async || proxies() == 0).await;
    let reason = f.call_error("Bash", json!({"command": "true"})).await;
    assert!(reason.contains("the session is over"), "{reason}");
    let target = format!("a.test:{port}");
    assert_eq!(connection_rows(&f, &target).len(), 1);
    verify_audit_chain(&f);
}
