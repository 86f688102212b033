//! Detects allow rules that allow nearly anything.

use super::argument_pattern::ArgumentPattern;
use super::command_pattern::{CommandPattern, PatternWord, PatternWordPart};
use super::domain_pattern::DomainPattern;
use super::path_pattern::{PatternBase, RulePathPattern};
use super::rule_target::{ExternalToolScope, RulePattern, RuleTarget};
use crate::word_list::words;

/// Programs that run whatever their arguments say.
const RUN_ANYTHING_PROGRAMS: &[&str] = words!(
    "ash awk bash bun bunx busybox chroot cmd command csh dash deno doas docker env eval exec \
     expect fakeroot find firejail fish flock gawk gdb ionice irb java jshell julia ksh lua luajit \
     mawk nice node nodejs nohup npx nsenter osascript parallel perl php pipx pkexec pnpx podman \
     powershell pwsh pypy python rsh Rscript ruby rlwrap runuser screen script setsid sh source \
     ssh stdbuf strace su sudo systemd-run tclsh tcsh time timeout tmux tsx ts-node unbuffer \
     unshare uvx watch xargs yash zsh ."
);

/// Why an allow rule with this target is dangerous.
pub(super) fn overbroad_reason(target: &RuleTarget) -> Option<String> {
    let pattern = match target {
        RuleTarget::Everything => {
            return Some("allows every tool, whatever it is asked".to_owned());
        }
        RuleTarget::External { tools: ExternalToolScope::EveryServer, arguments } => {
            return arguments
                .iter()
                .all(ArgumentPattern::is_any)
                .then(|| "allows every tool of every MCP server".to_owned());
        }
        RuleTarget::External { .. } => return None,
        RuleTarget::Tool { tool, pattern: None } => {
            return bare_tool_reason(tool).map(str::to_owned);
        }
        RuleTarget::Tool { tool, pattern: Some(pattern) } => (*tool, pattern),
    };
    match pattern {
        (_, RulePattern::Command(command)) => command_reason(command),
        (tool, RulePattern::Path(path)) => path_reason(tool, path).map(str::to_owned),
        ("WebFetch", RulePattern::Domain(DomainPattern::Any)) => {
            bare_tool_reason("WebFetch").map(str::to_owned)
        }
        (_, RulePattern::Domain(_)) => None,
    }
}

fn bare_tool_reason(tool: &str) -> Option<&'static str> {
    match tool {
        "Bash" => Some("allows every command"),
        "Write" | "Edit" => Some("allows changes to every file"),
        "Delete" => Some("allows every file to be removed"),
        "WebFetch" => Some("allows data to be sent to every host"),
        _ => None,
    }
}

fn command_reason(command: &CommandPattern) -> Option<String> {
    let (program, is_open) = match command {
        CommandPattern::Exact(words) => {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            return reads_program_from_input(&words).then(|| {
                format!("`{}` runs whatever it gets as input, so it allows every command", words[0])
            });
        }
        CommandPattern::Prefix(words) => {
            let (program, rest) = words.split_first()?;
            (program.clone(), rest.iter().all(|word| word.starts_with('-')))
        }
        CommandPattern::Glob { words, more } => {
            let (first, rest) = words.split_first()?;
            match (first.literal(), first.pieces.first()?) {
                (Some(program), _) => (program, has_open_arguments(rest, *more)),
                (None, PatternWordPart::Text(start)) => return program_prefix_reason(start),
                (None, PatternWordPart::Star) => {
                    return Some("starts with a wildcard, so it allows every program".to_owned());
                }
            }
        }
    };
    let name = program.rsplit('/').next().unwrap_or(&program);
    (is_open && runs_anything(name)).then(|| every_command_reason(name))
}

/// Whether a program runs whatever its arguments say, in any version.
pub(crate) fn runs_anything(name: &str) -> bool {
    is_among(RUN_ANYTHING_PROGRAMS, name)
}

/// Whether a list has a program, in any version.
fn is_among(programs: &[&str], name: &str) -> bool {
    let unversioned = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    programs.contains(&name) || programs.contains(&unversioned)
}

/// Programs that run what is in their input, even if they have arguments.
const STATEMENT_PROGRAMS: &[&str] = words!(
    "duckdb ed ex gdb lldb mariadb mongo mongosh mysql nvim parallel psql redis-cli sqlite sqlite3 \
     ssh vi vim xargs"
);

/// Programs that run their input if they have no script.
const INTERPRETERS: &[&str] = words!(
    "ash bash bun csh dash deno expect fish irb jshell julia ksh lua luajit node nodejs osascript \
     perl php powershell pwsh pypy python Rscript ruby sh tclsh tcsh ts-node tsx yash zsh"
);

/// Whether a command runs what it gets as input: an interpreter without a script, such as `python3 -`.
pub(crate) fn reads_program_from_input(words: &[&str]) -> bool {
    let [program, arguments @ ..] = words else { return false };
    let name = program.rsplit('/').next().unwrap_or(program);
    if STATEMENT_PROGRAMS.contains(&name) {
        return true;
    }
    let is_input =
        |word: &&&str| **word == "-" || word.starts_with("/dev/") || word.starts_with("/proc/");
    // The word after an option may be its value; a script is a file, and a module follows `-m`.
    let is_script = |(at, word): (usize, &&str)| {
        let follows = |option: &str| at > 0 && arguments.get(at - 1) == Some(&option);
        !word.starts_with('-') && (at == 0 || word.contains(['.', '/']) || follows("-m"))
    };
    is_among(INTERPRETERS, name)
        && (arguments.iter().any(|word| is_input(&word))
            || !arguments.iter().enumerate().any(is_script))
}

/// Whether only options precede the first wildcard: `python -c *x`, `sh *`.
fn has_open_arguments(arguments: &[PatternWord], more: bool) -> bool {
    let decided = arguments.iter().find_map(|word| match (word.literal(), word.pieces.first()) {
        (Some(text), _) if text.starts_with('-') => None,
        (Some(_), _) | (None, None) => Some(false),
        (None, Some(PatternWordPart::Star)) => Some(true),
        (None, Some(PatternWordPart::Text(start))) => Some(start.starts_with('-')),
    });
    decided.unwrap_or(more)
}

/// `py*` matches every program with that prefix.
fn program_prefix_reason(start: &str) -> Option<String> {
    let unversioned = start.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    let fits = |runner: &&&str| runner.starts_with(unversioned) && !unversioned.is_empty();
    RUN_ANYTHING_PROGRAMS.iter().find(fits).map(|runner| every_command_reason(runner))
}

fn every_command_reason(name: &str) -> String {
    format!("`{name}` runs whatever its arguments say, so it allows every command")
}

fn path_reason(tool: &str, path: &RulePathPattern) -> Option<&'static str> {
    let everything = path.parts.iter().all(|part| part == "*" || part == "**");
    match (tool, path.base) {
        ("Read", PatternBase::Machine) if everything => {
            Some("allows every file of the machine to be read")
        }
        ("Write" | "Edit", PatternBase::Machine | PatternBase::Home | PatternBase::AnyFolder)
            if everything =>
        {
            bare_tool_reason("Write")
        }
        ("Delete", PatternBase::Machine | PatternBase::Home | PatternBase::AnyFolder)
            if everything =>
        {
            bare_tool_reason("Delete")
        }
        _ => None,
    }
}
