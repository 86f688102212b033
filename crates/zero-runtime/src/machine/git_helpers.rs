//! What a repository would run of its own when git works in it.
//!
//! Settings of the repository and its hooks can name programs. Whoever wrote the repository wrote
//! them, so git must not run there without somebody having seen them.

use std::path::{Path, PathBuf};

use zero_sandbox::survey;

/// Bytes of a git configuration that are read; a larger one counts as a helper of its own.
const CONFIG_BYTES_MAX: u64 = 256 * 1024;
/// Hooks that are looked for.
const HOOKS_MAX: usize = 200;

/// The helpers of the repository that `folder` lies in; empty when there is none.
pub(super) fn of(folder: &Path) -> Vec<String> {
    let Some(git) = folder.ancestors().find_map(git_folder) else { return Vec::new() };
    let mut helpers = Vec::new();
    for git in &git {
        for name in ["config", "config.worktree"] {
            let path = git.join(name);
            match survey::small_file(&path, CONFIG_BYTES_MAX) {
                Some(content) => {
                    helpers.extend(settings_that_run(&String::from_utf8_lossy(&content)));
                }
                None if survey::kind(&path).is_some() => helpers.push(name.to_owned()),
                None => {}
            }
        }
        for hook in survey::names(&git.join("hooks"), HOOKS_MAX).unwrap_or_default() {
            let name = hook.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if !name.ends_with(".sample") && survey::is_program(&hook.path) {
                helpers.push(format!("hooks/{name}"));
            }
        }
    }
    helpers.sort();
    helpers.dedup();
    helpers
}

/// Where a repository keeps its configuration: its own folder, and the common one of a worktree.
fn git_folder(folder: &Path) -> Option<Vec<PathBuf>> {
    let git = folder.join(".git");
    match survey::kind(&git)? {
        zero_sandbox::FileType::Directory => Some(vec![git]),
        zero_sandbox::FileType::File => {
            let pointer = survey::small_file(&git, 4096)?;
            let pointer = String::from_utf8_lossy(&pointer).into_owned();
            let own = folder.join(pointer.strip_prefix("gitdir:")?.trim());
            let common = survey::small_file(&own.join("commondir"), 4096)
                .map(|common| own.join(String::from_utf8_lossy(&common).trim()));
            Some(std::iter::once(own).chain(common).collect())
        }
        _ => None,
    }
}

/// Names of the settings in a git configuration that can make git run something.
fn settings_that_run(config: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut section = String::new();
    for line in config.lines() {
        let mut line = line.trim();
        if let Some(rest) = line.strip_prefix('[') {
            let (name, after) = rest.split_once(']').unwrap_or((rest, ""));
            section = section_name(name);
            line = after.trim();
        }
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        let (key, value) = line.split_once('=').unwrap_or((line, "true"));
        let name = format!("{section}.{}", key.trim().to_ascii_lowercase());
        if runs(&name, value.trim().trim_matches('"')) {
            found.push(name);
        }
    }
    found
}

/// `remote "origin"` → `remote.origin`, in lower case where git folds it.
fn section_name(written: &str) -> String {
    match written.split_once(char::is_whitespace) {
        Some((section, sub)) => {
            format!("{}.{}", section.to_ascii_lowercase(), sub.trim().trim_matches('"'))
        }
        None => written.trim().to_ascii_lowercase(),
    }
}

fn runs(name: &str, value: &str) -> bool {
    let off = matches!(value.to_ascii_lowercase().as_str(), "false" | "no" | "off" | "0" | "");
    let last = name.rsplit('.').next().unwrap_or(name);
    let first = name.split('.').next().unwrap_or(name);
    match name {
        // A number or a truth value switches a built-in one on; anything else is a program.
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
            ("hook", "command") => true,
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
        assert_eq!(settings_that_run(config), expected, "{config}");
    }

    #[test]
    fn settings_that_run_something_are_found() {
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
    fn hooks_and_worktrees_are_looked_at() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path();
        let hooks = root.join("repo/.git/hooks");
        std::fs::create_dir_all(&hooks).unwrap();
        std::fs::create_dir_all(root.join("repo/src")).unwrap();
        std::fs::write(hooks.join("pre-push.sample"), "").unwrap();
        assert!(of(&root.join("repo/src")).is_empty());
        std::fs::write(hooks.join("pre-commit"), "").unwrap();
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(hooks.join("pre-commit"), mode).unwrap();
        assert_eq!(of(&root.join("repo/src")), ["hooks/pre-commit"]);
        let own = root.join("repo/.git/worktrees/w");
        std::fs::create_dir_all(&own).unwrap();
        std::fs::write(own.join("commondir"), "../..\n").unwrap();
        std::fs::create_dir(root.join("tree")).unwrap();
        std::fs::write(root.join("tree/.git"), format!("gitdir: {}\n", own.display())).unwrap();
        assert_eq!(of(&root.join("tree")), ["hooks/pre-commit"]);
    }
}
