//! Paired devices, one-time codes, and devices that ask to be paired.
//!
//! A device is known by its public key. Its token is stored as a digest and works only on a
//! connection on which the device signed the challenge, so a stolen token is useless without the
//! key. A code pairs one device, expires soon and is void after a few wrong ones, wherever they came
//! from.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::{SecureRandom, SystemRandom};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;
use zero_core::hexadecimal::to_hex;
use zero_core::text_shortening::one_line;
use zero_runtime::clock::now_ms;
use zero_runtime::tool_backend::FolderAccess;
use zero_wire::method::TokenScope;

use crate::address_group::AddressGroup;
use crate::auth::{AuthError, Principal};

/// Maximum number of paired devices.
const DEVICES_MAX: usize = 64;
/// Maximum number of codes that are valid at a time. A further one takes the place of the oldest.
const CODES_MAX: usize = 8;
/// How long a code is valid, in milliseconds.
const CODE_VALID_MS: i64 = 2 * 60 * 1_000;
/// Wrong codes after which all valid ones are void.
const WRONG_CODES_MAX: u32 = 20;
/// Characters of a code, each one of 32.
const CODE_CHARS: usize = 8;
/// Digits and letters without those that look alike.
const CODE_ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
/// Maximum number of devices that ask at a time, in all and from the addresses of one client.
const REQUESTS_MAX: usize = 16;
const REQUESTS_PER_ADDRESS_MAX: usize = 3;
/// How long a device may ask, in milliseconds.
const REQUEST_VALID_MS: i64 = 5 * 60 * 1_000;
/// Longest name of a device, in characters.
const NAME_CHARS_MAX: usize = 64;
/// Characters of its id in the name of a device that acts.
const ACTOR_ID_CHARS: usize = 12;
/// How often the time of the last connection of a device is stored, in milliseconds.
const SEEN_INTERVAL_MS: i64 = 60 * 1_000;

/// A paired device, as it is stored.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PairedDevice {
    /// SHA-256 of its public key, in hexadecimal.
    pub id: String,
    /// Name that it gave itself.
    pub name: String,
    /// Names of the scopes of its token.
    pub scopes: Vec<String>,
    /// Owner whose sessions it uses.
    pub owner: String,
    /// SHA-256 of its token, in hexadecimal; `None` until it has fetched the token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_digest: Option<String>,
    /// When it was paired, in milliseconds since 1970.
    pub paired_at_ms: i64,
    /// When it connected last, in milliseconds since 1970.
    #[serde(default)]
    pub seen_at_ms: i64,
}

impl PairedDevice {
    /// How the audit log, ledgers and logs name it. A device chooses its own name, so that this one says
    /// that it is a device, and which: it cannot pass for a token or the user.
    fn actor_name(&self) -> String {
        let id: String = self.id.chars().take(ACTOR_ID_CHARS).collect();
        format!("device \"{}\" {id}", self.name.replace('"', "'"))
    }
}

/// Where paired devices are stored.
pub trait DeviceStore: Send + Sync {
    /// Reads them; the error says what is wrong.
    fn load(&self) -> Result<Vec<PairedDevice>, String>;
    /// Replaces them; the error says what is wrong.
    fn save(&self, devices: &[PairedDevice]) -> Result<(), String>;
}

/// Forgets devices at the end of the process.
pub(crate) struct NoDeviceStore;

impl DeviceStore for NoDeviceStore {
    fn load(&self) -> Result<Vec<PairedDevice>, String> {
        Ok(Vec::new())
    }

    fn save(&self, _: &[PairedDevice]) -> Result<(), String> {
        Ok(())
    }
}

/// A device that authenticated.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct DeviceLogin {
    /// Who it is.
    pub(crate) principal: Principal,
    /// Id of the device.
    pub(crate) device: String,
    /// Its new token, if it was paired just now.
    pub(crate) token: Option<IssuedToken>,
}

/// A new token. It is shown once.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct IssuedToken {
    pub(crate) token: String,
    pub(crate) issued_at_ms: i64,
}

impl std::fmt::Debug for IssuedToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("IssuedToken(…)")
    }
}

/// A device that asks to be paired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PairingRequest {
    pub(crate) id: String,
    pub(crate) device: String,
    pub(crate) name: String,
    pub(crate) address: IpAddr,
    pub(crate) asked_at_ms: i64,
}

impl PairingRequest {
    /// When it expires, in milliseconds since 1970.
    pub(crate) fn expires_at_ms(&self) -> i64 {
        self.asked_at_ms.saturating_add(REQUEST_VALID_MS)
    }

    /// Text that the device shows, too.
    pub(crate) fn words(&self) -> String {
        comparison_words(&self.device)
    }
}

/// Text by which a user compares what a device shows with what it asks for.
pub(crate) fn comparison_words(device: &str) -> String {
    let start = |from: usize, to: usize| device.get(from..to).unwrap_or_default().to_uppercase();
    format!("{} {}", start(0, 4), start(4, 8))
}

struct PairingCode {
    digest: [u8; 32],
    scopes: Vec<TokenScope>,
    owner: String,
    expires_at_ms: i64,
}

#[derive(Default)]
struct DeviceTable {
    devices: Vec<PairedDevice>,
    codes: Vec<PairingCode>,
    wrong_codes: u32,
    requests: Vec<PairingRequest>,
}

/// The devices of a gateway.
pub(crate) struct DeviceRegistry {
    store: Arc<dyn DeviceStore>,
    folders: FolderAccess,
    table: Mutex<DeviceTable>,
    /// Held while the devices are stored, so that an older list does not replace a newer one.
    storing: Mutex<()>,
}

/// The clock and what a device says of itself at `connect`.
pub(crate) struct DeviceClaim<'a> {
    /// Id of the device, which signed the challenge.
    pub(crate) id: &'a str,
    /// Name that it gives itself.
    pub(crate) name: &'a str,
    /// Now, in milliseconds since 1970.
    pub(crate) now_ms: i64,
}

impl DeviceRegistry {
    /// Reads the stored devices. If they cannot be read, no device is let in.
    /// Folders that paired devices without the admin scope may use.
    pub(crate) fn folder_access(&self) -> FolderAccess {
        self.folders.clone()
    }

    pub(crate) fn new(store: Arc<dyn DeviceStore>, folders: FolderAccess) -> Self {
        let devices = store.load().unwrap_or_else(|error| {
            tracing::error!(%error, "the paired devices cannot be read; none can connect");
            Vec::new()
        });
        let table = Mutex::new(DeviceTable { devices, ..DeviceTable::default() });
        Self { store, folders, table, storing: Mutex::default() }
    }

    /// Authenticates a paired device by its token.
    pub(crate) fn authenticate(
        &self,
        claim: &DeviceClaim<'_>,
        token: &str,
    ) -> Result<DeviceLogin, AuthError> {
        let shown = hex_digest(token);
        let mut table = self.lock();
        let device = table.devices.iter_mut().find(|device| device.id == claim.id);
        let is_right = |device: &PairedDevice| {
            let known = device.token_digest.as_deref().unwrap_or_default();
            bool::from(known.as_bytes().ct_eq(shown.as_bytes()))
        };
        let device = device.filter(|device| is_right(device));
        let device = device.ok_or(AuthError::DeviceTokenMismatch)?;
        Ok(self.to_login(device, None))
    }

    /// Pairs a device by a code, which is void afterwards. Call [`Self::store`] next.
    pub(crate) fn redeem(
        &self,
        claim: &DeviceClaim<'_>,
        code: &str,
    ) -> Result<DeviceLogin, AuthError> {
        let shown: [u8; 32] = Sha256::digest(normalize_code(code).as_bytes()).into();
        let mut table = self.lock();
        table.codes.retain(|code| code.expires_at_ms > claim.now_ms);
        let mut found = None;
        for (at, code) in table.codes.iter().enumerate() {
            if bool::from(code.digest.ct_eq(&shown)) {
                found = Some(at);
            }
        }
        let Some(found) = found else {
            table.wrong_codes = table.wrong_codes.saturating_add(1);
            if table.wrong_codes >= WRONG_CODES_MAX {
                table.codes.clear();
            }
            return Err(AuthError::BootstrapTokenInvalid);
        };
        let code = table.codes.remove(found);
        let scopes = code.scopes;
        let token = new_token(claim.now_ms).ok_or(AuthError::BootstrapTokenInvalid)?;
        let device = PairedDevice {
            id: claim.id.to_owned(),
            name: device_name(claim.name),
            scopes: scope_names(&scopes),
            owner: code.owner,
            token_digest: Some(hex_digest(&token.token)),
            paired_at_ms: claim.now_ms,
            seen_at_ms: claim.now_ms,
        };
        let login = self.to_login(&device, Some(token));
        insert(&mut table, device).map_err(|_| AuthError::BootstrapTokenInvalid)?;
        Ok(login)
    }

    /// Gives an approved device its token, once. Call [`Self::store`] next.
    pub(crate) fn collect(&self, claim: &DeviceClaim<'_>) -> Option<DeviceLogin> {
        let mut table = self.lock();
        let device = table.devices.iter_mut().find(|device| device.id == claim.id)?;
        if device.token_digest.is_some() {
            return None;
        }
        let token = new_token(claim.now_ms)?;
        device.token_digest = Some(hex_digest(&token.token));
        Some(self.to_login(device, Some(token)))
    }

    /// Records that a device asks to be paired; the same device asks once.
    pub(crate) fn request(
        &self,
        claim: &DeviceClaim<'_>,
        address: IpAddr,
    ) -> Option<PairingRequest> {
        let mut table = self.lock();
        table.requests.retain(|request| request.expires_at_ms() > claim.now_ms);
        if let Some(known) = table.requests.iter().find(|request| request.device == claim.id) {
            return Some(known.clone());
        }
        let group = AddressGroup::from(address);
        let is_from_there = |known: &&PairingRequest| AddressGroup::from(known.address) == group;
        let from_there = table.requests.iter().filter(is_from_there);
        if table.requests.len() >= REQUESTS_MAX || from_there.count() >= REQUESTS_PER_ADDRESS_MAX {
            return None;
        }
        let request = PairingRequest {
            id: random_text::<16>()?,
            device: claim.id.to_owned(),
            name: device_name(claim.name),
            address,
            asked_at_ms: claim.now_ms,
        };
        table.requests.push(request.clone());
        Some(request)
    }

    /// Creates a code.
    pub(crate) fn invite(&self, scopes: Vec<TokenScope>, owner: &str) -> Option<(String, i64)> {
        let code = new_code()?;
        let now = now_ms();
        let mut table = self.lock();
        table.codes.retain(|code| code.expires_at_ms > now);
        if table.codes.len() >= CODES_MAX {
            table.codes.remove(0);
        }
        table.wrong_codes = 0;
        let expires_at_ms = now.saturating_add(CODE_VALID_MS);
        let digest = Sha256::digest(normalize_code(&code).as_bytes()).into();
        table.codes.push(PairingCode { digest, scopes, owner: owner.to_owned(), expires_at_ms });
        Some((code, expires_at_ms))
    }

    /// Pairs a device that asks. Call [`Self::store`] next.
    pub(crate) fn approve(
        &self,
        request: &str,
        scopes: &[TokenScope],
        owner: &str,
    ) -> Result<PairedDevice, ApproveError> {
        let now = now_ms();
        let mut table = self.lock();
        table.requests.retain(|request| request.expires_at_ms() > now);
        let found = table.requests.iter().position(|known| known.id == request);
        let request = table.requests.remove(found.ok_or(ApproveError::NotFound)?);
        let device = PairedDevice {
            id: request.device,
            name: request.name,
            scopes: scope_names(scopes),
            owner: owner.to_owned(),
            token_digest: None,
            paired_at_ms: now,
            seen_at_ms: 0,
        };
        insert(&mut table, device.clone())?;
        Ok(device)
    }

    /// Forgets a request; returns whether there was one.
    pub(crate) fn reject(&self, request: &str) -> bool {
        let mut table = self.lock();
        let before = table.requests.len();
        table.requests.retain(|known| known.id != request);
        table.requests.len() < before
    }

    /// Revokes the token of a device; returns whether there was one. Codes that are valid become
    /// void, since the device may have created one to come back with another key. Call
    /// [`Self::store`] next.
    pub(crate) fn revoke(&self, id: &str) -> bool {
        let mut table = self.lock();
        let before = table.devices.len();
        table.devices.retain(|device| device.id != id);
        let is_revoked = table.devices.len() < before;
        if is_revoked {
            table.codes.clear();
        }
        is_revoked
    }

    /// Changes the scopes of a device; `None` if it is not paired. Call [`Self::store`] next.
    pub(crate) fn set_scopes(&self, id: &str, scopes: &[TokenScope]) -> Option<PairedDevice> {
        let mut table = self.lock();
        let device = table.devices.iter_mut().find(|device| device.id == id)?;
        device.scopes = scope_names(scopes);
        Some(device.clone())
    }

    /// Whether a device is paired.
    pub(crate) fn is_paired(&self, id: &str) -> bool {
        self.lock().devices.iter().any(|device| device.id == id)
    }

    /// The paired devices and those that ask, oldest first.
    pub(crate) fn list(&self) -> (Vec<PairedDevice>, Vec<PairingRequest>) {
        let now = now_ms();
        let mut table = self.lock();
        table.requests.retain(|request| request.expires_at_ms() > now);
        (table.devices.clone(), table.requests.clone())
    }

    /// Stores the devices. Blocks.
    pub(crate) fn store(&self) -> Result<(), String> {
        let _alone = self.storing.lock().unwrap_or_else(PoisonError::into_inner);
        let devices = self.lock().devices.clone();
        self.store.save(&devices)
    }

    /// Records that a device connected; returns whether that is to be stored.
    pub(crate) fn mark_seen(&self, id: &str) -> bool {
        let now = now_ms();
        let mut table = self.lock();
        let Some(device) = table.devices.iter_mut().find(|device| device.id == id) else {
            return false;
        };
        let is_due = now.saturating_sub(device.seen_at_ms) >= SEEN_INTERVAL_MS;
        device.seen_at_ms = now;
        is_due
    }

    fn to_login(&self, device: &PairedDevice, token: Option<IssuedToken>) -> DeviceLogin {
        let scopes: Vec<TokenScope> =
            device.scopes.iter().filter_map(|name| TokenScope::from_name(name)).collect();
        let folder_access = match scopes.contains(&TokenScope::Admin) {
            true => FolderAccess::Anywhere,
            false => self.folders.clone(),
        };
        let (name, owner) = (device.actor_name(), Some(device.owner.clone()));
        let principal = Principal { name, scopes, folder_access, owner };
        DeviceLogin { principal, device: device.id.clone(), token }
    }

    fn lock(&self) -> MutexGuard<'_, DeviceTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why a device could not be paired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ApproveError {
    /// The request expired, or was answered.
    #[error(
        "there is no pairing request with this id: it expired or was answered; start pairing again in the browser"
    )]
    NotFound,
    /// Too many devices are paired.
    #[error("{DEVICES_MAX} devices are paired; revoke one first")]
    TooMany,
}

/// Adds a device, in the place of an earlier pairing of it.
fn insert(table: &mut DeviceTable, device: PairedDevice) -> Result<(), ApproveError> {
    table.devices.retain(|known| known.id != device.id);
    table.requests.retain(|known| known.device != device.id);
    if table.devices.len() >= DEVICES_MAX {
        return Err(ApproveError::TooMany);
    }
    table.devices.push(device);
    Ok(())
}

fn scope_names(scopes: &[TokenScope]) -> Vec<String> {
    scopes.iter().map(|scope| scope.as_str().to_owned()).collect()
}

/// A name without characters that could deceive who reads it.
fn device_name(given: &str) -> String {
    let name = one_line(given, NAME_CHARS_MAX);
    if name.is_empty() { "unnamed device".to_owned() } else { name }
}

/// A code as it is compared: without separators, and with what looks alike made the same.
fn normalize_code(code: &str) -> String {
    let letters = code.chars().filter(char::is_ascii_alphanumeric).take(2 * CODE_CHARS);
    letters
        .map(|letter| match letter.to_ascii_uppercase() {
            'O' => '0',
            'I' | 'L' => '1',
            letter => letter,
        })
        .collect()
}

fn new_code() -> Option<String> {
    let mut bytes = [0; CODE_CHARS];
    SystemRandom::new().fill(&mut bytes).ok()?;
    let letter = |byte: &u8| CODE_ALPHABET.get(usize::from(byte % 32)).copied().map(char::from);
    let letters: String = bytes.iter().filter_map(letter).collect();
    let (first, second) = letters.split_at_checked(CODE_CHARS / 2)?;
    Some(format!("{first}-{second}"))
}

fn new_token(issued_at_ms: i64) -> Option<IssuedToken> {
    Some(IssuedToken { token: random_text::<32>()?, issued_at_ms })
}

fn random_text<const N: usize>() -> Option<String> {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).ok()?;
    Some(URL_SAFE_NO_PAD.encode(bytes))
}

fn hex_digest(secret: &str) -> String {
    to_hex(&Sha256::digest(secret.as_bytes()))
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const DEVICE: &str = "ab12cd34ef";
    const ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    fn registry() -> DeviceRegistry {
        DeviceRegistry::new(Arc::new(NoDeviceStore), FolderAccess::Anywhere)
    }

    fn claim(id: &str) -> DeviceClaim<'_> {
        DeviceClaim { id, name: "Phone", now_ms: now_ms() }
    }

    fn pair(registry: &DeviceRegistry, id: &str) -> String {
        let (code, _) = registry.invite(vec![TokenScope::Read], "ann").unwrap();
        registry.redeem(&claim(id), &code).unwrap().token.unwrap().token
    }

    #[test]
    fn code_pairs_one_device_once() {
        let registry = registry();
        let (code, _) = registry.invite(vec![TokenScope::Approvals], "ann").unwrap();
        assert_eq!(code.len(), CODE_CHARS + 1);
        let written = code.to_lowercase().replace('-', " ").replace('0', "o").replace('1', "l");
        let login = registry.redeem(&claim(DEVICE), &written).unwrap();
        assert_eq!(login.principal.owner.as_deref(), Some("ann"));
        assert_eq!(login.principal.scopes, [TokenScope::Approvals]);
        let again = registry.redeem(&claim("other"), &code);
        assert_eq!(again, Err(AuthError::BootstrapTokenInvalid));
        assert!(!registry.is_paired("other"));
    }

    #[test]
    fn token_works_only_for_its_device_until_it_is_revoked() {
        let registry = registry();
        let (token, other) = (pair(&registry, DEVICE), pair(&registry, "other"));
        assert!(registry.authenticate(&claim(DEVICE), &token).is_ok());
        for (id, token) in [("other", &token), (DEVICE, &other), ("unknown", &token)] {
            let refused = registry.authenticate(&claim(id), token);
            assert_eq!(refused, Err(AuthError::DeviceTokenMismatch), "{id}");
        }
        assert!(registry.revoke(DEVICE) && !registry.revoke(DEVICE));
        assert!(registry.authenticate(&claim(DEVICE), &token).is_err());
        assert!(registry.authenticate(&claim("other"), &other).is_ok());
    }

    #[test]
    fn code_of_a_revoked_device_is_void() {
        let registry = registry();
        pair(&registry, DEVICE);
        let (code, _) = registry.invite(vec![TokenScope::Admin], "ann").unwrap();
        assert!(!registry.revoke("unknown"));
        assert!(registry.revoke(DEVICE));
        let again = registry.redeem(&claim("other"), &code);
        assert_eq!(again, Err(AuthError::BootstrapTokenInvalid));
        pair(&registry, "other");
    }

    #[test]
    fn requests_of_one_client_are_counted_together() {
        let registry = registry();
        for number in 0..REQUESTS_PER_ADDRESS_MAX {
            let address = format!("2001:db8::{number}").parse().unwrap();
            assert!(registry.request(&claim(&number.to_string()), address).is_some());
        }
        let other = "2001:db8::ffff".parse().unwrap();
        assert_eq!(registry.request(&claim("more"), other), None);
        let elsewhere = "2001:db8:0:1::1".parse().unwrap();
        assert!(registry.request(&claim("more"), elsewhere).is_some());
    }

    #[test]
    fn code_expires_and_is_void_after_wrong_ones() {
        let registry = registry();
        let (code, expires_at_ms) = registry.invite(vec![TokenScope::Read], "ann").unwrap();
        let late = DeviceClaim { now_ms: expires_at_ms, ..claim(DEVICE) };
        assert!(registry.redeem(&late, &code).is_err());
        let (code, _) = registry.invite(vec![TokenScope::Read], "ann").unwrap();
        for _ in 0..WRONG_CODES_MAX {
            assert!(registry.redeem(&claim(DEVICE), "AAAA-AAAA").is_err());
        }
        assert!(registry.redeem(&claim(DEVICE), &code).is_err());
        pair(&registry, DEVICE);
    }

    #[test]
    fn approved_device_gets_its_token_once() {
        let registry = registry();
        let asked = registry.request(&claim(DEVICE), ADDRESS).unwrap();
        assert_eq!(registry.request(&claim(DEVICE), ADDRESS), Some(asked.clone()));
        assert_eq!(asked.words(), "AB12 CD34");
        assert_eq!(registry.collect(&claim(DEVICE)), None);
        registry.approve(&asked.id, &[TokenScope::Read], "ann").unwrap();
        assert_eq!(
            registry.approve(&asked.id, &[TokenScope::Read], "ann").err(),
            Some(ApproveError::NotFound)
        );
        assert_eq!(registry.collect(&claim("other")), None);
        let token = registry.collect(&claim(DEVICE)).unwrap().token.unwrap().token;
        assert_eq!(registry.collect(&claim(DEVICE)), None);
        assert!(registry.authenticate(&claim(DEVICE), &token).is_ok());
    }

    #[test]
    fn requests_and_devices_are_bounded() {
        let registry = registry();
        for number in 0..REQUESTS_PER_ADDRESS_MAX {
            assert!(registry.request(&claim(&number.to_string()), ADDRESS).is_some());
        }
        assert_eq!(registry.request(&claim("more"), ADDRESS), None);
        for number in 0..DEVICES_MAX {
            pair(&registry, &format!("device {number}"));
        }
        let (code, _) = registry.invite(vec![TokenScope::Read], "ann").unwrap();
        assert!(registry.redeem(&claim("one more"), &code).is_err());
    }

    #[test]
    fn stored_devices_are_known_again() {
        struct OneDevice;
        impl DeviceStore for OneDevice {
            fn load(&self) -> Result<Vec<PairedDevice>, String> {
                Ok(vec![PairedDevice {
                    id: DEVICE.to_owned(),
                    name: "Phone".to_owned(),
                    scopes: vec!["operator.read".to_owned(), "operator.unknown".to_owned()],
                    owner: "ann".to_owned(),
                    token_digest: Some(hex_digest("secret")),
                    paired_at_ms: 1,
                    seen_at_ms: 1,
                }])
            }

            fn save(&self, _: &[PairedDevice]) -> Result<(), String> {
                Err("full".to_owned())
            }
        }
        let registry = DeviceRegistry::new(Arc::new(OneDevice), FolderAccess::Anywhere);
        let login = registry.authenticate(&claim(DEVICE), "secret").unwrap();
        assert_eq!(login.principal.scopes, [TokenScope::Read]);
        assert!(registry.mark_seen(DEVICE) && !registry.mark_seen(DEVICE));
        assert_eq!(registry.store(), Err("full".to_owned()));
    }

    #[test]
    fn code_pairs_one_of_many_devices_that_race_for_it() {
        for _ in 0..50 {
            let registry = registry();
            let (code, _) = registry.invite(vec![TokenScope::Read], "ann").unwrap();
            let names: Vec<String> = (0..8).map(|number| format!("device {number}")).collect();
            let start = std::sync::Barrier::new(names.len());
            let redeem = |name: &str| {
                start.wait();
                registry.redeem(&claim(name), &code).is_ok()
            };
            let paired = std::thread::scope(|scope| {
                let threads: Vec<_> =
                    names.iter().map(|name| scope.spawn(|| redeem(name))).collect();
                threads
                    .into_iter()
                    .filter_map(|thread| thread.join().unwrap().then_some(()))
                    .count()
            });
            assert_eq!((paired, registry.list().0.len()), (1, 1));
        }
    }

    #[test]
    fn device_that_acts_is_named_as_a_device() {
        let registry = registry();
        let (code, _) = registry.invite(vec![TokenScope::Read], "ann").unwrap();
        let claim = DeviceClaim { name: "user\" (token ci)", ..claim("0123456789abcdef") };
        let login = registry.redeem(&claim, &code).unwrap();
        assert_eq!(login.principal.name, "device \"user' (token ci)\" 0123456789ab");
    }

    #[test]
    fn scopes_of_a_device_can_be_changed() {
        let registry = registry();
        let token = pair(&registry, DEVICE);
        assert!(registry.set_scopes("other", &[TokenScope::Admin]).is_none());
        registry.set_scopes(DEVICE, &[TokenScope::Approvals]).unwrap();
        let login = registry.authenticate(&claim(DEVICE), &token).unwrap();
        assert_eq!(login.principal.scopes, [TokenScope::Approvals]);
    }

    #[test]
    fn name_of_a_device_is_harmless() {
        assert_eq!(device_name("a\u{202e}b\nc"), "a b c");
        assert_eq!(device_name(" \u{0} "), "unnamed device");
        assert!(device_name(&"x".repeat(500)).chars().count() <= NAME_CHARS_MAX + 1);
    }
}
