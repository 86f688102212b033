//! Allow rules that let nearly anything run.

use super::command::{CommandPattern, CommandWord, Piece};
use super::domain::DomainPattern;
use super::path::{Base, PathPattern};
use super::target::{Pattern, Target};

/// Programs that run whatever their arguments say.
const RUNNERS: &[&str] = &[
    "ash",
    "awk",
    "bash",
    "bun",
    "bunx",
    "busybox",
    "chroot",
    "cmd",
    "command",
    "csh",
    "dash",
    "deno",
    "doas",
    "docker",
    "env",
    "eval",
    "exec",
    "expect",
    "fakeroot",
    "find",
    "firejail",
    "fish",
    "flock",
    "gawk",
    "gdb",
    "ionice",
    "irb",
    "java",
    "jshell",
    "julia",
    "ksh",
    "lua",
    "luajit",
    "mawk",
    "nice",
    "node",
    "nodejs",
    "nohup",
    "npx",
    "nsenter",
    "osascript",
    "parallel",
    "perl",
    "php",
    "pipx",
    "pkexec",
    "pnpx",
    "podman",
    "powershell",
    "pwsh",
    "pypy",
    "python",
    "rsh",
    "Rscript",
    "ruby",
    "rlwrap",
    "runuser",
    "screen",
    "script",
    "setsid",
    "sh",
    "source",
    "ssh",
    "stdbuf",
    "strace",
    "su",
    "sudo",
    "systemd-run",
    "tclsh",
    "tcsh",
    "time",
    "timeout",
    "tmux",
    "tsx",
    "ts-node",
    "unbuffer",
    "unshare",
    "uvx",
    "watch",
    "xargs",
    "yash",
    "zsh",
    ".",
];

/// Why an allow rule for this is a danger.
pub(super) fn of(target: &Target) -> Option<String> {
    let pattern = match target {
        Target::Everything => return Some("allows every tool, whatever it is asked".to_owned()),
        Target::EveryServer => return Some("allows every tool of every MCP server".to_owned()),
        Target::Server(_) | Target::McpTool(_) => return None,
        Target::Tool { tool, pattern: None } => return bare(tool).map(str::to_owned),
        Target::Tool { tool, pattern: Some(pattern) } => (*tool, pattern),
    };
    match pattern {
        (_, Pattern::Command(command)) => of_command(command),
        (tool, Pattern::Path(path)) => of_path(tool, path).map(str::to_owned),
        ("WebFetch", Pattern::Domain(DomainPattern::Any)) => bare("WebFetch").map(str::to_owned),
        (_, Pattern::Domain(_)) => None,
    }
}

fn bare(tool: &str) -> Option<&'static str> {
    match tool {
        "Bash" => Some("allows every command"),
        "Write" | "Edit" => Some("allows changes to every file"),
        "Delete" => Some("allows every file to be removed"),
        "WebFetch" => Some("allows data to be sent to every host"),
        _ => None,
    }
}

fn of_command(command: &CommandPattern) -> Option<String> {
    let (program, is_open) = match command {
        CommandPattern::Exact(_) => return None,
        CommandPattern::Prefix(words) => {
            let (program, rest) = words.split_first()?;
            (program.clone(), rest.iter().all(|word| word.starts_with('-')))
        }
        CommandPattern::Glob { words, more } => {
            let (first, rest) = words.split_first()?;
            match (first.literal(), first.pieces.first()?) {
                (Some(program), _) => (program, is_open(rest, *more)),
                (None, Piece::Text(start)) => return of_program_start(start),
                (None, Piece::Star) => {
                    return Some("starts with a wildcard, so it allows every program".to_owned());
                }
            }
        }
    };
    let name = program.rsplit('/').next().unwrap_or(&program);
    (is_open && runs_anything(name)).then(|| allows_every_command(name))
}

/// Whether a program runs whatever its arguments say; its version does not matter.
pub(crate) fn runs_anything(name: &str) -> bool {
    let unversioned = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    RUNNERS.contains(&name) || RUNNERS.contains(&unversioned)
}

/// Whether nothing but options stands before the first wildcard: `python -c *x`, `sh *`.
fn is_open(arguments: &[CommandWord], more: bool) -> bool {
    let decided = arguments.iter().find_map(|word| match (word.literal(), word.pieces.first()) {
        (Some(text), _) if text.starts_with('-') => None,
        (Some(_), _) | (None, None) => Some(false),
        (None, Some(Piece::Star)) => Some(true),
        (None, Some(Piece::Text(start))) => Some(start.starts_with('-')),
    });
    decided.unwrap_or(more)
}

/// `py*` fits every program whose name starts so.
fn of_program_start(start: &str) -> Option<String> {
    let unversioned = start.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    let fits = |runner: &&&str| runner.starts_with(unversioned) && !unversioned.is_empty();
    RUNNERS.iter().find(fits).map(|runner| allows_every_command(runner))
}

fn allows_every_command(name: &str) -> String {
    format!("`{name}` runs whatever its arguments say, so it allows every command")
}

fn of_path(tool: &str, path: &PathPattern) -> Option<&'static str> {
    let everything = path.parts.iter().all(|part| part == "*" || part == "**");
    match (tool, path.base) {
        ("Read", Base::Machine) if everything => {
            Some("allows every file of the machine to be read")
        }
        ("Write" | "Edit", Base::Machine | Base::Home | Base::AnyFolder) if everything => {
            bare("Write")
        }
        ("Delete", Base::Machine | Base::Home | Base::AnyFolder) if everything => bare("Delete"),
        _ => None,
    }
}
