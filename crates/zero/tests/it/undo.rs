//! `zero undo` of commands, and dry runs.

#![expect(clippy::disallowed_methods, reason = "tests use real files directly")]

use std::os::unix::fs::MetadataExt;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::config::{USER_FILE, write_file};
use crate::mcp_fixture::{make_workspace, server_setting, wait_for, write_settings};
use crate::model_server::ModelServer;
use crate::test_program::TestProgram;

/// A program that records commands.
fn recording_program() -> TestProgram {
    let zero = TestProgram::new();
    write_file(&zero, USER_FILE, json!({"undo": {"commands": true}}).to_string());
    zero
}

fn bash(zero: &TestProgram, command: &str) -> String {
    let input = json!({"command": command}).to_string();
    zero.stdout(&["tools", "call", "Bash", &input, "--yes"])
}

fn read(zero: &TestProgram, path: &str) -> Option<String> {
    std::fs::read_to_string(zero.folder().join(path)).ok()
}

#[test]
fn removal_by_command_is_undone() {
    let zero = recording_program();
    bash(&zero, "mkdir -p src/a && echo one > src/a/f && ln -s f src/a/link");
    bash(&zero, "rm -rf src");
    assert!(!zero.folder().join("src").exists());
    let seen = zero.run(&["undo"]);
    assert!(seen.contains("undid change 2 of Bash, 4 removed (4 B): rm -rf src"), "{seen}");
    assert!(seen.contains("note: the next is change 1, Bash `mkdir -p src/a"), "{seen}");
    assert_eq!(read(&zero, "src/a/link").as_deref(), Some("one\n"));
}

#[test]
fn undo_names_later_command_that_was_not_recorded() {
    let zero = TestProgram::new();
    write_file(&zero, USER_FILE, json!({"undo": {"commands": false}}).to_string());
    let write = json!({"file_path": "a.txt", "content": "x"}).to_string();
    zero.stdout(&["tools", "call", "Write", &write, "--yes"]);
    bash(&zero, "ls");
    let seen = zero.run(&["undo"]);
    assert!(seen.contains("removed `a.txt`") && !seen.contains("not recorded"), "{seen}");
    bash(&zero, "touch later");
    for args in [&["undo"][..], &["undo", "1"]] {
        let seen = zero.run(args);
        let is_newest = args.len() == 1;
        assert_eq!(seen.contains("the command `touch later` ran later"), is_newest, "{seen}");
    }
}

#[test]
fn undo_beside_running_job_is_refused() {
    let zero = recording_program();
    bash(&zero, "echo one > a");
    let input = json!({"command": "echo up; sleep 600", "run_in_background": true}).to_string();
    let started = zero.stdout(&["tools", "call", "Bash", &input, "--yes", "--json"]);
    let started: Value = serde_json::from_str(&started).unwrap();
    let id = started["result"]["structured"]["job_id"].as_str().unwrap();
    let seen = zero.run(&["undo"]);
    let killed = zero.run(&["jobs", "kill", id]);
    assert!(seen.starts_with("exit 1"), "{seen}");
    let named = format!("the job `{id}` (`echo up; sleep 600`) runs in this workspace");
    assert!(seen.contains(&named) && seen.contains(&format!("zero jobs kill {id}")), "{seen}");
    assert!(killed.starts_with("exit 0"), "{killed}");
    let seen = zero.run(&["undo"]);
    assert!(seen.starts_with("exit 0") && read(&zero, "a").is_none(), "{seen}");
}

#[test]
fn undo_after_edit_and_test_reverts_the_edit() {
    let zero = recording_program();
    let write = json!({"file_path": "a.py", "content": "edited\n"}).to_string();
    zero.stdout(&["tools", "call", "Write", &write, "--yes"]);
    bash(&zero, "mkdir -p .pytest_cache/v; echo x > .pytest_cache/v/last");
    let seen = zero.run(&["undo"]);
    assert!(seen.contains("removed `a.py`"), "{seen}");
    assert!(
        seen.contains("note: skipping change 2, Bash `mkdir") && seen.contains("`zero undo 2`"),
        "{seen}"
    );
    // Nothing else is left.
    let seen = zero.run(&["undo"]);
    assert!(
        seen.contains("undid change 2") && !zero.folder().join(".pytest_cache").exists(),
        "{seen}"
    );
}

#[test]
fn list_shows_newest_changes_unless_all_are_wanted() {
    let zero = TestProgram::new();
    let many = "script:\n".to_owned()
        + &(0..3)
            .map(|turn| {
                let calls = (0..18).map(|call| {
                    let input = json!({"file_path": format!("f{turn}-{call}"), "content": "x"});
                    format!("call Write {input}\n")
                });
                calls.collect::<String>() + "turn\n"
            })
            .collect::<String>()
        + "say done";
    let model = ModelServer::start();
    write_file(&zero, USER_FILE, model.settings_json(json!({})));
    zero.stdout(&["run", "--yes", &many]);
    let listed = zero.run(&["undo", "--list"]);
    let rows = |listed: &str| listed.matches("can be undone").count();
    assert_eq!(rows(&listed), 50, "{listed}");
    assert!(listed.contains("note: 4 older changes are not shown; `--all` shows them"), "{listed}");
    let all = zero.run(&["undo", "--list", "--all"]);
    assert_eq!(rows(&all), 54, "{all}");
}

#[test]
fn dry_run_of_call_shows_change_and_discards_it() {
    let zero = TestProgram::new();
    std::fs::write(zero.folder().join("a.txt"), "one\n").unwrap();
    std::fs::write(zero.folder().join("b.txt"), "b\n").unwrap();
    let command = "sed -i s/one/two/ a.txt; rm b.txt; echo new > c.txt; chmod 600 c.txt";
    let input = json!({"command": command}).to_string();
    let seen = zero.run(&["tools", "call", "Bash", &input, "--yes", "--dry-run"]);
    assert!(seen.starts_with("exit 0"), "{seen}");
    for part in [
        "changed a.txt\n@@ -1 +1 @@\n-one\n+two\n",
        "removed b.txt\n@@ -1 +0,0 @@\n-b\n",
        "created c.txt\n@@ -0,0 +1 @@\n+new\n",
        "note: only changes of files in the workspace can be discarded",
        "note: dry run: the changes were discarded",
    ] {
        assert!(seen.contains(part), "{part}: {seen}");
    }
    assert_eq!(read(&zero, "a.txt").as_deref(), Some("one\n"));
    assert_eq!(read(&zero, "b.txt").as_deref(), Some("b\n"));
    assert_eq!(read(&zero, "c.txt"), None);
    // What cannot be recorded is not run.
    let input = json!({"command": "echo x > d", "run_in_background": true}).to_string();
    let seen = zero.run(&["tools", "call", "Bash", &input, "--yes", "--dry-run"]);
    assert!(seen.contains("in a dry run, all changes must be recorded"), "{seen}");
    assert_eq!(read(&zero, "d"), None);
    let seen = zero.run(&["tools", "call", "Bash", "{}", "--json", "--dry-run"]);
    assert!(seen.starts_with("exit 2"), "{seen}");
}

#[test]
fn dry_run_of_prompt_discards_changes_of_all_its_calls() {
    let (zero, model) = (TestProgram::new(), ModelServer::start());
    write_file(&zero, USER_FILE, model.settings_json(json!({})));
    std::fs::write(zero.folder().join("a.txt"), "one\n").unwrap();
    let script = "script:\n\
        call Bash {\"command\": \"echo two > a.txt\"}\nturn\n\
        call Write {\"file_path\": \"b.txt\", \"content\": \"new\\n\"}\nturn\n\
        call Bash {\"command\": \"rm a.txt\"}\nturn\n\
        say Done.";
    let seen = zero.run(&["run", "--yes", "--dry-run", script]);
    assert!(seen.starts_with("exit 0"), "{seen}");
    for part in ["Done.", "-two", "+new", "removed a.txt", "the changes were discarded"] {
        assert!(seen.contains(part), "{part}: {seen}");
    }
    assert_eq!(read(&zero, "a.txt").as_deref(), Some("one\n"));
    assert_eq!(read(&zero, "b.txt"), None);
    let seen = zero.run(&["run", "--yes", "--dry-run", "hello"]);
    assert!(seen.contains("dry run: no change of files in the workspace was recorded"), "{seen}");
}

#[test]
fn critical_removal_beyond_quota_is_asked_about_as_final() {
    let zero = TestProgram::new();
    write_file(&zero, USER_FILE, json!({"undo": {"commands": true, "bytes": 50_000}}).to_string());
    std::fs::create_dir(zero.folder().join("big")).unwrap();
    std::fs::write(zero.folder().join("big/file"), vec![b'x'; 200_000]).unwrap();
    let input = json!({"command": "rm -rf big"}).to_string();
    let seen = zero.run(&["tools", "call", "Bash", &input]);
    assert!(seen.starts_with("exit 3"), "{seen}");
    assert!(
        seen.contains("its changes cannot be undone: it removes more than the 50 KB"),
        "{seen}"
    );
    let seen = zero.run(&["tools", "call", "Bash", &input, "--yes"]);
    assert!(seen.contains("can be undone only now, with `zero undo 1`"), "{seen}");
    zero.stdout(&["undo"]);
    assert_eq!(read(&zero, "big/file").map(|text| text.len()), Some(200_000));
}

#[test]
fn changes_of_job_are_undone_after_a_question() {
    let zero = recording_program();
    write_file(&zero, "old.txt", "old\n");
    let command = "echo more >> old.txt; echo new > new.txt";
    let input = json!({"command": command, "run_in_background": true}).to_string();
    zero.stdout(&["tools", "call", "Bash", &input, "--yes"]);
    // Returns when the job has ended.
    zero.stdout(&["jobs", "output", "job_1", "--follow"]);
    let seen = zero.run(&["undo", "--list"]);
    assert!(seen.contains("can be undone") && seen.contains("1 created, 1 changed"), "{seen}");
    let seen = zero.run(&["undo"]);
    assert!(seen.starts_with("exit 3") && seen.contains("was made in the background"), "{seen}");
    assert!(seen.contains("old.txt") && !seen.contains("new.txt"), "{seen}");
    assert_eq!(read(&zero, "new.txt").as_deref(), Some("new\n"), "nothing was touched");
    let seen = zero.run(&["undo", "--yes"]);
    assert!(seen.starts_with("exit 0"), "{seen}");
    assert_eq!((read(&zero, "old.txt").as_deref(), read(&zero, "new.txt")), (Some("old\n"), None));
}

/// Also where zero's own folder is in the workspace, as here.
#[test]
fn file_that_job_changes_is_open_to_other_commands() {
    let zero = recording_program();
    write_file(&zero, "log.txt", "old\n");
    let input = json!({"command": "echo job >> log.txt; sleep 600", "run_in_background": true});
    let started = ["tools", "call", "Bash", &input.to_string(), "--yes", "--json"];
    let started: Value = serde_json::from_str(&zero.stdout(&started)).unwrap();
    let id = started["result"]["structured"]["job_id"].as_str().unwrap();
    wait_for("the line of the job", || read(&zero, "log.txt").unwrap().ends_with("job\n"));
    let input = json!({"command": "cat log.txt && echo more >> log.txt"}).to_string();
    let seen = zero.run(&["tools", "call", "Bash", &input, "--yes"]);
    zero.stdout(&["jobs", "kill", id]);
    assert!(seen.starts_with("exit 0") && seen.contains("old\njob\n"), "{seen}");
    assert_eq!(read(&zero, "log.txt").as_deref(), Some("old\njob\nmore\n"));
}

/// A program that was killed while its command, which has appended a line to `log.txt`, ran.
fn killed_program() -> TestProgram {
    let zero = recording_program();
    write_file(&zero, "log.txt", "old\n");
    let input = json!({"command": "echo one >> log.txt; sleep 600"}).to_string();
    let mut command = zero.command(&["tools", "call", "Bash", &input, "--yes"]);
    let mut killed = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_for("the line of the command", || read(&zero, "log.txt").unwrap().ends_with("one\n"));
    killed.kill().unwrap();
    killed.wait().unwrap();
    zero
}

#[test]
fn command_of_killed_zero_is_not_listed_as_running() {
    let zero = killed_program();
    let listed = zero.run(&["undo", "--list"]);
    assert!(listed.contains("can be undone") && !listed.contains("still running"), "{listed}");
    assert_eq!(read(&zero, "log.txt").as_deref(), Some("old\none\n"), "a list restores nothing");
}

#[test]
fn record_of_killed_zero_is_finished_before_next_command() {
    let zero = killed_program();
    let names = || std::fs::metadata(zero.folder().join("log.txt")).unwrap().nlink();
    assert_eq!(names(), 2, "the record still has the file");
    let seen = bash(&zero, "cat log.txt && echo two >> log.txt");
    assert!(seen.contains("old\none\n"), "{seen}");
    assert_eq!(read(&zero, "log.txt").as_deref(), Some("old\none\ntwo\n"));
    assert_eq!(names(), 1, "nothing of the record is left in progress");
    zero.stdout(&["undo"]);
    assert_eq!(read(&zero, "log.txt").as_deref(), Some("old\none\n"));
    zero.stdout(&["undo"]);
    assert_eq!(read(&zero, "log.txt").as_deref(), Some("old\n"));
}

/// A program with an MCP server that has a tool which appends a line to a file.
fn program_with_saving_server(model: Option<&ModelServer>) -> TestProgram {
    let zero = make_workspace();
    let settings = json!({
        "mcpServers": {"a": server_setting(&zero, "a", "save")},
        "undo": {"commands": true},
        "permissions": {"allow": ["a__save"]}
    });
    match model {
        Some(model) => write_file(&zero, USER_FILE, model.settings_json(settings)),
        None => write_settings(&zero, settings),
    }
    zero
}

fn save(path: &str) -> String {
    format!("call a__save {}\nturn\n", json!({"text": path}))
}

#[test]
fn changes_of_mcp_server_are_undone_call_by_call() {
    let model = ModelServer::start();
    let zero = program_with_saving_server(Some(&model));
    // The first prompt then knows its tools.
    zero.stdout(&["mcp", "status"]);
    let script = format!("script:\n{}{}say done", save("one.txt"), save("one.txt"));
    zero.stdout(&["run", "--yes", "--session", "s", &script]);
    assert_eq!(read(&zero, "one.txt").as_deref(), Some("saved\nsaved\n"));
    let listed = zero.run(&["undo", "--list"]);
    assert_eq!(listed.matches(" a__save").count(), 4, "tool and title of two calls: {listed}");
    let seen = zero.run(&["undo"]);
    assert!(seen.contains("of a__save, 1 changed"), "{seen}");
    assert_eq!(read(&zero, "one.txt").as_deref(), Some("saved\n"));
    zero.stdout(&["undo"]);
    assert_eq!(read(&zero, "one.txt"), None);
    // A rewind takes them back, too.
    zero.stdout(&["run", "--yes", "--session", "t", &script]);
    let seen = zero.run(&["sessions", "rewind", "t"]);
    assert!(seen.starts_with("exit 0") && !seen.contains("no change"), "{seen}");
    assert_eq!(read(&zero, "one.txt"), None, "{seen}");
}

#[test]
fn dry_run_discards_what_mcp_server_changed() {
    let zero = program_with_saving_server(None);
    let input = json!({"text": "one.txt"}).to_string();
    let seen = zero.run(&["tools", "call", "a__save", &input, "--yes", "--dry-run"]);
    assert!(seen.starts_with("exit 0") && seen.contains("+saved"), "{seen}");
    assert!(seen.contains("the changes were discarded"), "{seen}");
    assert_eq!(read(&zero, "one.txt"), None);
}
