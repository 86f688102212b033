//! `tools/…`: a client hosts the tools of a session.

use std::sync::Arc;
use std::time::Duration;

use zero_core::{SessionId, sanitize};
use zero_runtime::tool_backend::ToolBackend;
use zero_wire::approvals::Acknowledgement;
use zero_wire::tools::{
    TOOLS_HOSTED, ToolsAttachParams, ToolsOfferParams, ToolsProgressParams, ToolsResultParams,
    ToolsTerms,
};
use zero_wire::{ErrorCode, ErrorPayload};

use crate::authenticated_connection::AuthenticatedConnection;
use crate::error_payloads::{quote_input, to_error_shape};
use crate::remote_tool_backend::RemoteToolBackend;
use crate::tool_offer::ToolOffer;

/// Maximum number of sessions whose tools one connection may host.
const HOSTED_MAX: usize = 256;
/// Maximum time a run waits for a lost host to return.
const RETURN_MAX: Duration = Duration::from_secs(60);
/// Maximum length of a host's name, in characters.
const HOST_LEN_MAX: usize = 128;

pub(super) async fn attach(
    peer: &Arc<AuthenticatedConnection>,
    params: ToolsAttachParams,
) -> Result<ToolsTerms, ErrorPayload> {
    let host = check_host_name(&params.host)?;
    let key = peer.resolve_key(&params.session_key, None)?;
    let session = peer.require_session(&key).await?;
    peer.watch_session(&session).await?;
    let mut turn = peer.gateway().hosts.lock_session(&session.id).await;
    if peer.hosted_backend(&session.id).is_none() && peer.hosted_count() >= HOSTED_MAX {
        return Err(ErrorPayload::invalid(format!(
            "this connection hosts the tools of {HOSTED_MAX} sessions already; open another one"
        )));
    }
    // A repeated attach starts over: pending calls of the previous backend end.
    peer.stop_hosting(&session.id);
    let replaced = turn.check_replacement(&session.id, peer.owner(), params.take_over)?;
    let agent = peer.sessions().agents().get(&session.agent);
    let mode = session.mode.or_else(|| agent.and_then(|agent| agent.mode));
    let comes_back = Duration::from_millis(params.return_ms.unwrap_or(0)).min(RETURN_MAX);
    let backend = peer.new_backend(&session, &host, comes_back);
    let terms = backend.set_initial_terms(agent.and_then(|agent| agent.dialect), mode);
    let lease =
        peer.sessions().attach_backend(&key, &host, Arc::clone(&backend) as Arc<dyn ToolBackend>);
    let lease = lease.await.map_err(to_error_shape)?;
    turn.set_host(session.id.clone(), peer.owner(), &backend);
    if let Some(replaced) = replaced {
        replaced.displace(&host);
    }
    peer.host_session(session.id, backend, lease)?;
    Ok(terms)
}

fn check_host_name(name: &str) -> Result<String, ErrorPayload> {
    let name = name.trim();
    let length = name.chars().count();
    if length == 0 || length > HOST_LEN_MAX || !name.chars().all(sanitize::is_safe_char) {
        return Err(ErrorPayload::invalid(format!(
            "`{}` is not a valid host name: use 1 to {HOST_LEN_MAX} visible characters",
            quote_input(name)
        )));
    }
    Ok(name.to_owned())
}

pub(super) async fn offer(
    peer: &Arc<AuthenticatedConnection>,
    params: ToolsOfferParams,
) -> Result<Acknowledgement, ErrorPayload> {
    let key = peer.resolve_key(&params.session_key, None)?;
    let backend = match peer.hosted_backend_at(&key) {
        Some(backend) => check_not_displaced(backend)?,
        None => hosted_backend(peer, peer.require_session(&key).await?.id.as_str())?,
    };
    // Validating many schemas would block other requests for too long.
    let offer = tokio::task::spawn_blocking(move || ToolOffer::from_params(params)).await;
    let broken = |_| ErrorPayload::new(ErrorCode::Unavailable, "the offer could not be checked");
    let mut offer = offer.map_err(broken)??;
    offer.catalog.tools = peer.share_tools(offer.catalog.tools);
    backend.set_offer(offer);
    Ok(Acknowledgement { ok: true })
}

pub(super) async fn progress(
    peer: &Arc<AuthenticatedConnection>,
    params: ToolsProgressParams,
) -> Result<Acknowledgement, ErrorPayload> {
    hosted_backend(peer, &params.session_id)?.handle_progress(params)?;
    Ok(Acknowledgement { ok: true })
}

pub(super) async fn result(
    peer: &Arc<AuthenticatedConnection>,
    params: ToolsResultParams,
) -> Result<Acknowledgement, ErrorPayload> {
    hosted_backend(peer, &params.session_id)?.handle_result(params)?;
    Ok(Acknowledgement { ok: true })
}

/// The backend that leads to this connection.
fn hosted_backend(
    peer: &AuthenticatedConnection,
    session: &str,
) -> Result<Arc<RemoteToolBackend>, ErrorPayload> {
    let hosted = SessionId::new(session).ok().and_then(|id| peer.hosted_backend(&id));
    check_not_displaced(hosted.ok_or_else(|| {
        let session = quote_input(session);
        ErrorPayload::invalid(format!(
            "this connection does not host the tools of session `{session}`; call tools/attach first"
        ))
    })?)
}

fn check_not_displaced(
    backend: Arc<RemoteToolBackend>,
) -> Result<Arc<RemoteToolBackend>, ErrorPayload> {
    match backend.displaced_by() {
        None => Ok(backend),
        Some(host) => Err(ErrorPayload::invalid(format!(
            "`{host}` hosts the tools of session `{}` now, on another connection; call \
             tools/attach with `takeOver` to have them back",
            backend.session_id()
        ))
        .with_details(serde_json::json!({"code": TOOLS_HOSTED, "host": host}))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_name_must_be_one_line() {
        assert_eq!(check_host_name(" laptop ").unwrap(), "laptop");
        for bad in ["", " ", "a\nb", "a\u{202e}b", &"x".repeat(129)] {
            assert!(check_host_name(bad).is_err(), "{bad:?}");
        }
    }
}
