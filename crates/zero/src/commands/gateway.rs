//! `zero gateway`: keeps sessions and runs agents for clients, until it is asked to end.

mod devices;
mod drain;
mod nodes;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use zero_gateway::{
    AuthConfig, Gateway, GatewayListener, GatewayServeError, PlaintextPolicy, Principal,
    TlsIdentity,
};
use zero_runtime::tool_backend::FolderAccess;
use zero_sandbox::{ConfigFile, FileType, open_file_limit, path_survey, process_memory};
use zero_settings::gateway::GatewaySettings;
use zero_wire::method::TokenScope;

use crate::AppContext;
use crate::cli::{GatewayArgs, GatewayCommand, GatewayServeArgs};
use crate::commands::console::page_address;
use crate::commands::local_machine_reports::LocalMachineReports;
use crate::commands::tools_call::signals;
use crate::exit::{ExitOutcome, UsageError};
use crate::gateway_connection::{TOKEN_FILE, admin_principal, local_principal};
use crate::gateway_lock::GatewayLock;
use crate::host_setup::multi_thread_runtime;
use crate::idle_trim;
use crate::logging;
use crate::secret;
use crate::secret_files::named_secret_files;
use crate::session_store::{SharedStoreFlags, StoreChoice};
use crate::settings_adapter::models::read_secret;
use crate::settings_adapter::network::extra_roots;
use crate::telemetry::{OtlpCollector, TelemetryExporter};
use crate::terminal::format_short_duration;
use crate::token_holder;

/// Default port, shared with OpenClaw-compatible gateways.
const PORT: u16 = 18789;
/// Largest certificate or key file, in bytes.
const PEM_BYTES_MAX: u64 = 1024 * 1024;

pub(super) fn run(app: &AppContext, args: &GatewayArgs) -> anyhow::Result<ExitOutcome> {
    match &args.command {
        Some(GatewayCommand::Schema) => {
            app.terminal.out.write_pretty_json(&zero_wire::schema::protocol_schema())?;
            Ok(ExitOutcome::Ok)
        }
        Some(GatewayCommand::Devices(args)) => devices::run(app, args),
        Some(GatewayCommand::Nodes(args)) => nodes::run(app, args),
        Some(GatewayCommand::Drain(args)) => drain::run(app, args),
        None => serve(app, &args.serve, ReadyReport::Full, |_, _| Ok(())),
    }
}

/// What is printed once a gateway listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadyReport {
    /// Where it is and how to use it; one JSON value with `--json`.
    Full,
    /// The same for people; the JSON value is that of the caller.
    NotesOnly,
}

/// Runs a gateway until it is asked to end. `on_ready` is called once it listens.
pub(super) fn serve(
    app: &AppContext,
    args: &GatewayServeArgs,
    report: ReadyReport,
    on_ready: impl FnOnce(&Gateway, &GatewayListener) -> anyhow::Result<()>,
) -> anyhow::Result<ExitOutcome> {
    let folders: Vec<PathBuf> = args.cwd.iter().cloned().collect();
    let workspace = app.config.open_workspace(&folders)?;
    let settings = app.load_settings(&workspace, &args.settings)?;
    let gateway = settings.gateway();
    let named = [
        &args.token_file,
        &args.password_file,
        &args.tls_key,
        &args.store_password_file,
        &args.bus_secret_file,
    ];
    let named = named.into_iter().flatten();
    // Includes the secret files in the current settings, which the gateway uses until it ends.
    let app = &app.with_secret_files(named.chain(&named_secret_files(&settings, &app.config)));
    let address = SocketAddr::new(
        args.bind.or(gateway.bind).unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        args.port.or(gateway.port).unwrap_or(PORT),
    );
    let tls = load_tls(app, args, &gateway)?;
    let plaintext = match args.allow_plaintext || gateway.allow_plaintext {
        true => PlaintextPolicy::Anywhere,
        false => PlaintextPolicy::ThisMachine,
    };
    let folder_access = folder_access(app, gateway.folders.as_deref(), workspace.cwd())?;
    // Before the token is read or created, so that of two gateways only one creates it.
    let lock = GatewayLock::acquire(&app.config.state_dir()?)?;
    let has_own_token = args.token_file.is_none()
        && gateway.tokens.is_empty()
        && args.password_file.is_none()
        && gateway.password_file.is_none();
    let auth = build_auth_config(app, args, &gateway, address, folder_access.clone())?;
    let flags = SharedStoreFlags {
        store: args.store.as_deref(),
        password_file: args.store_password_file.as_ref(),
        bus: args.bus.as_deref(),
        bus_secret_file: args.bus_secret_file.as_ref(),
    };
    let store = StoreChoice::of_gateway(app, &settings, flags)?;
    let is_shared = matches!(store, StoreChoice::Shared { .. });
    let roots = extra_roots(&settings, &app.config)?;
    let collector = gateway.telemetry.as_ref().map(|setting| OtlpCollector::new(setting, &roots));
    let collector = collector.transpose()?;
    process_memory::limit_arenas(std::thread::available_parallelism().map_or(1, usize::from));
    let runtime = multi_thread_runtime()?;
    runtime.spawn(idle_trim::trim_when_idle());
    let served = runtime.block_on(async {
        let (mut telemetry, traces) = collector.map(TelemetryExporter::start).unzip();
        logging::start(app.config.log.as_deref(), &app.terminal, traces);
        let cwd = workspace.cwd().to_owned();
        let machine = Arc::new(LocalMachineReports::new(app, &cwd));
        let mut config = app.gateway_config(&settings, &args.settings, cwd, auth, store).await?;
        config.console.folders = folder_access;
        config.console.machine = Some(machine);
        config.console.public_url.clone_from(&gateway.public_url);
        config.allowed_origins = gateway.allowed_origins.clone();
        config.allowed_hosts = gateway.host_names();
        config.limits.shutdown_grace = args.grace;
        let files = open_file_limit::raise();
        config.limits = config.limits.within_open_files(files);
        let room = config.limits.connections_max;
        let public_url = gateway.public_url.clone();
        let gateway = Gateway::new(config);
        let listening = gateway.listen(address, tls, plaintext).await.map_err(to_usage_error)?;
        let stop = CancellationToken::new();
        signals::cancel_on_interrupt(&stop);
        lock.set_url(&listening_url(&listening), listening.fingerprint())?;
        let console = public_url.unwrap_or_else(|| page_address(&listening_url(&listening)));
        // The first gateway in a process is the only one.
        let _ = app.console.set(console);
        if report == ReadyReport::Full || !args.json {
            announce(app, args, &listening, room, has_own_token)?;
        }
        on_ready(&gateway, &listening)?;
        if let Some(telemetry) = &mut telemetry {
            telemetry.start_metrics(gateway.clone());
        }
        let (ending, asked_to_stop) = (stop.clone(), stop.clone());
        let (terminal, grace, quiet) = (app.terminal.clone(), args.grace, args.json);
        let farewell = tokio::spawn(async move {
            ending.cancelled().await;
            if !quiet {
                let runs = match is_shared {
                    true => "other gateways continue active runs".to_owned(),
                    false => format!("active runs have {} to end", format_short_duration(grace)),
                };
                terminal
                    .print_note(&format!("stopping; {runs}; press Ctrl-C again to stop at once"));
            }
        });
        gateway.serve(listening, stop).await;
        // Without active runs the gateway may have stopped before this was said.
        if asked_to_stop.is_cancelled() {
            let join_result = farewell.await;
            drop(join_result);
        } else {
            farewell.abort();
        }
        if !args.json {
            app.terminal.print_note("stopped");
        }
        if let Some(telemetry) = telemetry {
            telemetry.stop().await;
        }
        anyhow::Ok(ExitOutcome::Ok)
    });
    runtime.shutdown_background();
    // Another gateway may start once this one no longer writes.
    drop(lock);
    served
}

/// Turns errors from starting the server into usage errors.
fn to_usage_error(error: GatewayServeError) -> UsageError {
    match error {
        GatewayServeError::Bind { address, source } => UsageError(format!(
            "could not listen on `{address}`: {source}; choose another port with `--port`"
        )),
        other => UsageError(other.to_string()),
    }
}

pub(super) fn listening_url(listening: &GatewayListener) -> String {
    let scheme = if listening.fingerprint().is_some() { "wss" } else { "ws" };
    format!("{scheme}://{}", listening.address())
}

fn announce(
    app: &AppContext,
    args: &GatewayServeArgs,
    listening: &GatewayListener,
    room: usize,
    has_own_token: bool,
) -> anyhow::Result<()> {
    let fingerprint = listening.fingerprint();
    let url = listening_url(listening);
    if args.json {
        let ready = json!({
            "ready": true, "url": url, "tlsFingerprint": fingerprint, "connectionsMax": room,
        });
        app.terminal.out.write_json_line(&ready)?;
        return Ok(());
    }
    app.terminal.print_note(&format!("the gateway listens on {url}; at most {room} connections"));
    let token = match (&args.token_file, has_own_token) {
        (Some(file), _) => Some(file.clone()),
        (None, true) => Some(app.config.state_dir()?.path().join(TOKEN_FILE)),
        (None, false) => None,
    };
    app.terminal.print_note(&match token {
        Some(file) => format!("the token for clients is in {}", file.display()),
        None => "clients authenticate with a token or password of your settings".to_owned(),
    });
    app.terminal.print_note(&format!(
        "to use it, pass `--url {url}` to `zero run`, `zero sessions` or `zero acp`; on this machine they find the token by themselves, elsewhere pass `--token-file FILE`, too; metrics are at {}/metrics",
        url.replacen("ws", "http", 1)
    ));
    app.terminal.print_note(&format!(
        "the web console is at {}/; `zero console` shows a code that pairs a browser",
        url.replacen("ws", "http", 1)
    ));
    app.terminal.print_note("press Ctrl-C to stop it");
    if let Some(fingerprint) = fingerprint {
        app.terminal.print_note(&format!("SHA-256 fingerprint of the certificate: {fingerprint}"));
    }
    Ok(())
}

/// Tokens and passwords that clients can authenticate with.
fn build_auth_config(
    app: &AppContext,
    args: &GatewayServeArgs,
    settings: &GatewaySettings,
    address: SocketAddr,
    folder_access: FolderAccess,
) -> anyhow::Result<AuthConfig> {
    let mut auth = AuthConfig::deny_all();
    let mut is_empty = true;
    if let Some(file) = &args.token_file {
        let token = secret::read_file(app, &file.display().to_string(), "token")?;
        auth = auth.with_token(&token, local_principal())?;
        is_empty = false;
    }
    for (name, token) in &settings.tokens {
        let unusable =
            |why: String| UsageError(format!("invalid token `{name}` in settings: {why}"));
        let secret = read_secret(&token.secret, &app.config).map_err(unusable)?;
        let secret =
            secret::check_secret(&secret, "token").map_err(|why| unusable(format!("it {why}")))?;
        let holder = token_holder::token_principal(name, &settings.tokens).map_err(unusable)?;
        let access = match &token.folders {
            _ if holder.scopes.contains(&TokenScope::Admin) => FolderAccess::Anywhere,
            None => folder_access.clone(),
            Some(folders) => FolderAccess::Folders(resolve_folders(app, folders)?),
        };
        auth = auth.with_token(&secret, Principal { folder_access: access, ..holder })?;
        is_empty = false;
    }
    let password_file = args.password_file.as_ref().map(|file| file.display().to_string());
    if let Some(file) = password_file.or_else(|| settings.password_file.clone()) {
        let password = secret::read_file(app, &file, "password")?;
        auth = auth.with_password(&password, admin_principal(token_holder::PASSWORD_OWNER))?;
        is_empty = false;
    }
    if !is_empty {
        return Ok(auth);
    }
    if !address.ip().to_canonical().is_loopback() {
        return Err(to_usage_error(GatewayServeError::NoAuth(address)).into());
    }
    Ok(auth.with_token(&load_or_create_token(app)?, local_principal())?)
}

/// Folders in which sessions of clients without the admin scope may work.
fn folder_access(
    app: &AppContext,
    folders: Option<&[String]>,
    started_in: &Path,
) -> anyhow::Result<FolderAccess> {
    Ok(FolderAccess::Folders(match folders {
        None => [started_in.to_owned()].into(),
        Some(folders) => resolve_folders(app, folders)?,
    }))
}

/// Resolves folders from settings, including symlinks.
fn resolve_folders(app: &AppContext, folders: &[String]) -> Result<Arc<[PathBuf]>, UsageError> {
    let real = |written: &String| {
        let path = match written.as_str() {
            "~" => app.config.home().map(Path::to_owned),
            written => app.config.resolve_file(written),
        };
        let is_folder = |path: &PathBuf| path_survey::file_type(path) == Some(FileType::Directory);
        path.and_then(|path| path_survey::canonicalize(&path)).filter(is_folder).ok_or_else(|| {
            UsageError(format!(
                "`{written}` in `gateway.folders` or `gateway.tokens` is not a folder; create it, or name another one"
            ))
        })
    };
    folders.iter().map(real).collect()
}

/// Token for local clients, created at the first start in a file that only the user can read.
fn load_or_create_token(app: &AppContext) -> anyhow::Result<String> {
    let state = app.config.state_dir()?;
    let path = state.path().join(TOKEN_FILE);
    let file = ConfigFile::Own(path.clone());
    let known = file.read(secret::FILE_BYTES_MAX).context("could not read the gateway token")?;
    if let Some(known) = known.and_then(|bytes| String::from_utf8(bytes).ok())
        && let Ok(known) = secret::check_secret(&known, "token")
    {
        return Ok(known);
    }
    let token = secret::generate_token()?;
    state.create().context("could not create the state folder")?;
    file.write(format!("{token}\n").as_bytes()).context("could not store the gateway token")?;
    Ok(token)
}

fn load_tls(
    app: &AppContext,
    args: &GatewayServeArgs,
    settings: &GatewaySettings,
) -> anyhow::Result<Option<TlsIdentity>> {
    let (certificate, key) = match (&args.tls_certificate, &args.tls_key, &settings.tls) {
        (Some(certificate), Some(key), _) => (certificate.clone(), key.clone()),
        (_, _, Some(tls)) => (PathBuf::from(&tls.certificate), PathBuf::from(&tls.key)),
        _ => return Ok(None),
    };
    let read = |path: &PathBuf| -> anyhow::Result<Vec<u8>> {
        let shown = path.display();
        let bytes = ConfigFile::Own(app.config.cwd()?.join(path)).read(PEM_BYTES_MAX);
        let bytes =
            bytes.map_err(|error| UsageError(format!("could not read `{shown}`: {error}")))?;
        Ok(bytes.ok_or_else(|| UsageError(format!("there is no file `{shown}`")))?)
    };
    let tls = TlsIdentity::from_pem(&read(&certificate)?, &read(&key)?);
    let shown = certificate.display();
    Ok(Some(
        tls.map_err(|error| UsageError(format!("invalid certificate or key `{shown}`: {error}")))?,
    ))
}
