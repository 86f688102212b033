//! Where `zero login` keeps a key: in the desktop's keyring, or in a private file if there is none.

use std::io;
use std::sync::Arc;

use serde_json::{Value, json};
use zero_mcp::client::credentials::{DesktopKeyring, SecretStore};
use zero_sandbox::{ConfigFile, StateDir};
use zero_settings::layer::display_path;

use crate::AppContext;
use crate::commands::config::keyring_keys::with_store;

/// Folder of the key files, in zero's own folder, which no tool and no command can read.
const KEY_FOLDER: &str = "keys";

/// A place where a key was stored.
pub(super) struct StoredKey {
    /// Value of `apiKey` in settings.
    pub(super) setting: Value,
    /// The place, for people.
    pub(super) shown: String,
}

fn keyring() -> Arc<dyn SecretStore> {
    Arc::new(DesktopKeyring::KEYS)
}

fn key_folder(app: &AppContext) -> anyhow::Result<StateDir> {
    Ok(app.config.state_dir()?.child(KEY_FOLDER))
}

/// Stores a key under a name, in place of an earlier one.
pub(super) fn store(app: &AppContext, name: &str, key: &str) -> anyhow::Result<StoredKey> {
    let (owned_name, owned_key) = (name.to_owned(), key.to_owned());
    let stored = with_store(keyring(), move |store| store.set(&owned_name, &owned_key));
    if stored.is_ok() {
        return Ok(StoredKey {
            setting: json!({ "keyring": name }),
            shown: format!("in the desktop's keyring, as `{name}`"),
        });
    }
    let folder = key_folder(app)?;
    folder.create()?;
    // A file that exists would keep its mode.
    remove_file(&folder, name)?;
    let path = folder.path().join(name);
    ConfigFile::Own(path.clone()).write(format!("{key}\n").as_bytes())?;
    let shown = display_path(&path, app.config.home());
    Ok(StoredKey {
        setting: json!({ "file": shown }),
        shown: format!("in {shown}, which only you can read, because the desktop has no keyring"),
    })
}

/// Removes a key. Returns whether there was one.
pub(super) fn remove(app: &AppContext, name: &str) -> anyhow::Result<bool> {
    let owned = name.to_owned();
    // Without a keyring, nothing is in it.
    let was_in_keyring = with_store(keyring(), move |store| {
        let was_there = store.get(&owned)?.is_some();
        store.remove(&owned).map(|()| was_there)
    });
    let was_in_file = remove_file(&key_folder(app)?, name)?;
    Ok(was_in_keyring.unwrap_or(false) || was_in_file)
}

/// Removes a key file. Returns whether there was one.
fn remove_file(folder: &StateDir, name: &str) -> io::Result<bool> {
    match folder.size(name) {
        Ok(_) => folder.remove(name).map(|()| true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}
