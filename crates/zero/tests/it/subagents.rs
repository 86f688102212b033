//! Sub-agents as users meet them: the tool `Task`, and agent files.

#![expect(clippy::disallowed_methods, reason = "the test looks at what the program wrote")]

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::config::{USER_FILE, write_file};
use crate::mcp_fixture::wait_for;
use crate::model_server::ModelServer;
use crate::test_program::TestProgram;

/// A program with a scripted model, in whose folder `repo` it works.
pub(crate) struct SubagentFixture {
    pub(crate) zero: TestProgram,
    pub(crate) model: ModelServer,
}

impl SubagentFixture {
    pub(crate) fn new(settings: Value) -> Self {
        let (zero, model) = (TestProgram::outside_tmp(), ModelServer::start());
        write_file(&zero, USER_FILE, model.settings_json(settings));
        write_file(&zero, "repo/hello.txt", "hello\n");
        Self { zero, model }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.zero.folder().join(name)
    }

    /// Runs a script of these steps in `repo`, in the session `s`.
    pub(crate) fn run(&self, args: &[&str], steps: &[String]) -> String {
        let script = format!("script:\n{}", steps.join("\n"));
        let folder = self.path("repo").display().to_string();
        let args = [&["run", "--session", "s", "--cwd", &folder], args, &[&script]].concat();
        self.zero.run(&args)
    }

    /// What the model was told about the last call.
    pub(crate) fn last_result(&self) -> String {
        let requests = self.model.requests();
        let messages = requests.last().unwrap()["messages"].as_array().unwrap().clone();
        let tool = messages.iter().rev().find(|message| message["role"] == "tool").unwrap();
        tool["content"].to_string()
    }
}

/// A call of `Task` whose sub-agent does these steps.
pub(crate) fn task(steps: &[&str], more: Value) -> String {
    let mut input =
        json!({"description": "a part", "prompt": format!("script:\n{}", steps.join("\n"))});
    for (name, value) in more.as_object().unwrap() {
        input[name] = value.clone();
    }
    format!("call Task {input}")
}

#[test]
fn subagent_answers_and_its_rows_name_its_parent() {
    let fixture = SubagentFixture::new(json!({}));
    let read = task(
        &["call Read {\"file_path\": \"hello.txt\"}", "turn", "say It says hello."],
        json!({}),
    );
    let seen = fixture.run(&[], &[read, "turn".to_owned(), "say Well.".to_owned()]);
    assert!(seen.starts_with("exit 0") && seen.contains("task: a part"), "{seen}");
    assert!(fixture.last_result().contains("It says hello."), "{}", fixture.last_result());
    let listed = fixture.zero.stdout(&["sessions", "list", "--json"]);
    assert_eq!(serde_json::from_str::<Value>(&listed).unwrap().as_array().unwrap().len(), 1);
    let children = fixture.zero.stdout(&["sessions", "list", "--subagents-of", "s", "--json"]);
    let children: Value = serde_json::from_str(&children).unwrap();
    let key = children[0]["key"].as_str().unwrap();
    assert!(key.starts_with("agent:main:s/task-"), "{key}");
    let shown = fixture.zero.stdout(&["sessions", "show", key]);
    assert!(shown.contains("It says hello."), "{shown}");
    let mut rows = Vec::new();
    for day in std::fs::read_dir(fixture.path("home/.local/state/zero/audit")).unwrap() {
        let text = std::fs::read_to_string(day.unwrap().path()).unwrap_or_default();
        rows.extend(text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()));
    }
    let row = rows.iter().find(|row| row["tool"] == "Read" && row["status"] == "ok").unwrap();
    assert!(row["parent"].is_string() && row["session"].is_string(), "{row}");
    assert_ne!(row["parent"], row["session"]);
    // The sub-agent counts to the session's usage, under its own key.
    let usage = fixture.zero.stdout(&["usage", "--json", "--by", "session"]);
    let usage: Value = serde_json::from_str(&usage).unwrap();
    assert_eq!(usage["total"]["requests"], 4, "{usage}");
}

#[test]
fn denials_and_usage_of_subagents_count_for_their_run() {
    let fixture = SubagentFixture::new(json!({"permissions": {"deny": ["Bash(touch:*)"]}}));
    let denied =
        task(&["call Bash {\"command\": \"touch x\"}", "turn", "say I could not."], json!({}));
    let own = "call Bash {\"command\": \"touch y\"}".to_owned();
    let end = ["turn".to_owned(), "say Well.".to_owned()];
    for (first, is_shown) in [(denied, false), (own, true)] {
        let steps: Vec<String> = [first].into_iter().chain(end.clone()).collect();
        let seen = fixture.run(&["--yes", "--output-format", "json"], &steps);
        assert!(seen.starts_with("exit 3"), "{seen}");
        let result = seen.lines().find(|line| line.starts_with('{')).unwrap();
        let result: Value = serde_json::from_str(result).unwrap();
        assert_eq!(result["exit_code"], 3);
        // Two requests of each agent, with 10 and 5 tokens.
        let (input, requests) = if is_shown { (20, 2) } else { (40, 4) };
        assert_eq!(result["usage"]["input_tokens"], input, "{result}");
        assert_eq!(result["usage"]["requests"], requests, "{result}");
        assert_eq!(seen.contains("⊘ "), is_shown, "{seen}");
        assert_eq!(seen.contains("a call of the sub-agent was denied"), !is_shown, "{seen}");
    }
}

#[test]
fn question_of_subagent_names_it_and_is_denied_without_user() {
    let fixture = SubagentFixture::new(json!({}));
    let write = "call Write {\"file_path\": \"made.txt\", \"content\": \"x\"}";
    let work = task(&[write, "turn", "say Tried."], json!({}));
    let steps = [work, "turn".to_owned(), "say Well.".to_owned()];
    fixture.run(&[], &steps);
    assert!(!fixture.path("repo/made.txt").exists());
    // With `--yes`, the sub-agent may do what its parent may.
    let seen = fixture.run(&["--yes"], &steps);
    assert!(fixture.path("repo/made.txt").exists(), "{seen}");
    std::fs::remove_file(fixture.path("repo/made.txt")).unwrap();
    // But in plan mode neither may.
    fixture.run(&["--yes", "--mode", "plan"], &steps);
    assert!(!fixture.path("repo/made.txt").exists());
}

#[test]
fn agent_file_restricts_its_subagent() {
    let fixture = SubagentFixture::new(json!({}));
    let file = |tools: &str| {
        format!("---\ndescription: Looks\ntools: {tools}\nmode: plan\n---\nYou only look.")
    };
    write_file(&fixture.zero, "repo/.zero/agents/looker.md", file("Read, Write"));
    write_file(&fixture.zero, "repo/.claude/agents/broken.md", file("Bash(rm:*)"));
    let write = "call Write {\"file_path\": \"made.txt\", \"content\": \"x\"}";
    let work = task(&[write, "turn", "say Tried."], json!({"agent": "looker"}));
    let steps = [work, "turn".to_owned(), "say Well.".to_owned()];
    fixture.run(&["--yes"], &steps);
    assert!(!fixture.path("repo/made.txt").exists(), "its mode is plan");
    let requests = fixture.model.requests();
    let of_child = &requests[1];
    assert!(of_child["messages"][0].to_string().contains("You only look."), "{of_child}");
    let tools: Vec<&str> = of_child["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["function"]["name"].as_str().unwrap())
        .collect();
    assert_eq!(tools.len(), 2, "{tools:?}");
    assert!(requests[0]["tools"].to_string().contains("looker: Looks"));
    let broken = task(&["say x"], json!({"agent": "broken"}));
    fixture.run(&["--yes"], &[broken, "turn".to_owned(), "say Well.".to_owned()]);
    let result = fixture.last_result();
    assert!(result.contains("cannot be used") && result.contains("broken.md"), "{result}");
}

/// A call of `Task` whose sub-agent writes a file.
fn write_task(name: &str) -> String {
    let write = format!("call Write {}", json!({"file_path": name, "content": "made\n"}));
    task(&[&write, "turn", "say Written."], json!({}))
}

#[test]
fn rewind_takes_back_what_subagents_changed() {
    let fixture = SubagentFixture::new(json!({}));
    let steps = [write_task("made.txt"), "turn".to_owned(), "say Well.".to_owned()];
    let seen = fixture.run(&["--yes"], &steps);
    assert!(seen.starts_with("exit 0") && fixture.path("repo/made.txt").exists(), "{seen}");
    let seen = fixture.zero.run(&["sessions", "rewind", "s"]);
    assert!(seen.starts_with("exit 0") && seen.contains("1 file"), "{seen}");
    assert!(!fixture.path("repo/made.txt").exists());
}

#[test]
fn dry_run_discards_what_subagents_changed() {
    let fixture = SubagentFixture::new(json!({}));
    let steps = [write_task("made.txt"), "turn".to_owned(), "say Well.".to_owned()];
    let seen = fixture.run(&["--yes", "--dry-run"], &steps);
    assert!(seen.starts_with("exit 0") && seen.contains("changes were discarded"), "{seen}");
    assert!(!fixture.path("repo/made.txt").exists());
}

/// The questions that wait: the id and the title of each.
pub(crate) fn waiting_questions(fixture: &SubagentFixture) -> Vec<(String, String)> {
    let listed = fixture.zero.stdout(&["questions", "list", "--json"]);
    let listed: Value = serde_json::from_str(&listed).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let question = |it: &Value| (text(&it["request"]["id"]), text(&it["request"]["title"]));
    listed["approvals"].as_array().unwrap().iter().map(question).collect()
}

#[test]
fn question_of_subagent_is_parked_and_its_answer_continues_it() {
    let fixture = SubagentFixture::new(json!({}));
    let steps = [write_task("made.txt"), "turn".to_owned(), "say Well.".to_owned()];
    let seen = fixture.run(&["--park"], &steps);
    assert!(seen.starts_with("exit 6"), "{seen}");
    assert!(seen.contains("the run waits for your answer: sub-agent `task`: "), "{seen}");
    assert!(!seen.contains("the user rejected"), "{seen}");
    assert!(!fixture.path("repo/made.txt").exists());
    let [(id, title)] = &waiting_questions(&fixture)[..] else { panic!("one question waits") };
    assert!(title.starts_with("sub-agent `task`: "), "{title}");
    let seen = fixture.zero.run(&["questions", "answer", id, "allow_once"]);
    assert!(seen.starts_with("exit 0") && seen.contains("Well."), "{seen}");
    assert!(fixture.path("repo/made.txt").exists());
    assert!(fixture.last_result().contains("Written."), "{}", fixture.last_result());
    let children = fixture.zero.stdout(&["sessions", "list", "--subagents-of", "s", "--json"]);
    let children: Value = serde_json::from_str(&children).unwrap();
    assert_eq!(children.as_array().unwrap().len(), 1, "it is the same sub-agent");
    let seen = fixture.zero.run(&["questions", "answer", id, "allow_once"]);
    assert!(seen.starts_with("exit 2"), "once: {seen}");
}

#[test]
fn questions_of_two_subagents_are_answered_one_after_the_other() {
    let fixture = SubagentFixture::new(json!({}));
    let end = ["turn".to_owned(), "say Well.".to_owned()];
    let steps: Vec<String> =
        [write_task("one.txt"), write_task("two.txt")].into_iter().chain(end).collect();
    let seen = fixture.run(&["--park"], &steps);
    assert!(seen.starts_with("exit 6"), "{seen}");
    assert_eq!(seen.matches("the run waits for your answer").count(), 2, "{seen}");
    let asked = waiting_questions(&fixture);
    assert_eq!(asked.len(), 2);
    let seen = fixture.zero.run(&["questions", "answer", &asked[0].0, "allow_once"]);
    assert!(seen.starts_with("exit 6") && seen.contains(&asked[1].0), "{seen}");
    assert_eq!(waiting_questions(&fixture), asked[1..]);
    let made = || ["repo/one.txt", "repo/two.txt"].map(|name| fixture.path(name).exists());
    assert_eq!(made().into_iter().filter(|made| *made).count(), 1);
    let seen = fixture.zero.run(&["questions", "answer", &asked[1].0, "allow_once"]);
    assert!(seen.starts_with("exit 0") && seen.contains("Well."), "{seen}");
    assert_eq!(made(), [true, true]);
    assert!(waiting_questions(&fixture).is_empty());
}

#[test]
fn question_of_subagent_outlives_killed_process() {
    let fixture = SubagentFixture::new(json!({"subagents": {"maxDepth": 2}}));
    // Two levels below.
    let deep = task(&[&write_task("made.txt"), "turn", "say Passed on."], json!({}));
    let script = format!("script:\n{deep}\nturn\nsay Well.");
    let folder = fixture.path("repo").display().to_string();
    let mut run = fixture
        .zero
        .command(&["run", "--park", "--session", "s", "--cwd", &folder, &script])
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    wait_for("the question", || !waiting_questions(&fixture).is_empty());
    // It may have parked the run already; either way the question is kept.
    let _ = run.kill();
    run.wait().unwrap();
    let [(id, title)] = &waiting_questions(&fixture)[..] else { panic!("one question waits") };
    assert!(title.starts_with("sub-agent `task`: sub-agent `task`: "), "{title}");
    let seen = fixture.zero.run(&["questions", "answer", id, "allow_once"]);
    assert!(seen.starts_with("exit 0") && seen.contains("Well."), "{seen}");
    assert!(fixture.path("repo/made.txt").exists());
    assert!(fixture.last_result().contains("Passed on."), "{}", fixture.last_result());
}

#[test]
fn rejected_call_of_parked_subagent_does_not_run() {
    let fixture = SubagentFixture::new(json!({}));
    let steps = [write_task("made.txt"), "turn".to_owned(), "say Well.".to_owned()];
    assert!(fixture.run(&["--park"], &steps).starts_with("exit 6"));
    let [(id, _)] = &waiting_questions(&fixture)[..] else { panic!("one question waits") };
    let seen = fixture.zero.run(&["questions", "answer", id, "reject_once"]);
    assert!(seen.starts_with("exit 3") && seen.contains("Well."), "{seen}");
    assert!(!fixture.path("repo/made.txt").exists());
}

#[test]
fn deleted_session_takes_its_subagents_with_it() {
    let fixture = SubagentFixture::new(json!({}));
    let steps = [write_task("made.txt"), "turn".to_owned(), "say Well.".to_owned()];
    fixture.run(&["--yes"], &steps);
    let children = fixture.zero.stdout(&["sessions", "list", "--subagents-of", "s", "--json"]);
    let children: Value = serde_json::from_str(&children).unwrap();
    let key = children[0]["key"].as_str().unwrap().to_owned();
    assert!(fixture.zero.run(&["sessions", "delete", "--yes", "s"]).starts_with("exit 0"));
    let seen = fixture.zero.run(&["sessions", "show", &key]);
    assert!(!seen.starts_with("exit 0"), "{seen}");
}

/// Memory of their own that a process and its children have, in bytes: the sessions of `zero run` are in a
/// child, which can outlive it.
fn own_memory(pid: u32) -> u64 {
    let processes = std::fs::read_dir("/proc").unwrap();
    let statuses = processes
        .filter_map(|entry| std::fs::read_to_string(entry.ok()?.path().join("status")).ok());
    let mut count = 0;
    let memory = statuses.map(|status| {
        let field = |name| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let is_of_run = ["Pid:", "PPid:"].map(field).contains(&Some(&*pid.to_string()));
        let Some(anonymous) = field("RssAnon:").filter(|_| is_of_run) else { return 0 };
        count += 1;
        anonymous.trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
    });
    let memory = memory.sum();
    assert!(count >= 2, "the sessions are in a child: {count}");
    memory
}

/// Memory of a run while this many sub-agents wait for the model.
fn memory_with_subagents(count: usize) -> u64 {
    let fixture = SubagentFixture::new(json!({"subagents": {"maxParallel": 20}}));
    let steps = vec![task(&["hang"], json!({})); count].join("\n");
    let folder = fixture.path("repo").display().to_string();
    let script = format!("script:\n{steps}");
    let mut run = fixture
        .zero
        .command(&["run", "--yes", "--cwd", &folder, &script])
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    wait_for("all sub-agents", || fixture.model.requests().len() == count + 1);
    let memory = own_memory(run.id());
    run.kill().unwrap();
    run.wait().unwrap();
    memory
}

#[test]
fn twenty_subagents_side_by_side_take_little_memory() {
    let (one, twenty) = (memory_with_subagents(1), memory_with_subagents(20));
    assert!(twenty > one, "{one} with one, {twenty} with 20");
    let each = (twenty - one) / 19;
    assert!(each <= 4_000_000, "{each} bytes each: {one} with one, {twenty} with 20");
}
