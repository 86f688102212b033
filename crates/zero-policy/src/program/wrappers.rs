//! Programs that only run another one under changed conditions.
//!
//! Most are a row of a table: their options, the number of words before the command, and which
//! options name files. The others have a function each.

mod batch_runners;
mod dev_wrappers;
mod env;
mod sandboxes;
mod wrapper_table;

pub(super) use batch_runners::fill_placeholder;

use crate::program::arguments::{args_from, known_text, strip_arg_prefix, unknown_arg};
use crate::program::command_analysis::{
    CommandAnalysis, CommandClass, FileAccess, NestedExecution,
};
use crate::program::options::{OptionChange, OptionTable, ValueUse, options};
use crate::shell::ShellArg;
use crate::word_list::words;

/// A program of the form `name [options] [words] command [arguments]`.
struct WrapperRow {
    names: &'static [&'static str],
    table: OptionTable,
    /// Words between the options and the command.
    skips: usize,
    class: CommandClass,
    /// Why no rule may cover it; empty if one may.
    caution: &'static str,
}

pub(super) fn analyze(name: &str, args: &[ShellArg]) -> Option<CommandAnalysis> {
    if let Some(row) = wrapper_table::ROWS.iter().find(|row| row.names.contains(&name)) {
        return Some(row.analyze(args));
    }
    Some(match name {
        "env" => env::analyze(args),
        "xargs" => batch_runners::analyze_xargs(args),
        "parallel" | "sem" => batch_runners::analyze_parallel(args),
        "busybox" | "toybox" => analyze_busybox(args),
        "watch" => analyze_watch(args),
        "flock" => analyze_flock(args),
        "script" => analyze_script(args),
        "strace" => analyze_strace(args),
        "gdb" | "lldb" | "rr" => analyze_debugger(args),
        "perf" => analyze_perf(args),
        "sg" | "newgrp" => analyze_sg(args),
        "arch" => analyze_arch(args),
        "setarch" | "linux32" | "linux64" => analyze_setarch(name, args),
        "entr" => analyze_entr(args),
        "watchexec" => analyze_watchexec(args),
        _ => return sandboxes::analyze(name, args).or_else(|| dev_wrappers::analyze(name, args)),
    })
}

impl WrapperRow {
    fn analyze(&self, args: &[ShellArg]) -> CommandAnalysis {
        let options = self.table.parse(args);
        if options.has_change(OptionChange::ActOnProcess) {
            return CommandAnalysis::opaque();
        }
        let (skipped, argv) = options.operands.split_at(self.skips.min(options.operands.len()));
        // `timeout $t rm x`: unquoted, `$t` may expand to several words.
        let uncertain = options.uncertain || skipped.iter().any(|word| word.as_known().is_none());
        let class = match (self.class, argv.is_empty()) {
            // Without a command it prints its usage or its settings.
            (CommandClass::Wrapper, true) => CommandClass::ReadOnly,
            (nature, _) => nature,
        };
        let files = |value_use| options.used_values(value_use).cloned().collect::<Vec<_>>();
        let (read, written) = (files(ValueUse::Read), files(ValueUse::Write));
        CommandAnalysis::with_class(class)
            .with_command(argv)
            .with_touches(FileAccess::Read, &read)
            .with_touches(FileAccess::Write, &written)
            .with_caution_if(!self.caution.is_empty(), self.caution)
            .mark_guess_if(uncertain)
    }
}

fn analyze_busybox(args: &[ShellArg]) -> CommandAnalysis {
    match args.first() {
        Some(arg) if arg.as_known().is_some_and(|text| text.starts_with('-')) => {
            // `--install` creates links; the others only print.
            if known_text(Some(arg)).starts_with("--l") {
                CommandAnalysis::read_only()
            } else {
                CommandAnalysis::opaque()
            }
        }
        Some(_) => CommandAnalysis::wrapper().with_command(args),
        None => CommandAnalysis::read_only(),
    }
}

fn analyze_watch(args: &[ShellArg]) -> CommandAnalysis {
    let table = options!(
        "-bcCegprtwxf d:: -nqs: beep color no-color differences:: errexit chgexit interval: \
         precise equexit: no-rerun shotsdir: no-title no-wrap exec follow help version"
    )
    .strict();
    let options = table.until_operand().parse(args);
    let analysis = match options.operands.as_slice() {
        [] => CommandAnalysis::read_only(),
        argv if options.has(&["x", "exec"]) => CommandAnalysis::wrapper().with_command(argv),
        words => CommandAnalysis::wrapper().with_run(NestedExecution::from_script_words(words)),
    };
    analysis.mark_guess_if(options.uncertain)
}

fn analyze_flock(args: &[ShellArg]) -> CommandAnalysis {
    let table = options!(
        "-sxeonuFvhV -wE: shared exclusive unlock nonblock nb timeout: wait: conflict-exit-code: \
         close no-fork fcntl verbose help version"
    )
    .strict();
    let options = table.until_operand().parse(args);
    let Some((file, command)) = options.operands.split_first() else {
        return CommandAnalysis::read_only().mark_guess_if(options.uncertain);
    };
    let is_descriptor = known_text(Some(file)).bytes().all(|byte| byte.is_ascii_digit());
    let analysis = CommandAnalysis::wrapper().mark_guess_if(options.uncertain);
    match command {
        [] if is_descriptor && file.as_known().is_some() => CommandAnalysis::read_only(),
        [flag, text, ..] if matches!(flag.as_known(), Some("-c" | "--command")) => analysis
            .with_run(NestedExecution::from_script(text))
            .with_touch(FileAccess::Write, file),
        argv => {
            let open = argv.first().is_some_and(ShellArg::may_be_option);
            analysis.with_command(argv).with_touch(FileAccess::Write, file).mark_guess_if(open)
        }
    }
}

/// Records a terminal session: `script -c text [file]`, on other systems `script [file] command`.
fn analyze_script(args: &[ShellArg]) -> CommandAnalysis {
    let table = options!(
        "-aefFkpqrhVd -BcEImoO: t:: T: append log-io: command: return echo: flush force log-in: \
         logging-format: output-limit: log-out: quiet timing:: log-timing: help version"
    )
    .strict();
    let options = table.until_operand().parse(args);
    let files = ["B", "I", "O", "T", "log-io", "log-in", "log-out", "log-timing", "timing"];
    let mut written: Vec<ShellArg> = options.values(&files).cloned().collect();
    let operands = options.operands.as_slice();
    written.push(operands.first().cloned().unwrap_or_else(|| ShellArg::known("typescript")));
    let text = options.values(&["c", "command"]).last();
    let analysis = match (text, args_from(operands, 1)) {
        (Some(text), []) => CommandAnalysis::wrapper().with_run(NestedExecution::from_script(text)),
        (Some(text), argv) => CommandAnalysis::wrapper()
            .with_run(NestedExecution::from_script(text))
            .with_command(argv)
            .mark_guess_if(true),
        (None, []) => CommandAnalysis::wrapper().with_run(NestedExecution::ScriptFromInput),
        (None, argv) => {
            let argv = if known_text(argv.first()) == "--" { args_from(argv, 1) } else { argv };
            // GNU accepts options after the file too.
            let open = argv.first().is_some_and(ShellArg::may_be_option);
            CommandAnalysis::wrapper().with_command(argv).mark_guess_if(open)
        }
    };
    analysis
        .with_touches(FileAccess::Write, &written)
        .mark_guess_if(options.uncertain || options.has(&["t"]))
}

fn analyze_strace(args: &[ShellArg]) -> CommandAnalysis {
    let table = options!(
        "-cCdDfFhiknqrtTvVwxyYzZ -abeEIoOpPsSuUX: columns: detach-on: summary-only summary \
         daemonize:: trace: env: follow-forks instruction-pointer interruptible: stack-traces \
         output: output-append-mode output-separately summary-syscall-overhead: attach: \
         trace-path: quiet:: relative-timestamps:: string-limit: summary-sort-by: \
         absolute-timestamps:: syscall-times:: user: summary-columns: no-abbrev strings-in-hex:: \
         summary-wall-clock decode-fds:: decode-pids:: successful-only failed-only seccomp-bpf \
         status: abbrev: verbose: raw: signal: read: write: fault: inject: kvm: tips:: help \
         version"
    )
    .strict();
    let options = table.until_operand().parse(args);
    let mut analysis =
        CommandAnalysis::wrapper().with_command(&options.operands).mark_guess_if(options.uncertain);
    if options.operands.is_empty() {
        analysis = CommandAnalysis::opaque();
    }
    for output in options.values(&["o", "output"]) {
        analysis = match ["|", "!"].iter().find_map(|mark| strip_arg_prefix(output, mark)) {
            Some(text) => analysis.with_run(NestedExecution::from_script(&text)),
            None => analysis.with_touch(FileAccess::Write, output),
        };
    }
    let meddles = options.has(&["p", "attach", "fault", "inject"])
        || options.values(&["e"]).any(|value| {
            ["fault", "inject"].iter().any(|word| value.known_prefix().starts_with(word))
        });
    analysis
        .with_caution_if(meddles, "it changes what another process does")
        .mark_guess_if(options.has(&["E", "env"]))
}

/// Debuggers run a program and the commands in their own options.
fn analyze_debugger(args: &[ShellArg]) -> CommandAnalysis {
    let at = args.iter().position(|arg| matches!(arg.as_known(), Some("--args" | "--")));
    let before = args.get(..at.unwrap_or(args.len())).unwrap_or_default();
    let scripted = before.iter().any(|arg| {
        arg.as_known().is_none()
            || words!(
                "-ex -iex --ex --iex -x --command -command -o -s --eval -eval --source --one-line"
            )
            .iter()
            .any(|option| arg.known_prefix().starts_with(option))
    });
    let argv = at.map_or(&[] as &[ShellArg], |at| args_from(args, at + 1));
    CommandAnalysis::opaque()
        .with_command(argv)
        .with_caution_if(scripted, "its own commands can run anything")
}

fn analyze_perf(args: &[ShellArg]) -> CommandAnalysis {
    let table = options!(
        "-agdsvqnBS -eACFcGoptrIx: event: all-cpus cpu: freq: count: call-graph: output: pid: tid: \
         repeat: detailed sync verbose quiet interval-print: field-separator: no-big-num append \
         delay: per-core per-thread timeout:"
    )
    .strict();
    let (sub, rest) = (known_text(args.first()), args_from(args, 1));
    match sub {
        "record" | "stat" | "trace" => {
            let options = table.until_operand().parse(rest);
            CommandAnalysis::opaque()
                .with_command(&options.operands)
                .with_touches(FileAccess::Write, &options.all_values(&["o", "output"]))
                .mark_guess_if(options.uncertain)
        }
        _ => CommandAnalysis::opaque(),
    }
}

/// `sg group [-c] text`.
fn analyze_sg(args: &[ShellArg]) -> CommandAnalysis {
    let words: Vec<ShellArg> = args
        .iter()
        .filter(|arg| !matches!(arg.as_known(), Some("-c" | "-" | "-l")))
        .cloned()
        .collect();
    match words.as_slice() {
        [_, text, ..] => CommandAnalysis::opaque().with_run(NestedExecution::from_script(text)),
        _ => CommandAnalysis::opaque().with_run(NestedExecution::ScriptFromInput),
    }
}

/// macOS's `arch -arm64 command`; elsewhere it prints the machine's name.
fn analyze_arch(args: &[ShellArg]) -> CommandAnalysis {
    let mut at = 0;
    let mut guess = false;
    while let Some(arg) = args.get(at).filter(|arg| arg.may_be_option()) {
        match arg.as_known() {
            Some(
                "-arm64" | "-arm64e" | "-x86_64" | "-x86_64h" | "-i386" | "-32" | "-64" | "-c",
            ) => {}
            Some("-arch") => at += 1,
            _ => guess = true,
        }
        at += 1;
    }
    match args_from(args, at) {
        [] => CommandAnalysis::read_only().mark_guess_if(guess),
        argv => CommandAnalysis::wrapper().with_command(argv).mark_guess_if(guess),
    }
}

fn analyze_setarch(name: &str, args: &[ShellArg]) -> CommandAnalysis {
    let skips = match args.first() {
        Some(first) if name == "setarch" && !first.may_be_option() => 1,
        _ => 0,
    };
    let row = WrapperRow {
        names: &[],
        table: options!("-BFILRSTXZv3h addr-no-randomize uname-2.6 help version")
            .strict()
            .until_operand(),
        skips: 0,
        class: CommandClass::Wrapper,
        caution: "",
    };
    row.analyze(args_from(args, skips))
}

fn analyze_entr(args: &[ShellArg]) -> CommandAnalysis {
    let options = options!("-acdnprsxz").strict().until_operand().parse(args);
    let analysis = CommandAnalysis::wrapper().mark_guess_if(options.uncertain);
    if options.has(&["s"]) {
        return match options.operands.first() {
            Some(text) => analysis.with_run(NestedExecution::from_script(text)),
            None => analysis,
        };
    }
    // `/_` stands for the file that changed.
    let argv: Vec<ShellArg> = options
        .operands
        .iter()
        .map(|arg| if arg.as_known() == Some("/_") { unknown_arg("", "/_") } else { arg.clone() })
        .collect();
    analysis.with_command(&argv)
}

fn analyze_watchexec(args: &[ShellArg]) -> CommandAnalysis {
    let table = options!(
        "-cnNprvq1 -defiIjoswWFE: clear:: debounce: exts: filter: ignore: no-vcs-ignore postpone \
         restart signal: watch: shell: stop-signal: stop-timeout: on-busy-update: delay-run: \
         poll:: no-project-ignore no-default-ignore no-global-ignore notify quiet timings env: \
         workdir: wrap-process: help version"
    )
    .strict();
    let options = table.until_operand().parse(args);
    let shell = options.values(&["shell"]).last().map(|shell| known_text(Some(shell)));
    let guess = options.uncertain || options.has(&["E", "env"]);
    let analysis = CommandAnalysis::wrapper().mark_guess_if(guess);
    let plain = options.has(&["n"]) || shell == Some("none");
    if options.operands.is_empty() {
        CommandAnalysis::opaque()
    } else if plain {
        analysis.with_command(&options.operands)
    } else {
        analysis.with_run(NestedExecution::from_script_words(&options.operands))
    }
}

#[cfg(test)]
mod tests;
