//! Everyday work in the sandbox: version control, compilers, interpreters, archives.
//!
//! The tests use the profile that commands get, the environment and the home folder of the user who
//! runs them, and no network. If a program is missing, its test fails and names the package, since
//! a skipped test proves nothing.

use std::path::PathBuf;

use serde_json::json;
use zero_core::HostLimits;
use zero_runtime::CommandSettings;

use crate::fixture::ToolFixture;

/// Creates a workspace as users have it: with their environment, their home folder and zero's
/// default limits. Only the CPU limit is higher, so that the tests take half as long.
fn user_workspace() -> ToolFixture {
    let mut limits = HostLimits::default();
    limits.set("command-cpu", "200%").unwrap();
    workspace_with_limits(limits)
}

fn workspace_with_limits(limits: HostLimits) -> ToolFixture {
    // Tests must not depend on settings of the user who runs them.
    let is_theirs = |name: &str| name.starts_with("GIT_") || name == "CARGO_TARGET_DIR";
    let mut environment: Vec<_> = std::env::vars().filter(|(name, _)| !is_theirs(name)).collect();
    for who in ["AUTHOR", "COMMITTER"] {
        environment.push((format!("GIT_{who}_NAME"), "me".to_owned()));
        environment.push((format!("GIT_{who}_EMAIL"), "me@example.org".to_owned()));
    }
    let settings = CommandSettings {
        home: std::env::var_os("HOME").map(PathBuf::from),
        environment,
        environment_allowed: vec!["GIT_*".to_owned()],
        ..CommandSettings::default()
    };
    ToolFixture::with_limits(settings, limits)
}

/// Runs a script that must succeed and print this.
#[track_caller]
fn check(f: &ToolFixture, script: &str, expected: &str) {
    let call = f.call("Bash", json!({"command": format!("set -e\n{script}"), "timeout": 240_000}));
    let facts = runtime().block_on(call).unwrap().result.structured;
    let seen = (facts["stdout"].as_str().unwrap(), &facts["exit_code"]);
    assert_eq!(seen, (expected, &json!(0)), "{script}\n{:#}", facts);
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// Fails if a program is missing, with the name of its Debian package.
#[track_caller]
fn require_program(program: &str, package: &str) {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = std::env::split_paths(&path).any(|folder| folder.join(program).is_file());
    assert!(is_there, "`{program}` is missing: apt-get install {package}");
}

#[test]
fn git_creates_repository_and_commits() {
    require_program("git", "git");
    let f = workspace_with_limits(HostLimits::default());
    f.write_file("a.txt", "one\n");
    check(
        &f,
        "git init -q -b main . && git add -A && git commit -qm first && git log --format=%s",
        "first\n",
    );
    // From here on the hooks and settings of the repository are protected.
    f.write_file("a.txt", "two\n");
    let script = "
        git stash -q && cat a.txt && git stash pop -q && git commit -qam second
        git checkout -qb other HEAD~1 && echo b >b.txt && git add b.txt && git commit -qm third
        git merge -q -m merged main && git tag v1 && git gc -q && git fsck --no-dangling 2>/dev/null
        git worktree add -q tree && git worktree remove tree
        git status --short && git log --format=%s --topo-order | sort";
    check(&f, script, "one\nfirst\nmerged\nsecond\nthird\n");
    check(&f, "git config core.pager evil 2>/dev/null || echo refused", "refused\n");
}

#[test]
fn git_works_in_existing_repository() {
    require_program("git", "git");
    let f = user_workspace();
    let git = |args: &[&str]| {
        let git = std::process::Command::new("git").args(args).current_dir(f.path("")).status();
        assert!(git.unwrap().success());
    };
    git(&["init", "-q", "-b", "main", "."]);
    f.write_file("src/a.txt", "one\n").write_file(".gitignore", "target\n");
    git(&["add", "-A"]);
    git(&["-c", "user.name=me", "-c", "user.email=me@example.org", "commit", "-qm", "first"]);
    let script = "echo two >>src/a.txt && git diff --stat | tail -1 && git commit -qam second
        git mv src/a.txt src/b.txt && git commit -qm third && git rebase -q --exec true HEAD~1 2>/dev/null
        git status --short; git clone -q . copy && git -C copy rev-list --count HEAD; git ls-files";
    check(&f, script, " 1 file changed, 1 insertion(+)\n3\n.gitignore\nsrc/b.txt\n");
}

#[test]
fn cargo_builds_and_tests() {
    require_program("cargo", "cargo, or from https://rustup.rs");
    require_program("cc", "gcc");
    let f = user_workspace();
    f.write_file(
        "Cargo.toml",
        "[package]\nname = \"small\"\nversion = \"0.1.0\"\nedition = \"2021\"\n",
    );
    f.write_file(
        "src/lib.rs",
        "//! Adds.\n\n/// ```\n/// assert_eq!(small::add(1, 2), 3);\n/// ```\n\
         pub fn add(a: u32, b: u32) -> u32 {\n    a + b\n}\n\n\
         #[test]\nfn adds() {\n    assert_eq!(add(2, 2), 4);\n}\n",
    );
    f.write_file("src/main.rs", "fn main() {\n    println!(\"{}\", small::add(20, 22));\n}\n");
    check(
        &f,
        "cargo build --offline -q && ./target/debug/small && cargo run --offline -q",
        "42\n42\n",
    );
    let tests =
        "cargo test --offline 2>/dev/null | grep -c 'test result: ok. [01] passed; 0 failed'";
    // The library, the program, and the example in the documentation.
    check(&f, tests, "3\n");
}

#[test]
fn make_and_compiler_work() {
    require_program("make", "make");
    require_program("cc", "gcc");
    let f = user_workspace();
    f.write_file("main.c", "#include <stdio.h>\nint twice(int);\nint main(void) { printf(\"%d\\n\", twice(21)); return 0; }\n");
    f.write_file("twice.c", "int twice(int n) { return 2 * n; }\n");
    f.write_file("Makefile", "CFLAGS = -O1 -Wall\nprogram: main.o twice.o\n\t$(CC) -o $@ $^\n");
    check(
        &f,
        "make -s -j4 && ./program && make -q && touch twice.c && make -s && ./program",
        "42\n42\n",
    );
}

#[test]
fn python_creates_virtual_environment() {
    require_program("python3", "python3 python3-venv");
    let f = user_workspace();
    f.write_file(
        "work.py",
        "import concurrent.futures, sqlite3, sys, tempfile, zipfile
with concurrent.futures.ProcessPoolExecutor(2) as pool:
    print(sum(pool.map(abs, range(-3, 4))))
db = sqlite3.connect('db'); db.execute('pragma journal_mode=wal')
db.execute('create table t(x)'); db.execute('insert into t values (7)'); db.commit()
print(sqlite3.connect('db').execute('select x from t').fetchone()[0])
with zipfile.ZipFile('a.zip', 'w') as archive: archive.write('work.py')
print(zipfile.ZipFile('a.zip').namelist()[0], tempfile.gettempdir())
print(sys.prefix.endswith('/env'))\n",
    );
    let script = "python3 -m venv env || { echo 'apt-get install python3-venv'; exit 1; }
        ./env/bin/python work.py && . env/bin/activate && python -m pip --version | cut -d' ' -f1";
    check(&f, script, "12\n7\nwork.py /tmp\nTrue\npip\n");
}

#[test]
fn node_runs_scripts() {
    require_program("node", "nodejs");
    let f = user_workspace();
    f.write_file(
        "work.js",
        "const { Worker, isMainThread, parentPort } = require('worker_threads');
if (!isMainThread) { parentPort.postMessage(6 * 7); return; }
require('fs').writeFileSync('made.txt', 'made');
console.log(require('child_process').execFileSync('cat', ['made.txt']).toString());
new Worker(__filename).on('message', (answer) => console.log(answer));\n",
    );
    check(
        &f,
        "node work.js && node -e 'console.log(require(\"os\").tmpdir())'",
        "made\n42\n/tmp\n",
    );
}

#[test]
fn large_data_passes_through_pipes_and_archives() {
    let f = user_workspace();
    check(&f, "head -c 100M /dev/zero | tr '\\0' x | cat | wc -c", "104857600\n");
    f.write_file("tree/a", "a").write_file("tree/deep/b", "b");
    let script = "chmod 750 tree/deep && ln -s a tree/link && tar czf t.tgz tree && mkdir out
        tar xzf t.tgz -C out && diff -r tree out/tree && stat -c %a out/tree/deep
        find . -type f | sort | xargs cat | wc -c | tr -d ' ' >/dev/null; tar tzf t.tgz | wc -l";
    check(&f, script, "750\n5\n");
}

#[test]
fn tree_of_fifty_processes_completes() {
    let f = user_workspace();
    let script = "seq 50 | xargs -P 50 -I{} sh -c 'sh -c \"sleep 0.3; echo {} >done.{}\"; cat done.{}' \
        | sort -n | tail -1; cat done.* | wc -l";
    check(&f, script, "50\n50\n");
}
