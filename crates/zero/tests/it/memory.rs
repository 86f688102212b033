//! `zero memory`, and what its notes and the task list look like at a terminal.

#![expect(clippy::disallowed_methods, reason = "tests use real files directly")]

use serde_json::Value;

use crate::terminal_process::TerminalProcess;
use crate::test_program::TestProgram;

#[test]
fn notes_are_added_shown_found_and_deleted() {
    let zero = TestProgram::new();
    insta::assert_snapshot!(zero.run(&["memory", "list"]), @"
    exit 0
    no notes; add one with `zero memory add`
    ");
    insta::assert_snapshot!(zero.run(&["memory", "add", "Run", "`just test`", "first."]), @"
    exit 0
    added `run-just-test-first` (project)
    ");
    insta::assert_snapshot!(
        zero.run(&["memory", "add", "--scope", "user", "--name", "style", "Tabs."]), @"
    exit 0
    added `style` (user)
    ");
    let list: Value = serde_json::from_str(&zero.stdout(&["memory", "list", "--json"])).unwrap();
    let told = |at: usize| {
        ["scope", "name", "text", "by"].map(|field| list[at][field].as_str().unwrap().to_owned())
    };
    assert_eq!(told(0), ["project", "run-just-test-first", "Run `just test` first.", "person"]);
    assert_eq!(told(1), ["user", "style", "Tabs.", "person"]);
    let shown = zero.run(&["memory", "show", "style"]);
    assert!(shown.contains("style (user, by person, 20") && shown.contains("\nTabs.\n"), "{shown}");
    assert!(shown.contains("/zero/memory/style.md"), "{shown}");
    let path = list[1]["path"].as_str().unwrap();
    assert!(path.ends_with("/zero/memory/style.md"), "{path}");
    let found = zero.run(&["memory", "search", "JUST", "first"]);
    assert!(found.contains("run-just-test-first") && !found.contains("style"), "{found}");
    insta::assert_snapshot!(zero.run(&["memory", "forget", "style"]), @"
    exit 0
    deleted `style` (user)
    ");
    insta::assert_snapshot!(zero.run(&["memory", "show", "style"]), @"
    exit 1
    --- stderr
    error: there is no note `style`; `zero memory list` shows them
    ");
    insta::assert_snapshot!(zero.run(&["memory", "show", "../x"]), @"
    exit 2
    --- stderr
    error: `../x`: a note's name has 1 to 64 lower-case letters, digits and `-`, and does not begin with `-`, such as `build-command`
    ");
}

#[test]
fn tool_and_command_share_notes() {
    let zero = TestProgram::new();
    let save = r#"{"action": "save", "name": "milk", "text": "Oat."}"#;
    let denied = zero.run(&["tools", "call", "Memory", save]);
    assert!(denied.starts_with("exit 3"), "{denied}");
    insta::assert_snapshot!(zero.run(&["tools", "call", "Memory", save, "--yes"]), @"
    exit 0
    Remembered as `milk` (project).
    ");
    let shown = zero.run(&["memory", "show", "milk"]);
    assert!(shown.contains("milk (project, by agent, 20"), "{shown}");
    let listed = zero.run(&["tools", "call", "Memory", r#"{"action": "list"}"#]);
    assert!(listed.contains("- milk (project): Oat."), "to look is allowed: {listed}");
}

#[test]
fn task_list_is_printed_as_list() {
    let zero = TestProgram::new();
    let todos = r#"{"todos": [
        {"content": "Look", "status": "completed", "activeForm": "Looking"},
        {"content": "Change", "status": "in_progress", "activeForm": "Changing"},
        {"content": "Test", "status": "pending", "activeForm": "Testing"}]}"#;
    insta::assert_snapshot!(zero.run(&["tools", "call", "TodoWrite", todos]), @"
    exit 0
    The task list is saved: 1 of 3 steps done. Now: Changing.
      ✓ Look
      ▸ Change
      · Test
    ");
}

#[test]
fn question_without_terminal_is_not_asked() {
    let zero = TestProgram::new();
    let question = r#"{"questions": [{"question": "Which?", "header": "Which", "options": [
        {"label": "A", "description": "a"}, {"label": "B", "description": "b"}]}]}"#;
    let answer = zero.run(&["tools", "call", "AskUserQuestion", question, "--yes"]);
    assert!(answer.starts_with("exit 3"), "{answer}");
    assert!(answer.contains("no user is available to answer"), "{answer}");
}

/// Edits the note `style` with `editor`, at a terminal; gives the exit code and what was shown,
/// without its line breaks: the terminal is narrower than the messages.
fn edit_note(zero: &TestProgram, editor: &str) -> (i32, String) {
    let mut command = zero.command(&["memory", "edit", "style"]);
    command.env("NO_COLOR", "1").env("PATH", "/usr/bin:/bin").env("EDITOR", editor);
    let (code, seen) = TerminalProcess::start(command).wait_for_exit();
    (code, seen.replace("\r\n", " "))
}

#[test]
fn background_editor_leaves_terminal_to_shell() {
    let zero = TestProgram::new();
    let save = r#"{"action": "save", "name": "style", "text": "Tabs.", "scope": "user"}"#;
    zero.stdout(&["tools", "call", "Memory", save, "--yes"]);
    let script = r#"set -m
        "$ZERO" memory edit style &
        wait $!
        read -r _ _ _ _ _ _ _ foreground _ < /proc/$$/stat
        [ "$foreground" = $$ ] && echo "the shell has it""#;
    let mut command = zero.external_command("setsid");
    command.args(["--ctty", "sh", "-c", script]).env("EDITOR", "true").env("NO_COLOR", "1");
    let (code, seen) = TerminalProcess::start(command).wait_for_exit();
    assert!(code == 0 && seen.contains("no change in `style`"), "{code} {seen}");
    assert!(seen.contains("the shell has it"), "{seen}");
}

#[test]
fn edited_note_keeps_provenance() {
    let zero = TestProgram::new();
    let save = r#"{"action": "save", "name": "style", "text": "Tabs.", "scope": "user"}"#;
    zero.stdout(&["tools", "call", "Memory", save, "--yes"]);
    let note = || -> Value {
        serde_json::from_str(&zero.stdout(&["memory", "show", "style", "--json"])).unwrap()
    };
    let copies = zero.folder().join("home/.local/state/zero/editing");
    let left = || std::fs::read_dir(&copies).unwrap().count();

    let (code, seen) = edit_note(&zero, "sed -i s/Tabs/Spaces/");
    assert_eq!((code, seen.trim()), (0, "edited `style` (user)"));
    let edited = note();
    assert_eq!((&edited["text"], &edited["by"]), (&"Spaces.".into(), &"agent".into()));
    assert!(edited["edited"].as_str().unwrap().starts_with("20"), "{edited}");
    let shown = zero.run(&["memory", "show", "style"]);
    assert!(shown.contains("by agent, 20") && shown.contains(", edited by person, 20"), "{shown}");

    // VISUAL comes first, and what is not changed is not touched.
    let mut command = zero.command(&["memory", "edit", "style"]);
    command.env("PATH", "/usr/bin:/bin").env("VISUAL", "true").env("EDITOR", "false");
    let (code, seen) = TerminalProcess::start(command).wait_for_exit();
    assert_eq!((code, seen.trim()), (0, "no change in `style` (user)"));
    assert_eq!((note(), left()), (edited.clone(), 0));

    let meanwhile = format!(
        "sh -c '\"{}\" memory add --scope user --name style Other. && echo Mine. > \"$1\"' sh",
        env!("CARGO_BIN_EXE_zero")
    );
    for (editor, expected, kept) in [
        ("false", "ended with exit status: 1; nothing changed", 0),
        ("sh -c 'stty raw -echo; kill -9 $$'", "ended with exit status: 137; nothing changed", 0),
        (
            "sh -c 'echo Saved. > \"$0\"; exit 1'",
            "ended with exit status: 1; nothing changed, your text is in",
            1,
        ),
        ("sh -c 'echo Saved. > \"$0\"; kill -9 $$'", "nothing changed, your text is in", 2),
        (
            "truncate -s 0",
            "must have 1 to 8192 bytes; to delete a note, run `zero memory forget`",
            3,
        ),
        ("truncate -s 9000", "must have 1 to 8192 bytes; nothing changed, your", 4),
        ("printf '\\377' >", "the edited text is not valid UTF-8; nothing changed", 5),
    ] {
        let (code, seen) = edit_note(&zero, editor);
        assert!(code == 1 && seen.contains(expected), "{editor}: {code} {seen}");
        assert_eq!((note(), left()), (edited.clone(), kept), "{editor}");
    }
    let (code, seen) = edit_note(&zero, &meanwhile);
    assert!(code == 1 && seen.contains("was changed in the meantime"), "{seen}");
    assert_eq!(note()["text"], "Other.");
}

#[test]
fn note_is_edited_in_terminal_editor() {
    let zero = TestProgram::new();
    zero.stdout(&["memory", "add", "--name", "style", "Tabs."]);
    insta::assert_snapshot!(zero.run(&["memory", "edit", "style"]), @"
    exit 2
    --- stderr
    error: an editor needs a terminal; replace the note with `zero memory add --name style TEXT`
    ");
    let (code, seen) =
        TerminalProcess::start(zero.command(&["memory", "edit", "style"])).wait_for_exit();
    let expected =
        "no editor is set; set VISUAL or EDITOR, as in `EDITOR=nano zero memory edit style`";
    // The terminal is narrower than the message.
    let message = seen.replace("\r\n", " ");
    assert!(code == 2 && message.contains(expected), "{code} {seen}");
    let mut command = zero.command(&["memory", "edit", "stile"]);
    command.env("EDITOR", "true");
    let (code, seen) = TerminalProcess::start(command).wait_for_exit();
    assert!(code == 1 && seen.contains("did you mean `style`?"), "{code} {seen}");
}
