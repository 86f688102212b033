//! Tools that run a command in an environment they make: `poetry run`, `bundle exec`, `npx`.
//!
//! Making the environment is an act of its own (it may install or build), so a rule must cover the
//! tool; and what it runs is judged as if it stood alone.

use super::getopt::{Ends, Getopt};
use super::{Nature, Run, Study, from, word};
use crate::program::options::Options;
use crate::shell::Arg;

/// `name [options] verb [options] command`.
struct Row {
    name: &'static str,
    verbs: &'static [&'static str],
    /// Options before the verb.
    globals: Getopt,
    /// Options after the verb.
    table: Getopt,
    /// Words between the options and the command.
    skips: usize,
    /// Options whose value is a text for a shell.
    scripts: &'static [&'static str],
    inner: Inner,
}

/// What is known of the word that is run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Inner {
    /// It is a command like any other.
    Command,
    /// It is a command, with words of unknown number before a `--` where there is one.
    Dashes,
    /// It is a package that may have to be fetched first. A rule for the tool covers it, unless its
    /// name is one that means something.
    Package,
}

const NONE: Getopt = Getopt { short: "", long: "" };

const ROW: Row = Row {
    name: "",
    verbs: &["run"],
    globals: NONE,
    table: NONE,
    skips: 0,
    scripts: &[],
    inner: Inner::Command,
};

const NPX: Getopt = Getopt {
    short: "yc:p:w:qs",
    long: "yes no package: call: workspace: workspaces quiet silent prefer-offline offline bun \
           prefix: no-install ignore-existing shell-mode verbose include-workspace-root",
};

const ROWS: &[Row] = &[
    Row {
        name: "poetry",
        globals: Getopt {
            short: "C:P:nqv",
            long: "directory: project: no-interaction quiet verbose no-ansi ansi no-plugins \
                   no-cache",
        },
        ..ROW
    },
    Row {
        name: "pipenv",
        globals: Getopt { short: "qv", long: "python: verbose quiet clear" },
        ..ROW
    },
    Row { name: "uv", globals: UV, table: UV, ..ROW },
    Row { name: "rye", table: Getopt { short: "l", long: "list pyproject:" }, ..ROW },
    Row {
        name: "hatch",
        globals: Getopt {
            short: "e:p:vq",
            long: "env: project: verbose quiet color no-color interactive no-interactive \
                   data-dir: cache-dir: config:",
        },
        ..ROW
    },
    Row {
        name: "pdm",
        table: Getopt { short: "gp:s", long: "global project: site-packages" },
        ..ROW
    },
    Row {
        name: "pixi",
        table: Getopt { short: "e:qv", long: "environment: manifest-path: frozen locked" },
        ..ROW
    },
    Row {
        name: "conda",
        table: Getopt {
            short: "n:p:v",
            long: "name: prefix: cwd: no-capture-output live-stream verbose",
        },
        ..ROW
    },
    Row {
        name: "bundle",
        verbs: &["exec", "e"],
        table: Getopt { short: "", long: "keep-file-descriptors gemfile:" },
        ..ROW
    },
    Row { name: "rbenv", verbs: &["exec"], ..ROW },
    Row { name: "pyenv", verbs: &["exec"], ..ROW },
    Row { name: "nodenv", verbs: &["exec"], ..ROW },
    Row { name: "asdf", verbs: &["exec"], ..ROW },
    Row { name: "direnv", verbs: &["exec"], skips: 1, ..ROW },
    Row {
        name: "rustup",
        verbs: &["run"],
        table: Getopt { short: "", long: "install" },
        skips: 1,
        ..ROW
    },
    Row { name: "nvm", verbs: &["exec", "run"], skips: 1, ..ROW },
    Row {
        name: "aws-vault",
        verbs: &["exec"],
        table: Getopt { short: "d:njs", long: "duration: no-session region: server json debug" },
        skips: 1,
        ..ROW
    },
    Row {
        name: "chamber",
        verbs: &["exec"],
        table: Getopt { short: "r:b:", long: "pristine strict strict-value: retries: backend:" },
        inner: Inner::Dashes,
        ..ROW
    },
    Row {
        name: "infisical",
        table: Getopt {
            short: "e:p:t:h",
            long: "env: path: tags: token: projectId: command: watch expand secret-overriding",
        },
        scripts: &["command"],
        ..ROW
    },
    Row {
        name: "volta",
        table: Getopt {
            short: "",
            long: "node: npm: pnpm: yarn: bundled-npm no-pnpm no-yarn env: verbose quiet",
        },
        ..ROW
    },
    Row {
        name: "fnm",
        verbs: &["exec"],
        table: Getopt { short: "", long: "using: log-level: fnm-dir: arch:" },
        ..ROW
    },
    Row {
        name: "op",
        verbs: &["run"],
        table: Getopt { short: "", long: "env-file: no-masking" },
        ..ROW
    },
    Row {
        name: "doppler",
        verbs: &["run"],
        table: Getopt { short: "c:p:t:", long: "command: config: project: token:" },
        scripts: &["command"],
        ..ROW
    },
    Row { name: "dotenv", verbs: &[], table: Getopt { short: "f:e:c::op:", long: "file:" }, ..ROW },
    Row {
        name: "dotenvx",
        verbs: &["run"],
        table: Getopt { short: "f:e:", long: "env-file: env: overload" },
        ..ROW
    },
    Row {
        name: "nix-shell",
        verbs: &[],
        table: Getopt {
            short: "p:A:E:I:j:vQik",
            long: "run: command: packages: attr: expr: pure impure keep: arg: argstr: option: \
                   max-jobs: cores: show-trace",
        },
        scripts: &["run", "command"],
        ..ROW
    },
    Row {
        name: "npx",
        verbs: &[],
        table: NPX,
        scripts: &["c", "call"],
        inner: Inner::Package,
        ..ROW
    },
    Row { name: "bunx", verbs: &[], table: NPX, inner: Inner::Package, ..ROW },
    Row { name: "pnpx", verbs: &[], table: NPX, inner: Inner::Package, ..ROW },
    Row { name: "uvx", verbs: &[], table: UV, inner: Inner::Package, ..ROW },
    Row {
        name: "pipx",
        table: Getopt { short: "", long: "spec: python: pip-args: no-cache verbose" },
        inner: Inner::Package,
        ..ROW
    },
    Row {
        name: "npm",
        verbs: &["exec", "x"],
        globals: NPX,
        table: NPX,
        scripts: &["c", "call"],
        inner: Inner::Package,
        ..ROW
    },
    Row {
        name: "pnpm",
        verbs: &["exec", "dlx"],
        globals: Getopt { short: "C:rw", long: "dir: filter: recursive workspace-root silent" },
        table: Getopt { short: "rc", long: "package: recursive parallel shell-mode silent" },
        inner: Inner::Package,
        ..ROW
    },
    Row {
        name: "yarn",
        verbs: &["exec", "dlx"],
        globals: Getopt { short: "s", long: "cwd: silent" },
        table: Getopt { short: "p:q", long: "package: quiet" },
        inner: Inner::Package,
        ..ROW
    },
    Row {
        name: "bun",
        verbs: &["x"],
        globals: Getopt { short: "", long: "cwd: bun silent" },
        table: NPX,
        inner: Inner::Package,
        ..ROW
    },
];

const UV: Getopt = Getopt {
    short: "qvp:m:w:nP:CU",
    long: "quiet verbose python: module: with: with-requirements: with-editable: extra: \
           all-extras no-dev dev only-dev group: no-group: only-group: all-groups isolated active \
           no-sync locked frozen script env-file: no-env-file package: all-packages no-project \
           directory: project: offline no-cache cache-dir: refresh upgrade from: index: \
           default-index: index-url: no-progress color: no-config config-file: native-tls \
           managed-python no-managed-python gui-script exact reinstall",
};

pub(super) fn study(name: &str, args: &[Arg]) -> Option<Study> {
    if let Some(row) = ROWS.iter().find(|row| row.name == name) {
        return row.study(args);
    }
    match (name, word(args.first())) {
        ("nix", "develop" | "shell" | "run") => Some(nix(from(args, 1))),
        ("mise" | "rtx", "exec" | "x") => Some(mise(from(args, 1))),
        ("expect", _) => Some(Study::program()),
        _ => None,
    }
}

impl Row {
    /// `None` when another verb is meant.
    fn study(&self, args: &[Arg]) -> Option<Study> {
        let mut guess = false;
        let mut rest = args.to_vec();
        if !self.verbs.is_empty() {
            let globals = self.globals.read(args, Ends::AtOperand);
            let verb = globals.operands.first()?;
            match verb.as_known() {
                Some(known) if self.verbs.contains(&known) => {}
                Some(known) if self.name == "npm" && super::npm::full_name(known) == "exec" => {}
                Some(_) => return None,
                None => guess = true,
            }
            guess |= globals.uncertain;
            rest = from(&globals.operands, 1).to_vec();
        }
        let options = self.table.read(&rest, Ends::AtOperand);
        guess |= options.uncertain;
        let mut study = Study::program();
        for text in options.values(self.scripts) {
            study = study.runs(Run::script(text));
        }
        study = match (self.name, options.values(&["m", "module"]).next()) {
            // `uv run -m module` is python's.
            ("uv", Some(module)) => {
                let mut argv = vec![Arg::known("python"), Arg::known("-m"), module.clone()];
                argv.extend(options.operands.iter().cloned());
                study.runs_argv(&argv)
            }
            _ => self.inner(study, &options),
        };
        Some(study.guess_if(guess))
    }

    fn inner(&self, study: Study, options: &Options) -> Study {
        let mut argv = from(&options.operands, self.skips);
        if word(argv.first()) == "--" {
            argv = from(argv, 1);
        }
        let Some((program, args)) = argv.split_first() else {
            return study;
        };
        let script_of_words = self.name == "pnpm" && (options.has(&["c", "shell-mode"]));
        if script_of_words {
            return study.runs(Run::script_of(argv));
        }
        match self.inner {
            Inner::Command => study.runs_argv(argv),
            Inner::Dashes => match argv.iter().position(|arg| arg.as_known() == Some("--")) {
                Some(at) => study.runs_argv(from(argv, at + 1)),
                None => study.runs_argv(args).guess_if(true),
            },
            Inner::Package => match program.as_known() {
                Some(name) if !means_something(name, args) => study,
                _ => study.runs_argv(argv),
            },
        }
    }
}

/// Whether a package is called like a program whose effects are known, so that a rule for the tool
/// that fetches it does not cover it.
fn means_something(name: &str, args: &[Arg]) -> bool {
    let name = super::plain_name(name);
    let judged = super::critical::judge(name, args);
    judged.critical.is_some()
        || judged.caution.is_some()
        || [
            super::shells::study,
            super::builtins::study,
            super::wrappers::study,
            super::privilege::study,
            super::remote::study,
            super::containers::study,
            super::find::study,
            super::critical::study,
        ]
        .iter()
        .any(|table| table(name, args).is_some_and(|study| study.nature != Nature::ReadOnly))
        || name == "git"
        // No look inside: `npx npx npx …` is as deep as its words are many.
        || ROWS.iter().any(|row| row.name == name)
}

/// `nix develop … -c command arguments`.
fn nix(args: &[Arg]) -> Study {
    let flag = args.iter().position(|arg| {
        matches!(arg.as_known(), Some("-c" | "--command")) || arg.as_known() == Some("--")
    });
    let open = args.iter().any(|arg| arg.as_known().is_none() && arg.may_be_option());
    let argv = flag.map_or(&[] as &[Arg], |at| from(args, at + 1));
    Study::program().runs_argv(argv).guess_if(open && argv.is_empty())
}

/// `mise exec tool@version -- command`, or `-c text`.
fn mise(args: &[Arg]) -> Study {
    let at = args.iter().position(|arg| arg.as_known() == Some("--"));
    let options = args.get(..at.unwrap_or(args.len())).unwrap_or_default();
    let mut study = Study::program();
    for (index, arg) in options.iter().enumerate() {
        let attached = super::after(arg, "--command=");
        let text = match arg.as_known() {
            Some("-c" | "--command") => options.get(index + 1).cloned(),
            _ => attached,
        };
        if let Some(text) = text {
            study = study.runs(Run::script(&text));
        }
    }
    study.runs_argv(at.map_or(&[], |at| from(args, at + 1)))
}

#[cfg(test)]
mod tests {
    use super::super::shown::check;

    #[test]
    fn the_tool_and_what_it_runs_are_both_judged() {
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
    fn packages_are_covered_by_the_tool_unless_they_mean_something() {
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
