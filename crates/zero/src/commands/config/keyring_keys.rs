//! `zero config set-key` and `unset-key`: API keys in the desktop's keyring.
//!
//! A key never appears on a command line, in a settings file or on the screen: zero reads it from the
//! terminal without echo, or from stdin.

use std::io::Read as _;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use tokio::time::timeout;
use zero_mcp::client::credentials::{
    DesktopKeyring, KEYRING_ADVICE, SecretStore, SecretStoreError,
};

use crate::AppContext;
use crate::cli::config::{ConfigSetKeyArgs, ConfigUnsetKeyArgs};
use crate::exit::{ExitOutcome, UsageError};
use crate::host_setup::small_runtime;
use crate::settings_adapter::models::KEY_BYTES_MAX;

/// Time limit for the keyring. It may prompt the user for its own password.
const KEYRING_TIME: Duration = Duration::from_secs(120);
/// Longest key name, in characters.
const NAME_CHARS_MAX: usize = 64;
/// Advice for systems without a working keyring.
const FILE_ADVICE: &str =
    "store the key in a file that only you can read and set `\"apiKey\": {\"file\": \"~/…\"}`";

pub(super) fn set_key(app: &AppContext, args: &ConfigSetKeyArgs) -> anyhow::Result<ExitOutcome> {
    prompt_and_store(app, &args.name)
}

/// Reads a key and stores it under a name.
pub(in crate::commands) fn prompt_and_store(
    app: &AppContext,
    name: &str,
) -> anyhow::Result<ExitOutcome> {
    // Validate the name before the user types the key.
    let name = validate_name(name)?;
    let key = read_key(app, name)?;
    store_key(app, Arc::new(DesktopKeyring::KEYS), name, &key)
}

pub(super) fn unset_key(
    app: &AppContext,
    args: &ConfigUnsetKeyArgs,
) -> anyhow::Result<ExitOutcome> {
    delete_key(app, Arc::new(DesktopKeyring::KEYS), validate_name(&args.name)?)
}

fn store_key(
    app: &AppContext,
    store: Arc<dyn SecretStore>,
    name: &str,
    key: &str,
) -> anyhow::Result<ExitOutcome> {
    let (owned_name, owned_key) = (name.to_owned(), key.to_owned());
    with_store(store, move |store| store.set(&owned_name, &owned_key))?;
    app.terminal.out.write(&format!(
        "stored as `{name}` in the desktop's keyring; use it in settings with `\"apiKey\": {{\"keyring\": \"{name}\"}}`\n"
    ))?;
    Ok(ExitOutcome::Ok)
}

fn delete_key(
    app: &AppContext,
    store: Arc<dyn SecretStore>,
    name: &str,
) -> anyhow::Result<ExitOutcome> {
    let owned = name.to_owned();
    let was_there = with_store(store, move |store| {
        let was_there = store.get(&owned)?.is_some();
        store.remove(&owned).map(|()| was_there)
    })?;
    app.terminal.out.write(&match was_there {
        true => format!("removed `{name}` from the desktop's keyring\n"),
        false => format!("the desktop's keyring has no key `{name}`\n"),
    })?;
    Ok(ExitOutcome::Ok)
}

/// Runs a keyring operation, which may block, for at most [`KEYRING_TIME`].
pub(in crate::commands) fn with_store<T: Send + 'static>(
    store: Arc<dyn SecretStore>,
    question: impl FnOnce(&dyn SecretStore) -> Result<T, SecretStoreError> + Send + 'static,
) -> anyhow::Result<T> {
    let runtime = small_runtime()?;
    let asked = runtime.block_on(async {
        timeout(KEYRING_TIME, tokio::task::spawn_blocking(move || question(&*store))).await
    });
    runtime.shutdown_background();
    let why = match asked {
        Ok(Ok(Ok(answer))) => return Ok(answer),
        Ok(Ok(Err(error))) => error.to_string(),
        Ok(Err(_)) => "failed".to_owned(),
        Err(_) => "did not respond in time".to_owned(),
    };
    Err(anyhow!("the desktop's keyring {why}; {KEYRING_ADVICE}, or {FILE_ADVICE}"))
}

/// Reads the key from the terminal without echo, or from stdin.
fn read_key(app: &AppContext, name: &str) -> anyhow::Result<String> {
    match app.terminal.is_stdin_terminal() {
        true => prompt_key(app, &format!("Key to store as `{name}` (input is hidden): ")),
        false => read_key_from_stdin(),
    }
}

/// Asks for a key on the terminal, without echo.
pub(in crate::commands) fn prompt_key(app: &AppContext, question: &str) -> anyhow::Result<String> {
    let typed = zero_sandbox::secret_input::read_hidden_line(
        || app.terminal.err.write(question),
        KEY_BYTES_MAX,
    );
    app.terminal.err.write("\n")?;
    let given_up = || UsageError("no key entered; nothing changed".to_owned());
    let typed = typed.context("could not read the key from the terminal")?.ok_or_else(given_up)?;
    Ok(validate_key(&typed)?)
}

/// Reads a key from stdin.
pub(in crate::commands) fn read_key_from_stdin() -> anyhow::Result<String> {
    let mut bytes = Vec::new();
    let stdin = std::io::stdin().lock();
    stdin
        .take(KEY_BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .context("could not read the key from stdin")?;
    Ok(validate_key(&bytes)?)
}

fn validate_name(name: &str) -> Result<&str, UsageError> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let is_name = (1..=NAME_CHARS_MAX).contains(&name.len()) && name.chars().all(is_plain);
    if !is_name || name.starts_with('-') {
        // The argument may be the key itself, so the message does not repeat it.
        return Err(UsageError(format!(
            "invalid key name; use 1 to {NAME_CHARS_MAX} letters, digits, `.`, `_` or `-`, such as `openai`. zero asks for the key itself, or reads it from stdin"
        )));
    }
    Ok(name)
}

/// Validates a key. The error never contains any part of it.
fn validate_key(bytes: &[u8]) -> Result<String, UsageError> {
    let wrong = |what: &str| UsageError(format!("invalid key: {what}; nothing changed"));
    if bytes.len() as u64 > KEY_BYTES_MAX {
        return Err(wrong(&format!("it has more than {KEY_BYTES_MAX} bytes")));
    }
    let text = std::str::from_utf8(bytes).map_err(|_| wrong("it is not text"))?.trim();
    if text.is_empty() {
        return Err(wrong("it is empty"));
    }
    if !text.chars().all(|c| c.is_ascii_graphic()) {
        return Err(wrong("it has spaces, line breaks or characters other than ASCII"));
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::{LazyLock, Mutex};

    use super::*;
    use crate::environment::EnvironmentConfig;
    use crate::terminal::Terminal;

    /// A keyring of this test; locked where it has nothing to keep things in.
    #[derive(Default)]
    struct TestKeyring(Option<Mutex<BTreeMap<String, String>>>);

    impl TestKeyring {
        fn entries(&self) -> Result<&Mutex<BTreeMap<String, String>>, SecretStoreError> {
            self.0.as_ref().ok_or_else(|| SecretStoreError("is locked".to_owned()))
        }
    }

    impl SecretStore for TestKeyring {
        fn get(&self, name: &str) -> Result<Option<String>, SecretStoreError> {
            Ok(self.entries()?.lock().unwrap().get(name).cloned())
        }

        fn set(&self, name: &str, secret: &str) -> Result<(), SecretStoreError> {
            self.entries()?.lock().unwrap().insert(name.to_owned(), secret.to_owned());
            Ok(())
        }

        fn remove(&self, name: &str) -> Result<(), SecretStoreError> {
            self.entries()?.lock().unwrap().remove(name);
            Ok(())
        }
    }

    fn test_app() -> AppContext {
        AppContext {
            config: EnvironmentConfig::default(),
            terminal: Terminal::for_test(),
            tools: Arc::new(LazyLock::new(Vec::new)),
            notifiers: Arc::default(),
            console: Arc::default(),
            gateway_locality: Arc::default(),
        }
    }

    #[test]
    fn key_is_stored_replaced_deleted_and_never_shown() {
        let (app, keyring) = (test_app(), Arc::new(TestKeyring(Some(Mutex::default()))));
        for key in ["sk-one", "sk-two"] {
            assert_eq!(store_key(&app, keyring.clone(), "openai", key).unwrap(), ExitOutcome::Ok);
            assert_eq!(keyring.get("openai").unwrap().as_deref(), Some(key));
        }
        for _ in 0..2 {
            assert_eq!(delete_key(&app, keyring.clone(), "openai").unwrap(), ExitOutcome::Ok);
            assert_eq!(keyring.get("openai").unwrap(), None);
        }
        let printed = app.terminal.out.written_text() + &app.terminal.err.written_text();
        assert!(printed.contains(r#"{"keyring": "openai"}"#), "{printed}");
        assert!(printed.ends_with("removed `openai` from the desktop's keyring\nthe desktop's keyring has no key `openai`\n"), "{printed}");
        assert!(!printed.contains("sk-"), "{printed}");
    }

    #[cfg(feature = "keyring")]
    #[test]
    fn locked_keyring_error_suggests_fix() {
        let (app, locked) = (test_app(), Arc::new(TestKeyring::default()));
        for error in [
            store_key(&app, locked.clone(), "openai", "sk-one").unwrap_err(),
            delete_key(&app, locked.clone(), "openai").unwrap_err(),
        ] {
            let error = error.to_string();
            assert!(
                error.starts_with(
                    "the desktop's keyring is locked; make sure that it runs and is unlocked"
                ),
                "{error}"
            );
            assert!(!error.contains("sk-one"), "{error}");
        }
    }

    #[test]
    fn invalid_name_or_key_is_refused_without_echo() {
        for (name, fits) in
            [("openai", true), ("my.key_2-b", true), ("", false), ("a b", false), ("-x", false)]
        {
            assert_eq!(validate_name(name).is_ok(), fits, "{name}");
        }
        let error = validate_name(&"sk-secret".repeat(10)).unwrap_err().0;
        assert!(!error.contains("sk-secret"), "{error}");
        let long = "k".repeat(KEY_BYTES_MAX as usize + 1);
        for (bytes, expected) in [
            (&b" sk-1 \n"[..], Ok("sk-1")),
            (b"", Err("it is empty")),
            (b"\n", Err("it is empty")),
            (b"sk-1\nsk-2\n", Err("line breaks")),
            (b"\xff", Err("not text")),
            (long.as_bytes(), Err("more than 16384 bytes")),
        ] {
            match (validate_key(bytes), expected) {
                (Ok(key), Ok(expected)) => assert_eq!(key, expected),
                (Err(UsageError(found)), Err(expected)) => {
                    assert!(found.contains(expected) && !found.contains("sk-"), "{found}");
                }
                (found, _) => panic!("{found:?} is not {expected:?}"),
            }
        }
    }
}
