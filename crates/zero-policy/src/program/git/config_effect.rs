//! Settings of git, and which of them can run something.
//!
//! Many can, and each version adds more, so the list contains those that cannot.

use crate::program::arguments::{parse_assignment, strip_arg_prefix};
use crate::shell::ShellArg;
use crate::word_list::words;

/// The effect of a setting.
pub(super) enum GitConfigEffect {
    /// Nothing runs.
    Harmless,
    /// Something may run; the script, if the value is one for a shell.
    Runs(Option<ShellArg>),
}

/// Sections without a key that runs something.
const SECTIONS: &[&str] = words!(
    "user author committer color advice column log i18n rerere versionsort blame status feature"
);

const KEYS: &[&str] = words!(
    "core.quotepath core.autocrlf core.eol core.safecrlf core.filemode core.ignorecase \
     core.precomposeunicode core.longpaths core.abbrev core.preloadindex core.untrackedcache \
     core.compression core.commentchar core.whitespace core.symlinks core.fscache \
     init.defaultbranch diff.renames diff.renamelimit diff.algorithm diff.noprefix \
     diff.mnemonicprefix diff.colormoved diff.context diff.submodule diff.wserrorhighlight \
     diff.indentheuristic merge.conflictstyle merge.ff merge.renames pull.rebase pull.ff \
     push.default push.autosetupremote push.followtags fetch.prune fetch.parallel \
     fetch.recursesubmodules rebase.autosquash rebase.autostash rebase.updaterefs commit.gpgsign \
     commit.verbose tag.gpgsign tag.sort branch.sort branch.autosetupmerge branch.autosetuprebase \
     gc.auto gc.autodetach protocol.version grep.linenumber grep.patterntype grep.fullname \
     grep.threads pack.threads pack.windowmemory index.version index.threads transfer.fsckobjects \
     checkout.workers checkout.guess submodule.recurse maintenance.auto http.postbuffer \
     http.lowspeedlimit http.lowspeedtime http.version format.pretty diff.wordregex safe.directory \
     stash.showpatch"
);

/// Last components of keys whose value is a command line.
const COMMANDS: &[&str] = words!(
    "pager editor sshcommand fsmonitor external textconv program cmd command helper askpass driver \
     process clean smudge uploadpack receivepack gitproxy sendmailcmd tocmd cccmd \
     alternaterefscommand packobjectshook defaultkeycommand diff log show browser path"
);

impl GitConfigEffect {
    /// The effect of `key=value`.
    pub(super) fn from_assignment(assigned: &ShellArg) -> Self {
        match parse_assignment(assigned) {
            Some((key, value)) => Self::new(&ShellArg::Known(key), Some(&value)),
            // Without a value it is `true`.
            None => Self::new(assigned, None),
        }
    }

    /// The effect of setting a key to a value.
    pub(super) fn new(key: &ShellArg, value: Option<&ShellArg>) -> Self {
        let Some(key) = key.as_known() else {
            return Self::Runs(None);
        };
        let key = key.to_ascii_lowercase();
        let (section, last) =
            (key.split('.').next().unwrap_or_default(), key.rsplit('.').next().unwrap_or_default());
        if KEYS.contains(&key.as_str()) || (SECTIONS.contains(&section) && key.contains('.')) {
            return Self::Harmless;
        }
        let off = matches!(
            value.and_then(ShellArg::as_known),
            Some("" | "false" | "cat" | "true" | ":" | "/dev/null")
        );
        let switched_off = off
            && words!(
                "core.pager core.editor sequence.editor core.fsmonitor core.hookspath \
                 credential.helper core.askpass diff.external pager.log pager.diff pager.show \
                 pager.branch"
            )
            .contains(&key.as_str());
        if switched_off {
            return Self::Harmless;
        }
        if section == "alias" {
            // Without `!` an alias stands for a git command.
            return Self::Runs(value.and_then(|value| {
                strip_arg_prefix(value, "!").or_else(|| {
                    let mut text = String::from("git ");
                    text.push_str(value.as_known()?);
                    Some(ShellArg::Known(text))
                })
            }));
        }
        let is_command = COMMANDS.contains(&last);
        Self::Runs(
            value
                .filter(|_| is_command)
                .map(|value| strip_arg_prefix(value, "!").unwrap_or_else(|| value.clone())),
        )
    }
}
