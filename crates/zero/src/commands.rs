//! Implementations of the commands, one file each.

mod acp;
mod audit_query;
mod audit_rows;
mod audit_show;
mod audit_tail;
mod audit_verify;
mod chat;
mod completions;
mod config;
mod conformance;
mod console;
mod doctor;
mod dry_run;
mod file_proposal;
mod gateway;
mod help;
mod import;
mod init;
mod jobs;
mod local_machine_reports;
mod login;
mod man;
mod mcp;
mod memory;
mod models;
mod overview;
mod policy_check;
mod policy_explain;
mod policy_simulate;
mod policy_test;
mod ports;
mod prune;
mod questions;
mod run;
mod sessions;
mod skills;
mod stats;
mod tools_call;
mod tools_list;
mod tools_refresh;
mod tools_serve;
mod tools_show;
mod trust;
mod undo;
mod update;
mod usage;

use crate::AppContext;
use crate::cli::{AuditCommand, ChatArgs, Cli, CliCommand, PolicyCommand, ToolsCommand};
use crate::exit::ExitOutcome;

/// Runs a parsed command.
pub(crate) fn run(app: &AppContext, cli: Cli) -> anyhow::Result<ExitOutcome> {
    match cli.command {
        None if app.terminal.answer_source().is_some() && app.terminal.out.is_terminal() => {
            chat::run(app, &ChatArgs::default())
        }
        None => overview::run(app),
        Some(CliCommand::Chat(args)) => chat::run(app, &args),
        Some(CliCommand::Tools { command: ToolsCommand::List(args) }) => {
            tools_list::run(app, &args)
        }
        Some(CliCommand::Tools { command: ToolsCommand::Show(args) }) => {
            tools_show::run(app, &args)
        }
        Some(CliCommand::Tools { command: ToolsCommand::Call(args) }) => {
            tools_call::run(app, &args)
        }
        Some(CliCommand::Tools { command: ToolsCommand::Conformance(args) }) => {
            conformance::run(app, &args)
        }
        Some(CliCommand::Tools { command: ToolsCommand::Refresh(args) }) => {
            tools_refresh::run(app, &args)
        }
        Some(CliCommand::Tools { command: ToolsCommand::Serve(args) }) => {
            tools_serve::run(app, &args)
        }
        Some(CliCommand::Login(args)) => login::log_in(app, &args),
        Some(CliCommand::Logout(args)) => login::log_out(app, &args),
        Some(CliCommand::Models(args)) => models::run(app, &args),
        Some(CliCommand::Acp(args)) => acp::run(app, &args),
        Some(CliCommand::Run(args)) => run::run(app, &args),
        Some(CliCommand::Sessions { command }) => sessions::run(app, &command),
        Some(CliCommand::Jobs(args)) => jobs::run(app, &args),
        Some(CliCommand::Questions { command }) => questions::run(app, &command),
        Some(CliCommand::Ports(args)) => ports::run(app, &args),
        Some(CliCommand::Prune(args)) => prune::run(app, &args),
        Some(CliCommand::Gateway(args)) => gateway::run(app, &args),
        Some(CliCommand::Console(args)) => console::run(app, &args),
        Some(CliCommand::Mcp(args)) => mcp::run(app, &args),
        Some(CliCommand::Memory { command }) => memory::run(app, &command),
        Some(CliCommand::Skills(args)) => skills::run(app, &args),
        Some(CliCommand::Undo(args)) => undo::run(app, &args),
        Some(CliCommand::Stats(args)) => stats::run(app, &args),
        Some(CliCommand::Usage(args)) => usage::run(app, &args),
        Some(CliCommand::Audit { command: AuditCommand::Tail(args) }) => {
            audit_tail::run(app, &args)
        }
        Some(CliCommand::Audit { command: AuditCommand::Show(args) }) => {
            audit_show::run(app, &args)
        }
        Some(CliCommand::Audit { command: AuditCommand::Verify(args) }) => {
            audit_verify::run(app, &args)
        }
        Some(CliCommand::Init(args)) => init::run(app, &args),
        Some(CliCommand::Import(args)) => import::run(app, &args),
        Some(CliCommand::Help(args)) => help::run(app, &args),
        Some(CliCommand::Update(args)) => update::run(app, &args),
        Some(CliCommand::Config { command }) => config::run(app, &command),
        Some(CliCommand::Trust(args)) => trust::run(app, &args),
        Some(CliCommand::Policy { command: PolicyCommand::Check(args) }) => {
            policy_check::run(app, &args)
        }
        Some(CliCommand::Policy { command: PolicyCommand::Explain(args) }) => {
            policy_explain::run(app, &args)
        }
        Some(CliCommand::Policy { command: PolicyCommand::Test(args) }) => {
            policy_test::run(app, &args)
        }
        Some(CliCommand::Policy { command: PolicyCommand::Simulate(args) }) => {
            policy_simulate::run(app, &args)
        }
        Some(CliCommand::Doctor(args)) => doctor::run(app, &args),
        Some(CliCommand::Completions { shell }) => completions::run(app, shell),
        Some(CliCommand::Complete { kind }) => completions::print_values(app, kind),
        Some(CliCommand::Man { command }) => man::run(app, &command),
    }
}
