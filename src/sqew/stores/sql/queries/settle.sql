-- Ack, nack, extend, remove: what ends or changes a lease.

-- fragment: authority
-- ?1 id; ?2 queue or NULL; ?3 token or NULL; ?4 holder or NULL.
id = ?1 AND (?2 IS NULL OR queue_id = ?2) AND (?3 IS NULL OR token = ?3) AND (?4 IS NULL OR leased_by = ?4)

-- fragment: held
id, queue_id, lane_id, priority, attempts, lease_until, leased_by, received_at, key, group_id, body IS NULL

-- fragment: ended
-- What must be known of a message that has been deleted.
id, lane_id, attempts, leased_by, received_at, key, group_id, body IS NULL

-- name: finish
-- The hot path of ack: a queue that keeps nothing. ?5: only those whose lease lasts beyond that time; NULL: all.
DELETE FROM sqew_message WHERE {authority} AND (CAST(?5 AS BIGINT) IS NULL OR lease_until > CAST(?5 AS BIGINT))
 {of_deleted}

-- name: finish_many
-- The same for a batch that was received under one lease.
DELETE FROM sqew_message WHERE {among_ids} AND queue_id = ?2 AND token = ?3 {of_deleted}

-- name: find_held
-- A message that the caller may settle.
SELECT {held} FROM sqew_message WHERE {authority} {locked}

-- name: whereabouts
-- Why it may not: which queue holds the message, if any.
SELECT queue_id FROM sqew_message WHERE id = ?1

-- name: homes
-- The same of many.
SELECT id, queue_id FROM sqew_message WHERE {among_ids}

-- name: delete_message
DELETE FROM sqew_message WHERE id = ?1

-- name: delete_body
DELETE FROM sqew_body WHERE id = ?1

-- name: retire_key
-- The message is gone: its key is remembered for a while longer.
UPDATE sqew_key SET expires_at = ?4 WHERE queue_id = ?1 AND key = ?2 AND message_id = ?3

-- name: release
-- Nack: the message waits in its queue, with no lease.
UPDATE sqew_message
   SET due_at = ?2, available_at = ?3, lease_until = NULL, token = NULL, leased_by = NULL, received_at = NULL,
       dies_at = NULL
 WHERE id = ?1

-- name: undeliver
-- Undo a receive whose answer reached nobody. ?2: the queue is FIFO, and the group's head is looked for anew.
UPDATE sqew_message
   SET due_at = CASE WHEN ?2 THEN NULL ELSE available_at END, attempts = CASE WHEN attempts > 0 THEN attempts - 1 ELSE 0 END, lease_until = NULL,
       token = NULL, leased_by = NULL, received_at = NULL, first_received_at = nullif(first_received_at, received_at),
       dies_at = NULL
 WHERE id = ?1

-- name: extend_lease
UPDATE sqew_message SET due_at = ?2, lease_until = ?3, dies_at = CASE WHEN dies_at IS NOT NULL THEN CAST(?3 AS BIGINT) END
 WHERE id = ?1

-- name: postpone
-- Extend of a message that nobody holds: a delay.
UPDATE sqew_message SET due_at = ?2, available_at = ?3 WHERE id = ?1

-- name: archive_message
-- ?2 lane name, ?3 finished_at, ?4 purge_at, ?5 outcome, ?6 reason, ?7 attempts. No checksum is negative: that of a
-- message whose body is lost would hold for what is left of it, if its headers are its body (see rows.is_whole).
INSERT INTO sqew_archive (id, queue_id, lane, priority, attempts, available_at, created_at, finished_at, purge_at,
                          outcome, reason, key, group_id, is_text, checksum, headers, body)
SELECT m.id, m.queue_id, ?2, m.priority, ?7, m.available_at, m.created_at, ?3, ?4, ?5, ?6, m.key,
       m.group_id, m.is_text, CASE WHEN m.body IS NULL AND b.body IS NULL THEN -1 ELSE m.checksum END, m.headers,
       coalesce(m.body, b.body, x'')
  FROM sqew_message m LEFT JOIN sqew_body b ON b.id = m.id
 WHERE m.id = ?1

-- name: move_to_dead_letter
-- ?2 queue, ?3 lane, ?4 due_at, ?5 now, ?6 expires_at, ?7 origin, ?8 origin lane, ?9 reason, ?10 attempts, ?11 group
UPDATE sqew_message
   SET queue_id = ?2, lane_id = ?3, due_at = ?4, available_at = ?5, expires_at = ?6, attempts = ?10, group_id = ?11,
       lease_until = NULL, token = NULL, leased_by = NULL, received_at = NULL, dies_at = NULL,
       origin = ?7, origin_lane = ?8, reason = ?9, died_at = ?5
 WHERE id = ?1
