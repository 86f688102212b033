//! Somebody's second device: it answers whether calls may run, and does nothing else.

use serde_json::json;
use zero_gateway::Principal;
use zero_wire::approvals::{ExecApprovalGet, ExecApprovalResolve};
use zero_wire::chat::{ChatHistory, ChatSend};
use zero_wire::method::TokenScope;
use zero_wire::tools::ToolsResult;
use zero_wire::zero_sessions::{ZeroApprovalsList, ZeroSessionsSubscribe};

use crate::remote_tools::{asked, host, say};
use crate::test_gateway::{TestClient, TestGateway};

const CAPS: &[&str] = &["exec-approvals", "tool-events", "zero-events"];

fn phone_of(owner: Option<&str>) -> Principal {
    let owner = owner.map(str::to_owned);
    Principal { owner, ..Principal::new("phone", vec![TokenScope::Approvals]) }
}

/// Has the host do the same until the gateway asks whether that may go on.
async fn repeat(host: &mut TestClient) {
    for _ in 0..3 {
        let call = asked(host).await;
        let result = json!({
            "sessionId": call["sessionId"], "toolCallId": call["toolCallId"],
            "content": [{"type": "text", "text": "the same"}], "isError": false,
        });
        host.ask::<ToolsResult>(result).await;
    }
}

#[tokio::test]
async fn it_hears_and_answers_the_questions_of_its_owner_and_nothing_else() {
    let lab = TestGateway::start(&["Psst look:a", "look:a", "look:a", "look:a", "Seen"]).await;
    let mut phone = lab.connect_as(phone_of(Some("ann")), CAPS).await;
    let mut other = lab.connect_as(phone_of(None), CAPS).await;
    let mut host = host(&lab).await;
    let mut ann = lab.connect("ann", &[TokenScope::Write], &[]).await;
    ann.ask::<ChatSend>(say("run-1")).await;
    repeat(&mut host).await;
    // The very first thing it hears is the question.
    let event = phone.next().await;
    let asked = event.payload.unwrap();
    assert_eq!(event.event, "exec.approval.requested");
    assert_eq!(asked["request"]["sessionKey"], "agent:main:main");
    let id = asked["id"].as_str().unwrap();
    let listed = phone.ask::<ZeroApprovalsList>(json!({})).await;
    assert_eq!(listed.approvals.len(), 1);
    assert_eq!(phone.ask::<ExecApprovalGet>(json!({"id": id})).await.id, id);
    // A token that is nobody's second device has nothing to answer.
    assert!(other.ask::<ZeroApprovalsList>(json!({})).await.approvals.is_empty());
    let resolve = json!({"id": id, "decision": "deny"});
    let refused = other.refused::<ExecApprovalResolve>(resolve.clone()).await;
    assert!(refused.starts_with("ApprovalNotFound"), "{refused}");
    // It may not look, nor talk.
    let refused = phone.refused::<ChatHistory>(json!({"sessionKey": "main"})).await;
    assert!(refused.contains("operator.read"), "{refused}");
    let refused = phone.refused::<ZeroSessionsSubscribe>(json!({"sessionKey": "main"})).await;
    assert!(refused.contains("operator.read"), "{refused}");
    let refused = phone.refused::<ChatSend>(say("run-9")).await;
    assert!(refused.contains("operator.write"), "{refused}");
    phone.ask::<ExecApprovalResolve>(resolve).await;
    let event = phone.next().await;
    let answered = event.payload.unwrap();
    assert_eq!((event.event.as_str(), &answered["id"]), ("exec.approval.resolved", &json!(id)));
    assert_eq!(answered["resolvedBy"], "phone");
    ann.until_end().await;
    // What was said and done in the session was not for it.
    lab.gateway.shut_down(std::time::Duration::ZERO).await;
    assert_eq!(phone.next().await.event, "shutdown");
    assert_eq!(other.next().await.event, "shutdown");
}

#[tokio::test]
async fn who_comes_late_hears_what_still_waits() {
    let lab = TestGateway::start(&["look:a", "look:a", "look:a", "look:a", "Seen"]).await;
    let mut host = host(&lab).await;
    let mut ann =
        lab.connect("ann", &[TokenScope::Write, TokenScope::Approvals], &["exec-approvals"]).await;
    ann.ask::<ChatSend>(say("run-1")).await;
    repeat(&mut host).await;
    ann.until(|event, _| event == "exec.approval.requested").await;
    let mut phone = lab.connect_as(phone_of(Some("ann")), CAPS).await;
    assert_eq!(phone.next().await.event, "exec.approval.requested");
    let root = lab.connect("root", &[TokenScope::Admin], &[]).await;
    assert_eq!(root.ask::<ZeroApprovalsList>(json!({})).await.approvals.len(), 1);
}
