//! Tools for building and running things. They may do anything, except for the few forms that
//! only look: those are listed, with every option they may have.

use crate::program::CommandAnalysis;
use crate::shell::ShellArg;

use super::analysis_builder::CommandAnalysisBuilder;
use super::toolchain::asks_version;

/// Studies a tool in one of its forms that only look; `None` for every other form.
pub(super) fn analyze(name: &str, args: &[ShellArg]) -> Option<CommandAnalysis> {
    let looks = VERSION_TOOLS.contains(&name) && asks_version(args)
        || FORMS.iter().any(|form| form.names.contains(&name) && form.matches_args(args));
    looks.then(|| CommandAnalysisBuilder::default().build_complete())
}

/// Tools that say their version, or how they are used, and do nothing else then.
///
/// Those that start something of the project even for that are not among them: a
/// `rust-toolchain.toml` names the folder in which `cargo` and `rustc` are, a `global.json` that of
/// `dotnet`, `yarn` and `pnpm` have such a setting too, `pytest` loads `conftest.py`, `hg` the
/// extensions in `.hg/hgrc`.
const VERSION_TOOLS: &[&str] = &[
    "rustup",
    "npm",
    "npx",
    "pip",
    "pip3",
    "uv",
    "poetry",
    "go",
    "make",
    "cmake",
    "ninja",
    "docker",
    "kubectl",
    "helm",
    "terraform",
    "java",
    "javac",
    "swift",
    "zig",
    "ghc",
    "tsc",
    "ruff",
    "black",
    "mypy",
    "gem",
    "brew",
    "jj",
    "svn",
    "tmux",
    "systemctl",
    "journalctl",
    "dpkg",
    "rpm",
    "apt",
    "gpg",
    "rsync",
    "ssh",
    "gdb",
    "psql",
    "sqlite3",
    "mysql",
    "ffmpeg",
];

/// A form that only looks.
struct ReadOnlyForm {
    names: &'static [&'static str],
    /// The words it starts with.
    words: &'static [&'static str],
    /// The options it may have, each as `-x` or `--name`; one with any value ends with `=`.
    options: &'static [&'static str],
    /// Whether other words may follow.
    operands: AllowedOperands,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum AllowedOperands {
    None,
    Any,
}

const fn read_only_form(
    names: &'static [&'static str],
    words: &'static [&'static str],
    options: &'static [&'static str],
    operands: AllowedOperands,
) -> ReadOnlyForm {
    ReadOnlyForm { names, words, options, operands }
}

const DOCKER: &[&str] = &["docker", "podman"];
const DOCKER_LISTS: &[&str] = &[
    "-a",
    "--all",
    "-q",
    "--quiet",
    "--no-trunc",
    "--format",
    "--format=",
    "-f",
    "--filter",
    "--filter=",
];
const KUBECTL: &[&str] = &[
    "-n",
    "--namespace",
    "--namespace=",
    "-A",
    "--all-namespaces",
    "-o",
    "--output",
    "--output=",
    "-w",
    "--watch",
    "-l",
    "--selector",
    "--selector=",
    "--show-labels",
    "--no-headers",
    "--sort-by=",
];
const SYSTEMCTL: &[&str] = &[
    "--no-pager",
    "-l",
    "--full",
    "-n",
    "--lines=",
    "--type=",
    "-t",
    "--state=",
    "-a",
    "--all",
    "--user",
    "--failed",
    "-q",
    "--quiet",
    "--plain",
    "--no-legend",
];
const PIP: &[&str] = &["pip", "pip3"];

static FORMS: &[ReadOnlyForm] = &[
    read_only_form(
        &["npm"],
        &["ls"],
        &["-g", "--global", "--depth=", "--all", "-a", "--json"],
        AllowedOperands::Any,
    ),
    read_only_form(
        &["npm"],
        &["list"],
        &["-g", "--global", "--depth=", "--all", "-a", "--json"],
        AllowedOperands::Any,
    ),
    read_only_form(&["npm"], &["root"], &["-g"], AllowedOperands::None),
    read_only_form(
        PIP,
        &["list"],
        &["--format=", "--user", "--local", "-l"],
        AllowedOperands::None,
    ),
    read_only_form(PIP, &["show"], &["-f", "--files", "-v", "--verbose"], AllowedOperands::Any),
    read_only_form(PIP, &["freeze"], &["--all", "--local", "-l", "--user"], AllowedOperands::None),
    read_only_form(&["npm"], &["-v"], &[], AllowedOperands::None),
    read_only_form(&["docker", "make", "cmake", "tsc"], &["-v"], &[], AllowedOperands::None),
    read_only_form(
        &["rustup"],
        &["toolchain", "list"],
        &["-v", "--verbose"],
        AllowedOperands::None,
    ),
    read_only_form(&["rustup"], &["target", "list"], &["--installed"], AllowedOperands::None),
    read_only_form(&["rustup"], &["component", "list"], &["--installed"], AllowedOperands::None),
    read_only_form(&["go"], &["version"], &[], AllowedOperands::None),
    read_only_form(&["go"], &["env"], &["-json"], AllowedOperands::Any),
    read_only_form(
        &["java", "javac", "scala", "kotlinc"],
        &["-version"],
        &[],
        AllowedOperands::None,
    ),
    read_only_form(
        DOCKER,
        &["ps"],
        &[
            "-a",
            "--all",
            "-q",
            "--quiet",
            "-l",
            "-n",
            "-s",
            "--no-trunc",
            "--format",
            "--format=",
            "-f",
            "--filter",
            "--filter=",
        ],
        AllowedOperands::Any,
    ),
    read_only_form(
        DOCKER,
        &["images"],
        &["-a", "--all", "-q", "--quiet", "--format", "--format=", "--no-trunc"],
        AllowedOperands::Any,
    ),
    read_only_form(DOCKER, &["image", "ls"], DOCKER_LISTS, AllowedOperands::Any),
    read_only_form(DOCKER, &["container", "ls"], DOCKER_LISTS, AllowedOperands::Any),
    read_only_form(DOCKER, &["network", "ls"], DOCKER_LISTS, AllowedOperands::Any),
    read_only_form(DOCKER, &["volume", "ls"], DOCKER_LISTS, AllowedOperands::Any),
    read_only_form(
        DOCKER,
        &["stats"],
        &["-a", "--all", "--no-stream", "--no-trunc", "--format", "--format="],
        AllowedOperands::Any,
    ),
    read_only_form(DOCKER, &["system", "df"], &["-v", "--verbose"], AllowedOperands::None),
    read_only_form(DOCKER, &["top"], &[], AllowedOperands::Any),
    read_only_form(DOCKER, &["port"], &[], AllowedOperands::Any),
    read_only_form(DOCKER, &["history"], &["--no-trunc", "-q", "--quiet"], AllowedOperands::Any),
    read_only_form(DOCKER, &["version"], &["--format", "--format="], AllowedOperands::Any),
    read_only_form(DOCKER, &["info"], &["--format", "--format="], AllowedOperands::Any),
    read_only_form(
        DOCKER,
        &["logs"],
        &[
            "-f",
            "--follow",
            "-t",
            "--timestamps",
            "-n",
            "--tail",
            "--tail=",
            "--since",
            "--since=",
            "--until=",
            "--details",
        ],
        AllowedOperands::Any,
    ),
    read_only_form(
        DOCKER,
        &["inspect"],
        &["-f", "--format", "--format=", "-s", "--size", "--type="],
        AllowedOperands::Any,
    ),
    read_only_form(&["kubectl"], &["get"], KUBECTL, AllowedOperands::Any),
    read_only_form(&["kubectl"], &["describe"], KUBECTL, AllowedOperands::Any),
    read_only_form(
        &["kubectl"],
        &["logs"],
        &[
            "-n",
            "--namespace",
            "--namespace=",
            "-f",
            "--follow",
            "-c",
            "--container=",
            "--tail=",
            "--since=",
            "-p",
            "--previous",
            "-l",
            "--timestamps",
        ],
        AllowedOperands::Any,
    ),
    read_only_form(
        &["kubectl"],
        &["version"],
        &["--client", "--short", "-o", "--output="],
        AllowedOperands::Any,
    ),
    read_only_form(
        &["kubectl"],
        &["config", "view"],
        &["--minify", "-o", "--output="],
        AllowedOperands::Any,
    ),
    read_only_form(&["kubectl"], &["config", "current-context"], &[], AllowedOperands::None),
    read_only_form(&["kubectl"], &["config", "get-contexts"], &[], AllowedOperands::Any),
    read_only_form(&["systemctl"], &["status"], SYSTEMCTL, AllowedOperands::Any),
    read_only_form(&["systemctl"], &["list-units"], SYSTEMCTL, AllowedOperands::Any),
    read_only_form(&["systemctl"], &["list-unit-files"], SYSTEMCTL, AllowedOperands::Any),
    read_only_form(&["systemctl"], &["list-timers"], SYSTEMCTL, AllowedOperands::Any),
    read_only_form(&["systemctl"], &["is-active"], SYSTEMCTL, AllowedOperands::Any),
    read_only_form(&["systemctl"], &["is-enabled"], SYSTEMCTL, AllowedOperands::Any),
    read_only_form(&["systemctl"], &["is-failed"], SYSTEMCTL, AllowedOperands::Any),
    read_only_form(
        &["journalctl"],
        &[],
        &[
            "-u",
            "--unit",
            "--unit=",
            "-n",
            "--lines",
            "--lines=",
            "-f",
            "--follow",
            "-b",
            "-k",
            "--dmesg",
            "-p",
            "--priority=",
            "-S",
            "--since",
            "--since=",
            "-U",
            "--until",
            "--until=",
            "-r",
            "--reverse",
            "-e",
            "-x",
            "-xe",
            "-xeu",
            "-eu",
            "-fu",
            "--no-pager",
            "-o",
            "--output=",
            "-g",
            "--grep=",
            "-t",
            "--identifier=",
            "--user",
            "--system",
            "-q",
            "--list-boots",
            "--disk-usage",
            "--utc",
            "-a",
        ],
        AllowedOperands::Any,
    ),
    read_only_form(&["ip"], &["addr"], &[], AllowedOperands::None),
    read_only_form(&["ip"], &["a"], &[], AllowedOperands::None),
    read_only_form(&["ip"], &["route"], &[], AllowedOperands::None),
    read_only_form(&["ifconfig"], &[], &["-a"], AllowedOperands::None),
    read_only_form(
        &["brew"],
        &["list"],
        &["--versions", "--formula", "--cask", "-1"],
        AllowedOperands::Any,
    ),
    read_only_form(&["apt"], &["list"], &["--installed", "--upgradable"], AllowedOperands::Any),
    read_only_form(&["apt"], &["show"], &["-a"], AllowedOperands::Any),
    read_only_form(&["apt"], &["policy"], &[], AllowedOperands::Any),
    read_only_form(&["apt-cache"], &["show"], &[], AllowedOperands::Any),
    read_only_form(&["apt-cache"], &["policy"], &[], AllowedOperands::Any),
    read_only_form(&["apt-cache"], &["search"], &["-n", "--names-only"], AllowedOperands::Any),
    read_only_form(&["dpkg"], &["-l"], &[], AllowedOperands::Any),
    read_only_form(&["dpkg"], &["-L"], &[], AllowedOperands::Any),
    read_only_form(&["dpkg"], &["-s"], &[], AllowedOperands::Any),
    read_only_form(&["dpkg"], &["-S"], &[], AllowedOperands::Any),
    read_only_form(&["rpm"], &["-qa"], &["--last"], AllowedOperands::Any),
    read_only_form(&["rpm"], &["-q"], &[], AllowedOperands::Any),
    read_only_form(&["rpm"], &["-qi"], &[], AllowedOperands::Any),
    read_only_form(&["rpm"], &["-ql"], &[], AllowedOperands::Any),
    read_only_form(&["tmux"], &["ls"], &[], AllowedOperands::None),
    read_only_form(&["tmux"], &["list-sessions"], &[], AllowedOperands::None),
];

impl ReadOnlyForm {
    fn matches_args(&self, args: &[ShellArg]) -> bool {
        let words = args.iter().take(self.words.len()).map(ShellArg::as_known);
        if args.len() < self.words.len() || !words.eq(self.words.iter().map(|word| Some(*word))) {
            return false;
        }
        // What is not known may be an option that does more.
        args.iter().skip(self.words.len()).all(|arg| match arg {
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
        check("kubectl get pods --profile-output=x", "not known");
        check("journalctl --vacuum-size=1", "not known");
        check("journalctl --vac=1", "not known");
        check("systemctl status -H evil", "not known");
        check("yarn --version", "not known");
        check("cargo --version", "not known");
        check("rustup show", "not known");
        check("pytest --version", "not known");
        check("docker compose ps", "not known");
        check("docker volume rm x", "not known");
    }
}
