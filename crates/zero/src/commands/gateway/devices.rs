//! `zero gateway devices`: lists paired devices, approves and revokes them.

use zero_wire::devices::{
    DeviceApproveParams, DeviceRevokeParams, DevicesListParams, DevicesListResult,
    ZeroDevicesApprove, ZeroDevicesList, ZeroDevicesRevoke,
};

use crate::AppContext;
use crate::cli::{GatewayDevicesArgs, GatewayDevicesCommand};
use crate::commands::console::{connect_to_own, scope_texts};
use crate::exit::{ExitOutcome, UsageError};
use crate::gateway_connection::CliGatewayConnection;
use crate::host_setup::small_runtime;
use crate::terminal::{FAINT, TableCell, TextTable, escape_line};

/// Characters of an id that are shown.
const ID_CHARS: usize = 12;

pub(super) fn run(app: &AppContext, args: &GatewayDevicesArgs) -> anyhow::Result<ExitOutcome> {
    let runtime = small_runtime()?;
    let done = runtime.block_on(async {
        let connection = connect_to_own(app, &args.remote).await?;
        let done = answer(app, args, &connection).await;
        connection.close().await;
        done
    });
    runtime.shutdown_background();
    done
}

async fn answer(
    app: &AppContext,
    args: &GatewayDevicesArgs,
    connection: &CliGatewayConnection,
) -> anyhow::Result<ExitOutcome> {
    let (client, out) = (&connection.client, &app.terminal.out);
    let known = client.request::<ZeroDevicesList>(DevicesListParams::default()).await?;
    match &args.command {
        None if args.json => out.write_pretty_json(&known)?,
        None => list(app, &known)?,
        Some(GatewayDevicesCommand::Approve { id, scopes }) => {
            let words = |words: &str| words.replace(' ', "").to_lowercase();
            let requests = known.requests.iter();
            let ids = requests.map(|request| (request.id.clone(), words(&request.words)));
            let id = find_id(&words(id), ids)?;
            let params = DeviceApproveParams { id, scopes: scope_texts(scopes) };
            let device = client.request::<ZeroDevicesApprove>(params).await?;
            match args.json {
                true => out.write_pretty_json(&device)?,
                false => app.terminal.print_note(&format!("`{}` is paired", device.name)),
            }
        }
        Some(GatewayDevicesCommand::Revoke { id }) => {
            let ids = known.devices.iter().map(|device| (device.id.clone(), device.id.clone()));
            let id = find_id(id, ids)?;
            let params = DeviceRevokeParams { id };
            let revoked = client.request::<ZeroDevicesRevoke>(params).await?;
            match args.json {
                true => out.write_pretty_json(&revoked)?,
                false => app.terminal.print_note("the device is revoked"),
            }
        }
    }
    Ok(ExitOutcome::Ok)
}

/// The id that starts with a text, or whose second text does.
fn find_id(start: &str, ids: impl Iterator<Item = (String, String)>) -> Result<String, UsageError> {
    let is_meant = |(id, other): &(String, String)| {
        !start.is_empty() && (id.starts_with(start) || other.starts_with(start))
    };
    let found: Vec<(String, String)> = ids.filter(is_meant).collect();
    let start = escape_line(start);
    match found.as_slice() {
        [(id, _)] => Ok(id.clone()),
        [] => Err(UsageError(format!(
            "no device has the id `{start}`; `zero gateway devices` lists them"
        ))),
        _ => Err(UsageError(format!(
            "several devices have an id that starts with `{start}`; pass more of it"
        ))),
    }
}

fn list(app: &AppContext, known: &DevicesListResult) -> anyhow::Result<()> {
    let out = &app.terminal.out;
    if known.devices.is_empty() && known.requests.is_empty() {
        app.terminal.print_note("no device is paired; `zero console` pairs a browser");
        return Ok(());
    }
    let mut table = TextTable::new(["DEVICE", "NAME", "SCOPES", "STATE"]);
    for device in &known.devices {
        let scopes: Vec<&str> =
            device.scopes.iter().map(|name| name.trim_start_matches("operator.")).collect();
        let state = if device.connections > 0 { "connected" } else { "not connected" };
        table.add_row([
            TableCell::whole(device.id.chars().take(ID_CHARS).collect::<String>()),
            escape_line(&device.name).into_owned().into(),
            scopes.join(", ").into(),
            TableCell::styled(state, FAINT),
        ]);
    }
    for request in &known.requests {
        table.add_row([
            TableCell::whole(request.words.clone()),
            escape_line(&request.name).into_owned().into(),
            String::new().into(),
            format!("asks to be paired, from {}", request.address).into(),
        ]);
    }
    Ok(out.write(&table.render(out))?)
}
