//! `zero sessions rewind` and `/rewind`: files and conversation go back to before a prompt.

#![expect(clippy::disallowed_methods, reason = "tests use real files directly")]

use serde_json::{Value, json};

use crate::config::{USER_FILE, write_file};
use crate::model_server::ModelServer;
use crate::test_program::TestProgram;

/// A session `s` whose prompts write files.
struct RewindFixture {
    zero: TestProgram,
    model: ModelServer,
}

impl RewindFixture {
    fn new(settings: Value) -> Self {
        let (zero, model) = (TestProgram::new(), ModelServer::start());
        write_file(&zero, USER_FILE, model.settings_json(settings));
        Self { zero, model }
    }

    /// Runs a prompt that makes one call.
    fn call(&self, tool: &str, input: &Value) {
        let script = format!("script:\ncall {tool} {input}\nturn\nsay done");
        self.zero.stdout(&["run", "--yes", "--session", "s", &script]);
    }

    fn write(&self, path: &str, content: &str) {
        self.call("Write", &json!({"file_path": path, "content": content}));
    }

    fn edit(&self, path: &str, old: &str, new: &str) {
        let script = format!(
            "script:\ncall Read {}\nturn\ncall Edit {}\nturn\nsay done",
            json!({"file_path": path}),
            json!({"file_path": path, "old_string": old, "new_string": new})
        );
        self.zero.stdout(&["run", "--yes", "--session", "s", &script]);
    }

    fn read(&self, path: &str) -> Option<String> {
        std::fs::read_to_string(self.zero.folder().join(path)).ok()
    }

    fn rewind(&self, words: &[&str]) -> String {
        self.zero.run(&[&["sessions", "rewind", "s"], words].concat())
    }

    /// The messages that the model gets with the next prompt.
    fn ask(&self, prompt: &str) -> String {
        self.zero.stdout(&["run", "--session", "s", prompt]);
        self.model.requests().pop().unwrap()["messages"].to_string()
    }
}

#[test]
fn rewind_takes_files_and_conversation_back_and_can_be_taken_back() {
    let f = RewindFixture::new(json!({}));
    f.write("a.txt", "one");
    f.write("b.txt", "two");
    f.edit("a.txt", "one", "three");
    let listed = f.rewind(&["--list"]);
    assert!(listed.starts_with("exit 0"), "{listed}");
    let listed: Value =
        serde_json::from_str(&f.zero.stdout(&["sessions", "rewind", "s", "--list", "--json"]))
            .unwrap();
    let listed = listed.as_array().unwrap();
    assert_eq!(listed.len(), 3, "{listed:?}");
    assert_eq!((&listed[1]["number"], &listed[1]["files"]), (&json!(2), &json!(1)), "{listed:?}");
    assert_eq!(listed[1]["inEffect"], true);
    let seen = f.rewind(&["--to", "2"]);
    assert!(seen.starts_with("exit 0"), "{seen}");
    for words in
        ["before prompt 2", "restored a.txt", "removed b.txt", "rewind agent:main:s --undo"]
    {
        assert!(seen.contains(words), "{words}: {seen}");
    }
    assert_eq!((f.read("a.txt").as_deref(), f.read("b.txt")), (Some("one"), None));
    let asked = f.ask("what now");
    assert!(asked.contains("a.txt") && !asked.contains("b.txt"), "{asked}");
    let shown = f.zero.stdout(&["sessions", "show", "s"]);
    assert!(
        shown.contains("rewound to before prompt 2 (files and conversation, 2 files)"),
        "{shown}"
    );
    // Taken back: as it was before the rewind.
    let seen = f.rewind(&["--undo"]);
    assert!(seen.starts_with("exit 0") && seen.contains("took the last rewind back"), "{seen}");
    assert_eq!(f.read("a.txt").as_deref(), Some("three"));
    assert_eq!(f.read("b.txt").as_deref(), Some("two"));
    let asked = f.ask("and now");
    assert!(asked.contains("b.txt") && !asked.contains("what now"), "{asked}");
    // And again.
    let seen = f.rewind(&["--to", "1"]);
    assert!(seen.starts_with("exit 0"), "{seen}");
    assert_eq!((f.read("a.txt"), f.read("b.txt")), (None, None));
    // The same command twice: each time, the result says where the conversation is.
    let seen = f.rewind(&["--undo"]);
    assert!(seen.contains("took the last rewind back"), "{seen}");
    assert!(seen.contains("the conversation now ends with prompt 5"), "{seen}");
    let seen = f.rewind(&["--undo"]);
    assert!(seen.contains("the conversation now has no prompts"), "{seen}");
    f.rewind(&["--undo"]);
    let seen = f.rewind(&["--to", "1"]);
    assert!(seen.starts_with("exit 0"), "{seen}");
    assert_eq!((f.read("a.txt"), f.read("b.txt")), (None, None));
}

#[test]
fn rewind_refuses_files_changed_by_others_unless_forced() {
    let f = RewindFixture::new(json!({}));
    f.write("a.txt", "one");
    f.write("b.txt", "two");
    std::fs::write(f.zero.folder().join("a.txt"), "mine").unwrap();
    let seen = f.rewind(&["--to", "1"]);
    assert!(seen.starts_with("exit 3"), "{seen}");
    assert!(seen.contains("changed since: a.txt") && seen.contains("--force"), "{seen}");
    assert_eq!(f.read("b.txt").as_deref(), Some("two"), "nothing was touched");
    assert!(f.ask("still there").contains("b.txt"));
    let seen = f.rewind(&["--to", "1", "--json"]);
    assert!(seen.starts_with("exit 3") && seen.contains("\"rewound\": false"), "{seen}");
    let seen = f.rewind(&["--to", "1", "--files", "--force"]);
    assert!(seen.starts_with("exit 0"), "{seen}");
    assert_eq!((f.read("a.txt"), f.read("b.txt")), (None, None));
    assert!(f.ask("and the words").contains("b.txt"), "only files");
    // What was overwritten comes back.
    let seen = f.rewind(&["--undo", "--files"]);
    assert!(seen.starts_with("exit 0"), "{seen}");
    assert_eq!(f.read("a.txt").as_deref(), Some("mine"));
}

#[test]
fn rewind_of_conversation_leaves_files() {
    let f = RewindFixture::new(json!({}));
    f.write("a.txt", "one");
    let seen = f.rewind(&["--conversation"]);
    assert!(seen.starts_with("exit 0"), "{seen}");
    assert_eq!(f.read("a.txt").as_deref(), Some("one"));
    assert!(!f.ask("hi").contains("a.txt"));
    // A prompt that was taken back is not part of the conversation, and its files still are.
    let seen = f.rewind(&["--to", "1"]);
    assert!(seen.starts_with("exit 2") && seen.contains("prompt 1 was taken back"), "{seen}");
    let seen = f.rewind(&["--to", "1", "--files"]);
    assert!(seen.starts_with("exit 0"), "{seen}");
    assert_eq!(f.read("a.txt"), None);
}

#[test]
fn wrong_rewind_says_what_is_wrong() {
    let f = RewindFixture::new(json!({}));
    let seen = f.rewind(&[]);
    assert!(seen.starts_with("exit 2") && seen.contains("key, name or id `s`"), "{seen}");
    f.zero.stdout(&["run", "--session", "s", "hi"]);
    for (words, message) in [
        (&["--to", "7"][..], "there is no prompt 7; the session has only prompt 1"),
        (&["--to", "0"], "0 is not in 1.."),
        (&["--undo"], "no rewind to take back"),
        (&["--undo", "--to", "1"], "cannot be used with"),
        (&["--files", "--conversation"], "cannot be used with"),
    ] {
        let seen = f.rewind(words);
        assert!(seen.starts_with("exit 2") && seen.contains(message), "{words:?}: {seen}");
    }
    let seen = f.zero.run(&["sessions", "fork", "s", "x", "--at", "9"]);
    assert!(seen.starts_with("exit 2") && seen.contains("there is no prompt 9"), "{seen}");
}

#[test]
fn unrecorded_command_is_named() {
    let f = RewindFixture::new(json!({"undo": {"commands": false}}));
    f.call("Bash", &json!({"command": "echo x > made.txt"}));
    let seen = f.rewind(&[]);
    assert!(seen.starts_with("exit 0"), "{seen}");
    let note = "one command ran and may have changed files, which stay as they are because `undo.commands` is off:";
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words(&seen).contains(note) && seen.contains("made.txt"), "{seen}");
    assert!(seen.contains("no recorded change of a file was in effect"), "{seen}");
    assert_eq!(f.read("made.txt").as_deref(), Some("x\n"), "it stays");
}

#[test]
fn recorded_command_is_taken_back_with_edits_of_its_files() {
    let f = RewindFixture::new(json!({"undo": {"commands": true}}));
    f.write("a.txt", "one");
    f.call(
        "Bash",
        &json!({"command": "echo two >> a.txt; mkdir d; echo x > d/b.txt; echo y > c.txt"}),
    );
    f.edit("c.txt", "y", "z");
    f.call("Bash", &json!({"command": "rm -r d"}));
    let seen = f.rewind(&["--to", "2"]);
    assert!(seen.starts_with("exit 0"), "{seen}");
    assert_eq!(f.read("a.txt").as_deref(), Some("one"));
    assert_eq!((f.read("c.txt"), f.read("d/b.txt")), (None, None));
    assert!(!f.zero.folder().join("d").exists());
    let seen = f.rewind(&["--undo"]);
    assert!(seen.starts_with("exit 0"), "{seen}");
    assert_eq!(f.read("a.txt").as_deref(), Some("onetwo\n"));
    assert_eq!((f.read("c.txt").as_deref(), f.read("d/b.txt")), (Some("z\n"), None));
}

#[test]
fn rewind_beside_running_job_names_it() {
    let f = RewindFixture::new(json!({"undo": {"commands": true}}));
    f.write("a.txt", "one");
    let input = json!({"command": "echo up > b.txt; sleep 600", "run_in_background": true});
    f.call("Bash", &input);
    for prompt in ["2", "1"] {
        let seen = f.rewind(&["--to", prompt]);
        assert!(!seen.starts_with("exit 0"), "{seen}");
        assert!(seen.contains("(`echo up > b.txt; sleep 600`) runs in this workspace"), "{seen}");
        assert!(seen.contains("end it with `zero jobs kill "), "{seen}");
        assert_eq!(f.read("a.txt").as_deref(), Some("one"));
    }
    let seen = f.rewind(&["--to", "2"]);
    let (_, rest) = seen.split_once("zero jobs kill ").unwrap();
    let id = rest.split('`').next().unwrap();
    assert!(f.zero.run(&["jobs", "kill", id]).starts_with("exit 0"));
    let seen = f.rewind(&["--to", "1"]);
    assert!(seen.starts_with("exit 0") && f.read("a.txt").is_none(), "{seen}");
}

#[test]
fn fork_at_prompt_has_what_was_before_it() {
    let f = RewindFixture::new(json!({}));
    for words in ["first words", "second words", "third words"] {
        f.ask(words);
    }
    f.zero.stdout(&["sessions", "fork", "s", "other", "--at", "2"]);
    f.zero.stdout(&["run", "--session", "other", "instead"]);
    let asked = f.model.requests().pop().unwrap()["messages"].to_string();
    assert!(asked.contains("first words") && asked.contains("instead"), "{asked}");
    assert!(!asked.contains("second words") && !asked.contains("third words"), "{asked}");
    assert!(f.ask("goes on").contains("third words"), "the source is as it was");
    let shown = f.zero.stdout(&["sessions", "show", "other"]);
    assert!(shown.contains("before prompt 2") && !shown.contains("third words"), "{shown}");
}

#[test]
fn slash_rewind_lists_prompts_and_rewinds() {
    let f = RewindFixture::new(json!({}));
    f.write("a.txt", "one");
    f.write("b.txt", "two");
    let say = |words: &str| f.zero.stdout(&["run", "--session", "s", words]);
    let listed = say("/rewind");
    assert!(
        listed.contains("1. ") && listed.contains("2. ") && listed.contains("1 file"),
        "{listed}"
    );
    let wrong = f.zero.run(&["run", "--session", "s", "/rewind three"]);
    assert!(wrong.contains("does not understand `three`"), "{wrong}");
    let done = say("/rewind 2");
    assert!(done.contains("before prompt 2") && done.contains("removed `b.txt`"), "{done}");
    assert_eq!((f.read("a.txt").as_deref(), f.read("b.txt")), (Some("one"), None));
    assert!(!f.ask("go on").contains("b.txt"));
    let done = say("/rewind undo");
    assert!(done.contains("The last rewind is taken back"), "{done}");
    assert_eq!(f.read("b.txt").as_deref(), Some("two"));
    assert!(f.ask("go on").contains("b.txt"));
}

#[test]
fn session_is_found_by_key_name_and_id() {
    let f = RewindFixture::new(json!({}));
    f.ask("first words");
    let shown: Value =
        serde_json::from_str(&f.zero.stdout(&["sessions", "show", "s", "--json"])).unwrap();
    let id = shown["session"]["sessionId"].as_str().unwrap();
    assert!(id.starts_with("sess_"), "{id}");
    for name in ["s", "agent:main:s", id] {
        assert!(f.zero.stdout(&["sessions", "show", name]).contains("first words"), "{name}");
        let listed = f.zero.stdout(&["sessions", "rewind", name, "--list"]);
        assert!(listed.contains("first words"), "{name}: {listed}");
    }
    f.zero.stdout(&["run", "--session", id, "second words"]);
    assert!(f.zero.stdout(&["sessions", "show", "s"]).contains("second words"));
    f.zero.stdout(&["sessions", "fork", id, "copy"]);
}

#[test]
fn copy_takes_back_only_what_was_changed_in_it() {
    let f = RewindFixture::new(json!({}));
    f.write("a.txt", "of the original");
    f.zero.stdout(&["sessions", "fork", "s", "copy"]);
    let script = format!(
        "script:\ncall Write {}\nturn\nsay done",
        json!({"file_path": "b.txt", "content": "of the copy"})
    );
    f.zero.stdout(&["run", "--yes", "--session", "copy", &script]);
    let seen = f.zero.run(&["sessions", "rewind", "copy", "--to", "1", "--force"]);
    assert!(seen.starts_with("exit 0") && seen.contains("removed b.txt"), "{seen}");
    assert!(
        seen.contains("one call belongs to the session that this one was copied from"),
        "{seen}"
    );
    assert_eq!(f.read("a.txt").as_deref(), Some("of the original"));
    assert_eq!(f.read("b.txt"), None);
    // A rewind of the original that the copy knows is not the copy's to take back.
    f.rewind(&["--to", "1"]);
    assert_eq!(f.read("a.txt"), None);
    f.zero.stdout(&["sessions", "fork", "s", "second"]);
    f.zero.run(&["sessions", "rewind", "second", "--undo", "--files"]);
    assert_eq!(f.read("a.txt"), None);
    // The original can still take back its own.
    let seen = f.rewind(&["--undo"]);
    assert!(seen.starts_with("exit 0"), "{seen}");
    assert_eq!(f.read("a.txt").as_deref(), Some("of the original"));
}
