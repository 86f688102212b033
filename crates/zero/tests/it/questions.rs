//! Questions that wait for an answer, and notifications about them.

#![expect(clippy::disallowed_methods, reason = "tests use real files directly")]

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::config::{USER_FILE, write_file};
use crate::gateway::send_prompt;
use crate::gateway_process::GatewayProcess;
use crate::model_server::ModelServer;
use crate::test_program::TestProgram;

/// A planted secret, in the prompt and in what the call writes.
const SECRET: &str = "hunter2-planted-secret";

const PATIENCE: Duration = Duration::from_secs(60);

fn program(more: Value) -> (TestProgram, ModelServer) {
    let (zero, model) = (TestProgram::new(), ModelServer::start());
    write_file(&zero, USER_FILE, model.settings_json(more));
    (zero, model)
}

/// Writes a file, which needs approval in the mode `ask`.
fn write_script() -> String {
    format!(
        "script:\ncall Write {{\"file_path\": \"made.txt\", \"content\": \"{SECRET}\"}}\nturn\nsay It is made."
    )
}

/// The questions that wait.
fn approvals(zero: &TestProgram) -> Vec<Value> {
    let listed: Value =
        serde_json::from_str(&zero.stdout(&["questions", "list", "--json"])).unwrap();
    listed["approvals"].as_array().unwrap().clone()
}

fn only_id(zero: &TestProgram) -> String {
    let waiting = approvals(zero);
    assert_eq!(waiting.len(), 1, "{waiting:?}");
    waiting[0]["request"]["id"].as_str().unwrap().to_owned()
}

#[test]
fn parked_run_continues_with_its_answer() {
    let (zero, model) = program(json!({}));
    let seen = zero.run(&["run", "--park", "--session", "s", &write_script()]);
    assert!(seen.starts_with("exit 6"), "{seen}");
    assert!(seen.contains("the run waits for your answer"), "{seen}");
    assert!(seen.contains("zero questions answer ask_"), "{seen}");
    assert!(!zero.folder().join("made.txt").exists());
    let id = only_id(&zero);
    // The change is shown with the question, in full on request, and with the answer.
    let diff = format!("+{SECRET}");
    assert!(seen.contains(&diff), "{seen}");
    let shown = zero.stdout(&["questions", "show", &id[..12]]);
    for part in [&diff, "made.txt", "allow_once", "Write"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let table = zero.stdout(&["questions", "list"]);
    assert!(table.contains(&id) && table.contains("allow_once"), "{table}");
    // What was not offered is refused, and the question still waits.
    let seen = zero.run(&["questions", "answer", &id, "maybe"]);
    assert!(seen.starts_with("exit 2") && seen.contains("that answer is not offered"), "{seen}");
    // No gateway was named, so none is mentioned.
    assert!(!seen.contains("gateway"), "{seen}");
    assert_eq!(only_id(&zero), id);
    let seen = zero.run(&["questions", "answer", &id[..12], "allow_once"]);
    assert!(seen.starts_with("exit 0") && seen.contains("It is made."), "{seen}");
    assert!(seen.contains(&diff), "{seen}");
    let made = std::fs::read_to_string(zero.folder().join("made.txt")).unwrap();
    assert_eq!(made, SECRET);
    assert_eq!(model.requests().len(), 2);
    let seen = zero.run(&["questions", "answer", &id, "allow_once"]);
    assert!(seen.starts_with("exit 2") && seen.contains("waits for an answer"), "{seen}");
    assert!(approvals(&zero).is_empty());
}

#[test]
fn questions_of_all_kinds_are_listed_oldest_first() {
    let (zero, _model) = program(json!({}));
    let option = |label: &str| json!({"label": label, "description": label});
    let question = json!({"question": "Which milk?", "header": "Milk",
        "options": [option("oat"), option("soy")], "multiSelect": false});
    let form = format!(
        "script:\ncall AskUserQuestion {}\nturn\nsay Well.",
        json!({"questions": [question]})
    );
    for (session, prompt) in [("one", write_script()), ("two", form), ("three", write_script())] {
        let seen = zero.run(&["run", "--park", "--session", session, &prompt]);
        assert!(seen.starts_with("exit 6"), "{seen}");
    }
    let seen = zero.run(&["questions", "list"]);
    let at = |session: &str| seen.find(&format!(":{session} ")).unwrap();
    assert!(at("one") < at("two") && at("two") < at("three"), "{seen}");
    assert!(seen.contains("`allow_once`: this call; `allow_session`: for this session"), "{seen}");
}

#[test]
fn answer_for_the_session_has_a_word_and_the_id_of_the_protocol() {
    for word in ["allow_session", "allow_always"] {
        let (zero, _model) = program(json!({}));
        let seen = zero.run(&["run", "--park", &write_script()]);
        assert!(seen.contains("allow_once, allow_session, reject_once, reject_session"), "{seen}");
        let id = only_id(&zero);
        let shown = zero.stdout(&["questions", "show", &id]);
        assert!(shown.contains("allow_once allow_session reject_once reject_session"), "{shown}");
        let seen = zero.run(&["questions", "answer", &id, word]);
        assert!(seen.starts_with("exit 0") && seen.contains("It is made."), "{word}: {seen}");
    }
}

#[test]
fn rejected_parked_call_does_not_run() {
    let (zero, _model) = program(json!({}));
    assert!(zero.run(&["run", "--park", &write_script()]).starts_with("exit 6"));
    let seen = zero.run(&["questions", "answer", &only_id(&zero), "reject_once"]);
    assert!(seen.starts_with("exit 3"), "{seen}");
    assert!(!zero.folder().join("made.txt").exists());
}

#[test]
fn changed_file_is_asked_about_again() {
    let (zero, _model) = program(json!({}));
    let path = |name: &str| zero.folder().join(name);
    std::fs::write(path("a.tmp"), "x").unwrap();
    let input = json!({"command": "rm -f *.tmp"});
    let script = format!("script:\ncall Bash {input}\nturn\nsay They are gone.");
    assert!(zero.run(&["run", "--park", &script]).starts_with("exit 6"));
    let first = only_id(&zero);
    // The call would now remove a file that was not there.
    std::fs::write(path("b.tmp"), "mine").unwrap();
    let seen = zero.run(&["questions", "answer", &first, "allow_once"]);
    assert!(!seen.contains("They are gone."), "{seen}");
    assert!(path("a.tmp").exists() && path("b.tmp").exists(), "{seen}");
    let second = only_id(&zero);
    assert_ne!(second, first);
    let waiting = approvals(&zero)[0].to_string();
    assert!(waiting.contains("b.tmp"), "the question names what has changed: {waiting}");
    // The answer to what is asked now runs the call.
    let seen = zero.run(&["questions", "answer", &second, "allow_once"]);
    assert!(seen.starts_with("exit 0") && seen.contains("They are gone."), "{seen}");
    assert!(!path("a.tmp").exists() && !path("b.tmp").exists());
    assert!(approvals(&zero).is_empty());
}

#[test]
fn parked_call_does_not_replace_an_unseen_file() {
    let (zero, _model) = program(json!({}));
    assert!(zero.run(&["run", "--park", &write_script()]).starts_with("exit 6"));
    let id = only_id(&zero);
    std::fs::write(zero.folder().join("made.txt"), "mine").unwrap();
    zero.run(&["questions", "answer", &id, "allow_once"]);
    assert_eq!(std::fs::read_to_string(zero.folder().join("made.txt")).unwrap(), "mine");
}

#[test]
fn killed_process_keeps_its_question() {
    let (zero, _model) = program(json!({}));
    let mut child = zero
        .command(&["run", "--park", "--session", "s", &write_script()])
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let began = Instant::now();
    while approvals(&zero).is_empty() {
        assert!(began.elapsed() < PATIENCE, "nobody is asked");
    }
    // It may have parked the run already; either way the question is kept.
    let _ = child.kill();
    child.wait().unwrap();
    let id = only_id(&zero);
    let answers: Vec<String> = std::thread::scope(|scope| {
        let answer = || scope.spawn(|| zero.run(&["questions", "answer", &id, "allow_once"]));
        [answer(), answer()].into_iter().map(|answer| answer.join().unwrap()).collect()
    });
    let counted = answers.iter().filter(|seen| seen.starts_with("exit 0")).count();
    assert_eq!(counted, 1, "{answers:?}");
    assert_eq!(std::fs::read_to_string(zero.folder().join("made.txt")).unwrap(), SECRET);
}

#[test]
fn wrong_use_of_park_is_explained() {
    let (zero, _model) = program(json!({}));
    for args in [&["run", "--park", "--yes", "x"][..], &["questions", "answer", "nope"]] {
        let seen = zero.run(args);
        assert!(seen.starts_with("exit 2"), "{args:?}: {seen}");
    }
    let seen = zero.run(&["questions", "answer", "nope", "allow_once"]);
    assert!(seen.starts_with("exit 2") && seen.contains("no question `nope` waits"), "{seen}");
    assert!(zero.run(&["run", "--session", "s", "hello"]).starts_with("exit 0"));
    let seen = zero.run(&["run", "--park", "--session", "s", "hello"]);
    assert!(seen.starts_with("exit 2") && seen.contains("cannot be parked"), "{seen}");
    for (notify, expected) in [
        (json!({"webhook": "http://example.org/x"}), "over https"),
        (json!({"webhook": "ntfy"}), "not the address of a webhook"),
        (json!({"terminal": "flash"}), "notify.terminal"),
        (json!({"comand": "x"}), "unknown key `notify.comand`"),
        (json!({"command": []}), "name the program first"),
        (json!({"command": "notify-send"}), "notify.command"),
    ] {
        write_file(&zero, USER_FILE, json!({ "notify": notify }).to_string());
        let seen = zero.run(&["questions", "list"]);
        assert!(seen.starts_with("exit 2") && seen.contains(expected), "{notify}: {seen}");
    }
}

/// A webhook that hands on what is posted to it.
fn start_webhook() -> (String, mpsc::Receiver<String>) {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/topic", server.local_addr().unwrap());
    let (sender, received) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in server.incoming() {
            let mut stream = stream.unwrap();
            let mut request = String::new();
            let mut buffer = [0_u8; 4096];
            while !request.ends_with("answer") {
                let length = stream.read(&mut buffer).unwrap();
                if length == 0 {
                    break;
                }
                request.push_str(&String::from_utf8_lossy(&buffer[..length]));
            }
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").unwrap();
            let _ = sender.send(request);
        }
    });
    (address, received)
}

#[test]
fn webhook_gets_a_generic_text() {
    let (address, received) = start_webhook();
    let (zero, _model) = program(json!({"notify": {"webhook": address}}));
    assert!(zero.run(&["run", "--park", &write_script()]).starts_with("exit 6"));
    let request = received.recv_timeout(PATIENCE).unwrap();
    assert!(request.starts_with("POST /topic ") && request.contains("title: zero"), "{request}");
    assert!(request.ends_with("\r\n\r\nA run waits for your answer"), "{request}");
    assert!(!request.contains(SECRET) && !request.contains("made.txt"), "{request}");
    // No console runs that could show it.
    assert!(!request.contains("click: "), "{request}");
}

#[test]
fn webhook_of_a_gateway_links_to_the_question() {
    for public_url in [None, Some("https://box.lan:18789")] {
        let (address, received) = start_webhook();
        let settings =
            json!({"notify": {"webhook": address}, "gateway": {"publicUrl": public_url}});
        let settings = match public_url {
            Some(_) => settings,
            None => json!({"notify": settings["notify"]}),
        };
        let (zero, _model) = program(settings);
        let gateway = GatewayProcess::start(&zero);
        let _client = send_prompt(&zero, &gateway, &write_script());
        let request = received.recv_timeout(PATIENCE).unwrap();
        let link = request.lines().find_map(|line| line.strip_prefix("click: "));
        let link = link.unwrap_or_else(|| panic!("{request}"));
        let page =
            public_url.map_or_else(|| format!("http://{}", gateway.address()), str::to_owned);
        let listed = zero.stdout(&["questions", "list", "--json", "--url", &gateway.url]);
        let id = link.strip_prefix(&format!("{page}/#/inbox/")).unwrap_or_else(|| panic!("{link}"));
        assert!(listed.contains(&format!("\"{id}\"")), "{id}: {listed}");
        assert!(request.ends_with("\r\n\r\nA run waits for your answer"), "{request}");
        assert!(!request.contains(SECRET) && !request.contains("made.txt"), "{request}");
    }
}

/// Writes a script that appends its arguments and environment to a file, and returns both.
fn notify_script(folder: &std::path::Path) -> (std::path::PathBuf, std::path::PathBuf) {
    use std::os::unix::fs::PermissionsExt as _;
    let (script, seen) = (folder.join("notify.sh"), folder.join("seen"));
    let text = format!(
        "#!/bin/sh\n{{ echo \"args: $*\"; env | grep -v ^PWD=; echo PWD=; }} >> '{}'\n",
        seen.display()
    );
    std::fs::write(&script, text).unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    (script, seen)
}

#[test]
fn program_of_the_user_gets_a_generic_text_and_no_other_variable() {
    let folder = tempfile::tempdir().unwrap();
    let (script, seen) = notify_script(folder.path());
    let command = json!([script.display().to_string(), "{kind}", "{title}: {text}"]);
    let (zero, _model) = program(json!({"notify": {"command": command, "minSeconds": 0}}));
    let mut run = zero.command(&["run", "--park", &write_script()]);
    run.env("MY_TOKEN", "of-somebody-else").env("DISPLAY", ":7");
    assert_eq!(run.output().unwrap().status.code(), Some(6));
    // The program may go on when the run is parked.
    let began = Instant::now();
    let read = || std::fs::read_to_string(&seen).unwrap_or_default();
    while !read().contains("PWD=") {
        assert!(began.elapsed() < PATIENCE, "nobody is notified: {}", read());
    }
    let text = read();
    assert!(text.contains("args: question zero: A run waits for your answer\n"), "{text}");
    for line in [
        "ZERO_NOTIFY_KIND=question",
        "ZERO_NOTIFY_TITLE=zero",
        "ZERO_NOTIFY_TEXT=A run waits for your answer",
        "DISPLAY=:7",
    ] {
        assert!(text.lines().any(|seen| seen == line), "{line}: {text}");
    }
    assert!(!text.contains(SECRET) && !text.contains("made.txt"), "{text}");
    assert!(!text.contains("MY_TOKEN") && !text.contains("of-somebody-else"), "{text}");
    assert!(zero.run(&["run", "hello"]).starts_with("exit 0"));
    let text = std::fs::read_to_string(&seen).unwrap();
    assert!(text.contains("args: end zero: A run has ended\n"), "{text}");
    assert!(zero.run(&["doctor"]).contains("notify.sh notifies you"));
}

#[test]
fn program_that_commands_could_change_is_not_run() {
    let (zero, model) = program(json!({}));
    let (script, seen) = notify_script(zero.folder());
    let outside = tempfile::tempdir().unwrap();
    let (writable, _) = notify_script(outside.path());
    let linked = tempfile::tempdir().unwrap();
    let link = linked.path().join("notify");
    std::os::unix::fs::symlink(&script, &link).unwrap();
    let text = |path: &std::path::Path| path.display().to_string();
    for command in [
        json!([text(&script)]),
        json!([text(&link)]),
        json!(["sh", text(&script)]),
        json!(["sh", "-c", format!("exec {}", text(&script))]),
        json!(["./notify.sh"]),
        json!([text(&writable)]),
        json!([text(&zero.folder().join("missing"))]),
        json!(["no-such-program-anywhere"]),
    ] {
        let settings = json!({
            "notify": {"command": command, "minSeconds": 0},
            "sandbox": {"writable": [text(outside.path())]},
        });
        write_file(&zero, USER_FILE, model.settings_json(settings));
        let ran = zero.run(&["run", "hello"]);
        assert!(
            ran.starts_with("exit 0") && ran.contains("`notify.command`: "),
            "{command}: {ran}"
        );
        assert!(ran.contains("settings.json:1"), "{command}: {ran}");
        assert!(zero.run(&["doctor"]).contains("`notify.command`: "), "{command}");
    }
    assert!(!seen.exists() && !outside.path().join("seen").exists());
    // A project cannot name one at all.
    write_file(&zero, USER_FILE, model.settings_json(json!({})));
    let (own, seen) = notify_script(linked.path());
    let project = json!({"notify": {"command": [text(&own)], "minSeconds": 0}});
    write_file(&zero, ".zero/settings.json", project.to_string());
    assert!(zero.run(&["run", "hello"]).starts_with("exit 0"));
    assert!(!seen.exists());
}

#[test]
fn hanging_webhook_is_given_up() {
    // Accepts connections and never answers.
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/topic", server.local_addr().unwrap());
    let command = ["/bin/sleep", "60"];
    let notify = json!({"notify": {"webhook": address, "command": command, "minSeconds": 0}});
    let (zero, _model) = program(notify);
    let began = Instant::now();
    let seen = zero.run(&["run", "hello"]);
    assert!(seen.starts_with("exit 0"), "{seen}");
    for setting in ["notify.webhook", "notify.command"] {
        let note = format!("`{setting}` took no notification within 3 s");
        assert!(seen.contains(&note), "{note}: {seen}");
    }
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
}

#[test]
fn parked_session_is_neither_rewound_nor_prompted() {
    let (zero, _model) = program(json!({}));
    assert!(zero.run(&["run", "--park", "--session", "s", &write_script()]).starts_with("exit 6"));
    let id = only_id(&zero);
    for args in [&["sessions", "rewind", "s"][..], &["run", "--park", "--session", "s", "more"]] {
        let seen = zero.run(args);
        assert!(!seen.starts_with("exit 0") && seen.contains("waits for an answer"), "{seen}");
    }
    assert_eq!(only_id(&zero), id);
}
