//! `zero import` from the files of each program, in the form in which the program writes them.
#![expect(clippy::disallowed_methods, reason = "the tests set up settings of other programs")]

use serde_json::{Value, json};

use crate::test_program::TestProgram;

fn program(files: &[(&str, &str)]) -> TestProgram {
    let zero = TestProgram::new();
    for (path, text) in files {
        let path = zero.folder().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    zero
}

fn read(zero: &TestProgram, path: &str) -> String {
    std::fs::read_to_string(zero.folder().join(path)).unwrap()
}

fn settings(zero: &TestProgram, path: &str) -> Value {
    serde_json::from_str(&read(zero, path)).unwrap()
}

/// The entries with an outcome.
fn entries(report: &Value, outcome: &str) -> Vec<String> {
    let entries = report["entries"].as_array().unwrap().iter();
    let entries = entries.filter(|entry| entry["outcome"] == outcome);
    entries.map(|entry| entry["entry"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn claude_settings_are_taken_over_once() {
    let zero = program(&[
        (
            "home/.claude/settings.json",
            r#"{"permissions": {"allow": ["Bash(npm run test:*)", "WebFetch", "mcp__my.server__get"],
                "ask": ["Bash(git push:*)"], "deny": ["Read(./.env)", "Bash(curl a && b)", "Read(/secrets/**)"],
                "defaultMode": "acceptEdits"}, "env": {"A": "b"}, "hooks": {"PreToolUse": []}}"#,
        ),
        (
            "home/.claude.json",
            r#"{"mcpServers": {"my.server": {"type": "stdio", "command": "npx", "args": ["-y", "x"], "env": {"API_KEY": "sekret-value-1"}}}, "projects": {}}"#,
        ),
        (
            "home/.claude/commands/git/Tidy.md",
            "---\ndescription: Tidy up\nallowed-tools: Bash\n---\nTidy $ARGUMENTS\n",
        ),
        ("home/.claude/commands/shell.md", "Status: !`git status`\n"),
        (
            "home/.claude/agents/tester.md",
            "---\nname: tester\ndescription: Tests\ntools: Read, Bash, mcp__docs__x\n---\nYou test.\n",
        ),
    ]);
    let refused = zero.run(&["import", "claude"]);
    assert!(refused.starts_with("exit 3\n") && !refused.contains("sekret"), "{refused}");
    assert!(!zero.folder().join("home/.config/zero/settings.json").exists());

    let report: Value =
        serde_json::from_str(&zero.stdout(&["import", "claude", "--json", "--yes"])).unwrap();
    assert_eq!(report["written"], true);
    assert_eq!(
        entries(&report, "left-out"),
        [
            "~/.claude/settings.json allow WebFetch",
            "~/.claude/settings.json env",
            "~/.claude/commands/shell.md command `/shell`"
        ]
    );
    assert_eq!(entries(&report, "not-enforced"), ["~/.claude/settings.json hooks"]);
    assert_eq!(
        settings(&zero, "home/.config/zero/settings.json"),
        json!({
            "mcpServers": {"my-server": {"command": "npx", "args": ["-y", "x"], "env": {"API_KEY": "${API_KEY}"}}},
            "permissions": {
                "allow": ["Bash(npm run test:*)", "my-server__get"],
                "ask": ["Bash(git push:*)"],
                "deny": ["Read(./.env)", "Bash(curl:*)", "Read(**/secrets/**)"],
                "mode": "accept-edits",
            },
        })
    );
    assert_eq!(
        read(&zero, "home/.config/zero/commands/git/tidy.md"),
        "---\ndescription: \"Tidy up\"\n---\nTidy $ARGUMENTS\n"
    );
    let agent = read(&zero, "home/.config/zero/agents/tester.md");
    assert!(agent.contains("tools: \"Read, Bash, docs__x\""), "{agent}");
    let again = zero.stdout(&["import", "claude", "--yes"]);
    assert!(again.contains("nothing to write"), "{again}");
}

#[test]
fn project_import_goes_to_project_and_local_settings() {
    let zero = program(&[
        (
            ".mcp.json",
            r#"{"mcpServers": {"docs": {"type": "http", "url": "https://docs.example.com/mcp", "headers": {"Authorization": "Bearer sekret"}}, "old": {"type": "sse", "url": "https://x.example.com/sse"}}}"#,
        ),
        (
            ".claude/settings.json",
            r#"{"permissions": {"allow": ["Edit(/src/**)"], "deny": ["mcp__docs__drop"]}}"#,
        ),
        (".claude/settings.local.json", r#"{"permissions": {"allow": ["Bash(make:*)"]}}"#),
        (".zero/settings.json", "// mine\n{\n  \"permissions\": {\"deny\": [\"Read(x)\"]}\n}\n"),
    ]);
    zero.stdout(&["import", "claude", "--project", "--yes"]);
    let text = read(&zero, ".zero/settings.json");
    assert!(
        text.starts_with("// mine\n") && text.contains("\"Read(x)\"") && !text.contains("sekret"),
        "{text}"
    );
    for expected in ["\"Edit(/src/**)\"", "\"docs__drop\"", "${AUTHORIZATION}"] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    assert!(!text.contains("x.example.com") && !text.contains("make"), "{text}");
    zero.stdout(&["import", "claude", "--local", "--yes"]);
    assert_eq!(
        settings(&zero, ".zero/settings.local.json"),
        json!({"permissions": {"allow": ["Bash(make:*)"]}})
    );
}

#[test]
fn codex_configuration_is_taken_over() {
    let zero = program(&[
        (
            "home/.codex/config.toml",
            "model = \"gpt-5\"\napproval_policy = \"on-request\"\nsandbox_mode = \"workspace-write\"\n\
             [sandbox_workspace_write]\nwritable_roots = [\"/srv/data\", \"/\"]\nnetwork_access = true\n\
             [mcp_servers.docs]\nurl = \"https://docs.example.com/mcp\"\nbearer_token_env_var = \"DOCS_TOKEN\"\ntool_timeout_sec = 30\n",
        ),
        (
            "home/.codex/rules/default.rules",
            "prefix_rule(pattern = [\"git\", [\"push\", \"fetch\"]], decision = \"prompt\", justification = \"others see it\")\n\
             prefix_rule(pattern = [\"rm\", \"-rf\"], decision = \"forbidden\")\n",
        ),
        ("home/.codex/prompts/review.md", "Review $1\n"),
        (
            "home/.codex/agents/look.toml",
            "name = \"look\"\ndescription = \"Looks\"\nsandbox_mode = \"read-only\"\ndeveloper_instructions = \"Only look.\"\n",
        ),
    ]);
    let report: Value =
        serde_json::from_str(&zero.stdout(&["import", "codex", "--json", "--yes"])).unwrap();
    let found = settings(&zero, "home/.config/zero/settings.json");
    assert_eq!(
        found,
        json!({
            "mcpServers": {"docs": {"url": "https://docs.example.com/mcp", "headers": {"Authorization": "Bearer ${DOCS_TOKEN}"}, "timeout": 30000}},
            "permissions": {
                "mode": "ask",
                "ask": [{"rule": "Bash(git push:*)", "why": "others see it"}, {"rule": "Bash(git fetch:*)", "why": "others see it"}],
                "deny": ["Bash(rm -rf:*)"],
            },
            "sandbox": {"writable": ["/srv/data"]},
        }),
        "{report:#}"
    );
    let left = entries(&report, "left-out");
    assert!(left.contains(&"~/.codex/config.toml writable_roots /".to_owned()), "{left:?}");
    assert!(read(&zero, "home/.config/zero/agents/look.md").contains("mode: \"plan\""));
    assert_eq!(read(&zero, "home/.config/zero/commands/review.md"), "Review $1\n");
}

#[test]
fn opencode_and_gemini_settings_are_taken_over() {
    let zero = program(&[
        (
            "home/.config/opencode/opencode.jsonc",
            r#"{ // mine
                "permission": {"bash": {"*": "ask", "git status*": "allow", "rm *": "deny"}, "webfetch": "deny"},
                "mcp": {"files": {"type": "local", "command": ["files-mcp", "--stdio"], "environment": {"LEVEL": "1", "TOKEN": "{env:TOKEN}"}, "enabled": false}},
                "command": {"test": {"template": "Run the tests $ARGUMENTS", "description": "Tests"}},
                "agent": {"docs": {"prompt": "Write documents.", "permission": {"bash": "deny"}}}}"#,
        ),
        (
            "home/.gemini/settings.json",
            r#"{"tools": {"allowed": ["run_shell_command(npm test)"], "exclude": ["web_fetch"]},
                "mcpServers": {"tickets": {"command": "tickets", "env": {"KEY": "$KEY"}, "trust": true}},
                "general": {"defaultApprovalMode": "plan"}}"#,
        ),
        (
            "home/.gemini/commands/git/fix.toml",
            "description = \"Fix\"\nprompt = \"Fix {{args}}\"\n",
        ),
        ("home/.gemini/commands/diff.toml", "prompt = \"Look: !{git diff}\"\n"),
        (
            "home/.gemini/policies/mine.toml",
            "[[rule]]\ntoolName = \"run_shell_command\"\ncommandPrefix = [\"sudo\", \"rm -rf\"]\ndecision = \"deny\"\npriority = 100\n",
        ),
    ]);
    zero.stdout(&["import", "opencode", "--yes"]);
    let found = settings(&zero, "home/.config/zero/settings.json");
    assert_eq!(
        found["permissions"],
        json!({"allow": ["Bash(git status*)"], "deny": ["Bash(rm *)", "WebFetch"]})
    );
    assert_eq!(
        found["mcpServers"]["files"],
        json!({"command": "files-mcp", "args": ["--stdio"], "env": {"LEVEL": "1", "TOKEN": "${TOKEN}"}, "disabled": true})
    );
    assert!(read(&zero, "home/.config/zero/commands/test.md").contains("Run the tests $ARGUMENTS"));
    assert!(!read(&zero, "home/.config/zero/agents/docs.md").contains("Bash"));

    let report = zero.stdout(&["import", "gemini", "--yes"]);
    let found = settings(&zero, "home/.config/zero/settings.json");
    assert_eq!(
        found["permissions"]["deny"],
        json!(["Bash(rm *)", "WebFetch", "Bash(sudo:*)", "Bash(rm -rf:*)"])
    );
    assert_eq!(found["permissions"]["allow"], json!(["Bash(git status*)", "Bash(npm test:*)"]));
    assert_eq!(found["permissions"]["mode"], "plan");
    assert_eq!(
        found["mcpServers"]["tickets"],
        json!({"command": "tickets", "env": {"KEY": "${KEY}"}})
    );
    assert!(report.contains("without trust"), "{report}");
    assert!(read(&zero, "home/.config/zero/commands/git/fix.md").contains("Fix $ARGUMENTS"));
    assert!(!zero.folder().join("home/.config/zero/commands/diff.md").exists());
}

#[test]
fn unreadable_source_stops_import_without_a_trace() {
    for (program_name, path, text, place) in [
        (
            "claude",
            "home/.claude/settings.json",
            "{\"permissions\": {\"deny\": [\"Read(x)\"",
            "settings.json:1:",
        ),
        ("codex", "home/.codex/config.toml", "a = 1\ntoken = sekret", "config.toml:2"),
        ("codex", "home/.codex/rules/a.rules", "x = [1]\nprefix_rule(pattern = x)", "a.rules:1"),
        (
            "gemini",
            "home/.gemini/policies/a.toml",
            "[[rule]]\ndecision = \"never\"",
            "unknown decision `never`",
        ),
    ] {
        let zero = program(&[(path, text)]);
        let failed = zero.run(&["import", program_name, "--yes"]);
        assert!(failed.starts_with("exit 2\n"), "{failed}");
        assert!(failed.contains(place) && failed.contains("nothing was imported"), "{failed}");
        assert!(!failed.contains("sekret"), "{failed}");
        assert!(!zero.folder().join("home/.config").exists());
    }
    let none = program(&[]).run(&["import", "gemini"]);
    assert!(none.starts_with("exit 2\n") && none.contains("~/.gemini/settings.json"), "{none}");
}
