//! `zero ports`: what listens in the networks of sandboxes, and forwarding it to this machine.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::gateway_process::wait_for_child;
use crate::test_program::TestProgram;

/// A server that answers each connection with the line that it got.
const SERVER: &str = r#"perl -MIO::Socket::INET -e '
$server = IO::Socket::INET->new(Listen => 5, LocalAddr => "127.0.0.1", LocalPort => 5173) or die $!;
while ($client = $server->accept) { $line = <$client>; print $client "sandbox $line"; close $client }'"#;
/// How long a server may take to start on a busy machine.
const START_MAX: Duration = Duration::from_secs(60);

/// Starts the server as a job of the session `s`, and returns its port as `zero ports` lists it.
fn start_server(zero: &TestProgram) -> Value {
    let input = json!({"command": SERVER, "run_in_background": true});
    let seen = zero.run(&["run", "--yes", "--session", "s", &format!("/Bash {input}")]);
    assert!(seen.starts_with("exit 0\n"), "{seen}");
    let until = Instant::now() + START_MAX;
    loop {
        if let Some(port) = list(zero, &[]).first() {
            return port.clone();
        }
        assert!(Instant::now() < until, "the server starts: {}", zero.stdout(&["jobs", "list"]));
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn list(zero: &TestProgram, args: &[&str]) -> Vec<Value> {
    let listed = zero.stdout(&[&["ports", "--json"], args].concat());
    let listed: Value = serde_json::from_str(&listed).unwrap();
    listed["ports"].as_array().unwrap().clone()
}

/// The server's answer on a port of this machine.
fn ask(port: u16) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(b"hello\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// Starts to forward to any free port, and returns the process and the port.
fn forward(zero: &TestProgram) -> (Child, u16) {
    let args = ["ports", "forward", "5173", "--to", "0", "--yes"];
    let mut child = zero.command(&args).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let port = line.split("127.0.0.1:").nth(1).and_then(|rest| rest.split(' ').next());
    (child, port.unwrap_or_else(|| panic!("{line}")).parse().unwrap())
}

fn audit_rows(zero: &TestProgram) -> Vec<Value> {
    let rows = zero.stdout(&["audit", "tail", "--json", "-n", "100"]);
    let rows = rows.lines().map(|row| serde_json::from_str::<Value>(row).unwrap());
    rows.filter(|row| row["tool"] == "forward").collect()
}

#[test]
fn server_in_sandbox_is_listed_and_forwarded_until_interrupted() {
    let zero = TestProgram::new();
    let listed = start_server(&zero);
    assert_eq!((&listed["port"], &listed["address"]), (&json!(5173), &json!("127.0.0.1")));
    assert_eq!((&listed["job_id"], &listed["process"]), (&json!("job_1"), &json!("perl")));
    let session = listed["session"].as_str().unwrap();
    assert_eq!(list(&zero, &["--session", "s"]).len(), 1, "by its name");
    assert_eq!(list(&zero, &["--session", session]).len(), 1, "by its id");
    let table = zero.stdout(&["ports"]);
    assert!(table.contains("5173") && table.contains("job_1"), "{table}");
    assert!(table.contains(" s  ") && !table.contains(session), "its name, not its id: {table}");

    let (mut child, port) = forward(&zero);
    for _ in 0..3 {
        assert_eq!(ask(port), "sandbox hello\n");
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(wait_for_child(&mut child).code(), Some(0));
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err(), "nothing listens any more");

    let rows = audit_rows(&zero);
    assert_eq!(rows.len(), 2, "{rows:?}");
    let expected = json!({"job_id": "job_1", "port": 5173, "host_port": port});
    assert_eq!((&rows[0]["input"], &rows[0]["session"]), (&expected, &json!(session)));
    assert_eq!(rows[0]["decision"]["answered"], "--yes: allow once");
    let traffic = json!({"connections": 3, "sent_bytes": 18, "received_bytes": 42});
    assert_eq!(rows[1]["forward"], traffic);
    zero.stdout(&["audit", "verify"]);
    zero.stdout(&["jobs", "kill", "job_1"]);
}

#[test]
fn forwarding_is_refused_without_answer_or_free_port() {
    let zero = TestProgram::new();
    let seen = zero.run(&["ports", "forward", "5173", "--yes"]);
    assert!(seen.starts_with("exit 2\n") && seen.contains("no job listens on port 5173"), "{seen}");
    start_server(&zero);
    let seen = zero.run(&["ports", "forward", "5173", "--to", "0"]);
    assert!(seen.starts_with("exit 2\n") && seen.contains("pass --yes"), "{seen}");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let seen = zero.run(&["ports", "forward", "5173", "--to", &port, "--yes"]);
    assert!(seen.starts_with("exit 2\n") && seen.contains("is already in use"), "{seen}");
    assert!(audit_rows(&zero).is_empty());
    zero.stdout(&["jobs", "kill", "job_1"]);
}

#[test]
fn forwarding_ends_with_the_job() {
    let zero = TestProgram::new();
    start_server(&zero);
    let (mut child, port) = forward(&zero);
    assert_eq!(ask(port), "sandbox hello\n");
    zero.stdout(&["sessions", "delete", "s", "--yes"]);
    assert_eq!(wait_for_child(&mut child).code(), Some(0));
    assert_eq!(zero.stdout(&["ports"]), "no ports\n");
}
