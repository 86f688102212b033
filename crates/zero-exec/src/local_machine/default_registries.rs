//! The hosts from which package managers download if nothing is configured, as the installed programs
//! themselves say.
//!
//! zero has no list of registries of its own: a client may be patched, and its default may change. npm,
//! pip, Go and RubyGems have theirs in a text file, Maven in an archive, Cargo and uv in the program.
//! What is not found here is asked about when the command reaches for it.

use std::path::{Path, PathBuf};

use memchr::memmem;
use zero_policy::rule::escape_glob;
use zero_policy::{HostName, PackageManager};
use zero_sandbox::path_survey;

use super::glob_expansion;

/// Largest text file that is read.
const TEXT_BYTES_MAX: u64 = 1 << 20;
/// Largest program that is searched.
const PROGRAM_BYTES_MAX: u64 = 256 << 20;
/// Most installations of a client that are looked at.
const INSTALLATIONS_MAX: usize = 64;
/// Lines after the name of a setting in which its value is.
const VALUE_LINES: usize = 4;
/// Longest address in a program.
const ADDRESS_BYTES_MAX: usize = 128;

/// The default hosts of a package manager. `find_program` searches `PATH`.
pub(super) fn find_default_hosts(
    manager: PackageManager,
    find_program: &dyn Fn(&str) -> Option<PathBuf>,
    home: Option<&Path>,
) -> Vec<HostName> {
    let prefix = |name: &str| {
        let program = find_program(name)?;
        Some(program.parent()?.parent()?.to_owned())
    };
    match manager {
        PackageManager::Npm => {
            let roots = prefix("npm");
            let files = roots.iter().flat_map(|root| {
                let config = "@npmcli/config/lib/definitions/definitions.js";
                let beside = root.parent().map(|folder| folder.join(config));
                [Some(root.join("node_modules").join(config)), beside]
            });
            first_value(files.flatten(), "registry", |line| {
                line.starts_with("registry:") || line.starts_with("define('registry'")
            })
        }
        PackageManager::Pip => {
            let prefixes = ["pip3", "pip", "python3"].into_iter().filter_map(prefix);
            // Its programs are scripts that choose one of these.
            let versions = home.map(|home| expand(home, ".pyenv/versions/*"));
            let prefixes = prefixes.chain(versions.into_iter().flatten());
            let prefixes = prefixes.chain([PathBuf::from("/usr")]);
            let files = prefixes.flat_map(|prefix| {
                let index = "pip/_internal/models/index.py";
                ["lib/python3*/site-packages", "lib/python3*/dist-packages"]
                    .into_iter()
                    .flat_map(move |folder| expand(&prefix, &format!("{folder}/{index}")))
            });
            first_value(files, "PyPI", |line| line.starts_with("PyPI = PackageIndex("))
        }
        PackageManager::Go => {
            let root = prefix("go");
            let files = root.iter().flat_map(|root| {
                [root.join("go.env"), root.join("src/cmd/go/internal/cfg/cfg.go")]
            });
            first_value(files, "GOPROXY", |line| {
                line.starts_with("GOPROXY=")
                    || line.starts_with("GOPROXY ") && line.contains("envOr(")
            })
        }
        PackageManager::Gem => {
            let root = prefix("ruby");
            let files = root.iter().flat_map(|root| {
                ["vendor_ruby", "[0-9]*", "site_ruby/*"].into_iter().flat_map(move |folder| {
                    expand(root, &format!("lib/ruby/{folder}/rubygems/defaults.rb"))
                })
            });
            first_value(files, "default_sources", |line| line.contains("def self.default_sources"))
        }
        PackageManager::Cargo => {
            // The program in `PATH` may be rustup, which starts that of a toolchain.
            let toolchains = home.map(|home| expand(home, ".rustup/toolchains/*/bin/cargo"));
            let programs = find_program("cargo").into_iter();
            let programs = programs.chain(toolchains.into_iter().flatten());
            find_in_programs(programs, b"sparse+https://", b"/")
        }
        PackageManager::Uv => {
            find_in_programs(find_program("uv").into_iter(), b"https://", b"/simple")
        }
        PackageManager::Maven | PackageManager::Apt => Vec::new(),
    }
}

fn expand(root: &Path, below: &str) -> Vec<PathBuf> {
    let root = root.to_str().map(escape_glob);
    let found =
        root.map(|root| glob_expansion::expand(&format!("{root}/{below}"), INSTALLATIONS_MAX));
    found.flatten().unwrap_or_default()
}

/// The hosts in the value of a setting, from the first file that has it.
fn first_value(
    files: impl Iterator<Item = PathBuf>,
    setting: &str,
    names_setting: impl Fn(&str) -> bool,
) -> Vec<HostName> {
    let hosts = |path: PathBuf| {
        let bytes = path_survey::read_small_file(&path, TEXT_BYTES_MAX)?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let lines = text.lines().map(str::trim);
        let mut lines = lines.skip_while(|line| !names_setting(line)).take(VALUE_LINES);
        lines.find_map(|line| {
            // Its name may also be part of the address.
            let value = match names_setting(line) {
                true => line.split_once(setting).map_or(line, |(_, value)| value),
                false => line,
            };
            Some(find_quoted_hosts(value)).filter(|hosts| !hosts.is_empty())
        })
    };
    files.filter_map(hosts).next().unwrap_or_default()
}

/// The hosts of the addresses and domains of a line of code or of settings.
fn find_quoted_hosts(line: &str) -> Vec<HostName> {
    let words = line.split(|c: char| c.is_whitespace() || "'\"[](),|=".contains(c));
    let hosts = words.filter_map(|word| {
        let is_domain = word.contains('.') && !word.ends_with('.') && !word.starts_with('.');
        match word.starts_with("https://") {
            true => HostName::parse(word).ok(),
            false => HostName::from_host(word).ok().filter(|_| is_domain && !word.contains('/')),
        }
    });
    hosts.collect()
}

/// The host of the first address of a program between `before` and `after`.
fn find_in_programs(
    programs: impl Iterator<Item = PathBuf>,
    before: &[u8],
    after: &[u8],
) -> Vec<HostName> {
    let host = |program: PathBuf| {
        let bytes = path_survey::read_small_file(&program, PROGRAM_BYTES_MAX)?;
        let starts = memmem::find_iter(&bytes, before).map(|at| at + before.len());
        let mut hosts = starts.filter_map(|start| {
            let rest = bytes.get(start..)?;
            let rest = rest.get(..ADDRESS_BYTES_MAX).unwrap_or(rest);
            let is_part = |byte: &u8| byte.is_ascii_lowercase() || b"-.0123456789".contains(byte);
            let len = rest.iter().take_while(|byte| is_part(byte)).count();
            let (host, rest) = rest.split_at(len);
            let host = std::str::from_utf8(host).ok().filter(|host| host.contains('.'))?;
            rest.starts_with(after).then(|| HostName::from_host(host).ok())?
        });
        hosts.next()
    };
    programs.filter_map(host).take(1).collect()
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests create real files")]
mod tests {
    use super::*;

    #[track_caller]
    fn check(manager: PackageManager, program: &str, files: &[(&str, &str)], expected: &[&str]) {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        for (path, text) in files {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let name = program.rsplit('/').next().unwrap();
        let find = |wanted: &str| (wanted == name).then(|| root.join(program));
        let hosts = find_default_hosts(manager, &find, Some(&root.join("home")));
        let hosts: Vec<String> = hosts.iter().map(ToString::to_string).collect();
        assert_eq!(hosts, expected, "{manager:?}");
    }

    #[test]
    fn default_registry_is_that_of_the_installed_client() {
        let definitions =
            "lib/node_modules/npm/node_modules/@npmcli/config/lib/definitions/definitions.js";
        check(
            PackageManager::Npm,
            "lib/node_modules/npm/bin/npm",
            &[(
                definitions,
                "  // https://no.test\n  registry: new Definition('registry', {\n    default: 'https://registry.a.test/',\n",
            )],
            &["registry.a.test"],
        );
        check(
            PackageManager::Pip,
            "bin/pip3",
            &[(
                "lib/python3.13/site-packages/pip/_internal/models/index.py",
                "PyPI = PackageIndex(\"https://a.test/\", file_storage_domain=\"files.b.test\")\n\
                 TestPyPI = PackageIndex(\"https://no.test/\")\n",
            )],
            &["a.test", "files.b.test"],
        );
        check(
            PackageManager::Go,
            "bin/go",
            &[("go.env", "# https://no.test\nGOPROXY=https://a.test,direct\nGOSUMDB=sum.test\n")],
            &["a.test"],
        );
        check(
            PackageManager::Go,
            "bin/go",
            &[(
                "src/cmd/go/internal/cfg/cfg.go",
                "\tGOPROXY    = envOr(\"GOPROXY\", \"https://a.test,direct\")\n",
            )],
            &["a.test"],
        );
        check(
            PackageManager::Gem,
            "bin/ruby",
            &[(
                "lib/ruby/3.2.0/rubygems/defaults.rb",
                "  def self.default_sources\n    @default_sources ||= %w[https://a.test/]\n  end\n",
            )],
            &["a.test"],
        );
        check(
            PackageManager::Cargo,
            "bin/cargo",
            &[
                ("bin/cargo", "\0rustup\0"),
                (
                    "home/.rustup/toolchains/stable/bin/cargo",
                    "\0sparse+https://{}/sparse+https://hints\0sparse+https://index.a.test/~\0",
                ),
            ],
            &["index.a.test"],
        );
        check(
            PackageManager::Uv,
            "bin/uv",
            &[("bin/uv", "https://docs.test/x\0https://a.test/simple\0")],
            &["a.test"],
        );
    }

    #[test]
    fn default_registry_of_missing_client_is_unknown() {
        for manager in [PackageManager::Npm, PackageManager::Go, PackageManager::Cargo] {
            check(manager, "bin/other", &[], &[]);
        }
    }
}
