-- Sends, receives and acks of plain messages: statements that are a transaction each (see set_based.py).

-- name: insert_plain
-- All of a batch, in the order in which they are given: rows that RETURNING names are in the order of their ids. What
-- those from place ?3[n] on have in common is the n-th of ?4 to ?9.
INSERT INTO sqew_message (id, queue_id, lane_id, priority, due_at, available_at, created_at, expires_at, is_text,
                          checksum, headers, body)
SELECT nextval('sqew_message_id'), (?4::bigint[])[kind], (?5::bigint[])[kind], (?6::bigint[])[kind],
       (?7::bigint[])[kind], (?7::bigint[])[kind], ?2, (?8::bigint[])[kind], (?9::bigint[])[kind],
       checksum, headers, body
  FROM unnest(?10::bigint[], ?11::bytea[], ?12::bytea[]) WITH ORDINALITY AS new (checksum, headers, body, place),
       LATERAL width_bucket(place, ?3::bigint[]) AS kind
 WHERE (SELECT sqew_catalog()) = ?1 AND (?13::text IS NULL OR (SELECT set_config('synchronous_commit', ?13, TRUE)) = ?13)
RETURNING id

-- name: insert_alike
-- The same for messages that differ in their bodies only: an array fewer to send and to read for all that is alike.
INSERT INTO sqew_message (id, queue_id, lane_id, priority, due_at, available_at, created_at, expires_at, is_text,
                          checksum, body)
SELECT nextval('sqew_message_id'), ?3::bigint, ?4::bigint, ?5::bigint, ?6::bigint, ?6::bigint, ?2, ?7::bigint,
       ?8::bigint, checksum, body
  FROM unnest(?9::bigint[], ?10::bytea[]) AS new (checksum, body)
 WHERE (SELECT sqew_catalog()) = ?1 AND (?11::text IS NULL OR (SELECT set_config('synchronous_commit', ?11, TRUE)) = ?11)
RETURNING id

-- fragment: candidate
-- What must be known to claim a message, and whether it is one to be dealt with otherwise: exhausted, expired or large.
id AS candidate_id,
attempts >= ?9 OR coalesce(expires_at <= ?4, FALSE) OR body IS NULL OR coalesce(octet_length(headers) > 2048, FALSE)
AS other

-- fragment: of_bucket
-- Ready messages of one (lane, priority).
queue_id = ?1 AND lane_id = ?2 AND priority = ?3 AND due_at IS NOT NULL AND due_at <= ?4

-- name: claim_plain
-- Lease up to ?7 messages of one (lane, priority) after the position (?5, ?6). Where one of them is not plain, none is
-- leased; nor where it had to wait (for who changes a queue), and the leases have begun long ago. Those from place
-- ?10[n] on have the n-th lease: until ?11, token ?12, holder ?13.
WITH candidate AS MATERIALIZED (
  SELECT {candidate} FROM sqew_message WHERE {of_bucket} AND (due_at, id) > (?5::bigint, ?6::bigint)
                                         AND (SELECT sqew_catalog()) = ?8
   ORDER BY due_at, id LIMIT ?7 FOR UPDATE SKIP LOCKED
), placed AS MATERIALIZED (
  SELECT candidate_id, width_bucket(row_number() OVER (), ?10::bigint[]) AS slot FROM candidate
   -- Decided once, for all: the clock goes on from row to row.
   WHERE (SELECT NOT bool_or(other) AND clock_timestamp() < statement_timestamp() + interval '100 ms' FROM candidate)
)
UPDATE sqew_message
   SET available_at = due_at, due_at = (?11::bigint[])[slot], lease_until = (?11::bigint[])[slot],
       attempts = attempts + 1, token = (?12::text[])[slot], leased_by = (?13::text[])[slot], received_at = ?4,
       first_received_at = coalesce(first_received_at, ?4),
       dies_at = CASE WHEN attempts + 1 >= ?9 THEN (?11::bigint[])[slot] END
  -- Not with =, by which both could be brought into one order: a table that was empty when somebody last counted it is
  -- then read whole, with a look at all candidates for each of its rows.
  FROM placed WHERE id >= candidate_id AND id <= candidate_id
RETURNING {delivered}, slot

-- name: unclaim
-- One of the messages that were claimed together turned out to be damaged: as they were, for the long way to deal with.
UPDATE sqew_message
   SET due_at = available_at, lease_until = NULL, attempts = attempts - 1, token = NULL, leased_by = NULL,
       received_at = NULL, first_received_at = nullif(first_received_at, received_at), dies_at = NULL
 WHERE id = ANY(?1::bigint[]) AND token = ?2

-- fragment: leaves_nothing
-- No key to remember, no group to go on with, no body elsewhere.
m.key IS NULL AND m.group_id IS NULL AND m.body IS NOT NULL

-- fragment: named
-- Messages by their ids (?2). Of those from place ?3[n] on, the queue, the token and the holder are the n-th of ?4 to ?6.
(SELECT id, (?4::bigint[])[lease] AS queue_id, (?5::text[])[lease] AS token, (?6::text[])[lease] AS holder
   FROM unnest(?2::bigint[]) WITH ORDINALITY AS listed (id, place), LATERAL width_bucket(place, ?3::bigint[]) AS lease
) AS named

-- fragment: is_named
-- As in `claim_plain`, so that the table is never read whole.
m.id >= named.id AND m.id <= named.id AND m.queue_id + 0 = named.queue_id AND (named.token IS NULL OR m.token = named.token)
AND (named.holder IS NULL OR m.leased_by = named.holder)

-- name: finish_alike
-- Delete messages of one queue that were received under one lease, and leave nothing behind.
DELETE FROM sqew_message AS m
 WHERE m.id = ANY(?2::bigint[]) AND m.queue_id = ?3 AND m.token = ?4 AND {leaves_nothing}
   AND (SELECT sqew_catalog()) = ?1
RETURNING m.id, m.lane_id, m.attempts, m.leased_by, m.received_at

-- name: finish_plain
-- The same for messages of all queues and leases.
DELETE FROM sqew_message AS m
 USING {named}
 WHERE {is_named} AND {leaves_nothing} AND (SELECT sqew_catalog()) = ?1
RETURNING m.id, m.lane_id, m.attempts, m.leased_by, m.received_at

-- name: finish_leased
-- Of whatever queue (?4: of these), and by whomever they are leased, if the lease lasts beyond ?3.
DELETE FROM sqew_message AS m
 WHERE m.id = ANY(?2::bigint[]) AND m.lease_until > ?3 AND m.queue_id = ANY(?4::bigint[]) AND {leaves_nothing}
   AND (SELECT sqew_catalog()) = ?1
RETURNING m.id, m.lane_id, m.attempts, m.leased_by, m.received_at, m.queue_id

-- name: finish_counted
-- The same where some are of queues with a quota (?7): how many those hold is written down.
WITH gone AS (
  DELETE FROM sqew_message AS m
   USING {named}
   WHERE {is_named} AND {leaves_nothing} AND (SELECT sqew_catalog()) = ?1
  RETURNING m.id, m.lane_id, m.attempts, m.leased_by, m.received_at, m.queue_id
), counted AS (
  INSERT INTO sqew_depth (queue_id, change, is_sum)
  SELECT queue_id, -count(*), 0 FROM gone WHERE queue_id = ANY(?7::bigint[]) GROUP BY queue_id
)
SELECT id, lane_id, attempts, leased_by, received_at FROM gone
