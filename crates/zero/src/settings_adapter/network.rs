//! Reads and checks the root certificates that the settings name.

use std::path::PathBuf;

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use zero_core::ExtraRootCertificates;
use zero_sandbox::ConfigFile;
use zero_settings::WorkspaceSettings;
use zero_settings::network::EXTRA_CA_KEY;

use crate::environment::EnvironmentConfig;
use crate::exit::UsageError;

/// Largest certificate file, in bytes.
const FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// Most certificates in a file.
const CERTIFICATES_MAX: usize = 1_000;

/// Returns the certificates that are trusted in addition to those of this machine.
pub(crate) fn extra_roots(
    settings: &WorkspaceSettings,
    config: &EnvironmentConfig,
) -> Result<ExtraRootCertificates, UsageError> {
    let Some(file) = settings.extra_ca() else { return Ok(ExtraRootCertificates::default()) };
    let unusable =
        |why: String| UsageError(format!("`{EXTRA_CA_KEY}` cannot be used: `{file}` {why}"));
    let path = config.resolve_file(file).ok_or_else(|| unusable("lies nowhere".to_owned()))?;
    read_certificates(path).map_err(unusable)
}

fn read_certificates(path: PathBuf) -> Result<ExtraRootCertificates, String> {
    let bytes = ConfigFile::Own(path).read(FILE_BYTES_MAX);
    let bytes = bytes.map_err(|error| format!("cannot be read: {error}"))?;
    let bytes = bytes.ok_or("does not exist; create it, or remove the setting")?;
    let none = || "has no certificates in PEM format (`-----BEGIN CERTIFICATE-----`)".to_owned();
    let mut certificates = Vec::new();
    for (number, found) in (1..).zip(CertificateDer::pem_slice_iter(&bytes)) {
        if number > CERTIFICATES_MAX {
            return Err(format!(
                "has more than {CERTIFICATES_MAX} certificates; keep those that are needed"
            ));
        }
        let certificate = found.map_err(|_| none())?;
        // Checked here one by one, because TLS accepts all of them or none, without naming the bad one.
        RootCertStore::empty().add(certificate.clone()).map_err(|error| {
            format!("has an invalid certificate, number {number} ({error}); remove it")
        })?;
        certificates.push(certificate.to_vec());
    }
    match certificates.is_empty() {
        true => Err(none()),
        false => Ok(ExtraRootCertificates::new(certificates)),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests set up real files")]

    use base64::Engine as _;
    use rcgen::{CertificateParams, KeyPair};

    use super::*;

    fn make_certificate() -> String {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(Vec::new()).unwrap().self_signed(&key).unwrap();
        let der = base64::engine::general_purpose::STANDARD.encode(certificate.der());
        format!("-----BEGIN CERTIFICATE-----\n{der}\n-----END CERTIFICATE-----\n")
    }

    #[test]
    fn invalid_certificate_file_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("words"), "words").unwrap();
        std::fs::write(path("half"), "-----BEGIN CERTIFICATE-----\nAAAA\n").unwrap();
        let unusable = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        std::fs::write(path("second"), format!("{}{unusable}", make_certificate())).unwrap();
        std::fs::write(path("many"), make_certificate().repeat(CERTIFICATES_MAX + 1)).unwrap();
        for (file, why) in [
            (path("none"), "does not exist"),
            (path("words"), "has no certificates in PEM format"),
            (path("half"), "has no certificates in PEM format"),
            (path("second"), "has an invalid certificate, number 2 ("),
            (path("many"), "has more than 1000 certificates"),
            (folder.path().to_owned(), "cannot be read"),
        ] {
            let error = read_certificates(file.clone()).unwrap_err();
            assert!(error.starts_with(why), "{}: {error}", file.display());
        }
        std::fs::write(path("two"), make_certificate().repeat(2)).unwrap();
        assert_eq!(read_certificates(path("two")).unwrap().iter().count(), 2);
    }
}
