//! The result shapes that each dialect's platform documents, compared with real results.

use serde_json::{Value, json};
use zero_core::ErrorReason;
use zero_runtime::DialectName::{self, Acp, Canonical, Opencode, Qwen};
use zero_runtime::{CallOutcome, Dialect};

use crate::fixture::ToolFixture;

/// Panics if `found` does not have the shape of `expected`: same types, at least the same fields,
/// and every list item like the first one expected.
#[track_caller]
fn assert_same_shape(expected: &Value, found: &Value, place: &str) {
    match (expected, found) {
        (Value::Object(fields), Value::Object(others)) => {
            for (name, field) in fields {
                let other = others
                    .get(name)
                    .unwrap_or_else(|| panic!("{place}/{name} is missing in {found}"));
                assert_same_shape(field, other, &format!("{place}/{name}"));
            }
        }
        (Value::Array(items), Value::Array(others)) => {
            let Some(first) = items.first() else { return };
            assert!(!others.is_empty(), "{place} is empty");
            others.iter().for_each(|other| assert_same_shape(first, other, &format!("{place}/0")));
        }
        _ => assert_eq!(
            std::mem::discriminant(expected),
            std::mem::discriminant(found),
            "{place}: expected {expected}, found {found}"
        ),
    }
}

/// The project that the examples are about.
fn sample_project() -> ToolFixture {
    let f = ToolFixture::one_shot();
    f.write_file(
        "src/app.ts",
        "import React from 'react';\n\nconst App = () => {\n  return <div>Hello</div>;\n};",
    )
    .write_file("src/index.ts", "// TODO: refactor this\n")
    .write_file("src/utils/helper.ts", "\n  // TODO: add tests\n")
    .write_file("src/components/button.tsx", "")
    .write_file("package.json", "{\n  \"name\": \"my-app\",\n  \"version\": \"1.0.0\"\n}")
    .write_file("main.go", "func main() {\n    fmt.Println(\"Hello\")\n}")
    .write_file("pkg/server.go", "func (s *Server) lastError() error {\n")
    .write_file("docs/guide.md", "# Guide\n")
    .write_file("docs/deep/more.md", "# More\n");
    f
}

async fn call_in_dialect(
    f: &ToolFixture,
    dialect: DialectName,
    tool: &str,
    input: Value,
) -> CallOutcome {
    f.call_as(dialect, tool, input.clone())
        .await
        .unwrap_or_else(|error| panic!("{tool} {input}: {error}"))
}

/// Runs an example and compares the first piece of content.
async fn check(
    f: &ToolFixture,
    dialect: DialectName,
    tool: &str,
    input: Value,
    expected: Value,
) -> Value {
    let outcome = call_in_dialect(f, dialect, tool, input).await;
    let first = outcome.rendered.content[0].clone();
    assert_same_shape(&expected, &first, tool);
    assert_eq!(first.get("type"), expected.get("type"), "{tool}");
    first
}

#[tokio::test]
async fn acp_contract_holds() {
    let f = sample_project();
    let read = check(&f, Acp, "read_file", json!({"path": "src/app.ts"}), json!({
        "type": "text", "text": "import React from 'react';\n\nconst App = () => {\n  return <div>Hello</div>;\n};",
    })).await;
    assert_eq!(read["text"], f.read_text("src/app.ts"));
    let line =
        call_in_dialect(&f, Acp, "read_file", json!({"path": "src/app.ts", "line": 3, "limit": 1}))
            .await;
    assert_eq!(line.rendered.content[0]["text"], "const App = () => {");
    let written = check(
        &f,
        Acp,
        "write_file",
        json!({"path": "src/new-file.ts", "content": "export const hello = 'world';"}),
        json!({"type": "text", "text": "File written successfully"}),
    )
    .await;
    assert_eq!(written["text"], "File written successfully to src/new-file.ts (29 bytes)");
    let one = json!({"path": "one", "content": "1"});
    let written = call_in_dialect(&f, Acp, "write_file", one).await.rendered.content;
    assert_eq!(written[0]["text"], "File written successfully to one (1 byte)");
    let listed = check(
        &f,
        Acp,
        "list_directory",
        json!({"path": "src/"}),
        json!({"type": "text", "text": "app.ts"}),
    )
    .await;
    assert_eq!(listed["text"], "app.ts\ncomponents/\nindex.ts\nnew-file.ts\nutils/");
    let found = check(
        &f,
        Acp,
        "search_files",
        json!({"query": "TODO", "path": "src/", "includePattern": "*.ts"}),
        json!({"type": "text", "text": "src/app.ts:15: // TODO: refactor this"}),
    )
    .await;
    assert_eq!(
        found["text"],
        "src/index.ts:1: // TODO: refactor this\nsrc/utils/helper.ts:2: // TODO: add tests"
    );
    let edited = check(&f, Acp, "edit_file", json!({"path": "src/app.ts", "edits": [
        {"type": "replace", "oldText": "const App = () => {", "newText": "const App: React.FC = () => {"},
    ]}), json!({"type": "diff", "path": "src/app.ts", "diff": "@@ -1,3 +1,3 @@\n-old line\n+new line"})).await;
    assert_eq!(
        edited["diff"],
        "@@ -1,5 +1,5 @@\n import React from 'react';\n \n-const App = () => {\n+const App: React.FC = () => {\n   return <div>Hello</div>;\n };\n\\ No newline at end of file"
    );
    call_in_dialect(
        &f,
        Acp,
        "edit_file",
        json!({"path": "src/index.ts", "edits": [{"type": "insert", "line": 2, "newText": "x"}]}),
    )
    .await;
    assert_eq!(f.read_text("src/index.ts"), "// TODO: refactor this\nx\n");
    call_in_dialect(&f, Acp, "delete_file", json!({"path": "src/new-file.ts"})).await;
    assert!(!f.path("src/new-file.ts").exists());

    // A one-pixel picture.
    let png: Vec<u8> =
        [&b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0"[..], &[0; 40]]
            .concat();
    f.write_file("dot.png", png);
    let image = json!({"type": "image", "source": {"type": "base64", "mediaType": "image/png", "data": "iVBORw0KGgo..."}});
    let found = check(&f, Acp, "read_file", json!({"path": "dot.png"}), image).await;
    assert_eq!(found["source"]["mediaType"], "image/png");
    assert!(found["source"]["data"].as_str().unwrap().starts_with("iVBORw0KGgo"));
}

/// A query is a text: what is no regular expression is searched as it is, and the result says so.
#[tokio::test]
async fn search_query_may_be_plain_text() {
    let f = sample_project();
    f.write_file("src/call.ts", "foo(1)\nfoo[1]\nfoobar\n");
    let search = async |query: &str| {
        let outcome = call_in_dialect(&f, Acp, "search_files", json!({"query": query})).await;
        outcome.rendered.content[0]["text"].as_str().unwrap().to_owned()
    };
    assert_eq!(
        search("foo(").await,
        "src/call.ts:1: foo(1)\n\n(`foo(` is not a regular expression; it was searched as text)"
    );
    assert_eq!(
        search("foo[").await,
        "src/call.ts:2: foo[1]\n\n(`foo[` is not a regular expression; it was searched as text)"
    );
    assert_eq!(search("foo[b-d]").await, "src/call.ts:3: foobar");
    let nothing = search("absent(").await;
    assert!(nothing.starts_with("No matches found for `absent(`"), "{nothing}");
    assert!(nothing.contains("is not a regular expression; it was searched as text"), "{nothing}");
    for (dialect, tool) in [(Canonical, "Grep"), (Qwen, "grep_search"), (Opencode, "grep")] {
        let error = f.call_as(dialect, tool, json!({"pattern": "foo("})).await.unwrap_err();
        assert_eq!(error.reason(), Some(ErrorReason::BadPattern), "{dialect}");
    }
    let lines = json!({"query": "a\nb("});
    let error = f.call_as(Acp, "search_files", lines).await.unwrap_err();
    assert_eq!(error.reason(), Some(ErrorReason::BadPattern));
}

#[tokio::test]
async fn searches_show_lines_around_matches() {
    let f = sample_project();
    f.write_file("list.txt", "1\n2\n  3\n4 hit\n5\n6\n7\n8\n9\n10 hit\n");
    #[rustfmt::skip]
    let rows = [
        (Acp, "search_files", json!({"query": "hit", "path": "list.txt"}), "list.txt:4: 4 hit\nlist.txt:10: 10 hit"),
        (Acp, "search_files", json!({"query": "hit", "path": "list.txt", "context": 1}), "list.txt-3-   3\nlist.txt:4: 4 hit\nlist.txt-5- 5\n--\nlist.txt-9- 9\nlist.txt:10: 10 hit"),
        (Qwen, "grep_search", json!({"pattern": "hit", "path": "list.txt"}), "list.txt:4:4 hit\nlist.txt:10:10 hit"),
        (Qwen, "grep_search", json!({"pattern": "4 hit", "context": 1}), "list.txt-3-  3\nlist.txt:4:4 hit\nlist.txt-5-5"),
        (Opencode, "grep", json!({"pattern": "4 hit"}), "list.txt-2-2\nlist.txt-3-  3\nlist.txt:4:4 hit\nlist.txt-5-5\nlist.txt-6-6"),
        (Opencode, "grep", json!({"pattern": "4 hit", "context": 0}), "list.txt:4:4 hit"),
    ];
    for (dialect, tool, input, expected) in rows {
        let shown = input.to_string();
        let content = call_in_dialect(&f, dialect, tool, input).await.rendered.content;
        let part = if dialect == Opencode { &content[0]["content"] } else { &content[0] };
        assert_eq!(part["text"], expected, "{dialect} {shown}");
    }
    let input = json!({"query": "hit", "context": 5000});
    let error = f.call_as(Acp, "search_files", input).await.unwrap_err();
    assert!(error.message.contains("/context: expected"), "{error}");
}

#[test]
fn acp_tool_definition_contract_holds() {
    let f = ToolFixture::one_shot();
    let offered = Dialect::new(Acp).list_tools(f.host.registry());
    let read = offered.iter().find(|tool| tool.name == "read_file").unwrap();
    assert_eq!(read.description, "Read the contents of a file from the workspace");
    assert_same_shape(
        &json!({
            "type": "object",
            "properties": {"path": {"type": "string", "description": "Path to the file relative to workspace root"}},
            "required": ["path"],
        }),
        &read.input_schema,
        "inputSchema",
    );
    let names: Vec<&str> = offered.iter().map(|tool| tool.name.as_str()).collect();
    let local = [
        "read_file",
        "write_file",
        "list_directory",
        "search_files",
        "edit_file",
        "delete_file",
        "run_command",
    ];
    let web: &[&str] = if cfg!(feature = "web") { &["web_search", "web_request"] } else { &[] };
    assert_eq!(names, [&local, web].concat());
}

#[tokio::test]
async fn canonical_examples_match_agreed_fields() {
    let f = sample_project();
    let go = f.path("main.go").display().to_string();
    let structured = |outcome: &CallOutcome| outcome.result.structured.clone();
    let read = call_in_dialect(&f, Canonical, "Read", json!({"file_path": go})).await;
    assert_eq!(
        structured(&read),
        json!({
            "content": "     1\tfunc main() {\n     2\t    fmt.Println(\"Hello\")\n     3\t}", "total_lines": 3,
        })
    );
    assert_eq!(read.rendered.content[0]["text"], structured(&read)["content"]);
    let page =
        call_in_dialect(&f, Canonical, "Read", json!({"file_path": go, "offset": 2, "limit": 1}))
            .await;
    assert_eq!(
        structured(&page),
        json!({"content": "     2\t    fmt.Println(\"Hello\")", "total_lines": 3})
    );
    let new = f.path("new-file.go").display().to_string();
    let write = call_in_dialect(
        &f,
        Canonical,
        "Write",
        json!({"file_path": new, "content": "package main\n\nfunc main() {}\n"}),
    )
    .await;
    assert_eq!(structured(&write), json!({"success": true, "bytes_written": 29}));
    let edit = json!({"file_path": go, "old_string": "fmt.Println(\"Hello\")", "new_string": "fmt.Println(\"Hello, World!\")"});
    assert_eq!(
        structured(&call_in_dialect(&f, Canonical, "Edit", edit).await),
        json!({"success": true, "replacements": 1})
    );
    let glob =
        structured(&call_in_dialect(&f, Canonical, "Glob", json!({"pattern": "**/*.go"})).await);
    let mut files: Vec<&str> =
        glob["files"].as_array().unwrap().iter().map(|file| file.as_str().unwrap()).collect();
    files.sort_unstable();
    assert_eq!(
        (files, &glob["count"]),
        (vec!["main.go", "new-file.go", "pkg/server.go"], &json!(3))
    );
    let docs = f.path("docs").display().to_string();
    let glob = structured(
        &call_in_dialect(&f, Canonical, "Glob", json!({"pattern": "*.md", "path": docs})).await,
    );
    assert_eq!(glob, json!({"files": ["docs/guide.md"], "count": 1}));
    let grep =
        json!({"pattern": "func.*Error", "glob": "*.go", "output_mode": "content", "-n": true});
    assert_eq!(
        structured(&call_in_dialect(&f, Canonical, "Grep", grep).await),
        json!({
            "matches": [{"file": "pkg/server.go", "line_number": 1, "content": "func (s *Server) lastError() error {"}],
            "total_matches": 1,
        })
    );
    let error = f.call("Read", json!({"file_path": "/path/to/file.go"})).await.unwrap_err();
    let fields: Vec<String> =
        serde_json::to_value(&error).unwrap().as_object().unwrap().keys().cloned().collect();
    assert_eq!(fields, ["tool", "error_type", "message", "details"]);
}

#[tokio::test]
async fn opencode_contract_holds() {
    let f = sample_project();
    let text = json!({"type": "content", "content": {"type": "text", "text": "…"}});
    let read = check(
        &f,
        Opencode,
        "read",
        json!({"path": "main.go", "limit": 1, "line": 2.0}),
        text.clone(),
    )
    .await;
    assert_eq!(read["content"]["text"], "    fmt.Println(\"Hello\")");
    let diff = json!({"type": "diff", "path": "src/App.js", "oldText": "function App() {", "newText": "import React from 'react';\n\nfunction App() {"});
    let edit = json!({"path": "main.go", "oldString": "Hello", "newString": "Bye"});
    let edited = check(&f, Opencode, "edit", edit, diff).await;
    assert_eq!(edited["newText"], f.read_text("main.go"));
    let grep =
        json!({"pattern": "TODO", "path": "src", "include": "*.ts", "exclude": ["utils/**"]});
    let found = check(&f, Opencode, "grep", grep, text.clone()).await;
    assert_eq!(found["content"]["text"], "src/index.ts:1:// TODO: refactor this");
    check(&f, Opencode, "glob", json!({"pattern": "**/*.go"}), text.clone()).await;
    check(&f, Opencode, "list", json!({"path": "src"}), text).await;
    call_in_dialect(&f, Opencode, "write", json!({"path": "a/b", "content": "c"})).await;
    let error =
        f.call_as(Opencode, "read", json!({"path": "main.go", "line": 1.5})).await.unwrap_err();
    assert!(error.message.contains("/line: expected a whole number"), "{error}");
}

#[tokio::test]
async fn qwen_contract_holds() {
    let f = sample_project();
    let text = json!({"text": "…"});
    let go = f.path("main.go").display().to_string();
    let read = check(
        &f,
        Qwen,
        "read_file",
        json!({"absolute_path": go, "offset": 1, "limit": 1}),
        text.clone(),
    )
    .await;
    assert_eq!(read["text"], "    fmt.Println(\"Hello\")");
    check(&f, Qwen, "read_many_files", json!({"paths": ["main.go", "docs/*.md"]}), text.clone())
        .await;
    let edit = json!({"file_path": go, "old_string": "Hello", "new_string": "Bye"});
    let edited = call_in_dialect(&f, Qwen, "edit", edit).await;
    let diff =
        json!({"fileDiff": "…", "fileName": "main.go", "originalContent": "…", "newContent": "…"});
    assert_same_shape(&diff, &edited.rendered.display, "returnDisplay");
    let found = check(
        &f,
        Qwen,
        "grep_search",
        json!({"pattern": "TODO", "glob": "*.ts", "limit": 1}),
        text.clone(),
    )
    .await;
    assert!(
        found["text"].as_str().unwrap().starts_with("src/index.ts:1:// TODO: refactor this"),
        "{found}"
    );
    check(&f, Qwen, "glob", json!({"pattern": "**/*.go"}), text.clone()).await;
    check(&f, Qwen, "list_directory", json!({"path": f.path("src")}), text).await;
    let shown = call_in_dialect(&f, Qwen, "list_directory", json!({"path": f.path("src")}))
        .await
        .rendered
        .display;
    assert!(shown.is_string(), "{shown}");
}

#[tokio::test]
async fn wrong_fields_are_named_in_dialect_terms() {
    let f = sample_project();
    for (dialect, tool, input, expected) in [
        (
            Acp,
            "read_file",
            json!({"file_path": "a"}),
            "/file_path: expected one of `path`, `line`, `limit`, found unknown field `file_path` (did you mean `path`?)",
        ),
        (
            Qwen,
            "read_file",
            json!({"path": "a"}),
            "/absolute_path: expected a string, found nothing (the field is required)",
        ),
        (
            Qwen,
            "read_file",
            json!({"absolute_path": "main.go", "offset": 5}),
            "`main.go` has 3 lines; line 6 is past its end",
        ),
        (
            Qwen,
            "read_file",
            json!({"absolute_path": "main.go", "offset": 1e23}),
            "/offset: expected a number of at most 9007199254740991, found 1e+23",
        ),
        (Canonical, "Grep", json!({"patern": "x"}), "(did you mean `pattern`?)"),
        (Canonical, "Grep", json!({"pattern": "x", "context": 2}), "(did you mean `-C`?)"),
        (Opencode, "grep", json!({"pattern": 1}), "/pattern: expected a string, found 1"),
        (
            Canonical,
            "Read",
            json!({"file_path": "a", "offset": 0}),
            "/offset: expected a whole number at least 1, found 0",
        ),
        (
            Canonical,
            "Grep",
            json!({"pattern": "a", "output_mode": "all"}),
            "/output_mode: expected one of",
        ),
    ] {
        let error = f.call_as(dialect, tool, input).await.unwrap_err();
        assert!(error.message.contains(expected), "{dialect} {tool}: {error}");
    }
}
