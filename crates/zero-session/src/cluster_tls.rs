//! TLS of connections to what processes share. The certificate is always checked.

use std::sync::Arc;

use rustls::ClientConfig;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::CertificateDer;

/// Trusts the certificates of the system and these, in DER. Reads files, so it blocks.
pub(crate) fn client_config(extra_roots: &[Vec<u8>]) -> Result<ClientConfig, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let extra: Vec<_> = extra_roots.iter().map(|root| CertificateDer::from(root.clone())).collect();
    let verifier: Arc<dyn ServerCertVerifier> = Arc::new(
        rustls_platform_verifier::Verifier::new_with_extra_roots(extra, provider.clone())?,
    );
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    Ok(config)
}
