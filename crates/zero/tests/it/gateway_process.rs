//! `zero gateway` as a process of its own, that can be killed and started again.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use zero_wire::client::{
    ConnectOptions, GatewayClient, GatewayCredentials, GatewayEvents, GatewayTarget,
};
use zero_wire::handshake::{ClientId, ClientInfo, ClientMode};

use crate::test_program::TestProgram;

/// Longer than any step here takes, so that a test fails instead of hanging.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

const GATEWAY_ARGS: [&str; 6] = ["gateway", "--port", "0", "--json", "--grace", "1s"];

/// A gateway that runs. It is killed when it is dropped.
pub(crate) struct GatewayProcess {
    child: Child,
    pub(crate) url: String,
    pub(crate) ready: Value,
}

impl GatewayProcess {
    pub(crate) fn start(zero: &TestProgram) -> Self {
        Self::start_with(zero, &[])
    }

    pub(crate) fn start_with(zero: &TestProgram, more: &[&str]) -> Self {
        let args = [&GATEWAY_ARGS, more].concat();
        Self::from_command(zero.command(&args))
    }

    /// The same at a port where there was one before.
    pub(crate) fn start_at(zero: &TestProgram, port: &str) -> Self {
        Self::from_command(
            zero.command(&GATEWAY_ARGS.map(|arg| if arg == "0" { port } else { arg })),
        )
    }

    /// The same below a shell that first does something, such as lowering a limit.
    pub(crate) fn start_below_limit(zero: &TestProgram, first: &str) -> Self {
        let mut shell = zero.external_command("/bin/sh");
        shell.args(["-c", &format!("{first}; exec \"$ZERO\" {}", GATEWAY_ARGS.join(" "))]);
        Self::from_command(shell)
    }

    fn from_command(mut command: Command) -> Self {
        let mut child = command
            .env("PATH", "/usr/bin:/bin")
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let ready: Value = serde_json::from_str(&line).expect("it does not start");
        let url = ready["url"].as_str().unwrap().to_owned();
        Self { child, url, ready }
    }

    pub(crate) fn address(&self) -> &str {
        self.url.strip_prefix("ws://").unwrap()
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn wait_for_exit(&mut self) -> ExitStatus {
        wait_for_child(&mut self.child)
    }
}

impl Drop for GatewayProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Connects to the gateway of the program in that folder, as its owner.
#[expect(clippy::disallowed_methods, reason = "tests use real files directly")]
pub(crate) async fn connect(
    folder: &Path,
    url: &str,
    caps: &[&str],
) -> (GatewayClient, GatewayEvents) {
    let token = std::fs::read_to_string(folder.join("home/.local/state/zero/gateway.token"));
    connect_with_token(token.unwrap().trim(), url, caps).await
}

/// Connects to a gateway with a token.
pub(crate) async fn connect_with_token(
    token: &str,
    url: &str,
    caps: &[&str],
) -> (GatewayClient, GatewayEvents) {
    let mut options = ConnectOptions::new(ClientInfo {
        id: ClientId::Cli,
        display_name: None,
        version: "1".to_owned(),
        build_id: None,
        platform: "linux".to_owned(),
        device_family: None,
        model_identifier: None,
        time_zone: None,
        mode: ClientMode::Cli,
        instance_id: None,
    });
    options.caps = caps.iter().map(|cap| (*cap).to_owned()).collect();
    options.auth = GatewayCredentials::token(token.to_owned());
    GatewayClient::connect(GatewayTarget::Url(url.parse().unwrap()), options).await.unwrap()
}

/// Waits for a process, but not for ever.
pub(crate) fn wait_for_child(child: &mut Child) -> ExitStatus {
    let until = Instant::now() + TIMEOUT;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        assert!(Instant::now() < until, "process {} does not end", child.id());
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Sends a signal, such as `TERM`, to one process.
pub(crate) fn send_signal(zero: &TestProgram, name: &str, process: u32) {
    let status =
        zero.external_command("/bin/sh").args(["-c", &format!("kill -{name} {process}")]).status();
    assert!(status.unwrap().success());
}
