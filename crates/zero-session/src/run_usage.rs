//! What each run has used: for budgets and for `zero usage`. It is derived from the ledger as that is
//! written, and kept when the session is deleted.

use serde::{Deserialize, Serialize};
use zero_core::{RunId, SessionId};

use crate::event::{EventKind, RootRun, TokenUsage};
use crate::store::{NewEvent, RunAddress};

/// How long the usage of a run is kept.
pub const KEPT_DAYS: u32 = 400;

/// What one run has used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunUsage {
    /// Id of the run.
    pub run: RunId,
    /// Id of its session.
    pub session: SessionId,
    /// Key of its session.
    pub session_key: String,
    /// Owner of the session.
    pub owner: String,
    /// Agent of the run.
    pub agent: String,
    /// Model of the run: the one that answers since the last fallback.
    pub model: String,
    /// When it began, in milliseconds since the Unix epoch.
    pub started_ms: i64,
    /// What it used, of all models.
    pub usage: TokenUsage,
    /// What it used of models that others stood in for later.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<ModelUsage>,
    /// The run of the user's prompt, if a sub-agent worked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<RootRun>,
}

/// What a run used of one model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelUsage {
    /// Name of the model.
    pub model: String,
    /// What it used.
    pub usage: TokenUsage,
}

/// The usage of a run as the stores keep it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct StoredUsage {
    #[serde(flatten)]
    pub(crate) usage: TokenUsage,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) earlier: Vec<ModelUsage>,
}

/// The session that a run belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RunUsageOwner {
    pub(crate) session: SessionId,
    pub(crate) session_key: String,
    pub(crate) owner: String,
}

/// What a ledger entry says about the usage of its run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct UsageEntry {
    pub(crate) run: RunId,
    time_ms: i64,
    change: UsageChange,
}

#[derive(Clone, Debug, PartialEq)]
enum UsageChange {
    Began { agent: String, model: String, root: Option<RootRun> },
    Reported { usage: TokenUsage },
    FellBack { model: String },
}

impl UsageEntry {
    /// Reads an entry; `None` if it says nothing about usage.
    pub(crate) fn from_event(event: &NewEvent) -> Option<Self> {
        let change = match &event.kind {
            EventKind::RunStarted { agent, model, parent } => UsageChange::Began {
                agent: agent.clone(),
                model: model.clone(),
                root: parent.as_ref().map(|parent| parent.root.clone()),
            },
            EventKind::UsageReported { run_usage: usage, .. }
            | EventKind::RunEnded { usage, .. } => UsageChange::Reported { usage: *usage },
            EventKind::ModelFallback { to, .. } => UsageChange::FellBack { model: to.clone() },
            _ => return None,
        };
        Some(Self { run: event.run.clone()?, time_ms: event.time_ms, change })
    }
}

impl RunUsage {
    /// The session and the id of the run.
    pub fn address(&self) -> RunAddress {
        RunAddress::new(&self.session, &self.run)
    }

    /// The usage of a run that begins with an entry; `None` if the entry is another one.
    pub(crate) fn begin(entry: &UsageEntry, of: RunUsageOwner) -> Option<Self> {
        let UsageChange::Began { agent, model, root } = &entry.change else { return None };
        Some(Self {
            run: entry.run.clone(),
            session: of.session,
            session_key: of.session_key,
            owner: of.owner,
            agent: agent.clone(),
            model: model.clone(),
            started_ms: entry.time_ms,
            usage: TokenUsage::default(),
            earlier: Vec::new(),
            root: root.clone(),
        })
    }

    /// Adds what an entry of the run says.
    pub(crate) fn apply(&mut self, entry: &UsageEntry) {
        match &entry.change {
            UsageChange::Reported { usage } => self.usage = *usage,
            UsageChange::FellBack { model } => {
                let own = self.usage.since(&self.earlier_usage());
                let from = std::mem::replace(&mut self.model, model.clone());
                match self.earlier.iter_mut().find(|earlier| earlier.model == from) {
                    Some(earlier) => earlier.usage += own,
                    None => self.earlier.push(ModelUsage { model: from, usage: own }),
                }
            }
            UsageChange::Began { .. } => {}
        }
    }
}

impl RunUsage {
    fn earlier_usage(&self) -> TokenUsage {
        let mut sum = TokenUsage::default();
        self.earlier.iter().for_each(|earlier| sum += earlier.usage);
        sum
    }

    /// The form for a store.
    pub(crate) fn to_stored(&self) -> StoredUsage {
        StoredUsage { usage: self.usage, earlier: self.earlier.clone() }
    }

    /// The usage of each model of the run, which together are the usage of the run.
    pub fn by_model(&self) -> Vec<Self> {
        let last = self.usage.since(&self.earlier_usage());
        let mut models = self.earlier.clone();
        match models.iter_mut().find(|earlier| earlier.model == self.model) {
            Some(earlier) => earlier.usage += last,
            None => models.push(ModelUsage { model: self.model.clone(), usage: last }),
        }
        let of_model = |ModelUsage { model, usage }| Self {
            model,
            usage,
            earlier: Vec::new(),
            ..self.clone()
        };
        models.into_iter().map(of_model).collect()
    }
}

/// Selects runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunUsageQuery {
    /// Only runs of sessions of this owner.
    pub owner: Option<String>,
    /// Only the run with this id and those of its sub-agents; with [`Self::session`], no other one.
    pub run: Option<RunId>,
    /// Only runs of this session and of sub-agents that worked for it.
    pub session: Option<SessionId>,
    /// Only runs of this agent and of sub-agents that worked for it.
    pub agent: Option<String>,
    /// Only runs that began at this time or later, in milliseconds since the Unix epoch.
    pub since_ms: i64,
    /// Only runs after this one in the order of the answer.
    pub after: Option<(i64, RunAddress)>,
}

impl RunUsageQuery {
    /// Runs that one answer of the store contains at most.
    pub const PAGE_MAX: usize = 1_000;

    /// Whether a run is selected.
    pub fn matches(&self, usage: &RunUsage) -> bool {
        let is = |wanted: &Option<String>, found: &str| {
            wanted.as_deref().is_none_or(|wanted| wanted == found)
        };
        let root = usage.root.as_ref();
        let is_after = self.after.as_ref().is_none_or(|(started_ms, after)| {
            let (run, session) = (after.run.as_str(), after.session.as_str());
            (usage.started_ms, usage.run.as_str(), usage.session.as_str())
                > (*started_ms, run, session)
        });
        is(&self.owner, &usage.owner)
            && self.agent.as_deref().is_none_or(|agent| {
                agent == usage.agent || root.is_some_and(|root| agent == root.agent)
            })
            && self.session.as_ref().is_none_or(|session| {
                *session == usage.session || root.is_some_and(|root| *session == root.session)
            })
            && self
                .run
                .as_ref()
                .is_none_or(|run| *run == usage.run || root.is_some_and(|root| *run == root.run))
            && usage.started_ms >= self.since_ms
            && is_after
    }
}

/// What several runs have used together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UsageTotal {
    /// Number of runs.
    pub runs: u64,
    /// What they used; its cost is that of the tokens with a known price.
    pub usage: TokenUsage,
    /// Input tokens whose price is not known.
    pub unpriced_input_tokens: u64,
    /// Output tokens whose price is not known.
    pub unpriced_output_tokens: u64,
}

impl UsageTotal {
    /// Adds a run. The time of a sub-agent is part of the time of the run that waits for it.
    pub fn add(&mut self, run: &RunUsage) {
        let work_ms = if run.root.is_some() { 0 } else { run.usage.work_ms };
        *self += Self::of_run(TokenUsage { work_ms, ..run.usage });
    }

    /// What a single run has used.
    pub fn of_run(usage: TokenUsage) -> Self {
        let unpriced = |tokens: u64| if usage.cost_usd.is_some() { 0 } else { tokens };
        Self {
            runs: 1,
            usage,
            unpriced_input_tokens: unpriced(usage.input_tokens),
            unpriced_output_tokens: unpriced(usage.output_tokens),
        }
    }

    /// Input and output tokens.
    pub fn tokens(&self) -> u64 {
        self.usage.input_tokens.saturating_add(self.usage.output_tokens)
    }
}

impl std::ops::AddAssign for UsageTotal {
    fn add_assign(&mut self, other: Self) {
        self.runs = self.runs.saturating_add(other.runs);
        self.usage += other.usage;
        self.unpriced_input_tokens =
            self.unpriced_input_tokens.saturating_add(other.unpriced_input_tokens);
        self.unpriced_output_tokens =
            self.unpriced_output_tokens.saturating_add(other.unpriced_output_tokens);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_is_counted_under_the_model_that_answered() {
        let run = RunId::new("run-1").unwrap();
        let entry = |kind| {
            let event = NewEvent { run: Some(run.clone()), time_ms: 1, kind };
            UsageEntry::from_event(&event).unwrap()
        };
        let started =
            EventKind::RunStarted { agent: "main".to_owned(), model: "a".to_owned(), parent: None };
        let of = RunUsageOwner {
            session: SessionId::new("s").unwrap(),
            session_key: "k".to_owned(),
            owner: "me".to_owned(),
        };
        let mut usage = RunUsage::begin(&entry(started), of).unwrap();
        let fell_back = |to: &str| EventKind::ModelFallback {
            from: String::new(),
            to: to.to_owned(),
            reason: String::new(),
        };
        let report = |usage: &mut RunUsage, output_tokens: u64, requests: u64| {
            let run_usage = TokenUsage { output_tokens, requests, ..TokenUsage::default() };
            usage.apply(&entry(EventKind::UsageReported {
                run_usage,
                context_tokens: 0,
                context_window: 0,
            }));
        };
        // The first request failed.
        report(&mut usage, 0, 1);
        usage.apply(&entry(fell_back("b")));
        report(&mut usage, 7, 2);
        report(&mut usage, 9, 4);
        usage.apply(&entry(fell_back("c")));
        report(&mut usage, 19, 5);
        let stored = serde_json::to_string(&usage.to_stored()).unwrap();
        let read: StoredUsage = serde_json::from_str(&stored).unwrap();
        assert_eq!((read.usage, &read.earlier), (usage.usage, &usage.earlier));
        let split = |usage: &RunUsage| {
            let models = usage.by_model();
            let one = |one: &RunUsage| {
                format!("{} {} {}", one.model, one.usage.requests, one.usage.output_tokens)
            };
            models.iter().map(one).collect::<Vec<_>>().join(", ")
        };
        assert_eq!(split(&usage), "a 1 0, b 3 9, c 1 10");
        usage.apply(&entry(fell_back("b")));
        report(&mut usage, 20, 6);
        assert_eq!(split(&usage), "a 1 0, b 4 10, c 1 10");
    }
}
