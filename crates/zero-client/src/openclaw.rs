//! Sessions at another OpenClaw-compatible gateway: it has chat messages and streams, and no
//! ledger.
//!
//! Its events are translated into ledger entries (`translator`), which are numbered here. Answers
//! are parsed leniently, field by field, because gateways omit different fields.

mod approval;
mod cumulative_text;
mod history;
mod run;
mod run_end;
mod session;
mod session_keys;
mod session_rows;
mod tool_calls;
mod translator;

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use zero_core::event::RunOutcome;
use zero_runtime::ApprovalAnswer;
use zero_runtime::clock::now_ms;
use zero_wire::approvals::{ExecApprovalDecision, ExecApprovalResolve, ExecApprovalResolveParams};
use zero_wire::zero_sessions::{SessionChoicesResult, SessionInfo};

pub(crate) use self::session::OpenClawSession;
use self::translator::{LIVE_BASE, OpenClawTranslator};
use crate::gateway_link::{RequestRetry, SharedLink};
use crate::link_error::GatewayLinkError;
use crate::session_handle::{
    LedgerPage, ListRequest, OpenRequest, OverlapPolicy, SendRequest, SessionChange, SessionHandle,
    SessionList, SessionUpdates, confirm_answered,
};
use crate::session_slot::SessionSlot;

/// Messages of a history.
const MESSAGES_MAX: u64 = 1_000;
/// Entries of a page.
const PAGE_SIZE: usize = 1_000;
/// Longest wait for the final event of a prompt that was answered at once.
const FINAL_EVENT_WAIT: Duration = Duration::from_secs(2);

pub(crate) async fn open_session(
    shared: &Arc<SharedLink>,
    request: OpenRequest,
) -> Result<(SessionHandle, SessionUpdates), GatewayLinkError> {
    shared.check_capacity()?;
    let mut key = find_key(shared, &request).await?;
    if request.reset {
        let answer =
            send_request(shared, "sessions.reset", json!({"key": key}), RequestRetry::Never).await;
        let answer = answer.map_err(|error| error.for_session(&key))?;
        if let Some(spelling) = answer.get("key").and_then(Value::as_str) {
            spelling.clone_into(&mut key);
        }
    }
    let info = read_session_info(shared, &key).await?;
    let translator = OpenClawTranslator::new(
        info.agent.clone(),
        info.model.clone(),
        info.context_window.unwrap_or_default(),
    );
    let session = OpenClawSession::new(shared, translator);
    let mut slot = SessionSlot::new(shared.next_number(), info, Some(session));
    slot.folder = request.cwd;
    let slot = Arc::new(slot);
    shared.add_slot(&slot);
    let updates = SessionUpdates::new(Arc::clone(shared), Arc::clone(&slot), LIVE_BASE + 1);
    Ok((SessionHandle::new(Arc::clone(shared), slot), updates))
}

/// The key of the requested session, in the gateway's spelling if the session exists.
async fn find_key(
    shared: &Arc<SharedLink>,
    request: &OpenRequest,
) -> Result<String, GatewayLinkError> {
    let Some(key) = &request.key else {
        let label = request.label.clone().unwrap_or_default();
        let answer =
            send_request(shared, "sessions.resolve", json!({"label": label}), RequestRetry::Once)
                .await;
        let answer = answer.map_err(|error| error.for_session(&label))?;
        let key = answer.get("key").and_then(Value::as_str).map(str::to_owned);
        return key.ok_or(GatewayLinkError::NoSession { key: label });
    };
    let key = session_keys::with_agent(key, request.agent.as_deref());
    match resolve_key(shared, &key).await {
        Ok(found) => Ok(found),
        Err(GatewayLinkError::NoSession { .. }) if !request.require_existing => Ok(key),
        Err(GatewayLinkError::Refused { .. }) if session_keys::to_bridge_key(&key).is_some() => {
            let other = session_keys::to_bridge_key(&key).unwrap_or_default();
            match resolve_key(shared, &other).await {
                Err(GatewayLinkError::NoSession { .. }) if !request.require_existing => Ok(other),
                found => found,
            }
        }
        Err(error) => Err(error),
    }
}

async fn resolve_key(shared: &Arc<SharedLink>, key: &str) -> Result<String, GatewayLinkError> {
    let answer =
        send_request(shared, "sessions.resolve", json!({"key": key}), RequestRetry::Once).await;
    let answer = answer.map_err(|error| error.for_session(key))?;
    let found = answer.get("key").and_then(Value::as_str).map(str::to_owned);
    found.ok_or_else(|| GatewayLinkError::NoSession { key: key.to_owned() })
}

/// The info of a session; mostly empty if it does not exist yet.
async fn read_session_info(
    shared: &Arc<SharedLink>,
    key: &str,
) -> Result<SessionInfo, GatewayLinkError> {
    let params = json!({"limit": 200, "search": key, "includeDerivedTitles": true});
    let answer = send_request(shared, "sessions.list", params, RequestRetry::Once).await?;
    Ok(session_rows::find_session(&answer, key))
}

pub(crate) async fn send_prompt(
    shared: &Arc<SharedLink>,
    slot: &Arc<SessionSlot>,
    session: &OpenClawSession,
    sending: SendRequest,
) -> Result<(), GatewayLinkError> {
    let mut running = session.lock_translator().active_runs(now_ms());
    running.retain(|(run, _)| *run != sending.run);
    // The oldest first.
    running.sort_by_key(|(_, age_ms)| std::cmp::Reverse(*age_ms));
    let others: Vec<String> = running.into_iter().map(|(run, _)| run).collect();
    let stopped = match sending.overlap {
        OverlapPolicy::Queue => &[],
        OverlapPolicy::Replace => others.as_slice(),
        // The one that answers. Such a gateway cannot be told to run a prompt before those that wait.
        OverlapPolicy::Steer => others.get(..1).unwrap_or_default(),
    };
    for run in stopped {
        let params = json!({"sessionKey": slot.key(), "runId": run});
        send_request(shared, "chat.abort", params, RequestRetry::Once).await?;
    }
    let run = sending.run.clone();
    let (text, attached) = (sending.text.clone(), sending.attachments.clone());
    session.lock_translator().expect_run(&run, text, attached, now_ms());
    let waits = stopped.len() < others.len();
    let answer = match post_prompt(shared, &slot.key(), &sending, waits).await {
        Err(GatewayLinkError::Refused { code, message, detail }) => {
            match session_keys::to_bridge_key(&slot.key()) {
                // A gateway may reserve such keys, and report that only now.
                Some(other) if session_keys::is_key_refusal(&message) => {
                    let mut info = slot.info();
                    info.session_key.clone_from(&other);
                    slot.update_info(info);
                    post_prompt(shared, &other, &sending, waits).await
                }
                _ => Err(GatewayLinkError::Refused { code, message, detail }),
            }
        }
        answer => answer,
    };
    let answer = match answer {
        Ok(answer) => answer,
        // The run has started, as its events show.
        Err(GatewayLinkError::Lost { .. }) if session.lock_translator().has_started(&run) => {
            return Ok(());
        }
        Err(error) => {
            session.lock_translator().forget_run(&run);
            return Err(error);
        }
    };
    let error = answer.get("error").and_then(Value::as_str);
    let end = match answer.get("status").and_then(Value::as_str) {
        Some("timeout") => Some(RunOutcome::Aborted { by: "timeout".to_owned() }),
        Some("error") => Some(run_end::failed_with_message(error)),
        _ => None,
    };
    let is_over = answer.get("status").and_then(Value::as_str) == Some("ok");
    session
        .publish(slot, |translator, now_ms| match end {
            Some(end) => translator.finish_run(&run, "", end, now_ms),
            None => translator.handle_accepted(&run, now_ms),
        })
        .await;
    if is_over {
        session.check_run_later(slot, &json!({"runId": run}), FINAL_EVENT_WAIT);
    }
    Ok(())
}

async fn post_prompt(
    shared: &Arc<SharedLink>,
    key: &str,
    sending: &SendRequest,
    waits: bool,
) -> Result<Value, GatewayLinkError> {
    let attachments: Vec<Value> = sending
        .attachments
        .iter()
        .map(|attached| {
            let mut fields = json!({
                "type": "image", "mimeType": attached.mime, "content": attached.data,
            });
            if let Some(name) = &attached.name {
                fields["fileName"] = json!(name);
            }
            fields
        })
        .collect();
    // Send only the necessary fields: unknown ones are rejected, and older gateways know fewer.
    let mut params = json!({
        "sessionKey": key, "message": sending.text, "idempotencyKey": sending.run,
    });
    if !attachments.is_empty() {
        params["attachments"] = json!(attachments);
    }
    if let Some(thinking) = &sending.thinking {
        params["thinking"] = json!(thinking);
    }
    if waits {
        params["queueMode"] = json!("followup");
    }
    send_request(shared, "chat.send", params, RequestRetry::Once).await
}

pub(crate) async fn list_sessions(
    shared: &Arc<SharedLink>,
    request: ListRequest,
) -> Result<SessionList, GatewayLinkError> {
    let params = json!({
        "limit": request.limit.max(1), "offset": request.offset, "includeDerivedTitles": true,
    });
    let answer = send_request(shared, "sessions.list", params, RequestRetry::Once).await?;
    let mut sessions = session_rows::parse_sessions(&answer);
    let open = shared.slots();
    for session in sessions.iter_mut().filter(|session| session.cwd.is_none()) {
        // The folders of sessions that are open here are known locally.
        let slot = open.iter().rev().find(|slot| slot.has_key(&session.session_key));
        session.cwd = slot.and_then(|slot| slot.folder.clone());
    }
    if let Some(cwd) = &request.cwd {
        sessions.retain(|session| session.cwd.as_ref() == Some(cwd));
    }
    let has_more = answer.get("hasMore").and_then(Value::as_bool).unwrap_or(false);
    let next_offset = answer.get("nextOffset").and_then(Value::as_u64).filter(|_| has_more);
    Ok(SessionList { sessions, next_offset })
}

pub(crate) async fn read_events(
    shared: &Arc<SharedLink>,
    slot: &Arc<SessionSlot>,
    after: u64,
) -> Result<LedgerPage, GatewayLinkError> {
    if after >= LIVE_BASE {
        return Ok(LedgerPage::default());
    }
    let params = json!({"key": slot.key(), "limit": MESSAGES_MAX});
    let answer = send_request(shared, "sessions.get", params, RequestRetry::Once).await?;
    let messages = answer.get("messages").and_then(Value::as_array).cloned().unwrap_or_default();
    let mut entries = history::build_entries(&messages);
    entries.retain(|event| event.seq > after);
    let has_more = entries.len() > PAGE_SIZE;
    entries.truncate(PAGE_SIZE);
    Ok(LedgerPage { events: entries, has_more })
}

pub(crate) async fn change_session(
    shared: &Arc<SharedLink>,
    slot: &Arc<SessionSlot>,
    change: SessionChange,
) -> Result<SessionInfo, GatewayLinkError> {
    if change.mode.is_some() {
        return Err(GatewayLinkError::Unsupported {
            what: "change how much is done without asking",
        });
    }
    if change.agent.is_some() {
        return Err(GatewayLinkError::Unsupported { what: "change the agent of a session" });
    }
    if change.title.is_some() {
        return Err(GatewayLinkError::Unsupported { what: "change the title of a session" });
    }
    let mut params = Map::new();
    params.insert("key".to_owned(), json!(slot.key()));
    let fields = [("model", "model", change.model), ("thinking", "thinkingLevel", change.thinking)];
    let mut changed = Vec::new();
    for (field, name, value) in fields {
        if let Some(value) = value {
            params.insert(name.to_owned(), json!(value));
            changed.push((field, value));
        }
    }
    if changed.is_empty() {
        return Ok(slot.info());
    }
    send_request(shared, "sessions.patch", Value::Object(params), RequestRetry::Once).await?;
    let info = read_session_info(shared, &slot.key()).await?;
    slot.update_info(info.clone());
    if let Some(session) = &slot.openclaw {
        session.publish(slot, |translator, now_ms| translator.record_change(changed, now_ms)).await;
    }
    Ok(info)
}

pub(crate) fn session_choices(slot: &SessionSlot) -> SessionChoicesResult {
    let info = slot.info();
    SessionChoicesResult {
        agents: vec![info.agent.clone()],
        default_agent: info.agent,
        ..SessionChoicesResult::default()
    }
}

pub(crate) async fn resolve_approval(
    shared: &Arc<SharedLink>,
    id: &str,
    answer: ApprovalAnswer,
) -> Result<(), GatewayLinkError> {
    let decision = match answer {
        ApprovalAnswer::AllowOnce => ExecApprovalDecision::AllowOnce,
        ApprovalAnswer::AllowSession => ExecApprovalDecision::AllowAlways,
        ApprovalAnswer::RejectOnce | ApprovalAnswer::RejectSession | ApprovalAnswer::RejectTool => {
            ExecApprovalDecision::Deny
        }
    };
    let params = ExecApprovalResolveParams {
        id: id.to_owned(),
        decision,
        reviewer: None,
        grant_expires_in_days: None,
    };
    confirm_answered(shared.request::<ExecApprovalResolve>(params, RequestRetry::Once).await)
}

async fn send_request(
    shared: &Arc<SharedLink>,
    method: &'static str,
    params: Value,
    retry: RequestRetry,
) -> Result<Value, GatewayLinkError> {
    Ok(shared.request_value(method, params, retry).await?.result)
}
