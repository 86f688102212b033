//! Compares the derived effects of calls with those that the real tools declare.

#![expect(clippy::disallowed_methods, reason = "tests set up real files")]

use std::collections::BTreeSet;
use std::os::unix::fs::symlink;

use serde_json::json;
use tempfile::TempDir;
use zero_exec::LocalMachine;
use zero_runtime::dialect::BUILTIN;
use zero_runtime::{Dialect, ToolRegistry};
use zero_sandbox::Workspace;

use super::*;

#[test]
fn discovered_tool_prefix_is_that_of_the_tools() {
    assert_eq!(PREFIX, zero_tools::tool_discovery::PREFIX);
}

/// A workspace with files, folders and links, and a home folder beside it.
struct CallFixture {
    folder: TempDir,
    registry: ToolRegistry,
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
        Self { folder, registry }
    }

    fn root(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap()
    }

    /// The effects that the real tool declares, and those derived from the input.
    fn effects_both_ways(
        &self,
        dialect: DialectName,
        name: &str,
        input: &Value,
    ) -> [Result<String, String>; 2] {
        let (roots, home) = (vec![self.root().join("w")], self.root().join("home"));
        let workspace = Workspace::open(&roots, Some(home.clone())).unwrap();
        let spoken = Dialect::new(dialect);
        let tool = spoken.resolve(&self.registry, name).unwrap();
        let real = spoken
            .to_canonical(name, &tool, input.clone())
            .map_err(|violations| format!("{violations:?}"))
            .and_then(|ours| {
                tool.tool.plan(ours, &workspace).map_err(|error| error.message.clone())
            })
            .map(|plan| self.format_effects(&plan.effects()));
        let machine = LocalMachine::new(&[]);
        let context = SimulationContext { roots: &roots, home: Some(&home), machine: &machine };
        let derived = SimulatedCall::new(name, input, Some(dialect), &context).map(|subject| {
            assert_eq!(subject.tool, tool.tool.spec().name.as_str(), "{name}");
            assert_eq!(subject.risk, tool.tool.spec().risk, "{name}");
            self.format_effects(&subject.effects)
        });
        [real, derived]
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

    /// Checks that both agree and equal `expected`.
    #[track_caller]
    fn check(&self, name: &str, input: Value, expected: &str) {
        self.check_in(DialectName::Canonical, name, input, expected);
    }

    #[track_caller]
    fn check_in(&self, dialect: DialectName, name: &str, input: Value, expected: &str) {
        let [real, derived] = self.effects_both_ways(dialect, name, &input);
        assert_eq!(real.as_deref(), Ok(expected), "{name} {input}, as the tool says");
        assert_eq!(derived.as_deref(), Ok(expected), "{name} {input}, as derived");
    }
}

#[test]
fn simulated_effects_match_real_tools() {
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
        let outline = json!({"operation": "documentSymbol", "filePath": path});
        fixture.check("LSP", outline, &read);
        fixture.check_in(DialectName::Opencode, "lsp-diagnostics", json!({ "path": path }), &read);
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
fn escaping_pattern_is_refused_by_tool_and_judged_outside() {
    let fixture = CallFixture::new();
    for (pattern, expected) in [
        ("~/*", "read /home (Outside)"),
        ("../out/*", "read /out (Outside)"),
        ("/etc/*", "read /etc (Outside)"),
    ] {
        let input = json!({ "paths": [pattern] });
        let [real, derived] = fixture.effects_both_ways(DialectName::Canonical, "ReadMany", &input);
        assert!(real.is_err(), "{pattern}");
        assert_eq!(derived.as_deref(), Ok(expected), "{pattern}");
    }
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
fn every_dialect_name_maps_to_same_tool() {
    let fixture = CallFixture::new();
    for dialect in DialectName::ALL {
        let spoken = Dialect::new(dialect);
        for name in spoken.names(&fixture.registry) {
            let tool = spoken.resolve(&fixture.registry, &name).unwrap();
            let line = find_known_tool(&name, Some(dialect)).unwrap().map(|line| line.tool);
            assert_eq!(line, Some(tool.tool.spec().name.as_str()), "{name} of {dialect}");
        }
    }
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
