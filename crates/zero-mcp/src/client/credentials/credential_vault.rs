//! [`CredentialVault`], which stores logins in the desktop's keyring, or in a file if there is
//! none.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::timeout;
use zero_exec::detached_thread;
use zero_runtime::tool::BoxFuture;
use zero_sandbox::{ConfigFile, ConfigFileError, StateDir, config_file};

use super::{CredentialError, LoginLocation, LoginRecord, LoginStore, RenewalLock};

/// File with the list of logins.
const FILE: &str = "credentials.json";
/// Copy of a damaged list, made when a new one replaces it.
const DAMAGED_FILE: &str = "credentials.damaged.json";
/// Locked while the list changes.
const FILE_LOCK: &str = "credentials.lock";
/// Maximum size of the list, in bytes.
const FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// Time limit for the keyring. It may ask for its password while no user is there to answer.
const KEYRING_TIMEOUT: Duration = Duration::from_secs(3);
/// How often to try the renewal lock, a few seconds each time, while another process renews the
/// login.
const LOCK_TRIES: usize = 4;

/// Stores secrets by name. Its methods may block.
pub trait SecretStore: Send + Sync {
    /// Returns the secret with this name.
    fn get(&self, name: &str) -> Result<Option<String>, SecretStoreError>;
    /// Stores a secret and replaces an earlier one.
    fn set(&self, name: &str, secret: &str) -> Result<(), SecretStoreError>;
    /// Removes a secret.
    fn remove(&self, name: &str) -> Result<(), SecretStoreError>;
}

/// Why a secret store failed. It never contains a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SecretStoreError(pub String);

/// Stores logins in a keyring, or in a file if the keyring does not answer. Cheap to clone.
#[derive(Clone)]
pub struct CredentialVault {
    folder: StateDir,
    keyring: Arc<dyn SecretStore>,
    /// The keyring did not answer in time. One thread still waits for it; no other does.
    is_silent: Arc<AtomicBool>,
}

impl CredentialVault {
    /// Creates a vault with its list, and logins without a keyring, in `mcp` of zero's state
    /// directory.
    pub fn new(state: &StateDir, keyring: Arc<dyn SecretStore>) -> Self {
        let is_silent = Arc::new(AtomicBool::new(false));
        Self { folder: state.child("mcp"), keyring, is_silent }
    }

    /// Uses the keyring on a separate thread, with a time limit.
    async fn query_keyring<T: Send + 'static>(
        &self,
        question: impl FnOnce(&dyn SecretStore) -> Result<T, SecretStoreError> + Send + 'static,
    ) -> Result<T, SecretStoreError> {
        let silent = || SecretStoreError("does not answer in time".to_owned());
        if self.is_silent.load(Ordering::Relaxed) {
            return Err(silent());
        }
        let keyring = self.keyring.clone();
        let answer_future =
            detached_thread::run("zero-mcp-keyring", move || question(keyring.as_ref()));
        match timeout(KEYRING_TIMEOUT, answer_future).await {
            Ok(Some(answer)) => answer,
            Ok(None) => Err(SecretStoreError("did not answer".to_owned())),
            Err(_) => {
                self.is_silent.store(true, Ordering::Relaxed);
                Err(silent())
            }
        }
    }

    async fn load_list(&self) -> Result<LoginList, CredentialError> {
        let file = self.list_file();
        run_blocking(move || file.read()).await
    }

    /// Changes the list under its lock. A damaged list is replaced.
    async fn update_list(
        &self,
        damaged: DamagedFileAction,
        change: impl FnOnce(&mut LoginList) + Send + 'static,
    ) -> Result<(), CredentialError> {
        let file = self.list_file();
        run_blocking(move || {
            let _lock =
                config_file::lock(&file.folder, FILE_LOCK).map_err(|e| file.file_error(&e))?;
            let mut list = match file.read() {
                Err(CredentialError::Damaged { .. }) => file.handle_damaged(damaged)?,
                read => read?,
            };
            change(&mut list);
            file.write(&list)
        })
        .await
    }

    fn list_file(&self) -> LoginListFile {
        LoginListFile { folder: self.folder.clone() }
    }

    async fn load_record(&self, resource: &str) -> Result<Option<LoginRecord>, CredentialError> {
        let Some(entry) = self.load_list().await?.remove_entry(resource) else { return Ok(None) };
        let record = match (entry.kept, entry.record) {
            (LoginLocation::File, record) => record,
            (LoginLocation::Keyring, _) => {
                let name = secret_name(&entry.issuer, resource);
                let secret = self.query_keyring(move |keyring| keyring.get(&name)).await;
                let secret = secret.map_err(|why| CredentialError::Keyring { why: why.0 })?;
                // If the entry was removed from the keyring, the login counts as removed.
                let Some(secret) = secret else { return Ok(None) };
                serde_json::from_str(&secret).ok()
            }
        };
        // The entry must belong to this server and issuer.
        let fits =
            |record: &LoginRecord| record.resource == resource && record.issuer == entry.issuer;
        match record.filter(fits) {
            Some(record) => Ok(Some(record)),
            None => {
                let place = match entry.kept {
                    LoginLocation::Keyring => "in the desktop's keyring".to_owned(),
                    LoginLocation::File => self.list_file().path(),
                };
                Err(CredentialError::Damaged { place })
            }
        }
    }

    async fn save_record(&self, record: LoginRecord) -> Result<LoginLocation, CredentialError> {
        let place = || CredentialError::Damaged { place: "not stored yet".to_owned() };
        let secret = serde_json::to_string(&record).map_err(|_| place())?;
        let name = secret_name(&record.issuer, &record.resource);
        let before = match self.load_list().await {
            // A damaged list does not say whether there was a login.
            Err(CredentialError::Damaged { .. }) => None,
            list => list?.remove_entry(&record.resource),
        };
        let location = match self.query_keyring(move |keyring| keyring.set(&name, &secret)).await {
            Ok(()) => LoginLocation::Keyring,
            Err(why) => {
                tracing::debug!(%why, "no keyring, the login is stored in a file");
                LoginLocation::File
            }
        };
        let (resource, issuer) = (record.resource.clone(), record.issuer.clone());
        let is_moved = |old: &LoginListEntry| {
            old.kept == LoginLocation::Keyring
                && (location != LoginLocation::Keyring || old.issuer != issuer)
        };
        if let Some(old) = before.filter(is_moved) {
            let name = secret_name(&old.issuer, &resource);
            let _ = self.query_keyring(move |keyring| keyring.remove(&name)).await;
        }
        self.update_list(DamagedFileAction::KeepAside, move |list| {
            list.remove_entry(&resource);
            let record = (location == LoginLocation::File).then_some(record);
            list.logins.push(LoginListEntry { resource, issuer, kept: location, record });
        })
        .await?;
        Ok(location)
    }

    async fn remove_record(&self, resource: &str) -> Result<bool, CredentialError> {
        let file = self.list_file();
        // The copy of a damaged list may contain the login, too.
        run_blocking(move || file.remove_damaged()).await?;
        let list = match self.load_list().await {
            // The damaged list may contain the login, so it is discarded.
            Err(CredentialError::Damaged { .. }) => {
                self.update_list(DamagedFileAction::Discard, |_| {}).await?;
                return Ok(true);
            }
            list => list,
        };
        let Some(entry) = list?.remove_entry(resource) else { return Ok(false) };
        if entry.kept == LoginLocation::Keyring {
            let name = secret_name(&entry.issuer, resource);
            let removed = self.query_keyring(move |keyring| keyring.remove(&name)).await;
            removed.map_err(|why| CredentialError::Keyring { why: why.0 })?;
        }
        let resource = resource.to_owned();
        self.update_list(DamagedFileAction::Discard, move |list| {
            drop(list.remove_entry(&resource))
        })
        .await?;
        Ok(true)
    }

    async fn wait_for_lock(&self, resource: &str) -> Result<RenewalLock, CredentialError> {
        let name = format!("renewal-{:016x}.lock", fingerprint(resource));
        for _ in 0..LOCK_TRIES {
            let (file, name) = (self.list_file(), name.clone());
            let locked = run_blocking(move || match config_file::lock(&file.folder, &name) {
                Ok(lock) => Ok(Some(lock)),
                Err(ConfigFileError::Locked) => Ok(None),
                Err(error) => Err(file.file_error(&error)),
            });
            if let Some(lock) = locked.await? {
                return Ok(RenewalLock { _file: Some(lock) });
            }
        }
        Err(CredentialError::Busy)
    }
}

impl LoginStore for CredentialVault {
    fn load<'a>(
        &'a self,
        resource: &'a str,
    ) -> BoxFuture<'a, Result<Option<LoginRecord>, CredentialError>> {
        Box::pin(self.load_record(resource))
    }

    fn save(&self, record: LoginRecord) -> BoxFuture<'_, Result<LoginLocation, CredentialError>> {
        Box::pin(self.save_record(record))
    }

    fn remove<'a>(&'a self, resource: &'a str) -> BoxFuture<'a, Result<bool, CredentialError>> {
        Box::pin(self.remove_record(resource))
    }

    fn lock<'a>(
        &'a self,
        resource: &'a str,
    ) -> BoxFuture<'a, Result<RenewalLock, CredentialError>> {
        Box::pin(self.wait_for_lock(resource))
    }
}

/// The file with the list of logins.
struct LoginListFile {
    folder: StateDir,
}

impl LoginListFile {
    fn path(&self) -> String {
        self.folder.path().join(FILE).display().to_string()
    }

    fn file_error(&self, error: &ConfigFileError) -> CredentialError {
        CredentialError::File { path: self.path(), why: error.to_string() }
    }

    fn config_file(&self) -> ConfigFile {
        ConfigFile::Own(self.folder.path().join(FILE))
    }

    fn read(&self) -> Result<LoginList, CredentialError> {
        let bytes = match self.config_file().read(FILE_BYTES_MAX) {
            Err(ConfigFileError::TooLarge { .. }) => {
                return Err(CredentialError::Damaged { place: self.path() });
            }
            bytes => bytes.map_err(|e| self.file_error(&e))?,
        };
        let Some(bytes) = bytes else { return Ok(LoginList::default()) };
        serde_json::from_slice(&bytes).map_err(|_| CredentialError::Damaged { place: self.path() })
    }

    /// Prepares for a new list after the old one could not be read.
    fn handle_damaged(&self, damaged: DamagedFileAction) -> Result<LoginList, CredentialError> {
        match damaged {
            DamagedFileAction::Discard => {
                tracing::warn!(
                    path = self.path(),
                    "the list of logins is damaged; all logins are removed"
                );
            }
            DamagedFileAction::KeepAside => {
                // A file that is too large to be read is not copied.
                let bytes = self.config_file().read(FILE_BYTES_MAX).ok().flatten();
                let aside = ConfigFile::Own(self.folder.path().join(DAMAGED_FILE));
                aside.write(&bytes.unwrap_or_default()).map_err(|e| self.file_error(&e))?;
                tracing::warn!(
                    path = self.path(),
                    "the list of logins is damaged and was replaced; a copy is in `{DAMAGED_FILE}` beside it"
                );
            }
        }
        Ok(LoginList::default())
    }

    /// Removes the copy of a damaged list, if there is one.
    fn remove_damaged(&self) -> Result<(), CredentialError> {
        self.folder.remove(DAMAGED_FILE).map_err(|error| self.file_error(&error.into()))
    }

    fn write(&self, list: &LoginList) -> Result<(), CredentialError> {
        let damaged = |_| CredentialError::Damaged { place: self.path() };
        let bytes = serde_json::to_vec_pretty(list).map_err(damaged)?;
        self.config_file().write(&bytes).map_err(|e| self.file_error(&e))
    }
}

/// What to do with a damaged list.
#[derive(Clone, Copy)]
enum DamagedFileAction {
    /// Keep a copy beside the new list, so that the user may repair it.
    KeepAside,
    /// Delete it without a copy.
    Discard,
}

/// Content of the list file.
#[derive(Default, Serialize, Deserialize)]
struct LoginList {
    logins: Vec<LoginListEntry>,
}

/// A login, and where it is stored.
#[derive(Serialize, Deserialize)]
struct LoginListEntry {
    resource: String,
    issuer: String,
    kept: LoginLocation,
    /// The login itself, if it is stored in this file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    record: Option<LoginRecord>,
}

impl LoginList {
    fn remove_entry(&mut self, resource: &str) -> Option<LoginListEntry> {
        let at = self.logins.iter().position(|entry| entry.resource == resource)?;
        Some(self.logins.remove(at))
    }
}

fn secret_name(issuer: &str, resource: &str) -> String {
    format!("{issuer} {resource}")
}

/// Hashes a text to a short name, the same in every process (FNV-1a).
fn fingerprint(text: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}

async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, CredentialError> + Send + 'static,
) -> Result<T, CredentialError> {
    tokio::task::spawn_blocking(work).await.unwrap_or(Err(CredentialError::Cancelled))
}

#[cfg(test)]
mod tests;
