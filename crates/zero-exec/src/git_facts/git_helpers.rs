//! Finds the programs that a repository itself makes git run.
//!
//! A repository's settings and hooks can name programs. They are as trustworthy as the author of
//! the repository, so git must not run there before the user has seen them.

use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use zero_sandbox::path_survey::{self, FolderListing, ScanOutcome};

use super::git_config::{self, GitSetting};
use super::git_index;
use super::git_location::RepositoryLocation;

/// Most bytes of a git configuration that are read; a larger file counts as a helper itself. Each
/// local branch takes a hundred.
const CONFIG_BYTES_MAX: u64 = 1 << 20;
/// Most included files that are read.
const INCLUDES_MAX: usize = 1_000;
/// Most hooks that are listed; a folder with more counts as a helper itself.
const HOOKS_MAX: usize = 200;
/// Most names visited in search of nested repositories, and the maximum depth. Further names count
/// as helpers; so do repositories of submodules further down, which git reads whatever their depth.
const NAMES_MAX: usize = 20_000;
const MODULES_DEPTH_MAX: usize = 8;
const NESTED_DEPTH_MAX: usize = 1;
/// Most repositories that are inspected for one command; more count as helpers.
const REPOSITORIES_MAX: usize = 1_000;
/// The helper that stands for those that were not searched.
const NOT_SEARCHED: &str = "nested repositories, which are too many to inspect";

/// The helpers of the repository that contains `folder`; empty if there is none.
pub(super) fn find_helpers(folder: &Path) -> Vec<String> {
    if path_survey::file_type(folder).is_none() {
        // The command that creates the folder may create a repository in it.
        return vec!["a folder that does not exist yet".to_owned()];
    }
    let mut search = HelperSearch::default();
    for folder in folder.ancestors() {
        if let Some(found) = RepositoryLocation::find(folder) {
            let is_certain = found.is_certain;
            search.add_inner_repositories(folder, &found.git_folders);
            search.add_repository(folder, found);
            if is_certain {
                break;
            }
        }
    }
    while let Some((folder, found)) = search.open.pop() {
        search.inspect_repository(&folder, found);
    }
    search.helpers.into_iter().collect()
}

/// The helpers of a single repository, by its git folder.
pub(super) fn find_repository_helpers(git: &Path) -> Vec<String> {
    let mut helpers = BTreeSet::new();
    collect_helpers(git, &mut helpers);
    helpers.into_iter().collect()
}

/// The helpers that a file with settings configures; the file itself if it cannot be read.
pub(super) fn find_config_helpers(config: &Path) -> Vec<String> {
    let mut helpers = BTreeSet::new();
    collect_config_helpers(config, &mut helpers);
    helpers.into_iter().collect()
}

/// A search for the helpers of a repository and of those that git reads with it.
#[derive(Default)]
struct HelperSearch {
    helpers: BTreeSet<String>,
    /// Working folders that are still to be inspected.
    open: Vec<(PathBuf, RepositoryLocation)>,
    inspected: BTreeSet<PathBuf>,
}

impl HelperSearch {
    fn add_repository(&mut self, folder: &Path, found: RepositoryLocation) {
        if self.inspected.contains(folder) {
            return;
        }
        if self.inspected.len() >= REPOSITORIES_MAX {
            self.helpers.insert(NOT_SEARCHED.to_owned());
            return;
        }
        self.inspected.insert(folder.to_owned());
        self.open.push((folder.to_owned(), found));
    }

    fn inspect_repository(&mut self, folder: &Path, found: RepositoryLocation) {
        let names = found.unknown_pointers.iter().filter_map(|pointer| pointer.file_name());
        self.helpers.extend(names.map(|name| name.to_string_lossy().into_owned()));
        for git in &found.git_folders {
            collect_helpers(git, &mut self.helpers);
            let Some(links) = git_index::read_index(git, &|_| false).map(|index| index.links)
            else {
                self.helpers.insert("index".to_owned());
                continue;
            };
            for inner in links.into_iter().map(|link| folder.join(link)) {
                if let Some(found) = RepositoryLocation::find(&inner) {
                    self.add_repository(&inner, found);
                }
            }
        }
    }

    /// Adds the repositories of submodules, and those in the folders beneath `root`, which `git add`
    /// makes part of it. Git does not read others.
    fn add_inner_repositories(&mut self, root: &Path, git: &[PathBuf]) {
        let mut open: Vec<(PathBuf, usize, bool)> =
            git.iter().map(|git| (git.join("modules"), MODULES_DEPTH_MAX, true)).collect();
        open.push((root.to_owned(), NESTED_DEPTH_MAX, false));
        let mut left = NAMES_MAX;
        while let Some((folder, depth, is_modules)) = open.pop() {
            let mut folders = Vec::new();
            let scanned = path_survey::scan_folder(&folder, left, |name, is_folder| {
                left -= 1;
                if is_folder && name != ".git" {
                    folders.push(folder.join(name));
                }
            });
            if scanned == ScanOutcome::Part {
                self.helpers.insert(NOT_SEARCHED.to_owned());
                return;
            }
            for inner in folders {
                match RepositoryLocation::find(&inner) {
                    Some(found) => {
                        if is_modules {
                            open.push((inner.join("modules"), depth.saturating_sub(1), true));
                        }
                        self.add_repository(&inner, found);
                    }
                    None if depth > 0 => open.push((inner, depth - 1, is_modules)),
                    None if is_modules => _ = self.helpers.insert(NOT_SEARCHED.to_owned()),
                    None => {}
                }
            }
        }
    }
}

/// The values of a setting in a file, in the order written, by its full name in lower case.
pub(super) fn read_values(config: &Path, name: &str) -> Vec<String> {
    let content = path_survey::read_small_file(config, CONFIG_BYTES_MAX).unwrap_or_default();
    let settings = git_config::parse_settings(&String::from_utf8_lossy(&content));
    let named = settings.into_iter().flatten().filter(|setting| setting.name == name);
    named.map(|setting| setting.value).collect()
}

/// How git uses a setting that makes it run something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum HelperUse {
    /// As the path of a file.
    Path,
    /// As a script for a shell; a `!` may precede it.
    Script,
    /// As a command of git with its arguments; as a script for a shell after a `!`.
    Alias,
}

/// The value of a setting that makes git run something.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct HelperValue {
    pub(crate) text: String,
    pub(crate) used_as: HelperUse,
}

/// What matters in a file with settings of git.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ConfigSummary {
    /// The files that it includes, as written, whatever the conditions.
    includes: Vec<String>,
    /// The folders of hooks that it names.
    pub(crate) hooks_folders: Vec<String>,
    /// The working folders that it names, relative to the git folder.
    pub(crate) work_folders: Vec<String>,
    /// The values of its settings that make git run something.
    pub(crate) helpers: Vec<HelperValue>,
}

/// Why the settings in a file are not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConfigError {
    /// Git itself cannot read it and does not run.
    Malformed,
    /// Git reads it, but it is too large to be checked here, or includes too many files.
    TooLarge,
}

/// Reads a file with settings of git. A missing file has none.
pub(super) fn read_config(config: &Path) -> Result<ConfigSummary, ConfigError> {
    if !path_survey::exists(config) {
        return Ok(ConfigSummary::default());
    }
    let Some(content) = path_survey::read_small_file(config, CONFIG_BYTES_MAX) else {
        return Err(match path_survey::is_larger_than(config, CONFIG_BYTES_MAX) {
            true => ConfigError::TooLarge,
            false => ConfigError::Malformed,
        });
    };
    let settings = git_config::parse_settings(&String::from_utf8_lossy(&content));
    let mut summary = ConfigSummary::default();
    for setting in settings.ok_or(ConfigError::Malformed)? {
        let name = setting.name.as_str();
        match name {
            "core.hookspath" => summary.hooks_folders.push(setting.value),
            "core.worktree" => summary.work_folders.push(setting.value),
            _ if is_include(name) => summary.includes.push(setting.value),
            _ if is_helper_setting(name, &setting.value) && !is_location(name) => {
                let used_as = find_helper_use(name);
                summary.helpers.push(HelperValue { used_as, text: setting.value });
            }
            _ => {}
        }
    }
    Ok(summary)
}

fn find_helper_use(name: &str) -> HelperUse {
    let last = name.rsplit('.').next().unwrap_or_default();
    match last {
        _ if name.starts_with("alias.") => HelperUse::Alias,
        "attributesfile" | "templatedir" | "path" | "program" | "askpass" | "smtpserver" => {
            HelperUse::Path
        }
        _ => HelperUse::Script,
    }
}

/// Whether a setting names a place that is protected in another way, or a URL.
fn is_location(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or(name);
    is_include(name)
        || matches!(name, "core.hookspath" | "core.worktree")
        || matches!(last, "insteadof" | "pushinsteadof" | "allow" | "proxy" | "vcs")
}

/// A file with settings of git, with all files that it includes, directly or indirectly.
#[derive(Debug, Default)]
pub(crate) struct ConfigChain {
    /// The included files, whether or not they exist.
    pub(crate) included: Vec<PathBuf>,
    pub(crate) summaries: Vec<Arc<ConfigSummary>>,
    /// The files whose settings are not known.
    pub(crate) errors: Vec<(PathBuf, ConfigError)>,
}

/// Reads a configuration and the files that it includes by `read`.
pub(super) fn read_config_chain(
    config: &Path,
    home: Option<&Path>,
    mut read: impl FnMut(&Path) -> Result<Arc<ConfigSummary>, ConfigError>,
) -> ConfigChain {
    let mut chain = ConfigChain::default();
    let mut known = HashSet::from([config.to_owned()]);
    let mut open = vec![config.to_owned()];
    while let Some(file) = open.pop() {
        let summary = match read(&file) {
            Ok(summary) => summary,
            Err(error) => {
                chain.errors.push((file, error));
                continue;
            }
        };
        for written in &summary.includes {
            let in_home = written.strip_prefix("~/").and_then(|rest| Some(home?.join(rest)));
            let beside = || file.parent().map(|folder| folder.join(written));
            let path = in_home.or_else(beside).and_then(|path| path_survey::canonicalize(&path));
            let Some(path) = path.filter(|path| !known.contains(path)) else { continue };
            if known.len() > INCLUDES_MAX {
                chain.errors.push((config.to_owned(), ConfigError::TooLarge));
                return chain;
            }
            known.insert(path.clone());
            open.push(path.clone());
            chain.included.push(path);
        }
        chain.summaries.push(summary);
    }
    chain
}

fn is_include(name: &str) -> bool {
    name == "include.path" || name.starts_with("includeif.") && name.ends_with(".path")
}

fn collect_helpers(git: &Path, helpers: &mut BTreeSet<String>) {
    for name in ["config", "config.worktree"] {
        collect_config_helpers(&git.join(name), helpers);
    }
    match path_survey::list_folder(&git.join("hooks"), HOOKS_MAX) {
        FolderListing::NoFolder => {}
        FolderListing::TooMany | FolderListing::Closed => _ = helpers.insert("hooks".to_owned()),
        FolderListing::Names(names) => {
            helpers.extend(names.into_iter().filter_map(|hook| {
                let name = hook.name.to_string_lossy();
                let runs = !name.ends_with(".sample")
                    && path_survey::is_program(&git.join("hooks").join(&hook.name));
                runs.then(|| format!("hooks/{name}"))
            }));
        }
    }
}

fn collect_config_helpers(config: &Path, helpers: &mut BTreeSet<String>) {
    helpers.extend(find_helper_settings(config).into_iter().map(|setting| setting.name));
}

/// The settings in a file that make git run something; the file itself if it cannot be read.
pub(super) fn find_helper_settings(config: &Path) -> BTreeSet<GitSetting> {
    if !path_survey::exists(config) {
        return BTreeSet::new();
    }
    let settings = path_survey::read_small_file(config, CONFIG_BYTES_MAX)
        .and_then(|content| git_config::parse_settings(&String::from_utf8_lossy(&content)));
    match settings {
        Some(settings) => settings
            .into_iter()
            .filter(|setting| is_helper_setting(&setting.name, &setting.value))
            .collect(),
        None => {
            let name = config.file_name().unwrap_or_default().to_string_lossy().into_owned();
            BTreeSet::from([GitSetting { name, value: String::new() }])
        }
    }
}

/// The values of a setting in a file; `None` if the file cannot be read.
pub(super) fn read_setting(config: &Path, name: &str) -> Option<Vec<String>> {
    let content = path_survey::read_small_file(config, CONFIG_BYTES_MAX)?;
    let settings = git_config::parse_settings(&String::from_utf8_lossy(&content))?;
    let values = settings.into_iter().filter(|setting| setting.name == name);
    Some(values.map(|setting| setting.value).collect())
}

pub(super) fn is_helper_setting(name: &str, value: &str) -> bool {
    let off = matches!(value.to_ascii_lowercase().as_str(), "false" | "no" | "off" | "0" | "");
    let last = name.rsplit('.').next().unwrap_or(name);
    let first = name.split('.').next().unwrap_or(name);
    match name {
        // A number or a truth value switches the built-in monitor on; anything else is a program.
        "core.fsmonitor" => !off && !matches!(value, "true" | "1" | "yes" | "on"),
        "core.pager"
        | "core.editor"
        | "core.sshcommand"
        | "core.askpass"
        | "core.gitproxy"
        | "core.alternaterefscommand"
        | "sequence.editor"
        | "diff.external"
        | "interactive.difffilter"
        | "web.browser"
        | "uploadpack.packobjectshook"
        | "svn.authorsprog"
        | "svn.authors-prog"
        | "instaweb.httpd" => !off,
        // A path may have any name, such as `off`.
        "core.hookspath"
        | "core.attributesfile"
        | "core.worktree"
        | "include.path"
        | "init.templatedir" => !matches!(value, "" | "/dev/null"),
        _ => match (first, last) {
            ("alias" | "pager" | "man" | "browser" | "guitool", _) => !off,
            // The name of a script in git's own folder, or of any other by a path.
            ("merge" | "diff", "tool" | "guitool") => value.contains('/'),
            ("diff", "textconv" | "command") => true,
            ("filter", "clean" | "smudge" | "process") => true,
            ("merge", "driver") | ("mergetool" | "difftool", "cmd" | "path") => true,
            ("credential", "helper") | ("gpg", "program") | ("trailer", "command" | "cmd") => true,
            ("includeif", "path") => true,
            ("remote", "vcs" | "uploadpack" | "receivepack" | "proxy") => true,
            ("submodule", "update") => value.starts_with('!'),
            ("url", "insteadof" | "pushinsteadof") => true,
            ("protocol", "allow") => true,
            ("hook", "command") | ("tar", "command") | ("imap", "tunnel") => true,
            ("gpg", "defaultkeycommand") | ("gc", "recentobjectshook") => true,
            ("lfs", "path" | "args" | "clean" | "smudge") => true,
            ("trace2", _) | ("sendemail", "sendmailcmd" | "tocmd" | "cccmd" | "headercmd") => true,
            // Also that of an identity; an absolute path is a program.
            ("sendemail", "smtpserver") => !off,
            _ => false,
        },
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests set up real files")]
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[track_caller]
    fn check(config: &str, expected: &[&str]) {
        let settings = git_config::parse_settings(config).unwrap();
        let found: Vec<String> = settings
            .into_iter()
            .filter(|setting| is_helper_setting(&setting.name, &setting.value))
            .map(|setting| setting.name)
            .collect();
        assert_eq!(found, expected, "{config}");
    }

    #[test]
    fn settings_that_run_programs_are_found() {
        check("[core]\n\tbare = false\n\tfsmonitor = /tmp/x", &["core.fsmonitor"]);
        check("[core] fsmonitor = true", &[]);
        check("[CORE]\nFSMonitor=./evil", &["core.fsmonitor"]);
        check("[diff \"word\"]\n textconv = strings", &["diff.word.textconv"]);
        check("[diff]\n external = x\n[alias]\n st = !rm", &["diff.external", "alias.st"]);
        check("[filter \"lfs\"]\n smudge = git-lfs smudge", &["filter.lfs.smudge"]);
        check("[core]\n hooksPath = .husky", &["core.hookspath"]);
        check(
            "[core]\n hooksPath = off\n[include]\n path = no",
            &["core.hookspath", "include.path"],
        );
        check("[core]\n hooksPath = /dev/null", &[]);
        check("[merge]\n tool = vimdiff\n guitool = ../../x", &["merge.guitool"]);
        check("[lfs \"customtransfer.x\"]\n path = ./x", &["lfs.customtransfer.x.path"]);
        check("[remote \"origin\"]\n url = https://x\n[user]\n name = a", &[]);
        check("[sendemail]\n smtpServer = ./x", &["sendemail.smtpserver"]);
        check("[sendemail \"work\"]\n smtpServer = ./x", &["sendemail.work.smtpserver"]);
        check("; [diff]\n# external = x", &[]);
    }

    #[test]
    fn hooks_and_worktrees_are_inspected() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path();
        let hooks = root.join("repo/.git/hooks");
        std::fs::create_dir_all(&hooks).unwrap();
        std::fs::create_dir_all(root.join("repo/src")).unwrap();
        std::fs::write(hooks.join("pre-push.sample"), "").unwrap();
        assert!(find_helpers(&root.join("repo/src")).is_empty());
        std::fs::write(hooks.join("pre-commit"), "").unwrap();
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(hooks.join("pre-commit"), mode).unwrap();
        assert_eq!(find_helpers(&root.join("repo/src")), ["hooks/pre-commit"]);
        let own = root.join("repo/.git/worktrees/w");
        std::fs::create_dir_all(&own).unwrap();
        std::fs::write(own.join("commondir"), "../..\n").unwrap();
        std::fs::create_dir(root.join("tree")).unwrap();
        std::fs::write(root.join("tree/.git"), format!("gitdir: {}\n", own.display())).unwrap();
        assert_eq!(find_helpers(&root.join("tree")), ["hooks/pre-commit"]);
    }

    #[test]
    fn included_files_are_followed() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        let put = |name: &str, text: &str| std::fs::write(root.join(name), text).unwrap();
        put("config", "[include]\npath = a\npath = ~/h\n[includeIf \"onbranch:x\"]\npath = c\n");
        put("a", "[include] path = b");
        put("b", "[include] path = config\npath = a");
        let read = |home: Option<&Path>| {
            let read = |file: &Path| read_config(file).map(Arc::new);
            read_config_chain(&root.join("config"), home, read)
        };
        let mut found = read(Some(&root.join("home"))).included;
        found.sort();
        assert_eq!(found, ["a", "b", "c", "home/h"].map(|name| root.join(name)));
        put("b", "[core");
        assert_eq!(read(None).errors, [(root.join("b"), ConfigError::Malformed)]);
        put("b", &"[include] path = config\n".repeat(50_000));
        assert_eq!(read(None).errors, [(root.join("b"), ConfigError::TooLarge)]);
        let many: String = (0..=INCLUDES_MAX).map(|n| format!("[include] path = n{n}\n")).collect();
        put("b", &many);
        assert_eq!(read(None).errors, [(root.join("config"), ConfigError::TooLarge)]);
    }

    #[test]
    fn bare_and_inner_repositories_are_found() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path();
        let monitor = "[core]\nfsmonitor = ./x\n";
        for folder in ["bare/objects", "bare/refs", "outer/.git", "outer/inner/.git"] {
            std::fs::create_dir_all(root.join(folder)).unwrap();
        }
        std::fs::write(root.join("bare/HEAD"), "").unwrap();
        std::fs::write(root.join("bare/config"), monitor).unwrap();
        assert_eq!(find_helpers(&root.join("bare")), ["core.fsmonitor"]);
        std::fs::write(root.join("outer/inner/.git/config"), monitor).unwrap();
        assert_eq!(find_helpers(&root.join("outer")), ["core.fsmonitor"]);
        std::fs::write(root.join("outer/inner/.git/config"), "[core").unwrap();
        assert_eq!(find_helpers(&root.join("outer")), ["config"]);
        assert_eq!(find_helpers(&root.join("none")).len(), 1);
    }

    /// A folder with repositories, each with its configuration.
    struct HelperFixture {
        temp: tempfile::TempDir,
    }

    impl HelperFixture {
        fn new() -> Self {
            Self { temp: tempfile::tempdir().unwrap() }
        }

        fn path(&self, name: &str) -> PathBuf {
            self.temp.path().join(name)
        }

        fn write(&self, name: &str, text: &str) {
            std::fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
            std::fs::write(self.path(name), text).unwrap();
        }

        fn create_repository(&self, git: &str, config: &str) {
            for folder in ["objects", "refs"] {
                std::fs::create_dir_all(self.path(git).join(folder)).unwrap();
            }
            self.write(&format!("{git}/HEAD"), "ref: refs/heads/main\n");
            self.write(&format!("{git}/config"), config);
        }

        #[track_caller]
        fn check(&self, folder: &str, expected: &[&str]) {
            assert_eq!(find_helpers(&self.path(folder)), expected, "{folder}");
        }
    }

    const MONITOR: &str = "[core]\nfsmonitor = ./x\n";

    #[test]
    fn folder_with_commondir_is_a_repository() {
        let fixture = HelperFixture::new();
        fixture.create_repository("w/.git", "[extensions]\nworktreeConfig = true\n");
        fixture.write("w/evil/HEAD", "ref: refs/heads/main\n");
        fixture.write("w/evil/commondir", "../.git\n");
        fixture.write("w/evil/config.worktree", MONITOR);
        fixture.check("w/evil", &["core.fsmonitor"]);
        // The common folder may configure helpers as well, and its name may end with a space.
        fixture.write("other/HEAD", "ref: refs/heads/main\n");
        fixture.write("other/commondir", "c \n");
        fixture.create_repository("other/c ", MONITOR);
        fixture.check("other", &["core.fsmonitor"]);
    }

    #[test]
    fn malformed_repository_does_not_hide_the_outer_one() {
        let fixture = HelperFixture::new();
        fixture.create_repository("w/.git", MONITOR);
        for folder in ["w/empty/.git", "w/valid"] {
            std::fs::create_dir_all(fixture.path(folder)).unwrap();
        }
        fixture.check("w/empty", &["core.fsmonitor"]);
        fixture.create_repository("w/valid/.git", "");
        fixture.check("w/valid", &[]);
        fixture.create_repository("w/bare", MONITOR);
        std::fs::create_dir(fixture.path("w/bare/.git")).unwrap();
        fixture.check("w/bare", &["core.fsmonitor"]);
    }

    #[test]
    fn reached_bounds_count_as_helpers() {
        let fixture = HelperFixture::new();
        fixture.create_repository("long/real", MONITOR);
        fixture.write("long/.git", &format!("gitdir: real{}", "\n".repeat(5_000)));
        fixture.check("long", &["core.fsmonitor"]);
        fixture.write("long/.git", &format!("gitdir: real{}", "\n".repeat(1 << 20)));
        fixture.check("long", &[".git", "core.fsmonitor"]);
        fixture.create_repository("hooks/.git", "");
        for number in 0..=HOOKS_MAX {
            fixture.write(&format!("hooks/.git/hooks/{number}"), "");
        }
        fixture.check("hooks", &["hooks"]);
        fixture.create_repository("deep/.git", "");
        let module = "deep/.git/modules/1/2/3/4/5";
        fixture.create_repository(module, MONITOR);
        fixture.check("deep", &["core.fsmonitor"]);
        fixture.create_repository("deeper/.git", "");
        fixture.create_repository("deeper/.git/modules/1/2/3/4/5/6/7/8/9/10/11", MONITOR);
        fixture.check("deeper", &[NOT_SEARCHED]);
        fixture.create_repository("wide/.git", "");
        for number in 0..=NAMES_MAX {
            std::fs::create_dir(fixture.path(&format!("wide/{number}"))).unwrap();
        }
        fixture.check("wide", &[NOT_SEARCHED]);
        fixture.create_repository("unreadable/.git", "");
        fixture.write("unreadable/.git/index", "DIRC");
        fixture.check("unreadable", &["index"]);
    }
}
