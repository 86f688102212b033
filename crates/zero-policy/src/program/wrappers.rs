//! Programs that do nothing but run another one, a little differently.
//!
//! Most are a row of a table: their options, how many words stand before the command, and which
//! options name files. The odd ones have a function each.

mod batch_runners;
mod dev_wrappers;
mod env;
mod sandboxes;
mod supervisors;
mod wrapper_table;

pub(super) use batch_runners::filled;

use super::getopt::{GetoptSpec, OptionTerminator};
use super::{CommandAnalysis, CommandClass, FileAccess, NestedExecution, from, word};
use crate::shell::ShellArg;

/// A program of the form `name [options] [words] command [arguments]`.
struct WrapperRow {
    name: &'static str,
    table: GetoptSpec,
    /// Words between the options and the command.
    skips: usize,
    nature: CommandClass,
    /// Why no rule may cover it, if so.
    caution: &'static str,
    /// Options whose values are files it writes.
    writes: &'static [&'static str],
    /// Options with which it runs no command but acts on a process that is there.
    acts_on: &'static [&'static str],
}

const ROW: WrapperRow = WrapperRow {
    name: "",
    table: GetoptSpec { short: "", long: "help version" },
    skips: 0,
    nature: CommandClass::Wrapper,
    caution: "",
    writes: &[],
    acts_on: &[],
};

pub(super) fn study(name: &str, args: &[ShellArg]) -> Option<CommandAnalysis> {
    let mut rows = wrapper_table::ROWS.iter().chain(supervisors::ROWS);
    if let Some(row) = rows.find(|row| row.name == name) {
        return Some(row.study(args));
    }
    Some(match name {
        "env" => env::study(args),
        "xargs" => batch_runners::xargs(args),
        "parallel" | "sem" => batch_runners::parallel(args),
        "busybox" | "toybox" => busybox(args),
        "watch" => watch(args),
        "flock" => flock(args),
        "script" => script(args),
        "strace" => strace(args),
        "gdb" | "lldb" | "rr" => debugger(args),
        "perf" => perf(args),
        "sg" | "newgrp" => group(args),
        "arch" => arch(args),
        "setarch" | "linux32" | "linux64" => setarch(name, args),
        "entr" => entr(args),
        "watchexec" => watchexec(args),
        _ => return sandboxes::study(name, args).or_else(|| dev_wrappers::study(name, args)),
    })
}

impl WrapperRow {
    fn study(&self, args: &[ShellArg]) -> CommandAnalysis {
        let options = self.table.read(args, OptionTerminator::AtOperand);
        if options.has(self.acts_on) {
            return CommandAnalysis::program();
        }
        let (skipped, argv) = options.operands.split_at(self.skips.min(options.operands.len()));
        // `timeout $t rm x`: unquoted, `$t` may bring words of its own.
        let uncertain = options.uncertain || skipped.iter().any(|word| word.as_known().is_none());
        let nature = match (self.nature, argv.is_empty()) {
            // Alone it tells how it is used, or what is set.
            (CommandClass::Wrapper, true) => CommandClass::ReadOnly,
            (nature, _) => nature,
        };
        let written: Vec<ShellArg> = options.values(self.writes).cloned().collect();
        CommandAnalysis::of(nature)
            .runs_argv(argv)
            .touches_all(FileAccess::Write, &written)
            .caution_if(!self.caution.is_empty(), self.caution)
            .guess_if(uncertain)
    }
}

fn busybox(args: &[ShellArg]) -> CommandAnalysis {
    match args.first() {
        Some(arg) if arg.as_known().is_some_and(|text| text.starts_with('-')) => {
            // `--install` makes links; the rest only tells.
            if word(Some(arg)).starts_with("--l") {
                CommandAnalysis::read_only()
            } else {
                CommandAnalysis::program()
            }
        }
        Some(_) => CommandAnalysis::wrapper().runs_argv(args),
        None => CommandAnalysis::read_only(),
    }
}

fn watch(args: &[ShellArg]) -> CommandAnalysis {
    let table = GetoptSpec {
        short: "bcCd::egn:pq:rs:twxf",
        long: "beep color no-color differences:: errexit chgexit interval: precise equexit: \
               no-rerun shotsdir: no-title no-wrap exec follow help version",
    };
    let options = table.read(args, OptionTerminator::AtOperand);
    let study = match options.operands.as_slice() {
        [] => CommandAnalysis::read_only(),
        argv if options.has(&["x", "exec"]) => CommandAnalysis::wrapper().runs_argv(argv),
        words => CommandAnalysis::wrapper().runs(NestedExecution::script_of(words)),
    };
    study.guess_if(options.uncertain)
}

fn flock(args: &[ShellArg]) -> CommandAnalysis {
    let table = GetoptSpec {
        short: "sxeonuw:E:FvhV",
        long: "shared exclusive unlock nonblock nb timeout: wait: conflict-exit-code: close \
               no-fork fcntl verbose help version",
    };
    let options = table.read(args, OptionTerminator::AtOperand);
    let Some((file, command)) = options.operands.split_first() else {
        return CommandAnalysis::read_only().guess_if(options.uncertain);
    };
    let is_descriptor = word(Some(file)).bytes().all(|byte| byte.is_ascii_digit());
    let study = CommandAnalysis::wrapper().guess_if(options.uncertain);
    match command {
        [] if is_descriptor && file.as_known().is_some() => CommandAnalysis::read_only(),
        [flag, text, ..] if matches!(flag.as_known(), Some("-c" | "--command")) => {
            study.runs(NestedExecution::script(text)).touches(FileAccess::Write, file)
        }
        argv => {
            let open = argv.first().is_some_and(ShellArg::may_be_option);
            study.runs_argv(argv).touches(FileAccess::Write, file).guess_if(open)
        }
    }
}

/// Records a terminal: `script -c text [file]`, and on other systems `script [file] command`.
fn script(args: &[ShellArg]) -> CommandAnalysis {
    let table = GetoptSpec {
        short: "aB:c:eE:fFkI:m:o:O:pqrt::T:hVd",
        long: "append log-io: command: return echo: flush force log-in: logging-format: \
               output-limit: log-out: quiet timing:: log-timing: help version",
    };
    let options = table.read(args, OptionTerminator::AtOperand);
    let files = ["B", "I", "O", "T", "log-io", "log-in", "log-out", "log-timing", "timing"];
    let mut written: Vec<ShellArg> = options.values(&files).cloned().collect();
    let operands = options.operands.as_slice();
    written.push(operands.first().cloned().unwrap_or_else(|| ShellArg::known("typescript")));
    let text = options.values(&["c", "command"]).last();
    let study = match (text, from(operands, 1)) {
        (Some(text), []) => CommandAnalysis::wrapper().runs(NestedExecution::script(text)),
        (Some(text), argv) => CommandAnalysis::wrapper()
            .runs(NestedExecution::script(text))
            .runs_argv(argv)
            .guess_if(true),
        (None, []) => CommandAnalysis::wrapper().runs(NestedExecution::ScriptFromInput),
        (None, argv) => {
            let argv = if word(argv.first()) == "--" { from(argv, 1) } else { argv };
            // GNU reads options behind the file too.
            let open = argv.first().is_some_and(ShellArg::may_be_option);
            CommandAnalysis::wrapper().runs_argv(argv).guess_if(open)
        }
    };
    study
        .touches_all(FileAccess::Write, &written)
        .guess_if(options.uncertain || options.has(&["t"]))
}

fn strace(args: &[ShellArg]) -> CommandAnalysis {
    let table = GetoptSpec {
        short: "a:b:cCdDe:E:fFhiI:kno:O:p:P:qrs:S:tTu:U:vVwxX:yYzZ",
        long: "columns: detach-on: summary-only summary daemonize:: trace: env: follow-forks \
               instruction-pointer interruptible: stack-traces output: output-append-mode \
               output-separately summary-syscall-overhead: attach: trace-path: quiet:: \
               relative-timestamps:: string-limit: summary-sort-by: absolute-timestamps:: \
               syscall-times:: user: summary-columns: no-abbrev strings-in-hex:: summary-wall-clock \
               decode-fds:: decode-pids:: successful-only failed-only seccomp-bpf status: \
               abbrev: verbose: raw: signal: read: write: fault: inject: kvm: tips:: help version",
    };
    let options = table.read(args, OptionTerminator::AtOperand);
    let mut study =
        CommandAnalysis::wrapper().runs_argv(&options.operands).guess_if(options.uncertain);
    if options.operands.is_empty() {
        study = CommandAnalysis::program();
    }
    for output in options.values(&["o", "output"]) {
        study = match ["|", "!"].iter().find_map(|mark| super::after(output, mark)) {
            Some(text) => study.runs(NestedExecution::script(&text)),
            None => study.touches(FileAccess::Write, output),
        };
    }
    let meddles = options.has(&["p", "attach", "fault", "inject"])
        || options.values(&["e"]).any(|value| {
            ["fault", "inject"].iter().any(|word| value.certain_start().starts_with(word))
        });
    study
        .caution_if(meddles, "it changes what another process does")
        .guess_if(options.has(&["E", "env"]))
}

/// Debuggers run a program, and whatever their own commands say.
fn debugger(args: &[ShellArg]) -> CommandAnalysis {
    let at = args.iter().position(|arg| matches!(arg.as_known(), Some("--args" | "--")));
    let before = args.get(..at.unwrap_or(args.len())).unwrap_or_default();
    let scripted = before.iter().any(|arg| {
        arg.as_known().is_none()
            || [
                "-ex",
                "-iex",
                "--ex",
                "--iex",
                "-x",
                "--command",
                "-command",
                "-o",
                "-s",
                "--eval",
                "-eval",
                "--source",
                "--one-line",
            ]
            .iter()
            .any(|option| arg.certain_start().starts_with(option))
    });
    let argv = at.map_or(&[] as &[ShellArg], |at| from(args, at + 1));
    CommandAnalysis::program()
        .runs_argv(argv)
        .caution_if(scripted, "its own commands can run anything")
}

fn perf(args: &[ShellArg]) -> CommandAnalysis {
    let table = GetoptSpec {
        short: "e:aA:C:F:c:gG:o:p:t:r:dsvqI:x:nBS",
        long: "event: all-cpus cpu: freq: count: call-graph: output: pid: tid: repeat: detailed \
               sync verbose quiet interval-print: field-separator: no-big-num append delay: \
               per-core per-thread timeout:",
    };
    let (sub, rest) = (word(args.first()), from(args, 1));
    match sub {
        "record" | "stat" | "trace" => {
            let options = table.read(rest, OptionTerminator::AtOperand);
            let written: Vec<ShellArg> = options.values(&["o", "output"]).cloned().collect();
            CommandAnalysis::program()
                .runs_argv(&options.operands)
                .touches_all(FileAccess::Write, &written)
                .guess_if(options.uncertain)
        }
        _ => CommandAnalysis::program(),
    }
}

/// `sg group [-c] text`.
fn group(args: &[ShellArg]) -> CommandAnalysis {
    let words: Vec<ShellArg> = args
        .iter()
        .filter(|arg| !matches!(arg.as_known(), Some("-c" | "-" | "-l")))
        .cloned()
        .collect();
    match words.as_slice() {
        [_, text, ..] => CommandAnalysis::program().runs(NestedExecution::script(text)),
        _ => CommandAnalysis::program().runs(NestedExecution::ScriptFromInput),
    }
}

/// macOS's `arch -arm64 command`; elsewhere it prints the machine's name.
fn arch(args: &[ShellArg]) -> CommandAnalysis {
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
    match from(args, at) {
        [] => CommandAnalysis::read_only().guess_if(guess),
        argv => CommandAnalysis::wrapper().runs_argv(argv).guess_if(guess),
    }
}

fn setarch(name: &str, args: &[ShellArg]) -> CommandAnalysis {
    let table =
        GetoptSpec { short: "BFILRSTXZv3h", long: "addr-no-randomize uname-2.6 help version" };
    let skips = match args.first() {
        Some(first) if name == "setarch" && !first.may_be_option() => 1,
        _ => 0,
    };
    WrapperRow { table, ..ROW }.study(from(args, skips))
}

fn entr(args: &[ShellArg]) -> CommandAnalysis {
    let options =
        GetoptSpec { short: "acdnprsxz", long: "" }.read(args, OptionTerminator::AtOperand);
    let study = CommandAnalysis::wrapper().guess_if(options.uncertain);
    if options.has(&["s"]) {
        return match options.operands.first() {
            Some(text) => study.runs(NestedExecution::script(text)),
            None => study,
        };
    }
    // `/_` stands for the file that changed.
    let argv: Vec<ShellArg> = options
        .operands
        .iter()
        .map(
            |arg| if arg.as_known() == Some("/_") { super::unknown("", "/_") } else { arg.clone() },
        )
        .collect();
    study.runs_argv(&argv)
}

fn watchexec(args: &[ShellArg]) -> CommandAnalysis {
    let table = GetoptSpec {
        short: "cd:e:f:i:I:j:nNo:prs:vw:W:F:E:q1",
        long: "clear:: debounce: exts: filter: ignore: no-vcs-ignore postpone restart signal: \
               watch: shell: stop-signal: stop-timeout: on-busy-update: delay-run: poll:: \
               no-project-ignore no-default-ignore no-global-ignore notify quiet timings \
               env: workdir: wrap-process: help version",
    };
    let options = table.read(args, OptionTerminator::AtOperand);
    let shell = options.values(&["shell"]).last().map(|shell| word(Some(shell)));
    let guess = options.uncertain || options.has(&["E", "env"]);
    let study = CommandAnalysis::wrapper().guess_if(guess);
    let plain = options.has(&["n"]) || shell == Some("none");
    if options.operands.is_empty() {
        CommandAnalysis::program()
    } else if plain {
        study.runs_argv(&options.operands)
    } else {
        study.runs(NestedExecution::script_of(&options.operands))
    }
}

#[cfg(test)]
mod tests;
