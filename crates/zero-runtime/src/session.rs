//! What a host remembers from one call to the next.

use std::sync::Arc;
use std::time::Duration;

use zero_core::{SessionId, ToolError};
use zero_sandbox::journal::sha256;
use zero_sandbox::lease::{self, Lease};
use zero_sandbox::{StateDir, Workspace, file_error};

use crate::admission::Lane;
use crate::commands::{SessionCommands, SessionNetwork, TMP, Terms};
use crate::grants::{Grants, Stand, StandingAnswer};
use crate::host::ToolHost;
use crate::seen_files::SeenFiles;

/// How long the oversized results of calls without a session are kept.
const ONE_SHOT_SPILL_AGE_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// Folder of the oversized results of calls without a session, one folder a workspace. It stands
/// apart from those of sessions, whose ids are chosen by others.
const ONE_SHOT: &str = "spill-calls";
/// Shelf of the oversized results of sessions, one folder a session.
const SPILL: &str = "spill";

/// What a host remembers from one call to the next. When it ends, its jobs end, and its oversized
/// results go.
pub struct Session {
    id: Option<SessionId>,
    seen: Option<Arc<SeenFiles>>,
    spill: StateDir,
    /// Keeps the folder of a session's results as long as some process has that session.
    spill_lease: Option<Lease>,
    workspace: Workspace,
    pub(crate) grants: Arc<Grants>,
    pub(crate) lane: Lane,
    pub(crate) commands: Arc<SessionCommands>,
}

impl Session {
    pub(crate) fn open(id: SessionId, host: &ToolHost) -> Result<Self, ToolError> {
        let state = &host.state;
        let lease = Lease::take(state, SPILL, id.as_str()).map_err(|error| {
            let shown = state.child(SPILL).path().display().to_string();
            file_error::from_io("make zero's own folder", &shown, &error)
        })?;
        let name = format!("session-{id}");
        let mut session = Self::with_spill(Some(id), lease.folder(), name, host)?;
        session.spill_lease = Some(lease);
        Ok(session)
    }

    /// A session for single calls: it remembers nothing, and its results outlive it.
    pub(crate) fn one_shot(host: &ToolHost) -> Result<Self, ToolError> {
        let key = sha256(host.workspace.cwd().as_os_str().as_encoded_bytes());
        let spill = host.state.child(ONE_SHOT).child(&key[..16]);
        let name = format!("calls-{:016x}", fastrand::u64(..));
        let session = Self::with_spill(None, spill, name, host)?;
        session.drop_old_results();
        Ok(session)
    }

    fn with_spill(
        id: Option<SessionId>,
        spill: StateDir,
        name: String,
        host: &ToolHost,
    ) -> Result<Self, ToolError> {
        let shown = spill.path().display().to_string();
        spill
            .create()
            .map_err(|error| file_error::from_io("make zero's own folder", &shown, &error))?;
        let workspace = host.workspace.with_spill(spill.path())?;
        let grants = Arc::new(Grants::default());
        let network = SessionNetwork::new(Terms {
            allowed: host.commands.settings.network.clone(),
            policy: Arc::clone(&host.policy),
            grants: Arc::clone(&grants),
            internet: host.internet.clone(),
            state: host.state.clone(),
            workspace: workspace.clone(),
            session: id.clone(),
        });
        let commands = SessionCommands::new(&host.state, name, id.is_some(), network);
        commands.sweep();
        Ok(Self {
            seen: id.is_some().then(Arc::default),
            id,
            spill,
            spill_lease: None,
            workspace,
            grants,
            lane: host.admission.lane(),
            commands: Arc::new(commands),
        })
    }

    /// Takes away what sessions left whose processes were killed. Bounded: what is more goes the
    /// next time.
    pub(crate) fn sweep(state: &StateDir) {
        let swept = lease::sweep(state, &[TMP, SPILL]);
        if swept > 0 {
            tracing::info!(swept, "removed what killed sessions left");
        }
    }

    /// Ends its commands, those somebody waits for among them, and takes their temporary files
    /// away. Returns when they are gone; no command starts afterwards. Dropping it does the same.
    pub fn end(&self) {
        self.commands.end();
    }

    /// Its id; `None` for single calls.
    pub fn id(&self) -> Option<&SessionId> {
        self.id.as_ref()
    }

    /// The files it has seen; `None` for single calls.
    pub fn seen(&self) -> Option<&Arc<SeenFiles>> {
        self.seen.as_ref()
    }

    /// The workspace as this session sees it: its own results are readable.
    pub fn workspace(&self) -> &Workspace {
        &self.workspace
    }

    /// What a person allowed for the rest of it, oldest first. It is never written to a disk.
    pub fn grants(&self) -> Vec<StandingAnswer> {
        self.grants.list(Stand::Allowed)
    }

    /// What a person rejected for the rest of it, oldest first; its like is not asked again.
    pub fn rejections(&self) -> Vec<StandingAnswer> {
        self.grants.list(Stand::Rejected)
    }

    /// Takes one of [`Session::grants`] or [`Session::rejections`] back; false when there is none
    /// of that id.
    pub fn revoke(&self, id: u64) -> bool {
        self.grants.revoke(id)
    }

    /// Takes all of them back; says how many there were.
    pub fn revoke_all(&self) -> usize {
        self.grants.revoke_all()
    }

    /// Whether an answer can stand for more than one call.
    pub(crate) fn remembers(&self) -> bool {
        self.id.is_some()
    }

    /// Where results too large for the model go.
    pub(crate) fn spill(&self) -> &StateDir {
        &self.spill
    }

    fn drop_old_results(&self) {
        for name in self.spill.names().unwrap_or_default() {
            if self.spill.age(&name).is_ok_and(|age| age > ONE_SHOT_SPILL_AGE_MAX) {
                let _ = self.spill.remove(&name);
            }
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.end();
        // Its results go with it, unless another process has the same session.
        drop(self.spill_lease.take());
    }
}
