//! TLS to a gateway. The client accepts either the certificates that the system and the user's
//! settings trust, or exactly one certificate, given by its [`CertificateFingerprint`].

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, OnceLock};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, SignatureScheme};
use sha2::{Digest as _, Sha256};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use url::Host;
use zero_core::ExtraRootCertificates;

use super::ConnectOptions;
use super::error::GatewayClientError;

/// SHA-256 of a certificate in DER.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct CertificateFingerprint([u8; 32]);

/// The text is not a fingerprint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "not a certificate fingerprint; give its SHA-256 as 64 hexadecimal digits, with a `:` between \
    every two or without any"
)]
pub struct FingerprintParseError;

impl CertificateFingerprint {
    /// Computes the fingerprint of a certificate in DER.
    pub fn from_certificate(certificate: &[u8]) -> Self {
        Self(Sha256::digest(certificate).into())
    }
}

impl FromStr for CertificateFingerprint {
    type Err = FingerprintParseError;

    fn from_str(text: &str) -> Result<Self, FingerprintParseError> {
        let text = text.trim();
        let digits = match text.get(..7) {
            Some(prefix) if prefix.eq_ignore_ascii_case("sha256:") => {
                text.get(7..).unwrap_or_default()
            }
            _ => text,
        };
        let pairs: Vec<&str> = if digits.contains(':') {
            digits.split(':').collect()
        } else {
            let starts = 0..digits.len().div_ceil(2).min(33);
            starts.map(|pair| digits.get(pair * 2..pair * 2 + 2).unwrap_or_default()).collect()
        };
        let byte = |pair: &&str| {
            let is_pair = pair.len() == 2 && pair.bytes().all(|digit| digit.is_ascii_hexdigit());
            is_pair.then(|| u8::from_str_radix(pair, 16).ok()).flatten()
        };
        let bytes: Option<Vec<u8>> = pairs.iter().map(byte).collect();
        let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
        bytes.map(Self).ok_or(FingerprintParseError)
    }
}

impl fmt::Display for CertificateFingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, byte) in self.0.iter().enumerate() {
            write!(f, "{}{byte:02X}", if index == 0 { "" } else { ":" })?;
        }
        Ok(())
    }
}

impl fmt::Debug for CertificateFingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Performs the TLS handshake on a connection.
pub(super) async fn start_tls(
    stream: TcpStream,
    host: &Host<String>,
    options: &ConnectOptions,
) -> Result<TlsStream<TcpStream>, GatewayClientError> {
    let tls_error = |what: String| GatewayClientError::Tls { what };
    let pin = options.tls_fingerprint;
    let name = match host {
        Host::Domain(name) => ServerName::try_from(name.clone())
            .map_err(|_| tls_error(format!("`{name}` is not a valid host name for TLS")))?,
        Host::Ipv4(address) => ServerName::IpAddress((*address).into()),
        Host::Ipv6(address) => ServerName::IpAddress((*address).into()),
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let seen = Arc::new(OnceLock::new());
    let verifier: Arc<dyn ServerCertVerifier> = match pin {
        Some(pin) => {
            Arc::new(PinnedCertVerifier { pin, seen: seen.clone(), provider: provider.clone() })
        }
        None => platform_verifier(provider.clone(), &options.extra_roots).await?,
    };
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| tls_error(error.to_string()))?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    TlsConnector::from(Arc::new(config)).connect(name, stream).await.map_err(|error| {
        tls_error(match (pin, seen.get()) {
            (Some(pin), Some(seen)) if pin != *seen => format!(
                "the gateway's certificate is {seen}, but {pin} is expected; if the gateway has a \
                 new certificate, compare it there and change the fingerprint; otherwise someone \
                 may be intercepting the connection"
            ),
            (Some(_), _) => format!("{error}; check that the port speaks TLS"),
            (None, _) => format!(
                "{error}; give the gateway a certificate that this machine trusts, add the \
                 certificate of its CA to `network.extraCa`, or set the fingerprint of its own as \
                 `gateway.remote.tlsFingerprint`"
            ),
        })
    })
}

/// Creates a verifier that trusts the system's certificates, which it reads from files, and
/// `extra_roots`.
async fn platform_verifier(
    provider: Arc<CryptoProvider>,
    extra_roots: &ExtraRootCertificates,
) -> Result<Arc<dyn ServerCertVerifier>, GatewayClientError> {
    let extra = extra_roots.iter().map(|root| CertificateDer::from(root.to_vec()));
    let extra: Vec<CertificateDer<'static>> = extra.collect();
    let verifier = tokio::task::spawn_blocking(|| {
        rustls_platform_verifier::Verifier::new_with_extra_roots(extra, provider)
    });
    let verifier = verifier.await;
    match verifier {
        Ok(Ok(verifier)) => Ok(Arc::new(verifier)),
        Ok(Err(error)) => Err(GatewayClientError::Tls {
            what: format!(
                "{error}; install this system's certificates, or set \
                 `gateway.remote.tlsFingerprint`"
            ),
        }),
        Err(_) => Err(GatewayClientError::Tls {
            what: "cannot read the certificates of this system; set \
                `gateway.remote.tlsFingerprint`"
                .to_owned(),
        }),
    }
}

/// Accepts one certificate, regardless of its contents and issuer. The peer must still prove that
/// it has the private key, because the certificate alone is public.
#[derive(Debug)]
struct PinnedCertVerifier {
    pin: CertificateFingerprint,
    seen: Arc<OnceLock<CertificateFingerprint>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for PinnedCertVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let found = CertificateFingerprint::from_certificate(end_entity);
        let _ = self.seen.set(found);
        if found == self.pin {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(CertificateError::ApplicationVerificationFailure.into())
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEX: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1eff";
    const SHOWN: &str = "00:01:02:03:04:05:06:07:08:09:0A:0B:0C:0D:0E:0F:\
                         10:11:12:13:14:15:16:17:18:19:1A:1B:1C:1D:1E:FF";

    #[test]
    fn fingerprint_parses_both_spellings() {
        for text in [
            HEX,
            SHOWN,
            &HEX.to_uppercase(),
            &format!(" sha256:{HEX}\n"),
            &format!("SHA256:{SHOWN}"),
        ] {
            assert_eq!(
                text.parse::<CertificateFingerprint>().unwrap().to_string(),
                SHOWN,
                "{text}"
            );
        }
    }

    #[test]
    fn invalid_fingerprint_is_refused() {
        let (short, long) = (&HEX[..62], format!("{HEX}00"));
        let mixed = format!("{}:{}", &HEX[..32], &HEX[32..]);
        let (plus, odd, wide) = (format!("+{}", &HEX[1..]), &HEX[..63], "é".repeat(32));
        let huge = "0".repeat(1 << 20);
        for text in
            ["", "sha256:", short, &long, &mixed, &plus, odd, &wide, &huge, &SHOWN[1..], "00:01"]
        {
            assert_eq!(
                text.parse::<CertificateFingerprint>(),
                Err(FingerprintParseError),
                "{text}"
            );
        }
    }
}
