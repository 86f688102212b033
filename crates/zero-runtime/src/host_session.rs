//! What a host remembers from one call to the next.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use zero_core::{SessionId, ToolError};
use zero_exec::{
    GrantProvider, NetworkPolicy, SessionCommands, SessionNetwork, SpillFolder, TMP_SHELF,
};
use zero_policy::PermissionMode;
use zero_sandbox::journal::sha256;
use zero_sandbox::{StateDir, Workspace, file_error, folder_lease};

use crate::admission::SessionQuota;
use crate::approver::Approver;
use crate::audit::ConnectionAuditLog;
use crate::editor::Editor;
use crate::editor_buffers::EditorBuffers;
use crate::elicitation::Elicitor;
use crate::grants::{GrantDecision, GrantStore, GrantTable, SavedGrant, SessionGrant};
use crate::observer::CallEventObserver;
use crate::seen_files::SeenFiles;
use crate::text_reader::TextReaderProvider;
use crate::tool_host::ToolHost;

/// How long the oversized results of calls without a session are kept.
const ONE_SHOT_SPILL_AGE_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// Folder of the oversized results of calls without a session, one folder a workspace. It stands
/// apart from those of sessions, whose ids are chosen by others.
const ONE_SHOT: &str = "spill-calls";
/// Shelf of the oversized results of sessions, one folder a session.
const SPILL: &str = "spill";

/// What a session brings along, in the place of what its host has.
#[derive(Default)]
pub struct ToolHostSessionConfig {
    /// How to reach its person.
    pub approver: Option<Arc<dyn Approver>>,
    /// How its person is asked what only they know.
    pub elicitor: Option<Arc<dyn Elicitor>>,
    /// Who watches its calls.
    pub observer: Option<Arc<dyn CallEventObserver>>,
    /// How much it may do without asking, where no rule says otherwise.
    pub mode: Option<PermissionMode>,
    /// What its person settled earlier. It allows no more than it would if they said it now.
    pub standing: Vec<SavedGrant>,
    /// Who keeps what its person settles.
    pub keeper: Option<GrantStore>,
    /// The editor its person works with: text of the workspace is read and written through it.
    pub editor: Option<Arc<dyn Editor>>,
    /// What reads long texts for its tools.
    pub readers: Option<Arc<dyn TextReaderProvider>>,
}

/// What a host remembers from one call to the next. When it ends, its jobs end, and its oversized
/// results go.
pub struct ToolHostSession {
    id: Option<SessionId>,
    seen: Option<Arc<SeenFiles>>,
    spill: Arc<SpillFolder>,
    workspace: Workspace,
    mode: Mutex<Option<PermissionMode>>,
    /// Its own, or the host's.
    pub(crate) approver: Option<Arc<dyn Approver>>,
    pub(crate) elicitor: Option<Arc<dyn Elicitor>>,
    pub(crate) observer: Option<Arc<dyn CallEventObserver>>,
    pub(crate) buffers: Option<Arc<EditorBuffers>>,
    pub(crate) readers: Option<Arc<dyn TextReaderProvider>>,
    pub(crate) grants: Arc<GrantTable>,
    pub(crate) lane: SessionQuota,
    pub(crate) commands: Arc<SessionCommands>,
    /// Where hooks run: apart from its commands, so that none of those can meddle with them. Absent
    /// where its host has none.
    pub(crate) hook_commands: Option<Arc<SessionCommands>>,
}

impl ToolHostSession {
    pub(crate) fn open(
        id: SessionId,
        host: &ToolHost,
        config: ToolHostSessionConfig,
    ) -> Result<Self, ToolError> {
        let spill = SpillFolder::new_leased(&host.state, SPILL, id.as_str()).map_err(|error| {
            let shown = host.state.child(SPILL).path().display().to_string();
            file_error::from_io("use zero's own folder", &shown, &error)
        })?;
        let name = format!("session-{id}");
        Self::with_spill(Some(id), spill, name, host, config)
    }

    /// A session for single calls: it remembers nothing, and its results outlive it.
    pub(crate) fn open_one_shot(host: &ToolHost) -> Result<Self, ToolError> {
        let key = sha256(host.workspace.cwd().as_os_str().as_encoded_bytes());
        let spill = SpillFolder::new_permanent(host.state.child(ONE_SHOT).child(&key[..16]));
        let name = format!("calls-{:016x}", fastrand::u64(..));
        let session = Self::with_spill(None, spill, name, host, ToolHostSessionConfig::default())?;
        session.spill.remove_older(ONE_SHOT_SPILL_AGE_MAX);
        Ok(session)
    }

    fn with_spill(
        id: Option<SessionId>,
        spill: SpillFolder,
        name: String,
        host: &ToolHost,
        config: ToolHostSessionConfig,
    ) -> Result<Self, ToolError> {
        let ToolHostSessionConfig {
            approver,
            elicitor,
            observer,
            mode,
            standing,
            keeper,
            editor,
            readers,
        } = config;
        let shown = host.state.path().display().to_string();
        host.state
            .create()
            .map_err(|error| file_error::from_io("make zero's own folder", &shown, &error))?;
        let workspace = host.workspace.with_spill(spill.path())?;
        let grants = Arc::new(GrantTable::restore(standing, keeper));
        let network = |grants: GrantProvider| {
            let log = ConnectionAuditLog::new(&host.state, workspace.clone(), id.clone());
            SessionNetwork::new(NetworkPolicy {
                allowed: host.commands.settings.network.clone(),
                policy: host.policy.clone(),
                grants,
                internet: host.internet.clone(),
                log: Arc::new(log),
            })
        };
        let hook_commands = host.hooks.as_ref().map(|_| {
            let name = format!("hooks-{:016x}", fastrand::u64(..));
            // What a person allows in a session is no word about hooks.
            let network = network(Arc::new(Vec::new));
            Arc::new(SessionCommands::new(&host.state, name, false, network))
        });
        let allowed = Arc::clone(&grants);
        let network = network(Arc::new(move || allowed.list_grants(GrantDecision::Allowed)));
        let commands = SessionCommands::new(&host.state, name, id.is_some(), network);
        commands.sweep();
        Ok(Self {
            seen: id.is_some().then(Arc::default),
            id,
            spill: Arc::new(spill),
            workspace,
            mode: Mutex::new(mode),
            approver: approver.or_else(|| host.approver.clone()),
            elicitor: elicitor.or_else(|| host.elicitor.clone()),
            observer: observer.or_else(|| host.observer.clone()),
            buffers: editor.map(|editor| Arc::new(EditorBuffers::new(editor))),
            readers,
            grants,
            lane: host.admission.new_session_quota(),
            commands: Arc::new(commands),
            hook_commands,
        })
    }

    /// Takes away what sessions left whose processes were killed. Bounded: what is more goes the
    /// next time.
    pub(crate) fn sweep(state: &StateDir) {
        let swept = folder_lease::sweep(state, &[TMP_SHELF, SPILL]);
        if swept > 0 {
            tracing::info!(swept, "removed what killed sessions left");
        }
    }

    /// Ends its commands, those somebody waits for among them, and takes their temporary files
    /// away. Returns when they are gone; no command starts afterwards. Dropping it does the same.
    pub fn end(&self) {
        self.commands.end();
        if let Some(hooks) = &self.hook_commands {
            hooks.end();
        }
    }

    /// Its id; `None` for single calls.
    pub fn id(&self) -> Option<&SessionId> {
        self.id.as_ref()
    }

    /// The files it has seen; `None` for single calls.
    pub fn seen_files(&self) -> Option<&Arc<SeenFiles>> {
        self.seen.as_ref()
    }

    /// The workspace as this session sees it: its own results are readable.
    pub fn workspace(&self) -> &Workspace {
        &self.workspace
    }

    /// The mode it was given; `None` where that of the settings holds.
    pub fn mode(&self) -> Option<PermissionMode> {
        *self.mode.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives it another mode, or that of the settings. It counts for every call that is judged from
    /// now on, and for those that a person is asked about meanwhile.
    pub fn set_mode(&self, mode: Option<PermissionMode>) {
        *self.mode.lock().unwrap_or_else(PoisonError::into_inner) = mode;
    }

    /// All that a person settled for the rest of it, either way, oldest first.
    pub fn saved_grants(&self) -> Vec<SavedGrant> {
        self.grants.saved_grants()
    }

    /// What a person allowed for the rest of it, oldest first.
    pub fn grants(&self) -> Vec<SessionGrant> {
        self.grants.list(GrantDecision::Allowed)
    }

    /// What a person rejected for the rest of it, oldest first; its like is not asked again.
    pub fn rejections(&self) -> Vec<SessionGrant> {
        self.grants.list(GrantDecision::Rejected)
    }

    /// Takes one of [`ToolHostSession::grants`] or [`ToolHostSession::rejections`] back; false when there is none
    /// of that id.
    pub fn revoke(&self, id: u64) -> bool {
        self.grants.revoke(id)
    }

    /// Takes all of them back; says how many there were.
    pub fn revoke_all(&self) -> usize {
        self.grants.revoke_all()
    }

    /// Whether an answer can stand for more than one call.
    pub(crate) fn is_persistent(&self) -> bool {
        self.id.is_some()
    }

    /// Where results too large for the model go.
    pub(crate) fn spill(&self) -> &Arc<SpillFolder> {
        &self.spill
    }
}

impl Drop for ToolHostSession {
    fn drop(&mut self) {
        self.end();
        self.spill.end();
    }
}
