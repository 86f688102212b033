//! The language servers of a tool host ([`LanguageServers`]): started on demand, shared by all
//! callers, restarted after a failure and stopped when unused.

mod server_slot;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use zero_exec::services::ServiceLauncher;
use zero_sandbox::StateDir;

pub use self::server_slot::LanguageServerLease;
use self::server_slot::LanguageServerSlot;
use crate::connection::{LanguageServerLaunchOptions, LspConnection};
use crate::error::LspError;
use crate::rustup_proxy;
use crate::server_cache;
use crate::server_definition::{LanguageServerDefinition, ProgramSearchPath};

/// Time and count limits for language servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LanguageServerLimits {
    /// How long a server may take to start and finish the handshake.
    pub start_max: Duration,
    /// How long it may take to answer a request.
    pub answer_max: Duration,
    /// How long it may leave its input unread.
    pub stuck_max: Duration,
    /// How long to wait for it to index the project.
    pub reading_max: Duration,
    /// How long an unused server keeps running.
    pub idle_max: Duration,
    /// How many servers may run at a time.
    pub servers_max: usize,
    /// How often a server may fail within [`Self::pause`] before it is no longer restarted.
    pub failures_max: usize,
    /// The period in which failures are counted, and after which a failing server may be started
    /// again.
    pub pause: Duration,
}

impl Default for LanguageServerLimits {
    fn default() -> Self {
        Self {
            start_max: Duration::from_secs(25),
            answer_max: Duration::from_secs(20),
            stuck_max: Duration::from_secs(30),
            reading_max: Duration::from_secs(12),
            idle_max: Duration::from_secs(10 * 60),
            servers_max: 8,
            failures_max: 3,
            pause: Duration::from_secs(5 * 60),
        }
    }
}

/// Checks whether a workspace folder is trusted at this moment. If not, the error says in which
/// state it is and what to do. The check blocks on file access.
pub type FolderTrustCheck = Arc<dyn Fn(&Path) -> Result<(), String> + Send + Sync>;

/// What the language servers of a tool host are created from.
pub struct LanguageServersConfig {
    /// Starts servers in the sandbox.
    pub services: ServiceLauncher,
    /// The servers that may be started, in order of preference.
    pub definitions: Vec<LanguageServerDefinition>,
    /// Folders in which programs are found.
    pub search_path: Vec<PathBuf>,
    /// Folders of the workspace.
    pub roots: Vec<PathBuf>,
    /// Checks the trust of a folder. No server is started for an untrusted one, since many servers
    /// run code that they find there.
    pub trust: FolderTrustCheck,
    /// Where the servers' cache folders are stored. Without it, servers have no cache.
    pub cache: Option<StateDir>,
    /// Time and count limits.
    pub bounds: LanguageServerLimits,
}

/// The language servers of a tool host. Dropping it ends them all.
pub struct LanguageServers {
    config: LanguageServersConfig,
    slots: Mutex<HashMap<(String, PathBuf), Arc<LanguageServerSlot>>>,
}

impl LanguageServers {
    /// Creates the set without starting any server.
    pub fn new(config: LanguageServersConfig) -> Self {
        Self { config, slots: Mutex::default() }
    }

    /// Returns the time and count limits.
    pub fn limits(&self) -> LanguageServerLimits {
        self.config.bounds
    }

    /// Returns a server for a workspace file, and the LSP id of the file's language. `path` is
    /// canonical; `shown` is the path used in errors. The server is started if it is not running.
    pub async fn lease_for_file(
        &self,
        path: &Path,
        shown: &str,
    ) -> Result<(LanguageServerLease, String), LspError> {
        let (server, language) = self.choose_server(path, shown)?;
        let root = self.root_containing(path).ok_or_else(|| self.no_server_error(shown))?;
        let slot = self.slot(server, root);
        let lease = self.acquire_lease(server, root, &slot).await?;
        Ok((lease, language.to_owned()))
    }

    /// Returns a server for a file if one is running. Neither starts one nor waits for one that is
    /// starting.
    pub fn running_for_file(&self, path: &Path) -> Option<(LanguageServerLease, String)> {
        let root = self.root_containing(path)?;
        let slots = self.lock_slots();
        self.config.definitions.iter().find_map(|server| {
            let language = server.language_id(path)?;
            let slot = slots.get(&(server.name.clone(), root.to_owned()))?;
            Some((slot.lease_running()?, language.to_owned()))
        })
    }

    /// As [`Self::running_for_file`], if the folder is still trusted. Otherwise the server is
    /// stopped.
    pub async fn trusted_for_file(&self, path: &Path) -> Option<(LanguageServerLease, String)> {
        let (lease, language) = self.running_for_file(path)?;
        self.check_still_trusted(&lease).await.ok()?;
        Some((lease, language))
    }

    /// Checks whether a reply of the server may be used. It may not if the folder is no longer
    /// trusted, or if the server could see a file that was denied or replaced after it started. In
    /// both cases the server is stopped; in the second, the next query starts a new one from which
    /// the file is hidden. To be called after the server has replied.
    pub async fn verify_lease(&self, lease: &LanguageServerLease) -> Result<(), LspError> {
        self.check_still_trusted(lease).await?;
        if !lease.is_outdated().await {
            return Ok(());
        }
        tracing::debug!(
            server = lease.server_name(),
            "a language server is stopped: it can see a denied file"
        );
        lease.retire("it could see files that may not be read").await;
        Err(LspError::Outdated { server: lease.server_name().to_owned() })
    }

    /// Ends all servers and waits until they have exited.
    pub async fn stop(&self) {
        let slots: Vec<Arc<LanguageServerSlot>> =
            self.lock_slots().drain().map(|(_, slot)| slot).collect();
        for slot in slots {
            slot.stop().await;
        }
    }

    /// Returns the most preferred installed server for a file.
    fn choose_server(
        &self,
        path: &Path,
        shown: &str,
    ) -> Result<(&LanguageServerDefinition, &str), LspError> {
        let search_path = self.program_search_path();
        let matching: Vec<(&LanguageServerDefinition, &str)> = self
            .config
            .definitions
            .iter()
            .filter_map(|server| Some((server, server.language_id(path)?)))
            .collect();
        if matching.is_empty() {
            return Err(self.no_server_error(shown));
        }
        let installed =
            matching.iter().find(|(server, _)| server.find_command(&search_path).is_some());
        installed.copied().ok_or_else(|| {
            let how: Vec<String> =
                matching.iter().map(|(server, _)| install_hint(server)).collect();
            LspError::NotInstalled { file: shown.to_owned(), how: how.join("; ") }
        })
    }

    fn no_server_error(&self, shown: &str) -> LspError {
        let mut endings: Vec<String> = self
            .config
            .definitions
            .iter()
            .flat_map(|server| &server.languages)
            .map(|language| format!(".{}", language.ending))
            .collect();
        endings.sort();
        endings.dedup();
        LspError::NoServerKnown { file: shown.to_owned(), known: endings.join(" ") }
    }

    /// Returns the innermost workspace folder that contains a file.
    fn root_containing(&self, path: &Path) -> Option<&Path> {
        let holds = |root: &&PathBuf| path.starts_with(root);
        let inner = self.config.roots.iter().filter(holds);
        inner.max_by_key(|root| root.components().count()).map(PathBuf::as_path)
    }

    fn program_search_path(&self) -> ProgramSearchPath<'_> {
        ProgramSearchPath { search_path: &self.config.search_path, roots: &self.config.roots }
    }

    fn slot(&self, server: &LanguageServerDefinition, root: &Path) -> Arc<LanguageServerSlot> {
        let key = (server.name.clone(), root.to_owned());
        Arc::clone(self.lock_slots().entry(key).or_default())
    }

    /// Returns the running server of a slot, starting it if necessary.
    async fn acquire_lease(
        &self,
        server: &LanguageServerDefinition,
        root: &Path,
        slot: &Arc<LanguageServerSlot>,
    ) -> Result<LanguageServerLease, LspError> {
        if let Some(lease) = slot.lease_running() {
            return self.check_still_trusted(&lease).await.map(|()| lease);
        }
        let mut starting = slot.lock_start().await;
        // Another caller may have started it in the meantime.
        if let Some(lease) = slot.lease_running() {
            return self.check_still_trusted(&lease).await.map(|()| lease);
        }
        let bounds = self.config.bounds;
        starting.remove_dead(bounds).await;
        starting.check_failures(&server.name, bounds)?;
        self.check_trust(root).await?;
        self.reserve_capacity(slot).await?;
        match self.start_server(server, root).await {
            Ok(connection) => Ok(slot.install(connection, bounds.idle_max)),
            Err(error) => {
                slot.clear_counted();
                // Not counted as a failure: the server may be installed at any time, and the proxy
                // exits at once.
                if !matches!(error, LspError::RustupProxy { .. }) {
                    starting.record_failure(error.to_string());
                }
                Err(error)
            }
        }
    }

    /// Stops a server whose folder is no longer trusted.
    async fn check_still_trusted(&self, lease: &LanguageServerLease) -> Result<(), LspError> {
        let trusted = self.check_trust(lease.root()).await;
        if trusted.is_err() {
            tracing::debug!(
                server = lease.server_name(),
                "a language server is stopped: its folder is no longer trusted"
            );
            lease.retire("its folder is no longer trusted").await;
        }
        trusted
    }

    async fn check_trust(&self, root: &Path) -> Result<(), LspError> {
        let (trust, folder) = (Arc::clone(&self.config.trust), root.to_owned());
        let answer = tokio::task::spawn_blocking(move || trust(&folder)).await;
        // If the check itself fails, the folder counts as untrusted.
        let answer = answer.unwrap_or_else(|error| Err(error.to_string()));
        answer.map_err(|why| LspError::Untrusted { folder: root.display().to_string(), why })
    }

    async fn start_server(
        &self,
        server: &LanguageServerDefinition,
        root: &Path,
    ) -> Result<LspConnection, LspError> {
        let words = server.find_command(&self.program_search_path()).ok_or_else(|| {
            LspError::NotStarted { server: server.name.clone(), why: install_hint(server) }
        })?;
        let cache = match self.config.cache.clone() {
            Some(caches) => {
                let (name, root) = (server.name.clone(), root.to_owned());
                let services = self.config.services.clone();
                // If the denied paths cannot be listed, there is no cache; starting the server then
                // fails and reports why.
                let made = move || {
                    server_cache::prepare(
                        &caches,
                        &name,
                        &root,
                        &services.list_denied_paths().ok()?,
                    )
                };
                tokio::task::spawn_blocking(made).await.ok().flatten()
            }
            None => None,
        };
        let (bounds, services) = (self.config.bounds, &self.config.services);
        let path = self.program_search_path().path_variable();
        let program = words.first().cloned().unwrap_or_default();
        tracing::debug!(server = server.name, "starting a language server");
        let start =
            LanguageServerLaunchOptions { services, server, words, root, cache, path, bounds };
        LspConnection::start(start).await.map_err(|error| match error {
            LspError::NotStarted { why, server: name }
                if rustup_proxy::is_rustup_message(server, &why) =>
            {
                LspError::RustupProxy {
                    server: name,
                    program,
                    how: with_preposition(&server.how_to_get),
                }
            }
            error => error,
        })
    }

    /// Reserves capacity for one more server. If there is none, stops the server that has been
    /// unused for longest; fails if all are in use.
    async fn reserve_capacity(&self, slot: &Arc<LanguageServerSlot>) -> Result<(), LspError> {
        let oldest = {
            let slots = self.lock_slots();
            let most = self.config.bounds.servers_max;
            if slot.is_counted() {
                return Ok(());
            }
            if slots.values().filter(|slot| slot.is_counted()).count() < most {
                slot.mark_counted();
                return Ok(());
            }
            let idle = slots.values().filter(|slot| slot.is_idle());
            let oldest = idle.min_by_key(|slot| slot.last_used());
            let oldest = oldest.cloned().ok_or(LspError::TooMany(most))?;
            // The capacity passes from one slot to the other while the lock is held.
            oldest.clear_counted();
            slot.mark_counted();
            oldest
        };
        oldest.stop().await;
        Ok(())
    }

    fn lock_slots(&self) -> MutexGuard<'_, HashMap<(String, PathBuf), Arc<LanguageServerSlot>>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn install_hint(server: &LanguageServerDefinition) -> String {
    match &server.written_at {
        Some(written_at) => {
            let program = server.commands.first().and_then(|words| words.first());
            let program = program.map(String::as_str).unwrap_or_default();
            format!(
                "the program `{program}` that {written_at} names for `{}` does not exist",
                server.name
            )
        }
        None => format!("install `{}` {}", server.name, with_preposition(&server.how_to_get)),
    }
}

/// Turns installation instructions into a phrase: `with …` or `from …`.
fn with_preposition(how: &str) -> String {
    match how.starts_with('`') {
        true => format!("with {how}"),
        false => how.to_owned(),
    }
}
