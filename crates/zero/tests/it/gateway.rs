//! `zero gateway`, and commands that use it.

#![expect(clippy::disallowed_methods, reason = "tests use real files directly")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::config::{USER_FILE, write_file};
use crate::gateway_process::{GatewayProcess, send_signal};
use crate::model_server::ModelServer;
use crate::test_program::TestProgram;

const TOKEN_FILE: &str = "home/.local/state/zero/gateway.token";

pub(crate) fn http_get(gateway: &GatewayProcess, path: &str) -> String {
    let mut stream = TcpStream::connect(gateway.address()).unwrap();
    let host = gateway.address();
    let request = format!("GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn gateway_starts_answers_and_stops_on_signal() {
    let zero = TestProgram::new();
    let mut gateway = GatewayProcess::start(&zero);
    assert_eq!(gateway.ready["ready"], true);
    let mode = std::fs::metadata(zero.folder().join(TOKEN_FILE)).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    for (path, holds) in [("/healthz", "ok"), ("/readyz", "ready"), ("/metrics", "# TYPE zero_")] {
        let answer = http_get(&gateway, path);
        assert!(answer.starts_with("HTTP/1.1 200") && answer.contains(holds), "{path}: {answer}");
    }
    let wrong = "wrong-token-0123456789abcdef0123456789";
    write_file(&zero, "wrong", wrong);
    let args = ["sessions", "list", "--url", &gateway.url, "--token-file", "wrong"];
    let seen = zero.run(&args);
    assert!(seen.starts_with("exit 1") && seen.contains("not a token of this gateway"), "{seen}");
    assert!(!seen.contains(wrong), "{seen}");
    assert_eq!(seen.matches("was started with").count(), 1, "advice is given once: {seen}");
    send_signal(&zero, "TERM", gateway.id());
    assert_eq!(gateway.wait_for_exit().code(), Some(0));
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let seen = zero.run(&["gateway", "--port", &port]);
    assert!(seen.starts_with("exit 2") && seen.contains("choose another port"), "{seen}");
}

#[test]
fn second_gateway_on_same_store_is_refused() {
    let zero = TestProgram::new();
    let mut first = GatewayProcess::start(&zero);
    let token = std::fs::read_to_string(zero.folder().join(TOKEN_FILE)).unwrap();
    let seen = zero.run(&["gateway", "--port", "0", "--json"]);
    let who = format!("process {}, at `{}`; connect to it", first.id(), first.url);
    assert!(seen.starts_with("exit 2") && seen.contains(&who), "{seen}");
    assert!(!seen.contains("ready"), "{seen}");
    // A gateway that was killed does not block the next, which has the same token.
    first.kill();
    let _second = GatewayProcess::start(&zero);
    let now = std::fs::read_to_string(zero.folder().join(TOKEN_FILE)).unwrap();
    assert_eq!(now, token);
}

#[test]
fn gateways_that_start_at_once_leave_one_with_its_token() {
    let zero = TestProgram::new();
    let start = || {
        let mut gateway = zero.command(&["gateway", "--port", "0", "--json"]);
        gateway.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let mut started: Vec<_> = (0..4).map(|_| start()).collect();
    let mut ready = 0;
    for gateway in &mut started {
        let mut line = String::new();
        let mut out = BufReader::new(gateway.stdout.take().unwrap());
        out.read_line(&mut line).unwrap();
        if line.is_empty() {
            assert_eq!(gateway.wait().unwrap().code(), Some(2));
            continue;
        }
        ready += 1;
        // The token in the file is the one that the only gateway accepts.
        let url = serde_json::from_str::<Value>(&line).unwrap()["url"].as_str().unwrap().to_owned();
        let seen = zero.run(&["sessions", "list", "--url", &url]);
        assert!(seen.starts_with("exit 0"), "{seen}");
    }
    for gateway in &mut started {
        let _ = gateway.kill();
        gateway.wait().unwrap();
    }
    assert_eq!(ready, 1);
}

#[test]
fn remote_clients_need_token_and_tls() {
    let zero = TestProgram::new();
    let seen = zero.run(&["gateway", "--bind", "0.0.0.0", "--port", "0"]);
    let missing = "error: `0.0.0.0:0` can be reached from other machines, so clients need a token or password; pass `--token-file` or `--password-file`, or set `gateway.tokens`";
    assert!(seen.starts_with("exit 2") && seen.contains(missing), "{seen}");
    write_file(&zero, "token", "token-0123456789abcdef0123456789abcdef");
    let seen = zero.run(&["gateway", "--bind", "0.0.0.0", "--port", "0", "--token-file", "token"]);
    assert!(seen.starts_with("exit 2") && seen.contains("TLS"), "{seen}");
    assert!(seen.contains("`--allow-plaintext`"), "{seen}");
    let seen = zero.run(&["sessions", "list", "--url", "ws://192.0.2.1", "--token-file", "token"]);
    assert!(seen.starts_with("exit 1") && seen.contains("`--allow-plaintext`"), "{seen}");
    let schema: Value = serde_json::from_str(&zero.stdout(&["gateway", "schema"])).unwrap();
    assert!(schema.is_object());
}

#[test]
fn settings_name_gateway_and_hide_token() {
    let (there, here, model) = (TestProgram::new(), TestProgram::new(), ModelServer::start());
    write_file(&there, USER_FILE, model.settings_json(json!({})));
    let gateway = GatewayProcess::start(&there);
    let token = std::fs::read_to_string(there.folder().join(TOKEN_FILE)).unwrap();
    here.stdout(&["config", "set", "gateway.remote.url", &gateway.url]);
    here.stdout(&["config", "set", "gateway.remote.token", token.trim()]);
    let listed = here.stdout(&["config", "list"]);
    assert!(listed.contains(&gateway.url) && !listed.contains(token.trim()), "{listed}");
    assert_eq!(here.stdout(&["run", "--session", "far", "hi"]), "Hello from the model.\n");
    assert!(here.stdout(&["sessions", "list"]).contains("agent:main:far"));
    assert!(there.stdout(&["sessions", "list"]).contains("agent:main:far"));
}

#[test]
fn tools_run_at_client_under_its_rules() {
    let (there, here, model) = (TestProgram::new(), TestProgram::new(), ModelServer::start());
    let allow = json!({"permissions": {"allow": ["Write(made.txt)"]}});
    let deny = json!({"permissions": {"deny": ["Write(made.txt)"]}});
    write_file(&there, USER_FILE, model.settings_json(allow.clone()));
    let gateway = GatewayProcess::start(&there);
    let token = std::fs::read_to_string(there.folder().join(TOKEN_FILE)).unwrap();
    write_file(&here, "token", token);
    let args = ["run", "--yes", "--url", &gateway.url, "--token-file", "token", "[write]"];
    write_file(&here, USER_FILE, deny.to_string());
    let seen = here.run(&args);
    assert!(seen.starts_with("exit 3") && seen.contains("⊘ Write"), "{seen}");
    let made = |zero: &TestProgram| zero.folder().join("made.txt").exists();
    assert!(!made(&here) && !made(&there));
    write_file(&here, USER_FILE, allow.to_string());
    write_file(&there, USER_FILE, model.settings_json(deny));
    let seen = here.run(&args);
    assert!(seen.starts_with("exit 0"), "{seen}");
    assert!(made(&here) && !made(&there), "the gateway never does it");
}

#[test]
fn reserved_token_name_is_refused() {
    let zero = TestProgram::new();
    for (name, why) in [
        ("this machine", "the name `this machine` is reserved"),
        ("Password", "the name `password` is reserved"),
        ("this\u{200b}machine", "U+200B"),
    ] {
        let token = json!({"secret": {"env": "HOME"}, "scopes": ["read"]});
        write_file(&zero, USER_FILE, json!({"gateway": {"tokens": {name: token}}}).to_string());
        let seen = zero.run(&["gateway", "--port", "0"]);
        assert!(seen.starts_with("exit 2") && seen.contains(why), "{seen}");
        assert!(zero.run(&["doctor"]).contains(why));
    }
}

/// The soft and the hard limit for open files of a process.
fn open_files_limits(process: u32) -> (String, String) {
    let limits = std::fs::read_to_string(format!("/proc/{process}/limits")).unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    let mut words = line.split_whitespace().skip(3).map(str::to_owned);
    (words.next().unwrap(), words.next().unwrap())
}

fn child_processes(process: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let children = tasks.map(|task| task.unwrap().path().join("children"));
    let children = children.map(|file| std::fs::read_to_string(file).unwrap_or_default());
    let children = children.collect::<Vec<_>>().join(" ");
    children.split_whitespace().map(|child| child.parse().unwrap()).collect()
}

#[test]
fn gateway_raises_fd_limit_and_reports_exhaustion() {
    let (zero, model) = (TestProgram::outside_tmp(), ModelServer::start());
    write_file(&zero, USER_FILE, model.settings_json(json!({"permissions": {"allow": ["Bash"]}})));
    let gateway = GatewayProcess::start_below_limit(&zero, "ulimit -Sn 100; ulimit -Hn 160");
    assert_eq!(open_files_limits(gateway.id()), ("160".to_owned(), "160".to_owned()));
    let room = gateway.ready["connectionsMax"].as_u64().unwrap();
    assert_eq!(room, 72);
    let upgrade = format!(
        "GET / HTTP/1.1\r\nhost: {}\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
         sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        gateway.address()
    );
    // Strangers are few; what fits beside them is taken by those who said who they are.
    let token = std::fs::read_to_string(zero.folder().join(TOKEN_FILE)).unwrap();
    let mut clients = Vec::new();
    for _ in 0..room {
        let mut stream = TcpStream::connect(gateway.address()).unwrap();
        stream.write_all(upgrade.as_bytes()).unwrap();
        assert!(read_head(&mut stream).starts_with("HTTP/1.1 101"));
        stream.write_all(&connect_frame(token.trim())).unwrap();
        read_until(&mut stream, b"hello-ok");
        clients.push(stream);
    }
    let mut one_too_many = TcpStream::connect(gateway.address()).unwrap();
    one_too_many.write_all(upgrade.as_bytes()).unwrap();
    let answer = read_head(&mut one_too_many);
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    // Others are heard all the same.
    assert!(http_get(&gateway, "/readyz").starts_with("HTTP/1.1 200"));
    // What it starts has the limit from before.
    let client = clients.last_mut().unwrap();
    let params = json!({"sessionKey": "main", "message": "/bash true", "idempotencyKey": "run-1"});
    client.write_all(&request_frame("chat.send", &params)).unwrap();
    read_until(client, b"\"state\":\"final\"");
    let children = child_processes(gateway.id());
    assert!(!children.is_empty());
    for child in children {
        assert_eq!(open_files_limits(child).0, "100");
    }
}

/// The head of an answer.
fn read_head(stream: &mut TcpStream) -> String {
    let head = read_until(stream, b"\r\n\r\n");
    String::from_utf8_lossy(&head).into_owned()
}

/// Reads until these bytes have come.
fn read_until(stream: &mut TcpStream, wanted: &[u8]) -> Vec<u8> {
    stream.set_read_timeout(Some(crate::gateway_process::TIMEOUT)).unwrap();
    let mut read = Vec::new();
    let mut byte = [0];
    while !read.ends_with(wanted) {
        stream.read_exact(&mut byte).unwrap();
        read.extend(byte);
    }
    read
}

/// A client that has sent a prompt to a session whose tools run with the gateway.
pub(crate) fn send_prompt(zero: &TestProgram, gateway: &GatewayProcess, text: &str) -> TcpStream {
    let upgrade = format!(
        "GET / HTTP/1.1\r\nhost: {}\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
         sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        gateway.address()
    );
    let token = std::fs::read_to_string(zero.folder().join(TOKEN_FILE)).unwrap();
    let mut stream = TcpStream::connect(gateway.address()).unwrap();
    stream.write_all(upgrade.as_bytes()).unwrap();
    assert!(read_head(&mut stream).starts_with("HTTP/1.1 101"));
    stream.write_all(&connect_frame(token.trim())).unwrap();
    read_until(&mut stream, b"hello-ok");
    let params = json!({"sessionKey": "main", "message": text, "idempotencyKey": "run-1"});
    stream.write_all(&request_frame("chat.send", &params)).unwrap();
    stream
}

/// A `connect` with this token.
fn connect_frame(token: &str) -> Vec<u8> {
    let client = json!({"id": "cli", "version": "1", "platform": "linux", "mode": "cli"});
    let params = json!({
        "minProtocol": 4, "maxProtocol": 4, "client": client, "role": "operator",
        "auth": {"token": token},
    });
    request_frame("connect", &params)
}

/// A request as a masked text frame. The mask is all zeros, which leaves the text as it is.
fn request_frame(method: &str, params: &Value) -> Vec<u8> {
    let text = json!({"type": "req", "id": "1", "method": method, "params": params});
    // A shorter one would say its length otherwise.
    let text = format!("{:<126}", text.to_string());
    let length = u16::try_from(text.len()).unwrap().to_be_bytes();
    [&[0x81, 0x80 | 126, length[0], length[1], 0, 0, 0, 0], text.as_bytes()].concat()
}

#[test]
fn each_start_names_token_and_end_is_announced() {
    let zero = TestProgram::new();
    for start in ["first", "second"] {
        let mut command = zero.command(&["gateway", "--port", "0"]);
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut reader = BufReader::new(child.stderr.take().unwrap());
        let mut text = String::new();
        while !text.contains("press Ctrl-C to stop it") {
            let read = reader.read_line(&mut text).unwrap();
            assert_ne!(read, 0, "{start}: {text}");
        }
        assert!(text.contains("/zero/gateway.token\n"), "{start}: {text}");
        assert!(text.contains("to use it, pass `--url ws://127.0.0.1:"), "{start}: {text}");
        let pid = child.id().to_string();
        let signal = zero.external_command("kill").args(["-INT", &pid]).status().unwrap();
        assert!(signal.success());
        reader.read_to_string(&mut text).unwrap();
        assert!(text.contains("note: stopping; active runs have"), "{start}: {text}");
        assert!(text.ends_with("note: stopped\n"), "{start}: {text}");
        assert!(child.wait().unwrap().success(), "{start}");
    }
}
