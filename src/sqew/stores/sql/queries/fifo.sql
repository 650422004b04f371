-- FIFO groups: only the head of a group is in the claim index, and only while none of the group is in flight.

-- name: group_exists
-- Whether a new message of the group stands behind another.
SELECT 1 FROM sqew_message WHERE queue_id = ?1 AND group_id = ?2 LIMIT 1

-- name: group_head
-- The message whose turn it is.
SELECT id, available_at, due_at FROM sqew_message WHERE queue_id = ?1 AND group_id = ?2 ORDER BY id LIMIT 1

-- name: group_busy_until
-- When the last lease in the group ends.
SELECT max(lease_until) FROM sqew_message WHERE queue_id = ?1 AND group_id = ?2 AND lease_until IS NOT NULL

-- name: set_due
UPDATE sqew_message SET due_at = ?2 WHERE id = ?1

-- name: demote_second
-- After a message came back in front of its group: the head until now stands second, and waits like the rest.
UPDATE sqew_message SET due_at = NULL
 WHERE id = (SELECT id FROM sqew_message WHERE queue_id = ?1 AND group_id = ?2 AND id > ?3 ORDER BY id LIMIT 1)
   AND +due_at IS NOT NULL

-- name: next_follower
-- The message behind a given one, to be taken in the same batch.
SELECT {delivered} FROM sqew_message
 WHERE queue_id = ?1 AND group_id = ?2 AND id > ?3
 ORDER BY id LIMIT 1

-- name: lease_follower
-- A follower is leased but stays out of the claim index: its head speaks for the group.
UPDATE sqew_message
   SET lease_until = ?2, attempts = attempts + 1, token = ?3, leased_by = ?4, received_at = ?5,
       first_received_at = coalesce(first_received_at, ?5), dies_at = ?6
 WHERE id = ?1
