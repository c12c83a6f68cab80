-- Schema version 2: exchanges and deliveries, and what a run has to do with them. Times are ms since the Unix epoch.

ALTER TABLE runs ADD COLUMN exchange TEXT;
ALTER TABLE runs ADD COLUMN turn INTEGER NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN root TEXT;
ALTER TABLE runs ADD COLUMN attempts INTEGER NOT NULL DEFAULT 0;

CREATE TABLE exchanges (
    id INTEGER PRIMARY KEY,
    exchange_id TEXT NOT NULL UNIQUE,
    rev INTEGER NOT NULL,
    kind TEXT NOT NULL,
    state TEXT NOT NULL,
    outcome TEXT,
    requester TEXT NOT NULL,
    target TEXT NOT NULL,
    turn INTEGER NOT NULL DEFAULT 0,
    max_turns INTEGER NOT NULL,
    request_seq INTEGER NOT NULL,
    root TEXT NOT NULL,
    cleanup INTEGER NOT NULL DEFAULT 0,
    reason TEXT,
    started_at INTEGER NOT NULL,
    ended_at INTEGER
);
CREATE INDEX exchanges_by_rev ON exchanges (rev);
CREATE INDEX exchanges_by_root ON exchanges (root);
CREATE INDEX exchanges_by_requester ON exchanges (requester, id);
CREATE INDEX exchanges_by_target ON exchanges (target, id);

CREATE TABLE deliveries (
    id INTEGER PRIMARY KEY,
    delivery_id TEXT NOT NULL UNIQUE,
    rev INTEGER NOT NULL,
    exchange_id TEXT NOT NULL,
    key TEXT NOT NULL,
    channel TEXT NOT NULL,
    address TEXT NOT NULL,
    account_id TEXT,
    text TEXT NOT NULL,
    state TEXT NOT NULL,
    reason TEXT,
    attempts INTEGER NOT NULL DEFAULT 0,
    due_at INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
);
CREATE INDEX deliveries_by_rev ON deliveries (rev);
CREATE INDEX deliveries_by_key ON deliveries (key, id);
CREATE INDEX deliveries_by_exchange ON deliveries (exchange_id);
CREATE INDEX deliveries_open ON deliveries (due_at) WHERE state IN ('pending', 'sending');

-- Sub-agents that are still to go to the archive, the first that is due in front.
CREATE INDEX sessions_to_archive ON sessions (ended_at) WHERE spawned_by IS NOT NULL AND archived_at IS NULL;
