//! Finds the programs that a repository itself makes git run.
//!
//! A repository's settings and hooks can name programs. They are as trustworthy as the author of
//! the repository, so git must not run there before the user has seen them.

use std::path::{Path, PathBuf};

use zero_sandbox::path_survey;

use super::git_config;

/// Most bytes of a git configuration that are read; a larger file counts as a helper itself.
const CONFIG_BYTES_MAX: u64 = 256 * 1024;
/// Most included files that are read.
const INCLUDES_MAX: usize = 64;
/// Most hooks that are listed.
const HOOKS_MAX: usize = 200;
/// Most names visited in search of nested repositories, and the maximum depth.
const INNER_MAX: usize = 1_000;
const MODULES_DEPTH_MAX: usize = 3;
const NESTED_DEPTH_MAX: usize = 1;

/// The helpers of the repository that contains `folder`; empty if there is none.
pub(super) fn find_helpers(folder: &Path) -> Vec<String> {
    if path_survey::file_type(folder).is_none() {
        // The command that creates the folder may create a repository in it.
        return vec!["a folder that does not exist yet".to_owned()];
    }
    let Some((root, git)) =
        folder.ancestors().find_map(|folder| Some((folder, find_git_folders(folder)?)))
    else {
        return Vec::new();
    };
    let mut helpers = Vec::new();
    for git in git.iter().cloned().chain(find_inner_repositories(root, &git)) {
        collect_helpers(&git, &mut helpers);
    }
    helpers.sort();
    helpers.dedup();
    helpers
}

/// The helpers of a single repository, by its git folder.
pub(super) fn find_repository_helpers(git: &Path) -> Vec<String> {
    let mut helpers = Vec::new();
    collect_helpers(git, &mut helpers);
    helpers
}

/// The last value of a setting, by its full name in lower case.
pub(super) fn read_setting(git: &Path, name: &str) -> Option<String> {
    let content = path_survey::read_small_file(&git.join("config"), CONFIG_BYTES_MAX)?;
    let settings = git_config::parse_settings(&String::from_utf8_lossy(&content))?;
    settings.into_iter().rev().find(|setting| setting.name == name).map(|setting| setting.value)
}

/// The files that a configuration includes, directly or indirectly, whatever the conditions.
pub(super) fn list_includes(config: &Path, home: Option<&Path>) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    let mut open = vec![config.to_owned()];
    while let Some(file) = open.pop() {
        let Some(content) = path_survey::read_small_file(&file, CONFIG_BYTES_MAX) else { continue };
        let settings =
            git_config::parse_settings(&String::from_utf8_lossy(&content)).unwrap_or_default();
        for setting in settings.into_iter().filter(|setting| is_include(&setting.name)) {
            let in_home = setting.value.strip_prefix("~/").and_then(|rest| Some(home?.join(rest)));
            let beside = || file.parent().map(|folder| folder.join(&setting.value));
            let path = in_home.or_else(beside).and_then(|path| path_survey::canonicalize(&path));
            if let Some(path) = path.filter(|path| path != config && !found.contains(path)) {
                if found.len() >= INCLUDES_MAX {
                    return found;
                }
                open.push(path.clone());
                found.push(path);
            }
        }
    }
    found
}

fn is_include(name: &str) -> bool {
    name == "include.path" || name.starts_with("includeif.") && name.ends_with(".path")
}

fn collect_helpers(git: &Path, helpers: &mut Vec<String>) {
    for name in ["config", "config.worktree"] {
        let path = git.join(name);
        match path_survey::read_small_file(&path, CONFIG_BYTES_MAX) {
            Some(content) => match git_config::parse_settings(&String::from_utf8_lossy(&content)) {
                Some(settings) => helpers.extend(
                    settings
                        .into_iter()
                        .filter(|setting| is_helper_setting(&setting.name, &setting.value))
                        .map(|setting| setting.name),
                ),
                None => helpers.push(name.to_owned()),
            },
            None if path_survey::exists(&path) => helpers.push(name.to_owned()),
            None => {}
        }
    }
    for hook in path_survey::list_sorted(&git.join("hooks"), HOOKS_MAX).unwrap_or_default() {
        let name = hook.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if !name.ends_with(".sample") && path_survey::is_program(&hook.path) {
            helpers.push(format!("hooks/{name}"));
        }
    }
}

/// The folders with a repository's configuration: its own, and the common one of a worktree. A
/// folder with the contents of a git folder is one, whatever its name.
pub(super) fn find_git_folders(folder: &Path) -> Option<Vec<PathBuf>> {
    let git = folder.join(".git");
    let own = match path_survey::file_type(&git) {
        Some(zero_sandbox::FileType::Directory) => git,
        Some(zero_sandbox::FileType::File) => {
            let pointer = path_survey::read_small_file(&git, 4096)?;
            let pointer = String::from_utf8_lossy(&pointer).into_owned();
            folder.join(pointer.strip_prefix("gitdir:")?.trim())
        }
        _ => {
            let has = |name: &str| path_survey::exists(&folder.join(name));
            (has("HEAD") && has("objects") && has("refs")).then(|| folder.to_owned())?
        }
    };
    let common = path_survey::read_small_file(&own.join("commondir"), 4096)
        .map(|common| own.join(String::from_utf8_lossy(&common).trim()));
    Some(std::iter::once(own).chain(common).collect())
}

/// Nested repositories, which git reads as well: submodules and inner repositories, up to a bound.
fn find_inner_repositories(root: &Path, git: &[PathBuf]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open: Vec<(PathBuf, usize)> =
        git.iter().map(|git| (git.join("modules"), MODULES_DEPTH_MAX)).collect();
    open.push((root.to_owned(), NESTED_DEPTH_MAX));
    let mut looked = 0usize;
    while let Some((folder, depth)) = open.pop() {
        for seen in path_survey::list_sorted(&folder, INNER_MAX).unwrap_or_default() {
            looked += 1;
            if looked > INNER_MAX {
                return found;
            }
            let is_git = seen.path.file_name().is_some_and(|name| name == ".git");
            if !seen.is_folder || is_git {
                continue;
            }
            match find_git_folders(&seen.path) {
                Some(inner) => found.extend(inner),
                None if depth > 0 => open.push((seen.path, depth - 1)),
                None => {}
            }
        }
    }
    found
}

fn is_helper_setting(name: &str, value: &str) -> bool {
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
        | "core.hookspath"
        | "core.attributesfile"
        | "core.worktree"
        | "core.alternaterefscommand"
        | "sequence.editor"
        | "diff.external"
        | "interactive.difffilter"
        | "web.browser"
        | "uploadpack.packobjectshook"
        | "include.path"
        | "init.templatedir"
        | "sendemail.smtpserver" => !off,
        _ => match (first, last) {
            ("alias" | "pager" | "man" | "browser", _) => !off,
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
            ("trace2", _) | ("sendemail", "sendmailcmd" | "tocmd" | "cccmd" | "headercmd") => true,
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
        check("[remote \"origin\"]\n url = https://x\n[user]\n name = a", &[]);
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
        let mut found = list_includes(&root.join("config"), Some(&root.join("home")));
        found.sort();
        assert_eq!(found, ["a", "b", "c", "home/h"].map(|name| root.join(name)));
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
}
