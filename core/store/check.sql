-- Each of these finds what must not be, by a name that says where to look (core/store/maintenance/check.py).
-- The line above it has the topic, in one word, and what is said of what was found.

-- revs: numbers of the global order were given out twice: {}
SELECT rev FROM (
    SELECT rev FROM sessions UNION ALL SELECT rev FROM runs UNION ALL SELECT rev FROM exchanges
    UNION ALL SELECT rev FROM deliveries UNION ALL SELECT rev FROM gone UNION ALL SELECT rev FROM messages
) GROUP BY rev HAVING count(*) > 1 ORDER BY rev;

-- messages: messages belong to no session: {}
SELECT m.id FROM messages AS m WHERE NOT EXISTS (SELECT 1 FROM sessions AS s WHERE s.id = m.session);

-- messages: two messages of a session have one number: {}
SELECT s.key || ' ' || m.seq FROM messages AS m JOIN sessions AS s ON s.id = m.session
GROUP BY m.session, m.seq HAVING count(*) > 1;

-- messages: sessions lack messages, or have more than their row says: {}
SELECT s.key FROM sessions AS s LEFT JOIN (
    SELECT session, count(DISTINCT seq) AS n, min(seq) AS low, max(seq) AS high FROM messages GROUP BY session
) AS m ON m.session = s.id
WHERE coalesce(m.n, 0) <> s.last_seq OR coalesce(m.low, 1) <> 1 OR coalesce(m.high, 0) <> s.last_seq;

-- transcripts: sessions have no transcript of their own: {}
SELECT s.key FROM sessions AS s WHERE NOT EXISTS (
    SELECT 1 FROM transcripts AS t
    WHERE t.session_id = s.session_id AND t.key = s.key AND t.first_seq = s.first_seq AND t.last_seq IS NULL
);

-- transcripts: transcripts belong to no session: {}
SELECT t.session_id FROM transcripts AS t WHERE NOT EXISTS (SELECT 1 FROM sessions AS s WHERE s.key = t.key);

-- transcripts: transcripts of one session overlap, or leave a gap: {}
SELECT key FROM (
    SELECT key, last_seq, lead(first_seq) OVER (PARTITION BY key ORDER BY first_seq, started_at) AS next
    FROM transcripts
) WHERE next IS NOT NULL AND last_seq IS NOT next - 1;

-- runs: runs belong to no session: {}
SELECT run_id FROM runs AS r WHERE NOT EXISTS (SELECT 1 FROM sessions AS s WHERE s.key = r.key);

-- runs: runs are over without an end, or have an end and are not: {}
SELECT run_id FROM runs WHERE (state IN ('queued', 'running')) = (ended_at IS NOT NULL);

-- runs: runs answer with a message that is not there: {}
SELECT r.run_id FROM runs AS r JOIN sessions AS s ON s.key = r.key
WHERE r.reply_seq > s.last_seq OR r.input_seq > s.last_seq;

-- runs: more than one run is at work in a session: {}
SELECT key FROM runs WHERE state = 'running' GROUP BY key HAVING count(*) > 1;

-- exchanges: exchanges have neither of their sessions: {}
SELECT exchange_id FROM exchanges AS e WHERE NOT EXISTS (
    SELECT 1 FROM sessions AS s WHERE s.key IN (e.requester, e.target)
);

-- exchanges: exchanges are over without an end, or have an end and are not: {}
SELECT exchange_id FROM exchanges WHERE (state = 'ended') <> (ended_at IS NOT NULL);

-- runs: runs are part of an exchange that is not there: {}
SELECT run_id FROM runs AS r WHERE exchange IS NOT NULL AND state IN ('queued', 'running')
AND NOT EXISTS (SELECT 1 FROM exchanges AS e WHERE e.exchange_id = r.exchange);

-- deliveries: deliveries belong to no exchange: {}
SELECT delivery_id FROM deliveries AS d WHERE NOT EXISTS (
    SELECT 1 FROM exchanges AS e WHERE e.exchange_id = d.exchange_id
);

-- deliveries: an exchange has more than one delivery: {}
SELECT exchange_id FROM deliveries GROUP BY exchange_id HAVING count(*) > 1;
