//! TLS configuration from a certificate and its key.

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
use zero_core::hexadecimal::to_hex;

/// A certificate chain with its private key.
#[derive(Clone)]
pub struct TlsIdentity {
    acceptor: TlsAcceptor,
    fingerprint: String,
}

/// Reason why a certificate cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The file contains no certificate.
    #[error("there is no certificate in it; a PEM file with `BEGIN CERTIFICATE` is needed")]
    NoCertificate,
    /// The certificate cannot be parsed.
    #[error("the certificate is not valid PEM: {0}")]
    Certificate(String),
    /// The key cannot be parsed. Contains nothing of the key.
    #[error(
        "there is no private key in it that can be read; a PEM file with `BEGIN PRIVATE KEY` is needed"
    )]
    Key,
    /// Certificate and key do not match, or their type is not supported.
    #[error("the certificate and the key cannot be used together: {0}")]
    Mismatch(String),
}

impl TlsIdentity {
    /// Loads a certificate chain and its key, both in PEM format.
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

    /// SHA-256 of the certificate in hexadecimal, for clients that pin it.
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// Performs the TLS handshake within the given time.
    pub(crate) async fn accept(
        &self,
        stream: TcpStream,
        most: Duration,
    ) -> Option<TlsStream<TcpStream>> {
        match tokio::time::timeout(most, self.acceptor.accept(stream)).await {
            Ok(Ok(stream)) => Some(stream),
            Ok(Err(error)) => {
                tracing::debug!(%error, "the TLS handshake with a client failed");
                None
            }
            Err(_) => {
                tracing::debug!("the TLS handshake with a client timed out");
                None
            }
        }
    }
}
