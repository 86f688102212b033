//! `zero models`: the models of settings and environment, and the servers on this machine.

use serde_json::json;
use zero_session::agent::DIRECT;
use zero_session::model::catalog::ModelConfig;
use zero_session::model::local_servers::{self, LocalModelServer};

use crate::AppContext;
use crate::cli::login::ModelsArgs;
use crate::exit::ExitOutcome;
use crate::host_setup::small_runtime;
use crate::terminal::{BAD, FAINT, GOOD, STRONG, TableCell, TextTable, escape_line};

/// Most models that are shown of a server.
const MODELS_SHOWN_MAX: usize = 20;

/// Whether the key of a model is there.
enum KeyState {
    NotNeeded,
    Found,
    Missing(String),
}

impl KeyState {
    fn of(config: &ModelConfig) -> Self {
        match config.key.as_ref().map(|read| read()) {
            None => Self::NotNeeded,
            Some(Ok(_)) => Self::Found,
            Some(Err(error)) => Self::Missing(error.to_string()),
        }
    }

    fn word(&self) -> &'static str {
        match self {
            Self::NotNeeded => "none",
            Self::Found => "found",
            Self::Missing(_) => "missing",
        }
    }
}

pub(super) fn run(app: &AppContext, args: &ModelsArgs) -> anyhow::Result<ExitOutcome> {
    let folder = args.workspace.as_slice();
    let workspace = app.config.open_workspace(folder)?;
    let settings = app.load_settings(&workspace, &args.settings)?;
    let (configs, default) = app.model_configs(&settings);
    let default = default.filter(|name| name != DIRECT);
    let runtime = small_runtime()?;
    let servers = runtime.block_on(local_servers::find_local_servers());
    runtime.shutdown_background();
    let with_key = |config: ModelConfig| {
        let key = KeyState::of(&config);
        (config, key)
    };
    let models: Vec<(ModelConfig, KeyState)> = configs.into_iter().map(with_key).collect();
    let exit = if models.is_empty() { ExitOutcome::Error } else { ExitOutcome::Ok };
    let out = &app.terminal.out;
    if args.json {
        let models: Vec<_> = models
            .iter()
            .map(|(config, key)| {
                let problem = match key {
                    KeyState::Missing(why) => Some(why),
                    _ => None,
                };
                json!({
                    "name": config.name,
                    "model": config.id,
                    "baseUrl": config.base_url,
                    "key": key.word(),
                    "problem": problem,
                    "default": default.as_deref() == Some(config.name.as_str()),
                })
            })
            .collect();
        let local: Vec<_> = servers
            .iter()
            .map(|server| {
                json!({"provider": server.kind.name(), "baseUrl": server.base_url, "models": server.models})
            })
            .collect();
        out.write_pretty_json(&json!({"default": default, "models": models, "local": local}))?;
        return Ok(exit);
    }
    if models.is_empty() {
        app.terminal.print_note("no model is configured; to set one up, run `zero login`");
    } else {
        let mut table = TextTable::new(["MODEL", "DEFAULT", "ID", "SERVER", "KEY"]);
        for (config, key) in &models {
            let is_default = default.as_deref() == Some(config.name.as_str());
            let style = match key {
                KeyState::NotNeeded => FAINT,
                KeyState::Found => GOOD,
                KeyState::Missing(_) => BAD,
            };
            table.add_row([
                TableCell::styled(&config.name, STRONG),
                if is_default { "yes" } else { "" }.into(),
                config.id.as_str().into(),
                config.origin().into(),
                TableCell::styled(key.word(), style),
            ]);
        }
        out.write(&table.render(out))?;
        for (config, key) in &models {
            if let KeyState::Missing(why) = key {
                app.terminal
                    .print_note(&format!("`{}` has no key: {why}", escape_line(&config.name)));
            }
        }
    }
    for server in &servers {
        out.write(&describe_server(server))?;
    }
    Ok(exit)
}

fn describe_server(server: &LocalModelServer) -> String {
    let LocalModelServer { kind, base_url, models } = server;
    let (title, name) = (kind.title(), kind.name());
    let Some(first) = models.first() else {
        return format!("\n{title} runs on this machine at {base_url} and has no models\n");
    };
    let shown: Vec<_> =
        models.iter().take(MODELS_SHOWN_MAX).map(|model| escape_line(model)).collect();
    let more = match models.len().saturating_sub(MODELS_SHOWN_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!(
        "\n{title} runs on this machine at {base_url} with {}{more}\n  to use it: zero login --provider {name} --model {}\n",
        shown.join(", "),
        zero_core::shell_quoting::quote_shell_word(first)
    )
}
