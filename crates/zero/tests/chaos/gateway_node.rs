//! A gateway as a process of its own, with its links to the database, the bus and its clients.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::link_proxy::LinkProxy;

/// What clients show.
pub(crate) const TOKEN: &str = "0123456789abcdef0123456789abcdef";
/// Longer than a start takes after a kill, when its lease has to run out.
const START_MAX: Duration = Duration::from_secs(60);
/// Longer than a drain takes.
const DRAIN_MAX: Duration = Duration::from_secs(30);

/// A gateway, and the machine that it runs on.
pub(crate) struct GatewayNode {
    number: usize,
    folder: TempDir,
    process: Option<Child>,
    address: Option<SocketAddr>,
    pub(crate) database: LinkProxy,
    pub(crate) bus: LinkProxy,
    pub(crate) clients: LinkProxy,
}

impl GatewayNode {
    pub(crate) async fn new(
        number: usize,
        settings: &str,
        database: SocketAddr,
        bus: SocketAddr,
    ) -> Self {
        // In `/tmp`, commands would not see it.
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        let home = folder.path().join("home");
        std::fs::create_dir_all(home.join(".config/zero")).unwrap();
        std::fs::write(home.join(".config/zero/settings.json"), settings).unwrap();
        std::fs::write(home.join("token"), TOKEN).unwrap();
        Self {
            number,
            folder,
            process: None,
            address: None,
            database: LinkProxy::start(Some(database)).await,
            bus: LinkProxy::start(Some(bus)).await,
            clients: LinkProxy::start(None).await,
        }
    }

    /// Starts the process and waits until it is ready. Tries again while it cannot start, as its
    /// supervisor would.
    pub(crate) async fn start(&mut self) {
        let until = Instant::now() + START_MAX;
        while !self.try_start().await {
            assert!(Instant::now() < until, "gateway {} does not start", self.number);
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    async fn try_start(&mut self) -> bool {
        assert!(self.process.is_none(), "it runs");
        let log = File::options().append(true).create(true).open(self.log()).unwrap();
        let store = format!("postgres://zero@{}/postgres", self.database.address());
        let bus = format!("nats://{}", self.bus.address());
        let mut child = Command::new(env!("CARGO_BIN_EXE_zero"))
            .args(["gateway", "--port", "0", "--json", "--grace", "1s"])
            .args(["--store", &store, "--bus", &bus])
            .current_dir(self.folder.path())
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", self.folder.path().join("home"))
            .env("ZERO_LOG", "info")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap();
        let stdout = child.stdout.take().unwrap();
        let line = tokio::task::spawn_blocking(move || {
            let mut line = String::new();
            BufReader::new(stdout).read_line(&mut line).map(|_| line)
        });
        let ready = tokio::time::timeout(START_MAX, line).await.expect("no line").unwrap().unwrap();
        let Ok(ready) = serde_json::from_str::<Value>(&ready) else {
            child.wait().unwrap();
            return false;
        };
        let address = ready["url"].as_str().unwrap().strip_prefix("ws://").unwrap();
        let address: SocketAddr = address.parse().unwrap();
        self.clients.set_target(address);
        (self.process, self.address) = (Some(child), Some(address));
        true
    }

    /// Ends the process at once.
    pub(crate) fn kill(&mut self) {
        let Some(mut process) = self.process.take() else { return };
        process.kill().unwrap();
        process.wait().unwrap();
    }

    /// Ends the process as its operator would. Returns whether it handed over in time.
    pub(crate) async fn drain(&mut self) -> bool {
        let Some(mut process) = self.process.take() else { return true };
        send_signal(&process, "TERM");
        let until = Instant::now() + DRAIN_MAX;
        while Instant::now() < until {
            if process.try_wait().unwrap().is_some() {
                return true;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        process.kill().unwrap();
        process.wait().unwrap();
        false
    }

    pub(crate) fn pause(&self) {
        send_signal(self.process.as_ref().unwrap(), "STOP");
    }

    pub(crate) fn resume(&self) {
        send_signal(self.process.as_ref().unwrap(), "CONT");
    }

    /// Where it listens now, not through its link.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address.unwrap()
    }

    /// What it logged.
    pub(crate) fn log(&self) -> std::path::PathBuf {
        self.folder.path().join("log")
    }

    pub(crate) fn copy_log(&self, folder: &Path) {
        let _ = std::fs::copy(self.log(), folder.join(format!("gateway-{}.log", self.number)));
    }
}

impl Drop for GatewayNode {
    fn drop(&mut self) {
        self.kill();
    }
}

fn send_signal(process: &Child, signal: &str) {
    let sent = Command::new("kill").args(["-s", signal, &process.id().to_string()]).status();
    assert!(sent.unwrap().success());
}
