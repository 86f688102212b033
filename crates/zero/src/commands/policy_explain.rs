//! `zero policy explain`: a command line as a tree, with the verdict on each part.

use std::fmt::Write as _;

use serde_json::json;
use zero_policy::engine::{Tree, TreeNode};

use crate::App;
use crate::cli::PolicyExplainArgs;
use crate::exit::Exit;
use crate::policy::as_json;
use crate::terminal::{FAINT, STRONG, Stream, escape_line, verdict_style};

pub(super) fn run(app: &App, args: &PolicyExplainArgs) -> anyhow::Result<Exit> {
    let judge = app.judge(&args.place, args.mode)?;
    let input = json!({ "command": args.command });
    let subject = judge.subject("Bash", &input, None).map_err(crate::exit::UsageError)?;
    let (decision, trees) = judge.judge(&subject, &[]);
    let out = &app.terminal.out;
    if args.json {
        let trees: Vec<_> = trees.iter().map(|tree| branches(&tree.nodes, None)).collect();
        let mut answer = as_json(&decision);
        answer["tree"] = trees.into_iter().next().unwrap_or(json!([]));
        out.write_line(&answer)?;
    } else {
        let mut text = String::new();
        for tree in &trees {
            draw(out, tree, &mut text);
        }
        let verdict = out.paint(verdict_style(decision.verdict), decision.verdict.word());
        let _ = writeln!(text, "\n{verdict}: {}", escape_line(&decision.reason));
        if let (Some(rule), Some(source)) = (&decision.rule, &decision.source) {
            let _ = writeln!(text, "  rule {rule}  {}", out.paint(FAINT, &escape_line(source)));
        }
        for grant in &decision.grants {
            let _ = writeln!(text, "  a session could be granted {}", escape_line(&grant.rule));
        }
        out.write(&text)?;
    }
    Ok(Exit::of_verdict(decision.verdict))
}

/// The nodes below one, as nested JSON.
fn branches(nodes: &[TreeNode], parent: Option<usize>) -> serde_json::Value {
    let children = nodes.iter().enumerate().filter(|(_, node)| node.parent == parent);
    children
        .map(|(at, node)| {
            json!({
                "label": node.label,
                "decision": node.verdict.word(),
                "reason": node.reason,
                "rule": node.rule,
                "children": branches(nodes, Some(at)),
            })
        })
        .collect()
}

/// Draws a tree with lines, one node a line.
fn draw(out: &Stream, tree: &Tree, text: &mut String) {
    let mut stems: Vec<String> = Vec::with_capacity(tree.nodes.len());
    for (at, node) in tree.nodes.iter().enumerate() {
        let is_last = !tree.nodes.iter().skip(at + 1).any(|other| other.parent == node.parent);
        let (branch, stem) = match node.parent {
            None => (String::new(), String::new()),
            Some(parent) => {
                let above = stems.get(parent).map_or("", String::as_str);
                let (branch, stem) =
                    if is_last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
                (format!("{above}{branch}"), format!("{above}{stem}"))
            }
        };
        let verdict = format!("{:<5}", node.verdict.word());
        let label = escape_line(&node.label);
        let label = if node.reason.is_some() {
            out.paint(STRONG, &label).into_owned()
        } else {
            label.into_owned()
        };
        let mut line = format!(
            "{}  {}{label}",
            out.paint(verdict_style(node.verdict), &verdict),
            out.paint(FAINT, &branch)
        );
        if let Some(reason) = &node.reason {
            let _ = write!(line, "  {}", out.paint(FAINT, &escape_line(reason)));
        }
        let _ = writeln!(text, "{line}");
        stems.push(stem);
    }
}
