//! Programs that tests run: searched, installed where possible, and listed where not.
//!
//! No test is skipped because a program is missing. It fails, and the notes printed here say what
//! to install.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::repository;

/// How to check that it exists, the Debian package that contains it, and which tests need it.
type RequiredProgram = (&'static [&'static str], &'static str, &'static str);

const PROGRAMS: &[RequiredProgram] = &[
    (&["git", "--version"], "git", "tests that look at a real repository"),
    (&["cc", "--version"], "gcc", "tests that build programs"),
    (&["make", "--version"], "make", "tests that build programs"),
    (&["python3", "--version"], "python3", "tests that run scripts"),
    (&["python3", "-c", "import venv, ensurepip"], "python3-venv", "tests that run scripts"),
    (&["node", "--version"], "nodejs", "tests that run scripts"),
    (&["go", "version"], "golang-go", "the test of the example in Go"),
    (&["curl", "--version"], "curl", "tests of whom commands reach"),
    (&["wget", "--version"], "wget", "tests of whom commands reach"),
    (&["npm", "--version"], "npm", "tests of whom package managers reach"),
    (&["pip", "--version"], "python3-pip", "tests of whom package managers reach"),
    (&["perl", "--version"], "perl", "tests of processes that fork without end"),
    (&["clangd", "--version"], "clangd", "tests of language servers"),
    (&["tmux", "-V"], "tmux", "tests of the screen of a chat"),
    (
        &["sh", "-c", "initdb --version || ls /usr/lib/postgresql/*/bin/initdb"],
        "postgresql",
        "tests of stores in Postgres",
    ),
    (
        &["sh", "-c", "nats-server --version || /usr/sbin/nats-server --version"],
        "nats-server",
        "tests of gateways that share a bus",
    ),
    (&["pgbouncer", "--version"], "pgbouncer", "tests of stores in Postgres behind a pooler"),
    (&["chromium", "--version"], "chromium", "tests of the web console"),
    #[cfg(target_os = "linux")]
    (&["bwrap", "--version"], "bubblewrap", "tests of the sandbox"),
    #[cfg(target_os = "linux")]
    (&["pgrep", "--version"], "procps", "tests of what commands leave behind"),
    #[cfg(target_os = "linux")]
    (&["unshare", "--version"], "util-linux", "tests of full and read-only disks"),
    #[cfg(target_os = "linux")]
    (&["mount", "--version"], "mount", "tests of full and read-only disks"),
    #[cfg(target_os = "linux")]
    (&["dpkg-deb", "--version"], "dpkg", "tests of the packages"),
    #[cfg(target_os = "linux")]
    (&["rpm", "--version"], "rpm", "tests of the packages"),
    #[cfg(target_os = "linux")]
    (&["strip", "--version"], "binutils", "tests of the packages"),
    #[cfg(target_os = "linux")]
    (&["systemd-analyze", "--version"], "systemd", "tests of the units of the gateway"),
    #[cfg(target_os = "linux")]
    (&["minisign", "-v"], "minisign", "tests of signed releases"),
    #[cfg(target_os = "linux")]
    (&["setpriv", "--version"], "util-linux", "tests of what another user may do, as root"),
    #[cfg(target_os = "linux")]
    (&["script", "--version"], "bsdutils", "tests of questions on a terminal"),
];

/// Language servers and a terminal from npm: what tests need of each, and its packages. They are
/// installed beside the build, so that nothing else on the machine changes.
const NPM_PROGRAMS: &[(&str, &[&str])] = &[
    (".bin/pyright-langserver", &["pyright@1.1.414"]),
    (".bin/typescript-language-server", &["typescript-language-server@5.3.0", "typescript@5.9.3"]),
    ("@xterm/headless", &["@xterm/headless@6.0.0"]),
];
/// The sources of the web console. Its packages are those of its lock file.
const CONSOLE_FOLDER: &str = "console";
/// Where they are installed, and the alternative if the repository is in `/tmp`, which sandboxed
/// programs cannot see.
const BUILD_NPM_FOLDER: &str = "target/language-servers";
const FALLBACK_NPM_FOLDER: &str = "/var/tmp/zero-language-servers";

/// Installs missing programs as far as possible, and prints what is still missing.
pub(crate) fn ensure() {
    ensure_system();
    let root = repository::root();
    match root.canonicalize().is_ok_and(|root| root.starts_with("/tmp")) {
        true => ensure_by_npm(Path::new(FALLBACK_NPM_FOLDER)),
        false => ensure_by_npm(&root.join(BUILD_NPM_FOLDER)),
    }
    ensure_console_packages(&root.join(CONSOLE_FOLDER));
}

/// Installs the packages of the console, unless those of its lock file are there.
fn ensure_console_packages(folder: &Path) {
    let changed = |file: &str| folder.join(file).metadata().and_then(|it| it.modified()).ok();
    let installed = changed("node_modules/.package-lock.json");
    if installed.is_some() && installed >= changed("package-lock.json") {
        return;
    }
    eprintln!("== npm ci --prefix {CONSOLE_FOLDER}");
    let mut npm = Command::new("npm");
    npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error", "--prefix"]);
    let message = match npm.arg(folder).stdin(Stdio::null()).output() {
        Ok(output) if output.status.success() => return,
        Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned(),
        Err(error) => error.to_string(),
    };
    eprint!("{message}");
    eprintln!(
        "note: tests of the web console will fail; they need `npm ci --prefix {}`",
        folder.display()
    );
}

fn ensure_by_npm(folder: &Path) {
    let is_missing =
        |(program, _): &&(&str, &[&str])| !folder.join("node_modules").join(program).exists();
    let missing: Vec<&(&str, &[&str])> = NPM_PROGRAMS.iter().filter(is_missing).collect();
    if missing.is_empty() {
        return;
    }
    // All of them: npm would remove packages that are not named.
    let packages: Vec<&str> =
        NPM_PROGRAMS.iter().flat_map(|(_, packages)| packages.iter().copied()).collect();
    eprintln!("== npm install {}", packages.join(" "));
    let mut npm = Command::new("npm");
    npm.args(["install", "--no-save", "--no-audit", "--no-fund", "--loglevel=error", "--prefix"]);
    npm.arg(folder).args(&packages).stdin(Stdio::null());
    let made = std::fs::create_dir_all(folder);
    let message = match made.and_then(|()| npm.output()) {
        Ok(output) if output.status.success() => return,
        Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned(),
        Err(error) => error.to_string(),
    };
    eprint!("{message}");
    for (program, packages) in missing {
        eprintln!(
            "note: there is no `{program}`: tests that use it will fail; they need `npm install --no-save --prefix {} {}`",
            folder.display(),
            packages.join(" ")
        );
    }
}

fn ensure_system() {
    let packages = package_names(&find_missing());
    if !packages.is_empty() && can_install() {
        eprintln!("== apt-get install {}", packages.join(" "));
        install(&packages);
    }
    let missing = find_missing();
    for (probe, package, what) in &missing {
        eprintln!("note: `{}` fails: {what} will fail; they need `{package}`", probe.join(" "));
    }
    if !missing.is_empty() {
        let packages = self::package_names(&missing).join(" ");
        eprintln!("note: to install it all: apt-get install {packages} (as root; names of Debian)");
    }
}

fn find_missing() -> Vec<&'static RequiredProgram> {
    let is_missing = |(probe, ..): &&RequiredProgram| match probe {
        [program, args @ ..] => !is_available(Command::new(program).args(args)),
        [] => false,
    };
    PROGRAMS.iter().filter(is_missing).collect()
}

fn package_names(programs: &[&RequiredProgram]) -> Vec<&'static str> {
    let mut packages: Vec<&str> = programs.iter().map(|(_, package, _)| *package).collect();
    packages.sort_unstable();
    packages.dedup();
    packages
}

/// Only root installs, and only where the package manager is known. No password is asked for.
fn can_install() -> bool {
    let id = Command::new("id").arg("-u").output();
    let is_root = id.is_ok_and(|id| id.stdout.trim_ascii() == b"0");
    is_root && is_available(Command::new("apt-get").arg("--version"))
}

/// Prints the error if something fails, most often that the package server cannot be reached.
fn install(packages: &[&str]) {
    let steps =
        [vec!["update"], [&["install", "-y", "--no-install-recommends"], packages].concat()];
    for step in steps {
        // A server that does not answer must not block everything.
        let patience = ["-q", "-o", "Acquire::Retries=1", "-o", "Acquire::http::Timeout=20"];
        let mut apt = Command::new("apt-get");
        apt.args(patience).args(&step).env("DEBIAN_FRONTEND", "noninteractive");
        let (message, done) = match apt.stdin(Stdio::null()).output() {
            Ok(output) => ([output.stdout, output.stderr].concat(), output.status.success()),
            Err(error) => (error.to_string().into_bytes(), false),
        };
        if !done {
            eprint!("{}", String::from_utf8_lossy(&message));
            eprintln!("note: `apt-get {}` failed; is there a way to the packages?", step.join(" "));
        }
    }
}

/// Whether a program exists and can be run.
pub(crate) fn is_available(command: &mut Command) -> bool {
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}
