//! Starts, measures and stops the gateway process.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::LoadResult;

/// Token that every client sends.
pub(crate) const TOKEN: &str = "a-token-of-the-measurement";
/// File that the model reads.
pub(crate) const NOTE: &str = "note.txt";

/// A running gateway process. Dropping it kills the process.
pub(crate) struct MeasuredGateway {
    process: Child,
    pub(crate) address: SocketAddr,
    /// Time from process start until the gateway reported that it was ready.
    pub(crate) ready_after: Duration,
}

impl MeasuredGateway {
    /// Starts the gateway in `folder`, with the model at the given address.
    pub(crate) async fn start(zero: &Path, folder: &Path, model: SocketAddr) -> LoadResult<Self> {
        let (home, work, token) = (folder.join("home"), folder.join("work"), folder.join("token"));
        let settings = home.join(".config/zero");
        std::fs::create_dir_all(&settings)?;
        std::fs::create_dir_all(&work)?;
        std::fs::write(work.join(NOTE), "one\ntwo\nthree\n")?;
        std::fs::write(&token, TOKEN)?;
        make_private(&token)?;
        let url = format!("http://{model}/v1");
        let scripted = json!({"api": "chat", "model": "scripted", "baseUrl": url});
        let chosen = json!({"models": {"scripted": scripted}, "model": "scripted"});
        std::fs::write(settings.join("settings.json"), chosen.to_string())?;
        let mut command = Command::new(zero);
        command
            .args(["gateway", "--port", "0", "--json", "--grace", "1s", "--token-file"])
            .arg(&token)
            .arg("--cwd")
            .arg(&work)
            .env_clear()
            .env("HOME", &home)
            .env("PATH", "/usr/bin:/bin")
            .current_dir(&work)
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        let began = Instant::now();
        let mut process = command.spawn()?;
        let stdout = process.stdout.take().ok_or("it has no stdout")?;
        let line = tokio::task::spawn_blocking(move || {
            let mut line = String::new();
            BufReader::new(stdout).read_line(&mut line).map(|_| line)
        });
        let line = line.await??;
        let ready: Value = serde_json::from_str(&line)?;
        let url = ready["url"].as_str().ok_or("it said no address")?;
        let address = url.trim_start_matches("ws://").parse()?;
        let mut gateway = Self { process, address, ready_after: Duration::ZERO };
        gateway.check_ready().await?;
        gateway.ready_after = began.elapsed();
        Ok(gateway)
    }

    async fn check_ready(&self) -> LoadResult<()> {
        let mut stream = TcpStream::connect(self.address).await?;
        let asked =
            format!("GET /readyz HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.address);
        stream.write_all(asked.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        match answer.starts_with("HTTP/1.1 200 ") {
            true => Ok(()),
            false => Err(format!("it is not ready: {answer}").into()),
        }
    }

    /// Current and peak memory of the process, in bytes.
    pub(crate) fn memory(&self) -> LoadResult<MemoryUse> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id()))?;
        let field = |name: &str| -> LoadResult<u64> {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let kibibytes = line.and_then(|line| line.split_whitespace().next());
            Ok(kibibytes.ok_or("the kernel does not say it; Linux does")?.parse::<u64>()? * 1024)
        };
        Ok(MemoryUse { now: field("VmRSS:")?, peak: field("VmHWM:")? })
    }

    /// CPU time the process has used.
    pub(crate) fn cpu_time(&self) -> LoadResult<Duration> {
        cpu_time(&self.process.id().to_string())
    }

    /// Process id of the gateway.
    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }
}

impl Drop for MeasuredGateway {
    fn drop(&mut self) {
        // Fails if the process has already exited, which is fine here.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Memory of a process, in bytes.
pub(crate) struct MemoryUse {
    pub(crate) now: u64,
    pub(crate) peak: u64,
}

/// CPU time of a process, given its id or `self`.
pub(crate) fn cpu_time(process: &str) -> LoadResult<Duration> {
    /// Length of a clock tick; 100 Hz on every common Linux.
    const TICK: Duration = Duration::from_millis(10);
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
    // The process name is in parentheses and may contain any character.
    let fields: Vec<&str> =
        stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |place: usize| fields.get(place).and_then(|field| field.parse::<u32>().ok());
    Ok(TICK * ticks(11).zip(ticks(12)).map(|(user, system)| user + system).ok_or("no times")?)
}

fn make_private(file: &Path) -> LoadResult<()> {
    use std::os::unix::fs::PermissionsExt;
    Ok(std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o600))?)
}
