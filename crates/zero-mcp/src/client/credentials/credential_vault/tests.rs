//! Keyrings that work, that fail, and that do not answer.

use std::collections::HashMap;
use std::sync::atomic::AtomicUsize;
use std::sync::{Mutex, mpsc};

use serde_json::json;

use super::super::login_record::tests::sample_record;
use super::*;

/// An in-memory keyring.
#[derive(Default)]
struct FakeKeyring {
    secrets: Mutex<HashMap<String, String>>,
    /// Never answers.
    hangs: bool,
    refuses: AtomicBool,
    asked: AtomicUsize,
}

impl FakeKeyring {
    fn check_available(&self) -> Result<(), SecretStoreError> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        if self.hangs {
            let (_kept, never) = mpsc::sync_channel::<()>(0);
            let _ = never.recv_timeout(Duration::from_secs(20));
        }
        match self.refuses.load(Ordering::SeqCst) {
            true => Err(SecretStoreError("is locked".to_owned())),
            false => Ok(()),
        }
    }
}

impl SecretStore for FakeKeyring {
    fn get(&self, name: &str) -> Result<Option<String>, SecretStoreError> {
        self.check_available().map(|()| self.secrets.lock().unwrap().get(name).cloned())
    }
    fn set(&self, name: &str, secret: &str) -> Result<(), SecretStoreError> {
        self.check_available()?;
        self.secrets.lock().unwrap().insert(name.to_owned(), secret.to_owned());
        Ok(())
    }
    fn remove(&self, name: &str) -> Result<(), SecretStoreError> {
        self.check_available()?;
        self.secrets.lock().unwrap().remove(name);
        Ok(())
    }
}

const HERE: &str = "https://mcp.example/";

fn sample_login() -> LoginRecord {
    sample_record(
        HERE,
        json!({"access_token": "hush", "token_type": "bearer", "refresh_token": "hush"}),
    )
}

fn open_vault(fake: FakeKeyring) -> (CredentialVault, Arc<FakeKeyring>, tempfile::TempDir) {
    let (folder, fake) = (tempfile::tempdir().unwrap(), Arc::new(fake));
    (CredentialVault::new(&StateDir::new(folder.path()), fake.clone()), fake, folder)
}

#[expect(clippy::disallowed_methods, reason = "the test looks at the file itself")]
fn read_list_file(folder: &tempfile::TempDir) -> String {
    std::fs::read_to_string(folder.path().join("mcp/credentials.json")).unwrap_or_default()
}

#[tokio::test]
async fn secrets_go_to_keyring_and_list_records_it() {
    let (vault, fake, folder) = open_vault(FakeKeyring::default());
    assert!(vault.load(HERE).await.unwrap().is_none());
    assert_eq!(vault.save(sample_login()).await.unwrap(), LoginLocation::Keyring);
    assert!(!read_list_file(&folder).contains("hush"));
    assert!(vault.load(HERE).await.unwrap().is_some());
    assert!(vault.load("https://mcp.example/other").await.unwrap().is_none());

    // A login of another issuer for the same server replaces the first.
    let other = LoginRecord { issuer: "https://other.example".to_owned(), ..sample_login() };
    vault.save(other).await.unwrap();
    assert_eq!(fake.secrets.lock().unwrap().len(), 1);
    assert_eq!(vault.load(HERE).await.unwrap().unwrap().issuer(), "https://other.example");

    fake.refuses.store(true, Ordering::SeqCst);
    let error = vault.load(HERE).await.unwrap_err().to_string();
    assert!(error.contains("keyring, which is locked"), "{error}");
    fake.refuses.store(false, Ordering::SeqCst);
    assert!(vault.remove(HERE).await.unwrap());
    assert!(!vault.remove(HERE).await.unwrap());
    assert!(fake.secrets.lock().unwrap().is_empty());
}

#[tokio::test]
async fn file_is_used_when_no_keyring_answers() {
    let (vault, fake, folder) = open_vault(FakeKeyring::default());
    fake.refuses.store(true, Ordering::SeqCst);
    assert_eq!(vault.save(sample_login()).await.unwrap(), LoginLocation::File);
    assert!(read_list_file(&folder).contains("hush"));
    assert!(vault.load(HERE).await.unwrap().is_some());
    assert!(vault.remove(HERE).await.unwrap());
    assert!(!read_list_file(&folder).contains("hush"));
}

#[tokio::test]
async fn silent_keyring_is_waited_for_once() {
    let (vault, fake, _folder) = open_vault(FakeKeyring { hangs: true, ..FakeKeyring::default() });
    for _ in 0..3 {
        assert_eq!(vault.save(sample_login()).await.unwrap(), LoginLocation::File);
    }
    assert_eq!(fake.asked.load(Ordering::SeqCst), 1, "whoever is asked is waited for");
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "the test damages the file")]
async fn damaged_data_is_reported_and_not_used() {
    let (vault, fake, folder) = open_vault(FakeKeyring::default());
    vault.save(sample_login()).await.unwrap();
    // The entry with this name is a login for another server.
    let name = secret_name("https://as.example", HERE);
    let other =
        serde_json::to_string(&sample_record("https://evil.example/", json!(null))).unwrap();
    fake.secrets.lock().unwrap().insert(name, other);
    assert!(matches!(vault.load(HERE).await, Err(CredentialError::Damaged { .. })));
    std::fs::write(folder.path().join("mcp/credentials.json"), "{").unwrap();
    assert!(matches!(vault.load(HERE).await, Err(CredentialError::Damaged { .. })));
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "the test damages the file")]
async fn damaged_list_is_replaced_by_login_and_removed_by_logout() {
    let (vault, fake, folder) = open_vault(FakeKeyring::default());
    fake.refuses.store(true, Ordering::SeqCst);
    let (list, aside) = ("mcp/credentials.json", "mcp/credentials.damaged.json");
    let (list, aside) = (folder.path().join(list), folder.path().join(aside));
    vault.save(sample_login()).await.unwrap();
    let large = " ".repeat(usize::try_from(FILE_BYTES_MAX).unwrap() + 1);
    for (damaged, kept) in [("{\"old hush\"", "{\"old hush\""), ("[]", "[]"), (&large, "")] {
        std::fs::write(&list, damaged).unwrap();
        assert_eq!(vault.save(sample_login()).await.unwrap(), LoginLocation::File);
        assert!(vault.load(HERE).await.unwrap().is_some());
        assert_eq!(std::fs::read_to_string(&aside).unwrap(), kept);
    }
    std::fs::write(&list, "{\"old hush\"").unwrap();
    assert!(vault.remove(HERE).await.unwrap());
    assert!(
        !aside.exists() && !read_list_file(&folder).contains("hush"),
        "{}",
        read_list_file(&folder)
    );
    assert!(!vault.remove(HERE).await.unwrap());
    assert!(vault.load(HERE).await.unwrap().is_none());
}

#[tokio::test]
async fn concurrent_renewals_wait_for_each_other() {
    let (vault, _, _folder) = open_vault(FakeKeyring::default());
    let held = vault.lock(HERE).await.unwrap();
    let is_released = std::sync::atomic::AtomicBool::new(false);
    let other = async {
        let _held = vault.lock(HERE).await.unwrap();
        assert!(is_released.load(std::sync::atomic::Ordering::SeqCst), "both have the lock");
    };
    let first = async {
        // Each of these waits for a thread, so that the other one gets its turn.
        for _ in 0..20 {
            vault.lock("https://mcp.example/other").await.unwrap();
        }
        is_released.store(true, std::sync::atomic::Ordering::SeqCst);
        drop(held);
    };
    tokio::join!(other, first);
}
