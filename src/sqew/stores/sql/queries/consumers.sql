-- Consumers, and what they have claimed.

-- fragment: consumer
id, queue_id, name, owner, epoch, hold_ms, held_until, last, is_closing, spent

-- name: find_consumer
-- Whoever does something as a consumer has it alone.
SELECT {consumer} FROM sqew_consumer WHERE queue_id = ?1 AND name = ?2 {locked}

-- name: consumer_by_id
-- Where its owner is at work, it is left alone.
SELECT {consumer} FROM sqew_consumer WHERE id = ?1 {unless_locked}

-- name: look_at_consumer
SELECT {consumer} FROM sqew_consumer WHERE queue_id = ?1 AND name = ?2

-- name: consumers_of
SELECT {consumer} FROM sqew_consumer WHERE queue_id = ?1 AND name > ?2 ORDER BY name LIMIT ?3

-- name: consumers_near
-- For whoever misspelt one: its neighbours in the order of names.
SELECT name FROM (
    SELECT name FROM sqew_consumer WHERE queue_id = ?1 AND name < ?2 ORDER BY name DESC LIMIT ?3
) AS earlier
UNION ALL SELECT name FROM (
    SELECT name FROM sqew_consumer WHERE queue_id = ?1 AND name > ?2 ORDER BY name LIMIT ?3
) AS later

-- name: insert_consumer
INSERT INTO sqew_consumer (queue_id, name, owner, epoch, hold_ms, held_until, last, is_closing)
VALUES (?1, ?2, '', 0, 0, 0, 0, 0) ON CONFLICT DO NOTHING

-- name: open_consumer
-- Where one of that name was forgotten before, whoever had that one must not be taken for who has this one: so epochs
-- begin with the number of the consumer, which no other ever had.
UPDATE sqew_consumer
   SET owner = ?2, epoch = CASE WHEN epoch = 0 THEN (id - 1) * 1000000 + 1 ELSE epoch + 1 END, hold_ms = ?3,
       held_until = ?4, spent = 0
 WHERE id = ?1 RETURNING epoch

-- name: keep_consumer
UPDATE sqew_consumer SET hold_ms = ?2, held_until = ?3 WHERE id = ?1

-- name: close_consumer
-- Whoever had it has it no more.
UPDATE sqew_consumer SET epoch = epoch + 1, held_until = 0, is_closing = 1 WHERE id = ?1

-- name: delete_consumer
DELETE FROM sqew_consumer WHERE id = ?1

-- name: spend_claims
-- Claims up to ?2 were answered or finished: none of them can be made again under this epoch.
UPDATE sqew_consumer SET spent = ?2 WHERE id = ?1

-- name: set_last_claim
UPDATE sqew_consumer SET last = ?2 WHERE id = ?1 AND +last < ?2

-- fragment: claim
number, lease_until, messages, is_sealed

-- name: find_claim
SELECT {claim} FROM sqew_claim WHERE consumer_id = ?1 AND number = ?2

-- name: claims_of
SELECT {claim} FROM sqew_claim WHERE consumer_id = ?1 AND +lease_until > 0 ORDER BY number

-- name: first_claim
-- The next to be finished.
SELECT number FROM sqew_claim WHERE consumer_id = ?1 AND number <= ?2 ORDER BY number LIMIT 1

-- name: expired_claims
SELECT consumer_id, number FROM sqew_claim WHERE lease_until <= ?1 ORDER BY lease_until LIMIT ?2

-- name: add_to_claim
INSERT INTO sqew_claim (consumer_id, number, lease_until, messages, is_sealed) VALUES (?1, ?2, ?3, ?4, 0)
ON CONFLICT (consumer_id, number) DO UPDATE SET messages = sqew_claim.messages + excluded.messages

-- name: seal_claim
UPDATE sqew_claim SET is_sealed = 1, lease_until = ?3 WHERE consumer_id = ?1 AND number = ?2

-- name: renew_claims
-- Not those that are being given back.
UPDATE sqew_claim SET lease_until = ?2 WHERE consumer_id = ?1 AND +lease_until > 0

-- name: give_claim_back
UPDATE sqew_claim SET lease_until = 0 WHERE consumer_id = ?1 AND number = ?2

-- name: give_claims_back
UPDATE sqew_claim SET lease_until = 0 WHERE consumer_id = ?1

-- name: delete_claim
DELETE FROM sqew_claim WHERE consumer_id = ?1 AND number = ?2

-- name: delete_claims_of
DELETE FROM sqew_claim WHERE consumer_id = ?1

-- name: find_claim_chunk
SELECT messages, token, ids FROM sqew_claim_chunk WHERE consumer_id = ?1 AND number = ?2 AND chunk = ?3

-- name: first_claim_chunk
SELECT chunk, token, ids FROM sqew_claim_chunk WHERE consumer_id = ?1 AND number = ?2 ORDER BY chunk LIMIT 1

-- name: claim_chunks
SELECT chunk, messages FROM sqew_claim_chunk WHERE consumer_id = ?1 AND number = ?2 ORDER BY chunk

-- name: insert_claim_chunk
INSERT INTO sqew_claim_chunk (consumer_id, number, chunk, messages, token, ids) VALUES (?1, ?2, ?3, ?4, ?5, ?6)

-- name: shorten_claim_chunk
UPDATE sqew_claim_chunk SET ids = ?4 WHERE consumer_id = ?1 AND number = ?2 AND chunk = ?3

-- name: delete_claim_chunk
DELETE FROM sqew_claim_chunk WHERE consumer_id = ?1 AND number = ?2 AND chunk = ?3

-- name: delete_claim_chunks_of
DELETE FROM sqew_claim_chunk WHERE consumer_id = ?1

-- name: archive_claimed
-- What `archive_message` does, to all that a claim still holds of ?1. ?2 token, ?3 queue, ?4 now, ?5 purge_at
INSERT INTO sqew_archive (id, queue_id, lane, priority, attempts, available_at, created_at, finished_at, purge_at,
                          outcome, reason, key, group_id, is_text, checksum, headers, body)
SELECT m.id, m.queue_id, (SELECT l.name FROM sqew_lane l WHERE l.queue_id = m.queue_id AND l.id = m.lane_id), m.priority,
       m.attempts, m.available_at, m.created_at, ?4, ?5, 'done', NULL, m.key, m.group_id, m.is_text,
       CASE WHEN m.body IS NULL AND NOT EXISTS (SELECT 1 FROM sqew_body b WHERE b.id = m.id) THEN -1 ELSE m.checksum END,
       m.headers, coalesce(m.body, (SELECT b.body FROM sqew_body b WHERE b.id = m.id), x'')
  FROM sqew_message m WHERE {among_ids} AND token = ?2 AND +queue_id = ?3 {locked}

-- name: end_leases
-- What `extend_lease` does, to all that a claim still holds of ?1.
UPDATE sqew_message SET due_at = ?3, lease_until = ?3, dies_at = CASE WHEN dies_at IS NOT NULL THEN CAST(?3 AS BIGINT) END
 WHERE {among_ids} AND token = ?2

-- name: export_claimed
-- What a claim still holds. ?1 ids, ?2 token, ?3 queue, ?4 now.
SELECT {exported} FROM sqew_message WHERE {among_ids} AND token = ?2 AND +queue_id = ?3

-- name: claimed_messages
SELECT {stored} FROM sqew_message WHERE {among_ids} AND token = ?2
