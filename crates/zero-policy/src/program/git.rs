//! `git`: what it reads and changes, and the many ways in which it can run something.
//!
//! Read-only commands need no rule, as long as none of their options writes or runs something. All
//! others need a rule, with their known effects added.

mod config_effect;
mod patch_commands;
mod push_remote;
mod read_commands;
mod remote_commands;
mod setting_changes;
mod unknown_arguments;
mod work_tree_commands;
mod write_commands;

pub(crate) use self::push_remote::find_push_remote;
pub(crate) use self::setting_changes::resolve_changes as resolve_setting_changes;

use self::config_effect::GitConfigEffect;
use crate::program::arguments::{args_from, join_args, prefix_args, strip_arg_prefix, unknown_arg};
use crate::program::command_analysis::{CommandAnalysis, CommandClass, NestedExecution};
use crate::shell::ShellArg;
use crate::word_list::words;

/// Analyzes the arguments of `git`.
pub(super) fn analyze(args: &[ShellArg]) -> CommandAnalysis {
    let globals = GitGlobalOptions::parse(args);
    let Some((command, rest)) = globals.rest.split_first() else {
        return globals.finish(CommandAnalysis::read_only());
    };
    let Some(name) = command.as_known() else {
        return globals.finish(
            CommandAnalysis::opaque().with_caution("the git command is only known at run time"),
        );
    };
    let analysis =
        read_commands::analyze(name, rest).unwrap_or_else(|| write_commands::analyze(name, rest));
    globals.finish(analysis)
}

/// A git command that is called as a program of its own: `git-push`, in any folder.
pub(super) fn analyze_dashed_name(name: &str, args: &[ShellArg]) -> Option<CommandAnalysis> {
    let command =
        name.strip_prefix("git-").filter(|command| write_commands::is_git_command(command))?;
    Some(CommandAnalysis::wrapper().with_command(&prefix_args(&["git", command], args)))
}

/// Harmless options without a value before the command.
const PLAIN_GLOBALS: &[&str] = words!(
    "--exec-path --html-path --man-path --info-path --version -v --help -h -P --no-pager -p \
     --paginate --bare --no-replace-objects --no-lazy-fetch --no-optional-locks --no-advice \
     --literal-pathspecs --glob-pathspecs --noglob-pathspecs --icase-pathspecs --list-cmds"
);

/// The options between `git` and its command.
struct GitGlobalOptions<'a> {
    folder: Option<ShellArg>,
    analysis: CommandAnalysis,
    rest: &'a [ShellArg],
}

impl<'a> GitGlobalOptions<'a> {
    fn parse(args: &'a [ShellArg]) -> Self {
        let mut globals = Self { folder: None, analysis: CommandAnalysis::read_only(), rest: &[] };
        let mut at = 0;
        while let Some(arg) = args.get(at) {
            let start = arg.known_prefix();
            if !start.starts_with('-') {
                if arg.may_be_option() {
                    globals.add_caution("an argument before the command is not known");
                }
                break;
            }
            at += 1;
            let (name, attached) = match start.split_once('=') {
                Some((name, _)) => (name, strip_arg_prefix(arg, &format!("{name}="))),
                None => (start, None),
            };
            let mut value = || {
                attached.clone().or_else(|| {
                    at += 1;
                    args.get(at - 1).cloned()
                })
            };
            match name {
                "-C" if attached.is_none() => {
                    if let Some(folder) = value() {
                        globals.folder = Some(match &globals.folder {
                            Some(outer) => join_folder(outer, &folder),
                            None => folder,
                        });
                    }
                }
                "-c" if attached.is_none() => {
                    if let Some(setting) = value() {
                        globals.add_setting(&setting);
                    }
                }
                "--config-env" => {
                    value();
                    globals.add_caution("a setting comes from a variable");
                }
                "--exec-path" if attached.is_some() => {
                    globals.add_caution("`--exec-path` says where git's own programs are");
                }
                "--git-dir" | "--work-tree" => {
                    value();
                    globals.add_caution("another repository's settings may run commands");
                }
                "--namespace" | "--super-prefix" | "--attr-source" => {
                    value();
                }
                _ if arg.as_known().is_some() && PLAIN_GLOBALS.contains(&name) => {}
                _ => globals.add_caution("an option before the command is not known"),
            }
        }
        if args.iter().take(at).any(ShellArg::may_split) {
            globals.add_caution("an argument before the command may be several");
        }
        globals.rest = args_from(args, at);
        globals
    }

    fn add_setting(&mut self, setting: &ShellArg) {
        match GitConfigEffect::from_assignment(setting) {
            GitConfigEffect::Harmless => {}
            GitConfigEffect::Runs(text) => {
                self.analysis.runs.extend(text.map(|text| NestedExecution::from_script(&text)));
                self.add_caution("`-c` sets something that may run a command");
            }
        }
    }

    fn add_caution(&mut self, why: &str) {
        self.analysis.caution.get_or_insert_with(|| why.to_owned());
    }

    /// The analysis of the command, with the effects of the global options added.
    fn finish(self, mut analysis: CommandAnalysis) -> CommandAnalysis {
        if self.analysis.caution.is_some()
            || !self.analysis.runs.is_empty()
            || self.folder.is_some()
        {
            analysis.git_settings.clear();
        }
        if self.analysis.caution.is_some() {
            analysis.class = CommandClass::Opaque;
        }
        analysis.caution = self.analysis.caution.or(analysis.caution);
        analysis.runs.extend(self.analysis.runs);
        match &self.folder {
            Some(folder) => analysis.in_folder(folder),
            None => analysis,
        }
    }
}

/// A path relative to a folder.
fn join_folder(folder: &ShellArg, path: &ShellArg) -> ShellArg {
    if path.known_prefix().starts_with('/') {
        return path.clone();
    }
    let separator = if folder.known_prefix().ends_with('/') { "" } else { "/" };
    match (folder, path) {
        (ShellArg::Known(folder), ShellArg::Known(path)) => {
            ShellArg::Known(format!("{folder}{separator}{path}"))
        }
        (ShellArg::Known(folder), ShellArg::Pattern(path)) => {
            let mut escaped = String::new();
            for letter in folder.chars() {
                if matches!(letter, '*' | '?' | '[' | '\\') {
                    escaped.push('\\');
                }
                escaped.push(letter);
            }
            ShellArg::Pattern(format!("{escaped}{separator}{path}"))
        }
        // A completely unknown path may be absolute.
        (_, path) if path.known_prefix().is_empty() => path.clone(),
        (ShellArg::Known(folder), path) => {
            unknown_arg(format!("{folder}{separator}{}", path.known_prefix()), path.to_string())
        }
        (folder, path) => {
            let written = join_args(&[folder.clone(), path.clone()]).to_string();
            unknown_arg(folder.known_prefix(), written.replacen(' ', separator, 1))
        }
    }
}

#[cfg(test)]
mod tests;
