//! The hosts from which package managers download, as configuration files name them.
//!
//! Only lines that name a registry are looked at, and only their hosts leave this module: these files
//! often contain credentials. If nothing is configured, the installed package manager says what it uses
//! by default ([`super::default_registries`]).
//!
//! Commands do not see those files of the home folder that may contain credentials. The registries in
//! them reach package managers as variables: [`registry_variables`].

use std::path::{Path, PathBuf};

use zero_policy::{HostName, PackageManager, registry_addresses};
use zero_sandbox::path_survey;

/// Parts of the names of variables whose registries are used besides the default one.
const ADDITIONAL: [&str; 3] = ["_EXTRA_", "_FIND_LINKS", "CARGO_REGISTRIES_"];
/// Largest configuration file that is read.
const CONFIG_BYTES_MAX: u64 = 256 * 1024;
/// Largest lock file that is read.
const LOCK_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// Most hosts of one command. A longer list is not reviewed.
const HOSTS_MAX: usize = 8;
/// Longest line and longest address that are looked at; others name no registry.
const LINE_BYTES_MAX: usize = 4096;
const ADDRESS_BYTES_MAX: usize = 512;
/// Most folders above the working folder that are looked into.
const FOLDERS_MAX: usize = 32;
/// Most files of a folder of configuration files.
const LISTED_MAX: usize = 64;

/// Where a package manager reads its configuration.
#[derive(Clone, Copy)]
enum ConfigLocation {
    /// In the working folder or the nearest folder above it that has one.
    Project,
    /// In the working folder and all folders above it.
    EachParent,
    /// In the home folder.
    Home,
    /// At this path.
    Machine,
    /// The files of this folder.
    MachineFolder,
}

/// A file that names registries, and the texts of which one is in each line that does. After `^`, a
/// text is at the beginning of the line.
struct ConfigSource {
    manager: PackageManager,
    location: ConfigLocation,
    path: &'static str,
    marks: &'static [&'static str],
    /// Whether the package manager also downloads from its default host.
    is_additional: bool,
    /// Commands do not see the file. Its keys that name registries, with the variables by which a
    /// command gets them.
    variables: &'static [(&'static str, &'static str)],
}

impl ConfigSource {
    const fn hidden(self, variables: &'static [(&'static str, &'static str)]) -> Self {
        Self { variables, ..self }
    }

    const fn additional(self) -> Self {
        Self { is_additional: true, ..self }
    }
}

const fn source(
    manager: PackageManager,
    location: ConfigLocation,
    path: &'static str,
    marks: &'static [&'static str],
) -> ConfigSource {
    ConfigSource { manager, location, path, marks, is_additional: false, variables: &[] }
}

const PIP_MARKS: &[&str] = &["^index-url"];
const PIP_MORE: &[&str] = &["extra-index-url", "find-links"];
const PIP_VARIABLES: &[(&str, &str)] =
    &[("index-url", "PIP_INDEX_URL"), ("extra-index-url", "PIP_EXTRA_INDEX_URL")];
const NPM_VARIABLE: &str = "npm_config_registry";
const UV_MARKS: &[&str] = &["url = \"", "default-index", "registry = \""];
const CARGO_MARKS: &[&str] = &["registry = \""];
const CARGO_MORE: &[&str] = &["index = \""];

static SOURCES: &[ConfigSource] = {
    use ConfigLocation::{EachParent, Home, Machine, MachineFolder, Project};
    use PackageManager::{Apt, Cargo, Gem, Go, Maven, Npm, Pip, Uv};
    &[
        source(Npm, Project, ".npmrc", &["^registry"]),
        source(Npm, Project, ".npmrc", &[":registry"]).additional(),
        source(Npm, Home, ".npmrc", &["^registry"]).hidden(&[("registry", NPM_VARIABLE)]),
        source(Npm, Project, "package-lock.json", &["\"resolved\":"]),
        source(Npm, Project, "npm-shrinkwrap.json", &["\"resolved\":"]),
        source(Pip, Machine, "/etc/pip.conf", PIP_MARKS),
        source(Pip, Machine, "/etc/pip.conf", PIP_MORE).additional(),
        source(Pip, Home, ".pip/pip.conf", PIP_MARKS).hidden(PIP_VARIABLES),
        source(Pip, Home, ".pip/pip.conf", PIP_MORE).additional(),
        source(Pip, Home, ".config/pip/pip.conf", PIP_MARKS).hidden(PIP_VARIABLES),
        source(Pip, Home, ".config/pip/pip.conf", PIP_MORE).additional(),
        source(Pip, Project, "requirements.txt", &["^--index-url", "^-i"]),
        source(Pip, Project, "requirements.txt", PIP_MORE).additional(),
        source(Uv, Project, "uv.toml", UV_MARKS),
        source(Uv, Project, "pyproject.toml", UV_MARKS),
        source(Uv, Project, "uv.lock", UV_MARKS),
        source(Uv, Home, ".config/uv/uv.toml", UV_MARKS),
        source(Uv, Machine, "/etc/uv/uv.toml", UV_MARKS),
        source(Cargo, EachParent, ".cargo/config.toml", CARGO_MARKS),
        source(Cargo, EachParent, ".cargo/config", CARGO_MARKS),
        source(Cargo, Home, ".cargo/config.toml", CARGO_MARKS),
        source(Cargo, EachParent, ".cargo/config.toml", CARGO_MORE).additional(),
        source(Cargo, EachParent, ".cargo/config", CARGO_MORE).additional(),
        source(Cargo, Home, ".cargo/config.toml", CARGO_MORE).additional(),
        source(Cargo, Project, "Cargo.lock", &["source = \"git+", "source = \"sparse+"])
            .additional(),
        source(Go, Home, ".config/go/env", &["GOPROXY="]),
        source(Maven, Project, ".mvn/settings.xml", &["<url>"]),
        source(Maven, Home, ".m2/settings.xml", &["<url>"]),
        source(Gem, Project, "Gemfile", &["source"]),
        source(Apt, Machine, "/etc/apt/sources.list", &["deb"]),
        source(Apt, MachineFolder, "/etc/apt/sources.list.d", &["deb", "URIs:"]),
    ]
};

/// The hosts that the configuration for a command in `folder` names, each once. `variables` are those
/// that the command gets; `find_default` returns the hosts that the package manager uses if none is
/// configured.
pub(crate) fn find_hosts(
    manager: PackageManager,
    folder: &Path,
    home: Option<&Path>,
    variables: &[(String, String)],
    find_default: impl FnOnce() -> Vec<HostName>,
) -> Vec<HostName> {
    let mut hosts = Vec::new();
    let of_manager = |name: &str| PackageManager::from_registry_variable(name) == Some(manager);
    let variables: Vec<_> = variables.iter().filter(|(name, _)| of_manager(name)).collect();
    for (_, value) in &variables {
        let addresses = registry_addresses(value).filter(|it| it.starts_with("http"));
        for address in addresses.filter(|it| it.len() <= ADDRESS_BYTES_MAX) {
            add_host(HostName::parse(address).ok(), &mut hosts);
        }
    }
    let is_additional =
        |name: &str| name == "UV_INDEX" || ADDITIONAL.iter().any(|part| name.contains(part));
    let mut is_default_used =
        hosts.is_empty() || variables.iter().all(|(name, _)| is_additional(name));
    // Go takes nothing from its file then.
    if manager == PackageManager::Go && !variables.is_empty() {
        return hosts;
    }
    for source in SOURCES.iter().filter(|source| source.manager == manager) {
        for path in source.list_paths(folder, home) {
            let bytes = path_survey::read_small_file(&path, source.bytes_max());
            let Some(bytes) = bytes else { continue };
            let before = hosts.len();
            collect_hosts(&String::from_utf8_lossy(&bytes), source.marks, &mut hosts);
            is_default_used &= source.is_additional || hosts.len() == before;
        }
    }
    if !is_default_used {
        return hosts;
    }
    let configured = hosts.len();
    // Where no registry is configured, Cargo has noted the one that it used.
    if manager == PackageManager::Cargo {
        let index = home.map(|home| home.join(".cargo/registry/index"));
        for entry in index.iter().flat_map(|index| list_folder(index)) {
            let config = path_survey::read_small_file(&entry.join("config.json"), CONFIG_BYTES_MAX);
            let config: Option<serde_json::Value> =
                config.and_then(|bytes| serde_json::from_slice(&bytes).ok());
            let download = config.as_ref().and_then(|config| config.get("dl")?.as_str());
            add_host(download.and_then(|address| HostName::parse(address).ok()), &mut hosts);
            // The folder is named after the host of the index.
            let name = entry.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let host = name.rsplit_once('-').and_then(|(host, _)| HostName::from_host(host).ok());
            add_host(host.filter(|host| host.to_string().contains('.')), &mut hosts);
        }
    }
    if hosts.len() == configured {
        find_default().into_iter().for_each(|host| add_host(Some(host), &mut hosts));
    }
    hosts
}

/// The hosts of package registries that files of a project name. Links are not followed, and nothing
/// outside the project is read.
pub fn project_registry_hosts(manager: PackageManager, root: &Path) -> Vec<HostName> {
    let mut hosts = Vec::new();
    let is_of_project = |source: &&ConfigSource| {
        source.manager == manager
            && matches!(source.location, ConfigLocation::Project | ConfigLocation::EachParent)
    };
    for source in SOURCES.iter().filter(is_of_project) {
        let path = Path::new(source.path);
        let bytes = path_survey::read_small_file_beneath(root, path, source.bytes_max());
        let text = bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        collect_hosts(&text.unwrap_or_default(), source.marks, &mut hosts);
    }
    hosts
}

impl ConfigSource {
    /// Largest file that is read.
    fn bytes_max(&self) -> u64 {
        match self.path.contains("lock") || self.path.contains("shrinkwrap") {
            true => LOCK_BYTES_MAX,
            false => CONFIG_BYTES_MAX,
        }
    }

    fn list_paths(&self, folder: &Path, home: Option<&Path>) -> Vec<PathBuf> {
        let above = || folder.ancestors().take(FOLDERS_MAX).map(|folder| folder.join(self.path));
        match self.location {
            ConfigLocation::Project => {
                above().find(|path| path_survey::exists(path)).into_iter().collect()
            }
            ConfigLocation::EachParent => above().collect(),
            ConfigLocation::Home => home.map(|home| home.join(self.path)).into_iter().collect(),
            ConfigLocation::Machine => vec![PathBuf::from(self.path)],
            ConfigLocation::MachineFolder => list_folder(Path::new(self.path)),
        }
    }
}

/// Variables with the registries of configuration files that commands do not see. An address with a
/// password is left out.
pub(crate) fn registry_variables(home: &Path) -> Vec<(&'static str, String)> {
    let mut variables: Vec<(&'static str, String)> = Vec::new();
    for source in SOURCES.iter().filter(|source| !source.variables.is_empty()) {
        let file = path_survey::read_small_file(&home.join(source.path), CONFIG_BYTES_MAX);
        let text = file.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        for (key, value) in text.iter().flat_map(|text| read_values(text)) {
            let Some((_, variable)) = source.variables.iter().find(|(known, _)| *known == key)
            else {
                continue;
            };
            let addresses: Vec<&str> = value.split_whitespace().filter(|it| is_plain(it)).collect();
            let addresses = addresses.get(..HOSTS_MAX).unwrap_or(&addresses).join(" ");
            if addresses.is_empty() {
                continue;
            }
            match variables.iter_mut().find(|(known, _)| known == variable) {
                // The last one counts.
                Some((_, value)) => *value = addresses,
                None => variables.push((variable, addresses)),
            }
        }
    }
    variables
}

/// The keys and values of a configuration file. A value continues on lines that are indented.
fn read_values(text: &str) -> Vec<(String, String)> {
    let mut values: Vec<(String, String)> = Vec::new();
    for line in text.lines().filter(|line| line.len() <= LINE_BYTES_MAX) {
        if line.trim_start().starts_with(['#', ';']) {
            continue;
        }
        let is_more = line.starts_with([' ', '\t']) && !line.contains(" = ");
        match (values.last_mut(), line.split_once('=')) {
            (Some((_, value)), _) if is_more && value.len() <= LINE_BYTES_MAX => {
                value.push(' ');
                value.push_str(line.trim());
            }
            (_, Some((key, value))) => {
                values.push((key.trim().to_owned(), value.trim().to_owned()));
            }
            // A section, or a switch. Lines indented below it belong to it.
            _ => values.push((line.trim().to_owned(), String::new())),
        }
    }
    values
}

/// Whether an address has no password or variable, and can be passed on.
fn is_plain(address: &str) -> bool {
    address.len() <= ADDRESS_BYTES_MAX
        && address.starts_with("http")
        && !address.contains(['@', '$'])
        && HostName::parse(address).is_ok()
}

/// Whether a project has registries of its own for a variable, which would override them: npm takes
/// `.npmrc` of a project before that of the user, and pip that of a virtual environment.
pub(crate) fn is_set_by_project(variable: &str, folder: &Path, home: Option<&Path>) -> bool {
    let above = || {
        let above = folder.ancestors().take(FOLDERS_MAX);
        above.take_while(|folder| Some(*folder) != home)
    };
    let names_registry = |path: PathBuf| {
        let text = path_survey::read_small_file(&path, CONFIG_BYTES_MAX);
        // A file that is there and cannot be read may name one.
        text.map_or_else(
            || path_survey::exists(&path),
            |bytes| {
                let text = String::from_utf8_lossy(&bytes).into_owned();
                text.lines().any(|line| line.trim_start().starts_with("registry"))
            },
        )
    };
    match variable {
        NPM_VARIABLE => above().any(|folder| names_registry(folder.join(".npmrc"))),
        _ => above().any(|folder| {
            [".venv/pip.conf", "venv/pip.conf"]
                .iter()
                .any(|path| path_survey::exists(&folder.join(path)))
        }),
    }
}

fn list_folder(folder: &Path) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    path_survey::scan_folder(folder, LISTED_MAX, |name, _| paths.push(folder.join(name)));
    paths.sort_unstable();
    paths
}

/// Adds the hosts of all addresses in the lines that contain one of the marks.
fn collect_hosts(text: &str, marks: &[&str], hosts: &mut Vec<HostName>) {
    let is_comment = |line: &str| line.starts_with(['#', ';']) || line.starts_with("//");
    let lines = text.lines().map(str::trim).filter(|line| !is_comment(line));
    let marks: Vec<String> = marks.iter().map(|mark| squeeze(mark)).collect();
    let is_marked = |line: &&str| {
        let line = squeeze(line);
        marks.iter().any(|mark| match mark.strip_prefix('^') {
            Some(start) => line.starts_with(start),
            None => line.contains(mark),
        })
    };
    for line in lines.filter(|line| line.len() <= LINE_BYTES_MAX).filter(is_marked) {
        if hosts.len() >= HOSTS_MAX {
            return;
        }
        let begins_word = |at: &usize| {
            !line.get(..*at).is_some_and(|before| before.ends_with(|it: char| it.is_alphanumeric()))
        };
        let starts = line.match_indices("http").map(|(at, _)| at).filter(begins_word);
        for address in starts.filter_map(|at| line.get(at..)) {
            let is_end = |letter: char| letter.is_whitespace() || "\"'<>,;{}[]|".contains(letter);
            if !address.starts_with("http://") && !address.starts_with("https://") {
                continue;
            }
            let address = address.split(is_end).next().unwrap_or_default();
            let address = Some(address).filter(|address| address.len() <= ADDRESS_BYTES_MAX);
            add_host(address.and_then(|address| HostName::parse(address).ok()), hosts);
        }
    }
}

/// A line without blanks and with one kind of quotes: `url = 'x'` and `url="x"` mean the same.
fn squeeze(line: &str) -> String {
    line.chars().filter(|c| !c.is_whitespace()).map(|c| if c == '\'' { '"' } else { c }).collect()
}

fn add_host(host: Option<HostName>, hosts: &mut Vec<HostName>) {
    if let Some(host) = host
        && hosts.len() < HOSTS_MAX
        && !hosts.contains(&host)
    {
        hosts.push(host);
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests create real files")]
mod tests {
    use super::*;

    #[track_caller]
    fn check(manager: PackageManager, files: &[(&str, &str)], expected: &[&str]) {
        check_with(manager, files, &[], expected);
    }

    #[track_caller]
    fn check_with(
        manager: PackageManager,
        files: &[(&str, &str)],
        variables: &[(&str, &str)],
        expected: &[&str],
    ) {
        let temp = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = temp.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let folder = temp.path().join("home/work/crate");
        std::fs::create_dir_all(&folder).unwrap();
        let variables = variables.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        let variables: Vec<(String, String)> = variables.collect();
        let hosts =
            find_hosts(manager, &folder, Some(&temp.path().join("home")), &variables, || {
                vec![HostName::from_host("default.test").unwrap()]
            });
        let hosts: Vec<String> = hosts.iter().map(ToString::to_string).collect();
        assert_eq!(hosts, expected, "{manager:?} {files:?}");
    }

    #[test]
    fn hosts_of_configured_registries_are_found() {
        check(
            PackageManager::Npm,
            &[
                (
                    "home/work/.npmrc",
                    "# registry=https://no.test/\nregistry = https://a.test/npm/\n\
                     @me:registry=https://Me:secret@b.test:8443/\n//b.test/:_authToken=x\n",
                ),
                ("home/.npmrc", "fund=false\nregistry=https://c.test\n"),
                (
                    "home/work/package-lock.json",
                    "  \"resolved\": \"https://d.test/x/-/x-1.tgz\",\n\
                     \"funding\": {\"url\": \"https://no.test/\"}\n\
                     \"resolved\": \"https://a.test/y.tgz\"\n",
                ),
            ],
            &["a.test", "b.test", "c.test", "d.test"],
        );
        check(
            PackageManager::Uv,
            &[
                (
                    "home/work/crate/pyproject.toml",
                    "[project.urls]\nHomepage = \"https://no.test\"\n\
                     [[tool.uv.index]]\nurl = \"https://a.test/simple\"\n",
                ),
                (
                    "home/work/crate/uv.lock",
                    "source = { registry = \"https://b.test/simple\" }\n\
                     wheels = [\n{ url = \"https://c.test/x.whl\", hash = \"x\" },\n",
                ),
            ],
            &["a.test", "b.test", "c.test"],
        );
        check(
            PackageManager::Cargo,
            &[
                (
                    "home/work/.cargo/config.toml",
                    "[source.mirror]\nregistry = \"sparse+https://a.test/index/\"\n",
                ),
                ("home/work/Cargo.lock", "source = \"git+https://b.test/x?rev=1#1\"\n"),
            ],
            &["a.test", "b.test"],
        );
        check(
            PackageManager::Cargo,
            &[(
                "home/.cargo/registry/index/index.test-0123456789abcdef/config.json",
                "{\"dl\": \"https://dl.test/crates\", \"api\": \"https://no.test\"}",
            )],
            &["dl.test", "index.test"],
        );
        check(
            PackageManager::Go,
            &[("home/.config/go/env", "GOPROXY=https://a.test,https://b.test|direct\n")],
            &["a.test", "b.test"],
        );
        check(
            PackageManager::Maven,
            &[("home/work/.mvn/settings.xml", "<mirror><url>https://a.test/m2</url></mirror>")],
            &["a.test"],
        );
        // Blanks and the kind of quotes do not matter.
        let index =
            "[[index]]\nurl='https://a.test/simple'\n[[index]]\nurl  =\t\"https://b.test\"\n";
        check(PackageManager::Uv, &[("home/work/uv.toml", index)], &["a.test", "b.test"]);
        let mirror = "[registries]\nmine={index='sparse+https://a.test/index/'}\n";
        let config = [("home/work/.cargo/config.toml", mirror)];
        check(PackageManager::Cargo, &config, &["a.test", "default.test"]);
        let gems = "source 'https://a.test'\ngem 'x', '1.0' # https://no.test\n";
        check(PackageManager::Gem, &[("home/work/Gemfile", gems)], &["a.test"]);
    }

    #[test]
    fn default_registry_is_used_besides_additional_ones() {
        use PackageManager::{Cargo, Npm, Pip};
        check(Npm, &[], &["default.test"]);
        let scoped = "@me:registry=https://a.test/\n";
        check(Npm, &[("home/work/.npmrc", scoped)], &["a.test", "default.test"]);
        let both = "registry=https://b.test/\n@me:registry=https://a.test/\n";
        check(Npm, &[("home/work/.npmrc", both)], &["b.test", "a.test"]);
        let git = "source = \"git+https://a.test/x?rev=1#1\"\n";
        check(Cargo, &[("home/work/Cargo.lock", git)], &["a.test", "default.test"]);
        let extra = "--extra-index-url https://a.test/simple\nx==1\n";
        check(Pip, &[("home/work/requirements.txt", extra)], &["a.test", "default.test"]);
        let only = "--index-url https://a.test/simple\nx==1\n";
        check(Pip, &[("home/work/requirements.txt", only)], &["a.test"]);
    }

    #[test]
    fn variables_name_registries() {
        use PackageManager::{Cargo, Go, Pip};
        let file = [("home/.config/pip/pip.conf", "[global]\nindex-url = https://b.test/s\n")];
        let pip = [("PIP_INDEX_URL", "https://a.test/simple"), ("UV_INDEX_URL", "https://c.test")];
        check_with(Pip, &file, &pip, &["a.test", "b.test"]);
        let file = [("home/.config/go/env", "GOPROXY=https://b.test\n")];
        check_with(Go, &file, &[("GOPROXY", "https://a.test,direct")], &["a.test"]);
        check_with(Go, &file, &[("GOPROXY", "off")], &[]);
        let index = [("CARGO_REGISTRIES_TEAM_INDEX", "sparse+https://a.test:8443/index/")];
        check_with(Cargo, &[], &index, &["a.test", "default.test"]);
        let more = [("PIP_EXTRA_INDEX_URL", "https://a.test/simple")];
        check_with(Pip, &[], &more, &["a.test", "default.test"]);
    }

    #[test]
    fn hidden_registry_becomes_variable_without_password() {
        #[track_caller]
        fn check(path: &str, text: &str, expected: &[(&str, &str)]) {
            let temp = tempfile::tempdir().unwrap();
            let path = temp.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
            let variables = registry_variables(temp.path());
            let found: Vec<(&str, &str)> =
                variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
            assert_eq!(found, expected, "{text}");
        }
        let npm = "registry=https://a.test/npm/\n//a.test/npm/:_authToken=secret\n";
        check(".npmrc", npm, &[("npm_config_registry", "https://a.test/npm/")]);
        check(".npmrc", "registry=https://me:secret@a.test/\n@x:registry=https://b.test\n", &[]);
        check(".npmrc", "registry=${URL}\nregistry=https://${HOST}/\n", &[]);
        let pip = "[global]\nindex-url = https://a.test/simple\nextra-index-url = https://b.test\n";
        check(
            ".config/pip/pip.conf",
            pip,
            &[
                ("PIP_INDEX_URL", "https://a.test/simple"),
                ("PIP_EXTRA_INDEX_URL", "https://b.test"),
            ],
        );
        // Several in one line, or each in its own.
        for several in [
            "extra-index-url = https://a.test/s https://me:secret@b.test https://c.test\n",
            "extra-index-url =\n    https://a.test/s\n  # no\n    https://c.test\nno = https://d.test\n",
        ] {
            let expected = [("PIP_EXTRA_INDEX_URL", "https://a.test/s https://c.test")];
            check(".pip/pip.conf", several, &expected);
        }
        // Neither length nor number is that of the file.
        let long = format!("index-url = https://a.test/{}\n", "x".repeat(600));
        check(".pip/pip.conf", &long, &[]);
        let many: String = (0..100).map(|number| format!(" https://h{number}.test")).collect();
        let first: Vec<String> = (0..8).map(|number| format!("https://h{number}.test")).collect();
        let expected = [("PIP_EXTRA_INDEX_URL", &*first.join(" "))];
        check(".pip/pip.conf", &format!("extra-index-url ={many}\n"), &expected);
        let twice = "registry=https://a.test\n".repeat(1_000);
        check(".npmrc", &twice, &[("npm_config_registry", "https://a.test")]);
    }

    #[test]
    fn hostile_configuration_names_few_plain_hosts() {
        let many: String =
            (0..1_000).map(|number| format!("registry=https://h{number}.test/\n")).collect();
        let expected: Vec<String> = (0..8).map(|number| format!("h{number}.test")).collect();
        let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
        check(PackageManager::Npm, &[("home/work/.npmrc", &many)], &expected);
        let odd = "registry=https://a.test\u{202e}.b/\nregistry=https://${HOST}/\n\
                   registry=https://a b.test\nregistry=http://\nregistry=httpshttps://x\n";
        check(PackageManager::Npm, &[("home/work/.npmrc", odd)], &["a"]);
        let large = format!("registry=https://a.test\n{}", "x".repeat(300_000));
        check(PackageManager::Npm, &[("home/work/.npmrc", &large)], &["default.test"]);
    }
}
