//! Programs that run commands on another machine, in another session or at another time.

use crate::program::arguments::{args_from, join_args, known_text, strip_arg_prefix};
use crate::program::command_analysis::{CommandAnalysis, FileAccess, NestedExecution};
use crate::program::options::{OptionTable, ParsedArguments, options};
use crate::shell::ShellArg;
use crate::word_list::words;

pub(super) fn analyze(name: &str, args: &[ShellArg]) -> Option<CommandAnalysis> {
    Some(match name {
        "ssh" | "autossh" | "mosh" | "slogin" => analyze_ssh(name, args),
        "scp" => analyze_copy(args, &SCP),
        "sftp" => analyze_sftp(args),
        "rsync" => analyze_rsync(args),
        "vagrant" => analyze_text_after(args, "ssh", &["-c", "--command"]),
        "adb" => analyze_adb(args),
        "tmux" => analyze_tmux(args),
        "screen" => analyze_screen(args),
        "at" | "batch" => analyze_at(args),
        "crontab" => analyze_crontab(args),
        "wsl" => analyze_wsl(args),
        "osascript" | "cmd" | "powershell" | "pwsh" => CommandAnalysis::opaque()
            .with_caution("it runs text in a language that is not read here"),
        _ => return None,
    })
}

const SSH: OptionTable = options!("-46AaCfGgKkNnqsTtVvXxYy -BbcDEeFIiJLlMmOoPpQRSWw:").strict();

const SCP: OptionTable = options!("-346ABCOpqRrsTv -cDFiJloPSX:").strict();

fn analyze_ssh(name: &str, args: &[ShellArg]) -> CommandAnalysis {
    let table = match name {
        "mosh" => options!(
            "-46an p: client: server: ssh: predict: port: family: no-init local bind-server: \
             experimental-remote-ip:"
        )
        .strict(),
        _ => SSH,
    };
    let first = table.until_operand().parse(args);
    let mut analysis = add_ssh_options(CommandAnalysis::opaque(), &first);
    analysis = analysis.with_scripts(first.values(&["ssh", "client"]));
    let Some((host, rest)) = first.operands.split_first() else {
        return analysis.mark_guess_if(first.uncertain);
    };
    // ssh accepts options after the host as well.
    let second = table.until_operand().parse(rest);
    analysis = add_ssh_options(analysis.with_host(host), &second);
    if !second.operands.is_empty() {
        analysis = analysis.with_run(NestedExecution::from_script_words(&second.operands));
    } else if !first.has(&["N", "G", "V"]) && !second.has(&["N"]) {
        analysis = analysis.with_run(NestedExecution::ScriptFromInput);
    }
    // An unknown word that is not an option would be the host, which is judged as such.
    analysis.mark_guess_if(first.uncertain || second.uncertain)
}

/// The effects of options of ssh, scp and sftp on this machine.
fn add_ssh_options(
    mut analysis: CommandAnalysis,
    options: &ParsedArguments<'_>,
) -> CommandAnalysis {
    for setting in options.values(&["o"]) {
        let text = setting.known_prefix().to_ascii_lowercase();
        let key = text.split(['=', ' ']).next().unwrap_or_default();
        match key {
            "proxycommand" | "localcommand" | "knownhostscommand" | "remotecommand" => {
                let command = strip_arg_prefix(
                    setting,
                    setting.known_prefix().get(..=key.len()).unwrap_or_default(),
                );
                analysis = analysis
                    .with_run(
                        command.map_or(NestedExecution::Unknown("`-o` names a command"), |text| {
                            NestedExecution::from_script(&text)
                        }),
                    )
                    .with_caution("`-o` names a command to run");
            }
            "permitlocalcommand"
            | "include"
            | "proxyusefdpass"
            | "pkcs11provider"
            | "securitykeyprovider"
            | "xauthlocation"
            | "sendenv"
            | "" => {
                analysis = analysis.with_caution("`-o` sets something that may run a command");
            }
            _ => {}
        }
    }
    for config in options.values(&["F"]) {
        analysis = analysis
            .with_touch(FileAccess::Read, config)
            .with_caution("its settings come from a file that may name commands");
    }
    analysis = analysis.with_identity_files(options.all_values(&["i"]));
    analysis = analysis.with_touches(FileAccess::Write, &options.all_values(&["E"]));
    for jump in options.values(&["J"]) {
        analysis = analysis.with_host(jump);
    }
    analysis.with_caution_if(options.has(&["I"]), "`-I` loads a library")
}

/// Whether an operand is on another machine: a colon before any slash, or a URL.
fn is_remote(arg: &ShellArg) -> bool {
    let start = arg.known_prefix();
    let head = start.split('/').next().unwrap_or_default();
    head.contains(':')
}

/// Sources are read, the last operand is written; remote ones are hosts.
fn add_copied_files(mut analysis: CommandAnalysis, operands: &[ShellArg]) -> CommandAnalysis {
    let Some((target, sources)) = operands.split_last() else {
        return analysis;
    };
    for source in sources {
        analysis = if is_remote(source) {
            analysis.with_host(source)
        } else {
            analysis.with_recursive_touch(FileAccess::Read, source)
        };
    }
    if is_remote(target) {
        analysis.with_host(target)
    } else {
        analysis.with_recursive_touch(FileAccess::Write, target)
    }
}

fn analyze_copy(args: &[ShellArg], table: &OptionTable) -> CommandAnalysis {
    let options = table.parse(args);
    let mut analysis =
        add_ssh_options(add_copied_files(CommandAnalysis::opaque(), &options.operands), &options);
    for program in options.values(&["S"]) {
        analysis = analysis
            .with_run(NestedExecution::from_script(program))
            .with_caution("`-S` names the program that connects");
    }
    analysis.mark_guess_if(options.uncertain)
}

fn analyze_sftp(args: &[ShellArg]) -> CommandAnalysis {
    let table = options!("-46AaCfNpqrv -BbcDFiJloPRSsX:").strict();
    let options = table.until_operand().parse(args);
    let mut analysis = add_ssh_options(CommandAnalysis::opaque(), &options);
    for host in options.operands.iter().take(1) {
        analysis = analysis.with_host(host);
    }
    for batch in options.values(&["b"]) {
        analysis = analysis
            .with_touch(FileAccess::Read, batch)
            .with_caution("its commands come from a file");
    }
    for program in options.values(&["S", "D"]) {
        analysis = analysis
            .with_run(NestedExecution::from_script(program))
            .with_caution("it names the program that connects");
    }
    analysis.mark_guess_if(options.uncertain)
}

fn analyze_rsync(args: &[ShellArg]) -> CommandAnalysis {
    let table = options!(
        "-vqcarRbudlLkKHpEAXogDtUOJSnWxyzChPi0mFs46 -BefMT@: verbose info: debug: stderr: quiet \
         no-motd checksum archive recursive relative no-implied-dirs backup backup-dir: suffix: \
         update inplace append append-verify dirs old-dirs mkpath links copy-links \
         copy-unsafe-links safe-links munge-links copy-dirlinks keep-dirlinks hard-links perms \
         executability chmod: acls xattrs owner group devices copy-devices write-devices specials \
         times atimes open-noatime crtimes omit-dir-times omit-link-times super fake-super sparse \
         preallocate dry-run whole-file checksum-choice: one-file-system block-size: rsh: \
         rsync-path: existing ignore-existing remove-source-files del delete delete-before \
         delete-during delete-delay delete-after delete-excluded ignore-missing-args \
         delete-missing-args ignore-errors force max-delete: max-size: min-size: max-alloc: \
         partial partial-dir: delay-updates prune-empty-dirs numeric-ids usermap: groupmap: chown: \
         timeout: contimeout: ignore-times size-only modify-window: temp-dir: fuzzy compare-dest: \
         copy-dest: link-dest: compress compress-choice: compress-level: skip-compress: \
         cvs-exclude filter: exclude: exclude-from: include: include-from: files-from: from0 \
         old-args secluded-args trust-sender copy-as: address: port: sockopts: blocking-io outbuf: \
         stats 8-bit-output human-readable progress itemize-changes remote-option: out-format: \
         log-file: log-file-format: password-file: early-input: list-only bwlimit: stop-after: \
         stop-at: fsync write-batch: only-write-batch: read-batch: protocol: iconv: checksum-seed: \
         ipv4 ipv6 no-perms no-owner no-group no-times no-compress daemon config: server sender \
         help version"
    )
    .strict();
    let options = table.parse(args);
    let mut analysis = add_copied_files(CommandAnalysis::opaque(), &options.operands);
    for text in options.values(&["e", "rsh", "rsync-path"]) {
        // It is split at spaces, and the host and a command are appended.
        let words =
            text.as_known().map(|text| text.split_whitespace().map(ShellArg::known).collect());
        let run = match words {
            Some(argv) => NestedExecution::from_argv_and_more(argv),
            None => NestedExecution::Unknown("`-e` names a program that is not known"),
        };
        analysis = analysis.with_run(run).with_caution("it names the program that connects");
    }
    analysis = analysis.with_touches(
        FileAccess::Write,
        &options.all_values(&["log-file", "write-batch", "only-write-batch"]),
    );
    for folder in options.values(&["backup-dir", "temp-dir", "T", "partial-dir"]) {
        analysis = analysis.with_recursive_touch(FileAccess::Write, folder);
    }
    analysis = analysis.with_touches(
        FileAccess::Read,
        &options.all_values(words!("files-from exclude-from include-from read-batch config")),
    );
    analysis = analysis.with_identity_files(options.all_values(&["password-file"]));
    if options.has(&["remove-source-files"])
        && let Some((_, sources)) = options.operands.split_last()
    {
        for source in sources.iter().filter(|source| !is_remote(source)) {
            analysis = analysis.with_recursive_touch(FileAccess::Delete, source);
        }
    }
    let deletes =
        options.parsed.iter().any(|option| option.names().any(|name| name.starts_with("del")));
    if deletes && !options.keeps(&["n", "dry-run"]) {
        analysis = analysis.mark_critical("removes files at the target");
    }
    analysis
        .with_caution_if(
            options.has(&["daemon", "server", "M", "remote-option"]),
            "it serves files itself",
        )
        .mark_guess_if(options.uncertain)
}

/// `name … verb … -c text`.
fn analyze_text_after(args: &[ShellArg], verb: &str, flags: &[&str]) -> CommandAnalysis {
    let mut analysis = CommandAnalysis::opaque();
    if !args.iter().any(|arg| arg.as_known().is_none_or(|text| text == verb)) {
        return analysis;
    }
    for (at, arg) in args.iter().enumerate() {
        let attached = flags.iter().find_map(|flag| {
            let flag = if flag.starts_with("--") { format!("{flag}=") } else { (*flag).to_owned() };
            strip_arg_prefix(arg, &flag).filter(|rest| *rest != ShellArg::known(""))
        });
        if arg.as_known().is_some_and(|text| flags.contains(&text)) {
            analysis = analysis.with_run(
                args.get(at + 1)
                    .map_or(NestedExecution::ScriptFromInput, NestedExecution::from_script),
            );
        } else if let Some(text) = attached {
            analysis = analysis.with_run(NestedExecution::from_script(&text));
        }
    }
    analysis
}

fn analyze_adb(args: &[ShellArg]) -> CommandAnalysis {
    let options = options!("-ade -HPLst:").strict().until_operand().parse(args);
    let analysis = CommandAnalysis::opaque().mark_guess_if(options.uncertain);
    match (known_text(options.operands.first()), args_from(&options.operands, 1)) {
        ("shell", []) => analysis.with_run(NestedExecution::ScriptFromInput),
        ("shell", words) => {
            let inner = options!("-nTtx e:").strict().until_operand().parse(words);
            analysis
                .with_run(NestedExecution::from_script_words(&inner.operands))
                .mark_guess_if(inner.uncertain)
        }
        _ => analysis,
    }
}

fn analyze_tmux(args: &[ShellArg]) -> CommandAnalysis {
    let globals = options!("-2CDlNuvV -cfLST:").strict().until_operand().parse(args);
    let mut analysis = CommandAnalysis::opaque().mark_guess_if(globals.uncertain);
    analysis = analysis.with_scripts(globals.values(&["c"]));
    for file in globals.values(&["f"]) {
        analysis = analysis
            .with_touch(FileAccess::Read, file)
            .with_caution("its settings can run commands");
    }
    let several = globals.operands.iter().any(|arg| arg.known_prefix().ends_with(';'));
    let table = options!("-AabBCDdEfhIkNPSvXZ -ceFlnpstxy:").strict();
    let rest = args_from(&globals.operands, 1);
    let command_analysis = match known_text(globals.operands.first()) {
        "ls" | "list-sessions" | "lsw" | "list-windows" | "lsp" | "list-panes" | "has-session"
        | "has" | "kill-session" | "kill-window" | "kill-pane" | "kill-server" | "attach"
        | "attach-session" | "a" | "detach" | "" => analysis,
        "new-session" | "new" | "new-window" | "neww" | "split-window" | "splitw"
        | "respawn-pane" | "respawnp" | "respawn-window" | "respawnw" | "run-shell" | "run"
        | "if-shell" | "if" | "pipe-pane" | "pipep" | "display-popup" | "popup" => {
            let inner = table.until_operand().parse(rest);
            let study = analysis.mark_guess_if(inner.uncertain);
            match inner.operands.as_slice() {
                [] => study,
                words => study.with_run(NestedExecution::from_script_words(words)),
            }
        }
        _ => analysis.with_caution("it can type or run commands in another terminal"),
    };
    command_analysis.with_caution_if(several, "it is several commands in one")
}

fn analyze_screen(args: &[ShellArg]) -> CommandAnalysis {
    let table = options!("-aAdDfiLlmOqQrRUvwxX -cehpsStT: list wipe version").strict();
    let options = table.until_operand().parse(args);
    let analysis = CommandAnalysis::opaque().mark_guess_if(options.uncertain);
    if options.has(&["X", "Q"]) {
        return analysis.with_caution("it can type or run commands in another terminal");
    }
    let command_analysis =
        analysis.with_caution_if(options.has(&["c"]), "its settings can run commands");
    command_analysis.with_command(&options.operands)
}

fn analyze_at(args: &[ShellArg]) -> CommandAnalysis {
    let options = options!("-VmMkldrbv -qfutc:").strict().parse(args);
    if options.has(&["l", "V", "c"]) && !options.uncertain {
        return CommandAnalysis::opaque();
    }
    let analysis = CommandAnalysis::opaque()
        .with_caution("what it schedules runs later, outside of any confinement");
    match options.values(&["f"]).next() {
        Some(file) => analysis
            .with_touch(FileAccess::Read, file)
            .with_run(NestedExecution::Unknown("its commands are in a file")),
        None if options.has(&["r", "d"]) => analysis,
        None => analysis.with_run(NestedExecution::ScriptFromInput),
    }
}

fn analyze_crontab(args: &[ShellArg]) -> CommandAnalysis {
    let options = options!("-elris -uTx:").strict().parse(args);
    if options.has(&["l"]) && !options.uncertain {
        return CommandAnalysis::opaque();
    }
    let analysis = CommandAnalysis::opaque()
        .with_touches(FileAccess::Read, &options.operands)
        .with_caution("what it schedules runs later, outside of any confinement");
    if options.has(&["r"]) {
        analysis.mark_critical("removes every scheduled job")
    } else {
        analysis
    }
}

fn analyze_wsl(args: &[ShellArg]) -> CommandAnalysis {
    let table = options!("-e -du: distribution: user: cd: exec shell-type: system").strict();
    let options = table.until_operand().parse(args);
    let analysis = CommandAnalysis::opaque().mark_guess_if(options.uncertain);
    match options.operands.as_slice() {
        [] => analysis.with_run(NestedExecution::ScriptFromInput),
        words => {
            analysis.with_run(NestedExecution::Script { text: join_args(words), folder: None })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::analysis_text::{check, check_critical};

    #[test]
    fn ssh_text_runs_on_host() {
        check("ssh host rm -rf x", "program host(host) script[rm -rf x]");
        check("ssh -p 22 me@host -t rm x", "program host(me@host) script[rm x]");
        check("ssh -i key host", "program read(key) host(host) script-from-input");
        check(
            "ssh -o ProxyCommand=rm_x host ls",
            "program host(host) script[rm x] script[ls] caution",
        );
        check(
            "ssh -oproxycommand=rm_x host ls",
            "program host(host) script[rm x] script[ls] caution",
        );
        check(
            "ssh -o LocalCommand_rm_x host ls",
            "program host(host) script[rm x] script[ls] caution",
        );
        check("ssh -o StrictHostKeyChecking=no host ls", "program host(host) script[ls]");
        check("ssh host -o ProxyCommand=x ls", "program host(host) script[x] script[ls] caution");
        check("ssh -F f host ls", "program read(f) host(host) script[ls] caution");
        check("ssh -J a host ls", "program host(a) host(host) script[ls]");
        check("ssh -N host", "program host(host)");
        check("ssh $X host", "program host($X) script[host] unknown");
    }

    #[test]
    fn remote_copy_reads_source_and_writes_target() {
        check("scp a host:b", "program read(a/**) host(host:b)");
        check("scp -r host:a b", "program write(b/**) host(host:a)");
        check("scp -S rm_x a host:b", "program read(a/**) host(host:b) script[rm x] caution");
        check("rsync -av a/ host:b", "program read(a//**) host(host:b)");
        check(
            "rsync -e ssh_-p_22 a host:b",
            "program read(a/**) host(host:b) runs[ssh -p 22 ...] caution",
        );
        check("rsync --rsh=rm_x a b", "program read(a/**) write(b/**) runs[rm x ...] caution");
        check("rsync -a --delete a b", "program read(a/**) write(b/**) critical");
        check("rsync -an --delete a b", "program read(a/**) write(b/**)");
        check_critical("rsync -an --no-n --delete a b");
        check_critical("rsync --dry-run --no-dry --delete a b");
        check("sftp -b f host", "program read(f) host(host) caution");
    }

    #[test]
    fn commands_in_other_sessions_or_times_are_found() {
        check("vagrant ssh -c rm_x", "program script[rm x]");
        check("adb shell rm x", "program script[rm x]");
        check("adb devices", "program");
        check("tmux new-session -d -s n rm_x", "program script[rm x]");
        check("tmux send-keys rm_x Enter", "program caution");
        check("tmux ls", "program");
        check("screen -dmS n rm x", "program runs[rm x]");
        check("screen -S n -X stuff rm_x", "program caution");
        check("at now", "program script-from-input caution");
        check("crontab f", "program read(f) caution");
        check("crontab -l", "program");
        check("crontab -r", "program critical caution");
        check("osascript -e x", "program caution");
        check("powershell.exe -c x", "program caution");
        check("wsl rm x", "program script[rm x]");
    }
}
