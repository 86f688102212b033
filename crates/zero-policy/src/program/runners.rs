//! Tools that run a command in an environment that they create: `poetry run`, `bundle exec`, `npx`.
//!
//! Creating the environment is an effect of its own (it may install or build), so a rule must cover
//! the tool. The command it runs is judged as if it stood alone.

use crate::program::arguments::{args_from, known_text, strip_arg_prefix};
use crate::program::command_analysis::{CommandAnalysis, CommandClass, NestedExecution};
use crate::program::options::{OptionTable, ParsedArguments, ValueUse, options};
use crate::shell::ShellArg;
use crate::word_list::words;

/// `name [options] verb [options] command`.
struct RunnerRow {
    names: &'static [&'static str],
    verbs: &'static [&'static str],
    /// Options before the verb.
    globals: OptionTable,
    /// Options after the verb.
    table: OptionTable,
    /// Words between the options and the command.
    skips: usize,
    inner: InnerCommandKind,
}

/// The kind of the command that is run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum InnerCommandKind {
    /// An ordinary command.
    Command,
    /// A command, preceded by an unknown number of words up to a `--`, if there is one.
    Dashes,
    /// A package that may have to be downloaded first. A rule for the tool covers it, unless it has
    /// the name of a known program.
    Package,
}

const UV: &str = "-qvnCU -pmwP: quiet verbose python: module: with: with-requirements: \
     with-editable: extra: all-extras no-dev dev only-dev group: no-group: only-group: all-groups \
     isolated active no-sync locked frozen script env-file: no-env-file package: all-packages \
     no-project directory: project: offline no-cache cache-dir: refresh upgrade from: index: \
     default-index: index-url: no-progress color: no-config config-file: native-tls \
     managed-python no-managed-python gui-script exact reinstall";

const NPX: &str = "-yqs -cpw: yes no package: call: workspace: workspaces quiet silent \
     prefer-offline offline bun prefix: no-install ignore-existing shell-mode verbose \
     include-workspace-root";

/// The same, where `-c` takes a script for a shell.
const NPX_CALL: &str = "c,call:script -yqs -pw: yes no package: workspace: workspaces quiet \
     silent prefer-offline offline bun prefix: no-install ignore-existing shell-mode verbose \
     include-workspace-root";

macro_rules! runners {
    ($($inner:ident $skips:literal $names:literal $verbs:literal $globals:tt $options:tt;)*) => {
        &[$(RunnerRow {
            names: words!($names),
            verbs: words!($verbs),
            globals: options!($globals).strict().until_operand(),
            table: options!($options).strict().until_operand(),
            skips: $skips,
            inner: InnerCommandKind::$inner,
        }),*]
    };
}

/// The columns: kind of the command, number of words before it, names, verbs, options before the
/// verb, and options after it, some of which take a script.
static ROWS: &[RunnerRow] = runners! {
    Command 0 "poetry" "run"
        "-nqv -CP: directory: project: no-interaction quiet verbose no-ansi ansi no-plugins \
         no-cache" "";
    Command 0 "pipenv" "run" "-qv python: verbose quiet clear" "";
    Command 0 "uv" "run" UV UV;
    Command 0 "rye" "run" "" "-l list pyproject:";
    Command 0 "hatch" "run"
        "-vq -ep: env: project: verbose quiet color no-color interactive no-interactive data-dir: \
         cache-dir: config:" "";
    Command 0 "pdm" "run" "" "-gs p: global project: site-packages";
    Command 0 "pixi" "run" "" "-qv e: environment: manifest-path: frozen locked";
    Command 0 "conda" "run" "" "-v -np: name: prefix: cwd: no-capture-output live-stream verbose";
    Command 0 "bundle" "exec e" "" "keep-file-descriptors gemfile:";
    Command 0 "rbenv pyenv nodenv asdf" "exec" "" "";
    Command 1 "direnv" "exec" "" "";
    Command 1 "rustup" "run" "" "install";
    Command 1 "nvm" "exec run" "" "";
    Command 1 "aws-vault" "exec" "" "-njs d: duration: no-session region: server json debug";
    Dashes 0 "chamber" "exec" "" "-rb: pristine strict strict-value: retries: backend:";
    Command 0 "infisical" "run" ""
        "command:script -h -ept: env: path: tags: token: projectId: watch expand secret-overriding";
    Command 0 "volta" "run" ""
        "node: npm: pnpm: yarn: bundled-npm no-pnpm no-yarn env: verbose quiet";
    Command 0 "fnm" "exec" "" "using: log-level: fnm-dir: arch:";
    Command 0 "op" "run" "" "env-file: no-masking";
    Command 0 "doppler" "run" "" "command:script -cpt: config: project: token:";
    Command 0 "dotenv" "" "" "-o -fe: c:: p: file:";
    Command 0 "devbox" "run" "-qh quiet help"
        "-lqh -ce: config: env: env-file: environment: pure list quiet help omit-nix-env";
    Command 0 "dotenvx" "run" "" "-fe: env-file: env: overload";
    Command 0 "nix-shell" "" ""
        "run,command:script -vQik -pAEIj: packages: attr: expr: pure impure keep: arg: argstr: \
         option: max-jobs: cores: show-trace";
    Package 0 "npx" "" "" NPX_CALL;
    Package 0 "bunx pnpx" "" "" NPX;
    Package 0 "uvx" "" "" UV;
    Package 0 "pipx" "run" "" "spec: python: pip-args: no-cache verbose";
    Package 0 "npm" "exec x" NPX NPX_CALL;
    Package 0 "pnpm" "exec dlx" "-rw C: dir: filter: recursive workspace-root silent"
        "-rc package: recursive parallel shell-mode silent";
    Package 0 "yarn" "exec dlx" "-s cwd: silent" "-q p: package: quiet";
    Package 0 "bun" "x" "cwd: bun silent" NPX;
};

pub(super) fn analyze(name: &str, args: &[ShellArg]) -> Option<CommandAnalysis> {
    if let Some(row) = ROWS.iter().find(|row| row.names.contains(&name)) {
        return row.analyze(name, args);
    }
    match (name, known_text(args.first())) {
        ("nix", "develop" | "shell" | "run") => Some(analyze_nix(args_from(args, 1))),
        ("mise" | "rtx", "exec" | "x") => Some(analyze_mise(args_from(args, 1))),
        ("expect", _) => Some(analyze_expect(args)),
        _ => None,
    }
}

/// `expect -c 'spawn command'`: a program in another language; the commands in it that are plain
/// words are judged.
fn analyze_expect(args: &[ShellArg]) -> CommandAnalysis {
    let options = options!("-bidDnNvf: c:").until_operand().parse(args);
    let texts = options.values(&["c"]).map(ShellArg::known_prefix);
    let pieces = texts.flat_map(|text| text.split(['\n', ';', '{', '}', '[', ']']));
    let runs = pieces.filter_map(|piece| {
        let (word, command) = piece.trim().split_once(char::is_whitespace)?;
        matches!(word, "spawn" | "exec" | "system").then(|| ShellArg::known(command.trim()))
    });
    let runs: Vec<ShellArg> = runs.collect();
    CommandAnalysis::opaque().with_scripts(runs.iter())
}

impl RunnerRow {
    /// `None` for another verb.
    fn analyze(&self, name: &str, args: &[ShellArg]) -> Option<CommandAnalysis> {
        let mut guess = false;
        let mut rest = args.to_vec();
        if !self.verbs.is_empty() {
            let globals = self.globals.parse(args);
            let verb = globals.operands.first()?;
            match verb.as_known() {
                Some(known) if self.verbs.contains(&known) => {}
                Some(known) if name == "npm" && super::npm::expand_command(known) == "exec" => {}
                Some(_) => return None,
                None => guess = true,
            }
            guess |= globals.uncertain;
            rest = args_from(&globals.operands, 1).to_vec();
        }
        let options = self.table.parse(&rest);
        guess |= options.uncertain;
        let mut analysis = CommandAnalysis::opaque();
        analysis = analysis.with_scripts(options.used_values(ValueUse::Script));
        analysis = match (name, options.values(&["m", "module"]).next()) {
            // `uv run -m module` runs python.
            ("uv", Some(module)) => {
                let mut argv =
                    vec![ShellArg::known("python"), ShellArg::known("-m"), module.clone()];
                argv.extend(options.operands.iter().cloned());
                analysis.with_command(&argv)
            }
            _ => self.add_inner_command(name, analysis, &options),
        };
        Some(analysis.mark_guess_if(guess))
    }

    fn add_inner_command(
        &self,
        name: &str,
        analysis: CommandAnalysis,
        options: &ParsedArguments<'_>,
    ) -> CommandAnalysis {
        let mut argv = args_from(&options.operands, self.skips);
        // One of the programs of this name has a verb, and options after it.
        if name == "dotenv" && known_text(argv.first()) == "run" {
            let is_option = |arg: &&ShellArg| arg.known_prefix().starts_with("--");
            let options = argv.iter().skip(1).take_while(is_option).count();
            argv = args_from(argv, 1 + options);
        }
        if known_text(argv.first()) == "--" {
            argv = args_from(argv, 1);
        }
        let Some((program, args)) = argv.split_first() else {
            return analysis;
        };
        let script_of_words = name == "pnpm" && (options.has(&["c", "shell-mode"]));
        if script_of_words {
            return analysis.with_run(NestedExecution::from_script_words(argv));
        }
        match self.inner {
            InnerCommandKind::Command => analysis.with_command(argv),
            InnerCommandKind::Dashes => {
                match argv.iter().position(|arg| arg.as_known() == Some("--")) {
                    Some(at) => analysis.with_command(args_from(argv, at + 1)),
                    None => analysis.with_command(args).mark_guess_if(true),
                }
            }
            InnerCommandKind::Package => match program.as_known() {
                Some(name) if !is_known_program(name, args) => analysis,
                _ => analysis.with_command(argv),
            },
        }
    }
}

/// Whether a package has the name of a program with known effects, so that a rule for the tool that
/// downloads it does not cover it.
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
        .any(|table| table(name, args).is_some_and(|analysis| analysis.class != CommandClass::ReadOnly))
        || name == "git"
        // Not recursive: `npx npx npx …` can be as deep as it has words.
        || ROWS.iter().any(|row| row.names.contains(&name))
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
    let mut analysis = CommandAnalysis::opaque();
    for (index, arg) in options.iter().enumerate() {
        let attached = strip_arg_prefix(arg, "--command=");
        let text = match arg.as_known() {
            Some("-c" | "--command") => options.get(index + 1).cloned(),
            _ => attached,
        };
        if let Some(text) = text {
            analysis = analysis.with_run(NestedExecution::from_script(&text));
        }
    }
    analysis.with_command(at.map_or(&[], |at| args_from(args, at + 1)))
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
