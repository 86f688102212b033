//! Interprets prompts that begin with `/`: as a reply without a model, or as another prompt.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use zero_core::RunId;
use zero_core::sanitize::to_code_block;
use zero_policy::PermissionMode;
use zero_runtime::DialectName;

use crate::agent::AgentProfile;
use crate::direct_model::{self, is_direct};
use crate::model::ModelClient;
use crate::sessions::run_driver::CATALOG_TIMEOUT;
use crate::sessions::session_state::SessionState;
use crate::sessions::{
    Prompt, PromptAuthority, SessionError, SessionManagerInner, SlashHandling, session_worker,
};
use crate::slash_commands::{self, SlashCommand};
use crate::store::{SessionPatch, SessionRecord};
use zero_runtime::tool_backend::FolderAccess;
use zero_runtime::tool_backend::{PromptCommand, ToolCatalog};

/// How long zero's own commands wait for the user's commands, which are stored where the tools run.
/// They work without them too.
const LISTING_TIMEOUT: Duration = Duration::from_secs(3);

/// Interpretation of a prompt.
#[derive(Debug, PartialEq)]
pub(super) enum PromptResolution {
    /// Reply with this text, without a model.
    Answer(String),
    /// Compact the transcript; the text says what the user wants kept.
    Compact(String),
    /// Call a tool without the model.
    Direct(String),
    /// Send this prompt to the model: the original text, or the expansion of a command.
    Prompt(String),
}

/// The session that a prompt is for, and what commands show and change of it.
pub(super) struct PromptContext<'a> {
    pub(super) state: &'a Arc<SessionState>,
    pub(super) record: &'a SessionRecord,
    pub(super) agent: &'a AgentProfile,
    /// `None` if it has none.
    pub(super) model: Option<&'a Arc<dyn ModelClient>>,
    pub(super) dialect: DialectName,
}

impl SessionManagerInner {
    /// Interprets a prompt. Commands that change the session take effect here.
    pub(super) async fn resolve_prompt(
        self: &Arc<Self>,
        context: &PromptContext<'_>,
        prompt: &Prompt,
        run: &RunId,
    ) -> PromptResolution {
        let PromptContext { state, record, agent, model, dialect } = *context;
        let text = &prompt.text;
        let direct = model.is_some_and(|model| is_direct(model.as_ref()));
        match prompt.reading {
            // The direct model understands commands only.
            SlashHandling::Verbatim if direct => {
                return PromptResolution::Answer(direct_model::verbatim_refusal());
            }
            SlashHandling::Verbatim => return PromptResolution::Prompt(text.to_owned()),
            SlashHandling::Commands if !text.starts_with('/') => {
                return PromptResolution::Prompt(text.to_owned());
            }
            SlashHandling::Commands => {}
        }
        let word = text.trim_start_matches('/').split_whitespace().next().unwrap_or_default();
        let most =
            if slash_commands::is_built_in(word) { LISTING_TIMEOUT } else { CATALOG_TIMEOUT };
        let catalog = self.load_catalog(state, agent, dialect, &prompt.folder_access, most).await;
        let user = catalog.as_ref().map_or(&[][..], |catalog| &catalog.commands);
        match slash_commands::parse(text, user, direct) {
            None => PromptResolution::Prompt(text.to_owned()),
            Some(Err(wrong)) => PromptResolution::Answer(wrong),
            Some(Ok(SlashCommand::Help)) => {
                PromptResolution::Answer(slash_commands::help_text(user))
            }
            Some(Ok(SlashCommand::Status)) => PromptResolution::Answer(
                self.status_text(state, record, model, catalog.as_ref()).await,
            ),
            Some(Ok(SlashCommand::Context)) => {
                let report = self.context_breakdown(record, &prompt.folder_access).await;
                PromptResolution::Answer(match report {
                    Ok(report) => to_code_block(report.render().trim_end(), "text"),
                    Err(error) => error.to_string(),
                })
            }
            Some(Ok(SlashCommand::Compact(focus))) => PromptResolution::Compact(focus),
            Some(Ok(SlashCommand::Rewind(wanted))) => {
                PromptResolution::Answer(self.answer_rewind(record, wanted, prompt, run).await)
            }
            Some(Ok(SlashCommand::Direct)) => PromptResolution::Direct(text.to_owned()),
            Some(Ok(SlashCommand::Init(more))) => {
                PromptResolution::Prompt(slash_commands::init_prompt(&more))
            }
            Some(Ok(SlashCommand::Mode(wanted))) => PromptResolution::Answer(
                self.choose_mode(record, agent, wanted, prompt.leave).await,
            ),
            Some(Ok(SlashCommand::Model(wanted))) => {
                PromptResolution::Answer(self.choose_model(record, model, wanted).await)
            }
            Some(Ok(SlashCommand::User { name, arguments })) => {
                match user.iter().find(|command| command.name == name) {
                    Some(command) => {
                        PromptResolution::Prompt(slash_commands::expand(command, &arguments))
                    }
                    None => {
                        PromptResolution::Answer(format!("there is no command `/{name}` any more"))
                    }
                }
            }
        }
    }

    /// The commands of a session, zero's own first.
    pub(super) async fn list_commands(
        &self,
        record: &SessionRecord,
        folder_access: &FolderAccess,
    ) -> Result<Vec<PromptCommand>, SessionError> {
        let agent = self.find_agent(&record.agent)?;
        let model = self.model_for(record, agent).ok();
        let dialect =
            session_worker::choose_dialect(agent, model.as_ref().map(|model| model.info()));
        let state = self.session_state(&record.id);
        let catalog =
            self.load_catalog(&state, agent, dialect, folder_access, LISTING_TIMEOUT).await;
        self.release_backend(&state).await;
        let mut commands = slash_commands::built_in_commands();
        // A user command with the name of a built-in one is not reachable.
        let is_new = |command: &PromptCommand| !slash_commands::is_built_in(&command.name);
        let kept = catalog.map(|catalog| catalog.commands).unwrap_or_default();
        commands.extend(kept.into_iter().filter(is_new));
        Ok(commands)
    }

    /// Closes a backend that was only opened for a listing, if the session has no runs.
    pub(super) async fn release_backend(&self, state: &Arc<SessionState>) {
        if state.is_empty() {
            state.drop_backend().await;
        }
        self.evict_state(state);
    }

    /// The tool catalog, if it is available: commands also work without a backend.
    async fn load_catalog(
        &self,
        state: &SessionState,
        agent: &AgentProfile,
        dialect: DialectName,
        folder_access: &FolderAccess,
        most: Duration,
    ) -> Option<ToolCatalog> {
        let now = self.backend_for(state, agent, folder_access).await.ok()?;
        tokio::select! {
            catalog = timeout(most, now.backend.load_catalog(dialect)) => catalog.ok()?.ok(),
            () = now.closed.cancelled() => None,
        }
    }

    async fn choose_mode(
        self: &Arc<Self>,
        record: &SessionRecord,
        agent: &AgentProfile,
        requested_model: Option<String>,
        leave: PromptAuthority,
    ) -> String {
        let words = PermissionMode::ALL.map(PermissionMode::as_str).join(", ");
        let Some(wanted) = requested_model else {
            let mode =
                record.mode.or(agent.mode).map_or("that of the settings", PermissionMode::as_str);
            return format!("The mode is {mode}. The modes are {words}.");
        };
        let mode = match wanted.parse::<PermissionMode>() {
            Ok(mode) => mode,
            Err(error) => return error.to_string(),
        };
        if mode.accepts_edits() && leave == PromptAuthority::PromptOnly {
            return format!(
                "The mode stays as it is: only users who may answer approvals may choose {mode}."
            );
        }
        let patch = SessionPatch { mode: Some(Some(mode)), ..SessionPatch::default() };
        match self.patch(&record.address(), patch).await {
            Ok(_) => format!("The mode is {mode} now."),
            Err(error) => error.to_string(),
        }
    }

    async fn choose_model(
        self: &Arc<Self>,
        record: &SessionRecord,
        model: Option<&Arc<dyn ModelClient>>,
        requested_model: Option<String>,
    ) -> String {
        let Some(wanted) = requested_model else {
            let now = match model {
                Some(model) => format!("The model is `{}`.", model.info().name),
                None => "There is no model.".to_owned(),
            };
            let names: Vec<&str> = self.config.models.names().collect();
            return format!("{now} The models are {}.", names.join(", "));
        };
        let patch = SessionPatch { model: Some(Some(wanted.clone())), ..SessionPatch::default() };
        match self.patch(&record.address(), patch).await {
            Ok(_) => format!("The model is `{wanted}` from the next prompt on."),
            Err(error) => error.to_string(),
        }
    }

    async fn status_text(
        &self,
        state: &SessionState,
        record: &SessionRecord,
        model: Option<&Arc<dyn ModelClient>>,
        catalog: Option<&ToolCatalog>,
    ) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        let mut line = |name: &str, value: String| {
            let _ = writeln!(text, "- {name}: {value}");
        };
        line("session", format!("`{}`", record.key));
        if let Some(title) = &record.title {
            line("title", title.clone());
        }
        line("agent", record.agent.clone());
        let none = || "none; `/model` lists what there is".to_owned();
        line("model", model.map_or_else(none, |model| model.info().name.clone()));
        let agent = self.config.agents.get(&record.agent);
        let mode = record.mode.or(agent.and_then(|agent| agent.mode));
        line("mode", mode.map_or("that of the settings", PermissionMode::as_str).to_owned());
        let backend = state.current_backend(record).await;
        match (catalog, backend) {
            (Some(catalog), Some(backend)) => {
                line("folder", format!("`{}` ({})", catalog.cwd.display(), backend.location()));
                line("tools", catalog.tools.len().to_string());
            }
            _ => line("tools", "not there".to_owned()),
        }
        let usage = record.usage;
        let cost = usage.cost_usd.map_or_else(String::new, |cost| format!(", {cost:.4} USD"));
        let (read, written) = (usage.input_tokens, usage.output_tokens);
        line("tokens so far", format!("{read} read, {written} written{cost}"));
        let window = model.and_then(|model| model.info().window());
        if let (Some(tokens), Some(window)) = (record.context_tokens, window) {
            line("window", format!("{tokens} of {window} tokens"));
        }
        line("transcript", record.transcript.to_string());
        text
    }
}
