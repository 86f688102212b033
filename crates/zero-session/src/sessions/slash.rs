//! What becomes of a prompt that begins with `/`: an answer without a model, or another prompt.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use zero_policy::Mode;
use zero_runtime::DialectName;

use crate::agent::Agent;
use crate::commands::{self, Slash};
use crate::direct::{self, is_direct};
use crate::hands::{Bench, PromptCommand};
use crate::model::Model;
use crate::reach::Reach;
use crate::sessions::desk::Desk;
use crate::sessions::shell::BENCH_TIMEOUT;
use crate::sessions::{Inner, Leave, Prompt, Reading, SessionError, work};
use crate::store::{SessionPatch, SessionRecord};

/// How long zero's own commands wait for those that people keep, where the tools are: they work
/// without them, too.
const LISTING_TIMEOUT: Duration = Duration::from_secs(3);

/// What a prompt comes to.
#[derive(Debug, PartialEq)]
pub(super) enum Slashed {
    /// These words, and nothing else.
    Answer(String),
    /// A shorter transcript.
    Compact,
    /// A tool, without the model.
    Direct(String),
    /// This prompt for the model: what was said, or what a command stands for.
    Prompt(String),
}

impl Inner {
    /// Reads a prompt. Commands that change the session do so here.
    pub(super) async fn slash(
        self: &Arc<Self>,
        desk: &Arc<Desk>,
        record: &SessionRecord,
        agent: &Agent,
        model: Option<&Arc<dyn Model>>,
        dialect: DialectName,
        prompt: &Prompt,
    ) -> Slashed {
        let text = &prompt.text;
        let direct = model.is_some_and(|model| is_direct(model.as_ref()));
        match prompt.reading {
            // It reads nothing but commands, so that words have nobody to go to.
            Reading::Verbatim if direct => return Slashed::Answer(direct::unread()),
            Reading::Verbatim => return Slashed::Prompt(text.to_owned()),
            Reading::Commands if !text.starts_with('/') => {
                return Slashed::Prompt(text.to_owned());
            }
            Reading::Commands => {}
        }
        let word = text.trim_start_matches('/').split_whitespace().next().unwrap_or_default();
        let most = if commands::is_built_in(word) { LISTING_TIMEOUT } else { BENCH_TIMEOUT };
        let bench = self.bench_of(desk, agent, dialect, &prompt.reach, most).await;
        let user = bench.as_ref().map_or(&[][..], |bench| &bench.commands);
        match commands::parse(text, user, direct) {
            None => Slashed::Prompt(text.to_owned()),
            Some(Err(wrong)) => Slashed::Answer(wrong),
            Some(Ok(Slash::Help)) => Slashed::Answer(commands::help(user)),
            Some(Ok(Slash::Status)) => {
                Slashed::Answer(self.status(desk, record, model, bench.as_ref()).await)
            }
            Some(Ok(Slash::Compact)) => Slashed::Compact,
            Some(Ok(Slash::Direct)) => Slashed::Direct(text.to_owned()),
            Some(Ok(Slash::Init(more))) => Slashed::Prompt(commands::init(&more)),
            Some(Ok(Slash::Mode(wanted))) => {
                Slashed::Answer(self.choose_mode(record, agent, wanted, prompt.leave).await)
            }
            Some(Ok(Slash::Model(wanted))) => {
                Slashed::Answer(self.choose_model(record, model, wanted).await)
            }
            Some(Ok(Slash::User { name, arguments })) => {
                match user.iter().find(|command| command.name == name) {
                    Some(command) => Slashed::Prompt(commands::expand(command, &arguments)),
                    None => Slashed::Answer(format!("there is no command `/{name}` any more")),
                }
            }
        }
    }

    /// The commands of a session, zero's own first.
    pub(super) async fn commands(
        &self,
        record: &SessionRecord,
        reach: &Reach,
    ) -> Result<Vec<PromptCommand>, SessionError> {
        let agent = self.agent(&record.agent)?;
        let model = self.model(record, agent).ok();
        let dialect = work::dialect(agent, model.as_ref().map(|model| model.info()));
        let desk = self.desk(&record.id);
        let bench = self.bench_of(&desk, agent, dialect, reach, LISTING_TIMEOUT).await;
        self.let_go(&desk).await;
        let mut commands = commands::built_in_commands();
        // One that is named like one of zero's own is never reached.
        let is_new = |command: &PromptCommand| !commands::is_built_in(&command.name);
        let kept = bench.map(|bench| bench.commands).unwrap_or_default();
        commands.extend(kept.into_iter().filter(is_new));
        Ok(commands)
    }

    /// Lets go of hands that were only looked at, where nobody works in the session.
    async fn let_go(&self, desk: &Arc<Desk>) {
        if desk.is_empty() {
            desk.drop_hands().await;
        }
        self.forget(desk);
    }

    /// What there is to work with, where that can be told: commands work without hands, too.
    async fn bench_of(
        &self,
        desk: &Desk,
        agent: &Agent,
        dialect: DialectName,
        reach: &Reach,
        most: Duration,
    ) -> Option<Bench> {
        let now = self.hands_of(desk, agent, reach).await.ok()?;
        tokio::select! {
            bench = timeout(most, now.hands.bench(dialect)) => bench.ok()?.ok(),
            () = now.gone.cancelled() => None,
        }
    }

    async fn choose_mode(
        self: &Arc<Self>,
        record: &SessionRecord,
        agent: &Agent,
        wanted: Option<String>,
        leave: Leave,
    ) -> String {
        let words = Mode::ALL.map(Mode::as_str).join(", ");
        let Some(wanted) = wanted else {
            let mode = record.mode.or(agent.mode).map_or("that of the settings", Mode::as_str);
            return format!("The mode is {mode}. The modes are {words}.");
        };
        let mode = match wanted.parse::<Mode>() {
            Ok(mode) => mode,
            Err(error) => return error.to_string(),
        };
        if mode.accepts_edits() && leave == Leave::Talk {
            return format!(
                "The mode stays as it is: only who may answer permissions may choose {mode}."
            );
        }
        let patch = SessionPatch { mode: Some(Some(mode)), ..SessionPatch::default() };
        match self.patch(&record.key, patch).await {
            Ok(_) => format!("The mode is {mode} now."),
            Err(error) => error.to_string(),
        }
    }

    async fn choose_model(
        self: &Arc<Self>,
        record: &SessionRecord,
        model: Option<&Arc<dyn Model>>,
        wanted: Option<String>,
    ) -> String {
        let Some(wanted) = wanted else {
            let now = match model {
                Some(model) => format!("The model is `{}`.", model.info().name),
                None => "There is no model.".to_owned(),
            };
            let names: Vec<&str> = self.config.models.names().collect();
            return format!("{now} The models are {}.", names.join(", "));
        };
        let patch = SessionPatch { model: Some(Some(wanted.clone())), ..SessionPatch::default() };
        match self.patch(&record.key, patch).await {
            Ok(_) => format!("The model is `{wanted}` from the next prompt on."),
            Err(error) => error.to_string(),
        }
    }

    async fn status(
        &self,
        desk: &Desk,
        record: &SessionRecord,
        model: Option<&Arc<dyn Model>>,
        bench: Option<&Bench>,
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
        line("mode", mode.map_or("that of the settings", Mode::as_str).to_owned());
        let hands = desk.present_hands(record).await;
        match (bench, hands) {
            (Some(bench), Some(hands)) => {
                line("folder", format!("`{}` on {}", bench.cwd.display(), hands.whereabouts()));
                line("tools", bench.tools.len().to_string());
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
