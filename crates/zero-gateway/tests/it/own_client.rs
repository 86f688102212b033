//! Our own client, every way it can come.

use std::sync::Arc;

use zero_wire::chat::{Health, HealthParams};
use zero_wire::client::{Client, ClientError, ConnectOptions, Credentials, Events, Target};
use zero_wire::device::DeviceKey;
use zero_wire::events::SHUTDOWN;
use zero_wire::handshake::{ClientId, ClientInfo, ClientMode};
use zero_wire::method::Scope;
use zero_wire::pipe::pipe;

use crate::rig::{ADMIN, PASSWORD, Rig, someone};
use crate::tls::certificate;

fn options(auth: Credentials) -> ConnectOptions {
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
    options(Credentials::Token(token.to_owned()))
}

#[track_caller]
fn url(rig: &Rig, scheme: &str) -> Target {
    Target::Url(format!("{scheme}://127.0.0.1:{}", rig.address.port()).parse().unwrap())
}

async fn check((client, _events): (Client, Events), scopes: &[&str]) {
    assert_eq!(client.hello().auth.as_ref().unwrap().scopes, scopes);
    let health = client.request::<Health>(HealthParams::default()).await.unwrap();
    assert!(health.ok);
}

#[tokio::test]
async fn it_comes_with_what_it_has() {
    let rig = Rig::start().await;
    let connect = async |options| Client::connect(url(&rig, "ws"), options).await;
    check(connect(token(ADMIN)).await.unwrap(), &["operator.admin"]).await;
    let password = options(Credentials::Password(PASSWORD.to_owned()));
    check(connect(password).await.unwrap(), &["operator.write"]).await;
    let device = Some(Arc::new(DeviceKey::generate().unwrap().0));
    let with_device = ConnectOptions { device, ..token(ADMIN) };
    check(connect(with_device).await.unwrap(), &["operator.admin"]).await;
    let refused = connect(token("wrong")).await.unwrap_err();
    let ClientError::Refused { error } = &refused else { panic!("{refused}") };
    assert_eq!(error.details.as_ref().unwrap()["code"], "AUTH_TOKEN_MISMATCH");
    let told = refused.to_string();
    assert_eq!(told.matches("was started with").count(), 1, "{told}");
}

#[tokio::test]
async fn it_comes_by_tls_to_the_certificate_it_knows() {
    let (tls, _) = certificate();
    let known = tls.fingerprint().parse().unwrap();
    let rig = Rig::with_tls(Some(tls), |_| {}).await;
    let pinned = ConnectOptions { tls_fingerprint: Some(known), ..token(ADMIN) };
    check(Client::connect(url(&rig, "wss"), pinned).await.unwrap(), &["operator.admin"]).await;
    let other = certificate().0.fingerprint().parse().unwrap();
    let mistaken = ConnectOptions { tls_fingerprint: Some(other), ..token(ADMIN) };
    let refused = Client::connect(url(&rig, "wss"), mistaken).await.unwrap_err();
    assert!(matches!(refused, ClientError::Tls { .. }), "{refused}");
    let refused = Client::connect(url(&rig, "wss"), token(ADMIN)).await.unwrap_err();
    assert!(matches!(refused, ClientError::Tls { .. }), "nobody vouches for it: {refused}");
}

#[tokio::test]
async fn it_comes_from_within_and_hears_the_end() {
    let rig = Rig::start().await;
    let (client_end, server_end) = pipe();
    rig.gateway.attach(server_end, someone("me", &[Scope::Admin]));
    let options = options(Credentials::None);
    let (client, mut events) = Client::connect(Target::Pipe(client_end), options).await.unwrap();
    client.request::<Health>(HealthParams::default()).await.unwrap();
    rig.stop.cancel();
    assert_eq!(events.next().await.unwrap().event, SHUTDOWN);
    assert!(events.next().await.is_none());
    assert_eq!(events.end().unwrap().code, 1012);
    rig.serving.await.unwrap();
}
