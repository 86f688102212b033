//! The store in a Postgres database.

mod claims;
mod database;
mod forks;
mod ledger;
mod node_bus;
mod node_leases;
mod open_questions;
mod postgres_error;
mod removal;
mod rewind_points;
mod run_usages;
mod runs;
mod schema;
mod server_address;
mod sessions;
mod shared_sessions;
mod tls;
mod transcripts;
mod transfer;

use std::sync::Arc;
use std::time::Duration;

use zero_core::{RunId, SessionId};
use zero_runtime::clock::now_ms;
use zero_runtime::tool::BoxFuture;

use self::database::{Database, TransactionKind};
use self::postgres_error::PostgresError;
use self::server_address::ServerAddress;
use self::tls::RustlsConnect;
use super::{PostgresOptions, PostgresPorts};
use crate::cluster_node::{
    AbandonedSession, EventsBySession, SessionPlacement, SharedSessionStore, StoreConnections,
};
use crate::event::{Event, RunOutcome, TokenUsage};
use crate::key::SessionAddress;
use crate::last_seq_store::LastSeqStore;
use crate::message::ModelMessage;
use crate::node_bus::{ClusterIdentity, NodeBus, NodeBusStore};
use crate::node_lease::{LiveNode, NodeLeaseStore};
use crate::open_question::{OpenQuestion, QuestionScope};
use crate::run_usage::{self, RunUsage, RunUsageQuery, UsageTotal};
use crate::store::{
    BeginRunOutcome, ClaimEpoch, ClaimOutcome, ForkPoint, GrantRecord, IdleSession,
    IdleSessionQuery, LedgerReadLimit, NewEvent, NewFork, NewRun, NewSession, OwnerSize,
    OwnerUsage, RewindPoint, RunAddress, RunRecord, SessionPage, SessionPatch, SessionQuery,
    SessionRecord, Store, StoreError, StoreUsage, Transcript, TranscriptPosition, TranscriptStart,
    UnnamedSession, UnremovedSession, merge_grants,
};
use crate::stored_form::{
    EncodedEvents, RewindRow, RunEnd, assign_seqs, encode_messages, prompt_words,
};

/// How often a transaction is run that others were in the way of.
const ATTEMPTS_MAX: u32 = 6;

/// Runs a write transaction, again if others were in its way.
macro_rules! write {
    ($store:expr, $verb:expr, |$transaction:ident| $work:expr) => {{
        let mut attempts = 1;
        loop {
            let done: Result<_, PostgresError> = async {
                let $transaction = $store.database.begin(TransactionKind::Write).await?;
                let result = $work.await;
                $transaction.finish(result).await
            }
            .await;
            match done {
                Err(error) if error.is_retryable() && attempts < ATTEMPTS_MAX => attempts += 1,
                done => break $store.report($verb, done),
            }
        }
    }};
}

/// Runs a transaction that reads one snapshot.
macro_rules! read {
    ($store:expr, $verb:expr, |$transaction:ident| $work:expr) => {{
        let done: Result<_, PostgresError> = async {
            let $transaction = $store.database.begin(TransactionKind::Read).await?;
            let result = $work.await;
            $transaction.finish(result).await
        }
        .await;
        $store.report($verb, done)
    }};
}

/// Stores sessions in a Postgres database.
pub struct PostgresStore {
    database: Database,
    /// What a connection of its own is made with, on which the server sends notifications.
    listener: (tokio_postgres::Config, RustlsConnect),
}

impl PostgresStore {
    /// Connects to the database and prepares its tables.
    pub async fn open(options: &PostgresOptions) -> Result<PostgresPorts, StoreError> {
        let opened = Arc::new(Self::connect(options).await?);
        Ok(PostgresPorts {
            store: opened.clone(),
            leases: opened.clone(),
            sessions: opened.clone(),
            bus: opened,
        })
    }

    async fn connect(options: &PostgresOptions) -> Result<Self, StoreError> {
        const VERB: &str = "open";
        let mut address = ServerAddress::parse(&options.url)?;
        if let Some(password) = &options.password {
            address.config.password(password);
        }
        let roots = options.extra_roots.clone();
        let tls = tokio::task::spawn_blocking(move || RustlsConnect::new(&roots)).await;
        let tls = tls.map_err(|error| error.to_string());
        let tls = tls.and_then(|tls| tls.map_err(|error| error.to_string()));
        let tls = tls.map_err(|why| StoreError::Broken { verb: VERB, why })?;
        let listener = (address.config.clone(), tls.clone());
        let database = Database::new(address, tls)?;
        let mut attempts = 1;
        loop {
            match schema::prepare(&database).await {
                // Another process makes the same tables.
                Err(error) if error.is_retryable() && attempts < ATTEMPTS_MAX => attempts += 1,
                Err(error) => return Err(error.into_store_error(VERB, &database.description)),
                Ok(()) => return Ok(Self { database, listener }),
            }
        }
    }

    /// Converts an error into a store error that names the database.
    fn report<T, E: Into<PostgresError>>(
        &self,
        verb: &'static str,
        made: Result<T, E>,
    ) -> Result<T, StoreError> {
        made.map_err(|error| error.into().into_store_error(verb, &self.database.description))
    }

    async fn append_entries(
        &self,
        session: SessionId,
        claim: Option<ClaimEpoch>,
        entries: Vec<NewEvent>,
    ) -> Result<Vec<Event>, StoreError> {
        const VERB: &str = "write the ledger";
        let rows = self.report(VERB, EncodedEvents::from_events(&entries))?;
        let first = match rows.usages.is_empty() && rows.questions.is_empty() {
            true => {
                let appended = ledger::append_alone(&self.database, &session, claim, &rows).await;
                self.report(VERB, appended)?
            }
            false => write!(self, VERB, |tx| ledger::append(&tx, &session, claim, &rows))?,
        };
        Ok(assign_seqs(first, entries))
    }
}

impl Store for PostgresStore {
    fn session(
        &self,
        address: &SessionAddress,
    ) -> BoxFuture<'_, Result<Option<SessionRecord>, StoreError>> {
        let address = address.clone();
        Box::pin(async move {
            let (owner, key) = (sessions::storable(&address.owner), address.key.as_str());
            let values: database::SqlValues<'_> = &[&&*owner, &key];
            let found = sessions::find(&self.database, sessions::BY_ADDRESS, values).await;
            self.report("look up a session", found)
        })
    }

    fn session_by_id(
        &self,
        id: &SessionId,
    ) -> BoxFuture<'_, Result<Option<SessionRecord>, StoreError>> {
        let id = id.clone();
        Box::pin(async move {
            let found = sessions::find(&self.database, sessions::BY_ID, &[&id.as_str()]).await;
            self.report("look up a session", found)
        })
    }

    fn session_id(
        &self,
        address: &SessionAddress,
    ) -> BoxFuture<'_, Result<Option<SessionId>, StoreError>> {
        let address = address.clone();
        Box::pin(async move {
            let found = sessions::find_id(&self.database, &address).await;
            self.report("look up a session", found)
        })
    }

    fn create(&self, session: NewSession) -> BoxFuture<'_, Result<SessionRecord, StoreError>> {
        let id = SessionId::from_bits(fastrand::u128(..));
        Box::pin(async move {
            write!(self, "make a session", |tx| sessions::create(&tx, &id, &session, now_ms()))
        })
    }

    fn fork(
        &self,
        session: &SessionId,
        point: ForkPoint,
        fork: NewFork,
        last: NewEvent,
    ) -> BoxFuture<'_, Result<SessionRecord, StoreError>> {
        const VERB: &str = "copy a session";
        let session = session.clone();
        Box::pin(async move {
            let last = self.report(VERB, EncodedEvents::from_events(&[last]))?;
            write!(self, VERB, |tx| forks::fork(&tx, &session, point, &fork, &last, now_ms()))
        })
    }

    fn list(&self, query: SessionQuery) -> BoxFuture<'_, Result<SessionPage, StoreError>> {
        Box::pin(async move { read!(self, "list sessions", |tx| sessions::list(&tx, &query)) })
    }

    fn patch(
        &self,
        address: &SessionAddress,
        patch: SessionPatch,
    ) -> BoxFuture<'_, Result<Option<SessionRecord>, StoreError>> {
        let address = address.clone();
        Box::pin(async move {
            write!(self, "change a session", |tx| sessions::patch(&tx, &address, &patch))
        })
    }

    fn claim(
        &self,
        session: &SessionId,
        node: &str,
        dead: Option<ClaimEpoch>,
    ) -> BoxFuture<'_, Result<ClaimOutcome, StoreError>> {
        let (session, node) = (session.clone(), node.to_owned());
        Box::pin(async move {
            let claimed =
                write!(self, "claim a session", |tx| claims::claim(&tx, &session, &node, dead));
            claimed.map(|(_, outcome)| outcome)
        })
    }

    fn delete(
        &self,
        session: &SessionId,
        claim: ClaimEpoch,
    ) -> BoxFuture<'_, Result<(), StoreError>> {
        let session = session.clone();
        Box::pin(async move {
            write!(self, "remove a session", |tx| removal::mark_claimed(&tx, &session, claim))?;
            // The session is gone already; its remains are removed at the next deletion.
            if let Err(error) = self.reclaim().await {
                tracing::warn!(%error, "what is left of a deleted session could not be removed");
            }
            Ok(())
        })
    }

    fn delete_idle(&self, session: &IdleSession) -> BoxFuture<'_, Result<bool, StoreError>> {
        let session = session.clone();
        Box::pin(
            async move { write!(self, "remove a session", |tx| removal::mark_idle(&tx, &session)) },
        )
    }

    fn delete_unreadable(
        &self,
        address: &SessionAddress,
    ) -> BoxFuture<'_, Result<bool, StoreError>> {
        let address = address.clone();
        Box::pin(async move {
            write!(self, "remove a session", |tx| sessions::remove_unreadable(&tx, &address))
        })
    }

    fn unnamed_sessions(&self) -> BoxFuture<'_, Result<Vec<UnnamedSession>, StoreError>> {
        Box::pin(
            async move { read!(self, "list damaged sessions", |tx| sessions::list_unnamed(&tx)) },
        )
    }

    fn delete_unnamed(&self, row: i64) -> BoxFuture<'_, Result<bool, StoreError>> {
        Box::pin(async move {
            write!(self, "remove a session", |tx| sessions::remove_unnamed(&tx, row))
        })
    }

    fn reclaim(&self) -> BoxFuture<'_, Result<Vec<UnremovedSession>, StoreError>> {
        const VERB: &str = "remove a session";
        Box::pin(async move {
            self.report(VERB, removal::remove_marked(&self.database).await)?;
            let kept_ms = i64::from(run_usage::KEPT_DAYS) * 24 * 60 * 60 * 1_000;
            let before_ms = now_ms().saturating_sub(kept_ms);
            while self.report(VERB, run_usages::expire(&self.database, before_ms).await)? {}
            // The server itself reuses the space. Rows that it cannot read end in an error above.
            Ok(Vec::new())
        })
    }

    fn idle_sessions(
        &self,
        query: IdleSessionQuery,
    ) -> BoxFuture<'_, Result<Vec<IdleSession>, StoreError>> {
        Box::pin(async move {
            let sessions = sessions::list_idle(&self.database, &query).await;
            self.report("list idle sessions", sessions)
        })
    }

    fn large_owners(
        &self,
        sessions_min: u64,
    ) -> BoxFuture<'_, Result<Vec<OwnerUsage>, StoreError>> {
        Box::pin(async move {
            let owners = sessions::large_owners(&self.database, sessions_min).await;
            self.report("count sessions", owners)
        })
    }

    fn owner_sizes(&self) -> BoxFuture<'_, Result<Vec<OwnerSize>, StoreError>> {
        Box::pin(async move {
            let sizes = sessions::owner_sizes(&self.database).await;
            self.report("measure the sessions of owners", sizes)
        })
    }

    fn usage(&self) -> BoxFuture<'_, Result<StoreUsage, StoreError>> {
        Box::pin(
            async move { self.report("measure the store", sessions::usage(&self.database).await) },
        )
    }

    fn append(
        &self,
        session: &SessionId,
        claim: Option<ClaimEpoch>,
        entries: Vec<NewEvent>,
    ) -> BoxFuture<'_, Result<Vec<Event>, StoreError>> {
        Box::pin(self.append_entries(session.clone(), claim, entries))
    }

    // The server acknowledges a commit only once it survives a power cut.
    fn append_durable(
        &self,
        session: &SessionId,
        claim: Option<ClaimEpoch>,
        entries: Vec<NewEvent>,
    ) -> BoxFuture<'_, Result<Vec<Event>, StoreError>> {
        Box::pin(self.append_entries(session.clone(), claim, entries))
    }

    fn events(
        &self,
        session: &SessionId,
        after: u64,
        most: LedgerReadLimit,
    ) -> BoxFuture<'_, Result<Vec<Event>, StoreError>> {
        let session = session.clone();
        Box::pin(async move {
            read!(self, "read the ledger", |tx| ledger::read_after(&tx, &session, after, most))
        })
    }

    fn last_events(
        &self,
        session: &SessionId,
        before: u64,
        most: LedgerReadLimit,
    ) -> BoxFuture<'_, Result<Vec<Event>, StoreError>> {
        let session = session.clone();
        Box::pin(async move {
            read!(self, "read the ledger", |tx| ledger::read_before(&tx, &session, before, most))
        })
    }

    fn last_seq(&self, session: &SessionId) -> BoxFuture<'_, Result<u64, StoreError>> {
        let session = session.clone();
        Box::pin(async move {
            let last = sessions::read_number(&self.database, &session, "last_seq").await;
            self.report("count ledger entries", last)
        })
    }

    fn transcript(
        &self,
        session: &SessionId,
        number: Option<u64>,
    ) -> BoxFuture<'_, Result<Transcript, StoreError>> {
        let session = session.clone();
        Box::pin(async move {
            read!(self, "read a transcript", |tx| transcripts::read(&tx, &session, number))
        })
    }

    fn add_messages(
        &self,
        session: &SessionId,
        claim: ClaimEpoch,
        messages: Vec<Arc<ModelMessage>>,
    ) -> BoxFuture<'_, Result<(), StoreError>> {
        const VERB: &str = "add to a transcript";
        let session = session.clone();
        Box::pin(async move {
            let (bodies, _) = self.report(VERB, encode_messages(&messages))?;
            let added = transcripts::append(&self.database, &session, claim, &bodies).await;
            self.report(VERB, added)
        })
    }

    fn start_transcript(
        &self,
        session: &SessionId,
        claim: ClaimEpoch,
        why: TranscriptStart,
        messages: Vec<Arc<ModelMessage>>,
    ) -> BoxFuture<'_, Result<u64, StoreError>> {
        const VERB: &str = "begin a transcript";
        let session = session.clone();
        Box::pin(async move {
            let (bodies, _) = self.report(VERB, encode_messages(&messages))?;
            write!(self, VERB, |tx| async {
                let locked = claims::lock_claimed(&tx, &session, claim).await?;
                transcripts::start_transcript(&tx, &locked, why, &bodies, now_ms()).await
            })
        })
    }

    fn begin_run(&self, run: NewRun) -> BoxFuture<'_, Result<BeginRunOutcome, StoreError>> {
        const VERB: &str = "begin a run";
        Box::pin(async move {
            let words = prompt_words(&run.first);
            let rows = self.report(VERB, EncodedEvents::from_events(&run.first))?;
            let insertion =
                write!(self, VERB, |tx| runs::begin(&tx, &run, words.as_deref(), &rows))?;
            Ok(insertion.into_outcome(run.first))
        })
    }

    fn end_run(
        &self,
        run: &RunAddress,
        claim: ClaimEpoch,
        end: RunOutcome,
        usage: TokenUsage,
        last: Vec<NewEvent>,
    ) -> BoxFuture<'_, Result<Option<Vec<Event>>, StoreError>> {
        const VERB: &str = "settle a run";
        let run = run.clone();
        Box::pin(async move {
            let rows = self.report(VERB, EncodedEvents::from_events(&last))?;
            let ended_ms = last.last().map_or_else(now_ms, |event| event.time_ms);
            let end = RunEnd { outcome: end, usage, ended_ms };
            let first = write!(self, VERB, |tx| runs::end(&tx, &run, claim, &end, &rows))?;
            Ok(first.map(|first| assign_seqs(first, last)))
        })
    }

    fn run(&self, run: &RunAddress) -> BoxFuture<'_, Result<Option<RunRecord>, StoreError>> {
        let run = run.clone();
        Box::pin(async move { read!(self, "look up a run", |tx| runs::find(&tx, &run)) })
    }

    fn find_run(
        &self,
        owner: Option<&str>,
        run: &RunId,
    ) -> BoxFuture<'_, Result<Option<RunRecord>, StoreError>> {
        let owner = owner.map(|owner| sessions::storable(owner).into_owned());
        let run = run.clone();
        Box::pin(async move {
            read!(self, "look up a run", |tx| runs::find_by_id(&tx, owner.as_deref(), &run))
        })
    }

    fn unfinished_runs(
        &self,
        session: Option<&SessionId>,
    ) -> BoxFuture<'_, Result<Vec<RunRecord>, StoreError>> {
        let session = session.map(|session| session.as_str().to_owned());
        Box::pin(async move {
            read!(self, "list unfinished runs", |tx| runs::list_unfinished(&tx, session.as_deref()))
        })
    }

    fn open_questions(
        &self,
        scope: QuestionScope<'_>,
    ) -> BoxFuture<'_, Result<Vec<OpenQuestion>, StoreError>> {
        let session = scope.session().map(|session| session.as_str().to_owned());
        let owner = scope.owner().map(|owner| sessions::storable(owner).into_owned());
        Box::pin(async move {
            let (session, owner) = (session.as_deref(), owner.as_deref());
            let listed = open_questions::list(&self.database, session, owner).await;
            self.report("list open questions", listed)
        })
    }

    fn open_question(&self, id: &str) -> BoxFuture<'_, Result<Option<OpenQuestion>, StoreError>> {
        let id = id.to_owned();
        Box::pin(async move {
            self.report("look up a question", open_questions::find(&self.database, &id).await)
        })
    }

    fn release_claim(
        &self,
        session: &SessionId,
        claim: ClaimEpoch,
    ) -> BoxFuture<'_, Result<(), StoreError>> {
        let session = session.clone();
        Box::pin(async move {
            write!(self, "release a session", |tx| claims::release(&tx, &session, claim))
        })
    }

    fn adopt_run(
        &self,
        run: &RunAddress,
        claim: ClaimEpoch,
        node: &str,
    ) -> BoxFuture<'_, Result<(), StoreError>> {
        let (run, node) = (run.clone(), node.to_owned());
        Box::pin(async move {
            write!(self, "continue a run", |tx| runs::adopt(&tx, &run, claim, &node))
        })
    }

    fn run_usages(&self, query: RunUsageQuery) -> BoxFuture<'_, Result<Vec<RunUsage>, StoreError>> {
        Box::pin(async move {
            self.report("read the usage", run_usages::list(&self.database, &query).await)
        })
    }

    fn usage_total(
        &self,
        query: RunUsageQuery,
        except: Option<RunAddress>,
    ) -> BoxFuture<'_, Result<UsageTotal, StoreError>> {
        Box::pin(async move {
            let total = run_usages::sum(&self.database, &query, except.as_ref()).await;
            self.report("sum the usage", total)
        })
    }

    fn rewind_points(
        &self,
        session: &SessionId,
    ) -> BoxFuture<'_, Result<Vec<RewindPoint>, StoreError>> {
        let session = session.clone();
        Box::pin(
            async move { read!(self, "list prompts", |tx| rewind_points::list(&tx, &session)) },
        )
    }

    fn rewind(
        &self,
        session: &SessionId,
        claim: ClaimEpoch,
        position: Option<TranscriptPosition>,
        entry: NewEvent,
    ) -> BoxFuture<'_, Result<Event, StoreError>> {
        const VERB: &str = "rewind a session";
        let session = session.clone();
        Box::pin(async move {
            let rows =
                self.report(VERB, EncodedEvents::from_events(std::slice::from_ref(&entry)))?;
            let kind = entry.rewind().ok_or_else(NewEvent::not_a_rewind)?;
            let row = RewindRow { kind, position, time_ms: entry.time_ms };
            let seq =
                write!(self, VERB, |tx| rewind_points::rewind(&tx, &session, claim, &row, &rows))?;
            let NewEvent { run, time_ms, kind } = entry;
            Ok(Event { seq, run, time_ms, kind })
        })
    }

    fn grants(&self, session: &SessionId) -> BoxFuture<'_, Result<Vec<GrantRecord>, StoreError>> {
        let session = session.clone();
        Box::pin(async move { read!(self, "read grants", |tx| sessions::grants(&tx, &session)) })
    }

    fn set_grants(
        &self,
        session: &SessionId,
        grants: Vec<GrantRecord>,
    ) -> BoxFuture<'_, Result<(), StoreError>> {
        let session = session.clone();
        Box::pin(async move {
            write!(self, "write grants", |tx| async {
                let row = claims::lock(&tx, &session).await?.row;
                sessions::set_grants(&tx, row, &grants).await
            })
        })
    }

    fn change_grants(
        &self,
        session: &SessionId,
        before: Vec<GrantRecord>,
        after: Vec<GrantRecord>,
    ) -> BoxFuture<'_, Result<(), StoreError>> {
        let session = session.clone();
        Box::pin(async move {
            write!(self, "write grants", |tx| async {
                let row = claims::lock(&tx, &session).await?.row;
                let stored = sessions::grants(&tx, &session).await?;
                sessions::set_grants(&tx, row, &merge_grants(stored, &before, &after)).await
            })
        })
    }

    fn check_ready(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move {
            let ready = schema::check_writable(&self.database).await;
            self.report("write", ready)
        })
    }

    fn count(&self) -> BoxFuture<'_, Result<u64, StoreError>> {
        Box::pin(
            async move { self.report("count sessions", sessions::count(&self.database).await) },
        )
    }

    fn size(&self, session: &SessionId) -> BoxFuture<'_, Result<u64, StoreError>> {
        let session = session.clone();
        Box::pin(async move {
            let bytes = sessions::read_number(&self.database, &session, "bytes").await;
            self.report("measure a session", bytes)
        })
    }
}

impl LastSeqStore for PostgresStore {
    fn last_seqs(
        &self,
        sessions: Vec<SessionId>,
    ) -> BoxFuture<'_, Result<Vec<(SessionId, u64)>, StoreError>> {
        Box::pin(async move {
            let seqs = shared_sessions::list_last_seqs(&self.database, &sessions).await;
            self.report("look for new entries", seqs)
        })
    }
}

impl NodeBusStore for PostgresStore {
    fn cluster(&self) -> BoxFuture<'_, Result<ClusterIdentity, StoreError>> {
        Box::pin(async move {
            let cluster = node_bus::bus_rows::read_cluster(&self.database).await;
            self.report("read the name of the cluster", cluster)
        })
    }

    fn join(
        self: Arc<Self>,
        node: &str,
    ) -> BoxFuture<'static, Result<Arc<dyn NodeBus>, StoreError>> {
        let node = node.to_owned();
        Box::pin(async move {
            let bus = node_bus::PostgresNodeBus::open(self, &node).await?;
            Ok(Arc::new(bus) as Arc<dyn NodeBus>)
        })
    }
}

impl NodeLeaseStore for PostgresStore {
    fn register_node(
        &self,
        node: &str,
        lease: Duration,
    ) -> BoxFuture<'_, Result<bool, StoreError>> {
        let node = node.to_owned();
        Box::pin(async move {
            let registered = node_leases::register(&self.database, &node, lease).await;
            self.report("register this process", registered)
        })
    }

    fn renew_node(&self, node: &str, lease: Duration) -> BoxFuture<'_, Result<bool, StoreError>> {
        let node = node.to_owned();
        Box::pin(async move {
            let renewed = node_leases::renew(&self.database, &node, lease).await;
            self.report("renew a lease", renewed)
        })
    }

    fn end_node(&self, node: &str) -> BoxFuture<'_, Result<(), StoreError>> {
        let node = node.to_owned();
        Box::pin(async move {
            self.report("end a lease", node_leases::end(&self.database, &node).await)
        })
    }

    fn list_live_nodes(&self) -> BoxFuture<'_, Result<Vec<LiveNode>, StoreError>> {
        Box::pin(async move {
            self.report("list processes", node_leases::list_live(&self.database).await)
        })
    }

    fn list_held_claims(
        &self,
        node: &str,
    ) -> BoxFuture<'_, Result<Vec<(SessionId, ClaimEpoch)>, StoreError>> {
        let node = node.to_owned();
        Box::pin(async move {
            self.report("list claims", node_leases::list_held(&self.database, &node).await)
        })
    }
}

impl SharedSessionStore for PostgresStore {
    fn new_events(
        &self,
        after: Vec<(SessionId, u64)>,
        most: LedgerReadLimit,
    ) -> BoxFuture<'_, Result<EventsBySession, StoreError>> {
        Box::pin(async move {
            let found = shared_sessions::list_new_events(&self.database, &after, most).await;
            self.report("read new entries", found)
        })
    }

    fn abandoned_sessions(&self) -> BoxFuture<'_, Result<Vec<AbandonedSession>, StoreError>> {
        Box::pin(async move {
            let abandoned = shared_sessions::list_abandoned(&self.database).await;
            self.report("list abandoned sessions", abandoned)
        })
    }

    fn bind_home(
        &self,
        session: &SessionId,
        home: &str,
    ) -> BoxFuture<'_, Result<String, StoreError>> {
        let (session, home) = (session.clone(), home.to_owned());
        Box::pin(async move {
            let bound = shared_sessions::bind_home(&self.database, &session, &home).await;
            self.report("give a session a home", bound)
        })
    }

    fn placement(
        &self,
        session: &SessionId,
    ) -> BoxFuture<'_, Result<SessionPlacement, StoreError>> {
        let session = session.clone();
        Box::pin(async move {
            let found = shared_sessions::find_placement(&self.database, &session).await;
            self.report("find the process of a session", found)
        })
    }

    fn set_tool_server(
        &self,
        session: &SessionId,
        node: &str,
    ) -> BoxFuture<'_, Result<(), StoreError>> {
        let (session, node) = (session.clone(), node.to_owned());
        Box::pin(async move {
            let set = shared_sessions::set_tool_server(&self.database, &session, &node).await;
            self.report("record who hosts tools", set)
        })
    }

    fn clear_tool_server(
        &self,
        session: &SessionId,
        node: &str,
    ) -> BoxFuture<'_, Result<(), StoreError>> {
        let (session, node) = (session.clone(), node.to_owned());
        Box::pin(async move {
            let cleared = shared_sessions::clear_tool_server(&self.database, &session, &node).await;
            self.report("record who hosts tools", cleared)
        })
    }

    fn misplaced_sessions(&self, node: &str) -> BoxFuture<'_, Result<Vec<SessionId>, StoreError>> {
        let node = node.to_owned();
        Box::pin(async move {
            let misplaced = shared_sessions::list_misplaced(&self.database, &node).await;
            self.report("list misplaced sessions", misplaced)
        })
    }

    fn connections(&self) -> StoreConnections {
        self.database.connections()
    }
}
