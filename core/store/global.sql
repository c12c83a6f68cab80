-- The one session of `session.scope = "global"` is stored as `global`, and nobody who reads hears that word (K5): what is
-- looked up, joined and handed out is `key`. Whatever names a session elsewhere names it by that.

ALTER TABLE sessions RENAME COLUMN key TO stored_key;
ALTER TABLE sessions ADD COLUMN key TEXT GENERATED ALWAYS AS (
    CASE stored_key WHEN 'global' THEN 'main' ELSE stored_key END
) VIRTUAL;
CREATE UNIQUE INDEX sessions_by_key ON sessions (key);

UPDATE session_names SET key = 'main' WHERE rowid = (SELECT id FROM sessions WHERE stored_key = 'global');
UPDATE sessions SET spawned_by = 'main' WHERE spawned_by = 'global';
UPDATE transcripts SET key = 'main' WHERE key = 'global';
UPDATE runs SET key = 'main' WHERE key = 'global';
UPDATE runs SET requester = 'main' WHERE requester = 'global';
UPDATE exchanges SET requester = 'main' WHERE requester = 'global';
UPDATE exchanges SET target = 'main' WHERE target = 'global';
UPDATE deliveries SET key = 'main' WHERE key = 'global';
UPDATE gone SET key = 'main' WHERE key = 'global';
-- A quote inside a text is written \", so these are the names of fields and nothing that anybody said.
UPDATE messages SET
    body = replace(body, '"sourceSessionKey":"global"', '"sourceSessionKey":"main"'),
    brief = replace(brief, '"sourceSessionKey":"global"', '"sourceSessionKey":"main"')
WHERE EXISTS (SELECT 1 FROM sessions WHERE stored_key = 'global') AND body LIKE '%"sourceSessionKey":"global"%';
