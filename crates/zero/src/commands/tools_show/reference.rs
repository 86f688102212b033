//! `docs/reference/tools.md`, made from the tools: what they say of themselves, and what their
//! examples really answer.
//!
//! The page is made anew by a test and held against the one in the repository, so it can never say
//! what the code does not do. `cargo xtask reference` writes it.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use zero_core::{CallId, CommandLimit, Limits};
use zero_runtime::{DialectName, Registry};
use zero_tools::examples;

use super::facts::{self, Facts, Field};
use crate::App;
use crate::commands::tools_call::output::human;
use crate::config::Config;
use crate::terminal::Terminal;
use crate::trial::{Named, Trial};

/// Set where the page is to be written instead of compared.
const UPDATE: &str = "ZERO_UPDATE_REFERENCE";

const HEAD: &str = "\
# Tool reference

<!-- Made from the code by `cargo xtask reference`; a test fails where it is not as the code is. -->

Every tool of this build: its names, parameters, results, bounds, and a call with what it really answers. `zero tools
show NAME` prints the same for one tool, under any of its names. [The tools](../tools.md) says how they behave,
[Dialects](../dialects.md) how results are written elsewhere.
";

#[tokio::test]
async fn the_reference_is_as_the_code_is() {
    let found = page().await;
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/tools.md");
    compare(&path, &found);
}

#[track_caller]
#[expect(clippy::disallowed_methods, reason = "a page of the repository, and who wants it anew")]
fn compare(path: &PathBuf, found: &str) {
    if std::env::var_os(UPDATE).is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        return std::fs::write(path, found).unwrap();
    }
    let kept = std::fs::read_to_string(path).unwrap_or_default();
    let differs =
        kept.lines().zip(found.lines()).enumerate().find(|(_, (kept, found))| kept != found);
    let differs = differs.map(|(at, (kept, found))| {
        format!("line {} is\n  {kept}\nand should be\n  {found}", at + 1)
    });
    assert!(
        kept == found,
        "docs/reference/tools.md is not as the code is; `cargo xtask reference` writes it anew\n{}",
        differs.unwrap_or_else(|| "it ends elsewhere".to_owned())
    );
}

async fn page() -> String {
    let home = tempfile::tempdir().unwrap();
    let config = Config::from_env().with_home(Some(home.path().to_owned()), true);
    let app = App {
        config,
        terminal: Terminal::for_test(),
        tools: Arc::new(LazyLock::new(zero_tools::builtin)),
    };
    let registry = Registry::default();
    registry.add(zero_runtime::dialect::BUILTIN, app.tools.to_vec()).unwrap();
    let mut page = HEAD.to_owned();
    let offered = app.in_dialect(&registry, DialectName::Canonical);
    let links =
        offered.iter().map(|tool| format!("[{0}](#{1})", tool.name, tool.name.to_lowercase()));
    let _ = writeln!(page, "\n{}", links.collect::<Vec<_>>().join(" · "));
    page.push_str(&bounds());
    page.push_str(&folder());
    for tool in &offered {
        let facts = Facts::of(&app, &registry, DialectName::Canonical, tool);
        page.push_str(&section(&app, &registry, &facts));
        page.push_str(&example(&app, &facts).await);
    }
    page
}

/// The bounds of all tools.
fn bounds() -> String {
    let limits = Limits::default();
    let mut text = String::from(
        "\n## Bounds\n\nThose of all tools. `--limit NAME=VALUE` and [settings](../settings.md) change those that have a name; a tool's own\nstand with it.\n\n| bound | name | usual |\n|---|---|---|\n",
    );
    let seconds = |time: std::time::Duration| format!("{} s", time.as_secs());
    let mut row = |what: &str, name: &str, usual: String| {
        let _ = writeln!(text, "| {what} | {name} | {usual} |");
    };
    row("work on a file or folder", "`file-timeout`", seconds(limits.file_timeout));
    row("a search", "`search-timeout`", seconds(limits.search_timeout));
    row("a command", "", seconds(limits.command_timeout));
    row("an input", "", limits.input_bytes_max.to_string());
    row(
        "text for the model; the rest goes to a file",
        "`model-output`",
        limits.model_output_bytes_max.to_string(),
    );
    row("a result in all", "`result`", limits.result_bytes_max.to_string());
    row("a file that is read whole or changed", "`file-size`", limits.file_bytes_max.to_string());
    row("calls at once in a session", "`session-calls`", limits.session_calls_max.to_string());
    row("calls at once in all", "`host-calls`", limits.host_calls_max.to_string());
    row("calls that wait", "`queue-calls`", limits.queue_calls_max.to_string());
    for limit in CommandLimit::ALL {
        let usual = limit.shown(limits.command.get(limit));
        row("of a command", &format!("`{}`", limit.name()), usual);
    }
    text
}

/// What the examples work on.
fn folder() -> String {
    let mut text = String::from(
        "\n## The examples\n\nThey were run as they stand, in a folder with these files; where a call is asked about, the answer was yes.\n\n```sh\n",
    );
    for (file, _) in examples::FILES {
        let _ = writeln!(text, "{}", facts::written(file).unwrap());
    }
    let port = examples::WEB.rsplit(':').next().unwrap();
    let _ = writeln!(
        text,
        "```\n\nThose about the web reach a web server in that folder (`python3 -m http.server {port} --bind 127.0.0.1`), which\n`local.json` opens and names as a search engine. Numbers of calls are all zeros here."
    );
    text
}

fn section(app: &App, registry: &Registry, facts: &Facts<'_>) -> String {
    let tool = facts.tool;
    let spec = tool.registered.tool.spec();
    let mut text = format!("\n## {}\n\n{}\n\n", tool.name, in_prose(&tool.description));
    let _ = writeln!(text, "| | |\n|---|---|");
    let limits = facts.limits().into_iter().map(|(name, value)| format!("`{name}` {value}"));
    for (name, value) in [
        ("for people", spec.display_name.clone()),
        ("category", spec.category.word().to_owned()),
        ("effects", facts.effects().to_owned()),
        ("risk", format!("{}: {}", spec.risk.word(), facts.consequence())),
        ("deadline", facts.deadline()),
        ("limits", limits.collect::<Vec<_>>().join(", ")),
        ("repeatable", facts.repeatable().to_owned()),
    ] {
        let _ = writeln!(text, "| {name} | {value} |");
    }
    let parameters = facts::fields(&tool.input_schema);
    text.push_str(&fields("parameter", &parameters, "required"));
    text.push_str(&fields("result", &facts::fields(&spec.output_schema), "always"));
    text.push_str(&names(app, registry, facts));
    text
}

/// Sentences of a description as one paragraph each.
fn in_prose(description: &str) -> String {
    let paragraphs = description.trim().split("\n\n");
    let joined = paragraphs.map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "));
    joined.collect::<Vec<_>>().join("\n\n")
}

fn fields(heading: &str, fields: &[Field], required: &str) -> String {
    if fields.is_empty() {
        return String::new();
    }
    let mut text = format!("\n| {heading} | type | | |\n|---|---|---|---|\n");
    for field in fields {
        let within = "· ".repeat(field.depth);
        let _ = writeln!(
            text,
            "| {within}`{}` | {} | {} | {} |",
            field.name,
            in_cell(&field.type_name),
            if field.required { required } else { "" },
            in_cell(&field.description)
        );
    }
    text
}

/// A `|` would end the cell.
fn in_cell(text: &str) -> String {
    text.replace('|', "\\|")
}

/// What the tool is called in the other dialects, with the fields it has there.
fn names(app: &App, registry: &Registry, facts: &Facts<'_>) -> String {
    let canonical = facts.tool.registered.tool.spec().name.clone();
    let mut text =
        String::from("\n| dialect | name | fields | the example there |\n|---|---|---|---|\n");
    for dialect in DialectName::ALL {
        let offered = app.in_dialect(registry, dialect);
        let its = offered.iter().filter(|tool| tool.registered.tool.spec().name == canonical);
        let mut any = false;
        for tool in its {
            any = true;
            let its = facts::fields(&tool.input_schema);
            let top = its.iter().filter(|field| field.depth == 0);
            let names = top.map(|field| match field.required {
                true => format!("**`{}`**", field.name),
                false => format!("`{}`", field.name),
            });
            let names = names.collect::<Vec<_>>().join(", ");
            let input =
                examples::of(canonical.as_str()).unwrap().input(dialect, &tool.name).unwrap();
            let _ =
                writeln!(text, "| {dialect} | `{}` | {names} | `{}` |", tool.name, in_cell(input));
        }
        if !any {
            let kept = facts.names.iter().any(|(of, _)| *of == dialect);
            let name = if kept { format!("`{canonical}`, not listed") } else { "–".to_owned() };
            let _ = writeln!(text, "| {dialect} | {name} | | |");
        }
    }
    text
}

async fn example(app: &App, facts: &Facts<'_>) -> String {
    let tool = facts.tool.name.as_str();
    let trial = Trial::new(app, examples::FILES, Trial::pages_of_examples()).await.unwrap();
    let (example, shown) = (examples::of(tool).unwrap(), facts.example().unwrap());
    let input = trial.input(shown.input).unwrap();
    let outcome = trial.example(example, Named::canonical(tool), input, CallId::from_bits(0)).await;
    let outcome = outcome.unwrap_or_else(|error| {
        panic!("{tool}: {error}; `cargo xtask test` installs what the examples need")
    });
    let said = trial.as_written(&human(&app.terminal.out, &outcome));
    let mut text = String::from("\n```sh\n");
    for line in &shown.needs {
        let _ = writeln!(text, "# {line}");
    }
    let _ = writeln!(text, "{}\n```\n\n```text\n{}\n```", shown.command, said.trim_end());
    text
}
