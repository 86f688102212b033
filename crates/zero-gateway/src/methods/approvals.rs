//! Pending approvals and questions, and the grants of a session.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use zero_core::event::UserQuestion;
use zero_core::tool_result::render_checklist;
use zero_core::{ResultDisplay, SchemaViolation};
use zero_runtime::schema::{InputSchema, check_formats, foreign_schema};
use zero_runtime::{AGENT_ORIGIN, ApprovalAnswer};
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

/// Violations of a form that an error names.
const FORM_VIOLATIONS_MAX: usize = 5;
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
    let (sessions, folder_access) = (peer.sessions(), peer.folder_access());
    match sessions.answer_approval(id, answer, peer.name(), folder_access).await {
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
    let not_pending = || {
        let id = quote_input(&params.id);
        let message =
            format!("no question `{id}` is pending: it was answered, withdrawn or never asked");
        ErrorPayload::new(ErrorCode::ApprovalNotFound, message)
    };
    let answer = parse_question_answer(&params)?;
    let pending = peer.sessions().pending_question(&params.id).await.map_err(to_error_shape)?;
    let pending = pending.ok_or_else(not_pending)?;
    if peer.find_session_by_id(&pending.session).await?.is_none() {
        return Err(not_pending());
    }
    let answer = match answer {
        QuestionAnswer::Accept(values) => {
            QuestionAnswer::Accept(check_form(&pending.question, values)?)
        }
        other => other,
    };
    let (sessions, folder_access) = (peer.sessions(), peer.folder_access());
    match sessions.answer_question(&params.id, answer, folder_access).await {
        Ok(true) => Ok(Acknowledgement { ok: true }),
        Ok(false) => Err(not_pending()),
        Err(error) => Err(to_error_shape(error)),
    }
}

/// The values of an accepted form, without optional fields that are null. Refuses values that the
/// form does not allow, and a form of the agent that was left empty: neither answers the question.
fn check_form(
    question: &UserQuestion,
    values: Map<String, Value>,
) -> Result<Map<String, Value>, ErrorPayload> {
    // The user opens a page, or agrees to a message: there is nothing to fill in.
    let Some(schema) = question.schema.as_ref().filter(|_| question.url.is_none()) else {
        return Ok(Map::new());
    };
    if let Err(why) = foreign_schema::check_usable(schema) {
        let message = format!("the form of this question {why}; decline it");
        return Err(ErrorPayload::invalid(message));
    }
    let checked = InputSchema::new(schema.clone()).check(Value::Object(values));
    let checked = checked.and_then(|values| check_formats(schema, &values).map(|()| values));
    let values = checked.map_err(|violations| {
        let shown = violations.iter().take(FORM_VIOLATIONS_MAX);
        let shown: Vec<String> = shown.map(describe_violation).collect();
        ErrorPayload::invalid(format!("the answer does not fit the form: {}", shown.join("; ")))
    })?;
    let Value::Object(values) = values else { return Ok(Map::new()) };
    let has_fields = schema.get("properties").is_some_and(|fields| fields != &json!({}));
    if question.origin == AGENT_ORIGIN && has_fields && values.values().all(is_left_empty) {
        let message = "the form is empty; fill in at least one field, or decline";
        return Err(ErrorPayload::invalid(message.to_owned()));
    }
    Ok(values)
}

fn is_left_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.trim().is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::Object(_) => false,
    }
}

fn describe_violation(violation: &SchemaViolation) -> String {
    let field = quote_input(violation.pointer.trim_start_matches('/'));
    format!("`{field}`: expected {}, found {}", violation.expected, violation.found)
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

    fn question(origin: &str, schema: Option<Value>) -> UserQuestion {
        let (id, message) = ("ask_1".to_owned(), "?".to_owned());
        UserQuestion { id, origin: origin.to_owned(), message, schema, url: None, subagent: None }
    }

    #[test]
    fn form_is_checked_against_its_schema() {
        let schema = json!({"type": "object", "required": ["name"], "properties": {
            "name": {"type": "string", "minLength": 2, "maxLength": 4, "pattern": "^[a-z]*$"},
            "size": {"type": "integer", "minimum": 1, "maximum": 9},
            "color": {"type": "string", "enum": ["red", "green"]},
            "parts": {"type": "array", "items": {"anyOf": [{"const": "a"}, {"const": "b"}]}, "maxItems": 1},
            "mail": {"type": "string", "format": "email"},
            "page": {"type": "string", "format": "uri"},
            "day": {"type": "string", "format": "date"},
            "time": {"type": "string", "format": "date-time"},
        }});
        let server = question("MCP server `x`", Some(schema));
        let check = |values: Value| {
            let Value::Object(values) = values else { panic!("{values}") };
            check_form(&server, values).map(Value::Object).map_err(|error| error.message)
        };
        for (given, kept) in [
            (json!({"name": "abc", "size": 9}), json!({"name": "abc", "size": 9})),
            (json!({"name": "ab", "size": null}), json!({"name": "ab"})),
            (json!({"name": "ab", "size": 3.0}), json!({"name": "ab", "size": 3})),
            (json!({"name": "ab", "parts": ["b"]}), json!({"name": "ab", "parts": ["b"]})),
            (
                json!({"name": "ab", "day": "2026-01-31"}),
                json!({"name": "ab", "day": "2026-01-31"}),
            ),
        ] {
            assert_eq!(check(given.clone()), Ok(kept), "{given}");
        }
        for (given, field) in [
            (json!({}), "`name`"),
            (json!({"name": "a"}), "`name`"),
            (json!({"name": "abcde"}), "`name`"),
            (json!({"name": "AB"}), "`name`"),
            (json!({"name": 1}), "`name`"),
            (json!({"name": "ab", "size": 0}), "`size`"),
            (json!({"name": "ab", "size": 10}), "`size`"),
            (json!({"name": "ab", "size": 1.5}), "`size`"),
            (json!({"name": "ab", "color": "blue"}), "`color`"),
            (json!({"name": "ab", "parts": ["c"]}), "`parts/0`"),
            (json!({"name": "ab", "parts": ["a", "b"]}), "`parts`"),
            (json!({"name": "ab", "mail": "me"}), "`mail`: expected an email address"),
            (json!({"name": "ab", "page": "x.org"}), "`page`: expected a URL"),
            (json!({"name": "ab", "day": "2026-02-30"}), "`day`: expected a day"),
            (json!({"name": "ab", "time": "2026-01-31"}), "`time`: expected a time"),
        ] {
            let error = check(given.clone()).unwrap_err();
            assert!(error.contains("does not fit") && error.contains(field), "{given}: {error}");
        }
    }

    #[test]
    fn empty_form_of_agent_is_refused() {
        let schema = json!({"type": "object", "properties": {
            "q1": {"type": "array", "items": {"type": "string"}}, "q1_other": {"type": "string"},
        }});
        let fields = |values: Value| values.as_object().unwrap().clone();
        let asked = question(AGENT_ORIGIN, Some(schema.clone()));
        for empty in [json!({}), json!({"q1": []}), json!({"q1": [], "q1_other": " "})] {
            let error = check_form(&asked, fields(empty)).unwrap_err();
            assert!(error.message.contains("the form is empty"), "{}", error.message);
        }
        assert!(check_form(&asked, fields(json!({"q1": ["a"]}))).is_ok());
        // A server may ask only for what is optional.
        assert!(check_form(&question("MCP server `x`", Some(schema)), Map::new()).is_ok());
        assert!(check_form(&question(AGENT_ORIGIN, None), Map::new()).is_ok());
    }

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
            subagent: None,
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
