//! API key of the model that an editor uses: where it is configured, and whether it is available.

use std::path::PathBuf;
use std::time::Duration;

use tokio::time::timeout;
use zero_acp::{ImageSupport, ModelKeyChecker, ModelKeyError};
use zero_runtime::tool::BoxFuture;
use zero_session::agent::DIRECT;
use zero_session::model::catalog::ModelConfig;
use zero_settings::WorkspaceSettings;
use zero_settings::models::SecretSetting;

use crate::AppContext;
use crate::cli::AcpArgs;
use crate::error_chain::describe_error;
use crate::settings_adapter::is_about_settings;
use crate::settings_adapter::models::read_secret;

/// Time limit for reading the keyring.
const KEYRING_TIME: Duration = Duration::from_secs(20);

/// Model of new sessions and the configured source of its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ModelKeyRequirement {
    /// Name of the model in settings.
    pub(crate) model: String,
    /// Source of the key.
    pub(crate) secret: SecretSetting,
}

impl ModelKeyRequirement {
    /// Key requirement of the model of new sessions. `None` if there is no model, if it needs no
    /// key, or if a remote gateway calls it.
    pub(crate) fn for_new_sessions(
        app: &AppContext,
        settings_files: &[PathBuf],
        agent: Option<&str>,
    ) -> anyhow::Result<Option<Self>> {
        let workspace = app.config.open_workspace(&[])?;
        let settings = app.load_settings(&workspace, settings_files)?;
        if has_remote_gateway(&settings) {
            return Ok(None);
        }
        let (model, _) = model_of_new_sessions(app, &settings, agent)?;
        let secret = model.as_deref().and_then(|model| settings.model_key(model).cloned());
        Ok(model.zip(secret).map(|(model, secret)| Self { model, secret }))
    }

    /// Why the key cannot be read; `None` if it can.
    pub(crate) fn missing_reason(&self, app: &AppContext) -> Option<String> {
        let why = read_secret(&self.secret, &app.config).err()?;
        Some(format!("the model `{}` has no key: {why}", self.model))
    }
}

/// Whether the model of new sessions accepts images.
pub(crate) fn image_support(
    app: &AppContext,
    settings_files: &[PathBuf],
    agent: Option<&str>,
) -> anyhow::Result<ImageSupport> {
    let workspace = app.config.open_workspace(&[])?;
    let settings = app.load_settings(&workspace, settings_files)?;
    if has_remote_gateway(&settings) {
        return Ok(ImageSupport::Unknown);
    }
    let (model, configs) = model_of_new_sessions(app, &settings, agent)?;
    // Without a model, prompts are commands.
    let Some(model) = model else { return Ok(ImageSupport::No) };
    let config = configs.iter().find(|config| config.name == model);
    Ok(match config.map(ModelConfig::accepts_images) {
        Some(true) => ImageSupport::Yes,
        Some(false) => ImageSupport::No,
        // The first prompt names the problem.
        None => ImageSupport::Unknown,
    })
}

fn has_remote_gateway(settings: &WorkspaceSettings) -> bool {
    settings.gateway().remote.is_some_and(|remote| remote.url.is_some())
}

/// Name of the model of new sessions, and all models; `None` if there is none.
fn model_of_new_sessions(
    app: &AppContext,
    settings: &WorkspaceSettings,
    agent: Option<&str>,
) -> anyhow::Result<(Option<String>, Vec<ModelConfig>)> {
    let agents = app.load_agents(settings)?;
    let agent = agents.get(agent.unwrap_or(agents.default_id()));
    let (configs, usual) = app.model_configs(settings);
    let model = agent.and_then(|agent| agent.model.clone()).or(usual);
    Ok((model.filter(|model| model != DIRECT), configs))
}

/// Checks the key on each call, since the user may have stored it in the meantime.
#[derive(Clone)]
pub(crate) struct LocalModelKeys {
    app: AppContext,
    settings_files: Vec<PathBuf>,
    agent: Option<String>,
}

impl LocalModelKeys {
    pub(crate) fn new(app: AppContext, args: &AcpArgs) -> Self {
        Self { app, settings_files: args.settings.clone(), agent: args.agent.clone() }
    }

    fn check_blocking(&self) -> Result<(), ModelKeyError> {
        let requirement = ModelKeyRequirement::for_new_sessions(
            &self.app,
            &self.settings_files,
            self.agent.as_deref(),
        );
        match requirement {
            Ok(key_requirement) => match key_requirement
                .and_then(|requirement| requirement.missing_reason(&self.app))
            {
                None => Ok(()),
                Some(why) => Err(ModelKeyError::Missing(why)),
            },
            Err(error) if is_about_settings(&error) => {
                Err(ModelKeyError::Settings(describe_error(&error)))
            }
            Err(error) => Err(ModelKeyError::Missing(describe_error(&error))),
        }
    }
}

impl ModelKeyChecker for LocalModelKeys {
    fn check(&self) -> BoxFuture<'_, Result<(), ModelKeyError>> {
        let keys = self.clone();
        Box::pin(async move {
            let checked = tokio::task::spawn_blocking(move || keys.check_blocking());
            match timeout(KEYRING_TIME, checked).await {
                Ok(Ok(checked)) => checked,
                _ => Err(ModelKeyError::Missing(
                    "the desktop's keyring does not respond; make sure that it runs and is unlocked"
                        .to_owned(),
                )),
            }
        })
    }
}
