-- Sending.

-- name: insert_message
INSERT INTO sqew_message (id, queue_id, lane_id, priority, due_at, available_at, created_at, expires_at,
                          key, group_id, is_text, checksum, headers, body)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)

-- name: insert_small
-- The same without what most messages don't have: three parameters fewer to bind.
INSERT INTO sqew_message (id, queue_id, lane_id, priority, due_at, available_at, created_at, expires_at, is_text,
                          checksum, headers, body)
VALUES (?1, ?2, ?3, ?4, ?5, ?5, ?6, ?7, ?8, ?9, ?10, ?11)

-- name: insert_body
INSERT INTO sqew_body (id, body) VALUES (?1, ?2)

-- name: key_owner
-- The message that a key stands for, if the key is still remembered. A lock is written down: so the answer to a repeated
-- send waits for a synchronous standby as well, which may not have the message yet. Who acks that message does not wait.
SELECT message_id FROM sqew_key WHERE queue_id = ?1 AND key = ?2 AND (expires_at IS NULL OR expires_at > ?3) {kept}

-- name: claim_key
-- Remember a key until ?5, or for as long as its message lives. An outlived key is taken over; a living one is left
-- alone.
INSERT INTO sqew_key (queue_id, key, message_id, expires_at) VALUES (?1, ?2, ?3, ?5)
ON CONFLICT (queue_id, key) DO UPDATE SET message_id = excluded.message_id, expires_at = excluded.expires_at
 WHERE sqew_key.message_id = excluded.message_id OR sqew_key.expires_at <= ?4

-- name: insert_bucket
INSERT INTO sqew_bucket (queue_id, lane_id, priority) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING
