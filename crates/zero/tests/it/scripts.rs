//! `zero run` in scripts: input from stdin, output formats, schemas, models that stand in for others.

use serde_json::{Value, json};

use crate::config::{USER_FILE, write_file};
use crate::model_server::ModelServer;
use crate::test_program::TestProgram;

fn program_with_model() -> (TestProgram, ModelServer) {
    let (zero, model) = (TestProgram::new(), ModelServer::start());
    write_file(&zero, USER_FILE, model.settings_json(json!({})));
    (zero, model)
}

fn last_prompt(model: &ModelServer) -> String {
    let requests = model.requests();
    let messages = requests.last().unwrap()["messages"].as_array().unwrap().clone();
    let last = messages.iter().rev().find(|message| message["role"] == "user").unwrap();
    last["content"].as_str().unwrap().to_owned()
}

#[test]
fn pipe_is_attached_to_prompt() {
    let (zero, model) = program_with_model();
    let seen = zero.run_with_input(&["run", "review this"], "@@ -1 +1 @@\n-a\n+b @hello.txt\n");
    assert!(seen.starts_with("exit 0\n"), "{seen}");
    assert!(seen.contains("note: attached 29 bytes from stdin"), "{seen}");
    let prompt = last_prompt(&model);
    assert!(prompt.starts_with("review this\n\nInput from stdin"), "{prompt}");
    assert!(prompt.contains("\n+b @hello.txt\n"), "{prompt}");
    let seen = zero.run_with_input(&["run", "review this"], "");
    assert!(seen.starts_with("exit 0\n") && !seen.contains("stdin"), "{seen}");
    assert_eq!(last_prompt(&model), "review this");
    let large = "x".repeat(2 * 1024 * 1024);
    let mut child = zero
        .command(&["run", "review this"])
        .stdin(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    // It stops reading at its bound, so that the rest cannot be written.
    let _ = std::io::Write::write_all(&mut child.stdin.take().unwrap(), large.as_bytes());
    let output = child.wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && told.contains("stdin has more than"), "{told}");
    assert_eq!(model.requests().len(), 2, "nothing was sent");
}

#[test]
fn json_is_one_object_at_the_end() {
    let (zero, _model) = program_with_model();
    write_file(&zero, "hello.txt", "hello\n");
    let text = zero.stdout(&["run", "--output-format", "json", "[read]"]);
    assert_eq!(text.lines().count(), 1, "{text}");
    let result: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(result["type"], "result");
    assert!(result["answer"].as_str().unwrap().starts_with("The tool said: "), "{result}");
    assert_eq!(result["outcome"], json!({"how": "completed"}));
    assert_eq!((&result["exit_code"], &result["model"]), (&json!(0), &json!("scripted")));
    assert_eq!(result["usage"]["input_tokens"], 20);
    assert!(result["session"].is_string() && result["cost_usd"].is_null(), "{result}");
    let stream = zero.stdout(&["run", "--output-format", "stream-json", "hi"]);
    let old = zero.stdout(&["run", "--json", "hi"]);
    for text in [&stream, &old] {
        let kinds: Vec<String> = text
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap()["type"].to_string())
            .collect();
        assert_eq!(kinds.last().map(String::as_str), Some("\"run_ended\""), "{text}");
    }
    let seen = zero.run(&["run", "--json", "--output-format", "json", "hi"]);
    assert!(seen.starts_with("exit 2\n"), "{seen}");
}

#[test]
fn answer_fits_schema_or_run_fails() {
    let (zero, model) = program_with_model();
    let schema =
        json!({"type": "object", "required": ["bugs"], "properties": {"bugs": {"type": "array"}}});
    write_file(&zero, "schema.json", schema.to_string());
    let run = |script: &str| zero.run(&["run", "--output-schema", "schema.json", script]);
    // The script is in the first prompt; the corrections have none, and are answered with words.
    let seen = run("script:\nsay {\"bugs\": [1]}");
    assert!(seen.starts_with("exit 0\n{\"bugs\":[1]}\n"), "{seen}");
    let requests = model.requests();
    let system = requests[0]["messages"][0]["content"].as_str().unwrap();
    assert!(system.contains(&schema.to_string()), "{system}");
    let seen = run("hi");
    assert!(seen.starts_with("exit 5\n--- stderr\n"), "{seen}");
    assert!(seen.contains("asking again (2 of 2)"), "{seen}");
    assert!(seen.contains("does not fit the schema after 2 corrections"), "{seen}");
    assert_eq!(model.requests().len(), 4);
    let seen = run("/help");
    assert!(seen.starts_with("exit 5\n") && seen.contains("is not JSON"), "{seen}");
    for (text, why) in [
        ("nonsense", "the schema is not JSON"),
        ("{\"type\": \"strng\"}", "the schema is broken: /type: "),
        ("[]", "the schema is not a JSON object"),
    ] {
        write_file(&zero, "schema.json", text);
        let seen = run("hi");
        assert!(seen.starts_with("exit 2\n") && seen.contains(why), "{seen}");
    }
    assert_eq!(model.requests().len(), 4, "nothing was sent");
}

#[test]
fn other_model_answers_when_first_is_unavailable() {
    let (zero, model) = (TestProgram::new(), ModelServer::start());
    let base_url = format!("http://127.0.0.1:{}/v1", model.port());
    let down = json!({"api": "chat", "model": "down", "baseUrl": "http://127.0.0.1:1/v1", "fallback": ["up"]});
    let up = json!({"api": "chat", "model": "up", "baseUrl": base_url,
        "prices": {"input": 1, "output": 1}});
    let settings = json!({"models": {"down": down, "up": up}, "model": "down"});
    write_file(&zero, USER_FILE, settings.to_string());
    let seen = zero.run(&["run", "hi"]);
    assert!(seen.starts_with("exit 0\nHello from the model.\n"), "{seen}");
    assert!(seen.contains("note: `down` is not available"), "{seen}");
    assert!(seen.contains("`up` answers instead"), "{seen}");
    let usage: Value =
        serde_json::from_str(&zero.stdout(&["usage", "--by", "model", "--json"])).unwrap();
    assert_eq!(usage["rows"][0]["name"], "up");
    assert!(usage["rows"][0]["costUsd"].as_f64().unwrap() > 0.0, "{usage}");
    for (fallback, why) in [
        (json!(["down"]), "`models.down.fallback` names the model itself"),
        (json!(["a", "b", "c", "d", "e"]), "name at most 4"),
    ] {
        let mut wrong = settings.clone();
        wrong["models"]["down"]["fallback"] = fallback;
        write_file(&zero, USER_FILE, wrong.to_string());
        let seen = zero.run(&["run", "hi"]);
        assert!(seen.starts_with("exit 2\n") && seen.contains(why), "{seen}");
    }
}

#[test]
fn wrong_name_of_stand_in_is_passed_over() {
    let (zero, model) = (TestProgram::new(), ModelServer::start());
    let base_url = format!("http://127.0.0.1:{}/v1", model.port());
    let down = json!({"api": "chat", "model": "down", "baseUrl": "http://127.0.0.1:1/v1", "fallback": ["nope", "up"]});
    let up = json!({"api": "chat", "model": "up", "baseUrl": base_url});
    let settings = json!({"models": {"down": down, "up": up}, "model": "down"});
    write_file(&zero, USER_FILE, settings.to_string());
    let why = "`models.down.fallback` names `nope`: there is no model `nope`";
    let seen = zero.run(&["run", "hi"]);
    assert!(seen.starts_with("exit 0\nHello from the model.\n") && seen.contains(why), "{seen}");
    let doctor = zero.run(&["doctor", "--json"]);
    assert!(doctor.contains("`models.down.fallback` names `nope`"), "{doctor}");
}

#[test]
fn unknown_model_of_environment_is_named() {
    let (zero, model) = program_with_model();
    let run = |name: &str| {
        let output = zero.command(&["run", "hi"]).env("ZERO_MODEL", name).output().unwrap();
        zero.render_output(&output)
    };
    let seen = run("scriptd");
    assert!(seen.starts_with("exit 2\n"), "{seen}");
    assert!(seen.contains("there is no model `scriptd`; there are `scripted`"), "{seen}");
    write_file(&zero, USER_FILE, "{}");
    let seen = run("nope");
    assert!(seen.contains("ZERO_MODEL: there is no model `nope`"), "{seen}");
    assert!(seen.contains("run `zero login`"), "{seen}");
    assert_eq!(model.requests().len(), 0);
}
