//! `zero policy test`: checks that the rules of a settings file match their examples.

use std::fmt::Write as _;

use serde_json::json;
use zero_settings::WorkspaceSettings;
use zero_settings::rule_examples;

use crate::AppContext;
use crate::cli::PolicyTestArgs;
use crate::exit::{ExitOutcome, UsageError};
use crate::terminal::{BAD, GOOD, escape_line};

pub(super) fn run(app: &AppContext, args: &PolicyTestArgs) -> anyhow::Result<ExitOutcome> {
    // Read the file without checking the examples, since each is checked and reported below.
    let file = app.config.cwd()?.join(&args.file);
    let settings = WorkspaceSettings::load_files_unchecked(&app.config.user_paths(), &[file])
        .map_err(UsageError::from)?;
    let (mut tried, mut broken) = (0usize, Vec::new());
    for entry in settings.rules() {
        let rule = &entry.rule;
        let (matches, not_match) = (&entry.examples.matches, &entry.examples.not_match);
        tried += matches.len() + not_match.len();
        for message in rule_examples::failed_examples(rule, matches, not_match) {
            broken.push((entry.source_file.clone(), entry.line, rule.text.clone(), message));
        }
    }
    let out = &app.terminal.out;
    if args.json {
        let broken: Vec<_> = broken
            .iter()
            .map(|(file, line, rule, message)| {
                json!({"file": file, "line": line, "rule": rule, "message": message})
            })
            .collect();
        out.write_json_line(&json!({"examples": tried, "broken": broken}))?;
    } else {
        let mut text = String::new();
        for (file, line, rule, message) in &broken {
            let mark = out.paint(BAD, "✗");
            let _ = writeln!(
                text,
                "{mark} {file}:{line}: `{}`: {}",
                escape_line(rule),
                escape_line(message)
            );
        }
        let _ = match (broken.len(), tried) {
            (0, 0) => writeln!(
                text,
                "no rule has examples; add them as {{\"rule\": …, \"match\": […], \"not_match\": […]}}"
            ),
            (0, tried) => writeln!(text, "{} {tried} examples match", out.paint(GOOD, "✓")),
            (count, tried) => writeln!(text, "{count} of {tried} examples do not match"),
        };
        out.write(&text)?;
    }
    Ok(if broken.is_empty() { ExitOutcome::Ok } else { ExitOutcome::Error })
}
