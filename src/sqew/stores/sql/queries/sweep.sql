-- Upkeep in small steps, and purging.

-- fragment: doomed
id, queue_id, lane_id, attempts, key, group_id, body IS NULL

-- name: expired
-- A message that is being worked on may outlive its TTL until its lease ends.
SELECT {doomed} FROM sqew_message
 WHERE expires_at <= ?1 AND (lease_until IS NULL OR lease_until <= ?1)
 ORDER BY expires_at LIMIT ?2 {unless_locked}

-- name: exhausted
-- Leases of a last delivery that ended without ack.
SELECT {held} FROM sqew_message WHERE dies_at <= ?1 ORDER BY dies_at LIMIT ?2 {unless_locked}

-- name: spare
-- The policy has since become more generous: this was not the last delivery.
UPDATE sqew_message SET dies_at = NULL WHERE id = ?1

-- name: forget_keys
DELETE FROM sqew_key WHERE (queue_id, key) IN
  (SELECT queue_id, key FROM sqew_key WHERE expires_at <= ?1 ORDER BY expires_at LIMIT ?2)

-- name: forget_archived
DELETE FROM sqew_archive WHERE id IN
  (SELECT id FROM sqew_archive WHERE purge_at <= ?1 ORDER BY purge_at LIMIT ?2)

-- name: next_sweep
-- When the next of these is due: nothing needs to look before.
SELECT min(at) FROM (
  SELECT * FROM (SELECT expires_at AS at FROM sqew_message WHERE expires_at > ?1 ORDER BY expires_at LIMIT 1) AS messages
  UNION ALL
  -- What is expired and still there is in somebody's hands.
  SELECT * FROM (SELECT min(lease_until) FROM sqew_message WHERE expires_at <= ?1) AS held
  UNION ALL
  SELECT * FROM (SELECT dies_at FROM sqew_message WHERE dies_at IS NOT NULL ORDER BY dies_at LIMIT 1) AS dying
  UNION ALL
  SELECT * FROM (SELECT expires_at FROM sqew_key WHERE expires_at IS NOT NULL ORDER BY expires_at LIMIT 1) AS keys
  UNION ALL
  SELECT * FROM (SELECT purge_at FROM sqew_archive WHERE purge_at IS NOT NULL ORDER BY purge_at LIMIT 1) AS archived
  UNION ALL
  SELECT * FROM (SELECT expires_at FROM sqew_attempt WHERE expires_at > 0 ORDER BY expires_at LIMIT 1) AS subscriptions
  UNION ALL
  SELECT * FROM (SELECT ends_at FROM sqew_subscription WHERE ends_at IS NOT NULL ORDER BY ends_at LIMIT 1) AS attempts) AS due

-- name: deleted_queue
SELECT id, policy, created_at FROM sqew_queue WHERE name IS NULL LIMIT 1

-- name: purgeable_claimable
-- +id: with statistics SQLite would rather walk the ids of all queues.
SELECT {doomed} FROM sqew_message
 WHERE queue_id = ?1 AND lane_id = ?2 AND priority = ?3 AND due_at IS NOT NULL AND +id <= ?4 LIMIT ?5

-- name: purgeable_grouped
SELECT {doomed} FROM sqew_message WHERE queue_id = ?1 AND group_id IS NOT NULL AND id <= ?2
 ORDER BY group_id, id LIMIT ?3

-- name: delete_archive_of
DELETE FROM sqew_archive WHERE id IN (SELECT id FROM sqew_archive WHERE queue_id = ?1 LIMIT ?2)

-- name: delete_keys_of
DELETE FROM sqew_key WHERE (queue_id, key) IN (SELECT queue_id, key FROM sqew_key WHERE queue_id = ?1 LIMIT ?2)

-- name: delete_activity_of
DELETE FROM sqew_activity WHERE queue_id = ?1

-- name: delete_buckets_of
DELETE FROM sqew_bucket WHERE queue_id = ?1

-- name: delete_lanes_of
DELETE FROM sqew_lane WHERE queue_id = ?1

-- name: delete_queue
DELETE FROM sqew_queue WHERE id = ?1

-- name: add_activity
INSERT INTO sqew_activity (queue_id, lane, name, minute, count) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (queue_id, lane, name, minute) DO UPDATE SET count = sqew_activity.count + excluded.count

-- name: fold_activity
-- Minutes that are no longer kept apart go into minute 0.
INSERT INTO sqew_activity (queue_id, lane, name, minute, count)
SELECT queue_id, lane, name, 0, sum(count) FROM sqew_activity
 WHERE queue_id = ?1 AND minute > 0 AND minute < ?2 GROUP BY queue_id, lane, name
ON CONFLICT (queue_id, lane, name, minute) DO UPDATE SET count = sqew_activity.count + excluded.count

-- name: drop_folded_activity
DELETE FROM sqew_activity WHERE queue_id = ?1 AND minute > 0 AND minute < ?2
