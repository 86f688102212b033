//! Queries to real language servers through the tool host: their results use paths of the
//! workspace, and disclose nothing that may not be read.
//!
//! `cargo xtask test` installs the servers: clangd as a system package, the others beside the
//! build.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use zero_core::{Effect, ErrorReason, ErrorType, SessionId};
use zero_lsp::{LanguageServerLimits, LanguageServers, LanguageServersConfig, server_definition};
use zero_policy::rule::{PolicyRule, RuleOwner, RuleSource};
use zero_policy::{PolicyEngine, PolicyEngineConfig};
use zero_runtime::tool::BoxFuture;
use zero_runtime::{
    CommandPolicy, DialectName, Editor, EditorWriteOutcome, Policy, PolicyDecision, PolicyRequest,
    RiskPolicy, RulePolicy, ToolHostConfig, ToolHostSessionConfig, Verdict,
};
use zero_sandbox::StateDir;

use crate::fixture::{ToolFixture, result_text};

/// Longer than anything takes on a very busy machine.
const LONG_TIMEOUT: Duration = Duration::from_secs(180);

/// Where the servers for these tests are installed: beside the build, but not in `/tmp`, because
/// servers have a private one.
fn test_server_bin() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let folder = match root.starts_with("/tmp") {
        true => PathBuf::from("/var/tmp/zero-language-servers"),
        false => root.join("target/language-servers"),
    };
    folder.join("node_modules/.bin")
}

fn search_path() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::iter::once(test_server_bin()).chain(std::env::split_paths(&path)).collect()
}

#[track_caller]
fn require_program(program: &str) {
    let found = search_path().iter().any(|folder| folder.join(program).exists());
    assert!(found, "`{program}` is missing: `cargo xtask test` installs it, or says how to");
}

/// Lets a host use the built-in servers. Its workspace is trusted until [`revoke_trust`] is called.
fn with_language_servers(f: ToolFixture) -> ToolFixture {
    let mark = revocation_marker(&f);
    let servers = LanguageServers::new(LanguageServersConfig {
        services: f.host.services(),
        definitions: server_definition::builtin_servers(),
        search_path: search_path(),
        roots: f.host.workspace().roots().map(Path::to_owned).collect(),
        trust: Arc::new(move |_| match mark.exists() {
            true => Err("run `zero trust`".to_owned()),
            false => Ok(()),
        }),
        cache: Some(StateDir::new(f.outside().canonicalize().unwrap().join("cache"))),
        bounds: LanguageServerLimits {
            start_max: LONG_TIMEOUT,
            answer_max: LONG_TIMEOUT,
            ..LanguageServerLimits::default()
        },
    });
    f.host.insert_extension(Arc::new(servers));
    f
}

fn revocation_marker(f: &ToolFixture) -> PathBuf {
    f.outside().canonicalize().unwrap().join("revoked")
}

/// Revokes the trust in the workspace.
fn revoke_trust(f: &ToolFixture) {
    std::fs::write(revocation_marker(f), "").unwrap();
}

fn configure_host(config: &mut ToolHostConfig) {
    config.limits.search_timeout = 2 * LONG_TIMEOUT;
    let path = std::env::join_paths(search_path()).unwrap().into_string().unwrap();
    config.commands.environment = vec![("PATH".to_owned(), path)];
}

fn host_with_files(files: &[(&str, &str)]) -> ToolFixture {
    let f = with_language_servers(ToolFixture::session_with_host(configure_host));
    for (name, text) in files {
        f.write_file(name, text);
    }
    f
}

/// Returns the position of the `count`th `word` in a text, counted from 1.
fn position_of(text: &str, word: &str, count: usize) -> (u64, u64) {
    let (at, _) = text.match_indices(word).nth(count).unwrap();
    let before = &text[..at];
    let line = before.matches('\n').count() as u64 + 1;
    let start = before.rfind('\n').map_or(0, |end| end + 1);
    (line, text[start..at].chars().count() as u64 + 1)
}

async fn query(
    f: &ToolFixture,
    operation: &str,
    file: &str,
    (line, character): (u64, u64),
) -> Value {
    let input =
        json!({"operation": operation, "filePath": file, "line": line, "character": character});
    match f.call("LSP", input).await {
        Ok(outcome) => outcome.result.structured,
        Err(error) => panic!("{operation}: {error}"),
    }
}

/// Returns locations as `file:line:character`.
fn item_locations(answer: &Value) -> Vec<String> {
    let items = answer["items"].as_array().unwrap().iter();
    let mut places: Vec<String> = items
        .map(|item| {
            format!("{}:{}:{}", item["filePath"].as_str().unwrap(), item["line"], item["character"])
        })
        .collect();
    places.sort();
    places
}

fn item_names(answer: &Value) -> Vec<&str> {
    answer["items"].as_array().unwrap().iter().map(|item| item["name"].as_str().unwrap()).collect()
}

fn location_text(file: &str, (line, character): (u64, u64)) -> String {
    format!("{file}:{line}:{character}")
}

const C_SOURCE: &str = "/* Größe 😀 */ int add(int a, int b) { return a + b; }\n\
    int main(void) { /* ü 😀 */ return add(1, 2); }\n";

#[tokio::test]
async fn clangd_positions_are_in_characters() {
    require_program("clangd");
    let f = host_with_files(&[("src/a.c", C_SOURCE)]);
    let (defined, used) = (position_of(C_SOURCE, "add", 0), position_of(C_SOURCE, "add", 1));
    let file = "src/a.c";
    let found = query(&f, "goToDefinition", file, used).await;
    assert_eq!(item_locations(&found), [location_text(file, defined)]);
    assert_eq!((&found["total"], &found["denied"]), (&json!(1), &json!(0)));
    assert!(found["items"][0]["text"].as_str().unwrap().contains("Größe 😀"), "{found}");
    let found = query(&f, "findReferences", file, used).await;
    assert_eq!(item_locations(&found), [location_text(file, defined), location_text(file, used)]);
    let found = query(&f, "hover", file, used).await;
    assert!(found["hover"].as_str().unwrap().contains("add"), "{found}");
    let found = query(&f, "documentSymbol", file, (1, 1)).await;
    assert_eq!(item_names(&found), ["add", "main"]);
    assert_eq!(item_locations(&found)[0], location_text(file, defined));
    let found = query(&f, "workspaceSymbol", file, used).await;
    assert!(item_names(&found).contains(&"add"), "{found}");
    let found = query(&f, "prepareCallHierarchy", file, used).await;
    assert_eq!(item_names(&found), ["add"]);
    let found = query(&f, "incomingCalls", file, used).await;
    assert_eq!(item_names(&found), ["main"]);
    assert_eq!(found["items"][0]["callLines"], json!([2]));
    let found = query(&f, "diagnostics", file, (1, 1)).await;
    assert_eq!(found["total"], 0, "{found}");
    let text = result_text(&f.call("LSP", json!({"operation": "goToDefinition", "filePath": file, "line": used.0, "character": used.1})).await.unwrap());
    assert!(text.starts_with("clangd finds 1 definition:\nsrc/a.c:1:"), "{text}");
}

#[tokio::test]
async fn clangd_finds_implementations_and_workspace_symbols() {
    require_program("clangd");
    let text = "struct Shape { virtual int area() = 0; };\n\
        struct Square : Shape { int area() override { return 4; } };\n";
    let f = host_with_files(&[("a.cpp", text)]);
    let found = query(&f, "goToImplementation", "a.cpp", position_of(text, "area", 0)).await;
    assert_eq!(item_locations(&found), [location_text("a.cpp", position_of(text, "area", 1))]);
    let input = json!({"operation": "workspaceSymbol", "filePath": "a.cpp", "query": "Squ"});
    let found = f.call("LSP", input).await.unwrap().result.structured;
    assert_eq!(item_names(&found), ["Square"]);
}

#[tokio::test]
async fn denied_files_are_omitted_and_counted() {
    require_program("clangd");
    /// Decides by risk; files named `hidden.h` may not be read.
    struct HeaderDenyPolicy;
    impl CommandPolicy for HeaderDenyPolicy {}
    impl Policy for HeaderDenyPolicy {
        fn decide(&self, request: PolicyRequest<'_>) -> PolicyDecision {
            let is_hidden = |effect: &Effect| match effect {
                Effect::Read(target) => target.canonical().ends_with("hidden.h"),
                _ => false,
            };
            let denied = request.effects.iter().any(is_hidden);
            let decision = RiskPolicy.decide(request);
            if denied { PolicyDecision { verdict: Verdict::Deny, ..decision } } else { decision }
        }

        fn may_read(&self, _tool: &str, _written: &Path, canonical: &Path) -> bool {
            !canonical.ends_with("hidden.h")
        }

        fn filters_reads(&self) -> bool {
            true
        }
    }
    let f = with_language_servers(ToolFixture::session_with_host(|config| {
        configure_host(config);
        config.policy = Arc::new(HeaderDenyPolicy);
    }));
    let text = "#include \"hidden.h\"\nint main(void) { return secret(); }\n";
    f.write_file("hidden.h", "static inline int secret(void) { return 7; }\n")
        .write_file("a.c", text);
    let found = query(&f, "goToDefinition", "a.c", position_of(text, "secret", 0)).await;
    assert_eq!(
        (&found["total"], &found["denied"], &found["items"]),
        (&json!(1), &json!(1), &json!([]))
    );
    let input = json!({"operation": "documentSymbol", "filePath": "hidden.h"});
    let refused = f.call_error("LSP", input).await;
    assert!(refused.starts_with("denied: "), "{refused}");
}

#[tokio::test]
async fn rules_apply_to_servers_and_their_files() {
    require_program("clangd");
    let ruled = |denied: &[&str]| {
        with_language_servers(ToolFixture::session_with_host(|config| {
            configure_host(config);
            let rule = |text: &&str| {
                let source =
                    RuleSource { name: "test".to_owned(), line: None, owner: RuleOwner::User };
                PolicyRule::parse(text, Verdict::Deny, source).unwrap()
            };
            let engine = PolicyEngine::new(PolicyEngineConfig {
                rules: denied.iter().map(rule).collect(),
                roots: config.workspace.roots().map(Path::to_owned).collect(),
                ..PolicyEngineConfig::default()
            });
            config.policy = Arc::new(RulePolicy::new(engine, Vec::new()));
        }))
    };
    let f = ruled(&["Bash(clangd:*)"]);
    f.write_file("a.c", "int x;\n");
    let text = f.call_error("LSP", json!({"operation": "documentSymbol", "filePath": "a.c"})).await;
    assert!(text.contains("denied by rule `Bash(clangd:*)`"), "{text}");
    // A denied file does not exist for the server.
    let f = ruled(&["Read(hidden.h)"]);
    let text = "#include \"hidden.h\"\nint main(void) { return 0; }\n";
    f.write_file("hidden.h", "#error s3cret\n").write_file("a.c", text);
    let found = query(&f, "diagnostics", "a.c", (1, 1)).await;
    assert!(!found.to_string().contains("s3cret") && found["total"] != 0, "{found}");
    // Nor does one that is created while the server runs.
    let f = ruled(&["Read(hidden.h)"]);
    f.write_file("a.c", text);
    assert_ne!(query(&f, "diagnostics", "a.c", (1, 1)).await["total"], 0);
    f.write_file("hidden.h", "#error s3cret\n").write_file("a.c", format!("{text}int more;\n"));
    let found = query(&f, "diagnostics", "a.c", (1, 1)).await;
    assert!(!found.to_string().contains("s3cret") && found["total"] != 0, "{found}");
    // A file that may be written but not read is not reported on after a change either.
    let write = json!({"file_path": "hidden.h", "content": "int x = s3cret;\n"});
    let answer = f.call("Write", write).await;
    let told = answer
        .map_or_else(|error| error.to_string(), |outcome| super::fixture::result_text(&outcome));
    assert!(!told.contains("problem"), "{told}");
}

/// An editor that has the same text for every file.
struct SingleTextEditor(&'static str);

impl Editor for SingleTextEditor {
    fn read<'a>(&'a self, _: &'a Path) -> BoxFuture<'a, Option<String>> {
        Box::pin(std::future::ready(Some(self.0.to_owned())))
    }

    fn write<'a>(&'a self, _: &'a Path, _: &'a str) -> BoxFuture<'a, EditorWriteOutcome> {
        Box::pin(std::future::ready(EditorWriteOutcome::NotHandled))
    }
}

#[tokio::test]
async fn unsaved_text_is_used() {
    require_program("clangd");
    let f = with_language_servers(ToolFixture::session_opened_with(configure_host, |host| {
        let editor: Arc<dyn Editor> =
            Arc::new(SingleTextEditor("int main(void) { return missing; }\n"));
        let config =
            ToolHostSessionConfig { editor: Some(editor), ..ToolHostSessionConfig::default() };
        host.open_session_with(SessionId::new("test").unwrap(), config)
    }));
    f.write_file("a.c", "int main(void) { return 0; }\n");
    let found = query(&f, "diagnostics", "a.c", (1, 1)).await;
    assert_eq!(found["total"], 1, "{found}");
    assert_eq!(found["items"][0]["severity"], "error");
    assert!(found["items"][0]["message"].as_str().unwrap().contains("missing"), "{found}");
}

#[tokio::test]
async fn change_reports_new_diagnostics_from_running_server() {
    require_program("clangd");
    let text = "int one(void) { return odd; }\nint two(void) { return 2; }\n";
    let f = host_with_files(&[("a.c", text)]);
    let edit =
        |old: &str, new: &str| json!({"file_path": "a.c", "old_string": old, "new_string": new});
    let all = |outcome: &zero_runtime::CallOutcome| {
        let pieces = outcome.rendered.content.iter();
        let texts: Vec<&str> = pieces.filter_map(|piece| piece["text"].as_str()).collect();
        texts.join("\n")
    };
    // No server is running, and none is started for an edit.
    let outcome = f.call("Edit", edit("return 2", "return 3")).await.unwrap();
    assert!(!all(&outcome).contains("problem"), "{}", all(&outcome));
    let servers = f.host.extension::<LanguageServers>().unwrap();
    assert!(servers.running_for_file(&f.path("a.c").canonicalize().unwrap()).is_none());
    let found = query(&f, "diagnostics", "a.c", (1, 1)).await;
    assert_eq!(found["total"], 1, "{found}");
    // On a busy machine the short wait may not suffice: then nothing is reported, and the test
    // tries again.
    let mut told = String::new();
    for number in 0..20 {
        let old =
            if number == 0 { "return 3".to_owned() } else { format!("return worse{}", number - 1) };
        let outcome = f.call("Edit", edit(&old, &format!("return worse{number}"))).await.unwrap();
        told = all(&outcome);
        if told.contains("problem") {
            assert!(told.contains(&format!("worse{number}")), "{told}");
            break;
        }
    }
    assert!(told.contains("clangd finds 1 new problem in a.c:\na.c:2:"), "{told}");
    assert!(!told.contains("'odd'"), "{told}");
    // All problems of a new file are new; a file without problems is not mentioned.
    let write = |name: &str, content: &str| json!({"file_path": name, "content": content});
    let outcome = f.call("Write", write("b.c", "int well(void) { return 1; }\n")).await.unwrap();
    assert!(!all(&outcome).contains("problem"), "{}", all(&outcome));
    // For a folder that is no longer trusted nothing is reported, and changes still work.
    revoke_trust(&f);
    for number in 0..3 {
        let content = format!("int bad{number}(void) {{ return missing{number}; }}\n");
        let outcome = f.call("Write", write(&format!("c{number}.c"), &content)).await.unwrap();
        assert!(!all(&outcome).contains("problem"), "{}", all(&outcome));
    }
    let servers = f.host.extension::<LanguageServers>().unwrap();
    assert!(servers.running_for_file(&f.path("a.c").canonicalize().unwrap()).is_none());
}

#[tokio::test]
async fn untrusted_folder_gets_no_server() {
    require_program("clangd");
    let f = host_with_files(&[("a.c", C_SOURCE)]);
    let path = f.path("a.c").canonicalize().unwrap();
    let question = || json!({"operation": "documentSymbol", "filePath": "a.c"});
    let refused = async || {
        let error = f.call("LSP", question()).await.unwrap_err();
        assert_eq!(error.error_type, ErrorType::PermissionDenied, "{error}");
        assert_eq!(error.reason(), Some(ErrorReason::Untrusted));
        assert!(error.message.contains("run `zero trust`"), "{error}");
        let servers = f.host.extension::<LanguageServers>().unwrap();
        assert!(servers.running_for_file(&path).is_none());
    };
    revoke_trust(&f);
    refused().await;
    std::fs::remove_file(revocation_marker(&f)).unwrap();
    // Trusting the folder again is enough; nothing has to be restarted.
    assert_eq!(item_names(&query(&f, "documentSymbol", "a.c", (1, 1)).await), ["add", "main"]);
    revoke_trust(&f);
    refused().await;
}

#[tokio::test]
async fn symbols_are_found_as_text_without_server() {
    let deny = |config: &mut ToolHostConfig| {
        configure_host(config);
        let source = RuleSource { name: "test".to_owned(), line: None, owner: RuleOwner::User };
        let engine = PolicyEngine::new(PolicyEngineConfig {
            rules: vec![PolicyRule::parse("Read(hidden.c)", Verdict::Deny, source).unwrap()],
            roots: config.workspace.roots().map(Path::to_owned).collect(),
            ..PolicyEngineConfig::default()
        });
        config.policy = Arc::new(RulePolicy::new(engine, Vec::new()));
    };
    let f = with_language_servers(ToolFixture::session_with_host(deny));
    for (name, text) in [
        ("a.c", "int x;\n"),
        ("b.c", "// none\n  int needle(void);\n"),
        ("hidden.c", "int needle;\n"),
        ("notes.txt", "needle\n"),
    ] {
        f.write_file(name, text);
    }
    revoke_trust(&f);
    let question = json!({"operation": "workspaceSymbol", "filePath": "a.c", "query": "needle"});
    let outcome = f.call("LSP", question).await.unwrap();
    let found = &outcome.result.structured;
    assert_eq!((&found["server"], &found["total"]), (&json!("Grep"), &json!(1)), "{found}");
    let item = &found["items"][0];
    assert_eq!(
        (&item["filePath"], &item["line"], &item["character"]),
        (&json!("b.c"), &json!(2), &json!(7)),
        "{found}"
    );
    assert!(!found.to_string().contains("hidden"), "{found}");
    assert_eq!(found["denied"], 1, "{found}");
    let [fallback] = &outcome.result.metadata.fallbacks[..] else { panic!("{outcome:?}") };
    assert_eq!((fallback.from.as_str(), fallback.to.as_str()), ("language server", "Grep"));
    assert!(fallback.reason.contains("run `zero trust`"), "{fallback:?}");
    assert!(result_text(&outcome).contains("Grep finds 1 line with this text instead"));
    let stats = f.host.metrics().tools();
    assert_eq!((stats["LSP"].fallbacks, stats["LSP"].recovered), (1, 1));
    // Other operations need a server.
    let question = json!({"operation": "documentSymbol", "filePath": "a.c"});
    let error = f.call("LSP", question).await.unwrap_err();
    assert_eq!(error.reason(), Some(ErrorReason::Untrusted));
}

#[tokio::test]
async fn bad_queries_are_explained() {
    let f = host_with_files(&[("a.c", "int x;\n"), ("notes.txt", "x"), ("b.c", "\0\u{1}binary\0")]);
    for (input, expected) in [
        (
            json!({"operation": "hover", "filePath": "a.c"}),
            "schema_violation: the input does not fit the schema in 2 places",
        ),
        (
            json!({"operation": "hover", "filePath": "a.c", "line": 0, "character": 1}),
            "schema_violation",
        ),
        (
            json!({"operation": "rename", "filePath": "a.c", "line": 1, "character": 1}),
            "schema_violation",
        ),
        (
            json!({"operation": "hover", "filePath": "a.c", "line": 1, "character": 1, "query": "x"}),
            "schema_violation",
        ),
        (json!({"operation": "workspaceSymbol", "filePath": "a.c"}), "schema_violation"),
        (
            json!({"operation": "hover", "filePath": "a.c", "line": 9, "character": 1}),
            "out_of_range: `a.c` has 2 lines; line 9",
        ),
        (
            json!({"operation": "workspaceSymbol", "filePath": "a.c", "line": 1, "character": 4}),
            "no_match: there is no name",
        ),
        (json!({"operation": "diagnostics", "filePath": "c.c"}), "io: `c.c` does not exist"),
        (json!({"operation": "diagnostics", "filePath": "."}), "is_directory"),
        (json!({"operation": "diagnostics", "filePath": "b.c"}), "binary"),
        (
            json!({"operation": "diagnostics", "filePath": "/etc/passwd"}),
            "bad_path: `/etc/passwd` is outside",
        ),
        (
            json!({"operation": "diagnostics", "filePath": "notes.txt"}),
            "server_unavailable: no language server is configured for `notes.txt`",
        ),
    ] {
        let text = f.call_error("LSP", input.clone()).await;
        assert!(text.starts_with(expected), "{input}: {text}");
    }
}

const PYTHON_SOURCE: &str = "def größe(wert: int) -> int:\n    return wert\n\n\ndef main() -> None:\n    \"😀\"; größe(1)\n    größe(\"😀\")\n";

#[tokio::test]
async fn pyright_positions_are_in_characters() {
    require_program("pyright-langserver");
    let f = host_with_files(&[("a.py", PYTHON_SOURCE)]);
    let file = "a.py";
    let (defined, used, wrong) = (
        position_of(PYTHON_SOURCE, "größe", 0),
        position_of(PYTHON_SOURCE, "größe", 1),
        position_of(PYTHON_SOURCE, "größe", 2),
    );
    let found = query(&f, "goToDefinition", file, used).await;
    assert_eq!(item_locations(&found), [location_text(file, defined)]);
    let found = query(&f, "findReferences", file, defined).await;
    assert_eq!(
        item_locations(&found),
        [location_text(file, defined), location_text(file, used), location_text(file, wrong)]
    );
    let found = query(&f, "hover", file, used).await;
    assert!(found["hover"].as_str().unwrap().contains("wert: int"), "{found}");
    let found = query(&f, "documentSymbol", file, (1, 1)).await;
    assert!(item_names(&found).contains(&"größe"), "{found}");
    let found = query(&f, "outgoingCalls", file, position_of(PYTHON_SOURCE, "main", 0)).await;
    assert_eq!(item_names(&found), ["größe"]);
    let found = query(&f, "incomingCalls", file, defined).await;
    assert_eq!(item_names(&found), ["main"]);
    let found = query(&f, "diagnostics", file, (1, 1)).await;
    let errors: Vec<&Value> =
        found["items"].as_array().unwrap().iter().filter(|i| i["severity"] == "error").collect();
    assert_eq!(errors.len(), 1, "{found}");
    let literal = position_of(PYTHON_SOURCE, "\"😀\"", 1);
    assert_eq!(
        (&errors[0]["line"], &errors[0]["character"]),
        (&json!(literal.0), &json!(literal.1))
    );
    // Through a dialect that has two tools for it.
    let input = json!({"path": file, "line": used.0, "character": used.1});
    let outcome = f.call_as(DialectName::Opencode, "lsp-hover", input).await.unwrap();
    let text = outcome.rendered.content[0]["content"]["text"].as_str().unwrap();
    assert!(text.contains("wert: int"), "{text}");
    let outcome =
        f.call_as(DialectName::Opencode, "lsp-diagnostics", json!({"path": file})).await.unwrap();
    let text = outcome.rendered.content[0]["content"]["text"].as_str().unwrap();
    assert!(text.contains("a.py:7:") && text.contains(": error: "), "{text}");
}

#[tokio::test]
async fn typescript_server_answers() {
    require_program("typescript-language-server");
    let text = "interface Shape { area(): number }\nclass Square implements Shape { area() { return 4 } }\nconst s: Shape = new Square();\ns.area();\nconst wrong: number = \"x\";\n";
    let f = host_with_files(&[
        ("a.ts", text),
        ("tsconfig.json", "{\"compilerOptions\": {\"strict\": true}}"),
    ]);
    let found = query(&f, "goToDefinition", "a.ts", position_of(text, "area", 2)).await;
    assert_eq!(item_locations(&found), [location_text("a.ts", position_of(text, "area", 0))]);
    let found = query(&f, "goToImplementation", "a.ts", position_of(text, "area", 0)).await;
    assert_eq!(item_locations(&found), [location_text("a.ts", position_of(text, "area", 1))]);
    let found = query(&f, "diagnostics", "a.ts", (1, 1)).await;
    assert!(found["items"].to_string().contains("not assignable"), "{found}");
    let servers = f.host.extension::<LanguageServers>().unwrap();
    tokio::time::timeout(LONG_TIMEOUT, servers.stop()).await.unwrap();
}
