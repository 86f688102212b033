//! `zero sessions rewind`: takes files and conversation of a session back to before a prompt.
//!
//! Files are taken back where the tools of the session run. If no client serves them now, which is
//! the rule for sessions of `zero run` and of an editor that was closed, this process does, in the
//! folder of the session.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::json;
use tokio_util::sync::CancellationToken;
use zero_client::tool_service::ToolService;
use zero_core::event::RewindScope;
use zero_core::{ErrorReason, HostLimits, ToolCall, ToolError, ToolOutcome};
use zero_policy::PermissionMode;
use zero_runtime::DialectName;
use zero_runtime::file_rewind::{
    FileRewindReport, FileRewindRequest, FileRewinder, RewindRequester,
};
use zero_runtime::tool::BoxFuture;
use zero_runtime::tool_backend::{CallObserver, ToolBackend, ToolBackendError, ToolCatalog};
use zero_wire::client::GatewayClientError;
use zero_wire::zero_sessions::{
    PromptInfo, SessionInfo, SessionPromptsParams, SessionRewindParams, SessionRewindResult,
    ZeroSessionsPrompts, ZeroSessionsRewind,
};

use super::offline_tools::{answer_events, attach_tools};
use super::{find_session, format_time};
use crate::AppContext;
use crate::cli::sessions::SessionsRewindArgs;
use crate::exit::{ExitOutcome, UsageError};
use crate::gateway_connection::CliGatewayConnection;
use crate::terminal::{FAINT, STRONG, TableCell, TextTable, escape_line};

pub(super) async fn run(
    app: &AppContext,
    args: &SessionsRewindArgs,
    gateway: &mut CliGatewayConnection,
) -> anyhow::Result<ExitOutcome> {
    let session = find_session(gateway, &args.session).await?;
    if args.list {
        return list_prompts(app, args, gateway, session).await;
    }
    let scope = match (args.files, args.conversation) {
        (true, false) => RewindScope::Files,
        (false, true) => RewindScope::Conversation,
        _ => RewindScope::Both,
    };
    let params = SessionRewindParams {
        session_key: session.session_key.clone(),
        prompt: args.to,
        undo: args.undo,
        scope,
        force: args.force,
    };
    let service = match scope.has_files() {
        true => serve_files(app, gateway, &session).await?,
        false => None,
    };
    let client = gateway.client.clone();
    let request = client.request::<ZeroSessionsRewind>(params);
    let rewound = answer_events(&mut gateway.events, service.as_ref(), request).await;
    let rewound = rewound.map_err(to_usage_error)?;
    let exit = print_result(app, args, &rewound)?;
    if args.undo && rewound.rewound && scope.has_conversation() && !args.json {
        let prompts = read_prompts(gateway, session.session_key).await?;
        app.terminal.print_note(&describe_state(&prompts));
    }
    Ok(exit)
}

/// Where the conversation is. The same command takes a rewind back and then makes it again, so that
/// only this tells the two apart.
fn describe_state(prompts: &[PromptInfo]) -> String {
    match prompts.iter().rev().find(|prompt| prompt.in_effect) {
        Some(last) => format!("the conversation now ends with prompt {}", last.number),
        None => "the conversation now has no prompts".to_owned(),
    }
}

/// Serves the files of a session whose tools are with a client that is not there. `None` if they are
/// with the gateway or with a client that is there, or if their folder is not on this machine.
async fn serve_files(
    app: &AppContext,
    gateway: &mut CliGatewayConnection,
    session: &SessionInfo,
) -> anyhow::Result<Option<Arc<ToolService>>> {
    let (Some(host), Some(cwd)) = (&session.tool_host, &session.cwd) else { return Ok(None) };
    let folder = PathBuf::from(cwd);
    if !folder.is_dir() {
        return Ok(None);
    }
    let workspace = app.config.open_workspace(&[folder])?;
    let settings = app.load_settings(&workspace, &[])?;
    let rewinder = FileRewinder::new(
        &app.config.state_dir()?,
        workspace,
        &HostLimits::default(),
        settings.undo().commands,
    );
    let backend = Arc::new(RewindBackend { rewinder, cwd: PathBuf::from(cwd) });
    attach_tools(gateway, session, host, backend).await
}

/// Turns a refused prompt number into a usage error with the same message.
pub(super) fn to_usage_error(error: GatewayClientError) -> anyhow::Error {
    match error {
        GatewayClientError::Refused { error }
            if error.code == zero_wire::ErrorCode::InvalidRequest =>
        {
            UsageError(escape_line(&error.message).into_owned()).into()
        }
        error => error.into(),
    }
}

/// The files of a session, without any tool.
struct RewindBackend {
    rewinder: FileRewinder,
    cwd: PathBuf,
}

impl ToolBackend for RewindBackend {
    fn load_catalog(&self, _: DialectName) -> BoxFuture<'_, Result<ToolCatalog, ToolBackendError>> {
        let catalog = ToolCatalog { cwd: self.cwd.clone(), ..ToolCatalog::default() };
        Box::pin(std::future::ready(Ok(catalog)))
    }

    fn call(
        &self,
        call: ToolCall,
        _: DialectName,
        _: CancellationToken,
        _: Arc<dyn CallObserver>,
    ) -> BoxFuture<'_, ToolOutcome> {
        let message =
            "`zero sessions rewind` has no tools; send the prompt again when it has ended";
        let error = ToolError::not_found(ErrorReason::UnknownTool, message).with_tool(&call.tool);
        Box::pin(std::future::ready(error.into()))
    }

    fn set_mode(&self, _: Option<PermissionMode>) -> BoxFuture<'_, Result<(), ToolBackendError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn rewind_files(
        &self,
        request: FileRewindRequest,
        // The user runs this command for it.
        _: RewindRequester,
    ) -> BoxFuture<'_, Result<FileRewindReport, ToolError>> {
        Box::pin(self.rewinder.clone().run(request))
    }

    fn location(&self) -> String {
        "this machine".to_owned()
    }

    fn folder(&self) -> Option<PathBuf> {
        Some(self.cwd.clone())
    }
}

async fn list_prompts(
    app: &AppContext,
    args: &SessionsRewindArgs,
    gateway: &CliGatewayConnection,
    session: SessionInfo,
) -> anyhow::Result<ExitOutcome> {
    let prompts = read_prompts(gateway, session.session_key).await?;
    let out = &app.terminal.out;
    if args.json {
        out.write_pretty_json(&prompts)?;
        return Ok(ExitOutcome::Ok);
    }
    if prompts.is_empty() {
        app.terminal.print_note(
            "there is no prompt to rewind to; prompts of an earlier version of zero have no number",
        );
        return Ok(ExitOutcome::Ok);
    }
    let mut table = TextTable::new(["NUMBER", "WHEN", "FILES", "COMMANDS", "STATE", "PROMPT"]);
    for PromptInfo { number, time_ms, words, in_effect, files, commands, .. } in &prompts {
        let state = if *in_effect { "" } else { "taken back" };
        table.add_row([
            TableCell::styled(number.to_string(), STRONG),
            TableCell::styled(format_time(*time_ms), FAINT),
            files.to_string().into(),
            commands.to_string().into(),
            state.into(),
            words.as_str().into(),
        ]);
    }
    out.write(&table.render(out))?;
    Ok(ExitOutcome::Ok)
}

async fn read_prompts(
    gateway: &CliGatewayConnection,
    session_key: String,
) -> anyhow::Result<Vec<PromptInfo>> {
    let mut params = SessionPromptsParams { session_key, ..SessionPromptsParams::default() };
    let mut prompts = Vec::new();
    loop {
        let page = gateway.client.request::<ZeroSessionsPrompts>(params.clone()).await?;
        // A page that brings nothing would be asked for without end.
        let is_empty = page.prompts.is_empty();
        prompts.extend(page.prompts);
        match page.next_offset.filter(|next| !is_empty && Some(*next) > params.offset) {
            Some(next) => params.offset = Some(next),
            None => break,
        }
    }
    Ok(prompts)
}

fn print_result(
    app: &AppContext,
    args: &SessionsRewindArgs,
    result: &SessionRewindResult,
) -> anyhow::Result<ExitOutcome> {
    let exit = if result.rewound { ExitOutcome::Ok } else { ExitOutcome::Denied };
    let out = &app.terminal.out;
    if args.json {
        out.write_pretty_json(&json!(result))?;
        return Ok(exit);
    }
    if !result.rewound {
        let files = match result.conflict_count {
            1 => "one file was".to_owned(),
            count => format!("{count} files were"),
        };
        let mut message = format!(
            "nothing was touched: {files} changed by another program since; pass `--force` to overwrite (what is overwritten is recorded), or `--conversation` to leave files alone"
        );
        for conflict in &result.conflicts {
            message += &format!("\n  {} since: {}", conflict.what, escape_line(&conflict.path));
        }
        app.terminal.print_error(&message);
        print_notes(app, result);
        return Ok(exit);
    }
    let what = result.scope.describe_rewind(result.prompt, result.file_count);
    let words = result
        .prompt_words
        .as_deref()
        .map_or_else(String::new, |words| format!(": {}", escape_line(words)));
    out.write(&format!("{what}{words}\n"))?;
    for change in &result.changes {
        let subject = escape_line(&change.subject);
        out.write(&match change.action.as_str() {
            "create" => format!("  removed {subject}\n"),
            "command" if change.files == 1 => format!("  took back one path of: {subject}\n"),
            "command" => format!("  took back {} paths of: {subject}\n", change.files),
            _ => format!("  restored {subject}\n"),
        })?;
    }
    let left = result.change_count.saturating_sub(result.changes.len() as u64);
    if left > 0 {
        out.write(&format!("  and {left} more changes\n"))?;
    }
    if result.scope.has_files() && result.change_count == 0 {
        app.terminal.print_note("no recorded change of a file was in effect");
    }
    print_notes(app, result);
    let undo = format!("zero sessions rewind {} --undo", escape_line(&result.session.session_key));
    app.terminal.print_note(&format!("to take this back, run `{undo}`"));
    Ok(exit)
}

fn print_notes(app: &AppContext, result: &SessionRewindResult) {
    for note in &result.unrecorded {
        app.terminal.print_note(&escape_line(note));
    }
}
