//! Builds a [`CommandAnalysis`], with one method per kind of finding.

use std::collections::HashSet;

use crate::program::command_analysis::{
    CommandAnalysis, CommandClass, FileAccess, FileTouch, NestedExecution,
};
use crate::program::options::{OptionChange, ParsedArguments, ValueUse};
use crate::shell::ShellArg;

/// Caution for an unknown argument that could be a dangerous option.
pub(super) const MAY_BE_OPTION: &str = "an argument that is not known yet may be an option";

/// The depth of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AccessDepth {
    /// The file or folder itself.
    Itself,
    /// Everything beneath it as well.
    Beneath,
}

/// The findings so far.
#[derive(Debug, Default)]
pub(super) struct CommandAnalysisBuilder {
    analysis: CommandAnalysis,
    /// The files of the study: a command may name thousands.
    seen: HashSet<FileTouch>,
}

impl CommandAnalysisBuilder {
    /// Adds a file that is read. `-` is standard input.
    pub(super) fn record_read(&mut self, path: &ShellArg, depth: AccessDepth) {
        if path.as_known() != Some("-") {
            self.record_touch(FileAccess::Read, path.clone(), depth);
        }
    }

    /// Adds files that are read.
    pub(super) fn record_reads<'a>(&mut self, paths: impl IntoIterator<Item = &'a ShellArg>) {
        paths.into_iter().for_each(|path| self.record_read(path, AccessDepth::Itself));
    }

    /// Adds files with which the program proves who it is. One that it sends, too, is none of them.
    pub(super) fn record_identities<'a>(&mut self, paths: impl IntoIterator<Item = &'a ShellArg>) {
        for path in paths {
            let touch =
                FileTouch { access: FileAccess::Read, path: path.clone(), recursive: false };
            if !self.seen.contains(&touch) {
                self.analysis.identity_files.push(path.clone());
                self.push_touch(touch);
            }
        }
    }

    /// Adds a file with a list of files, all of which are read; `-` is standard input. The listed
    /// files are unknown.
    pub(super) fn record_listed_reads(&mut self, list: &ShellArg) {
        self.record_read(list, AccessDepth::Itself);
        let written = format!("what {list} names");
        let listed = ShellArg::Unknown { starts_with: String::new(), written };
        self.record_touch(FileAccess::Read, listed, AccessDepth::Itself);
    }

    /// Adds arguments that may expand to several words, each a file unless something else is known:
    /// `$x` in `grep $x` may be a pattern and a file.
    pub(super) fn record_split_reads(&mut self, args: &[ShellArg]) {
        args.iter()
            .filter(|arg| arg.may_split())
            .for_each(|arg| self.record_read(arg, AccessDepth::Itself));
    }

    /// Adds a file that is created or changed.
    pub(super) fn record_write(&mut self, path: &ShellArg, depth: AccessDepth) {
        self.record_touch(FileAccess::Write, path.clone(), depth);
    }

    /// Adds files that are created or changed.
    pub(super) fn record_writes<'a>(&mut self, paths: impl IntoIterator<Item = &'a ShellArg>) {
        paths.into_iter().for_each(|path| self.record_write(path, AccessDepth::Itself));
    }

    /// Adds files that are created or changed; `-` is standard output.
    pub(super) fn record_outputs<'a>(&mut self, paths: impl IntoIterator<Item = &'a ShellArg>) {
        paths.into_iter().for_each(|path| self.record_write_unless_stdout(path));
    }

    /// Adds a file that is created or changed; `-` is standard output.
    pub(super) fn record_write_unless_stdout(&mut self, path: &ShellArg) {
        if path.as_known() != Some("-") {
            self.record_write(path, AccessDepth::Itself);
        }
    }

    /// Adds a file that is removed.
    pub(super) fn record_delete(&mut self, path: &ShellArg, depth: AccessDepth) {
        self.record_touch(FileAccess::Delete, path.clone(), depth);
    }

    fn record_touch(&mut self, access: FileAccess, path: ShellArg, depth: AccessDepth) {
        let touch = FileTouch { access, path, recursive: depth == AccessDepth::Beneath };
        self.push_touch(touch);
    }

    fn push_touch(&mut self, touch: FileTouch) {
        if self.seen.insert(touch.clone()) {
            self.analysis.touches.push(touch);
        }
    }

    /// Adds a host that is connected to.
    pub(super) fn record_host(&mut self, host: &ShellArg) {
        if !self.analysis.hosts.contains(host) {
            self.analysis.hosts.push(host.clone());
        }
    }

    /// Adds a script that a shell runs.
    pub(super) fn record_script(&mut self, text: &ShellArg) {
        self.analysis.runs.push(NestedExecution::Script { text: text.clone(), folder: None });
    }

    /// Adds a program that is run with unknown arguments.
    pub(super) fn record_command(&mut self, program: &ShellArg) {
        self.analysis.runs.push(NestedExecution::from_argv_and_more(vec![program.clone()]));
    }

    /// Adds an unknown command.
    pub(super) fn record_unknown_run(&mut self, why: &'static str) {
        let run = NestedExecution::Unknown(why);
        if !self.analysis.runs.contains(&run) {
            self.analysis.runs.push(run);
        }
    }

    /// Adds a caution: why a rule for the name alone does not cover the command. The first one is
    /// kept.
    pub(super) fn record_caution(&mut self, why: &str) {
        self.analysis.caution.get_or_insert_with(|| why.to_owned());
    }

    /// Adds a caution if an unknown argument could be a dangerous option.
    pub(super) fn record_hidden_option(
        &mut self,
        args: &[ShellArg],
        options: &ParsedArguments<'_>,
    ) {
        if may_hide_option(args, options) {
            self.record_caution(MAY_BE_OPTION);
        }
    }

    /// Adds a reason why the command is critical.
    pub(super) fn record_critical(&mut self, why: &'static str) {
        self.analysis.critical = Some(why);
    }

    /// Adds the effect of an option's value.
    pub(super) fn record_value(&mut self, value_use: ValueUse, value: &ShellArg) {
        match value_use {
            ValueUse::Nothing | ValueUse::Folder | ValueUse::Path => {}
            ValueUse::Read => self.record_read(value, AccessDepth::Itself),
            ValueUse::Identity => self.record_identities([value]),
            ValueUse::List => self.record_listed_reads(value),
            ValueUse::Write => self.record_write_unless_stdout(value),
            ValueUse::Host => self.record_host(value),
            ValueUse::Command => self.record_command(value),
            ValueUse::Script => self.record_script(value),
        }
    }

    /// Adds the effect of an option itself, if it does not depend on the row.
    pub(super) fn record_change(&mut self, change: OptionChange) {
        match change {
            OptionChange::Run(why) => self.record_unknown_run(why),
            OptionChange::Caution(why) => self.record_caution(why),
            _ => {}
        }
    }

    /// Adds the findings of another analysis, except its class.
    pub(super) fn merge(&mut self, other: CommandAnalysis) {
        for touch in other.touches {
            self.push_touch(touch);
        }
        self.analysis.identity_files.extend(other.identity_files);
        self.analysis.hosts.extend(other.hosts);
        self.analysis.runs.extend(other.runs);
        if let Some(why) = other.caution {
            self.record_caution(&why);
        }
    }

    /// Builds an analysis that is complete: the command reads, or it changes files.
    pub(super) fn build_complete(self) -> CommandAnalysis {
        let reads_only = self.analysis.touches.iter().all(|touch| touch.access == FileAccess::Read);
        self.build_with_class(if reads_only { CommandClass::ReadOnly } else { CommandClass::Files })
    }

    /// Builds an analysis of a command that may do more.
    pub(super) fn build_incomplete(self) -> CommandAnalysis {
        self.build_with_class(CommandClass::Opaque)
    }

    fn build_with_class(mut self, class: CommandClass) -> CommandAnalysis {
        self.analysis.class = class;
        self.analysis
    }
}

/// Whether some argument may expand to an option, or to several words with an option among them.
///
/// There are no options after `--`, unless that `--` was itself the value of an option.
pub(super) fn may_hide_option(args: &[ShellArg], options: &ParsedArguments<'_>) -> bool {
    let end = ShellArg::known("--");
    let is_value = options.parsed.iter().any(|option| option.value.as_ref() == Some(&end));
    let end = args.iter().position(|arg| *arg == end && !is_value).unwrap_or(args.len());
    let unknown = args.iter().take(end).any(ShellArg::may_split);
    options.uncertain || unknown
}

/// The file `name` in `folder`, as far as both are known.
pub(super) fn join_path(folder: &ShellArg, name: &str) -> Option<ShellArg> {
    let put = |folder: &str| match folder {
        "" => name.to_owned(),
        folder if folder.ends_with('/') => format!("{folder}{name}"),
        folder => format!("{folder}/{name}"),
    };
    match folder {
        ShellArg::Known(folder) => Some(ShellArg::Known(put(folder))),
        ShellArg::Pattern(_) | ShellArg::Unknown { .. } => None,
    }
}

/// The last component of a known path; `None` for `.`, `a/..` and `/`.
pub(super) fn last_component(path: &ShellArg) -> Option<&str> {
    let path = path.as_known()?.trim_end_matches('/');
    let name = path.rsplit('/').next()?;
    (!matches!(name, "" | "." | "..")).then_some(name)
}

/// A path with a known prefix and an unknown rest.
pub(super) fn path_starting_with(start: &str) -> ShellArg {
    ShellArg::Unknown { starts_with: start.to_owned(), written: format!("{start}…") }
}
