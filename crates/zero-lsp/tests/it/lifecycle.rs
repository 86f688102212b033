//! How long servers live: started once for all, again after they died, ended when nobody asks.

use std::path::Path;
use std::time::Duration;

use zero_core::{ErrorReason, ErrorType};
use zero_lsp::{LanguageServerLimits, LspError};

use crate::fixture::{LONG, LspFixture, bounds, is_there, until};

#[tokio::test]
async fn one_server_answers_all_who_ask() {
    let arena = LspFixture::new(&["good"]);
    assert!(arena.servers.running_for(&arena.file("good")).is_none());
    let (first, second) = tokio::join!(arena.server("good"), arena.server("good"));
    let (first, second) = (first.unwrap(), second.unwrap());
    assert_eq!(first.pid(), second.pid());
    let (running, language) = arena.servers.running_for(&arena.file("good")).unwrap();
    assert_eq!((running.pid(), language.as_str()), (first.pid(), "good"));
    let ask = || arena.hover("good");
    let answers = tokio::join!(ask(), ask(), ask(), ask());
    for answer in [answers.0, answers.1, answers.2, answers.3] {
        assert_eq!(answer.unwrap().unwrap(), "fine");
    }
}

#[tokio::test]
async fn one_that_died_is_started_again_and_not_for_ever() {
    let arena = LspFixture::new(&["crash-once", "crash-on-ask"]);
    let error = arena.hover("crash-once").await.unwrap_err();
    assert!(error.is_of_this_life() && error.to_string().contains("out of luck"), "{error}");
    assert_eq!(arena.hover("crash-once").await.unwrap().unwrap(), "recovered");
    for _ in 0..bounds().failures_max {
        assert!(arena.hover("crash-on-ask").await.unwrap_err().is_of_this_life());
    }
    let error = arena.hover("crash-on-ask").await.unwrap_err();
    let LspError::Resting { failures, why, .. } = error else { panic!("{error}") };
    assert_eq!(failures, bounds().failures_max);
    assert!(why.contains("signal 6"), "{why}");
}

#[tokio::test]
async fn none_runs_where_the_folder_is_not_trusted() {
    let arena = LspFixture::new(&["good"]);
    let mark = arena.work().join("untrusted");
    std::fs::write(&mark, "").unwrap();
    // As often as one likes: that is no failure of the server.
    for _ in 0..=bounds().failures_max {
        let error = arena.server("good").await.err().unwrap();
        let LspError::Untrusted { folder, why } = &error else { panic!("{error}") };
        assert_eq!((Path::new(folder), why.as_str()), (&*arena.work(), "trust it first"));
        let error = error.for_call();
        assert_eq!(error.error_type, ErrorType::PermissionDenied);
        assert_eq!(error.reason(), Some(ErrorReason::Untrusted));
        assert!(arena.servers.running_for(&arena.file("good")).is_none());
    }
    std::fs::remove_file(&mark).unwrap();
    let server = arena.server("good").await.unwrap();
    assert_eq!(arena.servers.vouch(&server).await, Ok(()));
    // Taken back, nothing of what it said is told, and it ends.
    std::fs::write(&mark, "").unwrap();
    let refused = arena.servers.vouch(&server).await.unwrap_err();
    assert!(matches!(refused, LspError::Untrusted { .. }), "{refused}");
    assert!(!server.is_alive() && !is_there(server.pid()));
}

#[tokio::test]
async fn one_that_nobody_asks_ends() {
    let idle_max = Duration::from_millis(300);
    let arena = LspFixture::with(
        &["good", "ignores-the-end"],
        LanguageServerLimits { idle_max, ..bounds() },
        |_| {},
    );
    for mode in ["good", "ignores-the-end"] {
        let server = arena.server(mode).await.unwrap();
        let pid = server.pid();
        // In use, it stays.
        tokio::time::sleep(4 * idle_max).await;
        assert!(server.is_alive() && is_there(pid), "{mode}");
        drop(server);
        until("its end", || !is_there(pid)).await;
        assert!(arena.servers.running_for(&arena.file(mode)).is_none(), "{mode}");
        assert!(arena.server(mode).await.is_ok(), "{mode}");
    }
}

#[tokio::test]
async fn only_so_many_run_at_a_time() {
    let arena = LspFixture::with(
        &["good", "utf-8"],
        LanguageServerLimits { servers_max: 1, ..bounds() },
        |_| {},
    );
    let first = arena.server("good").await.unwrap();
    assert_eq!(arena.server("utf-8").await.err(), Some(LspError::TooMany(1)));
    let pid = first.pid();
    drop(first);
    let second = arena.server("utf-8").await.unwrap();
    until("the end of the first", || !is_there(pid)).await;
    drop(second);
    assert!(arena.server("good").await.is_ok());
}

#[tokio::test]
async fn none_outlives_its_host() {
    let arena = LspFixture::new(&["good", "ignores-the-end"]);
    let (first, second) = (arena.server("good").await, arena.server("ignores-the-end").await);
    let pids = [first.unwrap().pid(), second.unwrap().pid()];
    drop(arena);
    until("their end", || pids.iter().all(|pid| !is_there(*pid))).await;
    let arena = LspFixture::new(&["good"]);
    let pid = arena.server("good").await.unwrap().pid();
    tokio::time::timeout(LONG, arena.servers.stop()).await.unwrap();
    assert!(!is_there(pid));
}
