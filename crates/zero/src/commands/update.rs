//! `zero update`: replaces a zero that was installed from an archive, and names the command for the others.
//!
//! Nothing is unpacked before the signature of the sums and the sum of the archive are right, and the program itself is
//! replaced last, by a rename. zero runs this only for the user who typed it.

mod install_receipt;
mod release_archive;
mod release_client;

use anyhow::{Context as _, bail};
use serde_json::json;
use zero_settings::update::ENABLED_KEY;

use self::install_receipt::{InstallMethod, InstallReceipt};
use self::release_client::{ReleaseClient, ReleaseVersion};
use crate::AppContext;
use crate::cli::UpdateArgs;
use crate::exit::{ExitOutcome, UsageError};
use crate::host_setup::small_runtime;

pub(super) fn run(app: &AppContext, args: &UpdateArgs) -> anyhow::Result<ExitOutcome> {
    let workspace = app.config.open_workspace(&[])?;
    let settings = app.load_settings(&workspace, &[])?;
    let update = settings.update();
    if update.enabled == Some(false) {
        bail!(
            "updates are turned off by `{ENABLED_KEY}` in your settings; to turn them on: `zero config unset {ENABLED_KEY}`"
        );
    }
    let program = app.config.program().context("the path of this program is unknown")?;
    let receipt = match InstallReceipt::find(program, app.config.home())? {
        InstallMethod::Archive(receipt) => receipt,
        InstallMethod::Other { name, command } => {
            return report_command(app, args, name, command);
        }
    };
    let address = update.address.clone().or(receipt.address.clone()).ok_or_else(|| {
        UsageError(
            "the address of the releases is not known; set it: `zero config set update.address https://…`"
                .to_owned(),
        )
    })?;
    let key = update.public_key.clone().or(receipt.public_key.clone()).ok_or_else(|| {
        UsageError(
            "the installed release names no key, and zero installs no unsigned release; set the key of its publisher: `zero config set update.publicKey RW…`"
                .to_owned(),
        )
    })?;
    let policy = app.build_policy(&workspace, &settings, None)?;
    let client = ReleaseClient::new(app, &settings, policy, &address, &key)?;
    let runtime = small_runtime()?;
    let done = runtime.block_on(update_archive(app, args, &client, &receipt));
    runtime.shutdown_background();
    done
}

/// Says how a zero that zero does not replace itself is updated.
fn report_command(
    app: &AppContext,
    args: &UpdateArgs,
    name: &str,
    command: &str,
) -> anyhow::Result<ExitOutcome> {
    if args.json {
        let report = json!({"method": name, "command": command, "updated": false});
        app.terminal.out.write_pretty_json(&report)?;
    } else {
        app.terminal.print_note(&format!("zero was installed by {name}, which also updates it:"));
        app.terminal.out.write(&format!("{command}\n"))?;
    }
    Ok(ExitOutcome::Ok)
}

async fn update_archive(
    app: &AppContext,
    args: &UpdateArgs,
    client: &ReleaseClient,
    receipt: &InstallReceipt,
) -> anyhow::Result<ExitOutcome> {
    let installed = env!("CARGO_PKG_VERSION");
    let release = client.newest(&receipt.platform).await?;
    let newest = release.version.to_string();
    let is_newer = Some(&release.version) > ReleaseVersion::parse(installed).as_ref();
    let mut updated = false;
    if is_newer && !args.check {
        let archive = client.fetch_archive(&release).await?;
        release_archive::install(&archive, &receipt.prefix)?;
        updated = true;
    }
    if args.json {
        let report = json!({
            "method": "archive", "installed": installed, "newest": newest, "updated": updated,
        });
        app.terminal.out.write_pretty_json(&report)?;
        return Ok(ExitOutcome::Ok);
    }
    let line = match (is_newer, updated) {
        (false, _) => format!("zero {installed} is up to date; the newest release is {newest}\n"),
        (true, false) => format!("zero {newest} is available; `zero update` installs it\n"),
        (true, true) => format!("updated zero from {installed} to {newest}\n"),
    };
    app.terminal.out.write(&line)?;
    Ok(ExitOutcome::Ok)
}
