//! A token for a second device: it answers approvals and may do nothing else.

use serde_json::json;
use zero_gateway::Principal;
use zero_wire::approvals::{ExecApprovalGet, ExecApprovalResolve};
use zero_wire::chat::{ChatHistory, ChatSend};
use zero_wire::method::TokenScope;
use zero_wire::tools::ToolsResult;
use zero_wire::zero_sessions::{ZeroApprovalsList, ZeroSessionsSubscribe};

use crate::remote_tools::{attach_host, next_call, send_params};
use crate::test_gateway::{TestClient, TestGateway};

const CAPS: &[&str] = &["exec-approvals", "tool-events", "zero-events"];

fn approver_device(owner: Option<&str>) -> Principal {
    let owner = owner.map(str::to_owned);
    Principal { owner, ..Principal::new("phone", vec![TokenScope::Approvals]) }
}

/// Lets the host repeat a call until the gateway asks whether it should continue.
async fn repeat_call(host: &mut TestClient) {
    for _ in 0..3 {
        let call = next_call(host).await;
        let result = json!({
            "sessionId": call["sessionId"], "toolCallId": call["toolCallId"],
            "content": [{"type": "text", "text": "the same"}], "isError": false,
        });
        host.request::<ToolsResult>(result).await;
    }
}

#[tokio::test]
async fn approver_receives_only_owner_approvals() {
    let fixture = TestGateway::start(&["Psst look:a", "look:a", "look:a", "look:a", "Seen"]).await;
    let mut phone = fixture.connect_as(approver_device(Some("ann")), CAPS).await;
    let mut other = fixture.connect_as(approver_device(None), CAPS).await;
    let mut host = attach_host(&fixture).await;
    let mut ann = fixture.connect("ann", &[TokenScope::Write], &[]).await;
    ann.request::<ChatSend>(send_params("run-1")).await;
    repeat_call(&mut host).await;
    // The first event is the approval request.
    let event = phone.next_event().await;
    let asked = event.payload.unwrap();
    assert_eq!(event.event, "exec.approval.requested");
    assert_eq!(asked["request"]["sessionKey"], "agent:main:main");
    let id = asked["id"].as_str().unwrap();
    let listed = phone.request::<ZeroApprovalsList>(json!({})).await;
    assert_eq!(listed.approvals.len(), 1);
    assert_eq!(phone.request::<ExecApprovalGet>(json!({"id": id})).await.id, id);
    // A token without an owner has no approvals to answer.
    assert!(other.request::<ZeroApprovalsList>(json!({})).await.approvals.is_empty());
    let resolve = json!({"id": id, "decision": "deny"});
    let refused = other.expect_refusal::<ExecApprovalResolve>(resolve.clone()).await;
    assert!(refused.starts_with("ApprovalNotFound"), "{refused}");
    // The device may neither read nor send prompts.
    let refused = phone.expect_refusal::<ChatHistory>(json!({"sessionKey": "main"})).await;
    assert!(refused.contains("operator.read"), "{refused}");
    let refused =
        phone.expect_refusal::<ZeroSessionsSubscribe>(json!({"sessionKey": "main"})).await;
    assert!(refused.contains("operator.read"), "{refused}");
    let refused = phone.expect_refusal::<ChatSend>(send_params("run-9")).await;
    assert!(refused.contains("operator.write"), "{refused}");
    phone.request::<ExecApprovalResolve>(resolve).await;
    let event = phone.next_event().await;
    let answered = event.payload.unwrap();
    assert_eq!((event.event.as_str(), &answered["id"]), ("exec.approval.resolved", &json!(id)));
    assert_eq!(answered["resolvedBy"], "phone");
    ann.collect_until_end().await;
    // The device received no other events of the session.
    fixture.gateway.shut_down(std::time::Duration::ZERO).await;
    assert_eq!(phone.next_event().await.event, "shutdown");
    assert_eq!(other.next_event().await.event, "shutdown");
}

#[tokio::test]
async fn late_approver_receives_pending_approvals() {
    let fixture = TestGateway::start(&["look:a", "look:a", "look:a", "look:a", "Seen"]).await;
    let mut host = attach_host(&fixture).await;
    let mut ann = fixture
        .connect("ann", &[TokenScope::Write, TokenScope::Approvals], &["exec-approvals"])
        .await;
    ann.request::<ChatSend>(send_params("run-1")).await;
    repeat_call(&mut host).await;
    ann.collect_until(|event, _| event == "exec.approval.requested").await;
    let mut phone = fixture.connect_as(approver_device(Some("ann")), CAPS).await;
    assert_eq!(phone.next_event().await.event, "exec.approval.requested");
    let root = fixture.connect("root", &[TokenScope::Admin], &[]).await;
    assert_eq!(root.request::<ZeroApprovalsList>(json!({})).await.approvals.len(), 1);
}
