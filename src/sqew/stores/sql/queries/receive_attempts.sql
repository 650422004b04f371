-- Receives that were given a name, to be repeated where the answer was lost.

-- name: find_attempt
SELECT token, lease_until, messages FROM sqew_attempt WHERE queue_id = ?1 AND id = ?2 AND expires_at > ?3

-- name: save_attempt
INSERT INTO sqew_attempt (queue_id, id, token, lease_until, messages, expires_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT (queue_id, id) DO UPDATE SET token = excluded.token, lease_until = excluded.lease_until,
                                         messages = excluded.messages, expires_at = excluded.expires_at

-- name: forget_attempts
-- +expires_at as in forget_keys.
DELETE FROM sqew_attempt WHERE (queue_id, id) IN
  (SELECT queue_id, id FROM sqew_attempt WHERE expires_at <= ?1 ORDER BY expires_at LIMIT ?2) AND +expires_at <= ?1

-- name: held_in_attempt
-- A message of the attempt, unless it was settled or its lease was changed since.
SELECT {delivered} FROM sqew_message WHERE id = ?1 AND queue_id = ?2 AND token = ?3 AND lease_until = ?4 {locked}

-- name: renew_lease
-- A follower in a FIFO group stays out of the claim index.
UPDATE sqew_message
   SET lease_until = ?2, due_at = CASE WHEN due_at IS NOT NULL THEN CAST(?2 AS BIGINT) END,
       dies_at = CASE WHEN dies_at IS NOT NULL THEN CAST(?2 AS BIGINT) END
 WHERE id = ?1
