//! The content of a permission question: first the complete change or command, exactly as it would
//! run, then the reason for asking.

use std::path::Path;

use agent_client_protocol::v1::schema::{PermissionOption, PermissionOptionKind, ToolCallContent};
use serde_json::{Value, json};
use zero_core::event::{ApprovalEffect, ApprovalRequest};
use zero_core::sanitize::escape_line;
use zero_core::{ResultDisplay, ToolKind};

use super::call_content::{diff_content, text_content};
use crate::text_sanitizer::{
    code_block, escaped_line, inline_code, make_exact, shorten_for_display,
};

/// Most bytes of a command; the omitted bytes are counted.
const COMMAND_BYTES_MAX: usize = 1024 * 1024;
/// Most effects that are listed.
const EFFECTS_MAX: usize = 100;
/// Longest reason, in characters.
const REASON_CHARS_MAX: usize = 2000;

/// The answer that rejects every call of a tool.
const REJECT_TOOL: &str = "reject_tool";

/// The answers that the user can choose: one of each kind, and always a rejection. The rejection of a
/// whole tool is offered where there is no narrower one.
pub(crate) fn permission_options(request: &ApprovalRequest) -> Vec<PermissionOption> {
    let mut options: Vec<PermissionOption> = Vec::new();
    for option in &request.options {
        let kind = match option.id.as_str() {
            "allow_once" => PermissionOptionKind::AllowOnce,
            "allow_always" => PermissionOptionKind::AllowAlways,
            "reject_once" => PermissionOptionKind::RejectOnce,
            "reject_always" | REJECT_TOOL => PermissionOptionKind::RejectAlways,
            // The effect of an unknown option is not known, so it is not offered.
            _ => continue,
        };
        if options.iter().all(|other| other.kind != kind) {
            options.push(PermissionOption::new(option.id.clone(), escape_line(&option.name), kind));
        }
    }
    if options.iter().all(|option| option.kind != PermissionOptionKind::RejectOnce) {
        let kind = PermissionOptionKind::RejectOnce;
        options.push(PermissionOption::new("reject_once", "Reject", kind));
    }
    options
}

/// The title of the question. A command is shown itself, because the model's description may differ
/// from it; for a connection, the host is what the question is about.
pub(super) fn question_title(request: &ApprovalRequest, chars_max: usize) -> String {
    match request.commands.as_slice() {
        _ if !request.subject.is_call() => escaped_line(&request.title, chars_max),
        [] => escaped_line(&request.title, chars_max),
        [command] => escaped_line(command, chars_max),
        [first, others @ ..] => {
            format!("{} (and {} more)", escaped_line(first, chars_max), others.len())
        }
    }
}

/// The tool kind to display, if no better one is known.
pub(super) fn question_kind(request: &ApprovalRequest) -> Option<ToolKind> {
    match (&request.commands[..], &request.preview) {
        ([_, ..], _) => Some(ToolKind::Execute),
        (_, Some(ResultDisplay::Diff(_))) => Some(ToolKind::Edit),
        _ => None,
    }
}

/// The input of the call, if the call itself is not known.
pub(super) fn question_input(request: &ApprovalRequest) -> Option<Value> {
    match request.commands.as_slice() {
        [] => None,
        [command] => Some(json!({ "command": command, "cwd": request.cwd })),
        commands => Some(json!({ "commands": commands, "cwd": request.cwd })),
    }
}

/// The complete content of the question.
pub(super) fn question_content(request: &ApprovalRequest, cwd: &Path) -> Vec<ToolCallContent> {
    let mut shown = Vec::new();
    let mut preview = request.preview.as_ref();
    if let Some(ResultDisplay::Diff(_)) = preview {
        shown.extend(preview.take().and_then(|diff| diff_content(diff, cwd)));
    }
    let mut beside = match preview {
        Some(ResultDisplay::Markdown { text }) => text.as_str(),
        Some(ResultDisplay::Plan { .. } | ResultDisplay::Diff(_)) | None => "",
    };
    if let [first, others @ ..] = request.commands.as_slice() {
        // A preview that begins with the command continues with the folder and environment.
        let folder = others.is_empty().then(|| beside.strip_prefix(first.as_str())).flatten();
        let folder = folder.and_then(|rest| rest.strip_prefix("\n\nin "));
        let mut text: Vec<String> =
            request.commands.iter().map(|line| command_block(line)).collect();
        match folder {
            Some(rest) => {
                beside = "";
                let (folder, with) = rest.split_once('\n').unwrap_or((rest, ""));
                text.push(format!("in {}", inline_code(folder)));
                if !with.trim().is_empty() {
                    let with = shorten_for_display(with.trim_matches('\n'), COMMAND_BYTES_MAX);
                    text.push(code_block(&make_exact(&with), ""));
                }
            }
            None => text.push(format!("in {}", inline_code(&request.cwd))),
        }
        shown.push(ToolCallContent::from(text.join("\n\n")));
    }
    shown.extend(text_content(&make_exact(beside)));
    shown.extend(text_content(&reason_text(request)));
    shown
}

fn command_block(line: &str) -> String {
    code_block(&make_exact(&shorten_for_display(line, COMMAND_BYTES_MAX)), "sh")
}

fn reason_text(request: &ApprovalRequest) -> String {
    let mut lines = Vec::new();
    if !request.commands.is_empty() && !request.title.is_empty() {
        lines.push(format!("What the agent says it does: {}", reason_line(&request.title)));
    }
    if !request.reason.is_empty() {
        lines.push(format!("Why you are asked: {}", reason_line(&request.reason)));
    }
    if !request.risk.is_empty() {
        lines.push(format!("Risk: {}", reason_line(&request.risk)));
    }
    let effect = |effect: &ApprovalEffect| {
        let ApprovalEffect { kind, target, verdict, reason, .. } = effect;
        let (kind, verdict) = (reason_line(kind), reason_line(verdict));
        format!("- {kind} {} ({verdict}: {})", inline_code(target), reason_line(reason))
    };
    let mut effects: Vec<String> = request.effects.iter().take(EFFECTS_MAX).map(effect).collect();
    let left_out = request.effects.len().saturating_sub(EFFECTS_MAX);
    if left_out > 0 {
        effects.push(format!("- and {left_out} more"));
    }
    if !effects.is_empty() {
        lines.push(effects.join("\n"));
    }
    lines.join("\n\n")
}

fn reason_line(text: &str) -> String {
    escaped_line(text, REASON_CHARS_MAX)
}

#[cfg(test)]
mod tests {
    use zero_core::FileDiff;
    use zero_core::event::ApprovalOption;

    use super::*;

    fn request(commands: &[&str], preview: Option<ResultDisplay>) -> ApprovalRequest {
        ApprovalRequest {
            subject: zero_core::event::ApprovalSubject::Call,
            id: "ask_1".to_owned(),
            call: "c1".to_owned(),
            tool: "Bash".to_owned(),
            title: "Tidy up".to_owned(),
            reason: "no rule allows it".to_owned(),
            risk: "high".to_owned(),
            commands: commands.iter().map(|line| (*line).to_owned()).collect(),
            effects: vec![ApprovalEffect {
                kind: "exec".to_owned(),
                target: "rm".to_owned(),
                verdict: "ask".to_owned(),
                reason: "by mode".to_owned(),
                origin: zero_core::event::EffectOrigin::Call,
            }],
            preview,
            input: None,
            options: vec![],
            cwd: "/w".to_owned(),
            expires_ms: 0,
            subagent: None,
        }
    }

    #[track_caller]
    fn check(request: &ApprovalRequest, expected: &[&str]) {
        let shown = question_content(request, Path::new("/w"));
        let text = |content: &ToolCallContent| {
            let content = serde_json::to_value(content).unwrap();
            content["content"]["text"].as_str().map_or(content.to_string(), str::to_owned)
        };
        assert_eq!(shown.iter().map(text).collect::<Vec<_>>(), expected);
    }

    const WHY: &str =
        "Why you are asked: no rule allows it\n\nRisk: high\n\n- exec `rm` (ask: by mode)";

    #[test]
    fn command_is_shown_first_and_whole() {
        let explanation = format!("What the agent says it does: Tidy up\n\n{WHY}");
        let long = format!("echo {}\nrm -rf ~\u{202e}", "x".repeat(5000));
        let shown = long.replace('\u{202e}', "\\u{202e}");
        check(
            &request(&[&long], None),
            &[&format!("```sh\n{shown}\n```\n\nin `/w`"), &explanation],
        );
        let preview = |text: &str| Some(ResultDisplay::Markdown { text: text.to_owned() });
        check(
            &request(&["ls"], preview("ls\n\nin /w/sub\nwith A=`b`\nin the background")),
            &[
                "```sh\nls\n```\n\nin `/w/sub`\n\n```\nwith A=`b`\nin the background\n```",
                &explanation,
            ],
        );
        let hidden = "a\u{3164}b\u{fe0f}\u{200d}c";
        let visible = r"a\u{3164}b\u{fe0f}\u{200d}c";
        check(
            &request(&[hidden], preview(hidden)),
            &[&format!("```sh\n{visible}\n```\n\nin `/w`"), visible, &explanation],
        );
        check(
            &request(&["ls"], preview("something else")),
            &["```sh\nls\n```\n\nin `/w`", "something else", &explanation],
        );
        check(
            &request(&["a", "b"], None),
            &["```sh\na\n```\n\n```sh\nb\n```\n\nin `/w`", &explanation],
        );
    }

    #[test]
    fn diff_is_shown_before_reason() {
        let diff = ResultDisplay::Diff(FileDiff {
            path: "a".to_owned(),
            unified: "-a\n+b".to_owned(),
            old_text: Some("a".to_owned()),
            new_text: Some("b".to_owned()),
            partial: false,
        });
        let shown = r#"{"type":"diff","path":"/w/a","oldText":"a","newText":"b"}"#;
        check(&request(&[], Some(diff)), &[shown, WHY]);
    }

    #[test]
    fn question_title_uses_actual_command() {
        #[track_caller]
        fn check(commands: &[&str], expected: &str) {
            assert_eq!(question_title(&request(commands, None), 12), expected);
        }
        check(&[], "Tidy up");
        check(&["rm\n -rf /"], "rm\\n -rf /");
        check(&["rm -rf /home/me"], "rm -rf /home…");
        check(&["a", "b", "c"], "a (and 2 more)");
    }

    #[test]
    fn options_have_one_of_each_kind_and_always_reject() {
        #[track_caller]
        fn check(given: &[(&str, &str)], expected: Value) {
            let option = |(id, name): &(&str, &str)| ApprovalOption {
                id: (*id).to_owned(),
                name: (*name).to_owned(),
            };
            let options_given = given.iter().map(option).collect();
            let request = ApprovalRequest { options: options_given, ..request(&[], None) };
            assert_eq!(serde_json::to_value(permission_options(&request)).unwrap(), expected);
        }
        let no = json!({"optionId": "reject_once", "name": "Reject", "kind": "reject_once"});
        check(
            &[
                ("allow_once", "Allow once"),
                ("allow_always", "Allow `git *\n` in this session"),
                ("allow_once", "Again"),
                ("sudo", "Everything"),
                ("reject_once", "Reject"),
                ("reject_always", "Reject `git *` in this session"),
                ("reject_tool", "Reject every call of `Bash` in this session"),
            ],
            json!([
                {"optionId": "allow_once", "name": "Allow once", "kind": "allow_once"},
                {"optionId": "allow_always", "name": "Allow `git *\\n` in this session", "kind": "allow_always"},
                no,
                {"optionId": "reject_always", "name": "Reject `git *` in this session", "kind": "reject_always"},
            ]),
        );
        check(
            &[("reject_once", "Reject"), ("reject_tool", "Reject every call of `Bash`")],
            json!([
                no,
                {"optionId": "reject_tool", "name": "Reject every call of `Bash`", "kind": "reject_always"},
            ]),
        );
        check(&[], json!([no]));
    }
}
