//! Checks the settings of the local gateway and of the remote gateway: addresses, TLS, tokens and the
//! permissions of their files.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use zero_gateway::GatewayLimits;
use zero_sandbox::{StateDir, open_file_limit};
use zero_settings::WorkspaceSettings;
use zero_settings::gateway::{GatewaySettings, RemoteGatewaySetting};
use zero_settings::layer::display_path;
use zero_settings::models::SecretSetting;
use zero_wire::client::{GatewayUrl, GatewayUrlError};

use super::findings::DoctorReport;
use crate::AppContext;
use crate::gateway_connection::TOKEN_FILE;
use crate::session_store::{shared_bus, shared_store};
use crate::settings_adapter::models::read_secret;
use crate::telemetry::check_setting;
use crate::token_holder;

const CHECK: &str = "gateway";
/// Connection limit below which doctor warns.
const CONNECTIONS_MIN: usize = 1_000;

pub(super) fn check_gateway(
    app: &AppContext,
    settings: &WorkspaceSettings,
    findings: &mut DoctorReport,
) {
    let gateway = settings.gateway();
    let before = findings.0.len();
    check_address(&gateway, findings);
    check_secrets(app, &gateway, findings);
    check_connection_limit(findings);
    if let Some(telemetry) = &gateway.telemetry
        && let Err(why) = check_setting(telemetry)
    {
        findings.add_error(
            CHECK,
            format!("invalid `gateway.telemetry`: {why}"),
            "until then, `zero gateway` does not start",
        );
    }
    match shared_store(app, settings, None, None) {
        Ok(Some(_)) if cfg!(not(feature = "cluster")) => findings.add_error(
            CHECK,
            "`gateway.store`: this build has no Postgres".to_owned(),
            "build zero with `--features cluster`, or remove the setting",
        ),
        Ok(None) if gateway.bus.is_some() => findings.add_warning(
            CHECK,
            "`gateway.bus` has no effect, since no database is named".to_owned(),
            "set `gateway.store`, or remove `gateway.bus`",
        ),
        Ok(_) => {}
        Err(error) => findings.add_error(
            CHECK,
            error.to_string(),
            "until then, `zero gateway` does not start",
        ),
    }
    if let Err(error) = shared_bus(app, settings, None, None) {
        findings.add_error(CHECK, error.to_string(), "until then, `zero gateway` does not start");
    }
    if findings.0.len() == before {
        findings.add_ok(CHECK, describe_gateway(&gateway));
    }
    if let Some(remote) = &gateway.remote {
        check_remote(app, remote, findings);
    }
}

/// Checks the token file that the gateway created at its first start.
pub(super) fn check_own_token(app: &AppContext, state: &StateDir, findings: &mut DoctorReport) {
    let path = state.path().join(TOKEN_FILE);
    check_file_private(app, &path, "the token", findings);
}

fn describe_gateway(gateway: &GatewaySettings) -> String {
    let bind = gateway.bind.filter(|address| !address.to_canonical().is_loopback());
    let reached = match bind {
        Some(address) => format!("reachable from other machines at {address}"),
        None => "reachable only from this machine".to_owned(),
    };
    format!("{reached}; named tokens: {}", gateway.tokens.len())
}

fn check_address(gateway: &GatewaySettings, findings: &mut DoctorReport) {
    let Some(address) = gateway.bind.filter(|bind| !bind.to_canonical().is_loopback()) else {
        return;
    };
    if gateway.tokens.is_empty() && gateway.password_file.is_none() {
        findings.add_error(
            CHECK,
            format!("`gateway.bind` is {address}, but no token or password is set"),
            "set `gateway.tokens`; until then, `zero gateway` starts only with --token-file or --password-file",
        );
    }
    match (&gateway.tls, gateway.allow_plaintext) {
        (Some(_), _) => {}
        (None, true) => findings.add_warning(
            CHECK,
            format!("other machines connect to {address} without TLS: traffic can be intercepted"),
            "set `gateway.tls` and remove `gateway.allowPlaintext`",
        ),
        (None, false) => findings.add_error(
            CHECK,
            format!("`gateway.bind` is {address}, but no certificate is set"),
            "set `gateway.tls`; until then, `zero gateway` does not start",
        ),
    }
}

/// Checks how many connections the limit for open files permits.
fn check_connection_limit(findings: &mut DoctorReport) {
    let files = open_file_limit::max_open_files();
    let room = GatewayLimits::default().within_open_files(files).connections_max;
    if room < CONNECTIONS_MIN {
        findings.add_warning(
            CHECK,
            format!("only {room} connections are possible: at most {files} files can be open"),
            "raise the hard limit for open files (`ulimit -Hn`, or `LimitNOFILE=` in a service)",
        );
    }
}

/// Checks that secret files exist and that only the user can read them.
fn check_secrets(app: &AppContext, gateway: &GatewaySettings, findings: &mut DoctorReport) {
    for (name, token) in &gateway.tokens {
        if let Err(why) = token_holder::token_principal(name, &gateway.tokens) {
            findings.add_error(
                CHECK,
                format!("token {} is invalid: {why}", zero_core::sanitize::to_quoted_line(name)),
                "until then, `zero gateway` does not start",
            );
        }
        if let SecretSetting::File(file) = &token.secret {
            check_file_private(
                app,
                &resolve_file(app, file),
                &format!("the token `{name}`"),
                findings,
            );
        }
        if let Err(why) = read_secret(&token.secret, &app.config) {
            findings.add_error(
                CHECK,
                format!("could not find the token `{name}`: {why}"),
                "until then, `zero gateway` does not start",
            );
        }
    }
    if let Some(SecretSetting::File(file)) = &gateway.store_password {
        let what = "the password of the database";
        check_file_private(app, &resolve_file(app, file), what, findings);
    }
    if let Some(SecretSetting::File(file)) = &gateway.bus_secret {
        check_file_private(app, &resolve_file(app, file), "the secret of the bus", findings);
    }
    if let Some(file) = &gateway.password_file {
        check_file_exists(app, file, "the password", findings);
    }
    if let Some(tls) = &gateway.tls {
        file_exists(app, &tls.certificate, "the certificate", findings);
        check_file_exists(app, &tls.key, "the key of the certificate", findings);
    }
}

fn check_remote(app: &AppContext, remote: &RemoteGatewaySetting, findings: &mut DoctorReport) {
    const CHECK: &str = "remote";
    let url = remote.url.as_deref().map(str::parse::<GatewayUrl>);
    match url {
        None => {}
        Some(Err(why)) => {
            let why: GatewayUrlError = why;
            findings.add_error(CHECK, format!("`gateway.remote.url`: {why}"), "fix the URL");
        }
        Some(Ok(url)) if url.is_secure() || url.is_loopback() => {
            findings.add_ok(CHECK, "sessions use the gateway in `gateway.remote.url`");
        }
        Some(Ok(_)) if remote.allow_plaintext => findings.add_warning(
            CHECK,
            "`gateway.remote.url` connects to another machine without TLS: traffic and the token can be intercepted",
            "use a `wss://` URL and remove `gateway.remote.allowPlaintext`",
        ),
        Some(Ok(_)) => findings.add_error(
            CHECK,
            "`gateway.remote.url` connects to another machine without TLS, which zero refuses",
            "use a `wss://` URL",
        ),
    }
    if remote.token.is_some() {
        let file = app.config.settings_file().ok();
        if let Some(bits) = file.as_deref().and_then(mode_open_to_others) {
            let path = file.map(|file| display_path(&file, app.config.home())).unwrap_or_default();
            findings.add_error(
                CHECK,
                format!("{path} has mode {bits:03o} and contains a token: other users can read it"),
                format!("chmod 600 {path}, and move the token to a file named by `tokenFile`"),
            );
        }
    }
    for (file, what) in [(&remote.token_file, "the token"), (&remote.password_file, "the password")]
    {
        if let Some(file) = file {
            check_file_exists(app, file, what, findings);
        }
    }
}

/// Resolves a path from settings.
fn resolve_file(app: &AppContext, file: &str) -> PathBuf {
    app.config.resolve_file(file).unwrap_or_else(|| PathBuf::from(file))
}

/// Checks that a file exists and that only the user can read it.
fn check_file_exists(app: &AppContext, file: &str, what: &str, findings: &mut DoctorReport) {
    if file_exists(app, file, what, findings) {
        check_file_private(app, &resolve_file(app, file), what, findings);
    }
}

fn file_exists(app: &AppContext, file: &str, what: &str, findings: &mut DoctorReport) -> bool {
    let path = resolve_file(app, file);
    let is_there = std::fs::metadata(&path).is_ok();
    if !is_there {
        let path = display_path(&path, app.config.home());
        findings.add_error(
            CHECK,
            format!("could not find {what}: {path} does not exist"),
            "create the file, or correct the path in settings",
        );
    }
    is_there
}

fn check_file_private(app: &AppContext, path: &Path, what: &str, findings: &mut DoctorReport) {
    if let Some(bits) = mode_open_to_others(path) {
        let path = display_path(path, app.config.home());
        findings.add_error(
            CHECK,
            format!("{path} has mode {bits:03o}: other users can read {what}"),
            format!("chmod 600 {path}"),
        );
    }
}

/// Permission bits of a file that other users can access; `None` if it is private.
fn mode_open_to_others(path: &Path) -> Option<u32> {
    let bits = std::fs::metadata(path).ok()?.permissions().mode() & 0o777;
    (bits & 0o077 != 0).then_some(bits)
}
