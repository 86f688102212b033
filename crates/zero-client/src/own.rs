//! Sessions at a gateway of zero's own: it has a ledger, so nothing is ever missed for good.

use std::sync::Arc;

use zero_wire::ErrorCode;
use zero_wire::client::ClientError;
use zero_wire::zero_sessions::{
    EventsParams, KeyParams, ListParams, OpenParams, SessionInfo, ZeroSessionsEvents,
    ZeroSessionsList, ZeroSessionsOpen, ZeroSessionsUnsubscribe,
};

use crate::error::LinkError;
use crate::link::{Again, Patience, Shared, Up};
use crate::near::{Heard, Listed, Listing, Near, Opening, Page};
use crate::slot::{Claim, Slot};

/// Most sessions of a page.
const PAGE_MAX: u64 = 1_000;

pub(crate) async fn open(
    shared: &Arc<Shared>,
    wanted: Opening,
) -> Result<(Near, Heard), LinkError> {
    shared.check_room()?;
    let named = wanted.key.clone().or(wanted.label.clone()).unwrap_or_default();
    let again = if wanted.reset { Again::Never } else { Again::Once };
    let mut params = OpenParams {
        session_key: wanted.key,
        label: wanted.label,
        cwd: wanted.cwd,
        agent: wanted.agent,
        model: None,
        mode: wanted.mode.map(|mode| mode.to_string()),
        reset: wanted.reset,
        require_existing: wanted.require_existing,
    };
    let strays = shared.strays();
    let mut folder = None;
    let mut opened = shared.ask::<ZeroSessionsOpen>(params.clone(), again).await;
    let is_refused =
        |error: &LinkError| matches!(error, LinkError::Refused { code: ErrorCode::Forbidden, .. });
    if params.cwd.is_some() && opened.as_ref().is_err_and(|error| is_refused(&error.error)) {
        // It may be no folder that we may use there, but one beside the tools that are hosted here.
        folder = params.cwd.take();
        opened = shared.ask::<ZeroSessionsOpen>(params, again).await;
    }
    let opened = opened.map_err(|unanswered| unanswered.error.about(&named))?;
    let next = opened.result.last_seq.saturating_add(1);
    let mut slot = Slot::new(shared.number(), opened.result, None);
    slot.folder = folder;
    slot.place = opened.up.place;
    let slot = Arc::new(slot);
    shared.add(&slot);
    let near = Near::new(Arc::clone(shared), Arc::clone(&slot));
    let heard = Heard::new(Arc::clone(shared), Arc::clone(&slot), next);
    if shared.strays() != strays {
        // What happened between the answer and now may have been its first entry.
        slot.inbox.miss();
    }
    // A connection that was lost in this moment did not know of it.
    let up = shared.ready(Patience::Return).await?;
    if up.number != opened.up.number {
        reopen(shared, &slot, &up).await.map_err(|error| LinkError::from(error).about(&named))?;
        slot.inbox.miss();
    }
    Ok((near, heard))
}

/// Says which folder the tools work in, once they are hosted here.
pub(crate) async fn tell_folder(shared: &Arc<Shared>, slot: &Slot) -> Result<(), LinkError> {
    if slot.folder.is_none() {
        return Ok(());
    }
    let key = slot.key();
    let params = OpenParams {
        session_key: Some(key.clone()),
        cwd: slot.folder.clone(),
        require_existing: true,
        ..OpenParams::default()
    };
    let opened = shared.ask::<ZeroSessionsOpen>(params, Again::Once).await;
    slot.learn(opened.map_err(|unanswered| unanswered.error.about(&key))?.result);
    Ok(())
}

/// Opens it on another connection, as it is.
pub(crate) async fn reopen(
    shared: &Arc<Shared>,
    slot: &Arc<Slot>,
    up: &Arc<Up>,
) -> Result<(), ClientError> {
    let params = OpenParams {
        session_key: Some(slot.key()),
        require_existing: true,
        ..OpenParams::default()
    };
    slot.learn(shared.ask_on::<ZeroSessionsOpen>(up, params).await?);
    if let Some(hosted) = slot.hosted() {
        shared.attach(slot, up, hosted, Claim::Kept).await?;
    }
    Ok(())
}

pub(crate) async fn list(shared: &Arc<Shared>, wanted: Listing) -> Result<Listed, LinkError> {
    let params = ListParams {
        cwd: wanted.cwd,
        offset: Some(wanted.offset),
        limit: Some(wanted.limit.clamp(1, PAGE_MAX)),
    };
    let listed = shared.ask::<ZeroSessionsList>(params, Again::Once).await?.result;
    Ok(Listed { sessions: listed.sessions, next_offset: listed.next_offset })
}

pub(crate) async fn events(
    shared: &Arc<Shared>,
    key: String,
    after: u64,
) -> Result<Page, LinkError> {
    let params = EventsParams { session_key: key.clone(), after, limit: None };
    let answer = shared.ask::<ZeroSessionsEvents>(params, Again::Once).await;
    let page = answer.map_err(|unanswered| unanswered.error.about(&key))?.result;
    let page = page.following(after)?;
    Ok(Page { events: page.events, has_more: page.has_more })
}

/// The session is not listened to any more. Another one of the same key takes over its tools.
pub(crate) async fn leave(shared: &Arc<Shared>, slot: &Slot, other: Option<Arc<Slot>>) {
    let Some(up) = shared.up_now() else { return };
    let done = match other {
        None => {
            let params = KeyParams { session_key: slot.key() };
            shared.ask_on::<ZeroSessionsUnsubscribe>(&up, params).await.map(drop)
        }
        Some(other) => match other.hosted() {
            Some(hosted) => shared.attach(&other, &up, hosted, Claim::Kept).await,
            None => Ok(()),
        },
    };
    if let Err(error) = done {
        tracing::debug!(%error, "a session could not be left in good order");
    }
}

/// What is known of a session, after an answer.
pub(crate) fn learn(slot: &Slot, info: SessionInfo) -> SessionInfo {
    slot.learn(info.clone());
    info
}
