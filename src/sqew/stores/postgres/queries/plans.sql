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
 WHERE (queue_id, outcome, id) > (?1, 'dead', ?2) AND (queue_id, outcome) <= (?1, 'dead')
 ORDER BY queue_id, outcome, id LIMIT ?3

-- name: list_archive
SELECT {archived} FROM sqew_archive
 WHERE (queue_id, outcome, id) > (?1, ?4, ?2) AND (queue_id, outcome) <= (?1, ?4)
 ORDER BY queue_id, outcome, id LIMIT ?3

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
SELECT {delivery} FROM sqew_delivery d LEFT JOIN sqew_payload p ON p.id = d.payload_id
 WHERE d.due_at IS NULL AND (d.subscription_id, d.id) > (?1, ?2) AND d.subscription_id <= ?1
 ORDER BY d.subscription_id, d.id LIMIT ?3

-- name: exhausted_deliveries_of
SELECT id FROM sqew_delivery
 WHERE due_at IS NULL AND (subscription_id, id) > (?1, ?2) AND subscription_id <= ?1
 ORDER BY subscription_id, id LIMIT ?3 {locked}

-- name: next_chunk
SELECT id, messages, packed FROM sqew_chunk WHERE (staging_id, part_id) >= (?1, ?2) AND (staging_id, part_id) <= (?1, ?2)
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
(queue_id, outcome, id) > (?1, ?2, ?3) AND (queue_id, outcome, id) <= (?1, ?2, ?4)

-- name: archive_end
SELECT max(id), count(*), CAST(coalesce(sum(size), 0) AS BIGINT)
  FROM (SELECT id, length(body) + coalesce(length(headers), 0) AS size FROM sqew_archive
         WHERE {archived_so} ORDER BY queue_id, outcome, id LIMIT ?5) AS step

-- name: export_archived
SELECT {exported_body}, lane, priority, attempts, created_at * 1000, available_at * 1000, key, group_id, outcome,
       finished_at * 1000, coalesce(reason, '')
  FROM sqew_archive WHERE {archived_so} ORDER BY queue_id, outcome, id
