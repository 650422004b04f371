-- API keys. Those of deleted queues are deleted with them.

-- name: keys_version
SELECT keys FROM sqew_meta WHERE id = 1

-- name: bump_keys
UPDATE sqew_meta SET keys = keys + 1 WHERE id = 1

-- name: insert_api_key
INSERT INTO sqew_api_key (queue_id, id, digest, scopes, label, secret, created_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)

-- name: count_api_keys
SELECT count(*) FROM sqew_api_key WHERE queue_id = ?1

-- name: api_keys_of
SELECT id, scopes, label, secret IS NOT NULL, created_at FROM sqew_api_key WHERE queue_id = ?1 ORDER BY id

-- name: all_api_keys
-- When a server starts, and when a key has changed.
SELECT queue_id, id, scopes, label, created_at, digest, secret FROM sqew_api_key ORDER BY queue_id, id

-- name: delete_api_key
DELETE FROM sqew_api_key WHERE queue_id = ?1 AND id = ?2

-- name: delete_api_keys_of
DELETE FROM sqew_api_key WHERE queue_id = ?1
