//! A session as the link sees it: its updates and hosted tools, independent of the connection.

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
use crate::unacknowledged_results::UnacknowledgedResults;
use crate::update_queue::UpdateQueue;

/// How long a run should wait for its tools when the connection is lost.
const RECONNECT_GRACE: Duration = Duration::from_secs(20);
/// Longest wait for the gateway to receive a rejection.
const REFUSE_MAX: Duration = Duration::from_secs(10);
/// Most checks, while tools are being attached, whether another host took them over.
const DOUBTS_MAX: usize = 8;

/// An open session of the link, kept across reconnects.
pub(crate) struct SessionSlot {
    /// Identifies it within the link.
    pub(crate) number: u64,
    /// The queue of its updates.
    pub(crate) inbox: UpdateQueue,
    /// The translator for a gateway without a ledger; `None` for a gateway of zero.
    pub(crate) openclaw: Option<OpenClawSession>,
    /// The requested folder, if the gateway does not know it or denies it to us: the tools hosted
    /// here use it on this machine.
    pub(crate) folder: Option<String>,
    /// Where its gateway runs.
    pub(crate) locality: GatewayLocality,
    info: Mutex<SessionInfo>,
    tools: Mutex<ToolHosting>,
    /// Results of calls that no gateway has acknowledged.
    unacknowledged: Arc<UnacknowledgedResults>,
    /// Held while attaching, so that there is one attachment at a time.
    attaching: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct ToolHosting {
    hosted: Option<HostedTools>,
    service: Option<Arc<ToolService>>,
    /// Events that arrived before the tools were ready; `None` while no attachment is in progress.
    waiting: Option<PendingHosting>,
    /// Number of the attachment, unique within the link; the gateway uses the latest one.
    turn: u64,
}

/// On what grounds tools are hosted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HostingClaim {
    /// A new claim: the current host is displaced.
    New,
    /// They were hosted here before. If another client hosts them now, it keeps them.
    Restore,
}

/// Events for tools that are not ready yet, and the connection that delivered them.
struct PendingHosting {
    client: GatewayClient,
    early: PendingToolEvents,
}

impl PendingHosting {
    /// Rejects the pending calls, because the tools will not be ready.
    fn reject_all(self) {
        let Self { client, early } = self;
        let calls = early.into_calls();
        // Without a runtime, during shutdown, the connection ends as well.
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

/// The tools hosted for a session.
#[derive(Clone)]
pub(crate) struct HostedTools {
    /// The name of this host; other hosts have other names.
    pub(crate) host: String,
    pub(crate) backend: Arc<dyn ToolBackend>,
    pub(crate) own_mode: PermissionMode,
}

impl SessionSlot {
    pub(crate) fn new(number: u64, info: SessionInfo, openclaw: Option<OpenClawSession>) -> Self {
        Self {
            number,
            inbox: UpdateQueue::default(),
            openclaw,
            folder: None,
            locality: GatewayLocality::Remote,
            info: Mutex::new(info),
            tools: Mutex::default(),
            unacknowledged: Arc::default(),
            attaching: tokio::sync::Mutex::default(),
        }
    }

    /// The current session info.
    pub(crate) fn info(&self) -> SessionInfo {
        self.lock_info().clone()
    }

    /// Updates the session info.
    pub(crate) fn update_info(&self, info: SessionInfo) {
        *self.lock_info() = info;
    }

    /// Its present key, as the gateway last reported it.
    pub(crate) fn key(&self) -> String {
        self.lock_info().session_key.clone()
    }

    /// Whether it has this key.
    pub(crate) fn has_key(&self, key: &str) -> bool {
        self.lock_info().session_key == key
    }

    /// Whether it has this id.
    pub(crate) fn has_id(&self, id: &str) -> bool {
        self.lock_info().session_id == id
    }

    pub(crate) fn hosted_tools(&self) -> Option<HostedTools> {
        self.lock_tools().hosted.clone()
    }

    /// The service that runs its tools on the current connection.
    pub(crate) fn service(&self) -> Option<Arc<ToolService>> {
        self.lock_tools().service.clone()
    }

    /// Stops hosting its tools.
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

    /// Handles a report that another host took its tools. During an attachment the report may be
    /// outdated.
    pub(crate) fn handle_displacement(&self, host: &str) {
        if let Some(waiting) = &mut self.lock_tools().waiting {
            waiting.early.mark_doubtful();
            return;
        }
        self.release_tools_to(host);
    }

    /// Gives up the tools to another host and reports that once. The gateway has already ended its
    /// calls here.
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

    /// Attaches its tools on a connection. Calls are accepted from the first moment on.
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
            // A previous attachment may have been aborted midway.
            if let Some(given_up) = tools.waiting.replace(waiting) {
                given_up.reject_all();
            }
            tools.turn = turn;
            if let Some(service) = tools.service.take() {
                service.stop_all_calls();
            }
        }
        let HostedTools { host, backend, own_mode } = hosted;
        let key = self.key();
        let return_ms = u64::try_from(RECONNECT_GRACE.as_millis()).ok();
        let take_over = claim == HostingClaim::New;
        let mut attach_params = ToolsAttachParams { session_key: key, host, take_over, return_ms };
        let claim_tools = |wish: ToolsAttachParams| {
            let (backend, kept) = (Arc::clone(&backend), Arc::clone(&self.unacknowledged));
            ToolService::claim_tools(client, wish, backend, own_mode, self.locality, kept)
        };
        let mut claimed = claim_tools(attach_params.clone()).await;
        let other = claimed.as_ref().err().and_then(current_host);
        if other.as_ref() == Some(&attach_params.host) {
            // The current host is this process, on the lost connection.
            attach_params.take_over = true;
            claimed = claim_tools(attach_params).await;
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

    /// Offers the tools until it is certain that they are hosted here. A reported displacement may
    /// be older or newer than our attachment. Only the gateway knows: it accepts an offer only from
    /// the current host.
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
        let what = "it keeps reporting that another client hosts the tools".to_owned();
        Err(GatewayClientError::Protocol { what })
    }

    /// Starts the service and handles the queued events. Returns false if another host was
    /// reported.
    fn start_service(&self, service: &Arc<ToolService>) -> bool {
        let mut tools = self.lock_tools();
        if tools.waiting.as_mut().is_some_and(|waiting| waiting.early.take_doubtful()) {
            return false;
        }
        // The session may have been left in the meantime; then the queued calls were rejected.
        if tools.hosted.is_some() {
            let waiting = tools.waiting.take();
            for event in waiting.into_iter().flat_map(|waiting| waiting.early.into_events()) {
                service.handle_event(&event);
            }
            tools.service = Some(Arc::clone(service));
        }
        true
    }

    /// Handles a tool event, or returns why it cannot.
    pub(crate) fn handle_tool_event(&self, event: &EventFrame) -> Result<(), CallRejection> {
        let mut tools = self.lock_tools();
        if let Some(service) = &tools.service {
            return service.handle_event(event).then_some(()).ok_or(CallRejection::NotHosted);
        }
        let waiting = tools.waiting.as_mut().ok_or(CallRejection::NotHosted)?;
        waiting.early.push(event).then_some(()).ok_or(CallRejection::QueueFull)
    }

    /// The number of its attachment, if it hosts tools.
    pub(crate) fn attachment_number(&self) -> Option<u64> {
        let tools = self.lock_tools();
        tools.hosted.as_ref().map(|_| tools.turn)
    }

    /// Handles the loss of the connection: the gateway no longer waits for the calls.
    pub(crate) fn detach(&self) {
        let mut tools = self.lock_tools();
        tools.waiting = None;
        if let Some(service) = tools.service.take() {
            service.stop_all_calls();
        }
    }

    /// Stops receiving updates and hosting tools.
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

/// The current host, if that is why the attachment was refused.
fn current_host(error: &GatewayClientError) -> Option<String> {
    let GatewayClientError::Refused { error } = error else { return None };
    let word = |name: &str| error.details.as_ref()?.get(name)?.as_str();
    (word("code") == Some(TOOLS_HOSTED)).then(|| word("host").unwrap_or_default().to_owned())
}
