-- Send, receive and ack of one plain message, each a statement that is its own transaction (see fast_paths.py).

-- fragment: same_catalog
-- No queue has changed since the caller looked: its policy, its lanes and its buckets are what the caller thinks.
(SELECT catalog FROM sqew_meta WHERE id = 1)

-- name: insert_plain
-- Nobody else has reserved ids since this process did: then its next id is the highest yet. Otherwise the message is of
-- no queue, and left out. (INSERT … SELECT … FROM sqew_meta, which says it more plainly, takes 0.8 µs longer.)
INSERT OR IGNORE INTO sqew_message (id, queue_id, lane_id, priority, due_at, available_at, created_at, expires_at,
                                    is_text, checksum, headers, body)
VALUES (?1, (SELECT ?2 FROM sqew_meta WHERE id = 1 AND catalog = ?12 AND next_id = ?13), ?3, ?4, ?5, ?5, ?6, ?7, ?8,
        ?9, ?10, ?11)

-- fragment: head
-- The first ready message of one (lane, priority), unless it must be dealt with otherwise.
-- A scalar subquery: IN (… LIMIT 1) takes twice as long.
id = (SELECT id FROM sqew_message
              WHERE queue_id = ?1 AND lane_id = ?2 AND priority = ?3 AND due_at <= ?4
              ORDER BY due_at, id LIMIT 1)
   AND attempts < ?5 AND (expires_at IS NULL OR expires_at > ?4) AND {same_catalog} = ?6
-- What the index says of it is also what its row says, unless the file is damaged.
   AND +lane_id = ?2 AND +priority = ?3

-- fragment: leaves_nothing
-- To delete the message is all there is to do.
key IS NULL AND group_id IS NULL AND body IS NOT NULL

-- name: claim_head
-- Lease the head.
UPDATE sqew_message
   SET available_at = due_at, due_at = ?7, lease_until = ?7, attempts = attempts + 1, token = ?8, leased_by = ?9,
       received_at = ?4, first_received_at = coalesce(first_received_at, ?4),
       dies_at = CASE WHEN attempts + 1 >= ?5 THEN ?7 END
 WHERE {head} AND sqew_intact({delivered})

-- name: take_head
-- Receive the head for good.
DELETE FROM sqew_message WHERE {head} AND {leaves_nothing} AND sqew_intact({delivered})

-- name: unclaim
-- The large body of the claimed message turned out to be damaged: as it was, for the long way to deal with.
UPDATE sqew_message
   SET due_at = available_at, lease_until = NULL, attempts = attempts - 1, token = NULL, leased_by = NULL,
       received_at = NULL, first_received_at = nullif(first_received_at, received_at), dies_at = NULL
 WHERE id = ?1 AND token = ?2

-- name: finish_plain
-- Delete a message that leaves nothing behind. ?6: only if its lease lasts beyond that time; NULL: in any case.
DELETE FROM sqew_message
 WHERE {authority} AND {leaves_nothing} AND {same_catalog} = ?5 AND (?6 IS NULL OR lease_until > ?6)
   AND sqew_capture(lane_id, attempts, leased_by, received_at)
