//! The state of a session on a tool host.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use zero_core::{SessionId, ToolError};
use zero_exec::jobs::{JobOwner, JobRegistry, JobTable};
use zero_exec::{
    GrantProvider, NetworkPolicy, SessionCommands, SessionNetwork, SpillFolder, TMP_SHELF,
};
use zero_policy::PermissionMode;
use zero_sandbox::journal::sha256;
use zero_sandbox::{StateDir, Workspace, file_error, folder_lease};

use crate::admission::SessionQuota;
use crate::approver::Approver;
use crate::audit::{self, ConnectionAuditLog, JobAuditLog};
use crate::editor::Editor;
use crate::editor_buffers::EditorBuffers;
use crate::elicitation::Elicitor;
use crate::grants::{GrantDecision, GrantRecord, GrantStore, GrantTable, SavedGrant, SessionGrant};
use crate::observer::CallEventObserver;
use crate::seen_files::SeenFiles;
use crate::session_results::{self, CALL_RESULTS, ResultLifetime};
use crate::text_reader::TextReaderProvider;
use crate::tool_host::ToolHost;

/// How long oversized results of calls without a session are kept.
const ONE_SHOT_SPILL_AGE_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// Folder for oversized results of sessions, one folder per session.
const SPILL: &str = "spill";

/// What a session overrides of its host's configuration.
#[derive(Default)]
pub struct ToolHostSessionConfig {
    /// Whose session it is, on a host that serves several owners: each has a share of the host.
    pub owner: Option<String>,
    /// Asks the session's user for approval.
    pub approver: Option<Arc<dyn Approver>>,
    /// Asks the session's user questions.
    pub elicitor: Option<Arc<dyn Elicitor>>,
    /// Observes the session's calls.
    pub observer: Option<Arc<dyn CallEventObserver>>,
    /// The permission mode.
    pub mode: Option<PermissionMode>,
    /// The user's earlier grants. They allow no more than if they were given now.
    pub grants: Vec<SavedGrant>,
    /// Stores the user's grants.
    pub grant_store: Option<GrantStore>,
    /// The user's editor: workspace text is read and written through it.
    pub editor: Option<Arc<dyn Editor>>,
    /// Reads long texts for the session's tools.
    pub readers: Option<Arc<dyn TextReaderProvider>>,
    /// How long its oversized results exist.
    pub result_lifetime: ResultLifetime,
    /// The session whose sub-agent it serves: it has the grants of that session and no freer mode.
    pub parent: Option<SessionInheritance>,
}

/// What the session of a sub-agent has from its parent session.
#[derive(Clone)]
pub struct SessionInheritance {
    id: Option<SessionId>,
    mode: Arc<SessionMode>,
    grants: Arc<GrantTable>,
}

/// The permission mode of a session.
struct SessionMode {
    /// The session's own; `None` if that of its parent, or else of the settings, applies.
    chosen: Mutex<Option<PermissionMode>>,
    /// That of the settings.
    default: PermissionMode,
    /// The mode of the parent session, which is the most that this one allows.
    ceiling: Option<Arc<SessionMode>>,
}

impl SessionMode {
    fn get(&self) -> Option<PermissionMode> {
        let chosen = *self.chosen.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(ceiling) = &self.ceiling else { return chosen };
        let inherited = ceiling.get();
        // The settings of a worktree may differ from those of the parent's folder.
        let most = inherited.unwrap_or(ceiling.default);
        match chosen.or(inherited) {
            Some(mode) if mode.is_within(most) => Some(mode),
            None if self.default.is_within(most) => None,
            _ => Some(most),
        }
    }
}

/// The state of a session. When it ends, its jobs are killed, unless this process can hold them, and
/// its oversized results are removed, unless they belong to a stored session.
pub struct ToolHostSession {
    id: Option<SessionId>,
    seen: Option<Arc<SeenFiles>>,
    spill: Arc<SpillFolder>,
    workspace: Workspace,
    mode: Arc<SessionMode>,
    /// The session whose sub-agent it serves.
    parent: Option<SessionId>,
    /// The session's own, or the host's.
    pub(crate) approver: Option<Arc<dyn Approver>>,
    pub(crate) elicitor: Option<Arc<dyn Elicitor>>,
    pub(crate) observer: Option<Arc<dyn CallEventObserver>>,
    pub(crate) buffers: Option<Arc<EditorBuffers>>,
    pub(crate) readers: Option<Arc<dyn TextReaderProvider>>,
    pub(crate) grants: Arc<GrantTable>,
    pub(crate) lane: SessionQuota,
    pub(crate) commands: Arc<SessionCommands>,
    /// Runs hooks: separate from the session's commands, so that commands cannot interfere with
    /// them. Absent if the host has no hooks.
    pub(crate) hook_commands: Option<Arc<SessionCommands>>,
}

impl ToolHostSession {
    pub(crate) fn open(
        id: SessionId,
        host: &ToolHost,
        config: ToolHostSessionConfig,
    ) -> Result<Self, ToolError> {
        let spill = match config.result_lifetime {
            ResultLifetime::Session => {
                let folder = session_results::folder(&host.state, &id);
                let quota = session_results::quota(&host.state, &id, config.owner.as_deref());
                SpillFolder::new_permanent(folder).with_quota(quota)
            }
            ResultLifetime::Process => SpillFolder::new_leased(&host.state, SPILL, id.as_str())
                .map_err(|error| {
                    let shown = host.state.child(SPILL).path().display().to_string();
                    file_error::from_io("use zero's own folder", &shown, &error)
                })?,
        };
        let name = format!("session-{id}");
        Self::with_spill(Some(id), spill, name, host, config)
    }

    /// A session for single calls: it keeps no state, and its results outlive it.
    pub(crate) fn open_one_shot(host: &ToolHost) -> Result<Self, ToolError> {
        let key = sha256(host.workspace.cwd().as_os_str().as_encoded_bytes());
        let spill = SpillFolder::new_permanent(host.state.child(CALL_RESULTS).child(&key[..16]));
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
            owner,
            approver,
            elicitor,
            observer,
            mode,
            grants,
            grant_store,
            editor,
            readers,
            result_lifetime: _,
            parent,
        } = config;
        let shown = host.state.path().display().to_string();
        host.state
            .create()
            .map_err(|error| file_error::from_io("make zero's own folder", &shown, &error))?;
        let workspace = host.workspace.with_spill(spill.path())?;
        let grants = match &parent {
            Some(parent) => Arc::clone(&parent.grants),
            None => Arc::new(GrantTable::restore(grants, grant_store)),
        };
        let ceiling = parent.as_ref().map(|parent| Arc::clone(&parent.mode));
        let parent = parent.and_then(|parent| parent.id);
        let network = |grants: GrantProvider| {
            let log = ConnectionAuditLog::new(&host.state, workspace.clone(), id.clone())
                .with_parent(parent.clone());
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
            // Grants of a session do not apply to hooks.
            let network = network(Arc::new(Vec::new));
            Arc::new(SessionCommands::new(&host.state, name, false, network))
        });
        let allowed = Arc::clone(&grants);
        let network = network(Arc::new(move || allowed.list_grants(GrantDecision::Allowed)));
        let folder = workspace.cwd().display().to_string();
        let job_owner = JobOwner {
            // Single calls in a folder reach each other's jobs.
            scope: match &id {
                Some(_) => name.clone(),
                None => format!("calls {folder}"),
            },
            session: id.as_ref().map(ToString::to_string),
            workspace: folder,
        };
        let log = JobAuditLog::new(&host.state, workspace.clone(), id.clone())
            .with_parent(parent.clone());
        let jobs = JobTable::new(JobRegistry::open(&host.state), job_owner, Arc::new(log));
        let commands =
            SessionCommands::new(&host.state, name, id.is_some(), network).with_jobs(jobs);
        commands.sweep();
        Ok(Self {
            seen: id.is_some().then(Arc::default),
            id,
            spill: Arc::new(spill),
            workspace,
            mode: Arc::new(SessionMode {
                chosen: Mutex::new(mode),
                default: host.policy.default_mode(),
                ceiling,
            }),
            parent,
            approver: approver.or_else(|| host.approver.clone()),
            elicitor: elicitor.or_else(|| host.elicitor.clone()),
            observer: observer.or_else(|| host.observer.clone()),
            buffers: editor.map(|editor| Arc::new(EditorBuffers::new(editor))),
            readers,
            grants,
            lane: host.admission.new_session_quota(owner.as_deref()),
            commands: Arc::new(commands),
            hook_commands,
        })
    }

    /// Removes the files of sessions whose processes were killed. Bounded: the rest is removed next
    /// time.
    pub(crate) fn sweep(state: &StateDir) {
        let swept = folder_lease::sweep(state, &[TMP_SHELF, SPILL, audit::PROCESSES]);
        if swept > 0 {
            tracing::info!(swept, "removed files of killed sessions");
        }
    }

    /// Kills its commands, including foreground ones, and removes their temporary files. Returns
    /// when they are gone; no command starts afterwards. Dropping the session does the same.
    pub fn end(&self) {
        self.commands.end();
        if let Some(hooks) = &self.hook_commands {
            hooks.end();
        }
    }

    /// Whether a background job that it started runs in this process.
    pub fn has_running_jobs(&self) -> bool {
        self.commands.jobs.has_running()
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

    /// The session whose sub-agent it serves.
    pub fn parent(&self) -> Option<&SessionId> {
        self.parent.as_ref()
    }

    /// What the session of a sub-agent has from this one, now and later.
    pub fn inheritance(&self) -> SessionInheritance {
        SessionInheritance {
            id: self.id.clone(),
            mode: Arc::clone(&self.mode),
            grants: Arc::clone(&self.grants),
        }
    }

    /// The session's own mode, or that of its parent if that is stricter; `None` if that of the
    /// settings applies.
    pub fn mode(&self) -> Option<PermissionMode> {
        self.mode.get()
    }

    /// Sets the mode, or `None` for that of the settings. Applies to every call that is authorized
    /// from now on, including those that wait for approval.
    pub fn set_mode(&self, mode: Option<PermissionMode>) {
        *self.mode.chosen.lock().unwrap_or_else(PoisonError::into_inner) = mode;
    }

    /// All grants and rejections of the session, oldest first.
    pub fn saved_grants(&self) -> Vec<SavedGrant> {
        self.grants.saved_grants()
    }

    /// What the user allowed for the session, oldest first.
    pub fn grants(&self) -> Vec<SessionGrant> {
        self.grants.list(GrantDecision::Allowed)
    }

    /// What the user rejected for the session, oldest first; it is not asked about again.
    pub fn rejections(&self) -> Vec<SessionGrant> {
        self.grants.list(GrantDecision::Rejected)
    }

    /// Revokes one of [`ToolHostSession::grants`] or [`ToolHostSession::rejections`]; returns false
    /// if there is none with that id.
    pub fn revoke(&self, id: u64) -> bool {
        self.grants.revoke(id)
    }

    /// Revokes those with this rule; returns how many there were.
    pub fn revoke_rule(&self, rule: &str) -> usize {
        self.grants.revoke_rule(rule)
    }

    /// Revokes all of them; returns how many there were.
    pub fn revoke_all(&self) -> usize {
        self.grants.revoke_all()
    }

    /// Forgets grants that are no longer stored.
    pub fn forget_grants(&self, revoked: &[GrantRecord]) {
        self.grants.forget(revoked);
    }

    /// Whether an answer can apply to more than one call.
    pub(crate) fn is_persistent(&self) -> bool {
        self.id.is_some()
    }

    /// Where results are stored that are too large for the model.
    pub(crate) fn spill(&self) -> &Arc<SpillFolder> {
        &self.spill
    }
}

impl Drop for ToolHostSession {
    fn drop(&mut self) {
        self.end();
        // A job that goes on still writes its output there.
        if !self.commands.is_held() {
            self.spill.end();
        }
    }
}
