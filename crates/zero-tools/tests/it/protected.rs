//! What commands may not change, attacked through the whole path; and what they must be able to do
//! all the same.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use zero_core::{SessionId, ToolCall, ToolError};
use zero_runtime::host::new_call_id;
use zero_runtime::{
    CommandSettings, Decision, DeniedFiles, Dialect, DialectName, HostConfig, Outcome, Policy,
    PolicyRequest, RiskPolicy, Session, ToolHost,
};
use zero_sandbox::{StateDir, Workspace};

use crate::fixture::{Yes, said};

/// Longer than anything here takes, on a machine with a lot to do.
const LONG: Duration = Duration::from_secs(60);

/// A judge that opens and hides what it is told.
struct Judge {
    opened: Vec<PathBuf>,
    denied: Vec<PathBuf>,
}

impl Policy for Judge {
    fn decide(&self, request: PolicyRequest<'_>) -> Decision {
        RiskPolicy.decide(request)
    }

    fn may_change(&self, canonical: &Path) -> bool {
        self.opened.iter().any(|path| path == canonical)
    }

    fn denied_files(&self, _: &Workspace, _: usize) -> DeniedFiles {
        DeniedFiles::All(self.denied.clone())
    }
}

/// A host whose workspace and state lie where a test wants them.
struct Place {
    temp: tempfile::TempDir,
    host: ToolHost,
    session: Session,
}

struct Setup<'a> {
    /// Where the temp folder is made.
    parent: &'a str,
    /// The workspace's folders and the state, in the temp folder.
    roots: &'a [&'a str],
    state: &'a str,
    home: Option<&'a str>,
    /// What a rule lets commands change, and what one hides from them.
    opened: &'a [&'a str],
    denied: &'a [&'a str],
    /// What settings let commands change beside the workspace.
    writable: &'a [&'a str],
    /// Runs before the workspace is opened.
    before: &'a dyn Fn(&Path),
}

impl Default for Setup<'_> {
    fn default() -> Self {
        Self {
            parent: "/var/tmp",
            roots: &["work"],
            state: "state",
            home: None,
            opened: &[],
            denied: &[],
            writable: &[],
            before: &|_| {},
        }
    }
}

impl Setup<'_> {
    fn open(self) -> Place {
        let temp = tempfile::Builder::new().prefix("zero-it-").tempdir_in(self.parent).unwrap();
        let base = temp.path().canonicalize().unwrap();
        for folder in self.roots {
            std::fs::create_dir_all(base.join(folder)).unwrap();
        }
        (self.before)(&base);
        let roots: Vec<PathBuf> = self.roots.iter().map(|root| base.join(root)).collect();
        let workspace = Workspace::open(&roots, None).unwrap();
        let state = StateDir::new(base.join(self.state));
        let paths = |names: &[&str]| names.iter().map(|name| base.join(name)).collect();
        let judge = Judge { opened: paths(self.opened), denied: paths(self.denied) };
        let home = self.home.map(|home| base.join(home));
        let path = std::env::var("PATH").unwrap();
        std::fs::write(base.join(".gitconfig"), "[user]\nname = a\nemail = a@b\n").unwrap();
        let environment = [("PATH", path.as_str()), ("HOME", base.to_str().unwrap())];
        let commands = CommandSettings {
            home,
            writable: paths(self.writable),
            environment: environment.map(|(n, v)| (n.to_owned(), v.to_owned())).to_vec(),
            ..CommandSettings::default()
        };
        let host = ToolHost::new(HostConfig {
            approver: Some(Arc::new(Yes)),
            policy: Arc::new(judge),
            commands,
            ..HostConfig::new(workspace, state)
        });
        host.registry().add("builtin", zero_tools::builtin()).unwrap();
        let session = host.open_session(SessionId::new("test").unwrap()).unwrap();
        Place { temp, host, session }
    }
}

impl Place {
    fn path(&self, name: &str) -> PathBuf {
        self.temp.path().canonicalize().unwrap().join(name)
    }

    async fn call(&self, tool: &str, input: Value) -> Result<Outcome, ToolError> {
        let (id, tool) = (new_call_id(), tool.to_owned());
        let call = ToolCall { id, session: None, tool, input, timeout: None };
        let dialect = Dialect::new(DialectName::Canonical);
        self.host.call(&self.session, &dialect, call, &CancellationToken::new()).await.outcome
    }

    /// What programs get.
    async fn facts(&self, command: &str) -> Value {
        self.call("Bash", json!({"command": command})).await.unwrap().result.structured
    }

    /// What the model reads.
    async fn bash(&self, command: &str) -> String {
        said(&self.call("Bash", json!({"command": command})).await.unwrap())
    }

    /// Runs a line that must succeed and leave nothing to tell.
    #[track_caller]
    fn works(&self, command: &str) -> impl Future<Output = String> {
        let at = std::panic::Location::caller();
        let call = self.facts(command);
        let command = command.to_owned();
        async move {
            let facts = call.await;
            assert_eq!(facts["exit_code"], 0, "{command} at {at}: {facts}");
            assert_eq!(facts["notes"], Value::Null, "{command} at {at}: {facts}");
            facts["stdout"].as_str().unwrap().to_owned()
        }
    }

    fn names(&self, folder: &str) -> Vec<String> {
        // What stands in for something stays a moment longer, for the next command.
        zero_sandbox::warden::Warden::rest_shared();
        let entries = std::fs::read_dir(self.path(folder)).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

/// Git as the person runs it, with nothing around it.
#[track_caller]
fn git(folder: &Path, args: &[&str]) {
    let mut git = Command::new("git");
    git.args(["-c", "user.name=me", "-c", "user.email=me@b", "-c", "protocol.file.allow=always"]);
    let output = git.args(args).current_dir(folder).env("HOME", folder).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn a_repository(folder: &Path) {
    std::fs::create_dir_all(folder).unwrap();
    git(folder, &["init", "-q", "-b", "main"]);
    std::fs::write(folder.join("file"), "one\n").unwrap();
    git(folder, &["add", "-A"]);
    git(folder, &["commit", "-qm", "first"]);
}

#[tokio::test]
async fn nothing_shows_in_the_workspace_that_is_not_there() {
    let place = Setup::default().open();
    assert_eq!(place.works("ls -A; test -d .vscode || echo none").await, ".zero\nnone\n");
    assert_eq!(place.names("work"), Vec::<String>::new());
    let left = place.names("state/tmp");
    assert_eq!(left, ["session-test"], "no record is left");
}

#[tokio::test]
async fn what_commands_may_not_create_is_taken_away_and_kept() {
    let place = Setup::default().open();
    let names = [".vscode/tasks.json", ".npmrc", ".github/workflows/ci.yml", ".envrc", ".mcp.json"];
    for name in names {
        let line = format!("mkdir -p $(dirname {name}); echo made > {name}");
        let facts = place.facts(&line).await;
        assert_eq!(facts["exit_code"], 0, "{facts}");
        let [taken] = &facts["taken_away"].as_array().unwrap()[..] else { panic!("{facts}") };
        let path = taken["path"].as_str().unwrap();
        assert!(name.starts_with(path), "{taken}");
        let kept = Path::new(taken["kept_at"].as_str().unwrap());
        assert!(kept.starts_with(place.path("state/kept")), "{taken}");
        let rest = Path::new(name).strip_prefix(path).unwrap();
        let kept = if rest == Path::new("") { kept.to_owned() } else { kept.join(rest) };
        assert_eq!(std::fs::read_to_string(kept).unwrap(), "made\n");
        assert!(!place.path("work").join(path).exists());
        let note = facts["notes"][0].as_str().unwrap();
        assert!(note.contains("commands may not create") && note.contains("Write"), "{note}");
    }
    let said = place.bash("mkdir .idea").await;
    assert!(said.starts_with("(`.idea` was taken away: it is a setting of an editor"), "{said}");
    assert_eq!(place.bash("mkdir -p .github; touch .github/dependabot.yml").await, "(no output)");
}

#[tokio::test]
async fn an_error_and_a_job_tell_it_too() {
    let place = Setup::default().open();
    // A busy machine may need more time to get as far as that.
    let mut why = String::new();
    for timeout in [500, 10_000, 40_000] {
        let input = json!({"command": "mkdir .vscode; sleep 600", "timeout": timeout});
        let error = place.call("Bash", input).await.unwrap_err();
        assert!(!place.path("work/.vscode").exists());
        why = error.details["taken_away"][0]["why"].as_str().unwrap_or_default().to_owned();
        if !why.is_empty() {
            break;
        }
    }
    assert_eq!(why.split(' ').next(), Some("a"), "{why}");
    let input = json!({"command": "mkdir .idea; read x", "run_in_background": true});
    place.call("Bash", input).await.unwrap();
    let deadline = Instant::now() + LONG;
    while !place.path("work/.idea").exists() {
        assert!(Instant::now() < deadline, "the job does nothing");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // Another command that began later finds it there and leaves it alone.
    place.bash("true").await;
    assert!(place.path("work/.idea").exists());
    let said = said(&place.call("BashKill", json!({"job_id": "job_1"})).await.unwrap());
    assert!(said.contains("`.idea` was taken away"), "{said}");
    let job = place.call("BashOutput", json!({"job_id": "job_1"})).await.unwrap();
    assert_eq!(job.result.structured["jobs"][0]["taken_away"][0]["path"], ".idea");
    assert!(!place.path("work/.idea").exists());
}

#[tokio::test]
async fn a_job_that_ends_with_its_session_leaves_nothing_either() {
    let place = Setup::default().open();
    let input = json!({"command": "mkdir .idea; sleep 600", "run_in_background": true});
    place.call("Bash", input).await.unwrap();
    let deadline = Instant::now() + LONG;
    while !place.path("work/.idea").exists() {
        assert!(Instant::now() < deadline, "the job does nothing");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let Place { temp, session, .. } = place;
    drop(session);
    assert!(!temp.path().join("work/.idea").exists());
    assert_eq!(std::fs::read_dir(temp.path().join("state/kept")).unwrap().count(), 1);
}

#[tokio::test]
async fn two_jobs_cannot_hide_from_each_other_what_they_make() {
    let place = Setup::default().open();
    let wait = "until test -e go$N; do sleep 0.02; done";
    let job = |script: String, n: usize| json!({"command": script, "run_in_background": true, "env": {"N": n.to_string()}});
    place.call("Bash", job(format!("mkdir .idea; {wait}"), 1)).await.unwrap();
    let until = async |what: &dyn Fn() -> bool| {
        let deadline = Instant::now() + LONG;
        while !what() {
            assert!(Instant::now() < deadline, "it does not happen");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let made = place.path("work/.idea");
    until(&|| made.exists()).await;
    // For the second it looks as if it had always been there.
    let again = format!("touch begun; {wait}; mkdir .idea && touch .idea/x && touch again");
    place.call("Bash", job(again, 2)).await.unwrap();
    until(&|| place.path("work/begun").exists()).await;
    std::fs::write(place.path("work/go1"), "").unwrap();
    until(&|| !made.exists()).await;
    std::fs::write(place.path("work/go2"), "").unwrap();
    until(&|| place.path("work/again").exists()).await;
    until(&|| !made.exists()).await;
    assert_eq!(place.names("state/kept").len(), 2, "both are kept");
}

#[tokio::test]
async fn what_exists_is_held() {
    let before = |base: &Path| {
        for name in [".vscode/tasks.json", ".npmrc", ".zero/settings.json"] {
            let path = base.join("work").join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "mine").unwrap();
        }
    };
    let place = Setup { before: &before, ..Setup::default() }.open();
    let attacks = [
        "echo x > .vscode/tasks.json",
        "touch .vscode/new",
        "mv .vscode moved",
        "rm -rf .vscode",
        "echo x > .npmrc",
        "echo x > y && mv y .npmrc",
        "ln .npmrc hard && echo x > hard",
        "ln -sf /etc/passwd .npmrc",
        "touch .zero/x",
        "mv .zero x",
        "mount -o remount,rw .zero",
    ];
    for attack in attacks {
        let facts = place.facts(attack).await;
        assert_ne!(facts["exit_code"], 0, "{attack}: {facts}");
        assert_eq!(std::fs::read_to_string(place.path("work/.vscode/tasks.json")).unwrap(), "mine");
        assert_eq!(std::fs::read_to_string(place.path("work/.npmrc")).unwrap(), "mine");
        assert_eq!(place.names("work/.vscode"), ["tasks.json"]);
    }
}

#[tokio::test]
async fn a_workspace_that_git_keeps_itself_is_protected() {
    let before = |base: &Path| git(base, &["init", "-q", "--bare", "work"]);
    let place = Setup { before: &before, ..Setup::default() }.open();
    let config = std::fs::read(place.path("work/config")).unwrap();
    for attack in
        ["echo x >> config", "echo x > hooks/pre-commit", "mv hooks h", "touch config.worktree"]
    {
        let made = place.facts(attack).await;
        assert!(made["exit_code"] != 0 || attack.starts_with("touch"), "{attack}: {made}");
    }
    assert_eq!(std::fs::read(place.path("work/config")).unwrap(), config);
    assert!(!place.path("work/hooks/pre-commit").exists() && !place.path("work/h").exists());
}

#[tokio::test]
async fn zeros_own_settings_cannot_be_made() {
    let place = Setup { opened: &["work/.zero"], ..Setup::default() }.open();
    for attack in ["mkdir .zero/x", "touch .zero/settings.json", "rmdir .zero", "mv .zero x"] {
        assert_ne!(place.facts(attack).await["exit_code"], 0, "{attack}");
    }
    assert_eq!(place.names("work"), Vec::<String>::new());
}

#[tokio::test]
async fn a_rule_for_it_opens_it() {
    let before = |base: &Path| std::fs::create_dir(base.join("work/.vscode")).unwrap();
    let opened = &["work/.vscode", "work/.envrc"];
    let place = Setup { opened, before: &before, ..Setup::default() }.open();
    place.works("echo x > .vscode/tasks.json; echo y > .envrc").await;
    assert_eq!(place.names("work"), [".envrc", ".vscode"]);
    assert_ne!(place.facts("touch .npmrc").await["taken_away"], Value::Null);
}

#[tokio::test]
async fn a_link_in_place_of_a_setting_is_put_back() {
    let before = |base: &Path| {
        std::fs::create_dir_all(base.join("work/shared")).unwrap();
        std::fs::write(base.join("work/shared/tasks.json"), "mine").unwrap();
        symlink("shared", base.join("work/.vscode")).unwrap();
    };
    let place = Setup { before: &before, ..Setup::default() }.open();
    assert_eq!(place.works("cat .vscode/tasks.json").await, "mine");
    assert_ne!(place.facts("echo x > .vscode/tasks.json").await["exit_code"], 0);
    assert_ne!(place.facts("mv shared away").await["exit_code"], 0);
    let facts = place.facts("rm .vscode && mkdir .vscode && echo x > .vscode/tasks.json").await;
    assert_eq!(facts["taken_away"][0]["path"], ".vscode");
    let target = std::fs::read_link(place.path("work/.vscode")).unwrap();
    assert_eq!(target, Path::new("shared"));
    assert_eq!(std::fs::read_to_string(place.path("work/.vscode/tasks.json")).unwrap(), "mine");
}

#[tokio::test]
async fn a_link_where_the_kernel_has_to_hold_is_refused() {
    let own = |base: &Path| symlink("shared", base.join("work/.zero")).unwrap();
    let hooks = |base: &Path| {
        a_repository(&base.join("work"));
        std::fs::remove_dir_all(base.join("work/.git/hooks")).unwrap();
        symlink("../common", base.join("work/.git/hooks")).unwrap();
    };
    for before in [&own as &dyn Fn(&Path), &hooks] {
        let place = Setup { before, ..Setup::default() }.open();
        let error = place.call("Bash", json!({"command": "true"})).await.unwrap_err();
        assert!(error.message.contains("is a link, and could be replaced"), "{error}");
    }
}

#[tokio::test]
async fn git_works_and_its_hooks_and_settings_stay() {
    let before = |base: &Path| a_repository(&base.join("work"));
    let place = Setup { before: &before, ..Setup::default() }.open();
    std::fs::remove_dir_all(place.path("work/.git/hooks")).unwrap();
    let everyday = "git status --short && echo two >> file && git add -A && git commit -qm two && \
         echo three >> file && git stash -q && git stash pop -q && git commit -qam three && \
         git checkout -qb other HEAD~1 && echo x > new && git add new && git commit -qm four && \
         git rebase -q main && git log --format=%s && git gc -q && git fsck --no-dangling 2>&1 && \
         git worktree add -q ../work/tree main && git worktree list >/dev/null && \
         git -C tree log -1 --format=%s && git status --short";
    let said = place.works(everyday).await;
    assert_eq!(said, "four\nthree\ntwo\nfirst\nthree\n?? tree/\n");
    let attacks = [
        "git config core.fsmonitor ./evil",
        "git config --worktree core.fsmonitor ./evil",
        "echo evil > .git/hooks/pre-commit",
        "echo '[core]' >> .git/config",
        "echo '* filter=evil' > .git/info/attributes",
        "mv .git elsewhere",
        "mv .git/info .git/x",
        "rm -rf .git/hooks && mkdir .git/hooks",
        "ln -f file .git/config",
        "echo /evil > .git/worktrees/tree/commondir",
        "mv .git/worktrees/tree .git/worktrees/moved",
        "echo 'gitdir: /evil' > tree/.git",
    ];
    for attack in attacks {
        let facts = place.facts(attack).await;
        assert_ne!(facts["exit_code"], 0, "{attack}: {facts}");
    }
    let facts = place.facts("echo /evil > .git/commondir").await;
    assert_eq!(facts["taken_away"][0]["path"], ".git/commondir");
    git(&place.path("work"), &["status", "-s"]);
    let left = ["hooks", "config.worktree", "info/attributes", "commondir"];
    let left: Vec<_> = left.iter().filter(|l| place.path("work/.git").join(l).exists()).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test]
async fn a_worktree_is_worked_in_and_its_repository_is_protected() {
    let before = |base: &Path| {
        a_repository(&base.join("main"));
        std::fs::remove_dir(base.join("work")).unwrap();
        git(&base.join("main"), &["worktree", "add", "-q", "../work"]);
    };
    let place = Setup { before: &before, ..Setup::default() }.open();
    place.works("echo x > new && git add -A && git commit -qm second && git status --short").await;
    let common = place.path("main/.git");
    let common = common.display();
    let attacks = [
        format!("echo evil > {common}/hooks/post-commit"),
        format!("echo evil >> {common}/config"),
        "git config core.pager evil".to_owned(),
        format!("echo x > {common}/../file"),
        format!("echo {common} > {common}/worktrees/work/commondir"),
        "echo 'gitdir: /evil' > .git".to_owned(),
        "rm .git && git init".to_owned(),
    ];
    for attack in attacks {
        let facts = place.facts(&attack).await;
        assert_ne!(facts["exit_code"], 0, "{attack}: {facts}");
    }
}

#[tokio::test]
async fn a_forged_pointer_opens_nothing() {
    let before = |base: &Path| {
        a_repository(&base.join("victim"));
        git(&base.join("victim"), &["worktree", "add", "-q", "../theirs"]);
        let git = base.join("victim/.git");
        std::fs::write(
            base.join("work/.git"),
            format!("gitdir: {}/worktrees/theirs", git.display()),
        )
        .unwrap();
    };
    let place = Setup { before: &before, ..Setup::default() }.open();
    let victim = place.path("victim/.git");
    for name in ["HEAD", "new", "refs/heads/main", "worktrees/theirs/HEAD"] {
        let facts = place.facts(&format!("echo x > {}/{name}", victim.display())).await;
        assert_ne!(facts["exit_code"], 0, "{name}: {facts}");
    }
    git(&place.path("victim"), &["status", "-s"]);
    // A link to a file that is pointed back at is none that is.
    let place = Setup {
        before: &|base: &Path| {
            before(base);
            std::fs::remove_file(base.join("work/.git")).unwrap();
            symlink(base.join("theirs/.git"), base.join("work/.git")).unwrap();
        },
        ..Setup::default()
    }
    .open();
    let facts = place.facts(&format!("echo x > {}/new", place.path("victim/.git").display())).await;
    assert_ne!(facts["exit_code"], 0, "{facts}");
}

#[tokio::test]
async fn a_submodule_is_worked_in() {
    let before = |base: &Path| {
        a_repository(&base.join("lib"));
        a_repository(&base.join("top"));
        let lib = base.join("lib");
        std::fs::remove_dir_all(base.join("top/sub")).unwrap();
        git(&base.join("top"), &["submodule", "--quiet", "add", lib.to_str().unwrap(), "sub"]);
    };
    let place = Setup { roots: &["top/sub"], before: &before, ..Setup::default() }.open();
    place.works("echo x > new && git add -A && git commit -qm second && git status --short").await;
    assert_ne!(place.facts("git config core.pager evil").await["exit_code"], 0);
    assert_ne!(place.facts("echo x > ../.git/HEAD").await["exit_code"], 0);
}

#[tokio::test]
async fn a_folder_in_a_repository_does_not_open_it() {
    let before = |base: &Path| a_repository(&base.join("top"));
    let place = Setup { roots: &["top/inner"], before: &before, ..Setup::default() }.open();
    assert_eq!(place.works("git log --format=%s").await, "first\n");
    assert_ne!(place.facts("touch x; git add x").await["exit_code"], 0);
}

#[tokio::test]
async fn a_new_repository_is_made_and_looked_at() {
    let place = Setup::default().open();
    place.works("git init -q . && echo x > a && git add a && git commit -qm one").await;
    place.works("git init -q sub && cd sub && git commit -q --allow-empty -m one; cd ..").await;
    assert_ne!(place.facts("echo evil > sub/.git/hooks/pre-commit").await["exit_code"], 0);
    let hostile = "git init -q evil && git -C evil config core.fsmonitor ./x && \
         printf '#!/bin/sh\n' > evil/.git/hooks/post-checkout && chmod +x evil/.git/hooks/post-checkout";
    let facts = place.facts(hostile).await;
    let note = facts["notes"][0].as_str().unwrap_or_default();
    assert!(note.contains("`evil/.git/hooks/post-checkout` was taken away"), "{facts}");
    assert_eq!(facts["taken_away"][0]["path"], "evil/.git/hooks/post-checkout");
    assert!(!place.path("work/evil/.git/hooks/post-checkout").exists());
    let note = facts["notes"][1].as_str().unwrap_or_default();
    assert!(note.contains("work/evil/.git` runs code of its own (core.fsmonitor)"), "{facts}");
    let begun = "mkdir -p begun/.git/hooks && echo evil > begun/.git/hooks/pre-commit";
    let facts = place.facts(begun).await;
    assert_eq!(facts["taken_away"][0]["path"], "begun/.git/hooks/pre-commit");
    let linked = "git init -q linked && cd linked/.git && rm -rf hooks && mkdir ../h && \
         echo evil > ../h/pre-commit && ln -s ../h hooks; cd ../..";
    let facts = place.facts(linked).await;
    assert_eq!(facts["taken_away"][0]["path"], "linked/.git/hooks");
    let disguised =
        "git init -q --bare x && git -C x config core.fsmonitor ./x && echo 'gitdir: ../x' > evil2";
    let facts = place.facts(disguised).await;
    assert!(facts["notes"][0].as_str().is_some_and(|note| note.contains("work/x`")), "{facts}");
}

/// Tries to plant a hook in each of these repositories.
async fn no_hook_can_be_planted(place: &Place, repositories: &[&str]) {
    for repository in repositories {
        let hook = format!("{repository}/.git/hooks/pre-commit");
        let facts = place.facts(&format!("mkdir -p $(dirname {hook}); echo evil > {hook}")).await;
        assert_ne!(facts["exit_code"], 0, "{repository}: {facts}");
        assert!(!place.path("work").join(&hook).exists(), "{repository}");
    }
}

#[tokio::test]
async fn no_crowd_hides_a_repository() {
    let known = ["sub", "1/2/3/4/5/6/7/8/deep"];
    let before = |base: &Path| {
        for repository in known {
            a_repository(&base.join("work").join(repository));
        }
    };
    let place = Setup { before: &before, ..Setup::default() }.open();
    place.works("seq -f f%.0f 5100 | xargs touch").await;
    place.works("for i in $(seq 70); do mkdir -p a$i/.git; done").await;
    no_hook_can_be_planted(&place, &known).await;
    // A few too many to work in all of them.
    let many = "for i in $(seq 10 99); do mkdir -p b$i/.git/objects b$i/.git/refs; \
         echo 'ref: refs/heads/main' > b$i/.git/HEAD; done";
    place.works(many).await;
    let facts = place.facts("true").await;
    let note = facts["notes"][0].as_str().unwrap_or_default();
    assert!(note.contains("so many repositories here"), "{facts}");
    no_hook_can_be_planted(&place, &["sub", "1/2/3/4/5/6/7/8/deep", "b10", "b99"]).await;
    let facts = place.facts("cd sub && echo two >> file && git commit -qam two").await;
    assert_eq!(facts["exit_code"], 0, "what was known before can be worked in: {facts}");
}

#[tokio::test]
async fn a_bound_that_is_reached_is_told_and_hides_nothing_known() {
    let before = |base: &Path| a_repository(&base.join("work/sub"));
    let place = Setup { before: &before, ..Setup::default() }.open();
    place.works("true").await;
    let told = |facts: &Value| facts["notes"].to_string().contains("not all repositories");
    let facts = place.facts("seq 20001 | xargs mkdir").await;
    assert!(told(&facts), "{facts}");
    let facts = place.facts("echo evil > sub/.git/hooks/pre-commit; echo x > 1/.envrc").await;
    assert!(told(&facts), "{facts}");
    assert!(!place.path("work/sub/.git/hooks/pre-commit").exists());
    assert!(!place.path("work/1/.envrc").exists());
}

#[tokio::test]
async fn settings_are_protected_at_every_depth() {
    let before = |base: &Path| {
        for name in ["sub/.vscode/tasks.json", "a/b/c/.envrc", "sub/.zero/settings.json"] {
            let path = base.join("work").join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "mine").unwrap();
        }
        std::fs::create_dir_all(base.join("work/open")).unwrap();
    };
    let place = Setup { before: &before, opened: &["work/open/.npmrc"], ..Setup::default() }.open();
    let attacks = [
        "echo x > sub/.vscode/tasks.json",
        "touch sub/.vscode/new",
        "mv sub/.vscode x",
        "mv sub x",
        "rm a/b/c/.envrc",
        "echo x > y && mv y a/b/c/.envrc",
        "echo x > sub/.zero/settings.json",
    ];
    for attack in attacks {
        assert_ne!(place.facts(attack).await["exit_code"], 0, "{attack}");
    }
    let made = [
        (".zero/settings.json", ".zero"),
        (".envrc", ".envrc"),
        (".vscode/tasks.json", ".vscode"),
        (".github/workflows/ci.yml", ".github/workflows"),
    ];
    for folder in ["new", "a/b", "a/b/c/d"] {
        for (file, taken) in made {
            let file = format!("{folder}/{file}");
            let facts =
                place.facts(&format!("mkdir -p $(dirname {file}) && echo x > {file}")).await;
            assert_eq!(facts["taken_away"][0]["path"], format!("{folder}/{taken}"), "{facts}");
            assert!(!place.path("work").join(&file).exists());
        }
    }
    let facts = place.facts("mkdir -p new && ln -s /etc new/.vscode").await;
    assert_eq!(facts["taken_away"][0]["path"], "new/.vscode");
    assert!(Path::new("/etc").exists());
    place.works("echo x > open/.npmrc").await;
    place.works("mkdir -p node_modules/x && echo x > node_modules/x/.npmrc").await;
    assert!(place.path("work/open/.npmrc").exists());
}

#[tokio::test]
async fn commands_beside_each_other_make_no_setting_further_down() {
    let place = Setup::default().open();
    place.works("mkdir sub").await;
    // The second begins after the first has made it, and makes it again when that one is over.
    let first = async {
        let facts = place.facts("echo x > sub/.envrc; until test -e begun; do sleep 0.02; done");
        let facts = facts.await;
        std::fs::write(place.path("work/over"), "").unwrap();
        facts
    };
    let second = async {
        let until = Instant::now() + LONG;
        while !place.path("work/sub/.envrc").exists() && Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let wait = "touch begun; until test -e over; do sleep 0.02; done";
        place.facts(&format!("{wait}; echo again > sub/.envrc")).await
    };
    let (first, second) = tokio::join!(first, second);
    assert_eq!(first["taken_away"][0]["path"], "sub/.envrc", "{first}");
    assert!(!place.path("work/sub/.envrc").exists(), "{second}");
}

#[tokio::test]
async fn folders_that_settings_open_are_protected_inside() {
    let before = |base: &Path| {
        for repository in ["other", "shelf/inner"] {
            a_repository(&base.join(repository));
            for name in [".vscode/tasks.json", "sub/.envrc"] {
                let path = base.join(repository).join(name);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, "mine").unwrap();
            }
        }
    };
    let writable = &["other", "shelf"];
    let place = Setup { before: &before, writable, ..Setup::default() }.open();
    for repository in ["other", "shelf/inner"] {
        let at = place.path(repository).display().to_string();
        let work = format!("(cd {at} && echo x > new && git add new && git commit -qm x)");
        place.works(&work).await;
        for attack in [
            "echo evil > .git/hooks/pre-commit",
            "git config core.fsmonitor ./evil",
            "echo x > .vscode/tasks.json",
            "echo x > sub/.envrc",
        ] {
            let facts = place.facts(&format!("(cd {at} && {attack})")).await;
            assert_ne!(facts["exit_code"], 0, "{attack}: {facts}");
        }
        for made in [".zero", "sub/.zero"] {
            let made = format!("{at}/{made}");
            let facts =
                place.facts(&format!("mkdir {made} && echo x > {made}/settings.json")).await;
            assert_eq!(facts["taken_away"][0]["path"], made, "{facts}");
            assert!(!Path::new(&made).exists());
        }
    }
    // Other people's files in a cache are nobody's settings.
    let cache = place.path("shelf/cache/pkg").display().to_string();
    place.works(&format!("mkdir -p {cache} && echo x > {cache}/.npmrc")).await;
}

#[tokio::test]
async fn what_a_configuration_takes_in_stays() {
    let before = |base: &Path| {
        a_repository(&base.join("work"));
        let work = base.join("work");
        git(&work, &["config", "include.path", "../common.gitconfig"]);
        git(&work, &["config", "includeIf.onbranch:main.path", "../missing.gitconfig"]);
        std::fs::write(work.join("common.gitconfig"), "[include]\npath = deeper\n").unwrap();
        std::fs::write(work.join("deeper"), "").unwrap();
    };
    let place = Setup { before: &before, ..Setup::default() }.open();
    for file in ["common.gitconfig", "deeper"] {
        let facts = place.facts(&format!("git config -f {file} core.fsmonitor ./evil")).await;
        assert_ne!(facts["exit_code"], 0, "{file}: {facts}");
        assert_ne!(place.facts(&format!("echo '[core]' >> {file}")).await["exit_code"], 0);
    }
    let facts = place.facts("echo '[core] fsmonitor = ./evil' > missing.gitconfig").await;
    assert_eq!(facts["taken_away"][0]["path"], "missing.gitconfig");
}

#[tokio::test]
async fn what_stood_in_and_was_gone_early_opens_nothing() {
    let before = |base: &Path| a_repository(&base.join("work"));
    let place = Setup { before: &before, ..Setup::default() }.open();
    std::fs::remove_dir_all(place.path("work/.git/hooks")).unwrap();
    let stand_ins = ["work/.zero", "work/.git/hooks"].map(|name| place.path(name));
    let attack = "touch begun; for folder in .zero .git/hooks; do for try in $(seq 1200); do \
         mkdir $folder 2>/dev/null && break; sleep 0.05; done; echo x > $folder/made || exit 1; done";
    let meddle = async {
        let until = Instant::now() + LONG;
        while !place.path("work/begun").exists() && Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        for stand_in in &stand_ins {
            std::fs::remove_dir(stand_in).unwrap();
        }
    };
    let (facts, ()) = tokio::join!(place.facts(attack), meddle);
    assert_eq!(facts["exit_code"], 0, "it was meant to come through: {facts}");
    let taken: Vec<&str> = facts["taken_away"].as_array().map_or(Vec::new(), |taken| {
        taken.iter().filter_map(|taken| taken["path"].as_str()).collect()
    });
    assert_eq!(taken, [".zero", ".git/hooks"], "{facts}");
    assert!(stand_ins.iter().all(|path| !path.exists()));
}

#[tokio::test]
async fn a_workspace_in_tmp_is_worked_in() {
    let setups = [("work", "state"), ("a/b/work", "state"), (".local/work", ".local/state/zero")];
    for (root, state) in setups {
        let place = Setup { parent: "/tmp", roots: &[root], state, ..Setup::default() }.open();
        place.works("echo x > file && mkdir d && mv file d/ && echo y > $TMPDIR/mine").await;
        assert_eq!(place.works("cat d/file $TMPDIR/mine").await, "x\ny\n");
        let base = place.path("");
        let state_shown = base.join(state);
        assert_ne!(place.facts(&format!("ls {}", state_shown.display())).await["exit_code"], 0);
        let tmp = format!("{state}/tmp/session-test");
        assert_eq!(place.names(&tmp), ["mine"], "no mount point is left");
        // Two at once share them.
        let (one, two) = tokio::join!(
            place.facts("sleep 0.3; cat d/file"),
            place.facts("sleep 0.1; cat d/file")
        );
        assert_eq!((&one["stdout"], &two["stdout"]), (&json!("x\n"), &json!("x\n")));
        assert_eq!(place.names(&tmp), ["mine"]);
    }
}

#[tokio::test]
async fn folders_that_hold_each_other_are_worked_in() {
    let before = |base: &Path| {
        std::fs::create_dir_all(base.join("real")).unwrap();
        symlink("real", base.join("link")).unwrap();
    };
    let roots = ["work", "work/inner"];
    let place = Setup { roots: &roots, before: &before, ..Setup::default() }.open();
    place.works("echo x > a && echo y > inner/b && mv a inner/").await;
    assert_ne!(place.facts("touch inner/.zero/x").await["exit_code"], 0);
    let place = Setup { roots: &["link"], before: &before, ..Setup::default() };
    let place = Setup {
        before: &|base: &Path| {
            std::fs::remove_dir(base.join("link")).unwrap();
            before(base);
        },
        ..place
    }
    .open();
    place.works("echo x > a").await;
    assert_eq!(place.names("real"), ["a"]);
    assert_ne!(place.facts("touch .zero/x").await["exit_code"], 0);
}

#[tokio::test]
async fn the_home_folder_may_be_the_workspace() {
    let before = |base: &Path| {
        for name in [".ssh/id_rsa", ".bashrc", ".config/gh/hosts.yml", "notes/a"] {
            std::fs::create_dir_all(base.join("home").join(name).parent().unwrap()).unwrap();
            std::fs::write(base.join("home").join(name), "mine").unwrap();
        }
    };
    let place = Setup {
        roots: &["home"],
        state: "home/.local/state/zero",
        home: Some("home"),
        before: &before,
        ..Setup::default()
    }
    .open();
    place.works("echo x > project && cat notes/a").await;
    let attacks = [
        "cat .ssh/id_rsa",
        "mv .ssh x",
        "echo x >> .bashrc",
        "cat .config/gh/hosts.yml",
        "mv .config x",
        "ls .local/state/zero",
        "touch .local/state/zero/x",
    ];
    for attack in attacks {
        assert_ne!(place.facts(attack).await["exit_code"], 0, "{attack}");
    }
}

#[tokio::test]
async fn what_rules_deny_is_hidden_wherever_it_lies() {
    let before = |base: &Path| {
        for name in ["home/notes/a", "home/other/b", "work/.env", "work/deep/.env", "out/key"] {
            std::fs::create_dir_all(base.join(name).parent().unwrap()).unwrap();
            std::fs::write(base.join(name), "secret").unwrap();
        }
    };
    let denied = &["home/notes", "work/.env", "work/deep/.env"];
    let place = Setup { denied, before: &before, ..Setup::default() }.open();
    let home = place.path("home").display().to_string();
    for name in [&*format!("{home}/notes/a"), ".env", "deep/.env"] {
        let facts = place.facts(&format!("cat {name}")).await;
        assert_ne!(facts["exit_code"], 0, "{name}: {facts}");
    }
    assert_eq!(place.works(&format!("cat {home}/other/b")).await, "secret");
}

#[tokio::test]
async fn what_a_crash_left_is_swept_when_a_session_begins() {
    let place = Setup::default().open();
    let ghost = place.path("work/.zero");
    std::fs::create_dir(&ghost).unwrap();
    let tmp = place.path("state/tmp");
    std::fs::create_dir_all(&tmp).unwrap();
    let record = tmp.join("session-gone.1-0.placeholders");
    let line = json!({"path": ghost.to_str().unwrap(), "inode": null});
    std::fs::write(&record, format!("{line}\n")).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(&record, mode).unwrap();
    let _other = place.host.open_session(SessionId::new("next").unwrap()).unwrap();
    assert!(!ghost.exists() && !record.exists());
}
