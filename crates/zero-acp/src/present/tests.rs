//! What a client is told, entry by entry, and that the order of things never confuses it.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use zero_core::event::{
    ApprovalOption, Attachment, Event, PlanEntry, ResultContent, Shown, ToolStatus, Usage, What,
};

use super::*;

mod interleaving;

fn caps() -> Caps {
    Caps::default()
}

fn terminals() -> Caps {
    Caps { shows_output: true, ..Caps::default() }
}

fn presenter(caps: Caps) -> Presenter {
    Presenter::new(caps, PathBuf::from("/w"))
}

fn of_run(run: &str, what: What) -> Event {
    Event { seq: 7, run: Some(RunId::new(run).unwrap()), time_ms: 1_000, what }
}

fn event(what: What) -> Event {
    of_run("r1", what)
}

/// The updates as JSON, each of which the schema reads back as it was.
#[track_caller]
fn told(updates: Vec<SessionUpdate>) -> Vec<Value> {
    let json = |update: SessionUpdate| {
        let json = serde_json::to_value(&update).unwrap();
        let back: SessionUpdate = serde_json::from_value(json.clone()).unwrap();
        assert_eq!(back, update);
        json
    };
    updates.into_iter().map(json).collect()
}

impl Presenter {
    #[track_caller]
    fn live(&mut self, what: What) -> Vec<Value> {
        told(self.entry(&event(what), Moment::Live))
    }

    #[track_caller]
    fn replay(&mut self, what: What) -> Vec<Value> {
        told(self.entry(&event(what), Moment::Replay))
    }
}

#[track_caller]
fn check(updates: Vec<Value>, expected: Value) {
    assert_eq!(Value::from(updates), expected);
}

fn text(text: &str) -> What {
    What::Text { text: text.to_owned() }
}

fn started(call: &str, name: &str, kind: Kind, input: Value) -> What {
    What::ToolStarted {
        call: call.to_owned(),
        name: name.to_owned(),
        title: name.to_owned(),
        kind,
        input,
        locations: vec![],
    }
}

fn words(text: &str) -> Vec<ResultContent> {
    vec![ResultContent::Text { text: text.to_owned() }]
}

fn ended(call: &str, status: ToolStatus, text: &str) -> What {
    What::ToolEnded {
        call: call.to_owned(),
        status,
        content: words(text),
        display: None,
        locations: vec![],
    }
}

fn run_ended(end: RunEnd) -> What {
    What::RunEnded { end, usage: Usage::default() }
}

fn request(call: &str, commands: &[&str]) -> ApprovalRequest {
    ApprovalRequest {
        id: "ask_1".to_owned(),
        call: call.to_owned(),
        tool: "Bash".to_owned(),
        title: "Tidy up".to_owned(),
        reason: "no rule allows it".to_owned(),
        risk: "high".to_owned(),
        commands: commands.iter().map(|line| (*line).to_owned()).collect(),
        effects: vec![],
        preview: None,
        input: None,
        options: vec![ApprovalOption { id: "allow_once".to_owned(), name: "Allow".to_owned() }],
        cwd: "/w".to_owned(),
        expires_ms: 0,
    }
}

fn place(path: &str, line: Option<u64>) -> Place {
    Place { path: path.to_owned(), line }
}

/// The ids of the messages that words belong to.
fn messages(presenter: &mut Presenter, events: &[Event], moment: Moment) -> Vec<String> {
    let updates = events.iter().flat_map(|event| presenter.entry(event, moment));
    told(updates.collect())
        .iter()
        .filter_map(|update| {
            let id = update.get("messageId")?.as_str()?;
            Some(format!("{} {id}", update["sessionUpdate"].as_str()?))
        })
        .collect()
}

#[test]
fn a_message_keeps_its_id_until_something_else_comes() {
    let events = [
        event(What::Prompt { text: "hi".to_owned(), attachments: vec![] }),
        event(What::RunStarted { agent: "main".to_owned(), model: "m".to_owned() }),
        event(What::Thought { text: "hm".to_owned() }),
        event(text("a")),
        of_run("r2", What::Prompt { text: "next".to_owned(), attachments: vec![] }),
        event(text("b")),
        event(text("")),
        event(started("c1", "Read", Kind::Read, json!({}))),
        event(ended("c1", ToolStatus::Completed, "x")),
        event(text("c")),
        event(run_ended(RunEnd::Completed)),
        of_run("r2", text("d")),
    ];
    let live = [
        "agent_thought_chunk r1:1",
        "agent_message_chunk r1:2",
        "agent_message_chunk r1:2",
        "agent_message_chunk r1:3",
        "agent_message_chunk r2:1",
    ];
    assert_eq!(messages(&mut presenter(caps()), &events, Moment::Live), live);
    // The tools being quicker than the ledger changes nothing.
    let mut quick = presenter(caps());
    quick.described("c1", "Read a", Kind::Read, &[]);
    assert_eq!(messages(&mut quick, &events, Moment::Live), live);
    let again = messages(&mut presenter(caps()), &events, Moment::Replay);
    assert_eq!(
        again.iter().filter(|id| id.starts_with("agent")).collect::<Vec<_>>(),
        live.iter().collect::<Vec<_>>()
    );
    assert_eq!(again[0], "user_message_chunk r1:prompt");
    assert_eq!(again[3], "user_message_chunk r2:prompt");
}

#[test]
fn a_prompt_is_told_only_again_and_without_the_folder() {
    let picture = |data: &str| Attachment {
        mime: "image/png".to_owned(),
        data: data.to_owned(),
        name: Some("a\n.png".to_owned()),
    };
    let prompt = What::Prompt {
        text: "[Working directory: ~/w]\n\nhi".to_owned(),
        attachments: vec![picture("AAAA"), picture("")],
    };
    check(presenter(caps()).live(prompt.clone()), json!([]));
    let chunk = |content: Value| json!({"sessionUpdate": "user_message_chunk", "messageId": "r1:prompt", "content": content});
    check(
        presenter(caps()).replay(prompt),
        json!([
            chunk(json!({"type": "text", "text": "hi"})),
            chunk(json!({"type": "image", "data": "AAAA", "mimeType": "image/png"})),
            chunk(json!({"type": "text", "text": "[a .png]"})),
        ]),
    );
}

#[test]
fn a_call_is_announced_once_and_then_only_what_is_new_is_told() {
    let input = json!({"file_path": "a.rs"});
    let updated = || What::ToolUpdated {
        call: "c1".to_owned(),
        title: Some("Read `a.rs`".to_owned()),
        kind: Some(Kind::Read),
        locations: vec![place("a.rs", Some(2))],
        progress: None,
    };
    let places = [place("/w/a.rs", Some(2))];
    // The ledger first.
    let mut one = presenter(caps());
    check(
        one.live(started("c1", "Read", Kind::Read, input.clone())),
        json!([{"sessionUpdate": "tool_call", "toolCallId": "c1", "title": "Read a.rs", "name": "Read",
                "kind": "read", "rawInput": input}]),
    );
    check(
        told(one.described("c1", "Read `a.rs`", Kind::Read, &places)),
        json!([{"sessionUpdate": "tool_call_update", "toolCallId": "c1", "title": "Read `a.rs`",
                "locations": [{"path": "/w/a.rs", "line": 2}]}]),
    );
    check(one.live(updated()), json!([]));
    // The tools first: what is known worse comes late and changes nothing.
    let mut two = presenter(caps());
    check(
        told(two.described("c1", "Read `a.rs`", Kind::Read, &places)),
        json!([{"sessionUpdate": "tool_call", "toolCallId": "c1", "title": "Read `a.rs`", "kind": "read",
                "locations": [{"path": "/w/a.rs", "line": 2}]}]),
    );
    check(
        two.live(started("c1", "Read", Kind::Other, input.clone())),
        json!([{"sessionUpdate": "tool_call_update", "toolCallId": "c1", "name": "Read", "rawInput": input}]),
    );
    check(two.live(updated()), json!([]));
    // An end of which there was no beginning.
    let updates = presenter(caps()).live(ended("c9", ToolStatus::Completed, "x"));
    let kinds: Vec<_> = updates.iter().map(|update| &update["sessionUpdate"]).collect();
    assert_eq!(kinds, ["tool_call", "tool_call_update"]);
}

#[test]
fn titles_are_safe_and_say_what_it_is_about() {
    #[track_caller]
    fn check(name: &str, title: &str, kind: Kind, input: Value, expected: &str) {
        assert_eq!(headline(name, title, kind, &input), expected);
    }
    check("Bash", "Bash", Kind::Execute, json!({"command": "ls\n-la"}), "ls -la");
    check("Bash", "List", Kind::Execute, json!({"command": "ls"}), "List");
    check("Grep", "Grep", Kind::Search, json!({"pattern": "a\u{1b}b"}), "Grep a\\u{1b}b");
    check("x", "", Kind::Other, json!([1]), "x");
    check("x", "x", Kind::Other, json!({"command": "ls"}), "x");
    let long = headline("x", &"y".repeat(5000), Kind::Other, &json!({}));
    assert_eq!(long.chars().count(), TITLE_CHARS_MAX + 1);
}

#[test]
fn every_end_is_completed_or_failed_with_its_words() {
    #[track_caller]
    fn check(status: ToolStatus, text: &str, expected: &str, words: &str) {
        let mut presenter = presenter(caps());
        presenter.live(started("c1", "X", Kind::Other, json!({})));
        let updates = presenter.live(ended("c1", status, text));
        assert_eq!(updates.len(), 1);
        assert_eq!(updates[0]["status"], expected);
        assert_eq!(updates[0]["content"][0]["content"]["text"], words);
        let raw = &updates[0]["rawOutput"];
        assert_eq!(raw["content"], json!([{"type": "text", "text": text}]));
        assert_eq!(raw["isError"], expected == "failed");
        // It is told once, whatever comes after it.
        assert_eq!(presenter.live(ended("c1", ToolStatus::Completed, "x")), Vec::<Value>::new());
        assert_eq!(told(presenter.begun("c1")), Vec::<Value>::new());
        assert_eq!(told(presenter.printed("c1", "x", Instant::now())), Vec::<Value>::new());
        assert_eq!(told(presenter.described("c1", "y", Kind::Read, &[])), Vec::<Value>::new());
        assert_eq!(presenter.live(run_ended(RunEnd::Completed)).len(), 1);
    }
    check(ToolStatus::Completed, "done", "completed", "done");
    check(ToolStatus::Failed, "broken", "failed", "broken");
    check(ToolStatus::Denied, "denied by you", "failed", "denied by you");
    check(ToolStatus::Cancelled, "stopped", "failed", "stopped");
    check(
        ToolStatus::Interrupted,
        "",
        "failed",
        "zero stopped before it was known what became of it",
    );
}

#[test]
fn a_change_stays_to_be_seen() {
    let mut presenter = presenter(caps());
    presenter.live(started("c1", "Write", Kind::Edit, json!({"file_path": "a", "content": "b"})));
    let updates = presenter.live(What::ToolEnded {
        call: "c1".to_owned(),
        status: ToolStatus::Completed,
        content: words("Wrote a\n-a\n+b"),
        display: Some(Shown::Diff {
            path: "a".to_owned(),
            unified: "-a\n+b".to_owned(),
            old_text: Some("a\n".to_owned()),
            new_text: Some("b\n".to_owned()),
            partial: false,
        }),
        locations: vec![place("a", Some(1))],
    });
    assert_eq!(
        updates[0]["content"],
        json!([{"type": "diff", "path": "/w/a", "oldText": "a\n", "newText": "b\n"},
               {"type": "content", "content": {"type": "text", "text": "Wrote a"}}])
    );
    assert_eq!(updates[0]["locations"], json!([{"path": "/w/a", "line": 1}]));
    assert_eq!(updates[0]["status"], "completed");
}

#[test]
fn results_are_shown_by_what_they_are() {
    #[track_caller]
    fn check(kind: Kind, display: Option<&str>, content: Vec<ResultContent>, expected: Value) {
        let mut presenter = presenter(caps());
        presenter.live(started("c1", "X", kind, json!({})));
        let updates = presenter.live(What::ToolEnded {
            call: "c1".to_owned(),
            status: ToolStatus::Completed,
            content,
            display: display.map(|text| Shown::Markdown { text: text.to_owned() }),
            locations: vec![],
        });
        let blocks: Vec<Value> = updates[0]["content"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| {
                let block = &it["content"];
                block["text"].as_str().map_or_else(|| block.clone(), Value::from)
            })
            .collect();
        assert_eq!(Value::from(blocks), expected);
    }
    check(Kind::Read, Some("Read `a`"), words("1 x"), json!(["Read `a`", "```\n1 x\n```"]));
    check(Kind::Search, Some("Found 1 file"), words("a"), json!(["Found 1 file", "```\na\n```"]));
    check(Kind::Other, Some("**yes**"), words("yes"), json!(["**yes**"]));
    check(Kind::Other, None, words("yes"), json!(["yes"]));
    check(
        Kind::Execute,
        Some("\u{1b}[31mred\u{1b}[m\u{7}"),
        words("red"),
        json!(["```console\nred\n```"]),
    );
    check(Kind::Execute, None, vec![], json!([]));
    let image = ResultContent::Image { mime: "image/png".to_owned(), data: "AAAA".to_owned() };
    check(
        Kind::Read,
        Some("Read `a`"),
        vec![image],
        json!(["Read `a`", {"type": "image", "data": "AAAA", "mimeType": "image/png"}]),
    );
    let huge = ResultContent::Image { mime: "image/png".to_owned(), data: "A".repeat(9 << 20) };
    check(Kind::Other, None, vec![huge], json!(["(image/png, too large to show)"]));
}

#[test]
fn a_command_has_a_terminal_where_the_client_shows_one() {
    let mut presenter = presenter(terminals());
    let now = Instant::now();
    let input = json!({"command": "make"});
    check(
        presenter.live(started("c1", "Bash", Kind::Execute, input.clone())),
        json!([{"sessionUpdate": "tool_call", "toolCallId": "c1", "title": "make", "name": "Bash",
                "kind": "execute", "rawInput": input,
                "content": [{"type": "terminal", "terminalId": "c1"}],
                "_meta": {"terminal_info": {"terminal_id": "c1", "cwd": "/w"}}}]),
    );
    check(
        told(presenter.begun("c1")),
        json!([{"sessionUpdate": "tool_call_update", "toolCallId": "c1", "status": "in_progress"}]),
    );
    let output = |data: &str| {
        json!({"sessionUpdate": "tool_call_update", "toolCallId": "c1",
        "_meta": {"terminal_output": {"terminal_id": "c1", "data": data}}})
    };
    check(
        told(presenter.printed("c1", "\u{1b}[1mone\n\u{1b}]0;", now)),
        json!([output("\u{1b}[1mone\n")]),
    );
    check(told(presenter.printed("c1", "title\u{7}two", now)), json!([output("two")]));
    assert_eq!(presenter.due(), None);
    let updates =
        presenter.live(ended("c1", ToolStatus::Completed, "one\ntwo\n(exit code 2)\n(now in `x`)"));
    assert_eq!(updates[0], output("\n(exit code 2)\n(now in `x`)"));
    assert_eq!(updates[1]["content"], json!([{"type": "terminal", "terminalId": "c1"}]));
    assert_eq!(updates[1]["status"], "completed");
    assert_eq!(updates[1]["rawOutput"]["exitCode"], 2);
    assert_eq!(
        updates[1]["_meta"],
        json!({"terminal_exit": {"terminal_id": "c1", "exit_code": 2, "signal": null}})
    );
}

#[test]
fn a_terminal_is_filled_at_the_end_where_nothing_was_heard() {
    let mut presenter = presenter(terminals());
    presenter.replay(started("c1", "Bash", Kind::Execute, json!({"command": "ls"})));
    let updates = presenter.replay(What::ToolEnded {
        call: "c1".to_owned(),
        status: ToolStatus::Completed,
        content: words("a"),
        display: Some(Shown::Markdown { text: "\u{1b}[34ma\u{1b}[m".to_owned() }),
        locations: vec![],
    });
    assert_eq!(updates[0]["_meta"]["terminal_output"]["data"], "\u{1b}[34ma\u{1b}[m");
    assert_eq!(updates[1]["_meta"]["terminal_exit"]["exit_code"], 0);
    assert_eq!(updates.len(), 2);
}

#[test]
fn exits_are_told_as_far_as_they_are_known() {
    #[track_caller]
    fn check(status: ToolStatus, input: Value, text: &str, code: Value, signal: Value) {
        let mut presenter = presenter(terminals());
        presenter.live(started("c1", "Bash", Kind::Execute, input));
        let updates = presenter.live(ended("c1", status, text));
        let exit = &updates.last().unwrap()["_meta"]["terminal_exit"];
        assert_eq!((&exit["exit_code"], &exit["signal"]), (&code, &signal), "{text}");
    }
    use ToolStatus::{Cancelled, Completed, Denied};
    check(Completed, json!({}), "x", json!(0), Value::Null);
    check(Completed, json!({}), "x\n(exit code 1)", json!(1), Value::Null);
    check(
        Completed,
        json!({}),
        "x\n(ended by SIGKILL, exit code 137)\n(a note)",
        json!(137),
        json!("SIGKILL"),
    );
    check(Completed, json!({}), "(exit code 1)\nx", json!(0), Value::Null);
    check(Completed, json!({"run_in_background": true}), "job 1", Value::Null, Value::Null);
    check(Denied, json!({}), "denied", Value::Null, Value::Null);
    check(Cancelled, json!({}), "stopped", Value::Null, Value::Null);
}

#[test]
fn a_terminal_that_was_never_used_gives_way_to_the_words() {
    let content = |printed: bool| {
        let mut presenter = presenter(terminals());
        presenter.live(started("c1", "Bash", Kind::Execute, json!({"command": "ls"})));
        if printed {
            presenter.printed("c1", "x", Instant::now());
        }
        let updates = presenter.live(ended("c1", ToolStatus::Failed, "stopped after 2 s"));
        assert_eq!(updates.len(), 1);
        updates[0]["content"].clone()
    };
    let words =
        json!({"type": "content", "content": {"type": "text", "text": "stopped after 2 s"}});
    assert_eq!(content(false), json!([words]));
    assert_eq!(content(true), json!([{"type": "terminal", "terminalId": "c1"}, words]));
}

#[test]
fn a_terminal_is_not_sent_everything_there_is() {
    let mut presenter = presenter(terminals());
    presenter.live(started("c1", "Bash", Kind::Execute, json!({"command": "yes"})));
    let piece = "ä".repeat(1 << 19);
    let mut bytes = 0;
    for _ in 0..12 {
        for update in told(presenter.printed("c1", &piece, Instant::now())) {
            let data = update["_meta"]["terminal_output"]["data"].as_str().unwrap_or_default();
            assert!(data.len() <= 256 * 1024);
            bytes += data.len();
        }
    }
    assert!((8 << 20..9 << 20).contains(&bytes), "{bytes}");
    let updates = presenter.live(ended("c1", ToolStatus::Completed, &format!("{piece}the end")));
    let data = updates[0]["_meta"]["terminal_output"]["data"].as_str().unwrap();
    assert!(data.ends_with("the end") && data.len() <= 64 * 1024);
}

#[test]
fn without_a_terminal_the_end_is_shown_now_and_then() {
    let mut presenter = presenter(caps());
    let start = Instant::now();
    let at = |millis| start + Duration::from_millis(millis);
    presenter.live(started("c1", "Bash", Kind::Execute, json!({"command": "make"})));
    let shown = |updates: Vec<SessionUpdate>| -> Vec<String> {
        let text =
            |update: &Value| update["content"][0]["content"]["text"].as_str().map(str::to_owned);
        told(updates).iter().filter_map(text).collect()
    };
    assert_eq!(shown(presenter.printed("c1", "1\n", at(0))), ["```console\n1\n```"]);
    assert_eq!(presenter.due(), None);
    assert_eq!(shown(presenter.printed("c1", "2\n", at(100))), Vec::<String>::new());
    assert_eq!(presenter.due(), Some(at(250)));
    assert_eq!(shown(presenter.overdue(at(249))), Vec::<String>::new());
    assert_eq!(shown(presenter.overdue(at(250))), ["```console\n1\n2\n```"]);
    assert_eq!(presenter.due(), None);
    let times: usize = (0..1000).map(|n| presenter.printed("c1", "ä", at(250 + n)).len()).sum();
    assert!(times <= 4, "{times}");
    let last = shown(presenter.printed("c1", &"äö".repeat(100_000), at(5000)));
    assert!(last[0].len() <= 64 * 1024 + 20 && last[0].ends_with("äö\n```"), "{}", last[0].len());
    presenter.printed("c1", "x", at(5001));
    let updates = presenter.live(ended("c1", ToolStatus::Completed, "all\n(exit code 1)"));
    assert_eq!(updates.len(), 1);
    assert_eq!(updates[0]["content"][0]["content"]["text"], "```console\nall\n(exit code 1)\n```");
    assert_eq!(updates[0]["rawOutput"]["exitCode"], 1);
    assert_eq!((presenter.due(), presenter.overdue(at(9000)).len()), (None, 0));
}

#[test]
fn a_question_repeats_the_call_and_nothing_is_in_progress_until_it_is_answered() {
    let mut presenter = presenter(terminals());
    let input = json!({"command": "rm -rf x", "description": "Tidy up"});
    presenter.live(started("c1", "Bash", Kind::Execute, input.clone()));
    presenter.described("c1", "Tidy up", Kind::Execute, &[]);
    let (first, question) = presenter.asked(&request("c1", &["rm -rf x"]));
    check(
        told(first),
        json!([{"sessionUpdate": "tool_call_update", "toolCallId": "c1", "title": "rm -rf x"}]),
    );
    let question = serde_json::to_value(question).unwrap();
    assert_eq!(question["toolCallId"], "c1");
    assert_eq!(question["title"], "rm -rf x");
    assert_eq!(question["kind"], "execute");
    assert_eq!(question["status"], "pending");
    assert_eq!(question["rawInput"], input);
    assert_eq!(question["content"][0]["content"]["text"], "```sh\nrm -rf x\n```\n\nin `/w`");
    // The model's own words for it do not come back while it is asked.
    let echo = What::ToolUpdated {
        call: "c1".to_owned(),
        title: Some("Tidy up".to_owned()),
        kind: None,
        locations: vec![],
        progress: Some("waiting".to_owned()),
    };
    let updates = presenter.live(echo);
    assert!(
        updates
            .iter()
            .all(|it| it["status"].is_null() && it["title"].is_null() && it["content"].is_null())
    );
    assert!(
        told(presenter.printed("c1", "x", Instant::now())).iter().all(|it| it["status"].is_null())
    );
    check(
        told(presenter.begun("c1")),
        json!([{"sessionUpdate": "tool_call_update", "toolCallId": "c1", "status": "in_progress",
                "content": [{"type": "terminal", "terminalId": "c1"}]}]),
    );
    check(told(presenter.answered("ask_1", "allow_once")), json!([]));
}

#[test]
fn a_question_shows_the_input_that_would_run() {
    let rewritten = json!({"command": "npm install --ignore-scripts"});
    let asked = ApprovalRequest {
        input: Some(Box::new(rewritten.clone())),
        ..request("c1", &["npm install --ignore-scripts"])
    };
    let wrote = || started("c1", "Bash", Kind::Execute, json!({"command": "npm install"}));
    let mut known = presenter(terminals());
    known.live(wrote());
    let (first, question) = known.asked(&asked);
    assert_eq!(question.fields.raw_input.as_ref(), Some(&rewritten));
    assert_eq!(told(first)[0]["rawInput"], rewritten);
    // The ledger may be slower, and says what the model wrote.
    let mut unknown = presenter(terminals());
    unknown.asked(&asked);
    assert!(unknown.live(wrote()).iter().all(|update| update["rawInput"].is_null()));
}

#[test]
fn a_question_can_be_the_first_that_is_heard_of_a_call() {
    let mut presenter = presenter(terminals());
    let (first, question) = presenter.asked(&request("c1", &["ls"]));
    let first = told(first);
    assert_eq!(first.len(), 1);
    assert_eq!(first[0]["sessionUpdate"], "tool_call");
    assert_eq!(first[0]["title"], "ls");
    assert_eq!(first[0]["rawInput"], json!({"command": "ls", "cwd": "/w"}));
    assert_eq!(question.fields.raw_input, Some(json!({"command": "ls", "cwd": "/w"})));
    // What the model wrote is better.
    let updates =
        presenter.live(started("c1", "Bash", Kind::Execute, json!({"command": "ls", "x": 1})));
    check(
        updates,
        json!([{"sessionUpdate": "tool_call_update", "toolCallId": "c1", "rawInput": {"command": "ls", "x": 1}}]),
    );
}

#[test]
fn answers_of_the_ledger_let_calls_go_on_and_settle_questions_of_their_own() {
    let resolved = |answer: &str| What::ApprovalResolved {
        id: "ask_1".to_owned(),
        answer: answer.to_owned(),
        by: "person".to_owned(),
    };
    let status = |call: &str, answer: &str| {
        let mut presenter = presenter(caps());
        presenter.live(What::ApprovalRequested(request(call, &[])));
        let (first, question) = presenter.asked(&request(call, &[]));
        assert_eq!(told(first)[0]["sessionUpdate"], "tool_call");
        let id = if call.is_empty() { "ask_1" } else { call };
        assert_eq!(&*question.tool_call_id.0, id);
        let updates = presenter.live(resolved(answer));
        assert_eq!(presenter.live(resolved(answer)), Vec::<Value>::new());
        updates.first().map(|update| update["status"].clone())
    };
    assert_eq!(status("c1", "allow_once"), Some(json!("in_progress")));
    assert_eq!(status("c1", "reject_once"), None);
    assert_eq!(status("", "allow_once"), Some(json!("completed")));
    assert_eq!(status("", "reject_once"), Some(json!("failed")));
    assert_eq!(status("", "cancelled"), Some(json!("failed")));
}

#[test]
fn nothing_is_open_when_a_run_has_ended() {
    let mut presenter = presenter(terminals());
    presenter.live(started("c1", "Bash", Kind::Execute, json!({"command": "x"})));
    presenter.live(started("c2", "Read", Kind::Read, json!({})));
    presenter.live(ended("c2", ToolStatus::Completed, "x"));
    presenter.described("c3", "Of another run", Kind::Read, &[]);
    let updates = presenter.live(run_ended(RunEnd::Aborted { by: "rpc".to_owned() }));
    assert_eq!(updates[0]["toolCallId"], "c1");
    assert_eq!(updates[0]["status"], "failed");
    assert_eq!(updates[0]["content"][0]["content"]["text"], "stopped with the run");
    assert_eq!(updates[0]["_meta"]["terminal_exit"]["exit_code"], Value::Null);
    assert_eq!(
        updates[1],
        json!({"sessionUpdate": "session_info_update", "updatedAt": "1970-01-01T00:00:01Z"})
    );
    assert_eq!(updates.len(), 2);
    presenter.asked(&request("", &[]));
    let updates = presenter.live(run_ended(RunEnd::Completed));
    assert_eq!(
        (&updates[0]["toolCallId"], &updates[0]["status"]),
        (&json!("ask_1"), &json!("failed"))
    );
    let left = told(presenter.abandon("the gateway is gone"));
    assert_eq!(left.len(), 1);
    assert_eq!(left[0]["toolCallId"], "c3");
    assert_eq!(told(presenter.abandon("again")), Vec::<Value>::new());
}

#[test]
fn a_name_that_is_used_again_is_another_call() {
    let mut presenter = presenter(caps());
    let ids: Vec<Value> = (0..3)
        .flat_map(|_| {
            let mut updates = presenter.live(started("call_0", "Read", Kind::Read, json!({})));
            updates.extend(presenter.live(ended("call_0", ToolStatus::Completed, "x")));
            updates.into_iter().map(|update| update["toolCallId"].clone())
        })
        .collect();
    assert_eq!(ids, ["call_0", "call_0", "call_0#2", "call_0#2", "call_0#3", "call_0#3"]);
}

#[test]
fn a_call_that_the_ledger_does_not_know_ends_too() {
    let mut presenter = presenter(caps());
    presenter.described("t1", "Plan", Kind::Think, &[]);
    let mut end = CallEnd::words(ToolStatus::Completed, "ok");
    let entry = |status: &str, priority: &str| PlanEntry {
        content: "a\nb".to_owned(),
        priority: priority.to_owned(),
        status: status.to_owned(),
    };
    end.plan = Some(vec![entry("in_progress", "high"), entry("completed", "low"), entry("?", "?")]);
    let updates = told(presenter.ended("t1", &end));
    assert_eq!(updates[0]["status"], "completed");
    assert_eq!(
        updates[1],
        json!({"sessionUpdate": "plan", "entries": [
            {"content": "a b", "priority": "high", "status": "in_progress"},
            {"content": "a b", "priority": "low", "status": "completed"},
            {"content": "a b", "priority": "medium", "status": "pending"},
        ]})
    );
}

#[test]
fn progress_is_told_beside_the_call() {
    let progress = || What::ToolUpdated {
        call: "c1".to_owned(),
        title: None,
        kind: None,
        locations: vec![],
        progress: Some("3 of\n9".to_owned()),
    };
    let mut one = presenter(caps());
    one.live(started("c1", "X", Kind::Other, json!({})));
    check(
        one.live(progress()),
        json!([
            {"sessionUpdate": "tool_call_update", "toolCallId": "c1", "status": "in_progress"},
            {"sessionUpdate": "tool_call_update", "toolCallId": "c1",
             "content": [{"type": "content", "content": {"type": "text", "text": "3 of 9"}}],
             "_meta": {"zero/progress": {"message": "3 of 9"}}},
        ]),
    );
    let mut two = presenter(caps());
    two.replay(started("c1", "X", Kind::Other, json!({})));
    check(two.replay(progress()), json!([]));
}

#[test]
fn only_who_takes_notices_and_compactions_gets_them() {
    let notice =
        |topic: &str| What::Notice { topic: topic.to_owned(), text: "so\nit is".to_owned() };
    let compacted =
        || What::Compacted { summary: "sum".to_owned(), tokens_before: 9, tokens_after: 3 };
    let aside = |text: &str| {
        json!([{"sessionUpdate": "agent_thought_chunk", "messageId": "r1:notice-7",
                "content": {"type": "text", "text": format!("[zero] {text}\n")}}])
    };
    let mut plain = presenter(caps());
    for topic in ["retry", "loop_guard", "compaction", "queued"] {
        check(plain.live(notice(topic)), aside("so it is"));
    }
    check(plain.replay(notice("retry")), json!([]));
    check(plain.replay(notice("loop_guard")), aside("so it is"));
    let summed_up = aside("the conversation was summed up: about 9 tokens before, 3 now");
    check(plain.live(compacted()), summed_up.clone());
    check(plain.replay(compacted()), summed_up);
    let mut able =
        presenter(Caps { takes_notices: true, takes_compaction: true, ..Caps::default() });
    let told = |severity: &str| json!([{"sessionUpdate": "notice", "severity": severity, "title": "so it is"}]);
    check(able.live(notice("retry")), told("warning"));
    check(able.live(notice("loop_guard")), told("warning"));
    check(able.live(notice("queued")), told("info"));
    check(able.replay(notice("loop_guard")), json!([]));
    check(
        able.live(compacted()),
        json!([{"sessionUpdate": "compaction_update", "compactionId": "compaction-7",
                "status": "completed", "summary": [{"type": "text", "text": "sum"}]}]),
    );
    // Words of zero's own do not break a message.
    let mut talking = presenter(caps());
    let before = talking.live(text("a"))[0]["messageId"].clone();
    talking.live(notice("retry"));
    assert_eq!(talking.live(text("b"))[0]["messageId"], before);
}

#[test]
fn what_a_session_takes_and_is_called_is_told() {
    let usage = |cost_usd| Usage { cost_usd, ..Usage::default() };
    let reported = |cost_usd, window| What::UsageReported {
        run_usage: usage(cost_usd),
        context_tokens: 5,
        context_window: window,
    };
    let mut presenter = presenter(caps());
    let info = SessionInfo {
        title: Some("A\ntitle".to_owned()),
        updated_ms: 2_000,
        usage: usage(Some(1.0)),
        context_tokens: Some(3),
        context_window: Some(10),
        ..SessionInfo::default()
    };
    let full = |used: u64, cost: f64| {
        json!({"sessionUpdate": "usage_update", "used": used, "size": 10,
        "cost": {"amount": cost, "currency": "USD"}})
    };
    check(
        told(presenter.standing(&info)),
        json!([
            {"sessionUpdate": "session_info_update", "title": "A title", "updatedAt": "1970-01-01T00:00:02Z"},
            full(3, 1.0),
        ]),
    );
    check(presenter.live(reported(Some(0.5), 10)), json!([full(5, 1.5)]));
    presenter.live(What::RunEnded { end: RunEnd::Completed, usage: usage(Some(0.5)) });
    check(presenter.live(reported(Some(0.25), 10)), json!([full(5, 1.75)]));
    check(presenter.live(reported(None, 0)), json!([]));
    check(presenter.replay(reported(None, 10)), json!([]));
    let changed = |field: &str, value: Option<&str>| What::Changed {
        field: field.to_owned(),
        value: value.map(str::to_owned),
    };
    check(
        presenter.live(changed("title", Some("x"))),
        json!([{"sessionUpdate": "session_info_update", "title": "x"}]),
    );
    check(
        presenter.live(changed("title", None)),
        json!([{"sessionUpdate": "session_info_update", "title": null}]),
    );
    check(
        presenter.live(changed("mode", Some("plan"))),
        json!([{"sessionUpdate": "current_mode_update", "currentModeId": "plan"}]),
    );
    for silent in [
        changed("mode", Some("yolo")),
        changed("mode", None),
        changed("model", Some("x")),
        changed("label", None),
    ] {
        check(presenter.live(silent), json!([]));
    }
    check(presenter.replay(changed("title", Some("x"))), json!([]));
    check(presenter.live(What::Reset { transcript: 1 }), json!([]));
}

#[test]
fn what_is_kept_in_mind_is_bounded() {
    let mut presenter = presenter(caps());
    for n in 0..CALLS_MAX + 10 {
        let updates = presenter.live(started(&format!("c{n}"), "X", Kind::Other, json!({})));
        // The oldest is not left open.
        assert_eq!(updates.len(), if n < CALLS_MAX { 1 } else { 2 });
    }
    assert_eq!((presenter.calls.len(), presenter.order.len()), (CALLS_MAX, CALLS_MAX));
}

#[test]
fn a_choice_is_shown_as_a_call_and_ends_with_its_answer() {
    let long = format!("a server asks: {}", "which one? ".repeat(100));
    for (answer, status) in
        [("allow_once", "completed"), ("reject_once", "failed"), ("cancelled", "failed")]
    {
        let mut presenter = presenter(caps());
        let (first, question) = presenter.choice("q1", &long);
        let (first, question) = (told(first), serde_json::to_value(question).unwrap());
        assert_eq!(first[0]["sessionUpdate"], "tool_call");
        assert_eq!(first[0]["toolCallId"], "question_q1");
        assert_eq!(question["toolCallId"], "question_q1");
        assert!(question["title"].as_str().unwrap().len() < 300, "{question}");
        assert_eq!(question["content"][0]["content"]["text"], long);
        assert_eq!(presenter.answered("another", answer), Vec::new());
        assert_eq!(told(presenter.answered("q1", answer))[0]["status"], status);
        assert_eq!(presenter.answered("q1", answer), Vec::new());
        assert_eq!(presenter.withdrawn(), Vec::new());
    }
}

#[test]
fn what_is_asked_no_more_is_over_and_a_call_waits_for_its_own_end() {
    let mut presenter = presenter(caps());
    presenter.live(started("c1", "Bash", Kind::Execute, json!({"command": "ls"})));
    presenter.asked(&request("c1", &["ls"]));
    presenter.choice("q1", "which one?");
    let updates = told(presenter.withdrawn());
    assert_eq!(updates.len(), 1, "{updates:?}");
    assert_eq!(
        (&updates[0]["toolCallId"], &updates[0]["status"]),
        (&json!("question_q1"), &json!("failed"))
    );
    assert_eq!(told(presenter.abandon("closed"))[0]["toolCallId"], "c1");
}

#[test]
fn a_run_that_says_nothing_more_leaves_the_calls_of_others_alone() {
    let mut presenter = presenter(caps());
    for (run, call) in [("r1", "c1"), ("r2", "c2")] {
        presenter
            .entry(&of_run(run, started(call, "Bash", Kind::Execute, json!({}))), Moment::Live);
    }
    presenter.started("own", "Read", &json!({}));
    assert_eq!(presenter.run_of("c1").map(RunId::as_str), Some("r1"));
    assert_eq!(presenter.run_of("own"), None);
    let updates = told(presenter.abandon_run("r1", "stopped"));
    assert_eq!(updates.len(), 1, "{updates:?}");
    assert_eq!(
        (&updates[0]["toolCallId"], &updates[0]["status"]),
        (&json!("c1"), &json!("failed"))
    );
    assert_eq!(told(presenter.abandon("closed")).len(), 2);
}

#[test]
fn a_call_that_was_never_shown_ends_unseen() {
    let mut presenter = presenter(caps());
    let end = CallEnd::words(ToolStatus::Completed, "read");
    assert_eq!(presenter.ended("picture_1", &end), Vec::new());
    presenter.asked(&request("picture_1", &[]));
    assert_eq!(told(presenter.ended("picture_1", &end))[0]["status"], "completed");
}

#[test]
fn what_zero_has_to_say_itself_is_a_notice_or_apart_from_the_answer() {
    let mut plain = presenter(caps());
    let (one, other) = (told(vec![plain.remark("a\nb")]), told(vec![plain.remark("c")]));
    assert_eq!(one[0]["sessionUpdate"], "agent_thought_chunk");
    assert_eq!(one[0]["content"]["text"], "[zero] a b\n");
    assert_ne!(one[0]["messageId"], other[0]["messageId"]);
    let mut noticing = presenter(Caps { takes_notices: true, ..caps() });
    assert_eq!(told(vec![noticing.remark("a")])[0]["sessionUpdate"], "notice");
}
