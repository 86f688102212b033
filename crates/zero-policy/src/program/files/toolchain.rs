//! Programs that execute their input: interpreters, compilers, editors.
//!
//! They may do anything, so a rule decides. The files they are given are listed here, so that rules
//! about files apply too; only a version query is read-only.

use crate::program::command_analysis::CommandAnalysis;
use crate::program::options::{OptionTable, options};
use crate::shell::ShellArg;

use super::analysis_builder::{AccessDepth, CommandAnalysisBuilder};
use crate::word_list::words;

/// Analyzes an interpreter, a compiler or an editor.
pub(super) fn analyze(name: &str, args: &[ShellArg]) -> Option<CommandAnalysis> {
    let kind = classify_program(name)?;
    // `tclsh` runs its input in any case. The engine checks whether a file of the project selects
    // which `rustc` runs.
    let is_special = kind == ToolchainKind::Editor || name == "tclsh";
    if asks_version(name, args) && !is_special {
        return Some(CommandAnalysisBuilder::default().build_complete());
    }
    Some(match kind {
        ToolchainKind::Interpreter => analyze_interpreter(name, args),
        ToolchainKind::Perl => analyze_perl(args),
        ToolchainKind::Compiler => analyze_compiler(args),
        ToolchainKind::Editor => analyze_editor(name, args),
        ToolchainKind::OpenSsl => analyze_openssl(args),
        ToolchainKind::Strip => analyze_strip(args),
    })
}

/// Whether the command only queries the version. A letter means that to some programs only:
/// `python3 -v` runs its input.
pub(super) fn asks_version(name: &str, args: &[ShellArg]) -> bool {
    let [ShellArg::Known(only)] = args else { return false };
    let stem = trim_version(name);
    match only.as_str() {
        "--version" | "--help" => true,
        "-V" => words!(
            "python pypy pip deno ld as ssh rsync tmux uv poetry ruff black mypy psql mysql perl \
             cargo rustc"
        )
        .contains(&stem),
        "-v" => words!("node nodejs php lua luajit bun perl ruby julia irb").contains(&stem),
        _ => false,
    }
}

/// A name without its version: `python3.12`, `gcc-13`, `clang++-17`.
fn trim_version(name: &str) -> &str {
    name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '-')
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ToolchainKind {
    Interpreter,
    Perl,
    Compiler,
    Editor,
    OpenSsl,
    Strip,
}

fn classify_program(name: &str) -> Option<ToolchainKind> {
    Some(match trim_version(name) {
        "python" | "pypy" | "node" | "nodejs" | "php" | "lua" | "luajit" | "deno" | "bun"
        | "Rscript" | "julia" | "tclsh" | "osascript" | "guile" | "ghci" | "irb" | "ts-node"
        | "tsx" => ToolchainKind::Interpreter,
        "perl" | "ruby" => ToolchainKind::Perl,
        "gcc" | "g++" | "cc" | "c++" | "clang" | "clang++" | "tcc" | "rustc" | "ld" | "as"
        | "gfortran" | "ldd" => ToolchainKind::Compiler,
        "vim" | "vi" | "nvim" | "nano" | "emacs" | "ed" | "ex" | "view" | "pico" | "joe"
        | "micro" | "hx" => ToolchainKind::Editor,
        "openssl" => ToolchainKind::OpenSsl,
        "strip" | "objcopy" => ToolchainKind::Strip,
        _ => return None,
    })
}

/// The first operand is the script, or that after the verb `run`; a text after `-c` or `-e` is not a
/// file.
fn analyze_interpreter(name: &str, args: &[ShellArg]) -> CommandAnalysis {
    const INTERPRETER: OptionTable =
        options!("-cemWXrpI: eval: print: require: import: loader: check: version help")
            .until_operand();
    let outer = INTERPRETER.parse(args);
    let options = match outer.operands.as_slice() {
        [ShellArg::Known(verb), rest @ ..] if verb == "run" && matches!(name, "deno" | "bun") => {
            INTERPRETER.parse(rest)
        }
        _ => INTERPRETER.parse(args),
    };
    let mut notes = CommandAnalysisBuilder::default();
    if !options.has(&["c", "e", "m", "r", "p", "eval", "print"]) {
        notes.record_reads(options.operands.first());
    }
    notes.build_incomplete()
}

/// `perl -pi -e …` and `ruby -i` change the files after the script in place.
fn analyze_perl(args: &[ShellArg]) -> CommandAnalysis {
    const PERL: OptionTable = options!("-eEIMmr: version help").until_operand();
    let options = PERL.parse(args);
    let mut notes = CommandAnalysisBuilder::default();
    let mut operands = options.operands.iter();
    // `-i.bak` and `-pie` are one option with a suffix, so a letter before `e` may hide it.
    let in_place = args.iter().any(|arg| {
        let start = arg.known_prefix();
        start.starts_with('-') && !start.starts_with("--") && start.contains('i')
    });
    if !options.has(&["e", "E"]) {
        notes.record_reads(operands.next());
    }
    for file in operands {
        notes.record_read(file, AccessDepth::Itself);
        if in_place && options.has(&["i"]) {
            notes.record_write(file, AccessDepth::Itself);
        }
    }
    notes.build_incomplete()
}

fn analyze_compiler(args: &[ShellArg]) -> CommandAnalysis {
    const COMPILER: OptionTable = options!("-oILDUl: output: out-dir: print:");
    // Compilers do not join letters: `-fno-common` is one option, without an `-o`.
    let is_single = |arg: &&ShellArg| {
        let option = arg.as_known().and_then(|text| text.strip_prefix('-'));
        option.is_none_or(|option| {
            option.len() < 2 || option.starts_with(['o', 'I', 'L', 'D', 'U', 'l', '-'])
        })
    };
    let args: Vec<ShellArg> = args.iter().filter(is_single).cloned().collect();
    let options = COMPILER.parse(&args);
    let mut notes = CommandAnalysisBuilder::default();
    for operand in &options.operands {
        match operand.known_prefix().strip_prefix('@') {
            Some(file) if operand.as_known().is_some() => {
                notes.record_read(&ShellArg::known(file), AccessDepth::Itself);
                notes.record_caution("a file gives it options");
            }
            _ => notes.record_read(operand, AccessDepth::Itself),
        }
    }
    notes.record_outputs(options.values(&["o", "output"]));
    options
        .values(&["out-dir"])
        .for_each(|folder| notes.record_write(folder, AccessDepth::Beneath));
    notes.build_incomplete()
}

fn analyze_editor(name: &str, args: &[ShellArg]) -> CommandAnalysis {
    let mut notes = CommandAnalysisBuilder::default();
    for file in args.iter().filter(|arg| !arg.known_prefix().starts_with(['-', '+'])) {
        notes.record_read(file, AccessDepth::Itself);
        notes.record_write(file, AccessDepth::Itself);
    }
    // `-c '!command'`, `+!command`: the text after the `!` is for a shell. To ed, whose arguments are
    // files, only a `!` at the beginning means that.
    let scripts = args.iter().filter_map(|arg| arg.as_known()?.split_once('!'));
    let scripts = scripts.filter(|(before, _)| name != "ed" || before.is_empty());
    for (_, script) in scripts.filter(|(_, script)| !script.is_empty()) {
        notes.record_script(&ShellArg::known(script));
    }
    notes.build_incomplete()
}

fn analyze_openssl(args: &[ShellArg]) -> CommandAnalysis {
    let mut notes = CommandAnalysisBuilder::default();
    for pair in args.windows(2) {
        let [option, value] = pair else { continue };
        match option.as_known() {
            Some("-in" | "-inkey" | "-key" | "-cert" | "-CAfile" | "-config") => {
                notes.record_read(value, AccessDepth::Itself);
            }
            Some("-out" | "-keyout" | "-writerand" | "-sess_out" | "-keylogfile") => {
                notes.record_write(value, AccessDepth::Itself);
            }
            Some("-connect" | "-host" | "-proxy") => notes.record_host(value),
            _ => {}
        }
    }
    if let [ShellArg::Known(only)] = args
        && only == "version"
    {
        return notes.build_complete();
    }
    notes.build_incomplete()
}

fn analyze_strip(args: &[ShellArg]) -> CommandAnalysis {
    let mut notes = CommandAnalysisBuilder::default();
    let grammar = options!("-oFIONKRj:");
    let options = grammar.parse(args);
    notes.record_writes(options.values(&["o"]));
    for file in &options.operands {
        notes.record_read(file, AccessDepth::Itself);
        notes.record_write(file, AccessDepth::Itself);
    }
    notes.build_incomplete()
}

#[cfg(test)]
mod tests {
    use crate::program::files::analysis_assert::check;

    #[test]
    fn version_query_is_read_only() {
        check("python3 --version", "looks");
        check("python3.12 -V", "looks");
        check("node -v", "looks");
        check("gcc-13 --version", "looks");
        check("python3 --version x.py", "program: read x.py");
        check("perl -v", "looks");
        for line in ["python3 -v", "ghci -v", "tclsh --version", "Rscript -V", "lua -V"] {
            check(line, "program");
        }
        check("openssl version", "looks");
        check("vim --version", "program");
        check("rustc --version", "looks");
        check("rustc -V", "looks");
        check("rustc --version --print sysroot", "program");
        check("rustc +nightly --version", "program: read +nightly");
    }

    #[test]
    fn interpreter_script_is_opaque_and_read() {
        check("python3 x.py a", "program: read x.py");
        check("python3 -c 'print(1)' a", "program");
        check("python3 -m json.tool f", "program");
        check("node -e 1", "program");
        check("deno run -A x.ts a", "program: read x.ts");
        check("bun x.ts", "program: read x.ts");
        check("perl -ne print f", "program: read f");
        check("perl -pi -e s/a/b/ f", "program: read f, write f");
        check("perl -i.bak -pe s/a/b/ f", "program: read f, write f");
        check("perl x.pl f", "program: read x.pl, read f");
    }

    #[test]
    fn compiler_and_editor_outputs_are_writes() {
        check("gcc -O2 -o out a.c", "program: read a.c, write out");
        check("gcc -fsyntax-only -fno-common -Wformat a.c", "program: read a.c");
        check("gcc -std=c11 -oout a.c -lm", "program: read a.c, write out");
        check("rustc -Copt-level=3 a.rs", "program: read a.rs");
        check("gcc @args", "program: read args, caution");
        check("vim +1 f", "program: read f, write f");
        check("ed -s a!b", "program: read a!b, write a!b");
        check("strip a", "program: read a, write a");
        check("openssl enc -in a -out b", "program: read a, write b");
    }
}
