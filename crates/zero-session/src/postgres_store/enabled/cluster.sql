-- Which cluster the database is, and what only its processes know.
CREATE TABLE zero.cluster (
    one_row BOOLEAN PRIMARY KEY DEFAULT true CHECK (one_row),
    name TEXT COLLATE "C" NOT NULL,
    secret BYTEA NOT NULL
);
INSERT INTO zero.cluster (name, secret) VALUES (
    'zero-' || left(replace(gen_random_uuid()::text, '-', ''), 12),
    sha256(convert_to(
        gen_random_uuid()::text || gen_random_uuid()::text || gen_random_uuid()::text, 'UTF8'
    ))
);
-- What processes ask each other. A crash may lose it.
CREATE UNLOGGED TABLE zero.bus_nodes (
    name TEXT COLLATE "C" PRIMARY KEY,
    -- Of the process that has the name.
    instance BIGINT NOT NULL,
    seen TIMESTAMPTZ NOT NULL
) WITH (fillfactor = 50);
CREATE UNLOGGED TABLE zero.bus_requests (
    -- Random, since a crash would begin counting again.
    id BIGINT PRIMARY KEY,
    sender TEXT COLLATE "C" NOT NULL,
    recipient TEXT COLLATE "C" NOT NULL,
    asked TIMESTAMPTZ NOT NULL,
    expires TIMESTAMPTZ NOT NULL,
    is_taken BOOLEAN NOT NULL DEFAULT false,
    -- Until it is answered.
    body BYTEA,
    outcome INT4,
    answer BYTEA
);
CREATE INDEX bus_requests_new ON zero.bus_requests (recipient, asked) WHERE NOT is_taken;
CREATE INDEX bus_requests_by_expiry ON zero.bus_requests (expires);
