//! The options that the user can set for a session: mode, model, agent and thinking.

use agent_client_protocol::v1::schema::{
    AvailableCommand, AvailableCommandInput, SessionConfigOption, SessionConfigOptionCategory,
    SessionConfigSelectOption, SessionMode, SessionModeState, UnstructuredCommandInput,
};
use zero_client::SessionChange;
use zero_client::wire::{SessionChoicesResult, SessionInfo};
use zero_core::ThinkingEffort;
use zero_policy::PermissionMode;

use crate::text_sanitizer::visible_line;

/// Value shown for a session without a model.
const DIRECT_MODEL: &str = "direct";
/// Commands that are listed; others can still be typed.
const COMMANDS_MAX: usize = 500;
/// Longest description, in characters.
const LINE_CHARS_MAX: usize = 500;

/// The options of a session and their current values.
#[derive(Clone, Debug)]
pub(crate) struct SessionOptions {
    /// The current values.
    pub(crate) info: SessionInfo,
    /// The available values.
    pub(crate) offered: SessionChoicesResult,
    /// The permission mode that applies here: from settings, or chosen in the editor.
    pub(crate) own_mode: PermissionMode,
}

/// Why an option cannot be set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SessionOptionError {
    /// There is no such option.
    #[error("there is no option `{id}`; there are {known}")]
    NoOption {
        /// The requested id.
        id: String,
        /// The existing options.
        known: String,
    },
    /// The option has no such value.
    #[error("`{id}` cannot be `{value}`; it can be {known}")]
    NoValue {
        /// The option.
        id: String,
        /// The requested value.
        value: String,
        /// The existing values.
        known: String,
    },
}

/// An option that can be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SessionOptionKind {
    Mode,
    Model,
    Agent,
    Thinking,
}

impl SessionOptionKind {
    const ALL: [Self; 4] = [Self::Mode, Self::Model, Self::Agent, Self::Thinking];

    fn id(self) -> &'static str {
        match self {
            Self::Mode => "mode",
            Self::Model => "model",
            Self::Agent => "agent",
            Self::Thinking => "thought_level",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Mode => "Mode",
            Self::Model => "Model",
            Self::Agent => "Agent",
            Self::Thinking => "Thinking",
        }
    }

    fn description(self) -> &'static str {
        match self {
            Self::Mode => "How much is done without asking",
            Self::Model => "The model that answers",
            Self::Agent => "The agent that works here",
            Self::Thinking => "How much the model thinks before it answers",
        }
    }

    fn category(self) -> SessionConfigOptionCategory {
        match self {
            Self::Mode => SessionConfigOptionCategory::Mode,
            Self::Model => SessionConfigOptionCategory::Model,
            Self::Agent => SessionConfigOptionCategory::Other("_zero_agent".to_owned()),
            Self::Thinking => SessionConfigOptionCategory::ThoughtLevel,
        }
    }
}

/// One value of an option.
struct OptionValue {
    word: String,
    name: String,
    description: Option<&'static str>,
}

impl SessionOptions {
    /// The model of the session, if it accepts no images.
    pub(crate) fn text_only_model(&self) -> Option<&str> {
        let model = &self.info.model;
        self.offered.text_only_models.contains(model).then_some(model)
    }

    /// The modes, for clients that support only these.
    pub(crate) fn modes(&self) -> SessionModeState {
        let mode = |value: OptionValue| {
            SessionMode::new(value.word, value.name)
                .description(value.description.map(str::to_owned))
        };
        let modes = self.values(SessionOptionKind::Mode).into_iter().map(mode).collect();
        SessionModeState::new(self.mode().as_str(), modes)
    }

    /// All options with their current values.
    pub(crate) fn options(&self) -> Vec<SessionConfigOption> {
        let option = |value: OptionValue| {
            SessionConfigSelectOption::new(value.word, value.name)
                .description(value.description.map(str::to_owned))
        };
        let setting = |setting: SessionOptionKind| {
            let current = self.current_value(setting)?;
            let values: Vec<_> = self.values(setting).into_iter().map(option).collect();
            Some(
                SessionConfigOption::select(setting.id(), setting.name(), current, values)
                    .description(setting.description().to_owned())
                    .category(setting.category()),
            )
        };
        SessionOptionKind::ALL.into_iter().filter_map(setting).collect()
    }

    /// The change that sets a mode.
    pub(crate) fn choose_mode(&self, mode: &str) -> Result<SessionChange, SessionOptionError> {
        self.choose(SessionOptionKind::Mode.id(), mode)
    }

    /// The change that sets an option to a value.
    pub(crate) fn choose(
        &self,
        option: &str,
        value: &str,
    ) -> Result<SessionChange, SessionOptionError> {
        let offered =
            || SessionOptionKind::ALL.into_iter().filter(|it| self.current_value(*it).is_some());
        let Some(setting) = offered().find(|setting| setting.id() == option) else {
            let known: Vec<_> = offered().map(|setting| format!("`{}`", setting.id())).collect();
            let id = visible_line(option, LINE_CHARS_MAX);
            return Err(SessionOptionError::NoOption { id, known: known.join(", ") });
        };
        let values = self.values(setting);
        if values.iter().all(|known| known.word != value) {
            let known: Vec<_> = values.iter().map(|known| format!("`{}`", known.word)).collect();
            return Err(SessionOptionError::NoValue {
                id: option.to_owned(),
                value: visible_line(value, LINE_CHARS_MAX),
                known: known.join(", "),
            });
        }
        let word = Some(value.to_owned());
        Ok(match setting {
            SessionOptionKind::Mode => {
                SessionChange { mode: value.parse().ok(), ..SessionChange::default() }
            }
            SessionOptionKind::Model => SessionChange { model: word, ..SessionChange::default() },
            SessionOptionKind::Agent => SessionChange { agent: word, ..SessionChange::default() },
            SessionOptionKind::Thinking => {
                SessionChange { thinking: word, ..SessionChange::default() }
            }
        })
    }

    /// The slash commands.
    pub(crate) fn commands(&self) -> Vec<AvailableCommand> {
        let line = |text: &str| visible_line(text, LINE_CHARS_MAX);
        let commands = self.offered.commands.iter().filter(|command| !command.name.is_empty());
        let command = |command: &zero_client::wire::SlashCommandInfo| {
            let hint = command.argument_hint.as_deref().map(line).filter(|hint| !hint.is_empty());
            let input = hint.map(UnstructuredCommandInput::new);
            AvailableCommand::new(command.name.clone(), line(&command.description))
                .input(input.map(AvailableCommandInput::Unstructured))
        };
        commands.take(COMMANDS_MAX).map(command).collect()
    }

    /// The mode that applies. A mode that is unknown here, or that another client chose, never
    /// permits more than the user's own mode.
    pub(crate) fn mode(&self) -> PermissionMode {
        let chosen = self.info.mode.as_deref().and_then(|mode| mode.parse::<PermissionMode>().ok());
        chosen.filter(|mode| mode.is_within(self.own_mode)).unwrap_or(self.own_mode)
    }

    /// The current value; `None` if the option is not available.
    fn current_value(&self, setting: SessionOptionKind) -> Option<String> {
        let model = match (self.info.model.as_str(), &self.offered.default_model) {
            ("", None) => DIRECT_MODEL,
            ("", Some(model)) => model,
            (model, _) => model,
        };
        match setting {
            SessionOptionKind::Mode => Some(self.mode().as_str().to_owned()),
            SessionOptionKind::Model => Some(model.to_owned()),
            SessionOptionKind::Agent => {
                let is_named = self.info.session_key.starts_with("agent:");
                let is_choice = self.offered.agents.len() > 1 && !is_named;
                let agent = match self.info.agent.as_str() {
                    "" => &self.offered.default_agent,
                    agent => agent,
                };
                (is_choice && !agent.is_empty()).then(|| agent.to_owned())
            }
            SessionOptionKind::Thinking if model == DIRECT_MODEL => None,
            SessionOptionKind::Thinking => {
                let thinking = self.info.thinking.as_deref().filter(|word| !word.is_empty());
                Some(thinking.unwrap_or(ThinkingEffort::Default.as_str()).to_owned())
            }
        }
    }

    /// The values of an option. The current one is always included, also if it is no longer
    /// offered.
    fn values(&self, setting: SessionOptionKind) -> Vec<OptionValue> {
        let plain = |word: &String| OptionValue {
            word: word.clone(),
            name: word.clone(),
            description: None,
        };
        let mut values: Vec<OptionValue> = match setting {
            SessionOptionKind::Mode => PermissionMode::ALL
                .into_iter()
                .filter(|mode| self.is_mode_offered(*mode))
                .map(mode_value)
                .collect(),
            SessionOptionKind::Model => self.offered.models.iter().map(plain).collect(),
            SessionOptionKind::Agent => self.offered.agents.iter().map(plain).collect(),
            SessionOptionKind::Thinking => {
                ThinkingEffort::ALL.into_iter().map(thinking_value).collect()
            }
        };
        if let Some(current) = self.current_value(setting)
            && values.iter().all(|value| value.word != current)
        {
            let value = match (setting, current.as_str()) {
                (SessionOptionKind::Mode, _) => mode_value(self.mode()),
                (SessionOptionKind::Model, DIRECT_MODEL) => OptionValue {
                    word: current,
                    name: "No model".to_owned(),
                    description: Some("Commands go straight to the tools"),
                },
                _ => plain(&current),
            };
            values.push(value);
        }
        values
    }

    /// Whether a mode is offered. A gateway that lists no modes leaves them to the tools, which
    /// know all of them.
    fn is_mode_offered(&self, mode: PermissionMode) -> bool {
        let modes = &self.offered.modes;
        modes.is_empty() || modes.iter().any(|word| word == mode.as_str())
    }
}

fn mode_value(mode: PermissionMode) -> OptionValue {
    let (name, description) = match mode {
        PermissionMode::Ask => ("Ask", "Reads the project; asks before everything else"),
        PermissionMode::AcceptEdits => {
            ("Accept edits", "Changes files of the project, too; asks before everything else")
        }
        PermissionMode::Plan => ("Plan", "Changes nothing and runs nothing"),
        PermissionMode::Auto => {
            ("Auto", "Does everything that the sandbox confines without asking")
        }
    };
    OptionValue {
        word: mode.as_str().to_owned(),
        name: name.to_owned(),
        description: Some(description),
    }
}

fn thinking_value(thinking: ThinkingEffort) -> OptionValue {
    let (name, description) = match thinking {
        ThinkingEffort::Default => ("Default", "The model's default"),
        ThinkingEffort::Off => ("Off", "Off, if the model supports it"),
        ThinkingEffort::Low => ("Low", "A little"),
        ThinkingEffort::Medium => ("Medium", "More"),
        ThinkingEffort::High => ("High", "Much"),
    };
    OptionValue {
        word: thinking.as_str().to_owned(),
        name: name.to_owned(),
        description: Some(description),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use zero_client::wire::SlashCommandInfo;

    use super::*;

    fn sample_options() -> SessionOptions {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        SessionOptions {
            info: SessionInfo {
                session_key: "acp:1".to_owned(),
                agent: "main".to_owned(),
                model: "big".to_owned(),
                ..SessionInfo::default()
            },
            offered: SessionChoicesResult {
                agents: words(&["main", "qa"]),
                default_agent: "main".to_owned(),
                models: words(&["big", "small"]),
                text_only_models: vec![],
                default_model: Some("small".to_owned()),
                modes: words(&["ask", "accept-edits", "plan", "auto"]),
                commands: vec![],
            },
            own_mode: PermissionMode::Ask,
        }
    }

    /// Compares the options, each written as `id=current of values`.
    #[track_caller]
    fn check(choices: &SessionOptions, expected: &[&str]) {
        let options = serde_json::to_value(choices.options()).unwrap();
        let describe = |option: &serde_json::Value| {
            let word = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
            let values: Vec<String> =
                option["options"].as_array().unwrap().iter().map(|it| word(&it["value"])).collect();
            let (id, current) = (word(&option["id"]), word(&option["currentValue"]));
            assert!(values.contains(&current), "{id}: {current} is not among {values:?}");
            format!("{id}={current} of {}", values.join(" "))
        };
        let described: Vec<String> = options.as_array().unwrap().iter().map(describe).collect();
        assert_eq!(described, expected);
        let parsed: Vec<SessionConfigOption> = serde_json::from_value(options).unwrap();
        assert_eq!(parsed, choices.options());
        let modes = choices.modes();
        assert!(modes.available_modes.iter().any(|mode| mode.id == modes.current_mode_id));
    }

    const MODES: &str = "mode=ask of ask accept-edits plan auto";
    const THOUGHTS: &str = "thought_level=default of default off low medium high";

    #[test]
    fn current_value_is_listed_among_values() {
        check(
            &sample_options(),
            &[MODES, "model=big of big small", "agent=main of main qa", THOUGHTS],
        );
        let mut other = sample_options();
        other.info.mode = Some("auto".to_owned());
        other.offered.modes = vec!["ask".to_owned(), "plan".to_owned()];
        other.info.model = "gone".to_owned();
        other.info.agent = "old".to_owned();
        other.info.thinking = Some("huge".to_owned());
        check(
            &other,
            &[
                "mode=ask of ask plan",
                "model=gone of big small gone",
                "agent=old of main qa old",
                "thought_level=huge of default off low medium high huge",
            ],
        );
        let mut unsure = sample_options();
        unsure.info.mode = Some("yolo".to_owned());
        unsure.offered.modes.clear();
        unsure.info.model.clear();
        unsure.info.thinking = Some("low".to_owned());
        unsure.own_mode = PermissionMode::Plan;
        check(
            &unsure,
            &[
                "mode=plan of ask accept-edits plan auto",
                "model=small of big small",
                "agent=main of main qa",
                "thought_level=low of default off low medium high",
            ],
        );
    }

    #[test]
    fn option_without_choices_is_not_offered() {
        let mut named = sample_options();
        named.info.session_key = "agent:main:acp:1".to_owned();
        check(&named, &[MODES, "model=big of big small", THOUGHTS]);
        let mut alone = sample_options();
        alone.offered.agents.truncate(1);
        check(&alone, &[MODES, "model=big of big small", THOUGHTS]);
        let mut direct = sample_options();
        direct.info.model = "direct".to_owned();
        direct.offered.models.clear();
        direct.offered.agents.clear();
        check(&direct, &[MODES, "model=direct of direct"]);
        check(
            &SessionOptions {
                info: SessionInfo::default(),
                offered: SessionChoicesResult::default(),
                own_mode: PermissionMode::Ask,
            },
            &[MODES, "model=direct of direct"],
        );
    }

    #[test]
    fn options_have_descriptions_and_categories() {
        let options = serde_json::to_value(sample_options().options()).unwrap();
        let categories: Vec<_> =
            options.as_array().unwrap().iter().map(|option| option["category"].clone()).collect();
        assert_eq!(categories, ["mode", "model", "_zero_agent", "thought_level"]);
        assert_eq!(
            options[0]["options"][1],
            json!({"value": "accept-edits", "name": "Accept edits",
                   "description": "Changes files of the project, too; asks before everything else"})
        );
        let modes = serde_json::to_value(sample_options().modes()).unwrap();
        assert_eq!(modes["currentModeId"], "ask");
        assert_eq!(modes["availableModes"].as_array().unwrap().len(), 4);
    }

    #[test]
    fn choose_changes_one_field_or_lists_known_values() {
        #[track_caller]
        fn check(option: &str, value: &str, expected: Result<SessionChange, &str>) {
            let chosen = sample_options().choose(option, value).map_err(|error| error.to_string());
            assert_eq!(chosen, expected.map_err(str::to_owned), "{option} {value}");
        }
        let none = SessionChange::default;
        check("mode", "auto", Ok(SessionChange { mode: Some(PermissionMode::Auto), ..none() }));
        check("model", "small", Ok(SessionChange { model: Some("small".to_owned()), ..none() }));
        check("agent", "qa", Ok(SessionChange { agent: Some("qa".to_owned()), ..none() }));
        check(
            "thought_level",
            "off",
            Ok(SessionChange { thinking: Some("off".to_owned()), ..none() }),
        );
        check("model", "huge", Err("`model` cannot be `huge`; it can be `big`, `small`"));
        check(
            "mode",
            "yolo\n",
            Err("`mode` cannot be `yolo`; it can be `ask`, `accept-edits`, `plan`, `auto`"),
        );
        check(
            "speed",
            "fast",
            Err("there is no option `speed`; there are `mode`, `model`, `agent`, `thought_level`"),
        );
        assert_eq!(sample_options().choose_mode("plan").unwrap().mode, Some(PermissionMode::Plan));
        assert!(sample_options().choose_mode("small").is_err());
        let mut named = sample_options();
        named.info.session_key = "agent:main:x".to_owned();
        assert!(matches!(named.choose("agent", "qa"), Err(SessionOptionError::NoOption { .. })));
    }

    #[test]
    fn commands_carry_argument_hints() {
        let mut choices = sample_options();
        let command = |name: &str, hint: Option<&str>| SlashCommandInfo {
            name: name.to_owned(),
            description: "Does\nit".to_owned(),
            argument_hint: hint.map(str::to_owned),
        };
        choices.offered.commands =
            vec![command("help", None), command("mode", Some("[ask]")), command("", None)];
        assert_eq!(
            serde_json::to_value(choices.commands()).unwrap(),
            json!([
                {"name": "help", "description": "Does it"},
                {"name": "mode", "description": "Does it", "input": {"hint": "[ask]"}},
            ])
        );
    }
}
