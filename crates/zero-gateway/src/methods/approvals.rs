//! Pending approvals and questions, and the grants of a session.

use std::sync::Arc;

use zero_core::ResultDisplay;
use zero_core::tool_result::render_checklist;
use zero_runtime::ApprovalAnswer;
use zero_session::approvals::{PendingApproval, QuestionAnswer};
use zero_session::event::ApprovalRequest;
use zero_session::open_question::QuestionScope;
use zero_session::store::{GrantRecord, SessionRecord};
use zero_wire::approvals::{
    Acknowledgement, ExecApproval, ExecApprovalDecision, ExecApprovalGetParams,
    ExecApprovalResolveParams,
};
use zero_wire::zero_sessions::{
    ApprovalsListParams, ApprovalsListResult, ApprovalsResolveParams, GrantInfo, GrantsListResult,
    GrantsRevokeParams, GrantsRevokeResult, PendingApprovalInfo, PendingQuestionInfo,
    QuestionsResolveParams, SessionKeyParams,
};
use zero_wire::{ErrorCode, ErrorPayload};

use crate::authenticated_connection::AuthenticatedConnection;
use crate::error_payloads::{quote_input, to_error_shape};
use crate::openclaw_relay::{allowed_decisions, approval_command};
use crate::session_watcher::host_label;

/// Maximum size of an answer to a form, in bytes.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

pub(super) async fn get(
    peer: &Arc<AuthenticatedConnection>,
    params: ExecApprovalGetParams,
) -> Result<ExecApproval, ErrorPayload> {
    let (pending, session) = find_pending(peer, &params.id).await?;
    Ok(ExecApproval {
        id: pending.request.id.clone(),
        command_text: approval_command(&pending.request),
        command_preview: approval_preview(&pending.request),
        allowed_decisions: allowed_decisions(&pending.request),
        host: host_label(&session.tool_host).to_owned(),
        node_id: None,
        agent_id: Some(session.agent),
        expires_at_ms: pending.request.expires_ms,
    })
}

fn approval_preview(request: &ApprovalRequest) -> Option<String> {
    match request.preview.as_ref()? {
        ResultDisplay::Diff(diff) => Some(format!("{}\n{}", diff.path, diff.unified)),
        ResultDisplay::Markdown { text } => Some(text.clone()),
        ResultDisplay::Plan { entries } => Some(render_checklist(entries)),
    }
}

pub(super) async fn resolve(
    peer: &Arc<AuthenticatedConnection>,
    params: ExecApprovalResolveParams,
) -> Result<Acknowledgement, ErrorPayload> {
    let (pending, _) = find_pending(peer, &params.id).await?;
    let answer = decision_answer(params.decision, &pending.request)?;
    resolve_pending(peer, &params.id, answer).await
}

/// Converts a decision into an answer. Refuses decisions that were not offered, since the user did
/// not see what they would grant.
fn decision_answer(
    decision: ExecApprovalDecision,
    request: &ApprovalRequest,
) -> Result<ApprovalAnswer, ErrorPayload> {
    if !allowed_decisions(request).contains(&decision) {
        return Err(not_offered_error(request));
    }
    Ok(match decision {
        ExecApprovalDecision::AllowOnce => ApprovalAnswer::AllowOnce,
        ExecApprovalDecision::AllowAlways => ApprovalAnswer::AllowSession,
        ExecApprovalDecision::Deny => ApprovalAnswer::RejectOnce,
    })
}

pub(super) async fn resolve_exactly(
    peer: &Arc<AuthenticatedConnection>,
    params: ApprovalsResolveParams,
) -> Result<Acknowledgement, ErrorPayload> {
    let (pending, _) = find_pending(peer, &params.id).await?;
    let answer = parse_answer(&params.answer, &pending.request)?;
    resolve_pending(peer, &params.id, answer).await
}

fn parse_answer(word: &str, request: &ApprovalRequest) -> Result<ApprovalAnswer, ErrorPayload> {
    let offered = request.options.iter().any(|option| option.id == word);
    let answer = ApprovalAnswer::from_id(word)
        .filter(|answer| offered || *answer == ApprovalAnswer::RejectOnce);
    answer.ok_or_else(|| not_offered_error(request))
}

fn not_offered_error(request: &ApprovalRequest) -> ErrorPayload {
    let offered: Vec<&str> = request.options.iter().map(|option| option.id.as_str()).collect();
    ErrorPayload::invalid(format!(
        "that answer is not offered; answer one of {}",
        offered.join(", ")
    ))
}

/// Answers an approval. A parked run continues in this process.
async fn resolve_pending(
    peer: &AuthenticatedConnection,
    id: &str,
    answer: ApprovalAnswer,
) -> Result<Acknowledgement, ErrorPayload> {
    let (sessions, reach) = (peer.sessions(), peer.folder_access());
    match sessions.answer_approval(id, answer, peer.name(), reach).await {
        Ok(true) => Ok(Acknowledgement { ok: true }),
        Ok(false) => Err(not_pending_error(id)),
        Err(error) => Err(to_error_shape(error)),
    }
}

/// Returns a pending question of a visible session. Any other is reported as not found.
async fn find_pending(
    peer: &AuthenticatedConnection,
    id: &str,
) -> Result<(PendingApproval, SessionRecord), ErrorPayload> {
    let pending = peer.sessions().pending_approval(id).await.map_err(to_error_shape)?;
    let pending = pending.ok_or_else(|| not_pending_error(id))?;
    match peer.find_session_by_id(&pending.session).await? {
        Some(session) => Ok((pending, session)),
        None => Err(not_pending_error(id)),
    }
}

fn not_pending_error(id: &str) -> ErrorPayload {
    let message = format!(
        "no approval `{}` is pending: it was answered, withdrawn or never asked",
        quote_input(id)
    );
    ErrorPayload::new(ErrorCode::ApprovalNotFound, message)
}

pub(super) async fn list(
    peer: &Arc<AuthenticatedConnection>,
    params: ApprovalsListParams,
) -> Result<ApprovalsListResult, ErrorPayload> {
    let only = match &params.session_key {
        Some(written) => Some(peer.require_session(&peer.resolve_key(written, None)?).await?.id),
        None => None,
    };
    let sessions = peer.sessions();
    let scope = only.as_ref().map_or_else(|| peer.question_scope(), QuestionScope::Session);
    let approvals = sessions.pending_approvals(scope).await.map_err(to_error_shape)?;
    let questions = sessions.pending_questions(scope).await.map_err(to_error_shape)?;
    let mut result = ApprovalsListResult::default();
    for pending in approvals {
        if let Some(session) = peer.find_session_by_id(&pending.session).await? {
            result.approvals.push(PendingApprovalInfo {
                session_key: peer.key_text(&session.address()),
                run_id: pending.run.map(String::from),
                created_at_ms: pending.created_ms,
                request: pending.request,
            });
        }
    }
    for pending in questions {
        if let Some(session) = peer.find_session_by_id(&pending.session).await? {
            result.questions.push(PendingQuestionInfo {
                session_key: peer.key_text(&session.address()),
                run_id: pending.run.map(String::from),
                created_at_ms: pending.created_ms,
                question: pending.question,
            });
        }
    }
    Ok(result)
}

pub(super) async fn answer_question(
    peer: &Arc<AuthenticatedConnection>,
    params: QuestionsResolveParams,
) -> Result<Acknowledgement, ErrorPayload> {
    let nobody = || {
        let id = quote_input(&params.id);
        let message =
            format!("no question `{id}` is pending: it was answered, withdrawn or never asked");
        ErrorPayload::new(ErrorCode::ApprovalNotFound, message)
    };
    let answer = parse_question_answer(&params)?;
    let pending = peer.sessions().pending_question(&params.id).await.map_err(to_error_shape)?;
    let pending = pending.ok_or_else(nobody)?;
    if peer.find_session_by_id(&pending.session).await?.is_none() {
        return Err(nobody());
    }
    let (sessions, reach) = (peer.sessions(), peer.folder_access());
    match sessions.answer_question(&params.id, answer, reach).await {
        Ok(true) => Ok(Acknowledgement { ok: true }),
        Ok(false) => Err(nobody()),
        Err(error) => Err(to_error_shape(error)),
    }
}

fn parse_question_answer(params: &QuestionsResolveParams) -> Result<QuestionAnswer, ErrorPayload> {
    let bytes = crate::history::json_bytes(&params.content);
    if bytes > ANSWER_BYTES_MAX {
        return Err(ErrorPayload::invalid(format!(
            "an answer of {bytes} bytes is more than {ANSWER_BYTES_MAX}; shorten it"
        )));
    }
    match params.action.as_str() {
        "accept" => Ok(QuestionAnswer::Accept(params.content.clone())),
        "decline" => Ok(QuestionAnswer::Decline),
        "cancel" => Ok(QuestionAnswer::Cancel),
        other => Err(ErrorPayload::invalid(format!(
            "there is no action `{}`; answer accept, decline or cancel",
            quote_input(other)
        ))),
    }
}

pub(super) async fn list_grants(
    peer: &Arc<AuthenticatedConnection>,
    params: SessionKeyParams,
) -> Result<GrantsListResult, ErrorPayload> {
    let session = peer.require_session(&peer.resolve_key(&params.session_key, None)?).await?;
    let grants = peer.sessions().store().grants(&session.id).await;
    let grants = grants.map_err(|error| to_error_shape(error.into()))?;
    let grant = |grants: GrantRecord| GrantInfo {
        allowed: grants.allowed,
        rule: grants.grant.rule,
        folder: grants.grant.folder,
        time_ms: grants.time_ms,
        by: grants.by,
    };
    Ok(GrantsListResult { grants: grants.into_iter().map(grant).collect() })
}

pub(super) async fn revoke_grants(
    peer: &Arc<AuthenticatedConnection>,
    params: GrantsRevokeParams,
) -> Result<GrantsRevokeResult, ErrorPayload> {
    let session = peer.require_session(&peer.resolve_key(&params.session_key, None)?).await?;
    let revoked = peer.sessions().revoke_grants(&session.address(), params.rule.as_deref()).await;
    let revoked = revoked.map_err(to_error_shape)?;
    Ok(GrantsRevokeResult { revoked: revoked as u64 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use zero_session::event::ApprovalOption;

    fn request(options: &[&str]) -> ApprovalRequest {
        let option = |id: &&str| ApprovalOption { id: (*id).to_owned(), name: String::new() };
        ApprovalRequest {
            subject: zero_core::event::ApprovalSubject::Call,
            id: "q".to_owned(),
            call: "c".to_owned(),
            tool: "Bash".to_owned(),
            title: "Run a thing".to_owned(),
            reason: String::new(),
            risk: "high".to_owned(),
            commands: vec!["git push".to_owned(), "ls".to_owned()],
            effects: Vec::new(),
            preview: None,
            input: None,
            options: options.iter().map(option).collect(),
            cwd: "/w".to_owned(),
            expires_ms: 9,
        }
    }

    #[test]
    fn only_offered_answers_are_accepted() {
        let once = request(&["allow_once", "reject_once"]);
        assert_eq!(
            decision_answer(ExecApprovalDecision::AllowOnce, &once),
            Ok(ApprovalAnswer::AllowOnce)
        );
        assert_eq!(
            decision_answer(ExecApprovalDecision::Deny, &once),
            Ok(ApprovalAnswer::RejectOnce)
        );
        let refused = decision_answer(ExecApprovalDecision::AllowAlways, &once).unwrap_err();
        let message = "that answer is not offered; answer one of allow_once, reject_once";
        assert_eq!(refused.message, message);
        let all = request(&["allow_once", "allow_always", "reject_once", "reject_always"]);
        assert_eq!(
            decision_answer(ExecApprovalDecision::AllowAlways, &all),
            Ok(ApprovalAnswer::AllowSession)
        );
        assert_eq!(parse_answer("reject_always", &all), Ok(ApprovalAnswer::RejectSession));
        assert!(parse_answer("reject_always", &once).is_err());
        assert!(parse_answer("yes", &all).is_err());
    }

    #[test]
    fn deny_is_always_accepted() {
        let none = request(&[]);
        assert_eq!(
            decision_answer(ExecApprovalDecision::Deny, &none),
            Ok(ApprovalAnswer::RejectOnce)
        );
        assert_eq!(parse_answer("reject_once", &none), Ok(ApprovalAnswer::RejectOnce));
        assert!(decision_answer(ExecApprovalDecision::AllowOnce, &none).is_err());
    }

    #[test]
    fn question_action_is_one_of_three() {
        let params = |action: &str| QuestionsResolveParams {
            id: "q".to_owned(),
            action: action.to_owned(),
            content: Default::default(),
        };
        let accepted = QuestionAnswer::Accept(Default::default());
        assert_eq!(parse_question_answer(&params("accept")), Ok(accepted));
        assert_eq!(parse_question_answer(&params("decline")), Ok(QuestionAnswer::Decline));
        assert_eq!(parse_question_answer(&params("cancel")), Ok(QuestionAnswer::Cancel));
        let refused = parse_question_answer(&params("ok")).unwrap_err();
        assert_eq!(refused.message, "there is no action `ok`; answer accept, decline or cancel");
    }
}
