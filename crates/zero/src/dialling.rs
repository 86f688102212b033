//! The gateway behind an editor: found when it is first needed, and again when it was lost.
//!
//! Settings are read only here, so that an editor that starts zero hears from it at once, and one
//! whose person made a mistake in them is told of it instead of finding zero gone.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use anyhow::Context;
use tokio::sync::Mutex;
use zero_acp::Habits;
use zero_client::{Dial, Dialled, LinkError, Place};
use zero_gateway::{AuthConfig, Gateway};
use zero_runtime::tool::BoxFuture;
use zero_wire::client::{Client, Credentials, GatewayUrl, Target};

use crate::App;
use crate::cli::RemoteArgs;
use crate::connection::{GRACE, this_person};
use crate::settings::{Settings, is_about_settings};

/// Dials the gateway that was named, or the one in this process.
pub(crate) struct Dialling {
    app: App,
    args: RemoteArgs,
    settings_files: Vec<PathBuf>,
    /// What settings say of editors, once they are read.
    habits: Arc<OnceLock<Habits>>,
    /// The one in this process, once it was needed.
    embedded: Mutex<Option<Gateway>>,
}

impl Dialling {
    pub(crate) fn new(
        app: App,
        args: RemoteArgs,
        settings_files: Vec<PathBuf>,
        habits: Arc<OnceLock<Habits>>,
    ) -> Self {
        Self { app, args, settings_files, habits, embedded: Mutex::default() }
    }

    /// Ends the gateway in this process; what runs in it is given a moment.
    pub(crate) async fn end(&self) {
        if let Some(gateway) = self.embedded.lock().await.take() {
            gateway.shut_down(GRACE).await;
        }
    }

    async fn connect(&self) -> anyhow::Result<Result<Dialled, LinkError>> {
        let mut embedded = self.embedded.lock().await;
        let gateway = match &*embedded {
            Some(gateway) => gateway.clone(),
            None => {
                let (cwd, settings) = self.read().await?;
                let _ = self.habits.set(settings.acp());
                self.warn(&settings);
                if let Some(dial) = self.app.dial(&self.args, &settings)? {
                    tracing::info!(gateway = dial.whereabouts(), "connecting");
                    drop(embedded);
                    return Ok(dial.dial().await);
                }
                tracing::info!("starting the gateway in this process");
                let nobody = AuthConfig::nobody();
                let config = self.app.gateway(&settings, &self.settings_files, cwd, nobody).await?;
                embedded.insert(Gateway::new(config)).clone()
            }
        };
        drop(embedded);
        let (near, far) = zero_wire::pipe::pipe();
        gateway.attach(far, this_person());
        let options = self.app.near_side(Credentials::default());
        let connected = Client::connect(Target::Pipe(near), options).await;
        Ok(connected
            .map(|(client, events)| Dialled { client, events, place: Place::Here })
            .map_err(LinkError::from))
    }

    /// The folder of this process, and what is set there. Read where nobody waits for the disk.
    async fn read(&self) -> anyhow::Result<(PathBuf, Settings)> {
        let (app, files) = (self.app.clone(), self.settings_files.clone());
        let read = tokio::task::spawn_blocking(move || {
            let workspace = app.config.workspace(&[])?;
            let settings = app.settings(&workspace, &files)?;
            anyhow::Ok((workspace.cwd().to_owned(), settings))
        });
        read.await.context("zero is shutting down")?
    }

    fn warn(&self, settings: &Settings) {
        for line in settings.note().into_iter().chain(settings.warning()) {
            tracing::info!("{line}");
        }
    }
}

impl Dial for Dialling {
    fn dial(&self) -> BoxFuture<'_, Result<Dialled, LinkError>> {
        Box::pin(async {
            self.connect().await.unwrap_or_else(|error| {
                let message = format!("{error:#}");
                Err(match is_about_settings(&error) {
                    true => LinkError::Settings { message },
                    // What is wrong stays wrong until somebody mends it.
                    false => LinkError::Unreachable { message, is_passing: false },
                })
            })
        })
    }

    fn whereabouts(&self) -> String {
        match self.args.url.as_deref().map(str::parse::<GatewayUrl>) {
            None => "this process, or where settings say".to_owned(),
            Some(Ok(url)) => url.to_string(),
            // It is not shown: it may hold a secret.
            Some(Err(_)) => "an address that is none".to_owned(),
        }
    }
}
