//! Checks that every command line can be analyzed, and that no wrapper hides the command it runs.

use proptest::prelude::*;

use super::analysis_text::{check, parse_argument};
use super::*;

/// Words with a meaning in some table.
const WORDS: &[&str] = &[
    "-", "--", "-c", "-C", "-S", "-x", "-rf", "-o", "-u", "-e", "-exec", "-delete", "{}", ";", "+",
    ":::", "=", "a=b", "--=", "--x=y", "-I{}", "$X", "-$X", "a$X", "--o=$X", "*", "-*", "é", "-é",
    "--é=é", "a:b", ":", ":/", ":(top)x", "ext::x", "run", "exec", "rm", "x", "git", "push",
    "clean", "config", "clone", "system", "prune", "foreach", "A='b", "\\",
];

/// Programs in some table.
const PROGRAMS: &[&str] = &[
    "bash",
    "eval",
    "trap",
    "alias",
    "mapfile",
    "history",
    "printf",
    "let",
    "timeout",
    "env",
    "xargs",
    "parallel",
    "watch",
    "flock",
    "script",
    "strace",
    "gdb",
    "perf",
    "sg",
    "arch",
    "setarch",
    "entr",
    "watchexec",
    "busybox",
    "poetry",
    "npx",
    "nix",
    "mise",
    "sudo",
    "su",
    "runuser",
    "ssh",
    "scp",
    "rsync",
    "sftp",
    "adb",
    "tmux",
    "screen",
    "at",
    "crontab",
    "docker",
    "kubectl",
    "find",
    "fd",
    "git",
    "rm",
    "dd",
    "kill",
    "chmod",
    "psql",
    "aws",
];

/// Wrappers as written before a command.
const WRAPPERS: &[&str] = &[
    "env",
    "env A=b",
    "env -i",
    "timeout 5",
    "timeout -s KILL 5",
    "nice",
    "nice -n 5",
    "nohup",
    "setsid",
    "stdbuf -oL",
    "time",
    "ionice -c 3",
    "taskset 1",
    "chrt 1",
    "command",
    "exec",
    "builtin",
    "xargs",
    "sudo",
    "sudo -u me",
    "doas",
    "pkexec",
    "busybox",
    "watch -x",
    "flock lock",
    "strace",
    "poetry run",
    "bundle exec",
    "docker exec c",
    "chroot /mnt",
    "unshare",
    "systemd-run",
    "find . -exec",
    "fd x -x",
    "parallel",
];

proptest! {
    #[test]
    fn no_command_line_is_too_odd(
        program in proptest::sample::select(PROGRAMS),
        words in proptest::collection::vec(proptest::sample::select(WORDS), 0..8),
    ) {
        let argv: Vec<ShellArg> =
            std::iter::once(program).chain(words).map(parse_argument).collect();
        analyze(&argv);
    }

    #[test]
    fn a_wrapper_hides_nothing(
        wrapper in proptest::sample::select(WRAPPERS),
        words in proptest::collection::vec(proptest::sample::select(&["a", "-r", "-c", "b"]), 0..4),
    ) {
        let mut line: Vec<ShellArg> = wrapper.split_whitespace().map(parse_argument).collect();
        let inner: Vec<ShellArg> = std::iter::once("rm").chain(words).map(parse_argument).collect();
        line.extend(inner.iter().cloned());
        let found = analyze(&line);
        let seen = found.runs.iter().any(
            |run| matches!(run, NestedExecution::Command { argv, .. } if argv.starts_with(&inner)),
        );
        prop_assert!(seen, "{found:?}");
        prop_assert!(matches!(found.class, CommandClass::Wrapper | CommandClass::Opaque));
    }
}

#[test]
fn program_is_known_by_name_and_trusted_by_folder() {
    check("/usr/bin/true", "read-only");
    check("./true", "program");
    check("/tmp/rm -rf x", "program delete(x/**) critical");
    check("/usr/bin/../../tmp/true", "program");
    check("/bin/rm x", "files delete(x)");
    check("grm -r x", "files delete(x/**) critical");
    check("bash.exe -c ls", "wrapper script[ls]");
    check("$X y", "program unknown");
    check("no-such-program x", "program");
}
