-- Receiving: the hot statements. Their plans are guarded by tests.

-- fragment: delivered
-- What a receiver needs of a message, in the order in which receiving.py reads it.
id, lane_id, priority, attempts, available_at, created_at, expires_at, key, group_id,
origin, reason, died_at, is_text, checksum, CAST(headers AS BLOB), CAST(body AS BLOB), due_at,
first_received_at

-- name: ready
-- The ready messages of one (lane, priority) after a position, in order. To read the rows and then lease each by its id
-- takes 23 µs for one message and 6 for one of a hundred; UPDATE … RETURNING takes 66 and 22.
SELECT {delivered} FROM sqew_message
 WHERE queue_id = ?1 AND lane_id = ?2 AND priority = ?3 AND due_at <= ?4 AND (due_at, id) > (?5, ?6)
 ORDER BY due_at, id LIMIT ?7 {unless_locked}

-- name: lease
-- Lease a message that was found ready. available_at takes the old due_at: since when it was ready.
UPDATE sqew_message
   SET available_at = due_at, due_at = ?2, lease_until = ?2, attempts = attempts + 1, token = ?3, leased_by = ?4,
       received_at = ?5, first_received_at = coalesce(first_received_at, ?5), dies_at = ?6
 WHERE id = ?1

-- name: lease_many
-- The same for a batch.
UPDATE sqew_message
   SET available_at = due_at, due_at = ?2, lease_until = ?2, attempts = attempts + 1, token = ?3, leased_by = ?4,
       received_at = ?5, first_received_at = coalesce(first_received_at, ?5),
       dies_at = CASE WHEN attempts + 1 >= ?6 THEN CAST(?2 AS BIGINT) END
 WHERE {among_ids}

-- name: next_due
-- When the first message of one (lane, priority) is due, ready or not.
SELECT due_at FROM sqew_message
 WHERE queue_id = ?1 AND lane_id = ?2 AND priority = ?3 AND due_at IS NOT NULL
 ORDER BY due_at, id LIMIT 1

-- name: next_death
-- When the next lease of a last delivery ends: then a message may come to a dead-letter queue.
SELECT dies_at FROM sqew_message WHERE dies_at IS NOT NULL ORDER BY dies_at LIMIT 1

-- name: large_body
-- A body that is kept out of its message's row.
SELECT CAST(body AS BLOB) FROM sqew_body WHERE id = ?1

-- name: save_turns
-- Remember how the lanes stand in the round-robin, for the next receiver in whatever process.
UPDATE sqew_lane SET turn = ?3 WHERE queue_id = ?1 AND id = ?2

-- name: read_turns
SELECT id, turn FROM sqew_lane WHERE queue_id = ?1
