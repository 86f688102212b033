//! Programs that run a command repeatedly, with arguments from another source.

use crate::program::arguments::unknown_arg;
use crate::program::command_analysis::{CommandAnalysis, FileAccess, NestedExecution};
use crate::program::options::options;
use crate::shell::ShellArg;

pub(super) fn analyze_xargs(args: &[ShellArg]) -> CommandAnalysis {
    let table = options!(
        "-0oprtx -adE: e:: I: i:: -JL: l:: -nPRsS: null arg-file: delimiter: eof:: replace:: \
         max-lines:: max-args: max-procs: interactive no-run-if-empty max-chars: open-tty \
         process-slot-var: show-limits verbose exit help version"
    )
    .strict();
    let options = table.until_operand().parse(args);
    let replaced =
        options.parsed.iter().rfind(|option| option.is_one_of(&["I", "i", "replace"])).map(
            |parsed_option| parsed_option.value.clone().unwrap_or_else(|| ShellArg::known("{}")),
        );
    let mut argv = options.operands.clone();
    let mut guess = options.uncertain;
    if argv.is_empty() {
        argv.push(ShellArg::known("echo"));
    }
    match replaced.as_ref().map(ShellArg::as_known) {
        Some(Some(mark)) => argv = argv.iter().map(|arg| fill_placeholder(arg, mark, "")).collect(),
        Some(None) => guess = true,
        None => {}
    }
    let run = NestedExecution::Command {
        argv,
        variables: Vec::new(),
        folder: None,
        more_arguments: replaced.is_none() || guess,
    };
    CommandAnalysis::wrapper()
        .with_run(run)
        .with_touches(FileAccess::Read, &options.all_values(&["a", "arg-file"]))
        .mark_guess_if(guess)
}

/// Replaces a placeholder in an argument by an unknown text that starts with `start`.
pub(in super::super) fn fill_placeholder(arg: &ShellArg, mark: &str, start: &str) -> ShellArg {
    let text = arg.to_string();
    if mark.is_empty() {
        return unknown_arg("", text);
    }
    match arg.known_prefix().split_once(mark) {
        Some((before, _)) => unknown_arg(format!("{before}{start}"), text),
        None if text.contains(mark) => unknown_arg("", text),
        None => arg.clone(),
    }
}

/// GNU parallel builds a script for a shell from its words and its input.
pub(super) fn analyze_parallel(args: &[ShellArg]) -> CommandAnalysis {
    let table = options!(
        "-0kmXqtuvxr -ajPnNL: l:: I: i:: -dCSs: null keep-order xargs quote verbose ungroup group \
         line-buffer lb arg-file: jobs: max-procs: max-args: max-replace-args: max-lines:: \
         delimiter: colsep: will-cite halt: dry-run bar progress eta joblog: results: tag \
         no-run-if-empty timeout: retries: nice: pipe shuf silent help version citation id: \
         semaphorename: fg bg wait"
    )
    .strict();
    let options = table.until_operand().parse(args);
    let is_source =
        |arg: &ShellArg| matches!(arg.as_known(), Some(":::" | "::::" | ":::+" | "::::+"));
    let end = options.operands.iter().position(is_source).unwrap_or(options.operands.len());
    let (command, sources) = options.operands.split_at(end);
    let logs = options.all_values(&["joblog", "results"]);
    let inputs = options.all_values(&["a", "arg-file"]);
    let analysis = CommandAnalysis::wrapper()
        .with_touches(FileAccess::Write, &logs)
        .with_touches(FileAccess::Read, &inputs)
        .mark_guess_if(options.uncertain);
    if command.is_empty() {
        // Its input consists of whole commands.
        return match sources {
            [mark, texts @ ..] if mark.as_known() == Some(":::") => texts
                .iter()
                .filter(|text| !is_source(text))
                .fold(analysis, |command_analysis, text| {
                    command_analysis.with_run(NestedExecution::from_script(text))
                }),
            [] => analysis.with_run(NestedExecution::ScriptFromInput),
            _ => analysis.with_run(NestedExecution::Unknown("its commands come from a file")),
        };
    }
    let reaches_out = options.has(&["S"]);
    let plain = command.iter().all(|arg| {
        arg.as_known().is_some_and(|text| {
            !text.contains([
                ';', '|', '&', '$', '`', '<', '>', '(', ')', '\n', '"', '\'', '\\', ' ', '*',
            ])
        })
    });
    if !plain || reaches_out || options.has(&["I", "i"]) {
        // The script is analyzed as written; inserted or appended text may change it.
        return analysis.with_run(NestedExecution::from_script_words(command)).with_run(
            NestedExecution::Unknown("what is added to its text is only known when it runs"),
        );
    }
    let argv: Vec<ShellArg> = command.iter().map(|arg| fill_placeholder(arg, "{", "")).collect();
    analysis.with_run(NestedExecution::from_argv_and_more(argv))
}

#[cfg(test)]
mod tests {
    use super::super::super::analysis_text::check;

    #[test]
    fn xargs_arguments_come_from_stdin() {
        check("xargs", "wrapper runs[echo ...]");
        check("xargs rm -f", "wrapper runs[rm -f ...]");
        check("xargs -0 -n 1 -P4 rm", "wrapper runs[rm ...]");
        check("xargs -0rn1 rm", "wrapper runs[rm ...]");
        check("xargs --max-a 1 --null rm", "wrapper runs[rm ...]");
        check("xargs -a list rm", "wrapper read(list) runs[rm ...]");
        check("xargs -I{} mv {} dir/{}", "wrapper runs[mv {} dir/{}]");
        check("xargs -I % sh -c echo_%", "wrapper runs[sh -c echo %]");
        check("xargs -i rm {}", "wrapper runs[rm {}]");
        check("xargs --replace=@ rm @", "wrapper runs[rm @]");
        check("xargs $X rm", "wrapper runs[$X rm ...] unknown");
        check("xargs --strange rm", "wrapper runs[rm ...] unknown");
    }

    #[test]
    fn parallel_commands_are_found() {
        check("parallel rm ::: a b", "wrapper runs[rm ...]");
        check("parallel -j4 gzip {} ::: a", "wrapper runs[gzip {} ...]");
        check("parallel", "wrapper script-from-input");
        check("parallel ::: rm_a ls", "wrapper script[rm a] script[ls]");
        check("parallel rm_-rf_{} ::: a", "wrapper script[rm -rf {}] unknown");
        check("parallel --strange rm ::: a", "wrapper unknown runs[rm ...]");
    }
}
