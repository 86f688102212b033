//! `zero policy check`: the decision on a call, without running it.

mod batch;

use std::fmt::Write as _;

use zero_core::HostLimits;
use zero_policy::{PolicyDecision, Verdict};

use crate::AppContext;
use crate::cli::PolicyCheckArgs;
use crate::exit::{ExitOutcome, UsageError};
use crate::json_input;
use crate::policy::to_json;
use crate::terminal::{FAINT, TableCell, TerminalStream, TextTable, escape_line, verdict_style};

pub(super) fn run(app: &AppContext, args: &PolicyCheckArgs) -> anyhow::Result<ExitOutcome> {
    match &args.batch {
        Some(file) => batch::run(app, args, file),
        None => check_single(app, args),
    }
}

fn check_single(app: &AppContext, args: &PolicyCheckArgs) -> anyhow::Result<ExitOutcome> {
    let (Some(tool), Some(input)) = (&args.tool, &args.input) else {
        let message = "pass a tool and its input, or a file with --batch";
        return Err(UsageError(message.to_owned()).into());
    };
    let input = json_input::read_unique(app, input, &HostLimits::default())?;
    let evaluator = app.policy_evaluator(&args.place, args.mode)?;
    let usage = |message: String| UsageError(message);
    let subject = evaluator.resolve_call(tool, &input, args.dialect).map_err(usage)?;
    let decision = evaluator.evaluate(&subject, &[]);
    let decision = evaluator.judge_secrets(decision, &input, &subject);
    let decision = apply_headless(decision, args.headless);
    let out = &app.terminal.out;
    if args.json || !app.config.streams.stdout_is_terminal {
        out.write_json_line(&to_json(&decision))?;
    } else {
        out.write_prose(&render_decision(out, &decision), 2)?;
    }
    Ok(ExitOutcome::from_verdict(decision.verdict))
}

/// With `--headless`, turns `ask` into `deny`.
fn apply_headless(decision: PolicyDecision, headless: bool) -> PolicyDecision {
    if !headless || decision.verdict != Verdict::Ask {
        return decision;
    }
    let reason = format!("{}, and no user can approve it", decision.reason);
    PolicyDecision { verdict: Verdict::Deny, reason, grants: Vec::new(), ..decision }
}

/// Renders a decision: the verdict and its reason, then one effect per line.
fn render_decision(out: &TerminalStream, decision: &PolicyDecision) -> String {
    let word = out.paint(verdict_style(decision.verdict).bold(), decision.verdict.as_str());
    let mut text = format!("{word}: {}\n", escape_line(&decision.reason));
    let mut part = |name: &str, value: &str| {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{}  {value}", out.paint(FAINT, &format!("{name:<5}")));
    };
    if let (Some(rule), Some(source)) = (&decision.rule, &decision.source) {
        part("rule", &format!("{}  ({})", escape_line(rule), escape_line(source)));
    }
    part("risk", &decision.risk.to_string());
    for grant in &decision.grants {
        part("offer", &format!("{}  for the rest of the session", escape_line(&grant.rule)));
    }
    for (name, value) in decision.limits.format_values() {
        part("limit", &format!("{name} {value}"));
    }
    if !decision.effects.is_empty() {
        let mut table = TextTable::new(["VERDICT", "EFFECT", "ON", "WHY"]);
        for effect in &decision.effects {
            table.add_row([
                TableCell::styled(effect.decision.as_str(), verdict_style(effect.decision)),
                effect.kind.into(),
                (&effect.target).into(),
                TableCell::styled(&effect.reason, FAINT),
            ]);
        }
        let _ = write!(text, "\n{}", table.render(out));
    }
    text
}
