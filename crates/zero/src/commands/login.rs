//! `zero login` and `zero logout`: sets up a model, its key and the default, and removes them.

mod key_storage;
mod model_provider;

use std::sync::Arc;

use anyhow::anyhow;
use serde_json::{Value, json};
use zero_sandbox::typed_input::SignalKeys;
use zero_session::model::catalog::{ApiKey, ModelConfig};
use zero_session::model::local_servers::{self, LocalModelServer};
use zero_session::model::model_test;
use zero_session::model::{ModelError, ModelErrorKind};
use zero_settings::SettingsLayerKind;
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
use crate::settings_file_edit::EditableSettingsFile;
use crate::terminal::filter_list::choose_row;
use crate::terminal::{AnswerSource, escape_line};

/// Most models that are shown of a server.
const MODELS_SHOWN_MAX: usize = 8;
/// What a login sets of a model in settings.
const LOGIN_FIELDS: &[&str] = &["api", "model", "baseUrl", "apiKey"];

pub(super) fn log_in(app: &AppContext, args: &LoginArgs) -> anyhow::Result<ExitOutcome> {
    let answers = app.terminal.answer_source().filter(|_| !args.key_stdin);
    let provider = match &args.provider {
        Some(name) => ModelProvider::find(name, args.base_url.as_deref())?,
        None => choose_provider(app, answers.as_ref())?,
    };
    let (provider, variable) = provider.at_address_of_environment(&app.config);
    if let (Some(variable), Some(address)) = (variable, &provider.base_url) {
        app.terminal.print_note(&format!("{variable} names the server: {}", escape_line(address)));
    }
    // Validate everything before the user looks for the key.
    let model = choose_model(app, &provider, args.model.as_deref(), answers.as_ref())?;
    let mut key = read_key(app, &provider, args.key_stdin, answers.as_ref())?;
    if !args.no_test {
        let mut tested = report_test(app, &provider, &model, key.as_deref())?;
        let wants_key =
            matches!(&tested, Err(error) if error.kind == ModelErrorKind::Auth) && key.is_none();
        if wants_key && answers.is_some() {
            app.terminal.print_note("the server wants a key");
            key = Some(prompt_provider_key(app, &provider)?);
            tested = report_test(app, &provider, &model, key.as_deref())?;
        }
        if let Err(error) = tested {
            return Err(anyhow!(
                "{error}\nnothing was stored; correct it and run `zero login` again, or pass `--no-test`"
            ));
        }
    }
    let stored = key.map(|key| key_storage::store(app, &provider.name, &key)).transpose()?;
    let out = &app.terminal.out;
    if let Some(StoredKey { shown, .. }) = &stored {
        out.write(&format!("stored the key {shown}\n"))?;
    }
    let mut setting = model_setting(&provider, &model, stored.map(|stored| stored.setting));
    keep_other_fields(app, &provider.name, &mut setting)?;
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
    if servers.is_empty() {
        question.push_str(
            "No model server runs on this machine (Ollama, llama.cpp, LM Studio, vLLM).\n",
        );
    }
    question.push_str(
        "For another server, run `zero login --provider NAME --base-url URL --model MODEL`.\n",
    );
    app.terminal.err.write_prose(&question, 0)?;
    let describe = |provider: &&ModelProvider| {
        let server = servers.iter().find(|server| server.kind.name() == provider.name);
        let key = provider.key_variable(&app.config);
        match (server, key) {
            (Some(server), _) => {
                format!("{} on this machine: {}", provider.title, list_models(&server.models))
            }
            (None, Some(variable)) => format!("{} with the key of {variable}", provider.title),
            (None, None) => provider.title.clone(),
        }
    };
    let rows: Vec<String> = offered.iter().map(describe).collect();
    // Whose key or server is here comes to mind first.
    let is_ready = |provider: &&ModelProvider| {
        provider.is_local() || provider.key_variable(&app.config).is_some()
    };
    let ready = offered.iter().position(is_ready);
    let keys = answers.open_keys(SignalKeys::AreRead)?;
    let chosen = choose_row(&app.terminal.err, &keys, &rows, ready)?;
    let chosen = chosen.and_then(|at| offered.get(at));
    let Some(chosen) = chosen else {
        return Err(UsageError("no provider chosen; nothing changed".to_owned()).into());
    };
    Ok((*chosen).clone())
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
    let ending = format!(" [{}]: ", escape_line(&usual));
    let Some(answer) = app.terminal.read_line(answers, "Model", &ending) else {
        return Err(UsageError("no model chosen; nothing changed".to_owned()).into());
    };
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
        let question = format!("Store the key of {variable} and use it?");
        let answer = app.terminal.read_line(answers, &question, " [Y/n] ");
        let answer = answer.unwrap_or_else(|| "n".to_owned());
        if matches!(answer.trim().to_lowercase().as_str(), "" | "y" | "yes") {
            return Ok(app.config.variable(variable).map(|key| key.trim().to_owned()));
        }
    }
    prompt_provider_key(app, provider).map(Some)
}

fn prompt_provider_key(app: &AppContext, provider: &ModelProvider) -> anyhow::Result<String> {
    let page = provider.key_page.map_or_else(String::new, |page| format!(", from {page}"));
    prompt_key(app, &format!("API key of {}{page} (input is hidden): ", provider.title))
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

/// Adds what the user's settings have for the model besides what a login is about, such as its prices.
fn keep_other_fields(app: &AppContext, name: &str, setting: &mut Value) -> anyhow::Result<()> {
    let workspace = app.config.open_workspace(&[])?;
    let file = EditableSettingsFile::new(app, &workspace, SettingsLayerKind::User)?;
    let Some(text) = file.read_existing()? else { return Ok(()) };
    // A file that is not valid is reported when it is written.
    let Ok(mut known) = serde_json::from_str::<Value>(&text) else { return Ok(()) };
    let known = known.get_mut("models").and_then(|models| models.get_mut(name));
    let (Some(Value::Object(known)), Some(setting)) = (known, setting.as_object_mut()) else {
        return Ok(());
    };
    for (field, value) in std::mem::take(known) {
        if !LOGIN_FIELDS.contains(&field.as_str()) {
            setting.insert(field, value);
        }
    }
    Ok(())
}

/// Tests a model, and shows that it does so and how it went.
fn report_test(
    app: &AppContext,
    provider: &ModelProvider,
    model: &str,
    key: Option<&str>,
) -> anyhow::Result<Result<(), ModelError>> {
    let err = &app.terminal.err;
    err.write(&format!("testing {} with `{}` … ", provider.title, escape_line(model)))?;
    let tested = test_model(provider, model, key)?;
    err.write(if tested.is_ok() { "it answers\n" } else { "failed\n" })?;
    Ok(tested)
}

/// Sends one short request.
fn test_model(
    provider: &ModelProvider,
    model: &str,
    key: Option<&str>,
) -> anyhow::Result<Result<(), ModelError>> {
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
        is_trial: true,
    };
    let runtime = small_runtime()?;
    let tested = runtime.block_on(model_test::test_model(config));
    runtime.shutdown_background();
    Ok(tested)
}
