//! Tools for building and running things. They may do anything, except for the few forms that
//! only look: those are listed, with every option they may have.

use crate::program::Study;
use crate::shell::Arg;

use super::notes::Notes;
use super::openers::asks_version;

/// Studies a tool in one of its forms that only look; `None` for every other form.
pub(super) fn study(name: &str, args: &[Arg]) -> Option<Study> {
    let looks = VERSIONED.contains(&name) && asks_version(args)
        || FORMS.iter().any(|form| form.names.contains(&name) && form.covers(args));
    looks.then(|| Notes::default().all_said())
}

/// Tools that say their version, or how they are used, and do nothing else then.
///
/// Those that start something of the project even for that are not among them: a
/// `rust-toolchain.toml` names the folder in which `cargo` and `rustc` are, a `global.json` that of
/// `dotnet`, `yarn` and `pnpm` have such a setting too, `pytest` loads `conftest.py`, `hg` the
/// extensions in `.hg/hgrc`.
const VERSIONED: &[&str] = &[
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
struct Form {
    names: &'static [&'static str],
    /// The words it starts with.
    words: &'static [&'static str],
    /// The options it may have, each as `-x` or `--name`; one with any value ends with `=`.
    options: &'static [&'static str],
    /// Whether other words may follow.
    operands: Operands,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Operands {
    None,
    Any,
}

const fn form(
    names: &'static [&'static str],
    words: &'static [&'static str],
    options: &'static [&'static str],
    operands: Operands,
) -> Form {
    Form { names, words, options, operands }
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

static FORMS: &[Form] = &[
    form(
        &["npm"],
        &["ls"],
        &["-g", "--global", "--depth=", "--all", "-a", "--json"],
        Operands::Any,
    ),
    form(
        &["npm"],
        &["list"],
        &["-g", "--global", "--depth=", "--all", "-a", "--json"],
        Operands::Any,
    ),
    form(&["npm"], &["root"], &["-g"], Operands::None),
    form(PIP, &["list"], &["--format=", "--user", "--local", "-l"], Operands::None),
    form(PIP, &["show"], &["-f", "--files", "-v", "--verbose"], Operands::Any),
    form(PIP, &["freeze"], &["--all", "--local", "-l", "--user"], Operands::None),
    form(&["npm"], &["-v"], &[], Operands::None),
    form(&["docker", "make", "cmake", "tsc"], &["-v"], &[], Operands::None),
    form(&["rustup"], &["toolchain", "list"], &["-v", "--verbose"], Operands::None),
    form(&["rustup"], &["target", "list"], &["--installed"], Operands::None),
    form(&["rustup"], &["component", "list"], &["--installed"], Operands::None),
    form(&["go"], &["version"], &[], Operands::None),
    form(&["go"], &["env"], &["-json"], Operands::Any),
    form(&["java", "javac", "scala", "kotlinc"], &["-version"], &[], Operands::None),
    form(
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
        Operands::Any,
    ),
    form(
        DOCKER,
        &["images"],
        &["-a", "--all", "-q", "--quiet", "--format", "--format=", "--no-trunc"],
        Operands::Any,
    ),
    form(DOCKER, &["image", "ls"], DOCKER_LISTS, Operands::Any),
    form(DOCKER, &["container", "ls"], DOCKER_LISTS, Operands::Any),
    form(DOCKER, &["network", "ls"], DOCKER_LISTS, Operands::Any),
    form(DOCKER, &["volume", "ls"], DOCKER_LISTS, Operands::Any),
    form(
        DOCKER,
        &["stats"],
        &["-a", "--all", "--no-stream", "--no-trunc", "--format", "--format="],
        Operands::Any,
    ),
    form(DOCKER, &["system", "df"], &["-v", "--verbose"], Operands::None),
    form(DOCKER, &["top"], &[], Operands::Any),
    form(DOCKER, &["port"], &[], Operands::Any),
    form(DOCKER, &["history"], &["--no-trunc", "-q", "--quiet"], Operands::Any),
    form(DOCKER, &["version"], &["--format", "--format="], Operands::Any),
    form(DOCKER, &["info"], &["--format", "--format="], Operands::Any),
    form(
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
        Operands::Any,
    ),
    form(
        DOCKER,
        &["inspect"],
        &["-f", "--format", "--format=", "-s", "--size", "--type="],
        Operands::Any,
    ),
    form(&["kubectl"], &["get"], KUBECTL, Operands::Any),
    form(&["kubectl"], &["describe"], KUBECTL, Operands::Any),
    form(
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
        Operands::Any,
    ),
    form(&["kubectl"], &["version"], &["--client", "--short", "-o", "--output="], Operands::Any),
    form(&["kubectl"], &["config", "view"], &["--minify", "-o", "--output="], Operands::Any),
    form(&["kubectl"], &["config", "current-context"], &[], Operands::None),
    form(&["kubectl"], &["config", "get-contexts"], &[], Operands::Any),
    form(&["systemctl"], &["status"], SYSTEMCTL, Operands::Any),
    form(&["systemctl"], &["list-units"], SYSTEMCTL, Operands::Any),
    form(&["systemctl"], &["list-unit-files"], SYSTEMCTL, Operands::Any),
    form(&["systemctl"], &["list-timers"], SYSTEMCTL, Operands::Any),
    form(&["systemctl"], &["is-active"], SYSTEMCTL, Operands::Any),
    form(&["systemctl"], &["is-enabled"], SYSTEMCTL, Operands::Any),
    form(&["systemctl"], &["is-failed"], SYSTEMCTL, Operands::Any),
    form(
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
        Operands::Any,
    ),
    form(&["ip"], &["addr"], &[], Operands::None),
    form(&["ip"], &["a"], &[], Operands::None),
    form(&["ip"], &["route"], &[], Operands::None),
    form(&["ifconfig"], &[], &["-a"], Operands::None),
    form(&["brew"], &["list"], &["--versions", "--formula", "--cask", "-1"], Operands::Any),
    form(&["apt"], &["list"], &["--installed", "--upgradable"], Operands::Any),
    form(&["apt"], &["show"], &["-a"], Operands::Any),
    form(&["apt"], &["policy"], &[], Operands::Any),
    form(&["apt-cache"], &["show"], &[], Operands::Any),
    form(&["apt-cache"], &["policy"], &[], Operands::Any),
    form(&["apt-cache"], &["search"], &["-n", "--names-only"], Operands::Any),
    form(&["dpkg"], &["-l"], &[], Operands::Any),
    form(&["dpkg"], &["-L"], &[], Operands::Any),
    form(&["dpkg"], &["-s"], &[], Operands::Any),
    form(&["dpkg"], &["-S"], &[], Operands::Any),
    form(&["rpm"], &["-qa"], &["--last"], Operands::Any),
    form(&["rpm"], &["-q"], &[], Operands::Any),
    form(&["rpm"], &["-qi"], &[], Operands::Any),
    form(&["rpm"], &["-ql"], &[], Operands::Any),
    form(&["tmux"], &["ls"], &[], Operands::None),
    form(&["tmux"], &["list-sessions"], &[], Operands::None),
];

impl Form {
    fn covers(&self, args: &[Arg]) -> bool {
        let words = args.iter().take(self.words.len()).map(Arg::as_known);
        if args.len() < self.words.len() || !words.eq(self.words.iter().map(|word| Some(*word))) {
            return false;
        }
        // What is not known may be an option that does more.
        args.iter().skip(self.words.len()).all(|arg| match arg {
            Arg::Known(text) if text.starts_with('-') => self.may_have(text),
            Arg::Known(_) => self.operands == Operands::Any,
            arg => self.operands == Operands::Any && !arg.may_be_option() && !arg.may_split(),
        })
    }

    fn may_have(&self, option: &str) -> bool {
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
    use crate::program::files::check::check;

    #[test]
    fn forms_that_only_look() {
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
    fn every_other_form_is_not_known() {
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
