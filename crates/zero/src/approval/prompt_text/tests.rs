//! What a person reads, in a window of some width.

use zero_core::{CallId, Effect, FileDiff, PathZone, RiskLevel, TargetPath, ToolName};

use zero_policy::GrantScope;
use zero_runtime::ApprovalSubject;

use super::*;
use crate::terminal::Terminal;

fn make_question(title: &str, reason: &str, effects: Vec<Effect>) -> ApprovalQuestion {
    ApprovalQuestion {
        call: CallId::from_bits(1),
        tool: ToolName::new("Bash").unwrap(),
        title: title.to_owned(),
        reason: reason.to_owned(),
        risk: RiskLevel::High,
        effects,
        judged: vec![],
        grants: vec![],
        rule_owners: Vec::new(),
        can_edit_command: false,
        can_try_command: false,
        can_reject_tool: false,
        preview: None,
        rewritten: None,
        withdrawal: Default::default(),
        subject: ApprovalSubject::Call,
        workspace: "/w".into(),
    }
}

fn make_judged_effect(
    kind: &'static str,
    target: &str,
    decision: Verdict,
    reason: &str,
) -> EffectDecision {
    let (rule, source) = (None, None);
    EffectDecision {
        kind,
        target: target.to_owned(),
        decision,
        rule,
        source,
        reason: reason.to_owned(),
        origin: zero_core::event::EffectOrigin::Call,
    }
}

/// The question in a window of 60 columns, without colours.
fn render_plain(question: &ApprovalQuestion) -> String {
    render_prompt(question).all_rows().join("\n") + "\n"
}

fn render_prompt(question: &ApprovalQuestion) -> PromptText {
    render(&Terminal::for_test().err.with_columns(60).without_colours(), question)
}

#[test]
fn file_change_prompt_shows_diff() {
    let diff = FileDiff {
        path: "a".to_owned(),
        unified: "@@ -1 +1 @@\n-old\n+new\x1b[2J\n".to_owned(),
        old_text: None,
        new_text: None,
        partial: false,
    };
    let path = TargetPath::new("a", "/w/a".into(), PathZone::Workspace);
    let question = ApprovalQuestion {
        judged: vec![make_judged_effect(
            "write",
            "/w/a",
            Verdict::Ask,
            "no rule allows changing it",
        )],
        preview: Some(ResultDisplay::Diff(diff)),
        ..make_question("Edit `a\u{202E}b`", "its risk is medium", vec![Effect::Write(path)])
    };
    insta::assert_snapshot!(render_plain(&question).trim(), @r"
    ? Edit `a\u{202e}b`
      risk    high
      why     its risk is medium
      writes  ask    /w/a
                       no rule allows changing it

      │ @@ -1 +1 @@
      │ -old
      │ +new\u{1b}[2J
    ");
}

#[test]
fn prompt_names_note_and_search_engine() {
    let question = ApprovalQuestion {
        judged: vec![
            make_judged_effect("note", "project/tabs", Verdict::Ask, "its risk is medium"),
            make_judged_effect("endpoint", "127.0.0.1", Verdict::Ask, "its risk is medium"),
        ],
        ..make_question("Both", "its risk is medium", vec![])
    };
    insta::assert_snapshot!(render_plain(&question).trim(), @r"
    ? Both
      risk    high
      why     its risk is medium
      engine  ask    127.0.0.1
      notes   ask    project/tabs
    ");
}

#[test]
fn command_prompt_shows_full_command_and_effects() {
    let command = "cd src\n  risk    low\ngit push origin main && curl -o /etc/x https://example.com/\tlong\n";
    let folder = TargetPath::new("src", "/w/src".into(), PathZone::Workspace);
    let execution = CommandExecution {
        folder: Some(folder),
        variables: vec![("A".to_owned(), "x y".to_owned())],
        ..CommandExecution::from_shell(command)
    };
    let question = ApprovalQuestion {
        judged: vec![
            make_judged_effect("exec", "cd src", Verdict::Allow, "it only reads"),
            make_judged_effect("exec", "git push origin main", Verdict::Ask, "no rule allows it"),
            make_judged_effect(
                "exec",
                "git push origin main",
                Verdict::Ask,
                "its remote is not known",
            ),
            make_judged_effect("read", "/w/src/a", Verdict::Allow, "it is in the workspace"),
            make_judged_effect("net", "example.com", Verdict::Ask, "no rule allows this host"),
            make_judged_effect(
                "write",
                "/etc/x",
                Verdict::Ask,
                "protected: a system file; always asks, no rule can allow it",
            ),
            make_judged_effect("exec", command, Verdict::Ask, "no rule allows it"),
        ],
        preview: Some(ResultDisplay::markdown(format!("{command}\n\nin /w/src\nwith A=x y"))),
        ..make_question(
            "Run `cd src`",
            "running `git push origin main`: no rule allows it",
            vec![Effect::Exec(execution)],
        )
    };
    insta::assert_snapshot!(render_plain(&question).replace(" \n", "\n").trim(), @r"
    ? Run `cd src`
      risk    high
      why     running `git push origin main`: no rule allows it
      run     │ cd src
              │   risk    low
              │ git push origin main && curl -o /etc/x
              ┆ https://example.com/\tlong
      in      /w/src
      with    A='x y'
      parts   ask    git push origin main
                       its remote is not known
      writes  ask    /etc/x
                       protected: a system file; always asks, no
                       rule can allow it
      hosts   ask    example.com
                       no rule allows this host
      reads   allow  /w/src/a
    ");
}

#[test]
fn single_command_prompt_lists_no_parts() {
    let question = ApprovalQuestion {
        judged: vec![make_judged_effect("exec", "make", Verdict::Ask, "no rule allows it")],
        ..make_question(
            "Run `make`",
            "running `make`: no rule allows it",
            vec![Effect::Exec(CommandExecution::from_shell("make"))],
        )
    };
    insta::assert_snapshot!(render_plain(&question).trim(), @r"
    ? Run `make`
      risk    high
      why     running `make`: no rule allows it
      run     │ make
      in      /w
    ");
}

#[test]
fn unexpanded_words_are_quoted_apart() {
    #[track_caller]
    fn check(words: &[&str], expected: &str) {
        let command = CommandLine::Program(words.iter().map(|word| (*word).to_owned()).collect());
        let execution = CommandExecution::new(command);
        assert_eq!(spell_out_words(&execution), expected);
    }
    check(&["ls", "-l", "a.txt"], "ls -l a.txt");
    check(&["rm", "a b", "$HOME", "it's", ""], r"rm 'a b' '$HOME' 'it'\''s' ''");
}

#[test]
fn command_prompt_never_truncates_or_hides() {
    let line = format!("true{};\x1b[8mrm -rf x\u{202e}", " ".repeat(300));
    let effects = vec![Effect::Exec(CommandExecution::from_shell(&line))];
    let seen = render_plain(&make_question("Run", "why", effects));
    let rows = seen.lines().filter_map(|row| row.split_once("│ ").or(row.split_once("┆ ")));
    let whole: String = rows.map(|(_, text)| text).collect();
    assert_eq!(whole, line.replace('\x1b', "\\u{1b}").replace('\u{202e}', "\\u{202e}"));
    assert!(seen.lines().all(|row| row.chars().count() <= 60), "{seen}");
}

#[test]
fn folded_prompt_keeps_command_risk_and_rules() {
    let rule = GrantScope { rule: "Bash(make:*)".to_owned(), folder: None, program: None };
    let judged = |number: usize| {
        make_judged_effect("read", &format!("/w/{number}"), Verdict::Ask, "it is there")
    };
    let question = ApprovalQuestion {
        judged: (0..40).map(judged).collect(),
        grants: vec![rule],
        preview: Some(ResultDisplay::markdown("line\n".repeat(300))),
        ..make_question(
            "Run `make`",
            "why",
            vec![Effect::Exec(CommandExecution::from_shell("make"))],
        )
    };
    let prompt = render_prompt(&question);
    for rows_max in [12, 20, 36] {
        let fitted = prompt.fit(rows_max);
        let seen = fitted.rows.join("\n");
        assert_eq!(fitted.rows.len(), rows_max, "{seen}");
        for part in ["Run `make`", "risk    high", "run     │ make", "rules   Bash(make:*)"] {
            assert!(seen.contains(part), "{part}: {seen}");
        }
        let folded = prompt.all_rows().len() - (fitted.rows.len() - 1) - 1;
        assert!(seen.ends_with(&format!("  … {folded} more rows; v shows all")), "{seen}");
        assert_eq!((fitted.folded, fitted.folds_command), (folded, false));
    }
    let all = prompt.fit(1_000);
    assert_eq!((all.rows.len(), all.folded), (prompt.all_rows().len(), 0));
}

#[test]
fn prompt_in_very_small_window_keeps_command_risk_and_rules() {
    let rule = GrantScope { rule: "Bash(make:*)".to_owned(), folder: None, program: None };
    for (lines, rows_max) in [(1, 5), (300, 5), (300, 7), (300, 11)] {
        let command: String = (1..=lines).map(|line| format!("step {line}\n")).collect();
        let question = ApprovalQuestion {
            grants: vec![rule.clone()],
            judged: vec![make_judged_effect("read", "/w/x", Verdict::Ask, "it is there")],
            preview: Some(ResultDisplay::markdown("line\n".repeat(300))),
            ..make_question(
                "Run `step`",
                &"why ".repeat(60),
                vec![Effect::Exec(CommandExecution::from_shell(&command))],
            )
        };
        let prompt = render_prompt(&question);
        let fitted = prompt.fit(rows_max);
        let seen = fitted.rows.join("\n");
        assert_eq!(fitted.rows.len(), rows_max, "{seen}");
        for part in ["Run `step`", "risk    high", "run     │ step 1", "rules   Bash(make:*)"] {
            assert!(seen.contains(part), "{part}: {seen}");
        }
        assert_eq!(seen.contains("│ step 300"), rows_max > 5, "{seen}");
        assert_eq!(fitted.folds_command, lines > 1);
        let shown = fitted.rows.len() - 1 - usize::from(seen.contains(" rows …"));
        // Neither the blank row before the title nor that before the preview hides anything.
        let folded = prompt.all_rows().len() - 2 - shown;
        assert!(seen.ends_with(&format!("  … {folded} more rows; v shows all")), "{seen}");
    }
}

#[test]
fn long_command_shows_its_start_and_end() {
    let command: String = (1..=100).map(|line| format!("step {line}\n")).collect();
    let effects = vec![Effect::Exec(CommandExecution::from_shell(&command))];
    let prompt = render_prompt(&make_question("Run", "why", effects));
    let fitted = prompt.fit(16);
    let seen = fitted.rows.join("\n");
    assert!(fitted.folds_command && fitted.rows.len() <= 16, "{seen}");
    assert!(seen.contains("run     │ step 1\n") && seen.contains("│ step 100\n"), "{seen}");
    let hidden = 100 - seen.matches("│ step ").count();
    assert!(seen.contains(&format!("┆ … {hidden} rows …")), "{seen}");
    assert!(prompt.all_rows().iter().any(|row| row.contains("│ step 50")));
}

#[test]
fn many_rows_are_truncated() {
    let names = (0..ROWS_MAX + 5).map(|number| format!("/w/{number}"));
    let mut judged: Vec<EffectDecision> = names
        .map(|name| make_judged_effect("read", &name, Verdict::Allow, "it is there"))
        .collect();
    judged.push(make_judged_effect("read", "/etc/passwd", Verdict::Ask, "it is outside"));
    let seen = render_plain(&ApprovalQuestion { judged, ..make_question("Read", "why", vec![]) });
    assert!(seen.contains("… and 6 more"), "{seen}");
    let first = seen.find("/etc/passwd").unwrap();
    assert!(first < seen.find("/w/0").unwrap(), "what asks comes first: {seen}");
}

#[test]
fn preview_cannot_imitate_the_question() {
    let padding = "\t界é ".repeat(60);
    let text = format!("POST https://x.org\n\n  risk    low\n{padding}Allow? [y/N] y\n");
    let seen = render_plain(&ApprovalQuestion {
        preview: Some(ResultDisplay::markdown(text.clone())),
        ..make_question("Request", "why", vec![])
    });
    let (_, preview) = seen.split_once("why     why\n\n").unwrap();
    let rows: Vec<&str> = preview.trim_end().lines().collect();
    assert!(rows.iter().all(|row| row.starts_with("  │") || row.starts_with("  ┆")), "{seen}");
    let whole: String = rows.iter().map(|row| row.chars().skip(4).collect::<String>()).collect();
    let blankless = |text: &str| text.split_whitespace().collect::<String>();
    assert_eq!(blankless(&whole), blankless(&text));
    // No row is so wide that the terminal wraps it.
    let columns =
        |letter: char| if letter == '\t' { 8 } else { 1 + usize::from(!letter.is_ascii()) };
    let width = |row: &str| 4 + row.chars().skip(4).map(columns).sum::<usize>();
    assert!(rows.iter().all(|row| width(row) <= 60), "{seen}");
}

#[test]
fn preview_does_not_repeat_command() {
    #[track_caller]
    fn check(preview: &str, expected: Option<&str>) {
        let question = ApprovalQuestion {
            preview: Some(ResultDisplay::markdown(preview.to_owned())),
            ..make_question(
                "Run `make`",
                "it asks",
                vec![Effect::Exec(CommandExecution::from_shell("make"))],
            )
        };
        let shown = render_plain(&question);
        assert_eq!(shown.matches("make").count(), 2, "{preview:?}: {shown}");
        let (_, after) = shown.split_once("in      /w\n").unwrap();
        let after: Vec<&str> =
            after.trim().lines().map(|line| line.trim().trim_start_matches("│ ")).collect();
        assert_eq!(after.join("\n"), expected.unwrap_or_default(), "{preview:?}");
    }
    check("make\n\nin /w", None);
    check("make\n\nin /w\nin the background", Some("in the background"));
    let arguments = "with this on its input:\n{\n  \"path\": \"/etc\"\n}";
    check(&format!("make\n\nin /w\n\n{arguments}"), Some(arguments));
    check("quite\nanother", Some("quite\nanother"));
}
