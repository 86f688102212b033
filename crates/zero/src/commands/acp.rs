//! `zero acp`: runs as an agent for editors.
//!
//! The `initialize` request is answered immediately. Settings, tools and the session store are opened
//! with the first session.

use std::sync::{Arc, OnceLock};

use anyhow::Context;
use tokio_util::sync::CancellationToken;
use zero_acp::{AcpConfig, FolderPrefixPolicy, ImageSupport, SessionOpenDefaults, TerminalLogin};
use zero_client::GatewayLink;
use zero_runtime::schema::foreign_schema;
use zero_runtime::stdio::open_stdio_with;
use zero_sandbox::{process_memory, stdio_guard};
use zero_settings::models::SecretSetting;
use zero_settings::settings_schema;
use zero_wire::frame;
use zero_wire::handshake::Connect;
use zero_wire::method::GatewayMethod;
use zero_wire::params::ParamsChecker;
use zero_wire::tools::{ToolsAttach, ToolsOffer};
use zero_wire::zero_sessions::{ZeroSessionsChoices, ZeroSessionsOpen};

use crate::AppContext;
use crate::cli::AcpArgs;
use crate::commands::config::keyring_keys;
use crate::commands::tools_call::signals;
use crate::editor_tool_hosts::EditorToolHostFactory;
use crate::exit::{ExitOutcome, UsageError};
use crate::gateway_dialer::LazyGatewayDialer;
use crate::host_setup::small_runtime;
use crate::idle_trim;
use crate::model_key::{self, LocalModelKeys, ModelKeyRequirement};

/// Parameter checkers of the requests that open a session.
const OPEN_METHODS: [fn() -> &'static ParamsChecker; 5] = [
    Connect::checker,
    ZeroSessionsOpen::checker,
    ToolsAttach::checker,
    ToolsOffer::checker,
    ZeroSessionsChoices::checker,
];

pub(super) fn run(app: &AppContext, args: &AcpArgs) -> anyhow::Result<ExitOutcome> {
    if args.login {
        return login(app, args);
    }
    app.terminal.print_protocol_hint(
        "the Agent Client Protocol",
        "configure your editor to start `zero acp` (see `zero help editor`), or use `zero run` here",
    );
    let output = stdio_guard::take_stdout().context("could not reserve stdout for the editor")?;
    let app =
        app.with_secret_files(args.remote.token_file.iter().chain(&args.remote.password_file));
    process_memory::limit_arenas(1);
    spawn_preparation(&app);
    // One thread: the work of a session between two awaits is short, and waking another thread would
    // take longer than the work itself.
    let runtime = small_runtime()?;
    runtime.spawn(idle_trim::trim_when_idle());
    let served = runtime.block_on(async {
        let stop = CancellationToken::new();
        signals::cancel_on_interrupt(&stop);
        let (input, output) =
            open_stdio_with(output, stop).context("could not open stdin and stdout")?;
        let preferences = Arc::new(OnceLock::new());
        let dialling = Arc::new(LazyGatewayDialer::new(
            app.clone(),
            args.remote.clone(),
            args.settings.clone(),
            Arc::clone(&preferences),
        ));
        let config = AcpConfig {
            link: GatewayLink::new(Arc::clone(&dialling) as _),
            tool_hosts: Arc::new(EditorToolHostFactory::new(app.clone(), args.settings.clone())),
            defaults: defaults(args),
            home: app.config.home().map(Into::into),
            login: configured_login(&app, args),
            images: image_support(&app, args),
            preferences,
        };
        let served = zero_acp::serve(config, input, output).await;
        dialling.shut_down().await;
        served.context("could not serve the editor")
    });
    // A pending read of stdin must not delay the exit.
    runtime.shutdown_background();
    served.map(|()| ExitOutcome::Ok)
}

/// Prepares schemas and checkers in a thread during the handshake, since they take time and depend on
/// nothing. Code that needs one earlier waits for it, or creates it if the thread did not start.
fn spawn_preparation(app: &AppContext) {
    let tools = Arc::clone(&app.tools);
    // The order is that in which the first session needs them.
    let prepare = move || {
        settings_schema::prepare();
        frame::warm_up_checkers();
        for checker in OPEN_METHODS {
            checker();
        }
        for tool in tools.iter() {
            foreign_schema::mark_accepted(&tool.spec().input_schema);
        }
    };
    let _ = std::thread::Builder::new().name("zero-prepare".to_owned()).spawn(prepare);
}

/// `--login`: asks for the API key of the model. Editors run this in a terminal, with the arguments
/// that they also start the agent with.
fn login(app: &AppContext, args: &AcpArgs) -> anyhow::Result<ExitOutcome> {
    let key_requirement = match args.remote.url {
        None => ModelKeyRequirement::for_new_sessions(app, &args.settings, args.agent.as_deref())?,
        Some(_) => None,
    };
    let out = &app.terminal.out;
    match key_requirement {
        None => out.write("nothing to do: no API key is needed (no model configured, a model without a key, or a remote gateway)\n")?,
        Some(ModelKeyRequirement { secret: SecretSetting::Keyring(name), .. }) => {
            return keyring_keys::prompt_and_store(app, &name);
        }
        Some(requirement) => match requirement.missing_reason(app) {
            Some(why) => return Err(UsageError(why).into()),
            None => out.write(&format!("the key of `{}` is already stored\n", requirement.model))?,
        },
    }
    Ok(ExitOutcome::Ok)
}

/// Login method offered to the editor; `None` with `--url`, where the remote gateway has the keys.
fn configured_login(app: &AppContext, args: &AcpArgs) -> Option<TerminalLogin> {
    if args.remote.url.is_some() {
        return None;
    }
    let cwd = app.config.cwd().ok()?;
    let mut started = vec!["acp".to_owned()];
    for file in &args.settings {
        started.extend(["--settings".to_owned(), cwd.join(file).display().to_string()]);
    }
    if let Some(agent) = &args.agent {
        started.extend(["--agent".to_owned(), agent.clone()]);
    }
    Some(TerminalLogin {
        keys: Arc::new(LocalModelKeys::new(app.clone(), args)),
        program: app.config.program()?.to_owned(),
        asks: "--login",
        args: started,
    })
}

/// What tells whether the model of new sessions accepts images. A remote gateway has models of its own.
fn image_support(app: &AppContext, args: &AcpArgs) -> Box<dyn Fn() -> ImageSupport + Send + Sync> {
    if args.remote.url.is_some() {
        return Box::new(|| ImageSupport::Unknown);
    }
    let (app, settings, agent) = (app.clone(), args.settings.clone(), args.agent.clone());
    // Settings that cannot be read are reported with the first session.
    Box::new(move || {
        let support = model_key::image_support(&app, &settings, agent.as_deref());
        support.unwrap_or(ImageSupport::Unknown)
    })
}

fn defaults(args: &AcpArgs) -> SessionOpenDefaults {
    SessionOpenDefaults {
        key: args.session.clone(),
        label: args.session_label.clone(),
        agent: args.agent.clone(),
        reset: args.reset_session,
        require_existing: args.require_existing,
        folder_prefix: args.no_prefix_cwd.then_some(FolderPrefixPolicy::Never),
    }
}
