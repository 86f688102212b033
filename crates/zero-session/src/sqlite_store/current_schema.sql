CREATE TABLE sessions (
    row INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    key TEXT NOT NULL,
    key_folded TEXT NOT NULL,
    label TEXT,
    label_folded TEXT,
    title TEXT,
    title_folded TEXT,
    agent TEXT NOT NULL,
    model TEXT,
    mode TEXT,
    thinking TEXT,
    cwd BLOB,
    owner TEXT NOT NULL,
    tool_host TEXT NOT NULL,
    created_ms INTEGER NOT NULL,
    updated_ms INTEGER NOT NULL,
    transcript INTEGER NOT NULL,
    usage TEXT NOT NULL,
    context_tokens INTEGER,
    last_seq INTEGER NOT NULL,
    bytes INTEGER NOT NULL DEFAULT 0,
    node TEXT,
    epoch INTEGER NOT NULL DEFAULT 0,
    removed INTEGER NOT NULL DEFAULT 0,
    completed_transcript INTEGER,
    completed_messages INTEGER,
    parent TEXT
) STRICT;
CREATE UNIQUE INDEX sessions_by_key ON sessions (owner, key) WHERE removed = 0;
CREATE UNIQUE INDEX sessions_by_label ON sessions (owner, label)
    WHERE removed = 0 AND label IS NOT NULL;
CREATE INDEX sessions_removed ON sessions (row) WHERE removed = 1;
CREATE INDEX sessions_by_parent ON sessions (parent) WHERE parent IS NOT NULL;
CREATE VIEW live_sessions AS SELECT * FROM sessions WHERE removed = 0;
CREATE TABLE events (
    session INTEGER NOT NULL REFERENCES sessions (row) ON DELETE CASCADE,
    seq INTEGER NOT NULL,
    run TEXT,
    time_ms INTEGER NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (session, seq)
) STRICT, WITHOUT ROWID;
CREATE TABLE transcripts (
    session INTEGER NOT NULL REFERENCES sessions (row) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    why TEXT NOT NULL,
    started_ms INTEGER NOT NULL,
    PRIMARY KEY (session, number)
) STRICT, WITHOUT ROWID;
CREATE TABLE messages (
    session INTEGER NOT NULL,
    transcript INTEGER NOT NULL,
    position INTEGER NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (session, transcript, position),
    FOREIGN KEY (session, transcript) REFERENCES transcripts (session, number) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
CREATE TABLE runs (
    row INTEGER PRIMARY KEY,
    owner TEXT NOT NULL,
    id TEXT NOT NULL,
    session INTEGER NOT NULL REFERENCES sessions (row) ON DELETE CASCADE,
    node TEXT NOT NULL,
    started_ms INTEGER NOT NULL,
    ended_ms INTEGER,
    end TEXT,
    usage TEXT NOT NULL,
    options TEXT
) STRICT;
CREATE UNIQUE INDEX runs_by_id ON runs (id, owner);
CREATE INDEX runs_by_session ON runs (session, id);
CREATE INDEX runs_unsettled ON runs (started_ms) WHERE end IS NULL;
CREATE INDEX runs_unfinished_by_session ON runs (session) WHERE end IS NULL;
CREATE TABLE grants (
    session INTEGER NOT NULL REFERENCES sessions (row) ON DELETE CASCADE,
    position INTEGER NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (session, position)
) STRICT, WITHOUT ROWID;
CREATE TABLE run_usage (
    run TEXT NOT NULL,
    session TEXT NOT NULL,
    session_key TEXT NOT NULL,
    owner TEXT NOT NULL,
    agent TEXT NOT NULL,
    model TEXT NOT NULL,
    started_ms INTEGER NOT NULL,
    usage TEXT NOT NULL,
    root_run TEXT,
    root_session TEXT,
    root_agent TEXT,
    PRIMARY KEY (run, session)
) STRICT, WITHOUT ROWID;
CREATE INDEX run_usage_by_time ON run_usage (started_ms, run, session);
CREATE INDEX run_usage_by_session ON run_usage (session);
CREATE INDEX run_usage_by_root_run ON run_usage (root_run) WHERE root_run IS NOT NULL;
CREATE INDEX run_usage_by_root_session ON run_usage (root_session) WHERE root_session IS NOT NULL;
CREATE TABLE rewind_points (
    session INTEGER NOT NULL REFERENCES sessions (row) ON DELETE CASCADE,
    seq INTEGER NOT NULL,
    run TEXT,
    time_ms INTEGER NOT NULL,
    words TEXT NOT NULL,
    rewind TEXT,
    before INTEGER,
    scope TEXT,
    transcript INTEGER,
    messages INTEGER,
    PRIMARY KEY (session, seq)
) STRICT, WITHOUT ROWID;
CREATE TABLE open_questions (
    row INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    session INTEGER NOT NULL REFERENCES sessions (row) ON DELETE CASCADE,
    run TEXT NOT NULL,
    asked_ms INTEGER NOT NULL,
    body TEXT NOT NULL
) STRICT;
CREATE INDEX open_questions_by_session ON open_questions (session);
CREATE INDEX open_questions_by_run ON open_questions (run);
