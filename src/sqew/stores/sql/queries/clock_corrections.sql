-- After the clock was ahead: what was stored meanwhile has dates in the future. ?1 is the time now, and what lies after ?2
-- (a little later) can't have happened yet. Statements of this file read whole tables: they run when a clock was
-- corrected, and where a store is opened that looks like it.

-- name: newest_message
-- Ids go up with time.
SELECT created_at FROM sqew_message ORDER BY id DESC LIMIT 1

-- name: newest_waiting
-- What is due later than ?1, bucket by bucket: since when. CROSS JOIN, for SQLite would rather walk all messages.
SELECT max(m.created_at), max(m.received_at), max(m.died_at) FROM sqew_bucket b CROSS JOIN sqew_message m
 WHERE m.queue_id = b.queue_id AND m.lane_id = b.lane_id AND m.priority = b.priority AND m.due_at > ?1

-- name: newest_figures
SELECT max(minute) FROM sqew_activity

-- name: born_at
-- When the store was made, or the oldest of its queues: no time before both is right.
SELECT min(at) FROM (SELECT min(applied_at) AS at FROM sqew_migration UNION ALL SELECT min(created_at) FROM sqew_queue) AS born

-- name: newest_events
SELECT max(created_at), max(received_at), max(died_at) FROM sqew_message
 WHERE created_at > ?1 OR received_at > ?1 OR died_at > ?1

-- name: correct_expiry
-- Only where the clock is known to have been wrong: nothing may expire early.
UPDATE sqew_message SET expires_at = ?1 + (expires_at - created_at) WHERE created_at > ?2 AND expires_at IS NOT NULL

-- name: correct_leases
-- A lease lasts as long as it was taken for.
UPDATE sqew_message
   SET lease_until = ?1 + (lease_until - received_at), received_at = ?1,
       due_at = CASE WHEN due_at IS NOT NULL THEN ?1 + (lease_until - received_at) END,
       dies_at = CASE WHEN dies_at IS NOT NULL THEN ?1 + (lease_until - received_at) END,
       available_at = CASE WHEN available_at > ?1 THEN CAST(?1 AS BIGINT) ELSE available_at END
 WHERE received_at > ?2 AND lease_until IS NOT NULL

-- name: correct_letters
UPDATE sqew_message
   SET due_at = CASE WHEN due_at IS NOT NULL THEN ?1 + (due_at - died_at) END, available_at = ?1 + (available_at - died_at)
 WHERE died_at > ?2 AND lease_until IS NULL AND available_at >= died_at

-- name: correct_deaths
UPDATE sqew_message SET died_at = ?1 WHERE died_at > ?2

-- name: correct_retries
-- What was given back has no date of that. It is tried again as much earlier as time was ahead (?3), or now; but where
-- that was to be before ?4, when time got ahead, it has the right date.
UPDATE sqew_message
   SET due_at = CASE WHEN due_at IS NULL THEN NULL WHEN available_at - ?3 > ?1 THEN available_at - ?3 ELSE CAST(?1 AS BIGINT) END,
       available_at = CASE WHEN available_at - ?3 > ?1 THEN available_at - ?3 ELSE CAST(?1 AS BIGINT) END
 WHERE lease_until IS NULL AND first_received_at IS NOT NULL AND available_at > ?2 AND available_at >= ?4 AND (died_at IS NULL OR died_at < ?1)

-- name: correct_sent
-- Who was not received yet keeps its delay.
UPDATE sqew_message
   SET due_at = CASE WHEN due_at IS NOT NULL THEN ?1 + (available_at - created_at) END,
       available_at = ?1 + (available_at - created_at)
 WHERE created_at > ?2 AND lease_until IS NULL AND first_received_at IS NULL AND died_at IS NULL

-- name: correct_undelayed
-- The same where the clock may be slow: then what was delayed has the right date.
UPDATE sqew_message SET due_at = CASE WHEN due_at IS NOT NULL THEN CAST(?1 AS BIGINT) END, available_at = ?1
 WHERE created_at > ?2 AND lease_until IS NULL AND first_received_at IS NULL AND died_at IS NULL
   AND available_at <= created_at AND available_at > ?1

-- name: correct_requeued
-- What came back to its queue while time showed something between ?3 and ?4 has no date of that either.
UPDATE sqew_message SET due_at = CASE WHEN due_at IS NOT NULL THEN CAST(?1 AS BIGINT) END, available_at = ?1
 WHERE available_at > ?2 AND available_at >= ?3 AND available_at <= ?4 AND created_at < ?3
   AND lease_until IS NULL AND first_received_at IS NULL

-- name: correct_created
UPDATE sqew_message SET created_at = ?1 WHERE created_at > ?2

-- name: correct_first_received
UPDATE sqew_message SET first_received_at = ?1 WHERE first_received_at > ?2

-- name: correct_keys
-- No key of queue ?1 is remembered until later than ?2.
UPDATE sqew_key SET expires_at = ?2 WHERE queue_id = ?1 AND expires_at > ?2

-- name: correct_attempts
-- No receive is remembered until later than ?1.
DELETE FROM sqew_attempt WHERE expires_at > ?1

-- name: correct_consumers
UPDATE sqew_consumer SET held_until = ?1 + hold_ms WHERE held_until > ?2 + hold_ms

-- name: correct_claims
UPDATE sqew_claim SET lease_until = CASE WHEN lease_until - ?3 > ?1 THEN lease_until - ?3 ELSE CAST(?1 AS BIGINT) END
 WHERE lease_until > ?2 AND lease_until >= ?4

-- name: correct_deliveries
UPDATE sqew_delivery SET due_at = ?1 + (due_at - created_at)
 WHERE created_at > ?2 AND due_at >= created_at AND tried_at IS NULL AND claimed = 0

-- name: correct_claimed_deliveries
UPDATE sqew_delivery SET due_at = CASE WHEN due_at - ?3 > ?1 THEN due_at - ?3 ELSE CAST(?1 AS BIGINT) END
 WHERE claimed = 1 AND due_at > ?2 AND due_at >= ?4

-- name: correct_tried_deliveries
UPDATE sqew_delivery SET due_at = ?1 + (due_at - tried_at) WHERE tried_at > ?2 AND due_at >= tried_at AND claimed = 0

-- name: correct_delivered
UPDATE sqew_delivery
   SET created_at = CASE WHEN created_at > ?1 THEN CAST(?1 AS BIGINT) ELSE created_at END,
       tried_at = CASE WHEN tried_at > ?1 THEN CAST(?1 AS BIGINT) ELSE tried_at END
 WHERE created_at > ?2 OR tried_at > ?2

-- name: correct_promotions
-- No promotion is left alone until later than ?1.
UPDATE sqew_staging SET due_at = ?1 WHERE due_at > ?1

-- name: correct_moves
UPDATE sqew_move_task SET due_at = ?1 WHERE due_at > ?2

-- name: correct_figures
-- ?1 is the minute now.
INSERT INTO sqew_activity (queue_id, lane, name, minute, count)
SELECT queue_id, lane, name, CAST(?1 AS BIGINT), CAST(sum(count) AS BIGINT) FROM sqew_activity WHERE minute > ?1
 GROUP BY queue_id, lane, name
ON CONFLICT (queue_id, lane, name, minute) DO UPDATE SET count = sqew_activity.count + excluded.count

-- name: forget_figures
DELETE FROM sqew_activity WHERE minute > ?1

-- name: living_queues
SELECT id FROM sqew_queue WHERE name IS NOT NULL

-- name: groups_of
SELECT DISTINCT group_id FROM sqew_message WHERE queue_id = ?1 AND group_id IS NOT NULL
