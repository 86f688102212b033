//! Build tools and other development tools. They may do anything, except in a few read-only forms,
//! which are listed here with every option they may have.

use crate::program::command_analysis::CommandAnalysis;
use crate::shell::ShellArg;

use super::analysis_builder::CommandAnalysisBuilder;
use super::toolchain::asks_version;
use crate::word_list::words;

/// Analyzes a tool in one of its read-only forms; `None` for other forms.
pub(super) fn analyze(name: &str, args: &[ShellArg]) -> Option<CommandAnalysis> {
    let reads_only = VERSION_TOOLS.contains(&name) && asks_version(name, args)
        || FORMS.iter().any(|form| form.names.contains(&name) && form.matches_args(args));
    reads_only.then(|| CommandAnalysisBuilder::default().build_complete())
}

/// Tools whose version and help options have no other effect.
///
/// Tools that run something of the project even then are excluded: a `global.json` names the folder
/// of `dotnet`, `yarn` and `pnpm` have such a setting too, `pytest` loads `conftest.py`, `hg` the
/// extensions in `.hg/hgrc`. A `rust-toolchain.toml` names the folder of `cargo`: the engine looks for
/// it.
const VERSION_TOOLS: &[&str] = words!(
    "cargo rustup npm npx pip pip3 uv poetry go make cmake ninja docker kubectl helm terraform java \
     javac swift zig ghc tsc ruff black mypy gem brew jj svn tmux systemctl journalctl dpkg rpm \
     apt gpg rsync ssh gdb psql sqlite3 mysql ffmpeg clang-format valgrind ccache"
);

/// Read-only forms that take the same options.
struct ReadOnlyForm {
    names: &'static [&'static str],
    /// The words that each form starts with.
    words: &'static [&'static [&'static str]],
    /// The allowed options, each as `-x` or `--name`; one with any value ends with `=`.
    options: &'static [&'static str],
    /// Whether other words may follow.
    operands: AllowedOperands,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum AllowedOperands {
    None,
    Any,
}

macro_rules! forms {
    ($($names:literal: $($words:literal)|+, $options:literal, $operands:ident;)*) => {
        &[$(ReadOnlyForm {
            names: words!($names),
            words: &[$(words!($words)),+],
            options: words!($options),
            operands: AllowedOperands::$operands,
        }),*]
    };
}

static FORMS: &[ReadOnlyForm] = forms! {
    "npm": "ls" | "list", "-g --global --depth= --all -a --json", Any;
    "npm": "root", "-g", None;
    "pip pip3": "list", "--format= --user --local -l", None;
    "pip pip3": "show", "-f --files -v --verbose", Any;
    "pip pip3": "freeze", "--all --local -l --user", None;
    "npm": "-v", "", None;
    "docker make cmake tsc": "-v", "", None;
    "rustup": "toolchain list", "-v --verbose", None;
    "rustup": "target list" | "component list", "--installed", None;
    "go": "version", "", None;
    "go": "env", "-json", Any;
    "java javac scala kotlinc": "-version", "", None;
    "docker podman": "ps",
        "-a --all -q --quiet -l -n -s --no-trunc --format --format= -f --filter --filter=", Any;
    "docker podman": "images", "-a --all -q --quiet --format --format= --no-trunc", Any;
    "docker podman": "image ls" | "container ls" | "network ls" | "volume ls",
        "-a --all -q --quiet --no-trunc --format --format= -f --filter --filter=", Any;
    "docker podman": "stats", "-a --all --no-stream --no-trunc --format --format=", Any;
    "docker podman": "system df", "-v --verbose", None;
    "docker podman": "top" | "port", "", Any;
    "docker podman": "history", "--no-trunc -q --quiet", Any;
    "docker podman": "version" | "info", "--format --format=", Any;
    "docker podman": "logs",
        "-f --follow -t --timestamps -n --tail --tail= --since --since= --until= --details", Any;
    "docker podman": "inspect", "-f --format --format= -s --size --type=", Any;
    "kubectl": "get" | "describe",
        "-n --namespace --namespace= -A --all-namespaces -o --output --output= -w --watch -l \
         --selector --selector= --show-labels --no-headers --sort-by=", Any;
    "kubectl": "logs",
        "-n --namespace --namespace= -f --follow -c --container= --tail= --since= -p \
         --previous -l --timestamps", Any;
    "kubectl": "version", "--client --short -o --output=", Any;
    "kubectl": "config view", "--minify -o --output=", Any;
    "kubectl": "config current-context", "", None;
    "kubectl": "config get-contexts", "", Any;
    "systemctl":
        "status" | "list-units" | "list-unit-files" | "list-timers" | "is-active" | "is-enabled" |
        "is-failed",
        "--no-pager -l --full -n --lines= --type= -t --state= -a --all --user --failed -q \
         --quiet --plain --no-legend", Any;
    "journalctl": "",
        "-u --unit --unit= -n --lines --lines= -f --follow -b -k --dmesg -p --priority= -S \
         --since --since= -U --until --until= -r --reverse -e -x -xe -xeu -eu -fu --no-pager -o \
         --output= -g --grep= -t --identifier= --user --system -q --list-boots --disk-usage --utc \
         -a", Any;
    "ip": "addr" | "a" | "route", "", None;
    "ifconfig": "", "-a", None;
    "brew": "list", "--versions --formula --cask -1", Any;
    "apt": "list", "--installed --upgradable", Any;
    "apt": "show", "-a", Any;
    "apt": "policy", "", Any;
    "apt-cache": "show" | "policy", "", Any;
    "apt-cache": "search", "-n --names-only", Any;
    "dpkg": "-l" | "-L" | "-s" | "-S", "", Any;
    "rpm": "-qa", "--last", Any;
    "rpm": "-q" | "-qi" | "-ql", "", Any;
    "tmux": "ls" | "list-sessions", "", None;
};

impl ReadOnlyForm {
    fn matches_args(&self, args: &[ShellArg]) -> bool {
        self.words.iter().any(|words| {
            let argument = args.get(..words.len()).unwrap_or_default();
            argument.len() == words.len()
                && argument.iter().zip(*words).all(|(arg, word)| arg.as_known() == Some(word))
                && self.allows(args.get(words.len()..).unwrap_or_default())
        })
    }

    fn allows(&self, args: &[ShellArg]) -> bool {
        // An unknown argument may be an option that does more.
        args.iter().all(|arg| match arg {
            // `kubectl get x -o jsonpath-file=y` reads a file.
            ShellArg::Known(text) if text.contains("file=") => false,
            ShellArg::Known(text) if text.starts_with('-') => self.allows_option(text),
            ShellArg::Known(_) => self.operands == AllowedOperands::Any,
            arg => {
                self.operands == AllowedOperands::Any && !arg.may_be_option() && !arg.may_split()
            }
        })
    }

    fn allows_option(&self, option: &str) -> bool {
        let with_value = option.split_once('=').map(|(name, _)| name);
        self.options.iter().any(|known| match (known.strip_suffix('='), with_value) {
            (Some(known), Some(name)) => known == name,
            (None, _) => *known == option,
            (Some(_), None) => false,
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::program::files::analysis_assert::check;

    #[test]
    fn dev_tool_read_only_forms_are_recognized() {
        check("npm -v", "looks");
        check("docker volume ls -q", "looks");
        check("npm ls --depth=0", "looks");
        check("pip show requests", "looks");
        check("docker ps -a", "looks");
        check("docker logs --tail 5 web", "looks");
        check("kubectl get pods -n x -o wide", "looks");
        check("systemctl status sshd --no-pager", "looks");
        check("journalctl -u sshd -n 50 --no-pager", "looks");
        check("go env GOPATH", "looks");
        check("dpkg -L bash", "looks");
        check("java -version", "looks");
        check("clang-format --version", "looks");
    }

    #[test]
    fn dev_tool_other_forms_are_opaque() {
        check("cargo build", "not known");
        check("npm install", "not known");
        check("make -n", "not known");
        check("go env -w GOFLAGS=x", "not known");
        check("docker -H evil ps", "not known");
        check("docker ps $x", "not known");
        check("kubectl get pods --kubeconfig=x", "not known");
        check("kubectl get -f http://h/x", "not known");
        check("kubectl get x -o go-template-file=y", "not known");
        check("kubectl get x --output=jsonpath-file=y", "not known");
        check("kubectl get pods --profile-output=x", "not known");
        check("journalctl --vacuum-size=1", "not known");
        check("journalctl --vac=1", "not known");
        check("systemctl status -H evil", "not known");
        check("yarn --version", "not known");
        check("cargo --version", "looks");
        check("cargo -V", "looks");
        check("cargo +nightly --version", "not known");
        check("cargo --version --config x", "not known");
        check("cargo -C dir --version", "not known");
        check("rustup show", "not known");
        check("pytest --version", "not known");
        check("docker compose ps", "not known");
        check("docker volume rm x", "not known");
    }
}
