//! Pairing of devices: what codes, approvals and revocations do to connections.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::net::TcpStream;
use zero_gateway::{DeviceStore, PairedDevice};

use crate::handshake::TestDevice;
use crate::raw_gateway::{ADMIN, READER, RawClient, RawGateway, connect_params};

/// Connects a device with one credential; returns the response, too.
async fn connect_device(
    rig: &RawGateway,
    device: &TestDevice,
    credential: &str,
    secret: &str,
) -> (RawClient<TcpStream>, Value) {
    let mut client = rig.client().await;
    let challenge = client.challenge["payload"].take();
    let (nonce, ts) = (challenge["nonce"].as_str().unwrap(), challenge["ts"].as_i64().unwrap());
    let mut params = connect_params("");
    params["auth"] = json!({credential: secret});
    params["device"] = device.proof(nonce, ts, secret);
    let answer = client.connect(params).await;
    (client, answer)
}

/// A new code for these scopes.
async fn invite(client: &mut RawClient<TcpStream>, scopes: &[&str]) -> String {
    let params = json!({"scopes": scopes});
    let mut answer = client.call_method("i", "zero.devices.invite", params).await;
    serde_json::from_value(answer["payload"]["code"].take()).unwrap()
}

#[tokio::test]
async fn invitation_has_the_qr_code_of_the_address_and_not_of_the_code() {
    let rig = RawGateway::start().await;
    let mut admin = rig.connected_client(ADMIN).await;
    let mut rows_of = async |page: Option<&str>| {
        let mut params = json!({"scopes": ["operator.read"]});
        page.into_iter().for_each(|page| params["page"] = json!(page));
        let answer = admin.call_method("i", "zero.devices.invite", params).await;
        answer["payload"]["qrRows"].clone()
    };
    let rows = rows_of(Some("http://127.0.0.1:18789/")).await;
    let size = rows.as_array().unwrap().len();
    for row in rows.as_array().unwrap() {
        assert_eq!(row.as_str().unwrap().len(), size, "{rows}");
    }
    assert!(rows[0].as_str().unwrap().starts_with("11111110"), "{rows}");
    // Another code has the same picture.
    assert_eq!(rows_of(Some("http://127.0.0.1:18789/")).await, rows);
    assert!(rows_of(None).await.is_null());
}

#[tokio::test]
async fn new_pairing_ends_connections_of_the_earlier_one() {
    let (rig, device) = (RawGateway::start().await, TestDevice::new(7));
    let mut admin = rig.connected_client(ADMIN).await;
    let code = invite(&mut admin, &["operator.admin"]).await;
    let (mut first, hello) = connect_device(&rig, &device, "bootstrapToken", &code).await;
    let token = hello["payload"]["auth"]["deviceToken"].as_str().unwrap();
    let (mut same, _) = connect_device(&rig, &device, "deviceToken", token).await;
    same.check_health().await;

    let code = invite(&mut admin, &["operator.read"]).await;
    let (mut second, hello) = connect_device(&rig, &device, "bootstrapToken", &code).await;
    assert_eq!(hello["payload"]["auth"]["scopes"], json!(["operator.read"]), "{hello}");
    for old in [&mut first, &mut same] {
        assert_eq!(old.wait_closed().await, (1008, "this device was paired again".to_owned()));
    }
    second.check_health().await;
    let (_, refused) = connect_device(&rig, &device, "deviceToken", token).await;
    assert_eq!(refused["error"]["details"]["code"], "AUTH_DEVICE_TOKEN_MISMATCH", "{refused}");
}

#[tokio::test]
async fn revoked_device_is_disconnected_and_its_codes_are_void() {
    let (rig, device) = (RawGateway::start().await, TestDevice::new(7));
    let mut admin = rig.connected_client(ADMIN).await;
    let code = invite(&mut admin, &["operator.admin"]).await;
    let (mut client, _) = connect_device(&rig, &device, "bootstrapToken", &code).await;
    let way_back = invite(&mut client, &["operator.admin"]).await;

    let known = admin.call_method("l", "zero.devices.list", json!({})).await;
    let params = json!({"id": known["payload"]["devices"][0]["id"]});
    let revoked = admin.call_method("r", "zero.devices.revoke", params).await;
    assert_eq!(revoked["payload"], json!({"revoked": true, "closed": 1}), "{revoked}");
    assert_eq!(client.wait_closed().await, (1008, "this device was revoked".to_owned()));
    let other = TestDevice::new(8);
    let (_, refused) = connect_device(&rig, &other, "bootstrapToken", &way_back).await;
    assert_eq!(refused["error"]["details"]["code"], "AUTH_BOOTSTRAP_TOKEN_INVALID", "{refused}");
}

#[tokio::test]
async fn device_with_new_scopes_has_to_connect_again() {
    let (rig, device) = (RawGateway::start().await, TestDevice::new(7));
    let mut admin = rig.connected_client(ADMIN).await;
    let code = invite(&mut admin, &["operator.admin"]).await;
    let (mut client, hello) = connect_device(&rig, &device, "bootstrapToken", &code).await;
    let token = hello["payload"]["auth"]["deviceToken"].as_str().unwrap();
    let known = admin.call_method("l", "zero.devices.list", json!({})).await;
    let params = json!({"id": known["payload"]["devices"][0]["id"], "scopes": ["operator.read"]});
    let changed = admin.call_method("s", "zero.devices.scope", params).await;
    assert_eq!(changed["payload"]["scopes"], json!(["operator.read"]), "{changed}");
    let why = "the scopes of this device were changed".to_owned();
    assert_eq!(client.wait_closed().await, (1008, why));
    let (_, hello) = connect_device(&rig, &device, "deviceToken", token).await;
    assert_eq!(hello["payload"]["auth"]["scopes"], json!(["operator.read"]), "{hello}");
    let unknown = json!({"id": "x", "scopes": ["operator.admin"]});
    let refused = admin.call_method("u", "zero.devices.scope", unknown).await;
    assert!(refused["error"]["message"].as_str().unwrap().contains("no device"), "{refused}");
    // Tokens are listed beside, without their secrets.
    let tokens = known["payload"]["tokens"].to_string();
    assert!(tokens.contains("operator.admin") && !tokens.contains(ADMIN), "{tokens}");
}

#[tokio::test]
async fn device_that_cannot_be_stored_is_not_paired() {
    struct FullStore;
    impl DeviceStore for FullStore {
        fn load(&self) -> Result<Vec<PairedDevice>, String> {
            Ok(Vec::new())
        }

        fn save(&self, _: &[PairedDevice]) -> Result<(), String> {
            Err("the disk is full".to_owned())
        }
    }
    let rig = RawGateway::with_config(|config| config.console.devices = Arc::new(FullStore)).await;
    let mut admin = rig.connected_client(ADMIN).await;
    let code = invite(&mut admin, &["operator.read"]).await;
    let (_, refused) = connect_device(&rig, &TestDevice::new(7), "bootstrapToken", &code).await;
    assert_eq!(refused["error"]["code"], "UNAVAILABLE", "{refused}");
    assert!(!refused.to_string().contains("deviceToken"), "{refused}");
    let known = admin.call_method("l", "zero.devices.list", json!({})).await;
    assert_eq!(known["payload"]["devices"], json!([]), "{known}");
}

#[tokio::test]
async fn devices_and_machine_need_the_admin_scope() {
    let (rig, device) = (RawGateway::start().await, TestDevice::new(7));
    let mut admin = rig.connected_client(ADMIN).await;
    let scopes = ["operator.write", "operator.approvals", "operator.questions"];
    let code = invite(&mut admin, &scopes).await;
    let (mut phone, _) = connect_device(&rig, &device, "bootstrapToken", &code).await;
    let mut reader = rig.connected_client(READER).await;
    let scopes = json!(["operator.admin"]);
    let rules = json!({"allow": ["Bash"], "ask": [], "deny": []});
    let calls = [
        ("zero.devices.list", json!({})),
        ("zero.devices.invite", json!({"scopes": scopes})),
        ("zero.devices.approve", json!({"id": "x", "scopes": scopes})),
        ("zero.devices.reject", json!({"id": "x"})),
        ("zero.devices.scope", json!({"id": "x", "scopes": scopes})),
        ("zero.devices.revoke", json!({"id": "x"})),
        ("zero.audit.list", json!({})),
        ("zero.audit.show", json!({"call": "x"})),
        ("zero.audit.verify", json!({})),
        ("zero.policy.explain", json!({"command": "ls"})),
        ("zero.policy.rules", json!({})),
        ("zero.policy.simulate", json!({})),
        ("zero.policy.save", json!({"rules": rules, "version": "x", "write": true})),
        ("zero.machine.doctor", json!({})),
    ];
    for client in [&mut phone, &mut reader] {
        for (method, params) in &calls {
            let refused = client.call_method("m", method, params.clone()).await;
            let message = refused["error"]["message"].as_str().unwrap();
            assert!(message.contains("operator.admin"), "{method}: {refused}");
        }
    }
}
