//! The gateway behind an editor: found when it is first needed, and again when it was lost.
//!
//! Settings are read only here, so that an editor that starts zero hears from it at once, and one
//! whose person made a mistake in them is told of it instead of finding zero gone.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use anyhow::Context;
use tokio::sync::Mutex;
use zero_acp::ClientPreferences;
use zero_client::{GatewayConnection, GatewayDialer, GatewayLinkError, GatewayLocality};
use zero_gateway::{AuthConfig, Gateway};
use zero_runtime::tool::BoxFuture;
use zero_settings::WorkspaceSettings;
use zero_wire::client::{GatewayClient, GatewayCredentials, GatewayTarget, GatewayUrl};

use crate::AppContext;
use crate::cli::RemoteGatewayArgs;
use crate::gateway_connection::{SHUTDOWN_GRACE, local_principal};
use crate::settings_adapter::acp::client_preferences;
use crate::settings_adapter::is_about_settings;

/// Dials the gateway that was named, or the one in this process.
pub(crate) struct EditorGatewayDialer {
    app: AppContext,
    args: RemoteGatewayArgs,
    settings_files: Vec<PathBuf>,
    /// What settings say of editors, once they are read.
    habits: Arc<OnceLock<ClientPreferences>>,
    /// The one in this process, once it was needed.
    embedded: Mutex<Option<Gateway>>,
}

impl EditorGatewayDialer {
    pub(crate) fn new(
        app: AppContext,
        args: RemoteGatewayArgs,
        settings_files: Vec<PathBuf>,
        habits: Arc<OnceLock<ClientPreferences>>,
    ) -> Self {
        Self { app, args, settings_files, habits, embedded: Mutex::default() }
    }

    /// Ends the gateway in this process; what runs in it is given a moment.
    pub(crate) async fn shut_down(&self) {
        if let Some(gateway) = self.embedded.lock().await.take() {
            gateway.shut_down(SHUTDOWN_GRACE).await;
        }
    }

    async fn connect(&self) -> anyhow::Result<Result<GatewayConnection, GatewayLinkError>> {
        let mut embedded = self.embedded.lock().await;
        let gateway = match &*embedded {
            Some(gateway) => gateway.clone(),
            None => {
                let (cwd, settings) = self.read_settings().await?;
                let _ = self.habits.set(client_preferences(&settings));
                self.log_warnings(&settings);
                if let Some(dial) = self.app.remote_dialer(&self.args, &settings)? {
                    tracing::info!(gateway = dial.location(), "connecting");
                    drop(embedded);
                    return Ok(dial.dial().await);
                }
                tracing::info!("starting the gateway in this process");
                let nobody = AuthConfig::deny_all();
                let config =
                    self.app.gateway_config(&settings, &self.settings_files, cwd, nobody).await?;
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
                place: GatewayLocality::InProcess,
            })
            .map_err(GatewayLinkError::from))
    }

    /// The folder of this process, and what is set there. Read where nobody waits for the disk.
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
        for line in settings.trust_note().into_iter().chain(settings.warning()) {
            tracing::info!("{line}");
        }
    }
}

impl GatewayDialer for EditorGatewayDialer {
    fn dial(&self) -> BoxFuture<'_, Result<GatewayConnection, GatewayLinkError>> {
        Box::pin(async {
            self.connect().await.unwrap_or_else(|error| {
                let message = format!("{error:#}");
                Err(match is_about_settings(&error) {
                    true => GatewayLinkError::Settings { message },
                    // What is wrong stays wrong until somebody mends it.
                    false => GatewayLinkError::Unreachable { message, is_passing: false },
                })
            })
        })
    }

    fn location(&self) -> String {
        match self.args.url.as_deref().map(str::parse::<GatewayUrl>) {
            None => "this process, or where settings say".to_owned(),
            Some(Ok(url)) => url.to_string(),
            // It is not shown: it may hold a secret.
            Some(Err(_)) => "an address that is none".to_owned(),
        }
    }
}
