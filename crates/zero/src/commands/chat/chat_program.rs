//! What `zero` does for a chat: opens tools, asks questions, runs commands and editors.

use std::ffi::OsString;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use serde_json::{Map, Value, json};
use zero_chat::{ChatHost, ChatTools, ClipboardImage};
use zero_client::GatewayLocality;
use zero_client::wire::SessionInfo;
use zero_core::SessionId;
use zero_core::event::{ApprovalRequest, UserQuestion};
use zero_policy::PermissionMode;
use zero_runtime::session_results::ResultLifetime;
use zero_runtime::tool::BoxFuture;
use zero_runtime::{ApprovalAnswer, WithdrawalNote};
use zero_sandbox::notification_program::NotificationProgram;
use zero_sandbox::{ConfigFile, SandboxLayers, StateDir, path_survey, terminal_program};
use zero_session::approvals::StoredGrants;
use zero_session::direct_model;
use zero_terminal::{PromptTurn, TerminalTheme};

use super::typed_text_store::TypedTextStore;
use crate::AppContext;
use crate::cli::ChatArgs;
use crate::command_line;
use crate::commands::config::settings_change::set_user_value;
use crate::commands::login::find_offered_models;
use crate::error_chain::describe_error;
use crate::gateway_dialer::LazyGatewayDialer;
use crate::session_name::unused_session_name;
use crate::tool_host_factory::{TerminalBackendRequest, TerminalPromptOptions};
use crate::user_question::elicit_answer;

/// Largest text that is sent to the terminal's clipboard, in bytes; terminals refuse more.
const COPY_BYTES_MAX: usize = 100_000;
/// Largest text that an editor returns, in bytes.
const EDITED_BYTES_MAX: u64 = 2 * 1024 * 1024;
/// Most files that completion knows.
const FILES_MAX: usize = 100_000;
/// How long the program of the status line may take, and how much of its output is read.
const STATUS_TIMEOUT: Duration = Duration::from_secs(2);
const STATUS_BYTES_MAX: u64 = 4_096;
/// How long each program that reads the clipboard may take, and the largest image that prompts can have.
const CLIPBOARD_TIMEOUT: Duration = Duration::from_secs(5);
const IMAGE_BYTES_MAX: u64 = 6 * 1024 * 1024;
/// Largest file that names a branch, in bytes.
const HEAD_BYTES_MAX: u64 = 4_096;

/// The program around a chat.
pub(super) struct ChatProgram {
    pub(super) app: AppContext,
    pub(super) args: ChatArgs,
    pub(super) cwd: PathBuf,
    /// The permission mode of the settings.
    pub(super) settings_mode: PermissionMode,
    pub(super) typed: TypedTextStore,
    pub(super) dialer: Arc<LazyGatewayDialer>,
    /// The program that makes the status line.
    pub(super) status_program: Option<NotificationProgram>,
}

impl ChatProgram {
    fn prompt_options(&self, turn: &PromptTurn) -> TerminalPromptOptions {
        TerminalPromptOptions {
            yes: false,
            takes_stdin: false,
            turn: turn.clone(),
            continued: Arc::default(),
        }
    }

    async fn open(
        &self,
        session: &SessionInfo,
        locality: GatewayLocality,
        turn: &PromptTurn,
    ) -> anyhow::Result<ChatTools> {
        let id = SessionId::new(session.session_id.clone())?;
        let is_here = session.cwd.as_deref().is_some_and(|cwd| Path::new(cwd) == self.cwd);
        let (mut mode, mut grants, mut grant_store) = (self.args.options.mode, Vec::new(), None);
        // A gateway elsewhere must not loosen anything here.
        if let Some(store) = self.dialer.local_store().await {
            if is_here {
                mode = mode.or_else(|| session.mode.as_deref()?.parse().ok());
                grants = store.grants(&id).await?;
            }
            grant_store = Some(StoredGrants::new(&store, id, grants.clone()));
        }
        let result_lifetime = match locality {
            GatewayLocality::InProcess => ResultLifetime::Session,
            GatewayLocality::Remote => ResultLifetime::Process,
        };
        let request = TerminalBackendRequest {
            session,
            cwd: &self.cwd,
            settings_files: &self.args.options.settings,
            mode,
            result_lifetime,
            grants,
            grant_store,
        };
        let (backend, _servers) = self.app.local_backend(request, &self.prompt_options(turn))?;
        Ok(ChatTools { backend, own_mode: mode.unwrap_or(self.settings_mode) })
    }

    /// Runs a command of zero with this environment and terminal.
    async fn run_zero(&self, app: AppContext, mut args: Vec<String>) -> Result<(), String> {
        // These have what the gateway has; the others are about this machine.
        if args.first().is_some_and(|command| command == "sessions") {
            args.extend(self.remote_options());
        }
        let words = std::iter::once("zero".to_owned()).chain(args).map(OsString::from);
        let cli = command_line::parse(words.collect()).map_err(|error| error.to_string())?;
        let ran = tokio::task::spawn_blocking(move || crate::commands::run(&app, cli));
        match ran.await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(describe_error(&error)),
            Err(_) => Err("zero is shutting down".to_owned()),
        }
    }

    /// The options that name the gateway, as the user wrote them.
    fn remote_options(&self) -> Vec<String> {
        let remote = &self.args.remote;
        let file = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
        let options = [
            ("--url", remote.url.clone()),
            ("--token-file", file(&remote.token_file)),
            ("--password-file", file(&remote.password_file)),
        ];
        let given = options.into_iter().filter_map(|(name, value)| Some([name.to_owned(), value?]));
        given.flatten().collect()
    }

    /// Edits a text in the user's editor, in a file that only they can read.
    fn edit_blocking(&self, text: &str) -> anyhow::Result<String> {
        let set = |variable| {
            let value = self.app.config.variable(variable).map(str::trim);
            value.filter(|value| !value.is_empty()).map(str::to_owned)
        };
        let Some(editor) = set("VISUAL").or_else(|| set("EDITOR")) else {
            anyhow::bail!("no editor is set; set VISUAL or EDITOR, as in `EDITOR=nano zero`");
        };
        let folder: StateDir = self
            .app
            .config
            .state_dir()?
            .child("editing")
            .child(&format!("{:016x}", fastrand::u64(..)));
        folder.create()?;
        let file = "prompt.md";
        folder.create_new(file)?.write_all(text.as_bytes())?;
        let ended = terminal_program::edit(&editor, &folder.path().join(file));
        let mut edited = String::new();
        let read = folder
            .open(file)
            .and_then(|file| file.take(EDITED_BYTES_MAX).read_to_string(&mut edited));
        let _ = folder.remove_all();
        let status = ended?;
        read?;
        if !status.success() {
            anyhow::bail!("the editor ended with {status}; the prompt is unchanged");
        }
        Ok(edited)
    }
}

impl ChatHost for ChatProgram {
    fn open_tools<'a>(
        &'a self,
        session: &'a SessionInfo,
        locality: GatewayLocality,
        turn: &'a PromptTurn,
    ) -> BoxFuture<'a, Result<ChatTools, String>> {
        Box::pin(async move {
            self.open(session, locality, turn).await.map_err(|error| describe_error(&error))
        })
    }

    fn ask_question<'a>(
        &'a self,
        question: UserQuestion,
        withdrawal: WithdrawalNote,
        turn: &'a PromptTurn,
    ) -> BoxFuture<'a, (&'static str, Map<String, Value>)> {
        Box::pin(async move {
            let elicitor = self.prompt_options(turn).elicitor(&self.app, withdrawal);
            elicit_answer(&*elicitor, question).await
        })
    }

    fn ask_approval<'a>(
        &'a self,
        request: ApprovalRequest,
        withdrawal: WithdrawalNote,
        turn: &'a PromptTurn,
    ) -> BoxFuture<'a, ApprovalAnswer> {
        Box::pin(async move {
            let options = self.prompt_options(turn);
            options.resolve_approval(&self.app, &request, &withdrawal).await.1
        })
    }

    fn run_dialog(&self, args: Vec<String>) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async move {
            let is_login = args.first().is_some_and(|command| command == "login");
            self.run_zero(self.app.clone(), args).await?;
            if is_login {
                // A gateway reads the models when it starts; the next request starts another one.
                self.dialer.shut_down().await;
            }
            Ok(())
        })
    }

    fn run_command(&self, args: Vec<String>) -> BoxFuture<'_, Result<String, String>> {
        let (terminal, output) = self.app.terminal.captured();
        let app = AppContext { terminal, ..self.app.clone() };
        Box::pin(async move {
            let ran = self.run_zero(app, args).await;
            let output = output.text();
            match ran {
                Ok(()) => Ok(output),
                Err(why) if output.trim().is_empty() => Err(why),
                Err(why) => Err(format!("{}\n{why}", output.trim_end())),
            }
        })
    }

    fn find_models(&self) -> BoxFuture<'_, Vec<String>> {
        Box::pin(find_offered_models(&self.app))
    }

    fn sandbox_state(&self) -> BoxFuture<'_, String> {
        Box::pin(async {
            let layers = tokio::task::spawn_blocking(SandboxLayers::probe).await;
            match layers.is_ok_and(|layers| layers.has_namespaces()) {
                true => "sandbox".to_owned(),
                false => "sandbox incomplete: see `zero doctor`".to_owned(),
            }
        })
    }

    fn run_status_program(&self, status: Value) -> BoxFuture<'_, Option<Result<String, String>>> {
        let program = self.status_program.clone();
        Box::pin(async move {
            let program = program?;
            let ran = tokio::task::spawn_blocking(move || {
                program.run_for_output(
                    &(status.to_string() + "\n"),
                    STATUS_TIMEOUT,
                    STATUS_BYTES_MAX,
                )
            });
            let output = ran.await.ok()?;
            let first = |text: Vec<u8>| {
                String::from_utf8_lossy(&text).lines().next().unwrap_or_default().to_owned()
            };
            Some(output.map(first).map_err(|error| error.to_string()))
        })
    }

    fn save_theme(&self, theme: TerminalTheme) -> Result<(), String> {
        let (terminal, _) = self.app.terminal.captured();
        let app = AppContext { terminal, ..self.app.clone() };
        tokio::task::block_in_place(|| set_user_value(&app, "chat.theme", json!(theme.name())))
            .map(|_| ())
            .map_err(|error| describe_error(&error))
    }

    fn read_clipboard_image(&self) -> BoxFuture<'_, Result<Option<ClipboardImage>, String>> {
        Box::pin(async {
            tokio::task::block_in_place(|| {
                let workspace = self.app.config.open_workspace(&[])?;
                let settings = self.app.load_settings(&workspace, &self.args.options.settings)?;
                Ok(self.app.clipboard_programs(&settings, &self.cwd))
            })
            .map_err(|error: anyhow::Error| describe_error(&error))?
            .and_then(|programs| tokio::task::block_in_place(|| read_image(&programs)))
        })
    }

    fn is_image(&self, path: &str) -> bool {
        let ending = path.rsplit('.').next().unwrap_or_default().to_ascii_lowercase();
        let is_named_so = matches!(ending.as_str(), "png" | "jpg" | "jpeg" | "gif" | "webp");
        let path = match (path.strip_prefix("~/"), self.app.config.home()) {
            (Some(below), Some(home)) => home.join(below),
            _ => self.cwd.join(path),
        };
        is_named_so && path_survey::exists(&path)
    }

    fn edit_text<'a>(&'a self, text: &'a str) -> BoxFuture<'a, Result<String, String>> {
        Box::pin(async move {
            tokio::task::block_in_place(|| self.edit_blocking(text))
                .map_err(|error| describe_error(&error))
        })
    }

    fn is_direct_command(&self, word: &str) -> bool {
        direct_model::is_shorthand(word)
    }

    fn new_session_name(&self) -> String {
        unused_session_name()
    }

    fn list_files(&self) -> BoxFuture<'_, Vec<String>> {
        let cwd = self.cwd.clone();
        Box::pin(async move {
            let listed =
                tokio::task::spawn_blocking(move || zero_tools::list_files(&cwd, FILES_MAX));
            listed.await.unwrap_or_default()
        })
    }

    fn current_branch(&self) -> BoxFuture<'_, Option<String>> {
        let cwd = self.cwd.clone();
        Box::pin(async move {
            tokio::task::spawn_blocking(move || read_branch(&cwd)).await.ok().flatten()
        })
    }

    fn load_history(&self) -> Vec<String> {
        self.typed.read_history()
    }

    fn add_history(&self, prompt: &str) {
        if let Err(error) = self.typed.add_prompt(prompt) {
            tracing::warn!(%error, "the prompt could not be added to the history");
        }
    }

    fn load_draft(&self) -> Option<String> {
        self.typed.read_draft()
    }

    fn save_draft(&self, text: &str) {
        if let Err(error) = self.typed.write_draft(text) {
            tracing::warn!(%error, "the draft could not be kept");
        }
    }

    fn copy_text(&self, text: &str) -> Result<(), String> {
        if text.len() > COPY_BYTES_MAX {
            return Err(format!("it has more than {COPY_BYTES_MAX} bytes; use /export"));
        }
        let data = base64::engine::general_purpose::STANDARD.encode(text);
        let sequence = format!("\x1b]52;c;{data}\x07");
        self.app.terminal.out.write(&sequence).map_err(|error| error.to_string())
    }
}

/// The image that the first of some programs prints which has one.
fn read_image(programs: &[NotificationProgram]) -> Result<Option<ClipboardImage>, String> {
    let mut late = None;
    for program in programs {
        let bytes = match program.run_for_output("", CLIPBOARD_TIMEOUT, IMAGE_BYTES_MAX + 1) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                late = Some(format!("`{}`: {error}", program.program.display()));
                continue;
            }
            // A program that has no image of its type fails.
            Err(_) => continue,
        };
        if bytes.len() as u64 > IMAGE_BYTES_MAX {
            let most = IMAGE_BYTES_MAX / 1024 / 1024;
            return Err(format!("the image is larger than {most} MiB; copy a smaller part of it"));
        }
        if let Some(mime) = zero_tools::image_media_type(&bytes) {
            let data = base64::engine::general_purpose::STANDARD.encode(bytes);
            return Ok(Some(ClipboardImage { mime: mime.to_owned(), data }));
        }
    }
    late.map_or(Ok(None), Err)
}

/// Name of the branch that is checked out in a folder, or the start of a commit.
fn read_branch(cwd: &Path) -> Option<String> {
    let read = |path: PathBuf| {
        let bytes = ConfigFile::Own(path).read(HEAD_BYTES_MAX).ok()??;
        Some(String::from_utf8_lossy(&bytes).trim().to_owned())
    };
    for folder in cwd.ancestors() {
        let git = folder.join(".git");
        let head = read(git.join("HEAD")).or_else(|| {
            // A worktree or submodule names its folder in a file.
            let place = read(git)?;
            read(folder.join(place.strip_prefix("gitdir:")?.trim()).join("HEAD"))
        });
        if let Some(head) = head {
            return Some(match head.strip_prefix("ref: refs/heads/") {
                Some(branch) => branch.to_owned(),
                None => head.chars().take(7).collect(),
            });
        }
    }
    None
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests set up real files")]
    use zero_sandbox::notification_program::ProgramIdentity;

    use super::*;

    #[test]
    fn clipboard_image_over_the_limit_is_named() {
        let shell = std::fs::canonicalize("/bin/sh").unwrap();
        let program = |script: String| NotificationProgram {
            identity: ProgramIdentity::read(&shell).unwrap(),
            program: shell.clone(),
            args: vec!["-c".into(), script.into()],
            environment: vec![("PATH".into(), "/usr/bin:/bin".into())],
        };
        let none = program("exit 1".to_owned());
        assert!(read_image(std::slice::from_ref(&none)).unwrap().is_none());
        // It writes far more than is read, and ends by SIGPIPE.
        let large = program(format!("exec head -c {} /dev/zero", 3 * IMAGE_BYTES_MAX));
        let error = read_image(&[none, large]).unwrap_err();
        assert!(error.contains("larger than 6 MiB"), "{error}");
    }

    #[test]
    fn branch_is_found_above_and_in_worktrees() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path();
        std::fs::create_dir_all(root.join("a/.git/worktrees/w")).unwrap();
        std::fs::create_dir_all(root.join("a/src")).unwrap();
        std::fs::create_dir(root.join("w")).unwrap();
        std::fs::write(root.join("a/.git/HEAD"), "ref: refs/heads/feature/x\n").unwrap();
        std::fs::write(root.join("a/.git/worktrees/w/HEAD"), "0123456789abcdef\n").unwrap();
        std::fs::write(root.join("w/.git"), "gitdir: ../a/.git/worktrees/w\n").unwrap();
        assert_eq!(read_branch(&root.join("a/src")).as_deref(), Some("feature/x"));
        assert_eq!(read_branch(&root.join("w")).as_deref(), Some("0123456"));
    }
}
