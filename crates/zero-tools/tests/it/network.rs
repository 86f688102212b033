//! Whom the commands of a session reach.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use zero_runtime::{CommandNetwork, CommandSettings, Door};

use crate::fixture::{Fixture, said};

const NETWORK: &str = "readlink /proc/self/ns/net";

fn session(network: CommandNetwork) -> Fixture {
    Fixture::session_with(CommandSettings { network, ..CommandSettings::default() })
}

async fn bash(f: &Fixture, command: &str) -> String {
    said(&f.call("Bash", json!({"command": command})).await.unwrap())
}

#[tokio::test]
async fn the_commands_of_a_session_are_in_one_network() {
    let (one, other) = (session(CommandNetwork::Loopback), session(CommandNetwork::Loopback));
    let network = bash(&one, NETWORK).await;
    assert!(network.starts_with("net:["), "{network}");
    assert_eq!(bash(&one, NETWORK).await, network);
    assert_ne!(bash(&other, NETWORK).await, network);
    let host = std::fs::read_link("/proc/self/ns/net").unwrap();
    assert_ne!(host.to_str().unwrap(), network.trim());
    let variables = bash(&one, "env | grep -ci proxy").await;
    assert_eq!(variables, "0\n(exit code 1)");
}

#[tokio::test]
async fn a_server_is_there_for_the_next_command() {
    let f = session(CommandNetwork::Loopback);
    f.put("page", "hello");
    let server = json!({"command": "exec python3 -m http.server 8123", "run_in_background": true});
    f.call("Bash", server).await.unwrap();
    let client = "curl -s http://localhost:8123/page";
    let until = Instant::now() + Duration::from_secs(10);
    loop {
        let answer = bash(&f, client).await;
        if answer == "hello" {
            break;
        }
        assert!(Instant::now() < until, "{answer}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let answer = bash(&session(CommandNetwork::Loopback), client).await;
    assert_eq!(answer, "(exit code 7)", "another session has no such server");
}

#[tokio::test]
async fn nothing_is_reached_unless_it_is_said() {
    let connect = "exec 3<>/dev/tcp/127.0.0.1/9";
    let answer = bash(&session(CommandNetwork::Nothing), connect).await;
    assert!(answer.contains("Operation not permitted"), "{answer}");
    let answer = bash(&session(CommandNetwork::Loopback), connect).await;
    assert!(answer.contains("Connection refused"), "{answer}");
    let answer = bash(&session(CommandNetwork::Loopback), "exec 3<>/dev/tcp/192.0.2.1/9").await;
    assert!(answer.contains("Network is unreachable"), "{answer}");
}

/// A proxy that answers every request with its first line.
#[derive(Debug)]
struct Proxy(tempfile::TempDir);

impl Proxy {
    fn start() -> Arc<Self> {
        let proxy = Self(tempfile::tempdir().unwrap());
        let socket = UnixListener::bind(proxy.0.path().join("proxy")).unwrap();
        std::thread::spawn(move || {
            for connection in socket.incoming().flatten() {
                let mut lines = BufReader::new(&connection).lines();
                let first = lines.next().unwrap().unwrap();
                while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
                let length = first.len();
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
                (&connection).write_all(format!("{head}{first}").as_bytes()).unwrap();
            }
        });
        Arc::new(proxy)
    }
}

impl Door for Proxy {
    fn socket(&self) -> io::Result<PathBuf> {
        Ok(self.0.path().join("proxy"))
    }
}

#[tokio::test]
async fn hosts_are_reached_through_the_proxy_and_not_else() {
    let f = session(CommandNetwork::Hosts(Proxy::start()));
    let answer = bash(&f, "curl -s http://example.test/page").await;
    assert_eq!(answer, "GET http://example.test/page HTTP/1.1");
    let answer = bash(&f, "curl -s --noproxy '*' http://192.0.2.1/ || echo no").await;
    assert_eq!(answer, "no\n");
    let variables = bash(&f, "env | grep -i proxy | sort").await;
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
    assert_eq!(variables.lines().collect::<Vec<_>>(), expected);
}

#[derive(Debug)]
struct Shut;

impl Door for Shut {
    fn socket(&self) -> io::Result<PathBuf> {
        Err(io::Error::other("the proxy does not start"))
    }
}

#[tokio::test]
async fn without_a_proxy_no_command_runs() {
    let f = session(CommandNetwork::Hosts(Arc::new(Shut)));
    let said = f.fail("Bash", json!({"command": "touch made"})).await;
    let expected = "io: there is no way to the hosts that commands may reach: the proxy does not \
                    start; try again, or allow none in the settings";
    assert_eq!(said, expected);
    assert!(!f.path("made").exists());
}
