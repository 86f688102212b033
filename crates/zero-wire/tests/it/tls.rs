//! Certificates: trusted ones, pinned ones, and those of an attacker in between.

use std::sync::Arc;

use rcgen::{CertifiedKey, KeyPair, generate_simple_self_signed};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use serde_json::json;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use zero_core::ExtraRootCertificates;
use zero_wire::chat::{Health, HealthParams};
use zero_wire::client::{
    CertificateFingerprint, ConnectOptions, GatewayClient, GatewayClientError,
};

use crate::test_gateway::{TestGateway, connect_options, serve_tcp, url_target};

fn new_certificate() -> (CertificateDer<'static>, KeyPair) {
    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(names).unwrap();
    (cert.der().clone(), signing_key)
}

/// Presents a certificate, whether or not the key belongs to it.
#[derive(Debug)]
struct FixedCertResolver(Arc<rustls::sign::CertifiedKey>);

impl ResolvesServerCert for FixedCertResolver {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<rustls::sign::CertifiedKey>> {
        Some(self.0.clone())
    }
}

fn tls_acceptor(certificate: CertificateDer<'static>, key: &KeyPair) -> TlsAcceptor {
    let provider = rustls::crypto::ring::default_provider();
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let key = provider.key_provider.load_private_key(key).unwrap();
    let shown =
        FixedCertResolver(Arc::new(rustls::sign::CertifiedKey::new(vec![certificate], key)));
    let config = ServerConfig::builder_with_provider(Arc::new(provider))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(shown));
    TlsAcceptor::from(Arc::new(config))
}

async fn serve_health(mut peer: TestGateway) {
    peer.accept_handshake().await;
    let request = peer.recv().await.unwrap();
    let payload =
        json!({"ok": true, "ts": 1, "uptimeMs": 1, "defaultAgentId": "main", "running": 0});
    peer.answer(&request, payload).await;
    let _ = peer.recv().await;
}

/// Connects to a server whose certificate is refused, and returns the error. The server may fail
/// too.
async fn connect_refused(
    tls: TlsAcceptor,
    host: &str,
    pin: Option<CertificateFingerprint>,
) -> String {
    connect_refused_with(tls, host, ConnectOptions { tls_fingerprint: pin, ..connect_options() })
        .await
}

async fn connect_refused_with(tls: TlsAcceptor, host: &str, options: ConnectOptions) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        tls.accept(stream).await.is_ok()
    });
    let error = GatewayClient::connect(url_target(&format!("wss://{host}:{port}")), options)
        .await
        .unwrap_err();
    assert!(matches!(error, GatewayClientError::Tls { .. }), "{error:?}");
    let _ = server.await.unwrap();
    error.to_string()
}

#[tokio::test]
async fn pinned_certificate_is_accepted_for_any_name() {
    let (certificate, key) = new_certificate();
    let pin = CertificateFingerprint::from_certificate(&certificate);
    for host in ["127.0.0.1", "localhost"] {
        let (address, gateway) =
            serve_tcp(Some(tls_acceptor(certificate.clone(), &key)), serve_health).await;
        let options = ConnectOptions { tls_fingerprint: Some(pin), ..connect_options() };
        let target = url_target(&format!("https://{host}:{}", address.port()));
        let (client, _events) = GatewayClient::connect(target, options).await.unwrap();
        assert!(client.request::<Health>(HealthParams::default()).await.unwrap().ok);
        client.close().await;
        gateway.await.unwrap();
    }
}

#[tokio::test]
async fn ca_signed_certificate_needs_pin_or_known_ca() {
    let mut params = rcgen::CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority_key = KeyPair::generate().unwrap();
    let authority = rcgen::CertifiedIssuer::self_signed(params, authority_key).unwrap();
    let key = KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let certificate = params.signed_by(&key, &authority).unwrap().der().clone();
    let pin = CertificateFingerprint::from_certificate(&certificate);
    let (address, gateway) =
        serve_tcp(Some(tls_acceptor(certificate.clone(), &key)), serve_health).await;
    let pinned = ConnectOptions { tls_fingerprint: Some(pin), ..connect_options() };
    let target = url_target(&format!("wss://localhost:{}", address.port()));
    let (client, _events) = GatewayClient::connect(target, pinned).await.unwrap();
    assert!(client.request::<Health>(HealthParams::default()).await.unwrap().ok);
    client.close().await;
    gateway.await.unwrap();
    let error = connect_refused(tls_acceptor(certificate.clone(), &key), "localhost", None).await;
    assert!(error.contains("gateway.remote.tlsFingerprint"), "{error}");
    // The fingerprint of the CA does not match the gateway's certificate.
    let authority = CertificateFingerprint::from_certificate(authority.der());
    let error =
        connect_refused(tls_acceptor(certificate, &key), "localhost", Some(authority)).await;
    assert!(error.contains("may be intercepting the connection"), "{error}");
}

#[tokio::test]
async fn user_trusted_ca_is_accepted() {
    let mut params = rcgen::CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority =
        rcgen::CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let certificate = params.signed_by(&key, &authority).unwrap().der().clone();
    let extra_roots = ExtraRootCertificates::new(vec![authority.der().to_vec()]);
    let (address, gateway) =
        serve_tcp(Some(tls_acceptor(certificate.clone(), &key)), serve_health).await;
    let trusting = || ConnectOptions { extra_roots: extra_roots.clone(), ..connect_options() };
    let target = url_target(&format!("wss://localhost:{}", address.port()));
    let (client, _events) = GatewayClient::connect(target, trusting()).await.unwrap();
    assert!(client.request::<Health>(HealthParams::default()).await.unwrap().ok);
    client.close().await;
    gateway.await.unwrap();
    // The CA is trusted, but the certificate is for another name.
    let tls = tls_acceptor(certificate, &key);
    let error = connect_refused_with(tls, "127.0.0.1", trusting()).await;
    assert!(error.contains("network.extraCa"), "{error}");
}

#[tokio::test]
async fn other_certificate_is_refused_and_named() {
    let (certificate, key) = new_certificate();
    let shown = CertificateFingerprint::from_certificate(&certificate);
    let pin = CertificateFingerprint::from_certificate(b"another");
    let error = connect_refused(tls_acceptor(certificate, &key), "127.0.0.1", Some(pin)).await;
    assert!(error.contains(&shown.to_string()) && error.contains(&pin.to_string()), "{error}");
    assert!(error.contains("may be intercepting the connection"), "{error}");
}

#[tokio::test]
async fn pinned_certificate_without_its_key_is_refused() {
    let (certificate, _) = new_certificate();
    let pin = CertificateFingerprint::from_certificate(&certificate);
    let stranger = KeyPair::generate().unwrap();
    let error = connect_refused(tls_acceptor(certificate, &stranger), "127.0.0.1", Some(pin)).await;
    assert!(
        error.contains("BadSignature") || error.contains("invalid peer certificate"),
        "{error}"
    );
}

#[tokio::test]
async fn self_signed_certificate_without_pin_is_refused() {
    let (certificate, key) = new_certificate();
    let error = connect_refused(tls_acceptor(certificate, &key), "localhost", None).await;
    assert!(
        error.contains("gateway.remote.tlsFingerprint") || error.contains("fingerprint"),
        "{error}"
    );
}

#[tokio::test]
async fn pin_without_tls_is_refused() {
    let options = ConnectOptions {
        tls_fingerprint: Some(CertificateFingerprint::from_certificate(b"x")),
        ..connect_options()
    };
    let error = GatewayClient::connect(url_target("ws://127.0.0.1:1"), options).await.unwrap_err();
    assert!(error.to_string().contains("use `wss://`"), "{error}");
}

#[tokio::test]
async fn port_without_tls_is_refused() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let answer = b"HTTP/1.1 400 Bad Request\r\n\r\n";
        tokio::io::AsyncWriteExt::write_all(&mut stream, answer).await.unwrap();
        stream
    });
    let options = ConnectOptions {
        tls_fingerprint: Some(CertificateFingerprint::from_certificate(b"x")),
        ..connect_options()
    };
    let error = GatewayClient::connect(url_target(&format!("wss://127.0.0.1:{port}")), options)
        .await
        .unwrap_err();
    assert!(error.to_string().contains("check that the port speaks TLS"), "{error}");
    server.await.unwrap();
}
