CREATE TABLE zero.sessions (
    row_id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id TEXT COLLATE "C" NOT NULL UNIQUE,
    key TEXT COLLATE "C" NOT NULL,
    key_folded TEXT COLLATE "C" NOT NULL,
    label TEXT COLLATE "C",
    label_folded TEXT COLLATE "C",
    title TEXT,
    title_folded TEXT COLLATE "C",
    agent TEXT COLLATE "C" NOT NULL,
    model TEXT,
    mode TEXT,
    thinking TEXT,
    cwd BYTEA,
    owner TEXT COLLATE "C" NOT NULL,
    tool_host TEXT NOT NULL,
    created_ms BIGINT NOT NULL,
    updated_ms BIGINT NOT NULL,
    transcript BIGINT NOT NULL,
    usage TEXT NOT NULL,
    context_tokens BIGINT,
    last_seq BIGINT NOT NULL DEFAULT 0,
    -- Position of the last message of the current transcript; 0 without one.
    last_message BIGINT NOT NULL DEFAULT 0,
    bytes BIGINT NOT NULL DEFAULT 0,
    node TEXT COLLATE "C",
    epoch BIGINT NOT NULL DEFAULT 0,
    removed BOOLEAN NOT NULL DEFAULT false,
    completed_transcript BIGINT,
    completed_messages BIGINT,
    parent TEXT COLLATE "C"
    -- Each entry changes its row. With free space in the page, no index has to change.
) WITH (fillfactor = 70);
-- The processes that share the database, and until when others leave their sessions to them.
CREATE TABLE zero.nodes (
    name TEXT COLLATE "C" PRIMARY KEY,
    lease_until TIMESTAMPTZ NOT NULL
) WITH (fillfactor = 50);
CREATE INDEX sessions_by_node ON zero.sessions (node) WHERE NOT removed AND node <> '';
CREATE UNIQUE INDEX sessions_by_key ON zero.sessions (owner, key) WHERE NOT removed;
CREATE UNIQUE INDEX sessions_by_label ON zero.sessions (owner, label)
    WHERE NOT removed AND label IS NOT NULL;
CREATE INDEX sessions_removed ON zero.sessions (row_id) WHERE removed;
CREATE INDEX sessions_by_parent ON zero.sessions (parent) WHERE parent IS NOT NULL;
-- No foreign keys from the two large tables: their rows are only written with the row of their session
-- locked, and each check of one would cost a lookup.
CREATE TABLE zero.events (
    session BIGINT NOT NULL,
    seq BIGINT NOT NULL,
    run TEXT COLLATE "C",
    time_ms BIGINT NOT NULL,
    is_reset BOOLEAN NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (session, seq)
);
CREATE INDEX events_resets ON zero.events (session, seq) WHERE is_reset;
CREATE TABLE zero.messages (
    session BIGINT NOT NULL,
    transcript BIGINT NOT NULL,
    position BIGINT NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (session, transcript, position)
);
CREATE TABLE zero.transcripts (
    session BIGINT NOT NULL REFERENCES zero.sessions ON DELETE CASCADE,
    number BIGINT NOT NULL,
    why TEXT NOT NULL,
    started_ms BIGINT NOT NULL,
    PRIMARY KEY (session, number)
);
CREATE TABLE zero.runs (
    row_id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id TEXT COLLATE "C" NOT NULL UNIQUE,
    session BIGINT NOT NULL REFERENCES zero.sessions ON DELETE CASCADE,
    node TEXT COLLATE "C" NOT NULL,
    started_ms BIGINT NOT NULL,
    ended_ms BIGINT,
    outcome TEXT,
    usage TEXT NOT NULL,
    options TEXT NOT NULL
);
CREATE INDEX runs_by_session ON zero.runs (session);
CREATE INDEX runs_unfinished ON zero.runs (session) WHERE outcome IS NULL;
CREATE TABLE zero.grants (
    session BIGINT NOT NULL REFERENCES zero.sessions ON DELETE CASCADE,
    position BIGINT NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (session, position)
);
-- What runs used, which is kept when their sessions are deleted.
CREATE TABLE zero.run_usage (
    run TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    session TEXT COLLATE "C" NOT NULL,
    session_key TEXT NOT NULL,
    owner TEXT COLLATE "C" NOT NULL,
    agent TEXT COLLATE "C" NOT NULL,
    model TEXT NOT NULL,
    started_ms BIGINT NOT NULL,
    usage JSONB NOT NULL,
    root_run TEXT COLLATE "C",
    root_session TEXT COLLATE "C",
    root_agent TEXT COLLATE "C"
);
CREATE INDEX run_usage_by_time ON zero.run_usage (started_ms, run);
CREATE INDEX run_usage_by_session ON zero.run_usage (session);
CREATE INDEX run_usage_by_root_run ON zero.run_usage (root_run) WHERE root_run IS NOT NULL;
CREATE INDEX run_usage_by_root_session ON zero.run_usage (root_session)
    WHERE root_session IS NOT NULL;
CREATE TABLE zero.rewind_points (
    session BIGINT NOT NULL REFERENCES zero.sessions ON DELETE CASCADE,
    seq BIGINT NOT NULL,
    run TEXT COLLATE "C",
    time_ms BIGINT NOT NULL,
    words TEXT NOT NULL,
    rewind TEXT,
    before BIGINT,
    scope TEXT,
    transcript BIGINT,
    messages BIGINT,
    PRIMARY KEY (session, seq)
);
CREATE TABLE zero.open_questions (
    row_id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id TEXT COLLATE "C" NOT NULL UNIQUE,
    session BIGINT NOT NULL REFERENCES zero.sessions ON DELETE CASCADE,
    run TEXT COLLATE "C" NOT NULL,
    asked_ms BIGINT NOT NULL,
    body TEXT NOT NULL
);
CREATE INDEX open_questions_by_session ON zero.open_questions (session);
CREATE INDEX open_questions_by_run ON zero.open_questions (run);
