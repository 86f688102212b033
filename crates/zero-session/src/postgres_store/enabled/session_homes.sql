-- The machine on whose disk the tools of a session work.
ALTER TABLE zero.sessions ADD COLUMN home TEXT COLLATE "C";
-- The process at which a client hosts the tools of a session.
ALTER TABLE zero.sessions ADD COLUMN tool_server TEXT COLLATE "C";
