//! A session as the link knows it: what it is told and what it hosts, whatever connection there is.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use zero_policy::PermissionMode;
use zero_runtime::tool_backend::ToolBackend;
use zero_wire::EventFrame;
use zero_wire::client::{GatewayClient, GatewayClientError};
use zero_wire::tools::{TOOLS_HOSTED, ToolsAttachParams, ToolsResult, ToolsTerms};
use zero_wire::zero_sessions::SessionInfo;

use crate::call_rejection::CallRejection;
use crate::gateway_dialer::GatewayLocality;
use crate::gateway_update::GatewayUpdate;
use crate::openclaw::OpenClawSession;
use crate::pending_tool_events::PendingToolEvents;
use crate::tool_service::ToolService;
use crate::update_queue::UpdateQueue;

/// How long a run should wait for its tools when the connection is lost.
const RECONNECT_GRACE: Duration = Duration::from_secs(20);
/// How long a gateway may take to hear that a call is not made.
const REFUSE_MAX: Duration = Duration::from_secs(10);
/// How often it is asked, while tools are being attached, whether others took them meanwhile.
const DOUBTS_MAX: usize = 8;

/// An open session of the link, kept across reconnects.
pub(crate) struct SessionSlot {
    /// Names it among those of the link.
    pub(crate) number: u64,
    /// What is heard of it.
    pub(crate) inbox: UpdateQueue,
    /// What a gateway without a ledger says, as a ledger would; none for one of zero's own.
    pub(crate) voice: Option<OpenClawSession>,
    /// The folder that was asked for, where the gateway knows nothing of it or does not let us use it
    /// there: with the tools hosted here, it is one of this machine.
    pub(crate) folder: Option<String>,
    /// Where the gateway is that opened it.
    pub(crate) place: GatewayLocality,
    info: Mutex<SessionInfo>,
    tools: Mutex<ToolHosting>,
    /// One attaches at a time.
    attaching: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct ToolHosting {
    hosted: Option<HostedTools>,
    service: Option<Arc<ToolService>>,
    /// What was asked before the tools were ready; none while nobody attaches.
    waiting: Option<PendingHosting>,
    /// Which attachment of all sessions it is; the latest one counts at the gateway.
    turn: u64,
}

/// With which right tools are hosted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HostingClaim {
    /// Whoever hosts them has to give way.
    New,
    /// They were hosted here before. Whoever hosts them meanwhile keeps them.
    Restore,
}

/// What was asked of tools that are not ready yet, and the connection it came by.
struct PendingHosting {
    client: GatewayClient,
    early: PendingToolEvents,
}

impl PendingHosting {
    /// They will not be ready: whoever waits for a call is told.
    fn reject_all(self) {
        let Self { client, early } = self;
        let calls = early.into_calls();
        // Without a runtime, as when all of it goes away, the connection goes as well.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if calls.is_empty() {
            return;
        }
        runtime.spawn(async move {
            for result in calls.iter().filter_map(|call| CallRejection::NotHosted.to_result(call)) {
                if let Err(error) = client.request_within::<ToolsResult>(result, REFUSE_MAX).await {
                    tracing::warn!(%error, "a call could not be refused");
                }
            }
        });
    }
}

/// What is hosted for a session.
#[derive(Clone)]
pub(crate) struct HostedTools {
    /// What we call ourselves; others call themselves something else.
    pub(crate) host: String,
    pub(crate) hands: Arc<dyn ToolBackend>,
    pub(crate) own_mode: PermissionMode,
}

impl SessionSlot {
    pub(crate) fn new(number: u64, info: SessionInfo, voice: Option<OpenClawSession>) -> Self {
        Self {
            number,
            inbox: UpdateQueue::default(),
            voice,
            folder: None,
            place: GatewayLocality::Remote,
            info: Mutex::new(info),
            tools: Mutex::default(),
            attaching: tokio::sync::Mutex::default(),
        }
    }

    /// What is known of it.
    pub(crate) fn info(&self) -> SessionInfo {
        self.lock_info().clone()
    }

    /// More is known of it.
    pub(crate) fn update_info(&self, info: SessionInfo) {
        *self.lock_info() = info;
    }

    /// Its present key, as the gateway last reported it.
    pub(crate) fn key(&self) -> String {
        self.lock_info().session_key.clone()
    }

    /// Whether it has that key.
    pub(crate) fn has_key(&self, key: &str) -> bool {
        self.lock_info().session_key == key
    }

    /// Whether it has that id.
    pub(crate) fn has_id(&self, id: &str) -> bool {
        self.lock_info().session_id == id
    }

    /// What it hosts.
    pub(crate) fn hosted_tools(&self) -> Option<HostedTools> {
        self.lock_tools().hosted.clone()
    }

    /// What does the work of its tools on the present connection.
    pub(crate) fn service(&self) -> Option<Arc<ToolService>> {
        self.lock_tools().service.clone()
    }

    /// Its tools are not hosted any more.
    pub(crate) fn stop_hosting(&self) {
        let waiting = {
            let mut tools = self.lock_tools();
            tools.hosted = None;
            tools.waiting.take()
        };
        if let Some(waiting) = waiting {
            waiting.reject_all();
        }
        self.detach();
    }

    /// Others are said to host its tools. While we attach to it ourselves that may be old news.
    pub(crate) fn handle_displacement(&self, host: &str) {
        if let Some(waiting) = &mut self.lock_tools().waiting {
            waiting.early.mark_doubtful();
            return;
        }
        self.release_tools_to(host);
    }

    /// Others host its tools. Says so once. What was asked of us the gateway has settled itself.
    fn release_tools_to(&self, host: &str) {
        {
            let mut tools = self.lock_tools();
            tools.waiting = None;
            if tools.hosted.take().is_none() {
                return;
            }
            if let Some(service) = tools.service.take() {
                service.stop_all_calls();
            }
        }
        self.inbox.push_status(GatewayUpdate::Displaced { host: host.to_owned() });
    }

    /// Hosts its tools on a connection. What it is asked from the first moment on is done.
    pub(crate) async fn attach_tools(
        &self,
        client: &GatewayClient,
        hosted: HostedTools,
        claim: HostingClaim,
        turn: u64,
    ) -> Result<(), GatewayClientError> {
        let _one = self.attaching.lock().await;
        {
            let mut tools = self.lock_tools();
            tools.hosted = Some(hosted.clone());
            let waiting =
                PendingHosting { client: client.clone(), early: PendingToolEvents::default() };
            // Whoever attached before may have given up in the middle of it.
            if let Some(given_up) = tools.waiting.replace(waiting) {
                given_up.reject_all();
            }
            tools.turn = turn;
            if let Some(service) = tools.service.take() {
                service.stop_all_calls();
            }
        }
        let HostedTools { host, hands, own_mode } = hosted;
        let key = self.key();
        let return_ms = u64::try_from(RECONNECT_GRACE.as_millis()).ok();
        let take_over = claim == HostingClaim::New;
        let mut wish = ToolsAttachParams { session_key: key, host, take_over, return_ms };
        let mut claimed =
            ToolService::claim_tools(client, wish.clone(), Arc::clone(&hands), own_mode).await;
        let other = claimed.as_ref().err().and_then(current_host);
        if other.as_ref() == Some(&wish.host) {
            // That is ourselves, on the connection that was lost.
            wish.take_over = true;
            claimed = ToolService::claim_tools(client, wish, hands, own_mode).await;
        } else if let (Some(other), HostingClaim::Restore) = (other, claim) {
            self.release_tools_to(&other);
            return Ok(());
        }
        let attached = match claimed {
            Ok((service, terms)) => self.confirm_hosting(&service, &terms).await,
            Err(error) => Err(error),
        };
        if attached.is_err()
            && let Some(waiting) = self.lock_tools().waiting.take()
        {
            waiting.reject_all();
        }
        attached
    }

    /// Offers the tools until it is clear that they are hosted here. Who is said to have displaced us
    /// may have done so before we attached or since: only the gateway knows, and it takes an offer
    /// from nobody but the host.
    async fn confirm_hosting(
        &self,
        service: &Arc<ToolService>,
        terms: &ToolsTerms,
    ) -> Result<(), GatewayClientError> {
        let mut offered = service.apply_terms(terms).await;
        for _ in 0..DOUBTS_MAX {
            match offered {
                Ok(()) if self.start_service(service) => return Ok(()),
                Ok(()) => offered = service.force_offer().await,
                Err(error) => match current_host(&error) {
                    Some(other) => {
                        self.release_tools_to(&other);
                        return Ok(());
                    }
                    None => return Err(error),
                },
            }
        }
        let what = "it says again and again that others host the tools".to_owned();
        Err(GatewayClientError::Protocol { what })
    }

    /// The tools are ready, and what was asked meanwhile is done; unless others are said to host
    /// them, which is false.
    fn start_service(&self, service: &Arc<ToolService>) -> bool {
        let mut tools = self.lock_tools();
        if tools.waiting.as_mut().is_some_and(|waiting| waiting.early.take_doubtful()) {
            return false;
        }
        // It may have been left meanwhile; then what waited was refused.
        if tools.hosted.is_some() {
            let waiting = tools.waiting.take();
            for event in waiting.into_iter().flat_map(|waiting| waiting.early.into_events()) {
                service.handle_event(&event);
            }
            tools.service = Some(Arc::clone(service));
        }
        true
    }

    /// Takes an event about its tools, unless it cannot.
    pub(crate) fn handle_tool_event(&self, event: &EventFrame) -> Result<(), CallRejection> {
        let mut tools = self.lock_tools();
        if let Some(service) = &tools.service {
            return service.handle_event(event).then_some(()).ok_or(CallRejection::NotHosted);
        }
        let waiting = tools.waiting.as_mut().ok_or(CallRejection::NotHosted)?;
        waiting.early.push(event).then_some(()).ok_or(CallRejection::QueueFull)
    }

    /// Which attachment it is, if it hosts tools.
    pub(crate) fn attachment_number(&self) -> Option<u64> {
        let tools = self.lock_tools();
        tools.hosted.as_ref().map(|_| tools.turn)
    }

    /// The connection is gone, and with it whoever waits for what the tools do.
    pub(crate) fn detach(&self) {
        let mut tools = self.lock_tools();
        tools.waiting = None;
        if let Some(service) = tools.service.take() {
            service.stop_all_calls();
        }
    }

    /// Hears and hosts nothing any more.
    pub(crate) fn leave(&self) {
        self.stop_hosting();
        self.inbox.close();
    }

    fn lock_info(&self) -> MutexGuard<'_, SessionInfo> {
        self.info.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_tools(&self) -> MutexGuard<'_, ToolHosting> {
        self.tools.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Who hosts the tools, if that is why they cannot be hosted here.
fn current_host(error: &GatewayClientError) -> Option<String> {
    let GatewayClientError::Refused { error } = error else { return None };
    let word = |name: &str| error.details.as_ref()?.get(name)?.as_str();
    (word("code") == Some(TOOLS_HOSTED)).then(|| word("host").unwrap_or_default().to_owned())
}
