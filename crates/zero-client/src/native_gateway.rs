//! Sessions at a gateway of zero: it has a ledger, so missed entries can always be read later.

use std::sync::Arc;

use zero_wire::ErrorCode;
use zero_wire::zero_sessions::{
    SessionEventsParams, SessionForkParams, SessionInfo, SessionKeyParams, SessionOpenParams,
    ZeroSessionsEvents, ZeroSessionsFork, ZeroSessionsList, ZeroSessionsListParams,
    ZeroSessionsOpen, ZeroSessionsUnsubscribe,
};

use crate::gateway_link::{ReconnectWait, RequestRetry, SharedLink};
use crate::link_error::GatewayLinkError;
use crate::session_handle::{
    LedgerPage, ListRequest, OpenRequest, SessionHandle, SessionList, SessionUpdates,
};
use crate::session_slot::{HostingClaim, SessionSlot};

/// Most sessions of a page.
const PAGE_MAX: u64 = 1_000;

pub(crate) async fn open_session(
    shared: &Arc<SharedLink>,
    request: OpenRequest,
) -> Result<(SessionHandle, SessionUpdates), GatewayLinkError> {
    shared.check_capacity()?;
    let named = request.key.clone().or(request.label.clone()).unwrap_or_default();
    let retry = if request.reset { RequestRetry::Never } else { RequestRetry::Once };
    let mut params = SessionOpenParams {
        session_key: request.key,
        label: request.label,
        cwd: request.cwd,
        agent: request.agent,
        model: None,
        mode: request.mode.map(|mode| mode.to_string()),
        reset: request.reset,
        require_existing: request.require_existing,
    };
    let strays = shared.stray_count();
    let mut folder = None;
    let mut opened = shared.request::<ZeroSessionsOpen>(params.clone(), retry).await;
    let is_refused = |error: &GatewayLinkError| {
        matches!(error, GatewayLinkError::Refused { code: ErrorCode::Forbidden, .. })
    };
    if params.cwd.is_some() && opened.as_ref().is_err_and(|error| is_refused(&error.error)) {
        // The gateway may deny this folder to us; it can still be the folder of the tools hosted
        // here.
        folder = params.cwd.take();
        opened = shared.request::<ZeroSessionsOpen>(params, retry).await;
    }
    let opened = opened.map_err(|unanswered| unanswered.error.for_session(&named))?;
    let next = opened.result.last_seq.saturating_add(1);
    let mut slot = SessionSlot::new(shared.next_number(), opened.result, None);
    slot.folder = folder;
    slot.locality = opened.up.locality;
    let slot = Arc::new(slot);
    shared.add_slot(&slot);
    let handle = SessionHandle::new(Arc::clone(shared), Arc::clone(&slot));
    let updates = SessionUpdates::new(Arc::clone(shared), Arc::clone(&slot), next);
    if shared.stray_count() != strays {
        // The first entry may have been written between the answer and now.
        slot.inbox.mark_missed();
    }
    // A loss at this moment was not reported to the slot.
    let up = shared.ensure_connected(ReconnectWait::UntilReconnected).await?;
    if up.number != opened.up.number {
        shared
            .reopen_native(&slot, &up)
            .await
            .map_err(|error| GatewayLinkError::from(error).for_session(&named))?;
        slot.inbox.mark_missed();
    }
    Ok((handle, updates))
}

/// Sets the folder of the session, once its tools are hosted here.
pub(crate) async fn send_folder(
    shared: &Arc<SharedLink>,
    slot: &SessionSlot,
) -> Result<(), GatewayLinkError> {
    if slot.folder.is_none() {
        return Ok(());
    }
    let key = slot.key();
    let params = SessionOpenParams {
        session_key: Some(key.clone()),
        cwd: slot.folder.clone(),
        require_existing: true,
        ..SessionOpenParams::default()
    };
    let opened = shared.request::<ZeroSessionsOpen>(params, RequestRetry::Once).await;
    slot.update_info(opened.map_err(|unanswered| unanswered.error.for_session(&key))?.result);
    Ok(())
}

/// Copies a session. Not repeated: the first request may have made the copy.
pub(crate) async fn fork_session(
    shared: &Arc<SharedLink>,
    key: &str,
    copy: &str,
    prompt: Option<u64>,
) -> Result<String, GatewayLinkError> {
    let (session_key, copy) = (key.to_owned(), Some(copy.to_owned()));
    let params = SessionForkParams { session_key, key: copy, prompt };
    let forked = shared.request::<ZeroSessionsFork>(params, RequestRetry::Never).await;
    let forked = forked.map_err(|unanswered| unanswered.error.for_session(key))?;
    Ok(forked.result.session_key)
}

pub(crate) async fn list_sessions(
    shared: &Arc<SharedLink>,
    request: ListRequest,
) -> Result<SessionList, GatewayLinkError> {
    let params = ZeroSessionsListParams {
        cwd: request.cwd,
        offset: Some(request.offset),
        limit: Some(request.limit.clamp(1, PAGE_MAX)),
    };
    let listed = shared.request::<ZeroSessionsList>(params, RequestRetry::Once).await?.result;
    Ok(SessionList { sessions: listed.sessions, next_offset: listed.next_offset })
}

pub(crate) async fn read_events(
    shared: &Arc<SharedLink>,
    key: String,
    after: u64,
) -> Result<LedgerPage, GatewayLinkError> {
    let params = SessionEventsParams { session_key: key.clone(), after, limit: None };
    let answer = shared.request::<ZeroSessionsEvents>(params, RequestRetry::Once).await;
    let page = answer.map_err(|unanswered| unanswered.error.for_session(&key))?.result;
    let page = page.check_follows(after)?;
    Ok(LedgerPage { events: page.events, has_more: page.has_more })
}

/// Unsubscribes from the session. Another slot of the same key takes over its tools.
pub(crate) async fn leave_session(
    shared: &Arc<SharedLink>,
    slot: &SessionSlot,
    other: Option<Arc<SessionSlot>>,
) {
    let Some(up) = shared.current_connection() else { return };
    let done = match other {
        None => {
            let params = SessionKeyParams { session_key: slot.key() };
            shared.request_on::<ZeroSessionsUnsubscribe>(&up, params).await.map(drop)
        }
        Some(other) => match other.hosted_tools() {
            Some(hosted) => shared.attach_tools(&other, &up, hosted, HostingClaim::Restore).await,
            None => Ok(()),
        },
    };
    if let Err(error) = done {
        tracing::debug!(%error, "a session could not be left in good order");
    }
}

/// Stores the session info of an answer.
pub(crate) fn update_info(slot: &SessionSlot, info: SessionInfo) -> SessionInfo {
    slot.update_info(info.clone());
    info
}
