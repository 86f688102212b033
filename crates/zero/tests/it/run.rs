//! `zero run`.

use std::io::Read;
use std::process::Stdio;

use serde_json::{Value, json};
use zero_core::event::Event;

use crate::config::{USER, write};
use crate::gateway_process::{ended, signal};
use crate::model_server::ModelServer;
use crate::program::Program;

fn with_model() -> (Program, ModelServer) {
    let (zero, model) = (Program::new(), ModelServer::start());
    write(&zero, USER, model.settings(json!({})));
    write(&zero, "hello.txt", "hello\n");
    (zero, model)
}

#[track_caller]
fn check(zero: &Program, args: &[&str], exit: &str, holds: &[&str]) {
    let seen = zero.run(&[&["run"], args].concat());
    assert!(seen.starts_with(&format!("exit {exit}\n")), "{args:?}: {seen}");
    for text in holds {
        assert!(seen.contains(text), "{args:?} without `{text}`: {seen}");
    }
}

#[test]
fn a_fresh_machine_needs_no_model() {
    let zero = Program::new();
    write(&zero, "hello.txt", "hello\n");
    check(&zero, &["/read hello.txt"], "0", &["hello"]);
    check(&zero, &["/help"], "0", &["/read"]);
    check(&zero, &["what is this?"], "0", &["model"]);
}

#[test]
fn the_answer_goes_to_stdout_and_the_rest_to_stderr() {
    let (zero, _model) = with_model();
    let seen = zero.run(&["run", "[read]"]);
    assert_eq!(
        seen,
        "exit 0\nI look first.\nThe tool said:      1\thello\n--- stderr\n● Read `hello.txt`\n"
    );
    check(
        &zero,
        &["--yes", "[write]"],
        "0",
        &["--- stderr\n● Write `made.txt`\n@@ -0,0 +1 @@\n+made"],
    );
}

#[test]
fn how_it_ends_is_the_exit_code() {
    let (zero, _model) = with_model();
    check(&zero, &["[write]"], "3", &["⊘ Write `made.txt`", "run it with `--yes`"]);
    assert!(!zero.folder().join("made.txt").exists());
    check(&zero, &["--yes", "[write]"], "0", &["Wrote 5 bytes"]);
    check(&zero, &["[long]"], "4", &["cut", "ask it to go on"]);
    check(&zero, &["--agent", "nope", "hi"], "2", &["there is no agent `nope`"]);
    check(&zero, &["--model", "nope", "hi"], "2", &["there is no model `nope`"]);
    check(&zero, &["--image", "nope.png", "hi"], "2", &["there is no file `nope.png`"]);
    check(&zero, &["--image", "hello.txt", "hi"], "2", &["is no picture"]);
}

#[test]
fn an_interrupt_reaches_the_model_and_the_ledger() {
    let (zero, model) = with_model();
    let mut run = zero
        .command(&["run", "--session", "s", "[hang]"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut said = [0; 3];
    run.stdout.as_mut().unwrap().read_exact(&mut said).unwrap();
    assert_eq!(&said, b"one");
    signal(&zero, "INT", run.id());
    assert_eq!(ended(&mut run).code(), Some(130));
    model.until_hung_up();
    let ledger = zero.stdout(&["sessions", "export", "s", "--format", "jsonl"]);
    let last: Value = serde_json::from_str(ledger.lines().last().unwrap()).unwrap();
    assert_eq!(last["end"], json!({"how": "aborted", "by": "rpc"}), "{ledger}");
}

#[test]
fn programs_get_the_entries_of_the_ledger() {
    let (zero, _model) = with_model();
    let lines = zero.stdout(&["run", "--json", "--session", "s", "[read]"]);
    let events: Vec<Event> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let ledger = zero.stdout(&["sessions", "export", "s", "--format", "jsonl"]);
    let ledger: Vec<Event> =
        ledger.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(events.len() > 5 && events.iter().all(|event| ledger.contains(event)), "{lines}");
}

#[test]
fn a_session_goes_on_and_stdin_and_pictures_are_heard() {
    let (zero, model) = with_model();
    zero.stdout(&["run", "--session", "s", "first words"]);
    let seen = zero.run_with_input(&["run", "--session", "s", "-"], "words of stdin");
    assert!(seen.starts_with("exit 0\nHello"), "{seen}");
    let request = model.requests().pop().unwrap()["messages"].to_string();
    for text in ["first words", "Hello from the model.", "words of stdin"] {
        assert!(request.contains(text), "{text}: {request}");
    }
    let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89";
    write(&zero, "dot.png", png);
    check(&zero, &["--image", "dot.png", "what is it?"], "0", &["I see 1 picture."]);
}
