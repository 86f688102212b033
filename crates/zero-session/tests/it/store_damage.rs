//! Damage in a store: it concerns one session, is found by a check, and says what to do.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::Connection;
use tempfile::TempDir;
use zero_core::RunId;
use zero_session::event::{Event, EventKind, RunOutcome, TokenUsage};
use zero_session::key::{SessionAddress, SessionKey};
use zero_session::message::ModelMessage;
use zero_session::sqlite_store::{DamagedSession, SqliteStore};
use zero_session::store::{
    BeginRunOutcome, IdleSessionQuery, LedgerReadLimit, NewRun, NewSession, RunAddress,
    SessionQuery, SessionRecord, Store, StoreError, ToolHostLocation,
};

use crate::store::text_event;

const PAGE_BYTES: usize = 4096;
const ALL: LedgerReadLimit = LedgerReadLimit::with_entries(10_000);
/// Longer than any check here takes.
const TIME_MAX: Duration = Duration::from_secs(60);

fn session(name: &str) -> NewSession {
    NewSession {
        key: SessionKey::resolve(name, "main").unwrap(),
        label: None,
        cwd: None,
        model: None,
        mode: None,
        owner: "local".to_owned(),
        owned_max: 9,
        tool_host: ToolHostLocation::Gateway,
        parent: None,
    }
}

/// Two sessions with entries of their own.
async fn two_sessions() -> (TempDir, PathBuf, [SessionRecord; 2]) {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("sessions.db");
    let store = SqliteStore::open(&path).unwrap();
    let mut made = Vec::new();
    for name in ["one", "two"] {
        let record = store.create(session(name)).await.unwrap();
        let text = format!("entry of {name} ").repeat(20);
        let entries = (0..100).map(|_| text_event(text.clone())).collect();
        store.append(&record.id, None, entries).await.unwrap();
        made.push(record);
    }
    (temp, path, made.try_into().unwrap())
}

fn change(path: &Path, sql: &str) {
    assert_eq!(Connection::open(path).unwrap().execute(sql, []).unwrap(), 1, "{sql}");
}

fn opaque_kind(event: &Event) -> Option<&str> {
    match &event.kind {
        EventKind::Opaque(opaque) => Some(opaque.kind()),
        _ => None,
    }
}

#[tokio::test]
async fn unreadable_entry_is_reported_in_its_place() {
    let (_temp, path, [one, two]) = two_sessions().await;
    let of_one = "session = (SELECT row FROM sessions WHERE key LIKE '%one')";
    change(&path, &format!("UPDATE events SET body = '{{\"type\":' WHERE {of_one} AND seq = 3"));
    change(
        &path,
        &format!("UPDATE events SET body = CAST(x'ff' AS TEXT) WHERE {of_one} AND seq = 4"),
    );
    let newer = r#"{"type":"hologram","beam":1}"#;
    change(
        &path,
        &format!("UPDATE events SET body = '{newer}', run = '' WHERE {of_one} AND seq = 5"),
    );
    // Of a kind that is known, and without what it needs.
    change(
        &path,
        &format!("UPDATE events SET body = '{{\"type\":\"text\"}}' WHERE {of_one} AND seq = 9"),
    );
    change(
        &path,
        &format!("UPDATE events SET run = CAST(x'ff' AS TEXT) WHERE {of_one} AND seq = 10"),
    );
    let store = SqliteStore::open(&path).unwrap();
    let events = store.events(&one.id, 0, ALL).await.unwrap();
    assert_eq!(events.len(), 100);
    let kinds: Vec<_> = events.iter().skip(1).take(5).map(opaque_kind).collect();
    assert_eq!(
        kinds,
        [None, Some("unreadable"), Some("unreadable"), Some("hologram"), None],
        "{events:?}"
    );
    let newest = store.last_events(&one.id, 6, LedgerReadLimit::with_entries(2)).await.unwrap();
    assert_eq!(newest.iter().map(|event| event.seq).collect::<Vec<_>>(), [4, 5]);
    assert!(store.events(&two.id, 0, ALL).await.unwrap().iter().all(|e| opaque_kind(e).is_none()));
    let found = store.check(TIME_MAX).unwrap();
    let damaged = DamagedSession {
        row: 1,
        owner: one.owner.clone(),
        key: one.key.to_string(),
        entries: 3,
        ..DamagedSession::default()
    };
    assert_eq!((found.problems, found.sessions, found.is_complete), (vec![], vec![damaged], true));
}

#[tokio::test]
async fn unreadable_session_is_not_listed_and_others_are() {
    let (_temp, path, [one, two]) = two_sessions().await;
    change(&path, "UPDATE sessions SET usage = 'x' WHERE key LIKE '%one'");
    let store = SqliteStore::open(&path).unwrap();
    let listed = store.list(SessionQuery::default()).await.unwrap().sessions;
    assert_eq!(listed.iter().map(|session| &session.id).collect::<Vec<_>>(), [&two.id]);
    let error = store.session(&SessionAddress::new(&one.owner, one.key)).await.unwrap_err();
    assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
    assert!(error.to_string().contains("`zero doctor`"), "{error}");
}

/// Such a session is in no page, hides no other one and shows none twice.
#[tokio::test]
async fn unreadable_sessions_do_not_move_pages() {
    let (_temp, path, _) = two_sessions().await;
    let store = SqliteStore::open(&path).unwrap();
    for name in ["three", "four", "five"] {
        store.create(session(name)).await.unwrap();
    }
    for name in ["two", "four"] {
        change(&path, &format!("UPDATE sessions SET usage = 'x' WHERE key LIKE '%:{name}'"));
    }
    for limit in 1..=3 {
        let mut keys = Vec::new();
        let mut query = SessionQuery { limit: Some(limit), ..SessionQuery::default() };
        loop {
            let page = store.list(query.clone()).await.unwrap();
            keys.extend(page.sessions.into_iter().map(|session| session.key.name().to_owned()));
            let Some(next) = query.next_offset(page.total) else { break };
            query.offset = usize::try_from(next).unwrap();
        }
        keys.sort();
        assert_eq!(keys, ["five", "one", "three"], "pages of {limit}");
    }
}

/// Damages a page in the middle of the entries of the first session.
fn damage_page(path: &Path) {
    let mut bytes = std::fs::read(path).unwrap();
    let has = |page: &[u8], text: &str| page.windows(text.len()).any(|at| at == text.as_bytes());
    let pages = bytes.chunks_mut(PAGE_BYTES).skip(1);
    let mut pages = pages.filter(|page| has(page, "entry of one") && !has(page, "entry of two"));
    pages.nth(1).expect("a page with entries of one session only")[..8].fill(0xff);
    std::fs::write(path, &bytes).unwrap();
}

#[tokio::test]
async fn damaged_page_concerns_only_its_entries() {
    let (_temp, path, [one, two]) = two_sessions().await;
    damage_page(&path);
    let store = SqliteStore::open(&path).unwrap();
    // Forwards, by pages.
    let most = LedgerReadLimit::with_entries(7);
    let mut read: Vec<Event> = Vec::new();
    for _ in 0..100 {
        let after = read.last().map_or(0, |event| event.seq);
        let page = store.events(&one.id, after, most).await.unwrap();
        if page.is_empty() {
            break;
        }
        read.extend(page);
    }
    let seqs: Vec<u64> = read.iter().map(|event| event.seq).collect();
    assert_eq!(seqs, (1..=100).collect::<Vec<_>>(), "each once, in order");
    let is_damaged = |event: &&Event| opaque_kind(event) == Some("unreadable");
    let damaged = read.iter().filter(is_damaged).count();
    assert!((1..50).contains(&damaged), "{damaged}");
    assert!(opaque_kind(&read[0]).is_none() && opaque_kind(&read[99]).is_none(), "{read:?}");
    // Backwards, and within a number of bytes.
    let all = store.last_events(&one.id, u64::MAX, ALL).await.unwrap();
    assert_eq!(all.iter().filter(is_damaged).count(), damaged);
    assert_eq!(all.iter().map(|event| event.seq).collect::<Vec<_>>(), seqs);
    let few = LedgerReadLimit { entries: 100, bytes: 1_000 };
    let first = store.events(&one.id, 0, few).await.unwrap().len();
    assert!((1..10).contains(&first), "{first}");
    assert_eq!(store.events(&two.id, 0, ALL).await.unwrap().len(), 100);
    store.append(&two.id, None, vec![text_event("goes on")]).await.unwrap();
    let found = store.check(TIME_MAX).unwrap();
    assert!(!found.problems.is_empty() && found.is_complete, "{found:?}");
    let keys: Vec<_> = found.sessions.iter().map(|session| session.key.as_str()).collect();
    assert_eq!(keys, [one.key.as_str()], "{found:?}");
    assert!(found.sessions[0].has_damaged_pages);
}

#[tokio::test]
async fn damaged_deleted_session_stays_alone() {
    let (_temp, path, [one, two]) = two_sessions().await;
    damage_page(&path);
    Connection::open(&path).unwrap().execute("UPDATE sessions SET removed = 1", []).unwrap();
    let store = SqliteStore::open(&path).unwrap();
    for _ in 0..2 {
        let unremoved = store.reclaim().await.unwrap();
        let named: Vec<_> = unremoved.iter().map(|it| (&*it.owner, &*it.key)).collect();
        assert_eq!(named, [(&*one.owner, one.key.as_str())]);
        assert!(unremoved[0].problem.contains("is damaged"), "{unremoved:?}");
    }
    let left = Connection::open(&path).unwrap();
    let left = left.query_row("SELECT count(*), min(id) FROM sessions", [], |row| {
        Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?))
    });
    assert_eq!(left.unwrap(), (1, one.id.to_string()), "{} is removed", two.key);
    let found = store.check(TIME_MAX).unwrap();
    assert!(found.sessions[0].is_deleted && found.sessions[0].has_damaged_pages, "{found:?}");
}

#[tokio::test]
async fn unreadable_session_is_named_and_stops_no_list() {
    for (column, has_id) in [("usage", true), ("tool_host", true), ("id", false)] {
        let (_temp, path, [one, two]) = two_sessions().await;
        change(&path, &format!("UPDATE sessions SET {column} = '' WHERE key LIKE '%one'"));
        let store = SqliteStore::open(&path).unwrap();
        let found = store.check(TIME_MAX).unwrap();
        let damaged = DamagedSession {
            row: 1,
            owner: one.owner.clone(),
            key: one.key.to_string(),
            has_unreadable_settings: true,
            ..DamagedSession::default()
        };
        assert_eq!((found.problems, found.sessions), (vec![], vec![damaged]), "{column}");
        let query = IdleSessionQuery { owner: None, updated_before_ms: i64::MAX, limit: 2 };
        let idle = store.idle_sessions(query).await.unwrap();
        let expected = if has_id { vec![&one.id, &two.id] } else { vec![&two.id] };
        assert_eq!(idle.iter().map(|idle| &idle.id).collect::<Vec<_>>(), expected, "{column}");
        let address = one.address();
        assert_eq!(store.session_id(&address).await.is_ok(), has_id, "{column}");
        assert_eq!(store.delete_unreadable(&address).await.unwrap(), !has_id, "{column}");
        if has_id {
            let claim = crate::store_conformance::claim(&store, &one.id).await;
            store.delete(&one.id, claim).await.unwrap();
        }
        assert_eq!(store.reclaim().await.unwrap(), [], "{column}");
        assert_eq!(store.session(&address).await.unwrap(), None, "{column}");
        assert_eq!(store.check(TIME_MAX).unwrap().sessions, [], "{column}");
    }
}

#[tokio::test]
async fn session_without_readable_name_is_deleted_by_its_row() {
    for (column, value) in [
        ("key", "''"),
        ("key", "CAST(x'ff' AS TEXT)"),
        ("owner", "CAST(x'ff' AS TEXT)"),
        ("id", "''"),
    ] {
        let case = format!("{column} = {value}");
        let (_temp, path, [_, two]) = two_sessions().await;
        change(&path, &format!("UPDATE sessions SET {column} = {value} WHERE key LIKE '%one'"));
        let store = SqliteStore::open(&path).unwrap();
        let found = store.check(TIME_MAX).unwrap().sessions;
        assert_eq!(found.iter().map(|it| it.row).collect::<Vec<_>>(), [1], "{case}");
        assert_eq!(found[0].has_unreadable_name, column != "id", "{case}");
        let unnamed = store.unnamed_sessions().await.unwrap();
        assert_eq!(unnamed.iter().map(|it| it.row).collect::<Vec<_>>(), [1], "{case}");
        // The sessions after it are listed as idle nevertheless.
        let query = IdleSessionQuery { owner: None, updated_before_ms: i64::MAX, limit: 2 };
        let idle = store.idle_sessions(query).await.unwrap();
        assert_eq!(idle.iter().map(|it| &it.id).collect::<Vec<_>>(), [&two.id], "{case}");
        assert!(!store.delete_unnamed(2).await.unwrap(), "{case}: it can be read");
        assert!(!store.delete_unnamed(9).await.unwrap(), "{case}: it does not exist");
        assert!(store.delete_unnamed(1).await.unwrap(), "{case}");
        assert!(!store.delete_unnamed(1).await.unwrap(), "{case}: it is deleted");
        assert_eq!(store.reclaim().await.unwrap(), [], "{case}");
        assert_eq!(store.unnamed_sessions().await.unwrap(), [], "{case}");
        assert_eq!(store.check(TIME_MAX).unwrap().sessions, [], "{case}");
        assert_eq!(store.count().await.unwrap(), 1, "{case}");
    }
}

#[tokio::test]
async fn check_ends_at_its_time_limit() {
    let (_temp, path, _) = two_sessions().await;
    let store = SqliteStore::open(&path).unwrap();
    assert!(!store.check(Duration::ZERO).unwrap().is_complete);
    assert!(store.check(TIME_MAX).unwrap().is_complete);
}

/// Damage that no page tells: the check finds it, and an error says what it is instead of asking to
/// try again.
#[tokio::test]
async fn inconsistent_session_is_found_and_reported_as_damaged() {
    for damage in [
        "UPDATE sessions SET last_seq = 7 WHERE key LIKE '%one'",
        "DELETE FROM transcripts WHERE session = 1",
        "UPDATE runs SET usage = 'x' WHERE session = 1",
        "UPDATE runs SET end = '{' WHERE session = 1",
        "INSERT INTO grants (session, position, body) VALUES (1, 0, 'x')",
    ] {
        let (_temp, path, [one, two]) = two_sessions().await;
        let store = SqliteStore::open(&path).unwrap();
        let run = |session: &SessionRecord, id: u128| NewRun {
            id: RunId::from_bits(id),
            session: session.id.clone(),
            node: "here".to_owned(),
            started_ms: 1,
            options: Default::default(),
            first: vec![text_event("begins")],
        };
        let begun = store.begin_run(run(&one, 1)).await.unwrap();
        let BeginRunOutcome::Started { claim, .. } = begun else { panic!("it is free") };
        let address = RunAddress::new(&one.id, &RunId::from_bits(1));
        let (end, usage) = (RunOutcome::Completed, TokenUsage::default());
        store.end_run(&address, claim, end, usage, vec![]).await.unwrap();
        drop(store);
        change(&path, damage);
        let store = SqliteStore::open(&path).unwrap();
        let found = store.check(TIME_MAX).unwrap();
        let keys: Vec<&str> = found.sessions.iter().map(|found| found.key.as_str()).collect();
        assert_eq!((&*found.problems, keys), (&[][..], vec![one.key.as_str()]), "{damage}");
        let message = vec![ModelMessage::user("hello").into()];
        let uses = [
            store.append(&one.id, None, vec![text_event("more")]).await.map(drop),
            store.add_messages(&one.id, claim, message).await,
            store.run(&address).await.map(drop),
            store.grants(&one.id).await.map(drop),
        ];
        let errors: Vec<StoreError> = uses.into_iter().filter_map(Result::err).collect();
        assert!(
            !errors.is_empty()
                && errors.iter().all(|error| matches!(error, StoreError::Damaged { .. })),
            "{damage}: {errors:?}"
        );
        let begun = store.begin_run(run(&two, 2)).await.unwrap();
        assert!(matches!(begun, BeginRunOutcome::Started { .. }), "{damage}: {begun:?}");
    }
}
