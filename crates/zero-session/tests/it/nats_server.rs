//! A real NATS server on loopback. Each test starts its own, in a folder of its own.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

/// A running server. It ends when this is dropped.
pub(crate) struct NatsServer {
    folder: TempDir,
    port: u16,
    process: Option<Child>,
}

impl NatsServer {
    /// Starts a server that everybody may use.
    pub(crate) fn start() -> Self {
        Self::start_with("")
    }

    /// Starts a server with this configuration. `FOLDER` in it stands for its folder, in which these files
    /// are.
    pub(crate) fn start_with_files(config: &str, files: &[(&str, String)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::write(folder.path().join(name), text).unwrap();
        }
        let config = config.replace("FOLDER", &folder.path().display().to_string());
        fs::write(folder.path().join("nats.conf"), config).unwrap();
        let mut server = Self { folder, port: 0, process: None };
        server.run();
        server
    }

    /// Starts a server with this configuration.
    pub(crate) fn start_with(config: &str) -> Self {
        Self::start_with_files(config, &[])
    }

    /// Starts the server process; at the same port if it had one.
    pub(crate) fn run(&mut self) {
        assert!(self.process.is_none(), "it runs");
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig=KILL", &binary().display().to_string(), "-a", "127.0.0.1"]);
        let port = if self.port == 0 { "-1".to_owned() } else { self.port.to_string() };
        command.args(["-p", &port, "-c"]).arg(self.folder.path().join("nats.conf"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut output = BufReader::new(child.stderr.take().unwrap());
        let (mut log, mut line) = (String::new(), String::new());
        while output.read_line(&mut line).unwrap() > 0 {
            if let Some((_, port)) =
                line.split_once("Listening for client connections on 127.0.0.1:")
            {
                self.port = port.trim().parse().unwrap();
            }
            if line.contains("Server is ready") {
                // Nobody reads the rest, and a full pipe would block the server.
                std::thread::spawn(move || std::io::copy(&mut output, &mut std::io::sink()));
                self.process = Some(child);
                return;
            }
            log.push_str(&line);
            line.clear();
        }
        child.wait().unwrap();
        panic!("the server did not start; is the package `nats-server` installed? {log}");
    }

    /// Ends the server at once.
    pub(crate) fn stop(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Its address, with a login such as `user@`.
    pub(crate) fn url(&self, login: &str) -> String {
        format!("nats://{login}127.0.0.1:{}", self.port)
    }
}

impl Drop for NatsServer {
    fn drop(&mut self) {
        self.stop();
    }
}

fn binary() -> PathBuf {
    // Debian puts it where only root looks.
    let debian = PathBuf::from("/usr/sbin/nats-server");
    if debian.exists() { debian } else { PathBuf::from("nats-server") }
}
