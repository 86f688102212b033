//! Shells: they are given a script, and its effects are theirs.

use std::path::Path;

use crate::program::arguments::args_from;
use crate::program::command_analysis::{
    CommandAnalysis, CommandClass, FileAccess, NestedExecution,
};
use crate::shell::ShellArg;
use crate::word_list::words;

/// Shells whose language is parsed here.
const POSIX_SHELLS: &[&str] =
    &["sh", "bash", "dash", "ash", "ksh", "ksh93", "mksh", "lksh", "rbash"];

/// Shells with another language: a script may mean something else to them. The glob `*(e:'rm x':)`
/// runs a command in zsh.
const OTHER_SHELLS: &[&str] =
    &["zsh", "fish", "csh", "tcsh", "rksh", "yash", "xonsh", "nu", "elvish"];

/// Long options of bash without dashes; bash also accepts them with one dash.
const BASH_LONG_OPTIONS: &[&str] = words!(
    "debug debugger dump-po-strings dump-strings help init-file login noediting noprofile norc \
     posix pretty-print protected rcfile restricted verbose version wordexp"
);

pub(super) fn analyze(name: &str, args: &[ShellArg]) -> Option<CommandAnalysis> {
    // A login shell is called `-bash`.
    let name = name.strip_prefix('-').unwrap_or(name);
    let posix = POSIX_SHELLS.contains(&name);
    if !posix && !OTHER_SHELLS.contains(&name) {
        return None;
    }
    let line = ShellInvocation::parse(args);
    let analysis = line.analyze();
    let harmless = analysis.class == CommandClass::ReadOnly;
    Some(
        analysis
            .with_caution_if(!posix && !harmless, "its language is not the one that is read here"),
    )
}

/// A parsed command line of a shell, as POSIX shells and bash read it.
#[derive(Default)]
struct ShellInvocation<'a> {
    script_given: bool,
    from_input: bool,
    only_checks: bool,
    only_tells: bool,
    startup_file: Option<&'a ShellArg>,
    guess: bool,
    /// Text that fish takes as the value of an option.
    attached: Vec<ShellArg>,
    operands: &'a [ShellArg],
}

impl<'a> ShellInvocation<'a> {
    fn parse(args: &'a [ShellArg]) -> Self {
        let mut line = Self::default();
        let mut at = 0;
        while let Some(arg) = args.get(at) {
            let Some(text) = arg.as_known() else {
                line.guess |= arg.may_be_option() || arg.known_prefix().starts_with('+');
                break;
            };
            // bash also accepts its long options with one dash; to other shells they are letters.
            let single = text.strip_prefix('-').filter(|long| BASH_LONG_OPTIONS.contains(long));
            line.guess |= single.is_some();
            let double = text.strip_prefix("--").filter(|long| !long.is_empty());
            if let Some(long) = double.or(single) {
                at += 1;
                match long.split_once('=').unwrap_or((long, "")) {
                    ("rcfile" | "init-file", "") => {
                        line.startup_file = args.get(at);
                        at += 1;
                    }
                    ("version" | "help", "") => line.only_tells = true,
                    ("command" | "init-command", "") => {
                        line.attached.extend(args.get(at).cloned());
                        at += 1;
                    }
                    ("command" | "init-command", text) => line.attached.push(ShellArg::known(text)),
                    (
                        "norc" | "noprofile" | "login" | "posix" | "verbose" | "noediting"
                        | "restricted" | "debugger" | "interactive" | "no-config" | "private"
                        | "dump-strings" | "dump-po-strings" | "protected" | "wordexp",
                        "",
                    ) => {}
                    _ => line.guess = true,
                }
                continue;
            }
            let letters = match text.strip_prefix(['-', '+']) {
                Some(letters) if !letters.is_empty() && text != "--" => letters,
                ends => {
                    at += usize::from(ends.is_some());
                    break;
                }
            };
            at += 1;
            for letter in letters.chars() {
                match letter {
                    'c' => line.script_given = true,
                    's' => line.from_input = true,
                    'n' => line.only_checks = text.starts_with('-'),
                    'o' | 'O' => at += 1,
                    _ => {}
                }
            }
        }
        line.operands = args_from(args, at);
        line
    }

    fn analyze(&self) -> CommandAnalysis {
        if self.only_tells {
            return CommandAnalysis::read_only();
        }
        let analysis = match self.operands.first() {
            _ if !self.attached.is_empty() => {
                self.attached.iter().fold(CommandAnalysis::wrapper(), |command_analysis, text| {
                    command_analysis.with_run(NestedExecution::from_script(text))
                })
            }
            Some(script) if self.script_given => {
                CommandAnalysis::wrapper().with_run(NestedExecution::from_script(script))
            }
            // An error in most shells, but nothing that can be relied on.
            None if self.script_given => CommandAnalysis::opaque(),
            Some(file) if self.only_checks && !self.from_input && !self.guess => {
                CommandAnalysis::read_only().with_touch(FileAccess::Read, file)
            }
            Some(file) if !self.from_input => match parse_stream(file) {
                None => CommandAnalysis::opaque().with_touch(FileAccess::Read, file),
                Some(ProcessStream::Input) => {
                    CommandAnalysis::wrapper().with_run(NestedExecution::ScriptFromInput)
                }
                Some(ProcessStream::Other) => {
                    CommandAnalysis::wrapper().with_run(NestedExecution::ScriptFromInput).with_run(
                        NestedExecution::Unknown("it runs commands that it reads from a stream"),
                    )
                }
            },
            _ => CommandAnalysis::wrapper().with_run(NestedExecution::ScriptFromInput),
        };
        let study = match self.startup_file {
            Some(file) => analysis
                .with_touch(FileAccess::Read, file)
                .with_caution("it first runs a file whose commands are not seen"),
            None => analysis,
        };
        study.mark_guess_if(self.guess)
    }
}

/// A path that is a stream of the process that opens it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ProcessStream {
    Input,
    Other,
}

/// The stream of a path in any spelling: `/dev/stdin`, `/proc/self/fd/0`, `/dev/fd/63`. A relative
/// path is taken from the root, which can only be too strict.
pub(super) fn parse_stream(path: &ShellArg) -> Option<ProcessStream> {
    let normalized = crate::path::normalize_lexically(Path::new(path.as_known()?));
    let parts: Vec<&str> = normalized.iter().skip(1).filter_map(|part| part.to_str()).collect();
    Some(match parts.as_slice() {
        ["dev", "stdin"] | ["dev", "fd", "0"] | ["proc", _, "fd", "0"] => ProcessStream::Input,
        ["dev", "fd", _] | ["dev", "tty" | "stdout" | "stderr"] => ProcessStream::Other,
        ["proc", .., "fd", _] => ProcessStream::Other,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::analysis_text::check;

    #[test]
    fn shell_script_is_found_among_options() {
        check("bash -c rm_x", "wrapper script[rm x]");
        check("bash -lc rm_x a b", "wrapper script[rm x]");
        check("sh -xec rm_x", "wrapper script[rm x]");
        check("bash +x -c rm_x", "wrapper script[rm x]");
        check("bash -c -x rm_x", "wrapper script[rm x]");
        check("bash -c -- rm_x", "wrapper script[rm x]");
        check("bash --norc -c rm_x", "wrapper script[rm x]");
        check("bash -o pipefail -c rm_x", "wrapper script[rm x]");
        check("bash -euo pipefail -c rm_x", "wrapper script[rm x]");
        check("bash -euoc pipefail rm_x", "wrapper script[rm x]");
        check("bash -O extglob -c rm_x", "wrapper script[rm x]");
        check("bash --rcfile F -c rm_x", "wrapper read(F) script[rm x] caution");
        check("bash --init-file F", "wrapper read(F) script-from-input caution");
        check("/bin/dash -c rm_$X", "wrapper script?[rm_$X]");
    }

    #[test]
    fn shell_without_script_reads_file_or_stdin() {
        check("bash", "wrapper script-from-input");
        check("sh -s a b", "wrapper script-from-input");
        check("sh -", "wrapper script-from-input");
        check("bash -x run.sh a", "program read(run.sh)");
        check("bash -n run.sh", "read-only read(run.sh)");
        check("bash -n +n run.sh", "program read(run.sh)");
        check("bash --version", "read-only");
        check("bash -c", "program");
    }

    #[test]
    fn stream_path_is_not_a_file() {
        check("bash /dev/stdin a", "wrapper script-from-input");
        check("bash -x //dev/./stdin", "wrapper script-from-input");
        check("sh /proc/self/fd/0", "wrapper script-from-input");
        check("sh ../dev/fd/0", "wrapper script-from-input");
        check("sh /dev/fd/63", "wrapper script-from-input unknown");
        check("sh /proc/self/task/7/fd/3", "wrapper script-from-input unknown");
        check("sh dev/x", "program read(dev/x)");
    }

    #[test]
    fn unknown_shell_option_makes_script_a_guess() {
        check("bash $X rm_x", "program read($X) unknown");
        check("bash -$X rm_x", "program read(-$X) unknown");
        check("bash --strange -c ls", "wrapper script[ls] unknown");
        check("bash -norc evil.sh ls", "program read(evil.sh) unknown");
        check("bash -rcfile evil -c ls", "wrapper read(evil) script[ls] unknown caution");
    }

    #[test]
    fn other_shell_languages_are_not_trusted() {
        check("zsh -c ls", "wrapper script[ls] caution");
        check("fish --command=ls", "wrapper script[ls] caution");
        check("fish -c ls", "wrapper script[ls] caution");
        check("csh -c ls", "wrapper script[ls] caution");
        check("zsh --version", "read-only");
    }
}
