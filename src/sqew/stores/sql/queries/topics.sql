-- Topics of SNS, and their subscriptions as a whole. "+uuid": they are found by their pattern, however few have one.

-- name: insert_topic
INSERT INTO sqew_topic (name, attributes, tags, created_at) VALUES (?1, ?2, ?3, ?4)

-- name: topic
SELECT name, attributes, tags, created_at FROM sqew_topic WHERE name = ?1

-- name: topic_exists
-- On every publish to a topic.
SELECT 1 FROM sqew_topic WHERE name = ?1

-- name: list_topics
SELECT name, attributes, tags, created_at FROM sqew_topic WHERE {of_names} ORDER BY name LIMIT ?4

-- name: update_topic
UPDATE sqew_topic SET attributes = ?2, tags = ?3 WHERE name = ?1

-- name: delete_topic
DELETE FROM sqew_topic WHERE name = ?1

-- name: delete_subscriptions_to_topic
DELETE FROM sqew_subscription WHERE pattern = ?1 AND +uuid IS NOT NULL

-- name: count_subscriptions_to_topic
SELECT state, count(*) FROM sqew_subscription WHERE pattern = ?1 AND +uuid IS NOT NULL GROUP BY state

-- name: count_filters_of_topic
SELECT count(*) FROM sqew_subscription WHERE pattern = ?1 AND filtered = 1

-- name: count_filters
-- Before one more is added: of 10,000 at most.
SELECT count(*) FROM sqew_subscription WHERE filtered = 1

-- name: resign_subscriptions_to_topic
-- Those that want envelopes want them signed by another version.
UPDATE sqew_subscription SET form = ?2 WHERE pattern = ?1 AND +uuid IS NOT NULL AND form NOT IN (0, ?2)
