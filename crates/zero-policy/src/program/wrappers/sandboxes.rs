//! Programs that run another one in a sandbox or namespace, with options of several words.
//!
//! Such a sandbox protects nothing here: it can mount folders of this machine.

use crate::program::arguments::{args_from, known_text, strip_arg_prefix};
use crate::program::command_analysis::{CommandAnalysis, FileAccess, NestedExecution};
use crate::program::options::options;
use crate::shell::ShellArg;
use crate::word_list::words;

pub(super) fn analyze(name: &str, args: &[ShellArg]) -> Option<CommandAnalysis> {
    Some(match name {
        "bwrap" => analyze_bubblewrap(args),
        "firejail" => analyze_firejail(args),
        "capsh" => analyze_capsh(args),
        "runcon" => analyze_runcon(args),
        "ip" => analyze_ip(args)?,
        "dtach" | "abduco" => analyze_detached(name, args),
        "start-stop-daemon" => analyze_daemon(args),
        "coreutils" => analyze_coreutils(args),
        name if is_loader(name) => analyze_loader(args),
        _ => return None,
    })
}

/// Whether a name is that of the dynamic loader: `ld-linux-x86-64.so.2`, `ld.so`.
fn is_loader(name: &str) -> bool {
    let is_library = name.ends_with(".so") || name.contains(".so.");
    name.starts_with("ld") && is_library
}

/// `ld.so [options] program arguments`.
fn analyze_loader(args: &[ShellArg]) -> CommandAnalysis {
    let table = options!(
        "list verify inhibit-cache library-path: glibc-hwcaps-prepend: glibc-hwcaps-mask: \
         inhibit-rpath: audit: preload: argv0: list-tunables list-diagnostics help version"
    )
    .strict();
    let options = table.until_operand().parse(args);
    let loads = ["library-path", "audit", "preload", "glibc-hwcaps-prepend"];
    CommandAnalysis::opaque()
        .with_command(&options.operands)
        .with_caution_if(options.has(&loads), "it loads code that is named beside the program")
        .mark_guess_if(options.uncertain)
}

/// The options of bubblewrap, by the number of words each takes.
const BWRAP: [&[&str]; 4] = [
    words!(
        "unshare-all share-net unshare-user unshare-user-try unshare-ipc unshare-pid unshare-net \
         unshare-uts unshare-cgroup unshare-cgroup-try new-session die-with-parent as-pid-1 \
         clearenv disable-userns assert-userns-disabled version help"
    ),
    words!(
        "args argv0 uid gid hostname chdir unsetenv proc dev tmpfs mqueue dir seccomp \
         add-seccomp-fd exec-label file-label sync-fd block-fd userns userns2 userns-block-fd \
         pidns info-fd json-status-fd lock-file remount-ro cap-add cap-drop perms size \
         level-prefix overlay-src tmp-overlay ro-overlay"
    ),
    words!(
        "bind bind-try dev-bind dev-bind-try ro-bind ro-bind-try setenv file bind-data \
         ro-bind-data symlink chmod bind-fd ro-bind-fd"
    ),
    words!("overlay"),
];

fn analyze_bubblewrap(args: &[ShellArg]) -> CommandAnalysis {
    let mut at = 0;
    let mut guess = false;
    while let Some(arg) = args.get(at).filter(|arg| arg.may_be_option()) {
        at += 1;
        let Some(name) = arg.as_known().and_then(|text| text.strip_prefix("--")) else {
            guess = true;
            continue;
        };
        if name.is_empty() {
            break;
        }
        let takes = BWRAP.iter().position(|names| names.contains(&name));
        // `--args` reads further options from a stream.
        guess |= takes.is_none() || name == "args";
        at += takes.unwrap_or_default();
    }
    CommandAnalysis::opaque().with_command(args_from(args, at)).mark_guess_if(guess)
}

/// Options of firejail have attached values only.
fn analyze_firejail(args: &[ShellArg]) -> CommandAnalysis {
    let options = args.iter().take_while(|arg| known_text(Some(arg)).starts_with('-')).count();
    let ended = args.iter().take(options).position(|arg| arg.as_known() == Some("--"));
    let at = ended.map_or(options, |at| at + 1);
    let acts = args.iter().take(at).any(|arg| {
        let start = arg.known_prefix();
        ["--join", "--put", "--shutdown"].iter().any(|act| start.starts_with(act))
    });
    let open = args_from(args, at).first().is_some_and(ShellArg::may_be_option);
    CommandAnalysis::opaque()
        .with_command(args_from(args, at))
        .with_caution_if(acts, "it acts on a program in a sandbox")
        .mark_guess_if(open)
}

/// `capsh … -- arguments of bash`.
fn analyze_capsh(args: &[ShellArg]) -> CommandAnalysis {
    let at = args.iter().position(|arg| matches!(arg.as_known(), Some("--" | "==" | "+")));
    let shell = args.iter().find_map(|arg| strip_arg_prefix(arg, "--shell="));
    let Some(at) = at else {
        let open = args.iter().any(|arg| arg.as_known().is_none());
        return CommandAnalysis::opaque().mark_guess_if(open);
    };
    let mut argv = vec![shell.unwrap_or_else(|| ShellArg::known("bash"))];
    argv.extend_from_slice(args_from(args, at + 1));
    CommandAnalysis::opaque().with_command(&argv)
}

/// `runcon context command`, or `runcon -t type command`.
fn analyze_runcon(args: &[ShellArg]) -> CommandAnalysis {
    let table = options!("-c -turl: compute type: user: role: range: help version").strict();
    let options = table.until_operand().parse(args);
    let skips = usize::from(options.parsed.is_empty());
    CommandAnalysis::opaque()
        .with_command(args_from(&options.operands, skips))
        .mark_guess_if(options.uncertain)
}

/// `ip netns exec NAME command`, `ip vrf exec NAME command`.
fn analyze_ip(args: &[ShellArg]) -> Option<CommandAnalysis> {
    let at = args.iter().position(|arg| match arg.as_known() {
        // Objects may be abbreviated, and options may precede them.
        Some(text) => text.len() > 1 && ("netns".starts_with(text) || "vrf".starts_with(text)),
        None => false,
    })?;
    let verb = known_text(args.get(at + 1));
    if verb.is_empty() || !"exec".starts_with(verb) {
        return None;
    }
    // `ip -all netns exec command` names no namespace.
    let all = args.iter().take(at).any(|arg| known_text(Some(arg)).starts_with("-a"));
    let skips = if all { 2 } else { 3 };
    Some(CommandAnalysis::opaque().with_command(args_from(args, at + skips)))
}

/// `dtach -n socket [options] command`, `abduco -c name command`.
fn analyze_detached(name: &str, args: &[ShellArg]) -> CommandAnalysis {
    let table = match name {
        "dtach" => options!("-Ez -aAcnNper:").strict(),
        _ => options!("-aAcnlfrpqv e:").strict(),
    };
    let options = table.until_operand().parse(args);
    let skips = usize::from(name == "abduco");
    CommandAnalysis::opaque()
        .with_command(args_from(&options.operands, skips))
        .with_touches(FileAccess::Write, &options.all_values(&["a", "A", "c", "n", "N", "p"]))
        .with_caution_if(options.has(&["a", "p"]), "it can type commands in another terminal")
        .mark_guess_if(options.uncertain)
}

fn analyze_daemon(args: &[ShellArg]) -> CommandAnalysis {
    let table = options!(
        "-SKTHVtvqobmCy -xapnucgrdNPIksRweOL: start stop status help version exec: startas: \
         pidfile: name: user: chuid: group: chroot: chdir: nicelevel: procsched: iosched: umask: \
         signal: retry: test verbose quiet oknodo background make-pidfile remove-pidfile no-close \
         notify-await notify-timeout: output: pid: ppid:"
    )
    .strict();
    let options = table.parse(args);
    let analysis = options.values(&["x", "exec", "a", "startas"]).fold(
        CommandAnalysis::opaque(),
        |command_analysis, program| {
            let mut argv = vec![program.clone()];
            argv.extend(options.operands.iter().cloned());
            command_analysis.with_command(&argv)
        },
    );
    let written = options.all_values(&["p", "pidfile", "O", "output"]);
    analysis
        .with_touches(FileAccess::Write, &written)
        .with_caution_if(options.has(&["K", "stop"]), "it ends processes")
        .mark_guess_if(options.uncertain)
}

/// A multi-call binary: `coreutils --coreutils-prog=rm x`.
fn analyze_coreutils(args: &[ShellArg]) -> CommandAnalysis {
    let Some((first, rest)) = args.split_first() else { return CommandAnalysis::read_only() };
    let named = ["--coreutils-prog=", "--coreutils-prog-shebang="]
        .iter()
        .find_map(|option| strip_arg_prefix(first, option));
    match named {
        Some(program) => {
            let mut argv = vec![program];
            argv.extend_from_slice(rest);
            CommandAnalysis::wrapper().with_command(&argv)
        }
        None if known_text(Some(first)).starts_with("--") => CommandAnalysis::read_only(),
        None if first.may_be_option() => CommandAnalysis::wrapper()
            .with_run(NestedExecution::Unknown("the program is only known at run time")),
        None => CommandAnalysis::wrapper().with_command(args),
    }
}
