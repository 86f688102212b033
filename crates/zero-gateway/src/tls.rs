//! TLS, when a certificate is given.

use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use sha2::{Digest, Sha256};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// A certificate with its key, ready to use.
#[derive(Clone)]
pub struct TlsIdentity {
    acceptor: TlsAcceptor,
    fingerprint: String,
}

/// A certificate that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The file has no certificate.
    #[error("there is no certificate in it; a PEM file with `BEGIN CERTIFICATE` is needed")]
    NoCertificate,
    /// The certificate cannot be read.
    #[error("the certificate is not valid PEM: {0}")]
    Certificate(String),
    /// The key cannot be read. Never says more than the kind of error.
    #[error(
        "there is no private key in it that can be read; a PEM file with `BEGIN PRIVATE KEY` is needed"
    )]
    Key,
    /// They do not belong together, or are of a kind that is not supported.
    #[error("the certificate and the key cannot be used together: {0}")]
    Mismatch(String),
}

impl TlsIdentity {
    /// A certificate chain and its key, both as PEM.
    pub fn from_pem(certificates: &[u8], key: &[u8]) -> Result<Self, TlsError> {
        let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(certificates)
            .collect::<Result<_, _>>()
            .map_err(|error| TlsError::Certificate(error.to_string()))?;
        let Some(own) = chain.first() else { return Err(TlsError::NoCertificate) };
        let fingerprint = to_hex(&Sha256::digest(own));
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| TlsError::Key)?;
        let pair = |error: rustls::Error| TlsError::Mismatch(error.to_string());
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(pair)?
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .map_err(pair)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { acceptor: TlsAcceptor::from(Arc::new(config)), fingerprint })
    }

    /// SHA-256 of the certificate, in hexadecimal: what a client pins.
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// Shakes hands with a client, but not longer than so.
    pub(crate) async fn accept(
        &self,
        stream: TcpStream,
        most: Duration,
    ) -> Option<TlsStream<TcpStream>> {
        match tokio::time::timeout(most, self.acceptor.accept(stream)).await {
            Ok(Ok(stream)) => Some(stream),
            Ok(Err(error)) => {
                tracing::debug!(%error, "a client did not agree on TLS");
                None
            }
            Err(_) => {
                tracing::debug!("a client took too long to agree on TLS");
                None
            }
        }
    }
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
