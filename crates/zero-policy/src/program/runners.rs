//! Tools that run a command in an environment they make: `poetry run`, `bundle exec`, `npx`.
//!
//! Making the environment is an act of its own (it may install or build), so a rule must cover the
//! tool; and what it runs is judged as if it stood alone.

use super::{CommandAnalysis, CommandClass, NestedExecution, args_from, known_text};
use crate::program::options::{OptionTable, ParsedArguments, options};
use crate::shell::ShellArg;

/// `name [options] verb [options] command`.
struct RunnerRow {
    name: &'static str,
    verbs: &'static [&'static str],
    /// Options before the verb.
    globals: OptionTable,
    /// Options after the verb.
    table: OptionTable,
    /// Words between the options and the command.
    skips: usize,
    /// Options whose value is a text for a shell.
    scripts: &'static [&'static str],
    inner: InnerCommandKind,
}

/// What is known of the word that is run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum InnerCommandKind {
    /// It is a command like any other.
    Command,
    /// It is a command, with words of unknown number before a `--` where there is one.
    Dashes,
    /// It is a package that may have to be fetched first. A rule for the tool covers it, unless its
    /// name is one that means something.
    Package,
}

const NONE: OptionTable = options!("").strict();

const ROW: RunnerRow = RunnerRow {
    name: "",
    verbs: &["run"],
    globals: NONE,
    table: NONE,
    skips: 0,
    scripts: &[],
    inner: InnerCommandKind::Command,
};

const NPX: OptionTable = options!(
    "-yqs -cpw: yes no package: call: workspace: workspaces quiet silent prefer-offline offline bun \
     prefix: no-install ignore-existing shell-mode verbose include-workspace-root"
).strict();

const ROWS: &[RunnerRow] = &[
    RunnerRow {
        name: "poetry",
        globals: options!(
            "-nqv -CP: directory: project: no-interaction quiet verbose no-ansi ansi no-plugins \
             no-cache"
        )
        .strict(),
        ..ROW
    },
    RunnerRow {
        name: "pipenv",
        globals: options!("-qv python: verbose quiet clear").strict(),
        ..ROW
    },
    RunnerRow { name: "uv", globals: UV, table: UV, ..ROW },
    RunnerRow { name: "rye", table: options!("-l list pyproject:").strict(), ..ROW },
    RunnerRow {
        name: "hatch",
        globals: options!(
            "-vq -ep: env: project: verbose quiet color no-color interactive no-interactive \
             data-dir: cache-dir: config:"
        )
        .strict(),
        ..ROW
    },
    RunnerRow {
        name: "pdm",
        table: options!("-gs p: global project: site-packages").strict(),
        ..ROW
    },
    RunnerRow {
        name: "pixi",
        table: options!("-qv e: environment: manifest-path: frozen locked").strict(),
        ..ROW
    },
    RunnerRow {
        name: "conda",
        table: options!("-v -np: name: prefix: cwd: no-capture-output live-stream verbose")
            .strict(),
        ..ROW
    },
    RunnerRow {
        name: "bundle",
        verbs: &["exec", "e"],
        table: options!("keep-file-descriptors gemfile:").strict(),
        ..ROW
    },
    RunnerRow { name: "rbenv", verbs: &["exec"], ..ROW },
    RunnerRow { name: "pyenv", verbs: &["exec"], ..ROW },
    RunnerRow { name: "nodenv", verbs: &["exec"], ..ROW },
    RunnerRow { name: "asdf", verbs: &["exec"], ..ROW },
    RunnerRow { name: "direnv", verbs: &["exec"], skips: 1, ..ROW },
    RunnerRow {
        name: "rustup",
        verbs: &["run"],
        table: options!("install").strict(),
        skips: 1,
        ..ROW
    },
    RunnerRow { name: "nvm", verbs: &["exec", "run"], skips: 1, ..ROW },
    RunnerRow {
        name: "aws-vault",
        verbs: &["exec"],
        table: options!("-njs d: duration: no-session region: server json debug").strict(),
        skips: 1,
        ..ROW
    },
    RunnerRow {
        name: "chamber",
        verbs: &["exec"],
        table: options!("-rb: pristine strict strict-value: retries: backend:").strict(),
        inner: InnerCommandKind::Dashes,
        ..ROW
    },
    RunnerRow {
        name: "infisical",
        table: options!(
            "-h -ept: env: path: tags: token: projectId: command: watch expand secret-overriding"
        )
        .strict(),
        scripts: &["command"],
        ..ROW
    },
    RunnerRow {
        name: "volta",
        table: options!("node: npm: pnpm: yarn: bundled-npm no-pnpm no-yarn env: verbose quiet")
            .strict(),
        ..ROW
    },
    RunnerRow {
        name: "fnm",
        verbs: &["exec"],
        table: options!("using: log-level: fnm-dir: arch:").strict(),
        ..ROW
    },
    RunnerRow {
        name: "op",
        verbs: &["run"],
        table: options!("env-file: no-masking").strict(),
        ..ROW
    },
    RunnerRow {
        name: "doppler",
        verbs: &["run"],
        table: options!("-cpt: command: config: project: token:").strict(),
        scripts: &["command"],
        ..ROW
    },
    RunnerRow {
        name: "dotenv",
        verbs: &[],
        table: options!("-o -fe: c:: p: file:").strict(),
        ..ROW
    },
    RunnerRow {
        name: "dotenvx",
        verbs: &["run"],
        table: options!("-fe: env-file: env: overload").strict(),
        ..ROW
    },
    RunnerRow {
        name: "nix-shell",
        verbs: &[],
        table: options!(
            "-vQik -pAEIj: run: command: packages: attr: expr: pure impure keep: arg: argstr: \
             option: max-jobs: cores: show-trace"
        )
        .strict(),
        scripts: &["run", "command"],
        ..ROW
    },
    RunnerRow {
        name: "npx",
        verbs: &[],
        table: NPX,
        scripts: &["c", "call"],
        inner: InnerCommandKind::Package,
        ..ROW
    },
    RunnerRow { name: "bunx", verbs: &[], table: NPX, inner: InnerCommandKind::Package, ..ROW },
    RunnerRow { name: "pnpx", verbs: &[], table: NPX, inner: InnerCommandKind::Package, ..ROW },
    RunnerRow { name: "uvx", verbs: &[], table: UV, inner: InnerCommandKind::Package, ..ROW },
    RunnerRow {
        name: "pipx",
        table: options!("spec: python: pip-args: no-cache verbose").strict(),
        inner: InnerCommandKind::Package,
        ..ROW
    },
    RunnerRow {
        name: "npm",
        verbs: &["exec", "x"],
        globals: NPX,
        table: NPX,
        scripts: &["c", "call"],
        inner: InnerCommandKind::Package,
        ..ROW
    },
    RunnerRow {
        name: "pnpm",
        verbs: &["exec", "dlx"],
        globals: options!("-rw C: dir: filter: recursive workspace-root silent").strict(),
        table: options!("-rc package: recursive parallel shell-mode silent").strict(),
        inner: InnerCommandKind::Package,
        ..ROW
    },
    RunnerRow {
        name: "yarn",
        verbs: &["exec", "dlx"],
        globals: options!("-s cwd: silent").strict(),
        table: options!("-q p: package: quiet").strict(),
        inner: InnerCommandKind::Package,
        ..ROW
    },
    RunnerRow {
        name: "bun",
        verbs: &["x"],
        globals: options!("cwd: bun silent").strict(),
        table: NPX,
        inner: InnerCommandKind::Package,
        ..ROW
    },
];

const UV: OptionTable = options!(
    "-qvnCU -pmwP: quiet verbose python: module: with: with-requirements: with-editable: extra: \
     all-extras no-dev dev only-dev group: no-group: only-group: all-groups isolated active no-sync \
     locked frozen script env-file: no-env-file package: all-packages no-project directory: project: \
     offline no-cache cache-dir: refresh upgrade from: index: default-index: index-url: no-progress \
     color: no-config config-file: native-tls managed-python no-managed-python gui-script exact \
     reinstall"
).strict();

pub(super) fn analyze(name: &str, args: &[ShellArg]) -> Option<CommandAnalysis> {
    if let Some(row) = ROWS.iter().find(|row| row.name == name) {
        return row.analyze(args);
    }
    match (name, known_text(args.first())) {
        ("nix", "develop" | "shell" | "run") => Some(analyze_nix(args_from(args, 1))),
        ("mise" | "rtx", "exec" | "x") => Some(analyze_mise(args_from(args, 1))),
        ("expect", _) => Some(CommandAnalysis::opaque()),
        _ => None,
    }
}

impl RunnerRow {
    /// `None` when another verb is meant.
    fn analyze(&self, args: &[ShellArg]) -> Option<CommandAnalysis> {
        let mut guess = false;
        let mut rest = args.to_vec();
        if !self.verbs.is_empty() {
            let globals = self.globals.until_operand().parse(args);
            let verb = globals.operands.first()?;
            match verb.as_known() {
                Some(known) if self.verbs.contains(&known) => {}
                Some(known)
                    if self.name == "npm" && super::npm::expand_command(known) == "exec" => {}
                Some(_) => return None,
                None => guess = true,
            }
            guess |= globals.uncertain;
            rest = args_from(&globals.operands, 1).to_vec();
        }
        let options = self.table.until_operand().parse(&rest);
        guess |= options.uncertain;
        let mut study = CommandAnalysis::opaque();
        for text in options.values(self.scripts) {
            study = study.with_run(NestedExecution::from_script(text));
        }
        study = match (self.name, options.values(&["m", "module"]).next()) {
            // `uv run -m module` is python's.
            ("uv", Some(module)) => {
                let mut argv =
                    vec![ShellArg::known("python"), ShellArg::known("-m"), module.clone()];
                argv.extend(options.operands.iter().cloned());
                study.with_command(&argv)
            }
            _ => self.add_inner_command(study, &options),
        };
        Some(study.mark_guess_if(guess))
    }

    fn add_inner_command(
        &self,
        study: CommandAnalysis,
        options: &ParsedArguments<'_>,
    ) -> CommandAnalysis {
        let mut argv = args_from(&options.operands, self.skips);
        if known_text(argv.first()) == "--" {
            argv = args_from(argv, 1);
        }
        let Some((program, args)) = argv.split_first() else {
            return study;
        };
        let script_of_words = self.name == "pnpm" && (options.has(&["c", "shell-mode"]));
        if script_of_words {
            return study.with_run(NestedExecution::from_script_words(argv));
        }
        match self.inner {
            InnerCommandKind::Command => study.with_command(argv),
            InnerCommandKind::Dashes => {
                match argv.iter().position(|arg| arg.as_known() == Some("--")) {
                    Some(at) => study.with_command(args_from(argv, at + 1)),
                    None => study.with_command(args).mark_guess_if(true),
                }
            }
            InnerCommandKind::Package => match program.as_known() {
                Some(name) if !is_known_program(name, args) => study,
                _ => study.with_command(argv),
            },
        }
    }
}

/// Whether a package is called like a program whose effects are known, so that a rule for the tool
/// that fetches it does not cover it.
fn is_known_program(name: &str, args: &[ShellArg]) -> bool {
    let name = super::plain_name(name);
    let judged = super::critical_actions::assess(name, args);
    judged.critical.is_some()
        || judged.caution.is_some()
        || [
            super::shells::analyze,
            super::builtins::analyze,
            super::wrappers::analyze,
            super::privilege::analyze,
            super::remote::analyze,
            super::containers::analyze,
            super::find::analyze,
            super::critical_actions::analyze,
        ]
        .iter()
        .any(|table| table(name, args).is_some_and(|study| study.nature != CommandClass::ReadOnly))
        || name == "git"
        // No look inside: `npx npx npx …` is as deep as its words are many.
        || ROWS.iter().any(|row| row.name == name)
}

/// `nix develop … -c command arguments`.
fn analyze_nix(args: &[ShellArg]) -> CommandAnalysis {
    let flag = args.iter().position(|arg| {
        matches!(arg.as_known(), Some("-c" | "--command")) || arg.as_known() == Some("--")
    });
    let open = args.iter().any(|arg| arg.as_known().is_none() && arg.may_be_option());
    let argv = flag.map_or(&[] as &[ShellArg], |at| args_from(args, at + 1));
    CommandAnalysis::opaque().with_command(argv).mark_guess_if(open && argv.is_empty())
}

/// `mise exec tool@version -- command`, or `-c text`.
fn analyze_mise(args: &[ShellArg]) -> CommandAnalysis {
    let at = args.iter().position(|arg| arg.as_known() == Some("--"));
    let options = args.get(..at.unwrap_or(args.len())).unwrap_or_default();
    let mut study = CommandAnalysis::opaque();
    for (index, arg) in options.iter().enumerate() {
        let attached = super::strip_arg_prefix(arg, "--command=");
        let text = match arg.as_known() {
            Some("-c" | "--command") => options.get(index + 1).cloned(),
            _ => attached,
        };
        if let Some(text) = text {
            study = study.with_run(NestedExecution::from_script(&text));
        }
    }
    study.with_command(at.map_or(&[], |at| args_from(args, at + 1)))
}

#[cfg(test)]
mod tests {
    use super::super::analysis_text::check;

    #[test]
    fn runner_and_inner_command_are_both_evaluated() {
        check("poetry run rm -rf x", "program runs[rm -rf x]");
        check("poetry -C dir run rm x", "program runs[rm x]");
        check("poetry install", "program");
        check("uv run --with a pytest", "program runs[pytest]");
        check("uv run -m pytest", "program runs[python -m pytest]");
        check("uv run --strange rm x", "program runs[rm x] unknown");
        check("bundle exec rake x", "program runs[rake x]");
        check("pipenv run rm x", "program runs[rm x]");
        check("conda run -n env rm x", "program runs[rm x]");
        check("direnv exec . rm x", "program runs[rm x]");
        check("rustup run nightly rm x", "program runs[rm x]");
        check("nix-shell -p a --run rm_x", "program script[rm x]");
        check("nix develop . -c rm x", "program runs[rm x]");
        check("mise exec node@20 -- rm x", "program runs[rm x]");
        check("mise x -c rm_x", "program script[rm x]");
    }

    #[test]
    fn runner_covers_package_unless_known_program() {
        check("npx prettier .", "program");
        check("npx -y prettier .", "program");
        check("npx -c rm_x", "program script[rm x]");
        check("npm exec --call rm_x", "program script[rm x]");
        check("npx rm -rf x", "program runs[rm -rf x]");
        check("npx bash -c rm_x", "program runs[bash -c rm x]");
        check("npx npx rm", "program runs[npx rm]");
        check("npx vercel --prod", "program runs[vercel --prod]");
        check("npx $X", "program runs[$X] unknown");
        check("pnpm dlx eslint", "program");
        check("pnpm -C d exec rm x", "program in(d) runs[d: rm x]");
        check("yarn dlx eslint", "program");
        check("npm test", "program");
    }
}
