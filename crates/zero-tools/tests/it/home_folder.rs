//! The home folder, of which commands see what builds need and nothing else.
//!
//! The policy takes every command for an allowed one, so that only the sandbox hides anything.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use serde_json::json;
use zero_policy::protected_paths::{self, CredentialScope};
use zero_policy::rule::{PolicyRule, RuleOwner, RuleSource};
use zero_policy::{PermissionMode, PolicyEngine, PolicyEngineConfig, Verdict};
use zero_runtime::{CommandSettings, RulePolicy, ToolHostConfig};

use crate::fixture::{ToolFixture, result_text};
use crate::masked_paths::{MaskFixture, MaskSetup, temp_dir, write_secret};

/// Credentials in one home folder: a sandbox hides a limited number of files one by one.
const ROWS_MAX: usize = 150;

/// The files of `names` that a command can read.
async fn list_readable(place: &MaskFixture, names: &[String]) -> Vec<String> {
    let list: String = names.iter().map(|name| format!("{name}\n")).collect();
    let file = place.base.join("work/list");
    std::fs::write(&file, list).unwrap();
    let file = file.display();
    let script = format!(
        "while IFS= read -r f; do cat \"$f\" >/dev/null 2>&1 && echo \"$f\"; done < {file}; true"
    );
    place.expect_success(&script).await.lines().map(str::to_owned).collect()
}

impl MaskFixture {
    async fn check(&self, path: &str, is_readable: bool) {
        let facts = self.run_structured(&format!("cat '{}'", self.base.join(path).display())).await;
        let expected = if is_readable { "secret" } else { "" };
        assert_eq!(facts["stdout"], expected, "{path}: {facts}");
    }
}

#[tokio::test]
async fn no_command_reads_a_credential_of_the_table() {
    let paths: BTreeSet<&str> = protected_paths::credential_paths()
        .iter()
        .filter(|row| matches!(row.scope, CredentialScope::Anywhere | CredentialScope::Home))
        .map(|row| row.path)
        .collect();
    let has_inner = |path: &str| paths.iter().any(|other| other.starts_with(&format!("{path}/")));
    let paths: Vec<&str> = paths.iter().copied().collect();
    // The home folder beside the workspace is hidden as a whole. In the workspace, each is.
    for root in ["work", "home"] {
        for rows in paths.chunks(ROWS_MAX) {
            let temp = temp_dir();
            let home = temp.path().join("home");
            std::fs::create_dir_all(temp.path().join("work")).unwrap();
            let mut files = Vec::new();
            for path in rows {
                let file =
                    if has_inner(path) { home.join(path).join("x") } else { home.join(path) };
                write_secret(&file);
                files.push(file.to_str().unwrap().to_owned());
            }
            let plain = home.join(".cargo/registry/plain");
            write_secret(&plain);
            files.push(plain.to_str().unwrap().to_owned());
            let place =
                MaskSetup { root, home: Some("home"), ..MaskSetup::default() }.open(temp.path());
            assert!(files.iter().all(|file| std::fs::read(file).is_ok()));
            let readable = list_readable(&place, &files).await;
            assert_eq!(readable, [plain.to_str().unwrap()], "{root}");
        }
    }
}

#[tokio::test]
async fn home_shows_what_builds_need_and_nothing_else() {
    let temp = temp_dir();
    let (hidden, shown) = (
        [
            ".bashrc",
            ".profile",
            ".unknown/x",
            ".config/unknown/x",
            ".local/share/unknown/x",
            ".nuget/NuGet/NuGet.Config",
            ".cargo/credentials.toml",
            ".m2/settings.xml",
            ".gradle/gradle.properties",
            ".cache/huggingface/token",
            "notes.txt",
            "Documents/a",
            "other/src/main.rs",
            "go/src/x",
        ],
        [
            ".cargo/config.toml",
            ".m2/repository/x",
            ".gradle/caches/x",
            ".cache/pip/x",
            ".gitconfig",
            ".config/git/config",
            ".local/share/uv/x",
            "go/pkg/mod/x",
            "work/src/x",
        ],
    );
    for name in hidden.iter().chain(&shown) {
        write_secret(&temp.path().join("home").join(name));
    }
    let setup = MaskSetup { root: "home/work", home: Some("home"), ..MaskSetup::default() };
    let place = setup.open(temp.path());
    for name in hidden {
        place.check(&format!("home/{name}"), false).await;
    }
    for name in shown {
        place.check(&format!("home/{name}"), true).await;
    }
    assert_eq!(place.expect_success("ls ..").await, "go\nwork\n", "and not what is hidden");
    place.expect_failure("echo x > ../notes.txt").await;
    place.expect_failure("echo x > ../.cargo/new").await;
    place.expect_success("echo x > new; cat new").await;
}

#[tokio::test]
async fn links_and_toolchains_in_home_are_followed() {
    let temp = temp_dir();
    let home = temp.path().join("home");
    for name in [
        "dotfiles/gitconfig",
        "dotfiles/private",
        "tools/node/bin/node",
        "tools/node/lib/x",
        "tools/node/notes",
        "bin/mine",
        "jdk/lib/modules",
        "gopath/pkg/x",
        "gopath/src/x",
        "cfg/git/config",
        "cfg/gh/hosts.yml",
        "cfg/unknown/x",
        "work/x",
    ] {
        write_secret(&home.join(name));
    }
    write_secret(&temp.path().join("moved/unknown/x"));
    write_secret(&temp.path().join("moved/pnpm/x"));
    std::os::unix::fs::symlink("dotfiles/gitconfig", home.join(".gitconfig")).unwrap();
    // A link does not open what is hidden for another reason.
    write_secret(&home.join(".ssh/id"));
    std::os::unix::fs::symlink(".ssh/id", home.join(".nvmrc")).unwrap();
    let base = temp.path().canonicalize().unwrap();
    let path = ["tools/node/bin", "bin"].map(|name| base.join("home").join(name));
    let path = format!("{}:{}:/usr/bin:/bin", path[0].display(), path[1].display());
    let setup = MaskSetup {
        root: "home/work",
        home: Some("home"),
        variables: &[
            ("PATH", &path),
            ("JAVA_HOME", "home/jdk"),
            ("GOPATH", "home/gopath"),
            ("XDG_CONFIG_HOME", "home/cfg"),
            ("XDG_DATA_HOME", "moved"),
        ],
        ..MaskSetup::default()
    };
    let place = setup.open(temp.path());
    for (name, is_readable) in [
        ("home/.gitconfig", true),
        ("home/dotfiles/private", false),
        ("home/.nvmrc", false),
        ("home/.ssh/id", false),
        ("home/tools/node/bin/node", true),
        ("home/tools/node/lib/x", true),
        ("home/tools/node/notes", false),
        ("home/bin/mine", true),
        ("home/jdk/lib/modules", true),
        ("home/gopath/pkg/x", true),
        ("home/gopath/src/x", false),
        ("home/cfg/git/config", true),
        ("home/cfg/gh/hosts.yml", false),
        ("home/cfg/unknown/x", false),
        ("moved/unknown/x", false),
        ("moved/pnpm/x", true),
    ] {
        place.check(name, is_readable).await;
    }
}

#[tokio::test]
async fn setting_opens_more_but_no_credential() {
    let temp = temp_dir();
    for name in ["lib/src/x", "lib/.ssh/id", ".ssh/id", "other/x", "work/x"] {
        write_secret(&temp.path().join("home").join(name));
    }
    let readable = ["home/lib", "home/.ssh"];
    let setup = || MaskSetup { root: "home/work", home: Some("home"), ..MaskSetup::default() };
    let place = MaskSetup { readable: &readable, ..setup() }.open(temp.path());
    for (name, is_readable) in
        [("home/lib/src/x", true), ("home/.ssh/id", false), ("home/other/x", false)]
    {
        place.check(name, is_readable).await;
    }
    // What a rule denies stays hidden, too.
    let place = MaskSetup { readable: &readable, deny: &["Read(~/lib/src/**)"], ..setup() }
        .open(temp.path());
    place.check("home/lib/src/x", false).await;
    // The whole home folder, without credentials.
    let place = MaskSetup { readable: &["home"], ..setup() }.open(temp.path());
    place.check("home/other/x", true).await;
    place.check("home/.ssh/id", false).await;
}

#[tokio::test]
async fn repositories_of_workspace_stay_visible() {
    let temp = temp_dir();
    let home = temp.path().join("home");
    write_secret(&home.join("repo/sub/file"));
    write_secret(&home.join("repo/beside"));
    write_secret(&home.join("other/file"));
    let git = |arguments: &str| {
        let done = Command::new("git")
            .args(["-c", "user.name=me", "-c", "user.email=me@example.org"])
            .args(arguments.split(' '))
            .current_dir(home.join("repo"))
            .output()
            .unwrap();
        assert!(done.status.success(), "{done:?}");
    };
    git("init -q");
    git("add .");
    git("commit -qm first");
    git("worktree add -q ../linked");
    for (root, shown) in
        [("home/repo/sub", "home/repo/beside"), ("home/linked", "home/linked/beside")]
    {
        let setup = MaskSetup { root, home: Some("home"), ..MaskSetup::default() };
        let place = setup.open(temp.path());
        place.check(shown, true).await;
        place.check("home/other/file", false).await;
        let seen = place.expect_success("git log --format=%s && git status --porcelain").await;
        assert_eq!(seen, "first\n", "{root}");
    }
}

/// A workspace in a home folder, with the real rules in the mode `auto`; every question is answered
/// with yes.
fn auto_fixture(home: &Path, allow: &[&str]) -> ToolFixture {
    let rules: Vec<PolicyRule> = allow
        .iter()
        .map(|text| {
            let source = RuleSource { name: "test".to_owned(), line: None, owner: RuleOwner::User };
            PolicyRule::parse(text, Verdict::Allow, source).unwrap()
        })
        .collect();
    ToolFixture::session_with_host(|config: &mut ToolHostConfig| {
        let roots = config.workspace.roots().map(Path::to_owned).collect();
        let home = Some(home.to_owned());
        let engine = PolicyEngineConfig {
            rules,
            roots,
            home: home.clone(),
            mode: PermissionMode::Auto,
            ..PolicyEngineConfig::default()
        };
        config.policy = Arc::new(RulePolicy::new(PolicyEngine::new(engine), Vec::new()));
        config.commands = CommandSettings { home, ..CommandSettings::default() };
    })
}

#[tokio::test]
async fn what_read_asks_about_no_interpreter_reads_silently() {
    let temp = temp_dir();
    let home = temp.path().canonicalize().unwrap();
    for name in ["notes.txt", "lib/x", "open/x"] {
        write_secret(&home.join(name));
    }
    let f = auto_fixture(&home, &["Read(~/open/**)"]);
    let read = |name: &str| {
        let path = home.join(name);
        format!("python3 -c 'print(open(\"{}\").read())'", path.display())
    };
    let outcome = f.call("Bash", json!({"command": read("notes.txt")})).await.unwrap();
    assert!(!result_text(&outcome).contains("secret\n"), "{outcome:?}");
    let note = "`~/notes.txt` is outside the workspace and hidden from commands, whether it exists or not; to let commands read it: zero config add sandbox.readable '~/notes.txt'";
    assert_eq!(outcome.result.metadata.notes, [note]);
    // A rule that lets Read read it lets commands read it.
    let outcome = f.call("Bash", json!({"command": read("open/x")})).await.unwrap();
    assert_eq!(result_text(&outcome), "secret\n");
    // A line that names it is asked about, and then reads it and nothing else.
    std::os::unix::fs::symlink("notes.txt", home.join("link")).unwrap();
    let line = format!("cat {}; {}", home.join("link").display(), read("lib/x"));
    let outcome = f.call("Bash", json!({"command": line})).await.unwrap();
    assert_eq!(outcome.result.structured["stdout"], "secret", "{outcome:?}");
}

#[tokio::test]
async fn hard_link_to_denied_file_is_not_readable() {
    let temp = temp_dir();
    let work = temp.path().join("work");
    for name in ["work/.env", "work/keys/a", "work/plain"] {
        write_secret(&temp.path().join(name));
    }
    for (of, name) in [(".env", "copy"), ("keys/a", "b"), ("plain", "other")] {
        std::fs::hard_link(work.join(of), work.join(name)).unwrap();
    }
    let setup = MaskSetup { deny: &["Read(.env)", "Read(keys/**)"], ..MaskSetup::default() };
    let place = setup.open(temp.path());
    for (name, is_readable) in [("copy", false), ("b", false), ("other", true), ("plain", true)] {
        place.check(&format!("work/{name}"), is_readable).await;
    }
    // A name that nobody finds is mentioned.
    std::fs::hard_link(work.join(".env"), temp.path().join("elsewhere")).unwrap();
    let facts = place.run_structured("true").await;
    assert!(facts["notes"][0].as_str().unwrap().contains("has another name"), "{facts}");
}

#[tokio::test]
async fn socket_in_closed_folder_of_another_user_stops_no_command() {
    let temp = temp_dir();
    let folder = temp.path().join("theirs");
    std::fs::create_dir(&folder).unwrap();
    std::fs::create_dir(temp.path().join("work")).unwrap();
    let door = folder.join("door");
    let listener = std::os::unix::net::UnixListener::bind(&door).unwrap();
    std::fs::set_permissions(&door, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    std::fs::set_permissions(&folder, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    // Only root can give the folder away. As another user, the socket is hidden instead.
    let _ = std::os::unix::fs::chown(&folder, Some(65534), Some(65534));
    let place = MaskSetup::default().open(temp.path());
    assert_eq!(place.expect_success("echo works").await, "works\n");
    let connect = format!(
        "python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"{}\")'",
        place.base.join("theirs/door").display()
    );
    place.expect_failure(&connect).await;
    drop(listener);
}

/// Git looks for its own files in every configuration folder, and warns if it may not look.
#[tokio::test]
async fn program_finds_no_file_in_hidden_folder_instead_of_a_closed_one() {
    for (root, configuration) in
        [("work", "home/.config"), ("home/work", "home/.config"), ("work", "moved")]
    {
        let temp = temp_dir();
        write_secret(&temp.path().join(root).join("file"));
        write_secret(&temp.path().join(configuration).join("unknown/x"));
        std::fs::create_dir_all(temp.path().join("home")).unwrap();
        let done = Command::new("git").arg("init").arg(temp.path().join(root)).output().unwrap();
        assert!(done.status.success(), "{done:?}");
        for variables in
            [&[("HOME", "home")][..], &[("HOME", "home"), ("XDG_CONFIG_HOME", configuration)]]
        {
            let setup = MaskSetup { root, home: Some("home"), variables, ..MaskSetup::default() };
            let place = setup.open(temp.path());
            let facts = place.run_structured("git status --porcelain").await;
            assert_eq!(facts["stderr"], "", "{root} {variables:?}: {facts}");
            assert_eq!(facts["stdout"], "?? file\n", "{root} {variables:?}");
            // It looks empty, and stays so. Only a variable makes the folder elsewhere one to hide.
            if configuration == "moved" && variables.len() == 1 {
                continue;
            }
            let hidden = temp.path().join(configuration);
            let list = format!("ls -A {}/unknown", hidden.display());
            place.expect_failure(&list).await;
            place.expect_failure(&format!("echo x > {}/new", hidden.display())).await;
        }
    }
}

/// Cargo, Go and Maven build from the user's cache as long as it has everything.
#[tokio::test]
async fn package_cache_of_zero_takes_over_when_that_of_the_user_cannot_grow() {
    let temp = temp_dir();
    write_secret(&temp.path().join("home/.cargo/registry/cache/known"));
    write_secret(&temp.path().join("work/file"));
    let setup =
        || MaskSetup { home: Some("home"), variables: &[("HOME", "home")], ..MaskSetup::default() };
    let place = setup().open(temp.path());
    assert_eq!(place.expect_success("echo ${CARGO_HOME:-own}").await, "own\n");
    let download = "touch ${CARGO_HOME:-$HOME/.cargo}/registry/new && echo downloaded";
    let facts = place.run_structured(download).await;
    let note =
        "from now on, commands in this workspace use a cache of zero's own: run the command again";
    assert!(facts["notes"].to_string().contains(note), "{facts}");
    let again = format!("mkdir $CARGO_HOME/registry && {download}");
    assert_eq!(place.expect_success(&again).await, "downloaded\n");
    assert!(!temp.path().join("home/.cargo/registry/new").exists());
    // The cache is kept.
    let place = setup().open(temp.path());
    assert_eq!(place.expect_success("ls $CARGO_HOME/registry").await, "new\n");
}
