//! Common programs through the proxy, as they connect from a sandbox: by a TCP port.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::egress_fixture::{ProxySetup, serve};

/// Runs a program with this port as its proxy.
fn run(door: u16, folder: &Path, line: &[&str]) -> Output {
    let (program, arguments) = line.split_first().unwrap();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = std::env::split_paths(&path).any(|folder| folder.join(program).is_file());
    assert!(is_there, "`{program}` is missing: `cargo xtask test` says which package brings it");
    let http = format!("http://127.0.0.1:{door}");
    let socks = format!("socks5h://127.0.0.1:{door}");
    let mut command = Command::new("timeout");
    command.arg("60").arg(program).args(arguments).current_dir(folder).env_clear();
    let environment = HashMap::from([
        ("PATH", path.to_string_lossy().into_owned()),
        ("HOME", folder.display().to_string()),
        ("http_proxy", http.clone()),
        ("HTTP_PROXY", http.clone()),
        ("https_proxy", http.clone()),
        ("HTTPS_PROXY", http),
        ("PROXY_PORT", door.to_string()),
        ("SOCKS", socks),
        ("GIT_TERMINAL_PROMPT", "0".to_owned()),
    ]);
    command.envs(environment).output().unwrap()
}

fn format_output(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!("{}\n{}\n{}", output.status, text(&output.stdout), text(&output.stderr))
}

/// Serves the files of a folder, one request per connection.
fn serve_files(folder: PathBuf) -> u16 {
    serve(move |mut stream| {
        let Some(path) = read_request_path(&mut stream) else { return };
        let path = path.split('?').next().unwrap_or_default().trim_matches('/').to_owned();
        let (status, body) = match std::fs::read(folder.join(path)) {
            Ok(body) => ("200 OK", body),
            Err(_) => ("404 Not Found", Vec::new()),
        };
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: text/html\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        );
        let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body));
    })
}

fn read_request_path(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    String::from_utf8(head).ok()?.split(' ').nth(1).map(str::to_owned)
}

const PYTHON_TUNNEL: &str = "
import http.client, os, sys
c = http.client.HTTPConnection('127.0.0.1', int(os.environ['PROXY_PORT']), timeout=20)
host, port = sys.argv[1].split(':')
c.set_tunnel(host, int(port))
c.request('GET', '/greeting')
print(c.getresponse().read().decode())
";

const PYTHON_URL: &str = "
import sys, urllib.request
print(urllib.request.urlopen(sys.argv[1], timeout=20).read().decode())
";

#[test]
fn programs_reach_allowed_hosts_and_report_refusals() {
    let temp = tempfile::tempdir().unwrap();
    let folder = temp.path();
    std::fs::write(folder.join("greeting"), "good morning").unwrap();
    let port = serve_files(folder.to_owned());
    let mut setup = ProxySetup::with_hosts(&["a.test"], port);
    setup.answers.push(("b.test", "127.0.0.1"));
    let mut fixture = setup.start();
    let door = fixture.port;
    let allowed = format!("http://a.test:{port}/greeting");
    let denied = format!("http://b.test:{port}/greeting");
    let socks = format!("socks5h://127.0.0.1:{door}");
    let mut ran = 0;
    for (line, target) in [
        (&["curl", "-fsS"][..], "url"),
        (&["curl", "-fsSp"], "url"),
        (&["curl", "-fsS", "--proxy", &socks], "url"),
        (&["wget", "-q", "-O-", "-t1"], "url"),
        (&["python3", "-c", PYTHON_URL], "url"),
        (&["python3", "-c", PYTHON_TUNNEL], "host"),
    ] {
        let (allowed, denied) = match target {
            "url" => (allowed.clone(), denied.clone()),
            _ => (format!("a.test:{port}"), format!("b.test:{port}")),
        };
        let output = run(door, folder, &[line, &[&allowed]].concat());
        assert!(
            format_output(&output).contains("good morning"),
            "{line:?}: {}",
            format_output(&output)
        );
        let output = run(door, folder, &[line, &[&denied]].concat());
        assert!(!output.status.success(), "{line:?}: {}", format_output(&output));
        assert!(
            !format_output(&output).contains("good morning"),
            "{line:?}: {}",
            format_output(&output)
        );
        ran += 1;
    }
    let rows = fixture.end();
    let with = |status: &str| rows.iter().filter(|row| row.status == status).count();
    assert_eq!(with("ok"), ran, "{rows:?}");
    assert!(with("denied") >= ran, "{rows:?}");
}

#[test]
fn git_clones_from_an_allowed_host_only() {
    let temp = tempfile::tempdir().unwrap();
    let folder = temp.path();
    let port = serve_files(folder.join("served"));
    let mut setup = ProxySetup::with_hosts(&["a.test"], port);
    setup.answers.push(("b.test", "127.0.0.1"));
    let fixture = setup.start();
    let door = fixture.port;
    std::fs::create_dir(folder.join("served")).unwrap();
    let git = |line: &[&str]| run(door, folder, &[&["git"], line].concat());
    for line in [
        &["init", "-q", "work"][..],
        &[
            "-C",
            "work",
            "-c",
            "user.name=a",
            "-c",
            "user.email=a@a.test",
            "commit",
            "-qm",
            "hi",
            "--allow-empty",
        ],
        &["clone", "-q", "--bare", "work", "served/repo.git"],
        &["-C", "served/repo.git", "update-server-info"],
    ] {
        let output = git(line);
        assert!(output.status.success(), "{line:?}: {}", format_output(&output));
    }
    let output = git(&["clone", "-q", &format!("http://a.test:{port}/repo.git"), "copy"]);
    assert!(output.status.success(), "{}", format_output(&output));
    assert!(folder.join("copy/.git").is_dir());
    let output = git(&["clone", "-q", &format!("http://b.test:{port}/repo.git"), "other"]);
    assert!(format_output(&output).contains("403"), "{}", format_output(&output));
}

#[test]
fn package_managers_reach_an_allowed_registry_only() {
    let temp = tempfile::tempdir().unwrap();
    let folder = temp.path();
    let served = folder.join("served");
    std::fs::create_dir_all(served.join("simple")).unwrap();
    let package = r#"{"name":"hi","dist-tags":{"latest":"1.2.3"},"versions":{"1.2.3":{"name":"hi","version":"1.2.3"}}}"#;
    std::fs::write(served.join("hi"), package).unwrap();
    std::fs::write(served.join("simple/hi"), "<a href=\"hi-1.2.3.tar.gz\">hi-1.2.3.tar.gz</a>")
        .unwrap();
    let port = serve_files(served);
    let mut setup = ProxySetup::with_hosts(&["a.test"], port);
    setup.answers.push(("b.test", "127.0.0.1"));
    let mut fixture = setup.start();
    let door = fixture.port;
    let mut ran = 0;
    for line in [
        &["npm", "view", "hi", "version", "--fetch-retries=0", "--registry", "http://HOST/"][..],
        &[
            "pip",
            "index",
            "versions",
            "hi",
            "--retries=0",
            "--trusted-host=HOST",
            "--index-url=http://HOST/simple",
        ],
    ] {
        let of = |host: &str| -> Vec<String> {
            line.iter().map(|word| word.replace("HOST", &format!("{host}:{port}"))).collect()
        };
        let at = |host: &str| {
            let line = of(host);
            let words: Vec<&str> = line.iter().map(String::as_str).collect();
            run(door, folder, &words)
        };
        let output = at("a.test");
        assert!(format_output(&output).contains("1.2.3"), "{line:?}: {}", format_output(&output));
        let output = at("b.test");
        assert!(!format_output(&output).contains("1.2.3"), "{line:?}: {}", format_output(&output));
        ran += 1;
    }
    let rows = fixture.end();
    let with = |status: &str| rows.iter().filter(|row| row.status == status).count();
    assert!(with("ok") >= ran && with("denied") >= ran, "{ran} {rows:?}");
}
