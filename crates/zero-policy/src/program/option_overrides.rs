//! Options that make a tool work on something else than the words before them say.
//!
//! `npm run test` in an allow rule means the test of this project. With `--script-shell=./x` the
//! same words run `./x`, with `--prefix /tmp/evil` another project. So such an option is a caution:
//! a rule covers it only where it names the whole line. A folder or file of the workspace is not
//! meant by that; where a folder is named, the tool counts as working in it.

mod override_table;

use self::override_table::ROWS;
use crate::program::arguments::known_text;
use crate::program::options::{OptionChange, OptionTable, ValueUse};
use crate::shell::ShellArg;
use crate::word_list::words;

/// What options say about a command line.
#[derive(Debug, Default)]
pub(super) struct OptionOverride {
    /// Why no rule may cover it by its first words.
    pub(super) caution: Option<String>,
    /// The folder it works in.
    pub(super) folder: Option<ShellArg>,
}

/// A tool and its options of this kind.
struct OverrideRow {
    names: &'static [&'static str],
    /// Options that name code to run or settings that do, a folder to work in, files or folders,
    /// and all others that take a value, so that values are told from operands.
    table: OptionTable,
    /// Options that name code when their value has one of these words in it.
    telling: (&'static [&'static str], &'static [&'static str]),
    /// What the operands are.
    operands: OperandKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum OperandKind {
    Words,
    /// Files or folders that hold code.
    Paths,
    /// Assignments among them set variables.
    Variables,
}

/// Judges a command line by its options; one of a tool that is not listed says nothing.
pub(super) fn find_overrides(name: &str, args: &[ShellArg]) -> OptionOverride {
    let (name, args) = resolve_tool(name, args);
    match ROWS.iter().find(|row| row.names.contains(&name)) {
        Some(row) => row.find_overrides(name, args),
        None => OptionOverride::default(),
    }
}

/// The tool that is meant: `python -m pytest` and `npx tsc` are those.
fn resolve_tool<'a>(name: &'a str, args: &'a [ShellArg]) -> (&'a str, &'a [ShellArg]) {
    match args {
        [flag, module, rest @ ..]
            if name.starts_with("python") && known_text(Some(flag)) == "-m" =>
        {
            (known_text(Some(module)), rest)
        }
        [package, rest @ ..] if matches!(name, "npx" | "bunx" | "pnpx") => {
            (known_text(Some(package)), rest)
        }
        _ => (name, args),
    }
}

impl OverrideRow {
    fn find_overrides(&self, name: &str, args: &[ShellArg]) -> OptionOverride {
        // What is left when a word such as `-j$(nproc)` falls apart is nothing a person wrote.
        let is_rest = |arg: &&ShellArg| matches!(arg, ShellArg::Unknown { written, .. } if written.is_empty());
        let args: Vec<ShellArg> = args.iter().filter(|arg| !is_rest(arg)).cloned().collect();
        let args = args.as_slice();
        let options = self.table.parse(args);
        let mut steered = OptionOverride::default();
        for given in &options.given {
            let value = given.value.as_ref();
            for entry in given.entries() {
                if entry.change == OptionChange::Code {
                    steered.add_caution(entry.name, "names what it runs");
                } else if entry.value_use == ValueUse::Folder {
                    steered.folder = value.cloned().or(steered.folder);
                } else if entry.value_use == ValueUse::Path
                    && value.is_some_and(|value| !stays_in_folder(value))
                {
                    steered.add_caution(entry.name, "leads out of the workspace");
                } else if self.names_code(name, entry.name, value) {
                    steered.add_caution(entry.name, "names what it runs");
                }
            }
        }
        for operand in &options.operands {
            self.check_operand(operand, &mut steered);
        }
        if options.uncertain {
            let why = "an argument that is not known may be an option that decides what it runs";
            steered.caution.get_or_insert_with(|| why.to_owned());
        }
        if name == "cargo" {
            check_toolchain(args.first(), &mut steered);
        }
        if name.starts_with("mvn") {
            check_maven_properties(args, &mut steered);
        }
        steered
    }

    /// Whether the value of an option says that it is one of those that name code.
    fn names_code(&self, tool: &str, option: &str, value: Option<&ShellArg>) -> bool {
        let (options, words) = self.telling;
        let Some(value) = value.filter(|_| options.contains(&option)) else { return false };
        let text = value.known_prefix();
        match tool {
            // `-p no:cacheprovider` takes a plugin away.
            "pytest" | "py.test" => !text.starts_with("no:"),
            // A compiler that is called by its name is one of the system.
            "cmake" => {
                let (name, value) = text.split_once('=').unwrap_or((text, ""));
                value.contains(['/', ' ', ';']) && words.iter().any(|word| name.contains(word))
            }
            _ => words.iter().any(|word| text.contains(word)),
        }
    }

    fn check_operand(&self, operand: &ShellArg, steered: &mut OptionOverride) {
        match self.operands {
            OperandKind::Words => {}
            OperandKind::Paths => {
                let path = operand.known_prefix().split("::").next().unwrap_or_default();
                if !stays_in_folder(&ShellArg::known(path)) {
                    steered.add_caution(path, "leads out of the workspace");
                }
            }
            OperandKind::Variables => {
                let Some((name, value)) = operand.known_prefix().split_once('=') else { return };
                let name = name.trim_end_matches([':', '+', '?', '!']).trim();
                let is_own = words!(
                    "SHELL .SHELLFLAGS MAKE MAKEFLAGS MFLAGS GNUMAKEFLAGS MAKEFILES MAKEFILE_LIST \
                     .RECIPEPREFIX MAKESHELL .LIBPATTERNS VPATH"
                )
                .contains(&name);
                // A value is expanded, and `$(shell …)` in it runs; so does `;` in a recipe.
                let runs = value.contains(['$', '`', ';', '|', '&', '\n']);
                let loads = ["LD_", "DYLD_", "BASH_"].iter().any(|start| name.starts_with(start));
                let steers = loads || matches!(name, "PATH" | "ENV");
                if is_own || runs || steers {
                    steered.add_caution(name, "decides what it runs");
                }
            }
        }
    }
}

impl OptionOverride {
    fn add_caution(&mut self, what: &str, why: &str) {
        let dashes = match what.len() {
            1 => "-",
            _ if what.contains(['/', '.'])
                || what.starts_with(|c: char| c.is_ascii_uppercase()) =>
            {
                ""
            }
            _ => "--",
        };
        self.caution.get_or_insert_with(|| format!("`{dashes}{what}` {why}"));
    }
}

/// `cargo +name` chooses a toolchain; those that are not published are somebody's own.
fn check_toolchain(first: Option<&ShellArg>, steered: &mut OptionOverride) {
    let Some(name) = first.and_then(|arg| arg.known_prefix().strip_prefix('+')) else { return };
    let published = ["stable", "beta", "nightly"].iter().any(|channel| name.starts_with(channel))
        || name.starts_with(|c: char| c.is_ascii_digit());
    if !published || first.is_some_and(|arg| arg.as_known().is_none()) {
        steered.caution.get_or_insert_with(|| "it names a toolchain of its own".to_owned());
    }
}

/// `-Dname=value` of Maven, where the name is one that loads code.
fn check_maven_properties(args: &[ShellArg], steered: &mut OptionOverride) {
    const LOADING_PROPERTIES: &[&str] =
        &["maven.ext.class.path", "exec.", "jvm", "argLine", "agentpath"];
    let loads = |arg: &ShellArg| {
        let property = arg.known_prefix().strip_prefix("-D");
        property.is_some_and(|property| {
            LOADING_PROPERTIES.iter().any(|name| property.starts_with(name))
        })
    };
    if args.iter().any(loads) {
        steered.caution.get_or_insert_with(|| "a property names code that it loads".to_owned());
    }
}

/// Whether a path certainly lies beneath the folder it counts from, or is nowhere.
fn stays_in_folder(path: &ShellArg) -> bool {
    let Some(path) = path.as_known() else { return false };
    if path == "/dev/null" {
        return true;
    }
    // A stream is whatever comes through it.
    path != "-" && !path.starts_with(['/', '~']) && path.split('/').all(|part| part != "..")
}

#[cfg(test)]
mod tests {
    use super::super::analysis_text::check;

    #[test]
    fn options_naming_code_cause_caution() {
        check("npm run test --script-shell=./x", "program caution");
        check("npm run test --script-sh ./x", "program caution");
        check("npm run test -- --script-shell=./x", "program");
        check("cargo test --config x", "program caution");
        check("cargo test -Zx", "program caution");
        check("cargo +nightly test", "program");
        check("cargo +mine test", "program caution");
        check("go test -exec ./x", "program caution");
        check("go test -ldflags=-extld=./x", "program caution");
        check("go build -ldflags=-s", "program");
        check("make SHELL=./x", "program caution");
        check("make A=b", "program");
        check("make A=`x`", "program caution");
        check("pytest -p x", "program caution");
        check("pytest -p no:x", "program");
        check("python3 -m pytest -p x", "program caution");
        check("mvn test -s x", "program caution");
        check("cmake -DCMAKE_C_COMPILER=clang .", "program");
    }

    #[test]
    fn option_folders_and_files_are_checked() {
        check("make -C sub", "program in(sub)");
        check("make -C/tmp/x", "program in(/tmp/x)");
        check("npm test --prefix sub", "program in(sub)");
        check("make -f sub/x.mk", "program");
        check("make -f ../x.mk", "program caution");
        check("cargo test --manifest-path a/Cargo.toml", "program");
        check("cargo test --manifest-path=/a/Cargo.toml", "program caution");
        check("pytest ../x.py::a", "program caution");
        check("make -C $X", "program in($X)");
    }
}
