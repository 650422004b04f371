-- Queues, their lanes and their buckets.

-- name: catalog_version
SELECT catalog FROM sqew_meta WHERE id = 1

-- name: bump_catalog
UPDATE sqew_meta SET catalog = catalog + 1 WHERE id = 1 RETURNING catalog

-- name: salt
SELECT salt FROM sqew_meta WHERE id = 1

-- name: next_id
SELECT next_id FROM sqew_meta WHERE id = 1

-- name: reserve_ids
UPDATE sqew_meta SET next_id = ?1 WHERE id = 1

-- name: queue_by_name
SELECT id, name, policy, created_at, extras FROM sqew_queue WHERE name = ?1

-- name: queue_by_id
SELECT id, name, policy, created_at, extras FROM sqew_queue WHERE id = ?1 AND name IS NOT NULL

-- fragment: of_names
-- See statements.names.
name >= ?1 AND name < ?2 AND name <> ?3

-- name: list_queues
SELECT id, name, policy, created_at, extras FROM sqew_queue WHERE {of_names} ORDER BY name LIMIT ?4

-- name: dead_letter_sources
-- The queues whose dead letters go to one.
SELECT name FROM sqew_queue WHERE dead_letter = ?1 AND name > ?2 ORDER BY name LIMIT ?3

-- name: queues_near
-- For whoever misspelt one: its neighbours in the order of names, so that it takes no longer among a million.
SELECT name FROM (SELECT name FROM sqew_queue WHERE name < ?1 ORDER BY name DESC LIMIT ?2) AS earlier
UNION ALL SELECT name FROM (SELECT name FROM sqew_queue WHERE name > ?1 ORDER BY name LIMIT ?2) AS later

-- name: insert_queue
-- Two servers may make the same dead-letter queue at once, for a message that has died: one of them does.
INSERT INTO sqew_queue (name, policy, created_at, extras, dead_letter) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT DO NOTHING RETURNING id

-- name: update_policy
UPDATE sqew_queue SET policy = ?2, extras = ?3, dead_letter = ?4 WHERE id = ?1

-- name: forget_queue
UPDATE sqew_queue SET name = NULL WHERE id = ?1

-- name: lanes
SELECT id, name FROM sqew_lane WHERE queue_id = ?1 ORDER BY id

-- name: insert_lane
INSERT INTO sqew_lane (queue_id, id, name) VALUES (?1, ?2, ?3)

-- name: delete_lane
DELETE FROM sqew_lane WHERE queue_id = ?1 AND id = ?2

-- name: buckets
SELECT lane_id, priority FROM sqew_bucket WHERE queue_id = ?1 ORDER BY priority DESC

-- name: delete_bucket
DELETE FROM sqew_bucket WHERE queue_id = ?1 AND lane_id = ?2 AND priority = ?3

-- name: lane_in_use
SELECT 1 FROM sqew_message WHERE queue_id = ?1 AND lane_id = ?2 LIMIT 1
