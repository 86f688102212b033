//! `zero mcp login` and `logout`: OAuth logins to HTTP servers.

use zero_mcp::client::credentials::LoginLocation;
use zero_mcp::client::login::{
    self, LOGIN_TIME, LoginRequest, LoginUi, LogoutOutcome, RevocationOutcome,
};
use zero_mcp::server_definition::{HttpEndpoint, McpServerDefinition, ServerTransport};
use zero_runtime::tool::BoxFuture;

use super::workspace_servers::WorkspaceServers;
use crate::AppContext;
use crate::cli::{McpLoginArgs, McpLogoutArgs};
use crate::exit::{ExitOutcome, UsageError};
use crate::external_tools::web_access;
use crate::host_setup::small_runtime;
use crate::terminal::{AnswerSource, STRONG, Terminal, escape_line};

pub(super) fn login(app: &AppContext, args: &McpLoginArgs) -> anyhow::Result<ExitOutcome> {
    let known = WorkspaceServers::load(app, args.workspace.as_ref())?;
    let server = known.find_server(&args.alias)?.clone();
    let endpoint = require_http_endpoint(&server)?;
    let host = app.idle_host(known.workspace, &known.settings)?;
    let web = web_access(&host);
    let answers = app.terminal.answer_source();
    if args.paste && answers.is_none() {
        let what = "`--paste` needs a terminal; omit it";
        return Err(UsageError(what.to_owned()).into());
    }
    let ui =
        TerminalLoginUi { terminal: app.terminal.clone(), answers: answers.filter(|_| args.paste) };
    let request = LoginRequest {
        alias: &server.alias,
        endpoint,
        guard: &web.guard,
        credentials: &*web.credentials,
        client_metadata_url: None,
        time: LOGIN_TIME,
    };
    let runtime = small_runtime()?;
    let done = runtime.block_on(login::login(request, &ui));
    // A pending read of the terminal must not delay the exit.
    runtime.shutdown_background();
    let logged_in = done?;
    let place = match logged_in.location {
        LoginLocation::Keyring => "the desktop's keyring".to_owned(),
        LoginLocation::File => {
            format!(
                "a file in `{}`, because no keyring is available",
                host.state().path().display()
            )
        }
    };
    let out = &app.terminal.out;
    out.write(&format!("logged in to `{}`; the login is stored in {place}\n", server.alias))?;
    Ok(ExitOutcome::Ok)
}

pub(super) fn logout(app: &AppContext, args: &McpLogoutArgs) -> anyhow::Result<ExitOutcome> {
    let known = WorkspaceServers::load(app, args.workspace.as_ref())?;
    let server = known.find_server(&args.alias)?.clone();
    let endpoint = require_http_endpoint(&server)?;
    let host = app.idle_host(known.workspace, &known.settings)?;
    let web = web_access(&host);
    let done = small_runtime()?.block_on(login::logout(endpoint, &web.guard, &*web.credentials))?;
    let alias = &server.alias;
    let message = match done {
        LogoutOutcome::NotLoggedIn => format!("not logged in to `{alias}`"),
        LogoutOutcome::Forgotten(RevocationOutcome::Revoked) => format!("logged out of `{alias}`"),
        LogoutOutcome::Forgotten(RevocationOutcome::NotOffered) => {
            format!("removed the login to `{alias}`; it expires at the issuer by itself")
        }
        LogoutOutcome::Forgotten(RevocationOutcome::Failed(why)) => format!(
            "removed the login to `{alias}`, but the issuer did not revoke it: {}",
            escape_line(&why)
        ),
    };
    app.terminal.out.write(&format!("{message}\n"))?;
    Ok(ExitOutcome::Ok)
}

/// Logins exist only for HTTP servers, not for commands.
fn require_http_endpoint(server: &McpServerDefinition) -> Result<&HttpEndpoint, UsageError> {
    match &server.transport {
        ServerTransport::Http(endpoint) => Ok(endpoint),
        ServerTransport::Command(_) => Err(UsageError(format!(
            "server `{}` is a command; set its credentials under `env` in settings",
            server.alias
        ))),
    }
}

/// Shows the login URL on the terminal and reads a pasted one.
struct TerminalLoginUi {
    terminal: Terminal,
    /// Source of the pasted URL, with `--paste`.
    answers: Option<AnswerSource>,
}

impl LoginUi for TerminalLoginUi {
    fn show_url(&self, url: &str) {
        let stream = &self.terminal.err;
        let url = escape_line(url);
        let shown = stream.paint(STRONG, &url);
        let next = match self.answers {
            // The question for the URL follows.
            Some(_) => "",
            None => "Waiting for the browser. If it runs on another machine, pass `--paste`.\n",
        };
        // If the terminal is closed, the login times out.
        let _ = stream.write(&format!("Open this URL in a browser:\n\n{shown}\n\n{next}"));
    }

    fn read_pasted_url(&self) -> BoxFuture<'_, Option<String>> {
        let (terminal, answers) = (self.terminal.clone(), self.answers.clone());
        Box::pin(async move {
            let answers = answers?;
            let question = "Then paste the URL that the browser ends at, and press Enter";
            let read = move || terminal.read_line(&answers, question, ": ");
            tokio::task::spawn_blocking(read).await.ok().flatten()
        })
    }
}
