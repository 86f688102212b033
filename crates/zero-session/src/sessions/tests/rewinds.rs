//! Rewinds: what the model gets afterwards, when they are refused, and how they survive a failure.

use zero_runtime::tool_backend::FolderAccess;

use super::fixture::{ScriptedToolBackend, SessionTestBed, run_id};
use crate::event::{EventKind, RewindScope};
use crate::rewind_arguments::RewindTarget;
use crate::sessions::{RewindOptions, SessionError};
use crate::store::Store as _;

fn to_prompt(number: u64) -> RewindOptions {
    let (target, reach) = (RewindTarget::Prompt(number), FolderAccess::Anywhere);
    RewindOptions { target, folder_access: reach, ..RewindOptions::default() }
}

fn undo() -> RewindOptions {
    let (target, reach) = (RewindTarget::LastRewind, FolderAccess::Anywhere);
    RewindOptions { target, folder_access: reach, ..RewindOptions::default() }
}

/// The texts of the messages that the model would get.
async fn messages(fixture: &SessionTestBed) -> String {
    let transcript = fixture.sessions.transcript(&fixture.key, None).await.unwrap();
    let texts: Vec<String> = transcript.messages.iter().map(|message| message.text()).collect();
    texts.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join(" / ")
}

fn rewind_log(fixture: &SessionTestBed) -> Vec<String> {
    let log = fixture.backend.log.lock().unwrap();
    log.iter().filter(|line| line.starts_with("rewind ")).cloned().collect()
}

#[tokio::test]
async fn rewind_cuts_conversation_and_is_taken_back() {
    let fixture = SessionTestBed::new(&["1", "Write:1", "2", "3", "4"]).await;
    for prompt in ["one", "two", "three"] {
        fixture.run(prompt).await;
    }
    let all = messages(&fixture).await;
    let done = fixture.sessions.rewind(&fixture.key, to_prompt(2)).await.unwrap();
    assert!(done.is_done);
    assert_eq!(done.prompt, Some((2, "two".to_owned())));
    assert_eq!(messages(&fixture).await, "one / 1");
    assert!(fixture.ledger_lines().await.ends_with("rewound files and conversation to prompt 2"));
    let prompts = fixture.sessions.list_prompts(&fixture.key).await.unwrap();
    let in_effect: Vec<bool> = prompts.iter().map(|prompt| prompt.is_in_effect).collect();
    assert_eq!(in_effect, [true, false, false]);
    let error = fixture.sessions.rewind(&fixture.key, to_prompt(3)).await.unwrap_err();
    assert!(error.to_string().contains("prompt 3 was taken back by a rewind"), "{error}");
    fixture.run("four").await;
    assert_eq!(messages(&fixture).await, "one / 1 / four / 4");
    fixture.sessions.rewind(&fixture.key, undo()).await.unwrap();
    assert_eq!(messages(&fixture).await, all);
    // And that is taken back, too.
    fixture.sessions.rewind(&fixture.key, undo()).await.unwrap();
    assert_eq!(messages(&fixture).await, "one / 1 / four / 4");
    let log = rewind_log(&fixture);
    assert_eq!(log.len(), 3, "{log:?}");
    assert!(log[0].ends_with(" 1 calls"), "the call of prompt 2: {log:?}");
    fixture.check_ledger().await;
}

#[tokio::test]
async fn rewind_to_prompt_that_went_first_takes_back_those_that_waited() {
    for wanted in [3, 4] {
        let script = ["0", "Hang:1", "Write:2", "steering", "Write:3", "done"];
        let fixture = SessionTestBed::new(&script).await;
        fixture.run("zero").await;
        fixture.send("one").await;
        fixture.wait_for_line("tool Hang").await;
        fixture.send("two").await;
        fixture.steer("now").await;
        fixture.wait_for_run("two").await;
        let all = messages(&fixture).await;
        let prompts = fixture.sessions.list_prompts(&fixture.key).await.unwrap();
        let words: Vec<&str> = prompts.iter().map(|prompt| prompt.words.as_str()).collect();
        assert_eq!(words, ["zero", "one", "two", "now"]);
        let done = fixture.sessions.rewind(&fixture.key, to_prompt(wanted)).await.unwrap();
        // Prompt 3 was sent before prompt 4, and ran after it.
        assert_eq!(done.prompt, Some((3, "two".to_owned())));
        let left = messages(&fixture).await;
        assert!(left.starts_with("zero / 0"), "{left}");
        assert!(!left.contains("steering") && !left.contains("done"), "{left}");
        let prompts = fixture.sessions.list_prompts(&fixture.key).await.unwrap();
        let in_effect: Vec<bool> = prompts.iter().map(|prompt| prompt.is_in_effect).collect();
        assert_eq!(in_effect, [true, true, false, false]);
        let log = rewind_log(&fixture);
        assert!(log[0].ends_with(" 2 calls"), "{log:?}");
        fixture.sessions.rewind(&fixture.key, undo()).await.unwrap();
        assert_eq!(messages(&fixture).await, all);
        fixture.check_ledger().await;
    }
}

#[tokio::test]
async fn rewind_during_run_is_refused() {
    let fixture = SessionTestBed::new(&["1", "Hang:1"]).await;
    fixture.run("one").await;
    fixture.send("two").await;
    fixture.wait_for_line("tool Hang").await;
    let busy = fixture.sessions.rewind(&fixture.key, to_prompt(1)).await.unwrap_err();
    assert!(matches!(&busy, SessionError::Busy(why) if why.contains("stop it")), "{busy}");
    fixture.sessions.abort(&fixture.key, None, "rpc").await.unwrap();
    fixture.wait_for_run("two").await;
    fixture.sessions.rewind(&fixture.key, to_prompt(1)).await.unwrap();
    assert_eq!(messages(&fixture).await, "");
}

#[tokio::test]
async fn rewind_that_failed_after_files_is_completed_by_the_next() {
    let fixture = SessionTestBed::new(&["1", "2"]).await;
    fixture.run("one").await;
    fixture.run("two").await;
    let all = messages(&fixture).await;
    // The claim is written first, then the rewind.
    let mut failures = 0;
    for write in 1..=3 {
        fixture.store.fail_writes([write]);
        let done = fixture.sessions.rewind(&fixture.key, to_prompt(2)).await;
        if let Err(error) = done {
            assert!(error.to_string().contains("the disk is full"), "{error}");
            assert_eq!(messages(&fixture).await, all, "nothing of the conversation is changed");
            failures += 1;
            continue;
        }
        assert_eq!(messages(&fixture).await, "one / 1");
        break;
    }
    assert!(failures > 0, "no write failed");
    let log = rewind_log(&fixture);
    assert!(log.len() > 1, "files were taken back before the failure: {log:?}");
    assert!(log.iter().all(|line| *line == log[0]), "by the same rewind: {log:?}");
    // The next one is another.
    fixture.store.fail_writes([]);
    fixture.sessions.rewind(&fixture.key, to_prompt(1)).await.unwrap();
    assert_ne!(rewind_log(&fixture).pop().unwrap(), log[0]);
}

#[tokio::test]
async fn rewind_without_tools_is_of_conversation_only() {
    let fixture = SessionTestBed::new(&["1", "2"]).await;
    fixture.run("one").await;
    let client = ScriptedToolBackend {
        log: Default::default(),
        order: None,
        name: "laptop".to_owned(),
        store: None,
        silent: false,
    };
    let attached =
        fixture.sessions.attach_backend(&fixture.key, "laptop", std::sync::Arc::new(client)).await;
    drop(attached.unwrap());
    let away = fixture.sessions.rewind(&fixture.key, to_prompt(1)).await.unwrap_err();
    assert!(away.to_string().contains("laptop, which is not connected"), "{away}");
    let only = RewindOptions { scope: RewindScope::Conversation, ..to_prompt(1) };
    fixture.sessions.rewind(&fixture.key, only).await.unwrap();
    assert_eq!(messages(&fixture).await, "");
    // Taken back, it is of the conversation only, too.
    let done = fixture.sessions.rewind(&fixture.key, undo()).await.unwrap();
    assert_eq!(done.scope, RewindScope::Conversation);
    assert_eq!(messages(&fixture).await, "one / 1");
}

#[tokio::test]
async fn slash_rewind_works_in_its_own_run() {
    let fixture = SessionTestBed::new(&["1", "2", "3"]).await;
    fixture.run("one").await;
    fixture.run("two").await;
    fixture.run("/rewind 2 conversation").await;
    assert_eq!(messages(&fixture).await, "one / 1");
    let events = fixture.store.ledger(&fixture.record().await.id);
    let rewound =
        events.iter().find(|event| matches!(event.kind, EventKind::Rewound { .. })).unwrap();
    assert_eq!(rewound.run, Some(run_id("/rewind 2 conversation")));
    // The default target is no request to rewind.
    fixture.run("/rewind").await;
    let last = RewindOptions { scope: RewindScope::Conversation, ..RewindOptions::default() };
    let done = fixture.sessions.rewind(&fixture.key, last).await.unwrap();
    assert_eq!(done.prompt, Some((1, "one".to_owned())));
    fixture.check_ledger().await;
}

#[tokio::test]
async fn only_prompts_to_model_are_checkpoints_by_default() {
    let fixture = SessionTestBed::new(&["1", "2", "3"]).await;
    let last = || RewindOptions { folder_access: FolderAccess::Anywhere, ..Default::default() };
    fixture.run("/help").await;
    let error = fixture.sessions.rewind(&fixture.key, last()).await.unwrap_err();
    assert!(
        error.to_string().contains("no prompt of this conversation went to a model"),
        "{error}"
    );
    for prompt in ["one", "/review this", "/context", "/read a", "/bash ls", "/hlep", "/status"] {
        fixture.run(prompt).await;
    }
    // The others keep their numbers.
    let listed = async || {
        let prompts = fixture.sessions.list_prompts(&fixture.key).await.unwrap();
        let names = prompts.into_iter().map(|prompt| format!("{} {}", prompt.number, prompt.words));
        names.collect::<Vec<_>>().join(", ")
    };
    assert_eq!(listed().await, "2 one, 3 /review this");
    let done = fixture.sessions.rewind(&fixture.key, last()).await.unwrap();
    assert_eq!(done.prompt, Some((3, "/review this".to_owned())));
    let done = fixture.sessions.rewind(&fixture.key, to_prompt(1)).await.unwrap();
    assert_eq!(done.prompt, Some((1, "/help".to_owned())));
    fixture.check_ledger().await;
}

#[tokio::test]
async fn fork_before_prompt_needs_no_idle_session() {
    let fixture = SessionTestBed::new(&["1", "2", "Hang:1"]).await;
    for prompt in ["one", "two"] {
        fixture.run(prompt).await;
    }
    fixture.send("three").await;
    fixture.wait_for_line("tool Hang").await;
    let copy = fixture.sessions.fork(&fixture.key, Some("copy"), Some(2)).await.unwrap();
    let transcript = fixture.store.transcript(&copy.id, None).await.unwrap();
    let texts: Vec<String> = transcript.messages.iter().map(|message| message.text()).collect();
    assert_eq!(texts, ["one", "1"]);
    for wrong in [0, 9] {
        let error = fixture.sessions.fork(&fixture.key, None, Some(wrong)).await.unwrap_err();
        let expected = format!(
            "there is no prompt {wrong}; the prompts of this session have the numbers 1 to 3"
        );
        assert_eq!(error.to_string(), expected);
    }
    fixture.sessions.abort(&fixture.key, None, "rpc").await.unwrap();
    fixture.wait_for_run("three").await;
}
