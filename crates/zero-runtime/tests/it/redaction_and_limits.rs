//! Tests of what must not be recorded, and of size limits.

use std::os::unix::fs::PermissionsExt;

use serde_json::json;
use zero_core::SessionId;
use zero_core::tool_result::ToolResultPart;
use zero_runtime::CallOutcome;

use crate::fixture::HostFixture;

#[tokio::test]
async fn secrets_never_reach_the_audit_log() {
    let fixture = HostFixture::new();
    let secrets =
        ["sk-ant-api03-abcdefghijklmnopqrst", "hunter2hunter2", "ghp_0123456789abcdefghij0123"];
    let input = json!({"act": "panic", "text": format!("{} password={} {}", secrets[0], secrets[1], secrets[2])});
    fixture.call("Puppet", input).await.outcome.unwrap_err();
    fixture.call(secrets[2], json!({"token": secrets[1]})).await.outcome.unwrap_err();
    let day = fixture.host.audit().days().unwrap().remove(0);
    let file = fixture.temp.path().join(format!("state/audit/{day}.jsonl"));
    let log = std::fs::read_to_string(&file).unwrap();
    assert_eq!(log.lines().count(), 3, "a begin and two ends");
    for secret in secrets.iter().chain(&["sk-abcdefghijklmnopqrstuvwx"]) {
        assert!(!log.contains(secret), "{secret} in {log}");
    }
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(
        std::fs::metadata(file.parent().unwrap()).unwrap().permissions().mode() & 0o777,
        0o700
    );
}

#[tokio::test]
async fn oversized_result_is_cut_and_kept_until_session_ends() {
    let fixture = HostFixture::new();
    let session = fixture.host.open_session(SessionId::new("s1").unwrap()).unwrap();
    let call = HostFixture::tool_call("Puppet", json!({"act": "flood"}));
    let id = call.id.clone();
    let report = fixture.host.call(&session, &fixture.dialect, call, &Default::default()).await;
    let Ok(CallOutcome { result, .. }) = report.outcome else { panic!("a result") };
    let ToolResultPart::Text(text) = &result.content[0] else { panic!("a text") };
    assert!(text.len() < 51_000 && text.contains("of 200000 bytes left out"), "{}", text.len());
    let file = fixture.temp.path().join(format!("state/spill/s1/{id}-0.txt"));
    assert_eq!(std::fs::metadata(&file).unwrap().len(), 200_000);
    // The session itself may read it without approval, another may not.
    let path = json!({"act": "work", "path": file});
    let own = HostFixture::tool_call("Puppet", path.clone());
    assert!(
        fixture
            .host
            .call(&session, &fixture.dialect, own, &Default::default())
            .await
            .outcome
            .is_ok()
    );
    assert!(fixture.call("Puppet", path).await.outcome.is_err());
    drop(session);
    assert!(!file.exists());
}

#[tokio::test]
async fn unwritable_audit_log_refuses_call() {
    let fixture = HostFixture::new();
    // A file at the path of the audit folder: rows cannot be written.
    std::fs::write(fixture.temp.path().join("state/audit"), "").unwrap();
    let error = fixture.call("Puppet", json!({"act": "work"})).await.outcome.unwrap_err();
    assert!(error.message.contains("the audit log cannot be written"), "{error}");
}

#[tokio::test]
async fn input_size_is_bounded() {
    let fixture = HostFixture::new();
    let error = fixture
        .call("Puppet", json!({"act": "work", "text": "x".repeat(17_000_000)}))
        .await
        .outcome
        .unwrap_err();
    assert_eq!(error.message, "the input has 17 MB, more than 16 MB");
}
