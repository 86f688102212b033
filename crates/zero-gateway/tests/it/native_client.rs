//! zero's own client, over every transport.

use std::sync::Arc;

use zero_wire::chat::{Health, HealthParams};
use zero_wire::client::{
    ConnectOptions, GatewayClient, GatewayClientError, GatewayCredentials, GatewayEvents,
    GatewayTarget,
};
use zero_wire::device::DeviceKey;
use zero_wire::events::SHUTDOWN;
use zero_wire::handshake::{ClientId, ClientInfo, ClientMode};
use zero_wire::method::TokenScope;
use zero_wire::pipe::pipe;

use crate::raw_gateway::{ADMIN, PASSWORD, RawGateway, principal};
use crate::tls::self_signed;

fn options(auth: GatewayCredentials) -> ConnectOptions {
    let client = ClientInfo {
        id: ClientId::Cli,
        display_name: None,
        version: "1".to_owned(),
        build_id: None,
        platform: "linux".to_owned(),
        device_family: None,
        model_identifier: None,
        time_zone: None,
        mode: ClientMode::Cli,
        instance_id: None,
    };
    ConnectOptions { auth, ..ConnectOptions::new(client) }
}

fn token(token: &str) -> ConnectOptions {
    options(GatewayCredentials::Token(token.to_owned()))
}

#[track_caller]
fn url(rig: &RawGateway, scheme: &str) -> GatewayTarget {
    GatewayTarget::Url(format!("{scheme}://127.0.0.1:{}", rig.address.port()).parse().unwrap())
}

async fn check((client, _events): (GatewayClient, GatewayEvents), scopes: &[&str]) {
    assert_eq!(client.hello().auth.as_ref().unwrap().scopes, scopes);
    let health = client.request::<Health>(HealthParams::default()).await.unwrap();
    assert!(health.ok);
}

#[tokio::test]
async fn native_client_connects_with_each_credential() {
    let rig = RawGateway::start().await;
    let connect = async |options| GatewayClient::connect(url(&rig, "ws"), options).await;
    check(connect(token(ADMIN)).await.unwrap(), &["operator.admin"]).await;
    let password = options(GatewayCredentials::Password(PASSWORD.to_owned()));
    check(connect(password).await.unwrap(), &["operator.write"]).await;
    let device = Some(Arc::new(DeviceKey::generate().unwrap().0));
    let with_device = ConnectOptions { device, ..token(ADMIN) };
    check(connect(with_device).await.unwrap(), &["operator.admin"]).await;
    let refused = connect(token("wrong")).await.unwrap_err();
    let GatewayClientError::Refused { error } = &refused else { panic!("{refused}") };
    assert_eq!(error.details.as_ref().unwrap()["code"], "AUTH_TOKEN_MISMATCH");
    let told = refused.to_string();
    assert_eq!(told.matches("was started with").count(), 1, "{told}");
}

#[tokio::test]
async fn native_client_connects_by_tls_with_pinned_certificate() {
    let (tls, _) = self_signed();
    let known = tls.fingerprint().parse().unwrap();
    let rig = RawGateway::with_tls(Some(tls), |_| {}).await;
    let pinned = ConnectOptions { tls_fingerprint: Some(known), ..token(ADMIN) };
    check(GatewayClient::connect(url(&rig, "wss"), pinned).await.unwrap(), &["operator.admin"])
        .await;
    let other = self_signed().0.fingerprint().parse().unwrap();
    let mistaken = ConnectOptions { tls_fingerprint: Some(other), ..token(ADMIN) };
    let refused = GatewayClient::connect(url(&rig, "wss"), mistaken).await.unwrap_err();
    assert!(matches!(refused, GatewayClientError::Tls { .. }), "{refused}");
    let refused = GatewayClient::connect(url(&rig, "wss"), token(ADMIN)).await.unwrap_err();
    assert!(matches!(refused, GatewayClientError::Tls { .. }), "nobody vouches for it: {refused}");
}

#[tokio::test]
async fn native_client_connects_by_pipe_and_sees_shutdown() {
    let rig = RawGateway::start().await;
    let (client_end, server_end) = pipe();
    rig.gateway.attach_pipe(server_end, principal("me", &[TokenScope::Admin]));
    let options = options(GatewayCredentials::None);
    let (client, mut events) =
        GatewayClient::connect(GatewayTarget::Pipe(client_end), options).await.unwrap();
    client.request::<Health>(HealthParams::default()).await.unwrap();
    rig.stop.cancel();
    assert_eq!(events.next().await.unwrap().event, SHUTDOWN);
    assert!(events.next().await.is_none());
    assert_eq!(events.close_reason().unwrap().code, 1012);
    rig.serving.await.unwrap();
}
