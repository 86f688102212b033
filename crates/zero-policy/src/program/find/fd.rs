//! `fd` is read-only, unless it runs something on what it finds.

use super::super::wrappers::fill_placeholder;
use crate::program::arguments::args_from;
use crate::program::command_analysis::{
    CommandAnalysis, CommandClass, FileAccess, NestedExecution,
};
use crate::shell::ShellArg;
use crate::word_list::words;

pub(super) fn analyze(args: &[ShellArg]) -> CommandAnalysis {
    let mut analysis = CommandAnalysis::read_only();
    let mut points: Vec<ShellArg> = Vec::new();
    let mut operands = 0;
    let mut at = 0;
    while let Some(arg) = args.get(at) {
        at += 1;
        let start = arg.known_prefix();
        let Some(text) = arg.as_known() else {
            if arg.may_be_option() || arg.may_split() {
                analysis = analysis.with_caution("an argument may be `--exec`");
                analysis.class = CommandClass::Opaque;
            }
            operands += 1;
            if operands > 1 {
                points.push(arg.clone());
            }
            continue;
        };
        match parse_fd_option(text) {
            FdOption::Exec { attached } => {
                let argv = match attached {
                    Some(program) => {
                        let mut argv = vec![ShellArg::known(program)];
                        argv.extend_from_slice(args_from(args, at));
                        argv
                    }
                    None => args_from(args, at).to_vec(),
                };
                return add_fd_run(analysis, &argv, points);
            }
            FdOption::Folder { attached } => {
                let folder = attached.map(ShellArg::known).or_else(|| {
                    at += 1;
                    args.get(at - 1).cloned()
                });
                points.extend(folder);
            }
            FdOption::Value => {
                if args.get(at).is_some_and(ShellArg::may_split) {
                    analysis = analysis.with_caution("an argument may be `--exec`");
                    analysis.class = CommandClass::Opaque;
                }
                at += 1;
            }
            FdOption::Flag => {}
            FdOption::Unknown => {
                analysis = analysis.with_caution("an option is not known");
                analysis.class = CommandClass::Opaque;
            }
            FdOption::None => {
                operands += 1;
                if operands > 1 {
                    points.push(ShellArg::known(start));
                }
            }
        }
    }
    add_fd_reads(analysis, points)
}

enum FdOption<'a> {
    Exec { attached: Option<&'a str> },
    Folder { attached: Option<&'a str> },
    Value,
    Flag,
    Unknown,
    None,
}

fn parse_fd_option(text: &str) -> FdOption<'_> {
    const VALUES: &[&str] = words!(
        "and max-depth min-depth exact-depth exclude type extension size changed-within \
         changed-before owner format batch-size ignore-file color threads max-results \
         path-separator max-buffer-time gen-completions"
    );
    const FLAGS: &[&str] = words!(
        "hidden no-ignore no-ignore-vcs no-ignore-parent no-global-ignore-file unrestricted \
         case-sensitive ignore-case glob regex fixed-strings absolute-path relative-path \
         list-details follow full-path print0 prune quiet show-errors one-file-system \
         strip-cwd-prefix require-git no-require-git no-follow no-hidden ignore ignore-vcs help \
         version hyperlink"
    );
    if let Some(long) = text.strip_prefix("--") {
        let (name, attached) = match long.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (long, None),
        };
        return match name {
            "" => FdOption::Flag,
            // Also `--exec-batch`; fd rejects abbreviations, but accepting them here is harmless.
            name if "exec".starts_with(name) || name.starts_with("exec") => {
                FdOption::Exec { attached }
            }
            "base-directory" | "search-path" => FdOption::Folder { attached },
            name if VALUES.contains(&name) => {
                if attached.is_some() {
                    FdOption::Flag
                } else {
                    FdOption::Value
                }
            }
            name if FLAGS.contains(&name) => FdOption::Flag,
            _ => FdOption::Unknown,
        };
    }
    let Some(letters) = text.strip_prefix('-').filter(|letters| !letters.is_empty()) else {
        return FdOption::None;
    };
    for (at, letter) in letters.char_indices() {
        let rest = letters.get(at + letter.len_utf8()..).filter(|rest| !rest.is_empty());
        match letter {
            'x' | 'X' => return FdOption::Exec { attached: rest },
            'C' => return FdOption::Folder { attached: rest },
            'd' | 'E' | 't' | 'e' | 'S' | 'o' | 'c' | 'j' => {
                return if rest.is_some() { FdOption::Flag } else { FdOption::Value };
            }
            'H' | 'I' | 'u' | 's' | 'i' | 'g' | 'F' | 'a' | 'l' | 'L' | 'p' | '0' | '1' | 'q'
            | 'h' | 'V' => {}
            _ => return FdOption::Unknown,
        }
    }
    FdOption::Flag
}

fn add_fd_reads(mut analysis: CommandAnalysis, points: Vec<ShellArg>) -> CommandAnalysis {
    let points = if points.is_empty() { vec![ShellArg::known(".")] } else { points };
    for point in &points {
        analysis = analysis.with_recursive_touch(FileAccess::Read, point);
    }
    analysis
}

/// `-x command ;`: everything up to `;`, with the path appended if there is no placeholder.
fn add_fd_run(
    analysis: CommandAnalysis,
    words: &[ShellArg],
    points: Vec<ShellArg>,
) -> CommandAnalysis {
    let mut command_analysis = add_fd_reads(analysis, points);
    if command_analysis.class == CommandClass::ReadOnly {
        command_analysis.class = CommandClass::Wrapper;
    }
    for command in words.split(|arg| matches!(arg.as_known(), Some(";" | "\\;"))).take(1) {
        let argv: Vec<ShellArg> =
            command.iter().map(|arg| fill_placeholder(arg, "{", "")).collect();
        command_analysis = command_analysis.with_run(NestedExecution::from_argv_and_more(argv));
    }
    // Another `-x` may follow `;`.
    let more = words.iter().position(|arg| matches!(arg.as_known(), Some(";" | "\\;")));
    command_analysis.mark_guess_if(more.is_some_and(|at| at + 1 < words.len()))
}

#[cfg(test)]
mod tests {
    use super::super::super::analysis_text::check;

    #[test]
    fn fd_reads_and_exec_are_recorded() {
        check("fd", "read-only read(./**)");
        check("fd -e rs pattern src", "read-only read(src/**)");
        check("fd pattern -x rm -f", "wrapper read(./**) runs[rm -f ...]");
        check("fd -HX rm", "wrapper read(./**) runs[rm ...]");
        check("fd -Hxrm", "wrapper read(./**) runs[rm ...]");
        check("fd --exec=rm {}", "wrapper read(./**) runs[rm {} ...]");
        check("fdfind --exec-batch rm {}", "wrapper read(./**) runs[rm {} ...]");
        check("fd x $X", "program read($X/**) caution");
        check("fd --strange", "program read(./**) caution");
    }
}
