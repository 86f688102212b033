//! Commands of git that change settings of the repository, and which settings these are.
//!
//! Only plain forms are recognized, and only settings that cannot make git run anything: zero makes
//! exactly these changes, after the user has seen them. Other forms change nothing, because commands
//! cannot write to the file.

use std::path::Path;

use super::config_effect::GitConfigEffect;
use crate::machine::Machine;
use crate::program::command_analysis::GitSettingChange;
use crate::shell::ShellArg;
use crate::word_list::words;

/// Stands for the current branch, which only the machine knows; no branch can have this name.
const CURRENT_BRANCH: &str = "HEAD";
/// The remote of a branch that follows another one of the same repository.
const THIS_REPOSITORY: &str = ".";

/// Words after `git config` that are commands of it.
const CONFIG_COMMANDS: &[&str] =
    words!("set get unset list edit rename-section remove-section get-all");

/// The change that `git config` makes.
pub(super) fn from_config(args: &[ShellArg]) -> Vec<GitSettingChange> {
    let Some(words) = known_words(args) else { return Vec::new() };
    let words: Vec<&str> = words.into_iter().filter(|word| *word != "--local").collect();
    let (key, value) = match words.as_slice() {
        ["set", key, value] => (key, Some(*value)),
        ["unset" | "--unset", key] => (key, None),
        [key, value] if !CONFIG_COMMANDS.contains(key) => (key, Some(*value)),
        _ => return Vec::new(),
    };
    let is_option = |word: &str| word.starts_with('-');
    let Some(name) = normalize_name(key).filter(|_| !is_option(key) && !key.contains('*')) else {
        return Vec::new();
    };
    let value = value.filter(|value| !is_option(value)).map(ShellArg::known);
    let is_removal = words.first().is_some_and(|word| word.ends_with("unset"));
    let effect = GitConfigEffect::new(&ShellArg::known(&name), value.as_ref());
    match (effect, value) {
        (GitConfigEffect::Harmless, Some(ShellArg::Known(value))) => {
            vec![GitSettingChange { name, value: Some(value) }]
        }
        (GitConfigEffect::Harmless, None) if is_removal => {
            vec![GitSettingChange { name, value: None }]
        }
        _ => Vec::new(),
    }
}

/// The changes that `git remote` makes.
pub(super) fn from_remote(args: &[ShellArg]) -> Vec<GitSettingChange> {
    let Some(words) = known_words(args) else { return Vec::new() };
    let set = |name: &str, key: &str, value: String| GitSettingChange {
        name: format!("remote.{name}.{key}"),
        value: Some(value),
    };
    match words.as_slice() {
        ["add", name, url] if is_plain_name(name) && is_plain_url(url) => vec![
            set(name, "url", (*url).to_owned()),
            set(name, "fetch", format!("+refs/heads/*:refs/remotes/{name}/*")),
        ],
        ["set-url", name, url] if is_plain_name(name) && is_plain_url(url) => {
            vec![set(name, "url", (*url).to_owned())]
        }
        ["set-url", "--push", name, url] if is_plain_name(name) && is_plain_url(url) => {
            vec![set(name, "pushurl", (*url).to_owned())]
        }
        _ => Vec::new(),
    }
}

/// The changes that `git branch -u` makes.
pub(super) fn from_branch(args: &[ShellArg]) -> Vec<GitSettingChange> {
    let Some(words) = known_words(args) else { return Vec::new() };
    let (upstream, rest) = match words.as_slice() {
        ["-u" | "--set-upstream-to", upstream, rest @ ..] => (*upstream, rest),
        [first, rest @ ..] => match first.strip_prefix("--set-upstream-to=") {
            Some(upstream) => (upstream, rest),
            None => return Vec::new(),
        },
        [] => return Vec::new(),
    };
    let branch = match rest {
        [] => CURRENT_BRANCH,
        [branch] if *branch != CURRENT_BRANCH => branch,
        _ => return Vec::new(),
    };
    // If there is no such remote, it is a branch of this repository.
    let (remote, followed) = upstream.split_once('/').unwrap_or((THIS_REPOSITORY, upstream));
    if followed == CURRENT_BRANCH {
        return Vec::new();
    }
    tracking_changes(branch, remote, followed)
}

/// The changes that `git push -u REMOTE BRANCH` makes.
pub(super) fn from_push(args: &[ShellArg]) -> Vec<GitSettingChange> {
    match known_words(args).as_deref() {
        Some(["-u" | "--set-upstream", remote, branch]) if is_plain_name(remote) => {
            tracking_changes(branch, remote, branch)
        }
        _ => Vec::new(),
    }
}

/// The settings that say which branch of which remote a branch follows.
fn tracking_changes(branch: &str, remote: &str, followed: &str) -> Vec<GitSettingChange> {
    let is_remote = remote == THIS_REPOSITORY || is_plain_name(remote);
    if !is_remote || ![branch, followed].into_iter().all(is_plain_name) {
        return Vec::new();
    }
    let change = |key: &str, value: String| GitSettingChange {
        name: format!("branch.{branch}.{key}"),
        value: Some(value),
    };
    vec![change("remote", remote.to_owned()), change("merge", format!("refs/heads/{followed}"))]
}

/// The changes of each command with what the repository in `folder` says: the current branch by its name,
/// and no remote that is not there. Empty if git would change something else, or nothing.
pub(crate) fn resolve_changes(
    commands: Vec<Vec<GitSettingChange>>,
    machine: &dyn Machine,
    folder: &Path,
) -> Vec<GitSettingChange> {
    let mut resolved = Vec::new();
    // Others only read.
    for changes in commands.into_iter().filter(|changes| !changes.is_empty()) {
        let found = resolve_command(changes, &resolved, machine, folder);
        if found.is_empty() {
            return found;
        }
        resolved.extend(found);
    }
    resolved
}

/// The changes of one command, after `earlier` ones.
fn resolve_command(
    changes: Vec<GitSettingChange>,
    earlier: &[GitSettingChange],
    machine: &dyn Machine,
    folder: &Path,
) -> Vec<GitSettingChange> {
    let Some((branch, remote, followed)) = parse_tracking(&changes) else { return changes };
    let current = || machine.git_branch(folder).filter(|name| is_plain_name(name));
    let by_name = |name: &str| match name {
        CURRENT_BRANCH => current(),
        _ => Some(name.to_owned()),
    };
    let (Some(branch), Some(followed)) = (by_name(branch), by_name(followed)) else {
        return Vec::new();
    };
    let url = format!("remote.{remote}.url");
    let is_missing = !earlier.iter().any(|change| change.name == url)
        && machine.git_setting(folder, &url).is_some_and(|values| values.is_empty());
    if remote == THIS_REPOSITORY || !is_missing {
        return tracking_changes(&branch, remote, &followed);
    }
    let local = format!("{remote}/{followed}");
    match machine.has_git_branch(folder, &local) {
        true => tracking_changes(&branch, THIS_REPOSITORY, &local),
        false => Vec::new(),
    }
}

/// The branch, remote and followed branch of [`tracking_changes`]; `None` for other changes.
fn parse_tracking(changes: &[GitSettingChange]) -> Option<(&str, &str, &str)> {
    let [remote, merge] = changes else { return None };
    let branch = remote.name.strip_prefix("branch.")?.strip_suffix(".remote")?;
    let followed = merge.value.as_deref()?.strip_prefix("refs/heads/")?;
    (merge.name == format!("branch.{branch}.merge")).then_some((
        branch,
        remote.value.as_deref()?,
        followed,
    ))
}

fn known_words(args: &[ShellArg]) -> Option<Vec<&str>> {
    args.iter().map(ShellArg::as_known).collect()
}

/// The name of a setting as git stores it: lower case, except between the dots.
fn normalize_name(name: &str) -> Option<String> {
    let (section, rest) = name.split_once('.')?;
    let lower = str::to_ascii_lowercase;
    Some(match rest.rsplit_once('.') {
        Some((inner, key)) => format!("{}.{inner}.{}", lower(section), lower(key)),
        None => format!("{}.{}", lower(section), lower(rest)),
    })
}

fn is_plain_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._/-".contains(&byte);
    name.starts_with(|c: char| c.is_ascii_alphanumeric()) && name.bytes().all(is_plain)
}

/// Whether an address names neither an option nor a helper that git would run.
fn is_plain_url(url: &str) -> bool {
    !url.is_empty()
        && !url.starts_with('-')
        && !url.contains("::")
        && !url.contains(char::is_control)
}

#[cfg(test)]
mod tests {
    use crate::program::analyze;
    use crate::shell::ShellArg;

    #[track_caller]
    fn check(line: &str, expected: &str) {
        let argv: Vec<ShellArg> = line.split(' ').map(ShellArg::known).collect();
        let changes = analyze(&argv).git_settings;
        let shown: Vec<String> = changes.iter().map(ToString::to_string).collect();
        assert_eq!(shown.join("; "), expected, "{line}");
    }

    #[test]
    fn plain_changes_are_recognized() {
        check("git config user.name X", "sets `user.name` to `X`");
        check("git config --local user.Email a@b", "sets `user.email` to `a@b`");
        check("git config set pull.rebase true", "sets `pull.rebase` to `true`");
        check("git config --unset user.name", "removes `user.name`");
        check("git config unset user.name", "removes `user.name`");
        check(
            "git remote add origin https://h/p",
            "sets `remote.origin.url` to `https://h/p`; \
             sets `remote.origin.fetch` to `+refs/heads/*:refs/remotes/origin/*`",
        );
        check("git remote set-url o git@h:p", "sets `remote.o.url` to `git@h:p`");
        check("git remote set-url --push o x", "sets `remote.o.pushurl` to `x`");
        let follows =
            "sets `branch.y.remote` to `origin`; sets `branch.y.merge` to `refs/heads/f/x`";
        check("git branch -u origin/f/x y", follows);
        check("git branch --set-upstream-to=origin/f/x y", follows);
        check(
            "git branch -u main y",
            "sets `branch.y.remote` to `.`; sets `branch.y.merge` to `refs/heads/main`",
        );
        check(
            "git push -u origin main",
            "sets `branch.main.remote` to `origin`; sets `branch.main.merge` to `refs/heads/main`",
        );
    }

    #[test]
    fn other_changes_are_not() {
        for line in [
            "git config core.pager evil",
            "git config remote.*.url x",
            "git branch -u origin/main HEAD",
            "git branch -u origin/HEAD y",
            "git branch -u HEAD y",
            "git push -u . main",
            "git push -u origin a:b",
            "git push -u ./x main",
            "git push -u",
            "git config core.fsmonitor ./x",
            "git config core.hooksPath x",
            "git config core.sshCommand x",
            "git config core.editor x",
            "git config alias.x !evil",
            "git config filter.x.clean evil",
            "git config diff.x.textconv evil",
            "git config credential.helper evil",
            "git config include.path ../x",
            "git config includeIf.gitdir:/.path x",
            "git config protocol.ext.allow always",
            "git config url.x.insteadOf y",
            "git config remote.o.url ext::evil",
            "git config --global user.name X",
            "git config --file x user.name X",
            "git config --worktree user.name X",
            "git config user.name",
            "git config --get user.name x",
            "git config --unset-all user.name",
            "git config --edit",
            "git config user.name --x",
            "git config user X",
            "git remote add x ext::sh",
            "git remote add x a::b",
            "git remote add -f x https://h/p",
            "git remote add x",
            "git remote add a\"b https://h/p",
            "git remote add -- x",
            "git remote rename a b",
            "git branch -m a",
            "git branch -u a b c",
            "git push",
        ] {
            check(line, "");
        }
    }
}
