//! Development tools that run scripts or commands: in parallel, repeatedly, or on changes.

use crate::program::arguments::{args_from, known_text, parse_assignment, prefix_args};
use crate::program::command_analysis::{CommandAnalysis, FileAccess, NestedExecution};
use crate::program::options::options;
use crate::shell::ShellArg;

pub(super) fn analyze(name: &str, args: &[ShellArg]) -> Option<CommandAnalysis> {
    Some(match name {
        "cross-env" => analyze_cross_env(args),
        "cross-env-shell" => analyze_cross_env_shell(args),
        "concurrently" | "conc" => analyze_concurrently(args),
        "nodemon" => analyze_nodemon(args),
        "hyperfine" => analyze_hyperfine(args),
        "cargo-watch" => analyze_cargo_watch(args),
        "cargo" if known_text(args.first()) == "watch" => analyze_cargo_watch(args_from(args, 1)),
        "onchange" | "reflex" => analyze_after_dashes(args),
        "cmake" if known_text(args.first()) == "-E" => analyze_cmake(args_from(args, 1)),
        "corepack" => analyze_corepack(args),
        "mpirun" | "mpiexec" => analyze_mpirun(args),
        "npm-run-all" | "run-s" | "run-p" => analyze_npm_run_all(args),
        "ts" | "tsp" => analyze_task_spooler(args),
        "schedtool" => analyze_marked_command(args, &["-e"]),
        "xterm" | "uxterm" | "lxterm" | "rxvt" | "urxvt" | "st" | "konsole" | "alacritty"
        | "terminator" | "xfce4-terminal" | "mate-terminal" | "gnome-terminal" | "lxterminal"
        | "qterminal" | "foot" | "wezterm" => {
            analyze_marked_command(args, &["-e", "-x", "--execute", "--command", "--"])
        }
        _ => return None,
    })
}

/// Splits variable assignments from the command after them.
fn split_variables(words: &[ShellArg]) -> (Vec<(String, ShellArg)>, &[ShellArg]) {
    let variables: Vec<(String, ShellArg)> = words.iter().map_while(parse_assignment).collect();
    let rest = args_from(words, variables.len());
    (variables, rest)
}

fn analyze_cross_env(args: &[ShellArg]) -> CommandAnalysis {
    let (variables, argv) = split_variables(args);
    let open = argv.first().is_some_and(ShellArg::may_be_option);
    let run = NestedExecution::from_variables_and_argv(variables, argv.to_vec());
    if argv.is_empty() {
        return CommandAnalysis::opaque();
    }
    CommandAnalysis::opaque().with_run(run).mark_guess_if(open)
}

fn analyze_cross_env_shell(args: &[ShellArg]) -> CommandAnalysis {
    let (variables, words) = split_variables(args);
    if words.is_empty() {
        return CommandAnalysis::opaque();
    }
    // Variables are judged with a command; a script has none.
    let marked = NestedExecution::from_variables_and_argv(variables, vec![ShellArg::known("true")]);
    CommandAnalysis::opaque().with_run(marked).with_run(NestedExecution::from_script_words(words))
}

fn analyze_concurrently(args: &[ShellArg]) -> CommandAnalysis {
    let table = options!(
        "-rgkhvP -ncpltmsi: names: name-separator: prefix: prefix-colors: prefix-length: \
         timestamp-format: max-processes: success: handle-input default-input-target: raw group \
         no-color hide: kill-others kill-others-on-fail kill-signal: kill-timeout: restart-tries: \
         restart-after: timings passthrough-arguments teardown: pad-prefix cwd: shell: help \
         version"
    )
    .strict();
    let options = table.parse(args);
    let texts = options.operands.iter().chain(options.values(&["teardown"]));
    texts
        .fold(CommandAnalysis::opaque(), |analysis, text| {
            analysis.with_run(NestedExecution::from_script(text))
        })
        .with_caution_if(options.has(&["shell", "cwd"]), "its options change how the commands run")
        .mark_guess_if(options.uncertain)
}

fn analyze_nodemon(args: &[ShellArg]) -> CommandAnalysis {
    let table = options!(
        "-qVLCrhv -xewidIs: exec: ext: watch: ignore: delay: verbose quiet legacy-watch \
         on-change-only no-stdin config: cwd: signal: spawn exitcrash polling-interval: inspect:: \
         inspect-brk:: require: import: help version"
    )
    .strict();
    let options = table.until_operand().parse(args);
    options
        .values(&["x", "exec"])
        .fold(CommandAnalysis::opaque(), |analysis, text| {
            // The script and its arguments follow the text.
            let mut words = vec![text.clone()];
            words.extend(options.operands.iter().cloned());
            analysis.with_run(NestedExecution::from_script_words(&words))
        })
        .with_caution_if(
            options.has(&["config", "cwd", "require", "import"]),
            "it loads what is named",
        )
        .mark_guess_if(options.uncertain)
}

fn analyze_hyperfine(args: &[ShellArg]) -> CommandAnalysis {
    let table = options!(
        "-NihV -wmMrspcPDLSunC: warmup: min-runs: max-runs: runs: setup: reference: prepare: \
         conclude: cleanup: parameter-scan: parameter-step-size: parameter-list: shell: \
         ignore-failure:: style: sort: time-unit: export-asciidoc: export-csv: export-json: \
         export-markdown: export-orgmode: show-output output: input: command-name: help version"
    )
    .strict();
    let options = table.parse(args);
    let texts = ["s", "setup", "reference", "p", "prepare", "c", "cleanup", "C", "conclude"];
    let written: Vec<ShellArg> = options
        .parsed
        .iter()
        .filter(|option| option.names().any(|name| name.starts_with("export-") || name == "output"))
        .filter_map(|parsed_option| parsed_option.value.clone())
        .filter(|file| !matches!(file.as_known(), Some("null" | "pipe" | "inherit" | "-")))
        .collect();
    let shell =
        options.values(&["S", "shell"]).fold(CommandAnalysis::opaque(), |analysis, shell| {
            let plain =
                matches!(shell.as_known(), Some("none" | "default" | "bash" | "sh" | "dash"));
            analysis.with_caution_if(!plain, "it runs them with a shell of its own choice")
        });
    // `-P name from to` takes three words, and the last two look like commands.
    let scans = options.has(&["P", "parameter-scan"]);
    let texts = options.operands.iter().chain(options.values(&texts)).cloned().collect::<Vec<_>>();
    texts
        .iter()
        .skip(if scans { 2 } else { 0 })
        .fold(shell, |command_analysis, text| {
            command_analysis.with_run(NestedExecution::from_script(text))
        })
        .with_touches(FileAccess::Write, &written)
        .with_touches(FileAccess::Read, &options.all_values(&["input"]))
        .mark_guess_if(options.uncertain)
}

/// `cargo watch -s text`, `-x 'cargo command'`, `-- command`.
fn analyze_cargo_watch(args: &[ShellArg]) -> CommandAnalysis {
    let table = options!(
        "-cqNh -xswidCBEL: exec: shell: use-shell: watch: ignore: delay: workdir: env-file: env: \
         features: clear quiet no-gitignore no-ignore ignore-nothing postpone poll notify \
         no-vcs-ignores no-restart why debug no-dot-ignores skip-local-deps help version"
    )
    .strict();
    let options = table.until_operand().parse(args);
    let mut analysis = CommandAnalysis::opaque();
    analysis = analysis.with_scripts(options.values(&["s", "shell"]));
    for text in options.values(&["x", "exec"]) {
        analysis = analysis.with_run(NestedExecution::from_script_words(&[
            ShellArg::known("cargo"),
            text.clone(),
        ]));
    }
    analysis
        .with_command(&options.operands)
        .with_caution_if(
            options.has(&["use-shell", "C", "workdir", "E", "env"]),
            "its options change how the commands run",
        )
        .mark_guess_if(options.uncertain)
}

fn analyze_after_dashes(args: &[ShellArg]) -> CommandAnalysis {
    let at = args.iter().position(|arg| arg.as_known() == Some("--"));
    let open = args.iter().any(|arg| arg.as_known().is_none());
    match at {
        Some(at) => CommandAnalysis::opaque().with_command(args_from(args, at + 1)),
        // The start of the command is not marked.
        None => CommandAnalysis::opaque().mark_guess_if(open || !args.is_empty()),
    }
}

/// `cmake -E` is a collection of small programs, some of which run another one.
fn analyze_cmake(args: &[ShellArg]) -> CommandAnalysis {
    let rest = args_from(args, 1);
    match known_text(args.first()) {
        "env" => {
            let options =
                rest.iter().take_while(|arg| known_text(Some(arg)).starts_with("--")).count();
            let (variables, argv) = split_variables(args_from(rest, options));
            let argv = argv.to_vec();
            if argv.is_empty() {
                return CommandAnalysis::opaque();
            }
            CommandAnalysis::opaque()
                .with_run(NestedExecution::from_variables_and_argv(variables, argv))
        }
        "time" => CommandAnalysis::opaque().with_command(rest),
        "chdir" => match rest.split_first() {
            Some((folder, argv)) if !argv.is_empty() => {
                CommandAnalysis::opaque().with_run(NestedExecution::Command {
                    argv: argv.to_vec(),
                    variables: Vec::new(),
                    folder: Some(folder.clone()),
                    more_arguments: false,
                })
            }
            _ => CommandAnalysis::opaque(),
        },
        // They take the same arguments as the programs of these names.
        "cat" | "rm" | "tar" | "touch" => CommandAnalysis::opaque().with_command(args),
        "remove_directory" | "remove" => {
            CommandAnalysis::opaque().with_command(&prefix_args(&["rm", "-r"], rest))
        }
        "copy" | "copy_directory" | "copy_if_different" | "copy_directory_if_different" => {
            CommandAnalysis::opaque().with_command(&prefix_args(&["cp", "-r"], rest))
        }
        "rename" => CommandAnalysis::opaque().with_command(&prefix_args(&["mv"], rest)),
        "create_symlink" | "create_hardlink" => {
            CommandAnalysis::opaque().with_command(&prefix_args(&["ln", "-s"], rest))
        }
        _ => CommandAnalysis::opaque(),
    }
}

/// `corepack npm@9 publish` runs that package manager.
fn analyze_corepack(args: &[ShellArg]) -> CommandAnalysis {
    let Some((first, rest)) = args.split_first() else { return CommandAnalysis::opaque() };
    let name = known_text(Some(first)).split('@').next().unwrap_or_default();
    match name {
        "npm" | "npx" | "pnpm" | "pnpx" | "yarn" | "yarnpkg" => {
            CommandAnalysis::opaque().with_command(&prefix_args(&[name], rest))
        }
        _ => CommandAnalysis::opaque().mark_guess_if(first.as_known().is_none()),
    }
}

/// Each operand is a script of the project, which may be followed by its arguments.
fn analyze_npm_run_all(args: &[ShellArg]) -> CommandAnalysis {
    let table = options!(
        "-clnprsS -a: aggregate-output continue-on-error max-parallel: npm-path: parallel \
         print-label print-name race serial sequential silent"
    )
    .strict();
    let options = table.parse(args);
    let scripts = options.operands.iter().map(|script| {
        NestedExecution::from_script_words(&[ShellArg::known("npm run"), script.clone()])
    });
    scripts
        .fold(CommandAnalysis::opaque(), CommandAnalysis::with_run)
        .with_caution_if(options.has(&["npm-path"]), "it runs the program that is named")
        .mark_guess_if(options.uncertain)
}

/// The task spooler runs its operands; the program that adds times to lines has the same name and a
/// format as its operand.
fn analyze_task_spooler(args: &[ShellArg]) -> CommandAnalysis {
    let options =
        options!("-nfgmdBEhVKClSqsir -tcpowkuaDLNTR:").until_operand().parse(args).operands;
    match options.first().and_then(ShellArg::as_known) {
        Some(format) if format.contains('%') => CommandAnalysis::opaque(),
        _ => CommandAnalysis::opaque().with_command(&options),
    }
}

/// A command after one of these options, which is a script if it is one word.
fn analyze_marked_command(args: &[ShellArg], marks: &[&str]) -> CommandAnalysis {
    let is_mark = |arg: &ShellArg| arg.as_known().is_some_and(|text| marks.contains(&text));
    let Some(at) = args.iter().position(is_mark) else {
        let attached = args.iter().find_map(|arg| {
            let (option, value) = arg.as_known()?.split_once('=')?;
            marks.contains(&option).then(|| ShellArg::known(value))
        });
        let open = args.iter().any(|arg| arg.as_known().is_none());
        return CommandAnalysis::opaque().with_scripts(attached.iter()).mark_guess_if(open);
    };
    match args_from(args, at + 1) {
        [text] => CommandAnalysis::opaque().with_run(NestedExecution::from_script(text)),
        // Some run the words, others only the first one as a script.
        argv => CommandAnalysis::opaque()
            .with_command(argv)
            .with_scripts(argv.first().filter(|text| text.known_prefix().contains(' '))),
    }
}

/// Its options have one dash and a whole word: `-np 4`.
fn analyze_mpirun(args: &[ShellArg]) -> CommandAnalysis {
    let mut at = 0;
    let mut guess = false;
    while let Some(arg) = args.get(at).filter(|arg| arg.may_be_option()) {
        at += match known_text(Some(arg)).trim_start_matches('-') {
            "np" | "n" | "c" | "H" | "host" | "hostfile" | "machinefile" | "x" | "bind-to"
            | "map-by" | "wdir" => 2,
            "oversubscribe" | "allow-run-as-root" | "q" | "v" => 1,
            _ => {
                guess = true;
                1
            }
        };
    }
    CommandAnalysis::opaque().with_command(args_from(args, at)).mark_guess_if(guess)
}
