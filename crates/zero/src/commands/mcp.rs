//! `zero mcp`: the tools of zero for others, and those of others for zero.

mod approve;
mod install;
mod known;
mod login;
mod reconnect;
mod serve;
mod status;

use crate::App;
use crate::cli::{McpArgs, McpCommand};
use crate::exit::Exit;

pub(super) fn run(app: &App, args: &McpArgs) -> anyhow::Result<Exit> {
    match &args.command {
        None => serve::run(app, &args.serve),
        Some(McpCommand::Status(args)) => status::run(app, args),
        Some(McpCommand::Reconnect(args)) => reconnect::run(app, args),
        Some(McpCommand::Approve(args)) => approve::run(app, args),
        Some(McpCommand::Login(args)) => login::login(app, args),
        Some(McpCommand::Logout(args)) => login::logout(app, args),
        Some(McpCommand::Install(args)) => install::run(app, args),
    }
}
