//! A tree as one line of text.

use crate::shell::ast::*;

pub(super) fn dump_list(list: &CommandList) -> String {
    let mut out = String::new();
    for (index, item) in list.items.iter().enumerate() {
        if index > 0 {
            out += match item.joint {
                ListOperator::Then => " ; ",
                ListOperator::And => " && ",
                ListOperator::Or => " || ",
            };
        }
        let commands: Vec<String> = item.pipeline.commands.iter().map(dump_command).collect();
        out += &commands.join(" | ");
        if item.background {
            out += " &";
        }
    }
    out
}

fn dump_command(command: &ShellCommand) -> String {
    let mut out = dump_kind(&command.kind);
    for redirect in &command.redirects {
        let variable = redirect.variable.as_ref().map(|name| format!("{{{name}}}"));
        let target = dump_word(&redirect.target);
        out += &format!(" {}", variable.unwrap_or_default());
        out += &match redirect.kind {
            RedirectionKind::Read => format!("<{target}"),
            RedirectionKind::Write => format!(">{target}"),
            RedirectionKind::ReadWrite => format!("<>{target}"),
            RedirectionKind::Duplicate => format!("&{target}"),
            RedirectionKind::HereDocument => format!("<<{{{target}}}"),
            RedirectionKind::HereString => format!("<<<{target}"),
        };
    }
    out
}

fn dump_kind(kind: &ShellCommandKind) -> String {
    match kind {
        ShellCommandKind::Simple(simple) => {
            let assigned = simple.assignments.iter().map(dump_assignment);
            let all: Vec<String> = assigned.chain(simple.words.iter().map(dump_word)).collect();
            all.join(" ")
        }
        ShellCommandKind::Subshell(body) => format!("({})", dump_list(body)),
        ShellCommandKind::Group(body) => format!("{{{}}}", dump_list(body)),
        ShellCommandKind::If { branches, otherwise } => {
            let each: Vec<String> = branches
                .iter()
                .map(|(a, b)| format!("if {} then {}", dump_list(a), dump_list(b)))
                .collect();
            let otherwise = otherwise.as_ref().map(|body| format!(" else {}", dump_list(body)));
            format!("{}{} fi", each.join(" el"), otherwise.unwrap_or_default())
        }
        ShellCommandKind::While { condition, body } => {
            format!("while {} do {} done", dump_list(condition), dump_list(body))
        }
        ShellCommandKind::For { variable, words, body, .. } => {
            let among = words.as_ref().map(|all| {
                all.iter().fold(" in".to_owned(), |out, each| format!("{out} {}", dump_word(each)))
            });
            format!("for {variable}{} do {} done", among.unwrap_or_default(), dump_list(body))
        }
        ShellCommandKind::ArithmeticFor { header, body } => {
            format!("for (({})) do {} done", dump_word(header), dump_list(body))
        }
        ShellCommandKind::Case { subject, arms } => {
            let mut out = format!("case {} in", dump_word(subject));
            for (patterns, body) in arms {
                let patterns: Vec<String> = patterns.iter().map(dump_word).collect();
                out += &format!(" {}) {};;", patterns.join("|"), dump_list(body));
            }
            out + " esac"
        }
        ShellCommandKind::Arithmetic(text) => format!("(({}))", dump_word(text)),
        ShellCommandKind::Test(all) => {
            let all: Vec<String> = all.iter().map(dump_word).collect();
            format!("[[ {} ]]", all.join(" "))
        }
        ShellCommandKind::Function { name, body } => format!("{name}() {}", dump_command(body)),
        ShellCommandKind::Coprocess(body) => format!("coproc {}", dump_command(body)),
    }
}

fn dump_assignment(assignment: &VariableAssignment) -> String {
    let subscript = assignment.subscript.as_ref().map(|text| format!("[{}]", dump_word(text)));
    let value = match &assignment.value {
        AssignmentValue::Scalar(value) => dump_word(value),
        AssignmentValue::Array(all) => {
            let all: Vec<String> = all.iter().map(dump_word).collect();
            format!("({})", all.join(" "))
        }
    };
    let sign = if assignment.append { "+=" } else { "=" };
    format!("{}{}{sign}{value}", assignment.name, subscript.unwrap_or_default())
}

fn dump_word(word: &ShellWord) -> String {
    word.parts.iter().map(dump_part).collect()
}

fn dump_part(part: &WordPart) -> String {
    match part {
        WordPart::Text { text, quoted: false } => text.clone(),
        WordPart::Text { text, quoted: true } => format!("'{text}'"),
        WordPart::Parameter(parameter) => {
            let mut out = format!("${{{}", parameter.name);
            if parameter.operation != ParameterOperation::Plain || !parameter.words.is_empty() {
                out += &format!(" {:?}", parameter.operation).to_lowercase();
            }
            parameter.words.iter().for_each(|each| out += &format!(" {}", dump_word(each)));
            dump_quoted(out + "}", parameter.quoted)
        }
        WordPart::Command { list: body, quoted } => {
            dump_quoted(format!("$({})", dump_list(body)), *quoted)
        }
        WordPart::Process { list: body } => format!("<({})", dump_list(body)),
        WordPart::Arithmetic(text) => format!("$(({}))", dump_word(text)),
    }
}

fn dump_quoted(text: String, quoted: bool) -> String {
    if quoted { format!("\"{text}\"") } else { text }
}

/// The source of each word of simple commands, outer before inner.
pub(super) fn word_sources<'s>(list: &CommandList, source: &'s str) -> Vec<&'s str> {
    let mut found = Vec::new();
    for command in list.items.iter().flat_map(|item| &item.pipeline.commands) {
        let ShellCommandKind::Simple(simple) = &command.kind else { continue };
        for word in &simple.words {
            found.push(&source[word.span.start..word.span.end]);
            for part in &word.parts {
                if let WordPart::Command { list, .. } = part {
                    found.extend(word_sources(list, source));
                }
            }
        }
    }
    found
}
