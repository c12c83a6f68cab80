-- Schema version 3: what was deleted, and which store this is.

-- A tombstone for each deleted session, so that whoever catches up hears of it. A key may be used again.
CREATE TABLE gone (
    session_id TEXT PRIMARY KEY,
    key TEXT NOT NULL,
    rev INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX gone_by_rev ON gone (rev);

CREATE TABLE meta (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;
-- A uuid4: a cursor means something in the store that gave it only.
INSERT INTO meta (name, value) VALUES (
    'store_id',
    lower(hex(randomblob(4)) || '-' || hex(randomblob(2)) || '-4' || substr(hex(randomblob(2)), 2) || '-'
        || substr('89AB', 1 + (random() & 3), 1) || substr(hex(randomblob(2)), 2) || '-' || hex(randomblob(6)))
);
