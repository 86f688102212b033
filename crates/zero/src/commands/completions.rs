//! `zero completions`: shell completion scripts, and the values that these scripts ask for.
//!
//! clap generates the scripts for commands and options. What is appended here completes session keys
//! and models: the shell runs `zero complete`, which prints one value per line.

mod completion_values;

use clap::{Arg, Command, CommandFactory};
use clap_complete::Shell;

use crate::AppContext;
use crate::cli::Cli;
use crate::exit::ExitOutcome;

pub(super) use self::completion_values::run as print_values;

/// Completes values in bash, before the generated function.
const BASH_VALUES: &str = include_str!("completions/values.bash");
/// The functions that the generated script of zsh calls for values.
const ZSH_VALUES: &str = include_str!("completions/values.zsh");
/// Completes values in fish, besides the generated script.
const FISH_VALUES: &str = include_str!("completions/values.fish");

pub(super) fn run(app: &AppContext, shell: Shell) -> anyhow::Result<ExitOutcome> {
    app.terminal.out.write(&generate_script(shell))?;
    Ok(ExitOutcome::Ok)
}

fn generate_script(shell: Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command_to_complete(), "zero", &mut script);
    let script = String::from_utf8_lossy(&script).into_owned();
    match shell {
        Shell::Bash => {
            // Only scripts run `zero complete`.
            let script = script.replace(" completions complete ", " completions ");
            script.replace("complete -F _zero ", "complete -F _zero_or_values ") + BASH_VALUES
        }
        Shell::Zsh => complete_zsh_values(&script),
        Shell::Fish => script + FISH_VALUES,
        _ => script,
    }
}

/// The command line, whose options are those of `zero run`, too: `zero --session …` is `zero run --session …`.
fn command_to_complete() -> Command {
    let command = Cli::command();
    let options: Vec<Arg> = command
        .find_subcommand("run")
        .into_iter()
        .flat_map(Command::get_opts)
        .map(copy_option)
        .collect();
    command.args(options)
}

/// An option without what it requires and excludes, which may not be there.
fn copy_option(option: &Arg) -> Arg {
    let mut copy = Arg::new(option.get_id().clone())
        .action(option.get_action().clone())
        .value_parser(option.get_value_parser().clone())
        .value_hint(option.get_value_hint())
        .hide(option.is_hide_set());
    if let Some(long) = option.get_long() {
        // clap takes only names that live as long as the process, which ends after this.
        let long: &'static str = long.to_owned().leak();
        copy = copy.long(long);
    }
    if let Some(short) = option.get_short() {
        copy = copy.short(short);
    }
    if let Some(help) = option.get_help() {
        copy = copy.help(help.clone());
    }
    if let Some(names) = option.get_value_names() {
        copy = copy.value_names(names.to_vec());
    }
    match option.get_num_args() {
        Some(count) => copy.num_args(count),
        None => copy,
    }
}

/// Names a function for values in the lines of the options and arguments that take them.
fn complete_zsh_values(script: &str) -> String {
    let mut completed = String::with_capacity(script.len() + ZSH_VALUES.len());
    for line in script.lines() {
        let values = if line.contains("--session=") || line.contains("--resume=") {
            "_zero_sessions"
        } else if line.contains("--model=") {
            "_zero_models"
        } else if line.contains(":session -- ") {
            "_zero_sessions"
        } else if line.contains(":key -- ") {
            "_zero_settings"
        } else {
            "_default"
        };
        if line.starts_with("if [ \"$funcstack[1]\"") {
            completed.push_str(ZSH_VALUES);
        }
        completed.push_str(&line.replace(":_default'", &format!(":{values}'")));
        completed.push('\n');
    }
    completed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_script_asks_for_session_keys_and_models() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let script = generate_script(shell);
            assert!(script.contains("zero complete"), "{shell}");
        }
        let bash = generate_script(Shell::Bash);
        assert_eq!(bash.matches("complete -F _zero_or_values ").count(), 2);
        let zsh = generate_script(Shell::Zsh);
        let lines = |wanted: &str| zsh.lines().filter(|line| line.contains(wanted)).count();
        assert!(lines(":key -- ") >= 5 && lines(":_zero_settings'") >= 5, "config");
        assert!(lines("--session=[") >= 2 && lines(":session -- ") >= 6);
        let top = zsh.split("case $state in").next().unwrap();
        assert!(top.contains("--session=[") && top.contains(":_zero_sessions'"), "{top}");
        for line in zsh.lines() {
            let has_key = ["--session=[", "--resume=[", "--model=[", ":session -- "];
            if has_key.iter().any(|key| line.contains(key)) {
                assert!(line.contains(":_zero_"), "{line}");
            }
        }
        assert_eq!(lines("_zero_sessions() {"), 1);
    }

    /// What the script of bash offers at the end of a line.
    #[expect(clippy::disallowed_methods, reason = "the test runs the shell that the script is for")]
    fn complete_in_bash(folder: &std::path::Path, line: &str) -> String {
        let script = folder.join("zero.bash");
        std::fs::write(&script, generate_script(Shell::Bash)).unwrap();
        // Stands for zero: prints the kind that is asked for.
        let zero = folder.join("zero");
        std::fs::write(&zero, "#!/bin/sh\nprintf '%s-value\\t\\n' \"$2\"\n").unwrap();
        let program = "chmod +x \"$3/zero\"; PATH=\"$3:$PATH\"; . \"$1\"; COMP_LINE=$2; \
            COMP_POINT=${#COMP_LINE}; read -r -a COMP_WORDS <<< \"$2\"; \
            [[ $2 == *' ' ]] && COMP_WORDS+=(''); COMP_CWORD=$(( ${#COMP_WORDS[@]} - 1 )); \
            _zero_or_values zero \"${COMP_WORDS[COMP_CWORD]}\" \"${COMP_WORDS[COMP_CWORD-1]}\"; \
            echo \"${COMPREPLY[*]}\"";
        let run = std::process::Command::new("bash")
            .args(["-c", program, "bash"])
            .arg(&script)
            .arg(line)
            .arg(folder)
            .output();
        let output = run.expect("`bash` is needed to test its completion script");
        assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    }

    #[test]
    fn bash_offers_values_and_no_lone_hyphen() {
        let folder = tempfile::tempdir().unwrap();
        for (line, expected) in [
            ("zero run --mode ", "ask accept-edits plan auto"),
            ("zero run --mode a", "ask accept-edits auto"),
            ("zero --mode ", "ask accept-edits plan auto"),
            ("zero --session ", "sessions-value"),
            ("zero sessions rewind ", "sessions-value"),
            ("zero config get ", "settings-value"),
            ("zero tools show ", "tools-value"),
            ("zero undo ", ""),
            ("zero questions answer ", ""),
            ("zero jobs kill ", ""),
            ("zero undo --lis", "--list"),
            ("zero comple", "completions"),
        ] {
            assert_eq!(complete_in_bash(folder.path(), line), expected, "{line}");
        }
    }

    #[test]
    fn other_shells_keep_the_generated_script() {
        assert!(!generate_script(Shell::Elvish).contains("zero complete"));
    }
}
