//! A question of a tool host, as a person is shown it.

use std::time::Duration;

use zero_core::event::{ApprovalEffect, ApprovalOption, ApprovalRequest};

use crate::approver::ApprovalQuestion;

/// A question of a tool host as a person is shown it, who has `most` to answer.
pub fn approval_request(
    call: &str,
    question: &ApprovalQuestion,
    most: Duration,
) -> ApprovalRequest {
    let effect = |judged: &zero_policy::EffectDecision| ApprovalEffect {
        kind: judged.kind.to_owned(),
        target: judged.target.clone(),
        verdict: judged.decision.as_str().to_owned(),
        reason: judged.reason.clone(),
        origin: judged.origin,
    };
    let options = question.options().into_iter();
    ApprovalRequest {
        id: new_question_id(),
        subject: question.subject,
        call: call.to_owned(),
        tool: question.tool.to_string(),
        title: question.title.clone(),
        reason: question.reason.clone(),
        risk: question.risk.as_str().to_owned(),
        commands: question.commands().map(ToString::to_string).collect(),
        effects: question.judged.iter().map(effect).collect(),
        preview: question.preview.clone(),
        input: question.rewritten.clone().map(Box::new),
        options: options
            .map(|option| ApprovalOption { id: option.id.to_owned(), name: option.name })
            .collect(),
        cwd: question.workspace.display().to_string(),
        expires_ms: question_expiry_ms(most),
    }
}

/// A name for a question.
pub fn new_question_id() -> String {
    format!("ask_{:032x}", fastrand::u128(..))
}

/// When a question that waits so long is nobody's any more, in milliseconds since 1970.
pub fn question_expiry_ms(most: Duration) -> i64 {
    let now = jiff::Timestamp::now().as_millisecond();
    now.saturating_add(i64::try_from(most.as_millis()).unwrap_or(i64::MAX))
}
