//! A tool host on a temporary folder, for the unit tests of the tools.
#![expect(clippy::disallowed_methods, reason = "tests create real files")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use tokio_util::sync::CancellationToken;
use zero_core::{
    ByteSize, Effect, HostLimits, SessionId, ToolCall, ToolError, ToolResult, ToolResultPart,
};
use zero_runtime::tool_host::new_call_id;
use zero_runtime::{
    CallReport, CommandPolicy, Dialect, DialectName, Elicitor, Policy, PolicyDecision,
    PolicyRequest, RiskPolicy, Tool as _, ToolHost, ToolHostConfig, ToolHostSession, Verdict,
};
use zero_sandbox::{StateDir, Workspace};

/// Decides by risk, and denies reading some names.
struct NameDenyPolicy(Vec<&'static str>);

impl CommandPolicy for NameDenyPolicy {}

impl Policy for NameDenyPolicy {
    fn decide(&self, request: PolicyRequest<'_>) -> PolicyDecision {
        let denied = request.effects.iter().any(|effect| match effect {
            Effect::Read(target) => {
                !self.may_read("", target.written().as_ref(), target.canonical())
            }
            _ => false,
        });
        // Changes of notes are decided by the tool alone, since there is no user to ask.
        let allowed = request.spec.name.as_str() == crate::memory::MemoryTool::NAME;
        let decision = RiskPolicy.decide(request);
        match (denied, allowed) {
            (true, _) => PolicyDecision { verdict: Verdict::Deny, ..decision },
            (false, true) => PolicyDecision { verdict: Verdict::Allow, ..decision },
            (false, false) => decision,
        }
    }

    fn may_read(&self, _tool: &str, written: &Path, canonical: &Path) -> bool {
        let is_denied = |path: &Path| self.0.iter().any(|name| path.ends_with(name));
        ![written, canonical].iter().any(|path| path.ancestors().any(is_denied))
    }

    fn filters_reads(&self) -> bool {
        !self.0.is_empty()
    }
}

/// A host with the built-in tools on a temporary folder.
pub(crate) struct TestHost {
    temp: tempfile::TempDir,
    limits: HostLimits,
    /// The workspace roots, relative to the first folder.
    roots: Vec<&'static str>,
    running: Option<(ToolHost, ToolHostSession)>,
    has_session: bool,
    /// Names that may not be read.
    denied: Vec<&'static str>,
    elicitor: Option<Arc<dyn Elicitor>>,
}

impl TestHost {
    /// Creates a host whose calls have no session.
    pub(crate) fn new() -> Self {
        let temp = tempfile::tempdir().unwrap();
        std::fs::create_dir(temp.path().join("workspace")).unwrap();
        let mut host = Self {
            temp,
            limits: HostLimits::default(),
            roots: vec![""],
            running: None,
            has_session: false,
            denied: vec![],
            elicitor: None,
        };
        host.start();
        host
    }

    /// Creates a host with a session that records which files were read.
    pub(crate) fn with_session() -> Self {
        let mut host = Self { has_session: true, ..Self::new() };
        host.start();
        host
    }

    /// Changes the limit of the text for the model.
    pub(crate) fn with_model_output_max(mut self, bytes: u64) -> Self {
        self.limits.model_output_bytes_max = ByteSize::bytes(bytes);
        self.start();
        self
    }

    /// Changes the size limit of a result.
    pub(crate) fn with_result_max(mut self, bytes: u64) -> Self {
        self.limits.result_bytes_max = ByteSize::bytes(bytes);
        self.start();
        self
    }

    /// Sets the workspace roots, which must exist, relative to the first folder.
    pub(crate) fn with_roots(mut self, roots: &[&'static str]) -> Self {
        self.roots = roots.to_vec();
        self.start();
        self
    }

    /// Denies reading files with one of these names, and everything in folders with such a name. A
    /// name may have several components.
    pub(crate) fn with_denied(mut self, names: &[&'static str]) -> Self {
        self.denied = names.to_vec();
        self.start();
        self
    }

    /// Sets the user who answers questions.
    pub(crate) fn with_elicitor(mut self, elicitor: Arc<dyn Elicitor>) -> Self {
        self.elicitor = Some(elicitor);
        self.start();
        self
    }

    /// Enables notes. Those of the user are stored beside the workspace.
    pub(crate) fn with_notes(self) -> Self {
        let state = StateDir::new(self.temp.path().join("state"));
        let own = self.temp.path().canonicalize().unwrap().join("own");
        let memories = zero_runtime::notes::NoteStoreSet::new(Some(own), state);
        self.running.as_ref().unwrap().0.insert_extension(Arc::new(memories));
        self
    }

    /// Registers another tool, until the host is restarted.
    #[cfg(feature = "web")]
    pub(crate) fn add_tool(&self, tool: Arc<dyn zero_runtime::AnyTool>) {
        self.running.as_ref().unwrap().0.registry().add("test", vec![tool]).unwrap();
    }

    /// Number of running calls.
    pub(crate) fn calls_in_flight(&self) -> usize {
        self.running.as_ref().unwrap().0.in_flight()
    }

    fn start(&mut self) {
        let roots: Vec<PathBuf> = self.roots.iter().map(|root| self.path(root)).collect();
        let workspace = Workspace::open(&roots, None).unwrap();
        let state = StateDir::new(self.temp.path().join("state"));
        let host = ToolHost::new(ToolHostConfig {
            limits: self.limits.clone(),
            policy: Arc::new(NameDenyPolicy(self.denied.clone())),
            elicitor: self.elicitor.clone(),
            ..ToolHostConfig::new(workspace, state)
        });
        host.registry().add(zero_runtime::dialect::BUILTIN, crate::builtin_tools()).unwrap();
        let session = match self.has_session {
            true => host.open_session(SessionId::new("test").unwrap()).unwrap(),
            false => host.open_one_shot_session().unwrap(),
        };
        self.running = Some((host, session));
    }

    /// Writes text files, creating folders as needed.
    pub(crate) fn with_files(self, files: &[(&str, &str)]) -> Self {
        for (name, text) in files {
            self.write_file(name, text.as_bytes());
        }
        self
    }

    /// Writes a file, creating folders as needed.
    pub(crate) fn write_file(&self, name: &str, bytes: &[u8]) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }

    /// Returns the absolute path of a workspace entry.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.temp.path().join("workspace").join(name)
    }

    /// Returns a folder outside the workspace.
    pub(crate) fn outside(&self) -> &Path {
        self.temp.path()
    }

    /// Returns the state of the file at a path.
    pub(crate) fn snapshot(
        &self,
        located: &zero_sandbox::ResolvedPath,
    ) -> zero_sandbox::FileSnapshot {
        self.running.as_ref().unwrap().0.journal().read(located).unwrap()
    }

    pub(crate) fn workspace(&self) -> &Workspace {
        self.session().workspace()
    }

    pub(crate) fn session(&self) -> &ToolHostSession {
        &self.running.as_ref().unwrap().1
    }

    /// Makes a call in the canonical dialect.
    pub(crate) async fn call(&self, tool: &str, input: Value) -> CallReport {
        self.call_until(tool, input, &CancellationToken::new()).await
    }

    /// Makes a call that `stop` cancels.
    pub(crate) async fn call_until(
        &self,
        tool: &str,
        input: Value,
        stop: &CancellationToken,
    ) -> CallReport {
        let (host, session) = self.running.as_ref().unwrap();
        let call = ToolCall {
            id: new_call_id(),
            session: session.id().cloned(),
            tool: tool.to_owned(),
            input,
            timeout: None,
        };
        let dialect = Dialect::new(DialectName::Canonical);
        host.call(session, &dialect, call, stop).await
    }

    /// Makes a call that must succeed.
    #[track_caller]
    pub(crate) fn ok(&self, tool: &str, input: Value) -> ToolResult {
        let shown = format!("{tool} {input}");
        match self.block_on(self.call(tool, input)).outcome {
            Ok(outcome) => outcome.result,
            Err(error) => panic!("{shown}: {error}"),
        }
    }

    /// Makes a call that must fail.
    #[track_caller]
    pub(crate) fn err(&self, tool: &str, input: Value) -> ToolError {
        let shown = format!("{tool} {input}");
        match self.block_on(self.call(tool, input)).outcome {
            Ok(outcome) => panic!("{shown}: {:?}", outcome.result),
            Err(error) => error,
        }
    }

    /// Makes a call that must succeed, and returns the text for the model.
    #[track_caller]
    pub(crate) fn text(&self, tool: &str, input: Value) -> String {
        let pieces: Vec<String> = self
            .ok(tool, input)
            .content
            .iter()
            .map(|content| match content {
                ToolResultPart::Text(text) => text.clone(),
                ToolResultPart::Lines { first, text, rest, note } => {
                    let rest = rest.map_or_else(String::new, |rest| {
                        format!(" (lines {first}-{} of {})", rest.next - 1, rest.total_lines)
                    });
                    let note = note.as_ref().map_or_else(String::new, |note| format!(" ({note})"));
                    format!("{first}: {text}{rest}{note}")
                }
                other => format!("{other:?}"),
            })
            .collect();
        pieces.join("\n")
    }

    pub(crate) fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
    }
}
