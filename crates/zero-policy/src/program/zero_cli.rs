//! zero itself. Called from within a session it could change the permissions of the session, or
//! call a tool outside of it, so only read-only commands are allowed.

use crate::program::arguments::{args_from, known_text, strip_arg_prefix};
use crate::program::command_analysis::{CommandAnalysis, FileAccess};
use crate::shell::ShellArg;

const CHANGES_PERMISSIONS: &str = "changes what zero allows";
const CALLS_TOOL: &str = "calls a tool of zero's outside of this session";

pub(super) fn analyze(name: &str, args: &[ShellArg]) -> Option<CommandAnalysis> {
    // `zero-0.1.2` and `zero-x86_64` are zero as well.
    let is_version = |rest: &str| {
        rest.starts_with("-x86_64")
            || rest.starts_with("-aarch64")
            || rest
                .strip_prefix("-v")
                .or_else(|| rest.strip_prefix('-'))
                .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    let rest = name.strip_prefix("zero")?;
    (rest.is_empty() || is_version(rest)).then(|| analyze_zero(args))
}

fn analyze_zero(args: &[ShellArg]) -> CommandAnalysis {
    let Some(first) = args.first() else { return CommandAnalysis::read_only() };
    let rest = args_from(args, 1);
    let with_options = |analysis: CommandAnalysis| add_option_files(analysis, rest);
    let asks_help = matches!(args.last().and_then(ShellArg::as_known), Some("--help" | "-h"));
    let plain = |arg: &ShellArg| arg.as_known().is_some_and(|text| text != "--");
    if asks_help && args.iter().all(plain) {
        return CommandAnalysis::read_only();
    }
    match (known_text(Some(first)), known_text(rest.first())) {
        ("--version" | "-V" | "--help" | "-h" | "help" | "man" | "completions", _) => {
            CommandAnalysis::read_only()
        }
        ("stats" | "doctor", _) => with_options(CommandAnalysis::read_only()),
        ("audit", "tail" | "show" | "verify") => with_options(CommandAnalysis::read_only()),
        ("config", "get" | "list" | "path" | "schema") => {
            with_options(CommandAnalysis::read_only())
        }
        ("tools", "list" | "show") => with_options(CommandAnalysis::read_only()),
        ("memory", "list" | "show" | "search") => with_options(CommandAnalysis::read_only()),
        ("policy", "check" | "explain" | "simulate") => with_options(CommandAnalysis::read_only()),
        ("policy", "test") => {
            let files =
                args_from(rest, 1).iter().filter(|arg| !arg.known_prefix().starts_with('-'));
            with_options(files.fold(CommandAnalysis::read_only(), |command_analysis, file| {
                command_analysis.with_touch(FileAccess::Read, file)
            }))
        }
        ("trust", _) if rest.len() == 1 && known_text(rest.first()) == "--list" => {
            CommandAnalysis::read_only()
        }
        ("tools", _) => CommandAnalysis::opaque().mark_critical(CALLS_TOOL),
        // `conformance` and commands of later versions are treated like any program.
        ("audit" | "policy", _) if rest.first().is_none_or(|arg| arg.as_known().is_some()) => {
            CommandAnalysis::opaque()
        }
        (known, _) if first.as_known().is_some() && !may_be_acting_command(known) => {
            CommandAnalysis::opaque()
        }
        _ => CommandAnalysis::opaque().mark_critical(CHANGES_PERMISSIONS),
    }
}

/// Whether a word is a command that is not read-only, or an abbreviation of one.
fn may_be_acting_command(word: &str) -> bool {
    const ACTING_COMMANDS: &[&str] = &[
        "trust", "config", "tools", "undo", "memory", "mcp", "run", "sessions", "gateway", "acp",
        "init", "import",
    ];
    ACTING_COMMANDS.iter().any(|command| command.starts_with(word))
}

/// Adds the files and folders that options name.
fn add_option_files(analysis: CommandAnalysis, args: &[ShellArg]) -> CommandAnalysis {
    const FILE_OPTIONS: &[&str] = &["--settings", "--workspace", "--batch"];
    let mut command_analysis = analysis;
    for (at, arg) in args.iter().enumerate() {
        let attached =
            FILE_OPTIONS.iter().find_map(|name| strip_arg_prefix(arg, &format!("{name}=")));
        let apart = arg
            .as_known()
            .filter(|name| FILE_OPTIONS.contains(name))
            .and_then(|_| args.get(at + 1));
        if let Some(file) = attached.as_ref().or(apart) {
            command_analysis = command_analysis.with_touch(FileAccess::Read, file);
        }
    }
    command_analysis
}

#[cfg(test)]
mod tests {
    use super::super::analysis_text::check;

    #[test]
    fn zero_read_commands_differ_from_changes() {
        check("zero", "read-only");
        check("zero policy check Bash ls", "read-only");
        check("zero policy test f", "read-only read(f)");
        check("zero config get mode", "read-only");
        check("zero trust --list", "read-only");
        check("zero trust", "program critical");
        check("zero config set mode auto", "program critical");
        check("zero config $X", "program critical");
        check("zero $X", "program critical");
        check("zero tools call Bash", "program critical");
        check("zero undo", "program critical");
        check("zero memory list", "read-only");
        check("zero memory add x", "program critical");
        check("zero mcp approve x", "program critical");
        check("zero init --yes", "program critical");
        check("zero import claude --yes", "program critical");
        check("zero run --yes x", "program critical");
        check("zero sessions delete x", "program critical");
        check("./zero trust", "program critical");
        check("zero-0.1.0 undo", "program critical");
        check("zero strange", "program");
        check("zerofree x", "program");
    }
}
