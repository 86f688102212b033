//! Calls that are planned and never run, as `zero policy` evaluates them.

use std::collections::BTreeSet;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};
use tempfile::TempDir;
use zero_core::Effects;
use zero_runtime::dialect::BUILTIN;
use zero_runtime::simulated_call::CallSimulator;
use zero_runtime::{DialectName, ToolRegistry};
use zero_sandbox::Workspace;

/// A workspace with files, folders and links, and a home folder beside it.
struct CallFixture {
    folder: TempDir,
    simulator: CallSimulator,
}

impl CallFixture {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let workspace = folder.path().join("w");
        for file in ["w/a.txt", "w/src/main.rs", "w/src/deep/lib.rs", "home/notes", "out/x"] {
            let path = folder.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "text\n").unwrap();
        }
        symlink("a.txt", workspace.join("link")).unwrap();
        symlink("../out", workspace.join("elsewhere")).unwrap();
        symlink("nowhere", workspace.join("dangling")).unwrap();
        let registry = ToolRegistry::default();
        registry.add(BUILTIN, zero_tools::builtin_tools()).unwrap();
        Self { folder, simulator: CallSimulator::new(Arc::new(registry)) }
    }

    fn root(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap()
    }

    fn simulate(
        &self,
        dialect: Option<DialectName>,
        name: &str,
        input: &Value,
    ) -> Result<String, String> {
        let (roots, home) = (vec![self.root().join("w")], self.root().join("home"));
        let workspace = Workspace::for_planning(&roots, Some(home)).unwrap();
        let call = self.simulator.simulate(name, input, dialect, &workspace);
        call.map(|call| self.format_effects(&call.effects)).map_err(|error| error.message)
    }

    fn format_effects(&self, effects: &Effects) -> String {
        let root = self.root().display().to_string();
        let shown: BTreeSet<String> = effects
            .iter()
            .map(|effect| {
                let place = effect.path().map(|path| format!(" ({:?})", path.zone()));
                format!("{effect}{}", place.unwrap_or_default()).replace(&root, "")
            })
            .collect();
        shown.into_iter().collect::<Vec<_>>().join(", ")
    }

    #[track_caller]
    fn check(&self, name: &str, input: Value, expected: &str) {
        self.check_in(DialectName::Canonical, name, input, expected);
    }

    /// Checks the effects of a call whose dialect is known, and of one whose dialect is not.
    #[track_caller]
    fn check_in(&self, dialect: DialectName, name: &str, input: Value, expected: &str) {
        for dialect in [Some(dialect), None] {
            let effects = self.simulate(dialect, name, &input);
            assert_eq!(effects.as_deref(), Ok(expected), "{name} {input} in {dialect:?}");
        }
    }
}

#[test]
fn simulated_call_has_effects_of_its_tool() {
    let fixture = CallFixture::new();
    for (path, target, place) in [
        ("a.txt", "/w/a.txt", "Workspace"),
        ("./src/../a.txt", "/w/a.txt", "Workspace"),
        ("link", "/w/a.txt", "Workspace"),
        ("elsewhere/x", "/out/x", "Outside"),
        ("elsewhere/../out/x", "/out/x", "Outside"),
        ("dangling", "/w/nowhere", "Workspace"),
        ("new/deep/file", "/w/new/deep/file", "Workspace"),
        ("~/notes", "/home/notes", "Outside"),
        ("../out/x", "/out/x", "Outside"),
    ] {
        let read = format!("read {target} ({place})");
        let write = format!("write {target} ({place})");
        fixture.check("Read", json!({ "file_path": path }), &read);
        fixture.check("Write", json!({"file_path": path, "content": "x"}), &write);
        fixture.check(
            "Edit",
            json!({"file_path": path, "old_string": "a", "new_string": "b"}),
            &format!("{read}, {write}"),
        );
        fixture.check("LS", json!({ "path": path }), &read);
        fixture.check("Grep", json!({"pattern": "x", "path": path}), &read);
        fixture.check("Glob", json!({"pattern": "*", "path": path}), &read);
        fixture.check("ReadMany", json!({ "paths": [path] }), &read);
        #[cfg(feature = "lsp")]
        {
            let outline = json!({"operation": "documentSymbol", "filePath": path});
            fixture.check("LSP", outline, &read);
            let problems = json!({ "path": path });
            fixture.check_in(DialectName::Opencode, "lsp-diagnostics", problems, &read);
        }
    }
}

#[test]
fn delete_targets_link_not_its_target() {
    let fixture = CallFixture::new();
    for (path, target, place) in [
        ("a.txt", "/w/a.txt", "Workspace"),
        ("link", "/w/link", "Workspace"),
        ("elsewhere", "/w/elsewhere", "Workspace"),
        ("elsewhere/x", "/out/x", "Outside"),
        ("dangling", "/w/dangling", "Workspace"),
        ("~/notes", "/home/notes", "Outside"),
    ] {
        let expected = format!("delete {target} ({place})");
        fixture.check("Delete", json!({ "file_path": path }), &expected);
    }
}

#[test]
fn search_reads_its_start_folder() {
    let fixture = CallFixture::new();
    let whole = "read /w (Workspace)";
    fixture.check("LS", json!({}), whole);
    fixture.check("Glob", json!({"pattern": "**/*.rs"}), whole);
    fixture.check("Grep", json!({"pattern": "x", "glob": "*.rs"}), whole);
    fixture.check("Glob", json!({"pattern": "*.rs", "path": "src"}), "read /w/src (Workspace)");
    std::fs::write(fixture.root().join("w/src/[id].rs"), "").unwrap();
    let absolute = fixture.root().join("w/src/*.rs");
    for (paths, expected) in [
        (json!(["src/**/*.rs"]), whole),
        (json!([absolute]), whole),
        (json!(["*.md", "a.txt"]), "read /w (Workspace), read /w/a.txt (Workspace)"),
        (json!(["elsewhere/*", "src/{a,b}.rs"]), whole),
        (json!(["src/[id].rs"]), "read /w/src/[id].rs (Workspace)"),
        (json!(["src/[ab].rs"]), whole),
    ] {
        fixture.check("ReadMany", json!({ "paths": paths }), expected);
    }
}

#[test]
fn escaping_pattern_is_refused_as_in_a_session() {
    let fixture = CallFixture::new();
    for pattern in ["~/*", "../out/*", "/etc/*"] {
        let input = json!({ "paths": [pattern] });
        let error = fixture.simulate(None, "ReadMany", &input).unwrap_err();
        assert!(error.contains(pattern), "{error}");
    }
}

#[test]
fn input_may_lack_what_policy_does_not_read() {
    let fixture = CallFixture::new();
    let (read, write) = ("read /w/a.txt (Workspace)", "write /w/a.txt (Workspace)");
    fixture.check("Write", json!({"file_path": "a.txt"}), write);
    fixture.check("Edit", json!({"file_path": "a.txt"}), &format!("{read}, {write}"));
    fixture.check("Grep", json!({"path": "a.txt"}), read);
    #[cfg(feature = "lsp")]
    fixture.check("LSP", json!({"filePath": "a.txt"}), read);
    fixture.check_in(DialectName::Acp, "write_file", json!({"path": "a.txt"}), write);
    #[cfg(feature = "web")]
    fixture.check("WebFetch", json!({"url": "https://a.com/"}), "connect to a.com");
}

#[test]
fn missing_and_wrong_fields_are_named() {
    let fixture = CallFixture::new();
    for (name, input, expected) in [
        ("Read", json!({}), "file_path"),
        ("Read", json!({"file_path": ""}), "the path is empty"),
        ("Read", json!({"file_path": "a\0b"}), "NUL"),
        ("Write", json!({"content": "x"}), "file_path"),
        ("Bash", json!({}), "command"),
        ("Bash", json!({"command": 3}), "command"),
        ("Bash", json!({"command": "ls", "cmd": "rm"}), "cmd"),
        #[cfg(feature = "web")]
        ("WebFetch", json!({"prompt": "x"}), "url"),
        ("AskUserQuestion", json!({"path": "a.txt"}), "questions"),
        ("Raed", json!({}), "did you mean Read"),
        ("__", json!({}), "alias__tool"),
    ] {
        let error = fixture.simulate(None, name, &input).unwrap_err();
        assert!(error.contains(expected), "{name} {input}: {error}");
    }
    let error = fixture.simulate(Some(DialectName::Acp), "read", &json!({})).unwrap_err();
    assert_eq!(error, "`read` is not a tool of dialect `acp`, but of opencode");
}

#[test]
fn job_input_counts_as_command() {
    let fixture = CallFixture::new();
    fixture.check("BashKill", json!({"job_id": "job_1"}), "change a job");
    fixture.check("BashOutput", json!({}), "change a job");
    fixture.check("BashOutput", json!({"job_id": "job_1", "filter": "x"}), "change a job");
    let input = json!({"job_id": "job_1", "stdin": "rm -rf x"});
    fixture.check("BashOutput", input, "change a job, run `rm -rf x`, run `sh -s`");
}

#[cfg(feature = "web")]
#[test]
fn url_effect_is_its_host() {
    let fixture = CallFixture::new();
    let page = json!({"url": "https://A.com:8080/x?y#z", "prompt": "p"});
    fixture.check("WebFetch", page, "connect to a.com");
    fixture.check("WebRequest", json!({"url": "http://0x7f.1/"}), "connect to 127.0.0.1");
    fixture.check("WebSearch", json!({"query": "q"}), "");
}

#[test]
fn task_lists_and_questions_stay_internal() {
    let fixture = CallFixture::new();
    let todos = json!([{"content": "a", "status": "pending", "activeForm": "a"}]);
    fixture.check("TodoWrite", json!({ "todos": todos }), "change the task list");
    let plan = json!([{"step": "a", "status": "pending"}]);
    fixture.check("Plan", json!({ "plan": plan }), "change the plan");
    let option = |label: &str| json!({"label": label, "description": "x"});
    let question = json!({"question": "a?", "header": "a", "options": [option("b"), option("c")]});
    fixture.check("AskUserQuestion", json!({ "questions": [question] }), "ask you");
    fixture.check("Memory", json!({"action": "list"}), "change what is recalled");
    let keep = "keep the note `a` (project)";
    fixture.check("Memory", json!({"action": "save", "text": "a"}), keep);
    fixture.check_in(DialectName::Qwen, "save_memory", json!({"fact": "a"}), keep);
    let own = json!({"action": "save", "text": "a", "name": "b", "scope": "user"});
    fixture.check("Memory", own, "keep the note `b` (user)");
    let either = "forget the note `a` (project), forget the note `a` (user)";
    fixture.check("Memory", json!({"action": "forget", "name": "a"}), either);
}

#[test]
fn dialect_field_names_are_understood() {
    let fixture = CallFixture::new();
    let (read, write) = ("read /w/a.txt (Workspace)", "write /w/a.txt (Workspace)");
    let absolute = fixture.root().join("w/a.txt").display().to_string();
    let acp = |name, input, expected| fixture.check_in(DialectName::Acp, name, input, expected);
    acp("read_file", json!({"path": "a.txt"}), read);
    acp("write_file", json!({"path": "a.txt", "content": "x"}), write);
    acp("delete_file", json!({"path": "a.txt"}), "delete /w/a.txt (Workspace)");
    acp("list_directory", json!({"path": "src"}), "read /w/src (Workspace)");
    acp("search_files", json!({"query": "x", "path": "src"}), "read /w/src (Workspace)");
    let qwen = |name, input, expected| fixture.check_in(DialectName::Qwen, name, input, expected);
    qwen("read_file", json!({ "absolute_path": absolute }), read);
    qwen("write_file", json!({"file_path": absolute, "content": "x"}), write);
    let opencode =
        |name, input, expected| fixture.check_in(DialectName::Opencode, name, input, expected);
    opencode("read", json!({ "path": absolute }), read);
    opencode("write", json!({"path": absolute, "content": "x"}), write);
}
