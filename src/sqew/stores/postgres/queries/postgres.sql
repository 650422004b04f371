-- Where PostgreSQL says it differently: it must be told the types of parameters that may be NULL, whose rows are locked,
-- and that text is wanted as bytes.

-- fragment: locked
-- Nobody else changes the row before the transaction ends.
FOR UPDATE

-- fragment: unless_locked
-- The same, and what others have locked is passed over: they are at it.
FOR UPDATE SKIP LOCKED

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

-- name: due_deliveries
SELECT id, payload_id, convert_to(endpoint, 'UTF8'), checksum, expires_at <= ?2, attempts FROM sqew_delivery
 WHERE subscription_id = ?1 AND due_at IS NOT NULL AND due_at <= ?2 ORDER BY due_at LIMIT ?3 {unless_locked}

-- name: payload_with_details
SELECT s.details, convert_to(d.endpoint, 'UTF8'), d.payload_id, d.checksum, {payload}, p.kind
  FROM sqew_delivery d JOIN sqew_payload p ON p.id = d.payload_id JOIN sqew_subscription s ON s.id = d.subscription_id
 WHERE d.id = ?1

-- name: check_deliveries
SELECT id, payload_id, convert_to(endpoint, 'UTF8'), checksum FROM sqew_delivery

-- fragment: schedule
convert_to(name, 'UTF8'), version, convert_to(status, 'UTF8'), convert_to(target_kind, 'UTF8'), due_at, slot_at, details,
is_text, checksum, headers, body

-- name: schedule_names
SELECT convert_to(name, 'UTF8') FROM sqew_schedule LIMIT 1000

-- name: hold_queue
-- Until the transaction ends. Locks by number know nothing of rows: who holds one may still wait for a row.
SELECT pg_advisory_xact_lock(1399940472, ?1::int)

-- name: fold_activity
-- Taken away and added up in one: two servers at it at once would both add what both have seen.
WITH old AS (
  DELETE FROM sqew_activity WHERE queue_id = ?1 AND minute > 0 AND minute < ?2 RETURNING queue_id, lane, name, count
)
INSERT INTO sqew_activity (queue_id, lane, name, minute, count)
SELECT queue_id, lane, name, 0, sum(count) FROM old GROUP BY queue_id, lane, name ORDER BY queue_id, lane, name
ON CONFLICT (queue_id, lane, name, minute) DO UPDATE SET count = sqew_activity.count + excluded.count

-- name: draw_ids
-- Not in blocks: within a FIFO group the order of ids is the order of sends, whichever server they came by.
SELECT nextval('sqew_message_id') FROM generate_series(1, ?1::int)
