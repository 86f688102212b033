//! Sessions at another gateway of the family: it has chat messages and streams, and no ledger.
//!
//! What it says is told as entries of a ledger (`telling`), numbered here. Its answers are read as
//! they come, field by field: members of the family differ in what they leave out.

mod approval;
mod ends;
mod history;
mod keys;
mod rows;
mod run;
mod speech;
mod telling;
mod tool_words;
mod voice;

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use zero_core::event::RunEnd;
use zero_runtime::Answer;
use zero_wire::approvals::{Decision, ExecApprovalResolve, ExecApprovalResolveParams};
use zero_wire::client::ClientError;
use zero_wire::zero_sessions::{ChoicesResult, SessionInfo};

use self::telling::{LIVE_BASE, Settled, Telling};
pub(crate) use self::voice::Voice;
use self::voice::now_ms;
use crate::error::LinkError;
use crate::link::{Again, Shared, Up};
use crate::near::{
    Change, Heard, Listed, Listing, Near, News, Opening, Overlap, Page, Sending, answered,
};
use crate::slot::Slot;

/// Messages of a history.
const MESSAGES_MAX: u64 = 1_000;
/// Entries of a page.
const PAGE: usize = 1_000;
/// How long a prompt that is answered at once may take to say so in events.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// How much clocks may differ.
const CLOCK_SLACK_MS: i64 = 2_000;

pub(crate) async fn open(
    shared: &Arc<Shared>,
    wanted: Opening,
) -> Result<(Near, Heard), LinkError> {
    shared.check_room()?;
    let mut key = find(shared, &wanted).await?;
    if wanted.reset {
        let answer = ask(shared, "sessions.reset", json!({"key": key}), Again::Never).await;
        let answer = answer.map_err(|error| error.about(&key))?;
        if let Some(spelling) = answer.get("key").and_then(Value::as_str) {
            spelling.clone_into(&mut key);
        }
    }
    let info = look(shared, &key).await?;
    let telling = Telling::new(
        info.agent.clone(),
        info.model.clone(),
        info.context_window.unwrap_or_default(),
    );
    let voice = Voice::new(shared, telling);
    let mut slot = Slot::new(shared.number(), info, Some(voice));
    slot.folder = wanted.cwd;
    let slot = Arc::new(slot);
    shared.add(&slot);
    let heard = Heard::new(Arc::clone(shared), Arc::clone(&slot), LIVE_BASE + 1);
    Ok((Near::new(Arc::clone(shared), slot), heard))
}

/// The key of the session that is wanted, in the gateway's spelling where it is there already.
async fn find(shared: &Arc<Shared>, wanted: &Opening) -> Result<String, LinkError> {
    let Some(key) = &wanted.key else {
        let label = wanted.label.clone().unwrap_or_default();
        let answer = ask(shared, "sessions.resolve", json!({"label": label}), Again::Once).await;
        let answer = answer.map_err(|error| error.about(&label))?;
        let key = answer.get("key").and_then(Value::as_str).map(str::to_owned);
        return key.ok_or(LinkError::NoSession { key: label });
    };
    let key = keys::under(key, wanted.agent.as_deref());
    match resolve(shared, &key).await {
        Ok(found) => Ok(found),
        Err(LinkError::NoSession { .. }) if !wanted.require_existing => Ok(key),
        Err(LinkError::Refused { .. }) if keys::for_bridges(&key).is_some() => {
            let other = keys::for_bridges(&key).unwrap_or_default();
            match resolve(shared, &other).await {
                Err(LinkError::NoSession { .. }) if !wanted.require_existing => Ok(other),
                found => found,
            }
        }
        Err(error) => Err(error),
    }
}

async fn resolve(shared: &Arc<Shared>, key: &str) -> Result<String, LinkError> {
    let answer = ask(shared, "sessions.resolve", json!({"key": key}), Again::Once).await;
    let answer = answer.map_err(|error| error.about(key))?;
    let found = answer.get("key").and_then(Value::as_str).map(str::to_owned);
    found.ok_or_else(|| LinkError::NoSession { key: key.to_owned() })
}

/// What is known of a session; little of one that is not there yet.
async fn look(shared: &Arc<Shared>, key: &str) -> Result<SessionInfo, LinkError> {
    let params = json!({"limit": 200, "search": key, "includeDerivedTitles": true});
    let answer = ask(shared, "sessions.list", params, Again::Once).await?;
    Ok(rows::find(&answer, key))
}

/// Asks what became of runs while nobody listened.
pub(crate) async fn reopen(
    shared: &Arc<Shared>,
    slot: &Arc<Slot>,
    voice: &Voice,
    up: &Arc<Up>,
) -> Result<(), ClientError> {
    let active = voice.telling().active();
    let uptime_ms = i64::try_from(up.client.hello().snapshot.uptime_ms).unwrap_or(i64::MAX);
    for (run, since_ms) in active {
        let params = json!({"runId": run, "timeoutMs": 0});
        let answer = shared.ask_value_on(up, "agent.wait", params).await?;
        let settled = voice.insist(slot, |telling, now_ms| telling.waited(&run, &answer, now_ms));
        let is_older = now_ms().saturating_sub(since_ms) > uptime_ms.saturating_add(CLOCK_SLACK_MS);
        // A gateway that started after the run did cannot be at work on it.
        if settled.await == Settled::Open && is_older && voice.telling().lose(&run) {
            slot.inbox.tell(News::Gone(LinkError::Lost { what: "the run".to_owned() }));
        }
    }
    Ok(())
}

pub(crate) async fn send(
    shared: &Arc<Shared>,
    slot: &Arc<Slot>,
    voice: &Voice,
    sending: Sending,
) -> Result<(), LinkError> {
    let running = voice.telling().active();
    let others: Vec<String> =
        running.into_iter().map(|(run, _)| run).filter(|run| *run != sending.run).collect();
    if sending.overlap == Overlap::Replace {
        for run in &others {
            let params = json!({"sessionKey": slot.key(), "runId": run});
            ask(shared, "chat.abort", params, Again::Once).await?;
        }
    }
    let run = sending.run.clone();
    let (text, attached) = (sending.text.clone(), sending.attachments.clone());
    voice.telling().expect(&run, text, attached, now_ms());
    let waits = sending.overlap == Overlap::Queue && !others.is_empty();
    let answer = match say(shared, &slot.key(), &sending, waits).await {
        Err(LinkError::Refused { code, message }) => match keys::for_bridges(&slot.key()) {
            // A gateway may have another use for such keys, and say so only now.
            Some(other) if keys::is_refused(&message) => {
                let mut info = slot.info();
                info.session_key.clone_from(&other);
                slot.learn(info);
                say(shared, &other, &sending, waits).await
            }
            _ => Err(LinkError::Refused { code, message }),
        },
        answer => answer,
    };
    let answer = match answer {
        Ok(answer) => answer,
        // It was begun, as was heard.
        Err(LinkError::Lost { .. }) if voice.telling().is_begun(&run) => return Ok(()),
        Err(error) => {
            voice.telling().forget(&run);
            return Err(error);
        }
    };
    let error = answer.get("error").and_then(Value::as_str);
    let end = match answer.get("status").and_then(Value::as_str) {
        Some("timeout") => Some(RunEnd::Aborted { by: "timeout".to_owned() }),
        Some("error") => Some(ends::failed_by(error)),
        _ => None,
    };
    let is_over = answer.get("status").and_then(Value::as_str) == Some("ok");
    voice
        .speak(slot, |telling, now_ms| match end {
            Some(end) => telling.settle(&run, "", end, now_ms),
            None => telling.accepted(&run, now_ms),
        })
        .await;
    if is_over {
        voice.look_after(slot, &json!({"runId": run}), LAST_WORDS);
    }
    Ok(())
}

async fn say(
    shared: &Arc<Shared>,
    key: &str,
    sending: &Sending,
    waits: bool,
) -> Result<Value, LinkError> {
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
    // Nothing is sent that need not be: the parameters are closed, and older members know fewer.
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
    ask(shared, "chat.send", params, Again::Once).await
}

pub(crate) async fn list(shared: &Arc<Shared>, wanted: Listing) -> Result<Listed, LinkError> {
    let params = json!({
        "limit": wanted.limit.max(1), "offset": wanted.offset, "includeDerivedTitles": true,
    });
    let answer = ask(shared, "sessions.list", params, Again::Once).await?;
    let mut sessions = rows::all(&answer);
    let open = shared.slots();
    for session in sessions.iter_mut().filter(|session| session.cwd.is_none()) {
        // Where those work that are open here, we know ourselves.
        let slot = open.iter().rev().find(|slot| slot.has_key(&session.session_key));
        session.cwd = slot.and_then(|slot| slot.folder.clone());
    }
    if let Some(cwd) = &wanted.cwd {
        sessions.retain(|session| session.cwd.as_ref() == Some(cwd));
    }
    let has_more = answer.get("hasMore").and_then(Value::as_bool).unwrap_or(false);
    let next_offset = answer.get("nextOffset").and_then(Value::as_u64).filter(|_| has_more);
    Ok(Listed { sessions, next_offset })
}

pub(crate) async fn events(
    shared: &Arc<Shared>,
    slot: &Arc<Slot>,
    after: u64,
) -> Result<Page, LinkError> {
    if after >= LIVE_BASE {
        return Ok(Page::default());
    }
    let params = json!({"key": slot.key(), "limit": MESSAGES_MAX});
    let answer = ask(shared, "sessions.get", params, Again::Once).await?;
    let messages = answer.get("messages").and_then(Value::as_array).cloned().unwrap_or_default();
    let mut entries = history::entries(&messages);
    entries.retain(|event| event.seq > after);
    let has_more = entries.len() > PAGE;
    entries.truncate(PAGE);
    Ok(Page { events: entries, has_more })
}

pub(crate) async fn change(
    shared: &Arc<Shared>,
    slot: &Arc<Slot>,
    change: Change,
) -> Result<SessionInfo, LinkError> {
    if change.mode.is_some() {
        return Err(LinkError::Unsupported { what: "change how much is done without asking" });
    }
    if change.agent.is_some() {
        return Err(LinkError::Unsupported { what: "change the agent of a session" });
    }
    if change.title.is_some() {
        return Err(LinkError::Unsupported { what: "change the title of a session" });
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
    ask(shared, "sessions.patch", Value::Object(params), Again::Once).await?;
    let info = look(shared, &slot.key()).await?;
    slot.learn(info.clone());
    if let Some(voice) = &slot.voice {
        voice.speak(slot, |telling, now_ms| telling.changed(changed, now_ms)).await;
    }
    Ok(info)
}

pub(crate) fn choices(slot: &Slot) -> ChoicesResult {
    let info = slot.info();
    ChoicesResult {
        agents: vec![info.agent.clone()],
        default_agent: info.agent,
        ..ChoicesResult::default()
    }
}

pub(crate) async fn resolve_approval(
    shared: &Arc<Shared>,
    id: &str,
    answer: Answer,
) -> Result<(), LinkError> {
    let decision = match answer {
        Answer::AllowOnce => Decision::AllowOnce,
        Answer::AllowSession => Decision::AllowAlways,
        Answer::RejectOnce | Answer::RejectSession => Decision::Deny,
    };
    let params = ExecApprovalResolveParams {
        id: id.to_owned(),
        decision,
        reviewer: None,
        grant_expires_in_days: None,
    };
    answered(shared.ask::<ExecApprovalResolve>(params, Again::Once).await)
}

async fn ask(
    shared: &Arc<Shared>,
    method: &'static str,
    params: Value,
    again: Again,
) -> Result<Value, LinkError> {
    Ok(shared.ask_value(method, params, again).await?.result)
}
