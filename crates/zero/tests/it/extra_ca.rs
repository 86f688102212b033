//! Certificates of one's own: models, tools and gateways behind them are reached once settings name
//! who signed them, and not before.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use base64::Engine as _;
use rcgen::{CertificateParams, CertifiedIssuer, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::{Value, json};

use crate::config::{USER_FILE, write_file};
use crate::gateway_process::GatewayProcess;
use crate::model_server::ModelServer;
use crate::test_program::TestProgram;

/// An authority that nobody knows, and a certificate by it for this machine.
struct TestCertificates {
    authority: String,
    certificate: CertificateDer<'static>,
    key: KeyPair,
}

impl TestCertificates {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let signed = CertificateParams::new(names).unwrap().signed_by(&key, &authority).unwrap();
        Self {
            authority: encode_pem("CERTIFICATE", authority.der()),
            certificate: signed.der().clone(),
            key,
        }
    }

    /// Serves TLS in front of a server on this machine that ends the connection after its answer.
    fn start_tls_proxy(&self, port: u16) -> u16 {
        let provider = rustls::crypto::ring::default_provider();
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(self.key.serialize_der()));
        let config = ServerConfig::builder_with_provider(Arc::new(provider))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![self.certificate.clone()], key)
            .unwrap();
        let config = Arc::new(config);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let front = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // Who does not trust it goes away in the middle.
                let _ = forward_request(stream, Arc::clone(&config), port);
            }
        });
        front
    }
}

fn forward_request(stream: TcpStream, config: Arc<ServerConfig>, port: u16) -> std::io::Result<()> {
    let connection = ServerConnection::new(config).map_err(std::io::Error::other)?;
    let mut client = StreamOwned::new(connection, stream);
    let (mut request, mut piece) = (Vec::new(), [0; 16 * 1024]);
    while !is_complete_request(&request) {
        let count = client.read(&mut piece)?;
        if count == 0 {
            return Ok(());
        }
        request.extend_from_slice(&piece[..count]);
    }
    let mut server = TcpStream::connect(("127.0.0.1", port))?;
    server.write_all(&request)?;
    let mut answer = Vec::new();
    server.read_to_end(&mut answer)?;
    client.write_all(&answer)?;
    client.conn.send_close_notify();
    client.flush()
}

/// Whether a request is there with its body.
fn is_complete_request(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
    });
    body.len() >= length.unwrap_or(0)
}

fn encode_pem(what: &str, der: &[u8]) -> String {
    let text = base64::engine::general_purpose::STANDARD.encode(der);
    let lines: Vec<&str> = (0..text.len())
        .step_by(64)
        .filter_map(|at| text.get(at..text.len().min(at + 64)))
        .collect();
    format!("-----BEGIN {what}-----\n{}\n-----END {what}-----\n", lines.join("\n"))
}

/// Settings with more of them.
fn write_settings(zero: &TestProgram, base: &Value, more: &Value) {
    let mut settings = base.clone();
    for (name, value) in more.as_object().unwrap() {
        settings[name] = value.clone();
    }
    write_file(zero, USER_FILE, settings.to_string());
}

#[test]
fn model_behind_extra_ca_is_reached() {
    let (zero, model, tls) = (TestProgram::new(), ModelServer::start(), TestCertificates::new());
    write_file(&zero, "company.pem", &tls.authority);
    let mut base: Value = serde_json::from_str(&model.settings_json(json!({}))).unwrap();
    let front = tls.start_tls_proxy(model.port());
    base["models"]["scripted"]["baseUrl"] = json!(format!("https://127.0.0.1:{front}/v1"));
    let trusted = json!({"network": {"extraCa": zero.folder().join("company.pem")}});
    write_settings(&zero, &base, &json!({}));
    let seen = zero.run(&["run", "hello"]);
    assert!(seen.starts_with("exit 1\n") && seen.contains("certificate"), "{seen}");
    assert_eq!(model.requests().len(), 0);
    write_settings(&zero, &base, &trusted);
    let seen = zero.run(&["run", "hello"]);
    assert!(seen.starts_with("exit 0\nHello"), "{seen}");
}

#[test]
fn invalid_ca_file_is_reported() {
    let zero = TestProgram::new();
    write_settings(&zero, &json!({}), &json!({"network": {"extraCa": "/nowhere/company.pem"}}));
    let seen = zero.run(&["run", "/help"]);
    let what = "`network.extraCa` cannot be used: `/nowhere/company.pem` does not exist";
    assert!(seen.starts_with("exit 2\n") && seen.contains(what), "{seen}");
}

#[test]
fn gateway_behind_extra_ca_is_reached() {
    let (zero, tls) = (TestProgram::new(), TestCertificates::new());
    write_file(&zero, "company.pem", &tls.authority);
    write_file(&zero, "gateway.pem", encode_pem("CERTIFICATE", &tls.certificate));
    write_file(&zero, "gateway.key", encode_pem("PRIVATE KEY", &tls.key.serialize_der()));
    let at = |name: &str| zero.folder().join(name).display().to_string();
    let gateway = GatewayProcess::start_with(
        &zero,
        &["--tls-certificate", &at("gateway.pem"), "--tls-key", &at("gateway.key")],
    );
    let port = gateway.url.rsplit(':').next().unwrap();
    let url = format!("wss://localhost:{port}");
    let list = || zero.run(&["sessions", "list", "--url", &url]);
    assert!(list().contains("network.extraCa"), "{}", list());
    write_settings(&zero, &json!({}), &json!({"network": {"extraCa": at("company.pem")}}));
    assert!(list().starts_with("exit 0\n"), "{}", list());
}
