//! The commands, one file each.

mod acp;
mod audit_rows;
mod audit_show;
mod audit_tail;
mod audit_verify;
mod completions;
mod config;
mod conformance;
mod doctor;
mod gateway;
mod man;
mod mcp;
mod memory;
mod overview;
mod policy_check;
mod policy_explain;
mod policy_simulate;
mod policy_test;
mod run;
mod sessions;
mod stats;
mod tools_call;
mod tools_list;
mod tools_refresh;
mod tools_serve;
mod tools_show;
mod trust;
mod undo;

use crate::App;
use crate::cli::{AuditCommand, Cli, Command, PolicyCommand, ToolsCommand};
use crate::exit::Exit;

/// Runs a command.
pub(crate) fn run(app: &App, cli: Cli) -> anyhow::Result<Exit> {
    match cli.command {
        None => overview::run(app),
        Some(Command::Tools { command: ToolsCommand::List(args) }) => tools_list::run(app, &args),
        Some(Command::Tools { command: ToolsCommand::Show(args) }) => tools_show::run(app, &args),
        Some(Command::Tools { command: ToolsCommand::Call(args) }) => tools_call::run(app, &args),
        Some(Command::Tools { command: ToolsCommand::Conformance(args) }) => {
            conformance::run(app, &args)
        }
        Some(Command::Tools { command: ToolsCommand::Refresh(args) }) => {
            tools_refresh::run(app, &args)
        }
        Some(Command::Tools { command: ToolsCommand::Serve(args) }) => tools_serve::run(app, &args),
        Some(Command::Acp(args)) => acp::run(app, &args),
        Some(Command::Run(args)) => run::run(app, &args),
        Some(Command::Sessions { command }) => sessions::run(app, &command),
        Some(Command::Gateway(args)) => gateway::run(app, &args),
        Some(Command::Mcp(args)) => mcp::run(app, &args),
        Some(Command::Memory { command }) => memory::run(app, &command),
        Some(Command::Undo(args)) => undo::run(app, &args),
        Some(Command::Stats(args)) => stats::run(app, &args),
        Some(Command::Audit { command: AuditCommand::Tail(args) }) => audit_tail::run(app, &args),
        Some(Command::Audit { command: AuditCommand::Show(args) }) => audit_show::run(app, &args),
        Some(Command::Audit { command: AuditCommand::Verify(args) }) => {
            audit_verify::run(app, &args)
        }
        Some(Command::Config { command }) => config::run(app, &command),
        Some(Command::Trust(args)) => trust::run(app, &args),
        Some(Command::Policy { command: PolicyCommand::Check(args) }) => {
            policy_check::run(app, &args)
        }
        Some(Command::Policy { command: PolicyCommand::Explain(args) }) => {
            policy_explain::run(app, &args)
        }
        Some(Command::Policy { command: PolicyCommand::Test(args) }) => {
            policy_test::run(app, &args)
        }
        Some(Command::Policy { command: PolicyCommand::Simulate(args) }) => {
            policy_simulate::run(app, &args)
        }
        Some(Command::Doctor(args)) => doctor::run(app, &args),
        Some(Command::Completions { shell }) => completions::run(app, shell),
        Some(Command::Man { command }) => man::run(app, &command),
    }
}
