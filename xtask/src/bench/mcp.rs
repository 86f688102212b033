//! Measures MCP in both directions: `zero mcp` as a client sees it, and the servers whose tools
//! zero uses.

mod bench_client;

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::{Value, json};

use self::bench_client::{BenchProtocolEra, McpBenchClient};
use super::bench_context::{BenchContext, run_for_output};
use super::bench_table::{BenchRow, BenchTable, format_mb, format_micros, format_ms};
use super::peak_memory;
use super::stopwatch::{TimingPair, median, time_pair};

/// From the start of `zero mcp` until its tools are listed.
const LISTED_MAX: Duration = Duration::from_millis(15);
/// The additional time of a call over stdin and stdout.
const STDIO_CALL_MAX: Duration = Duration::from_micros(300);
/// The time of a call of another server's tool, including all checks.
const CLIENT_CALL_MAX: Duration = Duration::from_micros(300);
/// zero does not wait for servers that hang: the remaining work is to read their settings, and to
/// start others at the same time.
const TEN_LISTED_RATIO_MAX: f64 = 1.3;
const TEN_SERVED_RATIO_MAX: f64 = 1.5;
/// Peak memory of a client that is sent 200 MB.
const GIANT_REPLY_BYTES_MAX: u64 = 60_000_000;

/// Configured servers, and those of them that never answer.
const SERVERS: usize = 10;
const SERVERS_THAT_HANG: usize = 3;
/// Calls before measuring starts.
const WARM_UP_CALLS: usize = 200;

/// Measures both directions.
pub(super) fn measure(bench: &BenchContext, table: &mut BenchTable) -> Result<()> {
    let place = McpBenchSetup::prepare(bench)?;
    for (what, era) in [
        ("mcp, start to tools listed, with a handshake", BenchProtocolEra::Handshake),
        ("mcp, start to tools listed, without one", BenchProtocolEra::Stateless),
    ] {
        let mut samples = Vec::with_capacity(bench.runs.start);
        for run in 0..bench.runs.start {
            let (took, talk) =
                place.measure_listing(&place.none, &format!("start-{era:?}-{run}"), era)?;
            talk.finish()?;
            samples.push(took);
        }
        let took = median(samples);
        table.add(BenchRow::without_peer(
            what,
            format_ms(took),
            format!("≤ {}", format_ms(LISTED_MAX)),
            took <= LISTED_MAX,
        ));
    }
    measure_calls(&place, table)?;
    table.add(measure_ten_listed(&place)?);
    table.add(measure_ten_served(&place)?);
    measure_memory(&place, table)
}

/// Settings, folders and programs of these measurements.
struct McpBenchSetup<'a> {
    bench: &'a BenchContext,
    folder: PathBuf,
    /// An empty working folder.
    work: PathBuf,
    /// Settings without servers, with ten, and with one whose replies are huge.
    none: PathBuf,
    ten: PathBuf,
    giant: PathBuf,
}

impl<'a> McpBenchSetup<'a> {
    fn prepare(bench: &'a BenchContext) -> Result<Self> {
        let folder = bench.state.join("mcp");
        let work = folder.join("work");
        std::fs::create_dir_all(&work)?;
        let settings = |name: &str, modes: &[&str]| -> Result<PathBuf> {
            let config = folder.join(name);
            let server = |(number, mode): (usize, &&str)| {
                // The number makes them different: servers with the same command are started once.
                let args = json!([mode, number.to_string()]);
                (
                    format!("s{number}"),
                    json!({"command": bench.example_path("hostile_server"), "args": args}),
                )
            };
            let servers: serde_json::Map<String, Value> =
                modes.iter().enumerate().map(server).collect();
            std::fs::create_dir_all(config.join("zero"))?;
            let text = json!({"mcpServers": servers}).to_string();
            std::fs::write(config.join("zero/settings.json"), text)?;
            Ok(config)
        };
        let mode = |number| if number < SERVERS_THAT_HANG { "never-answers" } else { "good" };
        let ten: Vec<&str> = (0..SERVERS).map(mode).collect();
        Ok(Self {
            none: settings("none", &[])?,
            ten: settings("ten", &ten)?,
            giant: settings("giant", &["giant-reply"])?,
            bench,
            work,
            folder,
        })
    }

    /// zero with these settings, and with a state folder of that name.
    fn zero_command(&self, settings: &PathBuf, state: &str, args: &[&str]) -> Command {
        let mut command = Command::new(&self.bench.zero);
        command
            .args(args)
            .current_dir(&self.work)
            .env("XDG_CONFIG_HOME", settings)
            .env("XDG_STATE_HOME", self.folder.join("states").join(state))
            .env_remove("ZERO_LOG");
        command
    }

    /// Starts `zero mcp` and lists its tools; returns how long that took.
    fn measure_listing(
        &self,
        settings: &PathBuf,
        state: &str,
        era: BenchProtocolEra,
    ) -> Result<(Duration, McpBenchClient)> {
        let command = self.zero_command(settings, state, &["mcp"]);
        let start = Instant::now();
        let mut talk = McpBenchClient::start(command, era)?;
        let answer = talk.request("tools/list", json!({}))?.len();
        let took = start.elapsed();
        ensure!(answer > 1_000, "the list of tools is short: {answer} bytes");
        Ok((took, talk))
    }
}

/// The output of the example that calls tools.
#[derive(Deserialize)]
struct CallFigures {
    inside_ns: u64,
    through_client_ns: u64,
}

/// Measures a call from a client, and a call to another server.
fn measure_calls(place: &McpBenchSetup<'_>, table: &mut BenchTable) -> Result<()> {
    let bench = place.bench;
    let count = bench.runs.search * 100;
    let mut example = Command::new(bench.example_path("call_cost"));
    example
        .arg(place.folder.join("calls"))
        .arg(bench.example_path("hostile_server"))
        .arg(count.to_string());
    let figures: CallFigures = serde_json::from_slice(&run_for_output(example)?)
        .context("could not read what the example printed")?;
    let inside = Duration::from_nanos(figures.inside_ns);
    for (what, era) in [
        ("mcp, what stdio adds to a call, with a handshake", BenchProtocolEra::Handshake),
        ("mcp, what stdio adds to a call, without one", BenchProtocolEra::Stateless),
    ] {
        let took = measure_served_call(place, era, count)?;
        let added = took.saturating_sub(inside);
        table.add(BenchRow {
            peer: format!("{} of {} inside", format_micros(inside), format_micros(took)),
            ..BenchRow::without_peer(
                what,
                format_micros(added),
                format!("≤ {}", format_micros(STDIO_CALL_MAX)),
                added <= STDIO_CALL_MAX,
            )
        });
    }
    let took = Duration::from_nanos(figures.through_client_ns);
    table.add(BenchRow::without_peer(
        "mcp, a call of another server's tool",
        format_micros(took),
        format!("≤ {}", format_micros(CLIENT_CALL_MAX)),
        took <= CLIENT_CALL_MAX,
    ));
    Ok(())
}

/// The median time a client waits for the list of an empty folder.
fn measure_served_call(
    place: &McpBenchSetup<'_>,
    era: BenchProtocolEra,
    count: usize,
) -> Result<Duration> {
    let (_, mut talk) = place.measure_listing(&place.none, &format!("calls-{era:?}"), era)?;
    let mut samples = Vec::with_capacity(count);
    for call in 0..WARM_UP_CALLS + count {
        let params = json!({"name": "LS", "arguments": {"path": "."}});
        let start = Instant::now();
        let answer = talk.request("tools/call", params)?;
        let took = start.elapsed();
        ensure!(!answer.contains(r#""isError":true"#), "the call failed: {answer}");
        if call >= WARM_UP_CALLS {
            samples.push(took);
        }
    }
    talk.finish()?;
    Ok(median(samples))
}

fn measure_ten_listed(place: &McpBenchSetup<'_>) -> Result<BenchRow> {
    // Listing starts no server, so their tools are never learned.
    let list = |settings| place.zero_command(settings, "list", &["tools", "list"]);
    let pair = time_pair(place.bench.runs.start, || list(&place.ten), || list(&place.none))?;
    Ok(comparison_row("mcp, `zero tools list`, 10 servers, 3 hang", pair, TEN_LISTED_RATIO_MAX))
}

fn measure_ten_served(place: &McpBenchSetup<'_>) -> Result<BenchRow> {
    let mut samples = (Vec::new(), Vec::new());
    for run in 0..place.bench.runs.search {
        // A new state folder each time: a list that was read once is cached.
        let (ten, talk) = place.measure_listing(
            &place.ten,
            &format!("ten-{run}"),
            BenchProtocolEra::Stateless,
        )?;
        talk.finish()?;
        let (none, talk) = place.measure_listing(
            &place.none,
            &format!("none-{run}"),
            BenchProtocolEra::Stateless,
        )?;
        talk.finish()?;
        samples.0.push(ten);
        samples.1.push(none);
    }
    let pair = TimingPair { ours: median(samples.0), theirs: median(samples.1) };
    Ok(comparison_row("mcp, start to tools listed, 10 servers, 3 hang", pair, TEN_SERVED_RATIO_MAX))
}

fn measure_memory(place: &McpBenchSetup<'_>, table: &mut BenchTable) -> Result<()> {
    let (_, talk) = place.measure_listing(&place.none, "memory", BenchProtocolEra::Stateless)?;
    let listed = peak_memory::read_peak(talk.pid())?;
    talk.finish()?;
    table.add(BenchRow::without_peer(
        "mcp, memory once tools are listed",
        format_mb(listed),
        "–".to_owned(),
        true,
    ));
    let call =
        || place.zero_command(&place.giant, "giant", &["tools", "call", "s0__work", "{}", "--yes"]);
    let output = call().output().context("could not start zero")?;
    let output = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.contains("it is longer than"), "the reply was not refused: {output:.500}");
    let held = peak_memory::measure_peak_of_failure(call())?;
    table.add(BenchRow::without_peer(
        "mcp, memory for a reply of 200 MB",
        format!("{} peak", format_mb(held)),
        format!("≤ {}", format_mb(GIANT_REPLY_BYTES_MAX)),
        held <= GIANT_REPLY_BYTES_MAX,
    ));
    Ok(())
}

fn comparison_row(what: &str, pair: TimingPair, budget: f64) -> BenchRow {
    BenchRow {
        what: what.to_owned(),
        ours: format_ms(pair.ours),
        peer: format!("no servers {}", format_ms(pair.theirs)),
        ratio: format!("{:.2}", pair.ratio()),
        budget: format!("≤ {budget}×"),
        met: pair.ratio() <= budget,
    }
}
