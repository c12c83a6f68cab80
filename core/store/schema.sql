-- Schema version 1. Times are ms since the Unix epoch. `rev` is the global order of durable changes (architecture#order).

CREATE TABLE sessions (
    id INTEGER PRIMARY KEY,
    key TEXT NOT NULL UNIQUE,
    session_id TEXT NOT NULL UNIQUE,
    rev INTEGER NOT NULL,
    agent_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    chat_type TEXT NOT NULL,
    channel TEXT NOT NULL,
    origin TEXT,
    display_name TEXT,
    label TEXT,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    archived_at INTEGER,
    first_seq INTEGER NOT NULL DEFAULT 1,
    last_seq INTEGER NOT NULL DEFAULT 0,
    model TEXT,
    used_model TEXT,
    thinking_level TEXT,
    verbose_level TEXT,
    system_sent INTEGER NOT NULL DEFAULT 0,
    aborted_last_run INTEGER NOT NULL DEFAULT 0,
    send_policy TEXT,
    last_channel TEXT,
    last_to TEXT,
    last_account_id TEXT,
    spawned_by TEXT,
    status TEXT,
    queued INTEGER NOT NULL DEFAULT 0,
    started_at INTEGER,
    ended_at INTEGER,
    runtime_ms INTEGER,
    context_tokens INTEGER,
    total_tokens INTEGER,
    spent_tokens INTEGER NOT NULL DEFAULT 0,
    cost_usd REAL,
    preview TEXT,
    error TEXT
);
CREATE INDEX sessions_by_rev ON sessions (rev);
CREATE INDEX sessions_by_update ON sessions (updated_at DESC, id DESC) WHERE archived_at IS NULL;
CREATE INDEX sessions_by_kind ON sessions (kind) WHERE kind NOT IN ('group', 'other');
CREATE INDEX sessions_by_parent ON sessions (spawned_by) WHERE spawned_by IS NOT NULL;

-- Names of a session for substring search of three characters and more.
CREATE VIRTUAL TABLE session_names USING fts5 (key, label, display_name, tokenize = 'trigram');

-- Every transcript a key has had: `first_seq` on, up to the first of the next.
CREATE TABLE transcripts (
    session_id TEXT PRIMARY KEY,
    key TEXT NOT NULL,
    first_seq INTEGER NOT NULL,
    last_seq INTEGER,
    started_at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX transcripts_by_key ON transcripts (key, first_seq);

-- `body` is the message as JSON text, made once and spliced into answers. `brief` is the same with what is long cut, only
-- where something is; it stands first, so that reading it does not walk through a body of megabytes. Its
-- indexes are those of `unique.sql`.
CREATE TABLE messages (
    id INTEGER PRIMARY KEY,
    session INTEGER NOT NULL REFERENCES sessions (id),
    seq INTEGER NOT NULL,
    rev INTEGER NOT NULL,
    role TEXT NOT NULL,
    run_id TEXT,
    brief TEXT,
    body TEXT NOT NULL
);
CREATE INDEX messages_in_order ON messages (session, seq, role);

-- Words of all messages, by messages.id; without a copy of the text.
CREATE VIRTUAL TABLE message_words USING fts5 (words, content = '', tokenize = 'unicode61 remove_diacritics 2');

CREATE TABLE runs (
    id INTEGER PRIMARY KEY,
    run_id TEXT NOT NULL UNIQUE,
    key TEXT NOT NULL,
    session_id TEXT NOT NULL,
    rev INTEGER NOT NULL,
    kind TEXT NOT NULL,
    state TEXT NOT NULL,
    requester TEXT,
    input_seq INTEGER NOT NULL,
    fingerprint TEXT NOT NULL,
    accepted_at INTEGER NOT NULL,
    started_at INTEGER,
    ended_at INTEGER,
    reply_seq INTEGER,
    error TEXT,
    model TEXT,
    thinking TEXT,
    timeout_ms INTEGER NOT NULL DEFAULT 0,
    input_tokens INTEGER NOT NULL DEFAULT 0,
    output_tokens INTEGER NOT NULL DEFAULT 0,
    cache_read INTEGER NOT NULL DEFAULT 0,
    cache_write INTEGER NOT NULL DEFAULT 0,
    cost_usd REAL
);
CREATE INDEX runs_by_rev ON runs (rev);
CREATE INDEX runs_by_key ON runs (key, id);
CREATE INDEX runs_live ON runs (key, id) WHERE state IN ('queued', 'running');
