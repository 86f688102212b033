//! The web console in a real browser, driven by `console/tests/drive.mjs`.

#![expect(clippy::disallowed_methods, reason = "tests start a browser")]

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use qrcodegen::{QrCode, QrCodeEcc};
use serde_json::{Value, json};

use crate::config::{USER_FILE, write_file};
use crate::gateway_process::{GatewayProcess, TIMEOUT};
use crate::mcp_fixture::server_setting;
use crate::model_server::ModelServer;
use crate::test_program::TestProgram;

/// A picture of two by two red points.
const RED_PNG: &[u8] = include_bytes!("red.png");

/// The name that a model has, and that an MCP server gives itself.
const HOSTILE_NAME: &str = "<img src=x onerror=window.__xss=1>";

/// The folder of the console's sources.
fn console_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../console").canonicalize().unwrap()
}

/// Where the pictures of the documents are made.
fn picture_folder() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("console-pictures");
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// Runs a scenario of the driver, and gives it what it asks for.
fn drive(scenario: &str) {
    let zero = TestProgram::outside_tmp();
    let model = ModelServer::start();
    write_file(&zero, "server.py", include_str!("mcp_server.py"));
    let settings = json!({
        "budgets": {"owner": {"toolCalls": 100}, "run": {"usd": 1}},
        "mcpServers": {"forms": server_setting(&zero, "forms", HOSTILE_NAME)},
        "permissions": {"allow": ["forms__*"]},
    });
    let settings = model.settings_json(settings);
    let mut settings: Value = serde_json::from_str(&settings).unwrap();
    settings["models"][HOSTILE_NAME] = settings["models"]["scripted"].clone();
    write_file(&zero, USER_FILE, settings.to_string());
    let mut gateway = Some(GatewayProcess::start(&zero));
    let port = gateway.as_ref().unwrap().address().rsplit_once(':').unwrap().1.to_owned();
    let mut browser = Command::new("node")
        .args(["tests/drive.mjs", scenario, &format!("http://127.0.0.1:{port}/")])
        .arg(picture_folder())
        .current_dir(console_folder())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut answers = browser.stdin.take().unwrap();
    let mut is_done = false;
    for line in BufReader::new(browser.stdout.take().unwrap()).lines() {
        let asked: Vec<String> = serde_json::from_str(&line.unwrap()).unwrap();
        let asked: Vec<&str> = asked.iter().map(String::as_str).collect();
        let answer = match asked.as_slice() {
            ["done"] => {
                is_done = true;
                break;
            }
            ["code"] => json!(pairing_code(&zero, "admin")),
            ["code", scopes] => json!(pairing_code(&zero, scopes)),
            ["revoke"] => json!(revoke_newest(&zero)),
            ["delete", key] => {
                let url = &gateway.as_ref().unwrap().url;
                json!(zero.stdout(&["sessions", "delete", key, "--yes", "--url", url]))
            }
            ["kill"] => {
                gateway.take().unwrap().kill();
                json!(true)
            }
            ["publicUrl", url] => {
                settings["gateway"] = json!({"publicUrl": url});
                write_file(&zero, USER_FILE, settings.to_string());
                json!(true)
            }
            ["start"] => {
                gateway = Some(GatewayProcess::start_at(&zero, &port));
                json!(true)
            }
            ["drop"] => json!(true),
            ["picture", name] => {
                std::fs::write(zero.folder().join(name), RED_PNG).unwrap();
                json!(true)
            }
            // How often the model was asked, once it was asked so often.
            ["requests", least] => {
                let least: usize = least.parse().unwrap();
                let late = Instant::now() + TIMEOUT;
                while model.requests().len() < least && Instant::now() < late {
                    std::thread::sleep(Duration::from_millis(20));
                }
                json!(model.requests().len())
            }
            ["qr", text] => json!(qr_rows(text)),
            ["files"] => json!(file_names(zero.folder())),
            ["settings"] => json!(std::fs::read_to_string(zero.folder().join(USER_FILE)).unwrap()),
            ["log"] => json!(state_texts(&zero.folder().join("home/.local/state/zero"))),
            other => panic!("the driver asks for {other:?}"),
        };
        writeln!(answers, "{answer}").unwrap();
    }
    drop(answers);
    let status = browser.wait().unwrap();
    assert!(is_done && status.success(), "{scenario} failed: {status}");
}

fn pairing_code(zero: &TestProgram, scopes: &str) -> String {
    let shown = zero.stdout(&["console", "--json", "--scopes", scopes]);
    let shown: Value = serde_json::from_str(&shown).unwrap();
    shown["code"].as_str().unwrap().to_owned()
}

/// Revokes the device that was paired last.
fn revoke_newest(zero: &TestProgram) -> String {
    let known = zero.stdout(&["gateway", "devices", "--json"]);
    let known: Value = serde_json::from_str(&known).unwrap();
    let id = known["devices"].as_array().unwrap().last().unwrap()["id"].as_str().unwrap();
    zero.stdout(&["gateway", "devices", "revoke", &id[..16]])
}

/// The rows of a QR code, a digit for each module.
fn qr_rows(text: &str) -> Vec<String> {
    let code = QrCode::encode_text(text, QrCodeEcc::Low).unwrap();
    let digit = |x, y| if code.get_module(x, y) { '1' } else { '0' };
    let row = |y| (0..code.size()).map(|x| digit(x, y)).collect();
    (0..code.size()).map(row).collect()
}

fn file_names(folder: &Path) -> Vec<String> {
    let files = std::fs::read_dir(folder).unwrap().flatten();
    files.map(|file| file.file_name().to_string_lossy().into_owned()).collect()
}

/// All text in the state folder.
fn state_texts(folder: &Path) -> String {
    let mut texts = String::new();
    for file in std::fs::read_dir(folder).unwrap().flatten() {
        let path = file.path();
        if path.is_dir() {
            texts.push_str(&state_texts(&path));
        } else if let Ok(bytes) = std::fs::read(&path) {
            let _ = write!(texts, "{}", String::from_utf8_lossy(&bytes));
        }
    }
    texts
}

#[test]
fn each_page_shows_its_subject_and_axe_finds_nothing() {
    drive("pages");
}

#[test]
fn each_answer_and_each_action_of_a_session_works() {
    drive("answers");
}

#[test]
fn browsers_are_paired_and_revoked() {
    drive("pairing");
}

#[test]
fn page_follows_questions_unless_the_user_reads_elsewhere() {
    drive("follow");
}

#[test]
fn sub_agents_are_shown_under_the_call_that_started_them() {
    drive("subagents");
}

#[test]
fn usage_shows_failures_times_and_budgets() {
    drive("usage");
}

#[test]
fn console_can_be_installed_and_keeps_only_its_shell() {
    drive("installed");
}

#[test]
fn new_questions_are_notified_and_open_from_there() {
    drive("notifications");
}

#[test]
fn inbox_is_emptied_when_its_scope_is_lost() {
    drive("scopes");
}

#[test]
fn forms_of_servers_are_checked_before_they_are_answered() {
    drive("forms");
}

#[test]
fn keyboard_alone_answers_and_sends() {
    drive("keyboard");
}

#[test]
fn phone_needs_no_horizontal_scrolling_and_no_small_targets() {
    drive("phone");
}

#[test]
fn images_come_from_the_ledger() {
    drive("images");
}

#[test]
fn break_of_the_network_loses_nothing_and_sends_nothing_twice() {
    drive("network");
}

#[test]
fn console_outlives_restart_of_the_gateway() {
    drive("restart");
}

#[test]
fn hostile_text_stays_text_in_every_field() {
    drive("hostile");
}

#[test]
fn pages_of_others_cannot_use_the_gateway() {
    drive("attacks");
}

/// CONTRIBUTING.md has the command that puts them into the documents.
#[test]
fn pictures_of_the_documents_can_be_made() {
    drive("screenshots");
    let made = file_names(&picture_folder());
    assert!(made.iter().filter(|name| name.ends_with(".png")).count() >= 9, "{made:?}");
}

/// The head and the body of a reply.
fn http_request(address: &str, request: &str) -> (String, Vec<u8>) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply).unwrap();
    let end = reply.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
    let head = String::from_utf8_lossy(&reply[..end]).to_lowercase();
    (head, reply.split_off(end + 4))
}

#[test]
fn page_is_served_only_to_requests_for_this_gateway() {
    let zero = TestProgram::new();
    let gateway = GatewayProcess::start(&zero);
    let address = gateway.address();
    let get = |host: &str, more: &str| {
        http_request(address, &format!("GET / HTTP/1.1\r\nhost: {host}\r\n{more}\r\n"))
    };
    let (head, page) = get(address, "");
    assert!(head.starts_with("http/1.1 200"), "{head}");
    for needed in [
        "default-src 'none'",
        "frame-ancestors 'none'",
        "x-frame-options: deny",
        "x-content-type-options: nosniff",
        "referrer-policy: no-referrer",
    ] {
        assert!(head.contains(needed), "{needed}: {head}");
    }
    assert!(!head.contains("unsafe"), "{head}");
    assert!(String::from_utf8(page).unwrap().contains("/app-"));
    // DNS rebinding: the name of an attacker leads to this machine.
    for host in ["evil.example", "evil.example:80", "localhost.evil.example"] {
        assert!(get(host, "").0.starts_with("http/1.1 403"), "{host}");
    }
    // A page of another origin.
    for origin in ["http://evil.example", "null", "https://127.0.0.1", "http://localhost:1"] {
        let head = get(address, &format!("origin: {origin}\r\n")).0;
        assert!(head.starts_with("http/1.1 403"), "{origin}: {head}");
    }
    let posted = format!("POST / HTTP/1.1\r\nhost: {address}\r\ncontent-length: 0\r\n\r\n");
    assert!(http_request(address, &posted).0.starts_with("http/1.1 4"));
}

#[test]
fn console_command_runs_a_gateway_where_none_runs() {
    let zero = TestProgram::new();
    let mut console =
        zero.command(&["console", "--port", "0", "--json"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(console.stdout.take().unwrap()).lines();
    let mut next = || serde_json::from_str::<Value>(&lines.next().unwrap().unwrap()).unwrap();
    // One JSON value, whether or not a gateway runs.
    let shown = next();
    let (url, code) = (shown["url"].as_str().unwrap(), shown["code"].as_str().unwrap());
    assert!(url.starts_with("http://127.0.0.1:") && !url.contains(code), "{shown}");
    // A second one asks the gateway that runs.
    let other: Value = serde_json::from_str(&zero.stdout(&["console", "--json"])).unwrap();
    assert_eq!(other["url"], shown["url"]);
    assert_ne!(other["code"], shown["code"]);
    let listed = zero.run(&["gateway", "devices"]);
    assert!(listed.contains("no device is paired"), "{listed}");
    console.kill().unwrap();
    console.wait().unwrap();
    let more: Vec<String> = lines.map(Result::unwrap).collect();
    assert_eq!(more, Vec::<String>::new());
}

#[test]
fn console_command_shows_the_public_address() {
    let zero = TestProgram::new();
    write_file(&zero, USER_FILE, r#"{"gateway": {"publicUrl": "https://box.lan:18789"}}"#);
    let mut console =
        zero.command(&["console", "--port", "0", "--json"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(console.stdout.take().unwrap()).lines();
    let shown: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!(shown["url"], "https://box.lan:18789/");
    let other: Value = serde_json::from_str(&zero.stdout(&["console", "--json"])).unwrap();
    assert_eq!(other["url"], "https://box.lan:18789/");
    console.kill().unwrap();
    console.wait().unwrap();
}

#[test]
fn committed_console_is_what_the_sources_give() {
    let folder = console_folder();
    let built = tempfile::tempdir().unwrap();
    let steps: [&[&str]; 3] = [
        &["scripts/generate-types.mjs", "--check"],
        &["node_modules/typescript/bin/tsc", "--noEmit"],
        &["scripts/build.mjs", built.path().to_str().unwrap()],
    ];
    for step in steps {
        let made = Command::new("node").args(step).current_dir(&folder).output().unwrap();
        let said = [made.stdout, made.stderr].concat();
        assert!(made.status.success(), "{step:?}: {}", String::from_utf8_lossy(&said));
    }
    let committed = folder.join("../crates/zero-gateway/console");
    let names = |folder: &Path| {
        let mut names = file_names(folder);
        names.sort();
        names
    };
    assert_eq!(names(&committed), names(built.path()));
    for name in names(&committed) {
        let same = std::fs::read(committed.join(&name)).unwrap()
            == std::fs::read(built.path().join(&name)).unwrap();
        assert!(same, "{name} is not what the sources give; run `npm run build` in console/");
    }
}
