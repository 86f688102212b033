//! Sub-agents in git worktrees of their own: what they change becomes a branch, and nothing else of
//! the machine changes, whatever they try.

#![expect(clippy::disallowed_methods, reason = "the test looks at what the program wrote")]

use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::config::write_file;
use crate::process_cleanup::{find_sleepers, unique_seconds};
use crate::subagents::{SubagentFixture, task, waiting_questions};

/// Longest time that a test waits for something that must happen.
const PATIENCE: Duration = Duration::from_secs(60);

/// A repository with one commit, and a scripted model.
struct WorktreeFixture {
    base: SubagentFixture,
}

impl WorktreeFixture {
    fn new(settings: Value) -> Self {
        let fixture = Self { base: SubagentFixture::new(settings) };
        write_file(&fixture.base.zero, "repo/secret/key", "s3cr3t\n");
        for args in [
            &["init", "-q", "-b", "main"][..],
            &["config", "user.name", "Ada"],
            &["config", "user.email", "ada@example.org"],
            &["add", "."],
            &["commit", "-q", "-m", "start"],
        ] {
            fixture.git(args);
        }
        fixture
    }

    /// Runs git in the repository.
    #[track_caller]
    fn git(&self, args: &[&str]) -> String {
        let mut git = self.base.zero.external_command("git");
        let output = git.current_dir(self.path("repo")).args(args).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "git {args:?}: {errors}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.base.path(name)
    }

    /// Runs these calls of `Task` in one reply.
    fn run(&self, args: &[&str], tasks: &[String]) -> String {
        let mut steps = tasks.to_vec();
        steps.extend(["turn".to_owned(), "say Well.".to_owned()]);
        self.base.run(args, &steps)
    }

    /// Starts the same, and does not wait for it.
    fn start(&self, args: &[&str], tasks: &[String]) -> Child {
        let script = format!("script:\n{}\nturn\nsay Well.", tasks.join("\n"));
        let folder = self.path("repo").display().to_string();
        let args = [&["run", "--session", "s", "--cwd", &folder], args, &[&script]].concat();
        let mut zero = self.base.zero.command(&args);
        zero.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    /// The branches of sub-agents.
    fn branches(&self) -> Vec<String> {
        let listed = self.git(&["branch", "--list", "--format=%(refname:short)", "zero/*"]);
        listed.lines().map(str::to_owned).collect()
    }

    /// The worktrees that exist.
    fn worktrees(&self) -> Vec<PathBuf> {
        let areas = list(&self.path("home/.local/state/zero-worktrees"));
        areas.iter().flat_map(|area| list(area)).collect()
    }

    /// Everything that no sub-agent may change: the files of the repository and of its `.git` folder,
    /// except for objects and the branches of sub-agents.
    fn protected_state(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let mut state = Vec::new();
        let mut folders = vec![self.path("repo")];
        while let Some(folder) = folders.pop() {
            for path in list(&folder) {
                if path.ends_with(".git/objects") || path.ends_with(".git/refs/heads/zero") {
                    continue;
                }
                match path.is_dir() && !path.is_symlink() {
                    true => folders.push(path),
                    false => state.push((path.clone(), std::fs::read(&path).unwrap_or_default())),
                }
            }
        }
        state.sort();
        state
    }
}

fn list(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

fn call(tool: &str, input: Value) -> String {
    format!("call {tool} {input}")
}

fn bash(command: &str) -> String {
    call("Bash", json!({"command": command, "description": "work"}))
}

/// A call of `Task` with a worktree whose sub-agent makes these calls, one after the other.
fn worktree_task(calls: &[String]) -> String {
    let mut steps = Vec::new();
    for call in calls {
        steps.extend([call.as_str(), "turn"]);
    }
    steps.push("say Done.");
    task(&steps, json!({"isolation": "worktree"}))
}

#[test]
fn changes_in_worktree_become_a_branch_that_can_be_merged() {
    let fixture = WorktreeFixture::new(json!({}));
    write_file(&fixture.base.zero, "repo/hello.txt", "not committed\n");
    let before = fixture.protected_state();
    let work = worktree_task(&[
        call("Read", json!({"file_path": "hello.txt"})),
        call("Write", json!({"file_path": "made.txt", "content": "made\n"})),
        bash("git add made.txt && git commit -q -m mine && echo more > later.txt && pwd"),
    ]);
    let seen = fixture.run(&["--yes"], &[work]);
    assert!(seen.starts_with("exit 0"), "{seen}");
    let result = fixture.base.last_result();
    let branches = fixture.branches();
    let [branch] = &branches[..] else { panic!("{branches:?} {result}") };
    assert!(result.contains(branch) && result.contains("git merge"), "{result}");
    assert!(result.contains("+made") && result.contains("+more"), "{result}");
    assert!(result.contains("It changed 2 files"), "{result}");
    assert_eq!(fixture.protected_state(), before);
    assert_eq!(fixture.worktrees(), [] as [PathBuf; 0]);
    // The first commit is the sub-agent's own, the second one has what it did not commit.
    let log = fixture.git(&["log", "--format=%an %s", "-3", branch]);
    assert_eq!(log, "Ada Changes of the sub-agent task\nAda mine\nAda start");
    assert_eq!(fixture.git(&["show", &format!("{branch}:hello.txt")]), "hello");
    fixture.git(&["fsck", "--strict"]);
    // Merging is a call like others: it needs an answer, and works in the sandbox.
    let merge = bash(&format!("git checkout -q hello.txt && git merge -q {branch}"));
    let steps = [merge, "turn".to_owned(), "say Well.".to_owned()];
    fixture.base.run(&["--mode", "accept-edits"], &steps);
    assert!(!fixture.path("repo/made.txt").exists(), "nobody allowed it");
    for mode in ["ask", "accept-edits"] {
        fixture.git(&["reset", "-q", "--hard", "main"]);
        fixture.base.run(&["--yes", "--mode", mode], &steps);
        let made = std::fs::read_to_string(fixture.path("repo/later.txt"));
        assert_eq!(made.ok().as_deref(), Some("more\n"), "{mode}: {}", fixture.base.last_result());
        fixture.git(&["reset", "-q", "--hard", "HEAD~2"]);
    }
}

#[test]
fn worktree_is_kept_while_its_subagent_waits() {
    let fixture = WorktreeFixture::new(json!({}));
    let write = |name: &str| call("Write", json!({"file_path": name, "content": "made\n"}));
    let work = worktree_task(&[write("one.txt"), write("two.txt")]);
    let seen = fixture.run(&["--park"], &[work]);
    assert!(seen.starts_with("exit 6"), "{seen}");
    for name in ["one.txt", "two.txt"] {
        // Neither a clean-up nor another worktree takes it over.
        fixture.base.zero.run(&["prune"]);
        let [tree] = &fixture.worktrees()[..] else { panic!("one worktree: {name}") };
        assert!(!tree.join(name).exists());
        assert_eq!(fixture.branches(), [] as [&str; 0]);
        let [(id, _)] = &waiting_questions(&fixture.base)[..] else { panic!("one question") };
        let seen = fixture.base.zero.run(&["questions", "answer", id, "allow_once"]);
        let code = if name == "one.txt" { "exit 6" } else { "exit 0" };
        assert!(seen.starts_with(code), "{name}: {seen}");
    }
    let [branch] = &fixture.branches()[..] else { panic!("one branch") };
    let files = fixture.git(&["diff", "--name-only", &format!("main...{branch}")]);
    assert_eq!(files, "one.txt\ntwo.txt");
    assert_eq!(fixture.worktrees(), [] as [PathBuf; 0]);
}

#[test]
fn worktree_without_changes_leaves_nothing() {
    let fixture = WorktreeFixture::new(json!({}));
    let before = fixture.protected_state();
    let look = worktree_task(&[call("Read", json!({"file_path": "hello.txt"}))]);
    let seen = fixture.run(&[], &[look]);
    assert!(seen.starts_with("exit 0"), "{seen}");
    let result = fixture.base.last_result();
    assert!(result.contains("Done.") && !result.contains("branch"), "{result}");
    assert_eq!(fixture.branches(), [] as [String; 0]);
    assert_eq!(fixture.worktrees(), [] as [PathBuf; 0]);
    assert_eq!(list(&fixture.path("home/.local/state/zero/worktrees")), [] as [PathBuf; 0]);
    assert_eq!(fixture.protected_state(), before);
}

/// What a sub-agent tries against the repository of its parent and the worktree of its neighbour.
const ATTACKS: &str = r#"
attack() {
  echo pwned > "$1/hello.txt"; echo pwned > "$1/pwned.txt"; rm -f "$1/secret/key"
  mkdir -p "$1/.git/hooks"; echo 'touch pwned' > "$1/.git/hooks/post-merge"
  printf '[core]\n\tfsmonitor = touch pwned\n' >> "$1/.git/config"
  echo 0000000000000000000000000000000000000000 > "$1/.git/refs/heads/main"
  echo x > "$1/.git/refs/heads/evil"; rm -rf "$1/.git/objects"
  git -C "$1" commit -q --allow-empty -m pwned; git -C "$1" branch evil2
  git --git-dir "$1/.git" --work-tree . commit -q --allow-empty -m pwned
  ln "$1/hello.txt" taken.txt; cat "$1/secret/key" > stolen.txt
}
"#;

#[test]
fn two_subagents_attack_each_other_and_their_parent_in_vain() {
    let fixture = WorktreeFixture::new(json!({}));
    let parent = fixture.path("repo").display().to_string();
    let before = fixture.protected_state();
    let other = fixture.path("home/.local/state/zero-worktrees/other/repo");
    write_file(
        &fixture.base.zero,
        "home/.local/state/zero-worktrees/other/repo/hello.txt",
        "other\n",
    );
    // Where the neighbour is, a sub-agent cannot see. The test tells each of them.
    let script = format!(
        "{ATTACKS}
        until [ -e targets.complete ]; do sleep 0.1; done
        while read -r target; do attack \"$target\"; done < targets
        mv .git elsewhere && ln -s \"$target/.git\" .git
        touch attacked; until [ -e go ]; do sleep 0.1; done; exit 0"
    );
    let write = |path: &Path| call("Write", json!({"file_path": path, "content": "pwned\n"}));
    let edit = call(
        "Edit",
        json!({"file_path": fixture.path("repo/hello.txt"), "old_string": "hello", "new_string": "pwned"}),
    );
    let calls = [
        bash(&script),
        write(&fixture.path("repo/pwned.txt")),
        write(&fixture.path("repo/.git/hooks/post-merge")),
        write(&fixture.path("repo/.git/refs/heads/evil")),
        write(&other.join("hello.txt")),
        write(Path::new("../../other/repo/pwned.txt")),
        edit,
        call("Read", json!({"file_path": fixture.path("repo/secret/key")})),
        bash(&format!(
            "git push -q '{parent}' HEAD:refs/heads/evil3; git fetch -q '{parent}' main; true"
        )),
    ];
    let tasks = [worktree_task(&calls), worktree_task(&calls)];
    let mut running = fixture.start(&["--yes", "--mode", "auto"], &tasks);
    let both = wait_for(|| {
        let trees = fixture.worktrees().into_iter().filter(|tree| *tree != other);
        let trees: Vec<PathBuf> = trees.collect();
        let ready = trees.iter().all(|tree| tree.join("hello.txt").exists());
        (trees.len() == 2 && ready).then_some(trees)
    });
    for (tree, target) in [(&both[0], &both[1]), (&both[1], &both[0])] {
        let targets = [target, &other, &fixture.path("repo")];
        let targets: Vec<String> = targets.map(|path| path.display().to_string()).into();
        std::fs::write(tree.join("targets"), targets.join("\n") + "\n").unwrap();
        std::fs::write(tree.join("targets.complete"), "").unwrap();
    }
    wait_for(|| both.iter().all(|tree| tree.join("attacked").exists()).then_some(()));
    for tree in &both {
        let hello = std::fs::read_to_string(tree.join("hello.txt")).unwrap();
        assert_eq!(hello, "hello\n", "written by the neighbour");
        assert!(!tree.join("pwned.txt").exists() && tree.join("secret/key").exists());
        assert!(!tree.join("stolen.txt").metadata().is_ok_and(|stolen| stolen.len() > 0));
        std::fs::write(tree.join("go"), "").unwrap();
    }
    assert_eq!(running.wait().unwrap().code(), Some(3), "calls were denied");
    assert_eq!(fixture.protected_state(), before);
    assert_eq!(std::fs::read_to_string(other.join("hello.txt")).unwrap(), "other\n");
    assert_eq!(list(&other), [other.join("hello.txt")]);
    fixture.git(&["fsck", "--strict"]);
    let requests = fixture.base.model.requests();
    assert!(!json!(requests).to_string().contains("s3cr3t"), "the parent's files are closed");
    // Without the sandbox the same attack succeeds, so it is one.
    let mut attack = fixture.base.zero.external_command("sh");
    let script = format!("{ATTACKS}\nattack '{parent}'");
    attack.current_dir(fixture.path("home")).args(["-c", &script]).output().unwrap();
    assert_ne!(fixture.protected_state(), before);
}

#[track_caller]
fn wait_for<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < PATIENCE, "it does not happen");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn background_jobs_end_before_the_worktree_is_closed() {
    let fixture = WorktreeFixture::new(json!({}));
    let before = fixture.protected_state();
    let seconds = unique_seconds(71);
    let job = |command: &str| {
        let input = json!({"command": command, "description": "work", "run_in_background": true});
        call("Bash", input)
    };
    let calm = worktree_task(&[
        job(&format!("echo begun > begun.txt; sleep {seconds}")),
        bash("until [ -s begun.txt ]; do sleep 0.05; done"),
    ]);
    fixture.run(&["--yes"], &[calm]);
    assert!(find_sleepers(seconds).is_empty(), "the job is not held");
    let branches = fixture.branches();
    let [branch] = &branches[..] else { panic!("{branches:?} {}", fixture.base.last_result()) };
    assert_eq!(fixture.git(&["show", &format!("{branch}:begun.txt")]), "begun");
    assert_eq!(fixture.worktrees(), [] as [PathBuf; 0]);
    assert_eq!(fixture.protected_state(), before);
}

#[test]
fn settings_of_hostile_worktree_run_nothing_when_zero_commits() {
    let fixture = WorktreeFixture::new(json!({}));
    let before = fixture.protected_state();
    // Everything is approved, also what zero asks about every time.
    let work = worktree_task(&[
        bash(
            "git config filter.evil.clean 'sed s/.*/pwned/'; echo '* filter=evil' > .gitattributes",
        ),
        bash(
            "echo mine > made.txt; git config core.fsmonitor 'touch monitored'; mkdir -p lib; git -C lib init -q; echo x > lib/x",
        ),
        bash("printf 'ref: refs/heads/other\n' > .git/HEAD; touch .git/index.lock"),
    ]);
    fixture.run(&["--yes"], &[work]);
    let result = fixture.base.last_result();
    let branches = fixture.branches();
    let [branch] = &branches[..] else { panic!("{branches:?} {result}") };
    assert_eq!(fixture.git(&["show", &format!("{branch}:made.txt")]), "mine");
    assert_eq!(fixture.protected_state(), before);
    assert_eq!(fixture.git(&["ls-tree", "--name-only", branch, "monitored"]), "");
}

#[test]
fn rules_of_parent_apply_in_worktree() {
    let fixture = WorktreeFixture::new(json!({}));
    let absolute = format!("Read(/{}/secret/**)", fixture.path("repo").display());
    for rule in ["Read(./secret/**)", &absolute] {
        let settings = json!({"permissions": {"deny": [rule]}});
        let settings = fixture.base.model.settings_json(settings);
        write_file(&fixture.base.zero, crate::config::USER_FILE, settings);
        let look = worktree_task(&[
            call("Read", json!({"file_path": "secret/key"})),
            bash("cat secret/key; true"),
        ]);
        fixture.run(&["--yes", "--mode", "auto"], &[look]);
        let requests = json!(fixture.base.model.requests()).to_string();
        assert!(requests.contains("was denied") || requests.contains("denied"), "{rule}");
        assert!(!requests.contains("s3cr3t"), "{rule}: {requests}");
    }
    // In plan mode, nothing is changed there either.
    let write = call("Write", json!({"file_path": "made.txt", "content": "x"}));
    fixture.run(&["--yes", "--mode", "plan"], &[worktree_task(&[write])]);
    assert_eq!(fixture.branches(), [] as [String; 0]);
}

#[test]
fn subfolder_of_repository_stays_the_workspace() {
    let fixture = WorktreeFixture::new(json!({}));
    write_file(&fixture.base.zero, "repo/sub/a.txt", "a\n");
    write_file(
        &fixture.base.zero,
        "home/.gitconfig",
        "[user]\n\tname = Grace\n\temail = g@example.org\n",
    );
    fixture.git(&["add", "."]);
    fixture.git(&["commit", "-q", "-m", "sub"]);
    fixture.git(&["config", "--unset", "user.name"]);
    let work = worktree_task(&[
        call("Write", json!({"file_path": "b.txt", "content": "b\n"})),
        call("Write", json!({"file_path": "../hello.txt", "content": "pwned\n"})),
        bash("echo pwned > ../hello.txt; true"),
    ]);
    let script = format!("script:\n{work}\nturn\nsay Well.");
    let folder = fixture.path("repo/sub").display().to_string();
    let seen = fixture.base.zero.run(&["run", "--cwd", &folder, "--yes", &script]);
    let branches = fixture.branches();
    let [branch] = &branches[..] else { panic!("{branches:?} {seen}") };
    let changed = fixture.git(&["diff", "--name-only", "main", branch]);
    assert_eq!(changed, "sub/b.txt", "{seen}");
    assert_eq!(fixture.git(&["log", "-1", "--format=%an", branch]), "Grace");
}

#[test]
fn worktree_that_cannot_be_made_is_a_clear_error() {
    let fixture = WorktreeFixture::new(json!({}));
    let write = call("Write", json!({"file_path": "made.txt", "content": "x"}));
    let work = [worktree_task(&[write])];
    #[track_caller]
    fn check(fixture: &WorktreeFixture, args: &[&str], work: &[String], expected: &str) {
        fixture.run(&[&["--yes"], args].concat(), work);
        let result = fixture.base.last_result();
        assert!(result.contains(expected), "{result}");
        assert_eq!(fixture.worktrees(), [] as [PathBuf; 0]);
        assert!(!fixture.path("repo/made.txt").exists());
    }
    check(&fixture, &["--dry-run"], &work, "this is a dry run");
    fixture.git(&["branch", "zero"]);
    check(&fixture, &[], &work, "already has a branch `zero`");
    fixture.git(&["branch", "-D", "zero"]);
    std::fs::rename(fixture.path("repo/.git"), fixture.path("away")).unwrap();
    check(&fixture, &[], &work, "is not in the working folder of a git repository");
    fixture.git(&["init", "-q"]);
    check(&fixture, &[], &work, "has no commit to start from");
    let bad = task(&["say x"], json!({"isolation": "vm"}));
    check(&fixture, &[], &[bad], "unknown variant `vm`");
    let sessions = fixture.base.zero.stdout(&["sessions", "list", "--subagents-of", "s", "--json"]);
    assert!(!sessions.contains("task-"), "{sessions}");
}

#[test]
fn worktree_of_killed_process_becomes_a_branch() {
    let fixture = WorktreeFixture::new(json!({}));
    let work = worktree_task(&[bash("echo kept > made.txt; sleep 600")]);
    let mut running = fixture.start(&["--yes"], &[work]);
    wait_for(|| {
        let is_made =
            |tree: &PathBuf| std::fs::read(tree.join("made.txt")).is_ok_and(|t| t == b"kept\n");
        fixture.worktrees().iter().any(is_made).then_some(())
    });
    running.kill().unwrap();
    running.wait().unwrap();
    assert_eq!(fixture.branches(), [] as [String; 0]);
    let seen = fixture.base.zero.run(&["prune"]);
    assert!(seen.contains("a sub-agent that was killed are on the branch `zero/task-"), "{seen}");
    let branches = fixture.branches();
    let [branch] = &branches[..] else { panic!("{branches:?}") };
    assert_eq!(fixture.git(&["show", &format!("{branch}:made.txt")]), "kept");
    assert_eq!(fixture.worktrees(), [] as [PathBuf; 0]);
}
