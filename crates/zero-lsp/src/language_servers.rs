//! The language servers of a host: started when somebody asks, shared by all who do, started again
//! when they die, ended when nobody asks for a while.

mod server_slot;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use zero_runtime::services::ServiceLauncher;
use zero_sandbox::StateDir;

pub use self::server_slot::LanguageServerLease;
use self::server_slot::LanguageServerSlot;
use crate::connection::{LanguageServerLaunchOptions, LspConnection};
use crate::error::LspError;
use crate::rustup_proxy;
use crate::server_cache;
use crate::server_definition::{LanguageServerDefinition, ProgramSearchPath};

/// What is given to servers, and how much is borne of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LanguageServerLimits {
    /// How long one may take until it can be asked.
    pub start_max: Duration,
    /// How long it may take to answer.
    pub answer_max: Duration,
    /// How long it may read nothing of what it is told.
    pub stuck_max: Duration,
    /// How long it is waited for while it reads the project.
    pub reading_max: Duration,
    /// How long it stays when nobody asks.
    pub idle_max: Duration,
    /// How many run at a time.
    pub servers_max: usize,
    /// How often one may fail within the pause before it is left alone.
    pub failures_max: usize,
    /// The pause.
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

/// Says whether a folder of the workspace is trusted as it is now; where it is not, how it stands
/// and what to do. Blocks.
pub type FolderTrustCheck = Arc<dyn Fn(&Path) -> Result<(), String> + Send + Sync>;

/// What the language servers of a host are made of.
pub struct LanguageServersConfig {
    /// What starts them.
    pub services: ServiceLauncher,
    /// Those that may be started, the better ones first.
    pub definitions: Vec<LanguageServerDefinition>,
    /// Folders in which programs are found.
    pub search_path: Vec<PathBuf>,
    /// Folders of the workspace.
    pub roots: Vec<PathBuf>,
    /// Which of them are trusted: none runs for another, since many run what they find there.
    pub trust: FolderTrustCheck,
    /// Where folders for what they make are kept; without it they have none.
    pub cache: Option<StateDir>,
    /// How much is borne of them.
    pub bounds: LanguageServerLimits,
}

/// The language servers of a host. Dropping it ends them all.
pub struct LanguageServers {
    config: LanguageServersConfig,
    slots: Mutex<HashMap<(String, PathBuf), Arc<LanguageServerSlot>>>,
}

impl LanguageServers {
    /// Starts nothing yet.
    pub fn new(config: LanguageServersConfig) -> Self {
        Self { config, slots: Mutex::default() }
    }

    /// How much is borne of them.
    pub fn limits(&self) -> LanguageServerLimits {
        self.config.bounds
    }

    /// A server for a file of the workspace, by its canonical path, and what it calls the file's
    /// language. Starts it where it does not run. `shown` is how the file is called in an error.
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

    /// A server for a file that runs already and is not just being started. Waits for nothing.
    pub fn running_for_file(&self, path: &Path) -> Option<(LanguageServerLease, String)> {
        let root = self.root_containing(path)?;
        let slots = self.lock_slots();
        self.config.definitions.iter().find_map(|server| {
            let language = server.language_id(path)?;
            let slot = slots.get(&(server.name.clone(), root.to_owned()))?;
            Some((slot.lease_running()?, language.to_owned()))
        })
    }

    /// The same, where its folder is still trusted: one that is not any more is ended, and told of no
    /// file.
    pub async fn trusted_for_file(&self, path: &Path) -> Option<(LanguageServerLease, String)> {
        let (lease, language) = self.running_for_file(path)?;
        self.check_still_trusted(&lease).await.ok()?;
        Some((lease, language))
    }

    /// Says whether what a server told may be told on. Not if its folder is not trusted any more: then
    /// it is ended. Nor if it can see a file that may not be read, because that came after it: then it
    /// is ended, and the next question starts another, from which that is hidden. To be asked after it
    /// has answered.
    pub async fn verify_lease(&self, lease: &LanguageServerLease) -> Result<(), LspError> {
        self.check_still_trusted(lease).await?;
        if !lease.is_outdated().await {
            return Ok(());
        }
        tracing::debug!(server = lease.server_name(), "a language server ends: it sees too much");
        lease.retire("it could see files that may not be read").await;
        Err(LspError::Outdated { server: lease.server_name().to_owned() })
    }

    /// Ends them all, and waits until they have.
    pub async fn stop(&self) {
        let slots: Vec<Arc<LanguageServerSlot>> =
            self.lock_slots().drain().map(|(_, slot)| slot).collect();
        for slot in slots {
            slot.stop().await;
        }
    }

    /// The best server for a file that is installed.
    fn choose_server(
        &self,
        path: &Path,
        shown: &str,
    ) -> Result<(&LanguageServerDefinition, &str), LspError> {
        let place = self.program_search_path();
        let meant: Vec<(&LanguageServerDefinition, &str)> = self
            .config
            .definitions
            .iter()
            .filter_map(|server| Some((server, server.language_id(path)?)))
            .collect();
        if meant.is_empty() {
            return Err(self.no_server_error(shown));
        }
        let installed = meant.iter().find(|(server, _)| server.find_command(&place).is_some());
        installed.copied().ok_or_else(|| {
            let how: Vec<String> = meant.iter().map(|(server, _)| install_hint(server)).collect();
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

    /// The folder of the workspace in which a file lies.
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

    /// A running server of a slot, started if need be.
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
        // Somebody else may have started it meanwhile.
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
                // It may be installed at any time, and what stands in for it ends at once.
                if !matches!(error, LspError::RustupProxy { .. }) {
                    starting.record_failure(error.to_string());
                }
                Err(error)
            }
        }
    }

    /// Ends a server whose folder is not trusted any more.
    async fn check_still_trusted(&self, lease: &LanguageServerLease) -> Result<(), LspError> {
        let trusted = self.check_trust(lease.root()).await;
        if trusted.is_err() {
            tracing::debug!(
                server = lease.server_name(),
                "a language server ends: trust was revoked"
            );
            lease.retire("its folder is not trusted any more").await;
        }
        trusted
    }

    async fn check_trust(&self, root: &Path) -> Result<(), LspError> {
        let (trust, folder) = (Arc::clone(&self.config.trust), root.to_owned());
        let answer = tokio::task::spawn_blocking(move || trust(&folder)).await;
        // Where nobody could look, nobody said so.
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
                // Where it cannot be said what is hidden, nothing starts: it is told then.
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
        tracing::debug!(server = server.name, "a language server is started");
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

    /// Takes a place for one more server. Where there is none, the one that was left alone longest
    /// ends, unless all are at work.
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
            // It goes from the one to the other while nobody else looks.
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
                "there is no program `{program}`, which {written_at} names for `{}`",
                server.name
            )
        }
        None => format!("`{}` comes {}", server.name, with_preposition(&server.how_to_get)),
    }
}

/// `with …` and `from …` say it themselves.
fn with_preposition(how: &str) -> String {
    match how.starts_with('`') {
        true => format!("by {how}"),
        false => how.to_owned(),
    }
}
