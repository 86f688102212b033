//! Options that change what a tool works on, independent of the words before them.
//!
//! `npm run test` in an allow rule means the tests of this project. With `--script-shell=./x` the
//! same words run `./x`, with `--prefix /tmp/evil` another project. So such an option is a caution:
//! a rule covers it only if it names the whole line. Folders and files of the workspace are exempt;
//! if a folder is named, it becomes the working folder of the tool.

mod override_table;

use self::override_table::ROWS;
use crate::program::arguments::known_text;
use crate::program::options::{OptionChange, OptionTable, ValueUse};
use crate::shell::ShellArg;
use crate::word_list::words;

/// The effects of such options on a command line.
#[derive(Debug, Default)]
pub(super) struct OptionOverride {
    /// Why a rule for its first words does not cover it.
    pub(super) caution: Option<String>,
    /// The folder it works in.
    pub(super) folder: Option<ShellArg>,
}

/// A tool and its options of this kind.
struct OverrideRow {
    names: &'static [&'static str],
    /// Options that name code or settings that run code, a working folder, or files, and all others
    /// with a value, so that values can be distinguished from operands.
    table: OptionTable,
    /// Options that name code if their value contains one of these words.
    decisive_names: (&'static [&'static str], &'static [&'static str]),
    /// The kind of the operands.
    operands: OperandKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum OperandKind {
    Words,
    /// Files or folders that contain code.
    Paths,
    /// Assignments among them set variables.
    Variables,
}

/// Checks the options of a command line; the result is empty for an unlisted tool.
pub(super) fn find_overrides(name: &str, args: &[ShellArg]) -> OptionOverride {
    let (name, args) = resolve_tool(name, args);
    match ROWS.iter().find(|row| row.names.contains(&name)) {
        Some(row) => row.find_overrides(name, args),
        None => OptionOverride::default(),
    }
}

/// The actual tool: `python -m pytest` is `pytest`, and `npx tsc` is `tsc`.
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
        // A remainder of a split word such as `-j$(nproc)` was not written by anyone.
        let is_rest = |arg: &&ShellArg| matches!(arg, ShellArg::Unknown { written, .. } if written.is_empty());
        let args: Vec<ShellArg> = args.iter().filter(|arg| !is_rest(arg)).cloned().collect();
        let args = args.as_slice();
        let options = self.table.parse(args);
        let mut steered = OptionOverride::default();
        for option in &options.parsed {
            let value = option.value.as_ref();
            for entry in option.entries() {
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

    /// Whether an option with this value names code.
    fn names_code(&self, tool: &str, option: &str, value: Option<&ShellArg>) -> bool {
        let (options, words) = self.decisive_names;
        let Some(value) = value.filter(|_| options.contains(&option)) else { return false };
        let text = value.known_prefix();
        match tool {
            // `-p no:cacheprovider` disables a plugin.
            "pytest" | "py.test" => !text.starts_with("no:"),
            // A compiler given by a bare name is a system program.
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

/// `cargo +name` selects a toolchain; one that is not published is local code.
fn check_toolchain(first: Option<&ShellArg>, steered: &mut OptionOverride) {
    let Some(name) = first.and_then(|arg| arg.known_prefix().strip_prefix('+')) else { return };
    let published = ["stable", "beta", "nightly"].iter().any(|channel| name.starts_with(channel))
        || name.starts_with(|c: char| c.is_ascii_digit());
    if !published || first.is_some_and(|arg| arg.as_known().is_none()) {
        steered.caution.get_or_insert_with(|| "it names a toolchain of its own".to_owned());
    }
}

/// `-Dname=value` of Maven, if the property loads code.
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

/// Whether a path is certainly beneath its base folder.
fn stays_in_folder(path: &ShellArg) -> bool {
    let Some(path) = path.as_known() else { return false };
    if path == "/dev/null" {
        return true;
    }
    // The content of a stream is unknown.
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
