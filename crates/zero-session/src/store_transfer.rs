//! Copies all sessions from one store to another, and verifies the copy.
//!
//! A session is copied in one transaction of the target and compared with its source before the commit. A
//! copy that was interrupted therefore leaves whole sessions only, and the next one goes on with the others.
//! The source is read as one snapshot and never changed.

use serde::Serialize;
use sha2::{Digest, Sha256};
use zero_runtime::tool::BoxFuture;

use crate::store::StoreError;

/// Most rows that are read at once.
pub(crate) const PAGE_ROWS_MAX: usize = 500;
/// Size of the entries or messages of a page, in bytes. A larger one is a page of its own.
pub(crate) const PAGE_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Most problems that a report names.
const PROBLEMS_NAMED_MAX: usize = 100;

/// A stored value, as both kinds of stores can keep it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StoredValue {
    Null,
    Int(i64),
    Text(String),
    Bytes(Vec<u8>),
}

/// The values of a row, in the order of the columns of its table.
pub(crate) type StoredRow = Vec<StoredValue>;

/// What a column contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ColumnType {
    Int,
    Text,
    Bytes,
    /// JSON, which a store may keep in a form of its own.
    Json,
}

/// A column that both kinds of stores have.
#[derive(Debug)]
pub(crate) struct TransferColumn {
    pub(crate) name: &'static str,
    pub(crate) column_type: ColumnType,
}

const fn int(name: &'static str) -> TransferColumn {
    TransferColumn { name, column_type: ColumnType::Int }
}

const fn text(name: &'static str) -> TransferColumn {
    TransferColumn { name, column_type: ColumnType::Text }
}

/// A table that is copied.
#[derive(Debug)]
pub(crate) struct TransferTable {
    pub(crate) name: &'static str,
    pub(crate) columns: &'static [TransferColumn],
    /// How many of the first columns name a row of a session.
    pub(crate) key_columns: usize,
    /// Whether its rows have bodies, which may be large.
    pub(crate) has_bodies: bool,
}

impl TransferTable {
    /// The part of a row that names it.
    fn key(&self, row: &StoredRow) -> StoredRow {
        row.iter().take(self.key_columns).cloned().collect()
    }
}

/// The sessions themselves. Their claims are not copied: no process works in a copy.
pub(crate) const SESSIONS: TransferTable = TransferTable {
    name: "sessions",
    columns: &[
        text("id"),
        text("key"),
        text("key_folded"),
        text("label"),
        text("label_folded"),
        text("title"),
        text("title_folded"),
        text("agent"),
        text("model"),
        text("mode"),
        text("thinking"),
        TransferColumn { name: "cwd", column_type: ColumnType::Bytes },
        text("owner"),
        text("tool_host"),
        int("created_ms"),
        int("updated_ms"),
        int("transcript"),
        text("usage"),
        int("context_tokens"),
        int("last_seq"),
        int("bytes"),
        int("epoch"),
        int("completed_transcript"),
        int("completed_messages"),
        text("parent"),
    ],
    key_columns: 1,
    has_bodies: false,
};

/// What belongs to a session, in an order in which no row refers to a later one.
const SESSION_TABLES: [TransferTable; 7] = [
    TransferTable {
        name: "transcripts",
        columns: &[int("number"), text("why"), int("started_ms")],
        key_columns: 1,
        has_bodies: false,
    },
    TransferTable {
        name: "messages",
        columns: &[int("transcript"), int("position"), text("body")],
        key_columns: 2,
        has_bodies: true,
    },
    TransferTable {
        name: "events",
        columns: &[int("seq"), text("run"), int("time_ms"), text("body")],
        key_columns: 1,
        has_bodies: true,
    },
    TransferTable {
        name: "runs",
        columns: &[
            text("id"),
            text("owner"),
            int("started_ms"),
            int("ended_ms"),
            text("end"),
            text("usage"),
            text("options"),
        ],
        key_columns: 1,
        has_bodies: false,
    },
    TransferTable {
        name: "grants",
        columns: &[int("position"), text("body")],
        key_columns: 1,
        has_bodies: true,
    },
    TransferTable {
        name: "rewind_points",
        columns: &[
            int("seq"),
            text("run"),
            int("time_ms"),
            text("words"),
            text("rewind"),
            int("before"),
            text("scope"),
            int("transcript"),
            int("messages"),
        ],
        key_columns: 1,
        has_bodies: false,
    },
    TransferTable {
        name: "open_questions",
        columns: &[text("id"), text("run"), int("asked_ms"), text("body")],
        key_columns: 1,
        has_bodies: true,
    },
];

/// What runs used. It outlives their sessions, and belongs to none here.
pub(crate) const RUN_USAGE: TransferTable = TransferTable {
    name: "run_usage",
    columns: &[
        text("run"),
        text("session"),
        text("session_key"),
        text("owner"),
        text("agent"),
        text("model"),
        int("started_ms"),
        TransferColumn { name: "usage", column_type: ColumnType::Json },
        text("root_run"),
        text("root_session"),
        text("root_agent"),
    ],
    key_columns: 2,
    has_bodies: false,
};

/// A session of a store, by the names that are unique there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TransferSession {
    pub(crate) id: String,
    pub(crate) owner: String,
    pub(crate) key: String,
    pub(crate) label: Option<String>,
}

/// Whether the target has a session already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionPresence {
    Missing,
    Present,
    /// It was deleted, and not everything of it is removed yet.
    Deleted,
    /// Another session has its key.
    KeyTaken,
    /// Another session has its label.
    LabelTaken,
}

/// One side of a copy.
pub(crate) trait TransferEnd: Send {
    /// The sessions after the one with this id, in the order of their ids.
    fn sessions<'a>(
        &'a mut self,
        after: &'a str,
    ) -> BoxFuture<'a, Result<Vec<TransferSession>, StoreError>>;

    fn find<'a>(
        &'a mut self,
        session: &'a TransferSession,
    ) -> BoxFuture<'a, Result<SessionPresence, StoreError>>;

    /// Rows of a session, or of no session for [`RUN_USAGE`], after the one with this key; from the first on
    /// if it is empty.
    fn rows<'a>(
        &'a mut self,
        table: &'static TransferTable,
        session: &'a str,
        after: &'a [StoredValue],
    ) -> BoxFuture<'a, Result<Vec<StoredRow>, StoreError>>;

    /// The rows with the keys of these.
    fn same_usages<'a>(
        &'a mut self,
        rows: &'a [StoredRow],
    ) -> BoxFuture<'a, Result<Vec<StoredRow>, StoreError>>;

    fn begin(&mut self) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Writes rows; those of [`RUN_USAGE`] that are there already are kept as they are.
    fn insert<'a>(
        &'a mut self,
        table: &'static TransferTable,
        session: &'a str,
        rows: &'a [StoredRow],
    ) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Sets what this store derives from the rows of a session.
    fn complete<'a>(&'a mut self, session: &'a str) -> BoxFuture<'a, Result<(), StoreError>>;

    fn commit(&mut self) -> BoxFuture<'_, Result<(), StoreError>>;

    fn roll_back(&mut self) -> BoxFuture<'_, ()>;
}

/// A store that sessions are copied from or to.
pub struct TransferStore(pub(crate) Box<dyn TransferEnd>);

impl std::fmt::Debug for TransferStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TransferStore").finish_non_exhaustive()
    }
}

/// Whether anything is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferMode {
    /// Copies.
    Copy,
    /// Looks what a copy would do.
    Plan,
}

/// A session that was not copied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TransferProblem {
    /// Its key.
    pub session: String,
    /// Its owner.
    pub owner: String,
    /// Why not, and what to do.
    pub problem: String,
}

/// What a copy did, or would do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TransferReport {
    /// Sessions that were copied and compared with their source.
    pub copied: u64,
    /// Sessions that the target had already, equal to their source.
    pub present: u64,
    /// Sessions that were not copied.
    pub refused: u64,
    /// The first of those.
    pub problems: Vec<TransferProblem>,
    /// Rows that were copied.
    pub rows: u64,
    /// Runs whose usage is in the target now.
    pub usages: u64,
}

impl TransferReport {
    fn add_problem(&mut self, session: &TransferSession, problem: impl Into<String>) {
        self.refused += 1;
        if self.problems.len() < PROBLEMS_NAMED_MAX {
            let (key, owner) = (session.key.clone(), session.owner.clone());
            self.problems.push(TransferProblem { session: key, owner, problem: problem.into() });
        }
    }
}

/// The digest of the rows of a session, over tables and columns in their order.
#[derive(Default)]
struct SessionDigest(Sha256);

impl SessionDigest {
    fn add(&mut self, table: &TransferTable, row: &StoredRow) {
        self.0.update(table.name);
        for value in row {
            let (tag, bytes): (u8, &[u8]) = match value {
                StoredValue::Null => (0, &[]),
                StoredValue::Int(number) => (1, &number.to_be_bytes()),
                StoredValue::Text(text) => (2, text.as_bytes()),
                StoredValue::Bytes(bytes) => (3, bytes),
            };
            self.0.update([tag]);
            self.0.update((bytes.len() as u64).to_be_bytes());
            self.0.update(bytes);
        }
    }

    fn finish(self) -> [u8; 32] {
        self.0.finalize().into()
    }
}

/// A copy from one store to another.
#[derive(Debug)]
pub struct StoreTransfer {
    source: TransferStore,
    target: TransferStore,
}

impl StoreTransfer {
    /// Nothing is read or written yet. The caller ensures that no other process uses the stores
    /// meanwhile.
    pub fn new(source: TransferStore, target: TransferStore) -> Self {
        Self { source, target }
    }

    /// Copies what the target does not have. A session that cannot be copied is in the report and keeps no
    /// other from it; the error is one of a whole store.
    pub async fn run(
        &mut self,
        mode: TransferMode,
        progress: &mut (dyn FnMut(&TransferReport) + Send),
    ) -> Result<TransferReport, StoreError> {
        self.source.0.begin().await?;
        let done = self.copy_all(mode, progress).await;
        self.source.0.roll_back().await;
        done
    }

    async fn copy_all(
        &mut self,
        mode: TransferMode,
        progress: &mut (dyn FnMut(&TransferReport) + Send),
    ) -> Result<TransferReport, StoreError> {
        let mut report = TransferReport::default();
        let mut last = String::new();
        loop {
            let page = self.source.0.sessions(&last).await?;
            let Some(end) = page.last() else { break };
            last.clone_from(&end.id);
            for session in &page {
                match self.copy(session, mode, &mut report).await {
                    Err(StoreError::Damaged { why, .. }) => report.add_problem(session, why),
                    done => done?,
                }
                progress(&report);
            }
        }
        self.copy_usages(mode, &mut report).await?;
        Ok(report)
    }

    async fn copy(
        &mut self,
        session: &TransferSession,
        mode: TransferMode,
        report: &mut TransferReport,
    ) -> Result<(), StoreError> {
        let problem = match self.target.0.find(session).await? {
            SessionPresence::Missing if mode == TransferMode::Plan => {
                report.copied += 1;
                return Ok(());
            }
            SessionPresence::Missing => return self.copy_missing(session, report).await,
            SessionPresence::Present => {
                let source = digest(&mut *self.source.0, &session.id).await?;
                if source == digest(&mut *self.target.0, &session.id).await? {
                    report.present += 1;
                    return Ok(());
                }
                "the target has it already, and it was continued on one side: delete it there or keep it"
            }
            SessionPresence::Deleted => {
                "it was deleted in the target, which has not removed all of it: start zero there once"
            }
            SessionPresence::KeyTaken => {
                "the target has another session with this key: delete or rename one of them"
            }
            SessionPresence::LabelTaken => {
                "the target has another session with its label: change one of them"
            }
        };
        report.add_problem(session, problem);
        Ok(())
    }

    async fn copy_missing(
        &mut self,
        session: &TransferSession,
        report: &mut TransferReport,
    ) -> Result<(), StoreError> {
        self.target.0.begin().await?;
        match self.copy_rows(session).await {
            Ok(rows) => {
                self.target.0.commit().await?;
                report.copied += 1;
                report.rows += rows;
                Ok(())
            }
            Err(error) => {
                self.target.0.roll_back().await;
                Err(error)
            }
        }
    }

    /// Copies the rows of a session and compares what was written. Returns their number.
    async fn copy_rows(&mut self, session: &TransferSession) -> Result<u64, StoreError> {
        let mut source = SessionDigest::default();
        let mut count = 0;
        for table in tables() {
            let mut last = StoredRow::new();
            loop {
                let page = self.source.0.rows(table, &session.id, &last).await?;
                let Some(end) = page.last() else { break };
                last = table.key(end);
                page.iter().for_each(|row| source.add(table, row));
                self.target.0.insert(table, &session.id, &page).await?;
                count += page.len() as u64;
            }
        }
        self.target.0.complete(&session.id).await?;
        let written = digest(&mut *self.target.0, &session.id).await?;
        if written != source.finish() {
            let why = format!(
                "the copy of session `{}` differs from its source and was dropped; nothing else was changed",
                session.key
            );
            return Err(StoreError::Broken { verb: "verify a copy", why });
        }
        Ok(count)
    }

    /// Copies what runs used, page by page.
    async fn copy_usages(
        &mut self,
        mode: TransferMode,
        report: &mut TransferReport,
    ) -> Result<(), StoreError> {
        let mut last = StoredRow::new();
        loop {
            let page = self.source.0.rows(&RUN_USAGE, "", &last).await?;
            let Some(end) = page.last() else { return Ok(()) };
            last = RUN_USAGE.key(end);
            report.usages += page.len() as u64;
            if mode == TransferMode::Plan {
                continue;
            }
            self.target.0.begin().await?;
            let written = async {
                self.target.0.insert(&RUN_USAGE, "", &page).await?;
                self.target.0.same_usages(&page).await
            };
            match written.await {
                Ok(written) if written.len() == page.len() => self.target.0.commit().await?,
                Ok(_) => {
                    self.target.0.roll_back().await;
                    let why = "the usage of some runs was not written".to_owned();
                    return Err(StoreError::Broken { verb: "verify a copy", why });
                }
                Err(error) => {
                    self.target.0.roll_back().await;
                    return Err(error);
                }
            }
        }
    }
}

fn tables() -> impl Iterator<Item = &'static TransferTable> {
    const ALL: &[TransferTable] = &SESSION_TABLES;
    std::iter::once(&SESSIONS).chain(ALL)
}

#[cfg(test)]
pub(crate) fn all_tables() -> impl Iterator<Item = &'static TransferTable> {
    tables().chain(std::iter::once(&RUN_USAGE))
}

async fn digest(end: &mut dyn TransferEnd, session: &str) -> Result<[u8; 32], StoreError> {
    let mut digest = SessionDigest::default();
    for table in tables() {
        let mut last = StoredRow::new();
        loop {
            let page = end.rows(table, session, &last).await?;
            let Some(end_of_page) = page.last() else { break };
            last = table.key(end_of_page);
            page.iter().for_each(|row| digest.add(table, row));
        }
    }
    Ok(digest.finish())
}

/// JSON in one form, whatever the store made of it.
pub(crate) fn canonical_json(text: &str) -> Result<String, serde_json::Error> {
    let mut value: serde_json::Value = serde_json::from_str(text)?;
    value.sort_all_objects();
    Ok(value.to_string())
}
