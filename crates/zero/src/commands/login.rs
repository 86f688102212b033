//! `zero login` and `zero logout`: sets up a model, its key and the default, and removes them.

mod key_storage;
mod model_provider;

use std::sync::Arc;

use anyhow::anyhow;
use serde_json::{Value, json};
use zero_session::model::catalog::{ApiKey, ModelConfig};
use zero_session::model::local_servers::{self, LocalModelServer};
use zero_session::model::model_test;
use zero_settings::models::ModelApiSetting;

use self::key_storage::StoredKey;
use self::model_provider::ModelProvider;
use crate::AppContext;
use crate::cli::login::{LoginArgs, LogoutArgs};
use crate::commands::config::keyring_keys::{prompt_key, read_key_from_stdin};
use crate::commands::config::settings_change::{set_user_value, unset_user_value};
use crate::exit::{ExitOutcome, UsageError};
use crate::host_setup::small_runtime;
use crate::settings_adapter::models::to_api;
use crate::terminal::{AnswerSource, escape_line};

/// Most models that are shown of a server.
const MODELS_SHOWN_MAX: usize = 8;
/// How often a wrong choice is asked again.
const CHOICES_MAX: usize = 5;

pub(super) fn log_in(app: &AppContext, args: &LoginArgs) -> anyhow::Result<ExitOutcome> {
    let answers = app.terminal.answer_source().filter(|_| !args.key_stdin);
    let provider = match &args.provider {
        Some(name) => ModelProvider::find(name, args.base_url.as_deref())?,
        None => choose_provider(app, answers.as_ref())?,
    };
    // Validate everything before the user looks for the key.
    let model = choose_model(app, &provider, args.model.as_deref(), answers.as_ref())?;
    let key = read_key(app, &provider, args.key_stdin, answers.as_ref())?;
    let err = &app.terminal.err;
    if !args.no_test {
        err.write(&format!("testing {} with `{}` … ", provider.title, escape_line(&model)))?;
        if let Err(error) = test_model(&provider, &model, key.as_deref()) {
            err.write("failed\n")?;
            return Err(anyhow!(
                "{error}\nnothing was stored; correct it and run `zero login` again, or pass `--no-test`"
            ));
        }
        err.write("it answers\n")?;
    }
    let stored = key.map(|key| key_storage::store(app, &provider.name, &key)).transpose()?;
    let out = &app.terminal.out;
    if let Some(StoredKey { shown, .. }) = &stored {
        out.write(&format!("stored the key {shown}\n"))?;
    }
    let setting = model_setting(&provider, &model, stored.map(|stored| stored.setting));
    set_user_value(app, &format!("models.{}", provider.name), setting)?;
    set_user_value(app, "model", Value::String(provider.name.clone()))?;
    if app.config.variable("ZERO_MODEL").is_some() {
        app.terminal.print_note("ZERO_MODEL is set, and selects the model before this setting");
    }
    out.write("ready; try: zero run \"what does this project do?\"\n")?;
    Ok(ExitOutcome::Ok)
}

pub(super) fn log_out(app: &AppContext, args: &LogoutArgs) -> anyhow::Result<ExitOutcome> {
    // Any name is fine that `zero login` could have taken.
    let name = ModelProvider::find(&args.provider, Some(""))?.name;
    let had_key = key_storage::remove(app, &name)?;
    let out = &app.terminal.out;
    if had_key {
        out.write(&format!("removed the key of `{name}`\n"))?;
    }
    let workspace = app.config.open_workspace(&[])?;
    let settings = app.load_settings(&workspace, &[])?;
    let had_model = settings.models().any(|(known, _)| known == name);
    if had_model {
        unset_user_value(app, &format!("models.{name}"))?;
    }
    if settings.default_model().as_deref() == Some(name.as_str()) {
        unset_user_value(app, "model")?;
    }
    if !had_key && !had_model {
        app.terminal.print_error(&format!(
            "there is nothing to log out of: no key and no model `{name}`; `zero models` lists the models"
        ));
        return Ok(ExitOutcome::Error);
    }
    Ok(ExitOutcome::Ok)
}

/// What `zero login` could set up with what is on this machine: keys in the environment, and model
/// servers with their models.
pub(in crate::commands) async fn find_offered_models(app: &AppContext) -> Vec<String> {
    let keys = ModelProvider::list().into_iter().filter_map(|provider| {
        let variable = provider.key_variable(&app.config)?;
        Some(format!("a key of {} ({variable})", provider.title))
    });
    let mut found: Vec<String> = keys.collect();
    let servers = local_servers::find_local_servers().await;
    found.extend(servers.iter().map(|server| match server.models.is_empty() {
        true => format!("{} without models", server.kind.title()),
        false => format!("{} with {}", server.kind.title(), list_models(&server.models)),
    }));
    found
}

/// Lets the user choose among the known providers and the servers on this machine.
fn choose_provider(
    app: &AppContext,
    answers: Option<&AnswerSource>,
) -> anyhow::Result<ModelProvider> {
    let providers = ModelProvider::list();
    let names: Vec<&str> = providers.iter().map(|provider| provider.name.as_str()).collect();
    let Some(answers) = answers else {
        return Err(UsageError(format!(
            "cannot ask without a terminal; pass `--provider` with one of {}, and `--key-stdin`",
            names.join(", ")
        ))
        .into());
    };
    let servers = find_servers()?;
    let is_offered = |provider: &&ModelProvider| {
        !provider.is_local() || servers.iter().any(|server| server.kind.name() == provider.name)
    };
    let offered: Vec<&ModelProvider> = providers.iter().filter(is_offered).collect();
    let mut question = String::from("Where does the model run?\n");
    for (index, provider) in offered.iter().enumerate() {
        let server = servers.iter().find(|server| server.kind.name() == provider.name);
        let found = server.map_or_else(String::new, |server| {
            format!(" on this machine: {}", list_models(&server.models))
        });
        question.push_str(&format!("  {}  {}{found}\n", index + 1, provider.title));
    }
    if servers.is_empty() {
        question.push_str(
            "No model server runs on this machine (Ollama, llama.cpp, LM Studio, vLLM).\n",
        );
    }
    app.terminal.err.write(&question)?;
    for _ in 0..CHOICES_MAX {
        app.terminal.err.write(&format!("Number or name [1-{}]: ", offered.len()))?;
        let Some(answer) = answers.read_answer() else {
            // The line on the terminal is still open.
            app.terminal.err.write("\n")?;
            break;
        };
        let answer = answer.trim();
        if answer.is_empty() {
            break;
        }
        let by_number =
            answer.parse::<usize>().ok().and_then(|number| offered.get(number.checked_sub(1)?));
        let by_name = || providers.iter().find(|provider| provider.name == answer.to_lowercase());
        if let Some(provider) = by_number.copied().or_else(by_name) {
            return Ok(provider.clone());
        }
        app.terminal.print_note(&format!(
            "`{}` is not one of them; type a number from 1 to {}, one of {}, or Enter to stop. For another server, run `zero login --provider NAME --base-url URL --model MODEL`",
            escape_line(answer),
            offered.len(),
            names.join(", ")
        ));
    }
    Err(UsageError("no provider chosen; nothing changed".to_owned()).into())
}

/// The model that was named, or chosen on the terminal, or the usual one.
fn choose_model(
    app: &AppContext,
    provider: &ModelProvider,
    named: Option<&str>,
    answers: Option<&AnswerSource>,
) -> anyhow::Result<String> {
    let is_name =
        |model: &str| !model.is_empty() && model.bytes().all(|byte| byte.is_ascii_graphic());
    if let Some(model) = named {
        if !is_name(model) {
            return Err(UsageError("`--model` must be a name without spaces".to_owned()).into());
        }
        return Ok(model.to_owned());
    }
    let offered = match (&provider.base_url, provider.needs_key) {
        (Some(base_url), false) => small_runtime()?.block_on(local_servers::list_models(base_url)),
        _ => None,
    };
    let usual = provider.model.map(str::to_owned);
    let usual = usual.or_else(|| offered.as_ref()?.first().cloned());
    let Some(usual) = usual else {
        let place = provider.base_url.as_deref().unwrap_or_default();
        let why = match offered {
            Some(_) => format!("the server at {place} has no models; load one there"),
            None => format!("no model server answers at {place}; start it"),
        };
        return Err(UsageError(format!("{why}, or pass its name with `--model`")).into());
    };
    let Some(answers) = answers else { return Ok(usual) };
    if let Some(offered) = offered.filter(|offered| offered.len() > 1) {
        app.terminal.err.write(&format!("Models there: {}\n", list_models(&offered)))?;
    }
    app.terminal.err.write(&format!("Model [{}]: ", escape_line(&usual)))?;
    let answer = answers.read_answer().unwrap_or_default();
    match answer.trim() {
        "" => Ok(usual),
        answer if is_name(answer) => Ok(answer.to_owned()),
        _ => Err(UsageError("a model's name has no spaces; nothing changed".to_owned()).into()),
    }
}

fn list_models(models: &[String]) -> String {
    let shown: Vec<_> =
        models.iter().take(MODELS_SHOWN_MAX).map(|name| escape_line(name)).collect();
    match models.len().saturating_sub(MODELS_SHOWN_MAX) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

fn find_servers() -> anyhow::Result<Vec<LocalModelServer>> {
    let runtime = small_runtime()?;
    let found = runtime.block_on(local_servers::find_local_servers());
    runtime.shutdown_background();
    Ok(found)
}

/// The key, if the provider needs one or one is given.
fn read_key(
    app: &AppContext,
    provider: &ModelProvider,
    from_stdin: bool,
    answers: Option<&AnswerSource>,
) -> anyhow::Result<Option<String>> {
    if from_stdin {
        return read_key_from_stdin().map(Some);
    }
    if !provider.needs_key {
        return Ok(None);
    }
    let Some(answers) = answers else {
        return Err(UsageError(format!(
            "{} needs a key; pass `--key-stdin` and the key on stdin",
            provider.title
        ))
        .into());
    };
    if let Some(variable) = provider.key_variable(&app.config) {
        let question = format!("Store the key of {variable} and use it? [Y/n] ");
        app.terminal.err.write(&question)?;
        let answer = answers.read_answer().unwrap_or_else(|| "n".to_owned());
        if matches!(answer.trim().to_lowercase().as_str(), "" | "y" | "yes") {
            return Ok(app.config.variable(variable).map(|key| key.trim().to_owned()));
        }
    }
    let page = provider.key_page.map_or_else(String::new, |page| format!(", from {page}"));
    prompt_key(app, &format!("API key of {}{page} (input is hidden): ", provider.title)).map(Some)
}

/// The entry of a model in settings.
fn model_setting(provider: &ModelProvider, model: &str, key: Option<Value>) -> Value {
    let mut setting = json!({"api": provider.api, "model": model});
    if let Some(base_url) = &provider.base_url {
        setting["baseUrl"] = json!(base_url);
    }
    if let Some(key) = key {
        setting["apiKey"] = key;
    }
    setting
}

/// Sends one short request.
fn test_model(provider: &ModelProvider, model: &str, key: Option<&str>) -> anyhow::Result<()> {
    let api: ModelApiSetting = serde_json::from_value(json!(provider.api))?;
    let (api, usual) = to_api(api);
    let key = key.map(ApiKey::new);
    let config = ModelConfig {
        name: provider.name.clone(),
        id: model.to_owned(),
        api,
        base_url: provider.base_url.clone().unwrap_or_else(|| usual.to_owned()),
        key: key.map(|key| Arc::new(move || Ok(key.clone())) as _),
        headers: Vec::new(),
        context_window: None,
        output_tokens_max: None,
        takes_images: None,
        prices: None,
        fallback: Vec::new(),
    };
    let runtime = small_runtime()?;
    let tested = runtime.block_on(model_test::test_model(config));
    runtime.shutdown_background();
    Ok(tested?)
}
