//! Language servers start where a person trusts the project, and nowhere else.

use crate::config::{PROJECT_FILE, write_file};
use crate::doctor::SYSTEM_PATH;
use crate::test_program::TestProgram;

const C_SOURCE: &str =
    "int add(int a, int b) { return a + b; }\nint main(void) { return add(1, 2); }\n";
const DEFINITION_INPUT: &str =
    r#"{"operation": "goToDefinition", "filePath": "a.c", "line": 2, "character": 25}"#;

/// Everything that is seen of a call, and the services that the audit log has.
fn ask_definition(zero: &TestProgram) -> (String, usize) {
    let call = ["tools", "call", "LSP", DEFINITION_INPUT, "--limit", "search-timeout=10m"];
    let seen = zero.render_output(&zero.command(&call).env("PATH", SYSTEM_PATH).output().unwrap());
    let rows = zero.stdout(&["audit", "tail", "--json"]);
    let is_service = |row: &&str| row.contains("lsp-clangd");
    (seen, rows.lines().filter(is_service).count())
}

#[test]
fn language_server_starts_only_in_trusted_project() {
    let zero = TestProgram::outside_tmp();
    write_file(&zero, "a.c", C_SOURCE);
    let (seen, started) = ask_definition(&zero);
    let folder = "[FOLDER]";
    assert!(seen.starts_with("exit 3"), "{seen}");
    let how = format!(
        "`{folder}`: the folder is not trusted, and language servers may execute its build scripts and plugins. To trust it, the user runs `zero trust {folder}`"
    );
    assert!(seen.contains(&how), "{seen}");
    assert_eq!(started, 0);
    // Without a server nothing is said, and nothing is in the way.
    let edit = r#"{"file_path": "a.c", "old_string": "a + b", "new_string": "a - b"}"#;
    let seen = zero.run(&["tools", "call", "Edit", edit, "--yes"]);
    assert!(seen.starts_with("exit 0") && !seen.contains("trust"), "{seen}");
    zero.stdout(&["trust", "--yes"]);
    let (seen, started) = ask_definition(&zero);
    assert!(seen.starts_with("exit 0") && seen.contains("a.c:1:5"), "{seen}");
    assert_eq!(started, 1);
    // What comes later was not seen when it was trusted.
    write_file(&zero, PROJECT_FILE, r#"{"lspServers": {"clangd": {"command": "./evil"}}}"#);
    let (seen, started) = ask_definition(&zero);
    assert!(seen.starts_with("exit 3") && seen.contains("changed since it was trusted"), "{seen}");
    assert_eq!(started, 1);
}
