//! The available models by name, from settings or from the usual environment variables.
//!
//! A model named `provider/id` also makes its provider known, and so does a model of the settings by
//! its name: any other model id of that provider can be selected without being listed.

mod environment;

use std::collections::BTreeMap;
use std::sync::Arc;

use url::Url;
use zero_core::ExtraRootCertificates;
use zero_core::text_shortening::excerpt;
use zero_runtime::name_suggestions::suggest_names;

use self::environment::OLLAMA;
pub use self::environment::{default_model_name, from_environment};

use crate::agent::DIRECT;
use crate::direct_model::{DirectModel, is_direct};
use crate::model::anthropic::AnthropicProtocol;
use crate::model::fallback_model::FallbackModel;
use crate::model::gemini::GeminiProtocol;
use crate::model::http_model::{HttpModel, SharedHttpClient};
use crate::model::known_models::lookup_model;
pub use crate::model::model_config::{ApiKey, ApiKeySource, ModelApi, ModelConfig};
use crate::model::openai_chat::OpenAiChatProtocol;
use crate::model::openai_responses::OpenAiResponsesProtocol;
use crate::model::protocol::ModelProtocol;
use crate::model::{ModelClient, ModelError, ModelErrorKind, ModelHttpLimits, ModelInfo};

/// Maximum number of names in an error message.
const LISTED_MAX: usize = 20;
/// Maximum length of a model name, in bytes.
const NAME_BYTES_MAX: usize = 256;

/// The available models.
#[derive(Default)]
pub struct ModelCatalog {
    by_name: BTreeMap<String, Result<Arc<dyn ModelClient>, ModelError>>,
    default: Option<String>,
    /// Configuration used for other models of a provider.
    providers: BTreeMap<String, ModelConfig>,
    /// Names of the models that stand in for a model.
    fallbacks: BTreeMap<String, Vec<String>>,
    client: SharedHttpClient,
}

impl ModelCatalog {
    /// Creates a catalog of these models. `default` is used by agents that name none; without it,
    /// they use `direct`.
    pub fn new(models: Vec<Arc<dyn ModelClient>>, default: Option<String>) -> Self {
        let by_name = models.into_iter().map(|model| (model.info().name.clone(), Ok(model)));
        Self { by_name: by_name.collect(), default, ..Self::default() }
    }

    /// Creates a catalog of these models and of all other models of their providers. A model that
    /// cannot be used reports its error when it is requested and does not affect others. If two
    /// have the same name, the later one is used. Without a default model, the agent without a
    /// model is used.
    pub fn from_configs(configs: Vec<ModelConfig>, default: Option<String>) -> Self {
        Self::with_extra_roots(ExtraRootCertificates::default(), configs, default)
    }

    /// Trusts these certificates in addition to those of the system.
    pub fn with_extra_roots(
        extra_roots: ExtraRootCertificates,
        configs: Vec<ModelConfig>,
        default: Option<String>,
    ) -> Self {
        let default = Some(default.unwrap_or_else(|| DIRECT.to_owned()));
        let client = SharedHttpClient::with_extra_roots(extra_roots);
        let mut models = Self { default, client, ..Self::default() };
        models.by_name.insert(DIRECT.to_owned(), Ok(Arc::new(DirectModel::new())));
        for config in configs {
            match config.name.split_once('/') {
                Some((provider, id)) if id == config.id => {
                    models.providers.insert(provider.to_owned(), config.clone());
                }
                Some(_) => {}
                // The environment comes first, so that the same name means the same as before.
                None => {
                    models.providers.entry(config.name.clone()).or_insert_with(|| config.clone());
                }
            }
            let name = config.name.clone();
            match config.fallback.is_empty() {
                true => models.fallbacks.remove(&name),
                false => models.fallbacks.insert(name.clone(), config.fallback.clone()),
            };
            models.by_name.insert(name, models.build(config));
        }
        models
    }

    /// Returns the model with that name, or the default model.
    pub fn get(&self, name: Option<&str>) -> Result<Arc<dyn ModelClient>, ModelError> {
        let Some(name) = name.or(self.default.as_deref()) else {
            return Err(self.no_model_error());
        };
        if let Some(model) = self.by_name.get(name) {
            return model.clone();
        }
        self.find_by_provider(name).unwrap_or_else(|| Err(self.unknown_model_error(name)))
    }

    /// The model with that name, or the default model, for one run. Those of `fallback`, or of its own
    /// settings, stand in for it, except those that [`Self::check_fallback`] finds wrong. `current` is the one that
    /// the run had fallen back to, if it continues.
    pub fn get_with_fallback(
        &self,
        name: Option<&str>,
        fallback: Option<&[String]>,
        current: Option<&str>,
    ) -> Result<Arc<dyn ModelClient>, ModelError> {
        let model = self.get(name)?;
        let own = self.fallbacks.get(&model.info().name).map_or(&[][..], Vec::as_slice);
        let names = fallback.unwrap_or(own).iter();
        let others = names.filter(|name| **name != model.info().name);
        let fallback_models: Vec<_> = others
            .filter_map(|name| self.get(Some(name)).ok())
            .filter(|model| !is_direct(&**model))
            .collect();
        Ok(match fallback_models.is_empty() || is_direct(&*model) {
            true => model,
            false => {
                let model = FallbackModel::new(model, fallback_models);
                Arc::new(current.into_iter().fold(model, FallbackModel::starting_with))
            }
        })
    }

    /// Fails if a model that stands in for another one does not exist or is the same. `owner` is the
    /// setting that names it.
    pub fn check_fallback(&self, owner: &str, name: &str) -> Result<(), String> {
        let model = self.get(Some(name));
        match model {
            Ok(model) if is_direct(&*model) => {
                Err(format!("`{owner}.fallback` names `{DIRECT}`, which is not a model"))
            }
            Ok(_) => Ok(()),
            Err(error) => Err(format!("`{owner}.fallback` names `{name}`: {error}")),
        }
    }

    /// The models with others that stand in for them, and the names of these.
    pub fn fallbacks(&self) -> impl Iterator<Item = (&str, &[String])> {
        self.fallbacks.iter().map(|(name, others)| (name.as_str(), others.as_slice()))
    }

    /// The names of the listed models.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.by_name.keys().map(String::as_str)
    }

    /// The name of the default model.
    pub fn default_name(&self) -> Option<&str> {
        self.default.as_deref()
    }

    fn build(&self, config: ModelConfig) -> Result<Arc<dyn ModelClient>, ModelError> {
        build_model(ModelHttpLimits::default(), config, self.client.clone())
    }

    /// Creates an unlisted model of a known provider.
    fn find_by_provider(&self, name: &str) -> Option<Result<Arc<dyn ModelClient>, ModelError>> {
        let (provider, id) = name.split_once('/')?;
        let like = self.providers.get(provider)?;
        let is_name = !id.is_empty()
            && name.len() <= NAME_BYTES_MAX
            && id.bytes().all(|byte| byte.is_ascii_graphic());
        is_name.then(|| {
            self.build(ModelConfig {
                name: name.to_owned(),
                id: id.to_owned(),
                // The properties of the configured model do not apply to others. Only Ollama uses
                // the same window for all models.
                context_window: like.context_window.filter(|_| provider == OLLAMA),
                output_tokens_max: None,
                takes_images: None,
                prices: None,
                fallback: Vec::new(),
                ..like.clone()
            })
        })
    }

    fn unknown_model_error(&self, name: &str) -> ModelError {
        if self.by_name.is_empty() {
            return self.no_model_error();
        }
        let mut names = suggest_names(name, self.names(), LISTED_MAX);
        let others = self.names().filter(|name| !names.iter().any(|similar| similar == name));
        let others: Vec<String> = others.map(str::to_owned).collect();
        names.extend(others);
        let left_out = names.len().saturating_sub(LISTED_MAX);
        names.truncate(LISTED_MAX);
        let names = names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        let more = if left_out > 0 { format!(" and {left_out} more") } else { String::new() };
        let shown = excerpt(name, NAME_BYTES_MAX);
        let mut message = format!("there is no model `{shown}`; there are {names}{more}");
        if let Some(provider) = self.providers.keys().next() {
            message +=
                &format!(", and any other of a provider by its own name, such as `{provider}/…`");
        }
        ModelError::new(ModelErrorKind::InvalidRequest, message)
    }

    fn no_model_error(&self) -> ModelError {
        let message = match self.by_name.is_empty() {
            true => NO_MODEL_HELP.to_owned(),
            false => {
                let names = self.names().take(LISTED_MAX).map(|name| format!("`{name}`"));
                let names = names.collect::<Vec<_>>().join(", ");
                format!(
                    "no model was chosen; set ZERO_MODEL, or `model` in settings, to one of {names}"
                )
            }
        };
        ModelError::new(ModelErrorKind::InvalidRequest, message)
    }
}

/// Message if no model is configured.
pub const NO_MODEL_HELP: &str = "no model is configured; run `zero login`, or set OPENAI_API_KEY, \
    ANTHROPIC_API_KEY or GEMINI_API_KEY, or OLLAMA_HOST for local models, or add one under `models` \
    in settings; ZERO_MODEL selects one of several";

/// Creates a model client with this configuration and these limits.
pub fn open_model_with_limits(
    limits: ModelHttpLimits,
    config: ModelConfig,
) -> Result<Arc<dyn ModelClient>, ModelError> {
    build_model(limits, config, SharedHttpClient::default())
}

fn build_model(
    limits: ModelHttpLimits,
    config: ModelConfig,
    client: SharedHttpClient,
) -> Result<Arc<dyn ModelClient>, ModelError> {
    let protocol = protocol_for(&config)?;
    let info = model_info(&config);
    Ok(Arc::new(HttpModel::new(info, config, protocol, client, limits)?))
}

fn protocol_for(config: &ModelConfig) -> Result<Arc<dyn ModelProtocol>, ModelError> {
    // An invalid address is reported when the client is created.
    let base = Url::parse(&config.base_url).ok();
    match config.api {
        ModelApi::OpenAiChat => Ok(Arc::new(OpenAiChatProtocol::for_base_url(base.as_ref()))),
        ModelApi::OpenAiResponses => {
            Ok(Arc::new(OpenAiResponsesProtocol::for_base_url(base.as_ref())))
        }
        ModelApi::Anthropic => Ok(Arc::new(AnthropicProtocol)),
        ModelApi::Gemini => Ok(Arc::new(GeminiProtocol)),
    }
}

fn model_info(config: &ModelConfig) -> ModelInfo {
    let known = lookup_model(&config.id);
    let context_window = config.context_window.unwrap_or(known.context_window);
    let output_tokens_max = config.output_tokens_max.unwrap_or(known.output_tokens_max);
    ModelInfo {
        name: config.name.clone(),
        id: config.id.clone(),
        family: known.family.to_owned(),
        context_window,
        output_tokens_max: output_tokens_max.min(context_window),
        takes_images: config.accepts_images(),
        prices: config.prices.or(known.prices),
    }
}

#[cfg(test)]
mod tests;
