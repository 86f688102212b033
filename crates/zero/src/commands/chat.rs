//! `zero chat`, and `zero` alone on a terminal: a conversation with an agent in this folder.
//!
//! The conversation itself is in `zero-chat`. This connects it to the gateway, to the tools of this
//! machine and to the files in which it keeps what was typed.

mod chat_program;
mod typed_text_store;

use std::path::Path;
use std::sync::{Arc, OnceLock};

use anyhow::Context as _;
use zero_chat::{
    ChatConfig, ChatEnd, ChatSignals, EditMode, StatusFacts, TerminalKind, ViewOptions,
    describe_session,
};
use zero_client::wire::SessionInfo;
use zero_client::{GatewayLink, ListRequest, OpenRequest, SessionChange, now_ms};
use zero_core::shell_quoting::quote_shell_word;
use zero_session::notification::NotificationKind;
use zero_settings::chat::ChatTheme;
use zero_terminal::raw_input::SignalKeys;

use self::chat_program::ChatProgram;
use self::typed_text_store::TypedTextStore;
use crate::AppContext;
use crate::approval::error_for_user;
use crate::cli::ChatArgs;
use crate::commands::run::terminal_sequence;
use crate::exit::{ExitOutcome, UsageError};
use crate::gateway_dialer::LazyGatewayDialer;
use crate::session_name::unused_session_name;
use crate::terminal::TerminalTheme;
use crate::terminal::filter_list::choose_row;

/// Sessions that are looked through for a name.
const SESSIONS_MAX: u64 = 1_000;
/// The prefix of session keys if no agent was chosen.
const USUAL_AGENT_PREFIX: &str = "agent:main:";

pub(super) fn run(app: &AppContext, args: &ChatArgs) -> anyhow::Result<ExitOutcome> {
    let Some(keys) = app.terminal.answer_source().filter(|_| app.terminal.out.is_terminal()) else {
        let message = "a chat needs a terminal; use `zero run PROMPT` in scripts";
        return Err(UsageError(message.to_owned()).into());
    };
    let app =
        &app.with_secret_files(args.remote.token_file.iter().chain(&args.remote.password_file));
    let app = &match &args.options.cwd {
        Some(folder) => AppContext { config: app.config.clone().with_cwd(folder)?, ..app.clone() },
        None => app.clone(),
    };
    let workspace = app.config.open_workspace(&[])?;
    let settings = app.load_settings(&workspace, &args.options.settings)?;
    for line in settings.trust_note().into_iter().chain(settings.warnings()) {
        app.terminal.print_note(&line);
    }
    let cwd = workspace.cwd().to_owned();
    let chat = settings.chat();
    let status_program = app.status_line_program(&settings, &cwd)?;
    if let Some(theme) = chat.theme {
        app.terminal.out.set_theme(to_theme(theme));
    }
    if args.plain {
        app.terminal.out.set_appends_only();
        app.terminal.out.set_theme(TerminalTheme::None);
    }
    let notify = settings.notify();
    let signal = |kind| notify.terminal.map(|signal| terminal_sequence(kind, signal));
    let signals = ChatSignals {
        question: signal(NotificationKind::Question),
        run_end: signal(NotificationKind::End),
        min_seconds: notify.min_seconds(),
    };
    let dialer = Arc::new(LazyGatewayDialer::new(
        app.clone(),
        args.remote.clone(),
        args.options.settings.clone(),
        Arc::new(OnceLock::new()),
    ));
    let program = ChatProgram {
        app: app.clone(),
        args: args.clone(),
        cwd: cwd.clone(),
        settings_mode: settings.mode(),
        typed: TypedTextStore::new(&app.config.state_dir()?, &cwd),
        dialer: Arc::clone(&dialer),
        status_program: status_program.clone(),
    };
    let variable = |name: &str| app.config.variable(name).map(str::to_owned);
    // The keys of the user are handled while tools work.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("could not start the async runtime")?;
    let link = GatewayLink::new(Arc::clone(&dialer) as _);
    let chat_end = runtime.block_on(async {
        let Some(open) = choose_session(app, args, &link, &cwd).await? else { return Ok(None) };
        let config = ChatConfig {
            link: link.clone(),
            host: Arc::new(program),
            open,
            stream: app.terminal.out.clone(),
            keys,
            terminal: TerminalKind::from_env(&variable),
            view: ViewOptions {
                thoughts: args.options.thoughts,
                whole_output: args.options.verbose,
                plain: args.plain,
                raw: false,
                ascii: app.terminal.out.is_ascii(),
            },
            fullscreen: !args.plain && (args.fullscreen || chat.fullscreen == Some(true)),
            facts: StatusFacts {
                sandbox: String::new(),
                budget_usd: settings.budgets().session.usd,
                has_program: status_program.is_some(),
            },
            error_text: error_for_user,
            edit_mode: if args.vim || chat.vim == Some(true) {
                EditMode::Vim
            } else {
                EditMode::Emacs
            },
            prompt: args.prompt.clone(),
            folder: show_folder(app, &cwd),
            change: SessionChange { model: args.options.model.clone(), ..SessionChange::default() },
            signals,
        };
        let ended = zero_chat::run(config).await;
        link.close().await;
        dialer.shut_down().await;
        anyhow::Ok(Some(ended?))
    });
    // A pending read must not delay the exit.
    runtime.shutdown_background();
    if let Some(ChatEnd { session_key, was_used: true }) = chat_end? {
        let name = session_key.strip_prefix(USUAL_AGENT_PREFIX).unwrap_or(&session_key);
        app.terminal.print_note(&format!(
            "to continue this session, run `zero chat --session {}{}`",
            quote_shell_word(name),
            args.remote
                .url
                .as_ref()
                .map(|url| format!(" --url {}", quote_shell_word(url)))
                .unwrap_or_default()
        ));
    }
    Ok(ExitOutcome::Ok)
}

/// The session that the arguments choose; `None` if the user picks none.
async fn choose_session(
    app: &AppContext,
    args: &ChatArgs,
    link: &GatewayLink,
    cwd: &Path,
) -> anyhow::Result<Option<OpenRequest>> {
    let open = OpenRequest {
        cwd: Some(cwd.display().to_string()),
        agent: args.options.agent.clone(),
        mode: args.options.mode,
        ..OpenRequest::default()
    };
    let named = args
        .options
        .session
        .as_ref()
        .or(args.options.resume.as_ref())
        .filter(|named| !named.is_empty());
    let all = ListRequest { cwd: None, offset: 0, limit: SESSIONS_MAX };
    let request = ListRequest { cwd: Some(cwd.display().to_string()), ..all.clone() };
    let key = if let Some(named) = named {
        let agent = args.options.agent.as_deref().unwrap_or("main");
        let sessions = link.list(all).await?.sessions;
        let is_key = |session: &SessionInfo| {
            let short = session.session_key.strip_prefix(&format!("agent:{agent}:"));
            session.session_key == *named || short == Some(named)
        };
        let found = sessions
            .iter()
            .find(|session| is_key(session))
            .or_else(|| sessions.iter().find(|session| session.label.as_ref() == Some(named)))
            .or_else(|| sessions.iter().find(|session| session.session_id == *named));
        match found {
            Some(found) => found.session_key.clone(),
            None if args.options.resume.is_some() => {
                let message =
                    format!("there is no session `{named}`; `zero sessions list` lists them");
                return Err(UsageError(message).into());
            }
            None => named.clone(),
        }
    } else if args.options.continue_last || args.options.resume.is_some() {
        let sessions = link.list(request).await?.sessions;
        if sessions.is_empty() {
            let message = format!(
                "there is no session in {} yet; omit `--continue` or `--resume`",
                cwd.display()
            );
            return Err(UsageError(message).into());
        }
        let now = now_ms();
        let rows: Vec<String> =
            sessions.iter().map(|session| describe_session(session, now)).collect();
        let at = match args.options.resume {
            Some(_) => match pick_row(app, rows)? {
                Some(at) => at,
                None => return Ok(None),
            },
            None => 0,
        };
        sessions.into_iter().nth(at).map(|session| session.session_key).unwrap_or_default()
    } else {
        unused_session_name()
    };
    Ok(Some(OpenRequest { key: Some(key), ..open }))
}

fn to_theme(theme: ChatTheme) -> TerminalTheme {
    match theme {
        ChatTheme::Auto => TerminalTheme::Auto,
        ChatTheme::Light => TerminalTheme::Light,
        ChatTheme::Dark => TerminalTheme::Dark,
        ChatTheme::None => TerminalTheme::None,
    }
}

fn pick_row(app: &AppContext, rows: Vec<String>) -> anyhow::Result<Option<usize>> {
    let Some(answers) = app.terminal.answer_source() else { return Ok(None) };
    let keys = answers.open_keys(SignalKeys::AreRead)?;
    Ok(choose_row(&app.terminal.err, &keys, &rows, None)?)
}

/// The folder, with `~` for the home folder.
fn show_folder(app: &AppContext, cwd: &Path) -> String {
    let home = app.config.home().and_then(|home| cwd.strip_prefix(home).ok());
    match home {
        Some(below) if below.as_os_str().is_empty() => "~".to_owned(),
        Some(below) => format!("~/{}", below.display()),
        None => cwd.display().to_string(),
    }
}
