-- Reading by the million: columns as they go out, times in microseconds.

-- fragment: exported_body
id, is_text, checksum, CAST(headers AS BLOB), CAST(body AS BLOB)

-- fragment: state_number
-- Where it stands in model.STATES. ?4: now.
CASE WHEN lease_until > ?4 THEN 2 WHEN due_at IS NULL THEN 3 WHEN due_at <= ?4 THEN 0 ELSE 1 END

-- fragment: exported
-- A lease that ran out made the message available when it ended.
{exported_body}, lane_id, priority, attempts, {state_number}, created_at * 1000,
CASE WHEN lease_until > ?4 OR due_at IS NULL THEN available_at ELSE due_at END * 1000, expires_at * 1000, key, group_id

-- fragment: to_export
-- ?1 and ?2: between which ids. ?3 queue, ?5 lane or NULL, ?6 number of the state or NULL.
id > ?1 AND id <= ?2 AND +queue_id = ?3 AND (CAST(?5 AS BIGINT) IS NULL OR +lane_id = ?5)
AND (CAST(?6 AS BIGINT) IS NULL OR {state_number} = ?6)

-- fragment: plain
-- What most are that are sent by the million: JSON that waits to be received, and nothing else is known of it.
-- ?4 queue, ?5 its default lane, ?6 now.
queue_id = ?4 AND lane_id = ?5 AND priority = 0 AND attempts = 0 AND due_at <= ?6 AND lease_until IS NULL
AND is_text = 0 AND key IS NULL AND group_id IS NULL AND expires_at IS NULL AND headers IS NULL AND body IS NOT NULL

-- name: export_end
-- The last of the next so many ids, whichever queue they belong to, and how many bytes they stand for.
SELECT max(id), count(*), CAST(coalesce(sum(size), 0) AS BIGINT)
  FROM (SELECT id, coalesce(length(body), (SELECT length(b.body) FROM sqew_body b WHERE b.id = m.id), 0)
                   + coalesce(length(headers), 0) AS size
          FROM sqew_message m WHERE id > ?1 AND id <= ?2 ORDER BY id LIMIT ?3) AS step

-- name: export_messages
SELECT {exported} FROM sqew_message WHERE {to_export} ORDER BY id

-- name: export_bodies
-- The same for those who want little else.
SELECT {exported_body} FROM sqew_message WHERE {to_export} ORDER BY id

-- name: export_plain
-- Twice as fast, where all the next messages are plain: the last column tells. Large bodies are not in their rows.
SELECT id, checksum, CAST(body AS BLOB), created_at * 1000, due_at * 1000, ({plain}) FROM sqew_message
 WHERE id > ?1 AND id <= ?2 ORDER BY id LIMIT ?3

-- name: bounds_of_bucket
-- The first and the last message of one (lane, priority), and how many there are.
SELECT min(id), max(id), count(*) FROM sqew_message
 WHERE queue_id = ?1 AND lane_id = ?2 AND priority = ?3 AND due_at IS NOT NULL

-- name: bounds_of_blocked
-- The same of those that stand behind the heads of their FIFO groups.
SELECT min(id), max(id), count(*) FROM sqew_message WHERE queue_id = ?1 AND group_id IS NOT NULL AND due_at IS NULL

-- name: archive_bounds
SELECT min(id), max(id), count(*) FROM sqew_archive INDEXED BY sqew_archive_queue WHERE queue_id = ?1 AND outcome = ?2

-- name: archive_end
-- As export_end does, of those that ended so.
SELECT max(id), count(*), CAST(coalesce(sum(size), 0) AS BIGINT)
  FROM (SELECT id, length(body) + coalesce(length(headers), 0) AS size FROM sqew_archive INDEXED BY sqew_archive_queue
         WHERE queue_id = ?1 AND outcome = ?2 AND id > ?3 AND id <= ?4 ORDER BY id LIMIT ?5) AS step

-- name: export_archived
SELECT {exported_body}, lane, priority, attempts, created_at * 1000, available_at * 1000, key, group_id, outcome,
       finished_at * 1000, coalesce(reason, '')
  FROM sqew_archive INDEXED BY sqew_archive_queue
 WHERE queue_id = ?1 AND outcome = ?2 AND id > ?3 AND id <= ?4 ORDER BY id
