//! What the database itself saw: who claimed which session, and when.

use std::collections::BTreeMap;

use crate::postgres_server::PostgresServer;

/// Records each change of an owner, in a schema that is not zero's.
const RECORD: &str = "
    CREATE TABLE public.claims (
        number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        session TEXT NOT NULL, epoch BIGINT NOT NULL, node TEXT NOT NULL, epoch_before BIGINT NOT NULL,
        took_from_living BOOLEAN NOT NULL);
    CREATE FUNCTION public.record_claim() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO public.claims (session, epoch, node, epoch_before, took_from_living) VALUES (
            NEW.id, NEW.epoch, coalesce(NEW.node, ''), OLD.epoch,
            OLD.node <> '' AND NEW.node <> '' AND NEW.node <> OLD.node
            AND EXISTS (SELECT 1 FROM zero.runs
                WHERE session = NEW.row_id AND outcome IS NULL AND node <> '')
            AND EXISTS (SELECT 1 FROM zero.nodes
                WHERE name = OLD.node AND lease_until > clock_timestamp()));
        RETURN NEW;
    END $$;
    CREATE TRIGGER record_claim AFTER UPDATE ON zero.sessions FOR EACH ROW
        WHEN (OLD.epoch <> NEW.epoch OR OLD.node IS DISTINCT FROM NEW.node)
        EXECUTE FUNCTION public.record_claim();";

/// A claim, as the database recorded it.
pub(crate) struct RecordedClaim {
    session: String,
    epoch: u64,
    node: String,
    epoch_before: u64,
    took_from_living: bool,
}

/// Everything that the database recorded.
pub(crate) struct DatabaseHistory {
    pub(crate) claims: Vec<RecordedClaim>,
    /// Runs without an end.
    pub(crate) unfinished: Vec<String>,
}

impl DatabaseHistory {
    /// Begins to record. zero's tables are there.
    pub(crate) async fn record(server: &PostgresServer) {
        server.execute("postgres", RECORD).await;
    }

    pub(crate) async fn read(server: &PostgresServer) -> Self {
        let select = "SELECT session, epoch, node, epoch_before, took_from_living
            FROM public.claims ORDER BY number";
        let rows = server.query("postgres", select).await;
        let claims = rows.iter().map(|row| RecordedClaim {
            session: row[0].clone(),
            epoch: row[1].parse().unwrap(),
            node: row[2].clone(),
            epoch_before: row[3].parse().unwrap(),
            took_from_living: row[4] == "t",
        });
        let claims = claims.collect();
        let select = "SELECT id FROM zero.runs WHERE outcome IS NULL";
        let unfinished = server.query("postgres", select).await;
        Self { claims, unfinished: unfinished.into_iter().flatten().collect() }
    }

    /// What must not be in it.
    pub(crate) fn findings(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut owners: BTreeMap<(&str, u64), &str> = BTreeMap::new();
        for claim in &self.claims {
            let RecordedClaim { session, epoch, node, epoch_before, took_from_living } = claim;
            if !(*epoch_before..=epoch_before + 1).contains(epoch) {
                found.push(format!("{session}: claim {epoch} follows claim {epoch_before}"));
            }
            if *took_from_living {
                found.push(format!("{session}: {node} took it from a gateway with a lease"));
            }
            if node.is_empty() {
                continue;
            }
            let owner = owners.entry((session, *epoch)).or_insert(node);
            if owner != node {
                found.push(format!("{session}: {owner} and {node} own it by claim {epoch}"));
            }
        }
        found.extend(self.unfinished.iter().map(|run| format!("run {run} has no end")));
        found
    }
}
