//! `zero tools show`: describes one tool, with an example call.

#[cfg(test)]
#[cfg(all(feature = "lsp", feature = "web"))]
mod reference_page;
mod tool_facts;

use std::fmt::Write as _;

use serde_json::json;
use zero_runtime::name_suggestions::suggest_names;
use zero_runtime::{Dialect, DialectName};

use self::tool_facts::ToolFacts;
use super::tools_list::formats;
use crate::AppContext;
use crate::approval::risk_style;
use crate::cli::ToolsShowArgs;
use crate::exit::{ExitOutcome, UsageError};
use crate::terminal::{FAINT, STRONG, TableCell, TerminalStream, TextTable, escape_line};

pub(super) fn run(app: &AppContext, args: &ToolsShowArgs) -> anyhow::Result<ExitOutcome> {
    let registry = app.registry(Some(&args.name))?;
    let looked_at: &[DialectName] = match &args.dialect {
        Some(dialect) => std::slice::from_ref(dialect),
        None => &DialectName::ALL,
    };
    let offered = looked_at
        .iter()
        .map(|dialect| (*dialect, app.tools_in_dialect(&registry, *dialect)))
        .collect::<Vec<_>>();
    let mut found = offered.iter().filter_map(|(dialect, tools)| {
        Some((*dialect, tools.iter().find(|tool| tool.name == args.name)?))
    });
    let Some((dialect, tool)) = found.next() else {
        let names = offered.iter().flat_map(|(_, tools)| tools).map(|tool| tool.name.as_str());
        let missing = |dialect| Dialect::new(dialect).missing_advice(&registry, &args.name);
        let missing = looked_at.iter().copied().find_map(missing);
        return Err(unknown_tool_error(args, names.collect(), missing).into());
    };
    // External tools have the same name in every dialect.
    let also = found.filter(|_| dialect != DialectName::Canonical).map(|(dialect, _)| dialect);
    let also: Vec<DialectName> = also.collect();
    let facts = ToolFacts::new(app, &registry, dialect, tool);
    let out = &app.terminal.out;
    if args.json {
        out.write_pretty_json(&to_json(&facts))?;
    } else {
        out.write(&render_page(out, &facts))?;
        if !also.is_empty() {
            let also: Vec<String> = also.iter().map(|name| format!("--dialect {name}")).collect();
            let name = escape_line(&args.name);
            app.terminal
                .print_note(&format!("other dialects also use `{name}`; see {}", also.join(", ")));
        }
    }
    Ok(ExitOutcome::Ok)
}

fn unknown_tool_error(
    args: &ToolsShowArgs,
    mut names: Vec<&str>,
    missing: Option<&str>,
) -> UsageError {
    let mut seen = std::collections::BTreeSet::new();
    names.retain(|name| seen.insert(*name));
    let similar = suggest_names(&args.name, names.iter().copied(), 3);
    let hint = match (missing, &similar[..], &names[..]) {
        (Some(advice), ..) => advice.to_owned(),
        (None, [], []) => "this build has no tools".to_owned(),
        (None, [], names) => format!("the tools are {}", names.join(", ")),
        (None, similar, _) => format!("did you mean {}?", similar.join(", ")),
    };
    let name = escape_line(&args.name);
    let place = match args.dialect {
        Some(dialect) => format!("dialect `{dialect}`"),
        None => "any dialect".to_owned(),
    };
    UsageError(format!("there is no tool `{name}` in {place}; {hint}"))
}

fn to_json(facts: &ToolFacts<'_>) -> serde_json::Value {
    let mut full = formats::to_full_json(facts.tool, facts.workspace.as_ref());
    if let Some(fields) = full.as_object_mut() {
        let names = facts.names.iter().map(|its| {
            let fields: Vec<&str> = its.fields.iter().map(|(name, _)| name.as_str()).collect();
            let input: Option<serde_json::Value> =
                its.input.and_then(|input| serde_json::from_str(input).ok());
            json!({"dialect": its.dialect.as_str(), "name": its.name, "fields": fields, "input": input})
        });
        fields.insert("names".to_owned(), names.collect());
        fields.insert("effects".to_owned(), facts.describe_effects().into());
        fields.insert("limits".to_owned(), facts.limits().into_iter().collect());
        let bounds =
            facts.bounds().iter().map(|bound| json!({"what": bound.what, "most": bound.most}));
        fields.insert("bounds".to_owned(), bounds.collect());
        if let Some(shown) = facts.example() {
            let example = json!({
                "input": serde_json::from_str::<serde_json::Value>(shown.input).unwrap_or_default(),
                "command": shown.command,
                "before": shown.before,
                "needs": shown.needs,
                "output": shown.output,
            });
            fields.insert("example".to_owned(), example);
        }
    }
    full
}

fn render_page(out: &TerminalStream, facts: &ToolFacts<'_>) -> String {
    let tool = facts.tool;
    let spec = tool.registered.tool.spec();
    let mut text = format!("{} - {}\n\n", out.paint(STRONG, &tool.name), spec.display_name);
    let _ = writeln!(text, "{}\n", out.escape_foreign(tool.description.trim()));
    let _ = writeln!(text, "{}", out.paint(STRONG, "Parameters"));
    text.push_str(&fields_table(&tool.input_schema, "REQUIRED").render(out));
    if !tool_facts::collect_fields(&spec.output_schema).is_empty() {
        let _ = writeln!(text, "\n{}", out.paint(STRONG, "Result"));
        text.push_str(&fields_table(&spec.output_schema, "ALWAYS").render(out));
    }
    let _ = writeln!(text, "\n{}", out.paint(STRONG, "Names"));
    text.push_str(&names_table(facts).render(out));
    let _ = writeln!(text, "\n{}", out.paint(STRONG, "Facts"));
    let mut fact = |name: &str, value: &str| {
        let name = format!("{name:<10}");
        let _ = writeln!(text, "{} {value}", out.paint(FAINT, &name));
    };
    fact("category", spec.category.as_str());
    fact("effects", facts.describe_effects());
    let risk = out.paint(risk_style(spec.risk), spec.risk.as_str()).into_owned();
    fact("risk", &format!("{risk}: {}", facts.describe_approval()));
    fact("timeout", &facts.describe_deadline());
    for (name, value) in facts.limits() {
        fact("limit", &format!("{name} {value}"));
    }
    for bound in facts.bounds() {
        fact("bound", &format!("{}: {}", bound.what, bound.most));
    }
    fact("repeatable", facts.describe_repeatability());
    fact("source", &tool.registered.source);
    let claims = tool.registered.tool.claims();
    if !claims.is_empty() {
        let claims = escape_line(&claims.join(", ")).into_owned();
        fact("claims", &format!("{claims} (stated by its provider; zero does not rely on it)"));
    }
    if let Some(shown) = facts.example() {
        let _ = writeln!(text, "\n{}", out.paint(STRONG, "Example"));
        for line in &shown.needs {
            let _ = writeln!(text, "{}", out.paint(FAINT, &format!("# {line}")));
        }
        for line in &shown.before {
            let _ = writeln!(text, "{line}");
        }
        let _ = writeln!(text, "{}", shown.command);
        if let Some(output) = &shown.output {
            let _ = writeln!(text, "\n{}\n{output}", out.paint(STRONG, "Output"));
        }
    }
    text
}

/// Names and fields of a tool in each dialect.
fn names_table(facts: &ToolFacts<'_>) -> TextTable {
    let mut table = TextTable::new(["DIALECT", "NAME", "FIELDS"]);
    for its in &facts.names {
        let fields = its.fields.iter().map(|(name, required)| match required {
            true => format!("{name} (required)"),
            false => name.clone(),
        });
        let fields = fields.collect::<Vec<_>>().join(", ");
        let name = match its.is_listed {
            true => its.name.clone(),
            false => format!("{}, not listed", its.name),
        };
        table.add_row([its.dialect.as_str().into(), name.into(), fields.into()]);
    }
    table
}

/// Fields of an input or a result schema.
fn fields_table(schema: &serde_json::Value, required: &'static str) -> TextTable {
    let mut table = TextTable::new(["NAME", "TYPE", required, "DESCRIPTION"]);
    for field in tool_facts::collect_fields(schema) {
        table.add_row([
            TableCell::from(format!("{}{}", "  ".repeat(field.depth), field.name)),
            field.type_name.into(),
            if field.required { "yes" } else { "no" }.into(),
            field.description.into(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, LazyLock};

    use clap::Parser;
    use zero_core::ToolCategory;

    use super::*;
    use crate::cli::Cli;
    use crate::environment::EnvironmentConfig;
    use crate::terminal::Terminal;

    fn test_app(folder: &std::path::Path) -> AppContext {
        AppContext {
            config: EnvironmentConfig::for_test(folder),
            terminal: Terminal::for_test(),
            tools: Arc::new(LazyLock::new(zero_tools::builtin_tools)),
            notifiers: Arc::default(),
            console: Arc::default(),
            gateway_locality: Arc::default(),
        }
    }

    /// Runs a command line with the real tools, in a folder with the files of the examples.
    #[expect(clippy::disallowed_methods, reason = "the test puts its files there")]
    fn run_command(words: &[String]) -> (ExitOutcome, String) {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in zero_tools::examples::FILES {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let app = test_app(folder.path());
        let cli = Cli::try_parse_from(words).unwrap();
        let exit =
            crate::commands::run(&app, cli).unwrap_or_else(|error| crate::report(&app, &error));
        (exit, app.terminal.out.written_text() + &app.terminal.err.written_text())
    }

    fn run_show(words: &[&str]) -> (ExitOutcome, String) {
        let words = ["zero", "tools", "show"].iter().chain(words).map(|word| (*word).to_owned());
        run_command(&words.collect::<Vec<_>>())
    }

    /// The reference test runs the calls of the examples; this test runs the command lines as shown.
    #[test]
    fn every_example_command_runs_as_shown() {
        let folder = tempfile::tempdir().unwrap();
        let app = test_app(folder.path());
        let registry = app.registry(None).unwrap();
        for dialect in DialectName::ALL {
            for tool in app.tools_in_dialect(&registry, dialect) {
                let facts = ToolFacts::new(&app, &registry, dialect, &tool);
                let shown = facts.example().unwrap_or_else(|| panic!("no {}", tool.name));
                let (line, output) = (shown.command, shown.output.unwrap());
                let end = format!("\n{line}\n\nOutput\n{output}\n");
                assert!(render_page(&app.terminal.out, &facts).ends_with(&end));
                let (before, rest) = line.split_once(" '").unwrap();
                let (input, after) = rest.split_once('\'').unwrap();
                let words = before.split(' ').chain([input]).chain(after.split_whitespace());
                let words: Vec<String> = words.chain(["--yes"]).map(str::to_owned).collect();
                // There is no network in this test, so only check that the call is valid.
                if tool.registered.tool.spec().category == ToolCategory::Network {
                    Cli::try_parse_from(&words).unwrap();
                    let input = serde_json::from_str(input).unwrap();
                    let canonical =
                        Dialect::new(dialect).to_canonical(&tool.name, &tool.registered, input);
                    assert!(canonical.is_ok(), "{line}: {canonical:?}");
                    continue;
                }
                let (exit, output) = run_command(&words);
                let is = |part: &str| tool.name.to_ascii_lowercase().contains(part);
                // The requirements of some examples are missing here: a session, a server, a user.
                for (needed, of) in [
                    ("there are no jobs", is("bash")),
                    ("no language server for `shop.c` is installed", is("lsp")),
                    ("no user is available to answer", is("question")),
                ] {
                    assert!(of || !output.contains(needed), "{line}\n{output}");
                }
                let lacks = is("bashoutput") || is("bashkill") || is("lsp") || is("question");
                assert_eq!(exit == ExitOutcome::Ok, !lacks, "{line}\n{output}");
            }
        }
    }

    #[track_caller]
    fn check_page(words: &[&str], expected: &str) {
        let (exit, output) = run_show(words);
        assert!(exit == ExitOutcome::Ok && output.contains(expected), "{words:?}\n{output}");
    }

    #[cfg(feature = "lsp")]
    #[test]
    fn language_server_tool_is_shown() {
        for (words, expected) in [
            (&["lsp-diagnostics"][..], "effects    reads the file, and starts a language server"),
            (&["LSP"], "printf '%s\\n' 'int price(int count) { return 3 * count; }' 'int main"),
        ] {
            check_page(words, expected);
        }
    }

    #[cfg(feature = "web")]
    #[test]
    fn web_tools_are_shown() {
        for (words, expected) in [
            (&["WebFetch"], "bound      a page stays cached: 15 min\n"),
            (&["WebFetch"], "timeout    120 s\n"),
            (&["WebSearch"], "--settings local.json\n"),
            (&["WebSearch"], "python3 -m http.server 8080"),
        ] {
            check_page(words, expected);
        }
    }

    #[test]
    fn tool_is_found_by_name_of_any_dialect() {
        for (words, expected) in [
            (&["Read"][..], "zero tools call Read '{\"file_path\": \"notes.txt\"}'\n"),
            (&["search_files"], "--dialect acp\n"),
            (&["read_many_files"], "--dialect qwen\n"),
            (&["edit", "--dialect", "opencode"], "\"oldString\": \"milk\""),
            (&["edit"], "other dialects also use `edit`; see --dialect opencode"),
            (&["read_file"], "see --dialect qwen"),
            (&["Read"], "acp        read_file  path (required), line, limit\n"),
            (&["Read"], "bound      a shown line: 2,000 characters\n"),
            (&["Read"], "total_lines  integer  yes     Number of lines of the whole file.\n"),
            (&["Read"], "Output\n     1\tbuy milk\n"),
            (&["BashOutput"], "acp        BashOutput, not listed  "),
            (&["Bash"], "critical if one destroys or discloses something irreversibly"),
            (&["Bash"], "command-memory half of the memory (500 MB with profile `strict`)\n"),
        ] {
            check_page(words, expected);
        }
        for (words, expected) in [
            (&["Raed"][..], "there is no tool `Raed` in any dialect; did you mean Read"),
            (&["Read", "--dialect", "acp"], "there is no tool `Read` in dialect `acp`"),
        ] {
            let (exit, output) = run_show(words);
            assert!(exit == ExitOutcome::Usage && output.contains(expected), "{words:?}\n{output}");
        }
    }

    #[cfg(feature = "web")]
    #[test]
    fn json_includes_names_and_example() {
        let (_, output) = run_show(&["web_request", "--json"]);
        let shown: serde_json::Value = serde_json::from_str(&output).unwrap();
        assert_eq!(shown["canonicalName"], "WebRequest");
        assert_eq!(shown["timeoutMs"], 90_000);
        let fields = ["url", "method", "headers", "body"];
        let input = json!({"url": "http://127.0.0.1:8080/notes.txt", "method": "GET"});
        let name =
            json!({"dialect": "acp", "name": "web_request", "fields": fields, "input": input});
        assert_eq!(shown["names"][1], name);
        assert!(shown["effects"].as_str().unwrap().starts_with("sends one request"), "{output}");
        assert_eq!(shown["bounds"][1], json!({"what": "the request", "most": "15 KB"}));
        assert!(shown["example"]["output"].as_str().unwrap().contains("200"), "{output}");
        assert_eq!(shown["example"]["input"]["method"], "GET");
        assert!(shown["example"]["command"].as_str().unwrap().ends_with("local.json"), "{output}");
    }

    #[test]
    fn nested_fields_are_listed_under_their_parent() {
        let (_, page) = run_show(&["edit_file"]);
        for row in
            ["edits      object[], not empty", "  type     replace | insert ", "  oldText  string "]
        {
            assert!(page.contains(row), "{row:?} is not in {page}");
        }
    }
}
