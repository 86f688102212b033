//! A study while it is being written: one method per thing that can be found out.

use crate::program::command_analysis::{
    CommandAnalysis, CommandClass, FileAccess, FileTouch, NestedExecution,
};
use crate::program::options::{OptionChange, ParsedArguments, ValueUse};
use crate::shell::ShellArg;

/// Said where an argument that is not known yet could turn out to be a dangerous option.
pub(super) const MAY_BE_OPTION: &str = "an argument that is not known yet may be an option";

/// How deep a touch goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AccessDepth {
    /// The file or folder itself.
    Itself,
    /// Everything beneath it too.
    Beneath,
}

/// What has been found out so far.
#[derive(Debug, Default)]
pub(super) struct CommandAnalysisBuilder {
    study: CommandAnalysis,
}

impl CommandAnalysisBuilder {
    /// A file that is read. `-` is standard input.
    pub(super) fn record_read(&mut self, path: &ShellArg, depth: AccessDepth) {
        if path.as_known() != Some("-") {
            self.record_touch(FileAccess::Read, path.clone(), depth);
        }
    }

    /// Files that are read.
    pub(super) fn record_reads<'a>(&mut self, paths: impl IntoIterator<Item = &'a ShellArg>) {
        paths.into_iter().for_each(|path| self.record_read(path, AccessDepth::Itself));
    }

    /// A file with names of files, all of which are read; `-` is standard input. Which they are
    /// nobody can say.
    pub(super) fn record_listed_reads(&mut self, list: &ShellArg) {
        self.record_read(list, AccessDepth::Itself);
        let written = format!("what {list} names");
        let listed = ShellArg::Unknown { starts_with: String::new(), written };
        self.record_touch(FileAccess::Read, listed, AccessDepth::Itself);
    }

    /// Arguments that may become several, where all that is not said otherwise is a file: `$x` in
    /// `grep $x` may be a pattern and a file.
    pub(super) fn record_split_reads(&mut self, args: &[ShellArg]) {
        args.iter()
            .filter(|arg| arg.may_split())
            .for_each(|arg| self.record_read(arg, AccessDepth::Itself));
    }

    /// A file that is made or changed.
    pub(super) fn record_write(&mut self, path: &ShellArg, depth: AccessDepth) {
        self.record_touch(FileAccess::Write, path.clone(), depth);
    }

    /// Files that are made or changed.
    pub(super) fn record_writes<'a>(&mut self, paths: impl IntoIterator<Item = &'a ShellArg>) {
        paths.into_iter().for_each(|path| self.record_write(path, AccessDepth::Itself));
    }

    /// Files that are made or changed, where `-` is standard output.
    pub(super) fn record_outputs<'a>(&mut self, paths: impl IntoIterator<Item = &'a ShellArg>) {
        paths.into_iter().for_each(|path| self.record_write_unless_stdout(path));
    }

    /// A file that is made or changed, where `-` is standard output.
    pub(super) fn record_write_unless_stdout(&mut self, path: &ShellArg) {
        if path.as_known() != Some("-") {
            self.record_write(path, AccessDepth::Itself);
        }
    }

    /// A file that is removed.
    pub(super) fn record_delete(&mut self, path: &ShellArg, depth: AccessDepth) {
        self.record_touch(FileAccess::Delete, path.clone(), depth);
    }

    fn record_touch(&mut self, access: FileAccess, path: ShellArg, depth: AccessDepth) {
        let touch = FileTouch { access, path, recursive: depth == AccessDepth::Beneath };
        if !self.study.touches.contains(&touch) {
            self.study.touches.push(touch);
        }
    }

    /// A host that is talked to.
    pub(super) fn record_host(&mut self, host: &ShellArg) {
        if !self.study.hosts.contains(host) {
            self.study.hosts.push(host.clone());
        }
    }

    /// A text that a shell runs.
    pub(super) fn record_script(&mut self, text: &ShellArg) {
        self.study.runs.push(NestedExecution::Script { text: text.clone(), folder: None });
    }

    /// A program that is run, with arguments nobody can say.
    pub(super) fn record_command(&mut self, program: &ShellArg) {
        self.study.runs.push(NestedExecution::from_argv_and_more(vec![program.clone()]));
    }

    /// Something is run, but nobody can say what.
    pub(super) fn record_unknown_run(&mut self, why: &'static str) {
        let run = NestedExecution::Unknown(why);
        if !self.study.runs.contains(&run) {
            self.study.runs.push(run);
        }
    }

    /// A reason why no rule may cover it by its name alone. The first one is kept.
    pub(super) fn record_caution(&mut self, why: &str) {
        self.study.caution.get_or_insert_with(|| why.to_owned());
    }

    /// Says so where an argument that is not known yet could turn out to be a dangerous option.
    pub(super) fn record_hidden_option(
        &mut self,
        args: &[ShellArg],
        options: &ParsedArguments<'_>,
    ) {
        if may_hide_option(args, options) {
            self.record_caution(MAY_BE_OPTION);
        }
    }

    /// A reason why it is critical.
    pub(super) fn record_critical(&mut self, why: &'static str) {
        self.study.critical = Some(why);
    }

    /// What is done with the value of an option.
    pub(super) fn record_value(&mut self, value_use: ValueUse, value: &ShellArg) {
        match value_use {
            ValueUse::Nothing | ValueUse::Folder | ValueUse::Path => {}
            ValueUse::Read => self.record_read(value, AccessDepth::Itself),
            ValueUse::List => self.record_listed_reads(value),
            ValueUse::Write => self.record_write_unless_stdout(value),
            ValueUse::Host => self.record_host(value),
            ValueUse::Command => self.record_command(value),
            ValueUse::Script => self.record_script(value),
        }
    }

    /// What an option changes by being there, as far as no row must know.
    pub(super) fn record_change(&mut self, change: OptionChange) {
        match change {
            OptionChange::Run(why) => self.record_unknown_run(why),
            OptionChange::Caution(why) => self.record_caution(why),
            _ => {}
        }
    }

    /// Adds what was found out elsewhere, except the nature.
    pub(super) fn merge(&mut self, other: CommandAnalysis) {
        for touch in other.touches {
            if !self.study.touches.contains(&touch) {
                self.study.touches.push(touch);
            }
        }
        self.study.hosts.extend(other.hosts);
        self.study.runs.extend(other.runs);
        if let Some(why) = other.caution {
            self.record_caution(&why);
        }
    }

    /// It does what was noted and nothing else: it looks, or it changes files.
    pub(super) fn build_complete(self) -> CommandAnalysis {
        let looks = self.study.touches.iter().all(|touch| touch.access == FileAccess::Read);
        self.build_with_class(if looks { CommandClass::ReadOnly } else { CommandClass::Files })
    }

    /// It may do more than was noted.
    pub(super) fn build_incomplete(self) -> CommandAnalysis {
        self.build_with_class(CommandClass::Opaque)
    }

    fn build_with_class(mut self, nature: CommandClass) -> CommandAnalysis {
        self.study.nature = nature;
        self.study
    }
}

/// Whether some argument may turn out to be an option, or several words with one among them.
///
/// After `--` there are no options, unless that `--` was itself the value of one.
pub(super) fn may_hide_option(args: &[ShellArg], options: &ParsedArguments<'_>) -> bool {
    let end = ShellArg::known("--");
    let is_value = options.given.iter().any(|given| given.value.as_ref() == Some(&end));
    let end = args.iter().position(|arg| *arg == end && !is_value).unwrap_or(args.len());
    let unknown = args.iter().take(end).any(ShellArg::may_split);
    options.uncertain || unknown
}

/// The file `name` in `folder`, both as far as they are known.
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

/// The last part of a known path; `None` when it has none of its own, as `.`, `a/..` and `/`.
pub(super) fn last_component(path: &ShellArg) -> Option<&str> {
    let path = path.as_known()?.trim_end_matches('/');
    let name = path.rsplit('/').next()?;
    (!matches!(name, "" | "." | "..")).then_some(name)
}

/// A path that starts so and goes on in a way nobody can say.
pub(super) fn path_starting_with(start: &str) -> ShellArg {
    ShellArg::Unknown { starts_with: start.to_owned(), written: format!("{start}…") }
}
