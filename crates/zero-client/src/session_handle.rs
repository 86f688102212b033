//! A session at a gateway, as front ends use it.

use std::sync::Arc;

use serde_json::{Map, Value};
use zero_core::event::{Event, PromptAttachment};
use zero_policy::PermissionMode;
use zero_runtime::ApprovalAnswer;
use zero_runtime::tool_backend::ToolBackend;
use zero_wire::ErrorCode;
use zero_wire::chat::{
    ChatAbort, ChatAbortParams, ChatAttachment, ChatSend, ChatSendParams, QueueMode,
};
use zero_wire::client::GatewayClientError;
use zero_wire::zero_sessions::{
    ApprovalsResolveParams, PromptInfo, QuestionsResolveParams, SessionChoicesParams,
    SessionChoicesResult, SessionInfo, SessionPromptsParams, SessionSetParams,
    ZeroApprovalsResolve, ZeroQuestionsResolve, ZeroSessionsChoices, ZeroSessionsPrompts,
    ZeroSessionsSet,
};

use crate::gateway_dialer::GatewayLocality;
use crate::gateway_link::{ReconnectWait, RequestRetry, SharedLink};
pub use crate::gateway_update::GatewayUpdate;
use crate::link_error::GatewayLinkError;
use crate::session_slot::{HostedTools, HostingClaim, SessionSlot};
pub use crate::session_updates::SessionUpdates;
use crate::{native_gateway, openclaw};

/// Selects a session by key or label; a key without a session creates one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OpenRequest {
    /// Its key. A gateway that refuses an `acp:` key is asked again with `acp-bridge:`.
    pub key: Option<String>,
    /// Label of an existing session, in place of the key.
    pub label: Option<String>,
    /// The folder it works in, absolute.
    pub cwd: Option<String>,
    /// The agent, for keys that name none.
    pub agent: Option<String>,
    /// Permission mode selected for the session.
    pub mode: Option<PermissionMode>,
    /// Whether to start a new transcript.
    pub reset: bool,
    /// Whether to fail if the session does not exist.
    pub require_existing: bool,
}

/// A prompt for a session.
#[derive(Clone, Debug, PartialEq)]
pub struct SendRequest {
    /// Id of the run; also the idempotency key of the prompt.
    pub run: String,
    /// The text.
    pub text: String,
    /// The attachments.
    pub attachments: Vec<PromptAttachment>,
    /// The thinking level of the model.
    pub thinking: Option<String>,
    /// What happens to an active run.
    pub overlap: OverlapPolicy,
}

/// What happens to an active run when another prompt arrives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OverlapPolicy {
    /// The new prompt waits for its turn.
    #[default]
    Queue,
    /// The active run and all that wait are stopped.
    Replace,
    /// The active run is stopped, and those that wait run after the new one.
    Steer,
}

/// Changes to a session; absent fields stay unchanged.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SessionChange {
    /// The permission mode.
    pub mode: Option<PermissionMode>,
    /// Name of the model that answers from now on.
    pub model: Option<String>,
    /// The thinking level of the model.
    pub thinking: Option<String>,
    /// The agent, for keys that name none.
    pub agent: Option<String>,
    /// The title; an OpenClaw gateway cannot change it.
    pub title: Option<String>,
}

/// Selects the sessions to list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ListRequest {
    /// Only sessions of this folder.
    pub cwd: Option<String>,
    /// Number of sessions to skip.
    pub offset: u64,
    /// Most sessions to return.
    pub limit: u64,
}

/// Sessions, newest first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SessionList {
    /// The sessions of this page, at most `limit` of the request.
    pub sessions: Vec<SessionInfo>,
    /// Offset of the next page; `None` on the last page.
    pub next_offset: Option<u64>,
}

/// Entries of a ledger, oldest first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LedgerPage {
    /// The entries.
    pub events: Vec<Event>,
    /// Whether more entries follow.
    pub has_more: bool,
}

/// A session at a gateway. Clones are the same session; dropping the last one leaves it. Updates
/// have to be read while a request is pending: at a gateway without a ledger, events wait for room
/// in the queue, and no answer is read until then.
#[derive(Clone)]
pub struct SessionHandle {
    inner: Arc<SessionHandleInner>,
}

struct SessionHandleInner {
    shared: Arc<SharedLink>,
    slot: Arc<SessionSlot>,
}

impl Drop for SessionHandleInner {
    fn drop(&mut self) {
        self.shared.remove_slot(&self.slot);
        self.slot.leave();
    }
}

impl SessionHandle {
    pub(crate) fn new(shared: Arc<SharedLink>, slot: Arc<SessionSlot>) -> Self {
        Self { inner: Arc::new(SessionHandleInner { shared, slot }) }
    }

    /// The session info as of the last answer.
    pub fn info(&self) -> SessionInfo {
        self.slot().info()
    }

    /// Where its gateway runs.
    pub fn locality(&self) -> GatewayLocality {
        self.slot().locality
    }

    /// Whether the gateway knows the session's folder. If not, prompts have to name it.
    pub fn is_cwd_known(&self) -> bool {
        self.slot().openclaw.is_none()
    }

    /// Sends a prompt; its run is reported by updates.
    pub async fn send(&self, mut sending: SendRequest) -> Result<(), GatewayLinkError> {
        let (shared, slot) = (self.shared(), self.slot());
        if let Some(hosted) = slot.hosted_tools() {
            // A model needs the value of a secret as little from a prompt as from a result.
            hosted.backend.secret_mask().await.mask_string(&mut sending.text);
        }
        if let Some(session) = &slot.openclaw {
            return openclaw::send_prompt(shared, slot, session, sending).await;
        }
        let params = chat_send_params(slot.key(), sending);
        shared.request::<ChatSend>(params, RequestRetry::Once).await?;
        Ok(())
    }

    /// Stops a run; succeeds if there is none.
    pub async fn abort(&self, run: &str) -> Result<(), GatewayLinkError> {
        let params = ChatAbortParams {
            session_key: self.slot().key(),
            run_id: Some(run.to_owned()),
            ..ChatAbortParams::default()
        };
        self.shared().request::<ChatAbort>(params, RequestRetry::Once).await?;
        Ok(())
    }

    /// A page of ledger entries after number `after`. To read on, pass the number of the last entry.
    pub async fn read_events(&self, after: u64) -> Result<LedgerPage, GatewayLinkError> {
        let (shared, slot) = (self.shared(), self.slot());
        match &slot.openclaw {
            None => native_gateway::read_events(shared, slot.key(), after).await,
            Some(_) => openclaw::read_events(shared, slot, after).await,
        }
    }

    /// Changes settings of the session.
    pub async fn change(&self, change: SessionChange) -> Result<SessionInfo, GatewayLinkError> {
        let (shared, slot) = (self.shared(), self.slot());
        if slot.openclaw.is_some() {
            return openclaw::change_session(shared, slot, change).await;
        }
        let params = SessionSetParams {
            session_key: slot.key(),
            mode: change.mode.map(|mode| mode.to_string()),
            model: change.model,
            thinking: change.thinking,
            agent: change.agent,
            label: None,
            title: change.title,
        };
        let info = shared.request::<ZeroSessionsSet>(params, RequestRetry::Once).await?.result;
        Ok(native_gateway::update_info(slot, info))
    }

    /// The values that settings of the session can have.
    pub async fn choices(&self) -> Result<SessionChoicesResult, GatewayLinkError> {
        let (shared, slot) = (self.shared(), self.slot());
        if slot.openclaw.is_some() {
            return Ok(openclaw::session_choices(slot));
        }
        let params = SessionChoicesParams { session_key: Some(slot.key()) };
        Ok(shared.request::<ZeroSessionsChoices>(params, RequestRetry::Once).await?.result)
    }

    /// The newest prompts of the session, oldest first: at most so many.
    pub async fn prompts(&self, count_max: u64) -> Result<Vec<PromptInfo>, GatewayLinkError> {
        let (shared, slot) = (self.shared(), self.slot());
        if slot.openclaw.is_some() {
            return Err(GatewayLinkError::Unsupported { what: "list prompts" });
        }
        let mut offset = 0;
        // The first page tells how many there are, and the second one has the newest.
        for _ in 0..2 {
            let params = SessionPromptsParams {
                session_key: slot.key(),
                limit: Some(count_max),
                offset: Some(offset),
            };
            let page =
                shared.request::<ZeroSessionsPrompts>(params, RequestRetry::Once).await?.result;
            if !page.has_more {
                return Ok(page.prompts);
            }
            offset = page.total_count.saturating_sub(count_max);
        }
        Ok(Vec::new())
    }

    /// Answers an approval request.
    pub async fn resolve_approval(
        &self,
        id: &str,
        answer: ApprovalAnswer,
    ) -> Result<(), GatewayLinkError> {
        let (shared, slot) = (self.shared(), self.slot());
        if slot.openclaw.is_some() {
            return openclaw::resolve_approval(shared, id, answer).await;
        }
        let params = ApprovalsResolveParams { id: id.to_owned(), answer: answer.id().to_owned() };
        confirm_answered(shared.request::<ZeroApprovalsResolve>(params, RequestRetry::Once).await)
    }

    /// Answers another question: `accept` with values, `decline` or `cancel`. If the gateway refuses the
    /// values, the question is cancelled, so that the run does not wait for ever.
    pub async fn resolve_question(
        &self,
        id: &str,
        action: &str,
        content: Map<String, Value>,
    ) -> Result<(), GatewayLinkError> {
        if self.slot().openclaw.is_some() {
            return Err(GatewayLinkError::Unsupported { what: "ask questions" });
        }
        let (id, action) = (id.to_owned(), action.to_owned());
        let params = QuestionsResolveParams { id, action, content };
        let answered = confirm_answered(
            self.shared().request::<ZeroQuestionsResolve>(params.clone(), RequestRetry::Once).await,
        );
        if let Err(GatewayLinkError::Refused { code: ErrorCode::InvalidRequest, .. }) = &answered
            && let Some(cancel) = params.cancelled_instead()
        {
            let request = self.shared().request::<ZeroQuestionsResolve>(cancel, RequestRetry::Once);
            confirm_answered(request.await)?;
        }
        answered
    }

    /// Offers the tools again if they differ from the last offer.
    pub async fn refresh_tool_offer(&self) -> Result<(), GatewayLinkError> {
        match self.slot().service() {
            Some(service) => service.offer_if_changed().await.map_err(GatewayLinkError::from),
            None => Ok(()),
        }
    }

    /// Hosts the session's tools from now on, also across reconnects. Returns false if the gateway
    /// supports only its own tools.
    pub async fn host_tools(
        &self,
        host: &str,
        backend: Arc<dyn ToolBackend>,
        own_mode: PermissionMode,
    ) -> Result<bool, GatewayLinkError> {
        let (shared, slot) = (self.shared(), self.slot());
        if slot.openclaw.is_some() {
            return Ok(false);
        }
        let hosted = HostedTools { host: host.to_owned(), backend, own_mode };
        let up = shared.ensure_connected(ReconnectWait::Now).await?;
        // The client that opened the session last hosts its tools.
        let attached = match shared.attach_tools(slot, &up, hosted, HostingClaim::New).await {
            Ok(()) => Ok(()),
            Err(GatewayClientError::Closed { .. }) => {
                // The tools are attached when the session is opened again.
                shared.handle_connection_loss(up.number);
                shared.ensure_connected(ReconnectWait::UntilReconnected).await.map(drop)
            }
            Err(error) => Err(error.into()),
        };
        if attached.is_err() {
            slot.stop_hosting();
        }
        attached?;
        native_gateway::send_folder(shared, slot).await?;
        Ok(true)
    }

    /// Stops receiving updates and hosting tools.
    pub async fn leave(&self) {
        let (shared, slot) = (self.shared(), self.slot());
        let other = shared.remove_slot(slot);
        slot.leave();
        if slot.openclaw.is_none() {
            native_gateway::leave_session(shared, slot, other).await;
        }
    }

    fn shared(&self) -> &Arc<SharedLink> {
        &self.inner.shared
    }

    fn slot(&self) -> &Arc<SessionSlot> {
        &self.inner.slot
    }
}

/// The parameters of `chat.send` for a prompt.
pub(crate) fn chat_send_params(session_key: String, sending: SendRequest) -> ChatSendParams {
    let attachment = |attached: PromptAttachment| ChatAttachment {
        kind: Some("image".to_owned()),
        mime_type: Some(attached.mime),
        file_name: attached.name,
        content: Some(attached.data),
    };
    ChatSendParams {
        session_key,
        message: sending.text,
        idempotency_key: sending.run,
        attachments: sending.attachments.into_iter().map(attachment).collect(),
        thinking: sending.thinking,
        queue_mode: match sending.overlap {
            OverlapPolicy::Queue => None,
            OverlapPolicy::Replace => Some(QueueMode::Interrupt),
            OverlapPolicy::Steer => Some(QueueMode::Steer),
        },
        ..ChatSendParams::default()
    }
}

/// Whether a question was answered. If it is gone at the second try, the first try succeeded.
pub(crate) fn confirm_answered<T>(
    answer: Result<T, crate::gateway_link::RequestFailure>,
) -> Result<(), GatewayLinkError> {
    match answer {
        Ok(_) => Ok(()),
        Err(unanswered) => match unanswered.error {
            GatewayLinkError::Refused { code: ErrorCode::ApprovalNotFound, .. }
                if unanswered.asked_before =>
            {
                Ok(())
            }
            error => Err(error),
        },
    }
}
