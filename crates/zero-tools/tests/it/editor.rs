//! Files that somebody has open in an editor: read and changed as they are there.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use zero_core::{ErrorType, SessionId};
use zero_policy::rule::{PolicyRule, RuleOwner, RuleSource};
use zero_policy::{PermissionMode, PolicyEngine, PolicyEngineConfig, Verdict};
use zero_runtime::tool::BoxFuture;
use zero_runtime::{Editor, EditorWriteOutcome, RulePolicy, ToolHostSessionConfig};
use zero_sandbox::journal::UndoConflictPolicy;

use crate::fixture::{ToolFixture, said};

/// What an editor does with what it is given.
#[derive(Clone, Copy)]
enum EditorBehavior {
    /// Saves it.
    Saves,
    /// Puts a space around each `=` and saves it.
    Formats,
    /// Has it in a buffer, and saves nothing.
    Keeps,
    /// Takes nothing.
    TakesNothing,
    /// Will not have it.
    Refuses,
    /// Never answers.
    Hangs,
    /// While it is asked, the folder of the file becomes a link to the one of a secret.
    IsLedAstray,
}

/// An editor with these buffers.
struct ScriptedEditor {
    manner: Mutex<EditorBehavior>,
    buffers: Mutex<HashMap<PathBuf, String>>,
    /// What it was asked, as `read NAME` and `write NAME`.
    asked: Mutex<Vec<String>>,
}

impl ScriptedEditor {
    fn new(manner: EditorBehavior) -> Arc<Self> {
        let manner = Mutex::new(manner);
        Arc::new(Self { manner, buffers: Mutex::default(), asked: Mutex::default() })
    }

    fn note(&self, verb: &str, path: &Path) {
        let name = path.file_name().unwrap().to_str().unwrap();
        self.asked.lock().unwrap().push(format!("{verb} {name}"));
    }

    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut *self.asked.lock().unwrap())
    }

    /// Somebody types.
    fn open(&self, path: &Path, text: &str) {
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        self.buffers.lock().unwrap().insert(path, text.to_owned());
    }

    fn buffer(&self, path: &Path) -> String {
        self.buffers.lock().unwrap()[&path.canonicalize().unwrap()].clone()
    }

    fn take(&self, path: &Path, text: &str) -> EditorWriteOutcome {
        let text = match *self.manner.lock().unwrap() {
            EditorBehavior::TakesNothing => return EditorWriteOutcome::NotTaken,
            EditorBehavior::Refuses => return EditorWriteOutcome::Refused("not today".to_owned()),
            EditorBehavior::Formats => text.replace('=', " = "),
            _ => text.to_owned(),
        };
        self.buffers.lock().unwrap().insert(path.to_owned(), text.clone());
        if !matches!(*self.manner.lock().unwrap(), EditorBehavior::Keeps) {
            std::fs::write(path, text).unwrap();
        }
        EditorWriteOutcome::Taken
    }
}

impl Editor for ScriptedEditor {
    fn read<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, Option<String>> {
        self.note("read", path);
        if matches!(*self.manner.lock().unwrap(), EditorBehavior::Hangs) {
            return Box::pin(std::future::pending());
        }
        if matches!(*self.manner.lock().unwrap(), EditorBehavior::IsLedAstray) {
            lead_astray(path);
            return Box::pin(std::future::ready(std::fs::read_to_string(path).ok()));
        }
        Box::pin(std::future::ready(self.buffers.lock().unwrap().get(path).cloned()))
    }

    fn write<'a>(&'a self, path: &'a Path, text: &'a str) -> BoxFuture<'a, EditorWriteOutcome> {
        self.note("write", path);
        Box::pin(std::future::ready(self.take(path, text)))
    }
}

/// What a command in the background could do to a folder of the workspace.
fn lead_astray(path: &Path) {
    let folder = path.parent().unwrap();
    if !folder.is_symlink() {
        std::fs::rename(folder, folder.with_extension("aside")).unwrap();
        std::os::unix::fs::symlink(folder.with_file_name("elsewhere"), folder).unwrap();
    }
}

fn with(editor: &Arc<ScriptedEditor>) -> ToolFixture {
    with_rules(editor, &[])
}

/// A session with an editor, where these are denied and nobody is asked about the rest.
fn with_rules(editor: &Arc<ScriptedEditor>, denied: &[&str]) -> ToolFixture {
    let editor = Arc::clone(editor) as Arc<dyn Editor>;
    let config = ToolHostSessionConfig { editor: Some(editor), ..ToolHostSessionConfig::default() };
    ToolFixture::session_opened(
        |host| {
            if denied.is_empty() {
                return;
            }
            let rule = |text: &&str| {
                let source =
                    RuleSource { name: "test".to_owned(), line: None, owner: RuleOwner::Person };
                PolicyRule::parse(text, Verdict::Deny, source).unwrap()
            };
            let engine = PolicyEngine::new(PolicyEngineConfig {
                rules: denied.iter().map(rule).collect(),
                roots: host.workspace.roots().map(Path::to_owned).collect(),
                mode: PermissionMode::AcceptEdits,
                ..PolicyEngineConfig::default()
            });
            host.policy = Arc::new(RulePolicy::new(engine, Vec::new()));
        },
        |host| host.open_session_with(SessionId::new("test").unwrap(), config),
    )
}

fn read(name: &str) -> Value {
    json!({"file_path": name})
}

fn edit(name: &str, old: &str, new: &str) -> Value {
    json!({"file_path": name, "old_string": old, "new_string": new})
}

fn write(name: &str, content: &str) -> Value {
    json!({"file_path": name, "content": content})
}

#[tokio::test]
async fn text_that_is_not_saved_is_what_is_read() {
    let editor = ScriptedEditor::new(EditorBehavior::Saves);
    let f = with(&editor);
    f.put("a", "on disk\n").put("b", "same\n");
    editor.open(&f.path("a"), "being typed\n");
    editor.open(&f.path("b"), "same\n");
    let told = said(&f.call("Read", read("a")).await.unwrap());
    assert!(told.contains("being typed") && !told.contains("on disk"), "{told}");
    assert!(told.contains("not saved"), "{told}");
    let told = said(&f.call("Read", read("b")).await.unwrap());
    assert!(told.contains("same") && !told.contains("not saved"), "{told}");
    let many = f.call("ReadMany", json!({"paths": ["*"]})).await.unwrap().result.structured;
    assert!(many["files"][0]["content"].as_str().unwrap().contains("being typed"), "{many}");
}

#[tokio::test]
async fn a_change_is_made_on_the_buffer_and_in_it_and_can_be_taken_back() {
    let editor = ScriptedEditor::new(EditorBehavior::Saves);
    let f = with(&editor);
    f.put("a", "one\ntwo\n");
    editor.open(&f.path("a"), "one\ntwo\nthree\n");
    f.call("Read", read("a")).await.unwrap();
    editor.asked();
    let done = f.call("Edit", edit("a", "three", "3")).await.unwrap();
    // Once for the person who is asked, once for the change.
    assert_eq!(editor.asked(), ["read a", "read a", "write a"]);
    assert_eq!((f.text("a"), editor.buffer(&f.path("a"))), two("one\ntwo\n3\n"));
    assert!(!said(&done).contains("editor"), "{}", said(&done));
    f.call("Write", write("a", "all new\n")).await.unwrap();
    assert_eq!((f.text("a"), editor.buffer(&f.path("a"))), two("all new\n"));
    f.call("Write", write("b", "new file\n")).await.unwrap();
    assert_eq!(editor.buffer(&f.path("b")), "new file\n");
    for expected in [None, Some("one\ntwo\n3\n"), Some("one\ntwo\n")] {
        let newest = f.journal().newest().unwrap().unwrap();
        f.journal().undo(newest.id, UndoConflictPolicy::Refuse).unwrap();
        match expected {
            None => assert!(!f.path("b").exists()),
            Some(text) => assert_eq!(f.text("a"), text, "what was on disk"),
        }
    }
}

fn two(text: &str) -> (String, String) {
    (text.to_owned(), text.to_owned())
}

#[tokio::test]
async fn what_the_editor_makes_of_it_on_saving_is_told_and_known() {
    let editor = ScriptedEditor::new(EditorBehavior::Formats);
    let f = with(&editor);
    f.put("a", "x = 1\ny = 2\n");
    f.call("Read", read("a")).await.unwrap();
    let done = f.call("Edit", edit("a", "x = 1", "x=3")).await.unwrap();
    let told = said(&done);
    assert_eq!(f.text("a"), "x = 3\ny  =  2\n");
    assert!(told.contains("the editor changed it on saving:") && told.contains("-x=3"), "{told}");
    assert!(told.contains("+y  =  2"), "the difference is the real one: {told}");
    let shown = format!("{:?}", done.result.display);
    assert!(shown.contains("x = 3"), "{shown}");
    // The next edit works on what stands there, without another Read.
    f.call("Edit", edit("a", "x = 3", "x")).await.unwrap();
    let done = f.call("Write", write("b", "a=b\n")).await.unwrap();
    assert_eq!(f.text("b"), "a = b\n");
    assert!(said(&done).contains("-a=b\n+a = b"), "{}", said(&done));
    assert_eq!(done.result.structured["bytes_written"], 6);
    let newest = f.journal().newest().unwrap().unwrap();
    f.journal().undo(newest.id, UndoConflictPolicy::Refuse).unwrap();
    assert!(!f.path("b").exists(), "what was formatted counts as the change");
}

#[tokio::test]
async fn what_is_not_saved_is_not_said_to_be_on_disk() {
    let editor = ScriptedEditor::new(EditorBehavior::Keeps);
    let f = with(&editor);
    f.put("a", "one\n");
    editor.open(&f.path("a"), "one\n");
    f.call("Read", read("a")).await.unwrap();
    let done = f.call("Edit", edit("a", "one", "two")).await.unwrap();
    assert!(said(&done).contains("has not saved it yet"), "{}", said(&done));
    assert_eq!((f.text("a").as_str(), editor.buffer(&f.path("a")).as_str()), ("one\n", "two\n"));
    // It is what the session has seen, and what the next edit works on.
    f.call("Edit", edit("a", "two", "three")).await.unwrap();
    assert_eq!(editor.buffer(&f.path("a")), "three\n");
}

#[tokio::test]
async fn a_buffer_that_changed_since_it_was_read_is_not_overwritten() {
    let editor = ScriptedEditor::new(EditorBehavior::Saves);
    let f = with(&editor);
    f.put("a", "one\ntwo\n").put("long", "line\n".repeat(3_000));
    f.call("Read", read("a")).await.unwrap();
    f.call("Read", read("long")).await.unwrap();
    editor.open(&f.path("a"), "one\ntwo and typed\n");
    editor.open(&f.path("long"), &"like\n".repeat(3_000));
    for input in [write("a", "mine"), write("long", "mine")] {
        let refused = f.fail("Write", input).await;
        assert!(
            refused.starts_with("stale_file:") && refused.contains("read it again"),
            "{refused}"
        );
    }
    let refused = f.fail("Edit", edit("a", "one", "1")).await;
    assert!(refused.starts_with("stale_file:"), "{refused}");
    assert_eq!((f.text("a").as_str(), f.text("long").len()), ("one\ntwo\n", 15_000));
    f.call("Read", read("a")).await.unwrap();
    f.call("Edit", edit("a", "one", "1")).await.unwrap();
    assert_eq!(f.text("a"), "1\ntwo and typed\n");
    // Nobody has read what was never on disk.
    let unsaved = f.path("a").canonicalize().unwrap().with_file_name("new");
    editor.open(&unsaved, "a draft");
    let refused = f.fail("Write", write("new", "mine")).await;
    assert!(refused.contains("never saved"), "{refused}");
    assert!(!unsaved.exists());
}

#[tokio::test]
async fn what_an_editor_has_yet_to_load_again_is_read_from_disk() {
    let editor = ScriptedEditor::new(EditorBehavior::Saves);
    let f = with(&editor);
    f.put("a", "one\n");
    editor.open(&f.path("a"), "one\n");
    f.call("Read", read("a")).await.unwrap();
    f.put("a", "changed by a command\n");
    let refused = f.fail("Edit", edit("a", "one", "1")).await;
    assert!(refused.starts_with("stale_file:"), "{refused}");
    let told = said(&f.call("Read", read("a")).await.unwrap());
    assert!(told.contains("changed by a command") && !told.contains("not saved"), "{told}");
    assert_eq!(f.text("a"), "changed by a command\n");
}

#[tokio::test]
async fn an_editor_that_takes_nothing_is_done_without() {
    let editor = ScriptedEditor::new(EditorBehavior::TakesNothing);
    let f = with(&editor);
    f.put("a", "one\n");
    editor.open(&f.path("a"), "one\ntyped\n");
    f.call("Read", read("a")).await.unwrap();
    let done = f.call("Edit", edit("a", "one", "two")).await.unwrap();
    assert_eq!(f.text("a"), "two\ntyped\n");
    assert!(!said(&done).contains("editor"), "{}", said(&done));
    // Nor is one asked to make folders.
    editor.asked();
    f.call("Write", write("new/folder/b", "x")).await.unwrap();
    assert_eq!(f.text("new/folder/b"), "x");
    assert!(!editor.asked().contains(&"write b".to_owned()));
}

#[tokio::test]
async fn an_editor_that_refuses_is_not_gone_round() {
    let editor = ScriptedEditor::new(EditorBehavior::Refuses);
    let f = with(&editor);
    f.put("a", "one\n");
    f.call("Read", read("a")).await.unwrap();
    for (tool, input) in [("Edit", edit("a", "one", "two")), ("Write", write("new", "x"))] {
        let error = f.call(tool, input).await.unwrap_err();
        assert_eq!(error.error_type, ErrorType::PermissionDenied, "{error}");
        assert!(error.to_string().contains("the editor refused to write"), "{error}");
        assert!(error.to_string().contains("not today"), "{error}");
    }
    assert_eq!(f.text("a"), "one\n");
    assert!(!f.path("new").exists());
    assert_eq!(f.journal().list().unwrap().len(), 0, "nothing was changed");
}

#[tokio::test]
async fn an_editor_that_hangs_is_waited_for_once() {
    let editor = ScriptedEditor::new(EditorBehavior::Hangs);
    let f = with(&editor);
    f.put("a", "one\n");
    let start = Instant::now();
    let told = said(&f.call("Read", read("a")).await.unwrap());
    assert!(told.contains("one"), "{told}");
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
    // Whoever is not asked again is not waited for again.
    f.call("Edit", edit("a", "one", "two")).await.unwrap();
    assert_eq!((f.text("a").as_str(), editor.asked()), ("two\n", vec!["read a".to_owned()]));
}

#[tokio::test]
async fn what_is_not_for_the_editor_is_never_asked_of_it() {
    let editor = ScriptedEditor::new(EditorBehavior::Saves);
    let f = with_rules(&editor, &["Read(secret*)", "Edit(locked)"]);
    f.put("secret", "s")
        .put("locked", "l")
        .put("binary", b"a\0b\xff")
        .put("latin", b"caf\xE9 br\xFBl\xE9e");
    f.put("marked", b"\xEF\xBB\xBFmarked").put("many/secret2", "s").put("many/open", "o");
    let outside = f.outside().join("outside.txt");
    std::fs::write(&outside, "outside").unwrap();
    let outside = outside.to_str().unwrap();
    let denied = f.fail("Read", read("secret")).await;
    assert!(denied.starts_with("denied:"), "{denied}");
    f.fail("Write", write("secret", "x")).await;
    f.fail("Write", write("secret-new", "x")).await;
    f.fail("Edit", edit("locked", "l", "m")).await;
    f.fail("Read", read("binary")).await;
    f.call("Read", read("latin")).await.unwrap();
    f.call("Read", read("marked")).await.unwrap();
    f.call("Edit", edit("marked", "marked", "MARKED")).await.unwrap();
    f.call("Read", read(outside)).await.unwrap();
    assert_eq!(editor.asked(), Vec::<String>::new());
    f.call("ReadMany", json!({"paths": ["many/*"]})).await.unwrap();
    assert_eq!(editor.asked(), ["read open"]);
    assert_eq!(f.bytes("marked"), b"\xEF\xBB\xBFMARKED");
}

#[tokio::test]
async fn line_endings_stay_what_they_are_on_disk() {
    let editor = ScriptedEditor::new(EditorBehavior::Keeps);
    let f = with(&editor);
    f.put("a", "one\r\ntwo\r\n");
    editor.open(&f.path("a"), "one\ntwo\n");
    let told = said(&f.call("Read", read("a")).await.unwrap());
    assert!(!told.contains("not saved"), "{told}");
    f.call("Edit", edit("a", "one", "1")).await.unwrap();
    assert_eq!(editor.buffer(&f.path("a")), "1\ntwo\n", "in the editor's own way");
}

#[tokio::test]
async fn an_editor_that_is_led_astray_tells_and_changes_nothing() {
    for (tool, input) in [
        ("Read", read("d/a")),
        ("Edit", edit("d/a", "mine", "changed")),
        ("Write", write("d/a", "changed\n")),
    ] {
        let editor = ScriptedEditor::new(EditorBehavior::Saves);
        let f = with(&editor);
        f.put("d/a", "mine\n").put("elsewhere/a", "secret mine\n");
        f.call("Read", read("d/a")).await.unwrap();
        *editor.manner.lock().unwrap() = EditorBehavior::IsLedAstray;
        let told = match f.call(tool, input).await {
            Ok(outcome) => said(&outcome),
            Err(error) => error.message,
        };
        assert!(f.path("d").is_symlink(), "{tool}: the editor was not asked");
        assert!(!told.contains("secret"), "{tool}: {told}");
        assert_eq!(f.text("elsewhere/a"), "secret mine\n", "{tool}");
    }
}
