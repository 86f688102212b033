//! `zero tools show`: everything about one tool.

mod examples;

use std::fmt::Write as _;

use serde_json::{Map, Value};
use zero_core::{Kind, Limits, Risk};
use zero_runtime::DialectName;
use zero_runtime::dialect::Offered;
use zero_runtime::nearest::nearest;

use super::tools_list::formats;
use crate::App;
use crate::approval::risk_style;
use crate::cli::ShowArgs;
use crate::exit::{Exit, UsageError};
use crate::terminal::{Cell, FAINT, STRONG, Stream, Table, escape_line};

pub(super) fn run(app: &App, args: &ShowArgs) -> anyhow::Result<Exit> {
    let offered = app.offered(args.dialect, Some(&args.name))?;
    let Some(tool) = offered.iter().find(|tool| tool.name == args.name) else {
        return Err(unknown(args, &offered).into());
    };
    let out = &app.terminal.out;
    if args.json {
        out.write_pretty(&formats::full(tool))?;
    } else {
        out.write(&page(out, args.dialect, tool))?;
    }
    Ok(Exit::Ok)
}

fn unknown(args: &ShowArgs, offered: &[Offered]) -> UsageError {
    let names: Vec<&str> = offered.iter().map(|tool| tool.name.as_str()).collect();
    let near = nearest(&args.name, names.iter().copied(), 3);
    let hint = match (&near[..], &names[..]) {
        ([], []) => "this build has none".to_owned(),
        ([], names) => format!("known are {}", names.join(", ")),
        (near, _) => format!("did you mean {}?", near.join(", ")),
    };
    let name = escape_line(&args.name);
    UsageError(format!("there is no tool `{name}` in dialect `{}`; {hint}", args.dialect))
}

fn page(out: &Stream, dialect: DialectName, tool: &Offered) -> String {
    let spec = tool.registered.tool.spec();
    let mut text = format!("{} - {}\n\n", out.paint(STRONG, &tool.name), spec.display_name);
    let _ = writeln!(text, "{}\n", out.foreign(tool.description.trim()));
    let _ = writeln!(text, "{}", out.paint(STRONG, "Parameters"));
    text.push_str(&parameters(&tool.input_schema).render(out));
    let _ = writeln!(text, "\n{}", out.paint(STRONG, "Facts"));
    let mut fact = |name: &str, value: &str| {
        let name = format!("{name:<10}");
        let _ = writeln!(text, "{} {value}", out.paint(FAINT, &name));
    };
    if tool.name != spec.name.as_str() {
        fact("canonical", spec.name.as_str());
    }
    fact("category", spec.category.word());
    fact("effects", effects(spec.kind));
    let risk = out.paint(risk_style(spec.risk), spec.risk.word()).into_owned();
    fact("risk", &format!("{risk}: {}", consequence(spec.risk)));
    fact("timeout", &format!("{} s", Limits::default().timeout(spec.timeout_class).as_secs()));
    fact("repeatable", if spec.idempotent { "yes, twice is the same as once" } else { "no" });
    fact("source", &tool.registered.source);
    let claims = tool.registered.tool.claims();
    if !claims.is_empty() {
        let claims = escape_line(&claims.join(", ")).into_owned();
        fact("claims", &format!("{claims}; whoever brings it says so, and nothing relies on it"));
    }
    if let Some(example) = example(dialect, tool) {
        let heading = out.paint(STRONG, "Example");
        let notes = format!("with a notes.txt that says `{}`", examples::NOTES);
        let _ = writeln!(text, "\n{heading} {}\n{example}", out.paint(FAINT, &notes));
    }
    text
}

/// What a tool of this kind does to the world; each call says exactly what before it runs.
fn effects(kind: Kind) -> &'static str {
    match kind {
        Kind::Read => "reads files or folders",
        Kind::Edit => "changes files; `zero undo` takes a change back",
        Kind::Delete => "removes files; `zero undo` brings them back",
        Kind::Move => "moves files",
        Kind::Search => "reads everything beneath a folder",
        Kind::Execute => "runs commands",
        Kind::Think => "changes only what zero keeps itself",
        Kind::Fetch => "talks to other machines",
        Kind::Other => "see its description",
    }
}

fn consequence(risk: Risk) -> &'static str {
    match risk {
        Risk::Low => "allowed inside the workspace, asked about outside",
        Risk::Medium | Risk::High => "asked about first",
        Risk::Critical => "asked about every time",
    }
}

fn parameters(schema: &Value) -> Table {
    let mut table = Table::new(["NAME", "TYPE", "REQUIRED", "DESCRIPTION"]);
    add_fields(&mut table, schema, 0);
    table
}

/// Adds the fields of an object; those of objects within it stand under them, indented.
fn add_fields(table: &mut Table, schema: &Value, depth: usize) {
    /// Levels shown; a schema may hold itself.
    const DEPTH_MAX: usize = 4;
    for (name, field) in fields(schema).into_iter().flatten() {
        let description = field.get("description").and_then(Value::as_str).unwrap_or_default();
        table.row([
            Cell::from(format!("{}{name}", "  ".repeat(depth))),
            type_of(field).into(),
            if is_required(schema, name) { "yes" } else { "no" }.into(),
            Cell::from(description.split_whitespace().collect::<Vec<_>>().join(" ")),
        ]);
        if depth < DEPTH_MAX {
            add_fields(table, field.get("items").unwrap_or(field), depth + 1);
        }
    }
}

fn fields(schema: &Value) -> Option<&Map<String, Value>> {
    schema.get("properties")?.as_object()
}

fn is_required(schema: &Value, name: &str) -> bool {
    schema
        .get("required")
        .and_then(Value::as_array)
        .is_some_and(|names| names.iter().any(|n| n == name))
}

/// The type of a field in few words: `integer`, `string[]`, `a | b`.
fn type_of(field: &Value) -> String {
    if let Some(choices) = choices(field) {
        return choices.join(" | ");
    }
    match field.get("type").and_then(Value::as_str) {
        Some("array") => {
            format!("{}[]", field.get("items").map_or_else(|| "any".to_owned(), type_of))
        }
        Some(name) => name.to_owned(),
        None => "any".to_owned(),
    }
}

/// The texts a field can be, when they are listed.
fn choices(field: &Value) -> Option<Vec<&str>> {
    if let Some(values) = field.get("enum").and_then(Value::as_array) {
        return values.iter().map(Value::as_str).collect();
    }
    let variants = field.get("oneOf").or_else(|| field.get("anyOf"))?.as_array()?;
    variants.iter().map(|variant| variant.get("const").and_then(Value::as_str)).collect()
}

/// A call that can be tried as it stands. Nothing in it says yes: what changes a file is asked about.
fn example(dialect: DialectName, tool: &Offered) -> Option<String> {
    let input = examples::input(dialect, &tool.name)?;
    let mut line = format!("zero tools call {} '{input}'", tool.name);
    if dialect != DialectName::Canonical {
        let _ = write!(line, " --dialect {dialect}");
    }
    Some(line)
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use serde_json::json;

    use std::sync::LazyLock;

    use super::*;
    use zero_core::Category;
    use zero_runtime::Dialect;

    use crate::cli::Cli;
    use crate::config::Config;
    use crate::terminal::Terminal;

    #[test]
    fn types_are_said_in_few_words() {
        for (field, expected) in [
            (json!({"type": "integer"}), "integer"),
            (json!({"type": "array", "items": {"type": "string"}}), "string[]"),
            (json!({"type": "string", "enum": ["a", "b"]}), "a | b"),
            (json!({"oneOf": [{"const": "a", "description": "x"}, {"const": "b"}]}), "a | b"),
            (json!({}), "any"),
        ] {
            assert_eq!(type_of(&field), expected);
        }
    }

    /// What `zero` says to a command line, with the real tools, in a folder with a `notes.txt`.
    #[expect(clippy::disallowed_methods, reason = "the test puts its files there")]
    fn run(words: &[String]) -> (Exit, String) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("notes.txt"), format!("{}\n", examples::NOTES)).unwrap();
        let config = Config::for_test(folder.path());
        let app = App {
            config,
            terminal: Terminal::for_test(),
            tools: std::sync::Arc::new(LazyLock::new(zero_tools::builtin)),
        };
        let cli = Cli::try_parse_from(words).unwrap();
        let exit = crate::commands::run(&app, cli).unwrap();
        (exit, app.terminal.out.written() + &app.terminal.err.written())
    }

    #[test]
    fn every_example_works_as_it_is_shown() {
        let folder = tempfile::tempdir().unwrap();
        let config = Config::for_test(folder.path());
        let app = App {
            config,
            terminal: Terminal::for_test(),
            tools: std::sync::Arc::new(LazyLock::new(zero_tools::builtin)),
        };
        for dialect in DialectName::ALL {
            for tool in app.offered(dialect, None).unwrap() {
                let line = example(dialect, &tool).unwrap_or_else(|| panic!("no {}", tool.name));
                assert!(page(&app.terminal.out, dialect, &tool).ends_with(&format!("{line}\n")));
                let (before, rest) = line.split_once(" '").unwrap();
                let (input, after) = rest.split_once('\'').unwrap();
                // Nothing is reached from here: that it is a call is all that can be tried.
                if tool.registered.tool.spec().category == Category::Network {
                    let input = serde_json::from_str(input).unwrap();
                    let canonical =
                        Dialect::new(dialect).to_canonical(&tool.name, &tool.registered, input);
                    assert!(canonical.is_ok(), "{line}: {canonical:?}");
                    continue;
                }
                let words = before.split(' ').chain([input]).chain(after.split_whitespace());
                let words: Vec<String> = words.chain(["--yes"]).map(str::to_owned).collect();
                let (exit, said) = run(&words);
                // A single call has no jobs: these examples can only say so.
                if said.contains("no jobs") {
                    assert!(tool.name.starts_with("Bash"), "{line}\n{said}");
                    continue;
                }
                // No language server reads a shopping list.
                if said.contains("no language server is known for `notes.txt`") {
                    assert!(tool.name.to_ascii_lowercase().starts_with("lsp"), "{line}\n{said}");
                    continue;
                }
                // Nobody sits at this terminal.
                if said.contains("nobody is here who could be asked") {
                    assert!(tool.name.to_ascii_lowercase().contains("question"), "{line}\n{said}");
                    continue;
                }
                assert_eq!(exit, Exit::Ok, "{line}\n{said}");
                let found = said.contains("milk") || said.contains("notes.txt");
                assert!(found || tool.registered.tool.spec().risk > Risk::Low, "{line}\n{said}");
            }
        }
    }

    #[test]
    fn fields_within_fields_are_shown_under_them() {
        let words = ["zero", "tools", "show", "edit_file", "--dialect", "acp"];
        let (_, page) = run(&words.map(str::to_owned));
        for row in ["edits      object[]", "  type     replace | insert  yes", "  oldText  string"]
        {
            assert!(page.contains(row), "{row:?} is not in {page}");
        }
    }
}
