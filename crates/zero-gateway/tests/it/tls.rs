//! TLS, from the client's side.

use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rcgen::{CertifiedKey, KeyPair};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use sha2::{Digest, Sha256};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsConnector;
use zero_gateway::{TlsError, TlsIdentity};

use crate::raw_gateway::{ADMIN, RawClient, RawGateway, connect_params};

/// A self-signed certificate and its bytes.
pub(crate) fn self_signed() -> (TlsIdentity, CertificateDer<'static>) {
    let made = TestCertificate::new();
    let tls = TlsIdentity::from_pem(made.certificate_pem().as_bytes(), made.key_pem().as_bytes())
        .unwrap();
    (tls, made.0.cert.der().clone())
}

struct TestCertificate(CertifiedKey<KeyPair>);

impl TestCertificate {
    fn new() -> Self {
        Self(rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap())
    }

    fn certificate_pem(&self) -> String {
        pem("CERTIFICATE", self.0.cert.der())
    }

    fn key_pem(&self) -> String {
        pem("PRIVATE KEY", &self.0.signing_key.serialize_der())
    }
}

fn pem(kind: &str, bytes: &[u8]) -> String {
    let body = BASE64_STANDARD.encode(bytes);
    format!("-----BEGIN {kind}-----\n{body}\n-----END {kind}-----\n")
}

#[tokio::test]
async fn certificate_forces_tls() {
    let (tls, certificate) = self_signed();
    let digest: String = Sha256::digest(&certificate).iter().map(|b| format!("{b:02x}")).collect();
    assert_eq!(tls.fingerprint(), digest);
    let rig = RawGateway::with_tls(Some(tls), |_| {}).await;
    let mut roots = RootCertStore::empty();
    roots.add(certificate).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    let stream = TlsConnector::from(Arc::new(config)).connect(name, rig.tcp().await).await.unwrap();
    let mut client = RawClient::from_stream(stream).await;
    let hello = client.connect(connect_params(ADMIN)).await;
    assert_eq!(hello["payload"]["type"], "hello-ok");
    client.check_health().await;
    // A plaintext client gets no answer.
    let mut plain = rig.tcp().await;
    plain.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer).await;
    assert!(!answer.starts_with(b"HTTP"), "{}", String::from_utf8_lossy(&answer));
}

#[test]
fn invalid_certificate_is_reported() {
    #[track_caller]
    fn check(certificate: &str, key: &str, expected: &str) {
        let error = match TlsIdentity::from_pem(certificate.as_bytes(), key.as_bytes()) {
            Ok(_) => panic!("it was taken"),
            Err(error) => error,
        };
        let kind = match &error {
            TlsError::NoCertificate => "no certificate",
            TlsError::Certificate(_) => "certificate",
            TlsError::Key => "key",
            TlsError::Mismatch(_) => "pair",
        };
        assert_eq!(kind, expected, "{error}");
    }
    let (one, other) = (TestCertificate::new(), TestCertificate::new());
    let (certificate, key) = (one.certificate_pem(), one.key_pem());
    check("", &key, "no certificate");
    check("hello", &key, "no certificate");
    check("-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n", &key, "certificate");
    check(&certificate, "", "key");
    check(&certificate, &certificate, "key");
    check(&certificate, &other.key_pem(), "pair");
}
