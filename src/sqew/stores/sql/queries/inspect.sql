-- Looking without touching.

-- fragment: stored
id, queue_id, lane_id, priority, due_at, attempts, available_at, created_at, expires_at, lease_until, token, leased_by,
key, group_id, origin, origin_lane, reason, died_at, is_text, checksum, CAST(headers AS BLOB), CAST(body AS BLOB)

-- fragment: archived
id, queue_id, lane, priority, attempts, available_at, created_at, finished_at, outcome, reason, key, group_id,
is_text, checksum, CAST(headers AS BLOB), CAST(body AS BLOB)

-- name: get_message
SELECT {stored} FROM sqew_message WHERE id = ?1

-- name: recent_messages
-- The newest of all queues: ids go up with time. Of a long body only its length.
SELECT id, queue_id, due_at, lease_until, attempts, created_at, CAST(body AS BLOB),
       coalesce(length(body), (SELECT length(body) FROM sqew_body WHERE sqew_body.id = sqew_message.id))
  FROM sqew_message ORDER BY id DESC LIMIT ?1

-- name: recent_archived
-- ?2: longer bodies are left out.
SELECT id, queue_id, outcome, attempts, created_at, finished_at,
       CASE WHEN length(body) <= ?2 THEN CAST(body AS BLOB) END, length(body)
  FROM sqew_archive ORDER BY id DESC LIMIT ?1

-- name: peek_ready
SELECT {stored} FROM sqew_message
 WHERE queue_id = ?1 AND lane_id = ?2 AND priority = ?3 AND due_at <= ?4 ORDER BY due_at, id LIMIT ?5

-- name: peek_waiting
SELECT {stored} FROM sqew_message
 WHERE queue_id = ?1 AND lane_id = ?2 AND priority = ?3 AND due_at > ?4 ORDER BY due_at, id LIMIT ?5

-- name: peek_blocked
-- Group by group: in the order of ids, all of them would have to be read and sorted.
SELECT {stored} FROM sqew_message
 WHERE queue_id = ?1 AND lane_id = ?2 AND group_id IS NOT NULL AND due_at IS NULL ORDER BY group_id, id LIMIT ?3

-- name: count_ready
SELECT count(*), min(due_at) FROM sqew_message
 WHERE queue_id = ?1 AND lane_id = ?2 AND priority = ?3 AND due_at <= ?4

-- name: count_waiting
SELECT count(*), count(*) FILTER (WHERE lease_until > ?4) FROM sqew_message
 WHERE queue_id = ?1 AND lane_id = ?2 AND priority = ?3 AND due_at > ?4

-- name: count_blocked
-- Behind the heads of FIFO groups: those taken in one batch with their head are leased, the rest wait.
SELECT lane_id, count(*), count(*) FILTER (WHERE lease_until > ?2) FROM sqew_message
 WHERE queue_id = ?1 AND group_id IS NOT NULL AND due_at IS NULL GROUP BY lane_id

-- name: count_claimable
SELECT count(*) FROM sqew_message WHERE queue_id = ?1 AND lane_id = ?2 AND priority = ?3 AND due_at IS NOT NULL

-- name: count_dead_letters
SELECT count(*) FROM sqew_message WHERE origin = ?1 AND {not_deleted}

-- name: count_archived
SELECT outcome, count(*) FROM sqew_archive WHERE queue_id = ?1 GROUP BY outcome

-- name: ends_of_bucket
-- The first and the last message of one (lane, priority).
SELECT min(id), max(id) FROM sqew_message
 WHERE queue_id = ?1 AND lane_id = ?2 AND priority = ?3 AND due_at IS NOT NULL

-- name: ends_of_groups
-- The same of all FIFO groups.
SELECT min(id), max(id) FROM sqew_message WHERE queue_id = ?1 AND group_id IS NOT NULL

-- name: created_at
SELECT created_at FROM sqew_message WHERE id = ?1

-- name: last_id
SELECT max(id) FROM sqew_message

-- name: list_archive
SELECT {archived} FROM sqew_archive INDEXED BY sqew_archive_queue
 WHERE queue_id = ?1 AND outcome = ?4 AND id > ?2 ORDER BY id LIMIT ?3

-- name: activity
SELECT lane, name, minute, count FROM sqew_activity WHERE queue_id = ?1

-- name: scan_end
-- The last of the next so many ids, whichever queue they belong to.
SELECT max(id), count(*) FROM (SELECT id FROM sqew_message WHERE id > ?1 AND id <= ?2 ORDER BY id LIMIT ?3) AS step

-- name: scan
-- The messages of one queue between two ids.
SELECT {stored} FROM sqew_message WHERE id > ?1 AND id <= ?2 AND +queue_id = ?3 ORDER BY id

-- name: export_bucket
SELECT {stored} FROM sqew_message
 WHERE queue_id = ?1 AND lane_id = ?2 AND priority = ?3 AND due_at IS NOT NULL ORDER BY due_at, id

-- name: export_blocked
SELECT {stored} FROM sqew_message
 WHERE queue_id = ?1 AND group_id IS NOT NULL AND due_at IS NULL ORDER BY group_id, id

-- name: export_archive
SELECT {archived} FROM sqew_archive WHERE queue_id = ?1 ORDER BY outcome, id

-- name: check_messages
-- Every stored body, for its checksum.
SELECT m.id, m.checksum, m.is_text, CAST(m.headers AS BLOB), CAST(coalesce(m.body, b.body) AS BLOB)
  FROM sqew_message m LEFT JOIN sqew_body b ON b.id = m.id

-- name: check_archive
SELECT id, checksum, is_text, CAST(headers AS BLOB), CAST(body AS BLOB) FROM sqew_archive

-- name: check_payloads
SELECT p.id, {payload} FROM sqew_payload p

-- name: check_deliveries
SELECT id, payload_id, CAST(endpoint AS BLOB), checksum FROM sqew_delivery

-- name: check_schedules
SELECT {schedule} FROM sqew_schedule

-- name: empty_buckets
-- Lanes and priorities that no message has any more, be it claimable or behind the head of its FIFO group.
SELECT queue_id, lane_id, priority FROM sqew_bucket b
 WHERE NOT EXISTS (SELECT 1 FROM sqew_message m WHERE m.queue_id = b.queue_id AND m.lane_id = b.lane_id
                      AND m.priority = b.priority AND m.due_at IS NOT NULL)
   AND NOT EXISTS (SELECT 1 FROM sqew_message m WHERE m.queue_id = b.queue_id AND m.group_id IS NOT NULL
                      AND m.lane_id = b.lane_id AND m.priority = b.priority)
