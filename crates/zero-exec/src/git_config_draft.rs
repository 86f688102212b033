//! Lets git change the settings of a repository, although commands cannot write to their file.
//!
//! The command gets a copy of the file, by which git takes it for the repository's own
//! (`GIT_COMMON_DIR`). When it has ended well, zero compares the copy with the file and makes the
//! changes that were judged, if there are no others. The file itself is never writable in a sandbox,
//! and zero writes it in place, so that other sandboxes keep it read-only.

use std::path::{Path, PathBuf};

use zero_policy::GitSettingChange;
use zero_sandbox::in_place_edit::rewrite_in_place;
use zero_sandbox::{FileType, Workspace, path_survey, quarantine};

use crate::git_facts;

/// Largest file that is changed, in bytes.
const CONFIG_BYTES_MAX: u64 = 1 << 20;
/// What git finds in the folder of a repository besides its settings.
const SHARED_ENTRIES: &str =
    "objects refs packed-refs info logs shallow lfs modules worktrees branches remotes";
/// Runs a hook of the repository without the variables of the draft: the copy is for git, and what a
/// hook does with the repository is not a change of settings.
const HOOK_SCRIPT: &str = r#"#!/bin/sh
unset GIT_COMMON_DIR GIT_CONFIG_COUNT GIT_CONFIG_KEY_0 GIT_CONFIG_VALUE_0
exec "$(cat "${0%/*}/../hooks-folder")/${0##*/}" "$@""#;

/// A copy of the settings of a repository for one command.
#[derive(Debug)]
pub struct GitConfigDraft {
    /// The folder of the workspace, and the file with the settings in it.
    root: PathBuf,
    relative: PathBuf,
    /// The folder of temporary files, and that of the copy in it.
    tmp: PathBuf,
    folder: PathBuf,
    original: Vec<u8>,
    judged: Vec<GitSettingChange>,
}

impl GitConfigDraft {
    /// A draft for a command in `folder` that was judged to make these changes; `None` if there is no
    /// plain repository of the workspace. The copy will be in `tmp`, which the command may change.
    pub(crate) fn new(
        workspace: &Workspace,
        folder: &Path,
        tmp: &Path,
        judged: &[GitSettingChange],
    ) -> Option<Self> {
        let root = workspace.roots().find(|root| folder.starts_with(root))?.to_owned();
        let above = folder.ancestors().take_while(|above| above.starts_with(&root));
        let git = above.map(|above| above.join(".git")).find(|git| path_survey::exists(git))?;
        let is_plain = path_survey::file_type(&git) == Some(FileType::Directory)
            && !path_survey::is_link(&git)
            && !path_survey::exists(&git.join("commondir"))
            && !has_content(&git.join("config.worktree"));
        let original = path_survey::read_small_file(&git.join("config"), CONFIG_BYTES_MAX)?;
        let relative = git.join("config").strip_prefix(&root).ok()?.to_owned();
        let folder = PathBuf::from(format!(".git-{:016x}", fastrand::u64(..)));
        let (tmp, judged) = (tmp.to_owned(), judged.to_vec());
        let draft = Self { root, relative, tmp, folder, original, judged };
        (is_plain && !draft.judged.is_empty() && draft.quoted_paths().is_some()).then_some(draft)
    }

    /// The line with what makes the copy before it; the line itself if the paths cannot be quoted.
    pub(crate) fn wrap_line(&self, line: &str) -> String {
        let Some((git, copy)) = self.quoted_paths() else { return line.to_owned() };
        let script = HOOK_SCRIPT.replace('\n', "' '");
        // A setting that names another folder of hooks is overridden.
        let hooks = format!(
            "_zero_hooks=$(CDPATH= cd -- \"$(git rev-parse --git-path hooks)\" && pwd -P) && {{ printf '%s\\n' \"$_zero_hooks\" >{copy}/hooks-folder; printf '%s\\n' '{script}' >{copy}/run-hook; chmod 700 {copy}/run-hook; for _zero_name in \"$_zero_hooks\"/*; do [ -f \"$_zero_name\" ] && [ -x \"$_zero_name\" ] && ln -s ../run-hook {copy}/hooks/\"${{_zero_name##*/}}\"; done; if git config core.hooksPath >/dev/null; then export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=core.hooksPath GIT_CONFIG_VALUE_0={copy}/hooks; fi; }}"
        );
        // On one line, so that errors show the line numbers of the command.
        format!(
            "{{ mkdir -m 700 {copy} && mkdir {copy}/hooks && cp -- {git}/config {copy}/config && {{ for _zero_name in {SHARED_ENTRIES}; do [ -e {git}/$_zero_name ] && ln -s {git}/$_zero_name {copy}/$_zero_name; done; {hooks}; unset _zero_name _zero_hooks; export GIT_COMMON_DIR={copy}; }}; }} 2>/dev/null; {line}"
        )
    }

    /// Makes the changes that the command made to the copy, and returns what to report.
    pub(crate) fn finish(&self) -> Vec<String> {
        let path = self.relative.display();
        match self.apply() {
            Ok(changes) if changes.is_empty() => Vec::new(),
            Ok(changes) => {
                let shown: Vec<String> = changes.iter().map(describe_change).collect();
                vec![format!("zero changed `{path}`: {}", shown.join(", "))]
            }
            Err(why) => vec![format!(
                "`{path}` was not changed: {why}; to make the change, run the command yourself"
            )],
        }
    }

    fn apply(&self) -> Result<Vec<GitSettingChange>, String> {
        let unreadable = || "the settings that the command wrote cannot be read".to_owned();
        // Any program of the session can write to the copy, so nothing in it is trusted.
        let copy = path_survey::read_small_file_beneath(
            &self.tmp,
            &self.folder.join("config"),
            CONFIG_BYTES_MAX,
        );
        let copy = copy.and_then(|bytes| String::from_utf8(bytes).ok()).ok_or_else(unreadable)?;
        let original = std::str::from_utf8(&self.original).map_err(|_| unreadable())?;
        let changes =
            git_facts::diff_settings(original, &copy).map_err(|error| error.to_string())?;
        if let Some(other) = changes.iter().find(|change| !self.is_judged(change)) {
            return Err(format!("the command also changed `{}`", other.name));
        }
        let edited = git_facts::apply_changes(original, &changes)
            .ok_or("the change cannot be written in a plain form")?;
        if edited != original {
            rewrite_in_place(&self.root, &self.relative, &self.original, edited.as_bytes())
                .map_err(|error| error.to_string())?;
        }
        Ok(changes)
    }

    fn is_judged(&self, change: &GitSettingChange) -> bool {
        let runs = change
            .value
            .as_ref()
            .is_some_and(|value| git_facts::is_helper_setting(&change.name, value));
        let fits = |judged: &GitSettingChange| {
            judged.name == change.name
                && judged.value.as_deref().map(str::trim) == change.value.as_deref()
        };
        !runs && self.judged.iter().any(fits)
    }

    /// The paths of the repository and of the copy, as a shell in the sandbox writes them. The folder
    /// of temporary files has another path there.
    fn quoted_paths(&self) -> Option<(String, String)> {
        let git = self.root.join(self.relative.parent()?);
        let git = git.to_str().filter(|git| !git.contains('\''))?;
        let copy = self.folder.to_str()?;
        Some((format!("'{git}'"), format!("\"$TMPDIR\"/{copy}")))
    }
}

/// Whether a path is there and not an empty placeholder of a sandbox.
fn has_content(path: &Path) -> bool {
    path_survey::exists(path) && !quarantine::is_empty(path)
}

fn describe_change(change: &GitSettingChange) -> String {
    match &change.value {
        Some(value) => format!("`{}` is now `{value}`", change.name),
        None => format!("`{}` was removed", change.name),
    }
}
