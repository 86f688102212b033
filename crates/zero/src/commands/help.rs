//! `zero help`: how-to pages in the terminal, and the help of commands.

mod help_topics;

use std::ffi::OsString;

use clap::Command;
use zero_runtime::name_suggestions::suggest_names;
use zero_terminal::markdown::{MarkdownLayout, render_markdown};
use zero_terminal::pager::show_pages;
use zero_terminal::raw_input::SignalKeys;

use self::help_topics::{HelpTopic, TOPICS, prepare_page};
use crate::AppContext;
use crate::cli::{HelpArgs, command};
use crate::command_line;
use crate::exit::{ExitOutcome, UsageError};
use crate::terminal::{STRONG, TextTable};

/// Lists the pages.
const LIST_WORD: &str = "topics";
/// Most names that an error suggests.
const SUGGESTIONS_MAX: usize = 3;
/// Widest text, in columns: longer lines are hard to read.
const COLUMNS_MAX: usize = 100;

pub(super) fn run(app: &AppContext, args: &HelpArgs) -> anyhow::Result<ExitOutcome> {
    if let [word] = &args.words[..]
        && word == LIST_WORD
    {
        return print_topics(app);
    }
    if is_command(&args.words) {
        // Exactly what `--help` prints.
        let words = ["zero"].into_iter().chain(args.words.iter().map(String::as_str));
        let words = words.chain(["--help"]).map(OsString::from).collect();
        if let Err(shown) = command_line::parse(words) {
            let (out, text) = (&app.terminal.out, shown.render());
            out.write(&if out.is_terminal() { text.ansi().to_string() } else { text.to_string() })?;
        }
        if let Some(topic) = find_topic(&args.words) {
            app.terminal.print_note(&format!("the page about it: zero help {}", topic.full_name()));
        }
        return Ok(ExitOutcome::Ok);
    }
    match find_topic(&args.words) {
        Some(topic) => print_page(app, topic),
        None => Err(unknown_topic(&args.words).into()),
    }
}

/// Whether there is a command with this path of names. Without any, it is zero itself.
fn is_command(words: &[String]) -> bool {
    let mut found = command();
    for word in words {
        let next = found.find_subcommand(word).filter(|next| !next.is_hide_set()).cloned();
        let Some(next) = next else { return false };
        found = next;
    }
    true
}

/// The page with this name: `undo`, `how-to/undo`, or with blanks, `package managers`.
fn find_topic(words: &[String]) -> Option<&'static HelpTopic> {
    let requested_topic = words.join("-").to_lowercase();
    let name = requested_topic.strip_suffix(".md").unwrap_or(&requested_topic);
    TOPICS.iter().find(|topic| topic.name == name || topic.full_name() == name)
}

fn unknown_topic(words: &[String]) -> UsageError {
    let requested_topic = words.join(" ");
    let known = command();
    let commands = known.get_subcommands().filter(|command| !command.is_hide_set());
    let names = commands.map(Command::get_name).chain(TOPICS.iter().map(|topic| topic.name));
    let similar = suggest_names(&requested_topic.replace(' ', "-"), names, SUGGESTIONS_MAX);
    let similar: Vec<String> = similar.iter().map(|name| format!("`zero help {name}`")).collect();
    let hint = match &similar[..] {
        [] => String::new(),
        similar => format!("did you mean {}? ", similar.join(", ")),
    };
    UsageError(format!(
        "there is no page or command `{requested_topic}`; {hint}`zero help topics` lists the pages"
    ))
}

fn print_topics(app: &AppContext) -> anyhow::Result<ExitOutcome> {
    let out = &app.terminal.out;
    let known = command();
    let mut table = TextTable::new(["PAGE", "ABOUT"]);
    for topic in TOPICS {
        let is_command = known.find_subcommand(topic.name).is_some();
        let name = if is_command { topic.full_name() } else { topic.name.to_owned() };
        table.add_row([name.into(), topic.title().into()]);
    }
    out.write(&table.render(out))?;
    out.write(&format!("\n{} zero help PAGE\n", out.paint(STRONG, "Read one:")))?;
    Ok(ExitOutcome::Ok)
}

fn print_page(app: &AppContext, topic: &HelpTopic) -> anyhow::Result<ExitOutcome> {
    let out = &app.terminal.out;
    let size = out.window_size();
    let columns = size.columns.min(COLUMNS_MAX);
    let layout = MarkdownLayout { wraps_code: out.is_terminal(), ..MarkdownLayout::default() };
    let text = render_markdown(out, columns, layout, &prepare_page(topic.text));
    let rows: Vec<String> = text.lines().map(str::to_owned).collect();
    let answers = app.terminal.answer_source().filter(|_| out.is_terminal());
    match answers.filter(|_| rows.len() >= size.rows) {
        Some(answers) => {
            let keys = answers.open_keys(SignalKeys::AreRead)?;
            show_pages(out, &keys, &rows)?;
            keys.close();
        }
        None => out.write(&(rows.join("\n") + "\n"))?,
    }
    Ok(ExitOutcome::Ok)
}
