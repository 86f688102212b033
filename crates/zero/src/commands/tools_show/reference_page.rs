//! Generates `docs/reference/tools.md` from the tools and the recorded outputs of their examples. The
//! outputs for all names are also stored for `zero tools show`.
//!
//! A test generates the page and compares it with the one in the repository, so the page cannot get
//! out of date. `cargo xtask reference` writes it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::{Arc, LazyLock};

use zero_core::{CallId, CommandLimit, HostLimits};
use zero_runtime::{DialectName, ToolRegistry};
use zero_tools::examples;

use super::tool_facts::{self, DialectVariant, ToolFacts, ToolSchemaField};
use crate::AppContext;
use crate::commands::tools_call::output::render_outcome;
use crate::environment::EnvironmentConfig;
use crate::terminal::Terminal;
use crate::trial_host::{DialectCall, TrialHost};

/// Environment variable that makes the test write the page instead of comparing it.
const UPDATE_VARIABLE: &str = "ZERO_UPDATE_REFERENCE";

const PAGE_HEAD: &str = "\
# Tool reference

<!-- Generated from the code by `cargo xtask reference`; a test fails if the page is out of date. -->

This page lists every tool of this build with its names, parameters, results, limits, and an example with its output.
`zero tools show NAME` prints the same for one tool, under any of its names. [Built-in tools](built-in-tools.md) explains
how the tools behave, [Dialects](../concepts/dialects.md) how their results differ between dialects.
";

#[tokio::test]
async fn reference_page_matches_code() {
    let home = tempfile::tempdir().unwrap();
    let config = EnvironmentConfig::from_env().with_home(Some(home.path().to_owned()), true);
    let app = AppContext {
        config,
        terminal: Terminal::for_test(),
        tools: Arc::new(LazyLock::new(zero_tools::builtin_tools)),
        notifiers: Arc::default(),
        console: Arc::default(),
        gateway_locality: Arc::default(),
    };
    let registry = ToolRegistry::default();
    registry.add(zero_runtime::dialect::BUILTIN, app.tools.to_vec()).unwrap();
    let answers = record_answers(&app, &registry).await;
    let kept = serde_json::to_string_pretty(&answers).unwrap() + "\n";
    compare_or_write("crates/zero/src/commands/tools_show/recorded_answers.json", &kept);
    compare_or_write("docs/reference/tools.md", &render_page(&app, &registry, &answers));
}

#[track_caller]
#[expect(clippy::disallowed_methods, reason = "reads and writes a page of the repository")]
fn compare_or_write(name: &str, found: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name);
    if std::env::var_os(UPDATE_VARIABLE).is_some() {
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
        "{name} is out of date; run `cargo xtask reference` to update it\n{}",
        differs.unwrap_or_else(|| "the lengths differ".to_owned())
    );
}

/// Outputs of the examples under all names, by [`tool_facts::answer_key`].
async fn record_answers(app: &AppContext, registry: &ToolRegistry) -> BTreeMap<String, String> {
    let mut answers = BTreeMap::new();
    for dialect in DialectName::ALL {
        for tool in app.tools_in_dialect(registry, dialect) {
            let facts = ToolFacts::new(app, registry, dialect, &tool);
            answers.insert(
                tool_facts::answer_key(dialect, &tool.name),
                record_answer(app, &facts).await,
            );
        }
    }
    answers
}

fn render_page(
    app: &AppContext,
    registry: &ToolRegistry,
    answers: &BTreeMap<String, String>,
) -> String {
    let mut page = PAGE_HEAD.to_owned();
    let offered = app.tools_in_dialect(registry, DialectName::Canonical);
    let links =
        offered.iter().map(|tool| format!("[{0}](#{1})", tool.name, tool.name.to_lowercase()));
    let _ = writeln!(page, "\n{}", links.collect::<Vec<_>>().join(" · "));
    page.push_str(&render_bounds());
    page.push_str(&docs_folder());
    for tool in &offered {
        let facts = ToolFacts::new(app, registry, DialectName::Canonical, tool);
        page.push_str(&render_section(&facts));
        page.push_str(&render_example(
            &facts,
            &answers[&tool_facts::answer_key(facts.dialect, &tool.name)],
        ));
    }
    page
}

/// Limits of all tools.
fn render_bounds() -> String {
    let limits = HostLimits::default();
    let mut text = String::from(
        "\n## Limits\n\nThese limits apply to all tools. `--limit NAME=VALUE` and [settings](settings.md) change those that have a name. The\nsection of a tool lists its own limits.\n\n| limit | name | default |\n|---|---|---|\n",
    );
    let seconds = |time: std::time::Duration| format!("{} s", time.as_secs());
    let mut row = |what: &str, name: &str, usual: String| {
        let _ = writeln!(text, "| {what} | {name} | {usual} |");
    };
    row("time for work on a file or folder", "`file-timeout`", seconds(limits.file_timeout));
    row("time for a search", "`search-timeout`", seconds(limits.search_timeout));
    row("time for a command", "`command-timeout`", seconds(limits.command_timeout));
    row(
        "time for a command under a name of opencode",
        "`command-timeout`",
        seconds(limits.development_timeout),
    );
    row("time for an MCP call without progress", "`mcp-timeout`", seconds(limits.mcp_timeout));
    let answer = seconds(limits.connection_question_timeout);
    row("time to answer about a connection that waits", "`connection-question-timeout`", answer);
    row("size of an input", "", limits.input_bytes_max.to_string());
    row(
        "size of the text for the model; the rest goes to a file",
        "`model-output`",
        limits.model_output_bytes_max.to_string(),
    );
    row("size of a complete result", "`result`", limits.result_bytes_max.to_string());
    row("size of a file that is read or changed", "`file-size`", limits.file_bytes_max.to_string());
    row("concurrent calls per session", "`session-calls`", limits.session_calls_max.to_string());
    row("concurrent calls in total", "`host-calls`", limits.host_calls_max.to_string());
    row("queued calls", "`queue-calls`", limits.queue_calls_max.to_string());
    for limit in CommandLimit::ALL {
        let usual = tool_facts::describe_command_limit(limit);
        row("per command", &format!("`{}`", limit.name()), usual);
    }
    text
}

/// Describes the folder of the examples.
fn docs_folder() -> String {
    let mut text = String::from(
        "\n## Examples\n\nThe examples were run as shown, in a folder with these files. All approval prompts were answered with yes.\n\n```sh\n",
    );
    for (file, _) in examples::FILES {
        let _ = writeln!(text, "{}", tool_facts::creation_command(file).unwrap());
    }
    let port = examples::WEB_URL.rsplit(':').next().unwrap();
    let _ = writeln!(
        text,
        "```\n\nThe web examples use a web server in that folder (`python3 -m http.server {port} --bind 127.0.0.1`). `local.json` allows\nit and configures it as a search engine. Call IDs are all zeros."
    );
    text
}

fn render_section(facts: &ToolFacts<'_>) -> String {
    let tool = facts.tool;
    let spec = tool.registered.tool.spec();
    let mut text = format!("\n## {}\n\n{}\n\n", tool.name, format_prose(&tool.description));
    let _ = writeln!(text, "| | |\n|---|---|");
    let limits = facts.limits().into_iter().map(|(name, value)| format!("`{name}` {value}"));
    for (name, value) in [
        ("display name", spec.display_name.clone()),
        ("category", spec.category.as_str().to_owned()),
        ("effects", facts.describe_effects().to_owned()),
        ("risk", format!("{}: {}", spec.risk.as_str(), facts.describe_approval())),
        ("timeout", facts.describe_deadline()),
        ("limits", limits.collect::<Vec<_>>().join(", ")),
        ("repeatable", facts.describe_repeatability().to_owned()),
    ] {
        let _ = writeln!(text, "| {name} | {value} |");
    }
    let parameters = tool_facts::collect_fields(&tool.input_schema);
    text.push_str(&render_fields("parameter", &parameters, "required"));
    text.push_str(&render_fields(
        "result",
        &tool_facts::collect_fields(&spec.output_schema),
        "always",
    ));
    text.push_str(&render_own_bounds(facts));
    text.push_str(&render_names(facts));
    text
}

/// Joins the lines of each paragraph of a description.
fn format_prose(description: &str) -> String {
    let paragraphs = description.trim().split("\n\n");
    let joined = paragraphs.map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "));
    joined.collect::<Vec<_>>().join("\n\n")
}

fn render_fields(heading: &str, fields: &[ToolSchemaField], required: &str) -> String {
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
            escape_cell(&field.type_name),
            if field.required { required } else { "" },
            escape_cell(&field.description)
        );
    }
    text
}

/// Escapes `|`, which would end the cell.
fn escape_cell(text: &str) -> String {
    text.replace('|', "\\|")
}

/// Names, fields and examples of the tool in all dialects.
fn render_names(facts: &ToolFacts<'_>) -> String {
    let mut text = String::from("\n| dialect | name | fields | example |\n|---|---|---|---|\n");
    for dialect in DialectName::ALL {
        let its: Vec<&DialectVariant> =
            facts.names.iter().filter(|its| its.dialect == dialect).collect();
        for DialectVariant { name, fields, input, .. } in its.iter().filter(|its| its.is_listed) {
            let fields = fields.iter().map(|(name, required)| match required {
                true => format!("**`{name}`**"),
                false => format!("`{name}`"),
            });
            let fields = fields.collect::<Vec<_>>().join(", ");
            let input = escape_cell(input.unwrap());
            let _ = writeln!(text, "| {dialect} | `{name}` | {fields} | `{input}` |");
        }
        if !its.iter().any(|its| its.is_listed) {
            let kept = its.first().map(|its| format!("`{}`, not listed", its.name));
            let _ = writeln!(text, "| {dialect} | {} | | |", kept.unwrap_or("–".to_owned()));
        }
    }
    text
}

/// Limits of the tool itself.
fn render_own_bounds(facts: &ToolFacts<'_>) -> String {
    if facts.bounds().is_empty() {
        return String::new();
    }
    let mut text = String::from("\n| limit of this tool | at most |\n|---|---|\n");
    for bound in facts.bounds() {
        let _ = writeln!(text, "| {} | {} |", escape_cell(bound.what), bound.most);
    }
    text
}

fn render_example(facts: &ToolFacts<'_>, answer: &str) -> String {
    let shown = facts.example().unwrap();
    let mut text = String::from("\n```sh\n");
    for line in &shown.needs {
        let _ = writeln!(text, "# {line}");
    }
    let _ = writeln!(text, "{}\n```\n\n```text\n{answer}\n```", shown.command);
    text
}

/// Runs the example of a tool and returns its output.
async fn record_answer(app: &AppContext, facts: &ToolFacts<'_>) -> String {
    let (dialect, name) = (facts.dialect, facts.tool.name.as_str());
    let trial = TrialHost::new(app, examples::FILES, TrialHost::example_pages()).await.unwrap();
    let example = examples::find_example(facts.tool.registered.tool.spec().name.as_str()).unwrap();
    let input = trial.prepare_input(facts.example().unwrap().input).unwrap();
    let outcome = trial
        .run_example(example, DialectCall { dialect, name }, input, CallId::from_bits(0))
        .await;
    let outcome = outcome.unwrap_or_else(|error| {
        panic!("{dialect} {name}: {error}; `cargo xtask test` installs what the examples need")
    });
    trial
        .normalize_output(&render_outcome(&app.terminal.out, (dialect, name), &outcome.result))
        .trim_end()
        .to_owned()
}
