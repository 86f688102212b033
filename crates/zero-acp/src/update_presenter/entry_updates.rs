//! Updates for ledger entries that need no state.

use agent_client_protocol::v1::schema::{
    ContentBlock, ContentChunk, Cost, CurrentModeUpdate, ImageContent, MessageId, Plan, PlanEntry,
    PlanEntryPriority, PlanEntryStatus, SessionInfoUpdate, SessionUpdate, UsageUpdate,
};
use serde_json::Value;
use zero_core::event::{self, Event, PromptAttachment};
use zero_core::prompt_folder::strip_folder;
use zero_core::{RunId, ToolKind};
use zero_policy::PermissionMode;

use super::call_view::TITLE_CHARS_MAX;
use super::{DeliveryMode, LINE_CHARS_MAX, message_assembler};
use crate::text_sanitizer::visible_line;

/// Most plan steps that are shown.
const PLAN_ENTRIES_MAX: usize = 200;

/// The user's prompt, for a client that did not send it.
pub(super) fn user_message_updates(
    run: Option<&RunId>,
    seq: u64,
    text: &str,
    attachments: &[PromptAttachment],
) -> Vec<SessionUpdate> {
    let which = if run.is_some() { "prompt".to_owned() } else { format!("prompt-{seq}") };
    let message = message_assembler::run_message_id(run, &which);
    let text = strip_folder(text);
    let words = (!text.is_empty()).then(|| ContentBlock::from(text));
    let image = |attachment: &PromptAttachment| match &attachment.data {
        data if data.is_empty() => {
            let name = attachment.name.as_deref().unwrap_or(&attachment.mime);
            ContentBlock::from(format!("[{}]", visible_line(name, TITLE_CHARS_MAX)))
        }
        data => ContentBlock::Image(ImageContent::new(data.clone(), attachment.mime.clone())),
    };
    let blocks = words.into_iter().chain(attachments.iter().map(image));
    let chunk = |block| ContentChunk::new(block).message_id(message.clone());
    blocks.map(|block| SessionUpdate::UserMessageChunk(chunk(block))).collect()
}

/// A remark of zero, as a separate thought.
pub(super) fn entry_remark_update(event: &Event, text: &str) -> SessionUpdate {
    thought_update(
        message_assembler::run_message_id(event.run.as_ref(), &format!("notice-{}", event.seq)),
        text,
    )
}

/// The same for a remark that is not a ledger entry.
pub(super) fn remark_update(number: u32, text: &str) -> SessionUpdate {
    thought_update(message_assembler::run_message_id(None, &format!("remark-{number}")), text)
}

fn thought_update(message: MessageId, text: &str) -> SessionUpdate {
    let chunk = ContentChunk::new(ContentBlock::from(format!("[zero] {text}\n")));
    SessionUpdate::AgentThoughtChunk(chunk.message_id(message))
}

pub(super) fn plan_update(entries: impl AsRef<[event::PlanEntry]>) -> SessionUpdate {
    let entry = |entry: &event::PlanEntry| {
        let priority = match entry.priority.as_str() {
            "high" => PlanEntryPriority::High,
            "low" => PlanEntryPriority::Low,
            _ => PlanEntryPriority::Medium,
        };
        let status = match entry.status.as_str() {
            "in_progress" => PlanEntryStatus::InProgress,
            "completed" => PlanEntryStatus::Completed,
            _ => PlanEntryStatus::Pending,
        };
        PlanEntry::new(visible_line(&entry.content, LINE_CHARS_MAX), priority, status)
    };
    let entries = entries.as_ref().iter().take(PLAN_ENTRIES_MAX).map(entry).collect();
    SessionUpdate::Plan(Plan::new(entries))
}

/// The context usage; `None` without a context window.
pub(super) fn usage_update(used: u64, size: u64, cost_usd: Option<f64>) -> Option<SessionUpdate> {
    let cost = cost_usd.filter(|cost| cost.is_finite()).map(|cost| Cost::new(cost, "USD"));
    (size > 0).then(|| SessionUpdate::UsageUpdate(UsageUpdate::new(used, size).cost(cost)))
}

/// Updates for a change. Values that the response to `session/load` contains are not repeated.
pub(super) fn change_updates(
    field: &str,
    value: Option<&str>,
    moment: DeliveryMode,
) -> Vec<SessionUpdate> {
    match (field, value) {
        _ if moment == DeliveryMode::Replay => Vec::new(),
        ("mode", Some(mode)) if mode.parse::<PermissionMode>().is_ok() => {
            vec![SessionUpdate::CurrentModeUpdate(CurrentModeUpdate::new(mode.to_owned()))]
        }
        ("title", title) => {
            let title = title.map(|title| visible_line(title, TITLE_CHARS_MAX));
            vec![SessionUpdate::SessionInfoUpdate(SessionInfoUpdate::new().title(title))]
        }
        _ => Vec::new(),
    }
}

pub(super) fn clean_title(title: &str) -> String {
    visible_line(title, TITLE_CHARS_MAX)
}

/// A title for a call of which only the name and the input are known: its command, or the tool and
/// its main argument.
pub(super) fn call_title(name: &str, title: &str, kind: ToolKind, input: &Value) -> String {
    const SUBJECT_ARGUMENTS: [&str; 7] =
        ["file_path", "path", "absolute_path", "pattern", "query", "url", "description"];
    let field = |name: &&str| input.get(*name)?.as_str().filter(|text| !text.trim().is_empty());
    if !title.is_empty() && title != name {
        return clean_title(title);
    }
    let command = ["command", "cmd", "script"].iter().find_map(field);
    match (command, SUBJECT_ARGUMENTS.iter().find_map(field)) {
        (Some(command), _) if kind == ToolKind::Execute => clean_title(command),
        (_, Some(about)) => clean_title(&format!("{name} {about}")),
        _ => clean_title(name),
    }
}

pub(super) fn add_costs(one: Option<f64>, two: Option<f64>) -> Option<f64> {
    match (one, two) {
        (None, None) => None,
        (one, two) => Some(one.unwrap_or(0.0) + two.unwrap_or(0.0)),
    }
}

pub(super) fn format_rfc3339(time_ms: i64) -> Option<String> {
    let time = jiff::Timestamp::from_millisecond(time_ms).ok()?;
    (time_ms > 0).then(|| time.to_string())
}
