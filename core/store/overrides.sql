-- Overrides of the send policy that wait for a session of their key (P5).

CREATE TABLE overrides (
    key TEXT PRIMARY KEY,
    send_policy TEXT NOT NULL
) WITHOUT ROWID;
