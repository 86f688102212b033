//! `zero mcp`: serves zero's tools over MCP, and manages the MCP servers that zero uses.

mod add;
mod approve;
mod download_hosts;
mod install;
mod login;
mod reconnect;
mod serve;
mod status;
mod workspace_servers;

pub(super) use self::download_hosts::ask_about_downloads;
use crate::AppContext;
use crate::cli::{McpArgs, McpCommand};
use crate::exit::ExitOutcome;

pub(super) fn run(app: &AppContext, args: &McpArgs) -> anyhow::Result<ExitOutcome> {
    match &args.command {
        None => serve::run(app, &args.serve),
        Some(McpCommand::Add(args)) => add::add(app, args),
        Some(McpCommand::Remove(args)) => add::remove(app, args),
        Some(McpCommand::Status(args)) => status::run(app, args),
        Some(McpCommand::Reconnect(args)) => reconnect::run(app, args),
        Some(McpCommand::Approve(args)) => approve::run(app, args),
        Some(McpCommand::Login(args)) => login::login(app, args),
        Some(McpCommand::Logout(args)) => login::logout(app, args),
        Some(McpCommand::Install(args)) => install::run(app, args),
    }
}
