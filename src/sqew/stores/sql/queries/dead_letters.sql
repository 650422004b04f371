-- Dead letters: listing, bringing back, deleting.

-- fragment: not_deleted
-- A deleted queue's rows are still there for a while. +queue_id: dead letters are found by where they came from.
+queue_id IN (SELECT id FROM sqew_queue WHERE name IS NOT NULL)

-- fragment: in_turn
-- ?2 now. Nobody holds one that stands before it in its FIFO group; in other queues all have a due_at, and no turns.
(due_at IS NOT NULL OR NOT EXISTS (
  SELECT 1 FROM sqew_message AS held INDEXED BY sqew_message_group_lease
   WHERE held.queue_id = sqew_message.queue_id AND held.group_id = sqew_message.group_id
     AND held.lease_until > ?2 AND +held.id < sqew_message.id))

-- name: dead_letters
SELECT {stored} FROM sqew_message WHERE origin = ?1 AND id > ?2 AND {not_deleted} ORDER BY id LIMIT ?3

-- name: dead_in_archive
-- Named, because with statistics SQLite would rather walk the ids of all queues.
SELECT {archived} FROM sqew_archive INDEXED BY sqew_archive_queue
 WHERE queue_id = ?1 AND outcome = 'dead' AND id > ?2 ORDER BY id LIMIT ?3

-- name: count_attempts
UPDATE sqew_message SET attempts = ?2 WHERE id = ?1

-- name: find_dead_letter
-- ?4: whether it may go out of turn, because it goes for good.
SELECT {stored} FROM sqew_message
 WHERE origin = ?1 AND id = ?3 AND (lease_until IS NULL OR lease_until <= ?2) AND (?4 OR {in_turn}) AND {not_deleted}
 {locked}

-- name: find_dead_in_archive
SELECT {archived} FROM sqew_archive WHERE queue_id = ?1 AND outcome = 'dead' AND id = ?2

-- name: returnable
-- The dead letters of a queue that nobody holds. ?4 as in find_dead_letter.
SELECT {stored} FROM sqew_message
 WHERE origin = ?1 AND (lease_until IS NULL OR lease_until <= ?2) AND (?4 OR {in_turn}) AND {not_deleted}
 ORDER BY id LIMIT ?3 {locked}

-- name: letters_after
-- What lies in a dead-letter queue and came from another, after an id; and whether it may go.
SELECT {stored}, (lease_until IS NULL OR lease_until <= ?2) AND {in_turn}
  FROM sqew_message INDEXED BY sqew_message_letter
 WHERE queue_id = ?1 AND origin IS NOT NULL AND id > ?3 ORDER BY id LIMIT ?4 {locked}

-- name: first_letter
-- The first of a FIFO group that came from a queue, until a time.
SELECT id FROM sqew_message INDEXED BY sqew_message_group
 WHERE queue_id = ?1 AND group_id = ?2 AND origin = ?3 AND died_at <= ?4 ORDER BY id LIMIT 1

-- name: residents
-- What lies in a dead-letter queue, wherever it came from: a redrive with a destination takes all of it.
SELECT {stored} FROM sqew_message
 WHERE queue_id = ?1 AND lane_id = ?2 AND priority = ?3 AND due_at IS NOT NULL
   AND (lease_until IS NULL OR lease_until <= ?4) AND coalesce(died_at, created_at) <= ?6
 ORDER BY due_at, id LIMIT ?5 {locked}

-- name: bring_back
-- ?2 queue, ?3 lane, ?4 due_at, ?5 available_at, ?6 expires_at, ?7 group, ?8 key
UPDATE sqew_message
   SET queue_id = ?2, lane_id = ?3, due_at = ?4, available_at = ?5, expires_at = ?6, group_id = ?7, key = ?8,
       attempts = 0, lease_until = NULL, token = NULL, leased_by = NULL, received_at = NULL, first_received_at = NULL,
       dies_at = NULL, origin = NULL, origin_lane = NULL, reason = NULL, died_at = NULL
 WHERE id = ?1

-- name: delete_archived
-- Unless somebody else was quicker: then it is gone, or back here since, finished.
DELETE FROM sqew_archive WHERE id = ?1 AND outcome = 'dead'
