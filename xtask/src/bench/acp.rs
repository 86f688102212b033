//! Measures the agent in an editor: its start, its turns, and many sessions at once.
//!
//! The model answers at once; the time it needs itself is subtracted.

mod bench_client;
mod mock_model;

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use self::bench_client::{AcpBenchClient, AgentMessage, check_turn_completed};
use self::mock_model::{HELLO, MockModel, ModelScript};
use super::bench_context::{BenchContext, FULL};
use super::bench_table::{BenchRow, BenchTable, format_mb, format_ms};
use super::peak_memory;
use super::stopwatch::median;

/// From the start of the program until `initialize` is answered.
const HELLO_MAX: Duration = Duration::from_millis(8);
/// From there, `session/new` with the gateway in the same process.
const OPENED_MAX: Duration = Duration::from_millis(10);
/// From a prompt until the first word of the answer.
const FIRST_WORD_MAX: Duration = Duration::from_millis(3);
/// One call in a turn of many.
const READ_MAX: Duration = Duration::from_millis(1);
const EDIT_MAX: Duration = Duration::from_millis(2);
const COMMAND_MAX: Duration = Duration::from_millis(8);
/// One call in a turn with results of 1 MB.
const LARGE_MAX: Duration = Duration::from_millis(20);
/// Turns per second, of all sessions together.
const TURNS_PER_SECOND_MIN: f64 = 300.0;
/// Memory of the process with an open session, and its peak.
const IDLE_BYTES_MAX: u64 = 20_000_000;
const PEAK_BYTES_MAX: u64 = 60_000_000;
/// Size of the stripped program.
const PROGRAM_BYTES_MAX: u64 = 35_000_000;
/// Memory of one of many sub-agents.
const SUBAGENT_BYTES_MAX: u64 = 4_000_000;

/// Calls per turn.
const CALLS: usize = 50;
/// Calls per turn with large results.
const LARGE_CALLS: usize = 5;
/// Concurrent sessions.
const SESSIONS: usize = 20;
/// Turns per session.
const TURNS: usize = 50;
/// Sub-agents side by side, and how long the model of each thinks, so that all are there at the same time.
const SUBAGENTS: usize = 20;
const SUBAGENT_PAUSE: Duration = Duration::from_secs(3);
/// After how long without work an agent counts as idle, and how many are measured then.
const IDLE_AFTER: Duration = Duration::from_secs(4);
const IDLE_RUNS: usize = 3;
/// Prompts before measuring starts.
const WARM_UP_PROMPTS: usize = 5;
/// Size of the large result.
const LARGE_BYTES: usize = 1_000_000;

/// Measures the agent in the editor.
pub(super) fn measure(bench: &BenchContext, table: &mut BenchTable) -> Result<()> {
    let place = AcpBenchSetup::prepare(bench, "acp")?;
    measure_start(&place, table)?;
    measure_first_word(&place, table)?;
    measure_calls(&place, table)?;
    measure_many_sessions(&place, table)?;
    measure_subagents(&place, table)?;
    let size = std::fs::metadata(&bench.zero)?.len();
    table.add(BenchRow::without_peer(
        "acp, the program, stripped",
        format_mb(size),
        format_budget(format_mb(PROGRAM_BYTES_MAX)),
        size <= PROGRAM_BYTES_MAX,
    ));
    Ok(())
}

/// Settings, folders and the model of these measurements.
pub(super) struct AcpBenchSetup<'a> {
    bench: &'a BenchContext,
    model: MockModel,
    folder: PathBuf,
    pub(super) work: PathBuf,
}

impl<'a> AcpBenchSetup<'a> {
    /// A folder of that name for everything.
    pub(super) fn prepare(bench: &'a BenchContext, name: &str) -> Result<Self> {
        let folder = bench.state.join(name);
        let work = folder.join("work");
        let model = MockModel::start()?;
        std::fs::create_dir_all(folder.join("config/zero"))?;
        std::fs::create_dir_all(&work)?;
        // A window that no transcript of a measurement fills.
        let scripted = json!({"api": "chat", "model": "scripted", "baseUrl": model.url(), "contextWindow": 10_000_000});
        // No user is there to approve calls; the sandbox confines them.
        let permissions = json!({"mode": "auto"});
        let subagents = json!({ "maxParallel": SUBAGENTS });
        let settings = json!({"models": {"scripted": scripted}, "model": "scripted", "permissions": permissions,
            "subagents": subagents});
        std::fs::write(folder.join("config/zero/settings.json"), settings.to_string())?;
        for number in 0..CALLS {
            std::fs::write(work.join(format!("{number:03}.txt")), format!("file {number:03}\n"))?;
        }
        let line = "a line of a long file, which is as long as lines of files are\n";
        std::fs::write(work.join("large.txt"), line.repeat(LARGE_BYTES / line.len() + 1))?;
        Ok(Self { bench, model, folder, work })
    }

    /// An agent with a state folder of that name.
    pub(super) fn start_agent(&self, state: &str) -> Result<AcpBenchClient> {
        let mut command = Command::new(&self.bench.zero);
        command
            .arg("acp")
            .current_dir(&self.work)
            .env("XDG_CONFIG_HOME", self.folder.join("config"))
            .env("XDG_STATE_HOME", self.folder.join("states").join(state))
            .env_remove("ZERO_LOG")
            .env_remove("ZERO_MODEL");
        AcpBenchClient::start(command)
    }

    fn is_full(&self) -> bool {
        self.bench.runs.search == FULL.search
    }
}

fn measure_start(place: &AcpBenchSetup<'_>, table: &mut BenchTable) -> Result<()> {
    let mut samples = (Vec::new(), Vec::new());
    let mut held = Vec::new();
    for run in 0..place.bench.runs.start {
        let start = Instant::now();
        let mut talk = place.start_agent(&format!("start-{run}"))?;
        samples.0.push(start.elapsed());
        let start = Instant::now();
        talk.open_session(&place.work)?;
        samples.1.push(start.elapsed());
        if run < IDLE_RUNS {
            std::thread::sleep(IDLE_AFTER);
            held.push(peak_memory::read_current(talk.pid())?);
        }
        talk.finish()?;
    }
    let (hello, opened) = (median(samples.0), median(samples.1));
    table.add(timed_row("acp, start to `initialize` answered", hello, HELLO_MAX));
    table.add(timed_row("acp, the first `session/new`", opened, OPENED_MAX));
    let held = held.into_iter().max().unwrap_or_default();
    table.add(BenchRow::without_peer(
        "acp, memory with a session open, idle",
        format_mb(held),
        format_budget(format_mb(IDLE_BYTES_MAX)),
        held <= IDLE_BYTES_MAX,
    ));
    Ok(())
}

fn measure_first_word(place: &AcpBenchSetup<'_>, table: &mut BenchTable) -> Result<()> {
    let mut talk = place.start_agent("first-word")?;
    let session = talk.open_session(&place.work)?;
    let mut samples = Vec::new();
    for run in 0..WARM_UP_PROMPTS + place.bench.runs.start {
        place.model.take_own_time();
        let start = Instant::now();
        let asked = talk.send_prompt(&session, "hi")?;
        let mut first = None;
        loop {
            match talk.read_message()? {
                AgentMessage::Update { line } if first.is_none() && line.contains(HELLO) => {
                    first = Some(start.elapsed().saturating_sub(place.model.take_own_time()));
                }
                AgentMessage::Update { .. } => {}
                AgentMessage::Response { id, line } => {
                    ensure!(id == asked, "an answer to nothing: {line:.500}");
                    check_turn_completed(line)?;
                    break;
                }
            }
        }
        let first = first.context("no answer was received")?;
        if run >= WARM_UP_PROMPTS {
            samples.push(first);
        }
    }
    talk.finish()?;
    table.add(timed_row("acp, prompt to the first word", median(samples), FIRST_WORD_MAX));
    Ok(())
}

/// Measures a call in a turn of many, and a large result.
fn measure_calls(place: &AcpBenchSetup<'_>, table: &mut BenchTable) -> Result<()> {
    let mut talk = place.start_agent("calls")?;
    check_confined(place, &mut talk)?;
    let read = build_script("Read", json!({"file_path": "{n}.txt"}), CALLS, "file {n}");
    let change = json!({"file_path": "edited.txt", "old_string": "line {n}\n", "new_string": "changed {n}\n"});
    let edit = build_script("Edit", change, CALLS, "");
    // The number makes the calls different: repeating the same call would be stopped.
    let command = build_script("Bash", json!({"command": "true {n}"}), CALLS, "");
    for (what, script, budget) in [
        ("acp, a Read, in a turn of 50", read, READ_MAX),
        ("acp, an Edit, in a turn of 50", edit, EDIT_MAX),
        ("acp, `true` in the sandbox, in a turn of 50", command, COMMAND_MAX),
    ] {
        let (took, own) = measure_turns(place, &mut talk, &script)?;
        let calls = script.times as u32;
        table.add(BenchRow {
            peer: format_model_share(own / calls),
            ..timed_row(what, took / calls, budget)
        });
    }
    let print = json!({"command": "cat large.txt # {n}"});
    let large = |times| build_script("Bash", print.clone(), times, "as long as lines of files");
    let (took, own) = measure_turns(place, &mut talk, &large(LARGE_CALLS))?;
    let what = format!("acp, a result of 1 MB, in a turn of {LARGE_CALLS}");
    let (took, own) = (took / LARGE_CALLS as u32, own / LARGE_CALLS as u32);
    table.add(BenchRow { peer: format_model_share(own), ..timed_row(&what, took, LARGE_MAX) });
    // The cost of such a result, including the sandbox that a session's first command waits for.
    let (took, own) = measure_turns(place, &mut talk, &large(1))?;
    talk.finish()?;
    let what = "acp, the same as the first command of a session";
    let first = BenchRow::without_peer(what, format_ms(took), "–".to_owned(), true);
    table.add(BenchRow { peer: format_model_share(own), ..first });
    Ok(())
}

/// Checks that commands are sandboxed; otherwise their measurements are meaningless.
fn check_confined(place: &AcpBenchSetup<'_>, talk: &mut AcpBenchClient) -> Result<()> {
    // In a script: a command that names a file of `/proc` would need approval.
    std::fs::write(
        place.work.join("look.sh"),
        "grep -E '^(NoNewPrivs|Seccomp):' /proc/self/status",
    )?;
    let look = json!({"command": "sh look.sh"});
    let session = talk.open_session(&place.work)?;
    place.model.take_tally();
    talk.run_turn(&session, &build_script("Bash", look, 1, "Seccomp:\t2").to_prompt()?)?;
    check_results(place, 1).context("commands are not fully sandboxed here")
}

/// The time of a turn without the model, and the model's own time; each the median of several. Each
/// turn has its own session, so that all send the same amount to the model.
fn measure_turns(
    place: &AcpBenchSetup<'_>,
    talk: &mut AcpBenchClient,
    script: &ModelScript,
) -> Result<(Duration, Duration)> {
    let runs = place.bench.runs.search;
    let prompt = script.to_prompt()?;
    let mut samples = (Vec::with_capacity(runs), Vec::with_capacity(runs));
    for _ in 0..runs {
        let lines: String = (0..CALLS).map(|number| format!("line {number:03}\n")).collect();
        std::fs::write(place.work.join("edited.txt"), lines)?;
        let session = talk.open_session(&place.work)?;
        place.model.take_own_time();
        place.model.take_tally();
        let start = Instant::now();
        talk.run_turn(&session, &prompt)?;
        let took = start.elapsed();
        let own = place.model.take_own_time();
        check_results(place, script.times)?;
        talk.request("session/close", &json!({ "sessionId": session }))?;
        samples.0.push(took.saturating_sub(own));
        samples.1.push(own);
    }
    if script.tool == "Edit" {
        let edited = std::fs::read_to_string(place.work.join("edited.txt"))?;
        ensure!(
            edited.matches("changed").count() == CALLS,
            "not all edits were made: {edited:.500}"
        );
    }
    Ok((median(samples.0), median(samples.1)))
}

/// Checks that the model received this many results, all of them right.
fn check_results(place: &AcpBenchSetup<'_>, calls: usize) -> Result<()> {
    let tally = place.model.take_tally();
    ensure!(
        tally.right == calls && tally.wrong == 0,
        "of {calls} results {} were right and {} wrong: {}",
        tally.right,
        tally.wrong,
        tally.first_wrong.as_deref().unwrap_or("some are missing")
    );
    Ok(())
}

/// Many sessions in one process: how many turns they complete, and whether an answer is lost.
fn measure_many_sessions(place: &AcpBenchSetup<'_>, table: &mut BenchTable) -> Result<()> {
    let mut talk = place.start_agent("many")?;
    let mut sessions = Vec::with_capacity(SESSIONS);
    for _ in 0..SESSIONS {
        sessions.push(talk.open_session(&place.work)?);
    }
    let start = Instant::now();
    run_sessions_in_parallel(&mut talk, &sessions, TURNS, |_| Ok("hi".to_owned()))?;
    let per_second = (SESSIONS * TURNS) as f64 / start.elapsed().as_secs_f64();
    table.add(BenchRow::without_peer(
        "acp, turns of 20 sessions at once",
        format!("{per_second:.0}/s"),
        format!("≥ {TURNS_PER_SECOND_MIN:.0}/s"),
        per_second >= TURNS_PER_SECOND_MIN,
    ));

    let rounds = if place.is_full() { 10 } else { 1 };
    let answers = SESSIONS * rounds * CALLS;
    place.model.take_tally();
    let start = Instant::now();
    run_sessions_in_parallel(&mut talk, &sessions, rounds, |turn| {
        let text = format!("session {} round {} call {{n}}", turn.session, turn.round);
        let input = json!({"command": format!("echo {text}")});
        build_script("Bash", input, CALLS, &text).to_prompt()
    })?;
    let took = start.elapsed();
    let tally = place.model.take_tally();
    if let Some(wrong) = &tally.first_wrong {
        eprintln!("   a wrong answer: {wrong}");
    }
    table.add(BenchRow {
        peer: format!("{:.0}/s", answers as f64 / took.as_secs_f64()),
        ..BenchRow::without_peer(
            &format!("acp, `echo` {answers} times by 20 sessions, right answers"),
            tally.right.to_string(),
            answers.to_string(),
            tally.right == answers && tally.wrong == 0,
        )
    });
    let held = peak_memory::read_peak(talk.pid())?;
    talk.finish()?;
    table.add(BenchRow::without_peer(
        "acp, the same, memory",
        format!("{} peak", format_mb(held)),
        format_budget(format_mb(PEAK_BYTES_MAX)),
        held <= PEAK_BYTES_MAX,
    ));
    Ok(())
}

/// The memory of sub-agents side by side: each reads a file, and then its model thinks until all are there.
fn measure_subagents(place: &AcpBenchSetup<'_>, table: &mut BenchTable) -> Result<()> {
    let mut talk = place.start_agent("subagents")?;
    let session = talk.open_session(&place.work)?;
    talk.run_turn(&session, "hi")?;
    let pause_ms = SUBAGENT_PAUSE.as_millis().try_into()?;
    let read = build_script("Read", json!({"file_path": "{n}.txt"}), 1, "file {n}");
    let work = ModelScript { pause_ms, ..read }.to_prompt()?;
    let task = json!({"description": "sub-agent {n}", "prompt": work});
    let tasks = build_script("Task", task, SUBAGENTS, "Done.");
    let prompt = ModelScript { at_once: true, ..tasks }.to_prompt()?;
    peak_memory::reset_peak(talk.pid())?;
    let before = peak_memory::read_current(talk.pid())?;
    place.model.take_tally();
    let start = Instant::now();
    talk.run_turn(&session, &prompt)?;
    let took = start.elapsed();
    // One result of each sub-agent, and the last one of their parent.
    check_results(place, SUBAGENTS + 1)?;
    ensure!(took < 2 * SUBAGENT_PAUSE, "the sub-agents did not work side by side: {took:?}");
    let held = peak_memory::read_peak(talk.pid())?.saturating_sub(before) / SUBAGENTS as u64;
    talk.finish()?;
    table.add(BenchRow::without_peer(
        "acp, memory of each of 20 sub-agents side by side",
        format_mb(held),
        format_budget(format_mb(SUBAGENT_BYTES_MAX)),
        held <= SUBAGENT_BYTES_MAX,
    ));
    Ok(())
}

/// A turn of one of many sessions.
#[derive(Clone, Copy)]
struct BenchTurn {
    session: usize,
    round: usize,
}

/// Lets all sessions run this many turns each, as fast as they can.
fn run_sessions_in_parallel(
    talk: &mut AcpBenchClient,
    sessions: &[String],
    rounds: usize,
    prompt: impl Fn(BenchTurn) -> Result<String>,
) -> Result<()> {
    let mut at_work = HashMap::new();
    for (number, session) in sessions.iter().enumerate() {
        let turn = BenchTurn { session: number, round: 0 };
        at_work.insert(talk.send_prompt(session, &prompt(turn)?)?, turn);
    }
    while !at_work.is_empty() {
        let AgentMessage::Response { id, line } = talk.read_message()? else {
            continue;
        };
        check_turn_completed(line)?;
        let BenchTurn { session, round } = at_work.remove(&id).context("an answer to nothing")?;
        let turn = BenchTurn { session, round: round + 1 };
        if let Some(key) = sessions.get(session).filter(|_| turn.round < rounds) {
            at_work.insert(talk.send_prompt(key, &prompt(turn)?)?, turn);
        }
    }
    Ok(())
}

fn build_script(tool: &str, input: Value, times: usize, expected: &str) -> ModelScript {
    ModelScript {
        tool: tool.to_owned(),
        input,
        times,
        expected: expected.to_owned(),
        ..ModelScript::default()
    }
}

fn timed_row(what: &str, took: Duration, budget: Duration) -> BenchRow {
    BenchRow::without_peer(what, format_ms(took), format_budget(format_ms(budget)), took <= budget)
}

fn format_model_share(own: Duration) -> String {
    format!("and {} of the model", format_ms(own))
}

fn format_budget(budget: String) -> String {
    format!("≤ {budget}")
}
