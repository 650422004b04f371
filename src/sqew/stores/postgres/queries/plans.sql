-- Where PostgreSQL must be kept from another index than the one that is meant: it would go by what statistics say of all
-- queues, and walk along the ids of all (see PLANNING in connection.py).

-- fragment: of_group
-- Of one FIFO group, in the order of ids.
group_id IS NOT NULL AND (queue_id, group_id) >= (?1, ?2) AND (queue_id, group_id) <= (?1, ?2)

-- name: group_head
SELECT id, available_at, due_at FROM sqew_message WHERE {of_group} ORDER BY queue_id, group_id, id LIMIT 1

-- name: demote_second
UPDATE sqew_message SET due_at = NULL
 WHERE id = (SELECT id FROM sqew_message
              WHERE group_id IS NOT NULL AND (queue_id, group_id, id) > (?1, ?2, ?3) AND (queue_id, group_id) <= (?1, ?2)
              ORDER BY queue_id, group_id, id LIMIT 1)
   AND +due_at IS NOT NULL

-- name: next_follower
SELECT {delivered} FROM sqew_message
 WHERE group_id IS NOT NULL AND (queue_id, group_id, id) > (?1, ?2, ?3) AND (queue_id, group_id) <= (?1, ?2)
 ORDER BY queue_id, group_id, id LIMIT 1

-- name: first_letter
SELECT id FROM sqew_message WHERE {of_group} AND origin || '' = ?3 AND died_at <= ?4
 ORDER BY queue_id, group_id, id LIMIT 1

-- name: dead_letters
SELECT {stored} FROM sqew_message
 WHERE origin IS NOT NULL AND (origin, id) > (?1, ?2) AND origin <= ?1 AND {not_deleted} ORDER BY origin, id LIMIT ?3

-- name: count_dead_letters
SELECT count(*) FROM (SELECT queue_id FROM sqew_message WHERE origin >= ?1 AND origin <= ?1 ORDER BY origin, id OFFSET 0)
       AS letters
 WHERE {not_deleted}

-- name: returnable
SELECT {stored} FROM sqew_message
 WHERE origin >= ?1 AND origin <= ?1 AND (lease_until IS NULL OR lease_until <= ?2) AND (?4 OR {in_turn})
   AND {not_deleted}
 ORDER BY origin, id LIMIT ?3 {locked}

-- name: letters_after
SELECT {stored}, (lease_until IS NULL OR lease_until <= ?2) AND {in_turn} FROM sqew_message
 WHERE origin IS NOT NULL AND (queue_id, id) > (?1, ?3) AND queue_id <= ?1 ORDER BY queue_id, id LIMIT ?4 {locked}

-- name: dead_in_archive
SELECT {archived} FROM sqew_archive
 WHERE queue_id IS NOT NULL AND (queue_id, outcome, id) > (?1, 'dead', ?2) AND (queue_id, outcome) <= (?1, 'dead')
 ORDER BY queue_id, outcome, id LIMIT ?3

-- name: list_archive
SELECT {archived} FROM sqew_archive
 WHERE queue_id IS NOT NULL AND (queue_id, outcome, id) > (?1, ?4, ?2) AND (queue_id, outcome) <= (?1, ?4)
 ORDER BY queue_id, outcome, id LIMIT ?3

-- name: archive_to_redate
SELECT id, finished_at, purge_at, length(body) FROM sqew_archive
 WHERE queue_id IS NOT NULL AND (queue_id, outcome, id) > (?1, ?2, ?3) AND (queue_id, outcome) <= (?1, ?2)
 ORDER BY queue_id, outcome, id LIMIT ?4

-- name: subscriptions_to_pattern
SELECT {subscription} FROM sqew_subscription s WHERE (s.pattern, s.id) > (?1, ?2) AND s.pattern <= ?1
 ORDER BY s.pattern, s.id LIMIT ?3

-- name: subscriptions_of_queue
SELECT {subscription} FROM sqew_subscription s
 WHERE s.protocol = 'queue' AND (s.target, s.id) > (?1, ?2) AND s.target <= ?1 ORDER BY s.target, s.id LIMIT ?3

-- name: dead_letter_sources
SELECT name FROM sqew_queue WHERE dead_letter IS NOT NULL AND (dead_letter, name) > (?1, ?2) AND dead_letter <= ?1
 ORDER BY dead_letter, name LIMIT ?3

-- name: list_exhausted_of
SELECT {delivery} FROM sqew_delivery d {with_payload}
 WHERE d.due_at IS NULL AND (d.subscription_id, d.id) > (?1, ?2) AND d.subscription_id <= ?1
 ORDER BY d.subscription_id, d.id LIMIT ?3

-- name: exhausted_deliveries_of
SELECT id FROM sqew_delivery
 WHERE due_at IS NULL AND (subscription_id, id) > (?1, ?2) AND subscription_id <= ?1
 ORDER BY subscription_id, id LIMIT ?3 {locked}

-- name: next_chunk
SELECT id, messages, packed FROM sqew_chunk
 WHERE staging_id IS NOT NULL AND (staging_id, part_id) >= (?1, ?2) AND (staging_id, part_id) <= (?1, ?2)
 ORDER BY staging_id, part_id, id LIMIT 1

-- name: moves_of
SELECT {move_task} FROM sqew_move_task WHERE queue_id >= ?1 AND queue_id <= ?1
 ORDER BY queue_id DESC, number DESC LIMIT ?2

-- name: ends_of_bucket
SELECT min(id), max(id) FROM (
  SELECT id FROM sqew_message WHERE queue_id = ?1 AND lane_id = ?2 AND priority = ?3 AND due_at IS NOT NULL
   ORDER BY due_at, id OFFSET 0) AS bucket

-- name: ends_of_groups
SELECT min(id), max(id) FROM (
  SELECT id FROM sqew_message WHERE queue_id = ?1 AND group_id IS NOT NULL ORDER BY group_id, id OFFSET 0) AS groups

-- name: lane_in_use
-- While everybody waits. What is not claimable stands behind others in a group.
SELECT 1 WHERE EXISTS (SELECT FROM sqew_message WHERE queue_id = ?1 AND lane_id = ?2 AND due_at IS NOT NULL
                        ORDER BY priority, due_at, id LIMIT 1)
            OR EXISTS (SELECT FROM sqew_message WHERE queue_id = ?1 AND group_id IS NOT NULL AND lane_id + 0 = ?2
                        ORDER BY group_id, id LIMIT 1)

-- fragment: archived_so
-- What ended so, in the order of ids, between two of them.
queue_id IS NOT NULL AND (queue_id, outcome, id) > (?1, ?2, ?3) AND (queue_id, outcome, id) <= (?1, ?2, ?4)

-- name: archive_end
SELECT max(id), count(*), CAST(coalesce(sum(size), 0) AS BIGINT)
  FROM (SELECT id, length(body) + coalesce(length(headers), 0) AS size FROM sqew_archive
         WHERE {archived_so} ORDER BY queue_id, outcome, id LIMIT ?5) AS step

-- name: export_archived
SELECT {exported_body}, lane, priority, attempts, created_at * 1000, available_at * 1000, key, group_id, outcome,
       finished_at * 1000, coalesce(reason, '')
  FROM sqew_archive WHERE {archived_so} ORDER BY queue_id, outcome, id

-- fragment: with_payload
-- Looked for once for each delivery: as a join, it could be read whole for each where there was none when somebody
-- counted. (OFFSET 0 keeps it from being made one.)
LEFT JOIN LATERAL (SELECT routing_key, message_id, form FROM sqew_payload WHERE id = d.payload_id OFFSET 0) AS p ON TRUE

-- name: subscription_taking
SELECT coalesce(s.uuid, ''), s.state = 'confirmed', s.details, t.attributes
  FROM sqew_subscription s
  LEFT JOIN LATERAL (SELECT attributes FROM sqew_topic WHERE name = s.pattern AND s.uuid IS NOT NULL OFFSET 0) AS t ON TRUE
 WHERE s.id = ?1

-- name: subscription_to
SELECT {subscription} FROM sqew_subscription s
 WHERE (s.pattern, s.target) >= (?1, ?2) AND (s.pattern, s.target) <= (?1, ?2) ORDER BY s.pattern, s.target LIMIT 1

-- name: turns
WITH RECURSIVE turn (subscription_id, due_at) AS (
  SELECT * FROM (SELECT subscription_id, due_at FROM sqew_delivery
                  WHERE due_at IS NOT NULL AND subscription_id > ?1 AND subscription_id <= ?2
                  ORDER BY subscription_id, due_at LIMIT 1) AS first
  UNION ALL
  SELECT next.subscription_id, next.due_at
    FROM turn CROSS JOIN LATERAL (SELECT subscription_id, due_at FROM sqew_delivery
                                   WHERE due_at IS NOT NULL AND subscription_id > turn.subscription_id
                                     AND subscription_id <= ?2
                                   ORDER BY subscription_id, due_at LIMIT 1) AS next
)
SELECT subscription_id, due_at <= ?4 FROM turn LIMIT ?3

-- fragment: in_turn
-- Not with EXISTS, of which PostgreSQL forgets the order.
(due_at IS NOT NULL OR (
  SELECT held.id FROM sqew_message AS held
   WHERE held.group_id IS NOT NULL AND held.lease_until IS NOT NULL
     AND (held.queue_id, held.group_id, held.lease_until) > (sqew_message.queue_id, sqew_message.group_id, ?2)
     AND (held.queue_id, held.group_id) <= (sqew_message.queue_id, sqew_message.group_id) AND +held.id < sqew_message.id
   ORDER BY held.queue_id, held.group_id, held.lease_until LIMIT 1) IS NULL)

-- name: find_dead_letter
SELECT {stored} FROM sqew_message
 WHERE origin >= ?1 AND origin <= ?1 AND id = ?3 AND (lease_until IS NULL OR lease_until <= ?2) AND (?4 OR {in_turn})
   AND {not_deleted}
 ORDER BY origin, id LIMIT 1 {locked}

-- name: due_promotion
SELECT id, queue_id, writer, epoch FROM sqew_staging s
 WHERE due_at <= ?1
   AND (SELECT e.id FROM sqew_staging e
         WHERE (e.queue_id, e.writer) >= (s.queue_id, s.writer)
           AND (e.queue_id, e.writer, e.epoch) < (s.queue_id, s.writer, s.epoch) AND +e.due_at IS NOT NULL
         ORDER BY e.queue_id, e.writer, e.epoch LIMIT 1) IS NULL
 ORDER BY due_at LIMIT 1 {unless_locked}

-- name: find_attempt
SELECT token, lease_until, messages FROM sqew_attempt
 WHERE (queue_id, id) >= (?1, ?2) AND (queue_id, id) <= (?1, ?2) AND expires_at > ?3 ORDER BY queue_id, id LIMIT 1

-- name: move_running
SELECT 1 FROM sqew_move_task WHERE queue_id >= ?1 AND queue_id <= ?1 AND due_at IS NOT NULL ORDER BY queue_id LIMIT 1

-- What is deleted by the hundred is found first, and then looked for by its key: IN is a join, which may begin with all
-- that there is.

-- name: delete_archive_of
DELETE FROM sqew_archive WHERE id = ANY(ARRAY(SELECT id FROM sqew_archive WHERE queue_id = ?1 LIMIT ?2))

-- name: delete_chunks_of
DELETE FROM sqew_chunk
 WHERE id = ANY(ARRAY(SELECT id FROM sqew_chunk WHERE staging_id = ?1 ORDER BY part_id, id LIMIT ?2))

-- name: delete_keys_of
DELETE FROM sqew_key
 WHERE queue_id = ?1 AND key = ANY(ARRAY(SELECT key FROM sqew_key WHERE queue_id = ?1 ORDER BY key LIMIT ?2))

-- name: delete_writers_of
DELETE FROM sqew_writer
 WHERE queue_id = ?1 AND name = ANY(ARRAY(SELECT name FROM sqew_writer WHERE queue_id = ?1 ORDER BY name LIMIT ?2))

-- name: forget_keys
WITH old AS MATERIALIZED (SELECT queue_id, key FROM sqew_key WHERE expires_at <= ?1 ORDER BY expires_at LIMIT ?2)
DELETE FROM sqew_key AS k USING old
 WHERE (k.queue_id, k.key) >= (old.queue_id, old.key) AND (k.queue_id, k.key) <= (old.queue_id, old.key)
   AND coalesce(k.expires_at <= ?1, FALSE)

-- name: forget_attempts
WITH old AS MATERIALIZED (SELECT queue_id, id FROM sqew_attempt WHERE expires_at <= ?1 ORDER BY expires_at LIMIT ?2)
DELETE FROM sqew_attempt AS a USING old
 WHERE (a.queue_id, a.id) >= (old.queue_id, old.id) AND (a.queue_id, a.id) <= (old.queue_id, old.id)
   AND coalesce(a.expires_at <= ?1, FALSE)

-- name: forget_writers
WITH old AS MATERIALIZED (SELECT queue_id, name FROM sqew_writer WHERE expires_at <= ?1 ORDER BY expires_at LIMIT ?2)
DELETE FROM sqew_writer AS w USING old
 WHERE (w.queue_id, w.name) >= (old.queue_id, old.name) AND (w.queue_id, w.name) <= (old.queue_id, old.name)
   AND coalesce(w.expires_at <= ?1, FALSE)
