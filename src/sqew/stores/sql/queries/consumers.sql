-- Consumers, and what they have claimed.

-- fragment: consumer
id, queue_id, name, owner, epoch, hold_ms, held_until, last, is_closing

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

-- name: insert_consumer
INSERT INTO sqew_consumer (queue_id, name, owner, epoch, hold_ms, held_until, last, is_closing)
VALUES (?1, ?2, '', 0, 0, 0, 0, 0) ON CONFLICT DO NOTHING

-- name: open_consumer
UPDATE sqew_consumer SET owner = ?2, epoch = epoch + 1, hold_ms = ?3, held_until = ?4 WHERE id = ?1

-- name: keep_consumer
UPDATE sqew_consumer SET hold_ms = ?2, held_until = ?3 WHERE id = ?1

-- name: close_consumer
-- Whoever had it has it no more.
UPDATE sqew_consumer SET epoch = epoch + 1, held_until = 0, is_closing = 1 WHERE id = ?1

-- name: delete_consumer
DELETE FROM sqew_consumer WHERE id = ?1

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
SELECT token, ids FROM sqew_claim_chunk WHERE consumer_id = ?1 AND number = ?2 AND chunk = ?3

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

-- name: export_claimed
-- What a claim still holds. ?1 ids, ?2 token, ?3 queue, ?4 now.
SELECT {exported} FROM sqew_message WHERE {among_ids} AND token = ?2 AND +queue_id = ?3

-- name: claimed_messages
SELECT {stored} FROM sqew_message WHERE {among_ids} AND token = ?2
