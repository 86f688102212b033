//! Programs that run another one as another user.

use crate::program::arguments::{args_from, join_args, known_text, parse_assignment, prefix_args};
use crate::program::command_analysis::{CommandAnalysis, FileAccess, NestedExecution};
use crate::program::options::options;
use crate::shell::ShellArg;

pub(super) fn analyze(name: &str, args: &[ShellArg]) -> Option<CommandAnalysis> {
    Some(match name {
        "sudo" | "sudoedit" => analyze_sudo(name, args),
        "doas" => analyze_doas(args),
        "su" => analyze_su(args, SuProgram::Su),
        "runuser" => analyze_su(args, SuProgram::Runuser),
        "pkexec" => analyze_pkexec(args),
        "run0" => analyze_run0(args),
        _ => return None,
    })
}

fn analyze_sudo(name: &str, args: &[ShellArg]) -> CommandAnalysis {
    let table = options!(
        "-ABbEeGHiKklnNPSsVv -aCcDgpRrTtUu: askpass auth-type: bell background close-from: \
         login-class: chdir: preserve-env:: edit group: set-home host: login remove-timestamp \
         reset-timestamp list non-interactive no-update preserve-groups prompt: chroot: role: \
         stdin shell command-timeout: type: other-user: user: version validate help"
    )
    .strict();
    let options = table.until_operand().parse(args);
    if name == "sudoedit" || options.has(&["e", "edit"]) {
        return CommandAnalysis::opaque()
            .with_touches(FileAccess::Write, &options.operands)
            .mark_guess_if(options.uncertain);
    }
    let folder = options.values(&["D", "chdir"]).last().cloned();
    let analysis = analyze_as_other_user(
        &options.operands,
        folder,
        options.has(&["s", "i", "shell", "login"]),
    );
    analysis
        .with_caution_if(options.has(&["R", "chroot"]), "it runs with another root folder")
        .mark_guess_if(options.uncertain)
}

/// The command after variable assignments, or a script for that user's shell.
fn analyze_as_other_user(
    words: &[ShellArg],
    folder: Option<ShellArg>,
    by_shell: bool,
) -> CommandAnalysis {
    let mut variables = Vec::new();
    let mut at = 0;
    while let Some(variable) = words.get(at).and_then(parse_assignment) {
        variables.push(variable);
        at += 1;
    }
    match args_from(words, at) {
        [] if by_shell => CommandAnalysis::opaque().with_run(NestedExecution::ScriptFromInput),
        [] => CommandAnalysis::opaque(),
        argv if by_shell => {
            // The words reach the shell as one escaped text, so both are added: the command itself,
            // and the text as a script.
            let text = join_args(argv);
            CommandAnalysis::opaque()
                .with_run(NestedExecution::Script { text, folder: folder.clone() })
                .with_run(NestedExecution::Command {
                    argv: argv.to_vec(),
                    variables,
                    folder,
                    more_arguments: false,
                })
        }
        argv => CommandAnalysis::opaque().with_run(NestedExecution::Command {
            argv: argv.to_vec(),
            variables,
            folder,
            more_arguments: false,
        }),
    }
}

fn analyze_doas(args: &[ShellArg]) -> CommandAnalysis {
    let options = options!("-Lns -aCu:").strict().until_operand().parse(args);
    analyze_as_other_user(&options.operands, None, options.has(&["s"]))
        .mark_guess_if(options.uncertain)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum SuProgram {
    Su,
    Runuser,
}

fn analyze_su(args: &[ShellArg], caller: SuProgram) -> CommandAnalysis {
    let table = options!(
        "-fhlmpPTV -cgGsuw: command: session-command: fast group: supp-group: login \
         preserve-environment pty no-pty shell: user: whitelist-environment: help version"
    )
    .strict();
    if caller == SuProgram::Runuser {
        let options = table.until_operand().parse(args);
        if options.has(&["u", "user"]) {
            return analyze_as_other_user(&options.operands, None, false)
                .mark_guess_if(options.uncertain);
        }
    }
    let options = table.parse(args);
    let mut operands = options.operands.as_slice();
    if known_text(operands.first()) == "-" {
        operands = args_from(operands, 1);
    }
    let mut analysis = CommandAnalysis::opaque();
    analysis = analysis.with_scripts(options.values(&["c", "command", "session-command"]));
    // The arguments after the user go to the shell: a file, or `-- -c text`.
    let to_shell = args_from(operands, 1);
    if !to_shell.is_empty() {
        analysis = analysis.with_command(&prefix_args(&["sh"], to_shell));
    }
    if analysis.runs.is_empty() {
        analysis = analysis.with_run(NestedExecution::ScriptFromInput);
    }
    analysis
        .with_caution_if(options.has(&["s", "shell"]), "it runs a shell of its own choice")
        .mark_guess_if(options.uncertain)
}

fn analyze_pkexec(args: &[ShellArg]) -> CommandAnalysis {
    let table = options!("user: disable-internal-agent keep-cwd help version").strict();
    let options = table.until_operand().parse(args);
    analyze_as_other_user(&options.operands, None, false).mark_guess_if(options.uncertain)
}

fn analyze_run0(args: &[ShellArg]) -> CommandAnalysis {
    let table = options!(
        "-hV -ugDM: user: group: nice: chdir: setenv: background: machine: pty pipe unit: \
         property: description: slice: slice-inherit no-ask-password shell-prompt-prefix: help \
         version"
    )
    .strict();
    let options = table.until_operand().parse(args);
    let by_shell = options.operands.is_empty();
    analyze_as_other_user(&options.operands, None, by_shell).mark_guess_if(options.uncertain)
}

#[cfg(test)]
mod tests {
    use super::super::analysis_text::check;

    #[test]
    fn command_after_user_switch_is_found() {
        check("sudo rm -rf x", "program runs[rm -rf x]");
        check("sudo -u bob rm -rf x", "program runs[rm -rf x]");
        check("sudo -nEu bob -- rm x", "program runs[rm x]");
        check("sudo --user=bob --non rm x", "program runs[rm x]");
        check("sudo A=b C=$D rm x", "program runs[A=b C=$D rm x]");
        check("sudo -D dir rm x", "program runs[dir: rm x]");
        check("sudo -s rm x", "program script[rm x] runs[rm x]");
        check("sudo -i", "program script-from-input");
        check("sudo -e /etc/passwd", "program write(/etc/passwd)");
        check("sudoedit f", "program write(f)");
        check("sudo $X rm x", "program runs[$X rm x] unknown");
        check("sudo --strange rm x", "program runs[rm x] unknown");
        check("sudo -v", "program");
        check("doas -u bob rm x", "program runs[rm x]");
        check("doas -s", "program script-from-input");
        check("pkexec --user bob rm x", "program runs[rm x]");
    }

    #[test]
    fn su_text_is_a_shell_script() {
        check("su -c rm_x", "program script[rm x]");
        check("su - bob -c rm_x", "program script[rm x]");
        check("su bob --command=rm_x", "program script[rm x]");
        check("su bob -- -c rm_x", "program runs[sh -c rm x]");
        check("su", "program script-from-input");
        check("su -s /tmp/x bob", "program script-from-input caution");
        check("runuser -u bob -- rm x", "program runs[rm x]");
        check("runuser -l bob -c rm_x", "program script[rm x]");
    }
}
