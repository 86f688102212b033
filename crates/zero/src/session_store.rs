//! Where sessions are kept: in a file of this machine, or in a database that gateways share.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use zero_core::SessionId;
use zero_runtime::session_results;
use zero_runtime::tool::BoxFuture;
use zero_sandbox::{ConfigFile, StateDir};
use zero_session::cluster_node::ClusterNode;
use zero_session::event_bus::EventBus;
use zero_session::local_event_bus::LocalEventBus;
use zero_session::nats_node_bus::{NatsNodeBus, NatsOptions, NodeBusOpenError};
use zero_session::node_bus::NodeBus;
use zero_session::node_lease::LeaseRules;
use zero_session::node_membership::NodeMembership;
use zero_session::postgres_store::{PostgresOptions, PostgresPorts, PostgresStore};
use zero_session::shared_event_bus::SharedEventBus;
use zero_session::sqlite_store::SqliteStore;
use zero_session::store::Store;
use zero_settings::WorkspaceSettings;
use zero_settings::gateway::{check_bus, check_store};

use crate::AppContext;
use crate::exit::UsageError;
use crate::secret;
use crate::session_engine::{ProcessNode, STORE_FILE};
use crate::settings_adapter::models::read_secret;
use crate::settings_adapter::network::extra_roots;

/// Name of this machine among the gateways that share a database.
const NODE_NAME_FILE: &str = "node-name";
const NODE_NAME_BYTES_MAX: u64 = 128;
/// Longest part of a node name that comes from the name of the host.
const HOST_CHARS_MAX: usize = 40;
const HOST_NAME_FILE: &str = "/proc/sys/kernel/hostname";

/// Where sessions are kept.
pub(crate) enum StoreChoice {
    /// In a file of the state folder.
    File,
    /// In a database that gateways share. This process is one of them.
    Shared {
        database: PostgresOptions,
        /// The server over which they reach each other; the database if `None`.
        bus: Option<NatsOptions>,
    },
    /// In such a database. This process runs nothing there.
    SharedAsGuest(PostgresOptions),
}

/// An open store, and the processes that share it.
pub(crate) struct OpenStore {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) nodes: Arc<dyn NodeMembership>,
    pub(crate) bus: Arc<dyn EventBus>,
}

/// What the command line of a gateway says about its store.
#[derive(Clone, Copy, Default)]
pub(crate) struct SharedStoreFlags<'a> {
    pub(crate) store: Option<&'a str>,
    pub(crate) password_file: Option<&'a PathBuf>,
    pub(crate) bus: Option<&'a str>,
    pub(crate) bus_secret_file: Option<&'a PathBuf>,
}

impl StoreChoice {
    /// The store of a gateway. A flag counts before the settings.
    pub(crate) fn of_gateway(
        app: &AppContext,
        settings: &WorkspaceSettings,
        flags: SharedStoreFlags<'_>,
    ) -> anyhow::Result<Self> {
        let bus = shared_bus(app, settings, flags.bus, flags.bus_secret_file)?;
        match shared_store(app, settings, flags.store, flags.password_file)? {
            Some(database) => Ok(Self::Shared { database, bus }),
            None if flags.bus.is_some() => {
                let what = "--bus connects gateways that share a database; name that by `--store` or `gateway.store`, too";
                Err(UsageError(what.to_owned()).into())
            }
            None => Ok(Self::File),
        }
    }

    /// The store of a command that looks after the sessions of the gateway of this machine.
    pub(crate) fn of_settings(
        app: &AppContext,
        settings: &WorkspaceSettings,
    ) -> anyhow::Result<Self> {
        let options = shared_store(app, settings, None, None)?;
        Ok(options.map_or(Self::File, Self::SharedAsGuest))
    }

    pub(crate) async fn open(self, state: StateDir) -> anyhow::Result<OpenStore> {
        match self {
            Self::File => {
                // Opening may block while another process holds the file, so it runs on a blocking
                // thread.
                let opening = tokio::task::spawn_blocking(move || {
                    let store = SqliteStore::open(&state.path().join(STORE_FILE))?;
                    let node =
                        ProcessNode::register(state).context("could not register this process")?;
                    anyhow::Ok((store, node))
                });
                let (store, node) = opening.await.context("zero is shutting down")??;
                let bus = Arc::new(LocalEventBus::new());
                Ok(OpenStore { store: Arc::new(store), nodes: Arc::new(node), bus })
            }
            Self::Shared { database, bus } => {
                let name = read_or_create_node_name(&state)?;
                let ports = PostgresStore::open(&database).await?;
                let (leases, sessions) = (Arc::clone(&ports.leases), Arc::clone(&ports.sessions));
                let node =
                    ClusterNode::start(leases, sessions, &name, LeaseRules::default()).await?;
                let node_bus = match join_bus(&ports, bus, node.local_name()).await {
                    Ok(node_bus) => node_bus,
                    Err(error) => {
                        // Otherwise the next start would have to wait for it.
                        let _ = node.end().await;
                        return Err(error);
                    }
                };
                let bus = SharedEventBus::start(ports.sessions, Arc::clone(&node_bus));
                let (nodes, bus) = (Arc::new(node.with_bus(node_bus)), Arc::new(bus));
                Ok(OpenStore { store: ports.store, nodes, bus })
            }
            Self::SharedAsGuest(options) => {
                let store = PostgresStore::open(&options).await?.store;
                let name = format!("guest-{:016x}", fastrand::u64(..));
                let (nodes, bus) = (Arc::new(GuestNode(name)), Arc::new(LocalEventBus::new()));
                Ok(OpenStore { store, nodes, bus })
            }
        }
    }
}

/// Joins the other processes over the server, or over the database.
async fn join_bus(
    ports: &PostgresPorts,
    bus: Option<NatsOptions>,
    node: &str,
) -> anyhow::Result<Arc<dyn NodeBus>> {
    let store = Arc::clone(&ports.bus);
    match bus {
        Some(options) => match NatsNodeBus::open(&options, node, store).await {
            Ok(bus) => Ok(Arc::new(bus)),
            Err(NodeBusOpenError::Settings(why)) => Err(UsageError(why).into()),
            Err(error) => Err(error.into()),
        },
        None => Ok(store.join(node).await?),
    }
}

/// The bus of the flag or the settings, with its secret.
pub(crate) fn shared_bus(
    app: &AppContext,
    settings: &WorkspaceSettings,
    flag: Option<&str>,
    secret_file: Option<&PathBuf>,
) -> anyhow::Result<Option<NatsOptions>> {
    let gateway = settings.gateway();
    let (origin, url) = match (flag, gateway.bus) {
        (Some(flag), _) => ("--bus", flag.to_owned()),
        (None, Some(url)) => ("`gateway.bus`", url),
        (None, None) if secret_file.is_some() => {
            let what = "--bus-secret-file is the secret for a bus; name that by `--bus` or `gateway.bus`, too";
            return Err(UsageError(what.to_owned()).into());
        }
        (None, None) => return Ok(None),
    };
    check_bus(&url).map_err(|what| UsageError(format!("{origin} {what}")))?;
    let secret = match (secret_file, &gateway.bus_secret) {
        (Some(file), _) => Some(secret::read_line(app, &file.display().to_string(), "secret")?),
        (None, Some(setting)) => {
            let read = read_secret(setting, &app.config);
            Some(read.map_err(|why| UsageError(format!("`gateway.busSecret`: {why}")))?)
        }
        (None, None) => None,
    };
    let extra_roots = extra_roots(settings, &app.config)?.iter().map(<[u8]>::to_vec).collect();
    Ok(Some(NatsOptions { url, secret, extra_roots }))
}

/// The database of the flag or the settings, with its password.
pub(crate) fn shared_store(
    app: &AppContext,
    settings: &WorkspaceSettings,
    flag: Option<&str>,
    password_file: Option<&PathBuf>,
) -> anyhow::Result<Option<PostgresOptions>> {
    let gateway = settings.gateway();
    let (origin, url) = match (flag, gateway.store) {
        (Some(flag), _) => ("--store", flag.to_owned()),
        (None, Some(url)) => ("`gateway.store`", url),
        (None, None) if password_file.is_some() => {
            let what = "--store-password-file is the password for a database; name that by `--store` or `gateway.store`, too";
            return Err(UsageError(what.to_owned()).into());
        }
        (None, None) => return Ok(None),
    };
    check_store(&url).map_err(|what| UsageError(format!("{origin} {what}")))?;
    let password = match (password_file, &gateway.store_password) {
        (Some(file), _) => Some(secret::read_line(app, &file.display().to_string(), "password")?),
        (None, Some(setting)) => {
            let read = read_secret(setting, &app.config);
            Some(read.map_err(|why| UsageError(format!("`gateway.storePassword`: {why}")))?)
        }
        (None, None) => None,
    };
    let extra_roots = extra_roots(settings, &app.config)?.iter().map(<[u8]>::to_vec).collect();
    Ok(Some(PostgresOptions { url, password, extra_roots }))
}

/// A process that looks at a shared database. Others count as alive: it takes nothing over.
struct GuestNode(String);

impl NodeMembership for GuestNode {
    fn local_name(&self) -> &str {
        &self.0
    }

    fn is_alive(&self, _node: &str) -> BoxFuture<'_, bool> {
        Box::pin(std::future::ready(true))
    }
}

/// The name of this machine among those that share a database; made at the first start from the name of
/// the host, so that it stays when that changes.
pub(crate) fn read_or_create_node_name(state: &StateDir) -> anyhow::Result<String> {
    let file = ConfigFile::Own(state.path().join(NODE_NAME_FILE));
    let known = file.read(NODE_NAME_BYTES_MAX).context("could not read the name of this node")?;
    if let Some(known) = known.and_then(|bytes| String::from_utf8(bytes).ok()) {
        let known = known.trim();
        let is_name = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
        if !known.is_empty() && known.chars().all(is_name) {
            return Ok(known.to_owned());
        }
    }
    let host = ConfigFile::Own(HOST_NAME_FILE.into()).read(NODE_NAME_BYTES_MAX).ok().flatten();
    let host = String::from_utf8_lossy(&host.unwrap_or_default()).into_owned();
    let plain = host.trim().chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-');
    let plain: String = plain.take(HOST_CHARS_MAX).collect();
    let host = if plain.is_empty() { "node" } else { &plain };
    let name = format!("{host}-{:08x}", fastrand::u32(..));
    state.create().context("could not create the state folder")?;
    file.write(format!("{name}\n").as_bytes()).context("could not store the name of this node")?;
    Ok(name)
}

/// Whether sessions of a shared database have left something in this state folder.
fn has_shared_sessions(state: &StateDir) -> bool {
    state.size(NODE_NAME_FILE).is_ok()
}

/// Results that changed within this time are kept: a session may be about to be stored with them.
const ORPHAN_AGE_MIN: std::time::Duration = std::time::Duration::from_secs(60 * 60);
/// Most sessions whose results one start looks up.
const ORPHANS_CHECKED_MAX: usize = 32;

/// Removes results of sessions that do not exist: a process was killed while it deleted them. Each
/// start examines some, from a random one on. If some may be of another store, all are kept.
pub(crate) async fn remove_orphan_results(state: &StateDir, store: &dyn Store) {
    if has_shared_sessions(state) {
        return;
    }
    let mut sessions: Vec<SessionId> = session_results::list(state).unwrap_or_default();
    if !sessions.is_empty() {
        let first = fastrand::usize(..sessions.len());
        sessions.rotate_left(first);
    }
    for session in sessions.into_iter().take(ORPHANS_CHECKED_MAX) {
        if session_results::age(state, &session).is_ok_and(|age| age >= ORPHAN_AGE_MIN)
            && let Ok(None) = store.session_by_id(&session).await
            && let Err(error) = session_results::remove(state, &session)
        {
            tracing::warn!(%session, %error, "results of a deleted session could not be removed");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the file is changed outside zero")]
    fn node_keeps_its_name() {
        let temp = tempfile::tempdir().unwrap();
        let state = StateDir::new(temp.path().join("state"));
        assert!(!has_shared_sessions(&state));
        let name = read_or_create_node_name(&state).unwrap();
        assert!(has_shared_sessions(&state));
        assert_eq!(read_or_create_node_name(&state).unwrap(), name);
        let other = StateDir::new(temp.path().join("other"));
        assert_ne!(read_or_create_node_name(&other).unwrap(), name);
        // An invalid name is replaced.
        std::fs::write(state.path().join(NODE_NAME_FILE), "a/b\n").unwrap();
        assert_ne!(read_or_create_node_name(&state).unwrap(), "a/b");
    }
}
