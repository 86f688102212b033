//! A tool host with language servers that misbehave, each in its own way.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use zero_lsp::response::LspPosition;
use zero_lsp::{
    DocumentPosition, DocumentText, FileLanguage, LanguageServerDefinition, LanguageServerLease,
    LanguageServerLimits, LanguageServers, LanguageServersConfig, LspClient, LspError,
};
use zero_runtime::{ToolHost, ToolHostConfig};
use zero_sandbox::{StateDir, Workspace};

/// Longer than anything takes on a very busy machine.
pub(crate) const LONG_TIMEOUT: Duration = Duration::from_secs(180);

/// A tool host and its servers. The server of a mode is for files whose extension is the mode. The
/// workspace is trusted unless it contains a file `untrusted`.
pub(crate) struct LspFixture {
    temp: tempfile::TempDir,
    pub(crate) servers: LanguageServers,
    _host: ToolHost,
}

impl LspFixture {
    pub(crate) fn new(modes: &[&str]) -> Self {
        Self::with_limits(modes, test_limits(), |_| {})
    }

    pub(crate) fn with_limits(
        modes: &[&str],
        bounds: LanguageServerLimits,
        change: impl Fn(&mut LanguageServerDefinition),
    ) -> Self {
        Self::with_host(modes, bounds, change, |_| {})
    }

    pub(crate) fn with_host(
        modes: &[&str],
        bounds: LanguageServerLimits,
        change: impl Fn(&mut LanguageServerDefinition),
        set_up: impl FnOnce(&mut ToolHostConfig),
    ) -> Self {
        // Not in `/tmp`, because servers have a private one.
        let temp = tempfile::tempdir_in("/var/tmp").unwrap();
        let real = temp.path().canonicalize().unwrap();
        let (work, state) = (real.join("work"), real.join("state"));
        std::fs::create_dir(&work).unwrap();
        let workspace = Workspace::open(std::slice::from_ref(&work), None).unwrap();
        let mut config = ToolHostConfig::new(workspace, StateDir::new(state));
        set_up(&mut config);
        // Servers are searched in the `PATH` of commands.
        let mut variables = config.commands.environment.iter();
        let path = variables.find(|(name, _)| name == "PATH").map(|(_, path)| path.clone());
        let search_path = std::env::split_paths(&path.unwrap_or_default())
            .filter(|folder| folder.is_absolute())
            .collect();
        let host = ToolHost::new(config);
        let program = server_program(&work);
        let definitions = modes.iter().map(|mode| {
            let mut server = server_definition(mode, &program);
            change(&mut server);
            server
        });
        let servers = LanguageServers::new(LanguageServersConfig {
            services: host.services(),
            definitions: definitions.collect(),
            search_path,
            roots: vec![work],
            trust: Arc::new(move |folder| match folder.join("untrusted").exists() {
                true => Err("trust it first".to_owned()),
                false => Ok(()),
            }),
            cache: Some(StateDir::new(real.join("cache"))),
            bounds,
        });
        Self { temp, servers, _host: host }
    }

    pub(crate) fn workspace_path(&self) -> PathBuf {
        self.temp.path().canonicalize().unwrap().join("work")
    }

    /// Returns the path of a file that the server of a mode is for.
    pub(crate) fn file_path(&self, mode: &str) -> PathBuf {
        let path = self.workspace_path().join(format!("a.{mode}"));
        if !path.exists() {
            std::fs::write(&path, "text").unwrap();
        }
        path
    }

    /// Starts the server of a mode.
    pub(crate) async fn start_server(&self, mode: &str) -> Result<LanguageServerLease, LspError> {
        let path = self.file_path(mode);
        let server =
            tokio::time::timeout(LONG_TIMEOUT, self.servers.lease_for_file(&path, mode)).await;
        Ok(server.expect("timed out")?.0)
    }

    /// Requests the hover text of a file of a mode.
    pub(crate) async fn hover(&self, mode: &str) -> Result<Option<String>, LspError> {
        let server = self.start_server(mode).await?;
        self.hover_with(&server, mode).await
    }

    pub(crate) async fn hover_with(
        &self,
        server: &LanguageServerLease,
        mode: &str,
    ) -> Result<Option<String>, LspError> {
        let path = self.file_path(mode);
        let text = DocumentText { path: &path, language: mode, text: "text", is_unsaved: false };
        server.sync_document(text).await?;
        let asker = LspClient::new(server, self.servers.limits());
        let spot = DocumentPosition { path: &path, position: LspPosition::default() };
        tokio::time::timeout(LONG_TIMEOUT, asker.hover(spot)).await.expect("timed out")
    }
}

/// Short limits where a test waits for them, long ones where they must not be reached.
pub(crate) fn test_limits() -> LanguageServerLimits {
    LanguageServerLimits {
        start_max: LONG_TIMEOUT,
        answer_max: Duration::from_secs(150),
        ..LanguageServerLimits::default()
    }
}

fn server_definition(mode: &str, program: &Path) -> LanguageServerDefinition {
    let words = [program.to_str().unwrap(), mode].map(str::to_owned);
    LanguageServerDefinition {
        name: mode.to_owned(),
        commands: vec![words.to_vec()],
        languages: vec![FileLanguage { ending: mode.to_owned(), id: mode.to_owned() }],
        settings: json!({"a": {"b": [1, 2]}}),
        initialization_options: Value::Null,
        ..LanguageServerDefinition::default()
    }
}

/// Returns the server program: an example built beside this test, copied next to the workspace.
/// Servers have a private `/tmp`, so the build folder may be invisible to them.
fn server_program(work: &Path) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let name = "hostile_language_server";
    let program = test.parent().unwrap().with_file_name("examples").join(name);
    assert!(
        program.is_file(),
        "{} is missing: `cargo build -p zero-lsp --example {name}`",
        program.display()
    );
    let copy = work.with_file_name(name);
    std::fs::copy(&program, &copy).unwrap();
    copy
}

/// Waits until `holds` returns true.
pub(crate) async fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let end = Instant::now() + LONG_TIMEOUT;
    while !holds() {
        assert!(Instant::now() < end, "timed out waiting for {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

pub(crate) fn is_process_alive(pid: i32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}
