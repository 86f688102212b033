//! Allow rules that let nearly anything run.

use super::command::{CommandPattern, Piece};
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
    "kubectl",
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
    let first = match command {
        CommandPattern::Exact(_) => return None,
        CommandPattern::Prefix(words) => match words.as_slice() {
            [program] => program.clone(),
            // `python -c:*`, `sh -c *`, `sudo -u root:*`: only options so far.
            [program, options @ ..] if options.iter().all(|word| word.starts_with('-')) => {
                program.clone()
            }
            _ => return None,
        },
        CommandPattern::Glob { words, .. } => {
            let mut pieces = words.first().map(|word| word.pieces.iter())?;
            match (pieces.next(), pieces.next()) {
                (Some(Piece::Star), _) => {
                    return Some("starts with a wildcard, so it allows every program".to_owned());
                }
                // `git*` also fits every program whose name starts so; `python -c *x`.
                (Some(Piece::Text(program)), _) => program.clone(),
                (None, _) => return None,
            }
        }
    };
    let name = first.rsplit('/').next().unwrap_or(&first);
    let unversioned = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    let runs = RUNNERS.contains(&name) || RUNNERS.contains(&unversioned);
    runs.then(|| format!("`{name}` runs whatever its arguments say, so it allows every command"))
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
