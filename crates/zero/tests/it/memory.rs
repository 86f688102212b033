//! `zero memory`, and what its notes and the task list look like at a terminal.

use serde_json::Value;

use crate::program::Program;

#[test]
fn notes_are_kept_shown_found_and_forgotten() {
    let zero = Program::new();
    insta::assert_snapshot!(zero.run(&["memory", "list"]), @"
    exit 0
    nothing is remembered here; `zero memory add` keeps a note
    ");
    insta::assert_snapshot!(zero.run(&["memory", "add", "Run", "`just test`", "first."]), @"
    exit 0
    remembered `run-just-test-first` (project)
    ");
    insta::assert_snapshot!(
        zero.run(&["memory", "add", "--scope", "user", "--name", "style", "Tabs."]), @"
    exit 0
    remembered `style` (user)
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
    forgot `style` (user)
    ");
    insta::assert_snapshot!(zero.run(&["memory", "show", "style"]), @"
    exit 1
    --- stderr
    error: there is no note `style`; list them to see which there are
    ");
    insta::assert_snapshot!(zero.run(&["memory", "show", "../x"]), @"
    exit 2
    --- stderr
    error: `../x`: a note's name has 1 to 64 small letters, digits and `-`, such as `build-command`
    ");
}

#[test]
fn the_tool_and_the_command_see_the_same_notes() {
    let zero = Program::new();
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
fn a_task_list_is_printed_as_one() {
    let zero = Program::new();
    let todos = r#"{"todos": [
        {"content": "Look", "status": "completed", "activeForm": "Looking"},
        {"content": "Change", "status": "in_progress", "activeForm": "Changing"},
        {"content": "Test", "status": "pending", "activeForm": "Testing"}]}"#;
    insta::assert_snapshot!(zero.run(&["tools", "call", "TodoWrite", todos]), @"
    exit 0
    The task list is kept: 1 of 3 steps done. Now: Changing.
      ✓ Look
      ▸ Change
      · Test
    ");
}

#[test]
fn where_nobody_is_nobody_is_asked() {
    let zero = Program::new();
    let question = r#"{"questions": [{"question": "Which?", "header": "Which", "options": [
        {"label": "A", "description": "a"}, {"label": "B", "description": "b"}]}]}"#;
    let answer = zero.run(&["tools", "call", "AskUserQuestion", question, "--yes"]);
    assert!(answer.starts_with("exit 3"), "{answer}");
    assert!(answer.contains("nobody is here who could be asked"), "{answer}");
}
