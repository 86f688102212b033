//! `zero tools show`: everything about one tool.

use std::fmt::Write as _;

use serde_json::{Map, Value};
use zero_core::{Kind, Limits, Risk, ToolSpec};
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
    let offered = app.offered(args.dialect)?;
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
    let _ = writeln!(text, "\n{}\n{}", out.paint(STRONG, "Example"), example(dialect, tool, spec));
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
    for (name, field) in fields(schema).into_iter().flatten() {
        let description = field.get("description").and_then(Value::as_str).unwrap_or_default();
        table.row([
            name.into(),
            type_of(field).into(),
            if is_required(schema, name) { "yes" } else { "no" }.into(),
            Cell::from(description.split_whitespace().collect::<Vec<_>>().join(" ")),
        ]);
    }
    table
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

/// A call line that can be tried at once, after filling in what only the person knows.
fn example(dialect: DialectName, tool: &Offered, spec: &ToolSpec) -> String {
    let fields = fields(&tool.input_schema).into_iter().flatten();
    let required = fields.filter(|(name, _)| is_required(&tool.input_schema, name));
    let input: Map<String, Value> =
        required.map(|(name, field)| (name.clone(), sample(name, field))).collect();
    // `'` ends a quotation of the shell, so it is written between two of them.
    let input = Value::Object(input).to_string().replace('\'', r"'\''");
    let mut line = format!("zero tools call {} '{input}'", tool.name);
    if dialect != DialectName::Canonical {
        let _ = write!(line, " --dialect {dialect}");
    }
    if spec.risk > Risk::Low {
        line.push_str(" --yes");
    }
    line
}

/// A value that a field could have.
fn sample(name: &str, field: &Value) -> Value {
    if let Some([first, ..]) = choices(field).as_deref() {
        return (*first).into();
    }
    match field.get("type").and_then(Value::as_str) {
        Some("boolean") => true.into(),
        Some("integer" | "number") => 1.into(),
        Some("array") => {
            Value::Array(field.get("items").map(|item| sample(name, item)).into_iter().collect())
        }
        Some("object") => {
            let inner =
                fields(field).into_iter().flatten().filter(|(name, _)| is_required(field, name));
            Value::Object(inner.map(|(name, field)| (name.clone(), sample(name, field))).collect())
        }
        _ if name.to_lowercase().contains("path") => "README.md".into(),
        _ if name == "pattern" => "TODO".into(),
        _ => "text".into(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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
}
