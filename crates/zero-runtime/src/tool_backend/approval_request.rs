//! A question of a tool host, as it is shown to the user.

use zero_core::event::{ApprovalEffect, ApprovalOption, ApprovalRequest};

use crate::approver::ApprovalQuestion;

/// Longest time that a timer of a browser can wait, which is what clients of the OpenClaw protocol
/// measure the expiry with: 2^31 - 1 milliseconds.
const EXPIRY_MS: i64 = i32::MAX as i64;

/// A question of a tool host as it is shown to the user.
pub fn approval_request(call: &str, question: &ApprovalQuestion) -> ApprovalRequest {
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
        expires_ms: question_expiry_ms(),
        subagent: None,
    }
}

/// A name for a question.
pub fn new_question_id() -> String {
    format!("ask_{:032x}", fastrand::u128(..))
}

/// Until when clients that need a time may show a question, in milliseconds since 1970. It can be
/// answered after that too.
pub fn question_expiry_ms() -> i64 {
    crate::clock::now_ms().saturating_add(EXPIRY_MS)
}
