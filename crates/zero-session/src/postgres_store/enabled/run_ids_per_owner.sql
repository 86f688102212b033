-- Ids of runs are unique per owner.
ALTER TABLE zero.runs ADD COLUMN owner TEXT COLLATE "C";
UPDATE zero.runs SET owner = sessions.owner FROM zero.sessions WHERE sessions.row_id = runs.session;
ALTER TABLE zero.runs ALTER COLUMN owner SET NOT NULL;
ALTER TABLE zero.runs DROP CONSTRAINT runs_id_key;
CREATE UNIQUE INDEX runs_by_id ON zero.runs (id, owner);
DROP INDEX zero.runs_by_session;
CREATE INDEX runs_by_session ON zero.runs (session, id);
ALTER TABLE zero.run_usage DROP CONSTRAINT run_usage_pkey;
ALTER TABLE zero.run_usage ADD PRIMARY KEY (run, session);
DROP INDEX zero.run_usage_by_time;
CREATE INDEX run_usage_by_time ON zero.run_usage (started_ms, run, session);
