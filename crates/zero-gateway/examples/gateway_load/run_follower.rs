//! Checks that one client received all events of its run in order, and records their latency.

use std::time::Instant;

use crate::LoadResult;
use crate::load_client::{EventFormat, EventPayload};
use crate::paced_model::WORDS_EACH;

/// Follows the events of one client.
pub(crate) struct RunFollower {
    client: usize,
    words: EventFormat,
    zero_hour: Instant,
    session_key: String,
    /// Sequence number of the last ledger entry.
    entry: u64,
    run: RunProgress,
    pub(crate) figures: ClientFigures,
}

/// Progress of a run.
#[derive(Default)]
struct RunProgress {
    id: String,
    /// Sequence number of its last event.
    seq: u64,
    /// Index of the next expected word, for each of the two event kinds that carry text.
    next: [usize; 2],
    calls_started: usize,
    calls_ended: usize,
    is_over: bool,
}

/// Measurements of one client.
#[derive(Default)]
pub(crate) struct ClientFigures {
    /// Number of events received.
    pub(crate) events: u64,
    /// Number of words received; a word that two events carry counts twice.
    pub(crate) words: u64,
    /// Latency of each of these words, in microseconds.
    pub(crate) late_us: Vec<u32>,
}

/// Event kinds that carry text.
#[derive(Clone, Copy)]
enum TextEventKind {
    Agent,
    ChatOrLedger,
}

impl RunFollower {
    pub(crate) fn new(client: usize, words: EventFormat, zero_hour: Instant) -> Self {
        let session_key = format!("agent:main:load-{client}");
        let (run, figures) = (RunProgress::default(), ClientFigures::default());
        Self { client, words, zero_hour, session_key, entry: 0, run, figures }
    }

    /// Key of this client's session.
    pub(crate) fn session_key(&self) -> &str {
        &self.session_key
    }

    /// Records that a run began.
    pub(crate) fn begin_run(&mut self, run: &str) {
        self.run = RunProgress { id: run.to_owned(), ..RunProgress::default() };
    }

    /// Whether the run is over. Returns an error if an event of it is missing.
    pub(crate) fn is_over(&self) -> LoadResult<bool> {
        if !self.run.is_over {
            return Ok(false);
        }
        let tellers: &[usize] = match self.words {
            EventFormat::OpenClaw => &self.run.next,
            EventFormat::Ledger => &self.run.next[1..],
        };
        let all = tellers.iter().all(|next| *next == 2 * WORDS_EACH);
        if !all || (self.run.calls_started, self.run.calls_ended) != (1, 1) {
            let run = &self.run;
            return Err(format!(
                "client {} lost something: words {:?}, calls {} and {}",
                self.client, run.next, run.calls_started, run.calls_ended
            )
            .into());
        }
        Ok(true)
    }

    /// Checks one event.
    pub(crate) fn check_payload(&mut self, payload: &EventPayload<'_>) -> LoadResult<()> {
        let Some(key) = &payload.session_key else { return Ok(()) };
        if *key != self.session_key {
            return Err(format!("client {} heard of `{key}`", self.client).into());
        }
        self.figures.events += 1;
        match self.words {
            EventFormat::Ledger => self.check_entry(payload),
            EventFormat::OpenClaw => self.check_openclaw_event(payload),
        }
    }

    fn check_entry(&mut self, payload: &EventPayload<'_>) -> LoadResult<()> {
        let entry = payload.event.as_ref().ok_or("an event without an entry")?;
        if entry.seq != self.entry + 1 {
            return Err(format!("entry {} came after {}", entry.seq, self.entry).into());
        }
        self.entry = entry.seq;
        match entry.run.as_deref() {
            // Events of the session, such as a new title, name no run.
            None => return Ok(()),
            Some(run) if run == self.run.id => {}
            Some(other) => return Err(format!("entry {} is of `{other}`", entry.seq).into()),
        }
        match entry.kind.as_ref() {
            "text" => self.check_words(
                entry.text.as_deref().unwrap_or_default(),
                TextEventKind::ChatOrLedger,
            ),
            "tool_started" => self.record_call_start(),
            "tool_ended" => match entry.status.as_deref() {
                Some("completed") => self.record_call_end(),
                other => Err(format!("the call ended as {other:?}").into()),
            },
            "run_ended" => match entry.end.as_ref().map(|end| end.kind.as_ref()) {
                Some("completed") => self.finish_run(),
                other => Err(format!("the run ended as {other:?}").into()),
            },
            _ => Ok(()),
        }
    }

    fn check_openclaw_event(&mut self, payload: &EventPayload<'_>) -> LoadResult<()> {
        if payload.run_id.as_deref() != Some(&self.run.id) {
            return Err(format!("an event is of {:?}", payload.run_id).into());
        }
        let seq = payload.seq.ok_or("an event of a run without a number")?;
        if seq != self.run.seq + 1 {
            return Err(format!("event {seq} of a run came after {}", self.run.seq).into());
        }
        self.run.seq = seq;
        match payload.state.as_deref() {
            Some("delta") => {
                let new = payload.delta_text.as_deref().unwrap_or_default();
                return self.check_words(new, TextEventKind::ChatOrLedger);
            }
            Some("final") => return self.finish_run(),
            Some(other) => return Err(format!("the run ended as `{other}`").into()),
            None => {}
        }
        let data = payload.data.as_ref().ok_or("an event of a run says nothing")?;
        let phase = data.phase.as_deref().unwrap_or_default();
        match (payload.stream.as_deref().unwrap_or_default(), phase) {
            ("assistant", _) => {
                self.check_words(data.delta.as_deref().unwrap_or_default(), TextEventKind::Agent)
            }
            ("tool", "start") => self.record_call_start(),
            ("tool", "result") => self.record_call_end(),
            _ => Ok(()),
        }
    }

    fn check_words(&mut self, text: &str, by: TextEventKind) -> LoadResult<()> {
        let now = u64::try_from(self.zero_hour.elapsed().as_micros())?;
        let next = &mut self.run.next[by as usize];
        for word in text.split_ascii_whitespace() {
            let mut parts = word.split('.').map(str::parse::<u64>);
            let (Some(Ok(client)), Some(Ok(number)), Some(Ok(sent_us))) =
                (parts.next(), parts.next(), parts.next())
            else {
                return Err(format!("`{word}` is no word").into());
            };
            if (client, number) != (self.client as u64, *next as u64) {
                let client = self.client;
                return Err(format!("client {client} heard {word} and not {next}").into());
            }
            *next += 1;
            self.figures.words += 1;
            self.figures.late_us.push(u32::try_from(now.saturating_sub(sent_us))?);
        }
        Ok(())
    }

    fn record_call_start(&mut self) -> LoadResult<()> {
        self.run.calls_started += 1;
        self.check_call_position(self.run.calls_started)
    }

    fn record_call_end(&mut self) -> LoadResult<()> {
        self.run.calls_ended += 1;
        self.check_call_position(self.run.calls_ended)
    }

    /// Checks that the only call comes after half of the words.
    fn check_call_position(&self, count: usize) -> LoadResult<()> {
        match count == 1 && self.run.next[1] == WORDS_EACH {
            true => Ok(()),
            false => Err(format!("a call came after word {}", self.run.next[1]).into()),
        }
    }

    fn finish_run(&mut self) -> LoadResult<()> {
        self.run.is_over = true;
        Ok(())
    }
}
