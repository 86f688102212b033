//! The life cycle of servers: started once for all callers, restarted after a crash, stopped when
//! unused.

use std::path::Path;
use std::time::Duration;

use zero_core::{ErrorReason, ErrorType};
use zero_lsp::{LanguageServerLimits, LspError};

use crate::fixture::{LONG_TIMEOUT, LspFixture, is_process_alive, test_limits, wait_until};

#[tokio::test]
async fn one_server_is_shared_by_all_callers() {
    let arena = LspFixture::new(&["good"]);
    assert!(arena.servers.running_for_file(&arena.file_path("good")).is_none());
    let (first, second) = tokio::join!(arena.start_server("good"), arena.start_server("good"));
    let (first, second) = (first.unwrap(), second.unwrap());
    assert_eq!(first.pid(), second.pid());
    let (running, language) = arena.servers.running_for_file(&arena.file_path("good")).unwrap();
    assert_eq!((running.pid(), language.as_str()), (first.pid(), "good"));
    let ask = || arena.hover("good");
    let answers = tokio::join!(ask(), ask(), ask(), ask());
    for answer in [answers.0, answers.1, answers.2, answers.3] {
        assert_eq!(answer.unwrap().unwrap(), "fine");
    }
}

#[tokio::test]
async fn dead_server_is_restarted_a_bounded_number_of_times() {
    let arena = LspFixture::new(&["crash-once", "crash-on-ask"]);
    let error = arena.hover("crash-once").await.unwrap_err();
    assert!(error.is_worth_restart() && error.to_string().contains("out of luck"), "{error}");
    assert_eq!(arena.hover("crash-once").await.unwrap().unwrap(), "recovered");
    for _ in 0..test_limits().failures_max {
        assert!(arena.hover("crash-on-ask").await.unwrap_err().is_worth_restart());
    }
    let error = arena.hover("crash-on-ask").await.unwrap_err();
    let LspError::CoolingDown { failures, why, .. } = error else { panic!("{error}") };
    assert_eq!(failures, test_limits().failures_max);
    assert!(why.contains("signal 6"), "{why}");
}

#[tokio::test]
async fn untrusted_folder_starts_no_server() {
    let arena = LspFixture::new(&["good"]);
    let mark = arena.workspace_path().join("untrusted");
    std::fs::write(&mark, "").unwrap();
    // Repeated, since this must not count as a failure of the server.
    for _ in 0..=test_limits().failures_max {
        let error = arena.start_server("good").await.err().unwrap();
        let LspError::Untrusted { folder, why } = &error else { panic!("{error}") };
        assert_eq!((Path::new(folder), why.as_str()), (&*arena.workspace_path(), "trust it first"));
        let error = error.to_tool_error();
        assert_eq!(error.error_type, ErrorType::PermissionDenied);
        assert_eq!(error.reason(), Some(ErrorReason::Untrusted));
        assert!(arena.servers.running_for_file(&arena.file_path("good")).is_none());
    }
    std::fs::remove_file(&mark).unwrap();
    let server = arena.start_server("good").await.unwrap();
    assert_eq!(arena.servers.verify_lease(&server).await, Ok(()));
    // Once trust is revoked, the reply is not used and the server is stopped.
    std::fs::write(&mark, "").unwrap();
    let refused = arena.servers.verify_lease(&server).await.unwrap_err();
    assert!(matches!(refused, LspError::Untrusted { .. }), "{refused}");
    assert!(!server.is_alive() && !is_process_alive(server.pid()));
}

#[tokio::test]
async fn idle_server_is_shut_down() {
    let idle_max = Duration::from_millis(300);
    let arena = LspFixture::with_limits(
        &["good", "ignores-the-end"],
        LanguageServerLimits { idle_max, ..test_limits() },
        |_| {},
    );
    for (mode, other) in [("good", "ignores-the-end"), ("ignores-the-end", "good")] {
        // A server in use is not stopped, though it is older than one that is.
        let used = arena.start_server(other).await.unwrap();
        let server = arena.start_server(mode).await.unwrap();
        let pid = server.pid();
        drop(server);
        wait_until("its end", || !is_process_alive(pid)).await;
        assert!(arena.servers.running_for_file(&arena.file_path(mode)).is_none(), "{mode}");
        assert!(used.is_alive() && is_process_alive(used.pid()), "{other}");
        assert!(arena.start_server(mode).await.is_ok(), "{mode}");
    }
}

#[tokio::test]
async fn running_servers_are_bounded() {
    let arena = LspFixture::with_limits(
        &["good", "utf-8"],
        LanguageServerLimits { servers_max: 1, ..test_limits() },
        |_| {},
    );
    let first = arena.start_server("good").await.unwrap();
    assert_eq!(arena.start_server("utf-8").await.err(), Some(LspError::TooMany(1)));
    let pid = first.pid();
    drop(first);
    let second = arena.start_server("utf-8").await.unwrap();
    wait_until("the end of the first", || !is_process_alive(pid)).await;
    drop(second);
    assert!(arena.start_server("good").await.is_ok());
}

#[tokio::test]
async fn server_ends_with_its_host() {
    let arena = LspFixture::new(&["good", "ignores-the-end"]);
    let (first, second) =
        (arena.start_server("good").await, arena.start_server("ignores-the-end").await);
    let pids = [first.unwrap().pid(), second.unwrap().pid()];
    drop(arena);
    wait_until("their end", || pids.iter().all(|pid| !is_process_alive(*pid))).await;
    let arena = LspFixture::new(&["good"]);
    let pid = arena.start_server("good").await.unwrap().pid();
    tokio::time::timeout(LONG_TIMEOUT, arena.servers.stop()).await.unwrap();
    assert!(!is_process_alive(pid));
}
