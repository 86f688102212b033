//! TLS: the machine's own idea of trust and whom else the person trusts, or exactly one certificate.

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

/// SHA-256 of a certificate.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct CertificateFingerprint([u8; 32]);

/// A text that is no fingerprint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a certificate's fingerprint is its SHA-256: 64 hexadecimal digits, with a `:` between \
    every two or without any"
)]
pub struct FingerprintParseError;

impl CertificateFingerprint {
    /// The fingerprint of a certificate, in DER.
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

/// Makes a connection safe.
pub(super) async fn start_tls(
    stream: TcpStream,
    host: &Host<String>,
    options: &ConnectOptions,
) -> Result<TlsStream<TcpStream>, GatewayClientError> {
    let unsafe_because = |what: String| GatewayClientError::Tls { what };
    let pin = options.tls_fingerprint;
    let name = match host {
        Host::Domain(name) => ServerName::try_from(name.clone())
            .map_err(|_| unsafe_because(format!("`{name}` cannot be the name in a certificate")))?,
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
        .map_err(|error| unsafe_because(error.to_string()))?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    TlsConnector::from(Arc::new(config)).connect(name, stream).await.map_err(|error| {
        unsafe_because(match (pin, seen.get()) {
            (Some(pin), Some(seen)) if pin != *seen => format!(
                "the gateway's certificate is {seen}, the one to accept is {pin}; if the gateway \
                 has a new certificate, compare it there and change the fingerprint, else somebody \
                 is in between"
            ),
            (Some(_), _) => format!("{error}; check that the port speaks TLS"),
            (None, _) => format!(
                "{error}; give the gateway a certificate that this machine trusts, name the \
                 certificate of who signed it (`network.extraCa`), or the fingerprint of its own \
                 (`gateway.remote.tlsFingerprint`)"
            ),
        })
    })
}

/// The machine's own idea of trust, which is read from files, and whom else the person trusts.
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
            what: format!("{error}; install this system's certificates, or give a fingerprint"),
        }),
        Err(_) => Err(GatewayClientError::Tls {
            what: "the certificates of this system could not be read".to_owned(),
        }),
    }
}

/// Accepts one certificate, whatever it says and whoever signed it. Who connects must still show
/// that it has the key: the certificate alone is public.
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
