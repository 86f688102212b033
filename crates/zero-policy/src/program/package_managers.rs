//! Programs that download packages.
//!
//! Which hosts they use is not on their command line but in the configuration of the project and of
//! the user, which [`Machine::registry_hosts`](crate::Machine::registry_hosts) knows. A result of
//! this search only adds hosts to a question that is asked anyway: a form that is not recognized
//! opens nothing.

use super::npm;
use crate::shell::ShellArg;
use crate::word_list::words;

/// A program that downloads packages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PackageManager {
    /// npm.
    Npm,
    /// pip.
    Pip,
    /// uv.
    Uv,
    /// Cargo.
    Cargo,
    /// The Go command.
    Go,
    /// Maven.
    Maven,
    /// RubyGems and Bundler.
    Gem,
    /// APT.
    Apt,
}

/// A command that may download packages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackageDownload {
    /// The program that downloads.
    pub manager: PackageManager,
    /// The addresses of registries that its options name.
    pub registries: Vec<String>,
}

/// The programs that download another one and run it, with their commands for that.
const RUNNERS: &[(&str, &[&str])] =
    &[("npx", &[]), ("npm", &["exec", "x"]), ("uvx", &[]), ("uv", &["tool"]), ("pipx", &["run"])];
/// Options with which they download nothing.
const OFFLINE_OPTIONS: &[&str] = &["--no", "--no-install", "--offline"];

impl PackageDownload {
    /// The download of a program that downloads another one and runs it, such as `npx`.
    pub fn from_runner(words: &[String]) -> Option<Self> {
        let (program, args) = words.split_first()?;
        let name = program.rsplit('/').next()?;
        let (_, commands) = RUNNERS.iter().find(|(runner, _)| *runner == name)?;
        let mut operands = args.iter().filter(|word| !word.starts_with('-'));
        let is_runner = commands.is_empty()
            || operands.next().is_some_and(|it| commands.contains(&it.as_str()));
        let is_offline = args.iter().any(|word| OFFLINE_OPTIONS.contains(&word.as_str()));
        if !is_runner || is_offline {
            return None;
        }
        let argv: Vec<ShellArg> = words.iter().cloned().map(ShellArg::Known).collect();
        find_download(&argv)
    }
}

struct ManagerForms {
    manager: PackageManager,
    programs: &'static [&'static str],
    /// The commands that download; all if there are none.
    commands: &'static [&'static str],
    /// Options whose value is the address of a registry.
    registry_options: &'static [&'static str],
}

static FORMS: &[ManagerForms] = &[
    ManagerForms {
        manager: PackageManager::Npm,
        programs: words!("npm"),
        commands: words!("install ci install-test install-ci-test update exec x"),
        registry_options: words!("--registry"),
    },
    ManagerForms {
        manager: PackageManager::Npm,
        programs: words!("npx"),
        commands: &[],
        registry_options: words!("--registry"),
    },
    ManagerForms {
        manager: PackageManager::Pip,
        programs: words!("pipx"),
        commands: words!("run install"),
        registry_options: words!("-i --index-url"),
    },
    ManagerForms {
        manager: PackageManager::Uv,
        programs: words!("uvx"),
        commands: &[],
        registry_options: words!(
            "-i --index --default-index --index-url --extra-index-url --find-links"
        ),
    },
    ManagerForms {
        manager: PackageManager::Pip,
        programs: words!("pip pip3"),
        commands: words!("install download wheel"),
        registry_options: words!("-i --index-url --extra-index-url --find-links"),
    },
    ManagerForms {
        manager: PackageManager::Uv,
        programs: words!("uv"),
        commands: words!("sync add lock run pip tool"),
        registry_options: words!(
            "-i --index --default-index --index-url --extra-index-url --find-links"
        ),
    },
    ManagerForms {
        manager: PackageManager::Cargo,
        programs: words!("cargo"),
        commands: words!(
            "fetch add build b check c test t run r update install clippy doc bench vendor"
        ),
        registry_options: words!("--index"),
    },
    ManagerForms {
        manager: PackageManager::Go,
        programs: words!("go"),
        commands: words!("mod get install build test run"),
        registry_options: &[],
    },
    ManagerForms {
        manager: PackageManager::Maven,
        programs: words!("mvn"),
        commands: &[],
        registry_options: &[],
    },
    ManagerForms {
        manager: PackageManager::Gem,
        programs: words!("gem bundle"),
        commands: words!("install update add"),
        registry_options: words!("-s --source"),
    },
    ManagerForms {
        manager: PackageManager::Apt,
        programs: words!("apt apt-get"),
        commands: words!("install update upgrade dist-upgrade full-upgrade"),
        registry_options: &[],
    },
];

/// Variables with the addresses of registries, in upper case. `*` stands for the name of a registry.
static REGISTRY_VARIABLES: &[(PackageManager, &[&str])] = &[
    (PackageManager::Npm, words!("NPM_CONFIG_REGISTRY")),
    (PackageManager::Pip, words!("PIP_INDEX_URL PIP_EXTRA_INDEX_URL PIP_FIND_LINKS")),
    (
        PackageManager::Uv,
        words!("UV_INDEX_URL UV_DEFAULT_INDEX UV_EXTRA_INDEX_URL UV_INDEX UV_FIND_LINKS"),
    ),
    (PackageManager::Cargo, words!("CARGO_REGISTRIES_*_INDEX CARGO_SOURCE_*_REGISTRY")),
    (PackageManager::Go, words!("GOPROXY")),
];

impl PackageManager {
    /// The package manager to which a variable names registries.
    pub fn from_registry_variable(name: &str) -> Option<Self> {
        let upper = name.to_ascii_uppercase();
        // Only npm takes its variables in any case.
        let is_exact = |manager: Self| manager == Self::Npm || name == upper;
        let is_named = |pattern: &&str| match pattern.split_once('*') {
            Some((start, end)) => upper.starts_with(start) && upper.ends_with(end),
            None => upper == *pattern,
        };
        let known = REGISTRY_VARIABLES.iter().find(|(_, names)| names.iter().any(is_named));
        known.map(|(manager, _)| *manager).filter(|manager| is_exact(*manager))
    }
}

/// The addresses in the value of such a variable, which may be a list.
pub fn registry_addresses(value: &str) -> impl Iterator<Item = &str> {
    let parts = value.split(|c: char| c.is_whitespace() || ",|".contains(c));
    // Before an address may be a name or a protocol: `sparse+https://…`, `mine=https://…`.
    parts.filter_map(|part| {
        let at = part.find("://")?;
        let start = part.get(..at)?.rfind(|c: char| !c.is_ascii_alphanumeric());
        part.get(start.map_or(0, |start| start + 1)..)
    })
}

/// The download that a command makes, if it is a known form of a package manager.
pub(crate) fn find_download(argv: &[ShellArg]) -> Option<PackageDownload> {
    let words: Vec<&str> = argv.iter().map_while(ShellArg::as_known).collect();
    let (program, args) = words.split_first()?;
    let name = program.rsplit('/').next()?;
    let (name, args) = match args {
        ["-m", module @ ("pip" | "uv"), rest @ ..] if name.starts_with("python") => (*module, rest),
        args => (name, args),
    };
    let forms = FORMS.iter().find(|forms| forms.programs.contains(&name))?;
    let is_option = |word: &&&str| word.starts_with(['-', '+']);
    let command = args.iter().find(|word| !is_option(word)).copied().unwrap_or_default();
    let command = match forms.manager {
        PackageManager::Npm => npm::expand_command(command),
        _ => command.to_owned(),
    };
    if !forms.commands.is_empty() && !forms.commands.contains(&command.as_str()) {
        return None;
    }
    let values = args.iter().enumerate().filter_map(|(at, word)| match word.split_once('=') {
        Some((option, value)) if forms.registry_options.contains(&option) => Some(value),
        None if forms.registry_options.contains(word) => args.get(at + 1).copied(),
        _ => None,
    });
    let registries = values.filter(|value| value.contains("://")).map(str::to_owned).collect();
    Some(PackageDownload { manager: forms.manager, registries })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn download_is_found_in_forms_that_download() {
        #[track_caller]
        fn check(line: &str, expected: Option<(PackageManager, &[&str])>) {
            let argv: Vec<ShellArg> =
                line.split(' ').map(|word| ShellArg::Known(word.to_owned())).collect();
            let found = find_download(&argv);
            let expected = expected.map(|(manager, registries)| PackageDownload {
                manager,
                registries: registries.iter().map(|it| (*it).to_owned()).collect(),
            });
            assert_eq!(found, expected, "{line}");
        }
        check("npm ci", Some((PackageManager::Npm, &[])));
        check("npm i left-pad", Some((PackageManager::Npm, &[])));
        check("npm clean-install --no-audit", Some((PackageManager::Npm, &[])));
        check("npm test", None);
        check("npm --registry=https://a.test i", Some((PackageManager::Npm, &["https://a.test"])));
        check("/usr/bin/pip3 install -r x", Some((PackageManager::Pip, &[])));
        check(
            "python3 -m pip install -i https://a.test/x --extra-index-url=https://b.test y",
            Some((PackageManager::Pip, &["https://a.test/x", "https://b.test"])),
        );
        check("python3 -m http.server", None);
        check("pip list", None);
        check("uv sync --index-url", Some((PackageManager::Uv, &[])));
        check("cargo +nightly build --release", Some((PackageManager::Cargo, &[])));
        check("cargo fmt", None);
        check("go mod download", Some((PackageManager::Go, &[])));
        check("go vet", None);
        check("mvn -q package", Some((PackageManager::Maven, &[])));
        check("bundle install", Some((PackageManager::Gem, &[])));
        check("apt-get install x", Some((PackageManager::Apt, &[])));
        check("make install", None);
    }

    #[test]
    fn registries_of_variables_are_found() {
        #[track_caller]
        fn check(name: &str, expected: Option<PackageManager>) {
            assert_eq!(PackageManager::from_registry_variable(name), expected, "{name}");
        }
        check("npm_config_registry", Some(PackageManager::Npm));
        check("NPM_CONFIG_REGISTRY", Some(PackageManager::Npm));
        check("PIP_EXTRA_INDEX_URL", Some(PackageManager::Pip));
        check("pip_index_url", None);
        check("UV_DEFAULT_INDEX", Some(PackageManager::Uv));
        check("CARGO_REGISTRIES_TEAM_INDEX", Some(PackageManager::Cargo));
        check("CARGO_REGISTRIES_TEAM_TOKEN", None);
        check("GOPROXY", Some(PackageManager::Go));
        check("GONOPROXY", None);
        let found = |value| registry_addresses(value).collect::<Vec<_>>();
        assert_eq!(
            found("https://a.test|https://b.test,direct"),
            ["https://a.test", "https://b.test"]
        );
        assert_eq!(found("sparse+https://a.test/x/"), ["https://a.test/x/"]);
        assert_eq!(found("mine=https://a.test file:///x off"), ["https://a.test", "file:///x"]);
    }
}
