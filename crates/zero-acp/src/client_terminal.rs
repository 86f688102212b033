//! Commands in a terminal of the client, for tools that need the user's own environment.
//!
//! Such a command is not confined by zero: the client runs it with everything that the user can do.
//! So the tool exists only if the user's settings say so, and policy asks before each command,
//! whatever rules, grants and modes allow.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use agent_client_protocol::Error;
use agent_client_protocol::v1::schema::{
    CreateTerminalRequest, KillTerminalRequest, ReleaseTerminalRequest, SessionId, TerminalId,
    TerminalOutputRequest, TerminalOutputResponse, WaitForTerminalExitRequest,
};
use serde_json::{Value, json};
use zero_core::text_shortening::{TextFocus, shorten_middle};
use zero_core::{
    CLIENT_TERMINAL, CLIENT_TOOL_SOURCE, CallId, ErrorReason, ResultDisplay, ResultMetadata,
    ToolError, ToolName, ToolResult, ToolResultPart, sanitize,
};
use zero_runtime::tool::BoxFuture;

use crate::client_handle::ClientHandle;
use crate::rpc_error;
use crate::session_message::{SessionMessage, SessionSender};
use crate::tool_host_factory::{
    ClientTool, ClientToolCaller, ClientToolDefinition, ClientToolKind,
};

/// Most bytes of output that the client keeps and that zero takes.
const OUTPUT_BYTES_MAX: usize = 256 * 1024;
/// Longest wait for the client to create, read, kill or release a terminal.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// The shell that runs a command line; some clients start `command` without one.
const SHELL: &str = "/bin/sh";

/// The tool that runs commands in a terminal of the client.
pub(crate) fn terminal_tool(caller: TerminalCaller) -> Option<ClientTool> {
    let registered = ToolName::from_namespaced(CLIENT_TOOL_SOURCE, CLIENT_TERMINAL).ok()?;
    let description = "Runs a shell command in a terminal of the user's editor, in the project's folder. \
        It is not sandboxed, and the user is asked before each command. Use it only for commands that \
        cannot work in the sandbox; otherwise use Bash.";
    let definition = ClientToolDefinition {
        registered,
        name: CLIENT_TERMINAL.to_owned(),
        display_name: "Run command in the editor's terminal".to_owned(),
        description: description.to_owned(),
        input_schema: json!({
            "type": "object",
            "properties": {"command": {"type": "string", "minLength": 1,
                "description": "The command line, for /bin/sh"}},
            "required": ["command"],
            "additionalProperties": false,
        }),
        kind: ClientToolKind::Terminal,
    };
    Some(ClientTool { definition, caller: Arc::new(caller) })
}

/// Runs commands in terminals of one session's client.
pub(crate) struct TerminalCaller {
    pub(crate) session: SessionId,
    pub(crate) to_client: ClientHandle,
    pub(crate) cwd: PathBuf,
    /// To the session that shows the calls.
    pub(crate) sender: SessionSender,
}

impl ClientToolCaller for TerminalCaller {
    fn call<'a>(
        &'a self,
        _tool: &'a str,
        call: &'a CallId,
        input: Value,
        most: Duration,
    ) -> BoxFuture<'a, Result<ToolResult, ToolError>> {
        Box::pin(async move {
            let Some(command) = input.get("command").and_then(Value::as_str) else {
                let message = "the input has no `command`";
                return Err(ToolError::invalid(ErrorReason::SchemaViolation, message));
            };
            self.run(command, call, most).await
        })
    }
}

impl TerminalCaller {
    async fn run(
        &self,
        command: &str,
        call: &CallId,
        most: Duration,
    ) -> Result<ToolResult, ToolError> {
        let create = CreateTerminalRequest::new(self.session.clone(), SHELL)
            .args(vec!["-c".to_owned(), command.to_owned()])
            .cwd(self.cwd.clone())
            .output_byte_limit(OUTPUT_BYTES_MAX as u64);
        let created = self.to_client.request(create, ANSWER_MAX).await;
        let terminal = created.map_err(|error| client_error("start a terminal", &error))?;
        let terminal = OpenTerminal { caller: self, id: terminal.terminal_id, is_running: true };
        // The client shows the terminal in the call, also after it was released.
        let (call, shown) = (call.to_string(), terminal.id.clone());
        self.sender.send(SessionMessage::TerminalOpened { call, terminal: shown }).await;
        terminal.wait(most).await
    }
}

/// A terminal of the client. Dropping it kills a running command and releases the terminal.
struct OpenTerminal<'a> {
    caller: &'a TerminalCaller,
    id: TerminalId,
    is_running: bool,
}

impl OpenTerminal<'_> {
    /// Waits for the end of the command, and returns what it printed.
    async fn wait(mut self, most: Duration) -> Result<ToolResult, ToolError> {
        let TerminalCaller { session, to_client, .. } = self.caller;
        let wait = WaitForTerminalExitRequest::new(session.clone(), self.id.clone());
        let ended = to_client.request(wait, most).await;
        self.is_running = ended.is_err();
        let read = TerminalOutputRequest::new(session.clone(), self.id.clone());
        let read = to_client.request(read, ANSWER_MAX).await;
        let text = read.as_ref().map(output_text).unwrap_or_default();
        let status = match ended {
            Ok(ended) => ended.exit_status,
            Err(error) if rpc_error::is_timeout(&error) => {
                let message = format!(
                    "the command did not end within {} s and was killed\n{text}",
                    most.as_secs()
                );
                return Err(ToolError::failed(ErrorReason::Deadline, message));
            }
            Err(error) => return Err(client_error("wait for the command", &error)),
        };
        read.map_err(|error| client_error("read the output", &error))?;
        let how = match (&status.signal, status.exit_code) {
            (Some(signal), _) => format!("was killed by {}", sanitize::to_line(signal)),
            (None, Some(code)) => format!("ended with exit code {code}"),
            (None, None) => "ended in an unknown way".to_owned(),
        };
        if status.exit_code != Some(0) || status.signal.is_some() {
            let message = format!("the command {how}\n{text}");
            return Err(ToolError::failed(ErrorReason::RemoteFailure, message)
                .with_detail("exit_code", status.exit_code)
                .with_detail("signal", status.signal));
        }
        let text = if text.is_empty() { "(no output)".to_owned() } else { text };
        Ok(ToolResult {
            display: ResultDisplay::markdown(text.clone()),
            content: vec![ToolResultPart::Text(text)],
            structured: json!({"exit_code": 0}),
            locations: Vec::new(),
            metadata: ResultMetadata::default(),
        })
    }
}

impl Drop for OpenTerminal<'_> {
    fn drop(&mut self) {
        let TerminalCaller { session, to_client, .. } = self.caller;
        let (to_client, is_running) = (to_client.clone(), self.is_running);
        let kill = KillTerminalRequest::new(session.clone(), self.id.clone());
        let release = ReleaseTerminalRequest::new(session.clone(), self.id.clone());
        tokio::spawn(async move {
            if is_running && let Err(error) = to_client.request(kill, ANSWER_MAX).await {
                tracing::warn!(%error, "a terminal of the editor could not be killed");
            }
            if let Err(error) = to_client.request(release, ANSWER_MAX).await {
                tracing::debug!(%error, "a terminal of the editor could not be released");
            }
        });
    }
}

/// What a command printed, bounded whatever the client sends.
fn output_text(output: &TerminalOutputResponse) -> String {
    let text = output.output.trim_end_matches('\n');
    let mark = |bytes| format!("\n[… {bytes} bytes left out …]\n");
    let text = shorten_middle(text, OUTPUT_BYTES_MAX, TextFocus::End, mark);
    match output.truncated {
        true => format!("[the editor kept only the end of the output]\n{text}"),
        false => text.into_owned(),
    }
}

fn client_error(what: &str, error: &Error) -> ToolError {
    let why = sanitize::to_line(&error.message);
    let message = format!("the editor did not {what}: {why}; use Bash instead");
    ToolError::failed(ErrorReason::RemoteFailure, message)
}
