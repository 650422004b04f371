-- Upkeep in small steps, and purging.

-- fragment: doomed
id, queue_id, lane_id, attempts, key, group_id, body IS NULL

-- fragment: over_at
-- A message that is being worked on may outlive its TTL until its lease ends.
CASE WHEN lease_until > expires_at THEN lease_until ELSE expires_at END

-- name: expired
SELECT {doomed} FROM sqew_message WHERE expires_at IS NOT NULL AND {over_at} <= ?1
 ORDER BY {over_at} LIMIT ?2 {unless_locked}

-- name: exhausted
-- Leases of a last delivery that ended without ack.
SELECT {held} FROM sqew_message WHERE dies_at <= ?1 ORDER BY dies_at LIMIT ?2 {unless_locked}

-- name: spare
-- The policy has since become more generous: this was not the last delivery.
UPDATE sqew_message SET dies_at = NULL WHERE id = ?1

-- name: forget_keys
-- +expires_at, looked at once more: somebody may take an outlived key over while its row is waited for.
DELETE FROM sqew_key WHERE (queue_id, key) IN
  (SELECT queue_id, key FROM sqew_key WHERE expires_at <= ?1 ORDER BY expires_at LIMIT ?2) AND +expires_at <= ?1

-- name: seem_over_in_archive
-- By the retention of when they were archived. (In a damaged row anything may stand.)
SELECT id, coalesce(CAST(queue_id AS BIGINT), 0), coalesce(CAST(finished_at AS BIGINT), 0) FROM sqew_archive WHERE purge_at <= ?1 ORDER BY purge_at LIMIT ?2

-- name: forget_key
-- Its message is purged.
DELETE FROM sqew_key WHERE queue_id = ?1 AND key = ?2 AND message_id = ?3

-- name: keys_end
-- The last of the next so many keys.
SELECT max(key) FROM (SELECT key FROM sqew_key WHERE queue_id = ?1 AND key > ?2 ORDER BY key LIMIT ?3) AS step

-- name: forget_keys_between
-- A purge: of messages that were gone before it. What was sent meanwhile has higher ids.
DELETE FROM sqew_key WHERE queue_id = ?1 AND key > ?2 AND key <= ?3 AND +message_id < ?4
   AND (SELECT m.queue_id FROM sqew_message m WHERE m.id = message_id) IS DISTINCT FROM ?1

-- name: next_sweep
-- When the next of these is due: nothing needs to look before.
SELECT min(at) FROM (
  SELECT * FROM (SELECT {over_at} AS at FROM sqew_message WHERE expires_at IS NOT NULL AND {over_at} > 0
                  ORDER BY {over_at} LIMIT 1) AS messages
  UNION ALL
  SELECT * FROM (SELECT dies_at FROM sqew_message WHERE dies_at IS NOT NULL ORDER BY dies_at LIMIT 1) AS dying
  UNION ALL
  SELECT * FROM (SELECT expires_at FROM sqew_key WHERE expires_at IS NOT NULL ORDER BY expires_at LIMIT 1) AS keys
  UNION ALL
  SELECT * FROM (SELECT purge_at FROM sqew_archive WHERE purge_at IS NOT NULL ORDER BY purge_at LIMIT 1) AS archived
  UNION ALL
  SELECT * FROM (SELECT expires_at FROM sqew_attempt WHERE expires_at > 0 ORDER BY expires_at LIMIT 1) AS attempts
  UNION ALL
  SELECT * FROM (SELECT ends_at FROM sqew_subscription WHERE ends_at IS NOT NULL ORDER BY ends_at LIMIT 1) AS subscriptions
  UNION ALL
  SELECT * FROM (SELECT ends_at FROM sqew_staging WHERE ends_at IS NOT NULL ORDER BY ends_at LIMIT 1) AS stagings
  UNION ALL
  SELECT * FROM (SELECT expires_at FROM sqew_writer WHERE expires_at IS NOT NULL ORDER BY expires_at LIMIT 1) AS writers
  UNION ALL
  SELECT * FROM (SELECT lease_until FROM sqew_claim WHERE lease_until >= 0 ORDER BY lease_until LIMIT 1) AS claims
) AS due

-- name: deleted_queue
-- Its lanes are read by the next statement: who removes them must not be done by then.
SELECT id, policy, created_at FROM sqew_queue WHERE name IS NULL LIMIT 1 {unless_locked}

-- name: any_deleted_queue
SELECT 1 FROM sqew_queue WHERE name IS NULL LIMIT 1

-- name: purgeable_claimable
-- +id, and in order: with statistics either database would rather walk the ids of all queues.
SELECT {doomed} FROM sqew_message
 WHERE queue_id = ?1 AND lane_id = ?2 AND priority = ?3 AND due_at IS NOT NULL AND +id <= ?4
 ORDER BY due_at, id LIMIT ?5 {locked}

-- name: purgeable_grouped
SELECT {doomed} FROM sqew_message WHERE queue_id = ?1 AND group_id IS NOT NULL AND id <= ?2
 ORDER BY group_id, id LIMIT ?3 {locked}

-- name: delete_finished
-- When a lake has it, or it is over. By its id, whatever statistics say of its queue: coalesce and + keep its index out of it.
DELETE FROM sqew_archive WHERE id = ?1 AND coalesce(queue_id, -1) = ?2 AND +finished_at = ?3 RETURNING id

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
-- Minutes that are no longer kept apart are added up in minute 0. Each is given to who takes it away, and so added once.
DELETE FROM sqew_activity WHERE queue_id = ?1 AND minute > 0 AND minute < ?2 RETURNING queue_id, lane, name, count
