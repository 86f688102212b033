//! `zero update` as a user runs it: from a release on a server of this machine, signed with a key of the test.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Cursor, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex};

use flate2::Compression;
use flate2::write::GzEncoder;
use minisign::KeyPair;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::config::{USER_FILE, write_file};
use crate::test_program::TestProgram;

const NEWER: &str = "99.0.0";

/// A zero below a prefix of its own, and a server with releases for it.
struct Installed {
    zero: TestProgram,
    address: String,
    files: Arc<Mutex<BTreeMap<String, Vec<u8>>>>,
    key: KeyPair,
}

impl Installed {
    /// Installed by this method.
    fn by(method: &str) -> Self {
        let zero = TestProgram::new();
        let key = KeyPair::generate_unencrypted_keypair().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}/zero", listener.local_addr().unwrap());
        let files = Arc::<Mutex<BTreeMap<String, Vec<u8>>>>::default();
        let served = Arc::clone(&files);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let _ = answer(stream, &served);
            }
        });
        let installed = Self { zero, address, files, key };
        installed.put_program();
        let receipt = json!({
            "method": method, "version": env!("CARGO_PKG_VERSION"), "platform": "x86_64-linux",
            "address": installed.address, "publicKey": installed.key.pk.to_base64(),
        });
        write_file(&installed.zero, "app/share/zero/install.json", receipt.to_string());
        installed
    }

    fn program(&self) -> PathBuf {
        self.zero.folder().join("app/bin/zero")
    }

    #[expect(clippy::disallowed_methods, reason = "the test installs the program")]
    fn put_program(&self) {
        let built = env!("CARGO_BIN_EXE_zero");
        std::fs::create_dir_all(self.zero.folder().join("app/bin")).unwrap();
        // A second name costs nothing, but not across file systems.
        if std::fs::hard_link(built, self.program()).is_err() {
            std::fs::copy(built, self.program()).unwrap();
        }
    }

    /// Whether the program is still the one that was installed.
    fn is_unchanged(&self) -> bool {
        let version =
            self.zero.external_command(self.program().to_str().unwrap()).arg("--version").output();
        version.unwrap().stdout == format!("zero {}\n", env!("CARGO_PKG_VERSION")).as_bytes()
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.zero.external_command(self.program().to_str().unwrap());
        command.arg("update").args(args);
        command
    }

    /// Everything that can be seen of a run.
    fn run(&self, args: &[&str]) -> String {
        let output = self.command(args).output().unwrap();
        self.zero.render_output(&output).replace(&self.address, "[ADDRESS]")
    }

    /// Serves a release with this version in its signature.
    fn release(&self, version: &str, archive: &[u8]) {
        let name = format!("zero-{version}-x86_64-linux.tar.gz");
        let sum = Sha256::digest(archive).iter().fold(String::new(), |mut text, byte| {
            write!(text, "{byte:02x}").unwrap();
            text
        });
        let sums = format!("{sum}  {name}\n");
        let comment = format!("zero {version}");
        let signature =
            minisign::sign(None, &self.key.sk, Cursor::new(&sums), Some(&comment), None).unwrap();
        let mut files = self.files.lock().unwrap();
        files.insert("SHA256SUMS".to_owned(), sums.into_bytes());
        files.insert("SHA256SUMS.minisig".to_owned(), signature.into_string().into_bytes());
        files.insert(name, archive.to_vec());
    }

    fn change(&self, name: &str, change: impl Fn(&mut Vec<u8>)) {
        change(self.files.lock().unwrap().get_mut(name).unwrap());
    }
}

/// One request: the file, or a redirect if its content is an address.
fn answer(stream: TcpStream, files: &Mutex<BTreeMap<String, Vec<u8>>>) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let request = lines.next().transpose()?.unwrap_or_default();
    for line in &mut lines {
        if line?.is_empty() {
            break;
        }
    }
    let path = request.split(' ').nth(1).unwrap_or_default();
    let found = files.lock().unwrap().get(path.trim_start_matches("/zero/")).cloned();
    let (head, body) = match found {
        Some(to) if to.starts_with(b"http") => {
            (format!("302 Found\r\nlocation: {}", String::from_utf8_lossy(&to)), Vec::new())
        }
        Some(body) => ("200 OK".to_owned(), body),
        None => ("404 Not Found".to_owned(), b"not here".to_vec()),
    };
    let mut stream = stream;
    write!(
        stream,
        "HTTP/1.1 {head}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    )?;
    stream.write_all(&body)
}

fn archive(version: &str) -> Vec<u8> {
    let mut builder = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    let program = format!("#!/bin/sh\necho zero {version}\n");
    for (path, content) in [("share/zero/install.json", "{}"), ("bin/zero", &program)] {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o755);
        builder.append_data(&mut header, path, content.as_bytes()).unwrap();
    }
    builder.into_inner().unwrap().finish().unwrap()
}

#[test]
fn update_replaces_program_with_newer_release() {
    let installed = Installed::by("archive");
    installed.release(NEWER, &archive(NEWER));
    let checked = installed.run(&["--check"]);
    assert_eq!(checked, "exit 0\nzero 99.0.0 is available; `zero update` installs it\n");
    assert!(installed.is_unchanged());
    let checked: Value =
        serde_json::from_slice(&installed.command(&["--check", "--json"]).output().unwrap().stdout)
            .unwrap();
    assert_eq!((&checked["newest"], &checked["updated"]), (&json!(NEWER), &json!(false)));
    let updated = installed.run(&[]);
    let expected = format!("exit 0\nupdated zero from {} to 99.0.0\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(updated, expected);
    let version =
        installed.zero.external_command(installed.program().to_str().unwrap()).output().unwrap();
    assert_eq!(version.stdout, b"zero 99.0.0\n");
}

#[test]
fn update_never_installs_older_release() {
    let installed = Installed::by("archive");
    for version in ["0.0.1", env!("CARGO_PKG_VERSION")] {
        installed.release(version, &archive(version));
        let seen = installed.run(&[]);
        assert!(seen.starts_with("exit 0\n") && seen.contains("is up to date"), "{seen}");
        assert!(installed.is_unchanged());
    }
}

/// What is wrong with a release, the change that makes it so, and what zero says.
type WrongRelease<'a> = (&'a str, &'a dyn Fn(&Installed), &'a str);

#[test]
fn release_with_wrong_signature_changes_nothing() {
    let name = format!("zero-{NEWER}-x86_64-linux.tar.gz");
    let cases: &[WrongRelease<'_>] = &[
        (
            "half an archive",
            &|it| it.change(&name, |file| file.truncate(file.len() / 2)),
            "is damaged or was changed",
        ),
        (
            "another sum",
            &|it| it.change("SHA256SUMS", |file| file[0] ^= 1),
            "the signature of its sums is wrong",
        ),
        (
            "no signature",
            &|it| drop(it.files.lock().unwrap().remove("SHA256SUMS.minisig")),
            "could not fetch [ADDRESS]/SHA256SUMS.minisig: the server answered 404",
        ),
        (
            "signature of nothing",
            &|it| it.change("SHA256SUMS.minisig", Vec::clear),
            "is not a minisign signature",
        ),
        (
            "no archive",
            &|it| drop(it.files.lock().unwrap().remove(&name)),
            "the server answered 404",
        ),
        (
            "endless sums",
            &|it| it.change("SHA256SUMS", |file| file.resize(100_000, b' ')),
            "could not fetch",
        ),
        (
            "sent on into the machine",
            &|it| it.change("SHA256SUMS", |file| *file = b"http://127.0.0.1:1/SHA256SUMS".to_vec()),
            "which is not a public https address",
        ),
    ];
    for (what, damage, expected) in cases {
        let installed = Installed::by("archive");
        installed.release(NEWER, &archive(NEWER));
        damage(&installed);
        let seen = installed.run(&[]);
        assert!(seen.starts_with("exit 1\n") && seen.contains(expected), "{what}: {seen}");
        assert!(installed.is_unchanged(), "{what}");
    }
}

#[test]
fn release_signed_by_another_key_is_refused() {
    let installed = Installed::by("archive");
    installed.release(NEWER, &archive(NEWER));
    let other = KeyPair::generate_unencrypted_keypair().unwrap().pk.to_base64();
    write_file(&installed.zero, USER_FILE, json!({"update": {"publicKey": other}}).to_string());
    let seen = installed.run(&[]);
    assert!(seen.contains("the signature of its sums is wrong"), "{seen}");
    write_file(&installed.zero, USER_FILE, r#"{"update": {"publicKey": "words"}}"#);
    let seen = installed.run(&[]);
    assert!(
        seen.starts_with("exit 2\n") && seen.contains("is not a minisign public key"),
        "{seen}"
    );
    assert!(installed.is_unchanged());
}

#[test]
fn update_is_turned_off_by_setting() {
    let installed = Installed::by("archive");
    installed.release(NEWER, &archive(NEWER));
    write_file(&installed.zero, USER_FILE, r#"{"update": {"enabled": false}}"#);
    let seen = installed.run(&["--check"]);
    assert!(seen.contains("updates are turned off by `update.enabled`"), "{seen}");
    assert!(seen.contains("`zero config unset update.enabled`"), "{seen}");
}

#[test]
fn unreachable_server_and_proxy_are_named() {
    let installed = Installed::by("archive");
    write_file(&installed.zero, USER_FILE, r#"{"update": {"address": "http://127.0.0.1:1/"}}"#);
    let mut command = installed.command(&[]);
    let output = command.env("https_proxy", "http://127.0.0.1:2").output().unwrap();
    let seen = installed.zero.render_output(&output);
    assert!(seen.contains("could not fetch http://127.0.0.1:1/SHA256SUMS"), "{seen}");
    assert!(seen.contains("without the proxy of https_proxy"), "{seen}");
    for (address, expected) in
        [("words", "is not a release address"), ("http://example.com/", "`https`")]
    {
        write_file(&installed.zero, USER_FILE, json!({"update": {"address": address}}).to_string());
        let seen = installed.run(&[]);
        assert!(seen.contains(expected), "{seen}");
    }
}

#[test]
fn package_managers_are_named() {
    for (method, expected) in [
        ("deb", "sudo apt-get update && sudo apt-get install --only-upgrade zero\n"),
        ("rpm", "sudo dnf upgrade zero\n"),
        ("npm", "npm install --global zero@latest\n"),
        ("brew", "brew upgrade zero\n"),
    ] {
        let installed = Installed::by(method);
        let seen = installed.run(&[]);
        assert!(seen.starts_with(&format!("exit 0\n{expected}--- stderr\n")), "{seen}");
    }
    let seen = TestProgram::new().run(&["update"]);
    assert!(
        seen.starts_with("exit 0\ncargo install --path crates/zero --locked --profile dist"),
        "{seen}"
    );
    let installed = Installed::by("carrier pigeon");
    let seen = installed.run(&[]);
    assert!(seen.contains("which this version does not know"), "{seen}");
}
