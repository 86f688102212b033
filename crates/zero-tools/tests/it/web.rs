//! The web tools with well-behaved and with hostile servers.

mod blocked_targets;
mod fetch;
mod hostile_server;
mod request;
mod search;

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use zero_core::{ErrorType, ResultDisplay};
use zero_exec::egress::HostResolver;
use zero_policy::rule::{PolicyRule, RuleOwner, RuleSource};
use zero_policy::{HostName, PolicyEngine, PolicyEngineConfig, Verdict};
use zero_runtime::tool::BoxFuture;
use zero_runtime::{
    ApprovalAnswer, ApprovalQuestion, Approver, ResolverConfig, RulePolicy, ToolHost,
    ToolHostConfig,
};

use crate::fixture::{ToolFixture, result_text};

/// Writes the response to a request.
type ResponseScript = dyn Fn(&str, &mut TcpStream) + Send + Sync;

/// A local server with scripted responses, one request per connection.
struct ScriptedServer {
    port: u16,
    seen: Arc<Mutex<Vec<String>>>,
}

impl ScriptedServer {
    fn start(script: impl Fn(&str, &mut TcpStream) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (script, noted): (Arc<ResponseScript>, _) = (Arc::new(script), Arc::clone(&seen));
        std::thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                let (script, noted) = (Arc::clone(&script), Arc::clone(&noted));
                std::thread::spawn(move || {
                    let request = read_request(&mut stream);
                    noted.lock().unwrap().push(request.clone());
                    script(&request, &mut stream);
                });
            }
        });
        Self { port, seen }
    }

    /// Starts a server with a fixed response.
    fn serving(content_type: &str, body: impl AsRef<[u8]>) -> Self {
        let (content_type, body) = (content_type.to_owned(), body.as_ref().to_vec());
        Self::start(move |_, stream| {
            write_response(stream, "200 OK", &[("Content-Type", &content_type)], &body)
        })
    }

    fn url(&self, path: &str) -> String {
        format!("http://a.test:{}{path}", self.port)
    }

    fn requests(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }
}

/// Reads a whole request: its header, and the declared length of the body.
fn read_request(stream: &mut TcpStream) -> String {
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let (mut bytes, mut part) = (Vec::new(), [0; 4096]);
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
            });
            if body.len() >= length.unwrap_or(0_usize) {
                return text;
            }
        }
        match stream.read(&mut part) {
            Ok(count @ 1..) => bytes.extend(&part[..count]),
            _ => return text,
        }
    }
}

fn write_response(stream: &mut TcpStream, status: &str, headers: &[(&str, &str)], body: &[u8]) {
    let mut head =
        format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {}\r\n", body.len());
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    let _ = stream.write_all(head.as_bytes());
    let _ = stream.write_all(b"\r\n");
    let _ = stream.write_all(body);
}

/// Allows everything, and records the questions.
#[derive(Clone, Default)]
struct RecordingApprover(Arc<Mutex<Vec<(String, String)>>>);

impl Approver for RecordingApprover {
    fn name(&self) -> &str {
        "test"
    }

    fn ask<'a>(&'a self, question: &'a ApprovalQuestion) -> BoxFuture<'a, ApprovalAnswer> {
        let preview = match &question.preview {
            Some(ResultDisplay::Markdown { text }) => text.clone(),
            other => format!("{other:?}"),
        };
        let title =
            format!("{} ({}, {} grants)", question.title, question.risk, question.grants.len());
        self.0.lock().unwrap().push((title, preview));
        Box::pin(std::future::ready(ApprovalAnswer::AllowOnce))
    }
}

/// Resolves a few names. `rebinds.test` resolves to another address the second time.
#[derive(Default)]
struct TestResolver(AtomicUsize);

impl HostResolver for TestResolver {
    fn resolve(&self, name: &str) -> std::io::Result<Vec<IpAddr>> {
        let addresses: &[&str] = match name {
            "rebinds.test" => match self.0.fetch_add(1, Ordering::SeqCst) {
                0 => &["127.0.0.1"],
                _ => &["169.254.169.254"],
            },
            "intranet.test" => &["10.0.0.5"],
            "mixed.test" => &["127.0.0.1", "10.0.0.5"],
            "mapped.test" => &["::ffff:10.0.0.5"],
            "metadata.test" => &["169.254.169.254"],
            "nowhere.test" => return Err(std::io::Error::other("unknown")),
            _ => &["127.0.0.1"],
        };
        Ok(addresses.iter().map(|address| address.parse().unwrap()).collect())
    }
}

fn private_except_loopback(address: IpAddr) -> Option<&'static str> {
    HostName::from_address(address).private_reason().filter(|_| !address.is_loopback())
}

fn rule_policy(rules: &[&str]) -> Arc<RulePolicy> {
    let rule = |text: &&str| {
        let (verdict, text) = text.split_once(' ').unwrap();
        let verdict = Verdict::ALL.into_iter().find(|known| known.as_str() == verdict).unwrap();
        let source = RuleSource { name: "test".to_owned(), line: None, owner: RuleOwner::User };
        PolicyRule::parse(text, verdict, source).unwrap()
    };
    let rules = rules.iter().map(rule).collect();
    Arc::new(RulePolicy::new(
        PolicyEngine::new(PolicyEngineConfig { rules, ..PolicyEngineConfig::default() }),
        Vec::new(),
    ))
}

/// Creates a session in which loopback counts as public, unless it is written as an IP address.
fn web_session(rules: &[&str]) -> (ToolFixture, RecordingApprover) {
    web_session_with(rules, |_| {})
}

fn web_session_with(
    rules: &[&str],
    set_up: impl FnOnce(&mut ToolHostConfig),
) -> (ToolFixture, RecordingApprover) {
    let person = RecordingApprover::default();
    let asked = person.clone();
    let f = ToolFixture::session_with_host(|config| {
        config.approver = Some(Arc::new(asked));
        config.policy = rule_policy(rules);
        config.internet = ResolverConfig {
            resolver: Arc::new(TestResolver::default()),
            inside: private_except_loopback,
        };
        set_up(config);
    });
    (f, person)
}

/// Replaces a tool by one of the same name.
fn replace_tool(host: &ToolHost, tool: Arc<dyn zero_runtime::AnyTool>) {
    host.registry().remove(tool.spec().name.as_str());
    host.registry().add("builtin", vec![tool]).unwrap();
}

/// Returns the content of a page, without the marks around it and the notes after it.
async fn fetch_page(
    f: &ToolFixture,
    url: &str,
    prompt: &str,
) -> Result<String, zero_core::ToolError> {
    let outcome = f.call("WebFetch", json!({"url": url, "prompt": prompt})).await?;
    let text = outcome.result.structured["content"].as_str().unwrap().to_owned();
    assert_eq!(text, result_text(&outcome));
    let inner = text.split_once("]\n").unwrap().1.rsplit_once("\n[end of untrusted").unwrap().0;
    Ok(inner.to_owned())
}

#[track_caller]
fn check_error(error: &zero_core::ToolError, error_type: ErrorType, why: &str, row: &str) {
    assert_eq!(error.error_type, error_type, "{row}: {error}");
    assert!(error.message.contains(why), "{row}: {error}");
}

fn audit_text(f: &ToolFixture) -> String {
    let mut rows = String::new();
    for day in f.host.audit().days().unwrap() {
        let each = |row| rows.push_str(&serde_json::to_string(&row).unwrap());
        f.host.audit().open_day(&day).unwrap().for_each_row(each).unwrap();
    }
    rows
}

const ALLOW_RULE: &str = "allow WebFetch(domain:a.test)";

const API_KEY: &str = "sk-test-0123456789abcdef";
