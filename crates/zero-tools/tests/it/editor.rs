//! Files that are open in an editor: read and changed with the text that they have there.

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

use crate::fixture::{ToolFixture, result_text};

/// What an editor does with a write request.
#[derive(Clone, Copy)]
enum EditorBehavior {
    /// Saves the text.
    Saves,
    /// Puts a space around each `=` and saves the text.
    Formats,
    /// Keeps the text in a buffer without saving it.
    KeepsUnsaved,
    /// Ignores the text.
    IgnoresWrites,
    /// Rejects the request.
    Refuses,
    /// Never answers.
    Hangs,
    /// During the request, the folder of the file is replaced by a link to the folder of a secret.
    SwapsFolderForLink,
}

/// An editor with these buffers.
struct ScriptedEditor {
    manner: Mutex<EditorBehavior>,
    buffers: Mutex<HashMap<PathBuf, String>>,
    /// The requests that it received, as `read NAME` and `write NAME`.
    asked: Mutex<Vec<String>>,
}

impl ScriptedEditor {
    fn new(manner: EditorBehavior) -> Arc<Self> {
        let manner = Mutex::new(manner);
        Arc::new(Self { manner, buffers: Mutex::default(), asked: Mutex::default() })
    }

    fn record(&self, verb: &str, path: &Path) {
        let name = path.file_name().unwrap().to_str().unwrap();
        self.asked.lock().unwrap().push(format!("{verb} {name}"));
    }

    fn requests(&self) -> Vec<String> {
        std::mem::take(&mut *self.asked.lock().unwrap())
    }

    /// Changes the text of a buffer, as a user does by typing.
    fn open_buffer(&self, path: &Path, text: &str) {
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        self.buffers.lock().unwrap().insert(path, text.to_owned());
    }

    fn buffer(&self, path: &Path) -> String {
        self.buffers.lock().unwrap()[&path.canonicalize().unwrap()].clone()
    }

    fn accept_write(&self, path: &Path, text: &str) -> EditorWriteOutcome {
        let text = match *self.manner.lock().unwrap() {
            EditorBehavior::IgnoresWrites => return EditorWriteOutcome::NotHandled,
            EditorBehavior::Refuses => return EditorWriteOutcome::Refused("not today".to_owned()),
            EditorBehavior::Formats => text.replace('=', " = "),
            _ => text.to_owned(),
        };
        self.buffers.lock().unwrap().insert(path.to_owned(), text.clone());
        if !matches!(*self.manner.lock().unwrap(), EditorBehavior::KeepsUnsaved) {
            std::fs::write(path, text).unwrap();
        }
        EditorWriteOutcome::Written
    }
}

impl Editor for ScriptedEditor {
    fn read<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, Option<String>> {
        self.record("read", path);
        if matches!(*self.manner.lock().unwrap(), EditorBehavior::Hangs) {
            return Box::pin(std::future::pending());
        }
        if matches!(*self.manner.lock().unwrap(), EditorBehavior::SwapsFolderForLink) {
            swap_folder_for_link(path);
            return Box::pin(std::future::ready(std::fs::read_to_string(path).ok()));
        }
        Box::pin(std::future::ready(self.buffers.lock().unwrap().get(path).cloned()))
    }

    fn write<'a>(&'a self, path: &'a Path, text: &'a str) -> BoxFuture<'a, EditorWriteOutcome> {
        self.record("write", path);
        Box::pin(std::future::ready(self.accept_write(path, text)))
    }
}

/// What a command in the background could do to a folder of the workspace.
fn swap_folder_for_link(path: &Path) {
    let folder = path.parent().unwrap();
    if !folder.is_symlink() {
        std::fs::rename(folder, folder.with_extension("aside")).unwrap();
        std::os::unix::fs::symlink(folder.with_file_name("elsewhere"), folder).unwrap();
    }
}

fn fixture_with_editor(editor: &Arc<ScriptedEditor>) -> ToolFixture {
    fixture_with_rules(editor, &[])
}

/// Creates a session with an editor, where these files are denied and everything else is allowed.
fn fixture_with_rules(editor: &Arc<ScriptedEditor>, denied: &[&str]) -> ToolFixture {
    let editor = Arc::clone(editor) as Arc<dyn Editor>;
    let config = ToolHostSessionConfig { editor: Some(editor), ..ToolHostSessionConfig::default() };
    ToolFixture::session_opened_with(
        |host| {
            if denied.is_empty() {
                return;
            }
            let rule = |text: &&str| {
                let source =
                    RuleSource { name: "test".to_owned(), line: None, owner: RuleOwner::User };
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

fn read_input(name: &str) -> Value {
    json!({"file_path": name})
}

fn edit_input(name: &str, old: &str, new: &str) -> Value {
    json!({"file_path": name, "old_string": old, "new_string": new})
}

fn write_input(name: &str, content: &str) -> Value {
    json!({"file_path": name, "content": content})
}

#[tokio::test]
async fn unsaved_buffer_is_read() {
    let editor = ScriptedEditor::new(EditorBehavior::Saves);
    let f = fixture_with_editor(&editor);
    f.write_file("a", "on disk\n").write_file("b", "same\n");
    editor.open_buffer(&f.path("a"), "being typed\n");
    editor.open_buffer(&f.path("b"), "same\n");
    let told = result_text(&f.call("Read", read_input("a")).await.unwrap());
    assert!(told.contains("being typed") && !told.contains("on disk"), "{told}");
    assert!(told.contains("unsaved changes"), "{told}");
    let told = result_text(&f.call("Read", read_input("b")).await.unwrap());
    assert!(told.contains("same") && !told.contains("not saved"), "{told}");
    let many = f.call("ReadMany", json!({"paths": ["*"]})).await.unwrap().result.structured;
    assert!(many["files"][0]["content"].as_str().unwrap().contains("being typed"), "{many}");
}

#[tokio::test]
async fn edit_applies_to_buffer_and_can_be_undone() {
    let editor = ScriptedEditor::new(EditorBehavior::Saves);
    let f = fixture_with_editor(&editor);
    f.write_file("a", "one\ntwo\n");
    editor.open_buffer(&f.path("a"), "one\ntwo\nthree\n");
    f.call("Read", read_input("a")).await.unwrap();
    editor.requests();
    let done = f.call("Edit", edit_input("a", "three", "3")).await.unwrap();
    // Once for the preview, once for the change.
    assert_eq!(editor.requests(), ["read a", "read a", "write a"]);
    assert_eq!((f.read_text("a"), editor.buffer(&f.path("a"))), pair_of("one\ntwo\n3\n"));
    assert!(!result_text(&done).contains("editor"), "{}", result_text(&done));
    f.call("Write", write_input("a", "all new\n")).await.unwrap();
    assert_eq!((f.read_text("a"), editor.buffer(&f.path("a"))), pair_of("all new\n"));
    f.call("Write", write_input("b", "new file\n")).await.unwrap();
    assert_eq!(editor.buffer(&f.path("b")), "new file\n");
    for expected in [None, Some("one\ntwo\n3\n"), Some("one\ntwo\n")] {
        let newest = f.journal().newest_undoable().unwrap().unwrap();
        f.journal().undo(newest.id, UndoConflictPolicy::Refuse).unwrap();
        match expected {
            None => assert!(!f.path("b").exists()),
            Some(text) => assert_eq!(f.read_text("a"), text, "what was on disk"),
        }
    }
}

fn pair_of(text: &str) -> (String, String) {
    (text.to_owned(), text.to_owned())
}

#[tokio::test]
async fn formatting_on_save_is_reported_and_recorded() {
    let editor = ScriptedEditor::new(EditorBehavior::Formats);
    let f = fixture_with_editor(&editor);
    f.write_file("a", "x = 1\ny = 2\n");
    f.call("Read", read_input("a")).await.unwrap();
    let done = f.call("Edit", edit_input("a", "x = 1", "x=3")).await.unwrap();
    let told = result_text(&done);
    assert_eq!(f.read_text("a"), "x = 3\ny  =  2\n");
    assert!(told.contains("the editor changed it on saving:") && told.contains("-x=3"), "{told}");
    assert!(told.contains("+y  =  2"), "the difference is the real one: {told}");
    let shown = format!("{:?}", done.result.display);
    assert!(shown.contains("x = 3"), "{shown}");
    // The next edit works on the current text, without another Read.
    f.call("Edit", edit_input("a", "x = 3", "x")).await.unwrap();
    let done = f.call("Write", write_input("b", "a=b\n")).await.unwrap();
    assert_eq!(f.read_text("b"), "a = b\n");
    assert!(result_text(&done).contains("-a=b\n+a = b"), "{}", result_text(&done));
    assert_eq!(done.result.structured["bytes_written"], 6);
    let newest = f.journal().newest_undoable().unwrap().unwrap();
    f.journal().undo(newest.id, UndoConflictPolicy::Refuse).unwrap();
    assert!(!f.path("b").exists(), "what was formatted counts as the change");
}

#[tokio::test]
async fn unsaved_change_is_not_reported_as_on_disk() {
    let editor = ScriptedEditor::new(EditorBehavior::KeepsUnsaved);
    let f = fixture_with_editor(&editor);
    f.write_file("a", "one\n");
    editor.open_buffer(&f.path("a"), "one\n");
    f.call("Read", read_input("a")).await.unwrap();
    let done = f.call("Edit", edit_input("a", "one", "two")).await.unwrap();
    assert!(result_text(&done).contains("has not saved it yet"), "{}", result_text(&done));
    assert_eq!(
        (f.read_text("a").as_str(), editor.buffer(&f.path("a")).as_str()),
        ("one\n", "two\n")
    );
    // This text counts as read, and the next edit works on it.
    f.call("Edit", edit_input("a", "two", "three")).await.unwrap();
    assert_eq!(editor.buffer(&f.path("a")), "three\n");
}

#[tokio::test]
async fn buffer_changed_since_read_is_not_overwritten() {
    let editor = ScriptedEditor::new(EditorBehavior::Saves);
    let f = fixture_with_editor(&editor);
    f.write_file("a", "one\ntwo\n").write_file("long", "line\n".repeat(3_000));
    f.call("Read", read_input("a")).await.unwrap();
    f.call("Read", read_input("long")).await.unwrap();
    editor.open_buffer(&f.path("a"), "one\ntwo and typed\n");
    editor.open_buffer(&f.path("long"), &"like\n".repeat(3_000));
    for input in [write_input("a", "mine"), write_input("long", "mine")] {
        let refused = f.call_error("Write", input).await;
        assert!(
            refused.starts_with("stale_file:") && refused.contains("read it again"),
            "{refused}"
        );
    }
    let refused = f.call_error("Edit", edit_input("a", "one", "1")).await;
    assert!(refused.starts_with("stale_file:"), "{refused}");
    assert_eq!((f.read_text("a").as_str(), f.read_text("long").len()), ("one\ntwo\n", 15_000));
    f.call("Read", read_input("a")).await.unwrap();
    f.call("Edit", edit_input("a", "one", "1")).await.unwrap();
    assert_eq!(f.read_text("a"), "1\ntwo and typed\n");
    // A text that was never on disk was not read.
    let unsaved = f.path("a").canonicalize().unwrap().with_file_name("new");
    editor.open_buffer(&unsaved, "a draft");
    let refused = f.call_error("Write", write_input("new", "mine")).await;
    assert!(refused.contains("never saved"), "{refused}");
    assert!(!unsaved.exists());
}

#[tokio::test]
async fn stale_buffer_is_read_from_disk() {
    let editor = ScriptedEditor::new(EditorBehavior::Saves);
    let f = fixture_with_editor(&editor);
    f.write_file("a", "one\n");
    editor.open_buffer(&f.path("a"), "one\n");
    f.call("Read", read_input("a")).await.unwrap();
    f.write_file("a", "changed by a command\n");
    let refused = f.call_error("Edit", edit_input("a", "one", "1")).await;
    assert!(refused.starts_with("stale_file:"), "{refused}");
    let told = result_text(&f.call("Read", read_input("a")).await.unwrap());
    assert!(told.contains("changed by a command") && !told.contains("not saved"), "{told}");
    assert_eq!(f.read_text("a"), "changed by a command\n");
}

#[tokio::test]
async fn editor_that_ignores_writes_is_bypassed() {
    let editor = ScriptedEditor::new(EditorBehavior::IgnoresWrites);
    let f = fixture_with_editor(&editor);
    f.write_file("a", "one\n");
    editor.open_buffer(&f.path("a"), "one\ntyped\n");
    f.call("Read", read_input("a")).await.unwrap();
    let done = f.call("Edit", edit_input("a", "one", "two")).await.unwrap();
    assert_eq!(f.read_text("a"), "two\ntyped\n");
    assert!(!result_text(&done).contains("editor"), "{}", result_text(&done));
    // Nor is the editor asked to create folders.
    editor.requests();
    f.call("Write", write_input("new/folder/b", "x")).await.unwrap();
    assert_eq!(f.read_text("new/folder/b"), "x");
    assert!(!editor.requests().contains(&"write b".to_owned()));
}

#[tokio::test]
async fn editor_refusal_is_not_bypassed() {
    let editor = ScriptedEditor::new(EditorBehavior::Refuses);
    let f = fixture_with_editor(&editor);
    f.write_file("a", "one\n");
    f.call("Read", read_input("a")).await.unwrap();
    for (tool, input) in
        [("Edit", edit_input("a", "one", "two")), ("Write", write_input("new", "x"))]
    {
        let error = f.call(tool, input).await.unwrap_err();
        assert_eq!(error.error_type, ErrorType::PermissionDenied, "{error}");
        assert!(error.to_string().contains("the editor refused to write"), "{error}");
        assert!(error.to_string().contains("not today"), "{error}");
    }
    assert_eq!(f.read_text("a"), "one\n");
    assert!(!f.path("new").exists());
    assert_eq!(f.journal().list().unwrap().len(), 0, "nothing was changed");
}

#[tokio::test]
async fn hanging_editor_is_waited_for_once() {
    let editor = ScriptedEditor::new(EditorBehavior::Hangs);
    let f = fixture_with_editor(&editor);
    f.write_file("a", "one\n");
    let start = Instant::now();
    let told = result_text(&f.call("Read", read_input("a")).await.unwrap());
    assert!(told.contains("one"), "{told}");
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
    // An editor that did not answer is not asked again.
    f.call("Edit", edit_input("a", "one", "two")).await.unwrap();
    assert_eq!(
        (f.read_text("a").as_str(), editor.requests()),
        ("two\n", vec!["read a".to_owned()])
    );
}

#[tokio::test]
async fn denied_and_binary_files_are_not_sent_to_editor() {
    let editor = ScriptedEditor::new(EditorBehavior::Saves);
    let f = fixture_with_rules(&editor, &["Read(secret*)", "Edit(locked)"]);
    f.write_file("secret", "s")
        .write_file("locked", "l")
        .write_file("binary", b"a\0b\xff")
        .write_file("latin", b"caf\xE9 br\xFBl\xE9e");
    f.write_file("marked", b"\xEF\xBB\xBFmarked")
        .write_file("many/secret2", "s")
        .write_file("many/open", "o");
    let outside = f.outside().join("outside.txt");
    std::fs::write(&outside, "outside").unwrap();
    let outside = outside.to_str().unwrap();
    let denied = f.call_error("Read", read_input("secret")).await;
    assert!(denied.starts_with("denied:"), "{denied}");
    f.call_error("Write", write_input("secret", "x")).await;
    f.call_error("Write", write_input("secret-new", "x")).await;
    f.call_error("Edit", edit_input("locked", "l", "m")).await;
    f.call_error("Read", read_input("binary")).await;
    f.call("Read", read_input("latin")).await.unwrap();
    f.call("Read", read_input("marked")).await.unwrap();
    f.call("Edit", edit_input("marked", "marked", "MARKED")).await.unwrap();
    f.call("Read", read_input(outside)).await.unwrap();
    assert_eq!(editor.requests(), Vec::<String>::new());
    f.call("ReadMany", json!({"paths": ["many/*"]})).await.unwrap();
    assert_eq!(editor.requests(), ["read open"]);
    assert_eq!(f.read_bytes("marked"), b"\xEF\xBB\xBFMARKED");
}

#[tokio::test]
async fn line_endings_on_disk_are_preserved() {
    let editor = ScriptedEditor::new(EditorBehavior::KeepsUnsaved);
    let f = fixture_with_editor(&editor);
    f.write_file("a", "one\r\ntwo\r\n");
    editor.open_buffer(&f.path("a"), "one\ntwo\n");
    let told = result_text(&f.call("Read", read_input("a")).await.unwrap());
    assert!(!told.contains("not saved"), "{told}");
    f.call("Edit", edit_input("a", "one", "1")).await.unwrap();
    assert_eq!(editor.buffer(&f.path("a")), "1\ntwo\n", "in the editor's own way");
}

#[tokio::test]
async fn folder_swapped_for_link_leaks_and_changes_nothing() {
    for (tool, input) in [
        ("Read", read_input("d/a")),
        ("Edit", edit_input("d/a", "mine", "changed")),
        ("Write", write_input("d/a", "changed\n")),
    ] {
        let editor = ScriptedEditor::new(EditorBehavior::Saves);
        let f = fixture_with_editor(&editor);
        f.write_file("d/a", "mine\n").write_file("elsewhere/a", "secret mine\n");
        f.call("Read", read_input("d/a")).await.unwrap();
        *editor.manner.lock().unwrap() = EditorBehavior::SwapsFolderForLink;
        let told = match f.call(tool, input).await {
            Ok(outcome) => result_text(&outcome),
            Err(error) => error.message,
        };
        assert!(f.path("d").is_symlink(), "{tool}: the editor was not asked");
        assert!(!told.contains("secret"), "{tool}: {told}");
        assert_eq!(f.read_text("elsewhere/a"), "secret mine\n", "{tool}");
    }
}
