//! Connects an editor or a chat to its gateway: on first use, and again after the connection is lost.
//!
//! Settings are read only here, so that zero answers an editor immediately after its start, and a
//! mistake in the settings is reported to the editor instead of ending zero.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use anyhow::Context;
use tokio::sync::Mutex;
use zero_acp::ClientPreferences;
use zero_client::{GatewayConnection, GatewayDialer, GatewayLinkError, GatewayLocality};
use zero_gateway::{AuthConfig, Gateway};
use zero_runtime::tool::BoxFuture;
use zero_session::store::Store;
use zero_settings::WorkspaceSettings;
use zero_wire::client::{GatewayClient, GatewayCredentials, GatewayTarget, GatewayUrl};

use crate::AppContext;
use crate::cli::RemoteGatewayArgs;
use crate::error_chain::describe_error;
use crate::gateway_connection::{SHUTDOWN_GRACE, local_principal};
use crate::session_store::StoreChoice;
use crate::settings_adapter::acp::client_preferences;
use crate::settings_adapter::is_about_settings;

/// Connects to the named gateway, or to one in this process.
pub(crate) struct LazyGatewayDialer {
    app: AppContext,
    args: RemoteGatewayArgs,
    settings_files: Vec<PathBuf>,
    /// Editor preferences from the settings, once they are read.
    preferences: Arc<OnceLock<ClientPreferences>>,
    /// The gateway in this process, once it was started.
    embedded: Mutex<Option<Gateway>>,
}

impl LazyGatewayDialer {
    pub(crate) fn new(
        app: AppContext,
        args: RemoteGatewayArgs,
        settings_files: Vec<PathBuf>,
        preferences: Arc<OnceLock<ClientPreferences>>,
    ) -> Self {
        Self { app, args, settings_files, preferences, embedded: Mutex::default() }
    }

    /// Stops the gateway in this process after a grace period.
    pub(crate) async fn shut_down(&self) {
        if let Some(gateway) = self.embedded.lock().await.take() {
            gateway.shut_down(SHUTDOWN_GRACE).await;
        }
    }

    /// The sessions of this machine, if the gateway is in this process and was started.
    pub(crate) async fn local_store(&self) -> Option<Arc<dyn Store>> {
        self.embedded.lock().await.as_ref().map(Gateway::store)
    }

    async fn connect(&self) -> anyhow::Result<Result<GatewayConnection, GatewayLinkError>> {
        let mut embedded = self.embedded.lock().await;
        let gateway = match &*embedded {
            Some(gateway) => gateway.clone(),
            None => {
                let (cwd, settings) = self.read_settings().await?;
                let _ = self.preferences.set(client_preferences(&settings));
                self.log_warnings(&settings);
                if let Some(dial) = self.app.remote_dialer(&self.args, &settings)? {
                    tracing::info!(gateway = dial.location(), "connecting");
                    drop(embedded);
                    return Ok(dial.dial().await);
                }
                tracing::info!("starting the gateway in this process");
                let auth = AuthConfig::deny_all();
                let (files, store) = (&self.settings_files, StoreChoice::File);
                let config = self.app.gateway_config(&settings, files, cwd, auth, store).await?;
                embedded.insert(Gateway::new(config)).clone()
            }
        };
        drop(embedded);
        let (near, far) = zero_wire::pipe::pipe();
        gateway.attach_pipe(far, local_principal());
        let options = self.app.editor_connect_options(GatewayCredentials::default());
        let connected = GatewayClient::connect(GatewayTarget::Pipe(near), options).await;
        Ok(connected
            .map(|(client, events)| GatewayConnection {
                client,
                events,
                locality: GatewayLocality::InProcess,
            })
            .map_err(GatewayLinkError::from))
    }

    /// Current folder and its settings, read on a blocking thread.
    async fn read_settings(&self) -> anyhow::Result<(PathBuf, WorkspaceSettings)> {
        let (app, files) = (self.app.clone(), self.settings_files.clone());
        let read = tokio::task::spawn_blocking(move || {
            let workspace = app.config.open_workspace(&[])?;
            let settings = app.load_settings(&workspace, &files)?;
            anyhow::Ok((workspace.cwd().to_owned(), settings))
        });
        read.await.context("zero is shutting down")?
    }

    fn log_warnings(&self, settings: &WorkspaceSettings) {
        for line in settings.trust_note().into_iter().chain(settings.warnings()) {
            tracing::info!("{line}");
        }
    }
}

impl GatewayDialer for LazyGatewayDialer {
    fn dial(&self) -> BoxFuture<'_, Result<GatewayConnection, GatewayLinkError>> {
        Box::pin(async {
            self.connect().await.unwrap_or_else(|error| {
                let message = describe_error(&error);
                Err(match is_about_settings(&error) {
                    true => GatewayLinkError::Settings { message },
                    // Retrying does not help until the user fixes the cause.
                    false => GatewayLinkError::Unreachable { message, is_passing: false },
                })
            })
        })
    }

    fn location(&self) -> String {
        match self.args.url.as_deref().map(str::parse::<GatewayUrl>) {
            None => "this process, or the URL in settings".to_owned(),
            Some(Ok(url)) => url.to_string(),
            // The URL may contain a secret, so it is not shown.
            Some(Err(_)) => "an invalid URL".to_owned(),
        }
    }
}
