//! `zero policy simulate`: evaluates the recorded calls under other settings.

mod replay;
mod tally;

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::{Value, json};
use zero_policy::{GrantScope, PermissionMode, Verdict};
use zero_runtime::audit::{AuditLog, AuditRow};
use zero_runtime::simulated_call::CallSimulator;

use self::replay::{ReplayFailure, ReplayOutcome};
use self::tally::SimulationTally;
use super::audit_rows::{self, LogSummary};
use zero_sandbox::ConfigFile;
use zero_settings::TrustStore;
use zero_settings::user_paths::canonical_folder;
use zero_settings::{SettingsError, SettingsLayer, SettingsLayerKind, WorkspaceSettings};

use crate::AppContext;
use crate::cli::PolicySimulateArgs;
use crate::exit::{ExitOutcome, UsageError};
use crate::policy::{PolicyContext, PolicyEvaluator};
use crate::terminal::{
    FAINT, STRONG, TableCell, TerminalStream, TextTable, format_short_time, verdict_style,
};

/// Workspaces whose compiled rules are cached.
const EVALUATORS_MAX: usize = 64;
/// Lines shown of each list.
const SHOWN_MAX: usize = 20;

pub(super) fn run(app: &AppContext, args: &PolicySimulateArgs) -> anyhow::Result<ExitOutcome> {
    let limit = SimulationLimit { rows: u64::MAX, time: Duration::MAX };
    let Simulation { since, tally, damaged, .. } = Simulation::run(app, args, limit)?;
    let out = &app.terminal.out;
    if args.json {
        let mut answer = json!({
            "since": since.to_string(),
            "mode": args.mode.map(PermissionMode::as_str),
            "settings": args.settings,
            "damaged_lines": damaged,
        });
        if let (Value::Object(answer), Value::Object(counted)) = (&mut answer, tally.to_json()) {
            answer.extend(counted);
        }
        out.write_pretty_json(&answer)?;
        return Ok(ExitOutcome::Ok);
    }
    if tally.is_empty() {
        out.write("no calls in this time span; use a longer one with `--since 30d`\n")?;
    } else {
        out.write(&render_report(out, &tally, &format_short_time(since)))?;
    }
    if damaged > 0 {
        app.terminal.print_note(&audit_rows::describe_damaged_lines(damaged));
    }
    Ok(ExitOutcome::Ok)
}

/// Where a simulation stops.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SimulationLimit {
    /// Rows of calls.
    pub(crate) rows: u64,
    /// Time that it takes.
    pub(crate) time: Duration,
}

/// The recorded calls, judged again.
pub(crate) struct Simulation {
    since: Timestamp,
    tally: SimulationTally,
    damaged: usize,
    /// Time of the first call beyond the limit.
    stopped_at: Option<Timestamp>,
}

impl Simulation {
    pub(crate) fn run(
        app: &AppContext,
        args: &PolicySimulateArgs,
        limit: SimulationLimit,
    ) -> anyhow::Result<Self> {
        let begin = Instant::now();
        let (mut judged, mut stopped_at) = (0_u64, None);
        let audit = AuditLog::new(&app.config.state_dir()?);
        let since = audit_rows::timestamp_before(args.since);
        let cwd = app.config.cwd()?;
        let only = args.workspace.as_deref().map(|folder| canonical_folder(cwd, folder));
        let mut simulator = PolicySimulator::new(app, args)?;
        let mut tally = SimulationTally::default();
        let mut failed = None;
        let LogSummary { damaged, .. } = audit_rows::for_each_since(app, &audit, since, |row| {
            let is_meant = only.as_deref().is_none_or(|only| only == Path::new(&row.workspace));
            if is_meant && failed.is_none() && stopped_at.is_none() {
                if judged >= limit.rows || begin.elapsed() >= limit.time {
                    stopped_at = Some(row.time);
                    return;
                }
                judged += 1;
                failed = simulator.replay_row(row, &mut tally).err();
            }
        })?;
        match failed {
            Some(failed) => Err(failed),
            None => Ok(Self { since, tally, damaged, stopped_at }),
        }
    }

    /// The counts, as `--json` prints them.
    pub(crate) fn to_json(&self) -> Value {
        let mut answer = self.tally.to_json();
        answer["damaged_lines"] = json!(self.damaged);
        if let Some(stopped_at) = self.stopped_at {
            answer["stopped_at_ms"] = json!(stopped_at.as_millisecond());
        }
        answer
    }
}

/// Settings and cached evaluators of a simulation.
struct PolicySimulator<'a> {
    app: &'a AppContext,
    args: &'a PolicySimulateArgs,
    trust: TrustStore,
    simulator: Arc<CallSimulator>,
    /// Evaluator by workspace; `None` if its settings are invalid.
    evaluators: HashMap<String, Option<PolicyEvaluator>>,
}

impl<'a> PolicySimulator<'a> {
    /// Fails on invalid settings before the log is read.
    fn new(app: &'a AppContext, args: &'a PolicySimulateArgs) -> anyhow::Result<Self> {
        let context = app.policy_context(None, args.home.as_deref())?;
        let config = app.config.with_home(context.home, args.home.is_some());
        let simulator = app.builtin_simulator()?;
        if !args.settings.is_empty() {
            app.load_settings_files(&args.settings)?;
            let (trust, evaluators) = (TrustStore::default(), HashMap::new());
            return Ok(Self { app, args, trust, simulator, evaluators });
        }
        let own = ConfigFile::Own(config.draft_or_settings_file()?);
        SettingsLayer::read(SettingsLayerKind::User, &own, config.home())
            .map_err(|problems| UsageError::from(SettingsError::Invalid(problems)))?;
        let trust = TrustStore::load(&config.state_dir()?).map_err(UsageError::from)?;
        Ok(Self { app, args, trust, simulator, evaluators: HashMap::new() })
    }

    fn replay_row(&mut self, row: &AuditRow, tally: &mut SimulationTally) -> anyhow::Result<()> {
        if replay::is_call(row) {
            self.ensure_evaluator(&row.workspace)?;
            match self.evaluators.get(&row.workspace) {
                Some(Some(evaluator)) => reevaluate(evaluator, row, tally),
                _ => tally.add_failure(ReplayFailure::BadSettings),
            }
        }
        Ok(())
    }

    /// Creates the evaluator of a workspace if it is not cached.
    fn ensure_evaluator(&mut self, workspace: &str) -> anyhow::Result<()> {
        if self.evaluators.contains_key(workspace) {
            return Ok(());
        }
        let (app, args) = (self.app, self.args);
        let context = app.policy_context(Some(Path::new(workspace)), args.home.as_deref())?;
        let settings = match &args.settings[..] {
            [] => {
                let config = app.config.with_home(context.home.clone(), args.home.is_some());
                let root = context.roots.first().map_or(Path::new("/"), |root| root);
                WorkspaceSettings::load(&config.user_paths(), root, &self.trust).ok()
            }
            files => Some(app.load_settings_files(files)?),
        };
        let evaluator = settings.and_then(|settings| {
            let mode = args.mode.unwrap_or_else(|| settings.mode());
            let context = PolicyContext {
                network: settings.command_hosts(),
                masked_files: settings.masked_files(),
                secret_files: app.secret_files(&settings),
                ..context
            };
            let simulator = Arc::clone(&self.simulator);
            let root = context.roots.first().cloned().unwrap_or_else(|| PathBuf::from("/"));
            let commands = app.command_settings(&settings, &root);
            let evaluator =
                PolicyEvaluator::new(settings.policy_rules(), mode, context, simulator).ok()?;
            Some(evaluator.with_command_settings(commands))
        });
        if self.evaluators.len() >= EVALUATORS_MAX {
            self.evaluators.clear();
        }
        self.evaluators.insert(workspace.to_owned(), evaluator);
        Ok(())
    }
}

fn reevaluate(evaluator: &PolicyEvaluator, row: &AuditRow, tally: &mut SimulationTally) {
    let (subject, recorded) = match replay::replay_row(evaluator, row) {
        ReplayOutcome::Call(subject, recorded) => (subject, recorded),
        ReplayOutcome::NotEvaluated => return tally.add_not_evaluated(),
        ReplayOutcome::Failed(lost) => return tally.add_failure(lost),
    };
    // A call covered by a session grant was not asked about, so it does not count as a prompt now.
    let granted = row.decision.as_ref().filter(|then| then.source.as_deref() == Some("grant"));
    let grant = granted.and_then(|then| then.rule.clone());
    let grants: Vec<GrantScope> =
        grant.into_iter().map(|rule| GrantScope { rule, folder: None, program: None }).collect();
    tally.add_decision(row, recorded, &evaluator.evaluate(&subject, &grants));
}

fn render_report(out: &TerminalStream, tally: &SimulationTally, since: &str) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{} calls since {since}, evaluated again\n", tally.call_count());
    let mut table = TextTable::new(["", "THEN", "NOW"]);
    for verdict in Verdict::ALL {
        table.add_row([
            TableCell::styled(verdict.as_str(), verdict_style(verdict)),
            tally.count_before(verdict).to_string().into(),
            tally.count_after(verdict).to_string().into(),
        ]);
    }
    text.push_str(&table.render(out));
    let changes = tally.changes();
    if !changes.is_empty() {
        let mut table = TextTable::new(["CALLS", "THEN", "NOW", "CALL", "WHY"]);
        for (change, count) in changes.iter().take(SHOWN_MAX) {
            table.add_row([
                count.to_string().into(),
                TableCell::styled(change.then.as_str(), verdict_style(change.then)),
                TableCell::styled(change.now.as_str(), verdict_style(change.now)),
                TableCell::styled(&change.title, STRONG),
                TableCell::styled(&change.reason, FAINT),
            ]);
        }
        let _ = write!(text, "\nDifferent decisions:\n{}", table.render(out));
        push_left_out(&mut text, changes.len().saturating_sub(SHOWN_MAX), tally.changes_left_out());
    }
    let offers = tally.suggested_rules();
    if !offers.is_empty() {
        let mut table = TextTable::new(["PROMPTS", "RULE"]);
        for (rules, count) in offers.iter().take(SHOWN_MAX) {
            table.add_row([count.to_string().into(), rules.join(" and ").into()]);
        }
        let _ =
            write!(text, "\nAllow rules that would have avoided prompts:\n{}", table.render(out));
        push_left_out(
            &mut text,
            offers.len().saturating_sub(SHOWN_MAX),
            tally.suggested_rules_left_out(),
        );
    }
    if let Some(lost) = tally.describe_failures() {
        let _ = writeln!(text, "\nCould not evaluate: {lost}");
    }
    text
}

fn push_left_out(text: &mut String, kinds: usize, calls: u64) {
    if kinds > 0 || calls > 0 {
        let more =
            if calls > 0 { format!(" and {calls} calls of other kinds") } else { String::new() };
        let _ = writeln!(text, "and {kinds} more kinds{more}; `--json` lists more of them");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use super::*;
    use crate::environment::EnvironmentConfig;
    use crate::terminal::Terminal;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the rows are written outside zero")]
    fn simulation_beyond_its_limit_says_where_it_stopped() {
        let folder = tempfile::tempdir().unwrap();
        let app = AppContext {
            config: EnvironmentConfig::for_test(folder.path()),
            terminal: Terminal::for_test(),
            tools: Arc::new(LazyLock::new(Vec::new)),
            notifiers: Arc::default(),
            console: Arc::default(),
            gateway_locality: Arc::default(),
        };
        std::fs::create_dir_all(folder.path().join("home")).unwrap();
        let dir = app.config.state_dir().unwrap().child("audit");
        dir.create().unwrap();
        let now = Timestamp::now();
        let workspace = folder.path().display();
        let row = |call: &str| {
            format!(
                r#"{{"time":"{now}","call":"{call}","workspace":"{workspace}","tool":"LS","dialect":"canonical","input":{{}},"status":"ok","duration_us":7}}"#
            ) + "\n"
        };
        let day = dir.path().join(format!("{}.jsonl", now.strftime("%Y-%m-%d")));
        std::fs::write(day, ["a", "b", "c"].map(row).concat()).unwrap();
        let args = PolicySimulateArgs {
            since: Duration::from_secs(60 * 60),
            settings: Vec::new(),
            workspace: None,
            home: None,
            mode: None,
            json: true,
        };
        let stopped_at = |rows, time| {
            let limit = SimulationLimit { rows, time };
            Simulation::run(&app, &args, limit).unwrap().to_json()["stopped_at_ms"].as_i64()
        };
        assert_eq!(stopped_at(3, Duration::MAX), None);
        assert_eq!(stopped_at(2, Duration::MAX), Some(now.as_millisecond()));
        assert_eq!(stopped_at(u64::MAX, Duration::ZERO), Some(now.as_millisecond()));
    }
}
