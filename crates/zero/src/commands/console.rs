//! `zero console`: shows where the web console is and a code that pairs a browser with it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use serde_json::json;
use zero_gateway::{Gateway, GatewayListener};
use zero_runtime::clock::now_ms;
use zero_wire::devices::{DeviceInviteParams, DeviceInviteResult, ZeroDevicesInvite};
use zero_wire::method::TokenScope;

use super::gateway::{ReadyReport, listening_url, serve};
use crate::AppContext;
use crate::cli::{ConsoleArgs, GatewayServeArgs, RemoteGatewayArgs};
use crate::exit::{ExitOutcome, UsageError};
use crate::gateway_connection::CliGatewayConnection;
use crate::gateway_lock::GatewayLock;
use crate::host_setup::small_runtime;
use crate::terminal::{FAINT, STRONG, format_short_duration};
use crate::token_holder::LOCAL_OWNER;

/// How long active runs may continue when the gateway of this command is stopped.
const GRACE: Duration = Duration::from_secs(10);
/// Empty modules around a QR code.
const QR_BORDER: usize = 2;
/// An address for documents, to which nothing is sent: it only selects the network interface.
const ROUTE_PROBE: (Ipv4Addr, u16) = (Ipv4Addr::new(192, 0, 2, 1), 9);

pub(super) fn run(app: &AppContext, args: &ConsoleArgs) -> anyhow::Result<ExitOutcome> {
    let state = app.config.state_dir()?;
    if args.remote.url.is_some() || GatewayLock::find_running(&state).is_some() {
        return invite(app, args);
    }
    if has_remote(app)? {
        return invite(app, args);
    }
    let serving = GatewayServeArgs {
        port: args.port,
        bind: None,
        token_file: None,
        password_file: None,
        tls_certificate: None,
        tls_key: None,
        allow_plaintext: false,
        cwd: None,
        settings: Vec::new(),
        store: None,
        store_password_file: None,
        bus: None,
        bus_secret_file: None,
        grace: GRACE,
        json: args.json,
    };
    serve(app, &serving, ReadyReport::NotesOnly, |gateway, listening| {
        invite_here(app, args, gateway, listening)
    })
}

/// Whether the settings name a gateway elsewhere.
fn has_remote(app: &AppContext) -> anyhow::Result<bool> {
    let workspace = app.config.open_workspace(&[])?;
    let settings = app.load_settings(&workspace, &[])?;
    Ok(settings.gateway().remote.is_some_and(|remote| remote.url.is_some()))
}

/// Asks a gateway that runs for a code.
fn invite(app: &AppContext, args: &ConsoleArgs) -> anyhow::Result<ExitOutcome> {
    let runtime = small_runtime()?;
    let invited = runtime.block_on(async {
        let remote = own_gateway(app, &args.remote)?;
        let url = match (&args.remote.url, GatewayLock::find_running(&app.config.state_dir()?)) {
            (Some(url), _) => url.clone(),
            (None, Some(running)) => running.url,
            (None, None) => remote_url(app)?,
        };
        let connection = connect(app, &remote).await?;
        let page = Some(page_address(&url));
        let params = DeviceInviteParams { scopes: scope_texts(&args.scopes), page };
        let invited = connection.client.request::<ZeroDevicesInvite>(params).await;
        connection.close().await;
        anyhow::Ok((url, invited?))
    });
    runtime.shutdown_background();
    let (url, invited) = invited?;
    show(app, args, &url, &invited)?;
    Ok(ExitOutcome::Ok)
}

/// Makes a code of the gateway in this process.
fn invite_here(
    app: &AppContext,
    args: &ConsoleArgs,
    gateway: &Gateway,
    listening: &GatewayListener,
) -> anyhow::Result<()> {
    let scopes = scope_texts(&args.scopes);
    let scopes = scopes.iter().filter_map(|name| TokenScope::from_name(name)).collect();
    let url = listening_url(listening);
    let invited = gateway.invite_device(scopes, LOCAL_OWNER, Some(&page_address(&url)));
    let invited =
        invited.ok_or_else(|| UsageError("the random number generator failed".to_owned()))?;
    show(app, args, &url, &invited)
}

fn show(
    app: &AppContext,
    args: &ConsoleArgs,
    url: &str,
    invited: &DeviceInviteResult,
) -> anyhow::Result<()> {
    let out = &app.terminal.out;
    let page = invited.url.clone().unwrap_or_else(|| page_address(url));
    if args.json {
        let shown = json!({
            "url": page, "code": invited.code, "expiresAtMs": invited.expires_at_ms,
            "scopes": args.scopes,
        });
        return Ok(out.write_json_line(&shown)?);
    }
    let left = u64::try_from(invited.expires_at_ms.saturating_sub(now_ms())).unwrap_or_default();
    let left = format_short_duration(Duration::from_millis(left));
    let mut text = String::new();
    if out.is_terminal() && app.config.streams.utf8 {
        text.push_str(&draw_qr(&invited.qr_rows));
    }
    text.push_str(&format!("\n  Open    {}\n", out.paint(STRONG, &page)));
    text.push_str(&format!("  Code    {}\n", out.paint(STRONG, &invited.code)));
    let terms = format!("once, within {left}; the browser may {}", args.scopes.join(", "));
    text.push_str(&format!("          {}\n\n", out.paint(FAINT, &terms)));
    Ok(out.write(&text)?)
}

/// Names of scopes in the protocol.
pub(super) fn scope_texts(names: &[String]) -> Vec<String> {
    names.iter().map(|name| format!("operator.{name}")).collect()
}

/// Connects to the named gateway, to the one that runs on this machine, or to one in this process.
pub(super) async fn connect_to_own(
    app: &AppContext,
    remote: &RemoteGatewayArgs,
) -> anyhow::Result<CliGatewayConnection> {
    connect(app, &own_gateway(app, remote)?).await
}

async fn connect(
    app: &AppContext,
    remote: &RemoteGatewayArgs,
) -> anyhow::Result<CliGatewayConnection> {
    let workspace = app.config.open_workspace(&[])?;
    let settings = app.load_settings(&workspace, &[])?;
    app.connect(remote, &settings, &[], workspace.cwd()).await
}

/// Names the gateway that runs on this machine, unless another one is named.
fn own_gateway(app: &AppContext, remote: &RemoteGatewayArgs) -> anyhow::Result<RemoteGatewayArgs> {
    let mut remote = remote.clone();
    if remote.url.is_none()
        && let Some(running) = GatewayLock::find_running(&app.config.state_dir()?)
    {
        remote.url = Some(with_host(&running.url, |_| IpAddr::V4(Ipv4Addr::LOCALHOST)));
        remote.tls_fingerprint = remote.tls_fingerprint.or(running.fingerprint);
    }
    Ok(remote)
}

fn remote_url(app: &AppContext) -> anyhow::Result<String> {
    let workspace = app.config.open_workspace(&[])?;
    let settings = app.load_settings(&workspace, &[])?;
    let url = settings.gateway().remote.and_then(|remote| remote.url);
    Ok(url.ok_or_else(|| UsageError("no gateway is named; pass its address with `--url`".into()))?)
}

/// Address of the page that browsers open.
pub(super) fn page_address(url: &str) -> String {
    let url = with_host(url, |host| local_address().unwrap_or(host));
    let (scheme, rest) = match url.split_once("://") {
        Some(("wss", rest)) => ("https", rest),
        Some((_, rest)) => ("http", rest),
        None => ("http", url.as_str()),
    };
    format!("{scheme}://{}/", rest.trim_end_matches('/'))
}

/// The URL with another host, if it names all addresses of the machine.
fn with_host(url: &str, other: impl FnOnce(IpAddr) -> IpAddr) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    match rest.trim_end_matches('/').parse::<SocketAddr>() {
        Ok(address) if address.ip().is_unspecified() => {
            format!("{scheme}://{}", SocketAddr::new(other(address.ip()), address.port()))
        }
        _ => url.to_owned(),
    }
}

/// The address by which others reach this machine. Sends nothing.
fn local_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    socket.connect(ROUTE_PROBE).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

/// Draws a QR code from the rows of its modules: two modules per character, dark on light whatever the
/// terminal's colours. Without rows, there is none.
fn draw_qr(rows: &[String]) -> String {
    let is_dark = |row: usize, column: usize| {
        let row = row.checked_sub(QR_BORDER).and_then(|row| rows.get(row));
        let digit = row.zip(column.checked_sub(QR_BORDER)).map(|(row, at)| row.as_bytes().get(at));
        digit.flatten() == Some(&b'1')
    };
    let mut text = String::new();
    let size = if rows.is_empty() { 0 } else { rows.len() + 2 * QR_BORDER };
    for row in (0..size).step_by(2) {
        text.push_str("  \u{1b}[30;47m");
        for column in 0..size {
            text.push(match (is_dark(row, column), is_dark(row + 1, column)) {
                (true, true) => '█',
                (true, false) => '▀',
                (false, true) => '▄',
                (false, false) => ' ',
            });
        }
        text.push_str("\u{1b}[0m\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_has_the_address_of_the_gateway() {
        assert_eq!(page_address("ws://127.0.0.1:18789"), "http://127.0.0.1:18789/");
        assert_eq!(page_address("wss://box.lan:18789"), "https://box.lan:18789/");
        assert_eq!(page_address("wss://[::1]:1/"), "https://[::1]:1/");
        assert!(!page_address("ws://0.0.0.0:18789").contains("0.0.0.0"));
    }

    #[test]
    fn qr_code_is_drawn_with_a_border() {
        let text = draw_qr(&["101".to_owned(), "010".to_owned(), "111".to_owned()]);
        let rows: Vec<&str> = text
            .lines()
            .map(|row| row.trim_start_matches("  \u{1b}[30;47m").trim_end_matches("\u{1b}[0m"))
            .collect();
        assert_eq!(rows.len(), (3 + 2 * QR_BORDER).div_ceil(2));
        assert!(rows.iter().all(|row| row.chars().count() == 3 + 2 * QR_BORDER), "{rows:?}");
        assert_eq!(rows.iter().map(|row| row.trim()).collect::<String>(), "▀▄▀▀▀▀");
        assert_eq!(draw_qr(&[]), "");
    }
}
