//! The caches of package managers.
//!
//! Commands cannot change your own caches: a package that one project puts there would run in
//! another. zero has caches of its own, a few folders for each workspace and for each service, to which
//! the variables of the package managers point.
//!
//! Some package managers build from their cache: your downloads must be there, and the paths of their
//! files must not change without need, because programs would then be rebuilt. These use your own
//! cache until a command fails to add to it, and from then on, in this workspace, a cache of zero's.
//!
//! Once a day, caches that no command has used for a month are removed, and the least recently used
//! ones if all together are too large.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::time::Duration;

use zero_sandbox::journal::sha256;
use zero_sandbox::{StateDir, Workspace, path_survey};

/// Subfolder of the state folder with the caches, one folder per workspace.
const CACHES: &str = "packages";
/// File that is touched when a command uses the cache, and locked as long as it runs.
const USED: &str = "used";
/// Folder with the files of the package managers that have no cache of the user's.
const FILES: &str = "files";
/// File in the folder of all caches that is touched when unused ones are removed.
const SWEPT: &str = "swept";
/// How often unused caches are removed at most.
const SWEEP_INTERVAL: Duration = Duration::from_secs(24 * 60 * 60);
/// Start of the names of caches that are being removed.
const REMOVED: &str = "removed-";
/// How long an unused cache is kept.
const UNUSED_AGE_MAX: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// Most files of a cache that are counted. One with more counts as too large.
const ENTRIES_MAX: usize = 2_000_000;
/// Size of all caches above which the least recently used ones are removed, unless a setting says
/// otherwise.
pub(crate) const CACHE_BYTES_MAX: u64 = 10_000_000_000;

/// Variables of package managers that need nothing of the user's cache, and their folders. Gems are
/// found in the folders of the system and of the user as well.
const VARIABLES: &[(&str, &str)] = &[
    ("npm_config_cache", "npm"),
    ("PIP_CACHE_DIR", "pip"),
    ("UV_CACHE_DIR", "uv"),
    // `uvx` creates this folder even if it only runs a tool.
    ("UV_TOOL_DIR", "uv-tools"),
    ("GOCACHE", "go-build"),
    ("GEM_HOME", "gem"),
    ("GEM_SPEC_CACHE", "gem-specs"),
    ("BUNDLE_USER_CACHE", "bundle"),
];

/// A package manager that uses the user's cache as long as nothing has to be added to it.
struct SharedCache {
    /// Its usual name.
    program: &'static str,
    /// The folder of zero's cache.
    folder: &'static str,
    /// The variables with the folder of the user's, each with what is below it. The first one counts.
    named_by: &'static [(&'static str, &'static str)],
    /// That folder in the home folder, if no variable is set.
    in_home: &'static str,
    /// What is below it and has the packages.
    packages: &'static str,
    /// Files of the user's folder that belong to the other as well.
    linked: &'static [&'static str],
    /// The variables that lead to zero's cache: `{cache}` is its folder and `{user}` that of the
    /// user, `{old}` what the variable was before.
    variables: &'static [(&'static str, &'static str)],
}

static SHARED_CACHES: &[SharedCache] = &[
    SharedCache {
        program: "Cargo",
        folder: "cargo",
        named_by: &[("CARGO_HOME", "")],
        in_home: ".cargo",
        packages: "registry",
        linked: &["config.toml", "config"],
        variables: &[("CARGO_HOME", "{cache}")],
    },
    SharedCache {
        program: "Go",
        folder: "go-mod",
        named_by: &[("GOMODCACHE", ""), ("GOPATH", "pkg/mod")],
        in_home: "go/pkg/mod",
        packages: "",
        linked: &[],
        // Modules of the user need not be downloaded again.
        variables: &[("GOMODCACHE", "{cache}"), ("GOPROXY", "file://{user}/cache/download,{old}")],
    },
    SharedCache {
        program: "Maven",
        folder: "maven",
        named_by: &[],
        in_home: ".m2/repository",
        packages: "",
        linked: &[],
        variables: &[(
            "MAVEN_OPTS",
            "{old} -Dmaven.repo.local={cache} -Dmaven.repo.local.tail={user}",
        )],
    },
];

/// What variables are before, if nothing sets them.
const DEFAULT_VALUES: &[(&str, &str)] = &[("GOPROXY", "https://proxy.golang.org,direct")];
/// File with settings of Go, in the home folder. Variables override it.
const GO_SETTINGS: &str = ".config/go/env";
const GO_SETTINGS_BYTES_MAX: u64 = 64 * 1024;

/// What programs say if they cannot write, in lower case.
const READ_ONLY_MESSAGES: &[&str] = &["read-only file system", "erofs"];

/// What is known of the user for whom commands run.
#[derive(Clone, Copy)]
pub(crate) struct CacheOwner<'a> {
    /// zero's state folder.
    pub(crate) state: &'a Path,
    pub(crate) home: Option<&'a Path>,
    /// The variables that commands get.
    pub(crate) environment: &'a [(String, String)],
    /// Folders outside the workspace that commands may change.
    pub(crate) writable: &'a [PathBuf],
    /// Size of all caches above which the least recently used ones are removed.
    pub(crate) bytes_max: u64,
    /// The service that has caches of its own. Commands of a workspace could otherwise change programs
    /// that run with more access than they have.
    pub(crate) service: Option<&'a str>,
}

impl CacheOwner<'_> {
    fn value(&self, name: &str) -> Option<&str> {
        let (_, value) = self.environment.iter().find(|(known, _)| known == name)?;
        Some(value.as_str()).filter(|value| !value.is_empty())
    }

    /// The user's folder for packages, if it is known.
    fn own_folder(&self, shared: &SharedCache) -> Option<PathBuf> {
        let named = shared.named_by.iter().find_map(|(name, below)| {
            let first = self.value(name)?.split(':').next()?;
            Some(Path::new(first).join(below))
        });
        named.or_else(|| self.home.map(|home| home.join(shared.in_home)))
    }

    fn old_value(&self, name: &str) -> String {
        let of_go = || {
            let settings = self.home?.join(GO_SETTINGS);
            let text = path_survey::read_small_file(&settings, GO_SETTINGS_BYTES_MAX)?;
            let text = String::from_utf8_lossy(&text).into_owned();
            let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
            value.map(str::to_owned)
        };
        let default = || DEFAULT_VALUES.iter().find(|(known, _)| *known == name);
        let set = self.value(name).map(str::to_owned).or_else(of_go);
        set.or_else(|| default().map(|(_, value)| (*value).to_owned())).unwrap_or_default()
    }
}

/// The caches of one workspace. Those are not removed while this lives.
#[derive(Debug)]
pub struct PackageCaches {
    cache: StateDir,
    folders: Vec<PathBuf>,
    variables: Vec<(OsString, OsString)>,
    /// The user's folders that commands still use, with the place in the table.
    own_folders: Vec<(usize, PathBuf)>,
    _lease: File,
}

impl PackageCaches {
    /// Makes the caches of a workspace. Unused ones are removed in the background, once a day.
    pub(crate) fn open(owner: &CacheOwner<'_>, workspace: &Workspace) -> io::Result<Self> {
        static SWEEP: Once = Once::new();
        let caches = StateDir::new(owner.state).child(CACHES);
        let key = match owner.service {
            Some(service) => sha256(format!("service {service}").as_bytes()),
            None => sha256(workspace.cwd().as_os_str().as_encoded_bytes()),
        };
        let cache = caches.child(key.get(..16).unwrap_or(&key));
        let files = cache.child(FILES);
        files.create()?;
        let lease = cache.lock_file(USED)?;
        lease.lock_shared()?;
        cache.touch(USED)?;
        let bytes_max = owner.bytes_max;
        SWEEP.call_once(|| start_sweep(caches, bytes_max));
        let mut variables = Vec::new();
        for (name, folder) in VARIABLES {
            if !owner.has_writable(name, workspace) {
                variables.push((name.into(), files.path().join(folder).into_os_string()));
            }
        }
        // Gems of the folder that a variable named would not be found any more.
        if let (Some(gems), None) = (owner.value("GEM_HOME"), owner.value("GEM_PATH")) {
            variables.push(("GEM_PATH".into(), gems.into()));
        }
        let (folders, own_folders) = (vec![files.path().to_owned()], Vec::new());
        let mut opened = Self { cache, folders, variables, own_folders, _lease: lease };
        for (index, shared) in SHARED_CACHES.iter().enumerate() {
            opened.add_shared(index, shared, owner, workspace)?;
        }
        Ok(opened)
    }

    fn add_shared(
        &mut self,
        index: usize,
        shared: &SharedCache,
        owner: &CacheOwner<'_>,
        workspace: &Workspace,
    ) -> io::Result<()> {
        let Some(user) = owner.own_folder(shared) else { return Ok(()) };
        if owner.is_writable(&user.join(shared.packages), workspace) {
            return Ok(());
        }
        let folder = self.cache.child(shared.folder);
        if !path_survey::exists(folder.path()) {
            if path_survey::exists(&user.join(shared.packages)) {
                self.own_folders.push((index, user));
                return Ok(());
            }
            create_shared(&self.cache, shared, &user)?;
        }
        let (Some(cache), Some(user)) = (folder.path().to_str(), user.to_str()) else {
            return Ok(());
        };
        // A value with several words has no way to quote one.
        if [cache, user].iter().any(|path| path.contains([' ', '\t', ','])) {
            return Ok(());
        }
        for (name, value) in shared.variables {
            let value = value.replace("{cache}", cache).replace("{user}", user);
            let value = value.replace("{old}", &owner.old_value(name));
            self.variables.push((name.into(), value.trim().into()));
        }
        self.folders.push(folder.path().to_owned());
        Ok(())
    }

    /// The folders that commands may change.
    pub(crate) fn folders(&self) -> &[PathBuf] {
        &self.folders
    }

    /// The variables that point package managers to their caches.
    pub(crate) fn variables(&self) -> Vec<(OsString, OsString)> {
        self.variables.clone()
    }

    /// If a command failed, with this output, because it could not add to the user's cache: makes a
    /// cache for later commands, and returns what to tell.
    pub(crate) fn replace_read_only(&self, text: &str) -> Option<String> {
        let lower = text.to_lowercase();
        if !READ_ONLY_MESSAGES.iter().any(|message| lower.contains(message)) {
            return None;
        }
        let is_named = |(_, user): &&(usize, PathBuf)| {
            user.to_str().is_some_and(|user| text.contains(&format!("{user}/")))
        };
        let (index, user) = self.own_folders.iter().find(is_named)?;
        let shared = SHARED_CACHES.get(*index)?;
        if let Err(error) = create_shared(&self.cache, shared, user) {
            tracing::warn!(%error, "no cache for packages could be made");
            return None;
        }
        Some(format!(
            "{} has to download packages, and commands cannot change `{}`; from now on, commands in this workspace use a cache of zero's own: run the command again",
            shared.program,
            user.display()
        ))
    }
}

impl CacheOwner<'_> {
    /// Whether a variable names a folder that commands may change anyway.
    fn has_writable(&self, name: &str, workspace: &Workspace) -> bool {
        self.value(name).is_some_and(|value| self.is_writable(Path::new(value), workspace))
    }

    fn is_writable(&self, folder: &Path, workspace: &Workspace) -> bool {
        let roots = workspace.roots().map(Path::to_owned);
        let folders: Vec<PathBuf> = roots.chain(self.writable.iter().cloned()).collect();
        folder.is_absolute() && !path_survey::is_outside(folder, &folders)
    }
}

/// Makes the folder of a cache that replaces the user's. No command can write to it before.
fn create_shared(cache: &StateDir, shared: &SharedCache, user: &Path) -> io::Result<()> {
    let new = format!("new-{:016x}", fastrand::u64(..));
    let folder = cache.child(&new);
    folder.create()?;
    for name in shared.linked.iter().filter(|name| path_survey::exists(&user.join(name))) {
        folder.link(name, &user.join(name))?;
    }
    match cache.rename(&new, shared.folder) {
        // Another command was faster.
        Err(_) if path_survey::exists(cache.child(shared.folder).path()) => folder.remove_all(),
        renamed => renamed,
    }
}

/// Removes unused caches on a thread of its own, unless that was done today.
fn start_sweep(caches: StateDir, bytes_max: u64) {
    if caches.age(SWEPT).is_ok_and(|age| age < SWEEP_INTERVAL) {
        return;
    }
    if caches.touch(SWEPT).is_err() && caches.open_append(SWEPT).is_err() {
        return;
    }
    let sweep = move || remove_unused(&caches, UNUSED_AGE_MAX, bytes_max);
    // A failed sweep is tried again the next day.
    let _ = std::thread::Builder::new().name("zero-caches".to_owned()).spawn(sweep);
}

/// Removes caches that were not used for so long, and then the least recently used ones until all
/// together have at most `bytes_max`. One that a command uses now stays.
fn remove_unused(caches: &StateDir, age_max: Duration, bytes_max: u64) {
    let mut found: Vec<(Duration, String)> = Vec::new();
    for name in caches.list_names().unwrap_or_default() {
        let cache = caches.child(&name);
        if name.starts_with(REMOVED) {
            report(cache.remove_all());
        } else if let Ok(age) = cache.age(USED) {
            found.push((age, name));
        }
    }
    // The most recently used first.
    found.sort();
    let mut bytes = 0_u64;
    for (age, name) in found {
        let size = path_survey::read_tree_bytes(caches.child(&name).path(), ENTRIES_MAX);
        let sum = size.and_then(|size| bytes.checked_add(size)).filter(|sum| *sum <= bytes_max);
        match sum.filter(|_| age <= age_max) {
            Some(sum) => bytes = sum,
            None => report(remove_idle(caches, &name)),
        }
    }
}

/// Removes a cache, unless a command uses it.
fn remove_idle(caches: &StateDir, name: &str) -> io::Result<()> {
    let Some(lock) = caches.child(name).existing_lock_file(USED)? else { return Ok(()) };
    if lock.try_lock().is_err() {
        return Ok(());
    }
    // A command that starts meanwhile makes a new one.
    let removed = format!("{REMOVED}{name}-{:08x}", fastrand::u32(..));
    caches.rename(name, &removed)?;
    caches.child(&removed).remove_all()
}

fn report(removed: io::Result<()>) {
    if let Err(error) = removed {
        tracing::warn!(%error, "an unused package cache could not be removed");
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests create real files")]
mod tests {
    use super::*;

    struct CacheFixture {
        temp: tempfile::TempDir,
        environment: Vec<(String, String)>,
        writable: Vec<PathBuf>,
    }

    impl CacheFixture {
        fn new() -> Self {
            let temp = tempfile::tempdir().unwrap();
            std::fs::create_dir_all(temp.path().join("home")).unwrap();
            Self { temp, environment: Vec::new(), writable: Vec::new() }
        }

        fn path(&self, name: &str) -> PathBuf {
            self.temp.path().canonicalize().unwrap().join(name)
        }

        fn write(&self, name: &str, text: &str) {
            std::fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
            std::fs::write(self.path(name), text).unwrap();
        }

        fn caches(&self) -> StateDir {
            StateDir::new(self.path("state")).child(CACHES)
        }

        fn open(&self, workspace: &str) -> PackageCaches {
            self.open_for(workspace, None)
        }

        fn open_for(&self, workspace: &str, service: Option<&str>) -> PackageCaches {
            let root = self.path(workspace);
            std::fs::create_dir_all(&root).unwrap();
            let owner = CacheOwner {
                state: &self.path("state"),
                home: Some(&self.path("home")),
                environment: &self.environment,
                writable: &self.writable,
                bytes_max: CACHE_BYTES_MAX,
                service,
            };
            PackageCaches::open(&owner, &Workspace::open(&[root], None).unwrap()).unwrap()
        }
    }

    fn find_value(caches: &PackageCaches, name: &str) -> Option<String> {
        let variables = caches.variables();
        let found = variables.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.to_str().unwrap().to_owned())
    }

    #[test]
    fn workspaces_have_caches_of_their_own() {
        let f = CacheFixture::new();
        let (one, again, other) = (f.open("a"), f.open("a"), f.open("b"));
        assert_eq!(one.folders(), again.folders());
        assert_ne!(one.folders(), other.folders());
        let files = one.folders()[0].clone();
        assert!(files.is_dir() && files.starts_with(f.path("state")));
        for (name, folder) in [("npm_config_cache", "npm"), ("GEM_HOME", "gem")] {
            let expected = files.join(folder).to_str().unwrap().to_owned();
            assert_eq!(find_value(&one, name), Some(expected), "{name}");
        }
    }

    #[test]
    fn services_have_caches_of_their_own_in_every_workspace() {
        let f = CacheFixture::new();
        let (command, service) = (f.open("a"), f.open_for("a", Some("npx x")));
        assert_ne!(command.folders(), service.folders());
        assert_eq!(service.folders(), f.open_for("b", Some("npx x")).folders());
        assert_ne!(service.folders(), f.open_for("a", Some("npx y")).folders());
    }

    #[test]
    fn cache_is_removed_when_unused_or_too_large_and_kept_in_use() {
        let f = CacheFixture::new();
        let folders = ["a", "b", "c"].map(|name| {
            let opened = f.open(name);
            std::fs::write(opened.folders()[0].join("file"), vec![1; 100_000]).unwrap();
            let cache = opened.cache.clone();
            (cache, opened)
        });
        let [(a, used), (b, done_b), (c, done_c)] = folders;
        drop((done_b, done_c));
        let set_age = |cache: &StateDir, days: u64| {
            let file = File::options().write(true).open(cache.path().join(USED)).unwrap();
            let age = Duration::from_secs(days * 24 * 60 * 60);
            file.set_modified(std::time::SystemTime::now() - age).unwrap();
        };
        let exist = || [&a, &b, &c].map(|cache| cache.path().exists());
        set_age(&a, 40);
        set_age(&b, 2);
        set_age(&c, 1);
        remove_unused(&f.caches(), UNUSED_AGE_MAX, 300_000_000);
        assert_eq!(exist(), [true, true, true], "the old one is in use");
        drop(used);
        // There is room for two, and the third is the least recently used one.
        set_age(&a, 3);
        remove_unused(&f.caches(), UNUSED_AGE_MAX, 300_000);
        assert_eq!(exist(), [false, true, true]);
        remove_unused(&f.caches(), Duration::from_secs(36 * 60 * 60), 300_000_000);
        assert_eq!(exist(), [false, false, true]);
        remove_unused(&f.caches(), UNUSED_AGE_MAX, 1);
        assert_eq!(exist(), [false, false, false]);
    }

    #[test]
    fn caches_are_removed_once_a_day() {
        let f = CacheFixture::new();
        f.caches().create().unwrap();
        let old = f.caches().child("removed-x");
        old.create().unwrap();
        f.write("state/packages/swept", "");
        start_sweep(f.caches(), 1);
        assert!(old.path().exists());
        std::fs::remove_file(f.path("state/packages/swept")).unwrap();
        start_sweep(f.caches(), 1);
        for _ in 0..10_000 {
            if !old.path().exists() {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(!old.path().exists());
        assert!(f.path("state/packages/swept").exists());
    }

    #[test]
    fn own_cache_is_used_until_it_would_have_to_grow() {
        let mut f = CacheFixture::new();
        f.write("home/.cargo/registry/cache/x.crate", "");
        f.write("home/.cargo/config.toml", "[net]\n");
        f.write("home/go/pkg/mod/x/go.mod", "");
        f.write("home/.config/go/env", "GOPROXY=https://proxy.test\n");
        f.write("home/.m2/repository/x.pom", "");
        f.environment.push(("MAVEN_OPTS".to_owned(), "-Xmx1g".to_owned()));
        let check = |name: &str, expected: &str| {
            let found = find_value(&f.open("a"), name);
            let cache = f.open("a").cache.path().to_str().unwrap().to_owned();
            let expected = expected.replace("{cache}", &cache);
            let expected = expected.replace("{home}", f.path("home").to_str().unwrap());
            assert_eq!(found.unwrap_or_default(), expected, "{name}");
        };
        for name in ["CARGO_HOME", "GOMODCACHE", "GOPROXY", "MAVEN_OPTS"] {
            check(name, "");
        }
        let fail = |user: &str, message: &str| {
            let text = format!("failed to open `{}/x`\n{message}", f.path(user).display());
            f.open("a").replace_read_only(&text)
        };
        assert_eq!(fail("home/.cargo/registry", "No space left on device"), None);
        assert_eq!(fail("home/.other", "Read-only file system (os error 30)"), None);
        let note = fail("home/.cargo/registry", "Read-only file system (os error 30)").unwrap();
        assert!(note.starts_with("Cargo has to download packages"), "{note}");
        check("CARGO_HOME", "{cache}/cargo");
        check("GOMODCACHE", "");
        let cargo = f.open("a").folders()[1].clone();
        assert_eq!(std::fs::read_to_string(cargo.join("config.toml")).unwrap(), "[net]\n");
        assert_eq!(find_value(&f.open("b"), "CARGO_HOME"), None, "another workspace");
        fail("home/go/pkg/mod", "mkdir: read-only file system").unwrap();
        check("GOMODCACHE", "{cache}/go-mod");
        check("GOPROXY", "file://{home}/go/pkg/mod/cache/download,https://proxy.test");
        fail("home/.m2/repository", "(Read-only file system)").unwrap();
        let maven = "-Xmx1g -Dmaven.repo.local={cache}/maven \
                     -Dmaven.repo.local.tail={home}/.m2/repository";
        check("MAVEN_OPTS", maven);
    }

    #[test]
    fn cache_of_zero_is_used_where_the_user_has_none() {
        let mut f = CacheFixture::new();
        let cargo = f.open("a").cache.child("cargo").path().to_str().unwrap().to_owned();
        assert_eq!(find_value(&f.open("a"), "CARGO_HOME"), Some(cargo));
        // One that commands may change stays.
        f.environment = ["CARGO_HOME", "PIP_CACHE_DIR"]
            .map(|name| (name.to_owned(), f.path("open").to_str().unwrap().to_owned()))
            .to_vec();
        std::fs::create_dir_all(f.path("open")).unwrap();
        assert!(find_value(&f.open("b"), "PIP_CACHE_DIR").is_some());
        f.writable.push(f.path("open"));
        for name in ["CARGO_HOME", "PIP_CACHE_DIR"] {
            assert_eq!(find_value(&f.open("b"), name), None, "{name}");
        }
    }
}
