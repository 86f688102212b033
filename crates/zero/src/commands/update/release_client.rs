//! Fetches a release: its signed sums, and the archive that fits them. All within bounds, and from public hosts or the
//! one that the user named.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use http::header::LOCATION;
use http::{HeaderMap, Method};
use minisign_verify::{PublicKey, Signature};
use sha2::{Digest as _, Sha256};
use url::Url;
use zero_core::hexadecimal::to_hex;
use zero_exec::egress::ResolverConfig;
use zero_runtime::Policy;
use zero_runtime::web::{
    self, BodyLimits, NetworkGuard, OutgoingRequest, RedirectPolicy, WebClient, is_public_url,
};
use zero_settings::WorkspaceSettings;

use crate::AppContext;
use crate::exit::UsageError;
use crate::settings_adapter::network::extra_roots;

const SUMS: &str = "SHA256SUMS";
const SIGNATURE: &str = "SHA256SUMS.minisig";

/// Largest list of sums, and largest archive.
const SUMS_BYTES_MAX: usize = 64 * 1024;
const ARCHIVE_BYTES_MAX: usize = 100 * 1024 * 1024;
/// Most hosts that a download may be sent on to.
const HOSTS_MAX: usize = 5;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
const DOWNLOAD_TIMEOUT: Duration = Duration::from_secs(15 * 60);
/// Variables that name a proxy, which zero's own connections do not use.
const PROXY_VARIABLES: [&str; 4] = ["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"];

/// The version of a release: three numbers, and what marks it as a preview.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ReleaseVersion {
    numbers: [u32; 3],
    preview: Option<String>,
}

impl ReleaseVersion {
    /// Reads a version such as `1.2.3` or `1.2.3-rc.1`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (numbers, preview) = match text.split_once('-') {
            Some((numbers, preview)) => (numbers, Some(preview)),
            None => (text, None),
        };
        let is_plain = |text: &str| {
            !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'.')
        };
        if preview.is_some_and(|preview| !is_plain(preview)) {
            return None;
        }
        let mut parts = numbers.split('.');
        let mut number = || {
            let part = parts.next()?;
            part.bytes().all(|byte| byte.is_ascii_digit()).then(|| part.parse().ok())?
        };
        let numbers = [number()?, number()?, number()?];
        parts.next().is_none().then(|| Self { numbers, preview: preview.map(str::to_owned) })
    }
}

impl fmt::Display for ReleaseVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [major, minor, patch] = self.numbers;
        write!(f, "{major}.{minor}.{patch}")?;
        self.preview.iter().try_for_each(|preview| write!(f, "-{preview}"))
    }
}

impl Ord for ReleaseVersion {
    fn cmp(&self, other: &Self) -> Ordering {
        // A preview comes before its release. Two of them are compared by their texts, numbers as numbers.
        let by_preview = || match (&self.preview, &other.preview) {
            (None, None) => Ordering::Equal,
            (None, Some(_)) => Ordering::Greater,
            (Some(_), None) => Ordering::Less,
            (Some(a), Some(b)) => preview_parts(a).cmp(&preview_parts(b)),
        };
        self.numbers.cmp(&other.numbers).then_with(by_preview)
    }
}

impl PartialOrd for ReleaseVersion {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The parts of `rc.10`, with numbers before words.
fn preview_parts(preview: &str) -> Vec<(bool, u64, &str)> {
    let part = |part| match str::parse(part) {
        Ok(number) => (false, number, ""),
        Err(_) => (true, 0, part),
    };
    preview.split('.').map(part).collect()
}

/// The newest release for a platform.
#[derive(Clone, Debug)]
pub(super) struct VerifiedRelease {
    pub(super) version: ReleaseVersion,
    archive: String,
    sha256: String,
}

/// Fetches from one address, and believes one key.
pub(super) struct ReleaseClient {
    guard: NetworkGuard,
    address: Url,
    key: PublicKey,
    /// The variables with a proxy that are set.
    proxies: Vec<&'static str>,
}

impl ReleaseClient {
    pub(super) fn new(
        app: &AppContext,
        settings: &WorkspaceSettings,
        policy: Arc<dyn Policy>,
        address: &str,
        key: &str,
    ) -> anyhow::Result<Self> {
        let wrong = |why: &str| UsageError(format!("`{address}` is not a release address: {why}"));
        let mut parsed = Url::parse(address).map_err(|error| wrong(&error.to_string()))?;
        if parsed.query().is_some() || parsed.fragment().is_some() {
            return Err(wrong("it must have no query").into());
        }
        // File names replace what comes after the last slash.
        if !parsed.path().ends_with('/') {
            parsed.set_path(&format!("{}/", parsed.path()));
        }
        let key = PublicKey::from_base64(key).map_err(|_| {
            UsageError(format!("`{key}` is not a minisign public key, which begins with `RW`"))
        })?;
        let guard = NetworkGuard::new(policy, ResolverConfig::default())
            .with_extra_roots(extra_roots(settings, &app.config)?);
        let is_set = |name: &&str| app.config.variable(name).is_some_and(|value| !value.is_empty());
        let proxies = PROXY_VARIABLES.into_iter().filter(is_set).collect();
        Ok(Self { guard, address: parsed, key, proxies })
    }

    /// The release that the address has, once its sums are verified.
    pub(super) async fn newest(&self, platform: &str) -> anyhow::Result<VerifiedRelease> {
        let sums = self.fetch(SUMS, SUMS_BYTES_MAX).await?;
        let signature = self.fetch(SIGNATURE, SUMS_BYTES_MAX).await?;
        self.verify(&sums, &signature, platform)
            .with_context(|| format!("the release at {} is not used", self.address))
    }

    fn verify(
        &self,
        sums: &[u8],
        signature: &[u8],
        platform: &str,
    ) -> anyhow::Result<VerifiedRelease> {
        let text = String::from_utf8_lossy(signature);
        let signature = Signature::decode(&text)
            .map_err(|_| anyhow::anyhow!("{SIGNATURE} is not a minisign signature"))?;
        if let Err(error) = self.key.verify(sums, &signature, false) {
            bail!(
                "the signature of its sums is wrong ({error}); its files were changed, or signed with a different key than the one that zero knows"
            );
        }
        // The signed comment ties the sums to a version, so that no other release can pose as the newest.
        let named = signature.trusted_comment().strip_prefix("zero ");
        let version = named
            .and_then(ReleaseVersion::parse)
            .context("its signature names no version of zero")?;
        let archive = format!("zero-{version}-{platform}.tar.gz");
        let sums = String::from_utf8_lossy(sums);
        let sum = sums.lines().find_map(|line| line.strip_suffix(&archive)?.strip_suffix("  "));
        let sum = sum.with_context(|| format!("it has no archive for {platform}"))?;
        ensure!(sum.len() == 64, "the sum of {archive} is not a SHA-256 sum");
        Ok(VerifiedRelease { version, archive, sha256: sum.to_owned() })
    }

    /// The archive, if it is the one that the sums mean.
    pub(super) async fn fetch_archive(&self, release: &VerifiedRelease) -> anyhow::Result<Vec<u8>> {
        let archive = self.fetch(&release.archive, ARCHIVE_BYTES_MAX).await?;
        let sum = to_hex(&Sha256::digest(&archive));
        ensure!(
            sum == release.sha256,
            "{} is damaged or was changed: its SHA-256 is {sum} and should be {}; nothing was replaced",
            release.archive,
            release.sha256
        );
        Ok(archive)
    }

    async fn fetch(&self, name: &str, bytes_max: usize) -> anyhow::Result<Vec<u8>> {
        let url = self.address.join(name)?;
        self.fetch_url(url.clone(), bytes_max).await.with_context(|| {
            let hint = match &self.proxies[..] {
                [] => String::new(),
                proxies => format!("; zero update connects directly, without the proxy of {}: install with install.sh behind one", proxies.join(" and ")),
            };
            format!("could not fetch {url}{hint}")
        })
    }

    async fn fetch_url(&self, mut url: Url, bytes_max: usize) -> anyhow::Result<Vec<u8>> {
        for _ in 0..HOSTS_MAX {
            let gate = self.guard.gate_for_endpoint(&url)?;
            let client = WebClient::new(gate, CONNECT_TIMEOUT)?;
            let request = OutgoingRequest {
                method: Method::GET,
                url: url.clone(),
                headers: HeaderMap::new(),
                body: Vec::new().into(),
                redirects: RedirectPolicy::SameHost,
                head_time: HEAD_TIMEOUT,
            };
            let response = client.send(request).await?;
            let status = response.status();
            if status.is_redirection() {
                // Signed files may come from any host, except from this machine and its network.
                let location = response.headers().get(LOCATION).and_then(|to| to.to_str().ok());
                let next = location.and_then(|to| response.url().join(to).ok());
                url = next.context("it was sent on to nowhere")?;
                let is_safe = url.scheme() == "https" && is_public_url(&url);
                ensure!(is_safe, "it redirects to {url}, which is not a public https address");
                continue;
            }
            ensure!(status.is_success(), "the server answered {status}");
            let limits = BodyLimits { bytes_max, idle: IDLE_TIMEOUT, whole: DOWNLOAD_TIMEOUT };
            return Ok(web::read(response, limits).await?);
        }
        bail!("it redirects to more than {HOSTS_MAX} hosts")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_by_numbers() {
        let ordered =
            ["0.9.10", "0.10.0-alpha", "0.10.0-rc.2", "0.10.0-rc.10", "0.10.0", "0.10.1", "1.0.0"];
        let parsed: Vec<_> =
            ordered.iter().map(|text| ReleaseVersion::parse(text).unwrap()).collect();
        assert!(parsed.is_sorted() && parsed.windows(2).all(|pair| pair[0] < pair[1]));
        for (text, version) in ordered.iter().zip(&parsed) {
            assert_eq!(version.to_string(), *text);
        }
    }

    #[test]
    fn invalid_version_is_refused() {
        for text in
            ["", "1", "1.2", "1.2.3.4", "+1.2.3", "1.2.x", "1.2.3-", "1.2.3-a/b", "1.2.99999999999"]
        {
            assert_eq!(ReleaseVersion::parse(text), None, "{text}");
        }
    }
}
