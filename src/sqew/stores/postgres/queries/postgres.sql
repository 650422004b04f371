-- Where PostgreSQL says it differently: it must be told the types of parameters that may be NULL, whose rows are locked,
-- and that text is wanted as bytes.

-- fragment: locked
-- Nobody else changes the row before the transaction ends.
FOR UPDATE

-- fragment: shared
-- Nobody changes the row before the transaction ends, but others may say so as well.
FOR SHARE

-- fragment: kept
-- Nobody deletes the row before the transaction ends. It may be changed: who does so waits for nobody.
FOR KEY SHARE

-- fragment: unless_locked
-- The same, and what others have locked is passed over: they are at it.
FOR UPDATE SKIP LOCKED

-- fragment: of_deleted
RETURNING {ended}

-- fragment: among_ids
id = ANY(?1::bigint[])

-- fragment: authority
id = ?1 AND (?2::bigint IS NULL OR queue_id = ?2) AND (?3::text IS NULL OR token = ?3)
AND (?4::text IS NULL OR leased_by = ?4)

-- fragment: payload
convert_to(p.routing_key, 'UTF8'), convert_to(p.message_id, 'UTF8'), p.form, p.is_text, p.checksum, p.body

-- fragment: delivery
d.id, d.subscription_id, convert_to(d.endpoint, 'UTF8'), convert_to(p.routing_key, 'UTF8'),
convert_to(p.message_id, 'UTF8'), coalesce(p.form, 0), d.claimed, d.attempts, d.created_at, d.due_at, d.tried_at,
d.status, convert_to(d.error, 'UTF8')

-- name: insert_staged
-- Messages that differ in their bodies only: three arrays to send and to read.
INSERT INTO sqew_message (id, queue_id, lane_id, priority, due_at, available_at, created_at, expires_at, is_text,
                          checksum, body)
SELECT id, ?1::bigint, ?2::bigint, ?3::bigint, ?4::bigint, ?4::bigint, ?5::bigint, ?6::bigint, ?7::bigint, checksum, body
  FROM unnest(?8::bigint[], ?9::bigint[], ?10::bytea[]) AS new (id, checksum, body)

-- name: due_deliveries
SELECT id, payload_id, convert_to(endpoint, 'UTF8'), checksum, expires_at <= ?2, attempts FROM sqew_delivery
 WHERE subscription_id = ?1 AND due_at IS NOT NULL AND due_at <= ?2 ORDER BY due_at, id LIMIT ?3 {unless_locked}

-- name: payload_with_details
SELECT s.details, convert_to(d.endpoint, 'UTF8'), d.payload_id, d.checksum, {payload}, p.kind
  FROM sqew_delivery d
  CROSS JOIN LATERAL (SELECT * FROM sqew_payload WHERE id = d.payload_id OFFSET 0) AS p
  CROSS JOIN LATERAL (SELECT details FROM sqew_subscription WHERE id = d.subscription_id OFFSET 0) AS s
 WHERE d.id = ?1

-- name: check_deliveries
SELECT id, payload_id, convert_to(endpoint, 'UTF8'), checksum FROM sqew_delivery

-- fragment: schedule
convert_to(name, 'UTF8'), version, convert_to(status, 'UTF8'), convert_to(target_kind, 'UTF8'), due_at, slot_at, details,
is_text, checksum, headers, body

-- name: schedules_near
SELECT convert_to(name, 'UTF8') FROM (
    SELECT name FROM sqew_schedule WHERE name < ?1 ORDER BY name DESC LIMIT ?2
) AS earlier
UNION ALL SELECT convert_to(name, 'UTF8') FROM (
    SELECT name FROM sqew_schedule WHERE name > ?1 ORDER BY name LIMIT ?2
) AS later

-- name: ready_in_lane
-- The ready messages of a lane in order, all of its priorities ?5 (the highest first) in one: each after its position.
SELECT found.* FROM unnest(?5::bigint[], ?6::bigint[], ?7::bigint[]) AS bucket (of_priority, after_due_at, after_id),
       LATERAL (SELECT {delivered} FROM sqew_message
                 WHERE queue_id = ?1 AND lane_id = ?2 AND priority = of_priority AND due_at <= ?3
                   AND (due_at, id) > (after_due_at, after_id)
                 ORDER BY due_at, id LIMIT ?4 {unless_locked}) AS found
 LIMIT ?4

-- name: first_due
-- When the first message of some (lane, priority) is due, ready or not: each after its position and before its time.
SELECT min(found.due_at)
  FROM unnest(?2::bigint[], ?3::bigint[], ?4::bigint[], ?5::bigint[], ?6::bigint[])
       AS bucket (of_lane, of_priority, after_due_at, after_id, before),
       LATERAL (SELECT due_at FROM sqew_message
                 WHERE queue_id = ?1 AND lane_id = of_lane AND priority = of_priority AND due_at IS NOT NULL
                   AND (due_at, id) > (after_due_at, after_id) AND due_at < before
                 ORDER BY due_at, id LIMIT 1) AS found

-- fragment: spare_buckets
-- Of queues that have more than ?1 (lane, priority), up to ?2 that no message has. (In a queue with groups each would
-- have to be looked for among all that stand behind others.)
SELECT queue_id, lane_id, priority FROM sqew_bucket b
 WHERE queue_id IN (SELECT queue_id FROM sqew_bucket GROUP BY queue_id HAVING count(*) > ?1)
   AND NOT EXISTS (SELECT FROM sqew_message m WHERE m.queue_id = b.queue_id AND m.lane_id = b.lane_id
                      AND m.priority = b.priority AND m.due_at IS NOT NULL)
   AND NOT EXISTS (SELECT FROM sqew_message m WHERE m.queue_id = b.queue_id AND m.group_id IS NOT NULL)
 LIMIT ?2

-- name: find_spare_buckets
-- Once a minute, before everybody has to wait.
{spare_buckets}

-- name: drop_spare_buckets
DELETE FROM sqew_bucket WHERE (queue_id, lane_id, priority) IN ({spare_buckets})

-- name: hold_queues
-- Until the transaction ends, one after the other. Locks by number know nothing of rows: who holds one may still wait
-- for a row, so nobody who has locked a row may wait for one.
SELECT pg_advisory_xact_lock(1399940472, queue_id) FROM unnest(?1::int[]) AS wanted (queue_id)

-- name: queues_held_elsewhere
-- The same for those that are free; and which are not.
SELECT queue_id FROM unnest(?1::int[]) AS wanted (queue_id) WHERE NOT pg_try_advisory_xact_lock(1399940472, queue_id)

-- name: queues_to_sweep
-- Whose messages are going to be expired or exhausted, and so may expose others behind them.
SELECT DISTINCT queue_id FROM (
  SELECT * FROM (SELECT queue_id FROM sqew_message WHERE expires_at IS NOT NULL AND {over_at} <= ?1
                  ORDER BY {over_at} LIMIT ?2) AS expired
  UNION ALL
  SELECT * FROM (SELECT queue_id FROM sqew_message WHERE dies_at <= ?1 ORDER BY dies_at LIMIT ?2) AS dying) AS doomed

-- name: is_moved_into
-- A move from a file was begun, and is not finished.
SELECT 1 FROM sqew_moving_in WHERE finished_at IS NULL

-- name: read_depth
-- How many messages a queue held, of how many rows that is the sum, and whether they ever were counted.
SELECT CAST(sum(change) AS BIGINT), count(*), max(is_sum) FROM sqew_depth WHERE queue_id = ?1

-- name: count_depth
-- Once, when a quota is new: without the ?2 that this transaction has added. What others have taken and not committed is
-- counted, and they write it down.
WITH before AS (DELETE FROM sqew_depth WHERE queue_id = ?1)
INSERT INTO sqew_depth (queue_id, change, is_sum)
SELECT ?1::bigint, (SELECT count(*) FROM sqew_message WHERE queue_id = ?1 AND due_at IS NOT NULL)
     + (SELECT count(*) FROM sqew_message WHERE queue_id = ?1 AND group_id IS NOT NULL AND due_at IS NULL) - ?2::bigint, 1
RETURNING change

-- name: add_up_depth
WITH before AS (DELETE FROM sqew_depth WHERE queue_id = ?1 RETURNING change)
INSERT INTO sqew_depth (queue_id, change, is_sum) SELECT ?1::bigint, sum(change), 1 FROM before

-- name: change_depth
INSERT INTO sqew_depth (queue_id, change, is_sum) VALUES (?1, ?2, 0)

-- name: update_policy
-- Without a quota nobody writes down how many messages come and go: with a new one they are counted.
WITH before AS (DELETE FROM sqew_depth WHERE queue_id = ?1)
UPDATE sqew_queue SET policy = ?2, extras = ?3, dead_letter = ?4 WHERE id = ?1

-- name: delete_queue
WITH before AS (DELETE FROM sqew_depth WHERE queue_id = ?1) DELETE FROM sqew_queue WHERE id = ?1

-- name: draw_ids
-- Not in blocks: within a FIFO group the order of ids is the order of sends, whichever server they came by.
SELECT nextval('sqew_message_id') FROM generate_series(1, ?1::int)
