-- Retentions that were changed: dating anew what was dated by the former ones.

-- name: begin_redating
-- One that is under way begins again.
INSERT INTO sqew_redating (queue_id, kind, since, former, reached) VALUES (?1, ?2, ?3, ?4, '')
ON CONFLICT (queue_id, kind) DO UPDATE SET since = excluded.since, former = excluded.former, reached = ''

-- name: former_lifetimes
SELECT former FROM sqew_redating WHERE queue_id = ?1 AND kind = 'messages'

-- name: any_redating
SELECT 1 FROM sqew_redating LIMIT 1

-- name: next_redating
SELECT queue_id, kind, since, former, reached FROM sqew_redating LIMIT 1 {unless_locked}

-- name: redating_reached
UPDATE sqew_redating SET reached = ?3 WHERE queue_id = ?1 AND kind = ?2

-- name: end_redating
DELETE FROM sqew_redating WHERE queue_id = ?1 AND kind = ?2

-- name: end_redatings_of
DELETE FROM sqew_redating WHERE queue_id = ?1

-- name: archive_to_redate
SELECT id, coalesce(CAST(finished_at AS BIGINT), 0), CAST(purge_at AS BIGINT), coalesce(length(body), 0)
  FROM sqew_archive INDEXED BY sqew_archive_queue
 WHERE queue_id = ?1 AND outcome = ?2 AND id > ?3 ORDER BY id LIMIT ?4

-- name: redate_archived
-- Unless it was brought back meanwhile, and has finished again.
UPDATE sqew_archive SET purge_at = CAST(?3 AS BIGINT) WHERE id = ?1 AND +finished_at = ?2

-- name: redate_keys
-- None is remembered for longer than until ?4.
UPDATE sqew_key SET expires_at = ?4 WHERE queue_id = ?1 AND key > ?2 AND key <= ?3 AND coalesce(expires_at, 0) > ?4

-- name: redate_messages
-- Those that a queue gave the lifetime ?4 (NULL: for ever) get ?5: since they were sent, or came there as dead letters.
-- Those that the sender gave another keep it.
UPDATE sqew_message SET expires_at = coalesce(died_at, created_at) + CAST(?5 AS BIGINT)
 WHERE id > ?1 AND id <= ?2 AND +queue_id = ?3
   AND expires_at IS NOT DISTINCT FROM coalesce(died_at, created_at) + CAST(?4 AS BIGINT)
