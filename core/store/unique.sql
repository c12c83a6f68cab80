-- Schema version 5: what the writer keeps unique is so in the schema too, and which writer may commit.

-- `core.store.repair` has given what stood twice a place of its own.
DROP INDEX sessions_by_rev;
DROP INDEX runs_by_rev;
DROP INDEX exchanges_by_rev;
DROP INDEX deliveries_by_rev;
DROP INDEX gone_by_rev;
CREATE UNIQUE INDEX sessions_by_rev ON sessions (rev);
CREATE UNIQUE INDEX runs_by_rev ON runs (rev);
CREATE UNIQUE INDEX exchanges_by_rev ON exchanges (rev);
CREATE UNIQUE INDEX deliveries_by_rev ON deliveries (rev);
CREATE UNIQUE INDEX gone_by_rev ON gone (rev);
CREATE UNIQUE INDEX messages_by_rev ON messages (rev);
DROP INDEX messages_in_order;
CREATE UNIQUE INDEX messages_in_order ON messages (session, seq);
-- Tool results are passed over without touching their rows.
CREATE INDEX messages_said ON messages (session, seq) WHERE role <> 'toolResult';

-- Counts those who took the directory over; a writer whose number is not the newest commits nothing.
INSERT INTO meta (name, value) VALUES ('epoch', '0');
-- Up to this rev every message is in its transcript's file.
INSERT INTO meta (name, value) SELECT 'files_rev', coalesce(max(rev), 0) FROM messages;

-- Runs of sessions that were deleted: their idempotency keys stay used.
CREATE TABLE spent_runs (
    run_id TEXT PRIMARY KEY,
    key TEXT NOT NULL,
    session_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    state TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    accepted_at INTEGER NOT NULL,
    ended_at INTEGER
) WITHOUT ROWID;
