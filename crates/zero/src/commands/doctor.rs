//! `zero doctor`: what is wrong or risky here, each with a fix.
//!
//! Whoever asks has a problem, so nothing that is broken may keep the rest from being looked at: a
//! check that cannot be made is a line of its own.

mod checks;
mod findings;

use serde_json::json;

use self::findings::{Finding, Status};
use crate::App;
use crate::cli::DoctorArgs;
use crate::exit::Exit;
use crate::terminal::{BAD, FAINT, GOOD, NOTABLE, Stream, escape_line};

pub(super) fn run(app: &App, args: &DoctorArgs) -> anyhow::Result<Exit> {
    let findings = checks::all(app);
    let is_well = findings.iter().all(|finding| finding.status != Status::Wrong);
    let out = &app.terminal.out;
    if args.json {
        out.write_pretty(&json!({"ok": is_well, "checks": findings}))?;
    } else {
        out.write(&report(out, &findings))?;
    }
    Ok(if is_well { Exit::Ok } else { Exit::Error })
}

fn report(out: &Stream, findings: &[Finding]) -> String {
    let mut text = String::new();
    for finding in findings {
        let (mark, style) = match finding.status {
            Status::Well => ("✓", GOOD),
            Status::Notable => ("!", NOTABLE),
            Status::Wrong => ("✗", BAD),
        };
        let name = format!("{:<8}", finding.check);
        text.push_str(&format!(
            "{} {} {}\n",
            out.paint(style, mark),
            out.paint(FAINT, &name),
            escape_line(&finding.message)
        ));
        if let Some(fix) = &finding.fix {
            text.push_str(&format!("           {}\n", out.paint(FAINT, &escape_line(fix))));
        }
    }
    let count = |status| findings.iter().filter(|finding| finding.status == status).count();
    let sum = match (count(Status::Wrong), count(Status::Notable)) {
        (0, 0) => out.paint(GOOD, "all is well").into_owned(),
        (0, notable) => format!("nothing is wrong; {notable} worth a look"),
        (wrong, notable) => {
            let wrong = format!("{wrong} wrong");
            format!("{}, {notable} worth a look", out.paint(BAD, &wrong))
        }
    };
    text.push_str(&format!("\n{sum}\n"));
    text
}
