//! Servers as people and other programs write them, as rows: the result of each, and where it is
//! reported.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use zero_mcp::server_definition::{McpServerDefinition, ServerTransport};
use zero_settings::mcp_servers::TOOL_SCHEMA_BUDGET;
use zero_settings::{SettingsLayer, SettingsLayerKind, TrustState, WorkspaceSettings};

use super::super::tests::parse_layers;
use super::*;
use crate::environment::EnvironmentConfig;

const ROOT: &str = "/work/app";

fn test_config() -> EnvironmentConfig {
    EnvironmentConfig::for_test(Path::new("/me"))
        .with_variable("TOKEN", "t0ken")
        .with_variable("EMPTY", "")
}

/// The settings of the user's file.
fn parse_settings(text: &str) -> WorkspaceSettings {
    WorkspaceSettings::merge(
        &parse_layers(&[(SettingsLayerKind::User, text)]),
        TrustState::assumed(),
    )
}

/// The servers of the user's file with this `mcpServers`.
fn parse_servers(mcp_servers: Value) -> ConfiguredMcpServers {
    let text = json!({ "mcpServers": mcp_servers }).to_string();
    configured_servers(&parse_settings(&text), &test_config(), Path::new(ROOT))
}

/// The one server that is meant, which can be used.
#[track_caller]
fn parse_server(setting: Value) -> McpServerDefinition {
    let mut found = parse_servers(json!({ "a": setting }));
    assert_eq!(found.problems, [], "{setting}");
    found.definitions.remove(0)
}

/// How a server is reached, in one line.
fn format_server(server: &McpServerDefinition) -> String {
    match &server.transport {
        ServerTransport::Command(launch) => format!(
            "{}: {:?} {:?} {:?} in {} net {:?} writes {:?}",
            server.alias,
            launch.command,
            launch.args,
            launch.variables,
            launch.folder.display(),
            launch.network.iter().map(ToString::to_string).collect::<Vec<_>>(),
            launch.writable,
        ),
        ServerTransport::Http(endpoint) => {
            let login = &endpoint.login;
            format!(
                "{}: {} {:?} {:?} {:?} {:?} {:?}",
                server.alias,
                endpoint.url.as_str(),
                endpoint.headers,
                login.client_id,
                login.client_secret,
                login.scopes,
                login.callback_port,
            )
        }
    }
}

#[track_caller]
fn check_server(setting: Value, expected: &str) {
    assert_eq!(format_server(&parse_server(setting)), expected);
}

/// Why a server cannot be used.
#[track_caller]
fn check_refused(setting: Value, expected: &str) {
    let found = parse_servers(json!({"a": setting, "b": {"command": "x"}}));
    assert_eq!(found.definitions.len(), 1, "{setting}: its neighbour works");
    assert!(found.problems[0].why.contains(expected), "{setting}: {}", found.problems[0].why);
    assert_eq!(found.problems[0].alias, "a");
}

/// What the file as a whole is refused for.
#[track_caller]
fn check_wrong(file: Value, expected: &[&str]) {
    let text = file.to_string();
    let found = SettingsLayer::parse(SettingsLayerKind::User, "f".to_owned(), text.as_bytes());
    let found: Vec<String> =
        found.err().unwrap_or_default().into_iter().map(|problem| problem.what).collect();
    assert_eq!(found, expected, "{text}");
}

#[test]
fn forms_of_other_programs_are_equivalent() {
    let plain = r#"a: "npx" ["-y", "s"] [("K", "v")] in / net [] writes []"#;
    check_server(json!({"command": "npx", "args": ["-y", "s"], "env": {"K": "v"}}), plain);
    check_server(
        json!({"command": {"path": "npx", "args": ["-y", "s"], "env": {"K": "v"}}}),
        plain,
    );
    check_server(
        json!({"type": "stdio", "command": "npx", "args": ["-y", "s"], "env": [{"name": "K", "value": "v"}]}),
        plain,
    );
    let array = json!([{"id": "a", "name": "The A", "command": "npx", "args": ["-y", "s"], "env": [{"name": "K", "value": "v"}]}]);
    assert_eq!(format_server(&parse_servers(array).definitions[0]), plain);
    let by_name = json!([{"name": "a", "command": "npx", "args": ["-y", "s"], "env": {"K": "v"}}]);
    assert_eq!(format_server(&parse_servers(by_name).definitions[0]), plain);
    let http = "a: https://x.org/mcp [] None None [] None";
    for setting in [
        json!({"url": "https://x.org/mcp"}),
        json!({"httpUrl": "https://x.org/mcp"}),
        json!({"type": "http", "url": "https://x.org/mcp"}),
        json!({"type": "streamable-http", "url": "https://x.org/mcp"}),
    ] {
        check_server(setting, http);
    }
}

#[test]
fn every_server_field_is_carried_over() {
    check_server(
        json!({"command": "/opt/${TOKEN}/run", "args": ["${X:-y}"], "env": {"K": "${TOKEN}", "E": "${EMPTY}"}, "cwd": "sub/../tools",
            "network": ["api.example.com", "*.x.org:8443"], "writable": ["/var/x-cache"]}),
        r#"a: "/opt/t0ken/run" ["y"] [("E", ""), ("K", "t0ken")] in /work/app/tools net ["api.example.com", "*.x.org:8443"] writes ["/var/x-cache"]"#,
    );
    check_server(
        json!({"command": "x", "cwd": "~/s"}),
        r#"a: "x" [] [] in /me/home/s net [] writes []"#,
    );
    check_server(
        json!({"url": "http://localhost:${PORT:-3000}/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"},
            "oauth": {"clientId": "me", "clientSecret": "${TOKEN}", "scopes": ["read"], "callbackPort": 3118}}),
        r#"a: http://localhost:3000/mcp [("Authorization", "Bearer t0ken")] Some("me") Some("t0ken") ["read"] Some(3118)"#,
    );
    let found = parse_server(
        json!({"command": "x", "timeout": 5000, "startupTimeout": "2m", "maxTimeout": "1h",
        "toolTimeouts": {"slow": "10m"}, "includeTools": ["a"], "excludeTools": ["b"]}),
    );
    assert_eq!(found.call_timeout, Some(Duration::from_secs(5)));
    assert_eq!(found.startup_timeout, Duration::from_secs(120));
    assert_eq!(found.call_timeout_max, Duration::from_secs(3600));
    assert_eq!(found.tool_timeouts["slow"], Duration::from_secs(600));
    assert_eq!(found.tools_allowed, Some(vec!["a".to_owned()]));
    assert_eq!(found.tools_denied, ["b"]);
    assert_eq!(found.written_at, "user:1");
    for (allowed, denied) in [("allowedTools", "deniedTools"), ("enabled_tools", "disabled_tools")]
    {
        let found = parse_server(json!({"command": "x", allowed: ["a"], denied: ["b"]}));
        assert_eq!(
            (found.tools_allowed.unwrap(), found.tools_denied),
            (vec!["a".to_owned()], vec!["b".to_owned()])
        );
    }
    let usual = parse_server(json!({"command": "x"}));
    assert_eq!(usual.call_timeout, None);
    assert_eq!((usual.tools_allowed, usual.tools_denied.len()), (None, 0));
    let patient = parse_server(json!({"command": "x", "timeout": "2h"}));
    assert_eq!(patient.call_timeout_max, Duration::from_secs(7200), "no shorter than the timeout");
    let hasty = parse_server(json!({"command": "x", "maxTimeout": "10s"}));
    assert_eq!((hasty.call_timeout, hasty.call_timeout_max), (None, Duration::from_secs(10)));
}

#[test]
fn unusable_server_disables_only_itself() {
    check_refused(json!({}), "neither a `command` nor a `url`");
    check_refused(json!({"command": "x", "url": "https://x"}), "a `command` and a `url`");
    check_refused(json!({"type": "sse", "url": "https://x/sse"}), "`sse` is deprecated");
    check_refused(json!({"type": "http", "command": "x"}), "write `url`, or leave `type` out");
    check_refused(
        json!({"type": "stdio", "url": "https://x"}),
        "write `command`, or leave `type` out",
    );
    check_refused(json!({"command": ""}), "is empty");
    check_refused(json!({"command": "${NOPE}"}), "`command`: the variable `NOPE` is not set");
    check_refused(json!({"command": "x", "env": {"K": "${NOPE}"}}), "`env.K`: the variable `NOPE`");
    check_refused(json!({"command": "x", "env": {"a-b": "c"}}), "not a valid variable name");
    check_refused(
        json!({"command": {"path": "x", "env": {"A": "1"}}, "env": {"A": "2"}}),
        "`A` is in `env` twice",
    );
    check_refused(json!({"command": "x", "headers": {"A": "b"}}), "`headers` are for a `url`");
    check_refused(json!({"url": "https://x", "args": ["y"]}), "`args` is for a `command`");
    check_refused(
        json!({"url": "https://x", "headers": {"A": "${NOPE}"}}),
        "`headers.A`: the variable",
    );
    check_refused(json!({"url": "https://x", "headers": {"A": "b\r\nC: d"}}), "control character");
    check_refused(json!({"url": "https://x", "headers": {"A b": "c"}}), "not a valid header name");
    check_refused(json!({"url": "https://x", "headers": {"A": "1", "a": "2"}}), "twice");
    check_refused(json!({"url": "http://x.org/mcp"}), "use `https`");
    check_refused(json!({"url": "http://localhost.evil.org/"}), "use `https`");
    check_refused(json!({"url": "file:///etc/passwd"}), "starts with `file:`");
    check_refused(json!({"url": "not a url"}), "is invalid: relative URL without a base");
    check_refused(json!({"url": "https://me:secret@x.org/"}), "contains a user name or password");
    check_refused(
        json!({"command": "x", "writable": ["~/.ssh"]}),
        "must not be writable for commands",
    );
    check_refused(json!({"command": "x", "args": ["a\0b"]}), "contains a NUL byte");
    let found = parse_servers(json!({"my server": {"command": "x"}, "mcp": {"command": "x"}}));
    assert_eq!(found.definitions, []);
    assert!(found.problems.iter().all(|problem| problem.why.contains("cannot name a server")));
}

#[test]
fn endpoint_never_shows_expanded_variable() {
    let found = parse_servers(json!({"a": {"url": "ht!tp://x/${TOKEN}"}}));
    assert!(!found.problems[0].why.contains("t0ken"), "{}", found.problems[0].why);
}

#[test]
fn server_with_all_tools_denied_is_not_started() {
    for (rule, denied) in [
        ("a__*", &["a"][..]),
        ("mcp__a", &["a"]),
        ("A__*", &["a"]),
        ("mcp__*", &["a", "b"]),
        ("*", &["a", "b"]),
        ("a__tool", &[]),
        ("Bash", &[]),
    ] {
        let servers = r#""mcpServers": {"a": {"command": "x"}, "b": {"url": "https://b.org/"}}"#;
        let text = format!(r#"{{{servers}, "permissions": {{"deny": ["{rule}"]}}}}"#);
        let found = configured_servers(&parse_settings(&text), &test_config(), Path::new(ROOT));
        let names: Vec<&str> = found.denied.iter().map(|one| one.alias.as_str()).collect();
        assert_eq!(names, denied, "{rule}");
        assert_eq!(found.definitions.len() + names.len(), 2, "{rule}");
        for one in found.denied {
            assert!(one.why.starts_with(&format!("denied by rule `{rule}` in ")), "{}", one.why);
        }
    }
}

#[test]
fn server_can_be_disabled() {
    let found = parse_servers(
        json!({"a": {"command": "x", "disabled": true}, "b": {"command": "x", "enabled": false},
        "c": {"command": "${NOPE}", "disabled": true}, "d": {"command": "x", "enabled": true, "disabled": false}}),
    );
    let names: Vec<&str> = found.turned_off.iter().map(|server| server.alias.as_str()).collect();
    assert_eq!(names, ["a", "b", "c"]);
    assert_eq!((found.definitions.len(), found.problems.len()), (1, 0));
}

#[test]
fn trust_fields_of_server_allow_nothing() {
    let found = parse_servers(
        json!({"a": {"command": "x", "trust": true, "autoApprove": ["t"], "alwaysAllow": []},
        "b": {"command": "x", "trust": false, "description": "d", "source": "custom"}}),
    );
    let messages: Vec<String> =
        found.ignored.iter().map(|one| format!("{} {}", one.alias, one.why)).collect();
    assert_eq!(
        messages,
        [
            "a `trust` allows nothing; write a rule such as `a__*` in `permissions.allow`",
            "a `autoApprove` allows nothing; write a rule such as `a__*` in `permissions.allow`",
        ]
    );
    assert_eq!(found.definitions.len(), 2);
}

#[test]
fn server_command_line_defines_one_server() {
    let text = r#"{"mcp": {"mcpServerCommand": "npx -y 'a b'", "toolSchemaBudget": 5}}"#;
    let found = configured_servers(&parse_settings(text), &test_config(), Path::new(ROOT));
    assert_eq!(
        format_server(&found.definitions[0]),
        r#"default: "npx" ["-y", "a b"] [] in / net [] writes []"#
    );
    assert_eq!(parse_settings(text).tool_schema_budget(), 5);
    assert_eq!(parse_settings("{}").tool_schema_budget(), TOOL_SCHEMA_BUDGET);
    let both = r#"{"mcp": {"mcpServerCommand": "x"}, "mcpServers": {"default": {"command": "y"}}}"#;
    let found = configured_servers(&parse_settings(both), &test_config(), Path::new(ROOT));
    assert_eq!((found.definitions.len(), found.problems.len()), (1, 1));
    assert!(format_server(&found.definitions[0]).contains("\"y\""));
}

#[test]
fn wrong_form_is_settings_error() {
    check_wrong(
        json!({"mcpServers": {"a": {"comand": "x"}}}),
        &["unknown key `mcpServers.a.comand`; did you mean `command`?"],
    );
    check_wrong(
        json!({"mcpServers": {"a": {"command": "x", "env": {"K": 1}}}}),
        &["`mcpServers.a.env.K` is 1; write a string"],
    );
    check_wrong(
        json!({"mcpServers": [{"id": "a", "command": "x", "env": [{"name": "K", "valu": "v"}]}]}),
        &[
            "`mcpServers.0.env.0.value` is missing; add it: a string",
            "unknown key `mcpServers.0.env.0.valu`; did you mean `value`?",
        ],
    );
    check_wrong(
        json!({"mcpServers": {"a": {"command": {"path": "x", "env": {"K": 1}}}}}),
        &["`mcpServers.a.command.env.K` is 1; write a string"],
    );
    check_wrong(
        json!({"mcpServers": {"a": {"command": {"args": []}}}}),
        &["`mcpServers.a.command.path` is missing; add it: a string"],
    );
    check_wrong(json!({"mcpServers": {"a": 3}}), &["`mcpServers.a` is 3; write an object"]);
    check_wrong(
        json!({"mcpServers": {"a": {"type": "websocket"}}}),
        &[
            r#"`mcpServers.a.type` is "websocket"; write one of "stdio", "http", "streamable-http", "streamableHttp", "sse""#,
        ],
    );
    check_wrong(
        json!({"mcpServers": [{"command": "x"}, {"id": "a"}, {"id": "a"}]}),
        &[
            "the server has no name; add an `id`",
            "`a` is the name of an earlier server; use another `id`",
        ],
    );
    check_wrong(
        json!({"mcpServers": {"a": {"url": "https://x", "httpUrl": "https://x", "includeTools": [], "allowedTools": []}}}),
        &[
            "`httpUrl` is an alias of `url`; keep one of them",
            "`allowedTools` is an alias of `includeTools`; keep one of them",
        ],
    );
    let time = |text: &str| {
        format!(
            "`{text}` is not a timeout of at most a day; write milliseconds such as 120000, or a string such as \"120s\""
        )
    };
    check_wrong(
        json!({"mcpServers": {"a": {"timeout": "soon", "toolTimeouts": {"t": "2d"}}}}),
        &[&time("soon"), &time("2d")],
    );
    check_wrong(
        json!({"mcpServers": {"a": {"timeout": "2m", "maxTimeout": "1m"}}}),
        &["a timeout of this server is longer than its `maxTimeout`; raise that"],
    );
    check_wrong(
        json!({"mcpServers": {"a": {"command": "x", "network": ["https://x.org"]}}}),
        &[
            "`https://x.org` names no host; write one such as `example.com`, `*.example.org` or `example.com:8443`, without scheme and path",
        ],
    );
    check_wrong(
        json!({"mcpServers": {"a": {"command": "x", "writable": ["/"]}}}),
        &["`/` is the whole machine; name a folder that contains only files created by commands"],
    );
    check_wrong(
        json!({"mcp": {"mcpServerCommand": "a | b", "toolSchemaBudget": -1}}),
        &[
            "`a | b` is not a single command; write one program with its arguments, or use a script",
            "`mcp.toolSchemaBudget` is -1; write a whole number at least 0",
        ],
    );
    check_wrong(
        json!({"tools": {"toolDiscoveryCommand": "", "toolCallComand": "x"}}),
        &[
            "`` is empty; write one program with its arguments, or use a script",
            "unknown key `tools.toolCallComand`; did you mean `toolCallCommand`?",
        ],
    );
}

#[test]
fn only_project_server_starts_in_project_folder() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    let text = r#"{"mcpServers": {"a": {"command": "x"}}, "mcp": {"mcpServerCommand": "y"}}"#;
    let trusted = TrustState::assumed();
    let starts = |layer: SettingsLayerKind, home: &Path| {
        let settings = WorkspaceSettings::merge(&parse_layers(&[(layer, text)]), trusted.clone());
        let config = EnvironmentConfig::for_test(folder.path());
        let config = config.with_home(Some(home.to_owned()), true);
        let found = configured_servers(&settings, &config, Path::new(ROOT)).definitions;
        let folders = found.into_iter().map(|server| match server.transport {
            ServerTransport::Command(launch) => launch.folder,
            ServerTransport::Http(_) => panic!("it is a command"),
        });
        folders.collect::<Vec<_>>()
    };
    let missing = folder.path().join("missing");
    let of_user = starts(SettingsLayerKind::User, &missing);
    assert_eq!(of_user, [Path::new("/"); 2], "there is no home");
    for (layer, expected) in [
        (SettingsLayerKind::User, home.as_path()),
        (SettingsLayerKind::Flag, &home),
        (SettingsLayerKind::Project, Path::new(ROOT)),
        (SettingsLayerKind::Local, Path::new(ROOT)),
    ] {
        assert_eq!(starts(layer, &home), [expected; 2], "{layer:?}");
    }
}

#[test]
fn trusted_later_file_replaces_whole_server() {
    let user =
        r#"{"mcpServers": {"a": {"command": "mine", "args": ["x"]}, "b": {"command": "b"}}}"#;
    let project = r#"{"mcpServers": [{"id": "a", "command": "theirs"}]}"#;
    let files = [(SettingsLayerKind::User, user), (SettingsLayerKind::Project, project)];
    let trusted = TrustState::assumed();
    for (trust, expected) in [
        (TrustState::Never, ["a: \"mine\" [\"x\"]", "b: \"b\" []"]),
        (trusted, ["b: \"b\" []", "a: \"theirs\" []"]),
    ] {
        let settings = WorkspaceSettings::merge(&parse_layers(&files), trust);
        let found = configured_servers(&settings, &test_config(), Path::new(ROOT));
        let seen: Vec<String> = found.definitions.iter().map(format_server).collect();
        assert_eq!(seen.len(), 2);
        for (seen, expected) in seen.iter().zip(expected) {
            assert!(seen.starts_with(expected), "{seen}");
        }
    }
}

#[test]
fn editor_servers_are_added_to_configured_servers() {
    use std::collections::BTreeMap;
    use zero_acp::{SessionMcpServer, SessionServerTransport};

    let pair = |name: &str, value: &str| BTreeMap::from([(name.to_owned(), value.to_owned())]);
    let command = |name: &str, env: BTreeMap<String, String>| SessionMcpServer {
        name: name.to_owned(),
        transport: SessionServerTransport::Command {
            command: "/bin/x".into(),
            args: vec!["$TOKEN".into()],
            env,
        },
    };
    let http = |name: &str, url: &str, headers: BTreeMap<String, String>| SessionMcpServer {
        name: name.to_owned(),
        transport: SessionServerTransport::Http { url: url.to_owned(), headers },
    };
    let settings = parse_settings(
        &json!({
            "mcpServers": {"a": {"command": "x"}, "off": {"command": "x"}},
            "permissions": {"deny": ["off__*"]},
        })
        .to_string(),
    );
    let named = [
        command("a", pair("KEY", "${TOKEN}")),
        http("web", "https://h.example/mcp", pair("Authorization", "${TOKEN}")),
        command("off", BTreeMap::new()),
        command("odd", pair("1KEY", "s3cret")),
        http("plain", "http://h.example/?key=s3cret", BTreeMap::new()),
        http("torn", "https://h.example/", pair("X-Key", "s3cret\r\nX: y")),
    ];
    let found = configured_servers_with(&settings, &test_config(), Path::new(ROOT), &named);
    let expected = [
        "a-2: \"/bin/x\" [\"$TOKEN\"] [(\"KEY\", \"${TOKEN}\")] in / net [] writes []",
        "web: https://h.example/mcp [(\"Authorization\", \"${TOKEN}\")] None None [] None",
    ];
    let shown: Vec<String> = found.definitions.iter().skip(1).map(format_server).collect();
    assert_eq!(shown, expected);
    assert!(found.definitions.iter().skip(1).all(|server| server.written_at == "your editor"));
    let names = |problems: &[UnavailableMcpServer]| -> Vec<String> {
        problems.iter().map(|problem| problem.alias.clone()).collect()
    };
    assert_eq!(names(&found.denied), ["off", "off"], "by whichever name it goes");
    assert_eq!(names(&found.problems), ["odd", "plain", "torn"]);
    assert!(!format!("{:?}", found.problems).contains("s3cret"), "{:?}", found.problems);
}
