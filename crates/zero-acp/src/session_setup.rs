//! Opens new and existing sessions.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use agent_client_protocol::Error;
use agent_client_protocol::v1::schema::{
    self, AvailableCommandsUpdate, McpServer, Meta, SessionUpdate,
};
use futures_util::FutureExt as _;
use serde_json::Value;
use tokio::sync::mpsc;
use zero_client::{GatewayLocality, LocalMode, OpenRequest, SessionHandle, SessionUpdates};
use zero_core::SessionId;
use zero_core::event::{Event, EventKind};
use zero_policy::PermissionMode;

use zero_runtime::session_results::ResultLifetime;

use crate::acp_agent::AcpAgent;
use crate::client_approver::ClientApprover;
use crate::client_buffers::ClientBuffers;
use crate::client_handle::ClientHandle;
use crate::client_questions::{ClientQuestions, QuestionCanceller};
use crate::client_terminal::{self, TerminalCaller};
use crate::client_tools::ClientToolSet;
use crate::command_watcher;
use crate::config::{FolderPrefixPolicy, SessionOpenDefaults, TerminalPolicy};
use crate::prompt_content;
use crate::rpc_error;
use crate::session::{ActiveSession, SessionActor};
use crate::session_forwarding::session_backend;
use crate::session_message::{SessionMessage, SessionSender};
use crate::session_options::SessionOptions;
use crate::tool_host_factory::{SessionMcpServer, SessionServerTransport, ToolHostRequest};
use crate::update_buffer::UpdateBuffer;
use crate::update_presenter::{DeliveryMode, UpdatePresenter};

/// Most open sessions.
const SESSIONS_MAX: usize = 256;
/// Most MCP servers of a session.
const SERVERS_MAX: usize = 64;
/// Most additional folders of a session.
const FOLDERS_MAX: usize = 64;
/// Sessions that `--reset-session` resets; it leaves further ones as they are.
const RESETS_MAX: usize = 4_096;
/// Most entries of a replay; a ledger that never ends is an error.
const ENTRIES_MAX: usize = 1_000_000;

/// The session that a client asks for.
pub(crate) struct SessionSpec {
    /// Its id, if it exists already.
    pub(crate) id: Option<String>,
    pub(crate) cwd: PathBuf,
    pub(crate) additional: Vec<PathBuf>,
    pub(crate) servers: Vec<McpServer>,
    pub(crate) meta: Option<Meta>,
}

/// A session that is open and has sent no updates yet.
pub(crate) struct PreparedSession {
    pub(crate) active: Arc<ActiveSession>,
    actor: SessionActor,
    messages: mpsc::Receiver<SessionMessage>,
    updates: UpdateBuffer,
    to_client: ClientHandle,
}

impl AcpAgent {
    /// Checks a request as far as that is possible before anything is opened.
    pub(crate) async fn check_spec(&self, spec: &SessionSpec) -> Result<(), Error> {
        let SessionSpec { cwd, additional, servers, .. } = spec;
        parse_servers(servers.clone())?;
        check_folders(cwd, additional)?;
        self.check_session_folders(cwd, additional).await
    }

    /// Checks whether a session may work in these folders.
    async fn check_session_folders(&self, cwd: &Path, additional: &[PathBuf]) -> Result<(), Error> {
        let checked = self.config.tool_hosts.check_folders(cwd, additional).await;
        checked.map_err(|error| rpc_error::from_backend_error(&error))
    }

    /// Opens a session at the gateway and prepares its tools; fails at `SESSIONS_MAX`.
    pub(crate) async fn open_session(&self, spec: SessionSpec) -> Result<PreparedSession, Error> {
        let SessionSpec { id, cwd, additional, servers, meta } = spec;
        let servers = parse_servers(servers)?;
        check_folders(&cwd, &additional)?;
        let meta_json = meta.clone().map(Value::Object);
        let tools = self.client_tools().with_session_tools(meta_json.as_ref());
        let has_terminal = self.client_features().runs_terminals
            && self.config.preferences().terminal == TerminalPolicy::Ask;
        let mut chosen = select_session(&self.config.defaults, id.as_deref(), meta.as_ref())?;
        chosen.opening.reset &= !chosen.is_reset_default || !self.is_reset_done(&chosen.opening);
        let resets = chosen.is_reset_default.then(|| chosen.opening.clone());
        let opening = OpenRequest { cwd: Some(cwd.display().to_string()), ..chosen.opening };
        if self.sessions().len() + self.loading().len() >= SESSIONS_MAX {
            let message = format!("{SESSIONS_MAX} sessions are open; close one first");
            return Err(rpc_error::bad_request(message));
        }
        let (handle, updates) = {
            // Prepare the gateway while the folders are checked; requests wait for the check.
            let fits = self.check_session_folders(&cwd, &additional).shared();
            let ready = async {
                fits.clone().await?;
                // A session with servers or tools of its own has a tool host of its own.
                Ok(match servers.is_empty() && tools.is_empty() && !has_terminal {
                    true => Some(self.config.tool_hosts.prepare(&cwd, &additional).await),
                    false => None,
                })
            };
            let open = async {
                self.config.link.connect().await;
                fits.clone().await?;
                self.open_at_gateway(id.as_deref(), opening).await
            };
            // A failed check does not wait for the preparation.
            let (opened, _ready) = tokio::try_join!(open, ready)?;
            opened
        };
        if let Some(opening) = resets {
            self.mark_reset_done(&opening);
        }
        let mut updates = UpdateBuffer::new(updates);
        let folder_prefix = chosen.folder_prefix;
        let environment = SessionEnvironment { id, cwd, additional, servers, tools, folder_prefix };
        match updates.buffer_during(self.build_session(handle.clone(), environment)).await {
            Ok(SessionParts { active, actor, messages, to_client }) => {
                Ok(PreparedSession { active, actor, messages, updates, to_client })
            }
            Err(error) => {
                handle.leave().await;
                Err(error)
            }
        }
    }

    async fn open_at_gateway(
        &self,
        id: Option<&str>,
        opening: OpenRequest,
    ) -> Result<(SessionHandle, SessionUpdates), Error> {
        let opened = self.config.link.open(opening).await;
        opened.map_err(|error| match (id, rpc_error::from_link_error(&error)) {
            (Some(id), error) if error.code == rpc_error::no_session(id).code => {
                rpc_error::no_session(id)
            }
            (_, error) => error,
        })
    }

    async fn build_session(
        &self,
        handle: SessionHandle,
        environment: SessionEnvironment,
    ) -> Result<SessionParts, Error> {
        // Settings are known once the gateway is connected.
        let has_terminal = self.client_features().runs_terminals
            && self.config.preferences().terminal == TerminalPolicy::Ask;
        let SessionEnvironment { id: asked_id, cwd, additional, servers, mut tools, folder_prefix } =
            environment;
        let info = handle.info();
        let id = self.assign_id(asked_id.as_deref().unwrap_or(&info.session_key));
        let Some(to_client) = self.client_handle() else {
            return Err(rpc_error::bad_request("`initialize` comes first"));
        };
        let caps = self.client_features();
        let (sender, messages) = SessionSender::new();
        let asker = Arc::new(ClientApprover { sender: sender.clone() });
        let folders: Vec<PathBuf> = std::iter::once(&cwd).chain(&additional).cloned().collect();
        let tool_hosts = Arc::clone(&self.config.tool_hosts);
        let editor = ClientBuffers::for_client(
            id.clone(),
            to_client.clone(),
            caps.clone(),
            tool_hosts,
            folders,
        )
        .await;
        let session = SessionId::new(info.session_id.clone()).map_err(|error| {
            rpc_error::operation_failed("gateway_refused", error.to_string(), false)
        })?;
        // The messages are not read yet. There are few, so the channel has room for them.
        for problem in std::mem::take(&mut tools.problems) {
            let _ = sender.try_send(SessionMessage::Remark(problem));
        }
        let mut tools = tools.into_tools(&id, &to_client, &self.tool_calls);
        if has_terminal {
            let caller = TerminalCaller {
                session: id.clone(),
                to_client: to_client.clone(),
                cwd: cwd.clone(),
                sender: sender.clone(),
            };
            tools.extend(client_terminal::terminal_tool(caller));
        }
        let order = ToolHostRequest {
            session,
            cwd: cwd.clone(),
            additional,
            // The gateway sends its mode with the terms; it is bounded by the mode that applies
            // here.
            mode: None,
            approver: Arc::clone(&asker) as _,
            elicitor: asker,
            editor: editor.map(|editor| Arc::new(editor) as _),
            servers,
            tools,
            result_lifetime: result_lifetime(handle.locality()),
        };
        let tool_host = self
            .config
            .tool_hosts
            .open(order)
            .await
            .map_err(|error| rpc_error::from_tool_host_error(&error))?;
        let own_mode = Arc::new(LocalMode::new(handle.locality(), tool_host.own_mode, &info));
        let hosted = session_backend(&tool_host.backend, &own_mode, &sender);
        // The name distinguishes this process from others. The mode can change here; the backend
        // enforces it.
        let host = format!("zero acp (process {})", std::process::id());
        handle
            .host_tools(&host, hosted, PermissionMode::Auto)
            .await
            .map_err(|error| rpc_error::from_link_error(&error))?;
        let offered = handle.choices().await.map_err(|error| rpc_error::from_link_error(&error))?;
        let choices =
            SessionOptions { info: handle.info(), offered, own_mode: own_mode.chosen_mode() };
        let folder_prefix = folder_prefix.unwrap_or(self.config.preferences().folder_prefix);
        let prefix_folder = (folder_prefix == FolderPrefixPolicy::Always)
            .then(|| prompt_content::abbreviate_home(&cwd, self.config.home.as_deref()));
        let stops: Arc<QuestionCanceller> = Arc::default();
        let active = Arc::new(ActiveSession {
            id: id.clone(),
            handle: handle.clone(),
            backend: tool_host.backend,
            sender: sender.clone(),
            stops: Arc::clone(&stops),
            choices: Mutex::new(choices),
            own_mode,
            sending: Arc::default(),
            prefix_folder,
            overlap: self.config.preferences().overlap,
            own_calls: Arc::clone(&self.own_calls),
        });
        let presenter = UpdatePresenter::new(caps.clone(), cwd);
        let questions =
            ClientQuestions::new(id, Some(handle), to_client.clone(), caps, sender, stops);
        let actor =
            SessionActor::new(Arc::clone(&active), to_client.clone(), presenter, questions, 0);
        Ok(SessionParts { active, actor, messages, to_client })
    }

    /// Whether `--reset-session` has reset the session that is asked for. It does so once, before
    /// the first use in this process.
    fn is_reset_done(&self, opening: &OpenRequest) -> bool {
        let done = self.reset_done();
        done.len() >= RESETS_MAX || done.contains(&(opening.key.clone(), opening.label.clone()))
    }

    fn mark_reset_done(&self, opening: &OpenRequest) {
        let mut done = self.reset_done();
        if done.len() < RESETS_MAX {
            done.insert((opening.key.clone(), opening.label.clone()));
        }
    }

    /// The client's id for a session: the id it asked for, or the key, so that another process can
    /// find the session by it.
    fn assign_id(&self, key: &str) -> schema::SessionId {
        let (sessions, loading) = (self.sessions(), self.loading());
        let mut id = key.to_owned();
        let mut number = 2;
        while sessions.contains_key(&id) || loading.contains(&id) {
            id = format!("{key}#{number}");
            number += 1;
        }
        schema::SessionId::new(id)
    }
}

impl PreparedSession {
    /// Sends the history of the session to the client.
    pub(crate) async fn replay_history(&mut self) -> Result<(), Error> {
        let Self { active, actor, updates, to_client, .. } = self;
        updates.buffer_during(replay_ledger(active, actor, to_client)).await
    }

    /// Starts the session's task, after the client knows that the session is open.
    pub(crate) fn start(self) {
        let Self { active, mut actor, messages, mut updates, .. } = self;
        let first = {
            let choices = active.options();
            let commands = AvailableCommandsUpdate::new(choices.commands());
            let mut first = vec![SessionUpdate::AvailableCommandsUpdate(commands)];
            first.extend(actor.presenter.present_session_info(&choices.info));
            first
        };
        let sender = active.sender.clone();
        tokio::spawn(command_watcher::watch(Arc::downgrade(&active)));
        drop(active);
        tokio::spawn(actor.run(messages));
        tokio::spawn(async move {
            sender.send(SessionMessage::SendUpdates(first)).await;
            while let Some(update) = updates.next().await {
                sender.send(SessionMessage::GatewayUpdate(Box::new(update))).await;
            }
        });
    }
}

async fn replay_ledger(
    active: &ActiveSession,
    actor: &mut SessionActor,
    to_client: &ClientHandle,
) -> Result<(), Error> {
    let handle = &active.handle;
    let from = match handle.info().transcript {
        0 | 1 => 0,
        _ => last_reset_seq(handle).await?,
    };
    let mut ledger = LedgerReader::starting_after(handle, from);
    while let Some(page) = ledger.next_page().await? {
        for event in &page {
            let updates = actor.presenter.present_entry(event, DeliveryMode::Replay);
            to_client.send_updates(&active.id, updates).await;
        }
    }
    actor.sent_until = ledger.after;
    Ok(())
}

/// Number of the entry that began the current transcript.
async fn last_reset_seq(handle: &SessionHandle) -> Result<u64, Error> {
    let (mut ledger, mut reset) = (LedgerReader::starting_after(handle, 0), 0);
    while let Some(page) = ledger.next_page().await? {
        let mut resets = page.iter().filter(|event| matches!(event.kind, EventKind::Reset { .. }));
        reset = resets.next_back().map_or(reset, |event| event.seq);
    }
    Ok(reset)
}

/// Reads a ledger page by page to its end.
struct LedgerReader<'a> {
    handle: &'a SessionHandle,
    /// Number of the last entry that was read.
    after: u64,
    count: usize,
    is_read: bool,
}

impl<'a> LedgerReader<'a> {
    /// Starts after an entry.
    fn starting_after(handle: &'a SessionHandle, after: u64) -> Self {
        Self { handle, after, count: 0, is_read: false }
    }

    /// The next entries; `None` at the end.
    async fn next_page(&mut self) -> Result<Option<Vec<Event>>, Error> {
        if self.is_read {
            return Ok(None);
        }
        if self.count >= ENTRIES_MAX {
            let message = format!(
                "the session has more than {ENTRIES_MAX} entries; `session/resume` opens it without sending them, and `session/new` starts another one"
            );
            return Err(rpc_error::bad_request(message));
        }
        let page = self
            .handle
            .read_events(self.after)
            .await
            .map_err(|error| rpc_error::from_link_error(&error))?;
        self.is_read = !page.has_more;
        self.count = self.count.saturating_add(page.events.len());
        self.after = page.events.last().map_or(self.after, |event| event.seq);
        Ok(Some(page.events))
    }
}

/// The parts of a session that is set up.
struct SessionParts {
    active: Arc<ActiveSession>,
    actor: SessionActor,
    messages: mpsc::Receiver<SessionMessage>,
    to_client: ClientHandle,
}

/// Folders, servers and id of a session.
struct SessionEnvironment {
    /// The client's id for it, if the session exists.
    id: Option<String>,
    cwd: PathBuf,
    additional: Vec<PathBuf>,
    servers: Vec<SessionMcpServer>,
    tools: ClientToolSet,
    folder_prefix: Option<FolderPrefixPolicy>,
}

/// How the session is selected: by key, label or agent.
struct SessionSelection {
    opening: OpenRequest,
    folder_prefix: Option<FolderPrefixPolicy>,
    /// Whether the flag, not the client, asks for a reset.
    is_reset_default: bool,
}

fn select_session(
    defaults: &SessionOpenDefaults,
    id: Option<&str>,
    meta: Option<&Meta>,
) -> Result<SessionSelection, Error> {
    let fields = SessionMeta { meta };
    let asked_prefix = fields.bool_field(&["prefixCwd"])?.map(|asked| match asked {
        true => FolderPrefixPolicy::Always,
        false => FolderPrefixPolicy::Never,
    });
    let folder_prefix = asked_prefix.or(defaults.folder_prefix);
    if let Some(id) = id {
        let key = Some(key_of_id(id).to_owned());
        let opening = OpenRequest { key, require_existing: true, ..OpenRequest::default() };
        return Ok(SessionSelection { opening, folder_prefix, is_reset_default: false });
    }
    let label = fields.text_field(&["sessionLabel", "label"])?;
    let key = fields.text_field(&["sessionKey", "session", "key"])?;
    let (key, label) = match (key, label) {
        (None, None) => (defaults.key.clone(), defaults.label.clone()),
        selected => selected,
    };
    // A label selects a session on its own; a key would select another one.
    let key = match &label {
        Some(_) => None,
        None => Some(key.unwrap_or_else(new_session_key)),
    };
    let asked_reset = fields.bool_field(&["resetSession", "reset"])?;
    let reset = asked_reset.unwrap_or(defaults.reset);
    let existing = fields.bool_field(&["requireExisting", "requireExistingSession"])?;
    let require_existing = existing.unwrap_or(defaults.require_existing);
    let agent = defaults.agent.clone();
    let opening =
        OpenRequest { key, label, agent, reset, require_existing, ..OpenRequest::default() };
    let is_reset_default = asked_reset.is_none() && defaults.reset;
    Ok(SessionSelection { opening, folder_prefix, is_reset_default })
}

/// The key of a session, given its id. A session that is opened twice on a connection has a number
/// after its key.
pub(crate) fn key_of_id(id: &str) -> &str {
    match id.rsplit_once('#') {
        Some((key, number)) if number.bytes().all(|byte| byte.is_ascii_digit()) => key,
        _ => id,
    }
}

/// A key that no session has.
pub(crate) fn new_session_key() -> String {
    format!("acp:{}", random_uuid())
}

/// Options of the client in `_meta` or `_meta.zero`.
struct SessionMeta<'a> {
    meta: Option<&'a Meta>,
}

impl SessionMeta<'_> {
    fn find_field(&self, names: &[&str]) -> Option<&Value> {
        let meta = self.meta?;
        let own = meta.get("zero").and_then(Value::as_object);
        let own = names.iter().find_map(|name| own.and_then(|own| own.get(*name)));
        own.or_else(|| names.iter().find_map(|name| meta.get(*name)))
            .filter(|value| !value.is_null())
    }

    fn text_field(&self, names: &[&str]) -> Result<Option<String>, Error> {
        match self.find_field(names) {
            None => Ok(None),
            Some(Value::String(text)) if !text.trim().is_empty() => Ok(Some(text.clone())),
            Some(_) => Err(wrong_type_error(names, "a text that is not empty")),
        }
    }

    fn bool_field(&self, names: &[&str]) -> Result<Option<bool>, Error> {
        match self.find_field(names) {
            None => Ok(None),
            Some(Value::Bool(switch)) => Ok(Some(*switch)),
            Some(_) => Err(wrong_type_error(names, "true or false")),
        }
    }
}

fn wrong_type_error(names: &[&str], expected: &str) -> Error {
    rpc_error::invalid_params(format!(
        "`_meta.{}` has to be {expected}",
        names.first().unwrap_or(&"")
    ))
}

/// A version 4 UUID; its random bits are not cryptographically secure.
fn random_uuid() -> String {
    zero_core::id::uuid_of_bits(fastrand::u128(..))
}

fn check_folders(cwd: &Path, additional: &[PathBuf]) -> Result<(), Error> {
    if additional.len() > FOLDERS_MAX {
        return Err(rpc_error::invalid_params(format!(
            "a session can have {FOLDERS_MAX} further folders"
        )));
    }
    for (name, folder) in std::iter::once(("cwd", cwd))
        .chain(additional.iter().map(|folder| ("additionalDirectories", &**folder)))
    {
        if !folder.is_absolute() {
            return Err(rpc_error::invalid_params(format!("`{name}` has to be an absolute path")));
        }
        if folder.parent().is_none() {
            let message =
                format!("`{name}` is the root of this machine; name a folder of a project");
            return Err(rpc_error::invalid_params(message));
        }
    }
    Ok(())
}

/// Parses the servers that a client names. Errors do not quote their values, which may be secret.
fn parse_servers(servers: Vec<McpServer>) -> Result<Vec<SessionMcpServer>, Error> {
    if servers.len() > SERVERS_MAX {
        return Err(rpc_error::invalid_params(format!(
            "a session can have {SERVERS_MAX} MCP servers"
        )));
    }
    servers.into_iter().map(parse_server).collect()
}

fn parse_server(server: McpServer) -> Result<SessionMcpServer, Error> {
    match server {
        McpServer::Stdio(server) => {
            if !server.command.is_absolute() && server.command.components().count() > 1 {
                return Err(rpc_error::invalid_params(
                    "the command of an MCP server has to be an absolute path",
                ));
            }
            let env = server.env.into_iter().map(|pair| (pair.name, pair.value)).collect();
            let transport =
                SessionServerTransport::Command { command: server.command, args: server.args, env };
            Ok(SessionMcpServer { name: server.name, transport })
        }
        McpServer::Http(server) => {
            let headers = server.headers.into_iter().map(|pair| (pair.name, pair.value)).collect();
            let how = SessionServerTransport::Http { url: server.url, headers };
            Ok(SessionMcpServer { name: server.name, transport: how })
        }
        _ => Err(rpc_error::invalid_params(
            "an MCP server can be a command or have an address (`http`)",
        )),
    }
}

/// A gateway elsewhere cannot tell when a session is deleted, so that its results would stay.
fn result_lifetime(locality: GatewayLocality) -> ResultLifetime {
    match locality {
        GatewayLocality::InProcess => ResultLifetime::Session,
        GatewayLocality::Remote => ResultLifetime::Process,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(meta: Value, expected: OpenRequest) {
        let meta: Meta = serde_json::from_value(meta).unwrap();
        let chosen = select_session(&SessionOpenDefaults::default(), None, Some(&meta)).unwrap();
        assert_eq!(chosen.opening, expected);
    }

    #[test]
    fn meta_selects_session() {
        let key = |key: &str| OpenRequest { key: Some(key.to_owned()), ..OpenRequest::default() };
        check(json!({"sessionKey": "agent:main:main"}), key("agent:main:main"));
        check(json!({"zero": {"sessionKey": "a"}, "sessionKey": "b"}), key("a"));
        let labelled = OpenRequest {
            label: Some("inbox".to_owned()),
            reset: true,
            require_existing: true,
            ..OpenRequest::default()
        };
        let meta = json!({"sessionLabel": "inbox", "sessionKey": "b", "resetSession": true,
            "requireExisting": true});
        check(meta, labelled);
    }

    #[test]
    fn new_session_gets_unique_key() {
        let opening =
            |defaults: &SessionOpenDefaults| select_session(defaults, None, None).unwrap().opening;
        let key = opening(&SessionOpenDefaults::default()).key.unwrap();
        assert_eq!(key.len(), "acp:".len() + 36);
        assert_eq!(key.as_bytes()[18], b'4', "{key}");
        assert_ne!(Some(key), opening(&SessionOpenDefaults::default()).key);
        let defaults =
            SessionOpenDefaults { label: Some("l".to_owned()), ..SessionOpenDefaults::default() };
        assert_eq!(opening(&defaults).label.as_deref(), Some("l"));
        assert_eq!(opening(&defaults).key, None);
    }

    #[test]
    fn existing_session_is_opened_by_id() {
        for (id, expected) in [("acp:1", "acp:1"), ("acp:1#2", "acp:1"), ("acp:#x", "acp:#x")] {
            let opening =
                select_session(&SessionOpenDefaults::default(), Some(id), None).unwrap().opening;
            assert_eq!(opening.key.as_deref(), Some(expected));
            assert!(opening.require_existing);
        }
    }

    #[test]
    fn invalid_meta_is_refused() {
        for meta in [json!({"sessionKey": 1}), json!({"resetSession": "yes"}), json!({"label": ""})]
        {
            let meta: Meta = serde_json::from_value(meta).unwrap();
            assert!(select_session(&SessionOpenDefaults::default(), None, Some(&meta)).is_err());
        }
        assert!(check_folders(Path::new("a/b"), &[]).is_err());
        assert!(check_folders(Path::new("/"), &[]).is_err());
        assert!(check_folders(Path::new("/a"), &[PathBuf::from("b")]).is_err());
        assert!(check_folders(Path::new("/a"), &[PathBuf::from("/b")]).is_ok());
    }
}
