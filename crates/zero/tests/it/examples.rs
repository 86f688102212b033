//! The examples in `examples/`, each run against a scripted model or a gateway.
#![expect(clippy::disallowed_methods, reason = "the tests run the examples as programs")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::config::{USER_FILE, write_file};
use crate::gateway_process::GatewayProcess;
use crate::model_server::ModelServer;
use crate::test_program::TestProgram;

/// Longest example, in lines.
const LINES_MAX: usize = 99;

fn example(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// A model without streaming: it reads `notes.txt`, or writes it if the prompt says so, and repeats what
/// the tool answered.
fn start_model() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // An example that hangs up fails by itself.
            drop(answer(stream));
        }
    });
    port
}

fn answer(mut stream: TcpStream) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let (mut length, mut line) = (0, String::new());
    while reader.read_line(&mut line)? > 2 {
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
        line.clear();
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let request: Value = serde_json::from_slice(&body)?;
    let last = request["messages"].as_array().and_then(|messages| messages.last()).unwrap();
    let message = match last["role"].as_str() {
        Some("tool") => {
            json!({"role": "assistant", "content": format!("The tool said: {}", last["content"])})
        }
        _ => {
            let is_write = last["content"].as_str().is_some_and(|prompt| prompt.contains("write"));
            let known: Vec<&str> = request["tools"]
                .as_array()
                .unwrap()
                .iter()
                .filter_map(|tool| tool["function"]["name"].as_str())
                .collect();
            let (path, content) = ("notes.txt", "changed");
            let (name, input) = match (known.contains(&"read_file"), is_write) {
                (true, false) => ("read_file", json!({"path": path})),
                (true, true) => ("write_file", json!({"path": path, "content": content})),
                (false, false) => ("Read", json!({"file_path": path})),
                (false, true) => ("Write", json!({"file_path": path, "content": content})),
            };
            let call = json!({"id": "call_1", "type": "function", "function": {"name": name, "arguments": input.to_string()}});
            json!({"role": "assistant", "content": null, "tool_calls": [call]})
        }
    };
    let body = json!({"choices": [{"message": message}]}).to_string();
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close";
    write!(stream, "{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

/// Runs an agent twice: it may read, and it may not write.
fn check_agent(make: impl Fn(&TestProgram) -> Command) {
    let zero = TestProgram::new();
    std::fs::write(zero.folder().join("notes.txt"), "buy oat milk\n").unwrap();
    let port = start_model();
    let programs = Path::new(env!("CARGO_BIN_EXE_zero")).parent().unwrap();
    for (prompt, expected) in
        [("read the notes", "oat milk"), ("write the notes", "The tool said:")]
    {
        let mut agent = make(&zero);
        agent
            .arg(prompt)
            .env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", programs.display()))
            .env("MODEL_URL", format!("http://127.0.0.1:{port}/v1"))
            .env("MODEL_ADDRESS", format!("127.0.0.1:{port}"));
        let seen = zero.render_output(&agent.output().unwrap());
        assert!(seen.starts_with("exit 0\n") && seen.contains(expected), "{seen}");
    }
    let notes = std::fs::read_to_string(zero.folder().join("notes.txt")).unwrap();
    assert_eq!(notes, "buy oat milk\n", "it wrote without permission");
}

#[test]
fn python_agent_runs() {
    check_agent(|zero| {
        let mut agent = zero.external_command("python3");
        agent.arg(example("examples/agents/agent.py"));
        agent
    });
}

#[test]
fn typescript_agent_runs() {
    // Node 22.18 runs TypeScript; for older ones, the compiler that other tests use takes the types out.
    let compiler = ["target/language-servers", "/var/tmp/zero-language-servers"]
        .map(|folder| example(folder).join("node_modules/typescript"))
        .into_iter()
        .find(|path| path.exists())
        .expect("typescript is not installed; see docs/start/install.md");
    let script = format!(
        "const ts = require({:?}); const fs = require('fs'); \
         const out = ts.transpileModule(fs.readFileSync({:?}, 'utf8'), {{ reportDiagnostics: true, \
         compilerOptions: {{ module: 'ESNext', target: 'ES2022' }} }}); \
         if (out.diagnostics.length) throw new Error(JSON.stringify(out.diagnostics[0].messageText)); \
         fs.writeFileSync(process.argv[1], out.outputText)",
        compiler,
        example("examples/agents/agent.ts")
    );
    check_agent(|zero| {
        let output = zero.folder().join("agent.mjs");
        let compiled = Command::new("node").args(["-e", &script]).arg(&output).output().unwrap();
        assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
        let mut agent = zero.external_command("node");
        agent.arg(output);
        agent
    });
}

#[test]
fn go_agent_runs() {
    let built = tempfile::tempdir().unwrap();
    let program = built.path().join("agent");
    let mut build = Command::new("go");
    build.args(["build", "-o"]).arg(&program).arg(example("examples/agents/agent.go"));
    build
        .env("GOCACHE", built.path().join("cache"))
        .env("GOFLAGS", "-mod=mod")
        .env("GO111MODULE", "off");
    let built_output = build.output().expect("go is not installed; see docs/start/install.md");
    assert!(built_output.status.success(), "{}", String::from_utf8_lossy(&built_output.stderr));
    check_agent(|zero| zero.external_command(program.to_str().unwrap()));
}

#[test]
fn rust_agent_runs() {
    // `cargo test` and `cargo xtask test` build it beside the program.
    let program = Path::new(env!("CARGO_BIN_EXE_zero")).with_file_name("examples/agent");
    let program = program.to_str().unwrap().to_owned();
    check_agent(move |zero| zero.external_command(&program));
}

#[test]
fn gateway_bot_answers_lines() {
    let zero = TestProgram::new();
    let model = ModelServer::start();
    write_file(&zero, USER_FILE, model.settings_json(json!({})));
    let gateway = GatewayProcess::start(&zero);
    let token = std::fs::read_to_string(zero.folder().join("home/.local/state/zero/gateway.token"))
        .unwrap();
    let mut bot = zero.external_command("node");
    bot.arg("--experimental-websocket")
        .arg(example("examples/bot/bot.mjs"))
        .env("GATEWAY_URL", &gateway.url)
        .env("GATEWAY_TOKEN", token.trim())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = bot.spawn().unwrap();
    // A line of stdin is a prompt, and that of the scripted model has several.
    child.stdin.take().unwrap().write_all(b"hello\nand again\n").unwrap();
    let output = child.wait_with_output().unwrap();
    let seen = zero.render_output(&output);
    assert!(seen.starts_with("exit 0\n"), "{seen}");
    let answers = String::from_utf8(output.stdout).unwrap();
    assert_eq!(answers.lines().filter(|line| !line.is_empty()).count(), 2, "{seen}");
    assert_eq!(model.requests().len(), 2);
}

#[test]
fn policy_example_passes_its_tests() {
    let zero = TestProgram::new();
    let file = example("examples/policy/settings.json");
    let text = std::fs::read_to_string(&file).unwrap();
    let seen = zero.run(&["policy", "test", file.to_str().unwrap()]);
    assert!(seen.starts_with("exit 0\n"), "{seen}");
    // An example that contradicts its rule fails the test.
    let wrong = text.replace("\"git pull\"", "\"git push origin\"");
    std::fs::write(zero.folder().join("wrong.json"), wrong).unwrap();
    let seen = zero.run(&["policy", "test", "wrong.json"]);
    assert!(!seen.starts_with("exit 0\n") && seen.contains("git push origin"), "{seen}");
}

#[test]
fn example_is_short() {
    for path in [
        "examples/agents/agent.py",
        "examples/agents/agent.ts",
        "examples/agents/agent.go",
        "crates/zero/examples/agent.rs",
        "examples/bot/bot.mjs",
        "examples/policy/settings.json",
        "examples/custom-tool/src/main.rs",
        "examples/custom-tool/src/count_words.rs",
        "examples/mcp-server/words.py",
    ] {
        let lines = std::fs::read_to_string(example(path)).unwrap().lines().count();
        assert!(lines <= LINES_MAX, "{path} has {lines} lines");
    }
}
