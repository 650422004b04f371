-- Messages that wait until their writer's epoch is promoted.

-- fragment: writer
name, epoch, promoted, duplicates

-- name: read_writer
SELECT {writer} FROM sqew_writer WHERE queue_id = ?1 AND name = ?2

-- name: writer_to_promote
-- The same, and locked: see `key_owner`. What is said of an epoch that is in the queue waits for a synchronous standby, too.
SELECT {writer} FROM sqew_writer WHERE queue_id = ?1 AND name = ?2 {kept}

-- name: writers_of
SELECT {writer} FROM sqew_writer WHERE queue_id = ?1 AND name > ?2 ORDER BY name LIMIT ?3

-- name: writers_near
-- For whoever misspelt one: its neighbours in the order of names.
SELECT name FROM (
    SELECT name FROM sqew_writer WHERE queue_id = ?1 AND name < ?2 ORDER BY name DESC LIMIT ?3
) AS earlier
UNION ALL SELECT name FROM (
    SELECT name FROM sqew_writer WHERE queue_id = ?1 AND name > ?2 ORDER BY name LIMIT ?3
) AS later

-- name: insert_writer
INSERT INTO sqew_writer (queue_id, name) VALUES (?1, ?2) ON CONFLICT DO NOTHING

-- name: decide
-- An epoch is to be in the queue: as good as done, whatever happens next.
INSERT INTO sqew_writer (queue_id, name, epoch) VALUES (?1, ?2, ?3)
ON CONFLICT (queue_id, name) DO UPDATE SET epoch = excluded.epoch, promoted = 0, duplicates = 0, expires_at = NULL

-- name: count_promoted
UPDATE sqew_writer SET promoted = promoted + ?4, duplicates = duplicates + ?5
 WHERE queue_id = ?1 AND name = ?2 AND +epoch = ?3

-- name: remember_writer
-- Its last epoch is in the queue: that is known until ?4.
UPDATE sqew_writer SET expires_at = ?4 WHERE queue_id = ?1 AND name = ?2 AND +epoch = ?3

-- name: forget_writers
-- +expires_at, looked at once more: somebody may have decided on another epoch while the row is waited for.
DELETE FROM sqew_writer WHERE (queue_id, name) IN
  (SELECT queue_id, name FROM sqew_writer WHERE expires_at <= ?1 ORDER BY expires_at LIMIT ?2) AND +expires_at <= ?1

-- name: forget_writer
-- One that never had an epoch in the queue, and has nothing staged any more.
DELETE FROM sqew_writer
 WHERE queue_id = ?1 AND name = ?2 AND +epoch IS NULL
   AND NOT EXISTS (SELECT 1 FROM sqew_staging WHERE queue_id = ?1 AND writer = ?2 AND epoch IS NOT NULL)

-- name: delete_writers_of
DELETE FROM sqew_writer
 WHERE (queue_id, name) IN (SELECT queue_id, name FROM sqew_writer WHERE queue_id = ?1 ORDER BY name LIMIT ?2)

-- name: open_staging
-- To be added to: it must not be promoted meanwhile.
SELECT id, ends_at FROM sqew_staging WHERE queue_id = ?1 AND writer = ?2 AND epoch = ?3 AND +due_at IS NULL {shared}

-- name: insert_staging
INSERT INTO sqew_staging (queue_id, writer, epoch, ends_at) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING

-- name: keep_staging
-- Unless somebody else adds to it just now: two who do would wait for each other. One who adds to it later will.
UPDATE sqew_staging SET ends_at = ?2
 WHERE id = (SELECT id FROM sqew_staging WHERE id = ?1 AND coalesce(ends_at, ?2) < ?2 {unless_locked})

-- name: find_staging
SELECT id, due_at FROM sqew_staging WHERE queue_id = ?1 AND writer = ?2 AND epoch = ?3 {locked}

-- name: stagings_of
SELECT id, epoch, due_at FROM sqew_staging WHERE queue_id = ?1 AND writer = ?2 AND epoch IS NOT NULL ORDER BY epoch

-- name: stagings_in
SELECT id FROM sqew_staging WHERE queue_id = ?1 AND epoch IS NOT NULL

-- name: next_promotion
-- When a server goes on with a promotion that was left undone.
SELECT due_at FROM sqew_staging WHERE due_at IS NOT NULL ORDER BY due_at LIMIT 1

-- name: due_promotion
-- The first of its writer's. Where others are at it, it is not left undone.
SELECT id, queue_id, writer, epoch FROM sqew_staging s
 WHERE due_at <= ?1 AND NOT EXISTS (SELECT 1 FROM sqew_staging e WHERE e.queue_id = s.queue_id AND e.writer = s.writer
                                       AND e.epoch < s.epoch AND +e.due_at IS NOT NULL)
 ORDER BY due_at LIMIT 1 {unless_locked}

-- name: decided_staging
-- The first of a writer's epochs that are not in the queue yet, and are to be.
SELECT id, epoch FROM sqew_staging
 WHERE queue_id = ?1 AND writer = ?2 AND epoch IS NOT NULL AND +due_at IS NOT NULL ORDER BY epoch LIMIT 1 {locked}

-- name: decided_stagings
-- All that is to be in a queue, and is not yet.
SELECT id FROM sqew_staging WHERE queue_id = ?1 AND epoch IS NOT NULL AND +due_at IS NOT NULL

-- name: promote_staging
UPDATE sqew_staging SET due_at = ?2, ends_at = NULL WHERE id = ?1

-- name: end_staging
UPDATE sqew_staging SET epoch = NULL, due_at = NULL, ends_at = ?2 WHERE id = ?1

-- name: end_stagings_until
-- What a writer has staged of this epoch; and of older ones, unless it was decided that they are to be in the queue.
UPDATE sqew_staging SET epoch = NULL, due_at = NULL, ends_at = ?4
 WHERE queue_id = ?1 AND writer = ?2 AND epoch <= ?3 AND (epoch = ?3 OR +due_at IS NULL)

-- name: end_stagings_of
UPDATE sqew_staging SET epoch = NULL, due_at = NULL, ends_at = ?2 WHERE queue_id = ?1

-- name: ended_staging
SELECT id, queue_id, writer FROM sqew_staging WHERE ends_at <= ?1 ORDER BY ends_at LIMIT 1 {unless_locked}

-- name: delete_staging
DELETE FROM sqew_staging WHERE id = ?1

-- name: open_part
-- To be added to, by one at a time.
INSERT INTO sqew_part (staging_id, name, messages) VALUES (?1, ?2, 0)
ON CONFLICT (staging_id, name) DO UPDATE SET messages = sqew_part.messages
RETURNING id, messages

-- name: parts_of
SELECT name, id, messages FROM sqew_part WHERE staging_id = ?1

-- name: count_staged
SELECT count(*), CAST(coalesce(sum(messages), 0) AS BIGINT) FROM sqew_part WHERE staging_id = ?1

-- name: count_turns
SELECT CAST(coalesce(sum(messages), 0) AS BIGINT) FROM sqew_part WHERE staging_id = ?1 AND turn IS NOT NULL

-- name: give_turn
UPDATE sqew_part SET turn = ?2 WHERE id = ?1

-- name: next_part
SELECT id, messages FROM sqew_part WHERE staging_id = ?1 AND turn IS NOT NULL ORDER BY turn LIMIT 1

-- name: change_part
UPDATE sqew_part SET messages = messages + ?2 WHERE id = ?1

-- name: delete_part
DELETE FROM sqew_part WHERE id = ?1

-- name: delete_parts_of
DELETE FROM sqew_part WHERE staging_id = ?1

-- name: insert_chunk
INSERT INTO sqew_chunk (staging_id, part_id, messages, packed) VALUES (?1, ?2, ?3, ?4)

-- name: next_chunk
SELECT id, messages, packed FROM sqew_chunk WHERE staging_id = ?1 AND part_id = ?2 ORDER BY id LIMIT 1

-- name: check_chunks
-- When the whole store is checked.
SELECT s.queue_id, s.writer, s.epoch, c.messages, CAST(c.packed AS BLOB)
  FROM sqew_chunk c JOIN sqew_staging s ON s.id = c.staging_id

-- name: delete_chunk
DELETE FROM sqew_chunk WHERE id = ?1

-- name: delete_chunks_of
DELETE FROM sqew_chunk WHERE id IN (SELECT id FROM sqew_chunk WHERE staging_id = ?1 ORDER BY part_id, id LIMIT ?2)
