//! Installs each package as its users do, in a place that is clean, makes a call and removes it without a trace.
//!
//! The program is the one that the other tests run. A package that belongs to the whole machine is installed in a copy of
//! it: an overlay whose changes are in a temporary folder, where they can be looked at.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;

use serde_json::json;
use tempfile::TempDir;

use super::platform::Platform;
use super::program_build::BuiltProgram;
use super::program_tree::{ProgramTree, TreeFile};
use super::release_info::{PackingEffort, ReleaseFile, ReleaseInfo};
use super::release_sums::{SigningKey, sums_and_signature};
use super::{archive, deb, npm, rpm_package, wheel};
use crate::repository;

/// The call that each installed program makes, in a folder with the file.
const CALL: [&str; 4] = ["tools", "call", "Read", r#"{"file_path": "note.txt"}"#];
const NOTE: &str = "hello from a file";
const NO_DOCUMENTS: &str = "share/doc/zero/README.md";

impl ReleaseInfo {
    pub(super) fn for_test(version: &str) -> Self {
        Self {
            version: version.to_owned(),
            time: 1_700_000_000,
            maintainer: super::release_info::MAINTAINER.to_owned(),
            address: None,
            public_key: None,
            effort: PackingEffort::Fastest,
        }
    }
}

/// A program, its packages, and a folder to work in.
struct PackageTest {
    folder: TempDir,
    program: BuiltProgram,
    release: ReleaseInfo,
}

impl PackageTest {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        // Where cargo puts it, beside the folder with this test.
        let own = std::env::current_exe().unwrap();
        let built = own.ancestors().nth(2).unwrap().join("zero");
        assert!(built.exists(), "{} is missing; `cargo build -p zero` builds it", built.display());
        let program = folder.path().join("zero");
        let strip = Command::new("strip").arg("-o").arg(&program).arg(&built).status().unwrap();
        assert!(strip.success());
        std::fs::create_dir(folder.path().join("home")).unwrap();
        std::fs::write(folder.path().join("note.txt"), NOTE).unwrap();
        let version = super::release_info::workspace_version(&repository::root()).unwrap();
        let program = BuiltProgram::read(&program).unwrap();
        Self { folder, program, release: ReleaseInfo::for_test(&version) }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn tree(&self, method: &str) -> ProgramTree {
        let shared = [
            TreeFile::text(NO_DOCUMENTS, "zero"),
            TreeFile::text("share/man/man1/zero.1", ".TH zero 1"),
        ];
        ProgramTree::new(&self.program, &shared, &self.release, method)
    }

    fn write(&self, file: &ReleaseFile) -> PathBuf {
        let path = self.path(file.name.rsplit('/').next().unwrap());
        std::fs::write(&path, &file.content).unwrap();
        path
    }

    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        let path = std::env::var_os("PATH").unwrap();
        command.current_dir(self.folder.path()).env_clear().env("PATH", path);
        command.env("HOME", self.path("home")).env("LC_ALL", "C.UTF-8");
        command
    }

    /// Starts an installed program twice: its version, and a call.
    #[track_caller]
    fn use_program(&self, program: &Path) {
        let version = succeed(self.command(program).arg("--version"));
        assert_eq!(version.trim(), format!("zero {}", self.release.version));
        let read = succeed(self.command(program).args(CALL));
        assert!(read.contains(NOTE), "{read}");
    }

    /// Runs a script with root's rights in a copy of this machine, where it sees the test's folder. Returns what it printed
    /// and the new files that it left.
    #[track_caller]
    fn run_in_copy_of_machine(&self, script: &str) -> (String, BTreeSet<PathBuf>) {
        // Not in the folder of temporary files, which may be one that cannot be the upper half of an overlay.
        let layers = tempfile::tempdir_in("/var/tmp").unwrap();
        let own_folder = self.folder.path();
        // Folder by folder: a user may not overlay one that other file systems are mounted in, as `/` is.
        let setup = format!(
            "set -e; cd {0}; mkdir -p root/proc root/dev root/tmp root/run/systemd
            for name in usr etc var; do
                mkdir -p changed/$name work/$name root/$name
                mount -t overlay overlay -o lowerdir=/$name,upperdir=changed/$name,workdir=work/$name,userxattr root/$name
            done
            for name in bin sbin lib lib32 lib64 libx32; do
                if [ -L /$name ]; then
                    ln -s usr/$name root/$name
                elif [ -d /$name ]; then
                    mkdir root/$name; mount --rbind /$name root/$name
                fi
            done
            mount --rbind /proc root/proc; mount --rbind /dev root/dev
            mkdir -p root{1}; mount --bind {1} root{1}
            exec chroot root sh -c 'set -e; cd {1}; export HOME={1}/home; . {1}/script'",
            layers.path().display(),
            own_folder.display(),
        );
        std::fs::write(self.path("script"), script).unwrap();
        let output = self
            .command("unshare")
            .args(["--user", "--map-root-user", "--mount", "sh", "-c", &setup])
            .output()
            .unwrap();
        let printed = check_output(&output);
        let mut left = BTreeSet::new();
        collect_new(&layers.path().join("changed"), Path::new("/"), &mut left);
        left.retain(|path| !own_folder.starts_with(path) && !path.starts_with("/var"));
        (printed, left)
    }
}

/// What was not there before: an entry of the upper folder without one in the machine.
fn collect_new(changed: &Path, machine: &Path, left: &mut BTreeSet<PathBuf>) {
    for entry in std::fs::read_dir(changed).unwrap() {
        let entry = entry.unwrap();
        let path = machine.join(entry.file_name());
        let kind = entry.file_type().unwrap();
        let is_removal = !kind.is_dir() && !kind.is_file() && !kind.is_symlink();
        if !is_removal && path.symlink_metadata().is_err() {
            left.insert(path);
        } else if kind.is_dir() {
            collect_new(&entry.path(), &path, left);
        }
    }
}

#[track_caller]
fn check_output(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{}\n{out}\n{err}", output.status);
    out
}

#[track_caller]
fn succeed(command: &mut Command) -> String {
    check_output(&command.output().unwrap())
}

/// The message of a command that must fail.
#[track_caller]
fn fail(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(!output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// All files and folders below a folder.
fn list(folder: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let mut open = vec![folder.to_owned()];
    while let Some(next) = open.pop() {
        for entry in std::fs::read_dir(next).into_iter().flatten() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_dir() {
                open.push(entry.path());
            }
            found.insert(entry.path());
        }
    }
    found
}

/// Serves files over HTTP until the test ends. Returns its address.
fn serve(files: BTreeMap<String, Vec<u8>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let files = Arc::new(files);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let files = Arc::clone(&files);
            // A client that disconnects is not an error of the server.
            std::thread::spawn(move || answer(stream, &files));
        }
    });
    address
}

fn answer(stream: TcpStream, files: &BTreeMap<String, Vec<u8>>) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let request = lines.next().transpose()?.unwrap_or_default();
    for line in &mut lines {
        if line?.is_empty() {
            break;
        }
    }
    let path = request.split(' ').nth(1).unwrap_or_default().trim_start_matches('/');
    let (status, body) = match files.get(path) {
        Some(body) => ("200 OK", &body[..]),
        None => ("404 Not Found", &b"not here"[..]),
    };
    let mut stream = stream;
    write!(
        stream,
        "HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    )?;
    stream.write_all(body)
}

#[test]
fn deb_is_installed_used_and_purged_without_trace() {
    let test = PackageTest::new();
    let package =
        deb::build(&repository::root(), &test.tree("deb"), &test.program, &test.release).unwrap();
    let package = test.write(&package);
    let fields = succeed(test.command("dpkg-deb").arg("--info").arg(&package));
    let libc = format!("Depends: libc6 (>= {})", test.program.glibc);
    for field in
        [&libc, "Recommends: bubblewrap", "Maintainer: The zero contributors", "Installed-Size: "]
    {
        assert!(fields.contains(field), "{field} in {fields}");
    }
    let script = format!(
        "dpkg --no-triggers -i {0} > /dev/null
        systemd-analyze verify --man=no /usr/lib/systemd/system/zero-gateway.service 2>&1
        XDG_RUNTIME_DIR=/tmp systemd-analyze verify --user --man=no /usr/lib/systemd/user/zero-gateway.service 2>&1
        test -f /etc/apparmor.d/zero; gzip -t /usr/share/man/man1/zero.1.gz
        grep -q '\"method\": \"deb\"' /usr/share/zero/install.json
        /usr/bin/zero --version; /usr/bin/zero tools call Read '{1}'
        dpkg --no-triggers -P zero > /dev/null",
        package.display(),
        CALL[3],
    );
    let (printed, left) = test.run_in_copy_of_machine(&script);
    assert!(printed.contains(&test.release.version) && printed.contains(NOTE), "{printed}");
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn rpm_is_installed_used_and_erased_without_trace() {
    let test = PackageTest::new();
    let package =
        rpm_package::build(&repository::root(), &test.tree("rpm"), &test.program, &test.release)
            .unwrap();
    let package = test.write(&package);
    let query = |what: &str| succeed(test.command("rpm").args(["-qp", what]).arg(&package));
    assert!(
        query("--requires").contains(&format!("libc.so.6(GLIBC_{})(64bit)", test.program.glibc))
    );
    assert!(query("--recommends").contains("bubblewrap"));
    assert_eq!(query("--configfiles").trim(), "/etc/apparmor.d/zero");
    succeed(test.command("rpm").args(["-K", "--nosignature"]).arg(&package));
    // Without dependencies: on a machine of another kind, rpm knows no package that has the C library.
    let script = format!(
        "rpm -i --nodeps {0}
        rpm -V --nodeps zero
        grep -q '\"method\": \"rpm\"' /usr/share/zero/install.json
        /usr/bin/zero --version; /usr/bin/zero tools call Read '{1}'
        rpm -e --nodeps zero",
        package.display(),
        CALL[3],
    );
    let (printed, left) = test.run_in_copy_of_machine(&script);
    assert!(printed.contains(&test.release.version) && printed.contains(NOTE), "{printed}");
    assert!(left.is_empty(), "{left:?}");
}

/// What a registry of npm answers about packages.
fn npm_registry(
    packages: &[ReleaseFile],
    version: &str,
    dependencies: &[(&str, serde_json::Value)],
) -> String {
    // The address is in the documents, so the files are served under one that is known before.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let mut files = BTreeMap::new();
    for (package, (name, fields)) in packages.iter().zip(dependencies) {
        let tarball = format!("{name}.tgz");
        let mut document = json!({"name": name, "version": version, "dist": {"tarball": format!("{address}/{tarball}")}});
        document.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let about = json!({"name": name, "dist-tags": {"latest": version}, "versions": {version: document}});
        files.insert((*name).to_owned(), about.to_string().into_bytes());
        files.insert(tarball, package.content.clone());
    }
    let files = Arc::new(files);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let _ = answer(stream, &files);
        }
    });
    address
}

#[test]
fn npm_package_is_installed_used_and_removed_without_trace() {
    let test = PackageTest::new();
    let root = repository::root();
    let platform: &Platform = test.program.platform;
    let launcher = npm::launcher_package(&root, &[platform], &test.release).unwrap();
    let package = npm::platform_package(&root, &test.tree("npm"), platform, &test.release).unwrap();
    let version = &test.release.version;
    let name = npm::platform_name(platform);
    let registry = npm_registry(
        &[launcher, package],
        version,
        &[
            (
                "zero",
                json!({"bin": {"zero": "bin/zero.js"}, "optionalDependencies": {&name: version}}),
            ),
            (&name, json!({"os": ["linux"], "cpu": [platform.node]})),
        ],
    );
    let prefix = test.path("prefix");
    let npm = |args: &[&str]| {
        let mut npm = test.command("npm");
        npm.args(args)
            .arg("--global")
            .arg("--prefix")
            .arg(&prefix)
            .arg("--registry")
            .arg(&registry);
        succeed(npm.args(["--no-audit", "--no-fund", "--loglevel=error"]));
    };
    npm(&["install", "zero"]);
    let program = prefix.join("bin/zero");
    test.use_program(&program);
    let code = test.command(&program).args(["tools", "call", "Read", "{"]).status().unwrap().code();
    assert_eq!(code, Some(2), "the launcher keeps the exit code");
    // Without the package for the platform, it says what to do.
    let modules = prefix.join("lib/node_modules/zero/node_modules");
    std::fs::rename(modules.join(&name), test.path("elsewhere")).unwrap();
    let error = fail(test.command(&program).arg("--version"));
    assert!(error.contains(&format!("the npm package `{name}` is missing")), "{error}");
    std::fs::rename(test.path("elsewhere"), modules.join(&name)).unwrap();
    npm(&["uninstall", "zero"]);
    let left: Vec<PathBuf> = list(&prefix).into_iter().filter(|path| !path.is_dir()).collect();
    assert!(left.iter().all(|path| path.ends_with(".package-lock.json")), "{left:?}");
}

#[test]
fn wheel_is_installed_used_and_removed_without_trace() {
    let test = PackageTest::new();
    let package = wheel::build(&test.tree("pip"), &test.program, &test.release).unwrap();
    let package = test.write(&package);
    let venv = test.path("venv");
    succeed(test.command("python3").args(["-m", "venv"]).arg(&venv));
    let before = list(&venv);
    let pip = |args: &[&std::ffi::OsStr]| {
        let mut pip = test.command(venv.join("bin/python"));
        pip.args(["-B", "-m", "pip", "--disable-pip-version-check", "--no-input", "--quiet"])
            .args(args);
        succeed(&mut pip);
    };
    pip(&["install".as_ref(), "--no-index".as_ref(), package.as_ref()]);
    test.use_program(&venv.join("bin/zero"));
    let receipt = std::fs::read_to_string(venv.join("share/zero/install.json")).unwrap();
    assert!(receipt.contains("\"method\": \"pip\""), "{receipt}");
    pip(&["uninstall".as_ref(), "--yes".as_ref(), "zero".as_ref()]);
    let is_cache = |path: &&PathBuf| path.to_string_lossy().contains("__pycache__");
    let left: Vec<PathBuf> = list(&venv)
        .difference(&before)
        .filter(|path| path.is_file() && !is_cache(path))
        .cloned()
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

/// Contents by name, as a server has them.
type ServedFiles = BTreeMap<String, Vec<u8>>;

/// A release on a server of this machine.
struct ServedRelease {
    address: String,
    files: BTreeMap<String, Vec<u8>>,
}

fn serve_release(
    archive: ReleaseFile,
    release: &ReleaseInfo,
    key: Option<&SigningKey>,
) -> ServedRelease {
    let mut files = vec![archive];
    files.extend(sums_and_signature(&files, release, key).unwrap());
    let files: BTreeMap<String, Vec<u8>> =
        files.into_iter().map(|file| (file.name, file.content)).collect();
    ServedRelease { address: serve(files.clone()), files }
}

/// A release whose program is a few lines that print a version.
fn small_release(platform: &'static Platform, version: &str) -> (ReleaseFile, ReleaseInfo) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("zero");
    std::fs::write(&path, format!("#!/bin/sh\necho zero {version}\n")).unwrap();
    let release = ReleaseInfo::for_test(version);
    let program = BuiltProgram {
        content: std::fs::read(&path).unwrap(),
        path,
        platform,
        glibc: super::program_build::GlibcVersion { major: 2, minor: 28 },
        libraries: BTreeSet::new(),
    };
    let tree =
        ProgramTree::new(&program, &[TreeFile::text(NO_DOCUMENTS, "zero")], &release, "archive");
    (archive::release_archive(&tree, platform, &release).unwrap(), release)
}

fn this_platform() -> &'static Platform {
    super::platform::PLATFORMS.iter().find(|platform| platform.is_this_machine()).unwrap()
}

/// An installer in an environment with a home of its own.
fn installer(home: &Path, address: &str) -> Command {
    let mut command = Command::new("sh");
    command.arg(repository::root().join("packaging/install.sh")).args(["--from", address]);
    command
        .current_dir(home)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("HOME", home);
    command
}

#[test]
fn installer_installs_for_user_and_removes_without_trace() {
    let test = PackageTest::new();
    let archive =
        archive::release_archive(&test.tree("archive"), test.program.platform, &test.release)
            .unwrap();
    let key = signing_key(test.folder.path());
    let served = serve_release(archive, &test.release, Some(&key));
    let home = test.path("home");
    let mut install = installer(&home, &served.address);
    let printed = succeed(install.args(["--key", &key.public_key().unwrap()]));
    assert!(printed.contains("signature: valid"), "{printed}");
    assert!(printed.contains(&format!("installed zero {}", test.release.version)), "{printed}");
    let before: BTreeSet<PathBuf> = list(&home);
    test.use_program(&home.join(".local/bin/zero"));
    for path in list(&home).difference(&before) {
        if path.is_file() {
            std::fs::remove_file(path).unwrap();
        }
    }
    let mut remove = installer(&home, &served.address);
    succeed(remove.arg("--remove"));
    let left: Vec<PathBuf> = list(&home).into_iter().filter(|path| before.contains(path)).collect();
    assert!(left.iter().all(|path| path.ends_with(".local")), "{left:?}");
}

/// A new key without a password.
fn signing_key(folder: &Path) -> SigningKey {
    let path = folder.join("release.key");
    let pair = minisign::KeyPair::generate_unencrypted_keypair().unwrap();
    std::fs::write(&path, pair.sk.to_box(None).unwrap().into_string()).unwrap();
    SigningKey::read(&path).unwrap()
}

#[test]
fn installer_keeps_old_version_when_release_is_damaged() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let (old, release) = small_release(this_platform(), "1.0.0");
    let served = serve_release(old, &release, None);
    succeed(&mut installer(home, &served.address));
    let program = home.join(".local/bin/zero");
    let key = signing_key(home);
    let (new, release) = small_release(this_platform(), "1.1.0");
    let name = new.name.clone();
    let served = serve_release(new, &release, Some(&key));
    let damaged = |change: &dyn Fn(&mut ServedFiles)| {
        let mut files = served.files.clone();
        change(&mut files);
        serve(files)
    };
    let edit = |name: &str, change: fn(&mut Vec<u8>)| {
        let name = name.to_owned();
        damaged(&move |files| change(files.get_mut(&name).unwrap()))
    };
    let cases = [
        (edit(&name, |archive| archive.truncate(archive.len() / 2)), "is damaged or was changed"),
        (edit(&name, |archive| archive.push(0)), "is damaged or was changed"),
        (edit("SHA256SUMS", |sums| sums.push(b'\n')), "the signature of the sums is wrong"),
        (damaged(&|files| drop(files.remove("SHA256SUMS.minisig"))), "could not fetch"),
        (damaged(&|files| drop(files.remove(&name))), "could not fetch"),
        (edit("SHA256SUMS", Vec::clear), "the signature of the sums is wrong"),
        ("http://127.0.0.1:1".to_owned(), "could not fetch"),
        ("/missing/folder".to_owned(), "does not exist"),
    ];
    let before = list(home);
    for (address, expected) in cases {
        let error = fail(installer(home, &address).args(["--key", &key.public_key().unwrap()]));
        assert!(error.contains(expected), "{expected} in {error}");
        assert_eq!(succeed(&mut Command::new(&program)), "zero 1.0.0\n");
        assert_eq!(list(home), before, "{error}");
    }
    // A key that the user names is never ignored. Nothing needs to be fetched with these programs.
    let programs = home.join("programs");
    std::fs::create_dir(&programs).unwrap();
    for name in [
        "sh",
        "tar",
        "gzip",
        "sed",
        "uname",
        "mktemp",
        "mkdir",
        "rm",
        "cp",
        "cat",
        "head",
        "sha256sum",
    ] {
        let found = succeed(Command::new("sh").args(["-c", &format!("command -v {name}")]));
        std::os::unix::fs::symlink(found.trim(), programs.join(name)).unwrap();
    }
    let release = home.join("release");
    std::fs::create_dir(&release).unwrap();
    for (name, content) in &served.files {
        std::fs::write(release.join(name), content).unwrap();
    }
    let public = key.public_key().unwrap();
    for variable in [false, true] {
        let mut install = installer(home, release.to_str().unwrap());
        install.env("PATH", &programs);
        match variable {
            true => install.env("ZERO_RELEASE_KEY", &public),
            false => install.args(["--key", &public]),
        };
        let error = fail(&mut install);
        assert!(error.contains("minisign is not installed"), "{error}");
        assert_eq!(succeed(&mut Command::new(&program)), "zero 1.0.0\n");
    }
    // Another key than the one of the release.
    let other = signing_key(tempfile::tempdir().unwrap().path());
    let error =
        fail(installer(home, &served.address).args(["--key", &other.public_key().unwrap()]));
    assert!(error.contains("the signature of the sums is wrong"), "{error}");
    let printed =
        succeed(installer(home, &served.address).args(["--key", &key.public_key().unwrap()]));
    assert!(printed.contains("installed zero 1.1.0"), "{printed}");
    assert_eq!(succeed(&mut Command::new(&program)), "zero 1.1.0\n");
}

#[test]
fn installer_names_what_is_in_its_way() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let (archive, release) = small_release(this_platform(), "1.0.0");
    let served = serve_release(archive, &release, None);
    // No user can write there, root included.
    let error = fail(installer(home, &served.address).args(["--prefix", "/proc/zero"]));
    assert!(
        error.contains("/proc/zero cannot be made") && error.contains("--prefix FOLDER"),
        "{error}"
    );
    let error = fail(installer(home, &served.address).env("http_proxy", "http://127.0.0.1:1"));
    assert!(error.contains("through a proxy: http_proxy"), "{error}");
    let error = fail(installer(home, &served.address).args(["--version", "9.9.9"]));
    assert!(error.contains("has no version 9.9.9 of zero for"), "{error}");
    let error = fail(installer(home, "").env_remove("ZERO_RELEASE_ADDRESS"));
    assert!(error.contains("no address of a release is known"), "{error}");
    let error = fail(installer(home, &served.address).arg("--remove"));
    assert!(error.contains("no zero of this installer is in"), "{error}");
    let error = fail(installer(home, &served.address).env_remove("HOME"));
    assert!(error.contains("HOME is not set"), "{error}");
    // A program that does not start: for another C library, say.
    let mut files = served.files.clone();
    let name = files.keys().find(|name| name.ends_with(".gz")).unwrap().clone();
    let broken = ReleaseFile::new(name, unusable_archive(&release));
    let mut all = vec![broken];
    all.extend(sums_and_signature(&all, &release, None).unwrap());
    files.extend(all.into_iter().map(|file| (file.name, file.content)));
    let error = fail(&mut installer(home, &serve(files)));
    assert!(error.contains("the program does not run on this machine"), "{error}");
    assert!(list(home).iter().all(|path| !path.ends_with("zero")), "{:?}", list(home));
}

fn unusable_archive(release: &ReleaseInfo) -> Vec<u8> {
    let files = [
        TreeFile::program("bin/zero", "#!/missing/interpreter\n"),
        TreeFile::text("share/zero/files.txt", "bin/zero\n"),
    ];
    archive::gzip(&archive::tar("", &files, release.time).unwrap(), release.effort).unwrap()
}

#[test]
fn release_is_packed_twice_with_the_same_bytes() {
    let (first, _) = small_release(this_platform(), "1.0.0");
    let (second, _) = small_release(this_platform(), "1.0.0");
    assert_eq!(first.content, second.content);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("zero");
    std::fs::copy("/bin/true", &path).unwrap();
    let program = BuiltProgram::read(&path).unwrap();
    let release = ReleaseInfo { effort: PackingEffort::Smallest, ..ReleaseInfo::for_test("1.0.0") };
    let root = repository::root();
    let pack = || {
        let tree = |method: &str| {
            let shared = [
                TreeFile::text(NO_DOCUMENTS, "zero"),
                TreeFile::text("share/man/man1/zero.1", ".TH"),
            ];
            ProgramTree::new(&program, &shared, &release, method)
        };
        vec![
            deb::build(&root, &tree("deb"), &program, &release).unwrap(),
            rpm_package::build(&root, &tree("rpm"), &program, &release).unwrap(),
            npm::platform_package(&root, &tree("npm"), program.platform, &release).unwrap(),
            npm::launcher_package(&root, &[program.platform], &release).unwrap(),
            wheel::build(&tree("pip"), &program, &release).unwrap(),
        ]
    };
    let first = pack();
    // Times in archives have seconds.
    let begin = std::time::SystemTime::now();
    while begin.elapsed().unwrap().as_millis() < 1100 {
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    for (first, second) in first.iter().zip(pack()) {
        assert_eq!(first.name, second.name);
        assert!(first.content == second.content, "{} differs", first.name);
    }
}

#[test]
fn program_prints_the_files_of_its_packages() {
    let test = PackageTest::new();
    let files =
        super::program_tree::shared_files(&repository::root(), &test.program.path, "licences")
            .unwrap();
    let paths: BTreeSet<&str> = files.iter().map(|file| file.path.as_str()).collect();
    for path in [
        "share/bash-completion/completions/zero",
        "share/zsh/site-functions/_zero",
        "share/fish/vendor_completions.d/zero.fish",
        "share/man/man1/zero.1",
        "share/man/man1/zero-tools-call.1",
        "share/doc/zero/LICENSE-MIT",
        "share/doc/zero/THIRD-PARTY-LICENSES.txt",
    ] {
        assert!(paths.contains(path), "{path} in {paths:?}");
    }
    let mut page = String::new();
    let manual = files.iter().find(|file| file.path.ends_with("/zero.1")).unwrap();
    (&manual.content[..]).read_to_string(&mut page).unwrap();
    assert!(!page.contains(&*test.folder.path().to_string_lossy()));
}

#[test]
fn action_runs_prompt_and_writes_summary() {
    let test = PackageTest::new();
    let bin = test.path("bin");
    std::fs::create_dir(&bin).unwrap();
    std::fs::rename(&test.program.path, bin.join("zero")).unwrap();
    let run = |prompt: &str| {
        let path = std::env::join_paths(
            std::iter::once(bin.clone())
                .chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())),
        );
        let mut action = test.command("bash");
        action.arg(repository::root().join("packaging/action/run.sh")).env("PATH", path.unwrap());
        action
            .env("ZERO_ACTION_PROMPT", prompt)
            .env("ZERO_ACTION_MODE", "plan")
            .env("ZERO_ACTION_MAX_TIME", "5m");
        action
            .env("RUNNER_TEMP", test.folder.path())
            .env("GITHUB_STEP_SUMMARY", test.path("summary"));
        action.env("GITHUB_OUTPUT", test.path("output")).env("ZERO_ACTION_BUDGET", "0.50");
        action.output().unwrap()
    };
    check_output(&run("/read note.txt"));
    let (summary, output) = (test.path("summary"), test.path("output"));
    let text = std::fs::read_to_string(&summary).unwrap();
    assert!(text.starts_with("### zero: answered\n") && text.contains(NOTE), "{text}");
    let text = std::fs::read_to_string(&output).unwrap();
    assert!(text.contains(NOTE) && text.contains("\nexit-code=0\n"), "{text}");
    std::fs::remove_file(&summary).unwrap();
    // In the mode `plan`, nothing is written, and zero asks no questions.
    let denied = run("/bash echo other > note.txt");
    assert_eq!(denied.status.code(), Some(3), "{}", String::from_utf8_lossy(&denied.stderr));
    let text = std::fs::read_to_string(&summary).unwrap();
    assert!(text.starts_with("### zero: denied\n"), "{text}");
    assert_eq!(std::fs::read_to_string(test.path("note.txt")).unwrap(), NOTE);
}

/// What the editors take in the settings that the documentation shows.
#[test]
fn snippets_for_editors_fit_what_editors_read() {
    let page = std::fs::read_to_string(repository::root().join("docs/start/editor.md")).unwrap();
    let server = json!({
        "type": "object",
        "required": ["command", "args"],
        "properties": {
            "type": {"const": "custom"},
            "command": {"type": "string", "pattern": "(^|/)zero$"},
            "args": {"type": "array", "items": {"type": "string"}, "prefixItems": [{"const": "acp"}]},
            "env": {"type": "object", "additionalProperties": {"type": "string"}},
        },
        "additionalProperties": false,
    });
    let schema = json!({
        "type": "object",
        "minProperties": 1,
        "patternProperties": {
            "^(agent_servers|acp\\.agents)$": {"type": "object", "minProperties": 1, "additionalProperties": server},
        },
        "additionalProperties": false,
    });
    let mut found = 0;
    for block in page.split("```json\n").skip(1) {
        let text = block.split("```").next().unwrap();
        let snippet: serde_json::Value = serde_json::from_str(text).unwrap();
        assert!(jsonschema::draft202012::is_valid(&schema, &snippet), "{text}");
        found += 1;
    }
    assert!(found >= 3, "{found} snippets");
}
