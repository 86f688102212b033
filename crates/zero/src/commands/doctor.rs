//! `zero doctor`: finds problems and risks, with a fix for each.
//!
//! One broken part must not prevent the other checks: a check that cannot run is reported as a
//! finding of its own.

mod base_checks;
mod editor;
mod findings;
mod gateway;
mod hooks;
mod language_servers;
mod mcp_servers;
mod missing_tools;
mod sandbox;
mod secrets;
mod sessions;
mod stored_data;

use serde_json::{Value, json};

use self::findings::{DoctorFinding, FindingStatus};
use crate::AppContext;
use crate::cli::DoctorArgs;
use crate::exit::ExitOutcome;
use crate::terminal::{BAD, FAINT, GOOD, NOTABLE, TerminalStream, escape_line};

pub(super) fn run(app: &AppContext, args: &DoctorArgs) -> anyhow::Result<ExitOutcome> {
    let findings = base_checks::run_all(app);
    let is_well = is_well(&findings);
    let out = &app.terminal.out;
    if args.json {
        out.write_pretty_json(&to_json(&findings))?;
    } else {
        let streams = &app.config.streams;
        let signs = streams.stdout_is_terminal && streams.utf8;
        let marks = if signs { MarkStyle::Symbols } else { MarkStyle::Words };
        out.write(&render_report(out, marks, &findings))?;
    }
    Ok(if is_well { ExitOutcome::Ok } else { ExitOutcome::Error })
}

/// Runs all checks; the result is what `--json` prints.
pub(crate) fn examine(app: &AppContext) -> Value {
    to_json(&base_checks::run_all(app))
}

fn to_json(findings: &[DoctorFinding]) -> Value {
    json!({"ok": is_well(findings), "checks": findings})
}

fn is_well(findings: &[DoctorFinding]) -> bool {
    findings.iter().all(|finding| finding.status != FindingStatus::Wrong)
}

/// How the status at the start of a line is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MarkStyle {
    /// Symbols, for UTF-8 terminals.
    Symbols,
    /// Words, for pipes and other terminals.
    Words,
}

fn render_report(out: &TerminalStream, marks: MarkStyle, findings: &[DoctorFinding]) -> String {
    let mut text = String::new();
    for finding in findings {
        let (sign, word, style) = match finding.status {
            FindingStatus::Well => ("✓", "ok     ", GOOD),
            FindingStatus::Notable => ("!", "warning", NOTABLE),
            FindingStatus::Wrong => ("✗", "error  ", BAD),
        };
        let mark = if marks == MarkStyle::Symbols { sign } else { word };
        let name = format!("{:<8}", finding.check);
        let used = mark.chars().count() + name.len() + 2;
        let indent = " ".repeat(used);
        let wrap = |text: &str| -> Vec<String> {
            let text = format!("{indent}{}", escape_line(text));
            let rows = out.wrap_prose(&text, 0);
            rows.lines().map(|row| row.trim_start().to_owned()).collect()
        };
        let first = format!("{} {} ", out.paint(style, mark), out.paint(FAINT, &name));
        for (at, row) in wrap(&finding.message).iter().enumerate() {
            let before = if at == 0 { &first } else { &indent };
            text.push_str(&format!("{before}{row}\n"));
        }
        for row in finding.fix.as_deref().map(wrap).unwrap_or_default() {
            text.push_str(&format!("{indent}{}\n", out.paint(FAINT, &row)));
        }
    }
    let count = |status| findings.iter().filter(|finding| finding.status == status).count();
    let sum = match (count(FindingStatus::Wrong), count(FindingStatus::Notable)) {
        (0, 0) => out.paint(GOOD, "no problems found").into_owned(),
        (0, notable) => format!("no errors, {}", count_of(notable, "warning")),
        (wrong, notable) => {
            let wrong = count_of(wrong, "error");
            format!("{}, {}", out.paint(BAD, &wrong), count_of(notable, "warning"))
        }
    };
    text.push_str(&format!("\n{sum}\n"));
    text
}

fn count_of(count: usize, noun: &str) -> String {
    match count {
        1 => format!("1 {noun}"),
        _ => format!("{count} {noun}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::Terminal;

    #[test]
    fn report_is_wrapped_between_words() {
        let finding = DoctorFinding {
            status: FindingStatus::Wrong,
            check: "rules",
            message: "one two three four five six".to_owned(),
            fix: Some("seven eight nine ten eleven".to_owned()),
        };
        let out = Terminal::for_test().out.with_columns(30).without_colours();
        assert_eq!(
            render_report(&out, MarkStyle::Symbols, &[finding]),
            "✗ rules    one two three four\n           five six\n           seven eight nine\n           ten eleven\n\n1 error, 0 warnings\n"
        );
    }

    #[test]
    fn report_uses_symbols_on_terminal_and_words_elsewhere() {
        let finding = |status, fix: Option<&str>| DoctorFinding {
            status,
            check: "rules",
            message: "so".to_owned(),
            fix: fix.map(str::to_owned),
        };
        let findings =
            [finding(FindingStatus::Well, None), finding(FindingStatus::Wrong, Some("mend it"))];
        let terminal = Terminal::for_test();
        let sum = "\n1 error, 0 warnings\n";
        assert_eq!(
            render_report(&terminal.out, MarkStyle::Symbols, &findings),
            format!("✓ rules    so\n✗ rules    so\n           mend it\n{sum}")
        );
        assert_eq!(
            render_report(&terminal.out, MarkStyle::Words, &findings),
            format!("ok      rules    so\nerror   rules    so\n                 mend it\n{sum}")
        );
    }
}
