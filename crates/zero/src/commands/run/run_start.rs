//! Starts a run: hosts the tools in this process, completes the prompt and sends it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use zero_client::GatewayLocality;
use zero_client::tool_service::ToolService;
use zero_core::{SecretMask, SessionId};
use zero_mcp::client::McpServerSet;
use zero_policy::PermissionMode;
use zero_runtime::prompt_mentions::{MentionReport, read_mentions};
use zero_runtime::session_results::ResultLifetime;
use zero_runtime::tool_backend::ToolBackend;
use zero_session::agent::DIRECT;
use zero_session::approvals::StoredGrants;
use zero_session::store::GrantRecord;
use zero_wire::chat::{ChatAttachment, ChatSend, ChatSendParams};
use zero_wire::client::GatewayClient;
use zero_wire::tools::ToolsAttachParams;
use zero_wire::zero_sessions::{SessionInfo, SessionOpenParams, ZeroSessionsOpen};

use super::command_check::check_command;
use super::piped_input::PipedInput;
use crate::AppContext;
use crate::cli::RunArgs;
use crate::gateway_connection::CliGatewayConnection;
use crate::terminal::escape_line;
use crate::tool_host_factory::{TerminalBackendRequest, TerminalPromptOptions};

/// Folder of the tools, and the permission mode of its settings.
pub(super) struct RunFolder {
    pub(super) cwd: PathBuf,
    pub(super) settings_mode: PermissionMode,
    pub(super) result_lifetime: ResultLifetime,
    /// Where the gateway runs.
    pub(super) locality: GatewayLocality,
    /// What the user chose earlier in the session.
    pub(super) stored: Option<StoredChoices>,
}

/// What the user chose earlier in a session of this machine.
pub(super) struct StoredChoices {
    /// The mode, if the session has one of its own.
    mode: Option<PermissionMode>,
    /// What was granted.
    granted: Vec<GrantRecord>,
    /// Stores what is granted from now on.
    pub(super) grants: Arc<StoredGrants>,
}

impl StoredChoices {
    /// Reads them; `None` if the session is at a gateway elsewhere, which must not loosen anything
    /// here. They apply to the folder that they were made for.
    pub(super) async fn load(
        connection: &CliGatewayConnection,
        session: &SessionInfo,
        cwd: &Path,
    ) -> anyhow::Result<Option<Self>> {
        let Some(store) = connection.local_store() else { return Ok(None) };
        let id = SessionId::new(session.session_id.clone())?;
        let is_here = session.cwd.as_deref().is_some_and(|folder| Path::new(folder) == cwd);
        let (mode, granted) = match is_here {
            true => {
                let mode = session.mode.as_deref().and_then(|mode| mode.parse().ok());
                (mode, store.grants(&id).await?)
            }
            false => (None, Vec::new()),
        };
        let grants = StoredGrants::new(&store, id, granted.clone());
        Ok(Some(Self { mode, granted, grants }))
    }
}

/// The tools of a run that has begun.
pub(super) struct StartedRun {
    pub(super) tools: Arc<ToolService>,
    /// The MCP servers, some of which may fail.
    pub(super) servers: Arc<McpServerSet>,
}

/// The tools that this process hosts.
struct RunTools {
    service: Arc<ToolService>,
    backend: Arc<dyn ToolBackend>,
    /// The secret values of the folder, which no prompt contains.
    secrets: Arc<SecretMask>,
    /// The MCP servers, some of which may fail.
    servers: Arc<McpServerSet>,
}

/// A run that is to be started.
pub(super) struct RunStart<'a> {
    pub(super) app: &'a AppContext,
    pub(super) args: &'a RunArgs,
    pub(super) client: &'a GatewayClient,
    /// How the tools ask on this terminal.
    pub(super) options: &'a TerminalPromptOptions,
    pub(super) cancel: &'a CancellationToken,
}

impl RunStart<'_> {
    /// Starts the run. Returns `None`, and nothing was sent, if the user interrupts.
    pub(super) async fn start(
        &self,
        session: &mut SessionInfo,
        folder: RunFolder,
        mut send: ChatSendParams,
        input: PipedInput,
    ) -> anyhow::Result<Option<StartedRun>> {
        let RunTools { service: tools, backend, secrets, servers } =
            self.host_tools(session, folder).await?;
        let is_direct = session.model == DIRECT;
        if let Err(error) = check_command(&send.message, &*backend, is_direct).await {
            tools.stop_all_calls();
            return Err(error.into());
        }
        if !is_direct && !send.message.starts_with('/') {
            self.wait_for_servers(&*backend).await;
            tools.offer_if_changed().await?;
        }
        secrets.mask_string(&mut send.message);
        self.attach_mentions(&*backend, &mut send).await;
        // Last, since an `@` in it mentions nothing.
        let mut attached = String::new();
        input.append_to(&mut attached);
        secrets.mask_string(&mut attached);
        send.message.push_str(&attached);
        if self.cancel.is_cancelled() {
            tools.stop_all_calls();
            return Ok(None);
        }
        self.client.request::<ChatSend>(send).await?;
        Ok(Some(StartedRun { tools, servers }))
    }

    /// Waits until the MCP servers have started, and names those that are still starting.
    async fn wait_for_servers(&self, backend: &dyn ToolBackend) {
        let waiting = self.cancel.run_until_cancelled(backend.wait_for_servers());
        for missing in waiting.await.unwrap_or_default() {
            // Those that failed are named at the end.
            if missing.why.is_none() {
                self.app.terminal.print_note(&escape_line(&missing.to_string()));
            }
        }
    }

    /// Attaches the files and folders that the prompt mentions as `@path`, read with the tools and under
    /// their rules. A slash command is sent as it is.
    async fn attach_mentions(&self, backend: &dyn ToolBackend, send: &mut ChatSendParams) {
        if send.message.starts_with('/') {
            return;
        }
        let (contents, reports) = read_mentions(backend, &send.message, self.cancel).await;
        for MentionReport { path, problem } in reports {
            let shown = escape_line(&path);
            self.app.terminal.print_note(&match problem {
                None => format!("attached `{shown}`"),
                Some(why) => format!("`@{shown}` was not attached: {}", escape_line(&why)),
            });
        }
        contents.append_to(&mut send.message);
        let images = contents.images.into_iter().map(|(mime, data, path)| ChatAttachment {
            kind: Some("image".to_owned()),
            mime_type: Some(mime),
            file_name: Some(path),
            content: Some(data),
        });
        send.attachments.extend(images);
    }

    /// Attaches this process as the tool host of the session and sets the session's folder.
    async fn host_tools(
        &self,
        session: &mut SessionInfo,
        folder: RunFolder,
    ) -> anyhow::Result<RunTools> {
        let RunFolder { cwd, settings_mode, result_lifetime, locality, stored } = folder;
        let mode =
            self.args.options.mode.or_else(|| stored.as_ref().and_then(|stored| stored.mode));
        let own_mode = mode.unwrap_or(settings_mode);
        let (grants, grant_store) = match stored {
            Some(stored) => (stored.granted, Some(stored.grants)),
            None => (Vec::new(), None),
        };
        let request = TerminalBackendRequest {
            session,
            cwd: &cwd,
            settings_files: &self.args.options.settings,
            mode,
            result_lifetime,
            grants,
            grant_store,
        };
        let (backend, servers) = self.app.local_backend(request, self.options)?;
        let secrets = backend.secret_mask().await;
        let attach_params = ToolsAttachParams {
            session_key: session.session_key.clone(),
            host: format!("zero run on {}", std::env::consts::OS),
            take_over: self.args.take_over,
            return_ms: None,
        };
        let service = ToolService::attach(
            self.client,
            attach_params,
            Arc::clone(&backend),
            own_mode,
            locality,
        )
        .await?;
        // Set the folder only after attaching: it may exist only on this machine, not at the gateway.
        let params = SessionOpenParams {
            session_key: Some(session.session_key.clone()),
            cwd: Some(cwd.display().to_string()),
            mode: self.args.options.mode.map(|mode| mode.to_string()),
            ..SessionOpenParams::default()
        };
        *session = self.client.request::<ZeroSessionsOpen>(params).await?;
        Ok(RunTools { service, backend, secrets, servers })
    }
}
