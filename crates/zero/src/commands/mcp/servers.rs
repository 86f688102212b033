//! `zero mcp reconnect`, `approve`, `login` and `logout`: one server, by its name.

use zero_mcp::definition::Reach;

use super::known::Known;
use crate::App;
use crate::cli::{McpApproveArgs, McpLoginArgs, McpLogoutArgs, McpReconnectArgs};
use crate::exit::{Exit, UsageError};

pub(super) fn reconnect(app: &App, args: &McpReconnectArgs) -> anyhow::Result<Exit> {
    let known = Known::read(app, args.workspace.as_ref())?;
    if let Some(alias) = &args.alias {
        known.find(alias)?;
    }
    Err(not_yet("reconnect"))
}

pub(super) fn approve(app: &App, args: &McpApproveArgs) -> anyhow::Result<Exit> {
    let known = Known::read(app, args.workspace.as_ref())?;
    known.find(&args.alias)?;
    Err(not_yet("approve"))
}

pub(super) fn login(app: &App, args: &McpLoginArgs) -> anyhow::Result<Exit> {
    reached_by_http(&Known::read(app, args.workspace.as_ref())?, &args.alias)?;
    Err(not_yet("login"))
}

pub(super) fn logout(app: &App, args: &McpLogoutArgs) -> anyhow::Result<Exit> {
    reached_by_http(&Known::read(app, args.workspace.as_ref())?, &args.alias)?;
    Err(not_yet("logout"))
}

/// Nobody logs in at a command.
fn reached_by_http(known: &Known, alias: &str) -> Result<(), UsageError> {
    match known.find(alias)?.reach {
        Reach::Http(_) => Ok(()),
        Reach::Command(_) => Err(UsageError(format!(
            "server `{alias}` is a command; it gets what it needs to log in from `env` in settings"
        ))),
    }
}

/// What the client half of `zero_mcp` has to bring first.
pub(super) fn not_yet(what: &str) -> anyhow::Error {
    anyhow::anyhow!("`zero mcp {what}` is not in this build")
}
