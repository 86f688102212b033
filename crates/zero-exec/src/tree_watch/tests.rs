//! Tests of what a watch quarantines, and what it leaves to others.

#![expect(clippy::disallowed_methods, reason = "tests set up real files")]
use super::*;
use crate::command_policy::StrictestPolicy;
use crate::profile::git_repositories::find_repositories;
use crate::watch_lease::WatchFolder;
use std::fs;
use std::os::unix::fs::symlink;
use zero_sandbox::StateDir;

struct WatchFixture {
    temp: tempfile::TempDir,
}

impl WatchFixture {
    fn new() -> Self {
        let temp = tempfile::tempdir().unwrap();
        for folder in ["work/shared", "outside/workflows"] {
            fs::create_dir_all(temp.path().join(folder)).unwrap();
        }
        Self { temp }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.temp.path().canonicalize().unwrap().join(name)
    }

    fn watch(&self, names: &[&str]) -> TreeWatch {
        self.watch_with_registry(names, &Arc::default())
    }

    fn watch_with_registry(&self, names: &[&str], live: &Arc<WatchRegistry>) -> TreeWatch {
        self.watch_with(names, live, None)
    }

    /// A watch like that of another process.
    fn watch_in_process(&self, names: &[&str]) -> TreeWatch {
        let folder = WatchFolder::acquire(&StateDir::new(self.path("state"))).unwrap();
        let lease = WatchLease::begin(&Arc::new(folder)).unwrap();
        self.watch_with(names, &Arc::default(), Some(lease))
    }

    fn watch_with(
        &self,
        names: &[&str],
        live: &Arc<WatchRegistry>,
        lease: Option<WatchLease>,
    ) -> TreeWatch {
        let start = live.start(lease).unwrap();
        let root = self.path("work");
        let watched = names.iter().map(|name| {
            let watched = WatchedPath::new(&root, Path::new(name), "a setting");
            let before = watched.inspect();
            watched.with_previous(before)
        });
        let (held, watched) = watched.partition(|w| w.before == EntryKind::Present);
        let held: Vec<WatchedPath> = held;
        let held = held.into_iter().map(|w| w.with_previous(EntryKind::Missing));
        let scope = WritableRoots { roots: vec![root], ..WritableRoots::default() };
        let found = live.scanner.scan(&scope);
        let git = find_repositories(&scope, &found, &live.scanner);
        let kept = Quarantine::new(StateDir::new(self.path("kept")));
        let before = TreeSnapshot {
            start,
            scope,
            watched,
            existing: held.collect(),
            nested_settings: found.settings.iter().map(|setting| setting.path()).collect(),
            unmounted: Vec::new(),
            contents: RepositoryContents::read(&found.indexed),
            overlooked: found.overlooked,
            denied_changes: None,
        };
        let live = Arc::clone(live);
        TreeWatch::new(before, &git, Arc::new(StrictestPolicy), (kept, live)).unwrap()
    }

    /// The paths that were quarantined.
    fn finish(&self, watch: &TreeWatch) -> Vec<PathBuf> {
        watch.finish().quarantined.into_iter().map(|taken| taken.path).collect()
    }
}

#[test]
fn created_path_is_quarantined() {
    let fixture = WatchFixture::new();
    let watch = fixture.watch(&[".vscode", ".npmrc"]);
    assert_eq!(watch.finish(), WatchReport::default());
    fs::create_dir(fixture.path("work/.vscode")).unwrap();
    fs::write(fixture.path("work/.vscode/tasks.json"), "made").unwrap();
    let report = watch.finish();
    let [taken] = &report.quarantined[..] else { panic!("{report:?}") };
    assert_eq!((&taken.path, &*taken.why), (&fixture.path("work/.vscode"), "a setting"));
    assert_eq!(fs::read_to_string(taken.kept_at.join("tasks.json")).unwrap(), "made");
    assert_eq!(watch.finish(), WatchReport::default());
}

#[test]
fn unsearched_folders_are_named_and_counted() {
    let fixture = WatchFixture::new();
    let watch = fixture.watch(&[]);
    let overlooked = vec![fixture.path("work/a"), fixture.path("work/b")];
    let found = FolderScanResult { overlooked, overlooked_count: 7, ..Default::default() };
    let gaps = watch.list_gaps(&found);
    let [gap] = &gaps[..] else { panic!("{gaps:?}") };
    let named = format!(
        "in `{}`, `{}`, 5 more folders; ",
        fixture.path("work/a").display(),
        fixture.path("work/b").display()
    );
    assert!(gap.contains(&named) && gap.contains("inspect these folders"), "{gap}");
    let overlooked = vec![fixture.path(&"deep/".repeat(800))];
    let found = FolderScanResult { overlooked, overlooked_count: 1, ..Default::default() };
    let gap = watch.list_gaps(&found).concat();
    assert!(gap.len() < 1_000, "{gap}");
}

#[test]
fn unsearchable_workspace_is_reported() {
    let fixture = WatchFixture::new();
    let mut watch = fixture.watch(&[]);
    watch.before.denied_changes = Some(BTreeSet::new());
    fs::remove_dir_all(fixture.path("work")).unwrap();
    let mut report = WatchReport::default();
    watch.quarantine_denied(&mut report);
    let [warning] = &report.warnings[..] else { panic!("{report:?}") };
    assert!(warning.contains(&fixture.path("work").display().to_string()), "{warning}");
}

#[test]
fn link_on_path_is_quarantined_without_its_target() {
    let fixture = WatchFixture::new();
    let watch = fixture.watch(&[".github/workflows", ".config/fish"]);
    symlink(fixture.path("outside"), fixture.path("work/.github")).unwrap();
    symlink(fixture.path("outside"), fixture.path("work/.config")).unwrap();
    assert_eq!(fixture.finish(&watch), [fixture.path("work/.github")]);
    assert!(fixture.path("outside/workflows").exists());
    assert!(fixture.path("work/.config").exists(), "its target has no file of that name");
}

#[test]
fn replaced_link_is_restored() {
    let fixture = WatchFixture::new();
    let link = fixture.path("work/.vscode");
    symlink("shared", &link).unwrap();
    let watch = fixture.watch(&[".vscode"]);
    assert_eq!(watch.finish(), WatchReport::default());
    fs::remove_file(&link).unwrap();
    fs::create_dir(&link).unwrap();
    assert_eq!(fixture.finish(&watch), std::slice::from_ref(&link));
    assert_eq!(fs::read_link(&link).unwrap(), Path::new("shared"));
    fs::remove_file(&link).unwrap();
    symlink("elsewhere", &link).unwrap();
    assert_eq!(fixture.finish(&watch), std::slice::from_ref(&link));
    fs::remove_file(&link).unwrap();
    let report = watch.finish();
    assert!(report.quarantined.is_empty() && report.warnings.len() == 1, "{report:?}");
    assert_eq!(fs::read_link(&link).unwrap(), Path::new("shared"));
}

#[test]
fn path_made_by_other_command_is_reported_once() {
    let fixture = WatchFixture::new();
    let live = Arc::default();
    let made = fixture.path("work/.vscode");
    let first = fixture.watch_with_registry(&[".vscode"], &live);
    fs::create_dir(&made).unwrap();
    let second = fixture.watch_with_registry(&[".vscode"], &live);
    assert!(fixture.finish(&second).is_empty(), "the first command reports it");
    assert_eq!(fixture.finish(&first), std::slice::from_ref(&made));
    drop(first);
    fs::create_dir(&made).unwrap();
    assert_eq!(fixture.finish(&second), std::slice::from_ref(&made));
    drop(second);
    // No command runs that could have created it, so the user did.
    fs::create_dir(&made).unwrap();
    assert!(fixture.finish(&fixture.watch_with_registry(&[".vscode"], &live)).is_empty());
    assert!(live.lock().is_empty());
}

#[test]
fn path_made_by_command_of_other_process_is_quarantined_again() {
    let fixture = WatchFixture::new();
    let (made, names) = (fixture.path("work/.vscode"), [".vscode"]);
    let nested = fixture.path("work/shared/.envrc");
    let make = || {
        fs::create_dir(&made).unwrap();
        fs::write(&nested, "").unwrap();
    };
    let first = fixture.watch_in_process(&names);
    make();
    let second = fixture.watch_in_process(&names);
    assert!(fixture.finish(&second).is_empty(), "the first command reports it");
    assert_eq!(fixture.finish(&first), [made.clone(), nested.clone()]);
    drop(first);
    make();
    assert_eq!(fixture.finish(&second), [made.clone(), nested.clone()]);
    drop(second);
    // No command runs that could have created it, so the user did.
    make();
    assert!(fixture.finish(&fixture.watch_in_process(&names)).is_empty());
}

#[test]
fn path_left_by_dead_process_is_quarantined() {
    let fixture = WatchFixture::new();
    let made = fixture.path("work/.vscode");
    let first = fixture.watch_in_process(&[".vscode"]);
    fs::create_dir(&made).unwrap();
    let second = fixture.watch_in_process(&[".vscode"]);
    // As when its process is killed: nothing was checked.
    drop(first);
    assert_eq!(fixture.finish(&second), [made]);
}

impl WatchFixture {
    fn write(&self, name: &str, text: &str) {
        fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        fs::write(self.path(name), text).unwrap();
    }

    /// Creates a folder with the contents of a git folder.
    fn create_repository(&self, name: &str) {
        for folder in ["objects", "refs"] {
            fs::create_dir_all(self.path(name).join(folder)).unwrap();
        }
        self.write(&format!("{name}/HEAD"), "ref: refs/heads/main\n");
    }

    /// Writes the files while a watch runs, and returns what was quarantined.
    #[track_caller]
    fn check(&self, made: &[(&str, &str)], expected: &[&str]) {
        let watch = self.watch(&[]);
        for (name, text) in made {
            self.write(name, text);
        }
        let report = watch.finish();
        let taken: Vec<PathBuf> =
            report.quarantined.iter().map(|taken| taken.path.clone()).collect();
        let expected: Vec<PathBuf> = expected.iter().map(|name| self.path(name)).collect();
        assert_eq!(taken, expected, "{made:?}: {report:?}");
        assert!(taken.iter().all(|path| !path.exists()));
        assert_eq!(report.warnings, Vec::<String>::new());
    }
}

const HEAD: &str = "ref: refs/heads/main\n";
const MONITOR: &str = "[core]\nfsmonitor = ./x\n";
const EXEC: &str = "pick 1234 x\nexec ./x\n";

#[test]
fn new_repository_is_checked() {
    let fixture = WatchFixture::new();
    let watch = fixture.watch(&[]);
    for folder in ["work/a/.git/hooks", "work/b/.git/hooks"] {
        fs::create_dir_all(fixture.path(folder)).unwrap();
    }
    assert_eq!(watch.finish(), WatchReport::default());
    drop(watch);
    fixture.check(&[("work/new/.git/config", "[core]\nbare = false\n")], &[]);
    let taken = ["work/evil/.git/config"];
    fixture.check(&[("work/evil/.git/config", MONITOR)], &taken);
    let taken = ["work/c/.git/config.worktree"];
    fixture.check(&[("work/c/.git/HEAD", HEAD), (taken[0], MONITOR)], &taken);
    let taken = ["work/r/.git/branches", "work/r/.git/remotes"];
    let made = [("work/r/.git/HEAD", HEAD), ("work/r/.git/remotes/origin", "URL: ../x\n")];
    let made = [&made[..], &[("work/r/.git/branches/x", "../x\n")]].concat();
    fixture.check(&made, &[taken[1], taken[0]]);
    // In a repository that exists.
    fixture.check(&[("work/r/.git/remotes/origin", "URL: ../x\n")], &[taken[1]]);
    // A bare layout, and one whose objects are elsewhere.
    let made = [("work/d/HEAD", HEAD), ("work/d/refs/x", ""), ("work/d/objects/x", "")];
    let taken = ["work/d/config"];
    fixture.check(&[&made[..], &[(taken[0], MONITOR)]].concat(), &taken);
    let made = [("work/e/HEAD", HEAD), ("work/e/commondir", "../a/.git\n")];
    let taken = ["work/e/config.worktree"];
    fixture.check(&[&made[..], &[(taken[0], MONITOR)]].concat(), &taken);
}

#[test]
fn submodules_and_worktrees_are_checked() {
    let fixture = WatchFixture::new();
    fixture.create_repository("work/.git");
    let module = "work/.git/modules/lib";
    let made = [
        (format!("{module}/HEAD"), HEAD),
        (format!("{module}/config"), "[core]\nworktree = ../../../lib\n"),
    ];
    let made = made.each_ref().map(|(name, text)| (name.as_str(), *text));
    fixture.check(&made, &[]);
    let made = [("work/.git/modules/a/b/HEAD", HEAD), ("work/.git/modules/a/b/config", MONITOR)];
    fixture.check(&made, &["work/.git/modules/a/b/config"]);
    let tree = "work/.git/worktrees/t";
    let made = [(format!("{tree}/HEAD"), HEAD), (format!("{tree}/config.worktree"), MONITOR)];
    let made = made.each_ref().map(|(name, text)| (name.as_str(), *text));
    fixture.check(&made, &["work/.git/worktrees/t/config.worktree"]);
    let deep: String = (0..20).map(|number| format!("{number}/")).collect();
    let deep = format!("work/.git/modules/{deep}HEAD");
    fixture.check(&[(&deep, HEAD)], &["work/.git/modules"]);
}

#[test]
fn pointer_to_repository_is_checked() {
    let fixture = WatchFixture::new();
    // Where folders are not scanned.
    fixture.create_repository("work/node_modules/x/git");
    fixture.check(&[("work/a/.git", "gitdir: ../node_modules/x/git\n")], &[]);
    fixture.check(
        &[("work/node_modules/x/git/hooks/pre-commit", "")],
        &["work/node_modules/x/git/hooks"],
    );
    fixture.create_repository("work/node_modules/y/git");
    let config = "work/node_modules/y/git/config";
    fixture
        .check(&[("work/b/.git", "gitdir: ../node_modules/y/git\n"), (config, MONITOR)], &[config]);
    let long = format!("gitdir: ../node_modules/y/git{}", "\n".repeat(1 << 20));
    fixture.check(&[("work/c/.git", &long)], &["work/c/.git"]);
    // A repository elsewhere is the user's, so only the pointer is quarantined.
    fixture.create_repository("outside/git");
    fixture.write("outside/git/config", MONITOR);
    let watch = fixture.watch(&[]);
    fixture.write("work/d/.git", "gitdir: ../../outside/git\n");
    assert_eq!(fixture.finish(&watch), [fixture.path("work/d/.git")]);
    assert!(fixture.path("outside/git/config").exists());
}

#[test]
fn new_program_steps_of_rebase_are_quarantined() {
    let fixture = WatchFixture::new();
    fixture.create_repository("work/.git");
    fixture.create_repository("work/.git/worktrees/t");
    let todo = "work/.git/rebase-merge/git-rebase-todo";
    fixture.check(&[(todo, "pick 1234 x\nedit 4567 y\n")], &[]);
    fixture.check(&[(todo, EXEC)], &[todo]);
    let other = "work/.git/worktrees/t/rebase-merge/git-rebase-todo";
    fixture.check(&[(other, EXEC)], &[other]);
    // The user's own step stays.
    fixture.write(todo, EXEC);
    fixture.check(&[(todo, "pick 5678 y\nexec ./x\n")], &[]);
    // A link on the way is quarantined instead of the file behind it.
    let watch = fixture.watch(&[]);
    fixture.write("work/steps/todo", EXEC);
    symlink("../steps", fixture.path("work/.git/sequencer")).unwrap();
    assert_eq!(fixture.finish(&watch), [fixture.path("work/.git/sequencer")]);
    assert!(fixture.path("work/steps/todo").exists());
    drop(watch);
    let new = "work/new/.git";
    fixture.create_repository(new);
    let todo = format!("{new}/sequencer/todo");
    fixture.check(&[(&todo, EXEC)], &[&todo]);
}

#[test]
fn concurrent_commands_cannot_configure_new_repository() {
    let fixture = WatchFixture::new();
    let live = Arc::default();
    let first = fixture.watch_with_registry(&[], &live);
    fixture.create_repository("work/a/.git");
    let config = "work/a/.git/config";
    fixture.write(config, MONITOR);
    // To the second command it looks as if the repository had always been there.
    let second = fixture.watch_with_registry(&[], &live);
    assert_eq!(fixture.finish(&first), [fixture.path(config)]);
    fixture.write(config, MONITOR);
    assert_eq!(fixture.finish(&second), [fixture.path(config)]);
}

#[test]
fn changes_beyond_mount_limit_are_quarantined() {
    let fixture = WatchFixture::new();
    for number in 100..230 {
        fixture.create_repository(&format!("work/{number}/.git"));
        fixture.write(&format!("work/{number}/.git/config"), "");
        fixture.write(&format!("work/{number}/.git/hooks/pre-commit"), "");
    }
    let watch = fixture.watch(&[]);
    assert!(watch.finish().quarantined.is_empty());
    for name in ["work/229/.git/config", "work/229/.git/hooks/pre-commit"] {
        // Change times are coarse, so the change is repeated until it has another time.
        let before = path_survey::read_stamp(&fixture.path(name));
        while path_survey::read_stamp(&fixture.path(name)) == before {
            fixture.write(name, "x");
        }
    }
    let expected = ["work/229/.git/hooks", "work/229/.git/config"];
    assert_eq!(fixture.finish(&watch), expected.map(|name| fixture.path(name)));
}

#[test]
fn new_settings_are_quarantined_where_they_are_reported() {
    let fixture = WatchFixture::new();
    for folder in ["a/b", "c", "node_modules/x", "d/.vscode"] {
        fs::create_dir_all(fixture.path("work").join(folder)).unwrap();
    }
    fs::write(fixture.path("work/d/.vscode/.envrc"), "old").unwrap();
    let watch = fixture.watch(&[".npmrc"]);
    let created = [".npmrc", "a/b/.envrc", "c/.envrc", "node_modules/x/.envrc"];
    created.iter().for_each(|name| fs::write(fixture.path("work").join(name), "x").unwrap());
    let report = |names: &[&str]| NewFiles {
        paths: names.iter().map(|name| fixture.path("work").join(name)).collect(),
        is_incomplete: false,
    };
    let near = report(&["a/b/.envrc", "node_modules/x/.envrc", "d/.vscode/x"]);
    assert!(watch.find_new_forbidden(&near).is_some());
    let taken = watch.quarantine_new_settings(&near).quarantined;
    let taken: Vec<PathBuf> = taken.into_iter().map(|taken| taken.path).collect();
    assert_eq!(taken, [".npmrc", "a/b/.envrc"].map(|name| fixture.path("work").join(name)));
    assert_eq!(watch.find_new_forbidden(&near), None);
    let all = NewFiles { is_incomplete: true, ..NewFiles::default() };
    let taken = watch.quarantine_new_settings(&all).quarantined;
    let taken: Vec<PathBuf> = taken.into_iter().map(|taken| taken.path).collect();
    assert_eq!(taken, [fixture.path("work/c/.envrc")]);
}

#[test]
fn new_setting_in_folder_that_settings_open_is_quarantined() {
    let fixture = WatchFixture::new();
    let mut watch = fixture.watch(&[]);
    watch.before.scope.writable = vec![fixture.path("outside")];
    // Only a repository is looked at there: the rest may be a cache.
    fixture.create_repository("outside/x/.git");
    let setting = fixture.path("outside/x/.envrc");
    fs::write(&setting, "x").unwrap();
    let new = NewFiles { paths: BTreeSet::from([setting.clone()]), is_incomplete: false };
    assert!(watch.find_new_forbidden(&new).is_some());
    let taken = watch.quarantine_new_settings(&new).quarantined;
    assert_eq!(taken.into_iter().map(|taken| taken.path).collect::<Vec<_>>(), [setting]);
}

#[test]
fn repository_in_dependencies_is_checked_if_the_command_changed_it() {
    let fixture = WatchFixture::new();
    for folder in ["node_modules/old", "node_modules/moved/x", "target/a/b"] {
        fixture.create_repository(&format!("work/{folder}/.git"));
        fs::write(fixture.path(&format!("work/{folder}/.git/config")), MONITOR).unwrap();
    }
    let hidden = fixture.path("work/target/prepared");
    fs::rename(fixture.path("work/node_modules/moved/x/.git"), &hidden).unwrap();
    // Change times are exact to one second.
    std::thread::sleep(std::time::Duration::from_millis(1_100));
    let live = Arc::<WatchRegistry>::default();
    let watch = fixture.watch_with_registry(&[], &live);
    assert_eq!(fixture.finish(&watch), Vec::<PathBuf>::new(), "all of this was there before");
    let watch = fixture.watch_with_registry(&[], &live);
    fs::rename(&hidden, fixture.path("work/node_modules/moved/x/.git")).unwrap();
    fs::write(fixture.path("work/target/a/b/file"), "").unwrap();
    fs::create_dir_all(fixture.path("work/node_modules/old/.git/hooks")).unwrap();
    for hook in ["pre-commit.sample", "pre-commit"] {
        fs::write(fixture.path("work/node_modules/old/.git/hooks").join(hook), "").unwrap();
    }
    fixture.create_repository("work/node_modules/new/.git");
    fs::write(fixture.path("work/node_modules/new/.git/config"), MONITOR).unwrap();
    let mut taken = fixture.finish(&watch);
    taken.sort();
    let expected = [
        "work/node_modules/moved/x/.git/config",
        "work/node_modules/new/.git/config",
        "work/node_modules/old/.git/hooks/pre-commit",
    ];
    assert_eq!(taken, expected.map(|name| fixture.path(name)));
    assert_eq!(fixture.finish(&watch), Vec::<PathBuf>::new());
}

#[test]
fn swapped_repository_in_dependencies_is_found() {
    let fixture = WatchFixture::new();
    for name in ["node_modules/x/.git", "node_modules/y/.git", "target/prepared"] {
        fixture.create_repository(&format!("work/{name}"));
    }
    fs::write(fixture.path("work/target/prepared/config"), MONITOR).unwrap();
    fs::create_dir_all(fixture.path("work/target/hooks")).unwrap();
    fs::write(fixture.path("work/target/hooks/pre-commit"), "").unwrap();
    // Change times are exact to one second.
    std::thread::sleep(std::time::Duration::from_millis(1_100));
    let live = Arc::<WatchRegistry>::default();
    let watch = fixture.watch_with_registry(&[], &live);
    assert_eq!(fixture.finish(&watch), Vec::<PathBuf>::new(), "all of this was there before");
    let watch = fixture.watch_with_registry(&[], &live);
    let moved = |from: &str, to: &str| {
        let to = fixture.path(to);
        if to.exists() {
            fs::remove_dir_all(&to).unwrap();
        }
        fs::rename(fixture.path(from), to).unwrap();
    };
    moved("work/target/prepared", "work/node_modules/x/.git");
    moved("work/target/hooks", "work/node_modules/y/.git/hooks");
    let mut taken = fixture.finish(&watch);
    taken.sort();
    let expected = ["work/node_modules/x/.git/config", "work/node_modules/y/.git/hooks/pre-commit"];
    assert_eq!(taken, expected.map(|name| fixture.path(name)));
}

#[test]
fn repository_in_dependencies_whose_index_is_written_keeps_its_hooks() {
    let fixture = WatchFixture::new();
    fixture.create_repository("work/node_modules/x/.git");
    let git = fixture.path("work/node_modules/x/.git");
    fs::write(git.join("config"), MONITOR).unwrap();
    fs::create_dir_all(git.join("hooks")).unwrap();
    fs::write(git.join("hooks/pre-commit"), "").unwrap();
    // Change times are exact to one second.
    std::thread::sleep(std::time::Duration::from_millis(1_100));
    let watch = fixture.watch(&[]);
    fs::write(git.join("index"), "").unwrap();
    assert_eq!(fixture.finish(&watch), Vec::<PathBuf>::new());
}
