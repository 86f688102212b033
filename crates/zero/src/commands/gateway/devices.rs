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
/// Characters of an id that a command needs at least.
const ID_CHARS_MIN: usize = 6;

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
            let requests = known.requests.iter();
            let ids = requests.map(|request| (request.id.clone(), request.words.clone()));
            let id = find_request(id, ids)?;
            let params = DeviceApproveParams { id, scopes: scope_texts(scopes) };
            let device = client.request::<ZeroDevicesApprove>(params).await?;
            match args.json {
                true => out.write_pretty_json(&device)?,
                false => app.terminal.print_note(&format!("`{}` is paired", device.name)),
            }
        }
        Some(GatewayDevicesCommand::Revoke { id }) => {
            let id = find_device(id, known.devices.iter().map(|device| device.id.clone()))?;
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

/// The id of the request with these words. They are compared whole, or a device with similar ones
/// could be let in.
fn find_request(
    given: &str,
    requests: impl Iterator<Item = (String, String)>,
) -> Result<String, UsageError> {
    let words = |text: &str| text.replace(' ', "").to_lowercase();
    let mut matching = requests.filter(|(id, known)| id == given || words(known) == words(given));
    match (matching.next(), matching.next()) {
        (Some((id, _)), None) => Ok(id),
        (None, _) => Err(UsageError(format!(
            "no device asks with the text `{}`; pass the whole text that it shows",
            escape_line(given)
        ))),
        (Some(_), Some(_)) => Err(UsageError(
            "several devices ask with this text; reject them and ask again".to_owned(),
        )),
    }
}

/// The paired device whose id starts with a text.
fn find_device(start: &str, ids: impl Iterator<Item = String>) -> Result<String, UsageError> {
    if start.chars().count() < ID_CHARS_MIN {
        return Err(UsageError(format!(
            "pass at least {ID_CHARS_MIN} characters of the id; `zero gateway devices` lists them"
        )));
    }
    let found: Vec<String> = ids.filter(|id| id.starts_with(start)).collect();
    let start = escape_line(start);
    match found.as_slice() {
        [id] => Ok(id.clone()),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_is_revoked_by_enough_of_its_id() {
        let ids = || ["abcdef01", "abcdef02", "123456"].map(str::to_owned).into_iter();
        assert_eq!(find_device("abcdef01", ids()).unwrap(), "abcdef01");
        assert_eq!(find_device("123456", ids()).unwrap(), "123456");
        for wrong in ["", "1", "12345", "abcdef", "zzzzzz"] {
            assert!(find_device(wrong, ids()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn device_is_approved_by_the_whole_text_that_it_shows() {
        let request = |id: &str, words: &str| (id.to_owned(), words.to_owned());
        let asking = || [request("r1", "AB12 CD34"), request("R2", "AB12 FFFF")].into_iter();
        assert_eq!(find_request("ab12cd34", asking()).unwrap(), "r1");
        assert_eq!(find_request("R2", asking()).unwrap(), "R2");
        for wrong in ["", "ab12", "ab12cd3", "r"] {
            assert!(find_request(wrong, asking()).is_err(), "{wrong}");
        }
        let twins = [request("r1", "ab12cd34"), request("r2", "ab12cd34")].into_iter();
        assert!(find_request("ab12cd34", twins).is_err());
    }
}
