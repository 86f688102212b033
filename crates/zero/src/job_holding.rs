//! Jobs that go on after the command that started them.
//!
//! A command that can start jobs continues in a child process ([`detachable_process`]). If jobs run
//! at its end, the child stays as their holder, with nothing else: it ends with its last job.

use std::ffi::OsString;
use std::io::Write as _;

use zero_sandbox::detachable_process;

use crate::AppContext;
use crate::command_line;
use crate::exit::ExitOutcome;

/// Continues in a child process if the command line can start jobs. Must come first in the process.
pub(crate) fn prepare(args: &[OsString]) {
    if can_start_jobs(args) {
        // Without it, jobs end with this process, and a single call does not start one.
        let _ = detachable_process::continue_in_child();
    }
}

/// If jobs run, ends the command with its exit code, and returns when the jobs have ended.
pub(crate) fn hold_jobs(app: &AppContext, outcome: ExitOutcome) {
    if outcome == ExitOutcome::Interrupted {
        // The user ended it, and everything that it started.
        return;
    }
    zero_exec::hold_jobs(|ids| {
        let (list, verb) = (ids.join(", "), if ids.len() == 1 { "runs" } else { "run" });
        app.terminal.print_note(&format!(
            "{list} still {verb} in the background; `zero jobs list` shows jobs, `zero ports` what they serve"
        ));
        // Whatever is buffered belongs to the terminal that is left now.
        let _ = std::io::stdout().flush();
        detachable_process::detach(outcome.code())
    });
}

/// Whether a command line can start jobs that outlive it: a prompt, or a call that asks for it or
/// whose input is not known yet.
fn can_start_jobs(args: &[OsString]) -> bool {
    let words: Vec<&str> = args.iter().skip(1).filter_map(|word| word.to_str()).collect();
    match &words[..] {
        ["run", ..] => true,
        ["tools", "call", rest @ ..] => {
            rest.iter().any(|word| *word == "-" || word.contains("background"))
        }
        // These are started often, and the definition of the command line is large.
        [] | ["tools" | "acp" | "mcp" | "gateway", ..] => false,
        _ => command_line::is_prompt(args),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_commands_that_can_start_jobs_continue_in_a_child() {
        let check = |line: &str, expected: bool| {
            let args: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            assert_eq!(can_start_jobs(&args), expected, "{line}");
        };
        check("zero run hello", true);
        check("zero -- hello", true);
        check("zero -c hello", true);
        check("zero sessions list", false);
        check("zero tools call Bash {\"run_in_background\":true}", true);
        check("zero tools call run_shell_command {\"is_background\":true} --dialect qwen", true);
        check("zero tools call Bash -", true);
        check("zero tools call Bash {}", false);
        check("zero tools list", false);
        check("zero gateway", false);
        check("zero", false);
    }
}
