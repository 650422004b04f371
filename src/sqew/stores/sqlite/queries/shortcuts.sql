-- Send, receive and ack of one plain message, each a statement that is its own transaction (see shortcuts.py).

-- fragment: same_catalog
-- No queue has changed since the caller looked: its policy, its lanes and its buckets are what the caller thinks.
(SELECT catalog FROM sqew_meta WHERE id = 1)

-- name: insert_plain
-- Nobody else has reserved ids since this process did: then its next id is the highest yet.
INSERT INTO sqew_message (id, queue_id, lane_id, priority, due_at, available_at, created_at, expires_at, is_text,
                          checksum, body)
SELECT ?1, ?2, ?3, ?4, ?5, ?5, ?6, ?7, ?8, ?9, ?10 FROM sqew_meta WHERE id = 1 AND catalog = ?11 AND next_id = ?12

-- name: claim_head
-- Lease the first ready message of one (lane, priority), unless it must be dealt with otherwise.
-- A scalar subquery: IN (… LIMIT 1) takes twice as long.
UPDATE sqew_message
   SET available_at = due_at, due_at = ?5, lease_until = ?5, attempts = attempts + 1, token = ?6, leased_by = ?7,
       received_at = ?4, dies_at = CASE WHEN attempts + 1 >= ?8 THEN ?5 END
 WHERE id = (SELECT id FROM sqew_message
              WHERE queue_id = ?1 AND lane_id = ?2 AND priority = ?3 AND due_at <= ?4
              ORDER BY due_at, id LIMIT 1)
   AND attempts < ?8 AND (expires_at IS NULL OR expires_at > ?4) AND {same_catalog} = ?9
RETURNING {delivered}

-- name: unclaim
-- The claimed message turned out to be damaged: as it was, for the long way to deal with.
UPDATE sqew_message
   SET due_at = available_at, lease_until = NULL, attempts = attempts - 1, token = NULL, leased_by = NULL,
       received_at = NULL, dies_at = NULL
 WHERE id = ?1 AND token = ?2

-- name: finish_plain
-- Delete a message that leaves nothing behind: no key, no group, no large body.
DELETE FROM sqew_message
 WHERE {authority} AND key IS NULL AND group_id IS NULL AND body IS NOT NULL AND {same_catalog} = ?5
RETURNING lane_id, attempts, leased_by, received_at
