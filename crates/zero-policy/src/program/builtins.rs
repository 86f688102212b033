//! Shell builtins.
//!
//! Most change only the shell itself. Some take a script that runs now or later, and some take the
//! name of a variable, whose index is arithmetic and can contain a `$(command)`.

use crate::program::arguments::{args_from, join_args, known_text, parse_assignment, unknown_arg};
use crate::program::command_analysis::{
    CommandAnalysis, CommandClass, FileAccess, NestedExecution,
};
use crate::program::options::{OptionTable, options};
use crate::shell::ShellArg;
use crate::word_list::words;

/// Builtins whose arguments are not evaluated again.
const PLAIN_BUILTINS: &[&str] = &[
    ":", "true", "false", "echo", "pwd", "cd", "pushd", "popd", "dirs", "exit", "return", "break",
    "continue", "shift", "times", "ulimit", "umask", "type", "sleep", "disown", "bg", "fg",
    "suspend", "logout", "set", "shopt", "unalias", "caller", "help",
];

/// Builtins whose arguments contain names of variables.
const NAMING_BUILTINS: &[&str] = words!(
    "read unset export declare local readonly typeset getopts let wait mapfile readarray printf \
     test [ integer float"
);

pub(super) fn analyze(name: &str, args: &[ShellArg]) -> Option<CommandAnalysis> {
    if PLAIN_BUILTINS.contains(&name) {
        return Some(CommandAnalysis::read_only());
    }
    if NAMING_BUILTINS.contains(&name) {
        let analysis = analyze_variable_names(name, args);
        let callback = matches!(name, "mapfile" | "readarray");
        return Some(if callback { add_callback(analysis, args) } else { analysis });
    }
    Some(match name {
        "source" | "." => analyze_source(args),
        "eval" => {
            let words = if known_text(args.first()) == "--" { args_from(args, 1) } else { args };
            if words.is_empty() {
                CommandAnalysis::read_only()
            } else {
                CommandAnalysis::wrapper().with_run(NestedExecution::from_script_words(words))
            }
        }
        "trap" => analyze_trap(args),
        "exec" => analyze_inner_command(args, &options!("-cl a:").strict()),
        "command" => {
            let table = options!("-pvV").strict();
            let asks = table.until_operand().parse(args);
            if asks.has(&["v", "V"]) && !asks.uncertain {
                CommandAnalysis::read_only()
            } else {
                analyze_inner_command(args, &table)
            }
        }
        "builtin" => analyze_inner_command(args, &options!("").strict()),
        "jobs" => {
            let options = options!("-lnprsx").strict().until_operand().parse(args);
            let command_analysis = match options.has(&["x"]) {
                true => CommandAnalysis::wrapper().with_command(&options.operands),
                false => CommandAnalysis::read_only(),
            };
            let is_open = args.iter().any(|arg| arg.as_known().is_none());
            command_analysis.mark_guess_if(options.uncertain || is_open && !options.has(&["x"]))
        }
        "alias" => analyze_alias(args),
        "hash" => read_only_unless(args, "p", "it decides which file a name runs"),
        "enable" => read_only_unless(args, "fdn", "it changes what the shell's own commands are"),
        "complete" | "compopt" => read_only_unless(args, COMPLETION_LETTERS, COMPLETION_CAUTION),
        "compgen" => analyze_compgen(args),
        "bind" => read_only_unless(args, "xfmu", "it binds keys to commands"),
        "fc" => {
            let options = options!("-nr l!show").parse(args);
            match options.only_shows() && !options.uncertain {
                true => CommandAnalysis::read_only(),
                false => CommandAnalysis::opaque()
                    .with_run(NestedExecution::Unknown("it runs commands from the history")),
            }
        }
        "history" => analyze_history(args),
        _ => return None,
    })
}

fn analyze_inner_command(args: &[ShellArg], table: &OptionTable) -> CommandAnalysis {
    let options = table.until_operand().parse(args);
    if options.operands.is_empty() {
        return CommandAnalysis::read_only().mark_guess_if(options.uncertain);
    }
    CommandAnalysis::wrapper().with_command(&options.operands).mark_guess_if(options.uncertain)
}

/// The file that `source` runs, if its words say which: a path. A name is searched in `PATH` first.
pub(crate) fn find_sourced_file(args: &[ShellArg]) -> Option<&ShellArg> {
    let args = if known_text(args.first()) == "--" { args_from(args, 1) } else { args };
    let file = args.first()?;
    let is_path = file.as_known().is_some_and(|text| text.contains('/') && !text.starts_with('-'));
    (is_path && super::shells::parse_stream(file).is_none()).then_some(file)
}

fn analyze_source(args: &[ShellArg]) -> CommandAnalysis {
    if let Some(file) = find_sourced_file(args) {
        // As powerful as `bash FILE`, and judged like it. What the file does to the shell, it could
        // do by itself.
        return CommandAnalysis::opaque().with_touch(FileAccess::Read, file);
    }
    let args = if known_text(args.first()) == "--" { args_from(args, 1) } else { args };
    let analysis = CommandAnalysis::wrapper()
        .with_run(NestedExecution::Unknown("sources a file whose commands are not seen"));
    match args.first() {
        // The known part of the input is evaluated too; it may not be all of it.
        Some(file) if super::shells::parse_stream(file).is_some() => {
            analysis.with_run(NestedExecution::ScriptFromInput)
        }
        Some(file) => analysis.with_touch(FileAccess::Read, file),
        None => analysis,
    }
}

fn analyze_trap(args: &[ShellArg]) -> CommandAnalysis {
    let args = if known_text(args.first()) == "--" { args_from(args, 1) } else { args };
    match args {
        [action, _, ..] if matches!(action.as_known(), Some("-" | "" | "-p" | "-l" | "-P")) => {
            CommandAnalysis::read_only()
        }
        [action, _, ..] => {
            CommandAnalysis::wrapper().with_run(NestedExecution::from_script(action))
        }
        [only] if only.as_known().is_none() => {
            CommandAnalysis::wrapper().with_run(NestedExecution::from_script(only))
        }
        _ => CommandAnalysis::read_only(),
    }
}

/// An alias runs nothing yet, but changes the meaning of a later word.
fn analyze_alias(args: &[ShellArg]) -> CommandAnalysis {
    let defined: Vec<ShellArg> = args
        .iter()
        .filter_map(|arg| match parse_assignment(arg) {
            Some((_, value)) => Some(value),
            None => arg.as_known().is_none().then(|| arg.clone()),
        })
        .collect();
    if defined.is_empty() {
        return CommandAnalysis::read_only();
    }
    defined
        .iter()
        .fold(CommandAnalysis::wrapper(), |analysis, value| {
            analysis.with_run(NestedExecution::from_script(value))
        })
        .with_caution("it gives a command another name")
}

/// Read-only unless one of these letters is among the options.
fn read_only_unless(args: &[ShellArg], letters: &str, why: &str) -> CommandAnalysis {
    let given = args.iter().any(|arg| {
        let start = arg.known_prefix();
        arg.as_known().is_none() && arg.may_be_option()
            || start
                .strip_prefix('-')
                .is_some_and(|cluster| cluster.contains(|c| letters.contains(c)))
    });
    if given { CommandAnalysis::opaque().with_caution(why) } else { CommandAnalysis::read_only() }
}

/// Letters of options whose value the shell runs or expands, and why they need a rule.
const COMPLETION_LETTERS: &str = "CFWX";
const COMPLETION_CAUTION: &str = "it takes a text that the shell runs";

/// `compgen` prints the names that a word can be completed to, like `ls`.
fn analyze_compgen(args: &[ShellArg]) -> CommandAnalysis {
    let analysis = read_only_unless(args, COMPLETION_LETTERS, COMPLETION_CAUTION);
    let is_file = |arg: &ShellArg| {
        let cluster = arg.known_prefix().strip_prefix('-');
        cluster.is_some_and(|cluster| cluster.contains(['f', 'd', 'G', 'A', 'o']))
    };
    let names_files = args.iter().any(is_file);
    let command_analysis = match names_files {
        true => analysis.with_touch(FileAccess::Read, &ShellArg::known(".")),
        false => analysis,
    };
    args.iter().fold(command_analysis, |study, arg| {
        // A value may be attached to its option.
        let start = arg.known_prefix();
        let word = if start.starts_with('-') { start.get(2..).unwrap_or_default() } else { start };
        match word.rsplit_once('/') {
            Some(("", _)) => study.with_touch(FileAccess::Read, &ShellArg::known("/")),
            Some((folder, _)) => study.with_touch(FileAccess::Read, &ShellArg::known(folder)),
            None => study,
        }
    })
}

fn analyze_history(args: &[ShellArg]) -> CommandAnalysis {
    let options = options!("-canrwps d:").strict().until_operand().parse(args);
    let file = options.operands.first();
    match file {
        _ if options.uncertain => {
            CommandAnalysis::opaque().with_caution("it may write the history to a file")
        }
        Some(file) if options.has(&["a", "w"]) => {
            CommandAnalysis::with_class(CommandClass::Files).with_touch(FileAccess::Write, file)
        }
        Some(file) if options.has(&["r", "n"]) => {
            CommandAnalysis::read_only().with_touch(FileAccess::Read, file)
        }
        None if options.has(&["a", "w", "c", "d"]) => CommandAnalysis::opaque(),
        // `-p` expands history, which can run a `$(command)` in it.
        _ if options.has(&["p", "s"]) => CommandAnalysis::opaque(),
        _ => CommandAnalysis::read_only(),
    }
}

fn add_callback(analysis: CommandAnalysis, args: &[ShellArg]) -> CommandAnalysis {
    let options = options!("-t -dnOsuCc:").strict().until_operand().parse(args);
    options
        .values(&["C"])
        .fold(analysis, |command_analysis, callback| {
            let called = join_args(&[callback.clone(), unknown_arg("", "…")]);
            command_analysis
                .with_run(NestedExecution::from_script(&called))
                .with_caution("it calls a command for what it reads")
        })
        .mark_guess_if(options.uncertain)
}

/// Commands that take names of variables: the index in `name[index]` is evaluated, including every
/// `$(command)` in it, even a quoted one.
fn analyze_variable_names(name: &str, args: &[ShellArg]) -> CommandAnalysis {
    let looked_at: Vec<&ShellArg> = match name {
        // Only the argument after `-v` is a name.
        "test" | "[" => args_after_option(args, &["-v", "-R"]),
        "wait" => args_after_option(args, &["-p"]),
        // An unknown format may be `-vPATH`, with the value in the next word.
        "printf"
            if args
                .first()
                .is_some_and(|format| format.as_known().is_none() && format.may_be_option()) =>
        {
            return CommandAnalysis::read_only()
                .with_run(NestedExecution::Unknown("it may set a variable"));
        }
        "printf" => args_after_option(args.get(..2).unwrap_or(args), &["-v"]),
        _ => args.iter().collect(),
    };
    let runs = looked_at.iter().any(|arg| {
        let start = arg.known_prefix();
        let target = if name == "let" {
            start
        } else {
            // The walk of the script checks the value, which depends on whether it is an array.
            start.split_once('=').map_or(start, |(target, _)| target)
        };
        let indexed = target.contains('[') && target.contains(['$', '`']);
        let open = arg.as_known().is_none() && (name == "let" || !start.contains('='));
        indexed || open || (name == "let" && start.contains(['$', '`']))
    });
    if runs {
        CommandAnalysis::read_only()
            .with_run(NestedExecution::Unknown("the index of an array may hold a command"))
    } else {
        CommandAnalysis::read_only()
    }
}

/// The arguments after one of these options, separate or attached.
fn args_after_option<'a>(args: &'a [ShellArg], options: &[&str]) -> Vec<&'a ShellArg> {
    let mut found = Vec::new();
    for (at, arg) in args.iter().enumerate() {
        if arg.as_known().is_some_and(|text| options.contains(&text)) {
            found.extend(args.get(at + 1));
        } else if options.iter().any(|option| arg.known_prefix().starts_with(option)) {
            found.push(arg);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::analysis_text::{check, parse_argument, render_analysis};
    use super::super::analyze;
    use crate::shell::ShellArg;

    #[test]
    fn shell_only_builtins_are_read_only() {
        for line in
            ["echo -n $X", "cd $X", "true", "[ -f x ]", "export A=$B", "local x=$1", "set -e"]
        {
            check(line, "read-only");
        }
        check("printf %s $X", "read-only");
        check("read -r line", "read-only");
        check("command -v git", "read-only");
        check("type $X", "read-only");
        check("wait $X", "read-only");
    }

    #[test]
    fn builtin_scripts_and_commands_are_found() {
        check("eval rm x", "wrapper script[rm x]");
        check("eval rm $X y", "wrapper script?[rm $X y]");
        check("trap rm_x EXIT", "wrapper script[rm x]");
        check("trap -- rm_x EXIT", "wrapper script[rm x]");
        check("trap - EXIT", "read-only");
        check("exec -a name rm x", "wrapper runs[rm x]");
        check("exec", "read-only");
        check("command -p rm x", "wrapper runs[rm x]");
        check("command $X rm x", "wrapper runs[$X rm x] unknown");
        check("builtin echo x", "wrapper runs[echo x]");
        check("jobs -x rm x", "wrapper runs[rm x]");
        check("jobs -rx rm x", "wrapper runs[rm x]");
        check("jobs -r -x rm x", "wrapper runs[rm x]");
        check("jobs -l %1", "read-only");
        check("source f", "wrapper read(f) unknown");
        check(". ./f", "program read(./f)");
        check("source -- a/f x", "program read(a/f)");
        check("source $X/f", "wrapper read($X/f) unknown");
        check("source -x/f", "wrapper read(-x/f) unknown");
        check("alias ls=rm_x", "wrapper script[rm x] caution");
        check("alias", "read-only");
        check("mapfile -C rm_x -c 1 a", "read-only script?[rm x …] caution");
        check("hash -p /tmp/x ls", "program caution");
        check("enable -f ./x.so x", "program caution");
        check("compgen -W $X", "program caution");
        check("compgen -c", "read-only");
        check("compgen -f /etc/pas", "read-only read(.) read(/etc)");
        check("compgen -c ../", "read-only read(..)");
        check("compgen -G/etc/*", "program read(.) read(/etc) caution");
        check("bind -x k", "program caution");
        check("fc -s", "program unknown");
        check("fc -l -s", "program unknown");
        check("fc -l -e rm", "program unknown");
        check("fc -lnr 1 -5", "program unknown");
        check("fc -lnr 1 5", "read-only");
        check("history -w f", "files write(f)");
        check("history 5", "read-only");
    }

    #[test]
    fn array_index_may_run_command() {
        for (name, arg) in [
            ("unset", "a[$(id)]"),
            ("read", "a[$(id)]"),
            ("declare", "a[`id`]=1"),
            ("let", "a[$(id)]=1"),
            ("let", "x=a[$(id)]"),
        ] {
            let argv = [parse_argument(name), ShellArg::known(arg)];
            assert_eq!(render_analysis(&analyze(&argv)), "read-only unknown", "{name} {arg}");
        }
        let argv = ["printf", "-v", "a[$(id)]", "x"].map(ShellArg::known);
        assert_eq!(render_analysis(&analyze(&argv)), "read-only unknown");
        let argv = ["test", "-v", "a[$(id)]"].map(ShellArg::known);
        assert_eq!(render_analysis(&analyze(&argv)), "read-only unknown");
        let argv = ["export", "A=$(id)"].map(ShellArg::known);
        assert_eq!(render_analysis(&analyze(&argv)), "read-only");
    }
}
