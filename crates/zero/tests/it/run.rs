//! `zero run`.

use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use zero_core::event::Event;

use crate::config::{USER_FILE, write_file};
use crate::gateway_process::{GatewayProcess, send_signal, wait_for_child};
use crate::model_server::ModelServer;
use crate::process_cleanup::{find_sleepers, unique_seconds};
use crate::test_program::TestProgram;

fn program_with_model() -> (TestProgram, ModelServer) {
    let (zero, model) = (TestProgram::new(), ModelServer::start());
    write_file(&zero, USER_FILE, model.settings_json(json!({})));
    write_file(&zero, "hello.txt", "hello\n");
    (zero, model)
}

#[track_caller]
fn check_run(zero: &TestProgram, args: &[&str], exit: &str, holds: &[&str]) {
    let seen = zero.run(&[&["run"], args].concat());
    assert!(seen.starts_with(&format!("exit {exit}\n")), "{args:?}: {seen}");
    for text in holds {
        assert!(seen.contains(text), "{args:?} without `{text}`: {seen}");
    }
}

#[test]
fn fresh_install_runs_without_model() {
    let zero = TestProgram::new();
    write_file(&zero, "hello.txt", "hello\n");
    check_run(&zero, &["/read hello.txt"], "0", &["hello"]);
    check_run(&zero, &["/help"], "0", &["/read"]);
    check_run(&zero, &["what is this?"], "1", &["no model is configured; run `zero login`"]);
}

#[test]
fn answer_goes_to_stdout_and_rest_to_stderr() {
    let (zero, _model) = program_with_model();
    let seen = zero.run(&["run", "[read]"]);
    assert_eq!(
        seen,
        "exit 0\nI look first.\nThe tool said:      1\thello\n--- stderr\n● Read `hello.txt`\n"
    );
    check_run(
        &zero,
        &["--yes", "[write]"],
        "0",
        &["--- stderr\n● Write `made.txt`\n@@ -0,0 +1 @@\n+made"],
    );
}

#[test]
fn missing_home_is_an_error_and_not_created() {
    let (zero, _model) = program_with_model();
    let home = zero.folder().join("nobody");
    let output = zero.command(&["run", "hi"]).env("HOME", &home).output().unwrap();
    let seen = zero.render_output(&output);
    assert!(seen.starts_with("exit 2") && seen.contains("(HOME) does not exist"), "{seen}");
    assert!(!home.exists());
}

#[test]
fn run_end_sets_exit_code() {
    let (zero, _model) = program_with_model();
    check_run(&zero, &["[write]"], "3", &["⊘ Write `made.txt`", "pass `--yes`"]);
    assert!(!zero.folder().join("made.txt").exists());
    check_run(&zero, &["--yes", "[write]"], "0", &["Wrote 5 bytes"]);
    check_run(&zero, &["[long]"], "4", &["cut off", "to go on, run `zero -c \"continue\"`"]);
    check_run(&zero, &["--agent", "nope", "hi"], "2", &["there is no agent `nope`"]);
    let name = "`Bad Name` is not the name of an agent";
    check_run(&zero, &["--agent", "Bad Name", "hi"], "2", &[name, "letters, digits, `_` or `-`"]);
    check_run(&zero, &["--model", "nope", "hi"], "2", &["there is no model `nope`"]);
    check_run(&zero, &["--image", "nope.png", "hi"], "2", &["there is no file `nope.png`"]);
    check_run(&zero, &["--image", "hello.txt", "hi"], "2", &["is not an image"]);
}

#[test]
fn job_that_creates_forbidden_files_leaves_nothing_that_runs_later() {
    let (zero, _model) = program_with_model();
    check_run(&zero, &["--yes", "[job]"], "0", &["job_1"]);
    // It ends with the prompt, or soon after: whenever its first file is found.
    zero.stdout(&["jobs", "output", "job_1", "--follow"]);
    for name in [".envrc", ".vscode/tasks.json"] {
        assert!(!zero.folder().join(name).exists(), "{name}");
    }
}

#[test]
fn mentioned_files_are_attached_under_rules() {
    let (zero, model) = program_with_model();
    let settings = model.settings_json(json!({"permissions": {"deny": ["Read(denied.txt)"]}}));
    write_file(&zero, USER_FILE, settings);
    write_file(&zero, "my file.txt", "with a blank\n");
    write_file(&zero, "denied.txt", "nobody reads this\n");
    write_file(&zero, "docs/page.md", "a page\n");
    let prompt = "Look at @hello.txt, @\"my file.txt\", @docs/, @denied.txt, @gone.txt, @nope and me@hello.txt";
    let notes = [
        "attached `hello.txt`",
        "attached `docs/`",
        "`@denied.txt` was not attached",
        "`@gone.txt` was not attached: there is no such file",
    ];
    check_run(&zero, &[prompt], "0", &notes);
    let asked = model.requests().pop().unwrap();
    let asked = asked["messages"].as_array().unwrap().last().unwrap()["content"].to_string();
    let text: String = asked.replace("\\n", "\n").replace("\\t", "\t").replace("\\\"", "\"");
    for part in [
        "<attached path=\"hello.txt\">\n     1\thello\n</attached>",
        "<attached path=\"my file.txt\">\n     1\twith a blank\n</attached>",
        "<attached path=\"docs/\">",
        "page.md",
        "(`@denied.txt` was not attached: ",
        "(`@gone.txt` was not attached: there is no such file)",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(!text.contains("nobody reads this"), "{text}");
    assert_eq!(text.matches("<attached").count(), 3, "{text}");
    assert!(!text.contains("(`@nope`"), "{text}");
    // A slash command is sent as it is.
    let wrong = "`@denied.txt` is not a line range";
    check_run(&zero, &["/read hello.txt @denied.txt"], "2", &[wrong]);
}

#[test]
fn interrupt_reaches_model_and_ledger() {
    let (zero, model) = program_with_model();
    let mut run = zero
        .command(&["run", "--session", "s", "[hang]"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut bytes = [0; 3];
    run.stdout.as_mut().unwrap().read_exact(&mut bytes).unwrap();
    assert_eq!(&bytes, b"one");
    send_signal(&zero, "INT", run.id());
    assert_eq!(wait_for_child(&mut run).code(), Some(130));
    model.wait_for_disconnect();
    let ledger = zero.stdout(&["sessions", "export", "s", "--format", "jsonl"]);
    let last: Value = serde_json::from_str(ledger.lines().last().unwrap()).unwrap();
    assert_eq!(last["end"], json!({"how": "aborted", "by": "rpc"}), "{ledger}");
}

#[test]
fn interrupt_ends_jobs_of_the_run() {
    let (zero, _model) = program_with_model();
    let seconds = unique_seconds(66);
    let job = json!({"command": format!("sleep {seconds}"), "run_in_background": true});
    let prompt = format!("script:\ncall Bash {job}\nturn\nhang");
    let mut run = zero
        .command(&["run", "--yes", "--session", "s", &prompt])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let until = Instant::now() + EVENTS_TIMEOUT;
    while find_sleepers(seconds).is_empty() {
        assert!(Instant::now() < until, "the job starts");
        std::thread::sleep(Duration::from_millis(5));
    }
    send_signal(&zero, "INT", run.id());
    assert_eq!(wait_for_child(&mut run).code(), Some(130));
    assert!(find_sleepers(seconds).is_empty());
}

/// How long a run with some thousand events may take on a busy machine.
const EVENTS_TIMEOUT: Duration = Duration::from_secs(120);

/// A run with more events than the client's queue and the pipe of its output hold, which nobody reads.
fn start_unread_run(zero: &TestProgram, model: &ModelServer, gateway: &GatewayProcess) -> Child {
    let turns = (0..6).map(|turn| format!("call Nope{turn} {{}}\n").repeat(250) + "turn\n");
    let prompt = format!("script:\n{}hang", turns.collect::<String>());
    let args = ["run", "--json", "--url", &gateway.url, &prompt];
    let mut command = zero.command(&args);
    let mut run = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let by = Instant::now() + EVENTS_TIMEOUT;
    while model.requests().len() < 7 {
        assert_eq!(run.try_wait().unwrap(), None, "it ended early");
        if Instant::now() >= by {
            run.kill().unwrap();
            panic!("the model was asked {} of 7 times", model.requests().len());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    run
}

#[test]
fn interrupt_is_handled_while_many_events_wait() {
    let (zero, model) = program_with_model();
    let gateway = GatewayProcess::start(&zero);
    let mut run = start_unread_run(&zero, &model, &gateway);
    send_signal(&zero, "INT", run.id());
    let mut stdout = run.stdout.take().unwrap();
    let reading = std::thread::spawn(move || {
        let mut events = String::new();
        stdout.read_to_string(&mut events).unwrap();
        events
    });
    assert_eq!(wait_for_child(&mut run).code(), Some(130));
    let events = reading.join().unwrap();
    let last: Value = serde_json::from_str(events.lines().last().unwrap()).unwrap();
    assert_eq!(last["end"]["how"], "aborted", "{last}");
    assert!(events.lines().count() > 3_000);
}

#[test]
fn repeated_interrupt_ends_run_with_unread_output() {
    let (zero, model) = program_with_model();
    let gateway = GatewayProcess::start(&zero);
    let mut run = start_unread_run(&zero, &model, &gateway);
    let by = Instant::now() + EVENTS_TIMEOUT;
    // Signals that arrive together count once.
    while run.try_wait().unwrap().is_none() {
        assert!(Instant::now() < by, "it does not end");
        send_signal(&zero, "INT", run.id());
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(wait_for_child(&mut run).code(), Some(130));
}

#[test]
fn early_interrupt_is_handled() {
    let (zero, _model) = program_with_model();
    for moment in 0..12 {
        let args = ["run", "[hang]"];
        let mut command = zero.command(&args);
        let mut run = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(moment * 5));
        send_signal(&zero, "INT", run.id());
        let ended = wait_for_child(&mut run);
        // Before zero listens, the kernel ends it; shells say 130 for both.
        assert!(ended.code() == Some(130) || ended.signal() == Some(2), "{moment}: {ended}");
    }
}

#[test]
fn resume_command_is_printed_when_useful() {
    let (zero, model) = program_with_model();
    let seen = zero.run(&["run", "[long] words"]);
    let (_, rest) = seen.split_once("note: to continue this session, run `zero ").unwrap();
    let (command, _) = rest.split_once(" PROMPT`").unwrap();
    let args: Vec<&str> = command.split(' ').chain(["go on"]).collect();
    let seen = zero.run(&args);
    assert!(seen.starts_with("exit 0") && !seen.contains("--session"), "{seen}");
    let request = model.requests().pop().unwrap()["messages"].to_string();
    assert!(request.contains("[long] words") && request.contains("go on"), "{request}");
    let seen = zero.run(&["run", "--json", "hi"]);
    assert!(seen.contains("run `zero run --session "), "{seen}");
    check_run(&zero, &["--session", " ", "hi"], "2", &["`--session` is empty"]);
}

#[test]
fn slash_command_failure_is_reported_once() {
    let (zero, _model) = program_with_model();
    let write = r#"/Write {"file_path": "a", "content": "b"}"#;
    for (args, exit, why) in [
        (&["--agent", "direct", write][..], "3", "pass `--yes`"),
        (&["--agent", "direct", "/read nope"], "1", "`nope` does not exist"),
        // Past the model it is the same.
        (&["/read nope"], "1", "`nope` does not exist"),
    ] {
        let seen = zero.run(&[&["run"], args].concat());
        assert!(seen.starts_with(&format!("exit {exit}\n--- stderr\n")), "{seen}");
        assert_eq!(seen.matches(why).count(), 1, "{seen}");
    }
}

#[test]
fn credentials_without_gateway_are_usage_error() {
    let zero = TestProgram::new();
    for way in [
        &["--token", "0123456789abcdef0123"][..],
        &["--token-file", "f"],
        &["--password", "0123456789abcdef0123"],
        &["--password-file", "f"],
        &["--tls-fingerprint", "aa"],
        &["--allow-plaintext"],
    ] {
        for command in [&["run", "/help"][..], &["sessions", "list"]] {
            let seen = zero.run(&[command, way].concat());
            let holds = format!("`{}` needs a remote gateway", way[0]);
            assert!(seen.starts_with("exit 2") && seen.contains(&holds), "{seen}");
            assert!(seen.contains("`--url`") && !seen.contains("0123"), "{seen}");
        }
    }
}

#[test]
fn refusing_or_lost_gateway_error_says_what_to_do() {
    let (zero, _model) = program_with_model();
    let mut gateway = GatewayProcess::start(&zero);
    let url = gateway.url.clone();
    write_file(&zero, "wrong", "wrong-token-0123456789abcdef0123456789");
    let wrong = ["--url", &url, "--token-file", "wrong", "hi"];
    check_run(&zero, &wrong, "1", &["not a token of this gateway", "pass it with `--token-file`"]);
    check_run(&zero, &["--url", "ws://10.0.0.1", "hi"], "1", &["`--allow-plaintext`"]);
    check_run(&zero, &["--url", "nonsense", "hi"], "2", &["write it like `wss://"]);
    let mut run = zero
        .command(&["run", "--url", &url, "[hang]"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut bytes = [0; 3];
    run.stdout.as_mut().unwrap().read_exact(&mut bytes).unwrap();
    gateway.kill();
    let output = run.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.ends_with(b"\n"), "the line of the answer ends");
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.starts_with("error: lost the connection to the gateway during the run"), "{told}");
    let show = told.split('`').nth(1).unwrap();
    assert!(show.starts_with("zero sessions show agent:main:"), "{told}");
    assert!(show.ends_with(&format!(" --url {url}")), "{told}");
    check_run(&zero, &["--url", &url, "hi"], "1", &["start it with `zero gateway`"]);
}

#[test]
fn model_gets_custom_commands_and_agents_file() {
    let (zero, model) = program_with_model();
    write_file(&zero, "AGENTS.md", "Always say moo.\n");
    write_file(&zero, "home/.config/zero/commands/mine.md", "My own words");
    let review = "---\ndescription: fresh eyes\n---\nRead $1 and mind: $ARGUMENTS\n";
    write_file(&zero, ".zero/commands/git/review.md", review);
    for (prompt, told) in [
        ("/git:review abc def", "Read abc and mind: abc def"),
        ("/mine more", "My own words\n\nmore"),
        ("/init the tests", "write `AGENTS.md` in its root"),
        (" /mine", " /mine"),
    ] {
        check_run(&zero, &[prompt], "0", &["Hello from the model."]);
        let request = model.requests().pop().unwrap();
        let messages = request["messages"].as_array().unwrap();
        let [system, .., last] = &messages[..] else { panic!("{request}") };
        assert!(system["content"].as_str().unwrap().contains("Always say moo."), "{system}");
        let content = last["content"].as_str().unwrap();
        assert!(content.contains(told), "{prompt}: {content}");
    }
    check_run(&zero, &["/nope"], "2", &["there is no command `/nope`", "`/help` lists them"]);
    let named = &["--session", "fresh", "/nope"];
    check_run(&zero, named, "2", &["there is no command `/nope`"]);
    assert!(
        !zero.stdout(&["sessions", "list"]).contains("fresh"),
        "a prompt that is not sent leaves no session"
    );
    check_run(&zero, &["--session", "kept", "/mine"], "0", &[]);
    check_run(&zero, &["--session", "kept", "/nope"], "2", &[]);
    assert!(zero.stdout(&["sessions", "list"]).contains("kept"));
    assert_eq!(model.requests().len(), 5, "what is no command is not sent");
}

#[test]
fn json_output_has_ledger_events() {
    let (zero, _model) = program_with_model();
    let lines = zero.stdout(&["run", "--json", "--session", "s", "[read]"]);
    let events: Vec<Event> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let ledger = zero.stdout(&["sessions", "export", "s", "--format", "jsonl"]);
    let ledger: Vec<Event> =
        ledger.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(events.len() > 5 && events.iter().all(|event| ledger.contains(event)), "{lines}");
}

#[test]
fn refused_prompt_leaves_no_new_session() {
    let zero = TestProgram::new();
    let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89";
    write_file(&zero, "dot.png", png);
    let refused = ["--image", "dot.png", "/help"];
    check_run(&zero, &refused, "2", &["does not accept images"]);
    let sessions = || zero.run(&["sessions", "list"]);
    assert!(!sessions().contains("agent:"), "{}", sessions());
    // One that the command did not create belongs to others, too.
    check_run(
        &zero,
        &[&["--session", "new"], &refused[..]].concat(),
        "2",
        &["does not accept images"],
    );
    assert!(!sessions().contains("agent:main:new"), "{}", sessions());
    check_run(&zero, &["--session", "old", "/help"], "0", &[]);
    check_run(
        &zero,
        &[&["--session", "old"], &refused[..]].concat(),
        "2",
        &["does not accept images"],
    );
    assert!(sessions().contains("agent:main:old"), "{}", sessions());
}

#[test]
fn session_continues_with_stdin_and_images() {
    let (zero, model) = program_with_model();
    zero.stdout(&["run", "--session", "s", "first words"]);
    let seen = zero.run_with_input(&["run", "--session", "s", "-"], "words of stdin");
    assert!(seen.starts_with("exit 0\nHello"), "{seen}");
    let request = model.requests().pop().unwrap()["messages"].to_string();
    for text in ["first words", "Hello from the model.", "words of stdin"] {
        assert!(request.contains(text), "{text}: {request}");
    }
    let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89";
    write_file(&zero, "dot.png", png);
    check_run(&zero, &["--image", "dot.png", "what is it?"], "0", &["I see 1 picture."]);
}
