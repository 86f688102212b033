//! Programs that run another one as somebody else.

use super::getopt::{GetoptSpec, OptionTerminator};
use super::{CommandAnalysis, FileAccess, NestedExecution, assignment, from, word};
use crate::shell::ShellArg;

pub(super) fn study(name: &str, args: &[ShellArg]) -> Option<CommandAnalysis> {
    Some(match name {
        "sudo" | "sudoedit" => sudo(name, args),
        "doas" => doas(args),
        "su" => su(args, SuProgram::Su),
        "runuser" => su(args, SuProgram::Runuser),
        "pkexec" => pkexec(args),
        "run0" => run0(args),
        _ => return None,
    })
}

fn sudo(name: &str, args: &[ShellArg]) -> CommandAnalysis {
    let table = GetoptSpec {
        short: "Aa:BbC:c:D:EeGg:HiKklnNp:PR:r:SsT:t:U:u:Vv",
        long: "askpass auth-type: bell background close-from: login-class: chdir: preserve-env:: \
               edit group: set-home host: login remove-timestamp reset-timestamp list \
               non-interactive no-update preserve-groups prompt: chroot: role: stdin shell \
               command-timeout: type: other-user: user: version validate help",
    };
    let options = table.read(args, OptionTerminator::AtOperand);
    if name == "sudoedit" || options.has(&["e", "edit"]) {
        return CommandAnalysis::program()
            .touches_all(FileAccess::Write, &options.operands)
            .guess_if(options.uncertain);
    }
    let folder = options.values(&["D", "chdir"]).last().cloned();
    let study = as_another(&options.operands, folder, options.has(&["s", "i", "shell", "login"]));
    study
        .caution_if(options.has(&["R", "chroot"]), "it runs with another root folder")
        .guess_if(options.uncertain)
}

/// What runs when the words are variables and a command, or a text for that user's shell.
fn as_another(words: &[ShellArg], folder: Option<ShellArg>, by_shell: bool) -> CommandAnalysis {
    let mut variables = Vec::new();
    let mut at = 0;
    while let Some(variable) = words.get(at).and_then(assignment) {
        variables.push(variable);
        at += 1;
    }
    match from(words, at) {
        [] if by_shell => CommandAnalysis::program().runs(NestedExecution::ScriptFromInput),
        [] => CommandAnalysis::program(),
        argv if by_shell => {
            // The words reach the shell as one text, each escaped, so it is both: a command as it
            // stands, and what a shell makes of it.
            let text = super::joined(argv);
            CommandAnalysis::program()
                .runs(NestedExecution::Script { text, folder: folder.clone() })
                .runs(NestedExecution::Command {
                    argv: argv.to_vec(),
                    variables,
                    folder,
                    more_arguments: false,
                })
        }
        argv => CommandAnalysis::program().runs(NestedExecution::Command {
            argv: argv.to_vec(),
            variables,
            folder,
            more_arguments: false,
        }),
    }
}

fn doas(args: &[ShellArg]) -> CommandAnalysis {
    let options =
        GetoptSpec { short: "a:C:Lnsu:", long: "" }.read(args, OptionTerminator::AtOperand);
    as_another(&options.operands, None, options.has(&["s"])).guess_if(options.uncertain)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum SuProgram {
    Su,
    Runuser,
}

fn su(args: &[ShellArg], caller: SuProgram) -> CommandAnalysis {
    let table = GetoptSpec {
        short: "c:fg:G:hlmpPs:Tu:Vw:",
        long: "command: session-command: fast group: supp-group: login preserve-environment pty \
               no-pty shell: user: whitelist-environment: help version",
    };
    if caller == SuProgram::Runuser {
        let options = table.read(args, OptionTerminator::AtOperand);
        if options.has(&["u", "user"]) {
            return as_another(&options.operands, None, false).guess_if(options.uncertain);
        }
    }
    let options = table.read(args, OptionTerminator::Never);
    let mut operands = options.operands.as_slice();
    if word(operands.first()) == "-" {
        operands = from(operands, 1);
    }
    let mut study = CommandAnalysis::program();
    for text in options.values(&["c", "command", "session-command"]) {
        study = study.runs(NestedExecution::script(text));
    }
    // What follows the user goes to the shell: a file, or `-- -c text`.
    let to_shell = from(operands, 1);
    if !to_shell.is_empty() {
        let mut argv = vec![ShellArg::known("sh")];
        argv.extend_from_slice(to_shell);
        study = study.runs_argv(&argv);
    }
    if study.runs.is_empty() {
        study = study.runs(NestedExecution::ScriptFromInput);
    }
    study
        .caution_if(options.has(&["s", "shell"]), "it runs a shell of its own choice")
        .guess_if(options.uncertain)
}

fn pkexec(args: &[ShellArg]) -> CommandAnalysis {
    let table =
        GetoptSpec { short: "", long: "user: disable-internal-agent keep-cwd help version" };
    let options = table.read(args, OptionTerminator::AtOperand);
    as_another(&options.operands, None, false).guess_if(options.uncertain)
}

fn run0(args: &[ShellArg]) -> CommandAnalysis {
    let table = GetoptSpec {
        short: "u:g:D:M:hV",
        long: "user: group: nice: chdir: setenv: background: machine: pty pipe unit: property: \
               description: slice: slice-inherit no-ask-password shell-prompt-prefix: help version",
    };
    let options = table.read(args, OptionTerminator::AtOperand);
    let by_shell = options.operands.is_empty();
    as_another(&options.operands, None, by_shell).guess_if(options.uncertain)
}

#[cfg(test)]
mod tests {
    use super::super::analysis_text::check;

    #[test]
    fn the_command_is_seen_behind_the_user() {
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
    fn su_hands_a_text_to_a_shell() {
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
